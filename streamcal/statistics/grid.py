"""`Grid`: fixed cells over a scale. Cells are defined by an array of edges, not by a formula."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.cells.grid_cells import CellFinder
from streamcal.kernels.common.logistic import sigmoids
from streamcal.parameters.numbers import whole_number
from streamcal.parameters.scales import LOGIT_LIMIT, Probability, Scale
from streamcal.parameters.showing import shown, shown_table
from streamcal.parameters.types import FloatArray

#: The most cells of a grid: their table takes 40 MB.
MOST_CELLS = 2**20
#: The most cells of a grid that is kept for the next calibrator, and the number of grids kept: making a grid of 4,096
#: cells takes longer than learning a thousand observations, and each of a million keys may have a calibrator.
KEPT_CELLS, KEPT_GRIDS = 2**16, 8


def grid_of(scale: Scale, cells: int) -> Grid:
    """Return `Grid(scale, cells)`, possibly a shared object: a grid does not change."""
    return _shared(scale, cells) if cells <= KEPT_CELLS else Grid(scale, cells)


def check_resolution(resolution: int | None) -> int | None:
    """Check for None, or a number of cells that a grid can have; `InputError` otherwise."""
    allowed = f"None, or a whole number of cells from 2 to {MOST_CELLS:,}"
    return None if resolution is None else whole_number(resolution, "resolution", 2, MOST_CELLS, allowed)


class Grid:
    """`cells` cells over the coordinate of `scale`; cell i holds edges[i−1] ≤ x < edges[i].

    On the probability scale the edges are equally spaced in log-odds between ±16, for the sake of rare events; on the
    other scales they are equally spaced in the coordinate.

    Attributes
    ----------
    edges : array, shape (cells − 1,)
    centres : array, shape (cells,)
        The representative coordinate of each cell: its midpoint, in log-odds on the probability scale.
    """

    __repr__ = shown
    _repr_html_ = shown_table

    def __init__(self, scale: Scale, cells: int) -> None:
        self.scale = scale
        self.cells = cells
        self.edges = scale.edges(cells)
        #: Both ends of all cells, shape (cells + 1,).
        self.borders: FloatArray = np.concatenate(([scale.lo], self.edges, [scale.hi]))
        if isinstance(scale, Probability):
            step = 2.0 * LOGIT_LIMIT / cells
            self.centres: FloatArray = sigmoids(-LOGIT_LIMIT + step * (np.arange(cells) + 0.5))
        else:
            step = (scale.hi - scale.lo) / cells
            self.centres = scale.lo + step * (np.arange(cells, dtype=np.float64) + 0.5)
        self._finder = CellFinder(self.edges, self.centres, isinstance(scale, Probability))
        #: `round(x)`: the centre of the cell of x.
        self.round: Callable[[float], float] = self._finder.round

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle a grid by its parameters, and so the maps that hold one."""
        return grid_of, (self.scale, self.cells)

    def cell(self, x: float) -> int:
        """Return the cell of a coordinate. O(1)."""
        return self._finder.find(x)

    def cells_of(self, x: FloatArray) -> NDArray[np.intp]:
        """Return the cells of an array of coordinates."""
        return np.asarray(self._finder.find_many(x))

    def add(self, x: FloatArray, y: FloatArray, w: FloatArray, sums: FloatArray) -> None:
        """Add to `sums`, shape (cells, 5): weight, positive weight, count, and the coordinate sums of both labels."""
        self._finder.add(x, y, w, sums)

    def rounds(self, x: FloatArray) -> FloatArray:
        """Return `round` for an array."""
        return self.centres[self.cells_of(x)]

    def take(self, values: FloatArray, x: FloatArray) -> FloatArray:
        """Return the value of each coordinate's cell; `values` has shape (cells,)."""
        return np.asarray(self._finder.take(values, x))


_shared = lru_cache(maxsize=KEPT_GRIDS, typed=True)(Grid)
