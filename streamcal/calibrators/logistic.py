"""`LogisticCalibrator`: the table methods that are a logistic regression of two or three parameters."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, NamedTuple

import numpy as np

from streamcal.calibrators.table import Table, TableCalibrator
from streamcal.kernels.anchored_logistic import AnchoredLogistic
from streamcal.kernels.cell_sums import CellSums
from streamcal.maps.base import ScaledMap
from streamcal.parameters.types import FloatArray
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
        if followed is not None:
            return followed
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
            if self._kernel is None:
                self._kernel = AnchoredLogistic(2 * statistic.grid.cells, *self._form())
            self._kernel.load(slots, *self._feature_columns(x), w)
            self._followed = statistic.sums
            self._followed.take()
        self._kernel.anchor_at(*parameters)

    def _start_state(self) -> Any:
        self._followed = None
        return super()._start_state()


def nothing(x: FloatArray) -> FloatArray:
    """A second feature that is absent."""
    return np.zeros_like(x)
