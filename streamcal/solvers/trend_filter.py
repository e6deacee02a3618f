"""ℓ₁ linear trend filtering on scores with weights and any spacing, by an active set of kinks.

Symbols, after Kim, Koh, Boyd and Gorinevsky 2009 (SIAM Review 51:339) and paper 002, eq. (12):

    x_i, ω_i, y_i   distinct scores, ascending; their shares of the weight; their mean labels
    λ               the argument `penalty`
    p               minimises  Σ ω_i (p_i − y_i)² + λ Σ_j |v_j|
    v_j             the change of slope at x_j: (p_{j+1} − p_j)/(x_{j+1} − x_j) − (p_j − p_{j−1})/(x_j − x_{j−1})
    A, σ            the active set, scores with v_j ≠ 0, and the signs of v there
    u_j             2 Σ_{i<j} ω_i (y_i − p_i)(x_j − x_i), the decrease of the first term for a unit of v_j

p is optimal if |u_j| ≤ λ everywhere and u_j = λ σ_j on A. As a function p is linear between the scores of A and the
two ends, so that for given A and σ its values there solve a tridiagonal system. In σ_j v_j ≥ 0 this is nonnegative
least squares, and is solved by the method of Lawson and Hanson: scores with |u_j| > λ enter A, and on the way to the
new solution those whose v_j would change its sign leave A. Values are divided only by distances between two scores that
are both in A, and λ only by the distance of two neighbours in A with different signs, which cannot be close together,
since the slope of u_j is bounded.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.polynomial.kink_path import KinkPath
from streamcal.kernels.polynomial.kinks import ITERATION_LIMIT, NOT_FINITE, SOLVED, Kinks
from streamcal.solvers.solution import Solution

Array = NDArray[np.float64]

#: Scores within one cell of this share of the range are treated as one: a slope between them has no correct digits.
NEAR = 1e-9
#: Ridge, relative to the diagonal of the tridiagonal matrix. It matters only where nearly all weight lies between two
#: knots, so that the values there are not determined, and then shrinks them towards the mean of all labels.
RIDGE = 1e-13
#: |u| may exceed λ by this relative tolerance, and in addition
TOLERANCE = 1e-9
#: by this absolute one on the unit range of scores, for rounding and ridge. Labels with |u| below it lie on a line.
FLAT = 1e-12
#: A change of slope below this share of the largest one is rounding: scores may enter A at the λ at which their |u|
#: equals it, on symmetric data several, and whether they do must not decide how many kinks there are.
SMALLEST_KINK = 1e-9
#: Limit of the number of rounds, for each score; usually there are fewer rounds than kinks.
ROUNDS = 10
STATUS = {SOLVED: "solved", NOT_FINITE: "not finite", ITERATION_LIMIT: "iteration limit"}


class PathSettings(NamedTuple):
    """Decreasing penalties, from the smallest with a straight line on: their number, and the ratio of each to the last.

    A path ends where AICc is larger than the least one by `negligible`, or where there are too many parameters for it.
    """

    penalties: int
    ratio: float
    negligible: float


class TrendFilter:
    """One data set, solved for any number of penalties, each from the active set of the one before.

    `x` are distinct scores, ascending, with weights > 0 and mean labels, all of shape (k,). A round, in which scores
    enter and leave A, costs O(k); from one penalty to the next smaller one there are few rounds
    (`kernels/polynomial/kinks.py`). O(k) memory.
    """

    def __init__(self, x: Array, weight: Array, mean: Array) -> None:
        self.x = x
        half = 0.5 * x  # the range of two doubles may overflow
        spread = half[-1] - half[0]
        z = (half - half[0]) / spread if spread > 0.0 else np.zeros(len(x))
        _, first, self._group = np.unique(np.floor(z / NEAR), return_index=True, return_inverse=True)
        self._apart = len(first) == len(x)
        self._spread = float(spread)
        self._path: KinkPath | None = None
        self._active = Kinks(z[first], *self._columns(weight, mean), RIDGE, TOLERANCE, FLAT)
        self._measure()

    def renew(self, weight: Array, mean: Array) -> None:
        """Take other weights and mean labels at the same scores; a path then starts from the last one."""
        self._active.renew(*self._columns(weight, mean))
        self._measure()

    def _columns(self, weight: Array, mean: Array) -> tuple[Array, Array]:
        """Return shares of the weight and centred mean labels of scores that are apart; set the centre."""
        share, average = weight / weight.sum(), mean
        if not self._apart:
            share, total = np.bincount(self._group, share), np.bincount(self._group, share * mean)
            average = total / share
        self._centre = float(share @ average)
        return share, average - self._centre

    def _measure(self) -> None:
        """Set the largest |u| of the straight line."""
        most = self._active.most()
        self._most = 0.0 if most <= FLAT else most

    @property
    def straight(self) -> float:
        """The smallest λ at which the fit is a straight line; 0 where the labels lie on one."""
        return 2.0 * self._most * self._spread

    @property
    def kinks(self) -> int:
        """Number of slope changes of the last fit, without those that are rounding."""
        return int(self._active.number(SMALLEST_KINK))

    def solve(self, penalty: float) -> Solution:
        """Return the fit at λ > 0, in the unit of x; `residual` is the excess of |u| over λ on the unit range."""
        limit = 0.5 * penalty / self._spread if self._most > 0.0 else np.inf  # for scores of range 1
        status = self._active.solve(limit, ROUNDS * len(self._active.fit))
        return Solution(self.values(), STATUS[status], status == SOLVED, self._active.rounds, self._active.excess)

    def path(self, weight: float, settings: PathSettings, average: bool) -> tuple[str, Array]:
        """Fit at decreasing penalties; return the status, "solved" or another, and the best fit or the average.

        `weight` is that of all labels, and the settings of the first call apply. The `average` is of all fits, each
        clipped to [0, 1] and weighted by exp(−AICc/2); otherwise it is the fit with the least AICc.
        """
        rounds = ROUNDS * len(self._active.fit)
        if self._path is None:
            self._path = KinkPath(self._active, *settings, SMALLEST_KINK, rounds)
        status = self._path.run(weight, self._centre, self._most, len(self.x), average)
        values = self._path.values
        return STATUS[status], np.clip(values if self._apart else values[self._group], 0.0, 1.0)

    def values(self) -> Array:
        """Return the last fit, shape (k,)."""
        fit = self._centre + self._active.fit
        return fit if self._apart else fit[self._group]
