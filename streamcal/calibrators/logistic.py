"""`LogisticForm` and `LogisticFollowing`: logistic regressions of two or three parameters that follow their table."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np

from streamcal.calibrators.additive import AdditiveCalibrator, Table
from streamcal.calibrators.following import Following
from streamcal.kernels.newton.anchored_logistic import AnchoredLogistic
from streamcal.kernels.newton.anchored_stream import AnchoredStream
from streamcal.learners.additive import Additive
from streamcal.maps.base import ScaledMap
from streamcal.maps.sigmoids import BetaMap, SigmoidMap
from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray
from streamcal.statistics.base import Piece
from streamcal.statistics.score_table import GridTable


class LogisticForm(ABC):
    """Which log-odds A·u + B·v + C are fitted, with the features u and v of a coordinate.

    This is a line in the coordinate, u = x and B = 0, unless a subclass has other features.
    """

    #: As `AnchoredLogistic` reads them: whether there is a v, whether C is free, whether labels have targets,
    #: and the ridge on the difference of (A, B, C) from the identity, relative to the total weight.
    two: bool = False
    constant: bool = True
    targets: bool = False
    ridge: float = 0.0
    #: Whether the map is one of ln s and ln(1 − s) of the score, and what is added to both in the features.
    curved: bool = False
    shift: float = 0.0

    def __init__(self, scale: Scale) -> None:
        self.scale = scale

    def features(self, x: float) -> tuple[float, float]:
        """Return the features u and v at a coordinate; v is 0 in a form with one feature."""
        return x, 0.0

    def feature_columns(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the features u and v of an array of coordinates."""
        return x, np.zeros_like(x)

    def targets_of(self, negative: float, positive: float) -> tuple[float, float]:
        """Return the targets of positive and negative labels, given their weights in units of the present."""
        return 1.0, 0.0

    @abstractmethod
    def map_with(self, a: float, b: float, c: float) -> ScaledMap:
        """Return the map with these parameters."""

    @abstractmethod
    def parameters_of(self, solved: ScaledMap) -> tuple[float, float, float] | None:
        """Return A, B and C of a map found by `solve`; None for other maps."""


class LogisticFollowing(Following):
    """A logistic regression that follows its table.

    The kernel keeps sums at an anchor (`kernels/newton/anchored_logistic.py`). Where the map has moved too far from the
    anchor, as after each label under a short half-life, the kernel finds the map by passes over the latest points
    (`kernels/newton/recent_logistic.py`). Both certify the map to be that of `solve` to 1e-10 in every log-odds, beside
    the rounding of the sums. If the kernel cannot certify a map, as with separated labels, `solve` finds the map.
    """

    first_count: ClassVar[int] = 8  # the kernel has passes over the points too

    def __init__(self, form: LogisticForm, table: GridTable) -> None:
        self._form = form
        self._loop: Any = AnchoredStream(table.sums, table.grid.borders, form.curved, form.shift)

    @classmethod
    def of(cls, calibrator: AdditiveCalibrator[Table], form: LogisticForm) -> LogisticFollowing | None:
        """Return what follows the table of a calibrator; None where it cannot be followed."""
        table = calibrator._grid_table()
        return None if table is None else cls(form, table)

    def fitted(self, statistic: GridTable) -> ScaledMap | None:
        negative, positive = self.kernel.weights()
        if not self.kernel.fit(*self._form.targets_of(negative / statistic.unit, positive / statistic.unit)):
            return None
        return self._form.map_with(*self.kernel.parameters())

    def anchor(self, statistic: GridTable, solved: ScaledMap) -> bool:
        parameters = self._form.parameters_of(solved)
        if parameters is None:
            return False
        if self.followed is not statistic.sums:
            slots, x, w = statistic.stored_points()
            self._made_kernel(statistic).load(slots, *self._form.feature_columns(x), w)
            statistic.sums.take()
        self.kernel.anchor_at(*parameters)
        return True

    def replace(self, statistic: GridTable, cell: int) -> None:
        negative_x, negative, positive_x, positive = statistic.stored_points_of(cell)
        features = self._form.features
        u, v = features(negative_x) if negative > 0.0 else (0.0, 0.0)
        self.kernel.replace(2 * cell, u, v, negative)
        u, v = features(positive_x) if positive > 0.0 else (0.0, 0.0)
        self.kernel.replace(2 * cell + 1, u, v, positive)

    def scaled(self, factor: float) -> bool:
        self.kernel.scale(factor)
        return True

    def stream(
        self, calibrator: AdditiveCalibrator[Table], x: FloatArray, y: FloatArray, piece: Piece, predictions: FloatArray
    ) -> None:
        """Learn a piece of a batch, and write the predictions before each row.

        For forms that are a line in the coordinate, or curved in log-odds that are the coordinate.
        """
        table, loop, row = calibrator._engine.memory.statistic, self._loop, 0
        assert isinstance(table, GridTable)
        kernel, rows = self._made_kernel(table), table.rows(x, y, piece)
        engine = calibrator._engine
        first = engine.solving_for(calibrator, table.present(float(piece.unit[0])))
        self._load_loop(engine.solved, engine.solved_for == first)
        while (row := loop.run(kernel, rows, piece.unit, row, predictions[0])) < len(x):  # there no fit was certified
            self._take_from_loop(engine)
            engine.solved = engine.start = calibrator._map_anew(table.present(float(piece.unit[row])))
            self._load_loop(engine.solved, True)
        self._take_from_loop(engine)
        unit = 1.0 if calibrator.by_ratios else float(piece.unit[-1])
        engine.solved_for = (engine.memory.version + 1, unit) if loop.solved else None

    def _made_kernel(self, statistic: GridTable) -> AnchoredLogistic:
        if self.kernel is None:
            form = self._form
            self.kernel = AnchoredLogistic(2 * statistic.grid.cells, form.two, form.constant, form.targets, form.ridge)
        return self.kernel

    def _load_loop(self, last: ScaledMap | None, solved: bool) -> None:
        """Set the loop to continue from the last map; `solved` states whether it is the present one."""
        loop = self._loop
        loop.slope, loop.second, loop.offset = _parameters(last)
        loop.solved, loop.fitted, loop.following = solved, False, self.followed is not None

    def _take_from_loop(self, engine: Additive[GridTable, ScaledMap]) -> None:
        if self._loop.fitted:
            loop = self._loop
            engine.solved = engine.start = self._form.map_with(loop.slope, loop.second, loop.offset)
        if not self._loop.following:
            self.followed = None


def _parameters(last: ScaledMap | None) -> tuple[float, float, float]:
    """Return the three parameters of a map as the loop reads them; NaN of a map of another kind."""
    if isinstance(last, SigmoidMap):
        return last.slope, 0.0, last.offset
    return (last.a, last.b, last.c) if isinstance(last, BetaMap) else (math.nan, math.nan, math.nan)
