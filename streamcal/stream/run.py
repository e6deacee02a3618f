"""The job of `streamcal run`: records in, calibrated records out, row by row, in bounded memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

from streamcal.calibrators.base import Calibrator
from streamcal.errors import InputError, SolverError
from streamcal.stream.formats import STANDARD_STREAM
from streamcal.stream.prequential import Prediction, Prequential
from streamcal.stream.reading import Chunk, RecordReader, Row
from streamcal.stream.records import (
    MISSING,
    LabelReader,
    RecordError,
    label_advice,
    parse_probability,
    parse_score,
    parse_time,
    parse_weight,
)
from streamcal.stream.writing import RecordWriter, to_json

#: Columns that the output adds to those of the input.
CALIBRATED, LOWER, UPPER = "calibrated", "lower", "upper"
REJECT_COLUMNS = ("row", "column", "reason", "record")
#: Rows between two reports of progress and two writes: a second's work at most, of the slowest method too.
CHUNK_ROWS = 512


@dataclass(frozen=True)
class Columns:
    """Names of the columns to read; time and weight only where they are given."""

    score: str
    label: str
    time: str | None = None
    weight: str | None = None
    #: The label that is positive, where the words for it are others than those of `parse_label`.
    positive: str | None = None

    def used(self) -> list[str]:
        """The names given."""
        return [name for name in (self.score, self.label, self.time, self.weight) if name is not None]


class Observation(NamedTuple):
    """The fields of a row, parsed; in the order of the arguments of `learn_one`."""

    score: float
    y: bool
    w: float
    t: float | None


@dataclass
class Run:
    """One pass over a stream: `execute` predicts, then learns, each row, and writes it with its prediction.

    Parameters
    ----------
    calibrator : Calibrator
        Goes on learning from where it stands; afterwards it holds all rows that were read.
    source, format : str
        A file `RecordReader` can read.
    columns : Columns
    out : str or None
        A file for the input columns plus `calibrated`, and `lower` and `upper` where the method has an interval; "-"
        is standard output, in the format of the source (CSV for Parquet).
    skip : bool
        Go on after a row that cannot be used, instead of raising its `RecordError`.
    rejects : str or None
        A file for the rows skipped, each with its number, column and reason.

    Attributes
    ----------
    evaluation : Prequential
        The measures, and the number of rows learned.
    skipped : int
        The number of rows skipped.
    started : bool
        Whether the files were opened and have the columns.
    seconds : float
        How long the rows took, with reading and writing.
    """

    calibrator: Calibrator
    source: str
    columns: Columns
    format: str | None = None
    out: str | None = None
    skip: bool = False
    rejects: str | None = None
    evaluation: Prequential = field(init=False)
    skipped: int = field(default=0, init=False)
    started: bool = field(default=False, init=False)
    seconds: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.evaluation = Prequential(self.calibrator)
        self._parse_score = parse_score if self.evaluation.raw is None else parse_probability
        self._parse_label = LabelReader(self.columns.positive)
        self._rejected: list[dict[str, Any]] = []
        self._reject_file: RecordWriter | None = None
        #: Columns a row of the output can have; None where the reader sees to that (all formats but JSON Lines).
        self._known: frozenset[str] | None = None
        #: The columns that the output adds.
        self._added = (CALIBRATED, LOWER, UPPER) if self.calibrator.has_interval else (CALIBRATED,)
        # While rows are learned and written a request to end waits for the row boundary, so that the output and the
        # calibrator hold the same rows; while input is waited for, nothing is half done and it is met at once.
        self._waiting = True
        self._interrupted = False

    def execute(self, progress: Callable[[int, float | None], None] = lambda rows, share: None) -> None:
        """Read to the end; `progress(rows, share of the file or None)` is called after each chunk.

        Raises `RecordError` at the first row that cannot be used, unless `skip`, `SolverError` where no prediction was
        found, and `KeyboardInterrupt` after an `interrupt`; rows before it are in the output and in the calibrator.
        """
        self._refuse_same_files()
        on_bad_row = self._reject_unread if self.skip else None
        with ExitStack() as files:
            reader = RecordReader(self.source, self.format, on_bad_row=on_bad_row, chunk_rows=CHUNK_ROWS)
            files.enter_context(reader)
            reader.require(*self.columns.used())
            writer = self._open_out(files, reader)
            if self.rejects is not None:
                self._reject_file = files.enter_context(RecordWriter(self.rejects, REJECT_COLUMNS))
            self.started, begun = True, time.perf_counter()
            try:
                for chunk in self._chunks(reader):
                    self._take_all(chunk, writer)
                    progress(self.evaluation.rows + self.skipped, reader.share)
            finally:
                self.seconds = time.perf_counter() - begun
                self._write_rejected()  # those after which no good row came

    def interrupt(self) -> None:
        """End the run with a `KeyboardInterrupt` at the next row boundary. For signal handlers."""
        self._interrupted = True
        if self._waiting:
            self._waiting = False  # from here on files are closed
            raise KeyboardInterrupt

    def _chunks(self, reader: RecordReader) -> Iterator[Chunk]:
        """The chunks of the reader; a request to end is met here."""
        chunks = iter(reader)
        try:
            while True:
                self._wait()
                chunk = next(chunks, None)
                self._waiting = False
                if chunk is None:
                    return
                yield chunk
        finally:
            self._waiting = False

    def _wait(self) -> None:
        """Nothing is half done from here on: a request to end is met at once, one that came before, now."""
        self._waiting = True
        if self._interrupted:
            raise KeyboardInterrupt

    def _take_all(self, chunk: Chunk, writer: RecordWriter | None) -> None:
        """Take the rows of a chunk, up to the first that cannot be used or to a request to end, and write them."""
        done: list[Row] = []
        try:
            for number, row in zip(chunk.numbers, chunk.rows, strict=True):
                if self._interrupted:
                    break
                try:
                    self._take(row)
                except RecordError as error:
                    error.at(self.source, number, error.column)
                    if not self.skip:
                        self._advise(error, chunk.rows)
                        raise
                    self._reject(error, row)
                except SolverError as error:  # a failure of the solver, not of the row: skipping it would not help
                    raise SolverError(f"{self.source}, row {number}: {error}") from None
                else:
                    done.append(row)
        finally:
            _write(writer, done)
            self._write_rejected()

    def _take(self, row: Row) -> None:
        """Predict and learn one row, and add the prediction to it."""
        if self._known is not None:
            self._check_keys(row)
        observation = self._parse(row)
        try:
            prediction = self.evaluation.step(*observation)
        except InputError as error:
            raise RecordError(str(error), column=self.columns.score) from None
        _add(prediction, row)

    def _parse(self, row: Row) -> Observation:
        """The fields of a row; its `RecordError` names the column."""
        columns = self.columns
        w, t = 1.0, None
        try:
            score = self._parse_score(row.get(column := columns.score))
            y = self._parse_label(row.get(column := columns.label))
            if columns.weight is not None:
                w = parse_weight(row.get(column := columns.weight))
            if columns.time is not None:
                t = parse_time(row.get(column := columns.time))
        except RecordError as error:
            error.column = column
            raise
        return Observation(score, y, w, t)

    def _advise(self, error: RecordError, rows: list[Row]) -> None:
        """Add to the error of a label that is no known word which labels there are, and what to give."""
        if error.column == self.columns.label and self.columns.positive is None and error.reason != MISSING:
            error.allowed = f"{error.allowed}; {label_advice(row.get(self.columns.label) for row in rows)}"

    def _check_keys(self, row: Row) -> None:
        """`RecordError` where a row of JSON Lines has a column that the output cannot take, or that it adds."""
        for name in row:
            if name in self._added:
                raise RecordError("the output adds a column of this name", "other names", column=name)
            if self._known and name not in self._known:
                raise RecordError("the first row has no such column", "its columns, or JSON Lines out", column=name)

    # -- rows that cannot be used ------------------------------------------------------------------------------------

    def _reject_unread(self, error: RecordError) -> None:
        """Reject a row the reader cannot split, all of it, before a request to end is met."""
        self._waiting = False
        self._reject(error, None)
        self._wait()

    def _reject(self, error: RecordError, row: Row | None) -> None:
        self.skipped += 1
        if self.rejects is None:
            return
        record = error.record if row is None else to_json(row)
        reason = error.reason + (f"; allowed: {error.allowed}" if error.allowed else "")
        values = (error.row, error.column, reason, record)
        self._rejected.append(dict(zip(REJECT_COLUMNS, values, strict=True)))
        if len(self._rejected) >= CHUNK_ROWS:  # a long stretch of bad rows makes no chunk
            self._write_rejected()

    def _write_rejected(self) -> None:
        if self._reject_file is not None:
            self._rejected.sort(key=itemgetter("row"))  # the reader is ahead of the rows that are learned
            _write(self._reject_file, self._rejected)
            self._rejected.clear()

    # -- files -------------------------------------------------------------------------------------------------------

    def _refuse_same_files(self) -> None:
        """`RecordError` where one file would overwrite another."""
        named = (("the input", self.source), ("--out", self.out), ("--rejects", self.rejects))
        given = [(what, file) for what, file in named if file is not None]
        for i, (what, file) in enumerate(given):
            for other, earlier in given[:i]:
                two_streams = file == STANDARD_STREAM and earlier == self.source
                if same_file(file, earlier) and not two_streams:
                    raise RecordError(f"{what} would overwrite {other}", "another file", file=file)

    def _open_out(self, files: ExitStack, reader: RecordReader) -> RecordWriter | None:
        if self.out is None:
            return None
        for name in self._added:
            if name in reader.names:
                reason = "the input has a column of this name already, which the output would overwrite"
                raise RecordError(reason, "another name", file=self.source, column=name)
        names = [*reader.names, *self._added]
        format = reader.kind.on_standard_output if self.out == STANDARD_STREAM else None
        writer = RecordWriter(self.out, names, format, types=reader.types)
        if reader.kind.format == "jsonl":
            self._known = frozenset() if writer.kind.format == "jsonl" else frozenset(reader.names)
        return files.enter_context(writer)


def same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Whether two names stand for one file (no device), by whatever links, also before it exists.

    >>> same_file("a.csv", "./a.csv"), same_file("a.csv", "b.csv"), same_file("/dev/null", "/dev/null")
    (True, False, False)
    """
    if Path(one).exists() and Path(other).exists():
        return Path(one).is_file() and os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)


def _add(prediction: Prediction, row: Row) -> None:
    row[CALIBRATED] = prediction.calibrated
    if prediction.interval is not None:
        row[LOWER], row[UPPER] = prediction.interval


def _write(writer: RecordWriter | None, rows: list[Any]) -> None:
    """Write rows and hand them over: whoever reads the file, or the pipe, has them."""
    if writer is not None and rows:
        writer.write(rows)
        writer.flush()
