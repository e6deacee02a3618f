"""`SequentialCalibrator`: the methods that depend on the order of their observations by nature."""

from __future__ import annotations

from abc import abstractmethod

import numpy.typing as npt

from streamcal.calibrators.base import Calibrator
from streamcal.learners.sequential import SequentialLearner
from streamcal.maps.base import ScaledMap
from streamcal.parameters.columns import like
from streamcal.parameters.inputs import check_score, check_scores
from streamcal.parameters.types import FloatArray, Time


class SequentialCalibrator(SequentialLearner, Calibrator):
    """A calibrator that takes one step per observation. It neither merges nor unlearns; time is not read."""

    bounded_memory = True

    def predict_one(self, score: float, t: Time | None = None) -> float:
        return self.map().at(self.scale.coordinate(check_score(score)))

    def predict_many(self, scores: npt.ArrayLike, t: Time | None = None) -> FloatArray:
        return like(scores, self.map().at_many(self.scale.coordinates(check_scores(scores))))

    @abstractmethod
    def map(self) -> ScaledMap: ...
