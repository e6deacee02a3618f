"""`FoldedTrees`: one score tree per fold, K of them, as a single statistic under a single memory."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray
from streamcal.states import Fields, ensure, listed, unread
from streamcal.statistics.grid import Grid
from streamcal.statistics.keyed import Column, Entry, Keyed
from streamcal.statistics.score_tree import ScoreTree

#: The finalizer of SplitMix64 (Steele, Lea and Flood 2014): shifts and odd factors that spread 64 bits over 64 bits.
_SHIFTS = (30, 27, 31)
_FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_ALL_BITS = 0xFFFFFFFFFFFFFFFF
#: The hash uses a coordinate rounded to 44 bits (33 of the significand), so that differences in the last digits of a
#: model's score (another machine, another order of the features) do not change its fold.
_DROPPED_BITS = 20


Labels = TypeVar("Labels", float, FloatArray)


def outcome(y: Labels, fold: int | npt.NDArray[np.int64]) -> Labels:
    """A label and its fold encoded as one number, y + 2·fold; also for arrays."""
    coded: Any = y + 2.0 * fold
    return coded


class FoldedTrees(Keyed[ScoreTree]):
    """K score trees. The label argument of `update` and `revert` is the code `outcome(y, fold)`.

    A memory stores this code without interpreting it, so that a window holds the last observations of the whole
    stream, each with its fold. The code is exact for labels 0 and 1; the fractional labels of a prior are rounded to
    about K·1e-16.

    Notes
    -----
    Update and retraction O(log² k) for k distinct scores in the fold; memory O(k) over all folds.
    """

    def __init__(self, folds: int, grid: Grid | None = None, scale: Scale | None = None) -> None:
        super().__init__(lambda: ScoreTree(grid, scale), range(folds))
        self.folds = folds
        self.grid = grid
        self.scale = scale if grid is None else grid.scale
        self.bounded = grid is not None
        self._intervals = [tree.interval for tree in self._parts.values()]

    def entries(self, x: float, y: float) -> list[Entry]:
        fold = int(y // 2.0)
        return [(fold, x, y - 2.0 * fold)]

    def columns(self, x: FloatArray, y: FloatArray) -> Iterator[Column]:
        folds = y // 2.0
        for fold in range(self.folds):
            rows = folds == fold
            yield fold, rows, x[rows], y[rows] - 2.0 * fold

    def labelled(self, x: Any, y: Any) -> Any:
        """The code of an observation for which no fold is given."""
        return outcome(y, self.folds_of(x) if isinstance(x, np.ndarray) else self.fold_of(x))

    def fold_of(self, x: float) -> int:
        """The fold of a coordinate for which none is given: a hash of the leading bits of the (rounded) coordinate."""
        kept = x + 0.0 if self.grid is None else self.grid.round(x)  # −0 is 0
        (bits,) = struct.unpack("<Q", struct.pack("<d", kept))
        bits = (bits + (1 << _DROPPED_BITS - 1)) >> _DROPPED_BITS
        for shift, factor in zip(_SHIFTS[:2], _FACTORS, strict=True):
            bits = ((bits ^ (bits >> shift)) * factor) & _ALL_BITS
        return int((bits ^ (bits >> _SHIFTS[2])) % self.folds)

    def folds_of(self, x: FloatArray) -> npt.NDArray[np.int64]:
        """`fold_of` for an array."""
        kept = x + 0.0 if self.grid is None else self.grid.rounds(x)
        bits = (kept.view(np.uint64) + np.uint64(1 << _DROPPED_BITS - 1)) >> np.uint64(_DROPPED_BITS)
        for shift, factor in zip(_SHIFTS[:2], _FACTORS, strict=True):
            bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
        return ((bits ^ (bits >> np.uint64(_SHIFTS[2]))) % np.uint64(self.folds)).astype(np.int64)

    @property
    def highest(self) -> float:
        """The largest coordinate held in any fold; NaN where nothing is."""
        return max((tree.highest for tree in self._parts.values() if tree.count), default=math.nan)

    def intervals_one(self, x: Sequence[float], w: float) -> tuple[list[float], list[float]]:
        """Lower and upper ends of the K intervals, that of tree j taken at coordinate x[j]."""
        w = w * self.unit
        pairs = [interval(place, w) for interval, place in zip(self._intervals, x, strict=True)]
        return [pair[0] for pair in pairs], [pair[1] for pair in pairs]

    def intervals(self, x: Sequence[FloatArray], w: float) -> tuple[list[FloatArray], list[FloatArray]]:
        """`intervals_one` for K arrays of equal length."""
        w = w * self.unit
        pairs = [tree.intervals(places, w) for tree, places in zip(self._parts.values(), x, strict=True)]
        return [pair[0] for pair in pairs], [pair[1] for pair in pairs]

    def empty(self) -> Self:
        return type(self)(self.folds, self.grid, self.scale)

    def state(self) -> dict[str, Any]:
        return {"folds": [tree.state() for tree in self._parts.values()]}

    def fields(self) -> Fields:
        return {"folds": listed(unread, length=self.folds)}

    def _load(self, folds: list[Any]) -> None:
        for tree, saved in zip(self._parts.values(), folds, strict=True):
            tree.restore(saved)

    def require_possible(self, x: Any, y: FloatArray) -> None:
        self._require_coordinates(x, self.scale)
        ensure(
            ((y >= 0.0) & (y < 2.0 * self.folds) & (y == np.floor(y))).all(), "a label and its fold are not possible"
        )
