"""Time of a step: the public method, and its kernel calls alone, timed in alternating batches."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from benchmarks.arrivals import Stream
from benchmarks.plan import Plan
from benchmarks.timing import BATCH
from streamcal import Bernstein, OnlinePlatt, VennAbers
from streamcal.kernels.polynomial.bernstein import BernsteinSums, Curve
from streamcal.kernels.polynomial.monotone_qp import MonotoneQP
from streamcal.kernels.tree.hull_tree import HullTree

Call = Callable[..., Any]


class Verb(NamedTuple):
    """A public verb and the kernel call that does its work, each with what makes its arguments of (query, score, y)."""

    name: str
    public: Call
    public_arguments: Callable[[float, float, bool], tuple[Any, ...]]
    kernel: Call
    kernel_arguments: Callable[[float, float, bool], tuple[Any, ...]]


def profile(plan: Plan) -> list[dict[str, Any]]:
    """Seconds of each verb and of its kernel call. Learning is followed by unlearning the same, so that sizes stay."""
    rows = []
    for size in plan.profile_sizes:
        stream = Stream(size, (plan.rounds + 1) * BATCH, plan.seed)
        rows += _measured(f"VennAbers, {size:,} scores", _tree(stream), stream, plan.rounds)
    stream = Stream(20_000, (plan.rounds + 1) * BATCH, plan.seed)
    for degree in (20, 50):
        rows += _measured(f"Bernstein, degree {degree}", _bernstein(stream, degree), stream, plan.rounds)
    return rows + _measured("OnlinePlatt", _platt(), stream, plan.rounds)


def _tree(stream: Stream) -> list[Verb]:
    cal, tree = VennAbers(), HullTree()
    scores, labels = stream.start()
    order, ones = np.argsort(scores), np.ones(len(scores))
    cal.learn_many(scores, labels)
    tree.rebuild(scores[order], ones, labels[order].astype(np.float64), ones.astype(np.int64))
    mass = lambda _query, score, y: (score, 1.0, float(y), 1)  # noqa: E731
    one = lambda _query, score, y: (score, float(y), 1.0)  # noqa: E731
    return [
        Verb("predict_interval_one", cal.predict_interval_one, _query, tree.interval, lambda q, _s, _y: (q, 1.0)),
        Verb("learn_one", cal.learn_one, _observation, tree.update_one, one),
        Verb("unlearn_one", cal.unlearn_one, _observation, tree.unlearn, mass),
    ]


def _bernstein(stream: Stream, degree: int) -> list[Verb]:
    """Return one verb: a prediction after each observation, so that every prediction needs a solve."""
    cal, sums, program = Bernstein(degree), BernsteinSums(degree), MonotoneQP(degree)
    scores, labels = stream.start()
    cal.learn_many(scores, labels)
    sums.update_many(scores, np.ones(len(scores)), labels.astype(np.float64))
    program.watch(sums.moments, sums.cross)
    curve = Curve(program.coefficients)

    def public(query: float, score: float, y: bool) -> None:
        cal.learn_one(score, y)
        cal.predict_one(query)

    def kernel(query: float, score: float, y: float) -> None:
        sums.update_one(score, y, 1.0)
        program.solve_watched(sums.weight)
        curve.at(query)

    return [Verb("learn_one + predict_one", public, _all, kernel, lambda q, s, y: (q, s, float(y)))]


def _platt() -> list[Verb]:
    cal, other = OnlinePlatt(), OnlinePlatt()
    newton = other._kernel
    return [
        Verb("predict_one", cal.predict_one, _query, newton.predict_fast, _query),
        Verb("learn_one", cal.learn_one, _observation, newton.learn_fast, lambda _q, s, y: (s, y, 1.0)),
    ]


def _query(query: float, _score: float, _y: bool) -> tuple[float]:
    return (query,)


def _observation(_query: float, score: float, y: bool) -> tuple[float, bool]:
    return score, y


def _all(query: float, score: float, y: bool) -> tuple[float, float, bool]:
    return query, score, y


def _measured(what: str, verbs: list[Verb], stream: Stream, rounds: int) -> list[dict[str, Any]]:
    """Return the medians over rounds; each round has all public calls in order, then all kernel calls in order."""
    taken: dict[tuple[str, str], list[float]] = {}
    gc.disable()
    for turn in range(rounds + 1):  # the first is not counted
        steps = stream.part(turn * BATCH, BATCH).steps
        for side, name, call, arguments in _in_order(verbs):
            seconds = _loop(call, [arguments(*step) for step in steps])
            if turn:
                taken.setdefault((side, name), []).append(seconds)
    gc.enable()
    return [
        {"what": what, "verb": verb.name, **{side: median(taken[side, verb.name]) for side in ("public", "kernel")}}
        for verb in verbs
    ]


def _in_order(verbs: list[Verb]) -> Iterator[tuple[str, str, Call, Callable[..., tuple[Any, ...]]]]:
    for verb in verbs:
        yield "public", verb.name, verb.public, verb.public_arguments
    for verb in verbs:
        yield "kernel", verb.name, verb.kernel, verb.kernel_arguments


def _loop(call: Call, arguments: list[tuple[Any, ...]]) -> float:
    """Seconds per call, those of the loop taken off."""
    start = perf_counter()
    for given in arguments:
        call(*given)
    middle = perf_counter()
    for _given in arguments:
        pass
    return (2.0 * middle - start - perf_counter()) / len(arguments)
