"""The footer of a Parquet file, read and written so that row groups can be added to a file.

Arrow writes a file from its beginning to its end. A row group that it has written to a file of its own is in the
bytes before the footer of that file, which contains its places; in another file the places differ.

The footer is a `FileMetaData` in the compact protocol of Thrift: structures are lists of (number of the field, its
type, value) here, whatever fields they have.

References
----------
https://github.com/apache/parquet-format, src/main/thrift/parquet.thrift; https://github.com/apache/thrift,
doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

import os
from typing import Any, Self

MAGIC = b"PAR1"
#: The length of the footer in four bytes, and `MAGIC`.
TAIL = 8
TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)
#: Numbers of fields: of `FileMetaData`, `RowGroup`, `ColumnChunk` and `ColumnMetaData`.
NUM_ROWS, ROW_GROUPS = 3, 4
COLUMNS, GROUP_ROWS, GROUP_OFFSET, ORDINAL = 1, 3, 5, 7
META_DATA = 3
CHUNK_OFFSETS = (2, 4, 6)
COLUMN_OFFSETS = (9, 10, 11, 14)
#: The largest `ORDINAL`, which is optional.
MOST_ORDINALS = 2**15

Fields = list[tuple[int, int, Any]]


class Footer:
    """The footer of a file to which row groups are added.

    Parameters
    ----------
    content : bytes
        A Parquet file, or its end from the footer on.
    """

    def __init__(self, content: bytes | memoryview) -> None:
        length = int.from_bytes(content[-TAIL:-4], "little")
        self.size = length + TAIL
        self._fields = _Reader(content[len(content) - self.size : len(content) - TAIL]).struct()
        #: The row groups, each as the footer has it.
        self._groups = [_written(STRUCT, group) for group in _value(self._fields, ROW_GROUPS)[1]]

    @classmethod
    def of(cls, path: str) -> Self:
        """Read the footer of a file with this name."""
        with open(path, "rb") as file:
            file.seek(-TAIL, os.SEEK_END)
            length = int.from_bytes(file.read(TAIL)[:-4], "little")
            file.seek(-TAIL - length, os.SEEK_END)
            return cls(file.read())

    def add(self, other: Footer, moved: int) -> None:
        """Add the row groups of another file, whose bytes were moved by this many."""
        rows = 0
        for group in _value(other._fields, ROW_GROUPS)[1]:
            self._groups.append(_written(STRUCT, _moved(group, moved, len(self._groups))))
            rows += _value(group, GROUP_ROWS)
        self._fields = _changed(self._fields, {NUM_ROWS: _value(self._fields, NUM_ROWS) + rows})

    def without_groups(self) -> Footer:
        """Return this footer before any row group."""
        empty: Footer = object.__new__(Footer)
        empty._fields = _changed(self._fields, {NUM_ROWS: 0})
        empty._groups = []
        return empty

    def written(self) -> bytes:
        """Return the end of the file: footer, its length, and `MAGIC`."""
        groups = _list_head(len(self._groups), STRUCT) + b"".join(self._groups)
        content = _written(STRUCT, _changed(self._fields, {ROW_GROUPS: groups}))
        return content + len(content).to_bytes(4, "little") + MAGIC


def _value(fields: Fields, number: int) -> Any:
    return next(value for field, _, value in fields if field == number)


def _changed(fields: Fields, values: dict[int, Any]) -> Fields:
    return [(number, kind, values.get(number, value)) for number, kind, value in fields]


def _moved(group: Fields, by: int, ordinal: int) -> Fields:
    """Return a row group with all its places moved, and with its number."""

    def move(fields: Fields, numbers: tuple[int, ...]) -> Fields:
        # 0 means a place that is not used
        return [(n, kind, value + by if n in numbers and value else value) for n, kind, value in fields]

    kind, chunks = _value(group, COLUMNS)
    columns = [
        _changed(moved, {META_DATA: move(_value(moved, META_DATA), COLUMN_OFFSETS)})
        for moved in (move(chunk, CHUNK_OFFSETS) for chunk in chunks)
    ]
    group = _changed(move(group, (GROUP_OFFSET,)), {COLUMNS: (kind, columns), ORDINAL: ordinal})
    return [field for field in group if field[0] != ORDINAL or ordinal < MOST_ORDINALS]


class _Reader:
    """Reads values of the compact protocol from bytes."""

    def __init__(self, content: bytes | memoryview) -> None:
        self._content = bytes(content)
        self._at = 0

    def struct(self) -> Fields:
        fields: Fields = []
        number = 0
        while head := self._bytes(1)[0]:
            kind = head & 15
            number = number + (head >> 4) if head >> 4 else self._signed()
            fields.append((number, kind, self.value(kind) if kind > FALSE else None))
        return fields

    def value(self, kind: int) -> Any:
        """Read a value of this type; a list as (type of its items, items), a map as its bytes."""
        if kind in (TRUE, FALSE, BYTE):
            return self._bytes(1)
        if kind in (I16, I32, I64):
            return self._signed()
        if kind == DOUBLE:
            return self._bytes(8)
        if kind == BINARY:
            return self._bytes(self._unsigned())
        if kind in (LIST, SET):
            head = self._bytes(1)[0]
            length = self._unsigned() if head >> 4 == 15 else head >> 4
            return head & 15, [self.value(head & 15) for _ in range(length)]
        if kind == STRUCT:
            return self.struct()
        raise ValueError(f"type {kind} is not one of those in the footer of a Parquet file")

    def _bytes(self, length: int) -> bytes:
        found = self._content[self._at : self._at + length]
        if len(found) < length:
            raise ValueError("the footer of the Parquet file ends too early")
        self._at += length
        return found

    def _unsigned(self) -> int:
        value = shift = 0
        while (byte := self._bytes(1)[0]) >= 128:
            value, shift = value | (byte & 127) << shift, shift + 7
        return value | byte << shift

    def _signed(self) -> int:
        value = self._unsigned()
        return value >> 1 ^ -(value & 1)


def _written(kind: int, value: Any) -> bytes:
    """Encode a value as `_Reader` reads it; bytes are an encoded value, except for `BINARY`."""
    if kind == BINARY:
        return _unsigned(len(value)) + bytes(value)
    if isinstance(value, bytes):
        return value
    if kind in (I16, I32, I64):
        return _unsigned(value << 1 if value >= 0 else (-value << 1) - 1)
    if kind in (LIST, SET):
        items, values = value
        return _list_head(len(values), items) + b"".join(_written(items, one) for one in values)
    content, last = bytearray(), 0
    for number, field, inner in value:
        step = number - last
        content += bytes([step << 4 | field]) if 0 < step < 16 else bytes([field]) + _written(I16, number)
        content += b"" if inner is None else _written(field, inner)
        last = number
    return bytes(content) + b"\0"


def _list_head(length: int, kind: int) -> bytes:
    return bytes([length << 4 | kind]) if length < 15 else bytes([0xF0 | kind]) + _unsigned(length)


def _unsigned(value: int) -> bytes:
    content = bytearray()
    while value >= 128:
        content.append(value & 127 | 128)
        value >>= 7
    content.append(value)
    return bytes(content)
