# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The working set of the dual active-set method of Goldfarb & Idnani (1983), for dense programs of N variables.

    min  ½ xᵀGx − aᵀx    subject to   nᵀx ≥ bound for every normal n

The method starts at the unconstrained minimum and adds the constraint that is violated most to the working set, until
none is violated. Symbols, after that paper:

    L       the Cholesky factor, G = LLᵀ
    A       the working set: q constraints with independent normals, held as equations;  u ≥ 0 their multipliers
    Jᵀ      starts as L⁻¹ and is kept such that JᵀN = [R; 0] for the normals N of A.  Rows of `jt` are columns of J
    R       upper triangular, q × q.  Row k of `columns` is column k of R
    n, d    the normal of the entering constraint, d = Jᵀn
    z       Σ_{j≥q} d_j J_j, the step of x;   r = R⁻¹ d_{0..q−1}, the decrease of u in that step

Adding a constraint is one Householder reflection of the rows q..N−1 of Jᵀ, whose product with them is z again, up to
one row. A normal that depends on those of A needs no special treatment: then z is 0, and a constraint leaves the
working set before the new one enters. `jt` is flat, row after row: the compiler vectorises loops over it.
"""

import cython
from cython.cimports.libc.math import sqrt


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _add_row(
    y: cython.double[::1],
    a: cython.double,
    matrix: cython.const[cython.double][::1],
    row: cython.Py_ssize_t,
    n: cython.Py_ssize_t,
) -> cython.void:
    """Add a · a row of a flat matrix to y."""
    i: cython.Py_ssize_t
    for i in range(n):
        y[i] += a * matrix[row * n + i]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _add_to_row(
    matrix: cython.double[::1],
    row: cython.Py_ssize_t,
    a: cython.double,
    y: cython.const[cython.double][::1],
    n: cython.Py_ssize_t,
) -> cython.void:
    """Add a · y to a row of a flat matrix."""
    i: cython.Py_ssize_t
    for i in range(n):
        matrix[row * n + i] += a * y[i]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _rotate(
    matrix: cython.double[::1], row: cython.Py_ssize_t, c: cython.double, s: cython.double, n: cython.Py_ssize_t
) -> cython.void:
    """Turn a row of a flat matrix and the next one: (a, b) ← (c·a + s·b, c·b − s·a)."""
    i: cython.Py_ssize_t
    a: cython.double
    b: cython.double
    for i in range(row * n, row * n + n):
        a, b = matrix[i], matrix[i + n]
        matrix[i] = c * a + s * b
        matrix[i + n] = c * b - s * a


def start_free(
    jt: cython.double[::1], a: cython.const[cython.double][::1], d: cython.double[::1], x: cython.double[::1]
) -> cython.void:
    """Set x to the unconstrained minimum L⁻ᵀ(L⁻¹a), where Jᵀ is L⁻¹."""
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    n: cython.Py_ssize_t = d.shape[0]
    total: cython.double
    for i in range(n):
        total = 0.0
        for j in range(i + 1):
            total = total + jt[i * n + j] * a[j]
        d[i] = total
        x[i] = 0.0
    for i in range(n):
        for j in range(i + 1):
            x[j] += d[i] * jt[i * n + j]


def project(
    jt: cython.const[cython.double][::1], normal: cython.const[cython.double][::1], d: cython.double[::1]
) -> cython.void:
    """Set d = Jᵀn."""
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    n: cython.Py_ssize_t = d.shape[0]
    value: cython.double
    for k in range(n):
        value = 0.0
        for i in range(n):
            value += jt[k * n + i] * normal[i]
        d[k] = value


def find_directions(
    jt: cython.const[cython.double][::1],
    columns: cython.const[cython.double][:, ::1],
    d: cython.const[cython.double][::1],
    r: cython.double[::1],
    z: cython.double[::1],
    q: cython.Py_ssize_t,
    dependent: cython.double,
) -> cython.double:
    """Set z and r for d; return zᵀn = Σ_{j≥q} d_j², 0 if that is at most the share `dependent` of Σ d_j²."""
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    n: cython.Py_ssize_t = d.shape[0]
    value: cython.double
    inside: cython.double = 0.0
    square: cython.double = 0.0
    for k in range(n):
        z[k] = 0.0
    for k in range(q):
        inside = inside + d[k] * d[k]
        r[k] = d[k]
    for k in range(q, n):
        square = square + d[k] * d[k]
        _add_row(z, d[k], jt, k, n)
    for k in range(q - 1, -1, -1):
        r[k] = r[k] / columns[k, k]
        value = r[k]
        for i in range(k):
            r[i] -= value * columns[k, i]
    return square if square > dependent * (inside + square) else 0.0


def advance(
    x: cython.double[::1],
    u: cython.double[::1],
    r: cython.const[cython.double][::1],
    z: cython.const[cython.double][::1],
    q: cython.Py_ssize_t,
    slack: cython.double,
    square: cython.double,
) -> cython.Py_ssize_t:
    """Move x and u until the entering constraint holds, or the first multiplier of A is 0.

    Return −1 in the first case and the place of the multiplier in the second; −2, without a move, where the normal
    depends on those of A and no multiplier decreases: no x satisfies A and the constraint. u[q] is the multiplier of
    the entering constraint, 0 before the first move.
    """
    k: cython.Py_ssize_t
    leaving: cython.Py_ssize_t = -1
    longest: cython.double = 0.0  # the step at which the first multiplier becomes 0
    step: cython.double
    for k in range(q):
        if r[k] > 0.0 and (leaving < 0 or u[k] < longest * r[k]):
            leaving, longest = k, u[k] / r[k]
    step = longest
    if square != 0.0:
        step = -slack / square
        if leaving >= 0 and longest < step:
            step = longest
        else:
            leaving = -1
        for k in range(z.shape[0]):
            x[k] += step * z[k]
    elif leaving < 0:
        return -2
    for k in range(q):
        u[k] -= step * r[k]
    u[q] += step
    return leaving


def append(
    jt: cython.double[::1],
    columns: cython.double[:, ::1],
    d: cython.double[::1],
    z: cython.double[::1],
    q: cython.Py_ssize_t,
    square: cython.double,
) -> cython.void:
    """Make d column q of R: reflect the rows q..N−1 of Jᵀ so that d becomes a multiple of its entry q."""
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    n: cython.Py_ssize_t = d.shape[0]
    length: cython.double = sqrt(square)
    factor: cython.double
    if d[q] < 0.0:
        length = -length
    for i in range(q):
        columns[q, i] = d[i]
    columns[q, q] = -length
    # 2/vᵀv with v = d_{q..} + length·e_q, and so vᵀJᵀ = z + length·J_q
    factor = 1.0 / (square + length * d[q])
    _add_row(z, length, jt, q, n)
    d[q] += length
    for k in range(q, n):
        _add_to_row(jt, k, -(factor * d[k]), z, n)


def drop(
    jt: cython.double[::1],
    columns: cython.double[:, ::1],
    u: cython.double[::1],
    q: cython.Py_ssize_t,
    leaving: cython.Py_ssize_t,
) -> cython.void:
    """Remove a column of R and its multiplier; q is the number left. Plane rotations make R triangular again."""
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    n: cython.Py_ssize_t = columns.shape[0]
    a: cython.double
    b: cython.double
    c: cython.double
    s: cython.double
    length: cython.double
    for k in range(leaving, q):
        for i in range(k + 2):
            columns[k, i] = columns[k + 1, i]
    for k in range(leaving, q + 1):  # that of the entering constraint, too
        u[k] = u[k + 1]
    for k in range(leaving, q):
        a, b = columns[k, k], columns[k, k + 1]
        length = sqrt(a * a + b * b)
        if length == 0.0:
            continue
        c, s = a / length, b / length
        for i in range(k, q):
            a, b = columns[i, k], columns[i, k + 1]
            columns[i, k] = c * a + s * b
            columns[i, k + 1] = c * b - s * a
        _rotate(jt, k, c, s, n)
