"""`Platt`: a sigmoid of the score, by exact maximum likelihood with Platt's regularised targets."""

from __future__ import annotations

import math

from streamcal.calibrators.additive import AdditiveCalibrator
from streamcal.errors import SolverError
from streamcal.maps.base import ScaledMap
from streamcal.maps.sigmoids import SigmoidMap
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.prior import Prior
from streamcal.parameters.scales import Logit, Scale
from streamcal.solvers.newton import fit_sigmoid
from streamcal.statistics.base import Statistic
from streamcal.statistics.score_table import score_table

#: Of a weight above 10¹⁶ the target would round to 1, which no finite parameters reach.
LARGEST_TARGET = math.nextafter(1.0, 0.0)


class Platt(AdditiveCalibrator):
    """Platt scaling: p = 1 / (1 + exp(−(A·x + B))), x the coordinate of the score, A ≥ 0.

    A and B maximise Σ tᵢ log pᵢ + (1 − tᵢ) log(1 − pᵢ) with the targets t₊ = (k₊ + 1)/(k₊ + 2) for positive and
    t₋ = 1/(k₋ + 2) for negative observations, k₊ and k₋ being the weights now held. With a single distinct score A is
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
    An observation costs O(log k), a prediction after it O(k) for k scores (cells) in use, by Newton steps from the
    previous solution. Platt 2000; paper 003, §5.1, eq. (5) to (7).

    >>> cal = Platt()
    >>> cal.learn_many([0.2, 0.4, 0.6, 0.8], [0, 0, 1, 1])
    >>> round(cal.predict_one(0.7), 3)
    0.696
    """

    name = "platt"
    summary = "sigmoid by exact maximum likelihood, regularised targets"

    def __init__(
        self,
        *,
        scale: Scale = Logit(),
        forgetting: Forgetting = Forever(),
        prior: Prior | None = None,
        resolution: int | None = 8192,
        refresh_every: int = 1,
    ) -> None:
        super().__init__(
            scale=scale, forgetting=forgetting, prior=prior, resolution=resolution, refresh_every=refresh_every
        )
        self._start = (1.0, 0.0)

    def _new_statistic(self) -> Statistic:
        self._table = score_table(self.scale, self.resolution)
        return self._table

    def _solve(self, unit: float) -> ScaledMap:
        x, negative, positive = self._table.points()
        negative, positive = negative / unit, positive / unit
        target_plus = min((positive.sum() + 1.0) / (positive.sum() + 2.0), LARGEST_TARGET)
        target_minus = 1.0 / (negative.sum() + 2.0)
        solution = fit_sigmoid(x, negative, positive, float(target_plus), float(target_minus), self._start)
        if not solution.solved:
            raise SolverError(f"the Newton iteration of Platt ended with status {solution.status!r}")
        slope, offset = (float(value) for value in solution.x)
        self._start = (slope, offset)
        return SigmoidMap(self.scale, slope, offset)
