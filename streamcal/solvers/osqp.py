"""Monotone Bernstein least squares by OSQP: one setup, then only new numbers and a warm start."""

from math import comb, isfinite

import numpy as np
import osqp
from numpy.typing import NDArray
from scipy import sparse

from streamcal.kernels.monotone_qp import RIDGE
from streamcal.solvers.solution import Solution

TOLERANCE = 1e-6

SETTINGS = {
    "verbose": False,
    "polishing": False,
    "adaptive_rho": True,
    "adaptive_rho_interval": 50,
    "check_termination": 10,
    "scaling": 10,
    "rho": 0.1,
    "alpha": 1.6,
    "max_iter": 100_000,
}


class WarmOSQP:
    """The problem of `MonotoneLeastSquares` in the coefficients c, kept inside one OSQP workspace.

        min ½cᵀPc − rᵀc    P = VᵀV/W + ridge · DᵀD    0 <= c_0,  0 <= c_i − c_{i−1},  c_n <= 1

    D takes first differences. The sparsity pattern is set once, the whole upper triangle of P; a solve then
    updates the numbers and continues from the last primal and dual point.

    Args:
        degree: n, 1..50.
        tolerance: eps_abs and eps_rel of OSQP.
        ridge: the penalty that makes the answer unique where the data do not.

    Attributes:
        violation: by how much the last raw coefficients violated the constraints, before the projection.
    """

    def __init__(self, degree: int, tolerance: float = TOLERANCE, ridge: float = RIDGE) -> None:
        self.degree = degree
        self.tolerance = tolerance
        self.ridge = ridge
        self.violation = 0.0
        n = degree
        row, column = np.triu_indices(n + 1)
        order = np.lexsort((row, column))
        row, column = row[order], column[order]
        self._index = row + column
        self._ratio = np.array(
            [comb(n, i) * comb(n, j) / comb(2 * n, i + j) for i, j in zip(row, column, strict=True)]
        )
        differences = np.diff(np.eye(n + 1), axis=0)
        self._penalty = ridge * (differences.T @ differences)[row, column]
        self._setup(row, column)

    def _setup(self, row: NDArray[np.intp], column: NDArray[np.intp]) -> None:
        n = self.degree
        pattern = sparse.csc_matrix((np.ones(len(row)), (row, column)), shape=(n + 1, n + 1))
        # rows: c_0, then the n differences, then c_n
        constraints = sparse.vstack(
            [sparse.diags_array([1.0, -1.0], offsets=[0, -1], shape=(n + 1, n + 1)), np.eye(1, n + 1, n)]
        )
        lower = np.zeros(n + 2)
        upper = np.full(n + 2, np.inf)
        lower[n + 1], upper[n + 1] = -np.inf, 1.0
        self._solver = osqp.OSQP(algebra="builtin")
        self._solver.setup(
            pattern, np.zeros(n + 1), sparse.csc_matrix(constraints), lower, upper,
            eps_abs=self.tolerance, eps_rel=self.tolerance, **SETTINGS,
        )  # fmt: skip

    def solve(self, moments: NDArray[np.float64], cross: NDArray[np.float64], weight: float) -> Solution:
        """Solve for 2n+1 moments and n+1 cross sums over a total weight > 0."""
        if not weight > 0.0:
            return Solution(np.zeros(self.degree + 1), "no data", False, 0, 0.0)
        values = self._ratio * (moments / weight)[self._index] + self._penalty
        linear = cross / -weight
        if not isfinite(values.sum() + linear.sum()):
            return Solution(np.zeros(self.degree + 1), "not finite", False, 0, 0.0)
        self._solver.update(Px=values, q=linear)
        result = self._solver.solve(raise_error=False)
        x = self._project(result.x)
        info = result.info
        solved = info.status_val == osqp.SolverStatus.OSQP_SOLVED
        if not solved:
            self.reset()
        return Solution(x, info.status, solved, int(info.iter), float(max(info.prim_res, info.dual_res)))

    def reset(self) -> None:
        """Forget the last point: the next solve starts cold."""
        self._solver.warm_start(x=np.zeros(self.degree + 1), y=np.zeros(self.degree + 2))

    def _project(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Onto nondecreasing sequences in [0, 1]; OSQP meets its constraints only to about the tolerance."""
        projected = np.clip(np.maximum.accumulate(x), 0.0, 1.0)
        self.violation = float(np.abs(projected - x).max())
        return projected
