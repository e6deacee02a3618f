# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Bayesian averages over binnings into bins of equal frequency, kept up to date while cells change.

    score(B, b)     the logarithm of the marginal likelihood of the labels in a bin, 0 where it is empty
    bound(B, b)     an upper bound of it, for whole weights only (`beta_scores`)

The posterior of most binnings is too small to count. Their bounds show this: a bound costs a tenth of a score, and is
the sum of numbers in a table. Binnings of small bounds are not scored; all others are, bin by bin as edges move
(`bin_edges`). Sums of scores are taken in trees, in which nothing is subtracted, and sums of bounds are exact: the
average is a function of the cells alone, whatever was followed.
"""

from __future__ import annotations

import math

import cython
import numpy as np
from cython.cimports.libc.math import exp, floor
from cython.cimports.streamcal.kernels.cells.beta_scores import bin_bound, bin_score, share_of_both
from cython.cimports.streamcal.kernels.cells.bin_edges import BinEdges
from cython.cimports.streamcal.kernels.cells.cell_sums import CellSums

from streamcal.kernels.cells.beta_scores import LARGEST

_MOST_BINS = cython.declare(cython.Py_ssize_t, 2**21)
"""The bins of all binnings that are kept, at most: 70 MB. Reached with 2,048 binnings, at nearly 10⁷ observations."""

_LARGEST = cython.declare(cython.double, LARGEST)
_NAN = cython.declare(cython.double, math.nan)
_INFINITE = cython.declare(cython.double, math.inf)
# A binning is scored until its bound is so far below the least that counts: scoring all its bins takes longer.
_MARGIN = cython.declare(cython.double, 16.0)


@cython.final
@cython.cclass
class Binnings(BinEdges):
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
    _pseudo: cython.double
    _smallest: cython.double
    _negligible: cython.double
    _reach: cython.double  # a bound so far below the best score is one of a negligible posterior, with all rounding
    _busy: cython.bint  # whether the binnings are being updated
    _ready: cython.bint  # whether the binnings from `_low` to `_high` are kept; otherwise they are made when asked for
    _whole: cython.bint  # whether all weights are whole numbers, and bins are bounded
    _border: cython.double[::1]  # the lower end of the stretch of a used cell, and the upper end of the last one
    # The tree of the scores of B takes 2·B places, from twice its first one on: node i has the children 2i and 2i + 1,
    # and the leaves begin at B.
    _tree: cython.double[::1]
    _bound: cython.double[::1]
    _bounds: cython.double[::1]  # of a binning, their sum
    _of_both: cython.double[::1]  # of a binning: `share_of_both`
    _scored: cython.char[::1]  # whether the tree of a binning is kept

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
        BinEdges.__init__(self, sums, centres, find, slack)
        self._numbers, self._ends = numbers, ends
        self._pseudo, self._smallest, self._negligible = size, smallest, negligible
        self._reach = -math.log(negligible) + 1.0
        self._busy, self._ready, self._whole = False, False, False
        self._border = np.zeros(len(centres) + 1)
        self._tree, self._bound, self._bounds, self._of_both = np.zeros((4, 0))
        self._scored = np.zeros(0, dtype=np.int8)

    def at(self, x: cython.double) -> cython.double:
        """Return the average at a coordinate; NaN without observations, or with more than `_MOST_BINS` bins."""
        if self.sums._number != 0 or not self._ready:
            if self._busy:
                raise RuntimeError("two threads use a calibrator at once: let them take turns by a lock")
            self._busy = True  # the update calls Python, where another thread may take over
            try:
                self._update()
            finally:
                self._busy = False
        return self._average(self._nearest(self._round(x))) if self._ready else _NAN

    # -- following the cells -------------------------------------------------------------------------------------

    @cython.cfunc
    @cython.locals(low=cython.Py_ssize_t, high=cython.Py_ssize_t)
    def _update(self) -> cython.void:
        """Bring everything up to date."""
        everything: cython.bint = self.sums._number < 0 or not self._ready
        changed: cython.int[::1] = np.array(self.sums._changed[: max(self.sums._number, 0)])
        self._ready = False  # until all is done: a signal may end this between two steps
        self._follow()
        low, high = self._low, self._high
        if self._has_switched(changed) or everything:
            self._list_used()
        self._set_ranks()
        numbers = self._numbers(self._w[1], self._count) if self._count > 0 else range(1, 1)
        self._low, self._high = numbers.start, numbers.stop - 1
        if self._count == 0 or self._high * (self._high + 1) // 2 > _MOST_BINS:
            return
        self._reserve()
        self._enlarge(self._edge.shape[0])
        if self._whole and not everything and not self._are_whole(changed):
            everything = True
        if everything or self._low > high or low > self._high or not self._moved(changed, low, high):
            self._make()
        self._decide()
        self._ready = True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.locals(k=cython.Py_ssize_t)
    def _has_switched(self, changed: cython.int[::1]) -> cython.bint:
        """Return whether any of these cells has begun or ceased to be used."""
        for k in range(changed.shape[0]):
            if (self._used[changed[k]] != 0) != (self._w[self._size + changed[k]] > 0.0):
                return True
        return False

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.locals(k=cython.Py_ssize_t)
    def _are_whole(self, cells: cython.int[::1]) -> cython.bint:
        """Return whether the weights of these cells are whole, and that of all is small enough for bounds."""
        for k in range(cells.shape[0]):
            w: cython.double = self._w[self._size + cells[k]]
            p: cython.double = self._p[self._size + cells[k]]
            if w != floor(w) or p != floor(p):
                return False
        return self._w[1] <= _LARGEST and self._pseudo <= 2.0

    @cython.cfunc
    @cython.locals(i=cython.Py_ssize_t)
    def _enlarge(self, bins: cython.Py_ssize_t) -> cython.void:
        """Enlarge the arrays for this number of bins, and for all binnings."""
        if bins > self._bound.shape[0]:
            more: cython.Py_ssize_t = bins - self._bound.shape[0]
            self._tree = np.concatenate((self._tree, np.zeros(2 * more)))
            self._bound = np.concatenate((self._bound, np.zeros(more)))
        if self._high >= self._bounds.shape[0]:
            more = self._high + self._high // 8 + 1 - self._bounds.shape[0]
            self._bounds = np.concatenate((self._bounds, np.zeros(more)))
            self._scored = np.concatenate((self._scored, np.zeros(more, dtype=np.int8)))
            self._of_both = np.zeros(self._bounds.shape[0])
            for i in range(1, self._of_both.shape[0]):
                self._of_both[i] = share_of_both(min(self._pseudo, 2.0) / i)

    @cython.cfunc
    @cython.locals(i=cython.Py_ssize_t, k=cython.Py_ssize_t, switched=cython.bint)
    def _moved(self, changed: cython.int[::1], low: cython.Py_ssize_t, high: cython.Py_ssize_t) -> cython.bint:
        """Follow changed cells from the binnings low … high; False where too much has changed."""
        switched = self._has_switched(changed)
        if not self._move(changed, low, high):
            return False
        if switched:
            self._set_borders()
        for k in range(self._listed):
            self._is_changed[_first(self._changes[0, k]) + self._changes[1, k]] = 0
            self._renew_bin(self._changes[0, k], self._changes[1, k])
        for i in range(self._low, min(low, self._high + 1)):
            self._make_binning(i)
        for i in range(max(high + 1, self._low), self._high + 1):
            self._make_binning(i)
        return True

    @cython.cfunc
    @cython.locals(i=cython.Py_ssize_t)
    def _make(self) -> cython.void:
        """Compute all binnings from the cells."""
        self._find_neighbours()
        self._set_borders()
        self._whole = self._are_whole(self._list[: self._count])
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

    # -- scores and bounds ---------------------------------------------------------------------------------------

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.locals(b=cython.Py_ssize_t)
    def _make_binning(self, binning: cython.Py_ssize_t) -> cython.void:
        """Compute the edges of a binning and bound its bins; without bounds, score them."""
        self._set_edges(binning)
        self._scored[binning] = 0
        self._bounds[binning] = 0.0
        if not self._whole:
            self._score_all(binning)
            return
        for b in range(binning):
            self._bound[_first(binning) + b] = self._own_bound(binning, b)
            self._bounds[binning] += self._bound[_first(binning) + b]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.locals(b=cython.Py_ssize_t, start=cython.Py_ssize_t)
    def _score_all(self, binning: cython.Py_ssize_t) -> cython.void:
        """Score all bins of a binning."""
        start = 2 * _first(binning)
        self._scored[binning] = 1
        for b in range(binning):
            self._tree[start + binning + b] = self._own_score(binning, b)
        for b in range(binning - 1, 0, -1):
            self._tree[start + b] = self._tree[start + 2 * b] + self._tree[start + 2 * b + 1]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.locals(i=cython.Py_ssize_t, start=cython.Py_ssize_t, bound=cython.double)
    def _renew_bin(self, binning: cython.Py_ssize_t, b: cython.Py_ssize_t) -> cython.void:
        """Bound a changed bin, and score it where its binning is scored."""
        if self._whole:
            bound = self._own_bound(binning, b)
            self._bounds[binning] += bound - self._bound[_first(binning) + b]
            self._bound[_first(binning) + b] = bound
        if not self._scored[binning]:
            return
        start, i = 2 * _first(binning), binning + b
        self._tree[start + i] = self._own_score(binning, b)
        i >>= 1
        while i > 0:
            self._tree[start + i] = self._tree[start + 2 * i] + self._tree[start + 2 * i + 1]
            i >>= 1

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.locals(binning=cython.Py_ssize_t, highest=cython.Py_ssize_t, best=cython.double)
    def _decide(self) -> cython.void:
        """Score every binning whose posterior may count."""
        if not self._whole:
            return
        highest = self._low
        for binning in range(self._low, self._high + 1):
            if self._bounds[binning] > self._bounds[highest]:
                highest = binning
        if not self._scored[highest]:
            self._score_all(highest)
        best = self._best()
        for binning in range(self._low, self._high + 1):
            if not self._scored[binning]:
                if self._bounds[binning] >= best - self._reach:
                    self._score_all(binning)
                    best = max(best, self._root(binning))
            elif self._bounds[binning] < best - self._reach - _MARGIN:
                self._scored[binning] = 0

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _root(self, binning: cython.Py_ssize_t) -> cython.double:
        """Return the score of a binning."""
        return self._tree[2 * _first(binning) + 1]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.locals(binning=cython.Py_ssize_t, best=cython.double)
    def _best(self) -> cython.double:
        """Return the best score of a binning that is scored."""
        best = -_INFINITE
        for binning in range(self._low, self._high + 1):
            if self._scored[binning]:
                best = max(best, self._root(binning))
        return best

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _prior(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> cython.double:
        """Return π of a bin between two edges."""
        middle: cython.double = 0.5 * self._border[start] + 0.5 * self._border[stop]
        return min(max(middle, self._smallest), 1.0 - self._smallest)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _own_sums(self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> tuple[cython.double, cython.double]:
        """Weight and positive weight of the cells between two edges; differences of whole numbers are exact."""
        if self._whole:
            return self._below_w[stop] - self._below_w[start], self._below_p[stop] - self._below_p[start]
        return self._sums(start, stop)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.locals(start=cython.Py_ssize_t, stop=cython.Py_ssize_t)
    def _own_bound(self, binning: cython.Py_ssize_t, b: cython.Py_ssize_t) -> cython.double:
        """Return an upper bound of the score of a bin."""
        start, stop = self._edge[_first(binning) + b], self._stop(binning, b)
        return bin_bound(
            self._below_w[stop] - self._below_w[start],
            self._below_p[stop] - self._below_p[start],
            self._of_both[binning],
        )

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
        n, m = self._own_sums(start, stop)
        prior, size = self._prior(start, stop), self._pseudo / binning
        return bin_score(n, m, size * prior, size * (1.0 - prior))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.locals(binning=cython.Py_ssize_t, b=cython.Py_ssize_t, start=cython.Py_ssize_t, stop=cython.Py_ssize_t)
    @cython.locals(n=cython.double, m=cython.double, posterior=cython.double, total=cython.double, share=cython.double)
    def _average(self, i: cython.Py_ssize_t) -> cython.double:
        """Return the average of the posterior means of the bins of a used cell."""
        size: cython.double
        best: cython.double = self._best()
        total = share = 0.0
        for binning in range(self._low, self._high + 1):
            posterior = exp(self._root(binning) - best) if self._scored[binning] else 0.0
            if posterior > self._negligible:
                b, size = self._bin(binning, i), self._pseudo / binning
                start, stop = self._edge[_first(binning) + b], self._stop(binning, b)
                n, m = self._own_sums(start, stop)
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
