# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The pools that the nodes of a hull tree hold, found and brought up to date.

The terms are those of `hull_tree.py`; what is shared with other kernels is declared in `hull_pools.pxd`.
"""

from __future__ import annotations

import math

import cython
from cython.cimports.streamcal.kernels.tree.hull_nodes import Borrowed, Inner, Leaf, Node, position
from cython.cimports.streamcal.kernels.tree.hull_search import Search, belongs

from streamcal.kernels.tree.hull_nodes import LEFT, RIGHT

_LEFT = cython.declare(cython.int, LEFT)
_RIGHT = cython.declare(cython.int, RIGHT)
_INFINITY = cython.declare(cython.double, math.inf)


@cython.locals(other=cython.int, slope=cython.double)
def settle(search: Search, inner: Inner, side: cython.int) -> cython.void:
    """Bring the pool of a node up to date after the change in its child on `side`; search only if necessary.

    Seen from the cut, the change moves all points of the child beyond the changed group by one vector (dw, dp).
    Where that lies outside the pool and lifts them off the supporting line, the pool stays as it is.
    Otherwise both ends are compared with the new slope.
    """
    other = 1 - side
    if search._change.taking and not search._exact:
        inner.low[other] = _INFINITY
    elif inner.lo <= search._change.score < inner.hi:
        inner.near_w[side] += search._change.dw
        inner.near_p[side] += search._change.dp
        if inner.near_w[_LEFT] + inner.near_w[_RIGHT] > 0.0:
            inner.W = inner.near_w[_LEFT] + inner.near_w[_RIGHT]
            inner.P = inner.near_p[_LEFT] + inner.near_p[_RIGHT]
            slope = inner.P / inner.W
            if inner.low[other] < slope < inner.high[other] and (
                _confirmed(search, inner, side, slope) or _unchanged(search, inner, side, slope)
            ):
                return
    else:
        inner.far_w[side] += search._change.dw
        inner.far_p[side] += search._change.dp
        if not belongs(side, search._change.dp, search._change.dw, inner.P, inner.W, 1.0):
            slope = search._change.dp / search._change.dw  # lines beyond this slope see the points come down
            if (side == _LEFT) == (search._change.dw > 0.0):
                inner.low[side] = max(inner.low[side], slope)
            else:
                inner.high[side] = min(inner.high[side], slope)
            return
        if _unchanged(search, inner, side, inner.P / inner.W):
            return
    inner.low[side] = _INFINITY
    find_pool(search, inner)


@cython.cfunc
@cython.exceptval(check=False)
@cython.locals(slope=cython.double)
def _confirmed(search: Search, inner: Inner, side: cython.int, line: cython.double) -> cython.bint:
    """Return whether a change inside the pool, whose slope is now `line`, confirms the end of the pool by itself.

    The change is added to stretches that reach to the end and belong into the pool. If it belongs there too, so do
    the sums.
    """
    if not inner.low[side] < line < inner.high[side]:
        return False
    if not belongs(side, search._change.dp, search._change.dw, inner.P, inner.W, search._tie):
        return False
    slope = search._change.dp / search._change.dw  # lines beyond it may find other sums
    if (side == _LEFT) == (search._change.dw > 0.0):
        inner.high[side] = min(inner.high[side], slope / search._tie)
    else:
        inner.low[side] = max(inner.low[side], slope * search._tie)
    return inner.low[side] < line < inner.high[side]


@cython.cfunc
@cython.exceptval(check=False)
@cython.locals(node=Borrowed, end=cython.double, cut=cython.double, P=cython.double, W=cython.double)
@cython.locals(left=cython.bint, least=cython.double, most=cython.double, low=cython.double, high=cython.double)
def _unchanged(search: Search, inner: Inner, side: cython.int, line: cython.double) -> cython.bint:
    """Return whether the end of the pool is certainly unchanged, now that its slope is `line`.

    The descent for the end is followed as long as it stays with the changed group. Once it turns into a subtree
    without it, the end is found there: if the old end lies there too, it is the one, since it supported
    the subtree at such slopes and the subtree has not changed. In the leaf of the change the old end is
    tested: a scan for it would cost another pass.
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
        left = belongs(side, P, W, inner.P, inner.W, search._tie) == (side == _LEFT)
        if left:
            high = min(high, P / W)
        else:
            low = max(low, P / W)
        if left != (search._change.score < cut):
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
    search._end.low, search._end.high = low, high
    _look_around(search, cython.cast(Leaf, node), position(cython.cast(Leaf, node), end))
    inner.low[side], inner.high[side] = search._end.low, search._end.high
    return search._end.low < line < search._end.high


@cython.locals(w=cython.double, p=cython.double, side=cython.int)
def find_pool(search: Search, inner: Inner) -> cython.void:
    """Find the pool of a node by Newton's method, from the slope it holds."""
    search._try_line(inner.P, inner.W)
    while True:
        for side in range(2):
            if not inner.low[side] < search._line.slope < inner.high[side]:
                search._find_end(inner, side)
                _set_end(search, inner, side)
        w = inner.near_w[_LEFT] + inner.near_w[_RIGHT]
        p = inner.near_p[_LEFT] + inner.near_p[_RIGHT]
        if w == 0.0 or not search._step(p, w):
            break
    if w > 0.0 and (p != search._line.P or w != search._line.W):
        # λ* lies between two neighbouring floats, or ties with a stretch, which then belongs to the pool.
        search._tie = 1.0 / search._tie
        for side in range(2):
            search._find_end(inner, side)
            _set_end(search, inner, side)
        search._tie = 1.0 / search._tie
        search._line.P = inner.near_p[_LEFT] + inner.near_p[_RIGHT]
        search._line.W = inner.near_w[_LEFT] + inner.near_w[_RIGHT]
    inner.P, inner.W = search._line.P, search._line.W


@cython.cfunc
@cython.exceptval(check=False)
@cython.locals(leaf=Leaf, i=cython.int)
def _set_end(search: Search, inner: Inner, side: cython.int) -> cython.void:
    """Set the end of the pool to the one found last, with the range of slopes for which it is valid."""
    inner.near_w[side], inner.near_p[side] = search._end.near_w, search._end.near_p
    inner.far_w[side], inner.far_p[side] = search._end.far_w, search._end.far_p
    leaf = cython.cast(Leaf, search._end.leaf)
    i = leaf.n - search._end.groups if side == _LEFT else search._end.groups
    if i < leaf.n:
        search._end.key = leaf.scores[i]
    if side == _LEFT:
        inner.lo = search._end.key
    else:
        inner.hi = search._end.key
    _look_around(search, leaf, i)
    inner.low[side], inner.high[side] = search._end.low, search._end.high


@cython.cfunc
@cython.exceptval(check=False)
@cython.locals(j=cython.int, w=cython.double, p=cython.double, low=cython.double, high=cython.double)
def _look_around(search: Search, leaf: Leaf, i: cython.int) -> cython.void:
    """Narrow the range of slopes for an end before position `i` by the edges of the leaf's minorant beside it."""
    low, high = search._end.low, search._end.high
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
    search._end.low, search._end.high = low * search._tie, high / search._tie
