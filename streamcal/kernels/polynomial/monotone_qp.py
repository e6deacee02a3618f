# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
# cython: infer_types=True
"""Monotone Bernstein least squares: a dense active-set method, warm-started from the last active set.

The problem, per unit of weight W:

    min  ½ cᵀQc − rᵀc   subject to   0 ≤ c_0 ≤ c_1 ≤ … ≤ c_n ≤ 1,      Q = VᵀV / W,  r = Vᵀy / W

in the increments d_0 = c_0, d_j = c_j − c_{j−1}, so that the constraints are d ≥ 0 and Σd ≤ 1:

    H = LᵀQL    H_jk = Σ_{i≥j, l≥k} Q_il, where c = Ld;  H also has `ridge` added to its diagonal for j ≥ 1
    g = Lᵀr     g_j = Σ_{i≥j} r_i
    F           the free set: the d_j that may be positive, in ascending order; the other d_j are 0
    full        whether Σd = 1 is held as an equation;  λ ≥ 0 its multiplier, 0 unless full
    s = Hd − g + λ   the slope; at the optimum 0 for j in F and ≥ 0 for the others

A solve first drops from the old F all variables that become negative, until the minimum on F is feasible. On a
stream this rarely changes F, and the point is nearly always optimal, so that the solve ends. Otherwise variables
enter one at a time (the primal active-set method of Lawson & Hanson, with Σd ≤ 1 beside d ≥ 0).
H_FF is factored again whenever F changes, so the result depends on the data and the final F only.
"""

from math import comb

import cython
import numpy as np
from cython.cimports.libc.math import isfinite, sqrt
from cython.cimports.streamcal.kernels.polynomial.flat_rows import (
    accumulate_gram,
    add_row,
    eliminate,
    substitute,
    sum_rows,
)

MAX_DEGREE = 50

RIDGE = 1e-10
"""Added to H_jj, j >= 1: a penalty ½ ridge Σ(c_j − c_{j−1})² on the mean square. It makes the solution unique
where the data do not (one distinct score, fewer scores than coefficients) by choosing the flattest curve. Seen
on fitted values: 1e-9 on evenly spread scores, 1e-6 at the last of 10⁵ Beta(1, 200) scores (1e-9 would give
1e-5 there); between the scores of nearly dependent data, rounding of the sums is magnified up to 1e-16 / ridge."""

SOLVED, NO_DATA, ITERATION_LIMIT, NOT_FINITE = 0, 1, 2, 3
STATUS = ("solved", "no data", "iteration limit", "not finite")

_SOLVED = cython.declare(cython.int, SOLVED)
_NO_DATA = cython.declare(cython.int, NO_DATA)
_ITERATION_LIMIT = cython.declare(cython.int, ITERATION_LIMIT)
_NOT_FINITE = cython.declare(cython.int, NOT_FINITE)

# A variable enters if its slope is below minus this: a few times the rounding error of a sum of terms that add
# up to at most 1. With less, rounding would cause cycling; with more, the solver would stop early in flat directions.
DUAL_TOLERANCE = cython.declare(cython.double, 1e-15)
# Σd may exceed 1 by two ulps before the constraint becomes active; the coefficients are cut at 1.
SUM_LIMIT = cython.declare(cython.double, 1.0 + 4e-16)
# A pivot below this fraction of its diagonal is rounding error: the column depends linearly on earlier ones.
PIVOT_TOLERANCE = cython.declare(cython.double, 1e-15)
# With a pivot below this fraction there are two rounds of refinement, which reduce the residual from about
# 1e-16 / fraction to 1e-15.
SINGULAR = cython.declare(cython.double, 1e-6)
# If the iterations run out, the point is still a solution when its KKT residual is at most this.
ACCEPTED_RESIDUAL = cython.declare(cython.double, 1e-8)


class MonotoneQP:
    """Solver for one degree. `solve` returns a status; the solution is in `coefficients`, its KKT residual in `kkt`.

    A solve that fails leaves the coefficients of the last solution (0 before the first) as they are. Between solves the
    kernel keeps the active set (`active_set`), a warm start that does not change the solution. Fields and C signatures
    are in `monotone_qp.pxd`.
    """

    def __init__(self, degree: cython.Py_ssize_t, ridge: cython.double = RIDGE):
        if not 1 <= degree <= MAX_DEGREE:
            raise ValueError(f"degree must lie in 1..{MAX_DEGREE}, got {degree}")
        m = degree + 1
        self.degree, self.ridge, self._m = degree, ridge, m
        self.coefficients = np.zeros(m)
        self._c = self.coefficients.data
        self._d, self._g, self._slope = np.zeros(m).data, np.zeros(m).data, np.zeros(m).data
        self._target, self._residual, self._unit = np.zeros(m).data, np.zeros(m).data, np.zeros(m).data
        self._scaled = np.zeros(2 * m - 1).data
        self._binomial = np.array([comb(degree, k) for k in range(m)], dtype=np.float64).data
        self._inverse = np.array([1.0 / comb(2 * degree, k) for k in range(2 * m - 1)]).data
        self._sums, self._hessian, self._factor = np.zeros(m * m).data, np.zeros(m * m).data, np.zeros(m * m).data
        self._free = np.zeros(m, dtype=np.intp).data
        self._is_free, self._known = np.zeros(m, dtype=np.int8).data, np.zeros(m, dtype=np.int8).data
        self._barred = np.zeros(m, dtype=np.int8).data
        self.watch(np.zeros(2 * m - 1), np.zeros(m))
        self._give_up(_NO_DATA)

    def active_set(self):
        """Return (indices of the increments that may be positive, whether Σd = 1 is active): the whole state."""
        return [j for j in range(self._m) if self._is_free[j]], bool(self._full)

    def set_active_set(self, free, full):
        """Start the next solve from this active set; ([], False) is the cold start."""
        free = [int(j) for j in free]
        if any(not 0 <= j <= self.degree for j in free):
            raise ValueError(f"indices of increments must lie in 0..{self.degree}, got {free}")
        for j in range(self._m):
            self._is_free[j] = j in free
        self._full = bool(full)

    def __reduce__(self):
        return _restored, (self.degree, self.ridge, *self.active_set(), self.coefficients.copy())

    def solve(
        self,
        moments: cython.const[cython.double][::1],
        cross: cython.const[cython.double][::1],
        weight: cython.double,
    ):
        """Solve for the 2n+1 moments and n+1 cross sums of `BernsteinSums`; O(n²) while the active set holds."""
        self.watch(moments, cross)
        return self.solve_watched(weight)

    def watch(self, moments: cython.const[cython.double][::1], cross: cython.const[cython.double][::1]):
        """Set the arrays that `solve_watched` reads; passing them takes a quarter of the time of a solve."""
        m = self._m
        if moments.shape[0] != 2 * m - 1 or cross.shape[0] != m:
            raise ValueError(
                f"degree {self.degree} needs {2 * m - 1} moments and {m} cross sums,"
                f" got {moments.shape[0]} and {cross.shape[0]}"
            )
        self._moments, self._cross = moments, cross

    def solve_watched(self, weight: cython.double) -> cython.int:
        """Do `solve` for the current content of the arrays given to `watch`."""
        m = self._m
        if not weight > 0.0:
            return self._give_up(_NO_DATA)
        for j in range(2 * m - 1):
            self._scaled[j] = self._moments[j] / weight * self._inverse[j]
        accumulate_gram(self._sums, self._scaled, self._binomial, m)
        total = 0.0
        for j in range(m - 1, -1, -1):
            total = total + self._cross[j] / weight
            self._g[j] = total
            self._known[j] = 0
            self._barred[j] = 0
        # every entry of the data is in one of these sums, so one test finds any NaN or infinity
        for j in range(m):
            total = total + self._sums[j]
        if not isfinite(total):
            return self._give_up(_NOT_FINITE)
        return self._solve_from_active_set()

    def _give_up(self, status: cython.int) -> cython.int:
        """No solution: the coefficients stay those of the last one, and the next solve is a cold start."""
        for j in range(self._m):
            self._is_free[j] = 0
        self._full = False
        self.kkt = 0.0
        self.iterations = 0
        return status

    def _solve_from_active_set(self) -> cython.int:
        """Iterate, once more from the empty set if that does not converge, and write the coefficients if it does."""
        status = self._iterate()
        if status == _ITERATION_LIMIT:
            self._give_up(status)
            status = self._iterate()
            if self.kkt <= ACCEPTED_RESIDUAL:
                status = _SOLVED
        if status != _SOLVED:
            return self._give_up(status)
        total = 0.0
        for j in range(self._m):
            total = total + self._d[j]
            self._c[j] = min(total, 1.0)
        return status

    def _iterate(self) -> cython.int:
        self.iterations = 0
        self._shrink_to_feasible()
        entering = self._price()
        while entering > -2:
            if self.iterations >= 10 * (self._m + 1):
                return _ITERATION_LIMIT
            self.iterations += 1
            self._exchange(entering)
            entering = self._price()
        return _SOLVED

    def _shrink_to_feasible(self) -> cython.void:
        """Drop from F the negative variables, and hold Σd = 1 if the sum exceeds 1, until neither happens."""
        changed: cython.bint = True
        while changed:
            changed = False
            self._solve_on_free()
            total = 0.0
            for k in range(self._size):
                total = total + self._target[k]
                if self._target[k] < 0.0:
                    self._is_free[self._free[k]] = 0
                    changed = True
            if not changed and not self._full and total > SUM_LIMIT:
                self._full = True
                changed = True
        for j in range(self._m):
            self._d[j] = 0.0
        for k in range(self._size):
            self._d[self._free[k]] = self._target[k]

    def _price(self) -> cython.Py_ssize_t:
        """Slope and KKT residual at d. Returns the index that enters F, −1 to release Σd = 1, or −2 at the optimum."""
        best: cython.Py_ssize_t = -2
        worst = -DUAL_TOLERANCE
        residual: cython.double = max(0.0, -self._multiplier)
        for j in range(self._m):
            self._slope[j] = self._multiplier - self._g[j]
        for k in range(self._size):
            j = self._free[k]
            add_row(self._slope, self._d[j], self._hessian, j, self._m)
            if j > 0:
                self._slope[j] += self.ridge * self._d[j]
        for j in range(self._m):
            slope: cython.double = self._slope[j]
            if self._is_free[j]:
                residual = max(residual, abs(slope))
            elif slope < 0.0:
                residual = max(residual, -slope)
                if slope < worst and not self._barred[j]:
                    worst = slope
                    best = j
        if self._full and self._multiplier < worst:
            best = -1
        self.kkt = residual
        return best

    def _exchange(self, entering: cython.Py_ssize_t) -> cython.void:
        """Add an index to F (or, with −1, release Σd = 1), then move to the minimum on F.

        At the boundary of the feasible region the blocking variable is dropped, and the move continues from there.
        """
        moved: cython.bint = False
        blocking: cython.Py_ssize_t = -1
        if entering >= 0:
            self._is_free[entering] = 1
        else:
            self._full = False
        while blocking > -2:
            self._solve_on_free()
            step, blocking = 1.0, -2
            old, new = 0.0, 0.0
            for k in range(self._size):
                j = self._free[k]
                target = self._target[k]
                old, new = old + self._d[j], new + target
                # a variable that has just entered and would not grow is dropped: its slope was rounding error
                if target < 0.0 or (target == 0.0 and j == entering and not moved):
                    ratio = self._d[j] / (self._d[j] - target) if self._d[j] > 0.0 else 0.0
                    if ratio < step or blocking == -2:
                        step, blocking = ratio, j
            if not self._full and new > SUM_LIMIT:
                ratio = (1.0 - old) / (new - old) if new > old and old < 1.0 else 0.0
                if ratio < step or blocking == -2:
                    step, blocking = ratio, -1
            moved = moved or step > 0.0
            for k in range(self._size):
                j = self._free[k]
                if blocking == -2:
                    self._d[j] = self._target[k]
                else:
                    self._d[j] += step * (self._target[k] - self._d[j])
            if blocking == -1:
                self._full = True
            elif blocking >= 0:
                self._is_free[blocking] = 0
                self._d[blocking] = 0.0
                self._barred[blocking] = not moved
        if moved:
            for j in range(self._m):
                self._barred[j] = 0

    def _solve_on_free(self) -> cython.void:
        """Write the minimum over F, with Σd = 1 if full, to `_target` and `_multiplier`; drop dependent columns."""
        self._multiplier = 0.0
        self._know_rows()
        while not self._factorise():
            pass
        if self._size == 0:
            self._full = False
        for k in range(self._size):
            self._target[k] = 0.0
            self._residual[k] = self._g[self._free[k]]
            self._unit[k] = 1.0
        if self._full:
            substitute(self._unit, self._factor, self._size, self._m)
        self._correct(1.0)
        if self._smallest < SINGULAR:
            self._correct(self._measure_residual())
            self._correct(self._measure_residual())

    def _know_rows(self) -> cython.void:
        """Compute the rows of H that F needs and this solve has not computed yet."""
        self._size = 0
        for j in range(self._m):
            if self._is_free[j] and not self._known[j]:
                self._known[j] = 1
                self._free[self._size] = j
                self._size += 1
        sum_rows(self._hessian, self._sums, self._free, self._size, self._m)

    def _factorise(self) -> cython.bint:
        """List F and factor H_FF; False if an index depends on those before it, and has been dropped from F."""
        m = self._m
        self._size = 0
        self._smallest = 1.0
        for j in range(m):
            if self._is_free[j]:
                self._free[self._size] = j
                for i in range(self._size + 1):
                    self._factor[i * m + self._size] = self._hessian[j * m + self._free[i]]
                self._factor[self._size * m + self._size] += self.ridge if j > 0 else 0.0
                self._size += 1
        for i in range(self._size):
            j = self._free[i]
            diagonal = self._hessian[j * m + j] + (self.ridge if j > 0 else 0.0)
            pivot = self._factor[i * m + i]
            if not pivot > PIVOT_TOLERANCE * diagonal:
                self._is_free[j] = 0
                self._d[j] = 0.0
                self._barred[j] = 1
                return False
            self._smallest = min(self._smallest, pivot / diagonal)
            self._factor[i * m + i] = 1.0 / sqrt(pivot)
            eliminate(self._factor, i, self._size, m)
        return True

    def _correct(self, missing: cython.double) -> cython.void:
        """Add to `_target` the solution of H_FF x = `_residual`, with Σx = missing if full."""
        substitute(self._residual, self._factor, self._size, self._m)
        excess = 0.0
        if self._full:
            total, weight = 0.0, 0.0
            for k in range(self._size):
                total = total + self._residual[k]
                weight = weight + self._unit[k]
            excess = (total - missing) / weight
            self._multiplier += excess
        for k in range(self._size):
            self._target[k] += self._residual[k] - excess * self._unit[k]

    def _measure_residual(self) -> cython.double:
        """Set `_residual` = g − λ − H_FF target; return 1 − Σ target."""
        missing = 1.0
        for k in range(self._size):
            j = self._free[k]
            total = self._g[j] - self._multiplier - (self.ridge * self._target[k] if j > 0 else 0.0)
            for i in range(self._size):
                total = total - self._hessian[j * self._m + self._free[i]] * self._target[i]
            self._residual[k] = total
            missing = missing - self._target[k]
        return missing


def _restored(degree, ridge, free, full, coefficients):
    """Unpickle a MonotoneQP."""
    qp = MonotoneQP(degree, ridge)
    qp.set_active_set(free, full)
    qp.coefficients[:] = coefficients
    return qp
