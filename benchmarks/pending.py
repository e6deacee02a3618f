"""What pending labels cost: the click log with horizons of 6 and 24 hours, millions pending, `run` and `serve`.

    python -m benchmarks.pending                        # 25 minutes; writes a section of docs/late_labels_measured.md
    python -m benchmarks.pending --rows 200000 --pending 20000 --seconds 2    # shortened, prints only
    python -m benchmarks.pending --part pending --pending 100000000           # one part, prints only

Every line is measured in a process of its own. Impressions have whole numbers as ids, and enter a join in columns where
it takes them. A line that would need more than half of the memory available is left out.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime
import math
import multiprocessing
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import streamcal
from benchmarks import report, serving
from benchmarks.click_log import HOUR, MOST_HELD, SEED, WARM, Joined, Log, Sums, known
from benchmarks.plan import FULL, Plan
from benchmarks.processes import MB, peak, resident
from streamcal import Auto, OnlinePlatt
from streamcal.app.memory import available
from streamcal.live import Journal, LabelJoin, Multicalibrated, Segmented
from streamcal.live.joining import paused_collector

PAGE = Path(__file__).resolve().parents[1] / "docs" / "late_labels_measured.md"
HORIZONS = (6, 24)
METHODS: dict[str, Callable[[], Any]] = {"`OnlinePlatt()`": OnlinePlatt, "`Auto()`": Auto}
#: Seconds in which most clicks are reported, where a batch is half an hour.
EARLY = 2_400.0
#: Methods whose verbs are measured one by one and in columns, whether predictions have levels, and an early window.
IN_COLUMNS: dict[str, tuple[Callable[[], Any], bool, float | None]] = {
    "`OnlinePlatt()`": (OnlinePlatt, False, None),
    "`OnlinePlatt()`, `early`": (OnlinePlatt, False, EARLY),
    "`OnlinePlatt(discount=0.9995)`": (lambda: OnlinePlatt(discount=0.9995), False, None),
    "`Auto()`": (Auto, False, None),
    "`Segmented(OnlinePlatt(), ...)`": (lambda: Segmented(OnlinePlatt(), ["campaign"]), True, None),
    "`Segmented(OnlinePlatt(), ...)`, `early`": (lambda: Segmented(OnlinePlatt(), ["campaign"]), True, EARLY),
    '`Segmented("auto", ...)`': (lambda: Segmented("auto", ["campaign"]), True, None),
    "`Multicalibrated(OnlinePlatt(), ...)`": (lambda: Multicalibrated(OnlinePlatt(), ["campaign"]), True, None),
}
#: Impressions of each, and those of a batch.
EVENTS, PIECE = 20_000, 2_000
#: A join whose predictions are pending waits for this long.
LONG = 1e9
#: Impressions a batch where they wait, and the seconds between two of them.
BATCH, APART = 10_000, 0.001
SECONDS, SERVED = 20.0, 1_000_000
#: Rows that `run` reads of a day; its horizon, and those with which every label is pending at the end, and hardly one.
ROWS_OF_A_DAY, USUAL, ALL, NONE = 2_000_000, "1h", "1000d", "1s"


def each(cal: Any, horizon: float) -> Any:
    """Return a join that remembers each prediction."""
    return LabelJoin(cal, horizon, max_held=50 * MOST_HELD)


def counts(cal: Any, horizon: float) -> Any:
    """Return a join that counts predictions."""
    return LabelJoin(cal, horizon, pending="counts")


#: How predictions wait, by the name in the tables.
FORMS: dict[str, Callable[[Any, float], Any]] = {"each": each, "counts": counts}


# -- the click log -----------------------------------------------------------------------------------------------------


def log_line(form: str, method: str, horizon: int, rows: int) -> str:
    """Run the log through a join, and write the line of its table."""
    log, sums, share = Log(rows), Sums(), known(horizon * HOUR)
    for hour in range(24):  # one of them has the most impressions
        log.block(hour)
    before = peak()
    joined = Joined(FORMS[form](METHODS[method](), horizon * HOUR), horizon * HOUR)
    for hour, block in enumerate(log):
        p = joined(block)
        if hour >= WARM + horizon:
            sums.add(block, block, share * block.truth, np.ones(len(p)), p, share)
    excess, events, variance = np.array(sums.hours).T
    errors = excess / np.sqrt(variance)
    stages = " | ".join(f"{1e6 * seconds / rows:.2f}" for seconds in joined.seconds.values())
    return (
        f"| {form} | {method} | {horizon} h | {joined.most:,} | {(peak() - before) / MB:.0f} | {stages} | "
        f"{sums.regret / sums.impressions:.2f} | {1.0 + excess.sum() / events.sum():.3f} | "
        f"{np.sqrt((errors**2).mean()):.2f} |"
    )


LOG_HEAD = (
    "| pending | method | horizon | most waiting | MB | issue, µs | resolve, µs | learn, µs | regret | Σp / Σt | "
    "by hour |\n|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def log_table(rows: int) -> str:
    """Measure the click log by method and horizon; counts, whose memory does not depend on it, over the longest."""
    lines = [LOG_HEAD]
    print(LOG_HEAD, flush=True)
    measured = [*((horizon, "each") for horizon in HORIZONS), (max(HORIZONS), "counts")]
    for method, (horizon, form) in product(METHODS, measured):
        lines.append(run_alone(log_line, form, method, horizon, rows))
        print(lines[-1], flush=True)
    return "\n".join(lines)


# -- columns and loops -------------------------------------------------------------------------------------------------


class Verbs(NamedTuple):
    """Processor time of the verbs of a join in µs: one by one, and in columns."""

    issue: float
    issue_many: float
    resolve: float
    resolve_many: float


def verbs(method: str) -> Verbs:
    """Measure the verbs of a join on rows with levels, if its calibrator reads them; a fifth is clicked."""
    make, levels, early = IN_COLUMNS[method]
    rng = np.random.default_rng(SEED)
    scores, t = rng.beta(1.0, 5.0, EVENTS), np.arange(float(EVENTS))
    keys = [{"campaign": f"c{k % 50}"} for k in range(EVENTS)] if levels else None
    clicked = np.flatnonzero(rng.random(EVENTS) < 0.2)
    one, many, spent = LabelJoin(make(), 3600.0, early), LabelJoin(make(), 3600.0, early), np.zeros(4)
    for begin in range(0, EVENTS, PIECE):
        rows = slice(begin, begin + PIECE)
        some = clicked[(clicked >= begin) & (clicked < begin + PIECE)]
        given = list(zip(range(begin, begin + PIECE), scores[rows].tolist(), t[rows].tolist(), strict=True))
        start = [time.process_time()]
        for id, score, at in given:
            one.issue(id, score, at, keys=None if keys is None else keys[id])
        start.append(time.process_time())
        ids, some_keys = np.arange(begin, begin + PIECE), None if keys is None else keys[rows]
        many.issue_many(ids, scores[rows], t[rows], keys=some_keys)
        start.append(time.process_time())
        for id in some.tolist():
            one.resolve(id, True, id + 1.0)
        start.append(time.process_time())
        many.resolve_many(some, np.ones(len(some)), t[some] + 1.0)
        start.append(time.process_time())
        spent += np.diff(start)
    return Verbs(*(1e6 * spent / ([EVENTS] * 2 + [len(clicked)] * 2)).tolist())


def columns_table() -> str:
    """Measure the verbs of each method in a process of its own, the fastest of three."""
    lines = [
        "| method | `issue`, µs | `issue_many`, an impression | `resolve` | `resolve_many`, an outcome |\n"
        "|---|---:|---:|---:|---:|"
    ]
    print(lines[0], flush=True)
    for method in IN_COLUMNS:
        best = np.min([run_alone(verbs, method) for _ in range(3)], axis=0)
        lines.append(f"| {method} | " + " | ".join(f"{one:.1f}" for one in best) + " |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


# -- many predictions pending ------------------------------------------------------------------------------------------


class Grown(NamedTuple):
    """What a join with pending predictions takes, and its state where that is written."""

    bytes_each: float
    issue: float
    written: int = 0
    writing: float = 0.0
    reading: float = 0.0


def waiting(form: str, method: str, n: int) -> tuple[Any, float]:
    """Return a join in which predictions wait for their labels, and the processor time of `issue_many`."""
    rng, taken, join = np.random.default_rng(SEED), 0.0, FORMS[form](METHODS[method](), LONG)
    for first in range(0, n, BATCH):
        scores = 0.01 * rng.random(min(BATCH, n - first))
        t = APART * np.arange(first, first + len(scores))
        start = time.process_time()
        if form == "counts":
            join.issue_many(scores, t)
        else:
            join.issue_many(np.arange(first, first + len(scores)), scores, t)
        taken += time.process_time() - start
    return join, taken


def grown(form: str, method: str, n: int, writes: bool) -> Grown:
    """Let predictions wait for their labels, and write and read the state where there is room for it."""
    before, (join, taken) = resident(), waiting(form, method, n)
    size, issue = (resident() - before) / n, 1e6 * taken / n
    if not writes:
        return Grown(size, issue)
    start = time.process_time()
    state = join.to_bytes()
    written = time.process_time()
    type(join).from_bytes(state)
    return Grown(size, issue, len(state), written - start, time.process_time() - written)


PENDING_HEAD = (
    "| pending | method | predictions | bytes each | MB | issue, µs | state, MB | write, s | read, s |\n"
    "|---|---|---:|---:|---:|---:|---:|---:|---:|"
)


def pending_table(most: int) -> str:
    """Measure joins with a hundredth, a tenth and all of the predictions pending."""
    lines = [PENDING_HEAD]
    print(PENDING_HEAD, flush=True)
    for method, form in product(METHODS, FORMS):
        expected = 0.0
        for n in (most // 100, most // 10, most):
            room = available() or math.inf
            if expected * n > 0.8 * room:
                break
            writes = 3.0 * expected * n <= 0.5 * room  # the state, and a second join that reads it
            measured = run_alone(grown, form, method, n, writes)
            expected = measured.bytes_each
            state = f"{measured.written / 2**20:,.1f} | {measured.writing:.2f} | {measured.reading:.2f}"
            lines.append(
                f"| {form} | {method} | {n:,} | {measured.bytes_each:.0f} | {measured.bytes_each * n / 2**20:,.0f} | "
                f"{measured.issue:.2f} | {state if measured.written else '– | – | –'} |"
            )
            print(lines[-1], flush=True)
    return "\n".join(lines)


# -- a restart ---------------------------------------------------------------------------------------------------------

RESTART_HEAD = (
    "| method | predictions | MB | stop, s | most memory, times | start, s | most memory, times | journal, MB |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|"
)


def stopped(method: str, n: int, path: str) -> tuple[float, float, float]:
    """Let predictions wait, and write a snapshot of them to a journal; return bytes, seconds and the most bytes."""
    before, (join, _) = resident(), waiting("each", method, n)
    size, start = resident() - before, time.process_time()
    with Journal(path) as journal, paused_collector():
        journal.snapshot(join._parts())
    return size, time.process_time() - start, peak() - before


def started(method: str, path: str) -> tuple[float, float]:
    """Resume a join from a journal; return seconds and the most bytes."""
    before, start = resident(), time.process_time()
    with Journal(path) as journal:
        join = LabelJoin(METHODS[method](), LONG, journal=journal, max_held=50 * MOST_HELD)
        assert join.waiting > 0
        return time.process_time() - start, peak() - before


def restart_table(n: int) -> str:
    """Stop and start joins with all these predictions pending, each in a process of its own."""
    lines = [RESTART_HEAD]
    print(RESTART_HEAD, flush=True)
    for method in METHODS:
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder, "join.journal"))
            size, stop, most = run_alone(stopped, method, n, path)
            start, again = run_alone(started, method, path)
            lines.append(
                f"| {method} | {n:,} | {size / MB:,.0f} | {stop:.1f} | {most / size:.2f} | {start:.1f} | "
                f"{again / size:.2f} | {os.path.getsize(path) / MB:,.0f} |"
            )
        print(lines[-1], flush=True)
    return "\n".join(lines)


# -- the command `run` -------------------------------------------------------------------------------------------------

RUN_HEAD = (
    "| method | rows | rows per second | processor time, s | bytes for a pending prediction |\n"
    "|---|---:|---:|---:|---:|"
)


def day(path: Path, n: int) -> None:
    """Write a day of impressions to a Parquet file; clicks come ten minutes later in the mean."""
    rng = np.random.default_rng(SEED)
    issued = np.sort(86_400.0 * rng.random(n))
    scores = rng.beta(1.0, 5.0, n)
    clicked = rng.random(n) < scores
    outcome = pa.array(issued + rng.exponential(600.0, n), mask=~clicked)
    columns = {"id": np.arange(n), "t": issued, "score": scores, "click": clicked, "click_t": outcome}
    pq.write_table(pa.table(columns), path)


class Ran(NamedTuple):
    """What a run says of its pace, its processor time with the start, and the most bytes that it had in memory."""

    pace: str
    seconds: float
    most: int


def ran(method: str, path: Path, n: int, horizon: str) -> Ran:
    """Let `streamcal run` read a day, as the only other process that this one starts."""
    columns = ("--score", "score", "--label", "click", "--id", "id", "--event-time", "t", "--label-time", "click_t")
    options = ("--method", method, "--horizon", horizon, "--max-held", str(n + 2), "--out", f"{path}.out.parquet")
    command = [sys.executable, "-m", "streamcal", "run", str(path), *columns, *options]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    pace = re.search(r"([\d,]+) rows per second", printed)
    assert pace is not None, printed
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Ran(pace[1], used.ru_utime + used.ru_stime, 1024 * used.ru_maxrss)


def run_table(n: int) -> str:
    """Run over a day with late labels: the pace, and what memory grows by where all labels are pending at the end."""
    lines = [RUN_HEAD]
    print(RUN_HEAD, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "day.parquet")
        day(path, n)
        for method in ("online-platt", "auto"):
            usual, all_pending, none = (run_alone(ran, method, path, n, horizon) for horizon in (USUAL, ALL, NONE))
            each = (all_pending.most - none.most) / n
            lines.append(f"| `{method}` | {n:,} | {usual.pace} | {usual.seconds:.1f} | {each:.0f} |")
            print(lines[-1], flush=True)
    return "\n".join(lines)


# -- the service -------------------------------------------------------------------------------------------------------

SERVED_HEAD = (
    "| method | predictions held | MB | one at a time, p50, ms | p99, ms | lists of 100, p50, ms | p99, ms |\n"
    "|---|---:|---:|---:|---:|---:|---:|"
)


def served_line(method: str, held: int, seconds: float) -> str:
    """Ask a service that holds predictions at a steady pace, and write the line of its table."""
    options = ("--horizon", "6h", "--method", method, "--max-held", str(2 * max(held, 100_000)), "--memory")
    with tempfile.TemporaryDirectory() as folder, serving.server(folder, *options) as (pid, port):
        fill = serving.Load(1_000, 1)
        if held:
            asyncio.run(serving.client(port, "fill", fill, math.inf, held // fill.items))
        size = resident(pid) / MB

        async def both() -> list[list[tuple[float, float]]]:
            return await asyncio.gather(*(serving.paced(port, items, seconds) for items in (1, 100)))

        taken = [np.array(one)[:, 1] for one in asyncio.run(both())]
    cells = [f"{1e3 * np.quantile(one, level):.1f}" for one in taken for level in (0.5, 0.99)]
    return f"| `{method}` | {held:,} | {size:.0f} | {' | '.join(cells)} |"


def served_table(held: int, seconds: float) -> str:
    """Measure the service with none and with many predictions held."""
    lines = [SERVED_HEAD]
    print(SERVED_HEAD, flush=True)
    for method, n in product(("online-platt", "auto"), (0, held)):
        lines.append(served_line(method, n, seconds))
        print(lines[-1], flush=True)
    return "\n".join(lines)


# -- the page ----------------------------------------------------------------------------------------------------------


def run_alone(work: Callable[..., Any], *given: Any) -> Any:
    """Return what a function returns in a new process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, given)


PARTS = {
    "log": "The click log of [long streams](long_streams.md#a-click-log)",
    "columns": "Verbs one by one and in columns, processor time",
    "pending": "Predictions whose labels are all pending",
    "restart": "Stop and start with a journal, processor time",
    "run": "`streamcal run` over a day in Parquet: pace with a horizon of an hour, bytes with all labels pending",
    "serve": "`streamcal serve` without a journal, asked at a steady pace",
}


def tables(rows: int, pending: int, seconds: float, only: str | None = None) -> Iterator[str]:
    """Measure every part, or one, and yield its text."""
    measured = {
        "log": lambda: log_table(rows),
        "columns": columns_table,
        "pending": lambda: pending_table(pending),
        "restart": lambda: restart_table(pending),
        "run": lambda: run_table(min(pending, ROWS_OF_A_DAY)),
        "serve": lambda: served_table(min(pending, SERVED), seconds),
    }
    begun = time.perf_counter()
    for name, what in PARTS.items():
        if only in (None, name):
            print(f"{name}, after {(time.perf_counter() - begun) / 60:.0f} min", file=sys.stderr, flush=True)
            yield f"**{what}:**\n\n{measured[name]()}"


def section(rows: int, pending: int, seconds: float) -> dict[str, str]:
    """Return the text of the page, by its marker."""
    found = list(tables(rows, pending, seconds))
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    stated = (
        f"`python -m benchmarks.pending`, {rows:,} rows of the log; {datetime.date.today()}, streamcal "
        f"{streamcal.__version__}, load averages {load} at the end."
    )
    return {"pending": "\n\n".join([*found, stated])}


def pending(plan: Plan) -> dict[str, str]:
    """Measure what a plan asks for."""
    return section(plan.log_rows, plan.pending, SECONDS if plan.log_rows == FULL.log_rows else 1.0)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and write the section of a full run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, metavar="N", help=f"of the log, default {FULL.log_rows:,}; prints only")
    parser.add_argument("--pending", type=int, metavar="N", help=f"predictions, default {FULL.pending:,}; prints only")
    parser.add_argument("--seconds", type=float, help=f"of each line of the service, default {SECONDS:g}; prints only")
    parser.add_argument("--part", choices=tuple(PARTS), help="measure this part; prints only")
    given = parser.parse_args(arguments)
    sizes = (given.rows or FULL.log_rows, given.pending or FULL.pending, given.seconds or SECONDS)
    if given.part:
        list(tables(*sizes, given.part))
        return
    text = section(*sizes)
    if (given.rows, given.pending, given.seconds) == (None, None, None):
        report.fill(PAGE, text)


if __name__ == "__main__":
    main()
