"""Rules that merge a Venn-Abers interval (p₀, p₁), or K of them, into one probability.

Every function takes floats or arrays of one shape (sequences of K of them for K intervals) and costs O(1) per pair. The
module imports nothing of the package. `portable.py` contains the same formulas, so that it stays a single file.

References
----------
Paper 003: Vovk, Petej and Fedorova 2015, "Large-scale probabilistic predictors with and without guarantees of
validity".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Value = TypeVar("Value", float, NDArray[np.float64])


# -- one interval ------------------------------------------------------------------------------------------------


def log_minimax(lower: Value, upper: Value) -> Value:
    """Return p₁ / (1 − p₀ + p₁): minimal worst-case regret in log loss (paper 003, §4).

    >>> log_minimax(0.25, 0.75)
    0.5
    """
    return upper / (1.0 - lower + upper)


def brier_minimax(lower: Value, upper: Value) -> Value:
    """Return p₁ + p₀²/2 − p₁²/2: minimal worst-case regret in Brier score (paper 003, §4).

    >>> brier_minimax(0.25, 0.75)
    0.5
    """
    return upper + 0.5 * (lower * lower - upper * upper)


def self_consistent(lower: Value, upper: Value) -> Value:
    """Return p₀ / (1 − p₁ + p₀), which solves p = (1 − p)·p₀ + p·p₁; ½ on the vacuous interval [0, 1].

    >>> self_consistent(0.25, 0.75), self_consistent(0.0, 1.0)
    (0.5, 0.5)
    """
    vacuous = 1.0 - upper + lower == 0.0
    return (lower + 0.5 * vacuous) / (1.0 - upper + lower + vacuous)


#: Scores nearer to 0 or 1 are read as this, or as 1 minus this: log-odds of ±16, the bounds of `Logit`.
LEAST_SCORE = 1.1253516205509499e-07
#: The worth of the prior of `score_prior`, in events. On rare streams the total with a quarter is right within 1 % from
#: 2,000 events on for models that are up to twice too high (`tests/test_score_prior.py`). With a whole one it is
#: further off, and log losses are a little lower.
PRIOR_EVENTS = 0.25
#: The least divisor, for intervals that rounding has made a point at 0 or 1.
TINY = 1e-300


def score_prior(lower: Value, upper: Value, score: Value) -> Value:
    """Return (p₀·r + d·m/4) / ((1 − d)·r + d/4), with d = p₁ − p₀, m the score clipped to [p₀, p₁], r = min(m, 1 − m).

    Where both fits have s in one block of k events among n observations, p₀ = k/(n + 1) and p₁ = (k + 1)/(n + 1), and
    this is the mean of that block and of a prior at the score that is worth a quarter of an event, of the rarer label:
    (k + ¼)/(n + ¼/m) where m ≤ ½. Self-consistent is the same without a prior. The result lies between p₀ and p₁, rises
    with both and with the score, and is neither 0 nor 1 unless rounding has made an end of the interval so. On the
    vacuous interval [0, 1] it is the score.

    >>> round(score_prior(0.0, 1.0, 0.01), 12), score_prior(0.0, 0.25, 0.01) > 0.0, score_prior(0.25, 0.75, 0.5)
    (0.01, True, 0.5)
    """
    width = PRIOR_EVENTS * (upper - lower)
    if isinstance(score, float):
        middle = min(max(min(max(score, LEAST_SCORE), 1.0 - LEAST_SCORE), lower), upper)
        rarer = max(min(middle, 1.0 - middle), TINY)
    else:
        middle = np.clip(np.clip(score, LEAST_SCORE, 1.0 - LEAST_SCORE), lower, upper)
        rarer = np.maximum(np.minimum(middle, 1.0 - middle), TINY)
    return (lower * rarer + width * middle) / ((1.0 - upper + lower) * rarer + width)


#: Name of the rule → the probability of one pair.
POINTS: dict[str, Callable] = {
    "log-minimax": log_minimax,
    "brier-minimax": brier_minimax,
    "self-consistent": self_consistent,
}
#: Rules that need the score too, as a probability.
SCORED_POINTS: dict[str, Callable] = {"score-prior": score_prior}


# -- K intervals, one per fold -----------------------------------------------------------------------------------


def mean(values: Sequence[Value]) -> Value:
    """Return the arithmetic mean over the folds."""
    return sum(values[1:], start=values[0]) / len(values)


def geometric_mean(values: Sequence[Value]) -> Value:
    """Return the geometric mean over the folds; roots first, since a product of small numbers underflows."""
    share = 1.0 / len(values)
    product = values[0] ** share
    for value in values[1:]:
        product = product * value**share
    return product


def log_merge(lower: Sequence[Value], upper: Sequence[Value]) -> Value:
    """Return GM(p₁) / (GM(1 − p₀) + GM(p₁)): minimal worst-case regret in log loss (paper 003, Algorithm 7)."""
    positive = geometric_mean(upper)
    return positive / (geometric_mean([1.0 - p for p in lower]) + positive)


def brier_merge(lower: Sequence[Value], upper: Sequence[Value]) -> Value:
    """Average p₁ + p₀²/2 − p₁²/2 over the folds: minimal worst-case regret in Brier score (paper 003, §4)."""
    return mean([brier_minimax(low, high) for low, high in zip(lower, upper, strict=True)])


def self_consistent_merge(lower: Sequence[Value], upper: Sequence[Value]) -> Value:
    """Solve p = (1 − p)·mean(p₀) + p·mean(p₁)."""
    return self_consistent(mean(lower), mean(upper))


#: Name of the rule → the probability of K pairs; that of one pair is the same as above.
MERGES: dict[str, Callable] = {
    "log-minimax": log_merge,
    "brier-minimax": brier_merge,
    "self-consistent": self_consistent_merge,
}
