"""`calibrate`: what `streamcal run` does, for a table in memory."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, Required, TypedDict, TypeVar, Unpack, overload

import numpy as np

from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.registry import DEFAULT_METHOD
from streamcal.errors import InputError
from streamcal.names import did_you_mean, suggesting
from streamcal.parameters.columns import library_of
from streamcal.stream import arrow
from streamcal.stream.arrow import pyarrow
from streamcal.stream.batches import TableBatch
from streamcal.stream.columns import Columns, FieldReader, Observations
from streamcal.stream.prequential import Prequential
from streamcal.stream.records import LABEL_MISSING, SKIP_OPTION, RecordError, as_read, label_text
from streamcal.stream.times import ZONE_ALLOWED

if TYPE_CHECKING:
    import pyarrow as pa

    from streamcal.live.keyed import Keyed
    from streamcal.live.levels import Field

#: Texts in messages for the command line → their replacements for Python.
IN_PYTHON = {
    "give --scale percent, --scale logit or --scale margin": "give a calibrator with a scale, such as Interval(lo, hi)",
    "; for scores give --scale percent": "",
    SKIP_OPTION: "",
    ZONE_ALLOWED: "times with a zone throughout, or without one throughout",
    LABEL_MISSING: "a label in each row",
    "give --decimal , for decimal commas": "write decimals with a point, as in 0.1",
    "--positive VALUE": "positive=VALUE",
    "(--positive)": "(positive)",
    "--positive ": "positive=",
}


class _DataFrame(Protocol):
    """A DataFrame of pandas or polars, or a Table of Arrow: no relation of DuckDB and no LazyFrame has both methods."""

    @property
    def equals(self) -> Any: ...
    @property
    def join(self) -> Any: ...


_FrameT = TypeVar("_FrameT", bound=_DataFrame)
_CollectedT = TypeVar("_CollectedT", bound=_DataFrame, covariant=True)


class _LazyFrame(Protocol[_CollectedT]):
    """The LazyFrame of polars."""

    def collect(self) -> _CollectedT: ...


class _Options(TypedDict, total=False):
    """The keywords of `calibrate`."""

    score: Required[str]
    label: Required[str]
    calibrator: str | Calibrator | Keyed
    segment: Field | Sequence[Field] | None
    weight: str | None
    time: str | None
    positive: Any


@overload
def calibrate(table: _FrameT, **options: Unpack[_Options]) -> _FrameT: ...
@overload
def calibrate(table: _LazyFrame[_CollectedT], **options: Unpack[_Options]) -> _CollectedT: ...
@overload
def calibrate(table: object, **options: Unpack[_Options]) -> pa.Table: ...
@suggesting
def calibrate(
    table: Any,
    *,
    score: str,
    label: str,
    calibrator: str | Calibrator | Keyed = DEFAULT_METHOD,
    segment: Field | Sequence[Field] | None = None,
    weight: str | None = None,
    time: str | None = None,
    positive: Any = None,
) -> Any:
    """Return a table with the columns that `streamcal run` adds: each row is predicted first and learned afterwards.

    Parameters
    ----------
    table : DataFrame, Table or an object with `__arrow_c_stream__`
        Of pandas, polars or Arrow, or one that Arrow can read, such as a relation of DuckDB. A LazyFrame of polars is
        collected.
    score, label : str
        Columns. Scores are probabilities, or on the calibrator's scale; labels are those of `streamcal run`. Objects of
        several types in a column are read as in CSV: by their texts.
    calibrator : str, Calibrator, Segmented or Multicalibrated
        It learns the rows; a name makes a new one. Fields of a `Segmented` or `Multicalibrated` are columns.
    segment : str, or sequence of str and of tuples of str, optional
        Columns whose levels are corrected too, such as campaigns, the coarsest first; a tuple is a field whose levels
        are tuples. The rows are then learned by a new `Segmented` of the calibrator.
    weight, time : str or None
        Columns of the weight and of the time.
    positive : str or None
        The positive label, if labels are other words than those.

    Returns
    -------
    table
        With `calibrated`, and `lower` and `upper` where the method has an interval: for pandas and polars a DataFrame
        of the same library, with its index, and otherwise a Table of Arrow. The table given is not changed.

    Raises
    ------
    InputError
        If a field cannot be used, with its row (counted from 1) and column; then nothing is learned. If `table` is no
        table, or a column is missing, occurs twice, or has the name of one that is added.
    SolverError
        If a solver fails; the rows before are learned then.

    Notes
    -----
    The columns in use are converted to Arrow, which copies those of pandas.

    Examples
    --------
    >>> import pyarrow
    >>> table = pyarrow.table({"id": ["a", "b"], "score": [0.5, 0.8], "click": ["no", "yes"]})
    >>> calibrate(table, score="score", label="click", calibrator="identity").column_names
    ['id', 'score', 'click', 'calibrated']
    >>> calibrate(table, score="score", label="click", segment="id").num_rows
    2
    """
    table = as_table(table)
    evaluation = Prequential(calibrator if segment is None else _by_segment(calibrator, segment))
    levels = getattr(evaluation.calibrator, "fields", ())
    columns = Columns(score, label, time, weight, None if positive is None else label_text(positive), levels)
    added = evaluation.added
    names = _names(table)
    require_columns(table, columns.used())
    for name in added:
        if name in names:
            raise InputError(f"the table has a column {name!r}, which would be added; rename it")
    if time is not None:
        _warn_of_unread(time, getattr(evaluation.calibrator, "overall", evaluation.calibrator))
    fields = FieldReader(columns, "finite" if evaluation.raw is None else "probability")
    batches = table_batches(table, columns.used())
    try:
        observations = [fields.all(batch) for batch in batches]
        values = [_predicted(evaluation, *pair, fields) for pair in zip(batches, observations, strict=True)]
    except RecordError as error:
        name_arguments(error)
        raise
    predictions = np.vstack(values) if values else np.empty((0, len(added)))
    return _with_columns(table, dict(zip(added, predictions.T, strict=True)))


def _by_segment(calibrator: str | Calibrator | Keyed, segment: Field | Sequence[Field]) -> Keyed:
    """Return the calibrator corrected for the levels of some fields, nothing learned."""
    from streamcal.live.segmented import Segmented

    if not isinstance(calibrator, (str, Calibrator)):
        raise InputError(f"segment={segment!r} and {calibrator!r}, which has fields, exclude each other; leave one out")
    return Segmented(calibrator, [segment] if isinstance(segment, str) else segment)


def _warn_of_unread(time: str, calibrator: Calibrator) -> None:
    """Warn of a column of times that the method does not read."""
    if calibrator.reads_time:
        return
    remedy = "Auto learns cycles of the day, and Platt, Isotonic and others forget by time"
    if hasattr(calibrator, "forgetting"):
        remedy = f"give {type(calibrator).__name__}(forgetting=Window('24h')) or Decay('7d')"
    warnings.warn(f"time={time!r} has no effect: {calibrator.name} does not read times; {remedy}", stacklevel=4)


def as_table(table: Any) -> Any:
    """Return a table of pandas, polars or Arrow as it is; of anything else what Arrow reads.

    The table is read once, since it may be a stream. `InputError` for anything but a table.
    """
    if library_of(table) == "polars" and hasattr(table, "collect"):
        table = table.collect()
    if isinstance(table, pyarrow.Table) or (library_of(table) in ("pandas", "polars") and hasattr(table, "columns")):
        return table
    try:
        return pyarrow.table(table)
    except arrow.ERRORS as error:
        what = f"{type(table).__name__} cannot be read as a table: {error}"
        raise InputError(f"{what}; give a DataFrame of pandas or polars, or a Table of Arrow") from None


def require_columns(table: Any, used: list[str]) -> None:
    """Raise `InputError`, with the existing columns, unless each of these occurs once."""
    names = _names(table)
    for name in used:
        if name not in names:
            there = f"{did_you_mean(name, names)}; there are {', '.join(map(repr, names))}"
            raise InputError(f"there is no column {name!r}{there}")
        if names.count(name) > 1:
            raise InputError(f"the table has {names.count(name)} columns {name!r}; rename all but one")


def name_arguments(error: RecordError) -> None:
    """Name arguments in the message, where it names options of the command line."""
    for option, argument in IN_PYTHON.items():
        error.allowed = error.allowed and error.allowed.replace(option, argument)


def _names(table: Any) -> list[str]:
    return list(table.column_names if hasattr(table, "column_names") else table.columns)


def table_batches(table: Any, used: list[str]) -> list[TableBatch]:
    """Return the columns in use as batches."""
    names = list(dict.fromkeys(used))
    some = pyarrow.table([_column_of(table, name) for name in names], names=list(map(str, names)))
    batches, rows = [], 0
    for batch in arrow.without_views(some).combine_chunks().to_batches():
        batches.append(TableBatch(tuple(names), np.arange(rows + 1, rows + len(batch) + 1), batch))
        rows += len(batch)
    return batches


def _column_of(table: Any, name: str) -> Any:
    """Return a column as Arrow has it; for objects without a type in Arrow, or of several types, their texts."""
    library, column = library_of(table), table[name]
    if library == "polars":
        return column.to_arrow() if str(column.dtype) != "Object" else _texts_of(column, column.is_null())
    if library != "pandas":
        return column
    try:
        return pyarrow.Array.from_pandas(column)
    except arrow.ERRORS:
        return _texts_of(column, column.isna())


def _texts_of(column: Any, missing: Any) -> Any:
    values = zip(column.to_list(), missing.to_list(), strict=True)
    return pyarrow.array([None if null else str(as_read(value)) for value, null in values], pyarrow.string())


def _predicted(evaluation: Prequential, batch: TableBatch, observations: Observations, fields: FieldReader) -> Any:
    """Return what the output adds to the rows of a batch."""
    values = evaluation.step_many(*observations)
    if len(values) < len(batch):  # the next row says why
        row = batch.rows[len(values)]
        evaluation.step(*fields.one(row))
    return values


def _with_columns(table: Any, added: dict[str, Any]) -> Any:
    library = library_of(table)
    if library == "pandas":
        return table.assign(**added)
    if library == "polars":
        polars: Any = sys.modules["polars"]
        return table.with_columns(*(polars.Series(name, values) for name, values in added.items()))
    for name, values in added.items():
        table = table.append_column(name, arrow.floats(values))
    return table
