"""Bulk operations: filling a tree, and the throughput of grids."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import Any

from benchmarks.arrivals import Stream
from benchmarks.plan import Plan
from streamcal import (
    Bernstein,
    Calibrator,
    HistogramBinning,
    Isotonic,
    Logit,
    OnlinePlatt,
    Platt,
    Probability,
    VennAbers,
)

#: Observations in the arrays given to the grids: they and the temporaries should fit the cache of a processor.
CHUNKS = (16_384, 1_000_000)

#: Calibrators on a logit grid of 4,096 cells: on the probability scale the cells are equally wide in log-odds.
GRIDS: dict[str, Callable[[], Calibrator]] = {
    "HistogramBinning()": HistogramBinning,
    "Isotonic(resolution=4096)": lambda: Isotonic(resolution=4096),
    "VennAbers(resolution=4096)": lambda: VennAbers(resolution=4096),
    "Platt(scale=Probability())": lambda: Platt(scale=Probability()),
    "Platt()": lambda: Platt(scale=Logit()),
}
#: Methods without a grid.
OTHERS: dict[str, Callable[[], Calibrator]] = {
    "Bernstein(20)": lambda: Bernstein(20),
    "OnlinePlatt()": OnlinePlatt,
}


def bulk(plan: Plan) -> dict[str, Any]:
    """Seconds to fill an empty exact tree, and observations per second of grids, input checks included."""
    stream = Stream(plan.bulk_size, 1, plan.seed)
    fill = [_seconds(VennAbers(), stream, plan.bulk_size) for _ in range(plan.bulk_rounds)]
    rows = [
        _throughput(name, build(), stream, chunk, plan.bulk_rounds)
        for name, build in {**GRIDS, **OTHERS}.items()
        for chunk in CHUNKS
        if chunk <= plan.bulk_size
    ]
    return {"size": plan.bulk_size, "fill": {"minimum": min(fill), "median": median(fill)}, "throughput": rows}


def _throughput(name: str, cal: Calibrator, stream: Stream, chunk: int, rounds: int) -> dict[str, Any]:
    """Millions of observations per second, of the median round. Solving the map is not part of predicting many."""
    scores, labels = (column[:chunk] for column in stream.start())
    repeats = max(1, 400_000 // chunk)
    learning, predicting = [], []
    for _ in range(rounds):
        start = perf_counter()
        for _ in range(repeats):
            cal.learn_many(scores, labels)
        learning.append((perf_counter() - start) / repeats)
        cal.predict_many(scores[:10])
        start = perf_counter()
        for _ in range(repeats):
            cal.predict_many(scores)
        predicting.append((perf_counter() - start) / repeats)
    learn, predict = chunk / median(learning) / 1e6, chunk / median(predicting) / 1e6
    return {"calibrator": name, "chunk": chunk, "learn_many": learn, "predict_many": predict}


def _seconds(cal: Calibrator, stream: Stream, size: int) -> float:
    scores, labels = stream.start()
    start = perf_counter()
    cal.learn_many(scores[:size], labels[:size])
    return perf_counter() - start
