# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The logit and the sigmoid, one number or an array at a time, by the same formula: the two agree to the last bit."""

import cython
import numpy as np
from cython.cimports.libc.math import exp, log, log1p

inf = cython.declare(cython.double, float("inf"))


def logit(p: cython.double) -> cython.double:
    """Return log(p / (1 − p)) for p in [0, 1]; infinite at the ends."""
    if p <= 0.0:
        return -inf
    if p >= 1.0:
        return inf
    return log(p) - log1p(-p)


def sigmoid(z: cython.double) -> cython.double:
    """Return 1 / (1 + exp(−z)), without overflow."""
    e: cython.double
    if z >= 0.0:
        return 1.0 / (1.0 + exp(-z))
    e = exp(z)
    return e / (1.0 + e)


def log_sigmoid(z: cython.double) -> cython.double:
    """Return log(1 / (1 + exp(−z))), without overflow or cancellation."""
    return -log1p(exp(-z)) if z >= 0.0 else z - log1p(exp(z))


def logits(p: cython.const[cython.double][::1]):
    """Return `logit` at every entry, as a new array."""
    i: cython.Py_ssize_t
    result = np.empty(p.shape[0])
    out: cython.double[::1] = result.data
    for i in range(p.shape[0]):
        out[i] = logit(p[i])
    return result


def sigmoids(z: cython.const[cython.double][::1]):
    """Return `sigmoid` at every entry, as a new array."""
    i: cython.Py_ssize_t
    result = np.empty(z.shape[0])
    out: cython.double[::1] = result.data
    for i in range(z.shape[0]):
        out[i] = sigmoid(z[i])
    return result
