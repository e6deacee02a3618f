"""The online Newton step as Gupta and Ramdas (2023) set it, and the reader of its state."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamcal.kernels.newton.online_newton import OnlineNewton
from streamcal.parameters.scales import LOGIT_LIMIT
from streamcal.states import HEAVIEST, ROUNDING, Reader, ensure, numbers

#: Parameters of Gupta & Ramdas 2023 (appendix on hyperparameters), used there for every data set.
NEWTON_GAMMA = 0.1
RADIUS = 100.0
#: A₀ of online Platt scaling, 1/(γD)² with D = 1.
INITIAL_CURVATURE = 100.0
#: A sums squares of gradients, times relative weights.
LARGEST_CURVATURE = 1e140


def new_newton(theta: tuple[float, ...], curvature: float, discount: float = 1.0) -> OnlineNewton:
    """Return a new `OnlineNewton` with the paper's γ and radius, which begins at `theta` with A₀ = curvature·I."""
    return OnlineNewton(theta, NEWTON_GAMMA, curvature, RADIUS, discount, LOGIT_LIMIT)


def newton_state(size: int, initial: float) -> Reader:
    """Return a reader of the state of an `OnlineNewton` with `size` parameters whose first A was initial·I."""
    below = size * (size - 1) // 2

    def read(value: Any) -> list[float]:
        numbered = numbers(2 * size + below + 3, least=-LARGEST_CURVATURE, most=LARGEST_CURVATURE)(value)
        theta, d, lower, weights = np.split(numbered, [size, 2 * size, 2 * size + below])
        ensure(np.linalg.norm(theta) <= RADIUS * (1.0 + ROUNDING), "the parameters are outside of their ball")
        ensure((d >= initial * (1.0 - ROUNDING)).all(), "a curvature is below the first one")
        ensure((np.abs(lower) <= np.sqrt(LARGEST_CURVATURE)).all(), "a curvature is not possible")
        ensure(((weights >= 0.0) & (weights <= HEAVIEST)).all(), "a weight is not possible")
        return numbered.tolist()

    return read
