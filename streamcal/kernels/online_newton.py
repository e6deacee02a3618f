# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The online Newton step on the log loss of a sigmoid of two parameters (Gupta & Ramdas 2023, Algorithm 1).

Symbols:

    θ = (slope, offset)      z = (x, 1)      p = σ(θ·z)
    g = w (p − y) z          the gradient of the weighted log loss at θ
    A = L D Lᵀ               the curvature: L unit lower triangular with the entry `l`, D = diag(d1, d2)

A is kept factored: adding g gᵀ then only ever adds positive numbers to d1 and d2, where the determinant
a11·a22 − a12² of the entries would cancel.
"""

import cython

if not cython.compiled:
    import math

    exp, log, log1p, nan, sqrt = math.exp, math.log, math.log1p, math.nan, math.sqrt
else:
    from cython.cimports.libc.math import NAN as nan
    from cython.cimports.libc.math import exp, log, log1p, sqrt

BISECTIONS = cython.declare(cython.int, 200)
"""Steps of the search for the multiplier of the projection; it ends sooner, when no double is left between."""


@cython.cclass
class OnlineNewton:
    """θ and A, and the step that moves them.

    Parameters: `gamma`, the step is A⁻¹g/γ; `initial`, A starts at initial·I; `radius` of the ball θ is kept in;
    `discount` d in A ← d·A + (1 − d)·initial·I + g gᵀ; features are clamped to ±`limit`; weights that `learn_usual`
    takes lie between `smallest` and `largest`.

    `predict_usual` and `learn_usual` take a score as it comes, if it is as usual; what is not is left to the caller.
    """

    slope = cython.declare(cython.double, visibility="readonly")
    offset = cython.declare(cython.double, visibility="readonly")
    weight = cython.declare(cython.double, visibility="readonly")
    gamma: cython.double
    initial: cython.double
    radius: cython.double
    discount: cython.double
    limit: cython.double
    smallest: cython.double
    largest: cython.double
    d1: cython.double
    d2: cython.double
    l: cython.double  # noqa: E741

    def __init__(
        self,
        slope: cython.double,
        offset: cython.double,
        gamma: cython.double,
        initial: cython.double,
        radius: cython.double,
        discount: cython.double,
        limit: cython.double,
        smallest: cython.double,
        largest: cython.double,
    ):
        self.slope = slope
        self.offset = offset
        self.gamma = gamma
        self.initial = initial
        self.radius = radius
        self.discount = discount
        self.limit = limit
        self.smallest = smallest
        self.largest = largest
        self.weight = 0.0
        self.d1 = initial
        self.d2 = initial
        self.l = 0.0

    def predict_usual(self, score: object) -> cython.double:
        """The prediction at the log-odds of `score`, a float in [0, 1]; NaN for anything else."""
        s: cython.double
        if type(score) is not float:
            return nan
        s = score
        if not 0.0 <= s <= 1.0:
            return nan
        return self.predict(self._feature(s))

    def learn_usual(self, score: object, y: object, w: object) -> cython.bint:
        """`step` for a float in [0, 1], a bool and a float weight whose feature is within the limit; whether it was."""
        s: cython.double
        weight: cython.double
        x: cython.double
        if type(score) is not float or type(w) is not float or not (y is True or y is False):
            return False
        s = score
        weight = w
        if not (0.0 < s < 1.0 and self.smallest <= weight <= self.largest):
            return False
        x = log(s) - log1p(-s)
        if not -self.limit < x < self.limit:
            return False
        self.step(x, 1.0 if y is True else 0.0, weight)
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    def _feature(self, s: cython.double) -> cython.double:
        """The log-odds of s, clamped."""
        x: cython.double
        if s <= 0.0:
            return -self.limit
        if s >= 1.0:
            return self.limit
        x = log(s) - log1p(-s)
        return -self.limit if x < -self.limit else self.limit if x > self.limit else x

    @cython.ccall
    @cython.exceptval(check=False)
    def predict(self, x: cython.double) -> cython.double:
        """σ(slope·x + offset)."""
        z: cython.double = self.slope * x + self.offset
        e: cython.double
        if z >= 0.0:
            return 1.0 / (1.0 + exp(-z))
        e = exp(z)
        return e / (1.0 + e)

    @cython.ccall
    def step(self, x: cython.double, y: cython.double, w: cython.double):
        """One step on the label y at x, of weight w."""
        error: cython.double = w * (self.predict(x) - y)
        self.weight = self.discount * self.weight + w
        fresh: cython.double
        first: cython.double
        second: cython.double
        damping: cython.double
        slope: cython.double
        offset: cython.double
        if self.discount < 1.0:
            self.d1 = self.d1 * self.discount
            self.d2 = self.d2 * self.discount
            fresh = (1.0 - self.discount) * self.initial
            self._add_outer(sqrt(fresh), 0.0)
            self.d2 = self.d2 + fresh
        # With A before g gᵀ is added, (A + g gᵀ)⁻¹ g = A⁻¹g / (1 + gᵀA⁻¹g): of bounded length whatever the weight,
        # where the solve with the sum would lose all digits to a heavy observation.
        first = error * x / self.d1
        second = (error - self.l * (error * x)) / self.d2
        damping = self.gamma * (1.0 + error * x * first + (error - self.l * (error * x)) * second)
        slope = self.slope - (first - self.l * second) / damping
        offset = self.offset - second / damping
        self._add_outer(error * x, error)
        if slope * slope + offset * offset > self.radius * self.radius:
            self._project(slope, offset)
        else:
            self.slope = slope
            self.offset = offset

    @cython.cfunc
    @cython.exceptval(check=False)
    def _add_outer(self, v1: cython.double, v2: cython.double) -> cython.void:
        """A ← A + v vᵀ, on the factors."""
        rest: cython.double = v2 - self.l * v1
        d1: cython.double = self.d1 + v1 * v1
        self.l = self.l + rest * (v1 / d1)
        self.d2 = self.d2 + rest * rest * (self.d1 / d1)
        self.d1 = d1

    @cython.cfunc
    @cython.exceptval(check=False)
    def _project(self, z1: cython.double, z2: cython.double) -> cython.void:
        """Set θ to the point of the ball nearest to z in the norm of A: (A + λI) θ = A z with |θ| = radius.

        |θ| falls as λ grows, and |θ| ≤ |A z| / λ, so λ lies between 0 and |A z| / radius: bisection. By Cramer's rule
        θ = (det A · z + λ A z) / det(A + λI), and det A = d1·d2: nothing cancels.
        """
        a12: cython.double = self.l * self.d1
        a22: cython.double = self.l * a12 + self.d2
        t1: cython.double = self.d1 * z1 + a12 * z2
        t2: cython.double = a12 * z1 + a22 * z2
        det: cython.double = self.d1 * self.d2
        trace: cython.double = self.d1 + a22
        low: cython.double = 0.0
        high: cython.double = sqrt(t1 * t1 + t2 * t2) / self.radius
        middle: cython.double
        scale: cython.double
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            scale = det + middle * trace + middle * middle
            self.slope = (det * z1 + middle * t1) / scale
            self.offset = (det * z2 + middle * t2) / scale
            if self.slope * self.slope + self.offset * self.offset > self.radius * self.radius:
                low = middle
            else:
                high = middle
        scale = det + high * trace + high * high
        self.slope = (det * z1 + high * t1) / scale
        self.offset = (det * z2 + high * t2) / scale

    def state(self):
        """(slope, offset, d1, d2, l, weight), for `load`."""
        return self.slope, self.offset, self.d1, self.d2, self.l, self.weight

    def load(
        self,
        slope: cython.double,
        offset: cython.double,
        d1: cython.double,
        d2: cython.double,
        l: cython.double,  # noqa: E741
        weight: cython.double,
    ):
        """Take over an earlier `state`."""
        self.slope = slope
        self.offset = offset
        self.d1 = d1
        self.d2 = d2
        self.l = l
        self.weight = weight
