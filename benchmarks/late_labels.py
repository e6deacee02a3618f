"""When to learn a late label, re-scoring, and what `LabelJoin` and `Journal` cost.

    python -m benchmarks.late_labels                  # some minutes; writes the tables of docs/late_labels_measured.md
    python -m benchmarks.late_labels --streams 2      # shortened, prints only
    python -m benchmarks.late_labels --memory         # seconds; writes what a prediction takes that waits for its label
    python -m benchmarks.late_labels --soak 10000000  # so many events of `ad_clicks`; prints the memory in use

Streams of the first table: 60,000 impressions in 72 hours, of which 3.7 % are clicked; from the middle on the log-odds
are ln 2 higher. Of the delays of clicks 80 % are exponential with a mean of 10 minutes, the others of 3 hours; the
horizon is 6 hours. The scores are too high (2.1 times) and overconfident. Traffic is steady, or has a daily cycle from
0.2 to 1.8 times its mean.
"""

from __future__ import annotations

import argparse
import datetime
import math
import os
import re
import tempfile
import time
import tracemalloc
from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from river import linear_model, preprocessing

import streamcal
from benchmarks.processes import MB, peak, resident
from streamcal import Auto, OnlinePlatt
from streamcal.datasets import ad_click_chunks, bank
from streamcal.live import Journal, LabelJoin
from streamcal.metrics import LogLoss

PAGE = Path(__file__).resolve().parents[1] / "docs" / "late_labels_measured.md"
MARKS = r"(?<=<!-- {} -->\n).*?(?=<!-- end of {} -->)"
SEED, STREAMS = 1811, 10
#: Predictions of which the memory is measured: whole blocks of a join's table.
ROWS = 12 * 8_192
IMPRESSIONS, SPAN, HORIZON, EARLY = 60_000, 72 * 3600.0, 6 * 3600.0, 900.0
DELAY_ROWS = 5_000

Array = npt.NDArray[np.float64]


class Stream(NamedTuple):
    """Times, scores, whether there is a click, and its delay."""

    t: Array
    score: Array
    click: npt.NDArray[np.bool_]
    delay: Array


def stream(seed: int, cycle: bool) -> Stream:
    """Draw one of the streams above."""
    rng = np.random.default_rng([SEED, seed, cycle])
    n = IMPRESSIONS
    grid = np.linspace(0.0, SPAN, 4_001)
    done = np.cumsum(1.0 + (0.8 if cycle else 0.0) * np.sin(2.0 * np.pi * grid / 86_400.0))
    t = np.interp(np.sort(rng.random(n)), (done - done[0]) / (done[-1] - done[0]), grid)
    x = rng.normal(0.0, 0.8, n)
    z = -3.9 + x + np.where(t >= 0.5 * SPAN, math.log(2.0), 0.0)
    click = rng.random(n) < 1.0 / (1.0 + np.exp(-z))
    delay = np.where(rng.random(n) < 0.8, rng.exponential(600.0, n), rng.exponential(10_800.0, n))
    return Stream(t, 1.0 / (1.0 + np.exp(3.3 - 1.3 * x)), click, delay)


def joined(calibrator: Any, given: Stream, early: float | None) -> Array:
    """Return the probabilities that a join serves."""
    join, coming = LabelJoin(calibrator, HORIZON, early=early), []
    p = np.empty(len(given.t))
    for k, (now, score) in enumerate(zip(given.t.tolist(), given.score.tolist(), strict=True)):
        while coming and coming[0][0] <= now:
            when, id = heappop(coming)
            join.resolve(id, True, when)
        p[k] = join.issue(k, score, now).p
        if given.click[k]:
            heappush(coming, (now + float(given.delay[k]), k))
    return p


def on_arrival(calibrator: Any, given: Stream) -> Array:
    """Positives learned when they come, negatives at the horizon: the two are of different times."""
    coming: list[tuple[float, int, bool]] = []
    p = np.empty(len(given.t))
    for k, (now, score) in enumerate(zip(given.t.tolist(), given.score.tolist(), strict=True)):
        while coming and coming[0][0] <= now:
            _, place, y = heappop(coming)
            calibrator.learn_one(float(given.score[place]), y)
        p[k] = calibrator.predict_one(score)
        within = bool(given.click[k] and given.delay[k] <= HORIZON)
        heappush(coming, (now + (float(given.delay[k]) if within else HORIZON), k, within))
    return p


POLICIES: dict[str, Callable[[Any, Stream], Array]] = {
    "positives on arrival, negatives at the horizon": on_arrival,
    "`LabelJoin(…, horizon)`: both at the horizon": lambda calibrator, given: joined(calibrator, given, None),
    "`LabelJoin(…, horizon, early)`": lambda calibrator, given: joined(calibrator, given, EARLY),
}
CALIBRATORS: dict[str, Callable[[], Any]] = {
    "`OnlinePlatt(discount=0.9995)`": lambda: OnlinePlatt(discount=0.9995),
    "`Auto()`": Auto,
}
SPELLS = {
    "first 6 h": (0.0, 6.0),
    "12 to 36 h": (12.0, 36.0),
    "6 h after the jump": (36.0, 42.0),
    "6 to 12 h after": (42.0, 48.0),
    "later": (48.0, 72.0),
}


def when_table(streams: int) -> str:
    """Predicted over actual clicks within the horizon, summed over streams."""
    lines = [f"| | traffic | {' | '.join(SPELLS)} |", "|---|---|" + "---:|" * len(SPELLS)]
    for name, make in CALIBRATORS.items():
        for policy, run in POLICIES.items():
            for cycle in (False, True):
                sums = np.zeros((2, len(SPELLS)))
                for seed in range(streams):
                    given = stream(seed, cycle)
                    p, within = run(make(), given), given.click & (given.delay <= HORIZON)
                    for k, (start, stop) in enumerate(SPELLS.values()):
                        part = (given.t >= 3600.0 * start) & (given.t < 3600.0 * stop)
                        sums[:, k] += p[part].sum(), within[part].sum()
                cells = " | ".join(f"{ratio:.2f}" for ratio in sums[0] / sums[1])
                lines.append(f"| {name}, {policy} | {'daily cycle' if cycle else 'steady'} | {cells} |")
                print(lines[-1], flush=True)
    return "\n".join(lines)


# -- re-scoring --------------------------------------------------------------------------------------------------------


def base_scores(rows: int | None) -> list[tuple[float, float, bool]]:
    """Return for each call of `bank` its score as issued, its score 5,000 rows later, and the label.

    The base is an online logistic regression that learns the labels when they arrive, 5,000 rows late.
    """
    scaler, model = preprocessing.StandardScaler(), linear_model.LogisticRegression()
    late: deque[tuple[dict[str, float], float, bool]] = deque()
    found = []
    for number, (features, y) in enumerate(bank()):
        if number == rows:
            break
        x = {name: value for name, value in features.items() if isinstance(value, float)}
        scaler.learn_one(x)
        x = scaler.transform_one(x)
        late.append((x, model.predict_proba_one(x)[True], y))
        if len(late) > DELAY_ROWS:
            x, issued, label = late.popleft()
            found.append((issued, model.predict_proba_one(x)[True], label))
            model.learn_one(x, label)
    return found


def as_issued(calibrator: Any, events: list[tuple[float, float, bool]]) -> Iterator[float]:
    """Yield the forecasts of a join, which learns the score as issued and is judged by the forecast as issued."""
    join = LabelJoin(calibrator, horizon=DELAY_ROWS)
    for k, (issued, _, y) in enumerate(events):
        yield join.issue(k, issued, float(k)).p
        join.resolve(k, y, float(k))


def learned_as(column: int) -> Callable[[Any, list[tuple[float, float, bool]]], Iterator[float]]:
    """Return a server whose `learn_one` is given one of the two scores when the label arrives."""

    def served(calibrator: Any, events: list[tuple[float, float, bool]]) -> Iterator[float]:
        for k, (issued, _, _) in enumerate(events):
            if k >= DELAY_ROWS:
                calibrator.learn_one(events[k - DELAY_ROWS][column], events[k - DELAY_ROWS][2])
            yield calibrator.predict_one(issued)

    return served


LEARNED = {
    "the score as issued, judged as issued (`LabelJoin`)": as_issued,
    "the score as issued, judged in hindsight (`learn_one`)": learned_as(0),
    "the score of the model when the label comes (River)": learned_as(1),
}


def rescoring_table(rows: int | None) -> str:
    """Log loss and ratio of what is served, by what a calibrator learns."""
    events = base_scores(rows)
    lines = [f"| learned | {' | '.join(CALIBRATORS)} |", "|---|" + "---:|" * len(CALIBRATORS)]
    for name, run in LEARNED.items():
        cells = []
        for make in CALIBRATORS.values():
            loss, total, positives = LogLoss(), 0.0, 0
            for p, (_, _, y) in zip(run(make(), events), events, strict=True):
                loss.update(y, p)
                total, positives = total + p, positives + y
            cells.append(f"{loss.get():.4f} nats, ratio {total / positives:.2f}")
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


# -- cost --------------------------------------------------------------------------------------------------------------


def cost(calibrator: Any, n: int, early: float | None = None, journal: Journal | None = None, group: int = 1000) -> Any:
    """Processor and wall time of an impression and its outcome, in seconds; the last 10,000 labels are not learned."""
    rng = np.random.default_rng(SEED)
    scores, clicks = (rng.random(n) * 0.1).tolist(), (rng.random(n) < 0.02).tolist()
    ids = [f"impression-{k:08d}" for k in range(n)]
    join = LabelJoin(calibrator, 3600.0, early=early, journal=journal)
    cpu, wall = time.process_time(), time.perf_counter()
    for k in range(n):
        join.issue(ids[k], scores[k], 0.36 * k)
        if k >= 100:
            join.resolve(ids[k - 100], clicks[k - 100], 0.36 * k)
        if journal is not None and (2 * k) % group == 0:
            join.acknowledge()
    return (time.process_time() - cpu) / n, (time.perf_counter() - wall) / n


def cost_table(n: int) -> str:
    """Write the table of processor times for an impression and its outcome."""
    lines = ["| | µs for an impression and its outcome, processor time |", "|---|---:|"]
    for name, make, early in (
        ("`OnlinePlatt()`, alone", OnlinePlatt, -1.0),
        ("`OnlinePlatt()`", OnlinePlatt, None),
        ("`OnlinePlatt()`, `early`", OnlinePlatt, EARLY),
        ("`Auto()`", Auto, None),
    ):
        cpu = alone(make(), n) if early == -1.0 else cost(make(), n, early)[0]
        lines.append(f"| {name} | {cpu * 1e6:.1f} |")
    return "\n".join(lines)


def alone(calibrator: Any, n: int) -> float:
    """Processor time of a prediction and a label without a join."""
    scores = (np.random.default_rng(SEED).random(n) * 0.1).tolist()
    start = time.process_time()
    for score in scores:
        calibrator.predict_one(score)
        calibrator.learn_one(score, False)
    return (time.process_time() - start) / n


def memory_line(n: int) -> str:
    """Return the sentence about the bytes of a prediction and its id that waits, in memory and in a state."""
    sizes, join = [], LabelJoin(OnlinePlatt(), HORIZON)
    for k in range(2 * n):
        join.issue(k, k % 1_009 / 1_009, 0.01 * k)
        if k + 1 in (n, 2 * n):
            sizes.append(len(join.to_bytes()))
    saved = (sizes[1] - sizes[0]) / n
    found = []
    for calibrator in (OnlinePlatt(), Auto()):
        join = LabelJoin(calibrator, HORIZON)
        tracemalloc.start()
        for k in range(n):
            join.issue(k, k % 1_009 / 1_009, 0.01 * k)
        found.append(tracemalloc.get_traced_memory()[0] / n)
        tracemalloc.stop()
    plain, mixture = found
    return (
        f"With whole numbers as ids, a prediction that waits for its label takes {plain:.0f} bytes, and {mixture:.0f} "
        f"with `Auto()`; in a saved state of `OnlinePlatt()` it takes {saved:.0f}."
    )


def fsync_time(folder: str) -> float:
    """Return the median time of an fsync after a small write."""
    took = []
    with open(os.path.join(folder, "fsync"), "wb") as file:
        for _ in range(50):
            file.write(bytes(4096))
            file.flush()
            start = time.perf_counter()
            os.fsync(file.fileno())
            took.append(time.perf_counter() - start)
    return float(np.median(took))


def journal_table(n: int) -> str:
    """Acknowledged events a second, by the size of the groups."""
    lines = [
        "| events in an acknowledgement | events/s | events/s of processor time | bytes an event, after a close |",
        "|---:|---:|---:|---:|",
    ]
    for group in (1, 10, 100, 1_000):
        with tempfile.TemporaryDirectory() as folder:
            path, events = Path(folder, "events.journal"), min(n, 200 * group)
            written = [b"%051d" % k for k in range(events)]  # an impression and an outcome have 51 bytes on average
            with Journal(path) as journal:
                cpu, wall = time.process_time(), time.perf_counter()
                for k, event in enumerate(written, 1):
                    journal.append(event)
                    if k % group == 0:
                        journal.acknowledge()
                cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            size = path.stat().st_size
        lines.append(f"| {group:,} | {events / wall:,.0f} | {events / cpu:,.0f} | {size / events:.0f} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def joined_journal(n: int) -> tuple[float, float, float]:
    """Measure a join with a journal: events per second of wall time and of processor time, and bytes per event."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "events.journal")
        with Journal(path) as journal:
            cpu, wall = cost(OnlinePlatt(), n, journal=journal)
            events = journal.n / n
        return events / wall, events / cpu, path.stat().st_size / (events * n)


# -- soak --------------------------------------------------------------------------------------------------------------


def soak(events: int) -> None:
    """Impressions and clicks of `ad_clicks`, 100,000 of them held at most; the memory in use every tenth of the way."""
    join, coming, done, number = LabelJoin(OnlinePlatt(), HORIZON, early=EARLY, max_held=100_000), [], 0, 0
    start, total, clicks = time.perf_counter(), 0.0, 0
    for chunk in ad_click_chunks(events, seed=SEED, days=70.0):
        columns = (column.tolist() for column in (chunk.t, chunk.score, chunk.delay, chunk.campaign))
        for now, score, delay, campaign in zip(*columns, strict=True):
            while coming and coming[0][0] <= now:
                when, id = heappop(coming)
                join.resolve(id, True, when)
                done += 1
            total += join.issue(number, score, now, keys={"campaign": campaign}).p
            clicks += delay <= HORIZON
            if delay < 2 * HORIZON:
                heappush(coming, (now + delay, number))
            number, done = number + 1, done + 1
            if done % (events // 10) == 0:
                memory = f"{resident() // MB} MB (most {peak() // MB})"
                held = f"{join.held:,} held, {join.waiting:,} waiting"
                print(
                    f"{done:,} events: {memory}, {held}, ratio {total / clicks:.3f}",
                    flush=True,
                )
        if done >= events:
            break
    print(f"{time.perf_counter() - start:.0f} s; {join.tally()}")


# -- the page ----------------------------------------------------------------------------------------------------------


def write(mark: str, text: str) -> None:
    """Replace what stands between the marks of the page."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(re.sub(MARKS.format(mark, mark), lambda _: text + "\n", page, flags=re.DOTALL), encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    """Run the measurements, and print or write their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, help=f"streams for the first table (default {STREAMS}); prints only")
    parser.add_argument("--soak", type=int, help="run so many events, and print the memory in use")
    parser.add_argument(
        "--memory", action="store_true", help="measure the memory of a prediction that waits, and no more"
    )
    given = parser.parse_args(arguments)
    if given.soak:
        soak(given.soak)
        return
    stated = (
        f"`python -m benchmarks.late_labels`, {datetime.date.today()}, streamcal {streamcal.__version__}, seed {SEED}"
    )
    memory = memory_line(10_000 if given.streams else ROWS)
    print(memory, flush=True)
    if given.memory:
        write("memory", f"\n{memory}\n\n{stated}.\n")
        return
    with tempfile.TemporaryDirectory() as folder:
        fsync = f"An fsync took {fsync_time(folder) * 1e3:.1f} ms on this disk (median)."
    wall, cpu, size = joined_journal(20_000 if given.streams else 100_000)
    whole = (
        f"`LabelJoin(OnlinePlatt())` with a journal, acknowledged every 1,000 events: {wall:,.0f} events/s, "
        f"{cpu:,.0f} events/s of processor time, {size:.0f} bytes an event."
    )
    print(fsync, whole, sep="\n", flush=True)
    texts = {
        "cost": f"\n{cost_table(20_000 if given.streams else 200_000)}\n\n{stated}.\n",
        "memory": f"\n{memory}\n\n{stated}.\n",
        "journal": f"\n{fsync} {whole}\n\n{journal_table(20_000 if given.streams else 100_000)}\n\n{stated}.\n",
        "re-scoring": f"\n{rescoring_table(12_000 if given.streams else None)}\n\n{stated}.\n",
        "when": f"\n{when_table(given.streams or STREAMS)}\n\n{stated}, {given.streams or STREAMS} streams each.\n",
    }
    if given.streams is None:
        for mark, text in texts.items():
            write(mark, text)


if __name__ == "__main__":
    main()
