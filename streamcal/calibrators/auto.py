"""`Auto`: a mixture of everything, for those who do not want to choose."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from streamcal.base import InputError, Time
from streamcal.calibrators.auto_panel import KNOTS, KNOTS_A_UNIT, NAMES, PRIOR, ExpertPanel
from streamcal.calibrators.sequential import SequentialCalibrator
from streamcal.inputs import check_score
from streamcal.kernels.experts import Mixture, Tracker
from streamcal.kernels.logistic import sigmoid
from streamcal.maps.knots import LogOddsMap
from streamcal.scales import LOGIT_LIMIT, Logit

STACK = "stack"
#: Of the initial capital, and of what is shared; the rest goes to the others as `PRIOR` says.
STACK_PRIOR = 0.1
#: Share rates: calm spells of 100,000 observations, and of 1,000.
RATES = (1e-5, 1e-3)
#: The stack forgets within 2,000 observations, and starts as the mixture: firmly in the weights of single experts,
#: which are many, less so in its slope and offset.
STACK_KEEP, STACK_PRECISION, STACK_ENDS = 0.9995, 30.0, 10.0
#: Stakes fall with the delay like its power −¾, found on the development streams of the race. Against an adversary −½
#: is best for bounded losses, −1 for mixable ones.
STAKE_POWER = 0.75
LONGEST_DELAY = 100_000
EXPERTS = len(NAMES)


class Auto(SequentialCalibrator):
    """A mixture of experts of many kinds, staked by how right each has been: nothing to choose, nothing to tune.

    Experts are the score itself; logistic regressions on the log-odds of the score, which forget at different rates:
    lines, cubic curves, beta maps, lines that move at a steady pace, and curves with fading means of the last labels;
    smoothers, local in the score, that need no monotone map; Venn-Abers and smoothed isotonic on the last 1,000
    observations; a Bernstein polynomial; `Protected`; and a *stack*, an online logistic regression on the log-odds of
    all the others.

    Expert k with prior weight πₖ has the capital Vⱼₖ = πₖ at each of two share rates αⱼ, 1e-5 and 1e-3. The
    forecast is the mean of the experts, p = Σⱼₖ Vⱼₖ pₖ / Σⱼₖ Vⱼₖ. An outcome y multiplies every Vⱼₖ by the probability
    that expert k gave to y; then the share αⱼ of Σₖ Vⱼₖ is spread anew by the prior: Vⱼₖ ← (1 − αⱼ)Vⱼₖ + αⱼπₖ Σᵢ Vⱼᵢ.
    All this happens at knots ⅛ apart in log-odds; between two knots the log-odds of the forecast are linear.

    Parameters
    ----------
    delay : int
        How many later scores are asked for before the label of a score is learned, 0 to 100,000; 0 if a label is known
        before the next score comes. It is a fact of your deployment, not a tuning parameter. With it, experts are
        judged by what they would have said that much earlier, recent labels count for what they are worth then, and
        stakes are (1 + delay)^¾ times lower: labels that come in a row often have one cause. If delays vary, give a
        typical one. A delay that is not told makes forecasts overconfident where labels persist.

    Notes
    -----
    **Bound.** With `delay=0` and weights up to 1, for every stream of n observations, cut into m spells in any way,
    with any expert kᵢ in spell i,

        loss of Auto ≤ loss of these experts + Σᵢ ln 1/π(kᵢ) + ln 2 + minⱼ [(m − 1) ln 1/αⱼ + (n − m) ln 1/(1 − αⱼ)].

    Losses are summed log losses, in nats; that of an expert at a score between two knots is the mean of its losses at
    both, by nearness. For one expert over 10,000 observations and a prior weight of .1 the bound is 3.1 nats, about
    .0003 each. Experts never say less than 1e-7 or more than 1 − 1e-7. An observation of weight w counts w times in
    stakes and is one step of w-fold size for the experts, of 10⁶-fold at most for the regressions.

    O(1) per observation: 4 µs to predict and 23 µs to learn, 40 µs in all with a delay, and memory for 1,000
    observations and those whose labels are late. `map()` is exact, for 257 forecasts.
    Herbster and Warmuth, Tracking the best expert, Machine Learning 32, 1998, for fixed share; Vovk, Competitive
    on-line statistics, 2001, for mixtures under log loss; Kulis and Bartlett, Implicit online learning, ICML 2010, for
    the steps of the regressions.

    >>> import random
    >>> labels = random.Random(1)
    >>> cal = Auto()
    >>> round(cal.predict_one(0.8), 12)
    0.8
    >>> for _ in range(500):  # the score says 0.8, but half of the outcomes are positive
    ...     cal.learn_one(0.8, labels.random() < 0.5)
    >>> 0.4 < cal.predict_one(0.8) < 0.6
    True
    >>> weights = cal.weights()
    >>> weights["identity"] < 0.01, round(sum(weights.values()), 9)
    (True, 1.0)
    """

    name = "auto"
    summary = "a mixture of all kinds of experts that follows whoever is right: no choice, no tuning"
    monotone = False

    def __init__(self, delay: int = 0) -> None:
        if isinstance(delay, bool) or not isinstance(delay, int) or not 0 <= delay <= LONGEST_DELAY:
            raise InputError(f"delay={delay!r} is not possible; give a whole number from 0 to {LONGEST_DELAY}")
        super().__init__()
        self.delay = delay
        self.scale = Logit()
        self._live = ExpertPanel(delay)
        # What the live panel was when today's labels were asked for: `_waiting` is what it has learned since.
        self._then = self._live if delay == 0 else ExpertPanel(delay)
        self._waiting: deque[tuple[float, float, float]] = deque()
        size = EXPERTS + 2
        stack = Tracker(
            range(size),
            [STACK_KEEP] * size,
            [STACK_ENDS, *[STACK_PRECISION] * EXPERTS, STACK_ENDS],
            [1.0] + [0.0] * (size - 1),
        )
        prior = np.array([*PRIOR, 0.0]) / sum(PRIOR) * (1.0 - STACK_PRIOR)
        prior[-1] = STACK_PRIOR
        self._mixture = Mixture(RATES, prior, stack, (1.0 + delay) ** -STAKE_POWER)
        self._left, self._right = np.empty(EXPERTS), np.empty(EXPERTS)
        self._n = 0.0

    @property
    def n(self) -> float:
        return self._n

    def weights(self) -> dict[str, float]:
        """How much each expert counts in the present forecast, by name; they sum to 1."""
        return dict(zip((*NAMES, STACK), self._mixture.weights().tolist(), strict=True))

    def predict_one(self, score: float, t: Time | None = None) -> float:
        knot, share = place(self.scale.coordinate(check_score(score)))
        self._live.forecast(knot, self._left)
        left = self._mixture.blend(self._left)
        if share == 0.0:
            return float(sigmoid(left))
        self._live.forecast(knot + 1, self._left)
        return float(sigmoid(left + share * (self._mixture.blend(self._left) - left)))

    def map(self) -> LogOddsMap:
        z = np.empty_like(KNOTS)
        for knot in range(len(KNOTS)):
            self._live.forecast(knot, self._left)
            z[knot] = self._mixture.blend(self._left)
        return LogOddsMap(self.scale, KNOTS, z)

    def _step(self, x: float, y: float, w: float) -> None:
        knot, share = place(x)
        self._then.forecast(knot, self._left)
        self._then.forecast(min(knot + 1, len(KNOTS) - 1), self._right)
        self._mixture.step(self._left, self._right, share, y, w)
        self._live.learn(x, y, w)
        if self.delay:
            self._waiting.append((x, y, w))
            if len(self._waiting) > self.delay:
                self._then.learn(*self._waiting.popleft())
        self._n += w

    def _state(self) -> dict[str, Any]:
        held = {"live": self._live.state(), "then": None if self.delay == 0 else self._then.state()}
        mixture = {"mixture": self._mixture.state(), "waiting": [list(one) for one in self._waiting]}
        return {"clamped": self._clamped, "n": self._n, **held, **mixture}

    def _restore(self, state: dict[str, Any]) -> None:
        self._clamped, self._n = int(state["clamped"]), float(state["n"])
        self._live.restore(state["live"])
        then, waiting = state["then"], state["waiting"]
        if self.delay:
            self._then.restore(then)
        self._waiting = deque((float(x), float(y), float(w)) for x, y, w in waiting)
        self._mixture.load(*state["mixture"])


def place(x: float) -> tuple[int, float]:
    """The knot at or below the log-odds x, and how far x is on the way to the next."""
    steps = (x + LOGIT_LIMIT) * KNOTS_A_UNIT
    knot = int(steps)
    return knot, steps - knot
