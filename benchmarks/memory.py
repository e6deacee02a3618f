"""Bytes per distinct score, with each case measured in its own process."""

from __future__ import annotations

import ctypes
import gc
import multiprocessing
import sys
import tracemalloc
from typing import Any

from benchmarks.arrivals import Stream
from benchmarks.plan import Plan
from benchmarks.processes import resident
from streamcal import Calibrator, Forever, VennAbers, Window

#: What is measured: how the calibrator is filled.
CASES = ("tree, learn_many", "tree, learn_one", "window, learn_many")


def memory(plan: Plan) -> dict[str, Any]:
    """Growth of the resident memory per distinct score, and the bytes that a grid of 4,096 cells takes in all.

    Resident memory is what the operating system counts, so that nothing is left out: the allocator's own rounding
    is in it. A grid is too small for that and is measured by `tracemalloc`.
    """
    context = multiprocessing.get_context("spawn")
    with context.Pool(1, maxtasksperchild=1) as pool:
        found = {case: pool.apply(_growth, (case, plan.memory_size, plan.seed)) for case in CASES}
        grid = pool.apply(_grid_bytes, (2**12, plan.memory_size, plan.seed))
    return {"size": plan.memory_size, "bytes_per_score": found, "grid_4096_bytes": grid}


def _growth(case: str, size: int, seed: int) -> float:
    """Resident bytes per distinct score: what filling adds, once its temporary arrays are gone."""
    stream = Stream(size, 1, seed)
    scores, labels = stream.start()
    cal = VennAbers(forgetting=Window(size) if case.startswith("window") else Forever())
    VennAbers().learn_many(scores[:1000], labels[:1000])  # modules, code and small pools are there now
    before = _resident()
    if case.endswith("learn_one"):
        for first in range(0, size, 10_000):
            _learn_each(cal, scores[first : first + 10_000].tolist(), labels[first : first + 10_000].tolist())
    else:
        cal.learn_many(scores, labels)
    return (_resident() - before) / size


def _learn_each(cal: Calibrator, scores: list[float], labels: list[bool]) -> None:
    for score, y in zip(scores, labels, strict=True):
        cal.learn_one(score, y)


def _grid_bytes(cells: int, size: int, seed: int) -> int:
    """Bytes of a calibrator on a grid in which every cell is in use, as far as Python's allocators see them."""
    scores, labels = Stream(size, 1, seed).start()
    VennAbers(resolution=cells).learn_many(scores[:2], labels[:2])  # modules are imported when they are first used
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    cal = VennAbers(resolution=cells)
    cal.learn_many(scores, labels)
    cal.predict_one(0.5)
    gc.collect()
    return tracemalloc.get_traced_memory()[0] - before


def _resident() -> int:
    """Resident bytes of this process after free memory was returned to the system."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)
    return resident()
