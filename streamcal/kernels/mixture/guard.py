# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The guard of the score: how much a mixture may bet on its forecasts against the score.

Symbols:

    x                        the log-odds of the score
    z                        the log-odds of a forecast
    d                        the lateness: the number of labels learned between a forecast and its label
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

# The rows of the slots.
EACH = cython.declare(cython.Py_ssize_t, 0)  # nats of a slot, falling
NUMBER = cython.declare(cython.Py_ssize_t, 1)  # of slots
TOKENS = cython.declare(cython.Py_ssize_t, 2)  # that come back at them


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
    delay : int
        The largest lateness d of a label.
    constant, a_label, a_surprise : float
        Nats promised: constant + a_label · d + a_surprise · κ, κ being the largest number of surprises among d + 1
        labels in a row.
    likely : float
        A label to which the score gives a larger probability is no surprise.

    Notes
    -----
    Let B be what is promised, minus all that the forecasts have lost against the score so far: Σ r·(loss − loss of the
    score). At each count of labels n, forecasts issued at n may lose aₙ nats against the score at most, whichever label
    comes, and e(aₙ) more by a label that the score holds unlikely, e(a) = `a_surprise` · min(1, a/`a_label`). The label
    learned after n + j others was issued between the counts n + j − d and n + j, and loses at most Mⱼ, the largest a of
    the counts n + j − d … n; or Mⱼ + e(Mⱼ), which is a surprise.

    A surprise takes a token, which comes back d + 1 labels later. Where all are taken, it makes another one, and
    `a_surprise` is added to the promise: there are κ tokens at most. With τⱼ of them coming back at label n + j, the
    forecasts issued up to n can lose R = Σⱼ (Mⱼ + τⱼ·e(Mⱼ)) in all, j = 0 … d, since the Mⱼ fall. aₙ is the largest
    number with R ≤ B. A label takes M₀ from both sides at most, and a surprise M₀ + e(M₀), where a new token brings as
    much; and so the inequality lasts: B is never below 0. Equal Mⱼ are one entry of a list, and a step takes O(1)
    amortised. A token of the entry of M₀ is taken before it is back: the sum is the same.

    With d = 0 nothing is a surprise, aₙ = B, and the forecast is the mixture of the score and the others with the prior
    weight exp(−`constant`) on the score.

    A label of weight r costs r times its loss. Forecasts are therefore given a share of their stake: one part in the
    largest weight so far, whose memory fades. With the whole stake, labels of weight 3 would end the account for good.
    """

    def __init__(
        self,
        delay: cython.longlong,
        constant: cython.double,
        a_label: cython.double,
        a_surprise: cython.double,
        likely: cython.double,
    ):
        self.constant, self.a_label, self.a_surprise, self.likely = constant, a_label, a_surprise, likely
        self.delay, self.heaviest = delay, 1.0
        self.promised = self.budget = constant + a_label * delay
        self._slots = np.zeros((3, 4))
        self._first = self._count = 0
        self._set_aside = 0.0
        if delay > 0:
            self._append(0.0, delay, 0.0)
        self._stake(0.0)

    def _extra(self, stake):
        """Return what a surprise may cost more than the stake."""
        return self.a_surprise * min(1.0, stake / self.a_label)

    def _append(self, each, number, tokens):
        """Add slots at the end."""
        size: cython.Py_ssize_t = self._slots.shape[1]
        last: cython.Py_ssize_t
        if self._first + self._count == size:  # to the front, and into longer arrays if more than half is in use
            moved = np.zeros((3, 2 * size if 2 * self._count >= size else size))
            moved[:, : self._count] = self._slots[:, self._first :]
            self._slots = moved
            self._first = 0
        last = self._first + self._count
        self._slots[EACH, last], self._slots[NUMBER, last], self._slots[TOKENS, last] = each, number, tokens
        self._count += 1
        self._set_aside += self._of(last)

    def _of(self, entry):
        """Return what is set aside for an entry."""
        each: cython.double = self._slots[EACH, entry]
        return each * self._slots[NUMBER, entry] + self._slots[TOKENS, entry] * self._extra(each)

    def _stake(self, tokens):
        """Set aside what the forecasts of the present count may lose, `staked`; their slot has `tokens`."""
        slots: cython.double = 1.0
        last: cython.Py_ssize_t
        if self.budget < self._set_aside + LEAST_BUDGET:
            self.promised += self._set_aside + LEAST_BUDGET - self.budget
            self.budget = self._set_aside + LEAST_BUDGET
        stake: cython.double = self._shared(slots, tokens)
        while self._count > 0:
            last = self._first + self._count - 1
            if stake <= self._slots[EACH, last]:
                break
            self._count -= 1
            self._set_aside -= self._of(last)
            slots += self._slots[NUMBER, last]
            tokens += self._slots[TOKENS, last]
            stake = self._shared(slots, tokens)
        if self._count == 0:
            self._first, self._set_aside = 0, 0.0  # but for rounding errors
            stake = self._shared(slots, tokens)
        self._append(stake, slots, tokens)
        self._set(stake)

    def _shared(self, slots, tokens):
        """Return the stake at which slots and tokens use up what is not set aside."""
        rest: cython.double = self.budget - self._set_aside
        if rest <= slots * self.a_label + tokens * self.a_surprise:
            return rest / (slots + tokens * self.a_surprise / self.a_label)
        return (rest - tokens * self.a_surprise) / slots

    def _set(self, stake):
        """Set what depends on the stake and on the budget."""
        self.staked, self._share = stake, stake / self.heaviest
        self._extra_staked = self._extra(stake) / self.heaviest if self.delay > 0 else 0.0
        self._prior = exp(-self.budget / self.heaviest) if self.budget < LARGE * self.heaviest else 0.0

    def learn(self, gain, weight=1.0):
        """Book what the forecast has gained on the score by a label of this relative weight, in nats times weight."""
        tokens: cython.double = 0.0
        first: cython.Py_ssize_t = self._first
        self._set_aside -= self._of(first)
        if self.delay > 0 and -gain > self._slots[EACH, first]:
            tokens = 1.0
            if self._slots[TOKENS, first] > 0.0:
                self._slots[TOKENS, first] -= 1.0
            else:
                self.promised += self.a_surprise
                self.budget += self.a_surprise
        self._slots[NUMBER, first] -= 1.0  # the oldest slot is free
        if self._slots[NUMBER, first] == 0.0:
            self._first += 1
            self._count -= 1
            if self._count > 0:
                self._set_aside += self._slots[TOKENS, first] * self._extra(self._slots[EACH, self._first])
                self._slots[TOKENS, self._first] += self._slots[TOKENS, first]
        else:
            self._set_aside += self._of(first)
        self.budget += gain
        self.heaviest = max(weight, 1.0 + LIGHTER * (self.heaviest - 1.0))
        self._stake(tokens)

    def grow(self, delay):
        """Let labels be later, and promise more."""
        more: cython.longlong = delay - self.delay
        self._slots[NUMBER, self._first] += more
        self._set_aside += self._slots[EACH, self._first] * more
        self.delay = delay
        self.promised += self.a_label * more
        self.budget += self.a_label * more
        self._set(self.staked)

    def share(self, x, z):
        """Return the weight of the score at the log-odds x beside another forecast of log-odds z."""
        ratio: cython.double
        least: cython.double
        stake: cython.double = SLACK * self._share
        if abs(z - x) <= stake:  # neither label can cost more
            return self._prior
        # The score's probability of the label that speaks more against z, relative to that of z.
        if z < x:
            least = 1.0 / (1.0 + exp(-x))
            ratio = (1.0 + exp(-x)) / (1.0 + exp(-z))
        else:
            least = 1.0 / (1.0 + exp(x))
            ratio = (1.0 + exp(x)) / (1.0 + exp(z))
        if least < self.likely:
            stake += SLACK * self._extra_staked * (1.0 - least / self.likely)
        least = exp(-stake)
        if ratio >= least:
            return self._prior
        return max(self._prior, (least - ratio) / (1.0 - ratio))

    def guarded(self, x, z):
        """Return the log-odds of the mixture of the score and the forecast z."""
        return z if z == x else of_two(z, x, self.share(x, z))

    def state(self):
        """[Delay, promised, budget, set aside, slots with their tokens, heaviest weight above 1], for `load`."""
        entries = np.array(self._slots)[:, self._first : self._first + self._count]
        slots = [[each, int(number), int(tokens)] for each, number, tokens in entries.T.tolist()]
        heaviest = [float(self.heaviest)] if self.heaviest > 1.0 else []
        return [self.delay, float(self.promised), float(self.budget), float(self._set_aside), slots, *heaviest]

    def load(self, delay, promised, budget, set_aside, slots, heaviest=1.0):
        """Load an earlier `state`."""
        self.delay, self.promised, self.budget, self.heaviest = delay, promised, budget, heaviest
        self._first = self._count = 0
        self._set_aside = 0.0
        for each, number, tokens in slots:
            self._append(each, number, tokens)
        self._set_aside = set_aside
        self._set(self._slots[EACH, self._count - 1])
