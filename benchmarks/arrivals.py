"""Input of the benchmarks: scores, outcomes and queries, made before any timing starts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


class Part(NamedTuple):
    """Some steps of a stream, as the Python objects of a program that serves one request at a time."""

    #: (score to predict, score to learn, its outcome), one for each step.
    steps: list[tuple[float, float, bool]]
    #: (score, outcome) of the oldest observations, as many as there are steps.
    oldest: list[tuple[float, bool]]


def uniform(rng: np.random.Generator, size: int) -> tuple[Array, Flags]:
    """Even scores of a calibrated model."""
    scores = rng.random(size)
    return scores, rng.random(size) < scores


def clicks(rng: np.random.Generator, size: int) -> tuple[Array, Flags]:
    """Beta(1, 200) scores of a calibrated model: 0.5 % of the outcomes are positive."""
    scores = rng.beta(1.0, 200.0, size)
    return scores, rng.random(size) < scores


def noise(rng: np.random.Generator, size: int) -> tuple[Array, Flags]:
    """Outcomes that do not depend on the score: the isotonic fit pools nearly everything."""
    return rng.random(size), rng.random(size) < 0.5


def ascending(rng: np.random.Generator, size: int) -> tuple[Array, Flags]:
    """Draw scores each of which is the largest so far, and labels."""
    return np.sort(rng.random(size)), rng.random(size) < 0.5


KINDS = {kind.__name__: kind for kind in (uniform, clicks, noise, ascending)}


class Stream:
    """`held` observations that are there at the start, and `arrivals` that come one by one, each with a query.

    A query is a score drawn from all of the stream, independent of the observation it comes with.
    """

    def __init__(self, held: int, arrivals: int, seed: int, kind: str = "uniform") -> None:
        rng = np.random.default_rng([seed, held])
        self.held = held
        self.arrivals = arrivals
        self.scores, self.labels = KINDS[kind](rng, held + arrivals)
        self.queries = rng.choice(self.scores, arrivals) * (1.0 - 1e-9)  # seldom a held score itself

    def start(self, most: int | None = None) -> tuple[Array, Flags]:
        """Return the observations known at the start, or the last `most` of them."""
        first = 0 if most is None else max(self.held - most, 0)
        return self.scores[first : self.held], self.labels[first : self.held]

    def part(self, first: int, size: int) -> Part:
        """Return the arrivals first, …, first + size − 1."""
        new = slice(self.held + first, self.held + first + size)
        old = slice(first, first + size)
        steps = zip(self.queries[old].tolist(), self.scores[new].tolist(), self.labels[new].tolist(), strict=True)
        return Part(list(steps), list(zip(self.scores[old].tolist(), self.labels[old].tolist(), strict=True)))
