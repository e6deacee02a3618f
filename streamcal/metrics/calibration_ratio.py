"""The calibration ratio: predicted positives per observed positive."""

from __future__ import annotations

import math
from typing import Self

from streamcal.metrics.base import Metric


class CalibrationRatio(Metric):
    """Predicted positives per observed positive: Σ w p / Σ w y, in [0, ∞].

    1 is best; above 1 the mean probability is too high. In advertising: predicted clicks / clicks. It measures
    calibration in the large only: predicting the base rate for everybody has ratio 1.

    Notes
    -----
    Cost: `update`, `revert`, `merge` and `value` O(1); two sums and a count in memory.

    Examples
    --------
    >>> ratio = CalibrationRatio()
    >>> ratio.update_many([0.5, 0.25, 0.75], [True, False, False])
    >>> ratio.value
    1.5
    """

    @property
    def value(self) -> float | None:
        """The ratio; infinite while no label is positive, `None` while the predicted positives are 0 as well."""
        if self._positives:
            return self._predicted / self._positive if self._positive > 0.0 else None
        return math.inf if self._predicted > 0.0 else None

    def _clear(self) -> None:
        self._predicted = 0.0
        self._positive = 0.0
        # An exact count beside the weight: after reverts a float sum may keep a rounding error that is not 0.
        self._positives = 0

    def _add(self, p: float, y: float, w: float, sign: int) -> None:
        self._predicted += sign * w * p
        if y:
            self._positive += sign * w
            self._positives += sign

    def _absorb(self, other: Self) -> None:
        self._predicted += other._predicted
        self._positive += other._positive
        self._positives += other._positives
