# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Monotone Bernstein least squares: a dense active-set method that goes on from the last active set.

The problem, per unit of weight W:

    min  ½ cᵀQc − rᵀc   subject to   0 ≤ c_0 ≤ c_1 ≤ … ≤ c_n ≤ 1,      Q = VᵀV / W,  r = Vᵀy / W

in the increments d_0 = c_0, d_j = c_j − c_{j−1}, so that the constraints are d ≥ 0 and Σd ≤ 1:

    H = LᵀQL    H_jk = Σ_{i≥j, l≥k} Q_il, where c = Ld;  H also has `ridge` added to its diagonal for j ≥ 1
    g = Lᵀr     g_j = Σ_{i≥j} r_i
    F           the free set: the d_j that may be positive, in ascending order; the other d_j are 0
    full        whether Σd = 1 is held as an equation;  λ ≥ 0 its multiplier, 0 unless full
    optimum     (Hd − g)_j + λ = 0 for j in F and ≥ 0 for the others

One solve first drops from the old F whatever comes out negative, until the minimum on F is feasible: in a
stream that is nearly always F itself, and nearly always it is also optimal, and the solve is over. Otherwise
variables enter one at a time (the primal active-set method of Lawson & Hanson, with Σd ≤ 1 beside d ≥ 0).
The factor of H_FF is made anew whenever F changes, so the result depends on the data and the final F only.
"""

import cython
import numpy as np
from cython.cimports.libc.math import isfinite, sqrt

MAX_DEGREE = 50

RIDGE = 1e-12
"""Added to H_jj, j >= 1: a penalty ½ ridge Σ(c_j − c_{j−1})². It makes the solution unique where the data do
not (one distinct score, fewer scores than coefficients) by choosing the flattest curve."""

DUAL_TOLERANCE = 1e-15
"""A variable enters when its reduced gradient lies below minus this: some ten times the rounding error of a
gradient whose terms sum to at most 1. Anything smaller would let noise swap variables for ever."""

SUM_TOLERANCE = 4e-16
"""Σd may exceed 1 by two ulps before the constraint becomes active; the coefficients are cut at 1."""

PIVOT_TOLERANCE = 1e-15
"""A pivot that is less than this fraction of its diagonal is rounding error: the column depends on those
before it, and is refused."""

SINGULAR = 1e-6
"""A smallest pivot below this fraction of its diagonal calls for iterative refinement, `REFINEMENTS` times:
the factor alone would leave a residual of about 1e-16 divided by that fraction."""
REFINEMENTS = 2

ACCEPTED_RESIDUAL = 1e-8
"""If the iterations run out, the point is still a solution when its KKT residual is at most this."""

SOLVED, NO_DATA, ITERATION_LIMIT, NOT_FINITE = 0, 1, 2, 3
STATUS = ("solved", "no data", "iteration limit", "not finite")

_SOLVED = cython.declare(cython.int, SOLVED)
_NO_DATA = cython.declare(cython.int, NO_DATA)
_ITERATION_LIMIT = cython.declare(cython.int, ITERATION_LIMIT)
_NOT_FINITE = cython.declare(cython.int, NOT_FINITE)
_DUAL_TOLERANCE = cython.declare(cython.double, DUAL_TOLERANCE)
_SUM_LIMIT = cython.declare(cython.double, 1.0 + SUM_TOLERANCE)
_PIVOT_TOLERANCE = cython.declare(cython.double, PIVOT_TOLERANCE)
_SINGULAR = cython.declare(cython.double, SINGULAR)
_REFINEMENTS = cython.declare(cython.int, REFINEMENTS)
_ACCEPTED_RESIDUAL = cython.declare(cython.double, ACCEPTED_RESIDUAL)


def _row(n):
    """C(n, 0..n), exact integers rounded once."""
    row = [1]
    for _ in range(n):
        row = [1, *(a + b for a, b in zip(row, row[1:], strict=False)), 1]
    return np.array(row, dtype=np.float64)


@cython.cclass
class MonotoneQP:
    """Solver for one degree. `solve` returns a status; the answer is in `coefficients`, `kkt` tells how good.

    What it keeps between solves is the active set (`active_set`), a head start that does not change the answer.
    """

    degree = cython.declare(cython.Py_ssize_t, visibility="readonly")
    ridge = cython.declare(cython.double, visibility="readonly")
    coefficients = cython.declare(object, visibility="readonly")
    kkt = cython.declare(cython.double, visibility="readonly")
    iterations = cython.declare(cython.int, visibility="readonly")
    _full: cython.bint
    _multiplier: cython.double
    _smallest: cython.double
    _size: cython.Py_ssize_t
    _c: cython.double[::1]
    _d: cython.double[::1]
    _target: cython.double[::1]
    _unit: cython.double[::1]
    _residual: cython.double[::1]
    _slope: cython.double[::1]
    _g: cython.double[::1]
    _scaled: cython.double[::1]
    _binomial: cython.double[::1]
    _inverse: cython.double[::1]
    _sums: cython.double[:, ::1]
    _hessian: cython.double[:, ::1]
    _factor: cython.double[:, ::1]
    _free: cython.Py_ssize_t[::1]
    _is_free: cython.char[::1]
    _known: cython.char[::1]
    _barred: cython.char[::1]

    def __init__(self, degree: cython.Py_ssize_t, ridge: cython.double = RIDGE):
        if not 1 <= degree <= MAX_DEGREE:
            raise ValueError(f"degree must lie in 1..{MAX_DEGREE}, got {degree}")
        m = degree + 1
        self.degree = degree
        self.ridge = ridge
        self.coefficients = np.zeros(m)
        self._c = self.coefficients.data
        self._d = np.zeros(m).data
        self._target = np.zeros(m).data
        self._unit = np.zeros(m).data
        self._residual = np.zeros(m).data
        self._slope = np.zeros(m).data
        self._g = np.zeros(m).data
        self._scaled = np.zeros(2 * degree + 1).data
        self._binomial = _row(degree).data
        self._inverse = (1.0 / _row(2 * degree)).data
        self._sums = np.zeros((m, m)).data
        self._hessian = np.zeros((m, m)).data
        self._factor = np.zeros((m, m)).data
        self._free = np.zeros(m, dtype=np.intp).data
        self._is_free = np.zeros(m, dtype=np.int8).data
        self._known = np.zeros(m, dtype=np.int8).data
        self._barred = np.zeros(m, dtype=np.int8).data
        self._full = False
        self._size = 0
        self._multiplier = 0.0
        self._smallest = 1.0
        self.kkt = 0.0
        self.iterations = 0

    def active_set(self):
        """(indices of the increments that may be positive, whether Σd = 1 is held): all the state there is."""
        return [j for j in range(self.degree + 1) if self._is_free[j]], bool(self._full)

    def set_active_set(self, free, full):
        """Start the next solve from this active set; ([], False) is the cold start."""
        free = [int(j) for j in free]
        if any(not 0 <= j <= self.degree for j in free):
            raise ValueError(f"indices of increments must lie in 0..{self.degree}, got {free}")
        for j in range(self.degree + 1):
            self._is_free[j] = j in free
        self._full = bool(full)

    def __reduce__(self):
        return _restored, (self.degree, self.ridge, *self.active_set(), self.coefficients.copy())

    @cython.ccall
    def solve(
        self,
        moments: cython.const[cython.double][::1],
        cross: cython.const[cython.double][::1],
        weight: cython.double,
    ) -> cython.int:
        """Solve for the 2n+1 moments and n+1 cross sums of `BernsteinSums`. O(n²) when the active set holds."""
        n: cython.Py_ssize_t = self.degree
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        b: cython.double
        if moments.shape[0] != 2 * n + 1 or cross.shape[0] != n + 1:
            raise ValueError(
                f"degree {n} needs {2 * n + 1} moments and {n + 1} cross sums,"
                f" got {moments.shape[0]} and {cross.shape[0]}"
            )
        if not weight > 0.0:
            return self._give_up(_NO_DATA)
        for i in range(2 * n + 1):
            self._scaled[i] = moments[i] / weight * self._inverse[i]
        # _sums[i, j] = Σ_{k≥i} Q_kj, with Q_kj = C(n,k) C(n,j) / C(2n,k+j) · moments[k+j] / W
        for i in range(n, -1, -1):
            b = self._binomial[i]
            for j in range(n + 1):
                self._sums[i, j] = b * (self._binomial[j] * self._scaled[i + j])
            if i < n:
                for j in range(n + 1):
                    self._sums[i, j] += self._sums[i + 1, j]
        return self._prepare_and_iterate(cross, weight)

    @cython.ccall
    def solve_gram(
        self, gram: cython.const[cython.double][:, ::1], cross: cython.const[cython.double][::1], weight: cython.double
    ) -> cython.int:
        """Solve for VᵀV, (n+1) x (n+1), and Vᵀy, both sums over the total `weight`."""
        n: cython.Py_ssize_t = self.degree
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        if gram.shape[0] != n + 1 or gram.shape[1] != n + 1 or cross.shape[0] != n + 1:
            raise ValueError(f"degree {n} needs {n + 1} rows, columns and cross sums")
        if not weight > 0.0:
            return self._give_up(_NO_DATA)
        for i in range(n, -1, -1):
            for j in range(n + 1):
                self._sums[i, j] = gram[i, j] / weight
                if i < n:
                    self._sums[i, j] += self._sums[i + 1, j]
        return self._prepare_and_iterate(cross, weight)

    @cython.cfunc
    def _give_up(self, status: cython.int) -> cython.int:
        """No solution: all coefficients 0 (with no data the flattest curve), and a cold start next time."""
        j: cython.Py_ssize_t
        for j in range(self.degree + 1):
            self._c[j] = 0.0
            self._d[j] = 0.0
            self._is_free[j] = 0
        self._full = False
        self.kkt = 0.0
        self.iterations = 0
        return status

    @cython.cfunc
    def _prepare_and_iterate(self, cross: cython.const[cython.double][::1], weight: cython.double) -> cython.int:
        n: cython.Py_ssize_t = self.degree
        j: cython.Py_ssize_t
        total: cython.double = 0.0
        status: cython.int
        for j in range(n, -1, -1):
            total = total + cross[j] / weight
            self._g[j] = total
            self._known[j] = 0
            self._barred[j] = 0
        # every entry of the data is in one of the two sums, so one test finds any NaN or infinity
        for j in range(n + 1):
            total = total + self._sums[0, j]
        if not isfinite(total):
            return self._give_up(_NOT_FINITE)
        status = self._iterate()
        if status == _ITERATION_LIMIT:
            for j in range(n + 1):
                self._is_free[j] = 0
                self._barred[j] = 0
            self._full = False
            status = self._iterate()
        self._write_coefficients()
        if status == _ITERATION_LIMIT and self.kkt <= _ACCEPTED_RESIDUAL:
            status = _SOLVED
        return status

    @cython.cfunc
    @cython.exceptval(check=False)
    def _iterate(self) -> cython.int:
        limit: cython.int = 10 * (self.degree + 2)
        entering: cython.Py_ssize_t
        self.iterations = 0
        self._shrink_to_feasible()
        while True:
            entering = self._price()
            if entering < -1:
                return _SOLVED
            if self.iterations >= limit:
                return _ITERATION_LIMIT
            self.iterations += 1
            self._exchange(entering)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _shrink_to_feasible(self) -> cython.void:
        """Drop from F what comes out negative, and hold Σd = 1 if the sum exceeds it, until neither happens."""
        n: cython.Py_ssize_t = self.degree
        k: cython.Py_ssize_t
        j: cython.Py_ssize_t
        total: cython.double
        changed: cython.bint = True
        while changed:
            changed = False
            self._solve_on_free()
            total = 0.0
            for k in range(self._size):
                j = self._free[k]
                total = total + self._target[k]
                if self._target[k] < 0.0:
                    self._is_free[j] = 0
                    changed = True
            if not changed and not self._full and total > _SUM_LIMIT:
                self._full = True
                changed = True
        for j in range(n + 1):
            self._d[j] = 0.0
        for k in range(self._size):
            self._d[self._free[k]] = self._target[k]

    @cython.cfunc
    @cython.exceptval(check=False)
    def _price(self) -> cython.Py_ssize_t:
        """Gradient and KKT residual at d; the index that should enter F, −1 to release Σd = 1, −2 at the optimum."""
        n: cython.Py_ssize_t = self.degree
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        d: cython.double
        slope: cython.double
        worst: cython.double = -_DUAL_TOLERANCE
        best: cython.Py_ssize_t = -2
        residual: cython.double = 0.0
        for j in range(n + 1):
            self._slope[j] = self._multiplier - self._g[j]
        for k in range(self._size):
            d = self._d[self._free[k]]
            j = self._free[k]
            self._form_row(j)
            self._axpy(j, d)
            if j > 0:
                self._slope[j] += self.ridge * d
        for j in range(n + 1):
            slope = self._slope[j]
            if self._is_free[j]:
                residual = max(residual, abs(slope))
            elif slope < 0.0:
                residual = max(residual, -slope)
                if slope < worst and not self._barred[j]:
                    worst = slope
                    best = j
        if self._full and self._multiplier < worst:
            best = -1
        self.kkt = max(residual, -self._multiplier)
        return best

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _axpy(self, j: cython.Py_ssize_t, d: cython.double) -> cython.void:
        k: cython.Py_ssize_t
        for k in range(self.degree + 1):
            self._slope[k] += d * self._hessian[j, k]

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _form_row(self, j: cython.Py_ssize_t) -> cython.void:
        """Row j of H without the ridge, once per solve: H_jk = Σ_{l≥k} _sums[j, l]."""
        k: cython.Py_ssize_t
        total: cython.double = 0.0
        if self._known[j]:
            return
        for k in range(self.degree, -1, -1):
            total = total + self._sums[j, k]
            self._hessian[j, k] = total
        self._known[j] = 1

    @cython.cfunc
    @cython.exceptval(check=False)
    def _exchange(self, entering: cython.Py_ssize_t) -> cython.void:
        """Let one index into F (or, with −1, release Σd = 1), then walk to the minimum on F.

        Where the way leaves the feasible region, whatever blocks it is dropped, and the walk goes on from there.
        """
        k: cython.Py_ssize_t
        j: cython.Py_ssize_t
        blocking: cython.Py_ssize_t
        step: cython.double
        ratio: cython.double
        old: cython.double
        new: cython.double
        moved: cython.bint = False
        if entering >= 0:
            self._is_free[entering] = 1
        else:
            self._full = False
        while True:
            self._solve_on_free()
            step = 1.0
            blocking = -2
            old = 0.0
            new = 0.0
            for k in range(self._size):
                j = self._free[k]
                old = old + self._d[j]
                new = new + self._target[k]
                if self._target[k] < 0.0 or (j == entering and not moved and self._target[k] <= 0.0):
                    ratio = self._d[j] / (self._d[j] - self._target[k]) if self._d[j] > 0.0 else 0.0
                    if ratio < step or blocking == -2:
                        step = ratio
                        blocking = j
            if not self._full and new > _SUM_LIMIT:
                ratio = (1.0 - old) / (new - old) if new > old and old < 1.0 else 0.0
                if ratio < step or blocking == -2:
                    step = ratio
                    blocking = -1
            if step > 0.0:
                moved = True
            for k in range(self._size):
                j = self._free[k]
                self._d[j] += step * (self._target[k] - self._d[j])
                if blocking == -2:
                    self._d[j] = self._target[k]
            if blocking == -2:
                break
            if blocking == -1:
                self._full = True
            else:
                self._is_free[blocking] = 0
                self._d[blocking] = 0.0
                if not moved:
                    self._barred[blocking] = 1
        if moved:
            for j in range(self.degree + 1):
                self._barred[j] = 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def _solve_on_free(self) -> cython.void:
        """The minimum over F, with Σd = 1 if full, into `_target` and `_multiplier`; refuses dependent columns."""
        n: cython.Py_ssize_t = self.degree
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        m: cython.Py_ssize_t = 0
        self._smallest = 1.0
        for j in range(n + 1):
            if self._is_free[j]:
                self._form_row(j)
                if self._append_to_factor(j, m):
                    self._free[m] = j
                    m += 1
                else:
                    self._is_free[j] = 0
                    self._d[j] = 0.0
                    self._barred[j] = 1
        self._size = m
        self._multiplier = 0.0
        if m == 0:
            self._full = False
            return
        for k in range(m):
            self._target[k] = 0.0
            self._residual[k] = self._g[self._free[k]]
            self._unit[k] = 1.0
        if self._full:
            self._substitute(self._unit)
        self._correct(1.0)
        if self._smallest < _SINGULAR:
            for k in range(_REFINEMENTS):
                self._correct(self._measure_residual())

    @cython.cfunc
    @cython.exceptval(check=False)
    def _correct(self, missing: cython.double) -> cython.void:
        """Add to `_target` what solves H_FF x = `_residual`, with Σx = missing if full."""
        k: cython.Py_ssize_t
        total: cython.double = 0.0
        weight: cython.double = 0.0
        excess: cython.double = 0.0
        self._substitute(self._residual)
        if self._full:
            for k in range(self._size):
                total = total + self._residual[k]
                weight = weight + self._unit[k]
            excess = (total - missing) / weight
            self._multiplier = self._multiplier + excess
            for k in range(self._size):
                self._residual[k] -= excess * self._unit[k]
        for k in range(self._size):
            self._target[k] += self._residual[k]

    @cython.cfunc
    @cython.exceptval(check=False)
    def _measure_residual(self) -> cython.double:
        """`_residual` = g − H_FF target − λ; returns 1 − Σ target."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        j: cython.Py_ssize_t
        total: cython.double
        missing: cython.double = 1.0
        for k in range(self._size):
            j = self._free[k]
            total = self._g[j] - self._multiplier
            for i in range(self._size):
                total = total - self._hessian[j, self._free[i]] * self._target[i]
            if j > 0:
                total = total - self.ridge * self._target[k]
            self._residual[k] = total
            missing = missing - self._target[k]
        return missing

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _append_to_factor(self, j: cython.Py_ssize_t, m: cython.Py_ssize_t) -> cython.bint:
        """Row m of the Cholesky factor of H_FF for the index j; False if j depends on the rows before."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        total: cython.double
        diagonal: cython.double = self._hessian[j, j]
        pivot: cython.double
        if j > 0:
            diagonal = diagonal + self.ridge
        pivot = diagonal
        for i in range(m):
            total = self._hessian[j, self._free[i]]
            for k in range(i):
                total = total - self._factor[m, k] * self._factor[i, k]
            total = total * self._factor[i, i]
            self._factor[m, i] = total
            pivot = pivot - total * total
        if not pivot > _PIVOT_TOLERANCE * diagonal:
            return False
        self._smallest = min(self._smallest, pivot / diagonal)
        self._factor[m, m] = 1.0 / sqrt(pivot)
        return True

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _substitute(self, x: cython.double[::1]) -> cython.void:
        """Solve R Rᵀ z = x in place, R the factor with inverse diagonal."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        total: cython.double
        for i in range(self._size):
            total = x[i]
            for k in range(i):
                total = total - self._factor[i, k] * x[k]
            x[i] = total * self._factor[i, i]
        for i in range(self._size - 1, -1, -1):
            total = x[i] * self._factor[i, i]
            x[i] = total
            for k in range(i):
                x[k] -= self._factor[i, k] * total

    @cython.cfunc
    @cython.exceptval(check=False)
    def _write_coefficients(self) -> cython.void:
        j: cython.Py_ssize_t
        total: cython.double = 0.0
        for j in range(self.degree + 1):
            total = total + self._d[j]
            self._c[j] = min(total, 1.0)


def _restored(degree, ridge, free, full, coefficients):
    """Unpickle a MonotoneQP."""
    qp = MonotoneQP(degree, ridge)
    qp.set_active_set(free, full)
    qp.coefficients[:] = coefficients
    return qp
