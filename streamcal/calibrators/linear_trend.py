"""`LinearTrend`: ℓ₁ linear trend filtering (L1 penalty on changes of slope), the LiTE of the papers."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from streamcal.calibrators.additive import AdditiveCalibrator, Common, Table
from streamcal.calibrators.near_isotonic import NEGLIGIBLE, checked_penalty
from streamcal.errors import SolverError
from streamcal.maps.base import ScaledMap
from streamcal.maps.knots import KnotMap
from streamcal.parameters.types import FloatArray
from streamcal.solvers.trend_filter import PathSettings, TrendFilter

#: Number of penalties, from the smallest that gives a straight line down to this share of it, in equal ratios; the
#: defaults of the authors' solver (`glmgen`).
PENALTIES = 50
SMALLEST_PENALTY = 1e-5
PATH = PathSettings(PENALTIES, SMALLEST_PENALTY ** (1.0 / (PENALTIES - 1)), NEGLIGIBLE)


class LinearTrend(AdditiveCalibrator[Table]):
    """ℓ₁ linear trend filtering (LiTE): min Σ wᵢ (pᵢ − ȳᵢ)² / W + λ Σ |vⱼ| over the values pᵢ at the distinct scores.

    ȳᵢ and wᵢ are the mean label and the weight at a score, W = Σ wᵢ, vⱼ the change of slope at the score sⱼ,
    (pⱼ₊₁ − pⱼ)/(sⱼ₊₁ − sⱼ) − (pⱼ − pⱼ₋₁)/(sⱼ − sⱼ₋₁), s in coordinates of the scale. p is clipped to [0, 1], linear
    between the scores held and constant beyond them. For large λ it is the least-squares line. The map is not monotone.

    Parameters
    ----------
    penalty : float or None
        λ ≥ 0, in the units of the formula, which do not depend on the number of observations. None (default): of fifty
        penalties, from the smallest that gives a straight line down to 1e-5 of it, the one with the least
        AICc = −2 log L + 2d + 2d(d + 1)/(W − d − 1), d = 2 + the number of kinks. L is the likelihood of the labels,
        with probabilities limited to a distance of 1/(W + 2) from 0 and 1. The search ends at d ≥ W − 1, and where AICc
        has increased by 80.
    scale, forgetting, prior
        See `AdditiveCalibrator`.
    resolution : int or None
        Cells of the grid to which scores are rounded (default 2,048: fixed memory, and one value for each cell); None
        keeps every distinct score.
    refresh_every : int
        See `AdditiveCalibrator`.

    Notes
    -----
    Paper 002 chooses λ by the best BDeu score, which is defined for bins and not for lines; the default here is AICc in
    its place. See docs/papers/rpr_002_choices.md for both on the paper's data.

    The fit is exact up to 1e-9 of λ in the optimality conditions, for any spacing of the scores; scores within 1e-9 of
    the range of all scores are treated as one. Cost: an observation O(log k) for k distinct scores (cells), a
    prediction after it O(k) for each kink at most: 0.2 to 0.3 ms for all fifty λ on the default grid; memory O(k).

    References
    ----------
    Kim, Koh, Boyd and Gorinevsky 2009; Naeini and Cooper, SDM 2016 (AICc); paper 002, eq. (12).

    Examples
    --------
    >>> cal = LinearTrend(penalty=0.5)
    >>> cal.learn_many([0.2, 0.4, 0.6, 0.8], [0, 0, 1, 1])
    >>> round(cal.predict_one(0.5), 2)
    0.5
    """

    name = "linear-trend"
    summary = "linear trend filtering: L1 penalty on changes of slope; λ by AICc or given"
    monotone = False
    default_resolution = 2048

    def __init__(self, penalty: float | None = None, **common: Unpack[Common]) -> None:
        self.penalty = checked_penalty(penalty)
        self._path = TrendPath()
        super().__init__(**common)

    def solve(self, statistic: Table, start: ScaledMap | None) -> ScaledMap:
        x, weight, positive = statistic.columns()
        if self.penalty == 0.0:
            values = positive / weight
        elif self.penalty is None:
            values = self._path.best(x, weight, positive, start is not None)
        else:
            solution = TrendFilter(x, weight, positive / weight).solve(self.penalty)
            check_solved(solution.status)
            values = np.clip(solution.x, 0.0, 1.0)
        return KnotMap(self.scale, x, values, statistic.grid)


class TrendPath:
    """The fits at decreasing penalties, the straight line first; each starts from what it was for the last labels.

    A path starts from the last one if `warm` and the scores are the same.
    """

    def __init__(self) -> None:
        self._problem: TrendFilter | None = None

    def best(self, x: FloatArray, weight: FloatArray, positive: FloatArray, warm: bool) -> FloatArray:
        """Return the fit with the least AICc, clipped to [0, 1]."""
        return self._run(x, weight, positive, warm, average=False)

    def average(self, x: FloatArray, weight: FloatArray, positive: FloatArray, warm: bool) -> FloatArray:
        """Return the average of the fits, each clipped to [0, 1] and weighted by exp(−AICc/2)."""
        return self._run(x, weight, positive, warm, average=True)

    def _run(self, x: FloatArray, weight: FloatArray, positive: FloatArray, warm: bool, average: bool) -> FloatArray:
        mean, problem = positive / weight, self._problem
        if warm and problem is not None and np.array_equal(problem.x, x):
            problem.renew(weight, mean)
        else:
            self._problem = problem = TrendFilter(x, weight, mean)
        status, values = problem.path(float(weight.sum()), PATH, average)
        check_solved(status)
        return values


def check_solved(status: str) -> None:
    """Raise `SolverError` if the solver failed."""
    if status != "solved":
        raise SolverError(f"the active set of trend filtering ended with status {status!r}")
