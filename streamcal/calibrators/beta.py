"""`Beta`: beta calibration, a logistic regression on ln s and −ln(1 − s)."""

from __future__ import annotations

import math
from typing import Literal, Unpack

import numpy as np

from streamcal.calibrators.additive import AdditiveCalibrator, Common, Table
from streamcal.calibrators.logistic import LogisticFollowing, LogisticForm
from streamcal.errors import SolverError
from streamcal.maps.base import ScaledMap
from streamcal.maps.sigmoids import BetaMap, log_probabilities
from streamcal.parameters.numbers import one_of
from streamcal.parameters.scales import Logit, Scale
from streamcal.parameters.types import FloatArray
from streamcal.solvers.logistic import RIDGE, fit_logistic

#: (a, b, c) of the identity map.
IDENTITY = np.array([1.0, 1.0, 0.0])


class Beta(AdditiveCalibrator[Table]):
    """Beta calibration: p = 1 / (1 + 1/(eᶜ·sᵃ/(1 − s)ᵇ)) of the score s, a ≥ 0, b ≥ 0, by maximum likelihood.

    It is Bayes' rule for two beta densities. The identity is a = b = 1, c = 0; with a ≠ b the two ends have different
    slopes in log-odds, unlike a sigmoid of the log-odds.

    Parameters
    ----------
    form : {"abm", "ab", "am"}
        `"abm"`: all three parameters. `"ab"`: p = ½ at s = ½, c = (a − b) ln 2. `"am"`: a = b, a sigmoid of the
        log-odds. The names are those of the package betacal, where m is the score with p = ½: c = b ln(1 − m) − a ln m.
    scale : Scale
        How a score is read as the probability s, clamped to log-odds of ±16. Default `Logit()`, on whose coordinate
        the grid is defined.
    forgetting, prior
        See `AdditiveCalibrator`.
    resolution : int or None
        Cells of the grid on which the sums are kept (default 16,384: two curved features need finer cells than
        a linear one); None keeps every distinct score.
    refresh_every : int
        See `AdditiveCalibrator`.

    Notes
    -----
    A ridge of 1e-9, relative to the total weight, on the difference of (a, b, c) from the identity makes the solution
    finite and unique where the likelihood alone does not. With a single label, or with separated labels, log-odds end
    in the tens. With fewer than three distinct scores the map is the one nearest to the identity. (c is measured at the
    mean of the features.) `prior` has a stronger effect.

    Cost: an observation O(log k), a prediction after it O(k) for k scores (cells) in use, by Newton steps; on a
    grid O(1) but for some steps in a thousand, from sums kept at an earlier solution. Memory O(k). Under a half-life
    below 1,000 a step reads the cells of the last 20 to 50 half-lives two or three times, or some 300 nodes if the
    cells are more.

    References
    ----------
    Kull, Silva Filho and Flach 2017; paper 004, §2.1.

    Examples
    --------
    >>> cal = Beta()
    >>> cal.learn_many([0.1, 0.3, 0.5, 0.6, 0.8, 0.9], [0, 1, 0, 0, 1, 1])
    >>> round(cal.predict_one(0.7), 3)
    0.634
    """

    name = "beta"
    summary = "beta calibration by exact maximum likelihood"
    by_ratios = True
    default_scale = Logit()
    default_resolution = 16384

    def __init__(self, form: Literal["abm", "ab", "am"] = "abm", **common: Unpack[Common]) -> None:
        self.form = one_of(form, "form", ("abm", "ab", "am"))
        super().__init__(**common)
        self._following = LogisticFollowing.of(self, BetaForm(self.scale, form))
        self.streams = self._following is not None and isinstance(self.scale, Logit)

    def _keeps_up(self) -> bool:
        return self.resolution is not None

    def solve(self, statistic: Table, start: ScaledMap | None) -> ScaledMap:
        x, negative, positive = statistic.points()
        z = self.scale.logits(x)
        directions = self._directions(z, negative + positive)
        lower = np.where(directions[:, :2].any(axis=1), -1.0, -math.inf)  # a and b stay at 0 or above, c is free
        ln_s, ln_not_s = log_probabilities(z)
        features = np.column_stack((ln_s, -ln_not_s, np.ones_like(z))) @ directions.T
        previous = np.array([start.a, start.b, start.c]) if isinstance(start, BetaMap) else IDENTITY
        initial = np.linalg.lstsq(directions.T, previous - IDENTITY, rcond=None)[0]
        solution = fit_logistic(features, z, negative, positive, lower, initial)
        if not solution.solved:
            raise SolverError(f"the Newton iteration of Beta ended with status {solution.status!r}")
        a, b, c = (IDENTITY + solution.x @ directions).tolist()
        return BetaMap(self.scale, max(a, 0.0), max(b, 0.0), c)

    def _directions(self, z: FloatArray, weight: FloatArray) -> FloatArray:
        """Return rows (Δa, Δb, Δc): the directions in which (a, b, c) may differ from the identity.

        A free c changes together with the slopes so that the log-odds at the mean of the features are fixed. Otherwise
        slopes and c would be nearly collinear in the Newton step if the scores are close together.
        """
        share = weight / weight.sum()
        u, v = (float(share @ feature) for feature in log_probabilities(z))
        if self.form == "ab":
            return np.array([[1.0, 0.0, math.log(2.0)], [0.0, 1.0, -math.log(2.0)]])
        offset = [0.0, 0.0, 1.0]
        if self.form == "am":
            return np.array([[1.0, 1.0, v - u], offset])
        return np.array([[1.0, 0.0, -u], [0.0, 1.0, v], offset])


class BetaForm(LogisticForm):
    """η = a·ln s − b·ln(1 − s) + c of the score s, in the two features of "abm".

    "ab", without a constant, is in ln 2s and −ln 2(1 − s); "am" in one feature, the log-odds of s. The penalty of
    `Beta.solve` is that of `AnchoredLogistic` in each of the three.
    """

    ridge = RIDGE
    curved = True

    def __init__(self, scale: Scale, form: str) -> None:
        super().__init__(scale)
        self.two, self.constant = form != "am", form != "ab"
        self.shift = math.log(2.0) if form == "ab" else 0.0

    def features(self, x: float) -> tuple[float, float]:
        z = self.scale.logit(x)
        if not self.two:
            return z, 0.0
        tail = math.log1p(math.exp(-abs(z)))
        return min(z, 0.0) - tail + self.shift, max(z, 0.0) + tail - self.shift

    def feature_columns(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        z = self.scale.logits(x)
        if not self.two:
            return z, np.zeros_like(z)
        ln_s, ln_not_s = log_probabilities(z)
        return ln_s + self.shift, -ln_not_s - self.shift

    def map_with(self, a: float, b: float, c: float) -> ScaledMap:
        if not self.two:
            b = a
        return BetaMap(self.scale, a, b, c if self.constant else math.log(2.0) * (a - b))

    def parameters_of(self, solved: ScaledMap) -> tuple[float, float, float] | None:
        if not isinstance(solved, BetaMap):
            return None
        return solved.a, solved.b if self.two else 0.0, solved.c if self.constant else 0.0
