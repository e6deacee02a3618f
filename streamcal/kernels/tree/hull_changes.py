# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Changes of a hull tree: a group is added or unlearned, leaves split and merge, nodes rotate.

The terms are those of `hull_tree.py`, the declarations are in `hull_changes.pxd`.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.streamcal.kernels.tree.hull_fits import Fits
from cython.cimports.streamcal.kernels.tree.hull_nodes import (
    Inner,
    Leaf,
    Node,
    add_up,
    append,
    drop,
    merged,
    place,
    position,
    sum_up,
    whole,
)
from cython.cimports.streamcal.kernels.tree.hull_pools import find_pool, settle

from streamcal.kernels.tree.hull_nodes import EXACT_LIMIT, LEAF_CAPACITY, LEFT, RIGHT
from streamcal.kernels.tree.hull_search import TIE

_BALANCE = cython.declare(cython.int, 3)
_ROTATION = cython.declare(cython.int, 2)
"""Neither child has more than 3 times the leaves of the other; a double rotation where the inner grandchild has at
least twice the leaves of the outer. Hirai & Yamamoto (2011) prove that this pair keeps a tree balanced."""

MASS_TOLERANCE = 1e-10
"""Tolerance of retractions, as a fraction of the weight of the heaviest group so far: more than the
rounding of a million sums and differences, and, unless weights span ten orders of magnitude, less than any mistake."""

#: The fraction that remains of a weight whose rest was lost in rounding.
_HALF_ULP = cython.declare(cython.double, 2.0**-53)

RESIDUE = 2.0**-42
"""What a retraction leaves of the weight of a label at a score, as a fraction of what was there, is rounding up to
this, and is set to 0. Sums of whole numbers have none."""

_LEFT = cython.declare(cython.int, LEFT)
_RIGHT = cython.declare(cython.int, RIGHT)
_CAPACITY = cython.declare(cython.int, LEAF_CAPACITY)
_MASS_TOLERANCE = cython.declare(cython.double, MASS_TOLERANCE)
_RESIDUE = cython.declare(cython.double, RESIDUE)
_EXACT_LIMIT = cython.declare(cython.double, EXACT_LIMIT)


class Changes(Fits):
    """What changes one group of a tree, and keeps the tree balanced and its pools up to date."""

    def __init__(self, centre=None):
        Fits.__init__(self, centre)
        self._size = self._count = 0
        self._heaviest = 0.0

    def _add(self, score: cython.double, w: cython.double, p: cython.double, count: cython.longlong):
        if self._root is None:
            self._root = Leaf()
        self._set_change(score, w, p, count, False)
        if self._exact and not (whole(w) and whole(p) and self._root.weight + w < _EXACT_LIMIT):
            self._set_exact(False)
        self._count += count
        self._heaviest = max(self._heaviest, w)
        self._root = self._apply(self._root)

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

    @cython.locals(leaf=Leaf, i=cython.int, slack=cython.double, rest=cython.double, rest_p=cython.double)
    def _holds(self, score: cython.double, w: cython.double, p: cython.double, count: cython.longlong) -> cython.bint:
        """Return whether this can have been added; the last observation of a group must have all of its weight."""
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
        settle(self, inner, side)
        return inner

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

    @cython.locals(inner=Inner)
    def _joined(self, left: Node, right: Node, cut: cython.double) -> Inner:
        """Return a new node over two subtrees."""
        inner = Inner(left, right, cut)
        find_pool(self, inner)
        return inner

    @cython.locals(middle=cython.Py_ssize_t, first=Leaf)
    def _built(self, leaves: list, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> Node:
        if stop - start == 1:
            return cython.cast(Leaf, leaves[start])
        middle = (start + stop) >> 1
        first = cython.cast(Leaf, leaves[middle])
        return self._joined(self._built(leaves, start, middle), self._built(leaves, middle, stop), first.scores[0])

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

    @cython.locals(child=Inner)
    def _rotated_left(self, inner: Inner) -> Inner:
        child = cython.cast(Inner, inner.right)
        return self._joined(self._joined(inner.left, child.left, inner.cut), child.right, child.cut)

    @cython.locals(child=Inner)
    def _rotated_right(self, inner: Inner) -> Inner:
        child = cython.cast(Inner, inner.left)
        return self._joined(child.left, self._joined(child.right, inner.right, inner.cut), child.cut)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _balanced(a: cython.longlong, b: cython.longlong) -> cython.bint:
    return a <= _BALANCE * b and b <= _BALANCE * a


@cython.ccall
@cython.locals(inner=Inner)
def check_subtree(node: Node, scores, w, p, exact: cython.bint):
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
    check_subtree(inner.left, scores[:m], w[:m], p[:m], exact)
    check_subtree(inner.right, scores[m:], w[m:], p[m:], exact)
    assert inner.lo <= inner.cut <= inner.hi, "the pool crosses the cut"
    ends = np.searchsorted(scores, [inner.lo, inner.hi])
    slope = inner.P / inner.W
    for side, (x, y) in enumerate([(w[:m][::-1], p[:m][::-1]), (w[m:], p[m:])]):
        inside = abs(int(ends[side]) - m)
        masses = [inner.near_w[side], inner.near_p[side], inner.far_w[side], inner.far_p[side]]
        sums = [x[:inside].sum(), y[:inside].sum(), x[inside:].sum(), y[inside:].sum()]
        assert np.allclose(masses, sums, rtol=0.0, atol=slack * node.weight), "masses beside the end of a pool"
        assert inner.low[side] <= slope * TIE**3, "slope below the range of an end"
        assert slope <= inner.high[side] * TIE**3, "slope above the range of an end"
        x, y = np.append(0.0, x.cumsum()), np.append(0.0, y.cumsum())
        for line in (slope, max(inner.low[side], -1.0), min(inner.high[side], 2.0)):
            height = (y - line * x) * (1.0 if side == RIGHT else -1.0)
            # The height of a point is the difference of two sums below 2·weight.
            assert height[inside] <= height.min() + (slack + 1e-13) * node.weight, "a point below a supporting line"
    crossing = [inner.near_w[LEFT] + inner.near_w[RIGHT], inner.near_p[LEFT] + inner.near_p[RIGHT]]
    assert crossing in ([inner.W, inner.P], [0.0, 0.0]), "slope of the pool"
