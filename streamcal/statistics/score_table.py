"""`ScoreTable`: weight, positive weight and number of observations of each distinct score, in ascending order.

Every one-score method of the papers is a function of this table. `ScoreTable` is exact and grows with the distinct
scores; `GridTable` keeps the cells of a fixed grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sortedcontainers import SortedDict

from streamcal.kernels.cells.cell_points import all_points, points_of
from streamcal.kernels.cells.cell_sums import CellRows, CellSums, reduced
from streamcal.kernels.tree.hull_tree import LIGHTEST
from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray
from streamcal.states import (
    HEAVIEST,
    MOST,
    ROUNDING,
    Field,
    counts,
    ensure,
    in_columns,
    number,
    numbers,
    require_rising,
    require_weights,
)
from streamcal.statistics.base import Piece, Statistic
from streamcal.statistics.grid import Grid, grid_of
from streamcal.statistics.retractions import LARGEST_UNPRUNED, require_learned

Columns = tuple[FloatArray, FloatArray, FloatArray]


class ScoreTable(Statistic):
    """The exact table. Update and retraction O(log k) for k distinct scores; memory and all other operations O(k).

    A row is removed when its number of observations reaches zero, whatever rounding error its sums have.

    Examples
    --------
    >>> table = ScoreTable()
    >>> table.update(0.3, 1.0, 1.0); table.update(0.3, 0.0, 1.0); table.update(0.1, 0.0, 2.0)
    >>> [column.tolist() for column in table.columns()]
    [[0.1, 0.3], [2.0, 2.0], [0.0, 1.0]]
    """

    #: The grid of a `GridTable`; None where every distinct score is kept.
    grid: Grid | None = None

    def __init__(self, scale: Scale | None = None) -> None:
        self.scale = scale
        # x -> [weight, positive weight, count]; count >= 1 and 0 <= positive <= weight in every row.
        self._rows: SortedDict[float, list[float]] = SortedDict()
        self._count = 0
        self._peak = 0.0  # the largest weight a row ever had, see `require_learned`

    @property
    def n(self) -> float:
        # `fsum` rounds once, whatever the order; that of the dict is read faster than the sorted one
        return math.fsum([row[0] for row in dict.values(self._rows)]) / self.unit

    @property
    def highest(self) -> float:
        """The largest coordinate held; NaN where nothing is. O(log k)."""
        return float(self._rows.peekitem(-1)[0]) if self._rows else math.nan

    def columns(self) -> Columns:
        """Return the ascending coordinates, their weights and positive weights; shapes (k,). O(k).

        Rows whose weight was rounded to 0 by retractions are left out.
        """
        x = list(self._rows)
        rows = np.array([*map(self._rows.__getitem__, x)], dtype=np.float64).reshape(-1, 3)
        weighted = rows[:, 0] > 0.0
        return np.array(x, dtype=np.float64)[weighted], *self._in_units(rows[weighted, 0], rows[weighted, 1])

    def points(self) -> Columns:
        """Return the ascending coordinates, their negative and positive weights; shapes (k,). O(k)."""
        x, weight, positive = self.columns()
        return x, weight - positive, positive

    def update(self, x: float, y: float, w: float) -> None:
        self._add(x + 0.0, w, w * y, 1)

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        for one in zip(x.tolist(), y.tolist(), w.tolist(), strict=True):
            self.update(*one)

    def require(self, x: Any, y: float, w: float) -> None:
        row = self._rows.get(x, (0.0, 0.0, 0))
        require_learned((row[0], row[1], row[2]), x, y, w, self._peak)

    def unlearn(self, x: Any, y: float, w: float) -> None:
        self.require(x, y, w)
        row = self._rows[x]
        self._count -= 1
        if row[2] == 1:
            del self._rows[x]
            return
        row[:2] = reduced(row[0], row[1], w, w * y)
        row[2] -= 1

    def merge(self, other: Self) -> None:
        for x, (weight, positive, count) in list(other._rows.items()):
            self._add(x, weight, positive, int(count))
        self._peak = max(self._peak, other._peak)

    def decay(self, factor: float) -> None:
        self._peak *= factor
        for row in self._rows.values():
            row[0] *= factor
            row[1] *= factor
        self._drop_below(LIGHTEST)

    def prune(self, fraction: float) -> None:
        """Drop light scores between heavy ones from a table of more than `LARGEST_UNPRUNED` scores.

        A score is light if it weighs less than `fraction` of the average score. Where no heavy score is near, light
        scores decide on the fit: a run of several, or one at an end of the table, is kept.
        """
        if len(self._rows) <= LARGEST_UNPRUNED:
            return
        x, weight = np.array(self._rows.keys()), np.array([row[0] for row in self._rows.values()])
        heavy = weight >= fraction * weight.mean()
        between = np.zeros(len(x), dtype=bool)
        between[1:-1] = heavy[:-2] & ~heavy[1:-1] & heavy[2:]
        for one in x[between].tolist():
            self._count -= int(self._rows.pop(one)[2])

    def empty(self) -> Self:
        return type(self)(self.scale)

    def fields(self) -> dict[str, Field]:
        return {
            "rows": Field(numbers(None, 4), lambda: in_columns([[x, *row] for x, row in self._rows.items()])),
            "peak": Field(number(0.0, HEAVIEST), lambda: self._peak),
        }

    def _load(self, rows: FloatArray, peak: float) -> None:
        x, weight, positive, count = rows.reshape(-1, 4).T
        require_rising(x, "the coordinates")
        self._require_coordinates(x, self.scale)
        self._load_rows(x.tolist(), weight, positive, count, peak)

    def _summed(self) -> tuple[Any, ...]:
        return np.array(list(self._rows)), np.array(list(self._rows.values()))

    def _load_rows(
        self, x: list[Any], weight: FloatArray, positive: FloatArray, count: FloatArray, peak: float
    ) -> None:
        require_weights(weight, positive, peak)
        ensure(((count >= 1.0) & (count == np.floor(count))).all() and count.sum() <= MOST, "a count is not possible")
        sums = zip(weight.tolist(), positive.tolist(), map(int, count.tolist()), strict=True)
        self._rows = SortedDict(zip(x, map(list, sums), strict=True))
        self._count, self._peak = int(count.sum()), peak

    def _drop_below(self, threshold: float) -> None:
        """Drop the rows with less weight."""
        for x in [x for x, row in self._rows.items() if row[0] < threshold]:
            self._count -= int(self._rows.pop(x)[2])

    def _add(self, x: Any, weight: float, positive: float, count: int) -> None:
        row = self._rows.get(x)
        if row is None:
            row = self._rows[x] = [0.0, 0.0, 0]
        row[0] += weight
        row[1] += positive
        row[2] += count
        self._count += count
        if row[0] > self._peak:
            self._peak = row[0]


class GridTable(Statistic):
    """The table over the cells of a grid: fixed memory, update and retraction O(1).

    Step maps are fitted at the centres of the cells, that is, to scores rounded by a fixed rule (`columns`). Smooth
    maps are fitted at the mean coordinate of each label in each cell (`points`), which keeps the linear part of the
    loss exact; the error is of second order in the width of a cell.
    """

    bounded = True
    grid: Grid

    def __init__(self, grid: Grid) -> None:
        self.grid = grid
        self.scale = grid.scale
        #: The sums, which tell those who follow them what has changed; every view of the table shares them.
        self.sums = CellSums(grid.cells, grid.cell)
        # A row per cell: weight, positive weight, count, and the coordinate sums of the negative and of the positive
        # weight; a row is zero where its count is.
        self._cells = self.sums.cells
        # Views of the same memory for single observations: item access takes a fifth of NumPy's time.
        self._flat: Any = memoryview(self._cells.reshape(-1))
        self._borders: Any = memoryview(grid.borders)

    @property
    def n(self) -> float:
        return float(self._cells[:, 0].sum()) / self.unit

    @property
    def count(self) -> int:
        return int(self.sums.count)

    @property
    def _peak(self) -> float:
        return float(self.sums.peak)

    @property
    def highest(self) -> float:
        """The upper end of the highest cell in use; NaN where none is. O(cells)."""
        used = np.flatnonzero(self._cells[:, 2])
        return float(self.grid.borders[used[-1] + 1]) if len(used) else math.nan

    def columns(self) -> Columns:
        """Return the ascending centres of the cells in use, their weights and positive weights. O(cells)."""
        weight, positive = self._cells[:, 0], self._cells[:, 1]
        used = weight.nonzero()[0]  # reads rows in half the time of a mask
        return self.grid.centres.take(used), *self._in_units(weight.take(used), positive.take(used))

    def points(self) -> Columns:
        """Return mean coordinates of one label in one cell, their negative and positive weights. O(cells)."""
        slots, x, w = all_points(self._cells, self.grid.borders)
        order = np.argsort(slots & 1, kind="stable")  # first all negatives
        slots, x, w = slots[order], x[order], w[order]
        is_positive = slots & 1 == 1
        return x, *self._in_units(np.where(is_positive, 0.0, w), np.where(is_positive, w, 0.0))

    def stored_points(self) -> tuple[NDArray[np.intp], FloatArray, FloatArray]:
        """Return the points with their slots, 2·cell + label, ascending, and their stored weights. O(cells)."""
        slots, x, w = all_points(self._cells, self.grid.borders)
        return slots, x, w

    def stored_points_of(self, cell: int) -> tuple[float, float, float, float]:
        """Return mean coordinate and stored weight of the negatives of a cell, and those of its positives."""
        return points_of(self._cells, cell, self._borders[cell], self._borders[cell + 1])

    def update(self, x: float, y: float, w: float) -> None:
        self.sums.add(x, y, w)

    def fast_update(self, lo: float, hi: float) -> Callable[[Any, Any, Any], bool]:
        self.sums.set_fast_range(lo, hi)
        return self.sums.add_fast

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        if len(x) == 0:
            return
        self.sums.note_all()
        self.grid.add(x, y, w, self._cells)
        self.sums.count += len(x)
        self.sums.peak = max(self.sums.peak, float(self._cells[:, 0].max()))

    def require(self, x: float, y: float, w: float) -> None:
        flat, i = self._flat, 5 * self.grid.cell(x)
        require_learned((flat[i], flat[i + 1], flat[i + 2]), x, y, w, self.sums.peak)

    def unlearn(self, x: Any, y: float, w: float) -> None:
        self.require(x, y, w)
        self.sums.remove(self.grid.cell(x), x, y, w)

    def rows(self, x: FloatArray, y: FloatArray, piece: Piece) -> CellRows:
        """Return a piece of a batch in the form that compiled loops learn."""
        leaving = piece.leaving
        cells, leaving_cells = self.grid.cells_of(x), self.grid.cells_of(leaving[0])
        return CellRows(self.sums, cells, x, y, piece.w, leaving_cells, *leaving, piece.room)

    def merge(self, other: Self) -> None:
        self.sums.note_all()
        self._cells += other._cells
        self.sums.count += other.sums.count
        self.sums.peak = max(self.sums.peak, other.sums.peak, float(self._cells[:, 0].max()))

    def decay(self, factor: float) -> None:
        self.sums.scale(factor, LIGHTEST)

    def empty(self) -> Self:
        return type(self)(self.grid)

    def fields(self) -> dict[str, Field]:
        used = cache(lambda: np.flatnonzero(self._cells[:, 2] > 0.0))
        return {
            "used": Field(counts(), used),
            "cells": Field(numbers(None, 5), lambda: self._cells.take(used(), axis=0)),
            "peak": Field(number(0.0, HEAVIEST), lambda: self._peak),
        }

    def _load(self, used: NDArray[np.int64], cells: FloatArray, peak: float) -> None:
        ensure(len(used) == len(cells), "the numbers of cells differ")
        require_rising(used, "the cells")
        ensure(len(used) == 0 or used[-1] < self.grid.cells, f"a cell is beyond {self.grid.cells}")
        weight, positive, count, *coordinates = cells.reshape(-1, 5).T
        require_weights(weight, positive, peak)
        ensure(((count >= 1.0) & (count == np.floor(count))).all() and count.sum() <= MOST, "a count is not possible")
        farthest = max(abs(self.grid.scale.lo), abs(self.grid.scale.hi))
        ensure((np.abs(coordinates) <= (1.0 + ROUNDING) * farthest * peak).all(), "a coordinate is beyond the scale")
        self.sums.note_all()
        self._cells[:] = 0.0
        self._cells[used] = cells
        self.sums.count, self.sums.peak = int(count.sum()), peak

    def _summed(self) -> tuple[Any, ...]:
        return self._cells[:, :3], self._cells[:, 3:]


def score_table(scale: Scale, resolution: int | None) -> ScoreTable | GridTable:
    """Make a score table: exact, or on a grid of `resolution` cells over the scale."""
    return ScoreTable(scale) if resolution is None else GridTable(grid_of(scale, resolution))
