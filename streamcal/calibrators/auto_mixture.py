"""What `Auto` makes of its experts: a mixture of them, of a stack upon them, and of corrections of both."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamcal.calibrators.auto_panel import KNOTS, KNOTS_A_UNIT, NAMES, PRIOR, ExpertPanel
from streamcal.kernels.experts import Correction, FixedShare, Mixture, Tracker
from streamcal.parameters.scales import LOGIT_LIMIT
from streamcal.parameters.types import FloatArray

EXPERTS = len(NAMES)
STACK, BY_SCORE, BY_FORECAST = "stack", "corrected by score", "corrected by forecast"
#: All that a forecast is made of, as `Ensemble.weights` counts it.
PARTS = (*NAMES, STACK, BY_SCORE, BY_FORECAST)
#: Prior weights: of the mixture of the experts and the stack; of what these give, and its two corrections.
STACK_PRIOR, CORRECTION_PRIOR = (0.9, 0.1), (0.5, 0.25, 0.25)
#: Share rates: calm spells of 100,000 observations, and of 1,000.
RATES = (1e-5, 1e-3)
#: The stack forgets within 2,000 observations, and starts as the mixture: firmly in the weights of single experts,
#: which are many, less so in its slope and offset.
STACK_KEEP, STACK_PRECISION, STACK_ENDS = 0.9995, 30.0, 10.0
#: A correction looks as far as 1 in log-odds, and remembers 1,000 observations there; it is held at 0 as 160 of even
#: odds (curvature ¼ each) would. Chosen on development streams.
WIDTH, CORRECTION_MEMORY, FIRMNESS = 1.0, 1_000.0, 40.0
#: Stakes fall with the delay like its power −¾, found on the development streams of the race. Against an adversary −½
#: is best for bounded losses, −1 for mixable ones.
STAKE_POWER = 0.75


class Ensemble:
    """The experts and their mixture, at one state of knowledge. `delay`: how many observations labels are late."""

    def __init__(self, delay: int) -> None:
        caution = (1.0 + delay) ** -STAKE_POWER
        size = EXPERTS + 2
        stack = Tracker(
            range(size),
            [STACK_KEEP] * size,
            [STACK_ENDS, *[STACK_PRECISION] * EXPERTS, STACK_ENDS],
            [1.0] + [0.0] * (size - 1),
        )
        corrections = [Correction(WIDTH, CORRECTION_MEMORY, FIRMNESS, KNOTS_A_UNIT) for _ in range(2)]
        shares = [_shares(prior, caution) for prior in (PRIOR, STACK_PRIOR, CORRECTION_PRIOR)]
        self._mixture = Mixture(shares, stack, corrections, KNOTS_A_UNIT)
        self._panel = ExpertPanel(delay)
        # What the experts say at a knot and at the next, until something is learned; -1 if they have not been asked.
        self._knot, self._left, self._right = -1, np.empty(EXPERTS), np.empty(EXPERTS)

    def _ask(self, x: float) -> tuple[int, float]:
        """Have what the experts say beside the log-odds x; the knot and the share of the way to the next."""
        knot, share = place(x)
        if knot != self._knot:
            self._panel.forecast(knot, self._left)
            self._panel.forecast(knot + 1, self._right)
            self._knot = knot
        return knot, share

    def at(self, x: float) -> float:
        """The log-odds of the forecast at the log-odds x."""
        knot, share = self._ask(x)
        left: float = self._mixture.blend(self._left, knot)
        return left if share == 0.0 else left + share * (self._mixture.blend(self._right, knot + 1) - left)

    def judge(self, x: float, y: float, w: float) -> FloatArray:
        """What the label y of weight w at the log-odds x earns, by what all would say of x now: for `learn`."""
        knot, share = self._ask(x)
        outcome: FloatArray = self._mixture.judge(self._left, self._right, knot, share, y, w)
        return outcome

    def learn(self, x: float, y: float, w: float, outcome: FloatArray) -> None:
        """Learn an observation, and what it earned when its score was asked for."""
        self._mixture.learn(outcome)
        self._panel.learn(x, y, w)
        self._knot = -1

    def weights(self) -> dict[str, float]:
        """How much each of `PARTS` counts in the forecast; they sum to 1."""
        return dict(zip(PARTS, self._mixture.weights().tolist(), strict=True))

    def state(self) -> dict[str, Any]:
        """Everything learned, as plain data, for `restore`."""
        return {"panel": self._panel.state(), "mixture": self._mixture.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over what `state` wrote; called on a new ensemble."""
        self._panel.restore(state["panel"])
        self._mixture.load(state["mixture"])


def _shares(prior: tuple[float, ...], caution: float) -> FixedShare:
    """Fixed shares at each rate; the stakes are full, and if labels are late, `caution` as well."""
    rows = [(rate, stake) for stake in sorted({caution, 1.0}) for rate in RATES]
    rates, stakes = zip(*rows, strict=True)
    return FixedShare(rates, stakes, np.array(prior) / sum(prior), caution)


def place(x: float) -> tuple[int, float]:
    """The knot at or below the log-odds x, not the last, and how far x is on the way to the next."""
    steps = (x + LOGIT_LIMIT) * KNOTS_A_UNIT
    knot = min(int(steps), len(KNOTS) - 2)
    return knot, steps - knot
