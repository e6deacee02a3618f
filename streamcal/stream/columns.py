"""The columns of a run in a batch, as arrays: score, label, weight and time, checked all at once.

Everything here agrees with the functions of `records.py`, which read one field: arrays are returned only where these
would accept every row, and then they are what these would return. Otherwise the batch is read row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamcal.errors import InputError
from streamcal.kernels.common.logistic import sigmoids
from streamcal.live.levels import column_of, level_of
from streamcal.parameters.inputs import LARGEST_WEIGHT, SMALLEST_WEIGHT
from streamcal.parameters.types import FloatArray
from streamcal.stream.arrow import ERRORS, cast, codes, contains, numbers_in, pyarrow, with_points
from streamcal.stream.batches import Batch, Row
from streamcal.stream.records import (
    MISSING,
    PARSED_AS_PROBABILITY,
    ROUNDING_OF_SCORES,
    UTF_8,
    LabelReader,
    RecordError,
    as_read,
    is_missing,
    label_advice,
    label_text,
    parse_clipped,
    parse_probability,
    parse_score,
    parse_weight,
    parsed_with_comma,
    shown,
)
from streamcal.stream.times import TimeOptions, TimeReader

T = TypeVar("T")

#: The decimal mark that is not a point.
COMMA = ","
#: The treatments of a row without a label.
MISSING_LABELS = NEGATIVE, UNKNOWN, SKIP = "negative", "unknown", "skip"
#: Distinct labels of a batch above which they are no labels of two classes.
MANY = 100


@dataclass(frozen=True)
class Columns:
    """Names of the columns to read; all but score and label are optional."""

    score: str
    #: None where rows are predicted only.
    label: str | None
    time: str | None = None
    weight: str | None = None
    #: The label that is positive, where the words for it are others than those of `parse_label`.
    positive: str | None = None
    #: Columns with the levels of segments.
    segments: tuple[str, ...] = ()
    #: Those of labels that come late (`impressions.py`): of the id, of the time of the label, and of the version of
    #: the model.
    id: str | None = None
    label_time: str | None = None
    version: str | None = None
    #: Seconds by which a label may be stamped before its event, as by the clock of another machine.
    clock_skew: float = 0.0
    #: The treatment of a row without a label: "negative", "unknown" (predicted, not learned) or "skip"; None: an error.
    missing_label: str | None = None
    #: Whether a higher score means fewer positives: probabilities are read as 1 − s, other scores as −s.
    decreasing: bool = False
    #: Whether probabilities outside [0, 1] by rounding are moved to its ends.
    clip: bool = False
    #: The decimal mark of numbers in texts, "." or ",".
    decimal: str = "."
    #: How the times are written.
    times: TimeOptions = field(default_factory=TimeOptions)

    def __post_init__(self) -> None:
        for name in (self.score, self.label, self.time, self.weight):
            try:
                hash(name)  # not of a text alone: columns of pandas may be numbers
            except TypeError:
                kind = type(name).__name__
                raise InputError(f"a column is given by its name, and {kind} is none; give the name") from None
        if self.positive is not None and not label_text(self.positive):
            raise InputError("the positive label is empty, as labels that are missing are; give its text")
        uses = {"the score": self.score, "the time": self.time, "the weight": self.weight, "the id": self.id}
        for what, names in ("a segment", self.segments), *((what, (name,)) for what, name in uses.items()):
            if self.label is not None and self.label in names:
                raise InputError(f"column {self.label!r} is the label, which {what} would give away; give another")

    def used(self) -> list[str]:
        """Return the names given, each once."""
        late = self.id, self.label_time, self.version
        names = self.score, self.label, self.time, self.weight, *self.segments, *late
        return list(dict.fromkeys(name for name in names if name is not None))


class Observation(NamedTuple):
    """The fields of a row, parsed; in the order of the arguments of `learn_one`."""

    score: float
    y: bool
    w: float
    t: float | None
    #: The levels of segments by column; empty where none were asked for.
    keys: dict[str, str | int | None]


class Observations(NamedTuple):
    """The fields of some rows, parsed, an array each; in the same order."""

    scores: FloatArray
    labels: NDArray[np.bool_]
    weights: FloatArray | None
    times: FloatArray | None
    #: The levels of segments by column, n of each; None where none were asked for.
    keys: dict[str, list[str | int | None]] | None = None


#: The fields of some rows, of one kind or the other.
Fields = TypeVar("Fields", bound="tuple[Any, ...]")


def rows_of(fields: Fields, places: slice | NDArray[np.int64]) -> Fields:
    """Select some of the rows of parsed fields, such as `Observations`.

    >>> rows_of(Observations(np.array([0.1, 0.2]), np.array([True, False]), None, None, {"ad": ["a", "b"]}), slice(1))
    Observations(scores=array([0.1]), labels=array([ True]), weights=None, times=None, keys={'ad': ['a']})
    """

    def selected(column: Any) -> Any:
        if column is None or isinstance(column, np.ndarray):
            return column if column is None else column[places]
        if isinstance(column, dict):
            return {name: selected(levels) for name, levels in column.items()}
        return column[places] if isinstance(places, slice) else [column[place] for place in places.tolist()]

    return type(fields)(*map(selected, fields))


#: Called with the error of a row that cannot be used, and the row if it could be split into fields.
Refused = Callable[[RecordError, Row | None], None]


class FieldReader:
    """Reads the fields of a run, of one row or of a batch.

    Parameters
    ----------
    columns : Columns
    scores : {"finite", "probability", "percent", "logit"}
        The kind of the scores: any finite numbers, or probabilities, also in percent or as log-odds.
    """

    def __init__(self, columns: Columns, scores: str) -> None:
        self._columns = columns
        scores = "clipped" if columns.clip and scores == "probability" else scores
        self._score_of, self._scores_of = _falling(scores) if columns.decreasing else SCORES[scores]
        self._weight_of: Callable[[Any], float] = parse_weight
        if columns.decimal == COMMA:
            self._score_of, self._weight_of = parsed_with_comma(self._score_of), parsed_with_comma(parse_weight)
        self._label_of = LabelReader(columns.positive)
        self._time = TimeReader(columns.times, commas=columns.decimal == COMMA)

    @property
    def negative(self) -> str | None:
        """The negative label, once one was read."""
        return self._label_of.negative

    def many(self, batch: Batch) -> Observations | None:
        """Return the fields of a batch; None if one of them cannot be used, or only `one` can decide."""
        columns, w, t = self._columns, None, None
        try:
            scores = self._scores_of(self._numbers_of(batch, columns.score))
            if columns.weight is not None:
                w = self._numbers_of(batch, columns.weight)
            if columns.time is not None:
                t = self._time.many(batch.column(columns.time), columns.time)
            weighted = w is None or ((w == 0.0) | ((w >= SMALLEST_WEIGHT) & (w <= LARGEST_WEIGHT))).all()
            usable = scores is not None and weighted and (t is None or np.isfinite(t).all())
            labels = self._labels_of(batch) if usable else None
            if scores is None or labels is None:
                return None
            if columns.missing_label == UNKNOWN:
                w = self._without_unknown(batch, w)
            keys = {name: column_of(name, plain(batch.exact(name)), len(batch)) for name in columns.segments}
        except (*ERRORS, InputError):
            return None
        return Observations(scores, labels, w, t, keys or None)

    def one(self, row: Row) -> Observation:
        """Return the fields of a row; its `RecordError` names the column."""
        columns = self._columns
        score = field_of(row, columns.score, self._score_of)
        y = self._label_in(row)
        w = 1.0 if columns.weight is None else field_of(row, columns.weight, self._weight_of)
        if columns.missing_label == UNKNOWN and columns.label and is_missing(as_read(row.get(columns.label))):
            w = 0.0
        t = None if columns.time is None else self._time_in(row, columns.time)
        return Observation(score, y, w, t, self._levels_in(row))

    def _numbers_of(self, batch: Batch, name: str) -> FloatArray:
        """Return the numbers in a column; one of `ERRORS` if a value is no number."""
        column = batch.column(name)
        if self._columns.decimal == COMMA:
            points, column = column, with_points(column)
            if points is not column and contains(points, "."):
                raise ValueError("a number with a point")
        return numbers_in(column)

    def _labels_of(self, batch: Batch) -> NDArray[np.bool_] | None:
        """Return the labels of a batch; None if one of them cannot be used."""
        if self._columns.label is None:
            return np.zeros(len(batch), dtype=np.bool_)
        missing = False if self._columns.missing_label in (NEGATIVE, UNKNOWN) else None
        return labels_in(batch.column(self._columns.label), self._label_of, missing)

    def _label_in(self, row: Row) -> bool:
        label = self._columns.label
        if label is None or (
            self._columns.missing_label in (NEGATIVE, UNKNOWN) and is_missing(as_read(row.get(label)))
        ):
            return False
        return field_of(row, label, self._label_of)

    def _time_in(self, row: Row, column: str) -> float:
        return field_of(row, column, lambda value: self._time.one(value, column))

    def _without_unknown(self, batch: Batch, w: FloatArray | None) -> FloatArray | None:
        """Return the weights, 0 for a missing label: such a row is predicted, but neither learned nor measured."""
        missing = missing_in(batch.column(self._columns.label or ""))
        if not missing.any():
            return w
        return np.where(missing, 0.0, 1.0 if w is None else w)

    def label_of(self, row: Row) -> bool | None:
        """Return the label of a row that cannot be used; None if it has none that can be read."""
        label, reader = self._columns.label, self._label_of
        if label is None or (self._columns.missing_label == UNKNOWN and is_missing(as_read(row.get(label)))):
            return None
        self._label_of = copy(reader)  # which words are labels is decided by rows that are used
        try:
            return self._label_in(row)
        except RecordError:
            return None
        finally:
            self._label_of = reader

    def skips(self, error: RecordError) -> bool:
        """Return whether this is the error of a row that is left out because it has no label."""
        columns = self._columns
        return columns.missing_label == SKIP and error.reason == MISSING and error.column == columns.label

    def all(self, batch: Batch, refused: Refused | None = None) -> Observations:
        """Return the fields of a batch, of the rows that can be used; `usable` has the details."""
        return self.usable(batch, refused)[0]

    def usable(self, batch: Batch, refused: Refused | None = None) -> tuple[Any, NDArray[np.int64]]:
        """Return the fields of the rows of a batch that can be used, and their places in it.

        The `RecordError` of a row that cannot be used has its number and column. It goes to `refused`, which may raise
        it; without `refused` that of the first such row is raised. Rows that `missing_label` skips are left out.
        """
        fields = self.many(batch)
        if fields is not None:
            return fields, np.arange(len(batch))
        rows, places = [], []
        for i, number in enumerate(batch.numbers.tolist()):
            row = None
            try:
                row = batch.row(i)
                rows.append(self.one(row))
                places.append(i)
            except RecordError as error:
                error.row = number
                error.label = None if row is None else self.label_of(row)
                if self.skips(error):
                    continue
                if refused is None:
                    self.advise(error, batch.readable())
                    raise
                refused(error, row)
        return self._gathered(rows), np.array(places, dtype=np.int64)

    def _gathered(self, rows: list[Any]) -> Any:
        """Return the fields of rows, an array each."""
        if not rows:
            return Observations(np.empty(0), np.empty(0, dtype=np.bool_), None, None)
        scores, y, w, t, keys = zip(*rows, strict=True)
        times = None if t[0] is None else np.array(t)
        return Observations(np.array(scores), np.array(y, dtype=np.bool_), np.array(w), times, self._columns_of(keys))

    def _columns_of(self, keys: Sequence[dict[str, Any]]) -> dict[str, list[Any]] | None:
        """Return the levels of rows by column; None where none were asked for."""
        return {name: [levels[name] for levels in keys] for name in self._columns.segments} or None

    def _levels_in(self, row: Row) -> dict[str, str | int | None]:
        """Return the levels of a row by column; its `RecordError` names the column."""
        levels: dict[str, str | int | None] = {}
        for name in self._columns.segments:
            try:
                value = _or_missing(as_read(row.get(name)))
                if isinstance(value, str) and not _is_unicode(value):
                    raise RecordError(f"{shown(value)} is not UTF-8", UTF_8, column=name)
                levels[name] = level_of(name, value)
            except RecordError:
                raise
            except InputError as error:
                raise RecordError(str(error), column=name) from None
        return levels

    def advise(self, error: RecordError, rows: list[Row]) -> None:
        """Add to the error of a label that is no known word which labels there are, and what to give."""
        columns = self._columns
        label = columns.label
        if label is not None and error.column == label and columns.positive is None and error.reason != MISSING:
            error.allowed = f"{error.allowed}; {label_advice(row.get(label) for row in rows)}"


def field_of(row: Row, column: str, read: Callable[[Any], T]) -> T:
    """Read a field of a row; the `RecordError` names its column."""
    try:
        return read(as_read(row.get(column)))
    except RecordError as error:
        error.column = column
        raise


def _finite(scores: FloatArray) -> FloatArray | None:
    return scores if np.isfinite(scores).all() else None


def _probabilities(scores: FloatArray) -> FloatArray | None:
    return scores if ((scores >= 0.0) & (scores <= 1.0)).all() else None


def _clipped(scores: FloatArray) -> FloatArray | None:
    inside = np.clip(scores, 0.0, 1.0)
    return inside if (np.abs(scores - inside) <= ROUNDING_OF_SCORES).all() else None


def _percentages(scores: FloatArray) -> FloatArray | None:
    return scores / 100.0 if ((scores >= 0.0) & (scores <= 100.0)).all() else None


def _log_odds(scores: FloatArray) -> FloatArray | None:
    return sigmoids(scores) if np.isfinite(scores).all() else None


#: How one field, and an array of numbers, are read as scores; None where a number is refused.
SCORES: dict[str, tuple[Callable[[Any], float], Callable[[FloatArray], FloatArray | None]]] = {
    "finite": (parse_score, _finite),
    "probability": (parse_probability, _probabilities),
    "clipped": (parse_clipped, _clipped),
    "percent": (PARSED_AS_PROBABILITY["percent"], _percentages),
    "logit": (PARSED_AS_PROBABILITY["logit"], _log_odds),
}


def _falling(scores: str) -> tuple[Callable[[Any], float], Callable[[FloatArray], FloatArray | None]]:
    """Return the readers of scores that fall as the probability rises."""
    of_value, of_column = SCORES[scores]
    top = 0.0 if scores == "finite" else 1.0

    def read_many(column: FloatArray) -> FloatArray | None:
        scores = of_column(column)
        return None if scores is None else top - scores

    return lambda value: top - of_value(value), read_many


def labels_in(column: Any, reader: LabelReader, missing: bool | None = None) -> NDArray[np.bool_] | None:
    """Return the labels in a column, each distinct value read once; None if one cannot be used.

    `missing` is the label of a missing value, if missing values are allowed.
    """
    before = reader.negative

    def read(value: Any) -> bool:
        return reader(value) if missing is None or not is_missing(value) else missing

    distinct, places = codes(column)
    if len(distinct) > MANY:
        return None
    try:
        labels = np.array([read(as_read(value)) for value in distinct], dtype=np.bool_)
    except RecordError:
        reader.negative = before
        return None
    return labels[places]


def missing_in(column: Any) -> NDArray[np.bool_]:
    """Return which values of a column are missing, each distinct value read once."""
    distinct, places = codes(column)
    return np.array([is_missing(as_read(value)) for value in distinct], dtype=np.bool_)[places]


def plain(column: Any) -> list[Any]:
    """Return a column as Python objects, an empty text as a missing level; a `ValueError` for other than UTF-8."""
    kind = column.type
    if pyarrow.types.is_integer(kind) and not column.null_count:
        numbers: list[Any] = column.to_numpy().tolist()
        return numbers
    if kind == pyarrow.binary():
        column = cast(column, pyarrow.string())
    if column.type == pyarrow.string():
        return [value or None for value in column.to_pylist()]
    return [_or_missing(value.decode() if isinstance(value, bytes) else value) for value in column.to_pylist()]


def _is_unicode(text: str) -> bool:
    """Return whether a text has no byte of another encoding, which would be another level than the letter meant."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _or_missing(value: Any) -> Any:
    """Return a level, None for an empty text; a truth value is its text, as an output of CSV has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value == "" else value
