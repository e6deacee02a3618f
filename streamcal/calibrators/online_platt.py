"""`OnlinePlatt`: Platt scaling by the online Newton step."""

from __future__ import annotations

import math
from typing import Any

from streamcal.base import InputError, Time
from streamcal.calibrators.sequential import SequentialCalibrator
from streamcal.inputs import check_score
from streamcal.maps import SigmoidMap
from streamcal.scales import Logit, sigmoid_one

#: Parameters of Gupta & Ramdas 2023 (appendix on hyperparameters), used there for every data set.
NEWTON_GAMMA = 0.1
INITIAL_CURVATURE = 100.0
RADIUS = 100.0
#: Weights enter A squared and its determinant to the fourth power, which must not overflow.
LARGEST_WEIGHT = 1e50
#: Bisection steps for the multiplier of the projection: enough for every bit of a double.
PROJECTION_STEPS = 200


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

    Notes
    -----
    O(1) per observation, scalar arithmetic. log s and log(1 − s) are clamped at log-odds ±16 (`Logit`).
    Gupta and Ramdas, Online Platt Scaling with Calibeating, ICML 2023, algorithm 1.

    >>> cal = OnlinePlatt()
    >>> cal.predict_one(0.8)
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
        self._slope, self._offset = 1.0, 0.0
        # The symmetric matrix A, row by row.
        self._a11, self._a12, self._a22 = INITIAL_CURVATURE, 0.0, INITIAL_CURVATURE

    def predict_one(self, score: float, t: Time | None = None) -> float:
        s = check_score(score)
        if self._slope == 1.0 and self._offset == 0.0:
            self.scale.coordinate(s)
            return s  # the identity, without the rounding of σ(logit s)
        return sigmoid_one(self._slope * self.scale.coordinate(s) + self._offset)

    def map(self) -> SigmoidMap:
        return SigmoidMap(self.scale, self._slope, self._offset)

    def _step(self, x: float, y: float, w: float) -> None:
        if w > LARGEST_WEIGHT:
            raise InputError(f"weight {w!r} is too large for a Newton step; give at most {LARGEST_WEIGHT:g}")
        error = w * (sigmoid_one(self._slope * x + self._offset) - y)
        kept, refreshed = self.discount, (1.0 - self.discount) * INITIAL_CURVATURE
        self._a11 = kept * self._a11 + refreshed + error * error * x * x
        self._a12 = kept * self._a12 + error * error * x
        self._a22 = kept * self._a22 + refreshed + error * error
        determinant = self._a11 * self._a22 - self._a12 * self._a12
        step = error / (NEWTON_GAMMA * determinant)
        slope = self._slope - step * (self._a22 * x - self._a12)
        offset = self._offset - step * (self._a11 - self._a12 * x)
        if slope * slope + offset * offset > RADIUS * RADIUS:
            slope, offset = self._project(slope, offset)
        self._slope, self._offset = slope, offset
        self._n = self.discount * self._n + w

    def _project(self, slope: float, offset: float) -> tuple[float, float]:
        """The point θ of the ball nearest to (slope, offset) in the norm of A: (A + λI) θ = A z with |θ| = radius.

        |θ| decreases in λ; λ is found by bisection, |θ(λ)| ≤ |A z| / λ giving the upper end.
        """
        target1 = self._a11 * slope + self._a12 * offset
        target2 = self._a12 * slope + self._a22 * offset
        low, high = 0.0, math.hypot(target1, target2) / RADIUS

        def solved(ridge: float) -> tuple[float, float]:
            a11, a22 = self._a11 + ridge, self._a22 + ridge
            determinant = a11 * a22 - self._a12 * self._a12
            first = (a22 * target1 - self._a12 * target2) / determinant
            return first, (a11 * target2 - self._a12 * target1) / determinant

        for _ in range(PROJECTION_STEPS):
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            if math.hypot(*solved(middle)) > RADIUS:
                low = middle
            else:
                high = middle
        return solved(high)

    def _state(self) -> dict[str, Any]:
        curvature = [self._a11, self._a12, self._a22]
        theta = [self._slope, self._offset]
        return {"n": self._n, "clamped": self._clamped, "theta": theta, "curvature": curvature}

    def _restore(self, state: dict[str, Any]) -> None:
        self._n, self._clamped = float(state["n"]), int(state["clamped"])
        self._slope, self._offset = (float(value) for value in state["theta"])
        self._a11, self._a12, self._a22 = (float(value) for value in state["curvature"])
