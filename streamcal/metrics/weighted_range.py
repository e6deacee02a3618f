"""How far weighted differences may deviate from means, where the weight of the label that did not come is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from streamcal.metrics.label_weights import weights_by_label
from streamcal.parameters.types import FloatArray


@dataclass
class WeightedRange:
    """The largest deviation |w δ − m| that was possible, of weighted differences w δ from the means m before them.

    The difference δ of an observation is known for both labels, and its weight w for the label that came. The weight
    for the other label is w times the ratio of the mean weights of both labels, where weights depend on labels
    (`weights_by_label`), and w otherwise.

    Examples
    --------
    Positives of weight 1 and negatives of weight 100, whose differences are a hundredth:

    >>> possible = WeightedRange()
    >>> for _ in range(100):
    ...     possible.add(0.5, 0.005, 1.0, 1.0, 0.0)
    ...     possible.add(0.5, 0.5, 0.0, 100.0, 0.0)
    >>> possible.get()
    0.5
    """

    positive: float = 0.0  #: Σ w by label, and Σ w²
    negative: float = 0.0
    squared_positive: float = 0.0
    squared_negative: float = 0.0
    #: The largest |w δ| of observations of each label, for the label that came and for the other one.
    positive_came: float = 0.0
    positive_other: float = 0.0
    negative_came: float = 0.0
    negative_other: float = 0.0
    farthest: float = 0.0  #: the largest |m|
    heaviest: float = 0.0  #: the largest w

    def get(self) -> float:
        """Return the largest deviation that was possible."""
        squares = self.squared_positive, self.squared_negative
        of_positive, of_negative = weights_by_label(self.positive, self.negative, *squares)
        others = self.positive_other * of_negative / of_positive, self.negative_other * of_positive / of_negative
        return max(self.positive_came, self.negative_came, *others) + self.farthest

    def add(self, came: float, other: float, y: float, weight: float, mean: float) -> None:
        """Add an observation: w δ for the label y that came, that for the other one at the same w, w, and m."""
        came, other = abs(came), abs(other)
        if y:
            self.positive += weight
            self.squared_positive += weight * weight
            self.positive_came = max(self.positive_came, came)
            self.positive_other = max(self.positive_other, other)
        else:
            self.negative += weight
            self.squared_negative += weight * weight
            self.negative_came = max(self.negative_came, came)
            self.negative_other = max(self.negative_other, other)
        self.farthest = max(self.farthest, abs(mean))
        self.heaviest = max(self.heaviest, weight)

    def add_many(
        self, came: FloatArray, other: FloatArray, positive: FloatArray, weights: FloatArray, farthest: float
    ) -> None:
        """Add observations as `add` does, with labels 0.0 and 1.0, and the largest |m|."""
        # Products with 0 and 1 are several times faster than selections of rows.
        zero, came, other, squares = 1.0 - positive, np.abs(came), np.abs(other), weights * weights
        self.positive += float(weights @ positive)
        self.negative += float(weights @ zero)
        self.squared_positive += float(squares @ positive)
        self.squared_negative += float(squares @ zero)
        self.positive_came = float((came * positive).max(initial=self.positive_came))
        self.positive_other = float((other * positive).max(initial=self.positive_other))
        self.negative_came = float((came * zero).max(initial=self.negative_came))
        self.negative_other = float((other * zero).max(initial=self.negative_other))
        self.farthest = max(self.farthest, farthest)
        self.heaviest = float(weights.max(initial=self.heaviest))

    def merge(self, other: WeightedRange, scale: float) -> None:
        """Add what `other` holds, whose unit of weights is `scale` times this one."""
        self.positive += scale * other.positive
        self.negative += scale * other.negative
        self.squared_positive += scale * scale * other.squared_positive
        self.squared_negative += scale * scale * other.squared_negative
        for name in ("positive_came", "positive_other", "negative_came", "negative_other", "farthest", "heaviest"):
            setattr(self, name, max(getattr(self, name), scale * getattr(other, name)))

    def state(self) -> list[float]:
        """Return the numbers in the order of the constructor."""
        return list(vars(self).values())


#: How many numbers a state has.
NUMBERS = 10


def farthest_mean(count: int, total: float, added: Sequence[float] | FloatArray) -> float:
    """Return the largest |mean| before one of n terms that are added to `count` terms of this sum.

    >>> farthest_mean(0, 0.0, [2.0, 4.0, 9.0])
    3.0
    """
    totals = np.cumsum(np.concatenate(([total], added[:-1])))  # one after another, as a loop sums
    return float(np.abs(totals / np.maximum(np.arange(count, count + len(added)), 1)).max())
