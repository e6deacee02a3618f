"""What a step of every method of one score costs, by the number of observations held.

    taskset -c 1 python -m benchmarks.methods                        # all; writes its table to docs/performance.md
    python -m benchmarks.methods --methods platt beta --sizes 1000   # some; prints only

A step is `learn_one` and then `predict_one` of another score, with default parameters, on a uniform stream. Every step
is timed by itself, so that rare slow ones are seen; what the clock takes is taken off. Slow methods are given fewer
steps, and sizes that they would not reach in the time of a cell are left out.
"""

from __future__ import annotations

import argparse
import gc
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.__main__ import DOCS, PAGE
from benchmarks.arrivals import Stream
from benchmarks.environment import environment, require_compiled
from benchmarks.report import fill, table
from streamcal.calibrators.registry import REGISTRY

SIZES = (1_000, 10_000, 100_000, 1_000_000)
#: Steps timed of a method at a size, at most, and the seconds after which no more are begun.
STEPS, SECONDS = 5_000, 2.0
#: Steps done before.
WARM_UP = 50
#: A median step longer than this, in seconds, is not followed by a larger size.
LONGEST = 1.0
SEED = 3


def measured(name: str, size: int, steps: int = STEPS, seconds: float = SECONDS) -> dict[str, Any]:
    """Median and 99th percentile of a step, in seconds, of a method that has learned `size` observations."""
    stream = Stream(size, steps + WARM_UP, SEED)
    cal: Any = REGISTRY[name]()
    cal.learn_many(*stream.start())
    times = []
    gc.collect()
    gc.disable()
    try:
        clock = _clock()
        end = perf_counter() + seconds
        for query, score, y in stream.part(0, steps + WARM_UP).steps:
            start = perf_counter()
            cal.learn_one(score, y)
            cal.predict_one(query)
            now = perf_counter()
            times.append(now - start - clock)
            if now > end and len(times) > 2:
                break
    finally:
        gc.enable()
    # the first steps bring caches into their state, and solve for the first time: of slow methods, one of them
    kept = np.array(times[min(WARM_UP, len(times) // 3) :])
    return {
        "method": name,
        "size": size,
        "steps": len(kept),
        "median": float(np.median(kept)),
        "p99": float(np.quantile(kept, 0.99)),
    }


def _clock() -> float:
    """What reading the clock twice takes."""
    pairs = [(perf_counter(), perf_counter()) for _ in range(10_000)]
    return median(second - first for first, second in pairs)


def methods(names: list[str], sizes: list[int]) -> list[dict[str, Any]]:
    """The rows of all methods at all sizes, printed as they come."""
    rows = []
    for name in names:
        for size in sizes:
            row = measured(name, size)
            rows.append(row)
            print(f"{name:20} {size:9,} {_us(row['median']):>12} {_us(row['p99']):>12}  {row['steps']:,}", flush=True)
            if row["median"] > LONGEST:
                break
    return rows


def section(rows: list[dict[str, Any]], about: dict[str, str]) -> str:
    """The table, methods down and sizes across: median (99th percentile) in microseconds."""
    sizes = sorted({row["size"] for row in rows})
    found = {(row["method"], row["size"]): row for row in rows}
    lines = [
        (f"`{name}`", *(_cell(found.get((name, size))) for size in sizes))
        for name in dict.fromkeys(row["method"] for row in rows)
    ]
    note = f"Measured {about['date']} on {about['processor']}, {about['python']}; load average {about['load average']}."
    return f"{table(('µs: median (p99)', *(f'{size:,}' for size in sizes)), lines)}\n\n{note}"


def _cell(row: dict[str, Any] | None) -> str:
    return "" if row is None else f"{_us(row['median'])} ({_us(row['p99'])})"


def _us(seconds: float) -> str:
    us = seconds * 1e6
    return f"{us:.2f}" if us < 10.0 else f"{us:.1f}" if us < 100.0 else f"{us:,.0f}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.methods", description=__doc__.split("\n")[0])
    parser.add_argument("--methods", nargs="+", choices=list(REGISTRY), metavar="NAME", help="these only")
    parser.add_argument("--sizes", type=int, nargs="+", metavar="N", help="observations held at the start")
    given = parser.parse_args(arguments)
    require_compiled()
    rows = methods(given.methods or list(REGISTRY), sorted(given.sizes or SIZES))
    text = section(rows, environment(SEED))
    print(f"\n{text}")
    if not (given.methods or given.sizes):
        fill(DOCS / PAGE, {"methods": text})


if __name__ == "__main__":
    main()
