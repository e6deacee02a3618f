# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Mean, CRPS and quantiles of a recalibrated normal distribution, in one pass over normal scores.

Symbols, after `regression/ramps.py`:

    z, R(z)      a normal score, and the map of levels at it: a chain of ramps, applied one after the other
    Q(x)         the mass of a standard normal distribution above x ≥ 0;  d = −log Q(x) is its depth
    S(d)         one half of a ramp: R in the lower half, 1 − R in the upper one, for depths from log 2 on
    T(x)         R(−x) on the lower side of z = 0, 1 − R(x) on the upper side

Y = μ + σZ, where Z has the cdf R. Then E Z = ∫T over the upper side − ∫T over the lower one, and the CRPS at z ≥ 0 is
∫T² over both sides + z − 2∫T from 0 to z, with T of the upper side; the formula for z < 0 is its mirror image.

A side is cut at the knots of all ramps. In a piece between two cuts, T is Q^rate times a constant if every ramp there
is geometric and none changes the side. Pieces are cut further until T and Q fall by a factor of about e^2.5 at most.
Six Gauss-Legendre nodes in each, or three or four where it is narrow, leave an error below 1e-9.
"""

import cython
import numpy as np
from cython.cimports.libc.math import erfc, exp, expm1, fabs, log, log1p
from cython.cimports.streamcal.kernels.normal.normal_depth import depth_of, quick_depth, quick_place

_INF = cython.declare(cython.double, float("inf"))
LEAST = cython.declare(cython.double, 1e-18)
"""A side ends where T is below this."""
TINY = cython.declare(cython.double, 1e-290)
"""A mass below this is known by its depth alone: there doubles have few digits, and none beyond 37 deviations."""
LEAST_HALF = cython.declare(cython.double, 1e-12)
"""No piece is halved from here on."""
WIDEST = cython.declare(cython.double, 0.5)
"""The widest piece where T is 1; it may be as much wider as T^(−1/12), since errors of a piece are relative to T."""
LARGEST_FALL = cython.declare(cython.double, 2.5)
"""The largest fall of log Q and of log T in a piece, likewise."""
FAR = cython.declare(cython.double, 40.0)
"""From here on a piece may be twice as wide as the one before, where T falls slowly: a knot may be 10⁶ away."""
NARROW = cython.declare(cython.double, 0.15)
FLAT = cython.declare(cython.double, 0.24)
"""A piece up to `NARROW` wide, in which both fall by `FLAT` at most, has three nodes; of up to twice both, four; or
as many times more as T^(−1/6)."""
MIDDLE = cython.declare(cython.double, 0.6931471805599453)
ROOT_HALF = cython.declare(cython.double, 0.7071067811865476)
cython.declare(_nodes=cython.double[::1], _weights=cython.double[::1])
_nodes, _weights = map(np.concatenate, zip(*map(np.polynomial.legendre.leggauss, (3, 4, 6)), strict=True))


@cython.cfunc
def _middle(
    z: cython.const[cython.double][:],
    below: cython.const[cython.double][:],
    above: cython.const[cython.double][:],
    after: cython.Py_ssize_t,
) -> tuple[cython.double, cython.double]:
    """Return R(½) and 1 − R(½), linear in u = Φ(z) between the knots before and from `after`."""
    u0: cython.double = 0.5 * erfc(-z[after - 1] * ROOT_HALF) if after > 0 else 0.0
    c0: cython.double = below[after - 1] if after > 0 else 0.0
    a0: cython.double = above[after - 1] if after > 0 else 1.0
    u1: cython.double = 0.5 * erfc(-z[after] * ROOT_HALF) if after < z.shape[0] else 1.0
    c1: cython.double = below[after] if after < z.shape[0] else 1.0
    a1: cython.double = above[after] if after < z.shape[0] else 0.0
    share: cython.double = (0.5 - u0) / (u1 - u0) if u0 < u1 else 0.5  # knots that are distinct as scores alone
    return c0 + share * (c1 - c0), a0 + share * (a1 - a0)


def depths_of(knots: cython.const[cython.double][:]):
    """Return the depths −log Q(|z|) of normal scores z."""
    i: cython.Py_ssize_t
    result = np.empty(knots.shape[0])
    depths: cython.double[::1] = result
    for i in range(knots.shape[0]):
        depths[i] = depth_of(fabs(knots[i]))
    return result


class RampChain:
    """A chain of ramps, the innermost first.

    Each ramp is (knots, their depths, R, 1 − R, whether the pieces are geometric), with knots as normal scores,
    ascending. The depths are `depths_of(knots)`.
    """

    def __init__(self, *ramps):
        k: cython.Py_ssize_t
        size: cython.Py_ssize_t = 0
        for ramp in ramps:
            size += 2 * len(ramp[0]) + 2
        self._ramps, self._chain, self._integrated = ramps, len(ramps), False
        k = self._chain
        table: cython.double[::1] = np.empty(2 * k + 3 * size)
        self._geometric, self._centre = table[:k], table[k : 2 * k]
        k = 2 * k
        self._depth, self._mass = table[k : k + size], table[k + size : k + 2 * size]
        self._log = table[k + 2 * size :]
        # Of each ramp the lower half and then the upper one, each from the middle on.
        places: cython.Py_ssize_t[::1] = np.zeros(2 * k + 1, dtype=np.intp)
        self._first, self._last = places[: k + 1], places[k + 1 :]
        for k in range(self._chain):
            knots, depths, below, above, self._geometric[k] = ramps[k]
            self._add_halves(k, knots, depths, below, above)

    def __reduce__(self):
        return RampChain, self._ramps

    def _add_halves(self, k, knots, depths, below, above):
        """Write the depths and masses of both halves of ramp k; R at the middle is linear in Q between two knots."""
        i: cython.Py_ssize_t
        n: cython.Py_ssize_t = knots.shape[0]
        start: cython.Py_ssize_t = 0  # the first knot that is not below the middle
        after: cython.Py_ssize_t  # the first knot above the middle
        half: cython.Py_ssize_t = 2 * k
        while start < n and knots[start] < 0.0:
            start += 1
        after = start
        while after < n and knots[after] == 0.0:
            after += 1
        low, high = _middle(knots, below, above, after)
        if start < after:
            low, high = below[after - 1], above[start]
        self._centre[k] = low
        self._first[half + 1] = self._last[half + 1] = self._first[half] + after + 1
        self._first[half + 2] = self._first[half + 1] + n - start + 1
        self._last[half] = self._first[half]
        self._set(self._first[half], -1, MIDDLE, low)
        for i in range(after):
            self._set(self._first[half], i, depths[after - 1 - i], below[after - 1 - i])
        self._set(self._first[half + 1], -1, MIDDLE, high)
        for i in range(n - start):
            self._set(self._first[half + 1], i, depths[start + i], above[start + i])

    def _set(self, first, i, depth, mass):
        """Write the i-th knot of the half that starts at `first`; the middle is number −1."""
        place: cython.Py_ssize_t = first + i + 1
        if i >= 0 and mass > self._mass[place - 1]:  # by rounding
            mass = self._mass[place - 1]
        self._depth[place] = depth
        self._mass[place] = mass
        self._log[place] = log(mass) if mass > 0.0 else -_INF

    def mean(self):
        """Return E Z."""
        self._integrate()
        return self._sums[2] - self._sums[0]

    def beyond_distance(self, z: cython.double):
        """Return the CRPS at z, ∫ (R(t) − 1[z ≤ t])² dt, less |z|."""
        side: cython.Py_ssize_t = 1 if z >= 0.0 else 0
        i: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t
        middle: cython.Py_ssize_t
        self._integrate()
        high = self._cuts.shape[0]
        while high - i > 1:  # the last cut at or below z
            middle = (i + high) // 2
            if self._cuts[middle] <= z:
                i = middle
            else:
                high = middle
        if side == 0 and self._cuts[i] < z:
            i += 1  # the first cut at or above z
        return (
            self._sums[1]
            + self._sums[3]
            - 2.0 * (self._upto[i] + self._piece(side, fabs(self._cuts[i]), fabs(z), 1.0)[1])
        )

    def depth(self, level: cython.double):
        """Return the smallest z with R(z) ≥ level, for a level in [0, 1], as (whether z > 0, the depth of |z|)."""
        k: cython.Py_ssize_t
        upper: cython.bint = level > 0.5
        tail: cython.double = 1.0 - level if upper else level
        d: cython.double = -log(tail) if 0.0 < tail <= TINY else _INF
        for k in range(self._chain - 1, -1, -1):
            # The tail is a level below the middle or a mass above it; the half where R reaches it may be the other one.
            if upper:
                if tail < 1.0 - self._centre[k]:
                    d = self._reached(2 * k + 1, tail, d, True)
                else:
                    upper, d = False, self._reached(2 * k, 1.0 - tail, d, False)
            elif tail <= self._centre[k]:
                d = self._reached(2 * k, tail, d, False)
            else:
                upper, d = True, self._reached(2 * k + 1, 1.0 - tail, d, True)
            tail = exp(-d)
        return upper, d

    def _knot(self, half, d):
        """Return the last knot of a half that is not deeper than d: often the one found last, or the next one."""
        i: cython.Py_ssize_t = self._last[half]
        high: cython.Py_ssize_t = self._first[half + 1]
        middle: cython.Py_ssize_t
        if self._depth[i] <= d:
            if i + 1 == high or d < self._depth[i + 1]:
                return i
            if i + 2 == high or d < self._depth[i + 2]:
                self._last[half] = i + 1
                return i + 1
        else:
            i = self._first[half]
        while high - i > 1:
            middle = (i + high) // 2
            if self._depth[middle] <= d:
                i = middle
            else:
                high = middle
        self._last[half] = i
        return i

    def _integrate(self):
        """Compute, once, ∫T and ∫T² over the lower and the upper side, and ∫T from the middle up to each cut."""
        side: cython.Py_ssize_t
        i: cython.Py_ssize_t
        middle: cython.Py_ssize_t = 0
        a: cython.double
        b: cython.double
        value: cython.double
        if self._integrated:
            return
        self._find_cuts()
        while self._cuts[middle] < 0.0:
            middle += 1
        for side in range(2):
            a, value, i = 0.0, 1.0, middle
            while True:
                i += 2 * side - 1
                b = fabs(self._cuts[i]) if 0 <= i < self._cuts.shape[0] else _INF
                if value >= LEAST:
                    value, first, second = self._piece(side, a, b, value)
                    self._sums[2 * side] += first
                    self._sums[2 * side + 1] += second
                if b == _INF:
                    break
                self._upto[i], a = self._sums[2 * side], b
        self._integrated = True

    def _piece(self, side, a, b, value):
        """Return T at the last node, ∫T and ∫T² from a to b, until T is negligible; T(a) ≤ `value`, no cut between."""
        i: cython.Py_ssize_t
        start: cython.Py_ssize_t
        count: cython.Py_ssize_t
        probe: cython.double = a + 0.5 * min(b - a, WIDEST if a < FAR else 1.0 / a)
        d: cython.double = quick_depth(probe)
        there, rate = self._around(side, d)
        steep: cython.double = fabs(rate)
        first: cython.double = 0.0
        second: cython.double = 0.0
        half: cython.double = 0.0
        most: cython.double
        least: cython.double
        fall: cython.double
        ease: cython.double = 1.0
        while a < b and value >= LEAST:
            if value < 0.1:
                ease = exp(-log(value) / 12.0)
            most, least = min(WIDEST, LARGEST_FALL / ((a + 1.0) * max(steep, 1.0))), 1.0
            if a >= FAR:
                most, least = min(max(most, 4.0 * half), LARGEST_FALL / ((a + 1.0) * max(steep, LEAST))), LEAST
            half = 0.5 * min(b - a, ease * most)
            while rate < 0.0:  # halved until neither end is too steep
                steep = fabs(self._around(side, quick_depth(a + 0.02 * half))[1])
                steep = max(least, steep, fabs(self._around(side, quick_depth(a + 1.98 * half))[1]))
                if half * (a + 1.0) * steep <= 0.5 * LARGEST_FALL * ease or half <= LEAST_HALF:
                    break
                half *= 0.5
            fall = 2.0 * half * max((a + 1.0) * steep / FLAT, 1.0 / NARROW) / (ease * ease)
            start, count = (0, 3) if fall <= 1.0 else (3, 4) if fall <= 2.0 else (7, 6)
            for i in range(start, start + count):
                value = quick_depth(a + half * (1.0 + _nodes[i]))
                value = there * exp(rate * (d - value)) if rate > 0.0 else self._around(side, value)[0]
                first += half * _weights[i] * value
                second += half * _weights[i] * value * value
            a = min(a + 2.0 * half, b)
        return value, first, second

    def _around(self, side, d):
        """Return T at a depth, and the r for which it is Q^r times a constant there.

        Where there is no such r, it is −1 times the largest fall of a log S for one of log Q there.
        """
        k: cython.Py_ssize_t
        half: cython.Py_ssize_t
        i: cython.Py_ssize_t
        own: cython.Py_ssize_t = side
        power: cython.bint = True
        rate: cython.double = 1.0
        steep: cython.double = LEAST
        mass: cython.double = 0.5
        deep: cython.double = 0.0
        slope: cython.double
        width: cython.double
        into: cython.double
        for k in range(self._chain):
            if k > 0:
                if mass > 0.5:
                    rate *= mass / max(1.0 - mass, LEAST)
                    own, mass, power = 1 - own, 1.0 - mass, False
                d = -log(mass) if mass > TINY else deep
            half = 2 * k + own
            i = self._knot(half, d)
            into = d - self._depth[i]
            if i == self._first[half + 1] - 1:
                deep, mass = into - self._log[i], self._mass[i] * exp(-into)
                continue
            width = self._depth[i + 1] - self._depth[i]
            if self._geometric[k] and self._mass[i + 1] > 0.0:
                slope = (self._log[i] - self._log[i + 1]) / width
                rate *= slope
                deep = slope * into - self._log[i]
                mass = exp(-deep)
            else:
                slope = (self._mass[i] - self._mass[i + 1]) * exp(-into) / expm1(-width)  # −dS/d log Q
                mass, power = self._mass[i + 1] + slope * expm1(into - width), False
                if mass <= TINY:
                    deep = -log(mass) if mass > 0.0 else _INF
                rate *= -slope / max(mass, LEAST)
            steep = max(steep, rate)
        return mass if own == side else 1.0 - mass, rate if power else -steep

    def _find_cuts(self):
        """Write the places of all knots and of the middle, ascending, and make room for the integrals up to each."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        side: cython.Py_ssize_t
        place: cython.double
        knots: cython.const[cython.double][:] = self._ramps[0][0]
        count: cython.Py_ssize_t = knots.shape[0]
        most: cython.Py_ssize_t = count + 1 + self._depth.shape[0]
        table: cython.double[::1] = np.zeros(2 * most + 4)
        self._cuts, self._upto, self._sums = table[:most], table[most : 2 * most], table[2 * most :]
        for i in range(count):
            self._cuts[i] = knots[i]
        self._insert(count, 0.0)
        count += 1
        for k in range(1, self._chain):
            for side in range(2):
                for i in range(self._first[2 * k + side], self._first[2 * k + side + 1]):
                    place = self._place(k, side, self._depth[i])
                    if fabs(place) < _INF:
                        self._insert(count, place)
                        count += 1
        self._cuts, self._upto = self._cuts[:count], self._upto[:count]

    def _insert(self, count, place):
        """Insert a place into the first `count` cuts, which ascend."""
        while count > 0 and self._cuts[count - 1] > place:
            self._cuts[count] = self._cuts[count - 1]
            count -= 1
        self._cuts[count] = place

    def _place(self, k, side, d):
        """Return the normal score from which ramp k is reached at this side and depth."""
        mass: cython.double
        while k > 0:
            k -= 1
            mass = exp(-d)
            if mass > self._mass[self._first[2 * k + side]]:  # reached from the other half
                side, mass = 1 - side, 1.0 - mass
            d = self._reached(2 * k + side, mass, d, False)
        if d == _INF:
            return d
        return quick_place(d) if side else -quick_place(d)

    def _reached(self, half, mass, deep, first):
        """Return the largest depth with S ≥ mass or, of `first`, the smallest with S ≤ mass.

        `deep` is −log of the mass, read where it is at most `TINY`.
        """
        i: cython.Py_ssize_t = self._first[half]
        high: cython.Py_ssize_t = self._first[half + 1]
        middle: cython.Py_ssize_t
        if mass > self._mass[i] or (first and mass == self._mass[i]):
            return MIDDLE
        while high - i > 1:  # the last knot with at least this mass or, of `first`, with more
            middle = (i + high) // 2
            if self._mass[middle] > mass or (not first and self._mass[middle] == mass):
                i = middle
            else:
                high = middle
        return self._depth_at(half, i, mass, deep)

    def _depth_at(self, half, i, mass, deep):
        """Return the depth at which S is this mass, in the piece that begins at knot i; `deep` is as in `_reached`."""
        width: cython.double
        into: cython.double
        if i == self._first[half + 1] - 1:
            if self._mass[i] == 0.0:
                return self._depth[i]
            return self._depth[i] + self._log[i] + (-log(mass) if mass > TINY else deep)
        if mass >= self._mass[i]:
            return self._depth[i]
        width = self._depth[i + 1] - self._depth[i]
        if self._geometric[half // 2] and self._mass[i + 1] > 0.0:
            into = width * (self._log[i] + (-log(mass) if mass > TINY else deep)) / (self._log[i] - self._log[i + 1])
        else:
            into = expm1(-width) * ((self._mass[i] - mass) / (self._mass[i] - self._mass[i + 1]))
            into = -log1p(into) if into > -1.0 else width
        return min(self._depth[i] + into, self._depth[i + 1])
