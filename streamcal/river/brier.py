"""`Brier`: the Brier score as a River metric."""

from __future__ import annotations

from typing import Any

from river import metrics

from streamcal.metrics import Brier as BrierScore
from streamcal.river.bases import rounded


class Brier(metrics.base.BinaryMetric):
    """The Brier score as a River metric: mean of (p − y)², p being the probability of `pos_val`. Lower is better.

    Parameters
    ----------
    pos_val : Any
        The positive label.

    Notes
    -----
    O(1) per update, in fixed memory.

    Examples
    --------
    >>> from river import utils
    >>> metric = Brier()
    >>> metric.update(True, {False: 0.5, True: 0.5})
    >>> metric
    Brier: 0.25
    >>> rolling = utils.Rolling(Brier, window_size=2)
    >>> for y, p in [(True, 0.0), (True, 0.5), (False, 0.5)]:
    ...     rolling.update(y, p)
    >>> rolling.get()
    0.25
    """

    _fmt = ".6f"

    def __init__(self, pos_val: Any = True) -> None:
        super().__init__(pos_val=pos_val)
        self._score = BrierScore()

    @property
    def bigger_is_better(self) -> bool:
        return False

    @property
    def requires_labels(self) -> bool:
        return False

    def update(self, y_true: Any, y_pred: float | dict[Any, float], w: float = 1.0) -> None:
        """Add a prediction (a probability, or River's dict of them) for the label `y_true`."""
        self._score.update(self._probability(y_pred), y_true == self.pos_val, w)

    def revert(self, y_true: Any, y_pred: float | dict[Any, float], w: float = 1.0) -> None:
        """Remove an earlier `update` with the same arguments."""
        self._score.revert(self._probability(y_pred), y_true == self.pos_val, w)

    def get(self) -> float:
        """The mean; 0 if nothing was observed, as in other River metrics."""
        value = self._score.value
        return 0.0 if value is None else value

    def _probability(self, y_pred: float | dict[Any, float]) -> float:
        return rounded(y_pred.get(self.pos_val, 0.0) if isinstance(y_pred, dict) else y_pred)
