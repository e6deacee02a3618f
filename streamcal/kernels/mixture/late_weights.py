# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Weights of experts, by what each forecast of a label when the forecast was issued.

Symbols:

    z                        the log-odds of a forecast
    d                        the lateness of a label: the information learned between its forecast and the label
    a                        the share of all weight that returns to the prior at a label

Labels that are pending together often have one cause, and evidence that counts each of them in full is sure too soon.
Late labels are therefore judged in three rows of weights, with the learning rates 1, (1 + d)^-1/2 and 1/(1 + d). The
rows are weighted by their own issued forecasts, at the rate (1 + d)^-3/4.
"""

import cython
import numpy as np
from cython.cimports.libc.math import exp, log, sqrt
from cython.cimports.streamcal.kernels.common.logistic import log_sigmoid

ROWS = cython.declare(cython.Py_ssize_t, 3)
SMALL = cython.declare(cython.double, 0.015625)
"""2⁻⁶: below it six terms of the series of exp are exact to rounding."""

LEAST = cython.declare(cython.double, 1e-300)
"""What is divided by, or whose logarithm is taken, is at least this."""

# The rows of the block, after the three rows of weights.
PRIOR = cython.declare(cython.Py_ssize_t, 3)
WEIGHTS = cython.declare(cython.Py_ssize_t, 4)  # in the forecast
GAINS = cython.declare(cython.Py_ssize_t, 5)  # probabilities of a label, relative to the largest; their logarithms


def gain_of(z, y):
    """Return the log-probability of the label y under the log-odds z."""
    return log_sigmoid(z if y > 0.0 else -z)


def likelihood(z, y):
    """Return the probability of the label y under the log-odds z."""
    return 1.0 / (1.0 + exp(-z if y > 0.0 else z))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _exp(u: cython.double) -> cython.double:
    """Return exp(u), by its series where u is small."""
    if -SMALL < u < SMALL:
        return 1.0 + u * (1.0 + u / 2.0 * (1.0 + u / 3.0 * (1.0 + u / 4.0 * (1.0 + u / 5.0 * (1.0 + u / 6.0)))))
    return exp(u)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _return_share(
    block: cython.double[:, ::1], row: cython.Py_ssize_t, group: cython.Py_ssize_t, share: cython.double
) -> cython.void:
    """Normalise a row, and return a share of it to the prior: of all weight, and of that of the group within it."""
    k: cython.Py_ssize_t
    own: cython.double = 0.0
    prior: cython.double = 0.0
    rest: cython.double = 0.0
    for k in range(group):
        own += block[row, k]
        prior += block[PRIOR, k]
    for k in range(group, block.shape[1]):
        rest += block[row, k]
    rest = (1.0 - share) / (own + rest)
    after: cython.double = rest * own + share * prior  # the weight of the group
    own = (1.0 - share) * after / max(own, LEAST)
    prior = share * after / prior
    for k in range(group):
        block[row, k] = own * block[row, k] + prior * block[PRIOR, k]
    for k in range(group, block.shape[1]):
        block[row, k] = rest * block[row, k] + share * block[PRIOR, k]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _judge(
    block: cython.double[:, ::1],
    z: cython.const[cython.double][::1],
    at: cython.Py_ssize_t,
    y: cython.double,
    w: cython.double,
    late: cython.double,
    share: cython.double,
    rows: cython.Py_ssize_t,
    group: cython.Py_ssize_t,
) -> cython.void:
    """Multiply rows of weights by the probabilities of a label to the power of their rates."""
    k: cython.Py_ssize_t
    row: cython.Py_ssize_t
    u: cython.double
    best: cython.double = 0.0
    second: cython.double
    sign: cython.double = -1.0 if y > 0.0 else 1.0
    for k in range(block.shape[1]):
        u = 1.0 / (1.0 + exp(sign * z[at + k]))
        block[GAINS, k] = u
        best = max(best, u)
    best = 1.0 / best
    if late == 0.0 and w == 1.0:
        for row in range(rows):
            for k in range(block.shape[1]):
                block[row, k] *= block[GAINS, k] * best
            _return_share(block, row, group, share)
        return
    second = w / sqrt(1.0 + late)
    for k in range(block.shape[1]):
        u = log(block[GAINS, k] * best)
        block[0, k] *= block[GAINS, k] * best if w == 1.0 else exp(w * u)
        if rows > 1:
            block[1, k] *= _exp(second * u)
            block[2, k] *= _exp(w / (1.0 + late) * u)
    for row in range(rows):
        _return_share(block, row, group, share)


class LateWeights:
    """The weights of experts: one row until a label is late, three from then on.

    Parameters
    ----------
    prior : array of shape (K,)
        Sums to 1.
    group : int, optional
        The first experts that form a group, K by default. Within it weight returns to the prior by shares of its own
        weight: what the others win does not change which of its experts is best.

    Notes
    -----
    With labels in time and the shares a_t = u_t/(U_t + c), u_t being the information of a label and U_t that of all
    until then, the loss is at most that of any sequence of experts with k changes, at labels t_1 … t_k, plus
    (k + 1)·(ln(1/prior) + ln(1 + U/c)) + Σ ln((U_tj + c)/u_tj): products of 1 − a_t telescope to c/(U + c). With a
    group of less than K, the terms with c count twice: weight returns at two levels.
    """

    def __init__(self, prior, group=None):
        self.size, self.late = len(prior), False
        self._group = self.size if group is None else group
        self._block = np.zeros((ROWS + 3, self.size))
        np.asarray(self._block)[: WEIGHTS + 1] = prior
        self._wealth = np.zeros(ROWS)

    def mixed(self, z, at):
        """Return the log-odds of the mixture of the forecasts from z[at] on."""
        k: cython.Py_ssize_t
        e: cython.double
        p: cython.double
        positive: cython.double = 0.0
        negative: cython.double = 0.0
        for k in range(self.size):
            e = exp(-z[at + k])
            p = self._block[WEIGHTS, k] / (1.0 + e)
            positive += p
            negative += e * p
        return log(positive / negative)

    def write(self, z, at, out, to):
        """Write the log-odds that each row forecasts from out[to] on, given those of the experts from z[at] on."""
        row: cython.Py_ssize_t
        k: cython.Py_ssize_t
        e: cython.double
        p: cython.double
        positive: cython.double
        negative: cython.double
        if not self.late:
            for row in range(ROWS):
                out[to + row] = 0.0
            return
        for k in range(self.size):
            e = exp(-z[at + k])
            self._block[GAINS, k] = 1.0 / (1.0 + e)
        for row in range(ROWS):
            positive = negative = 0.0
            for k in range(self.size):
                p = self._block[row, k] * self._block[GAINS, k]
                positive += p
                negative += self._block[row, k] - p
            out[to + row] = log(positive / max(negative, LEAST))

    def split(self):
        """Weight in three rows, since labels are late."""
        k: cython.Py_ssize_t
        row: cython.Py_ssize_t
        self.late = True
        for row in range(1, ROWS):
            for k in range(self.size):
                self._block[row, k] = self._block[0, k]

    def judge(self, z, at, rows, y, w, late, share):
        """Update all weights by a label of weight w: forecasts are from z[at] on, and those by row from z[rows] on."""
        k: cython.Py_ssize_t
        best: cython.double
        _judge(self._block, z, at, y, w, late, share, ROWS if self.late else 1, self._group)
        if self.late:
            w *= 1.0 / (sqrt(1.0 + late) * sqrt(sqrt(1.0 + late)))
            for k in range(ROWS):
                self._wealth[k] += w * gain_of(z[rows + k], y)
            best = max(self._wealth[0], self._wealth[1], self._wealth[2])
            for k in range(ROWS):
                self._wealth[k] -= best
        self._weigh()

    def _weigh(self):
        """Set the weights of the experts in the forecast."""
        k: cython.Py_ssize_t
        first: cython.double
        second: cython.double
        third: cython.double
        if not self.late:
            for k in range(self.size):
                self._block[WEIGHTS, k] = self._block[0, k]
            return
        first, second, third = exp(self._wealth[0]), exp(self._wealth[1]), exp(self._wealth[2])
        for k in range(self.size):
            self._block[WEIGHTS, k] = (
                first * self._block[0, k] + second * self._block[1, k] + third * self._block[2, k]
            ) / (first + second + third)

    def weights(self):
        """Return the weights of the experts in the forecast."""
        return np.asarray(self._block)[WEIGHTS].tolist()

    def state(self):
        """Return the rows of weights, the log-wealth of the rows, and whether a label was late, for `load`."""
        return [np.asarray(self._block)[:ROWS].tolist(), np.asarray(self._wealth).tolist(), bool(self.late)]

    def load(self, rows, wealth, late: cython.bint):
        """Load an earlier `state`."""
        np.asarray(self._block)[:ROWS] = rows
        np.asarray(self._wealth)[:] = wealth
        self.late = late
        self._weigh()
