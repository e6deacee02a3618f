"""`BBQ`: Bayesian binning into quantiles, an average over histogram binnings with different numbers of bins."""

from __future__ import annotations

import math
from functools import partial
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from streamcal.calibrators.additive import AdditiveCalibrator, Common, Table
from streamcal.calibrators.histogram import (
    EQUIVALENT_SIZE,
    ON_A_BOUNDARY,
    cuts_before,
    first_of_bins,
    middle_ranks,
    numbers_of_bins,
)
from streamcal.kernels.cells.beta_scores import bin_scores
from streamcal.kernels.cells.binnings import Binnings
from streamcal.maps.base import ScaledMap
from streamcal.maps.steps import StepMap
from streamcal.parameters.forgetting import Decay
from streamcal.parameters.numbers import real_number
from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray
from streamcal.statistics.score_table import GridTable

#: The prior share of a bin is limited to this distance from 0 and 1, where its score would be infinite. The authors'
#: code has 0.005, which is too large for rare events.
SMALLEST_SHARE = 1e-9
#: Binnings whose posterior is below this share of the best one's are left out: all of them together weigh less than
#: the rounding of the average, as long as there are fewer than a million.
NEGLIGIBLE = 2.0**-80
#: From this `refresh_every` on, a map at each refresh costs less than a prediction after every observation.
LAGGING = 64


class BBQ(AdditiveCalibrator[Table]):
    """Bayesian binning into quantiles: average of binnings into B bins of equal frequency by their posterior.

    For every B from ⌊N^⅓/C⌋ (at least 1) to ⌈C·N^⅓⌉, but at most ⌈N/5⌉ and the number of distinct scores, bin b
    has the weight n_b, of which m_b is positive, and

        score(B) = Π_b  Β(m_b + α_b, n_b − m_b + β_b) / Β(α_b, β_b),   α_b = π_b·N′/B,   β_b = (1 − π_b)·N′/B,
        p(s)     = Σ_B score(B)·(m_b + α_b)/(n_b + N′/B) / Σ_B score(B),   b the bin of s in binning B,

    with the beta function Β, N′ = 2, and π_b the middle of the bin's interval, read as a probability. Ties are never
    split: bins are those of `HistogramBinning`. The map is not monotone.

    Parameters
    ----------
    breadth : float
        C, at least 1: the range of the number of bins around N^⅓.
    scale, forgetting, prior
        See `AdditiveCalibrator`. The scale determines the probability of a score, hence π_b.
    resolution : int or None
        Cells of the grid (default 4,096: fixed memory); None keeps every distinct score.
    refresh_every : int
        See `AdditiveCalibrator`.

    Notes
    -----
    N is the weight held, in units of an observation of the present. The paper states N′ = 2 for a binning; the authors'
    code has 2 for every bin. Within a bin the prediction is the posterior mean, which the average over posteriors
    implies; the paper leaves it open and the code smooths differently. Binnings with less than 2⁻⁸⁰ of the best score
    are left out (below rounding).

    Cost: an observation O(log k) for k distinct scores (cells). On a grid, unless under `Decay`, `predict_one` follows
    the cells: O(k + C·N^⅓) and the bins that the observation changes. That is 0.04 ms at N = 10⁵, and more with
    weights that are not whole numbers. Memory O(k + C²·N^⅔), 70 MB at most. Elsewhere, for `map()` and for arrays, the
    first prediction after an observation costs O(C²·N^⅔ + C·k·N^⅓); memory O(k).

    References
    ----------
    Naeini, Cooper and Hauskrecht 2015; paper 002, §2.2.6.

    Examples
    --------
    >>> cal = BBQ(resolution=None)
    >>> cal.learn_many([0.1, 0.2, 0.3, 0.7, 0.8, 0.9], [0, 0, 0, 1, 1, 1])
    >>> cal.predict_many([0.2, 0.8]).round(3).tolist()
    [0.071, 0.929]
    """

    name = "bbq"
    summary = "Bayesian average of equal-frequency binnings"
    monotone = False

    def __init__(self, breadth: float = 10.0, **common: Unpack[Common]) -> None:
        self.breadth = real_number(breadth, "breadth", "a finite number of at least 1", least=1.0)
        super().__init__(**common)
        table = self._grid_table()
        # Under `Decay` all weights change at every step, and no score of a bin stays.
        self._at = None if table is None or isinstance(self.forgetting, Decay) else self._binnings(table).at

    def _keeps_up(self) -> bool:
        return self.resolution is not None and not isinstance(self.forgetting, Decay) and self.refresh_every < LAGGING

    def _binnings(self, table: GridTable) -> Binnings:
        """Return the kernel that predicts from the cells of the table."""
        breadth = self.breadth  # and no reference to this object, which has the kernel
        return Binnings(
            table.sums,
            table.grid.centres,
            table.grid.cell,
            lambda total, distinct: numbers_of_bins(total, distinct, breadth),
            partial(ends_around, self.scale),
            ON_A_BOUNDARY,
            EQUIVALENT_SIZE,
            SMALLEST_SHARE,
            NEGLIGIBLE,
        )

    def solve(self, statistic: Table, start: ScaledMap | None) -> ScaledMap:
        x, weight, positive = statistic.columns()
        cuts = cuts_before(x, np.arange(1, len(x)))
        values = averaged_bins(weight, positive, ends_around(self.scale, x), self.breadth)
        changes = np.diff(values) != 0.0
        return StepMap(self.scale, cuts[changes], np.append(values[:1], values[1:][changes]), statistic.grid)


def ends_around(scale: Scale, x: FloatArray) -> FloatArray:
    """Return the interval ends around k sorted scores as probabilities, shape (k + 1,)."""
    cuts = cuts_before(x, np.arange(1, len(x)))
    return scale.probabilities(np.concatenate(([scale.lo], cuts, [scale.hi])))


def averaged_bins(weight: FloatArray, positive: FloatArray, borders: FloatArray, breadth: float) -> FloatArray:
    """Average the predictions of all binnings at k sorted scores; `borders`, shape (k + 1,), are probabilities."""
    ranks, total = middle_ranks(weight), float(weight.sum())
    best, average, share = -math.inf, np.zeros(len(weight)), 0.0
    for bins in numbers_of_bins(total, len(weight), breadth):
        first = first_of_bins(ranks, total, bins)
        score, means = _binning(weight, positive, borders, first, bins)
        if score > best:  # posteriors are kept relative to the best so far
            shrink = math.exp(best - score)
            average, share, best = shrink * average, shrink * share, score
        posterior = math.exp(score - best)
        if posterior > NEGLIGIBLE:
            average += posterior * np.repeat(means, np.diff(first, append=len(weight)))
            share += posterior
    return np.clip(average / share, 0.0, 1.0)


def _binning(
    weight: FloatArray, positive: FloatArray, borders: FloatArray, first: NDArray[np.intp], bins: int
) -> tuple[float, FloatArray]:
    """Return a binning's log score and the posterior mean of each of its non-empty bins."""
    n, m = np.add.reduceat(weight, first), np.add.reduceat(positive, first)
    ends = borders[np.append(first, len(weight))]
    middle = np.clip(0.5 * ends[:-1] + 0.5 * ends[1:], SMALLEST_SHARE, 1.0 - SMALLEST_SHARE)
    size = EQUIVALENT_SIZE / bins
    alpha, beta = size * middle, size * (1.0 - middle)
    return float(bin_scores(n, m, alpha, beta).sum()), (m + alpha) / (n + size)
