"""A summary of probabilities and labels in bounded memory: sums per cell of a grid on the logit scale."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from streamcal.kernels.logistic import logit
from streamcal.kernels.measures import add_to_cells
from streamcal.parameters.types import FloatArray

#: Cells per unit of log-odds. Two probabilities in one cell differ by at most 0.2 % of p (1 − p).
CELLS_PER_LOGIT = 512
#: Log-odds beyond ± this limit (p below 3.8e-11, p above 1 − 3.8e-11) share the two outermost cells.
LOGIT_LIMIT = 24.0
_LAST = int(LOGIT_LIMIT * CELLS_PER_LOGIT)


@dataclass(slots=True)
class Cell:
    """The sums of the observations in one cell.

    Invariants: count ≥ 1; 0 ≤ low ≤ p ≤ high ≤ 1 for every probability held. After a `take` the range [low,
    high] may be wider than that of the observations held, and never narrower.
    """

    low: float
    high: float
    count: int = 0
    weight: float = 0.0
    squared: float = 0.0  #: Σ w², for the effective number of observations
    predicted: float = 0.0  #: Σ w p
    positive: float = 0.0  #: Σ w y


class CellColumns(NamedTuple):
    """The occupied cells as arrays of shape (c,), in ascending order of probability.

    `p` is the mean probability of a cell, `negative` and `positive` the weights of the labels in it, both ≥ 0, and
    `effective` the effective number of its observations, (Σ w)²/Σ w², from 1 to their number.
    """

    p: FloatArray
    low: FloatArray
    high: FloatArray
    weight: FloatArray
    squared: FloatArray
    negative: FloatArray
    positive: FloatArray
    effective: FloatArray


class ProbabilityCells:
    """Sums (Σw, Σw², Σwp, Σwy) of observations by cell of the log-odds of p.

    Notes
    -----
    At most 2 ⋅ 24 ⋅ 512 + 1 = 24,577 cells, made when first needed: about 7 MB at most, and 2 MB for typical streams.
    The sums are those of the observations themselves, not of cell centres. Cost: `add` and `take` O(1); `add_many`
    O(n), and 1.4 MB until the next call of another method, which adds up O(c) cells; `merge` O(c) for c occupied cells
    of `other`; iteration O(c log c).
    """

    def __init__(self) -> None:
        self._held: dict[int, Cell] = {}
        #: What `add_many` has added since, a row for each cell that there can be.
        self._more: FloatArray | None = None

    @property
    def _cells(self) -> dict[int, Cell]:
        """The occupied cells by their index."""
        if self._more is not None:
            more, self._more = self._more, None
            for place in np.flatnonzero(more[:, 2]).tolist():
                low, high, count, *sums = more[place].tolist()
                self._absorb(place - _LAST, Cell(low, high, int(count), *sums))
        return self._held

    def add_many(
        self, p: FloatArray, of_positive: FloatArray, of_negative: FloatArray, y: FloatArray, w: FloatArray
    ) -> None:
        """Add observations with their `log_losses`."""
        if self._more is None:
            self._more = np.zeros((2 * _LAST + 1, 7))
            self._more[:, 0] = 1.0
        add_to_cells(self._more, p, of_positive, of_negative, y, w, CELLS_PER_LOGIT)

    def add(self, p: float, y: float, w: float) -> None:
        """Add one observation, p in [0, 1], y 0 or 1, w > 0."""
        key = _key(p)
        cell = self._cells.get(key)
        if cell is None:
            cell = self._cells[key] = Cell(p, p)
        elif p < cell.low:
            cell.low = p
        elif p > cell.high:
            cell.high = p
        cell.count += 1
        cell.weight += w
        cell.squared += w * w
        cell.predicted += w * p
        cell.positive += w * y

    def take(self, p: float, y: float, w: float) -> bool:
        """Remove one earlier `add`; False, and no change, if its cell is empty.

        Sums that remain beside a much larger removed weight are rounding errors, and may be 0 or less.
        """
        key = _key(p)
        cell = self._cells.get(key)
        if cell is None:
            return False
        cell.count -= 1
        if not cell.count:
            del self._cells[key]
            return True
        cell.weight -= w
        cell.squared -= w * w
        cell.predicted -= w * p
        cell.positive -= w * y
        return True

    def holds(self, p: float) -> bool:
        """Whether the cell of p is occupied, so that `take` would succeed."""
        return _key(p) in self._cells

    def merge(self, other: ProbabilityCells) -> None:
        """Add all that `other` holds."""
        for key, cell in list(other._cells.items()):
            self._absorb(key, cell)

    def _absorb(self, key: int, theirs: Cell) -> None:
        """Add the sums of a cell."""
        ours = self._held.setdefault(key, Cell(theirs.low, theirs.high))
        ours.low, ours.high = min(ours.low, theirs.low), max(ours.high, theirs.high)
        ours.count += theirs.count
        ours.weight += theirs.weight
        ours.squared += theirs.squared
        ours.predicted += theirs.predicted
        ours.positive += theirs.positive

    def __iter__(self) -> Iterator[Cell]:
        """The cells in ascending order of probability, except those left without weight by rounding (see `take`)."""
        return (cell for _, cell in sorted(self._cells.items()) if cell.weight > 0.0)

    def columns(self) -> CellColumns:
        """The same as arrays. O(c log c)."""
        held = [(c.low, c.high, c.count, c.weight, c.squared, c.predicted, c.positive) for c in self]
        low, high, count, weight, squared, predicted, positive = np.array(held, dtype=np.float64).reshape(-1, 7).T
        # Reverted float weights may leave sums outside their range by a rounding error.
        p, positive = np.clip(predicted / weight, low, high), np.clip(positive, 0.0, weight)
        squared = np.clip(squared, weight * weight / count, weight * weight)
        return CellColumns(p, low, high, weight, squared, weight - positive, positive, weight * weight / squared)

    def _check(self) -> None:
        """Raise AssertionError where an invariant is broken (tests call this after every change)."""
        for key, cell in self._cells.items():
            assert cell.count >= 1
            assert 0.0 <= cell.low <= cell.high <= 1.0
            assert key == _key(cell.low) == _key(cell.high)


def effective_number(cells: list[Cell]) -> float:
    """(Σ w)²/Σ w² of all observations in cells of weight > 0, kept between 1 and their number despite rounding."""
    weight, squared = math.fsum(cell.weight for cell in cells), math.fsum(cell.squared for cell in cells)
    count = sum(cell.count for cell in cells)
    return count if squared * count <= weight * weight else max(weight * weight / squared, 1.0)


def _key(p: float) -> int:
    """The index of the cell of p: ⌊512 ⋅ log(p / (1 − p))⌋, clipped at both ends."""
    return math.floor(max(-_LAST, min(_LAST, CELLS_PER_LOGIT * logit(p))))
