"""The columns of a run in a batch, as arrays: score, label, weight and time, checked all at once.

Everything here agrees with the functions of `records.py`, which read one field: arrays are returned only where these
would accept every row, and then they are what these would return. Otherwise the batch is read row by row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streamcal.kernels.logistic import sigmoids
from streamcal.parameters.inputs import LARGEST_WEIGHT, SMALLEST_WEIGHT
from streamcal.parameters.types import FloatArray
from streamcal.stream.arrow import ERRORS, as_array, cast, codes, pyarrow
from streamcal.stream.batches import Batch
from streamcal.stream.records import LabelReader, RecordError

#: Distinct labels of a batch above which they are no labels of two classes.
MANY = 100
#: Microseconds beyond which a double does not hold them exactly.
EXACT = 2.0**53


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


@dataclass(frozen=True)
class Observations:
    """The fields of some rows, parsed, an array each."""

    scores: FloatArray
    labels: npt.NDArray[np.bool_]
    weights: FloatArray | None
    times: FloatArray | None


def observations(
    batch: Batch, columns: Columns, score_of: Callable[[FloatArray], FloatArray | None], read_label: LabelReader
) -> Observations | None:
    """The fields of a batch; None where one of them cannot be used, or only `records.py` can tell.

    Parameters
    ----------
    batch : Batch
    columns : Columns
    score_of : callable
        One of `SCORES`.
    read_label : LabelReader
        It has seen the labels of the batch afterwards, or none of them.
    """
    w = t = None
    try:
        scores = score_of(_numbers(batch.column(columns.score)))
        if columns.weight is not None:
            w = _numbers(batch.column(columns.weight))
        if columns.time is not None:
            t = _times(batch.column(columns.time))
        usable = scores is not None and (w is None or _are_weights(w)) and (t is None or bool(np.isfinite(t).all()))
        labels = _labels(batch.column(columns.label), read_label) if usable else None
    except ERRORS:
        return None
    return None if scores is None or labels is None else Observations(scores, labels, w, t)


def _finite(scores: FloatArray) -> FloatArray | None:
    return scores if np.isfinite(scores).all() else None


def _probabilities(scores: FloatArray) -> FloatArray | None:
    return scores if ((scores >= 0.0) & (scores <= 1.0)).all() else None


def _percentages(scores: FloatArray) -> FloatArray | None:
    return scores / 100.0 if ((scores >= 0.0) & (scores <= 100.0)).all() else None


def _log_odds(scores: FloatArray) -> FloatArray | None:
    return sigmoids(scores) if np.isfinite(scores).all() else None


#: How numbers are read as scores, None where one is refused: of any finite size, as probabilities, and by `--scale`.
SCORES: dict[str, Callable[[FloatArray], FloatArray | None]] = {
    "finite": _finite,
    "probability": _probabilities,
    "percent": _percentages,
    "logit": _log_odds,
}


def _are_weights(w: FloatArray) -> bool:
    return bool(((w == 0.0) | ((w >= SMALLEST_WEIGHT) & (w <= LARGEST_WEIGHT))).all())


def _numbers(column: Any) -> FloatArray:
    """The numbers in a column, of texts or of numbers; one of `ERRORS` for anything else, or where one is missing."""
    if column.null_count or pyarrow.types.is_boolean(column.type):
        raise ValueError("a value is missing or no number")
    if pyarrow.types.is_binary(column.type):
        column = cast(column, pyarrow.string())
    if pyarrow.types.is_decimal(column.type):
        raise ValueError("Arrow may round a decimal in another way than Python")
    return as_array(cast(column, pyarrow.float64()), np.float64)


def _times(column: Any) -> FloatArray:
    """The times in a column: numbers as they are, others as seconds since 1970 UTC."""
    if not pyarrow.types.is_timestamp(column.type):
        try:
            return _numbers(column)
        except ERRORS:
            text = cast(column, pyarrow.string())
            try:
                column = cast(text, pyarrow.timestamp("us"))
            except ERRORS:
                column = cast(text, pyarrow.timestamp("us", "UTC"))
    if column.null_count:
        raise ValueError("a time is missing")
    micros = as_array(cast(column, pyarrow.timestamp("us", column.type.tz)), np.int64)
    if (np.abs(micros) > EXACT).any():
        raise ValueError("a time that a double does not hold exactly")
    return micros / 1e6


def _labels(column: Any, read: LabelReader) -> npt.NDArray[np.bool_] | None:
    """The labels in a column, each distinct value read once; None where one cannot be used."""
    before = read.negative
    distinct, places = codes(column)
    if len(distinct) > MANY:
        return None
    try:
        labels = np.array([read(_as_read(value)) for value in distinct], dtype=np.bool_)
    except RecordError:
        read.negative = before
        return None
    return labels[places]


def _as_read(value: Any) -> Any:
    """A label of CSV as text."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value
