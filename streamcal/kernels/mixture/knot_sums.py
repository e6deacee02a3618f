# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""What `Auto` sums at the knots of log-odds, ¼ apart: means of labels near a score, which forget."""

import cython
import numpy as np
from cython.cimports.libc.math import log
from cython.cimports.streamcal.kernels.newton.implicit_regression import clamped

#: Log-odds of scores and of predictions stay within ± this; the knots lie between.
LARGEST = 16.0
#: Knots in a unit of log-odds. Between two, the log-odds of predictions are linear; twice as many gain nothing.
UNIT = 4.0
#: Their number.
KNOTS = 129
#: The last one.
LAST = 128
FULL = cython.declare(cython.double, 1e100)
"""The unit of a smoother, which grows, is rescaled to 1 when it exceeds this."""
TINY = cython.declare(cython.double, 1e-8)
#: Smoothers, at most: the size of the arrays in `knot_sums.pxd`.
MOST = 8


def log_odds_of(positive, negative):
    """Return log(positive/negative), clamped; both are at least 0."""
    if positive <= 0.0:
        return -LARGEST
    if negative <= 0.0:
        return LARGEST
    return clamped(log(positive / negative), LARGEST)


def shrunk_log_odds(p, positive, negative):
    """Return the log-odds of a mean of labels, shrunk towards p by two units of information, 4p(1 − p) a label."""
    return log_odds_of(positive + 0.5 / max(1.0 - p, TINY), negative + 0.5 / max(p, TINY))


class KnotSums:
    """Means of the labels near each knot.

    Parameters
    ----------
    smoothers : array of shape (smoothers, 2)
        Half width in log-odds, growth of the sums' unit, which is m/(m − 1) for a memory of m units of information. At
        a knot a smoother forecasts (h·p + Σ Kᵢyᵢ) / (h + Σ Kᵢ), p being the forecast of the line, h = 1/(2p(1 − p))
        two units of information, and K = (1 − v²)² the weight of an observation at v half widths.
    """

    def __init__(self, smoothers):
        k: cython.Py_ssize_t
        self.smoothers = len(smoothers)
        if self.smoothers > MOST:
            raise ValueError(f"{self.smoothers} smoothers are more than {MOST}")
        if not cython.compiled:
            self._half, self._growth, self._units = [0.0] * MOST, [0.0] * MOST, [0.0] * MOST
        for k in range(self.smoothers):
            self._half[k], self._growth[k], self._units[k] = smoothers[k][0], smoothers[k][1], 1.0
        self.sums = np.zeros((2 * self.smoothers, KNOTS))

    # -- forecasts in log-odds -----------------------------------------------------------------------------------

    def local(self, index, knot, p):
        """Return the forecast of a smoother at a knot, where the line forecasts the probability p."""
        unit: cython.double = self._units[index]
        return shrunk_log_odds(p, self.sums[2 * index + 1, knot] / unit, self.sums[2 * index, knot] / unit)

    # -- learning ------------------------------------------------------------------------------------------------

    def learn(self, x, y, w, forgets):
        """Add an observation to all sums; whether smoothers forget before."""
        b: cython.Py_ssize_t
        k: cython.Py_ssize_t
        first: cython.Py_ssize_t
        last: cython.Py_ssize_t
        row: cython.Py_ssize_t
        side: cython.Py_ssize_t = 1 if y > 0.0 else 0
        u: cython.double
        scale: cython.double
        weight: cython.double
        place: cython.double = (x + LARGEST) * UNIT
        for b in range(self.smoothers):
            if forgets:
                self._units[b] *= self._growth[b]
                if self._units[b] > FULL:
                    self._rescale(b)
            first = max(0, cython.cast(cython.Py_ssize_t, place - self._half[b] * UNIT))
            last = min(LAST, cython.cast(cython.Py_ssize_t, place + self._half[b] * UNIT) + 1)
            scale = 1.0 / (UNIT * self._half[b])
            weight = w * self._units[b]
            row = 2 * b + side
            for k in range(first, last + 1):
                u = (k - place) * scale
                u = 1.0 - u * u
                if u > 0.0:
                    self.sums[row, k] += weight * u * u

    def _rescale(self, index):
        """Count a smoother's sums in units of 1 again."""
        k: cython.Py_ssize_t
        for k in range(LAST + 1):
            self.sums[2 * index, k] /= self._units[index]
            self.sums[2 * index + 1, k] /= self._units[index]
        self._units[index] = 1.0

    # -- state ---------------------------------------------------------------------------------------------------

    def state(self):
        """Return the fields of `AutoMixture.state` that are learned here."""
        return {
            "units": [float(self._units[k]) for k in range(self.smoothers)],
            "sums": np.asarray(self.sums).reshape(self.smoothers, 2, KNOTS).tolist(),
        }

    def load(self, state):
        """Load an earlier `state`."""
        k: cython.Py_ssize_t
        for k in range(self.smoothers):
            self._units[k] = state["units"][k]
        np.asarray(self.sums)[...] = np.reshape(state["sums"], (2 * self.smoothers, KNOTS))
