"""`Totals`: how much was learned, and how much of it was positive."""

from __future__ import annotations

from typing import Any, Self

from streamcal.base import FloatArray, Statistic
from streamcal.statistics.held import require_held


class Totals(Statistic):
    """Total weight, positive weight and number of observations. O(1) in time and memory."""

    bounded = True

    def __init__(self) -> None:
        self.weight = 0.0
        self.positive = 0.0
        self._count = 0
        self._peak = 0.0

    @property
    def n(self) -> float:
        return self.weight

    @property
    def count(self) -> int:
        return self._count

    def update(self, x: float, y: float, w: float) -> None:
        self.weight += w
        self.positive += w * y
        self._count += 1
        self._peak = max(self._peak, self.weight)

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        self.weight += float(w.sum())
        self.positive += float((w * y).sum())
        self._count += len(w)
        self._peak = max(self._peak, self.weight)

    def revert(self, x: float, y: float, w: float) -> None:
        require_held((self.weight, self.positive, self._count), x, y, w, self._peak)
        self._count -= 1
        self.weight = max(self.weight - w, 0.0) if self._count else 0.0
        self.positive = max(self.positive - w * y, 0.0) if self._count else 0.0

    def merge(self, other: Self) -> None:
        self.weight += other.weight
        self.positive += other.positive
        self._count += other._count
        self._peak = max(self._peak, other._peak, self.weight)

    def decay(self, factor: float) -> None:
        self.weight *= factor
        self.positive *= factor
        self._peak *= factor

    def empty(self) -> Self:
        return type(self)()

    def state(self) -> dict[str, Any]:
        return {"weight": self.weight, "positive": self.positive, "count": self._count, "peak": self._peak}

    def restore(self, state: dict[str, Any]) -> None:
        self.weight, self.positive = float(state["weight"]), float(state["positive"])
        self._count, self._peak = int(state["count"]), float(state["peak"])
