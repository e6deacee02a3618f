"""`EmpiricalDensity`: the masses of segments, calibrated one against the rest; e-logistic and e-beta of paper 004."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.cross_venn_abers import CrossVennAbers
from streamcal.calibrators.registry import REGISTRY
from streamcal.errors import InputError
from streamcal.lazy import Methods
from streamcal.learners.choosing import chosen
from streamcal.parameters.inputs import check_scores
from streamcal.parameters.numbers import whole_number
from streamcal.parameters.types import FloatArray
from streamcal.regression.base import DistributionMap
from streamcal.regression.distributions import CalibratedDistribution, Distribution, Piecewise
from streamcal.regression.logistic import Logistic
from streamcal.regression.reading import cdf_at, cdfs_at
from streamcal.regression.thresholds import ThresholdCalibrator

#: The binary methods by name: those of one score, and one that is of use here alone.
METHODS_OF_SEGMENTS: Methods[type[Calibrator]] = Methods(
    {**REGISTRY.places, Logistic.name: f"{Logistic.__module__}.{Logistic.__name__}"}
)
#: The support reaches this share of the sample's range beyond its ends (paper 004, §6.2).
MARGIN = 0.5


class EmpiricalDensity(ThresholdCalibrator):
    """Calibrated masses of segments: qᵢ = cᵢ(pᵢ) / Σⱼ cⱼ(pⱼ), where pᵢ = F(tᵢ) − F(tᵢ₋₁) is the mass on (tᵢ₋₁, tᵢ].

    Each cᵢ is a binary calibrator, which learns that the score pᵢ was followed by the label 1[tᵢ₋₁ < y ≤ tᵢ]. The
    calibrated distribution has the mass qᵢ on segment i, with a uniform density.

    Parameters
    ----------
    calibrator : str or Calibrator
        The binary method of every segment: "logistic" (the paper's e-logistic, see `Logistic`), or "beta" (e-beta, the
        default). Also another name of the registry, such as "platt" (of the log-odds of pᵢ, with regularised targets),
        or a calibrator without a prior. Its forgetting policy and its capabilities (merge, unlearn) are those of this
        method: `EmpiricalDensity(Beta(forgetting=Window(5_000)), ...)`.
    thresholds : int or array-like of shape (K − 1,)
        K, for K segments of equal width; or the K − 1 thresholds between them, strictly inside the support.
    support : (float, float)
        The ends lo < hi of the first and the last segment, in the unit of y. The paper uses the range of the training
        outcomes, extended by half of it on both sides: see `from_sample`.

    Notes
    -----
    The first segment includes the mass below `lo`, the last that above `hi`, of predictions and of outcomes alike
    (`tally()["outside"]`). The density outside of the support is 0. Before the first observation, and where every
    calibrated mass is 0, the predicted masses are kept.

    A binary subproblem uses the mass of its segment alone: distributions above the segment and below it can have the
    same mass there, and are corrected alike. Where that matters, use `IsotonicDistributional` or `VennAbersRegression`,
    which use medians.

    Cost: with K segments, learning, predicting and memory are K times those of the binary method; a window holds K
    masses for each observation. Thresholds are fixed: see `ThresholdCalibrator`.

    References
    ----------
    Song, Kull and Flach; paper 004, §4.

    Examples
    --------
    >>> cal = EmpiricalDensity("beta", thresholds=4, support=(-2.0, 2.0))
    >>> from streamcal.regression import Normal
    >>> cal.learn_many([Normal(0.0, 1.0)] * 100, [-0.5, 0.5] * 50)
    >>> calibrated = cal.predict_one(Normal(0.0, 1.0))
    >>> round(calibrated.cdf(-1.0), 3), round(calibrated.cdf(0.0), 3)
    (0.0, 0.5)
    """

    name = "empirical-density"
    summary = "masses of segments by a binary method each, renormalised (e-logistic, e-beta)"
    _relation = operator.eq
    _fewer = 0

    def __init__(
        self, calibrator: str | Calibrator = "beta", thresholds: int | ArrayLike = 16, *, support: tuple[float, float]
    ) -> None:
        self.calibrator = check_binary(calibrator)
        super().__init__(self.calibrator, thresholds, support)

    @classmethod
    def from_sample(cls, y: ArrayLike, calibrator: str | Calibrator = "beta", thresholds: int = 16) -> Self:
        """Make segments of equal mass from a warm-up sample of outcomes; they stay fixed.

        The thresholds are the sample's quantiles, and the support is its range, extended by half of it on both
        sides. Equal quantiles, of tied outcomes, become one threshold. Streams that are to be merged need the same
        parameters, and so the same sample.

        Examples
        --------
        >>> EmpiricalDensity.from_sample([0.0, 1.0, 2.0, 4.0], thresholds=2).params()["thresholds"]
        (1.5,)
        """
        segments = whole_number(thresholds, "thresholds", 2, allowed="2 segments or more, a whole number")
        sample = check_scores(y)
        if len(sample) == 0 or sample.min() == sample.max():
            raise InputError("from_sample needs a sample with at least two different outcomes")
        margin = MARGIN * (sample.max() - sample.min())
        quantiles = np.unique(np.quantile(sample, np.linspace(0.0, 1.0, segments + 1)[1:-1]))
        return cls(calibrator, quantiles, support=(float(sample.min() - margin), float(sample.max() + margin)))

    def _scores(self, distribution: Distribution) -> tuple[float, ...]:
        return tuple(masses_of(distribution, self._inner))

    def _scores_many(self, distributions: Sequence[Distribution]) -> FloatArray:
        return masses(cdfs_at(distributions, self._inner))

    def _map_of_streams(self, streams: list[Any]) -> DistributionMap:
        return EmpiricalDensityMap(self._edges, streams)


class EmpiricalDensityMap(DistributionMap):
    """The masses of segments between `edges`, each mapped by its own map."""

    def __init__(self, edges: FloatArray, maps: list[Any]) -> None:
        self.edges = edges
        self.maps = tuple(maps)
        self._inner = edges[1:-1]

    def predict_one(self, distribution: Distribution) -> CalibratedDistribution:
        mass = masses_of(distribution, self._inner)
        calibrated = [own_map.predict_one(p) for own_map, p in zip(self.maps, mass, strict=True)]
        total = list(itertools.accumulate(calibrated if any(calibrated) else mass, initial=0.0))
        return Piecewise._trusted(self.edges, np.array(total) / total[-1])

    def predict_many(self, distributions: Sequence[Distribution]) -> list[CalibratedDistribution]:
        mass = masses(cdfs_at(distributions, self.edges[1:-1]))
        columns = [own_map.predict_many(np.ascontiguousarray(p)) for own_map, p in zip(self.maps, mass.T, strict=True)]
        return [self._distribution(p, q) for p, q in zip(mass, np.column_stack(columns), strict=True)]

    def _distribution(self, mass: FloatArray, calibrated: FloatArray) -> CalibratedDistribution:
        total = np.cumsum(calibrated if calibrated.any() else mass)
        return Piecewise(self.edges, np.concatenate(([0.0], total / total[-1])))


def check_binary(calibrator: Any) -> Calibrator:
    """Return a binary method by its registry name, or a clone of one; `InputError` if it cannot learn masses."""
    calibrator = chosen(calibrator, Calibrator, METHODS_OF_SEGMENTS, "a binary calibrator")
    if isinstance(calibrator, CrossVennAbers):
        raise InputError("CrossVennAbers needs the fold of each observation, and here there is none; give VennAbers()")
    if calibrator.params().get("prior") is not None:
        raise InputError(f"calibrator={calibrator!r} has a prior, which K subproblems cannot share; give prior=None")
    return calibrator.clone()


def masses_of(distribution: Distribution, inner: FloatArray) -> list[float]:
    """Return the masses of K segments of one distribution between K − 1 thresholds: `masses` without arrays."""
    cdf = cdf_at(distribution, inner).tolist()
    return [high - low for low, high in zip([0.0, *cdf], [*cdf, 1.0], strict=True)]


def masses(cdf: FloatArray) -> FloatArray:
    """Return the masses of K segments from the cdf at the K − 1 thresholds between them, along the last axis."""
    ends = np.zeros((*cdf.shape[:-1], 1))
    return np.diff(np.concatenate((ends, cdf, ends + 1.0), axis=-1), axis=-1)
