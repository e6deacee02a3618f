# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Chebyshev polynomials on [0, 1]: sums of them over weighted observations, and series of them.

Symbols:

    k        degree; u in [0, 1] the scaled score
    T_m      Chebyshev polynomials in x = 2u − 1:  T_0 = 1,  T_1 = x,  T_{m+1} = 2x T_m − T_{m−1};  |T_m| <= 1
    moments  Σ w T_m(u), m = 0..2k.  They determine the Gram matrix of T_0..T_k: T_i T_j = ½ (T_{i+j} + T_{|i−j|})
    cross    Σ w y T_m(u), m = 0..k

The recurrence runs from the nearer end: with e = min(u, 1 − u), which is exact, and the steps d_{m+1} = T_{m+1} − T_m

    d_{m+1} = d_m − 4e T_m,     T_{m+1} = T_m + d_{m+1},     d_1 = −2e

gives T_m for u >= ½, and (−1)ᵐ T_m below. In this form (Reinsch's) the error is about m rounding errors, where the
three-term one has m² of them near the ends.
"""

import cython
import numpy as np
from cython.cimports.streamcal.kernels.common.compensated import add_terms


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _add(
    moments: cython.double[::1],
    cross: cython.double[::1],
    moments_low: cython.double[::1],
    cross_low: cython.double[::1],
    terms: cython.double[::1],
    u: cython.double,
    w: cython.double,
    positive: cython.double,
) -> cython.void:
    m: cython.Py_ssize_t
    degree: cython.Py_ssize_t = cross.shape[0] - 1
    e: cython.double = u if u < 0.5 else 1.0 - u
    sign: cython.double = -1.0 if u < 0.5 else 1.0
    step: cython.double = -2.0 * e
    value: cython.double = 1.0
    turn: cython.double = 1.0
    for m in range(2 * degree + 1):
        terms[m] = turn * value
        value = value + step
        step = step - 4.0 * e * value
        turn = turn * sign
    if positive != 0.0:
        for m in range(degree + 1):
            terms[2 * degree + 1 + m] = positive * terms[m]
        add_terms(cross, cross_low, terms[2 * degree + 1 :], degree + 1)
    for m in range(2 * degree + 1):
        terms[m] = w * terms[m]
    add_terms(moments, moments_low, terms, 2 * degree + 1)


def _room(moments, cross, low):
    """Return an array for the terms of one observation; `ValueError` unless the sums and `low` fit together."""
    sizes = [len(moments), len(cross), *map(len, low)]
    if sizes != [2 * len(cross) - 1, len(cross)] * 2:
        raise ValueError(f"{sizes[0]} moments and {sizes[1]} cross sums do not go together, or not with {sizes[2:]}")
    return np.empty(len(moments) + len(cross))


def add(
    moments: cython.double[::1],
    cross: cython.double[::1],
    low,
    u: cython.double,
    w: cython.double,
    positive: cython.double,
):
    """Add weight w at u, `positive` of it with label 1, to 2k + 1 moments and k + 1 cross sums in place. O(k).

    `low` has two arrays of the same sizes, for what the sums drop in rounding (`streamcal.kernels.common.compensated`).
    Negative numbers undo an earlier `add`; then `settle` both sums.
    """
    _add(moments, cross, low[0], low[1], _room(moments, cross, low), u, w, positive)


def add_many(
    moments: cython.double[::1],
    cross: cython.double[::1],
    low,
    u: cython.const[cython.double][::1],
    w: cython.const[cython.double][:],
    positive: cython.const[cython.double][::1],
):
    """Do `add` for every row of three arrays of one length, in order: bit for bit the result of the loop."""
    i: cython.Py_ssize_t
    moments_low: cython.double[::1] = low[0]
    cross_low: cython.double[::1] = low[1]
    terms: cython.double[::1] = _room(moments, cross, low)
    if not u.shape[0] == w.shape[0] == positive.shape[0]:
        raise ValueError(f"lengths differ: {u.shape[0]}, {w.shape[0]}, {positive.shape[0]}")
    for i in range(u.shape[0]):
        _add(moments, cross, moments_low, cross_low, terms, u[i], w[i], positive[i])


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _evaluate(c: cython.const[cython.double][::1], u: cython.double) -> cython.double:
    m: cython.Py_ssize_t
    e: cython.double = u if u < 0.5 else 1.0 - u
    sign: cython.double = -1.0 if u < 0.5 else 1.0
    step: cython.double = -2.0 * e
    value: cython.double = 1.0
    turn: cython.double = 1.0
    total: cython.double = 0.0
    for m in range(c.shape[0]):
        total = total + turn * (c[m] * value)
        value = value + step
        step = step - 4.0 * e * value
        turn = turn * sign
    return total


@cython.ccall
def evaluate(coefficients: cython.const[cython.double][::1], u: cython.double) -> cython.double:
    """Σ c_m T_m(u) at u in [0, 1]. O(k); the error is a few times k ulps of Σ |c_m|."""
    return _evaluate(coefficients, u)


def evaluate_many(coefficients: cython.const[cython.double][::1], u: cython.const[cython.double][::1]):
    """Return `evaluate` at every entry of the array u, as a new array."""
    i: cython.Py_ssize_t
    result = np.empty(u.shape[0])
    out: cython.double[::1] = result.data
    for i in range(u.shape[0]):
        out[i] = _evaluate(coefficients, u[i])
    return result
