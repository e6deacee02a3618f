"""What a solver hands back: the answer together with whether it is one."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """Outcome of one solve. Solvers never raise for a problem they could not solve; they say so here.

    Attributes:
        x: the point reached, a fresh array; meaningful as an answer only if `solved`.
        status: in words, "solved" or the reason why not.
        solved: whether `x` satisfies the solver's stated tolerance.
        iterations: iterations used, 0 where the warm start was already optimal.
        residual: largest violation of the optimality conditions, in the solver's own scale.
    """

    x: NDArray[np.float64]
    status: str
    solved: bool
    iterations: int
    residual: float
