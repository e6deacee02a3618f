"""`VennAbersRegression`: a Venn-Abers predictor on the predicted medians at each threshold; lower and upper cdfs."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from streamcal.calibrators.venn_abers import VennAbers
from streamcal.maps.points import POINTS
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.scales import Interval
from streamcal.parameters.types import FloatArray, Time
from streamcal.regression.base import DistributionMap
from streamcal.regression.distributions import CalibratedDistribution, Distribution, Piecewise
from streamcal.regression.reading import cdf_at, check_support, median
from streamcal.regression.thresholds import ThresholdCalibrator, levels_of


class VennAbersRegression(ThresholdCalibrator):
    """The inductive Venn-Abers predictive distribution: at each threshold t, a Venn-Abers pair (p₀, p₁) for Y > t.

    The score of the predictors is the median of the distribution; the label at t is 1[y > t]. The pairs are a lower
    cdf 1 − p₁ and an upper cdf 1 − p₀; `predict_one` gives one between them, with both as `lower` and `upper`.

    Parameters
    ----------
    point : {"log-minimax", "brier-minimax", "self-consistent"}
        How a pair is reduced to one probability: see `VennAbers`. Each increases with p₀ and p₁, so that the result is
        a cdf.
    thresholds, support
        As for `EmpiricalDensity`: K segments of the support; the density within a segment is uniform.
    forgetting : Forgetting
        The forgetting policy, default `Forever()`.
    resolution : int or None
        Cells of a grid over the support to which medians are rounded; None keeps every distinct one.

    Notes
    -----
    Validity, separately at each threshold: the one of p₀ and p₁ that belongs to the outcome (p₁ where y > t) is
    perfectly calibrated. The conditions are that the rule that made the distributions was fixed in advance, that the
    observations held and the new one are exchangeable, and that weights are 1. The theorem does not cover the single
    cdf between them, nor several thresholds jointly, nor a model that keeps learning, decay or unequal weights.

    Fits of labels that decrease with t decrease with t, so that both ends are cdfs without repair. The published
    method takes every outcome held as a threshold, and a run of isotonic regressions for each; on a stream the
    thresholds are fixed. Cost: learning and predicting take O(log² k) for each threshold and k distinct medians; memory
    O(k) for each threshold. See `ThresholdCalibrator` for medians outside of the support, and for the start.

    References
    ----------
    Nouretdinov, Volkhonskiy, Lim, Toccaceli and Gammerman, Inductive Venn-Abers predictive distribution, COPA 2018
    (PMLR 91).

    Examples
    --------
    >>> from streamcal.regression import Normal
    >>> cal = VennAbersRegression(thresholds=[0.0], support=(-2.0, 2.0))
    >>> cal.learn_many([Normal(m, 1.0) for m in (-1.0, -0.5, 0.5, 1.0)], [-1.0, -0.2, 0.5, 1.5])
    >>> calibrated = cal.predict_one(Normal(0.6, 1.0))
    >>> calibrated.lower.cdf(0.0), round(calibrated.cdf(0.0), 4), calibrated.upper.cdf(0.0)
    (0.0, 0.3333, 0.5)
    """

    name = "venn-abers-regression"
    summary = "Venn-Abers predictive distributions: a lower and an upper cdf at fixed thresholds"

    def __init__(
        self,
        point: Literal["log-minimax", "brier-minimax", "self-consistent"] = "log-minimax",
        thresholds: int | ArrayLike = 16,
        *,
        support: tuple[float, float],
        forgetting: Forgetting = Forever(),
        resolution: int | None = None,
    ) -> None:
        self.point = point
        self._scale = Interval(*check_support(support))
        method = VennAbers(point, scale=self._scale, forgetting=forgetting, resolution=resolution)
        self.resolution = method.resolution
        super().__init__(method, thresholds, support)

    def predict_one(self, distribution: Distribution, t: Time | None = None) -> CalibratedDistribution:
        streams = self._live_streams(t)
        if streams is None:
            return self.empty_map().predict_one(distribution)
        x = self._scale.coordinate(median(distribution))
        return between(self._edges, [stream.interval_at(x) for stream in streams], self.point)

    def _map_of_streams(self, streams: list[Any]) -> DistributionMap:
        return VennAbersRegressionMap(self._edges, streams, self.point)

    def empty_map(self) -> DistributionMap:
        return VacuousMap(self._edges)


class VennAbersDistribution(Piecewise):
    """A cdf at the inner ones of K + 1 edges of segments, with the lower and the upper cdf around it."""

    def __init__(self, edges: FloatArray, inner: FloatArray, lower: FloatArray, upper: FloatArray) -> None:
        super().__init__(edges, levels_of(inner))
        self.lower = Piecewise(edges, levels_of(lower))
        self.upper = Piecewise(edges, levels_of(upper))


class VennAbersRegressionMap(DistributionMap):
    """The median → Venn-Abers pairs at the thresholds inside `edges`."""

    def __init__(self, edges: FloatArray, maps: list[Any], point: str) -> None:
        self.edges = edges
        self.maps = tuple(maps)
        self.point = point

    def predict_one(self, distribution: Distribution) -> CalibratedDistribution:
        x = self.maps[0].scale.coordinate(median(distribution))
        return between(self.edges, [one.interval_at(x) for one in self.maps], self.point)


class VacuousMap(DistributionMap):
    """The predicted masses between `edges`, with bounds of 0 and 1."""

    def __init__(self, edges: FloatArray) -> None:
        self.edges = edges

    def predict_one(self, distribution: Distribution) -> CalibratedDistribution:
        inner = cdf_at(distribution, self.edges[1:-1])
        return VennAbersDistribution(self.edges, inner, 0.0 * inner, 0.0 * inner + 1.0)


def between(edges: FloatArray, pairs: list[tuple[float, float]], point: str) -> VennAbersDistribution:
    """Return the distribution of Venn-Abers pairs (p₀, p₁) for Y > t at the inner edges."""
    p0, p1 = np.array(pairs).T
    return VennAbersDistribution(edges, 1.0 - POINTS[point](p0, p1), 1.0 - p1, 1.0 - p0)
