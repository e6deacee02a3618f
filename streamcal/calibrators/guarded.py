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
from streamcal.kernels.mixture.guard import Guard, information
from streamcal.kernels.mixture.jumper import Jumper
from streamcal.kernels.mixture.knot_sums import KNOTS
from streamcal.maps.knots import LogOddsMap
from streamcal.parameters.scales import LOGIT_LIMIT, Scale
from streamcal.parameters.types import FloatArray
from streamcal.states import HEAVIEST, ROUNDING, Reader, ensure, listed, number, row, weight_scale_state, whole

#: Nats promised for each unit of information that a label may be late, and for each surprise: a label to which the
#: score gives less than `LIKELY`. That is at a knot, so that no score above it is given a part of what is below it.
PROMISE_A_UNIT, PROMISE_A_SURPRISE, LIKELY = 1.0, 1.0, 1.0 / (1.0 + math.exp(1.25))
#: As in the kernel: nats that a surprise may cost at most beyond its stake.
MOST_EXTRA = 8.0
#: Predictions whose labels are awaited, at most, where a delay is found; and the longest delay that may be given.
LOGGED, LONGEST_DELAY = 4_096, 100_000
#: Log-odds at which predictions are computed; between them they are linear in log-odds.
POINTS = np.linspace(-LOGIT_LIMIT, LOGIT_LIMIT, KNOTS)


def new_guard(constant: float) -> Guard:
    """Return a guard that promises `constant` nats, 1 for each unit that labels are late, and what surprises cost."""
    return Guard(constant, PROMISE_A_UNIT, PROMISE_A_SURPRISE, LIKELY)


class GuardedJumper:
    """The predictions of a `Jumper` under a guard, and a log of those that wait for their labels.

    Parameters
    ----------
    jumper : Jumper
        Without a passive part: the guard keeps weight on the score.
    guard : Guard
    delay : int
        The largest number of labels learned between a prediction and its label.

    Notes
    -----
    A prediction is judged as it was issued. The log is not part of the state. A label belongs to the logged prediction
    at its score whose delay is nearest to `delay`.
    """

    def __init__(self, jumper: Jumper, guard: Guard, delay: int) -> None:
        self.jumper, self.guard, self.delay = jumper, guard, delay
        self._scale = WeightScale()
        self.learned = 0
        self._logs, self._most = True, max(LOGGED, 2 * delay)
        #: [coordinate, labels learned by then, information learned by then, log-odds]; NaN once taken.
        self._order: deque[list[float]] = deque()
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
        entry = [x, *self._record(x)]
        if not self._logs:
            return sigmoid(entry[3])
        if len(self._order) == self._most:
            self._drop()
        self._order.append(entry)
        self._of.setdefault(x, deque()).append(entry)
        return sigmoid(entry[3])

    def _record(self, x: float) -> list[float]:
        return [float(self.learned), float(self.guard.clock), self.at(x)]

    def _drop(self) -> None:
        """Drop the oldest prediction."""
        oldest = self._order.popleft()
        if not math.isnan(oldest[0]):
            self._forget(oldest[0])

    def _forget(self, x: float, place: int = 0) -> list[float]:
        """Take a prediction at x out of those at x."""
        waiting = self._of[x]
        entry = waiting[place]
        del waiting[place]
        if not waiting:
            del self._of[x]
        return entry

    def pop(self, x: float) -> list[float] | None:
        """Return the logged prediction at x to which a label belongs, and take it out; None where there is none."""
        if x not in self._of:
            return None
        waiting = self._of[x]
        place = min(range(len(waiting) - 1, -1, -1), key=lambda k: abs(self.learned - waiting[k][1] - self.delay))
        entry = self._forget(x, place)
        record, entry[0] = entry[1:], math.nan
        while self._order and math.isnan(self._order[0][0]):
            self._order.popleft()
        return record

    def issue(self, x: float) -> list[float]:
        """Return what `learn` needs of the prediction at x: labels and information learned by now, and its log-odds.

        The caller keeps it, and nothing is logged from now on.
        """
        self._logs = False
        self._order.clear()
        self._of.clear()
        return self._record(x)

    def require(self, record: Sequence[float]) -> None:
        """Raise `InputError` if `issue` cannot have returned this."""
        known = len(record) == 3 and 0.0 <= record[0] <= self.learned and 0.0 <= record[1] <= self.guard.clock
        if not (known and abs(record[2]) <= LOGIT_LIMIT):
            raise InputError(f"these are not the numbers that were issued with the prediction: {list(record)}")

    def learn(self, x: float, y: float, w: float, record: list[float] | None) -> None:
        """Learn a label; it judges the prediction of its record, or the present one."""
        z = self.at(x) if record is None else record[2]
        late = self.guard.clock - record[1] if record is not None else 0.0
        pending = self.guard.clock * self.delay / max(1.0, self.learned)
        self.guard.grow(max(self.guard.delay, late, pending))
        sign = 1.0 if y > 0.0 else -1.0
        gain = math.log1p(math.exp(-sign * x)) - math.log1p(math.exp(-sign * z))
        relative = self._scale.relative(w)
        self.guard.learn(relative * gain, information(x, z), relative)
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


def guarded_state(constant: float) -> Reader:
    """Return a reader of the state of a `GuardedJumper` whose guard promises this constant."""
    return row(guard_state(constant), whole(), weight_scale_state)


def guard_state(constant: float) -> Reader:
    """Return a reader of the account of a guard that promises this constant."""
    return lambda value: _read_account(value, max(1.0, constant / PROMISE_A_UNIT))


def _read_account(value: Any, more: float) -> list[Any]:
    """Check and return an account whose stakes are for `more` units beyond the delay."""
    nats = number(0.0, HEAVIEST)
    span = row(nats, nats, number(0.0, MOST_EXTRA), whole())
    account = nats, nats, nats, nats, number(-ROUNDING, HEAVIEST), whole(), listed(span)
    weighted = isinstance(value, list) and len(value) > len(account)  # by other weights than 1
    read = row(*account, *([number(1.0, HEAVIEST)] if weighted else []))(value)
    delay, clock, _, budget, aside, tokens, spans = read[: len(account)]
    stakes = [each for each, *_ in spans]
    rounding = ROUNDING * (1.0 + budget + clock)
    ensure(bool(spans) == (delay > 0.0), "stakes are set aside with labels in time, or none with late ones")
    units = sum(length for _, length, *_ in spans) - more
    ensure(not spans or abs(units - delay) <= rounding, "the stakes are not those of the delay")
    ensure(sum(some for *_, some in spans) <= tokens, "there are more surprises than were promised for")
    ensure(stakes == sorted(stakes, reverse=True), "the stakes rise")
    promised = sum(each * length + some * extra for each, length, extra, some in spans)
    ensure(abs(promised - aside) <= rounding, "the stakes are not what is set aside")
    ensure(aside <= budget + rounding, "more is set aside than there is")
    return list(read)
