"""The slowest steps: every step of a `Window` over a large tree is timed."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.arrivals import Array, Part, Stream
from benchmarks.plan import Plan
from streamcal import VennAbers, Window

LONG = 0.01


def tail(plan: Plan) -> dict[str, Any]:
    """Quantiles and maximum of one step: predict_interval_one, learn_one, and the observation that the window drops.

    Each step is clocked twice, by the wall and by the processor time of this thread: the first counts what
    other programs take, the second does not. A control of the same length, which touches no memory, shows what the
    machine adds by itself. Python's garbage collector is on, as it is for a user.
    """
    stream = Stream(plan.tail_size, plan.tail_steps, plan.seed)
    cal = VennAbers(forgetting=Window(plan.tail_size))
    cal.learn_many(*stream.start())
    predict, learn = cal.predict_interval_one, cal.learn_one

    def step(query: float, score: float, y: bool) -> None:
        predict(query)
        learn(score, y)

    part = stream.part(0, plan.tail_steps)
    _clocked(step, Part(part.steps[: plan.tail_steps // 10], []))
    with _Collections() as collections:
        wall, processor = _clocked(step, Part(part.steps[plan.tail_steps // 10 :], []))
    start = time.perf_counter()
    gc.collect()
    full_collection = time.perf_counter() - start
    control, _ = _clocked(_idle_for(float(np.median(wall))), Part(part.steps[plan.tail_steps // 10 :], []))
    return {
        "size": plan.tail_size, "steps": len(wall),
        "wall": _summary(wall), "processor": _summary(processor), "control": _summary(control),
        "collections": len(collections.seconds), "longest_collection": max(collections.seconds, default=0.0),
        "full_collection": full_collection,
        "exceeded": _exceeded(wall),
    }  # fmt: skip


def _clocked(step: Callable[[float, float, bool], None], part: Part) -> tuple[Array, Array]:
    """Seconds of each step by the wall and by this thread's processor time."""
    wall_clock, thread_clock = time.perf_counter_ns, time.thread_time_ns
    nanoseconds = np.empty((2, len(part.steps)), dtype=np.int64)
    wall, processor = memoryview(nanoseconds[0]), memoryview(nanoseconds[1])  # no new objects while the clock runs
    for i, (query, score, y) in enumerate(part.steps):
        busy = thread_clock()
        start = wall_clock()
        step(query, score, y)
        wall[i] = wall_clock() - start
        processor[i] = thread_clock() - busy
    return nanoseconds[0] * 1e-9, nanoseconds[1] * 1e-9


def _summary(seconds: Array) -> dict[str, float]:
    p50, p99, p999 = np.quantile(seconds, (0.5, 0.99, 0.999)).tolist()
    return {"p50": p50, "p99": p99, "p999": p999, "maximum": float(seconds.max()), "long": int((seconds > LONG).sum())}


def _exceeded(seconds: Array) -> list[tuple[float, float]]:
    """(time, share of the steps that take at least as long), from the longest step down, evenly on a log axis."""
    ranks = np.unique(np.geomspace(1, len(seconds), 300).round().astype(np.intp))
    longest_first = -np.sort(-seconds)
    return [(float(longest_first[rank - 1]), float(rank / len(seconds))) for rank in ranks]


def _idle_for(seconds: float) -> Callable[[float, float, bool], None]:
    """Return a control step of about this length that computes without memory access."""
    turns = 1_000
    start = time.perf_counter()
    for _ in range(turns):
        pass
    turns = max(1, round(turns * seconds / (time.perf_counter() - start)))

    def idle(query: float, score: float, y: bool) -> None:
        for _ in range(turns):
            pass

    return idle


class _Collections:
    """Duration of each run of Python's garbage collector."""

    def __enter__(self) -> _Collections:
        self.seconds: list[float] = []
        gc.callbacks.append(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        gc.callbacks.remove(self._note)

    def _note(self, phase: str, _info: dict[str, int]) -> None:
        if phase == "start":
            self._start = time.perf_counter()
        else:
            self.seconds.append(time.perf_counter() - self._start)
