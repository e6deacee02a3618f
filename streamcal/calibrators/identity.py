"""`Identity`: the score itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from streamcal.calibrators.additive import AdditiveCalibrator
from streamcal.maps.base import IdentityMap, ScaledMap
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.scales import Probability, Scale
from streamcal.parameters.types import FloatArray, Times
from streamcal.statistics.totals import Totals


class Identity(AdditiveCalibrator[Totals]):
    """The score itself, read as a probability: the baseline for every other method.

    Learning counts observations and changes no prediction.

    Notes
    -----
    Cost: O(1) per observation and in memory. Only sums of weights and labels and their number are kept. They decide
    whether an observation can be unlearned; a wrong score is not noticed.

    Examples
    --------
    >>> cal = Identity()
    >>> cal.learn_one(0.2, True)
    >>> cal.predict_one(0.2), cal.n
    (0.2, 1.0)
    """

    name = "identity"
    summary = "the score itself"
    default_resolution = None
    by_ratios = True

    def __init__(self, *, scale: Scale = Probability(), forgetting: Forgetting = Forever()) -> None:
        super().__init__(scale=scale, forgetting=forgetting)

    def new_statistic(self) -> Totals:
        return Totals()

    def _streamed(self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None, t: Times | None) -> FloatArray:
        x, labels, weights, times, clamped = self._checked_many(scores, y, w, t)
        if isinstance(self.forgetting, Forever):
            self._learn_many(x, labels, weights, times, clamped)
        else:  # a batch would sum rows that a loop has already dropped
            self._require_times(times[weights > 0.0])
            for row in zip(x.tolist(), labels.tolist(), weights.tolist(), times.tolist(), strict=True):
                self._learn(*row)
            self._note(clamped)
        return np.array(self.scale.probabilities(x))

    def solve(self, statistic: Totals, start: ScaledMap | None) -> ScaledMap:
        return IdentityMap(self.scale)
