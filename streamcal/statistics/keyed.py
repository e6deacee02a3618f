"""`Keyed`: a composite of statistics by key, the base for folds, thresholds and binary subproblems."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Generic, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamcal.errors import RetractionError
from streamcal.parameters.types import FloatArray
from streamcal.states import Field, listed, unread
from streamcal.statistics.base import Statistic
from streamcal.statistics.retractions import never_learned

Part = TypeVar("Part", bound=Statistic)
#: The key of a part: a number, a label or a tuple of labels.
Key: TypeAlias = Hashable
#: The key of a part, and the coordinate and label with which that part is updated.
Entry: TypeAlias = tuple[Key, Any, float]
#: The key of a part, the rows of a batch that belong to it, and their coordinates and labels.
Column: TypeAlias = tuple[Key, slice | NDArray[np.bool_], FloatArray, FloatArray]


class Keyed(Statistic, Generic[Part]):
    """A composite statistic: one part, itself a statistic, for each key.

    A subclass defines by `entries` which parts an observation updates, and with which coordinates and labels. An
    operation on an observation changes all of these parts, or none. Parts of `keys` exist from the start; others are
    made at their first observation.

    The cost of an operation is the sum of its costs in the parts concerned. Since whole observations are added, removed
    and merged, one memory serves all parts. With one memory per part, a retraction in a window could remove equal
    observations of different ages from different parts. If a part refuses a retraction, it is undone in the parts
    already changed, whose sums are then restored up to rounding.
    """

    #: The name in a state of the parts of `keys`, in their order.
    saved_as: ClassVar[str] = "parts"

    def __init__(self, make: Callable[[], Part], keys: Iterable[Key] = ()) -> None:
        self._make = make
        # key -> part. Parts have the unit 1; `parts` and `part` return views in the unit of this statistic.
        self._parts: dict[Key, Part] = {key: make() for key in keys}

    # -- routing -------------------------------------------------------------------------------------------------

    @abstractmethod
    def entries(self, x: Any, y: float) -> Iterable[Entry]:
        """Return the entries of one observation, each part at most once; an `InputError` changes nothing."""

    @abstractmethod
    def columns(self, x: FloatArray, y: FloatArray) -> Iterator[Column]:
        """Yield the `entries` of n > 0 observations, one part at a time."""

    # -- the parts -----------------------------------------------------------------------------------------------

    @property
    def parts(self) -> Mapping[Key, Part]:
        """The parts by key, in units of this statistic: read-only, valid until the next change."""
        if self.unit == 1.0:
            return self._parts
        return {key: part.present(self.unit) for key, part in self._parts.items()}

    def part(self, key: Key) -> Part | None:
        """Return one of `parts`; None if it has no observation yet."""
        part = self._parts.get(key)
        return None if part is None else part.present(self.unit)

    def _part(self, key: Key) -> Part:
        """Return the part of a key, made if it does not exist."""
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = self._new_part()
        return part

    def _new_part(self) -> Part:
        """Return the part of a new key."""
        return self._make()

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
                raise RetractionError(never_learned(at, label, w))
            part.require(at, label, w)

    def verify(self, x: Any, y: float, w: float) -> None:
        for key, at, label in self.entries(x, y):
            part = self._parts.get(key)
            if part is not None:
                part.verify(at, label, w)

    def unlearn(self, x: Any, y: float, w: float) -> None:
        entries = list(self.entries(x, y))
        self._require(entries, w)
        for done, (key, at, label) in enumerate(entries):
            try:
                self._parts[key].unlearn(at, label, w)
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

    def agrees(self, other: Self) -> bool:
        if self._parts.keys() != other._parts.keys():
            return False
        return super().agrees(other) and all(part.agrees(other._parts[key]) for key, part in self._parts.items())

    def fields(self) -> dict[str, Field]:
        parts = self._parts.values()
        return {self.saved_as: Field(listed(unread, length=len(parts)), lambda: [part.state() for part in parts])}

    def _load(self, *_: Any, **fields: Any) -> None:
        fresh = self.empty()
        for part, saved in zip(fresh._parts.values(), fields[self.saved_as], strict=True):
            part.restore(saved)
        self._require_together(list(fresh._parts.values()))
        self._parts = fresh._parts

    def _require_together(self, parts: list[Part]) -> None:
        """Raise `StateError` unless these parts of `keys` can be of the same observations."""
        return None
