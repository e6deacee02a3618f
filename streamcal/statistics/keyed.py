"""`Keyed`: statistics by key as one, the composite that stands under folds, thresholds and binary subproblems."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Generic, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from streamcal.errors import RetractionError
from streamcal.parameters.types import FloatArray
from streamcal.statistics.base import Statistic
from streamcal.statistics.held import not_held

Part = TypeVar("Part", bound=Statistic)
#: What names a part: a number, or a tuple of labels.
Key: TypeAlias = Hashable
#: The key of a part, and the coordinate and label that it takes.
Entry: TypeAlias = tuple[Key, Any, float]
#: The key of a part, the rows of a batch that enter it, and their coordinates and labels.
Column: TypeAlias = tuple[Key, slice | npt.NDArray[np.bool_], FloatArray, FloatArray]


class Keyed(Statistic, Generic[Part]):
    """Statistics by key. An observation enters those that a subclass routes it to, as one: all of them, or none.

    Parameters
    ----------
    make : callable
        Makes an empty part.
    keys : iterable
        The keys of the parts that are there from the start; others come with the first observation that enters them.

    Notes
    -----
    Everything costs what it costs each part that is concerned. Whole observations are added, taken back, dropped and
    merged, so that one memory forgets for all parts: with a memory for each, a retraction in a window could take equal
    observations of different age from different parts. A retraction that one part refuses is undone in those before
    it, which leaves their sums as they were up to rounding.
    """

    def __init__(self, make: Callable[[], Part], keys: Iterable[Key] = ()) -> None:
        self._make = make
        # key -> its part. Parts have the unit 1; those given out are views in the unit of this statistic.
        self._parts: dict[Key, Part] = {key: make() for key in keys}

    # -- routing -------------------------------------------------------------------------------------------------

    @abstractmethod
    def entries(self, x: Any, y: float) -> Iterable[Entry]:
        """What one observation enters, no part twice; an `InputError` changes nothing."""

    @abstractmethod
    def columns(self, x: FloatArray, y: FloatArray) -> Iterator[Column]:
        """`entries` of n > 0 observations, one part at a time."""

    # -- the parts -----------------------------------------------------------------------------------------------

    @property
    def parts(self) -> Mapping[Key, Part]:
        """The parts by key, in units of this statistic; to be read, until the next change."""
        if self.unit == 1.0:
            return self._parts
        return {key: part.present(self.unit) for key, part in self._parts.items()}

    def part(self, key: Key) -> Part | None:
        """One of `parts`; None where nothing has entered it."""
        part = self._parts.get(key)
        return None if part is None else part.present(self.unit)

    def _part(self, key: Key) -> Part:
        """The part of a key, made if need be."""
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = self._make()
        return part

    # -- as one statistic ----------------------------------------------------------------------------------------

    @property
    def n(self) -> float:
        return sum(part.n for part in self._parts.values()) / self.unit

    @property
    def count(self) -> int:
        return sum(part.count for part in self._parts.values())

    @property
    def drifts(self) -> bool:
        return any(part.drifts for part in self._parts.values())

    def update(self, x: Any, y: float, w: float) -> None:
        parts = self._parts
        for key, at, label in self.entries(x, y):
            (parts[key] if key in parts else self._part(key)).update(at, label, w)

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        if len(y):
            for key, rows, at, labels in self.columns(x, y):
                self._part(key).update_many(at, labels, w[rows])

    def require(self, x: Any, y: float, w: float) -> None:
        self._require(self.entries(x, y), w)

    def _require(self, entries: Iterable[Entry], w: float) -> None:
        for key, at, label in entries:
            part = self._parts.get(key)
            if part is None:
                raise RetractionError(not_held(at, label, w))
            part.require(at, label, w)

    def revert(self, x: Any, y: float, w: float) -> None:
        entries = list(self.entries(x, y))
        self._require(entries, w)
        for done, (key, at, label) in enumerate(entries):
            try:
                self._parts[key].revert(at, label, w)
            except RetractionError:
                for earlier, place, own in entries[:done]:
                    self._parts[earlier].update(place, own, w)
                raise

    def merge(self, other: Self) -> None:
        for key, part in other._parts.items():
            self._part(key).merge(part)

    def decay(self, factor: float) -> None:
        for part in self._parts.values():
            part.decay(factor)

    def prune(self, fraction: float) -> None:
        for part in self._parts.values():
            part.prune(fraction)

    def _check(self) -> None:
        """Raise `AssertionError` if the parts are not what their observations make them."""
        assert all(part.unit == 1.0 for part in self._parts.values())
        for part in self._parts.values():
            part._check()
