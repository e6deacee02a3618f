"""`Temperature`: the log-odds divided by one number, by maximum likelihood."""

from __future__ import annotations

import numpy as np

from streamcal.calibrators.additive import AdditiveCalibrator
from streamcal.errors import SolverError
from streamcal.maps.base import ScaledMap
from streamcal.maps.sigmoids import SigmoidMap
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.prior import Prior
from streamcal.parameters.scales import LOGIT_LIMIT, Logit, Scale
from streamcal.solvers.logistic import fit_logistic
from streamcal.statistics.base import Statistic
from streamcal.statistics.score_table import score_table


class Temperature(AdditiveCalibrator):
    """Temperature scaling: p = 1 / (1 + exp(−x/T)), x the log-odds of the score, 0 < T ≤ ∞.

    The slope 1/T ≥ 0 maximises the likelihood. A score of ½ keeps the probability ½, so that a wrong base rate is not
    repaired: for that see `Platt` and `Beta`. Scores that point the wrong way on the whole end at T = ∞, p = ½.

    Parameters
    ----------
    scale : Scale
        Default `Logit()`. On `Interval()` the coordinate itself is divided: a margin, or log-odds as they are.
    forgetting, prior
        See `AdditiveCalibrator`.
    resolution : int or None
        Cells of the grid on which the sums are kept (default 4,096); None keeps every distinct score.
    refresh_every : int
        See `AdditiveCalibrator`.

    Notes
    -----
    A ridge of 1e-9 on the slope's distance from 1, relative to the total weight, makes it finite where no observation
    lies on the wrong side of ½ and the likelihood grows for ever: log-odds then end in the tens. `prior` is gentler.

    An observation costs O(log k), a prediction after it O(k) for k scores (cells) in use, by Newton steps from the
    previous solution. Guo, Pleiss, Sun and Weinberger 2017.

    >>> cal = Temperature()
    >>> cal.learn_many([0.2, 0.1, 0.6, 0.8], [0, 1, 1, 1])
    >>> round(cal.predict_one(0.7), 3), cal.predict_one(0.5)
    (0.548, 0.5)
    """

    name = "temperature"
    summary = "log-odds divided by one number, by exact maximum likelihood"

    def __init__(
        self,
        *,
        scale: Scale = Logit(),
        forgetting: Forgetting = Forever(),
        prior: Prior | None = None,
        resolution: int | None = 4096,
        refresh_every: int = 1,
    ) -> None:
        super().__init__(
            scale=scale, forgetting=forgetting, prior=prior, resolution=resolution, refresh_every=refresh_every
        )
        self._start = np.zeros(1)

    def _new_statistic(self) -> Statistic:
        self._table = score_table(self.scale, self.resolution)
        return self._table

    def _solve(self, unit: float) -> ScaledMap:
        x, negative, positive = self._table.points()
        # Log-odds reach ±16; margins beyond are brought there first, so that 1e9 is as good a unit as any.
        reach = max(1.0, float(np.abs(x).max()) / LOGIT_LIMIT)
        z = x / reach
        solution = fit_logistic(z[:, None], z, negative, positive, np.array([-1.0]), self._start)
        if not solution.solved:
            raise SolverError(f"the Newton iteration of Temperature ended with status {solution.status!r}")
        self._start = solution.x
        return SigmoidMap(self.scale, (1.0 + float(solution.x[0])) / reach, 0.0)
