# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""A logistic regression of few parameters by Newton's method over the points that matter, the latest first.

Symbols are those of `anchored_logistic`, whose sums are of use where parameters move little. Under a short half-life
they move far with every label, and nearly all points weigh nothing. A pass reads the points in the order of their last
change (`recent_points`), from the first that matters to the last.

    θ           the parameters in the coordinates of f: η = θ₁f₁ + θ₂f₂ + θ₀, and A, B ≥ 0 is θ₁, θ₂ ≥ 0
    s           the step to the minimum of the quadratic model over the bounds
    ω           the weight of the points left out

After a step with ρ‖s‖ = r the gradient differs from that of the model, which fulfils the optimality conditions, by a
dual norm of at most (eʳ − 1)‖s‖; rounding and the points left out, whose gradients are at most ρ each per unit of
weight, add to it. Where that is ε with ρε ≤ ½, no log-odds of a point is further than 2ρε from that at the minimum:
Bach's bound (see `anchored_logistic`) is one on monotone gradients, and holds for a minimum over a convex set too.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.libc.math import exp, expm1, fabs, isfinite, sqrt

if cython.compiled:
    from cython.cimports.streamcal.kernels.newton.recent_points import RecentPoints
else:
    from streamcal.kernels.newton.recent_points import RecentPoints

#: A fit is accepted where no log-odds of a point can differ by more than this from the minimum's.
CERTIFIED = 1e-10
#: The same with the rounding of the sums, which a fit by other means has too: labels that are all but separated leave
#: a curvature of the size of the ridge, and magnify it.
ROUNDED = 1e-8
#: What the points left out may contribute.
LEFT_OUT = 1e-11
#: The share of the weight that is left out while parameters move far, and of means and deviations of the features.
#: A ridge of 1e-9 is measured at the mean: the second share changes its gradient by less than rounding does.
COARSE, MEASURED = 2.0**-20, 2.0**-60
#: A step with a smaller r ends the passes over the heavy points; and those over all.
COARSE_STEP, LAST_STEP = 1e-2, 1e-6
MAX_STEPS, MAX_TRIALS = 60, 12
#: A step changes no log-odds by more than this plus the largest one.
LONGEST_STEP = 5.0
#: A step is too long where the loss rises at its end by more than this share of its first fall.
RISE = 0.5
#: The points of a partial sum.
BLOCK = 64

_CERTIFIED = cython.declare(cython.double, CERTIFIED)
_ROUNDED = cython.declare(cython.double, ROUNDED)
_LEFT_OUT = cython.declare(cython.double, LEFT_OUT)
_COARSE = cython.declare(cython.double, COARSE)
_MEASURED = cython.declare(cython.double, MEASURED)
_COARSE_STEP = cython.declare(cython.double, COARSE_STEP)
_LAST_STEP = cython.declare(cython.double, LAST_STEP)
_MAX_STEPS = cython.declare(cython.int, MAX_STEPS)
_MAX_TRIALS = cython.declare(cython.int, MAX_TRIALS)
_LONGEST_STEP = cython.declare(cython.double, LONGEST_STEP)
_RISE = cython.declare(cython.double, RISE)
_BLOCK = cython.declare(cython.int, BLOCK)
_ROUNDING = cython.declare(cython.double, 2.0**-52)
_INFINITE = cython.declare(cython.double, np.inf)


@cython.final
@cython.cclass
class RecentLogistic:
    """A fit of points; the form is that of `AnchoredLogistic`."""

    def __init__(self, points: RecentPoints, two, constant, targets, ridge):
        self.two, self.constant, self.targets, self.ridge = two, constant, targets, ridge
        self.points = points
        self.centre, self.unit = np.zeros(2).data, np.ones(2).data
        self.theta, self.before, self.step, self.trial = (np.zeros(3).data for _ in range(4))
        self.g, self.noise, self.fitted = (np.zeros(3).data for _ in range(3))
        self.h, self.factor = np.zeros(9).data, np.zeros(9).data
        self.visited = 0
        self.total = self.leverage = self.size = 0.0

    def parameters(self):
        """Return A, B and C of the last fit."""
        return self.fitted[0], self.fitted[1], self.fitted[2]

    def fit(self, t_plus: cython.double, t_minus: cython.double, a: cython.double, b: cython.double, c: cython.double):
        """Find the minimum from these parameters; whether it is certified. `parameters()` are then those of it."""
        return self._fit(t_plus, t_minus, a, b, c)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _matters_from(self) -> cython.Py_ssize_t:
        """Return the first entry that matters to the last fit."""
        return self.points._above(0.1 * _LEFT_OUT / (self.leverage * self.leverage))

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _measure(self, start: cython.Py_ssize_t) -> cython.void:
        """Weight, means and deviations of the features. Without a constant, features are measured from 0."""
        i: cython.Py_ssize_t
        w: cython.double
        weight: cython.double = 0.0
        mean_u: cython.double = 0.0
        mean_v: cython.double = 0.0
        square_u: cython.double = 0.0
        square_v: cython.double = 0.0
        for i in range(start, self.points.end):
            w = self.points.w[i]
            weight += w
            mean_u += w * self.points.u[i]
            mean_v += w * self.points.v[i]
        self.total = weight
        self.centre[0] = mean_u / weight if self.constant and weight > 0.0 else 0.0
        self.centre[1] = mean_v / weight if self.constant and weight > 0.0 else 0.0
        for i in range(start, self.points.end):
            w = self.points.w[i]
            square_u += w * (self.points.u[i] - self.centre[0]) * (self.points.u[i] - self.centre[0])
            square_v += w * (self.points.v[i] - self.centre[1]) * (self.points.v[i] - self.centre[1])
        self.unit[0] = sqrt(weight / square_u) if square_u > 0.0 else 1.0
        self.unit[1] = sqrt(weight / square_v) if square_v > 0.0 else 1.0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _fit(
        self, t_plus: cython.double, t_minus: cython.double, a: cython.double, b: cython.double, c: cython.double
    ) -> cython.bint:
        start: cython.Py_ssize_t
        heavy: cython.Py_ssize_t
        left_out: cython.double
        weight: cython.double = self.points.weight[0] + self.points.weight[1]
        self.visited = 0
        if self.points.live == 0 or not (weight > 0.0 and isfinite(a + b + c)):
            return False
        self._measure(self.points._above(_MEASURED * weight))
        self.theta[0], self.theta[1] = max(a, 0.0) / self.unit[0], max(b, 0.0) / self.unit[1] if self.two else 0.0
        self.theta[2] = c + a * self.centre[0] + b * self.centre[1] if self.constant else 0.0
        heavy = self.points._above(_COARSE * weight)
        self.leverage = 0.0
        if heavy > 0 and not self._descend(heavy, t_plus, t_minus, _COARSE_STEP):
            return False
        start = heavy
        while True:  # the leverage is known from the pass over the heavy points, and checked after that over all
            start = (
                min(start, self.points._above(0.5 * _LEFT_OUT / (self.leverage * self.leverage))) if heavy > 0 else 0
            )
            if not self._descend(start, t_plus, t_minus, _LAST_STEP):
                return False
            left_out = self.points.upto[start - 1] if start > 0 else 0.0
            if start == 0 or 2.0 * self.leverage * self.leverage * left_out <= 2.0 * _LEFT_OUT:
                break
        self.fitted[0] = self.theta[0] * self.unit[0]
        self.fitted[1] = self.theta[1] * self.unit[1] if self.two else 0.0
        self.fitted[2] = self.theta[2] - self.fitted[0] * self.centre[0] - self.fitted[1] * self.centre[1]
        if not self.constant:
            self.fitted[2] = 0.0
        return self._certified(left_out)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _descend(
        self, start: cython.Py_ssize_t, t_plus: cython.double, t_minus: cython.double, last: cython.double
    ) -> cython.bint:
        """Take Newton steps over the points from `start` on, until r is at most `last`; whether that was reached."""
        i: cython.int
        _step: cython.int
        _trial: cython.int
        t: cython.double
        near: cython.double
        fall: cython.double
        before: cython.double
        rise: cython.double
        reach: cython.double
        self._pass(start, t_plus, t_minus)
        for _step in range(_MAX_STEPS):
            if not self._direction():
                return False
            for i in range(3):
                self.before[i] = self.theta[i]
            if self.leverage * self.size <= last:
                for i in range(3):
                    self.theta[i] = self.before[i] + self.step[i]
                return True
            fall = self.g[0] * self.step[0] + self.g[1] * self.step[1] + self.g[2] * self.step[2]
            reach = self._reach(self.step)
            t = min(1.0, (_LONGEST_STEP + self._reach(self.theta)) / reach)
            near, before = 0.0, fall
            for _trial in range(_MAX_TRIALS):
                for i in range(3):
                    self.theta[i] = self.before[i] + t * self.step[i]
                self._pass(start, t_plus, t_minus)
                rise = self.g[0] * self.step[0] + self.g[1] * self.step[1] + self.g[2] * self.step[2]
                if not isfinite(rise):
                    return False
                if rise <= -_RISE * fall:
                    break
                # the loss is convex: its minimum along the step is between `near` and t, where the slope is 0
                t = near + (t - near) * min(max(before / (before - rise), 0.1), 0.9)
        return False

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    @cython.locals(i=cython.Py_ssize_t, stop=cython.Py_ssize_t, k=cython.int)
    @cython.locals(w=cython.double, f1=cython.double, f2=cython.double, eta=cython.double, e=cython.double)
    @cython.locals(rare=cython.double, term=cython.double, curve=cython.double, blur=cython.double)
    @cython.locals(g0=cython.double, g1=cython.double, g2=cython.double, n0=cython.double, n1=cython.double)
    @cython.locals(n2=cython.double, h0=cython.double, h3=cython.double, h4=cython.double)
    @cython.locals(h6=cython.double, h7=cython.double, h8=cython.double)
    def _pass(self, start: cython.Py_ssize_t, t_plus: cython.double, t_minus: cython.double) -> cython.void:
        """Set the gradient and the Hessian of the loss at θ, over the points from `start` on."""
        g: cython.double[::1] = self.g
        h: cython.double[::1] = self.h
        noise: cython.double[::1] = self.noise
        u: cython.double[::1] = self.points.u
        v: cython.double[::1] = self.points.v
        weights: cython.double[::1] = self.points.w
        slots: cython.Py_ssize_t[::1] = self.points.slot
        c1: cython.double = self.centre[0]
        c2: cython.double = self.centre[1]
        s1: cython.double = self.unit[0]
        s2: cython.double = self.unit[1] if self.two else 0.0
        d1: cython.double = self.theta[0]
        d2: cython.double = self.theta[1]
        d0: cython.double = self.theta[2]
        down: cython.double = t_minus if self.targets else 0.0
        up: cython.double = 1.0 - t_plus if self.targets else 0.0
        n0 = n1 = n2 = h0 = h3 = h4 = h6 = h7 = h8 = 0.0
        for k in range(3):
            g[k] = noise[k] = 0.0
        self.visited += self.points.end - start
        while start < self.points.end:
            stop = min(start + _BLOCK, self.points.end)
            g0 = g1 = g2 = 0.0
            for i in range(start, stop):
                w = weights[i]
                if w == 0.0:
                    continue
                f1, f2 = (u[i] - c1) * s1, (v[i] - c2) * s2
                eta = d1 * f1 + d2 * f2 + d0
                e = exp(-fabs(eta))
                rare = e / (1.0 + e)  # the smaller of p and 1 − p
                curve = w * rare / (1.0 + e)
                if slots[i] & 1:
                    term = w * (up - (rare if eta > 0.0 else 1.0 / (1.0 + e)))
                else:
                    term = w * ((1.0 / (1.0 + e) if eta > 0.0 else rare) - down)
                g0, g1, g2 = g0 + term, g1 + term * f1, g2 + term * f2
                h0, h3, h4 = h0 + curve * f1 * f1, h3 + curve * f1 * f2, h4 + curve * f2 * f2
                h6, h7, h8 = h6 + curve * f1, h7 + curve * f2, h8 + curve
                # rounding: some places of a term and of its log-odds, and one of each partial sum
                blur = 4.0 * (fabs(term) + curve * (fabs(d1 * f1) + fabs(d2 * f2) + fabs(d0)))
                n0 += blur + fabs(g0)
                n1 += blur * fabs(f1) + fabs(g1)
                n2 += blur * fabs(f2) + fabs(g2)
            start = stop
            g[0] += g1
            g[1] += g2
            g[2] += g0
            for k in range(3):
                noise[k] += fabs(g[k])
        noise[0], noise[1], noise[2] = noise[0] + n1, noise[1] + n2, noise[2] + n0
        for k in range(3):
            noise[k] *= 0.5 * _ROUNDING
        h[0], h[3], h[4], h[6], h[7], h[8] = h0, h3, h4, h6, h7, h8
        self._complete(t_plus)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _complete(self, t_plus: cython.double) -> cython.void:
        """Add the penalty to gradient and Hessian, and take out absent parameters."""
        scale: cython.double = self.ridge * self.total
        unit: cython.double
        c: cython.double
        if not self.targets:
            unit = self.unit[0]
            self.g[0] += scale * (self.theta[0] * unit - 1.0) * unit
            self.h[0] += scale * unit * unit
            c = self.theta[2] - self.centre[0]
            if self.two:
                unit = self.unit[1]
                self.g[1] += scale * (self.theta[1] * unit - 1.0) * unit
                self.h[4] += scale * unit * unit
                c -= self.centre[1]
            if (
                self.constant
            ):  # features are measured from their means: θ₀ is the constant of the penalty, but for the 1
                self.g[2] += scale * c
                self.h[8] += scale
        if not self.two:
            self.g[1], self.h[3], self.h[4], self.h[7], self.noise[1] = 0.0, 0.0, 1.0, 0.0, 0.0
        if not self.constant:
            self.g[2], self.h[6], self.h[7], self.h[8], self.noise[2] = 0.0, 0.0, 0.0, 1.0, 0.0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _direction(self) -> cython.bint:
        """Set the step to the minimum of the model over the bounds, its size, and ρ; whether there is one."""
        i: cython.int
        face: cython.int
        value: cython.double
        best: cython.double = _INFINITE
        for face in range(4):
            if (face & 2 and not self.two) or not self._on_face(face & 1, face & 2):
                continue
            if self.theta[0] + self.trial[0] < 0.0 or (self.two and self.theta[1] + self.trial[1] < 0.0):
                continue
            value = self._model(self.trial)
            if value < best:
                best = value
                for i in range(3):
                    self.step[i] = self.trial[i]
            if face == 0:
                break
        if not isfinite(best) or not self._factorise():
            return False
        x: cython.double[::1] = self.factor
        s: cython.double[::1] = self.step
        value = (x[0] * s[0] + x[3] * s[1] + x[6] * s[2]) ** 2
        self.size = sqrt(value + (x[4] * s[1] + x[7] * s[2]) ** 2 + (x[8] * s[2]) ** 2)
        # ρ at the corners of a triangle that holds the features of all points (see `AnchoredLogistic`)
        value = 0.0
        for i in range(3 if self.two else 2):
            self.trial[0] = ((self.points.low[0] if i == 0 else self.points.high[0]) - self.centre[0]) * self.unit[0]
            self.trial[1] = ((self.points.high[1] if i == 1 else self.points.low[1]) - self.centre[1]) * self.unit[1]
            if not self.two:
                self.trial[1] = 0.0
            self.trial[2] = 1.0 if self.constant else 0.0
            self._forward(self.trial)
            value = max(value, self.trial[0] ** 2 + self.trial[1] ** 2 + self.trial[2] ** 2)
        self.leverage = sqrt(value)
        return self.leverage > 0.0 and isfinite(self.leverage)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _on_face(self, first: cython.bint, second: cython.bint) -> cython.bint:
        """Set `trial` to the minimum of the model with A = 0, B = 0 where this is asked; whether there is one."""
        i: cython.int
        j: cython.int
        h: cython.double[::1] = self.h
        x: cython.double[::1] = self.factor
        s: cython.double[::1] = self.trial
        f: cython.double[3]
        if not cython.compiled:
            f = [0.0] * 3
        f[0] = -self.theta[0] if first else 0.0
        f[1] = -self.theta[1] if second else 0.0
        s[0] = f[0] if first else -(self.g[0] + h[3] * f[1])
        s[1] = f[1] if second else -(self.g[1] + h[3] * f[0])
        s[2] = -(self.g[2] + h[6] * f[0] + h[7] * f[1])
        for i in range(3):
            for j in range(i + 1):
                x[3 * i + j] = h[3 * i + j]
        if first:
            x[0], x[3], x[6] = 1.0, 0.0, 0.0
        if second:
            x[4], x[3], x[7] = 1.0, 0.0, 0.0
        if not self._factors():
            return False
        self._forward(s)
        s[2] = s[2] / x[8]
        s[1] = (s[1] - x[7] * s[2]) / x[4]
        s[0] = (s[0] - x[3] * s[1] - x[6] * s[2]) / x[0]
        if first:
            s[0] = f[0]
        if second:
            s[1] = f[1]
        return isfinite(s[0] + s[1] + s[2])

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _model(self, x: cython.double[::1]) -> cython.double:
        """Return the change of the quadratic model by a step."""
        h: cython.double[::1] = self.h
        value: cython.double = self.g[0] * x[0] + self.g[1] * x[1] + self.g[2] * x[2]
        value += 0.5 * (h[0] * x[0] * x[0] + h[4] * x[1] * x[1] + h[8] * x[2] * x[2])
        return value + h[3] * x[0] * x[1] + h[6] * x[0] * x[2] + h[7] * x[1] * x[2]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _factorise(self) -> cython.bint:
        """Set the Cholesky factor of the Hessian; return whether it is positive definite."""
        i: cython.int
        for i in range(9):
            self.factor[i] = self.h[i]
        return self._factors()

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _factors(self) -> cython.bint:
        """Replace the matrix in `factor` by its Cholesky factor; return whether it is positive definite."""
        x: cython.double[::1] = self.factor
        if not x[0] > 0.0:
            return False
        x[0] = sqrt(x[0])
        x[3] = x[3] / x[0]
        x[6] = x[6] / x[0]
        x[4] = x[4] - x[3] * x[3]
        if not x[4] > 0.0:
            return False
        x[4] = sqrt(x[4])
        x[7] = (x[7] - x[6] * x[3]) / x[4]
        x[8] = x[8] - x[6] * x[6] - x[7] * x[7]
        if not x[8] > 0.0:
            return False
        x[8] = sqrt(x[8])
        return isfinite(x[8])

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _forward(self, x: cython.double[::1]) -> cython.void:
        """Replace x by L⁻¹x, whose Euclidean norm is the dual norm of x."""
        x[0] = x[0] / self.factor[0]
        x[1] = (x[1] - self.factor[3] * x[0]) / self.factor[4]
        x[2] = (x[2] - self.factor[6] * x[0] - self.factor[7] * x[1]) / self.factor[8]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _reach(self, x: cython.double[::1]) -> cython.double:
        """Return the largest |f·x|, at a corner of the triangle."""
        i: cython.int
        u: cython.double
        v: cython.double
        most: cython.double = 0.0
        for i in range(3 if self.two else 2):
            u = ((self.points.low[0] if i == 0 else self.points.high[0]) - self.centre[0]) * self.unit[0]
            v = ((self.points.high[1] if i == 1 else self.points.low[1]) - self.centre[1]) * self.unit[1]
            most = max(most, fabs(u * x[0] + (v * x[1] if self.two else 0.0) + x[2]))
        return most

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _certified(self, left_out: cython.double) -> cython.bint:
        """Whether the log-odds of all points are those at the minimum, but for what is accepted."""
        i: cython.int
        left: cython.double = expm1(self.leverage * self.size) * self.size + self.leverage * left_out
        if not 2.0 * self.leverage * left <= _CERTIFIED:
            return False
        for i in range(3):
            if self.noise[i] > 0.0:
                self.trial[0] = self.trial[1] = self.trial[2] = 0.0
                self.trial[i] = self.noise[i]
                self._forward(self.trial)
                left += sqrt(self.trial[0] ** 2 + self.trial[1] ** 2 + self.trial[2] ** 2)
        return 2.0 * self.leverage * left <= _ROUNDED
