"""`BinaryQuestions`: many classes by several binary calibrators, one for each question."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from streamcal.calibrators.additive import AdditiveCalibrator
from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.questions import QuestionsLearner
from streamcal.multiclass.base import AdditiveMulticlassCalibrator, MulticlassMap
from streamcal.multiclass.labels import ClassLabel, shares, shares_many
from streamcal.multiclass.strategies import Strategy
from streamcal.parameters.inputs import check_time
from streamcal.parameters.scales import Probability
from streamcal.parameters.types import FloatArray, Time


class QuestionsMap(MulticlassMap):
    """The maps of the questions, or their calibrators, and the strategy that makes probabilities of their answers.

    A question without a map is answered by the score.
    """

    def __init__(self, strategy: Strategy, maps: Mapping[Any, Any]) -> None:
        self._strategy = strategy
        self._maps = maps

    def at(self, labels: list[ClassLabel], scores: list[float]) -> list[float]:
        given, answers = dict(zip(labels, scores, strict=True)), {}
        for question in self._strategy.questions(labels):
            score, own = self._strategy.score(question, given), self._maps.get(question)
            answers[question] = score if own is None else own.predict_one(score)
        votes = self._strategy.votes(labels, answers)
        return shares(votes if any(votes) else scores)

    def at_many(self, labels: list[ClassLabel], scores: FloatArray) -> FloatArray:
        given, answers = dict(zip(labels, scores.T, strict=True)), {}
        for question in self._strategy.questions(labels):
            column, own = self._strategy.score_many(question, given), self._maps.get(question)
            answers[question] = column if own is None else own.predict_many(column)
        votes = self._strategy.votes_many(labels, answers)
        return shares_many(np.where(votes.any(axis=1, keepdims=True), votes, scores))


class BinaryQuestions(QuestionsLearner[MulticlassMap], AdditiveMulticlassCalibrator):
    """A multiclass calibrator made of binary ones: one like `template` for each question that what is held answers.

    What is held are whole observations, under the policy of `template`. A question that nothing is held of is answered
    by the score.
    """

    def __init__(self, template: Calibrator, strategy: Strategy) -> None:
        self._strategy = strategy
        self._clamped = 0
        # One against one asks with shares, on a scale of probabilities: what is clamped are scores of one label.
        self._scale = template.scale if isinstance(template, AdditiveCalibrator) else Probability()
        self._clamps = not isinstance(self._scale, Probability)
        super().__init__(template, strategy)

    def tally(self) -> dict[str, int]:
        """Counts of what was quietly handled: scores clamped by the scale of any question; and observations, not
        questions, whose retraction was missed or that came too late."""
        if self._questions.adds:
            return {"clamped": self._clamped, **super().tally()}
        counts = dict.fromkeys(self._method.tally(), 0)
        for calibrator in self._questions.as_of(1.0).values():
            for name, count in calibrator.tally().items():
                counts[name] += count
        return counts

    # -- learning ------------------------------------------------------------------------------------------------

    def _learn(self, x: Any, y: float, w: float, t: float) -> None:
        super()._learn(x, y, w, t)
        if self._clamps and w > 0.0:
            self._clamped += sum(map(self._scale.clamps, x[-1]))

    def _learn_many(self, x: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray) -> None:
        super()._learn_many(x, y, w, t)
        if self._clamps:
            scores = [score for (_, _, own), weight in zip(x, w, strict=True) if weight > 0.0 for score in own]
            self._clamped += self._scale.count_clamped(np.array(scores))

    def merge(self, other: Self) -> None:
        super().merge(other)
        self._clamped += other._clamped

    # -- predicting ----------------------------------------------------------------------------------------------

    def _present(self, t: Time | None) -> MulticlassMap:
        # The calibrators themselves: some need no map to answer.
        if self.refresh_every > 1:
            return self._map_at(t)
        unit = self._memory.as_of(None if t is None else check_time(t))
        return QuestionsMap(self._strategy, self._questions.as_of(unit))

    def _solve(self, unit: float) -> MulticlassMap:
        maps = {question: calibrator.map() for question, calibrator in self._questions.as_of(unit).items()}
        return QuestionsMap(self._strategy, maps)

    def _empty_map(self) -> MulticlassMap:
        return QuestionsMap(self._strategy, {})

    # -- state ---------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        return {"clamped": self._clamped, **super()._state()}

    def _restore(self, state: dict[str, Any]) -> None:
        self._clamped = int(state["clamped"])
        super()._restore(state)
