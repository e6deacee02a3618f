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

`hull_nodes.py` holds the leaves and the inner nodes, `hull_search.py` the searches, this file the operations.

The tree is leaf-oriented and weight-balanced. A leaf holds up to 64 groups in order. An inner node holds the
`cut` between its children and the edge of its own minorant that crosses the cut, called the *pool*. The pool ends at
the left where a line of its slope supports the left child, and at the right where it supports the right child;
if no edge crosses, both ends lie on the cut and the slope is that of any line which supports there.
Beyond its two ends the minorant of the node is that of its children. So the end of a line of given slope is found by
one descent: an edge steeper than the line sends it left, a flatter one right (`_find_end`).

    pool            Newton's method: ends of the present slope, slope of the present ends, until they agree
    update, revert  change one leaf, then the pools on its root path. Most need no search: groups that
                    rise beyond the end of a pool have no effect; groups that belong to a pool and enter it confirm
                    its end (`_confirmed`); otherwise the old end is tested before a search (`_kept`)
    interval        Newton again, for the edge that crosses the test object; each end is that of a prefix or a
                    suffix of the groups, which is one root path read downwards (`_find_end_from_score`)
    isotonic        the topmost pool that contains the score

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

from streamcal.kernels.hull_nodes import EXACT_LIMIT, LEAF_CAPACITY, LEFT, RIGHT, leaves
from streamcal.kernels.hull_search import TIE

if cython.compiled:
    from cython.cimports.streamcal.kernels.fast_path import fast_observation, fast_score
    from cython.cimports.streamcal.kernels.hull_nodes import (
        Borrowed,
        Inner,
        Leaf,
        Node,
        add_up,
        append,
        drop,
        merged,
        outermost,
        place,
        position,
        sum_up,
        whole,
    )
    from cython.cimports.streamcal.kernels.hull_search import Search
else:
    from streamcal.kernels.fast_path import fast_observation, fast_score
    from streamcal.kernels.hull_nodes import (
        Borrowed,
        Inner,
        Leaf,
        Node,
        add_up,
        append,
        drop,
        merged,
        outermost,
        place,
        position,
        sum_up,
        whole,
    )
    from streamcal.kernels.hull_search import Search

LEAF_FILL = 48  # groups per leaf after `rebuild`, so that leaves do not split at once
FEW = 16  # `update_sorted` loops while the tree is this many times larger than the update

BALANCE, ROTATION = 3, 2
"""Neither child has more than 3 times the leaves of the other; a double rotation where the inner grandchild has at
least twice the leaves of the outer. Hirai & Yamamoto (2011) prove that this pair keeps a tree balanced."""

MASS_TOLERANCE = 1e-10
"""Tolerance of retractions, as a fraction of the weight of the heaviest group so far: more than the
rounding of a million sums and differences, and, unless weights span ten orders of magnitude, less than any mistake."""

HALF_ULP = 2.0**-53  # the fraction that remains of a weight whose rest was lost in rounding

RESIDUE = 2.0**-42
"""What a retraction leaves of the weight of a label at a score, as a fraction of what was there, is rounding up to
this, and is set to 0. Sums of whole numbers have none."""

LIGHTEST, HEAVIEST = 1e-150, 1e150
"""The product of two weights between these neither underflows nor overflows. `multiply` drops lighter groups,
which under decay occur after hundreds of half-lives without observations. Heavier test objects are treated as of weight
HEAVIEST, 70 orders of magnitude above any sum of decayed weights, so that the fits are 0 and 1 to 1e-70."""

_LEFT = cython.declare(cython.int, LEFT)
_RIGHT = cython.declare(cython.int, RIGHT)
_CAPACITY = cython.declare(cython.int, LEAF_CAPACITY)
_BALANCE = cython.declare(cython.int, BALANCE)
_ROTATION = cython.declare(cython.int, ROTATION)
_MASS_TOLERANCE = cython.declare(cython.double, MASS_TOLERANCE)
_HALF_ULP = cython.declare(cython.double, HALF_ULP)
_RESIDUE = cython.declare(cython.double, RESIDUE)
_EXACT_LIMIT = cython.declare(cython.double, EXACT_LIMIT)
_LIGHTEST = cython.declare(cython.double, LIGHTEST)
_HEAVIEST = cython.declare(cython.double, HEAVIEST)
_INFINITY = cython.declare(cython.double, math.inf)


@cython.final
@cython.cclass
class HullTree(Search):
    """Distinct scores in order, each with its weight, positive weight and count, and the fit of all of them.

    `centre`, if given, maps single scores to the scores that are stored: on a grid, the centre of the cell. Arrays of
    scores are not mapped. The root is None exactly if nothing is held.
    """

    _centre: object
    _lo: cython.double
    _hi: cython.double
    _size: cython.longlong
    _count: cython.longlong
    _heaviest: cython.double  # the largest weight a group ever had, in current units
    # The block found last: its first, last and mean score, its value, and the scores before and after it.
    _first: cython.double
    _last: cython.double
    _mean: cython.double
    _value: cython.double
    _before: cython.double
    _after: cython.double

    def __init__(self, centre=None):
        Search.__init__(self)
        self._centre = centre
        self._lo, self._hi = _INFINITY, -_INFINITY
        self._size = self._count = 0
        self._heaviest = 0.0

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

    def update(self, score: cython.double, w: cython.double, positive: cython.double, count: cython.longlong):
        """Add the mass `w`, `positive` of it with label 1, made of `count` observations. O(log² k)."""
        self._add(self._placed(score), float(w), float(positive), count)

    def update_one(self, score: cython.double, y: cython.double, w: cython.double):
        """Add an observation with the label y and the weight w."""
        self._add(self._placed(score), float(w), float(w) * float(y), 1)

    def set_fast_range(self, lo: cython.double, hi: cython.double):
        """Set the range of scores that `update_fast` and `interval_fast` accept."""
        self._lo, self._hi = lo, hi

    def update_fast(self, score: object, y: object, w: object) -> cython.bint:
        """`update_one` for an unchecked observation if `fast_observation` accepts it; returns whether it did."""
        s: cython.double
        weight: cython.double
        if not fast_observation(score, y, w, self._lo, self._hi):
            return False
        s, weight = score, w
        self._add(self._placed(s), weight, weight if y is True else 0.0, 1)
        return True

    @cython.cfunc
    @cython.inline
    def _placed(self, score: cython.double) -> cython.double:
        """The score that is stored for a score; −0.0 + 0.0 = 0.0."""
        return float(score) + 0.0 if self._centre is None else float(self._centre(score))

    @cython.cfunc
    def _add(self, score: cython.double, w: cython.double, p: cython.double, count: cython.longlong):
        if self._root is None:
            self._root = Leaf()
        self._set_change(score, w, p, count, False)
        if self._exact and not (whole(w) and whole(p) and self._root.weight + w < _EXACT_LIMIT):
            self._set_exact(False)
        self._count += count
        self._heaviest = max(self._heaviest, w)
        self._root = self._apply(self._root)

    def revert(self, score: cython.double, w: cython.double, positive: cython.double, count: cython.longlong):
        """Remove an earlier update. Returns 0, or 1 and no change if the tree cannot contain it."""
        return 0 if self._take_back(self._placed(score), float(w), float(positive), count) else 1

    @cython.cfunc
    def _take_back(
        self, score: cython.double, w: cython.double, p: cython.double, count: cython.longlong
    ) -> cython.bint:
        if not self._holds(score, w, p, count):
            return False
        self._set_change(score, -w, -p, -count, True)
        if self._exact and not (whole(w) and whole(p)):
            self._set_exact(False)
        self._count -= count
        self._root = self._apply(self._root)
        if self._root is None:  # without observations no rounding error remains
            self._heaviest = 0.0
            self._set_exact(True)
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(leaf=Leaf, i=cython.int, slack=cython.double, rest=cython.double, rest_p=cython.double)
    def _holds(self, score: cython.double, w: cython.double, p: cython.double, count: cython.longlong) -> cython.bint:
        """Whether this can have been added earlier. The last observation of a group must have all of its weight."""
        if self._root is None:
            return False
        leaf = cython.cast(Leaf, self._leaf_of(score))
        i = position(leaf, score)
        if i == leaf.n or leaf.scores[i] != score or count > leaf.count[i]:
            return False
        slack, rest, rest_p = _MASS_TOLERANCE * self._heaviest, leaf.w[i] - w, leaf.p[i] - p
        if self._exact and whole(w) and whole(p):  # no tolerance for rounding is needed
            slack = 0.0
        if count == leaf.count[i] and rest > slack:
            return False
        return rest >= -slack and rest_p >= -slack and rest - rest_p >= -slack

    @cython.cfunc
    @cython.locals(inner=Inner, child=Node, leaves=cython.longlong, side=cython.int)
    def _apply(self, node: Node) -> Node:
        """Carry the change to its leaf and bring the pools above it up to date; returns the subtree's new root."""
        if node.leaves == 1:
            return self._apply_to_leaf(cython.cast(Leaf, node))
        inner = cython.cast(Inner, node)
        leaves = inner.leaves
        side = _LEFT if self._change.score < inner.cut else _RIGHT
        child = self._apply(inner.left if side == _LEFT else inner.right)
        if child is None:  # its last group was removed
            return inner.right if side == _LEFT else inner.left
        if side == _LEFT:
            inner.left = child
        else:
            inner.right = child
        add_up(inner)
        if self._change.taking and inner.leaves == 2:
            child = merged(cython.cast(Leaf, inner.left), cython.cast(Leaf, inner.right))
            if child is not None:
                return child
        if inner.leaves != leaves and not _balanced(inner.left.leaves, inner.right.leaves):
            return self._rebalanced(inner)
        self._settle(inner, side)
        return inner

    @cython.cfunc
    @cython.locals(i=cython.int)
    def _apply_to_leaf(self, leaf: Leaf) -> Node:
        """Change one group; returns the leaf, None when it is empty now, or a node of two leaves when it was full."""
        i = position(leaf, self._change.score)
        if i == leaf.n or leaf.scores[i] != self._change.score:
            self._size += 1
            if leaf.n == _CAPACITY:
                return self._split(leaf, i)
            place(leaf, i, self._change.score, self._change.dw, self._change.dp, self._change.dc)
        elif not self._change.taking:
            leaf.w[i] += self._change.dw
            leaf.p[i] += self._change.dp
            leaf.count[i] += self._change.dc
            self._heaviest = max(self._heaviest, leaf.w[i])
            leaf.weight += self._change.dw
            leaf.positive += self._change.dp
            leaf.moment += self._change.dw * self._change.score
        else:
            if leaf.count[i] + self._change.dc == 0:
                self._size -= 1
                drop(leaf, i)
            else:
                # The remaining weight is known only up to the rounding of the previous one, and is positive, since
                # observations remain.
                if (
                    leaf.w[i] + self._change.dw <= 0.0
                ):  # only where the other weights of the group were lost in rounding
                    self._set_exact(False)
                self._take(leaf, i)
            sum_up(leaf)
        return leaf if leaf.n else None

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(before=cython.double, p_before=cython.double, w=cython.double, p=cython.double)
    def _take(self, leaf: Leaf, i: cython.int) -> cython.void:
        """Subtract the change from a group that keeps observations; a label of which rounding is left has none."""
        before, p_before = leaf.w[i], leaf.p[i]
        w = max(before + self._change.dw, before * _HALF_ULP)
        p = min(max(p_before + self._change.dp, 0.0), w)
        if p <= _RESIDUE * p_before and not whole(p):
            p = 0.0
        if w - p <= _RESIDUE * (before - p_before) and not whole(w - p):
            p = w
        leaf.w[i], leaf.p[i] = w, p
        leaf.count[i] += self._change.dc

    @cython.cfunc
    @cython.locals(right=Leaf, half=cython.int)
    def _split(self, leaf: Leaf, i: cython.int) -> Node:
        """Put the new group before position `i` of a full leaf, half of whose groups go into a new one.

        A group that is first or last gets its own leaf, so that sorted arrivals produce full leaves.
        """
        half = i if i == 0 or i == _CAPACITY else _CAPACITY // 2
        right = Leaf()
        append(right, leaf, half)
        leaf.n = half
        sum_up(leaf)
        place(
            leaf if i < half or half == 0 else right,
            i if i < half or half == 0 else i - half,
            self._change.score,
            self._change.dw,
            self._change.dp,
            self._change.dc,
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
        """Rotate a node one of whose children has become too heavy; moved nodes are created anew."""
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

    @cython.locals(leaf=Leaf)
    def find(self, score: cython.double):
        """Weight, positive weight and count of the group with this score; zeros if there is none."""
        if self._root is not None:
            self._locate(self._placed(score))
            if self._path.tied:
                leaf = cython.cast(Leaf, self._path.home)
                return leaf.w[self._path.position], leaf.p[self._path.position], leaf.count[self._path.position]
        return 0.0, 0.0, 0

    def highest(self):
        """The largest score held; NaN when empty. O(log k)."""
        return math.nan if self._root is None else outermost(self._root, _RIGHT)

    @cython.locals(p0=cython.double)
    def interval(self, score: cython.double, w: cython.double):
        """The fits at `score` of the data and (score, 0, w), and of the data and (score, 1, w). O(log² k)."""
        if self._root is None:
            return 0.0, 1.0
        w = min(float(w), _HEAVIEST)
        p0 = self._lower_at(self._placed(score), w)
        return p0, max(p0, self._upper(w))

    def interval_fast(self, score: object):
        """`interval` with weight 1 for an unchecked score if `fast_score` accepts it; else, or if empty, None."""
        s: cython.double
        p0: cython.double
        if self._root is None or not fast_score(score, self._lo, self._hi):
            return None
        s = score
        p0 = self._lower_at(self._placed(s), 1.0)
        return p0, max(p0, self._upper(1.0))

    def block_at(self, score: cython.double, tie: cython.double):
        """The block of the isotonic fit that holds the last score at or below this one, or that of the first score.

        Neighbouring blocks are one where their values differ by no more than `tie`, relative to them. Returns its first
        and last score, its value, its mean score, and the last score before it and the first one after it, infinite if
        there is none. None if empty, or if a sum of weight × score leaves the range of the floats. O(log² k).
        """
        if self._root is None or not self._find_block(self._placed(score), tie):
            return None
        return self._first, self._last, self._value, self._mean, self._before, self._after

    @cython.locals(x=cython.double, left=cython.double, right=cython.double, value=cython.double)
    def centred(self, score: cython.double, tie: cython.double, bound: cython.double):
        """Linear between the means of the blocks of `block_at`; those within `bound` of 0 and 1 are levels.

        NaN where `block_at` is None.
        """
        x = self._placed(score)
        if self._root is None or not self._find_block(x, tie):
            return math.nan
        self._set_ends(bound)
        left, right, value = self._first, self._last, self._value
        if left <= x <= right or (self._before if x < left else self._after) in (-_INFINITY, _INFINITY):
            return value
        if not self._find_block(self._before if x < left else self._after, tie):
            return math.nan
        self._set_ends(bound)
        if x < left:
            return _line(x, self._last, left, self._value, value)
        return _line(x, right, self._first, value, self._value)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _set_ends(self, bound: cython.double) -> cython.void:
        """Let the block found last end at its mean, unless it is a level."""
        if bound < self._value < 1.0 - bound:
            self._first = self._last = self._mean

    @cython.locals(x=cython.double, up=cython.bint, before=cython.double, after=cython.double, _k=cython.int)
    def points_around(self, score: cython.double, tie: cython.double):
        """Means and values of up to four blocks in order, and the place of the last one whose mean is at or below.

        These are that block and the one before it, and the next two, as far as there are any; the place is −1 where the
        first mean is above the score. None where `block_at` is.
        """
        x = self._placed(score)
        if self._root is None or not self._find_block(x, tie):
            return None
        means, values, up = [self._mean], [self._value], self._mean <= x
        before, after = self._before, self._after
        for _k in range(1 if up else 2):
            if before > -_INFINITY:
                if not self._find_block(before, tie):
                    return None
                means.insert(0, self._mean)
                values.insert(0, self._value)
                before = self._before
        place = len(means) - (1 if up else 2)
        for _k in range(2 if up else 1):
            if after < _INFINITY:
                if not self._find_block(after, tie):
                    return None
                means.append(self._mean)
                values.append(self._value)
                after = self._after
        return means, values, place

    @cython.cfunc
    @cython.locals(own=cython.double, w=cython.double, p=cython.double, moment=cython.double)
    def _find_block(self, score: cython.double, tie: cython.double) -> cython.bint:
        """`block_at` for a score as it is stored; whether there is a mean."""
        own = self._last_below(score, True)
        self._value = self._value_of(outermost(self._root, _LEFT) if own == -_INFINITY else own)
        self._first = self._first_of_at_least(self._value - tie * self._value)
        self._after = self._first_of_at_least(self._value + tie * self._value if self._value > 0.0 else _LIGHTEST)
        self._before, self._last = self._last_below(self._first, False), self._last_below(self._after, False)
        w, p, moment = self._between(self._first, self._after)
        if not -_INFINITY < moment < _INFINITY:
            return False
        self._value, self._mean = p / w, min(max(moment / w, self._first), self._last)
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(node=Borrowed, beside=Borrowed, leaf=Leaf, i=cython.int)
    def _last_below(self, score: cython.double, itself: cython.bint) -> cython.double:
        """The last score held below this one, or at it where `itself` is true; −∞ if there is none."""
        node, beside = cython.cast(Borrowed, self._root), cython.cast(Borrowed, None)
        while cython.cast(Node, node).leaves > 1:
            if score < cython.cast(Inner, node).cut:
                node = cython.cast(Borrowed, cython.cast(Inner, node).left)
            else:
                beside = cython.cast(Borrowed, cython.cast(Inner, node).left)
                node = cython.cast(Borrowed, cython.cast(Inner, node).right)
        leaf = cython.cast(Leaf, node)
        i = position(leaf, score)
        if itself and i < leaf.n and leaf.scores[i] == score:
            return score
        if i > 0:
            return leaf.scores[i - 1]
        return -_INFINITY if beside == cython.cast(Borrowed, None) else outermost(cython.cast(Node, beside), _RIGHT)

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(node=Borrowed, beside=Borrowed, leaf=Leaf, i=cython.int)
    def _first_of_at_least(self, value: cython.double) -> cython.double:
        """The first score whose fit is at least `value`, which no fit equals; ∞ if there is none."""
        node, beside = cython.cast(Borrowed, self._root), cython.cast(Borrowed, None)
        while cython.cast(Node, node).leaves > 1:
            if value > cython.cast(Inner, node).P / cython.cast(Inner, node).W:
                node = cython.cast(Borrowed, cython.cast(Inner, node).right)
            else:
                beside = cython.cast(Borrowed, cython.cast(Inner, node).right)
                node = cython.cast(Borrowed, cython.cast(Inner, node).left)
        leaf = cython.cast(Leaf, node)
        i = self._first_in_leaf(leaf, value)
        if i < leaf.n:
            return leaf.scores[i]
        return _INFINITY if beside == cython.cast(Borrowed, None) else outermost(cython.cast(Node, beside), _LEFT)

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(i=cython.int, n=cython.int, w=cython.double, p=cython.double)
    @cython.locals(ws=cython.double[64], ps=cython.double[64], first=cython.int[64])
    def _first_in_leaf(self, leaf: Leaf, value: cython.double) -> cython.int:
        """The place of the first group whose fit among those of its leaf is at least `value`; their number if none."""
        if not cython.compiled:
            ws, ps, first = [0.0] * LEAF_CAPACITY, [0.0] * LEAF_CAPACITY, [0] * LEAF_CAPACITY
        n = 0  # blocks so far
        for i in range(leaf.n):
            w, p, first[n] = leaf.w[i], leaf.p[i], i
            while n > 0 and ps[n - 1] * w >= p * ws[n - 1]:
                n -= 1
                w += ws[n]
                p += ps[n]
            ws[n], ps[n] = w, p
            n += 1
            if n < _CAPACITY:
                first[n] = i + 1
        for i in range(n):
            if ps[i] / ws[i] >= value:
                return first[i]
        return leaf.n

    @cython.cfunc
    @cython.locals(node=Borrowed, side=cython.int, leaf=Leaf, j=cython.int)
    @cython.locals(top=Borrowed, w=cython.double, p=cython.double, moment=cython.double)
    def _between(self, first: cython.double, after: cython.double):
        """Weight, positive weight and Σ weight × score from one score up to another. O(log k)."""
        top = cython.cast(Borrowed, self._root)
        while cython.cast(Node, top).leaves > 1:
            if after <= cython.cast(Inner, top).cut:
                top = cython.cast(Borrowed, cython.cast(Inner, top).left)
            elif first >= cython.cast(Inner, top).cut:
                top = cython.cast(Borrowed, cython.cast(Inner, top).right)
            else:
                break
        w = p = moment = 0.0
        for side in range(2 if cython.cast(Node, top).leaves > 1 else 1):
            node = top
            if cython.cast(Node, top).leaves > 1:
                node = cython.cast(Borrowed, cython.cast(Inner, top).left)
                if side == _RIGHT:
                    node = cython.cast(Borrowed, cython.cast(Inner, top).right)
            while cython.cast(Node, node).leaves > 1:
                if side == _LEFT and first < cython.cast(Inner, node).cut:
                    w += cython.cast(Inner, node).right.weight
                    p += cython.cast(Inner, node).right.positive
                    moment += cython.cast(Inner, node).right.moment
                    node = cython.cast(Borrowed, cython.cast(Inner, node).left)
                elif side == _RIGHT and after > cython.cast(Inner, node).cut:
                    w += cython.cast(Inner, node).left.weight
                    p += cython.cast(Inner, node).left.positive
                    moment += cython.cast(Inner, node).left.moment
                    node = cython.cast(Borrowed, cython.cast(Inner, node).right)
                elif side == _LEFT:
                    node = cython.cast(Borrowed, cython.cast(Inner, node).right)
                else:
                    node = cython.cast(Borrowed, cython.cast(Inner, node).left)
            leaf = cython.cast(Leaf, node)
            for j in range(leaf.n):
                if first <= leaf.scores[j] < after:
                    w += leaf.w[j]
                    p += leaf.p[j]
                    moment += leaf.w[j] * leaf.scores[j]
        return w, p, moment

    def isotonic(self, score: cython.double):
        """The isotonic least-squares fit, linear between held scores, constant outside; NaN when empty. O(log² k)."""
        return self._isotonic(self._placed(score))

    @cython.cfunc
    @cython.exceptval(check=False)
    @cython.locals(home=Leaf, below=cython.double, above=cython.double)
    @cython.locals(value=cython.double)
    def _isotonic(self, score: cython.double) -> cython.double:
        if self._root is None:
            return math.nan
        self._locate(score)
        if self._path.tied:
            return self._fitted()
        home = cython.cast(Leaf, self._path.home)
        below, above = -_INFINITY, _INFINITY
        if self._path.position > 0:
            below = home.scores[self._path.position - 1]
        elif self._path.number[_LEFT] > 0:
            below = outermost(cython.cast(Inner, self._path.beside[_LEFT][self._path.number[_LEFT] - 1]).left, _RIGHT)
        if self._path.position < home.n:
            above = home.scores[self._path.position]
        elif self._path.number[_RIGHT] > 0:
            above = outermost(cython.cast(Inner, self._path.beside[_RIGHT][self._path.number[_RIGHT] - 1]).right, _LEFT)
        if below == -_INFINITY:
            return self._value_of(above)
        value = self._value_of(below)
        if above == _INFINITY:
            return value
        return _line(score, below, above, value, self._value_of(above))

    @cython.cfunc
    @cython.exceptval(check=False)
    def _value_of(self, score: cython.double) -> cython.double:
        self._locate(score)
        return self._fitted()

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

    @cython.cfunc
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

    @cython.locals(leaf=Leaf, i=cython.Py_ssize_t, exact=cython.bint, total=cython.double)
    def rebuild(self, scores, w, positive, count, heaviest=0.0):
        """Replace the content by sorted arrays of distinct scores; `heaviest` restores that property. O(k)."""
        s: cython.const[cython.double][::1] = np.ascontiguousarray(scores, dtype=np.float64) + 0.0
        ws: cython.const[cython.double][::1] = np.ascontiguousarray(w, dtype=np.float64)
        ps: cython.const[cython.double][::1] = np.ascontiguousarray(positive, dtype=np.float64)
        cs: cython.const[cython.longlong][::1] = np.ascontiguousarray(count, dtype=np.int64)
        if not len(s) == len(ws) == len(ps) == len(cs):
            raise ValueError(f"lengths differ: {len(s)}, {len(ws)}, {len(ps)}, {len(cs)}")
        if not (np.diff(np.asarray(s)) > 0.0).all():
            raise ValueError("the scores do not rise strictly")
        self._size, self._count = len(s), 0
        self._heaviest = max(heaviest, float(np.asarray(ws).max())) if len(s) else heaviest
        leaves, leaf, exact, total = [], None, True, 0.0
        for i in range(self._size):
            if i % LEAF_FILL == 0:
                leaf = Leaf()
                leaves.append(leaf)
            place(leaf, leaf.n, float(s[i]), float(ws[i]), float(ps[i]), int(cs[i]))
            self._count += int(cs[i])
            total += float(ws[i])
            exact = exact and whole(float(ws[i])) and whole(float(ps[i]))
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
        for leaf in leaves(self._root):
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
        """Multiply every weight by a positive factor; groups then below LIGHTEST are dropped. O(k)."""
        scores, w, positive, count = self.to_arrays()
        kept = w * factor >= LIGHTEST
        columns = scores[kept], w[kept] * factor, positive[kept] * factor, count[kept]
        self.rebuild(*columns, self._heaviest * factor)

    def prune(self, threshold: cython.double):
        """Drop the groups with less weight than `threshold`; returns the number of observations dropped. O(k)."""
        scores, w, positive, count = self.to_arrays()
        kept = w >= threshold
        if not kept.all():
            self.rebuild(scores[kept], w[kept], positive[kept], count[kept], self._heaviest)
        return int(count[~kept].sum())

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
            _check(self._root, scores, w, positive, self._exact)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _balanced(a: cython.longlong, b: cython.longlong) -> cython.bint:
    return a <= _BALANCE * b and b <= _BALANCE * a


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _line(
    x: cython.double, left: cython.double, right: cython.double, low: cython.double, high: cython.double
) -> cython.double:
    """Linear between (left, low) and (right, high); the distance of two scores may exceed the largest float."""
    if right - left == _INFINITY:
        return low + (high - low) * ((0.5 * x - 0.5 * left) / (0.5 * right - 0.5 * left))
    return low + (high - low) * ((x - left) / (right - left))


def _restored(centre, scores, w, positive, count, heaviest):
    tree = HullTree(centre)
    tree.rebuild(scores, w, positive, count, heaviest)
    return tree


@cython.ccall
@cython.locals(inner=Inner)
def _check(node: Node, scores, w, p, exact: cython.bint):
    """Check a subtree that should hold just these groups."""
    slack = 0.0 if exact else 1e-9  # sums in two orders; masses added one by one accumulate rounding errors
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
