# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The isotonic fit that a hull tree holds: its value at a score, its blocks, and the lines between their means.

The terms are those of `hull_tree.py`, the declarations are in `hull_fits.pxd`.
"""

from __future__ import annotations

import math

import cython
from cython.cimports.streamcal.kernels.polynomial.cubic import line_between, value_beside
from cython.cimports.streamcal.kernels.tree.hull_nodes import (
    Borrowed,
    Inner,
    Leaf,
    Node,
    blocks_of,
    first_of_at_least,
    last_below,
    outermost,
    position,
)
from cython.cimports.streamcal.kernels.tree.hull_search import Search

from streamcal.kernels.tree.hull_nodes import LEAF_CAPACITY, LEFT, LIGHTEST, RIGHT

_LEFT = cython.declare(cython.int, LEFT)
_RIGHT = cython.declare(cython.int, RIGHT)
_LIGHTEST = cython.declare(cython.double, LIGHTEST)
_INFINITY = cython.declare(cython.double, math.inf)


class Fits(Search):
    """What is read off a tree: fits and blocks. Nothing here changes it.

    `centre`, if given, maps single scores to the scores that are stored: on a grid, the centre of the cell.
    """

    def __init__(self, centre=None):
        Search.__init__(self)
        self._centre = centre

    def _placed(self, score: cython.double) -> cython.double:
        """Return the score that is stored for a score; −0.0 + 0.0 = 0.0."""
        return float(score) + 0.0 if self._centre is None else float(self._centre(score))

    def isotonic(self, score: cython.double):
        """Return the isotonic least-squares fit, linear between scores, constant outside; NaN when empty. O(log² k)."""
        return self._isotonic(self._placed(score))

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
        return line_between(score, below, above, value, self._value_of(above))

    def _value_of(self, score: cython.double) -> cython.double:
        self._locate(score)
        return self._fitted()

    def block_at(self, score: cython.double, tie: cython.double):
        """Return the block of the isotonic fit with the last score at or below this one, or with the first score.

        Neighbouring blocks are one where their values differ by no more than `tie`, relative to them. Returns its first
        and last score, its value, its mean score, and the last score before it and the first one after it, infinite if
        there is none. None if empty, or if a sum of weight × score leaves the range of the floats. O(log² k).
        """
        if self._root is None or not self._find_block(self._placed(score), tie):
            return None
        return self._first, self._last, self._value, self._mean, self._before, self._after

    @cython.locals(x=cython.double, left=cython.double, right=cython.double, value=cython.double)
    def centred(self, score: cython.double, tie: cython.double, bound: cython.double):
        """Interpolate between the means of the blocks of `block_at`; those within `bound` of 0 and 1 are levels.

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
            return line_between(x, self._last, left, self._value, value)
        return line_between(x, right, self._first, value, self._value)

    def _set_ends(self, bound: cython.double) -> cython.void:
        """Let the block found last end at its mean, unless it is a level."""
        if bound < self._value < 1.0 - bound:
            self._first = self._last = self._mean

    @cython.locals(x=cython.double, k=cython.int, own=cython.int, before=cython.double, after=cython.double)
    @cython.locals(m=cython.double[4], v=cython.double[4])
    def smooth(self, score: cython.double, tie: cython.double):
        """Return the monotone cubic of `cubic.slopes` through the means of blocks (`block_at`), constant beyond.

        NaN where `block_at` is None.
        """
        if not cython.compiled:
            m, v = [0.0] * 4, [0.0] * 4
        x = self._placed(score)
        if self._root is None or not self._find_block(x, tie):
            return math.nan
        own = 1 if self._mean <= x else 2  # so that x lies between the second and the third of four means
        m[own], v[own], before, after = self._mean, self._value, self._before, self._after
        for k in range(own - 1, -1, -1):
            m[k], v[k] = m[k + 1], v[k + 1]
            if before > -_INFINITY:
                if not self._find_block(before, tie):
                    return math.nan
                m[k], v[k], before = self._mean, self._value, self._before
        for k in range(own + 1, 4):
            m[k], v[k] = m[k - 1], v[k - 1]
            if after < _INFINITY:
                if not self._find_block(after, tie):
                    return math.nan
                m[k], v[k], after = self._mean, self._value, self._after
        if m[1] == m[2]:
            return v[own]
        return value_beside(x, m[0], m[1], m[2], m[3], v[0], v[1], v[2], v[3])

    @cython.locals(own=cython.double)
    def _find_block(self, score: cython.double, tie: cython.double) -> cython.bint:
        """Find the block of `block_at` for a score as it is stored; return whether there is a mean."""
        if not self._find_pooled_block(score, tie):
            own = last_below(self._root, score, True)
            self._value = self._value_of(outermost(self._root, _LEFT) if own == -_INFINITY else own)
            self._first = first_of_at_least(self._root, self._value - tie * self._value)
            self._after = first_of_at_least(
                self._root, self._value + tie * self._value if self._value > 0.0 else _LIGHTEST
            )
            self._before, self._last = (
                last_below(self._root, self._first, False),
                last_below(self._root, self._after, False),
            )
            self._sum_between(self._first, self._after)
        if not -_INFINITY < self._moment < _INFINITY:
            return False
        self._value = self._p / self._w
        self._mean = min(max(self._moment / self._w, self._first), self._last)
        return True

    @cython.locals(node=Borrowed, left=Borrowed, right=Borrowed, inner=Inner, slope=cython.double)
    @cython.locals(floor=cython.double, ceiling=cython.double, down=cython.double, up=cython.double)
    @cython.locals(reach=cython.double)
    def _find_pooled_block(self, score: cython.double, tie: cython.double) -> cython.bint:
        """Find the block of a score and its sums if it is a pool, or lies in a leaf, and ties with no neighbour.

        Returns whether it is. The neighbours are edges of the minorants of the pool's children, or pools above that
        one. Those of the children are steeper, and flatter, than all slopes for which the ends of the pool are ends.
        """
        node = cython.cast(Borrowed, self._root)
        left = right = cython.cast(Borrowed, None)  # the nodes above that lie to that side, the nearest
        floor, ceiling = -_INFINITY, _INFINITY  # of their slopes
        reach = -_INFINITY  # up to where their pools go
        while cython.cast(Node, node).leaves > 1:
            if cython.cast(Inner, node).lo <= score < cython.cast(Inner, node).hi:
                break
            slope = cython.cast(Inner, node).P / cython.cast(Inner, node).W
            if score < cython.cast(Inner, node).cut:
                ceiling = min(ceiling, slope)
                right = node
                node = cython.cast(Borrowed, cython.cast(Inner, node).left)
            else:
                floor = max(floor, slope)
                reach = max(reach, cython.cast(Inner, node).hi)
                left = node
                node = cython.cast(Borrowed, cython.cast(Inner, node).right)
        if cython.cast(Node, node).leaves == 1:
            return self._find_block_in_leaf(cython.cast(Leaf, node), score, tie, left, right, floor, ceiling, reach)
        inner = cython.cast(Inner, node)
        slope = inner.P / inner.W
        down, up = slope - tie * slope, slope + tie * slope if slope > 0.0 else _LIGHTEST
        return (
            floor < down
            and up <= ceiling
            and inner.low[_LEFT] < down < inner.high[_LEFT]
            and inner.low[_RIGHT] < up < inner.high[_RIGHT]
            and inner.lo < inner.cut
            and self._sum_left(inner, left)
            and self._sum_right(inner, right)
        )

    @cython.locals(i=cython.int, j=cython.int, n=cython.int, own=cython.int)
    @cython.locals(slope=cython.double, down=cython.double, up=cython.double)
    @cython.locals(ws=cython.double[64], ps=cython.double[64], starts=cython.int[65])
    def _find_block_in_leaf(
        self,
        leaf: Leaf,
        score: cython.double,
        tie: cython.double,
        left: Borrowed,
        right: Borrowed,
        floor: cython.double,
        ceiling: cython.double,
        reach: cython.double,
    ) -> cython.bint:
        """Do `_find_pooled_block` where no pool contains the score, in its leaf; the arguments are described there."""
        if not cython.compiled:
            ws, ps, starts = [0.0] * LEAF_CAPACITY, [0.0] * LEAF_CAPACITY, [0] * (LEAF_CAPACITY + 1)
        own = position(leaf, score)
        if own == leaf.n or leaf.scores[own] != score:
            own -= 1
        if own < 0 or leaf.scores[own] < reach:
            return False
        n = blocks_of(leaf, ws, ps, starts)
        i = 0
        while starts[i + 1] <= own:
            i += 1
        slope = ps[i] / ws[i]
        down, up = slope - tie * slope, slope + tie * slope if slope > 0.0 else _LIGHTEST
        if not (floor < down and up <= ceiling):
            return False
        if (i > 0 and ps[i - 1] / ws[i - 1] >= down) or (i + 1 < n and ps[i + 1] / ws[i + 1] < up):
            return False
        self._first, self._last = leaf.scores[starts[i]], leaf.scores[starts[i + 1] - 1]
        self._before, self._after = -_INFINITY, _INFINITY
        if i > 0:
            self._before = leaf.scores[starts[i] - 1]
        elif left != cython.cast(Borrowed, None):
            self._before = outermost(cython.cast(Inner, left).left, _RIGHT)
        if i + 1 < n:
            self._after = leaf.scores[starts[i + 1]]
        elif right != cython.cast(Borrowed, None):
            self._after = outermost(cython.cast(Inner, right).right, _LEFT)
        self._w = self._p = self._moment = 0.0
        for j in range(starts[i], starts[i + 1]):
            self._w += leaf.w[j]
            self._p += leaf.p[j]
            self._moment += leaf.w[j] * leaf.scores[j]
        return True

    @cython.locals(node=Borrowed, beside=Borrowed, leaf=Leaf, i=cython.int, j=cython.int)
    @cython.locals(w=cython.double, p=cython.double, moment=cython.double)
    def _sum_left(self, inner: Inner, above: Borrowed) -> cython.bint:
        """Set the left end of the block of a pool, and sum what is left of its cut; False where the end is not held.

        `above` is the nearest node above that lies to the left.
        """
        w = p = moment = 0.0
        beside = cython.cast(Borrowed, None)
        if above != cython.cast(Borrowed, None):
            beside = cython.cast(Borrowed, cython.cast(Inner, above).left)
        node = cython.cast(Borrowed, inner.left)
        while cython.cast(Node, node).leaves > 1:
            if inner.lo < cython.cast(Inner, node).cut:
                w += cython.cast(Inner, node).right.weight
                p += cython.cast(Inner, node).right.positive
                moment += cython.cast(Inner, node).right.moment
                node = cython.cast(Borrowed, cython.cast(Inner, node).left)
            else:
                beside = cython.cast(Borrowed, cython.cast(Inner, node).left)
                node = cython.cast(Borrowed, cython.cast(Inner, node).right)
        leaf = cython.cast(Leaf, node)
        i = position(leaf, inner.lo)
        if i == leaf.n or leaf.scores[i] != inner.lo:
            return False
        self._first = inner.lo
        if i > 0:
            self._before = leaf.scores[i - 1]
        elif beside != cython.cast(Borrowed, None):
            self._before = outermost(cython.cast(Node, beside), _RIGHT)
        else:
            self._before = -_INFINITY
        for j in range(i, leaf.n):
            w += leaf.w[j]
            p += leaf.p[j]
            moment += leaf.w[j] * leaf.scores[j]
        self._w, self._p, self._moment = w, p, moment
        return True

    @cython.locals(node=Borrowed, before=Borrowed, beyond=Borrowed, leaf=Leaf, i=cython.int, j=cython.int)
    @cython.locals(after=cython.double, w=cython.double, p=cython.double, moment=cython.double)
    def _sum_right(self, inner: Inner, above: Borrowed) -> cython.bint:
        """Do `_sum_left` for the right end, adding to its sums; `above` is the nearest node that lies to the right."""
        w, p, moment, after = self._w, self._p, self._moment, inner.hi
        before = beyond = cython.cast(Borrowed, None)
        if after == _INFINITY and above != cython.cast(Borrowed, None):  # the pool ends with the child
            beyond = cython.cast(Borrowed, cython.cast(Inner, above).right)
            after = cython.cast(Inner, above).cut
        node = cython.cast(Borrowed, inner.right)
        while cython.cast(Node, node).leaves > 1:
            if after > cython.cast(Inner, node).cut:
                w += cython.cast(Inner, node).left.weight
                p += cython.cast(Inner, node).left.positive
                moment += cython.cast(Inner, node).left.moment
                before = cython.cast(Borrowed, cython.cast(Inner, node).left)
                node = cython.cast(Borrowed, cython.cast(Inner, node).right)
            else:
                beyond = cython.cast(Borrowed, cython.cast(Inner, node).right)
                node = cython.cast(Borrowed, cython.cast(Inner, node).left)
        leaf = cython.cast(Leaf, node)
        i = position(leaf, after)
        if i < leaf.n:
            if leaf.scores[i] != after:
                return False
        elif beyond != cython.cast(Borrowed, None):
            if outermost(cython.cast(Node, beyond), _LEFT) != after:
                return False
        elif after < _INFINITY:
            return False
        self._after = after
        if i > 0:
            self._last = leaf.scores[i - 1]
        elif before != cython.cast(Borrowed, None):
            self._last = outermost(cython.cast(Node, before), _RIGHT)
        else:  # nothing of the right child belongs to the pool
            return False
        for j in range(i):
            w += leaf.w[j]
            p += leaf.p[j]
            moment += leaf.w[j] * leaf.scores[j]
        self._w, self._p, self._moment = w, p, moment
        return True

    @cython.locals(node=Borrowed, side=cython.int, leaf=Leaf, j=cython.int)
    @cython.locals(top=Borrowed, w=cython.double, p=cython.double, moment=cython.double)
    def _sum_between(self, first: cython.double, after: cython.double) -> cython.void:
        """Set weight, positive weight and Σ weight × score from one score up to another. O(log k)."""
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
        self._w, self._p, self._moment = w, p, moment
