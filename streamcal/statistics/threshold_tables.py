"""`ThresholdTables`: one score table per threshold of a real-valued outcome, as a single statistic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray
from streamcal.statistics.grid import Grid
from streamcal.statistics.keyed import Column, Entry, Keyed
from streamcal.statistics.score_table import GridTable, ScoreTable


class ThresholdTables(Keyed[ScoreTable | GridTable]):
    """K score tables, table j for the event "outcome ≤ tⱼ" of the thresholds t₀ < t₁ < ….

    In an observation (x, y, w), xⱼ is the coordinate of the forecast for event j, and y the number of thresholds below
    the outcome; table j is updated with (xⱼ, 1[y ≤ j], w).

    Parameters
    ----------
    size : int
        The number K of thresholds.
    scale : Scale
        The scale of the coordinates.
    resolution : int or None
        Number of cells of each table; None keeps every distinct coordinate.

    Notes
    -----
    Every operation costs K times that of one table.
    """

    def __init__(self, size: int, scale: Scale, resolution: int | None) -> None:
        self.size = size
        self.scale = scale
        self.resolution = resolution
        grid = None if resolution is None else Grid(scale, resolution)  # common to all
        super().__init__(ScoreTable if grid is None else lambda: GridTable(grid), range(size))
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

    def state(self) -> dict[str, Any]:
        return {"tables": [table.state() for table in self._parts.values()]}

    def restore(self, state: dict[str, Any]) -> None:
        for table, saved in zip(self._parts.values(), state["tables"], strict=True):
            table.restore(saved)
