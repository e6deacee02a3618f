# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""A curve over the log-odds of a forecast, which learns what the forecast misses."""

import cython
import numpy as np
from cython.cimports.streamcal.kernels.mixture.knot_sums import LARGEST
from cython.cimports.streamcal.kernels.newton.implicit_regression import clamped, curvature, implicit


class Correction:
    """A curve over log-odds, added to the log-odds of a forecast and learned from the residuals.

    It has values f and curvatures H at knots of equal distance, and is linear between them. An observation of u units
    of information at z moves the knots nearer than `width`, by K = (1 − d²)² of their distance d in widths:
    H ← firm + (H − firm)(1 − K·u/(memory + u));  f ← f + (K/H)·(m − c)/v, c being the corrected log-odds, v the change
    of f(z) by steps of K/H at the knots, and m the log-odds c + v·w·(y − σ(m)) of the implicit step;
    H ← H + K·w·σ(m)(1 − σ(m)). H starts as `firm`, f as 0.

    Parameters
    ----------
    width : float
        In log-odds.
    memory : float
        In units of information.
    firm : float
        A curvature: ¼ for an observation at probability ½.
    knots_a_unit : int

    Notes
    -----
    O(1) to evaluate, O(width · knots_a_unit) to learn.
    """

    def __init__(self, width, memory, firm, knots_a_unit):
        size = round(2.0 * LARGEST * knots_a_unit) + 1
        self._width, self._memory, self._firm, self._unit = width, memory, firm, knots_a_unit
        self._last = size - 1
        reach = int(2.0 * width * knots_a_unit) + 3  # knots that one step may move
        self._cut(np.zeros(2 * size + min(reach, size)), size)
        np.asarray(self._curvature)[:] = firm

    def _cut(self, block: cython.double[::1], size: cython.Py_ssize_t):
        """Set the arrays, which are parts of one: each array apart takes 0.3 kB more."""
        self._curve, self._curvature, self._parts = block[:size], block[size : 2 * size], block[2 * size :]

    def _knot(self, z):
        """Return the knot at or below the log-odds z, not the last; the first one below it."""
        z = (z + LARGEST) * self._unit
        return min(cython.cast(cython.Py_ssize_t, z), self._last - 1) if z >= 0.0 else 0  # also where z is NaN

    def _kernel(self, knot, z):
        d: cython.double = (knot / self._unit - LARGEST - z) / self._width
        return (1.0 - d * d) * (1.0 - d * d) if -1.0 < d < 1.0 else 0.0

    def corrected(self, z):
        """Return the log-odds of the corrected forecast, given those of the forecast, within ±16."""
        knot: cython.Py_ssize_t = self._knot(z)
        share: cython.double = (z + LARGEST) * self._unit - knot
        return clamped(z + self._curve[knot] + share * (self._curve[knot + 1] - self._curve[knot]), LARGEST)

    def learn(self, z, y, w, u):
        """Learn the label y, of weight w and of u units, z being the log-odds of its forecast."""
        k: cython.Py_ssize_t
        knot: cython.Py_ssize_t = self._knot(z)
        share: cython.double = (z + LARGEST) * self._unit - knot
        first: cython.Py_ssize_t = max(0, self._knot(max(z - self._width, -LARGEST)))
        last: cython.Py_ssize_t = min(self._last, self._knot(min(z + self._width, LARGEST)) + 1)
        forget: cython.double = u / (self._memory + u)
        v: cython.double
        m: cython.double
        h: cython.double
        for k in range(first, last + 1):
            self._parts[k - first] = self._kernel(k, z)
            self._curvature[k] -= forget * self._parts[k - first] * (self._curvature[k] - self._firm)
        v = (1.0 - share) * self._kernel(knot, z) / self._curvature[knot]
        v += share * self._kernel(knot + 1, z) / self._curvature[knot + 1]
        z = self.corrected(z)
        m = implicit(z, v * w, y)
        h = w * curvature(m)
        m = (m - z) / v
        for k in range(first, last + 1):
            self._curve[k] += self._parts[k - first] / self._curvature[k] * m
            self._curvature[k] += self._parts[k - first] * h

    def state(self):
        """Return [the curve, its curvature] as plain data, for `load`."""
        return [np.asarray(self._curve).tolist(), np.asarray(self._curvature).tolist()]

    def load(self, curve, curvature):
        """Load an earlier `state`."""
        np.asarray(self._curve)[...], np.asarray(self._curvature)[...] = curve, curvature
