"""Timing: the subjects in turn, batch after batch, in one process.

A machine shared with others is slow for seconds at a time. Therefore all subjects of a comparison are timed in turn,
repeatedly (A B C A B C …): a slowdown affects neighbouring subjects alike, and a ratio is the median of the ratios of
the rounds.

A turn is two batches, for every subject alike. In the first the caches contain the data of the other subjects: it
measures a step in a program that does other work in between. In the second the caches are as in a sequence of steps.
"""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections.abc import Mapping
from statistics import median
from time import perf_counter
from typing import NamedTuple

from benchmarks.arrivals import Part, Stream

#: Steps in a batch of a subject that takes microseconds: 1 to 20 ms, short enough that many escape interruption.
BATCH = 1_000
#: Steps done before the clock runs, at most: they bring caches, branch predictors and trees into their usual state.
WARM_UP = 100_000


class Subject(ABC):
    """Something whose steps are timed. A step is one prediction and one observation learned."""

    batch = BATCH
    warm_up = WARM_UP

    @abstractmethod
    def run(self, part: Part) -> None:
        """Do the steps; this is timed."""

    def settle(self, part: Part) -> None:
        """Go back to the size before `run`; this is not timed."""
        return None


class Loop(Subject):
    """The loop around the steps, which every subject has: its time is taken off."""

    def run(self, part: Part) -> None:
        for _query, _score, _y in part.steps:
            pass


class Times:
    """Seconds per step, one number for each round."""

    def __init__(self) -> None:
        self.rounds: list[float] = []

    @property
    def median(self) -> float:
        return median(self.rounds)

    @property
    def minimum(self) -> float:
        return min(self.rounds)

    def over(self, other: Times) -> float:
        """Return how many times as long this takes as `other`: the median of the ratios of the rounds."""
        return median(a / b for a, b in zip(self.rounds, other.rounds, strict=True))


class Turns(NamedTuple):
    """What a subject took in a race."""

    #: The first batch of each turn, on caches that the others have filled.
    cold: Times
    #: The second batch, right after the first: what is meant where nothing else is said.
    usual: Times


def race(subjects: Mapping[str, Subject], stream: Stream, rounds: int) -> dict[str, Turns]:
    """Time the subjects in turn, `rounds` turns each. The garbage collector rests meanwhile, as in `timeit`."""
    places = {name: _warmed(subject, stream, rounds) for name, subject in subjects.items()}
    taken = {name: Turns(Times(), Times()) for name in subjects}
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            loop = _batch(Loop(), stream.part(0, min(BATCH, stream.arrivals)))
            for name, subject in subjects.items():
                for times in taken[name]:
                    part = stream.part(places[name], subject.batch)
                    places[name] += subject.batch
                    times.rounds.append(max(_batch(subject, part) - loop, 1e-9))
    finally:
        gc.enable()
    return taken


def arrivals(rounds: int, warm_up: int = WARM_UP) -> int:
    """Return how many arrivals a stream needs for a race."""
    return len(Turns._fields) * rounds * BATCH + warm_up


def _warmed(subject: Subject, stream: Stream, rounds: int) -> int:
    """Turn a subject over once, or `warm_up` steps of it; the number of steps done."""
    steps = min(stream.held, subject.warm_up, stream.arrivals - len(Turns._fields) * rounds * subject.batch)
    for first in range(0, steps, BATCH):
        part = stream.part(first, min(BATCH, steps - first))
        subject.run(part)
        subject.settle(part)
    return steps


def _batch(subject: Subject, part: Part) -> float:
    """Seconds per step of one batch."""
    start = perf_counter()
    subject.run(part)
    seconds = perf_counter() - start
    subject.settle(part)
    return seconds / len(part.steps)
