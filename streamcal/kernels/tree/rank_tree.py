# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Weights by score, in order, in a tree that is never changed: a change returns another tree, which shares its nodes.

A node holds a score x with its weight w, and the weight and number of scores of its subtree. The tree is
weight-balanced (Adams 1993, with the parameters of Hirai and Yamashita 2011): the size of a subtree plus 1 is at most
DELTA times that of its sibling, so that a path has O(log k) nodes. A change copies one path.

Sums are of doubles: exact, and so the same whatever the shape of the tree, where weights are whole numbers of a total
below 2⁵².
"""

from __future__ import annotations

import math

import cython
import numpy as np

DELTA = cython.declare(cython.longlong, 3)
GAMMA = cython.declare(cython.longlong, 2)
"""A rotation is a double one if the inner subtree is not below GAMMA times the outer one."""
NAN = cython.declare(cython.double, math.nan)


@cython.no_gc  # a node is made after its children: there are no cycles
@cython.final
@cython.cclass
class Ranked:
    """A score with its weight, and what is below it."""

    x: cython.double
    w: cython.double
    total: cython.double
    size: cython.longlong
    left: Ranked
    right: Ranked

    def __init__(self):
        self.size = 1


@cython.cfunc
def _size(node: Ranked | None) -> cython.longlong:
    return 0 if node is None else node.size


@cython.cfunc
def _total(node: Ranked | None) -> cython.double:
    return 0.0 if node is None else node.total


@cython.cfunc
def _node(x: cython.double, w: cython.double, left: Ranked | None, right: Ranked | None) -> Ranked:
    node: Ranked = Ranked()
    node.x, node.w = x, w
    node.left, node.right = left, right
    node.size = _size(left) + 1 + _size(right)
    node.total = _total(left) + w + _total(right)
    return node


@cython.cfunc
def _balanced(x: cython.double, w: cython.double, left: Ranked | None, right: Ranked | None) -> Ranked:
    """Return the node of two subtrees of which one may have a score too many."""
    small: cython.longlong = _size(left) + 1
    large: cython.longlong = _size(right) + 1
    if large > DELTA * small:
        if _size(right.left) + 1 < GAMMA * (_size(right.right) + 1):
            return _node(right.x, right.w, _node(x, w, left, right.left), right.right)
        inner: Ranked = right.left
        return _node(inner.x, inner.w, _node(x, w, left, inner.left), _node(right.x, right.w, inner.right, right.right))
    if small > DELTA * large:
        if _size(left.right) + 1 < GAMMA * (_size(left.left) + 1):
            return _node(left.x, left.w, left.left, _node(x, w, left.right, right))
        middle: Ranked = left.right
        return _node(
            middle.x, middle.w, _node(left.x, left.w, left.left, middle.left), _node(x, w, middle.right, right)
        )
    return _node(x, w, left, right)


@cython.cfunc
def _changed(node: Ranked | None, x: cython.double, w: cython.double) -> Ranked:
    if node is None:
        return _node(x, w, None, None)
    if x < node.x:
        return _balanced(node.x, node.w, _changed(node.left, x, w), node.right)
    if x > node.x:
        return _balanced(node.x, node.w, node.left, _changed(node.right, x, w))
    if node.w + w > 0.0:
        return _node(x, node.w + w, node.left, node.right)
    if node.left is None:
        return node.right
    if node.right is None:
        return node.left
    least: Ranked = node.right
    while least.left is not None:
        least = least.left
    return _balanced(least.x, least.w, node.left, _without_least(node.right))


@cython.cfunc
def _without_least(node: Ranked) -> Ranked:
    if node.left is None:
        return node.right
    return _balanced(node.x, node.w, _without_least(node.left), node.right)


@cython.ccall
def _built(x, w, start: cython.Py_ssize_t, stop: cython.Py_ssize_t) -> Ranked:
    """Return the tree of ascending scores from `start` to `stop`, lists."""
    if start >= stop:
        return None
    middle: cython.Py_ssize_t = (start + stop) // 2
    return _node(x[middle], w[middle], _built(x, w, start, middle), _built(x, w, middle + 1, stop))


@cython.final
@cython.cclass
class RankTree:
    """Scores in order with their weights: immutable."""

    _root: Ranked

    def __init__(self, x=(), w=()):
        """Build the tree of these scores, ascending, and their weights; array-likes of one length. O(k)."""
        if len(x) != len(w):
            raise ValueError(f"scores and weights differ in length: {len(x)} and {len(w)}")
        scores, weights = np.asarray(x, dtype=np.float64).tolist(), np.asarray(w, dtype=np.float64).tolist()
        self._root = _built(scores, weights, 0, len(scores))

    def __reduce__(self):
        return RankTree, self.to_arrays()

    @property
    def size(self):
        """The number of distinct scores."""
        return _size(self._root)

    @property
    def total(self):
        """The weight of all scores."""
        return _total(self._root)

    def changed(self, x: cython.double, w: cython.double):
        """Return the tree with the weight w added at x, negative to remove it; a weight that falls to 0 is dropped.

        O(log k). The score must be held where w < 0.
        """
        tree: RankTree = RankTree()
        tree._root = _changed(self._root, x, w)
        return tree

    def around(self, x: cython.double):
        """Return the largest score up to x, its weight, and all weight up to x; the same of the scores above x.

        Six numbers; of scores that there are none of, NaN and the weight 0. O(log k).
        """
        low: cython.double = NAN
        high: cython.double = NAN
        at_low: cython.double = 0.0
        at_high: cython.double = 0.0
        below: cython.double = 0.0
        above: cython.double = 0.0
        node: Ranked = self._root
        while node is not None:
            if node.x <= x:
                low, at_low = node.x, node.w
                below += _total(node.left) + node.w
                node = node.right
            else:
                high, at_high = node.x, node.w
                above += node.w + _total(node.right)
                node = node.left
        return low, at_low, below, high, at_high, above

    def reaching(self, weight: cython.double):
        """Return the smallest score with this much weight up to it; the largest score if there is less. O(log k)."""
        score: cython.double = NAN
        last: cython.double = NAN
        below: cython.double = 0.0
        node: Ranked = self._root
        while node is not None:
            if below + _total(node.left) + node.w >= weight:
                score = node.x
                node = node.left
            else:
                last = node.x
                below += _total(node.left) + node.w
                node = node.right
        return last if score != score else score

    def to_arrays(self):
        """Scores, ascending, and their weights. O(k)."""
        x = np.empty(_size(self._root))
        w = np.empty(_size(self._root))
        path = []
        node: Ranked = self._root
        place: cython.Py_ssize_t = 0
        while path or node is not None:
            while node is not None:
                path.append(node)
                node = node.left
            node = path.pop()
            x[place], w[place] = node.x, node.w
            place += 1
            node = node.right
        return x, w

    def check(self):
        """Raise `AssertionError` unless every invariant holds; for tests."""
        _check(self._root, -math.inf, math.inf)


def weights_around(
    knots: cython.const[cython.double][::1], x: cython.const[cython.double][::1], w: cython.const[cython.double][::1]
):
    """Return the weight of scores x, ascending, up to each knot and after it, and all weight; O(knots + scores)."""
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t = 0
    below = np.empty(knots.shape[0])
    above = np.empty(knots.shape[0])
    upto: cython.double[::1] = below
    after: cython.double[::1] = above
    whole: cython.double = 0.0
    rest: cython.double = 0.0
    for i in range(knots.shape[0]):
        while k < x.shape[0] and x[k] <= knots[i]:
            whole += w[k]
            k += 1
        upto[i] = whole
    while k < x.shape[0]:
        whole += w[k]
        k += 1
    for i in range(knots.shape[0] - 1, -1, -1):
        while k > 0 and x[k - 1] > knots[i]:
            k -= 1
            rest += w[k]
        after[i] = rest
    return below, above, whole


def levels_around(knots, x, w, levels, pseudo: cython.double, unseen: cython.double):
    """Return R and 1 − R at knots with these levels u and 1 − u, as `Levels` computes them from `weights_around`."""
    i: cython.Py_ssize_t
    below, above, total = weights_around(knots, x, w)
    lower: cython.double[::1] = below
    upper: cython.double[::1] = above
    low: cython.const[cython.double][::1] = levels[0]
    high: cython.const[cython.double][::1] = levels[1]
    whole: cython.double = total + pseudo + unseen
    for i in range(lower.shape[0]):
        lower[i] = (lower[i] + pseudo * low[i]) / whole
        upper[i] = (upper[i] + pseudo * high[i] + unseen) / whole
    return below, above


@cython.ccall
def _check(node: Ranked | None, low: cython.double, high: cython.double):
    if node is None:
        return
    assert low < node.x < high, "scores are in order"
    assert node.w > 0.0, "every score has weight"
    assert node.size == _size(node.left) + 1 + _size(node.right)
    assert node.total == _total(node.left) + node.w + _total(node.right)
    left, right = _size(node.left) + 1, _size(node.right) + 1
    assert left <= DELTA * right
    assert right <= DELTA * left
    _check(node.left, low, node.x)
    _check(node.right, node.x, high)
