# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The Taylor series of the gradient of a logistic loss at an anchor, as sums over its points.

Symbols are those of `anchored_logistic`.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.libc.math import exp, fabs
from cython.cimports.streamcal.kernels.common.compensated import add_terms
from cython.cimports.streamcal.kernels.newton.quadratic_model import QuadraticModel

#: K, the number of powers of a feature, 0 to K + 1, and that of monomials of two features.
ORDER = 8
_POWERS = cython.declare(cython.int, ORDER + 2)
_MONOMIALS = cython.declare(cython.int, _POWERS * (_POWERS + 1) // 2)
#: The sums are recomputed once the weight, or the curvature, added and removed exceeds `_MOST_HANDLED` times what they
#: contain, or after `_MOST_CHANGES` points: otherwise rounding adds up.
_MOST_HANDLED = cython.declare(cython.double, 100.0)
_MOST_CHANGES = cython.declare(cython.longlong, 100_000)

_ORDER = cython.declare(cython.int, ORDER)
_ROUNDING = cython.declare(cython.double, 2.0**-52)


class TaylorSums:
    """The sums of points at an anchor, in the units of `model`. Fields are declared in `taylor_sums.pxd`."""

    def __init__(self, model: QuadraticModel, two, constant):
        self.model, self.two, self.constant = model, two, constant
        self.anchor, self.origin, self.first, self.rest, self.f = (np.zeros(3).data for _ in range(5))
        self.total = np.zeros(6).data
        self.sums, self.powers = np.zeros((ORDER + 1) * _MONOMIALS).data, np.ones(2 * _POWERS).data
        self.monomials = np.zeros(_MONOMIALS).data
        self.terms, self.handled = np.zeros(ORDER + 1).data, np.zeros(2).data
        self.number, self.noise = 0, 0.0

    @cython.locals(i=cython.Py_ssize_t)
    def _clear(self, a: cython.double, b: cython.double, c: cython.double) -> cython.void:
        """Begin at these parameters, which θ is set to, with no points. The model has measured the features."""
        self.anchor[0], self.anchor[1], self.anchor[2] = a, b, c
        self.model._start(a, b, c)
        for i in range(self.sums.shape[0]):
            self.sums[i] = 0.0
        for i in range(6):
            self.total[i] = 0.0
        for i in range(3):
            self.origin[i] = self.model.theta[i]
            self.first[i] = self.rest[i] = 0.0
        self.handled[0] = self.handled[1] = self.noise = 0.0
        self.number = 0

    @cython.locals(i=cython.Py_ssize_t)
    def _scale(self, factor: cython.double) -> cython.void:
        """Multiply all weights by a power of two."""
        for i in range(self.sums.shape[0]):
            self.sums[i] *= factor
        for i in range(6):
            self.total[i] *= factor
        for i in range(3):
            self.first[i] *= factor
            self.rest[i] *= factor
        self.handled[0] *= factor
        self.handled[1] *= factor
        self.noise *= factor

    @cython.locals(i=cython.int, j=cython.int, k=cython.int, at=cython.Py_ssize_t, term=cython.double)
    @cython.locals(f1=cython.double, f2=cython.double)
    def _add(self, u: cython.double, v: cython.double, w: cython.double, positive: cython.bint) -> cython.void:
        """Add a point of weight w, or take one off: w < 0."""
        powers: cython.double[::1] = self.powers
        monomials: cython.double[::1] = self.monomials
        sums: cython.double[::1] = self.sums
        f1 = (u - self.model.centre[0]) * self.model.unit[0]
        f2 = (v - self.model.centre[1]) * self.model.unit[1] if self.two else 0.0
        self._derive(self.anchor[0] * u + self.anchor[1] * v + self.anchor[2], w, positive)
        for i in range(1, _POWERS):
            powers[i] = powers[i - 1] * f1
            powers[_POWERS + i] = powers[_POWERS + i - 1] * f2
        for i in range(_POWERS):
            at = self._degree(i)
            for j in range(i + 1 if self.two else 1):
                monomials[at + j] = powers[i - j] * powers[_POWERS + j]
        self.f[0], self.f[1], self.f[2] = self.terms[0] * f1, self.terms[0] * f2, self.terms[0]
        add_terms(self.first, self.rest, self.f, 3)
        for k in range(1, _ORDER + 1):
            term = self.terms[k]
            at = k * _MONOMIALS
            for i in range(0 if self.constant else self._degree(k + 1), self._degree(k + 2)):
                sums[at + i] += term * monomials[i]
        at = 3 if positive else 0
        self.total[at] += w * f1
        self.total[at + 1] += w * f2
        self.total[at + 2] += w
        self.number += 1
        self.handled[0] += fabs(w)
        self.handled[1] += fabs(self.terms[1]) * ((1.0 if self.constant else 0.0) + f1 * f1 + f2 * f2)
        self.noise += _ROUNDING * fabs(self.terms[0]) * (1.0 + fabs(f1) + fabs(f2))

    def _degree(self, i: cython.int) -> cython.int:
        """Return the place of the first monomial of degree i."""
        return i * (i + 1) // 2 if self.two else i

    @cython.locals(e=cython.double, rare=cython.double, s=cython.double, t=cython.double)
    def _derive(self, eta: cython.double, w: cython.double, positive: cython.bint) -> cython.void:
        """Set w (p − y), and w σ⁽ᵏ⁾ for k from 1, at the log-odds of a point at the anchor."""
        e = exp(-fabs(eta))
        rare = e / (1.0 + e)  # the smaller of p and 1 − p
        s = rare / (1.0 + e)
        t = (1.0 - e) / (1.0 + e)
        if eta > 0.0:
            t = -t
        if positive:
            self.terms[0] = -w * (rare if eta > 0.0 else 1.0 / (1.0 + e))
        else:
            self.terms[0] = w * (1.0 / (1.0 + e) if eta > 0.0 else rare)
        w = w * s
        self.terms[1] = w
        self.terms[2] = w * t
        self.terms[3] = w * (1.0 - 6.0 * s)
        self.terms[4] = w * t * (1.0 - 12.0 * s)
        self.terms[5] = w * (1.0 + s * (-30.0 + 120.0 * s))
        self.terms[6] = w * t * (1.0 + s * (-60.0 + 360.0 * s))
        self.terms[7] = w * (1.0 + s * (-126.0 + s * (1680.0 - 5040.0 * s)))
        self.terms[8] = w * t * (1.0 + s * (-252.0 + s * (5040.0 - 20160.0 * s)))

    @cython.locals(curvature=cython.double)
    def _worn(self) -> cython.bint:
        """Return whether rounding may have added up."""
        curvature = self.sums[_MONOMIALS + self._degree(2)]
        if self.two:
            curvature += self.sums[_MONOMIALS + self._degree(2) + 2]
        if self.constant:
            curvature += self.sums[_MONOMIALS]
        if self.number > _MOST_CHANGES or not self.handled[0] <= _MOST_HANDLED * (self.total[2] + self.total[5]):
            return True
        return not self.handled[1] <= _MOST_HANDLED * curvature

    @cython.locals(a=cython.int, b=cython.int, k=cython.int, at=cython.Py_ssize_t)
    @cython.locals(c1=cython.double, c2=cython.double, c=cython.double)
    @cython.locals(zeroth=cython.int, first=cython.int, second=cython.int)
    def _expand(self, d: cython.double[::1]) -> cython.void:
        """Write gradient and Hessian of the loss at the anchor plus d to the model."""
        tail: cython.double[9]
        sums: cython.double[::1] = self.sums
        g: cython.double[::1] = self.model.g
        h: cython.double[::1] = self.model.h
        for k in range(3):
            g[k] = self.first[k] + self.rest[k]
        for k in range(9):
            h[k] = 0.0
        if not cython.compiled:
            tail = [0.0] * 9
        tail[0] = 1.0
        for k in range(1, _ORDER + 1):
            tail[k] = tail[k - 1] * d[2] / k
        for k in range(_ORDER + 1):
            c1 = 1.0  # d₁ᵃ/a!
            for a in range(k + 1):
                c2 = c1
                for b in range((k - a if self.two else 0) + 1):
                    if self.constant or a + b == k:
                        c = c2 * tail[k - a - b]
                        at = k * _MONOMIALS + b
                        # places of the monomials f₁ᵃ f₂ᵇ, and of those of one and of two degrees more
                        zeroth, first, second = self._degree(a + b), self._degree(a + b + 1), self._degree(a + b + 2)
                        if k > 0:
                            g[0] += c * sums[at + first]
                            g[2] += c * sums[at + zeroth]
                            if self.two:
                                g[1] += c * sums[at + first + 1]
                        if k < _ORDER:
                            at += _MONOMIALS
                            h[0] += c * sums[at + second]
                            h[6] += c * sums[at + first]
                            h[8] += c * sums[at + zeroth]
                            if self.two:
                                h[3] += c * sums[at + second + 1]
                                h[4] += c * sums[at + second + 2]
                                h[7] += c * sums[at + first + 1]
                    c2 = c2 * d[1] / (b + 1)
                c1 = c1 * d[0] / (a + 1)

    @cython.locals(i=cython.int, weight=cython.double)
    def _complete(self, t_plus: cython.double, t_minus: cython.double) -> cython.void:
        """Add the targets or the penalty to gradient and Hessian, and take out absent parameters."""
        total: cython.double[::1] = self.total
        if self.model.targets:
            for i in range(3):
                self.model.g[i] += (1.0 - t_plus) * total[3 + i] - t_minus * total[i]
        else:
            weight = total[2] + total[5]
            self.model._penalise(weight, (total[0] + total[3]) / weight, (total[1] + total[4]) / weight)
        self.model._take_out()
