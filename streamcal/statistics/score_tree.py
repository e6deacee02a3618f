"""`ScoreTree`: the score table as a balanced tree of greatest convex minorants.

`ScoreTree` wraps the kernel `hull_tree` as a statistic.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamcal.errors import RetractionError
from streamcal.kernels.tree.centred_blocks import centred_blocks
from streamcal.kernels.tree.hull_tree import HullTree
from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray
from streamcal.states import HEAVIEST, MOST, Field, counts, ensure, number, numbers, require_rising, require_weights
from streamcal.statistics.base import Piece, Statistic
from streamcal.statistics.grid import Grid, grid_of
from streamcal.statistics.retractions import LARGEST_UNPRUNED, never_learned

#: Values of two neighbouring blocks that differ by less than this (1,000 units in the last place), relative to the
#: higher one, are taken as equal, and the blocks pooled: their centres depend on what is pooled.
TIED_VALUES = 2.0**-42
#: Pruning moves the isotonic fit by no more than this at any score.
PRUNED_CHANGE = 1e-6


class ScoreTree(Statistic):
    """An ordered table of distinct scores that maintains their isotonic fit.

    Update, retraction, isotonic value and Venn-Abers interval are O(log² k) for k distinct scores; memory O(k). With a
    grid, coordinates are rounded to the centres of their cells, and memory is fixed. Saved coordinates are checked by
    the scale. With `keeps_fit` pruning spares what decides on the isotonic fit; an interval needs no such care: beside
    a test object of weight 1, what weighs 1e-9 together moves it by no more than that. Where centres of blocks are
    read, `centred`, their sums round, also with whole weights.
    """

    def __init__(
        self, grid: Grid | None = None, scale: Scale | None = None, keeps_fit: bool = False, centred: bool = False
    ) -> None:
        self.grid = grid
        self.scale = scale if grid is None else grid.scale
        self.keeps_fit = keeps_fit
        self.centred = centred
        self.bounded = grid is not None
        self._tree = HullTree(None if grid is None else grid.round)
        self._view: Self | None = None
        # The kernel's own method, which saves a call for each prediction.
        #: `isotonic(x)`: the isotonic least-squares fit at x, linear between held scores; NaN when nothing is held.
        self.isotonic: Callable[[float], float] = self._tree.isotonic

    def present(self, unit: float) -> Self:
        # One view, made once and reused: views differ only in their unit.
        if unit == self.unit:
            return self
        if self._view is None:
            self._view = super().present(unit)
        self._view.unit = unit
        return self._view

    @property
    def tree(self) -> HullTree:
        """The kernel, for those who read several trees in one call."""
        return self._tree

    @property
    def n(self) -> float:
        return float(self._tree.weight) / self.unit

    @property
    def count(self) -> int:
        return int(self._tree.count)

    @property
    def highest(self) -> float:
        """The largest coordinate held; NaN where nothing is. O(log k)."""
        return float(self._tree.highest())

    @property
    def drifts(self) -> bool:
        return not self._tree.exact

    def interval(self, x: float, w: float) -> tuple[float, float]:
        """Return the isotonic fits at x of the data with (x, 0, w), and of the data with (x, 1, w). O(log² k)."""
        return self._tree.interval(x, w * self.unit)

    def isotonics(self, x: FloatArray) -> FloatArray:
        """Return `isotonic` for an array."""
        return np.asarray(self._tree.isotonics(x if self.grid is None else self.grid.rounds(x)))

    def intervals(self, x: FloatArray, w: float) -> tuple[FloatArray, FloatArray]:
        """Return `interval` for an array; on a grid at most once a cell."""
        w = w * self.unit
        if self.grid is None or len(x) < self.grid.cells:
            lower, upper = self._tree.intervals(x if self.grid is None else self.grid.rounds(x), w)
            return lower, upper
        lower, upper = self._tree.intervals(self.grid.centres, w)
        return self.grid.take(lower, x), self.grid.take(upper, x)

    def scores(self) -> FloatArray:
        """Return the coordinates held, ascending. O(k)."""
        return np.asarray(self._tree.to_arrays()[0])

    def weights(self) -> tuple[FloatArray, FloatArray]:
        """Return the coordinates held, ascending, and their weights. O(k)."""
        x, weight, _, _ = self._tree.to_arrays()
        return x, weight if self.unit == 1.0 else weight / self.unit

    def blocks(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the first coordinate, last coordinate and value of each block of the isotonic fit. O(k)."""
        return self._tree.blocks()

    def centred_blocks(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Return the first, last and weighted mean coordinate of each isotonic block, and its value. O(k).

        The values rise strictly, by more than `TIED_VALUES`, and with them the means.
        """
        x, weight, positive, _ = self._tree.to_arrays()
        return centred_blocks(x, weight, positive, TIED_VALUES)

    def update(self, x: float, y: float, w: float) -> None:
        self._tree.update_one(x, y, w)

    def fast_update(self, lo: float, hi: float) -> Callable[[Any, Any, Any], bool]:
        self._tree.set_fast_range(lo, hi)
        return self._tree.update_fast

    def fast_interval(self, lo: float, hi: float) -> Callable[[Any], tuple[float, float] | None]:
        """Return the compiled `interval` with weight 1 of an unchecked score: None unless a float in [lo, hi]."""
        self._tree.set_fast_range(lo, hi)
        return self._tree.interval_fast

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        if len(x) == 0:
            return
        if self.grid is None:
            distinct, group, count = np.unique(x, return_inverse=True, return_counts=True)
            weight, positive = np.bincount(group, w), np.bincount(group, w * y)
        else:
            sums = np.zeros((self.grid.cells, 5))
            self.grid.add(x, y, w, sums)
            used = sums[:, 2] > 0.0
            distinct, (weight, positive, count) = self.grid.centres[used], sums[used, :3].T.copy()
        self._tree.update_sorted(distinct, weight, positive, count)

    def unlearn(self, x: float, y: float, w: float) -> None:
        if self._tree.unlearn(x, w, w * y, 1):
            raise RetractionError(never_learned(x, y, w))

    def stream(self, x: FloatArray, y: FloatArray, piece: Piece, lower: FloatArray, upper: FloatArray) -> None:
        """Learn a piece of a batch, and write the intervals before each row; to `lower` the fit where `upper` is empty.

        The fit is NaN where nothing is held.
        """
        places = (x, piece.leaving[0])
        x, gone = places if self.grid is None else map(self.grid.rounds, places)
        self._tree.stream(x, y, piece.w, piece.unit, gone, *piece.leaving[1:], piece.room, lower, upper)

    def weights_at(self, x: float) -> tuple[float, float]:
        """Return the weight and positive weight at a coordinate. O(log k)."""
        weight, positive, _ = self._tree.find(x)
        return weight, positive

    def all_weights_at(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return `weights_at` for an array of coordinates, which a grid has rounded. O(k)."""
        scores, weight, positive, _ = self._tree.to_arrays()
        if len(scores) == 0:
            return np.zeros(len(x)), np.zeros(len(x))
        place = np.minimum(np.searchsorted(scores, x), len(scores) - 1)
        present = scores[place] == x
        return np.where(present, weight[place], 0.0), np.where(present, positive[place], 0.0)

    def change(self, x: float, w: float, positive: float, number: int) -> None:
        """Add a weight, positive or negative, and a number of observations, at a coordinate. O(log² k)."""
        if w > 0.0 or number > 0:
            self._tree.update(x, max(w, 0.0), max(positive, 0.0), max(number, 0))
        if (w < 0.0 or number < 0) and self._tree.unlearn(x, max(-w, 0.0), max(-positive, 0.0), max(-number, 0)):
            raise RetractionError(never_learned(x, float(positive < 0.0), -w))

    def add_sorted(self, x: FloatArray, weight: FloatArray, positive: FloatArray, number: NDArray[np.int64]) -> None:
        """Add weights and numbers of observations at ascending coordinates, which a grid has rounded."""
        self._tree.update_sorted(x, weight, positive, number)

    def merge(self, other: Self) -> None:
        self._tree.update_sorted(*other._tree.to_arrays())

    def decay(self, factor: float) -> None:
        self._tree.multiply(factor)

    def prune(self, fraction: float) -> None:
        """Drop scores whose weights together are below `fraction` from a tree of more than `LARGEST_UNPRUNED` scores.

        With `keeps_fit` the fit changes by no more than `PRUNED_CHANGE` at any score. A light score decides on it where
        nothing heavier is near; of the blocks in which it would change by more, first the scores at the ends are kept
        and then all. The fit moves later where new observations part a block of which some scores were dropped: so
        nothing is dropped from small trees.
        """
        if self._tree.size <= LARGEST_UNPRUNED:
            return
        threshold = fraction * self._tree.weight / self._tree.size
        if self.keeps_fit:
            self._prune_beside_the_fit(threshold)
        else:
            self._tree.prune(threshold)

    def _prune_beside_the_fit(self, threshold: float) -> None:
        """Drop scores of less weight, unless that would move the fit. O(k) for each of a few rounds."""
        x, weight, positive, count = self._tree.to_arrays()
        stays = weight >= threshold
        if stays.all():
            return
        first, _, _ = self._tree.blocks()
        start = np.searchsorted(x, first)
        block = np.cumsum(np.bincount(start, minlength=len(x))) - 1
        ends = np.diff(block, prepend=-1, append=len(x))
        is_end = (ends[:-1] != 0) | (ends[1:] != 0)
        fit = self.isotonics(x)
        left = HullTree(None)
        tried: NDArray[np.bool_] = np.zeros(len(start), dtype=bool)
        while True:
            left.rebuild(x[stays], weight[stays], positive[stays], count[stays], self._tree.heaviest)
            moved = np.unique(block[np.abs(left.isotonics(x) - fit) > PRUNED_CHANGE])
            if len(moved) == 0:
                break
            concerned = np.isin(block, moved)
            stays |= concerned & (is_end | tried[block])
            tried[moved] = True
        if not stays.all():
            self._tree.rebuild(x[stays], weight[stays], positive[stays], count[stays], self._tree.heaviest)

    def empty(self) -> Self:
        return type(self)(self.grid, self.scale, self.keeps_fit, self.centred)

    def _settle(self) -> None:
        """Rebuild the tree as it is where its state is read, so that both continue alike to the last bit.

        Sums of weights that are not whole, and centres, depend in the last place on the shape of the tree.
        """
        if self.centred or not self._tree.exact:
            self._tree.rebuild(*self._tree.to_arrays(), self._tree.heaviest)

    def fields(self) -> dict[str, Field]:
        column, columns = numbers(None, copy=False), cache(self._tree.to_arrays)  # made when the first one is written
        return {
            "scores": Field(column, lambda: columns()[0]),
            "weight": Field(column, lambda: columns()[1]),
            "positive": Field(column, lambda: columns()[2]),
            "count": Field(counts(least=1), lambda: columns()[3]),
            "heaviest": Field(number(0.0, HEAVIEST), lambda: self._tree.heaviest),
        }

    def _load(
        self, scores: FloatArray, weight: FloatArray, positive: FloatArray, count: FloatArray, heaviest: float
    ) -> None:
        ensure(len(scores) == len(weight) == len(positive) == len(count), "the columns differ in length")
        require_rising(scores, "the scores")
        self._require_coordinates(scores, self.scale)
        ensure(self.grid is None or (self.grid.rounds(scores) == scores).all(), "a score is no centre of a cell")
        require_weights(weight, positive, heaviest)
        ensure((weight > 0.0).all() and (positive <= weight).all(), "a weight is not possible")
        ensure(count.sum() <= MOST, "a count is not possible")
        self._tree.rebuild(scores, weight, positive, count, heaviest)

    def _summed(self) -> tuple[Any, ...]:
        return tuple(self._tree.to_arrays())


def score_tree(scale: Scale, resolution: int | None, *, keeps_fit: bool = False, centred: bool = False) -> ScoreTree:
    """Make a score tree: exact, or on a grid of `resolution` cells over the scale."""
    grid = None if resolution is None else grid_of(scale, resolution)
    return ScoreTree(grid, scale, keeps_fit, centred)
