"""Cost of a step as a function of the number of distinct scores held, compared with methods that refit everything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from benchmarks.arrivals import KINDS, Stream
from benchmarks.plan import Plan
from benchmarks.rivals import INTERVALS, REFITS, River, disagreement
from benchmarks.subjects import SUBJECTS
from benchmarks.targets import OURS
from benchmarks.timing import Subject, Turns, arrivals, race

#: The rivals that have a step of their own.
STEPPING: dict[str, Callable[[Stream], Subject]] = {**SUBJECTS, "River, logistic regression": lambda stream: River()}
FLOOR, LIMIT = "SortedList", "no-op method call"


def ladder(plan: Plan) -> list[dict[str, Any]]:
    """Return a row for each size and subject: seconds per step and the ratios to the floor and to the limit."""
    rows = []
    for size in plan.sizes:
        found = _race(STEPPING, Stream(size, arrivals(plan.rounds), plan.seed), plan.rounds)
        rows += [_row(name, size, found) for name in found]
    return rows


def streams(plan: Plan) -> list[dict[str, Any]]:
    """Measure the tree and the floor at one size, on streams of other shapes."""
    rows = []
    for kind in KINDS:
        stream = Stream(plan.stream_size, arrivals(plan.rounds), plan.seed, kind)
        found = _race({name: SUBJECTS[name] for name in (OURS, FLOOR)}, stream, plan.rounds)
        rows.append({**_row(OURS, plan.stream_size, found), "stream": kind})
    return rows


def refits(plan: Plan) -> list[dict[str, Any]]:
    """Methods that refit everything for each prediction, timed together with the tree."""
    rows: list[dict[str, Any]] = []
    last: dict[str, tuple[int, float]] = {}
    for size in plan.refit_sizes:
        affordable = {
            name: build
            for name, build in REFITS.items()
            if name not in last or last[name][1] * size / last[name][0] <= plan.refit_seconds
        }
        stream = Stream(size, arrivals(plan.refit_rounds), plan.seed)
        found = _race({OURS: SUBJECTS[OURS], **affordable}, stream, plan.refit_rounds)
        for name in affordable:
            last[name] = (size, found[name].usual.median)
            gap = disagreement(stream, name) if name in INTERVALS and size == min(plan.refit_sizes) else None
            rival, ours = found[name], found[OURS]
            faster = {"faster": rival.usual.over(ours.usual), "faster_cold": rival.cold.over(ours.cold)}
            rows.append({**_row(name, size, found), **faster, "disagreement": gap})
    return rows


def growth(rows: list[dict[str, Any]]) -> dict[str, float]:
    """Least squares of the step of the tree on a + b·log₂² n, relative to the figures; the exponent of a power law."""
    points = [(row["size"], row["median"]) for row in rows if row["subject"] == OURS]
    sizes, seconds = (np.array(column, dtype=np.float64) for column in zip(*points, strict=True))
    basis = np.column_stack((np.ones_like(sizes), np.log2(sizes) ** 2)) / seconds[:, None]
    (a, b), *_ = np.linalg.lstsq(basis, np.ones_like(sizes), rcond=None)
    worst = float(np.abs(basis @ (a, b) - 1.0).max())
    exponent = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0]) if len(sizes) > 1 else 0.0
    return {"a": float(a), "b": float(b), "worst": worst, "exponent": exponent}


def _race(builders: Mapping[str, Callable[[Stream], Subject]], stream: Stream, rounds: int) -> dict[str, Turns]:
    return race({name: build(stream) for name, build in builders.items()}, stream, rounds)


def _row(name: str, size: int, found: dict[str, Turns]) -> dict[str, Any]:
    cold, usual = found[name]
    row = {"subject": name, "size": size, "minimum": usual.minimum, "median": usual.median, "cold": cold.median}
    for key, reference in (("floors", FLOOR), ("limits", LIMIT)):
        row[key] = usual.over(found[reference].usual) if reference in found else None
    return row
