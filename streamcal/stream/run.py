"""The job of `streamcal run`: reads records and writes calibrated records, row by row, in bounded memory."""

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
from streamcal.errors import ClockError, InputError, SolverError
from streamcal.stream.formats import STANDARD_STREAM, FileKind
from streamcal.stream.prequential import Prediction, Prequential
from streamcal.stream.reading import Chunk, RecordReader, Row
from streamcal.stream.records import (
    MISSING,
    PARSED_AS_PROBABILITY,
    LabelReader,
    RecordError,
    label_advice,
    parse_probability,
    parse_score,
    parse_time,
    parse_weight,
)
from streamcal.stream.writing import RecordWriter, to_json

#: Columns that the output has in addition to those of the input.
CALIBRATED, LOWER, UPPER = "calibrated", "lower", "upper"
REJECT_COLUMNS = ("row", "column", "reason", "record")
#: Rows between two progress reports and between two writes: at most a second of work, also for the slowest method.
CHUNK_ROWS = 512


@dataclass(frozen=True)
class Columns:
    """Names of the columns to read; time and weight are optional."""

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
        Continues to learn from its current state.
    source, format : str
        A file that `RecordReader` can read.
    columns : Columns
    out : str or None
        A file for the input columns plus `calibrated`, and `lower` and `upper` where the method has an interval; "-"
        is standard output, in the format of the source (CSV for Parquet).
    skip : bool
        Continue after a row that cannot be used, instead of raising its `RecordError`.
    rejects : str or None
        A file for the rows skipped, each with its number, column and reason.
    delimiter : str or None
        What stands between the fields of a CSV source, and of a CSV output unless their names say otherwise. None: what
        `RecordReader` finds.
    unit : {"percent", "logit"} or None
        Scores are percentages or log-odds: the method, and the comparison with raw, read them as probabilities.

    Attributes
    ----------
    evaluation : Prequential
        The measures, and the number of rows learned.
    skipped : int
        The number of rows skipped.
    late : int
        The number of rows too old to be learned, by the method's own count.
    latest : float or None
        The latest time read.
    started : bool
        Whether the files were opened and contain the columns.
    seconds : float
        Elapsed time, with reading and writing.
    """

    calibrator: Calibrator
    source: str
    columns: Columns
    format: str | None = None
    out: str | None = None
    skip: bool = False
    rejects: str | None = None
    delimiter: str | None = None
    unit: str | None = None
    evaluation: Prequential = field(init=False)
    skipped: int = field(default=0, init=False)
    latest: float | None = field(default=None, init=False)
    started: bool = field(default=False, init=False)
    seconds: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self.evaluation = Prequential(self.calibrator)
        self._parse_score: Callable[[Any], float]
        self._parse_score = parse_score if self.evaluation.raw is None else parse_probability
        if self.unit is not None:
            if self.evaluation.raw is None:
                raise InputError(f"scores read as {self.unit} become probabilities, which {self.calibrator!r} has not")
            self._parse_score = PARSED_AS_PROBABILITY[self.unit]
        self._parse_label = LabelReader(self.columns.positive)
        self._late_before = self._late_in_all
        self._rejected: list[dict[str, Any]] = []
        self._reject_file: RecordWriter | None = None
        #: Allowed columns of a row; None where the reader guarantees them (all formats but JSON Lines).
        self._known: frozenset[str] | None = None
        #: The columns that the output adds.
        self._added = (CALIBRATED, LOWER, UPPER) if self.calibrator.has_interval else (CALIBRATED,)
        # While rows are learned and written, an interrupt takes effect at the next row boundary, so that output and
        # calibrator contain the same rows; while the run waits for input, it takes effect at once.
        self._waiting = True
        self._interrupted = False

    def execute(self, progress: Callable[[int, float | None], None] = lambda rows, share: None) -> None:
        """Read to the end; `progress(rows, share of the file or None)` is called after each chunk.

        Raises `RecordError` at the first row that cannot be used, unless `skip`, `SolverError` if a solver fails, and
        `KeyboardInterrupt` after an `interrupt`; the rows before are in the output and have been learned.
        """
        self._refuse_same_files()
        on_bad_row = self._reject_unread if self.skip else None
        with ExitStack() as files:
            reader = RecordReader(
                self.source, self.format, delimiter=self.delimiter, on_bad_row=on_bad_row, chunk_rows=CHUNK_ROWS
            )
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
                self._write_rejected()  # those after the last good row

    @property
    def late(self) -> int:
        """The number of rows of this run that were too old to be learned."""
        return self._late_in_all - self._late_before

    @property
    def _late_in_all(self) -> int:
        return self.calibrator.tally().get("late", 0)

    def interrupt(self) -> None:
        """End the run with a `KeyboardInterrupt` at the next row boundary. For signal handlers."""
        self._interrupted = True
        if self._waiting:
            self._waiting = False  # the files are closed next
            raise KeyboardInterrupt

    def _chunks(self, reader: RecordReader) -> Iterator[Chunk]:
        """The chunks of the reader; an interrupt takes effect here."""
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
        """From here on an interrupt takes effect at once, as does one that is pending."""
        self._waiting = True
        if self._interrupted:
            raise KeyboardInterrupt

    def _take_all(self, chunk: Chunk, writer: RecordWriter | None) -> None:
        """Process and write the rows of a chunk, up to the first that cannot be used or an interrupt."""
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
                except SolverError as error:  # a failure of the solver, not of the row: never skipped
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
            column = self.columns.time if isinstance(error, ClockError) else self.columns.score
            raise RecordError(str(error), column=column) from None
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
                self.latest = t if self.latest is None else max(self.latest, t)
        except RecordError as error:
            error.column = column
            raise
        return Observation(score, y, w, t)

    def _advise(self, error: RecordError, rows: list[Row]) -> None:
        """Add to the error of a label that is no known word which labels there are, and what to give."""
        if error.column == self.columns.label and self.columns.positive is None and error.reason != MISSING:
            error.allowed = f"{error.allowed}; {label_advice(row.get(self.columns.label) for row in rows)}"

    def _check_keys(self, row: Row) -> None:
        """`RecordError` if a row of JSON Lines has a column that the output cannot have, or that it adds."""
        for name in row:
            if name in self._added:
                raise RecordError("the output adds a column of this name", "other names", column=name)
            if self._known and name not in self._known:
                raise RecordError("the first row has no such column", "its columns, or JSON Lines out", column=name)

    # -- rows that cannot be used ------------------------------------------------------------------------------------

    def _reject_unread(self, error: RecordError) -> None:
        """Reject a row that the reader cannot split, and only then let an interrupt take effect."""
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
        if len(self._rejected) >= CHUNK_ROWS:  # many bad rows in succession yield no chunk
            self._write_rejected()

    def _write_rejected(self) -> None:
        if self._reject_file is not None:
            self._rejected.sort(key=itemgetter("row"))  # the reader is ahead of the rows being learned
            _write(self._reject_file, self._rejected)
            self._rejected.clear()

    # -- files -------------------------------------------------------------------------------------------------------

    def _refuse_same_files(self) -> None:
        """`RecordError` if one file would overwrite another."""
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
        named = self.out != STANDARD_STREAM and _names_delimiter(self.source, self.out)
        between = None if named else reader.delimiter
        writer = RecordWriter(self.out, names, format, types=reader.types, delimiter=between)
        if reader.kind.format == "jsonl":
            self._known = frozenset() if writer.kind.format == "jsonl" else frozenset(reader.names)
        return files.enter_context(writer)


def same_file(one: str | os.PathLike[str], other: str | os.PathLike[str]) -> bool:
    """Whether two names refer to the same file (devices excluded), links resolved, whether or not it exists.

    Examples
    --------
    >>> same_file("a.csv", "./a.csv"), same_file("a.csv", "b.csv"), same_file("/dev/null", "/dev/null")
    (True, False, False)
    """
    if Path(one).exists() and Path(other).exists():
        return Path(one).is_file() and os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)


def _names_delimiter(*paths: str) -> bool:
    """Whether one of these names says what stands between the fields, as that of a .tsv does."""
    return any(FileKind.of(path, "csv").delimiter is not None for path in paths)


def _add(prediction: Prediction, row: Row) -> None:
    row[CALIBRATED] = prediction.calibrated
    if prediction.interval is not None:
        row[LOWER], row[UPPER] = prediction.interval


def _write(writer: RecordWriter | None, rows: list[Any]) -> None:
    """Write rows and flush, so that readers of the file or pipe receive them."""
    if writer is not None and rows:
        writer.write(rows)
        writer.flush()
