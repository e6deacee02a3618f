"""`Categories`: the PITs of each category of observations, as a single statistic."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np

from streamcal.parameters.types import FloatArray
from streamcal.states import ensure
from streamcal.statistics.keyed import Column, Entry, Keyed
from streamcal.statistics.pits import PITs
from streamcal.statistics.vector_table import require_tuples


class Categories(Keyed[PITs]):
    """A `PITs` for each category. The coordinate of an observation is (category, PIT), a whole number first.

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

    def require_possible(self, x: Any, y: FloatArray) -> None:
        require_tuples(x, None, 2)
        ensure(np.isin(x[:, 0], np.arange(self._size)).all(), "a category is not possible")
        self._parts[0].require_possible(x[:, 1].copy(), y)
