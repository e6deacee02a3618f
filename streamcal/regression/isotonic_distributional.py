"""`IsotonicDistributional`: isotonic distributional regression on the predicted medians, at fixed thresholds."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from streamcal.calibrators.isotonic import Isotonic
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.scales import Interval
from streamcal.parameters.types import FloatArray
from streamcal.regression.base import DistributionMap
from streamcal.regression.distributions import CalibratedDistribution, Distribution, Piecewise
from streamcal.regression.reading import check_support, median
from streamcal.regression.thresholds import ThresholdCalibrator, levels_of


class IsotonicDistributional(ThresholdCalibrator):
    """Isotonic distributional regression: at each threshold t, P(Y > t) is the isotonic fit of 1[y > t] on the median.

    Only the median of a predicted distribution is used. Among all families of cdfs that increase stochastically with
    it, this one has the smallest mean CRPS on the data held, summed over the thresholds; it needs no parameters.

    Parameters
    ----------
    thresholds, support
        As for `EmpiricalDensity`: K segments of the support, at whose inner ends the fit is exact; the density within a
        segment is uniform.
    forgetting : Forgetting
        The forgetting policy, default `Forever()`.
    resolution : int or None
        Cells of a grid over the support to which medians are rounded; None keeps every distinct one.

    Notes
    -----
    Fits of labels that decrease with t decrease with t themselves, so that the predicted values are a cdf without
    repair. Between medians held the fit is linear, beyond them constant; see `ThresholdCalibrator`. Cost: learning and
    predicting take O(log² k) for each threshold and k distinct medians; memory O(k) for each threshold.

    References
    ----------
    Henzi, Ziegel and Gneiting, Isotonic distributional regression, JRSS B 2021, at fixed thresholds.

    Examples
    --------
    >>> from streamcal.regression import Normal
    >>> cal = IsotonicDistributional([0.0], support=(-2.0, 2.0))
    >>> cal.learn_many([Normal(m, 1.0) for m in (-1.0, -0.5, 0.5, 1.0)], [-1.0, 1.0, -0.5, 1.5])
    >>> [round(cal.predict_one(Normal(m, 1.0)).cdf(0.0), 4) for m in (-1.0, 0.0, 1.0)]
    [1.0, 0.5, 0.0]
    """

    name = "isotonic-distributional"
    summary = "isotonic distributional regression on the median, at fixed thresholds"

    def __init__(
        self,
        thresholds: int | ArrayLike = 16,
        *,
        support: tuple[float, float],
        forgetting: Forgetting = Forever(),
        resolution: int | None = None,
    ) -> None:
        method = Isotonic(scale=Interval(*check_support(support)), forgetting=forgetting, resolution=resolution)
        self.resolution = method.resolution
        super().__init__(method, thresholds, support)

    def _map_of_streams(self, streams: list[Any]) -> DistributionMap:
        return IsotonicDistributionalMap(self._edges, streams)


class IsotonicDistributionalMap(DistributionMap):
    """The median → 1 − P(Y > t) at the thresholds inside `edges`."""

    def __init__(self, edges: FloatArray, maps: list[Any]) -> None:
        self.edges = edges
        self.maps = tuple(maps)

    def predict_one(self, distribution: Distribution) -> CalibratedDistribution:
        centre = median(distribution)
        return Piecewise(self.edges, levels_of([1.0 - one.predict_one(centre) for one in self.maps]))
