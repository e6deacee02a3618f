# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Stiffnesses between points and between blocks; the symbols are those of `solvers/manifold_isotonic.py`."""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.libc.math import sqrt

# In the place of a square of 0: every stiffness above 0 is then above its limit.
TINY = cython.declare(cython.double, 5e-324)


@cython.locals(i=cython.Py_ssize_t, j=cython.Py_ssize_t, m=cython.Py_ssize_t, gap=cython.double, value=cython.double)
def stiffnesses(
    x: cython.const[cython.double][:, ::1],
    share: cython.const[cython.double][::1],
    factor: cython.double,
    stiffest: cython.double,
):
    """Return k_ij = factor · s_i s_j / ‖x_i − x_j‖, at most `stiffest` times the smaller share; 0 on the diagonal.

    At a distance of 0, or where its square underflows, it is the limit; 0 where factor · s_i s_j is 0.
    """
    k: cython.Py_ssize_t = x.shape[0]
    if share.shape[0] != k:
        raise ValueError("lengths differ")
    found = np.zeros((k, k))
    out: cython.double[:, ::1] = found
    squares: cython.double[::1] = np.zeros(k)
    for i in range(k):
        for j in range(i):
            squares[j] = 0.0
        for m in range(x.shape[1]):
            for j in range(i):
                gap = x[i, m] - x[j, m]
                squares[j] += gap * gap
        for j in range(i):
            value = factor * share[i] * share[j]
            out[i, j] = min(value / sqrt(max(squares[j], TINY)), stiffest * min(share[i], share[j]))
            out[j, i] = out[i, j]
    return found


@cython.locals(i=cython.Py_ssize_t, j=cython.Py_ssize_t)
def between_blocks(
    stiffness: cython.const[cython.double][:, ::1],
    block: cython.const[cython.Py_ssize_t][::1],
    number: cython.Py_ssize_t,
):
    """Return the sums of stiffnesses between blocks, 0 on the diagonal; `block` has the block of each point."""
    k: cython.Py_ssize_t = block.shape[0]
    if not stiffness.shape[0] == stiffness.shape[1] == k:
        raise ValueError("lengths differ")
    found = np.zeros((number, number))
    out: cython.double[:, ::1] = found
    rows: cython.double[:, ::1] = np.zeros((number, k))
    for i in range(k):
        if not 0 <= block[i] < number:
            raise ValueError(f"block {block[i]} is none of {number}")
    for i in range(k):
        for j in range(k):
            rows[block[i], j] += stiffness[i, j]
    for i in range(number):
        for j in range(k):
            out[i, block[j]] += rows[i, j]
        out[i, i] = 0.0
    return found
