# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Shares of positives among the cells beside a score: of a bin of equal frequency, and of the nearest scores.

    w_i, p_i    weight and positive weight of cell i; it is used where w_i > 0
    C_i         the weight of the cells below i
    W           the weight of all
    rank        of a used cell: C_i + w_i/2

`CellTree` keeps the sums of w and p over 1, 2, 4, … neighbouring cells. Each is the sum of two others, so that it is a
function of the cells alone, however they came about, and nothing is ever subtracted. A changed cell costs O(log cells).
Its fields are declared in `cell_bins.pxd`.
"""

from __future__ import annotations

import math

import cython
import numpy as np
from cython.cimports.streamcal.kernels.cells.cell_sums import CellRows, CellSums

_NAN = cython.declare(cython.double, math.nan)


class CellTree:
    """The tree over the cells of `sums`, brought up to date when it is read. There can be one for each `CellSums`."""

    def __init__(self, sums: CellSums, centres, find: object):
        self.sums = sums
        self._centres = np.array(centres, dtype=np.float64)
        self._round = find
        self._size = 1
        while self._size < len(centres):
            self._size *= 2
        self._w, self._p = np.zeros(2 * self._size), np.zeros(2 * self._size)

    def at(self, x: cython.double) -> cython.double:
        """Return the share of positives at a coordinate, NaN where nothing is held."""
        return self._at(self._round(x))

    def run(self, rows: CellRows, predictions: cython.double[::1]):
        """Write the prediction for each row, and then learn it. Without the GIL."""
        i: cython.Py_ssize_t
        if predictions.shape[0] != rows._size:
            raise ValueError("lengths differ")
        with cython.nogil:
            for i in range(rows._size):
                predictions[i] = self._at(rows._cells[i])
                rows._learn(i)

    def _at(self, cell: cython.Py_ssize_t) -> cython.double:
        """Return `at` for a coordinate in this cell."""
        return _NAN

    def _follow(self) -> cython.void:
        """Bring the sums up to date."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        if self.sums._number < 0:
            for i in range(self._centres.shape[0]):
                self._w[self._size + i], self._p[self._size + i] = self.sums._cells[i, 0], self.sums._cells[i, 1]
            for i in range(self._size - 1, 0, -1):
                self._add_up(i)
        for k in range(self.sums._number):
            i = self.sums._changed[k]
            self._w[self._size + i], self._p[self._size + i] = self.sums._cells[i, 0], self.sums._cells[i, 1]
            i = (self._size + i) >> 1
            while i > 0:
                self._add_up(i)
                i >>= 1
        self.sums._number = 0

    def _add_up(self, i: cython.Py_ssize_t) -> cython.void:
        self._w[i] = self._w[2 * i] + self._w[2 * i + 1]
        self._p[i] = self._p[2 * i] + self._p[2 * i + 1]

    def _below(self, cell: cython.Py_ssize_t) -> cython.double:
        """C of a cell."""
        i: cython.Py_ssize_t = self._size + cell
        total: cython.double = 0.0
        while i > 1:
            if i & 1:
                total += self._w[i - 1]
            i >>= 1
        return total

    def _share(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.double:
        """Return the share of positives in the cells from `start` to `stop` − 1."""
        w: cython.double
        p: cython.double
        w, p = self._sums(start, stop)
        return min(max(p / w, 0.0), 1.0)

    def _sums(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> tuple[cython.double, cython.double]:
        """Weight and positive weight of the cells from `start` to `stop` − 1."""
        w: cython.double = 0.0
        p: cython.double = 0.0
        i: cython.Py_ssize_t = self._size + start
        j: cython.Py_ssize_t = self._size + stop
        while i < j:
            if i & 1:
                w, p = w + self._w[i], p + self._p[i]
                i += 1
            if j & 1:
                j -= 1
                w, p = w + self._w[j], p + self._p[j]
            i >>= 1
            j >>= 1
        return w, p

    def _used_before(self, cell: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the last used cell below this one, or −1."""
        i: cython.Py_ssize_t = self._size + cell
        while i > 1 and not (i & 1 and self._w[i - 1] > 0.0):
            i >>= 1
        if i <= 1:
            return -1
        i -= 1
        while i < self._size:
            i = 2 * i + 1 if self._w[2 * i + 1] > 0.0 else 2 * i
        return i - self._size

    def _used_from(self, cell: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the first used cell from this one on, or −1."""
        i: cython.Py_ssize_t = self._size + cell
        if cell >= self._size:
            return -1
        if self._w[i] > 0.0:
            return cell
        while i > 1 and (i & 1 or not self._w[i + 1] > 0.0):
            i >>= 1
        if i <= 1:
            return -1
        i += 1
        while i < self._size:
            i = 2 * i if self._w[2 * i] > 0.0 else 2 * i + 1
        return i - self._size

    def _nearest(self, cell: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the used cell to which a cell belongs; there is one. Between two it is decided by their middle."""
        left: cython.Py_ssize_t
        right: cython.Py_ssize_t = self._used_from(cell)
        middle: cython.double
        if right == cell:
            return cell
        left = self._used_before(cell)
        if left < 0 or right < 0:
            return right if left < 0 else left
        middle = 0.5 * self._centres[left] + 0.5 * self._centres[right]
        if not middle > self._centres[left]:
            middle = self._centres[right]
        return right if self._centres[cell] >= middle else left


@cython.final
@cython.cclass
class FrequencyBins(CellTree):
    """Bins of equal frequency: a used cell is in bin ⌊bins·rank/W·(1 + slack)⌋, or in the last one."""

    _bins: cython.Py_ssize_t
    _slack: cython.double

    def __init__(self, sums: CellSums, centres, find: object, bins: cython.Py_ssize_t, slack: cython.double):
        CellTree.__init__(self, sums, centres, find)
        self._bins, self._slack = bins, 1.0 + slack

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _at(self, cell: cython.Py_ssize_t) -> cython.double:
        """Return the share of positives in the bin of a cell. O(log cells)."""
        self._follow()
        if not self._w[1] > 0.0:
            return _NAN
        return self._of_bin(self._bin_of(self._nearest(cell)))

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _bin(self, rank: cython.double) -> cython.Py_ssize_t:
        place: cython.double = self._bins * rank / self._w[1] * self._slack
        return self._bins - 1 if place >= self._bins else cython.cast(cython.Py_ssize_t, place)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _bin_of(self, cell: cython.Py_ssize_t) -> cython.Py_ssize_t:
        w: cython.double = self._w[self._size + cell]
        return self._bin((self._below(cell) + w) - 0.5 * w)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _of_bin(self, b: cython.Py_ssize_t) -> cython.double:
        """Return the share of positives in a bin that is not empty."""
        stop: cython.Py_ssize_t = self._first(b + 1) if b < self._bins - 1 else -1
        return self._share(self._first(b), self._centres.shape[0] if stop < 0 else stop)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _first(self, b: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the first used cell in bin b or above, −1 if there is none.

        It is the cell in which the weight from below crosses the boundary of the bin, or the next one: the rank of a
        cell lies between the weights below it and up to it.
        """
        i: cython.Py_ssize_t = 1
        below: cython.double = 0.0
        if b == 0:
            return self._used_from(0)
        if self._bin(self._w[1]) < b:
            return -1
        while i < self._size:
            i *= 2
            if self._bin(below + self._w[i]) < b:
                below += self._w[i]
                i += 1
        i -= self._size
        return i if self._bin_of(i) >= b else self._used_from(i + 1)


@cython.final
@cython.cclass
class NearestCells(CellTree):
    """The smallest interval around a score with a fraction of the weight, with all ties at its ends."""

    _fraction: cython.double

    def __init__(self, sums: CellSums, centres, find: object, fraction: cython.double):
        CellTree.__init__(self, sums, centres, find)
        self._fraction = fraction

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _at(self, cell: cython.Py_ssize_t) -> cython.double:
        """Return the share of positives in the interval around a cell.

        Cells are taken in the order of their distance, which midpoints decide: O(number of cells in the interval).
        """
        left: cython.Py_ssize_t
        right: cython.Py_ssize_t
        cells: cython.Py_ssize_t = self._centres.shape[0]
        first: cython.Py_ssize_t = cells
        last: cython.Py_ssize_t = -1
        weight: cython.double = 0.0
        nearer: cython.double  # below 0 where the left one of two is, 0 where both are as near
        self._follow()
        if not self._w[1] > 0.0:
            return _NAN
        left, right = self._used_before(cell), self._used_from(cell)
        right = cells if right < 0 else right
        while weight < self._fraction * self._w[1] and (left >= 0 or right < cells):
            if left < 0 or right == cells:
                nearer = 1.0 if left < 0 else -1.0
            else:
                nearer = self._centres[cell] - _midpoint(self._centres[left], self._centres[right])
            if nearer <= 0.0:
                weight += self._w[self._size + left]
                first, last = left, max(last, left)
                left = self._next(left, -1)
            if nearer >= 0.0:
                weight += self._w[self._size + right]
                first, last = min(first, right), right
                right = self._next(right, 1)
        return self._share(first, last + 1)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _next(self, cell: cython.Py_ssize_t, step: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the next used cell below or above, −1 or the number of cells if there is none."""
        cell += step
        while 0 <= cell < self._centres.shape[0] and not self._w[self._size + cell] > 0.0:
            cell += step
        return cell


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _midpoint(a: cython.double, b: cython.double) -> cython.double:
    """Return (a + b) / 2, also where the sum overflows."""
    both: cython.double = a + b
    return 0.5 * a + 0.5 * b if both - both != 0.0 else 0.5 * both
