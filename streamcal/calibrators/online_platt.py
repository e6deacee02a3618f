"""`OnlinePlatt`: Platt scaling by the online Newton step."""

from __future__ import annotations

from streamcal.calibrators.newton import INITIAL_CURVATURE, new_newton, newton_state
from streamcal.calibrators.sequential import SequentialCalibrator
from streamcal.maps.sigmoids import SigmoidMap
from streamcal.parameters.given import real_number
from streamcal.parameters.scales import Logit
from streamcal.states import Reader


class OnlinePlatt(SequentialCalibrator):
    """Online Platt scaling (OPS): p = σ(a·logit(s) + b), with (a, b) moved by one online Newton step per outcome.

    With z = (logit s, 1), g = (p − y)·z:  A ← A + r·g gᵀ,  θ ← Π_A(θ − r·A⁻¹ g / γ), Π_A being the projection on the
    ball of radius 100 in the norm of A. γ = 0.1 and A₀ = 100·I. It starts at the identity (1, 0), which is ours; the
    authors' code starts at (0, 0). r is the weight relative to the running mean of all weights, so that a factor common
    to all changes nothing. With r > 1 the step is split into several, each at its own prediction, which does not
    overshoot (Karampatziakis and Langford, Online importance weight aware updates, UAI 2011). The slope may become
    negative, so the map need not be monotone.

    Parameters
    ----------
    discount : float
        d in A ← d·A + (1 − d)·A₀ + r·g gᵀ, 0 < d ≤ 1. Below 1 the method keeps following drift, with a memory of
        about 1/(1 − d) observations; what A knew fades back to A₀, which keeps every step bounded.

    Notes
    -----
    O(1) per observation, scalar arithmetic: 0.2 µs to learn and predict. log s and log(1 − s) are clamped at log-odds
    ±16 (`Logit`).

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

    name = "online-platt"
    summary = "online Platt scaling by Newton steps, O(1), follows drift"
    monotone = False

    def __init__(self, *, discount: float = 1.0) -> None:
        self.discount = real_number(discount, "discount", "a number above 0 and at most 1", above=0.0, most=1.0)
        self.scale = Logit()
        self._kernel = new_newton((1.0, 0.0), INITIAL_CURVATURE, self.discount)
        super().__init__()

    def map(self) -> SigmoidMap:
        return SigmoidMap(self.scale, *self._kernel.parameters())

    def _kernel_state(self) -> Reader:
        return newton_state(2, INITIAL_CURVATURE)
