"""`SequentialCalibrator`: the methods that depend on the order of their observations by nature."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamcal.calibrators.base import Calibrator
from streamcal.learners.sequential import SequentialLearner
from streamcal.maps.base import ScaledMap
from streamcal.parameters.columns import like
from streamcal.parameters.inputs import check_batch, check_score, check_scores, none_is_zero
from streamcal.parameters.types import FloatArray, Time


class SequentialCalibrator(SequentialLearner, Calibrator):
    """A calibrator that takes one step per observation. It neither merges nor unlearns; only `Auto` reads the time."""

    bounded_memory = True

    def predict_one(self, score: float, t: Time | None = None) -> float:
        """Return the probability of a positive label at `score`, as of time `t`; the state does not change."""
        return self._predict(self.scale.coordinate(check_score(score)))

    def predict_many(self, scores: npt.ArrayLike, t: Time | None = None) -> FloatArray:
        """Return the probabilities at scores of shape (n,), all as of time `t`; the state does not change."""
        return like(scores, self.map().at_many(self.scale.coordinates(check_scores(scores))))

    def learn_many(
        self,
        scores: npt.ArrayLike,
        y: npt.ArrayLike,
        w: npt.ArrayLike | None = None,
        t: npt.ArrayLike | Sequence[Time] | None = None,
    ) -> None:
        """Learn n observations: the same state as a loop of `learn_one`; on an error nothing is learned."""
        self._run(scores, y, w, predicts=False)

    def _streamed(
        self,
        scores: npt.ArrayLike,
        y: npt.ArrayLike,
        w: npt.ArrayLike | None,
        t: npt.ArrayLike | Sequence[Time] | None,
    ) -> FloatArray:
        return self._run(scores, y, w, predicts=True)

    def _run(self, scores: npt.ArrayLike, y: npt.ArrayLike, w: npt.ArrayLike | None, predicts: bool) -> FloatArray:
        """Check all rows and learn them in order; the predictions before each, or an empty array."""
        s, labels, weights = check_batch(scores, y, w)
        self.scale.require(s)
        predictions = np.empty(len(s) if predicts else 0)
        self._stream(s, labels, weights, predictions)
        self._note(self.scale.count_clamped(s if none_is_zero(weights) else s[weights > 0.0]))
        return predictions

    def _stream(self, scores: FloatArray, y: FloatArray, w: FloatArray, predictions: FloatArray) -> None:
        """Learn checked observations in order, and write what is predicted before each to `predictions`, unless empty.

        A method with a kernel has the kernel's own loop in its place.
        """
        x = self.scale.coordinates(scores)
        for i, row in enumerate(zip(x.tolist(), y.tolist(), w.tolist(), strict=True)):
            if len(predictions):
                predictions[i] = self._predict(row[0])
            if row[2] > 0.0:
                self._step(*row)

    def _predict(self, x: float) -> float:
        """Return the probability at a coordinate."""
        return self.map().at(x)

    @abstractmethod
    def map(self) -> ScaledMap:
        """Return the current map, which is immutable."""


def newtons_of(predictors: Sequence[Any]) -> list[Any] | None:
    """Return the kernels of calibrators for `predict_each` and `learn_each`; None if any calibrator has no kernel."""
    found = [getattr(one, "newton", None) for one in predictors]
    return None if None in found else found
