"""The subjects timed at every size: streamcal through its public methods, the floor and the limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sortedcontainers import SortedList

from benchmarks.arrivals import Part, Stream
from benchmarks.timing import Subject
from streamcal import Bernstein, Calibrator, Isotonic, OnlinePlatt, VennAbers, Window

#: Observations that a method of fixed memory has learned, at most, before it is timed: more would not change its step.
SETTLED = 200_000


class Learner(Subject):
    """A calibrator: predict one score, learn another. It unlearns its oldest observations after each batch."""

    def __init__(self, cal: Calibrator, stream: Stream, *, most: int | None = None) -> None:
        self.cal = cal
        self.predict: Callable[[float], Any] = getattr(cal, "predict_interval_one", cal.predict_one)
        cal.learn_many(*stream.start(most))

    def run(self, part: Part) -> None:
        predict, learn = self.predict, self.cal.learn_one
        for query, score, y in part.steps:
            predict(query)
            learn(score, y)

    def settle(self, part: Part) -> None:
        for score, y in part.oldest:
            self.cal.unlearn_one(score, y)


class Keeper(Learner):
    """A calibrator that forgets, or whose step does not depend on the number of observations held."""

    def settle(self, part: Part) -> None:
        return None


class SlowKeeper(Keeper):
    """One whose steps take tens of microseconds or more."""

    batch = 200
    warm_up = 2_000


class Floor(Subject):
    """`SortedList`: find the place of one score, add another."""

    def __init__(self, stream: Stream) -> None:
        self.list = SortedList(stream.start()[0].tolist())

    def run(self, part: Part) -> None:
        find, add = self.list.bisect_left, self.list.add
        for query, score, _y in part.steps:
            find(query)
            add(score)

    def settle(self, part: Part) -> None:
        for score, _y in part.oldest:
            self.list.remove(score)


class _Nothing:
    def learn_one(self, score: float, y: bool) -> None:
        return None


class Limit(Subject):
    """A Python method that does nothing: no step through a Python interface can cost less."""

    def run(self, part: Part) -> None:
        learn = _Nothing().learn_one
        for _query, score, y in part.steps:
            learn(score, y)


def _window(stream: Stream) -> Subject:
    return Keeper(VennAbers(forgetting=Window(stream.held)), stream)


#: Name → subject for a stream; the streams of a ladder differ in size only.
SUBJECTS: dict[str, Callable[[Stream], Subject]] = {
    "VennAbers": lambda stream: Learner(VennAbers(), stream),
    "SortedList": Floor,
    "VennAbers, Window": _window,
    "VennAbers, 2^16 cells": lambda stream: Learner(VennAbers(resolution=2**16), stream),
    "VennAbers, 2^12 cells": lambda stream: Learner(VennAbers(resolution=2**12), stream),
    "Isotonic": lambda stream: Learner(Isotonic(), stream),
    "Bernstein, degree 20": lambda stream: Keeper(Bernstein(20), stream, most=SETTLED),
    "Bernstein, degree 50": lambda stream: Keeper(Bernstein(50), stream, most=SETTLED),
    "Bernstein, degree 20, OSQP": lambda stream: SlowKeeper(Bernstein(20, "osqp"), stream, most=SETTLED),
    "OnlinePlatt": lambda stream: Keeper(OnlinePlatt(), stream, most=SETTLED),
    "no-op method call": lambda stream: Limit(),
}
