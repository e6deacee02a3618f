"""`Segmented` in micro-batches: what is lost where the parts of a batch are learned side by side and added up.

    STREAMCAL_DATA=/path/to/data python -m benchmarks.segments_parts    # some minutes; a table for spark_measured.md
    python -m benchmarks.segments_parts --cost    # what a row costs the task that learns, and those that forecast

On the streams of `benchmarks/segments.py` (one seed of the simulator), over the forecasts of one `Auto()` for all. A
micro-batch is forecast by what was learned of those before it. It is learned in order, as `streamcal.spark` does; or in
parts, each of which goes on from the state before the batch, and what each has changed is added up: sums of natural
parameters (H, E), the logarithms of the weights of members, and τ² is computed anew. An offset with a memory is the
mean of the parts by information where the memory is full. Log loss in nats in sum over a stream, minus that of `Auto`.
"""

from __future__ import annotations

import argparse
import math
import time
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.segments import SEEDS, Stream, nats, segmented, streams
from benchmarks.streams.tables import Array
from streamcal import Auto, OnlinePlatt
from streamcal.kernels.segments.level_members import (
    APART,
    DOUBLES,
    FADED,
    LONG,
    MEMBERS,
    MIXED,
    NOTHING,
    OWN,
    SECOND,
    SHORT,
    WIDTH,
)
from streamcal.kernels.segments.observed_levels import SHARE
from streamcal.live import Segmented
from streamcal.spark import chaining

SIZES, PARTS = (1_000, 5_000), (2, 4, 16)
#: The numbers of a level that are s of an offset with a memory, followed by E.
MEMORIES = {3: LONG, 5: SHORT, 3 + APART: LONG}
#: Those that are H of an offset with all memory, followed by E, and C of both orders.
OFFSETS, TERMS = np.array([1, 1 + APART]), np.array([DOUBLES, DOUBLES + 1])
#: Of the prior of τ²: levels, their variance, and the largest mean squared.
FIRST_LEVELS, FIRST_VARIANCE, LARGEST = 4.0, 0.02, 16.0


def in_batches(stream: Stream, base: Array, size: int, parts: int) -> Array:
    """Forecasts by the state before each batch; `parts` = 1 learns it in order."""
    cal = Segmented("identity", [*stream.fields])
    found, rng = np.empty(len(base)), np.random.default_rng(0)
    columns = {name: np.array(levels, dtype=object) for name, levels in stream.fields.items()}
    for begin in range(0, len(base), size):
        rows = np.arange(begin, min(begin + size, len(base)))
        found[rows] = cal.predict_many(base[rows], keys={name: levels[rows] for name, levels in columns.items()})
        of = rng.integers(0, parts, len(rows))
        learned = []
        for part in range(parts):
            one, chosen = Segmented.from_bytes(cal.to_bytes()), rows[of == part]
            one.learn_many(
                base[chosen], stream.y[chosen], keys={name: levels[chosen] for name, levels in columns.items()}
            )
            learned.append(one)
        cal = learned[0] if parts == 1 else added(cal, learned)
    return found


def added(before: Segmented, learned: list[Segmented]) -> Segmented:
    """Return the state before a batch plus all changes of its parts."""
    states = [one.state_dict()["learned"] for one in (before, *learned)]
    fields = [field(*rows) for rows in zip(*(state["fields"] for state in states), strict=True)]
    orders = weighed(*(np.array(one["orders"]) for one in states))
    state = {
        **states[0],
        "fields": fields,
        "orders": orders.tolist(),
        "learned": sum(one["learned"] for one in states[1:]),
    }
    state["learned"] -= (len(learned) - 1) * states[0]["learned"]
    state["overall"] = states[1]["overall"]
    found = Segmented(before.calibrator, before.by)
    found._restore(state)
    return found


def weighed(before: Array, *learned: Array) -> Array:
    """Weights of a mixture with the evidence of each part."""
    found = np.log(before) + np.sum([np.log(one) - np.log(before) for one in learned], axis=0)
    found = np.maximum(np.exp(found - np.logaddexp.reduce(found)), SHARE / 12.0)
    weights: Array = found / found.sum()
    return weights


def field(before: list[Any], *learned: list[Any]) -> list[Any]:
    """Weights, sums, levels and their numbers."""
    old = {key(level): np.array(row) for level, row in zip(before[2], before[3], strict=True)}
    new: dict[Any, Any] = {}
    names = {}
    for _, _, levels, rows in learned:
        for level, row in zip(levels, rows, strict=True):
            names[key(level)] = level
            new.setdefault(key(level), []).append(np.array(row))
    numbers = np.array([sums(old.get(level, FIRST), np.array(rows)) for level, rows in new.items()])
    every = [np.array(one[0]) for one in (before, *learned)]
    first = len(every[0]) - SECOND  # 0 of all traffic
    weights = [weighed(*(one[part] for one in every)) for part in (slice(first), slice(first, None)) if part.stop != 0]
    used = np.array([first == MEMBERS, True])
    precision = (FIRST_LEVELS + len(before[2])) / (FIRST_LEVELS * FIRST_VARIANCE + np.array(before[1]))
    total = np.zeros(2)
    for _ in range(5 if len(numbers) else 0):
        variance = 1.0 / (numbers[:, OFFSETS] + precision)
        terms = np.minimum((numbers[:, OFFSETS + 1] * variance) ** 2, LARGEST) + variance
        numbers[:, TERMS] = (terms * used).astype(np.float32)
        total = numbers[:, TERMS].sum(axis=0)
        precision = (FIRST_LEVELS + len(numbers)) / (FIRST_LEVELS * FIRST_VARIANCE + total)
    return [np.concatenate(weights).tolist(), total.tolist(), [names[level] for level in new], numbers.tolist()]


def key(level: Any) -> Any:
    """Return a level as a key."""
    return tuple(level) if isinstance(level, list) else level


#: The numbers of a level before its first label.
FIRST = np.array([0.0] * OWN + [NOTHING] + (MIXED - 1) * [(1.0 - NOTHING) / (MIXED - 1)])


def sums(before: Array, learned: Array) -> Array:
    """Add to the numbers of a level the changes of each part."""
    found: Array = before + (learned - before).sum(axis=0)
    for at, memory in MEMORIES.items():
        whole = gathered(before[at], memory) + (gathered(learned[:, at], memory) - gathered(before[at], memory)).sum()
        if whole > memory:
            held = np.minimum(learned[:, at], memory)
            found[at] = memory * min(np.exp(whole / memory - 1.0), FADED)
            found[at + 1] = memory * (learned[:, at + 1] / np.maximum(held, 1e-300) * held / held.sum()).sum()
    own = weighed(before[OWN:WIDTH], *learned[:, OWN:WIDTH])
    found[OWN:WIDTH] = own.astype(np.float32)
    return found


def gathered(s: Any, memory: float) -> Any:
    """All information that an offset with a memory has been given, whatever has faded."""
    return np.where(s <= memory, s, memory * (1.0 + np.log(np.maximum(s, memory) / memory)))


def cost(rows: int = 500_000, repeats: int = 3) -> str:
    """Processor time a row in the functions that workers of Spark run, with two fields, as text."""
    rng = np.random.default_rng(0)
    score, place = 0.1 * rng.random(rows), rng.integers(0, 30, rows)
    advertiser = np.array([f"advertiser-{i}" for i in range(300)])[rng.integers(0, 300, rows)]
    columns = {"score": score, "label": (rng.random(rows) < score).astype(float), "time": np.arange(rows, dtype=float)}
    levels = {chaining.level_name(0): pa.array(advertiser), chaining.level_name(1): place}
    batches = pa.table(columns | levels).to_batches(max_chunksize=10_000)
    begun = Segmented(OnlinePlatt(), by=["advertiser", ("advertiser", "place")]).to_bytes()
    best = [math.inf, math.inf]
    for _ in range(repeats):
        start = time.process_time()
        (learned,) = chaining.learn(batches, begun, {name: name for name in columns})
        best[0] = min(best[0], time.process_time() - start)
        forecasts = chaining.Forecasts(learned.column("state")[0].as_py(), "score")
        start = time.process_time()
        for batch in batches:
            forecasts(batch.column("score"), [batch.column(name) for name in levels])
        best[1] = min(best[1], time.process_time() - start)
    return "learning {:.1f} µs, forecasts {:.1f} µs of processor time a row".format(*(1e6 * one / rows for one in best))


def main() -> None:
    """Print the losses of batches learned in parts, or their processor time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, metavar="N", help="the first N rows of every stream")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--stream", default="", metavar="TEXT", help="only streams with this in their name")
    parser.add_argument("--cost", action="store_true", help="processor time a row alone")
    given = parser.parse_args()
    if given.cost:
        print(cost())
        return
    heads = [f"in {parts} parts" for parts in PARTS]
    print(f"| stream | row by row | rows in a batch | learned in order | {' | '.join(heads)} |")
    print(f"|---|---:|---:|---:|{'---:|' * len(PARTS)}")
    for name, (stream, *_) in streams(given.rows, min(SEEDS, 1)):
        if given.stream not in name:
            continue
        base = Auto().predict_learn_many(stream.scores, stream.y)
        gain = nats(segmented(stream, base), base, stream.y)[0]
        for size in given.sizes:
            ordered, *others = (nats(in_batches(stream, base, size, parts), base, stream.y)[0] for parts in (1, *PARTS))
            cells = [f"{other - ordered:+.0f}" for other in others]
            print(f"| {name} | {gain:+.0f} | {size:,} | {ordered:+.0f} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
