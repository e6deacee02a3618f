"""The columns of impressions whose labels come late: what a row, or a batch, says of them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal.errors import InputError
from streamcal.live.issued import Id, check_id
from streamcal.parameters.types import FloatArray
from streamcal.stream.arrow import ERRORS, filled
from streamcal.stream.batches import Batch, Row
from streamcal.stream.columns import FieldReader, field_of, labels_in, missing_in, plain
from streamcal.stream.records import LEAVE_OUT, MISSING, RecordError, as_read, is_missing
from streamcal.stream.times import TimeReader

#: The time of a label that did not come.
NEVER = math.inf


class Impression(NamedTuple):
    """The fields of a row, parsed; `label_time` is infinite where no outcome is known, `version` None where missing."""

    score: float
    y: bool
    w: float
    t: float
    id: Id
    label_time: float
    version: Id | None
    keys: dict[str, str | int | None]


class Impressions(NamedTuple):
    """The fields of some rows, parsed, an array each, and the ids as they are in the file."""

    scores: FloatArray
    labels: NDArray[np.bool_]
    weights: FloatArray | None
    times: FloatArray
    ids: list[Any]
    label_times: FloatArray
    #: None where no column was named; None of a row where it is missing.
    versions: list[Id | None] | None = None
    keys: dict[str, list[str | int | None]] | None = None


class ImpressionReader(FieldReader):
    """A `FieldReader` of rows that have an id, the time of the event, and that of the label, which may be missing.

    Without the time of a label there is no outcome, and the label must be negative or missing. A label may be stamped
    before its event by as much as clocks differ; it then counts as immediate.
    """

    def many(self, batch: Batch) -> Impressions | None:  # type: ignore[override]
        observed, columns = super().many(batch), self._columns
        if observed is None or observed.times is None or columns.id is None or columns.label_time is None:
            return None
        try:
            ids = plain(batch.exact(columns.id))
            versions = None if columns.version is None else _versions(plain(batch.exact(columns.version)))
            label_times = _label_times(batch.column(columns.label_time), self._time, columns.label_time)
            labelled = ~missing_in(batch.column(columns.label or ""))
        except (*ERRORS, RecordError):
            return None
        came = label_times < NEVER
        if (observed.labels & ~came).any() or (came & ~labelled).any():
            return None
        if not (label_times >= observed.times - columns.clock_skew).all():
            return None
        return Impressions(*observed[:3], observed.times, ids, label_times, versions, observed.keys)

    def one(self, row: Row) -> Impression:  # type: ignore[override]
        observed, columns = super().one(row), self._columns
        assert observed.t is not None
        assert columns.id is not None
        assert columns.label_time is not None
        id = field_of(row, columns.id, _id)
        version = None if columns.version is None else field_of(row, columns.version, version_of)
        if is_missing(as_read(row.get(columns.label_time))):
            if observed.y:
                reason = "a positive label has no time"
                raise RecordError(reason, "the time when it came", column=columns.label_time)
            return Impression(*observed[:3], observed.t, id, NEVER, version, observed.keys)
        label_time = self._time_in(row, columns.label_time)
        if label_time < observed.t - columns.clock_skew:
            twice = self._time.repeated(as_read(row.get(columns.label_time)))
            reason = f"the label came {observed.t - label_time:.6g} s before its event{twice}"
            allowed = (
                f"no time more than {columns.clock_skew:g} s (--clock-skew) before that of {columns.time!r}, and no "
                "time at all in a row without a label"
            )
            raise RecordError(reason, allowed, column=columns.label_time)
        return Impression(*observed[:3], observed.t, id, label_time, version, observed.keys)

    def _gathered(self, rows: list[Impression]) -> Impressions:
        scores, y, w, t, ids, label_times, versions, keys = zip(*rows, strict=True) if rows else ((),) * 8
        numbers = (np.array(column, dtype=np.float64) for column in (scores, w, t, label_times))
        s, weights, times, came = numbers
        known = None if self._columns.version is None else list(versions)
        labels = np.array(y, dtype=np.bool_)
        return Impressions(s, labels, weights, times, list(ids), came, known, self._columns_of(keys))

    def _labels_of(self, batch: Batch) -> NDArray[np.bool_] | None:
        return labels_in(batch.column(self._columns.label or ""), self._label_of, missing=False)

    def _label_in(self, row: Row) -> bool:
        columns = self._columns
        missing = all(is_missing(as_read(row.get(name or ""))) for name in (columns.label, columns.label_time))
        return False if missing else super()._label_in(row)


def _label_times(column: Any, reader: TimeReader, name: str) -> FloatArray:
    """Return the times of labels, `NEVER` for a missing one; one of `ERRORS` if a value is no time."""
    filled_in, here = filled(column)
    times = reader.many(filled_in, name)
    if np.isinf(times).any():
        raise ValueError("a time is infinite")
    label_times = np.full(len(here), NEVER)
    label_times[here] = np.where(np.isnan(times), NEVER, times)
    return label_times


def _versions(values: list[Any]) -> list[Id | None]:
    """Return the versions in a column; each distinct value is read once."""
    typed = [(value.__class__, value) for value in values]  # True is equal to 1, which is a version
    known = {pair: version_of(pair[1]) for pair in set(typed)}  # a list is no key: a TypeError, one of `ERRORS`
    return [known[pair] for pair in typed]


def version_of(value: Any) -> Id | None:
    """Return the version of a model, None if it is missing; `RecordError` if it is not possible.

    >>> version_of("v2"), version_of(7.0), version_of(""), version_of(float("nan"))
    ('v2', 7, None, None)
    """
    if value is None or value == "" or value != value:
        return None
    try:
        return check_id(int(value) if isinstance(value, float) and value.is_integer() else value, "version")
    except InputError as error:
        raise RecordError(str(error)) from None


def _id(value: Any) -> Id:
    """Return an id; `RecordError` if it is not possible."""
    try:
        return check_id(value)
    except InputError as error:
        if value is None or value == "":
            raise RecordError(MISSING, f"an id of each impression; {LEAVE_OUT}") from None
        raise RecordError(str(error)) from None
