# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Least squares over monotone polynomials: the dual active-set method, with the constraints found as they are violated.

    min  ½cᵀGc − aᵀc    subject to   p′(u) ≥ 0 for all u in [0, 1],  p(0) ≥ 0,  p(1) ≤ 1,     p = Σ c_m T_m(2u − 1)

The method, and its symbols, are those of `working_set`: it starts at the minimum without constraints, and adds the one
that is violated most until none is. So it needs no list of them: the most violated of infinitely many is the lowest of
the local minima of p′, as `angular_slope` finds them. At the solution p′ touches 0 at a few points of tangency, which
constraints approach slowly. Once they are near, or from those of the last solution, Newton's method moves coefficients,
multipliers and points of tangency together. The program is convex, so that multipliers ≥ 0 and p′ ≥ 0 prove the result.
A line added to p lifts what is left, so that p is monotone whatever the tolerance.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.libc.math import fabs
from cython.cimports.streamcal.kernels.polynomial import angular_slope, equality_qp, working_set

from streamcal.kernels.polynomial.angular_slope import grid_of

SOLVED, NOT_DEFINITE, ITERATION_LIMIT = 0, 1, 2
#: As Python it takes a hundred times as long as a semidefinite program.
IS_COMPILED = bool(cython.compiled)

#: A scaled p′ above minus this is not violated; and p′ is lifted by at most LIFT.
VIOLATION = cython.declare(cython.double, 1e-11)
LIFT = cython.declare(cython.double, 1e-9)
#: The violation at which Newton's method takes over; its steps, and a change of coefficients that ends them.
COARSE = cython.declare(cython.double, 1e-3)
NEWTON = cython.declare(cython.int, 40)
SETTLED = cython.declare(cython.double, 1e-11)
ROUGH = cython.declare(cython.double, 1e-4)
#: Constraints of a start are tried first where its value at an end, or its p′, is as near to the bound.
NEAR_END = cython.declare(cython.double, 1e-7)
NEAR = cython.declare(cython.double, 1e-6)
#: A normal is linearly dependent on those of A if the share of its square orthogonal to them is at most this.
DEPENDENT = cython.declare(cython.double, 1e-20)
#: Changes of A for each coefficient.
ROUNDS = cython.declare(cython.int, 40)
INFINITE = cython.declare(cython.double, np.inf)
PI = cython.declare(cython.double, np.pi)


@cython.final
@cython.cclass
class TangentQP:
    """Solver for one degree k ≥ 1.

    `solve` returns a status; then `x` has the coefficients of a monotone polynomial, `angles` the constraints held as
    equations (θ of p′, −1 for p(0) ≥ 0, −2 for p(1) ≤ 1) and `multipliers` theirs, `iterations` the changes of A, and
    `lift` what was added to p′.
    """

    x = cython.declare(object, visibility="readonly")
    iterations = cython.declare(cython.int, visibility="readonly")
    lift = cython.declare(cython.double, visibility="readonly")
    _degree: cython.Py_ssize_t
    _size: cython.Py_ssize_t
    _q: cython.Py_ssize_t
    _number: cython.Py_ssize_t  # of tangencies
    _x: cython.double[::1]
    _jt: cython.double[::1]
    _columns: cython.double[:, ::1]
    _grid: cython.double[:, ::1]  # the scaled normals at the points of the grid
    _values: cython.double[::1]  # p′ there
    _where: cython.double[::1]  # A, in the order of the columns of R
    _u: cython.double[::1]
    _n: cython.double[::1]
    _d: cython.double[::1]
    _r: cython.double[::1]
    _z: cython.double[::1]
    _slopes: cython.double[:, ::1]
    _violated: cython.double[::1]
    _tolerance: cython.double
    _narrow: cython.bint  # whether narrow dips are looked for
    _gram: cython.double[:, ::1]
    _a: cython.double[::1]
    _t: cython.double[::1]  # tangencies, and their multipliers
    _mu: cython.double[::1]
    _normals: cython.double[:, ::1]
    _schur: cython.double[:, ::1]
    _saved: cython.double[::1]

    def __init__(self, degree: cython.Py_ssize_t):
        n: cython.Py_ssize_t = degree + 1
        self._degree, self._size, self._q, self._number = degree, n, 0, 0
        self.x = np.zeros(n)
        self._x = self.x
        self._jt, self._columns, self._schur = np.zeros(n * n), np.zeros((n, n)), np.zeros((n, n))
        self._where, self._u, self._r = np.zeros(n + 1), np.zeros(n + 1), np.zeros(n + 1)
        self._n, self._d, self._z = np.zeros(n), np.zeros(n), np.zeros(n)
        self._slopes, self._violated = np.zeros((3, n + 3)), np.zeros(n + 1)
        self._grid = grid_of(degree)
        self._values = np.zeros(self._grid.shape[0])
        self._gram, self._normals = np.zeros((n, n)), np.zeros((n + 1, n))
        self._a, self._t, self._mu, self._saved = np.zeros(n), np.zeros(n + 1), np.zeros(n + 1), np.zeros(n + 1)
        self.iterations, self.lift, self._tolerance = 0, 0.0, COARSE

    @property
    def angles(self):
        """The constraints held as equations."""
        return np.array(self._where[: self._q])

    @property
    def multipliers(self):
        """The multipliers of `angles`, ≥ 0."""
        return np.array(self._u[: self._q])

    def normal(self, theta: cython.double):
        """Return the normal of a constraint."""
        angular_slope.set_normal(self._n, theta)
        return np.array(self._n)

    def solve(
        self,
        moments: cython.const[cython.double][::1],
        cross: cython.const[cython.double][::1],
        ridge: cython.double,
        start: cython.const[cython.double][::1],
    ) -> cython.int:
        """Solve for G_ij = ½(m_{i+j} + m_{|i−j|}) + ridge (i = j > 0) and a; `start` are coefficients, or empty.

        Where p′ of the start is least, constraints are tried first. But for rounding the solution is the same.
        """
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        n: cython.Py_ssize_t = self._size
        guesses: cython.Py_ssize_t
        if moments.shape[0] != 2 * n - 1 or cross.shape[0] != n or start.shape[0] not in (0, n):
            raise ValueError(f"{n} coefficients need {2 * n - 1} moments and {n} cross sums")
        self._q, self.iterations, self._tolerance, self._narrow = 0, 0, COARSE, False
        for i in range(n):
            self._a[i] = cross[i]
            for j in range(n):
                self._gram[i, j] = 0.5 * (moments[i + j] + moments[abs(i - j)]) + (ridge if i == j > 0 else 0.0)
        if start.shape[0] == n:
            for i in range(n):
                self._x[i] = start[i]
            self._number = self._minima(NEAR_END, NEAR)
            for i in range(self._number):
                self._t[i], self._mu[i] = self._violated[i], 0.0
            if self._polish() and self._finish():
                return 0
        if not self._begin():
            return 1
        if self._iterate() != 0:
            return 2
        guesses = self._q
        self._saved[:guesses] = self._where[:guesses]
        self._find_tangencies()
        if self._polish() and self._finish():
            return 0
        self._q, self._tolerance = 0, VIOLATION
        self._begin()  # from the same constraints, to the end
        for i in range(guesses):
            if not self._try_out(self._saved[i]):
                return 2
        if self._iterate() != 0:
            return 2
        self._saved[:n] = self._x
        if self._finish():
            return 0
        self._x[:] = self._saved[:n]
        self._narrow = True
        return 0 if self._iterate() == 0 and self._finish() else 2

    # -- tangencies ------------------------------------------------------------------------------------------------

    @cython.cfunc
    @cython.exceptval(check=False)
    def _find_tangencies(self) -> cython.void:
        """Set where p′ touches 0 according to A, those near each other as one, and the multipliers."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        h: cython.double = angular_slope.grid_step(self._degree)
        total: cython.double
        self._number = 0
        for i in range(self._q):
            j = 0
            while j < self._number and (
                self._where[i] < 0.0 or self._t[j] < 0.0 or fabs(self._t[j] - self._where[i]) > h
            ):
                j += 1
            total = self._u[i] * angular_slope.scale(self._where[i], self._degree)
            if j == self._number:
                self._t[j], self._mu[j] = self._where[i], total
                self._number += 1
            elif self._mu[j] + total > 0.0:
                self._t[j] += total / (self._mu[j] + total) * (self._where[i] - self._t[j])
                self._mu[j] += total

    @cython.cfunc
    @cython.exceptval(check=False)
    def _polish(self) -> cython.bint:
        """Run Newton's method on the conditions at the tangencies, which move with p; return whether they then hold."""
        m: cython.Py_ssize_t
        _step: cython.int
        changes: cython.Py_ssize_t = 0
        change: cython.double
        for _step in range(NEWTON):
            if self._number > self._size:
                return False
            self.iterations += 1
            if not self._linearise():
                return False
            change = self._move()
            if not change < 1e3:
                return False
            if change > (SETTLED if changes == 0 else ROUGH):
                continue
            changes = self._exchange()
            if changes == 0:
                break
        else:
            return False
        self._q = self._number
        for m in range(self._number):
            self._where[m] = self._t[m]
            self._u[m] = self._mu[m] / angular_slope.scale(self._t[m], self._degree)
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    def _linearise(self) -> cython.bint:
        """Set the Hessian of the Lagrangian, its linear term and the normals; return False where p′ has no minimum.

        The tangency at t moves by −N′·dc/f″ with c, N′ the derivative of the normal by θ and f″ that of p′, so that the
        Hessian is G + Σ μ N′N′ᵀ/f″.
        """
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        m: cython.Py_ssize_t
        n: cython.Py_ssize_t = self._size
        bend: cython.double
        value: cython.double
        angular_slope.set_slopes(self._slopes, self._x)
        for i in range(n):
            self._d[i] = self._a[i]
            for j in range(n):
                self._columns[i, j] = self._gram[i, j]
        for m in range(self._number):
            if self._t[m] >= 0.0:
                self._t[m] = angular_slope.refined(self._slopes, self._t[m])
            angular_slope.set_normal(self._n, self._t[m])
            value = 1.0 / angular_slope.scale(self._t[m], self._degree)
            for i in range(n):
                self._normals[m, i] = value * self._n[i]
            if self._mu[m] > 0.0 and 0.0 < self._t[m] < PI:
                bend = angular_slope.bend(self._slopes, self._t[m])
                if not bend > 0.0:
                    return False
                angular_slope.set_turn(self._n, self._t[m])
                value = 0.0
                for i in range(n):
                    value += self._n[i] * self._x[i]
                for i in range(n):
                    self._d[i] += self._mu[m] / bend * value * self._n[i]
                    for j in range(n):
                        self._columns[i, j] += self._mu[m] / bend * self._n[i] * self._n[j]
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    def _move(self) -> cython.double:
        """Move to the minimum of ½cᵀHc − dᵀc with all tangencies held; return the largest change of c."""
        i: cython.Py_ssize_t
        change: cython.double = 0.0
        for i in range(self._number):
            self._r[i] = -1.0 if self._t[i] < -1.5 else 0.0
        if not equality_qp.minimise(self._columns, self._d, self._normals, self._r, self._schur, self._number):
            return INFINITE
        for i in range(self._number):
            self._mu[i] = self._r[i]
        for i in range(self._size - 1, -1, -1):
            change = max(change, fabs(self._d[i] - self._x[i]))
            self._x[i] = self._d[i]
        return change

    @cython.cfunc
    @cython.exceptval(check=False)
    def _exchange(self) -> cython.Py_ssize_t:
        """Remove the tangency with the least multiplier below 0, or else add what is violated; return the changes."""
        m: cython.Py_ssize_t
        number: cython.Py_ssize_t
        worst: cython.Py_ssize_t = 0
        for m in range(1, self._number):
            if self._mu[m] < self._mu[worst]:
                worst = m
        if self._number > 0 and self._mu[worst] < 0.0:
            self._number -= 1
            self._t[worst], self._mu[worst] = self._t[self._number], self._mu[self._number]
            return 1
        number = self._minima(-VIOLATION, -VIOLATION)
        for m in range(number):
            if self._number < self._size:
                self._t[self._number], self._mu[self._number] = self._violated[m], 0.0
                self._number += 1
        return number

    # -- the working set -------------------------------------------------------------------------------------------

    @cython.cfunc
    @cython.exceptval(check=False)
    def _begin(self) -> cython.bint:
        """Set Jᵀ to L⁻¹, and x to the minimum without constraints; return whether G is positive definite."""
        self._columns[:] = self._gram
        if not equality_qp.factorise(self._columns, self._size):
            return False
        equality_qp.invert(self._columns, self._jt, self._size)
        working_set.start_free(self._jt, self._a, self._d, self._x)
        return True

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _slack(self, theta: cython.double) -> cython.double:
        """Return n·x less the bound of the constraint."""
        m: cython.Py_ssize_t
        value: cython.double = 1.0 if theta < -1.5 else 0.0
        for m in range(self._size):
            value += self._n[m] * self._x[m]
        return value

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _minima(self, below: cython.double, above: cython.double) -> cython.Py_ssize_t:
        """Write the constraints of x with a slack below these to `_violated`; return their number."""
        return angular_slope.find_minima(
            self._slopes, self._x, self._grid, self._values, self._violated, below, above, self._narrow
        )

    @cython.cfunc
    def _iterate(self) -> cython.int:
        """Add the constraints that are violated until there are none."""
        i: cython.Py_ssize_t
        worst: cython.Py_ssize_t
        least: cython.double
        slack: cython.double
        before: cython.int = -1
        number: cython.Py_ssize_t = self._minima(-self._tolerance, -self._tolerance)
        while number > 0 and self.iterations > before:  # else nothing is violated but for rounding
            before = self.iterations
            worst = 0
            least = 0.0
            for i in range(number):
                angular_slope.set_normal(self._n, self._violated[i])
                slack = self._slack(self._violated[i])
                if slack < least:
                    least, worst = slack, i
            if not self._try_out(self._violated[worst]):
                return 2
            number = self._minima(-self._tolerance, -self._tolerance)
        return 0

    @cython.cfunc
    def _try_out(self, theta: cython.double) -> cython.bint:
        """Add a constraint if it is violated; return whether rounding did not get in the way."""
        angular_slope.set_normal(self._n, theta)
        return self._slack(theta) >= -VIOLATION or self._take_in(theta)

    @cython.cfunc
    def _take_in(self, theta: cython.double) -> cython.bint:
        """Add a constraint to A; constraints whose multipliers would become negative leave A on the way."""
        k: cython.Py_ssize_t
        leaving: cython.Py_ssize_t
        square: cython.double
        self._u[self._q] = 0.0
        while True:
            self.iterations += 1
            if self.iterations > ROUNDS * self._size:
                return False
            working_set.project(self._jt, self._n, self._d)
            square = working_set.find_directions(self._jt, self._columns, self._d, self._r, self._z, self._q, DEPENDENT)
            leaving = working_set.advance(self._x, self._u, self._r, self._z, self._q, self._slack(theta), square)
            if leaving == -2:
                return False
            if leaving == -1:
                working_set.append(self._jt, self._columns, self._d, self._z, self._q, square)
                self._where[self._q] = theta
                self._q += 1
                return True
            self._q -= 1
            for k in range(leaving, self._q):
                self._where[k] = self._where[k + 1]
            working_set.drop(self._jt, self._columns, self._u, self._q, leaving)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _finish(self) -> cython.bint:
        """Make p monotone within [0, 1]; return whether that changes next to nothing."""
        self.lift = angular_slope.make_monotone(self._slopes, self._x, LIFT)
        return self.lift <= LIFT
