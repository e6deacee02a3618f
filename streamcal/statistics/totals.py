"""`Totals`: how much was learned, and how much of it was positive."""

from __future__ import annotations

from typing import Any, Self

from streamcal.base import FloatArray, RetractionError, Statistic


class Totals(Statistic):
    """Total weight, positive weight and number of observations. O(1) in time and memory."""

    bounded = True

    def __init__(self) -> None:
        self.weight = 0.0
        self.positive = 0.0
        self.count = 0

    @property
    def n(self) -> float:
        return self.weight

    def update(self, x: float, y: float, w: float) -> None:
        self.weight += w
        self.positive += w * y
        self.count += 1

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        self.weight += float(w.sum())
        self.positive += float((w * y).sum())
        self.count += len(w)

    def revert(self, x: float, y: float, w: float) -> None:
        if self.count == 0:
            raise RetractionError("nothing is held, so nothing can be unlearned")
        self.count -= 1
        self.weight = max(self.weight - w, 0.0) if self.count else 0.0
        self.positive = max(self.positive - w * y, 0.0) if self.count else 0.0

    def merge(self, other: Self) -> None:
        self.weight += other.weight
        self.positive += other.positive
        self.count += other.count

    def decay(self, factor: float) -> None:
        self.weight *= factor
        self.positive *= factor

    def empty(self) -> Self:
        return type(self)()

    def state(self) -> dict[str, Any]:
        return {"weight": self.weight, "positive": self.positive, "count": self.count}

    def restore(self, state: dict[str, Any]) -> None:
        self.weight, self.positive = float(state["weight"]), float(state["positive"])
        self.count = int(state["count"])
