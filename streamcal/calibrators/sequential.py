"""`SequentialCalibrator`: the methods that depend on the order of their observations by nature."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy.typing as npt

from streamcal.calibrators.base import Calibrator
from streamcal.learners.sequential import SequentialLearner
from streamcal.maps.base import ScaledMap
from streamcal.parameters.columns import like
from streamcal.parameters.inputs import check_batch, check_label, check_score, check_scores, check_weight
from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray, Label, Time


class SequentialCalibrator(SequentialLearner, Calibrator):
    """A calibrator that takes one step per observation. It neither merges nor unlearns; time is not read."""

    noted = "clamped"
    bounded_memory = True
    scale: Scale

    @abstractmethod
    def _step(self, x: float, y: float, w: float) -> None:
        """One step on a checked observation of weight w > 0."""

    def learn_one(self, score: float, y: Label, w: float = 1.0, t: Time | None = None) -> None:
        s, label, weight = check_score(score), check_label(y), check_weight(w)
        x = self.scale.coordinate(s)
        if weight > 0.0:
            self._step(x, label, weight)
            if x == self.scale.lo or x == self.scale.hi:
                self._note(self.scale.clamps(s))

    def learn_many(
        self,
        scores: npt.ArrayLike,
        y: npt.ArrayLike,
        w: npt.ArrayLike | None = None,
        t: npt.ArrayLike | Sequence[Time] | None = None,
    ) -> None:
        s, labels, weights = check_batch(scores, y, w)
        kept = weights > 0.0
        x = self.scale.coordinates(s)[kept]
        for step in zip(x.tolist(), labels[kept].tolist(), weights[kept].tolist(), strict=True):
            self._step(*step)
        self._note(self.scale.count_clamped(s[kept]))

    def predict_one(self, score: float, t: Time | None = None) -> float:
        return self.map().at(self.scale.coordinate(check_score(score)))

    def predict_many(self, scores: npt.ArrayLike, t: Time | None = None) -> FloatArray:
        return like(scores, self.map().at_many(self.scale.coordinates(check_scores(scores))))

    @abstractmethod
    def map(self) -> ScaledMap: ...
