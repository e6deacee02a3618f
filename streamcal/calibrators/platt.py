"""`Platt`: a sigmoid of the score, by exact maximum likelihood with Platt's regularised targets."""

from __future__ import annotations

import math
from typing import Any

from streamcal.calibrators.table import Table, TableCalibrator
from streamcal.errors import SolverError
from streamcal.maps.base import ScaledMap
from streamcal.maps.sigmoids import SigmoidMap
from streamcal.parameters.scales import Logit
from streamcal.solvers.newton import fit_sigmoid
from streamcal.states import LARGEST_LINE, number, row

#: Of a weight above 10¹⁶ the target would round to 1, which no finite parameters reach.
LARGEST_TARGET = math.nextafter(1.0, 0.0)


class Platt(TableCalibrator):
    """Platt scaling: p = 1 / (1 + exp(−(A·x + B))), x the coordinate of the score, A ≥ 0.

    A and B maximise Σ tᵢ log pᵢ + (1 − tᵢ) log(1 − pᵢ) with the targets t₊ = (k₊ + 1)/(k₊ + 2) for positive and
    t₋ = 1/(k₋ + 2) for negative observations, where k₊ and k₋ are the weights held. With a single distinct score A is
    0. (The paper writes exp(As + B) with A ≤ 0.)

    Parameters
    ----------
    scale : Scale
        Default `Logit()`: the feature is the log-odds of the score, so that the identity is one of the sigmoids.
        For margins: `Interval()` with `resolution=None`, or `Interval(lo, hi)`.
    forgetting, prior
        See `AdditiveCalibrator`.
    resolution : int or None
        Cells of the grid on which the sums are kept (default 8,192); None keeps every distinct score.
    refresh_every : int
        See `AdditiveCalibrator`.

    Notes
    -----
    Cost: an observation O(log k), a prediction after it O(k) for k scores (cells) in use, by Newton steps from the
    previous solution; memory O(k).

    References
    ----------
    Platt 2000; paper 003, §5.1, eq. (5) to (7).

    Examples
    --------
    >>> cal = Platt()
    >>> cal.learn_many([0.2, 0.4, 0.6, 0.8], [0, 0, 1, 1])
    >>> round(cal.predict_one(0.7), 3)
    0.696
    """

    name = "platt"
    summary = "sigmoid by exact maximum likelihood, regularised targets"
    default_scale = Logit()
    default_resolution = 8192

    def solve(self, statistic: Table, start: ScaledMap | None) -> ScaledMap:
        x, negative, positive = statistic.points()
        target_plus = min((positive.sum() + 1.0) / (positive.sum() + 2.0), LARGEST_TARGET)
        target_minus = 1.0 / (negative.sum() + 2.0)
        initial = (start.slope, start.offset) if isinstance(start, SigmoidMap) else (1.0, 0.0)
        solution = fit_sigmoid(x, negative, positive, float(target_plus), float(target_minus), initial)
        if not solution.solved:
            raise SolverError(f"the Newton iteration of Platt ended with status {solution.status!r}")
        slope, offset = (float(value) for value in solution.x)
        return SigmoidMap(self.scale, slope, offset)

    def _start_of(self, solved: ScaledMap) -> Any:
        return [solved.slope, solved.offset] if isinstance(solved, SigmoidMap) else None

    def _start_from(self, start: Any) -> SigmoidMap:
        return SigmoidMap(self.scale, *row(number(0.0, LARGEST_LINE), number(-LARGEST_LINE, LARGEST_LINE))(start))
