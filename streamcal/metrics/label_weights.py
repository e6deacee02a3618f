"""Weights that depend on the label, as where negatives are sampled: how they change the variance of weighted sums."""

from __future__ import annotations

import math
from typing import Any

#: The mean weights of both labels differ at least by this factor where weights count as depending on labels, and by
#: more standard errors of its logarithm than this.
LEAST_FACTOR, STANDARD_ERRORS = 1.25, 2.0


def weights_by_label(
    positive: float, negative: float, squared_positive: float, squared_negative: float
) -> tuple[float, float]:
    """Return Σ w² / Σ w of the positives and of the negatives, or (1, 1) where weights do not depend on labels.

    They count as depending on labels where the two differ by more than chance. An observation stands for w of the
    whole, so that these are the mean weights of positives and of negatives in it.

    Parameters
    ----------
    positive, negative : float
        Σ w of each label.
    squared_positive, squared_negative : float
        Σ w² of each label.

    Examples
    --------
    All of 40 clicks, and of 10,000 other rows one in 20 with the weight 20:

    >>> weights_by_label(40.0, 10_000.0, 40.0, 200_000.0)
    (1.0, 20.0)
    >>> weights_by_label(40.0, 10_000.0, 44.0, 11_000.0)
    (1.0, 1.0)
    """
    if min(positive, negative, squared_positive, squared_negative) <= 0.0:
        return 1.0, 1.0
    of_positive, of_negative = squared_positive / positive, squared_negative / negative
    # 1/n of the effective numbers of both labels
    error = math.sqrt(of_positive / positive + of_negative / negative)
    if abs(math.log(of_positive / of_negative)) <= math.log(LEAST_FACTOR) + STANDARD_ERRORS * error:
        return 1.0, 1.0
    return of_positive, of_negative


def variance_factor(p: Any, by_label: tuple[float, float]) -> Any:
    """Return the variance of Σ w (y − p) over Σ w² p (1 − p), for observations of probability p, a float or an array.

    With mean weights r₁ of positives and r₀ of negatives, a unit of the whole has the variance
    p (1 − p)² r₁ + (1 − p) p² r₀, and p r₁ + (1 − p) r₀ is its part of Σ w². The factor is 1 where both are equal.

    >>> variance_factor(0.5, (1.0, 20.0)), round(variance_factor(0.01, (1.0, 20.0)), 3)
    (1.0, 0.06)
    """
    of_positive, of_negative = by_label
    if of_positive == of_negative:
        return 1.0 + 0.0 * p
    return ((1.0 - p) * of_positive + p * of_negative) / (p * of_positive + (1.0 - p) * of_negative)


def sampled(p: Any, by_label: tuple[float, float]) -> Any:
    """Return the probability of a positive among the rows of a sample in which a row stands for its weight.

    >>> sampled(0.01, (1.0, 1.0)), round(sampled(0.01, (1.0, 99.0)), 9)
    (0.01, 0.5)
    """
    of_positive, of_negative = by_label
    if of_positive == of_negative:
        return p
    return p * of_negative / (p * of_negative + (1.0 - p) * of_positive)
