"""Writing tables: Parquet files, which can be continued, and files of Arrow.

Arrow writes a Parquet file from its beginning to its end. Until then its rows are beside it, in a stream of Arrow:
`rows_beside` is its name, and it holds all rows wherever it exists.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, BinaryIO

from streamcal.stream import arrow
from streamcal.stream.arrow import ERRORS, pyarrow
from streamcal.stream.records import UTF_8, RecordError, shown

#: Rows of a row group of a Parquet file: small groups make files large and slow to read.
GROUP_ROWS = 1 << 17
#: Bytes of a row group in memory: wide rows make groups of fewer rows.
GROUP_BYTES = 1 << 26


class TableWriter:
    """Writes tables of Arrow to a file that is open at the place where they are to begin.

    The name `path` is for messages, and for the rows beside a Parquet file; .arrows is a stream of Arrow, other names
    of Arrow are files. `types` are types of Arrow by column; others are those of the first values written. `append_at`
    is the number of rows of a Parquet file after which it is continued.

    `close` writes a Parquet file from the rows beside it. A process that is killed before its end leaves these rows,
    from which the next writer continues. In a pipe a Parquet file is written group by group.
    """

    def __init__(
        self,
        path: str,
        file: BinaryIO,
        format: str,
        names: Sequence[str],
        types: Mapping[str, Any] | None,
        append_at: int | None,
    ) -> None:
        self.path = path
        #: Rows written, also those of a file that is continued.
        self.rows = 0
        self._file = file
        self._parquet = format == "parquet"
        self._names = tuple(names)
        self._types = dict(types or {})
        self._waiting: list[Any] = []  # rows that came before the first value of a column, which says its type
        self._schema: Any = None  # of all rows
        self._writer: Any = None  # of Arrow
        self._regular = _is_regular(file)
        self._streams = not self._regular or path.endswith(".arrows")  # of Arrow
        if append_at is not None and not self._parquet:
            raise RecordError("a file of Arrow cannot be continued", "another file", file=path)
        self._beside: BinaryIO | None = None  # the rows beside a Parquet file
        if self._parquet and self._regular:
            if append_at:
                self._continue(append_at)
            self._beside = open(rows_beside(path), "ab" if append_at else "wb")  # noqa: SIM115  (`close` closes it)

    def write(self, table: Any) -> None:
        """Write a `RecordBatch`; columns of other types than those before become these.

        A file of Arrow has one dictionary a column, and batches have their own: it gets the values.
        """
        if not (self._parquet or self._streams):
            table = arrow.without_dictionaries(table)
        self._schema = table.schema if self._schema is None else self._schema
        if not table.schema.equals(self._schema):
            table = self._as_before(table)
        self._opened().write_batch(table)
        self.rows += len(table)

    def write_columns(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Write columns of values as Python has them."""
        arrays = [self._column(name, values) for name, values in columns.items()]
        self._waiting.append(pyarrow.RecordBatch.from_arrays(arrays, names=list(columns)))
        if self._types.keys() >= columns.keys() or _make_a_group(self._waiting):
            self._settle()

    def _settle(self) -> None:
        """Write the rows that wait; a column without a value so far is text."""
        waiting, self._waiting = self._waiting, []
        for field in chain.from_iterable(table.schema for table in reversed(waiting)):
            if not pyarrow.types.is_null(field.type):
                self._types.setdefault(field.name, field.type)
        for table in waiting:
            columns = []
            for name, column in zip(table.schema.names, table.columns, strict=True):
                kind = self._types.setdefault(name, pyarrow.string())
                columns.append(column if column.type == kind else self._cast(name, column, kind, _completed))
            self.write(pyarrow.RecordBatch.from_arrays(columns, names=table.schema.names))

    def sync(self) -> int | None:
        """Write the rows so far to the disk; return how many a Parquet file has, None where it cannot be continued."""
        self._settle()
        file = self._file if self._beside is None else self._beside
        file.flush()
        if self._regular:
            os.fsync(file.fileno())
        return None if self._beside is None else self.rows

    def close(self) -> None:
        """Finish the file; without rows it has the columns."""
        with self._beside or contextlib.nullcontext():
            self._settle()
            if self._schema is None:
                self.write_columns({name: [] for name in self._names})
                self._settle()
            if self._writer is not None:
                self._writer.close()
        if self._beside is not None:
            self._write_parquet()

    def _as_before(self, table: Any) -> Any:
        """Return the rows with the types of the rows before; another file of the stream may have other types."""
        if table.schema.names != self._schema.names:
            allowed = ", ".join(f"{field.name}: {field.type}" for field in self._schema)
            raise RecordError("the rows have other columns than those in the file", allowed, file=self.path)
        columns = []
        for field, column in zip(self._schema, table.columns, strict=True):
            columns.append(
                column if column.type == field.type else self._cast(field.name, column, field.type, _with_type)
            )
        return pyarrow.RecordBatch.from_arrays(columns, schema=self._schema)

    def _cast(self, name: str, column: Any, kind: Any, cast: Callable[[Any, Any], Any]) -> Any:
        """Return a column with another type; `RecordError` if `cast` cannot do that without loss."""
        try:
            return cast(column, kind)
        except ERRORS as error:
            reason = f"a value does not fit the column, whose type is that of the first rows: {error}"
            raise RecordError(reason, str(kind), file=self.path, column=name) from None

    def _opened(self) -> Any:
        """Return the writer of Arrow for tables of the schema."""
        if self._writer is None:
            if self._beside is not None:
                self._writer = pyarrow.ipc.new_stream(self._beside, self._schema)
            elif self._parquet:
                self._writer = _RowGroups(self._file, self._schema)
            else:
                make = pyarrow.ipc.new_stream if self._streams else pyarrow.ipc.new_file
                self._writer = make(self._file, self._schema)
        return self._writer

    def _continue(self, rows: int) -> None:
        """Make the rows beside the file its first ones; those that are there stay until all are copied."""
        place = rows_beside(self.path)
        try:
            with open(f"{place}.new", "wb") as copy, contextlib.ExitStack() as closing:
                for table in _first_rows(self.path, rows):
                    if self._schema is None:
                        self._schema = table.schema
                        self._writer = closing.enter_context(pyarrow.ipc.new_stream(copy, table.schema))
                    self._writer.write_batch(table)
                    self.rows += len(table)
            self._writer = None
            if self.rows == rows:
                os.replace(f"{place}.new", place)
        except ERRORS as error:
            raise RecordError(f"cannot be continued: {error}", "another file", file=self.path) from None
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{place}.new")
        if self.rows < rows:
            reason = f"the file is shorter than the {rows:,} rows that a run has written"
            raise RecordError(reason, "the file as it was, or another one", file=self.path)
        self._types = dict(zip(self._schema.names, self._schema.types, strict=True))

    def _write_parquet(self) -> None:
        """Write the file from the rows beside it, which are removed once it is on the disk."""
        self._file.seek(0)
        self._file.truncate()
        with contextlib.closing(_RowGroups(self._file, self._schema)) as groups:
            for table in _first_rows(self.path, self.rows):
                groups.write_batch(table)
        self._file.flush()
        os.fsync(self._file.fileno())
        os.unlink(rows_beside(self.path))

    def _column(self, name: str, values: Sequence[Any]) -> Any:
        """Return the values as an array of the type that the first one determined, of nulls where none has come."""
        try:
            column = pyarrow.array(values, type=self._types.get(name))
            if pyarrow.types.is_integer(column.type) or pyarrow.types.is_nested(column.type):  # Arrow cuts off decimals
                _require_whole(values, column.to_pylist())
        except ERRORS as error:
            what = "Parquet" if self._parquet else "Arrow"
            reason = f"a value does not fit the {what} column: {error}"
            allowed = UTF_8 if isinstance(error, UnicodeError) else str(self._types.get(name, "one type"))
            raise RecordError(reason, allowed, file=self.path, column=name) from None
        if _is_known(column.type):
            self._types[name] = column.type
        return column


def _is_known(kind: Any) -> bool:
    """Return whether a type is one of values, without a part of which all have been null, or an object without keys."""
    if pyarrow.types.is_nested(kind):
        return kind.num_fields > 0 and all(_is_known(kind.field(i).type) for i in range(kind.num_fields))
    return not pyarrow.types.is_null(kind)


def _make_a_group(tables: Sequence[Any]) -> bool:
    """Return whether these are as many rows, or bytes, as are held."""
    return sum(map(len, tables)) >= GROUP_ROWS or sum(table.nbytes for table in tables) >= GROUP_BYTES


class _RowGroups:
    """Writes a Parquet file in row groups of `GROUP_ROWS`."""

    def __init__(self, file: BinaryIO, schema: Any) -> None:
        # A dictionary of numbers that are nearly all different is tried, and given up, at the price of the rest.
        coded = [field.name for field in schema if not pyarrow.types.is_floating(field.type)]
        self._writer = arrow.parquet().ParquetWriter(file, schema, use_dictionary=coded)
        self._group: list[Any] = []

    def write_batch(self, table: Any) -> None:
        self._group.append(table)
        if _make_a_group(self._group):
            self._write_group()

    def _write_group(self) -> None:
        table = pyarrow.Table.from_batches(self._group)
        self._group.clear()
        self._writer.write_table(table, row_group_size=max(len(table), 1))

    def close(self) -> None:
        try:
            if self._group:
                self._write_group()
            self._writer.close()
        finally:
            self._writer.is_open = False  # after an error its finalizer would try once more, and print the error


def rows_beside(path: str) -> str:
    """Return the name of the stream of Arrow with the rows of a Parquet file that is being written."""
    folder, name = os.path.split(os.path.realpath(path))
    return os.path.join(folder, f".{name}.rows")


def rows_in(path: str) -> int:
    """Return the number of rows after which a Parquet file can be continued: of a killed run the whole batches."""
    rows = 0
    with contextlib.suppress(*ERRORS, OSError):
        for table in _stored(path):
            rows += len(table)
    return rows


def _first_rows(path: str, rows: int) -> Iterator[Any]:
    """Yield tables with the first rows, as many as there are: nothing after them is read, which may be half a batch."""
    tables = _stored(path)
    while rows and (table := next(tables, None)) is not None:
        yield table.slice(0, rows)
        rows -= min(len(table), rows)


def _stored(path: str) -> Iterator[Any]:
    """Yield the tables of a Parquet file from the rows beside it, or where there are none from the file."""
    if not os.path.exists(rows_beside(path)):
        with arrow.parquet().ParquetFile(path) as file:
            yield from file.iter_batches()
        return
    with pyarrow.OSFile(rows_beside(path)) as file:
        while file.tell() < file.size():  # a stream of each run that continued the file
            yield from pyarrow.ipc.open_stream(file)


def _is_regular(file: BinaryIO) -> bool:
    """Return whether what was written can be overwritten, unlike in a pipe or a substitute of standard output."""
    try:
        return stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except OSError:
        return False


def _completed(column: Any, kind: Any) -> Any:
    """Return a column of nulls, empty lists and the like with the type of the values that came after them."""
    whole = arrow.cast(column, kind)
    _require_whole(column.to_pylist(), whole.to_pylist())
    return whole


def _with_type(column: Any, kind: Any) -> Any:
    """Return a column with another type; one of `ERRORS` if a value would be lost or changed."""
    if pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    converted = arrow.cast(column, kind)
    back = converted.dictionary_decode() if pyarrow.types.is_dictionary(kind) else converted
    _require_whole(column.to_pylist(), arrow.cast(back, column.type).to_pylist())
    return converted


def _require_whole(values: Sequence[Any], written: Sequence[Any]) -> None:
    """Raise `ValueError` where a value was changed, such as 1.5 among whole numbers or a key that others lack."""
    if list(values) == list(written):  # as nearly always
        return
    for value, converted in zip(values, written, strict=True):
        if not _is_whole(value, converted):
            raise ValueError(f"{shown(value)} would become {shown(converted)}")


def _is_whole(value: Any, written: Any) -> bool:
    """Return whether all of a value was written: of an object every key, of a list every element."""
    if isinstance(value, dict):
        return all(_is_whole(part, written.get(key)) for key, part in value.items())
    if isinstance(value, list):
        return all(map(_is_whole, value, written))
    return bool(value == written) or value != value  # not a number
