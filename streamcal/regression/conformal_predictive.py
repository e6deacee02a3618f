"""`ConformalPredictive`: the split conformal predictive system, with the PIT as conformity score."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from streamcal.kernels.tree.rank_tree import RankTree
from streamcal.parameters.inputs import check_outcome
from streamcal.parameters.types import Time
from streamcal.regression.base import DistributionMap
from streamcal.regression.distributions import CalibratedDistribution, Distribution
from streamcal.regression.pit_calibrator import Levels, PITCalibrator, RecalibrationMap
from streamcal.regression.ramps import Ramp
from streamcal.regression.reading import outermost, pit_interval
from streamcal.regression.recalibrated import Wrapped
from streamcal.statistics.pits import PITs, SortedWeights


class ConformalPredictive(PITCalibrator):
    """Split conformal predictive distributions: the rank of the PIT of a new outcome among the PITs held.

    With u = F(t), and n PITs uᵢ held, of weight 1 each, every

        Q(t, τ) = (#{uᵢ < u} + τ·(#{uᵢ = u} + 1)) / (n + 1),   τ in [0, 1],

    lies between the two values of `predict_bounds_one(F, t)` = (Q(t, 0), Q(t, 1)), which differ by 1/(n + 1) where no
    PIT is tied. `predict_one` gives a proper cdf between the two: R(F(t)), where R is linear through (0, 0), the points
    (u₍ₖ₎, k/(n + 1)) and (1, 1). The ends of its `interval(level)` are at the multiples of 1/(n + 1) beside the levels
    (1 ± level)/2, outwards, so that the interval contains the new outcome with a probability of at least `level`. An
    end at a PIT that is held contains all outcomes with this PIT, as those between two values of a `Sample`. An end is
    infinite where n + 1 < 2/(1 − level), that is for n < 19 at 0.9. It is infinite, too, where a share of (1 −
    level)/2 of the outcomes or more lay beyond all predicted mass, as beyond a `Sample` that is too narrow, or in the
    first or the last cell of a grid. Before any observation it is that of the forecast.

    Parameters
    ----------
    forgetting, resolution, scale
        See `PITCalibrator`. A grid is a coarser conformity score, fixed in advance: there are more ties, and the bounds
        differ by the weight of a cell.

    Notes
    -----
    Validity: Q(y, τ) at the new outcome, with τ uniform and independent, is uniform on [0, 1], exactly, in finite
    samples. The conditions are that the observations held and the new one are exchangeable, and that the rule that made
    the distributions was fixed before them. If PITs do not tie, the quantile of `predict_one` at level k/(n + 1) is
    exceeded with probability exactly 1 − k/(n + 1). The theorem does not hold with weighted observations (weights then
    replace numbers, and the unit of the present replaces 1), with decay, or with a model that keeps learning; there it
    is a method without a guarantee.

    The conformity score is the PIT, which is a function of (y − mean)/sd for normal distributions and gives the same
    ranks; its quantiles are therefore those of a difficulty-normalised system, with the sd as the difficulty. For
    outcomes that are atoms of their distributions, observations count in the bounds by the share of their interval of
    levels; the theorem is of distributions without atoms. Cost: that of `PITCalibrator`; bounds are as its cdf.

    References
    ----------
    Vovk, Shen, Manokhin and Xie, Nonparametric predictive distributions based on conformal prediction, Machine Learning
    2019; Vovk, Petej, Nouretdinov, Manokhin and Gammerman, Computationally efficient versions of conformal predictive
    distributions, Neurocomputing 2020 (the split version).

    Examples
    --------
    >>> from streamcal.regression import Normal
    >>> cal = ConformalPredictive()
    >>> cal.learn_many([Normal(0.0, 1.0)] * 3, [-1.0, 0.0, 1.0])
    >>> cal.predict_one(Normal(5.0, 1.0)).cdf(5.0), cal.predict_bounds_one(Normal(5.0, 1.0), 5.5)
    (0.5, (0.5, 0.75))
    """

    name = "conformal-predictive"
    summary = "split conformal predictive distributions of the PIT, valid in finite samples"

    def predict_bounds_one(self, distribution: Distribution, y: float, t: Time | None = None) -> tuple[float, float]:
        """Return (Q(y, 0), Q(y, 1)), as of time `t`: every conformal P(Y ≤ y) lies between them."""
        return self.bounds(self._present(t), distribution, check_outcome(y))

    def bounds(self, statistic: PITs, distribution: Distribution, y: float) -> tuple[float, float]:
        """Return the bounds among the PITs of a statistic."""
        low, high = pit_interval(distribution, y, self._normal)
        first, last = (low, high) if low < high else [self._rounded(high)] * 2
        order = statistic.order()
        less, no_more = order.around(float(np.nextafter(first, -np.inf)))[2], order.around(last)[2]
        if statistic.has_intervals:
            below, upto = statistic.interval_weight_below(np.array([self._rounded(low), self._rounded(high)])).tolist()
            less, no_more = less + below, no_more + upto
        total = statistic.n + 1.0
        return less / total, (no_more + 1.0) / total

    def solve(self, statistic: PITs, start: DistributionMap | None) -> DistributionMap:
        order, (lowest, highest) = statistic.order(), self._ends
        least = lowest if self._edges is None else self._rounded(lowest)
        beyond = order.around(least)[2], order.total - order.around(float(np.nextafter(highest, -np.inf)))[2]
        recalibration = cast(RecalibrationMap, super().solve(statistic, None))
        return ConformalMap(recalibration, statistic.n, beyond, order if self._edges is None else None)

    def _levels(self) -> Levels:
        return Levels(0.0, 1.0)


#: Products of a level and a number of observations that are this near to a whole number are that number.
ROUNDED = 1e-9


class ConformalMap(DistributionMap):
    """A map whose distributions have conformal intervals.

    Parameters
    ----------
    inner : RecalibrationMap
        F → R ∘ F.
    n : float
        The weight learned.
    beyond : tuple of float
        The weight of outcomes below and above all predicted mass; on a grid, of the first and the last cell.
    order : RankTree or SortedWeights or None
        The PITs held; None on a grid.
    """

    def __init__(
        self,
        inner: RecalibrationMap,
        n: float,
        beyond: tuple[float, float],
        order: RankTree | SortedWeights | None,
    ) -> None:
        self.inner = inner
        self.n = n
        self.beyond = beyond
        self.order = order

    def __reduce__(self) -> tuple[Any, ...]:
        order = None if self.order is None else SortedWeights(*self.order.to_arrays())
        return ConformalMap, (self.inner, self.n, self.beyond, order)

    def predict_one(self, distribution: Distribution) -> CalibratedDistribution:
        return ConformalDistribution(self.inner.predict_one(distribution), distribution, self)

    def point_at(self, level: float) -> float | None:
        """Return the PIT held at which R reaches a level; None if there is none."""
        if self.order is None:
            return None
        ramp, wanted = self.inner.ramp, np.array(level)
        place = float(ramp.scores(wanted) if isinstance(ramp, Ramp) else ramp.ppf(wanted))
        near = [one for one in self.order.around(place)[::3] if abs(one - place) <= ROUNDED * max(1.0, abs(place))]
        return near[0] if near else None


class ConformalDistribution(Wrapped):
    """A distribution whose intervals end at levels k/(n + 1), k whole.

    Intervals beyond the first and the last of these levels are infinite, and those whose end would have to contain
    outcomes without predicted mass. An end at a PIT that is held contains all outcomes with this PIT.
    """

    learned: ConformalMap

    def interval(self, level: float) -> tuple[float, float]:
        super().interval(level)  # which checks the level
        whole = self.learned.n + 1.0
        below = math.floor(0.5 * (1.0 - level) * whole + ROUNDED)
        first, last = self.learned.beyond
        return (
            self._end(below / whole, -1.0) if below > first + ROUNDED else -math.inf,
            self._end((whole - below) / whole, 1.0) if below > last + ROUNDED else math.inf,
        )

    def _end(self, level: float, sign: float) -> float:
        end, point = float(self.ppf(level)), self.learned.point_at(level)
        if point is None:
            return end
        normal = isinstance(self.learned.inner.ramp, Ramp)
        return outermost(self.base, point, end, sign, normal)
