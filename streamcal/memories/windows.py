"""The memories of `Window`: the last observations, by count or by time."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from itertools import islice, takewhile
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sortedcontainers import SortedList

from streamcal.errors import MergeError, RetractionError
from streamcal.memories.memory import (
    OUTWEIGHING,
    OUTWEIGHING_ONE,
    PIECE,
    Coordinate,
    Memory,
    StatisticT,
    columns,
    coordinates,
    entries,
    never_learned,
    saved_columns,
    saved_rows,
)
from streamcal.parameters.inputs import LARGEST_WEIGHT, SMALLEST_WEIGHT
from streamcal.parameters.prior import PseudoObservations
from streamcal.parameters.types import FloatArray
from streamcal.states import Field, Rows, ensure, maybe, number, row, unread, whole
from streamcal.statistics.base import Piece

#: Sums of whole numbers below this are exact, in every statistic that has exact ones.
WHOLE = 2.0**50


class _Window(Memory[StatisticT]):
    """Base of both windows: they keep observations, from which the statistic can be recomputed."""

    _evicted = 0  # observations that have left since the sums were recomputed; sums that are exact count as recomputed
    _lightest = math.inf  # a lower bound of the weights held

    def _outweighs_one(self, w: float) -> bool:
        """Return whether a removed observation of weight `w` was far heavier than one still kept."""
        return w > OUTWEIGHING_ONE * self._lightest and self.statistic.drifts

    def _sums(self) -> list[Any] | None:
        """Return how many observations have left since the sums were last recomputed, and the rounded statistic.

        Return None if sums have no rounding errors: recomputed sums then lead to the same results.
        """
        saved = self.statistic.state()  # first: it may find that its sums have no rounding errors any more
        if not self.statistic.drifts:
            self._evicted = 0  # as in an object that is loaded
            return None
        return [self._evicted, saved]

    def _take_sums(self, evicted: int, saved: Any) -> int:
        """Take over saved sums, and return `evicted`, unless they are those of other observations than are held."""
        own = self.statistic.empty()
        own.restore(saved)
        if not own.agrees(self.statistic):
            return 0
        self.statistic.restore(saved)
        return evicted


class CountWindow(_Window[StatisticT]):
    """The last `size` observations.

    `_buffer` keeps them, the oldest first, with None in place of an unlearned one; the entry at index i has sequence
    number `_first + i`. `_places`, made at the first retraction, maps each observation to its sequence numbers,
    ascending. Learning costs an update and a removal; memory O(size).
    """

    def __init__(self, statistic: StatisticT, prior: PseudoObservations | None, size: int) -> None:
        super().__init__(statistic, prior)
        self._size = size
        self._buffer: deque[tuple[Coordinate, float, float] | None] = deque()
        self._first = 0
        self._live = 0
        self._places: dict[tuple[Coordinate, float, float], deque[int]] | None = None

    def learn(self, x: Coordinate, y: float, w: float, t: float) -> None:
        self.statistic.update(x, y, w)
        self._append((x, y, w))
        if self._live > self._size:
            self._drop_oldest(w)
        self.version += 1

    def learn_many(self, x: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray) -> None:
        if len(x) >= self._size:
            self._clear()
            x, y, w = x[-self._size :], y[-self._size :], w[-self._size :]
        self.statistic.update_many(x, y, w)
        added = list(zip(coordinates(x), y.tolist(), w.tolist(), strict=True))
        if self._places is not None:
            for place, entry in enumerate(added, self._first + len(self._buffer)):
                self._places.setdefault(entry, deque()).append(place)
        self._buffer.extend(added)
        self._live += len(added)
        self._lightest = min(self._lightest, float(w.min(initial=math.inf)))
        while self._live > self._size:
            self._drop_oldest(added[-1][2])
        self.version += 1

    def pieces(self, x: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray) -> Iterator[Piece] | None:
        learned = np.flatnonzero(w > 0.0)
        added = x[learned], y[learned], w[learned]
        number = max(self._live + len(learned) - self._size, 0)
        oldest = columns(islice((entry for entry in self._buffer if entry is not None), number), 3)
        leaving = tuple(np.concatenate(both)[:number] for both in zip(oldest, added, strict=True))
        lightest = min(self._lightest, added[2].min(initial=math.inf))
        if leaving[2].max(initial=0.0) > OUTWEIGHING * lightest:
            return None
        return self._pieces_of(len(x), w, learned, added, leaving)

    def _pieces_of(
        self,
        size: int,
        w: FloatArray,
        learned: NDArray[np.intp],
        added: tuple[FloatArray, ...],
        leaving: tuple[FloatArray, ...],
    ) -> Iterator[Piece]:
        """Yield pieces that end where the statistic is recomputed; `learned` are the places of rows of weight > 0."""
        whole = bool((added[2] == np.floor(added[2])).all()) and self.statistic.n + added[2].sum() < WHOLE
        start = number = gone = 0
        while start < size:
            room = self._size - self._live
            until_rebuilt = PIECE if whole and not self.statistic.drifts else self._size - self._evicted
            last = number + min(room + until_rebuilt, PIECE)
            stop = size if last > len(learned) else int(learned[last - 1]) + 1
            last = min(last, len(learned))
            drops = max(last - number - room, 0)
            left = cast(Any, tuple(column[gone : gone + drops] for column in leaving))
            yield Piece(slice(start, stop), w[start:stop], np.broadcast_to(1.0, stop - start), left, room)
            self._took([column[number:last].tolist() for column in added], drops)
            start, number, gone = stop, last, gone + drops

    def _took(self, entries: list[list[float]], drops: int) -> None:
        """Note that the statistic has learned these observations, and that the `drops` oldest have left it."""
        self._buffer.extend(zip(*entries, strict=True))
        self._live += len(entries[2]) - drops
        self._lightest = min(self._lightest, min(entries[2], default=math.inf))
        self._places = None
        for _ in range(drops):
            while self._buffer.popleft() is None:
                self._first += 1
        self._first += drops
        self._evicted += drops
        self.version += 1
        if self._evicted >= self._size:
            if self.statistic.drifts:
                self._rebuild()
            self._evicted %= self._size

    def unlearn(self, x: Coordinate, y: float, w: float, t: float) -> None:
        if self._places is None:
            self._places = {}
            for place, entry in enumerate(self._buffer, self._first):
                if entry is not None:
                    self._places.setdefault(entry, deque()).append(place)
        places = self._places.get((x, y, w))
        if not places:
            self.missed += 1
            return
        self.statistic.unlearn(x, y, w)
        self._buffer[places.pop() - self._first] = None
        if not places:
            del self._places[(x, y, w)]
        self._live -= 1
        self.version += 1
        newest = self._buffer[-1]
        if self._outweighed(w, 0.0 if newest is None else newest[2]) or self._outweighs_one(w):
            self._rebuild()
        if len(self._buffer) > 2 * self._size:  # at most once in `size` retractions, whose entries are None
            self._buffer = deque(self._observations())
            self._places = None

    def merge(self, other: Memory[StatisticT]) -> None:
        raise MergeError("windows by count cannot be merged; use Window(size, by='time') or Forever()")

    def _append(self, entry: tuple[Coordinate, float, float]) -> None:
        if self._places is not None:
            self._places.setdefault(entry, deque()).append(self._first + len(self._buffer))
        self._buffer.append(entry)
        self._live += 1
        if entry[2] < self._lightest:
            self._lightest = entry[2]

    def _drop_oldest(self, newest: float) -> None:
        """Remove the oldest observation; `newest` is the weight of the newest one."""
        entry = None
        while entry is None:
            entry = self._buffer.popleft()
            self._first += 1
        if self._places is not None:
            places = self._places[entry]
            places.popleft()
            if not places:
                del self._places[entry]
        self._live -= 1
        self.statistic.unlearn(*entry)
        self._evicted += 1
        outweighed = (entry[2] > newest and self._outweighed(entry[2], newest)) or self._outweighs_one(entry[2])
        if outweighed or self._evicted >= self._size:
            if outweighed or self.statistic.drifts:
                self._rebuild()
            self._evicted = 0

    def _observations(self) -> list[tuple[Coordinate, float, float]]:
        """Return the observations held, the oldest first."""
        return [entry for entry in self._buffer if entry is not None]

    def _rebuild(self) -> None:
        """Recompute the sums of the observations in the window, which removes accumulated rounding errors."""
        entries = self._observations()
        self._refill(entries)
        self._evicted = 0
        self._lightest = min((w for _, _, w in entries), default=math.inf)

    def _clear(self) -> None:
        self._refill([])
        self._first += len(self._buffer)
        self._buffer.clear()
        self._live = 0
        self._lightest = math.inf
        self._places = None

    def _own_fields(self) -> dict[str, Field]:
        return {
            "buffer": Field(entries(self._size), lambda: saved_rows(self._observations(), 3)),
            "sums": Field(row(whole(0, self._size), unread), self._sums, optional=True),
        }

    def _own_load(self, *, buffer: Rows | list[Any], sums: tuple[int, Any] | None) -> None:
        if len(buffer):
            x, y, w = saved_columns(buffer, 3)
            self.statistic.require_possible(x, y)
            ensure(((w >= SMALLEST_WEIGHT) & (w <= LARGEST_WEIGHT)).all(), "a weight is not possible")
            self.learn_many(x, y, w, w)
        if sums is not None:
            self._evicted = self._take_sums(*sums)


class TimeWindow(_Window[StatisticT]):
    """The observations with clock − size < t ≤ clock.

    `_entries` holds them, sorted by (t, x, y, w). The statistic contains those with t > `_edge`. A prediction as of a
    later time moves the edge forward, and the next call as of the clock moves it back, so that predicting has no
    lasting effect. Learning costs an update and a removal, and O(log n) to insert; memory O(n) for n observations held.
    """

    steady = False

    def __init__(
        self, statistic: StatisticT, prior: PseudoObservations | None, size: float, max_jump: float = math.inf
    ) -> None:
        super().__init__(statistic, prior)
        self._size = size
        self._max_jump = max_jump
        self._clock = -math.inf
        self._edge = -math.inf
        self._entries: SortedList[tuple[float, Coordinate, float, float]] = SortedList()

    @property
    def n(self) -> float:
        self.as_of(None)
        return super().n

    def as_of(self, t: float | None) -> float:
        now = self._clock if t is None else max(self._clock, t)
        # Observations at time `now` are held even if the span is smaller than the gap between two floats there.
        self._move_edge(min(now - self._size, math.nextafter(now, -math.inf)))
        return 1.0

    def learn(self, x: Coordinate, y: float, w: float, t: float) -> None:
        self.require_time(t)
        self._advance(t)
        if t <= self._edge:
            self.late += 1
            return
        self.statistic.update(x, y, w)
        self._entries.add((t, x, y, w))
        self._lightest = min(self._lightest, w)
        self.version += 1

    def learn_many(self, x: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray) -> None:
        if len(t) == 0:
            return
        clocks = np.maximum.accumulate(np.maximum(t, self._clock))
        with np.errstate(over="ignore"):  # the edge of a window that is wider than the floats is −∞
            edges = clocks - self._size
        self.late += int(np.count_nonzero((t <= edges) & (t < clocks)))
        self._advance(float(clocks[-1]))
        inside = t > self._edge
        self.statistic.update_many(x[inside], y[inside], w[inside])
        self._entries.update(
            zip(t[inside].tolist(), coordinates(x[inside]), y[inside].tolist(), w[inside].tolist(), strict=True)
        )
        self._lightest = min(self._lightest, float(w[inside].min(initial=math.inf)))
        self.version += 1

    def unlearn(self, x: Coordinate, y: float, w: float, t: float) -> None:
        self.as_of(None)
        if t <= self._edge:
            self.missed += 1
            return
        entry = (t, x, y, w)
        if entry not in self._entries:
            raise RetractionError(never_learned(x, y, w))
        self.statistic.unlearn(x, y, w)
        self._entries.remove(entry)
        self.version += 1
        if self._outweighed(w, self._newest_weight()) or self._outweighs_one(w):
            self._rebuild()

    def merge(self, other: Memory[StatisticT]) -> None:
        other = cast(TimeWindow[StatisticT], other)  # calibrators merge only equal policies
        self._advance(other._clock)
        t, x, y, w = columns(other._entries, 4)
        inside = t > self._edge
        if inside.any():
            self.statistic.update_many(x[inside], y[inside], w[inside])
        self._entries.update(entry for entry in other._entries if entry[0] > self._edge)
        self._lightest = min(self._lightest, float(w[inside].min(initial=math.inf)))
        self._merged(other)

    def _advance(self, t: float) -> None:
        """Set the clock to `t` if that is later, and drop the observations that leave the window."""
        self._clock = max(self._clock, t)
        self.as_of(None)
        while self._entries and self._entries[0][0] <= self._edge:  # mostly one: a slice takes ten times as long
            self._entries.pop(0)
            self._evicted += 1
        if self.statistic.drifts and self._evicted > len(self._entries):
            self._rebuild()
            self._evicted = 0

    def _move_edge(self, edge: float) -> None:
        if edge == self._edge:
            return
        forward = edge > self._edge
        low, high = sorted((edge, self._edge))
        if forward and self._entries and self._entries[0][0] > low:  # the usual case, without a search
            moved = takewhile(lambda entry: entry[0] <= high, self._entries)
        else:
            moved = self._entries.irange(_after(low), _after(high))
        step = self.statistic.unlearn if forward else self.statistic.update
        heaviest = 0.0
        for _, x, y, w in moved:
            step(x, y, w)
            self.version += 1
            if w > heaviest:
                heaviest = w
        self._edge = edge
        if forward and (self._outweighed(heaviest, self._newest_weight()) or self._outweighs_one(heaviest)):
            self._rebuild()

    def _rebuild(self) -> None:
        """Recompute the sums of the observations in the window, which removes accumulated rounding errors."""
        self._refill([entry[1:] for entry in self._entries.irange(_after(self._edge))])
        self._lightest = min((entry[3] for entry in self._entries), default=math.inf)

    def _newest_weight(self) -> float:
        return self._entries[-1][3] if self._entries else 0.0

    def _own_fields(self) -> dict[str, Field]:
        return {
            "clock": Field(maybe(number()), lambda: None if math.isinf(self._clock) else self._clock),
            "entries": Field(entries(), lambda: saved_rows(list(self._entries), 4)),
            "sums": Field(row(whole(), unread), self._sums, optional=True),
        }

    def _own_load(self, *, clock: float | None, entries: Rows | list[Any], sums: tuple[int, Any] | None) -> None:
        ensure(clock is not None or not len(entries), "observations are held and no clock")
        if clock is not None:
            self._advance(clock)
        if len(entries):
            t, x, y, w = saved_columns(entries, 4)
            self.statistic.require_possible(x, y)
            ensure(((w >= SMALLEST_WEIGHT) & (w <= LARGEST_WEIGHT)).all(), "a weight is not possible")
            ensure(((t > self._edge) & (t <= self._clock)).all(), "a time is outside of the window")
            self.learn_many(x, y, w, t)
        if sums is not None:
            self._evicted = self._take_sums(*sums)


def _after(t: float) -> tuple[float]:
    """Return a key that sorts before every entry later than `t`, and after all others."""
    return (math.nextafter(t, math.inf),)
