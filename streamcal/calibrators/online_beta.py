"""`OnlineBeta`: beta calibration by the online Newton step."""

from __future__ import annotations

from typing import Any

from streamcal.calibrators.online_platt import NEWTON_GAMMA, RADIUS, newton_state
from streamcal.calibrators.sequential import SequentialCalibrator
from streamcal.kernels.online_newton import OnlineNewton
from streamcal.maps.sigmoids import BetaMap
from streamcal.parameters.scales import LOGIT_LIMIT, Logit
from streamcal.parameters.types import FloatArray, Label, Time
from streamcal.states import Reader

#: A₀ = 25·I: the authors' 1/(γD)² with D = 2, where online Platt scaling has D = 1.
INITIAL_CURVATURE = 25.0


class OnlineBeta(SequentialCalibrator):
    """Online beta scaling (OBS): p = σ(a·log s − b·log(1 − s) + c), moved by one online Newton step per outcome.

    With z = (log s, −log(1 − s), 1), g = w·(p − y)·z:  A ← A + g gᵀ,  θ ← Π_A(θ − A⁻¹ g / γ), Π_A being the
    projection on the ball of radius 100 in the norm of A. γ = 0.1 and A₀ = 25·I. It starts at the identity (1, 1, 0),
    which is ours; the authors' code starts at (0, 0, 0). Nothing keeps a and b positive, so the map need not be
    monotone. With a = b it is that of `OnlinePlatt`; a third parameter lets the two ends bend differently.

    Notes
    -----
    O(1) per observation, scalar arithmetic: 0.15 µs to learn, 0.1 µs to predict. log s and log(1 − s) are taken at
    log-odds clamped to ±16 (`Logit`).

    References
    ----------
    Gupta and Ramdas, Online Platt scaling with calibeating, ICML 2023, algorithm 1 and the appendix on beta scaling.

    Examples
    --------
    >>> cal = OnlineBeta()
    >>> round(cal.predict_one(0.8), 12)
    0.8
    >>> for _ in range(200):
    ...     cal.learn_one(0.8, False)
    >>> cal.predict_one(0.8) < 0.05
    True
    """

    name = "online-beta"
    summary = "online beta scaling by Newton steps, O(1)"
    monotone = False

    def __init__(self) -> None:
        super().__init__()
        self.scale = Logit()
        self._newton = OnlineNewton((1.0, 1.0, 0.0), NEWTON_GAMMA, INITIAL_CURVATURE, RADIUS, 1.0, LOGIT_LIMIT)

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

    def map(self) -> BetaMap:
        return BetaMap(self.scale, *self._newton.parameters())

    def _predict(self, x: float) -> float:
        return self._newton.predict(x)

    def _step(self, x: float, y: float, w: float) -> None:
        self._newton.step(x, y, w)

    def _stream(self, scores: FloatArray, y: FloatArray, w: FloatArray, predictions: FloatArray) -> None:
        self._newton.stream(scores, y, w, predictions)

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "newton": list(self._newton.state())}

    def _state_fields(self) -> dict[str, Reader]:
        return {**super()._state_fields(), "newton": newton_state(3, INITIAL_CURVATURE)}

    def _load(self, *, newton: list[float], **fields: Any) -> None:
        super()._load(**fields)
        self._newton.load(*newton)
