"""Isotonic least squares on a partial order: the cutting kernel with its input prepared and its status in words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.partial_order import LARGEST_TOTAL, BlockCutter, covers
from streamcal.solvers.solution import Solution

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class PartialOrder:
    """min Σ w_i (p_i − ȳ_i)² over p with p_i ≤ p_j wherever point i ≤ point j in every coordinate.

    The answer is made of block means, and is monotone to the last bit. It is exact for weights that are multiples of a
    power of two, and in sum 2³¹ times that at most. Other weights are rounded against those of their block, and a value
    is right to about 1e-16 times total weight over lightest weight.

    Args:
        x: distinct points in lexicographic order, shape (k, M).

    Attributes:
        lower, upper: the transitive reduction of the order, point `upper[e]` covers point `lower[e]`. O(k²) to find.
    """

    def __init__(self, x: Array) -> None:
        self.x = x
        lower, upper = covers(np.ascontiguousarray(x))
        self.lower, self.upper = np.array(lower, dtype=int), np.array(upper, dtype=int)

    def solve(self, positive: Array, negative: Array) -> Solution:
        """The fit at all points, from nonnegative weights of both labels, not both 0 at any point; shapes (k,)."""
        values = np.zeros(len(positive))
        cutter = _cutter(self.lower, self.upper, positive, negative)
        cutter.fit(values)
        return Solution(values, "solved", True, int(cutter.cuts), 0.0)

    def pair_at(self, positive: Array, negative: Array, point: Array, weight: float) -> tuple[float, float]:
        """The fits at `point`, shape (M,), where it stands with `weight` and label 0, and where with label 1."""
        above: Mask = np.all(self.x >= point, axis=1)
        below: Mask = np.all(self.x <= point, axis=1)
        tied = np.flatnonzero(above & below)
        if len(tied):
            place, lower, upper = int(tied[0]), self.lower, self.upper
        else:
            place = len(self.x)
            # the lowest points above it and the highest below it: a cover of theirs on the same side rules one out
            lowest: Mask = above.copy()
            highest: Mask = below.copy()
            lowest[self.upper[above[self.lower]]] = False
            highest[self.lower[below[self.upper]]] = False
            over, under = np.flatnonzero(lowest), np.flatnonzero(highest)
            lower = np.concatenate((self.lower, np.full(len(over), place), under))
            upper = np.concatenate((self.upper, over, np.full(len(under), place)))
            positive, negative = np.append(positive, 0.0), np.append(negative, 0.0)
        ends = []
        for label in (0.0, 1.0):
            a, b = positive.copy(), negative.copy()
            a[place] += label * weight
            b[place] += (1.0 - label) * weight
            ends.append(float(_cutter(lower, upper, a, b).fit_at(place)))
        return ends[0], ends[1]


def _cutter(lower: NDArray[np.int_], upper: NDArray[np.int_], positive: Array, negative: Array) -> BlockCutter:
    """A kernel over these weights, multiplied by a power of two that makes them whole numbers if one does."""
    scale = 2.0 ** np.floor(np.log2(LARGEST_TOTAL / (positive.sum() + negative.sum())))
    a, b = positive * scale, negative * scale
    whole = bool((np.rint(a) == a).all() and (np.rint(b) == b).all())
    return BlockCutter(lower, upper, a, b, whole)
