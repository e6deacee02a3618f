"""Memories: a statistic under a forgetting policy, at work.

A memory owns its statistic and decides what enters, what leaves and how much an observation of today weighs in it.
Policies (`streamcal.forgetting`) are the parameters; memories are what they start.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any, NamedTuple, cast

import numpy as np
from sortedcontainers import SortedList

from streamcal.base import CapabilityError, FloatArray, MergeError, RetractionError, Statistic

#: Decayed weights live between 1 and 2^RESCALE_HALF_LIVES before all are rescaled, by a power of two and so exactly.
RESCALE_HALF_LIVES = 16
#: A decayed weight below this is not held: sums of it would lose their precision to the smallest floats.
SMALLEST_HELD = 1e-200
#: After so many half-lives without an observation nothing is left of the past (10⁻³⁰¹), and it is dropped.
FORGOTTEN_HALF_LIVES = 1000
#: What decay may drop: scores that together weigh less than this fraction (about 1e-9) of the total.
PRUNE_FRACTION = 2.0**-30


class Seed(NamedTuple):
    """Pseudo-observations that a memory starts from: coordinates, labels in [0, 1] and weights, each of shape (m,)."""

    x: FloatArray
    y: FloatArray
    w: FloatArray


class Memory:
    """A statistic that keeps everything; the base of the memories that forget.

    `version` changes whenever the statistic does, so that a solved map can be kept until then. `missed` counts
    retractions of what was already forgotten, `late` observations that came too late to be kept.
    """

    def __init__(self, statistic: Statistic, seed: Seed | None) -> None:
        self.statistic = statistic
        self.seed = seed
        if seed is not None:
            statistic.update_many(*seed)
        # What of the statistic is the seed's, and does not count.
        self._seed_weight, self._seed_count = (0.0, 0) if seed is None else (statistic.n, statistic.count)
        self.version = 0
        self.missed = 0
        self.late = 0

    @property
    def n(self) -> float:
        """Total weight held, in today's units."""
        return self._learned(1.0)

    def _learned(self, seed_growth: float) -> float:
        """Weight in the statistic that is not the seed's; the seed has grown by this factor since it was sown."""
        if self.statistic.count == self._seed_count:
            return 0.0
        return max(self.statistic.n - self._seed_weight * seed_growth, 0.0)

    def as_of(self, t: float | None) -> float:
        """Turn the statistic to its view at `t`; the weight that an observation of that moment has in it."""
        return 1.0

    def learn(self, x: float, y: float, w: float, t: float) -> None:
        """Take in one observation; `t` is read by timed memories only."""
        self.statistic.update(x, y, w)
        self.version += 1

    def learn_many(self, x: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray) -> None:
        """Take in observations, in order."""
        self.statistic.update_many(x, y, w)
        self.version += 1

    def unlearn(self, x: float, y: float, w: float, t: float) -> None:
        """Take back one observation; `RetractionError` where it is known never to have been learned."""
        self.statistic.revert(x, y, w)
        self.version += 1

    def merge(self, other: Memory) -> None:
        """Take in all that a memory under the same policy holds."""
        self.statistic.merge(other.statistic)
        if self.seed is not None:  # both brought it
            for x, y, w in zip(*(column.tolist() for column in self.seed), strict=True):
                self.statistic.revert(x, y, w)
        self._merged(other)

    def state(self) -> dict[str, Any]:
        """Plain data that `restore` reads."""
        return {"missed": self.missed, "late": self.late, **self._own_state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a saved state; called on a fresh memory."""
        self.missed, self.late = int(state["missed"]), int(state["late"])
        self._own_restore(state)
        self.version += 1

    def _refill(self, entries: list[tuple[float, float, float]]) -> None:
        """Replace the content of the statistic by the seed and these observations, and its rounding by none."""
        self.statistic.restore(self.statistic.empty().state())
        if self.seed is not None:
            self.statistic.update_many(*self.seed)
        if entries:
            self.statistic.update_many(*_columns(entries, 3))

    def _merged(self, other: Memory) -> None:
        self.missed += other.missed
        self.late += other.late
        self.version += 1

    def _own_state(self) -> dict[str, Any]:
        return {"statistic": self.statistic.state()}

    def _own_restore(self, state: dict[str, Any]) -> None:
        self.statistic.restore(state["statistic"])


class CountWindow(Memory):
    """The last `size` observations.

    `_buffer` holds them oldest first, with None where one was retracted; the entry at place i has sequence number
    `_first + i`. `_places`, made at the first retraction, lists the sequence numbers of each observation, ascending.
    """

    def __init__(self, statistic: Statistic, seed: Seed | None, size: int) -> None:
        super().__init__(statistic, seed)
        self._size = size
        self._buffer: deque[tuple[float, float, float] | None] = deque()
        self._first = 0
        self._live = 0
        self._evicted = 0
        self._places: dict[tuple[float, float, float], deque[int]] | None = None

    def learn(self, x: float, y: float, w: float, t: float) -> None:
        self.statistic.update(x, y, w)
        self._append((x, y, w))
        if self._live > self._size:
            self._drop_oldest()
        self.version += 1

    def learn_many(self, x: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray) -> None:
        if len(x) >= self._size:
            self._clear()
            x, y, w = x[-self._size :], y[-self._size :], w[-self._size :]
        self.statistic.update_many(x, y, w)
        for entry in zip(x.tolist(), y.tolist(), w.tolist(), strict=True):
            self._append(entry)
        while self._live > self._size:
            self._drop_oldest()
        self.version += 1

    def unlearn(self, x: float, y: float, w: float, t: float) -> None:
        if self._places is None:
            self._places = {}
            for place, entry in enumerate(self._buffer, self._first):
                if entry is not None:
                    self._places.setdefault(entry, deque()).append(place)
        places = self._places.get((x, y, w))
        if not places:
            self.missed += 1
            return
        self.statistic.revert(x, y, w)
        self._buffer[places.pop() - self._first] = None
        if not places:
            del self._places[(x, y, w)]
        self._live -= 1
        self.version += 1
        if len(self._buffer) > 2 * self._size:
            self._close_gaps()

    def merge(self, other: Memory) -> None:
        raise MergeError("a window by count has no place for a second stream; use Window(size, by='time') or Forever()")

    def _append(self, entry: tuple[float, float, float]) -> None:
        if self._places is not None:
            self._places.setdefault(entry, deque()).append(self._first + len(self._buffer))
        self._buffer.append(entry)
        self._live += 1

    def _drop_oldest(self) -> None:
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
        self.statistic.revert(*entry)
        self._evicted += 1
        if self.statistic.drifts and self._evicted >= self._size:
            self._refill([kept for kept in self._buffer if kept is not None])
            self._evicted = 0

    def _close_gaps(self) -> None:
        """Drop the retracted entries from the buffer, so that it stays bounded; at most once in `size` retractions."""
        self._buffer = deque(entry for entry in self._buffer if entry is not None)
        self._places = None

    def _clear(self) -> None:
        self._refill([])
        self._first += len(self._buffer)
        self._buffer.clear()
        self._live = 0
        self._places = None

    def _own_state(self) -> dict[str, Any]:
        return {"buffer": [list(entry) for entry in self._buffer if entry is not None]}

    def _own_restore(self, state: dict[str, Any]) -> None:
        x, y, w = _columns(state["buffer"], 3)
        self.learn_many(x, y, w, x)


class TimeWindow(Memory):
    """The observations with clock − size < t ≤ clock.

    `_entries` holds them as sorted (t, x, y, w). The statistic holds those with t > `_edge`; a prediction as of a
    later time moves the edge forward and a later call moves it back, so that predicting changes nothing one can see.
    """

    def __init__(self, statistic: Statistic, seed: Seed | None, size: float) -> None:
        super().__init__(statistic, seed)
        self._size = size
        self._clock = -math.inf
        self._edge = -math.inf
        self._entries: SortedList[tuple[float, float, float, float]] = SortedList()
        self._evicted = 0

    @property
    def n(self) -> float:
        self.as_of(None)
        return super().n

    def as_of(self, t: float | None) -> float:
        now = self._clock if t is None else max(self._clock, t)
        # A span smaller than the gap between two floats at `now` still holds what was learned at that moment.
        self._move_edge(min(now - self._size, math.nextafter(now, -math.inf)))
        return 1.0

    def learn(self, x: float, y: float, w: float, t: float) -> None:
        self._advance(t)
        if t <= self._edge:
            self.late += 1
            return
        self.statistic.update(x, y, w)
        self._entries.add((t, x, y, w))
        self.version += 1

    def learn_many(self, x: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray) -> None:
        if len(t) == 0:
            return
        clocks = np.maximum.accumulate(np.maximum(t, self._clock))
        self.late += int(np.count_nonzero((t <= clocks - self._size) & (t < clocks)))
        self._advance(float(clocks[-1]))
        kept = t > self._edge
        self.statistic.update_many(x[kept], y[kept], w[kept])
        self._entries.update(zip(*(column[kept].tolist() for column in (t, x, y, w)), strict=True))
        self.version += 1

    def unlearn(self, x: float, y: float, w: float, t: float) -> None:
        self.as_of(None)
        if t <= self._edge:
            self.missed += 1
            return
        entry = (t, x, y, w)
        if entry not in self._entries:
            raise RetractionError(_never_learned(x, y, w))
        self.statistic.revert(x, y, w)
        self._entries.remove(entry)
        self.version += 1

    def merge(self, other: Memory) -> None:
        other = cast(TimeWindow, other)  # calibrators merge only equal policies
        self._advance(other._clock)
        t, x, y, w = _columns(other._entries, 4)
        kept = t > self._edge
        self.statistic.update_many(x[kept], y[kept], w[kept])
        self._entries.update(entry for entry in other._entries if entry[0] > self._edge)
        self._merged(other)

    def _advance(self, t: float) -> None:
        """Move the clock to `t` if that is later, and let go of what it leaves behind."""
        self._clock = max(self._clock, t)
        self.as_of(None)
        gone = self._entries.bisect_right((self._edge, math.inf, math.inf, math.inf))
        del self._entries[:gone]
        self._evicted += gone
        if self.statistic.drifts and self._evicted > len(self._entries):
            self._refill([entry[1:] for entry in self._entries])
            self._evicted = 0

    def _move_edge(self, edge: float) -> None:
        if edge == self._edge:
            return
        low, high = sorted((edge, self._edge))
        moved = self._entries.irange((low, math.inf, math.inf, math.inf), (high, math.inf, math.inf, math.inf))
        step = self.statistic.revert if edge > self._edge else self.statistic.update
        for _, x, y, w in moved:
            step(x, y, w)
            self.version += 1
        self._edge = edge

    def _own_state(self) -> dict[str, Any]:
        clock = None if math.isinf(self._clock) else self._clock
        return {"clock": clock, "entries": [list(entry) for entry in self._entries]}

    def _own_restore(self, state: dict[str, Any]) -> None:
        if state["clock"] is not None:
            self._advance(float(state["clock"]))
        t, x, y, w = _columns(state["entries"], 4)
        self.learn_many(x, y, w, t)


class _DecayingMemory(Memory):
    """Forward decay from a landmark (Cormode, Shkapenyuk, Srivastava, Xu 2009).

    An observation of time t is held with weight w·2^((t − landmark)/half_life − halvings): the new one grows instead
    of all the old ones shrinking, so that a step stays O(1). When the exponent of the clock reaches
    RESCALE_HALF_LIVES, everything is halved a whole number of times, which is exact, and `halvings` counts them.
    """

    def __init__(self, statistic: Statistic, seed: Seed | None, half_life: float) -> None:
        super().__init__(statistic, seed)
        self._half_life = half_life
        self._clock = -math.inf
        self._landmark = 0.0
        self._halvings = 0

    @property
    def n(self) -> float:
        return self._learned(self._growth(self._landmark)) / self.as_of(None)

    def as_of(self, t: float | None) -> float:
        if math.isinf(self._clock):
            return 1.0
        return self._growth(self._clock if t is None else max(self._clock, t))

    def _growth(self, t: float) -> float:
        """The weight that an observation of weight one at time `t` has in the statistic."""
        exponent = (t - self._landmark) / self._half_life - self._halvings
        return math.exp2(min(exponent, FORGOTTEN_HALF_LIVES))  # as of a time further ahead, all that is held is nothing

    def _growths(self, t: FloatArray) -> FloatArray:
        """`_growth` for an array."""
        growths: FloatArray = np.exp2((t - self._landmark) / self._half_life - self._halvings)
        return growths

    def _advance(self, t: float) -> None:
        """Move the clock to `t` if that is later; rescale when its weight has grown too large."""
        if t <= self._clock:
            return
        if math.isinf(self._clock):
            self._landmark = t
        self._clock = t
        halvings = (t - self._landmark) / self._half_life - self._halvings
        if halvings >= FORGOTTEN_HALF_LIVES:
            self._forget_all()
            self._landmark = t
        elif halvings >= RESCALE_HALF_LIVES:
            self.statistic.decay(math.exp2(-math.floor(halvings)))
            self._halvings += math.floor(halvings)
            self.statistic.prune(PRUNE_FRACTION)

    def _forget_all(self) -> None:
        """Start again without anything, the seed included."""
        self.statistic.restore(self.statistic.empty().state())
        self._halvings, self._seed_weight, self._seed_count = 0, 0.0, 0

    def _own_state(self) -> dict[str, Any]:
        clock = None if math.isinf(self._clock) else self._clock
        own = {"clock": clock, "landmark": self._landmark, "halvings": self._halvings}
        return {**own, "statistic": self.statistic.state()}

    def _own_restore(self, state: dict[str, Any]) -> None:
        self._clock = -math.inf if state["clock"] is None else float(state["clock"])
        self._landmark, self._halvings = float(state["landmark"]), int(state["halvings"])
        self.statistic.restore(state["statistic"])


class CountDecay(_DecayingMemory):
    """Decay whose clock is the number of observations learned."""

    def __init__(self, statistic: Statistic, seed: Seed | None, half_life: float) -> None:
        super().__init__(statistic, seed, half_life)
        self._clock = 0.0

    def as_of(self, t: float | None) -> float:
        return self._growth(self._clock)

    def learn(self, x: float, y: float, w: float, t: float) -> None:
        self._advance(self._clock + 1.0)
        self.statistic.update(x, y, w * self._growth(self._clock))
        self.version += 1

    def learn_many(self, x: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray) -> None:
        # In pieces no longer than the time between two rescalings, so that no weight underflows.
        piece = max(1, int(self._half_life * RESCALE_HALF_LIVES))
        for start in range(0, len(x), piece):
            part = slice(start, start + piece)
            clocks = self._clock + 1.0 + np.arange(len(x[part]), dtype=np.float64)
            self._advance(float(clocks[-1]))
            self.statistic.update_many(x[part], y[part], w[part] * self._growths(clocks))
        self.version += 1

    def unlearn(self, x: float, y: float, w: float, t: float) -> None:
        raise CapabilityError("under decay by count an observation's age is not known; use Decay(half_life, by='time')")

    def merge(self, other: Memory) -> None:
        raise MergeError("under decay by count two streams age each other; use Decay by time or Forever()")


class TimeDecay(_DecayingMemory):
    """Decay whose clock is the latest time learned."""

    def learn(self, x: float, y: float, w: float, t: float) -> None:
        self._advance(t)
        weight = w * self._growth(t)
        if weight < SMALLEST_HELD:
            self.late += 1
            return
        self.statistic.update(x, y, weight)
        self.version += 1

    def learn_many(self, x: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray) -> None:
        for one in zip(x.tolist(), y.tolist(), w.tolist(), t.tolist(), strict=True):
            self.learn(*one)

    def unlearn(self, x: float, y: float, w: float, t: float) -> None:
        if t > self._clock:
            raise RetractionError(_never_learned(x, y, w))
        weight = w * self._growth(t)
        if weight < SMALLEST_HELD or weight < PRUNE_FRACTION * self.statistic.n:  # may have been pruned
            self.missed += 1
            return
        self.statistic.revert(x, y, weight)
        self.version += 1

    def merge(self, other: Memory) -> None:
        other = cast(TimeDecay, other)  # calibrators merge only equal policies
        if not math.isinf(other._clock):
            self._advance(other._clock)
            shift = (other._landmark - self._landmark) / self._half_life + other._halvings - self._halvings
            factor = math.exp2(shift)
            if factor > 0.0:
                moved = other.statistic.empty()
                moved.merge(other.statistic)
                moved.decay(factor)
                self.statistic.merge(moved)
        self._merged(other)


def _columns(rows: Any, width: int) -> tuple[FloatArray, ...]:
    """The columns of a sequence of tuples as float arrays."""
    table = np.array(list(rows), dtype=np.float64).reshape(-1, width)
    return tuple(np.ascontiguousarray(table[:, column]) for column in range(width))


def _never_learned(x: float, y: float, w: float) -> str:
    return f"nothing equal to (coordinate {x!r}, label {y:g}, weight {w!r}) is held; unlearn only what was learned"
