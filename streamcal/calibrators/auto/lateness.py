"""How late labels are, found from the scores that were asked for; and an ensemble that goes on with another delay."""

from __future__ import annotations

from collections import deque
from typing import Any

from streamcal.calibrators.auto.mixture import RATES
from streamcal.kernels.fixed_share import FixedShare

#: Scores that are remembered, and the longest delay that is found: later labels are not recognised.
REMEMBERED = 4_096
#: The delay is reconsidered after so many labels whose score was recognised: it becomes their median lateness,
CHECKED = 64
#: if that is so many times larger or smaller, and so many delays have passed since it last changed: until then the
#: first labels are less late than those to come. If it is smaller in so many checks in a row, nothing is waited for.
GROWN, SHRUNK, PASSED, SMALLER = 1.2, 0.5, 2, 3
#: In place of a number of labels: the score was asked for at several times.
SEVERAL = -1


class IssuedScores:
    """The last scores that were asked for, and how many labels had been learned then.

    The lateness of a label is the number of labels that were learned since its score was asked for. A score that was
    asked for at several times tells nothing, and where a score has several labels, the first of them alone does. O(1)
    for a score; memory for `REMEMBERED` of them, half a megabyte.
    """

    def __init__(self) -> None:
        self._learned_at: dict[float, int] = {}
        self._lateness: deque[int] = deque(maxlen=CHECKED)
        self._recognised = self._smaller = 0
        self._changed = 0

    def add(self, x: float, learned: int) -> None:
        """Remember the log-odds x of a score, asked for when so many labels had been learned."""
        before = self._learned_at.pop(x, learned)
        self._learned_at[x] = learned if before == learned else SEVERAL
        if len(self._learned_at) > REMEMBERED:
            del self._learned_at[next(iter(self._learned_at))]

    def delay_after(self, x: float, learned: int, delay: int) -> int:
        """The delay that has been found once the label at x is learned as well, after so many; `delay` until now."""
        asked = self._learned_at.get(x, SEVERAL)
        if asked == SEVERAL:
            return delay
        self._learned_at[x] = SEVERAL  # a further label at this score has no prediction of its own
        if learned - asked > REMEMBERED:
            return delay
        self._lateness.append(learned - asked)
        self._recognised += 1
        if self._recognised % CHECKED:
            return delay
        median = sorted(self._lateness)[CHECKED // 2]
        self._smaller = self._smaller + 1 if median < SHRUNK * delay else 0
        if SHRUNK * delay <= median <= GROWN * delay:
            return delay
        if learned - self._changed < PASSED * delay and self._smaller < SMALLER:
            return delay
        self._changed, self._smaller = learned, 0
        return median


def with_delay(live: dict[str, Any], was: int, delay: int) -> dict[str, Any]:
    """The state of an ensemble, as `Ensemble.state` wrote it with the delay `was`, for one with another delay.

    Nothing is late then: what it knows now counts as what it knew when forecasts were issued.
    """
    own = {name: value for name, value in live["panel"]["panel"].items() if name != "ahead"}
    panel = {**own, "then": own["means"], "waiting": [[0.0, 0.0]] * delay}
    shares = [_rows(weights, log_wealth, was, delay) for weights, log_wealth in live["mixture"][:3]]
    return {"panel": {**live["panel"], "panel": panel}, "mixture": [*shares, *live["mixture"][3:]]}


def _rows(weights: list[list[float]], log_wealth: list[float], was: int, delay: int) -> list[list[Any]]:
    """With a delay every row is there thrice, and the middle third has learning rate 1 for what was issued.

    So it is without one, if labels came late.
    """
    third = len(RATES)
    if delay and len(weights) == third:
        tripled = FixedShare(RATES, weights[0])
        tripled.load(weights, log_wealth)
        tripled.triple_rows()
        return tripled.state()
    if was and not delay:
        own = log_wealth[third : 2 * third]
        return [weights[third : 2 * third], [one - max(own) for one in own]]
    return [weights, log_wealth]
