"""`Items`: the impressions or outcomes of one request, in columns if all are plain, and each alone otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from streamcal.errors import InputError
from streamcal.kernels.common.fast_path import plain_levels
from streamcal.kernels.pending.pending_table import plain_ids
from streamcal.live import issued
from streamcal.live.issued import Id, Keys
from streamcal.parameters.types import FloatArray
from streamcal.serving.reading import KEYS, RefusedError, check_id, check_keys, parsed
from streamcal.serving.settings import LONGEST_TEXT


class Impression(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An impression as JSON has it."""

    id: str | int
    score: float
    t: float | UnsetType | None = UNSET
    keys: dict[str, str | int | None] | UnsetType | None = UNSET
    version: str | int | UnsetType | None = UNSET
    w: float | UnsetType | None = UNSET


class Resolved(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An outcome as JSON has it."""

    id: str | int
    y: bool | int
    t: float | UnsetType | None = UNSET
    w: float | UnsetType | None = UNSET


DECODERS: dict[bool, Any] = {True: msgspec.json.Decoder(list[Impression]), False: msgspec.json.Decoder(list[Resolved])}


class Columns(NamedTuple):
    """Items whose values are plain: none needs a check of its own, but of its ranges."""

    sent: list[Any]  #: ids as the client sent them
    ids: list[Id]
    values: FloatArray  #: scores or labels
    t: FloatArray | None  #: NaN where there is none
    w: FloatArray | None  #: NaN where there is none
    keys: list[Keys | None] | None
    version: Id | None


class Items:
    """The items of a list.

    Parameters
    ----------
    count : int
    columns : Columns or None
        Of items that are all plain.
    rows : callable
        Returns the items as JSON has them.
    ids : pyarrow.Array, optional
        Those of a stream of Arrow.
    """

    def __init__(self, count: int, columns: Columns | None, rows: Callable[[], Sequence[Any]], ids: Any = None) -> None:
        self.count, self.columns, self.ids = count, columns, ids
        self._rows, self._read = rows, None if columns is not None else rows()

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, place: int) -> Any:
        if self._read is None:
            self._read = self._rows()
        return self._read[place]


def items_of(
    body: bytes, issue: bool, most: int, max_keys: int, require_names: Callable[[Any], None], *, columns: bool
) -> Items:
    """Read a list of JSON, in columns if that is wanted and possible; `RefusedError` for anything else.

    `require_names` raises an `InputError` for keys that have a field under another name.
    """
    if columns:
        try:
            items = DECODERS[issue].decode(body)
            plain = columns_of(items, body, issue, max_keys, require_names) if len(items) <= most else None
        except (msgspec.MsgspecError, UnicodeDecodeError, InputError, RecursionError):
            plain = None  # the checks of each item say what is wrong
        if plain is not None:
            return Items(len(items), plain, lambda: msgspec.to_builtins(items))
    rows = parsed(body)
    if not isinstance(rows, list):
        raise RefusedError(422, "the body is no list; give a list of objects", "body")
    require_few(len(rows), most)
    return Items(len(rows), None, lambda: rows)


def require_few(count: int, most: int) -> None:
    """Raise `RefusedError` for more items than a list may have."""
    if count > most:
        raise RefusedError(422, f"{count} items are too many; give at most {most}", "body")


def columns_of(
    items: Sequence[Any], body: bytes, issue: bool, max_keys: int, require_names: Callable[[Any], None]
) -> Columns | None:
    """Return decoded items in columns; None or `InputError` if they need the checks of each.

    A text that has as many colons as there are keys gives no key twice.
    """
    sent = [item.id for item in items]
    fields = {"t": [item.t for item in items], "w": [item.w for item in items]}
    if issue:
        fields |= {"keys": [item.keys for item in items], "version": [item.version for item in items]}
    present = {name: len(items) - column.count(UNSET) for name, column in fields.items()}
    optional = {name: fields[name] for name, number in present.items() if number}
    keys = [None if levels is UNSET else levels for levels in optional["keys"]] if "keys" in optional else None
    number = 2 * len(items) + sum(present.values()) + sum([len(levels) for levels in keys or () if levels])
    if body.count(b":") != number and len(KEYS.findall(body.decode())) != number:
        return None
    if not body.isascii() and not all([value.isascii() for value in sent if value.__class__ is str]):
        return None
    values = [item.score for item in items] if issue else [item.y for item in items]
    versions = {None if version is UNSET else version for version in optional.get("version", (None,))}
    return plain_columns(
        sent,
        np.array(values, dtype=np.float64),
        _numbers(optional.get("t")),
        _numbers(optional.get("w")),
        keys,
        versions,
        max_keys if issue else None,
        require_names,
    )


def plain_columns(
    sent: list[Any],
    values: FloatArray,
    t: FloatArray | None,
    w: FloatArray | None,
    keys: list[Any] | None,
    versions: set[Any],
    max_keys: int | None,
    require_names: Callable[[Any], None],
) -> Columns | None:
    """Return columns with ids and levels in their own form, of outcomes without `max_keys`.

    None or `InputError` where one cannot be used, or where versions differ.
    """
    ids = plain_ids(sent, _own_id)
    if max_keys is None:
        plain = bool(((values == 0.0) | (values == 1.0)).all())
        return Columns(sent, ids, values, t, w, None, None) if plain else None
    if len(versions) > 1:
        return None
    version = next(iter(versions), None)
    levels = None
    if keys is not None:
        levels = plain_levels(keys, LONGEST_TEXT, max_keys, partial(_own_keys, max_keys, require_names))
    return Columns(sent, ids, values, t, w, levels, None if version is None else _own_id(version))


def _own_id(value: Any) -> Id:
    whole = check_id(value)
    return issued.check_id(value if whole is None else whole)


def _own_keys(max_keys: int, require_names: Callable[[Any], None], value: Any) -> Keys | None:
    check_keys(value, max_keys)
    require_names(value)
    return issued.check_keys(value)


def _numbers(column: list[Any] | None) -> FloatArray | None:
    """Return a column of numbers, NaN for none; None without any."""
    if column is None:
        return None
    return np.array([math.nan if value is None or value is UNSET else value for value in column], dtype=np.float64)
