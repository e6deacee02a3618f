# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: binding=False, always_allow_keywords=False
"""The online Newton step on the log loss of a sigmoid of two or three parameters (Gupta & Ramdas 2023, Algorithm 1).

Symbols, x being the log-odds of the score s:

    θ, z                     (slope, offset) and (x, 1), or (a, b, c) and (log s, −log(1 − s), 1)
    p = σ(θ·z)               the prediction
    g = w (p − y) z          the gradient of the weighted log loss at θ
    A = L D Lᵀ               the curvature: L unit lower triangular with the entries `l`, D = diag(d1, d2, ...)

A is kept factored: adding g gᵀ then only ever adds positive numbers to D, where the determinant a11·a22 − a12² of the
entries would cancel.
"""

import cython

if not cython.compiled:
    import math

    exp, log, log1p, nan, sqrt = math.exp, math.log, math.log1p, math.nan, math.sqrt
else:
    from cython.cimports.libc.math import NAN as nan
    from cython.cimports.libc.math import exp, log, log1p, sqrt

BISECTIONS = cython.declare(cython.int, 2200)
"""Steps of the search for the multiplier of a projection: a double has 2,098 binary places. It ends sooner, when no
double is left between; usually within 100, but a heavy weight starts the search far above the multiplier."""


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _usual_score(score: object, limit: cython.double) -> cython.double:
    """The log-odds of a float in [0, 1], clamped to ±limit; NaN for anything else."""
    s: cython.double
    x: cython.double
    if type(score) is not float:
        return nan
    s = score
    if not 0.0 <= s <= 1.0:
        return nan
    if s == 0.0:
        return -limit
    if s == 1.0:
        return limit
    x = log(s) - log1p(-s)
    return -limit if x < -limit else limit if x > limit else x


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _usual_observation(
    score: object,
    y: object,
    w: object,
    limit: cython.double,
    smallest: cython.double,
    largest: cython.double,
) -> cython.double:
    """The log-odds of a float, within ±limit, if y is a bool and w a float in range too; NaN otherwise."""
    s: cython.double
    x: cython.double
    weight: cython.double
    if type(score) is not float or type(w) is not float or not (y is True or y is False):
        return nan
    s = score
    weight = w
    if not (0.0 < s < 1.0 and smallest <= weight <= largest):
        return nan
    x = log(s) - log1p(-s)
    return x if -limit < x < limit else nan


@cython.final
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
        x: cython.double = _usual_score(score, self.limit)
        return self.predict(x) if x == x else nan

    def learn_usual(self, score: object, y: object, w: object) -> cython.bint:
        """`step` for a float in [0, 1], a bool and a float weight whose feature is within the limit; whether it was."""
        x: cython.double = _usual_observation(score, y, w, self.limit, self.smallest, self.largest)
        if x != x:
            return False
        self.step(x, 1.0 if y is True else 0.0, w)
        return True

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


@cython.final
@cython.cclass
class _Curvature:
    """A 3×3 matrix L D Lᵀ, and the solution x of the last `solve`."""

    d1: cython.double
    d2: cython.double
    d3: cython.double
    l21: cython.double
    l31: cython.double
    l32: cython.double
    x1: cython.double
    x2: cython.double
    x3: cython.double

    @cython.cfunc
    @cython.exceptval(check=False)
    def load(
        self,
        d1: cython.double,
        d2: cython.double,
        d3: cython.double,
        l21: cython.double,
        l31: cython.double,
        l32: cython.double,
    ) -> cython.void:
        """Set the factors."""
        self.d1 = d1
        self.d2 = d2
        self.d3 = d3
        self.l21 = l21
        self.l31 = l31
        self.l32 = l32

    @cython.cfunc
    @cython.exceptval(check=False)
    def trace(self) -> cython.double:
        """The sum of the diagonal of A, above its largest eigenvalue."""
        second: cython.double = self.l21 * self.l21 * self.d1 + self.d2
        return self.d1 + second + self.l31 * self.l31 * self.d1 + self.l32 * self.l32 * self.d2 + self.d3

    @cython.cfunc
    @cython.exceptval(check=False)
    def add_outer(self, v1: cython.double, v2: cython.double, v3: cython.double) -> cython.void:
        """A ← A + v vᵀ."""
        d1: cython.double = self.d1 + v1 * v1
        rest2: cython.double = v2 - self.l21 * v1
        rest3: cython.double = v3 - self.l31 * v1
        share: cython.double = self.d1 / d1
        d2: cython.double = self.d2 + share * rest2 * rest2
        last: cython.double = rest3 - self.l32 * rest2
        self.l21 = self.l21 + rest2 * (v1 / d1)
        self.l31 = self.l31 + rest3 * (v1 / d1)
        self.l32 = self.l32 + last * (share * rest2 / d2)
        self.d3 = self.d3 + share * (self.d2 / d2) * last * last
        self.d2 = d2
        self.d1 = d1

    @cython.cfunc
    @cython.exceptval(check=False)
    def add_identity(self, size: cython.double) -> cython.void:
        """A ← A + size·I."""
        root: cython.double = sqrt(size)
        self.add_outer(root, 0.0, 0.0)
        self.add_outer(0.0, root, 0.0)
        self.d3 = self.d3 + size

    @cython.cfunc
    @cython.exceptval(check=False)
    def solve(self, g1: cython.double, g2: cython.double, g3: cython.double) -> cython.double:
        """x ← A⁻¹ g; returns gᵀ A⁻¹ g."""
        y2: cython.double = g2 - self.l21 * g1
        y3: cython.double = g3 - self.l31 * g1 - self.l32 * y2
        q1: cython.double = g1 / self.d1
        q2: cython.double = y2 / self.d2
        self.x3 = y3 / self.d3
        self.x2 = q2 - self.l32 * self.x3
        self.x1 = q1 - self.l21 * self.x2 - self.l31 * self.x3
        return g1 * q1 + y2 * q2 + y3 * self.x3


@cython.final
@cython.cclass
class OnlineBetaNewton:
    """θ and A for the sigmoid of a·log s − b·log(1 − s) + c, and the step that moves them.

    Both logarithms come from the log-odds without cancellation: log s = min(x, 0) − r and −log(1 − s) = max(x, 0) + r
    with r = log(1 + exp(−|x|)). Parameters as in `OnlineNewton`; nothing is discounted.
    """

    a = cython.declare(cython.double, visibility="readonly")
    b = cython.declare(cython.double, visibility="readonly")
    c = cython.declare(cython.double, visibility="readonly")
    weight = cython.declare(cython.double, visibility="readonly")
    gamma: cython.double
    radius: cython.double
    limit: cython.double
    smallest: cython.double
    largest: cython.double
    curvature: _Curvature
    shifted: _Curvature  # A + λI, while projecting

    def __init__(
        self,
        a: cython.double,
        b: cython.double,
        c: cython.double,
        gamma: cython.double,
        initial: cython.double,
        radius: cython.double,
        limit: cython.double,
        smallest: cython.double,
        largest: cython.double,
    ):
        self.gamma = gamma
        self.radius = radius
        self.limit = limit
        self.smallest = smallest
        self.largest = largest
        self.curvature = _Curvature()
        self.shifted = _Curvature()
        self.load(a, b, c, initial, initial, initial, 0.0, 0.0, 0.0, 0.0)

    def predict_usual(self, score: object) -> cython.double:
        """The prediction at `score`, a float in [0, 1]; NaN for anything else."""
        x: cython.double = _usual_score(score, self.limit)
        return self.predict(x) if x == x else nan

    def learn_usual(self, score: object, y: object, w: object) -> cython.bint:
        """`step` for a float in [0, 1], a bool and a float weight whose feature is within the limit; whether it was."""
        x: cython.double = _usual_observation(score, y, w, self.limit, self.smallest, self.largest)
        if x != x:
            return False
        self.step(x, 1.0 if y is True else 0.0, w)
        return True

    @cython.ccall
    @cython.exceptval(check=False)
    def predict(self, x: cython.double) -> cython.double:
        """σ(a·log s − b·log(1 − s) + c) at the log-odds x of s."""
        rest: cython.double = log1p(exp(-abs(x)))
        z: cython.double = self.a * (min(x, 0.0) - rest) + self.b * (max(x, 0.0) + rest) + self.c
        e: cython.double
        if z >= 0.0:
            return 1.0 / (1.0 + exp(-z))
        e = exp(z)
        return e / (1.0 + e)

    @cython.ccall
    def step(self, x: cython.double, y: cython.double, w: cython.double):
        """One step on the label y at the log-odds x, of weight w."""
        error: cython.double = w * (self.predict(x) - y)
        rest: cython.double = log1p(exp(-abs(x)))
        g1: cython.double = error * (min(x, 0.0) - rest)
        g2: cython.double = error * (max(x, 0.0) + rest)
        a: cython.double
        b: cython.double
        c: cython.double
        # With A before g gᵀ is added, and the rest by Sherman and Morrison: see `OnlineNewton.step`.
        damping: cython.double = self.gamma * (1.0 + self.curvature.solve(g1, g2, error))
        a = self.a - self.curvature.x1 / damping
        b = self.b - self.curvature.x2 / damping
        c = self.c - self.curvature.x3 / damping
        self.weight = self.weight + w
        self.curvature.add_outer(g1, g2, error)
        if a * a + b * b + c * c > self.radius * self.radius:
            self._project(a, b, c)
        else:
            self.a = a
            self.b = b
            self.c = c

    @cython.cfunc
    @cython.exceptval(check=False)
    def _project(self, z1: cython.double, z2: cython.double, z3: cython.double) -> cython.void:
        """Set θ to the point of the ball nearest to z in the norm of A: θ = z − λ (A + λI)⁻¹ z with |θ| = radius.

        |θ| falls as λ grows, and is at most μ|z| / (μ + λ), μ being the largest eigenvalue: λ lies between 0 and
        μ (|z| / radius − 1). A step of the method is short, |A⁻¹g| ≤ 1/(2γ√A₀), so that z is near the ball, λ small
        against A, and the difference loses nothing.
        """
        low: cython.double = 0.0
        high: cython.double = self.curvature.trace() * (sqrt(z1 * z1 + z2 * z2 + z3 * z3) / self.radius - 1.0)
        middle: cython.double
        norm: cython.double
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            if self._pull(z1, z2, z3, middle) > self.radius:
                low = middle
            else:
                high = middle
        norm = self._pull(z1, z2, z3, high)
        if norm > self.radius:  # by rounding
            self.a = self.a * (self.radius / norm)
            self.b = self.b * (self.radius / norm)
            self.c = self.c * (self.radius / norm)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _pull(
        self, z1: cython.double, z2: cython.double, z3: cython.double, multiplier: cython.double
    ) -> cython.double:
        """Set θ to z − λ (A + λI)⁻¹ z; returns |θ|."""
        of: _Curvature = self.curvature
        self.shifted.load(of.d1, of.d2, of.d3, of.l21, of.l31, of.l32)
        self.shifted.add_identity(multiplier)
        self.shifted.solve(z1, z2, z3)
        self.a = z1 - multiplier * self.shifted.x1
        self.b = z2 - multiplier * self.shifted.x2
        self.c = z3 - multiplier * self.shifted.x3
        return sqrt(self.a * self.a + self.b * self.b + self.c * self.c)

    def state(self):
        """(a, b, c, d1, d2, d3, l21, l31, l32, weight), for `load`."""
        of: _Curvature = self.curvature
        return self.a, self.b, self.c, of.d1, of.d2, of.d3, of.l21, of.l31, of.l32, self.weight

    @cython.ccall
    def load(
        self,
        a: cython.double,
        b: cython.double,
        c: cython.double,
        d1: cython.double,
        d2: cython.double,
        d3: cython.double,
        l21: cython.double,
        l31: cython.double,
        l32: cython.double,
        weight: cython.double,
    ):
        """Take over an earlier `state`."""
        self.a = a
        self.b = b
        self.c = c
        self.curvature.load(d1, d2, d3, l21, l31, l32)
        self.weight = weight
