"""What each part of `Auto` is for, how near it comes to the best, and what it costs: the page docs/auto_measured.md.

    STREAMCAL_DATA=/path/to/data python -m benchmarks.auto_parts            # some ten minutes; writes the page
    python -m benchmarks.auto_parts --keep-parts                            # one minute; keeps the first table
    STREAMCAL_DATA=/path/to/data python -m benchmarks.auto_parts --rows 500 # shortened, prints only

A part is left out by a prior weight of 0; an expert is also held at coefficient 0 in the stack. Streams are the real
ones of the race, of both sides of its split, up to 50,000 rows each. These tables decide
nothing: parts are chosen on streams of the development side.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import math
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np

import streamcal
from benchmarks.processes import resident
from benchmarks.streams.catalogue import CATALOGUE, names, stream
from benchmarks.streams.entrants import stepwise
from benchmarks.streams.tables import Array, Flags
from streamcal import Auto, OnlinePlatt
from streamcal.calibrators.auto import experts as table
from streamcal.calibrators.base import Calibrator

ROWS, DELAYS = 50_000, (0, 48, 1_000)
#: The headings of the page. What is between the first two is kept by `--keep-parts`.
PARTS, GENERATED, COST = "## What each part is for\n", "## Generated streams\n", "## What it costs\n"
#: Scores of generated streams are clipped here: some are 0 or 1, and wrong.
CLIP = 1e-6
#: Forecasts that wait for their labels, to measure one.
PENDING = 4_000
PAGE = Path(__file__).parents[1] / "docs" / "auto_measured.md"
#: Precision that holds a coefficient of the stack at its start, 0.
HELD = 1e12
#: Objects that are made at once, where one is too small to measure; and calls that are timed at once.
OBJECTS, CALLS = 500, 20_000


def memory_of(rung: str) -> float:
    """Return the memory of a rung in units of information; infinite for a rung that keeps all."""
    last = rung.split()[-1]
    return math.inf if last == "all" else float(last)


def rungs_without(left_out: Callable[[str], bool]) -> tuple[float, ...]:
    """Return the prior weights of the rungs without some of them."""
    return tuple(0.0 if left_out(name) else prior for name, prior in zip(table.RUNGS, table.RUNG_PRIOR, strict=True))


#: What is left out of the ladder, and the prior weights of its rungs then. Short memories are of up to 1,000 units.
LADDER_PARTS = {
    "ladder: curves": rungs_without(lambda name: name.startswith("curve")),
    "ladder: long memories": rungs_without(lambda name: 1_000.0 < memory_of(name) < math.inf),
    "ladder: short memories": rungs_without(lambda name: memory_of(name) <= 1_000.0),
}


@contextmanager
def without(part: str) -> Iterator[None]:
    """`Auto` without one of its parts, or as it is if `part` is empty."""
    prior, stacking, changes = table.PRIOR.copy(), table.STACKING, {}
    if part in (*table.NAMES, *table.STACKS):
        place = [*table.NAMES, *table.STACKS].index(part)
        prior[place] = 0.0
        changes["PRIOR"] = prior / prior.sum()
        if part in table.NAMES:
            size = len(table.NAMES) + 2
            precision = [*stacking.precisions[:size]]
            precision[1 + place] = HELD
            start = [1.0] + [0.0] * (size - 1)
            changes["STACKING"] = table.Plan(
                [(range(size), [keep] * size, precision, start) for keep in table.STACK_KEEP]
            )
    elif part == table.CORRECTED:
        changes["CORRECTION_PRIOR"] = 0.0
    elif part in LADDER_PARTS:
        changes["RUNG_PRIOR"] = LADDER_PARTS[part]
    with patch.multiple(table, **changes) if changes else patch.object(table, "PRIOR", prior):
        yield


def nats(p: Array, y: Flags) -> float:
    """Return the mean log loss, in units of 1e-4 nats."""
    return -1e4 * float(np.log(np.where(y, p, 1.0 - p)).mean())


def parts_table(rows: int) -> str:
    """Write the cost of leaving out each part: mean and largest over all streams, at each delay."""
    parts = [*table.NAMES[1:], *LADDER_PARTS, *table.STACKS, table.CORRECTED]
    costs: dict[tuple[str, int], list[float]] = {}
    real = [
        name for name in names(True) + names(False) if not CATALOGUE[name].generated and not CATALOGUE[name].further
    ]
    for name in real:
        for delay in DELAYS:
            data = stream(name, delay)
            scores, y = data.scores[:rows], data.y[:rows]
            found = {}
            for part in ["", *parts]:
                with without(part):
                    found[part] = nats(stepwise(Auto(), scores, y, delay), y)
            for part in parts:
                costs.setdefault((part, delay), []).append(found[part] - found[""])
            print(f"\r{name}, {delay}: done".ljust(60), end="", flush=True)
    lines = [
        f"| left out | {' | '.join(f'delay {delay}: mean; most; least' for delay in DELAYS)} |",
        "|---|---:|---:|---:|",
    ]
    for part in parts:
        each = [costs[part, delay] for delay in DELAYS]
        cells = [f"{np.mean(one):+.1f}; {max(one):+.1f}; {min(one):+.1f}" for one in each]
        lines.append(f"| `{part}` | {' | '.join(cells)} |")
    return f"{len(real)} streams.\n\n" + "\n".join(lines)


def generated_table(rows: int) -> str:
    """Write how much of the loss that a calibrator can save is saved on each generated stream, at each delay."""
    made = [name for name in names(True) + names(False) if CATALOGUE[name].generated and not CATALOGUE[name].draw]
    lines = [f"| stream | {' | '.join(f'delay {delay}' for delay in DELAYS)} |", "|---|---:|---:|---:|"]
    for name in made:
        cells = []
        for delay in DELAYS:
            data = stream(name, delay)
            assert data.oracle is not None
            scores, y, oracle = np.clip(data.scores[:rows], CLIP, 1.0 - CLIP), data.y[:rows], data.oracle[:rows]
            raw, best, own = nats(scores, y), nats(oracle, y), nats(stepwise(Auto(), scores, y, delay), y)
            cells.append(f"{raw - own:+.0f} of {raw - best:.0f}" if raw > best else f"{raw - own:+.0f} of 0")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def timed(work: Callable[[], object], number: int) -> float:
    """Return the processor time of one call in seconds: the least of five runs of `number` calls."""
    least = math.inf
    for _ in range(5):
        start = time.process_time()
        for _ in range(number):
            work()
        least = min(least, (time.process_time() - start) / number)
    return least


def step(make: Callable[[], Calibrator], delay: int = 0, with_time: bool = False) -> float:
    """Return the seconds of a prediction and a label."""
    rng = np.random.default_rng(1)
    scores, labels = rng.random(CALLS).tolist(), (rng.random(CALLS) < 0.3).tolist()
    times = [1e9 + 60.0 * k if with_time else None for k in range(CALLS)]
    best = math.inf
    for _ in range(5):
        cal = make()
        start = time.process_time()
        for k in range(CALLS):
            cal.predict_one(scores[k], times[k])
            if k >= delay:
                cal.learn_one(scores[k - delay], labels[k - delay], 1.0, times[k - delay])
        best = min(best, (time.process_time() - start) / CALLS)
    return best


def allocated(work: Callable[[], list[Auto]]) -> tuple[list[Auto], float]:
    """Return some `Auto` objects, and the bytes that Python and NumPy have allocated for each."""
    gc.collect()
    tracemalloc.start()
    found = work()
    size = tracemalloc.get_traced_memory()[0] / len(found)
    tracemalloc.stop()
    return found, size


def learned(scores: Array, labels: Flags, number: int = 50) -> list[Auto]:
    """Return some objects that have learned the same."""
    made = [Auto() for _ in range(number)]
    for cal in made:
        cal.learn_many(scores, labels)
    return made


def waiting(size: int) -> list[Auto]:
    """Return an object with predictions that wait for their labels."""
    cal = Auto(delay=PENDING)
    cal.learn_one(0.5, True)
    for k in range(size):
        cal.predict_one((k + 0.5) / size)
    return [cal]


def memory() -> str:
    """Write the kilobytes of an object: fresh; after many rows; after as many rows of scores that repeat."""
    rng = np.random.default_rng(1)
    scores, labels = rng.random(100_000), rng.random(100_000) < 0.3
    sizes = [
        allocated(make)[1]
        for make in (
            lambda: [Auto() for _ in range(OBJECTS)],
            lambda: learned(scores, labels, 3),
            lambda: learned(np.round(scores * 400.0) / 400.0, labels, 3),
        )
    ]
    return "; ".join(f"{size / 1e3:.1f} kB" for size in sizes)


def cost_table() -> str:
    """Write the table of what an `Auto` costs."""
    rng = np.random.default_rng(1)
    scores, labels = rng.random(100_000), rng.random(100_000) < 0.3
    gc.collect()
    before = resident()
    kept = [Auto() for _ in range(OBJECTS)]
    fresh = (resident() - before) / OBJECTS
    for cal in kept:
        cal.learn_many(scores[:3_000], labels[:3_000])
    used = (resident() - before) / OBJECTS
    kept.clear()
    cal = Auto()
    bulk = [timed(partial(one.predict_learn_many, scores, labels), 1) / len(scores) for one in (Auto(), OnlinePlatt())]
    cal.learn_many(scores, labels)
    saved = cal.to_bytes()
    pending = (allocated(lambda: waiting(PENDING))[1] - allocated(lambda: waiting(1))[1]) / PENDING
    own, platt = [step(Auto, delay) for delay in DELAYS], step(OnlinePlatt)
    written, loaded = timed(cal.to_bytes, 50), timed(lambda: Auto.from_bytes(saved), 50)
    rows = {
        "predict and learn, labels in time / 48 / 1,000 late": " / ".join(f"{one / platt:.1f}" for one in own),
        "the same with a time, labels in time": f"{step(Auto, with_time=True) / platt:.1f}",
        "`predict_learn_many`, a row, against that of `OnlinePlatt`": f"{bulk[0] / bulk[1]:.1f}",
        "construct": f"{timed(Auto, 2_000) / platt:.0f}",
        "write as bytes; read": f"{written / platt:.0f}; {loaded / platt:.0f}",
        "bytes": f"{len(saved) / 1e3:.0f} kB",
        "memory allocated: fresh; after 100,000 rows; the same of 400 scores": memory(),
        "a prediction that waits for its label": f"{pending:.0f} bytes",
        "resident memory: fresh; after 3,000 rows": f"{fresh / 1e3:.0f} kB; {used / 1e3:.0f} kB",
    }
    return "| | |\n|---|---|\n" + "\n".join(f"| {name} | {value} |" for name, value in rows.items())


def main() -> None:
    """Measure the parts and costs of `Auto`, and write them on the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, help="the first rows of every stream; prints only")
    parser.add_argument("--keep-parts", action="store_true", help="keep the table of parts that the page has")
    given = parser.parse_args()
    cost = cost_table()
    print(cost)
    generated = generated_table(given.rows or ROWS)
    if given.keep_parts:
        parts = PAGE.read_text(encoding="utf-8").partition(PARTS)[2].partition("\n## ")[0].strip()
    else:
        parts = f"""The log loss of `Auto` without a part, minus that of `Auto`: 1e-4 nats a row, in the mean over the
real streams of [the race](race.md), where it costs most, and where it costs least. {parts_table(given.rows or ROWS)}"""
    stated = f"`python -m benchmarks.auto_parts`, {datetime.date.today()}, streamcal {streamcal.__version__}."
    text = f"""# Auto, measured

{PARTS}
{parts}

{GENERATED}
How much log loss `Auto` saves of what the best calibrator could save, which knows the probability of each label: 1e-4
nats a row, each against the score. The goal for these streams is to close 40 % of the gap that `online-platt` leaves.
[It is missed](race.md#the-goals): `online-platt` follows most of these changes, and leaves little. With labels 1,000
late `Auto` may lose to the score, by the nats that it has promised at most.

{generated}

{COST}
{cost}

Times are processor times on one core, in predictions and labels of `OnlinePlatt` in the same run.

{stated}
"""
    print(text)
    if given.rows is None:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
