"""`BinaryQuestions`: many classes by several binary calibrators, one for each question."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from streamcal.base import Calibrator, FloatArray, Time
from streamcal.calibrators.additive import AdditiveCalibrator
from streamcal.inputs import check_time, check_weight
from streamcal.multiclass.base import MulticlassCalibrator, MulticlassMap
from streamcal.multiclass.labels import (
    ClassLabel,
    ClassScores,
    check_class,
    read_batch,
    read_scores,
    read_table,
    shares,
    shares_many,
)
from streamcal.multiclass.observations import coordinate, coordinates
from streamcal.multiclass.strategies import Strategy
from streamcal.questions import QuestionsLearner
from streamcal.scales import Probability


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


class BinaryQuestions(QuestionsLearner[MulticlassMap], MulticlassCalibrator):
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

    def learn_one(self, scores: ClassScores, y: ClassLabel, w: float = 1.0, t: Time | None = None) -> None:
        x, place, weight, time = self._checked(scores, y, w, t)
        self._learn(x, place, weight, time)
        if self._clamps and weight > 0.0:
            self._clamped += sum(map(self._scale.clamps, x[-1]))

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
        self._learn_many(*coordinates(batch), batch.weights, times)
        if self._clamps:
            self._clamped += self._scale.count_clamped(batch.scores[batch.present & (batch.weights > 0.0)[:, None]])

    def unlearn_one(self, scores: ClassScores, y: ClassLabel, w: float = 1.0, t: Time | None = None) -> None:
        self._unlearn(*self._checked(scores, y, w, t))

    def merge(self, other: Self) -> None:
        super().merge(other)
        self._clamped += other._clamped

    def _checked(self, scores: ClassScores, y: ClassLabel, w: float, t: Time | None) -> tuple[Any, float, float, float]:
        read, label = read_scores(scores, self.sums_to_one), check_class(y)
        return (*coordinate(read, label), check_weight(w), self._time(t))

    # -- predicting ----------------------------------------------------------------------------------------------

    def predict_one(self, scores: ClassScores, t: Time | None = None) -> dict[ClassLabel, float]:
        read = read_scores(scores, self.sums_to_one)
        found = dict(zip(read, self._present(t).at(list(read), list(read.values())), strict=True))
        return {label: found[label] for label in scores}

    def predict_many(self, P: npt.ArrayLike, t: Time | None = None, *, labels: Sequence[ClassLabel]) -> FloatArray:
        table = read_table(P, labels, self.sums_to_one)
        return self._present(t).at_many(table.labels, table.scores)[:, table.columns]

    def _present(self, t: Time | None) -> MulticlassMap:
        """What predicts as of `t`: the calibrators themselves, of which some need no map to answer."""
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
