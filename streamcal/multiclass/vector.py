"""`VectorScaling`: a slope and an offset for each class."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamcal.multiclass.base import MulticlassMap
from streamcal.multiclass.labels import ClassLabel
from streamcal.multiclass.softmax import ScaledLogsMap, SoftmaxScaling
from streamcal.parameters.types import FloatArray


class VectorScaling(SoftmaxScaling):
    """Vector scaling: p_L proportional to exp(a_L ln s_L + b_L) over the labels of the observation.

    Each label has its slope and offset, found by maximum likelihood; they are 1 and 0 for a label without observations.

    Parameters
    ----------
    prior, limit, forgetting, refresh_every
        See `SoftmaxScaling`; the prior is on a − 1 and b.

    Notes
    -----
    Slopes are not constrained to be positive. Scores must sum to one, up to 0.01; ln s is limited to −16 from below.
    Cost: an observation O(K), a prediction after it O(k·K²) for k ≤ `limit` distinct score vectors held, by Newton
    steps from the previous solution, 3 to 4 ms at K = 10. Memory O(k·K).

    References
    ----------
    Guo, Pleiss, Sun and Weinberger, On calibration of modern neural networks, ICML 2017, §4.2.

    Examples
    --------
    >>> cal = VectorScaling(prior=0.0)
    >>> cal.learn_many([[0.5, 0.3, 0.2]] * 4, ["a", "b", "c", "c"], labels=["a", "b", "c"])
    >>> {label: round(p, 6) for label, p in cal.predict_one({"a": 0.5, "b": 0.3, "c": 0.2}).items()}
    {'a': 0.25, 'b': 0.25, 'c': 0.5}
    """

    name = "vector-scaling"
    summary = "a slope and an offset for the log-probability of each class, by maximum likelihood"

    def _parameters(self, labels: list[ClassLabel]) -> list[Any]:
        return [(label, kind) for label in labels for kind in ("slope", "offset")]

    def _features(self, labels: list[ClassLabel], logs: FloatArray) -> tuple[FloatArray, list[list[Any]]]:
        return np.stack((logs, np.ones_like(logs)), axis=2), [[(label, "slope"), (label, "offset")] for label in labels]

    def _priors(self, labels: list[ClassLabel], r: FloatArray) -> FloatArray:
        return self.prior * np.column_stack((r, np.ones_like(r))).ravel()

    def _penalty(self, labels: list[ClassLabel]) -> FloatArray:
        return np.zeros(2 * len(labels))

    def _map_of_parameters(self, labels: list[ClassLabel], delta: FloatArray) -> MulticlassMap:
        pairs = delta.reshape(-1, 2).tolist()
        return ScaledLogsMap({label: (1.0 + a, b) for label, (a, b) in zip(labels, pairs, strict=True)})
