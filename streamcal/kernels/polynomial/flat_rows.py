# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
# cython: infer_types=True
"""Square matrices that lie flat, row after row, for `monotone_qp.py`, which has the symbols. A row has m entries."""

import cython


def accumulate_gram(
    sums: cython.double[::1], scaled: cython.double[::1], binomial: cython.double[::1], m: cython.Py_ssize_t
) -> cython.void:
    """Set sums[i, j] = Σ_{k≥i} Q_kj, with Q_kj = C(n,k) C(n,j) · scaled[k+j]; m = n + 1 is the length of a row."""
    b = binomial[m - 1]
    for j in range(m):
        sums[(m - 1) * m + j] = b * (binomial[j] * scaled[m - 1 + j])
    for i in range(m - 2, -1, -1):
        b = binomial[i]
        for j in range(m):
            sums[i * m + j] = sums[(i + 1) * m + j] + b * (binomial[j] * scaled[i + j])


def add_row(
    y: cython.double[::1], a: cython.double, matrix: cython.double[::1], j: cython.Py_ssize_t, m: cython.Py_ssize_t
) -> cython.void:
    """Add a · row j of a matrix to y."""
    for k in range(m):
        y[k] += a * matrix[j * m + k]


def eliminate(
    factor: cython.double[::1], i: cython.Py_ssize_t, size: cython.Py_ssize_t, m: cython.Py_ssize_t
) -> cython.void:
    """Make row i, whose pivot is inverted already, a row of Rᵀ, and eliminate it from the rows below."""
    inverse = factor[i * m + i]
    for k in range(i + 1, size):
        factor[i * m + k] *= inverse
    for j in range(i + 1, size):
        a = factor[i * m + j]
        for k in range(j, size):
            factor[j * m + k] -= a * factor[i * m + k]


def substitute(
    x: cython.double[::1], factor: cython.double[::1], size: cython.Py_ssize_t, m: cython.Py_ssize_t
) -> cython.void:
    """Solve R Rᵀ z = x in place; `factor` holds Rᵀ by rows, with the inverses of its diagonal."""
    for i in range(size):
        a = x[i] * factor[i * m + i]
        x[i] = a
        for k in range(i + 1, size):
            x[k] -= factor[i * m + k] * a
    for i in range(size - 1, -1, -1):
        a = x[i] * factor[i * m + i]
        x[i] = a
        for k in range(i):
            x[k] -= factor[k * m + i] * a


def sum_rows(
    hessian: cython.double[::1],
    sums: cython.double[::1],
    rows: cython.Py_ssize_t[::1],
    number: cython.Py_ssize_t,
    m: cython.Py_ssize_t,
) -> cython.void:
    """H_jk = Σ_{l≥k} sums[j, l] for some rows j: all rows at once, since each sum depends on the previous one."""
    for i in range(number):
        hessian[rows[i] * m + m - 1] = sums[rows[i] * m + m - 1]
    for k in range(m - 2, -1, -1):
        for i in range(number):
            j = rows[i] * m + k
            hessian[j] = hessian[j + 1] + sums[j]
