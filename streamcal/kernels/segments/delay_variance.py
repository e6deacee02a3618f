# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""How much more sums of residuals vary over the delay of labels than they would if labels were independent.

Symbols, S being the sum of w·(y − p) over a window of labels in order of learning, and V that of w²·p(1 − p):

    D    the sum of (S of a window − S of the window before)² over the sum of both V: the Allan variance of residuals

D is 1 where labels are independent given p. A constant error, which late labels can still correct, cancels; what comes
and goes within the delay, which they cannot correct, does not. Windows have 2, 4, 8, … labels, and follow one another
by half of their length.
"""

import cython
import numpy as np
from cython.cimports.libc.math import sqrt

#: Numbers kept of a scale: blocks so far, windows compared, both sums of D; S, and then V, of the last four blocks. A
#: block is half a window.
WIDTH = 12
#: The scales: the longest window has 2**48 labels.
SCALES = 48

_SCALES = cython.declare(cython.Py_ssize_t, SCALES)
BLOCKS = cython.declare(cython.Py_ssize_t, 0)
WINDOWS = cython.declare(cython.Py_ssize_t, 1)
SQUARES = cython.declare(cython.Py_ssize_t, 2)
EXPECTED = cython.declare(cython.Py_ssize_t, 3)
S = cython.declare(cython.Py_ssize_t, 4)
V = cython.declare(cython.Py_ssize_t, 8)
TINY = cython.declare(cython.double, 1e-9)
"""Added to the sum of V, which may be 0."""


class DelayVariance:
    """D at every delay, from residuals as issued, and the number of labels. O(1) on average for a label, and for D.

    `labels` is counted by the owner: labels in time have no residual as issued.
    """

    def __init__(self):
        self._sums, self.labels = np.zeros((SCALES, WIDTH)), 0

    def learn(self, residual: cython.double, variance: cython.double):
        """Add a label with its residual y − p and the variance p(1 − p)."""
        i: cython.Py_ssize_t
        for i in range(_SCALES):
            self._sums[i, BLOCKS] += 1.0
            self._append(i, S, residual)
            self._append(i, V, variance)
            if self._sums[i, BLOCKS] >= 4.0:
                self._compare(i)
            if self._sums[i, BLOCKS] % 2.0 != 0.0:
                break
            residual = self._sums[i, S + 2] + self._sums[i, S + 3]
            variance = self._sums[i, V + 2] + self._sums[i, V + 3]

    def _append(self, i: cython.Py_ssize_t, first: cython.Py_ssize_t, value: cython.double):
        """Add a block to the last four."""
        a: cython.Py_ssize_t
        for a in range(first, first + 3):
            self._sums[i, a] = self._sums[i, a + 1]
        self._sums[i, first + 3] = value

    def _compare(self, i: cython.Py_ssize_t):
        """Compare the last window with the one before."""
        a: cython.Py_ssize_t
        change: cython.double = self._sums[i, S + 2] + self._sums[i, S + 3] - self._sums[i, S] - self._sums[i, S + 1]
        self._sums[i, WINDOWS] += 1.0
        self._sums[i, SQUARES] += change * change
        for a in range(V, V + 4):
            self._sums[i, EXPECTED] += self._sums[i, a]

    def at(self, delay: cython.double) -> cython.double:
        """Return D of the shortest windows with at least `delay` labels, from 1 to 1 + delay.

        D is √(1 + delay) at first, which counts as `delay` labels.
        """
        i: cython.Py_ssize_t = 0
        labels: cython.double = 1.0  # of a block
        first: cython.double = sqrt(1.0 + delay)
        ratio: cython.double
        if delay <= 0.0:
            return 1.0
        while 2.0 * labels < delay and i < _SCALES - 1:
            i, labels = i + 1, 2.0 * labels
        labels *= self._sums[i, WINDOWS]
        ratio = self._sums[i, SQUARES] / (self._sums[i, EXPECTED] + TINY)
        ratio = (labels * ratio + delay * first) / (labels + delay)
        return min(max(ratio, 1.0), 1.0 + delay)

    def merge(self, of: object):
        """Add the labels of another, and the windows that it has compared."""
        other: DelayVariance = of
        self.labels += other.labels
        i: cython.Py_ssize_t
        a: cython.Py_ssize_t
        for i in range(_SCALES):
            for a in range(WINDOWS, EXPECTED + 1):
                self._sums[i, a] += other._sums[i, a]

    def state(self):
        """Return the numbers of all scales with a block or a window, for `load`."""
        rows = np.asarray(self._sums)
        used = np.flatnonzero(rows[:, : WINDOWS + 1].any(axis=1))
        return rows[: int(used.max()) + 1].tolist() if len(used) else []

    def load(self, rows: object):
        """Load an earlier `state` into an object that has learned nothing."""
        i: cython.Py_ssize_t
        a: cython.Py_ssize_t
        for i, row in enumerate(rows):
            for a in range(WIDTH):
                self._sums[i, a] = row[a]
