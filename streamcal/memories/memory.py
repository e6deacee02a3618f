"""`Memory`: the memory of `Forever`, and the base class of the others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamcal.errors import ClockError, StateError
from streamcal.kernels.common.fast_path import Door
from streamcal.parameters.prior import PseudoObservations
from streamcal.parameters.scales import Scale
from streamcal.parameters.spans import in_shorter_unit, shorter_unit
from streamcal.parameters.types import FloatArray
from streamcal.states import Field, Reader, Rows, as_list, attribute, ensure, load_fields, unread, whole, write_fields
from streamcal.statistics.base import Piece, Statistic

#: A coordinate as memories keep it: a number, a tuple of numbers where there are several scores, or a tuple of tuples
#: (of texts and numbers) where an observation has its own labels. Memories only compare and hash coordinates.
Coordinate: TypeAlias = float | tuple[Any, ...]


#: The type of the statistic.
StatisticT = TypeVar("StatisticT", bound=Statistic)

#: Relative rounding error of the total weight of a prior, summed in another order and rescaled.
PRIOR_ROUNDING = 1e-9
#: If an observation this many times heavier than all others leaves a window, the relative error of the remaining sums
#: may exceed 1e-10, and they are rebuilt.
OUTWEIGHING = 1e6
#: The same relative to the lightest observation held. Its score may be that of the leaving one; the weight that is left
#: at this score may then have a relative error of 1e-6.
OUTWEIGHING_ONE = 1e10


#: The most rows of a batch that a compiled loop takes at once: it may hold the GIL for as long.
PIECE = 4096


class Memory(Generic[StatisticT]):
    """A memory that keeps every observation (`Forever`), and the base class of the others.

    `statistic` is in units that `as_of` returns; read it through `present`. `version` changes whenever it does, so that
    a solved map can be cached. `missed` counts retractions of observations that were already forgotten, `late`
    observations that arrived too late to be kept. All operations cost what they cost in the statistic; no memory beside
    it.
    """

    #: Whether `as_of` is always 1 and never changes the statistic.
    steady: ClassVar[bool] = True
    #: Whether a prior loses weight, so that its pseudo-observations may be dropped.
    forgets_prior: ClassVar[bool] = False
    #: The latest time learned, and how far ahead of it a time may be: of memories by time.
    _clock: float
    _max_jump: float = math.inf

    def __init__(self, statistic: StatisticT, prior: PseudoObservations | None) -> None:
        self.statistic = statistic
        self.prior = prior
        if prior is not None:
            statistic.hold(prior)
        # The part of the statistic that is due to the prior; `n` and `count` leave it out.
        self._prior_weight, self._prior_count = (0.0, 0) if prior is None else (statistic.n, statistic.count)
        self.version = 0
        self.missed = 0
        self.late = 0

    @property
    def clock(self) -> float:
        """Under decay, the latest time learned or, by count, the number of observations learned; otherwise 0."""
        return 0.0

    @property
    def n(self) -> float:
        """Total weight held, without the prior, in units of a new observation."""
        return self._learned()

    def _learned(self) -> float:
        """Return the stored weight without the prior's share."""
        return 0.0 if self.holds_nothing else max(self._beside_the_prior(), 0.0)

    def _beside_the_prior(self) -> float:
        return self.statistic.n - self._prior_weight * self._prior_growth()

    def _prior_growth(self) -> float:
        """Return the stored weight of a pseudo-observation of weight 1, relative to the weight at the start."""
        return 1.0

    @property
    def count(self) -> int:
        """Number of observations held as of the clock, without those of the prior."""
        self.as_of(None)
        return self.statistic.count - self._prior_count

    @property
    def holds_nothing(self) -> bool:
        """Whether nothing but the prior is held.

        Both count and weight are compared: the count, because an observation may weigh 1e-60; the weight, because decay
        may have dropped as many rows of the prior as there are observations.
        """
        if self.statistic.count != self._prior_count:
            return False
        return self._prior_count == 0 or self._beside_the_prior() <= PRIOR_ROUNDING * self.statistic.n

    def present(self, t: float | None) -> StatisticT:
        """Return the statistic as of `t`, in units of an observation at `t`; read-only until the next change."""
        return self.statistic.present(self.as_of(t))

    def as_of(self, t: float | None) -> float:
        """Bring the statistic to time `t`, and return the stored weight of an observation of weight 1 at `t`."""
        return 1.0

    def require_times(self, t: FloatArray) -> None:
        """Raise `ClockError` if one of these times, in order, is too far ahead to be learned."""
        if self._max_jump < math.inf:
            require_jumps(self._clock, t, self._max_jump)

    def require_time(self, t: float) -> None:
        """Raise `ClockError` if the time of one observation is too far ahead to be learned."""
        if self._max_jump < math.inf and t - self._clock > self._max_jump:
            self.require_times(np.array([t]))

    def learn(self, x: Coordinate, y: float, w: float, t: float) -> None:
        """Learn one observation; only timed memories read `t`, and refuse one that is too far ahead."""
        self.statistic.update(x, y, w)
        self.version += 1

    def door(self, scale: Scale) -> Callable[[Any, Any, Any], bool] | None:
        """Return a compiled function that learns an unchecked score, label and weight, without a time.

        It returns whether it did: where an argument has to be converted or checked further, it changes nothing. The
        caller increments `version`. None if the statistic encodes labels and has no such function of its own.
        """
        plain = type(self).learn is Memory.learn
        lo, hi = scale.identity_range
        own = self.statistic.fast_update(lo, hi) if plain and lo <= hi else None
        if own is not None or type(self.statistic).labelled is not Statistic.labelled:
            return own
        return Door(self.statistic.update if plain else lambda x, y, w: self.learn(x, y, w, 0.0), scale)

    def pieces(self, x: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray) -> Iterator[Piece] | None:
        """Yield the rows in pieces; the caller learns each piece in the statistic before it requests the next one.

        The state after the last piece equals that of a loop of `learn` without rows of weight 0, to the last bit. The
        result is None where a loop is needed: in a window by time, and in one that may have to recompute its sums after
        it loses an observation of much larger weight. After each piece `version` rises by 1, before
        anything else.
        """
        return self._pieces(x, y, w) if type(self).learn is Memory.learn else None

    def _pieces(self, x: FloatArray, y: FloatArray, w: FloatArray) -> Iterator[Piece]:
        nothing = np.empty(0)
        for start in range(0, len(x), PIECE):
            rows = slice(start, min(start + PIECE, len(x)))
            yield Piece(rows, w[rows], np.broadcast_to(1.0, w[rows].shape), (nothing, nothing, nothing), PIECE)
            self.version += 1

    def learn_many(self, x: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray) -> None:
        """Learn observations, in order."""
        self.statistic.update_many(x, y, w)
        self.version += 1

    def unlearn(self, x: Coordinate, y: float, w: float, t: float) -> None:
        """Remove one observation; `RetractionError` if it is known that it was never learned."""
        self.statistic.verify(x, y, w)
        self.statistic.unlearn(x, y, w)
        self.version += 1

    def merge(self, other: Memory[StatisticT]) -> None:
        """Add everything held by another memory under the same policy."""
        self.statistic.merge(other.statistic)
        if self.prior is not None:  # both contain it
            self.statistic.release(self.prior)
        self._merged(other)

    def state(self) -> dict[str, Any]:
        """Return plain data that `restore` reads."""
        return write_fields(self._fields())

    def restore(self, state: Any) -> None:
        """Load a saved state into a new memory; `StateError` unless it can be one."""
        self._own_load(**load_fields(self._fields(), state))
        self.version += 1

    def _fields(self) -> dict[str, Field]:
        """Return the fields of `state`."""
        counters = {name: attribute(self, name, whole()) for name in ("missed", "late")}
        return {**counters, **self._own_fields()}

    def _own_fields(self) -> dict[str, Field]:
        """Return the fields that memories of other policies do not have."""
        return {"statistic": Field(unread, self.statistic.state)}

    def _refill(self, entries: list[tuple[Coordinate, float, float]]) -> None:
        """Rebuild the statistic from the prior and these observations, without the accumulated rounding errors."""
        self.statistic.restore(self.statistic.empty().state())
        if self.prior is not None:
            self.statistic.hold(self.prior)
        if entries:
            self.statistic.update_many(*columns(entries, 3))

    def _outweighed(self, w: float, weight: float) -> bool:
        """Return whether a removed observation of weight `w` was far heavier than everything still kept.

        `weight` is that of an observation still kept, or 0. It is compared first, since the total may cost O(k).
        """
        return w > OUTWEIGHING * weight and self.statistic.drifts and w > OUTWEIGHING * self.statistic.n

    def _merged(self, other: Memory[StatisticT]) -> None:
        self.missed += other.missed
        self.late += other.late
        self.version += 1

    def _own_load(self, *_: Any, **own: Any) -> None:
        """Take over own fields as they were read; `StateError` if one contradicts another."""
        self.statistic.restore(own["statistic"])
        ensure(self.statistic.count >= self._prior_count or type(self).forgets_prior, "the prior is not held")


def require_jumps(clock: float, t: FloatArray, most: float) -> None:
    """Raise `ClockError` if one of these times is further ahead than `most` of the latest one before it."""
    if len(t) == 0:
        return
    before = np.maximum.accumulate(np.concatenate(([clock], t)))[:-1]
    with np.errstate(over="ignore"):
        ahead = (t - before > most) & np.isfinite(before)
    if ahead.any():
        row = int(np.argmax(ahead))
        where = f" at place {row}" if len(t) > 1 else ""
        remedy = "drop the observation, repair its unit of time, or give the forgetting policy a larger max_jump"
        if in_shorter_unit(before[row].item()):
            unit = shorter_unit(before[row].item())[1]
            remedy = f"if these are {unit}, give them in seconds (streamcal run: --time-unit); else {remedy}"
        raise ClockError(
            f"time {t[row].item()!r}{where} is {(t[row] - before[row]).item():.4g} ahead of the latest one, "
            f"{before[row].item()!r}, and more than max_jump={most:.4g}: everything held would be forgotten; {remedy}"
        )


def columns(rows: Any, width: int) -> tuple[FloatArray, ...]:
    """Return the columns of a sequence of tuples as float arrays; a column of tuples becomes a matrix."""
    rows = list(rows)
    if not rows:
        return tuple(np.empty(0) for _ in range(width))
    return tuple(_column(values) for values in zip(*rows, strict=True))


def saved_rows(entries: list[tuple[Any, ...]], width: int) -> Rows | list[list[Any]]:
    """Return numbers and coordinates in the form of a state: as columns, unless coordinates are texts."""
    if entries and all(isinstance(part, float) for part in entries[0]):  # as all coordinates are, then
        table = np.fromiter(chain.from_iterable(entries), dtype=np.float64, count=width * len(entries))
        return Rows(list(table.reshape(-1, width).T))
    read = columns(entries, width)
    return [list(entry) for entry in entries] if any(one.dtype == object for one in read) else Rows(read)


def entries(most: int | None = None) -> Reader:
    """Return a reader of `saved_rows` with at most `most` rows, for `saved_columns`."""

    def read(value: Any) -> Rows | list[Any]:
        ensure(isinstance(value, (list, tuple, Rows)), "is no list of rows")
        ensure(most is None or len(value) <= most, f"a list has {len(value)} entries, more than {most}")
        return value

    return read


def saved_columns(rows: Rows | list[Any], width: int) -> tuple[FloatArray, ...]:
    """Return the `columns` of saved entries, the second of any coordinate, the rest numbers; else `StateError`."""
    places = range(width)
    try:
        if isinstance(rows, Rows):
            ensure(len(rows.columns) == width, f"not all rows have {width} entries")
            read = tuple(
                np.asarray(column.array() if isinstance(column, Rows) else column, dtype=np.float64)
                for column in rows.columns
            )
        else:
            right = all(isinstance(row, (list, tuple)) and len(row) == width for row in rows)
            ensure(right, f"not all rows have {width} entries")
            read = columns(rows, width)
    except (TypeError, ValueError, OverflowError):
        raise StateError("not all entries are finite numbers") from None
    for place in places:
        if read[place].dtype != object:
            ensure(np.isfinite(read[place]).all(), "not all numbers are finite")
    return read


def _column(values: tuple[Any, ...]) -> NDArray[Any]:
    """Return numbers, or tuples of numbers, as floats; tuples of tuples (lists, if read from JSON) as objects."""
    first = values[0]
    if isinstance(first, (tuple, list)) and first and isinstance(first[0], (tuple, list)):
        read = values if isinstance(first, tuple) else map(_hashable, values)
        return np.fromiter(read, dtype=object, count=len(values))
    return np.array(values, dtype=np.float64)


def _hashable(plain: Any) -> Any:
    plain = as_list(plain)
    return tuple(map(_hashable, plain)) if isinstance(plain, (list, tuple)) else plain


def coordinates(x: FloatArray) -> list[Coordinate]:
    """Return coordinates as memories store them: the rows of a matrix become tuples, which can be hashed."""
    return x.tolist() if x.ndim == 1 else [tuple(row) for row in x.tolist()]


def never_learned(x: Coordinate, y: float, w: float) -> str:
    """Return the message for an observation to unlearn that was never learned."""
    return f"nothing equal to (coordinate {x!r}, label {y:g}, weight {w!r}) is held; unlearn only what was learned"
