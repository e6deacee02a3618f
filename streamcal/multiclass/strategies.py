"""How many classes become binary questions, and the answers probabilities: one against the rest, one against one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from streamcal.base import FloatArray
from streamcal.multiclass.labels import ClassLabel

#: A question: "is it the last of these labels?", of all observations that the others of them may be the answer of.
Question: TypeAlias = tuple[ClassLabel, ...]


class Strategy(ABC):
    """Stateless. Labels come in order, so that a question and its orientation do not depend on who came first."""

    @abstractmethod
    def questions(self, labels: Sequence[ClassLabel]) -> list[Question]:
        """All questions about these labels."""

    @abstractmethod
    def answered(self, question: Question, y: Any) -> Any:
        """Whether the outcome `y` answers a question about its observation; of an array of places, where it does."""

    @abstractmethod
    def score(self, question: Question, scores: Mapping[ClassLabel, float]) -> float:
        """The score of the question's last label."""

    @abstractmethod
    def score_many(self, question: Question, scores: Mapping[ClassLabel, FloatArray]) -> FloatArray:
        """`score` for columns."""

    @abstractmethod
    def votes(self, labels: Sequence[ClassLabel], answers: Mapping[Question, float]) -> list[float]:
        """What the probabilities are proportional to."""

    @abstractmethod
    def votes_many(self, labels: Sequence[ClassLabel], answers: Mapping[Question, FloatArray]) -> FloatArray:
        """`votes` for columns; shape (n, K)."""


class OneAgainstRest(Strategy):
    """A question (L,) for each label L: was it L? Every outcome answers all of them."""

    def questions(self, labels: Sequence[ClassLabel]) -> list[Question]:
        return [(label,) for label in labels]

    def answered(self, question: Question, y: Any) -> Any:
        return True

    def score(self, question: Question, scores: Mapping[ClassLabel, float]) -> float:
        return scores[question[0]]

    def score_many(self, question: Question, scores: Mapping[ClassLabel, FloatArray]) -> FloatArray:
        return scores[question[0]]

    def votes(self, labels: Sequence[ClassLabel], answers: Mapping[Question, float]) -> list[float]:
        return [answers[(label,)] for label in labels]

    def votes_many(self, labels: Sequence[ClassLabel], answers: Mapping[Question, FloatArray]) -> FloatArray:
        return np.column_stack([answers[(label,)] for label in labels])


class OneAgainstOne(Strategy):
    """A question (I, J) for each pair: J rather than I? Outcomes I and J answer it, with the score s_J/(s_I + s_J).

    With r_I(J) the answer in favour of I against J, the vote of I is 1 / (Σ_J 1/r_I(J) − (K − 2)), which is exact
    where the answers are those of one probability vector (Price, Knerr, Personnaz and Dreyfus 1994). Where both scores
    are 0 the question's score is ½.
    """

    def questions(self, labels: Sequence[ClassLabel]) -> list[Question]:
        return [(first, second) for i, first in enumerate(labels) for second in labels[i + 1 :]]

    def answered(self, question: Question, y: Any) -> Any:
        return y in question

    def score(self, question: Question, scores: Mapping[ClassLabel, float]) -> float:
        other, own = (scores[label] for label in question)
        total = other + own
        return own / total if total > 0.0 else 0.5

    def score_many(self, question: Question, scores: Mapping[ClassLabel, FloatArray]) -> FloatArray:
        other, own = (scores[label] for label in question)
        total = other + own
        return np.divide(own, total, out=np.full_like(total, 0.5), where=total > 0.0)

    def votes(self, labels: Sequence[ClassLabel], answers: Mapping[Question, float]) -> list[float]:
        matrix = self.votes_many(labels, {question: np.array([p]) for question, p in answers.items()})
        votes: list[float] = matrix[0].tolist()
        return votes

    def votes_many(self, labels: Sequence[ClassLabel], answers: Mapping[Question, FloatArray]) -> FloatArray:
        wins = {(own, other): p for (other, own), p in answers.items()}
        wins |= {(other, own): 1.0 - p for (other, own), p in answers.items()}
        return np.column_stack([coupled([wins[own, other] for other in labels if other != own]) for own in labels])


def coupled(wins: Sequence[FloatArray]) -> FloatArray:
    """1 / (Σ 1/r − (K − 2)) for the K − 1 arrays r: 0 where one of them is 0; rising in each of them."""
    if not wins:
        return np.ones(1)
    with np.errstate(divide="ignore"):
        vote: FloatArray = 1.0 / (np.sum([1.0 / r for r in wins], axis=0) - (len(wins) - 1))
    return vote
