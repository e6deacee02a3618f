"""Validation of multiclass input: labels, dicts of scores and arrays of them; checked once, at the public methods."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal.errors import InputError
from streamcal.kernels.common import class_scores
from streamcal.parameters.columns import as_array, column_names, with_columns
from streamcal.parameters.inputs import check_batch, check_score, check_scores_matrix
from streamcal.parameters.keys import canonical
from streamcal.parameters.types import FloatArray
from streamcal.statistics.class_table import LONGEST_LABEL

#: Types of class labels. As keys of any dict, 1, 1.0 and True are one label; the first form seen is kept.
ClassLabel: TypeAlias = str | int | float | bool
#: Label → score. The keys are `Any` because those of a `Mapping` are invariant: a dict[str, float] would be refused.
ClassScores: TypeAlias = Mapping[Any, float]

LABEL_ALLOWED = "give a text, a bool, a whole number or a finite float"
#: Tolerance for scores outside [0, 1], the rounding error of models that sum and divide floats.
ROUNDING = 1e-9
#: Tolerance for the sum of the scores of an observation: ten classes printed with three decimals miss 1 by 0.005.
#: Scores that are further off are not a probability vector, but margins, votes, or a vector with missing classes.
SUM_TOLERANCE = 0.01


def check_class(label: Any) -> ClassLabel:
    """Return the label as a plain Python value; `InputError` for values that JSON cannot write and read back."""
    if label.__class__ is str and len(label) <= LONGEST_LABEL:  # fast path
        return label
    item = label[()] if isinstance(label, np.ndarray) and label.ndim == 0 else label  # not 0.0 for `np.ma.masked`
    value = item.item() if isinstance(item, np.generic) else item
    if isinstance(value, str):
        if len(value) > LONGEST_LABEL:
            raise InputError(f"label {value[:40]!r}… has {len(value):,} characters; give at most {LONGEST_LABEL:,}")
        return str.__str__(value)  # of an `Enum`, its value
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    raise InputError(f"label {label!r} is not possible; {LABEL_ALLOWED}")


def in_order(labels: Iterable[ClassLabel]) -> list[ClassLabel]:
    """Sort labels, strings before numbers: one order for any mixture, independent of the order of arrival."""
    listed: list[Any] = list(labels)
    try:
        return sorted(listed)
    except TypeError:  # texts and numbers
        return sorted(listed, key=_rank)


def _rank(label: ClassLabel) -> tuple[bool, Any]:
    return not isinstance(label, str), label


def read_scores(scores: Any, sums_to_one: bool) -> dict[ClassLabel, float]:
    """Return the scores in [0, 1] by label, labels in order; `InputError` naming the invalid entry."""
    plain: dict[ClassLabel, float] | None = class_scores.plain_scores(scores)
    if plain is not None:
        if sums_to_one:
            _check_sum(math.fsum(plain.values()), "the scores")
        return plain
    if not isinstance(scores, Mapping) or not scores:
        raise InputError(f"scores {scores!r} are not a dict label -> score with at least one label")
    read: dict[ClassLabel, float] = {}
    for label, score in scores.items():
        read[check_class(label)] = _in_unit_interval(score, label)
    if sums_to_one:
        _check_sum(math.fsum(read.values()), "the scores")
    return {label: read[label] for label in in_order(read)}


def read_observation(scores: Any, y: Any, sums_to_one: bool) -> tuple[dict[ClassLabel, float], ClassLabel]:
    """Return the scores in [0, 1] by label, labels in order, and the label that came, which may be new."""
    read, label = read_scores(scores, sums_to_one), check_class(y)
    if label not in read:
        _check_new(label, read)
    return read, label


def _check_new(label: ClassLabel, named: Iterable[ClassLabel]) -> None:
    """Raise an `InputError` for a label beyond those named that is one of them in another form, such as "1" for 1."""
    form = _form(label)
    other = next((one for one in named if _form(one) == form), None)
    if other is not None:
        raise InputError(f"label {label!r} has no score, but {other!r} has; give labels and scores the same keys")


def _form(label: ClassLabel) -> str | int | None:
    """Return the same for 1, 1.0, "1", "1.0" and " 1"."""
    return canonical(str(label).strip())


def with_label(scores: dict[ClassLabel, float], y: ClassLabel) -> dict[ClassLabel, float]:
    """Return the scores including the label y, with the score 0 if the label is missing."""
    if y in scores:
        return scores
    joined = {**scores, y: 0.0}
    return {label: joined[label] for label in in_order(joined)}


class Table(NamedTuple):
    """Scores of shape (n, K), a column a label, labels in order; `columns` are the places of the caller's columns."""

    labels: list[ClassLabel]
    scores: FloatArray
    columns: list[int]


def read_table(P: ArrayLike, labels: Sequence[ClassLabel], sums_to_one: bool) -> Table:
    """Read an array of scores whose columns are those of `labels`; `InputError` naming the first bad place."""
    names = read_labels(labels)
    matrix = check_scores_matrix(in_columns_of(P, names), len(names))
    outside = (matrix < -ROUNDING) | (matrix > 1.0 + ROUNDING)
    if outside.any():
        row, column = (int(place) for place in np.argwhere(outside)[0])
        _in_unit_interval(matrix[row, column].item(), names[column])
    if sums_to_one and len(matrix):
        sums = matrix.sum(axis=1)
        worst = int(np.argmax(np.abs(sums - 1.0)))
        _check_sum(float(sums[worst]), f"row {worst}")
    ordered = in_order(names)
    order = [names.index(label) for label in ordered]
    return Table(ordered, np.clip(matrix[:, order], 0.0, 1.0) + 0.0, [ordered.index(label) for label in names])


def in_columns_of(P: Any, labels: list[ClassLabel]) -> Any:
    """Return scores with their columns in the order of the labels, if they are a table whose names are the labels."""
    names = column_names(P)
    named = names is not None and names != labels and set(names) == set(labels)
    return with_columns(P, labels) if named else P


def read_labels(labels: Any) -> list[ClassLabel]:
    """Read the labels of columns: at least one label, and each of them once."""
    names = _listed(labels, "labels", "the label of each column")
    if not names or len(set(names)) < len(names):
        raise InputError(f"labels {labels!r} cannot name columns; give at least one label, and none twice")
    return names


def _listed(labels: Any, what: str, allowed: str) -> list[ClassLabel]:
    """Return the labels in a list, a tuple or anything that NumPy reads as an array of shape (n,)."""
    values = as_array(labels, what) if hasattr(labels, "__array__") else labels
    flat = values.ndim == 1 if isinstance(values, np.ndarray) else isinstance(values, Sequence)
    if not flat or isinstance(values, (str, bytes)):
        raise InputError(f"{what}={labels!r} is not a list; give {allowed}, shape (n,)")
    return [check_class(label) for label in values]


class Batch(NamedTuple):
    """Observations in arrays. Labels that only `y` has are columns too, and present where they are the outcome."""

    labels: list[ClassLabel]
    scores: FloatArray  #: shape (n, K)
    present: NDArray[np.bool_]  #: shape (n, K): whether the label is one of the observation's
    outcome: NDArray[np.intp]  #: shape (n,): the column of y
    weights: FloatArray  #: shape (n,)

    def where(self, rows: NDArray[np.bool_]) -> Batch:
        """Select some of the rows, and the labels that take part in them."""
        present = self.present[rows]
        used = np.flatnonzero(present.any(axis=0))
        return Batch(
            [self.labels[column] for column in used],
            self.scores[rows][:, used],
            present[:, used],
            np.searchsorted(used, self.outcome[rows]),
            self.weights[rows],
        )

    def one_by_one(self) -> Iterator[tuple[dict[ClassLabel, float], ClassLabel, float]]:
        """Yield the scores by label, the label that occurred and the weight of each row."""
        columns = (self.scores.tolist(), self.present.tolist(), self.outcome.tolist(), self.weights.tolist())
        for scores, present, came, weight in zip(*columns, strict=True):
            named = zip(self.labels, scores, present, strict=True)
            yield {label: score for label, score, here in named if here}, self.labels[came], weight


def read_batch(P: ArrayLike, y: Any, w: ArrayLike | None, labels: Sequence[ClassLabel], sums_to_one: bool) -> Batch:
    """Read scores, outcomes and weights of one length; `InputError` naming the first bad place."""
    table = read_table(P, labels, sums_to_one)
    outcomes = _listed(y, "y", "the label that came for each row")
    n = len(table.scores)
    _, _, weights = check_batch(np.zeros(n), np.zeros(n), w)
    if len(outcomes) != n:
        raise InputError(f"P and y differ in length: {n} and {len(outcomes)}")
    every = in_order(dict.fromkeys([*table.labels, *outcomes]))
    for label in every if len(every) > len(table.labels) else ():
        if label not in table.labels:
            _check_new(label, table.labels)
    place = {label: column for column, label in enumerate(every)}
    outcome = np.array([place[label] for label in outcomes], dtype=np.intp)
    scores, present = np.zeros((n, len(every))), np.zeros((n, len(every)), dtype=np.bool_)
    named = [place[label] for label in table.labels]
    scores[:, named], present[:, named] = table.scores, True
    present[np.arange(n), outcome] = True
    return Batch(every, scores, present, outcome, weights)


def shares(values: Sequence[float]) -> list[float]:
    """Divide nonnegative numbers by their sum; return equal shares if all of them are 0."""
    return class_scores.shares(list(values))


def shares_many(values: FloatArray) -> FloatArray:
    """Return the `shares` of each row."""
    total = values.sum(axis=1, keepdims=True)
    equal = np.full_like(values, 1.0 / values.shape[1])
    return np.divide(values, total, out=equal, where=total > 0.0)


def _in_unit_interval(score: Any, label: Any) -> float:
    value = check_score(score)
    if not -ROUNDING <= value <= 1.0 + ROUNDING:
        raise InputError(f"score {score!r} of label {label!r} is not allowed; give a probability in [0, 1]")
    return min(max(value, 0.0), 1.0) + 0.0


def _check_sum(total: float, what: str) -> None:
    if not abs(total - 1.0) <= SUM_TOLERANCE:
        raise InputError(f"{what} sum to {total!r}; this method needs a probability vector: give scores that sum to 1")
