"""Observations of a file, of a table or of arrays, in pieces of bounded size, for what reads a stream once."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal.errors import InputError
from streamcal.metrics.base import check_probability
from streamcal.parameters.inputs import check_batch, check_times
from streamcal.stream.as_issued import Horizon, Judged, Lead
from streamcal.stream.batches import Batch, Row
from streamcal.stream.columns import Columns, FieldReader, Observations, Refused, rows_of
from streamcal.stream.files import input_files, title_of
from streamcal.stream.frames import as_table, name_arguments, require_columns, table_batches
from streamcal.stream.impressions import ImpressionReader, Impressions
from streamcal.stream.reading import RecordReader, check_alike, readers_of
from streamcal.stream.records import RecordError

#: Rows of a piece: some tenths of a second of the slowest method that takes microseconds.
PIECE_ROWS = 8_192


@dataclass
class Source:
    """A stream of observations: iterate once to get pieces of at most `PIECE_ROWS` rows.

    `name` is that of the file, or what the data are; `share` says which fraction was read, None where that is unknown.
    Where labels come late, pieces are `Judged`, and `lead` is the join that judges them.
    """

    name: str
    pieces: Iterable[Observations | Judged]
    share: Callable[[], float | None] = lambda: None
    lead: Lead | None = None

    def __iter__(self) -> Iterator[Observations | Judged]:
        return iter(self.pieces)


@contextmanager
def opened(
    data: Any,
    columns: Columns,
    *,
    unit: str | None = None,
    format: str | None = None,
    delimiter: str | None = None,
    refused: Refused | None = None,
    horizon: Horizon | None = None,
) -> Iterator[Source]:
    """Open the data that `compare` accepts: the name of a file, a pair (scores, labels) or a table.

    Scores of files and tables with a `unit` are percentages or log-odds. `format` and `delimiter` are those of a file,
    as for `RecordReader`. `refused` is called with the error and the record of each row of a file that cannot be used,
    which is then skipped; else it raises `InputError` while iterating, after the rows before. With a `horizon`, of
    files alone, labels come late, and `columns` has an id and the time of the label.
    """
    lead = None if horizon is None else Lead(horizon, columns)
    fields = (FieldReader if horizon is None else ImpressionReader)(columns, unit or "probability")
    if isinstance(data, (str, os.PathLike)) or _are_names(data):
        files = input_files(data)
        bad_row = None if refused is None else lambda error: refused(error, None)
        reading = {"format": format, "delimiter": delimiter, "on_bad_row": bad_row}
        check_alike(files, columns.used(), outputs=False, **reading)
        with closing(readers_of(files, columns.used(), **reading)) as readers:
            first = next(readers)
            source = Source(title_of(files), (), lead=lead)
            source.pieces = _of_files(chain([first], readers), source, fields, refused, len(files))
            yield source
    elif isinstance(data, tuple) and 2 <= len(data) <= 4:
        if columns.segments:
            raise InputError("arrays have no columns of segments; give a file or a table")
        yield _counted("arrays", [_of_arrays(*data)])
    else:
        table = as_table(data)
        require_columns(table, columns.used())
        batches = table_batches(table, columns.used())
        yield _counted("table", _of_table(batches, fields), sum(map(len, batches)))


def _are_names(data: Any) -> bool:
    """Return whether these are several names of files."""
    return isinstance(data, list) and bool(data) and all(isinstance(name, (str, os.PathLike)) for name in data)


def _of_files(
    readers: Iterable[RecordReader], source: Source, fields: FieldReader, refused: Refused | None, files: int
) -> Iterator[Observations | Judged]:
    """Yield the observations of files, one file after the other; each file is an equal part of the share read."""
    for done, reader in enumerate(readers):

        def share(done: int = done, reader: RecordReader = reader) -> float | None:
            return None if reader.share is None else (done + reader.share) / files

        def refuse(error: RecordError, row: Row | None, file: str = reader.path) -> None:
            error.file = file
            if refused is None:
                raise error
            refused(error, row)

        source.share = share
        for batch in reader:
            try:
                observed, places = fields.usable(batch, None if refused is None else refuse)
            except RecordError as error:
                error.file = reader.path
                raise
            if source.lead is None:
                yield from _cut(observed)
            else:
                yield from _judged(source.lead, observed, batch, places, refuse)


def _judged(
    lead: Lead, impressions: Impressions, batch: Batch, places: NDArray[np.int64], refuse: Refused
) -> Iterator[Judged]:
    """Yield impressions in pieces, with what is judged by the end of each; `places` are those in the batch."""
    for begin in range(0, len(places), PIECE_ROWS):

        def refuse_one(place: int, error: RecordError, begin: int = begin) -> None:
            at = int(places[begin + place])
            error.row, error.label = int(batch.numbers[at]), bool(impressions.labels[begin + place])
            refuse(error, batch.row(at))

        yield lead.judged(rows_of(impressions, slice(begin, begin + PIECE_ROWS)), refuse_one)


def _of_table(batches: Iterable[Any], fields: FieldReader) -> Iterator[Observations]:
    for batch in batches:
        try:
            yield fields.all(batch)
        except RecordError as error:
            name_arguments(error)
            raise


def _of_arrays(scores: Any, y: Any, w: Any = None, t: Any = None) -> Observations:
    """Check arrays, all of them, and return them as observations."""
    s, labels, weights = check_batch(scores, y, w)
    outside = (s < 0.0) | (s > 1.0)
    if outside.any():
        check_probability(float(s[np.argmax(outside)]))
    times = None if t is None else check_times(t, len(s))
    return Observations(s, labels > 0.0, None if w is None else weights, times)


def _counted(name: str, whole: Iterable[Observations], rows: int | None = None) -> Source:
    """Make a source in memory, of which the share that was read is known."""
    if isinstance(whole, list):
        rows = sum(len(observations.scores) for observations in whole)
    done = 0

    def pieces() -> Iterator[Observations]:
        nonlocal done
        for observations in whole:
            for piece in _cut(observations):
                done += len(piece.scores)
                yield piece

    return Source(name, pieces(), lambda: done / rows if rows else 1.0)


def _cut(observations: Observations) -> Iterator[Observations]:
    """Yield the same rows in pieces."""
    for begin in range(0, len(observations.scores), PIECE_ROWS):
        yield rows_of(observations, slice(begin, begin + PIECE_ROWS))
