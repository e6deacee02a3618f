"""`AdaptiveCalibration` (ACP): the share of positives among the observations in an interval around the score."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from streamcal.calibrators.additive import AdditiveCalibrator, Common, Table
from streamcal.calibrators.neighbourhoods import REACHED, NearestScores, Neighbourhood, Places
from streamcal.errors import InputError
from streamcal.kernels.cells.cell_bins import NearestCells
from streamcal.maps.base import ScaledMap
from streamcal.maps.steps import StepMap
from streamcal.parameters.types import FloatArray


class AdaptiveCalibration(AdditiveCalibrator[Table]):
    """Adaptive calibration of predictions (ACP): p(s) = Σ wᵢyᵢ / Σ wᵢ over the observations in the interval of s.

    The map is piecewise constant and not monotone. Intervals overlap, so that the sum of the predictions need not equal
    the number of positives.

    Parameters
    ----------
    interval : NearestScores, FixedWidth or ScoreIntervals
        The interval of a score. The default, `NearestScores(0.05)`, is the smallest one around s with 5 % of the
        weight: K nearest neighbours with K = 5 % of the observations held, as paper 002 (§5.3) uses it for models
        without confidence intervals. `ScoreIntervals` takes the confidence intervals of a model as a table; a function
        is refused, since it could not be saved with the calibrator.
    scale, forgetting, prior
        See `AdditiveCalibrator`. Distances are measured on the coordinate: with `Logit()`, in log-odds.
    resolution : int or None
        Cells of the grid to which scores are rounded (default 4,096: fixed memory); None keeps every distinct score.
    refresh_every : int
        See `AdditiveCalibrator`.

    Notes
    -----
    K is not rounded: the interval has at least 5 % of the weight, up to 2⁻⁴² of the total, the rounding of sums.

    Cost: an observation O(log k) for k distinct scores (cells), the first prediction after it O(k log k), the next ones
    O(log k); memory O(k). On a grid with `NearestScores` every prediction costs the number of cells in its interval.

    References
    ----------
    Jiang, Osl, Kim and Ohno-Machado 2012; paper 002, §2.2.4.

    Examples
    --------
    >>> cal = AdaptiveCalibration(NearestScores(0.5), resolution=None)
    >>> cal.learn_many([0.1, 0.2, 0.6, 0.9], [0, 1, 1, 1])
    >>> cal.predict_many([0.1, 0.5, 0.8]).tolist()
    [0.5, 1.0, 1.0]
    """

    name = "adaptive-calibration"
    summary = "share of positives in an interval around each score"
    monotone = False
    by_ratios = True

    def __init__(self, interval: Neighbourhood = NearestScores(), **common: Unpack[Common]) -> None:
        if not isinstance(interval, Neighbourhood):
            allowed = "give NearestScores(fraction), FixedWidth(half_width) or ScoreIntervals(scores, lo, hi)"
            raise InputError(
                f"interval={interval!r} is not possible; {allowed}, which can be saved with the calibrator"
            )
        self.interval = interval
        super().__init__(**common)
        table = self._grid_table()
        if table is not None and isinstance(interval, NearestScores):
            self._read_by(NearestCells(table.sums, table.grid.centres, table.grid.cell, interval.fraction - REACHED))

    def _keeps_up(self) -> bool:
        return self.resolution is not None and isinstance(self.interval, NearestScores)

    def solve(self, statistic: Table, start: ScaledMap | None) -> ScaledMap:
        x, weight, positive = statistic.columns()
        cuts, between, at = self.interval.windows(x, weight)
        first, stop = (np.concatenate(pair) for pair in zip(between, at, strict=True))
        shares = np.clip(window_sums(positive, first, stop) / window_sums(weight, first, stop), 0.0, 1.0)
        values, own = shares[: len(cuts) + 1], shares[len(cuts) + 1 :]
        moves = (values[:-1] != own) | (values[1:] != own)
        return StepMap(self.scale, cuts[moves], np.append(values[:1], values[1:][moves]), statistic.grid, own[moves])


def window_sums(values: FloatArray, start: Places, stop: Places) -> FloatArray:
    """Return Σ values[start:stop] for many windows of nonnegative values, O((k + windows) log k).

    Sums over blocks of 1, 2, 4, … values are added, and no prefix sums are subtracted: light groups beside heavy ones
    keep their digits.
    """
    start, stop = start.copy(), stop.copy()
    sums = np.zeros(len(start))
    while len(values):
        odd = (start & 1 == 1) & (start < stop)
        sums[odd] += values[start[odd]]
        start += odd
        odd = (stop & 1 == 1) & (start < stop)
        sums[odd] += values[stop[odd] - 1]
        start, stop = start >> 1, stop >> 1
        if not (start < stop).any():
            break
        even = values[: len(values) // 2 * 2].reshape(-1, 2)
        values = even[:, 0] + even[:, 1]
    return sums
