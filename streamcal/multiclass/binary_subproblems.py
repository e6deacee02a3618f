"""`BinarySubproblems`: several classes by a binary method, applied to each of several binary subproblems."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol, cast

import numpy as np

from streamcal.calibrators.additive import AdditiveCalibrator
from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.sequential import newtons_of
from streamcal.calibrators.subproblems import SequentialSubproblems, SubproblemsEngine
from streamcal.kernels.newton.newton_each import predict_each
from streamcal.multiclass.base import MulticlassCalibrator, MulticlassMap
from streamcal.multiclass.labels import ClassLabel, ClassScores, read_scores, shares, shares_many
from streamcal.multiclass.strategies import Strategy
from streamcal.parameters.scales import Probability
from streamcal.parameters.types import FloatArray, Time
from streamcal.statistics.class_subproblems import NOBODY, ClassSubproblems
from streamcal.statistics.keyed import Key
from streamcal.statistics.subproblems import Subproblems


class Predictors(Protocol):
    """The predictors of the subproblems: a dict of maps, or an object that makes them when they are needed."""

    def get(self, key: Key, /) -> Any:
        """Return the predictor of a subproblem, a map or a calibrator; None if the subproblem has no observation."""


class UpToHighest:
    """A predictor of a late label, which reads scores no higher than the highest of the label so far.

    Above it a method would extrapolate from the score 0 of observations that did not name the label: a sigmoid through
    a share of 0.0005 at 0 may be at 0.8 for a score of 0.001, and the upper end of a Venn-Abers interval is 1.
    """

    def __init__(self, own: Any, highest: float) -> None:
        self._own = own
        self._highest = highest
        self.scale = own.scale

    def predict_one(self, score: float) -> float:
        return float(self._own.at(min(self.scale.coordinate(score), self._highest)))

    def predict_many(self, scores: FloatArray) -> FloatArray:
        return self._own.at_many(np.minimum(self.scale.coordinates(scores), self._highest))

    def interval_at(self, x: float) -> tuple[float, float]:
        """Return the multiprobability (p₀, p₁)."""
        return self._own.interval_at(min(x, self._highest))


class Limited:
    """Predictors, of which those of late labels read scores no higher than the highest so far."""

    def __init__(self, predictors: Predictors, statistic: ClassSubproblems) -> None:
        self._predictors = predictors
        self._statistic = statistic

    def get(self, key: Key, /) -> Any:
        """Return the predictor of a subproblem; None if the subproblem has no observation."""
        own = self._predictors.get(key)
        return own if own is None else limited(own, key, self._statistic)


def limited(own: Any, key: Key, statistic: ClassSubproblems) -> Any:
    """Return the predictor of a subproblem, limited if a label is late."""
    highest = getattr(statistic.part(key), "highest", math.nan)  # sums of a basis have none, and need none
    late = highest == highest and statistic.is_late(cast(tuple[Any, ...], key))
    return UpToHighest(own, highest) if late else own


class SubproblemsMap(MulticlassMap):
    """The predictors of the binary subproblems, and the strategy that combines them into probabilities of the labels.

    A subproblem without observations is predicted by its score.
    """

    def __init__(self, strategy: Strategy, predictors: Predictors) -> None:
        self._strategy = strategy
        self.predictors = predictors
        # The subproblems of the last prediction, their predictors and the kernels of these, if all of them have one:
        # it stays the same object.
        self._last: tuple[Any, list[Any], list[Any] | None] = None, [], None

    def at(self, labels: list[ClassLabel], scores: list[float]) -> list[float]:
        each = self._strategy.scores(labels, scores)
        owns, newtons = self._predictors_of(self._strategy.subproblems(labels))
        if newtons is not None:
            predicted = predict_each(newtons, list(each))
        else:
            pairs = zip(each, owns, strict=True)
            predicted = [score if own is None else own.predict_one(score) for score, own in pairs]
        votes = self._strategy.votes(labels, predicted)
        return shares(votes if any(votes) else scores)

    def _predictors_of(self, keys: Sequence[Key]) -> tuple[list[Any], list[Any] | None]:
        """Return the predictors of these subproblems, and their kernels if those can predict in one call."""
        known, predictors, newtons = self._last
        if keys is not known:
            predictors, newtons = list(map(self.predictors.get, keys)), None
            if None not in predictors:
                newtons = newtons_of(predictors)
                self._last = keys, predictors, newtons
        return predictors, newtons

    def at_many(self, labels: list[ClassLabel], scores: FloatArray) -> FloatArray:
        by_label, predicted = dict(zip(labels, scores.T, strict=True)), {}
        for key in self._strategy.subproblems(labels):
            column, own = self._strategy.score_many(key, by_label), self.predictors.get(key)
            predicted[key] = column if own is None else own.predict_many(column)
        votes = self._strategy.votes_many(labels, predicted)
        return shares_many(np.where(votes.any(axis=1, keepdims=True), votes, scores))


class BinarySubproblems(MulticlassCalibrator):
    """A multiclass calibrator made of a binary method, for each subproblem with an observation held.

    Whole observations are held, under the forgetting policy of `method`. A subproblem without observations is
    predicted by its score. Where `method` is additive, a label that an observation does not name has the score 0 in
    it, also in observations learned before the label was known (see `ClassSubproblems`).
    """

    def __init__(self, method: Calibrator, strategy: Strategy) -> None:
        self._strategy = strategy
        # The scores of one against one are shares, on a scale of probabilities: those of one label may be clamped.
        self._scale = method.scale if isinstance(method, AdditiveCalibrator) else Probability()
        # The calibrators that predictions of a sequential method are read from, and the map that reads them.
        self._reading: tuple[Any, SubproblemsMap] | None = None
        self._clamps = not isinstance(self._scale, Probability)
        self._engine = SubproblemsEngine(method, strategy, ClassSubproblems)
        self.forgetting, self.refresh_every = self._engine.forgetting, self._engine.refresh_every

    noted = "clamped"

    def tally(self) -> dict[str, int]:
        """Count the scores clamped by the scale of any subproblem, and the missed retractions.

        The counts of missed retractions, and of those that came too late, are of observations, not of subproblems.
        """
        statistic = self._engine.memory.statistic
        if not isinstance(statistic, SequentialSubproblems):
            return super().tally()
        counts = dict.fromkeys(self._engine.binary.tally(), 0)
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

    # -- late labels ---------------------------------------------------------------------------------------------

    @property
    def _judged(self) -> bool:
        return bool(self._engine.binary._judged)

    def _issue_keyed(self, x: ClassScores, keys: Any, t: Time | None, w: float) -> tuple[Any, list[float] | None]:
        p, statistic = self.predict_one(x, t), self._engine.memory.statistic
        if not isinstance(statistic, SequentialSubproblems):
            return p, None
        read = read_scores(x, self.sums_to_one)
        labels = list(read)
        scores = self._strategy.scores(labels, list(read.values()))
        return p, statistic.issue(self._strategy.subproblems(labels), scores)

    def _learn_keyed(
        self, x: ClassScores, keys: Any, y: ClassLabel, record: Sequence[float] | None, w: float, t: Time | None
    ) -> None:
        if not record:
            self.learn_one(x, y, w, t)
            return
        observation, place, weight, _ = self._checked(x, y, w, t)
        named = self._strategy.subproblems(list(read_scores(x, self.sums_to_one)))
        size = len(record) // len(named)
        records = {key: record[size * k : size * (k + 1)] for k, key in enumerate(named)}
        self._engine.learn_issued(observation, place, weight, records)

    # -- predicting ----------------------------------------------------------------------------------------------

    def _map_for_predictions(self, t: Time | None) -> MulticlassMap:
        if self.refresh_every > 1:
            return super()._map_for_predictions(t)
        if self._engine.additive is None:
            if t is not None:
                self._read_time(t)
            return self._sequential_map()
        return SubproblemsMap(self._strategy, self._predictors_at(t))

    def _sequential_map(self) -> MulticlassMap:
        """Return a map that reads the calibrators themselves; it is replaced only when a state was loaded."""
        statistic: SequentialSubproblems = self._engine.memory.statistic
        if self._reading is None or self._reading[0] is not statistic.calibrators:
            self._reading = statistic.calibrators, SubproblemsMap(self._strategy, statistic)
        return self._reading[1]

    def _predictors_at(self, t: Time | None) -> Predictors:
        """Return the predictors of the subproblems as of `t`, valid until the next change."""
        statistic = self._present(t)
        readers = self._engine.readers_of(statistic)
        return Limited(readers, statistic) if isinstance(statistic, ClassSubproblems) else readers

    def map(self) -> MulticlassMap:
        return self._map_at(None)

    def solve(self, statistic: Subproblems | SequentialSubproblems, start: MulticlassMap | None) -> MulticlassMap:
        """Fit the map to a non-empty statistic: see `Additive`."""
        maps = self._engine.maps_of(statistic)
        if isinstance(statistic, ClassSubproblems):
            named = {key: own for key, own in maps.items() if NOBODY not in cast(tuple[Any, ...], key)}
            maps = {key: limited(own, key, statistic) for key, own in named.items()}
        return SubproblemsMap(self._strategy, maps)

    def empty_map(self) -> MulticlassMap:
        """Return the map of an empty statistic."""
        return SubproblemsMap(self._strategy, {})
