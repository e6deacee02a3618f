# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The sums of the cells of a grid, one observation at a time, and which cells have changed since somebody last asked.

A row of `cells` is weight, positive weight, count, and the coordinate sums of the negative and of the positive weight;
it is zero where its count is. Fields are declared in `cell_sums.pxd`.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.libc.math import floor
from cython.cimports.streamcal.kernels.common.fast_path import fast_observation

from streamcal.kernels.tree.hull_changes import RESIDUE

_MOST_CHANGES = cython.declare(cython.int, 256)
"""More changes than this are not listed: one pass over all cells costs less than following them."""

_RESIDUE = cython.declare(cython.double, RESIDUE)


def reduced(
    weight: cython.double, positive: cython.double, w: cython.double, w_positive: cython.double
) -> tuple[cython.double, cython.double]:
    """Weight and positive weight of a row after a retraction; a label of which only rounding is left has none."""
    left: cython.double = max(weight - w, 0.0)
    left_positive: cython.double = min(max(positive - w_positive, 0.0), left)
    left_negative: cython.double
    if left_positive <= _RESIDUE * positive and left_positive != floor(left_positive):
        left_positive = 0.0
    left_negative = left - left_positive
    if left_negative <= _RESIDUE * (weight - positive) and left_negative != floor(left_negative):
        left_positive = left
    return left, left_positive


class CellSums:
    """`find` is the function that finds the cell of a coordinate. Code that writes to `cells` calls `note`."""

    def __init__(self, cells: cython.Py_ssize_t, find: object):
        self.cells = np.zeros((cells, 5))
        self._cells = self.cells
        self._find = find
        self.count = 0
        self.peak = 0.0  # the largest weight a cell ever had
        self._lo, self._hi = np.inf, -np.inf
        self._changed = np.zeros(_MOST_CHANGES, dtype=np.intc)
        self._number = -1
        self._factor = 0.0  # not computed yet

    def add(self, x: cython.double, y: cython.double, w: cython.double):
        """Add an observation. O(1)."""
        self._add(self._find(x), float(x), float(y), float(w))

    def set_fast_range(self, lo: cython.double, hi: cython.double):
        """Set the range of scores that `add_fast` accepts."""
        self._lo, self._hi = lo, hi

    def add_fast(self, score: object, y: object, w: object) -> cython.bint:
        """Do `add` for an unchecked observation if `fast_observation` accepts it; return whether it did."""
        if not fast_observation(score, y, w, self._lo, self._hi):
            return False
        self._add(self._find(score), score, 1.0 if y is True else 0.0, w)
        return True

    def remove(self, cell: cython.Py_ssize_t, x: cython.double, y: cython.double, w: cython.double):
        """Remove an observation that the cell holds. O(1)."""
        self._remove(cell, x, y, w)

    def _add(self, cell: cython.Py_ssize_t, x: cython.double, y: cython.double, w: cython.double) -> cython.void:
        positive: cython.double = w * y
        self._note(cell)
        self._cells[cell, 0] += w
        self._cells[cell, 1] += positive
        self._cells[cell, 2] += 1.0
        self._cells[cell, 3] += (w - positive) * x
        self._cells[cell, 4] += positive * x
        self.count += 1
        self.peak = max(self.peak, self._cells[cell, 0])

    def _remove(self, cell: cython.Py_ssize_t, x: cython.double, y: cython.double, w: cython.double) -> cython.void:
        k: cython.int
        positive: cython.double = w * y
        self._note(cell)
        self.count -= 1
        if self._cells[cell, 2] == 1.0:
            for k in range(5):
                self._cells[cell, k] = 0.0
            return
        self._cells[cell, 0], self._cells[cell, 1] = reduced(self._cells[cell, 0], self._cells[cell, 1], w, positive)
        self._cells[cell, 2] -= 1.0
        self._cells[cell, 3] -= (w - positive) * x
        self._cells[cell, 4] -= positive * x

    def note(self, cell: cython.Py_ssize_t):
        """Mark a cell as changed."""
        self._note(cell)

    def _note(self, cell: cython.Py_ssize_t) -> cython.void:
        if 0 <= self._number < _MOST_CHANGES:
            self._changed[self._number] = cell
            self._number += 1
        else:
            self._number = -1

    def note_all(self):
        """Any cell may change."""
        self._number = -1

    def scale(self, factor: cython.double, lightest: cython.double):
        """Multiply all sums, and empty the cells that then weigh less than `lightest`."""
        i: cython.Py_ssize_t
        k: cython.int
        for i in range(self._cells.shape[0]):
            if self._cells[i, 2] > 0.0:
                for k in range(5):
                    self._cells[i, k] *= 1.0 if k == 2 else factor
                if self._cells[i, 0] < lightest:
                    self._note(i)
                    self.count -= cython.cast(cython.longlong, self._cells[i, 2])
                    for k in range(5):
                        self._cells[i, k] = 0.0
        self.peak *= factor
        if self._factor > 0.0:
            self._factor *= factor
        else:  # to those who only read the list of changes all cells have changed
            self._number = -1

    def take_factor(self):
        """Return the factor by which all sums were multiplied since the last call of this or of `take`."""
        factor = self._factor if self._factor > 0.0 else 1.0
        self._factor = 1.0
        return factor

    def take(self):
        """Return the cells changed since the last call, some of them repeatedly; None if any may have changed.

        Where all sums were scaled, and `take_factor` was not called first, all cells have changed.
        """
        unscaled = self.take_factor() == 1.0
        cells = [self._changed[i] for i in range(self._number)] if self._number >= 0 and unscaled else None
        self._number = 0
        return cells


class CellRows:
    """Rows of a batch that a compiled loop learns in `sums`, one after another.

    `cells` are the cells of `x`. A row of weight 0 is not learned. After each one learned beyond `room`, the next of
    those leaving is removed.
    """

    def __init__(
        self,
        sums: CellSums,
        cells: cython.const[cython.Py_ssize_t][::1],
        x: cython.const[cython.double][::1],
        y: cython.const[cython.double][::1],
        w: cython.const[cython.double][:],
        leaving_cells: cython.const[cython.Py_ssize_t][::1],
        leaving_x: cython.const[cython.double][::1],
        leaving_y: cython.const[cython.double][::1],
        leaving_w: cython.const[cython.double][::1],
        room: cython.Py_ssize_t,
    ):
        if not cells.shape[0] == x.shape[0] == y.shape[0] == w.shape[0]:
            raise ValueError("lengths differ")
        if not leaving_cells.shape[0] == leaving_x.shape[0] == leaving_y.shape[0] == leaving_w.shape[0]:
            raise ValueError("lengths of what leaves differ")
        self._sums, self._cells, self._x, self._y, self._w = sums, cells, x, y, w
        self._leaving_cells, self._leaving_x, self._leaving_y = leaving_cells, leaving_x, leaving_y
        self._leaving_w = leaving_w
        self._next = -room
        self._size = x.shape[0]

    def _learn(self, i: cython.Py_ssize_t) -> cython.bint:
        """Learn a row; whether anything was learned."""
        j: cython.Py_ssize_t = self._next
        if not self._w[i] > 0.0:
            return False
        self._sums._add(self._cells[i], self._x[i], self._y[i], self._w[i])
        if 0 <= j < self._leaving_cells.shape[0]:
            self._sums._remove(self._leaving_cells[j], self._leaving_x[j], self._leaving_y[j], self._leaving_w[j])
        self._next = j + 1
        return True
