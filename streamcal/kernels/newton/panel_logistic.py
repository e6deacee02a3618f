# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Monotone Bernstein logistic regression that follows its data: sums over a few hundred nodes in place of all points.

Symbols, after `solvers/bernstein_logistic.py`:

    B_i, n      the Bernstein basis of degree n;  η(u) = LIMIT (2 Σ c_i B_i(u) − 1), 0 ≤ c_0 ≤ … ≤ c_n ≤ 1
    p = σ(η),   D = w p (1 − p)
    panel       one of P intervals that cover [0, 1], narrow towards the ends, where polynomials can change fastest
    node        one of q Chebyshev points of a panel;  l_k the Lagrange polynomials of these points
    W, A        weight and positive weight of a node: Σ w l(u) and Σ w y l(u) over the points (u, y, w) of its panel
    anchor      the coefficients c at which `moments` and `cross`, the quadratic model of the loss, are summed
    ellipse     of a panel: the Bernstein ellipse around it whose half-axes add up to R half-widths

The gradient and the Hessian of the loss are sums Σ w g(u) of analytic functions g: σ(η) or its derivative times a
polynomial. On a panel such a g is nearly a polynomial of degree q − 1, so that Σ W g over the nodes is nearly Σ w g
over the points. The error is known: where |g| ≤ M in the ellipse of a panel, it is at most

    4 M R^(1 − q) / (R − 1)

per unit of weight (Trefethen 2013, Approximation Theory and Approximation Practice, Theorem 8.2). R is chosen so that
this is `UNRESOLVED` for the M that is allowed, a few units of rounding of the sums over all points. |σ(η)| ≤ 2.7 in an
ellipse where |Im η| < 2.75, or where |Re η| > .75; whether the η of a fit is such follows from its Taylor series at
the middle of each panel (`_resolves`). W and A do not depend on c. So a new point changes q of them, and Newton's
method takes steps of O(P·q·n), whatever the number of points; these are monotone least-squares problems, as in the
solver.

The model at the anchor follows each point that comes or goes. After a step from the anchor that changes no log-odds by
more than `_LAST_STEP`, what is left is of the size of its square, and the anchor stays; otherwise it moves.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.libc.math import exp, fabs
from cython.cimports.streamcal.kernels.polynomial.bernstein import write_basis
from cython.cimports.streamcal.kernels.polynomial.monotone_qp import MonotoneQP

from streamcal.kernels.newton.panel_tables import ORDER, tables

#: Log-odds lie within ±LIMIT: `solvers/bernstein_logistic.py`.
_LIMIT = cython.declare(cython.double, 15.0)
#: q.
_ORDER = cython.declare(cython.Py_ssize_t, ORDER)
#: P: the numbers of panels that are tried. With 16, slopes of 16 log-odds per unit are resolved in the middle of
#: [0, 1], and steeper ones towards its ends; with 64, four times as much.
PANELS = (16, 32, 64)
#: An ellipse is accepted where η varies by no more than this from the middle of its panel, or stays as far from 0 as
#: `_OFF_ZERO`; a change of c by which no η in an ellipse can change by more than `_SLACK` needs no new look.
_VARIATION = cython.declare(cython.double, 2.5)
_OFF_ZERO = cython.declare(cython.double, 1.0)
_SLACK = cython.declare(cython.double, 0.25)
#: A step that changes no log-odds of a node by more than this is the last; what it leaves is of the size of its square.
_LAST_STEP = cython.declare(cython.double, 1e-6)
#: Steps longer than this are left to the damped ones of the solver.
_LONGEST_STEP = cython.declare(cython.double, 2.0)
_MAX_STEPS = cython.declare(cython.int, 12)
#: The least-squares problem must be solved as exactly as this; it usually is to 1e-15.
_KKT = cython.declare(cython.double, 1e-13)
#: Nodes are recomputed after `_MOST_CHANGES` changes, or once the weight added to and removed from them exceeds
#: `_MOST_HANDLED` times their weight; the sums at the anchor after `_MOST_SINCE` changes. Otherwise rounding adds up.
_MOST_CHANGES = cython.declare(cython.longlong, 10_000)
_MOST_HANDLED = cython.declare(cython.double, 100.0)
_MOST_SINCE = cython.declare(cython.longlong, 500)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _add_rows(
    sums: cython.double[::1],
    by: cython.double[::1],
    matrix: cython.const[cython.double][::1],
    j: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.void:
    """Add four rows of a matrix from row j on, times as many entries of `by`, in one pass: it takes half the time."""
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t = j * size
    a: cython.double = by[j]
    b: cython.double = by[j + 1]
    c: cython.double = by[j + 2]
    d: cython.double = by[j + 3]
    for i in range(size):
        sums[i] += (
            a * matrix[at + i]
            + b * matrix[at + size + i]
            + (c * matrix[at + 2 * size + i] + d * matrix[at + 3 * size + i])
        )


class PanelLogistic:
    """The points, in numbered slots, and their nodes. Even slots hold negative weight, odd ones positive.

    `load` and `start_at` make it ready; from then on `replace` follows the points, and `fit` finds the minimum, in
    `coefficients`. Fields and C signatures are in `panel_logistic.pxd`.
    """

    def __init__(self, degree: cython.Py_ssize_t, panels: cython.Py_ssize_t, size: cython.Py_ssize_t):
        arrays = tables(degree, panels)
        nodes = panels * _ORDER
        self.degree, self.panels, self._m, self._nodes = degree, panels, degree + 1, nodes
        self._edges, self._places, self._barycentric = arrays[:3]
        self._basis, self._at_nodes, self._products, self._variation, self._growth = arrays[3:]
        self._qp = self._program = MonotoneQP(degree)
        self._solution = self._qp.coefficients.data
        self._moments, self._cross = np.zeros(2 * degree + 1).data, np.zeros(degree + 1).data
        self._qp.watch(self._moments, self._cross)
        self._u, self._w = np.zeros(size).data, np.zeros(size).data
        self._weights, self._positive = np.zeros(nodes).data, np.zeros(nodes).data
        self._height, self._goal = np.zeros(nodes).data, np.zeros(nodes).data
        self._inside, self._share = np.zeros(panels, dtype=np.intp).data, np.zeros(_ORDER).data
        self._c, self._resolved = np.zeros(degree + 1).data, np.zeros(degree + 1).data
        self._terms = np.zeros(2 * degree + 1).data
        self._padded = np.zeros(len(arrays[3]) // nodes).data
        self._curvature, self._pull = np.zeros(nodes).data, np.zeros(nodes).data
        self.coefficients = np.zeros(degree + 1)
        self._fitted = self.coefficients.data
        self._is_resolved = False
        self._total = self._handled = 0.0
        self._changes = self._since = 0

    def load(
        self,
        slots: cython.const[cython.Py_ssize_t][::1],
        u: cython.const[cython.double][::1],
        w: cython.const[cython.double][::1],
    ):
        """Replace all points by these; `start_at` is to follow."""
        j: cython.Py_ssize_t
        for j in range(self._w.shape[0]):
            self._w[j] = 0.0
        for j in range(slots.shape[0]):
            self._u[slots[j]], self._w[slots[j]] = u[j], w[j]
        self._weigh()
        self._qp.set_active_set([], False)

    def start_at(self, coefficients: cython.const[cython.double][::1]) -> cython.bint:
        """Sum at these coefficients of the log-odds; False, and nothing done, where the panels do not resolve them."""
        i: cython.Py_ssize_t
        for i in range(self._m):
            self._terms[i] = 0.5 * (coefficients[i] / _LIMIT + 1.0)
        self._is_resolved = False
        if not self._resolves(self._terms):
            return False
        for i in range(self._m):
            self._c[i] = self._solution[i] = self._terms[i]
        self._rise()
        self._sum()
        return True

    def replace(self, slot: cython.Py_ssize_t, u: cython.double, w: cython.double):
        """Replace the point of a slot; weight 0 for none. O(q + n)."""
        if self._w[slot] > 0.0:
            self._spread(slot, -1.0)
            self._shift(slot, -1.0)
        self._u[slot], self._w[slot] = u, w
        if w > 0.0:
            self._spread(slot, 1.0)
            self._shift(slot, 1.0)

    def model(self):
        """Return the sums of the quadratic model at the anchor, arrays of shape (2n + 1,) and (n + 1,)."""
        return np.array(self._moments), np.array(self._cross)

    def fit(self) -> cython.bint:
        """Find the minimum for the points as they are; whether it was found. `coefficients` are then those of it."""
        i: cython.Py_ssize_t
        _step: cython.int
        change: cython.double
        if not self._total > 0.0:
            return False
        if self._changes > _MOST_CHANGES or not self._handled <= _MOST_HANDLED * self._total:
            self._weigh()
            self._since = _MOST_SINCE
        if self._since >= _MOST_SINCE:
            for i in range(self._m):
                self._solution[i] = self._c[i]
            self._rise()
            self._sum()
        for _step in range(_MAX_STEPS):
            if self._program.solve_watched(self._total) != 0 or not self._program.kkt <= _KKT:
                return False
            change = self._rise()
            if change <= _LAST_STEP:
                for i in range(self._m):
                    self._fitted[i] = _LIMIT * (2.0 * self._solution[i] - 1.0)
                return self._resolves(self._solution)
            if not change <= _LONGEST_STEP:
                return False
            self._sum()
        return False

    def _weigh(self) -> cython.void:
        """Recompute the weights of the nodes, in a pass over the points."""
        i: cython.Py_ssize_t
        for i in range(self._nodes):
            self._weights[i] = self._positive[i] = 0.0
        for i in range(self.panels):
            self._inside[i] = 0
        self._total = 0.0
        for i in range(self._w.shape[0]):
            if self._w[i] > 0.0:
                self._spread(i, 1.0)
        self._handled = 0.0
        self._changes = 0

    def _panel(self, u: cython.double) -> cython.Py_ssize_t:
        """Return the panel of a point: halving, with the numbers of panels powers of two."""
        left: cython.Py_ssize_t = 0
        width: cython.Py_ssize_t = self.panels // 2
        while width > 0:
            if u >= self._edges[left + width]:
                left += width
            width = width // 2
        return left

    def _spread(self, slot: cython.Py_ssize_t, sign: cython.double) -> cython.void:
        """Add the point of a slot to the nodes of its panel (`sign` 1), or take it off (−1): w l_k(u) to each W."""
        k: cython.Py_ssize_t
        w: cython.double = sign * self._w[slot]
        panel: cython.Py_ssize_t = self._panel(self._u[slot])
        at: cython.Py_ssize_t = panel * _ORDER
        low: cython.double = self._edges[panel]
        high: cython.double = self._edges[panel + 1]
        place: cython.double = ((self._u[slot] - low) - (high - self._u[slot])) / (high - low)
        gap: cython.double
        total: cython.double = 0.0
        share: cython.double[::1] = self._share
        weights: cython.double[::1] = self._weights
        positive: cython.double[::1] = self._positive
        for k in range(_ORDER):
            gap = place - self._places[k]
            if gap == 0.0:  # the point is a node: the shares of the others are negligible
                gap = 1e-300
            share[k] = self._barycentric[k] / gap
            total += share[k]
        total = w / total
        for k in range(_ORDER):
            weights[at + k] += total * share[k]
        if slot & 1:
            for k in range(_ORDER):
                positive[at + k] += total * share[k]
        self._hold(panel, sign)
        self._total += w
        self._handled += fabs(w)
        self._changes += 1

    def _hold(self, panel: cython.Py_ssize_t, sign: cython.double) -> cython.void:
        """Count a point that has come or gone. Panels without points are not read, and have no weight."""
        k: cython.Py_ssize_t
        if sign > 0.0:
            self._inside[panel] += 1
            if self._inside[panel] == 1:
                self._is_resolved = False
            return
        self._inside[panel] -= 1
        if self._inside[panel] == 0:
            for k in range(panel * _ORDER, (panel + 1) * _ORDER):
                self._weights[k] = self._positive[k] = 0.0

    def _shift(self, slot: cython.Py_ssize_t, sign: cython.double) -> cython.void:
        """Add the point of a slot to the model at the anchor, or take it off."""
        i: cython.Py_ssize_t
        w: cython.double = sign * self._w[slot]
        height: cython.double = 0.0
        p: cython.double
        curvature: cython.double
        pull: cython.double
        terms: cython.double[::1] = self._terms
        write_basis(self.degree, self._u[slot], terms)
        for i in range(self._m):
            height += self._c[i] * terms[i]
        p = 1.0 / (1.0 + exp(-_LIMIT * (2.0 * height - 1.0)))
        curvature = 4.0 * w * p * (1.0 - p)
        pull = curvature * height - 2.0 / _LIMIT * (w * p - (w if slot & 1 else 0.0))
        for i in range(self._m):
            self._cross[i] += pull * terms[i]
        write_basis(2 * self.degree, self._u[slot], terms)
        for i in range(2 * self.degree + 1):
            self._moments[i] += curvature * terms[i]
        self._since += 1

    def _rise(self) -> cython.double:
        """Vc for the coefficients found, in `_goal`; the largest change of a log-odds where there are points."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        nodes: cython.Py_ssize_t = self._nodes
        c0: cython.double
        c1: cython.double
        c2: cython.double
        c3: cython.double
        most: cython.double = 0.0
        goal: cython.double[::1] = self._goal
        rows: cython.const[cython.double][::1]
        for j in range(nodes):
            goal[j] = 0.0
        for i in range(self._m):
            self._padded[i] = self._solution[i]
        for i in range(0, self._padded.shape[0], 4):
            c0, c1, c2, c3 = self._padded[i], self._padded[i + 1], self._padded[i + 2], self._padded[i + 3]
            rows = self._basis[i * nodes :]
            for j in range(nodes):
                goal[j] += c0 * rows[j] + c1 * rows[nodes + j] + (c2 * rows[2 * nodes + j] + c3 * rows[3 * nodes + j])
        for i in range(self.panels):
            if self._inside[i] > 0:
                for j in range(i * _ORDER, (i + 1) * _ORDER):
                    most = max(most, fabs(goal[j] - self._height[j]))
        return 2.0 * _LIMIT * most

    def _sum(self) -> cython.void:
        """Move the anchor to the coefficients found, whose Vc is in `_goal`, and make the model there."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        panel: cython.Py_ssize_t
        p: cython.double
        for i in range(self._m):
            self._c[i] = self._solution[i]
            self._cross[i] = 0.0
        for i in range(2 * self._m - 1):
            self._moments[i] = 0.0
        for j in range(self._nodes):
            self._height[j] = self._goal[j]
        for panel in range(self.panels):
            if self._inside[panel] == 0:
                continue
            for j in range(panel * _ORDER, (panel + 1) * _ORDER):
                p = 1.0 / (1.0 + exp(-_LIMIT * (2.0 * self._height[j] - 1.0)))
                self._curvature[j] = 4.0 * self._weights[j] * p * (1.0 - p)
                self._pull[j] = self._curvature[j] * self._height[j]
                self._pull[j] -= 2.0 / _LIMIT * (self._weights[j] * p - self._positive[j])
            for j in range(panel * _ORDER, (panel + 1) * _ORDER, 4):
                _add_rows(self._cross, self._pull, self._at_nodes, j, self._m)
                _add_rows(self._moments, self._curvature, self._products, j, 2 * self._m - 1)
        self._since = 0

    def _resolves(self, c: cython.double[::1]) -> cython.bint:
        """Return whether η is accepted in the ellipses of all panels that hold points."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        panel: cython.Py_ssize_t
        at: cython.Py_ssize_t
        term: cython.double
        middle: cython.double
        varies: cython.double
        moved: cython.double = 0.0
        for i in range(self._m):
            moved = max(moved, fabs(c[i] - self._resolved[i]))
        if self._is_resolved and 2.0 * _LIMIT * moved * self._growth <= _SLACK:
            return True
        self._is_resolved = False
        for panel in range(self.panels):
            if self._inside[panel] == 0:
                continue
            middle = varies = 0.0
            for k in range(self._m):
                at = (panel * self._m + k) * self._m
                term = 0.0
                for i in range(self._m):
                    term += self._variation[at + i] * c[i]
                if k == 0:
                    middle = fabs(_LIMIT * (2.0 * term - 1.0))
                else:
                    varies += 2.0 * _LIMIT * fabs(term)
            if varies > _VARIATION and not middle - varies >= _OFF_ZERO:
                return False
        for i in range(self._m):
            self._resolved[i] = c[i]
        self._is_resolved = True
        return True
