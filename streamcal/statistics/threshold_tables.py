"""`ThresholdTables`: a score table for each of K thresholds of a real outcome, as one statistic."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray
from streamcal.statistics.base import Statistic
from streamcal.statistics.score_table import score_table


class ThresholdTables(Statistic):
    """K score tables. An observation (x, y, w): the coordinates x were given to the events "outcome ≤ tⱼ", and y of the
    thresholds t₀ < t₁ < … lie below the outcome; so that table j takes (xⱼ, 1[y ≤ j], w).

    Parameters
    ----------
    size : int
        K.
    scale : Scale
        That of the coordinates.
    resolution : int or None
        Cells of each table; None keeps every distinct coordinate.

    Notes
    -----
    An observation costs K times that of one table.
    """

    def __init__(self, size: int, scale: Scale, resolution: int | None) -> None:
        self.size = size
        self.scale = scale
        self.resolution = resolution
        self.bounded = resolution is not None
        first = score_table(scale, resolution)  # the grid, where there is one, is common to all
        self.tables: list[Any] = [first, *(first.empty() for _ in range(size - 1))]

    @property
    def n(self) -> float:
        return self.tables[0].n

    @property
    def count(self) -> int:
        return self.tables[0].count

    @property
    def drifts(self) -> bool:
        return any(table.drifts for table in self.tables)

    def update(self, x: tuple[float, ...], y: float, w: float) -> None:
        for j, (table, place) in enumerate(zip(self.tables, x, strict=True)):
            table.update(place, 1.0 if y <= j else 0.0, w)

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        for j, (table, places) in enumerate(zip(self.tables, x.T.copy(), strict=True)):
            table.update_many(places, (y <= j).astype(np.float64), w)

    def revert(self, x: tuple[float, ...], y: float, w: float) -> None:
        entries = [
            (table, place, 1.0 if y <= j else 0.0) for j, (table, place) in enumerate(zip(self.tables, x, strict=True))
        ]
        for table, place, label in entries:  # all of them, or none
            table.require(place, label, w)
        for table, place, label in entries:
            table.revert(place, label, w)

    def merge(self, other: Self) -> None:
        for table, twin in zip(self.tables, other.tables, strict=True):
            table.merge(twin)

    def decay(self, factor: float) -> None:
        for table in self.tables:
            table.decay(factor)

    def prune(self, fraction: float) -> None:
        for table in self.tables:
            table.prune(fraction)

    def empty(self) -> Self:
        return type(self)(self.size, self.scale, self.resolution)

    def state(self) -> dict[str, Any]:
        return {"tables": [table.state() for table in self.tables]}

    def restore(self, state: dict[str, Any]) -> None:
        for table, saved in zip(self.tables, state["tables"], strict=True):
            table.restore(saved)
