"""`Multicalibrated` on real and simulated streams: the log loss, the worst gap of any group, and what it costs.

    STREAMCAL_DATA=/path/to/data python -m benchmarks.multicalibration    # half an hour; writes the page of results
    STREAMCAL_DATA=/path/to/data python -m benchmarks.multicalibration --rows 8000    # shortened, prints only
    python -m benchmarks.multicalibration --only cost memory drift adversaries    # these sections of the page, no data

Streams, bases and fields are those of `benchmarks.segments`, its streams held out and two more seeds of the simulator
included. Every probability is predicted before its outcome is
learned, cold start included. Groups are all rows, the levels of the fields, the bins of width 1 of the log-odds that
come in, and those within each level. The gap of a group is Σ(y − p), and z is the gap over √Σp(1 − p), of groups with
Σp(1 − p) ≥ 5; once at the end of the stream, and once over every window of 5,000 rows that begins at a multiple of
1,000.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.util
import math
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, logit

import streamcal
from benchmarks.multicalibration_rivals import ADVERSARIES, RIVALS, Adversary, Groups, Incoming, Rival, predictions
from benchmarks.segments import Stream, held_out, streams
from benchmarks.segments_mcgrad import PARTS, mcgrad
from benchmarks.streams.tables import Array
from streamcal import Auto, OnlinePlatt
from streamcal.kernels.segments.accounts import Accounts
from streamcal.kernels.segments.capitals import FINE_SIZE, SIZE
from streamcal.live import Multicalibrated, Segmented

PAGE = Path(__file__).resolve().parents[1] / "docs" / "multicalibration_measured.md"
WINDOW, STEP, LEAST = 5_000, 1_000, 5.0
#: Rows whose labels come late in the table of late labels.
DELAY = 500
#: Groups of an observation, and groups held.
ACTIVE, HELD = (5, 12, 20, 40), (100, 1_000, 10_000, 100_000, 1_000_000)
#: Rows of each stream for the rivals, rows of an adversary, and rows after which counters are recomputed.
RIVAL_ROWS, ADVERSE_ROWS, DRIFT_ROWS = 10_000, 5_000, 10_000_000
#: Seeds of the simulator.
SEEDS = 3
BASES = ("raw", "OnlinePlatt", "Auto", "Segmented(Auto)", "Segmented(Auto), pairs")


# -- measures ----------------------------------------------------------------------------------------------------------


def codes(values: list[str | int]) -> Array:
    """Levels as numbers from 0."""
    return np.unique(np.array(values, dtype=object).astype(str), return_inverse=True)[1].astype(np.int64)


def groups(stream: Stream, z: Array) -> Iterator[Array]:
    """Yield the group of each row, family by family."""
    bins = np.floor(logit(np.clip(z, 2.0**-52, 1.0 - 2.0**-52))).astype(np.int64) + 40
    yield np.zeros(len(z), dtype=np.int64)
    yield bins
    for levels in stream.fields.values():
        found = codes(levels)
        yield found
        yield 100 * found + bins


def worst(p: Array, stream: Stream, z: Array) -> tuple[float, float]:
    """Return the largest |z| of a group at the end, and over any window."""
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
    """Return the largest |z| among groups of enough variance."""
    kept = variance >= LEAST
    return float((np.abs(gap[kept]) / np.sqrt(variance[kept])).max()) if kept.any() else 0.0


# -- tables ------------------------------------------------------------------------------------------------------------


def every(rows: int | None) -> Iterator[tuple[str, Stream]]:
    """Yield all streams by name."""
    for name, found in (*streams(rows, SEEDS), *held_out(rows)):
        for seed, stream in enumerate(found):
            yield (f"{name}, seed {seed}" if seed else name), stream


def forecasts(stream: Stream) -> dict[str, Array]:
    """Return the forecasts to correct, by base."""
    auto = Auto().predict_learn_many(stream.scores, stream.y)
    names = list(stream.fields)
    return {
        "raw": stream.scores,
        "OnlinePlatt": OnlinePlatt().predict_learn_many(stream.scores, stream.y),
        "Auto": auto,
        "Segmented(Auto)": Segmented("identity", names).predict_learn_many(auto, stream.y, keys=stream.fields),
        "Segmented(Auto), pairs": Segmented("identity", names, pairs=True).predict_learn_many(
            auto, stream.y, keys=stream.fields
        ),
    }


class Found:
    """What was measured of a base on a stream."""

    def __init__(self, stream: Stream, z: Array) -> None:
        cal = Multicalibrated("identity", list(stream.fields))
        p = cal.predict_learn_many(z, stream.y, keys=stream.fields)
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
    """Return the log loss minus that of z if labels are late, in 1e-4 nats a row."""
    cal, waiting = Multicalibrated("identity", list(stream.fields)), []
    rows = zip(z.tolist(), zip(*stream.fields.values(), strict=True), stream.y.tolist(), strict=True)
    for score, levels, y in rows:
        waiting.append((cal.issue(score, keys=dict(zip(stream.fields, levels, strict=True))), y))
        if len(waiting) > DELAY:
            cal.settle(*waiting.pop(0))
    return -1e4 * cal.certificate().gain / len(z)


HEAD = (
    "| stream | predictions | log loss | \\|z\\| at the end | \\|z\\| in a window "
    "| certified, nats | evidence | late |\n"
    "|---|---|---:|---|---|---:|---:|---:|"
)


def tables(rows: int | None) -> tuple[str, str]:
    """Write the table by base, and the table of all streams."""
    lines, by_base = [HEAD], {base: [] for base in BASES}
    for name, stream in every(rows):
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
    """Write the means and extremes of the results of a base as cells."""
    cells = [f"{np.mean([one.loss for one in found]):+.1f} ({max(one.loss for one in found):+.2f})"]
    for place in (0, 1):
        before, after = (
            [one[place] for one in ends] for ends in zip(*((f.before, f.after) for f in found), strict=True)
        )
        cells.append(f"{np.mean(before):.1f} ({max(before):.1f}) → {np.mean(after):.1f} ({max(after):.1f})")
    cells.append(f"{max(one.late for one in found):+.2f}")
    return " | ".join(cells)


# -- rivals ------------------------------------------------------------------------------------------------------------


def numbered(families: Iterator[Array]) -> Groups:
    """Return the number of each group of each row, a column for each family."""
    columns, first = [], 0
    for family in families:
        found = np.unique(family, return_inverse=True)[1]
        columns.append(found + first)
        first += int(found.max()) + 1
    return np.column_stack(columns)


def rivals(rows: int | None) -> str:
    """Write the log loss and the worst gaps of each rival, on the first rows of every stream, after `OnlinePlatt`."""
    found: dict[str, list[tuple[float, ...]]] = {}
    for name, stream in every(rows or RIVAL_ROWS):
        size = min(len(stream.y), rows or RIVAL_ROWS)
        stream = Stream(stream.scores[:size], stream.y[:size], {k: v[:size] for k, v in stream.fields.items()})
        z = np.clip(OnlinePlatt().predict_learn_many(stream.scores, stream.y), 1e-9, 1.0 - 1e-9)
        for rival, p in each_rival(stream, z):
            counted = slice(size // PARTS, None)
            lost = losses(p[counted], stream.y[counted]) - losses(z[counted], stream.y[counted])
            part = Stream(stream.scores[counted], stream.y[counted], {k: v[counted] for k, v in stream.fields.items()})
            found.setdefault(rival, []).append((1e4 * lost, *worst(p[counted], part, z[counted])))
        print(name, {rival: f"{values[-1][0]:+.2f}" for rival, values in found.items()}, flush=True)
    lines = [
        "| predictions | log loss, mean (most) | \\|z\\| at the end, mean (most) | in a window |",
        "|---|---:|---:|---:|",
    ]
    for rival, values in found.items():
        loss, *gaps = np.array(values).T
        cells = [f"{loss.mean():+.1f} ({loss.max():+.1f})", *(f"{one.mean():.1f} ({one.max():.1f})" for one in gaps)]
        lines.append(f"| {rival} | {' | '.join(cells)} |")
    return "\n".join(lines)


def losses(p: Array, y: Array) -> float:
    """Return the mean log loss."""
    return float(-np.log(np.where(y, p, 1.0 - p)).mean())


def each_rival(stream: Stream, z: Array) -> Iterator[tuple[str, Array]]:
    """Yield the predictions of each rival for all rows; those of MCGrad, if installed, start after the first tenth."""
    yield "`OnlinePlatt` alone", z
    yield (
        "`Multicalibrated`",
        Multicalibrated("identity", list(stream.fields)).predict_learn_many(z, stream.y, keys=stream.fields),
    )
    numbers = numbered(groups(stream, z))
    for name, make in RIVALS.items():
        rival = make(int(numbers.max()) + 1)
        yield name, np.fromiter(predictions(rival, z, numbers, stream.y), dtype=np.float64, count=len(z))
    if importlib.util.find_spec("mcgrad"):
        yield "MCGrad, refitted after every tenth", np.clip(mcgrad(stream, z), 1e-9, 1.0 - 1e-9)


class Held:
    """`Multicalibrated` of two fields as a rival, its groups those of an adversary."""

    def __init__(self, groups: int) -> None:
        self.cal = Multicalibrated("identity", ["a", "b"], bins=0)

    def predict(self, z: float, groups: Groups) -> float:
        self.row = z, {"a": int(groups[1]), "b": int(groups[2])}
        return self.cal.predict_one(self.row[0], keys=self.row[1])

    def learn(self, y: bool) -> None:
        self.cal.learn_one(self.row[0], y, keys=self.row[1])


def adversaries(rows: int | None) -> str:
    """Write the log loss less that of the incoming forecasts, and the worst gap, under adversarial labels."""
    makes: dict[str, Callable[[int], Rival]] = {
        "z alone": lambda groups: Incoming(),
        "`Multicalibrated`": Held,
        **RIVALS,
    }
    lines = [f"| predictions | {' | '.join(ADVERSARIES)} |", "|---|" + len(ADVERSARIES) * "---:|"]
    for name, make in makes.items():
        cells = [against(make, kind, rows or ADVERSE_ROWS) for kind in ADVERSARIES]
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def against(make: Callable[[int], Rival], kind: str, rows: int) -> str:
    """Nats in sum beyond z, and the worst |z| of a group at the end."""
    rng = np.random.default_rng(3)
    z, numbers = expit(rng.normal(-1.0, 1.0, rows)), np.zeros((rows, 3), dtype=np.int64)
    numbers[:, 1], numbers[:, 2] = 1 + rng.integers(4, size=rows), 5 + rng.integers(3, size=rows)
    rival, adversary, variance, lost = make(8), Adversary(kind, 8), np.zeros(8), 0.0
    for score, row in zip(z.tolist(), numbers, strict=True):
        p = rival.predict(score, row)
        y = adversary(p, score, row)
        rival.learn(y)
        variance[row] += p * (1.0 - p)
        lost += math.log(score / p) if y else math.log((1.0 - score) / (1.0 - p))
    return f"{lost:+,.1f}; {largest(adversary.gap, variance):.1f}"


# -- cost --------------------------------------------------------------------------------------------------------------


def seconds(work: object, repeats: int = 3) -> float:
    """Return the shortest processor time of some runs."""
    found = []
    for _ in range(repeats):
        begun = time.process_time()
        work()  # type: ignore[operator]
        found.append(time.process_time() - begun)
    return min(found)


def cost(rows: int) -> str:
    """Processor time for a row by the number of groups of it: alone, and on top of `Segmented` of the same fields."""
    lines = [
        "| groups of a row | `Multicalibrated`, µs | `Segmented` of these fields, µs | both, µs | difference, µs |",
        "|---:|---:|---:|---:|---:|",
    ]
    rng = np.random.default_rng(0)
    z = np.clip(rng.beta(1.0, 9.0, rows), 1e-6, 1.0 - 1e-6)
    y = rng.random(rows) < z
    for active in ACTIVE:
        keys = {f"f{i}": [f"l{k}" for k in rng.integers(1000, size=rows).tolist()] for i in range(active - 1)}
        keys = {name: list(map(sharing(column), column)) for name, column in keys.items()}
        own, other, both = in_turns(makers(list(keys)), lambda cal, keys=keys: cal.predict_learn_many(z, y, keys=keys))
        times = " | ".join(f"{1e6 * one / rows:.2f}" for one in (own, other, both, both - other))
        lines.append(f"| {active} | {times} |")
    return "\n".join(lines)


def makers(by: list[str]) -> list[Callable[[], Multicalibrated | Segmented]]:
    """Return functions that make `Multicalibrated`, `Segmented`, and the one on top of the other."""
    return [
        lambda: Multicalibrated("identity", by, bins=0),
        lambda: Segmented("identity", by),
        lambda: Multicalibrated(Segmented("identity", by), by, bins=0),
    ]


def in_turns(makes: list[Callable[[], Any]], work: Callable[[Any], object], turns: int = 5) -> list[float]:
    """Return the shortest processor time of the work on a new object of each kind."""
    found: list[list[float]] = [[] for _ in makes]
    for _ in range(turns):
        for times, make in zip(found, makes, strict=True):
            cal = make()
            times.append(seconds(lambda cal=cal: work(cal), repeats=1))
    return list(map(min, found))


def sharing(column: list[str]) -> object:
    """Return a function that returns one object for equal texts, as columns of categories contain."""
    known = {text: text for text in column}
    return known.__getitem__


def by_size(rows: int) -> str:
    """Processor time for a row of five groups by the number of groups held, all of which have been seen before."""
    lines = ["| groups held | a row, µs |", "|---:|---:|"]
    rng = np.random.default_rng(1)
    z, y = np.full(rows, 0.1), rng.random(rows) < 0.1
    for number in HELD:
        each = max(number // 4, 1)
        cal = Multicalibrated("identity", list("abcd"), bins=0, max_levels=each)
        levels = {name: [f"l{k}" for k in range(each)] for name in "abcd"}
        cal.learn_many(np.full(each, 0.1), np.zeros(each), keys=levels)
        keys = {name: [known[k] for k in rng.integers(each, size=rows).tolist()] for name, known in levels.items()}
        lines.append(f"| {number:,} | {1e6 * seconds(partial(cal.learn_many, z, y, keys=keys)) / rows:.2f} |")
    return "\n".join(lines)


#: Learns so many groups from chunks of rows; prints the growth of resident memory, in bytes, and that of its peak.
PROCESS = """
import sys
import numpy as np
from benchmarks.processes import peak, resident
from streamcal.live import Multicalibrated
number, text = int(sys.argv[1]), sys.argv[2] == "text"
cal = Multicalibrated("identity", ["user"], bins=0, max_levels=number)
cal.learn_many([0.1] * 10, [0] * 10, keys={"user": [0] * 10})
before = resident()
for start in range(0, number, 10_000):
    levels = [f"user{k}" if text else k for k in range(start, min(start + 10_000, number))]
    cal.learn_many(np.full(len(levels), 0.1), np.zeros(len(levels)), keys={"user": levels})
print(resident() - before, peak() - before)
"""


def memory(held: int) -> str:
    """Resident bytes for a group of one field, its name included, in a process of its own."""
    lines = ["| groups | names | bytes a group | MB in all | MB at most |", "|---:|---|---:|---:|---:|"]
    for number in [one for one in HELD if 100_000 <= one <= held]:
        for names in ("numbers", "text"):
            command = [sys.executable, "-c", PROCESS, str(number), names]
            now, peak = map(int, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
            lines.append(f"| {number:,} | {names} | {now / number:.0f} | {now / 1e6:.0f} | {peak / 1e6:.0f} |")
    return "\n".join(lines)


def drift(rows: int) -> str:
    """Compare the counters after `rows` rows with recomputed ones."""
    rng, accounts, gains, part = np.random.default_rng(0), Accounts(2, [], 1.0, 1000, 0.005), [0.0], 250_000
    for done in range(0, rows, part):
        z = np.clip(rng.beta(1.0, 9.0, min(part, rows - done)), 1e-6, 1.0 - 1e-6)
        columns = [rng.integers(50, size=len(z)).tolist() for _ in range(2)]
        y = rng.random(len(z)) < z * (1.0 + 0.5 * np.sin(done / part) * (np.array(columns[0]) == 3))
        p = np.empty(len(z))
        accounts.stream(z, columns, y.astype(np.float64), np.ones(len(z)), p)
        gains.append(math.fsum(np.log(np.where(y, p / z, (1.0 - p) / (1.0 - z))).tolist()))
    capital = [one for j in range(accounts.size) for one in accounts.capitals(j)[1][:, :SIZE].ravel().tolist()]
    capital += [one for j in range(accounts.size) for one in accounts.fine(j)[1][:, : 2 * FINE_SIZE].ravel().tolist()]
    gain, total = math.fsum(gains), math.fsum(capital)
    off = max(abs(accounts.gain - gain), abs(accounts.total - total))
    return (
        f"After {rows:,} rows the gain is {gain:,.3f} nats, the capital {total:,.3f} and the certified regret "
        f"{accounts.injected - total:+,.3f}. The counters differ from recomputed sums by at most {off:.1e}. "
        f"{sum(len(accounts.fine(j)[0]) for j in range(accounts.size))} groups are large."
    )


MEANT = """# Multicalibration, measured

`python -m benchmarks.multicalibration`, streamcal {version}, `Multicalibrated` with its defaults; each section has its
date. Streams and fields are those of [Segments, measured](segments_measured.md), its held-out streams included;
the simulator has three seeds. A shared machine: times are processor times.
"""
#: What stands above each table.
ABOVE = {
    "streams": f"""## Streams

- *log loss*: minus that of the predictions that come in, in 10⁻⁴ nats a row; negative is better.
- *|z|*: the largest of any group, its gap over √Σp(1 − p), of groups with Σp(1 − p) ≥ 5: at the end, and in any window
  of 5,000 rows; without → with `Multicalibrated`.
- *certified*: the largest difference of log loss that the object certifies, in nats in sum over the stream.
- *evidence*: the log of the largest likelihood ratio against the predictions of a group.
- *late*: the first column where all labels come {DELAY} rows late.""",
    "rivals": f"""## Rivals

Published algorithms, transcribed in `benchmarks/multicalibration_rivals.py`, on the first {RIVAL_ROWS:,} rows of every
stream, for the same groups and on top of the same `OnlinePlatt`. Columns as above; the first tenth is not counted.""",
    "adversaries": f"""## Adversaries

Labels chosen by an adversary that sees each prediction, {ADVERSE_ROWS:,} rows, 8 groups, 3 of a row. Log loss minus
that of z, in nats in sum; the largest |z| of a group at the end.""",
    "cost": """## Cost

Predicting and learning a row in one call, fields of 1,000 levels each, no bins, in turns. *Both* is `Multicalibrated`
of that `Segmented`. The *difference* is what that takes more. Then learning a row of 5 groups where many are held.""",
    "memory": """## Memory

Growth of resident memory in a process of its own that learns new groups of one field, names included.""",
    "drift": """## Counters""",
}


def sections(rows: int | None) -> dict[str, Callable[[], str]]:
    """Return the function that writes each section of the page."""
    return {
        "streams": lambda: "\n\n".join(tables(rows)),
        "rivals": lambda: rivals(rows),
        "adversaries": lambda: adversaries(rows),
        "cost": lambda: cost(rows or 200_000) + "\n\n" + by_size(rows or 200_000),
        "memory": lambda: memory(rows or HELD[-1]),
        "drift": lambda: drift(rows or DRIFT_ROWS),
    }


def main(arguments: list[str] | None = None) -> None:
    """Write the sections of the page, or print them for a shortened run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--rows", type=int, metavar="N", help="the first N rows of every stream; prints, writes nothing"
    )
    parser.add_argument("--only", nargs="+", choices=list(ABOVE), default=list(ABOVE), help="these sections alone")
    given = parser.parse_args(arguments)
    for name, make in sections(given.rows).items():
        if name in given.only:
            found = make()
            if given.rows is None:
                write(name, f"{found}\n\n`--only {name}`, {datetime.date.today()}.\n")
            else:
                print(found, flush=True)


def write(name: str, text: str) -> None:
    """Write this text in a section of the page, which is added if it is not there; the rest of the page stays."""
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else MEANT.format(version=streamcal.__version__)
    section = f"{ABOVE[name]}\n\n<!-- {name} -->\n{text}<!-- end of {name} -->\n"
    heading = re.escape(ABOVE[name].split("\n")[0])
    place = re.compile(f"{heading}\n.*?<!-- end of {name} -->\n", flags=re.DOTALL)
    if place.search(page):
        page = place.sub(lambda _: section, page)
    else:
        page += f"\n{section}"
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
