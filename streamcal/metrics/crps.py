"""The continuous ranked probability score, and the pinball loss of one quantile, of which it is an integral."""

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
        """The mean; `None` if nothing was observed."""
        return self._sum / self._weight if self._weight > 0.0 else None

    def _clear(self) -> None:
        self._sum = 0.0

    def _add(self, term: float, w: float, sign: int) -> None:
        self._sum += sign * w * term

    def _absorb(self, other: Self) -> None:
        self._sum += other._sum


class CRPS(_MeanTerm):
    """Mean continuous ranked probability score: ∫ (F(t) − 1[y ≤ t])² dt, in the unit of y; lower is better.

    It is a proper score like the log-likelihood, and unlike it finite for every bounded distribution and outcome. Of a
    distribution that says y for certain it is the absolute error.

    References: Matheson and Winkler 1976; Gneiting and Raftery 2007, §4.2.

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
    """Mean pinball loss of the quantile q at a level α: α(y − q) where y ≥ q, (1 − α)(q − y) below; lower is better.

    Parameters
    ----------
    level : float
        α, above 0 and below 1.

    Reference: Koenker and Bassett 1978. Twice its integral over all levels is the CRPS.

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
    if not math.isfinite(value):
        raise InputError(f"the {what} of {distribution!r} is {value!r}; it must be finite")
    return value
