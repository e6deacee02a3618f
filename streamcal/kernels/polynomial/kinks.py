# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The active set of ℓ₁ linear trend filtering; the symbols are those of `solvers/trend_filter.py`.

A piece is the cells from one knot up to the next, the last one included in the last piece. Its sums for the tridiagonal
system depend on nothing but its two knots: they are kept, and recomputed only for pieces with a new end.
"""

from __future__ import annotations

import math

import cython
import numpy as np
from cython.cimports.libc.math import fabs

SOLVED, NOT_FINITE, ITERATION_LIMIT = 0, 1, 2

_SOLVED = cython.declare(cython.int, SOLVED)
_NOT_FINITE = cython.declare(cython.int, NOT_FINITE)
_ITERATION_LIMIT = cython.declare(cython.int, ITERATION_LIMIT)
_INFINITY = cython.declare(cython.double, math.inf)
_NAN = cython.declare(cython.double, math.nan)


class Kinks:
    """The fit to k ≥ 1 scores z in [0, 1] with shares of the weight and mean labels, for one penalty after another.

    Parameters
    ----------
    z, share, y : array of shape (k,)
    ridge, tolerance, flat : float
        RIDGE, TOLERANCE and FLAT of `solvers/trend_filter.py`.
    """

    def __init__(self, z, share, y, ridge: cython.double, tolerance: cython.double, flat: cython.double):
        columns = [np.array(column, dtype=np.float64) for column in (z, share, y)]
        k = len(columns[0])
        if not k == len(columns[1]) == len(columns[2]) or k == 0:
            raise ValueError("lengths differ, or are 0")
        self._z, self._share, self._y = columns
        self._ridge, self._tolerance, self._flat = ridge, tolerance, flat
        self.fit = np.zeros(k)
        self._fit, self._u = self.fit, np.zeros(k)
        self._knots, self._before, self._added = (np.zeros(k, dtype=np.intp) for _ in range(3))
        self._signs, self._kinks, self._values, self._solved, self._diagonal, self._beside = np.zeros((6, k))
        self._end, self._sums = np.full(k, -1, dtype=np.intp), np.zeros((k, 5))
        self._gap = np.append(2.0 * np.diff(columns[0]), 0.0)
        self._product = np.zeros(k)
        self.rounds, self.excess, self._largest = 0, 0.0, 0.0
        self._set_products()
        self._begin()

    @cython.locals(i=cython.Py_ssize_t)
    def _set_products(self):
        """Set ωy; the sums of pieces are out of date."""
        for i in range(self._z.shape[0]):
            self._product[i] = self._share[i] * self._y[i]
            self._end[i] = -1

    def _begin(self):
        """Fit the straight line."""
        last: cython.Py_ssize_t = self._z.shape[0] - 1
        self._number, self._finite = min(last + 1, 2), True
        self._knots[0] = 0
        self._knots[self._number - 1] = last
        self._signs[0] = self._signs[self._number - 1] = 0.0
        self._kinks[0] = self._kinks[self._number - 1] = 0.0
        self._settle(0.0)

    def renew(self, share: cython.const[cython.double][::1], y: cython.const[cython.double][::1]):
        """Take other weights and labels at the same scores, and fit the straight line."""
        if not share.shape[0] == y.shape[0] == self._z.shape[0]:
            raise ValueError("lengths differ")
        self._share[:] = share
        self._y[:] = y
        self._set_products()
        self._begin()

    def most(self):
        """Return the largest |u|."""
        i: cython.Py_ssize_t
        largest: cython.double = 0.0
        for i in range(self._u.shape[0]):
            largest = max(largest, fabs(self._u[i]))
        return largest

    def number(self, smallest):
        """Return the number of kinks above this share of the largest one, and above `flat`."""
        i: cython.Py_ssize_t
        number: cython.Py_ssize_t = 0
        largest: cython.double = 0.0
        for i in range(self._number):
            largest = max(largest, fabs(self._kinks[i]))
        for i in range(self._number):
            if fabs(self._kinks[i]) > max(smallest * largest, self._flat):
                number += 1
        return number

    def solve(self, limit, most_rounds):
        """Fit for the penalty `limit` from the active set of the last one; returns a status."""
        several: cython.bint = True
        before: cython.Py_ssize_t
        self._settle(limit)
        for self.rounds in range(most_rounds):
            self.excess = self._largest - limit
            if not self._finite:
                self.excess = _INFINITY
                return _NOT_FINITE
            if self.excess <= self._tolerance * limit + self._flat:
                self.excess = max(self.excess, 0.0)
                return _SOLVED
            self._scan(limit)
            before = self._number
            self._before[:before] = self._knots[:before]
            if not several:
                self._added[0], self._violators = self._top, 1
            self._enter(self._violators)
            self._settle(limit)
            # One violator at a time is certain to decrease the objective; several at once usually do.
            several = not self._same(before)
        self.rounds = most_rounds
        return _ITERATION_LIMIT

    @cython.locals(i=cython.Py_ssize_t)
    def _same(self, before: cython.Py_ssize_t):
        """Return whether the knots are unchanged."""
        i = 0
        while i < before and self._before[i] == self._knots[i]:
            i += 1
        return i == before == self._number

    @cython.locals(i=cython.Py_ssize_t, j=cython.Py_ssize_t, top=cython.Py_ssize_t, size=cython.double)
    def _scan(self, limit: cython.double):
        """Find the score with the largest |u|, and add that between each two knots where |u| exceeds the limit."""
        largest: cython.double = 0.0
        self._top, self._violators = -1, 0
        for j in range(self._number - 1):
            top, size = -1, 0.0
            for i in range(self._knots[j] + 1, self._knots[j + 1]):
                if fabs(self._u[i]) > size:
                    top, size = i, fabs(self._u[i])
            if size > largest:
                self._top, largest = top, size
            if size > limit:
                self._added[self._violators] = top
                self._violators += 1

    @cython.locals(i=cython.Py_ssize_t, j=cython.Py_ssize_t, at=cython.Py_ssize_t)
    def _enter(self, number: cython.Py_ssize_t):
        """Add the scores that were written to A."""
        i, j = self._number - 1, number - 1
        self._number += number
        at = self._number - 1
        while j >= 0:
            if self._knots[i] > self._added[j]:
                self._knots[at], self._signs[at], self._kinks[at] = self._knots[i], self._signs[i], self._kinks[i]
                i -= 1
            else:
                self._knots[at], self._kinks[at] = self._added[j], 0.0
                self._signs[at] = 1.0 if self._u[self._added[j]] > 0.0 else -1.0
                j -= 1
            at -= 1

    @cython.locals(i=cython.Py_ssize_t, end=cython.Py_ssize_t, least=cython.double, share=cython.double)
    def _settle(self, limit: cython.double):
        """Move to the solution on A; scores whose v changes sign on the way leave A."""
        if self._z.shape[0] < 2:
            return
        while True:
            self._solve_on_knots(limit)
            least = _INFINITY
            for i in range(self._number):
                if self._solved[i] * self._signs[i] < 0.0:
                    least = min(least, self._kinks[i] / (self._kinks[i] - self._solved[i]))
            if least == _INFINITY:
                break
            end = 0
            for i in range(self._number):
                if self._solved[i] * self._signs[i] < 0.0:
                    share = self._kinks[i] / (self._kinks[i] - self._solved[i])
                    if share == least:
                        continue
                self._knots[end], self._signs[end] = self._knots[i], self._signs[i]
                self._kinks[end] = self._kinks[i] + least * (self._solved[i] - self._kinks[i])
                end += 1
            self._number = end
        for i in range(self._number):
            self._kinks[i] = self._solved[i]
        self._set_fit()

    def _set_fit(self):
        """Set p and u at every score, from the values at the knots, and find the largest |u| elsewhere."""
        last: cython.Py_ssize_t = self._z.shape[0] - 1
        self._largest = trace(
            self._z, self._gap, self._share, self._product, self._knots, self._number, self._values, self._fit, self._u
        )
        self._finite = self._u[last] - self._u[last] == 0.0 and self._fit[last] - self._fit[last] == 0.0

    @cython.locals(i=cython.Py_ssize_t, stop=cython.Py_ssize_t, left=cython.double, right=cython.double)
    @cython.locals(w_left=cython.double, w_right=cython.double)
    def _set_sums(self, first: cython.Py_ssize_t, end: cython.Py_ssize_t):
        """Set the sums of a piece."""
        start: cython.double = self._z[first]
        scale: cython.double = 1.0 / (self._z[end] - start)
        left_left: cython.double = 0.0
        left_right: cython.double = 0.0
        right_right: cython.double = 0.0
        left_y: cython.double = 0.0
        right_y: cython.double = 0.0
        stop = end + 1 if end == self._z.shape[0] - 1 else end
        for i in range(first, stop):
            right = (self._z[i] - start) * scale
            left = 1.0 - right
            w_left, w_right = self._share[i] * left, self._share[i] * right
            left_left += w_left * left
            left_right += w_left * right
            right_right += w_right * right
            left_y += self._product[i] * left
            right_y += self._product[i] * right
        self._sums[first, 0], self._sums[first, 1], self._sums[first, 2] = left_left, left_right, right_right
        self._sums[first, 3], self._sums[first, 4] = left_y, right_y
        self._end[first] = end

    @cython.locals(j=cython.Py_ssize_t, first=cython.Py_ssize_t, last=cython.Py_ssize_t)
    @cython.locals(width=cython.double, tension=cython.double, slope=cython.double, before=cython.double)
    def _solve_on_knots(self, limit: cython.double):
        """Set the values and kinks of the solution on A at its knots; NaN if the system has no Cholesky factor."""
        last = self._number - 1
        for j in range(self._number):
            self._diagonal[j] = self._values[j] = self._solved[j] = 0.0
        for j in range(last):
            first = self._knots[j]
            if self._end[first] != self._knots[j + 1]:
                self._set_sums(first, self._knots[j + 1])
            width = self._z[self._knots[j + 1]] - self._z[first]
            tension = 0.5 * limit * ((self._signs[j + 1] - self._signs[j]) / width) if last > 1 else 0.0
            self._diagonal[j] += self._sums[first, 0]
            self._diagonal[j + 1] = self._sums[first, 2]
            self._beside[j] = self._sums[first, 1]
            self._values[j] += self._sums[first, 3] - tension
            self._values[j + 1] = self._sums[first, 4] + tension
        for j in range(self._number):
            self._diagonal[j] *= 1.0 + self._ridge
        self._solve_tridiagonal()
        before = 0.0
        for j in range(last):
            slope = (self._values[j + 1] - self._values[j]) / (self._z[self._knots[j + 1]] - self._z[self._knots[j]])
            if j > 0:
                self._solved[j] = slope - before
            before = slope

    @cython.locals(j=cython.Py_ssize_t, last=cython.Py_ssize_t, off=cython.double)
    def _solve_tridiagonal(self):
        """Solve for the values, which are the right-hand side, by LDLᵀ as LAPACK's dptsv does."""
        last = self._number - 1
        j = 0
        while j < last and self._diagonal[j] > 0.0:
            off = self._beside[j]
            self._beside[j] = off / self._diagonal[j]
            self._diagonal[j + 1] -= self._beside[j] * off
            self._values[j + 1] -= self._values[j] * self._beside[j]
            j += 1
        if not self._diagonal[j] > 0.0:
            for j in range(self._number):
                self._values[j] = _NAN
            return
        self._values[last] /= self._diagonal[last]
        for j in range(last - 1, -1, -1):
            self._values[j] = self._values[j] / self._diagonal[j] - self._values[j + 1] * self._beside[j]


@cython.locals(i=cython.Py_ssize_t, j=cython.Py_ssize_t, first=cython.Py_ssize_t, end=cython.Py_ssize_t)
@cython.locals(start=cython.double, low=cython.double, slope=cython.double, p=cython.double, u_next=cython.double)
def trace(z, gap, share, product, knots, number, values, fit, u):
    """Set p and u at every score, from the values at the knots; return the largest |u| elsewhere."""
    excess: cython.double = 0.0
    largest: cython.double = 0.0
    u_next = u[0] = 0.0
    for j in range(number - 1):
        first, end = knots[j], knots[j + 1]
        start, low = z[first], values[j]
        slope = (values[j + 1] - low) / (z[end] - start)
        for i in range(first, end):
            if i > first:
                largest = max(largest, fabs(u_next))
            p = low + slope * (z[i] - start)
            fit[i] = p
            excess += product[i] - share[i] * p
            u_next += excess * gap[i]
            u[i + 1] = u_next
    fit[knots[number - 1]] = values[number - 1]
    return largest
