# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Bins of equal frequency in many binnings, kept up to date while cells change.

    w_i, W, rank    as in `cell_bins`; q_i = rank_i/W·(1 + slack)
    B, b            a binning, and one of its bins: a used cell is in bin ⌊B·q_i⌋
    e[B, b]         the edge of a bin: the first used cell in bin b or above; the number of cells where there is none

An observation moves every q_i, but few of them past a fraction b/B. So each used cell keeps the neighbours of q_i among
the fractions of denominators up to the largest B (a Farey sequence): l/m ≤ q_i < r/s with r·m − l·s = 1. While they
stay its neighbours, the cell stays in its bin of every binning; where it passes r/s, the edges of bin k·r in the
binnings k·s move by one cell. Bins beside moved edges, and those of the cells that have changed, are listed.

All that is kept is a function of the cells alone, whatever was followed: the neighbours by their definition. The fields
are declared in `bin_edges.pxd`.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.streamcal.kernels.cells.cell_bins import CellTree
from cython.cimports.streamcal.kernels.cells.cell_sums import CellSums

_MOST_CHANGES = cython.declare(cython.int, 2**16)
"""Bins that may change at once. Where more do, everything is computed again."""


class BinEdges(CellTree):
    """The edges of the bins of binnings `_low` to `_high` for the cells of `sums`.

    A bin b of binning B is at B·(B − 1)/2 + b of flat arrays.
    """

    def __init__(self, sums: CellSums, centres, find: object, slack: cython.double):
        CellTree.__init__(self, sums, centres, find)
        cells = len(centres)
        self._slack = 1.0 + slack
        self._low, self._high, self._listed, self._left = 1, 0, 0, 0
        self._used = np.zeros(cells, dtype=np.int8)
        self._list, self._count = np.zeros(cells, dtype=np.intc), 0
        self._rank, self._inside = np.zeros(cells), np.zeros(cells)
        self._below_w, self._below_p = np.zeros(cells + 1), np.zeros(cells + 1)
        self._near = np.zeros((cells, 4), dtype=np.intc)
        self._edge = np.zeros(0, dtype=np.intc)
        self._is_changed = np.zeros(0, dtype=np.int8)
        self._changes = np.zeros((2, 0), dtype=np.intc)

    @cython.locals(i=cython.Py_ssize_t)
    def _list_used(self) -> cython.void:
        """List the cells with a weight."""
        self._count = 0
        for i in range(self._rank.shape[0]):
            if self._w[self._size + i] > 0.0:
                self._list[self._count] = cython.cast(cython.int, i)
                self._count += 1

    @cython.locals(
        i=cython.Py_ssize_t, k=cython.Py_ssize_t, w=cython.double, below=cython.double, positive=cython.double
    )
    def _set_ranks(self) -> cython.void:
        """Set the ranks of the listed cells. Weights are summed one by one, as `middle_ranks` does."""
        below, positive = 0.0, 0.0
        for k in range(self._count):
            i = self._list[k]
            w = self._w[self._size + i]
            self._below_w[i], self._below_p[i] = below, positive
            below += w
            positive += self._p[self._size + i]
            self._rank[i] = (below - 0.5 * w) * self._slack
        self._below_w[self._rank.shape[0]], self._below_p[self._rank.shape[0]] = below, positive

    @cython.locals(bins=cython.Py_ssize_t)
    def _reserve(self) -> cython.void:
        """Enlarge the arrays for the largest binning, and an eighth more."""
        bins = self._high * (self._high + 1) // 2
        if bins > self._edge.shape[0]:
            bins += bins // 8
            more: cython.Py_ssize_t = bins - self._edge.shape[0]
            self._edge = np.concatenate((self._edge, np.zeros(more, dtype=np.intc)))
            self._is_changed = np.zeros(bins, dtype=np.int8)
            self._changes = np.zeros((2, min(bins, _MOST_CHANGES)), dtype=np.intc)

    @cython.locals(i=cython.Py_ssize_t, k=cython.Py_ssize_t, first=cython.Py_ssize_t, common=cython.Py_ssize_t)
    def _move(self, changed: cython.int[::1], low: cython.Py_ssize_t, high: cython.Py_ssize_t) -> cython.bint:
        """Follow changed cells from the binnings low … high; False where too much has changed.

        A changed cell that has begun to be used is i, one that has ceased to be used −1 − i.
        """
        first, common = max(low, self._low), min(high, self._high)
        self._listed, self._left = 0, high * (high + 1) // 2
        for k in range(changed.shape[0]):
            i = changed[k]
            if self._used[i] and not self._w[self._size + i] > 0.0:
                self._used[i], changed[k] = 0, cython.cast(cython.int, -1 - i)
        for k in range(self._count):
            i = self._list[k]
            if self._used[i] and not self._passed(i, first, common, common < high):
                return self._give_up()
        for k in range(changed.shape[0]):  # cells left first: then all neighbours of those that enter are used
            if changed[k] < 0:
                self._set_edges_at(-1 - changed[k], first, common)
        for k in range(changed.shape[0]):
            i = changed[k]
            if i < 0 or not self._w[self._size + i] > 0.0:
                continue
            if self._used[i]:
                self._change_bins_of(i, first, common)
            else:
                self._set_near(i, 0, 1, 1, 1)
                self._refine(i, common)
                self._used[i] = 1
                self._set_edges_at(i, first, common)
        if self._listed > _MOST_CHANGES:
            return self._give_up()
        if self._high > high:
            for k in range(self._count):
                self._refine(self._list[k], self._high)
        return True

    def _give_up(self) -> cython.bint:
        """Empty the list of changed bins."""
        self._is_changed[:] = 0
        self._listed = 0
        return False

    @cython.locals(left=cython.int, under=cython.int, right=cython.int, over=cython.int, k=cython.int)
    def _passed(
        self, i: cython.Py_ssize_t, low: cython.Py_ssize_t, high: cython.Py_ssize_t, shrinks: cython.bint
    ) -> cython.bint:
        """Move a used cell past the fractions that it has passed; False where these are too many.

        The next fraction after two neighbours l/m and r/s in a Farey sequence is (k·r − l)/(k·s − m), with the largest
        k for which its denominator is allowed.
        """
        rank: cython.double = self._rank[i]
        total: cython.double = self._w[1]
        left, under, right, over = self._near[i, 0], self._near[i, 1], self._near[i, 2], self._near[i, 3]
        if not shrinks and rank * under >= left * total and (rank * over < right * total or right == over):
            return True
        while under > high or over > high:  # the one with the larger denominator is between those of its neighbours
            if under > over:
                left, under = left - right, under - over
            else:
                right, over = right - left, over - under
        while right < over and rank * over >= right * total:
            if not self._move_edges(right, over, i, False, low, high):
                return False
            k = cython.cast(cython.int, (high + under) // over)
            left, under, right, over = right, over, k * right - left, k * over - under
        while rank * under < left * total:
            if not self._move_edges(left, under, self._next_used(i), True, low, high):
                return False
            k = cython.cast(cython.int, (high + over) // under)
            left, under, right, over = k * left - right, k * under - over, left, under
        self._set_near(i, left, under, right, over)
        return True

    def _set_near(
        self, i: cython.Py_ssize_t, left: cython.int, under: cython.int, right: cython.int, over: cython.int
    ) -> cython.void:
        self._near[i, 0], self._near[i, 1], self._near[i, 2], self._near[i, 3] = left, under, right, over
        self._inside[i] = (cython.cast(cython.double, left) + right) / (cython.cast(cython.double, under) + over)

    @cython.locals(binning=cython.Py_ssize_t, b=cython.Py_ssize_t)
    def _move_edges(
        self,
        above: cython.int,
        below: cython.int,
        cell: cython.Py_ssize_t,
        up: cython.bint,
        low: cython.Py_ssize_t,
        high: cython.Py_ssize_t,
    ) -> cython.bint:
        """Move the edges at the fraction above/below up to a cell, or down to it; False where too many were moved.

        Cells come in ascending order: of those that pass a fraction upwards the first one is at its edge, and of those
        that pass it downwards the last one is below it.
        """
        binning, b = below, above
        while binning <= high:
            if binning >= low:
                if up or self._edge[_first(binning) + b] > cell:
                    self._edge[_first(binning) + b] = cython.cast(cython.int, cell)
                self._change(binning, b - 1)
                self._change(binning, b)
            binning += below
            b += above
        self._left -= 1
        return self._left >= 0

    def _change(self, binning: cython.Py_ssize_t, b: cython.Py_ssize_t) -> cython.void:
        """List a bin, once."""
        if self._is_changed[_first(binning) + b]:
            return
        self._is_changed[_first(binning) + b] = 1
        if self._listed < self._changes.shape[1]:
            self._changes[0, self._listed] = cython.cast(cython.int, binning)
            self._changes[1, self._listed] = cython.cast(cython.int, b)
        self._listed += 1

    @cython.locals(binning=cython.Py_ssize_t)
    def _change_bins_of(self, i: cython.Py_ssize_t, low: cython.Py_ssize_t, high: cython.Py_ssize_t) -> cython.void:
        """List the bins of a used cell."""
        for binning in range(low, high + 1):
            self._change(binning, self._bin(binning, i))

    def _bin(self, binning: cython.Py_ssize_t, i: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the bin of a used cell: that of any number between its neighbours."""
        return cython.cast(cython.Py_ssize_t, binning * self._inside[i])

    @cython.locals(before=cython.Py_ssize_t, after=cython.Py_ssize_t, binning=cython.Py_ssize_t, b=cython.Py_ssize_t)
    @cython.locals(first=cython.Py_ssize_t, last=cython.Py_ssize_t, own=cython.Py_ssize_t)
    def _set_edges_at(self, i: cython.Py_ssize_t, low: cython.Py_ssize_t, high: cython.Py_ssize_t) -> cython.void:
        """Set the edges between the neighbours of a cell that has begun or ceased to be used."""
        before, after = i - 1, self._next_used(i)
        while before >= 0 and not self._used[before]:
            before -= 1
        for binning in range(low, high + 1):
            own = self._bin(binning, i)
            self._change(binning, own)
            first, last = 0, binning - 1
            if before >= 0:
                first = self._bin(binning, before)
                self._change(binning, first)
                first += 1
            if after < self._used.shape[0]:
                last = self._bin(binning, after)
                self._change(binning, last)
            for b in range(first, last + 1):
                self._edge[_first(binning) + b] = cython.cast(cython.int, i if self._used[i] and b <= own else after)

    def _next_used(self, i: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the next used cell above, or the number of cells."""
        i += 1
        while i < self._used.shape[0] and not self._used[i]:
            i += 1
        return i

    @cython.locals(left=cython.int, under=cython.int, right=cython.int, over=cython.int)
    def _refine(self, i: cython.Py_ssize_t, high: cython.Py_ssize_t) -> cython.void:
        """Narrow the neighbours of a used cell to those among denominators up to `high`."""
        rank: cython.double = self._rank[i]
        total: cython.double = self._w[1]
        left, under, right, over = self._near[i, 0], self._near[i, 1], self._near[i, 2], self._near[i, 3]
        while under + over <= high:
            if rank * (under + over) >= (left + right) * total:
                left, under = left + right, under + over
            else:
                right, over = left + right, under + over
        self._set_near(i, left, under, right, over)

    @cython.locals(k=cython.Py_ssize_t)
    def _find_neighbours(self) -> cython.void:
        """Compute which cells are used, and the neighbours of their ranks, from the cells."""
        self._give_up()
        self._used[:] = 0
        for k in range(self._count):
            self._used[self._list[k]] = 1
            self._set_near(self._list[k], 0, 1, 1, 1)
            self._refine(self._list[k], self._high)

    @cython.locals(k=cython.Py_ssize_t, b=cython.Py_ssize_t, last=cython.Py_ssize_t, start=cython.Py_ssize_t)
    def _set_edges(self, binning: cython.Py_ssize_t) -> cython.void:
        """Compute the edges of a binning from the cells."""
        start, b = _first(binning), 0
        for k in range(self._count):
            last = self._bin(binning, self._list[k])
            while b <= last:
                self._edge[start + b] = self._list[k]
                b += 1
        while b < binning:
            self._edge[start + b] = cython.cast(cython.int, self._used.shape[0])
            b += 1

    def _stop(self, binning: cython.Py_ssize_t, b: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the edge above a bin."""
        return self._edge[_first(binning) + b + 1] if b + 1 < binning else self._used.shape[0]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _first(binning: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the place of the first bin of a binning."""
    return binning * (binning - 1) // 2
