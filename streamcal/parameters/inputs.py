"""Validation of input: at the public methods, once, before anything is changed.

An array of shape () is the number that it holds, as in NumPy, for a score, a label, a weight and a time.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal.errors import InputError
from streamcal.kernels.common import fast_path
from streamcal.parameters.columns import as_array, as_objects
from streamcal.parameters.types import FloatArray, Time, Times

SMALLEST_WEIGHT, LARGEST_WEIGHT = fast_path.SMALLEST_WEIGHT, fast_path.LARGEST_WEIGHT
#: NumPy's spans and points of time. `float` reads them as numbers, without their unit.
MOMENTS = (np.timedelta64, np.datetime64)
#: `float` reads buffers of bytes as texts.
NO_NUMBERS = (str, bytes, bytearray, memoryview, complex, np.complexfloating, *MOMENTS)
WEIGHT_ALLOWED = f"give 0, or a number from {SMALLEST_WEIGHT:g} to {LARGEST_WEIGHT:g}"


def check_score(score: Any) -> float:
    """Check a score and return it as a finite float; `InputError` otherwise."""
    if score.__class__ is float and -math.inf < score < math.inf:  # fast path, without a call
        return score
    value = as_number(score, "score", "give a finite float")
    if not math.isfinite(value):
        raise InputError(f"score {score!r} is not finite; drop the observation or repair the model that made it")
    return value


def check_label(y: Any) -> float:
    """Check a label and return 1.0 or 0.0; `InputError` for anything but a bool or a number equal to 0 or 1."""
    if y is True:
        return 1.0
    if y is False:
        return 0.0
    try:
        value = as_number(y, "label", "")
    except InputError:
        value = math.nan
    if value not in (0.0, 1.0):
        raise InputError(f"label {y!r} is not binary; give True or False, or 1 or 0")
    return value + 0.0  # without the sign of -0.0


def check_weight(w: Any) -> float:
    """Check a weight: 0, or a float from SMALLEST_WEIGHT to LARGEST_WEIGHT; `InputError` otherwise."""
    if w.__class__ is float and SMALLEST_WEIGHT <= w <= LARGEST_WEIGHT:  # fast path, without a call
        return w
    value = as_number(w, "weight", WEIGHT_ALLOWED)
    if value != 0.0 and not SMALLEST_WEIGHT <= value <= LARGEST_WEIGHT:
        raise InputError(f"weight {w!r} is not allowed; {WEIGHT_ALLOWED}")
    return value


def check_time(t: Any, what: str = "time") -> float:
    """Check a time and return a finite number: dates as seconds since 1970 UTC; `InputError` otherwise."""
    if t.__class__ is float and -math.inf < t < math.inf:  # fast path, without a call
        return float(t)
    if t.__class__ is CheckedTime:
        return float(t)
    t = _scalar(t)
    if isinstance(t, (datetime, np.datetime64)):
        if t != t:  # NaT, of numpy and of pandas, which calls its own a datetime
            raise InputError(f"{what} NaT is not a time; give the time of the observation")
        if isinstance(t, datetime):
            return (t if t.tzinfo else t.replace(tzinfo=UTC)).timestamp()
        return float((t - np.datetime64(0, "s")) / np.timedelta64(1, "s"))
    value = as_number(t, what, "give a number or a datetime")
    if not math.isfinite(value):
        raise InputError(f"{what} {t!r} is not finite; give the time of the observation")
    return value


def check_scores(scores: ArrayLike, what: str = "scores") -> FloatArray:
    """Check scores: a float array of shape (n,), all finite; `InputError` naming the first bad place otherwise."""
    array = as_floats(scores, what)
    finite = np.isfinite(array)
    if not finite.all():
        _refuse(~finite, array, what, "not finite; drop the observation or repair the model")
    return array


def check_fold_scores(scores: Any, folds: int) -> list[float]:
    """Return `folds` finite floats from a list, tuple or array of them, or from one score used for every fold."""
    if isinstance(scores, (list, tuple)) or (isinstance(scores, np.ndarray) and scores.ndim == 1):
        if len(scores) != folds:
            raise InputError(f"scores {scores!r} are {len(scores)}; give one score, or {folds} of them, one a fold")
        return [check_score(score) for score in scores]
    return [check_score(scores)] * folds


def check_fold_scores_many(scores: ArrayLike, folds: int) -> list[FloatArray]:
    """Return an array of scores for each fold, from shape (n, folds), or from shape (n,), used for every fold."""
    try:
        shape = np.shape(scores)
    except ValueError:  # of several lengths: the message is that of any other array
        shape = ()
    if len(shape) != 2:
        return [check_scores(scores)] * folds
    if shape[1] != folds:
        raise InputError(f"scores has shape {shape}; give shape (n,), or (n, {folds}): a column a fold")
    return [check_scores(column) for column in as_array(scores, "scores").T]


def check_fold(fold: Any, folds: int) -> int:
    """Check a fold: a whole number from 0 to folds − 1; `InputError` otherwise."""
    if not isinstance(fold, (int, np.integer)) or isinstance(fold, bool) or not 0 <= fold < folds:
        raise InputError(f"fold {fold!r} is not possible; give a whole number from 0 to {folds - 1}, or None")
    return int(fold)


def check_folds(fold: Any, folds: int, length: int) -> NDArray[np.int64]:
    """Return folds as an array of shape (length,), from one for all or from an array."""
    if isinstance(fold, (int, np.integer)):
        return np.full(length, check_fold(fold, folds))
    values = _one_dimension(fold, "fold")
    if len(values) != length:
        raise InputError(f"fold has length {len(values)}, the scores have length {length}")
    if values.dtype.kind not in "iu" and length:
        raise InputError(f"fold has numbers of type {values.dtype}; give whole numbers from 0 to {folds - 1}")
    _refuse((values < 0) | (values >= folds), values, "fold", f"not possible; give whole numbers from 0 to {folds - 1}")
    return values.astype(np.int64)


class Called(NamedTuple):
    """How messages call the arguments of a method: the scores, the labels, and a hint for what is not a label."""

    scores: str = "scores"
    labels: str = "y"
    hint: str = ""


#: The arguments of calibrators, and those of metrics.
SCORES, FORECASTS = Called(), Called("y_pred", "y_true", "; the order is y_true, y_pred")


def check_batch(
    scores: ArrayLike, y: ArrayLike, w: ArrayLike | None, called: Called = SCORES
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Check scores, labels and weights: float arrays of one length; `InputError` naming the first bad place.

    A scalar weight applies to every row. Weights that were not given are a view of a single 1.0, which costs no memory.
    """
    s = check_scores(scores, called.scores)
    allowed = f"give bools, or 0 and 1{called.hint}"
    labels = as_floats(y, called.labels, allowed)
    if getattr(y, "dtype", None) != np.bool_:  # an array of bools needs no check
        _refuse((labels != 0.0) & (labels != 1.0), labels, called.labels, f"not binary; {allowed}")
    if w is None:
        weights = np.broadcast_to(1.0, s.shape)
    elif isinstance(_scalar(w), (int, float, np.bool_, np.number)):  # one for all
        weights = np.full(s.shape, check_weight(w))
    else:
        weights = as_floats(w, "w")
        usable = (weights == 0.0) | ((weights >= SMALLEST_WEIGHT) & (weights <= LARGEST_WEIGHT))
        _refuse(~usable, weights, "w", f"not allowed; {WEIGHT_ALLOWED}")
    if not len(s) == len(labels) == len(weights):
        first, second, each = called.scores, called.labels, called.scores.removesuffix("s")
        if w is None:
            raise InputError(
                f"{first} and {second} differ in length: {len(s)} and {len(labels)}; give a label for each {each}"
            )
        raise InputError(
            f"{first}, {second} and w differ in length: {len(s)}, {len(labels)} and {len(weights)}; give a label and a "
            f"weight for each {each}"
        )
    return s, labels, weights


def none_is_zero(weights: FloatArray) -> bool:
    """Return whether all weights from `check_batch` are above 0; O(1) for weights that were not given."""
    return bool((weights[:1] if weights.strides == (0,) else weights).all())


def check_scores_matrix(scores: ArrayLike, width: int) -> FloatArray:
    """Check scores: a float array of shape (n, width), all finite; `InputError` naming the first bad place."""
    values = as_array(scores, "scores")
    if values.ndim < 3 and values.shape[:1] == (0,):
        return np.empty((0, width))
    if values.ndim != 2 or values.shape[1] != width:
        raise InputError(f"scores has shape {values.shape}; give shape (n, {width}): a column a score")
    _refuse_moments(values, "scores", "give numbers")
    if values.dtype.kind not in "biuf":
        columns = [as_floats(column, f"scores[:, {i}]") for i, column in enumerate(as_objects(scores).T)]
        values = np.column_stack(columns)
    matrix = np.ascontiguousarray(values, dtype=np.float64)
    bad = ~np.isfinite(matrix)
    if bad.any():
        row, column = (int(place) for place in np.argwhere(bad)[0])
        value = matrix[row, column].item()
        raise InputError(f"scores[{row}, {column}] = {value!r} is not finite; drop the observation or repair the model")
    return matrix


def check_vector_batch(
    scores: ArrayLike, width: int, y: ArrayLike, w: ArrayLike | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Check scores of shape (n, width), binary labels and weights; `InputError` naming the first bad place."""
    s = check_scores_matrix(scores, width)
    _, labels, weights = check_batch(np.zeros(len(s)), y, w)
    return s, labels, weights


def check_times(t: ArrayLike | Sequence[Time], length: int) -> FloatArray:
    """Check times: a float array of shape (length,); `InputError` naming the first bad place."""
    return check_times_of_one_kind(t, length, None)[0]


def check_times_of_one_kind(
    t: ArrayLike | Sequence[Time], length: int, first: Time | None
) -> tuple[FloatArray, Time | None]:
    """Do `check_times` and `of_one_kind`; return the times, and the first time so far."""
    values = _one_dimension(t, "t")
    if values.dtype.kind in "iuf":
        times, items = values.astype(np.float64), values[:1].tolist()
        _refuse(~np.isfinite(times), times, "t", "not finite; give the time of each observation")
    elif values.dtype.kind == "M" and not np.isnat(values).any():
        times, items = (values - np.datetime64(0, "s")) / np.timedelta64(1, "s"), values[:1]
    else:
        if values.dtype.kind != "M":
            _refuse_moments(values, "t", "give numbers or datetimes")
        items = values if values.dtype.kind == "M" else _one_dimension(as_objects(t), "t")
        times = np.array([check_time(item, f"t[{i}]") for i, item in enumerate(items)], dtype=np.float64)
    if len(times) != length:
        raise InputError(f"t has length {len(times)}, the scores have length {length}")
    for i, item in enumerate(items):
        first = of_one_kind(item, first, f"t[{i}]")
    return times, first


def numbers_or_moments(t: ArrayLike | Sequence[Time]) -> FloatArray | list[Any]:
    """Return times that are numbers as an array, and others as a list that `check_time` has yet to check."""
    values = _one_dimension(t, "t")
    if values.dtype.kind in "iuf":
        return np.ascontiguousarray(values, dtype=np.float64)
    return list(values if values.dtype.kind in "mM" else _one_dimension(as_objects(t), "t"))


class CheckedTime(float):
    """A time as a number that was given in another form, perhaps, and has been checked: it is of every kind."""

    __slots__ = ()


def row_times(t: Times | None, times: FloatArray) -> list[CheckedTime | None]:
    """Return the checked time of each row of a batch, None where no times were given."""
    return [None] * len(times) if t is None else [CheckedTime(one) for one in times.tolist()]


def of_one_kind(t: Time, first: Time | None, what: str = "time") -> Time | None:
    """Return the first time so far: `first`, or `t` if it is None.

    Raise `InputError` if one of the two is a date without a time zone and the other one is not: they may be hours
    apart.
    """
    if t.__class__ is first.__class__ is float or isinstance(t, CheckedTime):
        return first
    if first is None:
        return t
    if _has_no_zone(t) != _has_no_zone(first):
        remedy = "give all times a time zone, or none"
        raise InputError(f"{what} {t!r} {_zone_of(t)}, and {first!r}, given before it, {_zone_of(first)}; {remedy}")
    return first


def _has_no_zone(t: Any) -> bool:
    """Return whether a time is a date without a time zone; numbers are seconds since 1970 UTC."""
    t = _scalar(t)
    return t.tzinfo is None if isinstance(t, datetime) else isinstance(t, np.datetime64)


def _zone_of(t: Any) -> str:
    if _has_no_zone(t):
        return "has no time zone"
    return "has a time zone" if isinstance(_scalar(t), datetime) else "is a number"


def as_floats(values: ArrayLike, what: str, allowed: str = "give numbers") -> FloatArray:
    """Return a contiguous one-dimensional float64 array, copied only if needed."""
    array = _one_dimension(values, what)
    if array.dtype.kind in "biuf":
        return np.ascontiguousarray(array, dtype=np.float64)
    _refuse_moments(array, what, allowed)
    items = _one_dimension(as_objects(values), what)  # as they came: a text would make all of them texts
    return np.array([as_number(item, f"{what}[{i}]", allowed) for i, item in enumerate(items)], dtype=np.float64)


def _refuse_moments(array: NDArray[Any], what: str, allowed: str) -> None:
    """Raise `InputError` for NumPy's spans and points of time, whose numbers are of any unit."""
    if array.dtype.kind in "mM":
        spans = "; divide spans of time by their unit, np.timedelta64(1, 's')" if array.dtype.kind == "m" else ""
        raise InputError(f"{what} has values of type {array.dtype}; {allowed}{spans}")


def _one_dimension(values: Any, what: str) -> NDArray[Any]:
    """Check that the values are an array of shape (n,) of any type."""
    array = as_array(values, what)
    if array.ndim == 0 and array.dtype.kind not in "biuf":  # a generator, a set, a dict, a text
        raise InputError(f"{what} {reprlib.repr(values)} is of type {type(values).__name__}; give a list or an array")
    if array.ndim != 1:
        column = f", such as the column of the positive class, {what}[:, 1]" if array.shape[1:] == (2,) else ""
        raise InputError(f"{what} has shape {array.shape}; give one dimension, shape (n,){column}")
    return array


def _scalar(value: Any) -> Any:
    """Return the value in an array of shape (); anything else as it is."""
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value


def as_number(value: Any, what: str, allowed: str) -> float:
    """Return `value` as a float; a text is not a number."""
    value = _scalar(value)
    try:
        if not isinstance(value, NO_NUMBERS):
            return float(value)
    except (TypeError, ValueError):
        pass
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    raise InputError(f"{what} {value!r} is not a number; {allowed}")


def _refuse(bad: NDArray[np.bool_], values: FloatArray, what: str, why: str) -> None:
    """Raise for the first place where `bad` holds."""
    if bad.any():
        place = int(np.argmax(bad))
        raise InputError(f"{what}[{place}] = {values[place].item()!r} is {why}")


def check_outcome(y: Any) -> float:
    """Check a real outcome and return it as a finite float; `InputError` otherwise."""
    if y.__class__ is float and -math.inf < y < math.inf:  # fast path, without a call
        return float(y)
    value = as_number(y, "outcome", "give a finite float")
    if not math.isfinite(value):
        raise InputError(f"outcome {y!r} is not finite; drop the observation")
    return value


def check_outcomes(y: ArrayLike, w: ArrayLike | None, called: Called = SCORES) -> tuple[FloatArray, FloatArray]:
    """Check real outcomes and weights: float arrays of one length; `InputError` naming the first bad place."""
    outcomes = as_floats(y, called.labels, f"give numbers{called.hint}")
    _refuse(~np.isfinite(outcomes), outcomes, called.labels, "not finite; drop the observation")
    _, _, weights = check_batch(np.zeros(len(outcomes)), np.zeros(len(outcomes)), w)
    return outcomes, weights
