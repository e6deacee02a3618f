"""Writing tables: Parquet files, which are whole after each row group and can be continued, and files of Arrow."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, BinaryIO

from streamcal.stream import arrow
from streamcal.stream.arrow import ERRORS, pyarrow
from streamcal.stream.parquet_footer import MAGIC, Footer
from streamcal.stream.records import UTF_8, RecordError, shown

#: Rows of a row group of a Parquet file: small groups make files large and slow to read.
GROUP_ROWS = 1 << 17
#: Bytes of a row group in memory: wide rows make groups of fewer rows.
GROUP_BYTES = 1 << 26


class TableWriter:
    """Writes tables of Arrow to a file that is open at the place where they are to begin.

    The name `path` is for messages; .arrows is a stream of Arrow, other names of Arrow are files. `types` are types of
    Arrow by column; others are those of the first values written. `append_at` is the size of a Parquet file that is
    continued.

    A Parquet file is whole after each row group: group and footer are written in one call, and the next group takes the
    place of the footer, except after `sync`. A process that is killed in the midst of that call leaves a file that
    cannot be read until it is cut to its last `sync`.
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
        self._file = file
        self._parquet = format == "parquet"
        self._names = tuple(names)
        self._types = dict(types or {})
        self._group: list[Any] = []
        self._waiting: list[Any] = []  # rows that came before the first value of a column, which says its type
        self._schema: Any = None  # of all rows
        self._footer: Footer | None = None
        self._end = 0  # where the next row group begins
        self._writer: Any = None  # of Arrow
        self._overwrites = _is_regular(file)
        self._streams = not self._overwrites or path.endswith(".arrows")  # of Arrow
        if append_at is not None:
            self._continue(append_at)

    def write(self, table: Any) -> None:
        """Write a `RecordBatch`; columns of other types than those before become these.

        A file of Arrow has one dictionary a column, and batches have their own: it gets the values.
        """
        if not (self._parquet or self._streams):
            table = arrow.without_dictionaries(table)
        self._schema = table.schema if self._schema is None else self._schema
        if not table.schema.equals(self._schema):
            table = self._as_before(table)
        if not self._parquet:
            self._arrow_writer(table.schema).write_batch(table)
            return
        self._group.append(table)
        if _make_a_group(self._group):
            self._write_group()

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

    def sync(self) -> None:
        """Write what is held; what comes later leaves the file as it is now, and follows."""
        self._settle()
        if self._parquet:
            self._write_group()
            if self._footer is not None:
                self._end = self._file.tell()

    def close(self) -> None:
        """Finish the file; without rows it has the columns."""
        self._settle()
        if not self._group and self._footer is None and self._writer is None:
            self.write_columns({name: [] for name in self._names})
            self._settle()
        if self._parquet:
            self._write_group()
            if not self._overwrites and self._footer is not None:
                self._file.write(self._footer.written())
        else:
            self._writer.close()

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

    # -- Parquet -------------------------------------------------------------------------------------------------------

    def _continue(self, size: int) -> None:
        """Go on after a file of this size, if there is something in it."""
        if not self._parquet:
            raise RecordError("a file of Arrow cannot be continued", "another file", file=self.path)
        if size:
            try:
                schema = arrow.parquet().read_schema(self.path)
                self._footer = Footer.of(self.path)
            except ERRORS as error:
                raise RecordError(f"cannot be continued: {error}", "another file", file=self.path) from None
            self._schema, self._end = schema, size
            self._types = dict(zip(schema.names, schema.types, strict=True))

    def _write_group(self) -> None:
        """Write the rows held as a row group, and the footer."""
        if not self._group:
            return
        table = pyarrow.Table.from_batches(self._group)
        self._group.clear()
        sink = pyarrow.BufferOutputStream()
        # A dictionary of numbers that are nearly all different is tried, and given up, at the price of the rest.
        coded = [one.name for one in table.schema if not pyarrow.types.is_floating(one.type)]
        arrow.parquet().write_table(table, sink, row_group_size=max(len(table), 1), use_dictionary=coded)
        content = memoryview(sink.getvalue())
        own = Footer(content)
        pages = content[len(MAGIC) : len(content) - own.size]
        if self._footer is None:
            self._footer = own.without_groups()
            pages = content[: len(content) - own.size]
        moved = self._end - (len(content) - own.size - len(pages))
        self._footer.add(own, moved)
        if self._overwrites:
            self._file.seek(self._end)
            self._file.write(b"".join((pages, self._footer.written())))
        else:
            self._file.write(pages)
        self._end += len(pages)

    # -- Arrow ---------------------------------------------------------------------------------------------------------

    def _arrow_writer(self, schema: Any) -> Any:
        if self._writer is None:
            self._writer = (pyarrow.ipc.new_stream if self._streams else pyarrow.ipc.new_file)(self._file, schema)
        return self._writer

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
    return sum(map(len, tables)) >= GROUP_ROWS or sum(one.nbytes for one in tables) >= GROUP_BYTES


def end_of_tables(path: str, size: int) -> int:
    """Return the size at which a Parquet file can be continued: its own if whole, else `size`, that of a `sync`."""
    try:
        arrow.parquet().read_metadata(path)
    except ERRORS:
        return size
    return os.path.getsize(path)


def _is_regular(file: BinaryIO) -> bool:
    """Return whether what was written can be overwritten, unlike in a pipe or a substitute of standard output."""
    try:
        return stat.S_ISREG(os.fstat(file.fileno()).st_mode)
    except OSError:
        return False


def _completed(column: Any, kind: Any) -> Any:
    """Return a column of nulls, empty lists and the like with the type of the values that came after them."""
    found = arrow.cast(column, kind)
    _require_whole(column.to_pylist(), found.to_pylist())
    return found


def _with_type(column: Any, kind: Any) -> Any:
    """Return a column with another type; one of `ERRORS` if a value would be lost or changed."""
    if pyarrow.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    found = arrow.cast(column, kind)
    back = found.dictionary_decode() if pyarrow.types.is_dictionary(kind) else found
    _require_whole(column.to_pylist(), arrow.cast(back, column.type).to_pylist())
    return found


def _require_whole(values: Sequence[Any], written: Sequence[Any]) -> None:
    """Raise `ValueError` where a value was changed, such as 1.5 among whole numbers or a key that others lack."""
    if list(values) == list(written):  # as nearly always
        return
    for value, one in zip(values, written, strict=True):
        if not _is_whole(value, one):
            raise ValueError(f"{shown(value)} would become {shown(one)}")


def _is_whole(value: Any, written: Any) -> bool:
    """Return whether all of a value was written: of an object every key, of a list every element."""
    if isinstance(value, dict):
        return all(_is_whole(part, written.get(key)) for key, part in value.items())
    if isinstance(value, list):
        return all(map(_is_whole, value, written))
    return bool(value == written) or value != value  # not a number
