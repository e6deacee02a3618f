"""A click log of 20 million rows: speed, memory, and sums of predictions by hour.

    python -m benchmarks.click_log                  # a quarter of an hour; writes a table of docs/long_streams.md
    python -m benchmarks.click_log --rows 200000    # shortened, prints only
    python -m benchmarks.click_log --only OnlinePlatt --only LabelJoin

Four weeks of impressions at 200 campaigns, 0.4 % of which are clicked. The log-odds of a click are those of a user, who
is known to the model, and of the campaign. They follow the hour of the day in a cycle of the campaign's own, and walk
from day to day, all together and each campaign for itself. The model knows campaigns in part, hours and days not at
all, and is overconfident. Of the delays of clicks 80 % are exponential with a mean of 10 minutes, the others of 3
hours. The log comes in blocks of an hour, each drawn from the seed and its number, with the true probabilities.
"""

from __future__ import annotations

import argparse
import datetime
import math
import multiprocessing
import os
import textwrap
import time
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import expit

import streamcal
from benchmarks import report
from benchmarks.long_streams import PAGE, log_odds, regrets
from benchmarks.plan import Plan
from benchmarks.processes import MB, peak
from benchmarks.streams.tables import Array, Flags
from streamcal import Auto, OnlinePlatt, Platt
from streamcal.live import LabelJoin, Segmented

SEED, ROWS, DAYS, CAMPAIGNS = 20_551, 20_000_000, 28, 200
HOUR, HOURS = 3600.0, 24 * DAYS
HORIZON = 6 * HOUR
#: Log-odds of a click: the mean, and deviations of users, campaigns, days together, and each campaign's days.
MEAN, USER, CAMPAIGN, DAY, CAMPAIGN_DAY = -6.0, 0.8, 0.5, 0.1, 0.1
#: The cycle of the day in log-odds, and that of traffic as a share of its mean.
CYCLE, TRAFFIC = 0.3, 0.6
#: The model's log-odds: too high, too far from their mean, with a share of the campaign's effect.
TOO_HIGH, SLOPE, KNOWN = 0.3, 1.2, 0.6
QUICK, QUICK_MEAN, SLOW_MEAN = 0.8, 600.0, 10_800.0
#: Sampled negatives are kept at this rate, with its inverse as their weight.
KEPT = 0.1
#: Nothing is counted in the first day, in which labels are awaited and methods begin.
WARM = 24
#: Impressions enter a join in batches of this many seconds, the clicks known by then before them.
BATCH = 60.0
#: More than all that is remembered at any time.
MOST_HELD = 10_000_000
#: An hour is off where its sum is this many standard errors of its clicks from the truth.
OFF = 3.0


class Block(NamedTuple):
    """Impressions of an hour in the order of time; `u` is uniform and decides which negatives a sample keeps."""

    t: Array
    score: Array
    truth: Array
    click: Flags
    delay: Array
    campaign: npt.NDArray[np.int64]
    u: Array

    def rows(self, which: Any) -> Block:
        """Return some of the impressions."""
        return Block._make(column[which] for column in self)


class Log:
    """The click log of a seed and a number of rows; every iteration draws the same blocks."""

    def __init__(self, rows: int = ROWS, seed: int = SEED) -> None:
        rng = np.random.default_rng([seed, HOURS])
        self.rows, self.seed = rows, seed
        share = 1.0 / np.arange(1, CAMPAIGNS + 1) ** 1.05
        self.share = share / share.sum()
        self.effect = rng.normal(0.0, CAMPAIGN, CAMPAIGNS)
        self.peak = 24.0 * rng.random(CAMPAIGNS)
        steps = rng.normal(0.0, DAY, (DAYS + 1, 1)) + rng.normal(0.0, CAMPAIGN_DAY, (DAYS + 1, CAMPAIGNS))
        self.walk = np.cumsum(steps, axis=0)
        traffic = 1.0 + TRAFFIC * np.sin(2.0 * np.pi * np.arange(HOURS) / 24.0)
        self.ends = np.rint(rows * np.cumsum(traffic) / traffic.sum()).astype(np.int64)

    def __iter__(self) -> Iterator[Block]:
        for hour in range(HOURS):
            yield self.block(hour)

    def block(self, hour: int) -> Block:
        """Draw an hour."""
        rng, n = np.random.default_rng([self.seed, hour]), int(self.ends[hour] - (self.ends[hour - 1] if hour else 0))
        at = hour + np.sort(rng.random(n))
        campaign = rng.choice(CAMPAIGNS, n, p=self.share)
        user, effect = rng.normal(0.0, USER, n), self.effect[campaign]
        day, part = hour // 24, at / 24.0 - hour // 24
        moved = (1.0 - part) * self.walk[day, campaign] + part * self.walk[day + 1, campaign]
        cycle = CYCLE * np.cos(2.0 * np.pi * (at - self.peak[campaign]) / 24.0)
        truth = expit(MEAN + user + effect + cycle + moved)
        score = expit(MEAN + TOO_HIGH + SLOPE * (user + KNOWN * effect))
        click = rng.random(n) < truth
        mean = np.where(rng.random(n) < QUICK, QUICK_MEAN, SLOW_MEAN)
        delay = np.where(click, mean * rng.exponential(1.0, n), np.inf)
        return Block(HOUR * at, score, truth, click, delay, campaign, rng.random(n))


def known(horizon: float) -> float:
    """Return the share of clicks that are known within a horizon."""
    return 1.0 - QUICK * math.exp(-horizon / QUICK_MEAN) - (1.0 - QUICK) * math.exp(-horizon / SLOW_MEAN)


class Joined:
    """A join in its use: impressions are issued in their order, and clicks resolved at the batch after they came.

    `seconds` has the processor time by stage. A join with tokens instead of ids is given those.
    """

    def __init__(self, join: Any, horizon: float) -> None:
        self.join, self.horizon = join, horizon
        self.columns = hasattr(join, "issue_many")
        self.tokens = not isinstance(join, LabelJoin) or getattr(join, "pending", None) == "counts"
        self.coming: list[tuple[float, int, Any]] = []
        self.number = self.most = 0
        self.seconds = dict.fromkeys(("issue", "resolve", "learn"), 0.0)

    def __call__(self, block: Block) -> Array:
        """Return the probabilities that are served in an hour."""
        p = np.empty(len(block.t))
        start = math.floor(block.t[0] / BATCH) if len(p) else 0
        cuts = np.searchsorted(block.t, BATCH * np.arange(start + 1, start + 2 + HOUR / BATCH))
        first = 0
        for last in cuts.tolist():
            if last > first:
                p[first:last] = self._batch(block.rows(slice(first, last)))
            first = last
        self.most = max(self.most, self.join.waiting)
        return p

    def _batch(self, block: Block) -> Array:
        """Resolve the clicks that came, learn what is due, and issue a batch."""
        now, due, clocks = float(block.t[0]), [], [time.process_time()]
        while self.coming and self.coming[0][0] <= now:
            due.append(heappop(self.coming))
        if self.columns and due:
            times, _, ids = zip(*due, strict=True)
            self.join.resolve_many(ids, [True] * len(due), times)
        else:
            for when, _, id in due:
                self.join.resolve(id, True, when)
        clocks.append(time.process_time())
        self.join.advance(now)
        clocks.append(time.process_time())
        p, ids = self._issue(block)
        clocks.append(time.process_time())
        for place in np.flatnonzero(block.delay < 2.0 * self.horizon).tolist():
            heappush(self.coming, (float(block.t[place] + block.delay[place]), self.number + place, ids[place]))
        self.number += len(p)
        for stage, (begin, end) in zip(("resolve", "learn", "issue"), pairwise(clocks), strict=True):
            self.seconds[stage] += end - begin
        return p

    def _issue(self, block: Block) -> tuple[Array, Any]:
        """Return the probabilities of a batch, and the ids or tokens of its impressions."""
        ids = range(self.number, self.number + len(block.t))
        if self.columns and self.tokens:
            answers = self.join.issue_many(block.score, block.t)
            return answers.p, answers.tokens
        if self.columns:
            return self.join.issue_many(np.arange(ids.start, ids.stop), block.score, block.t), ids
        issue, rows = self.join.issue, zip(ids, block.score.tolist(), block.t.tolist(), strict=True)
        return np.array([issue(id, score, t).p for id, score, t in rows]), ids


#: Given an hour, and which of its rows with what weights: the probabilities, each predicted before it is learned.
Method = Callable[[Block, Array | None], Array]


class Entry(NamedTuple):
    """A line of the table: what makes the method, the horizon of its labels, and whether negatives are sampled."""

    make: Callable[[], Method]
    horizon: float = math.inf
    sampled: bool = False


def in_time(cal: Any) -> Method:
    """Return a method that learns every label before the next prediction."""
    return lambda block, w: cal.predict_learn_many(block.score, block.click, w)


def by_campaign(cal: Any) -> Method:
    """Return a method that does the same, by campaign."""
    segmented = Segmented(cal, ["campaign"])
    return lambda block, w: segmented.predict_learn_many(
        block.score, block.click, w, keys={"campaign": block.campaign.tolist()}
    )


def late(cal: Any) -> Method:
    """Return a method whose labels come through a join."""
    joined = Joined(LabelJoin(cal, HORIZON, max_held=MOST_HELD), HORIZON)
    return lambda block, w: joined(block)


ENTRIES: dict[str, Entry] = {
    "score": Entry(lambda: lambda block, w: block.score),
    "`OnlinePlatt()`": Entry(lambda: in_time(OnlinePlatt())),
    "`Auto()`": Entry(lambda: in_time(Auto())),
    "`Segmented(OnlinePlatt())`": Entry(lambda: by_campaign(OnlinePlatt())),
    "`Segmented(Auto())`": Entry(lambda: by_campaign(Auto())),
    "sampled, `Platt()`": Entry(lambda: in_time(Platt()), sampled=True),
    "sampled, `OnlinePlatt()`": Entry(lambda: in_time(OnlinePlatt()), sampled=True),
    "sampled, `Auto()`": Entry(lambda: in_time(Auto()), sampled=True),
    "sampled, `Segmented(Auto())`": Entry(lambda: by_campaign(Auto()), sampled=True),
    "`LabelJoin(OnlinePlatt(), 6 h)`": Entry(lambda: late(OnlinePlatt()), HORIZON),
    "`LabelJoin(Auto(), 6 h)`": Entry(lambda: late(Auto()), HORIZON),
}


class Sums:
    """Sums over hours and over campaigns: predictions minus truth, truth, its variance, and the regret."""

    def __init__(self) -> None:
        self.hours: list[tuple[float, float, float]] = []
        self.campaigns = np.zeros((2, CAMPAIGNS))
        self.regret, self.impressions = 0.0, 0

    def add(self, all: Block, part: Block, truth: Array, w: Array, p: Array, share: float) -> None:
        """Add an hour: all its impressions, and those seen with their truth, weights and predictions."""
        events = share * all.truth
        variance, excess = events * (1.0 - events), w * (p - truth)
        self.hours.append((float(excess.sum()), float(events.sum()), float(variance.sum())))
        self.campaigns[0] += np.bincount(part.campaign, excess, CAMPAIGNS)
        self.campaigns[1] += np.bincount(all.campaign, variance, CAMPAIGNS)
        self.regret += float((w * regrets(log_odds(p), truth)).sum())
        self.impressions += len(all.t)


class Line(NamedTuple):
    """What is measured of a method; sums are those after the first day."""

    name: str
    rows: int
    micros: float
    megabytes: float
    regret: float
    ratio: float
    hourly: float
    off: int
    worst: tuple[float, float]
    campaigns: float

    def text(self) -> str:
        """Write the line of the table."""
        ratio, errors = self.worst
        return (
            f"| {self.name} | {self.micros:.2f} | {self.megabytes:.0f} | {self.regret:.2f} | {self.ratio:.3f} | "
            f"{self.hourly:.2f} | {self.off} | {ratio:.2f} ({errors:+.1f}) | {self.campaigns:.1f} |"
        )


def measure(name: str, rows: int) -> Line:
    """Run a method over the log."""
    entry, sums, log = ENTRIES[name], Sums(), Log(rows)
    share, seen, seconds = known(entry.horizon), 0, 0.0
    for hour in range(24):  # one of them has the most impressions
        log.block(hour)
    before = peak()
    method = entry.make()
    for hour, block in enumerate(log):
        part = block.rows(block.click | (block.u < KEPT)) if entry.sampled else block
        w = np.where(part.click, 1.0, 1.0 / KEPT) if entry.sampled else np.ones(len(part.t))
        start = time.process_time()
        p = method(part, w if entry.sampled else None)
        seconds += time.process_time() - start
        seen += len(p)
        if hour >= WARM:
            sums.add(block, part, share * part.truth, w, p, share)
    excess, events, variance = np.array(sums.hours).T
    errors = excess / np.sqrt(variance)
    worst = int(np.argmax(np.abs(errors)))
    return Line(
        name,
        seen,
        1e6 * seconds / seen,
        (peak() - before) / MB,
        sums.regret / sums.impressions,
        1.0 + float(excess.sum() / events.sum()),
        float(np.sqrt((errors**2).mean())),
        int((np.abs(errors) > OFF).sum()),
        (1.0 + float(excess[worst] / events[worst]), float(errors[worst])),
        float(np.sqrt((sums.campaigns[0] ** 2 / sums.campaigns[1]).mean())),
    )


HEAD = (
    "| labels | µs | MB | regret | Σp / Σt | by hour | hours off | worst hour | by campaign |\n"
    "|---|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def table(rows: int, only: list[str] | None = None) -> str:
    """Measure the methods, each in a process of its own, and write their table."""
    lines = [HEAD]
    print(HEAD, flush=True)
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for name in ENTRIES:
            if only is None or any(one in name for one in only):
                lines.append(pool.apply(measure, (name, rows)).text())
                print(lines[-1], flush=True)
    return "\n".join(lines)


def section(rows: int) -> dict[str, str]:
    """Return the text of the page, by its marker."""
    log = Log(rows)
    clicks = sum(int(block.click.sum()) for block in log)
    text = table(rows)
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    shortened = "" if rows == ROWS else f" --rows {rows}"
    stated = (
        f"{rows:,} impressions, {clicks:,} clicks, {DAYS} days, {CAMPAIGNS} campaigns. `python -m "
        f"benchmarks.click_log{shortened}`, {datetime.date.today()}, streamcal {streamcal.__version__}, seed {SEED}; "
        f"load averages {load} at the end."
    )
    return {"click-log": text + "\n\n" + textwrap.fill(stated, 118)}


def click_log(plan: Plan) -> dict[str, str]:
    """Measure the log of a plan."""
    return section(plan.log_rows)


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, and write the table of a full run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, metavar="N", help=f"of the log, default {ROWS:,}; prints only")
    parser.add_argument("--only", action="append", metavar="TEXT", help="methods with this in their name; prints only")
    given = parser.parse_args(arguments)
    if given.only:
        table(given.rows or ROWS, given.only)
        return
    text = section(given.rows or ROWS)
    if given.rows is None:
        report.fill(PAGE, text)


if __name__ == "__main__":
    main()
