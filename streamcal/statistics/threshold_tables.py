"""`ThresholdTables`: one score table per threshold of a real-valued outcome, as a single statistic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray
from streamcal.states import ROUNDING, ensure
from streamcal.statistics.grid import grid_of
from streamcal.statistics.keyed import Column, Entry, Keyed
from streamcal.statistics.score_table import GridTable, ScoreTable
from streamcal.statistics.vector_table import require_tuples


class ThresholdTables(Keyed[ScoreTable | GridTable]):
    """K score tables, table j for the event "outcome ≤ tⱼ" of the thresholds t₀ < t₁ < ….

    In an observation (x, y, w), xⱼ is the coordinate of the forecast for event j, and y the number of thresholds below
    the outcome; table j is updated with (xⱼ, 1[y ≤ j], w). Every operation costs K times that of one table.
    """

    saved_as = "tables"
    scale: Scale

    def __init__(self, size: int, scale: Scale, resolution: int | None) -> None:
        self.size = size
        self.scale = scale
        self.resolution = resolution
        grid = None if resolution is None else grid_of(scale, resolution)  # common to all
        super().__init__((lambda: ScoreTable(scale)) if grid is None else lambda: GridTable(grid), range(size))
        self.bounded = resolution is not None

    @property
    def n(self) -> float:
        return self._parts[0].n / self.unit

    @property
    def count(self) -> int:
        return self._parts[0].count

    def entries(self, x: tuple[float, ...], y: float) -> list[Entry]:
        return [(j, place, 1.0 if y <= j else 0.0) for j, place in zip(range(self.size), x, strict=True)]

    def columns(self, x: FloatArray, y: FloatArray) -> Iterator[Column]:
        for j, places in zip(range(self.size), x.T.copy(), strict=True):
            yield j, slice(None), places, (y <= j).astype(np.float64)

    def empty(self) -> Self:
        return type(self)(self.size, self.scale, self.resolution)

    def _require_together(self, parts: list[ScoreTable | GridTable]) -> None:
        ensure(len({part.count for part in parts}) <= 1, "the tables hold different numbers of observations")
        slack = ROUNDING * max(part._peak for part in parts)
        ensure(all(abs(part.n - parts[0].n) <= slack for part in parts), "the tables hold different weights")

    def require_possible(self, x: Any, y: FloatArray) -> None:
        require_tuples(x, (self.scale,) * self.size, self.size)
        ensure(
            ((y >= 0.0) & (y <= self.size) & (y == np.floor(y))).all(), "an outcome is no place among the thresholds"
        )
