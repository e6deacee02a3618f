"""The one place where input is checked: at the public edge, once, before anything is changed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

from streamcal.base import FloatArray, InputError, Time


def check_score(score: Any) -> float:
    """A finite float; `InputError` otherwise."""
    try:
        value = float(score)
    except (TypeError, ValueError):
        raise InputError(f"score {score!r} is not a number; give a finite float") from None
    if not math.isfinite(value):
        raise InputError(f"score {score!r} is not finite; drop the observation or repair the model that made it")
    return value


def check_label(y: Any) -> float:
    """1.0 or 0.0; `InputError` for anything but a bool or a number equal to 0 or 1."""
    if y is True or y is False:
        return 1.0 if y else 0.0
    if isinstance(y, (int, float, np.bool_, np.number)):
        if y == 1:
            return 1.0
        if y == 0:
            return 0.0
    raise InputError(f"label {y!r} is not binary; give True or False, or 1 or 0")


def check_weight(w: Any) -> float:
    """A finite float ≥ 0; `InputError` otherwise."""
    try:
        value = float(w)
    except (TypeError, ValueError):
        raise InputError(f"weight {w!r} is not a number; give a finite float of at least 0") from None
    if not 0.0 <= value < math.inf:
        raise InputError(f"weight {w!r} is not allowed; give a finite float of at least 0")
    return value


def check_time(t: Any) -> float:
    """A finite number: numbers as they are, dates as seconds since 1970 UTC; `InputError` otherwise."""
    if isinstance(t, datetime):
        return (t if t.tzinfo else t.replace(tzinfo=UTC)).timestamp()
    if isinstance(t, np.datetime64):
        if np.isnat(t):
            raise InputError("time NaT is not a time; give the time of the observation")
        return float((t - np.datetime64(0, "s")) / np.timedelta64(1, "s"))
    try:
        value = float(t)
    except (TypeError, ValueError):
        raise InputError(f"time {t!r} is neither a number nor a date") from None
    if not math.isfinite(value):
        raise InputError(f"time {t!r} is not finite; give the time of the observation")
    return value


def check_scores(scores: npt.ArrayLike) -> FloatArray:
    """A float array of shape (n,), all finite; `InputError` naming the first bad place otherwise."""
    array = _as_floats(scores, "scores")
    _refuse(~np.isfinite(array), array, "scores", "not finite; drop the observation or repair the model")
    return array


def check_batch(
    scores: npt.ArrayLike, y: npt.ArrayLike, w: npt.ArrayLike | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Scores, labels and weights as float arrays of one length; `InputError` naming the first bad place."""
    s = check_scores(scores)
    labels = _as_floats(y, "y")
    _refuse((labels != 0.0) & (labels != 1.0), labels, "y", "not binary; give bools, or 0 and 1")
    weights = np.ones_like(s) if w is None else _as_floats(w, "w")
    _refuse(~((weights >= 0.0) & (weights < np.inf)), weights, "w", "not allowed; give finite weights of at least 0")
    if not len(s) == len(labels) == len(weights):
        raise InputError(f"scores, y and w differ in length: {len(s)}, {len(labels)} and {len(weights)}")
    return s, labels, weights


def check_times(t: npt.ArrayLike | Sequence[Time], length: int) -> FloatArray:
    """Times as a float array of shape (length,); `InputError` naming the first bad place."""
    given = np.asarray(t)
    if given.dtype.kind in "iuf":
        times = _as_floats(given, "t")
        _refuse(~np.isfinite(times), times, "t", "not finite; give the time of each observation")
    else:
        times = np.array([check_time(item) for item in given.ravel()], dtype=np.float64)
    if len(times) != length:
        raise InputError(f"t has length {len(times)}, the scores have length {length}")
    return times


def _as_floats(values: npt.ArrayLike, what: str) -> FloatArray:
    """A one-dimensional float64 array; a copy only where needed."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what} cannot be read as numbers: {error}") from None
    if array.ndim != 1:
        raise InputError(f"{what} has shape {array.shape}; give one dimension, shape (n,)")
    return array


def _refuse(bad: npt.NDArray[np.bool_], values: FloatArray, what: str, why: str) -> None:
    """Raise for the first place where `bad` holds."""
    if bad.any():
        place = int(np.argmax(bad))
        raise InputError(f"{what}[{place}] = {values[place]!r} is {why}")
