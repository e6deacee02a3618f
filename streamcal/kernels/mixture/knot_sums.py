# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""What `Auto` sums at the knots of log-odds, ¼ apart: smoothers that forget, and fits to all observations."""

import cython
import numpy as np
from cython.cimports.libc.math import log
from cython.cimports.streamcal.kernels.newton.implicit_regression import clamped

from streamcal.kernels.tree.venn_abers_curve import draw, fit_line

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
LEAST_KIND = cython.declare(cython.double, 4.0)
"""The Venn-Abers curve is drawn from so much weight of positives and of negatives on; until then it is the line."""
#: Smoothers, at most: the size of the arrays in `knot_sums.pxd`.
MOST = 8


def log_odds_of(positive, negative):
    """Return log(positive/negative), clamped; both are at least 0."""
    if positive <= 0.0:
        return -LARGEST
    if negative <= 0.0:
        return LARGEST
    return clamped(log(positive / negative), LARGEST)


class KnotSums:
    """Smoothers, and a line and a Venn-Abers curve fitted to all observations.

    Parameters
    ----------
    smoothers : array of shape (smoothers, 2)
        Half width in log-odds, growth of the unit, which is m/(m − 1) for a memory of m observations. At a knot a
        smoother forecasts (2p + Σ Kᵢyᵢ) / (2 + Σ Kᵢ), p being the forecast of the line, and K = (1 − u²)² the weight of
        an observation at u half widths.
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
        self._cut(np.zeros((2 * self.smoothers + 2, KNOTS)), 2 * self.smoothers)
        self.slope, self.offset, self.low, self.high = 1.0, 0.0, -6.0, 6.0
        self.drawn = False
        self._prior = (1.0, 0.0, 1.0)

    def _cut(self, block: cython.double[:, ::1], at: cython.Py_ssize_t):
        """Set the arrays, which are parts of one: each array apart takes 0.4 kB more."""
        self.sums, self.whole = block[:at], block[at:]

    # -- forecasts in log-odds -----------------------------------------------------------------------------------

    def line(self, knot, x):
        """Return the forecast of the line at a knot, and at its log-odds x."""
        if knot == 0 or knot == LAST:
            return self.low if knot == 0 else self.high
        return clamped(self.slope * x + self.offset, LARGEST)

    def venn_abers(self, knot, z):
        """Return the forecast of the Venn-Abers curve at a knot, where the line forecasts z."""
        return self.curve[knot] if self.drawn else z

    def local(self, one, knot, p):
        """Return the forecast of a smoother at a knot, where the line forecasts the probability p."""
        return log_odds_of(
            2.0 * p + self.sums[2 * one + 1, knot] / self._units[one],
            2.0 * (1.0 - p) + self.sums[2 * one, knot] / self._units[one],
        )

    # -- learning ------------------------------------------------------------------------------------------------

    def learn(self, x, y, w):
        """Add an observation to all sums."""
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
        k = min(cython.cast(cython.Py_ssize_t, place), LAST - 1)
        self.whole[side, k] += w * (1.0 - (place - k))
        self.whole[side, k + 1] += w * (place - k)

    def _rescale(self, one):
        """Count a smoother's sums in units of 1 again."""
        k: cython.Py_ssize_t
        for k in range(LAST + 1):
            self.sums[2 * one, k] /= self._units[one]
            self.sums[2 * one + 1, k] /= self._units[one]
        self._units[one] = 1.0

    def hold(self, slope, offset, centre):
        """Set the prior of the line: the precisions of its slope and of its value at the log-odds `centre`."""
        self._prior = (slope + offset * centre * centre, offset * centre, offset)

    def refit(self):
        """Fit the line and the Venn-Abers curve to the sums over all observations."""
        sums = np.asarray(self.whole)
        self.slope, self.offset = fit_line(self.whole, self.slope, self.offset, self._prior)
        self.low = log_odds_of(sums[1, 0] + 0.002, sums[0, 0] + 0.998)
        self.high = log_odds_of(sums[1, LAST] + 0.998, sums[0, LAST] + 0.002)
        if sums[0].sum() >= LEAST_KIND and sums[1].sum() >= LEAST_KIND:
            self._draw()
            draw(self.whole, self.curve)

    def _draw(self):
        """Make room for the curve."""
        if not self.drawn:
            self.curve, self.drawn = np.zeros(KNOTS), True

    # -- state ---------------------------------------------------------------------------------------------------

    def state(self):
        """Return the fields of `AutoMixture.state` that are learned here."""
        return {
            "units": [float(self._units[k]) for k in range(self.smoothers)],
            "sums": np.asarray(self.sums).reshape(self.smoothers, 2, KNOTS).tolist(),
            "whole": np.asarray(self.whole).tolist(),
            "curve": np.asarray(self.curve).tolist() if self.drawn else [0.0] * KNOTS,
            "line": list(map(float, (self.slope, self.offset, self.low, self.high))),
        }

    def load(self, state, drawn):
        """Load an earlier `state`."""
        k: cython.Py_ssize_t
        for k in range(self.smoothers):
            self._units[k] = state["units"][k]
        np.asarray(self.sums)[...] = np.reshape(state["sums"], (2 * self.smoothers, KNOTS))
        np.asarray(self.whole)[...] = state["whole"]
        if drawn:
            self._draw()
            np.asarray(self.curve)[:] = state["curve"]
        self.slope, self.offset, self.low, self.high = state["line"]
