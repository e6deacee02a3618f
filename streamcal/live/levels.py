"""Fields and levels of segments: which there can be, and how they are read from keys, columns and states."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from streamcal.errors import InputError
from streamcal.kernels.common.fast_path import LONGEST_LEVEL as LONGEST_LEVEL
from streamcal.kernels.segments.delay_variance import SCALES
from streamcal.kernels.segments.delay_variance import WIDTH as DELAY_WIDTH
from streamcal.kernels.segments.level_members import APART, DOUBLES, FADED, LONG, MEMBERS, OWN, SECOND, SHORT, WIDTH
from streamcal.kernels.segments.segment_chain import ALL_TRAFFIC
from streamcal.parameters.keys import canonical
from streamcal.parameters.types import FloatArray
from streamcal.states import HEAVIEST, ROUNDING, Reader, ensure, listed, numbers, row, text, whole

#: A field, or several whose levels together are one level.
Field: TypeAlias = str | tuple[str, ...]
#: A level of a field, or of a tuple of fields.
Level: TypeAlias = str | int | tuple[str | int, ...]

#: A name as similar as this to a missing one, as `difflib` measures it, is taken for a slip.
SIMILAR = 0.75
#: More fields are refused: an observation takes a step in each.
MOST_FIELDS = 64
#: Classes of pandas whose objects represent a missing value, and are not equal to themselves or cannot be compared.
NULLS = ("NAType", "NaTType")
#: No sum of curvatures is larger: 2⁵³ observations of weight 1e6, at log-odds of 16.
LARGEST_SUM = 1e25
#: Weights in single precision sum to 1 up to this.
ROUNDING_OF_SINGLES = 1e-5
#: No mean is larger, in log-odds: steps end near ± 36 + ln 1e6, and τ² may have grown since.
LARGEST_MEAN = 1e9


class KeysError(InputError):
    """Keys that have a field under another name."""


def check_fields(by: Any) -> tuple[Field, ...]:
    """Return the fields given, with lists as tuples.

    Raise `InputError` unless they are texts and tuples of at least two texts, none of them twice, and at least one.

    Examples
    --------
    >>> check_fields(["advertiser", ["advertiser", "placement"]])
    ('advertiser', ('advertiser', 'placement'))
    """
    allowed = 'give fields and tuples of fields, such as by=["advertiser", ("advertiser", "placement")]'
    if isinstance(by, str) or not isinstance(by, Iterable):
        raise InputError(f"by={by!r} is not possible; {allowed}")
    fields = tuple(tuple(field) if isinstance(field, list) else field for field in by)
    for field in fields:
        parts = parts_of(field)
        if isinstance(field, tuple) and len(set(map(str, parts))) < max(len(parts), 2):
            raise InputError(f"field {field!r} is not possible; {allowed}")
        for part in parts:
            check_field(part)
    if not 1 <= len(fields) <= MOST_FIELDS or len({frozenset(parts_of(field)) for field in fields}) < len(fields):
        raise InputError(f"by={by!r} has no field, one twice, or more than {MOST_FIELDS}; {allowed}")
    return fields


def check_field(field: Any) -> str:
    """Check a field's name, and return it."""
    if not isinstance(field, str) or len(field) > LONGEST_LEVEL:
        raise InputError(f"field {str(field)[:60]!r} is not possible; give a text, such as 'campaign'")
    return field


def check_level(field: str, level: Any) -> str | int:
    """Return the canonical form of a text or a whole number that a state can hold."""
    plain = canonical(level)
    if isinstance(plain, int) or (isinstance(plain, str) and len(plain) <= LONGEST_LEVEL):
        return plain
    raise InputError(f"level {str(level)[:60]!r} of {field!r} is not possible; give a text or a whole number")


def parts_of(field: Field) -> tuple[str, ...]:
    """Return the names of which a field consists."""
    return field if isinstance(field, tuple) else (field,)


def names_of(fields: Iterable[Field]) -> tuple[str, ...]:
    """Return the names of which some fields consist, each once.

    >>> names_of(["a", ("a", "b")])
    ('a', 'b')
    """
    return tuple(dict.fromkeys(name for field in fields for name in parts_of(field)))


def level_of(name: str, value: Any) -> str | int | None:
    """Return a level in the form in which it is kept, `canonical`; None for a missing level, which "" is too.

    Raise `InputError` for anything but a text or a whole number.

    Examples
    --------
    >>> level_of("device", "a"), level_of("device", 3.0), level_of("device", "3"), level_of("device", float("nan"))
    ('a', 3, 3, None)
    >>> level_of("device", "") is None
    True
    """
    if value is None or type(value).__name__ in NULLS or (isinstance(value, (float, np.floating)) and value != value):
        return None
    level = check_level(name, value)
    return None if level == "" else level


def level_in(field: Field, keys: Any) -> Level | None:
    """Return the field's level in the keys, None if it, or a part of it, is missing."""
    if isinstance(field, str):
        return level_of(field, keys.get(field))
    return whole_level([level_of(part, keys.get(part)) for part in field])


def levels_in(fields: Sequence[Field], names: Sequence[str], keys: Any) -> list[Any]:
    """Return each field's level in the keys, None if missing; `names` are the names of which the fields consist.

    Raise `InputError` for keys that are no mapping, what is no level, and a field under another name.

    Examples
    --------
    >>> levels_in(["device", ("device", "page")], ["device", "page"], {"device": "a", "page": 1.0})
    ['a', ('a', 1)]
    """
    if not isinstance(keys, Mapping):
        shown = str(keys)[:60]
        raise InputError(f"keys {shown!r} are no mapping; give fields and levels, as keys={{'campaign': 'c17'}}")
    levels = [level_in(field, keys) for field in fields]
    if None in levels:
        require_names(names, keys)
    return levels


def checked_level(field: Field, level: Any) -> Level:
    """Return the level that a caller gives for a field in the form in which it is kept; `InputError` unless it is one.

    Examples
    --------
    >>> checked_level("page", "7"), checked_level(("page", "device"), (7, "a"))
    (7, (7, 'a'))
    """
    parts, apart = parts_of(field), level if isinstance(field, tuple) else (level,)
    if not isinstance(apart, tuple) or len(apart) != len(parts):
        raise InputError(f"level {level!r} of {field!r} is not possible; give a tuple, a level for each field")
    checked = [level_of(part, value) for part, value in zip(parts, apart, strict=True)]
    whole = whole_level(checked) if isinstance(field, tuple) else checked[0]
    if whole is None:
        raise InputError(f"level {level!r} of {field!r} is missing; give one that can be there")
    return whole


def require_names(names: Sequence[str], keys: Any) -> None:
    """Raise an `InputError` where keys lack a field and have another one in its place.

    That is a name like it, or only other names. A field that is there without a level, as None, is not missing.
    """
    missing = tuple(name for name in names if name not in keys)
    others = tuple(str(name) for name in keys if name not in names)
    if missing and others:
        _require_names(missing, others, len(missing) == len(names))


@functools.lru_cache(maxsize=1024)
def _require_names(missing: tuple[str, ...], others: tuple[str, ...], none: bool) -> None:
    for name in missing:
        like = difflib.get_close_matches(name, others, 1, SIMILAR)
        if like or none:
            shown = ", ".join(map(repr, like or others[:3]))
            raise KeysError(f"keys have no {name!r}, but {shown}; give {name!r}, with None where its level is missing")


def whole_level(parts: Sequence[str | int | None]) -> Level | None:
    """Return the tuple of the parts of a level; None if one of them is missing."""
    return None if None in parts else tuple(parts)  # type: ignore[arg-type]


def column_of(name: str, values: Any, length: int) -> list[str | int | None]:
    """Return the levels in a column of this length, with a check of each distinct value. O(length).

    Raise `InputError` for another length or shape, or a level that is not possible.

    Examples
    --------
    >>> column_of("device", ["a", 1.0, None], 3)
    ['a', 1, None]
    """
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InputError(f"keys[{name!r}] is {values!r}; give a column of {length} levels")
    plain = values.to_list() if hasattr(values, "to_list") else values.tolist() if hasattr(values, "tolist") else values
    column = list(plain) if isinstance(plain, Iterable) else []
    if len(column) != length:
        raise InputError(f"keys[{name!r}] has {len(column)} levels; give one for each of {length} observations")
    try:
        distinct = dict.fromkeys(column)
    except (TypeError, ValueError):  # a list is no key of a dict
        place, level = next((i, level) for i, level in enumerate(column) if not _can_be_key(level))
        shown = str(level)[:60]
        raise InputError(f"keys[{name!r}][{place}] = {shown} is not possible; give a text or a whole number") from None
    known = {}
    for value in distinct:
        try:
            known[value] = level_of(name, value)
        except InputError as error:
            raise InputError(f"keys[{name!r}][{column.index(value)}]: {error}") from None
    if all(level is value for value, level in known.items()):
        return column
    return [known[value] for value in column]


def _can_be_key(value: Any) -> bool:
    try:
        hash(value)
    except (TypeError, ValueError):
        return False
    return True


def columns_of(fields: Sequence[Field], keys: Any, length: int) -> list[list[Any]]:
    """Return the levels of each field, from columns of its names (a mapping or a DataFrame).

    A field has no levels if a column of one of its names is missing.
    """
    if not (isinstance(keys, Mapping) or hasattr(keys, "columns")):
        raise InputError(f"keys {str(keys)[:60]!r} are no mapping; give fields and columns of levels")
    keys = keys if isinstance(keys, Mapping) else {name: keys[name] for name in keys.columns}
    require_names(names_of(fields), keys)
    by_name = {name: column_of(name, keys[name], length) for name in names_of(fields) if name in keys}
    nothing: list[Any] = [None] * length
    by_field = []
    for field in fields:
        columns = [by_name.get(name, nothing) for name in parts_of(field)]
        joined = isinstance(field, tuple)
        by_field.append([whole_level(row) for row in zip(*columns, strict=True)] if joined else columns[0])
    return by_field


def level_reader(field: Field) -> Reader:
    """Return a reader of a field's level in a state."""
    return row(*[_part] * len(field)) if isinstance(field, tuple) else _part


_TEXT, _WHOLE = text(LONGEST_LEVEL), whole(-(2**53), 2**53)


def _part(value: Any) -> str | int:
    """Read a text or a whole number in a state."""
    return _TEXT(value) if isinstance(value, str) else _WHOLE(value)


def weights_reader(*sizes: int) -> Reader:
    """Return a reader of the weights of mixtures of these sizes, one after the other."""
    every = numbers(sum(sizes), least=0.0, most=1.0 + ROUNDING)

    def read(value: Any) -> FloatArray:
        weights = every(value)
        totals = np.add.reduceat(weights, np.cumsum([0, *sizes[:-1]]))
        ensure((abs(totals - 1.0) <= ROUNDING).all() and (weights > 0.0).all(), "weights of members are not possible")
        return weights

    return read


def field_state(field: Field, most: int, absent: int = 0) -> Reader:
    """Return a reader of a field's state: weights of members, sums over levels, levels, and their numbers.

    A further `absent` levels, which the sums count, are in a store.
    """
    return _levels_state(weights_reader(MEMBERS, SECOND), level_reader(field), most, absent)


def all_traffic_state(value: Any) -> tuple[Any, ...]:
    """Read the state of all traffic, which is a field with one level and without a first order."""
    weights, sums, levels, rows = _levels_state(weights_reader(SECOND), whole(ALL_TRAFFIC, ALL_TRAFFIC), 1, 0)(value)
    ensure(not rows[:, [*range(1, 1 + APART), DOUBLES]].any(), "all traffic has a first order")
    return weights, sums, levels, rows


def _levels_state(weights_of: Reader, level: Reader, most: int, absent: int) -> Reader:
    parts = row(
        weights_of,
        numbers(2, least=0.0),
        listed(level, most=most),
        numbers(None, WIDTH, least=-HEAVIEST, most=HEAVIEST),
    )

    def read(value: Any) -> tuple[Any, ...]:
        weights, sums, levels, rows = parts(value)
        ensure(len(rows) == len(levels) == len(set(levels)), "the numbers of levels are not one row for each level")
        require_levels(rows, sums, absent)
        return weights, sums, levels, rows

    return read


def delay_state(value: Any) -> FloatArray:
    """Read the state of a `DelayVariance`."""
    rows = numbers(None, DELAY_WIDTH, least=-HEAVIEST, most=HEAVIEST)(value)
    counts = rows[:, :2]
    ensure(len(rows) <= SCALES and (counts >= 0.0).all() and (counts % 1.0 == 0.0).all(), "counts are not possible")
    ensure((rows[:, 2:4] >= 0.0).all() and (rows[:, 8:] >= 0.0).all(), "variances are not possible")
    return rows


def require_levels(rows: FloatArray, sums: FloatArray, absent: int) -> None:
    """Raise `StateError` unless these can be the numbers of levels, and the sums of their terms."""
    own, singles = rows[:, OWN:], rows[:, DOUBLES:]
    ensure((rows[:, 0] > 0.0).all(), "a level has no weight")
    ensure((own > 0.0).all() and (abs(own.sum(axis=1) - 1.0) <= ROUNDING_OF_SINGLES).all(), "weights are not possible")
    ensure((singles == singles.astype(np.float32)).all(), "a variance or a weight is not in single precision")
    _require_sums(rows[:, 1 : 1 + APART], LONG, SHORT)
    _require_sums(rows[:, 1 + APART : DOUBLES], LONG)
    require_terms(rows[:, DOUBLES:OWN], sums, absent)


def require_terms(terms: FloatArray, sums: FloatArray, absent: int) -> None:
    """Raise `StateError` for the terms C of levels, which the sums count, with those of `absent` further levels."""
    ensure((terms >= 0.0).all(), "a level has no variance")
    total = terms.sum(axis=0)
    within = (sums >= total - ROUNDING * (1.0 + total)) if absent else abs(sums - total) <= ROUNDING * (1.0 + total)
    ensure(within.all(), "sums over levels are not those of the levels")


def _require_sums(rows: FloatArray, *memories: float) -> None:
    """Raise `StateError` for numbers of one order: H and E of offsets, the first with all memory, and the line."""
    offsets = 2 * (1 + len(memories))
    h, e, line = rows[:, 0:offsets:2], rows[:, 1:offsets:2], rows[:, offsets:]
    h11, h12, h22 = line[:, :3].T
    informed = np.column_stack([h[:, 0], h11, h22])
    ensure(((informed >= 0.0) & (informed <= LARGEST_SUM)).all(), "a sum of curvatures is not possible")
    for s, memory in zip(h[:, 1:].T, memories, strict=True):
        ensure(((s >= 0.0) & (s <= memory * FADED * (1.0 + ROUNDING))).all(), "what a memory holds is not possible")
    h = np.minimum(h, [np.inf, *memories])
    ensure((h12**2 <= h11 * h22 * (1.0 + ROUNDING) + ROUNDING).all(), "curvatures of a line are not possible")
    ensure((np.abs(e) <= LARGEST_MEAN * (h + 1.0)).all(), "the mean of an offset is not possible")
    ensure((np.abs(line[:, 3:]) <= LARGEST_MEAN * (h11 + h22 + 1.0)[:, np.newaxis]).all(), "a line is not possible")
