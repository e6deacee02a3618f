"""`Bernstein`: the monotone Bernstein polynomial by least squares."""

from __future__ import annotations

from typing import Literal

import numpy as np

from streamcal.calibrators.additive import AdditiveCalibrator
from streamcal.errors import SolverError
from streamcal.kernels.polynomial.bernstein import MAX_DEGREE, BernsteinSums, Curve
from streamcal.kernels.polynomial.bernstein_stream import BernsteinStream
from streamcal.kernels.polynomial.monotone_qp import SOLVED, STATUS, MonotoneQP
from streamcal.maps.base import ScaledMap
from streamcal.maps.polynomials import BernsteinMap
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.inputs import check_score
from streamcal.parameters.numbers import one_of, real_number, whole_number
from streamcal.parameters.prior import Prior
from streamcal.parameters.scales import Probability, Scale
from streamcal.parameters.types import FloatArray, Keys, Time
from streamcal.solvers.osqp import TOLERANCE, WarmOSQP
from streamcal.statistics.base import Piece
from streamcal.statistics.bernstein_moments import BernsteinMoments


class Bernstein(AdditiveCalibrator[BernsteinMoments]):
    """Monotone Bernstein least squares: p(u) = Σ cᵢ Bᵢⁿ(u) minimising Σ wⱼ (p(uⱼ) − yⱼ)² over 0 ≤ c₀ ≤ … ≤ cₙ ≤ 1.

    u is the score's unit coordinate on the scale. The problem is solved, with a warm start, at the first prediction
    after an observation. A ridge of 1e-10 on the increments of c, relative to the total weight, makes the solution
    unique where the data do not determine it.

    Parameters
    ----------
    degree : int
        n, from 1 to 50.
    solver : {"active-set", "osqp"}
        The dense active-set kernel (exact, microseconds) or OSQP, warm-started and updated in place.
    tolerance : float
        `eps_abs` of OSQP; not used by the active set.
    scale, forgetting, prior
        See `AdditiveCalibrator`; needs a bounded scale. For margins use `Interval(lo, hi)`, for rare events
        `Logit(lo, hi)` around the scores that occur.

    Notes
    -----
    The constraint is sufficient for monotonicity, not necessary; `MonotonePolynomial` has the necessary one. Cost: an
    observation O(n), a solve O(n²) while its active set does not change, whatever the number of observations; O(n²)
    memory.

    References
    ----------
    Paper 001, "Calibration with Bernstein polynomials".

    Examples
    --------
    >>> cal = Bernstein(degree=5)
    >>> cal.learn_many([0.1, 0.3, 0.6, 0.8], [0, 0, 1, 1])
    >>> cal.predict_one(0.2) < 0.1, cal.predict_one(0.9) > 0.95
    (True, True)
    """

    name = "bernstein"
    by_ratios = True
    summary = "monotone Bernstein polynomial by least squares"
    default_resolution = None

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
        self.degree = whole_number(degree, "degree", 1, MAX_DEGREE)
        self.tolerance = real_number(tolerance, "tolerance", "a number between 0 and 1", above=0.0, below=1.0)
        self.solver = one_of(solver, "solver", ("active-set", "osqp"))
        self._kernel = MonotoneQP(self.degree)
        self._osqp = WarmOSQP(self.degree, self.tolerance) if solver == "osqp" else None
        super().__init__(scale=scale, forgetting=forgetting, prior=prior)
        # The fast path of predictions: the kernel watches the sums that are held and writes coefficients in place.
        self._sums = self._memory.statistic.sums
        self._curve = Curve(self._kernel.coefficients, self.scale.lo, self.scale.hi)
        self._watched: BernsteinSums | None = None
        self._fitted_for = -1  # the version of the memory whose fit the coefficients are; -1: of something else
        self._fitted = False  # whether there are coefficients, if of fewer observations
        self._failed_for = -1  # the last version whose fit has failed
        self.streams = self._osqp is None
        self._loop = BernsteinStream(self._sums, self._kernel, self._curve)

    def new_statistic(self) -> BernsteinMoments:
        self.scale.require_bounds("a Bernstein polynomial")
        return BernsteinMoments(self.degree, self.scale)

    def predict_one(self, score: float, t: Time | None = None, keys: Keys | None = None) -> float:
        if keys is not None or self._osqp is not None:
            return super().predict_one(score, t, keys)
        if t is None and self._steady and score.__class__ is float and self._lo <= score <= self._hi:
            x = score
        else:
            x = self.scale.coordinate(check_score(score))
            self._present(t)
        if self._sums.weight <= 0.0:  # no weight, or a retraction of a far heavier observation has rounded it to 0
            return self.scale.probability(x)
        if self._fitted_for != self._memory.version:
            try:
                self._fit(self._sums)
            except SolverError:
                if not self._keep():
                    return self.scale.probability(x)
        return self._curve.at(x)

    def _stream(self, x: FloatArray, y: FloatArray, piece: Piece, predictions: FloatArray) -> None:
        loop, version, p = self._loop, self._memory.version, predictions[0]
        self._watch(self._sums)
        loop.solved, loop.fitted = self._fitted_for == version, self._fitted
        start, failed, predicted = 0, self._failed_for == version, False
        while (stop := start + self._run(x, y, piece, p, start, predicted)) < len(x):  # there the solver has failed
            if not failed or (piece.w[start:stop] > 0.0).any():
                self._engine.unsolved.add(self)
            start, failed, predicted = stop, True, True
            p[stop] = self._curve.at(x[stop]) if loop.fitted else self.scale.probability(x[stop])
        if failed and not (piece.w[start:] > 0.0).any():
            self._failed_for = version + 1
        self._fitted, self._fitted_for = loop.fitted, version + 1 if loop.solved else -1

    def _run(self, x: FloatArray, y: FloatArray, piece: Piece, p: FloatArray, start: int, predicted: bool) -> int:
        """Run the kernel from row `start` of a piece, perhaps one already predicted; return the number of rows done."""
        learned = np.count_nonzero(piece.w[:start] > 0.0)
        leaving = (column[max(learned - piece.room, 0) :] for column in piece.leaving)
        room = max(piece.room - learned, 0)
        return self._loop.run(x[start:], y[start:], piece.w[start:], *leaving, room, predicted, p[start:])

    def solve(self, statistic: BernsteinMoments, start: ScaledMap | None) -> BernsteinMap:
        sums = statistic.sums
        if self._osqp is not None:
            solution = self._osqp.solve(sums.moments, sums.cross, sums.weight)
            self._require(solution.solved, solution.status)
            return BernsteinMap(self.scale, solution.x)
        if sums is not self._sums or self._fitted_for != self._memory.version:
            self._fit(sums)
        return BernsteinMap(self.scale, self._kernel.coefficients)

    def _map_of(self, statistic: BernsteinMoments) -> ScaledMap:
        if self._osqp is not None or statistic.n <= 0.0:
            return super()._map_of(statistic)
        try:
            if self._fitted_for != self._memory.version:
                self._fit(statistic.sums)
        except SolverError:
            if not self._keep():
                return self.empty_map()
        return BernsteinMap(self.scale, self._kernel.coefficients)

    def _keep(self) -> bool:
        """Count a failed fit, once; return whether the kernel has kept the coefficients of an earlier fit."""
        if self._failed_for != self._memory.version:
            self._failed_for = self._memory.version
            self._engine.unsolved.add(self)
        return self._fitted

    def _fit(self, sums: BernsteinSums) -> None:
        """Solve for the coefficients by the kernel itself: a `Solution` would cost more than the solve."""
        self._watch(sums)
        status = self._kernel.solve_watched(sums.weight)
        self._require(status == SOLVED, STATUS[status])
        self._fitted = sums is self._sums
        self._fitted_for = self._memory.version if self._fitted else -1

    def _watch(self, sums: BernsteinSums) -> None:
        """Let the kernel solve for these sums."""
        if sums is not self._watched:
            self._kernel.watch(sums.moments, sums.cross)
            self._watched = sums

    def _forget_solved(self) -> None:
        super()._forget_solved()
        self._kernel.set_active_set([], False)
        self._fitted_for = -1
        if self._osqp is not None:
            self._osqp = WarmOSQP(self.degree, self.tolerance)

    def _require(self, solved: bool, status: str) -> None:
        if not solved:
            raise SolverError(f"{self.solver} of Bernstein degree {self.degree} ended with status {status!r}")
