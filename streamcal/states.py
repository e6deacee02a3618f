"""Saved states: their fields, each with its reader and its writer, the checksum over the whole, and the version.

A state is plain data that may come from anywhere: a damaged file, an edited one, another program. What keeps a state (a
statistic, a memory, a learner) declares each field once, as a `Field`: how it is written, and its reader, a function
from what JSON gave to the value that is used, which raises `StateError` for anything else. Sizes are compared with what
the object has before anything is allocated, and no kernel is given a number that no reader has seen.

The checksum is over the values, not over the text: a state may be written by another JSON library, in another order or
as a document of a database.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamcal.errors import StateError
from streamcal.kernels.common.fast_path import HEAVIEST as HEAVIEST

#: The version of the format.
VERSION = 1
#: The names of the version and of the checksum in a state; states that are parts of another have neither.
FORMAT, CHECK = "streamcal", "check"
#: Hexadecimal digits of a checksum: 64 bits.
CHECK_DIGITS = 16

#: The largest float; an integer may be larger.
LARGEST_FLOAT = sys.float_info.max
#: No weight that is held is smaller: decayed weights below 1e-150 are dropped, and a retraction may leave their
#: rounding error.
LIGHTEST = 1e-170
#: No number of observations is larger; floats count no further.
MOST = 2**53
#: Relative rounding error of sums of up to a million observations, by which fields of one state may differ.
ROUNDING = 1e-6

FloatArray: TypeAlias = NDArray[np.float64]
#: A function from plain data to the value that is used; it raises `StateError`.
Reader: TypeAlias = Callable[[Any], Any]
#: The fields of a record by name.
Fields: TypeAlias = Mapping[str, Reader]


def ensure(condition: object, message: str) -> None:
    """Raise `StateError` with this message unless the condition is true."""
    if not condition:
        raise StateError(message)


class Rows:
    """A list of rows of numbers as its columns: arrays of one length, or `Rows` where entries of rows are rows.

    Where a state is as good with a list, `plain` and the readers below make it one.
    """

    def __init__(self, columns: Sequence[NDArray[Any] | Rows]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns[0])

    def tolist(self) -> list[list[Any]]:
        """Return the rows as lists of numbers."""
        return list(map(list, zip(*(column.tolist() for column in self.columns), strict=True)))

    def array(self) -> NDArray[Any]:
        """Return the rows as one array."""
        return np.stack([column.array() if isinstance(column, Rows) else column for column in self.columns], axis=1)


def in_columns(rows: Sequence[Sequence[Any]]) -> Rows | list[Any]:
    """Return rows of equal lengths as `Rows`, which take fewer bytes and are read faster."""
    return Rows([np.array(column) for column in zip(*rows, strict=True)]) if rows else []


def as_list(value: Any) -> Any:
    """Return the list that an array or `Rows` represents; any other value as it is."""
    return value.tolist() if isinstance(value, (np.ndarray, Rows)) else value


def plain(value: Any) -> Any:
    """Return data as `json` writes them: with a list in place of each array and `Rows`."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, tuple):
        return tuple([plain(item) for item in value])
    return as_list(value)


def _require(condition: object, value: Any, message: str) -> None:
    """Raise `StateError` beginning with the value, which is formatted only on failure: it may be a whole state."""
    if not condition:
        raise StateError(f"{_shown(value)} {message}")


# -- readers -----------------------------------------------------------------------------------------------------------


def whole(least: int = 0, most: int = MOST) -> Reader:
    """Make a reader of a whole number in [least, most]; it accepts the float that some JSON parsers make of one."""

    def read(value: Any) -> int:
        kind = type(value)
        _require(kind is int or (kind is float and value.is_integer()), value, "is no whole number")
        if not least <= value <= most:  # the message is written only then, as below
            raise StateError(f"{_shown(value)} is not from {least} to {most}")
        return int(value)

    return read


def number(least: float = -math.inf, most: float = math.inf) -> Reader:
    """Make a reader of a finite number in [least, most], returned as a float."""

    def read(value: Any) -> float:
        _require(type(value) in (float, int), value, "is no number")
        _require(abs(value) <= LARGEST_FLOAT, value, "is not finite")
        if not least <= value <= most:
            raise StateError(f"{_shown(value)} is not from {least:g} to {most:g}")
        return float(value)

    return read


def numbers(*shape: int | None, least: float = -math.inf, most: float = math.inf, copy: bool = True) -> Reader:
    """Make a reader of an array of finite numbers in [least, most] of this shape, in which None is any length.

    Without `copy` the reader may return the array in the state, which others use or which is read-only: only for
    owners that never write to it.
    """

    def read(value: Any) -> FloatArray:
        array = _array(value, shape, copy)
        if any(wanted not in (None, own) for own, wanted in zip(array.shape, shape, strict=True)):
            raise StateError(f"expected numbers of shape {shape}, not {array.shape}")
        if array.size:
            low, high = float(array.min()), float(array.max())  # NaN if one is
            ensure(low >= -LARGEST_FLOAT and high <= LARGEST_FLOAT, "not all numbers are finite")
            if not (least <= low and high <= most):
                raise StateError(f"not all numbers are from {least:g} to {most:g}")
        return array

    return read


def _array(value: Any, shape: tuple[int | None, ...], copy: bool) -> FloatArray:
    """Return a list (of lists) of numbers as floats, with as many dimensions as `shape`."""
    _require(isinstance(value, (list, tuple, np.ndarray, Rows)), value, "is no list")
    if not len(value):
        return np.empty((0, *[wanted or 0 for wanted in shape[1:]]))
    no_numbers = "not all entries of a list are numbers, or they are not finite"
    ensure(not _has_text(value, len(shape)), no_numbers)
    try:
        array = value.array() if isinstance(value, Rows) else np.asarray(value)
    except ValueError:
        raise StateError("a list of numbers has rows of several lengths") from None
    ensure(array.dtype.kind in "fiu", no_numbers)
    ensure(array.ndim == len(shape), f"numbers have {array.ndim} dimensions and not {len(shape)}")
    return array.astype(np.float64, copy=copy)


def _has_text(value: Any, dimensions: int) -> bool:
    """Return whether a list (of lists) is too deep or contains text, which NumPy would pad to the longest entry."""
    if not isinstance(value, (list, tuple)):
        return False
    if dimensions == 0:
        return True
    kinds = set(map(type, value))
    if not kinds.isdisjoint((str, bytes)):
        return True
    return not kinds.isdisjoint((list, tuple)) and any(_has_text(item, dimensions - 1) for item in value)


def counts(length: int | None = None, least: int = 0) -> Reader:
    """Make a reader of an array of whole numbers of at least `least`, of this length."""
    in_range = numbers(length, least=least, most=MOST, copy=False)

    def read(value: Any) -> NDArray[np.int64]:
        array = in_range(value)
        ensure((array == np.floor(array)).all(), "not all counts are whole numbers")
        return array.astype(np.int64)

    return read


def text(longest: int, pattern: str = ".*") -> Reader:
    """Make a reader of a text of at most `longest` characters that matches the pattern."""
    expression = re.compile(pattern, re.DOTALL)

    def read(value: Any) -> str:
        _require(isinstance(value, str) and len(value) <= longest, value, f"is no text up to {longest} long")
        _require(expression.fullmatch(value), value, "is not possible")
        return str(value)

    return read


def hexadecimal(digits: int) -> Reader:
    """Make a reader of an integer written as the text of `hex` with at most `digits` digits."""
    read = text(digits + 3, "-?0x[0-9a-f]+")
    return lambda value: int(read(value), 16)


def maybe(reader: Reader) -> Reader:
    """Make a reader of None or of what `reader` reads."""
    return lambda value: None if value is None else reader(value)


def flag(value: Any) -> bool:
    """Read True or False."""
    _require(isinstance(value, bool), value, "is neither true nor false")
    return bool(value)


def unread(value: Any) -> Any:
    """Return any value unread: a part that its owner reads."""
    return value


def listed(reader: Reader, length: int | None = None, most: int | None = None) -> Reader:
    """Make a reader of a list whose entries `reader` reads, of this length or at most `most` entries."""

    def read(value: Any) -> list[Any]:
        value = as_list(value)
        _require(isinstance(value, (list, tuple)), value, "is no list")
        if length is not None and len(value) != length:
            raise StateError(f"a list has {len(value)} entries and not {length}")
        if most is not None and len(value) > most:
            raise StateError(f"a list has {len(value)} entries, more than {most}")
        return [reader(item) for item in value]

    return read


def row(*readers: Reader) -> Reader:
    """Make a reader of a list whose entries are read by these readers, one each."""

    def read(value: Any) -> tuple[Any, ...]:
        value = as_list(value)
        _require(isinstance(value, (list, tuple)), value, "is no list")
        if len(value) != len(readers):
            raise StateError(f"a list has {len(value)} entries and not {len(readers)}")
        return tuple([reader(item) for reader, item in zip(readers, value, strict=True)])

    return read


#: Reads the state of a `WeightScale`.
weight_scale_state = row(number(0.0, HEAVIEST), number(0.0, HEAVIEST))


def record(fields: Fields, optional: Fields | None = None) -> Reader:
    """Make a reader of a dict with these fields and no others; an absent optional field is read as None."""
    known = {**fields, **(optional or {})}

    def read(value: Any) -> dict[str, Any]:
        _require(isinstance(value, dict), value, "is no record")
        if missing := [name for name in fields if name not in value]:
            raise StateError(f"{', '.join(missing)} missing")
        if unknown := [str(name) for name in value if name not in known]:
            raise StateError(f"unknown fields {', '.join(unknown)[:80]}")
        return {name: _named(name, reader, value[name]) if name in value else None for name, reader in known.items()}

    return read


@dataclass(slots=True)
class Field:
    """A field of a saved state: how what was written is read, and how it is written.

    `read` is its reader. `write` returns its value as plain data, or None where an optional field is left out. `load`
    takes over what was read; None where the owner takes over several fields together.
    """

    read: Reader
    write: Callable[[], Any]
    load: Callable[[Any], None] | None = None
    optional: bool = False


def attribute(owner: Any, name: str, read: Reader) -> Field:
    """Return the field of a number or text that is an attribute of an object."""
    return Field(read, lambda: getattr(owner, name), lambda value: setattr(owner, name, value))


def part(owner: Any, read: Reader) -> Field:
    """Return the field of an object whose `load` takes the entries of what its `state` returns."""
    return Field(read, owner.state, lambda value: owner.load(*value))


def write_fields(fields: Mapping[str, Field]) -> dict[str, Any]:
    """Return the values of fields by name, without the optional ones that are None."""
    return {name: value for name, field in fields.items() if (value := field.write()) is not None or not field.optional}


def read_fields(fields: Mapping[str, Field], state: Any) -> dict[str, Any]:
    """Invert `write_fields`: every field as its reader returns it; None for an optional one that is absent."""
    every = {name: field.read for name, field in fields.items() if not field.optional}
    return record(every, {name: field.read for name, field in fields.items() if field.optional})(state)


def load_fields(fields: Mapping[str, Field], state: Any) -> dict[str, Any]:
    """Read the fields of a state and load those that have a `load`, in order; the others are returned as read."""
    read = read_fields(fields, state)
    for name, field in fields.items():
        if field.load is not None:
            field.load(read.pop(name))
    return read


def _named(name: str, reader: Reader, value: Any) -> Any:
    """Read the value of a field; errors begin with its name."""
    try:
        return reader(value)
    except StateError as error:
        raise StateError(f"{name}: {error}") from None


def _shown(value: Any) -> str:
    """Return a value as a text for a message, shortened."""
    part = value[:60] if isinstance(value, (str, bytes, list, tuple)) else value
    shown = repr(part) if not isinstance(value, int) or value.bit_length() < 256 else "a number of many digits"
    return shown if len(shown) <= 60 else shown[:57] + "..."


# -- conditions on several fields --------------------------------------------------------------------------------------


def require_rising(x: NDArray[Any], what: str) -> None:
    """Raise `StateError` unless the numbers rise strictly."""
    ensure((x[1:] > x[:-1]).all(), f"{what} do not rise")


def require_weights(weight: FloatArray, positive: FloatArray, peak: float) -> None:
    """Raise `StateError` unless these are possible weights and positive weights of rows with largest weight `peak`."""
    ensure(((weight == 0.0) | ((weight >= LIGHTEST) & (weight <= HEAVIEST))).all(), "a weight is not possible")
    ensure((positive >= 0.0).all(), "a positive weight is below 0")
    ensure((positive <= weight * (1.0 + ROUNDING)).all(), "a positive weight is above the weight")
    ensure((weight <= peak * (1.0 + ROUNDING)).all(), "a weight is above the largest ever")


# -- checksum and version ----------------------------------------------------------------------------------------------


def checksum(state: Mapping[str, Any]) -> str:
    """Return the checksum of a state, computed without its own entry.

    Notes
    -----
    Of the canonical JSON of the values: keys in order, no blanks, and 1.0 as 1, since some programs that keep JSON
    write no difference. Cost: that of writing the state.
    """
    content = {name: value for name, value in state.items() if name != CHECK}
    written = json.dumps(content, sort_keys=True, separators=(",", ":"))
    for end in ",]}":
        written = written.replace(f".0{end}", end)
    return hashlib.blake2b(written.encode(), digest_size=CHECK_DIGITS // 2).hexdigest()


def signed(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state with its version and its checksum."""
    content = {**state, FORMAT: VERSION}
    return {**content, CHECK: checksum(content)}


def require_whole(state: Mapping[str, Any]) -> None:
    """Raise a `StateError` unless a state has the version of today and its checksum is right."""
    version = state[FORMAT]
    if version != VERSION or isinstance(version, bool):
        raise StateError(f"state version {_shown(version)} cannot be read, only {VERSION}")
    try:
        right = state.get(CHECK) == checksum(state)
    except (TypeError, ValueError, RecursionError) as error:
        raise StateError(f"the state is no plain data: {error}") from None
    if not right:
        raise StateError(
            "the state does not match its checksum: it was damaged, or changed by something other than streamcal; "
            "use a copy that was not"
        )
