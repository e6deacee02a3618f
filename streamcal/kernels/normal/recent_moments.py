# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The moments of two labels in twice the precision of a double, while a few observations are added to exact sums.

Symbols: a0, a1, a2 are Σw, Σwx and Σwx² of the negatives, b0, b1, b2 those of the positives. Each is the sum of two
doubles, hi + lo with |lo| ≤ ulp(hi)/2 (Dekker 1971), begun as the exact sum rounded to 2⁻¹⁰⁶.

An addition has a relative error of at most 2⁻¹⁰³ of Σw|x|ᵏ, which is at most the root of Σw·Σwx² for k = 1. After MOST
additions, and in the formulas below, that is less than SLACK = 2⁻⁹⁰ of the sum of the sizes of the terms. So where
differences are above 2⁵⁸·SLACK of the sizes of what they are differences of, results have a relative error of a few
2⁻⁵⁸ before they are rounded: they are those of exact arithmetic, or, seldom, the neighbouring double.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.libc.math import fabs, log, sqrt
from cython.cimports.streamcal.kernels.common.logistic import sigmoid

from streamcal.kernels.cells.cell_points import TIED_MEANS

_MOST = cython.declare(cython.int, 128)
"""As many observations are kept before they are added to the exact sums."""
SLACK = 2.0**-90
_DISTINCT = cython.declare(cython.double, SLACK * 2.0**58)
"""The least share of the sizes of what it is a difference of that a difference may be: then its error is 2⁻⁵⁸ of it."""
_LEAST = cython.declare(cython.double, 1e-25)
_GREATEST = cython.declare(cython.double, 1e25)
"""Outside this range of weights, and of root mean squares, products of five sums may leave the range of the floats."""
_SPLITTER = cython.declare(cython.double, 134217729.0)  # 2²⁷ + 1
_SMALLEST_GAP = cython.declare(cython.double, 1e-290)
"""Means nearer than this are equal: no slope between them is a finite number."""

_TIED_MEANS = cython.declare(cython.double, TIED_MEANS)
_SMALLEST_ODDS = cython.declare(cython.double, float(np.finfo(np.float64).tiny))
_LARGEST_ODDS = cython.declare(cython.double, float(np.finfo(np.float64).max))

Double = cython.struct(hi=cython.double, lo=cython.double)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _two_sum(a: cython.double, b: cython.double) -> Double:
    """Return a + b, exactly (Knuth)."""
    s: cython.double = a + b
    part: cython.double = s - a
    return Double(hi=s, lo=(a - (s - part)) + (b - part))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _two_product(a: cython.double, b: cython.double) -> Double:
    """Return a·b, exactly (Dekker)."""
    p: cython.double = a * b
    scaled: cython.double = _SPLITTER * a
    a_hi: cython.double = scaled - (scaled - a)
    a_lo: cython.double = a - a_hi
    scaled = _SPLITTER * b
    b_hi: cython.double = scaled - (scaled - b)
    b_lo: cython.double = b - b_hi
    return Double(hi=p, lo=((a_hi * b_hi - p) + a_hi * b_lo + a_lo * b_hi) + a_lo * b_lo)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _sum(a: Double, b: Double) -> Double:
    s: Double = _two_sum(a.hi, b.hi)
    t: Double = _two_sum(a.lo, b.lo)
    s = _two_sum(s.hi, s.lo + t.hi)
    return _two_sum(s.hi, s.lo + t.lo)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _less(a: Double, b: Double) -> Double:
    return _sum(a, Double(hi=-b.hi, lo=-b.lo))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _product(a: Double, b: Double) -> Double:
    p: Double = _two_product(a.hi, b.hi)
    return _two_sum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _quotient(a: Double, b: Double) -> cython.double:
    """Return a/b, rounded to a double."""
    q: cython.double = a.hi / b.hi
    rest: Double = _less(a, _product(Double(hi=q, lo=0.0), b))
    return q + rest.hi / b.hi


@cython.ccall
@cython.nogil
@cython.exceptval(check=False)
def normal_line(
    negative: cython.double,
    positive: cython.double,
    low: cython.double,
    high: cython.double,
    gap: cython.double,
    gap_by_variance: cython.double,
    weight: cython.double,
    steepest: cython.double,
) -> tuple[cython.double, cython.double]:
    """Slope and offset of the log-odds of two normal densities of one variance, given what `summary` returns.

    `weight` is that of all where the variance about the common mean is to be the unbiased one, otherwise 0. At the
    means a score changes the log-odds by at most half of `steepest`.
    """
    farther: cython.double = high if high > -low else -low  # of two means that rise, the one further from 0
    slope: cython.double = 0.0
    odds: cython.double
    if gap > max(_TIED_MEANS * farther, _SMALLEST_GAP):
        slope = gap_by_variance
        if weight > 0.0:
            slope = slope * ((weight - 1.0) / weight) if weight > 1.0 else 0.0
        slope = min(slope, steepest / gap)
    # Decay can set the weights of the labels so far apart that their quotient is no float above 0. A difference of
    # logarithms would always be one, but depends on the unit of the weights in its last digits.
    odds = min(max(positive / negative, _SMALLEST_ODDS), _LARGEST_ODDS)
    return slope, log(odds) - (slope * low + slope * high) / 2.0


@cython.final
@cython.cclass
class RecentMoments:
    """The six sums, and the observations added since they were set."""

    _ready: cython.bint
    _number: cython.int
    _hi: cython.double[::1]
    _lo: cython.double[::1]
    _x: cython.double[::1]
    _w: cython.double[::1]
    _label: cython.int[::1]
    _summary: cython.double[::1]  # what `summary` returns

    def __init__(self):
        self._ready, self._number = False, 0
        self._hi, self._lo = np.zeros(6).data, np.zeros(6).data
        self._x, self._w = np.zeros(_MOST).data, np.zeros(_MOST).data
        self._label = np.zeros(_MOST, dtype=np.intc).data
        self._summary = np.zeros(6).data

    @property
    def ready(self):
        """Whether the sums have been set since `forget`."""
        return self._ready

    def set(self, hi, lo):
        """Begin with these sums."""
        i: cython.int
        for i in range(6):
            self._hi[i], self._lo[i] = hi[i], lo[i]
        self._ready = True

    def forget(self):
        """Note that the exact sums change in another way."""
        self._ready = False

    def take(self):
        """Return the coordinates and the weights of the negatives, and of the positives, since the last call."""
        columns = [], [], [], []
        for i in range(self._number):
            columns[2 * self._label[i]].append(self._x[i])
            columns[2 * self._label[i] + 1].append(self._w[i])
        self._number = 0
        return columns

    def add(self, x: cython.double, y: cython.double, w: cython.double) -> cython.bint:
        """Add an observation; whether that could be done: there is room, and nothing leaves the range of the floats."""
        return self._add_one(x, y, w)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _add_one(self, x: cython.double, y: cython.double, w: cython.double) -> cython.bint:
        first: cython.int
        square: Double
        term: Double
        if not self._ready or self._number == _MOST or not (y == 0.0 or y == 1.0):
            return False
        if not (_LEAST <= w <= _GREATEST and (x == 0.0 or _LEAST <= fabs(x) <= _GREATEST)):
            return False
        self._x[self._number], self._w[self._number] = x, w
        self._label[self._number] = 1 if y == 1.0 else 0
        first = 3 * self._label[self._number]
        self._number += 1
        self._add(first, Double(hi=w, lo=0.0))
        term = _two_product(w, x)
        self._add(first + 1, term)
        square = _two_product(x, x)
        self._add(first + 2, _product(square, Double(hi=w, lo=0.0)))
        return True

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _add(self, i: cython.int, term: Double) -> cython.void:
        total: Double = _sum(Double(hi=self._hi[i], lo=self._lo[i]), term)
        self._hi[i], self._lo[i] = total.hi, total.lo

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _get(self, i: cython.int) -> Double:
        return Double(hi=self._hi[i], lo=self._lo[i])

    def weights(self):
        """Return a0 and b0."""
        return self._hi[0], self._hi[3]

    def total(self):
        """Return a0 + b0, rounded once."""
        return self._total()

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _total(self) -> cython.double:
        total: Double = _sum(self._get(0), self._get(3))
        return total.hi

    def summary(self, within: cython.bint):
        """Both weights, both means, their difference, and the latter over the variance: see `LabelMoments`.

        None where this cannot be certified.
        """
        return tuple([self._summary[i] for i in range(6)]) if self._summarise(within) else None

    def run(
        self,
        x: cython.const[cython.double][::1],
        y: cython.const[cython.double][::1],
        w: cython.const[cython.double][:],
        start: cython.Py_ssize_t,
        within: cython.bint,
        steepest: cython.double,
        predictions: cython.double[::1],
    ) -> cython.Py_ssize_t:
        """Write the prediction for each row from `start` on by `normal_line`, and then add it. Without the GIL.

        Returns the first row that could not be predicted, or not be added, or their number.
        """
        i: cython.Py_ssize_t
        n: cython.Py_ssize_t = x.shape[0]
        slope: cython.double
        offset: cython.double
        if not n == y.shape[0] == w.shape[0] == predictions.shape[0]:
            raise ValueError("lengths differ")
        with cython.nogil:
            for i in range(start, n):
                if not self._summarise(within):
                    n = i
                    break
                slope, offset = normal_line(
                    self._summary[0], self._summary[1], self._summary[2], self._summary[3], self._summary[4],
                    self._summary[5], 0.0 if within else self._total(), steepest,
                )  # fmt: skip
                predictions[i] = sigmoid(slope * x[i] + offset)
                if w[i] > 0.0 and not self._add_one(x[i], y[i], w[i]):
                    n = i
                    break
        return n

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _summarise(self, within: cython.bint) -> cython.bint:
        """Write `summary`; whether it can be certified."""
        i: cython.int
        a0: Double = self._get(0)
        a1: Double = self._get(1)
        a2: Double = self._get(2)
        b0: Double = self._get(3)
        b1: Double = self._get(4)
        b2: Double = self._get(5)
        if not self._ready:
            return False
        for i in range(0, 6, 3):
            if not (_LEAST <= self._hi[i] <= _GREATEST and self._hi[i + 2] > 0.0):
                return False
            if not _LEAST <= sqrt(self._hi[i + 2] / self._hi[i]) <= _GREATEST:
                return False
        size_a: cython.double = sqrt(a0.hi * a2.hi)  # at least Σw|x|
        size_b: cython.double = sqrt(b0.hi * b2.hi)
        weight: Double = _sum(a0, b0)
        gap: Double = _less(_product(b1, a0), _product(a1, b0))
        spread_a: Double = _less(_product(a2, a0), _product(a1, a1))
        spread_b: Double = _less(_product(b2, b0), _product(b1, b1))
        squares: Double = _product(_sum(_product(spread_a, b0), _product(spread_b, a0)), weight)
        if not (fabs(a1.hi) > _DISTINCT * size_a and fabs(b1.hi) > _DISTINCT * size_b):
            return False
        if not fabs(gap.hi) > _DISTINCT * (size_b * a0.hi + size_a * b0.hi):
            return False
        if not squares.hi > _DISTINCT * (a2.hi + b2.hi) * a0.hi * b0.hi * weight.hi:
            return False
        if not within:
            squares = _sum(squares, _product(gap, gap))
        self._summary[0], self._summary[1] = a0.hi, b0.hi
        self._summary[2], self._summary[3] = _quotient(a1, a0), _quotient(b1, b0)
        self._summary[4] = _quotient(gap, _product(a0, b0))
        self._summary[5] = _quotient(_product(_product(gap, weight), weight), squares)
        return True
