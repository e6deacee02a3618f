# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Searches in a hull tree: the end of a line of given slope, and the pool over a score.

The terms are those of `hull_tree.py`, the declarations are in `hull_search.pxd`.
"""

from __future__ import annotations

import math
from types import SimpleNamespace

import cython
from cython.cimports.streamcal.kernels.tree.hull_nodes import Borrowed, Inner, Leaf, Node, position, whole

from streamcal.kernels.tree.hull_nodes import LEAF_CAPACITY, LEFT, RIGHT

TIE = 1.0 + 2.0**-46
TIE_EXACT = 1.0 + 2.0**-50
"""Slopes within this factor of one another tie, and groups that tie with a line are left outside its end.

Sums in different orders differ by some ulps. Next to a group of weight 1e20 whose slope is λ up to rounding, a light
pool would otherwise be balanced with that group, whatever its own slope: the rounding error of the heavy excess
exceeds the light one. If the group is left out, the fit changes only if it violates the order, and then by
less than the factor, since Newton's bracket closes on λ* from both sides. TIE_EXACT serves integer
masses: fits of total weight N are fractions with denominators of at most N, different ones 1/N² apart, so no two
different slopes tie below N = 3e7.
"""

WHOLE_LIMIT = 2.0**24
"""Where the weights of a line and of a leaf are whole numbers below it, P·w, p·W and their sums are exact. Two slopes
that differ do so by more than TIE_EXACT, so that nothing ties but what is equal."""

MAX_DEPTH = 64  # more than log(2e9 / 24) / log(4/3): balance keeps two thousand million groups below it

_LEFT = cython.declare(cython.int, LEFT)
_RIGHT = cython.declare(cython.int, RIGHT)
_WHOLE_LIMIT = cython.declare(cython.double, WHOLE_LIMIT)
_TIE = cython.declare(cython.double, TIE)
_TIE_EXACT = cython.declare(cython.double, TIE_EXACT)
_INFINITY = cython.declare(cython.double, math.inf)


def belongs(
    side: cython.int, p: cython.double, w: cython.double, P: cython.double, W: cython.double, tie: cython.double
) -> cython.bint:
    """Return whether the stretch (w, p) next to a line of slope P/W clearly violates the order and is in the pool."""
    return p * W > P * tie * w if side == _LEFT else p * (W * tie) < P * w


class Search:
    """The tree under `root`, and the working data of a search in it.

    `exact` states that every mass so far was an integer and all sums are below 2⁵²: only then can a mass be subtracted
    from a sum without rounding. All other attributes are working data of the current operation; they are undefined
    between calls.
    """

    def __init__(self):
        self._root = None
        self._set_exact(True)
        if not cython.compiled:  # a struct, if compiled
            self._change, self._line, self._end, self._path = (SimpleNamespace() for _ in range(4))
            self._path.beside = [[None] * MAX_DEPTH for _ in range(2)]
            self._path.reach_w, self._path.reach_p = ([[0.0] * MAX_DEPTH for _ in range(2)] for _ in range(2))
            self._path.number, self._path.above = [0, 0], [0, 0]

    def _set_change(
        self, score: cython.double, dw: cython.double, dp: cython.double, dc: cython.longlong, taking: cython.bint
    ) -> cython.void:
        self._change.score, self._change.taking = score, taking
        self._change.dw, self._change.dp, self._change.dc = dw, dp, dc

    def _set_exact(self, exact: cython.bint) -> cython.void:
        self._exact = exact
        self._tie = _TIE_EXACT if exact else _TIE

    def _try_line(self, P: cython.double, W: cython.double) -> cython.void:
        """Start Newton's method from a line."""
        self._set_line(P, W)
        self._line.floor, self._line.ceiling = -_INFINITY, _INFINITY

    def _set_line(self, P: cython.double, W: cython.double) -> cython.void:
        self._line.P, self._line.W, self._line.slope = P, W, P / W
        self._line.whole = self._exact and W < _WHOLE_LIMIT and whole(P) and whole(W)

    @cython.locals(before=cython.double)
    def _step(self, p: cython.double, w: cython.double) -> cython.bint:
        """Go to the line through the ends of the current one, which are (w, p) apart; False at convergence.

        The height of the line through the right end above that through the left one is a decreasing, piecewise
        linear function of the slope, and 0 at the slope λ* sought. So its sign narrows the bracket of λ*, and the
        next line is Newton's step, replaced by bisection if it leaves the bracket.
        """
        before = self._line.slope
        self._set_line(p, w)
        if self._line.slope == before:
            return False
        if self._line.slope > before:
            self._line.floor = before
        else:
            self._line.ceiling = before
        if not self._line.floor < self._line.slope < self._line.ceiling:
            self._line.slope = 0.5 * (max(self._line.floor, 0.0) + min(self._line.ceiling, 1.0))
            self._line.P, self._line.W, self._line.whole = self._line.slope, 1.0, False
        return self._line.floor < self._line.slope < self._line.ceiling

    @cython.locals(node=Borrowed, rest=Borrowed, P=cython.double, W=cython.double, tie=cython.double, key=cython.double)
    @cython.locals(low=cython.double, high=cython.double, p=cython.double, w=cython.double, inside=cython.bint)
    @cython.locals(near_w=cython.double, near_p=cython.double, far_w=cython.double, far_p=cython.double, n=cython.int)
    def _find_end(self, inner: Inner, side: cython.int) -> cython.void:
        """Find where the line P/W supports the child on `side`."""
        P, W, tie = self._line.P, self._line.W, self._tie
        node = cython.cast(Borrowed, inner.left)
        key = inner.cut
        if side == _RIGHT:
            node = cython.cast(Borrowed, inner.right)
            key = _INFINITY
        near_w = near_p = far_w = far_p = 0.0
        low, high = -_INFINITY, _INFINITY
        while cython.cast(Node, node).leaves > 1:
            p, w = cython.cast(Inner, node).P, cython.cast(Inner, node).W
            inside = belongs(side, p, w, P, W, tie)
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
        self._end.leaf, self._end.key, self._end.low, self._end.high = node, key, low, high
        n = cython.cast(Leaf, node).n
        self._scan(cython.cast(Leaf, node), side, n - 1 if side == _LEFT else 0, n)
        self._end.near_w += near_w
        self._end.near_p += near_p
        self._end.far_w += far_w
        self._end.far_p += far_p

    @cython.locals(k=cython.int, step=cython.int, P=cython.double, W=cython.double, tie=cython.double)
    @cython.locals(near_w=cython.double, near_p=cython.double, w=cython.double, p=cython.double)
    def _scan(self, leaf: Leaf, side: cython.int, i: cython.int, number: cython.int) -> cython.void:
        """Find the end among `number` groups of a leaf, from position `i` outwards."""
        if self._line.whole and leaf.weight < _WHOLE_LIMIT:
            self._scan_whole(leaf, side, i, number)
            return
        P, W, tie = self._line.P, self._line.W, self._tie
        step = -1 if side == _LEFT else 1
        near_w = near_p = w = p = 0.0
        self._end.groups = 0
        for k in range(number):
            w += leaf.w[i]
            p += leaf.p[i]
            if belongs(side, p, w, P, W, tie):
                near_w += w
                near_p += p
                w = p = 0.0
                self._end.groups = k + 1
            i += step
        self._end.near_w, self._end.near_p, self._end.far_w, self._end.far_p = near_w, near_p, w, p

    @cython.locals(k=cython.int, groups=cython.int, step=cython.int, P=cython.double, W=cython.double)
    @cython.locals(run_w=cython.double[65], run_p=cython.double[65])  # masses of the first 0, 1, 2, … groups
    @cython.locals(w=cython.double, p=cython.double, depth=cython.double, deepest=cython.double, equal=cython.double)
    def _scan_whole(self, leaf: Leaf, side: cython.int, i: cython.int, number: cython.int) -> cython.void:
        """Do `_scan` where nothing rounds: the end is the first of the points that lie deepest below the line.

        It compares sums from the start, independently of what was found so far, so that no branch depends on the data:
        half of the branches in `_scan` are mispredicted.
        """
        if not cython.compiled:
            run_w, run_p = [0.0] * (LEAF_CAPACITY + 1), [0.0] * (LEAF_CAPACITY + 1)
        run_w[0] = run_p[0] = 0.0
        P, W, step = self._line.P, self._line.W, -1
        if side == _RIGHT:
            P, W, step = -P, -W, 1
        equal = 0.5 if self._tie < 1.0 else 0.0  # depths are whole: with it the last of the deepest is found
        w = p = deepest = 0.0
        groups = 0
        for k in range(1, number + 1):
            w += leaf.w[i]
            p += leaf.p[i]
            run_w[k], run_p[k] = w, p
            depth = p * W - P * w
            groups = k if depth > deepest - equal else groups
            deepest = depth if depth > deepest else deepest
            i += step
        self._end.groups = groups
        self._end.near_w, self._end.near_p = run_w[groups], run_p[groups]
        self._end.far_w, self._end.far_p = w - self._end.near_w, p - self._end.near_p

    @cython.locals(node=Borrowed)
    def _leaf_of(self, score: cython.double) -> Borrowed:
        node = cython.cast(Borrowed, self._root)
        while cython.cast(Node, node).leaves > 1:
            if score < cython.cast(Inner, node).cut:
                node = cython.cast(Borrowed, cython.cast(Inner, node).left)
            else:
                node = cython.cast(Borrowed, cython.cast(Inner, node).right)
        return node

    @cython.locals(node=Borrowed, leaf=Leaf, left=cython.int, right=cython.int, i=cython.int, j=cython.int)
    @cython.locals(w=cython.double, p=cython.double, below_w=cython.double, below_p=cython.double)
    def _locate(self, score: cython.double) -> cython.void:
        """Descend to the score, record the subtrees beside the path, and sum the masses on both sides of the score."""
        node = cython.cast(Borrowed, self._root)
        left = right = 0
        self._path.pooled = False
        self._path.above[_LEFT] = self._path.above[_RIGHT] = 0
        while cython.cast(Node, node).leaves > 1:
            if not self._path.pooled and cython.cast(Inner, node).lo <= score < cython.cast(Inner, node).hi:
                self._path.over, self._path.pooled = node, True
                self._path.above[_LEFT], self._path.above[_RIGHT] = left, right
            if score < cython.cast(Inner, node).cut:
                self._path.beside[_RIGHT][right] = node
                right += 1
                node = cython.cast(Borrowed, cython.cast(Inner, node).left)
            else:
                self._path.beside[_LEFT][left] = node
                left += 1
                node = cython.cast(Borrowed, cython.cast(Inner, node).right)
        leaf = cython.cast(Leaf, node)
        i = position(leaf, score)
        self._path.home, self._path.score, self._path.position = node, score, i
        self._path.tied = 1 if i < leaf.n and leaf.scores[i] == score else 0
        self._path.number[_LEFT], self._path.number[_RIGHT] = left, right
        w = p = 0.0
        for j in range(i):
            w += leaf.w[j]
            p += leaf.p[j]
        below_w, below_p = w, p
        for j in range(left - 1, -1, -1):
            self._path.reach_w[_LEFT][j], self._path.reach_p[_LEFT][j] = w, p
            w += cython.cast(Inner, self._path.beside[_LEFT][j]).left.weight
            p += cython.cast(Inner, self._path.beside[_LEFT][j]).left.positive
        if self._exact:  # by subtraction: half of the leaf need not be loaded
            w, p = leaf.weight - below_w, leaf.positive - below_p
            if self._path.tied:
                w -= leaf.w[i]
                p -= leaf.p[i]
        else:
            w = p = 0.0
            for j in range(i + self._path.tied, leaf.n):
                w += leaf.w[j]
                p += leaf.p[j]
        for j in range(right - 1, -1, -1):
            self._path.reach_w[_RIGHT][j], self._path.reach_p[_RIGHT][j] = w, p
            w += cython.cast(Inner, self._path.beside[_RIGHT][j]).right.weight
            p += cython.cast(Inner, self._path.beside[_RIGHT][j]).right.positive

    def _lower_at(self, score: cython.double, w: cython.double) -> cython.double:
        """Return the fit at `score` of the data and (score, 0, w)."""
        self._locate(score)
        return self._fit_with(0.0, w)

    @cython.locals(w=cython.double)
    def _upper(self, w: cython.double) -> cython.double:
        """Return the fit of the data and (score, 1, w), starting from the result of `_lower_at`, often close."""
        self._try_line(self._line.P + w, self._line.W)
        return self._newton(w, w)

    @cython.locals(home=Leaf, i=cython.int)
    def _fit_with(self, p: cython.double, w: cython.double) -> cython.double:
        """Return the fit at the located score when the mass (w, p) is added there."""
        if self._path.pooled:
            self._try_line(cython.cast(Inner, self._path.over).P + p, cython.cast(Inner, self._path.over).W + w)
        elif self._path.tied:
            i, home = self._path.position, cython.cast(Leaf, self._path.home)
            self._try_line(home.p[i] + p, home.w[i] + w)
        else:
            self._try_line(p, w)
        return self._newton(p, w)

    @cython.locals(sum_w=cython.double, sum_p=cython.double)
    def _newton(self, p: cython.double, w: cython.double) -> cython.double:
        """Do `_find_pool` for the edge over the located score and the mass (w, p) added there, from the line tried."""
        if self._path.tied:
            w += cython.cast(Leaf, self._path.home).w[self._path.position]
            p += cython.cast(Leaf, self._path.home).p[self._path.position]
        while True:
            self._find_end_from_score(_LEFT)
            sum_w, sum_p = w + self._end.near_w, p + self._end.near_p
            self._find_end_from_score(_RIGHT)
            if not self._step(sum_p + self._end.near_p, sum_w + self._end.near_w):
                return self._line.slope

    @cython.locals(node=Borrowed, number=cython.int, start=cython.int, first=cython.int, k=cython.int)
    @cython.locals(w=cython.double, p=cython.double)
    @cython.locals(far_w=cython.double, far_p=cython.double, P=cython.double, W=cython.double, tie=cython.double)
    def _find_end_from_score(self, side: cython.int) -> cython.void:
        """Find where the line P/W supports the groups on one side of the located score.

        These groups are the children beside the path on that side, and a part of the last leaf. If the pool of a node
        on the path consists only of such groups, the child contains the end for the whole node, and deeper subtrees
        need no search. The search starts at the first such node from the top. Above it a child matters only if its pool
        contains the score; otherwise the pool proves that the line passes below the child.
        """
        P, W, tie = self._line.P, self._line.W, self._tie
        number = self._path.number[side]
        start = 0
        while start < number:
            node = self._path.beside[side][start]
            if belongs(side, cython.cast(Inner, node).P, cython.cast(Inner, node).W, P, W, tie):
                break
            start += 1
        if start == number:
            k = self._path.position
            if side == _RIGHT:
                k = cython.cast(Leaf, self._path.home).n - k - self._path.tied
            self._scan(
                cython.cast(Leaf, self._path.home),
                side,
                self._path.position + (-1 if side == _LEFT else self._path.tied),
                k,
            )
            w, p = self._end.near_w, self._end.near_p
        else:
            self._find_end_again(cython.cast(Inner, self._path.beside[side][start]), side)
            w = self._path.reach_w[side][start] + self._end.near_w
            p = self._path.reach_p[side][start] + self._end.near_p
        far_w, far_p = self._end.far_w, self._end.far_p
        for k in range(start - 1, self._path.above[side] - 1, -1):
            node = self._path.beside[side][k]
            if cython.cast(Inner, node).lo <= self._path.score < cython.cast(Inner, node).hi:
                self._find_end_again(cython.cast(Inner, node), side)
                far_w += self._end.near_w
                far_p += self._end.near_p
                if belongs(side, far_p, far_w, P, W, tie):
                    w += far_w
                    p += far_p
                    far_w = far_p = 0.0
                far_w += self._end.far_w
                far_p += self._end.far_p
            elif side == _LEFT:
                far_w += cython.cast(Inner, node).left.weight
                far_p += cython.cast(Inner, node).left.positive
            else:
                far_w += cython.cast(Inner, node).right.weight
                far_p += cython.cast(Inner, node).right.positive
        self._end.near_w, self._end.near_p = w, p

    def _find_end_again(self, inner: Inner, side: cython.int) -> cython.void:
        """Do `_find_end`, without a search if the end is that of the pool."""
        if inner.low[side] < self._line.slope < inner.high[side]:
            self._end.near_w, self._end.near_p = inner.near_w[side], inner.near_p[side]
            self._end.far_w, self._end.far_p = inner.far_w[side], inner.far_p[side]
        else:
            self._find_end(inner, side)

    def _fitted(self) -> cython.double:
        """Return the fit of the located group."""
        if self._path.pooled:
            return cython.cast(Inner, self._path.over).P / cython.cast(Inner, self._path.over).W
        return self._fit_with(0.0, 0.0)
