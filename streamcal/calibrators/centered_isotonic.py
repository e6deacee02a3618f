"""`CenteredIsotonic`: isotonic regression interpolated between the centres of its blocks; it preserves the ranking."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from streamcal.calibrators.additive import AdditiveCalibrator, Common
from streamcal.maps.base import ScaledMap
from streamcal.maps.knots import KnotMap
from streamcal.statistics.score_tree import TIED_VALUES, ScoreTree, score_tree

#: A block whose value is as near to 0 or 1 as this is there: what is left over is the rounding of its sums.
AT_A_BOUND = 2.0**-42


class CenteredIsotonic(AdditiveCalibrator[ScoreTree]):
    """Centred isotonic regression (CIR): linear between the centres of the blocks of the isotonic fit.

    A block of scores sᵢ with weights wᵢ and labels yᵢ becomes the point (Σwᵢsᵢ/Σwᵢ, Σwᵢyᵢ/Σwᵢ). Neighbouring scores
    of equal value strictly between 0 and 1 are one block. A block of value 0 or 1 is not reduced to a point: the map is
    constant from its first score to its last, below the first point, and above the last.

    So the map is strictly increasing from the first point to the last, except where it is 0 or 1: no two scores in
    between are tied, and the ranking is preserved. It is not the least-squares fit: its mean over the scores held
    need not be the share of positives.

    Parameters
    ----------
    scale, forgetting, prior
        See `AdditiveCalibrator`. The centres are means of the coordinate, so the scale matters.
    resolution : int or None
        None (default) keeps every distinct score; a number of cells rounds scores to a grid: a coarser score, in
        fixed memory, on which the map has a step for each cell.
    refresh_every : int
        See `AdditiveCalibrator`.

    Notes
    -----
    Values 0 and 1, and equal values, are recognised to a relative 2⁻⁴², the rounding of sums. Cost: learning and
    unlearning O(log² k) for k distinct scores, `predict_one` too; the first array after a change O(k); memory O(k).

    References
    ----------
    Oron and Flournoy 2017, with equal values and values 0 and 1 as in their package `cir`.

    Examples
    --------
    >>> cal = CenteredIsotonic()
    >>> cal.learn_many([0.1, 0.2, 0.4, 0.6, 0.8], [0, 0, 1, 0, 1])
    >>> cal.predict_many([0.2, 0.4, 0.5, 0.6, 0.8]).round(3).tolist()
    [0.0, 0.333, 0.5, 0.667, 1.0]
    """

    name = "centered-isotonic"
    summary = "isotonic fit through the centres of its blocks: strictly increasing"
    default_resolution = None

    by_ratios = True

    def __init__(self, **common: Unpack[Common]) -> None:
        super().__init__(**common)
        centred = self._memory.statistic.tree.centred
        self._at = lambda x: centred(x, TIED_VALUES, AT_A_BOUND)

    def _keeps_up(self) -> bool:
        return True

    def new_statistic(self) -> ScoreTree:
        return score_tree(self.scale, self.resolution, keeps_fit=True, centred=True)

    def solve(self, statistic: ScoreTree, start: ScaledMap | None) -> ScaledMap:
        first, last, centre, value = statistic.centred_blocks()
        level = (value <= AT_A_BOUND) | (value >= 1.0 - AT_A_BOUND)
        left, right = np.where(level, first, centre), np.where(level, last, centre)
        knots = np.column_stack((left, right)).ravel()
        distinct = np.concatenate(([True], knots[1:] > knots[:-1]))  # a point is one knot, a level two
        return KnotMap(self.scale, knots[distinct], np.repeat(value, 2)[distinct], statistic.grid)
