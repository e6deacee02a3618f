"""`BinaryQuestions`: many classes by several binary calibrators, one for each question."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from streamcal.additive import AdditiveLearner
from streamcal.base import CalibrationMap, Calibrator, CapabilityError, FloatArray, MergeError, RetractionError, Time
from streamcal.forgetting import Forever
from streamcal.inputs import check_time, check_weight
from streamcal.multiclass.base import MulticlassCalibrator, MulticlassMap
from streamcal.multiclass.labels import (
    Batch,
    ClassLabel,
    ClassScores,
    check_class,
    read_batch,
    read_scores,
    read_table,
    shares,
    shares_many,
    with_label,
)
from streamcal.multiclass.observations import coordinate, coordinates
from streamcal.multiclass.strategies import Question, Strategy
from streamcal.statistics.totals import Totals


class QuestionsMap(MulticlassMap):
    """The maps of the questions, and the strategy that makes probabilities of their answers."""

    def __init__(self, strategy: Strategy, maps: Mapping[Question, CalibrationMap]) -> None:
        self._strategy = strategy
        self._maps = dict(maps)

    def at(self, labels: list[ClassLabel], scores: list[float]) -> list[float]:
        given = dict(zip(labels, scores, strict=True))
        answers = {question: self._strategy.score(question, given) for question in self._strategy.questions(labels)}
        answers |= {question: self._maps[question].predict_one(answers[question]) for question in self._known(answers)}
        return decided(self._strategy.votes(labels, answers), scores)

    def at_many(self, labels: list[ClassLabel], scores: FloatArray) -> FloatArray:
        given = dict(zip(labels, scores.T, strict=True))
        answers = {q: self._strategy.score_many(q, given) for q in self._strategy.questions(labels)}
        answers |= {question: self._maps[question].predict_many(answers[question]) for question in self._known(answers)}
        return decided_many(self._strategy.votes_many(labels, answers), scores)

    def _known(self, questions: Mapping[Question, Any]) -> list[Question]:
        return [question for question in questions if question in self._maps]


class BinaryQuestions(MulticlassCalibrator):
    """A multiclass calibrator made of binary ones: a clone of `template` for each question that was ever answered.

    Every law of the binary method holds for each question, and so for all of them. A question that nothing is held of
    is answered by the score. Times are those of the stream: an answer is as of the latest time learned, whichever
    question that observation was for.
    """

    def __init__(self, template: Calibrator, strategy: Strategy) -> None:
        self._template = template
        self._strategy = strategy
        self._calibrators: dict[Question, Calibrator] = {}
        #: What is held of the observations, whatever they answered: their weight, and what was missed or late.
        policy = template.forgetting if isinstance(template, AdditiveLearner) else Forever()
        self._ledger = policy.start(Totals())
        self._clock = -math.inf

    # -- what it can do ------------------------------------------------------------------------------------------

    @property
    def merges(self) -> bool:
        return self._template.merges

    @property
    def unlearns(self) -> bool:
        return self._template.unlearns

    @property
    def bounded_memory(self) -> bool:
        """For each question; labels that never came before make new ones."""
        return self._template.bounded_memory

    @property
    def n(self) -> float:
        """Total weight of the observations held; a discount of a sequential method is not counted in."""
        return self._ledger.n

    def tally(self) -> dict[str, int]:
        """Counts of what was quietly handled: scores clamped by the scale of any question; and observations, not
        questions, whose retraction was missed or that came too late."""
        counts = dict.fromkeys(self._template.tally(), 0)
        for calibrator in self._calibrators.values():
            for name, count in calibrator.tally().items():
                counts[name] += count
        own = {"missed": self._ledger.missed, "late": self._ledger.late}
        return {**counts, **{name: own[name] for name in counts if name in own}}

    # -- learning ------------------------------------------------------------------------------------------------

    def learn_one(self, scores: ClassScores, y: ClassLabel, w: float = 1.0, t: Time | None = None) -> None:
        read, label, weight, time = self._checked(scores, y, w, t)
        if weight == 0.0:
            return
        self._ledger.learn(_entry(read, label), 1.0, weight, time)
        for question, score, positive in self._asked(read, label):
            self._of(question).learn_one(score, positive, weight, time)
        self._clock = max(self._clock, time)

    def learn_many(
        self,
        P: npt.ArrayLike,
        y: Sequence[ClassLabel] | npt.NDArray[Any],
        w: npt.ArrayLike | None = None,
        t: npt.ArrayLike | Sequence[Time] | None = None,
        *,
        labels: Sequence[ClassLabel],
    ) -> None:
        batch = read_batch(P, y, w, labels, self.sums_to_one)
        times = self._times(t, len(batch.outcome))
        kept = batch.weights > 0.0
        if not kept.any():
            return
        batch, times = batch.where(kept), times[kept]
        self._ledger.learn_many(_entries(batch), np.ones(len(times)), batch.weights, times)
        for question, rows, scores, positive in self._asked_many(batch):
            self._of(question).learn_many(scores, positive, batch.weights[rows], times[rows])
        self._clock = max(self._clock, float(times.max()))

    def unlearn_one(self, scores: ClassScores, y: ClassLabel, w: float = 1.0, t: Time | None = None) -> None:
        read, label, weight, time = self._checked(scores, y, w, t)
        if not self.unlearns:
            raise CapabilityError(f"{self!r} cannot unlearn: {self._template!r} cannot")
        if weight == 0.0:
            return
        missed = self._ledger.missed
        self._ledger.unlearn(_entry(read, label), 1.0, weight, time)
        if self._ledger.missed > missed:  # no question is asked: an equal answer would be another observation's
            return
        done: list[tuple[Question, float, bool]] = []
        # The label that came is asked first: what was never learned is most likely known from it.
        for asked in sorted(self._asked(read, label), key=lambda asked: not asked[2]):
            question, score, positive = asked
            try:
                calibrator = self._calibrators.get(question) or self._template.clone()
                calibrator.unlearn_one(score, positive, weight, time)
            except RetractionError:
                for question, score, positive in done:
                    self._of(question).learn_one(score, positive, weight, time)
                self._ledger.learn(_entry(read, label), 1.0, weight, time)
                raise
            done.append(asked)

    def merge(self, other: Self) -> None:
        if not self.same_parameters(other):
            raise MergeError(f"cannot merge {other!r} into {self!r}: class and parameters must be equal")
        if other is self:
            raise MergeError("a calibrator cannot be merged into itself: its observations would count twice")
        if not self.merges:
            raise MergeError(f"{self!r} cannot merge: {self._template!r} cannot")
        self._ledger.merge(other._ledger)
        for question, calibrator in other._calibrators.items():
            self._of(question).merge(calibrator)
        self._clock = max(self._clock, other._clock)

    # -- predicting ----------------------------------------------------------------------------------------------

    def predict_one(self, scores: ClassScores, t: Time | None = None) -> dict[ClassLabel, float]:
        read, time = read_scores(scores, self.sums_to_one), self._as_of(t)
        answers = {}
        for question in self._strategy.questions(list(read)):
            score, calibrator = self._strategy.score(question, read), self._at(question, time)
            answers[question] = score if calibrator is None else calibrator.predict_one(score, time)
        found = dict(zip(read, decided(self._strategy.votes(list(read), answers), list(read.values())), strict=True))
        return {label: found[label] for label in scores}

    def predict_many(self, P: npt.ArrayLike, t: Time | None = None, *, labels: Sequence[ClassLabel]) -> FloatArray:
        table, time = read_table(P, labels, self.sums_to_one), self._as_of(t)
        given = dict(zip(table.labels, table.scores.T, strict=True))
        answers = {}
        for question in self._strategy.questions(table.labels):
            scores, calibrator = self._strategy.score_many(question, given), self._at(question, time)
            answers[question] = scores if calibrator is None else calibrator.predict_many(scores, time)
        votes = self._strategy.votes_many(table.labels, answers)
        return decided_many(votes, table.scores)[:, table.columns]

    def map(self) -> MulticlassMap:
        """The present map, immutable."""
        now = self._as_of(None)
        maps = {
            question: calibrator._map_at(now) if isinstance(calibrator, AdditiveLearner) else calibrator.map()
            for question, calibrator in self._calibrators.items()
            if self._at(question, now) is not None
        }
        return QuestionsMap(self._strategy, maps)

    # -- questions -----------------------------------------------------------------------------------------------

    def _asked(self, scores: dict[ClassLabel, float], y: ClassLabel) -> list[tuple[Question, float, bool]]:
        """The questions that the outcome y answers, their scores and whether yes is the answer."""
        joined, ask = with_label(scores, y), self._strategy
        return [
            (question, ask.score(question, joined), question[-1] == y)
            for question in ask.questions(list(joined))
            if ask.answered(question, y)
        ]

    def _asked_many(self, batch: Batch) -> Iterator[tuple[Question, Any, FloatArray, npt.NDArray[np.bool_]]]:
        """`_asked` for a batch: the questions, the rows that answer each, their scores and answers."""
        place = {label: column for column, label in enumerate(batch.labels)}
        given = dict(zip(batch.labels, batch.scores.T, strict=True))
        for question in self._strategy.questions(batch.labels):
            own = [place[label] for label in question]
            answered = np.array([self._strategy.answered(question, label) for label in batch.labels])
            rows = batch.present[:, own].all(axis=1) & answered[batch.outcome]
            if rows.any():
                scores = self._strategy.score_many(question, given)
                yield question, rows, scores[rows], batch.outcome[rows] == own[-1]

    def _of(self, question: Question) -> Calibrator:
        """The calibrator of a question, a new one if there was none."""
        calibrator = self._calibrators.get(question)
        if calibrator is None:
            calibrator = self._calibrators[question] = self._template.clone()
        return calibrator

    def _at(self, question: Question, time: float | None) -> Calibrator | None:
        """The calibrator that answers a question as of a time; None where nothing is held of it."""
        calibrator = self._calibrators.get(question)
        empty = isinstance(calibrator, AdditiveLearner) and calibrator.holds_nothing(time)
        return None if empty else calibrator

    # -- times ---------------------------------------------------------------------------------------------------

    def _checked(
        self, scores: ClassScores, y: ClassLabel, w: float, t: Time | None
    ) -> tuple[dict[ClassLabel, float], ClassLabel, float, float]:
        time = self._template._time(t) if isinstance(self._template, AdditiveLearner) else 0.0
        return read_scores(scores, self.sums_to_one), check_class(y), check_weight(w), time

    def _times(self, t: npt.ArrayLike | Sequence[Time] | None, size: int) -> FloatArray:
        if isinstance(self._template, AdditiveLearner):
            return self._template._times(t, size)
        return np.zeros(size)

    def _as_of(self, t: Time | None) -> float | None:
        """The moment of a prediction: not before the latest time learned; None where times are not read."""
        given = None if t is None else check_time(t)
        if not (isinstance(self._template, AdditiveLearner) and self._template.forgetting.timed):
            return given
        latest = self._clock if given is None else max(self._clock, given)
        return None if math.isinf(latest) else latest

    # -- state ---------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        self._ledger.as_of(None)
        ranked = sorted(self._calibrators, key=lambda question: [(not isinstance(x, str), x) for x in question])
        return {
            "clock": None if math.isinf(self._clock) else self._clock,
            "ledger": self._ledger.state(),
            "calibrators": [[list(question), self._calibrators[question]._state()] for question in ranked],
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self._clock = -math.inf if state["clock"] is None else float(state["clock"])
        self._ledger.restore(state["ledger"])
        for labels, learned in state["calibrators"]:
            self._of(tuple(check_class(label) for label in labels))._restore(learned)


def _entry(scores: dict[ClassLabel, float], y: ClassLabel) -> tuple[Any, ...]:
    """An observation as the ledger tells it from others, the label that came included."""
    x, place = coordinate(scores, y)
    return (*x, (place,))


def _entries(batch: Batch) -> npt.NDArray[Any]:
    """`_entry` for a batch: an object array of shape (n,)."""
    x, places = coordinates(batch)
    entries = ((*one, (place,)) for one, place in zip(x.tolist(), places.tolist(), strict=True))
    return np.fromiter(entries, dtype=object, count=len(x))


def decided(votes: list[float], scores: list[float]) -> list[float]:
    """Votes as shares; where nobody has one, the shares of the scores."""
    return shares(votes if any(votes) else scores)


def decided_many(votes: FloatArray, scores: FloatArray) -> FloatArray:
    """`decided` for rows."""
    return shares_many(np.where(votes.any(axis=1, keepdims=True), votes, scores))
