"""Monotone smoothing splines: least squares over cubic splines whose B-spline coefficients do not decrease.

Symbols, after paper 002, eq. (13) with m = 2:

    P       pieces of equal width on the unit interval;  n = P + 3 cubic B-splines B_0 … B_{P+2} on them
    c       the coefficients: f(u) = Σ c_j B_j(u)
    w, y    weights and mean labels at the coordinates u;  W = Σ w
    Q, r    Σ w B_i(u) B_j(u) / W and Σ w y B_i(u) / W
    Ω       ∫ B_i″ B_j″ du
    λ       the penalty of ∫ f″(u)² du
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.polynomial.difference_qp import SOLVED, DifferenceQP
from streamcal.kernels.polynomial.monotone_qp import RIDGE
from streamcal.solvers.solution import Solution

Floats = NDArray[np.float64]

PIECES = 20
"""Pieces of the splines, as in docs/papers/rpr_002_choices.md."""

MOST_PENALTY = 1e4
"""A larger λ is taken as this: the fit is then a straight line to 1e-6."""


class MonotoneSpline:
    """min ½ cᵀ(Q + λΩ)c − rᵀc + ½ ridge Σ(c_j − c_{j−1})² over 0 ≤ c_0 ≤ … ≤ c_n ≤ 1.

    Coefficients that do not decrease are sufficient for a monotone spline. The ridge of 1e-10 selects the flattest
    curve where the data do not determine it, such as with one distinct score. Factors of both summands are joined by
    an orthogonal transformation: the sum itself would drown the small one in the rounding of the large one.

    Notes
    -----
    Cost of a solve: O(k) for k coordinates, and O(P³). There is no warm start.
    """

    def __init__(self) -> None:
        size = PIECES + 3
        self._spans = span_polynomials()
        below = np.arange(-1, size)
        above = np.append(np.arange(size), -1)
        bound = np.zeros(size + 1)
        bound[-1] = -1.0
        self._kernel = DifferenceQP(size, above, below, bound)
        # f″ is linear on a piece, so that two Gauss points integrate its square: rows with Ω = RᵀR.
        places = 0.5 + np.array([-0.5, 0.5]) / 3.0**0.5
        rows = 2.0 * self._spans[:, 2, None] + 6.0 * places[:, None] * self._spans[:, 3, None]
        self._bends = np.zeros((2 * PIECES, size))
        for i in range(PIECES):
            self._bends[2 * i : 2 * i + 2, i : i + 4] = (0.5 * PIECES**3) ** 0.5 * rows[i]
        steps = np.diff(np.eye(size), axis=0)
        self._flatness = RIDGE * (steps.T @ steps)

    def solve(self, u: Floats, weight: Floats, positive: Floats, penalty: float) -> Solution:
        """Solve for unit coordinates of shape (k,), their weights and positive weights, and λ of the unit coordinate.

        `x` is c. Its `residual` is the largest violation of the optimality conditions.
        """
        total = float(weight.sum())
        moments, cross = self._sums(u, weight / total, positive / total)
        root = np.linalg.cholesky(moments + self._flatness).T
        bends = min(penalty, MOST_PENALTY) ** 0.5 * self._bends
        root = np.asarray(np.linalg.qr(np.vstack((root, bends)), mode="r"))
        status = self._kernel.solve(np.ascontiguousarray(np.linalg.inv(root).T), cross)
        c, pushed = np.clip(np.maximum.accumulate(self._kernel.x), 0.0, 1.0), self._kernel.multipliers
        residual = float(np.abs(root.T @ (root @ c) - cross - pushed[:-1] + pushed[1:]).max())
        solved = status == SOLVED
        return Solution(c, "solved" if solved else "iteration limit", solved, int(self._kernel.iterations), residual)

    def knots(self, c: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the values at the P + 1 knots, and the slopes at both ends of each piece times its width."""
        windows = np.lib.stride_tricks.sliding_window_view(c, 4)
        power = np.einsum("pkj,pj->pk", self._spans, windows)
        values = np.append(power[:, 0], power[-1].sum())
        values = np.clip(np.maximum.accumulate(values), 0.0, 1.0)
        falls = power[:, 1] + 2.0 * power[:, 2] + 3.0 * power[:, 3]
        return values, np.maximum(power[:, 1], 0.0), np.maximum(falls, 0.0)

    def _sums(self, u: Floats, weight: Floats, positive: Floats) -> tuple[Floats, Floats]:
        """Return Q and r, from Σ w tⁱ and Σ w y tⁱ on each piece, t being the place within the piece."""
        piece = np.minimum((u * PIECES).astype(np.intp), PIECES - 1)
        t = u * PIECES - piece
        powers = np.vander(t, 7, increasing=True).T
        sums = np.array([np.bincount(piece, weight * power, PIECES) for power in powers])
        cross = np.array([np.bincount(piece, positive * power, PIECES) for power in powers[:4]])
        hankel = sums[np.arange(4)[:, None] + np.arange(4)]
        local = np.array([self._spans[i].T @ hankel[:, :, i] @ self._spans[i] for i in range(PIECES)])
        linear = np.zeros(PIECES + 3)
        for i in range(PIECES):
            linear[i : i + 4] += self._spans[i].T @ cross[:, i]
        return self._assembled(local), linear

    @staticmethod
    def _assembled(local: Floats) -> Floats:
        """Add up matrices of shape (4, 4), one for each piece, at the places of its four B-splines."""
        whole = np.zeros((PIECES + 3, PIECES + 3))
        for i in range(PIECES):
            whole[i : i + 4, i : i + 4] += local[i]
        return whole


def span_polynomials() -> Floats:
    """Return the four cubic B-splines of each piece as polynomials of the place t in it, shape (P, 4, 4).

    Entry (i, k, j) is the coefficient of tᵏ in B_{i+j} on piece i, by the recurrence of Cox and de Boor. The knots at
    both ends are fourfold.
    """
    knots = np.concatenate([np.zeros(3), np.arange(PIECES + 1.0), np.full(3, float(PIECES))])
    spans = np.zeros((PIECES, 4, 4))
    for i in range(PIECES):
        at = i + 3  # the piece is from knots[at] to knots[at + 1]
        splines = np.zeros((4, 1))
        splines[0, 0] = 1.0
        for degree in range(1, 4):
            raised = np.zeros((4, degree + 1))
            for j in range(degree):
                left, right = knots[at + 1 + j - degree], knots[at + 1 + j]
                up = np.array([i - left, 1.0]) / (right - left)
                down = np.array([right - i, -1.0]) / (right - left)
                raised[:, j + 1] += np.convolve(splines[:, j], up)[:4]
                raised[:, j] += np.convolve(splines[:, j], down)[:4]
            splines = raised
        spans[i] = splines
    return spans
