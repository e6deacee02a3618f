# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""From the forecasts of the experts of `Auto` to its own: weights, stacks, the correction, and the record.

Symbols:

    x                        the log-odds of the score
    z                        the log-odds of a forecast
    u, U                     the information of a label, 4p(1 − p) at its issued forecast, and that of all so far
    d                        the lateness: the information learned between a forecast and its label
"""

import cython
import numpy as np
from cython.cimports.libc.math import exp, log, sqrt
from cython.cimports.libc.math import pow as power
from cython.cimports.streamcal.kernels.mixture.correction import Correction
from cython.cimports.streamcal.kernels.mixture.guard import Guard, of_two
from cython.cimports.streamcal.kernels.mixture.knot_sums import LARGEST
from cython.cimports.streamcal.kernels.mixture.late_weights import WEIGHTS, LateWeights, likelihood
from cython.cimports.streamcal.kernels.newton.implicit_regression import clamped
from cython.cimports.streamcal.kernels.newton.regressions import Regressions

LATE_POWER = cython.declare(cython.double, 0.75)
"""The learning rate of the weight of a correction for a label d late is (1 + d)^−¾."""
SHARED = cython.declare(cython.double, 1e4)
"""The part of all weight that returns to the prior at a label is u/(U + `SHARED`)."""

# The record of a forecast: what was forecast at one score, in log-odds, until its label comes. The log-odds of the K
# experts come first, that of the score at the front; then those of the S stacks, and of the N rungs of the ladder.
# The indices here, K + S + N being added, follow.
MIXED = 0  # the mixture of the experts, which the stacks start from
STACKED = 1  # the mixture of experts and stacks
CORRECTED = 2  # corrected by itself
BASE = 3  # the mixture of these two
TIMED = 4  # corrected by the day and the week; `NONE` without a time
ISSUED = 5  # the forecast
ROWS = 6  # by each row of the weights of experts and stacks
RUNGS = 9  # by each row of the weights of rungs
CLOCK = 12  # information that was learned by then
COUNT = 13  # labels that were learned by then
MEANS = 14  # means of labels by then
NONE = 64.0


def share_after(share, prior, first, second, y, rate, shared):
    """Return the weight of the second of two forecasts after the label y; `share` is the weight before."""
    odds: cython.double = likelihood(second, y) / likelihood(first, y)
    if rate != 1.0:
        odds = exp(clamped(rate * log(odds), 700.0))
    share = share * odds / (1.0 - share + share * odds)
    return (1.0 - shared) * share + shared * prior


class Combination:
    """The weights of the experts and of stacks upon them, a correction by the forecast, and the guard of the score.

    Parameters
    ----------
    prior : array of shape (K + S,)
        The prior weights of the experts and of the stacks, which sum to 1.
    stack : Plan
        Of S regressions: on the mixture of the experts, each expert, and a constant.
    correction : Correction
    corrected : float
        The prior weight of the correction in what it corrects.
    guard : Guard
    rungs : int
        N.
    """

    def __init__(self, prior, stack, correction: Correction, corrected: cython.double, guard: Guard, rungs):
        self.stacks = stack.number
        self.size, self.end = len(prior) - self.stacks, len(prior) + rungs
        self.weights = LateWeights(np.array(prior, dtype=np.float64), self.size)
        self.stack, self.correction, self.guard = Regressions(stack), correction, guard
        self._prior = self.corrected = corrected
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
        for k in range(self.stacks):
            z = clamped(self.stack.predict(k, self._features), LARGEST)
            out[at + self.size + k] = z
            e = exp(-z)
            p = self.weights._block[WEIGHTS, self.size + k] / (1.0 + e)
            positive += p
            negative += e * p
        out[end + STACKED] = z = log(positive / negative)
        out[end + CORRECTED] = self.correction.corrected(z)
        out[end + BASE] = z = of_two(z, out[end + CORRECTED], self.corrected)
        out[end + ISSUED] = self.guard.guarded(out[at], z)

    def judge(self, y, w, u, late, issued):
        """Update all weights by what the forecasts of a record gave to a label of weight w and of u units.

        The correction learns what the record's forecast has missed, a late label with weight w·(1 + d)^−½.
        """
        end: cython.Py_ssize_t = self.end
        shared: cython.double = u / (self.information + u + SHARED)
        rate: cython.double = w if late == 0.0 else w * power(1.0 + late, -LATE_POWER)
        self.weights.judge(issued, 0, end + ROWS, y, w, late, shared)
        self.corrected = share_after(
            self.corrected, self._prior, issued[end + STACKED], issued[end + CORRECTED], y, rate, shared
        )
        self.correction.learn(issued[end + STACKED], y, w / sqrt(1.0 + late), u)
        self.information += u

    def learn(self, y, w, forgets, issued):
        """Make one step of the stacks, from a record."""
        k: cython.Py_ssize_t
        self._features[0] = issued[self.end + MIXED]
        for k in range(self.size):
            self._features[1 + k] = issued[k]
        for k in range(self.stacks):
            self.stack.learn(k, self._features, y, w, forgets)

    def state(self):
        """Return the fields of `AutoMixture.state` that are learned here."""
        return {
            "stack": self.stack.state(),
            "correction": self.correction.state(),
            "shares": self.weights.state(),
            "guard": self.guard.state(),
        }

    def load(self, state, corrected: cython.double, information: cython.double):
        """Load an earlier `state`, the weight of the correction, and the information learned."""
        self.stack.load(*state["stack"])
        self.correction.load(*state["correction"])
        self.weights.load(*state["shares"])
        self.guard.load(*state["guard"])
        self.corrected, self.information = corrected, information
