"""Decomposition of several classes into binary subproblems, one against the rest or one against one, and coupling."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, TypeAlias

import numpy as np

from streamcal.multiclass.labels import ClassLabel, check_class
from streamcal.multiclass.observations import read_back
from streamcal.parameters.types import FloatArray
from streamcal.states import listed
from streamcal.statistics.class_table import require_classes
from streamcal.statistics.subproblems import Routed, RoutedColumn, Routing

#: A binary subproblem, positive if the last of these labels occurred; (L,), or (I, J) for outcomes I and J only.
Subproblem: TypeAlias = tuple[ClassLabel, ...]


class Strategy(Routing):
    """Labels are in order, so that a subproblem and its orientation do not depend on the order of arrival."""

    #: Number of labels of a subproblem.
    size: ClassVar[int]

    @abstractmethod
    def subproblems(self, labels: Sequence[ClassLabel]) -> list[Subproblem]:
        """All subproblems of these labels."""

    def route(self, x: Any, y: float) -> Routed:
        texts, numbers, scores = x
        return self.routed(texts + numbers, scores, int(y))

    def route_many(self, x: FloatArray, y: FloatArray) -> Iterator[RoutedColumn]:
        labels, scores, present, outcome = read_back(x, y)
        place = {label: column for column, label in enumerate(labels)}
        given = dict(zip(labels, scores.T, strict=True))
        for key in self.subproblems(labels):
            own = [place[label] for label in key]
            concerned = np.array([self.concerns(key, label) for label in labels])
            rows = present[:, own].all(axis=1) & concerned[outcome]
            if rows.any():
                yield key, rows, self.score_many(key, given)[rows], outcome[rows] == own[-1]

    def key(self, plain: Any) -> Subproblem:
        return tuple(listed(check_class, length=self.size)(plain))

    def require_possible(self, x: Any, y: FloatArray) -> None:
        require_classes(x, y)

    @abstractmethod
    def routed(self, labels: Sequence[ClassLabel], scores: Sequence[float], came: int) -> Routed:
        """The subproblems of an observation with these labels, where the one at place `came` occurred."""

    @abstractmethod
    def concerns(self, key: Subproblem, y: ClassLabel) -> bool:
        """Whether an observation with the outcome `y` is part of a subproblem of its labels."""

    @abstractmethod
    def score(self, key: Subproblem, scores: Mapping[ClassLabel, float]) -> float:
        """The score of the last label of a subproblem."""

    @abstractmethod
    def score_many(self, key: Subproblem, scores: Mapping[ClassLabel, FloatArray]) -> FloatArray:
        """`score` for columns."""

    @abstractmethod
    def votes(self, labels: Sequence[ClassLabel], predicted: Mapping[Subproblem, float]) -> list[float]:
        """Numbers to which the probabilities of the labels are proportional."""

    @abstractmethod
    def votes_many(self, labels: Sequence[ClassLabel], predicted: Mapping[Subproblem, FloatArray]) -> FloatArray:
        """`votes` for columns; shape (n, K)."""


class OneAgainstRest(Strategy):
    """A subproblem (L,) for each label L, with the binary label y = L. Every observation is part of those of all its
    labels."""

    size = 1

    def subproblems(self, labels: Sequence[ClassLabel]) -> list[Subproblem]:
        return [(label,) for label in labels]

    def routed(self, labels: Sequence[ClassLabel], scores: Sequence[float], came: int) -> Routed:
        positive = [False] * len(labels)
        positive[came] = True
        return [(label,) for label in labels], scores, positive

    def concerns(self, key: Subproblem, y: ClassLabel) -> bool:
        return True

    def score(self, key: Subproblem, scores: Mapping[ClassLabel, float]) -> float:
        return scores[key[0]]

    def score_many(self, key: Subproblem, scores: Mapping[ClassLabel, FloatArray]) -> FloatArray:
        return scores[key[0]]

    def votes(self, labels: Sequence[ClassLabel], predicted: Mapping[Subproblem, float]) -> list[float]:
        return [predicted[(label,)] for label in labels]

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

    def concerns(self, key: Subproblem, y: ClassLabel) -> bool:
        return y in key

    def score(self, key: Subproblem, scores: Mapping[ClassLabel, float]) -> float:
        other, own = key
        return share(scores[other], scores[own])

    def score_many(self, key: Subproblem, scores: Mapping[ClassLabel, FloatArray]) -> FloatArray:
        other, own = (scores[label] for label in key)
        total = other + own
        return np.divide(own, total, out=np.full_like(total, 0.5), where=total > 0.0)

    def votes(self, labels: Sequence[ClassLabel], predicted: Mapping[Subproblem, float]) -> list[float]:
        wins: dict[ClassLabel, list[float]] = {label: [] for label in labels}
        for (other, own), p in predicted.items():
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
    """own / (other + own), ½ where both are 0."""
    total = other + own
    return own / total if total > 0.0 else 0.5


def coupled(wins: Sequence[float]) -> float:
    """1 / (Σ 1/r − (K − 2)) for the K − 1 numbers r: 0 where one of them is 0; increasing in each of them."""
    return 1.0 / (math.fsum(1.0 / r for r in wins) - (len(wins) - 1)) if all(wins) else 0.0
