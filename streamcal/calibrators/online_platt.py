"""`OnlinePlatt`: Platt scaling by the online Newton step."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamcal.calibrators.sequential import SequentialCalibrator
from streamcal.errors import InputError
from streamcal.kernels.online_newton import OnlineNewton
from streamcal.maps.sigmoids import SigmoidMap
from streamcal.parameters.scales import LOGIT_LIMIT, Logit
from streamcal.parameters.types import FloatArray, Label, Time
from streamcal.states import HEAVIEST, ROUNDING, Reader, ensure, numbers

#: Parameters of Gupta & Ramdas 2023 (appendix on hyperparameters), used there for every data set.
NEWTON_GAMMA = 0.1
INITIAL_CURVATURE = 100.0
RADIUS = 100.0
#: A sums squares of gradients: of weights up to 1e60, and features up to 16.
LARGEST_CURVATURE = 1e140


class OnlinePlatt(SequentialCalibrator):
    """Online Platt scaling (OPS): p = σ(a·logit(s) + b), with (a, b) moved by one online Newton step per outcome.

    With z = (logit s, 1), g = w·(p − y)·z:  A ← A + g gᵀ,  θ ← Π_A(θ − A⁻¹ g / γ), Π_A being the projection on the
    ball of radius 100 in the norm of A. γ = 0.1 and A₀ = 100·I. It starts at the identity (1, 0), which is ours; the
    authors' code starts at (0, 0). The slope may become negative, so the map need not be monotone.

    Parameters
    ----------
    discount : float
        d in A ← d·A + (1 − d)·A₀ + g gᵀ, 0 < d ≤ 1. Below 1 the method keeps following drift, with a memory of
        about 1/(1 − d) observations; what A knew fades back to A₀, which keeps every step bounded.

    Raises
    ------
    InputError
        If `discount` is outside its range.

    Notes
    -----
    O(1) per observation, scalar arithmetic: 0.1 µs to learn, 0.1 µs to predict. log s and log(1 − s) are clamped at
    log-odds ±16 (`Logit`).

    References
    ----------
    Gupta and Ramdas, Online Platt scaling with calibeating, ICML 2023, algorithm 1.

    Examples
    --------
    >>> cal = OnlinePlatt()
    >>> round(cal.predict_one(0.8), 12)
    0.8
    >>> for _ in range(200):
    ...     cal.learn_one(0.8, False)
    >>> cal.predict_one(0.8) < 0.05
    True
    """

    name = "ops"
    summary = "online Platt scaling by Newton steps, O(1), follows drift"
    monotone = False

    def __init__(self, *, discount: float = 1.0) -> None:
        if isinstance(discount, bool) or not isinstance(discount, (int, float)) or not 0.0 < discount <= 1.0:
            raise InputError(f"discount={discount!r} is not possible; give a number above 0 and at most 1")
        super().__init__()
        self.discount = discount
        self.scale = Logit()
        self._newton = OnlineNewton((1.0, 0.0), NEWTON_GAMMA, INITIAL_CURVATURE, RADIUS, discount, LOGIT_LIMIT)

    @property
    def n(self) -> float:
        return self._newton.weight

    @property
    def newton(self) -> OnlineNewton:
        """The online Newton step, which several calibrators can make in one call: see `newtons_of`."""
        return self._newton

    def predict_one(self, score: float, t: Time | None = None) -> float:
        p = self._newton.predict_fast(score)
        return p if p == p else super().predict_one(score, t)

    def learn_one(self, score: float, y: Label, w: float = 1.0, t: Time | None = None) -> None:
        if not self._newton.learn_fast(score, y, w):
            super().learn_one(score, y, w, t)

    def map(self) -> SigmoidMap:
        return SigmoidMap(self.scale, *self._newton.parameters())

    def _predict(self, x: float) -> float:
        return self._newton.predict(x)

    def _step(self, x: float, y: float, w: float) -> None:
        self._newton.step(x, y, w)

    def _stream(self, scores: FloatArray, y: FloatArray, w: FloatArray, predictions: FloatArray) -> None:
        self._newton.stream(scores, y, w, predictions)

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "newton": list(self._newton.state())}

    def _state_fields(self) -> dict[str, Reader]:
        return {**super()._state_fields(), "newton": newton_state(2, INITIAL_CURVATURE)}

    def _load(self, *, newton: list[float], **fields: Any) -> None:
        super()._load(**fields)
        self._newton.load(*newton)


def newton_state(size: int, initial: float) -> Reader:
    """What reads the state of an `OnlineNewton` of so many parameters whose A began as initial·I."""
    below = size * (size - 1) // 2

    def read(value: Any) -> list[float]:
        numbered = numbers(2 * size + below + 1, least=-LARGEST_CURVATURE, most=LARGEST_CURVATURE)(value)
        theta, d, lower = numbered[:size], numbered[size : 2 * size], numbered[2 * size : -1]
        ensure(np.linalg.norm(theta) <= RADIUS * (1.0 + ROUNDING), "the parameters are outside of their ball")
        ensure((d >= initial * (1.0 - ROUNDING)).all(), "a curvature is below the first one")
        ensure((np.abs(lower) <= np.sqrt(LARGEST_CURVATURE)).all(), "a curvature is not possible")
        ensure(0.0 <= numbered[-1] <= HEAVIEST, "a weight is not possible")
        return numbered.tolist()

    return read
