# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""A strictly convex quadratic program whose constraints compare pairs of variables: the dual active-set method.

    min  ½ xᵀGx − aᵀx    subject to   x[above_p] − x[below_p] ≥ bound_p,     an index of −1 denoting the constant 0

The method is that of Goldfarb & Idnani (1983). It starts at the unconstrained minimum and adds the constraint that
is violated most to the working set, until none is violated. Symbols, after that paper:

    L       the Cholesky factor, G = LLᵀ
    A       the working set: q constraints with independent normals, held as equations;  u ≥ 0 their multipliers
    Jᵀ      starts as L⁻¹ and is kept such that JᵀN = [R; 0] for the normals N of A.  Rows of `_jt` are columns of J
    R       upper triangular, q × q
    n, d    the normal of the entering constraint, d = Jᵀn
    z       Σ_{j≥q} d_j J_j, the step of x;   r = R⁻¹ d_{0..q−1}, the decrease of u in that step

A normal has two entries, so d costs 2N; adding a constraint is one Householder reflection of the rows q..N−1, whose
product with them is z again, up to one row. Linear dependence, such as around the squares of a grid, needs no special
treatment: then z is 0, and a constraint leaves the working set before the new one enters.
"""

import cython
import numpy as np
from cython.cimports.libc.math import sqrt

SOLVED, ITERATION_LIMIT = 0, 1

# Feasibility tolerance, for variables between 0 and 1.
VIOLATION = cython.declare(cython.double, 1e-12)
# A normal is linearly dependent on those of A if the squared norm of its component orthogonal to them is at most this
# fraction. Rounding leaves 1e-30; an independent normal at least 1e-12, for condition numbers of G of up to 1e12.
DEPENDENT = cython.declare(cython.double, 1e-22)
# Limit on changes of the working set per constraint: four times the largest number seen in 20,000 random programs.
ROUNDS = cython.declare(cython.int, 20)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _add_row(
    y: cython.double[::1], a: cython.double, matrix: cython.double[::1], row: cython.Py_ssize_t, n: cython.Py_ssize_t
) -> cython.void:
    """Add a · a row of a flat matrix to y; the compiler vectorises loops over array arguments."""
    i: cython.Py_ssize_t
    for i in range(n):
        y[i] += a * matrix[row * n + i]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _add_to_row(
    matrix: cython.double[::1], row: cython.Py_ssize_t, a: cython.double, y: cython.double[::1], n: cython.Py_ssize_t
) -> cython.void:
    """Add a · y to a row of a flat matrix."""
    i: cython.Py_ssize_t
    for i in range(n):
        matrix[row * n + i] += a * y[i]


@cython.cfunc
@cython.inline
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


@cython.cclass
class DifferenceQP:
    """Solver for one set of constraints, given by the arrays `above`, `below` and `bound`.

    `solve` returns a status; then `x` is the point, `working` the list of constraints held as equations and
    `multipliers` an array over all of them. There is no warm start, so that the solution depends only on the data.
    """

    size = cython.declare(cython.Py_ssize_t, visibility="readonly")
    x = cython.declare(object, visibility="readonly")
    multipliers = cython.declare(object, visibility="readonly")
    iterations = cython.declare(cython.int, visibility="readonly")
    _q: cython.Py_ssize_t
    _constraints: cython.Py_ssize_t
    _above: cython.Py_ssize_t[::1]
    _below: cython.Py_ssize_t[::1]
    _bound: cython.double[::1]
    _x: cython.double[::1]
    _all_u: cython.double[::1]
    _u: cython.double[::1]
    _a: cython.Py_ssize_t[::1]  # A, in the order of the columns of R
    _out: cython.char[::1]  # 1 for constraints that may not enter: in A, or violated only by rounding
    _jt: cython.double[::1]  # flat, row after row
    _columns: cython.double[:, ::1]  # row k is column k of R
    _d: cython.double[::1]
    _r: cython.double[::1]
    _z: cython.double[::1]

    def __init__(self, size: cython.Py_ssize_t, above, below, bound):
        above, below = np.array(above, dtype=np.intp), np.array(below, dtype=np.intp)
        bound = np.array(bound, dtype=np.float64)
        if not above.shape == below.shape == bound.shape or size < 1:
            raise ValueError(f"shapes differ: {above.shape}, {below.shape}, {bound.shape}")
        if len(above) and not (min(above.min(), below.min()) >= -1 and max(above.max(), below.max()) < size):
            raise ValueError(f"indices of variables must lie in 0..{size - 1}, or be -1 for the number 0")
        self.size, self._constraints = size, len(above)
        self._above, self._below, self._bound = above.data, below.data, bound.data
        self.x, self.multipliers = np.zeros(size), np.zeros(len(above))
        self._x, self._all_u = self.x.data, self.multipliers.data
        self._u, self._r = np.zeros(size + 1).data, np.zeros(size + 1).data
        self._d, self._z = np.zeros(size).data, np.zeros(size).data
        self._a = np.zeros(size + 1, dtype=np.intp).data
        self._out = np.zeros(len(above), dtype=np.int8).data
        self._jt, self._columns = np.zeros(size * size).data, np.zeros((size, size)).data

    @property
    def working(self):
        """The constraints held as equations."""
        return [self._a[k] for k in range(self._q)]

    def solve(self, inverse_factor: cython.const[cython.double][:, ::1], linear: cython.const[cython.double][::1]):
        """Solve for L⁻¹ (N × N, lower triangular, C order) and a (N); returns SOLVED or ITERATION_LIMIT."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        n: cython.Py_ssize_t = self.size
        total: cython.double
        if inverse_factor.shape[0] != n or inverse_factor.shape[1] != n or linear.shape[0] != n:
            raise ValueError(f"{n} variables need an {n} x {n} inverse factor and {n} linear terms")
        for i in range(n):  # x = L⁻ᵀ (L⁻¹ a)
            total = 0.0
            for j in range(n):
                self._jt[i * n + j] = inverse_factor[i, j]
            for j in range(i + 1):
                total = total + self._jt[i * n + j] * linear[j]
            self._d[i] = total
            self._x[i] = 0.0
        for i in range(n):
            for j in range(i + 1):
                self._x[j] += self._d[i] * self._jt[i * n + j]
        self._q = 0
        self.iterations = 0
        for i in range(self._constraints):
            self._out[i] = 0
            self._all_u[i] = 0.0
        status = self._iterate()
        for i in range(self._q):
            self._all_u[self._a[i]] = self._u[i]
        return status

    @cython.cfunc
    def _iterate(self) -> cython.int:
        entering: cython.Py_ssize_t = self._most_violated()
        while entering >= 0:
            if not self._take_in(entering):
                return 1
            entering = self._most_violated()
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _slack(self, p: cython.Py_ssize_t) -> cython.double:
        value: cython.double = -self._bound[p]
        if self._above[p] >= 0:
            value = value + self._x[self._above[p]]
        if self._below[p] >= 0:
            value = value - self._x[self._below[p]]
        return value

    @cython.cfunc
    @cython.exceptval(check=False)
    def _most_violated(self) -> cython.Py_ssize_t:
        """Return the constraint that is violated most; −1 if none is violated."""
        p: cython.Py_ssize_t
        worst: cython.Py_ssize_t = -1
        slack: cython.double
        least: cython.double = -VIOLATION
        for p in range(self._constraints):
            if not self._out[p]:
                slack = self._slack(p)
                if slack < least:
                    least, worst = slack, p
        return worst

    @cython.cfunc
    def _take_in(self, p: cython.Py_ssize_t) -> cython.bint:
        """Add constraint p to A; constraints whose multipliers would become negative leave A on the way."""
        k: cython.Py_ssize_t
        leaving: cython.Py_ssize_t
        square: cython.double
        longest: cython.double
        step: cython.double
        own: cython.double = 0.0
        while True:
            self.iterations += 1
            if self.iterations > ROUNDS * (self._constraints + 1):
                return False
            square = self._directions(p)
            leaving, longest = -1, 0.0  # the step at which the first multiplier becomes 0
            for k in range(self._q):
                if self._r[k] > 0.0 and (leaving < 0 or self._u[k] < longest * self._r[k]):
                    leaving, longest = k, self._u[k] / self._r[k]
            if square == 0.0:
                if leaving < 0:  # infeasible, which only rounding can cause, since constants satisfy all constraints
                    self._out[p] = 1
                    return True
                step = longest
            else:
                step = -self._slack(p) / square
                if leaving >= 0 and longest < step:
                    step = longest
                else:
                    leaving = -1
                for k in range(self.size):
                    self._x[k] += step * self._z[k]
            for k in range(self._q):
                self._u[k] -= step * self._r[k]
            own = own + step
            if leaving < 0:
                self._append(p, square, own)
                return True
            self._drop(leaving)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _directions(self, p: cython.Py_ssize_t) -> cython.double:
        """d, z and r for the normal of p; returns zᵀn = Σ_{j≥q} d_j², 0 where the normal depends on those of A."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        n: cython.Py_ssize_t = self.size
        q: cython.Py_ssize_t = self._q
        value: cython.double
        inside: cython.double = 0.0
        square: cython.double = 0.0
        for k in range(n):
            value = 0.0
            if self._above[p] >= 0:
                value = value + self._jt[k * n + self._above[p]]
            if self._below[p] >= 0:
                value = value - self._jt[k * n + self._below[p]]
            self._d[k] = value
            if k < q:
                inside = inside + value * value
            else:
                square = square + value * value
            self._z[k] = 0.0
        for k in range(q, n):
            _add_row(self._z, self._d[k], self._jt, k, n)
        for k in range(q):
            self._r[k] = self._d[k]
        for k in range(q - 1, -1, -1):
            self._r[k] = self._r[k] / self._columns[k, k]
            value = self._r[k]
            for i in range(k):
                self._r[i] -= value * self._columns[k, i]
        return square if square > DEPENDENT * (inside + square) else 0.0

    @cython.cfunc
    @cython.exceptval(check=False)
    def _append(self, p: cython.Py_ssize_t, square: cython.double, multiplier: cython.double) -> cython.void:
        """Append p to A: reflect the rows q..N−1 of Jᵀ so that d becomes a multiple of its entry q."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        n: cython.Py_ssize_t = self.size
        q: cython.Py_ssize_t = self._q
        length: cython.double = sqrt(square)
        factor: cython.double
        if self._d[q] < 0.0:
            length = -length
        for i in range(q):
            self._columns[q, i] = self._d[i]
        self._columns[q, q] = -length
        factor = 1.0 / (
            square + length * self._d[q]
        )  # 2/vᵀv with v = d_{q..} + length·e_q, and so vᵀJᵀ = z + length·J_q
        _add_row(self._z, length, self._jt, q, n)
        self._d[q] += length
        for k in range(q, n):
            _add_to_row(self._jt, k, -(factor * self._d[k]), self._z, n)
        self._a[q] = p
        self._u[q] = multiplier
        self._out[p] = 1
        self._q = q + 1

    @cython.cfunc
    @cython.exceptval(check=False)
    def _drop(self, leaving: cython.Py_ssize_t) -> cython.void:
        """Remove a column of R, and restore the triangular form by plane rotations."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        n: cython.Py_ssize_t = self.size
        self._out[self._a[leaving]] = 0
        self._q = self._q - 1
        for k in range(leaving, self._q):
            self._a[k] = self._a[k + 1]
            self._u[k] = self._u[k + 1]
            for i in range(k + 2):
                self._columns[k, i] = self._columns[k + 1, i]
        for k in range(leaving, self._q):
            a: cython.double = self._columns[k, k]
            b: cython.double = self._columns[k, k + 1]
            length: cython.double = sqrt(a * a + b * b)
            c: cython.double = a / length
            s: cython.double = b / length
            for i in range(k, self._q):
                a, b = self._columns[i, k], self._columns[i, k + 1]
                self._columns[i, k] = c * a + s * b
                self._columns[i, k + 1] = c * b - s * a
            _rotate(self._jt, k, c, s, n)
