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
                    end of a pool and rises does not matter; what belongs into a pool and enters it confirms
                    its end (`_confirmed`); else the old end is put to the proof before another is sought (`_kept`)
    interval        Newton again, for the edge that crosses the test object; each end is that of a prefix or a
                    suffix of the groups, which is one root path read downwards (`_find_end_from_score`)
    isotonic        the topmost pool that contains the score

With k distinct scores a descent costs O(log k). An update is one descent, and for each pool that must be searched
two more per step of Newton's method: at a million scores every other time one pool of 15, in one or two steps. A query
is one descent, and for each step at most one more for every pool that reaches over the score, O(log² k). The bracket
bounds the steps; streams of 0/1 labels never took more than 12, weights made to mislead (over 10¹⁰⁰) up to 95. Memory:
32 bytes for each place in a leaf, of which random arrivals fill 70 % and sorted ones all, and 4 for the nodes. Leaves
and nodes are allocated one by one, so that no step ever copies the whole.

Masses are measured from the cut (in a query: from the score) outwards and are sums of positive numbers only, so that
light groups beside heavy ones keep their digits; no difference of sums is ever taken, but of whole numbers. Two slopes
are compared by cross multiplication. With integer weights of a total below 3·10⁷ all of that is exact. For other
weights, of however many magnitudes between LIGHTEST and HEAVIEST, the fits are right to a few 1e-14 (see `TIE`).
"""

from __future__ import annotations

import math

import cython
import numpy as np

from streamcal.kernels.usual import LARGEST_WEIGHT, SMALLEST_WEIGHT

LEAF_CAPACITY = 64
LEAF_FILL = 48  # groups per leaf after `rebuild`: room to grow without splitting at once
MERGED_FILL = 48  # two sibling leaves become one when they hold no more: far enough from 64 not to flutter
FEW = 16  # `update_sorted` loops while the tree is this many times larger than the update

BALANCE, ROTATION = 3, 2
"""Neither child has more than 3 times the leaves of the other; a double rotation where the inner grandchild has at
least twice the leaves of the outer. Hirai & Yamamoto (2011) prove that this pair keeps a tree balanced."""

MASS_TOLERANCE = 1e-10
"""When an observation is taken back, a group may miss this fraction of the heaviest group there ever was: more than the
rounding of a million sums and differences, and, unless weights span ten orders of magnitude, less than any mistake."""

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

WHOLE_LIMIT = 2.0**24
"""Where the weights of a line and of a leaf are whole numbers below it, P·w, p·W and their sums are exact. Two slopes
that differ do so by more than TIE_EXACT, so that nothing ties but what is equal."""

LIGHTEST, HEAVIEST = 1e-150, 1e150
"""The product of two weights between these neither underflows nor overflows. `multiply` drops lighter groups: under
decay they are what a pause of hundreds of half-lives has left. A test object is never taken to be heavier: it
outweighs what decayed weights can add up to by 70 orders of magnitude, so that the fits are 0 and 1 to 1e-70."""

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
_HEAVIEST = cython.declare(cython.double, HEAVIEST)
_WHOLE_LIMIT = cython.declare(cython.double, WHOLE_LIMIT)
_TIE = cython.declare(cython.double, TIE)
_TIE_EXACT = cython.declare(cython.double, TIE_EXACT)
_INFINITY = cython.declare(cython.double, math.inf)
_SMALLEST_WEIGHT = cython.declare(cython.double, SMALLEST_WEIGHT)
_LARGEST_WEIGHT = cython.declare(cython.double, LARGEST_WEIGHT)

MAX_DEPTH = 64  # more than log(2e9 / 24) / log(4/3): balance keeps two thousand million groups below it

# A node that is only looked at, while nothing changes: a bare pointer, since counting references would write to every
# node on the way. Every descent goes by these; what may drop a node holds it as an object.
Borrowed = cython.typedef(cython.p_void)
if not cython.compiled:
    Borrowed = object


@cython.no_gc  # children are owned by their parent alone: no cycles, and nothing for the collector to walk
@cython.cclass
class Node:
    """What leaves and inner nodes share: the number of leaves below and the mass.

    What is done with them are functions: a table of methods would cost each node a pointer, and an inner one, which is
    three cache lines long, a fourth.
    """

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


@cython.no_gc
@cython.final
@cython.cclass
class Inner(Node):
    """Two children and the pool that crosses the cut between them.

    Every score of the left child < cut <= every score of the right one. The pool holds the groups with
    lo <= score < hi and has the slope P/W. On each side (LEFT, RIGHT) the mass of the child is split at the end of
    the pool: `near` inside it, `far` outside. Any line with a slope strictly between `low` and `high` of a side
    supports that child at the same end; low = ∞ says that the end is not known.
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
        self.left, self.right = left, right
        self.cut = self.lo = self.hi = cut
        _add_up(self)
        self.P, self.W = self.positive, self.weight
        if not cython.compiled:
            self.near_w, self.near_p, self.far_w, self.far_p = ([0.0, 0.0] for _ in range(4))
            self.low, self.high = [0.0, 0.0], [0.0, 0.0]
        self.low[LEFT] = self.low[RIGHT] = _INFINITY


@cython.cfunc
@cython.exceptval(check=False)
@cython.locals(i=cython.int)
def _position(leaf: Leaf, score: cython.double) -> cython.int:
    """How many groups lie below `score`. Loads that do not wait for one another beat a search by halves."""
    i = 0
    while i + 8 <= leaf.n and leaf.scores[i + 7] < score:
        i += 8
    while i < leaf.n and leaf.scores[i] < score:
        i += 1
    return i


@cython.cfunc
@cython.exceptval(check=False)
@cython.locals(j=cython.int)
def _place(
    leaf: Leaf, i: cython.int, score: cython.double, w: cython.double, p: cython.double, count: cython.longlong
) -> cython.void:
    """Insert a group before position `i`; there is room."""
    for j in range(leaf.n, i, -1):
        leaf.scores[j] = leaf.scores[j - 1]
        leaf.w[j] = leaf.w[j - 1]
        leaf.p[j] = leaf.p[j - 1]
        leaf.count[j] = leaf.count[j - 1]
    leaf.scores[i], leaf.w[i], leaf.p[i], leaf.count[i] = score, w, p, count
    leaf.n += 1
    leaf.weight += w
    leaf.positive += p


@cython.cfunc
@cython.exceptval(check=False)
@cython.locals(j=cython.int)
def _drop(leaf: Leaf, i: cython.int) -> cython.void:
    """Remove the group at position `i`."""
    leaf.n -= 1
    for j in range(i, leaf.n):
        leaf.scores[j] = leaf.scores[j + 1]
        leaf.w[j] = leaf.w[j + 1]
        leaf.p[j] = leaf.p[j + 1]
        leaf.count[j] = leaf.count[j + 1]


@cython.cfunc
@cython.exceptval(check=False)
@cython.locals(j=cython.int)
def _append(leaf: Leaf, other: Leaf, start: cython.int) -> cython.void:
    """Copy the groups of a leaf to the right, from position `start` on, to the end of this one."""
    for j in range(start, other.n):
        _place(leaf, leaf.n, other.scores[j], other.w[j], other.p[j], other.count[j])


@cython.cfunc
@cython.exceptval(check=False)
@cython.locals(j=cython.int)
def _sum_up(leaf: Leaf) -> cython.void:
    """Form the masses anew, as after a removal, when subtraction would leave rounding behind."""
    leaf.weight = leaf.positive = 0.0
    for j in range(leaf.n):
        leaf.weight += leaf.w[j]
        leaf.positive += leaf.p[j]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _add_up(inner: Inner) -> cython.void:
    """Sum the children up."""
    inner.leaves = inner.left.leaves + inner.right.leaves
    inner.weight = inner.left.weight + inner.right.weight
    inner.positive = inner.left.positive + inner.right.positive


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _belongs(
    side: cython.int, p: cython.double, w: cython.double, P: cython.double, W: cython.double, tie: cython.double
) -> cython.bint:
    """Does the stretch (w, p) next to a line of slope P/W clearly violate the order, and so belong into the pool?"""
    return p * W > P * tie * w if side == _LEFT else p * (W * tie) < P * w


@cython.cclass
class HullTree:
    """Distinct scores in order, each with its weight, positive weight and count, and the fit of all of them.

    `centre`, if given, is asked where a score that comes alone stands: on a grid, the centre of its cell. Arrays of
    scores are taken as they are.

    `_root` is None exactly when nothing is held. `_exact` says that every mass ever seen was an integer and all sums
    stay below 2⁵²: only then can a mass be taken from a sum without leaving rounding behind. The attributes from
    `_score` on belong to the operation at work; they mean nothing between calls.
    """

    _centre: object
    _lo: cython.double
    _hi: cython.double
    _root: Node
    _size: cython.longlong
    _count: cython.longlong
    _exact: cython.bint
    _heaviest: cython.double  # the largest weight a group ever had, in today's units
    _tie: cython.double  # slopes that differ by less than this factor tie
    # a change: the score, what is added to its group (less than nothing where an update is taken back)
    _score: cython.double
    _dw: cython.double
    _dp: cython.double
    _dc: cython.longlong
    _taking: cython.bint
    # Newton's method: the line P/W tried now, its slope, whether P and W are whole, and the bracket of the slope sought
    _P: cython.double
    _W: cython.double
    _slope: cython.double
    _whole: cython.bint
    _floor: cython.double
    _ceiling: cython.double
    # the end found last: its leaf, the groups of the leaf inside, the key and the range of slopes as far as the nodes
    # above the leaf tell them, the mass inside and outside
    _leaf: Borrowed
    _held: cython.int
    _key: cython.double
    _low: cython.double
    _high: cython.double
    _near_w: cython.double
    _near_p: cython.double
    _far_w: cython.double
    _far_p: cython.double
    # a query: the leaf of `_score` and the position in it; for each side the nodes of the root path from which a child
    # hangs on that side, from above, and the mass between the score and their cuts; the topmost node whose pool holds
    # the score, if there is one, and how many of the nodes of each side are above it
    _home: Borrowed
    _position: cython.int
    _tied: cython.int
    _beside: cython.p_void[64][2]
    _number: cython.int[2]
    _reach_w: cython.double[64][2]
    _reach_p: cython.double[64][2]
    _over: Borrowed
    _pooled: cython.bint
    _above: cython.int[2]
    _run_w: cython.double[65]  # the mass of the first 0, 1, 2, … groups of a leaf that is scanned
    _run_p: cython.double[65]

    def __init__(self, centre=None):
        self._centre = centre
        self._lo, self._hi = _INFINITY, -_INFINITY
        self._root = None
        self._size = self._count = 0
        self._heaviest = 0.0
        self._set_exact(True)
        if not cython.compiled:
            self._beside = [[None] * MAX_DEPTH for _ in range(2)]
            self._reach_w, self._reach_p = ([[0.0] * MAX_DEPTH for _ in range(2)] for _ in range(2))
            self._number, self._above = [0, 0], [0, 0]
            self._run_w, self._run_p = ([0.0] * (LEAF_CAPACITY + 1) for _ in range(2))

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
        return 0.0 if self._root is None else self._root.weight

    @property
    def positive(self):
        return 0.0 if self._root is None else self._root.positive

    # ---- change -------------------------------------------------------------------------------------------------

    def update(self, score: cython.double, w: cython.double, positive: cython.double, count: cython.longlong):
        """Add the mass `w`, `positive` of it with label 1, made of `count` observations. O(log² k)."""
        self._add(self._placed(score), float(w), float(positive), count)

    def update_one(self, score: cython.double, y: cython.double, w: cython.double):
        """Add an observation with the label y and the weight w."""
        self._add(self._placed(score), float(w), float(w) * float(y), 1)

    def expect(self, lo: cython.double, hi: cython.double):
        """Call scores from lo to hi usual."""
        self._lo, self._hi = lo, hi

    def update_usual(self, score: object, y: object, w: object) -> cython.bint:
        """`update_one` for a usual float, a bool and a float weight that the kernel `usual` passes; whether it was."""
        s: cython.double
        weight: cython.double
        if type(score) is not float or type(w) is not float or not (y is True or y is False):
            return False
        s, weight = score, w
        if not (self._lo <= s <= self._hi and _SMALLEST_WEIGHT <= weight <= _LARGEST_WEIGHT):
            return False
        self._add(self._placed(s), weight, weight if y is True else 0.0, 1)
        return True

    @cython.cfunc
    @cython.inline
    def _placed(self, score: cython.double) -> cython.double:
        """Where a score stands; −0.0 + 0.0 = 0.0."""
        return float(score) + 0.0 if self._centre is None else float(self._centre(score))

    @cython.cfunc
    def _add(self, score: cython.double, w: cython.double, p: cython.double, count: cython.longlong):
        if self._root is None:
            self._root = Leaf()
        self._score, self._dw, self._dp, self._dc, self._taking = score, w, p, count, False
        if self._exact and not (_whole(w) and _whole(p) and self._root.weight + w < _EXACT_LIMIT):
            self._set_exact(False)
        self._count += count
        self._heaviest = max(self._heaviest, w)
        self._root = self._change(self._root)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _set_exact(self, exact: cython.bint) -> cython.void:
        self._exact = exact
        self._tie = _TIE_EXACT if exact else _TIE

    def revert(self, score: cython.double, w: cython.double, positive: cython.double, count: cython.longlong):
        """Take an earlier update back. Returns 0, or 1 if the tree cannot hold it: then nothing has changed."""
        score, w, positive = self._placed(score), float(w), float(positive)
        if not self._holds(score, w, positive, count):
            return 1
        self._score, self._dw, self._dp, self._dc, self._taking = score, -w, -positive, -count, True
        if self._exact and not (_whole(w) and _whole(positive)):
            self._set_exact(False)
        self._count -= count
        self._root = self._change(self._root)
        if self._root is None:  # with the last observation goes all rounding
            self._heaviest = 0.0
            self._set_exact(True)
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(leaf=Leaf, i=cython.int, slack=cython.double, rest=cython.double, rest_p=cython.double)
    def _holds(self, score: cython.double, w: cython.double, p: cython.double, count: cython.longlong) -> cython.bint:
        """Can this have been added earlier? With the last observation of a group all of its weight must go."""
        if self._root is None:
            return False
        leaf = cython.cast(Leaf, self._leaf_of(score))
        i = _position(leaf, score)
        if i == leaf.n or leaf.scores[i] != score or count > leaf.count[i]:
            return False
        slack, rest, rest_p = _MASS_TOLERANCE * self._heaviest, leaf.w[i] - w, leaf.p[i] - p
        if self._exact and _whole(w) and _whole(p):  # no rounding that could excuse anything
            slack = 0.0
        if count == leaf.count[i] and rest > slack:
            return False
        return rest >= -slack and rest_p >= -slack and rest - rest_p >= -slack

    @cython.cfunc
    @cython.locals(inner=Inner, child=Node, leaves=cython.longlong, side=cython.int)
    def _change(self, node: Node) -> Node:
        """Carry the change to its leaf and bring the pools above it up to date; returns the subtree's new root."""
        if node.leaves == 1:
            return self._change_leaf(cython.cast(Leaf, node))
        inner = cython.cast(Inner, node)
        leaves = inner.leaves
        side = _LEFT if self._score < inner.cut else _RIGHT
        child = self._change(inner.left if side == _LEFT else inner.right)
        if child is None:  # its last group has gone
            return inner.right if side == _LEFT else inner.left
        if side == _LEFT:
            inner.left = child
        else:
            inner.right = child
        _add_up(inner)
        if self._taking and inner.leaves == 2:
            child = _merged(cython.cast(Leaf, inner.left), cython.cast(Leaf, inner.right))
            if child is not None:
                return child
        if inner.leaves != leaves and not _balanced(inner.left.leaves, inner.right.leaves):
            return self._rebalanced(inner)
        self._settle(inner, side)
        return inner

    @cython.cfunc
    @cython.locals(i=cython.int)
    def _change_leaf(self, leaf: Leaf) -> Node:
        """Change one group; returns the leaf, None when it is empty now, or a node of two leaves when it was full."""
        i = _position(leaf, self._score)
        if i == leaf.n or leaf.scores[i] != self._score:
            self._size += 1
            if leaf.n == _CAPACITY:
                return self._split(leaf, i)
            _place(leaf, i, self._score, self._dw, self._dp, self._dc)
        elif not self._taking:
            leaf.w[i] += self._dw
            leaf.p[i] += self._dp
            leaf.count[i] += self._dc
            self._heaviest = max(self._heaviest, leaf.w[i])
            leaf.weight += self._dw
            leaf.positive += self._dp
        else:
            if leaf.count[i] + self._dc == 0:
                self._size -= 1
                _drop(leaf, i)
            else:
                # What is left is known only to within the rounding of what was there, and is positive, for
                # observations remain.
                if leaf.w[i] + self._dw <= 0.0:  # only where the other weights of the group were lost in rounding
                    self._set_exact(False)
                leaf.w[i] = max(leaf.w[i] + self._dw, leaf.w[i] * _HALF_ULP)
                leaf.p[i] = min(max(leaf.p[i] + self._dp, 0.0), leaf.w[i])
                leaf.count[i] += self._dc
            _sum_up(leaf)
        return leaf if leaf.n else None

    @cython.cfunc
    @cython.locals(right=Leaf, half=cython.int)
    def _split(self, leaf: Leaf, i: cython.int) -> Node:
        """Put the new group before position `i` of a full leaf, half of whose groups go into a new one.

        A group that comes first or last gets a leaf for itself: sorted arrivals then leave full leaves behind.
        """
        half = i if i == 0 or i == _CAPACITY else _CAPACITY // 2
        right = Leaf()
        _append(right, leaf, half)
        leaf.n = half
        _sum_up(leaf)
        _place(
            leaf if i < half or half == 0 else right,
            i if i < half or half == 0 else i - half,
            self._score,
            self._dw,
            self._dp,
            self._dc,
        )
        return self._joined(leaf, right, right.scores[0])

    @cython.cfunc
    @cython.locals(inner=Inner)
    def _joined(self, left: Node, right: Node, cut: cython.double) -> Inner:
        """A new node over two subtrees."""
        inner = Inner(left, right, cut)
        self._find_pool(inner)
        return inner

    @cython.cfunc
    @cython.locals(child=Inner)
    def _rebalanced(self, inner: Inner) -> Node:
        """Rotate a node one of whose children has become too heavy; the nodes that move are made anew."""
        if inner.left.leaves < inner.right.leaves:
            child = cython.cast(Inner, inner.right)
            if child.left.leaves >= _ROTATION * child.right.leaves:
                child = self._rotated_right(child)
            return self._joined(self._joined(inner.left, child.left, inner.cut), child.right, child.cut)
        child = cython.cast(Inner, inner.left)
        if child.right.leaves >= _ROTATION * child.left.leaves:
            child = self._rotated_left(child)
        return self._joined(child.left, self._joined(child.right, inner.right, inner.cut), child.cut)

    @cython.cfunc
    @cython.locals(child=Inner)
    def _rotated_left(self, inner: Inner) -> Inner:
        child = cython.cast(Inner, inner.right)
        return self._joined(self._joined(inner.left, child.left, inner.cut), child.right, child.cut)

    @cython.cfunc
    @cython.locals(child=Inner)
    def _rotated_right(self, inner: Inner) -> Inner:
        child = cython.cast(Inner, inner.left)
        return self._joined(child.left, self._joined(child.right, inner.right, inner.cut), child.cut)

    # ---- pools --------------------------------------------------------------------------------------------------

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(other=cython.int, slope=cython.double)
    def _settle(self, inner: Inner, side: cython.int) -> cython.void:
        """Bring the pool of a node up to date after the change in its child on `side`; search only if need be.

        Seen from the cut, the change moves all points of the child beyond the changed group by one vector (dw, dp).
        Where that lies outside the pool and lifts them off the supporting line, the pool stays as it is.
        Otherwise both ends are held against the new slope.
        """
        other = 1 - side
        if self._taking and not self._exact:
            inner.low[other] = _INFINITY
        elif inner.lo <= self._score < inner.hi:
            inner.near_w[side] += self._dw
            inner.near_p[side] += self._dp
            if inner.near_w[_LEFT] + inner.near_w[_RIGHT] > 0.0:
                inner.W = inner.near_w[_LEFT] + inner.near_w[_RIGHT]
                inner.P = inner.near_p[_LEFT] + inner.near_p[_RIGHT]
                slope = inner.P / inner.W
                if inner.low[other] < slope < inner.high[other] and (
                    self._confirmed(inner, side, slope) or self._kept(inner, side, slope)
                ):
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
            if self._kept(inner, side, inner.P / inner.W):
                return
        inner.low[side] = _INFINITY
        self._find_pool(inner)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    @cython.locals(slope=cython.double)
    def _confirmed(self, inner: Inner, side: cython.int, line: cython.double) -> cython.bint:
        """Does a change inside the pool, whose slope is `line` now, speak for the end of the pool by itself?

        The change is added to stretches that reach to the end and belong into the pool. If it belongs there too, so do
        the sums.
        """
        if not inner.low[side] < line < inner.high[side]:
            return False
        if not _belongs(side, self._dp, self._dw, inner.P, inner.W, self._tie):
            return False
        slope = self._dp / self._dw  # lines beyond this slope need no longer find the sums where they were
        if (side == _LEFT) == (self._dw > 0.0):
            inner.high[side] = min(inner.high[side], slope / self._tie)
        else:
            inner.low[side] = max(inner.low[side], slope * self._tie)
        return inner.low[side] < line < inner.high[side]

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(node=Borrowed, end=cython.double, cut=cython.double, P=cython.double, W=cython.double)
    @cython.locals(left=cython.bint, least=cython.double, most=cython.double, low=cython.double, high=cython.double)
    def _kept(self, inner: Inner, side: cython.int, line: cython.double) -> cython.bint:
        """Does the pool surely end where it did, now that its slope is `line`?

        The descent for the end is followed as long as it stays with the changed group. Once it turns into a subtree
        without it, the end is found there: if the old end lies there too, it is the one, since it supported
        the subtree at such slopes and the subtree has not changed. In the leaf of the change the old end is put to
        the proof: a scan for it would cost another pass.
        """
        if not inner.low[side] < line < inner.high[side]:
            return False
        node = cython.cast(Borrowed, inner.left)
        end = inner.lo
        least = low = -_INFINITY
        most = high = _INFINITY
        if side == _RIGHT:
            node = cython.cast(Borrowed, inner.right)
            end = inner.hi
        while cython.cast(Node, node).leaves > 1:
            P, W, cut = cython.cast(Inner, node).P, cython.cast(Inner, node).W, cython.cast(Inner, node).cut
            left = _belongs(side, P, W, inner.P, inner.W, self._tie) == (side == _LEFT)
            if left:
                high = min(high, P / W)
            else:
                low = max(low, P / W)
            if left != (self._score < cut):
                inner.low[side], inner.high[side] = max(inner.low[side], low), min(inner.high[side], high)
                return end <= cut if left else end >= cut
            if left:
                most = cut
                node = cython.cast(Borrowed, cython.cast(Inner, node).left)
            else:
                least = cut
                node = cython.cast(Borrowed, cython.cast(Inner, node).right)
        if not least <= end <= most:
            return False
        self._low, self._high = low, high
        self._look_around(cython.cast(Leaf, node), _position(cython.cast(Leaf, node), end))
        inner.low[side], inner.high[side] = self._low, self._high
        return self._low < line < self._high

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(w=cython.double, p=cython.double, side=cython.int)
    def _find_pool(self, inner: Inner) -> cython.void:
        """Find the pool of a node by Newton's method, from the slope it holds."""
        self._try_line(inner.P, inner.W)
        while True:
            for side in range(2):
                if not inner.low[side] < self._slope < inner.high[side]:
                    self._find_end(inner, side)
                    self._set_end(inner, side)
            w = inner.near_w[_LEFT] + inner.near_w[_RIGHT]
            p = inner.near_p[_LEFT] + inner.near_p[_RIGHT]
            if w == 0.0 or not self._step(p, w):
                break
        if w > 0.0 and (p != self._P or w != self._W):
            # λ* lies between two neighbouring floats, or ties with a stretch: what ties with it belongs.
            self._tie = 1.0 / self._tie
            for side in range(2):
                self._find_end(inner, side)
                self._set_end(inner, side)
            self._tie = 1.0 / self._tie
            self._P = inner.near_p[_LEFT] + inner.near_p[_RIGHT]
            self._W = inner.near_w[_LEFT] + inner.near_w[_RIGHT]
        inner.P, inner.W = self._P, self._W

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(leaf=Leaf, i=cython.int)
    def _set_end(self, inner: Inner, side: cython.int) -> cython.void:
        """Make the end found last that of the pool, with the slopes between which it stays there."""
        inner.near_w[side], inner.near_p[side] = self._near_w, self._near_p
        inner.far_w[side], inner.far_p[side] = self._far_w, self._far_p
        leaf = cython.cast(Leaf, self._leaf)
        i = leaf.n - self._held if side == _LEFT else self._held
        if i < leaf.n:
            self._key = leaf.scores[i]
        if side == _LEFT:
            inner.lo = self._key
        else:
            inner.hi = self._key
        self._look_around(leaf, i)
        inner.low[side], inner.high[side] = self._low, self._high

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(j=cython.int, w=cython.double, p=cython.double, low=cython.double, high=cython.double)
    def _look_around(self, leaf: Leaf, i: cython.int) -> cython.void:
        """Narrow the range of slopes for an end before position `i` by the edges of the leaf's minorant beside it."""
        low, high = self._low, self._high
        w = p = 0.0
        for j in range(i, leaf.n):
            w += leaf.w[j]
            p += leaf.p[j]
            high = min(high, p / w)
        w = p = 0.0
        for j in range(i - 1, -1, -1):
            w += leaf.w[j]
            p += leaf.p[j]
            low = max(low, p / w)
        self._low, self._high = low * self._tie, high / self._tie

    @cython.cfunc
    @cython.exceptval(check=False)
    def _try_line(self, P: cython.double, W: cython.double) -> cython.void:
        """Start Newton's method from a line."""
        self._set_line(P, W)
        self._floor, self._ceiling = -_INFINITY, _INFINITY

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _set_line(self, P: cython.double, W: cython.double) -> cython.void:
        self._P, self._W, self._slope = P, W, P / W
        self._whole = self._exact and W < _WHOLE_LIMIT and _whole(P) and _whole(W)

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(before=cython.double)
    def _step(self, p: cython.double, w: cython.double) -> cython.bint:
        """Go on to the line through the ends of the present one, which are (w, p) apart; False where that is it.

        The height of the line through the right end above that through the left one is a decreasing, piecewise
        linear function of the slope, and 0 at the slope λ* sought. So its sign narrows the bracket of λ*, and the
        next line is Newton's step. A step that leaves the bracket is replaced by the middle.
        """
        before = self._slope
        self._set_line(p, w)
        if self._slope == before:
            return False
        if self._slope > before:
            self._floor = before
        else:
            self._ceiling = before
        if not self._floor < self._slope < self._ceiling:
            self._slope = 0.5 * (max(self._floor, 0.0) + min(self._ceiling, 1.0))
            self._P, self._W, self._whole = self._slope, 1.0, False
        return self._floor < self._slope < self._ceiling

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(node=Borrowed, rest=Borrowed, P=cython.double, W=cython.double, tie=cython.double, key=cython.double)
    @cython.locals(low=cython.double, high=cython.double, p=cython.double, w=cython.double, inside=cython.bint)
    @cython.locals(near_w=cython.double, near_p=cython.double, far_w=cython.double, far_p=cython.double, n=cython.int)
    def _find_end(self, inner: Inner, side: cython.int) -> cython.void:
        """Find where the line P/W supports the child on `side`."""
        P, W, tie = self._P, self._W, self._tie
        node = cython.cast(Borrowed, inner.left)
        key = inner.cut
        if side == _RIGHT:
            node = cython.cast(Borrowed, inner.right)
            key = _INFINITY
        near_w = near_p = far_w = far_p = 0.0
        low, high = -_INFINITY, _INFINITY
        while cython.cast(Node, node).leaves > 1:
            p, w = cython.cast(Inner, node).P, cython.cast(Inner, node).W
            inside = _belongs(side, p, w, P, W, tie)
            if inside == (side == _LEFT):  # steeper than the line
                key, high = cython.cast(Inner, node).cut, min(high, p / w)
                rest = cython.cast(Borrowed, cython.cast(Inner, node).right)
                node = cython.cast(Borrowed, cython.cast(Inner, node).left)
            else:
                low = max(low, p / w)
                rest = cython.cast(Borrowed, cython.cast(Inner, node).left)
                node = cython.cast(Borrowed, cython.cast(Inner, node).right)
            if inside:
                near_w += cython.cast(Node, rest).weight
                near_p += cython.cast(Node, rest).positive
            else:
                far_w += cython.cast(Node, rest).weight
                far_p += cython.cast(Node, rest).positive
        self._leaf, self._key, self._low, self._high = node, key, low, high
        n = cython.cast(Leaf, node).n
        self._scan(cython.cast(Leaf, node), side, n - 1 if side == _LEFT else 0, n)
        self._near_w += near_w
        self._near_p += near_p
        self._far_w += far_w
        self._far_p += far_p

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(k=cython.int, step=cython.int, P=cython.double, W=cython.double, tie=cython.double)
    @cython.locals(near_w=cython.double, near_p=cython.double, w=cython.double, p=cython.double)
    def _scan(self, leaf: Leaf, side: cython.int, i: cython.int, number: cython.int) -> cython.void:
        """Find the end among `number` groups of a leaf, from position `i` outwards."""
        if self._whole and leaf.weight < _WHOLE_LIMIT:
            self._scan_whole(leaf, side, i, number)
            return
        P, W, tie = self._P, self._W, self._tie
        step = -1 if side == _LEFT else 1
        near_w = near_p = w = p = 0.0
        self._held = 0
        for k in range(number):
            w += leaf.w[i]
            p += leaf.p[i]
            if _belongs(side, p, w, P, W, tie):
                near_w += w
                near_p += p
                w = p = 0.0
                self._held = k + 1
            i += step
        self._near_w, self._near_p, self._far_w, self._far_p = near_w, near_p, w, p

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(k=cython.int, held=cython.int, step=cython.int, P=cython.double, W=cython.double)
    @cython.locals(w=cython.double, p=cython.double, depth=cython.double, deepest=cython.double, equal=cython.double)
    def _scan_whole(self, leaf: Leaf, side: cython.int, i: cython.int, number: cython.int) -> cython.void:
        """`_scan` where nothing rounds: the end is the first of the points that lie deepest below the line.

        Sums from the start are compared there, whatever was found so far, so that no branch depends on the data:
        half of those in `_scan` are mispredicted.
        """
        P, W, step = self._P, self._W, -1
        if side == _RIGHT:
            P, W, step = -P, -W, 1
        equal = 0.5 if self._tie < 1.0 else 0.0  # depths are whole: with it the last of the deepest is found
        w = p = deepest = 0.0
        held = 0
        for k in range(1, number + 1):
            w += leaf.w[i]
            p += leaf.p[i]
            self._run_w[k], self._run_p[k] = w, p
            depth = p * W - P * w
            held = k if depth > deepest - equal else held
            deepest = depth if depth > deepest else deepest
            i += step
        self._held = held
        self._near_w, self._near_p = self._run_w[held], self._run_p[held]
        self._far_w, self._far_p = w - self._near_w, p - self._near_p

    # ---- queries ------------------------------------------------------------------------------------------------

    @cython.locals(leaf=Leaf)
    def find(self, score: cython.double):
        """Weight, positive weight and count of the group with this score; zeros if there is none."""
        if self._root is not None:
            self._locate(self._placed(score))
            if self._tied:
                leaf = cython.cast(Leaf, self._home)
                return leaf.w[self._position], leaf.p[self._position], leaf.count[self._position]
        return 0.0, 0.0, 0

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(node=Borrowed)
    def _leaf_of(self, score: cython.double) -> Borrowed:
        node = cython.cast(Borrowed, self._root)
        while cython.cast(Node, node).leaves > 1:
            if score < cython.cast(Inner, node).cut:
                node = cython.cast(Borrowed, cython.cast(Inner, node).left)
            else:
                node = cython.cast(Borrowed, cython.cast(Inner, node).right)
        return node

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(node=Borrowed, leaf=Leaf, left=cython.int, right=cython.int, i=cython.int, j=cython.int)
    @cython.locals(w=cython.double, p=cython.double, below_w=cython.double, below_p=cython.double)
    def _locate(self, score: cython.double) -> cython.void:
        """Walk to the score, note what hangs off the way, and sum up the masses on both sides of the score."""
        node = cython.cast(Borrowed, self._root)
        left = right = 0
        self._pooled = False
        self._above[_LEFT] = self._above[_RIGHT] = 0
        while cython.cast(Node, node).leaves > 1:
            if not self._pooled and cython.cast(Inner, node).lo <= score < cython.cast(Inner, node).hi:
                self._over, self._pooled = node, True
                self._above[_LEFT], self._above[_RIGHT] = left, right
            if score < cython.cast(Inner, node).cut:
                self._beside[_RIGHT][right] = node
                right += 1
                node = cython.cast(Borrowed, cython.cast(Inner, node).left)
            else:
                self._beside[_LEFT][left] = node
                left += 1
                node = cython.cast(Borrowed, cython.cast(Inner, node).right)
        leaf = cython.cast(Leaf, node)
        i = _position(leaf, score)
        self._home, self._score, self._position = node, score, i
        self._tied = 1 if i < leaf.n and leaf.scores[i] == score else 0
        self._number[_LEFT], self._number[_RIGHT] = left, right
        w = p = 0.0
        for j in range(i):
            w += leaf.w[j]
            p += leaf.p[j]
        below_w, below_p = w, p
        for j in range(left - 1, -1, -1):
            self._reach_w[_LEFT][j], self._reach_p[_LEFT][j] = w, p
            w += cython.cast(Inner, self._beside[_LEFT][j]).left.weight
            p += cython.cast(Inner, self._beside[_LEFT][j]).left.positive
        if self._exact:  # what is left: half of the leaf need not come from memory
            w, p = leaf.weight - below_w, leaf.positive - below_p
            if self._tied:
                w -= leaf.w[i]
                p -= leaf.p[i]
        else:
            w = p = 0.0
            for j in range(i + self._tied, leaf.n):
                w += leaf.w[j]
                p += leaf.p[j]
        for j in range(right - 1, -1, -1):
            self._reach_w[_RIGHT][j], self._reach_p[_RIGHT][j] = w, p
            w += cython.cast(Inner, self._beside[_RIGHT][j]).right.weight
            p += cython.cast(Inner, self._beside[_RIGHT][j]).right.positive

    @cython.locals(p0=cython.double)
    def interval(self, score: cython.double, w: cython.double):
        """The fits at `score` of the data and (score, 0, w), and of the data and (score, 1, w). O(log² k)."""
        if self._root is None:
            return 0.0, 1.0
        w = min(float(w), _HEAVIEST)
        p0 = self._lower_at(self._placed(score), w)
        return p0, max(p0, self._upper(w))

    def interval_usual(self, score: object):
        """`interval` for a usual float and a test object of weight 1; None for anything else, and on an empty tree."""
        s: cython.double
        p0: cython.double
        if type(score) is not float or self._root is None:
            return None
        s = score
        if not self._lo <= s <= self._hi:
            return None
        p0 = self._lower_at(self._placed(s), 1.0)
        return p0, max(p0, self._upper(1.0))

    @cython.cfunc
    @cython.exceptval(check=False)
    def _lower_at(self, score: cython.double, w: cython.double) -> cython.double:
        """The fit at `score` of the data and (score, 0, w)."""
        self._locate(score)
        return self._fit_with(0.0, w)

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(w=cython.double)
    def _upper(self, w: cython.double) -> cython.double:
        """The fit of the data and (score, 1, w), from where `_lower_at` ended: often only the label is another."""
        self._try_line(self._P + w, self._W)
        return self._newton(w, w)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _fit_with(self, p: cython.double, w: cython.double) -> cython.double:
        """The fit at the located score when the mass (w, p) is added there."""
        if self._pooled:
            self._try_line(cython.cast(Inner, self._over).P + p, cython.cast(Inner, self._over).W + w)
        elif self._tied:
            self._try_line(
                cython.cast(Leaf, self._home).p[self._position] + p, cython.cast(Leaf, self._home).w[self._position] + w
            )
        else:
            self._try_line(p, w)
        return self._newton(p, w)

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(sum_w=cython.double, sum_p=cython.double)
    def _newton(self, p: cython.double, w: cython.double) -> cython.double:
        """`_find_pool` for the edge over the located score and the mass (w, p) added there, from the line tried."""
        if self._tied:
            w += cython.cast(Leaf, self._home).w[self._position]
            p += cython.cast(Leaf, self._home).p[self._position]
        while True:
            self._find_end_from_score(_LEFT)
            sum_w, sum_p = w + self._near_w, p + self._near_p
            self._find_end_from_score(_RIGHT)
            if not self._step(sum_p + self._near_p, sum_w + self._near_w):
                return self._slope

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(node=Borrowed, number=cython.int, start=cython.int, k=cython.int, w=cython.double, p=cython.double)
    @cython.locals(far_w=cython.double, far_p=cython.double, P=cython.double, W=cython.double, tie=cython.double)
    def _find_end_from_score(self, side: cython.int) -> cython.void:
        """Find where the line P/W supports the groups on one side of the located score.

        These groups are the children that hang off the path on that side, and a part of the last leaf. Where the pool
        of a node on the path belongs to them as a whole, the child holds the end for all of the node: what hangs
        deeper is hidden. The first such node from the top is the start. Above it a child matters only if the
        pool reaches over the score; for else it proves that the line passes below the child.
        """
        P, W, tie = self._P, self._W, self._tie
        number = self._number[side]
        start = 0
        while start < number:
            node = self._beside[side][start]
            if _belongs(side, cython.cast(Inner, node).P, cython.cast(Inner, node).W, P, W, tie):
                break
            start += 1
        if start == number:
            k = self._position
            if side == _RIGHT:
                k = cython.cast(Leaf, self._home).n - k - self._tied
            self._scan(cython.cast(Leaf, self._home), side, self._position + (-1 if side == _LEFT else self._tied), k)
            w, p = self._near_w, self._near_p
        else:
            self._find_end_again(cython.cast(Inner, self._beside[side][start]), side)
            w = self._reach_w[side][start] + self._near_w
            p = self._reach_p[side][start] + self._near_p
        far_w, far_p = self._far_w, self._far_p
        for k in range(start - 1, self._above[side] - 1, -1):
            node = self._beside[side][k]
            if cython.cast(Inner, node).lo <= self._score < cython.cast(Inner, node).hi:
                self._find_end_again(cython.cast(Inner, node), side)
                far_w += self._near_w
                far_p += self._near_p
                if _belongs(side, far_p, far_w, P, W, tie):
                    w += far_w
                    p += far_p
                    far_w = far_p = 0.0
                far_w += self._far_w
                far_p += self._far_p
            elif side == _LEFT:
                far_w += cython.cast(Inner, node).left.weight
                far_p += cython.cast(Inner, node).left.positive
            else:
                far_w += cython.cast(Inner, node).right.weight
                far_p += cython.cast(Inner, node).right.positive
        self._near_w, self._near_p = w, p

    @cython.cfunc
    @cython.exceptval(check=False)
    def _find_end_again(self, inner: Inner, side: cython.int) -> cython.void:
        """`_find_end`, without a search where it is the end of the pool."""
        if inner.low[side] < self._slope < inner.high[side]:
            self._near_w, self._near_p = inner.near_w[side], inner.near_p[side]
            self._far_w, self._far_p = inner.far_w[side], inner.far_p[side]
        else:
            self._find_end(inner, side)

    def isotonic(self, score: cython.double):
        """The isotonic least-squares fit, linear between held scores, constant outside; NaN when empty. O(log² k)."""
        return self._isotonic(self._placed(score))

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(home=Leaf, below=cython.double, above=cython.double)
    @cython.locals(value=cython.double, rise=cython.double)
    def _isotonic(self, score: cython.double) -> cython.double:
        if self._root is None:
            return math.nan
        self._locate(score)
        if self._tied:
            return self._fitted()
        home = cython.cast(Leaf, self._home)
        below, above = -_INFINITY, _INFINITY
        if self._position > 0:
            below = home.scores[self._position - 1]
        elif self._number[_LEFT] > 0:
            below = _outermost(cython.cast(Inner, self._beside[_LEFT][self._number[_LEFT] - 1]).left, _RIGHT)
        if self._position < home.n:
            above = home.scores[self._position]
        elif self._number[_RIGHT] > 0:
            above = _outermost(cython.cast(Inner, self._beside[_RIGHT][self._number[_RIGHT] - 1]).right, _LEFT)
        if below == -_INFINITY:
            return self._value_of(above)
        value = self._value_of(below)
        if above == _INFINITY:
            return value
        rise = self._value_of(above) - value
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
        if self._pooled:
            return cython.cast(Inner, self._over).P / cython.cast(Inner, self._over).W
        return self._fit_with(0.0, 0.0)

    @cython.locals(lower=cython.double[::1], upper=cython.double[::1], i=cython.Py_ssize_t)
    def intervals(self, scores, w: cython.double):
        """`interval` of many scores: two arrays."""
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
        """`isotonic` of many scores."""
        x: cython.const[cython.double][::1] = np.ascontiguousarray(scores, dtype=np.float64)
        found = np.empty(len(x))
        values = found
        for i in range(len(x)):
            values[i] = self._isotonic(float(x[i]))
        return found

    # ---- all at once --------------------------------------------------------------------------------------------

    @cython.locals(leaf=Leaf, i=cython.Py_ssize_t, exact=cython.bint, total=cython.double)
    def rebuild(self, scores, w, positive, count, heaviest=0.0):
        """Replace the content by sorted arrays of distinct scores; `heaviest` is what the property said. O(k)."""
        s: cython.const[cython.double][::1] = np.ascontiguousarray(scores, dtype=np.float64) + 0.0
        ws: cython.const[cython.double][::1] = np.ascontiguousarray(w, dtype=np.float64)
        ps: cython.const[cython.double][::1] = np.ascontiguousarray(positive, dtype=np.float64)
        cs: cython.const[cython.longlong][::1] = np.ascontiguousarray(count, dtype=np.int64)
        self._size, self._count = len(s), 0
        self._heaviest = max(heaviest, float(np.asarray(ws).max())) if len(s) else heaviest
        leaves, leaf, exact, total = [], None, True, 0.0
        for i in range(self._size):
            if i % LEAF_FILL == 0:
                leaf = Leaf()
                leaves.append(leaf)
            _place(leaf, leaf.n, float(s[i]), float(ws[i]), float(ps[i]), int(cs[i]))
            self._count += int(cs[i])
            total += float(ws[i])
            exact = exact and _whole(float(ws[i])) and _whole(float(ps[i]))
        self._set_exact(exact and total < _EXACT_LIMIT)
        self._root = self._built(leaves, 0, len(leaves)) if leaves else None

    @cython.cfunc
    @cython.locals(middle=cython.Py_ssize_t, first=Leaf)
    def _built(self, leaves: list, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> Node:
        if stop - start == 1:
            return cython.cast(Leaf, leaves[start])
        middle = (start + stop) >> 1
        first = cython.cast(Leaf, leaves[middle])
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
        self.rebuild(merged, *sums, self._heaviest)

    @cython.locals(s=cython.double[::1], ws=cython.double[::1], ps=cython.double[::1], cs=cython.longlong[::1])
    @cython.locals(leaf=Leaf, at=cython.Py_ssize_t, j=cython.int)
    def to_arrays(self):
        """Scores, weights, positive weights and counts in order of score: copies. O(k)."""
        scores, w, positive = (np.empty(self._size) for _ in range(3))
        count = np.empty(self._size, dtype=np.int64)
        s, ws, ps, cs = scores, w, positive, count
        at = 0
        for leaf in _leaves(self._root):
            for j in range(leaf.n):
                s[at], ws[at], ps[at], cs[at] = leaf.scores[j], leaf.w[j], leaf.p[j], leaf.count[j]
                at += 1
        return scores, w, positive, count

    @cython.locals(ws=cython.double[::1], ps=cython.double[::1], first=cython.longlong[::1])
    @cython.locals(i=cython.Py_ssize_t, n=cython.Py_ssize_t, w=cython.double, p=cython.double)
    def blocks(self):
        """First score, last score and value of each block of the isotonic fit, three arrays. O(k)."""
        scores, weight, positive, _ = self.to_arrays()
        starts = np.empty(self._size, dtype=np.int64)
        ws, ps, first = weight, positive, starts
        n = 0  # blocks so far: their masses stand in the first n cells of ws and ps
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
        """Scale every weight by a positive factor; groups that come out below LIGHTEST are dropped. O(k)."""
        scores, w, positive, count = self.to_arrays()
        kept = w * factor >= LIGHTEST
        columns = scores[kept], w[kept] * factor, positive[kept] * factor, count[kept]
        self.rebuild(*columns, self._heaviest * factor)

    def prune(self, threshold: cython.double):
        """Drop the groups with less weight than `threshold`; returns how many observations went. O(k)."""
        scores, w, positive, count = self.to_arrays()
        kept = w >= threshold
        if not kept.all():
            self.rebuild(scores[kept], w[kept], positive[kept], count[kept], self._heaviest)
        return int(count[~kept].sum())

    # ---- invariants ---------------------------------------------------------------------------------------------

    @cython.locals(leaf=Leaf)
    def check(self):
        """Raise AssertionError where an invariant does not hold. O(k log k)."""
        groups = 0
        for leaf in _leaves(self._root):
            groups += leaf.n
        assert groups == self._size, "size"
        scores, w, positive, count = self.to_arrays()
        assert (np.diff(scores) > 0).all(), "scores are not strictly increasing"
        assert (w > 0).all(), "weights"
        assert ((positive >= 0) & (positive <= w)).all(), "positive weights"
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
    _append(left, right, 0)
    _sum_up(left)
    return left


@cython.cfunc
@cython.exceptval(check=False)
@cython.locals(inner=Inner, leaf=Leaf)
def _outermost(node: Node, side: cython.int) -> cython.double:
    """The first or last score of a subtree."""
    while node.leaves > 1:
        inner = cython.cast(Inner, node)
        node = inner.left if side == _LEFT else inner.right
    leaf = cython.cast(Leaf, node)
    return leaf.scores[0 if side == _LEFT else leaf.n - 1]


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


def _restored(centre, scores, w, positive, count, heaviest):
    tree = HullTree(centre)
    tree.rebuild(scores, w, positive, count, heaviest)
    return tree


@cython.ccall
@cython.locals(inner=Inner)
def _check(node: Node, scores, w, p, exact: cython.bint):
    """Check a subtree that should hold just these groups."""
    slack = 0.0 if exact else 1e-9  # sums in two orders; masses added one by one gather rounding
    assert abs(node.weight - w.sum()) <= slack * w.sum(), "weight"
    assert abs(node.positive - p.sum()) <= slack * w.sum(), "positive weight"
    if node.leaves == 1:
        assert isinstance(node, Leaf), "a leaf"
        assert 0 < cython.cast(Leaf, node).n == len(w) <= LEAF_CAPACITY, "number of groups in a leaf"
        return
    inner = cython.cast(Inner, node)
    assert inner.leaves == inner.left.leaves + inner.right.leaves, "number of leaves"
    assert _balanced(inner.left.leaves, inner.right.leaves), "balance"
    m = int(np.searchsorted(scores, inner.cut))
    _check(inner.left, scores[:m], w[:m], p[:m], exact)
    _check(inner.right, scores[m:], w[m:], p[m:], exact)
    assert inner.lo <= inner.cut <= inner.hi, "the pool crosses the cut"
    ends = np.searchsorted(scores, [inner.lo, inner.hi])
    slope = inner.P / inner.W
    for side, (x, y) in enumerate([(w[:m][::-1], p[:m][::-1]), (w[m:], p[m:])]):
        held = abs(int(ends[side]) - m)
        masses = [inner.near_w[side], inner.near_p[side], inner.far_w[side], inner.far_p[side]]
        sums = [x[:held].sum(), y[:held].sum(), x[held:].sum(), y[held:].sum()]
        assert np.allclose(masses, sums, rtol=0.0, atol=slack * node.weight), "masses beside the end of a pool"
        assert inner.low[side] <= slope * TIE**3, "slope below the range of an end"
        assert slope <= inner.high[side] * TIE**3, "slope above the range of an end"
        x, y = np.append(0.0, x.cumsum()), np.append(0.0, y.cumsum())
        for line in (slope, max(inner.low[side], -1.0), min(inner.high[side], 2.0)):
            height = (y - line * x) * (1.0 if side == RIGHT else -1.0)
            # The height of a point is the difference of two sums below 2·weight.
            assert height[held] <= height.min() + (slack + 1e-13) * node.weight, "a point below a supporting line"
    crossing = [inner.near_w[LEFT] + inner.near_w[RIGHT], inner.near_p[LEFT] + inner.near_p[RIGHT]]
    assert crossing in ([inner.W, inner.P], [0.0, 0.0]), "slope of the pool"
