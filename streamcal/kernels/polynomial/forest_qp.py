# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Isotonic least squares over a partial order, from the working set of an earlier solve: an active set of trees.

    min  ½ xᵀPx − rᵀx    subject to   x[hi_e] ≥ x[lo_e] for every edge e

The nodes of the edges are the N variables and two constants, 0 (node N) and 1 (node N + 1). Symbols:

    T           the working set: edges held as equations. Their normals are independent exactly if T is a forest that
                does not join 0 and 1
    group       the nodes that T joins: they have one value, and a constant gives its own
    λ           the multipliers of T, Σ λ_e (e_hi − e_lo) = Px − r

For a given T the problem has one variable for every free group, of which there are far fewer than N. Its matrix is P
summed over pairs of groups, and λ follows from the residual Px − r by one pass over the trees from their leaves. Both
are recomputed from P for each T, so that the result depends on P, r and the groups, and not on the way to them.

The method is the dual one of Goldfarb & Idnani (1983), started from a given T. First edges of negative λ leave, until
there are none. Then the edge that is violated most enters: x and λ go on a line to the solution with this edge as an
equation, and where a λ becomes 0 before, its edge leaves, and the line goes on to the solution without it.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.libc.math import fabs, sqrt

#: An edge is violated by more than this, for variables between 0 and 1; multipliers are negative below minus the other.
_VIOLATION = cython.declare(cython.double, 1e-12)
_NEGATIVE = cython.declare(cython.double, 1e-14)
#: A pivot below this fraction of its diagonal is rounding.
_PIVOT = cython.declare(cython.double, 1e-14)
#: Working sets that are tried at most; from that of the last observation it takes some five.
_MOST_SOLVES = cython.declare(cython.int, 60)


@cython.final
@cython.cclass
class ForestQP:
    """Solver for one set of edges and for programs P = ratio · moments[place] / weight + penalty, r = cross / weight.

    `solve` says whether it has found the solution from the working set that it has; then `x` is that, moved up to
    satisfy every edge exactly, and `gap` bounds ½xᵀPx − rᵀx less its minimum, from λ ≥ 0. Edges lead up a chain before
    the next one (as along the axes of a grid), so that one pass over them moves x up.
    """

    size = cython.declare(cython.Py_ssize_t, visibility="readonly")
    x = cython.declare(object, visibility="readonly")
    gap = cython.declare(cython.double, visibility="readonly")
    solves = cython.declare(cython.int, visibility="readonly")
    _edges: cython.Py_ssize_t
    _groups: cython.Py_ssize_t
    _hi: cython.Py_ssize_t[::1]
    _lo: cython.Py_ssize_t[::1]
    _ratio: cython.double[::1]
    _penalty: cython.double[::1]
    _place: cython.Py_ssize_t[::1]
    _scaled: cython.double[::1]  # moments per unit of weight
    _p: cython.double[::1]
    _r: cython.double[::1]
    _x: cython.double[::1]  # N + 2, the constants last
    _out: cython.double[::1]  # memory of `x`
    _in_tree: cython.char[::1]  # by edge: 1 in T
    _first: cython.Py_ssize_t[::1]  # by node: the first place of its edges in `_incident`
    _incident: cython.Py_ssize_t[::1]  # all edges of node 0, of node 1, …
    _group: cython.Py_ssize_t[::1]  # by node: −1 not seen yet, −2 that of 0, −3 that of 1
    _parent: cython.Py_ssize_t[::1]  # by node, and the edge to it
    _edge: cython.Py_ssize_t[::1]
    _order: cython.Py_ssize_t[::1]  # the nodes, parents first
    _matrix: cython.double[::1]
    _value: cython.double[::1]
    _row: cython.double[::1]
    _need: cython.double[::1]
    _u: cython.double[::1]  # λ
    _new: cython.double[::1]  # λ of the working set that is tried

    def __init__(self, size, hi, lo, ratio, penalty, place):
        hi, lo = np.array(hi, dtype=np.intp), np.array(lo, dtype=np.intp)
        nodes, edges = size + 2, len(hi)
        if len(lo) != edges or edges == 0 or min(hi.min(), lo.min()) < 0 or max(hi.max(), lo.max()) >= nodes:
            raise ValueError(f"edges must join two of {nodes} nodes")
        place = np.array(place, dtype=np.intp).ravel()
        if not len(place) == np.size(ratio) == np.size(penalty) == size * size:
            raise ValueError(f"{size} variables need matrices of {size} x {size}")
        ends = np.concatenate((hi, lo))
        by_node = np.argsort(ends, kind="stable")
        self.size, self._edges, self._groups = size, edges, 0
        self._hi, self._lo = hi.data, lo.data
        self._ratio, self._penalty = (np.array(one, dtype=np.float64).ravel().data for one in (ratio, penalty))
        self._place = place.data
        self._scaled = np.zeros(int(place.max()) + 1).data
        self._first = np.searchsorted(ends[by_node], np.arange(nodes + 1)).astype(np.intp).data
        self._incident = (by_node % edges).astype(np.intp).data
        self.x = np.zeros(size)
        self._out, self._x = self.x.data, np.zeros(nodes).data
        self._p, self._r, self._row = np.zeros(size * size).data, np.zeros(size).data, np.zeros(size).data
        self._matrix, self._value = np.zeros(size * size).data, np.zeros(size).data
        self._in_tree = np.zeros(edges, dtype=np.int8).data
        self._group, self._parent, self._edge, self._order = (np.zeros(nodes, dtype=np.intp).data for _ in range(4))
        self._need, self._u, self._new = np.zeros(nodes).data, np.zeros(edges).data, np.zeros(edges).data
        self.gap = 0.0
        self.solves = 0

    def start_from(self, working):
        """Start the next solve from these edges, which must be a forest."""
        for e in range(self._edges):
            self._in_tree[e] = 0
        for e in working:
            self._in_tree[e] = 1

    def solve(
        self,
        moments: cython.const[cython.double][::1],
        cross: cython.const[cython.double][::1],
        weight: cython.double,
    ) -> cython.bint:
        """Solve from the working set of the last solve; whether that succeeded."""
        i: cython.Py_ssize_t
        if moments.shape[0] != self._scaled.shape[0] or cross.shape[0] != self.size:
            raise ValueError(f"got {moments.shape[0]} moments and {cross.shape[0]} cross sums")
        for i in range(self._scaled.shape[0]):
            self._scaled[i] = moments[i] / weight
        for i in range(self.size * self.size):
            self._p[i] = self._ratio[i] * self._scaled[self._place[i]] + self._penalty[i]
        for i in range(self.size):
            self._r[i] = cross[i] / weight
        self.solves = 0
        return self._solve()

    @cython.cfunc
    @cython.exceptval(check=False)
    def _solve(self) -> cython.bint:
        e: cython.Py_ssize_t
        negative: cython.bint = True
        while negative:
            if not self._try():
                return False
            negative = False
            for e in range(self._edges):
                self._u[e] = self._new[e]
                if self._in_tree[e] and self._u[e] < -_NEGATIVE:
                    self._in_tree[e], negative = 0, True
        e = self._most_violated()
        while e >= 0:
            if not self._take_in(e):
                return False
            e = self._most_violated()
        self._finish()
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    def _most_violated(self) -> cython.Py_ssize_t:
        e: cython.Py_ssize_t
        worst: cython.Py_ssize_t = -1
        least: cython.double = -_VIOLATION
        slack: cython.double
        for e in range(self._edges):
            slack = self._x[self._hi[e]] - self._x[self._lo[e]]
            if slack < least:
                least, worst = slack, e
        return worst

    @cython.cfunc
    @cython.exceptval(check=False)
    def _take_in(self, entering: cython.Py_ssize_t) -> cython.bint:
        """Add an edge to T; edges whose multipliers would become negative leave on the way. Whether it succeeded."""
        e: cython.Py_ssize_t
        leaving: cython.Py_ssize_t = 0
        share: cython.double
        step: cython.double
        self._in_tree[entering] = 1
        self._u[entering] = 0.0
        while leaving >= 0:
            if not self._try():
                return False
            leaving, share = -1, 1.0
            for e in range(self._edges):
                if self._in_tree[e] and self._new[e] < -_NEGATIVE:
                    if e == entering:
                        return False  # only by rounding
                    step = max(self._u[e], 0.0)
                    step = step / (step - self._new[e])
                    if leaving < 0 or step < share:
                        leaving, share = e, step
            for e in range(self._edges):
                self._u[e] += share * (self._new[e] - self._u[e])
            if leaving >= 0:
                self._in_tree[leaving] = 0
                self._u[leaving] = 0.0
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    def _try(self) -> cython.bint:
        """Set x for the working set, and its multipliers in `_new`; return False if no forest, or ill-conditioned."""
        i: cython.Py_ssize_t
        g: cython.Py_ssize_t
        self.solves += 1
        if self.solves > _MOST_SOLVES or not self._join():
            return False
        self._reduce()
        if not self._solve_groups():
            return False
        for i in range(self.size):
            g = self._group[i]
            self._x[i] = self._value[g] if g >= 0 else 1.0 if g == -3 else 0.0
        self._x[self.size], self._x[self.size + 1] = 0.0, 1.0
        self._find_multipliers()
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    def _join(self) -> cython.bint:
        """Set the groups of T and the trees that span them; return False where T has a cycle, or joins 0 and 1."""
        i: cython.Py_ssize_t
        n: cython.Py_ssize_t = self.size
        ends: cython.Py_ssize_t = 0  # of the nodes in `_order`
        edges: cython.Py_ssize_t = 0
        for i in range(n + 2):
            self._group[i] = -1
        for i in range(self._edges):
            edges += self._in_tree[i]
        self._groups = 0
        ends = self._grow(n, -2, ends)
        if self._group[n + 1] != -1:
            return False
        ends = self._grow(n + 1, -3, ends)
        for i in range(n):
            if self._group[i] == -1:
                ends = self._grow(i, self._groups, ends)
                self._groups += 1
        return edges == n - self._groups  # else a cycle: a forest has an edge for every node that is no root

    @cython.cfunc
    @cython.exceptval(check=False)
    def _grow(self, root: cython.Py_ssize_t, group: cython.Py_ssize_t, start: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Write the tree of T around a node to `_order` from place `start` on; return the place after its nodes."""
        k: cython.Py_ssize_t
        e: cython.Py_ssize_t
        node: cython.Py_ssize_t
        other: cython.Py_ssize_t
        end: cython.Py_ssize_t = start + 1
        self._order[start], self._group[root], self._edge[root] = root, group, -1
        while start < end:
            node = self._order[start]
            start += 1
            for k in range(self._first[node], self._first[node + 1]):
                e = self._incident[k]
                if self._in_tree[e]:
                    other = self._lo[e] if self._hi[e] == node else self._hi[e]
                    if self._group[other] == -1:
                        self._group[other], self._parent[other], self._edge[other] = group, node, e
                        self._order[end] = other
                        end += 1
        return end

    @cython.cfunc
    @cython.exceptval(check=False)
    def _reduce(self) -> cython.void:
        """Set the lower triangle of the matrix of the groups, and their linear term in `_value`."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        g: cython.Py_ssize_t
        n: cython.Py_ssize_t = self.size
        groups: cython.Py_ssize_t = self._groups
        ones: cython.double
        for i in range(groups * groups):
            self._matrix[i] = 0.0
        for i in range(groups):
            self._value[i] = 0.0
        for i in range(n):
            g = self._group[i]
            if g < 0:
                continue
            ones = 0.0
            for j in range(n):
                if self._group[j] >= 0:
                    self._matrix[g * groups + self._group[j]] += self._p[i * n + j]
                elif self._group[j] == -3:
                    ones += self._p[i * n + j]
            self._value[g] += self._r[i] - ones

    @cython.cfunc
    @cython.exceptval(check=False)
    def _solve_groups(self) -> cython.bint:
        """Compute the values of the groups by Cholesky's method, in place; return False where a pivot is rounding."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        m: cython.Py_ssize_t = self._groups
        diagonal: cython.double
        a: cython.double
        x: cython.double[::1] = self._matrix
        value: cython.double[::1] = self._value
        row: cython.double[::1] = self._row
        for j in range(m):  # row j of the upper factor, and what it takes off the rows below
            diagonal = self._diagonal(j)
            if not x[j * m + j] > _PIVOT * diagonal:
                return False
            a = 1.0 / sqrt(x[j * m + j])
            for k in range(j, m):
                x[j * m + k] *= a
                row[k] = x[j * m + k]
            value[j] *= a
            for i in range(j + 1, m):
                a = row[i]
                value[i] -= a * value[j]
                for k in range(i, m):
                    x[i * m + k] -= a * row[k]
        for j in range(m - 1, -1, -1):
            a = value[j]
            for k in range(j + 1, m):
                a -= x[j * m + k] * value[k]
            value[j] = a / x[j * m + j]
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    def _diagonal(self, j: cython.Py_ssize_t) -> cython.double:
        """Return the diagonal of row j before the elimination, from the rows above; pivots are compared with it."""
        k: cython.Py_ssize_t
        m: cython.Py_ssize_t = self._groups
        total: cython.double = self._matrix[j * m + j]
        for k in range(j):
            total += self._matrix[k * m + j] * self._matrix[k * m + j]
        return total

    @cython.cfunc
    @cython.exceptval(check=False)
    def _find_residual(self, x: cython.double[::1]) -> cython.void:
        """Px − r in `_need`."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        n: cython.Py_ssize_t = self.size
        a: cython.double
        need: cython.double[::1] = self._need
        p: cython.double[::1] = self._p
        for j in range(n):
            need[j] = -self._r[j]
        for i in range(n):
            a = x[i]
            if a != 0.0:
                for j in range(n):
                    need[j] += a * p[i * n + j]

    @cython.cfunc
    @cython.exceptval(check=False)
    def _find_multipliers(self) -> cython.void:
        """Set λ in `_new`: from the leaves on, what the edge to the parent must balance."""
        k: cython.Py_ssize_t
        e: cython.Py_ssize_t
        node: cython.Py_ssize_t
        self._find_residual(self._x)
        self._need[self.size] = self._need[self.size + 1] = 0.0
        for e in range(self._edges):
            self._new[e] = 0.0
        for k in range(self.size + 1, -1, -1):
            node = self._order[k]
            e = self._edge[node]
            if e >= 0:
                self._new[e] = self._need[node] if self._hi[e] == node else -self._need[node]
                self._need[self._parent[node]] += self._need[node]

    @cython.cfunc
    @cython.exceptval(check=False)
    def _finish(self) -> cython.void:
        """Set `x`, the least point above the solution that satisfies every edge, within [0, 1]; and its `gap`.

        By convexity the gap is at most Σ |Px − r − Σ λ_e (e_hi − e_lo)|·max(x, 1 − x) + Σ λ_e (x_hi − x_lo).
        """
        e: cython.Py_ssize_t
        i: cython.Py_ssize_t
        for e in range(self._edges):
            i = self._hi[e]
            if i < self.size:
                self._x[i] = max(self._x[i], self._x[self._lo[e]])
        for i in range(self.size):
            self._x[i] = self._out[i] = min(max(self._x[i], 0.0), 1.0)
        self._find_residual(self._out)
        self.gap = 0.0
        for e in range(self._edges):
            if self._in_tree[e] and self._new[e] > 0.0:
                self.gap += self._new[e] * (self._x[self._hi[e]] - self._x[self._lo[e]])
                self._need[self._hi[e]] -= self._new[e]
                self._need[self._lo[e]] += self._new[e]
        for i in range(self.size):
            self.gap += fabs(self._need[i]) * max(self._out[i], 1.0 - self._out[i])
