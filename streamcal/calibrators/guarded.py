"""A mixture that bets against the score under a guard, with labels that come late."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from streamcal.errors import InputError
from streamcal.kernels.common.logistic import sigmoid
from streamcal.kernels.common.weights import WeightScale
from streamcal.kernels.mixture.guard import Guard
from streamcal.kernels.mixture.jumper import Jumper
from streamcal.kernels.mixture.knot_sums import KNOTS
from streamcal.maps.knots import LogOddsMap
from streamcal.parameters.scales import LOGIT_LIMIT, Scale
from streamcal.parameters.types import FloatArray
from streamcal.states import HEAVIEST, ROUNDING, Reader, ensure, listed, number, row, weight_scale_state, whole

#: Nats promised for each label that a prediction may be late, and for each surprise: a label to which the score gives
#: less than `LIKELY`.
PROMISE_A_LABEL, PROMISE_A_SURPRISE, LIKELY = 0.25, 1.0, 0.25
#: Predictions whose labels are awaited, at most, where a delay is found; and the longest delay that may be given.
LOGGED, LONGEST_DELAY = 4_096, 100_000
#: Log-odds at which predictions are computed; between them they are linear in log-odds.
POINTS = np.linspace(-LOGIT_LIMIT, LOGIT_LIMIT, KNOTS)


def new_guard(delay: int, constant: float) -> Guard:
    """Return a guard that promises `constant` + `delay`/4 nats, and one more for each surprise."""
    return Guard(delay, constant, PROMISE_A_LABEL, PROMISE_A_SURPRISE, LIKELY)


class GuardedJumper:
    """The predictions of a `Jumper` under a guard, and a log of those that wait for their labels.

    Parameters
    ----------
    jumper : Jumper
        Without a passive part: the guard keeps weight on the score.
    guard : Guard

    Notes
    -----
    A prediction is judged as it was issued. The log is not part of the state.
    """

    def __init__(self, jumper: Jumper, guard: Guard) -> None:
        self.jumper, self.guard = jumper, guard
        self._scale = WeightScale()
        self.learned = 0
        self._logs, self._most = True, max(LOGGED, 2 * guard.delay)
        self._order: deque[list[float]] = deque()  # [coordinate, labels learned by then, log-odds]; NaN once taken
        self._of: dict[float, deque[list[float]]] = {}

    def at(self, x: float) -> float:
        """Return the log-odds of the prediction at the log-odds x."""
        return float(np.interp(x, *self._knots(x)))

    def _knots(self, x: float) -> tuple[FloatArray, list[float]]:
        """Return the two knots around x, and the log-odds at both."""
        knot = min(int((x + LOGIT_LIMIT) * (KNOTS - 1) / (2.0 * LOGIT_LIMIT)), KNOTS - 2)
        points = POINTS[knot : knot + 2]
        return points, [self._at_knot(one) for one in points.tolist()]

    def _at_knot(self, x: float) -> float:
        p = self.jumper.predict(x)
        z = math.log(p / (1.0 - p)) if p < 1.0 else LOGIT_LIMIT
        return float(self.guard.guarded(x, min(max(z, -LOGIT_LIMIT), LOGIT_LIMIT)))

    def map(self, scale: Scale) -> LogOddsMap:
        """Return the map of the predictions."""
        return LogOddsMap(scale, POINTS, np.array([self._at_knot(x) for x in POINTS.tolist()]))

    def ask(self, x: float) -> float:
        """Return the probability at x, and log it until its label comes."""
        entry = [x, self.learned, self.at(x)]
        if not self._logs:
            return sigmoid(entry[2])
        if len(self._order) == self._most:
            self._drop()
        self._order.append(entry)
        self._of.setdefault(x, deque()).append(entry)
        return sigmoid(entry[2])

    def _drop(self) -> None:
        """Drop the oldest prediction."""
        oldest = self._order.popleft()
        if not math.isnan(oldest[0]):
            self._forget(oldest[0])

    def _forget(self, x: float) -> list[float]:
        """Take the oldest prediction at x out of those at x."""
        waiting = self._of[x]
        entry = waiting.popleft()
        if not waiting:
            del self._of[x]
        return entry

    def taken(self, x: float) -> list[float] | None:
        """Return the oldest logged prediction at x, as `issue` does, and take it out; None where there is none."""
        if x not in self._of:
            return None
        entry = self._forget(x)
        record, entry[0] = entry[1:], math.nan
        while self._order and math.isnan(self._order[0][0]):
            self._order.popleft()
        return record

    def issue(self, x: float) -> list[float]:
        """Return what `learn` needs of the prediction at x: labels learned by now, and its log-odds.

        The caller keeps it, and nothing is logged from now on.
        """
        self._logs = False
        self._order.clear()
        self._of.clear()
        return [float(self.learned), self.at(x)]

    def require(self, record: Sequence[float]) -> None:
        """Raise `InputError` if `issue` cannot have returned this."""
        if not (len(record) == 2 and 0.0 <= record[0] <= self.learned and abs(record[1]) <= LOGIT_LIMIT):
            raise InputError(f"these are not the numbers that were issued with the prediction: {list(record)}")

    def learn(self, x: float, y: float, w: float, record: list[float] | None) -> None:
        """Learn a label; it judges the prediction of its record, or the present one."""
        z = self.at(x) if record is None else record[1]
        sign = 1.0 if y > 0.0 else -1.0
        gain = math.log1p(math.exp(-sign * x)) - math.log1p(math.exp(-sign * z))
        relative = self._scale.relative(w)
        self.guard.learn(relative * gain, relative)
        self.jumper.step(x, y, w)
        self.learned += 1

    def state(self) -> list[Any]:
        """Return the state of the guard, labels learned, and the state of the weight scale, for `load`."""
        return [self.guard.state(), self.learned, self._scale.state()]

    def load(self, guard: list[Any], learned: int, scale: list[float]) -> None:
        """Load an earlier `state`."""
        self.guard.load(*guard)
        self.learned = learned
        self._scale.load(*scale)


def guarded_state(delay: int) -> Reader:
    """Return a reader of the state of a `GuardedJumper` with this delay."""

    def read(value: Any) -> list[Any]:
        guard, learned, scale = row(guard_state, whole(), weight_scale_state)(value)
        ensure(guard[0] == delay, "the guard is of another delay")
        return [guard, learned, scale]

    return read


def guard_state(value: Any) -> list[Any]:
    """Check and return the account of a guard."""
    slot = row(number(0.0, HEAVIEST), whole(1, LONGEST_DELAY + 1), whole(0, LONGEST_DELAY + 1))
    nats = number(0.0, HEAVIEST)
    account = whole(0, LONGEST_DELAY), nats, nats, number(-ROUNDING, HEAVIEST), listed(slot)
    weighted = isinstance(value, list) and len(value) > len(account)  # by other weights than 1
    read = row(*account, *([number(1.0, HEAVIEST)] if weighted else []))(value)
    delay, _, budget, aside, slots = read[: len(account)]
    stakes = [each for each, *_ in slots]
    ensure(sum(number for _, number, _ in slots) == delay + 1, "the stakes are not those of the delay")
    ensure(sum(tokens for *_, tokens in slots) <= delay + 1, "there are more surprises than labels")
    ensure(stakes == sorted(stakes, reverse=True), "the stakes rise")
    rounding = ROUNDING * (1.0 + budget)
    extra = PROMISE_A_SURPRISE / PROMISE_A_LABEL
    held = sum(each * number + tokens * extra * min(PROMISE_A_LABEL, each) for each, number, tokens in slots)
    ensure(abs(held - aside) <= rounding, "the stakes are not what is set aside")
    ensure(aside <= budget + rounding, "more is set aside than there is")
    return list(read)
