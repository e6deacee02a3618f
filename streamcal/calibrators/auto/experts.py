"""The experts of `Auto`: one table of their names, prior weights, kinds and parameters.

Kernels and states know an expert by its place in this table, and `PLACES` is the one list of these. Features are those
of `streamcal.kernels.expert_panel.FEATURES`, and the means of labels that are named here.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from streamcal.kernels.expert_panel import FEATURES
from streamcal.kernels.implicit_regression import ForgettingRegression

#: Fading means of the labels: the last two or so, the last 100, and three between. Name → rate.
LABEL_MEANS = {"labels .7": 0.7, "labels .3": 0.3, "labels .1": 0.1, "labels .03": 0.03, "labels .01": 0.01}
#: Name of a feature → its place among the features that a regression is shown.
FEATURE_PLACES: dict[str, int] = {**FEATURES, **{name: len(FEATURES) + k for k, name in enumerate(LABEL_MEANS)}}

#: A score that is clamped, such as the 0 of a forest, says nothing linear: it has an offset of its own.
LINE = ("x", "1", "clamped below", "clamped above")
BEND, CUBIC, BETA = ("(x/4)²", "2s − 1"), ("(x/4)²", "(x/4)³"), ("ln s", "−ln(1 − s)", "1")
#: The score itself is where each starts, and what A₀ holds it there: the offset as firmly as 24 observations of even
#: odds (curvature ¼ each) would. A clamped score starts at log-odds ±6, hardly held.
START = {"x": 1.0, "clamped below": -6.0, "clamped above": 6.0, "ln s": 1.0, "−ln(1 − s)": 1.0}
PRECISION = {
    "x": 3.0,
    "1": 6.0,
    "clamped below": 0.1,
    "clamped above": 0.1,
    "(x/4)²": 4.0,
    "(x/4)³": 4.0,
    "2s − 1": 0.5,
    "ln s": 4.0,
    "−ln(1 − s)": 4.0,
    **dict.fromkeys(LABEL_MEANS, 4.0),
}
#: Velocities are changes in 2,000 observations, and begin near 0.
PACE, VELOCITY_PRECISION = 5e-4, (30.0, 10.0)
#: The precision of a slope that hardly moves.
FIRM = 100.0


class Regression(NamedTuple):
    """An online logistic regression with forgetting.

    Its features by name, what a step keeps of each, how many of the first ones move at a steady pace (`trends`), and
    how firmly the first, the slope, is held.
    """

    features: tuple[str, ...]
    keep: tuple[float, ...]
    trends: int = 0
    slope_precision: float = PRECISION["x"]

    def made(self) -> ForgettingRegression:
        """The regression, before it has learned anything."""
        start = [START.get(name, 0.0) for name in self.features] + [0.0] * self.trends
        precision = [PRECISION[name] for name in self.features] + [*VELOCITY_PRECISION[: self.trends]]
        precision[0] = self.slope_precision
        keep = [*self.keep] + [self.keep[0]] * self.trends
        places = [FEATURE_PLACES[name] for name in self.features]
        return ForgettingRegression(places, keep, precision, start, self.trends, PACE)


class Smoother(NamedTuple):
    """A mean of labels near the score: the half width of the neighbourhood in log-odds, the memory in observations."""

    width: float
    memory: float


class Kind(Enum):
    """The kinds of experts that have no parameters."""

    CURVE = "a curve over log-odds, fitted again from time to time to recent observations"
    WHOLE = "the log-minimax point of the Venn-Abers interval of all observations, fitted again as their number grows"
    VENN_ABERS = "the score-prior point of the Venn-Abers interval of recent observations"
    PROTECTED = "the forecast of `Protected`"
    SCORE = "the score itself"


class Expert(NamedTuple):
    """A row of the table; prior weights count in proportion to their sum."""

    name: str
    prior: float
    kind: Regression | Smoother | Kind


def _line(keep: float) -> Regression:
    return Regression(LINE, (keep,) * 4)


def _shift(keep: float, trends: int = 0) -> Regression:
    """A line whose slope hardly moves."""
    return Regression(LINE, (keep,) * 4, trends, FIRM)


def _curve(keep: float, shape: float, features: tuple[str, ...] = BEND, trends: int = 0) -> Regression:
    return Regression(LINE + features, (keep,) * 4 + (shape,) * len(features), trends)


def _labels(keep: float) -> Regression:
    return Regression((*LINE, *CUBIC, *LABEL_MEANS), (keep,) * 11)


#: The number in the name of a regression is what a step keeps of the past. States hold experts in this order.
EXPERTS = (
    Expert("line 1", 1.0, _line(1.0)),
    Expert("line .997", 1.0, _line(0.997)),
    Expert("line .99", 0.3, _line(0.99)),
    Expert("line .97", 0.1, _line(0.97)),
    Expert("line .9", 0.1, _line(0.9)),
    Expert("shift .997", 1.0, _shift(0.997)),
    Expert("shift, trend .999", 1.0, _shift(0.999, trends=2)),
    Expert("bend 1", 1.0, _curve(1.0, 1.0)),
    Expert("bend .998", 4.0, _curve(0.998, 0.9995)),
    Expert("cubic .995", 0.3, _curve(0.995, 0.999, CUBIC)),
    Expert("cubic .98", 0.1, _curve(0.98, 0.99, CUBIC)),
    Expert("beta .998", 0.1, Regression(BETA, (0.998,) * 3)),
    Expert("trend .999", 4.0, _curve(0.999, 0.9995, trends=2)),
    Expert("trend .997", 0.3, _curve(0.997, 0.999, trends=2)),
    Expert("labels .999", 0.3, _labels(0.999)),
    Expert("labels .997", 0.3, _labels(0.997)),
    Expert("local .3, 80", 0.2, Smoother(0.3, 80.0)),
    Expert("local .3, 300", 0.2, Smoother(0.3, 300.0)),
    Expert("local 1, 80", 0.2, Smoother(1.0, 80.0)),
    Expert("local 1, 300", 0.2, Smoother(1.0, 300.0)),
    Expert("smooth-isotonic", 0.1, Kind.CURVE),
    Expert("bernstein", 1.0, Kind.CURVE),
    Expert("venn-abers", 0.1, Kind.VENN_ABERS),
    Expert("protected", 0.1, Kind.PROTECTED),
    Expert("identity", 3.0, Kind.SCORE),
    Expert("venn-abers 1", 0.03, Kind.WHOLE),
)
#: Smoothers are held at the forecast of this regression, as firmly as by so many observations at a knot.
ANCHOR, ANCHORED = "line .99", 2.0
#: The expert on all observations, which earlier versions did not have, and the one whose forecast it has at first.
WHOLE, BEGINS = "venn-abers 1", "line 1"

NAMES = tuple(expert.name for expert in EXPERTS)
PRIOR = tuple(expert.prior for expert in EXPERTS)
#: Name → place in a forecast of all experts.
PLACES = {name: place for place, name in enumerate(NAMES)}
