"""`TemperatureScaling`: one slope for all classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamcal.multiclass.base import MulticlassMap
from streamcal.multiclass.labels import ClassLabel
from streamcal.multiclass.softmax import ScaledLogsMap, SoftmaxScaling
from streamcal.parameters.types import FloatArray
from streamcal.statistics.class_table import ClassPoints, ClassTable


class TemperatureScaling(SoftmaxScaling):
    """Temperature scaling of a probability vector: p_L proportional to s_L^(1/T), 0 < T ≤ ∞, by maximum likelihood.

    The ranking of the labels is preserved; scores that are negatively related to the outcomes give T = ∞, equal
    probabilities.

    Parameters
    ----------
    prior, limit, forgetting, refresh_every
        See `SoftmaxScaling`; the prior is on 1/T − 1.

    Notes
    -----
    The softmax of an observation is over the labels that it names. Scores must sum to one, up to 0.01; ln s is limited
    to −16 from below. Cost: an observation O(K), a prediction after it O(k·K²) for k ≤ `limit` distinct score vectors
    held, by Newton steps from the previous solution; memory O(k·K).

    References
    ----------
    Guo, Pleiss, Sun and Weinberger, On calibration of modern neural networks, ICML 2017, §4.2.

    Examples
    --------
    >>> cal = TemperatureScaling(prior=0.0)
    >>> cal.learn_many([[0.8, 0.1, 0.1]] * 3, ["a", "a", "b"], labels=["a", "b", "c"])
    >>> {label: round(p, 3) for label, p in cal.predict_one({"a": 0.8, "b": 0.1, "c": 0.1}).items()}
    {'a': 0.667, 'b': 0.167, 'c': 0.167}
    """

    name = "temperature-scaling"
    summary = "all log-probabilities divided by one number, by maximum likelihood"

    def _points(self, statistic: ClassTable) -> list[ClassPoints]:
        # All labels share one slope, so labels that an observation does not name need no points.
        return statistic.points()

    def _parameters(self, labels: list[ClassLabel]) -> list[Any]:
        return [None]

    def _features(self, labels: list[ClassLabel], logs: FloatArray) -> tuple[FloatArray, list[list[Any]]]:
        return logs[:, :, None], [[None]] * len(labels)

    def _penalty(self, labels: list[ClassLabel]) -> FloatArray:
        return np.zeros(1)

    def _map_of_parameters(self, labels: list[ClassLabel], delta: FloatArray) -> MulticlassMap:
        # The loss is convex in the slope: where its minimum lies below 0, that over slopes of at least 0 is at 0.
        return ScaledLogsMap({}, max(1.0 + float(delta[0]), 0.0))
