"""The continuous ranked probability score, and the pinball loss of one quantile."""

from __future__ import annotations

import math
from typing import Any, Self

from streamcal.errors import InputError
from streamcal.metrics.distribution import DistributionMetric
from streamcal.regression.distributions import Distribution
from streamcal.regression.recalibrated import complete


class _MeanTerm(DistributionMetric):
    """The weighted mean of a finite term."""

    @property
    def value(self) -> float | None:
        """The mean; `None` before the first observation."""
        return self._sum / self._weight if self._weight > 0.0 else None

    def _clear(self) -> None:
        self._sum = 0.0

    def _add(self, term: float, w: float, sign: int) -> None:
        self._sum += sign * w * term

    def _absorb(self, other: Self) -> None:
        self._sum += other._sum


class CRPS(_MeanTerm):
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
    an integral by quadrature; `merge` and `value` O(1); one sum in memory.

    References
    ----------
    J. E. Matheson and R. L. Winkler, Scoring rules for continuous probability distributions, Management Science 22,
    1976; T. Gneiting and A. E. Raftery, Strictly proper scoring rules, prediction, and estimation, Journal of the
    American Statistical Association 102, 2007, §4.2.

    Examples
    --------
    >>> from streamcal.regression import Sample
    >>> crps = CRPS()
    >>> crps.update(Sample([1.0]), 3.0)
    >>> crps.value
    2.0
    """

    def _term(self, distribution: Distribution, y: float) -> float:
        return _finite(complete(distribution).crps(y), "CRPS", distribution)


class Pinball(_MeanTerm):
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
    Cost: `update` and `revert` one quantile of the distribution; `merge` and `value` O(1); one sum in memory.

    References
    ----------
    R. Koenker and G. Bassett, Regression quantiles, Econometrica 46, 1978.

    Examples
    --------
    >>> from streamcal.regression import Sample
    >>> pinball = Pinball(0.9)
    >>> pinball.update(Sample([1.0]), 3.0)
    >>> pinball.value
    1.8
    """

    def __init__(self, level: float) -> None:
        if not 0.0 < level < 1.0:
            raise InputError(f"level {level!r} is not allowed; give a level above 0 and below 1, such as 0.9")
        self.level = level
        super().__init__()

    def _term(self, distribution: Distribution, y: float) -> float:
        above = y - _finite(complete(distribution).ppf(self.level), "quantile", distribution)
        return max(self.level * above, (self.level - 1.0) * above)

    def _params(self) -> dict[str, Any]:
        return {"level": self.level}


def _finite(value: float, what: str, distribution: Distribution) -> float:
    """`value` itself; `InputError` where it is not finite."""
    if not math.isfinite(value):
        raise InputError(f"the {what} of {distribution!r} is {value!r}; it must be finite")
    return value
