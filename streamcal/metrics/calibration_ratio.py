"""The calibration ratio: clicks predicted per click that came."""

from __future__ import annotations

import math
from typing import Self

from streamcal.metrics.base import Metric


class CalibrationRatio(Metric):
    """Predicted positives per positive: Σ w p / Σ w y. Above 1 the probabilities are too high on the whole.

    The number advertisers watch (predicted clicks / clicks). It says nothing about single probabilities:
    the base rate given to everybody has ratio 1.

    Examples
    --------
    >>> ratio = CalibrationRatio()
    >>> ratio.update_many([0.5, 0.25, 0.75], [True, False, False])
    >>> ratio.value
    1.5
    """

    @property
    def value(self) -> float | None:
        """The ratio; infinite without a positive label, `None` if only zeros were predicted by then."""
        if self._positives:
            return self._predicted / self._positive if self._positive > 0.0 else None
        return math.inf if self._predicted > 0.0 else None

    def _clear(self) -> None:
        self._predicted = 0.0
        self._positive = 0.0
        # Counted beside the weight: a sum of floats reverted to nothing may keep a remainder that looks
        # like a label.
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
