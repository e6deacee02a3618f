"""Streams of Arrow as bodies and answers of lists: a row is an item, a column is a field."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from streamcal.errors import InputError
from streamcal.names import did_you_mean
from streamcal.parameters.types import FloatArray
from streamcal.serving.items import Columns, Items, plain_columns, require_few
from streamcal.serving.reading import RefusedError
from streamcal.serving.settings import LONGEST_TEXT
from streamcal.stream.arrow import pyarrow as pa

MEDIA_TYPE = "application/vnd.apache.arrow.stream"
#: What a stream ends with.
END = b"\xff\xff\xff\xff\0\0\0\0"
#: Kinds of messages, and fields of their tables (`Message.fbs` of Arrow).
SCHEMA, DICTIONARY, ROWS = 1, 2, 3
KIND, HEADER, LENGTH, DATA, COMPRESSION = 1, 2, 0, 1, 3
#: Columns that each row needs, and those that may be null or left out, for impressions and for outcomes.
NEEDED = {True: ("id", "score"), False: ("id", "y")}
FIELDS = {True: ("id", "score", "t", "keys", "version", "w"), False: ("id", "y", "t", "w")}
#: Columns of answers; the last four are null unless a row is refused.
REFUSED = ("status", "error", "where", "allowed")
ISSUED, KNOWN = ("id", "p", "version", *REFUSED), ("id", "known", "contradicts", *REFUSED)
TEXTS = (pa.types.is_string, pa.types.is_large_string)


def read(body: bytes, issue: bool, most: int, max_keys: int, require_names: Callable[[Any], None]) -> Items:
    """Read a stream of at most `most` rows; `RefusedError` for one that is cut off, compressed or has other columns.

    `require_names` is that of `items_of`.
    """
    try:
        if not body.endswith(END):
            raise pa.ArrowInvalid("it does not end as a stream does, and may be cut off")
        require_few(_rows_of(body), most)
        with pa.ipc.open_stream(body, options=pa.ipc.IpcReadOptions(use_threads=False)) as stream:
            _require_columns(stream.schema, issue, max_keys)
            table = stream.read_all()
        table.validate(full=True)  # offsets of texts, which are read next
        table = table.combine_chunks()
        _require_small(table, max_keys)
        columns = _columns(table, issue, max_keys, require_names)
        return Items(len(table), columns, lambda: _dicts(table), table["id"])
    except (pa.ArrowException, OSError, UnicodeDecodeError, struct.error, EOFError, IndexError) as error:
        text = " ".join(str(error).partition(";")[0].split())[:200]
        raise RefusedError(400, f"the body is no stream of Arrow: {text}; give all of its bytes", "body") from None


def _rows_of(body: bytes) -> int:
    """Return the number of rows of a stream, before anything is decoded; `RefusedError` for compressed ones."""
    rows = 0
    messages = pa.ipc.MessageReader.open_stream(body)
    for message in _messages(messages):
        data = message.metadata.to_pybytes()
        top = struct.unpack_from("<I", data)[0]
        kind, table = data[_field(data, top, KIND)], _table(data, top, HEADER)
        if kind == DICTIONARY:
            table = _table(data, table, DATA)
        if kind in (DICTIONARY, ROWS):
            if _field(data, table, COMPRESSION):
                text = "the buffers of the stream are compressed; write it without compression"
                raise RefusedError(415, text, "body")
            place = _field(data, table, LENGTH)
            rows += struct.unpack_from("<q", data, place)[0] if place and kind == ROWS else 0
    return rows


def _messages(reader: Any) -> Iterator[Any]:
    while True:
        try:
            yield reader.read_next_message()
        except StopIteration:
            return


def _field(data: bytes, table: int, number: int) -> int:
    """Return the place of a field in a table of FlatBuffers, 0 if it has none."""
    layout = table - struct.unpack_from("<i", data, table)[0]
    at = 4 + 2 * number
    if at >= struct.unpack_from("<H", data, layout)[0]:
        return 0
    offset = struct.unpack_from("<H", data, layout + at)[0]
    return table + offset if offset else 0


def _table(data: bytes, table: int, number: int) -> int:
    """Return the place of a table that a field of another one refers to."""
    place = _field(data, table, number)
    if not place:
        raise pa.ArrowInvalid("a message has no content")
    return int(place + struct.unpack_from("<I", data, place)[0])


def _require_columns(schema: Any, issue: bool, max_keys: int) -> None:
    """Raise `RefusedError` unless all columns are known, there once and of a possible type."""
    known, needed = FIELDS[issue], NEEDED[issue]
    for name in schema.names:
        if name not in known:
            text = f"column {name[:60]!a} is unknown; known are {', '.join(known)}{did_you_mean(name, known)}"
            raise RefusedError(422, text, ascii(name[:60]).strip("'"))
        if schema.names.count(name) > 1:
            raise RefusedError(400, f"the column {name} is given twice; give it once", name)
        kind, allowed = schema.field(name).type, _allowed(name)
        if not _possible(name, kind):
            raise RefusedError(422, f"column {name} of type {str(kind)[:60]} is not possible; give {allowed}", name)
        if name == "keys" and pa.types.is_struct(kind) and kind.num_fields > max_keys:
            raise RefusedError(422, f"{kind.num_fields} keys are not possible; give at most {max_keys}", name)
    for name in needed:
        if name not in schema.names:
            raise RefusedError(422, f"{name} is missing; give {', '.join(needed)}", name)


def _require_small(table: Any, max_keys: int) -> None:
    """Raise `RefusedError` for a stream that is larger as objects: few bytes may refer to a long text many times."""
    for name in table.column_names:
        for chunk in table[name].chunks:
            for part in _parts(chunk):
                texts = part.dictionary.to_pylist() if pa.types.is_dictionary(part.type) else []
                if any([isinstance(text, str) and len(text) > LONGEST_TEXT for text in texts]):
                    raise RefusedError(422, f"a text is too long; give at most {LONGEST_TEXT} characters", name)
                if name == "keys" and len(part) > len(table) * max_keys:
                    raise RefusedError(422, f"a row has too many keys; give at most {max_keys}", name)


def _parts(column: Any) -> list[Any]:
    """Return the arrays of levels of a column of keys, or the column alone."""
    if pa.types.is_map(column.type):
        return [column.items]
    if pa.types.is_struct(column.type):
        return [column.field(k) for k in range(column.type.num_fields)]
    return [column]


def _allowed(name: str) -> str:
    if name in ("id", "version"):
        return "texts or integers"
    if name == "keys":
        return "structs, or maps of texts, with texts or integers as levels"
    return "booleans or numbers" if name == "y" else "numbers, of a time its seconds since 1970"


def _possible(name: str, kind: Any) -> bool:
    if name == "keys":
        if pa.types.is_map(kind):
            return _is_text(kind.key_type) and _is_level(kind.item_type)
        fields = [kind.field(k) for k in range(kind.num_fields)] if pa.types.is_struct(kind) else []
        names = [field.name for field in fields]
        return bool(names) and len(set(names)) == len(names) and all([_is_level(field.type) for field in fields])
    if name in ("id", "version"):
        return _is_level(kind)
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind) or (name == "y" and pa.types.is_boolean(kind)))


def _is_text(kind: Any) -> bool:
    return any([is_one(kind) for is_one in TEXTS])


def _is_level(kind: Any) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(_is_text(kind) or pa.types.is_integer(kind))


def _columns(table: Any, issue: bool, max_keys: int, require_names: Callable[[Any], None]) -> Columns | None:
    """Return the rows in columns; None if they have to be checked one by one."""
    value = NEEDED[issue][1]
    if table["id"].null_count or table[value].null_count:
        return None
    names = table.column_names
    numbers = {name: _numbers(table[name]) for name in (value, "t", "w") if name in names}
    for name in ("t", "w"):  # NaN stands for null from here on
        if name in numbers and np.isfinite(numbers[name]).sum() + table[name].null_count < len(table):
            return None
    sent = table["id"].to_pylist()
    if not all([value.isascii() for value in sent if value.__class__ is str]):
        return None
    keys = _keys(table["keys"]) if "keys" in names else None
    versions = set(table["version"].to_pylist()) if "version" in names else {None}
    try:
        most = max_keys if issue else None
        return plain_columns(
            sent, numbers[value], numbers.get("t"), numbers.get("w"), keys, versions, most, require_names
        )
    except InputError:  # the check of each row says which
        return None


def _numbers(column: Any) -> FloatArray:
    """Return a column of numbers, NaN for null."""
    return np.ascontiguousarray(column.to_numpy(), dtype=np.float64)


def _keys(column: Any) -> list[Any]:
    """Return levels by field of each row; `RefusedError` for a map with a field twice."""
    rows = column.to_pylist()
    if not pa.types.is_map(column.type):
        return rows
    keys = [None if row is None else dict(row) for row in rows]
    for place, (row, levels) in enumerate(zip(rows, keys, strict=True)):
        if row is not None and len(row) > len(levels or {}):
            text = "a field is given twice; give each field one level"
            raise RefusedError(400, text, f"[{place}].keys")
    return keys


def _dicts(table: Any) -> list[dict[str, Any]]:
    """Return the rows as JSON has them: without what is null and not needed."""
    columns = {name: table[name].to_pylist() for name in table.column_names if name != "keys"}
    if "keys" in table.column_names:
        columns["keys"] = _keys(table["keys"])
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def written(items: Items, answers: Sequence[Any], errors: Sequence[dict[str, Any]], issue: bool) -> bytes:
    """Write answers as a stream: null in a row that is refused, which has `status`, `error`, `where` and `allowed`."""
    ids = _sent_ids(items)
    if issue:
        p: Any = pa.array([None if answer is None else answer.p for answer in answers], pa.float64())
        versions = [None if answer is None or answer.version is None else str(answer.version) for answer in answers]
        columns = {"id": ids, "p": p, "version": pa.array(versions, pa.string())}
    else:
        known = {name: [None if answer is None else getattr(answer, name) for answer in answers] for name in KNOWN[1:3]}
        columns = {"id": ids, **{name: pa.array(column, pa.bool_()) for name, column in known.items()}}
    by_row = {error["index"]: error for error in errors}
    for name in REFUSED:
        kind = pa.int16() if name == "status" else pa.string()
        values = [by_row[k][name] if k in by_row else None for k in range(len(answers))] if errors else None
        columns[name] = pa.nulls(len(answers), kind) if values is None else pa.array(values, kind)
    table, sink = pa.table(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def _sent_ids(items: Items) -> Any:
    """Return ids as the client gave them: as texts, if there are texts or numbers of more than 63 bits."""
    if items.ids is not None:
        return items.ids
    sent = [] if items.columns is None else items.columns.sent
    if items.columns is None:
        sent = [item.get("id") if isinstance(item, dict) else None for item in (items[k] for k in range(len(items)))]
    ids = [value if type(value) in (str, int) else None for value in sent]
    if all([value is None or (type(value) is int and -(2**63) <= value < 2**63) for value in ids]):
        return pa.array(ids, pa.int64())
    return pa.array(
        [None if value is None else str(value).encode("utf-8", "replace").decode() for value in ids], pa.string()
    )
