# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The sums of the cells of a grid, one observation at a time, and which cells have changed since somebody last asked.

A row of `cells` is weight, positive weight, count, and the coordinate sums of the negative and of the positive weight;
it is zero where its count is. Fields are declared in `cell_sums.pxd`.
"""

from __future__ import annotations

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.streamcal.kernels.fast_path import fast_observation
else:
    from streamcal.kernels.fast_path import fast_observation

MOST_CHANGES = 256
"""More changes than this are not listed: one pass over all cells costs less than following them."""

_MOST_CHANGES = cython.declare(cython.int, MOST_CHANGES)


@cython.cclass
class CellSums:
    """`find` is the function that finds the cell of a coordinate. Whoever writes to `cells` says so by `note`."""

    def __init__(self, cells: cython.Py_ssize_t, find: object):
        self.cells = np.zeros((cells, 5))
        self._cells = self.cells
        self._find = find
        self.count = 0
        self.peak = 0.0  # the largest weight a cell ever had
        self._lo, self._hi = np.inf, -np.inf
        self._changed = np.zeros(MOST_CHANGES, dtype=np.intc)
        self._number = -1

    def add(self, x: cython.double, y: cython.double, w: cython.double):
        """Add an observation. O(1)."""
        self._add(self._find(x), float(x), float(y), float(w))

    def set_fast_range(self, lo: cython.double, hi: cython.double):
        """Set the range of scores that `add_fast` accepts."""
        self._lo, self._hi = lo, hi

    def add_fast(self, score: object, y: object, w: object) -> cython.bint:
        """`add` for an unchecked observation if `fast_observation` accepts it; returns whether it did."""
        if not fast_observation(score, y, w, self._lo, self._hi):
            return False
        self._add(self._find(score), score, 1.0 if y is True else 0.0, w)
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    def _add(self, cell: cython.Py_ssize_t, x: cython.double, y: cython.double, w: cython.double) -> cython.void:
        positive: cython.double = w * y
        self.note(cell)
        self._cells[cell, 0] += w
        self._cells[cell, 1] += positive
        self._cells[cell, 2] += 1.0
        self._cells[cell, 3] += (w - positive) * x
        self._cells[cell, 4] += positive * x
        self.count += 1
        self.peak = max(self.peak, self._cells[cell, 0])

    @cython.ccall
    @cython.exceptval(check=False)
    def note(self, cell: cython.Py_ssize_t) -> cython.void:
        """A cell changes."""
        if 0 <= self._number < _MOST_CHANGES:
            self._changed[self._number] = cell
            self._number += 1
        else:
            self._number = -1

    def note_all(self):
        """Any cell may change."""
        self._number = -1

    def take(self):
        """The cells changed since the last call, some of them repeatedly; None if any may have changed."""
        taken = None if self._number < 0 else [self._changed[i] for i in range(self._number)]
        self._number = 0
        return taken
