"""`HistogramBinning`: equal-frequency bins, each with its share of positives."""

from __future__ import annotations

import math
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from streamcal.calibrators.additive import AdditiveCalibrator, Common, Table
from streamcal.kernels.cells.beta_scores import bin_scores
from streamcal.kernels.cells.cell_bins import FrequencyBins
from streamcal.maps.base import ScaledMap
from streamcal.maps.steps import StepMap
from streamcal.parameters.numbers import whole_number
from streamcal.parameters.types import FloatArray

#: A rank this near below a boundary between two bins, relative to it, is on it, and in the upper bin: ranks are sums of
#: weights, whose rounding must not decide.
ON_A_BOUNDARY = 1e-10
#: No more bins than cells of a grid.
MOST_BINS = 2**20
#: N′ of the papers: the weight of the pseudo-observations in a binning, over all of its bins.
EQUIVALENT_SIZE = 2.0
#: As in the code of the authors of BBQ: no binning has more bins than one for every five observations.
OBSERVATIONS_PER_BIN = 5.0
#: The numbers of bins that are compared are within this factor of the cube root of the weight, as in `BBQ`.
BREADTH = 10.0


class HistogramBinning(AdditiveCalibrator[Table]):
    """Histogram (quantile) binning: the share of positives in each of `bins` bins of equal frequency.

    Ties are never split. A distinct score of weight w, with the weight C below it, belongs to bin ⌊bins·(C + w/2)/W⌋,
    where W is the total weight; a score between two bins belongs to the nearer one. A quotient within a relative 1e-10
    below a whole number counts as that number, so that the rounding of sums does not choose a bin. On a grid the cells
    replace the distinct scores. The map is not monotone.

    Parameters
    ----------
    bins : int or None
        Number of bins, at least 1; with heavy ties some are empty and are left out. None: the number with the largest
        BDeu score, of those that `BBQ` averages,

            Σ_b ln Β(m_b + α, n_b − m_b + α) / Β(α, α),   α = 1/bins,

        with the beta function Β, and n_b and m_b the weight and the positive weight of bin b.
    scale, forgetting, prior
        See `AdditiveCalibrator`.
    resolution : int or None
        Cells of the grid (default 4,096: fixed memory); None keeps every distinct score.
    refresh_every : int
        See `AdditiveCalibrator`.

    Notes
    -----
    Cost: O(log k) for an observation, k distinct scores or cells, and on a grid for a prediction; otherwise a
    prediction after an observation O(k). Memory O(k). With `bins=None` the first prediction after an observation costs
    that of the batch of `BBQ`: give `refresh_every`.

    Paper 002 chooses the number by BDeu. `None` is not the default, since it is not better than 15 bins on short
    streams.

    References
    ----------
    Zadrozny and Elkan 2001; paper 002, §2.2.1 and §5.

    Examples
    --------
    >>> cal = HistogramBinning(bins=2, resolution=None)
    >>> cal.learn_many([0.1, 0.2, 0.7, 0.9], [0, 0, 0, 1])
    >>> cal.predict_many([0.15, 0.8]).tolist()
    [0.0, 0.5]
    """

    name = "histogram-binning"
    summary = "share of positives in equal-frequency bins"
    monotone = False
    by_ratios = True

    def __init__(self, bins: int | None = 15, **common: Unpack[Common]) -> None:
        allowed = f"None, or a whole number from 1 to {MOST_BINS:,}"
        self.bins = None if bins is None else whole_number(bins, "bins", 1, MOST_BINS, allowed)
        self.by_ratios = bins is not None
        super().__init__(**common)
        table = self._grid_table()
        if table is not None and self.bins is not None:
            self._read_by(FrequencyBins(table.sums, table.grid.centres, table.grid.cell, self.bins, ON_A_BOUNDARY))

    def _keeps_up(self) -> bool:
        return self.resolution is not None and self.bins is not None

    def solve(self, statistic: Table, start: ScaledMap | None) -> ScaledMap:
        columns = statistic.columns()
        cuts, shares = equal_frequency_bins(*columns, best_number(*columns[1:]) if self.bins is None else self.bins)
        return StepMap(self.scale, cuts, shares, statistic.grid)


def equal_frequency_bins(
    x: FloatArray, weight: FloatArray, positive: FloatArray, bins: int
) -> tuple[FloatArray, FloatArray]:
    """Return cuts between bins, shape (m − 1,), and shares of positives, shape (m,); m ≤ bins are not empty."""
    first = first_of_bins(middle_ranks(weight), float(weight.sum()), bins)
    shares = np.add.reduceat(positive, first) / np.add.reduceat(weight, first)
    return cuts_before(x, first[1:]), np.clip(shares, 0.0, 1.0)


def best_number(weight: FloatArray, positive: FloatArray) -> int:
    """Return the number of bins with the largest BDeu score; of equal scores that of the fewest bins."""
    ranks, total = middle_ranks(weight), float(weight.sum())

    def score(bins: int) -> float:
        first = first_of_bins(ranks, total, bins)
        return bdeu(np.add.reduceat(weight, first), np.add.reduceat(positive, first))

    return max(numbers_of_bins(total, len(weight), BREADTH), key=score)


def bdeu(weight: FloatArray, positive: FloatArray) -> float:
    """Return the BDeu score of bins: the log likelihood of their labels under a uniform prior of weight 2 in all."""
    prior = np.full(len(weight), 0.5 * EQUIVALENT_SIZE / len(weight))
    return float(bin_scores(weight, positive, prior, prior).sum())


def numbers_of_bins(total: float, distinct: int, breadth: float) -> range:
    """Return the range of bin counts to try for this total weight and number of distinct scores."""
    root, up, down = math.cbrt(total), 1.0 + ON_A_BOUNDARY, 1.0 - ON_A_BOUNDARY  # a total weight is rounded
    filled = math.ceil(total / OBSERVATIONS_PER_BIN * down)
    most = max(1.0, min(math.ceil(min(breadth * root * down, distinct)), filled))
    least = min(max(1.0, math.floor(root / breadth * up)), most)
    return range(int(least), int(most) + 1)


def middle_ranks(weight: FloatArray) -> FloatArray:
    """Return the weight below each score plus half of the score's own weight."""
    return np.cumsum(weight) - 0.5 * weight


def first_of_bins(ranks: FloatArray, total: float, bins: int) -> NDArray[np.intp]:
    """Return the position of the first score of each non-empty bin."""
    place = bins * ranks / total * (1.0 + ON_A_BOUNDARY)
    bin_of = np.minimum(place.astype(np.intp), bins - 1)
    return np.flatnonzero(np.diff(bin_of, prepend=-1))


def cuts_before(x: FloatArray, places: NDArray[np.intp]) -> FloatArray:
    """Return the midpoints between the scores at these positions and the scores before them."""
    left, right = x[places - 1], x[places]
    middles = 0.5 * left + 0.5 * right
    return np.where(middles > left, middles, right)  # neighbouring floats have no middle
