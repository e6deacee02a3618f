"""The Brier score, the quadratic scoring rule."""

from __future__ import annotations

import numpy as np

from streamcal.metrics.base import Metric
from streamcal.metrics.cells import Forecasts


class Brier(Metric):
    """Mean squared error of the probabilities: Σ w (p − y)² / Σ w, in [0, 1]; lower is better.

    Notes
    -----
    Cost: `update`, `revert`, `merge` and `get` O(1); one sum in memory.

    References
    ----------
    G. W. Brier, Verification of forecasts expressed in terms of probability, Monthly Weather Review 78, 1950 (here for
    one of two classes).

    Examples
    --------
    >>> brier = Brier()
    >>> brier.update_many([True, False], [0.5, 1.0])
    >>> brier.get()
    0.625
    >>> brier.revert(1.0, False)
    >>> brier.get()
    0.25
    """

    _sums = ("_sum",)

    def get(self) -> float | None:
        """Return the mean score, in [0, 1]; `None` before the first observation."""
        return self._mean_term()

    def _add(self, p: float, y: float, w: float, sign: int) -> None:
        self._sum += sign * w * (p - y) * (p - y)

    def _add_many(self, forecasts: Forecasts) -> None:
        errors = forecasts.p - forecasts.y
        self._sum += float(np.sum(forecasts.w * errors * errors))
