"""Monotone Bernstein least squares, exactly: the active-set kernel with its status in words."""

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.monotone_qp import RIDGE, SOLVED, STATUS, MonotoneQP
from streamcal.solvers.solution import Solution


class MonotoneLeastSquares:
    """min ½cᵀQc − rᵀc + ½ ridge Σ(c_j − c_{j−1})² over 0 <= c_0 <= … <= c_n <= 1, warm-started.

    Q = VᵀV/W and r = Vᵀy/W are given by the moments of `BernsteinSums`. The KKT residual of the answer is
    around 1e-15. O(n²) while the set of active constraints stays as it was, plus O(m³) for m free ones.

    Args:
        degree: n, 1..50.
        ridge: the penalty that makes the answer unique where the data do not.
    """

    def __init__(self, degree: int, ridge: float = RIDGE) -> None:
        self.kernel = MonotoneQP(degree, ridge)

    @property
    def degree(self) -> int:
        return int(self.kernel.degree)

    @property
    def ridge(self) -> float:
        return float(self.kernel.ridge)

    def solve(self, moments: NDArray[np.float64], cross: NDArray[np.float64], weight: float) -> Solution:
        """Solve for 2n+1 moments and n+1 cross sums over a total weight > 0."""
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
        """Forget the active set: the next solve starts cold."""
        self.kernel.set_active_set([], False)
