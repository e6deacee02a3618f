"""`Temperature`: the log-odds divided by one number, by maximum likelihood."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from streamcal.calibrators.additive import AdditiveCalibrator, Common, Table
from streamcal.calibrators.logistic import LogisticFollowing, LogisticForm
from streamcal.errors import SolverError
from streamcal.maps.base import ScaledMap
from streamcal.maps.sigmoids import SigmoidMap
from streamcal.parameters.scales import LOGIT_LIMIT, Logit
from streamcal.solvers.logistic import RIDGE, fit_logistic


class Temperature(AdditiveCalibrator[Table]):
    """Temperature scaling: p = 1 / (1 + exp(−x/T)), x the log-odds of the score, 0 < T ≤ ∞.

    The slope 1/T ≥ 0 maximises the likelihood. A score of ½ keeps the probability ½, so that a wrong base rate is not
    corrected: for that see `Platt` and `Beta`. Scores that are negatively related to the outcomes give T = ∞, p = ½.

    Parameters
    ----------
    scale : Scale
        Default `Logit()`. On `Interval()` the coordinate itself is divided: a margin, or given log-odds.
    forgetting, prior
        See `AdditiveCalibrator`.
    resolution : int or None
        Cells of the grid on which the sums are kept (default 4,096); None keeps every distinct score.
    refresh_every : int
        See `AdditiveCalibrator`.

    Notes
    -----
    A ridge of 1e-9 on the slope's difference from 1, relative to the total weight, makes it finite where no observation
    lies on the wrong side of ½ and the likelihood grows for ever. Log-odds then end in the tens. `prior` has a stronger
    effect. Cost: an observation O(log k), a prediction after it O(k) for k scores (cells) in use, by Newton steps; on a
    grid O(1) but for some steps in a thousand, from sums kept at an earlier solution. Memory O(k).

    References
    ----------
    Guo, Pleiss, Sun and Weinberger 2017.

    Examples
    --------
    >>> cal = Temperature()
    >>> cal.learn_many([0.2, 0.1, 0.6, 0.8], [0, 1, 1, 1])
    >>> round(cal.predict_one(0.7), 3), cal.predict_one(0.5)
    (0.548, 0.5)
    """

    name = "temperature"
    summary = "log-odds divided by one number, by exact maximum likelihood"
    by_ratios = True
    default_scale = Logit()

    def __init__(self, **common: Unpack[Common]) -> None:
        super().__init__(**common)
        self._following = LogisticFollowing.of(self, Proportional(self.scale))
        self.streams = self._following is not None

    def _keeps_up(self) -> bool:
        return self.resolution is not None

    def solve(self, statistic: Table, start: ScaledMap | None) -> ScaledMap:
        x, negative, positive = statistic.points()
        # Log-odds reach ±16; larger margins are rescaled to that range first, so that any unit, even 1e9, works.
        reach = max(1.0, float(np.abs(x).max()) / LOGIT_LIMIT)
        z = x / reach
        initial = np.array([start.slope * reach - 1.0 if isinstance(start, SigmoidMap) else 0.0])
        solution = fit_logistic(z[:, None], z, negative, positive, np.array([-1.0]), initial)
        if not solution.solved:
            raise SolverError(f"the Newton iteration of Temperature ended with status {solution.status!r}")
        return SigmoidMap(self.scale, (1.0 + float(solution.x[0])) / reach, 0.0)


class Proportional(LogisticForm):
    """A·x of a coordinate."""

    constant = False
    ridge = RIDGE

    def map_with(self, a: float, b: float, c: float) -> ScaledMap:
        return SigmoidMap(self.scale, a, 0.0)

    def parameters_of(self, solved: ScaledMap) -> tuple[float, float, float] | None:
        # The unit in which `solve` measures larger margins is that of the farthest, which may change with any of them.
        in_reach = self.scale.lo >= -LOGIT_LIMIT and self.scale.hi <= LOGIT_LIMIT
        return (solved.slope, 0.0, 0.0) if isinstance(solved, SigmoidMap) and in_reach else None
