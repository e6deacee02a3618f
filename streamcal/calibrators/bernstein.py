"""`Bernstein`: the monotone Bernstein polynomial of least squares."""

from __future__ import annotations

from typing import Literal

from streamcal.base import InputError, SolverError, Statistic
from streamcal.calibrators.additive import AdditiveCalibrator
from streamcal.forgetting import Forever, Forgetting
from streamcal.kernels.bernstein import MAX_DEGREE
from streamcal.maps import BernsteinMap, ScaledMap
from streamcal.prior import Prior
from streamcal.scales import Probability, Scale
from streamcal.solvers.active_set import MonotoneLeastSquares
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
        scale: Scale = Probability(),  # noqa: B008 - frozen
        forgetting: Forgetting = Forever(),  # noqa: B008 - frozen
        prior: Prior | None = None,
    ) -> None:
        if isinstance(degree, bool) or not isinstance(degree, int) or not 1 <= degree <= MAX_DEGREE:
            raise InputError(f"degree={degree!r} is not possible; give a whole number from 1 to {MAX_DEGREE}")
        if not isinstance(tolerance, float) or not 0.0 < tolerance < 1.0:
            raise InputError(f"tolerance={tolerance!r} is not possible; give a number between 0 and 1")
        self._solver: MonotoneLeastSquares | WarmOSQP
        if solver == "active-set":
            self._solver = MonotoneLeastSquares(degree)
        elif solver == "osqp":
            self._solver = WarmOSQP(degree, tolerance)
        else:
            raise InputError(f"solver={solver!r} is not possible; give 'active-set' or 'osqp'")
        self.degree = degree
        self.solver = solver
        self.tolerance = tolerance
        super().__init__(scale=scale, forgetting=forgetting, prior=prior)

    def _new_statistic(self) -> Statistic:
        self.scale.require_bounds("a Bernstein polynomial")
        self._moments = BernsteinMoments(self.degree, self.scale)
        return self._moments

    def _solve(self, unit: float) -> ScaledMap:
        sums = self._moments.sums
        solution = self._solver.solve(sums.moments, sums.cross, sums.weight)
        if not solution.solved:
            raise SolverError(f"{self.solver} of Bernstein degree {self.degree} ended with status {solution.status!r}")
        return BernsteinMap(self.scale, solution.x)
