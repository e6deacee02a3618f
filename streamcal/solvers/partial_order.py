"""Isotonic least squares on a partial order: input and output of the block-cutting kernel.

Symbols: x the points; w_i and ȳ_i weight and mean label of point i; p_i the fit. Point i ≤ point j where that holds in
every coordinate. Source: Spouge, Wan and Wilbur 2003; Luss and Rosset 2014 (see `kernels.tree.partial_order`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.tree.covers import covers
from streamcal.kernels.tree.partial_order import LARGEST_TOTAL, BlockCutter
from streamcal.solvers.solution import Solution

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]


class PartialOrder:
    """min Σ w_i (p_i − ȳ_i)² over p with p_i ≤ p_j wherever point i ≤ point j in every coordinate.

    `x` are distinct points in lexicographic order, of shape (k, M). `lower` and `upper` are the transitive reduction of
    the order: point `upper[e]` covers point `lower[e]`.

    The fit consists of block means, and is monotone to the last bit. It is exact for weights that are multiples of a
    power of two and whose sum is at most 2³¹ times that. Other weights are rounded relative to those of their block,
    and a value is accurate to about 1e-16 times total weight over smallest weight.

    Cost: O(k² M) for the reduction, times the number of covers of a point at worst; a solve takes one minimum cut for
    every block that is split. Of two coordinates, the reduction costs O((k + e) log k), and a cut of m points with c
    covers among them O(m log k + c). Memory O(k + e), with up to O(k²) covers e.
    """

    def __init__(self, x: Array) -> None:
        self.x = x
        lower, upper = covers(np.ascontiguousarray(x))
        self.lower, self.upper = np.array(lower, dtype=int), np.array(upper, dtype=int)

    def solve(self, positive: Array, negative: Array) -> Solution:
        """Return the fit at all points.

        `positive` and `negative` are the weights of the two labels, ≥ 0 and not both 0 at any point, of shape (k,) as
        is `x` of the solution; `iterations` counts the cuts.
        """
        values = np.zeros(len(positive))
        cutter = _cutter(self.lower, self.upper, positive, negative, ranks_of(self.x))
        cutter.fit(values)
        return Solution(values, "solved", True, int(cutter.cuts), 0.0)

    def pair_at(self, positive: Array, negative: Array, point: Array, weight: float) -> tuple[float, float]:
        """Return the fits at one point added with label 0 and with label 1: the two Venn-Abers probabilities.

        The point, of weight > 0, may be one of the order. Only the blocks that contain it are cut. O(k M) and the cuts.
        """
        above: Mask = np.all(self.x >= point, axis=1)
        below: Mask = np.all(self.x <= point, axis=1)
        tied = np.flatnonzero(above & below)
        if len(tied):
            place, lower, upper, x = int(tied[0]), self.lower, self.upper, self.x
        else:
            place, x = len(self.x), np.vstack((self.x, point))
            # the minimal points above it and the maximal points below it: those not reached from another one on that
            # side
            lowest: Mask = above.copy()
            highest: Mask = below.copy()
            lowest[self.upper[above[self.lower]]] = False
            highest[self.lower[below[self.upper]]] = False
            over, under = np.flatnonzero(lowest), np.flatnonzero(highest)
            lower = np.concatenate((self.lower, np.full(len(over), place), under))
            upper = np.concatenate((self.upper, over, np.full(len(under), place)))
            positive, negative = np.append(positive, 0.0), np.append(negative, 0.0)
        ends, ranks = [], ranks_of(x)
        for label in (0.0, 1.0):
            a, b = positive.copy(), negative.copy()
            a[place] += label * weight
            b[place] += (1.0 - label) * weight
            ends.append(float(_cutter(lower, upper, a, b, ranks).fit_at(place)))
        return ends[0], ends[1]


def ranks_of(x: Array) -> tuple[NDArray[np.intp], ...]:
    """Return the points of two coordinates in order, and their ranks by the second one; () for other points."""
    if x.shape[1] != 2:
        return ()
    ranks = np.empty(len(x), dtype=np.intp)
    ranks[np.lexsort(x.T)] = np.arange(len(x))
    return np.lexsort(x.T[::-1]), ranks


def _cutter(
    lower: NDArray[np.int_], upper: NDArray[np.int_], positive: Array, negative: Array, ranks: tuple[Any, ...]
) -> BlockCutter:
    """Make a kernel over these weights, multiplied by a power of two that makes them integers if there is one."""
    scale = 2.0 ** np.floor(np.log2(LARGEST_TOTAL / (positive.sum() + negative.sum())))
    a, b = positive * scale, negative * scale
    whole = bool((np.rint(a) == a).all() and (np.rint(b) == b).all())
    return BlockCutter(lower, upper, a, b, whole, ranks)
