"""The experts of `Auto`, the parts upon them, and every constant: one table.

A record of predictions and a state know an expert by its place in `NAMES`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from streamcal.calibrators.guarded import new_guard
from streamcal.calibrators.protected import new_jumper
from streamcal.kernels.mixture.auto_mixture import AutoMixture
from streamcal.kernels.mixture.combination import Combination
from streamcal.kernels.mixture.correction import Correction
from streamcal.kernels.mixture.day_and_week import DayAndWeek
from streamcal.kernels.mixture.knot_sums import KnotSums
from streamcal.kernels.mixture.memory_ladder import MemoryLadder
from streamcal.kernels.mixture.score_regressions import ScoreRegressions
from streamcal.kernels.newton.regressions import Plan
from streamcal.parameters.scales import LOGIT_LIMIT

#: Features of a score, in the kernel's order. A clamped score, such as the 0 of a forest, has an offset of its own.
LINE, CUBIC = ("x", "1", "clamped below", "clamped above"), ("(x/4)²", "(x/4)³")
#: Fading means of the labels ±1: the last two or so, the last 100, and three between, at even odds. Name → rate.
LABEL_MEANS = {"labels .7": 0.7, "labels .3": 0.3, "labels .1": 0.1, "labels .03": 0.03, "labels .01": 0.01}
FEATURES = (*LINE, *CUBIC, *LABEL_MEANS)
#: Every regression starts at the score, and A₀ keeps it there: the offset as firmly as 24 observations of even odds
#: (curvature ¼ each) would. A clamped score starts at the clamp, with a weak prior.
START = {"x": 1.0, "clamped below": -LOGIT_LIMIT, "clamped above": LOGIT_LIMIT}
PRECISION = {
    **{"x": 3.0, "1": 6.0, "clamped below": 0.1, "clamped above": 0.1, "(x/4)²": 4.0, "(x/4)³": 4.0},
    **dict.fromkeys(LABEL_MEANS, 4.0),
}


class Regression(NamedTuple):
    """An online logistic regression: its features, and what a unit of information keeps of the past.

    It keeps `keep` for the line, and `keep_shape` for the rest.
    """

    features: tuple[str, ...]
    keep: float
    keep_shape: float

    def plan(self) -> tuple[list[int], list[float], list[float], list[float]]:
        """Return what `Plan` needs; the regression initially predicts the score."""
        keep = [self.keep if name in LINE else self.keep_shape for name in self.features]
        places = [FEATURES.index(name) for name in self.features]
        precision = [PRECISION[name] for name in self.features]
        return places, keep, precision, [START.get(name, 0.0) for name in self.features]


class Smoother(NamedTuple):
    """A mean of the labels near the score: half width in log-odds, memory in units of information."""

    width: float
    memory: float

    def row(self) -> tuple[float, float]:
        """Return the half width, and the growth of the unit at each observation, in which earlier ones are counted."""
        return self.width, self.memory / (self.memory - 1.0)


class Expert(NamedTuple):
    """A row of the table. Prior weights count in proportion to their sum; `kind` is None where the kernel has one."""

    name: str
    prior: float
    kind: Regression | Smoother | None
    reason: str


#: The memories of the ladder in units of information, 4p(1 − p) a label; 0 is all. The first line counts for four.
LINES = (0.0, 3e5, 1e5, 3e4, 1e4, 3e3, 1e3, 300.0, 100.0, 30.0)
CURVES = (0.0, 1e6, 1e5, 1e4, 1e3)
RUNG_PRIOR = (4.0, *[1.0] * (len(LINES) + len(CURVES) - 1))
RUNGS = (
    *(f"line {m:g}" if m else "line, all" for m in LINES),
    *(f"curve {m:g}" if m else "curve, all" for m in CURVES),
)
#: The number in the name of a regression is what a unit keeps of the past. The kinds are in the kernel's order.
EXPERTS = (
    Expert("score", 3.0, None, "a score that needs nothing loses least"),
    Expert("ladder", 6.0, None, "lines and curves with memories from tens of units to all: every time scale"),
    Expert("labels .98", 0.6, Regression(FEATURES, 0.98, 0.99), "rates that persist for some hundred labels"),
    Expert("labels .999", 0.6, Regression(FEATURES, 0.999, 0.999), "slower drift, and labels that persist"),
    Expert("cubic .995", 2.0, Regression((*LINE, *CUBIC), 0.995, 0.999), "a curved map that moves"),
    Expert("local .3, 80", 0.3, Smoother(0.3, 80.0), "a narrow range of scores that changes fast"),
    Expert("local .7, 400", 0.3, Smoother(0.7, 400.0), "any shape, slowly"),
    Expert("local 3.5, 300", 0.3, Smoother(3.5, 300.0), "a wide view, soon right after the map has changed as a whole"),
    Expert("protected", 0.2, None, "sudden shifts and turns of the whole map"),
    Expert("score counts", 0.3, None, "scores that repeat, such as those of a tree, with a rate of their own each"),
)
NAMES = tuple(expert.name for expert in EXPERTS)
LADDER, STACKS = "ladder", ("slow stack", "fast stack")
CORRECTED, BY_TIME = "corrected by prediction", "corrected by day and week"
#: The part of all weight that is on each stack at first; those of the corrections, each in what it corrects.
STACK_PRIOR, CORRECTION_PRIOR, TIME_PRIOR = 0.05, 0.25, 0.1
#: One stack forgets within 10,000 units of information, the other within 200. Both start as the mixture, with a
#: weak prior.
STACK_KEEP, STACK_PRECISION, STACK_ENDS = (0.9999, 0.995), 5.0, 5.0
#: The correction looks as far as 1 in log-odds, and remembers 300 units there; its prior at 0 has the weight of
#: 160 labels at even odds (curvature ¼ each).
WIDTH, CORRECTION_MEMORY, FIRMNESS, CORRECTION_KNOTS = 1.0, 300.0, 40.0, 4
#: The correction by day and week remembers 5,000 units. The prior on the coefficient of the prediction is weak: a
#: prediction that forgets follows a slow cycle, and the score with the harmonics is then the better start.
TIME_KEEP, TIME_PRECISION, HARMONIC_PRECISION, HARMONICS = 0.9998, (5.0, 5.0, 5.0), 4.0, 7
#: Nats that `Auto` may lose against the score with labels in time: its prior weight is ¼.
PROMISE = math.log(4.0)


def _stack() -> Plan:
    """Return the stacks: on the mixture, what each expert predicts beside it, and a constant."""
    size = len(EXPERTS) + 2
    precision = [STACK_ENDS, *[STACK_PRECISION] * len(EXPERTS), STACK_ENDS]
    return Plan([(range(size), [keep] * size, precision, [1.0] + [0.0] * (size - 1)) for keep in STACK_KEEP])


def _timed() -> Plan:
    """Return the correction by day and week: on the prediction, the score, a constant, and harmonics."""
    size = 3 + 2 * HARMONICS
    precision = [*TIME_PRECISION, *[HARMONIC_PRECISION] * (size - 3)]
    return Plan([(range(size), [TIME_KEEP] * size, precision, [1.0] + [0.0] * (size - 1))])


def _prior() -> list[float]:
    """Return the prior weights of the experts and of the stacks."""
    stacks = [STACK_PRIOR] * len(STACKS)
    total = sum(expert.prior for expert in EXPERTS) / (1.0 - sum(stacks))
    return [*(expert.prior / total for expert in EXPERTS), *stacks]


REGRESSIONS = Plan([expert.kind.plan() for expert in EXPERTS if isinstance(expert.kind, Regression)])
SMOOTHERS = np.array([expert.kind.row() for expert in EXPERTS if isinstance(expert.kind, Smoother)])
STACKING, TIMED, PRIOR, RATES = _stack(), _timed(), np.array(_prior()), np.array(list(LABEL_MEANS.values()))


def new_mixture() -> AutoMixture:
    """Return everything that `Auto` learns; it initially predicts the score."""
    correction = Correction(WIDTH, CORRECTION_MEMORY, FIRMNESS, CORRECTION_KNOTS)
    return AutoMixture(
        ladder=MemoryLadder(LINES, CURVES, RUNG_PRIOR),
        regressions=ScoreRegressions(REGRESSIONS, RATES),
        sums=KnotSums(SMOOTHERS),
        jumper=new_jumper(),
        combination=Combination(PRIOR, STACKING, correction, CORRECTION_PRIOR, new_guard(PROMISE), len(RUNGS)),
        times=DayAndWeek(TIMED, TIME_PRIOR),
    )
