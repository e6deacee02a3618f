"""`FollowingCalibrator`: the table methods whose fit follows the cells that have changed."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from streamcal.calibrators.additive import AdditiveCalibrator, Table
from streamcal.kernels.cells.cell_sums import CellSums
from streamcal.maps.base import ScaledMap
from streamcal.statistics.score_table import GridTable


class FollowingCalibrator(AdditiveCalibrator[Table]):
    """A method whose kernel keeps sums over the points of its table, and finds the fit from these sums.

    On a grid, if only a few cells have changed since the last solve, the kernel replaces the points of these cells
    and finds the map that `solve` would find. Otherwise, or if the kernel is not sure of the map, `solve` is called and
    the kernel continues from its map.

    The kernel's sums are not saved. Saving drops them, so that a calibrator and its copy continue equally to the last
    bit.
    """

    #: From this many observations on, a step changes the log-odds little enough for following to be useful.
    followed_from: ClassVar[int] = 64
    #: The table that is followed, None before the first solve that can be, and the kernel with its points.
    _followed: CellSums | None = None
    _kernel: Any = None

    @abstractmethod
    def _fitted(self, statistic: GridTable) -> ScaledMap | None:
        """Return the kernel's map of its points, or None if the kernel is not sure of the map."""

    @abstractmethod
    def _anchor(self, statistic: GridTable, solved: ScaledMap) -> bool:
        """Let the kernel continue from a map of `solve`, and hold the points; return False if it cannot."""

    @abstractmethod
    def _replace(self, statistic: GridTable, cell: int) -> None:
        """Replace the points of a cell in the kernel by those it has now."""

    def _scaled(self, factor: float) -> bool:
        """Multiply the weights of all points in the kernel, if it can; return whether it did."""
        return False

    def _map_of(self, statistic: Table) -> ScaledMap:
        followed = self._follow(statistic)
        return self._map_anew(statistic) if followed is None else followed

    def _map_anew(self, statistic: Table) -> ScaledMap:
        """Solve for the map, and let the kernel follow the statistic from this map on."""
        solved = super()._map_of(statistic)
        if self.refresh_every == 1 and isinstance(statistic, GridTable) and statistic.count >= self.followed_from:
            self._followed = statistic.sums if self._anchor(statistic, solved) else None
        return solved

    def _follow(self, statistic: Table) -> ScaledMap | None:
        """Return the map that the kernel finds; None if the kernel follows no statistic, or is not sure."""
        if self._followed is None or not isinstance(statistic, GridTable) or statistic.sums is not self._followed:
            return None
        factor = self._followed.take_factor()
        cells = self._followed.take() if factor == 1.0 or self._scaled(factor) else None
        if cells is None:
            self._followed = None
            return None
        for cell in cells:
            self._replace(statistic, cell)
        return self._fitted(statistic)

    def _forget_solved(self) -> None:
        super()._forget_solved()
        self._followed = None
