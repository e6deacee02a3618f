"""The smooth calibration error of Błasiok and Nakkiran."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from streamcal.metrics.cell_metric import CellMetric, calibrated_draws
from streamcal.parameters.types import FloatArray

#: Points of the grid for one bandwidth: the residuals are put on them linearly, which widens the kernel by 1/6 of the
#: square of their distance, a relative 1e-4 of the bandwidth.
PER_BANDWIDTH = 32
#: The narrowest bandwidth, and the tolerance of the one found, relative to it.
NARROWEST, TOLERANCE = 2.0**-15, 1e-6
FLOOR_DRAWS, QUANTILE = 100, 0.95


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
    Cost: `update` and `revert` O(1), 2 µs; `merge` O(c) for c occupied cells; `value` some twenty cosine transforms of
    32/σ* points, 2 to 20 ms for errors of .01 to .001; `floor` a hundred times as much. Memory as in `EqualMassECE`.

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
        return fixed_point(lambda sigma: float(smoothed(columns.p, residuals, sigma)) / float(columns.weight.sum()))

    @property
    def floor(self) -> float | None:
        """The 95 % quantile of `value` for a calibrated model, from 100 draws of labels; `None` while nothing is held.

        value ≤ s is the same as smECE_s ≤ s, so that the floor is the s which is the quantile of smECE_s.
        """
        columns = self._columns()
        if columns is None:
            return None
        drawn = calibrated_draws(columns, FLOOR_DRAWS) - columns.weight * columns.p
        total = float(columns.weight.sum())

        def quantile(sigma: float) -> float:
            return float(np.quantile([smoothed(columns.p, row, sigma) for row in drawn], QUANTILE)) / total

        return fixed_point(quantile)


def smoothed(p: FloatArray, residuals: FloatArray, sigma: float) -> float:
    """∫₀¹ |Σ rᵢ K_σ(t, pᵢ)| dt for residuals r at places p, both of shape (c,).

    The reflected Gaussian is the heat kernel of an interval: it multiplies the k-th cosine coefficient by
    exp(−(πkσ)²/2).
    """
    from scipy.fft import dct  # not at the top: the other metrics do not need it

    last = 2 ** int(np.ceil(np.log2(PER_BANDWIDTH / min(sigma, 1.0))))
    place = p * last
    left = np.minimum(place.astype(np.int64), last - 1)
    share = place - left
    grid = np.zeros(last + 1)
    grid += np.bincount(left, residuals * (1.0 - share), last + 1)
    grid += np.bincount(left + 1, residuals * share, last + 1)
    grid[1:-1] *= 0.5  # the transform counts the inner points twice
    coefficients = dct(grid, type=1) * np.exp(-0.5 * (np.pi * sigma * np.arange(last + 1)) ** 2)
    density = np.abs(dct(coefficients, type=1))
    return float(density.sum() - 0.5 * (density[0] + density[-1])) / last


def fixed_point(error: Callable[[float], float]) -> float:
    """The σ at which a function that does not increase with σ is σ; below `NARROWEST` the function there."""
    from scipy.optimize import brentq

    high, low = 1.0, 0.5
    while low >= NARROWEST and error(low) <= low:
        high, low = low, low / 2.0
    if low < NARROWEST:
        return error(high)
    return float(brentq(lambda sigma: error(sigma) - sigma, low, high, xtol=TOLERANCE * low, rtol=TOLERANCE))
