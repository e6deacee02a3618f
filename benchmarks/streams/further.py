"""The generators of the further streams: cycles of time, tied scores, calibrated scores; and labels of random lateness.

Where the probabilities are known, so is the oracle, exactly.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from benchmarks.streams.tables import Array, Flags

ROWS = 20_000
#: Seconds in a day, and the time of the first row: a Wednesday in November 2023, 00:00 UTC.
DAY, FIRST = 86_400.0, 1_699_401_600.0
LEAVES = 20


class Made(NamedTuple):
    """Scores, labels, what nobody could beat, and times in seconds where the stream has them."""

    scores: Array
    y: Flags
    oracle: Array
    t: Array | None = None


def waves(period: int, phase: float, seed: int) -> Made:
    """Draw x ~ N(−1, 1.5²); the log-odds of a positive are x + sin, and `period` rows are a day."""
    day = np.arange(ROWS) / period
    return _cycle(day, np.sin(2.0 * math.pi * (day + phase)), seed)


def hours(period: int, opens: float, closes: float, seed: int) -> Made:
    """Draw the same with a step: ¾ higher between two times of the day, ½ lower otherwise, and at the weekend."""
    day = np.arange(ROWS) / period
    is_open = (day % 1.0 >= opens) & (day % 1.0 < closes) & (day % 7.0 < 5.0)
    return _cycle(day, np.where(is_open, 0.75, -0.5), seed)


def _cycle(day: Array, moved: Array, seed: int) -> Made:
    rng = np.random.default_rng([seed, 1])
    x = rng.normal(-1.0, 1.5, ROWS)
    return _labelled(rng, x, x + moved, FIRST + DAY * day)


def leaves(centre: float, seed: int) -> Made:
    """Draw the 20 leaves of a tree, some of them often: log-odds N(centre, 1.5²), each wrong by N(0, 1)."""
    rng = np.random.default_rng([seed, 2])
    x, wrong = rng.normal(centre, 1.5, LEAVES), rng.normal(0.0, 1.0, LEAVES)
    of = rng.choice(LEAVES, ROWS, p=rng.dirichlet(np.ones(LEAVES)))
    return _labelled(rng, x[of], (x + wrong)[of])


def calibrated(centre: float, spread: float, seed: int) -> Made:
    """Log-odds N(centre, spread²), and labels as likely as the scores say."""
    rng = np.random.default_rng([seed, 3])
    x = rng.normal(centre, spread, ROWS)
    return _labelled(rng, x, x)


def _labelled(rng: np.random.Generator, x: Array, z: Array, t: Array | None = None) -> Made:
    scores, p = 1.0 / (1.0 + np.exp(-x)), 1.0 / (1.0 + np.exp(-z))
    return Made(scores, rng.random(len(p)) < p, p, t)


def lateness(rows: int, mean: int) -> Array:
    """Draw how many predictions are made between each score and its label: geometric, some 0 and some very many."""
    return np.random.default_rng([rows, mean]).geometric(1.0 / (1.0 + mean), rows) - 1.0
