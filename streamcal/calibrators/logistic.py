"""`LogisticCalibrator`: the table methods that are a logistic regression of two or three parameters."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar, NamedTuple, Unpack, cast

import numpy as np

from streamcal.calibrators.additive import Common
from streamcal.calibrators.following import FollowingCalibrator
from streamcal.kernels.newton.anchored_logistic import AnchoredLogistic
from streamcal.kernels.newton.anchored_stream import AnchoredStream
from streamcal.maps.base import ScaledMap
from streamcal.maps.sigmoids import SigmoidMap
from streamcal.parameters.types import FloatArray
from streamcal.statistics.base import Piece
from streamcal.statistics.score_table import GridTable


class Form(NamedTuple):
    """Which log-odds A·u + B·v + C are fitted, as `AnchoredLogistic` reads it."""

    two: bool
    constant: bool
    targets: bool
    ridge: float


class LogisticCalibrator(FollowingCalibrator):
    """A logistic regression that follows its table.

    The kernel keeps sums at an anchor (`kernels/newton/anchored_logistic.py`). Where the map has moved too far from the
    anchor, as after each label under a short half-life, the kernel finds the map by passes over the latest points
    (`kernels/newton/recent_logistic.py`). Both certify the map to be that of `solve` to 1e-10 in every log-odds, beside
    the rounding of the sums. If the kernel cannot certify a map, as with separated labels, `solve` finds the map.
    """

    #: Whether the log-odds are a line in the coordinate.
    of_coordinate: ClassVar[bool] = False
    followed_from = 8  # the kernel has passes over the points too

    def __init__(self, **common: Unpack[Common]) -> None:
        super().__init__(**common)
        table = self._memory.statistic
        self.streams = self.of_coordinate and isinstance(table, GridTable)
        self._loop: Any = AnchoredStream(table.sums, table.grid.borders) if isinstance(table, GridTable) else None

    @abstractmethod
    def _form(self) -> Form:
        """Return the form that is fitted."""

    @abstractmethod
    def _features(self, x: float) -> tuple[float, float]:
        """Return the features u and v at a coordinate; v is 0 in a form with one feature."""

    @abstractmethod
    def _feature_columns(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the features u and v of an array of coordinates."""

    @abstractmethod
    def _map_with(self, a: float, b: float, c: float) -> ScaledMap:
        """Return the map with these parameters."""

    @abstractmethod
    def _parameters_of(self, solved: ScaledMap) -> tuple[float, float, float] | None:
        """Return A, B and C of a map found by `solve`; None for other maps."""

    def _targets(self, negative: float, positive: float) -> tuple[float, float]:
        """Return the targets of positive and negative labels, given their weights in units of the present."""
        return 1.0, 0.0

    def _fitted(self, statistic: GridTable) -> ScaledMap | None:
        kernel = self._kernel
        negative, positive = kernel.weights()
        if not kernel.fit(*self._targets(negative / statistic.unit, positive / statistic.unit)):
            return None
        return self._map_with(*kernel.parameters())

    def _replace(self, statistic: GridTable, cell: int) -> None:
        negative_x, negative, positive_x, positive = statistic.stored_points_of(cell)
        u, v = self._features(negative_x) if negative > 0.0 else (0.0, 0.0)
        self._kernel.replace(2 * cell, u, v, negative)
        u, v = self._features(positive_x) if positive > 0.0 else (0.0, 0.0)
        self._kernel.replace(2 * cell + 1, u, v, positive)

    def _scaled(self, factor: float) -> bool:
        self._kernel.scale(factor)
        return True

    def _anchor(self, statistic: GridTable, solved: ScaledMap) -> bool:
        parameters = self._parameters_of(solved)
        if parameters is None:
            return False
        if self._followed is not statistic.sums:
            slots, x, w = statistic.stored_points()
            self._made_kernel(statistic).load(slots, *self._feature_columns(x), w)
            statistic.sums.take()
        self._kernel.anchor_at(*parameters)
        return True

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
            self._solved = self._start = self._map_anew(table.present(float(piece.unit[row])))
            self._load_loop(table, True)
        self._take_from_loop()
        unit = 1.0 if self.by_ratios else float(piece.unit[-1])
        self._solved_for = (self._memory.version + 1, unit) if loop.solved else None

    def _load_loop(self, table: GridTable, solved: bool) -> None:
        """Set the loop to continue from the last map; `solved` states whether it is the present one."""
        loop, last = self._loop, self._solved
        loop.slope, loop.offset = (last.slope, last.offset) if isinstance(last, SigmoidMap) else (math.nan, math.nan)
        loop.solved, loop.fitted, loop.following = solved, False, self._followed is table.sums

    def _take_from_loop(self) -> None:
        """Take over where the loop has got to."""
        if self._loop.fitted:
            self._solved = self._start = self._map_with(self._loop.slope, 0.0, self._loop.offset)
        if not self._loop.following:
            self._followed = None


def nothing(x: FloatArray) -> FloatArray:
    """Return zeros: the second feature of a form with only one."""
    return np.zeros_like(x)
