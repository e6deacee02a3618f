# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The step of `Auto` in one call: experts, the stack, the corrections, their weights, and the guard of the score.

Symbols:

    x                        the log-odds of the score
    z                        the log-odds of a forecast
    r                        the weight of an observation, relative to the running mean of all weights
    d                        the lateness: the number of labels learned between a forecast and its label

A record holds what was forecast at one x, at the indices `MIXED` … below, after the log-odds of all experts. A label is
learned from the record of its own forecast, whether that was written just before or long ago.
"""

import cython

if not cython.compiled:
    import math

    from streamcal.kernels.common.fast_path import fast_observation, fast_score
    from streamcal.kernels.common.logistic import log_sigmoid, sigmoid
    from streamcal.kernels.common.weights import WeightScale, steps_of
    from streamcal.kernels.mixture.jumper import Jumper
    from streamcal.kernels.newton.implicit_regression import clamped, fill_line
    from streamcal.kernels.newton.online_newton import log_odds
    from streamcal.kernels.newton.regressions import Regressions

    cos, exp, expm1, log, log1p, power, sin = (
        math.cos,
        math.exp,
        math.expm1,
        math.log,
        math.log1p,
        math.pow,
        math.sin,
    )
    nan = math.nan
else:
    from cython.cimports.libc.math import NAN as nan
    from cython.cimports.libc.math import cos, exp, expm1, log, log1p, sin
    from cython.cimports.libc.math import pow as power
    from cython.cimports.streamcal.kernels.common.fast_path import fast_observation, fast_score
    from cython.cimports.streamcal.kernels.common.logistic import log_sigmoid, sigmoid
    from cython.cimports.streamcal.kernels.common.weights import WeightScale, steps_of
    from cython.cimports.streamcal.kernels.mixture.jumper import Jumper
    from cython.cimports.streamcal.kernels.newton.implicit_regression import clamped, fill_line
    from cython.cimports.streamcal.kernels.newton.online_newton import log_odds
    from cython.cimports.streamcal.kernels.newton.regressions import Regressions

import numpy as np

from streamcal.kernels.tree.venn_abers_curve import draw, fit_line

LARGEST = cython.declare(cython.double, 16.0)
"""The knots lie between log-odds ± this; a score at either end is clamped."""
UNIT = cython.declare(cython.double, 8.0)
"""Knots in a unit of log-odds. Between two, the log-odds of forecasts are linear."""
#: Their number.
KNOTS = 257
FULL = cython.declare(cython.double, 1e100)
"""The unit of a smoother, which grows, is rescaled to 1 when it exceeds this."""
RATE = cython.declare(cython.double, 1e-4)
"""The part of all weight that is shared by the prior again at every step."""
LATE_POWER = cython.declare(cython.double, 0.75)
"""The learning rate of the second row for a label d late is (1 + d)^−¾."""
GROWTH = cython.declare(cython.longlong, 16)
"""The fits to all observations are repeated when their number has grown by a 16th."""
LEAST_KIND = cython.declare(cython.double, 4.0)
"""The Venn-Abers curve is drawn from so much weight of positives and of negatives on; until then it is the line."""
FIRST = cython.declare(cython.int, 10)
"""Number of scores whose mean says where the prior of the regressions is centred."""
NEAR = cython.declare(cython.double, 3.0)
"""Mean log-odds within ± this (probabilities from 0.05 to 0.95) count as 0."""
DAY = cython.declare(cython.double, 86400.0)
TURN = cython.declare(cython.double, 6.283185307179586)
DAYS = cython.declare(cython.int, 4)
WEEKS = cython.declare(cython.int, 3)
"""Harmonics of the day, and of the week, in the correction by time."""

# The indices in φ of the features of a score, after those of a line; means of labels follow them.
SQUARE = cython.declare(cython.Py_ssize_t, 4)
CUBE = cython.declare(cython.Py_ssize_t, 5)
SHOWN = cython.declare(cython.Py_ssize_t, 6)

# The indices in a record after the K experts, K being added.
MIXED = cython.declare(cython.Py_ssize_t, 0)  # the mixture of the experts, which the stack starts from
STACKED = cython.declare(cython.Py_ssize_t, 1)
ROWS = cython.declare(cython.Py_ssize_t, 2)  # the mixture of experts and stack by the weights of each row
BASE = cython.declare(cython.Py_ssize_t, 4)  # by all weights
CORRECTED = cython.declare(cython.Py_ssize_t, 5)
BOTH = cython.declare(cython.Py_ssize_t, 6)  # the mixture of these two
TIMED = cython.declare(cython.Py_ssize_t, 7)  # corrected by the day and the week; `NONE` without a time
ISSUED = cython.declare(cython.Py_ssize_t, 8)  # the forecast
COUNT = cython.declare(cython.Py_ssize_t, 9)  # labels that were learned by then
MEANS = cython.declare(cython.Py_ssize_t, 10)  # means of labels by then

# The columns of the table of repeated scores.
SCORE = cython.declare(cython.Py_ssize_t, 0)
NEGATIVE = cython.declare(cython.Py_ssize_t, 1)
POSITIVE = cython.declare(cython.Py_ssize_t, 2)
TIMES = cython.declare(cython.Py_ssize_t, 3)  # labels since the score has the slot, heavy ones by their weight
LIFE = cython.declare(cython.Py_ssize_t, 4)  # other scores that may come in between

FEWEST_SLOTS = 32
MOST_SLOTS = cython.declare(cython.Py_ssize_t, 512)
"""Slots for repeated scores: at first, and when more than half of them were in use."""
SPREAD = cython.declare(cython.double, 7919.371372)
SPREAD_FROM = cython.declare(cython.double, 17.0)
"""A score x is in the slot of the fraction of (x + 17) · 7919.37…, which spreads scores evenly."""
HELD = cython.declare(cython.double, 2.0)
"""At a repeated score the Venn-Abers curve counts as so many observations."""
COUNT_KEEP = cython.declare(cython.double, 0.999)
"""What is kept of the counts at a score by a label there."""
MOST_LIFE = cython.declare(cython.double, 64.0)
"""After so many labels at other scores of its slot, at most, a score that does not come again has lost it."""
ROUNDING = cython.declare(cython.double, 1e-6)
NONE = cython.declare(cython.double, 64.0)
"""In a record, in place of log-odds that there are none of."""
SLACK = cython.declare(cython.double, 0.995)
"""The part of a stake that the knots use. Between knots the log-odds are linear, which may add a 1/512 of it."""
MANY = cython.declare(cython.Py_ssize_t, 128)
"""From so many scores on, the forecasts at all knots are computed first."""
LEAST_BUDGET = cython.declare(cython.double, 1e-12)
"""Nats that are always left for the next forecast, so that the score never keeps all weight for good."""
LARGE = cython.declare(cython.double, 40.0)
"""With so many nats the prior weight of the score, e⁻⁴⁰, is below rounding: it is 0."""


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _log_odds(positive: cython.double, negative: cython.double) -> cython.double:
    """Return log(positive/negative), clamped; both are at least 0."""
    if positive <= 0.0:
        return -LARGEST
    if negative <= 0.0:
        return LARGEST
    return clamped(log(positive / negative), LARGEST)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _of_two(first: cython.double, second: cython.double, share: cython.double) -> cython.double:
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


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _gain(z: cython.double, y: cython.double) -> cython.double:
    """Return the log-probability of the label y under the log-odds z."""
    return log_sigmoid(z if y > 0.0 else -z)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _likelihood(z: cython.double, y: cython.double) -> cython.double:
    """Return the probability of the label y under the log-odds z."""
    return 1.0 / (1.0 + exp(-z if y > 0.0 else z))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _share_after(
    share: cython.double, prior: cython.double, ratio: cython.double, rate: cython.double
) -> cython.double:
    """Return the weight of the second of two forecasts after a label; `ratio` is that of its probabilities."""
    odds: cython.double = ratio if rate == 1.0 else exp(clamped(rate * log(ratio), 700.0))
    share = share * odds / (1.0 - share + share * odds)
    return (1.0 - RATE) * share + RATE * prior


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _set_harmonics(
    out: cython.double[::1], at: cython.Py_ssize_t, number: cython.int, turn: cython.double
) -> cython.void:
    """Set cos(k·turn) and sin(k·turn), k = 1 … number, by the sum formulas: rounding errors grow with k alone."""
    k: cython.Py_ssize_t
    c: cython.double = cos(turn)
    s: cython.double = sin(turn)
    out[at], out[at + 1] = c, s
    for k in range(at + 2, at + 2 * number, 2):
        out[k] = c * out[k - 2] - s * out[k - 1]
        out[k + 1] = s * out[k - 2] + c * out[k - 1]


@cython.final
@cython.cclass
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
        self.delay = delay
        self.promised = self.budget = constant + a_label * delay
        self._each, self._number, self._tokens = np.zeros(4), np.zeros(4), np.zeros(4)
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
        size: cython.Py_ssize_t = self._each.shape[0]
        last: cython.Py_ssize_t
        if self._first + self._count == size:  # to the front, and into longer arrays if more than half is in use
            moved = np.zeros((3, 2 * size if 2 * self._count >= size else size))
            for row, old in enumerate((self._each, self._number, self._tokens)):
                moved[row, : self._count] = old[self._first :]
            self._each, self._number, self._tokens = moved
            self._first = 0
        last = self._first + self._count
        self._each[last], self._number[last], self._tokens[last] = each, number, tokens
        self._count += 1
        self._set_aside += self._of(last)

    def _of(self, entry):
        """Return what is set aside for an entry."""
        return self._each[entry] * self._number[entry] + self._tokens[entry] * self._extra(self._each[entry])

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
            if stake <= self._each[last]:
                break
            self._count -= 1
            self._set_aside -= self._of(last)
            slots += self._number[last]
            tokens += self._tokens[last]
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
        self.staked = stake
        self._extra_staked = self._extra(stake) if self.delay > 0 else 0.0
        self._prior = exp(-self.budget) if self.budget < LARGE else 0.0

    def learn(self, gain):
        """Book what the forecast has gained on the score by a label, in nats."""
        tokens: cython.double = 0.0
        first: cython.Py_ssize_t = self._first
        self._set_aside -= self._of(first)
        if self.delay > 0 and -gain > self._each[first]:
            tokens = 1.0
            if self._tokens[first] > 0.0:
                self._tokens[first] -= 1.0
            else:
                self.promised += self.a_surprise
                self.budget += self.a_surprise
        self._number[first] -= 1.0  # the oldest slot is free
        if self._number[first] == 0.0:
            self._first += 1
            self._count -= 1
            if self._count > 0:
                self._set_aside += self._tokens[first] * self._extra(self._each[self._first])
                self._tokens[self._first] += self._tokens[first]
        else:
            self._set_aside += self._of(first)
        self.budget += gain
        self._stake(tokens)

    def grow(self, delay):
        """Let labels be later, and promise more."""
        more: cython.longlong = delay - self.delay
        self._number[self._first] += more
        self._set_aside += self._each[self._first] * more
        self.delay = delay
        self.promised += self.a_label * more
        self.budget += self.a_label * more
        self._set(self.staked)

    def share(self, x, z):
        """Return the weight of the score at the log-odds x beside another forecast of log-odds z."""
        ratio: cython.double
        least: cython.double
        stake: cython.double = SLACK * self.staked
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
        return z if z == x else _of_two(z, x, self.share(x, z))

    def state(self):
        """[Delay, promised, budget, set aside, slots with their tokens] as plain data, for `load`."""
        entries = np.array([self._each, self._number, self._tokens])[:, self._first : self._first + self._count]
        slots = [[each, int(number), int(tokens)] for each, number, tokens in entries.T.tolist()]
        return [self.delay, float(self.promised), float(self.budget), float(self._set_aside), slots]

    def load(self, delay, promised, budget, set_aside, slots):
        """Load an earlier `state`."""
        self.delay, self.promised, self.budget = delay, promised, budget
        self._first = self._count = 0
        self._set_aside = 0.0
        for each, number, tokens in slots:
            self._append(each, number, tokens)
        self._set_aside = set_aside
        self._set(self._each[self._count - 1])


@cython.final
@cython.cclass
class AutoMixture:
    """Experts, a stack upon them, corrections, and their weights.

    The experts are, in this order: the score; a line fitted to all observations; regressions; smoothers; the Venn-Abers
    curve of all observations; the `Jumper`; means of the labels at scores that repeat. Regressions and smoothers learn
    with every label; the fits to all observations are repeated when their number has grown by a 16th.

    Parameters
    ----------
    regressions : Plan
        Their features are those of the score (`FEATURES`), followed by a mean of the labels ±1 for each of
        `label_rates`.
    smoothers : array of shape (smoothers, 2)
        Half width in log-odds, growth of the unit, which is m/(m − 1) for a memory of m observations. At a knot a
        smoother forecasts (2p + Σ Kᵢyᵢ) / (2 + Σ Kᵢ), p being the forecast of the line, and K = (1 − u²)² the weight of
        an observation at u half widths.
    jumper : Jumper
    label_rates : array
    line : tuple of float
        The precisions of slope and offset of the line.
    prior : array of shape (K + 1,)
        The prior weights of the experts and of the stack, which sum to 1.
    stack : Plan
        Of the mixture of the experts, each expert, and a constant.
    correction : Correction
    corrections : tuple of float
        The prior weights of the correction by the forecast, and of that by day and week.
    timed : Plan
        Of the correction by day and week, which begins with the first time.
    guard : Guard
    """

    def __init__(
        self,
        *,
        regressions,
        smoothers,
        jumper: Jumper,
        label_rates,
        line,
        prior,
        stack,
        correction,
        corrections,
        timed,
        guard,
    ):
        self._regressions, self._smoothers, self._means = regressions.number, len(smoothers), len(label_rates)
        self.size = 5 + self._regressions + self._smoothers
        if len(prior) != self.size + 1:
            raise ValueError(f"{len(prior)} prior weights are not {self.size + 1}")
        self.regressions = Regressions(regressions)
        self.width = self.size + MEANS + self._means
        self._kinds, self._rates = smoothers, label_rates
        self.jumper, self.stack, self.correction = jumper, Regressions(stack), correction
        self.timed, self._timed_plan = None, timed
        self.guard, self.scale = guard, WeightScale()
        self._knots = KNOTS
        self._cut(
            np.zeros(SHOWN + 2 * self._means + self._smoothers + self._knots + 4 + 2 + 4 * self.size + 4 + self.width)
        )
        self._timely = None
        self.sums, self.whole = np.zeros((self._smoothers, 2, self._knots)), np.zeros((2, self._knots))
        self._line_precisions, self._line_prior, self._off_centre = line, (line[0], 0.0, line[1]), False
        self.learned, self.weight, self.due, self.drawn, self.first = 0, 0.0, 0, False, (0, 0.0)
        self._prior = prior
        self.shares = np.array([prior, prior])
        self.late = False
        self._corrected_prior, self._by_time_prior = self.corrected, self.by_time = corrections
        self._sides = np.zeros((3, self.width))
        self._spot, self._known = nan, 0
        self._lengthen(FEWEST_SLOTS, np.zeros((0, 5)))
        self._knot = -1
        self._weigh()

    def _cut(self, block: cython.double[::1]):
        """Set the small arrays, which are parts of one: each array apart takes 0.4 kB more."""
        k: cython.Py_ssize_t
        at: cython.Py_ssize_t = SHOWN + self._means
        self._phi = block[:at]
        self.means, at = block[at : at + self._means], at + self._means
        self.units, at = block[at : at + self._smoothers], at + self._smoothers
        self.curve, at = block[at : at + self._knots], at + self._knots
        self.line, at = block[at : at + 4], at + 4
        self.wealth, at = block[at : at + 2], at + 2
        self._features, at = block[at : at + self.size + 2], at + self.size + 2
        self._weights, at = block[at : at + self.size + 1], at + self.size + 1
        self._gains, at = block[at : at + self.size + 1], at + self.size + 1
        self._record = block[at : at + self.width]
        for k in range(self._smoothers):
            self.units[k] = 1.0
        self._features[self.size + 1] = 1.0
        self.line[0], self.line[2], self.line[3] = 1.0, -6.0, 6.0

    # -- forecasts -----------------------------------------------------------------------------------------------

    def _forecast(self, knot, side):
        """Set a side to what is forecast at a knot."""
        k: cython.Py_ssize_t
        place: cython.Py_ssize_t = 2 + self._regressions
        x: cython.double = knot / UNIT - LARGEST
        u: cython.double = 0.25 * x if -LARGEST < x < LARGEST else 0.0
        z: cython.double
        p: cython.double
        self._sides[side, 0] = x
        if knot == 0 or knot == self._knots - 1:
            z = self.line[2] if knot == 0 else self.line[3]
        else:
            z = clamped(self.line[0] * x + self.line[1], LARGEST)
        self._sides[side, 1] = z
        fill_line(self._phi, x)
        self._phi[SQUARE], self._phi[CUBE] = u * u, u * u * u
        for k in range(self._means):
            self._phi[SHOWN + k] = self.means[k]
        for k in range(self._regressions):
            self._sides[side, 2 + k] = clamped(self.regressions.predict(k, self._phi), LARGEST)
        p = sigmoid(z)
        for k in range(self._smoothers):
            self._sides[side, place + k] = _log_odds(
                2.0 * p + self.sums[k, 1, knot] / self.units[k],
                2.0 * (1.0 - p) + self.sums[k, 0, knot] / self.units[k],
            )
        self._sides[side, self.size - 3] = self._sides[side, self.size - 1] = self.curve[knot] if self.drawn else z
        p = self.jumper.predict(x)
        self._sides[side, self.size - 2] = _log_odds(p, 1.0 - p)
        self._combine(side)

    def _combine(self, side):
        """Set the rest of a side from what the experts forecast."""
        k: cython.Py_ssize_t
        x: cython.double = self._sides[side, 0]
        z: cython.double
        e: cython.double
        p: cython.double
        positive: cython.double = 0.0
        negative: cython.double = 0.0
        for k in range(self.size):
            e = exp(-self._sides[side, k])
            p = self._weights[k] / (1.0 + e)
            positive += p
            negative += e * p
        z = log(positive / negative)
        self._sides[side, self.size + MIXED] = self._features[0] = z
        for k in range(self.size):
            self._features[1 + k] = self._sides[side, k]
        z = clamped(self.stack.predict(0, self._features), LARGEST)
        self._sides[side, self.size + STACKED] = z
        e = exp(-z)
        p = self._weights[self.size] / (1.0 + e)
        positive += p
        negative += e * p
        z = log(positive / negative)
        self._sides[side, self.size + BASE] = z
        z = clamped(z + self.correction.at(z), LARGEST)
        self._sides[side, self.size + CORRECTED] = z
        e = exp(-z)
        p = self.corrected / (1.0 + e)
        positive = (1.0 - self.corrected) * positive + p
        negative = (1.0 - self.corrected) * negative + e * p
        z = log(positive / negative)
        self._sides[side, self.size + BOTH] = z
        share: cython.double = self.guard.share(x, z)
        if share > 0.0:
            e = exp(-x)
            p = share / (1.0 + e)
            z = log(((1.0 - share) * positive + p) / ((1.0 - share) * negative + e * p))
        self._sides[side, self.size + ISSUED] = z

    def _look(self, x):
        """Set both sides to what is forecast at the knots beside x; the knot on its left."""
        knot: cython.Py_ssize_t = min(cython.cast(cython.Py_ssize_t, (x + LARGEST) * UNIT), self._knots - 2)
        if knot != self._knot:
            self._forecast(knot, 0)
            self._forecast(knot + 1, 1)
            self._knot = knot
        return knot

    def _between(self, index, share):
        """Return what is forecast between the knots."""
        return (1.0 - share) * self._sides[0, index] + share * self._sides[1, index]

    def _look_at(self, x):
        """Set the third side to what is forecast at x, if that is a score that has come before; whether it is."""
        k: cython.Py_ssize_t
        share: cython.double = (x + LARGEST) * UNIT - self._look(x)
        p: cython.double
        slot: cython.Py_ssize_t = self._slot(x)
        if self.repeated[slot, SCORE] != x or self.repeated[slot, TIMES] < 2.0:
            return False
        if self._spot != x:
            for k in range(self.size):
                self._sides[2, k] = self._between(k, share)
            self._sides[2, 0] = x
            p = sigmoid(self._sides[2, self.size - 1])
            self._sides[2, self.size - 1] = _log_odds(
                HELD * p + self.repeated[slot, POSITIVE], HELD * (1.0 - p) + self.repeated[slot, NEGATIVE]
            )
            self._combine(2)
            self._spot = x
        return True

    def _slot(self, x):
        """Where a score is in the table of repeated scores, if it is there."""
        place: cython.double = (x + SPREAD_FROM) * SPREAD
        place -= cython.cast(cython.longlong, place)
        return cython.cast(cython.Py_ssize_t, place * self.repeated.shape[0])

    def at(self, x, t):
        """Return the log-odds of the forecast at the log-odds x and the time t, NaN for none."""
        share: cython.double = (x + LARGEST) * UNIT - self._look(x)
        known: cython.bint = self._look_at(x)
        if t == t and self.timed is not None:
            both: cython.double = self._sides[2, self.size + BOTH] if known else self._between(self.size + BOTH, share)
            timed: cython.double = self._timed_at(x, both, t)
            return self.guard.guarded(x, _of_two(both, timed, self.by_time))
        return self._sides[2, self.size + ISSUED] if known else self._between(self.size + ISSUED, share)

    def knots(self):
        """Return the log-odds of the forecasts at all knots."""
        found = np.zeros(self._knots)
        for knot in range(self._knots):
            self._forecast(knot, 0)
            found[knot] = self._sides[0, self.size + ISSUED]
        self._knot, self._spot = -1, nan
        return found

    def scores(self):
        """Return the log-odds of the scores that have come before, as far as they are in the table; in order."""
        known = np.asarray(self.repeated)
        return np.sort(known[known[:, TIMES] >= 2.0, SCORE])

    def curve_at(self):
        """Return log-odds in order and those of the forecasts there: at knots, repeated scores, and beside these."""
        own = self.scores()
        knots = np.arange(self._knots) / UNIT - LARGEST
        beside = np.concatenate([np.nextafter(own, -np.inf), np.nextafter(own, np.inf)])
        x = np.unique(np.concatenate([knots, own, beside[np.abs(beside) <= LARGEST]]))
        return x, np.array([self.at(one, nan) for one in x.tolist()])

    def write(self, x, t, out):
        """Write the record of the forecast at the log-odds x and the time t to `out`, of `width` numbers."""
        k: cython.Py_ssize_t
        share: cython.double = (x + LARGEST) * UNIT - self._look(x)
        both: cython.double
        if self._look_at(x):
            for k in range(self.size + COUNT):
                out[k] = self._sides[2, k]
        else:
            for k in range(self.size + COUNT):
                out[k] = self._between(k, share)
        out[0] = x
        if self.late:
            self._write_rows(out)
        else:
            out[self.size + ROWS] = out[self.size + ROWS + 1] = out[self.size + BASE]
        out[self.size + TIMED] = NONE
        if t == t and self.timed is not None:
            both = out[self.size + BOTH]
            out[self.size + TIMED] = self._timed_at(x, both, t)
            out[self.size + ISSUED] = self.guard.guarded(x, _of_two(both, out[self.size + TIMED], self.by_time))
        out[self.size + COUNT] = self.learned
        for k in range(self._means):
            out[self.size + MEANS + k] = self.means[k]

    def _write_rows(self, out):
        """Write what each row of weights forecasts, from the experts' forecasts in `out`."""
        k: cython.Py_ssize_t
        e: cython.double
        p: cython.double
        first: cython.double = 0.0  # the probability of a positive label by each row
        second: cython.double = 0.0
        not_first: cython.double = 0.0
        not_second: cython.double = 0.0
        for k in range(self.size + 1):
            e = exp(-out[k if k < self.size else k + STACKED])
            p = 1.0 / (1.0 + e)
            first += self.shares[0, k] * p
            second += self.shares[1, k] * p
            not_first += self.shares[0, k] * e * p
            not_second += self.shares[1, k] * e * p
        out[self.size + ROWS] = log(first / not_first)
        out[self.size + ROWS + 1] = log(second / not_second)

    def _show_time(self, x, both, t):
        """Set the features of the correction by day and week."""
        turn: cython.double = TURN * (t / DAY % 7.0)
        self._timely[0], self._timely[1], self._timely[2] = both, x, 1.0
        _set_harmonics(self._timely, 3, DAYS, turn)
        _set_harmonics(self._timely, 3 + 2 * DAYS, WEEKS, turn / 7.0)

    def _timed_at(self, x, both, t):
        """Return the log-odds of the forecast, corrected by day and week."""
        self._show_time(x, both, t)
        return clamped(self.timed.predict(0, self._timely), LARGEST)

    # -- learning ------------------------------------------------------------------------------------------------

    def learn(self, x, y, w, t, issued, late):
        """Learn the label y at the log-odds x and the time t, with weight w > 0, from the record of its forecast.

        `late` is the number of labels learned since. Without a record, None, the present forecast is in its place. A
        label of relative weight r > 1 is learned in ⌈r⌉ equal steps, 32 at most; the guard books it once.
        """
        r: cython.double
        if issued is None:
            self.write(x, t, self._record)
            issued = self._record
        if late > 0.0 and not self.late:
            self._split()
        if t == t and self.timed is None:
            self.begin_times()
        r = self.scale.relative(w)
        gain: cython.double = r * (_gain(issued[self.size + ISSUED], y) - _gain(x, y))
        steps: cython.Py_ssize_t = steps_of(r)
        self._see(x)
        self._learn_once(x, y, r / steps, t, issued, late)
        for _ in range(1, steps):
            self._knot, self._spot = -1, nan
            self.write(x, t, self._record)
            self._learn_once(x, y, r / steps, t, self._record, 0.0)
        self.jumper.step(x, y, w)
        self._learn_others(x, y, r)
        self._count(x, y, r)
        self.weight += w
        self.learned += 1
        if self.learned >= self.due:
            self._refit()
        self.guard.learn(gain)
        self._knot, self._spot = -1, nan

    def _learn_once(self, x, y, w, t, issued, late):
        """One step of what learns by steps: weights, the stack, corrections, regressions and means of labels."""
        k: cython.Py_ssize_t
        u: cython.double = 0.25 * x if -LARGEST < x < LARGEST else 0.0
        self._learn_shares(y, w, issued, late)
        self._features[0] = issued[self.size + MIXED]
        for k in range(self.size):
            self._features[1 + k] = issued[k]
        self.stack.learn(0, self._features, y, w)
        self.correction.learn(issued[self.size + BASE], issued[self.size + BASE], y, w)
        if t == t:
            self._show_time(x, issued[self.size + BOTH], t)
            self.timed.learn(0, self._timely, y, w)
        fill_line(self._phi, x)
        self._phi[SQUARE], self._phi[CUBE] = u * u, u * u * u
        for k in range(self._means):
            self._phi[SHOWN + k] = issued[self.size + MEANS + k]
        for k in range(self._regressions):
            self.regressions.learn(k, self._phi, y, w)
        for k in range(self._means):
            u = self._rates[k] if w == 1.0 else -expm1(w * log1p(-self._rates[k]))
            self.means[k] += u * (2.0 * y - 1.0 - self.means[k])

    def _split(self):
        """Weight in two rows, since labels are late: they differ in the learning rate."""
        self.late = True
        self.shares[1, :] = self.shares[0, :]
        self.wealth[0] = self.wealth[1] = 0.0

    def begin_times(self):
        """Begin the correction by day and week."""
        self.timed = Regressions(self._timed_plan)
        self._timely = np.zeros(3 + 2 * (DAYS + WEEKS))

    def _learn_shares(self, y, w, issued, late):
        """Update all weights by the log-probabilities that forecasts gave to the label."""
        k: cython.Py_ssize_t
        best: cython.double = 0.0
        rate: cython.double = w * power(1.0 + late, -LATE_POWER) if late > 0.0 else w
        for k in range(self.size + 1):
            self._gains[k] = _likelihood(issued[k if k < self.size else k + STACKED], y)
            best = max(best, self._gains[k])
        for k in range(self.size + 1):
            self._gains[k] /= best
        self._multiply(0, w)
        if self.late:
            self._multiply(1, rate)
            w /= 1.0 + late
            self.wealth[0] += w * _gain(issued[self.size + ROWS], y)
            self.wealth[1] += w * _gain(issued[self.size + ROWS + 1], y)
            best = max(self.wealth[0], self.wealth[1])
            self.wealth[0] -= best
            self.wealth[1] -= best
        best = _likelihood(issued[self.size + CORRECTED], y) / _likelihood(issued[self.size + BASE], y)
        self.corrected = _share_after(self.corrected, self._corrected_prior, best, rate)
        if issued[self.size + TIMED] != NONE:
            best = _likelihood(issued[self.size + TIMED], y) / _likelihood(issued[self.size + BOTH], y)
            self.by_time = _share_after(self.by_time, self._by_time_prior, best, rate)
        self._weigh()

    def _multiply(self, row, rate):
        """Multiply a row of weights by the probabilities of a label to a power, and share a part of it by the prior."""
        k: cython.Py_ssize_t
        total: cython.double = 0.0
        for k in range(self.size + 1):
            self.shares[row, k] *= self._gains[k] if rate == 1.0 else power(self._gains[k], rate)
            total += self.shares[row, k]
        total = (1.0 - RATE) / total
        for k in range(self.size + 1):
            self.shares[row, k] = total * self.shares[row, k] + RATE * self._prior[k]

    def _weigh(self):
        """Set the weights of the experts and the stack in the forecast."""
        k: cython.Py_ssize_t
        second: cython.double = 0.0
        if self.late:
            second = 1.0 / (1.0 + exp(clamped(self.wealth[0] - self.wealth[1], 700.0)))
        for k in range(self.size + 1):
            self._weights[k] = (1.0 - second) * self.shares[0, k] + second * self.shares[1, k]

    def _learn_others(self, x, y, w):
        """Update the smoothers and the sums over all observations."""
        b: cython.Py_ssize_t
        k: cython.Py_ssize_t
        first: cython.Py_ssize_t
        last: cython.Py_ssize_t
        side: cython.Py_ssize_t = 1 if y > 0.0 else 0
        u: cython.double
        place: cython.double = (x + LARGEST) * UNIT
        for b in range(self._smoothers):
            self.units[b] *= self._kinds[b, 1]
            if self.units[b] > FULL:
                for k in range(self._knots):
                    self.sums[b, 0, k] /= self.units[b]
                    self.sums[b, 1, k] /= self.units[b]
                self.units[b] = 1.0
            first = max(0, cython.cast(cython.Py_ssize_t, place - self._kinds[b, 0] * UNIT))
            last = min(self._knots - 1, cython.cast(cython.Py_ssize_t, place + self._kinds[b, 0] * UNIT) + 1)
            scale: cython.double = 1.0 / (UNIT * self._kinds[b, 0])
            weight: cython.double = w * self.units[b]
            for k in range(first, last + 1):
                u = (k - place) * scale
                u = 1.0 - u * u
                if u > 0.0:
                    self.sums[b, side, k] += weight * u * u
        k = min(cython.cast(cython.Py_ssize_t, place), self._knots - 2)
        self.whole[side, k] += w * (1.0 - (place - k))
        self.whole[side, k + 1] += w * (place - k)

    def _count(self, x, y, w):
        """Count the label at its score.

        A slot belongs to one score. Another one takes it when it has come more often since than its owner.
        """
        slot: cython.Py_ssize_t = self._slot(x)
        one = self.repeated
        if one[slot, SCORE] != x:
            one[slot, LIFE] -= 1.0
            if one[slot, LIFE] > 0.0:
                return
            if one[slot, TIMES] >= 2.0:
                self._known -= 1
            one[slot, SCORE], one[slot, NEGATIVE], one[slot, POSITIVE], one[slot, TIMES] = x, 0.0, 0.0, 0.0
        known: cython.bint = one[slot, TIMES] >= 2.0
        one[slot, NEGATIVE] *= COUNT_KEEP
        one[slot, POSITIVE] *= COUNT_KEEP
        one[slot, POSITIVE if y > 0.0 else NEGATIVE] += w
        one[slot, TIMES] += max(w, 1.0)
        one[slot, LIFE] = min(one[slot, TIMES], MOST_LIFE)
        if not known and one[slot, TIMES] >= 2.0:
            self._known += 1
            if 2 * self._known > one.shape[0] and one.shape[0] < MOST_SLOTS:
                self._lengthen(2 * one.shape[0], np.array(one))

    def _lengthen(self, size, entries):
        """Put entries into a table of another size."""
        self.repeated = np.zeros((size, 5))
        self.repeated[:, SCORE] = nan
        for entry in entries[entries[:, TIMES] > 0.0]:
            np.asarray(self.repeated)[self._slot(entry[SCORE])] = entry
        self._known = int((np.asarray(self.repeated)[:, TIMES] >= 2.0).sum())

    def _see(self, x):
        """Centre the prior of the regressions by the mean of the first scores."""
        number, total = self.first
        if number >= FIRST:
            return
        self.first = (number + 1, total + x)
        self.hold()

    def hold(self):
        """Hold the offsets of the regressions where the first scores are, if they are far from log-odds 0.

        With the mean m of the first ten scores beyond ±3, the prior is centred on m − 9/m. Only before regressions have
        learned much: their curvature starts again.
        """
        number, total = self.first
        middle = total / number if number else 0.0
        far = abs(middle) > NEAR
        centre = middle - NEAR * NEAR / middle if far else 0.0
        slope, offset = self._line_precisions
        self._line_prior = (slope + offset * centre * centre, offset * centre, offset)
        if not far and not self._off_centre:
            return
        phi = np.asarray(self._phi)
        phi[:] = 0.0
        phi[1] = 1.0
        if far:
            fill_line(self._phi, centre)
            u = 0.25 * centre
            phi[SQUARE], phi[CUBE] = u * u, u * u * u
        self.regressions.hold(phi, 1)
        self._off_centre = far

    def _refit(self):
        """Fit the line and the Venn-Abers curve to the sums over all observations."""
        sums = np.asarray(self.whole)
        last = self._knots - 1
        slope, offset = fit_line(self.whole, self.line[0], self.line[1], self._line_prior)
        low = _log_odds(sums[1, 0] + 0.002, sums[0, 0] + 0.998)
        high = _log_odds(sums[1, last] + 0.998, sums[0, last] + 0.002)
        self.line[0], self.line[1], self.line[2], self.line[3] = slope, offset, low, high
        if sums[0].sum() >= LEAST_KIND and sums[1].sum() >= LEAST_KIND:
            draw(self.whole, self.curve)
            self.drawn = True
        self.due = self.learned + max(1, self.learned // GROWTH)

    # -- weights and state ---------------------------------------------------------------------------------------

    def weights(self):
        """Return the weights of the experts and the stack, and of both corrections, each in what it corrects."""
        return np.array(self._weights).tolist(), self.corrected, self.by_time

    def state(self):
        """Everything learned, as plain data, for `load`."""
        return {
            "learned": [self.learned, float(self.weight), self.due, self.drawn, *self.first],
            "regressions": self.regressions.state(),
            "stack": self.stack.state(),
            "correction": self.correction.state(),
            "timed": None if self.timed is None else self.timed.state(),
            "jumper": list(self.jumper.state()),
            "means": np.asarray(self.means).tolist(),
            "units": np.asarray(self.units).tolist(),
            "sums": np.asarray(self.sums).tolist(),
            "whole": np.asarray(self.whole).tolist(),
            "curve": np.asarray(self.curve).tolist(),
            "line": np.asarray(self.line).tolist(),
            "shares": np.asarray(self.shares).tolist(),
            "wealth": np.asarray(self.wealth).tolist(),
            "late": self.late,
            "corrected": [self.corrected, self.by_time],
            "repeated": np.asarray(self.repeated)[np.asarray(self.repeated)[:, TIMES] > 0.0].tolist(),
            "slots": self.repeated.shape[0],
            "guard": self.guard.state(),
            "scale": self.scale.state(),
        }

    def load(self, state):
        """Load an earlier `state` into a new mixture."""
        self.learned, self.weight, self.due, self.drawn, *first = state["learned"]
        self.first = tuple(first)
        if self.first[0]:
            self.hold()
        self.regressions.load(*state["regressions"])
        self.stack.load(*state["stack"])
        self.correction.load(*state["correction"])
        if state["timed"] is not None:
            self.begin_times()
            self.timed.load(*state["timed"])
        self.jumper.load(*state["jumper"])
        own = {
            "means": self.means,
            "units": self.units,
            "sums": self.sums,
            "whole": self.whole,
            "curve": self.curve,
            "line": self.line,
            "shares": self.shares,
            "wealth": self.wealth,
        }
        for name, array in own.items():
            np.asarray(array)[...] = state[name]
        self.late = state["late"]
        self.corrected, self.by_time = state["corrected"]
        self.guard.load(*state["guard"])
        self.scale.load(*state["scale"])
        self._lengthen(state["slots"], np.array(state["repeated"]).reshape(-1, 5))
        self._weigh()
        self._knot, self._spot = -1, nan


@cython.final
@cython.cclass
class AutoSteps:
    """An `AutoMixture`, and a log of the forecasts that were asked for, by which a late label finds its own record.

    A forecast is logged when another one follows it, or a label that is not its own: where each label follows its
    forecast there is nothing to log. The log is not part of the state. It is emptied, and nothing logged until the next
    label, after `most` forecasts without a label.

    Parameters
    ----------
    mixture : AutoMixture
    most : int
        Number of forecasts that are logged at most.
    finds : bool
        Whether the guard's delay grows to the lateness of labels.
    """

    def __init__(self, mixture: AutoMixture, most: cython.longlong, finds: cython.bint):
        self.mixture, self._most, self._finds = mixture, most, finds
        self._scores, self._records = np.zeros(0), np.zeros((0, mixture.width))
        self._logs = True
        self._forget()

    def _forget(self):
        """Empty the log."""
        self._first = self._logged = 0
        self._unlabelled = 0
        self._asked = False

    def stop_logging(self):
        """Log nothing from now on but the last forecast, since the caller keeps the records."""
        self._logs = False
        self._forget()

    def ask(self, x, t):
        """Note that the forecast at the log-odds x and the time t is asked for."""
        if self._logs and self._unlabelled > self._most:
            return
        if self._asked:
            self._keep()
        if not self._logs:
            self._asked, self._x, self._t = True, x, t
            return
        self._unlabelled += 1
        if self._unlabelled > self._most:
            self._forget()
            self._unlabelled = self._most + 1
            return
        self._asked, self._x, self._t = True, x, t

    def _keep(self):
        """Log the forecast that was asked for last, unless nothing is logged."""
        size: cython.Py_ssize_t = self._scores.shape[0]
        if not self._logs:
            self._asked = False
            return
        if self._logged == size:
            if size < self._most:
                self._lengthen(min(self._most, size + size // 4 + 8))
                size = self._scores.shape[0]
            else:
                self._drop()
        place: cython.Py_ssize_t = (self._first + self._logged) % size
        self._scores[place] = self._x
        self.mixture.write(self._x, self._t, self._records[place])
        self._asked = False
        self._logged += 1

    def _lengthen(self, size):
        """Have room for more forecasts."""
        order = (self._first + np.arange(self._logged)) % max(self._logged, 1)
        scores, records = np.zeros(size), np.zeros((size, self.mixture.width))
        scores[: self._logged] = np.asarray(self._scores)[order]
        records[: self._logged] = np.asarray(self._records)[order]
        self._scores, self._records, self._first = scores, records, 0

    def _drop(self):
        """Drop the oldest forecast, and what was labelled of those after it."""
        while self._logged > 0:
            self._first = (self._first + 1) % self._scores.shape[0]
            self._logged -= 1
            if self._scores[self._first] == self._scores[self._first]:
                break

    def _taken(self, x):
        """Take the oldest forecast at x out of the log: its place in `_records`, −1 where there is none."""
        i: cython.Py_ssize_t
        size: cython.Py_ssize_t = self._scores.shape[0]
        place: cython.Py_ssize_t = self._first
        for i in range(self._logged):
            if self._scores[place] == x:
                self._scores[place] = nan  # until those before it are labelled or dropped
                if i == 0:
                    self._drop()
                return place
            place = place + 1 if place + 1 < size else 0
        return -1

    def step(self, x, y, w, t):
        """Learn the label y at the log-odds x and the time t, with weight w > 0."""
        place: cython.Py_ssize_t = -1
        if self._asked and self._logged == 0 and self._x == x:
            self._asked = False
            self.mixture.learn(x, y, w, t, None, 0.0)
        else:
            if self._asked:
                self._keep()
            place = self._taken(x)
            if place >= 0:
                self.learn_issued(x, y, w, t, self._records[place])
            else:
                self.mixture.learn(x, y, w, t, None, self.mixture.guard.delay)
        self._unlabelled = 0

    def skip(self, x):
        """Take the oldest forecast at x out of the log: its label has weight 0."""
        if self._asked and self._logged == 0 and self._x == x:
            self._asked = False
            return
        if self._asked:
            self._keep()
        self._taken(x)

    def require(self, record: cython.const[cython.double][::1]):
        """Raise `ValueError` for numbers that are no record of a forecast of this mixture."""
        i: cython.Py_ssize_t
        place: cython.Py_ssize_t = self.mixture.size + COUNT
        if record.shape[0] != self.mixture.width:
            raise ValueError(f"{record.shape[0]} numbers are not {self.mixture.width}")
        for i in range(place):
            if not abs(record[i]) <= LARGEST + ROUNDING and not (i == place - COUNT + TIMED and record[i] == NONE):
                raise ValueError(f"number {i} is {record[i]}, not log-odds from -16 to 16")
        if not 0.0 <= record[place] <= self.mixture.learned or record[place] % 1.0 != 0.0:
            raise ValueError(f"{record[place]} labels were learned by then, and {self.mixture.learned} are by now")
        for i in range(place + 1, self.mixture.width):
            if not abs(record[i]) <= 1.0 + ROUNDING:
                raise ValueError(f"the mean of labels in number {i} is {record[i]}, not from -1 to 1")

    def learn_issued(self, x, y, w, t, record):
        """Learn a label from the record of its forecast, an array of `width` numbers."""
        late: cython.longlong = self.mixture.learned - cython.cast(cython.longlong, record[self.mixture.size + COUNT])
        guard: Guard = self.mixture.guard
        if self._finds and late > guard.delay:
            guard.grow(min(late, guard.delay + 1 + guard.delay // 8))
        if late == 0:  # what was forecast then is forecast now
            self.mixture.learn(x, y, w, t, None, 0.0)
        else:
            self.mixture.learn(x, y, w, t, record, late)

    def predict_fast(self, score, t):
        """Return the probability at `score`, a float in [0, 1], and the time t; NaN for anything else."""
        x: cython.double
        if not fast_score(score, 0.0, 1.0):
            return nan
        x = log_odds(score, LARGEST)
        self.ask(x, t)
        return sigmoid(self.mixture.at(x, t))

    def learn_fast(self, score, y, w, t):
        """`step` for a float in [0, 1] that is not clamped, a bool, a float weight and a time; whether it was."""
        x: cython.double
        if not fast_observation(score, y, w, 0.0, 1.0):
            return False
        x = log_odds(score, LARGEST)
        if not -LARGEST < x < LARGEST:
            return False
        self.step(x, 1.0 if y is True else 0.0, w, t)
        return True

    def predict_many(self, x: cython.const[cython.double][::1], t: cython.double, out: cython.double[::1]):
        """Write the probability at each of the log-odds x and the time t to `out`."""
        i: cython.Py_ssize_t
        knot: cython.Py_ssize_t
        share: cython.double
        for i in range(x.shape[0]):
            self.ask(float(x[i]), t)
        if x.shape[0] < MANY or (t == t and self.mixture.timed is not None):
            for i in range(x.shape[0]):
                out[i] = sigmoid(self.mixture.at(float(x[i]), t))
            return
        knots: cython.double[::1] = self.mixture.knots()
        for i in range(x.shape[0]):
            if self.mixture._look_at(float(x[i])):
                out[i] = sigmoid(self.mixture._sides[2, self.mixture.size + ISSUED])
                continue
            share = (x[i] + LARGEST) * UNIT
            knot = min(cython.cast(cython.Py_ssize_t, share), knots.shape[0] - 2)
            share -= knot
            out[i] = sigmoid((1.0 - share) * knots[knot] + share * knots[knot + 1])

    def stream(
        self,
        x: cython.const[cython.double][::1],
        y: cython.const[cython.double][::1],
        w: cython.const[cython.double][:],
        t: cython.const[cython.double][::1],
        predictions: cython.double[::1],
    ):
        """Predict, unless `predictions` is empty, and then `step`, for each row; weight 0 makes no step."""
        i: cython.Py_ssize_t
        n: cython.Py_ssize_t = x.shape[0]
        predicts: cython.bint = predictions.shape[0] > 0
        if not n == y.shape[0] == w.shape[0] == t.shape[0] or (predicts and predictions.shape[0] != n):
            raise ValueError("lengths differ")
        for i in range(n):
            if predicts:
                self.ask(float(x[i]), float(t[i]))
                predictions[i] = sigmoid(self.mixture.at(float(x[i]), float(t[i])))
            if w[i] > 0.0:
                self.step(float(x[i]), float(y[i]), float(w[i]), float(t[i]))
            elif predicts:
                self.skip(float(x[i]))
