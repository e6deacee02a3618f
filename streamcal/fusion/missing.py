"""Reading of missing scores: None or NaN in a sequence, or a name that a dict does not have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal.errors import InputError
from streamcal.parameters.columns import as_objects
from streamcal.parameters.inputs import check_batch, check_score, check_scores_matrix
from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray
from streamcal.statistics.present_scores import ABSENT

#: What a method does with observations of which some scores are missing: it refuses them, or it predicts by the fit to
#: the scores that are there.
Missing: TypeAlias = Literal["raise", "marginal"]


def is_missing(score: Any) -> bool:
    """Return whether this represents a missing score: None, or NaN of any float type."""
    return score is None or (isinstance(score, (float, np.floating)) and math.isnan(score))


def check_present(scores: Sequence[Any] | NDArray[Any]) -> list[float | None]:
    """Return the scores as finite floats, None for missing ones; raise `InputError` if all are missing."""
    read = [None if is_missing(score) else check_score(score) for score in scores]
    if read and all(score is None for score in read):
        raise InputError(f"all scores of {list(scores)!r} are missing; give at least one")
    return read


def check_present_matrix(scores: ArrayLike, width: int) -> FloatArray:
    """Return a float array of shape (n, width), NaN for a missing score; reject other non-finite values."""
    try:
        table = as_objects(scores)
    except (ValueError, TypeError):  # rows of several lengths: the message is that of any other array
        return check_scores_matrix(scores, width)
    if table.ndim != 2 or table.shape[1] != width:
        return check_scores_matrix(scores, width)
    gaps = np.array([[is_missing(score) for score in row] for row in table.tolist()], dtype=np.bool_).reshape(-1, width)
    if not gaps.any():
        return check_scores_matrix(scores, width)
    nothing = gaps.all(axis=1)
    if nothing.any():
        raise InputError(f"all scores of row {int(nothing.argmax())} are missing; give at least one")
    filled = check_scores_matrix(np.where(gaps, 0.0, table), width)
    filled[gaps] = math.nan
    return filled


def check_present_batch(
    scores: ArrayLike, width: int, y: ArrayLike, w: ArrayLike | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return scores of shape (n, width), NaN where missing, binary labels and weights of shape (n,)."""
    s = check_present_matrix(scores, width)
    _, labels, weights = check_batch(np.zeros(len(s)), y, w)
    return s, labels, weights


def coordinates_present(scales: tuple[Scale, ...], scores: FloatArray) -> FloatArray:
    """Return the coordinates of scores of shape (n, M), ABSENT where a score is NaN."""
    x = np.full(scores.shape, ABSENT)
    for column, scale in enumerate(scales):
        here = ~np.isnan(scores[:, column])
        x[here, column] = scale.coordinates(np.ascontiguousarray(scores[here, column]))
    return x
