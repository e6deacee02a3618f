# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The guard of the score: how much a mixture may bet on its forecasts against the score.

Symbols:

    x                        the log-odds of the score
    z                        the log-odds of a forecast
    u                        the information of a label: 4p(1 − p), of the score or of the forecast if that is more
    D                        the largest lateness: information learned between a forecast and its label
"""

import cython
import numpy as np
from cython.cimports.libc.math import exp, log

SLACK = cython.declare(cython.double, 0.995)
"""The part of a stake that the knots use. Between knots the log-odds are linear, which may add a 1/512 of it."""
LEAST_BUDGET = cython.declare(cython.double, 1e-12)
"""Nats that are always left for the next forecast, so that the score never keeps all weight for good."""
LIGHTER = cython.declare(cython.double, 0.999)
"""What the heaviest weight is above 1 falls by this factor with each label."""
LARGE = cython.declare(cython.double, 40.0)
"""Nats at which the prior weight of the score, e⁻⁴⁰, is below rounding: it is 0."""

EXTRA_SLOPE = cython.declare(cython.double, 4.0)
"""What a surprise may cost beyond the stake, in stakes of a unit."""
MOST_EXTRA = cython.declare(cython.double, 8.0)
"""Nats that a surprise may cost at most beyond the stake."""

# The rows of the spans.
EACH = cython.declare(cython.Py_ssize_t, 0)  # nats a unit, falling
LENGTH = cython.declare(cython.Py_ssize_t, 1)  # units
EXTRA = cython.declare(cython.Py_ssize_t, 2)  # nats that a surprise may cost more, falling
TOKENS = cython.declare(cython.Py_ssize_t, 3)  # of surprises that come back there


def information(x, z):
    """Return 4p(1 − p) of the less certain of two forecasts in log-odds."""
    e: cython.double = exp(-min(abs(x), abs(z)))
    return 4.0 * e / ((1.0 + e) * (1.0 + e))


def of_two(first, second, share):
    """Return the log-odds of the mean of two forecasts, the second with weight `share`."""
    e: cython.double
    f: cython.double
    p: cython.double
    q: cython.double
    if share <= 0.0 or first == second:
        return first
    if share >= 1.0:
        return second
    e, f = exp(-first), exp(-second)
    p, q = (1.0 - share) / (1.0 + e), share / (1.0 + f)
    return log((p + q) / (e * p + f * q))


class Guard:
    """The account that bets on the forecasts of `Auto` against the score, and can never owe more than was promised.

    Parameters
    ----------
    constant, a_unit, a_surprise : float
        Nats promised: constant + a_unit · D + a_surprise · κ, κ being the largest number of surprises among labels of
        D + 1 units in a row. A surprise that was staked higher counts as its stake.
    likely : float
        A label to which the score gives a larger probability is no surprise.

    Notes
    -----
    Let B be what is promised, minus all that the forecasts have lost against the score so far: Σ r·(loss − loss of the
    score). The clock is the information learned. Forecasts issued at the clock c may lose a(c) nats against the score
    for each unit of their own label, whichever it is, and e(c) more by a label that the score holds unlikely. Let M(s)
    be the largest a of the clocks c − D … c whose labels may come at c + s. Labels come one after another, u units
    each, with u ≤ 1: since M falls, what all forecasts issued until c can lose is at most ∫ M(s − 1) ds over D + 1
    units, and e for each surprise.

    A surprise takes a token, which comes back D + 1 units later. Where all are taken, it makes another one, and what it
    may cost is added to the promise: there are κ tokens at most. All a and e are such that R = Σ (a·length + tokens·e)
    over the spans of the next D + 1 units is at most B. A label frees at least what it costs, and so the inequality
    lasts: B is never below 0. Spans of equal a are one entry of a list, and a step takes O(1) amortised.

    With D = 0 one label alone may come, nothing is a surprise, and a forecast may lose all of B: it is the mixture of
    the score and the others with the prior weight exp(−`constant`) on the score.

    A label of weight r costs r times its loss. Forecasts are therefore given a share of their stake: one part in the
    largest weight so far, whose memory fades. With the whole stake, labels of weight 3 would end the account for good.
    """

    def __init__(
        self, constant: cython.double, a_unit: cython.double, a_surprise: cython.double, likely: cython.double
    ):
        self.constant, self.a_unit, self.a_surprise, self.likely = constant, a_unit, a_surprise, likely
        self.delay, self.clock, self.heaviest = 0.0, 0.0, 1.0
        self.promised = self.budget = constant
        self._more = max(1.0, constant / a_unit)
        self._spans = np.zeros((4, 4))
        self._first = self._count = 0
        self._set_aside = self._tokens = 0.0
        self._set(self.budget, 0.0)

    def _append(self, each, length, extra, tokens):
        """Add a span at the end."""
        size: cython.Py_ssize_t = self._spans.shape[1]
        last: cython.Py_ssize_t
        if self._first + self._count == size:  # to the front, and into longer arrays if more than half is in use
            moved = np.zeros((4, 2 * size if 2 * self._count >= size else size))
            moved[:, : self._count] = self._spans[:, self._first :]
            self._spans = moved
            self._first = 0
        last = self._first + self._count
        self._spans[EACH, last], self._spans[LENGTH, last] = each, length
        self._spans[EXTRA, last], self._spans[TOKENS, last] = extra, tokens
        self._count += 1
        self._set_aside += self._of(last)

    def _of(self, entry):
        """Return what is set aside for an entry."""
        return (
            self._spans[EACH, entry] * self._spans[LENGTH, entry]
            + self._spans[TOKENS, entry] * self._spans[EXTRA, entry]
        )

    def _stake(self, length, tokens):
        """Set aside what the forecasts from now on may lose: their span is of this length and has these tokens."""
        last: cython.Py_ssize_t
        stake: cython.double
        limit: cython.double
        each: cython.double
        extra: cython.double = 0.0  # of the spans that join
        if self.budget < self._set_aside + LEAST_BUDGET:
            self.promised += self._set_aside + LEAST_BUDGET - self.budget
            self.budget = self._set_aside + LEAST_BUDGET
        most: cython.double = max(self.a_surprise, min(MOST_EXTRA, 0.5 * self.budget / (self._tokens + 1.0)))
        while True:
            last = self._first + self._count - 1
            limit = max(extra, min(most, self._spans[EXTRA, last]) if self._count > 0 else most)
            stake = self._shared(length, tokens, extra, limit)
            if self._count == 0 or stake <= self._spans[EACH, last]:
                break
            each = self._spans[EACH, last]
            self._count -= 1
            self._set_aside -= self._of(last)
            limit = max(extra, self._spans[EXTRA, last])
            stake = self._shared(
                length + self._spans[LENGTH, last], tokens + self._spans[TOKENS, last], limit, max(limit, most)
            )
            if stake < each:  # what a surprise may cost in the span before is more than there is
                self._count += 1
                self._set_aside += self._of(last)
                limit = max(extra, min(most, self._spans[EXTRA, last]))
                stake = each
                break
            if self._count == 0:
                self._first, self._set_aside = 0, 0.0  # but for rounding errors
            length += self._spans[LENGTH, last]
            tokens += self._spans[TOKENS, last]
            extra = limit
        extra = max(extra, min(limit, EXTRA_SLOPE * stake))
        self._append(stake, length, extra, tokens)
        self._set(stake, extra)

    def _shared(self, length, tokens, least, most):
        """Return the stake at which a span and its tokens use up what is not set aside.

        A surprise may cost `EXTRA_SLOPE` stakes more, within `least` and `most`.
        """
        rest: cython.double = self.budget - self._set_aside
        stake: cython.double = (rest - tokens * least) / length
        if EXTRA_SLOPE * stake > least:
            stake = rest / (length + tokens * EXTRA_SLOPE)
            if EXTRA_SLOPE * stake > most:
                stake = (rest - tokens * most) / length
        return max(0.0, stake)

    def _set(self, stake, extra):
        """Set what depends on the stake and on the budget."""
        self.staked, self._share, self._extra_staked = stake, stake / self.heaviest, extra / self.heaviest
        self._prior = exp(-self.budget / self.heaviest) if self.budget < LARGE * self.heaviest else 0.0

    def learn(self, gain, u, weight=1.0):
        """Book what the forecast has gained on the score by a label of u units and this relative weight, in nats."""
        tokens: cython.double = 0.0
        left: cython.double = u
        freed: cython.double = 0.0
        first: cython.Py_ssize_t = self._first
        self.clock += u
        self.heaviest = max(weight, 1.0 + LIGHTER * (self.heaviest - 1.0))
        if self.delay == 0.0:
            self.budget += gain
            if self.budget < LEAST_BUDGET:
                self.promised += LEAST_BUDGET - self.budget
                self.budget = LEAST_BUDGET
            self._set(self.budget, 0.0)
            return
        while self._count > 0:  # the oldest u units are free
            first = self._first
            self._set_aside -= self._of(first)
            if left < self._spans[LENGTH, first]:
                freed += self._spans[EACH, first] * left
                self._spans[LENGTH, first] -= left
                self._set_aside += self._of(first)
                break
            freed += self._spans[EACH, first] * self._spans[LENGTH, first]
            left -= self._spans[LENGTH, first]
            self._first += 1
            self._count -= 1
            if self._count == 0:
                tokens += self._spans[TOKENS, first]
            else:
                self._set_aside += self._spans[TOKENS, first] * self._spans[EXTRA, self._first]
                self._spans[TOKENS, self._first] += self._spans[TOKENS, first]
        if -gain > freed and self._count > 0:
            tokens += self._surprised()
        self.budget += gain
        self._stake(u if self._count > 0 else self.delay + self._more, tokens)

    def _surprised(self):
        """Take a token for a surprise, or make one, and return it."""
        first: cython.Py_ssize_t = self._first
        if self._spans[TOKENS, first] > 0.0:
            self._spans[TOKENS, first] -= 1.0
            self._set_aside -= self._spans[EXTRA, first]
            return 1.0
        more: cython.double = max(self.a_surprise, self._spans[EXTRA, first])
        self._tokens += 1.0
        self.promised += more
        self.budget += more
        return 1.0

    def grow(self, delay):
        """Let labels be later by up to `delay` units, and promise more."""
        more: cython.double = delay - self.delay
        if more <= 0.0:
            return
        self.promised += self.a_unit * more
        self.budget += self.a_unit * more
        if self.delay == 0.0:
            self.delay = delay
            self._stake(delay + self._more, 0.0)
            return
        self.delay = delay
        self._spans[LENGTH, self._first] += more
        self._set_aside += self._spans[EACH, self._first] * more
        self._set(self.staked, self._extra_staked * self.heaviest)

    def share(self, x, z):
        """Return the weight of the score at the log-odds x beside another forecast of log-odds z."""
        ratio: cython.double
        least: cython.double
        stake: cython.double = SLACK * self._share
        unlikely: cython.double
        if self.delay > 0.0:
            stake *= information(x, z)
        if abs(z - x) <= stake:  # neither label can cost more
            return self._prior
        # The score's probability of the label that speaks more against z, relative to that of z.
        if z < x:
            unlikely = 1.0 / (1.0 + exp(-x))
            ratio = (1.0 + exp(-x)) / (1.0 + exp(-z))
        else:
            unlikely = 1.0 / (1.0 + exp(x))
            ratio = (1.0 + exp(x)) / (1.0 + exp(z))
        unlikely = SLACK * self._extra_staked * (1.0 - unlikely / self.likely) if unlikely < self.likely else 0.0
        least = exp(-stake - unlikely)
        if ratio >= least:
            return self._prior
        if self.delay > 0.0:  # what is issued lies between, and may be as certain as the score
            least = exp(-SLACK * self._share * information(x, x) - unlikely)
            if ratio >= least:
                return self._prior
        return max(self._prior, (least - ratio) / (1.0 - ratio))

    def guarded(self, x, z):
        """Return the log-odds of the mixture of the score and the forecast z."""
        return z if z == x else of_two(z, x, self.share(x, z))

    def state(self):
        """Return [delay, clock, promised, budget, set aside, tokens, spans, heaviest weight above 1], for `load`."""
        entries = np.array(self._spans)[:, self._first : self._first + self._count]
        spans = [[each, length, extra, int(tokens)] for each, length, extra, tokens in entries.T.tolist()]
        numbers = [self.delay, self.clock, self.promised, self.budget, self._set_aside]
        heaviest = [float(self.heaviest)] if self.heaviest > 1.0 else []
        return [*map(float, numbers), int(self._tokens), spans, *heaviest]

    def load(self, delay, clock, promised, budget, set_aside, tokens, spans, heaviest=1.0):
        """Load an earlier `state`."""
        self.delay, self.clock, self.promised, self.budget, self.heaviest = delay, clock, promised, budget, heaviest
        self._tokens = tokens
        self._first = self._count = 0
        self._set_aside = 0.0
        for each, length, extra, some in spans:
            self._append(each, length, extra, some)
        self._set_aside = set_aside
        if spans:
            self._set(self._spans[EACH, self._count - 1], self._spans[EXTRA, self._count - 1])
        else:
            self._set(self.budget, 0.0)
