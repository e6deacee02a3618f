"""`Bernstein`: the monotone Bernstein polynomial of least squares."""

from __future__ import annotations

from typing import Literal

import numpy as np

from streamcal.base import FloatArray, InputError, SolverError, Statistic, Time
from streamcal.calibrators.additive import AdditiveCalibrator
from streamcal.forgetting import Forever, Forgetting
from streamcal.inputs import check_score, check_time
from streamcal.kernels.bernstein import MAX_DEGREE, evaluate
from streamcal.kernels.monotone_qp import SOLVED, STATUS, MonotoneQP
from streamcal.maps.base import ScaledMap
from streamcal.maps.polynomials import BernsteinMap
from streamcal.prior import Prior
from streamcal.scales import Probability, Scale
from streamcal.solvers.osqp import TOLERANCE, WarmOSQP
from streamcal.statistics.bernstein_moments import BernsteinMoments


class Bernstein(AdditiveCalibrator):
    """Monotone Bernstein least squares: p(u) = Σ cᵢ Bᵢⁿ(u) minimising Σ wⱼ (p(uⱼ) − yⱼ)² over 0 ≤ c₀ ≤ … ≤ cₙ ≤ 1.

    u is the score's unit coordinate on the scale. The problem is solved anew, warm-started, at the first prediction
    after an observation. A ridge of 1e-10 on the increments of c, relative to the total weight, makes the answer unique
    where the data leave it open.

    Parameters
    ----------
    degree : int
        n, from 1 to 50.
    solver : {"active-set", "osqp"}
        The dense active-set kernel (exact, microseconds) or OSQP, warm-started and updated in place.
    tolerance : float
        `eps_abs` and `eps_rel` of OSQP; not read by the active set.
    scale, forgetting, prior
        See `AdditiveCalibrator`; needs a bounded scale. For margins use `Interval(lo, hi)`, for rare events
        `Logit(lo, hi)` around the scores that occur.

    Notes
    -----
    An observation costs O(n) and memory is fixed; a solve costs O(n²), whatever has been learned.
    Paper 001, "Calibration with Bernstein polynomials"; the constraint is sufficient for monotonicity, not necessary.

    >>> cal = Bernstein(degree=5)
    >>> cal.learn_many([0.1, 0.3, 0.6, 0.8], [0, 0, 1, 1])
    >>> cal.predict_one(0.2) < 0.1, cal.predict_one(0.9) > 0.95
    (True, True)
    """

    name = "bernstein"
    summary = "monotone Bernstein polynomial of least squares"

    def __init__(
        self,
        degree: int = 20,
        solver: Literal["active-set", "osqp"] = "active-set",
        *,
        tolerance: float = TOLERANCE,
        scale: Scale = Probability(),
        forgetting: Forgetting = Forever(),
        prior: Prior | None = None,
    ) -> None:
        if isinstance(degree, bool) or not isinstance(degree, int) or not 1 <= degree <= MAX_DEGREE:
            raise InputError(f"degree={degree!r} is not possible; give a whole number from 1 to {MAX_DEGREE}")
        if not isinstance(tolerance, float) or not 0.0 < tolerance < 1.0:
            raise InputError(f"tolerance={tolerance!r} is not possible; give a number between 0 and 1")
        if solver not in ("active-set", "osqp"):
            raise InputError(f"solver={solver!r} is not possible; give 'active-set' or 'osqp'")
        self._kernel = MonotoneQP(degree)
        self._osqp = WarmOSQP(degree, tolerance) if solver == "osqp" else None
        self._coefficients: FloatArray = np.zeros(degree + 1)
        self._fitted_for = -1
        self.degree = degree
        self.solver = solver
        self.tolerance = tolerance
        super().__init__(scale=scale, forgetting=forgetting, prior=prior)

    def _new_statistic(self) -> Statistic:
        self.scale.require_bounds("a Bernstein polynomial")
        self._moments = BernsteinMoments(self.degree, self.scale)
        return self._moments

    def predict_one(self, score: float, t: Time | None = None) -> float:
        x = self.scale.coordinate(check_score(score))
        self._memory.as_of(None if t is None else check_time(t))
        if self._moments.count == 0:
            return self.scale.probability(x)
        self._fit()
        return min(max(evaluate(self._coefficients, self.scale.unit(x)), 0.0), 1.0)

    def _solve(self, unit: float) -> ScaledMap:
        self._fit()
        return BernsteinMap(self.scale, self._coefficients)

    def _fit(self) -> None:
        """Bring the coefficients up to date, unless nothing has changed since the last time."""
        if self._fitted_for == self._memory.version:
            return
        sums = self._moments.sums
        if self._osqp is None:  # the kernel itself: a Solution would cost more than the solve
            status = self._kernel.solve(sums.moments, sums.cross, sums.weight)
            solved, reason, self._coefficients = status == SOLVED, STATUS[status], self._kernel.coefficients
        else:
            solution = self._osqp.solve(sums.moments, sums.cross, sums.weight)
            solved, reason, self._coefficients = solution.solved, solution.status, solution.x
        if not solved:
            raise SolverError(f"{self.solver} of Bernstein degree {self.degree} ended with status {reason!r}")
        self._fitted_for = self._memory.version
