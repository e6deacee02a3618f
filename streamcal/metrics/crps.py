"""Means of a score: CRPS, weighted CRPS, interval score, pinball loss; and the sharpness."""

from __future__ import annotations

import math

from streamcal.errors import InputError
from streamcal.metrics.distribution import DistributionMetric
from streamcal.parameters.numbers import plain_number, real_number
from streamcal.regression.distributions import Distribution
from streamcal.regression.recalibrated import complete, variance_of, weighted_crps


class CRPS(DistributionMetric):
    """Mean continuous ranked probability score: ∫ (F(t) − 1[y ≤ t])² dt, ≥ 0 in the unit of y; lower is better.

    It is a proper scoring rule, like the log-likelihood, and in contrast to it finite for every bounded distribution
    and outcome. For a point forecast it is the absolute error.

    Raises
    ------
    InputError
        By `update`, where the score of a distribution is not finite.

    Notes
    -----
    Cost: `update` and `revert` one `crps` of the distribution, a closed formula for those of this package and otherwise
    an integral by quadrature; `merge` and `get` O(1); one sum in memory. The quadrature has a relative error below 1e-8
    where the density is smooth and below 1e-3 where a density is infinite at an end, as that of Beta(0.1, 0.1).

    References
    ----------
    J. E. Matheson and R. L. Winkler, Scoring rules for continuous probability distributions, Management Science 22,
    1976; T. Gneiting and A. E. Raftery, Strictly proper scoring rules, prediction, and estimation, Journal of the
    American Statistical Association 102, 2007, §4.2.

    Examples
    --------
    >>> from streamcal.regression import Sample
    >>> crps = CRPS()
    >>> crps.update(3.0, Sample([1.0]))
    >>> crps.get()
    2.0
    """

    def _term(self, distribution: Distribution, y: float) -> float:
        return _finite(complete(distribution).crps(y), "CRPS", distribution)


class ThresholdWeightedCRPS(DistributionMetric):
    """Mean threshold-weighted CRPS: ∫ (F(t) − 1[y ≤ t])² dt over the outcomes t of interest alone; lower is better.

    It is the CRPS of the forecast and the outcome after both were moved into [low, high], and so proper: choosing the
    cases with large outcomes and comparing their CRPS is not.

    Parameters
    ----------
    low, high : float
        The interval of interest, low < high; one of them may be infinite, such as ``low=30.0`` for heat alone.

    Raises
    ------
    InputError
        For other ends; by `update`, where the score of a distribution is not finite.

    Notes
    -----
    Cost: that of `CRPS`; a closed formula for piecewise linear cdfs, quadrature for others.

    References
    ----------
    T. Gneiting and R. Ranjan, Comparing density forecasts using threshold- and quantile-weighted scoring rules, Journal
    of Business & Economic Statistics 29, 2011.

    Examples
    --------
    >>> from streamcal.regression import Sample
    >>> score = ThresholdWeightedCRPS(low=2.0)
    >>> score.update(3.0, Sample([1.0]))
    >>> score.get()
    1.0
    """

    def __init__(self, low: float = -math.inf, high: float = math.inf) -> None:
        self.low, self.high = plain_number(low), plain_number(high)
        if not self.low < self.high or (math.isinf(self.low) and math.isinf(self.high)):
            raise InputError(f"low={low!r}, high={high!r} are not possible; give low < high, one of them finite")
        super().__init__()

    def _term(self, distribution: Distribution, y: float) -> float:
        return _finite(weighted_crps(distribution, y, self.low, self.high), "weighted CRPS", distribution)


class IntervalScore(DistributionMetric):
    """Mean interval score of the central interval [l, u] of a level 1 − α: (u − l) + (2/α)·(l − y)₊ + (2/α)·(y − u)₊.

    It is in the unit of y, and lower is better: the width, and a penalty for an outcome outside by how far it is
    outside. It is proper for the two quantiles, and α/2 times it is the sum of their pinball losses. It is infinite
    where an interval is, as conformal ones may be.

    Parameters
    ----------
    level : float
        Above 0 and below 1, default 0.9.

    Raises
    ------
    InputError
        For another level; by `update`, where an end of an interval is not a number.

    Notes
    -----
    Cost: `update` and `revert` two quantiles of the distribution; `merge` and `get` O(1); one sum in memory.

    References
    ----------
    T. Gneiting and A. E. Raftery, Strictly proper scoring rules, prediction, and estimation, Journal of the American
    Statistical Association 102, 2007, §6.2.

    Examples
    --------
    >>> from streamcal.regression import Quantiles
    >>> score = IntervalScore(0.5)
    >>> score.update(2.5, Quantiles([0.25, 0.75], [1.0, 2.0]))
    >>> score.get()
    3.0
    """

    _sums = ("_sum", "_unbounded")
    _unbounded = 0

    def __init__(self, level: float = 0.9) -> None:
        allowed = "a level above 0 and below 1, such as 0.9"
        self.level = real_number(level, "level", allowed, above=0.0, below=1.0)
        super().__init__()

    def get(self) -> float | None:
        """Return the mean; infinite with an infinite interval, `None` before the first observation."""
        return math.inf if self._unbounded else super().get()

    def _term(self, distribution: Distribution, y: float) -> float:
        low, high = complete(distribution).interval(self.level)
        if math.isinf(high - low):
            return math.inf
        outside = max(low - y, y - high, 0.0)
        return _finite(high - low + 2.0 / (1.0 - self.level) * outside, "interval score", distribution)

    def _add(self, term: float, w: float, sign: int) -> None:
        if math.isinf(term):
            self._unbounded += sign
        else:
            super()._add(term, w, sign)


class Sharpness(DistributionMetric):
    """Root of the mean variance of the distributions, whatever the outcomes; lower is sharper.

    It measures the forecasts alone, in the unit of y. Of two calibrated forecasts the sharper one is better; the
    sharpness of a miscalibrated one means nothing. For calibrated forecasts it is the root mean squared error of their
    means.

    Raises
    ------
    InputError
        By `update`, where the variance of a distribution is not finite.
    CapabilityError
        By `update`, where the tail of a distribution without `std` is too heavy for a variance.

    Notes
    -----
    Cost: that of `std`, if the distribution has one; otherwise that of `CRPS`.

    References
    ----------
    T. Gneiting, F. Balabdaoui and A. E. Raftery, Probabilistic forecasts, calibration and sharpness, Journal of the
    Royal Statistical Society B 69, 2007.

    Examples
    --------
    >>> from streamcal.regression import Normal
    >>> sharpness = Sharpness()
    >>> sharpness.update_many([0.0, 0.0], [Normal(0.0, 1.0), Normal(5.0, 7.0)])
    >>> sharpness.get()
    5.0
    """

    def get(self) -> float | None:
        """Return the root of the mean variance; `None` before the first observation."""
        mean = super().get()
        return None if mean is None else math.sqrt(max(mean, 0.0))

    def _term(self, distribution: Distribution, y: float) -> float:
        return _finite(variance_of(distribution), "variance", distribution)


class Pinball(DistributionMetric):
    """Mean pinball loss of the quantile q at a level α: α (y − q) if y ≥ q, (1 − α)(q − y) otherwise; lower is better.

    It is ≥ 0, in the unit of y. Twice its integral over all levels is the CRPS.

    Parameters
    ----------
    level : float
        α, above 0 and below 1.

    Raises
    ------
    InputError
        For another level; by `update`, where the quantile of a distribution is not finite.

    Notes
    -----
    Cost: `update` and `revert` one quantile of the distribution; `merge` and `get` O(1); one sum in memory.

    References
    ----------
    R. Koenker and G. Bassett, Regression quantiles, Econometrica 46, 1978.

    Examples
    --------
    >>> from streamcal.regression import Sample
    >>> pinball = Pinball(0.9)
    >>> pinball.update(3.0, Sample([1.0]))
    >>> pinball.get()
    1.8
    """

    def __init__(self, level: float) -> None:
        allowed = "a level above 0 and below 1, such as 0.9"
        self.level = real_number(level, "level", allowed, above=0.0, below=1.0)
        super().__init__()

    def _term(self, distribution: Distribution, y: float) -> float:
        above = y - _finite(complete(distribution).ppf(self.level), "quantile", distribution)
        return max(self.level * above, (self.level - 1.0) * above)


def _finite(value: float, what: str, distribution: Distribution) -> float:
    if not math.isfinite(value):
        raise InputError(f"the {what} of {distribution!r} is {value!r}; it must be finite")
    return value
