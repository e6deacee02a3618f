# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""A logistic regression of few parameters that follows its data: Newton's method on sums kept at an anchor.

Symbols:

    η = A·u + B·v + C   the log-odds of a point with the features u, v; B or C may be absent (0)
    p = σ(η),  σ′ = p(1 − p),  σ⁽ᵏ⁾ the k-th derivative of σ
    anchor      the parameters (A₀, B₀, C₀) at which the sums are kept; η₀ the log-odds there
    f           the features of a point in units of their deviation, measured from their mean: (f₁, f₂, 1)
    d           the difference of the parameters from the anchor, in the coordinates of f: η − η₀ = f·d
    S_k         the sums Σ w σ⁽ᵏ⁾(η₀) f₁ⁱ f₂ʲ of all monomials up to degree k + 1; of S_0, of which p − y is summed in
                place of σ, the gradient alone
    H           the Hessian of the loss; ‖d‖ = √(dᵀHd), and ‖g‖* = √(gᵀH⁻¹g) the dual norm
    r           the largest |f·d| of all points;  ρ the largest √(fᵀH⁻¹f)

The gradient at the anchor plus d is Σ w (p − y) f, and its Taylor series in d, up to the order K,

    g(d) ≈ Σ_{k ≤ K} 1/k! Σ w σ⁽ᵏ⁾(η₀) (f·d)ᵏ f,

is a polynomial whose coefficients are the sums S_k. So a Newton step costs O(1), and so does a new point. The error is
known: the derivatives of a sigmoid are bounded by its first one, |σ⁽ᵏ⁾| ≤ c_k σ′, which in turn changes by no more than
the factor e^r (it is self-concordant). So what is left out of g has a dual norm of at most

    c_{K+1}/(K + 1)! · e^r r^K ‖d‖,

and where a gradient is left of the dual norm ε with ρε ≤ ½, no log-odds of a point is further than 2ρε from that at the
minimum (Bach 2010, Self-concordant analysis for logistic regression, Proposition 2). `fit` certifies this, with the
rounding of the sums; where it cannot, the sums are rebuilt at the parameters found, in one pass over the points.
"""

from __future__ import annotations

import math

import cython
import numpy as np
from cython.cimports.libc.math import exp, fabs, isfinite, log, pow, sqrt

if cython.compiled:
    from cython.cimports.streamcal.kernels.common.compensated import add_terms
    from cython.cimports.streamcal.kernels.newton.recent_logistic import RecentLogistic
    from cython.cimports.streamcal.kernels.newton.recent_points import RecentPoints
else:
    from streamcal.kernels.common.compensated import add_terms
    from streamcal.kernels.newton.recent_logistic import RecentLogistic
    from streamcal.kernels.newton.recent_points import RecentPoints

#: K, the number of powers of a feature, 0 to K + 1, and that of monomials of two features.
ORDER = 8
POWERS = ORDER + 2
MONOMIALS = POWERS * (POWERS + 1) // 2
#: c_{K+1}/(K + 1)!: σ⁽⁹⁾ is σ′ times a polynomial in σ′, which is from −24.4 to 31 for σ′ ≤ ¼.
REMAINDER = 31.0 / 362880.0
#: A fit is accepted where no log-odds of a point can differ by more than this from the minimum's.
CERTIFIED = 1e-10
#: A Newton step that changes no log-odds by more than this is the last: what is left is its square.
LAST_STEP = 1e-6
MAX_STEPS = 12
#: The largest r of parameters that the series is evaluated at.
FARTHEST = 1.0
#: What a point costs that is added to the sums of one feature, or of two, in visits of a point by a pass; and the most
#: times that this cost is waited for.
ANCHORING, ANCHORING_TWO, MOST_PATIENCE = 5, 15, 63
ROUNDING = 2.0**-52
#: The sums are rebuilt when they have taken in and given back this many times the weight, or the curvature, that is
#: left in them, or so many points: else rounding would add up.
MOST_HANDLED, MOST_CHANGES = 100.0, 100_000

_INFINITE = cython.declare(cython.double, np.inf)
_ORDER = cython.declare(cython.int, ORDER)
_POWERS = cython.declare(cython.int, POWERS)
_MONOMIALS = cython.declare(cython.int, MONOMIALS)
_REMAINDER = cython.declare(cython.double, REMAINDER)
_CERTIFIED = cython.declare(cython.double, CERTIFIED)
_LAST_STEP = cython.declare(cython.double, LAST_STEP)
_MAX_STEPS = cython.declare(cython.int, MAX_STEPS)
_ANCHORING = cython.declare(cython.longlong, ANCHORING)
_ANCHORING_TWO = cython.declare(cython.longlong, ANCHORING_TWO)
_MOST_PATIENCE = cython.declare(cython.longlong, MOST_PATIENCE)
_FARTHEST = cython.declare(cython.double, FARTHEST)
_ROUNDING = cython.declare(cython.double, ROUNDING)
_MOST_HANDLED = cython.declare(cython.double, MOST_HANDLED)
_MOST_CHANGES = cython.declare(cython.longlong, MOST_CHANGES)
#: Of a weight above 10¹⁶ the target would round to 1, which no finite parameters reach.
LARGEST_TARGET = math.nextafter(1.0, 0.0)
_LARGEST_TARGET = cython.declare(cython.double, LARGEST_TARGET)


@cython.ccall
@cython.nogil
@cython.exceptval(check=False)
def regularised_targets(negative: cython.double, positive: cython.double) -> tuple[cython.double, cython.double]:
    """Platt's t₊ and t₋ for these weights of the negative and of the positive labels."""
    return min((positive + 1.0) / (positive + 2.0), _LARGEST_TARGET), 1.0 / (negative + 2.0)


@cython.final
@cython.cclass
class AnchoredLogistic:
    """The points, in numbered slots, and the sums at the anchor.

    Even slots hold negative weight, odd ones positive. With `targets`, labels are t₊ and t₋ and there is no penalty;
    otherwise the penalty is ½·ridge·Σw·((A − 1)² + (B − 1)² + (C + ū(A − 1) + v̄(B − 1))²), ū and v̄ the means of the
    features, without the terms of parameters that are absent. The minimum is sought over A, B ≥ 0, and a fit refused
    where it has B = 0, or A = 0 beside B or a penalised C.
    """

    def __init__(self, size, two, constant, targets, ridge):
        self.two, self.constant, self.targets, self.ridge = two, constant, targets, ridge
        self.points = RecentPoints(size)
        self.passes = RecentLogistic(self.points, two, constant, targets, ridge)
        self.anchor, self.d, self.g, self.fitted = (np.zeros(3).data for _ in range(4))
        self.first, self.rest = np.zeros(3).data, np.zeros(3).data
        self.h, self.factor, self.total = np.zeros(9).data, np.zeros(9).data, np.zeros(6).data
        self.centre, self.unit = np.zeros(2).data, np.zeros(2).data
        self.sums, self.powers = np.zeros((ORDER + 1) * MONOMIALS).data, np.ones(2 * POWERS).data
        self.monomials = np.zeros(MONOMIALS).data
        self.terms, self.handled = np.zeros(ORDER + 1).data, np.zeros(2).data
        self.number = self.served = self.visited = self.first_held = self.compacted = self.patience = 0
        self.noise = self.left_out = 0.0
        self.anchored = False

    def weights(self):
        """Σ w of the negatives and of the positives."""
        return self.points.weight[0], self.points.weight[1]

    def parameters(self):
        """Return A, B and C of the last fit."""
        return self.fitted[0], self.fitted[1], self.fitted[2]

    def load(
        self,
        slots: cython.const[cython.Py_ssize_t][::1],
        u: cython.const[cython.double][::1],
        v: cython.const[cython.double][::1],
        w: cython.const[cython.double][::1],
    ):
        """Replace all points by these; `anchor_at` is to follow."""
        self.points.load(slots, u, v, w)
        self.served = self.visited = self.patience = 0
        self.anchored = False

    def replace(self, slot: cython.Py_ssize_t, u: cython.double, v: cython.double, w: cython.double):
        """Replace the point of a slot; weight 0 for none. O(1)."""
        self._replace(slot, u, v, w)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _replace(self, slot: cython.Py_ssize_t, u: cython.double, v: cython.double, w: cython.double) -> cython.void:
        i: cython.Py_ssize_t = self.points.place[slot]
        if not self.points._changes(slot, u, v, w):
            return
        if self.anchored and i >= self.first_held:
            self._add(i, -1.0)
        self.points._replace(slot, u, v, w)
        i = self.points.place[slot]
        if self.anchored and i >= 0:
            self._add(i, 1.0)

    def scale(self, factor: cython.double):
        """Multiply all weights by a power of two."""
        self._scale(factor)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _scale(self, factor: cython.double) -> cython.void:
        i: cython.Py_ssize_t
        self.points._scale(factor)
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
        self.left_out *= factor

    def anchor_at(self, a: cython.double, b: cython.double, c: cython.double):
        """Rebuild the sums at these parameters, in a pass over the points."""
        self._anchor_at(a, b, c, 0)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _anchor_at(self, a: cython.double, b: cython.double, c: cython.double, start: cython.Py_ssize_t) -> cython.void:
        """Make the sums of the points from the entry `start` on."""
        i: cython.Py_ssize_t
        self.anchor[0], self.anchor[1], self.anchor[2] = a, b, c
        self.fitted[0], self.fitted[1], self.fitted[2] = a, b, c
        for i in range(self.sums.shape[0]):
            self.sums[i] = 0.0
        for i in range(6):
            self.total[i] = 0.0
        for i in range(3):
            self.d[i] = self.first[i] = self.rest[i] = 0.0
        self.handled[0] = self.handled[1] = self.noise = 0.0
        self._measure(start)
        self.first_held, self.compacted = start, self.points.compacted
        self.left_out = self.points.upto[start - 1] if start > 0 else 0.0
        for i in range(start, self.points.end):
            if self.points.w[i] > 0.0:
                self._add(i, 1.0)
        self.number = 0
        self.anchored = True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _measure(self, start: cython.Py_ssize_t) -> cython.void:
        """Means, deviations and ranges of the features. Without a constant, features are measured from 0."""
        self.passes._measure(start)
        self.centre[0], self.centre[1] = self.passes.centre[0], self.passes.centre[1]
        self.unit[0], self.unit[1] = self.passes.unit[0], self.passes.unit[1]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _add(self, entry: cython.Py_ssize_t, sign: cython.double) -> cython.void:
        """Add the point of an entry to the sums (`sign` 1), or take it off (−1)."""
        i: cython.int
        j: cython.int
        k: cython.int
        at: cython.Py_ssize_t
        term: cython.double
        w: cython.double = sign * self.points.w[entry]
        f1: cython.double = (self.points.u[entry] - self.centre[0]) * self.unit[0]
        f2: cython.double = (self.points.v[entry] - self.centre[1]) * self.unit[1] if self.two else 0.0
        positive: cython.bint = self.points.slot[entry] & 1
        powers: cython.double[::1] = self.powers
        monomials: cython.double[::1] = self.monomials
        sums: cython.double[::1] = self.sums
        self._derive(entry, w, positive)
        for i in range(1, _POWERS):
            powers[i] = powers[i - 1] * f1
            powers[_POWERS + i] = powers[_POWERS + i - 1] * f2
        for i in range(_POWERS):
            at = self._degree(i)
            for j in range(i + 1 if self.two else 1):
                monomials[at + j] = powers[i - j] * powers[_POWERS + j]
        self.g[0], self.g[1], self.g[2] = self.terms[0] * f1, self.terms[0] * f2, self.terms[0]
        add_terms(self.first, self.rest, self.g, 3)
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

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _degree(self, i: cython.int) -> cython.int:
        """Return the place of the first monomial of degree i."""
        return i * (i + 1) // 2 if self.two else i

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _derive(self, entry: cython.Py_ssize_t, w: cython.double, positive: cython.bint) -> cython.void:
        """Set w (p − y), and w σ⁽ᵏ⁾ for k from 1, at the log-odds of a point at the anchor."""
        eta: cython.double = (
            self.anchor[0] * self.points.u[entry] + self.anchor[1] * self.points.v[entry] + self.anchor[2]
        )
        e: cython.double = exp(-fabs(eta))
        rare: cython.double = e / (1.0 + e)  # the smaller of p and 1 − p
        s: cython.double = rare / (1.0 + e)
        t: cython.double = (1.0 - e) / (1.0 + e)
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

    def fit(self, t_plus: cython.double, t_minus: cython.double) -> cython.bint:
        """Find the minimum for the points as they are; whether it is certified. `parameters()` are then those of it.

        O(1) from the sums, and a pass over the points each time that these have to be rebuilt. The two targets are
        read only by a fit with `targets`.
        """
        return self._fit(t_plus, t_minus)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _fit(self, t_plus: cython.double, t_minus: cython.double) -> cython.bint:
        if self.points.live == 0:
            return False
        if self.anchored and self.compacted != self.points.compacted and self.first_held > 0:
            self.anchored = False  # entries have moved
        if self.anchored and not self._worn():
            if self._flat(t_plus, t_minus):
                return True
            served: cython.bint = self._newton(t_plus, t_minus) and self._bound() <= _CERTIFIED
            if served and self.fitted[0] > 0.0 and (not self.two or self.fitted[1] > 0.0):
                self.served += 1
                return True
        if not self.passes._fit(t_plus, t_minus, self.fitted[0], self.fitted[1], self.fitted[2]):
            return False
        self.fitted[0], self.fitted[1], self.fitted[2] = (
            self.passes.fitted[0],
            self.passes.fitted[1],
            self.passes.fitted[2],
        )
        self._consider()
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _consider(self) -> cython.void:
        """Rebuild the sums if the last ones were worth it, or once passes over the points have cost as much.

        Each time that sums were not worth it doubles the cost that is waited for.
        """
        cost: cython.longlong
        start: cython.Py_ssize_t = self.passes._matters_from()
        cost = (_ANCHORING_TWO if self.two else _ANCHORING) * (self.points.end - start)
        if self.anchored:
            self.patience = (
                min(2 * self.patience + 1, _MOST_PATIENCE) if self.served * self.passes.visited < cost else 0
            )
            self.anchored = False
            self.visited = self.served = 0
        self.visited += self.passes.visited
        if self.visited >= cost * self.patience:
            self._anchor_at(self.fitted[0], self.fitted[1], self.fitted[2], start)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _worn(self) -> cython.bint:
        """Whether rounding may have added up in the sums."""
        curvature: cython.double = self.sums[_MONOMIALS + self._degree(2)]
        if self.two:
            curvature += self.sums[_MONOMIALS + self._degree(2) + 2]
        if self.constant:
            curvature += self.sums[_MONOMIALS]
        if self.number > _MOST_CHANGES or not self.handled[0] <= _MOST_HANDLED * (self.total[2] + self.total[5]):
            return True
        return not self.handled[1] <= _MOST_HANDLED * curvature

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _flat(self, t_plus: cython.double, t_minus: cython.double) -> cython.bint:
        """Whether A = 0 is the minimum, with one feature; sets the parameters then.

        With A = 0 the best constant is the log-odds of the mean label, or 0 where there is no constant. The loss is
        convex, so that it is the minimum exactly if the loss does not fall as A leaves 0.
        """
        total: cython.double[::1] = self.total
        weight: cython.double = total[2] + total[5]
        share: cython.double
        if self.two or (self.constant and not self.targets):
            return False
        if self.targets:
            share = (t_minus * total[2] + t_plus * total[5]) / weight
            if not (0.0 < share < 1.0) or t_minus * total[0] + t_plus * total[3] > share * (total[0] + total[3]):
                return False
            self.fitted[2] = log(share / (1.0 - share))
        else:
            if 0.5 * (total[0] - total[3]) < self.ridge * weight * self.unit[0]:
                return False
            self.fitted[2] = 0.0
        self.fitted[0] = self.fitted[1] = 0.0
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _newton(self, t_plus: cython.double, t_minus: cython.double) -> cython.bint:
        """Newton's method on the Taylor series, from the last d; sets the parameters. Whether it has converged."""
        i: cython.int
        _step: cython.int
        size: cython.double
        d: cython.double[::1] = self.d
        for _step in range(_MAX_STEPS):
            self._expand()
            self._complete(t_plus, t_minus)
            if not self._factorise():
                return False
            self._forward(self.g)
            size = sqrt(self.g[0] * self.g[0] + self.g[1] * self.g[1] + self.g[2] * self.g[2])
            self._backward(self.g)
            for i in range(3):
                d[i] -= self.g[i]
            if not isfinite(d[0] + d[1] + d[2]) or self._reach() > 2.0 * _FARTHEST:
                break
            if size * self._leverage() <= _LAST_STEP:
                self.fitted[0] = self.anchor[0] + d[0] * self.unit[0]
                self.fitted[1] = self.anchor[1] + d[1] * self.unit[1] if self.two else self.anchor[1]
                self.fitted[2] = self.anchor[2] + d[2]
                self.fitted[2] -= d[0] * self.unit[0] * self.centre[0] + d[1] * self.unit[1] * self.centre[1]
                if not self.constant:
                    self.fitted[2] = self.anchor[2]
                return True
        for i in range(3):
            d[i] = 0.0
        return False

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _expand(self) -> cython.void:
        """Set the gradient and the Hessian of the loss at d, by the Taylor series."""
        a: cython.int
        b: cython.int
        k: cython.int
        at: cython.Py_ssize_t
        c1: cython.double
        c2: cython.double
        c: cython.double
        zeroth: cython.int  # places of the monomials f₁ᵃ f₂ᵇ, and of those of one and of two degrees more
        first: cython.int
        second: cython.int
        tail: cython.double[9]
        sums: cython.double[::1] = self.sums
        g: cython.double[::1] = self.g
        h: cython.double[::1] = self.h
        for k in range(3):
            g[k] = self.first[k] + self.rest[k]
        for k in range(9):
            h[k] = 0.0
        if not cython.compiled:
            tail = [0.0] * 9
        tail[0] = 1.0
        for k in range(1, _ORDER + 1):
            tail[k] = tail[k - 1] * self.d[2] / k
        for k in range(_ORDER + 1):
            c1 = 1.0  # d₁ᵃ/a!
            for a in range(k + 1):
                c2 = c1
                for b in range((k - a if self.two else 0) + 1):
                    if self.constant or a + b == k:
                        c = c2 * tail[k - a - b]
                        at = k * _MONOMIALS + b
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
                    c2 = c2 * self.d[1] / (b + 1)
                c1 = c1 * self.d[0] / (a + 1)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _complete(self, t_plus: cython.double, t_minus: cython.double) -> cython.void:
        """Add the targets or the penalty to gradient and Hessian, and take out absent parameters."""
        i: cython.int
        scale: cython.double
        a: cython.double
        b: cython.double
        c: cython.double
        slope_a: cython.double
        slope_b: cython.double
        total: cython.double[::1] = self.total
        d: cython.double[::1] = self.d
        if self.targets:
            for i in range(3):
                self.g[i] += (1.0 - t_plus) * total[3 + i] - t_minus * total[i]
        else:
            scale = self.ridge * (total[2] + total[5])
            a = self.anchor[0] - 1.0 + d[0] * self.unit[0]
            b = self.anchor[1] - 1.0 + d[1] * self.unit[1] if self.two else 0.0
            self.g[0] += scale * a * self.unit[0]
            self.g[1] += scale * b * self.unit[1]
            self.h[0] += scale * self.unit[0] * self.unit[0]
            self.h[4] += scale * self.unit[1] * self.unit[1]
            if self.constant:
                # the mean of f₁ in units of the feature is ū − centre
                slope_a = (total[0] + total[3]) / (total[2] + total[5])
                slope_b = (total[1] + total[4]) / (total[2] + total[5]) if self.two else 0.0
                c = self.anchor[2] + d[2] + d[0] * slope_a + d[1] * slope_b
                c += (self.anchor[0] - 1.0) * (slope_a / self.unit[0] + self.centre[0])
                if self.two:
                    c += (self.anchor[1] - 1.0) * (slope_b / self.unit[1] + self.centre[1])
                self.g[0] += scale * c * slope_a
                self.g[1] += scale * c * slope_b
                self.g[2] += scale * c
                self.h[0] += scale * slope_a * slope_a
                self.h[3] += scale * slope_a * slope_b
                self.h[4] += scale * slope_b * slope_b
                self.h[6] += scale * slope_a
                self.h[7] += scale * slope_b
                self.h[8] += scale
        if not self.two:
            self.g[1], self.h[3], self.h[4], self.h[7] = 0.0, 0.0, 1.0, 0.0
        if not self.constant:
            self.g[2], self.h[6], self.h[7], self.h[8] = 0.0, 0.0, 0.0, 1.0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _factorise(self) -> cython.bint:
        """Set the Cholesky factor of the Hessian; return whether it is positive definite."""
        h: cython.double[::1] = self.h
        x: cython.double[::1] = self.factor
        if not h[0] > 0.0:
            return False
        x[0] = sqrt(h[0])
        x[3] = h[3] / x[0]
        x[6] = h[6] / x[0]
        x[4] = h[4] - x[3] * x[3]
        if not x[4] > 0.0:
            return False
        x[4] = sqrt(x[4])
        x[7] = (h[7] - x[6] * x[3]) / x[4]
        x[8] = h[8] - x[6] * x[6] - x[7] * x[7]
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
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _backward(self, x: cython.double[::1]) -> cython.void:
        """Replace x by L⁻ᵀx."""
        x[2] = x[2] / self.factor[8]
        x[1] = (x[1] - self.factor[7] * x[2]) / self.factor[4]
        x[0] = (x[0] - self.factor[3] * x[1] - self.factor[6] * x[2]) / self.factor[0]

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _corner(self, i: cython.int) -> cython.void:
        """Set g to f at a corner of a triangle that holds the features of all points.

        The features of `Beta` rise along a convex curve, which lies in the triangle of its two ends and of the corner
        below; without v the triangle is a line.
        """
        u: cython.double = self.points.low[0] if i == 0 else self.points.high[0]
        v: cython.double = self.points.high[1] if i == 1 else self.points.low[1]
        self.g[0] = (u - self.centre[0]) * self.unit[0]
        self.g[1] = (v - self.centre[1]) * self.unit[1] if self.two else 0.0
        self.g[2] = 1.0 if self.constant else 0.0

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _reach(self) -> cython.double:
        """Return r."""
        i: cython.int
        most: cython.double = 0.0
        for i in range(3 if self.two else 2):
            self._corner(i)
            most = max(most, fabs(self.g[0] * self.d[0] + self.g[1] * self.d[1] + self.g[2] * self.d[2]))
        return most

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _leverage(self) -> cython.double:
        """ρ."""
        i: cython.int
        most: cython.double = 0.0
        for i in range(3 if self.two else 2):
            self._corner(i)
            self._forward(self.g)
            most = max(most, self.g[0] * self.g[0] + self.g[1] * self.g[1] + self.g[2] * self.g[2])
        return sqrt(most)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _bound(self) -> cython.double:
        """Return the most that a point's log-odds may differ from those at the minimum; infinite if unknown."""
        i: cython.int
        reach: cython.double = self._reach()
        leverage: cython.double = self._leverage()
        length: cython.double = 0.0
        spread: cython.double = 0.0
        left: cython.double
        x: cython.double[::1] = self.factor
        length += (x[0] * self.d[0] + x[3] * self.d[1] + x[6] * self.d[2]) ** 2
        length += (x[4] * self.d[1] + x[7] * self.d[2]) ** 2 + (x[8] * self.d[2]) ** 2
        left = _REMAINDER * exp(reach) * pow(reach, _ORDER) * sqrt(length)
        for i in range(3):  # the rounding of S_0: each of its sums may be wrong by it
            if (i == 1 and not self.two) or (i == 2 and not self.constant):
                continue
            self.g[0], self.g[1], self.g[2] = 0.0, 0.0, 0.0
            self.g[i] = self.noise
            self._forward(self.g)
            spread += sqrt(self.g[0] * self.g[0] + self.g[1] * self.g[1] + self.g[2] * self.g[2])
        left += spread + leverage * self.left_out
        if not leverage * left <= 0.5:
            return _INFINITE
        # the last Newton step has left its square
        return 2.0 * leverage * left + _LAST_STEP * _LAST_STEP
