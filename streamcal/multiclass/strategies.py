"""How many classes become binary questions, and the answers probabilities: one against the rest, one against one."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from streamcal.calibrators.questions import Answers, Asking, Column
from streamcal.multiclass.labels import ClassLabel
from streamcal.multiclass.observations import read_back
from streamcal.parameters.types import FloatArray

#: A question: "is it the last of these labels?", of all observations that the others of them may be the answer of.
Question: TypeAlias = tuple[ClassLabel, ...]


class Strategy(Asking):
    """Labels come in order, so that a question and its orientation do not depend on who came first."""

    @abstractmethod
    def questions(self, labels: Sequence[ClassLabel]) -> list[Question]:
        """All questions about these labels."""

    def answers(self, x: Any, y: float) -> Answers:
        texts, numbers, scores = x
        return self.asked(texts + numbers, scores, int(y))

    def answers_many(self, x: FloatArray, y: FloatArray) -> Iterator[Column]:
        labels, scores, present, outcome = read_back(x, y)
        place = {label: column for column, label in enumerate(labels)}
        given = dict(zip(labels, scores.T, strict=True))
        for question in self.questions(labels):
            own = [place[label] for label in question]
            answered = np.array([self.answered(question, label) for label in labels])
            rows = present[:, own].all(axis=1) & answered[outcome]
            if rows.any():
                yield question, rows, self.score_many(question, given)[rows], outcome[rows] == own[-1]

    @abstractmethod
    def asked(self, labels: Sequence[ClassLabel], scores: Sequence[float], came: int) -> Answers:
        """What an observation of these labels answers, the one at place `came` being the outcome."""

    @abstractmethod
    def answered(self, question: Question, y: ClassLabel) -> bool:
        """Whether the outcome `y` answers a question about its observation."""

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

    def asked(self, labels: Sequence[ClassLabel], scores: Sequence[float], came: int) -> Answers:
        positive = [False] * len(labels)
        positive[came] = True
        return [(label,) for label in labels], scores, positive

    def answered(self, question: Question, y: ClassLabel) -> bool:
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

    def asked(self, labels: Sequence[ClassLabel], scores: Sequence[float], came: int) -> Answers:
        pairs = [(rival, came) for rival in range(came)] + [(came, rival) for rival in range(came + 1, len(labels))]
        questions = [(labels[first], labels[last]) for first, last in pairs]
        asked = [share(scores[first], scores[last]) for first, last in pairs]
        return questions, asked, [last == came for _, last in pairs]

    def answered(self, question: Question, y: ClassLabel) -> bool:
        return y in question

    def score(self, question: Question, scores: Mapping[ClassLabel, float]) -> float:
        other, own = question
        return share(scores[other], scores[own])

    def score_many(self, question: Question, scores: Mapping[ClassLabel, FloatArray]) -> FloatArray:
        other, own = (scores[label] for label in question)
        total = other + own
        return np.divide(own, total, out=np.full_like(total, 0.5), where=total > 0.0)

    def votes(self, labels: Sequence[ClassLabel], answers: Mapping[Question, float]) -> list[float]:
        wins: dict[ClassLabel, list[float]] = {label: [] for label in labels}
        for (other, own), p in answers.items():
            wins[own].append(p)
            wins[other].append(1.0 - p)
        return [coupled(wins[label]) for label in labels]

    def votes_many(self, labels: Sequence[ClassLabel], answers: Mapping[Question, FloatArray]) -> FloatArray:
        wins = {(own, other): p for (other, own), p in answers.items()}
        wins |= {(other, own): 1.0 - p for (other, own), p in answers.items()}
        votes = np.ones((len(next(iter(answers.values()))) if answers else 1, len(labels)))
        for column, own in enumerate(labels if answers else []):
            rivals = [wins[own, other] for other in labels if other != own]
            with np.errstate(divide="ignore"):
                votes[:, column] = 1.0 / (sum(1.0 / r for r in rivals) - (len(rivals) - 1))
        return votes


def share(other: float, own: float) -> float:
    """own / (other + own), ½ where both are 0."""
    total = other + own
    return own / total if total > 0.0 else 0.5


def coupled(wins: Sequence[float]) -> float:
    """1 / (Σ 1/r − (K − 2)) for the K − 1 numbers r: 0 where one of them is 0; rising in each of them."""
    return 1.0 / (math.fsum(1.0 / r for r in wins) - (len(wins) - 1)) if all(wins) else 0.0
