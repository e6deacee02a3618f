"""Monotone Bernstein least squares by OSQP: one setup, then warm-started updates.

Symbols are those of `streamcal.solvers.active_set`. Source of the solver: Stellato, Banjac, Goulart, Bemporad and Boyd
2020, "OSQP: an operator splitting solver for quadratic programs". OSQP and SciPy are imported by the first solver that
is made: `Bernstein` needs neither by default.
"""

from __future__ import annotations

from dataclasses import replace
from math import comb, isfinite

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.polynomial.monotone_qp import RIDGE
from streamcal.solvers.active_set import MonotoneLeastSquares
from streamcal.solvers.solution import Solution

TOLERANCE = 1e-6
"""Default `eps_abs`. Fitted values are then accurate to 1e-4 at every observed score, including the far tail of
Beta(1, 200) scores, and to about 1e-7 on evenly spread scores. 1e-5 is faster, and less accurate in that tail."""

OBJECTIVE_SCALE = 1e4
"""The objective per unit of weight is multiplied by this. OSQP compares primal and dual residuals with the same
eps_abs. A primal residual of 1e-6 is harmless, since the projection removes it, but in a direction that few scores
determine the gradient is far smaller than that, and the dual residual has to resolve it."""

SETTINGS = {
    # relative criteria would measure the gradient against its largest entries, and stop 1e3 times too early
    "eps_rel": 0.0,
    # rho is adapted at fixed iterations, not after measured times, so that runs are reproducible; the adapted value
    # is kept from solve to solve. Adapting at a ratio of 2 instead of 5 saves a fifth to a half of the iterations.
    "adaptive_rho": True,
    "adaptive_rho_interval": 50,
    "adaptive_rho_tolerance": 2.0,
    "rho": 0.1,
    "check_termination": 10,
    # every new P is equilibrated again; 4 rounds do as well as the default 10, and 0 does not converge
    "scaling": 4,
    # a cold start takes 100 to 2,000 iterations
    "max_iter": 4000,
    # polishing would be exact and cheap, but OSQP 1.1 prints from it where no constraint is active
    "polishing": False,
    "verbose": False,
}


class WarmOSQP:
    """The problem of `MonotoneLeastSquares` in the coefficients c, kept inside one OSQP workspace.

        min ½cᵀPc − rᵀc    P = VᵀV/W + ridge · DᵀD    0 <= c_0,  0 <= c_i − c_{i−1},  c_n <= 1

    where D takes first differences.

    `tolerance` is `eps_abs` of OSQP, compared with the coefficients and the gradient of the scaled objective.
    `violation` is the largest violation of the constraints by the last raw coefficients, before the projection.

    The sparsity pattern, the whole upper triangle of P, is set once; a solve updates the numbers and continues from the
    last primal and dual point. Where all multipliers are nearly 0 (two or three observations, a few tied scores, scores
    within 1e-6 of each other) ADMM would need 10⁵ iterations. What OSQP does not solve in `max_iter` iterations is
    solved by the active-set kernel, and the status reports it.

    Cost of a solve: O(n³) for the factor of the new P, and O(n²) for each iteration; O(n²) memory.
    """

    def __init__(self, degree: int, tolerance: float = TOLERANCE) -> None:
        import osqp
        from scipy import sparse

        self.degree = degree
        self.violation = 0.0
        self._exact = MonotoneLeastSquares(degree)
        n = degree
        row, column = np.triu_indices(n + 1)
        order = np.lexsort((row, column))
        row, column = row[order], column[order]
        self._index = row + column
        # P_ij = C(n,i) C(n,j) / C(2n,i+j) · moments[i+j]
        self._ratio = OBJECTIVE_SCALE * np.array(
            [comb(n, i) * comb(n, j) / comb(2 * n, i + j) for i, j in zip(row, column, strict=True)]
        )
        differences = np.diff(np.eye(n + 1), axis=0)
        self._penalty = OBJECTIVE_SCALE * RIDGE * (differences.T @ differences)[row, column]
        # rows: c_0, then the n differences, then c_n
        constraints = np.vstack([np.eye(n + 1) - np.eye(n + 1, k=-1), np.eye(1, n + 1, n)])
        lower = np.zeros(n + 2)
        upper = np.full(n + 2, np.inf)
        lower[n + 1], upper[n + 1] = -np.inf, 1.0
        pattern = sparse.csc_matrix((np.ones(len(row)), (row, column)), shape=(n + 1, n + 1))
        self._solver = osqp.OSQP(algebra="builtin")
        matrix = sparse.csc_matrix(constraints)
        self._solver.setup(pattern, np.zeros(n + 1), matrix, lower, upper, eps_abs=tolerance, **SETTINGS)

    def solve(self, moments: NDArray[np.float64], cross: NDArray[np.float64], weight: float) -> Solution:
        """Solve for sums as `MonotoneLeastSquares.solve` does; `x` satisfies the constraints exactly."""
        if not weight > 0.0:
            return Solution(np.zeros(self.degree + 1), "no data", False, 0, 0.0)
        values = self._ratio * (moments / weight)[self._index] + self._penalty
        linear = cross / weight * -OBJECTIVE_SCALE
        if not isfinite(values.sum() + linear.sum()):
            return Solution(np.zeros(self.degree + 1), "not finite", False, 0, 0.0)
        self._solver.update(Px=values, q=linear)
        result = self._solver.solve(raise_error=False)
        info = result.info
        if info.status != "solved":
            # keep the point, but not the rho with which it did not converge
            self._solver.update_settings(rho=SETTINGS["rho"])
            return self._finish_by_active_set(moments, cross, weight, int(info.iter))
        x = self._project(result.x)
        return Solution(x, "solved", True, int(info.iter), float(max(info.prim_res, info.dual_res)))

    def _finish_by_active_set(
        self, moments: NDArray[np.float64], cross: NDArray[np.float64], weight: float, iterations: int
    ) -> Solution:
        exact = self._exact.solve(moments, cross, weight)
        self.violation = 0.0
        status = "solved by the active set" if exact.solved else exact.status
        return replace(exact, status=status, iterations=iterations + exact.iterations)

    def _project(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Project onto nondecreasing sequences in [0, 1]; OSQP satisfies these to about ten times its tolerance."""
        projected = np.maximum.accumulate(x)
        np.maximum(projected, 0.0, out=projected)
        np.minimum(projected, 1.0, out=projected)
        self.violation = float(np.abs(projected - x).max())
        return projected
