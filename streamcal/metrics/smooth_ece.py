"""The smooth calibration error of Błasiok and Nakkiran."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from streamcal.metrics.base import Metric
from streamcal.metrics.cells import CellColumns, calibrated_labels
from streamcal.parameters.types import FloatArray

#: Points of the grid for one bandwidth, at least: the kernel is interpolated by cubics between them, with an error of
#: 2e-5 of its height at 8, and of 3e-4 at 4, for floors, whose sampling error is some percent.
FINE, COARSE = 8, 4
#: The narrowest bandwidth, as a part of the range of the probabilities, and the least.
NARROWEST, LEAST = 2.0**-15, 2.0**-40
#: Tolerances of the bandwidth that is found, relative to it: of `get`, of `floor` and of the first guess at that.
TOLERANCE, FLOOR_TOLERANCE, GUESS_TOLERANCE = 1e-6, 1e-4, 0.1
FLOOR_DRAWS, QUANTILE = 100, 0.95
#: For a floor, cells are joined that are in an interval of one bandwidth divided by this number: their mean instead of
#: their places widens the kernel by at most a relative 1/(24 ⋅ 4²) = .3 %.
JOINED = 4
#: Bandwidths beyond which the kernel has a mass below 2e-9.
MARGIN = 6.0
#: Of the coefficients beyond REACH/σ the kernel leaves less than e⁻⁴⁰ = 4e-18.
REACH = math.sqrt(80.0) / math.pi
#: Points of grids that are transformed together.
AT_ONCE = 2**17
#: How log(smECE_σ/σ) changes with log σ where noise alone is smoothed; the search begins with that.
SLOPE = -1.5
#: Steps of the search, which takes 4 to 7.
STEPS = 100
#: An error of 0 has no logarithm.
SMALLEST = sys.float_info.min


class SmoothECE(Metric):
    """Smooth calibration error: the residuals y − p, smoothed over p with a bandwidth that is chosen by the error.

    With K_σ the Gaussian kernel of standard deviation σ, reflected at 0 and 1,

        smECE_σ = ∫₀¹ |Σ wᵢ K_σ(t, pᵢ) (yᵢ − pᵢ)| dt / Σ w,

    and `get` is the σ* at which smECE_σ = σ, which is unique, since smECE_σ does not increase with σ. Lower is
    better. It has no bins to choose, is continuous in the probabilities, and is within constant factors of the distance
    to the nearest calibrated forecaster. A calibrated model has a value above 0 as well: `floor` is what it shows on
    these scores.

    Probabilities are those of cells, of which each counts with its mean; the integral is a sum, by cosine transforms,
    with a relative error of some 2e-5. Below 3e-5 of the range of the probabilities `get` is smECE_σ of that
    bandwidth.

    Notes
    -----
    Cost: `update` and `revert` O(1), less than 1 µs; `merge` O(c) for c occupied cells. `get` computes some six cosine
    transforms of 8 to 16 R/σ* points, where R is the part of [0, 1] within 6 σ* of a probability. `floor` computes some
    five hundred of half as many points, and the draws. docs/measures.md has times. Memory as in `EqualMassECE`.

    References
    ----------
    J. Błasiok and P. Nakkiran, Smooth ECE: principled reliability diagrams via kernel smoothing, ICLR 2024; their
    package relplot has the same definition with another numerical integral.

    Examples
    --------
    >>> ece = SmoothECE()
    >>> ece.update_many([True] * 60 + [False] * 40, [0.5] * 100)
    >>> round(ece.get(), 3)
    0.1
    """

    def get(self) -> float | None:
        """Return the error, in [0, 1]; `None` before the first observation."""
        columns = self._columns()
        if columns is None:
            return None
        residuals = columns.positive - columns.weight * columns.p
        smoothed = Smoothed(columns.p, residuals[np.newaxis], FINE)
        total = float(columns.weight.sum())
        most = float(np.abs(residuals).sum()) / total
        return fixed_point(lambda sigma: float(smoothed.errors(sigma)[0]) / total, most, columns.p, TOLERANCE)

    @property
    def floor(self) -> float | None:
        """The 95 % quantile of `get` for a calibrated model, from 100 draws of labels; `None` while nothing is held.

        value ≤ s is the same as smECE_s ≤ s, so that the floor is the s which is the quantile of smECE_s. What is
        exceeded by 5 of 100 draws is exceeded by some 3 to 7 % of calibrated models.
        """
        columns = self._columns()
        if columns is None:
            return None
        total, middle = float(columns.weight.sum()), usual(columns)
        columns = joined(columns, middle / JOINED)
        positive, weight = calibrated_labels(columns, FLOOR_DRAWS)
        smoothed = Smoothed(columns.p, positive - weight * columns.p, COARSE)
        return fixed_point(
            lambda sigma: float(np.quantile(smoothed.errors(sigma), QUANTILE)) / total,
            middle, columns.p, FLOOR_TOLERANCE,
        )  # fmt: skip


def usual(columns: CellColumns) -> float:
    """Estimate the smECE of a calibrated model: the fixed point of the expected smECE_σ for normal residuals."""
    variance, total = columns.variance, float(columns.weight.sum())
    smoothed = Smoothed(columns.p, variance[np.newaxis], COARSE)
    # By the inequality of Cauchy and Schwarz ∫ √f ≤ √(R ∫ f), for a range R that is much wider than the bandwidth. In a
    # range that is much narrower, all residuals are in one place.
    wide = np.cbrt(float(variance.sum()) * float(np.ptp(columns.p)) / total**2)
    narrow = math.sqrt(float(variance.sum())) / total
    start = max(float(wide), narrow)
    return fixed_point(lambda sigma: smoothed.noise(sigma) / total, start, columns.p, GUESS_TOLERANCE)


def joined(columns: CellColumns, width: float) -> CellColumns:
    """Join the cells that are in one interval [k, k + 1) ⋅ width."""
    first = np.flatnonzero(np.diff(np.floor(columns.p / max(width, LEAST)), prepend=-1.0))
    sums = CellColumns(*(np.add.reduceat(column, first) for column in columns))
    return sums._replace(
        p=np.minimum(np.add.reduceat(columns.weight * columns.p, first) / sums.weight, 1.0),
        low=columns.low[first],
        high=columns.high[np.append(first[1:], len(columns.p)) - 1],
        effective=sums.weight * sums.weight / sums.squared,
    )


class Smoothed:
    """∫₀¹ |Σ rᵢ K_σ(t, pᵢ)| dt for rows of residuals r at places p, shapes (m, c) and (c,), and any σ.

    The reflected Gaussian is the heat kernel of an interval: it multiplies the k-th cosine coefficient by
    exp(−(πkσ)²/2), which leaves some 2.8/σ of them. The interval here has only what the kernel reaches from the places:
    the rest of [0, 1] is cut out, and an end that is neither 0 nor 1 reflects nothing. It and the coefficients of the
    residuals are computed once for all σ between a power of 2 and its half, on a grid of at least `per_bandwidth`
    points for one bandwidth. With its length L, at most the range of the places + 12 σ and 12 σ for each place, O(m L/σ
    log L/σ) for each σ.
    """

    def __init__(self, p: FloatArray, residuals: FloatArray, per_bandwidth: int) -> None:
        self._p = p
        self._residuals = residuals
        self._per_bandwidth = per_bandwidth
        #: The least power of 2 that is not below σ → the length of the interval, the number of steps of its grid, and
        #: by row the coefficients that any such σ may need.
        self._transforms: dict[float, tuple[float, int, FloatArray]] = {}

    def errors(self, sigma: float) -> FloatArray:
        """Return the integral for each row, shape (m,)."""
        return np.concatenate([absolute_means(densities) for densities in self._densities(sigma)])

    def noise(self, sigma: float) -> float:
        """Return the expected integral for independent normal residuals of mean 0, whose variances are the first row.

        It is ∫ √(2/π Σ rᵢ K_σ(t, pᵢ)²) dt; without reflection K_σ² is the Gaussian of σ/√2 over 2 √π σ.
        """
        narrower = sigma / math.sqrt(2.0)
        (densities,) = self._densities(narrower)
        length, _, _ = self._transform(narrower)
        roots = np.sqrt(np.maximum(densities[0], 0.0) * length / (math.pi**1.5 * sigma))
        return float(roots[1:].sum() + roots[:-1].sum()) / (2 * len(roots) - 2)

    def _densities(self, sigma: float) -> Iterator[FloatArray]:
        """Yield Σ rᵢ K_σ(t, pᵢ), times the length of the interval, on the grid: each time for a part of the rows."""
        from scipy.fft import dct  # not at the top: the other metrics do not need it

        length, last, coefficients = self._transform(sigma)
        coefficients = coefficients[:, : int(REACH * length / sigma) + 1]
        factors = np.exp(-0.5 * (np.pi * sigma / length * np.arange(coefficients.shape[1])) ** 2)
        for rows in _parts(coefficients, last):
            damped = np.zeros((len(rows), last + 1))
            damped[:, : len(factors)] = rows * factors
            yield dct(damped, type=1, overwrite_x=True)

    def _transform(self, sigma: float) -> tuple[float, int, FloatArray]:
        """Return the length, the number of steps and the coefficients for this σ."""
        widest = 2.0 ** math.ceil(math.log2(sigma))
        if widest not in self._transforms:
            self._transforms[widest] = self._transformed(widest)
        return self._transforms[widest]

    def _transformed(self, widest: float) -> tuple[float, int, FloatArray]:
        """Return what `_transform` does, computed for any σ from widest/2 to widest."""
        from scipy.fft import dct, next_fast_len

        reach = MARGIN * widest
        steps = np.minimum(np.diff(self._p), 2.0 * reach)
        places = min(float(self._p[0]), reach) + np.append(0.0, np.cumsum(steps))
        length = float(places[-1]) + min(1.0 - float(self._p[-1]), reach)
        last = int(next_fast_len(math.ceil(2 * self._per_bandwidth * length / widest)))
        left, shares = cubic_shares(places * (last / length), last)
        transforms = []
        for rows in _parts(self._residuals, last):
            grid = np.zeros((len(rows), last + 3))
            for points, row in zip(grid, rows, strict=True):
                for shift, share in enumerate(shares):
                    points += np.bincount(left + shift, row * share, last + 3)
            grid[:, 2] += grid[:, 0]  # what is beyond the ends is reflected
            grid[:, -3] += grid[:, -1]
            grid[:, 2:-2] *= 0.5  # the transform counts the inner points twice
            transforms.append(dct(grid[:, 1:-1], type=1)[:, : int(2.0 * REACH * length / widest) + 1])
        return length, last, np.concatenate(transforms)


def cubic_shares(places: FloatArray, last: int) -> tuple[NDArray[np.int64], tuple[FloatArray, ...]]:
    """Find the four points of the grid −1, 0 … last + 1 around each place, and the share of its mass that each gets.

    The shares are Lagrange's weights: for a cubic, the sum over the points is its value at the place. Return the index
    of the first of the four points, where that of −1 is 0, and the four shares, arrays of shape (c,).
    """
    left = np.clip(places.astype(np.int64), 0, last - 1)
    x = places - left
    before, after, last_but = x + 1.0, x - 1.0, x - 2.0
    inner = after * last_but
    return left, (x * inner / -6.0, before * inner / 2.0, before * x * last_but / -2.0, before * x * after / 6.0)


def absolute_means(values: FloatArray) -> FloatArray:
    """Return ∫₀¹ |f| for rows of values of functions f on a grid 0, 1/m … 1.

    The trapezoidal sum has next to no error for a smooth f that is reflected at both ends (Euler and Maclaurin). Where
    f is 0 between two points, a before and b after, |f| has a kink, at the share s = |a|/(|a| + |b|) of the step. It
    adds (|a| + |b|) (s (1 − s) − 1/6)/m to the sum, which is taken off here.
    """
    size = np.abs(values)
    total = size.sum(axis=1) - 0.5 * (size[:, 0] + size[:, -1])
    row, place = np.nonzero((values[:, :-1] > 0.0) != (values[:, 1:] > 0.0))
    before, after = size[row, place], size[row, place + 1]
    both = np.maximum(before + after, SMALLEST)
    return np.asarray(
        (total - np.bincount(row, before * (after / both) - both / 6.0, len(values))) / (values.shape[1] - 1)
    )


def _parts(rows: FloatArray, last: int) -> list[FloatArray]:
    """Split the rows into parts whose grids of last + 1 points fit into the cache."""
    size = max(AT_ONCE // last, 1)
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def fixed_point(error: Callable[[float], float], start: float, p: FloatArray, tolerance: float) -> float:
    """Find the σ of at most 1 at which a function that does not increase with σ equals σ; 0 for a start at 0.

    The narrowest σ is a part of the places p, in ascending order: below it the function there is returned.
    log(error(σ)/σ) falls by at least the change of log σ, so that its value at a σ is the most by which log σ is wrong,
    which has to be below `tolerance`. Steps are those of the secant, within the bounds that follow. Some five
    evaluations.
    """
    if start <= 0.0:
        return 0.0
    least = math.log(max(NARROWEST * float(p[-1] - p[0]), LEAST))
    low, high = least, 0.0
    x, slope = min(max(math.log(start), low), high), SLOPE
    tried: dict[float, float] = {}
    while len(tried) < STEPS:
        error_at_x = error(math.exp(x))
        excess = math.log(max(error_at_x, SMALLEST)) - x
        if (excess < 0.0 and x == least) or (excess > 0.0 and x == 0.0):
            return min(error_at_x, 1.0)
        if tried:
            before, then = next(reversed(tried.items()))
            slope = min((excess - then) / (x - before), -1.0)
        tried[x] = excess
        low, high = (x, min(high, x + excess)) if excess > 0.0 else (max(low, x + excess), x)
        following = min(max(x - excess / slope, low), high)
        if abs(excess) <= tolerance or high - low <= tolerance:
            return math.exp(following)
        x = 0.5 * (low + high) if following in tried else following
    return math.exp(x)
