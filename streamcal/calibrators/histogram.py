"""`HistogramBinning`: equal-frequency bins, each with its share of positives."""

from __future__ import annotations

from typing import Unpack, cast

import numpy as np
import numpy.typing as npt

from streamcal.calibrators.additive import AdditiveCalibrator, Common, Table
from streamcal.kernels.cells.cell_bins import FrequencyBins
from streamcal.maps.base import ScaledMap
from streamcal.maps.steps import StepMap
from streamcal.parameters.given import whole_number
from streamcal.parameters.types import FloatArray
from streamcal.statistics.base import Piece
from streamcal.statistics.score_table import GridTable

#: A rank this near below a boundary between two bins, relative to it, is on it, and in the upper bin: ranks are sums of
#: weights, whose rounding must not decide.
ON_A_BOUNDARY = 1e-10
#: No more bins than cells of a grid.
MOST_BINS = 2**20


class HistogramBinning(AdditiveCalibrator[Table]):
    """Histogram (quantile) binning: the share of positives in each of `bins` bins of equal frequency.

    Ties are never split. A distinct score of weight w, with the weight C below it, belongs to bin
    ⌊bins·(C + w/2)/W⌋, where W is the total weight; a score between two bins belongs to the nearer one. The quotient
    counts as whole from a relative 1e-10 below on, so that the rounding of sums of weights does not choose a bin. On a
    grid the cells replace the distinct scores. The map is not monotone.

    Parameters
    ----------
    bins : int
        Number of bins, at least 1; with heavy ties some are empty and are left out.
    scale, forgetting, prior
        See `AdditiveCalibrator`.
    resolution : int or None
        Cells of the grid (default 4,096: fixed memory); None keeps every distinct score.
    refresh_every : int
        See `AdditiveCalibrator`.

    Notes
    -----
    Cost: O(log k) for an observation, k distinct scores or cells, and on a grid for a prediction; otherwise a
    prediction after an observation O(k). Memory O(k).

    References
    ----------
    Zadrozny and Elkan 2001; paper 002, §2.2.1.

    Examples
    --------
    >>> cal = HistogramBinning(bins=2, resolution=None)
    >>> cal.learn_many([0.1, 0.2, 0.7, 0.9], [0, 0, 0, 1])
    >>> cal.predict_many([0.15, 0.8]).tolist()
    [0.0, 0.5]
    """

    name = "histogram-binning"
    summary = "share of positives in equal-frequency bins"
    default_resolution = 4096
    monotone = False
    by_ratios = True

    def __init__(self, bins: int = 15, **common: Unpack[Common]) -> None:
        self.bins = whole_number(bins, "bins", 1, MOST_BINS)
        super().__init__(**common)
        table = self._grid_table()
        if table is not None:
            self._tree = FrequencyBins(table.sums, table.grid.centres, table.grid.cell, self.bins, ON_A_BOUNDARY)
            self._at, self.streams = self._tree.at, True

    def _stream(self, x: FloatArray, y: FloatArray, piece: Piece, found: FloatArray) -> None:
        self._tree.run(cast(GridTable, self._memory.statistic).rows(x, y, piece), found[0])

    def solve(self, statistic: Table, start: ScaledMap | None) -> ScaledMap:
        """Fit the map to a non-empty statistic whose weights are in units of a new observation."""
        cuts, shares = equal_frequency_bins(*statistic.columns(), self.bins)
        return StepMap(self.scale, cuts, shares, statistic.grid)


def equal_frequency_bins(
    x: FloatArray, weight: FloatArray, positive: FloatArray, bins: int
) -> tuple[FloatArray, FloatArray]:
    """Return cuts between bins, shape (m − 1,), and shares of positives, shape (m,); m ≤ bins are not empty."""
    first = first_of_bins(middle_ranks(weight), float(weight.sum()), bins)
    shares = np.add.reduceat(positive, first) / np.add.reduceat(weight, first)
    return cuts_before(x, first[1:]), np.clip(shares, 0.0, 1.0)


def middle_ranks(weight: FloatArray) -> FloatArray:
    """Return the weight below each score plus half of the score's own weight."""
    return np.cumsum(weight) - 0.5 * weight


def first_of_bins(ranks: FloatArray, total: float, bins: int) -> npt.NDArray[np.intp]:
    """Return the position of the first score of each non-empty bin."""
    place = bins * ranks / total * (1.0 + ON_A_BOUNDARY)
    bin_of = np.minimum(place.astype(np.intp), bins - 1)
    return np.flatnonzero(np.diff(bin_of, prepend=-1))


def cuts_before(x: FloatArray, places: npt.NDArray[np.intp]) -> FloatArray:
    """Return the midpoints between the scores at these positions and the scores before them."""
    left, right = x[places - 1], x[places]
    middles = 0.5 * left + 0.5 * right
    return np.where(middles > left, middles, right)  # neighbouring floats have no middle
