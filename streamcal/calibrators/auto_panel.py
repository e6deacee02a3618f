"""The experts of `Auto`: who they are, and one panel of them that learns a stream.

All experts speak at the same knots, equally spaced in log-odds; `Auto` is linear in log-odds between them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streamcal.calibrators.protected import CALIBRATORS
from streamcal.calibrators.smooth_isotonic import pchip
from streamcal.kernels.bernstein import evaluate_many
from streamcal.kernels.experts import Panel, Tracker
from streamcal.kernels.jumper import Jumper
from streamcal.kernels.logistic import logits, sigmoid, sigmoids
from streamcal.kernels.monotone_qp import SOLVED, MonotoneQP
from streamcal.maps.knots import CubicMap
from streamcal.memories.policies import memory_under
from streamcal.parameters.forgetting import Decay, Window
from streamcal.parameters.scales import LOGIT_LIMIT, Logit, Probability
from streamcal.parameters.types import FloatArray
from streamcal.statistics.bernstein_moments import BernsteinMoments
from streamcal.statistics.score_tree import ScoreTree

#: Knots in a unit of log-odds. Between two, log-odds are linear: a sigmoid map is exact, and of any other the log loss
#: is off by at most (1/8)²/32 of the square of its slope.
KNOTS_A_UNIT = 8
KNOTS: FloatArray = np.linspace(-LOGIT_LIMIT, LOGIT_LIMIT, round(2 * LOGIT_LIMIT * KNOTS_A_UNIT) + 1)
SCORES: FloatArray = sigmoids(KNOTS)

#: Features, see `streamcal.kernels.experts.Panel`. A score that is clamped, such as the 0 of a forest, says nothing
#: linear: it has an offset of its own.
LINE, BEND, CUBIC, BETA, LABELS = (0, 1, 2, 3), (4, 6), (4, 5), (7, 8, 1), (9, 10, 11, 12, 13)
#: Fading means of the labels: the last two or so, the last 100, and three between.
RATES = (0.7, 0.3, 0.1, 0.03, 0.01)
#: The score itself is where each starts, and what A₀ holds it there: the offset as firmly as 24 observations of even
#: odds (curvature ¼ each) would. A clamped score starts at log-odds ±6, hardly held.
START = {0: 1.0, 2: -6.0, 3: 6.0, 7: 1.0, 8: 1.0}
PRECISION = {0: 3.0, 1: 6.0, 2: 0.1, 3: 0.1, 4: 4.0, 5: 4.0, 6: 0.5, 7: 4.0, 8: 4.0}
LABEL_PRECISION = 4.0
#: Velocities are changes in 2,000 observations, and begin near 0.
PACE, VELOCITY_PRECISION = 5e-4, (30.0, 10.0)
FIRM = 100.0


class _Regression(NamedTuple):
    """A logistic regression: features, what a step keeps of each, how many of them move, and how firm the slope is."""

    features: tuple[int, ...]
    keep: tuple[float, ...]
    trends: int = 0
    slope_precision: float = PRECISION[0]

    def tracker(self) -> Tracker:
        start = [START.get(k, 0.0) for k in self.features] + [0.0] * self.trends
        precision = [PRECISION.get(k, LABEL_PRECISION) for k in self.features] + [*VELOCITY_PRECISION[: self.trends]]
        precision[0] = self.slope_precision
        keep = [*self.keep] + [self.keep[0]] * self.trends
        return Tracker(self.features, keep, precision, start, self.trends, PACE)


def _line(keep: float) -> _Regression:
    return _Regression(LINE, (keep,) * 4)


def _shift(keep: float, trends: int = 0) -> _Regression:
    """A line whose slope hardly moves."""
    return _Regression(LINE, (keep,) * 4, trends, FIRM)


def _curve(keep: float, shape: float, features: tuple[int, ...] = BEND, trends: int = 0) -> _Regression:
    return _Regression(LINE + features, (keep,) * 4 + (shape,) * len(features), trends)


def _labels(keep: float) -> _Regression:
    return _Regression(LINE + CUBIC + LABELS, (keep,) * 11)


#: Name → regression and prior weight. The number in a name is what a step keeps of the past.
REGRESSIONS: dict[str, tuple[_Regression, float]] = {
    "line 1": (_line(1.0), 1.0),
    "line .997": (_line(0.997), 1.0),
    "line .99": (_line(0.99), 0.3),
    "line .97": (_line(0.97), 0.1),
    "line .9": (_line(0.9), 0.1),
    "shift .997": (_shift(0.997), 1.0),
    "shift, trend .999": (_shift(0.999, trends=2), 1.0),
    "bend 1": (_curve(1.0, 1.0), 1.0),
    "bend .998": (_curve(0.998, 0.9995), 4.0),
    "cubic .995": (_curve(0.995, 0.999, CUBIC), 0.3),
    "cubic .98": (_curve(0.98, 0.99, CUBIC), 0.1),
    "beta .998": (_Regression(BETA, (0.998,) * 3), 0.1),
    "trend .999": (_curve(0.999, 0.9995, trends=2), 4.0),
    "trend .997": (_curve(0.997, 0.999, trends=2), 0.3),
    "labels .999": (_labels(0.999), 0.3),
    "labels .997": (_labels(0.997), 0.3),
}
#: Name → (half width in log-odds, memory in observations), prior weight.
SMOOTHERS: dict[str, tuple[tuple[float, float], float]] = {
    "local .3, 80": ((0.3, 80.0), 0.2),
    "local .3, 300": ((0.3, 300.0), 0.2),
    "local 1, 80": ((1.0, 80.0), 0.2),
    "local 1, 300": ((1.0, 300.0), 0.2),
}
ANCHOR, ANCHORED = list(REGRESSIONS).index("line .99"), 2.0
#: The other experts: prior weights.
OTHERS = {"smooth-isotonic": 0.1, "bernstein": 1.0, "venn-abers": 0.1, "protected": 0.1, "identity": 3.0}
#: Observations in the window of the isotonic experts; half-life of the sums of the Bernstein polynomial.
MEMORY = 1_000
DEGREE = 12
#: The curves of the isotonic and the Bernstein expert are drawn anew every so many observations.
CURVES, REFRESH = 2, 64
JUMP_RATES, PASSIVE = (1e-2, 1e-3, 1e-4), 0.5

NAMES = (*REGRESSIONS, *SMOOTHERS, *OTHERS)
PRIOR = (*(weight for _, weight in (*REGRESSIONS.values(), *SMOOTHERS.values())), *OTHERS.values())


class ExpertPanel:
    """Every expert, at one state of knowledge. `delay`: how many observations later than their scores labels come."""

    def __init__(self, delay: int) -> None:
        regressions = [one.tracker() for one, _ in REGRESSIONS.values()]
        smoothers = [size for size, _ in SMOOTHERS.values()]
        self._panel = Panel(regressions, smoothers, CURVES, RATES, KNOTS_A_UNIT, ANCHOR, ANCHORED, delay)
        offsets, slopes = zip(*CALIBRATORS, strict=True)
        self._jumper = Jumper(slopes, offsets, JUMP_RATES, PASSIVE)
        self._tree = ScoreTree()
        self._window = memory_under(Window(MEMORY), self._tree, None)
        self._moments = BernsteinMoments(DEGREE, Probability())
        self._decay = memory_under(Decay(MEMORY), self._moments, None)
        self._qp = MonotoneQP(DEGREE)
        self._learned = 0

    def forecast(self, knot: int, out: FloatArray) -> None:
        """Write the log-odds of each expert at a knot to `out`, in the order of `NAMES`."""
        x = knot / KNOTS_A_UNIT - LOGIT_LIMIT
        lower, upper = self._tree.interval(x, 1.0)
        self._panel.forecast(knot, lower, upper, self._jumper.predict(x), out)

    def learn(self, x: float, y: float, w: float) -> None:
        """Learn the label y at the log-odds x, with weight w > 0."""
        self._panel.learn(x, y, w)
        self._jumper.step(x, y, w)
        self._window.learn(round(x * KNOTS_A_UNIT) / KNOTS_A_UNIT, y, w, 0.0)
        self._decay.learn(sigmoid(x), y, w, 0.0)
        self._learned += 1
        if self._learned % REFRESH == 0:
            self._draw()

    def _draw(self) -> None:
        """Draw the curves of the smooth isotonic fit and of the Bernstein polynomial anew."""
        _, _, centre, value = self._tree.centred_blocks()
        smooth = CubicMap(Logit(), centre, value, *pchip(centre, value)).at_many(KNOTS)
        self._panel.draw(0, _beside_the_score(smooth, self._tree.n))
        sums = self._moments.sums
        if self._qp.solve(sums.moments, sums.cross, sums.weight) == SOLVED:  # else the last curve stays
            polynomial = np.clip(evaluate_many(self._qp.coefficients, SCORES), 0.0, 1.0)
            self._panel.draw(1, _beside_the_score(polynomial, self._decay.n))

    def state(self) -> dict[str, Any]:
        """Everything learned, as plain data, for `restore`."""
        return {
            "panel": self._panel.state(),
            "jumper": list(self._jumper.state()),
            "window": self._window.state(),
            "decay": self._decay.state(),
            "learned": self._learned,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` wrote; called on a new panel."""
        self._panel.load(state["panel"])
        self._jumper.load(*state["jumper"])
        self._window.restore(state["window"])
        self._decay.restore(state["decay"])
        self._learned = int(state["learned"])


def _beside_the_score(p: FloatArray, n: float) -> FloatArray:
    """Log-odds at the knots of the mean of n observations of p and one of the score: a fit to few may say 0 or 1."""
    return logits((n * p + SCORES) / (n + 1.0))
