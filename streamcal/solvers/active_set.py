"""Monotone Bernstein least squares by the primal active-set kernel, with its status in words.

Symbols:

    n       degree of the polynomial; B_0 … B_n the Bernstein basis on [0, 1]
    V       V_ji = B_i(u_j), a row for every observation (u_j, y_j) of weight w_j
    W       Σ w
    Q, r    VᵀV/W and Vᵀy/W (weighted); Q follows from the 2n + 1 weighted sums of the basis of degree 2n
    c       the n + 1 Bernstein coefficients of the fitted polynomial
"""

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.polynomial.monotone_qp import RIDGE, SOLVED, STATUS, MonotoneQP
from streamcal.solvers.solution import Solution


class MonotoneLeastSquares:
    """min ½cᵀQc − rᵀc + ½ ridge Σ(c_j − c_{j−1})² over 0 <= c_0 <= … <= c_n <= 1, warm-started.

    n is the `degree`, from 1 to 50. The `ridge` > 0 makes the solution unique where the data do not. The residual of
    the optimality conditions (KKT) is around 1e-15. Cost of a solve: O(n²) while the active set stays the same, plus
    O(m³) for m free coefficients when it changes; O(n²) memory.
    """

    def __init__(self, degree: int) -> None:
        self.kernel = MonotoneQP(degree, RIDGE)

    def solve(self, moments: NDArray[np.float64], cross: NDArray[np.float64], weight: float) -> Solution:
        """Solve for the sums held, starting from the active set of the previous solve.

        `moments` are Σ w B_i(u), for the basis of degree 2n, shape (2n + 1,), `cross` Σ w y B_i(u), for that of degree
        n, shape (n + 1,), and `weight` is W > 0. `x` has shape (n + 1,).
        """
        kernel = self.kernel
        status = kernel.solve(moments, cross, weight)
        return Solution(
            x=kernel.coefficients.copy(),
            status=STATUS[status],
            solved=status == SOLVED,
            iterations=int(kernel.iterations),
            residual=float(kernel.kkt),
        )

    def reset(self) -> None:
        """Drop the active set, so that the next solve is a cold start."""
        self.kernel.set_active_set([], False)
