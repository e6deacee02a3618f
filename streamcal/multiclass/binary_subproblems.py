"""`BinarySubproblems`: several classes by a binary method, applied to each of several binary subproblems."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from streamcal.calibrators.additive import AdditiveCalibrator
from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.subproblems import SequentialSubproblems, SubproblemsLearner
from streamcal.multiclass.base import AdditiveMulticlassCalibrator, MulticlassMap
from streamcal.multiclass.labels import ClassLabel, shares, shares_many
from streamcal.multiclass.strategies import Strategy
from streamcal.parameters.scales import Probability
from streamcal.parameters.types import FloatArray, Time
from streamcal.statistics.keyed import Key
from streamcal.statistics.subproblems import Subproblems


class Predictors(Protocol):
    """The predictors of the subproblems: a dict of maps, or an object that makes them when they are needed."""

    def get(self, key: Key, /) -> Any:
        """The predictor of a subproblem, a map or a calibrator; None where it has no observation."""


class SubproblemsMap(MulticlassMap):
    """The predictors of the binary subproblems, and the strategy that combines them into probabilities of the labels.

    A subproblem without observations is predicted by its score.
    """

    def __init__(self, strategy: Strategy, predictors: Predictors) -> None:
        self._strategy = strategy
        self.predictors = predictors

    def at(self, labels: list[ClassLabel], scores: list[float]) -> list[float]:
        given, predicted = dict(zip(labels, scores, strict=True)), {}
        for key in self._strategy.subproblems(labels):
            score, own = self._strategy.score(key, given), self.predictors.get(key)
            predicted[key] = score if own is None else own.predict_one(score)
        votes = self._strategy.votes(labels, predicted)
        return shares(votes if any(votes) else scores)

    def at_many(self, labels: list[ClassLabel], scores: FloatArray) -> FloatArray:
        given, predicted = dict(zip(labels, scores.T, strict=True)), {}
        for key in self._strategy.subproblems(labels):
            column, own = self._strategy.score_many(key, given), self.predictors.get(key)
            predicted[key] = column if own is None else own.predict_many(column)
        votes = self._strategy.votes_many(labels, predicted)
        return shares_many(np.where(votes.any(axis=1, keepdims=True), votes, scores))


class BinarySubproblems(SubproblemsLearner[MulticlassMap], AdditiveMulticlassCalibrator):
    """A multiclass calibrator made of a binary method, for each subproblem with an observation held.

    Whole observations are held, under the forgetting policy of `method`. A subproblem without observations is
    predicted by its score.
    """

    def __init__(self, method: Calibrator, strategy: Strategy) -> None:
        self._strategy = strategy
        # The scores of one against one are shares, on a scale of probabilities: those of one label may be clamped.
        self._scale = method.scale if isinstance(method, AdditiveCalibrator) else Probability()
        self._clamps = not isinstance(self._scale, Probability)
        super().__init__(method, strategy)

    noted = "clamped"

    def tally(self) -> dict[str, int]:
        """Counts of scores clamped by the scale of any subproblem; and of observations, not subproblems, whose
        retraction was missed or that came too late.
        """
        statistic = self._memory.statistic
        if not isinstance(statistic, SequentialSubproblems):
            return super().tally()
        counts = dict.fromkeys(self._method.tally(), 0)
        for calibrator in statistic.calibrators.values():
            for name, count in calibrator.tally().items():
                counts[name] += count
        return counts

    # -- learning ------------------------------------------------------------------------------------------------

    def _learn(self, x: Any, y: float, w: float, t: float, noted: int = 0) -> None:
        super()._learn(x, y, w, t, sum(map(self._scale.clamps, x[-1])) if self._clamps else 0)

    def _learn_many(self, x: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray, noted: int = 0) -> None:
        super()._learn_many(x, y, w, t)
        if self._clamps:
            scores = [score for (_, _, own), weight in zip(x, w, strict=True) if weight > 0.0 for score in own]
            self._note(self._scale.count_clamped(np.array(scores)))

    # -- predicting ----------------------------------------------------------------------------------------------

    def _map_for_predictions(self, t: Time | None) -> MulticlassMap:
        if self.refresh_every > 1:
            return self._map_at(t)
        return SubproblemsMap(self._strategy, self._readers_at(t))

    def solve(self, statistic: Subproblems | SequentialSubproblems, start: MulticlassMap | None) -> MulticlassMap:
        return SubproblemsMap(self._strategy, self._maps_of(statistic))

    def empty_map(self) -> MulticlassMap:
        return SubproblemsMap(self._strategy, {})
