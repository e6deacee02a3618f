# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Trend filtering at decreasing penalties, each fit with its AICc; the symbols are those of `solvers/trend_filter.py`.

For other labels at the same scores, each penalty of a path starts from the knots, signs and kinks that the penalty at
its place had for the last labels. The solution is a function of A and the signs, and these are nearly always the ones
that a path without a start finds.
"""

from __future__ import annotations

import math

import cython
import numpy as np
from cython.cimports.libc.math import exp
from cython.cimports.streamcal.kernels.polynomial.deviances import Deviances
from cython.cimports.streamcal.kernels.polynomial.kinks import Kinks

_SOLVED = cython.declare(cython.int, 0)
_INFINITY = cython.declare(cython.double, math.inf)
# How fits are compared: all are averaged; by bounds of AICc; by AICc.
AVERAGE = cython.declare(cython.int, 0)
BOUNDS = cython.declare(cython.int, 1)
EXACT = cython.declare(cython.int, 2)
# Bounds of AICc of the best fit may be this far apart; if they are farther, this fit is the reference of the next ones.
WIDE = cython.declare(cython.double, 1e-3)


class KinkPath:
    """The fits of `kinks` at decreasing penalties: the one with the least AICc, or their average.

    Parameters
    ----------
    kinks : Kinks
        With at most `most_rounds` rounds for each penalty.
    penalties : int
        Their number.
    ratio : float
        Of a penalty to the one before, in (0, 1); the first one is the smallest with a straight line.
    negligible : float
        The path ends where AICc is larger than the least by this.
    smallest : float
        A kink below this share of the largest one of a fit does not count.
    """

    def __init__(self, kinks: Kinks, penalties, ratio, negligible, smallest, most_rounds):
        k = len(kinks.fit)
        self._kinks, self._penalties, self._ratio = kinks, penalties, ratio
        self._negligible, self._smallest, self._most_rounds = negligible, smallest, most_rounds
        self.values = np.zeros(k)
        self._values = self.values
        self._deviances = Deviances(k)
        self._lows, self._highs, self._complexities = np.zeros((3, penalties))
        self._last, self._path = np.zeros((3, 0)), np.zeros((3, 0))
        self._last_starts, self._starts = (np.zeros(penalties + 1, dtype=np.intp) for _ in range(2))
        self._last_steps = self._steps = self.fits = self.computed = 0
        self._runs = False

    def run(self, n, centre, most, parameters, average):
        """Set `values` to the fit with the least AICc, or to the average of all, and return a status of `Kinks`.

        Parameters
        ----------
        n : float
            The weight of all labels.
        centre : float
            Added to the fit of `kinks`, it is a probability.
        most : float
            The first penalty; 0 where labels lie on a line.
        parameters : int
            The largest number that a fit may have.
        average : bool
            Whether fits are averaged, with weights exp(−AICc/2). They are then limited to [0, 1], each by itself.

        Raises
        ------
        RuntimeError
            While another thread is in this method: NumPy gives up the GIL where a longer path is allocated.
        """
        if self._runs:
            raise RuntimeError("two threads use one calibrator at the same time; give each its own, or take a lock")
        self._n, self._centre, self._first, self._parameters = n, centre, most, parameters
        self._runs = True
        try:
            return self._run(average)
        finally:
            self._runs = False

    def _run(self, average):
        """Do `run` for the labels that it has taken."""
        status: cython.int
        self._last, self._path = self._path, self._last
        self._last_starts, self._starts = self._starts, self._last_starts
        self._last_steps = self._steps
        self._deviances.begin(self._n, self._kinks._share, self._kinks._y, self._centre)
        self._decided, self.computed = True, 0
        status = self._walk(AVERAGE if average else BOUNDS if self._deviances.known else EXACT)
        if not self._decided:
            status = self._walk(EXACT)
        if status == _SOLVED and not average:
            self._choose()
        return status

    def _walk(self, mode):
        """Fit at the penalties up to the end of the path; return a status."""
        k: cython.Py_ssize_t
        status: cython.int
        d: cython.double
        complexity: cython.double
        self._least = self._least_high = _INFINITY
        self._total = 0.0
        self._steps = self.fits = 0
        for k in range(self._penalties):
            status = self._follow(self._penalty(k))
            if status != _SOLVED:
                return status
            d = min(2 + self._kinks.number(self._smallest), self._parameters)
            if k > 0 and (self._n - d - 1.0 <= 0.0 or self._first == 0.0):
                break
            complexity = 2.0 * d * (1.0 + (d + 1.0) / (self._n - d - 1.0)) if self._n - d - 1.0 > 0.0 else 0.0
            if not (self._take(complexity) if mode == AVERAGE else self._compare(complexity, mode)):
                break
            self.fits += 1
        return _SOLVED

    def _penalty(self, k):
        return self._first * self._ratio**k if self._first > 0.0 else _INFINITY

    def _take(self, complexity):
        """Take the fit into the average, the weight of the best one being 1; False at the end of the path."""
        criterion: cython.double = self._deviances.following(self._kinks._fit) + complexity
        share: cython.double = 1.0
        if criterion > self._least + self._negligible:
            return False
        if criterion < self._least:
            self._total = 1.0 + self._total * exp(-0.5 * (self._least - criterion))
            self._least = criterion
        else:
            share = exp(-0.5 * (criterion - self._least))
            self._total += share
        mix(self._values, self._kinks._fit, self._centre, share / self._total)
        return True

    def _compare(self, complexity, mode):
        """Keep bounds of AICc; False at the end of the path, or where bounds do not decide whether this is the end."""
        low: cython.double = 0.0
        high: cython.double = 0.0
        if mode == BOUNDS:
            self._deviances.bound(self._kinks._fit)
            low, high = self._deviances.low + complexity, self._deviances.high + complexity
        if mode == EXACT or not self._is_decided(low, high):
            low = high = self._deviances.exact(self._kinks._fit) + complexity
            self.computed += 1
            self._decided = self._is_decided(low, high)
        if not self._decided or low > self._least_high + self._negligible:
            return False
        self._lows[self.fits], self._highs[self.fits], self._complexities[self.fits] = low, high, complexity
        self._least, self._least_high = min(self._least, low), min(self._least_high, high)
        return True

    def _is_decided(self, low, high):
        """Return whether AICc is known to be, or not to be, negligibly larger than the least of all."""
        return high <= self._least + self._negligible or low > self._least_high + self._negligible

    def _choose(self):
        """Set the values to the fit with the least AICc, computed where bounds leave several.

        It becomes the reference of the next bounds if these were wide.
        """
        k: cython.Py_ssize_t
        best: cython.Py_ssize_t = 0
        criterion: cython.double
        least: cython.double = _INFINITY
        for k in range(self.fits):
            if self._lows[k] <= self._least_high:
                self._recall(self._path, self._starts[k], self._starts[k + 1])
                self._kinks.solve(self._penalty(k), self._most_rounds)
                criterion = self._lows[k]
                if criterion < self._highs[k]:
                    criterion = self._deviances.exact(self._kinks._fit) + self._complexities[k]
                    self.computed += 1
                if criterion < least:
                    best, least = k, criterion
                    self._values[:] = self._kinks._fit
        if not self._deviances.known or self._highs[best] - self._lows[best] > WIDE:
            self._deviances.refer(self._values)
        for k in range(self._values.shape[0]):
            self._values[k] += self._centre

    def _follow(self, limit):
        """Solve for the next penalty, which starts where that of the last path ended, and keep where it ends."""
        status: cython.int
        step: cython.Py_ssize_t = self._steps
        known: cython.bint = step < self._last_steps
        needed: cython.Py_ssize_t = self._starts[step] + self._kinks._z.shape[0]
        if self._path.shape[1] < needed:
            longer: cython.double[:, ::1] = np.zeros((3, 2 * needed))
            longer[:, : self._path.shape[1]] = self._path
            self._path = longer
        if known:
            self._recall(self._last, self._last_starts[step], self._last_starts[step + 1])
        status = self._kinks.solve(limit, self._most_rounds)
        if known and status != _SOLVED:
            self._kinks._begin()
            status = self._kinks.solve(limit, self._most_rounds)
        self._keep(self._starts[step])
        return status

    @cython.locals(i=cython.Py_ssize_t)
    def _recall(self, path, start, stop):
        """Move to what was kept in a path."""
        self._kinks._number = stop - start
        for i in range(stop - start):
            self._kinks._knots[i] = cython.cast(cython.Py_ssize_t, path[0, start + i])
            self._kinks._signs[i], self._kinks._kinks[i] = path[1, start + i], path[2, start + i]

    @cython.locals(i=cython.Py_ssize_t)
    def _keep(self, start):
        """Keep knots, signs and kinks."""
        for i in range(self._kinks._number):
            self._path[0, start + i] = self._kinks._knots[i]
            self._path[1, start + i], self._path[2, start + i] = self._kinks._signs[i], self._kinks._kinks[i]
        self._steps += 1
        self._starts[self._steps] = start + self._kinks._number


@cython.locals(i=cython.Py_ssize_t)
def mix(values, fit, centre, share):
    """Move the values towards the fit, limited to [0, 1], by this share of the way."""
    for i in range(values.shape[0]):
        values[i] = (1.0 - share) * values[i] + share * min(max(centre + fit[i], 0.0), 1.0)
