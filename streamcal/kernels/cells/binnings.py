# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Bayesian averages over binnings into bins of equal frequency, kept up to date while cells change.

    w_i, W, rank    as in `cell_bins`; q_i = rank_i/W·(1 + slack)
    B, b            a binning, and one of its bins: a used cell is in bin ⌊B·q_i⌋
    e[B, b]         the edge of a bin: the first used cell in bin b or above; the number of cells where there is none
    score(B, b)     the logarithm of the marginal likelihood of the labels in a bin, 0 where it is empty

An observation moves every q_i, but few of them past a fraction b/B. So each used cell keeps the neighbours of q_i among
the fractions of denominators up to the largest B (a Farey sequence): l/m ≤ q_i < r/s with r·m − l·s = 1. While they
stay its neighbours, the cell stays in its bin of every binning; where it passes r/s, the edges of bin k·r in the
binnings k·s move by one cell. Only the bins beside moved edges, and those of the cells that have changed, are scored
anew.

All that is kept is a function of the cells alone, whatever was followed: the neighbours by their definition, the sums
of weights and of scores since they are taken in trees, in which nothing is subtracted.
"""

from __future__ import annotations

import math

import cython
import numpy as np
from cython.cimports.libc.math import exp, log, log1p

if cython.compiled:
    from cython.cimports.streamcal.kernels.cells.cell_bins import CellTree
    from cython.cimports.streamcal.kernels.cells.cell_sums import CellSums
else:
    from streamcal.kernels.cells.cell_bins import CellTree
    from streamcal.kernels.cells.cell_sums import CellSums

MOST_BINS = 2**21
"""The bins of all binnings that are kept, at most: 50 MB. Reached with 2,048 binnings, at nearly 10⁷ observations."""
MOST_CHANGES = 2**16
"""Bins that may change at once. Where more do, everything is computed anew."""

_MOST_BINS = cython.declare(cython.Py_ssize_t, MOST_BINS)
_MOST_CHANGES = cython.declare(cython.int, MOST_CHANGES)
_NAN = cython.declare(cython.double, math.nan)
_LOG_TWO_PI = cython.declare(cython.double, math.log(2.0 * math.pi))
# Arguments of the beta function below this one are raised: Stirling's series is accurate to 1e-16 from there on.
_LARGE = cython.declare(cython.double, 10.0)
# A product beyond this is replaced by its logarithm: one more factor, up to the heaviest weight, does not overflow.
_LONG = cython.declare(cython.double, 1e100)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _stirling(x: cython.double) -> cython.double:
    """Return ln Γ(x) − (x − ½) ln x + x − ½ ln 2π for x ≥ 10."""
    z: cython.double = 1.0 / (x * x)
    return (
        1.0 / 12.0
        - z
        * (
            1.0 / 360.0
            - z * (1.0 / 1260.0 - z * (1.0 / 1680.0 - z * (1.0 / 1188.0 - z * (691.0 / 360360.0 - z * (1.0 / 156.0)))))
        )
    ) / x


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _log_beta(a: cython.double, b: cython.double) -> cython.double:
    """Return ln Β(a, b), a and b > 0, to some 1e-16·(|ln Β| + 1): no difference of two large logarithms."""
    above: cython.double = 1.0
    below: cython.double = 1.0
    found: cython.double = 0.0
    c: cython.double = a + b
    while a < _LARGE or b < _LARGE:  # Β(a, b) = Β(a + 1, b)·(a + b)/a
        above *= c
        if a < _LARGE:
            below *= a
            a += 1.0
        else:
            below *= b
            b += 1.0
        c = a + b
        if above > _LONG:
            found += log(above)
            above = 1.0
    if above != 1.0 or below != 1.0:
        found += log(above / below)
    found += a * (log1p(-b / c) if a > b else log(a / c)) + b * (log1p(-a / c) if b > a else log(b / c))
    return found + 0.5 * (_LOG_TWO_PI + log(c / a / b)) + (_stirling(a) + _stirling(b) - _stirling(c))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _score(n: cython.double, m: cython.double, alpha: cython.double, beta: cython.double) -> cython.double:
    """Return the logarithm of Β(m + α, n − m + β) / Β(α, β)."""
    return _log_beta(m + alpha, max(n - m, 0.0) + beta) - _log_beta(alpha, beta)


@cython.locals(i=cython.Py_ssize_t)
def bin_scores(
    n: cython.const[cython.double][::1],
    m: cython.const[cython.double][::1],
    alpha: cython.const[cython.double][::1],
    beta: cython.const[cython.double][::1],
):
    """Return ln Β(m + α, n − m + β) / Β(α, β) for each bin of weight n, m of it positive; all of shape (bins,)."""
    found = np.empty(n.shape[0])
    out: cython.double[::1] = found
    if not n.shape[0] == m.shape[0] == alpha.shape[0] == beta.shape[0]:
        raise ValueError("lengths differ")
    for i in range(n.shape[0]):
        out[i] = _score(n[i], m[i], alpha[i], beta[i])
    return found


@cython.final
@cython.cclass
class Binnings(CellTree):
    """The average over binnings, for the cells of `sums`.

    Parameters
    ----------
    sums, centres, find
        As of `CellTree`.
    numbers : function of (float, int)
        The range of the numbers of bins, for a total weight and a number of used cells.
    ends : function of an array
        The ends of the stretches of used cells with these centres, as probabilities: k + 1 for k cells.
    slack, size, smallest, negligible : float
        A rank so near below a boundary, relative to it, is on it. The weight of the pseudo-observations of a binning.
        The least distance of their share from 0 and 1. The least posterior, as a share of the best one, that counts.
    """

    _numbers: object
    _ends: object
    _slack: cython.double
    _pseudo: cython.double
    _smallest: cython.double
    _negligible: cython.double
    _busy: cython.bint  # whether the binnings are being updated
    _kept: cython.bint  # whether the binnings from `_low` to `_high` are kept; otherwise they are made when asked for
    _low: cython.Py_ssize_t
    _high: cython.Py_ssize_t
    _used: cython.char[::1]
    _rank: cython.double[::1]  # of a used cell, times 1 + slack
    _near: cython.int[:, ::1]  # of a used cell: l, m, r, s
    _inside: cython.double[::1]  # of a used cell: a number between l/m and r/s
    _border: cython.double[::1]  # the lower end of the stretch of a used cell, and the upper end of the last one
    # Flat arrays with bin b of binning B at B·(B − 1)/2 + b; a tree of the scores of B takes 2·B places, from twice
    # its first one on: node i has the children 2i and 2i + 1, and the leaves begin at B.
    _edge: cython.int[::1]
    _tree: cython.double[::1]
    _is_changed: cython.char[::1]
    _changes: cython.int[:, ::1]  # binnings and bins to be scored anew
    _to_score: cython.int
    _left: cython.Py_ssize_t  # passed fractions that are still followed

    def __init__(
        self,
        sums: CellSums,
        centres,
        find: object,
        numbers: object,
        ends: object,
        slack: cython.double,
        size: cython.double,
        smallest: cython.double,
        negligible: cython.double,
    ):
        CellTree.__init__(self, sums, centres, find)
        cells = len(centres)
        self._numbers, self._ends = numbers, ends
        self._slack, self._pseudo, self._smallest, self._negligible = 1.0 + slack, size, smallest, negligible
        self._busy = False
        self._kept, self._low, self._high, self._to_score, self._left = False, 1, 0, 0, 0
        self._used = np.zeros(cells, dtype=np.int8)
        self._rank, self._inside, self._border = np.zeros(cells), np.zeros(cells), np.zeros(cells + 1)
        self._near = np.zeros((cells, 4), dtype=np.intc)
        self._edge, self._tree = np.zeros(0, dtype=np.intc), np.zeros(0)
        self._is_changed = np.zeros(0, dtype=np.int8)
        self._changes = np.zeros((2, 0), dtype=np.intc)

    def at(self, x: cython.double) -> cython.double:
        """Return the average at a coordinate; NaN without observations, or with more than `MOST_BINS` bins."""
        if self.sums._number != 0 or not self._kept:
            if self._busy:
                raise RuntimeError("two threads use a calibrator at once: let them take turns by a lock")
            self._busy = True  # the update calls Python, where another thread may take over
            try:
                self._update()
            finally:
                self._busy = False
        return self._average(self._nearest(self._round(x))) if self._kept else _NAN

    # -- following the cells -------------------------------------------------------------------------------------

    @cython.cfunc
    def _update(self) -> cython.void:
        """Bring everything up to date."""
        everything = self.sums._number < 0 or not self._kept
        changed = np.array(self.sums._changed)[: max(self.sums._number, 0)]
        self._kept = False  # until all is done: a signal may end this between two steps
        self._follow()
        low, high = self._low, self._high
        number = self._set_ranks()
        numbers = self._numbers(self._w[1], number) if number > 0 else range(1, 1)
        self._low, self._high = numbers.start, numbers.stop - 1
        if number == 0 or self._high * (self._high + 1) // 2 > _MOST_BINS:
            return
        self._reserve()
        if everything or self._low > high or low > self._high or not self._moved(changed, low, high):
            self._make()
        self._kept = True

    @cython.cfunc
    @cython.locals(i=cython.Py_ssize_t, k=cython.Py_ssize_t, number=cython.Py_ssize_t)
    def _moved(self, changed: cython.int[::1], low: cython.Py_ssize_t, high: cython.Py_ssize_t) -> cython.bint:
        """Follow changed cells from the binnings low … high; False where too much has changed."""
        switched: cython.bint = False
        first: cython.Py_ssize_t = max(low, self._low)
        common: cython.Py_ssize_t = min(high, self._high)
        self._to_score, self._left = 0, high * (high + 1) // 2
        for k in range(changed.shape[0]):
            i = changed[k]
            if self._used[i] and not self._w[self._size + i] > 0.0:
                self._used[i], changed[k] = 0, -1 - i
        for i in range(self._used.shape[0]):
            if self._used[i] and not self._passed(i, first, common, common < high):
                return self._given_up()
        for k in range(changed.shape[0]):  # cells left first: then all neighbours of those that enter are used
            if changed[k] < 0:
                self._set_edges_at(-1 - changed[k], first, common)
                switched = True
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
                switched = True
        if switched:
            self._set_borders()
        if self._to_score > _MOST_CHANGES:
            return self._given_up()
        for k in range(self._to_score):
            self._is_changed[_first(self._changes[0, k]) + self._changes[1, k]] = 0
            self._score_bin(self._changes[0, k], self._changes[1, k])
        if self._high > high:
            for i in range(self._used.shape[0]):
                if self._used[i]:
                    self._refine(i, self._high)
        for i in range(self._low, min(low, self._high + 1)):
            self._make_binning(i)
        for i in range(max(high + 1, self._low), self._high + 1):
            self._make_binning(i)
        return True

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _given_up(self) -> cython.bint:
        """No bin is to be scored anew."""
        self._is_changed[:] = 0
        self._to_score = 0
        return False

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.locals(i=cython.Py_ssize_t, number=cython.Py_ssize_t, below=cython.double, w=cython.double)
    def _set_ranks(self) -> cython.Py_ssize_t:
        """Set the ranks; the number of cells with a weight. Summed one by one, as `middle_ranks` does."""
        number, below = 0, 0.0
        for i in range(self._rank.shape[0]):
            w = self._w[self._size + i]
            if w > 0.0:
                below += w
                self._rank[i] = (below - 0.5 * w) * self._slack
                number += 1
        return number

    @cython.cfunc
    def _reserve(self) -> cython.void:
        """Enlarge the arrays for the largest binning, and an eighth more."""
        bins: cython.Py_ssize_t = self._high * (self._high + 1) // 2
        if bins > self._edge.shape[0]:
            bins += bins // 8
            more: cython.Py_ssize_t = bins - self._edge.shape[0]
            self._edge = np.concatenate((self._edge, np.zeros(more, dtype=np.intc)))
            self._tree = np.concatenate((self._tree, np.zeros(2 * more)))
            self._is_changed = np.zeros(bins, dtype=np.int8)
            self._changes = np.zeros((2, min(bins, MOST_CHANGES)), dtype=np.intc)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.locals(left=cython.int, under=cython.int, right=cython.int, over=cython.int, k=cython.int)
    def _passed(
        self, i: cython.Py_ssize_t, low: cython.Py_ssize_t, high: cython.Py_ssize_t, shrinks: cython.bint
    ) -> cython.bint:
        """Move a used cell past the fractions between which it no longer is; False where these are too many.

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

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _set_near(
        self, i: cython.Py_ssize_t, left: cython.int, under: cython.int, right: cython.int, over: cython.int
    ) -> cython.void:
        self._near[i, 0], self._near[i, 1], self._near[i, 2], self._near[i, 3] = left, under, right, over
        self._inside[i] = (cython.cast(cython.double, left) + right) / (cython.cast(cython.double, under) + over)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
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

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _change(self, binning: cython.Py_ssize_t, b: cython.Py_ssize_t) -> cython.void:
        """Note that a bin is to be scored anew."""
        if self._is_changed[_first(binning) + b]:
            return
        self._is_changed[_first(binning) + b] = 1
        if self._to_score < self._changes.shape[1]:
            self._changes[0, self._to_score] = cython.cast(cython.int, binning)
            self._changes[1, self._to_score] = cython.cast(cython.int, b)
        self._to_score += 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.locals(binning=cython.Py_ssize_t)
    def _change_bins_of(self, i: cython.Py_ssize_t, low: cython.Py_ssize_t, high: cython.Py_ssize_t) -> cython.void:
        """Mark the bins of a used cell, which have to be scored again."""
        for binning in range(low, high + 1):
            self._change(binning, self._bin(binning, i))

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _bin(self, binning: cython.Py_ssize_t, i: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the bin of a used cell: that of any number between its neighbours."""
        return cython.cast(cython.Py_ssize_t, binning * self._inside[i])

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
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

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _next_used(self, i: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the next used cell above, or the number of cells."""
        i += 1
        while i < self._used.shape[0] and not self._used[i]:
            i += 1
        return i

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
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

    # -- anew ----------------------------------------------------------------------------------------------------

    @cython.cfunc
    @cython.locals(i=cython.Py_ssize_t)
    def _make(self) -> cython.void:
        """Compute all binnings from the cells."""
        self._given_up()
        for i in range(self._used.shape[0]):
            self._used[i] = 1 if self._w[self._size + i] > 0.0 else 0
            if self._used[i]:
                self._set_near(i, 0, 1, 1, 1)
                self._refine(i, self._high)
        self._set_borders()
        for i in range(self._low, self._high + 1):
            self._make_binning(i)

    @cython.cfunc
    @cython.locals(i=cython.Py_ssize_t, k=cython.Py_ssize_t)
    def _set_borders(self) -> cython.void:
        """Set the ends of all stretches."""
        used = np.flatnonzero(np.asarray(self._used))
        places: cython.Py_ssize_t[::1] = np.append(used, self._used.shape[0]).astype(np.intp)
        ends: cython.double[::1] = np.ascontiguousarray(self._ends(np.asarray(self._centres)[used]), dtype=np.float64)
        for k in range(places.shape[0]):
            self._border[places[k]] = ends[k]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.locals(i=cython.Py_ssize_t, b=cython.Py_ssize_t, last=cython.Py_ssize_t, start=cython.Py_ssize_t)
    def _make_binning(self, binning: cython.Py_ssize_t) -> cython.void:
        """Compute a binning from the cells."""
        start, b = _first(binning), 0
        for i in range(self._used.shape[0]):
            if self._used[i]:
                last = self._bin(binning, i)
                while b <= last:
                    self._edge[start + b] = cython.cast(cython.int, i)
                    b += 1
        while b < binning:
            self._edge[start + b] = cython.cast(cython.int, self._used.shape[0])
            b += 1
        for b in range(binning):
            self._tree[2 * start + binning + b] = self._own_score(binning, b)
        for b in range(binning - 1, 0, -1):
            self._tree[2 * start + b] = self._tree[2 * start + 2 * b] + self._tree[2 * start + 2 * b + 1]

    # -- scores --------------------------------------------------------------------------------------------------

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.locals(i=cython.Py_ssize_t, start=cython.Py_ssize_t)
    def _score_bin(self, binning: cython.Py_ssize_t, b: cython.Py_ssize_t) -> cython.void:
        """Score a bin anew, and the binning with it."""
        start, i = 2 * _first(binning), binning + b
        self._tree[start + i] = self._own_score(binning, b)
        i >>= 1
        while i > 0:
            self._tree[start + i] = self._tree[start + 2 * i] + self._tree[start + 2 * i + 1]
            i >>= 1

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _stop(self, binning: cython.Py_ssize_t, b: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the edge above a bin."""
        return self._edge[_first(binning) + b + 1] if b + 1 < binning else self._used.shape[0]

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _prior(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.double:
        """π of a bin between two edges."""
        middle: cython.double = 0.5 * self._border[start] + 0.5 * self._border[stop]
        return min(max(middle, self._smallest), 1.0 - self._smallest)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.locals(start=cython.Py_ssize_t, stop=cython.Py_ssize_t, n=cython.double, m=cython.double)
    @cython.locals(prior=cython.double, size=cython.double)
    def _own_score(self, binning: cython.Py_ssize_t, b: cython.Py_ssize_t) -> cython.double:
        """Return the score of a bin."""
        start, stop = self._edge[_first(binning) + b], self._stop(binning, b)
        if start >= stop:
            return 0.0
        n, m = self._sums(start, stop)
        prior, size = self._prior(start, stop), self._pseudo / binning
        return _score(n, m, size * prior, size * (1.0 - prior))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.locals(binning=cython.Py_ssize_t, b=cython.Py_ssize_t, start=cython.Py_ssize_t, stop=cython.Py_ssize_t)
    @cython.locals(n=cython.double, m=cython.double, posterior=cython.double, total=cython.double, share=cython.double)
    def _average(self, i: cython.Py_ssize_t) -> cython.double:
        """Return the average of the posterior means of the bins of a used cell."""
        best: cython.double = self._tree[2 * _first(self._low) + 1]
        size: cython.double
        for binning in range(self._low, self._high + 1):
            best = max(best, self._tree[2 * _first(binning) + 1])
        total = share = 0.0
        for binning in range(self._low, self._high + 1):
            posterior = exp(self._tree[2 * _first(binning) + 1] - best)
            if posterior > self._negligible:
                b, size = self._bin(binning, i), self._pseudo / binning
                start, stop = self._edge[_first(binning) + b], self._stop(binning, b)
                n, m = self._sums(start, stop)
                total += posterior * ((m + size * self._prior(start, stop)) / (n + size))
                share += posterior
        return min(max(total / share, 0.0), 1.0)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _first(binning: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the place of the first bin of a binning."""
    return binning * (binning - 1) // 2
