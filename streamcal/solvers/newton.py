"""Platt scaling on a table of scores: the Newton kernel with its status in words."""

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels import sigmoid_fit
from streamcal.solvers.solution import Solution


def fit_sigmoid(
    x: NDArray[np.float64],
    neg: NDArray[np.float64],
    pos: NDArray[np.float64],
    t_plus: float,
    t_minus: float,
    start: tuple[float, float] = (0.0, 0.0),
) -> Solution:
    """Maximum likelihood of p = 1/(1 + exp(−(A x + B))) with A >= 0; the solution's x is (A, B).

    Args:
        x: features, one per distinct score, shape (k,).
        neg: weight of the negatives at each, shape (k,).
        pos: weight of the positives at each, shape (k,).
        t_plus: target of a positive, below 1 (paper 003, eq. 6).
        t_minus: target of a negative, above 0 (eq. 7).
        start: (A, B) to start from; any finite pair leads to the same answer.
    """
    slope, offset, status, iterations, norm = sigmoid_fit.fit(x, neg, pos, t_plus, t_minus, *start)
    return Solution(
        x=np.array([slope, offset]),
        status=sigmoid_fit.STATUS[status],
        solved=status == sigmoid_fit.SOLVED,
        iterations=iterations,
        residual=norm,
    )
