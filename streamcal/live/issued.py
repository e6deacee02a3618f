"""`Issued`: a prediction that waits for its label; what ids, versions and spans of time may be; outcomes."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal.errors import InputError
from streamcal.kernels.common.fast_path import plain_keys, plain_levels
from streamcal.kernels.pending.pending_table import plain_ids
from streamcal.live.levels import LONGEST_LEVEL, column_of
from streamcal.live.monitor import segments_of
from streamcal.parameters.keys import LARGEST_WHOLE, canonical
from streamcal.parameters.numbers import real_number
from streamcal.parameters.spans import in_seconds
from streamcal.parameters.types import FloatArray

#: Longer ids and versions are refused, since every state and every event holds them.
LONGEST_ID = 256
#: Seconds: thirty million years.
LONGEST_SPAN = 1e15
#: More keys are refused: an event holds them all.
MOST_KEYS = 64

Id = str | int
Keys = Mapping[str, str | int]


class ConflictError(InputError):
    """An id that is remembered with another score."""


class Issued(NamedTuple):
    """A prediction as it was issued.

    Parameters
    ----------
    id : str or int
        The id of the impression.
    p : float
        The probability that was issued.
    score : float
        The score of the model.
    t : float
        The time of the impression, in seconds.
    version : str, int or None
        The version of the model.
    keys : mapping or None
        Field → level.
    w : float
        The weight of the observation.
    at : float
        The clock of the join: the latest time known when it was issued.
    number : int
        The number of predictions issued before this one.
    """

    id: Id
    p: float
    score: float
    t: float
    version: Id | None = None
    keys: Keys | None = None
    w: float = 1.0
    at: float = 0.0
    number: int = 0


#: Rows that are taken by compiled steps at once, and rows that are taken one by one before these are tried again.
AT_ONCE, RETRIED = 65_536, 8
NO_LABELS = np.empty(0, dtype=np.uint8)


class Rows(NamedTuple):
    """Impressions in columns, as compiled steps take them."""

    ids: list[Id]
    scores: FloatArray
    t: Any  #: an array, or a list of dates
    w: FloatArray
    y: NDArray[np.uint8] = NO_LABELS
    when: FloatArray = np.empty(0)  #: the times of the labels, ∞ for none
    keys: list[Keys | None] | None = None  #: as `check_keys` returns them; None without any

    def upto(self, end: int) -> Rows:
        """Return the rows before one."""
        return Rows(self.ids, self.scores[:end], self.t[:end], self.w[:end], self.y[:end], self.when[:end], self.keys)


class Outcome(NamedTuple):
    """The known outcomes of an impression."""

    #: Whether a positive and a negative outcome came. A positive one prevails, in whatever order they came.
    positive: bool
    negative: bool
    t: float  #: the time of the first positive outcome, or of the first negative one if there is no positive one
    #: With an early window, how late the first positive outcome was known to the join: the cell of its delay in the
    #: curve of delays, 0 for one known in time to be learned early.
    cell: int = 0
    w: float | None = None  #: the weight given with that outcome; None for the weight of the impression

    def and_then(self, positive: bool, t: float, cell: int = 0, w: float | None = None) -> Outcome:
        """Return the outcome with one more: a function of the set of outcomes, not of their order.

        >>> Outcome(False, True, 5.0).and_then(True, 9.0)
        Outcome(positive=True, negative=True, t=9.0, cell=0, w=None)
        """
        if positive == self.positive:
            before = self.t < t or (self.t == t and (w is None or (self.w is not None and self.w >= w)))
            t, w = (self.t, self.w) if before else (t, w)
            cell = min(cell, self.cell)
        elif self.positive:
            t, cell, w = self.t, self.cell, self.w
        return Outcome(self.positive or positive, self.negative or not positive, t, cell, w)


def is_plain(id: str) -> bool:
    """Return whether a text is an id as it is: of usual length, and no number in its first character."""
    return 0 < len(id) <= 64 and not (id[0].isdigit() or id[0] == "-") and id.isprintable()


def ids_of(values: Any) -> list[Id]:
    """Return the canonical form of each id; `InputError` for one that is not possible."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "i" and values.ndim == 1:
        largest = int(np.abs(values).max(initial=0))
        if 0 <= largest <= LARGEST_WHOLE:
            return values.tolist()
    return plain_ids(as_list(values, "ids"), check_id)


def as_list(values: Any, what: str) -> list[Any]:
    """Return a sequence, an array or a column of Arrow or pandas as a list; `InputError` for anything else."""
    if getattr(values, "ndim", 1) != 1:
        raise InputError(f"{what} has shape {values.shape}; give one dimension, shape (n,)")
    for name in ("tolist", "to_pylist"):
        if hasattr(values, name):
            values = getattr(values, name)()
    if isinstance(values, (str, bytes, Mapping)) or not isinstance(values, Iterable):
        raise InputError(f"{what} {reprlib.repr(values)} is of type {type(values).__name__}; give a list or an array")
    return list(values)


def check_id(value: Any, what: str = "id") -> Id:
    """Return the canonical form of a text of 1 to 256 characters, a whole number or a UUID; `InputError` otherwise."""
    id = None if isinstance(value, (bool, np.bool_)) else canonical(value)
    if isinstance(id, int) or (isinstance(id, str) and 0 < len(id) <= LONGEST_ID and id.isprintable()):
        return id
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    raise InputError(
        f"{what} {shown} is not possible; give a printable text of 1 to {LONGEST_ID} characters, a whole number or a "
        "UUID"
    )


def check_keys(keys: Any) -> dict[str, str | int] | None:
    """Return a copy of keys without missing levels, None if none are left; raise `InputError` for what is no level."""
    if keys is None or (isinstance(keys, Mapping) and not keys):
        return None
    plain: dict[str, str | int] | None = plain_keys(keys, LONGEST_LEVEL)
    checked = dict(segments_of(keys)) if plain is None else plain
    if len(checked) > MOST_KEYS:
        raise InputError(f"{len(checked)} keys are not possible; give at most {MOST_KEYS}")
    return checked or None


def levels_of(keys: Sequence[Any], check: Callable[[Any], Keys | None] = check_keys) -> list[Keys | None]:
    """Return what `check` returns of each; those that are plain are not copied."""
    return plain_levels(list(keys), LONGEST_LEVEL, MOST_KEYS, check)


def rows_of(keys: Any, length: int) -> list[Any]:
    """Return the levels of each of this many rows, from field → column or from what each row has.

    Raise `InputError` for another length or type. What a row has is not checked.
    """
    if isinstance(keys, Mapping):
        columns = [column_of(name, values, length) for name, values in keys.items()]
        return [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)] if columns else [None] * length
    if isinstance(keys, (str, bytes)) or not isinstance(keys, Iterable):
        shown = reprlib.repr(keys)
        raise InputError(f"keys {shown} are no levels; give a column for each field, or a mapping for each row")
    rows = as_list(keys, "keys")
    if len(rows) != length:
        raise InputError(f"{len(rows)} keys are not possible for {length} rows; give one for each, or None")
    return rows


def seconds(span: Any, name: str, or_zero: bool = False) -> float:
    """Return a span of time in seconds: a text such as "6h", a `timedelta`, or a number above 0, or 0 if allowed.

    `InputError` for anything else.
    """
    value = in_seconds(span, name)
    allowed = f"{'0, ' if or_zero else ''}a text such as '6h', a timedelta, or a number of seconds above 0"
    above = -1.0 if or_zero else 0.0
    return float(real_number(value, name, allowed, above=above, least=0.0, below=LONGEST_SPAN))
