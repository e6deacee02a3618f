"""`Following`: how a kernel finds the map of a table from the cells that have changed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from streamcal.kernels.cells.cell_sums import CellSums
from streamcal.maps.base import ScaledMap
from streamcal.parameters.types import FloatArray
from streamcal.statistics.base import Piece
from streamcal.statistics.score_table import GridTable


class Following(ABC):
    """A kernel that keeps sums over the points of a table, and finds the map from these sums.

    On a grid, if only a few cells have changed since the last solve, the kernel replaces the points of these cells
    and finds the map that `solve` would find. Otherwise, or if the kernel is not sure of the map, `solve` is called and
    the kernel continues from its map.

    The kernel's sums are not saved. Saving drops them, so that a calibrator and its copy continue equally to the last
    bit.
    """

    #: From this many observations on, a step changes the log-odds little enough for following to be useful.
    first_count: ClassVar[int] = 64
    #: The cells that are followed, None before the first solve that can be, and the kernel with their points.
    followed: CellSums | None = None
    kernel: Any = None
    #: Learns a piece of a batch, and writes the predictions before each row: of those with a compiled loop.
    stream: Callable[[Any, FloatArray, FloatArray, Piece, FloatArray], None]

    @abstractmethod
    def fitted(self, statistic: GridTable) -> ScaledMap | None:
        """Return the kernel's map of its points, or None if the kernel is not sure of the map."""

    @abstractmethod
    def anchor(self, statistic: GridTable, solved: ScaledMap) -> bool:
        """Let the kernel continue from a map of `solve`, and hold the points; return False if it cannot."""

    @abstractmethod
    def replace(self, statistic: GridTable, cell: int) -> None:
        """Replace the points of a cell in the kernel by those it has now."""

    def scaled(self, factor: float) -> bool:
        """Multiply the weights of all points in the kernel, if it can; return whether it did."""
        return False

    def start(self, statistic: GridTable, solved: ScaledMap) -> None:
        """Let the kernel follow the statistic from a map of `solve` on."""
        if statistic.count >= self.first_count:
            self.followed = statistic.sums if self.anchor(statistic, solved) else None

    def map_of(self, statistic: GridTable) -> ScaledMap | None:
        """Return the map that the kernel finds; None if the kernel follows other cells, or is not sure."""
        if self.followed is None or statistic.sums is not self.followed:
            return None
        factor = self.followed.take_factor()
        cells = self.followed.take() if factor == 1.0 or self.scaled(factor) else None
        if cells is None:
            self.followed = None
            return None
        for cell in cells:
            self.replace(statistic, cell)
        return self.fitted(statistic)

    def forget(self) -> None:
        """Follow nothing until the next solve."""
        self.followed = None
