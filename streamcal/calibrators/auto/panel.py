"""All experts of `Auto` side by side, at one state of knowledge.

They forecast at the same knots, equally spaced in log-odds; `Auto` is linear in log-odds between them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streamcal.calibrators.auto.experts import (
    ANCHOR,
    ANCHORED,
    EXPERTS,
    LABEL_MEANS,
    PLACES,
    Kind,
    Regression,
    Smoother,
)
from streamcal.calibrators.protected import new_jumper
from streamcal.calibrators.smooth_isotonic import pchip
from streamcal.kernels.bernstein import evaluate_many
from streamcal.kernels.expert_panel import Panel
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

#: Observations in the window of the isotonic experts; half-life of the sums of the Bernstein polynomial.
MEMORY = 1_000
DEGREE = 12
#: The curves of the isotonic and the Bernstein expert are fitted again after so many observations.
REFRESH = 64


class ExpertPanel:
    """Every expert, at one state of knowledge. `delay` is the label delay, in observations.

    O(1) per observation; memory for the last 1,000 observations.
    """

    def __init__(self, delay: int) -> None:
        self._panel = _panel(delay)
        self._jumper = new_jumper()
        self._tree = ScoreTree()
        self._window = memory_under(Window(MEMORY), self._tree, None)
        self._moments = BernsteinMoments(DEGREE, Probability())
        self._decay = memory_under(Decay(MEMORY), self._moments, None)
        self._qp = MonotoneQP(DEGREE)
        self._learned = 0

    def forecast(self, knot: int, out: FloatArray) -> None:
        """Write the log-odds of each expert at a knot to `out`, at its place in `PLACES`."""
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
        """Fit the curves of the smooth isotonic and of the Bernstein expert again."""
        _, _, centre, value = self._tree.centred_blocks()
        smooth = CubicMap(Logit(), centre, value, *pchip(centre, value)).at_many(KNOTS)
        self._panel.draw(PLACES["smooth-isotonic"], _beside_the_score(smooth, self._tree.n))
        sums = self._moments.sums
        if self._qp.solve(sums.moments, sums.cross, sums.weight) == SOLVED:  # else the last curve stays
            polynomial = np.clip(evaluate_many(self._qp.coefficients, SCORES), 0.0, 1.0)
            self._panel.draw(PLACES["bernstein"], _beside_the_score(polynomial, self._decay.n))

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


def _panel(delay: int) -> Panel:
    """The kernel of the experts in the table."""
    kinds = {PLACES[expert.name]: expert.kind for expert in EXPERTS}
    alone = {kind: place for place, kind in kinds.items() if isinstance(kind, Kind)}
    return Panel(
        regressions={place: kind.made() for place, kind in kinds.items() if isinstance(kind, Regression)},
        smoothers={place: tuple(kind) for place, kind in kinds.items() if isinstance(kind, Smoother)},
        curves=[place for place, kind in kinds.items() if kind is Kind.CURVE],
        interval=alone[Kind.VENN_ABERS],
        protected=alone[Kind.PROTECTED],
        score=alone[Kind.SCORE],
        anchor=PLACES[ANCHOR],
        anchored=ANCHORED,
        label_rates=list(LABEL_MEANS.values()),
        knots_a_unit=KNOTS_A_UNIT,
        delay=delay,
    )


def _beside_the_score(p: FloatArray, n: float) -> FloatArray:
    """Log-odds at the knots of the mean of n observations of p and one of the score: a fit to few may say 0 or 1."""
    return logits((n * p + SCORES) / (n + 1.0))
