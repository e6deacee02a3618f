"""`CellCalibrator`: the table methods that predict from the cells beside a score."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Unpack, cast

from streamcal.calibrators.table import TableCalibrator, TableParameters
from streamcal.kernels.cells.cell_bins import CellTree
from streamcal.parameters.inputs import check_score
from streamcal.parameters.types import FloatArray, Time
from streamcal.statistics.base import Piece
from streamcal.statistics.score_table import GridTable


class CellCalibrator(TableCalibrator):
    """A method that predicts from the cells beside a score: on a grid one prediction makes no map of all of them.

    `map()` and arrays of scores are served by `solve`. Sums of weights that are not whole may be rounded in another
    order there.
    """

    #: Whether the kernel has a loop.
    streams = True

    def __init__(self, **common: Unpack[TableParameters]) -> None:
        super().__init__(**common)
        table = self._memory.statistic
        #: The kernel that predicts; None where it takes a map.
        self._tree: Any = self._cell_tree(table) if isinstance(table, GridTable) and self.refresh_every == 1 else None
        self.streams = self.streams and self._tree is not None
        #: The prediction at a coordinate, NaN where it takes a map, as where nothing is held.
        self._at = None if self._tree is None else self._tree.at
        self._steady = self._memory.steady

    @abstractmethod
    def _cell_tree(self, table: GridTable) -> CellTree | None:
        """Return the kernel that predicts from the cells of the table, or None if there is none."""

    def predict_one(self, score: float, t: Time | None = None) -> float:
        """Return the probability of a positive label at `score`, as of time `t`; the state does not change."""
        if self._at is None:
            return super().predict_one(score, t)
        if t is None and self._steady and score.__class__ is float and self._lo <= score <= self._hi:
            x = score
        else:
            x = self.scale.coordinate(check_score(score))
            self._present(t)
        value: float = self._at(x)
        return value if value == value else super().predict_one(score, t)

    def _stream(self, x: FloatArray, y: FloatArray, piece: Piece, found: FloatArray) -> None:
        table = cast(GridTable, self._memory.statistic)
        self._tree.run(table.rows(x, y, piece), found[0])
