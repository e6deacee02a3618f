"""`ScaleMoments`: the sums behind a corrected mean and standard deviation, without rounding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from streamcal.parameters.types import FloatArray
from streamcal.states import ensure
from streamcal.statistics.keyed import Column, Entry, Keyed
from streamcal.statistics.label_moments import LabelMoments
from streamcal.statistics.vector_table import require_tuples

#: The parts: errors, deviations of errors within an observation, and the units of errors.
ERROR, WITHIN, UNIT = range(3)


class ScaleMoments(Keyed[LabelMoments]):
    """Σw, Σwe, Σwe², Σwv² and Σws² of observations whose coordinate is the tuple (e, v, s).

    e is the error of an observation, v ≥ 0 the deviation of an error that is an interval, and s > 0 the unit of errors.
    All operations O(1), and exact: see `LabelMoments`.
    """

    bounded = True
    saved_as = "moments"

    def __init__(self) -> None:
        super().__init__(LabelMoments, (ERROR, WITHIN, UNIT))

    @property
    def n(self) -> float:
        return self._parts[ERROR].n / self.unit

    @property
    def count(self) -> int:
        return self._parts[ERROR].count

    def entries(self, x: tuple[float, ...], y: float) -> list[Entry]:
        return [(key, place, 0.0) for key, place in zip((ERROR, WITHIN, UNIT), x, strict=True)]

    def columns(self, x: FloatArray, y: FloatArray) -> Iterator[Column]:
        for key, places in zip((ERROR, WITHIN, UNIT), x.T.copy(), strict=True):
            yield key, slice(None), places, np.zeros(len(y))

    def means(self) -> tuple[float, float, float, float]:
        """Return the means of e, e², v² and s²; weight must be held."""
        error, within, unit = (self._parts[key].mean_and_square(0) for key in (ERROR, WITHIN, UNIT))
        return error[0], error[1], within[1], unit[1]

    def empty(self) -> Self:
        return type(self)()

    def _require_together(self, parts: list[LabelMoments]) -> None:
        ensure(len({part.count for part in parts}) == 1, "the sums are of different observations")

    def require_possible(self, x: Any, y: FloatArray) -> None:
        require_tuples(x, None, 3)
        ensure(not y.any(), "a label is not 0")
