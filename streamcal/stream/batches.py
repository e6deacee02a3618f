"""Batches of consecutive records, in the form in which they came: bytes of a text, or columns of Arrow.

The columns in use are read by column; all others are passed on unread. `rows` reads everything, record by
record, for a batch with something wrong in it; `fields` has the same values by column, for an output of another format.
"""

from __future__ import annotations

import csv
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import repeat
from typing import Any, Self
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.text.text_records import gather_fields, joined_records
from streamcal.parameters.types import FloatArray
from streamcal.stream import arrow
from streamcal.stream.arrow import pyarrow
from streamcal.stream.records import RecordError, line_count

Row = dict[str, Any]
#: Rows of a batch, as an index of its arrays.
Places = slice | NDArray[np.int64]
#: JSON text of fewer records is read by Python: a call of Arrow takes as long.
FEW = 64
#: A letter of an added column's name may be written so in JSON.
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
class TextBatch(Batch):
    """Records of a text, of which `find_records` has filled in the spans."""

    text: memoryview
    spans: NDArray[np.int64]

    def record(self, i: int) -> str:
        """Return the text of a record; bytes that are no UTF-8 are kept as surrogates."""
        return str(self.text[self.spans[i, 0] : self.spans[i, 1]], "utf-8", "surrogateescape")

    def joined(
        self,
        before: Sequence[bytes] = (),
        values: FloatArray | None = None,
        after: bytes = b"\n",
        dropped: int = 0,
        decimal: str = ".",
    ) -> memoryview:
        """Join the records, each without its last `dropped` bytes, with its row of `values`, and with `after`."""
        offsets, texts = arrow.as_text(np.empty(0) if values is None else values.ravel())
        if decimal != ".":
            texts = np.where(texts == ord("."), np.uint8(ord(decimal)), texts)
        return joined_records(self.text, self.spans, dropped, list(before), offsets, texts, after).data

    def take(self, places: Places) -> Self:
        return replace(self, numbers=self.numbers[places], spans=self.spans[places])

    def digest(self, names: Sequence[str], before: int) -> int:
        return crc32(self.joined(), before)


@dataclass(frozen=True)
class CsvBatch(TextBatch):
    """Records of CSV, all with as many fields as there are names.

    `slots` has the number of each used column among the wanted fields of the spans.
    """

    delimiter: str
    slots: dict[str, int]

    @cached_property
    def rows(self) -> list[Row]:
        return [dict(zip(self.names, values, strict=True)) for values in self._split()]

    def fields(self) -> dict[str, Sequence[Any]]:
        columns = zip(*self._split(), strict=True) if len(self) else repeat(())
        return dict(zip(self.names, columns, strict=len(self) > 0))

    def _split(self) -> Iterator[list[str]]:
        """Yield the fields of each record."""
        return csv.reader(map(self.record, range(len(self))), delimiter=self.delimiter, strict=True)

    def lines(self, i: int) -> int:
        return line_count(self.record(i))

    def column(self, name: str) -> Any:
        return arrow.strings(*gather_fields(self.text, self.spans, self.slots[name], True))

    def exact(self, name: str) -> Any:
        return arrow.strings(*gather_fields(self.text, self.spans, self.slots[name], False))


@dataclass(frozen=True)
class JsonBatch(TextBatch):
    """Lines of JSON, an object each.

    `table` has the used columns where Arrow could read them, and `objects` the records where Python has read them.
    """

    table: Any = None
    objects: tuple[Row, ...] | None = None

    @cached_property
    def rows(self) -> list[Row]:
        return [self.row(i) for i in range(len(self))]

    def row(self, i: int) -> Row:
        return json_object(self.record(i)) if self.objects is None else self.objects[i]

    def column(self, name: str) -> Any:
        if self.table is None:
            raise ValueError("the records were not read as a table")
        return self.table.column(name).combine_chunks()

    def take(self, places: Places) -> Self:
        table, objects = self.table, self.objects
        index = np.arange(len(self))[places]
        if table is not None:
            table = table.slice(*_range(places, len(self))) if isinstance(places, slice) else table.take(index)
        if objects is not None:
            objects = tuple(objects[i] for i in index)
        return replace(super().take(places), table=table, objects=objects)

    def mentions(self, names: Iterable[str]) -> bool:
        text = bytes(self.text[self.spans[0, 0] : self.spans[-1, 1]]) if len(self) else b""
        return ESCAPED_LETTER.search(text) is not None or any(f'"{name}"'.encode() in text for name in names)

    def _first_values(self, names: Sequence[str]) -> Row:
        """Return the first value of each key that is not null, of those in the first records."""
        found: Row = dict.fromkeys(names)
        for i in range(min(len(self), FEW)):
            record = json.loads(self.record(i))
            found = {name: record.get(name) if value is None else value for name, value in found.items()}
            if None not in found.values():
                break
        return found

    def read_by_arrow(self, names: Sequence[str]) -> JsonBatch | None:
        """Return this batch with a table of the named columns; None unless Arrow can read every line as an object.

        An object ends in its own line, since a line feed is allowed neither in a string nor between } and {: if every
        line begins and ends with a bracket, and there are as many objects as lines, each line is one.
        """
        data = np.frombuffer(self.text, dtype=np.uint8)
        begins, ends = self.spans[:, 0], self.spans[:, 1]
        if not ((data[begins] == ord("{")) & (data[ends - 1] == ord("}"))).all():
            return None
        reader = arrow.json()
        content = pyarrow.py_buffer(self.text[begins[0] : ends[-1]])
        try:
            schema = pyarrow.schema([(name, _type_of(value)) for name, value in self._first_values(names).items()])
            table = reader.read_json(
                pyarrow.BufferReader(content),
                reader.ReadOptions(use_threads=False, block_size=len(content) + 1),
                reader.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
            )
        except (*arrow.ERRORS, RecursionError):
            return None
        return replace(self, table=table) if len(table) == len(self) else None


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
        some = self.table.slice(*_range(places, len(self))) if isinstance(places, slice) else self.table.take(places)
        return replace(self, numbers=self.numbers[places], table=some)

    def digest(self, names: Sequence[str], before: int) -> int:
        cells = [_cells(self.column(name)) for name in names]
        return crc32(np.ascontiguousarray(np.column_stack(cells)), before)


def json_object(record: str, used: Sequence[str] = ()) -> Row:
    """Parse a line of JSON as an object.

    `RecordError` if it is none, is too deep for Python's parser, or has two values for a key that is `used`.
    """
    try:
        row = json.loads(record)
    except (ValueError, RecursionError) as error:
        reason = f"the line is not valid JSON ({error})"
    else:
        if isinstance(row, dict):
            for name in used:
                if record.count(f'"{name}"') > 1 and _times(name, record) > 1:
                    raise RecordError(f"the line has the key {name!r} twice", "one value for it", record=record)
            return row
        reason = "the line is JSON, but not an object"
    advice = "; jq -c '.[]' writes an array so, an object a line" if record.startswith("[") else ""
    raise RecordError(reason, f'an object such as {{"score": 0.1, "click": 0}}{advice}', record=record)


def _times(name: str, record: str) -> int:
    """Return how often a key is in the object of a line, apart from objects within it."""
    pairs: list[tuple[str, Any]] = json.loads(record, object_pairs_hook=list)
    return sum(key == name for key, _ in pairs)


def _range(places: slice, length: int) -> tuple[int, int]:
    """Return the first place and the number of places of a slice of step 1."""
    start, stop, _ = places.indices(length)
    return start, max(stop - start, 0)


def _type_of(value: Any) -> Any:
    """Return the type of the column with this value of JSON, if all of its values have one type."""
    if isinstance(value, bool):
        return pyarrow.bool_()
    return pyarrow.float64() if isinstance(value, (int, float)) else pyarrow.string()


def _cells(column: Any) -> NDArray[np.uint64]:
    """Return a number for each value of a column, whatever its batch: its bits, or the checksum of its text."""
    if column.type == pyarrow.float64():  # with nulls in this batch or not: a batch with others may not have them
        return arrow.bits_of(column)
    try:
        distinct, places = arrow.codes(column)
    except arrow.ERRORS:  # a type whose values cannot be compared
        return np.array([crc32(repr(value).encode()) for value in arrow.values_of(column)], dtype=np.uint64)
    return np.array([crc32(repr(value).encode()) for value in distinct], dtype=np.uint64)[places]
