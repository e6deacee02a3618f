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

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dptsv

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


class TrendFilter:
    """One data set, solved for any number of penalties, each from the active set of the one before.

    Parameters
    ----------
    x : ndarray of shape (k,)
        Distinct scores, ascending.
    weight : ndarray of shape (k,)
        Their weights, > 0.
    mean : ndarray of shape (k,)
        Their mean labels.

    Notes
    -----
    A round, in which scores enter and leave A, costs O(k log k), a sort; from one penalty to the next smaller one there
    are few rounds. O(k) memory.
    """

    def __init__(self, x: Array, weight: Array, mean: Array) -> None:
        half = 0.5 * x  # the range of two doubles may overflow
        spread = half[-1] - half[0]
        z = (half - half[0]) / spread if spread > 0.0 else np.zeros(len(x))
        cells, first, self._group = np.unique(np.floor(z / NEAR), return_index=True, return_inverse=True)
        share = np.bincount(self._group, weight / weight.sum())
        average = np.bincount(self._group, weight / weight.sum() * mean) / share
        self._center = float(share @ average)
        self._z, self._share, self._y = z[first], share, average - self._center
        self._spread = float(spread)
        self._gaps = np.diff(self._z)
        self._fit, self._u = np.zeros(len(cells)), np.zeros(len(cells))
        ends = np.arange(len(cells))[:: max(len(cells) - 1, 1)]
        # A and the two ends; the signs there, 0 at the ends; the kinks
        self._knots, self._signs, self._kinks = ends, np.zeros(len(ends)), np.zeros(len(ends))
        self._settle(0.0)
        most = float(np.abs(self._u).max())
        self._most = 0.0 if most <= FLAT else most

    @property
    def straight(self) -> float:
        """The smallest λ at which the fit is a straight line; 0 where the labels lie on one."""
        return 2.0 * self._most * self._spread

    @property
    def kinks(self) -> int:
        """Number of slope changes of the last fit, without those that are rounding."""
        size = np.abs(self._kinks)
        return int(np.count_nonzero(size > max(SMALLEST_KINK * float(size.max()), FLAT)))

    def solve(self, penalty: float) -> Solution:
        """The fit at one penalty.

        Parameters
        ----------
        penalty : float
            λ > 0, in the unit of x.

        Returns
        -------
        Solution
            `x` has shape (k,); `residual` is the excess of |u| over λ on the unit range of scores.
        """
        return self._solve(0.5 * penalty / self._spread if self._most > 0.0 else np.inf)

    def solve_share(self, share: float) -> Solution:
        """The fit at this share, > 0, of the smallest λ at which the fit is a straight line."""
        return self._solve(share * self._most if self._most > 0.0 else np.inf)

    def _solve(self, limit: float) -> Solution:
        """The fit at the penalty `limit` for scores of range 1."""
        self._settle(limit)
        several = True
        for rounds in range(ROUNDS * len(self._z)):
            size = np.abs(self._u)
            size[self._knots] = 0.0
            excess = float(size.max() - limit)
            if not np.isfinite(self._fit.sum()):
                return self._solution("not finite", False, rounds, np.inf)
            if excess <= TOLERANCE * limit + FLAT:
                return self._solution("solved", True, rounds, max(excess, 0.0))
            before = self._knots
            self._enter(self._violators(size, limit) if several else np.array([size.argmax()]))
            self._settle(limit)
            # One violator at a time is certain to decrease the objective; several at once usually do.
            several = not np.array_equal(before, self._knots)
        return self._solution("iteration limit", False, rounds, excess)

    def _violators(self, size: Array, limit: float) -> NDArray[np.intp]:
        """The score with the largest |u| between each two neighbours of A, if |u| exceeds the limit there."""
        first = np.searchsorted(self._knots, np.arange(len(size)), side="right")
        order = np.lexsort((size, first))
        tops = order[np.flatnonzero(np.diff(first[order], append=-1))]
        return tops[size[tops] > limit]

    def _enter(self, places: NDArray[np.intp]) -> None:
        """Add scores to A."""
        where = np.searchsorted(self._knots, places)
        self._knots = np.insert(self._knots, where, places)
        self._signs = np.insert(self._signs, where, np.sign(self._u[places]))
        self._kinks = np.insert(self._kinks, where, 0.0)

    def _settle(self, limit: float) -> None:
        """Move to the solution on A; scores whose v changes sign on the way leave A."""
        while len(self._z) > 1:
            values, kinks = self._solve_on_knots(limit)
            wrong = kinks * self._signs < 0.0
            if not wrong.any():
                self._kinks = kinks
                self._fit = self._left * values[self._piece] + self._right * values[self._piece + 1]
                excess = np.cumsum(self._share * (self._y - self._fit))
                np.cumsum(2.0 * excess[:-1] * self._gaps, out=self._u[1:])
                return
            share = self._kinks[wrong] / (self._kinks[wrong] - kinks[wrong])
            self._kinks = self._kinks + share.min() * (kinks - self._kinks)
            kept = np.ones(len(kinks), dtype=bool)
            kept[np.flatnonzero(wrong)[share == share.min()]] = False
            self._knots, self._signs, self._kinks = self._knots[kept], self._signs[kept], self._kinks[kept]

    def _solve_on_knots(self, limit: float) -> tuple[Array, Array]:
        """Values and kinks at the knots of the solution on A; also stores the hat functions of all scores."""
        knots, size = self._knots, len(self._knots)
        places = self._z[knots]
        width = places[1:] - places[:-1]
        start = knots[:-1]
        self._piece = np.append(np.repeat(np.arange(size - 1), knots[1:] - start), size - 2)
        self._right = (self._z - places[self._piece]) / width[self._piece]
        self._left = 1.0 - self._right
        w_left, w_right = self._share * self._left, self._share * self._right
        diagonal, target = np.zeros(size), np.zeros(size)
        diagonal[:-1], target[:-1] = np.add.reduceat([w_left * self._left, w_left * self._y], start, axis=1)
        both = np.add.reduceat([w_right * self._right, w_right * self._y], start, axis=1)
        diagonal[1:] += both[0]
        target[1:] += both[1]
        tension = 0.5 * limit * ((self._signs[1:] - self._signs[:-1]) / width) if size > 2 else np.zeros(1)
        target[:-1] -= tension
        target[1:] += tension
        *_, values, failed = dptsv(diagonal * (1.0 + RIDGE), np.add.reduceat(w_left * self._right, start), target)
        if failed:
            values = np.full(size, np.nan)
        slopes = (values[1:] - values[:-1]) / width
        kinks = np.zeros(size)
        kinks[1:-1] = slopes[1:] - slopes[:-1]
        return values, kinks

    def _solution(self, status: str, solved: bool, rounds: int, residual: float) -> Solution:
        return Solution((self._center + self._fit)[self._group], status, solved, rounds, residual)
