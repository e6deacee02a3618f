"""`Multicalibrated` on real and simulated streams: the log loss, the worst gap of any group, and what it costs.

    STREAMCAL_DATA=/path/to/data python -m benchmarks.multicalibration    # some ten minutes; writes the page of results
    STREAMCAL_DATA=/path/to/data python -m benchmarks.multicalibration --rows 8000    # shortened, prints only
    python -m benchmarks.multicalibration --cost    # cost and memory alone

Streams, bases and fields are those of `benchmarks.segments`. Every probability is predicted before its outcome is
learned, cold start included. Groups are all rows, the levels of the fields, the bins of width 1 of the log-odds that
come in, and those within each level. The gap of a group is Σ(y − p), and z is the gap over √Σp(1 − p), of groups with
Σp(1 − p) ≥ 5; once at the end of the stream, and once over every window of 5,000 rows that begins at a multiple of
1,000.
"""

from __future__ import annotations

import argparse
import datetime
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy.special import logit

import streamcal
from benchmarks.segments import Stream, streams
from benchmarks.streams.tables import Array
from streamcal import Auto, OnlinePlatt
from streamcal.live import Multicalibrated, Segmented

PAGE = Path(__file__).resolve().parents[1] / "docs" / "multicalibration_measured.md"
WINDOW, STEP, LEAST = 5_000, 1_000, 5.0
#: Rows whose labels come late in the table of late labels.
DELAY = 500
#: Groups of an observation, and groups held.
ACTIVE, HELD = (5, 12, 20, 40), (10_000, 100_000, 1_000_000)
BASES = ("raw", "OnlinePlatt", "Auto", "Segmented(Auto)", "Segmented(Auto), pairs")


# -- measures ----------------------------------------------------------------------------------------------------------


def codes(values: list[str | int]) -> Array:
    """Levels as numbers from 0."""
    return np.unique(np.array(values, dtype=object).astype(str), return_inverse=True)[1].astype(np.int64)


def groups(stream: Stream, z: Array) -> Iterator[Array]:
    """The group of each row, family by family."""
    bins = np.floor(logit(np.clip(z, 2.0**-52, 1.0 - 2.0**-52))).astype(np.int64) + 40
    yield np.zeros(len(z), dtype=np.int64)
    yield bins
    for levels in stream.fields.values():
        found = codes(levels)
        yield found
        yield 100 * found + bins


def worst(p: Array, stream: Stream, z: Array) -> tuple[float, float]:
    """The largest |z| of a group at the end, and over any window."""
    end = within = 0.0
    block = np.arange(len(p)) // STEP
    blocks, p = int(block[-1]) + 1, np.clip(p, 2.0**-52, 1.0 - 2.0**-52)
    for family in groups(stream, z):
        group = np.unique(family, return_inverse=True)[1]
        cell, shape = group * blocks + block, (int(group.max()) + 1, blocks)
        gap, variance = (
            np.bincount(cell, one, shape[0] * blocks).reshape(shape) for one in (stream.y - p, p * (1.0 - p))
        )
        end = max(end, largest(gap.sum(axis=1), variance.sum(axis=1)))
        size = min(WINDOW // STEP, blocks)
        rolling = [np.lib.stride_tricks.sliding_window_view(one, size, axis=1).sum(axis=2) for one in (gap, variance)]
        within = max(within, largest(*rolling))
    return end, within


def largest(gap: Array, variance: Array) -> float:
    """The largest |z| among groups of enough variance."""
    kept = variance >= LEAST
    return float((np.abs(gap[kept]) / np.sqrt(variance[kept])).max()) if kept.any() else 0.0


# -- tables ------------------------------------------------------------------------------------------------------------


def forecasts(stream: Stream) -> dict[str, Array]:
    """What comes in, by base."""
    auto = Auto().predict_learn_many(stream.scores, stream.y)
    names = list(stream.fields)
    return {
        "raw": stream.scores,
        "OnlinePlatt": OnlinePlatt().predict_learn_many(stream.scores, stream.y),
        "Auto": auto,
        "Segmented(Auto)": Segmented("identity", names).predict_learn_many(auto, stream.fields, stream.y),
        "Segmented(Auto), pairs": Segmented("identity", names, pairs=True).predict_learn_many(
            auto, stream.fields, stream.y
        ),
    }


class Found:
    """What was measured of a base on a stream."""

    def __init__(self, stream: Stream, z: Array) -> None:
        cal = Multicalibrated("identity", list(stream.fields))
        p = cal.predict_learn_many(z, stream.fields, stream.y)
        self.certificate = cal.certificate()
        self.loss = -1e4 * self.certificate.gain / len(p)
        self.late = late(stream, z) if len(p) > 4 * DELAY else 0.0
        self.before, self.after = worst(z, stream, z), worst(p, stream, z)

    def __str__(self) -> str:
        (end, window), (end_after, window_after) = self.before, self.after
        gaps = f"{end:.1f} → {end_after:.1f} | {window:.1f} → {window_after:.1f}"
        certified = f"{self.certificate.regret:+.1f} | {self.certificate.evidence:.1f}"
        return f"{self.loss:+.2f} | {gaps} | {certified} | {self.late:+.2f}"


def late(stream: Stream, z: Array) -> float:
    """The log loss minus that of z where labels come late, in 1e-4 nats a row."""
    cal, waiting = Multicalibrated("identity", list(stream.fields)), []
    rows = zip(z.tolist(), zip(*stream.fields.values(), strict=True), stream.y.tolist(), strict=True)
    for score, levels, y in rows:
        waiting.append((cal.issue_one(score, dict(zip(stream.fields, levels, strict=True))), y))
        if len(waiting) > DELAY:
            cal.learn_issued(*waiting.pop(0))
    return -1e4 * cal.certificate().gain / len(z)


HEAD = (
    "| stream | predictions | log loss | \\|z\\| at the end | \\|z\\| in a window "
    "| certified, nats | evidence | late |\n"
    "|---|---|---:|---|---|---:|---:|---:|"
)


def tables(rows: int | None) -> tuple[str, str]:
    """The table by base, and that of all streams."""
    lines, by_base = [HEAD], {base: [] for base in BASES}
    for name, (stream, *_) in streams(rows, 1):
        for base, z in forecasts(stream).items():
            found = Found(stream, z)
            by_base[base].append(found)
            lines.append(f"| {name} | {base} | {found} |")
            print(lines[-1], flush=True)
    summary = [
        "| predictions | log loss, mean (most) | \\|z\\| at the end, mean (most) | in a window | late, most |",
        "|---|---:|---|---|---:|",
    ]
    summary += [f"| {base} | {summarised(found)} |" for base, found in by_base.items()]
    return "\n".join(summary), "\n".join(lines)


def summarised(found: list[Found]) -> str:
    cells = [f"{np.mean([one.loss for one in found]):+.1f} ({max(one.loss for one in found):+.2f})"]
    for place in (0, 1):
        before, after = (
            [one[place] for one in ends] for ends in zip(*((f.before, f.after) for f in found), strict=True)
        )
        cells.append(f"{np.mean(before):.1f} ({max(before):.1f}) → {np.mean(after):.1f} ({max(after):.1f})")
    cells.append(f"{max(one.late for one in found):+.2f}")
    return " | ".join(cells)


# -- cost --------------------------------------------------------------------------------------------------------------


def seconds(work: object, repeats: int = 3) -> float:
    """The shortest processor time of some runs."""
    found = []
    for _ in range(repeats):
        begun = time.process_time()
        work()  # type: ignore[operator]
        found.append(time.process_time() - begun)
    return min(found)


def cost(rows: int) -> str:
    """Processor time for a row by the number of groups of it, `Segmented` of the same fields beside it."""
    lines = ["| groups of a row | `Multicalibrated`, µs | `Segmented` of these fields, µs |", "|---:|---:|---:|"]
    rng = np.random.default_rng(0)
    z = np.clip(rng.beta(1.0, 9.0, rows), 1e-6, 1.0 - 1e-6)
    y = rng.random(rows) < z
    for active in ACTIVE:
        keys = {f"f{i}": [f"l{k}" for k in rng.integers(1000, size=rows).tolist()] for i in range(active - 1)}
        keys = {name: list(map(sharing(column), column)) for name, column in keys.items()}
        own = seconds(lambda keys=keys: Multicalibrated("identity", list(keys), bins=0).predict_learn_many(z, keys, y))
        other = seconds(lambda keys=keys: Segmented("identity", list(keys)).predict_learn_many(z, keys, y))
        lines.append(f"| {active} | {1e6 * own / rows:.2f} | {1e6 * other / rows:.2f} |")
    return "\n".join(lines)


def sharing(column: list[str]) -> object:
    """A function that returns one object for equal texts, as columns of categories have."""
    known = {text: text for text in column}
    return known.__getitem__


def memory(held: int) -> str:
    """Bytes for a group that Python and NumPy hold, the place of its name included."""
    lines = ["| groups | bytes a group | in a state |", "|---:|---:|---:|"]
    for number in [one for one in HELD if one <= held]:
        levels = list(range(number))
        z, y = np.full(number, 0.1), np.zeros(number)
        tracemalloc.start()
        cal = Multicalibrated("identity", ["user"], bins=0, max_levels=number)
        cal.learn_many(z, {"user": levels}, y)
        bytes_held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        lines.append(f"| {number:,} | {bytes_held / number:.0f} | {len(cal.to_bytes()) / number:.0f} |")
    return "\n".join(lines)


TEXT = """# Multicalibration, measured

`python -m benchmarks.multicalibration`, {date}, streamcal {version}, `Multicalibrated` with its defaults. Streams and
fields are those of [Segments](segments.md); simulators with seed 0. A shared machine: times are processor times.

- *log loss*: minus that of the predictions that come in, in 10⁻⁴ nats a row; negative is better.
- *|z|*: the largest of any group, its gap over √Σp(1 − p), of groups with Σp(1 − p) ≥ 5: at the end, and in any window
  of 5,000 rows; without → with `Multicalibrated`.
- *certified*: the largest difference of log loss that the object certifies, in nats in sum over the stream.
- *evidence*: the log of the largest likelihood ratio against the predictions of a group.
- *late*: the first column where all labels come {delay} rows late.

## By what comes in

{summary}

## All streams

{streams}

{cost}"""

COST = """## Cost

Predicting and learning a row in one call, fields of 1,000 levels each, no bins. {date}, two cores shared with other
work.

{cost}

Memory of what learns, groups with numbers as names:

{memory}
"""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, metavar="N", help="the first N rows of every stream")
    parser.add_argument("--cost", action="store_true", help="cost and memory alone")
    given = parser.parse_args(arguments)
    found = {"cost": cost(given.rows or 200_000), "memory": memory(given.rows or HELD[-1])}
    costs = COST.format(date=datetime.date.today(), **found)
    if given.cost and given.rows is None:
        page = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(page[: page.index(costs.partition("\n")[0])] + costs, encoding="utf-8")
        return
    summary, every = tables(given.rows)
    text = TEXT.format(
        date=datetime.date.today(),
        version=streamcal.__version__,
        delay=DELAY,
        summary=summary,
        streams=every,
        cost=costs,
    )
    if given.rows is None:
        PAGE.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
