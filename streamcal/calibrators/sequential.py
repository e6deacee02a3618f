"""`SequentialCalibrator`: the methods that depend on the order of their observations by nature."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
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
        return self._predict(self.scale.coordinate(check_score(score)))

    def predict_many(self, scores: npt.ArrayLike, t: Time | None = None) -> FloatArray:
        return like(scores, self.map().at_many(self.scale.coordinates(check_scores(scores))))

    def _streamed(
        self,
        scores: npt.ArrayLike,
        y: npt.ArrayLike,
        w: npt.ArrayLike | None,
        t: npt.ArrayLike | Sequence[Time] | None,
    ) -> FloatArray:
        x, labels, weights, _, clamped = self._checked_many(scores, y, w, t)
        predictions = np.empty(len(x))
        self._stream(x, labels, weights, predictions)
        self._note(clamped)
        return predictions

    def _learn_many(self, x: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray, noted: int = 0) -> None:
        self._stream(x, y, w, np.empty(0))
        self._note(noted)

    def _stream(self, x: FloatArray, y: FloatArray, w: FloatArray, predictions: FloatArray) -> None:
        """Learn checked observations in order, and write what is predicted before each to `predictions`, unless empty.

        A method with a kernel has the kernel's own loop in its place.
        """
        for i, row in enumerate(zip(x.tolist(), y.tolist(), w.tolist(), strict=True)):
            if len(predictions):
                predictions[i] = self._predict(row[0])
            if row[2] > 0.0:
                self._step(*row)

    def _predict(self, x: float) -> float:
        """The probability at a coordinate."""
        return self.map().at(x)

    @abstractmethod
    def map(self) -> ScaledMap: ...
