"""`StreamSample`: what scores and labels show of rows that are probably not as intended: their direction and order."""

from __future__ import annotations

import math

import numpy as np

from streamcal.parameters.order import LEAST_CHANGES, in_blocks
from streamcal.parameters.types import FloatArray

#: Observations of the sample: all of them at first, then every second one, every fourth, ...
MOST = 8_192
#: The z-score of the rank sum below which scores fall. Where scores say nothing, one stream in 3 million is below.
FALLING = -5.0
#: Scores are in order if less than this part of their changes are in the other direction: of 68 streams of real tables
#: and generators, none had less than .46.
FEW_REVERSALS = 0.01


class StreamSample:
    """A bounded sample of scores and labels, and counts of all their changes from one row to the next.

    Examples
    --------
    >>> sample = StreamSample()
    >>> sample.add(np.arange(100.0), np.arange(100.0) < 50.0)
    >>> sample.auc_if_falling(), sample.blocks(), sample.scores_in_order()
    (0.0, 'neighbouring labels differ once, and would 50 times in random order', True)
    """

    def __init__(self) -> None:
        self._scores: list[float] = []
        self._labels: list[bool] = []
        self._seen, self._every = 0, 1
        self._positives = self._changes = self._rises = self._falls = 0
        self._only_classes = True
        self._last: tuple[float, bool] | None = None

    def add(self, scores: FloatArray, labels: FloatArray) -> None:
        """Add observations in their order."""
        if not len(scores):
            return
        positive = labels > 0.0
        first = -self._seen % self._every
        self._scores += scores[first :: self._every].tolist()
        self._labels += positive[first :: self._every].tolist()
        self._follow(float(scores[0]), bool(positive[0]))
        self._changes += int(np.count_nonzero(positive[1:] != positive[:-1]))
        self._rises += int(np.count_nonzero(scores[1:] > scores[:-1]))
        self._falls += int(np.count_nonzero(scores[1:] < scores[:-1]))
        self._only_classes = self._only_classes and bool(((scores == 0.0) | (scores == 1.0)).all())
        self._positives += int(np.count_nonzero(positive))
        self._last = float(scores[-1]), bool(positive[-1])
        self._seen += len(scores)
        self._thin()

    def add_one(self, score: float, label: bool) -> None:
        """Add one observation."""
        if self._seen % self._every == 0:
            self._scores.append(score)
            self._labels.append(label)
        self._follow(score, label)
        self._only_classes = self._only_classes and score in (0.0, 1.0)
        self._positives += label
        self._last = score, label
        self._seen += 1
        self._thin()

    def _follow(self, score: float, label: bool) -> None:
        """Count how a row differs from the last one."""
        if self._last is not None:
            self._changes += label != self._last[1]
            self._rises += score > self._last[0]
            self._falls += score < self._last[0]

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

    def blocks(self) -> str | None:
        """Describe how often the label changes, if labels are in blocks; else return None."""
        return in_blocks(self._changes, (self._positives, self._seen - self._positives))

    def scores_in_order(self) -> bool:
        """Return whether the scores hardly ever change direction, as in rows sorted by score."""
        changes = self._rises + self._falls
        return changes >= LEAST_CHANGES and min(self._rises, self._falls) < FEW_REVERSALS * changes

    def has_only_classes(self) -> bool:
        """Return whether both 0 and 1 occur as scores, and nothing else does, in 20 rows or more."""
        return self._only_classes and self._seen >= LEAST_CHANGES and self._rises + self._falls > 0

    def odd_rows(self) -> str | None:
        """Describe rows that are sorted by their label or score, or scores that are classes, and what to do."""
        if self.has_only_classes():
            return (
                "all scores are 0 or 1, as predicted classes are: give the probability of the positive class, which "
                "scikit-learn has as predict_proba(X)[:, 1]"
            )
        blocks = self.blocks()
        if blocks is not None:
            return (
                f"{blocks}: in rows sorted by label, earlier labels give the next one away, and every figure is too "
                "good; sort the rows by time, or shuffle them"
            )
        if self.scores_in_order():
            return (
                "the rows are sorted by score, so that each prediction has learned from lower scores alone, or from "
                "higher ones; sort them by time, or shuffle them"
            )
        return None
