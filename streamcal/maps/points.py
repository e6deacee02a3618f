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
import numpy.typing as npt

Value = TypeVar("Value", float, npt.NDArray[np.float64])


# -- one interval ------------------------------------------------------------------------------------------------


def log_minimax(lower: Value, upper: Value) -> Value:
    """p₁ / (1 − p₀ + p₁): minimal worst-case regret in log loss (paper 003, §4).

    >>> log_minimax(0.25, 0.75)
    0.5
    """
    return upper / (1.0 - lower + upper)


def brier_minimax(lower: Value, upper: Value) -> Value:
    """p₁ + p₀²/2 − p₁²/2: minimal worst-case regret in Brier score (paper 003, §4).

    >>> brier_minimax(0.25, 0.75)
    0.5
    """
    return upper + 0.5 * (lower * lower - upper * upper)


def self_consistent(lower: Value, upper: Value) -> Value:
    """p₀ / (1 − p₁ + p₀): the solution of p = (1 − p)·p₀ + p·p₁; ½ on the vacuous interval [0, 1].

    >>> self_consistent(0.25, 0.75), self_consistent(0.0, 1.0)
    (0.5, 0.5)
    """
    vacuous = 1.0 - upper + lower == 0.0
    return (lower + 0.5 * vacuous) / (1.0 - upper + lower + vacuous)


#: Name of the rule → the probability of one pair.
POINTS: dict[str, Callable] = {
    "log-minimax": log_minimax,
    "brier-minimax": brier_minimax,
    "self-consistent": self_consistent,
}


# -- K intervals, one per fold -----------------------------------------------------------------------------------


def mean(values: Sequence[Value]) -> Value:
    """The arithmetic mean over the folds."""
    return sum(values[1:], start=values[0]) / len(values)


def geometric_mean(values: Sequence[Value]) -> Value:
    """The geometric mean over the folds; roots first, since a product of small numbers underflows."""
    share = 1.0 / len(values)
    product = values[0] ** share
    for value in values[1:]:
        product = product * value**share
    return product


def log_merge(lower: Sequence[Value], upper: Sequence[Value]) -> Value:
    """GM(p₁) / (GM(1 − p₀) + GM(p₁)): minimal worst-case regret in log loss (paper 003, Algorithm 7)."""
    positive = geometric_mean(upper)
    return positive / (geometric_mean([1.0 - p for p in lower]) + positive)


def brier_merge(lower: Sequence[Value], upper: Sequence[Value]) -> Value:
    """The mean over the folds of p₁ + p₀²/2 − p₁²/2: minimal worst-case regret in Brier score (paper 003, §4)."""
    return mean([brier_minimax(low, high) for low, high in zip(lower, upper, strict=True)])


def self_consistent_merge(lower: Sequence[Value], upper: Sequence[Value]) -> Value:
    """The solution of p = (1 − p)·mean(p₀) + p·mean(p₁)."""
    return self_consistent(mean(lower), mean(upper))


#: Name of the rule → the probability of K pairs; that of one pair is the same as above.
MERGES: dict[str, Callable] = {
    "log-minimax": log_merge,
    "brier-minimax": brier_merge,
    "self-consistent": self_consistent_merge,
}
