"""`ScoreTable`: distinct score → weight, positive weight, number of observations, in order of the score.

Every one-score method of the papers is a function of it. `ScoreTable` is exact and grows with the distinct scores;
`GridTable` keeps the cells of a fixed grid.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from sortedcontainers import SortedDict

from streamcal.base import FloatArray, RetractionError, Statistic
from streamcal.scales import Scale
from streamcal.statistics.grid import Grid

#: A retraction may ask for this much more than is held, relative to what is held: the rounding of long sums.
HELD_TOLERANCE = 1e-9


class ScoreTable(Statistic):
    """The exact table. Update and retraction O(log k) for k distinct scores, memory O(k).

    A row disappears when its count of observations reaches zero, whatever rounding its floats still hold.

    >>> table = ScoreTable()
    >>> table.update(0.3, 1.0, 1.0); table.update(0.3, 0.0, 1.0); table.update(0.1, 0.0, 2.0)
    >>> [column.tolist() for column in table.columns()]
    [[0.1, 0.3], [2.0, 2.0], [0.0, 1.0]]
    """

    def __init__(self) -> None:
        # x -> [weight, positive weight, count]; count >= 1 in every row.
        self._rows: SortedDict[float, list[float]] = SortedDict()
        self._total = 0.0  # weight of all rows; exactly 0 when there are none

    @property
    def n(self) -> float:
        return self._total

    def columns(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Coordinates ascending, their weights and positive weights; shapes (k,). O(k)."""
        rows = np.array(self._rows.values(), dtype=np.float64).reshape(-1, 3)
        return np.array(self._rows.keys(), dtype=np.float64), rows[:, 0].copy(), rows[:, 1].copy()

    def update(self, x: float, y: float, w: float) -> None:
        self._add(x + 0.0, w, w * y, 1)

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        for one in zip(x.tolist(), y.tolist(), w.tolist(), strict=True):
            self.update(*one)

    def revert(self, x: float, y: float, w: float) -> None:
        row = self._rows.get(x)
        if row is None or not holds(row[0], row[1], w, w * y):
            raise RetractionError(not_held(x, y, w))
        if row[2] <= 1:
            self._remove(x)
            return
        self._total -= w
        row[0] = max(row[0] - w, 0.0)
        row[1] = min(max(row[1] - w * y, 0.0), row[0])
        row[2] -= 1

    def merge(self, other: Self) -> None:
        for x, (weight, positive, count) in list(other._rows.items()):
            self._add(x, weight, positive, count)

    def decay(self, factor: float) -> None:
        self._total *= factor
        for row in self._rows.values():
            row[0] *= factor
            row[1] *= factor

    def prune(self, fraction: float) -> None:
        threshold = fraction * self.n / max(len(self._rows), 1)
        for x in [x for x, row in self._rows.items() if row[0] < threshold]:
            self._remove(x)

    def empty(self) -> Self:
        return type(self)()

    def state(self) -> dict[str, Any]:
        return {"rows": [[x, *row] for x, row in self._rows.items()]}

    def restore(self, state: dict[str, Any]) -> None:
        self._rows = SortedDict({x: [weight, positive, count] for x, weight, positive, count in state["rows"]})
        self._total = math.fsum(row[0] for row in self._rows.values())

    def _remove(self, x: float) -> None:
        weight, _, _ = self._rows.pop(x)
        self._total = self._total - weight if self._rows else 0.0

    def _add(self, x: float, weight: float, positive: float, count: float) -> None:
        self._total += weight
        row = self._rows.get(x)
        if row is None:
            self._rows[x] = [weight, positive, count]
        else:
            row[0] += weight
            row[1] += positive
            row[2] += count


class GridTable(Statistic):
    """The table over the cells of a grid: fixed memory, update O(log cells).

    Beside weight, positive weight and count, a cell keeps the weighted sum of its coordinates, so that a smooth map is
    fitted at the mean coordinate of each cell: exact where a cell holds one score, and of second order in the width of
    a cell otherwise.
    """

    bounded = True

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        # Rows: weight, positive weight, weighted coordinate sum, count; all zero where the count is.
        self._cells = np.zeros((4, grid.cells))
        # The same memory for single observations: a memoryview's items cost a fifth of numpy's.
        views: list[Any] = [memoryview(row) for row in self._cells]
        self._weight, self._positive, self._moment, self._count = views

    @property
    def n(self) -> float:
        return float(self._cells[0].sum())

    def columns(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Mean coordinates of the cells in use, ascending, their weights and positive weights. O(cells)."""
        weight, positive, moment, _ = self._cells[:, self._cells[0] > 0.0]
        return moment / weight, weight, positive

    def update(self, x: float, y: float, w: float) -> None:
        i = self.grid.cell(x)
        self._weight[i] += w
        self._positive[i] += w * y
        self._moment[i] += w * x
        self._count[i] += 1.0

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        cells = self.grid.cells_of(x)
        for row, values in zip(self._cells, (w, w * y, w * x, None), strict=True):
            row += np.bincount(cells, values, self.grid.cells)

    def revert(self, x: float, y: float, w: float) -> None:
        i = self.grid.cell(x)
        if self._count[i] < 1.0 or not holds(self._weight[i], self._positive[i], w, w * y):
            raise RetractionError(not_held(x, y, w))
        if self._count[i] == 1.0:
            self._weight[i] = self._positive[i] = self._moment[i] = self._count[i] = 0.0
            return
        self._weight[i] = max(self._weight[i] - w, 0.0)
        self._positive[i] = min(max(self._positive[i] - w * y, 0.0), self._weight[i])
        self._moment[i] -= w * x
        self._count[i] -= 1.0

    def merge(self, other: Self) -> None:
        self._cells += other._cells

    def decay(self, factor: float) -> None:
        self._cells[:3] *= factor

    def empty(self) -> Self:
        return type(self)(self.grid)

    def state(self) -> dict[str, Any]:
        used = np.flatnonzero(self._cells[3])
        return {"used": used.tolist(), "cells": self._cells[:, used].tolist()}

    def restore(self, state: dict[str, Any]) -> None:
        self._cells[:] = 0.0
        self._cells[:, np.array(state["used"], dtype=np.intp)] = state["cells"]


def score_table(scale: Scale, resolution: int | None) -> ScoreTable | GridTable:
    """A score table: exact, or on a grid of `resolution` cells over the scale."""
    return ScoreTable() if resolution is None else GridTable(Grid(scale, resolution))


def holds(weight: float, positive: float, w: float, positive_w: float) -> bool:
    """Whether a row of this weight and positive weight can have been given `w`, of which `positive_w` positive."""
    slack = HELD_TOLERANCE * weight
    return positive_w <= positive + slack and w - positive_w <= weight - positive + slack


def not_held(x: float, y: float, w: float) -> str:
    """The message for a retraction of what was never learned."""
    return f"no observation (coordinate {x!r}, label {y:g}, weight {w!r}) is held; unlearn only what was learned"
