"""Predictive distributions: the contract, and the lightweight `Normal`, `Piecewise`, `Quantiles` and `Sample`.

A calibrator accepts any object with a `cdf` (see `Distribution`), such as a frozen `scipy.stats` distribution, and
predicts a `CalibratedDistribution`, which has all methods. The distributions of this module have them too, so that a
model and its calibration can be measured alike.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from typing import Any, Protocol, Self, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from streamcal.errors import InputError
from streamcal.parameters.columns import as_array
from streamcal.parameters.numbers import is_number, plain_number
from streamcal.parameters.types import FloatArray

LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)
#: The CRPS of the standard normal cdf has this constant: ∫ Φ(z)(1 − Φ(z)) dz.
INVERSE_SQRT_PI = 1.0 / math.sqrt(math.pi)
#: A whole number of Python may be larger, and is then no float.
LARGEST = sys.float_info.max
#: Decorates what may be infinite, such as the log-density of an outcome 1e300 deviations away.
overflows = np.errstate(over="ignore")


class Distribution(Protocol):
    """What a calibrator accepts: `cdf` gives P(Y ≤ t) for a float; one that gives an array for an array is faster."""

    def cdf(self, t: Any, /) -> Any:
        """Return P(Y ≤ t)."""


class CalibratedDistribution(ABC):
    """A distribution of a real outcome with cdf, density, quantiles, scores and sampling; immutable.

    Every method but `interval` and `sample` takes a float and returns a float, or takes an array and returns one of its
    shape.
    """

    @property
    @abstractmethod
    def mean(self) -> float:
        """The expectation."""

    @overload
    def cdf(self, t: float, /) -> float: ...
    @overload
    def cdf(self, t: ArrayLike, /) -> FloatArray: ...
    def cdf(self, t: Any, /) -> Any:
        """Return P(Y ≤ t)."""
        return _each(self._cdf, t, "t")

    @overload
    def pdf(self, t: float, /) -> float: ...
    @overload
    def pdf(self, t: ArrayLike, /) -> FloatArray: ...
    def pdf(self, t: Any, /) -> Any:
        """Return the density at t: 0 outside the support, infinite where a single value has mass."""
        return _each(self._pdf, t, "t")

    @overload
    def log_prob(self, y: float, /) -> float: ...
    @overload
    def log_prob(self, y: ArrayLike, /) -> FloatArray: ...
    def log_prob(self, y: Any, /) -> Any:
        """Return the logarithm of the density at the outcome y; −∞ where the density is 0."""
        return _each(self._log_prob, y, "y")

    @overload
    def ppf(self, level: float, /) -> float: ...
    @overload
    def ppf(self, level: ArrayLike, /) -> FloatArray: ...
    def ppf(self, level: Any, /) -> Any:
        """Return the quantile: the smallest t with cdf(t) ≥ level, for levels in [0, 1].

        At level 0 the quantile is the lower end of the support.
        """
        levels = _as_floats(level, "level")
        if not ((levels >= 0.0) & (levels <= 1.0)).all():
            raise InputError(f"level {level!r} is not possible; give levels in [0, 1]")
        return _each(self._ppf, levels, "level")

    @overload
    def crps(self, y: float, /) -> float: ...
    @overload
    def crps(self, y: ArrayLike, /) -> FloatArray: ...
    def crps(self, y: Any, /) -> Any:
        """Return the continuous ranked probability score ∫ (cdf(t) − 1[y ≤ t])² dt of the outcome y.

        Lower is better.
        """
        return _each(self._crps, y, "y")

    def interval(self, level: float) -> tuple[float, float]:
        """Return the central interval: the quantiles at (1 − level)/2 and (1 + level)/2."""
        if not (is_number(level) and 0.0 <= level <= 1.0):
            raise InputError(f"level {level!r} is not possible; give a number in [0, 1], such as 0.9")
        return self.ppf((1.0 - level) / 2.0), self.ppf((1.0 + level) / 2.0)

    @overload
    def sample(self, seed: int | np.random.Generator) -> float: ...
    @overload
    def sample(self, seed: int | np.random.Generator, size: int) -> FloatArray: ...
    def sample(self, seed: int | np.random.Generator, size: int | None = None) -> Any:
        """Draw one value, or an array of `size` independent values, by inversion; the same for the same seed.

        The seed comes first: `sample(3)` is one draw, with the seed 3, and `sample(0, 3)` are three.
        """
        return self.ppf(np.random.default_rng(seed).random(size))

    @abstractmethod
    def _cdf(self, t: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _pdf(self, t: FloatArray) -> FloatArray: ...

    def _log_prob(self, y: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore"):
            logarithm: FloatArray = np.log(self._pdf(y))
        return logarithm

    @abstractmethod
    def _ppf(self, level: FloatArray) -> FloatArray: ...

    @abstractmethod
    def _crps(self, y: FloatArray) -> FloatArray: ...

    def _normal_scores(self, t: FloatArray) -> FloatArray:
        """Return Φ⁻¹(P(Y ≤ t)); a subclass may know its tails beyond the precision of the cdf and override this."""
        return ndtri(self._cdf(t))

    def _at_normal_scores(self, z: FloatArray) -> FloatArray:
        """Return the quantiles at the levels Φ(z)."""
        return self._ppf(ndtr(z))


class Normal(CalibratedDistribution):
    """The normal distribution.

    Parameters
    ----------
    mean, sd : float
        Finite; `sd` > 0.

    Notes
    -----
    Every method is O(1).

    Examples
    --------
    >>> forecast = Normal(10.0, 2.0)
    >>> forecast.cdf(10.0), round(forecast.crps(12.0), 4)
    (0.5, 1.2049)
    """

    __slots__ = ("_mean", "_sd")

    def __init__(self, mean: float, sd: float) -> None:
        centre, width = plain_number(mean), plain_number(sd)  # a comparison of float32 with LARGEST would overflow
        if not -LARGEST <= centre <= LARGEST:
            raise InputError(f"mean={mean!r} is not possible; give a finite number")
        if not 0.0 < width <= LARGEST:
            raise InputError(f"sd={sd!r} is not possible; give a finite number above 0")
        self._mean, self._sd = float(centre), float(width)

    @property
    def mean(self) -> float:
        """Return the expectation."""
        return self._mean

    @property
    def sd(self) -> float:
        """The standard deviation."""
        return self._sd

    def __repr__(self) -> str:
        return f"Normal(mean={self._mean!r}, sd={self._sd!r})"

    @overflows
    def _z(self, t: FloatArray) -> FloatArray:
        return (t - self._mean) / self._sd

    def _cdf(self, t: FloatArray) -> FloatArray:
        return ndtr(self._z(t))

    @overflows
    def _pdf(self, t: FloatArray) -> FloatArray:
        return np.exp(self._log_prob(t))

    @overflows
    def _log_prob(self, y: FloatArray) -> FloatArray:
        return -0.5 * ((y - self._mean) / self._sd) ** 2 - LOG_SQRT_2PI - math.log(self._sd)

    def _ppf(self, level: FloatArray) -> FloatArray:
        return self._at_normal_scores(ndtri(level))

    def _normal_scores(self, t: FloatArray) -> FloatArray:
        return self._z(t)

    @overflows
    def _at_normal_scores(self, z: FloatArray) -> FloatArray:
        return self._mean + self._sd * z

    @overflows
    def _crps(self, y: FloatArray) -> FloatArray:
        # Gneiting and Raftery 2007, §4.2.
        error = y - self._mean
        z = error / self._sd  # infinite at a tiny sd, where the score is |error|
        return error * (ndtr(z) - ndtr(-z)) + self._sd * (2.0 * np.exp(-0.5 * z * z - LOG_SQRT_2PI) - INVERSE_SQRT_PI)


class Piecewise(CalibratedDistribution):
    """A cdf that is linear between knots: uniform density on pieces, and point masses where knots repeat.

    Parameters
    ----------
    knots : array-like of shape (m,)
        Finite and nondecreasing, at least one; two equal knots are a jump of the cdf.
    levels : array-like of shape (m,)
        The cdf at the knots: nondecreasing from 0 to 1.

    Notes
    -----
    Every method is a closed formula. Cost: O(m) once, then O(log m) for each value.

    Examples
    --------
    >>> half = Piecewise([0.0, 1.0, 3.0], [0.0, 0.5, 1.0])
    >>> half.cdf(2.0), half.pdf(2.0), half.mean, half.ppf(0.75)
    (0.75, 0.25, 1.25, 2.0)
    """

    def __init__(self, knots: ArrayLike, levels: ArrayLike) -> None:
        x, c = _column(knots, "knots"), _column(levels, "levels")
        if len(x) != len(c):
            raise InputError(f"knots and levels differ in length: {len(x)} and {len(c)}")
        if len(x) < 2 or c[0] != 0.0 or c[-1] != 1.0:
            raise InputError(f"the levels of a cdf go from 0 to 1, at two knots or more; these are {c.tolist()!r}")
        _require_rising(x, "knots")
        _require_rising(c, "levels")
        x.flags.writeable = c.flags.writeable = False
        self._x, self._c = x, c

    @classmethod
    def _trusted(cls, knots: FloatArray, levels: FloatArray) -> Self:
        """Make the distribution of knots and levels that need no check: float arrays, its own or read-only."""
        made = object.__new__(cls)
        knots.flags.writeable = levels.flags.writeable = False
        made._x, made._c = knots, levels
        return made

    @property
    def knots(self) -> FloatArray:
        """The knots, read-only."""
        return self._x

    @property
    def levels(self) -> FloatArray:
        """The cdf at the knots, read-only."""
        return self._c

    @property
    def mean(self) -> float:
        """Return the expectation."""
        return float(np.diff(self._c) @ (0.5 * self._x[1:] + 0.5 * self._x[:-1]))

    def __repr__(self) -> str:
        return f"{type(self).__name__} on [{self._x[0]:g}, {self._x[-1]:g}] with {len(self._x)} knots"

    def _cdf(self, t: FloatArray) -> FloatArray:
        x, c = self._x, self._c
        if t.ndim == 0:  # as below
            return np.asarray(self._cdf_of_one(float(t)))
        after = np.searchsorted(x, t, side="right")
        high = np.minimum(after, len(x) - 1)
        low = np.maximum(high - 1, 0)
        inside = (after > 0) & (after < len(x))
        share = np.divide(t - x[low], x[high] - x[low], out=np.zeros(np.shape(t)), where=inside)
        value = np.minimum(c[low] + share * (c[high] - c[low]), c[high])
        return np.where(inside, value, np.where(after == 0, 0.0, 1.0))

    def _cdf_of_one(self, t: float) -> float:
        x, c = self._x, self._c
        after = int(x.searchsorted(t, side="right"))
        if not 0 < after < len(x):
            return 0.0 if after == 0 else 1.0
        (x0, x1), (c0, c1) = x[after - 1 : after + 1].tolist(), c[after - 1 : after + 1].tolist()
        return min(c0 + (t - x0) / (x1 - x0) * (c1 - c0), c1)

    def _pdf(self, t: FloatArray) -> FloatArray:
        # A piece is open at its left end, as the segments (t₀, t₁] of the paper; the first one is closed there too.
        x, c = self._x, self._c
        first, after = np.searchsorted(x, t, side="left"), np.searchsorted(x, t, side="right")
        high = np.clip(first, 1, len(x) - 1)
        width, mass = x[high] - x[high - 1], c[high] - c[high - 1]
        inside = (t >= x[0]) & (t <= x[-1]) & (width > 0.0)
        with np.errstate(over="ignore"):  # a piece narrow beyond floats has a density beyond them
            density = np.divide(mass, width, out=np.zeros(np.shape(t)), where=inside)
        jumps = (after - first > 1) & (c[after - 1] > c[np.minimum(first, len(x) - 1)])
        return np.where(jumps, math.inf, density)

    def _ppf(self, level: FloatArray) -> FloatArray:
        x, c = self._x, self._c
        high = np.maximum(np.searchsorted(c, level, side="left"), 1)
        share = np.divide(level - c[high - 1], c[high] - c[high - 1], out=np.zeros(np.shape(level)), where=level > 0.0)
        value = np.minimum(x[high - 1] + share * (x[high] - x[high - 1]), x[high])
        return np.where(level > 0.0, value, x[np.searchsorted(c, 0.0, side="right") - 1])

    def _crps(self, y: FloatArray) -> FloatArray:
        x, c = self._x, self._c
        below, above = _squared(np.diff(x), c[:-1], c[1:]), _squared(np.diff(x), 1.0 - c[:-1], 1.0 - c[1:])
        left = np.concatenate(([0.0], np.cumsum(below)))  # up to each knot, of cdf²
        right = np.concatenate((np.cumsum(above[::-1])[::-1], [0.0]))  # from each knot on, of (1 − cdf)²
        within = np.clip(y, x[0], x[-1])
        high = np.clip(np.searchsorted(x, within, side="right"), 1, len(x) - 1)
        low, level = high - 1, self._cdf(within)
        level = np.where(within == x[high], c[high], level)  # the left limit, if there is a jump
        split = _squared(within - x[low], c[low], level) + _squared(x[high] - within, 1.0 - level, 1.0 - c[high])
        return np.abs(y - within) + left[low] + split + right[high]


class Quantiles(Piecewise):
    """A predictive distribution given by quantiles, with a uniform density between neighbouring quantiles.

    Parameters
    ----------
    levels : array-like of shape (m,)
        Strictly increasing in [0, 1], two or more.
    values : array-like of shape (m,)
        The quantiles at these levels: finite and nondecreasing. Crossing forecasts must be sorted first.

    Notes
    -----
    Beyond the first and the last quantile the density of the first and the last piece is continued until the mass is
    used up. So the support is bounded; an outcome beyond it has PIT 0 or 1. Cost: that of `Piecewise`.

    Examples
    --------
    >>> forecast = Quantiles([0.25, 0.75], [2.0, 4.0])
    >>> forecast.ppf(0.5), forecast.interval(1.0)
    (3.0, (1.0, 5.0))
    """

    def __init__(self, levels: ArrayLike, values: ArrayLike) -> None:
        q, v = _column(levels, "levels"), _column(values, "values")
        if len(q) != len(v) or len(q) < 2:
            raise InputError(f"levels and values have lengths {len(q)} and {len(v)}; give two or more of each")
        if q[0] < 0.0 or q[-1] > 1.0 or (np.diff(q) <= 0.0).any():
            raise InputError(f"levels {q.tolist()!r} are not possible; give strictly increasing levels in [0, 1]")
        _require_rising(v, "values")
        first = v[0] - q[0] * ((v[1] - v[0]) / (q[1] - q[0]))
        last = v[-1] + (1.0 - q[-1]) * ((v[-1] - v[-2]) / (q[-1] - q[-2]))
        if q[0] > 0.0:
            q, v = np.concatenate(([0.0], q)), np.concatenate(([first], v))
        if q[-1] < 1.0:
            q, v = np.concatenate((q, [1.0])), np.concatenate((v, [last]))
        super().__init__(v, q)


class Sample(Piecewise):
    """A predictive distribution given by a sample, such as an ensemble forecast: equal mass on each value.

    Parameters
    ----------
    values : array-like of shape (m,)
        Finite, in any order, one or more.

    Notes
    -----
    It has no density: `pdf` is infinite at the values and 0 elsewhere. Use quantiles or a kernel density where the
    density matters. Cost: a sort, O(m log m), then that of `Piecewise`.

    Examples
    --------
    >>> ensemble = Sample([3.0, 1.0, 2.0])
    >>> ensemble.mean, round(ensemble.cdf(2.5), 4), round(ensemble.crps(2.0), 4)
    (2.0, 0.6667, 0.2222)
    """

    def __init__(self, values: ArrayLike) -> None:
        v = _column(values, "values")
        if len(v) == 0:
            raise InputError("the sample is empty; give one value or more")
        distinct, count = np.unique(v, return_counts=True)
        levels = np.concatenate(([0.0], np.cumsum(count) / len(v)))
        super().__init__(np.repeat(distinct, 2), np.column_stack((levels[:-1], levels[1:])).ravel())


def _squared(width: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """Return ∫ of the square of a linear function from a to b over `width`."""
    return width * (a * a + a * b + b * b) / 3.0


def _each(function: Any, points: Any, what: str) -> Any:
    """Evaluate a function at a float or an array without NaN; return a float for a float."""
    if points.__class__ is float and points == points:  # needs no check
        return float(function(np.array(points)))
    values = _as_floats(points, what)
    if np.isnan(values).any():
        raise InputError(f"{what} {points!r} is not a number; give floats without NaN")
    result = function(values)
    return float(result) if values.ndim == 0 else result


def _column(values: ArrayLike, what: str) -> FloatArray:
    """Return a new float array of shape (m,), all finite."""
    column = _as_floats(values, what).copy()
    if column.ndim != 1 or not np.isfinite(column).all():
        raise InputError(f"{what} {values!r} are not possible; give finite numbers, shape (m,)")
    return column


def _as_floats(values: Any, what: str) -> FloatArray:
    """Return a float array; a text is not a number."""
    array = as_array(values, what)
    if array.size and array.dtype.kind not in "biuf":
        raise InputError(f"{what} {values!r} is not a number nor an array of numbers")
    return array.astype(np.float64)


def _require_rising(values: FloatArray, what: str) -> None:
    rises = bool((values[1:] >= values[:-1]).all())
    if not rises or float(values[-1]) - float(values[0]) == math.inf:
        _refuse_steps(values, what)


@overflows
def _refuse_steps(values: FloatArray, what: str) -> None:
    """Raise `InputError` for the first value that is less than the one before, or further above it than floats go."""
    steps = np.diff(values)
    bad = (steps < 0.0) | np.isinf(steps)
    if bad.any():
        place = int(np.argmax(bad))
        falls = steps[place] < 0.0
        moves, remedy = ("decrease", "give them in order") if falls else ("rise beyond the largest float", "scale them")
        raise InputError(f"{what} {moves} from {values[place].item()!r} to {values[place + 1].item()!r}; {remedy}")
