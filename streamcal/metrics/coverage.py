"""The coverage of central prediction intervals."""

from __future__ import annotations

import math

from streamcal.errors import InputError
from streamcal.metrics.distribution import DistributionMetric
from streamcal.parameters.numbers import real_number
from streamcal.regression.distributions import Distribution
from streamcal.regression.recalibrated import complete


class IntervalCoverage(DistributionMetric):
    """Share of outcomes in the central interval of a level, [F⁻¹((1 − level)/2), F⁻¹((1 + level)/2)] with its ends.

    It is close to `level` for calibrated distributions, and above it where outcomes repeat. `width` is the mean width
    of the intervals, in the unit of y: of two forecasts with equal coverage, the one with the narrower intervals is
    sharper. Conformal intervals may have infinite ends: they count, and `width` is then infinite.

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
    Cost: `update` and `revert` two quantiles of the distribution; `merge`, `get` and `width` O(1); two sums in
    memory.

    References
    ----------
    T. Gneiting, F. Balabdaoui and A. E. Raftery, Probabilistic forecasts, calibration and sharpness, Journal of the
    Royal Statistical Society B 69, 2007.

    Examples
    --------
    >>> from streamcal.regression import Normal
    >>> coverage = IntervalCoverage(0.5)
    >>> coverage.update_many([0.5, 1.0], [Normal(0.0, 1.0)] * 2)
    >>> coverage.get(), round(coverage.width, 4)
    (0.5, 1.349)
    """

    _sums = ("_covered", "_width", "_unbounded")
    _covered, _width, _unbounded = 0.0, 0.0, 0

    def __init__(self, level: float = 0.9) -> None:
        allowed = "a level above 0 and below 1, such as 0.9"
        self.level = real_number(level, "level", allowed, above=0.0, below=1.0)
        super().__init__()

    def get(self) -> float | None:
        """Return the share of outcomes inside their intervals, in [0, 1]; `None` before the first observation."""
        return self._covered / self._weight if self._weight > 0.0 else None

    @property
    def width(self) -> float | None:
        """Mean width of the intervals; infinite if one is; `None` before the first observation."""
        if self._unbounded:
            return math.inf
        return self._width / self._weight if self._weight > 0.0 else None

    def _term(self, distribution: Distribution, y: float) -> float:
        # The width, with a negative sign where the outcome is outside; −0.0 for an interval of width 0.
        low, high = complete(distribution).interval(self.level)
        if math.isnan(high - low):
            raise InputError(
                f"the interval of {distribution!r} is ({low!r}, {high!r}); finite or infinite ends are needed"
            )
        return high - low if low <= y <= high else -(high - low)

    def _add(self, term: float, w: float, sign: int) -> None:
        if math.copysign(1.0, term) > 0.0:
            self._covered += sign * w
        if math.isinf(term):
            self._unbounded += sign
        else:
            self._width += sign * w * abs(term)
