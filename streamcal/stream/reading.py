"""Reading records from CSV, JSON Lines, Parquet and Arrow files in batches of bounded memory."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import os
import re
import stat
import sys
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from streamcal.names import did_you_mean
from streamcal.stream import arrow
from streamcal.stream.arrow import pyarrow
from streamcal.stream.batches import Batch, CsvBatch, JsonBatch, TableBatch, json_object, json_table
from streamcal.stream.files import (
    ADDRESS,
    COMPRESSIONS,
    DELIMITERS,
    MAGIC,
    STANDARD_STREAM,
    FileKind,
    can_be_read_twice,
    opened_to_read,
    recognised,
)
from streamcal.stream.records import RecordError, shown

#: Most rows of a batch: tables have no more, and texts of short records.
BATCH_ROWS = 1 << 16
#: Bytes of a text that make a batch, where the file has as many.
BLOCK_BYTES = 1 << 20
#: Bytes that are asked for at once from a store that is far away.
REQUEST_BYTES = 1 << 23
#: Bytes of a table that make a batch, by the sizes that a Parquet file states.
TABLE_BYTES = 1 << 25
#: Bytes that a record may have: a line of JSON, or a row of CSV.
LONGEST_RECORD = 1 << 24
#: Bytes that may be between two quotes of CSV, and in a field for Python's csv module.
LONGEST_FIELD = csv.field_size_limit()
#: What may be a number with a decimal comma in a record whose fields are between commas.
DECIMAL_COMMA = re.compile(r"(^|,)[-+]?[0-9]+,[0-9]+(,|$)")
#: Lines of JSON in which a key is looked for, and of CSV in which a header may be.
MOST_LOOKED_AT, MOST_LINES_BEFORE = 10_000, 50
#: Names of columns in a message.
MOST_SHOWN = 50
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
#: The byte order marks of UTF-16, which is not read.
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
#: The first bytes of a file of Arrow, unlike a stream.
ARROW_FILE = b"ARROW1"
#: The first bytes of a stream of Arrow.
ARROW_STREAM = b"\xff\xff\xff\xff"
#: The first bytes of other files that are named as texts: what they are, and what to do.
OTHER_KINDS = {
    ARROW_FILE: ("Arrow", "that, with a name that ends in .arrow, or --format arrow"),
    b"PAR1": ("Parquet", "that, with a name that ends in .parquet, or --format parquet"),
    b"PK\x03\x04": ("a zip archive or an Excel workbook", "text; unpack the archive, or save the sheet as CSV"),
}

#: Called for each row that cannot be read; reading continues when it returns.
BadRowHandler = Callable[[RecordError], None]


class RecordReader:
    r"""The records of a file: iterate to get `Batch`es.

    Fields of CSV stay text, spaces included, and lines of JSON are kept as they are. Blank lines are skipped and not
    counted. A truncated gzip file yields all rows that can be read, then the error. Rows of a pipe are yielded
    as they arrive: a batch ends where reading the next row might block.

    Parameters
    ----------
    path
        .csv, .tsv, .jsonl or .ndjson, each also with .gz, .bz2, .zst or .lz4; .parquet; .arrow, .feather or .arrows,
        file or stream; or "-", standard input, whose compression is recognised. An address, such as
        s3://bucket/clicks.csv.gz, is read by the file systems of Arrow, with their settings and credentials.
    format
        "csv", "jsonl", "parquet" or "arrow", where the name does not say it; "-" is CSV by default.
    delimiter
        The delimiter of CSV fields, one byte. By default a tab in a .tsv, and in others the one that the header
        shows: a comma if it has one outside quotes, or else the most frequent of semicolon, tab and "|".
    on_bad_row
        Called with the `RecordError` of each row that cannot be read (a wrong number of fields, invalid
        JSON), after which reading continues. By default the error is raised, after the rows before it were
        yielded.
    batch_rows
        Maximum number of rows per batch; by default `BATCH_ROWS`.
    growing
        Whether a text may be growing: a last row without a line end, or with an open quote, is then not read, since
        it may be half a row.
        Pipes, compressed files and those of stores are never taken to grow.

    Raises
    ------
    RecordError
        With file, row and column: for an unreadable or empty file, a header with a duplicate column, and rows that
        cannot be read, unless `on_bad_row` handles them; a record of more than `LONGEST_RECORD` bytes in any case.

    Notes
    -----
    Memory: a batch of a text, about 3 times `BLOCK_BYTES`, or three times its longest record; a batch of a table, about
    `TABLE_BYTES`, and what Arrow needs for a row group.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "clicks.csv")
    >>> _ = path.write_text("score,click\n0.10,0\n0.90,1\n")
    >>> with RecordReader(path) as reader:
    ...     for batch in reader:
    ...         print(reader.names, batch.numbers.tolist(), batch.rows[0])
    ('score', 'click') [1, 2] {'score': '0.10', 'click': '0'}
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,
        *,
        delimiter: str | None = None,
        on_bad_row: BadRowHandler | None = None,
        batch_rows: int | None = None,
        growing: bool = False,
    ) -> None:
        self.path = os.fspath(path)
        self._closing = contextlib.ExitStack()
        self._standard: Any = None  # standard input, once it was looked at
        if format is None and delimiter is None and self.path == STANDARD_STREAM:
            with self._file_errors():
                format = self._format_of_standard_input()
        self.kind = FileKind.of(path, format)
        if delimiter is not None and self.kind.format != "csv":
            raise RecordError("only CSV has a delimiter", "none here", file=self.path)
        if delimiter is not None and not delimiter.isascii():
            raise RecordError(f"the delimiter {delimiter!r} is not possible", "one character of ASCII", file=self.path)
        #: The delimiter of CSV fields; None until the header was read, and for other formats.
        self.delimiter = delimiter or self.kind.delimiter
        self._batch_rows = batch_rows or BATCH_ROWS
        self._on_bad_row = on_bad_row
        self._used: tuple[str, ...] = ()
        #: The number of the last data row that was read, also of one that cannot be used.
        self.row = 0
        self._text, self._at = b"", 0  # what was read of a text, and the place after the last record
        self._begun = 0  # batches of a table that were begun
        self._ended = False  # whether the text was read to its end
        self._growing = growing and self.kind.compression is None and ADDRESS not in self.path
        #: Whether a last row was not read, since it has no line end, or a quote that is open.
        self.open_ended = False
        self._failure: BaseException | None = None  # an error that comes after what was read before it
        self._share: Callable[[], float | None] = lambda: None
        #: Names of the columns; for JSON Lines the keys of the first object, while later objects may have others, and
        #: those of `require` that one of the first lines has.
        self.names: tuple[str, ...] = ()
        #: Types of the columns of a table, to be passed to a writer.
        self.types: dict[str, Any] = {}
        start = {"csv": self._start_csv, "jsonl": self._start_jsonl, "parquet": self._start_parquet}
        with self._closing, self._file_errors():
            self._batches = start.get(self.kind.format, self._start_arrow)()
            self._refuse_doubled_names()
            self._closing = self._closing.pop_all()  # opened and understood: closed by `close` from now on

    @property
    def share(self) -> float | None:
        """The fraction of the file that has been read; None if its size is not known, as for a pipe."""
        return self._share()

    def require(self, *columns: str) -> None:
        """Declare the columns to read; raise `RecordError`, listing the existing ones, unless all of them exist."""
        for column in columns:
            if column not in self.names and self.kind.format == "jsonl" and self._is_key(column):
                self.names = (*self.names, column)
            if column not in self.names:
                reason = f"there is no such column{did_you_mean(column, self.names)}"
                if (line := self._header_with(column)) is not None:
                    reason += f"; line {line} has it: leave out the lines before the header"
                elif self.delimiter is not None and len(self.names) == 1:
                    reason += "; if the one column is several, say with --delimiter what is between them"
                if f"{os.sep}{column}=" in self.path:
                    reason += "; the names of folders are not read as columns: write it into the files"
                reason += self._perhaps_no_header()
                raise RecordError(reason, _listed(self.names), file=self.path, column=column)
        self._used = tuple(dict.fromkeys(columns))

    def __iter__(self) -> Iterator[Batch]:
        """Yield batches until the file ends; before an error, the rows that precede it."""
        with self._file_errors():
            yield from self._batches

    def close(self) -> None:
        """Close the file; standard input stays open."""
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refuse_doubled_names(self) -> None:
        doubled = next((name for i, name in enumerate(self.names) if name in self.names[:i]), None)
        if doubled is not None:
            before = "" if doubled.strip() else "; leave out lines before the header"
            reason = f"the file has this column twice{before}{self._perhaps_no_header()}"
            raise RecordError(reason, "different names", file=self.path, column=doubled)

    def _is_key(self, column: str) -> bool:
        """Return whether one of the first lines of JSON, of those read so far, has this key: later ones may lack it."""
        for line in bytes(self._text[self._at :]).split(b"\n", MOST_LOOKED_AT)[:MOST_LOOKED_AT]:
            with contextlib.suppress(RecordError):
                if column in json_object(line):
                    return True
        return False

    def _header_with(self, column: str) -> int | None:
        """Return the number of the first line of CSV with a field of this name, if one of those read so far has it.

        None if it is the first one, which was split in another way.
        """
        if self.kind.format != "csv" or not column:
            return None
        for number, line in enumerate(bytes(self._text).split(b"\n", MOST_LINES_BEFORE)[:MOST_LINES_BEFORE], 1):
            text = str(line, "utf-8", "surrogateescape").strip().removeprefix("\ufeff")
            with contextlib.suppress(csv.Error, StopIteration):
                if column in next(csv.reader([text], delimiter=_delimiter_of(text))):
                    return number if number > 1 else None
        return None

    def _perhaps_no_header(self) -> str:
        """Return a remedy for a message if half of the names of CSV or more are numbers; otherwise empty."""
        numbers = sum(map(_is_number, self.names)) if self.kind.format == "csv" else 0
        many = 0 < len(self.names) <= 2 * numbers
        return "; names are numbers: if the file has no header row, give it one" if many else ""

    def _bad_row(self, error: RecordError, row: int) -> None:
        """Pass the error of a row to the handler, or raise it."""
        error.at(self.path, row)
        if self._on_bad_row is None:
            raise error
        self._on_bad_row(error)

    @contextlib.contextmanager
    def _file_errors(self) -> Iterator[None]:
        """Convert errors of the operating system, of compression and of Arrow to `RecordError`, with the row."""
        try:
            yield
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            row = self.row + 1 if self.names else None  # the first row that is missing
            raise RecordError(
                f"the {self.kind.compression or 'compressed'} file is truncated or damaged here ({error})",
                "a complete file",
                file=self.path,
                row=row,
            ) from None
        except pyarrow.ArrowException as error:
            what = "Parquet" if self.kind.format == "parquet" else "Arrow"
            raise RecordError(f"cannot be read as {what}: {error}", file=self.path) from None
        except OSError as error:
            raise RecordError(f"cannot be read: {error.strerror or error}", file=self.path) from None

    # -- texts ---------------------------------------------------------------------------------------------------------

    def _open_text(self) -> None:
        """Open the file, and pass over a byte order mark."""
        raw: Any
        if self.path == STANDARD_STREAM:
            raw, self._live = self._standard_input(), True
        else:
            raw, regular = self._opened()
            self._live = not regular
            if ADDRESS in self.path:
                raw = self._closing.enter_context(pyarrow.BufferedInputStream(raw, REQUEST_BYTES))
        self._growing = self._growing and not self._live
        if self.kind.compression is not None:
            self._refuse_uncompressed(raw)
            raw = self._closing.enter_context(opened_to_read(raw, self.kind.compression))
        self._bytes: BinaryIO = raw
        self._read_more()
        if self._text.startswith(BYTE_ORDER_MARK):
            self._at = len(BYTE_ORDER_MARK)
        self._refuse_other_kind(bytes(self._text[: len(ARROW_FILE)]))
        begin = bytes(self._text[:2])
        if begin in UTF_16 or begin.count(0) == 1:  # a letter in two bytes
            raise RecordError("the file is UTF-16", "UTF-8; save it as UTF-8", file=self.path)

    def _refuse_uncompressed(self, raw: Any) -> None:
        """Raise `RecordError` if a file that should be compressed begins as a text."""
        begin = raw.peek(8)[:8] if isinstance(raw, io.BufferedReader) else b""
        if begin and recognised(begin) is None and _is_text(begin):
            reason = f"the file is not compressed by {self.kind.compression}"
            raise RecordError(reason, "a name that says how it is, such as clicks.csv", file=self.path)

    def _refuse_other_kind(self, begin: bytes) -> None:
        """Raise `RecordError` if a file that should be text is of another kind by its first bytes."""
        compression = recognised(begin)
        if compression == "bzip2" and not begin[3:4].isdigit():  # letters that a header may begin with
            compression = None
        if compression is not None:
            ending = next(ending for ending, name in COMPRESSIONS.items() if name == compression)
            kind, allowed = f"compressed by {compression}", f"that, with a name that ends in {ending}"
        else:
            kind, allowed = next((other for magic, other in OTHER_KINDS.items() if begin.startswith(magic)), ("", ""))
        if kind == "Parquet" and self.path == STANDARD_STREAM:
            FileKind.of(self.path, "parquet")  # says why not
        if kind:
            raise RecordError(f"the file is {kind}", allowed, file=self.path)

    def _opened(self) -> tuple[Any, bool]:
        """Open the file, which is closed with the reader; return it and whether its end is known, unlike a pipe's."""
        if ADDRESS in self.path:
            try:
                raw = self._closing.enter_context(arrow.opened(self.path))
            except pyarrow.ArrowInvalid as error:
                known = "a path, or an address that begins with s3://, gs://, abfs://, hdfs:// or file://"
                raise RecordError(f"the address is not understood: {error}", known, file=self.path) from None
            size, regular = raw.size(), True
        else:
            raw = self._closing.enter_context(open(self.path, "rb"))  # noqa: SIM115  (the stack closes it)
            status = os.fstat(raw.fileno())
            size, regular = status.st_size, stat.S_ISREG(status.st_mode)
        self._share = lambda: raw.tell() / size if size and not raw.closed else None
        return raw, regular

    def _format_of_standard_input(self) -> str | None:
        """Return the format of standard input, if it begins as JSON Lines or a stream of Arrow."""
        self._standard = self._standard_input()
        begin = self._standard.peek(len(ARROW_STREAM)) if hasattr(self._standard, "peek") else b""
        if begin.startswith(ARROW_STREAM):
            return "arrow"
        return "jsonl" if begin.removeprefix(BYTE_ORDER_MARK).lstrip()[:1] == b"{" else None

    def _standard_input(self) -> Any:
        """Return standard input, decompressed if it begins as a compressed file does."""
        if self._standard is not None:
            return self._standard
        raw: Any = getattr(sys.stdin, "buffer", None)
        if raw is None:
            raise RecordError("standard input is closed", "a file or a pipe", file=self.path)
        if not hasattr(raw, "peek"):  # a substitute of standard input may be no buffered file
            raw = io.BufferedReader(raw)
            self._closing.callback(raw.detach)
        compression = recognised(raw.peek(max(map(len, MAGIC))))
        return raw if compression is None else self._closing.enter_context(opened_to_read(raw, compression))

    def _read_more(self) -> None:
        """Add a block to the text, of a pipe what there is; to a long record as much as there is of it.

        The time is therefore linear in the length of a record.
        """
        if self._failure is not None:
            raise self._failure
        rest = self._text[self._at :]
        if len(rest) > LONGEST_RECORD:
            reason = f"the record has more than {LONGEST_RECORD:,} bytes"
            raise RecordError(reason, "shorter lines, and quotes in pairs", file=self.path, row=self.row + 1)
        parts, size = [rest], 0
        wanted = min(max(BLOCK_BYTES, len(rest)), LONGEST_RECORD + 1 - len(rest))
        try:
            while size < wanted and (part := self._bytes.read1(wanted - size)):  # type: ignore[attr-defined]
                parts.append(part)
                size += len(part)
                if self._live and (len(rest) < BLOCK_BYTES or b"\n" in part):
                    break
        except (EOFError, OSError, zlib.error) as error:
            if not size:
                raise
            self._failure = error
        if not size:
            self._ended = True
            self.open_ended = self._growing and bool(self.names and rest) and rest[-1] not in b"\r\n"
            parts = [] if self.open_ended else [rest, b"\n"]
        self._text, self._at = b"".join(parts), 0

    def _line(self) -> re.Match[bytes] | None:
        """Find the next line of the text that is not blank; the match ends after it. None at the end."""
        while (line := LINE.match(self._text, self._at)) is None:
            if self._ended:
                return None
            self._read_more()
        return line

    def _in_batches(self, batch: Batch, errors: dict[int, RecordError], end: int) -> Iterator[Batch]:
        """Yield the records of a batch in parts; `errors` are those of rows up to `end` that cannot be read.

        An error that is not handled comes after the rows before it.
        """
        while self.row < end:
            last = min(self.row + self._batch_rows, end)
            for number in [bad for bad in errors if bad <= last]:
                if self._on_bad_row is None:
                    self.row = number - 1
                    yield batch.take(slice(int(np.searchsorted(batch.numbers, number))))
                self._bad_row(errors.pop(number), number)
            self.row, count = last, int(np.searchsorted(batch.numbers, last, side="right"))
            yield batch.take(slice(count))  # of bad rows alone, too: whoever reads counts them now
            batch = batch.take(slice(count, None))

    def _numbered(self, count: int) -> NDArray[np.int64]:
        self.row += count
        return np.arange(self.row - count + 1, self.row + 1)

    def _start_csv(self) -> Iterator[Batch]:
        self._open_text()
        line = self._line()
        header = "" if line is None else _decoded(line[1])
        if line is not None and (separator := SEPARATOR_LINE.fullmatch(header)):
            self.delimiter = self.delimiter or separator[1]
            self._at, line = line.end(), None
        self.delimiter = self.delimiter or _delimiter_of(header)
        self._grammar = Grammar(self.delimiter)
        while (record := self._grammar.record(self._text, self._at)) is None and not self._ended:
            self._read_more()
        begin, end = record or (self._at, len(self._text))
        header = _decoded(self._text[begin:end]).strip("\r\n")
        if not header:
            raise RecordError("the file is empty", "a header row and data rows", file=self.path)
        try:
            self.names = tuple(self._fields(header))
        except csv.Error as error:
            raise RecordError(f"the header is not valid CSV ({error})", file=self.path) from None
        self._at = end
        return self._csv_batches(self._grammar)

    def _csv_batches(self, grammar: Grammar) -> Iterator[Batch]:
        while True:
            end = grammar.whole(self._text, self._at)
            if end > self._at:
                yield from self._csv_rows(self._text[self._at : end], grammar)
                self._at = end
            if (record := grammar.record(self._text, self._at)) is None:
                if not self._ended:
                    self._read_more()
                    continue
                if self._at == len(self._text) or self._growing:
                    self.open_ended |= self._at < len(self._text)
                    return
                record = self._at, len(self._text)
            text, self._at = self._text[slice(*record)], record[1]
            none = CsvBatch(self.names, np.empty(0, np.int64), arrow.read_csv(b"", self.names, grammar.delimiter))
            yield from self._in_batches(none, {self.row + 1: self._csv_error(text)}, self.row + 1)

    def _csv_rows(self, text: bytes, grammar: Grammar) -> Iterator[Batch]:
        """Yield the rows of whole records, each with the right quotes."""
        errors: dict[int, RecordError] = {}
        try:
            table = arrow.read_csv(text, self.names, grammar.delimiter)
            numbers = np.arange(self.row + 1, self.row + 1 + len(table))
            end = self.row + len(table)
        except pyarrow.ArrowInvalid:  # a record has another number of fields
            good: dict[int, bytes] = {}
            for number, (record, fields) in enumerate(grammar.records(text), self.row + 1):
                if fields == len(self.names):
                    good[number] = record
                else:
                    errors[number] = self._csv_error(record)
            table = arrow.read_csv(b"".join(good.values()), self.names, grammar.delimiter)
            numbers, end = np.fromiter(good, dtype=np.int64), self.row + len(good) + len(errors)
        yield from self._in_batches(CsvBatch(self.names, numbers, table), errors, end)

    def _csv_error(self, text: bytes) -> RecordError:
        """Return why a record of CSV cannot be used."""
        record = _decoded(text).rstrip("\r\n")
        try:
            number = len(self._fields(record))
        except csv.Error as error:
            reason, allowed = f"the row is not valid CSV ({error})", "fields, quoted or not; quotes in pairs"
        else:
            reason, allowed = f"the row has {number} fields", f"{len(self.names)}, as in the header"
            if number > len(self.names) and self.delimiter == "," and DECIMAL_COMMA.search(record):
                allowed += (
                    "; numbers with a decimal comma are in quotes, or with another --delimiter between the fields"
                )
        return RecordError(reason, allowed, record=record)

    def _fields(self, record: str) -> list[str]:
        return next(csv.reader([record], delimiter=self.delimiter or ",", strict=True))

    def _start_jsonl(self) -> Iterator[Batch]:
        self._open_text()
        while (line := self._line()) is not None:
            record = line[1].strip()
            if record:
                try:
                    self.names = tuple(json_object(record))
                    return self._json_batches()
                except RecordError as error:
                    self.row += 1
                    self._bad_row(error, self.row)
            self._at = line.end()
        reason = "no row of the file can be read" if self.row else "the file is empty"
        raise RecordError(reason, "a JSON object per line", file=self.path)

    def _json_batches(self) -> Iterator[Batch]:
        while True:
            end = last_line_end(self._text, self._at)
            if end <= self._at:
                if self._ended:
                    return
                self._read_more()
                continue
            text = self._text[self._at : end]
            records = [*filter(None, map(bytes.strip, text.splitlines()))]
            self._at, last = end, self.row + len(records)
            numbers, errors = np.arange(self.row + 1, last + 1), dict[int, RecordError]()
            table = json_table(text, records, self._used)
            if table is None:
                for number, record in zip(numbers.tolist(), records, strict=True):
                    try:
                        json_object(record, self._used)
                    except RecordError as error:
                        errors[number] = error
                bad = np.fromiter(errors, dtype=np.int64)
                numbers = np.setdiff1d(numbers, bad, assume_unique=True)
                records = [records[number - 1 - self.row] for number in numbers.tolist()]
            batch = JsonBatch(self.names, numbers, arrow.texts(records), table)
            yield from self._in_batches(batch, errors, last)

    # -- tables --------------------------------------------------------------------------------------------------------

    def _start_parquet(self) -> Iterator[Batch]:
        source = self.path if ADDRESS not in self.path else self._opened()[0]
        # `pre_buffer` would keep what was read until the file is closed.
        table = self._closing.enter_context(arrow.parquet().ParquetFile(source, pre_buffer=False))
        metadata = table.metadata
        self._name_columns(table.schema_arrow)
        self._share = lambda: self.row / max(metadata.num_rows, 1)
        size = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
        rows = min(self._batch_rows, max(TABLE_BYTES * metadata.num_rows // max(size, 1), 1))
        return self._table_batches(table.iter_batches(batch_size=rows, use_threads=False))

    def _start_arrow(self) -> Iterator[Batch]:
        """Start a file of Arrow, with an index at its end, or a stream, which has none and may come from a pipe."""
        if self.path == STANDARD_STREAM:
            raw = self._standard_input()
        else:
            raw, regular = self._opened()
            if regular:
                is_file = raw.read(len(ARROW_FILE)) == ARROW_FILE
                raw.seek(0)
                if is_file:
                    table = self._closing.enter_context(pyarrow.ipc.open_file(raw))
                    self._name_columns(table.schema)
                    self._share = lambda: self._begun / max(table.num_record_batches, 1)
                    return self._table_batches(map(table.get_batch, range(table.num_record_batches)))
        table = pyarrow.ipc.open_stream(raw)
        self._name_columns(table.schema)
        return self._table_batches(table)

    def _name_columns(self, schema: Any) -> None:
        self.names = tuple(schema.names)
        self.types = dict(zip(self.names, map(arrow.plain_type, schema.types), strict=True))

    def _table_batches(self, tables: Iterable[Any]) -> Iterator[Batch]:
        for self._begun, table in enumerate(tables, 1):
            for begin in range(0, len(table), self._batch_rows):
                some = arrow.without_views(table.slice(begin, self._batch_rows))
                yield TableBatch(self.names, self._numbered(len(some)), some)


def readers_of(files: Iterable[str], used: Sequence[str], **reading: Any) -> Generator[RecordReader]:
    """Yield a reader of each file that has the columns in use, open until the next one is asked for."""
    for file in files:
        with RecordReader(file, **reading) as reader:
            reader.require(*used)
            yield reader


def check_alike(files: Sequence[str], used: Sequence[str], *, outputs: bool, **reading: Any) -> None:
    """Raise `RecordError`, before anything is learned, where a later file does not go with the first one.

    All have to be of one format and have the columns in use; for an output, all columns in the order of the first,
    but for lines of JSON. Pipes are not looked at.
    """
    if len(files) == 1 or not all(map(can_be_read_twice, files)):
        return
    first: RecordReader | None = None
    for reader in readers_of(files, used, **{**reading, "on_bad_row": lambda _: None}):  # reported when they are read
        if first is None:
            first = reader
        if reader.kind.format != first.kind.format:
            reason = f"the format is {reader.kind.format}, and that of {first.path} is {first.kind.format}"
            raise RecordError(reason, "files of one format", file=reader.path)
        if outputs and reader.kind.format != "jsonl" and reader.names != first.names:
            name, wanted = next(pair for pair in zip_longest(reader.names, first.names) if pair[0] != pair[1])
            there = "no column" if name is None else repr(name)
            reason = f"it has {there} where {first.path} has {'none' if wanted is None else repr(wanted)}"
            raise RecordError(reason, "for an output, the same columns in the same order", file=reader.path)


def _listed(names: Sequence[str]) -> str:
    """List the names of columns for a message, the first ones of many."""
    more = f", … ({len(names):,} in all)" if len(names) > MOST_SHOWN else ""
    return ", ".join(map(shown, names[:MOST_SHOWN])) + more


def _is_number(name: str) -> bool:
    """Return whether a name of a column is a number.

    >>> _is_number(" 0.25"), _is_number("score")
    (True, False)
    """
    try:
        float(name)
    except ValueError:
        return False
    return True


def _is_text(begin: bytes) -> bool:
    r"""Return whether these bytes, the first of a file, are printable ASCII, spaces and line ends.

    >>> _is_text(b"score,cl"), _is_text(b"a\r\n0.5"), _is_text(b"\x1f\x8b\x08")
    (True, True, False)
    """
    return all(byte in b"\t\r\n" or 32 <= byte < 127 for byte in begin.removeprefix(BYTE_ORDER_MARK))


#: The first line that Excel writes and reads, before the header: what is between the fields.
SEPARATOR_LINE = re.compile(r'"?sep=([^"\r\n\x80-\U0010ffff])"?', re.IGNORECASE)


#: A line that is not blank, and its end.
LINE = re.compile(rb"[\r\n]*+([^\r\n]++)[\r\n]")


_LINE_END = re.compile(rb"[\r\n]")


class Grammar:
    """Records of CSV in bytes, by the rules of quotes of Python's csv module with `strict=True`.

    A field is quoted if a quote is its first character, two quotes inside stand for one, and after the closing one the
    field ends. A line end outside quotes ends the record.
    """

    def __init__(self, delimiter: str) -> None:
        self.delimiter = delimiter
        d, some = re.escape(delimiter.encode()), b'[^"]{0,%d}+' % LONGEST_FIELD
        quoted, plain = b'"' + some + b'(?:""' + some + b')*+"', b"[^" + d + b"\r\n]*+"
        field = b"(?:" + quoted + b'|(?!")' + plain + b")"
        loose = b"(?:" + quoted + plain + b'|(?!")' + plain + b")"  # with something after the closing quote
        record = b"(?:" + field + d + b")*+" + field + b"[\r\n]"
        self._whole, self._record = re.compile(b"(?:" + record + b")*+"), re.compile(record)
        self._field = re.compile(field + b"(?:" + d + b"|[\r\n])")
        self._loose = re.compile(b"[\r\n]*+((?:" + loose + d + b")*+)(" + loose + b"[\r\n])?")

    def whole(self, text: bytes, at: int) -> int:
        """Return where the whole records from this place on end."""
        if text.find(b'"', at) < 0:
            return max(last_line_end(text, at), at)
        match = self._whole.match(text, at)
        return at if match is None else match.end()

    def records(self, text: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield each record of a text of whole ones, without blank lines, and the number of its fields."""
        for record in self._record.findall(text):
            if record.strip(b"\r\n"):
                yield record, len(self._field.findall(record))

    def record(self, text: bytes, at: int) -> tuple[int, int] | None:
        """Return begin and end of the next record, whole or not; None if it may end in the text that follows.

        A quote that nothing closes in `LONGEST_FIELD` bytes ends its record at the line.
        """
        match = self._loose.match(text, at)
        assert match is not None
        begin, field = match.span(1)
        if match[2] is not None:
            return begin, match.end()
        if len(text) - field <= LONGEST_FIELD + 2 or text[field] != ord('"'):
            return None
        line = _LINE_END.search(text, field + LONGEST_FIELD)
        return None if line is None else (begin, line.end())


def last_line_end(text: bytes, at: int) -> int:
    """Return the place after the last line end from here on; 0 without one."""
    return max(text.rfind(b"\n", at), text.rfind(b"\r", at)) + 1


def _decoded(text: bytes) -> str:
    return str(text, "utf-8", "surrogateescape")


def _delimiter_of(header: str) -> str:
    """Return the delimiter of the names in this line: a comma if present, else the most frequent of the others.

    >>> _delimiter_of('id;"score, raw";click'), _delimiter_of("score"), _delimiter_of("amount;eur,click")
    (';', ',', ',')
    """
    bare = re.sub(r'"[^"]*("|$)', "", header)
    return "," if "," in bare else max(DELIMITERS, key=bare.count)
