"""`Platt`: a sigmoid of the score, by exact maximum likelihood with Platt's regularised targets."""

from __future__ import annotations

from typing import Unpack

from streamcal.calibrators.additive import AdditiveCalibrator, Common, Table
from streamcal.calibrators.logistic import LogisticFollowing, LogisticForm
from streamcal.errors import SolverError
from streamcal.kernels.newton.anchored_logistic import regularised_targets
from streamcal.maps.base import ScaledMap
from streamcal.maps.sigmoids import SigmoidMap
from streamcal.parameters.scales import Logit
from streamcal.solvers.newton import fit_sigmoid


class Platt(AdditiveCalibrator[Table]):
    """Platt scaling: p = 1 / (1 + exp(−(A·x + B))), x the coordinate of the score, A ≥ 0.

    A and B maximise Σ tᵢ log pᵢ + (1 − tᵢ) log(1 − pᵢ) with the targets t₊ = (k₊ + 1)/(k₊ + 2) for positive and
    t₋ = 1/(k₋ + 2) for negative observations, where k₊ and k₋ are the weights held. With a single distinct score A is
    0. (The paper writes exp(As + B) with A ≤ 0.)

    Parameters
    ----------
    scale : Scale
        Default `Logit()`: the feature is the log-odds of the score, so that the identity is one of the sigmoids.
        For margins: `Interval()` with `resolution=None`, or `Interval(lo, hi)`. For scores of exactly 0 and 1, such as
        those of forests, whose log-odds are clamped to ±16 and turn the line: `Interval(0, 1)`.
    forgetting, prior
        See `AdditiveCalibrator`.
    resolution : int or None
        Cells of the grid on which the sums are kept (default 8,192); None keeps every distinct score.
    refresh_every : int
        See `AdditiveCalibrator`.

    Notes
    -----
    Cost: an observation O(log k), a prediction after it O(k) for k scores (cells) in use, by Newton steps; on a
    grid O(1) but for some steps in a thousand, from sums kept at an earlier solution. Memory O(k). Under a half-life
    below 1,000 a step reads the cells of the last 20 to 50 half-lives two or three times, or some 300 nodes if the
    cells are more.

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

    def __init__(self, **common: Unpack[Common]) -> None:
        super().__init__(**common)
        self._following = LogisticFollowing.of(self, RegularisedLine(self.scale))
        self.streams = self._following is not None

    def _keeps_up(self) -> bool:
        return self.resolution is not None

    def solve(self, statistic: Table, start: ScaledMap | None) -> ScaledMap:
        x, negative, positive = statistic.points()
        initial = (start.slope, start.offset) if isinstance(start, SigmoidMap) else (1.0, 0.0)
        high, low = regularised_targets(float(negative.sum()), float(positive.sum()))
        solution = fit_sigmoid(x, negative, positive, high, low, initial)
        if not solution.solved:
            raise SolverError(f"the Newton iteration of Platt ended with status {solution.status!r}")
        slope, offset = (float(value) for value in solution.x)
        return SigmoidMap(self.scale, slope, offset)


class RegularisedLine(LogisticForm):
    """A·x + C of a coordinate, fitted to Platt's targets."""

    targets = True

    def targets_of(self, negative: float, positive: float) -> tuple[float, float]:
        return regularised_targets(negative, positive)

    def map_with(self, a: float, b: float, c: float) -> ScaledMap:
        return SigmoidMap(self.scale, a, c)

    def parameters_of(self, solved: ScaledMap) -> tuple[float, float, float] | None:
        return (solved.slope, 0.0, solved.offset) if isinstance(solved, SigmoidMap) else None
