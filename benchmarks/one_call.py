"""A stream in one call: `predict_learn_many`, beside a Python loop and beside the steps of the kernel alone."""

from __future__ import annotations

import gc
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from statistics import median
from time import thread_time
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.arrivals import Stream
from benchmarks.plan import Plan
from streamcal import (
    Auto,
    Bernstein,
    Beta,
    Calibrator,
    Decay,
    Gaussian,
    HedgedOPS,
    HistogramBinning,
    Identity,
    Isotonic,
    OnlineBeta,
    OnlinePlatt,
    Platt,
    Protected,
    TrackingOPS,
    VennAbers,
    Window,
)
from streamcal.calibrators.sequential import SequentialCalibrator

Floats = npt.NDArray[np.float64]
#: Rows of a call: what a job that reads a file in batches hands over.
CHUNK = 10_000


class Subject(NamedTuple):
    """A calibrator, and what a row may take: nanoseconds of the call, or a multiple of the kernel's own step."""

    name: str
    make: Callable[[], Calibrator]
    most: float | None = None
    times: float | None = None
    chunk: int = CHUNK


#: Methods with a compiled loop, to be measured under these policies.
FORGETTING: dict[str, Callable[..., Calibrator]] = {
    "VennAbers(": VennAbers,
    "Bernstein(20": partial(Bernstein, 20),
    "Platt(": Platt,
    "HistogramBinning(": HistogramBinning,
}
POLICIES = {
    "Window(50_000)": Window(50_000),
    "Decay(10_000)": Decay(10_000),
    'Decay(10_000, by="time")': Decay(10_000, by="time"),
}
SUBJECTS = [
    Subject("Identity()", Identity),
    Subject("OnlinePlatt()", OnlinePlatt, 60),
    Subject("OnlineBeta()", OnlineBeta, 60),
    Subject("TrackingOPS()", TrackingOPS, 150),
    Subject("HedgedOPS()", HedgedOPS, 150),
    Subject("Protected()", Protected, 150),
    Subject("Auto()", Auto, 2_500, chunk=500),
    Subject("Auto(48)", lambda: Auto(48), 2_500, chunk=500),
    Subject("Isotonic()", Isotonic, times=1.05),
    Subject("Isotonic(resolution=4096)", lambda: Isotonic(resolution=4096), 800),
    Subject("VennAbers()", VennAbers, times=1.05),
    Subject("VennAbers(resolution=4096)", lambda: VennAbers(resolution=4096), 800),
    Subject("Bernstein(20)", lambda: Bernstein(20), 1_200),
    Subject("Platt()", Platt),
    Subject("Beta()", Beta),
    Subject("HistogramBinning()", HistogramBinning),
    Subject("Gaussian()", Gaussian),
    *(
        Subject(f"{name}, forgetting={shown})".replace("(, ", "("), partial(make, forgetting=policy))
        for name, make in FORGETTING.items()
        for shown, policy in POLICIES.items()
    ),
]


def one_call(plan: Plan) -> dict[str, Any]:
    """Processor seconds of a row: of the call, of a Python loop, and of the kernel where it is alone."""
    stream = Stream(plan.call_size, CHUNK * plan.call_rounds, plan.seed)
    rows = [_measured(one, stream, plan) for one in SUBJECTS]
    return {"date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC", "size": plan.call_size, "chunk": CHUNK, "rows": rows}


def _measured(subject: Subject, stream: Stream, plan: Plan) -> dict[str, Any]:
    """Return the least time of each of the three ways over all rounds, each on its own calibrator with the same past.

    The ratio to the kernel is the median over the rounds, because trees grow meanwhile.
    """
    ways = {"call": _call, "loop": _loop, "kernel": _kernel}
    held = 5_000 if subject.name.startswith("Auto") else stream.held  # its step does not grow
    cals = {way: subject.make() for way in ways}
    for cal in cals.values():
        cal.learn_many(stream.scores[:held], stream.labels[:held], t=_times(cal, 0, held))
    taken: dict[str, list[float]] = {way: [] for way in ways}
    gc.collect()
    gc.disable()
    try:
        for k in range(plan.call_rounds):
            rows = slice(held + k * subject.chunk, held + (k + 1) * subject.chunk)
            for way, run in ways.items():
                times = _times(cals[way], rows.start, rows.stop)
                step = run(cals[way], stream.scores[rows], stream.labels[rows], times)
                if step is not None:
                    start = thread_time()
                    step()
                    taken[way].append((thread_time() - start) / subject.chunk)
    finally:
        gc.enable()
    least = {way: min(times, default=None) for way, times in taken.items()}
    ratios = [call / kernel for call, kernel in zip(taken["call"], taken["kernel"], strict=False)]
    over = median(ratios) if ratios else None
    return {"subject": subject.name, **least, "over_kernel": over, "most": subject.most, "times": subject.times}


def _times(cal: Any, start: int, stop: int) -> Floats | None:
    """One time a row, where times are read."""
    return np.arange(float(start), float(stop)) if cal.forgets_by_time else None


def _call(cal: Any, scores: Floats, labels: Any, times: Floats | None) -> Callable[[], Any]:
    """With intervals where there are any."""
    verb = cal.predict_interval_learn_many if cal.has_interval else cal.predict_learn_many
    return lambda: verb(scores, labels, t=times)


def _loop(cal: Any, scores: Floats, labels: Any, times: Floats | None) -> Callable[[], Any]:
    predict = cal.predict_interval_one if cal.has_interval else cal.predict_one
    at = [None] * len(scores) if times is None else times.tolist()
    learn, rows = cal.learn_one, list(zip(scores.tolist(), labels.tolist(), at, strict=True))

    def steps() -> None:
        for score, y, t in rows:
            predict(score, t=t)
            learn(score, y, t=t)

    return steps


def _kernel(cal: Any, scores: Floats, labels: Any, times: Floats | None) -> Callable[[], Any] | None:
    """Return a call of the kernel's prediction and update for each row in C, without checks; None if impossible."""
    y, w, found, none = labels.astype(np.float64), np.ones(len(scores)), np.empty((2, len(scores))), np.empty(0)
    if isinstance(cal, Auto | Identity | Platt | Beta | HistogramBinning | Gaussian):
        return None
    if isinstance(cal, SequentialCalibrator):
        times = cal._times(None, len(scores))
        return lambda: cal._stream(scores, y, w, times, found[0])
    if not cal._engine.memory.steady or isinstance(cal.forgetting, Window):
        return None
    if isinstance(cal, Bernstein):
        cal._watch(cal._sums)
        return lambda: cal._loop.run(scores, y, w, none, none, none, len(scores), 0, found[0])
    x = scores if cal.resolution is None else cal._engine.memory.statistic.grid.rounds(scores)
    ends = (found[0], found[1] if cal.has_interval else none)
    return lambda: cal._engine.memory.statistic._tree.stream(x, y, w, w, none, none, none, len(scores), *ends)
