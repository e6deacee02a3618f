"""Long streams, full tables, late labels of rare events and sampled negatives: tables of docs/long_streams.md.

    STREAMCAL_DATA=/path/to/data python -m benchmarks.long_streams    # a quarter of an hour; writes the tables
    python -m benchmarks.long_streams --rows 20000                    # shortened, prints only

The regret of a prediction p of an event of probability t is its expected log loss minus that of t: no noise of labels
is in it. Every probability is predicted before its label is learned, cold start included, each method with its
defaults.
"""

from __future__ import annotations

import argparse
import datetime
import os
import textwrap
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import expit, logit, xlogy

import streamcal
from benchmarks import report
from benchmarks.plan import Plan
from benchmarks.streams.bases import TRAIN, clipped, frozen
from benchmarks.streams.tables import SOURCES, Array, Flags, Table, path_of, served
from streamcal import Auto, OnlinePlatt, Platt
from streamcal.calibrators.auto.experts import NAMES, RUNGS, STACKS
from streamcal.calibrators.base import Calibrator
from streamcal.parameters.scales import LOGIT_LIMIT
from streamcal.stream.columns import Observations
from streamcal.stream.entrants import one_by_one

PAGE = Path(__file__).resolve().parents[1] / "docs" / "long_streams.md"
SEED, ROWS, TENTHS = 55, 1_000_000, 10
RATES = (0.3, 0.02, 0.001)
DRIFTS = ("none", "walk 1e6", "walk 1e5", "steps", "slope", "cycle", "curve")
#: `Auto` is meant to have at most this many times the regret of the best rung in hindsight, and so much more.
FACTOR, BEYOND = 1.2, 0.05
#: Rate, factor of the odds, rows late, rows. What is counted begins after a fifth of the rows where the odds are wrong.
LATE = ((5e-4, 1.0, 5_000, 150_000), (5e-4, 1.0, 20_000, 150_000), (1e-3, 10.0, 1_000, 300_000))
LATE_SEEDS = 2
SERVED, DELAYS = {"1458": "ipinyou_1458_stream", "2997": "ipinyou_2997_test"}, (0, 5_000, 20_000)
#: Negatives are kept at this rate, with its inverse as their weight.
KEPT, FACTORS, WEIGHTED_SEEDS = 0.01, (1.0, 3.0, 1.0 / 3.0), 6
RATIO_ERRORS, LOST_NATS = 3.0, 4.0


class Stream(NamedTuple):
    """Scores and labels, and the true probabilities; on real streams the labels are in their place."""

    scores: Array
    y: Flags
    truth: Array


class Followed(NamedTuple):
    """The predictions of `Auto`, and the regret of each rung of its ladder in 1e-4 nats a row."""

    p: Array
    rungs: Array


class Total(NamedTuple):
    """Predicted over observed, how far it is from 1 in standard errors, two of them, and nats above the score."""

    ratio: float
    errors: float
    two: float
    nats: float

    def cell(self) -> str:
        """Write the total."""
        return f"{self.ratio:.2f}; {self.nats:+.0f}"


def draw(rate: float, drift: str, rows: int) -> Stream:
    """Draw a long stream: the right map from the score's log-odds z is c + a + b(z − c), and a bend."""
    rng = np.random.default_rng([SEED, round(1e6 * rate), DRIFTS.index(drift)])
    centre, at = float(logit(rate)), np.arange(rows)
    d = rng.normal(0.0, 1.0, rows) - 0.3
    offset, slope, bend = np.full(rows, -0.3), np.full(rows, 0.8), np.zeros(rows)
    if drift.startswith("walk"):
        offset += np.cumsum(rng.normal(0.0, 0.5 / np.sqrt(float(drift.split()[1])), rows))
    elif drift == "steps":
        offset += rng.normal(0.0, 0.3, rows // 200_000 + 1)[at // 200_000]
    elif drift == "slope":
        slope += 0.3 * np.sin(2.0 * np.pi * at / 5e5)
    elif drift == "cycle":
        offset += 0.3 * np.sin(2.0 * np.pi * at / 2e5)
    elif drift == "curve":
        bend = 0.3 * np.sin(2.0 * np.pi * at / 1e6) * (d * d - 1.0)
    truth = expit(centre + offset + slope * d + bend)
    return Stream(expit(centre + d), rng.random(rows) < truth, truth)


def log_odds(p: Array) -> Array:
    """Return the log-odds of predictions, within ±16: some served scores are 0."""
    return np.asarray(np.clip(logit(p), -LOGIT_LIMIT, LOGIT_LIMIT))


def regrets(z: Array, truth: Array) -> Array:
    """Return the expected log loss of log-odds z above that of the true probabilities, in 1e-4 nats."""
    best = -xlogy(truth, truth) - xlogy(1.0 - truth, 1.0 - truth)
    return 1e4 * (np.logaddexp(0.0, z) - truth * z - best)


def regret(p: Array, truth: Array) -> float:
    """Return the mean regret of predictions, in 1e-4 nats a row; on real streams, their log loss."""
    return float(regrets(log_odds(p), truth).mean())


def followed(stream: Stream, rows: int = 65_536) -> Followed:
    """Follow a stream with `Auto`, and read the forecasts of its rungs in the records of its predictions."""
    cal, p, rungs = Auto(), np.empty(len(stream.y)), np.zeros(len(RUNGS))
    first, labels = len(NAMES) + len(STACKS), stream.y.tolist()
    for start in range(0, len(p), rows):
        scores = stream.scores[start : start + rows].tolist()
        forecasts = np.empty((len(scores), len(RUNGS)))
        for i, score in enumerate(scores):
            issued = cal.issue(score)
            p[start + i], forecasts[i] = issued.p, issued.record[first : first + len(RUNGS)]
            cal.settle(issued, labels[start + i])
        rungs += regrets(forecasts, stream.truth[start : start + rows, None]).sum(axis=0)
    return Followed(p, rungs / len(p))


def worst_tenth(p: Array, truth: Array) -> tuple[float, float]:
    """Return the worst tenth's Σp / Σt, and how far it is from 1 in the standard errors of the tenth's events."""
    parts = list(zip(np.array_split(p, TENTHS), np.array_split(truth, TENTHS), strict=True))
    errors = [float((q - t).sum() / np.sqrt((t * (1.0 - t)).sum())) for q, t in parts]
    worst = int(np.argmax(np.abs(errors)))
    q, t = parts[worst]
    return float(q.sum() / t.sum()), errors[worst]


class LongRow(NamedTuple):
    """What was found on a long stream: regrets of the score, `Auto`, `OnlinePlatt` and the best rung; worst tenths."""

    name: str
    score: float
    auto: float
    platt: float
    best: float
    rung: str
    auto_tenth: tuple[float, float]
    platt_tenth: tuple[float, float]

    @property
    def met(self) -> bool:
        """Whether `Auto` is as near the best memory as it is meant to be."""
        return self.auto <= FACTOR * self.best + BEYOND

    def line(self) -> str:
        """Write the line of the table."""
        tenths = (f"{ratio:.3f} ({errors:+.1f})" for ratio, errors in (self.auto_tenth, self.platt_tenth))
        cells = (self.score, self.auto, self.platt, self.best)
        return f"| {self.name} | {' | '.join(f'{one:.2f}' for one in cells)} | {self.rung} | {' | '.join(tenths)} |"


def long_row(given: tuple[float, str, int]) -> LongRow:
    """Measure one long stream."""
    rate, drift, rows = given
    stream = draw(rate, drift, rows)
    auto, platt = followed(stream), OnlinePlatt().predict_learn_many(stream.scores, stream.y)
    best = int(np.argmin(auto.rungs))
    return LongRow(
        f"{rate}, {drift}",
        *(regret(p, stream.truth) for p in (stream.scores, auto.p, platt)),
        float(auto.rungs[best]),
        RUNGS[best],
        worst_tenth(auto.p, stream.truth),
        worst_tenth(platt, stream.truth),
    )


def named(names: Sequence[str]) -> str:
    """Write how many there are, and which."""
    return f"{len(names)} ({'; '.join(names)})" if names else "none"


def long_section(found: list[LongRow]) -> str:
    """Write the table of the long streams, and what it shows."""
    head = (
        "| rate, drift | score | `auto` | `online-platt` | best rung | which | `auto`, worst tenth | "
        "`online-platt`, worst tenth |\n|---|---:|---:|---:|---:|---|---:|---:|"
    )
    missed = [row.name for row in found if not row.met]
    above = [row.name for row in found if row.auto > row.platt]
    off = [row.name for row in found if abs(row.auto_tenth[1]) > RATIO_ERRORS]
    platt = [row.name for row in found if abs(row.platt_tenth[1]) > RATIO_ERRORS]
    read = (
        f"`auto` is within {FACTOR} times the regret of the best rung plus {BEYOND} on {len(found) - len(missed)} of "
        f"{len(found)} streams. Missed: {named(missed)}. Its regret is above that of `online-platt` on: "
        f"{named(above)}. Its worst tenth is more than {RATIO_ERRORS:.0f} standard errors off on: {named(off)}; that "
        f"of `online-platt` on {len(platt)}."
    )
    return "\n".join([head, *(row.line() for row in found)]) + "\n\n" + textwrap.fill(read, 118)


def whole(name: str) -> Stream:
    """Return all rows of a table of numbers after those that train its frozen base."""
    source = SOURCES[name]
    path = path_of(source.files[0])
    values = np.loadtxt(path, delimiter=",", skiprows=1)
    columns = np.loadtxt(path, delimiter=",", max_rows=1, dtype=str).tolist()
    y = values[:, columns.index(source.target)] == float(source.positive)
    numbers = {column: values[:, i] for i, column in enumerate(columns) if column != source.target}
    return as_real(clipped(frozen(Table(numbers, {}, y), TRAIN)), y[TRAIN:])


def as_real(scores: Array, y: Flags) -> Stream:
    """Return a stream whose true probabilities nobody knows."""
    return Stream(scores, y, y.astype(np.float64))


def clicks(advertiser: str, rows: int | None = None) -> Stream:
    """Return the click probabilities that a model served, and the clicks."""
    return as_real(*served(SERVED[advertiser], rows))


TABLES: dict[str, Callable[[], Stream]] = {
    "cover types": lambda: whole("covtype"),
    "diabetes": lambda: whole("cdc"),
    "clicks, iPinYou 1458": lambda: clicks("1458"),
}


def difference(p: Array, stream: Stream) -> str:
    """Write the log loss minus that of the score, with two standard errors, in 1e-4 nats a row."""
    each = regrets(log_odds(p), stream.truth) - regrets(log_odds(stream.scores), stream.truth)
    return f"{each.mean():+.2f} ± {2.0 * each.std() / np.sqrt(len(each)):.2f}"


def table_row(name: str, rows: int | None) -> str:
    """Measure one table at full length."""
    stream = Stream(*(column[:rows] for column in TABLES[name]()))
    auto, platt = followed(stream), OnlinePlatt().predict_learn_many(stream.scores, stream.y)
    raw, best = regret(stream.scores, stream.truth), int(np.argmin(auto.rungs))
    cells = f"{raw:.1f} | {difference(auto.p, stream)} | {difference(platt, stream)} | {auto.rungs[best] - raw:+.2f}"
    return f"| {name}; {len(stream.y):,} rows | {cells} | {RUNGS[best]} |"


def late_course(rate: float, factor: float, rows: int, seed: int) -> Stream:
    """Draw rare events whose score has its odds multiplied by a factor."""
    rng = np.random.default_rng([SEED, seed, round(1e6 * rate), round(factor)])
    truth = np.clip(rate * np.exp(0.8 * rng.standard_normal(rows) - 0.32), 0.0, 0.5)
    return Stream(factor * truth / (1.0 - truth + factor * truth), rng.random(rows) < truth, truth)


def total(p: Array, stream: Stream, w: Array | None = None, start: int = 0) -> Total:
    """Compare sums of predictions and of events from a row on; the loss counts from the first row."""
    weights = np.ones(len(p)) if w is None else w
    y, seen = stream.y.astype(np.float64), slice(start, None)
    events = float((weights * y)[seen].sum())
    noise = float(np.sqrt(((weights * (y - stream.truth)) ** 2)[seen].sum()))
    if not noise:  # the truth is not known
        noise = float(np.sqrt(events))
    excess = float((weights * (p - y))[seen].sum())
    lost = 1e-4 * float((weights * (regrets(log_odds(p), y) - regrets(log_odds(stream.scores), y))).sum())
    return Total(1.0 + excess / events, excess / noise, 2.0 * noise / events, lost)


#: How the labels' delay is known to `Auto`, and what is beside it.
LATE_METHODS: dict[str, Callable[[int], Calibrator]] = {
    "`Auto(delay=…)`": lambda delay: Auto(delay=delay),
    "`Auto()`": lambda delay: Auto(),
    "`OnlinePlatt()`": lambda delay: OnlinePlatt(),
}


class LateRow(NamedTuple):
    """The totals of the score and of each method on a stream with late labels."""

    name: str
    score: Total
    found: list[Total]

    def line(self) -> str:
        """Write the line of the table."""
        score = f"{self.score.ratio:.2f} ± {self.score.two:.2f}"
        return f"| {self.name} | {score} | {' | '.join(one.cell() for one in self.found)} |"


def late_row(name: str, stream: Stream, delay: int, start: int = 0) -> LateRow:
    """Measure every method on a stream whose labels come a fixed number of rows late."""
    rows = Observations(stream.scores, stream.y, None, None)
    found = [total(one_by_one(make(delay), rows, delay), stream, start=start) for make in LATE_METHODS.values()]
    return LateRow(name, total(stream.scores, stream, start=start), found)


def late_rows(rows: int | None) -> list[LateRow]:
    """Measure the rare courses, and the served clicks where there is data."""
    found = []
    for (rate, factor, delay, length), seed in product(LATE, range(LATE_SEEDS)):
        stream = late_course(rate, factor, min(rows or length, length), seed)
        start = 0 if factor == 1.0 else len(stream.y) // 5
        found.append(late_row(f"{rate}, odds × {factor:.0f}, {delay:,}, seed {seed}", stream, delay, start))
    if has_data():
        for name, delay in product(SERVED, DELAYS):
            found.append(late_row(f"iPinYou {name}, {delay:,}", clicks(name, rows), delay))
    return found


def late_section(found: list[LateRow]) -> str:
    """Write the table of late labels, and what it shows."""
    head = f"| stream, rows late | score: Σp / Σy | {' | '.join(LATE_METHODS)} |\n|---|---:|---:|---:|---:|"
    sentences = []
    for place, method in enumerate(LATE_METHODS):
        off = [row.name for row in found if abs(row.found[place].errors) > RATIO_ERRORS]
        lost = [row.name for row in found if row.found[place].nats > LOST_NATS]
        sentences.append(
            f"{method}: more than {RATIO_ERRORS:.0f} standard errors off in total on {named(off)}; more than "
            f"{LOST_NATS:.0f} nats worse than the score on {named(lost)}."
        )
    read = "\n".join(textwrap.fill(f"- {one}", 118, subsequent_indent="  ") for one in sentences)
    return "\n".join([head, *(row.line() for row in found)]) + "\n\n" + read


class Weighted(NamedTuple):
    """A sampled log: the stream, and the weights of its rows."""

    stream: Stream
    w: Array


def sampled(seed: int, rows: int) -> Weighted:
    """Draw clicks at 0.4 to 3.6 %, of which negatives are kept at a rate; the score's odds are wrong by a factor."""
    rng = np.random.default_rng([SEED, 1, seed])
    d = rng.normal(0.0, 1.0, rows)
    truth = expit(-4.6 + np.log(FACTORS[seed % len(FACTORS)]) + 0.7 * d)
    y = rng.random(rows) < truth
    kept = y | (rng.random(rows) < KEPT)
    return Weighted(Stream(expit(-4.6 + d)[kept], y[kept], truth[kept]), np.where(y[kept], 1.0, 1.0 / KEPT))


WEIGHTED_METHODS: dict[str, Callable[[], Calibrator]] = {
    "`Auto()`": Auto,
    "`Platt()`": Platt,
    "`OnlinePlatt()`": OnlinePlatt,
}


def weighted_section(rows: int) -> str:
    """Write the table of sampled negatives, and what it shows."""
    lines = [
        f"| odds | clicks | 2 s.e. | {' | '.join(WEIGHTED_METHODS)} | loss of `Auto()` above `Platt()` |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    off, later, lost = dict.fromkeys(WEIGHTED_METHODS, 0), dict.fromkeys(WEIGHTED_METHODS, 0), 0
    for seed in range(WEIGHTED_SEEDS):
        stream, w = sampled(seed, rows)
        issued = {
            name: make().predict_learn_many(stream.scores, stream.y, w) for name, make in WEIGHTED_METHODS.items()
        }
        found = {name: total(p, stream, w) for name, p in issued.items()}
        rest = {name: total(p, stream, w, start=len(p) // 10) for name, p in issued.items()}
        for name, one in found.items():
            off[name] += abs(one.errors) > 2.0
            later[name] += abs(rest[name].errors) > 2.0
        loss = 1e-4 * float((w * regrets(log_odds(stream.scores), stream.y.astype(np.float64))).sum())
        platt = found["`Platt()`"].nats
        more = 100.0 * (found["`Auto()`"].nats - platt) / (loss + platt)
        lost += more > 1.0
        cells = " | ".join(f"{one.ratio:.2f}, {rest[name].ratio:.2f}; {one.nats:+.0f}" for name, one in found.items())
        factor = FACTORS[seed % len(FACTORS)]
        odds = f"× {factor:.0f}" if factor >= 1.0 else f"× 1/{1.0 / factor:.0f}"
        lines.append(f"| {odds} | {int(stream.y.sum()):,} | {found['`Auto()`'].two:.3f} | {cells} | {more:+.2f} % |")
    misses = ", ".join(f"{name} {count} and {later[name]}" for name, count in off.items())
    read = (
        f"Totals more than two standard errors off, of {WEIGHTED_SEEDS}, with and without the first tenth: {misses}. "
        f"The loss of `Auto()` is more than 1 % above that of `Platt()` on {lost}."
    )
    return "\n".join(lines) + "\n\n" + textwrap.fill(read, 118)


def has_data() -> bool:
    """Whether the real streams are there."""
    return bool(os.environ.get("STREAMCAL_DATA"))


def long_rows(rows: int, workers: int) -> list[LongRow]:
    """Measure all long streams."""
    given = [(rate, drift, rows) for rate, drift in product(RATES, DRIFTS)]
    if workers == 1:
        return [long_row(one) for one in given]
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(long_row, given))


def texts(rows: int | None, workers: int = 1) -> dict[str, str]:
    """Measure everything, and return the texts of the page by their markers."""
    long = long_section(long_rows(rows or ROWS, workers))
    head = "| stream | score | `auto` | `online-platt` | best rung | which |\n|---|---:|---:|---:|---:|---|"
    tables = "\n".join([head, *(table_row(name, rows) for name in TABLES)]) if has_data() else "No data."
    stated = f"{datetime.date.today()}, streamcal {streamcal.__version__}"
    shortened = f", at most {rows:,} rows of every stream" if rows else ""
    return {
        "long-streams": long,
        "whole-tables": tables,
        "late-streams": late_section(late_rows(rows)),
        "weighted-streams": weighted_section(rows or ROWS),
        "long-streams-run": f"`python -m benchmarks.long_streams`, {stated}{shortened}.",
    }


def long_streams(plan: Plan) -> dict[str, str]:
    """Measure the streams of a plan; the longest are as long as the page says."""
    return texts(None if plan.long_rows == ROWS else plan.long_rows)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and write the page of a full run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, metavar="N", help="at most N rows of every stream; prints only")
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes for the long streams, default 1")
    given = parser.parse_args(arguments)
    found = texts(given.rows, given.workers)
    print(*found.values(), sep="\n\n")
    if given.rows is None:
        report.fill(PAGE, found)


if __name__ == "__main__":
    main()
