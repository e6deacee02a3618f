# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Mean, CRPS and quantiles of a recalibrated normal distribution, in one pass over normal scores.

Symbols, after `regression/ramps.py`:

    z, R(z)      a normal score, and the map of levels at it: a chain of ramps, applied one after the other
    Q(x)         the mass of a standard normal distribution above x ≥ 0;  d = −log Q(x) is its depth
    S(d)         one half of a ramp: R in the lower half, 1 − R in the upper one, for depths from log 2 on
    T(x)         R(−x) on the lower side of z = 0, 1 − R(x) on the upper side

Y = μ + σZ, where Z has the cdf R. Then E Z = ∫T over the upper side − ∫T over the lower one, and the CRPS at z ≥ 0 is
∫T² over both sides + z − 2∫T from 0 to z, with T of the upper side; the formula for z < 0 is its mirror image.

A side is cut at the knots of all ramps, and further until Q falls by a factor of about e^2.5 at most in each piece. Six
Gauss-Legendre nodes in each piece leave an error below 1e-9.
"""

import cython
import numpy as np
from cython.cimports.libc.math import erfc, exp, expm1, fabs, log, log1p, sqrt

_INF = cython.declare(cython.double, float("inf"))
LEAST = cython.declare(cython.double, 1e-18)
"""A side ends where T is below this."""
WIDEST = cython.declare(cython.double, 0.5)
"""The widest piece."""
LARGEST_FALL = cython.declare(cython.double, 2.5)
"""The largest fall of log Q in a piece."""
FAR = cython.declare(cython.double, 35.0)
"""From here on Q is summed by its asymptotic series."""
MIDDLE = cython.declare(cython.double, 0.6931471805599453)
ROOT_HALF = cython.declare(cython.double, 0.7071067811865476)
HALF_LOG_TAU = cython.declare(cython.double, 0.9189385332046727)
_nodes, _weights = np.polynomial.legendre.leggauss(6)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def depth_of(x: cython.double) -> cython.double:
    """Return −log Q(x), for x ≥ 0."""
    s: cython.double
    if x < FAR:
        return -log(0.5 * erfc(x * ROOT_HALF))
    s = 1.0 / (x * x)
    return 0.5 * x * x + log(x) + HALF_LOG_TAU - log1p(-s * (1.0 - s * (3.0 - s * (15.0 - 105.0 * s))))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def place_of(d: cython.double) -> cython.double:
    """Return the x ≥ 0 of a depth by Newton's method: −log Q is convex, so steps from the right never pass the root."""
    _i: cython.int
    x: cython.double
    step: cython.double
    found: cython.double
    if d <= MIDDLE:
        return 0.0
    x = sqrt(2.0 * d)  # Q(x) ≤ exp(−x²/2) / 2
    for _i in range(50):
        found = depth_of(x)
        step = (found - d) / exp(found - 0.5 * x * x - HALF_LOG_TAU)
        x -= step
        if fabs(step) <= 1e-15 * (1.0 + x):
            break
    return max(x, 0.0)


@cython.final
@cython.cclass
class RampChain:
    """A chain of ramps, the innermost first.

    Each ramp is (halves, centre, geometric): the lower and the upper half as (depth, mass), R at z = 0, and whether the
    pieces are geometric. Depths are nondecreasing from log 2 on, masses nonincreasing.
    """

    _given: tuple
    _first: cython.Py_ssize_t[::1]
    _geometric: cython.char[::1]
    _centre: cython.double[::1]
    _depth: cython.double[::1]
    _mass: cython.double[::1]
    _log: cython.double[::1]
    _x: cython.double[::1]
    _w: cython.double[::1]
    _chain: cython.Py_ssize_t
    _cuts: list
    _sums: list

    def __init__(self, *ramps):
        halves = [half for pair, _, _ in ramps for half in pair]
        first = np.zeros(len(halves) + 1, dtype=np.intp)
        first[1:] = np.cumsum([len(depth) for depth, _ in halves])
        mass = np.concatenate([mass for _, mass in halves])
        self._given, self._first, self._mass = ramps, first, mass
        self._centre = np.array([centre for _, centre, _ in ramps], dtype=np.float64)
        self._geometric = np.array([kind for _, _, kind in ramps], dtype=np.int8)
        self._depth = np.concatenate([depth for depth, _ in halves])
        with np.errstate(divide="ignore"):
            self._log = np.log(mass)
        self._x, self._w = _nodes, _weights
        self._chain = len(ramps)
        self._cuts = []
        self._sums = []

    def __reduce__(self):
        return RampChain, self._given

    def mean(self):
        """Return E Z."""
        sums = self._integrated()
        return sums[1][0] - sums[0][0]

    def beyond_distance(self, z: cython.double):
        """Return the CRPS at z, ∫ (R(t) − 1[z ≤ t])² dt, less |z|."""
        side: cython.int = 1 if z >= 0.0 else 0
        sums = self._integrated()
        return sums[0][1] + sums[1][1] - 2.0 * self._integrals(side, fabs(z))[2]

    def depth(self, level: cython.double):
        """Return the smallest z with R(z) ≥ level, for a level in [0, 1], as (whether z > 0, the depth of |z|)."""
        k: cython.Py_ssize_t
        upper: cython.bint = level > 0.5
        tail: cython.double = 1.0 - level if upper else level
        d: cython.double = MIDDLE
        for k in range(self._chain - 1, -1, -1):
            # The tail is a level below the middle or a mass above it; the half where R reaches it may be the other one.
            if upper:
                if tail < 1.0 - self._centre[k]:
                    d = self._shallowest(2 * k + 1, tail)
                else:
                    upper, d = False, self._deepest(2 * k, 1.0 - tail)
            elif tail <= self._centre[k]:
                d = self._deepest(2 * k, tail)
            else:
                upper, d = True, self._shallowest(2 * k + 1, 1.0 - tail)
            tail = exp(-d)
        return upper, d

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _tail(self, half: cython.Py_ssize_t, d: cython.double) -> cython.double:
        """Return S at a depth."""
        i: cython.Py_ssize_t = self._first[half]
        last: cython.Py_ssize_t = self._first[half + 1] - 1
        high: cython.Py_ssize_t = last + 1
        middle: cython.Py_ssize_t
        width: cython.double
        into: cython.double
        while high - i > 1:
            middle = (i + high) // 2
            if self._depth[middle] <= d:
                i = middle
            else:
                high = middle
        into = d - self._depth[i]
        if i == last:
            return self._mass[i] * exp(-into)
        width = self._depth[i + 1] - self._depth[i]
        if self._geometric[half // 2] and self._mass[i + 1] > 0.0:
            return exp(self._log[i] - (self._log[i] - self._log[i + 1]) / width * into)
        return self._mass[i + 1] + (self._mass[i] - self._mass[i + 1]) * exp(-into) * (
            expm1(into - width) / expm1(-width)
        )

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _outer(self, side: cython.Py_ssize_t, x: cython.double) -> cython.double:
        """Return T at x on a side."""
        k: cython.Py_ssize_t
        own: cython.Py_ssize_t = side
        mass: cython.double = 0.5
        d: cython.double = depth_of(x)
        for k in range(self._chain):
            if k > 0:
                if mass > 0.5:
                    own, mass = 1 - own, 1.0 - mass
                d = -log(mass) if mass > 0.0 else _INF
            mass = self._tail(2 * k + own, d)
        return mass if own == side else 1.0 - mass

    def _integrated(self):
        """Return the integrals over the lower and the upper side, computed once."""
        if not self._sums:
            self._cuts = self._all_cuts()
            self._sums = [self._integrals(0, 0.0), self._integrals(1, 0.0)]
        return self._sums

    def _integrals(self, side: cython.Py_ssize_t, upto: cython.double):
        """Return ∫T and ∫T² over a side where `upto` is 0; otherwise the third number is ∫T from 0 to `upto`."""
        i: cython.Py_ssize_t
        a: cython.double = 0.0
        b: cython.double
        end: cython.double
        half: cython.double
        value: cython.double = 1.0
        first: cython.double = 0.0
        second: cython.double = 0.0
        limit: cython.double = upto if upto > 0.0 else _INF
        for end in [*self._cuts[side], _INF]:
            end = min(end, limit)
            while a < end and value >= LEAST:
                b = a + min(WIDEST, LARGEST_FALL / (a + 1.0))
                if b > end:
                    b = end
                half = 0.5 * (b - a)
                for i in range(6):
                    value = self._outer(side, a + half * (1.0 + self._x[i]))
                    first += half * self._w[i] * value
                    second += half * self._w[i] * value * value
                a = b
        return (first, second, 0.0) if upto == 0.0 else (0.0, 0.0, first)

    def _all_cuts(self):
        """Return the places of all knots on the lower and the upper side, ascending."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        side: cython.Py_ssize_t
        found = [[], []]
        for k in range(self._chain):
            for side in range(2):
                for i in range(self._first[2 * k + side], self._first[2 * k + side + 1]):
                    own, d = self._pulled_back(k, side, self._depth[i])
                    if d < _INF:
                        found[own].append(place_of(d))
        return [sorted(found[0]), sorted(found[1])]

    def _pulled_back(self, k: cython.Py_ssize_t, side: cython.Py_ssize_t, d: cython.double):
        """Return the side and the depth at the first ramp from which ramp k is reached at this side and depth."""
        mass: cython.double
        while k > 0:
            k -= 1
            mass = exp(-d)
            if mass > self._mass[self._first[2 * k + side]]:  # reached from the other half
                side, mass = 1 - side, 1.0 - mass
            d = self._deepest(2 * k + side, mass)
        return side, d

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _deepest(self, half: cython.Py_ssize_t, mass: cython.double) -> cython.double:
        """Return the largest depth with S ≥ mass."""
        i: cython.Py_ssize_t = self._first[half]
        high: cython.Py_ssize_t = self._first[half + 1]
        middle: cython.Py_ssize_t
        if mass > self._mass[i]:
            return MIDDLE
        while high - i > 1:  # the last knot with at least this mass
            middle = (i + high) // 2
            if self._mass[middle] >= mass:
                i = middle
            else:
                high = middle
        return self._depth_at(half, i, mass)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _shallowest(self, half: cython.Py_ssize_t, mass: cython.double) -> cython.double:
        """Return the smallest depth with S ≤ mass."""
        i: cython.Py_ssize_t = self._first[half]
        high: cython.Py_ssize_t = self._first[half + 1]
        middle: cython.Py_ssize_t
        if mass >= self._mass[i]:
            return MIDDLE
        while high - i > 1:  # the last knot with more than this mass
            middle = (i + high) // 2
            if self._mass[middle] > mass:
                i = middle
            else:
                high = middle
        return self._depth_at(half, i, mass)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _depth_at(self, half: cython.Py_ssize_t, i: cython.Py_ssize_t, mass: cython.double) -> cython.double:
        """Return the depth at which S is this mass, in the piece that begins at knot i."""
        width: cython.double
        into: cython.double
        if i == self._first[half + 1] - 1:
            if self._mass[i] == 0.0:
                return self._depth[i]
            return self._depth[i] + self._log[i] - log(mass) if mass > 0.0 else _INF
        if mass >= self._mass[i]:
            return self._depth[i]
        width = self._depth[i + 1] - self._depth[i]
        if self._geometric[half // 2] and self._mass[i + 1] > 0.0:
            into = width * (self._log[i] - log(mass)) / (self._log[i] - self._log[i + 1])
        else:
            into = -log1p(expm1(-width) * ((self._mass[i] - mass) / (self._mass[i] - self._mass[i + 1])))
        return min(self._depth[i] + into, self._depth[i + 1])
