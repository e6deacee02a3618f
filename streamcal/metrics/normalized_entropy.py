"""Log loss relative to that of the base rate."""

from __future__ import annotations

import math

import numpy as np

from streamcal.metrics.cells import Forecasts
from streamcal.metrics.log_loss import LogLoss


class NormalizedEntropy(LogLoss):
    """Log loss divided by the log loss of always predicting the share f of positives: value = Σ w ℓ / (Σ w · H(f)).

    Lower is better: 1 is the loss of a forecaster who knows the share and nothing else, and 1 − value is the relative
    information gain. H(f) = −f log f − (1 − f) log(1 − f) is small for rare events, so that unlike the log loss it can
    be compared between streams of different shares. ℓ is the loss of `LogLoss`, with its `clip`.

    Parameters
    ----------
    clip : float
        Probability above 0 and below 1, as in `LogLoss`.

    Notes
    -----
    Cost: `update`, `revert`, `merge` and `get` O(1); two sums and two counts in memory.

    References
    ----------
    X. He and others, Practical lessons from predicting clicks on ads at Facebook, ADKDD 2014, §3.

    Examples
    --------
    >>> entropy = NormalizedEntropy()
    >>> entropy.update_many([True, False, False, False], [0.25] * 4)
    >>> entropy.get()  # the share itself
    1.0
    """

    _sums = (*LogLoss._sums, "_positive", "_positives")
    _positive, _positives = 0.0, 0

    def get(self) -> float | None:
        """Return the normalised entropy, ≥ 0; `None` before there are a positive and a negative label."""
        loss = super().get()
        if loss is None or not 0 < self._positives < self._count:
            return None
        share = self._positive / self._weight
        # Reverted float weights may leave a share outside (0, 1) by a rounding error.
        return loss / binary_entropy(share) if 0.0 < share < 1.0 else None

    def _add(self, p: float, y: float, w: float, sign: int) -> None:
        super()._add(p, y, w, sign)
        if y:
            self._positives += sign
            self._positive = self._positive + sign * w if self._positives else 0.0

    def _add_many(self, forecasts: Forecasts) -> None:
        super()._add_many(forecasts)
        self._positives += int(np.count_nonzero(forecasts.y))
        self._positive += float(np.sum(forecasts.w * forecasts.y))


def binary_entropy(share: float) -> float:
    """Return −f log f − (1 − f) log(1 − f) of a share above 0 and below 1, in nats.

    >>> round(binary_entropy(0.5), 6)
    0.693147
    """
    return -share * math.log(share) - (1.0 - share) * math.log1p(-share)
