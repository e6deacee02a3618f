"""Step maps, and maps of coordinates rounded to a grid."""

from __future__ import annotations

import math
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.common.logistic import sigmoid, sigmoids
from streamcal.kernels.mixture.hedging import bin_of
from streamcal.maps.base import ScaledMap, frozen, scale_of_scores
from streamcal.maps.portable import Arrays, steps
from streamcal.parameters.scales import Scale, first_floats
from streamcal.parameters.types import FloatArray
from streamcal.statistics.grid import Grid


class RoundedMap(ScaledMap):
    """A function of the coordinate or, with a grid, of the coordinate rounded to the grid."""

    def __init__(self, scale: Scale, grid: Grid | None) -> None:
        super().__init__(scale)
        self.grid = grid
        self._by_cell: FloatArray | None = None

    def at_many(self, x: FloatArray) -> FloatArray:
        if self.grid is None:
            return self._values_at(x)
        if self._by_cell is None:
            if len(x) < self.grid.cells:
                return self._values_at(self.grid.rounds(x))
            self._by_cell = frozen(self._values_at(self.grid.centres))
        return self.grid.take(self._by_cell, x)

    @abstractmethod
    def _values_at(self, x: FloatArray) -> FloatArray:
        """Return the probabilities at an array of coordinates that are already rounded."""

    def _written(self) -> ScaledMap:
        return self if self.grid is None else steps_of_cells(self.scale, self.grid, self._values_at(self.grid.centres))


class StepMap(RoundedMap):
    """values[i] where cuts[i−1] ≤ x < cuts[i]; shapes (m,) and (m − 1,).

    With `own`, shape (m − 1,), the value at cuts[i] itself is own[i], and values[i] holds strictly between the cuts.
    """

    kind = "steps"
    shape = "steps"
    of_scores = True

    def __init__(
        self,
        scale: Scale,
        cuts: FloatArray,
        values: FloatArray,
        grid: Grid | None = None,
        own: FloatArray | None = None,
    ) -> None:
        super().__init__(scale, grid)
        self.cuts = frozen(cuts)
        self.values = frozen(values)
        self.own = None if own is None else frozen(own)

    def at(self, x: float) -> float:
        x = x if self.grid is None else self.grid.round(x)
        i = bisect_right(self.cuts, x)
        if self.own is not None and i > 0 and self.cuts[i - 1] == x:
            return float(self.own[i - 1])
        return float(self.values[i])

    def _values_at(self, x: FloatArray) -> FloatArray:
        result = steps(Arrays, x, self.cuts, self.values)
        if self.own is not None and len(self.cuts) > 0:
            place = np.maximum(np.searchsorted(self.cuts, x, side="right") - 1, 0)
            result = np.where(self.cuts[place] == x, self.own[place], result)
        return result

    def _content(self) -> dict[str, Any]:
        """Return steps over the scores: another library's logarithm may round a score across a coordinate's step."""
        cuts, values = self.cuts, self.values
        if self.own is not None:  # each cut becomes a step that ends at the next float
            cuts = np.column_stack((cuts, np.nextafter(cuts, math.inf))).ravel()
            values = np.append(values[:1], np.column_stack((self.own, values[1:])).ravel())
        cuts = self.scale.increasing.first_scores(cuts)
        starts = np.unique(cuts[np.isfinite(cuts)])
        values = steps(Arrays, np.append(-math.inf, starts), cuts, values)
        return {"cuts": starts.tolist(), "values": values.tolist()}


class BinnedSigmoidMap(ScaledMap):
    """values[i] where 1 / (1 + exp(−(slope·x + offset))) falls into bin i of len(values) bins of equal width.

    It is exported as a step function of the score.
    """

    kind = "steps"
    shape = "steps"

    def __init__(self, scale: Scale, slope: float, offset: float, values: Sequence[float]) -> None:
        super().__init__(scale)
        self.slope = slope
        self.offset = offset
        self.values = frozen(values)

    def at(self, x: float) -> float:
        return float(self.values[bin_of(sigmoid(self.slope * x + self.offset), len(self.values))])

    def at_many(self, x: FloatArray) -> FloatArray:
        return self.values[self._bins_of(x)]

    def _bins_of(self, x: FloatArray) -> NDArray[np.intp]:
        bins = len(self.values)
        return np.minimum((sigmoids(self.slope * x + self.offset) * bins).astype(np.intp), bins - 1)

    def _written(self) -> StepMap:
        """Find cuts by bisection over floats; if `exp` is not monotone in its last bit, a few floats off."""
        scale = self.scale.increasing
        first, last = (int(self._bins_of(scale.coordinates(np.array([end])))[0]) for end in scale.domain)
        if first == last:
            return StepMap(scale_of_scores(self.scale), np.empty(0), self.values[[first]])
        turn = 1 if first < last else -1
        entered = np.arange(first + turn, last + turn, turn)

        def reached(scores: FloatArray) -> NDArray[np.bool_]:
            return turn * self._bins_of(scale.coordinates(scores)) >= turn * entered

        starts = np.unique(first_floats(reached, scale.domain, len(entered)))
        values = self.values[self._bins_of(scale.coordinates(np.append(scale.domain[0], starts)))]
        return StepMap(scale_of_scores(self.scale), starts, values)


def steps_of_cells(scale: Scale, grid: Grid, values: FloatArray) -> StepMap:
    """Return the map that has values[i] in cell i of the grid."""
    first = np.flatnonzero(np.diff(values))
    return StepMap(scale, grid.edges[first], np.append(values[:1], values[first + 1]))
