"""Isotonic least squares on a partial order, with a penalty on differences between nearby points.

Symbols, after paper 000, eq. (6), per unit of weight:

    s_i, y_i    share of the weight and mean label of the i-th point, x_i
    λ           the argument `penalty`
    k_ij        λ/2 · W · s_i s_j / ‖x_i − x_j‖, the stiffness between two points;  d_i = Σ_j k_ij
    p           minimises  f(p) = Σ s_i (p_i − y_i)² + Σ_{i<j} k_ij (p_i − p_j)²  over isotonic p

The Hessian of ½f is A = diag(s + d) − K ⪯ D = diag(s + 2d). A proximal gradient step goes from p to the exact isotonic
fit, with weights D, of

    v = p − D⁻¹ (A p − s y) = D⁻¹ (d p + s y + K p)

It decreases f, and its only fixed point is the minimum; v is a mean of values in [0, 1]. The fit also determines which
points are equal. On its blocks f is minimised by one linear system. The next step starts from that minimum if it is
isotonic, and otherwise from its isotonic fit or from the last isotonic point on the segment towards it, whichever has
the lower f. Once the blocks are those of the solution, the next linear system gives it exactly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, solve
from scipy.spatial.distance import cdist

from streamcal.solvers.partial_order import PartialOrder
from streamcal.solvers.solution import Solution

Array = NDArray[np.float64]

#: k_ij is limited to this times the smaller of the two shares: the two values then differ by 1e-9 at most, and a
#: stiffer system has fewer correct digits.
STIFFEST = 1e9
#: The steps end when no value changes by more than this. The values are then accurate to this times 1 + 2 max d/s.
TOLERANCE = 1e-13
#: Points with less than this share of the total of D count in the stopping rule in proportion to their share:
#: capacities and sums are rounded to about 2⁻⁵² of the heavy points, so that rounding may decide the value of a point
#: so light, within the bounds set by the others.
LIGHT = 2.0**-40
#: Limit of the number of steps; 2 to 6 are typical.
STEPS = 500


class ManifoldIsotonic:
    """The problem over distinct points, of shape (k, M) in lexicographic order, with weights > 0.

    O(k²) memory; O(k³) at most for a step, of which 2 to 6 are typical.
    """

    def __init__(self, x: Array, weight: Array, penalty: float) -> None:
        self.order = PartialOrder(x)
        total = float(weight.sum())
        self._share = weight / total
        stiffness = np.outer(self._share, 0.5 * penalty * total * self._share)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            # the limit where the distance, or its square, underflows to 0; a stiffness of 0 stays 0
            np.divide(stiffness, cdist(x, x), out=stiffness, where=stiffness > 0.0)
        np.fill_diagonal(stiffness, 0.0)
        if not stiffness.max() <= STIFFEST * self._share.min():
            np.minimum(stiffness, STIFFEST * np.minimum.outer(self._share, self._share), out=stiffness)
        self._stiffness = stiffness
        self._degree = self._stiffness.sum(axis=1)
        self._majorant = self._share + 2.0 * self._degree
        self._counts = np.minimum(self._majorant / (LIGHT * self._majorant.sum()), 1.0)

    def solve(self, mean: Array, start: Array | None = None) -> Solution:
        """Fit to mean labels in [0, 1]; `residual` is the largest change of a value in the last step.

        Any values to start from, in [0, 1], lead to the same solution, near ones in fewer steps. None: the labels.
        """
        p = self._step(mean if start is None else start, mean)
        for steps in range(STEPS):
            moved = self._towards(self._on_blocks(p, mean), p, mean)
            p = self._step(moved, mean)
            change = float((self._counts * np.abs(p - moved)).max())
            if change <= TOLERANCE:
                return Solution(p, "solved", True, steps + 1, change)
        return Solution(p, "step limit", False, STEPS, change)

    def _step(self, p: Array, mean: Array) -> Array:
        """Make one proximal gradient step: the isotonic fit of v."""
        return self._isotonic((self._degree * p + self._share * mean + self._stiffness @ p) / self._majorant)

    def _isotonic(self, p: Array) -> Array:
        """Return the isotonic fit of values in [0, 1] under the weights D."""
        positive = np.clip(p, 0.0, 1.0) * self._majorant
        return self.order.solve(positive, self._majorant - positive).x

    def _on_blocks(self, p: Array, mean: Array) -> Array:
        """Return the minimum of f over all values that are equal where those of `p` are, isotonic or not."""
        rank = np.argsort(p, kind="stable")
        start = np.flatnonzero(np.diff(p[rank], prepend=-1.0))
        block = np.empty(len(p), dtype=int)
        block[rank] = np.repeat(np.arange(len(start)), np.diff(start, append=len(p)))
        between = np.add.reduceat(np.add.reduceat(self._stiffness[rank], start, axis=0)[:, rank], start, axis=1)
        np.fill_diagonal(between, 0.0)
        root = np.sqrt(np.add.reduceat(self._share[rank], start) + between.sum(axis=1))
        system = np.eye(len(start)) - between / root[:, None] / root  # scaled, so that light points keep their digits
        sums = np.add.reduceat((self._share * mean)[rank], start)
        try:
            return np.clip(solve(system, sums / root, assume_a="pos") / root, 0.0, 1.0)[block]
        except LinAlgError:
            return p

    def _towards(self, target: Array, p: Array, mean: Array) -> Array:
        """Return the target if isotonic; else its isotonic fit or the last isotonic point towards it, if better."""
        direction = target - p
        rise = p[self.order.upper] - p[self.order.lower]
        fall = direction[self.order.lower] - direction[self.order.upper]
        wrong = fall > rise
        if not wrong.any():
            return target
        fitted, on_the_way = self._isotonic(target), p + direction * float(np.min(rise[wrong] / fall[wrong]))
        return fitted if self._value(fitted, mean) < self._value(on_the_way, mean) else on_the_way

    def _value(self, p: Array, mean: Array) -> float:
        """Return f(p)."""
        between = self._stiffness * (p[:, None] - p) ** 2
        return float(self._share @ (p - mean) ** 2 + 0.5 * between.sum())
