"""`Solution`: the result of a solver, with its status."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """Outcome of one solve. A solver does not raise for a problem it could not solve: it reports it in `solved`."""

    x: NDArray[np.float64]  #: the point reached, a new array; the solution only if `solved`
    status: str  #: "solved", or the reason why not
    solved: bool  #: whether `x` satisfies the tolerance the solver states
    iterations: int  #: iterations used; 0 where the warm start was already optimal
    residual: float  #: largest violation of the optimality conditions, in the solver's own scale
