"""Observations of several classes as memories store them: a coordinate with its labels, and the place of y in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal.multiclass.labels import Batch, ClassLabel, in_order, with_label
from streamcal.parameters.types import FloatArray


def coordinate(scores: dict[ClassLabel, float], y: ClassLabel) -> tuple[Any, float]:
    """Return the coordinate of an observation, in which the label y joins with the score 0, and the place of y in it.

    A coordinate is the labels that are strings, those that are numbers, and the scores of both in that order: tuples
    that can be compared, counted and sorted for any labels, and that do not change when a new label appears.
    """
    joined = with_label(scores, y)
    labels = tuple(joined)
    return (*split(labels), tuple(joined.values())), float(labels.index(y))


def coordinates(batch: Batch) -> tuple[FloatArray, FloatArray]:
    """Return the coordinates of a batch, an object array of shape (n,), and the places of the outcomes, shape (n,)."""
    if batch.present.all():
        texts, numbers = split(batch.labels)
        rows = ((texts, numbers, tuple(row)) for row in batch.scores.tolist())
        return np.fromiter(rows, dtype=object, count=len(batch.outcome)), batch.outcome.astype(np.float64)
    x, places = np.empty(len(batch.outcome), dtype=object), np.empty(len(batch.outcome))
    named: dict[bytes, tuple[tuple[str, ...], tuple[float, ...], Any]] = {}
    for row, (present, scores) in enumerate(zip(batch.present, batch.scores, strict=True)):
        key = present.tobytes()
        if key not in named:
            columns = np.flatnonzero(present)
            named[key] = (*split([batch.labels[column] for column in columns]), columns)
        texts, numbers, columns = named[key]
        x[row] = texts, numbers, tuple(scores[columns].tolist())
        places[row] = np.searchsorted(columns, batch.outcome[row])
    return x, places


def read_back(x: FloatArray, y: FloatArray) -> tuple[list[ClassLabel], FloatArray, NDArray[np.bool_], NDArray[np.intp]]:
    """Invert `coordinates`: return labels, scores, present and outcome, as in `Batch`."""
    rows, outcome = x.tolist(), y.astype(np.intp)
    texts, numbers, _ = rows[0]
    if all(row[0] == texts and row[1] == numbers for row in rows):
        scores = np.array([row[2] for row in rows])
        return [*texts, *numbers], scores, np.ones(scores.shape, dtype=np.bool_), outcome
    labels = in_order({label: None for texts, numbers, _ in rows for label in texts + numbers})
    place = {label: column for column, label in enumerate(labels)}
    scores = np.zeros((len(rows), len(labels)))
    present = np.zeros(scores.shape, dtype=np.bool_)
    for i, (texts, numbers, own) in enumerate(rows):
        columns = [place[label] for label in texts + numbers]
        scores[i, columns], present[i, columns] = own, True
        outcome[i] = columns[outcome[i]]
    return labels, scores, present, outcome


def split(labels: Sequence[ClassLabel]) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Split labels in order into strings and numbers."""
    if labels and isinstance(labels[-1], str):  # strings come first
        return tuple(labels), ()  # type: ignore[arg-type]
    texts = tuple(label for label in labels if isinstance(label, str))
    numbers = tuple(label for label in labels if not isinstance(label, str))
    return texts, numbers
