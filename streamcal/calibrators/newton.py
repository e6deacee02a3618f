"""`NewtonCalibrator`: the methods whose parameters move by one online Newton step per outcome."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from streamcal.calibrators.sequential import SequentialCalibrator
from streamcal.kernels.newton.online_newton import OnlineNewton
from streamcal.parameters.scales import LOGIT_LIMIT, Logit
from streamcal.parameters.types import FloatArray, Label, Time
from streamcal.states import HEAVIEST, ROUNDING, Reader, ensure, numbers

#: Parameters of Gupta & Ramdas 2023 (appendix on hyperparameters), used there for every data set.
NEWTON_GAMMA = 0.1
RADIUS = 100.0
#: A₀ of online Platt scaling, 1/(γD)² with D = 1.
INITIAL_CURVATURE = 100.0
#: A sums squares of gradients, times relative weights.
LARGEST_CURVATURE = 1e140


class NewtonCalibrator(SequentialCalibrator):
    """A calibrator that is a logistic regression learned by `OnlineNewton`.

    Parameters
    ----------
    discount : float
        d of A ← d·A + (1 − d)·A₀ + r g gᵀ.
    """

    #: Where the parameters begin: those of the identity.
    start: ClassVar[tuple[float, ...]]
    #: A₀ as a multiple of the identity matrix.
    curvature: ClassVar[float]
    monotone = False

    def __init__(self, discount: float = 1.0) -> None:
        super().__init__()
        self.scale = Logit()
        self._newton = OnlineNewton(self.start, NEWTON_GAMMA, self.curvature, RADIUS, discount, LOGIT_LIMIT)

    @property
    def n(self) -> float:
        """Return the total weight learned; under decay, in units of a new observation."""
        return self._newton.weight

    @property
    def newton(self) -> OnlineNewton:
        """The online Newton step, which several calibrators can make in one call: see `newtons_of`."""
        return self._newton

    def predict_one(self, score: float, t: Time | None = None) -> float:
        """Return the probability of a positive label at `score`, as of time `t`; the state does not change."""
        p = self._newton.predict_fast(score)
        return p if p == p else super().predict_one(score, t)

    def learn_one(self, score: float, y: Label, w: float = 1.0, t: Time | None = None) -> None:
        """Learn that `score` was followed by the label `y`, with weight `w` ≥ 0, at time `t`."""
        if not self._newton.learn_fast(score, y, w):
            super().learn_one(score, y, w, t)

    def _predict(self, x: float) -> float:
        return self._newton.predict(x)

    def _step(self, x: float, y: float, w: float) -> None:
        self._newton.step(x, y, w)

    def _stream(self, scores: FloatArray, y: FloatArray, w: FloatArray, predictions: FloatArray) -> None:
        self._newton.stream(scores, y, w, predictions)

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "newton": list(self._newton.state())}

    def _state_fields(self) -> dict[str, Reader]:
        return {**super()._state_fields(), "newton": newton_state(len(self.start), self.curvature)}

    def _load(self, *, newton: list[float], **fields: Any) -> None:
        super()._load(**fields)
        self._newton.load(*newton)


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
