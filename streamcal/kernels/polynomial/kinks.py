# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The active set of ℓ₁ linear trend filtering; the symbols are those of `solvers/trend_filter.py`.

A piece is the cells from one knot up to the next, the last one included in the last piece. Its sums for the tridiagonal
system depend on nothing but its two knots: they are kept, and made anew only for pieces with a new end.

For other labels at the same scores, each penalty of a path starts from the knots, signs and kinks that the penalty at
its place had for the last labels. The solution is a function of A and the signs, and these are nearly always the ones
that a path without a start finds.
"""

from __future__ import annotations

import math

import cython
import numpy as np
from cython.cimports.libc.math import fabs, log

SOLVED, NOT_FINITE, ITERATION_LIMIT = 0, 1, 2

_SOLVED = cython.declare(cython.int, SOLVED)
_NOT_FINITE = cython.declare(cython.int, NOT_FINITE)
_ITERATION_LIMIT = cython.declare(cython.int, ITERATION_LIMIT)
_INFINITY = cython.declare(cython.double, math.inf)
_NAN = cython.declare(cython.double, math.nan)


@cython.final
@cython.cclass
class Kinks:
    """The fit to k ≥ 1 scores z in [0, 1] with shares of the weight and mean labels, for one penalty after another.

    Parameters
    ----------
    z, share, y : array of shape (k,)
    ridge, tolerance, flat : float
        RIDGE, TOLERANCE and FLAT of `solvers/trend_filter.py`.
    """

    fit = cython.declare(object, visibility="readonly")
    """p at every score."""
    rounds = cython.declare(cython.Py_ssize_t, visibility="readonly")
    """Rounds of the last solve."""
    excess = cython.declare(cython.double, visibility="readonly")
    """By how much |u| exceeds the penalty."""
    _z: cython.double[::1]
    _share: cython.double[::1]
    _y: cython.double[::1]
    _fit: cython.double[::1]
    _u: cython.double[::1]
    _ridge: cython.double
    _tolerance: cython.double
    _flat: cython.double
    _number: cython.Py_ssize_t  # of knots: A and the two ends
    _knots: cython.Py_ssize_t[::1]
    _signs: cython.double[::1]  # 0 at the ends
    _kinks: cython.double[::1]
    _before: cython.Py_ssize_t[::1]  # scratch: the knots before a round
    _added: cython.Py_ssize_t[::1]
    _values: cython.double[::1]
    _found: cython.double[::1]  # kinks of the solution on A
    _diagonal: cython.double[::1]
    _beside: cython.double[::1]
    _end: cython.Py_ssize_t[::1]  # by the first cell of a piece: its last knot when its sums were made, or −1
    _sums: cython.double[:, ::1]  # Σω left², Σω left·right, Σω right², Σω left·y, Σω right·y
    _finite: cython.bint
    _top: cython.Py_ssize_t  # the first score with the largest |u| of those that are no knots, −1 if there is none
    _violators: cython.Py_ssize_t  # scores in `_added`
    # Of each penalty of the last path and of this one, one after another: knots, signs and kinks; where they begin.
    _last: cython.double[:, ::1]
    _last_starts: list
    _path: cython.double[:, ::1]
    _starts: list

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
        self._signs, self._kinks, self._values, self._found, self._diagonal, self._beside = np.zeros((6, k))
        self._end, self._sums = np.full(k, -1, dtype=np.intp), np.zeros((k, 5))
        self.rounds, self.excess = 0, 0.0
        self._last, self._path = np.zeros((3, 0)), np.zeros((3, 0))
        self._last_starts, self._starts = [0], [0]
        self._begin()

    @cython.cfunc
    @cython.exceptval(check=False)
    def _begin(self) -> cython.void:
        """Fit the straight line."""
        last: cython.Py_ssize_t = self._z.shape[0] - 1
        self._number, self._finite = min(last + 1, 2), True
        self._knots[0] = 0
        self._knots[self._number - 1] = last
        self._signs[0] = self._signs[self._number - 1] = 0.0
        self._kinks[0] = self._kinks[self._number - 1] = 0.0
        self._settle(0.0)

    def renew(self, share: cython.const[cython.double][::1], y: cython.const[cython.double][::1]):
        """Take other weights and labels at the same scores; `follow` then starts from the path followed last."""
        if not share.shape[0] == y.shape[0] == self._z.shape[0]:
            raise ValueError("lengths differ")
        self._share[:] = share
        self._y[:] = y
        self._end[:] = -1
        self._last, self._path = self._path, self._last
        self._last_starts, self._starts = self._starts, [0]
        self._begin()

    def follow(self, limit: cython.double, most_rounds: cython.Py_ssize_t) -> cython.int:
        """`solve` for the next penalty of a path, which starts where that of the last path ended, and is kept."""
        status: cython.int
        step: cython.Py_ssize_t
        known: cython.bint
        # While memory is allocated another thread may take over; nowhere below.
        while self._path.shape[1] < self._needed():
            longer: cython.double[:, ::1] = np.zeros((3, 2 * self._needed()))
            if longer.shape[1] > self._path.shape[1]:
                longer[:, : self._path.shape[1]] = self._path
                self._path = longer
        step = len(self._starts) - 1
        known = step < len(self._last_starts) - 1
        if known:
            self._recall(self._last_starts[step], self._last_starts[step + 1])
        status = self.solve(limit, most_rounds)
        if known and status != _SOLVED:
            self._begin()
            status = self.solve(limit, most_rounds)
        self._keep(self._starts[step])
        return status

    @cython.cfunc
    def _needed(self) -> cython.Py_ssize_t:
        """Return the room for what is kept and as many knots as there are scores."""
        return self._starts[len(self._starts) - 1] + self._z.shape[0]

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(i=cython.Py_ssize_t)
    def _recall(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.void:
        """Move to what was kept."""
        self._number = stop - start
        for i in range(self._number):
            self._knots[i] = cython.cast(cython.Py_ssize_t, self._last[0, start + i])
            self._signs[i], self._kinks[i] = self._last[1, start + i], self._last[2, start + i]

    @cython.cfunc
    @cython.locals(i=cython.Py_ssize_t)
    def _keep(self, start: cython.Py_ssize_t) -> cython.void:
        """Keep knots, signs and kinks."""
        for i in range(self._number):
            self._path[0, start + i] = self._knots[i]
            self._path[1, start + i], self._path[2, start + i] = self._signs[i], self._kinks[i]
        self._starts.append(start + self._number)

    def deviance(
        self,
        centre: cython.double,
        group: cython.const[cython.Py_ssize_t][:],
        weight: cython.const[cython.double][:],
        mean: cython.const[cython.double][:],
        doubt: cython.double,
    ) -> cython.double:
        """−2 Σ w (ȳ log p + (1 − ȳ) log(1 − p)), p = centre + fit[group], limited to [doubt, 1 − doubt]."""
        i: cython.Py_ssize_t
        p: cython.double
        total: cython.double = 0.0
        if not group.shape[0] == weight.shape[0] == mean.shape[0]:
            raise ValueError("lengths differ")
        for i in range(group.shape[0]):
            p = min(max(centre + self._fit[group[i]], doubt), 1.0 - doubt)
            total += weight[i] * (mean[i] * log(p) + (1.0 - mean[i]) * log(1.0 - p))
        return -2.0 * total

    def most(self):
        """Return the largest |u|."""
        return float(np.abs(np.asarray(self._u)).max())

    def number(self, smallest: cython.double):
        """Return the number of kinks above this share of the largest one, and above `flat`."""
        i: cython.Py_ssize_t
        found: cython.Py_ssize_t = 0
        largest: cython.double = 0.0
        for i in range(self._number):
            largest = max(largest, fabs(self._kinks[i]))
        for i in range(self._number):
            if fabs(self._kinks[i]) > max(smallest * largest, self._flat):
                found += 1
        return found

    def solve(self, limit: cython.double, most_rounds: cython.Py_ssize_t) -> cython.int:
        """Fit for the penalty `limit` from the active set of the last one; returns a status."""
        several: cython.bint = True
        before: cython.Py_ssize_t
        self._settle(limit)
        for self.rounds in range(most_rounds):
            self._scan(limit)
            self.excess = (fabs(self._u[self._top]) if self._top >= 0 else 0.0) - limit
            if not self._finite:
                self.excess = _INFINITY
                return _NOT_FINITE
            if self.excess <= self._tolerance * limit + self._flat:
                self.excess = max(self.excess, 0.0)
                return _SOLVED
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

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(i=cython.Py_ssize_t)
    def _same(self, before: cython.Py_ssize_t) -> cython.bint:
        """Return whether the knots are unchanged."""
        i = 0
        while i < before and self._before[i] == self._knots[i]:
            i += 1
        return i == before == self._number

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(i=cython.Py_ssize_t, j=cython.Py_ssize_t, top=cython.Py_ssize_t, size=cython.double)
    def _scan(self, limit: cython.double) -> cython.void:
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

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(i=cython.Py_ssize_t, j=cython.Py_ssize_t, at=cython.Py_ssize_t)
    def _enter(self, number: cython.Py_ssize_t) -> cython.void:
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

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(i=cython.Py_ssize_t, kept=cython.Py_ssize_t, least=cython.double, share=cython.double)
    def _settle(self, limit: cython.double) -> cython.void:
        """Move to the solution on A; scores whose v changes sign on the way leave A."""
        if self._z.shape[0] < 2:
            return
        while True:
            self._solve_on_knots(limit)
            least = _INFINITY
            for i in range(self._number):
                if self._found[i] * self._signs[i] < 0.0:
                    least = min(least, self._kinks[i] / (self._kinks[i] - self._found[i]))
            if least == _INFINITY:
                break
            kept = 0
            for i in range(self._number):
                if self._found[i] * self._signs[i] < 0.0:
                    share = self._kinks[i] / (self._kinks[i] - self._found[i])
                    if share == least:
                        continue
                self._knots[kept], self._signs[kept] = self._knots[i], self._signs[i]
                self._kinks[kept] = self._kinks[i] + least * (self._found[i] - self._kinks[i])
                kept += 1
            self._number = kept
        for i in range(self._number):
            self._kinks[i] = self._found[i]
        self._set_fit()

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(i=cython.Py_ssize_t, j=cython.Py_ssize_t, stop=cython.Py_ssize_t, right=cython.double)
    @cython.locals(start=cython.double, width=cython.double, low=cython.double, high=cython.double)
    def _set_fit(self) -> cython.void:
        """Set p and u at every score, from the values at the knots."""
        excess: cython.double = 0.0
        u: cython.double = 0.0
        last: cython.Py_ssize_t = self._z.shape[0] - 1
        for j in range(self._number - 1):
            start = self._z[self._knots[j]]
            width = self._z[self._knots[j + 1]] - start
            low, high = self._values[j], self._values[j + 1]
            stop = last + 1 if j == self._number - 2 else self._knots[j + 1]
            for i in range(self._knots[j], stop):
                right = (self._z[i] - start) / width
                self._fit[i] = (1.0 - right) * low + right * high
        for i in range(last):
            excess += self._share[i] * (self._y[i] - self._fit[i])
            u += 2.0 * excess * (self._z[i + 1] - self._z[i])
            self._u[i + 1] = u
        self._finite = u - u == 0.0 and self._fit[last] - self._fit[last] == 0.0

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(i=cython.Py_ssize_t, stop=cython.Py_ssize_t, left=cython.double, right=cython.double)
    @cython.locals(w_left=cython.double, w_right=cython.double, k=cython.int)
    def _set_sums(self, first: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.void:
        """Set the sums of a piece."""
        start: cython.double = self._z[first]
        width: cython.double = self._z[end] - start
        for k in range(5):
            self._sums[first, k] = 0.0
        stop = end + 1 if end == self._z.shape[0] - 1 else end
        for i in range(first, stop):
            right = (self._z[i] - start) / width
            left = 1.0 - right
            w_left, w_right = self._share[i] * left, self._share[i] * right
            self._sums[first, 0] += w_left * left
            self._sums[first, 1] += w_left * right
            self._sums[first, 2] += w_right * right
            self._sums[first, 3] += w_left * self._y[i]
            self._sums[first, 4] += w_right * self._y[i]
        self._end[first] = end

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(j=cython.Py_ssize_t, first=cython.Py_ssize_t, last=cython.Py_ssize_t)
    @cython.locals(width=cython.double, tension=cython.double, slope=cython.double, before=cython.double)
    def _solve_on_knots(self, limit: cython.double) -> cython.void:
        """Values and kinks at the knots of the solution on A; NaN where the system has no Cholesky factor."""
        last = self._number - 1
        for j in range(self._number):
            self._diagonal[j] = self._values[j] = self._found[j] = 0.0
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
                self._found[j] = slope - before
            before = slope

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(j=cython.Py_ssize_t, last=cython.Py_ssize_t, one=cython.double)
    def _solve_tridiagonal(self) -> cython.void:
        """Solve for the values, which are the right-hand side, by LDLᵀ as LAPACK's dptsv does."""
        last = self._number - 1
        j = 0
        while j < last and self._diagonal[j] > 0.0:
            one = self._beside[j]
            self._beside[j] = one / self._diagonal[j]
            self._diagonal[j + 1] -= self._beside[j] * one
            self._values[j + 1] -= self._values[j] * self._beside[j]
            j += 1
        if not self._diagonal[j] > 0.0:
            for j in range(self._number):
                self._values[j] = _NAN
            return
        self._values[last] /= self._diagonal[last]
        for j in range(last - 1, -1, -1):
            self._values[j] = self._values[j] / self._diagonal[j] - self._values[j + 1] * self._beside[j]
