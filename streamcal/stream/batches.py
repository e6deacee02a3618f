"""Batches of consecutive records, in columns of Arrow: those of a table, fields of CSV as bytes, or lines of JSON.

The columns in use are read by column; all others are passed on unread. `rows` reads everything, record by
record, for a batch with something wrong in it; `fields` has the same values by column, for an output of another format.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Any, Self
from zlib import crc32

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamcal.stream import arrow
from streamcal.stream.arrow import pyarrow
from streamcal.stream.records import RecordError, as_read, line_count

Row = dict[str, Any]
#: Rows of a batch, as an index of its arrays.
Places = slice | NDArray[np.int64]
#: A letter of a key may be written so in JSON.
ESCAPED_LETTER = re.compile(rb"\\u00[4-7]")


@dataclass(frozen=True)
class Batch(ABC):
    """Consecutive records: the i-th is data row `numbers[i]` of the file, counted from 1.

    Numbers have gaps where records could not be read and were passed to the handler of bad rows.
    """

    names: tuple[str, ...]
    numbers: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    @abstractmethod
    def rows(self) -> list[Row]:
        """The records as dicts."""

    def fields(self) -> dict[str, Sequence[Any]] | None:
        """Return the values of `rows` by column, without dicts; None if records may have different columns."""
        return None

    def row(self, i: int) -> Row:
        """Return the i-th record; `RecordError` if it turns out to be unreadable."""
        return self.rows[i]

    def lines(self, i: int) -> int:
        """Return the number of lines of the i-th record in its file."""
        return 1

    def readable(self) -> list[Row]:
        """Return the records that can be read."""
        rows = []
        for i in range(len(self)):
            with suppress(RecordError):
                rows.append(self.row(i))
        return rows

    @abstractmethod
    def column(self, name: str) -> Any:
        """Return a column declared as used, as an array of Arrow; one of `arrow.ERRORS` if that is not possible."""

    def exact(self, name: str) -> Any:
        """Return a column of names, such as levels: as `column`, with spaces around fields of CSV."""
        return self.column(name)

    @abstractmethod
    def take(self, places: Places) -> Self:
        """Select some of the records."""

    @abstractmethod
    def digest(self, names: Sequence[str], before: int) -> int:
        """Return a checksum (CRC-32) of the records after those of `before`; for tables, of the named columns."""

    def after(self, row: int) -> Self:
        """Return the records with higher numbers."""
        return self.take(slice(int(np.searchsorted(self.numbers, row, side="right")), None)) if row else self

    def mentions(self, names: Iterable[str]) -> bool:
        """Return whether a record may have a column of one of these names that is not in `names`."""
        return False


@dataclass(frozen=True)
class JsonBatch(Batch):
    """Lines of JSON as a binary column, and a table of the columns in use if the values of each have one type."""

    texts: Any
    table: Any = None

    @cached_property
    def rows(self) -> list[Row]:
        return [*map(json_object, self.texts.to_pylist())]

    def row(self, i: int) -> Row:
        return json_object(self.texts[i].as_py())

    def column(self, name: str) -> Any:
        if self.table is None:
            raise ValueError("the records were not read as a table")
        return self.table.column(name)

    def take(self, places: Places) -> Self:
        table = None if self.table is None else arrow.rows_of(self.table, places)
        return replace(self, numbers=self.numbers[places], texts=arrow.rows_of(self.texts, places), table=table)

    def mentions(self, names: Iterable[str]) -> bool:
        text = bytes(arrow.content(self.texts))
        return ESCAPED_LETTER.search(text) is not None or any(_quoted(name) in text for name in names)

    def digest(self, names: Sequence[str], before: int) -> int:
        return crc32(arrow.content(arrow.joined([self.texts, b"\n"], b"")), before)


@dataclass(frozen=True)
class TableBatch(Batch):
    """Rows of a table of Arrow."""

    table: Any

    @cached_property
    def rows(self) -> list[Row]:
        columns = self.fields()
        return [dict(zip(self.names, fields, strict=True)) for fields in zip(*columns.values(), strict=True)]

    def fields(self) -> dict[str, Sequence[Any]]:
        return {name: self._values(name) for name in self.names}

    def _values(self, name: str) -> list[Any]:
        column = self.table.column(self.names.index(name))
        try:
            return arrow.values_of(column)
        except arrow.ERRORS as error:
            raise RecordError(f"a value of the column cannot be read: {error}", column=name) from None

    def column(self, name: str) -> Any:
        column = self.table.column(self.names.index(name))
        return column.dictionary_decode() if pyarrow.types.is_dictionary(column.type) else column

    def take(self, places: Places) -> Self:
        return replace(self, numbers=self.numbers[places], table=arrow.rows_of(self.table, places))

    def digest(self, names: Sequence[str], before: int) -> int:
        cells = [_cells(self.column(name)) for name in names]
        return crc32(np.ascontiguousarray(np.column_stack(cells)), before)


@dataclass(frozen=True)
class CsvBatch(TableBatch):
    """Records of CSV: a table of their fields as bytes, spaces included."""

    def _values(self, name: str) -> list[Any]:
        return [as_read(value) for value in self.table.column(self.names.index(name)).to_pylist()]

    def row(self, i: int) -> Row:
        return {name: as_read(column[i].as_py()) for name, column in zip(self.names, self.table.columns, strict=True)}

    def lines(self, i: int) -> int:
        return line_count(",".join(self.row(i).values()) + ".")

    def column(self, name: str) -> Any:
        return arrow.stripped(self.exact(name))

    def exact(self, name: str) -> Any:
        return self.table.column(self.names.index(name))

    def digest(self, names: Sequence[str], before: int) -> int:
        return crc32(arrow.csv_text(self.table.columns, b","), before)


@lru_cache
def _decoder(count: int, names: tuple[str, ...]) -> Callable[[bytes], Any]:
    """Return a parser of objects of JSON that keeps the values of these keys alone, as `f0`, `f1` and so on."""
    fields = [f"f{i}" for i in range(count)]
    declared = [(field, object, msgspec.UNSET) for field in fields]
    renamed = dict(zip(fields, names, strict=True))
    return msgspec.json.Decoder(msgspec.defstruct("Kept", declared, rename=renamed, gc=False)).decode


def json_table(text: bytes, records: Sequence[bytes], names: tuple[str, ...]) -> Any:
    """Read the named columns of the lines of a text of JSON, without blank ones.

    None where a line may not be an object, or a column has no one type.
    """
    try:
        rows = [*map(_decoder(len(names), names), records)]
        columns, escaped = [], ESCAPED_LETTER.search(text) is not None
        for i, name in enumerate(names):
            values = [*map(attrgetter(f"f{i}"), rows)]
            missing = values.count(msgspec.UNSET)
            if missing:
                values = [None if value is msgspec.UNSET else value for value in values]
            twice = escaped or text.count(_quoted(name)) > len(values) - missing
            if twice and any(_is_twice(name, record) for record in records):
                return None
            columns.append(arrow.column_of(values))
        return pyarrow.RecordBatch.from_arrays(columns, names=list(names))
    except (msgspec.MsgspecError, RecursionError, *arrow.ERRORS):
        return None


def json_object(record: bytes, used: Sequence[str] = ()) -> Row:
    """Parse a line of JSON as an object.

    `RecordError` if it is none, is too deep for Python's parser, or has two values for a key that is `used`.
    """
    text = str(record, "utf-8", "surrogateescape")
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = f"the line is not valid JSON ({error})"
    else:
        if isinstance(row, dict):
            for name in used:
                if _is_twice(name, record):
                    raise RecordError(f"the line has the key {name!r} twice", "one value for it", record=text)
            return row
        reason = "the line is JSON, but not an object"
    advice = "; jq -c '.[]' writes an array so, an object a line" if text.startswith("[") else ""
    raise RecordError(reason, f'an object such as {{"score": 0.1, "click": 0}}{advice}', record=text)


def _is_twice(name: str, record: bytes) -> bool:
    """Return whether a key is twice in the object of a line, apart from objects within it."""
    if record.count(_quoted(name)) < 2:
        return False
    pairs: list[tuple[str, Any]] = json.loads(record.decode("utf-8", "surrogateescape"), object_pairs_hook=list)
    return sum(key == name for key, _ in pairs) > 1


def _quoted(name: str) -> bytes:
    return f'"{name}"'.encode("utf-8", "surrogateescape")


def _cells(column: Any) -> NDArray[np.uint64]:
    """Return a number for each value of a column, whatever its batch: its bits, or the checksum of its text."""
    if column.type == pyarrow.float64():  # with nulls in this batch or not: a batch with others may not have them
        return arrow.bits_of(column)
    try:
        distinct, places = arrow.codes(column)
    except arrow.ERRORS:  # a type whose values cannot be compared
        return np.array([crc32(repr(value).encode()) for value in arrow.values_of(column)], dtype=np.uint64)
    return np.array([crc32(repr(value).encode()) for value in distinct], dtype=np.uint64)[places]
