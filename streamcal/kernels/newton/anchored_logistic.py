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
rounding of the sums; where it cannot, it finds the parameters by passes over the points (`recent_logistic`), and
rebuilds the sums there if they were of use.
"""

from __future__ import annotations

import math

import cython
import numpy as np
from cython.cimports.libc.math import exp, pow
from cython.cimports.streamcal.kernels.newton.quadratic_model import QuadraticModel
from cython.cimports.streamcal.kernels.newton.recent_logistic import RecentLogistic
from cython.cimports.streamcal.kernels.newton.recent_points import RecentPoints
from cython.cimports.streamcal.kernels.newton.taylor_sums import TaylorSums

from streamcal.kernels.newton.recent_logistic import CERTIFIED, LAST_STEP
from streamcal.kernels.newton.taylor_sums import ORDER

#: c_{K+1}/(K + 1)!: σ⁽⁹⁾ is σ′ times a polynomial in σ′, which is from −24.4 to 31 for σ′ ≤ ¼.
_REMAINDER = cython.declare(cython.double, 31.0 / 362880.0)
_MAX_STEPS = cython.declare(cython.int, 12)
#: The largest r of parameters that the series is evaluated at.
_FARTHEST = cython.declare(cython.double, 1.0)
#: Cost of adding a point to the sums of one feature, or of two, in visits of a point by a pass.
_ANCHORING = cython.declare(cython.longlong, 5)
_ANCHORING_TWO = cython.declare(cython.longlong, 15)
#: The anchor moves once passes have cost at most this many times as much.
_MOST_PATIENCE = cython.declare(cython.longlong, 63)

_ORDER = cython.declare(cython.int, ORDER)
_CERTIFIED = cython.declare(cython.double, CERTIFIED)
_LAST_STEP = cython.declare(cython.double, LAST_STEP)
#: Of a weight above 10¹⁶ the target would round to 1, which no finite parameters reach.
_LARGEST_TARGET = cython.declare(cython.double, math.nextafter(1.0, 0.0))


def regularised_targets(negative: cython.double, positive: cython.double) -> tuple[cython.double, cython.double]:
    """Return Platt's t₊ and t₋ for these weights of the negative and of the positive labels."""
    return min((positive + 1.0) / (positive + 2.0), _LARGEST_TARGET), 1.0 / (negative + 2.0)


class AnchoredLogistic:
    """The points, in numbered slots, and the sums at the anchor.

    Even slots hold negative weight, odd ones positive. With `targets`, labels are t₊ and t₋ and there is no penalty;
    otherwise the penalty is ½·ridge·Σw·((A − 1)² + (B − 1)² + (C + ū(A − 1) + v̄(B − 1))²), ū and v̄ the means of the
    features, without the terms of parameters that are absent. The minimum is sought over A, B ≥ 0. With `two`, u and v
    are ln s and −ln(1 − s) of a score s, and with no constant ln 2s and −ln 2(1 − s).
    """

    def __init__(self, size, two, constant, targets, ridge):
        self.two, self.constant, self.targets = two, constant, targets
        self.points = RecentPoints(size)
        self.passes = RecentLogistic(self.points, two, constant, targets, ridge)
        self.model = QuadraticModel(self.points, two, constant, targets, ridge)
        self.sums = TaylorSums(self.model, two, constant)
        self.d, self.fitted = np.zeros(3).data, np.zeros(3).data
        self.served = self.visited = self.first_summed = self.compacted = self.patience = 0
        self.left_out = 0.0
        self.anchored = False

    def weights(self):
        """Σ w of the negatives and of the positives."""
        return self.points.weight[0], self.points.weight[1]

    def parameters(self):
        """Return A, B and C of the last fit."""
        return self.fitted[0], self.fitted[1], self.fitted[2]

    def load(self, slots, u, v, w):
        """Replace all points by these; `anchor_at` is to follow."""
        self.passes.load(slots, u, v, w)
        self.served = self.visited = self.patience = 0
        self.anchored = False

    @cython.locals(i=cython.Py_ssize_t)
    def replace(self, slot: cython.Py_ssize_t, u: cython.double, v: cython.double, w: cython.double) -> cython.void:
        """Replace the point of a slot; weight 0 for none. O(1)."""
        i = self.points.place[slot]
        if not self.points._changes(slot, u, v, w):
            return
        if self.anchored and i >= self.first_summed:
            self.sums._add(self.points.u[i], self.points.v[i], -self.points._weight(i), slot & 1)
        self.passes.replace(slot, u, v, w)
        if self.anchored and w > 0.0:
            self.sums._add(u, v, w, slot & 1)

    def scale(self, factor: cython.double) -> cython.void:
        """Multiply all weights by a power of two."""
        self.passes._scale(factor)
        self.sums._scale(factor)
        self.left_out *= factor

    def anchor_at(self, a: cython.double, b: cython.double, c: cython.double):
        """Rebuild the sums at these parameters, in a pass over the points."""
        self._anchor_at(a, b, c, 0)

    @cython.locals(i=cython.Py_ssize_t)
    def _anchor_at(self, a: cython.double, b: cython.double, c: cython.double, start: cython.Py_ssize_t) -> cython.void:
        """Make the sums of the points from the entry `start` on."""
        self.fitted[0], self.fitted[1], self.fitted[2] = a, b, c
        self.model._measure(
            self.points.u, self.points.v, self.points.negative, self.points.positive, start, self.points.end
        )
        self.first_summed, self.compacted = start, self.points.compacted
        self.left_out = self.points.upto[start - 1] if start > 0 else 0.0
        self.sums._clear(a, b, c)
        for i in range(start, self.points.end):
            if self.points.slot[i] >= 0:
                self.sums._add(self.points.u[i], self.points.v[i], self.points._weight(i), self.points.slot[i] & 1)
        self.sums.number = 0
        self.anchored = True

    @cython.locals(i=cython.int)
    def fit(self, t_plus: cython.double, t_minus: cython.double) -> cython.bint:
        """Find the minimum for the points as they are; whether it is certified. `parameters()` are then those of it.

        O(1) from the sums, and a pass over the points each time that these have to be rebuilt. The two targets are
        read only by a fit with `targets`.
        """
        if self.points.live == 0:
            return False
        if self.anchored and self.compacted != self.points.compacted and self.first_summed > 0:
            self.anchored = False  # entries have moved
        if self.anchored and not self.sums._worn() and self._newton(t_plus, t_minus) and self._bound() <= _CERTIFIED:
            self.model._write(self.fitted)
            self.served += 1
            return True
        if not self.passes.fit(t_plus, t_minus, self.fitted[0], self.fitted[1], self.fitted[2]):
            return False
        for i in range(3):
            self.fitted[i] = self.passes.fitted[i]
        self._consider()
        return True

    @cython.locals(cost=cython.longlong, start=cython.Py_ssize_t)
    def _consider(self) -> cython.void:
        """Rebuild the sums if the last ones were worth it, or once passes over the points have cost as much.

        Each time that sums were not worth it doubles the cost that is waited for.
        """
        start = self.passes._matters_from()
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

    @cython.locals(i=cython.int, _step=cython.int)
    def _newton(self, t_plus: cython.double, t_minus: cython.double) -> cython.bint:
        """Run Newton's method on the Taylor series, from the last θ; return whether it has converged."""
        self._set_distance()
        for _step in range(_MAX_STEPS):
            self.sums._expand(self.d)
            self.sums._complete(t_plus, t_minus)
            if not self.model._find_step():
                break
            for i in range(3):
                self.model.theta[i] += self.model.step[i]
            self._set_distance()
            if not self.model._reach(self.d) <= 2.0 * _FARTHEST:
                break
            if self.model.size * self.model.leverage <= _LAST_STEP:
                return True
        for i in range(3):
            self.model.theta[i] = self.sums.origin[i]
        return False

    @cython.locals(i=cython.int)
    def _set_distance(self) -> cython.void:
        """Set d."""
        for i in range(3):
            self.d[i] = self.model.theta[i] - self.sums.origin[i]

    @cython.locals(reach=cython.double, left=cython.double, noise=cython.double)
    def _bound(self) -> cython.double:
        """Return the most that a point's log-odds may differ from those at the minimum; infinite if unknown."""
        reach, noise = self.model._reach(self.d), self.sums.noise
        left = _REMAINDER * exp(reach) * pow(reach, _ORDER) * self.model._length(self.d)
        left += self.model.left
        left += self.model._spread(noise, noise if self.two else 0.0, noise if self.constant else 0.0)
        left += self.model.leverage * self.left_out
        return 2.0 * self.model.leverage * left
