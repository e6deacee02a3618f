"""The job of `streamcal run`: records in, calibrated records out, row by row, in bounded memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from streamcal.base import Calibrator, InputError
from streamcal.stream.prequential import Prequential
from streamcal.stream.reading import RecordReader, Row
from streamcal.stream.records import RecordError, parse_label, parse_score, parse_time, parse_weight
from streamcal.stream.writing import RecordWriter, to_json

#: Columns that the output adds to those of the input.
CALIBRATED, LOWER, UPPER = "calibrated", "lower", "upper"
REJECT_COLUMNS = ("row", "column", "reason", "record")


@dataclass
class Columns:
    """Names of the columns to read; time and weight only where they are given."""

    score: str
    label: str
    time: str | None = None
    weight: str | None = None

    def used(self) -> list[str]:
        """The names given."""
        return [name for name in (self.score, self.label, self.time, self.weight) if name is not None]


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
        A file for the input columns plus `calibrated`, and `lower` and `upper` where the method has an interval.
    skip : bool
        Go on after a row that cannot be used, instead of raising its `RecordError`.
    rejects : str or None
        A file for the rows skipped, each with its number, column and reason.
    """

    calibrator: Calibrator
    source: str
    columns: Columns
    format: str | None = None
    out: str | None = None
    skip: bool = False
    rejects: str | None = None
    skipped: int = field(default=0, init=False)
    evaluation: Prequential = field(init=False)
    _rejected: list[dict[str, Any]] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.evaluation = Prequential(self.calibrator)

    def execute(self, progress: Callable[[int, float | None], None] = lambda rows, share: None) -> None:
        """Read to the end; `progress(rows, share of the file or None)` is called after each chunk.

        Raises `RecordError` at the first row that cannot be used, unless `skip`; rows before it are in the output
        and in the calibrator.
        """
        with ExitStack() as files:
            reader = files.enter_context(RecordReader(self.source, self.format, on_bad_row=self._bad_row()))
            reader.require(*self.columns.used())
            writer = self._open_out(files, reader)
            rejects = RecordWriter(self.rejects, REJECT_COLUMNS) if self.rejects else None
            if rejects is not None:
                files.enter_context(rejects)
            for chunk in reader:
                done: list[Row] = []
                try:
                    for number, row in zip(chunk.numbers, chunk.rows, strict=True):
                        self._take(number, row, done)
                finally:
                    if writer is not None:
                        writer.write(done)
                    if rejects is not None:
                        rejects.write(self._rejected)
                    self._rejected.clear()
                progress(self.evaluation.rows + self.skipped, reader.share)

    def _take(self, number: int, row: Row, done: list[Row]) -> None:
        """Predict and learn one row, and append it to `done`; a row that cannot be used is rejected."""
        try:
            prediction = self._step(row)
        except RecordError as error:
            error.at(self.source, number, error.column)
            if not self.skip:
                raise
            self._reject(error, row)
            return
        row[CALIBRATED] = prediction.calibrated
        if prediction.interval is not None:
            row[LOWER], row[UPPER] = prediction.interval
        done.append(row)

    def _step(self, row: Row) -> Any:
        columns = self.columns
        score = _field(row, columns.score, parse_score)
        y = _field(row, columns.label, parse_label)
        w = 1.0 if columns.weight is None else _field(row, columns.weight, parse_weight)
        t = None if columns.time is None else _field(row, columns.time, parse_time)
        try:
            return self.evaluation.step(score, y, w, t)
        except InputError as error:
            raise RecordError(str(error), column=columns.score) from None

    def _bad_row(self) -> Callable[[RecordError], None] | None:
        """What the reader does with a row it cannot split: None lets it raise."""
        return (lambda error: self._reject(error, None)) if self.skip else None

    def _reject(self, error: RecordError, row: Row | None) -> None:
        self.skipped += 1
        record = error.record if row is None else to_json(row)
        reason = error.reason + (f"; allowed: {error.allowed}" if error.allowed else "")
        values = (error.row, error.column, reason, record)
        self._rejected.append(dict(zip(REJECT_COLUMNS, values, strict=True)))

    def _open_out(self, files: ExitStack, reader: RecordReader) -> RecordWriter | None:
        if self.out is None:
            return None
        for other in (self.source, self.rejects):
            if self.out != "-" and other is not None and os.path.realpath(self.out) == os.path.realpath(other):
                raise RecordError("the output would overwrite this file", "another file", file=other)
        added = [CALIBRATED, *([LOWER, UPPER] if self.calibrator.has_interval else [])]
        for name in added:
            if name in reader.names:
                reason = "the input has a column of this name already, which the output would overwrite"
                raise RecordError(reason, "another name", file=self.source, column=name)
        format = self.format if self.out == "-" else None
        return files.enter_context(RecordWriter(self.out, [*reader.names, *added], format, types=reader.types))


def _field(row: Row, column: str, parse: Callable[[Any], Any]) -> Any:
    """The parsed field of a row; its `RecordError` names the column."""
    try:
        return parse(row.get(column))
    except RecordError as error:
        error.column = column
        raise
