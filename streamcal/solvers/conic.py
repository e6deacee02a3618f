"""Least squares over all polynomials of one degree that are monotone on [0, 1].

Symbols, after paper 002 (Wang, Li & Dang, "Shape-Restricted Polynomial Regression"), §3:

    k       degree; u in [0, 1]; T_m the Chebyshev polynomials in 2u − 1
    c       Chebyshev coefficients of p, (k + 1,):  p = Σ c_m T_m
    Q, r    Gram matrix and cross sums per unit of weight:  Q_ij = Σ w T_i T_j / W,  r_i = Σ w y T_i / W
    U, V    positive semidefinite Gram matrices of the two sums of squares in p'
    λ       bound of the ℓ1 norm of the coefficients (22d); the argument `bound`

Lemma 1 on [0, 1]: a polynomial of degree d is nonnegative there if and only if it is

    d odd:   u·s₁(u) + (1 − u)·s₂(u)    with sums of squares s₁, s₂ of degree d − 1;  U, V of size (d + 1)/2
    d even:  s₁(u) + u (1 − u)·s₂(u)    with s₁ of degree d, s₂ of degree d − 2;      U of size d/2 + 1, V of d/2

Here the nonnegative polynomial is p', d = k − 1: for even k both matrices are k/2 × k/2, as in (22e); for odd k they
have sizes (k + 1)/2 and (k − 1)/2, as in (23e). The Hankel matrices printed in (23c) are one row larger than that.

Each s = φᵀUφ is written in the polynomials φ orthonormal for its own factor (1, u, 1 − u or u (1 − u)). Then
∫ factor·s = tr U, and so p(1) − p(0) = tr U + tr V: every variable lies between 0 and 1, for every k.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.polynomial import chebyshev, legendre
from numpy.typing import NDArray
from scipy import sparse

from streamcal.kernels.polynomial.tangent_qp import IS_COMPILED, SOLVED, TangentQP
from streamcal.solvers.solution import Solution

Array = NDArray[np.float64]
Basis = Literal["monomial", "chebyshev"]

MAX_DEGREE = 40
"""Largest degree, which is the largest in the paper."""

RIDGE = 1e-6
"""A penalty ½ ridge Σ_{m>=1} c_m² on the mean square. Where the data do not determine the curve, it selects the
flattest one. Since Σ_{m>=1} c_m² <= ½ for 0 <= p <= 1, it raises half the mean square by 3e-7 at most."""

TOLERANCE = 1e-11
"""Clarabel's gap and residuals. Half the mean square is then within 1e-11 of its minimum, and the fitted values are
accurate to √(2e-11) = 4.5e-6 in the root mean square. Between the scores of a few observations only the ridge
determines the curve, and there it is accurate to some 1e-3. A tolerance of 1e-12 is out of reach of double
precision."""

ACCEPTED = 1e-8
"""The tolerance of "almost solved", where rounding stops Clarabel before TOLERANCE: fitted values are then accurate to
1.4e-4."""

LATER_TOLERANCES = (1e-9, ACCEPTED)
"""Where all programs with λ end unsolved, they are tried again with these tolerances, one after the other, which
Clarabel reaches before its steps become too small to make progress: its first point within 1e-9 is better than its last
one after 1e-11 was missed. The solution then counts as "almost solved"."""

STEP = 2.0**-36
"""The sums, per unit of weight, are rounded to multiples of this before the solve. The effect on a fit is no larger
than that of TOLERANCE; and sums that differ by rounding alone, because they were added in another order, nearly always
give the same program, and so the same solution bit for bit."""

_SQRT2 = float(np.sqrt(2.0))


@dataclass(frozen=True, eq=False)
class _Squares:
    """One sum of squares times its factor, integrated.

    Column (i, j) of `to_series` has the Chebyshev coefficients of ∫₀ᵘ factor·φᵢφⱼ. Columns run over the upper triangle
    by columns, with off-diagonal entries times √2, the packed form of Clarabel.
    """

    size: int
    row: NDArray[np.intp]
    column: NDArray[np.intp]
    to_series: Array

    def matrix(self, packed: Array) -> Array:
        """Return the symmetric matrix of a packed triangle."""
        full = np.zeros((self.size, self.size))
        full[self.row, self.column] = np.where(self.row == self.column, packed, packed / _SQRT2)
        return full + np.triu(full, 1).T

    def packed(self, full: Array) -> Array:
        """Return the packed triangle of a symmetric matrix."""
        values: Array = full[self.row, self.column]
        return np.where(self.row == self.column, values, values * _SQRT2)


@lru_cache(maxsize=64)
def _squares(degree: int) -> tuple[_Squares, ...]:
    """Return the two sums of squares of Lemma 1 for p' of degree k − 1; for k = 1 the empty second is left out."""
    if degree % 2 == 0:
        factors = [(lambda u: u, degree // 2), (lambda u: 1.0 - u, degree // 2)]
    else:
        factors = [(np.ones_like, (degree + 1) // 2), (lambda u: u * (1.0 - u), (degree - 1) // 2)]
    return tuple(_squares_of(degree, factor, size) for factor, size in factors if size > 0)


def _squares_of(degree: int, factor: Any, size: int) -> _Squares:
    # orthonormal: the R of a QR factorisation over the nodes of a quadrature that is exact for the products
    x, weight = legendre.leggauss(degree + 1)
    rows = chebyshev.chebvander(x, size - 1) * np.sqrt(0.5 * weight * factor(0.5 * (1.0 + x)))[:, None]
    triangle = np.linalg.qr(rows)[1]
    # values at k Chebyshev points are coefficients of degree k − 1 by a cosine transform, and those integrate exactly
    points = np.cos(np.pi * (np.arange(degree) + 0.5) / degree)
    values = np.linalg.solve(triangle.T, chebyshev.chebvander(points, size - 1).T)
    row, column = np.triu_indices(size)
    order = np.lexsort((row, column))
    row, column = row[order], column[order]
    scale = np.where(row == column, 1.0, _SQRT2)[:, None]
    products = factor(0.5 * (1.0 + points)) * values[row] * values[column] * scale
    transform = chebyshev.chebvander(points, degree - 1) * np.where(np.arange(degree) == 0, 1.0, 2.0) / degree
    return _Squares(size, row, column, chebyshev.chebint(products @ transform, lbnd=-1, scl=0.5, axis=1).T)


@lru_cache(maxsize=64)
def _monomials(degree: int) -> Array:
    """Return in column j the Chebyshev coefficients of uʲ, which are nonnegative and add up to 1."""
    columns = np.zeros((degree + 1, degree + 1))
    power: Array = np.ones(1)
    for j in range(degree + 1):
        columns[: j + 1, j] = power
        power = np.asarray(chebyshev.chebmul(power, [0.5, 0.5]), dtype=np.float64)
    return columns


@lru_cache(maxsize=64)
def _to_monomials(degree: int) -> Array:
    """Invert `_monomials`: column m has the coefficients of 1, u, u², … in T_m, integers up to 10³⁰."""
    columns = np.zeros((degree + 2, degree + 1))
    columns[0, 0], columns[:2, 1] = 1.0, (-1.0, 2.0)
    for m in range(2, degree + 1):
        last = columns[:, m - 1]
        columns[:, m] = 4.0 * np.roll(last, 1) - 2.0 * last - columns[:, m - 2]
    return columns[:-1]


class _Program(NamedTuple):
    """Constraints in Clarabel's form."""

    matrix: sparse.csc_matrix
    right: Array
    cones: list[Any]


class MonotonePolynomialFit:
    """min ½cᵀQc − rᵀc + ½ ridge Σ_{m>=1} c_m² over all p = Σ c_m T_m with p' >= 0 on [0, 1], 0 <= p(0), p(1) <= 1.

    With a `bound` λ, the solution is within ACCEPTED of a polynomial that satisfies it. λ bounds the coefficients of
    the `basis`: 1, u, u², … (22d), or the Chebyshev polynomials. Monomial coefficients reach the limits of double
    precision early: from λ = 10⁵ on, at degree 16, a solution may be 10⁻⁶ above the minimum of half the mean square,
    and for larger λ the program ends unsolved.

    Without λ, or where λ is fulfilled without being asked for, the solution is found by the few points where p′ touches
    0 (`kernels/polynomial/tangent_qp.py`), to 1e-9 of half the mean square by its duality gap: from the last solution
    0.04 to 0.06 ms a step at degree 16. If rounding stops that, with λ, and where kernels are not compiled, Clarabel
    solves the semidefinite program.

    The polynomial of Clarabel is assembled from p(0) and the eigenvalues of U and V, with negative eigenvalues set to
    0: it is monotone and within [0, 1] up to the rounding of its k + 1 coefficients, however accurate the solver was.
    This solve is always a cold start, since an interior-point method cannot be warm-started. Memory: the constraint
    matrices have O(k³) entries.
    """

    def __init__(self, degree: int, bound: float | None = None, basis: Basis = "monomial") -> None:
        self.degree = degree
        self.bound = bound
        self._clarabel = _import_clarabel()
        self._tangents = TangentQP(degree)
        self._squares = _squares(degree)
        # the program without λ is solved first: where its solution satisfies λ, it is the solution, and more accurate
        self._programs = [self._program()]
        if bound is not None:
            monomial = basis == "monomial"
            self._bounded = _to_monomials(degree) if monomial else np.eye(degree + 1)
            columns = _monomials(degree) if monomial else np.eye(degree + 1)
            # in units of λ all variables are small, in units of √λ variables and coefficients are of medium size: of
            # programs with few observations and λ up to 10⁶, 1 in 20 failed in the former, 1 in 400 in both units
            self._programs += [self._program(bound, columns, unit) for unit in (bound, bound**0.5)]
        # the upper triangle of P by columns, as Clarabel requires; only the variables c have entries in it
        row, column = np.triu_indices(degree + 1)
        order = np.lexsort((row, column))
        row, column = row[order], column[order]
        self._row, self._sum, self._difference = row, row + column, column - row
        self._ridge = np.where((row == column) & (row > 0), RIDGE, 0.0)
        self._starts = np.append(0, np.cumsum(np.arange(1, degree + 2)))

    def _program(self, bound: float = np.inf, basis: Array | None = None, unit: float = 1.0) -> _Program:
        """Return the constraints Az + s = b, s in the cones, of z = (c, p(0), U, V) and, in some unit, (a⁺, a⁻)."""
        n, clarabel = self.degree + 1, self._clarabel
        series = np.hstack([np.eye(n, 1), *(squares.to_series for squares in self._squares)])
        packed = series.shape[1] - 1
        top = np.concatenate([[1.0], *(1.0 * (squares.row == squares.column) for squares in self._squares)])
        cones = [clarabel.ZeroConeT(n), clarabel.NonnegativeConeT(2)]
        cones += [clarabel.PSDTriangleConeT(squares.size) for squares in self._squares]
        rows = [
            np.hstack([np.eye(n), -series]),  # c is the series of p(0), U and V
            np.hstack([np.zeros(n), -np.eye(1, packed + 1)[0]])[None],  # 0 <= p(0)
            np.hstack([np.zeros(n), top])[None],  # p(1) <= 1
            np.hstack([np.zeros((packed, n + 1)), -np.eye(packed)]),  # U, V positive semidefinite
        ]
        right = [np.zeros(n), np.array([0.0, 1.0]), np.zeros(packed)]
        matrix = np.vstack(rows)
        if basis is not None:
            # c is the series of a = unit·(a⁺ − a⁻), with a⁺, a⁻ >= 0 and Σ(a⁺ + a⁻) <= λ / unit
            split = np.hstack([np.zeros((2 * n, matrix.shape[1])), -np.eye(2 * n)])
            total = np.hstack([np.zeros(matrix.shape[1]), np.ones(2 * n)])[None]
            equal = np.hstack([np.eye(n), np.zeros((n, packed + 1)), -unit * basis, unit * basis])
            matrix = np.vstack([np.hstack([matrix, np.zeros((len(matrix), 2 * n))]), split, total, equal])
            right += [np.zeros(2 * n), np.array([bound / unit]), np.zeros(n)]
            cones += [clarabel.NonnegativeConeT(2 * n + 1), clarabel.ZeroConeT(n)]
        return _Program(sparse.csc_matrix(matrix), np.concatenate(right), cones)

    def solve(self, moments: Array, cross: Array, weight: float, start: Array | None = None) -> Solution:
        """Solve for the weighted sums of the Chebyshev polynomials; `x` is c.

        `moments` are Σ w T_m(u), m = 0 … 2k, `cross` Σ w y T_m(u), m = 0 … k, and `weight` is W > 0. Coefficients of a
        solution for similar sums, `start`, save time.
        """
        if not weight > 0.0:
            return Solution(np.zeros(self.degree + 1), "no data", False, 0, 0.0)
        rounded, linear = np.rint(moments / weight / STEP) * STEP, np.rint(-cross / weight / STEP) * STEP
        quadratic = 0.5 * (rounded[self._sum] + rounded[self._difference]) + self._ridge
        if not np.isfinite(quadratic.sum() + linear.sum()):
            return Solution(np.zeros(self.degree + 1), "not finite", False, 0, 0.0)
        free, *bounded = self._programs
        solution = self._touching(rounded, -linear, start)
        if not solution.solved:
            solution = self._solved(free, quadratic, linear)
        if self.bound is None or (solution.solved and np.abs(self._bounded @ solution.x).sum() <= self.bound):
            return solution
        for tolerance in (TOLERANCE, *LATER_TOLERANCES):
            for program in bounded:
                solution = self._solved(program, quadratic, linear, tolerance)
                if solution.solved:
                    return solution
        return solution

    def _touching(self, moments: Array, cross: Array, start: Array | None) -> Solution:
        """Solve without λ by the points where p′ touches 0; on a grid of 2⁻³⁶ the sums are exact doubles."""
        tangents = self._tangents
        if not IS_COMPILED:
            return Solution(np.zeros(self.degree + 1), "not compiled", False, 0, 0.0)
        status = tangents.solve(moments, cross, RIDGE, np.empty(0) if start is None else start)
        solved = status == SOLVED
        return Solution(
            tangents.x.copy(), "solved" if solved else "not solved", solved, tangents.iterations, tangents.lift
        )

    def _solved(self, program: _Program, quadratic: Array, linear: Array, tolerance: float = TOLERANCE) -> Solution:
        """Run Clarabel once on the upper triangle of Q and on −r."""
        size = program.matrix.shape[1]
        rest = size - len(linear)
        starts = np.append(self._starts, np.full(rest, self._starts[-1]))
        upper = sparse.csc_matrix((quadratic, self._row, starts), shape=(size, size))
        result = self._clarabel.DefaultSolver(
            upper, np.append(linear, np.zeros(rest)), *program, self._settings(tolerance)
        ).solve()
        solved = "solved" if tolerance <= TOLERANCE else "almost solved"
        status = {"Solved": solved, "AlmostSolved": "almost solved"}.get(str(result.status), str(result.status))
        return Solution(
            x=self._assembled(np.array(result.x)[len(linear) :]),
            status=status,
            solved=status in ("solved", "almost solved"),
            iterations=int(result.iterations),
            residual=float(max(result.r_prim, result.r_dual, abs(result.obj_val - result.obj_val_dual))),
        )

    def _assembled(self, variables: Array) -> Array:
        """Return the coefficients of p with this p(0), U and V; eigenvalues < 0 become 0, p(1) > 1 is scaled to 1."""
        bottom = max(variables[0], 0.0)
        coefficients, top, start = np.zeros(self.degree + 1), bottom, 1
        coefficients[0] = bottom
        for squares in self._squares:
            end = start + len(squares.row)
            values, vectors = np.linalg.eigh(squares.matrix(variables[start:end]))
            values = np.maximum(values, 0.0)
            coefficients += squares.to_series @ squares.packed((vectors * values) @ vectors.T)
            top += values.sum()
            start = end
        return coefficients / max(top, 1.0)

    def _settings(self, tolerance: float) -> Any:
        settings = self._clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_threads = 1  # the systems are small, and sums of several threads would not repeat
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = tolerance
        settings.reduced_tol_gap_abs = settings.reduced_tol_gap_rel = settings.reduced_tol_feas = ACCEPTED
        return settings


def _import_clarabel() -> Any:
    """Import the module `clarabel`; `ModuleNotFoundError` naming the extra if it is not installed."""
    try:
        import clarabel
    except ModuleNotFoundError:
        raise ModuleNotFoundError('semidefinite programs need clarabel; pip install ".[conic]" brings it') from None
    return clarabel
