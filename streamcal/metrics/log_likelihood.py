"""The mean log-likelihood of predictive densities."""

from __future__ import annotations

import math

from streamcal.errors import InputError
from streamcal.metrics.distribution import DistributionMetric
from streamcal.regression.distributions import Distribution
from streamcal.regression.recalibrated import complete


class LogLikelihood(DistributionMetric):
    """Mean log density of the outcomes in nats: Σ w log f(y) / Σ w; higher is better.

    A single outcome with density 0 makes it −∞ for ever. Such outcomes are counted (`impossible`), as are outcomes with
    a point mass, whose density is infinite (`certain`); `finite` is the mean over the others. Compare `finite` only
    where both counts are 0, or report them with it.

    Raises
    ------
    InputError
        By `update`, where a log density is not a number.

    Notes
    -----
    A change of the unit of y shifts the value by a constant. Cost: `update` and `revert` one log density of the
    distribution; `merge` and `get` O(1); two sums and two counts in memory.

    References
    ----------
    Paper 004, §6.

    Examples
    --------
    >>> from streamcal.regression import Normal, Quantiles
    >>> likelihood = LogLikelihood()
    >>> likelihood.update(0.0, Normal(0.0, 1.0))
    >>> round(likelihood.get(), 4)
    -0.9189
    >>> likelihood.update(2.0, Quantiles([0.0, 1.0], [0.0, 1.0]))
    >>> likelihood.get(), likelihood.impossible, round(likelihood.finite, 4)
    (-inf, 1, -0.9189)
    """

    _sums = ("_sum", "_finite_weight", "_impossible", "_certain")
    _sum, _finite_weight, _impossible, _certain = 0.0, 0.0, 0, 0

    def get(self) -> float | None:
        """Return the mean: ±∞ with an infinite term, `None` with terms of both signs or without observations."""
        if self._impossible and self._certain:
            return None
        if self._impossible or self._certain:
            return -math.inf if self._impossible else math.inf
        return self.finite

    @property
    def finite(self) -> float | None:
        """The mean over the outcomes with a finite log density; `None` if there are none."""
        some = self._count > self._impossible + self._certain and self._finite_weight > 0.0
        return self._sum / self._finite_weight if some else None

    @property
    def impossible(self) -> int:
        """Number of outcomes with density 0."""
        return self._impossible

    @property
    def certain(self) -> int:
        """Number of outcomes with infinite density."""
        return self._certain

    def _term(self, distribution: Distribution, y: float) -> float:
        term = complete(distribution).log_prob(y)
        if math.isnan(term):
            raise InputError(f"the log density of {distribution!r} at {y!r} is not a number")
        return term

    def _add(self, term: float, w: float, sign: int) -> None:
        if math.isinf(term):
            self._impossible += sign * (term < 0.0)
            self._certain += sign * (term > 0.0)
        else:
            self._sum += sign * w * term
            self._finite_weight += sign * w
