# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Exact isotonic regression and inductive Venn-Abers over a multiset of weighted binary outcomes.

Symbols, all of the cumulative sum diagram of isotonic regression:

    group       all observations with one score: weight w, positive weight p, count of observations
    point       P_j = (w_1 + … + w_j, p_1 + … + p_j) for the groups 1 … j in order of score; P_0 = (0, 0)
    minorant    the greatest convex minorant of the points; its edges are the blocks of the isotonic fit, and
                the slope p/w of an edge is the fitted value of its groups
    λ = P/W     the slope of a supporting line: a line of that slope with no point below it
    end         where a supporting line touches the points of one side; which one is told by a key, the score
                of the first group to its right

`hull_nodes.py` holds the leaves and the inner nodes, `hull_search.py` the searches, `hull_fits.py` the values and the
blocks of the fit, `hull_changes.py` what changes one group, and this file what is done with a whole tree. Each class
extends the one before: `Search`, `Fits`, `Changes`, `HullTree`.

The tree is leaf-oriented and weight-balanced. A leaf holds up to 64 groups in order. An inner node holds the
`cut` between its children and the edge of its own minorant that crosses the cut, called the *pool*. The pool ends at
the left where a line of its slope supports the left child, and at the right where it supports the right child;
if no edge crosses, both ends lie on the cut and the slope is that of any line which supports there.
Beyond its two ends the minorant of the node is that of its children. So the end of a line of given slope is found by
one descent: an edge steeper than the line sends it left, a flatter one right (`_find_end`).

    pool             Newton's method: ends of the present slope, slope of the present ends, until they agree
    update, unlearn  change one leaf, then the pools on its root path. Most need no search: groups that
                     rise beyond the end of a pool have no effect; groups that belong to a pool and enter it confirm
                     its end (`_confirmed`); otherwise the old end is tested before a search (`_unchanged`)
    interval         Newton again, for the edge that crosses the test object; each end is that of a prefix or a
                     suffix of the groups, which is one root path read downwards (`_find_end_from_score`)
    isotonic         the topmost pool that contains the score

With k distinct scores a descent costs O(log k). An update is one descent, and for each pool that must be searched
two more per step of Newton's method: at a million scores every other time one pool of 15, in one or two steps. A query
is one descent, and for each step at most one more for every pool that reaches over the score, O(log² k). The bracket
bounds the steps; streams of 0/1 labels never took more than 12, adversarial weights (over 10¹⁰⁰) up to 95. Memory:
32 bytes for each place in a leaf, of which random arrivals fill 70 % and sorted ones all, and 4 for the nodes. Leaves
and nodes are allocated one by one, so that no step copies the whole tree.

Masses are measured from the cut (in a query: from the score) outwards and are sums of positive numbers only, so that
light groups beside heavy ones keep their accuracy; differences of sums are only taken of integers. Two slopes
are compared by cross multiplication. With integer weights of a total below 3·10⁷ all of that is exact. For other
weights between LIGHTEST and HEAVIEST the relative error of the fits is a few 1e-14 (see `TIE`).
"""

from __future__ import annotations

import math

import cython
import numpy as np
from cython.cimports.streamcal.kernels.common.fast_path import fast_observation, fast_score
from cython.cimports.streamcal.kernels.tree.hull_changes import Changes
from cython.cimports.streamcal.kernels.tree.hull_nodes import Leaf, filled, outermost, rises, whole

from streamcal.kernels.tree.hull_changes import check_subtree
from streamcal.kernels.tree.hull_nodes import EXACT_LIMIT, HEAVIEST, LIGHTEST, RIGHT, leaves

LEAF_FILL = 48  # groups per leaf after `rebuild`, so that leaves do not split at once
FEW = 16  # `update_sorted` loops while the tree is this many times larger than the update

_RIGHT = cython.declare(cython.int, RIGHT)
_LEAF_FILL = cython.declare(cython.Py_ssize_t, LEAF_FILL)
_EXACT_LIMIT = cython.declare(cython.double, EXACT_LIMIT)
_HEAVIEST = cython.declare(cython.double, HEAVIEST)
_INFINITY = cython.declare(cython.double, math.inf)


class HullTree(Changes):
    """Distinct scores in order, each with its weight, positive weight and count, and the fit of all of them.

    `centre`, if given, maps single scores to the scores that are stored: on a grid, the centre of the cell. Arrays of
    scores are not mapped. The root is None exactly if nothing is held.
    """

    def __init__(self, centre=None):
        Changes.__init__(self, centre)
        self._lo, self._hi = _INFINITY, -_INFINITY

    def __reduce__(self):
        return _restored, (self._centre, *self.to_arrays(), self._heaviest)

    @property
    def size(self):
        return self._size

    @property
    def count(self):
        return self._count

    @property
    def exact(self):
        """Whether all sums are exact: nothing but integer masses was ever seen, of a total below 2⁵²."""
        return self._exact

    @property
    def heaviest(self):
        return self._heaviest

    @property
    def weight(self):
        return self.mass()

    @property
    def positive(self):
        return 0.0 if self._root is None else self._root.positive

    def mass(self):
        """Return the weight held: for other kernels."""
        return 0.0 if self._root is None else self._root.weight

    def update(self, score: cython.double, w: cython.double, positive: cython.double, count: cython.longlong):
        """Add the mass `w`, `positive` of it with label 1, made of `count` observations. O(log² k)."""
        self._add(self._placed(score), float(w), float(positive), count)

    def update_one(self, score, y, w):
        """Add an observation with the label y and the weight w."""
        self._add(self._placed(score), float(w), float(w) * float(y), 1)

    def set_fast_range(self, lo: cython.double, hi: cython.double):
        """Set the range of scores that `update_fast` and `interval_fast` accept."""
        self._lo, self._hi = lo, hi

    def update_fast(self, score: object, y: object, w: object) -> cython.bint:
        """Do `update_one` for an unchecked observation if `fast_observation` accepts it; return whether it did."""
        s: cython.double
        weight: cython.double
        if not fast_observation(score, y, w, self._lo, self._hi):
            return False
        s, weight = score, w
        self._add(self._placed(s), weight, weight if y is True else 0.0, 1)
        return True

    def unlearn(self, score, w, positive, count):
        """Remove an earlier update. Returns 0, or 1 and no change if the tree cannot contain it."""
        return 0 if self._take_back(self._placed(score), float(w), float(positive), count) else 1

    @cython.locals(leaf=Leaf)
    def find(self, score: cython.double):
        """Weight, positive weight and count of the group with this score; zeros if there is none."""
        if self._root is not None:
            self._locate(self._placed(score))
            if self._path.tied:
                leaf = cython.cast(Leaf, self._path.home)
                return leaf.w[self._path.position], leaf.p[self._path.position], leaf.count[self._path.position]
        return 0.0, 0.0, 0

    @cython.locals(leaf=Leaf)
    def write_group(self, score, out):
        """Write weight and positive weight of the group with this score to the array `out`, of shape (2,)."""
        out[0] = out[1] = 0.0
        if self._root is not None:
            self._locate(self._placed(score))
            if self._path.tied:
                leaf = cython.cast(Leaf, self._path.home)
                out[0], out[1] = leaf.w[self._path.position], leaf.p[self._path.position]

    def highest(self):
        """Return the largest score held; NaN when empty. O(log k)."""
        return math.nan if self._root is None else outermost(self._root, _RIGHT)

    @cython.locals(p0=cython.double)
    def interval(self, score: cython.double, w: cython.double):
        """Return the fits at `score` of the data and (score, 0, w), and of the data and (score, 1, w). O(log² k)."""
        if self._root is None:
            return 0.0, 1.0
        w = min(float(w), _HEAVIEST)
        p0 = self._lower_at(self._placed(score), w)
        return p0, max(p0, self._upper(w))

    def write_interval(self, score, w, out):
        """Write `interval` to the array `out`, of shape (2,): for other kernels."""
        out[0], out[1] = 0.0, 1.0
        if self._root is not None:
            w = min(float(w), _HEAVIEST)
            out[0] = self._lower_at(self._placed(score), w)
            out[1] = max(out[0], self._upper(w))

    def interval_fast(self, score: object):
        """Return `interval` with weight 1 for an unchecked score; None if `fast_score` refuses it, or if empty."""
        s: cython.double
        p0: cython.double
        if self._root is None or not fast_score(score, self._lo, self._hi):
            return None
        s = score
        p0 = self._lower_at(self._placed(s), 1.0)
        return p0, max(p0, self._upper(1.0))

    @cython.locals(lower=cython.double[::1], upper=cython.double[::1], i=cython.Py_ssize_t)
    def intervals(self, scores, w: cython.double):
        """Return `interval` of many scores: two arrays."""
        x: cython.const[cython.double][::1] = np.ascontiguousarray(scores, dtype=np.float64)
        p0, p1 = np.zeros(len(x)), np.ones(len(x))
        lower, upper = p0, p1
        w = min(float(w), _HEAVIEST)
        if self._root is not None:
            for i in range(len(x)):
                lower[i] = self._lower_at(float(x[i]), w)
                upper[i] = max(lower[i], self._upper(w))
        return p0, p1

    @cython.locals(values=cython.double[::1], i=cython.Py_ssize_t)
    def isotonics(self, scores):
        """Return `isotonic` of many scores."""
        x: cython.const[cython.double][::1] = np.ascontiguousarray(scores, dtype=np.float64)
        fitted = np.empty(len(x))
        values = fitted
        for i in range(len(x)):
            values[i] = self._isotonic(float(x[i]))
        return fitted

    @cython.locals(i=cython.Py_ssize_t, number=cython.Py_ssize_t, weight=cython.double, score=cython.double)
    def stream(
        self,
        x: cython.const[cython.double][::1],
        y: cython.const[cython.double][::1],
        w: cython.const[cython.double][:],
        unit: cython.const[cython.double][:],
        leaving_x: cython.const[cython.double][::1],
        leaving_y: cython.const[cython.double][::1],
        leaving_w: cython.const[cython.double][::1],
        room: cython.Py_ssize_t,
        lower: cython.double[::1],
        upper: cython.double[::1],
    ):
        """For each row, write `interval` with the weight `unit` and then add the row, if its weight is above 0.

        Where `upper` is empty, `isotonic` is written to `lower`. Scores are those of places: on a grid, centres. After
        each row added beyond `room`, the next of those leaving is removed.
        """
        n: cython.Py_ssize_t = x.shape[0]
        intervals: cython.bint = upper.shape[0] > 0
        if not n == y.shape[0] == w.shape[0] == unit.shape[0] == lower.shape[0] or upper.shape[0] not in (0, n):
            raise ValueError("lengths differ")
        number = 0
        for i in range(n):
            score = x[i] + 0.0
            if not intervals:
                lower[i] = self._isotonic(score)
            elif self._root is None:
                lower[i], upper[i] = 0.0, 1.0
            else:
                weight = min(unit[i], _HEAVIEST)
                lower[i] = self._lower_at(score, weight)
                upper[i] = max(lower[i], self._upper(weight))
            if w[i] > 0.0:
                self._add(score, float(w[i]), float(w[i]) * float(y[i]), 1)
                number += 1
                if number > room:
                    self._leave(leaving_x, leaving_y, leaving_w, number - room - 1)

    def _leave(
        self,
        x: cython.const[cython.double][::1],
        y: cython.const[cython.double][::1],
        w: cython.const[cython.double][::1],
        i: cython.Py_ssize_t,
    ):
        """Remove row i."""
        if i >= x.shape[0] or not self._take_back(float(x[i]) + 0.0, float(w[i]), float(w[i]) * float(y[i]), 1):
            raise ValueError(f"row {i} of what leaves is not held")

    @cython.locals(start=cython.Py_ssize_t, i=cython.Py_ssize_t, exact=cython.bint, total=cython.double)
    def rebuild(self, scores, w, positive, count, heaviest=0.0):
        """Replace the content by sorted arrays of distinct scores; `heaviest` restores that property. O(k)."""
        s: cython.const[cython.double][::1] = np.ascontiguousarray(scores, dtype=np.float64)
        ws: cython.const[cython.double][::1] = np.ascontiguousarray(w, dtype=np.float64)
        ps: cython.const[cython.double][::1] = np.ascontiguousarray(positive, dtype=np.float64)
        cs: cython.const[cython.longlong][::1] = np.ascontiguousarray(count, dtype=np.int64)
        if not len(s) == len(ws) == len(ps) == len(cs):
            raise ValueError(f"lengths differ: {len(s)}, {len(ws)}, {len(ps)}, {len(cs)}")
        if not rises(s):
            raise ValueError("the scores do not rise strictly")
        self._size, self._count = len(s), 0
        self._heaviest = max(heaviest, float(np.asarray(ws).max())) if len(s) else heaviest
        leaves, exact, total = [], True, 0.0
        for i in range(self._size):
            total += float(ws[i])
            exact = exact and whole(float(ws[i])) and whole(float(ps[i]))
            self._count += cython.cast(cython.longlong, cs[i])
        start = 0
        while start < self._size:
            leaves.append(filled(s, ws, ps, cs, start, min(start + _LEAF_FILL, self._size)))
            start += _LEAF_FILL
        self._set_exact(exact and total < _EXACT_LIMIT)
        self._root = self._built(leaves, 0, len(leaves)) if leaves else None

    def update_sorted(self, scores, w, positive, count):
        """Update by sorted arrays of distinct scores: one by one when they are few, else merged and rebuilt."""
        s = np.ascontiguousarray(scores, dtype=np.float64) + 0.0
        columns = [np.asarray(w, np.float64), np.asarray(positive, np.float64), np.asarray(count, np.int64)]
        if len(s) * FEW < self._size:
            for x, xw, xp, xc in zip(s.tolist(), *(column.tolist() for column in columns), strict=True):
                self._add(x, xw, xp, xc)
            return
        stored = self.to_arrays()
        merged = np.union1d(stored[0], s)
        sums = [np.zeros(len(merged), column.dtype) for column in columns]
        for old, new, total in zip(stored[1:], columns, sums, strict=True):
            total[np.searchsorted(merged, stored[0])] = old
            total[np.searchsorted(merged, s)] += new
        self.rebuild(merged, *sums, self._heaviest)

    @cython.locals(s=cython.double[::1], ws=cython.double[::1], ps=cython.double[::1], cs=cython.longlong[::1])
    @cython.locals(leaf=Leaf, at=cython.Py_ssize_t, j=cython.int)
    def to_arrays(self):
        """Scores, weights, positive weights and counts in order of score: copies. O(k)."""
        scores, w, positive = (np.empty(self._size) for _ in range(3))
        count = np.empty(self._size, dtype=np.int64)
        s, ws, ps, cs = scores, w, positive, count
        at = 0
        for leaf in leaves(self._root):
            for j in range(leaf.n):
                s[at], ws[at], ps[at], cs[at] = leaf.scores[j], leaf.w[j], leaf.p[j], leaf.count[j]
                at += 1
        return scores, w, positive, count

    @cython.locals(ws=cython.double[::1], ps=cython.double[::1], first=cython.longlong[::1])
    @cython.locals(i=cython.Py_ssize_t, n=cython.Py_ssize_t, w=cython.double, p=cython.double)
    def blocks(self):
        """Return the first score, last score and value of each block of the isotonic fit, three arrays. O(k)."""
        scores, weight, positive, _ = self.to_arrays()
        starts = np.empty(self._size, dtype=np.int64)
        ws, ps, first = weight, positive, starts
        n = 0  # blocks so far: their masses are in the first n cells of ws and ps
        for i in range(self._size):
            w, p, first[n] = ws[i], ps[i], i
            while n > 0 and ps[n - 1] * w >= p * ws[n - 1]:
                n -= 1
                w += ws[n]
                p += ps[n]
            ws[n], ps[n] = w, p
            n += 1
            if n < self._size:
                first[n] = i + 1
        ends = np.append(starts[1:n], self._size) - 1 if n else starts[:0]
        return scores[starts[:n]], scores[ends], positive[:n] / weight[:n]

    def multiply(self, factor: cython.double):
        """Multiply every weight by a positive factor; groups then below LIGHTEST are dropped. O(k)."""
        scores, w, positive, count = self.to_arrays()
        heavy = w * factor >= LIGHTEST
        columns = scores[heavy], w[heavy] * factor, positive[heavy] * factor, count[heavy]
        self.rebuild(*columns, self._heaviest * factor)

    def prune(self, threshold: cython.double):
        """Drop the groups with less weight than `threshold`; returns the number of observations dropped. O(k)."""
        scores, w, positive, count = self.to_arrays()
        heavy = w >= threshold
        if not heavy.all():
            self.rebuild(scores[heavy], w[heavy], positive[heavy], count[heavy], self._heaviest)
        return int(count[~heavy].sum())

    @cython.locals(leaf=Leaf)
    def check(self):
        """Raise AssertionError if an invariant does not hold. O(k log k)."""
        groups = 0
        for leaf in leaves(self._root):
            groups += leaf.n
        assert groups == self._size, "size"
        scores, w, positive, count = self.to_arrays()
        assert (np.diff(scores) > 0).all(), "scores are not strictly increasing"
        assert (w > 0).all(), "weights"
        assert ((positive >= 0) & (positive <= w)).all(), "positive weights"
        assert int(count.sum()) == self._count, "count"
        if self._root is not None:
            check_subtree(self._root, scores, w, positive, self._exact)


def _restored(centre, scores, w, positive, count, heaviest):
    tree = HullTree(centre)
    tree.rebuild(scores, w, positive, count, heaviest)
    return tree
