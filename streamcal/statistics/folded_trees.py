"""`FoldedTrees`: a score tree for each of K folds, as one statistic, so that one memory forgets for all of them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from streamcal.parameters.types import FloatArray
from streamcal.statistics.base import Statistic
from streamcal.statistics.grid import Grid
from streamcal.statistics.score_tree import ScoreTree

#: The finalizer of SplitMix64 (Steele, Lea and Flood 2014): shifts and odd factors that spread 64 bits over 64 bits.
_SHIFTS = (30, 27, 31)
_FACTORS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_ALL_BITS = 0xFFFFFFFFFFFFFFFF
#: The hash reads a coordinate rounded to 44 bits (33 of the significand): a model whose sums end in other last digits,
#: on another machine or with its features in another order, must not send a score to another fold.
_DROPPED_BITS = 20


Labels = TypeVar("Labels", float, FloatArray)


def outcome(y: Labels, fold: int | npt.NDArray[np.int64]) -> Labels:
    """A label and its fold in the one number that a memory keeps, y + 2·fold; or arrays of them."""
    coded: Any = y + 2.0 * fold
    return coded


class FoldedTrees(Statistic):
    """K score trees. What other statistics take as the label is here `outcome(y, fold)`.

    A memory stores the label and never reads it, so that the fold of an observation enters, leaves and fades with it:
    a window is one over the whole stream. For a label of 0 or 1 the code is exact; the fractional ones of a prior are
    rounded to about K·1e-16.
    """

    def __init__(self, folds: int, grid: Grid | None = None) -> None:
        self.grid = grid
        self.bounded = grid is not None
        self.trees = [ScoreTree(grid) for _ in range(folds)]

    @property
    def n(self) -> float:
        return sum(tree.n for tree in self.trees)

    @property
    def count(self) -> int:
        return sum(tree.count for tree in self.trees)

    @property
    def drifts(self) -> bool:
        return any(tree.drifts for tree in self.trees)

    def fold_of(self, x: float) -> int:
        """The fold of a coordinate for which none was given: a hash of the leading bits of what a tree keeps of it."""
        kept = x + 0.0 if self.grid is None else self.grid.round(x)  # −0 is 0
        (bits,) = struct.unpack("<Q", struct.pack("<d", kept))
        bits = (bits + (1 << _DROPPED_BITS - 1)) >> _DROPPED_BITS
        for shift, factor in zip(_SHIFTS[:2], _FACTORS, strict=True):
            bits = ((bits ^ (bits >> shift)) * factor) & _ALL_BITS
        return int((bits ^ (bits >> _SHIFTS[2])) % len(self.trees))

    def folds_of(self, x: FloatArray) -> npt.NDArray[np.int64]:
        """`fold_of` for an array."""
        kept = x + 0.0 if self.grid is None else self.grid.rounds(x)
        bits = (kept.view(np.uint64) + np.uint64(1 << _DROPPED_BITS - 1)) >> np.uint64(_DROPPED_BITS)
        for shift, factor in zip(_SHIFTS[:2], _FACTORS, strict=True):
            bits = (bits ^ (bits >> np.uint64(shift))) * np.uint64(factor)
        return ((bits ^ (bits >> np.uint64(_SHIFTS[2]))) % np.uint64(len(self.trees))).astype(np.int64)

    def intervals_one(self, x: Sequence[float], w: float) -> tuple[list[float], list[float]]:
        """The lower ends and the upper ends of each tree's interval at its own of K coordinates."""
        pairs = [tree.interval(place, w) for tree, place in zip(self.trees, x, strict=True)]
        return [pair[0] for pair in pairs], [pair[1] for pair in pairs]

    def intervals(self, x: Sequence[FloatArray], w: float) -> tuple[list[FloatArray], list[FloatArray]]:
        """`intervals_one` for K arrays of equal length."""
        pairs = [tree.intervals(places, w) for tree, places in zip(self.trees, x, strict=True)]
        return [pair[0] for pair in pairs], [pair[1] for pair in pairs]

    def update(self, x: float, y: float, w: float) -> None:
        fold = int(y // 2.0)
        self.trees[fold].update(x, y - 2.0 * fold, w)

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        folds = y // 2.0
        for fold, tree in enumerate(self.trees):
            rows = folds == fold
            tree.update_many(x[rows], y[rows] - 2.0 * fold, w[rows])

    def revert(self, x: float, y: float, w: float) -> None:
        fold = int(y // 2.0)
        self.trees[fold].revert(x, y - 2.0 * fold, w)

    def merge(self, other: Self) -> None:
        for tree, twin in zip(self.trees, other.trees, strict=True):
            tree.merge(twin)

    def decay(self, factor: float) -> None:
        for tree in self.trees:
            tree.decay(factor)

    def prune(self, fraction: float) -> None:
        for tree in self.trees:
            tree.prune(fraction)

    def empty(self) -> Self:
        return type(self)(len(self.trees), self.grid)

    def state(self) -> dict[str, Any]:
        return {"folds": [tree.state() for tree in self.trees]}

    def restore(self, state: dict[str, Any]) -> None:
        for tree, saved in zip(self.trees, state["folds"], strict=True):
            tree.restore(saved)
