"""Writing records in the format given by the file name: batches as they were read, with columns added, and rows."""

from __future__ import annotations

import codecs
import contextlib
import csv
import errno
import json
import math
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, BinaryIO, Literal, Self, cast

import numpy as np

from streamcal.parameters.types import FloatArray
from streamcal.stream import arrow
from streamcal.stream.arrow import pyarrow
from streamcal.stream.batches import Batch, CsvBatch, JsonBatch, TableBatch
from streamcal.stream.files import DELIMITERS, STANDARD_STREAM, FileKind, lock, opened_to_write
from streamcal.stream.reading import RecordReader
from streamcal.stream.records import UTF_8, RecordError
from streamcal.stream.tables import TableWriter

#: The numbers of the errors of a full disk, and of a quota that is used up.
FULL = (errno.ENOSPC, errno.EDQUOT)
#: The name under which `_encode_surrogate` is registered with `codecs`.
SURROGATES = "streamcal.surrogates"


class RecordWriter:
    r"""Writes batches and dict rows to a file as they come; rows written before an error stay in the file.

    Text is not changed. Fields of CSV have quotes where they are needed, and a batch of JSON Lines written in its own
    format keeps its lines. A lone surrogate, which JSON can represent and UTF-8 cannot, is written as its JSON escape.
    Numbers are written with all their digits. In CSV a missing key or None is an empty field, and lists and dicts are
    written as JSON, in which NaN and infinities are null. From a table to a text, bytes are text.

    Parameters
    ----------
    path
        As for `RecordReader`; "-" is standard output. An existing file is replaced.
    names
        Columns in order; in JSON Lines each row keeps its own keys instead.
    format
        "csv", "jsonl", "parquet" or "arrow", if the name does not determine it.
    types
        Types of Arrow by column, from `RecordReader.types`; others are taken from the first rows written.
    delimiter
        The delimiter of CSV fields; by default a tab in a .tsv and a comma in others.
    decimal
        The decimal mark of numbers that are added to CSV; where it is the delimiter, too, they are in quotes.
    append_at
        Continue an existing file after this number of its bytes, of its rows for Parquet, as `sync` returned it, and
        cut off the rest; in CSV without a header. Not possible for Arrow.

    Raises
    ------
    RecordError
        If the file cannot be written, a row has a column that is not in `names` (all but JSON Lines), or a value does
        not fit its column of a table, or is bytes that are no UTF-8 for a text.

    Notes
    -----
    Cost: rows that keep their format are written by column; rows that change it value by value, which takes several
    times as long.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "out.csv")
    >>> with RecordWriter(path, ["score", "calibrated"]) as writer:
    ...     writer.write([{"score": "0.10", "calibrated": 0.125}])
    >>> path.read_text()
    'score,calibrated\n0.10,0.125\n'
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        names: Sequence[str],
        format: str | None = None,
        *,
        types: Mapping[str, Any] | None = None,
        delimiter: str | None = None,
        append_at: int | None = None,
        decimal: str = ".",
    ) -> None:
        self._decimal = decimal
        self.path = os.fspath(path)
        self.kind = FileKind.of(path, format)
        self._append_at = append_at
        self.names = tuple(names)
        self._known = frozenset(names)
        self._tables: TableWriter | None = None
        self._closing = contextlib.ExitStack()
        self._layers = contextlib.ExitStack()  # what is above the bytes: compression
        self._above: BinaryIO | None = None
        with self._closing, self._file_errors():
            self._delimiter = delimiter or self.kind.delimiter or ","
            self._bytes = self._open_bytes()
            self._closing.callback(self._close_layers)
            if self.kind.format in ("parquet", "arrow"):
                self._tables = TableWriter(self.path, self._bytes, self.kind.format, self.names, types, append_at)
            elif self.kind.format == "csv" and append_at is None:
                self._write_header()
            else:
                self._opened()  # a compressed file without rows is one too
            self._closing = self._closing.pop_all()  # from now on closed by `close`

    def write_batch(self, batch: Batch, added: Sequence[str] = (), values: FloatArray | None = None) -> None:
        """Write the rows of a batch, with values of shape (n, m) in m added columns at the end."""
        with self._file_errors():
            alike = self.names == (*batch.names, *added)
            if isinstance(batch, CsvBatch) and self.kind.format == "csv" and alike:
                new = [arrow.as_text(_column(values, j)) for j in range(len(added))]
                if self._decimal != ".":
                    new = [arrow.with_points(column, ".", self._decimal) for column in new]
                self._opened().write(arrow.csv_text([*batch.table.columns, *new], self._delimiter.encode()))
            elif isinstance(batch, JsonBatch) and self.kind.format == "jsonl":
                self._opened().write(arrow.with_values(batch.texts, added, np.empty(0) if values is None else values))
            elif isinstance(batch, TableBatch) and self._tables is not None and alike:
                table = self._with_texts(batch).table if isinstance(batch, CsvBatch) else batch.table
                for j, name in enumerate(added):
                    table = table.append_column(name, arrow.floats(_column(values, j)))
                self._tables.write(table)
            else:
                self._convert(batch, {name: _column(values, j).tolist() for j, name in enumerate(added)})

    def write(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write rows, in order."""
        with self._file_errors():
            if self.kind.format == "jsonl":
                self._write_text("".join(to_json(row) + "\n" for row in rows))
            elif self._tables is None:
                self._write_csv(map(self._csv_fields, rows))
            else:
                self._write_table(list(rows))

    def flush(self) -> None:
        """Pass all rows written so far to the operating system (tables: only `sync` and `close` do)."""
        with self._file_errors():
            if self._above is not None:
                self._above.flush()

    def sync(self) -> int | None:
        """Write all rows so far to the disk; return the number of bytes that contain them, of Parquet of the rows.

        A compressed file continues with a new stream after them, which readers of all compressions join. None for
        outputs that cannot be continued: Arrow, whose end `close` writes, standard output, pipes and devices.
        """
        with self._file_errors():
            if self._tables is not None:
                return self._tables.sync()
            if self.kind.compression is not None:
                self._close_layers()
            self.flush()
            self._bytes.flush()
            if self.path == STANDARD_STREAM or not stat.S_ISREG(os.fstat(self._bytes.fileno()).st_mode):
                return None
            os.fsync(self._bytes.fileno())
            return self._bytes.tell()

    def close(self) -> None:
        """Finish the file. Standard output stays open."""
        with self._file_errors(), self._closing:
            if self._tables is not None:
                self._tables.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- formats -------------------------------------------------------------------------------------------------------

    def _open_bytes(self) -> BinaryIO:
        if self.path == STANDARD_STREAM:
            raw: Any = getattr(sys.stdout, "buffer", None)
            if raw is None:
                raise RecordError("standard output is closed", "a file or a pipe", file=self.path)
            self._closing.callback(raw.flush)
        else:
            mode = "wb" if self._append_at is None else "r+b"
            raw = self._closing.enter_context(open(self.path, mode, opener=_open_uncut))  # noqa: SIM115  (the stack closes it)
            self._lock(raw)
            self._go_to(raw, self._append_at)
        return cast(BinaryIO, raw)

    def _lock(self, raw: BinaryIO) -> None:
        """Keep other runs from writing the same regular file, where the file system has locks."""
        if stat.S_ISREG(os.fstat(raw.fileno()).st_mode):
            try:
                lock(raw)
            except BlockingIOError:
                allowed = "another name, or wait for its end"
                raise RecordError("another run is writing this file", allowed, file=self.path) from None
            except OSError:
                pass

    def _go_to(self, raw: BinaryIO, size: int | None) -> None:
        """Cut a regular file to this size, None for an empty one, and continue from there."""
        status = os.fstat(raw.fileno())
        if size is None:
            if stat.S_ISREG(status.st_mode):
                raw.truncate(0)
            return
        if self.kind.format in ("parquet", "arrow"):  # which `TableWriter` continues, or refuses to
            return
        if status.st_size < size:
            reason = f"the file is shorter than the {size:,} bytes that a run has written"
            raise RecordError(reason, "the file as it was, or another one", file=self.path)
        if self.kind.format == "csv":
            self._require_same_names()
        raw.truncate(size)
        raw.seek(size)

    def _require_same_names(self) -> None:
        """Raise `RecordError` if the file that is continued has another header than these rows."""
        with RecordReader(self.path, "csv", delimiter=self._delimiter) as before:
            names = before.names
        if names != self.names:
            allowed = f"{', '.join(map(repr, names))}; or another file"
            raise RecordError("the rows have other columns than those in the file", allowed, file=self.path)

    def _opened(self) -> BinaryIO:
        """Return the file to which texts are written as bytes; its compression is opened when first needed."""
        if self._above is None:
            self._above = self._bytes
            if self.kind.compression is not None:
                self._above = self._layers.enter_context(opened_to_write(self._bytes, self.kind.compression))
        return self._above

    def _close_layers(self) -> None:
        self._above = None
        self._layers.close()

    def _write_text(self, text: str) -> None:
        self._opened().write(text.encode("utf-8", SURROGATES))

    def _write_header(self) -> None:
        """Write the names, in quotes if one contains what could be taken for the delimiter, which the header shows."""
        others = set(DELIMITERS) - {self._delimiter}
        ambiguous = any(others.intersection(name) for name in self.names)
        self._write_csv([self.names], csv.QUOTE_ALL if ambiguous else csv.QUOTE_MINIMAL)

    def _write_csv(self, rows: Iterable[Sequence[Any]], quotes: Literal[0, 1] = csv.QUOTE_MINIMAL) -> None:
        lines, end = _LineFeeds(), _LineFeeds.REPLACED
        try:
            csv.writer(lines, delimiter=self._delimiter, lineterminator=end, quoting=quotes).writerows(rows)
        finally:  # also those before an error
            self._write_text("".join(lines))

    def _csv_fields(self, row: Mapping[str, Any]) -> list[Any]:
        self._refuse_unknown(row)
        return [self._csv_field(row.get(name)) for name in self.names]

    def _csv_field(self, value: Any) -> Any:
        if value.__class__ is str:
            return value
        if isinstance(value, (float, Decimal)):
            return value if self._decimal == "." else str(value).replace(".", self._decimal)
        if value is True or value is False:
            return "true" if value else "false"
        if isinstance(value, (list, dict)):
            return to_json(value)
        if isinstance(value, bytes):
            return _text_of(value)
        return value.isoformat() if hasattr(value, "isoformat") else value

    def _write_table(self, rows: list[Mapping[str, Any]]) -> None:
        for row in rows:
            self._refuse_unknown(row)
        assert self._tables is not None
        self._tables.write_columns({name: [row.get(name) for row in rows] for name in self.names})

    def _convert(self, batch: Batch, added: Mapping[str, list[float]]) -> None:
        """Write the rows of a batch of another format: by column where all of them have the same."""
        if isinstance(batch, TableBatch):
            batch = self._with_texts(batch)
        fields = None if self.kind.format == "jsonl" else batch.fields()
        if fields is None or not {*fields, *added} <= self._known:
            rows = zip(batch.rows, *added.values(), strict=True)
            self.write([{**row, **dict(zip(added, more, strict=True))} for row, *more in rows])
            return
        fields |= added
        columns = {name: fields[name] if name in fields else [None] * len(batch) for name in self.names}
        if self._tables is None:
            self._write_csv(zip(*(map(self._csv_field, values) for values in columns.values()), strict=True))
        else:
            self._tables.write_columns(columns)

    def _with_texts(self, batch: TableBatch) -> TableBatch:
        """Return a batch whose bytes are texts; `RecordError` if they are no UTF-8."""
        columns = batch.table.columns
        for i, name in enumerate(batch.names):
            kind = pyarrow.string() if isinstance(batch, CsvBatch) else arrow.text_type(columns[i].type)
            if kind != columns[i].type:
                try:
                    columns[i] = arrow.cast(columns[i], kind)
                except arrow.ERRORS:
                    reason, allowed = "bytes that are no text in UTF-8", "text, or an output of Parquet or Arrow"
                    allowed = UTF_8 if isinstance(batch, CsvBatch) else allowed
                    raise RecordError(reason, allowed, file=self.path, column=name) from None
        return replace(batch, table=pyarrow.RecordBatch.from_arrays(columns, names=list(batch.names)))

    def _refuse_unknown(self, row: Mapping[str, Any]) -> None:
        if not row.keys() <= self._known:
            column = next(name for name in row if name not in self._known)
            allowed = ", ".join(map(repr, self.names)) + "; JSON Lines can hold rows with different columns"
            raise RecordError("a row has a column that is not in the output", allowed, file=self.path, column=column)

    @contextlib.contextmanager
    def _file_errors(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:  # the reader of standard output has closed it: not an error of the file
            raise
        except OSError as error:
            folder = os.path.dirname(os.path.realpath(self.path))
            missing = isinstance(error, FileNotFoundError) and not os.path.exists(folder)
            reason = f"there is no folder {folder}" if missing else error.strerror or error
            refusal = RecordError(f"cannot be written: {reason}", file=self.path)
            refusal.full = error.errno in FULL
            raise refusal from None
        except pyarrow.ArrowException as error:
            raise RecordError(f"cannot be written: {error}", file=self.path) from None


def _open_uncut(path: str, flags: int) -> int:
    """Open a file without emptying it: another run may be writing it."""
    return os.open(path, flags & ~os.O_TRUNC, 0o666)


def _column(values: FloatArray | None, j: int) -> FloatArray:
    return np.empty(0) if values is None else values[:, j]


class _LineFeeds(list[str]):
    """Accepts whole lines that end in `REPLACED`, and keeps them with a line feed instead.

    The csv module quotes fields that contain characters of its line terminator. If that were a line feed alone, before
    Python 3.13, a carriage return in a field would not be quoted, and readers would take it for the end of the row.
    """

    REPLACED = "\r\n"

    def write(self, line: str) -> None:
        self.append(line.removesuffix(self.REPLACED) + "\n")


def _encode_surrogate(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return the original byte for one that was not UTF-8; the JSON escape for any other lone surrogate."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    error.end = error.start + 1  # one at a time: the next one may be of the other kind
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeEncodeError:
        return codecs.lookup_error("backslashreplace")(error)


codecs.register_error(SURROGATES, _encode_surrogate)


def _json_value(value: Any) -> str:
    """Represent values that JSON cannot: times in ISO 8601, all others (such as bytes and decimals) as text."""
    if isinstance(value, bytes):
        return _text_of(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _text_of(value: bytes) -> str:
    """Return bytes as text, those that are no UTF-8 as escapes."""
    return value.decode("utf-8", "backslashreplace")


#: One encoder for all rows: `json.dumps` would construct one per call.
_strictly = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_json_value).encode


def to_json(value: Any) -> str:
    """Return the value as JSON: null for NaN and for infinities, which JSON cannot represent.

    >>> to_json({"score": 0.5, "more": [float("nan"), 1]})
    '{"score": 0.5, "more": [null, 1]}'
    """
    try:
        return _strictly(value)
    except ValueError:
        return _strictly(_with_nulls(value))


def _with_nulls(value: Any) -> Any:
    """Return the value with None for each number that is not finite."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _with_nulls(item) for key, item in value.items()}
    return [_with_nulls(item) for item in value] if isinstance(value, (list, tuple)) else value
