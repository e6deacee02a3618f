"""The area under the ROC curve."""

from __future__ import annotations

import numpy as np

from streamcal.metrics.base import Metric
from streamcal.metrics.cells import CellColumns


class AUC(Metric):
    """Area under the ROC curve: the chance that a positive has a higher probability than a negative, ties counted half.

    Higher is better, ½ is chance. It is the Mann–Whitney statistic by weight, and depends on the order of the
    probabilities alone: a strictly increasing map leaves it as it is. Probabilities in one cell count as tied, and
    `error_bound` bounds the effect on the value.

    Notes
    -----
    Cost: `update` and `revert` O(1), less than 1 µs; `get` and `error_bound` O(c) for c occupied cells; `merge` O(c).
    Memory as in `EqualMassECE`.

    References
    ----------
    J. A. Hanley and B. J. McNeil, The meaning and use of the area under a receiver operating characteristic (ROC)
    curve, Radiology 143, 1982.

    Examples
    --------
    >>> auc = AUC()
    >>> auc.update_many([False, False, True, True], [0.1, 0.4, 0.35, 0.8])
    >>> auc.get(), auc.error_bound
    (0.75, 0.0)
    """

    def get(self) -> float | None:
        """Return the area, in [0, 1]; `None` before there are a positive and a negative label. O(c)."""
        columns = self._columns()
        if columns is None or not (pairs := _pairs(columns)):
            return None
        below = np.cumsum(columns.negative) - columns.negative / 2.0
        return min(float(columns.positive @ below) / pairs, 1.0)

    @property
    def error_bound(self) -> float:
        """Bound on the difference between `get` and the area of the probabilities themselves.

        A pair in one cell counts ½ instead of 0 or 1, so that the bound is half the share of such pairs; a cell with a
        single distinct probability does not count. O(c).
        """
        columns = self._columns()
        if columns is None or not (pairs := _pairs(columns)):
            return 0.0
        tied = columns.low < columns.high
        return float(columns.positive[tied] @ columns.negative[tied]) / pairs / 2.0


def _pairs(columns: CellColumns) -> float:
    """Return the total weight of all pairs of a positive and a negative."""
    return float(columns.positive.sum()) * float(columns.negative.sum())
