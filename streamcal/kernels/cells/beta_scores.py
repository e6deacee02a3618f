# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The score of a bin: the logarithm of the marginal likelihood of its labels; and an upper bound for whole weights.

    n, m            the weight of a bin, and its positive weight
    α, β            the weights of its positive and negative pseudo-observations, both above 0
    score           ln Β(m + α, n − m + β) / Β(α, β)

Each observation multiplies the likelihood by the probability that the others give its label, at most 1: without
positives, or without negatives, the score is at most 0. With both, Β(m + α, n − m + β) ≤ Β(m, n − m). And integrating
(t^(α−1) − 1)·((1 − t)^(β−1) − 1) ≥ 0 for α, β ≤ 1 gives Β(α, β) ≥ 1/α + 1/β − 1 ≥ 4/(α + β) − 1. The latter is also
true for α + β = 2, where 1/Β(α, β) = sin(πα)/(π(1 − α)) ≤ 1. Hence, for α + β = s ≤ 1 or s = 2,

    score ≤ ln Γ(m) + ln Γ(n − m) − ln Γ(n) − ln(4/s − 1)

Bounds are multiples of `UNIT`, so that sums of them are exact in any order.
"""

from __future__ import annotations

import math

import cython
import numpy as np
from cython.cimports.libc.math import floor, log, log1p

UNIT = 2.0**-16
"""Bounds are multiples of this."""
LARGEST = 2.0**24
"""The largest weight of a bin that can be bounded: there the rounding of ln Γ is small against `UNIT`."""

_LOG_TWO_PI = cython.declare(cython.double, math.log(2.0 * math.pi))
_PER_UNIT = cython.declare(cython.double, 1.0 / UNIT)
_UNIT = cython.declare(cython.double, UNIT)
# ln Γ of 0 … 8,191; that of 0 is never read.
_KNOWN = cython.declare(
    cython.double[::1], UNIT * np.round(np.cumsum(np.log(np.maximum(np.arange(2.0**13) - 1.0, 1.0))) / UNIT)
)
# Arguments of the beta function below this one are raised: Stirling's series is accurate to 1e-16 from there on.
_LARGE = cython.declare(cython.double, 10.0)
# A product beyond this is replaced by its logarithm: one more factor, up to the heaviest weight, does not overflow.
_LONG = cython.declare(cython.double, 1e100)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _stirling(x: cython.double) -> cython.double:
    """Return ln Γ(x) − (x − ½) ln x + x − ½ ln 2π for x ≥ 10."""
    z: cython.double = 1.0 / (x * x)
    return (
        1.0 / 12.0
        - z
        * (
            1.0 / 360.0
            - z * (1.0 / 1260.0 - z * (1.0 / 1680.0 - z * (1.0 / 1188.0 - z * (691.0 / 360360.0 - z * (1.0 / 156.0)))))
        )
    ) / x


def log_beta(a: cython.double, b: cython.double) -> cython.double:
    """Return ln Β(a, b), a and b > 0, to some 1e-16·(|ln Β| + 1): no difference of two large logarithms."""
    above: cython.double = 1.0
    below: cython.double = 1.0
    total: cython.double = 0.0
    c: cython.double = a + b
    while a < _LARGE or b < _LARGE:  # Β(a, b) = Β(a + 1, b)·(a + b)/a
        above *= c
        if a < _LARGE:
            below *= a
            a += 1.0
        else:
            below *= b
            b += 1.0
        c = a + b
        if above > _LONG:
            total += log(above)
            above = 1.0
    if above != 1.0 or below != 1.0:
        total += log(above / below)
    total += a * (log1p(-b / c) if a > b else log(a / c)) + b * (log1p(-a / c) if b > a else log(b / c))
    return total + 0.5 * (_LOG_TWO_PI + log(c / a / b)) + (_stirling(a) + _stirling(b) - _stirling(c))


def bin_score(n: cython.double, m: cython.double, alpha: cython.double, beta: cython.double) -> cython.double:
    """Return the logarithm of Β(m + α, n − m + β) / Β(α, β)."""
    return log_beta(m + alpha, max(n - m, 0.0) + beta) - log_beta(alpha, beta)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _in_units(x: cython.double) -> cython.double:
    return floor(x * _PER_UNIT + 0.5) * _UNIT


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _log_gamma(x: cython.double) -> cython.double:
    """Return ln Γ of a whole number from 1 to `LARGEST`, to the nearest multiple of `UNIT`."""
    if x < _KNOWN.shape[0]:
        return _KNOWN[cython.cast(cython.Py_ssize_t, x)]
    return _in_units((x - 0.5) * log(x) - x + 0.5 * _LOG_TWO_PI + _stirling(x))


def share_of_both(size: cython.double) -> cython.double:
    """Return −ln(4/s − 1) for `bin_bound`, raised to a multiple of `UNIT` and by the rounding of the three ln Γ."""
    return _in_units(-log(4.0 / size - 1.0)) + 4.0 * _UNIT


def bin_bound(n: cython.double, m: cython.double, share: cython.double) -> cython.double:
    """Return an upper bound of a score; n and m are whole, m ≤ n ≤ `LARGEST`, and `share` = `share_of_both(α + β)`."""
    if not 0.0 < m < n:
        return 0.0
    return _log_gamma(m) + _log_gamma(n - m) - _log_gamma(n) + share


@cython.locals(i=cython.Py_ssize_t)
def bin_scores(
    n: cython.const[cython.double][::1],
    m: cython.const[cython.double][::1],
    alpha: cython.const[cython.double][::1],
    beta: cython.const[cython.double][::1],
):
    """Return ln Β(m + α, n − m + β) / Β(α, β) for each bin of weight n, m of it positive; all of shape (bins,)."""
    scores = np.empty(n.shape[0])
    out: cython.double[::1] = scores
    if not n.shape[0] == m.shape[0] == alpha.shape[0] == beta.shape[0]:
        raise ValueError("lengths differ")
    for i in range(n.shape[0]):
        out[i] = bin_score(n[i], m[i], alpha[i], beta[i])
    return scores
