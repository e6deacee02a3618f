# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Minima of small dense quadratic functions under linear equations, by Cholesky factors, in place."""

import cython
from cython.cimports.libc.math import sqrt


def factorise(matrix: cython.double[:, ::1], n: cython.Py_ssize_t) -> cython.bint:
    """Replace the lower triangle of a matrix LLᵀ by L; return False if the matrix is not positive definite."""
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    k: cython.Py_ssize_t
    total: cython.double
    for i in range(n):
        for j in range(i + 1):
            total = matrix[i, j]
            for k in range(j):
                total -= matrix[i, k] * matrix[j, k]
            if i > j:
                matrix[i, j] = total / matrix[j, j]
            elif total > 0.0:
                matrix[i, i] = sqrt(total)
            else:
                return False
    return True


def invert(
    factor: cython.const[cython.double][:, ::1], inverse: cython.double[::1], n: cython.Py_ssize_t
) -> cython.void:
    """Set a flat matrix to L⁻¹."""
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    k: cython.Py_ssize_t
    total: cython.double
    for j in range(n):
        for i in range(n):
            inverse[i * n + j] = 0.0
        inverse[j * n + j] = 1.0 / factor[j, j]
        for i in range(j + 1, n):
            total = 0.0
            for k in range(j, i):
                total += factor[i, k] * inverse[k * n + j]
            inverse[i * n + j] = -total / factor[i, i]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _forward(factor: cython.double[:, ::1], x: cython.double[::1], n: cython.Py_ssize_t) -> cython.void:
    """Multiply x by L⁻¹."""
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    for i in range(n):
        for j in range(i):
            x[i] -= factor[i, j] * x[j]
        x[i] /= factor[i, i]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _backward(factor: cython.double[:, ::1], x: cython.double[::1], n: cython.Py_ssize_t) -> cython.void:
    """Multiply x by L⁻ᵀ."""
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            x[i] -= factor[j, i] * x[j]
        x[i] /= factor[i, i]


def minimise(
    h: cython.double[:, ::1],
    d: cython.double[::1],
    normals: cython.double[:, ::1],
    bound: cython.double[::1],
    scratch: cython.double[:, ::1],
    number: cython.Py_ssize_t,
) -> cython.bint:
    """Replace d by the x that minimises ½xᵀHx − dᵀx subject to Nx = bound, and `bound` by the multipliers.

    Return False where H, or the Schur complement NH⁻¹Nᵀ, is not positive definite. N has `number` rows; `scratch` is
    as large as H.
    """
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    k: cython.Py_ssize_t
    n: cython.Py_ssize_t = d.shape[0]
    total: cython.double
    if not factorise(h, n):
        return False
    _forward(h, d, n)
    for k in range(number):
        _forward(h, normals[k], n)
        for i in range(n):
            bound[k] -= normals[k, i] * d[i]
        for j in range(k + 1):
            total = 0.0
            for i in range(n):
                total += normals[k, i] * normals[j, i]
            scratch[k, j] = total
    if not factorise(scratch, number):
        return False
    _forward(scratch, bound, number)
    _backward(scratch, bound, number)
    for k in range(number):
        for i in range(n):
            d[i] += bound[k] * normals[k, i]
    _backward(h, d, n)
    return True
