"""Decomposition of several classes into binary subproblems, one against the rest or one against one, and coupling."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamcal.multiclass.labels import ClassLabel, check_class, in_order
from streamcal.multiclass.observations import read_back
from streamcal.parameters.types import FloatArray
from streamcal.states import listed, maybe
from streamcal.statistics.class_subproblems import NOBODY, ClassRouting
from streamcal.statistics.class_table import require_classes
from streamcal.statistics.subproblems import Routed, RoutedColumn

#: A binary subproblem, positive if the last of these labels occurred; (L,), or (I, J) for outcomes I and J only.
Subproblem: TypeAlias = tuple[ClassLabel, ...]


class Strategy(ClassRouting):
    """Labels are in order, so that a subproblem and its orientation do not depend on the order of arrival."""

    #: Number of labels of a subproblem.
    size: ClassVar[int]

    def label(self, plain: Any) -> ClassLabel:
        return check_class(plain)

    def labels_of(self, x: Any) -> tuple[ClassLabel, ...]:
        texts, numbers, _ = x
        return texts + numbers

    def ordered(self, labels: Any) -> list[ClassLabel]:
        return in_order(labels)

    def route(self, x: Any, y: float) -> Routed:
        texts, numbers, scores = x
        return self.routed(texts + numbers, scores, int(y))

    def route_among(self, x: Any, y: float, labels: Sequence[ClassLabel]) -> Routed:
        own, scores = self.labels_of(x), x[2]
        if len(own) == len(labels):
            return self.routed(own, scores, int(y))
        by_label = dict(zip(own, scores, strict=True))
        return self.routed(labels, [by_label.get(label, 0.0) for label in labels], labels.index(own[int(y)]))

    def route_many(self, x: FloatArray, y: FloatArray) -> Iterator[RoutedColumn]:
        labels, scores, present, outcome = read_back(x, y)
        by_label = dict(zip(labels, scores.T, strict=True))
        shown = dict(zip(labels, present.T, strict=True))
        for key, rows, positive in self._concerned(labels, labels, outcome):
            rows = rows & np.logical_and.reduce([shown[label] for label in key])
            if rows.any():
                yield key, rows, self.score_many(key, by_label)[rows], positive[rows]

    def route_many_among(self, x: FloatArray, y: FloatArray, labels: Sequence[ClassLabel]) -> Iterator[RoutedColumn]:
        named, scores, _, outcome = read_back(x, y)
        by_label = {**dict.fromkeys(labels, np.zeros(len(y))), **dict(zip(named, scores.T, strict=True))}
        for key, rows, positive in self._concerned(labels, named, outcome):
            if rows.any():
                yield key, rows, self.score_many(key, by_label)[rows], positive[rows]

    def _concerned(
        self, labels: Sequence[ClassLabel], named: Sequence[ClassLabel], outcome: NDArray[np.intp]
    ) -> Iterator[tuple[Subproblem, NDArray[np.bool_], NDArray[np.bool_]]]:
        """Yield each subproblem of labels, the rows that are part of it, and those where its last label occurred."""
        came = {label: outcome == place for place, label in enumerate(named)}
        never = np.zeros(len(outcome), dtype=np.bool_)
        for key in self.subproblems(labels):
            yield key, self.rows(key, came, len(outcome)), came.get(key[-1], never)

    def key(self, plain: Any) -> Subproblem:
        return tuple(listed(maybe(check_class), length=self.size)(plain))  # None: see `ClassSubproblems`

    def require_possible(self, x: Any, y: FloatArray) -> None:
        require_classes(x, y)

    @abstractmethod
    def routed(self, labels: Sequence[ClassLabel], scores: Sequence[float], came: int) -> Routed:
        """Return the subproblems of an observation with these labels, of which the one at place `came` occurred."""

    @abstractmethod
    def rows(self, key: Subproblem, came: Mapping[ClassLabel, NDArray[np.bool_]], size: int) -> NDArray[np.bool_]:
        """Return the rows that are part of a subproblem, from the rows in which each label occurred; shape (size,)."""

    @abstractmethod
    def score(self, key: Subproblem, scores: Mapping[ClassLabel, float]) -> float:
        """Return the score of the last label of a subproblem."""

    def scores(self, labels: Sequence[ClassLabel], scores: Sequence[float]) -> Sequence[float]:
        """Return the scores of the subproblems of these labels, in their order."""
        by_label = dict(zip(labels, scores, strict=True))
        return [self.score(key, by_label) for key in self.subproblems(labels)]

    @abstractmethod
    def score_many(self, key: Subproblem, scores: Mapping[ClassLabel, FloatArray]) -> FloatArray:
        """Return `score` for columns."""

    @abstractmethod
    def votes(self, labels: Sequence[ClassLabel], predicted: Sequence[float]) -> Sequence[float]:
        """Return numbers proportional to the probabilities of the labels, computed from those of their subproblems."""

    @abstractmethod
    def votes_many(self, labels: Sequence[ClassLabel], predicted: Mapping[Subproblem, FloatArray]) -> FloatArray:
        """Return `votes` for columns; shape (n, K)."""


class OneAgainstRest(Strategy):
    """A subproblem (L,) for each label L, with the binary label y = L.

    Every observation is part of the subproblems of all its labels.
    """

    size = 1

    def __init__(self) -> None:
        # The last labels and their subproblems, the same list as long as the labels are the same: observations mostly
        # name the same labels. Replaced as a whole, since maps share a strategy between threads.
        self._last: tuple[tuple[ClassLabel, ...], list[Subproblem]] = (), []

    def subproblems(self, labels: Sequence[ClassLabel]) -> list[Subproblem]:
        named = tuple(labels)
        known, subproblems = self._last
        if named != known:
            subproblems = [(label,) for label in named]
            self._last = named, subproblems
        return subproblems

    def routed(self, labels: Sequence[ClassLabel], scores: Sequence[float], came: int) -> Routed:
        positive = [False] * len(labels)
        positive[came] = True
        return self.subproblems(labels), scores, positive

    def rows(self, key: Subproblem, came: Mapping[ClassLabel, NDArray[np.bool_]], size: int) -> NDArray[np.bool_]:
        return np.ones(size, dtype=np.bool_)

    def route_nobody(self, x: Any, y: float) -> Routed:
        return [(NOBODY,)], 0.0, [False]

    def route_many_nobody(self, x: FloatArray, y: FloatArray) -> Iterator[RoutedColumn]:
        yield (NOBODY,), slice(None), np.zeros(len(y)), np.zeros(len(y), dtype=np.bool_)

    def score(self, key: Subproblem, scores: Mapping[ClassLabel, float]) -> float:
        return scores[key[0]]

    def scores(self, labels: Sequence[ClassLabel], scores: Sequence[float]) -> Sequence[float]:
        return scores

    def score_many(self, key: Subproblem, scores: Mapping[ClassLabel, FloatArray]) -> FloatArray:
        return scores[key[0]]

    def votes(self, labels: Sequence[ClassLabel], predicted: Sequence[float]) -> Sequence[float]:
        return predicted

    def votes_many(self, labels: Sequence[ClassLabel], predicted: Mapping[Subproblem, FloatArray]) -> FloatArray:
        return np.column_stack([predicted[(label,)] for label in labels])


class OneAgainstOne(Strategy):
    """A subproblem (I, J) for each pair, with the binary label y = J and the score s_J/(s_I + s_J), where y is I or J.

    With r_I(J) the prediction in favour of I against J, the vote of I is 1 / (Σ_J 1/r_I(J) − (K − 2)), which is exact
    where the predictions are those of one probability vector (Price, Knerr, Personnaz and Dreyfus 1994). Where both
    scores are 0 the score of the pair is ½.
    """

    size = 2

    def subproblems(self, labels: Sequence[ClassLabel]) -> list[Subproblem]:
        return [(first, second) for i, first in enumerate(labels) for second in labels[i + 1 :]]

    def routed(self, labels: Sequence[ClassLabel], scores: Sequence[float], came: int) -> Routed:
        pairs = [(rival, came) for rival in range(came)] + [(came, rival) for rival in range(came + 1, len(labels))]
        keys = [(labels[first], labels[last]) for first, last in pairs]
        pair_scores = [share(scores[first], scores[last]) for first, last in pairs]
        return keys, pair_scores, [last == came for _, last in pairs]

    def rows(self, key: Subproblem, came: Mapping[ClassLabel, NDArray[np.bool_]], size: int) -> NDArray[np.bool_]:
        rows = np.zeros(size, dtype=np.bool_)
        for label in key:
            if label in came:
                rows |= came[label]
        return rows

    def route_nobody(self, x: Any, y: float) -> Routed:
        own, score = self.labels_of(x)[int(y)], x[2][int(y)]
        return [(own, NOBODY), (NOBODY, own)], [share(score, 0.0), share(0.0, score)], [False, True]

    def route_many_nobody(self, x: FloatArray, y: FloatArray) -> Iterator[RoutedColumn]:
        labels, scores, _, outcome = read_back(x, y)
        for place, own in enumerate(labels):
            rows = outcome == place
            if rows.any():
                by_label: Any = {own: scores[:, place], NOBODY: np.zeros(len(y))}
                keys: Any = ((own, NOBODY), False), ((NOBODY, own), True)
                for key, positive in keys:
                    yield key, rows, self.score_many(key, by_label)[rows], np.full(int(rows.sum()), positive)

    def score(self, key: Subproblem, scores: Mapping[ClassLabel, float]) -> float:
        other, own = key
        return share(scores[other], scores[own])

    def score_many(self, key: Subproblem, scores: Mapping[ClassLabel, FloatArray]) -> FloatArray:
        other, own = (scores[label] for label in key)
        total = other + own
        return np.divide(own, total, out=np.full_like(total, 0.5), where=total > 0.0)

    def votes(self, labels: Sequence[ClassLabel], predicted: Sequence[float]) -> Sequence[float]:
        wins: dict[ClassLabel, list[float]] = {label: [] for label in labels}
        for (other, own), p in zip(self.subproblems(labels), predicted, strict=True):
            wins[own].append(p)
            wins[other].append(1.0 - p)
        return [coupled(wins[label]) for label in labels]

    def votes_many(self, labels: Sequence[ClassLabel], predicted: Mapping[Subproblem, FloatArray]) -> FloatArray:
        wins = {(own, other): p for (other, own), p in predicted.items()}
        wins |= {(other, own): 1.0 - p for (other, own), p in predicted.items()}
        votes = np.ones((len(next(iter(predicted.values()))) if predicted else 1, len(labels)))
        for column, own in enumerate(labels if predicted else []):
            rivals = [wins[own, other] for other in labels if other != own]
            with np.errstate(divide="ignore"):
                votes[:, column] = 1.0 / (sum(1.0 / r for r in rivals) - (len(rivals) - 1))
        return votes


def share(other: float, own: float) -> float:
    """Return own / (other + own); ½ if both are 0."""
    total = other + own
    return own / total if total > 0.0 else 0.5


def coupled(wins: Sequence[float]) -> float:
    """Return 1 / (Σ 1/r − (K − 2)) for the K − 1 numbers r: 0 if one of them is 0; increasing in each of them."""
    return 1.0 / (math.fsum(1.0 / r for r in wins) - (len(wins) - 1)) if all(wins) else 0.0
