# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The quadratic model of a logistic loss of few parameters, and its minimum over the bounds.

Symbols are those of `anchored_logistic`. The kernels that sum the loss, in passes over points or by a Taylor series,
write its gradient and Hessian here; the penalty, the Newton step and the norms of certificates are the same for all.

    θ           the parameters in the coordinates of f: η = θ₁f₁ + θ₂f₂ + θ₀, and A, B ≥ 0 is θ₁, θ₂ ≥ 0
    s           the step to the minimum of the model over the bounds
    T           Σ w σ″ (f·s)² f, twice what the gradient at θ + s has beyond the model, to second order
    s′          the step bent by −½H⁻¹T, where no bound is active; s where one is

The gradient at θ + s′ would be 0 if it had no terms beyond T, and if T were that of s′. Since |σ″| ≤ σ′ and |σ‴| ≤ σ′,
and σ′ changes by no more than eʳ, it has a dual norm of at most

    ½ρ(‖s‖ + ‖s′‖)‖s′ − s‖ + ⅙ eʳ r²‖s′‖,   r = ρ‖s′‖,

or (eʳ − 1)‖s‖ without bending, beyond what fulfils the optimality conditions: this is `left`.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.libc.math import exp, expm1, fabs, isfinite, sqrt
from cython.cimports.streamcal.kernels.newton.recent_points import RecentPoints

#: A step with a larger r is not bent.
_MOST_BENT = cython.declare(cython.double, 0.5)
_INFINITE = cython.declare(cython.double, np.inf)


class QuadraticModel:
    """Gradient and Hessian at θ in units of 1 / deviation. Fields are declared in `quadratic_model.pxd`."""

    def __init__(self, points: RecentPoints, two, constant, targets, ridge):
        self.points = points
        self.two, self.constant, self.targets, self.ridge = two, constant, targets, ridge
        self.centre, self.unit = np.zeros(2).data, np.ones(2).data
        self.theta, self.step, self.trial, self.g = (np.zeros(3).data for _ in range(4))
        self.h, self.factor = np.zeros(9).data, np.zeros(9).data
        self.curve = np.zeros(3).data
        self.size = self.leverage = self.left = 0.0
        self.bounded = False

    @cython.locals(i=cython.Py_ssize_t, w=cython.double, weight=cython.double, mean_u=cython.double)
    @cython.locals(mean_v=cython.double, square_u=cython.double, square_v=cython.double)
    def _measure(
        self,
        u: cython.double[::1],
        v: cython.double[::1],
        negative: cython.double[::1],
        positive: cython.double[::1],
        start: cython.Py_ssize_t,
        stop: cython.Py_ssize_t,
    ) -> cython.double:
        """Set centre and unit by the means and deviations of points; return their weight. No constant: centre 0."""
        weight = mean_u = mean_v = square_u = square_v = 0.0
        for i in range(start, stop):
            w = negative[i] + positive[i]
            weight += w
            mean_u += w * u[i]
            mean_v += w * v[i]
        mean_u = mean_u / weight if self.constant and weight > 0.0 else 0.0
        mean_v = mean_v / weight if self.constant and weight > 0.0 else 0.0
        for i in range(start, stop):
            w = negative[i] + positive[i]
            square_u += w * (u[i] - mean_u) * (u[i] - mean_u)
            square_v += w * (v[i] - mean_v) * (v[i] - mean_v)
        self.centre[0], self.centre[1] = mean_u, mean_v
        self.unit[0] = sqrt(weight / square_u) if square_u > 0.0 else 1.0
        self.unit[1] = sqrt(weight / square_v) if square_v > 0.0 else 1.0
        return weight

    def _start(self, a: cython.double, b: cython.double, c: cython.double) -> cython.void:
        """Set θ to these parameters, within the bounds."""
        self.theta[0] = max(a, 0.0) / self.unit[0]
        self.theta[1] = max(b, 0.0) / self.unit[1] if self.two else 0.0
        self.theta[2] = c + a * self.centre[0] + (b * self.centre[1] if self.two else 0.0) if self.constant else 0.0

    def _write(self, fitted: cython.double[::1]) -> cython.void:
        """Write A, B and C at θ."""
        fitted[0] = self.theta[0] * self.unit[0]
        fitted[1] = self.theta[1] * self.unit[1] if self.two else 0.0
        fitted[2] = self.theta[2] - fitted[0] * self.centre[0] - fitted[1] * self.centre[1] if self.constant else 0.0

    @cython.locals(scale=cython.double, first=cython.double, second=cython.double, c=cython.double)
    def _penalise(self, weight: cython.double, mean_1: cython.double, mean_2: cython.double) -> cython.void:
        """Add the penalty to gradient and Hessian, for the weight of all points and the means of f₁ and f₂."""
        g: cython.double[::1] = self.g
        h: cython.double[::1] = self.h
        scale = self.ridge * weight
        first, second = self.theta[0] - 1.0 / self.unit[0], self.theta[1] - 1.0 / self.unit[1]
        g[0] += scale * first * self.unit[0] * self.unit[0]
        h[0] += scale * self.unit[0] * self.unit[0]
        if self.two:
            g[1] += scale * second * self.unit[1] * self.unit[1]
            h[4] += scale * self.unit[1] * self.unit[1]
        if self.constant:  # C + ū(A − 1) + v̄(B − 1), with ū − centre the mean of f₁ in units of the feature
            c = self.theta[2] - self.centre[0] + first * mean_1
            if self.two:
                c += second * mean_2 - self.centre[1]
            g[0] += scale * c * mean_1
            g[1] += scale * c * mean_2
            g[2] += scale * c
            h[0] += scale * mean_1 * mean_1
            h[3] += scale * mean_1 * mean_2
            h[4] += scale * mean_2 * mean_2
            h[6] += scale * mean_1
            h[7] += scale * mean_2
            h[8] += scale

    def _take_out(self) -> cython.void:
        """Take absent parameters out of gradient and Hessian."""
        if not self.two:
            self.g[1], self.h[3], self.h[4], self.h[7] = 0.0, 0.0, 1.0, 0.0
        if not self.constant:
            self.g[2], self.h[6], self.h[7], self.h[8] = 0.0, 0.0, 0.0, 1.0

    @cython.locals(i=cython.int, face=cython.int, value=cython.double, best=cython.double)
    def _find_step(self) -> cython.bint:
        """Set the step to the minimum over the bounds, its size ‖s‖, ρ and `left`; whether there is one."""
        best = _INFINITE
        for face in range(4):
            if (face & 2 and not self.two) or not self._on_face(face & 1, face & 2):
                continue
            if self.theta[0] + self.trial[0] < 0.0 or (self.two and self.theta[1] + self.trial[1] < 0.0):
                continue
            value = self._change(self.trial) if face > 0 else 0.0
            if value < best:
                best = value
                for i in range(3):
                    self.step[i] = self.trial[i]
            if face == 0:
                break
        if not isfinite(best):
            return False
        if face > 0:
            for i in range(9):
                self.factor[i] = self.h[i]
            if not self._factorise():
                return False
        self.size = self._length(self.step)
        self.leverage, self.bounded = self._find_leverage(), face > 0
        self.left = expm1(min(self.leverage * self.size, 1.0)) * self.size
        return self.leverage > 0.0 and isfinite(self.leverage)

    def _bends(self, last: cython.double) -> cython.bint:
        """Return whether bending is possible, and of use where a step with a smaller r than `last` is the last one."""
        return not self.bounded and last < self.leverage * self.size <= _MOST_BENT

    @cython.locals(i=cython.Py_ssize_t, f1=cython.double, f2=cython.double, change=cython.double, term=cython.double)
    @cython.locals(t0=cython.double, t1=cython.double, t2=cython.double, s0=cython.double, s1=cython.double)
    @cython.locals(s2=cython.double)
    def _find_curve(
        self,
        u: cython.double[::1],
        v: cython.double[::1],
        third: cython.double[::1],
        start: cython.Py_ssize_t,
        stop: cython.Py_ssize_t,
    ) -> cython.void:
        """Set T of the step, from the w σ″ of points."""
        c1: cython.double = self.centre[0]
        c2: cython.double = self.centre[1]
        unit_1: cython.double = self.unit[0]
        unit_2: cython.double = self.unit[1] if self.two else 0.0
        s1, s2, s0 = self.step[0], self.step[1], self.step[2]
        t0 = t1 = t2 = 0.0
        for i in range(start, stop):
            f1, f2 = (u[i] - c1) * unit_1, (v[i] - c2) * unit_2
            change = s1 * f1 + s2 * f2 + s0
            term = third[i] * change * change
            t0, t1, t2 = t0 + term, t1 + term * f1, t2 + term * f2
        self.curve[0], self.curve[1], self.curve[2] = t1, t2, t0 if self.constant else 0.0

    @cython.locals(i=cython.int, by=cython.double, size=cython.double)
    def _bend(self) -> cython.void:
        """Bend the step by T, which is in `curve`, unless that leaves the bounds."""
        for i in range(3):
            self.trial[i] = -0.5 * self.curve[i]
        by = self._forward(self.trial)
        self._backward(self.trial)
        for i in range(2):
            if self.theta[i] + self.step[i] + self.trial[i] < 0.0:
                return
        for i in range(3):
            self.step[i] += self.trial[i]
        size, self.size = self.size, self._length(self.step)
        self.left = 0.5 * self.leverage * (size + self.size) * by
        size = self.leverage * self.size
        self.left += exp(min(size, 1.0)) * size * size * self.size / 6.0

    @cython.locals(i=cython.int, j=cython.int, to_first=cython.double, to_second=cython.double)
    def _on_face(self, first: cython.bint, second: cython.bint) -> cython.bint:
        """Set `trial` to the minimum with A = 0, B = 0 where this is asked; whether there is one."""
        h: cython.double[::1] = self.h
        x: cython.double[::1] = self.factor
        s: cython.double[::1] = self.trial
        to_first = -self.theta[0] if first else 0.0
        to_second = -self.theta[1] if second else 0.0
        s[0] = to_first if first else -(self.g[0] + h[3] * to_second)
        s[1] = to_second if second else -(self.g[1] + h[3] * to_first)
        s[2] = -(self.g[2] + h[6] * to_first + h[7] * to_second)
        for i in range(3):
            for j in range(i + 1):
                x[3 * i + j] = h[3 * i + j]
        if first:
            x[0], x[3], x[6] = 1.0, 0.0, 0.0
        if second:
            x[4], x[3], x[7] = 1.0, 0.0, 0.0
        if not self._factorise():
            return False
        self._forward(s)
        self._backward(s)
        if first:
            s[0] = to_first
        if second:
            s[1] = to_second
        return isfinite(s[0] + s[1] + s[2])

    @cython.locals(value=cython.double)
    def _change(self, x: cython.double[::1]) -> cython.double:
        """Return the change of the model by a step."""
        h: cython.double[::1] = self.h
        value = self.g[0] * x[0] + self.g[1] * x[1] + self.g[2] * x[2]
        value += 0.5 * (h[0] * x[0] * x[0] + h[4] * x[1] * x[1] + h[8] * x[2] * x[2])
        return value + h[3] * x[0] * x[1] + h[6] * x[0] * x[2] + h[7] * x[1] * x[2]

    def _factorise(self) -> cython.bint:
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

    def _forward(self, x: cython.double[::1]) -> cython.double:
        """Replace x by L⁻¹x, and return its Euclidean norm, the dual norm of x."""
        x[0] = x[0] / self.factor[0]
        x[1] = (x[1] - self.factor[3] * x[0]) / self.factor[4]
        x[2] = (x[2] - self.factor[6] * x[0] - self.factor[7] * x[1]) / self.factor[8]
        return sqrt(x[0] * x[0] + x[1] * x[1] + x[2] * x[2])

    def _backward(self, x: cython.double[::1]) -> cython.void:
        """Replace x by L⁻ᵀx."""
        x[2] = x[2] / self.factor[8]
        x[1] = (x[1] - self.factor[7] * x[2]) / self.factor[4]
        x[0] = (x[0] - self.factor[3] * x[1] - self.factor[6] * x[2]) / self.factor[0]

    def _length(self, x: cython.double[::1]) -> cython.double:
        """Return ‖x‖ = |Lᵀx|."""
        f: cython.double[::1] = self.factor
        return sqrt(
            (f[0] * x[0] + f[3] * x[1] + f[6] * x[2]) ** 2 + (f[4] * x[1] + f[7] * x[2]) ** 2 + (f[8] * x[2]) ** 2
        )

    @cython.locals(i=cython.int, total=cython.double)
    def _spread(self, x: cython.double, y: cython.double, z: cython.double) -> cython.double:
        """Return a bound on the dual norm of a vector whose entries are at most these in size."""
        total = 0.0
        for i in range(3):
            self.trial[0] = self.trial[1] = self.trial[2] = 0.0
            self.trial[i] = x if i == 0 else y if i == 1 else z
            if self.trial[i] > 0.0:
                total += self._forward(self.trial)
        return total

    @cython.locals(u=cython.double, v=cython.double)
    def _set_corner(self, i: cython.int) -> cython.void:
        """Set `trial` to f at a corner of a triangle that holds the features of all points.

        The features of `Beta` rise along a convex curve, which lies in the triangle of its two ends and of the corner
        below; without v the triangle is a line.
        """
        u = self.points.low[0] if i == 0 else self.points.high[0]
        v = self.points.high[1] if i == 1 else self.points.low[1]
        self.trial[0] = (u - self.centre[0]) * self.unit[0]
        self.trial[1] = (v - self.centre[1]) * self.unit[1] if self.two else 0.0
        self.trial[2] = 1.0 if self.constant else 0.0

    @cython.locals(i=cython.int, most=cython.double)
    def _find_leverage(self) -> cython.double:
        """Return ρ."""
        most = 0.0
        for i in range(3 if self.two else 2):
            self._set_corner(i)
            most = max(most, self._forward(self.trial))
        return most

    @cython.locals(i=cython.int, most=cython.double)
    def _reach(self, x: cython.double[::1]) -> cython.double:
        """Return the largest |f·x|."""
        most = 0.0
        for i in range(3 if self.two else 2):
            self._set_corner(i)
            most = max(most, fabs(self.trial[0] * x[0] + self.trial[1] * x[1] + self.trial[2] * x[2]))
        return most
