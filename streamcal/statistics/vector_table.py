"""`VectorTable`: weight, positive weight and number of observations of each distinct tuple of scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from streamcal.parameters.numbers import whole_number
from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray
from streamcal.states import Field, ensure, listed, number, numbers, row, whole
from streamcal.statistics.grid import Grid, grid_of
from streamcal.statistics.score_table import Columns, ScoreTable

#: Cells for each score of the finest and of the coarsest of the nested grids.
FINEST, COARSEST = 4096, 2
#: The number of cells of the coarsest grid of six scores: a lower limit might be exceeded.
SMALLEST_LIMIT = 64


class VectorTable(ScoreTable):
    """A `ScoreTable` whose coordinates are tuples of M numbers, in lexicographic order.

    With grids, one for each score, coordinates are rounded to the centres of their cells, and memory is bounded by the
    number of cells. With a limit, which needs bounded scales and no grids, every tuple is kept until there are more
    distinct ones than that; then they are rounded to the finest of nested grids (4,096, 2,048, … cells for each score)
    of which no more cells are in use. Which grid that is depends on what has been added, not on its order, and it stays
    until nothing is held. Update and retraction cost O(M log k) for k distinct tuples.

    Examples
    --------
    >>> table = VectorTable(2)
    >>> table.update((0.3, 0.1), 1.0, 1.0); table.update((0.3, 0.1), 0.0, 1.0); table.update((0.1, 0.9), 0.0, 2.0)
    >>> [column.tolist() for column in table.columns()]
    [[[0.1, 0.9], [0.3, 0.1]], [2.0, 2.0], [0.0, 1.0]]
    """

    def __init__(
        self,
        width: int,
        grids: tuple[Grid, ...] | None = None,
        scales: tuple[Scale, ...] | None = None,
        limit: int | None = None,
    ) -> None:
        super().__init__()
        self.scales = scales
        self.width = width
        self.grids = grids
        self.limit = limit
        self.bounded = grids is not None or limit is not None
        self._finest = None if limit is None or scales is None else tuple(grid_of(scale, FINEST) for scale in scales)
        #: Cells for each score to which tuples have been rounded because of the limit; 0 before.
        self.cells = 0
        self._centres: list[FloatArray] = []

    def columns(self) -> Columns:
        """Return coordinates, shape (k, M), their weights and positive weights, shapes (k,). O(k M)."""
        x, weight, positive = super().columns()
        return x.reshape(-1, self.width), weight, positive

    def stored(self, x: Any) -> tuple[float, ...]:
        """Return the tuple under which a coordinate is stored."""
        if self.cells and self._finest is not None:
            share, each = FINEST // self.cells, zip(self._centres, self._finest, x, strict=True)
            return tuple([float(centres[grid.cell(score) // share]) for centres, grid, score in each])
        if self.grids is None:
            return tuple([score + 0.0 for score in x])  # −0 is 0
        return tuple([grid.round(score) for grid, score in zip(self.grids, x, strict=True)])

    def stored_many(self, x: FloatArray) -> FloatArray:
        """Return `stored` for an array of shape (n, M)."""
        if self.cells and self._finest is not None:
            share, each = FINEST // self.cells, zip(self._centres, self._finest, x.T, strict=True)
            return np.column_stack([c[grid.cells_of(np.ascontiguousarray(s)) // share] for c, grid, s in each])
        if self.grids is None:
            return x + 0.0
        columns = [np.ascontiguousarray(column) for column in x.T]
        return np.column_stack([grid.rounds(column) for grid, column in zip(self.grids, columns, strict=True)])

    def update(self, x: Any, y: float, w: float) -> None:
        self._add(self.stored(x), w, w * y, 1)
        self._keep_limit()

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        if len(x) == 0:
            return
        tuples, place = distinct_rows(self.stored_many(x))
        sums = (np.bincount(place, w), np.bincount(place, w * y), np.bincount(place))
        for stored, *added in zip(map(tuple, tuples.tolist()), *(one.tolist() for one in sums), strict=True):
            self._add(stored, *added)
        self._keep_limit()

    def require(self, x: Any, y: float, w: float) -> None:
        super().require(self.stored(x), y, w)

    def unlearn(self, x: Any, y: float, w: float) -> None:
        super().unlearn(self.stored(x), y, w)
        if self._count == 0:
            self._round_to(0)

    def merge(self, other: Self) -> None:
        self.round_as(other)
        for x, (weight, positive, count) in list(other._rows.items()):
            self._add(self.stored(x), weight, positive, int(count))
        self._peak = max(self._peak, other._peak)
        self._keep_limit()

    def add_projection(self, other: VectorTable, columns: Sequence[int]) -> None:
        """Add the rows of a table of more scores, of which those at `columns` are those of this one."""
        self.round_as(other)
        for x, (weight, positive, count) in other._rows.items():
            projected: Any = x
            self._add(self.stored([projected[column] for column in columns]), weight, positive, int(count))
        self._peak = max(self._peak, other._peak)
        self._keep_limit()

    # -- the limit -----------------------------------------------------------------------------------------------

    def round_as(self, other: VectorTable) -> None:
        """Round tuples to the grid to which those of another table have been rounded, if that is coarser."""
        if other.cells and (not self.cells or other.cells < self.cells):
            self._round_to(other.cells)

    def _keep_limit(self) -> None:
        """Round to coarser grids until no more tuples than the limit are distinct."""
        while self.limit is not None and len(self._rows) > self.limit and self.cells != COARSEST:
            self._round_to(self.cells // 2 if self.cells else FINEST)

    def _round_to(self, cells: int) -> None:
        """Keep tuples rounded to this number of cells for each score; with 0, for which none may be kept, as given."""
        rows = list(self._rows.items())
        self.cells = cells
        self._centres = [grid_of(scale, cells).centres for scale in self.scales or ()] if cells else []
        self._rows.clear()
        self._count = 0
        for x, (weight, positive, count) in rows:
            self._add(self.stored(x), weight, positive, int(count))

    def empty(self) -> Self:
        return type(self)(self.width, self.grids, self.scales, self.limit)

    def fields(self) -> dict[str, Field]:
        fields = super().fields()
        rows = listed(row(numbers(self.width), number(), number(), number()))
        cells = whole(COARSEST, FINEST if self.limit is not None else 0)
        return {
            **fields,
            "rows": Field(rows, fields["rows"].write),
            "cells": Field(cells, lambda: self.cells or None, optional=True),
        }

    def _load(self, rows: Any, peak: float, cells: int | None = None) -> None:
        ensure(cells is None or FINEST % cells == 0, "this number of cells is not one of the nested grids")
        x = np.array([one[0] for one in rows]).reshape(-1, self.width)
        ensure((np.lexsort(x.T[::-1]) == np.arange(len(x))).all(), "the coordinates are in no order")
        ensure((x[1:] != x[:-1]).any(axis=1).all(), "a coordinate occurs twice")
        require_tuples(x, self.scales, self.width)
        weight, positive, count = np.array([one[1:] for one in rows]).reshape(-1, 3).T
        self._load_rows(list(map(tuple, x.tolist())), weight, positive, count, peak)
        if cells is not None or self.cells:
            self._round_to(cells or 0)
            self._peak = peak

    def require_possible(self, x: Any, y: FloatArray) -> None:
        require_tuples(x, self.scales, self.width)
        ensure(((y == 0.0) | (y == 1.0)).all(), "a label is neither 0 nor 1")


def require_tuples(x: Any, scales: tuple[Scale, ...] | None, width: int) -> None:
    """Raise `StateError` unless this is an array of coordinates on the scales, shape (n, width)."""
    ensure(isinstance(x, np.ndarray) and x.dtype == np.float64 and x.ndim == 2, "coordinates are no tuples of numbers")
    ensure(x.shape[1] == width, f"coordinates have {x.shape[1]} numbers and not {width}")
    for scale, own in zip(scales or (), x.T, strict=False):
        ensure(((own >= scale.lo) & (own <= scale.hi)).all(), "a coordinate is beyond the scale")


def distinct_rows(x: FloatArray) -> tuple[FloatArray, NDArray[np.intp]]:
    """Return the distinct rows of an array in lexicographic order, and the place of each row among them.

    Equivalent to `np.unique(x, axis=0, return_inverse=True)`, and faster.
    """
    rank = np.lexsort(x.T[::-1])
    ordered = x[rank]
    new = np.ones(len(x), dtype=bool)
    new[1:] = np.any(ordered[1:] != ordered[:-1], axis=1)
    place = np.empty(len(x), dtype=np.intp)
    place[rank] = np.cumsum(new) - 1
    return ordered[new], place


def vector_table(scales: tuple[Scale, ...], resolution: int | None, limit: int | None = None) -> VectorTable:
    """Make a table of tuples on grids of `resolution` cells over each scale; exact with None, up to `limit` tuples.

    There is no limit if a scale is unbounded, which no grid covers.
    """
    if resolution is not None:
        return VectorTable(len(scales), tuple(grid_of(scale, resolution) for scale in scales), scales)
    bounded = all(math.isfinite(scale.lo) and math.isfinite(scale.hi) for scale in scales)
    return VectorTable(len(scales), None, scales, limit if bounded else None)


def check_limit(limit: int | None) -> int | None:
    """Check a limit of distinct tuples; `InputError` otherwise."""
    allowed = f"None, or a whole number of at least {SMALLEST_LIMIT}"
    return None if limit is None else whole_number(limit, "limit", SMALLEST_LIMIT, allowed=allowed)
