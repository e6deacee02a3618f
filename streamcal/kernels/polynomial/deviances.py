# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Deviances −2 Σ w (ȳ log p + (1 − ȳ) log(1 − p)) of many fits p to the same labels, and bounds of them.

A fit that differs little from the one before, q, changes the deviance by logarithms of p/q and (1 − p)/(1 − q), which
are close to 1: log(p/q) = 2 artanh a, a = (p − q)/(p + q), a series in a².

With δ = (p − r)/r > −1, r a reference whose logarithms are known,

    δ − δ²/2 + δ³/3 − K δ⁴ ≤ log(p/r) ≤ δ − δ²/2 + δ³/3.

The right-hand side less log(1 + δ) has the derivative δ³/(1 + δ), the sign of δ, and is 0 at δ = 0. For δ ≥ 0 the left
inequality holds with K = 1/4, as the series alternates until it converges, and beyond. For −1 < δ < 0 the difference of
the right-hand side and log(1 + δ), divided by δ⁴, is Σ |δ|ʲ/(j + 4), which grows with |δ|: its value at the smallest
possible p/r is a K for all of them. The same holds for 1 − p and 1 − r. So two sums of products bound a deviance.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.libc.math import fabs, log

# Up to this a² six terms of the series leave a¹²/13 < 2e-17 of it.
CLOSE = cython.declare(cython.double, 0.05**2)
# Rounding of bounds, as a share of the weight of all labels. The terms of a lower bound above 0 add up to at most 80
# times the weight: −2 (δ − δ²/2 + δ³/3) < 11/3, and no deviance of a reference is above 73 times the weight.
ROUNDING = cython.declare(cython.double, 1e-9)


class Deviances:
    """Deviances of fits to k scores."""

    def __init__(self, k):
        columns = np.zeros((17, k))
        self._positive, self._negative, self._p, self._q, self._terms, self._rest = columns[:6]
        self._reference, self._log, self._log_rest, self._inverse, self._inverse_rest = columns[6:11]
        self._first, self._second, self._third, self._fourth, self._lean, self._scratch = columns[11:]
        self.known = False

    @cython.locals(i=cython.Py_ssize_t)
    def begin(self, n, share, y, centre):
        """Take labels: shares of their weight n, and means less `centre`."""
        self._doubt, self._centre = max(1.0 / (n + 2.0), 2.0**-52), centre
        self._started = False
        for i in range(self._positive.shape[0]):
            self._positive[i] = n * (share[i] * (y[i] + centre))
            self._negative[i] = n * share[i] - self._positive[i]
        if self.known:
            a: cython.double = 1.0 - self._doubt
            constant: cython.double = max(0.25, (-log(self._doubt) - a * (1.0 + a * (0.5 + a / 3.0))) / (a * a * a * a))
            self._slack = ROUNDING * n
            set_coefficients(
                self._positive,
                self._negative,
                self._inverse,
                self._inverse_rest,
                constant,
                self._first,
                self._second,
                self._third,
                self._fourth,
                self._lean,
            )
            set_products(self._positive, self._negative, self._log, self._log_rest, self._terms)
            self._at_reference = -2.0 * total(self._terms)

    def exact(self, fit):
        """Return the deviance of a fit, to which `centre` is added, limited to [doubt, 1 − doubt]."""
        set_probabilities(fit, self._centre, self._doubt, self._scratch)
        set_logarithms(self._scratch, self._positive, self._negative, self._terms)
        return -2.0 * total(self._terms)

    def following(self, fit):
        """Return `exact(fit)`, given that of the fit before."""
        self._p, self._q = self._q, self._p
        set_probabilities(fit, self._centre, self._doubt, self._p)
        if not self._started:
            self._started, self._last = True, 0.0
            set_logarithms(self._p, self._positive, self._negative, self._terms)
        else:
            set_ratios(self._p, self._q, self._positive, self._negative, self._terms, self._rest)
            correct(self._p, self._q, self._positive, self._negative, self._terms, self._rest)
        self._last -= 2.0 * total(self._terms)
        return self._last

    def bound(self, fit):
        """Set `low` and `high` to bounds of `exact(fit)`; there must be a reference."""
        set_bounds(
            fit,
            self._centre,
            self._doubt,
            self._reference,
            self._first,
            self._second,
            self._third,
            self._fourth,
            self._lean,
            self._terms,
            self._rest,
        )
        self.low = self._at_reference + total(self._terms) - self._slack
        self.high = self.low + (1.0 + ROUNDING) * total(self._rest) + 2.0 * self._slack

    @cython.locals(i=cython.Py_ssize_t, p=cython.double)
    def refer(self, fit):
        """Make a fit the reference of bounds, from the next `begin` on."""
        set_probabilities(fit, self._centre, self._doubt, self._reference)
        for i in range(self._reference.shape[0]):
            p = self._reference[i]
            self._log[i], self._log_rest[i] = log(p), log(1.0 - p)
            self._inverse[i], self._inverse_rest[i] = 1.0 / p, 1.0 / (1.0 - p)
        self.known = True


@cython.locals(i=cython.Py_ssize_t)
def set_probabilities(fit, centre, doubt, p):
    """Set p to the fit, limited to [doubt, 1 − doubt]."""
    for i in range(p.shape[0]):
        p[i] = min(max(centre + fit[i], doubt), 1.0 - doubt)


@cython.locals(i=cython.Py_ssize_t)
def set_logarithms(p, positive, negative, terms):
    """Set the terms positive · log p + negative · log(1 − p)."""
    for i in range(p.shape[0]):
        terms[i] = positive[i] * log(p[i]) + negative[i] * log(1.0 - p[i])


@cython.locals(i=cython.Py_ssize_t)
def set_products(positive, negative, one, other, terms):
    """Set the terms positive · one + negative · other."""
    for i in range(terms.shape[0]):
        terms[i] = positive[i] * one[i] + negative[i] * other[i]


@cython.locals(i=cython.Py_ssize_t, a=cython.double, b=cython.double, aa=cython.double, bb=cython.double)
@cython.locals(both=cython.double, rest=cython.double, share=cython.double)
def set_ratios(p, q, positive, negative, terms, farther):
    """Set the terms positive · log(p/q) + negative · log((1 − p)/(1 − q)), and the larger square in their series."""
    for i in range(p.shape[0]):
        both = p[i] + q[i]
        rest = 2.0 - both
        share = (p[i] - q[i]) / (both * rest)
        a, b = rest * share, both * share
        aa, bb = a * a, b * b
        farther[i] = max(aa, bb)
        terms[i] = 2.0 * (positive[i] * a * artanh(aa) - negative[i] * b * artanh(bb))


def artanh(square):
    """Return six terms of artanh(x)/x at x² = `square`."""
    tail: cython.double = 1.0 / 7.0 + square * (1.0 / 9.0 + square * (1.0 / 11.0))
    return 1.0 + square * (1.0 / 3.0 + square * (1.0 / 5.0 + square * tail))


@cython.locals(i=cython.Py_ssize_t)
def correct(p, q, positive, negative, terms, farther):
    """Set the terms for which the series are too long."""
    for i in range(p.shape[0]):
        if farther[i] > CLOSE:
            terms[i] = positive[i] * log_ratio(p[i], q[i]) + negative[i] * log_ratio(1.0 - p[i], 1.0 - q[i])


def log_ratio(p, q):
    """Return log(p/q)."""
    a: cython.double = (p - q) / (p + q)
    return 2.0 * a * artanh(a * a) if a * a <= CLOSE else log(p / q)


@cython.locals(i=cython.Py_ssize_t, u=cython.double, v=cython.double, one=cython.double, other=cython.double)
def set_coefficients(positive, negative, inverse, inverse_rest, constant, first, second, third, fourth, lean):
    """Set the coefficients of p − r, and of its powers, in the bounds of deviances; `constant` is K for δ < 0.

    Where p > r, δ > 0 for positive labels alone, and otherwise for negative ones: the coefficient of (p − r)⁴ is
    `fourth` plus or minus `lean`.
    """
    for i in range(first.shape[0]):
        u, v = inverse[i], inverse_rest[i]
        one, other = positive[i] * u, negative[i] * v
        first[i] = -2.0 * (one - other)
        one, other = one * u, other * v
        second[i] = one + other
        one, other = one * u, other * v
        third[i] = -2.0 / 3.0 * (one - other)
        fourth[i] = (constant + 0.25) * (one * u + other * v)
        lean[i] = (0.25 - constant) * (one * u - other * v)


@cython.locals(i=cython.Py_ssize_t, d=cython.double)
def set_bounds(fit, centre, doubt, reference, first, second, third, fourth, lean, low, gap):
    """Set the terms of the lower bound less the deviance of the reference, and of the bounds' difference."""
    for i in range(low.shape[0]):
        d = min(max(centre + fit[i], doubt), 1.0 - doubt) - reference[i]
        low[i] = d * (first[i] + d * (second[i] + d * third[i]))
        gap[i] = (d * d) * (d * d * fourth[i] + d * fabs(d) * lean[i])


@cython.locals(i=cython.Py_ssize_t, half=cython.Py_ssize_t, number=cython.Py_ssize_t)
def total(terms):
    """Return the sum of the terms, which are overwritten: the second half is added to the first, and so on."""
    number = terms.shape[0]
    while number > 1:
        half = (number + 1) // 2
        for i in range(number - half):
            terms[i] = terms[i] + terms[half + i]
        number = half
    return terms[0]
