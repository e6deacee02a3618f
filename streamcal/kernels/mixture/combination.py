# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""From the forecasts of the experts of `Auto` to its own: weights, stack, correction by the forecast, and the record.

Symbols:

    x                        the log-odds of the score
    z                        the log-odds of a forecast
    d                        the lateness: the number of labels learned between a forecast and its label
"""

import cython
import numpy as np
from cython.cimports.libc.math import exp, log
from cython.cimports.libc.math import pow as power
from cython.cimports.streamcal.kernels.common.logistic import log_sigmoid
from cython.cimports.streamcal.kernels.mixture.guard import Guard
from cython.cimports.streamcal.kernels.mixture.knot_sums import LARGEST
from cython.cimports.streamcal.kernels.newton.implicit_regression import Correction, clamped
from cython.cimports.streamcal.kernels.newton.regressions import Regressions

RATE, RARE_RATE = cython.declare(cython.double, 1e-4), cython.declare(cython.double, 6e-3)
"""The part of all weight that the prior shares out again at a label is `RATE`, or `RARE_RATE` · p (1 − p) if less, p
being the forecast. Below 1.7 %, so few labels say anything about the weights that `RATE` would undo it."""

# The record of a forecast: what was forecast at one score, in log-odds, until its label comes. The log-odds of the K
# experts come first, that of the score at the front. The indices here, K being added, follow.
MIXED = 0  # the mixture of the experts, which the stack starts from
STACKED = 1
ROWS = 2  # the mixture of experts and stack by the weights of each row
BASE = 4  # by all weights
CORRECTED = 5
BOTH = 6  # the mixture of these two
TIMED = 7  # corrected by the day and the week; `NONE` without a time
ISSUED = 8  # the forecast
COUNT = 9  # labels that were learned by then
MEANS = 10  # means of labels by then
NONE = 64.0

# The rows of numbers for each expert and the stack, after two rows of weights. The second of these is used where
# labels are late.
PRIOR = cython.declare(cython.Py_ssize_t, 2)
WEIGHTS = cython.declare(cython.Py_ssize_t, 3)  # in the forecast
GAINS = cython.declare(cython.Py_ssize_t, 4)  # probabilities of a label, relative to the largest
FEATURES = cython.declare(cython.Py_ssize_t, 5)  # of the stack, one more


def gain_of(z, y):
    """Return the log-probability of the label y under the log-odds z."""
    return log_sigmoid(z if y > 0.0 else -z)


def likelihood(z, y):
    """Return the probability of the label y under the log-odds z."""
    return 1.0 / (1.0 + exp(-z if y > 0.0 else z))


def shared_by(z):
    """Return the part of all weight that the prior shares out again at a label with the forecast z."""
    e: cython.double = exp(-abs(z))
    return min(RATE, RARE_RATE * e / ((1.0 + e) * (1.0 + e)))


def share_after(share, prior, first, second, y, rate):
    """Return the weight of the second of two forecasts after the label y; `share` is the weight before."""
    odds: cython.double = likelihood(second, y) / likelihood(first, y)
    shared: cython.double = shared_by(first)
    if rate != 1.0:
        odds = exp(clamped(rate * log(odds), 700.0))
    share = share * odds / (1.0 - share + share * odds)
    return (1.0 - shared) * share + shared * prior


class Combination:
    """The weights of the experts and of a stack upon them, a correction by the forecast, and the guard of the score.

    Parameters
    ----------
    prior : array of shape (K + 1,)
        The prior weights of the experts and of the stack, which sum to 1.
    stack : Plan
        Of the mixture of the experts, each expert, and a constant.
    correction : Correction
    corrected : float
        The prior weight of the correction.
    guard : Guard
    """

    def __init__(self, prior, stack, correction: Correction, corrected: cython.double, guard: Guard):
        self.size = len(prior) - 1
        self.stack, self.correction, self.guard = Regressions(stack), correction, guard
        self._prior = self.corrected = corrected
        self._cut(np.zeros((6, self.size + 2)))
        rows = np.asarray(self._rows)
        rows[:WEIGHTS, : self.size + 1] = prior
        rows[FEATURES, self.size + 1] = 1.0
        self._first = self._second = 0.0
        self.late = False
        self._weigh()

    def _cut(self, block: cython.double[:, ::1]):
        """Set the arrays, which are parts of one: each array apart takes 0.4 kB more."""
        self._rows, self._features = block, block[FEATURES]

    def combine(self, out, at):
        """Set the rest of the record that begins at an index from what the experts forecast."""
        k: cython.Py_ssize_t
        end: cython.Py_ssize_t = at + self.size
        x: cython.double = out[at]
        z: cython.double
        e: cython.double
        p: cython.double
        positive: cython.double = 0.0
        negative: cython.double = 0.0
        for k in range(self.size):
            e = exp(-out[at + k])
            p = self._rows[WEIGHTS, k] / (1.0 + e)
            positive += p
            negative += e * p
        z = log(positive / negative)
        out[end + MIXED] = self._features[0] = z
        for k in range(self.size):
            self._features[1 + k] = out[at + k]
        z = clamped(self.stack.predict(0, self._features), LARGEST)
        out[end + STACKED] = z
        e = exp(-z)
        p = self._rows[WEIGHTS, self.size] / (1.0 + e)
        positive += p
        negative += e * p
        z = log(positive / negative)
        out[end + BASE] = z
        z = clamped(z + self.correction.at(z), LARGEST)
        out[end + CORRECTED] = z
        e = exp(-z)
        p = self.corrected / (1.0 + e)
        positive = (1.0 - self.corrected) * positive + p
        negative = (1.0 - self.corrected) * negative + e * p
        z = log(positive / negative)
        out[end + BOTH] = z
        share: cython.double = self.guard.share(x, z)
        if share > 0.0:
            e = exp(-x)
            p = share / (1.0 + e)
            z = log(((1.0 - share) * positive + p) / ((1.0 - share) * negative + e * p))
        out[end + ISSUED] = z

    def write_rows(self, out):
        """Write what each row of weights forecasts to a record, from the experts' forecasts in it."""
        k: cython.Py_ssize_t
        e: cython.double
        p: cython.double
        first: cython.double = 0.0  # the probability of a positive label by each row
        second: cython.double = 0.0
        not_first: cython.double = 0.0
        not_second: cython.double = 0.0
        if not self.late:
            out[self.size + ROWS] = out[self.size + ROWS + 1] = out[self.size + BASE]
            return
        for k in range(self.size + 1):
            e = exp(-out[k if k < self.size else k + STACKED])
            p = 1.0 / (1.0 + e)
            first += self._rows[0, k] * p
            second += self._rows[1, k] * p
            not_first += self._rows[0, k] * e * p
            not_second += self._rows[1, k] * e * p
        out[self.size + ROWS] = log(first / not_first)
        out[self.size + ROWS + 1] = log(second / not_second)

    def split(self):
        """Weight in two rows, since labels are late: they differ in the learning rate."""
        k: cython.Py_ssize_t
        self.late = True
        for k in range(self.size + 1):
            self._rows[1, k] = self._rows[0, k]
        self._first = self._second = 0.0

    def judge(self, y, w, rate, late, issued):
        """Update all weights by the probabilities that the forecasts of a record gave to the label.

        The learning rate is w in the first row, and `rate` in the second.
        """
        k: cython.Py_ssize_t
        best: cython.double = 0.0
        shared: cython.double = shared_by(issued[self.size + BOTH])
        for k in range(self.size + 1):
            self._rows[GAINS, k] = likelihood(issued[k if k < self.size else k + STACKED], y)
            best = max(best, self._rows[GAINS, k])
        for k in range(self.size + 1):
            self._rows[GAINS, k] /= best
        self._multiply(0, w, shared)
        if self.late:
            self._multiply(1, rate, shared)
            w /= 1.0 + late
            self._first += w * gain_of(issued[self.size + ROWS], y)
            self._second += w * gain_of(issued[self.size + ROWS + 1], y)
            best = max(self._first, self._second)
            self._first -= best
            self._second -= best
        z: cython.double = issued[self.size + BASE]
        self.corrected = share_after(self.corrected, self._prior, z, issued[self.size + CORRECTED], y, rate)
        self._weigh()

    def learn(self, y, w, issued):
        """One step of the stack and of the correction, from a record."""
        k: cython.Py_ssize_t
        self._features[0] = issued[self.size + MIXED]
        for k in range(self.size):
            self._features[1 + k] = issued[k]
        self.stack.learn(0, self._features, y, w)
        self.correction.learn(issued[self.size + BASE], issued[self.size + BASE], y, w)

    def _multiply(self, row, rate, shared):
        """Multiply a row of weights by the probabilities of a label to a power, and share a part of it by the prior."""
        k: cython.Py_ssize_t
        total: cython.double = 0.0
        for k in range(self.size + 1):
            self._rows[row, k] *= self._rows[GAINS, k] if rate == 1.0 else power(self._rows[GAINS, k], rate)
            total += self._rows[row, k]
        total = (1.0 - shared) / total
        for k in range(self.size + 1):
            self._rows[row, k] = total * self._rows[row, k] + shared * self._rows[PRIOR, k]

    def _weigh(self):
        """Set the weights of the experts and the stack in the forecast."""
        k: cython.Py_ssize_t
        second: cython.double = 0.0
        if self.late:
            second = 1.0 / (1.0 + exp(clamped(self._first - self._second, 700.0)))
        for k in range(self.size + 1):
            self._rows[WEIGHTS, k] = (1.0 - second) * self._rows[0, k] + second * self._rows[1, k]

    def weights(self):
        """Return the weights of the experts and the stack."""
        return np.asarray(self._rows)[WEIGHTS, : self.size + 1].tolist()

    def state(self):
        """Return the fields of `AutoMixture.state` that are learned here."""
        return {
            "stack": self.stack.state(),
            "correction": self.correction.state(),
            "shares": np.asarray(self._rows)[:PRIOR, : self.size + 1].tolist(),
            "wealth": [float(self._first), float(self._second)],
            "late": self.late,
            "guard": self.guard.state(),
        }

    def load(self, state, corrected: cython.double):
        """Load an earlier `state`, and the weight of the correction."""
        self.stack.load(*state["stack"])
        self.correction.load(*state["correction"])
        np.asarray(self._rows)[:PRIOR, : self.size + 1] = state["shares"]
        self._first, self._second = state["wealth"]
        self.late = state["late"]
        self.guard.load(*state["guard"])
        self.corrected = corrected
        self._weigh()
