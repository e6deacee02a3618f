"""The calibration ratio: predicted positives per observed positive."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from streamcal.metrics.base import Metric
from streamcal.metrics.cells import Forecasts, dot
from streamcal.metrics.label_weights import weights_by_label
from streamcal.metrics.reliability import wilson_interval
from streamcal.parameters.numbers import real_number


class CalibrationRatio(Metric):
    """Predicted positives per observed positive: Σ w p / Σ w y, in [0, ∞].

    1 is best; above 1 the mean probability is too high. In advertising: predicted clicks / clicks. It measures
    calibration in the large only: predicting the base rate for everybody has ratio 1.

    Notes
    -----
    Cost: `update`, `revert`, `merge`, `get` and `interval` O(1); six sums and a count in memory.

    Examples
    --------
    >>> ratio = CalibrationRatio()
    >>> ratio.update_many([True, False, False], [0.5, 0.25, 0.75])
    >>> ratio.get()
    1.5
    >>> tuple(round(end, 1) for end in ratio.interval())
    (0.6, 8.1)
    """

    #: Predicted and observed positives, Σ w², Σ w² y, Σ w² p y and Σ w² p², and an exact count of the positives beside
    #: their weight: after reverts a float sum may keep a rounding error that is not 0.
    _sums = ("_predicted", "_positive", "_squares", "_of_positives", "_of_both", "_of_predicted", "_positives")
    _predicted, _positive, _squares, _of_positives, _of_both, _of_predicted = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    _positives = 0

    def get(self) -> float | None:
        """Return the ratio: infinite without a positive label, `None` if the predicted positives are 0 as well."""
        if self._positives:
            return self._predicted / self._positive if self._positive > 0.0 else None
        return math.inf if self._predicted > 0.0 else None

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return an interval for the ratio of the predicted positives to the *expected* ones, given the probabilities.

        The predicted positives are known, and the share of positive labels has Wilson's interval, as in
        `ReliabilityBin`: the ends are Σ w p / Σ w over its ends. The effective number of observations is (Σ w)²/Σ w²,
        unless weights depend on the label, as where negatives are sampled (`importance_weight`). Then it is the number
        with the variance Σ w² (y − p/R)² of Σ w y, where R is the ratio.

        Parameters
        ----------
        confidence : float
            Above 0 and below 1.

        Returns
        -------
        tuple of float
            Lower and upper end, in [0, ∞]; (0, ∞) while nothing is held.

        Notes
        -----
        It assumes that labels are independent given their probabilities. They may have different chances: their sum
        then varies less than the binomial one of Wilson's interval. Labels that come in bursts vary more. It holds for
        a number of observations fixed beforehand, and not, as `LogLossDifference` does, at all times together.
        """
        confidence = real_number(confidence, "confidence", "a probability, such as 0.95", above=0.0, below=1.0)
        if self._weight <= 0.0 or self._squares <= 0.0:
            return 0.0, math.inf
        share = min(max(self._positive / self._weight, 0.0), 1.0) if self._positives else 0.0
        ends = wilson_interval(share, self._effective(share), NormalDist().inv_cdf((1.0 + confidence) / 2.0))
        lower, upper = (self._predicted / self._weight / end if end > 0.0 else math.inf for end in reversed(ends))
        return lower, upper

    def _effective(self, share: float) -> float:
        """Return the effective number of observations of the share of the positives."""
        of_negatives = self._squares - self._of_positives
        by_label = weights_by_label(self._positive, self._weight - self._positive, self._of_positives, of_negatives)
        if by_label[0] != by_label[1] and self._predicted > 0.0:
            scale = self._positive / self._predicted
            variance = self._of_positives - 2.0 * scale * self._of_both + scale * scale * self._of_predicted
            if variance > 0.0:
                return max(self._weight * self._weight * share * (1.0 - share) / variance, 1.0)
        return min(max(self._weight * self._weight / self._squares, 1.0), self._count)

    def _add(self, p: float, y: float, w: float, sign: int) -> None:
        self._predicted += sign * w * p
        squared = sign * w * w
        self._squares += squared
        self._of_predicted += squared * p * p
        if y:
            self._positive += sign * w
            self._of_positives += squared
            self._of_both += squared * p
            self._positives += sign

    def _add_many(self, forecasts: Forecasts) -> None:
        weights, positive = forecasts.w, forecasts.y > 0.0
        squared = weights * weights
        by_predicted = squared * forecasts.p
        self._predicted += float(np.sum(weights * forecasts.p))
        self._squares += float(np.sum(squared))
        self._of_predicted += dot(by_predicted, forecasts.p)
        self._positive += float(np.sum(weights[positive]))
        self._of_positives += float(np.sum(squared[positive]))
        self._of_both += float(np.sum(by_predicted[positive]))
        self._positives += int(np.count_nonzero(positive))
