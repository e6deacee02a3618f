"""`BernsteinLogistic`: log-odds that are a monotone Bernstein polynomial, by maximum likelihood."""

from __future__ import annotations

from typing import Unpack

import numpy as np

from streamcal.calibrators.additive import AdditiveCalibrator, Common, Table
from streamcal.calibrators.following import Following
from streamcal.errors import SolverError
from streamcal.kernels.newton.panel_logistic import PANELS, PanelLogistic
from streamcal.kernels.polynomial.bernstein import MAX_DEGREE
from streamcal.maps.base import ScaledMap
from streamcal.maps.polynomials import BernsteinLogisticMap
from streamcal.parameters.numbers import whole_number
from streamcal.parameters.scales import Scale
from streamcal.solvers.active_set import MonotoneLeastSquares
from streamcal.solvers.bernstein_logistic import fit_bernstein_logistic
from streamcal.statistics.score_table import GridTable


class BernsteinLogistic(AdditiveCalibrator[Table]):
    """Monotone Bernstein logistic regression: p(u) = 1 / (1 + exp(−Σ cᵢ Bᵢⁿ(u))) with the least log loss.

    The coefficients satisfy −15 ≤ c₀ ≤ … ≤ cₙ ≤ 15, so that p lies between 3e-7 and 1 − 3e-7, and the fit is finite
    with a single label, or with separated labels. u is the score's unit coordinate on the scale. A ridge of 2.5e-11 on
    the increments of c, relative to the total weight, makes the solution unique where the data do not determine it.

    Parameters
    ----------
    degree : int
        n, from 1 to 50.
    scale, forgetting, prior
        See `AdditiveCalibrator`; needs a bounded scale. For margins use `Interval(lo, hi)`, for rare events
        `Logit(lo, hi)` around the scores that occur, on which degree 1 is nearly `Platt`.
    resolution : int or None
        Cells of the grid on which the sums are kept (default 16,384); None keeps every distinct score.
    refresh_every : int
        See `AdditiveCalibrator`.

    Notes
    -----
    Each damped Newton step is a monotone least-squares problem, solved exactly by the kernel of `Bernstein`. The steps
    end when a bound on the remaining log loss is below 1e-11 per unit of weight.

    Cost: an observation O(log k); a solve O(k·n) for k scores (cells) in use, from the previous solution; memory O(k).
    On a grid a prediction after an observation takes O(n) times some hundred nodes, in which the cells are summed up to
    1e-15 of their weight (`kernels/newton/panel_logistic.py`), except where the curve is too steep for them.

    References
    ----------
    Paper 001, the last problem before its closing table.

    Examples
    --------
    >>> cal = BernsteinLogistic(degree=5)
    >>> cal.learn_many([0.1, 0.3, 0.4, 0.6, 0.7, 0.8], [0, 0, 1, 0, 1, 1])
    >>> round(cal.predict_one(0.2), 3), round(cal.predict_one(0.5), 3)
    (0.08, 0.486)
    """

    name = "bernstein-logistic"
    summary = "log-odds that are a monotone Bernstein polynomial, by maximum likelihood"
    by_ratios = True
    default_resolution = 16384

    def __init__(self, degree: int = 10, **common: Unpack[Common]) -> None:
        self.degree = whole_number(degree, "degree", 1, MAX_DEGREE)
        self._quadratic = MonotoneLeastSquares(self.degree)
        super().__init__(**common)
        table = self._grid_table()
        self._following = None if table is None else PanelFollowing(self.scale, self.degree)

    def new_statistic(self) -> Table:
        self.scale.require_bounds("a Bernstein polynomial")
        return super().new_statistic()

    def solve(self, statistic: Table, start: ScaledMap | None) -> ScaledMap:
        x, negative, positive = statistic.points()
        u = self.scale.units(x)
        initial = np.array(start.coefficients) if isinstance(start, BernsteinLogisticMap) else np.zeros(self.degree + 1)
        solution = fit_bernstein_logistic(u, negative, positive, self._quadratic, initial, self.degree)
        if not solution.solved:
            raise SolverError(f"BernsteinLogistic of degree {self.degree} ended with status {solution.status!r}")
        return BernsteinLogisticMap(self.scale, solution.x)

    def _forget_solved(self) -> None:
        super()._forget_solved()
        self._quadratic.reset()


class PanelFollowing(Following):
    """Follows the cells by sums over panels of the coordinate (`kernels/newton/panel_logistic.py`)."""

    def __init__(self, scale: Scale, degree: int) -> None:
        self._scale = scale
        self._degree = degree

    def fitted(self, statistic: GridTable) -> ScaledMap | None:
        return BernsteinLogisticMap(self._scale, self.kernel.coefficients) if self.kernel.fit() else None

    def anchor(self, statistic: GridTable, solved: ScaledMap) -> bool:
        if not isinstance(solved, BernsteinLogisticMap):
            return False
        if self.followed is statistic.sums and self.kernel.start_at(solved.coefficients):
            return True
        slots, x, w = statistic.stored_points()
        statistic.sums.take()
        for panels in PANELS:  # more of them resolve steeper curves, and take as much longer
            if self.kernel is None or self.kernel.panels != panels:
                self.kernel = PanelLogistic(self._degree, panels, 2 * statistic.grid.cells)
            self.kernel.load(slots, self._scale.units(x), w)
            if self.kernel.start_at(solved.coefficients):
                return True
        return False

    def replace(self, statistic: GridTable, cell: int) -> None:
        negative_x, negative, positive_x, positive = statistic.stored_points_of(cell)
        self.kernel.replace(2 * cell, self._scale.unit(negative_x) if negative > 0.0 else 0.0, negative)
        self.kernel.replace(2 * cell + 1, self._scale.unit(positive_x) if positive > 0.0 else 0.0, positive)
