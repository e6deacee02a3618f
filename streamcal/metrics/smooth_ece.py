"""The smooth calibration error of Błasiok and Nakkiran."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import cache

import numpy as np

from streamcal.metrics.cell_metric import CellMetric, calibrated_draws
from streamcal.parameters.types import FloatArray

#: Points of the grid for one bandwidth: the residuals are put on them linearly, which widens the kernel by 1/6 of the
#: square of their distance, a relative 1e-4 of the bandwidth.
PER_BANDWIDTH = 32
#: The narrowest bandwidth, and the tolerance of the one found, relative to it.
NARROWEST, TOLERANCE = 2.0**-15, 1e-6
FLOOR_DRAWS, QUANTILE = 100, 0.95
#: Of the coefficients beyond REACH/σ the kernel leaves less than e⁻⁴⁰ = 4e-18.
REACH = math.sqrt(80.0) / math.pi
#: Points of grids that are transformed together.
AT_ONCE = 2**17
#: An error of 0 has no logarithm.
SMALLEST = sys.float_info.min


class SmoothECE(CellMetric):
    """Smooth calibration error: the residuals y − p, smoothed over p with a bandwidth that is chosen by the error.

    With K_σ the Gaussian kernel of standard deviation σ, reflected at 0 and 1,

        smECE_σ = ∫₀¹ |Σ wᵢ K_σ(t, pᵢ) (yᵢ − pᵢ)| dt / Σ w,

    and `value` is the σ* at which smECE_σ = σ, which is unique, since smECE_σ does not increase with σ. Lower is
    better. It has no bins to choose, is continuous in the probabilities, and is within constant factors of the distance
    to the nearest calibrated forecaster. A calibrated model has a value above 0 as well: `floor` is what it shows on
    these scores.

    Probabilities are those of cells, of which each counts with its mean; the integral is a sum, by cosine transforms,
    with a relative error of some 1e-4. Below 3e-5 `value` is smECE_σ of that bandwidth.

    Notes
    -----
    Cost: `update` and `revert` O(1), less than 1 µs; `merge` O(c) for c occupied cells; `value` some ten cosine
    transforms of up to 64/σ* points, 1 to 5 ms for errors of .1 to .002; `floor` a hundred times as
    much. Memory as in `EqualMassECE`.

    References
    ----------
    J. Błasiok and P. Nakkiran, Smooth ECE: principled reliability diagrams via kernel smoothing, ICLR 2024; their
    package relplot has the same definition with another numerical integral.

    Examples
    --------
    >>> ece = SmoothECE()
    >>> ece.update_many([0.5] * 100, [True] * 60 + [False] * 40)
    >>> round(ece.value, 3)
    0.1
    """

    @property
    def value(self) -> float | None:
        """The error, in [0, 1]; `None` before the first observation."""
        columns = self._columns()
        if columns is None:
            return None
        residuals = columns.positive - columns.weight * columns.p
        smoothed = Smoothed(columns.p, residuals[np.newaxis])
        total = float(columns.weight.sum())
        return fixed_point(lambda sigma: float(smoothed.errors(sigma)[0]) / total)

    @property
    def floor(self) -> float | None:
        """The 95 % quantile of `value` for a calibrated model, from 100 draws of labels; `None` while nothing is held.

        value ≤ s is the same as smECE_s ≤ s, so that the floor is the s which is the quantile of smECE_s.
        """
        columns = self._columns()
        if columns is None:
            return None
        drawn = calibrated_draws(columns, FLOOR_DRAWS) - columns.weight * columns.p
        smoothed = Smoothed(columns.p, drawn)
        total = float(columns.weight.sum())
        return fixed_point(lambda sigma: float(np.quantile(smoothed.errors(sigma), QUANTILE)) / total)


class Smoothed:
    """∫₀¹ |Σ rᵢ K_σ(t, pᵢ)| dt for rows of residuals r at places p, and any σ.

    Parameters
    ----------
    p : array of shape (c,)
        Places, in [0, 1].
    residuals : array of shape (m, c)
        Residuals in each row.

    Notes
    -----
    The reflected Gaussian is the heat kernel of an interval: it multiplies the k-th cosine coefficient by
    exp(−(πkσ)²/2), which leaves some 2.8/σ of them. Those of the residuals are computed once for each size of the grid,
    a power of 2 from 32/σ to 64/σ. O(m/σ log 1/σ) for each σ.
    """

    def __init__(self, p: FloatArray, residuals: FloatArray) -> None:
        self._p = p
        self._residuals = residuals
        #: The number of intervals of a grid → the coefficients that any σ with this grid may need, by row.
        self._coefficients: dict[int, FloatArray] = {}

    def errors(self, sigma: float) -> FloatArray:
        """The integral for each row, shape (m,)."""
        from scipy.fft import dct  # not at the top: the other metrics do not need it

        last = 2 ** int(np.ceil(np.log2(PER_BANDWIDTH / min(sigma, 1.0))))
        if last not in self._coefficients:
            self._coefficients[last] = self._transformed(last)
        coefficients = self._coefficients[last][:, : int(REACH / sigma) + 1]
        factors = np.exp(-0.5 * (np.pi * sigma * np.arange(coefficients.shape[1])) ** 2)
        found = []
        for rows in _parts(coefficients, last):
            damped = np.zeros((len(rows), last + 1))
            damped[:, : len(factors)] = rows * factors
            density = np.abs(dct(damped, type=1, overwrite_x=True))
            found.append((density.sum(axis=1) - 0.5 * (density[:, 0] + density[:, -1])) / last)
        return np.concatenate(found)

    def _transformed(self, last: int) -> FloatArray:
        """The cosine coefficients of the residuals on the grid 0, 1/last … 1: as many as any σ ≥ 32/last needs."""
        from scipy.fft import dct

        place = self._p * last
        left = np.minimum(place.astype(np.int64), last - 1)
        share = place - left
        found = []
        for rows in _parts(self._residuals, last):
            grid = np.zeros((len(rows), last + 1))
            for points, row in zip(grid, rows, strict=True):
                points += np.bincount(left, row * (1.0 - share), last + 1)
                points += np.bincount(left + 1, row * share, last + 1)
            grid[:, 1:-1] *= 0.5  # the transform counts the inner points twice
            found.append(dct(grid, type=1)[:, : int(REACH / PER_BANDWIDTH * last) + 1])
        return np.concatenate(found)


def _parts(rows: FloatArray, last: int) -> list[FloatArray]:
    """The rows in parts whose grids of last + 1 points fit into the cache."""
    size = max(AT_ONCE // last, 1)
    return [rows[start : start + size] for start in range(0, len(rows), size)]


def fixed_point(error: Callable[[float], float]) -> float:
    """The σ at which a function that does not increase with σ is σ; below `NARROWEST` the function there.

    Such a function is nearly a power of σ between a σ and twice of it, so that the search is for the logarithm.
    """
    from scipy.optimize import brentq

    error = cache(error)  # the ends of the interval are asked for twice
    place = 0  # of 2**-place, at which the function is not above it
    while 2.0 ** -(place + 1) >= NARROWEST and error(2.0 ** -(place + 1)) <= 2.0 ** -(place + 1):
        place += 1
    if 2.0 ** -(place + 1) < NARROWEST or error(2.0**-place) >= 2.0**-place:
        return error(2.0**-place)

    def excess(exponent: float) -> float:
        sigma = float(2.0**exponent)
        return math.log2(max(error(sigma), SMALLEST)) - exponent

    return float(2.0 ** brentq(excess, -place - 1, -place, xtol=TOLERANCE))
