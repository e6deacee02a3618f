# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""A strictly convex quadratic program whose constraints compare pairs of variables: the dual active-set method.

    min  ½ xᵀGx − aᵀx    subject to   x[above_p] − x[below_p] ≥ bound_p,     an index of −1 denoting the constant 0

The method, and its symbols, are those of `working_set`. A normal has two entries, so d costs 2N. Linear dependence is
common, such as around the squares of a grid.
"""

import cython
import numpy as np
from cython.cimports.streamcal.kernels.polynomial import working_set

SOLVED, ITERATION_LIMIT = 0, 1

# Feasibility tolerance, for variables between 0 and 1.
VIOLATION = cython.declare(cython.double, 1e-12)
# A normal is linearly dependent on those of A if the squared norm of its component orthogonal to them is at most this
# fraction. Rounding leaves 1e-30; an independent normal at least 1e-12, for condition numbers of G of up to 1e12.
DEPENDENT = cython.declare(cython.double, 1e-22)
# Limit on changes of the working set per constraint: four times the largest number seen in 20,000 random programs.
ROUNDS = cython.declare(cython.int, 20)


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
        if inverse_factor.shape[0] != n or inverse_factor.shape[1] != n or linear.shape[0] != n:
            raise ValueError(f"{n} variables need an {n} x {n} inverse factor and {n} linear terms")
        for i in range(n):
            for j in range(n):
                self._jt[i * n + j] = inverse_factor[i, j]
        working_set.start_free(self._jt, linear, self._d, self._x)
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
        leaving: cython.Py_ssize_t
        square: cython.double
        self._u[self._q] = 0.0
        while True:
            self.iterations += 1
            if self.iterations > ROUNDS * (self._constraints + 1):
                return False
            square = self._directions(p)
            leaving = working_set.advance(self._x, self._u, self._r, self._z, self._q, self._slack(p), square)
            if leaving == -2:  # infeasible, which only rounding can cause, since constants satisfy all constraints
                self._out[p] = 1
                return True
            if leaving == -1:
                working_set.append(self._jt, self._columns, self._d, self._z, self._q, square)
                self._a[self._q] = p
                self._out[p] = 1
                self._q += 1
                return True
            self._drop(leaving)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _directions(self, p: cython.Py_ssize_t) -> cython.double:
        """Set d, z and r for the normal of p; return zᵀn, 0 where the normal depends on those of A."""
        k: cython.Py_ssize_t
        n: cython.Py_ssize_t = self.size
        value: cython.double
        for k in range(n):
            value = 0.0
            if self._above[p] >= 0:
                value = value + self._jt[k * n + self._above[p]]
            if self._below[p] >= 0:
                value = value - self._jt[k * n + self._below[p]]
            self._d[k] = value
        return working_set.find_directions(self._jt, self._columns, self._d, self._r, self._z, self._q, DEPENDENT)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _drop(self, leaving: cython.Py_ssize_t) -> cython.void:
        """Take a constraint out of A."""
        k: cython.Py_ssize_t
        self._out[self._a[leaving]] = 0
        self._q = self._q - 1
        for k in range(leaving, self._q):
            self._a[k] = self._a[k + 1]
        working_set.drop(self._jt, self._columns, self._u, self._q, leaving)
