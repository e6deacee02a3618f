"""`Applying`: predictions of a saved calibrator, which learns nothing."""

from __future__ import annotations

from itertools import repeat
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from streamcal.errors import StreamcalError
from streamcal.parameters.types import FloatArray, Label, Time
from streamcal.stream.prequential import Measures, Prediction, predictor


class Applying(Measures):
    """Predict rows with a calibrator that stays as it is; nothing is measured, since there are no labels.

    One that reads keys is given `keys`.

    Examples
    --------
    >>> from streamcal import OnlinePlatt
    >>> round(Applying(OnlinePlatt()).step(0.8).calibrated, 12)
    0.8
    """

    def __init__(self, calibrator: Any) -> None:
        super().__init__(calibrator)
        self.calibrator = calibrator
        self._keyed = bool(calibrator.fields)

    def step(
        self, score: float, y: Label = False, w: float = 1.0, t: Time | None = None, keys: Any = None
    ) -> Prediction:
        """Predict one row; label and weight are not read."""
        if self._keyed:
            return Prediction(self.calibrator.predict_one(score, t, keys=keys or {}), None)
        return predictor(self.calibrator)(score, t)

    def step_many(
        self,
        scores: FloatArray,
        y: NDArray[np.bool_] | None = None,
        w: FloatArray | None = None,
        t: FloatArray | None = None,
        keys: Any = None,
    ) -> FloatArray:
        """Predict rows, shape (k, 1), or (k, 3) with intervals; k < n where row k cannot be predicted."""
        if t is None:
            return self._at_once(scores, keys or {})
        levels = [dict(zip(keys, row, strict=True)) for row in zip(*keys.values(), strict=True)] if keys else repeat({})
        predictions: list[tuple[float, ...]] = []
        try:
            for score, time, row in zip(scores.tolist(), t.tolist(), levels, strict=False):
                prediction = self.step(score, t=time, keys=row)
                predictions.append((prediction.calibrated, *(prediction.interval or ())))
        except StreamcalError:  # `step` says why
            pass
        return np.array(predictions, dtype=np.float64).reshape(-1, len(self.added))

    def _at_once(self, scores: FloatArray, keys: Any) -> FloatArray:
        calibrator = cast(Any, self.calibrator)
        try:
            if calibrator.has_interval:
                ends = calibrator.predict_interval_many(scores)
                return np.column_stack([calibrator.predict_many(scores), *ends])
            return np.asarray(calibrator.predict_many(scores, keys=calibrator._own_keys(keys)))[:, np.newaxis]
        except StreamcalError:
            return np.empty((0, len(self.added)))
