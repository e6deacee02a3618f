"""`Categories`: the PITs of each category of observations, as a single statistic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np

from streamcal.parameters.types import FloatArray
from streamcal.statistics.keyed import Column, Entry, Keyed
from streamcal.statistics.pits import PITs


class Categories(Keyed[PITs]):
    """A `PITs` for each category. The coordinate of an observation is (category, PIT), a whole number first.

    Parameters
    ----------
    make : callable
        Returns an empty part.

    Notes
    -----
    Every operation costs what it costs in one part; one memory serves all of them, so that a window holds the last
    observations of the stream, whatever their categories.
    """

    def __init__(self, make: Callable[[], PITs], size: int) -> None:
        super().__init__(make, range(size))
        self._size = size
        self.bounded = make().bounded

    def entries(self, x: tuple[float, ...], y: float) -> list[Entry]:
        return [(int(x[0]), x[1], y)]

    def columns(self, x: FloatArray, y: FloatArray) -> Iterator[Column]:
        for key in np.unique(x[:, 0]).tolist():
            rows = x[:, 0] == key
            yield int(key), rows, x[rows, 1], y[rows]

    def empty(self) -> Self:
        return type(self)(self._make, self._size)

    def state(self) -> dict[str, Any]:
        return {"parts": [part.state() for part in self._parts.values()]}

    def restore(self, state: dict[str, Any]) -> None:
        for part, saved in zip(self._parts.values(), state["parts"], strict=True):
            part.restore(saved)
