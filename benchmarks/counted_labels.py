"""What a `CountedJoin` takes, and how far its predictions are from those of a `LabelJoin`.

    python -m benchmarks.counted_labels                # some minutes; writes docs/counted_labels_measured.md
    python -m benchmarks.counted_labels --quick        # shortened, prints only
    python -m benchmarks.counted_labels --part memory  # one of distance, memory and cost

The distance is measured on the streams of `benchmarks.late_labels`: 60,000 impressions in 72 hours with late clicks,
whose rate doubles after 36 hours. The memory is that of 10⁶ to 10⁸ impressions in a horizon of a day, and as many whose
labels were learned in the day before; 1 % of them are clicked.
"""

from __future__ import annotations

import argparse
import datetime
import re
import time
from collections.abc import Callable
from heapq import heappop, heappush
from pathlib import Path
from typing import Any

import numpy as np

import streamcal
from benchmarks.late_labels import EARLY, HORIZON, MARKS, SEED, Array, Stream, joined, stream
from benchmarks.processes import MB, resident
from streamcal import Auto, Isotonic, OnlinePlatt
from streamcal.live import CountedJoin

PAGE = Path(__file__).resolve().parents[1] / "docs" / "counted_labels_measured.md"
KEY = b"the key of a benchmark"
STREAMS, DAY, BATCH = 5, 86_400.0, 100_000
CALIBRATORS: dict[str, Callable[[], Any]] = {
    "`OnlinePlatt(discount=0.9995)`": lambda: OnlinePlatt(discount=0.9995),
    "`Auto()`": Auto,
}


# -- distance ----------------------------------------------------------------------------------------------------------


def counted(calibrator: Any, given: Stream, early: float | None) -> Array:
    """Return the probabilities that a join serves that counts."""
    join, coming = CountedJoin(calibrator, HORIZON, early=early, key=KEY), []
    p = np.empty(len(given.t))
    for k, (now, score) in enumerate(zip(given.t.tolist(), given.score.tolist(), strict=True)):
        while coming and coming[0][0] <= now:
            when, _, token = heappop(coming)
            join.resolve(token, True, when)
        p[k], token = join.issue(score, now)
        if given.click[k]:
            heappush(coming, (now + float(given.delay[k]), k, token))
    return p


def losses(p: Array, y: Array) -> Array:
    """Return the log loss of each prediction in nats."""
    return -np.log(np.where(y, p, 1.0 - p))


def distance_table(streams: int) -> str:
    """Compare what both joins serve, stream by stream."""
    lines = [
        "| | early | log loss of `LabelJoin` | of `CountedJoin` | difference | largest of a stream "
        "| 99 % of log-odds |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for name, make in CALIBRATORS.items():
        for early in (None, EARLY):
            plain, other, apart = [], [], []
            for seed in range(streams):
                for cycle in (False, True):
                    given = stream(seed, cycle)
                    y = given.click & (given.delay <= HORIZON)
                    p, q = joined(make(), given, early), counted(make(), given, early)
                    plain.append(losses(p, y).mean())
                    other.append(losses(q, y).mean())
                    served = given.t > 2.0 * HORIZON
                    odds = np.abs(np.log(q / (1.0 - q)) - np.log(p / (1.0 - p)))[served]
                    apart.append(np.quantile(odds, 0.99))
            gaps = np.array(other) - np.array(plain)
            lines.append(
                f"| {name} | {'–' if early is None else '15 min'} | {np.mean(plain):.5f} | {np.mean(other):.5f} | "
                f"{gaps.mean():+.5f} | {gaps[np.argmax(np.abs(gaps))]:+.5f} | {np.mean(apart):.3f} |"
            )
            print(lines[-1], flush=True)
    return "\n".join(lines)


# -- memory and cost ---------------------------------------------------------------------------------------------------


def memory_row(name: str, make: Callable[[], Any], number: int) -> str:
    """Issue this many impressions in each of two horizons, and measure what the join takes then."""
    rng, join, before = np.random.default_rng(SEED), CountedJoin(make(), DAY, key=KEY), resident()
    batch, spent, clicks = min(BATCH, number // 200), 0.0, 0.0
    for start in range(0, 2 * number, batch):
        scores = 1.0 / (1.0 + np.exp(4.0 - rng.normal(0.0, 1.0, batch)))
        t = (start + np.arange(batch)) * (DAY / number)
        begin = time.process_time()
        answers = join.issue_many(scores, t)
        spent += time.process_time() - begin
        tokens = answers.tokens[rng.random(batch) < 0.01]
        begin = time.process_time()
        join.resolve_many(tokens, True, float(t[-1]))
        clicks += time.process_time() - begin
    tally = join.tally()
    return (
        f"| {name} | {number:,} | {join.rows:,} | {join.nbytes / 2**20:.1f} | {(resident() - before) / MB:.0f} | "
        f"{join.filter_error:.1g} | {1e6 * spent / (2 * number):.2f} | {1e6 * clicks / (0.02 * number):.1f} | "
        f"{tally['learned']:,} |"
    )


def memory_table(numbers: tuple[int, ...]) -> str:
    """Measure the memory by the number of impressions in a horizon."""
    lines = [
        "| | impressions a day | rows | MB of counts | MB more in the process | error of the filter "
        "| µs an impression, learning included | µs a click | learned |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, make in (("`OnlinePlatt()`", OnlinePlatt), ("`Isotonic(resolution=4096)`", coarse)):
        for number in numbers:
            lines.append(memory_row(name, make, number))
            print(lines[-1], flush=True)
    lines.append(memory_row("`Auto()`", Auto, numbers[0]))
    print(lines[-1], flush=True)
    return "\n".join(lines)


def coarse() -> Isotonic:
    """Return a method on a grid."""
    return Isotonic(resolution=4_096)


def cost_table(n: int) -> str:
    """Measure the processor time of each call, one by one and in columns, and the method's own."""
    lines = [
        "| | `predict_one` | `issue` | `issue_many`, an impression | `resolve` | `resolve_many`, a click |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    rng = np.random.default_rng(SEED)
    scores, t = 1.0 / (1.0 + np.exp(4.0 - rng.normal(0.0, 1.0, n))), np.arange(n) * (0.9 * HORIZON / n)
    for name, make in (("`OnlinePlatt()`", OnlinePlatt), ("`Auto()`", Auto)):
        calibrator = make()
        calibrator.learn_many(scores[:1_000], rng.random(1_000) < scores[:1_000])
        one, many = CountedJoin(calibrator, HORIZON), CountedJoin(calibrator.clone(), HORIZON)
        each, times = scores.tolist(), t.tolist()
        took = [clocked(lambda: [calibrator.predict_one(score) for score in each])]  # noqa: B023
        tokens: list[str] = []
        rows = list(zip(each, times, strict=True))
        took.append(clocked(lambda: tokens.extend(one.issue(*row).token for row in rows)))  # noqa: B023
        took.append(clocked(lambda: many.issue_many(scores, t)))  # noqa: B023
        some = tokens[::20]
        took.append(20 * clocked(lambda: [one.resolve(token, True, HORIZON) for token in some]))  # noqa: B023
        again = CountedJoin(calibrator, HORIZON)
        found = again.issue_many(scores, t).tokens[::20]
        again.resolve_many(found[:1], True, HORIZON)  # NumPy is imported piece by piece
        took.append(20 * clocked(lambda: again.resolve_many(found, True, HORIZON)))  # noqa: B023
        lines.append(f"| {name} | {' | '.join(f'{1e6 * one_of / n:.2f} µs' for one_of in took)} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def clocked(call: Callable[[], object]) -> float:
    """Return the processor time of a call in seconds."""
    begin = time.process_time()
    call()
    return time.process_time() - begin


# -- the page ----------------------------------------------------------------------------------------------------------


def write(mark: str, text: str) -> None:
    """Replace what is between the marks of the page."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(re.sub(MARKS.format(mark, mark), lambda _: text + "\n", page, flags=re.DOTALL), encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    """Run the measurements, and print or write their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="shortened; prints only")
    parser.add_argument("--part", choices=("distance", "memory", "cost"), help="only this one")
    given = parser.parse_args(arguments)
    parts: dict[str, Callable[[], str]] = {
        "distance": lambda: distance_table(1 if given.quick else STREAMS),
        "memory": lambda: memory_table((20_000,) if given.quick else (1_000_000, 10_000_000, 100_000_000)),
        "cost": lambda: cost_table(10_000 if given.quick else 100_000),
    }
    now = datetime.date.today()
    stated = f"`python -m benchmarks.counted_labels`, {now}, streamcal {streamcal.__version__}, seed {SEED}"
    for mark, table in parts.items():
        if given.part in (None, mark):
            text = table()
            if not given.quick:
                write(mark, f"\n{text}\n\n{stated}.\n")


if __name__ == "__main__":
    main()
