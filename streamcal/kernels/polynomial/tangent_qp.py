# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Least squares over monotone polynomials: the dual active-set method, with the constraints found as they are violated.

    min  ½cᵀGc − aᵀc    subject to   p′(u) ≥ 0 for all u in [0, 1],  p(0) ≥ 0,  p(1) ≤ 1,     p = Σ c_m T_m(2u − 1)

The method is that of Goldfarb & Idnani (1983), whose symbols `difference_qp` lists: it starts at the minimum without
constraints, and adds the one that is violated most until none is. So it needs no list of them: the most violated of
infinitely many is the lowest of the local minima of p′. At the solution p′ touches 0 at a few points of tangency, which
constraints approach slowly. Once they are near, or from those of the last solution, Newton's method moves coefficients,
multipliers and points of tangency together. The program is convex, so that multipliers ≥ 0 and p′ ≥ 0 prove the result.

p′ is scaled by sin θ + 1/k, cos θ = 2u − 1, so that constraints at the ends have normals of the same size as others. In
θ it is a trigonometric polynomial of degree d = k − 1 times a constant, whose fourth derivative is at most d⁴ times the
sum M of its absolute coefficients. So a cubic through two values and slopes at a distance h is wrong by no more than
h⁴d⁴M/384: cells are halved until that bounds p′ from below (`_floor`). A line added to p lifts what is left, so that
p is monotone whatever the tolerance.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.libc.math import cos, fabs, sin, sqrt

SOLVED, NOT_DEFINITE, ITERATION_LIMIT = 0, 1, 2
#: As Python it takes a hundred times as long as a semidefinite program.
IS_COMPILED = bool(cython.compiled)

#: A scaled p′ above minus this is not violated; and p′ is lifted by at most LIFT.
VIOLATION, LIFT = 1e-11, 1e-9
#: The violation at which Newton's method takes over; its steps, and a change of coefficients that ends them.
COARSE, NEWTON, SETTLED, ROUGH = 1e-3, 40, 1e-11, 1e-4
#: Constraints of a start are tried first where its value at an end, or its p′, is as near to the bound.
NEAR_END, NEAR = 1e-7, 1e-6
#: A normal is linearly dependent on those of A if the share of its square orthogonal to them is at most this.
DEPENDENT = 1e-20
#: Points of the grid for each degree; Newton steps to a local minimum; changes of A for each coefficient; halvings of a
#: cell.
POINTS, REFINEMENTS, ROUNDS, HALVINGS = 4, 4, 40, 24

_VIOLATION = cython.declare(cython.double, VIOLATION)
_COARSE = cython.declare(cython.double, COARSE)
_NEWTON = cython.declare(cython.int, NEWTON)
_SETTLED = cython.declare(cython.double, SETTLED)
_ROUGH = cython.declare(cython.double, ROUGH)
_NEAR_END = cython.declare(cython.double, NEAR_END)
_NEAR = cython.declare(cython.double, NEAR)
_INFINITE = cython.declare(cython.double, np.inf)
_LIFT = cython.declare(cython.double, LIFT)
_DEPENDENT = cython.declare(cython.double, DEPENDENT)
_POINTS = cython.declare(cython.int, POINTS)
_REFINEMENTS = cython.declare(cython.int, REFINEMENTS)
_ROUNDS = cython.declare(cython.int, ROUNDS)
_HALVINGS = cython.declare(cython.int, HALVINGS)
_PI = cython.declare(cython.double, np.pi)


@cython.final
@cython.cclass
class TangentQP:
    """Solver for one degree k ≥ 1.

    `solve` returns a status; then `x` has the coefficients of a monotone polynomial, `angles` the θ of the constraints
    held as equations (−1 for p(0) ≥ 0, −2 for p(1) ≤ 1) and `multipliers` theirs, `iterations` the changes of A, and
    `lift` what was added to p′.
    """

    x = cython.declare(object, visibility="readonly")
    iterations = cython.declare(cython.int, visibility="readonly")
    lift = cython.declare(cython.double, visibility="readonly")
    _degree: cython.int
    _size: cython.int
    _q: cython.int
    _x: cython.double[::1]
    _jt: cython.double[:, ::1]
    _columns: cython.double[:, ::1]  # row k is column k of R
    _grid: cython.double[:, ::1]  # the scaled normals at the points of the grid
    _values: cython.double[::1]
    _where: cython.double[::1]  # A, in the order of the columns of R
    _u: cython.double[::1]
    _n: cython.double[::1]
    _d: cython.double[::1]
    _r: cython.double[::1]
    _z: cython.double[::1]
    _slopes: cython.double[:, ::1]  # Chebyshev coefficients of p′, p″ and p‴ in 2u − 1
    _found: cython.double[::1]
    _tolerance: cython.double
    _gram: cython.double[:, ::1]
    _a: cython.double[::1]
    _t: cython.double[::1]  # tangencies, and their multipliers
    _mu: cython.double[::1]
    _normals: cython.double[:, ::1]
    _saved: cython.double[::1]

    def __init__(self, degree: cython.int):
        i: cython.int
        n: cython.int = degree + 1
        self._degree, self._size, self._q = degree, n, 0
        self.x = np.zeros(n)
        self._x = self.x
        self._jt, self._columns = np.zeros((n, n)), np.zeros((n + 1, n + 1))
        self._where, self._u, self._r = np.zeros(n + 1), np.zeros(n + 1), np.zeros(n + 1)
        self._n, self._d, self._z = np.zeros(n), np.zeros(n), np.zeros(n)
        self._slopes, self._found = np.zeros((3, n + 3)), np.zeros(n + 1)
        self._grid, self._values = np.zeros((POINTS * degree + 1, n)), np.zeros(POINTS * degree + 1)
        self._gram, self._normals = np.zeros((n, n)), np.zeros((n + 1, n))
        self._a, self._t, self._mu, self._saved = np.zeros(n), np.zeros(n + 1), np.zeros(n + 1), np.zeros(n + 1)
        self.iterations, self.lift, self._tolerance = 0, 0.0, COARSE
        for i in range(POINTS * degree + 1):
            self._set_normal(_PI * i / (POINTS * degree))
            self._grid[i, :] = self._n

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
        self._set_normal(theta)
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
        status: cython.int
        i: cython.int
        j: cython.int
        n: cython.int = self._size
        guesses: cython.int = 0
        if moments.shape[0] != 2 * n - 1 or cross.shape[0] != n or start.shape[0] not in (0, n):
            raise ValueError(f"{n} coefficients need {2 * n - 1} moments and {n} cross sums")
        self._q, self.iterations, self._tolerance = 0, 0, _COARSE
        for i in range(n):
            self._a[i] = cross[i]
            for j in range(n):
                self._gram[i, j] = 0.5 * (moments[i + j] + moments[abs(i - j)]) + (ridge if i == j > 0 else 0.0)
        if start.shape[0] == n:
            for i in range(n):
                self._x[i] = start[i]
            guesses = self._minima(_NEAR_END, _NEAR)
            for i in range(guesses):
                self._t[i], self._mu[i] = self._found[i], 0.0
            if self._polish(guesses) and self._finish():
                return 0
        if not self._begin():
            return 1
        if self._iterate() != 0:
            return 2
        guesses = self._q
        for i in range(guesses):
            self._saved[i] = self._where[i]
        if self._polish(self._tangencies()) and self._finish():
            return 0
        self._q, self._tolerance = 0, _VIOLATION
        self._begin()  # from the same constraints, to the end
        for i in range(guesses):
            if not self._try_out(self._saved[i]):
                return 2
        status = self._iterate()
        return status if status != 0 or self._finish() else 2

    @cython.cfunc
    @cython.exceptval(check=False)
    def _tangencies(self) -> cython.int:
        """Write where p′ touches 0 according to A, those near each other as one, and the multipliers; their number."""
        i: cython.int
        j: cython.int
        number: cython.int = 0
        h: cython.double = _PI / (_POINTS * self._degree)
        total: cython.double
        for i in range(self._q):
            j = 0
            while j < number and (self._where[i] < 0.0 or self._t[j] < 0.0 or fabs(self._t[j] - self._where[i]) > h):
                j += 1
            total = self._u[i] * (sin(self._where[i]) + 1.0 / self._degree if self._where[i] >= 0.0 else 1.0)
            if j == number:
                self._t[j], self._mu[j] = self._where[i], total
                number += 1
            elif self._mu[j] + total > 0.0:
                self._t[j] += total / (self._mu[j] + total) * (self._where[i] - self._t[j])
                self._mu[j] += total
        return number

    @cython.cfunc
    @cython.exceptval(check=False)
    def _polish(self, number: cython.int) -> cython.bint:
        """Newton's method on the conditions at these tangencies, which move with p; whether they hold then.

        The tangency at t moves by −N′·dc/f″ with c, N′ the derivative of the normal by θ and f″ that of p′, so that the
        Hessian of the Lagrangian is G + Σ μ N′N′ᵀ/f″.
        """
        i: cython.int
        j: cython.int
        m: cython.int
        _step: cython.int
        n: cython.int = self._size
        worst: cython.int
        found: cython.int
        changes: cython.int = 0
        bend: cython.double
        change: cython.double
        value: cython.double
        for _step in range(_NEWTON):
            if number > n:
                return False
            self.iterations += 1
            self._survey_slopes()
            for i in range(n):
                self._d[i] = self._a[i]
                for j in range(n):
                    self._columns[i, j] = self._gram[i, j]
            for m in range(number):
                if self._t[m] >= 0.0:
                    self._t[m] = self._refined_from(self._t[m], _PI / (_POINTS * self._degree))
                self._set_normal(self._t[m])
                value = 1.0 / (sin(self._t[m]) + 1.0 / self._degree) if self._t[m] >= 0.0 else 1.0
                for i in range(n):
                    self._normals[m, i] = value * self._n[i]
                if self._mu[m] > 0.0 and 0.0 < self._t[m] < _PI:
                    bend = self._bend(self._t[m])
                    if not bend > 0.0:
                        return False
                    self._set_turn(self._t[m])
                    value = 0.0
                    for i in range(n):
                        value += self._n[i] * self._x[i]
                    for i in range(n):
                        self._d[i] += self._mu[m] / bend * value * self._n[i]
                        for j in range(n):
                            self._columns[i, j] += self._mu[m] / bend * self._n[i] * self._n[j]
            change = self._equality(number)
            if not change < 1e3:
                return False
            if change > (_SETTLED if changes == 0 else _ROUGH):
                continue
            # a multiplier below 0 leaves; otherwise what is violated enters
            changes = 0
            worst = 0
            for m in range(1, number):
                if self._mu[m] < self._mu[worst]:
                    worst = m
            if number > 0 and self._mu[worst] < 0.0:
                number -= 1
                self._t[worst], self._mu[worst] = self._t[number], self._mu[number]
                changes = 1
            else:
                found = self._minima(-_VIOLATION, -_VIOLATION)
                for m in range(found):
                    if number < n:
                        self._t[number], self._mu[number] = self._found[m], 0.0
                        number += 1
                changes = found
            if changes == 0:
                break
        else:
            return False
        self._q = number
        for m in range(number):
            self._where[m] = self._t[m]
            self._u[m] = self._mu[m] / (sin(self._t[m]) + 1.0 / self._degree if self._t[m] >= 0.0 else 1.0)
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    def _equality(self, number: cython.int) -> cython.double:
        """Move to the minimum of ½cᵀHc − dᵀc with all constraints held; return the largest change of c."""
        i: cython.int
        j: cython.int
        k: cython.int
        n: cython.int = self._size
        total: cython.double
        change: cython.double = 0.0
        h: cython.double[:, ::1] = self._columns
        w: cython.double[:, ::1] = self._normals
        g: cython.double[:, ::1] = self._jt
        for i in range(n):  # H = LLᵀ, in place
            for j in range(i + 1):
                total = h[i, j]
                for k in range(j):
                    total -= h[i, k] * h[j, k]
                if i > j:
                    h[i, j] = total / h[j, j]
                elif total > 0.0:
                    h[i, i] = sqrt(total)
                else:
                    return _INFINITE
        for i in range(n):
            for j in range(i):
                self._d[i] -= h[i, j] * self._d[j]
            self._d[i] /= h[i, i]
        for k in range(number):  # w ← L⁻¹N
            for i in range(n):
                for j in range(i):
                    w[k, i] -= h[i, j] * w[k, j]
                w[k, i] /= h[i, i]
        for k in range(number):  # the Schur complement NᵀH⁻¹N, and its factor
            self._r[k] = -1.0 if self._t[k] < -1.5 else 0.0
            for i in range(n):
                self._r[k] -= w[k, i] * self._d[i]
            for j in range(k + 1):
                total = 0.0
                for i in range(n):
                    total += w[k, i] * w[j, i]
                for i in range(j):
                    total -= g[k, i] * g[j, i]
                if k > j:
                    g[k, j] = total / g[j, j]
                elif total > 0.0:
                    g[k, k] = sqrt(total)
                else:
                    return _INFINITE
        for k in range(number):
            for j in range(k):
                self._r[k] -= g[k, j] * self._r[j]
            self._r[k] /= g[k, k]
        for k in range(number - 1, -1, -1):
            for j in range(k + 1, number):
                self._r[k] -= g[j, k] * self._r[j]
            self._r[k] /= g[k, k]
        for k in range(number):
            self._mu[k] = self._r[k]
            for i in range(n):
                self._d[i] += self._r[k] * w[k, i]
        for i in range(n - 1, -1, -1):
            for j in range(i + 1, n):
                self._d[i] -= h[j, i] * self._d[j]
            self._d[i] /= h[i, i]
            change = max(change, fabs(self._d[i] - self._x[i]))
            self._x[i] = self._d[i]
        return change

    @cython.cfunc
    @cython.exceptval(check=False)
    def _set_turn(self, theta: cython.double) -> cython.void:
        """Set n to the derivative by θ of the normal of p′: of 2m sin(mθ)/sin θ."""
        m: cython.int
        c: cython.double = cos(theta)
        s: cython.double = sin(theta)
        self._n[0] = 0.0
        for m in range(1, self._size):
            self._n[m] = 2.0 * m * (m * cos(m * theta) * s - sin(m * theta) * c) / (s * s)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _begin(self) -> cython.bint:
        """Set Jᵀ to L⁻¹, and x to the minimum without constraints; whether G is positive definite."""
        i: cython.int
        j: cython.int
        k: cython.int
        n: cython.int = self._size
        total: cython.double
        factor: cython.double[:, ::1] = self._columns
        for i in range(n):
            for j in range(i + 1):
                total = self._gram[i, j]
                for k in range(j):
                    total -= factor[i, k] * factor[j, k]
                if i > j:
                    factor[i, j] = total / factor[j, j]
                elif total > 0.0:
                    factor[i, i] = sqrt(total)
                else:
                    return False
        for j in range(n):
            for i in range(n):
                self._jt[i, j] = 0.0
            self._jt[j, j] = 1.0 / factor[j, j]
            for i in range(j + 1, n):
                total = 0.0
                for k in range(j, i):
                    total += factor[i, k] * self._jt[k, j]
                self._jt[i, j] = -total / factor[i, i]
        for i in range(n):
            self._d[i] = self._x[i] = 0.0
            for j in range(i + 1):
                self._d[i] += self._jt[i, j] * self._a[j]
        for i in range(n):
            for j in range(i + 1):
                self._x[j] += self._d[i] * self._jt[i, j]
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    def _set_normal(self, theta: cython.double) -> cython.void:
        """Set n: of p(0), of −p(1), or of p′ at θ, scaled."""
        m: cython.int
        x: cython.double
        before: cython.double = 0.0
        now: cython.double = 1.0  # U_{m−1}, by its recurrence
        scale: cython.double
        if theta < 0.0:
            for m in range(self._size):
                self._n[m] = -1.0 if theta < -1.5 or m % 2 == 1 else 1.0
            return
        x = cos(theta)
        scale = 2.0 * (sin(theta) + 1.0 / self._degree)
        self._n[0] = 0.0
        for m in range(1, self._size):
            self._n[m] = scale * m * now
            before, now = now, 2.0 * x * now - before

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _slack(self, theta: cython.double) -> cython.double:
        """Return n·x less the bound of the constraint."""
        m: cython.int
        value: cython.double = 1.0 if theta < -1.5 else 0.0
        for m in range(self._size):
            value += self._n[m] * self._x[m]
        return value

    @cython.cfunc
    def _iterate(self) -> cython.int:
        """Add the constraints that are violated until there are none."""
        i: cython.int
        worst: cython.int
        least: cython.double
        slack: cython.double
        before: cython.int = -1
        number: cython.int = self._minima(-self._tolerance, -self._tolerance)
        while number > 0 and self.iterations > before:  # else nothing is violated but for rounding
            before = self.iterations
            worst = 0
            least = 0.0
            for i in range(number):
                self._set_normal(self._found[i])
                slack = self._slack(self._found[i])
                if slack < least:
                    least, worst = slack, i
            if not self._try_out(self._found[worst]):
                return 2
            number = self._minima(-self._tolerance, -self._tolerance)
        return 0

    @cython.cfunc
    def _try_out(self, theta: cython.double) -> cython.bint:
        """Add a constraint if it is violated; whether rounding did not get in the way."""
        self._set_normal(theta)
        return self._slack(theta) >= -_VIOLATION or self._take_in(theta)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _minima(self, below: cython.double, above: cython.double) -> cython.int:
        """Write the constraints of x with a slack below these: of the ends, and of the minima of p′. Their number."""
        i: cython.int
        number: cython.int = 0
        theta: cython.double
        bend: cython.double
        bottom: cython.double = 0.0
        top: cython.double = 0.0
        last: cython.int = _POINTS * self._degree
        values: cython.double[::1] = self._values
        for i in range(self._size):
            top += self._x[i]
            bottom += -self._x[i] if i % 2 == 1 else self._x[i]
        if bottom < below:
            self._found[number] = -1.0
            number += 1
        if 1.0 - top < below:
            self._found[number] = -2.0
            number += 1
        self._survey()
        for i in range(last + 1):
            if (i > 0 and values[i - 1] < values[i]) or (i < last and values[i + 1] < values[i]):
                continue
            if 0 < i < last:  # the minimum of a parabola through three points
                bend = values[i - 1] + values[i + 1] - 2.0 * values[i]
                if bend > 0.0 and values[i] > 0.5 * bend:
                    continue
            theta = self._refined(i)
            if self._derivative(theta) * (sin(theta) + 1.0 / self._degree) < above and number < self._size:
                self._found[number] = theta
                number += 1
        return number

    @cython.cfunc
    @cython.exceptval(check=False)
    def _survey(self) -> cython.void:
        """Set the scaled p′ at the points of the grid, and the coefficients of p′, p″ and p‴."""
        i: cython.int
        m: cython.int
        total: cython.double
        for i in range(_POINTS * self._degree + 1):
            total = 0.0
            for m in range(1, self._size):
                total += self._grid[i, m] * self._x[m]
            self._values[i] = total
        self._survey_slopes()

    @cython.cfunc
    @cython.exceptval(check=False)
    def _survey_slopes(self) -> cython.void:
        """Set the coefficients of p′, p″ and p‴."""
        m: cython.int
        k: cython.int
        total: cython.double
        # by u: twice the derivative by 2u − 1;  c′_{m−1} = c′_{m+1} + 2m c_m, and half of that for m = 1
        for k in range(3):
            for m in range(self._degree, -1, -1):
                self._slopes[k, m] = self._slopes[k, m + 2]
                if m < self._degree - k:
                    total = self._x[m + 1] if k == 0 else self._slopes[k - 1, m + 1]
                    self._slopes[k, m] += 4.0 * (m + 1) * total
            self._slopes[k, 0] *= 0.5

    @cython.cfunc
    @cython.exceptval(check=False)
    def _series(self, k: cython.int, x: cython.double) -> cython.double:
        """Return the value of a series in Chebyshev polynomials: Clenshaw's recurrence."""
        m: cython.int
        value: cython.double = 0.0
        after: cython.double = 0.0
        for m in range(self._degree - 1 - k, 0, -1):
            value, after = 2.0 * x * value - after + self._slopes[k, m], value
        return x * value - after + self._slopes[k, 0]

    @cython.cfunc
    @cython.exceptval(check=False)
    def _derivative(self, theta: cython.double) -> cython.double:
        return self._series(0, cos(theta))

    @cython.cfunc
    @cython.exceptval(check=False)
    def _refined(self, i: cython.int) -> cython.double:
        """Return the θ of the minimum of p′ near a point of the grid, within a step of it."""
        h: cython.double = _PI / (_POINTS * self._degree)
        return self._refined_from(h * i, h)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _refined_from(self, theta: cython.double, h: cython.double) -> cython.double:
        """Return the θ of the minimum of p′ within h of this one."""
        _step: cython.int
        low: cython.double = max(theta - h, 0.0)
        high: cython.double = min(theta + h, _PI)
        first: cython.double
        second: cython.double
        step: cython.double
        for _step in range(_REFINEMENTS):
            second = self._bend(theta)
            first = -0.5 * self._series(1, cos(theta)) * sin(theta)
            if not second > 0.0:
                break
            step = min(max(theta - first / second, low), high) - theta
            theta += step
            if fabs(step) < 1e-9:
                break
        return theta

    @cython.cfunc
    @cython.exceptval(check=False)
    def _bend(self, theta: cython.double) -> cython.double:
        """Return the second derivative of p′ by θ; a derivative by u is half of one by 2u − 1 = cos θ."""
        x: cython.double = cos(theta)
        return 0.25 * self._series(2, x) * (1.0 - x * x) - 0.5 * self._series(1, x) * x

    @cython.cfunc
    def _take_in(self, theta: cython.double) -> cython.bint:
        """Add a constraint to A; constraints whose multipliers would become negative leave A on the way."""
        k: cython.int
        leaving: cython.int
        square: cython.double
        longest: cython.double
        step: cython.double
        own: cython.double = 0.0
        while True:
            self.iterations += 1
            if self.iterations > _ROUNDS * self._size:
                return False
            square = self._directions()
            leaving, longest = -1, 0.0  # the step at which the first multiplier becomes 0
            for k in range(self._q):
                if self._r[k] > 0.0 and (leaving < 0 or self._u[k] < longest * self._r[k]):
                    leaving, longest = k, self._u[k] / self._r[k]
            if square == 0.0:
                if leaving < 0:
                    return False
                step = longest
            else:
                step = -self._slack(theta) / square
                if leaving >= 0 and longest < step:
                    step = longest
                else:
                    leaving = -1
                for k in range(self._size):
                    self._x[k] += step * self._z[k]
            for k in range(self._q):
                self._u[k] -= step * self._r[k]
            own = own + step
            if leaving < 0:
                self._append(theta, square, own)
                return True
            self._drop(leaving)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _directions(self) -> cython.double:
        """d, z and r for n; returns zᵀn = Σ_{j≥q} d_j², 0 where n depends on the normals of A."""
        i: cython.int
        k: cython.int
        n: cython.int = self._size
        q: cython.int = self._q
        value: cython.double
        inside: cython.double = 0.0
        square: cython.double = 0.0
        for i in range(n):
            self._z[i] = 0.0
        for k in range(n):
            value = 0.0
            for i in range(n):
                value += self._jt[k, i] * self._n[i]
            self._d[k] = value
            if k < q:
                inside = inside + value * value
                continue
            square = square + value * value
            for i in range(n):
                self._z[i] += value * self._jt[k, i]
        for k in range(q):
            self._r[k] = self._d[k]
        for k in range(q - 1, -1, -1):
            self._r[k] = self._r[k] / self._columns[k, k]
            value = self._r[k]
            for i in range(k):
                self._r[i] -= value * self._columns[k, i]
        return square if square > _DEPENDENT * (inside + square) else 0.0

    @cython.cfunc
    @cython.exceptval(check=False)
    def _append(self, theta: cython.double, square: cython.double, multiplier: cython.double) -> cython.void:
        """Append n to A: reflect the rows q..N−1 of Jᵀ so that d becomes a multiple of its entry q."""
        i: cython.int
        k: cython.int
        n: cython.int = self._size
        q: cython.int = self._q
        length: cython.double = sqrt(square)
        factor: cython.double
        if self._d[q] < 0.0:
            length = -length
        for i in range(q):
            self._columns[q, i] = self._d[i]
        self._columns[q, q] = -length
        factor = 1.0 / (square + length * self._d[q])
        for i in range(n):
            self._z[i] += length * self._jt[q, i]
        self._d[q] += length
        for k in range(q, n):
            for i in range(n):
                self._jt[k, i] -= factor * self._d[k] * self._z[i]
        self._where[q], self._u[q] = theta, multiplier
        self._q = q + 1

    @cython.cfunc
    @cython.exceptval(check=False)
    def _drop(self, leaving: cython.int) -> cython.void:
        """Take a constraint out of A: rotate R to be upper triangular without its column, and Jᵀ with it."""
        i: cython.int
        k: cython.int
        a: cython.double
        b: cython.double
        c: cython.double
        s: cython.double
        length: cython.double
        self._q -= 1
        for k in range(leaving, self._q):
            for i in range(k + 2):
                self._columns[k, i] = self._columns[k + 1, i]
            self._where[k], self._u[k] = self._where[k + 1], self._u[k + 1]
        for k in range(leaving, self._q):
            a, b = self._columns[k, k], self._columns[k, k + 1]
            length = sqrt(a * a + b * b)
            if length == 0.0:
                continue
            c, s = a / length, b / length
            for i in range(k, self._q):
                a, b = self._columns[i, k], self._columns[i, k + 1]
                self._columns[i, k], self._columns[i, k + 1] = c * a + s * b, c * b - s * a
            for i in range(self._size):
                a, b = self._jt[k, i], self._jt[k + 1, i]
                self._jt[k, i], self._jt[k + 1, i] = c * a + s * b, c * b - s * a

    @cython.cfunc
    @cython.exceptval(check=False)
    def _finish(self) -> cython.bint:
        """Lift p so that it is monotone, and scale it into [0, 1]; whether that changes next to nothing."""
        i: cython.int
        floor: cython.double
        bottom: cython.double = 0.0
        top: cython.double = 0.0
        self._survey()
        floor = self._floor()
        self.lift = max(-floor, 0.0)
        if not self.lift <= _LIFT:
            return False
        self._x[0] += 0.5 * self.lift
        self._x[1] += 0.5 * self.lift
        for i in range(self._size):
            bottom += -self._x[i] if i % 2 == 1 else self._x[i]
        self._x[0] += max(-bottom, 0.0)
        for i in range(self._size):
            top += self._x[i]
        for i in range(self._size):
            self._x[i] /= max(top, 1.0)
        return -bottom <= _LIFT and top <= 1.0 + _LIFT + self.lift

    @cython.cfunc
    @cython.exceptval(check=False)
    def _floor(self) -> cython.double:
        """Return a lower bound of p′, which is within LIFT/2 of 0 if it is negative, unless p′ is."""
        i: cython.int
        cells: cython.int = 2 * _POINTS * self._degree
        size: cython.double = 0.0
        least: cython.double = 0.0
        for i in range(self._degree):
            size += fabs(self._slopes[0, i])
        for i in range(cells):
            least = min(least, self._cell_floor(_PI * i / cells, _PI * (i + 1) / cells, size))
        return least

    @cython.cfunc
    @cython.exceptval(check=False)
    def _cell_floor(self, low: cython.double, high: cython.double, size: cython.double) -> cython.double:
        """Return a lower bound of p′ between two θ: halve the part that may be below 0, from the left."""
        h: cython.double
        f0: cython.double
        f1: cython.double
        s0: cython.double
        s1: cython.double
        bound: cython.double
        least: cython.double = 0.0
        end: cython.double = high
        d: cython.double = self._degree - 1.0
        halvings: cython.int = 0
        f0, s0 = self._series(0, cos(low)), -0.5 * sin(low) * self._series(1, cos(low))
        while low < high:
            f1, s1 = self._series(0, cos(end)), -0.5 * sin(end) * self._series(1, cos(end))
            h = end - low
            bound = min(min(f0, f0 + h * s0 / 3.0), min(f1, f1 - h * s1 / 3.0)) - (h * d) ** 4 * size / 384.0
            if bound < -0.1 * _LIFT and halvings < _HALVINGS and f1 > -0.1 * _LIFT:
                end = 0.5 * (low + end)
                halvings += 1
                continue
            least = min(least, bound)
            low, f0, s0 = end, f1, s1
            end = min(high, low + 2.0 * h)
            halvings = max(halvings - 1, 0)
        return least
