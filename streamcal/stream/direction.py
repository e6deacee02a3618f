"""`Direction`: whether scores fall where labels rise, by the rank-sum test on a bounded sample of a stream."""

from __future__ import annotations

import math

import numpy as np

from streamcal.parameters.types import FloatArray

#: Observations of the sample: all of them at first, then every second one, every fourth, ...
MOST = 8_192
#: The z-score of the rank sum below which scores fall. Where scores say nothing, one stream in 3 million is below.
FALLING = -5.0


class Direction:
    """A sample of scores and labels.

    Examples
    --------
    >>> direction = Direction()
    >>> direction.add(np.arange(100.0), np.arange(100.0) < 50.0)
    >>> direction.auc_if_falling()
    0.0
    """

    def __init__(self) -> None:
        self._scores: list[float] = []
        self._labels: list[bool] = []
        self._seen, self._every = 0, 1

    def add(self, scores: FloatArray, labels: FloatArray) -> None:
        """Add observations in their order."""
        first = -self._seen % self._every
        self._scores += scores[first :: self._every].tolist()
        self._labels += (labels[first :: self._every] > 0.0).tolist()
        self._seen += len(scores)
        self._thin()

    def add_one(self, score: float, label: bool) -> None:
        """Add one observation."""
        if self._seen % self._every == 0:
            self._scores.append(score)
            self._labels.append(label)
        self._seen += 1
        self._thin()

    def _thin(self) -> None:
        while len(self._scores) > MOST:
            self._scores, self._labels = self._scores[::2], self._labels[::2]
            self._every *= 2

    def auc_if_falling(self) -> float | None:
        """Return the AUC of the sample where scores fall significantly with the label, else None."""
        _, place, ties = np.unique(self._scores, return_inverse=True, return_counts=True)
        ranks = (np.cumsum(ties) - 0.5 * (ties - 1))[place]  # ties have their mean rank
        positive = np.array(self._labels, dtype=np.bool_)
        n, ones = len(ranks), int(np.count_nonzero(positive))
        pairs = ones * (n - ones)
        if not pairs:
            return None
        excess = float(ranks[positive].sum()) - ones * (ones + 1) / 2 - pairs / 2
        variance = pairs / 12 * (n + 1 - float(np.sum(ties.astype(np.float64) ** 3 - ties)) / (n * (n - 1)))
        if variance <= 0.0 or excess / math.sqrt(variance) >= FALLING:
            return None
        return 0.5 + excess / pairs
