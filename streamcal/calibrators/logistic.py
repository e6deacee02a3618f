"""`LogisticCalibrator`: the table methods that are a logistic regression of two or three parameters."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple, Unpack, cast

import numpy as np

from streamcal.calibrators.table import Table, TableCalibrator, TableParameters
from streamcal.kernels.anchored_logistic import AnchoredLogistic
from streamcal.kernels.anchored_stream import AnchoredStream
from streamcal.kernels.cell_sums import CellSums
from streamcal.maps.base import ScaledMap
from streamcal.maps.sigmoids import SigmoidMap
from streamcal.parameters.types import FloatArray
from streamcal.statistics.base import Piece
from streamcal.statistics.score_table import GridTable

#: From this many observations on a step changes the log-odds little enough for the sums at an anchor to be of use.
FOLLOWED_FROM = 64


class Form(NamedTuple):
    """Which log-odds A·u + B·v + C are fitted, as `AnchoredLogistic` reads it."""

    two: bool
    constant: bool
    targets: bool
    ridge: float


class LogisticCalibrator(TableCalibrator):
    """A logistic regression that follows its table.

    On a grid, where only a few cells have changed since the last solve, the map is found from sums that are kept beside
    the table (`kernels/anchored_logistic.py`), and is certified to be that of `solve` to 1e-10 in every log-odds.
    Otherwise, and where it cannot be certified, as with separated labels, `solve` is called, and sums are made anew.

    The sums are not saved: saving drops them, so that a calibrator and its copy go on alike to the last bit.
    """

    #: The table that is followed, None before the first solve that can be, and the sums at the anchor.
    _followed: CellSums | None = None
    _kernel: Any = None
    #: Whether the log-odds are a line in the coordinate.
    of_coordinate: ClassVar[bool] = False

    def __init__(self, **common: Unpack[TableParameters]) -> None:
        super().__init__(**common)
        table = self._memory.statistic
        self.streams = self.of_coordinate and isinstance(table, GridTable)
        self._loop: Any = AnchoredStream(table.sums, table.grid.borders) if isinstance(table, GridTable) else None

    @abstractmethod
    def _form(self) -> Form:
        """What is fitted."""

    @abstractmethod
    def _features(self, x: float) -> tuple[float, float]:
        """u and v at a coordinate; v is 0 where there is one feature."""

    @abstractmethod
    def _feature_columns(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """`_features` for an array."""

    @abstractmethod
    def _map_with(self, a: float, b: float, c: float) -> ScaledMap:
        """The map of these parameters."""

    @abstractmethod
    def _parameters_of(self, solved: ScaledMap) -> tuple[float, float, float] | None:
        """A, B and C of a map of `solve`; None for other maps."""

    def _targets(self, negative: float, positive: float) -> tuple[float, float]:
        """What positive and negative labels stand for, given their weights in units of the present."""
        return 1.0, 0.0

    def _map_of(self, statistic: Table) -> ScaledMap:
        followed = self._follow(statistic)
        return self._map_anew(statistic) if followed is None else followed

    def _map_anew(self, statistic: Table) -> ScaledMap:
        """The map that `solve` finds, and from now on the sums at it."""
        solved = super()._map_of(statistic)
        if self.refresh_every == 1 and isinstance(statistic, GridTable) and statistic.count >= FOLLOWED_FROM:
            self._anchor(statistic, self._parameters_of(solved))
        return solved

    def _follow(self, statistic: Table) -> ScaledMap | None:
        """The map, from the sums at the anchor; None where there are none, or they do not determine it."""
        if self._followed is None or not isinstance(statistic, GridTable) or statistic.sums is not self._followed:
            return None
        cells = self._followed.take()
        if cells is None:
            self._followed = None
            return None
        for cell in cells:
            self._replace(statistic, cell)
        kernel = self._kernel
        negative, positive = kernel.weights()
        if not kernel.fit(*self._targets(negative / statistic.unit, positive / statistic.unit)):
            return None
        return self._map_with(*kernel.parameters())

    def _replace(self, statistic: GridTable, cell: int) -> None:
        """Replace the points of a cell by those it has now."""
        negative_x, negative, positive_x, positive = statistic.stored_points_of(cell)
        u, v = self._features(negative_x) if negative > 0.0 else (0.0, 0.0)
        self._kernel.replace(2 * cell, u, v, negative)
        u, v = self._features(positive_x) if positive > 0.0 else (0.0, 0.0)
        self._kernel.replace(2 * cell + 1, u, v, positive)

    def _anchor(self, statistic: GridTable, parameters: tuple[float, float, float] | None) -> None:
        """Make the sums at these parameters."""
        if parameters is None:
            self._followed = None
            return
        if self._followed is not statistic.sums:
            slots, x, w = statistic.stored_points()
            self._made_kernel(statistic).load(slots, *self._feature_columns(x), w)
            self._followed = statistic.sums
            self._followed.take()
        self._kernel.anchor_at(*parameters)

    def _made_kernel(self, statistic: GridTable) -> AnchoredLogistic:
        if self._kernel is None:
            self._kernel = AnchoredLogistic(2 * statistic.grid.cells, *self._form())
        return self._kernel

    def _stream(self, x: FloatArray, y: FloatArray, piece: Piece, found: FloatArray) -> None:
        table, loop, row = cast(GridTable, self._memory.statistic), self._loop, 0
        kernel, rows = self._made_kernel(table), table.rows(x, y, piece)
        self._load_loop(table, self._solved_for == self._solving_for(table.present(float(piece.unit[0]))))
        while (row := loop.run(kernel, rows, piece.unit, row, found[0])) < len(x):  # there no fit was certified
            self._take_from_loop()
            self._solved = self._map_anew(table.present(float(piece.unit[row])))
            self._load_loop(table, True)
        self._take_from_loop()
        unit = 1.0 if self.by_ratios else float(piece.unit[-1])
        self._solved_for = (self._memory.version + 1, unit) if loop.solved else None

    def _load_loop(self, table: GridTable, solved: bool) -> None:
        """Have the loop go on from the last map; `solved` says whether it is the present one."""
        loop, last = self._loop, self._solved
        loop.slope, loop.offset = (last.slope, last.offset) if isinstance(last, SigmoidMap) else (math.nan, math.nan)
        loop.solved, loop.fitted, loop.following = solved, False, self._followed is table.sums

    def _take_from_loop(self) -> None:
        """Take over where the loop has got to."""
        if self._loop.fitted:
            self._solved = self._map_with(self._loop.slope, 0.0, self._loop.offset)
        if not self._loop.following:
            self._followed = None

    def _start_state(self) -> Any:
        self._followed = None
        return super()._start_state()


def nothing(x: FloatArray) -> FloatArray:
    """A second feature that is absent."""
    return np.zeros_like(x)
