"""`Statistic`: the abstract base of the sufficient statistics that calibrators keep."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np

from streamcal.parameters.prior import PseudoObservations
from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray
from streamcal.states import Field, ensure, read_fields, write_fields

#: Relative difference of sums of the same observations: rounding of up to a million additions and subtractions.
AGREEMENT = 1e-9


class Piece(NamedTuple):
    """Rows of a batch that a compiled loop may learn together, and what the memory does during the loop."""

    rows: slice
    w: FloatArray  #: The weight stored for each row when it is learned; 0 if the loop does not learn it.
    unit: FloatArray  #: The stored weight of an observation of weight 1 when each row is predicted.
    leaving: tuple[FloatArray, FloatArray, FloatArray]  #: x, y, w of what leaves, one after each row beyond `room`.
    room: int  #: Rows that are learned before one leaves.


class Statistic(ABC):
    """A sufficient summary of weighted outcomes by coordinate (the score on its scale).

    An observation is `(x, y, w)`: the coordinate, the label in [0, 1] (0 or 1 for real observations, between them
    for pseudo-observations of a prior) and the weight, w > 0. Callers have checked all three. Where there are several
    scores, x is the tuple of their coordinates and, in arrays, a row of shape (n, M); a statistic of classes or of
    real outcomes documents its y.
    """

    #: Whether its memory has a bound that does not depend on the observations.
    bounded: bool = False
    #: The stored weight of an observation of weight 1. It is 1, except in the views that `present` makes
    #: of a statistic under decay. Every weight read from a statistic, `n` included, is divided by it.
    unit: float = 1.0
    #: The scale of the coordinates, by which saved ones are checked; None where any finite number may be one.
    scale: Scale | None = None
    #: `count`, of statistics that have no other place for it.
    _count: int

    def present(self, unit: float) -> Self:
        """Return a read-only view of this statistic in which every weight is divided by `unit`.

        The view shares the stored sums, and is valid until they next change. O(1).
        """
        if unit == self.unit:
            return self
        view = object.__new__(type(self))
        view.__dict__.update(self.__dict__)
        view.unit = unit
        return view

    @property
    @abstractmethod
    def n(self) -> float:
        """Total weight held."""

    @property
    def count(self) -> int:
        """Number of observations held; when it is 0, all sums are exactly 0."""
        return self._count

    @property
    def drifts(self) -> bool:
        """Whether `unlearn` may leave rounding errors in the sums, which only a rebuild removes."""
        return True

    def _in_units(self, first: FloatArray, second: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Divide two arrays of stored weights by the unit."""
        return (first, second) if self.unit == 1.0 else (first / self.unit, second / self.unit)

    @abstractmethod
    def update(self, x: Any, y: float, w: float) -> None:
        """Add one observation."""

    def fast_update(self, lo: float, hi: float) -> Callable[[Any, Any, Any], bool] | None:
        """Return the fast path: a compiled function of an unchecked score, label and weight; None if there is none.

        The function updates the statistic and returns True if no argument needs conversion and the score is a float in
        [lo, hi], where scores equal their coordinates; otherwise it changes nothing and returns False.
        """
        return None

    @abstractmethod
    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        """Add observations; the same state as a loop of `update`, up to rounding."""

    def hold(self, prior: PseudoObservations) -> None:
        """Add the pseudo-observations of a prior."""
        self.update_many(*prior)

    def release(self, prior: PseudoObservations) -> None:
        """Remove the pseudo-observations of a prior."""
        rows = prior.x.tolist() if prior.x.ndim == 1 else map(tuple, prior.x.tolist())
        for x, y, w in zip(rows, prior.y.tolist(), prior.w.tolist(), strict=True):
            self.unlearn(x, y, w)

    def labelled(self, x: Any, y: Any) -> Any:
        """Return the second argument of `update` for an observation with only a coordinate and a label.

        Also for arrays. It is the label itself, unless a statistic encodes more than the label there, such as a fold.
        """
        return y

    def require(self, x: Any, y: float, w: float) -> None:
        """Raise `RetractionError` if it is known in advance that `unlearn` would raise it."""
        return None

    def verify(self, x: Any, y: float, w: float) -> None:
        """Raise `RetractionError` if `unlearn` would leave what no observations add up to, or nothing but rounding.

        Called for retractions by users. What leaves a window was in it, and a window recomputes its sums. It may cost
        more than `unlearn`, which refuses only what it sees at no cost.
        """
        return None

    @abstractmethod
    def unlearn(self, x: Any, y: float, w: float) -> None:
        """Remove one observation; `RetractionError`, and no change, if it is known that it was never added."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Add everything that `other` holds; `other` is not changed."""

    @abstractmethod
    def decay(self, factor: float) -> None:
        """Multiply every weight by `factor` > 0."""

    def prune(self, fraction: float) -> None:
        """Drop entries whose weights together are below `fraction` of the total weight, if supported."""
        return None

    @abstractmethod
    def empty(self) -> Self:
        """Return a new, empty statistic with the same parameters."""

    # -- saving --------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Return plain data that `restore` reads: numbers, lists, and own arrays and `Rows` in place of lists."""
        self._settle()
        return write_fields(self.fields())

    def restore(self, state: Any) -> None:
        """Replace the content by a saved `state`; `StateError`, and no change, unless it can be one."""
        self._load(**read_fields(self.fields(), state))

    def _settle(self) -> None:
        """Take the form of a statistic that is read from `state`, where that is another one."""
        return None

    @abstractmethod
    def fields(self) -> dict[str, Field]:
        """Return the fields of `state`; readers check lengths, ranges, and that every number is finite."""

    @abstractmethod
    def _load(self, *_: Any, **fields: Any) -> None:
        """Replace the content by fields as they were read; `StateError`, and no change, if they contradict another."""

    def agrees(self, other: Self) -> bool:
        """Return whether both can be sums of the same observations in other orders: they differ by rounding alone."""
        return self.count == other.count and agree(self._summed(), other._summed())

    def _summed(self) -> tuple[Any, ...]:
        """Return the content as arrays or numbers of one unit each; equal observations have equal sums there."""
        return (self.n,)

    def require_possible(self, x: Any, y: FloatArray) -> None:
        """Raise `StateError` unless these saved coordinates and labels, arrays of one length, can be observations."""
        self._require_coordinates(x, self.scale)
        ensure(((y == 0.0) | (y == 1.0)).all(), "a label is neither 0 nor 1")

    def _require_coordinates(self, x: Any, scale: Scale | None) -> None:
        """Raise `StateError` unless this is an array of coordinates on the scale."""
        ensure(isinstance(x, np.ndarray) and x.dtype == np.float64 and x.ndim == 1, "coordinates are no numbers")
        lo, hi = (-math.inf, math.inf) if scale is None else (scale.lo, scale.hi)
        ensure(((x >= lo) & (x <= hi)).all(), f"a coordinate is not from {lo:g} to {hi:g}")


def agree(sums: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    """Return whether arrays have the same shapes and numbers, up to rounding of the largest number of each."""
    for own, expected in zip(map(np.asarray, sums), map(np.asarray, others), strict=True):
        if own.shape != expected.shape:
            return False
        if own.size and not np.abs(own - expected).max() <= AGREEMENT * np.abs(expected).max():
            return False
    return True
