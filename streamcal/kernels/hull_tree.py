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

The tree is leaf-oriented and weight-balanced. A leaf holds up to 64 groups in order. An inner node holds the
`cut` between its children and the edge of its own minorant that crosses the cut: the *pool*. The pool ends at the
left where a line of its slope supports the left child, and at the right where it supports the right child;
where nothing crosses, both ends lie on the cut and the slope is a witness, that of any line which supports there.
Beyond its two ends the minorant of the node is that of its children. So the end of a line of given slope is found by
one descent: an edge steeper than the line sends it left, a flatter one right (`_find_end`).

    pool            Newton's method: ends of the present slope, slope of the present ends, until they agree
    update, revert  change one leaf, then the pools on its root path. Most need no search: what lies beyond the
                    end of a pool and rises does not matter, and a pool found again with a slope between `low`
                    and `high` has kept its end unless the end was decided next to the change (`_kept`)
    interval        Newton again, for the edge that crosses the test object; each end is that of a prefix or a
                    suffix of the groups, which is one root path read downwards (`_find_end_before_score`)
    isotonic        the topmost pool that contains the score

With k distinct scores a descent costs O(log k); an update O(log k) plus one descent for each pool that has to be
searched, O(log² k) in the worst case; a query O(log k) and the same for each pool below the topmost that hides
part of its side. Masses are measured from the cut (a query: from the score) outwards and are sums of positive
numbers only, so that light groups beside heavy ones keep their digits; no difference of prefix sums is ever
taken. Two slopes are compared by cross multiplication. With integer weights of a total below 3·10⁷ all of that is
exact. For all other weights, of however many magnitudes, the fits are right to a few 1e-14 (see `TIE`).
"""

from __future__ import annotations

import math

import cython
import numpy as np

LEAF_CAPACITY = 64
LEAF_FILL = 48  # groups per leaf after `rebuild`: room to grow without splitting at once
MERGED_FILL = 48  # two sibling leaves become one when they hold no more: far enough from 64 not to flutter
FEW = 16  # `update_sorted` loops while the tree is this many times larger than the update

BALANCE, ROTATION = 3, 2
"""Neither child has more than 3 times the leaves of the other; a double rotation where the inner grandchild has at
least twice the leaves of the outer. Hirai & Yamamoto (2011) prove that this pair keeps a tree balanced."""

MASS_TOLERANCE = 1e-6
"""A group may miss this fraction of its weight when an observation is taken back: more than sums and
differences of weights within ten orders of magnitude lose, and less than any mistake."""

HALF_ULP = 2.0**-53  # what is left of a weight whose rest was lost in rounding, as a fraction

TIE = 1.0 + 2.0**-46
TIE_EXACT = 1.0 + 2.0**-50
"""Slopes within this factor of one another tie, and what ties with a line is left outside its end.

Sums in different orders differ by some ulps. Beside a group of weight 1e20 whose slope is λ up to rounding, a light
pool would otherwise find its balance with that group, whatever its own slope: the rounding of the heavy excess
hides the light one. Left out, the group changes the fit only if it does violate the order, and then by
less than the factor, since Newton's bracket closes on λ* from both sides. TIE_EXACT serves integer
masses: fits of total weight N are fractions with denominators of at most N, different ones 1/N² apart, so no two
different slopes tie below N = 3e7.
"""

EXACT_LIMIT = 2.0**52  # integer sums below it are exact, and may be taken apart again

LEFT, RIGHT = 0, 1
_LEFT = cython.declare(cython.int, LEFT)
_RIGHT = cython.declare(cython.int, RIGHT)
_CAPACITY = cython.declare(cython.int, LEAF_CAPACITY)
_MERGED_FILL = cython.declare(cython.int, MERGED_FILL)
_BALANCE = cython.declare(cython.int, BALANCE)
_ROTATION = cython.declare(cython.int, ROTATION)
_MASS_TOLERANCE = cython.declare(cython.double, MASS_TOLERANCE)
_HALF_ULP = cython.declare(cython.double, HALF_ULP)
_EXACT_LIMIT = cython.declare(cython.double, EXACT_LIMIT)
_TIE = cython.declare(cython.double, TIE)
_TIE_EXACT = cython.declare(cython.double, TIE_EXACT)
_INFINITY = cython.declare(cython.double, math.inf)

MAX_DEPTH = 64  # log(2e9 groups / 16) / log(4/3): balance keeps the tree below it
_MAX_DEPTH = cython.declare(cython.int, MAX_DEPTH)


@cython.no_gc  # children are owned by their parent alone: no cycles, and nothing for the collector to walk
@cython.cclass
class Node:
    """What leaves and inner nodes share: the number of leaves below and the mass."""

    leaves: cython.longlong
    weight: cython.double
    positive: cython.double

    def __init__(self):
        self.leaves = 1
        self.weight = self.positive = 0.0


@cython.no_gc
@cython.final
@cython.cclass
class Leaf(Node):
    """`n` groups in order of their scores."""

    n: cython.int
    scores: cython.double[64]
    w: cython.double[64]
    p: cython.double[64]
    count: cython.longlong[64]

    def __init__(self):
        Node.__init__(self)
        self.n = 0
        if not cython.compiled:
            self.scores, self.w, self.p = ([0.0] * LEAF_CAPACITY for _ in range(3))
            self.count = [0] * LEAF_CAPACITY

    @cython.cfunc
    @cython.exceptval(check=False)
    def position(self, score: cython.double) -> cython.int:
        """How many groups lie below `score`."""
        low: cython.int = 0
        high: cython.int = self.n
        middle: cython.int
        while low < high:
            middle = (low + high) >> 1
            if self.scores[middle] < score:
                low = middle + 1
            else:
                high = middle
        return low

    @cython.cfunc
    @cython.exceptval(check=False)
    def place(self, i: cython.int, score: cython.double, w: cython.double, p: cython.double, c: cython.longlong) -> cython.void:
        """Insert a group before position `i`; there is room."""
        j: cython.int
        for j in range(self.n, i, -1):
            self.scores[j] = self.scores[j - 1]
        for j in range(self.n, i, -1):
            self.w[j] = self.w[j - 1]
        for j in range(self.n, i, -1):
            self.p[j] = self.p[j - 1]
        for j in range(self.n, i, -1):
            self.count[j] = self.count[j - 1]
        self.scores[i] = score
        self.w[i] = w
        self.p[i] = p
        self.count[i] = c
        self.n += 1

    @cython.cfunc
    @cython.exceptval(check=False)
    def drop(self, i: cython.int) -> cython.void:
        """Remove the group at position `i`."""
        j: cython.int
        self.n -= 1
        for j in range(i, self.n):
            self.scores[j] = self.scores[j + 1]
            self.w[j] = self.w[j + 1]
            self.p[j] = self.p[j + 1]
            self.count[j] = self.count[j + 1]

    @cython.cfunc
    @cython.exceptval(check=False)
    def append(self, other: Leaf, start: cython.int, stop: cython.int) -> cython.void:
        """Copy groups of a leaf to the right to the end of this one."""
        j: cython.int
        for j in range(start, stop):
            self.scores[self.n] = other.scores[j]
            self.w[self.n] = other.w[j]
            self.p[self.n] = other.p[j]
            self.count[self.n] = other.count[j]
            self.n += 1

    @cython.cfunc
    @cython.exceptval(check=False)
    def sum_up(self) -> cython.void:
        j: cython.int
        w: cython.double = 0.0
        p: cython.double = 0.0
        for j in range(self.n):
            w += self.w[j]
            p += self.p[j]
        self.weight = w
        self.positive = p


@cython.no_gc
@cython.final
@cython.cclass
class Inner(Node):
    """Two children and the pool that crosses the cut between them.

    Every score of the left child < cut <= every score of the right one. The pool holds the groups with
    lo <= score < hi and has the slope P/W. On each side (LEFT, RIGHT) the mass of the child is split at the end of
    the pool: `near` inside it, `far` outside. Any line with a slope strictly between `low` and `high` of a side
    supports that child at the same end.
    """

    left: Node
    right: Node
    cut: cython.double
    lo: cython.double
    hi: cython.double
    P: cython.double
    W: cython.double
    near_w: cython.double[2]
    near_p: cython.double[2]
    far_w: cython.double[2]
    far_p: cython.double[2]
    low: cython.double[2]
    high: cython.double[2]

    def __init__(self, left: Node, right: Node, cut: cython.double):
        Node.__init__(self)
        self.left = left
        self.right = right
        self.cut = self.lo = self.hi = cut
        self.P = self.W = 0.0
        if not cython.compiled:
            self.near_w, self.near_p, self.far_w, self.far_p = ([0.0, 0.0] for _ in range(4))
            self.low, self.high = [0.0, 0.0], [0.0, 0.0]

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def sum_up(self) -> cython.void:
        self.leaves = self.left.leaves + self.right.leaves
        self.weight = self.left.weight + self.right.weight
        self.positive = self.left.positive + self.right.positive


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _belongs(
    side: cython.int, p: cython.double, w: cython.double, P: cython.double, W: cython.double, tie: cython.double
) -> cython.bint:
    """Does the stretch (w, p) next to a line of slope P/W clearly violate the order, and so belong into the pool?"""
    return p * W > P * w * tie if side == _LEFT else p * W * tie < P * w


@cython.cclass
class HullTree:
    """Distinct scores in order, each with its weight, positive weight and count, and the fit of all of them.

    `_root` is None exactly when nothing is held. `_exact` says that every mass ever seen was an integer and all sums
    stay below 2⁵²: only then can a mass be taken from a sum without leaving rounding behind. The attributes from
    `_score` on are the operation at work; they mean nothing between calls.
    """

    _root: Node
    _size: cython.longlong
    _count: cython.longlong
    _exact: cython.bint
    _tie: cython.double  # slopes that differ by less than this factor are not told apart
    _score: cython.double  # the group that changes, by how much, and whether something is taken back
    _dw: cython.double
    _dp: cython.double
    _dc: cython.longlong
    _taking: cython.bint
    _path: list  # root path of the score that is asked for, its length, the side it turns to at each node
    _depth: cython.int
    _turn: cython.int[64]
    _reach_w: cython.double[2][64]  # 64 pairs: mass from the score to the two ends of each node on the path
    _reach_p: cython.double[2][64]
    _leaf: Leaf
    _position: cython.int
    _tied: cython.int
    _probe: Inner  # scratch that takes the result of `_find_end` in a query

    def __init__(self):
        self._root = None
        self._size = self._count = 0
        self._set_exact(True)
        self._path = [None] * MAX_DEPTH
        self._probe = Inner(Node(), Node(), 0.0)
        if not cython.compiled:
            self._turn = [0] * MAX_DEPTH
            self._reach_w, self._reach_p = ([[0.0, 0.0] for _ in range(MAX_DEPTH)] for _ in range(2))

    def __reduce__(self):
        return _restored, self.to_arrays()

    @property
    def size(self):
        return self._size

    @property
    def count(self):
        return self._count

    @property
    def weight(self):
        return 0.0 if self._root is None else self._root.weight

    @property
    def positive(self):
        return 0.0 if self._root is None else self._root.positive

    # ---- change -------------------------------------------------------------------------------------------------

    def update(self, score: cython.double, w: cython.double, positive: cython.double, count: cython.longlong):
        """Add the mass `w`, `positive` of it with label 1, made of `count` observations."""
        self._add(float(score) + 0.0, float(w), float(positive), count)  # −0.0 + 0.0 = 0.0

    @cython.cfunc
    @cython.exceptval(check=False)
    def _add(self, score: cython.double, w: cython.double, p: cython.double, c: cython.longlong) -> cython.void:
        if self._root is None:
            self._root = Leaf()
        self._score, self._dw, self._dp, self._dc, self._taking = score, w, p, c, False
        self._count += c
        self._root = self._change(self._root)
        if self._exact:
            self._set_exact(_whole(w) and _whole(p) and self._root.weight < _EXACT_LIMIT)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _set_exact(self, exact: cython.bint) -> cython.void:
        self._exact = exact
        self._tie = _TIE_EXACT if exact else _TIE

    def revert(self, score: cython.double, w: cython.double, positive: cython.double, count: cython.longlong):
        """Take an earlier update back. Returns 0, or 1 if the tree cannot hold it: then nothing has changed."""
        score, w, positive = float(score) + 0.0, float(w), float(positive)
        if not self._holds(score, w, positive, count):
            return 1
        self._score, self._dw, self._dp, self._dc, self._taking = score, -w, -positive, -count, True
        self._count -= count
        self._set_exact(self._exact and _whole(w) and _whole(positive))
        self._root = self._change(self._root)
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def _holds(
        self, score: cython.double, w: cython.double, p: cython.double, c: cython.longlong
    ) -> cython.bint:
        """Can (score, w, p, c) have been added earlier? With the last observation all of the weight must go."""
        if self._root is None:
            return False
        leaf: Leaf = self._leaf_of(score)
        i: cython.int = leaf.position(score)
        if i == leaf.n or leaf.scores[i] != score or c > leaf.count[i]:
            return False
        slack: cython.double = _MASS_TOLERANCE * leaf.w[i]
        rest: cython.double = leaf.w[i] - w
        rest_p: cython.double = leaf.p[i] - p
        if c == leaf.count[i] and rest > slack:
            return False
        return rest >= -slack and rest_p >= -slack and rest - rest_p >= -slack

    @cython.cfunc
    def _change(self, node: Node) -> Node:
        """Carry the change to its leaf and bring the pools above it up to date; returns the subtree's new root."""
        if node.leaves == 1:
            return self._change_leaf(cython.cast(Leaf, node))
        inner: Inner = cython.cast(Inner, node)
        leaves: cython.longlong = inner.leaves
        side: cython.int = _LEFT if self._score < inner.cut else _RIGHT
        child: Node
        if side == _LEFT:
            child = self._change(inner.left)
            if child is None:
                return inner.right
            inner.left = child
        else:
            child = self._change(inner.right)
            if child is None:
                return inner.left
            inner.right = child
        inner.sum_up()
        if self._taking and inner.leaves == 2:
            child = _merged(cython.cast(Leaf, inner.left), cython.cast(Leaf, inner.right))
            if child is not None:
                return child
        if inner.leaves != leaves and not _balanced(inner.left.leaves, inner.right.leaves):
            return self._rebalance(inner)
        self._settle(inner, side)
        return inner

    @cython.cfunc
    def _change_leaf(self, leaf: Leaf) -> Node:
        """Change one group; returns the leaf, None when it is empty now, or a node of two leaves when it was full."""
        i: cython.int = leaf.position(self._score)
        if i == leaf.n or leaf.scores[i] != self._score:
            self._size += 1
            if leaf.n == _CAPACITY:
                return self._split(leaf, i)
            leaf.place(i, self._score, self._dw, self._dp, self._dc)
        elif not self._taking:
            leaf.w[i] += self._dw
            leaf.p[i] += self._dp
            leaf.count[i] += self._dc
        elif leaf.count[i] + self._dc == 0:
            self._size -= 1
            leaf.drop(i)
            if leaf.n == 0:
                return None
        else:
            # What is left is known only to within the rounding of what was there, and is positive: some
            # observations remain.
            leaf.w[i] = max(leaf.w[i] + self._dw, leaf.w[i] * _HALF_ULP)
            leaf.p[i] = min(max(leaf.p[i] + self._dp, 0.0), leaf.w[i])
            leaf.count[i] += self._dc
        leaf.sum_up()
        return leaf

    @cython.cfunc
    def _split(self, leaf: Leaf, i: cython.int) -> Node:
        """Put the new group before position `i` of a full leaf, and half of the groups into a new leaf.

        A group that comes first or last gets the new leaf for itself: sorted arrivals then leave full leaves behind.
        """
        half: cython.int = i if i == 0 or i == _CAPACITY else _CAPACITY // 2
        right: Leaf = Leaf()
        right.append(leaf, half, _CAPACITY)
        leaf.n = half
        if i < half or (i == half and i == 0):
            leaf.place(i, self._score, self._dw, self._dp, self._dc)
        else:
            right.place(i - half, self._score, self._dw, self._dp, self._dc)
        leaf.sum_up()
        right.sum_up()
        return self._joined(leaf, right, right.scores[0])

    @cython.cfunc
    def _joined(self, left: Node, right: Node, cut: cython.double) -> Inner:
        inner: Inner = Inner(left, right, cut)
        inner.sum_up()
        inner.P, inner.W = inner.positive, inner.weight
        self._find_pool(inner)
        return inner

    @cython.cfunc
    def _rebalance(self, inner: Inner) -> Node:
        """Rotate a node one of whose children has become too heavy."""
        child: Inner
        if inner.left.leaves < inner.right.leaves:
            child = cython.cast(Inner, inner.right)
            if child.left.leaves >= _ROTATION * child.right.leaves:
                inner.right = self._rotated_right(child)
            return self._rotated_left(inner)
        child = cython.cast(Inner, inner.left)
        if child.right.leaves >= _ROTATION * child.left.leaves:
            inner.left = self._rotated_left(child)
        return self._rotated_right(inner)

    @cython.cfunc
    def _rotated_left(self, inner: Inner) -> Inner:
        """The right child becomes the parent."""
        child: Inner = cython.cast(Inner, inner.right)
        return self._joined(self._joined(inner.left, child.left, inner.cut), child.right, child.cut)

    @cython.cfunc
    def _rotated_right(self, inner: Inner) -> Inner:
        """The left child becomes the parent."""
        child: Inner = cython.cast(Inner, inner.left)
        return self._joined(child.left, self._joined(child.right, inner.right, inner.cut), child.cut)

    # ---- pools --------------------------------------------------------------------------------------------------

    @cython.cfunc
    @cython.exceptval(check=False)
    def _settle(self, inner: Inner, side: cython.int) -> cython.void:
        """Bring the pool of a node up to date after the change in its child on `side`; search only if need be.

        Seen from the cut, the change moves all points of the child beyond the changed group by one vector (dw, dp).
        Where that lies outside the pool and lifts them off the supporting line, the pool stays as it is.
        Otherwise both ends are held against the new slope.
        """
        if self._taking and not self._exact:
            self._find_pool(inner)
            return
        other: cython.int = 1 - side
        slope: cython.double
        if inner.lo <= self._score < inner.hi:
            inner.near_w[side] += self._dw
            inner.near_p[side] += self._dp
            inner.W = inner.near_w[_LEFT] + inner.near_w[_RIGHT]
            inner.P = inner.near_p[_LEFT] + inner.near_p[_RIGHT]
            if inner.W == 0.0:  # nothing crosses any more: any slope will do to begin with
                inner.P, inner.W = inner.positive, inner.weight
                self._find_pool(inner)
                return
            slope = inner.P / inner.W
            if not inner.low[other] < slope < inner.high[other]:
                self._find_pool(inner)
                return
        else:
            inner.far_w[side] += self._dw
            inner.far_p[side] += self._dp
            if not _belongs(side, self._dp, self._dw, inner.P, inner.W, 1.0):
                slope = self._dp / self._dw  # lines beyond this slope see the points come down
                if (side == _LEFT) == (self._dw > 0.0):
                    inner.low[side] = max(inner.low[side], slope)
                else:
                    inner.high[side] = min(inner.high[side], slope)
                return
            slope = inner.P / inner.W
        if not (inner.low[side] < slope < inner.high[side] and self._kept(inner, side)):
            self._find_pool(inner)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _kept(self, inner: Inner, side: cython.int) -> cython.bint:
        """Does the pool surely end where it did, given that its slope lies between `low` and `high`?

        The descent for the end is followed as long as it stays with the changed group. Once it turns into a subtree
        without it, the end is found there: if the old end lies there too, it is the one, since it supported
        the subtree then, at this slope, and the subtree has not changed.
        """
        node: Node = inner.left if side == _LEFT else inner.right
        end: cython.double = inner.lo if side == _LEFT else inner.hi
        there: Inner
        left: cython.bint
        while node.leaves > 1:
            there = cython.cast(Inner, node)
            left = _belongs(side, there.P, there.W, inner.P, inner.W, self._tie) == (side == _LEFT)
            if left:
                inner.high[side] = min(inner.high[side], there.P / there.W)
            else:
                inner.low[side] = max(inner.low[side], there.P / there.W)
            if left != (self._score < there.cut):
                return end <= there.cut if left else end >= there.cut
            node = there.left if left else there.right
        return False

    @cython.cfunc
    @cython.exceptval(check=False)
    def _find_pool(self, inner: Inner) -> cython.void:
        """Find the pool of a node by Newton's method, from the slope it holds.

        The slope λ* wanted is the root of a decreasing, piecewise linear function of λ: the height of the line
        through the right end over that through the left one. Its sign at each λ tried narrows the bracket;
        a step that leaves the bracket is replaced by its middle.
        """
        left_slope: cython.double = -_INFINITY  # bracket of λ*
        right_slope: cython.double = _INFINITY
        slope: cython.double = inner.P / inner.W
        w: cython.double
        p: cython.double
        first: cython.bint = True
        side: cython.int
        while True:
            for side in range(2):
                if first or not inner.low[side] < slope < inner.high[side]:
                    self._find_end(inner, side, inner.P, inner.W, inner)
            first = False
            w = inner.near_w[_LEFT] + inner.near_w[_RIGHT]
            p = inner.near_p[_LEFT] + inner.near_p[_RIGHT]
            if w == 0.0:
                return
            if p * inner.W == inner.P * w:
                inner.P, inner.W = p, w
                return
            if p * inner.W > inner.P * w:
                left_slope = slope
            else:
                right_slope = slope
            inner.P, inner.W = p, w
            slope = p / w
            if not left_slope < slope < right_slope:
                slope = 0.5 * (max(left_slope, 0.0) + min(right_slope, 1.0))
                if not left_slope < slope < right_slope:
                    self._tie = 1.0 / self._tie
                    self._find_end(inner, _LEFT, right_slope, 1.0, inner)
                    self._find_end(inner, _RIGHT, left_slope, 1.0, inner)
                    self._tie = 1.0 / self._tie
                    inner.W = inner.near_w[_LEFT] + inner.near_w[_RIGHT]
                    inner.P = inner.near_p[_LEFT] + inner.near_p[_RIGHT]
                    return
                inner.P, inner.W = slope, 1.0

    @cython.cfunc
    @cython.exceptval(check=False)
    def _find_end(self, inner: Inner, side: cython.int, P: cython.double, W: cython.double, into: Inner) -> cython.void:
        """Where the line of slope P/W supports the child on `side`: the fields of that side of `into`."""
        node: Node = inner.left if side == _LEFT else inner.right
        key: cython.double = inner.cut if side == _LEFT else _INFINITY
        near_w: cython.double = 0.0
        near_p: cython.double = 0.0
        far_w: cython.double = 0.0
        far_p: cython.double = 0.0
        low: cython.double = -_INFINITY
        high: cython.double = _INFINITY
        tie: cython.double = self._tie
        there: Inner
        belongs: cython.bint
        slope: cython.double
        while node.leaves > 1:
            there = cython.cast(Inner, node)
            slope = there.P / there.W
            belongs = _belongs(side, there.P, there.W, P, W, tie)
            if belongs == (side == _LEFT):  # steeper than the line: the end lies in the left child
                high = min(high, slope)
                key = there.cut
                node = there.right
            else:
                low = max(low, slope)
                node = there.left
            # `node` is the child left behind
            if belongs:
                near_w += node.weight
                near_p += node.positive
            else:
                far_w += node.weight
                far_p += node.positive
            node = there.left if belongs == (side == _LEFT) else there.right
        leaf: Leaf = cython.cast(Leaf, node)
        first: cython.int = leaf.n - 1 if side == _LEFT else 0
        step: cython.int = -1 if side == _LEFT else 1
        held: cython.int = 0  # groups of the leaf inside the end
        i: cython.int = first
        k: cython.int
        w: cython.double = 0.0
        p: cython.double = 0.0
        for k in range(leaf.n):
            w += leaf.w[i]
            p += leaf.p[i]
            if _belongs(side, p, w, P, W, tie):
                near_w += w
                near_p += p
                w = p = 0.0
                held = k + 1
            i += step
        into.near_w[side], into.near_p[side] = near_w, near_p
        into.far_w[side], into.far_p[side] = far_w + w, far_p + p
        # The slopes between which the end stays: those of the edges of the leaf's minorant at the end.
        if side == _LEFT:
            i = leaf.n - held
            into.lo = leaf.scores[i] if held else key
        else:
            i = held
            into.hi = leaf.scores[i] if held < leaf.n else key
        w = p = 0.0
        for k in range(i, leaf.n):
            w += leaf.w[k]
            p += leaf.p[k]
            high = min(high, p / w)
        w = p = 0.0
        for k in range(i - 1, -1, -1):
            w += leaf.w[k]
            p += leaf.p[k]
            low = max(low, p / w)
        into.low[side], into.high[side] = low * tie, high / tie

    # ---- queries ------------------------------------------------------------------------------------------------

    def find(self, score: cython.double):
        """Weight, positive weight and count of the group with this score; zeros if there is none."""
        if self._root is not None:
            leaf: Leaf = self._leaf_of(score)
            i: cython.int = leaf.position(score)
            if i < leaf.n and leaf.scores[i] == score:
                return leaf.w[i], leaf.p[i], leaf.count[i]
        return 0.0, 0.0, 0

    @cython.cfunc
    def _leaf_of(self, score: cython.double) -> Leaf:
        node: Node = self._root
        inner: Inner
        while node.leaves > 1:
            inner = cython.cast(Inner, node)
            node = inner.left if score < inner.cut else inner.right
        return cython.cast(Leaf, node)

    def interval(self, score: cython.double, w: cython.double):
        """The fits at `score` of the data and (score, 0, w), and of the data and (score, 1, w)."""
        score, w = float(score), float(w)
        if self._root is None:
            return 0.0, 1.0
        self._locate(score)
        p0: cython.double = self._fit_with(0.0, w)
        p1: cython.double = self._fit_with(w, w)
        return p0, max(p0, p1)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _locate(self, score: cython.double) -> cython.void:
        """Walk to the score, keep the path, and sum up the masses on both sides of the score along it."""
        node: Node = self._root
        inner: Inner
        d: cython.int = 0
        while node.leaves > 1:
            inner = cython.cast(Inner, node)
            self._path[d] = inner
            if score < inner.cut:
                self._turn[d] = _LEFT
                node = inner.left
            else:
                self._turn[d] = _RIGHT
                node = inner.right
            d += 1
        leaf: Leaf = cython.cast(Leaf, node)
        self._leaf, self._score, self._depth = leaf, score, d
        i: cython.int = leaf.position(score)
        self._position = i
        self._tied = 1 if i < leaf.n and leaf.scores[i] == score else 0
        j: cython.int
        w: cython.double = 0.0
        p: cython.double = 0.0
        for j in range(i):
            w += leaf.w[j]
            p += leaf.p[j]
        self._reach_w[d][_LEFT], self._reach_p[d][_LEFT] = w, p
        w = p = 0.0
        for j in range(i + self._tied, leaf.n):
            w += leaf.w[j]
            p += leaf.p[j]
        self._reach_w[d][_RIGHT], self._reach_p[d][_RIGHT] = w, p
        while d > 0:
            d -= 1
            inner = cython.cast(Inner, self._path[d])
            self._reach_w[d][_LEFT], self._reach_p[d][_LEFT] = self._reach_w[d + 1][_LEFT], self._reach_p[d + 1][_LEFT]
            self._reach_w[d][_RIGHT], self._reach_p[d][_RIGHT] = self._reach_w[d + 1][_RIGHT], self._reach_p[d + 1][_RIGHT]
            if self._turn[d] == _LEFT:
                self._reach_w[d][_RIGHT] += inner.right.weight
                self._reach_p[d][_RIGHT] += inner.right.positive
            else:
                self._reach_w[d][_LEFT] += inner.left.weight
                self._reach_p[d][_LEFT] += inner.left.positive

    @cython.cfunc
    @cython.exceptval(check=False)
    def _fit_with(self, p: cython.double, w: cython.double) -> cython.double:
        """The fit at the located score when the mass (w, p) is added there: `_find_pool` for the edge over it."""
        leaf: Leaf = self._leaf
        score: cython.double = self._score
        inner: Inner
        d: cython.int
        P: cython.double = p
        W: cython.double = w
        if self._tied:
            w += leaf.w[self._position]
            p += leaf.p[self._position]
            P, W = p, w
        for d in range(self._depth):  # begin with the pool the score lies in, and all of the new mass
            inner = cython.cast(Inner, self._path[d])
            if inner.lo <= score < inner.hi:
                P, W = inner.P + P, inner.W + W
                break
        probe: Inner = self._probe
        left_slope: cython.double = -_INFINITY
        right_slope: cython.double = _INFINITY
        slope: cython.double = P / W
        sum_w: cython.double
        sum_p: cython.double
        while True:
            self._find_end_from_score(_LEFT, P, W)
            self._find_end_from_score(_RIGHT, P, W)
            sum_w = probe.near_w[_LEFT] + w + probe.near_w[_RIGHT]
            sum_p = probe.near_p[_LEFT] + p + probe.near_p[_RIGHT]
            if sum_p * W == P * sum_w:
                return sum_p / sum_w
            if sum_p * W > P * sum_w:
                left_slope = slope
            else:
                right_slope = slope
            P, W = sum_p, sum_w
            slope = P / W
            if not left_slope < slope < right_slope:
                slope = 0.5 * (max(left_slope, 0.0) + min(right_slope, 1.0))
                if not left_slope < slope < right_slope:
                    return slope
                P, W = slope, 1.0

    @cython.cfunc
    @cython.exceptval(check=False)
    def _find_end_from_score(self, side: cython.int, P: cython.double, W: cython.double) -> cython.void:
        """Where the line of slope P/W supports the groups on one side of the located score: `near` of the probe.

        These groups are the children of the path's nodes that hang off on that side, and a part of the last leaf.
        Where the pool of such a node belongs to the far side of the line's end, the child holds the end for the
        whole node: what hangs deeper is hidden. The first such node from the top is the start. The children above
        it matter only if a pool of theirs reaches over the score, for else it proves that the line passes them.
        """
        probe: Inner = self._probe
        inner: Inner
        child: Node
        start: cython.int = self._depth
        d: cython.int
        w: cython.double
        p: cython.double
        far_w: cython.double
        far_p: cython.double
        for d in range(self._depth):
            if self._turn[d] != side:
                inner = cython.cast(Inner, self._path[d])
                if _belongs(side, inner.P, inner.W, P, W, self._tie):
                    start = d
                    break
        if start == self._depth:
            self._find_end_in_leaf(side, P, W)
            w, p = probe.near_w[side], probe.near_p[side]
        else:
            self._find_end_again(cython.cast(Inner, self._path[start]), side, P, W)
            w = self._reach_w[start + 1][side] + probe.near_w[side]
            p = self._reach_p[start + 1][side] + probe.near_p[side]
        far_w, far_p = probe.far_w[side], probe.far_p[side]
        for d in range(start - 1, -1, -1):
            if self._turn[d] == side:
                continue
            inner = cython.cast(Inner, self._path[d])
            if inner.lo <= self._score < inner.hi:
                self._find_end_again(inner, side, P, W)
                far_w += probe.near_w[side]
                far_p += probe.near_p[side]
                if _belongs(side, far_p, far_w, P, W, self._tie):
                    w += far_w
                    p += far_p
                    far_w = far_p = 0.0
                far_w += probe.far_w[side]
                far_p += probe.far_p[side]
            else:
                child = inner.left if side == _LEFT else inner.right
                far_w += child.weight
                far_p += child.positive
        probe.near_w[side], probe.near_p[side] = w, p

    @cython.cfunc
    @cython.exceptval(check=False)
    def _find_end_again(self, inner: Inner, side: cython.int, P: cython.double, W: cython.double) -> cython.void:
        """`_find_end` into the probe; no search where the line supports the child at the end of its pool."""
        if inner.low[side] < P / W < inner.high[side]:
            probe: Inner = self._probe
            probe.near_w[side], probe.near_p[side] = inner.near_w[side], inner.near_p[side]
            probe.far_w[side], probe.far_p[side] = inner.far_w[side], inner.far_p[side]
        else:
            self._find_end(inner, side, P, W, self._probe)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _find_end_in_leaf(self, side: cython.int, P: cython.double, W: cython.double) -> cython.void:
        """`_find_end` among the groups of the last leaf on one side of the score, into the probe."""
        leaf: Leaf = self._leaf
        probe: Inner = self._probe
        number: cython.int = self._position if side == _LEFT else leaf.n - self._position - self._tied
        step: cython.int = -1 if side == _LEFT else 1
        i: cython.int = self._position - 1 if side == _LEFT else self._position + self._tied
        w: cython.double = 0.0
        p: cython.double = 0.0
        near_w: cython.double = 0.0
        near_p: cython.double = 0.0
        tie: cython.double = self._tie
        for _ in range(number):
            w += leaf.w[i]
            p += leaf.p[i]
            if _belongs(side, p, w, P, W, tie):
                near_w += w
                near_p += p
                w = p = 0.0
            i += step
        probe.near_w[side], probe.near_p[side], probe.far_w[side], probe.far_p[side] = near_w, near_p, w, p

    def isotonic(self, score: cython.double):
        """The isotonic least-squares fit, linear between held scores, constant outside; NaN when empty."""
        return self._isotonic(float(score))

    @cython.cfunc
    @cython.exceptval(check=False)
    def _isotonic(self, score: cython.double) -> cython.double:
        if self._root is None:
            return math.nan
        self._locate(score)
        if self._tied:
            return self._fitted()
        below: cython.double = -_INFINITY
        above: cython.double = _INFINITY
        node: Node
        inner: Inner
        leaf: Leaf = self._leaf
        d: cython.int
        if self._position > 0:
            below = leaf.scores[self._position - 1]
        if self._position < leaf.n:
            above = leaf.scores[self._position]
        for d in range(self._depth):  # a neighbour in another leaf: the last of a left child, the first of a right
            inner = cython.cast(Inner, self._path[d])
            if self._turn[d] == _RIGHT and self._position == 0:
                node = inner.left
                while node.leaves > 1:
                    node = cython.cast(Inner, node).right
                below = cython.cast(Leaf, node).scores[cython.cast(Leaf, node).n - 1]
            elif self._turn[d] == _LEFT and self._position == leaf.n:
                node = inner.right
                while node.leaves > 1:
                    node = cython.cast(Inner, node).left
                above = cython.cast(Leaf, node).scores[0]
        if below == -_INFINITY:
            return self._value_of(above)
        value: cython.double = self._value_of(below)
        if above == _INFINITY:
            return value
        rise: cython.double = self._value_of(above) - value
        if above - below == _INFINITY:  # the distance of two scores may exceed the largest float
            return value + rise * ((0.5 * score - 0.5 * below) / (0.5 * above - 0.5 * below))
        return value + rise * ((score - below) / (above - below))

    @cython.cfunc
    @cython.exceptval(check=False)
    def _value_of(self, score: cython.double) -> cython.double:
        self._locate(score)
        return self._fitted()

    @cython.cfunc
    @cython.exceptval(check=False)
    def _fitted(self) -> cython.double:
        """The fit of the located group."""
        inner: Inner
        d: cython.int
        for d in range(self._depth):
            inner = cython.cast(Inner, self._path[d])
            if inner.lo <= self._score < inner.hi:
                return inner.P / inner.W
        return self._fit_with(0.0, 0.0)

    def intervals(self, scores, w: cython.double):
        """`interval` of many scores: two arrays."""
        x: cython.double[::1] = np.ascontiguousarray(scores, dtype=np.float64)
        p0 = np.zeros(len(x))
        p1 = np.ones(len(x))
        lower: cython.double[::1] = p0
        upper: cython.double[::1] = p1
        i: cython.Py_ssize_t
        if self._root is not None:
            for i in range(len(x)):
                self._locate(float(x[i]))
                lower[i] = self._fit_with(0.0, float(w))
                upper[i] = max(lower[i], self._fit_with(float(w), float(w)))
        return p0, p1

    def isotonics(self, scores):
        """`isotonic` of many scores."""
        x: cython.double[::1] = np.ascontiguousarray(scores, dtype=np.float64)
        found = np.empty(len(x))
        values: cython.double[::1] = found
        i: cython.Py_ssize_t
        for i in range(len(x)):
            values[i] = self._isotonic(float(x[i]))
        return found

    # ---- all at once --------------------------------------------------------------------------------------------

    def rebuild(self, scores, w, positive, count):
        """Replace the content by sorted arrays of distinct scores. O(k)."""
        s: cython.double[::1] = np.ascontiguousarray(scores, dtype=np.float64) + 0.0
        ws: cython.double[::1] = np.ascontiguousarray(w, dtype=np.float64)
        ps: cython.double[::1] = np.ascontiguousarray(positive, dtype=np.float64)
        cs: cython.longlong[::1] = np.ascontiguousarray(count, dtype=np.int64)
        self._size = len(s)
        self._count = 0
        exact: cython.bint = True
        total: cython.double = 0.0
        leaves = []
        leaf: Leaf = None
        i: cython.Py_ssize_t
        for i in range(self._size):
            if i % LEAF_FILL == 0:
                leaf = Leaf()
                leaves.append(leaf)
            leaf.place(leaf.n, float(s[i]), float(ws[i]), float(ps[i]), int(cs[i]))
            self._count += int(cs[i])
            total += leaf.w[leaf.n - 1]
            exact = exact and _whole(ws[i]) and _whole(ps[i]) and total < _EXACT_LIMIT
        for leaf in leaves:
            leaf.sum_up()
        self._set_exact(exact)
        self._root = self._built(leaves, 0, len(leaves)) if leaves else None

    @cython.cfunc
    def _built(self, leaves: list, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> Node:
        if stop - start == 1:
            return cython.cast(Leaf, leaves[start])
        middle: cython.Py_ssize_t = (start + stop) >> 1
        first: Leaf = cython.cast(Leaf, leaves[middle])
        return self._joined(self._built(leaves, start, middle), self._built(leaves, middle, stop), first.scores[0])

    def update_sorted(self, scores, w, positive, count):
        """Update by sorted arrays of distinct scores: one by one when they are few, else merged and rebuilt."""
        s = np.ascontiguousarray(scores, dtype=np.float64) + 0.0
        columns = [np.asarray(w, np.float64), np.asarray(positive, np.float64), np.asarray(count, np.int64)]
        if len(s) * FEW < self._size:
            for x, xw, xp, xc in zip(s.tolist(), *(column.tolist() for column in columns), strict=True):
                self._add(x, xw, xp, xc)
            return
        held = self.to_arrays()
        merged = np.union1d(held[0], s)
        sums = [np.zeros(len(merged), column.dtype) for column in columns]
        for old, new, total in zip(held[1:], columns, sums, strict=True):
            total[np.searchsorted(merged, held[0])] = old
            total[np.searchsorted(merged, s)] += new
        self.rebuild(merged, *sums)

    def to_arrays(self):
        """Scores, weights, positive weights and counts in order of score: copies."""
        scores, w, positive = (np.empty(self._size) for _ in range(3))
        count = np.empty(self._size, dtype=np.int64)
        s: cython.double[::1] = scores
        ws: cython.double[::1] = w
        ps: cython.double[::1] = positive
        cs: cython.longlong[::1] = count
        at: cython.Py_ssize_t = 0
        j: cython.int
        leaf: Leaf
        for leaf in _leaves(self._root):
            for j in range(leaf.n):
                s[at], ws[at], ps[at], cs[at] = leaf.scores[j], leaf.w[j], leaf.p[j], leaf.count[j]
                at += 1
        return scores, w, positive, count

    def blocks(self):
        """First score, last score and value of each block of the isotonic fit, three arrays. O(k)."""
        scores, w, positive, _ = self.to_arrays()
        ws: cython.double[::1] = w
        ps: cython.double[::1] = positive
        starts = np.empty(self._size, dtype=np.int64)
        first: cython.longlong[::1] = starts
        n: cython.Py_ssize_t = 0  # blocks so far: their masses stand in the first n cells of ws and ps
        i: cython.Py_ssize_t
        bw: cython.double
        bp: cython.double
        for i in range(self._size):
            bw, bp = ws[i], ps[i]
            first[n] = i
            while n > 0 and ps[n - 1] * bw >= bp * ws[n - 1]:
                n -= 1
                bw += ws[n]
                bp += ps[n]
            ws[n], ps[n] = bw, bp
            n += 1
            if n < self._size:
                first[n] = i + 1
        ends = np.append(starts[1:n], self._size) - 1 if n else starts[:0]
        return scores[starts[:n]], scores[ends], positive[:n] / w[:n]

    def multiply(self, factor: cython.double):
        """Scale every weight by a positive factor. O(k)."""
        scores, w, positive, count = self.to_arrays()
        self.rebuild(scores, w * factor, np.minimum(positive * factor, w * factor), count)

    def prune(self, threshold: cython.double):
        """Drop the groups with less weight than `threshold`; returns how many observations went. O(k)."""
        scores, w, positive, count = self.to_arrays()
        kept = w >= threshold
        if not kept.all():
            self.rebuild(scores[kept], w[kept], positive[kept], count[kept])
        return int(count[~kept].sum())

    # ---- invariants ---------------------------------------------------------------------------------------------

    def check(self):
        """Raise AssertionError where an invariant does not hold. O(k log k)."""
        leaf: Leaf
        groups = 0
        for leaf in _leaves(self._root):
            groups += leaf.n
        assert groups == self._size, "size"
        scores, w, positive, count = self.to_arrays()
        assert (np.diff(scores) > 0).all(), "scores are not strictly increasing"
        assert (w > 0).all() and (positive >= 0).all() and (positive <= w).all(), "masses out of range"
        assert int(count.sum()) == self._count, "count"
        if self._root is not None:
            _check(self._root, scores, w, positive, self._exact)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _whole(x: cython.double) -> cython.bint:
    return -_EXACT_LIMIT < x < _EXACT_LIMIT and x == cython.cast(cython.longlong, x)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _balanced(a: cython.longlong, b: cython.longlong) -> cython.bint:
    return a <= _BALANCE * b and b <= _BALANCE * a


@cython.cfunc
def _merged(left: Leaf, right: Leaf) -> Leaf:
    """One leaf with the groups of both if they are few, else None."""
    if left.n + right.n > _MERGED_FILL:
        return None
    left.append(right, 0, right.n)
    left.sum_up()
    return left


def _leaves(node):
    """The leaves below a node, from left to right."""
    stack = [] if node is None else [node]
    while stack:
        node = stack.pop()
        if isinstance(node, Leaf):
            yield node
        else:
            stack += _children(node)


@cython.ccall
def _children(inner: Inner):
    return inner.right, inner.left


def _restored(scores, w, positive, count):
    tree = HullTree()
    tree.rebuild(scores, w, positive, count)
    return tree


@cython.ccall
def _check(node: Node, scores, w, p, exact: cython.bint):
    """Check a node that should hold just these groups."""
    slack = 0.0 if exact else 1e-9  # sums in two orders; additions to a `far` or `near` add up their rounding
    assert abs(node.weight - w.sum()) <= slack * w.sum(), "weight"
    assert abs(node.positive - p.sum()) <= slack * w.sum(), "positive weight"
    if node.leaves == 1:
        assert isinstance(node, Leaf), "a leaf"
        assert 0 < cython.cast(Leaf, node).n == len(w) <= LEAF_CAPACITY, "number of groups in a leaf"
        return
    inner: Inner = cython.cast(Inner, node)
    assert inner.leaves == inner.left.leaves + inner.right.leaves, "number of leaves"
    assert _balanced(inner.left.leaves, inner.right.leaves), "balance"
    m = int(np.searchsorted(scores, inner.cut))
    _check(inner.left, scores[:m], w[:m], p[:m], exact)
    _check(inner.right, scores[m:], w[m:], p[m:], exact)
    assert inner.lo <= inner.cut <= inner.hi, "the pool crosses the cut"
    ends = np.searchsorted(scores, [inner.lo, inner.hi])
    for side, (child_w, child_p) in enumerate([(w[:m][::-1], p[:m][::-1]), (w[m:], p[m:])]):
        held = abs(int(ends[side]) - m)
        slack_w = slack * node.weight
        assert abs(inner.near_w[side] - child_w[:held].sum()) <= slack_w, "near weight"
        assert abs(inner.near_p[side] - child_p[:held].sum()) <= slack_w, "near positive weight"
        assert abs(inner.far_w[side] - child_w[held:].sum()) <= slack_w, "far weight"
        assert abs(inner.far_p[side] - child_p[held:].sum()) <= slack_w, "far positive weight"
        x = np.append(0.0, child_w.cumsum())
        y = np.append(0.0, child_p.cumsum())
        sign = 1.0 if side == RIGHT else -1.0
        slope = inner.P / inner.W
        assert inner.low[side] <= slope * TIE**3 and slope <= inner.high[side] * TIE**3, "slope outside the range of its end"
        for line in (slope, max(inner.low[side], -1.0), min(inner.high[side], 2.0)):
            height = sign * (y - line * x)
            # The height of a point is the difference of two sums below 2·weight.
            assert height[held] <= height.min() + (slack + 1e-14) * node.weight, "a point below the supporting line"
    crossing = inner.near_w[LEFT] + inner.near_w[RIGHT]
    if crossing > 0.0:
        assert inner.W == crossing and inner.P == inner.near_p[LEFT] + inner.near_p[RIGHT], "slope of the pool"
