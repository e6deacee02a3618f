"""`PresentScores`: observations of several scores by which of them they have."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamcal.parameters.types import FloatArray
from streamcal.states import Field, ensure, listed, row, unread, whole
from streamcal.statistics.base import Statistic
from streamcal.statistics.keyed import Column, Entry, Keyed

#: The coordinate of a missing score in a tuple. It compares, hashes and is written as JSON like any other, and it is
#: the coordinate of no score but the largest float.
ABSENT = sys.float_info.max
#: Which scores an observation has: their indices, ascending.
Places: TypeAlias = tuple[int, ...]


Part = TypeVar("Part", bound=Statistic)


class PresentScores(Keyed[Part], Generic[Part]):
    """A statistic for each set of scores that observations have, other scores of them being missing.

    `marginal(places)` is the statistic of the scores at `places` over all observations that have them: what would be
    held if there were no others. `add_projection(other, columns)` of a statistic adds what another one holds, the
    scores at `columns` taken as its own and the rest left out.

    An operation costs one in the statistic of the observation's scores; `marginal` costs a pass over all of them. There
    are at most 2^M − 1, one for each set that occurred.
    """

    def __init__(self, make: Callable[[Places], Part], width: int) -> None:
        super().__init__(lambda: make(tuple(range(width))))
        self._make_at = make
        self.width = width
        self.bounded = make(tuple(range(width))).bounded

    def _part(self, key: Any) -> Part:
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = self._make_at(key)
        return part

    def entries(self, x: tuple[float, ...], y: float) -> list[Entry]:
        places = places_of(x)
        return [(places, tuple([x[place] for place in places]), y)]

    def columns(self, x: FloatArray, y: FloatArray) -> Iterator[Column]:
        for places, rows in by_places(x):
            yield places, rows, np.ascontiguousarray(x[rows][:, places]), y[rows]

    def unlearn(self, x: tuple[float, ...], y: float, w: float) -> None:
        super().unlearn(x, y, w)
        places = places_of(x)
        if self._parts[places].count == 0:
            del self._parts[places]

    def marginal(self, places: Places) -> Part:
        """Return the statistic of the scores at `places`, of every observation that has them all."""
        total: Any = self._make_at(places)
        for key, part in self._parts.items():
            own: Any = key
            if own == places:
                total.merge(part)
            elif set(places) <= set(own):
                total.add_projection(part, [own.index(place) for place in places])
        return total.present(self.unit)

    def empty(self) -> Self:
        return type(self)(self._make_at, self.width)

    def fields(self) -> dict[str, Field]:
        present = listed(row(listed(whole(0, self.width - 1), most=self.width), unread))
        parts: Any = self._parts.items()
        return {"present": Field(present, lambda: [[list(places), part.state()] for places, part in parts])}

    def _load(self, present: list[tuple[list[int], Any]]) -> None:
        parts: dict[Any, Part] = {}
        for indices, saved in present:
            places = tuple(indices)
            ensure(places and list(places) == sorted(set(places)), "the scores of a part are in no order")
            ensure(places not in parts, "a set of scores occurs twice")
            parts[places] = self._make_at(places)
            parts[places].restore(saved)
        self._parts = parts

    def require_possible(self, x: Any, y: FloatArray) -> None:
        numbers = isinstance(x, np.ndarray) and x.dtype == np.float64 and x.ndim == 2 and x.shape[1] == self.width
        ensure(numbers, "coordinates are no tuples of numbers")
        for places, rows in by_places(x):
            ensure(places, "an observation has no score")
            self._make_at(places).require_possible(np.ascontiguousarray(x[rows][:, places]), y[rows])


def places_of(x: Sequence[float]) -> Places:
    """Return the indices of the scores that an observation has."""
    return tuple([place for place, one in enumerate(x) if one != ABSENT])


def by_places(x: FloatArray) -> Iterator[tuple[Places, NDArray[np.bool_]]]:
    """Yield the sets of scores that rows of coordinates have, and the rows with each."""
    here = x != ABSENT
    for pattern in np.unique(here, axis=0):
        yield tuple(np.flatnonzero(pattern).tolist()), (here == pattern).all(axis=1)
