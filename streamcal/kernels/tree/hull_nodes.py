# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The nodes of a hull tree, leaves and inner nodes, and operations on one node.

The fields are declared in `hull_nodes.pxd`, so that the other files of the tree access them as fields of a struct.
`hull_tree.py` explains the meaning of nodes.
"""

from __future__ import annotations

import math

import cython

LEAF_CAPACITY = 64
MERGED_FILL = 48  # two sibling leaves with no more groups are merged: well below 64, to avoid repeated splits

EXACT_LIMIT = 2.0**52  # integer sums below it are exact, and so are their differences

LIGHTEST, HEAVIEST = 1e-150, 1e150
"""The product of two weights between these neither underflows nor overflows. `multiply` drops lighter groups,
which under decay occur after hundreds of half-lives without observations. Heavier test objects are treated as of weight
HEAVIEST, 70 orders of magnitude above any sum of decayed weights, so that the fits are 0 and 1 to 1e-70."""

LEFT, RIGHT = 0, 1
_LEFT = cython.declare(cython.int, LEFT)
_RIGHT = cython.declare(cython.int, RIGHT)
_MERGED_FILL = cython.declare(cython.int, MERGED_FILL)
_EXACT_LIMIT = cython.declare(cython.double, EXACT_LIMIT)
_INFINITY = cython.declare(cython.double, math.inf)

if not cython.compiled:
    # A node that is only read while the tree does not change: compiled, a bare pointer, since reference counting would
    # write to every node on a path. All descents use these; code that may release a node holds it as an object.
    Borrowed = object


@cython.no_gc  # children are owned by their parent alone: there are no cycles for the garbage collector
@cython.cclass
class Node:
    """The base class of leaves and inner nodes: the number of leaves below, the mass, and the sum of weight × score.

    The latter may be infinite or NaN where scores are near the ends of the floats.

    Operations are functions and not methods: a table of methods would add a pointer to each node, and a fourth cache
    line to an inner one.
    """


@cython.no_gc
@cython.final
@cython.cclass
class Leaf(Node):
    """`n` groups in order of their scores."""

    def __init__(self):
        self.leaves, self.n = 1, 0
        self.weight = self.positive = self.moment = 0.0
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
    supports that child at the same end; low = ∞ means that the end is not known.
    """

    def __init__(self, left: Node, right: Node, cut: cython.double):
        self.left, self.right = left, right
        self.cut = self.lo = self.hi = cut
        add_up(self)
        self.P, self.W = self.positive, self.weight
        if not cython.compiled:
            self.near_w, self.near_p, self.far_w, self.far_p = ([0.0, 0.0] for _ in range(4))
            self.low, self.high = [0.0, 0.0], [0.0, 0.0]
        self.low[LEFT] = self.low[RIGHT] = _INFINITY


@cython.locals(i=cython.int)
def position(leaf: Leaf, score: cython.double) -> cython.int:
    """How many groups lie below `score`. Independent comparisons are faster than bisection here."""
    i = 0
    while i + 8 <= leaf.n and leaf.scores[i + 7] < score:
        i += 8
    while i < leaf.n and leaf.scores[i] < score:
        i += 1
    return i


@cython.locals(j=cython.int)
def place(
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
    leaf.moment += w * score


@cython.locals(leaf=Leaf, j=cython.int)
def filled(
    s: cython.const[cython.double][::1],
    ws: cython.const[cython.double][::1],
    ps: cython.const[cython.double][::1],
    cs: cython.const[cython.longlong][::1],
    start: cython.Py_ssize_t,
    stop: cython.Py_ssize_t,
) -> Leaf:
    """Return a leaf with the groups at these places of arrays of scores, weights, positive weights and counts."""
    leaf = Leaf()
    leaf.n = stop - start
    for j in range(leaf.n):
        leaf.scores[j] = float(s[start + j]) + 0.0  # 0.0 of -0.0
        leaf.w[j], leaf.p[j] = float(ws[start + j]), float(ps[start + j])
        leaf.count[j] = cython.cast(cython.longlong, cs[start + j])
    sum_up(leaf)
    return leaf


@cython.locals(i=cython.Py_ssize_t)
def rises(s: cython.const[cython.double][::1]) -> cython.bint:
    """Return whether each number of an array is greater than the one before it."""
    i = 1
    while i < s.shape[0] and s[i] > s[i - 1]:
        i += 1
    return i >= s.shape[0]


@cython.locals(j=cython.int)
def drop(leaf: Leaf, i: cython.int) -> cython.void:
    """Remove the group at position `i`."""
    leaf.n -= 1
    for j in range(i, leaf.n):
        leaf.scores[j] = leaf.scores[j + 1]
        leaf.w[j] = leaf.w[j + 1]
        leaf.p[j] = leaf.p[j + 1]
        leaf.count[j] = leaf.count[j + 1]


@cython.locals(j=cython.int)
def append(leaf: Leaf, other: Leaf, start: cython.int) -> cython.void:
    """Copy the groups of a leaf to the right, from position `start` on, to the end of this one."""
    for j in range(start, other.n):
        place(leaf, leaf.n, other.scores[j], other.w[j], other.p[j], other.count[j])


@cython.locals(j=cython.int)
def sum_up(leaf: Leaf) -> cython.void:
    """Recompute the masses, as after a removal, since subtraction would leave rounding errors."""
    leaf.weight = leaf.positive = leaf.moment = 0.0
    for j in range(leaf.n):
        leaf.weight += leaf.w[j]
        leaf.positive += leaf.p[j]
        leaf.moment += leaf.w[j] * leaf.scores[j]


def add_up(inner: Inner) -> cython.void:
    """Sum the children up."""
    inner.leaves = inner.left.leaves + inner.right.leaves
    inner.weight = inner.left.weight + inner.right.weight
    inner.positive = inner.left.positive + inner.right.positive
    inner.moment = inner.left.moment + inner.right.moment


def merged(left: Leaf, right: Leaf) -> Leaf:
    """Return one leaf with the groups of both if they are few, else None."""
    if left.n + right.n > _MERGED_FILL:
        return None
    append(left, right, 0)
    sum_up(left)
    return left


@cython.locals(inner=Inner, leaf=Leaf)
def outermost(node: Node, side: cython.int) -> cython.double:
    """Return the first or last score of a subtree."""
    while node.leaves > 1:
        inner = cython.cast(Inner, node)
        node = inner.left if side == _LEFT else inner.right
    leaf = cython.cast(Leaf, node)
    return leaf.scores[0 if side == _LEFT else leaf.n - 1]


@cython.locals(i=cython.int, n=cython.int, w=cython.double, p=cython.double)
def blocks_of(leaf: Leaf, ws: cython.p_double, ps: cython.p_double, starts: cython.p_int) -> cython.int:
    """Return the number of blocks of a leaf's own fit; write their masses, and where they start, the end included."""
    n = 0
    for i in range(leaf.n):
        w, p, starts[n] = leaf.w[i], leaf.p[i], i
        while n > 0 and ps[n - 1] * w >= p * ws[n - 1]:
            n -= 1
            w += ws[n]
            p += ps[n]
        ws[n], ps[n] = w, p
        n += 1
    starts[n] = leaf.n
    return n


@cython.locals(node=Borrowed, beside=Borrowed, leaf=Leaf, i=cython.int)
def last_below(root: Node, score: cython.double, itself: cython.bint) -> cython.double:
    """Return the last score held below this one, or at it where `itself` is true; −∞ if there is none."""
    node, beside = cython.cast(Borrowed, root), cython.cast(Borrowed, None)
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


@cython.locals(node=Borrowed, beside=Borrowed, leaf=Leaf, i=cython.int)
def first_of_at_least(root: Node, value: cython.double) -> cython.double:
    """Return the first score whose fit is at least `value`, which no fit equals; ∞ if there is none."""
    node, beside = cython.cast(Borrowed, root), cython.cast(Borrowed, None)
    while cython.cast(Node, node).leaves > 1:
        if value > cython.cast(Inner, node).P / cython.cast(Inner, node).W:
            node = cython.cast(Borrowed, cython.cast(Inner, node).right)
        else:
            beside = cython.cast(Borrowed, cython.cast(Inner, node).right)
            node = cython.cast(Borrowed, cython.cast(Inner, node).left)
    leaf = cython.cast(Leaf, node)
    i = _first_in_leaf(leaf, value)
    if i < leaf.n:
        return leaf.scores[i]
    return _INFINITY if beside == cython.cast(Borrowed, None) else outermost(cython.cast(Node, beside), _LEFT)


@cython.cfunc
@cython.exceptval(check=False)
@cython.locals(i=cython.int, ws=cython.double[64], ps=cython.double[64], starts=cython.int[65])
def _first_in_leaf(leaf: Leaf, value: cython.double) -> cython.int:
    """Return the place of the first group of a leaf whose fit is at least `value`; the number of groups if none."""
    if not cython.compiled:
        ws, ps, starts = [0.0] * LEAF_CAPACITY, [0.0] * LEAF_CAPACITY, [0] * (LEAF_CAPACITY + 1)
    for i in range(blocks_of(leaf, ws, ps, starts)):
        if ps[i] / ws[i] >= value:
            return starts[i]
    return leaf.n


def whole(x: cython.double) -> cython.bint:
    """Return whether x is a whole number whose sums are exact."""
    return -_EXACT_LIMIT < x < _EXACT_LIMIT and x == cython.cast(cython.longlong, x)


def leaves(node):
    """Return the leaves below a node, from left to right."""
    stack = [] if node is None else [node]
    while stack:
        node = stack.pop()
        if isinstance(node, Leaf):
            yield node
        else:
            stack += children(node)


@cython.ccall
def children(inner: Inner):
    """Return the children of a node, the right one first."""
    return inner.right, inner.left
