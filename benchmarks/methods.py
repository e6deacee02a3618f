"""What a step of every method costs, by the number of observations held.

    taskset -c 1 python -m benchmarks.methods                        # all; writes its tables to docs/performance.md
    python -m benchmarks.methods --picture                           # draws the picture there, 10² to 10⁵ observations
    taskset -c 1 python -m benchmarks.methods --room rooms           # those of several scores, classes, distributions
    taskset -c 1 python -m benchmarks.methods --room half-lives      # `platt` and `beta` under `Decay`
    python -m benchmarks.methods --methods platt "Dirichlet()" --sizes 1000 # some; prints only

A step is `learn_one` and then `predict_one` of another score, with default parameters; of one score, on a uniform
stream, of the others on those of `benchmarks.rooms`. Every step is timed by itself, so that rare slow ones are seen;
what the clock takes is taken off. Slow methods are given fewer steps, and sizes that they would not reach in the time
of a cell are left out.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from time import perf_counter, thread_time
from typing import Any

import numpy as np

from benchmarks.__main__ import DOCS, PAGE
from benchmarks.arrivals import Stream
from benchmarks.environment import environment, require_compiled
from benchmarks.plots import draw_methods
from benchmarks.report import fill, table
from benchmarks.rooms import SIZES as SIZES_OF_ROOMS
from benchmarks.rooms import SUBJECTS
from streamcal import Decay
from streamcal.calibrators.registry import REGISTRY

#: Methods whose steps under `Decay` depend on the half-life, the half-lives, and the observations held.
DECAYING, HALF_LIVES, HELD = ("platt", "beta"), (3.6, 10, 30, 100, 300, 1_000, 10_000), 10_000
SIZES, PICTURED = (1_000, 10_000, 100_000, 1_000_000), (100, 1_000, 10_000, 100_000)
PICTURE = "performance/methods.png"
#: Steps timed of a method at a size, at most, and the seconds after which no more are begun.
STEPS, SECONDS = 5_000, 2.0
#: Steps done before.
WARM_UP = 50
#: A median step longer than this, in seconds, is not followed by a larger size.
LONGEST = 1.0
SEED = 3


def measured(
    name: str,
    size: int,
    steps: int = STEPS,
    seconds: float = SECONDS,
    half_life: float | None = None,
    clock: Callable[[], float] = perf_counter,
) -> dict[str, Any]:
    """Median and 99th percentile of a step, in seconds, of a method that has learned `size` observations."""
    arrivals = steps + WARM_UP
    if name in SUBJECTS:
        subject = SUBJECTS[name]
        cal, sequence = subject.started(size, arrivals, SEED)
        times = timed(cal, sequence, seconds, thread_time, subject.use)
    else:
        stream = Stream(size, arrivals, SEED)
        cal = REGISTRY[name]() if half_life is None else REGISTRY[name](forgetting=Decay(half_life))
        cal.learn_many(*stream.start())
        times = timed(cal, stream.part(0, arrivals).steps, seconds, clock)
    # the first steps bring caches into their state, and solve for the first time: of slow methods, one of them
    kept = np.array(times[min(WARM_UP, len(times) // 3) :])
    return {
        "method": name,
        "size": size,
        "steps": len(kept),
        "minimum": float(kept.min()),
        "median": float(np.median(kept)),
        "p99": float(np.quantile(kept, 0.99)),
    }


def timed(
    cal: Any,
    steps: Iterable[tuple[Any, Any, Any]],
    seconds: float,
    clock: Callable[[], float],
    use: Callable[[Any], Any] | None = None,
) -> list[float]:
    """Time each step (query, observation, outcome) by a clock; start none after `seconds`."""
    times = []
    gc.collect()
    gc.disable()
    try:
        own, end = _cost(clock), perf_counter() + seconds
        for query, x, y in steps:
            start = clock()
            cal.learn_one(x, y)
            found = cal.predict_one(query)
            if use is not None:
                use(found)
            times.append(clock() - start - own)
            if perf_counter() > end and len(times) > 2:
                break
    finally:
        gc.enable()
    return times


def _cost(clock: Callable[[], float]) -> float:
    """Return the time of reading a clock twice."""
    pairs = [(clock(), clock()) for _ in range(10_000)]
    return median(second - first for first, second in pairs)


def methods(
    names: list[str], sizes: list[float], decaying: bool = False, clock: Callable[[], float] = perf_counter
) -> list[dict[str, Any]]:
    """Return the rows of all methods at all sizes, printed as they are measured; sizes are half-lives if `decaying`."""
    rows = []
    for name in names:
        for size in sizes:
            held, half_life = (HELD, size) if decaying else (int(size), None)
            row = {**measured(name, held, half_life=half_life, clock=clock), "size": size}
            rows.append(row)
            print(f"{name:30} {size:9,} {_us(row['median']):>12} {_us(row['p99']):>12}  {row['steps']:,}", flush=True)
            if row["median"] > LONGEST:
                break
    return rows


def section(rows: list[dict[str, Any]], about: dict[str, str]) -> str:
    """Write the table, methods down and sizes across: median (99th percentile) in microseconds."""
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
    """Measure the methods, and write the tables of a full run."""
    tables: dict[str, tuple[list[str], Sequence[float]]] = {
        "methods": (list(REGISTRY), SIZES),
        "rooms": (list(SUBJECTS), SIZES_OF_ROOMS),
        "half-lives": (list(DECAYING), HALF_LIVES),
    }
    parser = argparse.ArgumentParser(prog="python -m benchmarks.methods", description=__doc__.split("\n")[0])
    every = [*REGISTRY, *SUBJECTS]
    parser.add_argument("--methods", nargs="+", choices=every, metavar="NAME", help="these only")
    parser.add_argument("--sizes", type=int, nargs="+", metavar="N", help="observations held at the start")
    parser.add_argument("--room", choices=list(tables), help="one of the tables")
    parser.add_argument("--picture", action="store_true", help="draw the methods of one score")
    parser.add_argument("--processor", action="store_true", help="processor time, on a machine that is busy")
    given = parser.parse_args(arguments)
    require_compiled()
    if given.picture:
        rows = methods(given.methods or list(REGISTRY), list(given.sizes or PICTURED))
        draw_methods(rows, environment(SEED), DOCS / PICTURE)
        return
    for marker, (names, sizes) in tables.items():
        chosen = [name for name in names if given.methods is None or name in given.methods]
        if not chosen or given.room not in (None, marker):
            continue
        clock = thread_time if given.processor else perf_counter
        found = methods(chosen, sorted(given.sizes or sizes), marker == "half-lives", clock)
        text = section(found, environment(SEED))
        print(f"\n{text}")
        if not (given.methods or given.sizes):
            fill(DOCS / PAGE, {marker: text})


if __name__ == "__main__":
    main()
