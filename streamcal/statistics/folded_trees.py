"""`FoldedTrees`: one score tree per fold, K of them, as a single statistic under a single memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.common.hashing import FIRST_FACTOR, SECOND_FACTOR
from streamcal.kernels.tree.folds import (
    DROPPED_BITS,
    HEAVIEST,
    LIGHTEST,
    Folds,
    hash_of,
    hash_with,
)
from streamcal.kernels.tree.hull_changes import MASS_TOLERANCE
from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray
from streamcal.states import ROUNDING as STATE_ROUNDING
from streamcal.states import Field, ensure, unread
from streamcal.statistics.grid import Grid
from streamcal.statistics.keyed import Column, Entry, Keyed
from streamcal.statistics.score_tree import ScoreTree

_SHIFTS = (30, 27, 31)
_FACTORS = (FIRST_FACTOR, SECOND_FACTOR)
#: The fold in the code of an observation that was given none.
NO_FOLD = -1
#: Weights that are whole numbers up to this relative difference count as whole: the border between two folds lies
#: there, and rounding must not decide on which side of it a sum is.
WHOLE = 1e-9
#: A label of a score that has no more than this share of its weight has none: it is the rounding of a difference.
ROUNDING = 2.0**-50
#: Fewer coordinates than this are looked up one by one.
FEW = 64


Labels = TypeVar("Labels", float, FloatArray)


def outcome(y: Labels, fold: int | NDArray[np.int64]) -> Labels:
    """Encode a label and its fold as one number, y + 2·fold; also for arrays."""
    coded: Any = y + 2.0 * fold
    return coded


class FoldedTrees(Keyed[ScoreTree]):
    """K score trees. The label argument of `update` and `unlearn` is the code `outcome(y, fold)`.

    A memory stores this code without interpreting it, so that a window holds the last observations of the whole stream,
    each with its fold. The code is exact for labels 0 and 1; the fractional labels of a prior are rounded to about
    K·1e-16.

    Observations without a fold (`NO_FOLD`) are dealt to the folds: of the weight W held of one score and one label, the
    first unit goes to the fold `fold_of(x)`, the next to the one after it, and so on, in turn. So every fold gets its
    share of a score that repeats, and what the folds hold is a function of W: order, merging and retraction change
    nothing else. That needs weights that do not fade. With `dealt=False`, all of a score goes to `fold_of(x)`.

    Update and retraction O(log² k) for k distinct scores in the fold; memory O(k) over all folds, and as much again for
    what was dealt. A weight other than 1 may go to several folds, O(K log² k).
    """

    saved_as = "folds"

    def __init__(self, folds: int, grid: Grid | None = None, scale: Scale | None = None, dealt: bool = True) -> None:
        super().__init__(lambda: ScoreTree(grid, scale), range(folds))
        self.folds = folds
        self.grid = grid
        self.scale = scale if grid is None else grid.scale
        self.dealt = dealt
        self.bounded = grid is not None
        self._trees = list(self._parts.values())
        #: Weights learned without a fold, by score; the trees contain them too.
        self._whole = ScoreTree(grid, scale)
        self._kernel = Folds(
            [tree.tree for tree in self._trees], self._whole.tree, None if grid is None else grid.round
        )
        #: `merged(x, rule)`: the merged probability at a coordinate, for a test object of weight 1; one call.
        self.merged: Callable[[float, int], float] = self._kernel.merged

    @property
    def count(self) -> int:
        return super().count - int(self._kernel.shares) + self._whole.count

    # -- routing -------------------------------------------------------------------------------------------------

    def entries(self, x: float, y: float) -> list[Entry]:
        fold = int(y // 2.0)
        return [(fold, x, y - 2.0 * fold)]

    def columns(self, x: FloatArray, y: FloatArray) -> Iterator[Column]:
        folds = y // 2.0
        for fold in range(self.folds):
            rows = folds == fold
            yield fold, rows, x[rows], y[rows] - 2.0 * fold

    def labelled(self, x: Any, y: Any) -> Any:
        """Return the code of an observation without a given fold."""
        if self.dealt:
            return outcome(y, NO_FOLD)
        return outcome(y, self.folds_of(x) if isinstance(x, np.ndarray) else self.fold_of(x))

    def fold_of(self, x: float, t: float | None = None) -> int:
        """Hash the leading bits of the (rounded) coordinate and, if given, of a time to a fold."""
        stored = x if self.grid is None else self.grid.round(x)
        bits = hash_of(stored)
        return int((bits if t is None else hash_with(bits, t)) % self.folds)

    def folds_of(self, x: FloatArray, t: FloatArray | None = None) -> NDArray[np.int64]:
        """Return `fold_of` for arrays."""
        stored = x + 0.0 if self.grid is None else self.grid.rounds(x)
        bits = _all_mixed((stored.view(np.uint64) + np.uint64(1 << DROPPED_BITS - 1)) >> np.uint64(DROPPED_BITS))
        if t is not None:
            bits = _all_mixed(bits ^ (t + 0.0).view(np.uint64))
        return (bits % np.uint64(self.folds)).astype(np.int64)

    # -- what is dealt -------------------------------------------------------------------------------------------

    def update(self, x: float, y: float, w: float) -> None:
        if y >= 0.0:
            super().update(x, y, w)
            return
        label = y - 2.0 * NO_FOLD
        if w == 1.0 and self._kernel.deal_unit(x, label):  # the common case: one unit to one fold
            return
        before = self._weights_at(x)
        self._whole.update(x, label, w)
        self._deal(x, before, self._weights_at(x))

    def fast_update(self, lo: float, hi: float) -> Callable[[Any, Any, Any], bool] | None:
        if not self.dealt:
            return None
        self._kernel.set_fast_range(lo, hi)
        return self._kernel.deal_fast

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        super().update_many(x, y, w)
        rows = y < 0.0
        if rows.any():
            at = x[rows] + 0.0 if self.grid is None else self.grid.rounds(x[rows])
            self._deal_many(at, y[rows] - 2.0 * NO_FOLD, w[rows])

    def require(self, x: float, y: float, w: float) -> None:
        if y >= 0.0:
            super().require(x, y, w)

    def verify(self, x: float, y: float, w: float) -> None:
        if y >= 0.0:
            super().verify(x, y, w)

    def unlearn(self, x: float, y: float, w: float) -> None:
        if y >= 0.0:
            super().unlearn(x, y, w)
            return
        label = y - 2.0 * NO_FOLD
        before = self._weights_at(x)
        self._whole.unlearn(x, label, w)
        self._deal(x, before, self._weights_at(x))

    def merge(self, other: Self) -> None:
        both = np.intersect1d(self._whole.scores(), other._whole.scores())
        shared = [(x, self._weights_at(x), other._weights_at(x)) for x in both.tolist()]
        super().merge(other)
        self._whole.merge(other._whole)
        self._kernel.shares += other._kernel.shares
        for x, own, added in shared:  # two first shares become the shares of a sum
            first = self.fold_of(x)
            for label, weights in zip((1.0, 0.0), zip(own, added, self._weights_at(x), strict=True), strict=True):
                shares = [_shares(weight, first, self.folds) for weight in weights]
                for fold, (one, two, both_together) in enumerate(zip(*shares, strict=True)):
                    number = (both_together > 0.0) - (one > 0.0) - (two > 0.0)
                    self._change(fold, x, label, both_together - one - two, number)

    def decay(self, factor: float) -> None:
        super().decay(factor)
        self._whole.decay(factor)

    def _weights_at(self, x: float) -> tuple[float, float]:
        """Return the weights of positives and negatives at a coordinate that were learned without a fold."""
        weight, positive = self._whole.weights_at(x)
        return _settled(positive, weight), _settled(weight - positive, weight)

    def _all_weights_at(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        if len(x) < FEW:
            pairs = np.array([self._weights_at(one) for one in x.tolist()]).reshape(-1, 2)
            return pairs[:, 0], pairs[:, 1]
        weight, positive = self._whole.all_weights_at(x)
        return _all_settled(positive, weight), _all_settled(weight - positive, weight)

    def _deal(self, x: float, before: tuple[float, float], after: tuple[float, float]) -> None:
        """Change the folds' shares of what is held at a coordinate."""
        first = self.fold_of(x)
        for label, start, end in zip((1.0, 0.0), before, after, strict=True):
            shares = _shares(start, first, self.folds), _shares(end, first, self.folds)
            for fold, (old, new) in enumerate(zip(*shares, strict=True)):
                if new != old:
                    self._change(fold, x, label, new - old, int(new > 0.0) - int(old > 0.0))

    def _deal_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        """Deal weights at (rounded) coordinates."""
        distinct = np.unique(x)
        before = self._all_weights_at(distinct)
        self._whole.update_many(x, y, w)
        after = self._all_weights_at(distinct)
        first = self.folds_of(distinct)
        for fold, tree in enumerate(self._trees):
            turn = (fold - first) % self.folds
            old, new = ([_shares_of_one(weight, turn, self.folds) for weight in weights] for weights in (before, after))
            added = [end - start for start, end in zip(old, new, strict=True)]
            number = np.zeros(len(distinct), dtype=np.int64)
            for start, end in zip(old, new, strict=True):
                number += (end > 0.0).astype(np.int64) - (start > 0.0)
            changed = (added[0] != 0.0) | (added[1] != 0.0)
            tree.add_sorted(distinct[changed], (added[0] + added[1])[changed], added[0][changed], number[changed])
            self._kernel.shares += int(number[changed].sum())

    def _change(self, fold: int, x: float, label: float, w: float, number: int) -> None:
        """Change the weight in a fold, and the number of shares that are counted there."""
        self._trees[fold].change(x, w, w * label, number)
        self._kernel.shares += number

    # -- reading -------------------------------------------------------------------------------------------------

    def filled(self) -> list[int]:
        """Return the folds with observations; all folds if nothing is held."""
        return [fold for fold, tree in enumerate(self._trees) if tree.count] or list(range(self.folds))

    @property
    def highest(self) -> float:
        """The largest coordinate held in any fold; NaN where nothing is."""
        return max((tree.highest for tree in self._parts.values() if tree.count), default=math.nan)

    def intervals_one(self, x: Sequence[float], w: float) -> tuple[list[float], list[float]]:
        """Return lower and upper ends of the K intervals, that of tree j at coordinate x[j]."""
        w = w * self.unit
        pairs = [tree.interval(place, self._beside(tree, w)) for tree, place in zip(self._trees, x, strict=True)]
        return [pair[0] for pair in pairs], [pair[1] for pair in pairs]

    def intervals(self, x: Sequence[FloatArray], w: float) -> tuple[list[FloatArray], list[FloatArray]]:
        """Return `intervals_one` for K arrays of equal length."""
        w = w * self.unit
        pairs = [tree.intervals(places, self._beside(tree, w)) for tree, places in zip(self._trees, x, strict=True)]
        return [pair[0] for pair in pairs], [pair[1] for pair in pairs]

    def own_intervals(self, fold: int, w: float) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the coordinates that a fold holds, and both ends of its interval there."""
        tree = self._trees[fold]
        knots = tree.scores()
        return knots, *tree.intervals(knots, self._beside(tree, w * self.unit))

    @staticmethod
    def _beside(tree: ScoreTree, w: float) -> float:
        """Return the weight of a test object, limited to `LIGHTEST` and `HEAVIEST` shares of what a fold holds."""
        total = tree.n
        return min(max(w, LIGHTEST * total), HEAVIEST * total) if total > 0.0 else w

    def empty(self) -> Self:
        return type(self)(self.folds, self.grid, self.scale, self.dealt)

    def fields(self) -> dict[str, Field]:
        whole = Field(unread, lambda: self._whole.state() if self._whole.count else None, optional=True)
        return {**super().fields(), "whole": whole}

    def _load(self, folds: list[Any], whole: Any) -> None:
        dealt = self._whole.empty()
        if whole is not None:
            dealt.restore(whole)
        for tree, saved in zip(self._trees, folds, strict=True):
            tree.restore(saved)
        self._whole = dealt
        self._kernel.set_whole(dealt.tree)
        self._require_shares()
        self._kernel.shares = self._number_of_shares()

    def _require_shares(self) -> None:
        """Raise `StateError` unless the folds hold their shares of the dealt weight.

        What a retraction left may be rounding of the heaviest weight so far, and so differ from the present weight by
        more than its rounding.
        """
        scores = self._whole.scores()
        dealt, first = self._all_weights_at(scores), self.folds_of(scores)
        rounding = MASS_TOLERANCE * self._whole.tree.heaviest
        for fold, tree in enumerate(self._trees):
            weight, positive = tree.all_weights_at(scores)
            for part, own in zip(dealt, (positive, weight - positive), strict=True):
                share = _shares_of_one(part, (fold - first) % self.folds, self.folds)
                least = share - STATE_ROUNDING * weight - rounding
                ensure((own >= least).all(), "a fold lacks its share of what was dealt")

    def require_possible(self, x: Any, y: FloatArray) -> None:
        self._require_coordinates(x, self.scale)
        least = 2.0 * NO_FOLD if self.dealt else 0.0
        ensure(
            ((y >= least) & (y < 2.0 * self.folds) & (y == np.floor(y))).all(), "a label and its fold are not possible"
        )

    def agrees(self, other: Self) -> bool:
        return super().agrees(other) and self._whole.agrees(other._whole)

    def _number_of_shares(self) -> int:
        """Count the shares above 0: as many as units, the last one counted as whole, and K at most."""
        scores = self._whole.scores()
        weights = np.concatenate(self._all_weights_at(scores))
        return int(np.minimum(np.ceil(weights), self.folds).sum())


def _settled(part: float, weight: float) -> float:
    """Remove rounding from a part of a weight: 0 if it is no more than that, and whole if it nearly is."""
    if part <= ROUNDING * weight:
        return 0.0
    nearest = float(round(part))
    return nearest if abs(part - nearest) <= WHOLE * nearest else part


def _all_settled(part: FloatArray, weight: FloatArray) -> FloatArray:
    nearest = np.rint(part)
    part = np.where(np.abs(part - nearest) <= WHOLE * nearest, nearest, part)
    return np.where(part <= ROUNDING * weight, 0.0, part)


def _shares(weight: float, first: int, folds: int) -> list[float]:
    """Return the weight of each fold, dealt one unit after the other in turn from the fold `first` on."""
    rounds, rest = divmod(weight, folds)
    return [rounds + min(max(rest - (fold - first) % folds, 0.0), 1.0) for fold in range(folds)]


def _shares_of_one(weight: FloatArray, turn: NDArray[np.int64], folds: int) -> FloatArray:
    """Return `_shares` of one fold for arrays of weights and of its turns, counted from 0."""
    rounds, rest = np.divmod(weight, float(folds))
    return rounds + np.clip(rest - turn, 0.0, 1.0)


def _all_mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Apply the finalizer of SplitMix64, `kernels/common/hashing.py`, to an array."""
    for shift, factor in zip(_SHIFTS[:2], _FACTORS, strict=True):
        bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
    return bits ^ (bits >> np.uint64(_SHIFTS[2]))
