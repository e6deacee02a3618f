# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""From the forecasts of the experts of `Auto` to its own: weights, stack, and the record.

Symbols:

    x                        the log-odds of the score
    z                        the log-odds of a forecast
    u, U                     the information of a label, 4p(1 − p) at its issued forecast, and that of all so far
    d                        the lateness: the information learned between a forecast and its label
"""

import cython
import numpy as np
from cython.cimports.libc.math import exp, log
from cython.cimports.streamcal.kernels.mixture.guard import Guard
from cython.cimports.streamcal.kernels.mixture.knot_sums import LARGEST
from cython.cimports.streamcal.kernels.mixture.late_weights import WEIGHTS, LateWeights, likelihood
from cython.cimports.streamcal.kernels.newton.implicit_regression import clamped
from cython.cimports.streamcal.kernels.newton.regressions import Regressions

LATE_POWER = cython.declare(cython.double, 0.75)
"""The learning rate of the weight of the correction by time for a label d late is (1 + d)^−¾."""
SHARED = cython.declare(cython.double, 1e4)
"""The part of all weight that returns to the prior at a label is u/(U + `SHARED`)."""

# The record of a forecast: what was forecast at one score, in log-odds, until its label comes. The log-odds of the K
# experts come first, that of the score at the front; then that of the stack, and those of the N rungs of the ladder.
# The indices here, K + 1 + N being added, follow.
MIXED = 0  # the mixture of the experts, which the stack starts from
BASE = 1  # the mixture of experts and stack
TIMED = 2  # corrected by the day and the week; `NONE` without a time
ISSUED = 3  # the forecast
ROWS = 4  # by each row of the weights of experts and stack
RUNGS = 7  # by each row of the weights of rungs
CLOCK = 10  # information that was learned by then
COUNT = 11  # labels that were learned by then
MEANS = 12  # means of labels by then
NONE = 64.0


def share_after(share, prior, first, second, y, rate, shared):
    """Return the weight of the second of two forecasts after the label y; `share` is the weight before."""
    odds: cython.double = likelihood(second, y) / likelihood(first, y)
    if rate != 1.0:
        odds = exp(clamped(rate * log(odds), 700.0))
    share = share * odds / (1.0 - share + share * odds)
    return (1.0 - shared) * share + shared * prior


class Combination:
    """The weights of the experts and of a stack upon them, and the guard of the score.

    Parameters
    ----------
    prior : array of shape (K + 1,)
        The prior weights of the experts and of the stack, which sum to 1.
    stack : Plan
        Of the mixture of the experts, each expert, and a constant.
    guard : Guard
    rungs : int
        N.
    """

    def __init__(self, prior, stack, guard: Guard, rungs):
        self.size, self.end = len(prior) - 1, len(prior) + rungs
        self.weights = LateWeights(np.array(prior, dtype=np.float64))
        self.stack, self.guard = Regressions(stack), guard
        self._features = np.zeros(self.size + 2)
        self._features[self.size + 1] = 1.0
        self.information = 0.0

    def combine(self, out, at):
        """Set the rest of the record that begins at an index from what the experts forecast."""
        k: cython.Py_ssize_t
        end: cython.Py_ssize_t = at + self.end
        z: cython.double
        e: cython.double
        p: cython.double
        positive: cython.double = 0.0
        negative: cython.double = 0.0
        for k in range(self.size):
            e = exp(-out[at + k])
            p = self.weights._block[WEIGHTS, k] / (1.0 + e)
            positive += p
            negative += e * p
            self._features[1 + k] = out[at + k]
        out[end + MIXED] = self._features[0] = log(positive / negative)
        z = clamped(self.stack.predict(0, self._features), LARGEST)
        out[at + self.size] = z
        e = exp(-z)
        p = self.weights._block[WEIGHTS, self.size] / (1.0 + e)
        positive += p
        negative += e * p
        z = log(positive / negative)
        out[end + BASE] = z
        out[end + ISSUED] = self.guard.guarded(out[at], z)

    def judge(self, y, w, u, late, issued):
        """Update all weights by what the forecasts of a record gave to a label of weight w and of u units."""
        shared: cython.double = u / (self.information + u + SHARED)
        self.weights.judge(issued, 0, self.end + ROWS, y, w, late, shared)
        self.information += u

    def learn(self, y, w, forgets, issued):
        """One step of the stack, from a record."""
        k: cython.Py_ssize_t
        self._features[0] = issued[self.end + MIXED]
        for k in range(self.size):
            self._features[1 + k] = issued[k]
        self.stack.learn(0, self._features, y, w, forgets)

    def state(self):
        """Return the fields of `AutoMixture.state` that are learned here."""
        return {
            "stack": self.stack.state(),
            "shares": self.weights.state(),
            "guard": self.guard.state(),
        }

    def load(self, state, information: cython.double):
        """Load an earlier `state`, and the information learned."""
        self.stack.load(*state["stack"])
        self.weights.load(*state["shares"])
        self.guard.load(*state["guard"])
        self.information = information
