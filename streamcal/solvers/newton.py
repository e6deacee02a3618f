"""Platt scaling on a table of scores: the Newton kernel, with its status in words.

Symbols: x a feature of the score; p = 1/(1 + exp(−(A x + B))); t₊ and t₋ the regularised targets of a positive and of a
negative (paper 003, eqs. 6 and 7; Platt 1999).
"""

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.newton import sigmoid_fit
from streamcal.solvers.solution import Solution

#: Beyond this size the distance of two features may exceed the largest float, and features are divided by RANGE_UNIT.
LARGEST_FEATURE = 2.0**1000
RANGE_UNIT = 2.0**32


def fit_sigmoid(
    x: NDArray[np.float64],
    neg: NDArray[np.float64],
    pos: NDArray[np.float64],
    t_plus: float,
    t_minus: float,
    start: tuple[float, float] = (0.0, 0.0),
) -> Solution:
    """Maximise the likelihood of p = 1/(1 + exp(−(A x + B))) with A >= 0.

    `x`, `neg` and `pos` have shape (k,): a feature for each distinct score, and the weights of the two labels there.
    Targets lie between 0 and 1. Every finite `start`, a pair (A, B), leads to the same solution, (A, B). Cost: O(k) for
    each Newton step, O(1) memory beside the arguments.
    """
    unit = RANGE_UNIT if np.abs(x).max(initial=0.0) > LARGEST_FEATURE else 1.0
    start = start[0] * unit, start[1]
    slope, offset, status, iterations, norm = sigmoid_fit.fit(x / unit, neg, pos, t_plus, t_minus, *start)
    slope = max(slope, 0.0)  # which it is up to rounding
    return Solution(
        x=np.array([slope / unit, offset]),
        status=sigmoid_fit.STATUS[status],
        solved=status == sigmoid_fit.SOLVED,
        iterations=iterations,
        residual=norm,
    )
