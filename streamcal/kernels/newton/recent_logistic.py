# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""A logistic regression of few parameters by Newton's method over the points that matter, or over nodes in their place.

Symbols are those of `anchored_logistic`, whose sums are of use where parameters move little. Under a short half-life
they move far with every label, and nearly all points weigh nothing. A pass reads the points in the order of their last
change (`recent_points`), from the first that matters to the last. Where these are more than the nodes that can take
their place (`point_nodes`), a pass reads the nodes.

    ω           the weight of the points left out

What the last step leaves of the gradient has a known dual norm (`quadratic_model`); rounding, the nodes, and the points
left out, whose gradients are at most ρ each per unit of weight, add to it. Where that is ε with ρε ≤ ½, no log-odds of
a point is further than 2ρε from that at the minimum: Bach's bound (see `anchored_logistic`) is one on monotone
gradients, and holds for a minimum over a convex set too.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.libc.math import exp, fabs, isfinite
from cython.cimports.streamcal.kernels.newton.point_nodes import PointNodes
from cython.cimports.streamcal.kernels.newton.quadratic_model import QuadraticModel
from cython.cimports.streamcal.kernels.newton.recent_points import RecentPoints

from streamcal.kernels.newton.point_nodes import WORN

#: A fit is accepted where no log-odds of a point can differ by more than this from the minimum's.
CERTIFIED = 1e-10
#: The same with the rounding of the sums, which a fit by other means has too: labels that are all but separated leave
#: a curvature of the size of the ridge, and magnify it.
ROUNDED = 1e-8
#: What the points left out may contribute.
_LEFT_OUT = cython.declare(cython.double, 1e-11)
#: The share of the weight that is left out while parameters move far, and of means and deviations of the features.
#: A ridge of 1e-9 is measured at the mean: the second share changes its gradient by less than rounding does.
_COARSE = cython.declare(cython.double, 2.0**-20)
_MEASURED = cython.declare(cython.double, 2.0**-60)
#: A step with a smaller r ends the passes over the heavy points; those over all; and those over all if it was bent.
_COARSE_STEP = cython.declare(cython.double, 1e-2)
LAST_STEP = 1e-6
_BENT_STEP = cython.declare(cython.double, 3e-4)
_MAX_STEPS = cython.declare(cython.int, 60)
_MAX_TRIALS = cython.declare(cython.int, 12)
#: A step changes no log-odds by more than this plus the largest one.
_LONGEST_STEP = cython.declare(cython.double, 5.0)
#: A step is too long where the loss rises at its end by more than this share of its first fall.
_RISE = cython.declare(cython.double, 0.5)
#: The points of a partial sum.
_BLOCK = cython.declare(cython.int, 64)
#: What nodes cost, in visits of every point by a pass; and how often that is doubled where they have served no fit.
_NODING = cython.declare(cython.longlong, 10)
_MOST_PATIENCE = cython.declare(cython.int, 6)

_CERTIFIED = cython.declare(cython.double, CERTIFIED)
_ROUNDED = cython.declare(cython.double, ROUNDED)
_LAST_STEP = cython.declare(cython.double, LAST_STEP)
_ROUNDING = cython.declare(cython.double, 2.0**-52)
_WORN = cython.declare(cython.double, WORN)


class RecentLogistic:
    """A fit of points; the form is that of `AnchoredLogistic`."""

    def __init__(self, points: RecentPoints, two, constant, targets, ridge):
        self.points, self.nodes = points, PointNodes(two, constant)
        self.model = QuadraticModel(points, two, constant, targets, ridge)
        self.two, self.constant, self.targets = two, constant, targets
        self.third = np.zeros(max(len(points.u), len(self.nodes.u))).data
        self.before, self.noise, self.fitted = (np.zeros(3).data for _ in range(3))
        self._read(False)
        self.visited = self.spent = self.patience = 0
        self.total = self.mass = 0.0

    def parameters(self):
        """Return A, B and C of the last fit."""
        return self.fitted[0], self.fitted[1], self.fitted[2]

    def load(self, slots, u, v, w):
        """Replace all points by these."""
        self.points.load(slots, u, v, w)
        self.nodes.holds = False
        self.spent = self.patience = 0

    @cython.locals(i=cython.Py_ssize_t)
    def replace(self, slot: cython.Py_ssize_t, u: cython.double, v: cython.double, w: cython.double) -> cython.void:
        """Replace the point of a slot; weight 0 for none. O(1)."""
        i = self.points.place[slot]
        if self.nodes.holds and i >= 0:
            self.nodes._add(self.points.u[i], self.points.v[i], self.points._weight(i), slot & 1, False)
        self.points.replace(slot, u, v, w)
        if self.nodes.holds and w > 0.0:
            self.nodes._add(u, v, w, slot & 1, True)

    def _scale(self, factor: cython.double) -> cython.void:
        self.points._scale(factor)
        self.nodes._scale(factor)

    def _matters_from(self) -> cython.Py_ssize_t:
        """Return the first entry that matters to the last fit."""
        return self.points._above(0.1 * _LEFT_OUT / (self.model.leverage * self.model.leverage))

    def fit(
        self, t_plus: cython.double, t_minus: cython.double, a: cython.double, b: cython.double, c: cython.double
    ) -> cython.bint:
        """Find the minimum from these parameters; whether it is certified. `parameters()` are then those of it."""
        self.visited = 0
        if self.points.live == 0 or not isfinite(a + b + c):
            return False
        if self.nodes.holds and self._fit_nodes(t_plus, t_minus, a, b, c):
            self.patience = 0
            if self.nodes._narrow(max(self.fitted[0], self.fitted[1])):
                self._consider()
            return True
        if not self._fit_points(t_plus, t_minus, a, b, c):
            return False
        self._consider()
        return True

    def _read(self, nodes: cython.bint) -> cython.void:
        """Let passes read the nodes, or the points."""
        self.by_nodes = nodes
        if nodes:
            self.u, self.v, self.end = self.nodes.u, self.nodes.v, self.nodes.size
            self.negative, self.positive = self.nodes.negative, self.nodes.positive
        else:
            self.u, self.v, self.end = self.points.u, self.points.v, self.points.end
            self.negative, self.positive = self.points.negative, self.points.positive

    def _consider(self) -> cython.void:
        """Make nodes once passes over the points have cost as much, if there are fewer of them than points that matter.

        Each time that they have served no fit doubles the cost that is waited for.
        """
        self.spent += self.visited
        if self.spent < (_NODING << self.patience) * self.points.end:
            return
        self.spent = 0
        self.nodes._load(
            self.points, max(self.fitted[0], self.fitted[1]), 3 * (self.points.end - self._matters_from()) // 4
        )
        if self.nodes.holds:
            self.patience = min(self.patience + 1, _MOST_PATIENCE)

    def _fit_nodes(
        self, t_plus: cython.double, t_minus: cython.double, a: cython.double, b: cython.double, c: cython.double
    ) -> cython.bint:
        """Fit the nodes; whether that is certified."""
        self._read(True)
        self.total = self.model._measure(self.u, self.v, self.negative, self.positive, 0, self.end)
        self.model._start(a, b, c)
        if not (self.total > 0.0 and self._descend(0, t_plus, t_minus, _LAST_STEP)):
            return False
        self.model._write(self.fitted)
        return self._certified(0.0)

    @cython.locals(start=cython.Py_ssize_t, heavy=cython.Py_ssize_t, left_out=cython.double, weight=cython.double)
    def _fit_points(
        self, t_plus: cython.double, t_minus: cython.double, a: cython.double, b: cython.double, c: cython.double
    ) -> cython.bint:
        """Fit the points that matter; whether that is certified."""
        weight = self.points.weight[0] + self.points.weight[1]
        if not weight > 0.0:
            return False
        self._read(False)
        start = self.points._above(_MEASURED * weight)
        self.total = self.model._measure(self.u, self.v, self.negative, self.positive, start, self.end)
        self.model._start(a, b, c)
        heavy = self.points._above(_COARSE * weight)
        self.model.leverage = 0.0
        if heavy > 0 and not self._descend(heavy, t_plus, t_minus, _COARSE_STEP):
            return False
        start = heavy
        while True:  # the leverage is known from the pass over the heavy points, and checked after that over all
            left_out = 0.5 * _LEFT_OUT / (self.model.leverage * self.model.leverage) if heavy > 0 else 0.0
            start = min(start, self.points._above(left_out)) if heavy > 0 else 0
            if not self._descend(start, t_plus, t_minus, _LAST_STEP):
                return False
            left_out = self.points.upto[start - 1] if start > 0 else 0.0
            if start == 0 or 2.0 * self.model.leverage * self.model.leverage * left_out <= 2.0 * _LEFT_OUT:
                break
        self.model._write(self.fitted)
        return self._certified(left_out)

    @cython.locals(i=cython.int, _step=cython.int, _trial=cython.int, t=cython.double, near=cython.double)
    @cython.locals(fall=cython.double, before=cython.double, rise=cython.double, final=cython.double)
    def _descend(
        self, start: cython.Py_ssize_t, t_plus: cython.double, t_minus: cython.double, last: cython.double
    ) -> cython.bint:
        """Take Newton steps over the points from `start` on, until r is at most `last`; whether that was reached."""
        theta: cython.double[::1] = self.model.theta
        step: cython.double[::1] = self.model.step
        self._pass(start, t_plus, t_minus)
        for _step in range(_MAX_STEPS):
            if not self.model._find_step():
                return False
            for i in range(3):
                self.before[i] = theta[i]
            final = last
            if self.model._bends(last):
                self.model._find_curve(self.u, self.v, self.third, start, self.end)
                self.model._bend()
                final = max(last, _BENT_STEP)
            if self.model.leverage * self.model.size <= final:
                for i in range(3):
                    theta[i] = self.before[i] + step[i]
                return True
            fall = self._slope()
            t = min(1.0, (_LONGEST_STEP + self.model._reach(theta)) / self.model._reach(step))
            near, before = 0.0, fall
            for _trial in range(_MAX_TRIALS):
                for i in range(3):
                    theta[i] = self.before[i] + t * step[i]
                self._pass(start, t_plus, t_minus)
                rise = self._slope()
                if not isfinite(rise):
                    return False
                if rise <= -_RISE * fall:
                    break
                # the loss is convex: its minimum along the step is between `near` and t, where the slope is 0
                t = near + (t - near) * min(max(before / (before - rise), 0.1), 0.9)
        return False

    def _slope(self) -> cython.double:
        """Return the slope of the loss along the step."""
        g: cython.double[::1] = self.model.g
        step: cython.double[::1] = self.model.step
        return g[0] * step[0] + g[1] * step[1] + g[2] * step[2]

    @cython.locals(i=cython.int)
    def _pass(self, start: cython.Py_ssize_t, t_plus: cython.double, t_minus: cython.double) -> cython.void:
        """Set the gradient and the Hessian of the loss at θ, over the points from `start` on, or over the nodes."""
        self.mass = 0.0
        for i in range(3):
            self.model.g[i] = self.noise[i] = 0.0
        for i in range(9):
            self.model.h[i] = 0.0
        self.visited += self.end - start
        while start < self.end:
            self._add_block(start, min(start + _BLOCK, self.end), t_plus, t_minus)
            start += _BLOCK
        for i in range(3):  # that of the nodes' weights too
            self.noise[i] *= 0.5 * _ROUNDING * (1.0 + _WORN if self.by_nodes else 1.0)
        if not self.targets:
            self.model._penalise(self.total, 0.0, 0.0)
        self.model._take_out()

    @cython.locals(i=cython.Py_ssize_t, j=cython.int, f1=cython.double, f2=cython.double, eta=cython.double)
    @cython.locals(e=cython.double, p=cython.double, q=cython.double, term=cython.double, curve=cython.double)
    @cython.locals(part=cython.double, blur=cython.double, g0=cython.double, g1=cython.double, g2=cython.double)
    @cython.locals(n0=cython.double, n1=cython.double, n2=cython.double, h0=cython.double, h3=cython.double)
    @cython.locals(h4=cython.double, h6=cython.double, h7=cython.double, h8=cython.double, mass=cython.double)
    def _add_block(
        self, start: cython.Py_ssize_t, stop: cython.Py_ssize_t, t_plus: cython.double, t_minus: cython.double
    ) -> cython.void:
        """Add the gradient and the Hessian of the points from `start` to `stop`."""
        u: cython.double[::1] = self.u
        v: cython.double[::1] = self.v
        negative: cython.double[::1] = self.negative
        positive: cython.double[::1] = self.positive
        third: cython.double[::1] = self.third
        g: cython.double[::1] = self.model.g
        h: cython.double[::1] = self.model.h
        c1: cython.double = self.model.centre[0]
        c2: cython.double = self.model.centre[1]
        s1: cython.double = self.model.unit[0]
        s2: cython.double = self.model.unit[1] if self.two else 0.0
        d1: cython.double = self.model.theta[0]
        d2: cython.double = self.model.theta[1]
        d0: cython.double = self.model.theta[2]
        down: cython.double = t_minus if self.targets else 0.0
        up: cython.double = 1.0 - t_plus if self.targets else 0.0
        g0 = g1 = g2 = n0 = n1 = n2 = h0 = h3 = h4 = h6 = h7 = h8 = mass = 0.0
        for i in range(start, stop):
            if negative[i] == 0.0 and positive[i] == 0.0:
                third[i] = 0.0
                continue
            f1, f2 = (u[i] - c1) * s1, (v[i] - c2) * s2
            eta = d1 * f1 + d2 * f2 + d0
            e = exp(-fabs(eta))
            p = 1.0 / (1.0 + e)
            q = e * p
            curve = (negative[i] + positive[i]) * p * q
            if eta < 0.0:
                p, q = q, p
            third[i] = curve * (q - p)
            term = negative[i] * (p - down) - positive[i] * (q - up)
            part = fabs(negative[i]) * p + fabs(positive[i]) * q
            g0, g1, g2 = g0 + term, g1 + term * f1, g2 + term * f2
            h0, h3, h4 = h0 + curve * f1 * f1, h3 + curve * f1 * f2, h4 + curve * f2 * f2
            h6, h7, h8 = h6 + curve * f1, h7 + curve * f2, h8 + curve
            mass += part
            # rounding: some places of a term and of its log-odds, and one of each partial sum
            blur = 4.0 * (part + fabs(curve) * (fabs(d1 * f1) + fabs(d2 * f2) + fabs(d0)))
            n0 += blur + fabs(g0)
            n1 += blur * fabs(f1) + fabs(g1)
            n2 += blur * fabs(f2) + fabs(g2)
        g[0], g[1], g[2] = g[0] + g1, g[1] + g2, g[2] + g0
        h[0], h[3], h[4], h[6], h[7], h[8] = h[0] + h0, h[3] + h3, h[4] + h4, h[6] + h6, h[7] + h7, h[8] + h8
        self.mass += mass
        self.noise[0] += n1 + fabs(g[0])
        self.noise[1] += n2 + fabs(g[1])
        self.noise[2] += n0 + fabs(g[2])

    @cython.locals(left=cython.double)
    def _certified(self, left_out: cython.double) -> cython.bint:
        """Return whether the log-odds of all points are those at the minimum, but for what is accepted."""
        left = self.model.left + self.model.leverage * left_out
        if self.by_nodes:
            self.nodes._bound(max(self.fitted[0], self.fitted[1]))
            left += self.nodes.error * self.mass * self.model.leverage
            left += (
                self.nodes.error
                * self.mass
                * self.nodes.extent
                * self.model._spread(self.model.unit[0], self.model.unit[1], 0.0)
            )
        if not 2.0 * self.model.leverage * left <= _CERTIFIED:
            return False
        left += self.model._spread(
            self.noise[0], self.noise[1] if self.two else 0.0, self.noise[2] if self.constant else 0.0
        )
        return 2.0 * self.model.leverage * left <= _ROUNDED
