"""Reading records from CSV, JSON Lines and Parquet files in chunks of bounded memory."""

from __future__ import annotations

import bisect
import codecs
import contextlib
import csv
import gzip
import io
import itertools
import json
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, BinaryIO, Self, cast

from streamcal.parameters.names import did_you_mean
from streamcal.stream.compression import GZIP_MAGIC, opened_to_read
from streamcal.stream.formats import STANDARD_STREAM, FileKind, import_pyarrow
from streamcal.stream.records import RecordError

#: Rows per chunk. Larger chunks are not faster (measured), smaller ones cost more per row.
CHUNK_ROWS = 4096
#: Bytes read at a time: the capacity of a pipe on Linux.
BLOCK_BYTES = 1 << 16
#: What can stand between the fields of a CSV file without being named.
DELIMITERS = (",", ";", "\t", "|")

Row = dict[str, Any]
#: Called for each row that cannot be read; reading continues when it returns.
BadRowHandler = Callable[[RecordError], None]


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive rows: `rows[i]` is data row number `numbers[i]` of the file, counted from 1.

    The numbers have gaps where rows could not be read and were passed to the handler of bad rows.
    """

    numbers: Sequence[int]
    rows: list[Row]

    def after(self, row: int) -> Chunk:
        """The rows with higher numbers."""
        if not self.numbers or self.numbers[0] > row:
            return self
        start = bisect.bisect_right(self.numbers, row)
        return Chunk(self.numbers[start:], self.rows[start:])


class RecordReader:
    """The records of a file as dict rows: iterate to get `Chunk`s.

    Fields of CSV files are text, exactly as in the file: bytes that are not UTF-8 are preserved and written back
    unchanged (surrogate escapes). Fields of JSON Lines and Parquet files are values. Blank lines are skipped and not
    counted. A truncated gzip file yields all rows that can be read, then the error. Rows of a pipe are yielded as they
    arrive: a chunk ends where reading the next row might block.

    Parameters
    ----------
    path
        .csv, .tsv, .jsonl or .ndjson, each also with .gz, .bz2 or .zst; .parquet; or "-", standard input, which may be
        compressed by gzip.
    format
        "csv", "jsonl" or "parquet", where the name does not say it; "-" is CSV by default.
    delimiter
        What stands between the fields of CSV. By default a tab in a .tsv, and in others what the header shows: a comma
        if it has one outside quotes, or else the most frequent of semicolon, tab and "|".
    on_bad_row
        Called with the `RecordError` of each row that cannot be read (a wrong number of fields, invalid
        JSON), after which reading continues. By default the error is raised, after the rows before it were
        yielded.
    chunk_rows
        Maximum number of rows per chunk; together with `BLOCK_BYTES` it bounds memory.

    Raises
    ------
    RecordError
        With file, row and column: for an unreadable or empty file, a header with a duplicate column, and rows that
        cannot be read, unless `on_bad_row` handles them.

    Notes
    -----
    Cost: about 1 µs per row for three columns of CSV.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "clicks.csv")
    >>> _ = path.write_text("score,click\\n0.10,0\\n0.90,1\\n")
    >>> with RecordReader(path) as reader:
    ...     for chunk in reader:
    ...         print(reader.names, list(chunk.numbers), chunk.rows[0])
    ('score', 'click') [1, 2] {'score': '0.10', 'click': '0'}
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,
        *,
        delimiter: str | None = None,
        on_bad_row: BadRowHandler | None = None,
        chunk_rows: int = CHUNK_ROWS,
    ) -> None:
        self.path = os.fspath(path)
        self.kind = FileKind.of(path, format)
        if delimiter is not None and self.kind.format != "csv":
            raise RecordError("only CSV has a delimiter", "none here", file=self.path)
        #: What stands between the fields of CSV; None until the header was read, and of other formats.
        self.delimiter = delimiter or self.kind.delimiter
        self._chunk_rows = chunk_rows
        self._on_bad_row = on_bad_row
        self._row = 0  # number of the data row being read
        self._dry = False  # whether every complete line received was yielded
        self._share: Callable[[], float | None] = lambda: None
        self._closing = contextlib.ExitStack()
        #: Names of the columns; for JSON Lines the keys of the first object, while later objects may have others.
        self.names: tuple[str, ...] = ()
        #: Types of the columns of a Parquet file, to be passed to a writer.
        self.types: dict[str, Any] = {}
        start = {"csv": self._start_csv, "jsonl": self._start_jsonl, "parquet": self._start_parquet}
        with self._closing, self._file_errors():
            self._rows = start[self.kind.format]()
            self._refuse_doubled_names()
            self._closing = self._closing.pop_all()  # opened and understood: closed by `close` from now on

    @property
    def row(self) -> int:
        """The number of the last data row that was read, also of one that cannot be used."""
        return self._row

    @property
    def share(self) -> float | None:
        """The fraction of the file that has been read; None if its size is not known, as for a pipe."""
        return self._share()

    def require(self, *columns: str) -> None:
        """Raise `RecordError`, which lists the existing columns, unless all of `columns` exist."""
        for column in columns:
            if column not in self.names:
                reason = f"there is no such column{did_you_mean(column, self.names)}"
                if self.delimiter is not None and len(self.names) == 1:
                    reason += "; if the one column is several, say with --delimiter what is between them"
                raise RecordError(reason, ", ".join(map(repr, self.names)), file=self.path, column=column)

    def __iter__(self) -> Iterator[Chunk]:
        """Yield chunks until the file ends; before an error, the rows that precede it."""
        more = True
        while more:
            numbers: list[int] = []
            rows: list[Row] = []
            failure: RecordError | None = None
            try:
                more = self._fill(numbers, rows)
            except RecordError as error:
                failure = error
            if rows:
                yield Chunk(numbers, rows)
            if failure is not None:
                raise failure

    def close(self) -> None:
        """Close the file; standard input stays open."""
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _refuse_doubled_names(self) -> None:
        doubled = next((name for i, name in enumerate(self.names) if name in self.names[:i]), None)
        if doubled is not None:
            raise RecordError("the file has this column twice", "different names", file=self.path, column=doubled)

    # -- the common loop -----------------------------------------------------------------------------------------------

    def _fill(self, numbers: list[int], rows: list[Row]) -> bool:
        """Append rows up to a full chunk, blocking for the first one only; False at the end of the file."""
        with self._file_errors():
            for row in self._rows:
                rows.append(row)
                numbers.append(self._row)
                if self._dry or len(rows) == self._chunk_rows:
                    return True
        return False

    def _bad_row(self, error: RecordError) -> None:
        """Pass the error of the current row to the handler, or raise it."""
        error.at(self.path, self._row)
        if self._on_bad_row is None:
            raise error
        self._on_bad_row(error)

    @contextlib.contextmanager
    def _file_errors(self) -> Iterator[None]:
        """Convert errors of the operating system, gzip and decoders to `RecordError`, with the row."""
        try:
            yield
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            row = self._row + 1 if self.names else None  # the first row that is missing
            raise RecordError(
                f"the {self.kind.compression or 'gzip'} file is truncated or damaged here ({error})",
                "a complete file",
                file=self.path,
                row=row,
            ) from None
        except OSError as error:
            raise RecordError(f"cannot be read: {error.strerror or error}", file=self.path) from None

    # -- formats: each start sets `names` and returns an iterator of rows that updates `_row` --------------------------

    def _open_bytes(self) -> BinaryIO:
        if self.path == STANDARD_STREAM:
            return self._standard_input()
        raw: Any = self._closing.enter_context(open(self.path, "rb"))  # noqa: SIM115  (the stack closes it)
        self._share = _share_of_bytes(raw)
        if self.kind.compression is not None:
            raw = self._closing.enter_context(opened_to_read(raw, self.kind.compression, self.path))
        return cast(BinaryIO, raw)

    def _standard_input(self) -> BinaryIO:
        """Standard input, decompressed if it begins as a gzip file does."""
        raw: Any = sys.stdin.buffer
        if not hasattr(raw, "peek"):  # what stands in for standard input may be no buffered file
            raw = io.BufferedReader(raw)
            self._closing.callback(raw.detach)
        if raw.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC):
            raw = self._closing.enter_context(gzip.GzipFile(fileobj=raw))
        return cast(BinaryIO, raw)

    def _open_lines(self) -> Iterator[str]:
        """The lines of the file with their line ends, as the csv module needs them; sets `_dry` after each.

        An `io.TextIOWrapper` yields the same lines, but cannot tell whether the next one is available without blocking.
        """
        file = self._open_bytes()
        decoder = codecs.getincrementaldecoder("utf-8-sig")("surrogateescape")
        begun = ""  # an incomplete line
        while block := file.read1(BLOCK_BYTES):  # type: ignore[attr-defined]
            lines = io.StringIO(begun + decoder.decode(block), newline="").readlines()
            begun = lines.pop() if lines and not lines[-1].endswith("\n") else ""
            if lines:
                self._dry = False
                yield from lines[:-1]
                self._dry = True
                yield lines[-1]
        yield from io.StringIO(begun + decoder.decode(b"", final=True), newline="")

    def _start_csv(self) -> Iterator[Row]:
        text = self._open_lines()
        if self.delimiter is None:
            first = next((line for line in text if line.strip("\r\n")), "")
            self.delimiter = _delimiter_of(first)
            text = itertools.chain((first,), text)
        # strict: a quote in the wrong place is an error, not a guess
        lines = csv.reader(text, delimiter=self.delimiter, strict=True)
        try:
            header = next((fields for fields in lines if fields), None)
        except csv.Error as error:
            raise RecordError(f"the header is not valid CSV ({error})", file=self.path) from None
        if header is None:
            raise RecordError("the file is empty", "a header row and data rows", file=self.path)
        self.names = tuple(header)
        return self._csv_rows(lines)

    def _csv_rows(self, lines: Iterator[list[str]]) -> Iterator[Row]:
        names, width = self.names, len(self.names)
        while True:
            try:
                for fields in lines:
                    if len(fields) == width:
                        self._row += 1
                        yield dict(zip(names, fields, strict=True))
                    elif fields:
                        self._row += 1
                        reason = f"the row has {len(fields)} fields"
                        self._bad_row(RecordError(reason, f"{width}, as in the header", record=self._as_csv(fields)))
                return
            except csv.Error as error:
                self._row += 1
                self._bad_row(RecordError(f"the row is not valid CSV ({error})", "fields, quoted or not"))

    def _as_csv(self, fields: list[str]) -> str:
        text = io.StringIO()
        csv.writer(text, delimiter=self.delimiter or ",", lineterminator="").writerow(fields)
        return text.getvalue()

    def _start_jsonl(self) -> Iterator[Row]:
        rows = self._jsonl_rows(self._open_lines())
        first = next(rows, None)
        if first is None:
            reason = "no row of the file can be read" if self._row else "the file is empty"
            raise RecordError(reason, "a JSON object per line", file=self.path)
        self.names = tuple(first)
        return itertools.chain((first,), rows)  # `_row` is its number until the next row is read

    def _jsonl_rows(self, lines: Iterator[str]) -> Iterator[Row]:
        for line in lines:
            text = line.strip()
            if not text:
                continue
            self._row += 1
            try:
                row = json.loads(text)
                if isinstance(row, dict):
                    yield row
                    continue
                reason = "the line is JSON, but not an object"
            except (ValueError, RecursionError) as error:
                reason = f"the line is not valid JSON ({error})"
            self._bad_row(RecordError(reason, 'an object such as {"score": 0.1, "click": 0}', record=text))

    def _start_parquet(self) -> Iterator[Row]:
        arrow, parquet = import_pyarrow(self.path)
        with self._arrow_errors(arrow):
            table = self._closing.enter_context(parquet.ParquetFile(self.path))
        self.names = tuple(table.schema_arrow.names)
        self.types = dict(zip(self.names, table.schema_arrow.types, strict=True))
        self._share = lambda: self._row / max(table.metadata.num_rows, 1)
        return self._parquet_rows(arrow, table)

    def _parquet_rows(self, arrow: Any, table: Any) -> Iterator[Row]:
        with self._arrow_errors(arrow):
            for batch in table.iter_batches(batch_size=self._chunk_rows):
                for fields in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                    self._row += 1
                    yield dict(zip(self.names, fields, strict=True))

    @contextlib.contextmanager
    def _arrow_errors(self, arrow: Any) -> Iterator[None]:
        try:
            yield
        except (arrow.ArrowException, ValueError) as error:
            if isinstance(error, RecordError):
                raise
            raise RecordError(f"cannot be read as Parquet: {error}", file=self.path) from None


def _share_of_bytes(file: BinaryIO) -> Callable[[], float | None]:
    """The position in the file, compressed or not, over its size."""
    size = os.fstat(file.fileno()).st_size
    return lambda: file.tell() / size if size and not file.closed else None


def _delimiter_of(header: str) -> str:
    """What stands between the names of this line: a comma if there is one, or else the most frequent of the others.

    >>> _delimiter_of('id;"score, raw";click'), _delimiter_of("score"), _delimiter_of("amount;eur,click")
    (';', ',', ',')
    """
    bare = re.sub(r'"[^"]*("|$)', "", header)
    return "," if "," in bare else max(DELIMITERS, key=bare.count)
