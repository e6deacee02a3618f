"""Log loss, the logarithmic scoring rule."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from streamcal.metrics.base import Metric
from streamcal.metrics.cells import Forecasts
from streamcal.parameters.numbers import real_number

#: Lower bound of the probability of the observed label. A label with predicted probability 0 has an infinite loss;
#: clipped, it has a loss that this constant determines and not the model: 13.8 nats. Typical click and conversion
#: probabilities are far above 1e-6 and not affected.
LOG_LOSS_CLIP = 1e-6


class LogLoss(Metric):
    """Mean logarithmic loss in nats: Σ w ℓ / Σ w with ℓ = −log max(q, clip), q = p if y = 1 and 1 − p if y = 0.

    Lower is better. A loss lies between 0 and −log(clip). `infinite` counts the observations whose loss would be
    infinite without the clip: p = 0 before a positive label, p = 1 before a negative one. Where it is not 0, the value
    depends on `clip`.

    Parameters
    ----------
    clip : float
        Probability above 0 and below 1, default `LOG_LOSS_CLIP`. scikit-learn clips at 2.2e-16 and River at 1e-15; give
        these to compare.

    Notes
    -----
    Cost: `update`, `revert`, `merge` and `get` O(1); one sum and a count in memory.

    References
    ----------
    I. J. Good, Rational decisions, Journal of the Royal Statistical Society B 14, 1952.

    Examples
    --------
    >>> loss = LogLoss()
    >>> loss.update(True, 0.5)
    >>> loss.update(True, 0.0)
    >>> round(loss.get(), 3), loss.infinite
    (7.254, 1)
    """

    _sums: ClassVar[tuple[str, ...]] = ("_sum", "_infinite")
    _infinite = 0

    def __init__(self, clip: float = LOG_LOSS_CLIP) -> None:
        allowed = "a probability above 0 and below 1, such as 1e-6"
        self.clip = real_number(clip, "clip", allowed, above=0.0, below=1.0)
        self._cap = -math.log(self.clip)
        super().__init__()

    def get(self) -> float | None:
        """Return the mean loss in nats; `None` before the first observation."""
        return self._mean_term()

    @property
    def infinite(self) -> int:
        """Number of observations with p = 0 and a positive label, or p = 1 and a negative one."""
        return self._infinite

    def _add(self, p: float, y: float, w: float, sign: int) -> None:
        if p == 1.0 - y:
            self._infinite += sign
        self._sum += sign * w * capped_log_loss(p, y, self._cap)

    def _add_many(self, forecasts: Forecasts) -> None:
        losses = np.where(forecasts.y > 0.0, *forecasts.log_losses)
        self._infinite += int(np.count_nonzero(np.isinf(losses)))
        self._sum += float(np.sum(forecasts.w * np.minimum(losses, self._cap)))


def capped_log_loss(p: float, y: float, cap: float) -> float:
    """Return the loss of one checked probability in nats, at most `cap`."""
    if p == 1.0 - y:
        return cap
    return min(-math.log(p) if y else -math.log1p(-p), cap)
