"""`Segmented` where levels move: expected regret to the true probabilities, for campaigns that stand still or walk.

    python -m benchmarks.segments_moving    # half a minute; the table of docs/segments_measured.md

200 campaigns share a million impressions with 3 % clicks, most of them in a few campaigns. The score is the log-odds
without the campaign, and 0.2 too high. Each campaign adds a normal offset of deviation 0.5. One that walks moves by a
further 0.5, in standard deviation, in 20,000 of its own impressions. Nothing but the labels depends on the truth, so
its regret has no noise of labels.
"""

from __future__ import annotations

import argparse
import datetime
import re
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from benchmarks.segments import MARKS, PAGE
from benchmarks.streams.tables import Array, Flags
from streamcal import OnlinePlatt
from streamcal.live import Segmented

ROWS, CAMPAIGNS, SEEDS = 1_000_000, 200, (11, 12)
HEAD = (
    "| campaigns | `OnlinePlatt` | the same by campaign | `Segmented(OnlinePlatt)` | weight of the score's order |\n"
    "|---|---:|---:|---:|---:|"
)


class Moving(NamedTuple):
    """Scores, labels, campaigns, and the true probabilities."""

    scores: Array
    y: Flags
    campaign: list[int]
    truth: Array


def moving(seed: int, n: int = ROWS) -> dict[str, Moving]:
    """Draw the streams of a seed: "static" and "walk", with the same scores."""
    rng = np.random.default_rng(seed)
    campaign = rng.pareto(0.8, n).astype(int).clip(0, CAMPAIGNS - 1)
    z = np.log(0.03 / 0.97) + rng.normal(0.0, 1.0, n)
    found = {}
    for kind in ("static", "walk"):
        added = np.full(n, -0.2)
        for one in range(CAMPAIGNS):
            rows = np.flatnonzero(campaign == one)
            added[rows] += rng.normal(0.0, 0.5)
            if kind == "walk":
                added[rows] += np.cumsum(rng.normal(0.0, 0.5 / np.sqrt(20_000.0), len(rows)))
        truth = expit(z + added)
        found[kind] = Moving(expit(z), rng.random(n) < truth, campaign.tolist(), truth)
    return found


def regret(stream: Moving, p: Array) -> float:
    """Return the mean expected log loss of p minus that of the truth, in 1e-4 nats."""
    t = stream.truth
    return float(1e4 * (t * np.log(t / p) + (1.0 - t) * np.log((1.0 - t) / (1.0 - p))).mean())


def by_campaign(stream: Moving) -> Array:
    """Return the predictions of an `OnlinePlatt` for each campaign."""
    found, campaign = np.empty(len(stream.y)), np.array(stream.campaign)
    for one in range(CAMPAIGNS):
        rows = np.flatnonzero(campaign == one)
        found[rows] = OnlinePlatt().predict_learn_many(stream.scores[rows], stream.y[rows])
    return found


def line(name: str, stream: Moving) -> str:
    """Write the line of a stream."""
    cal = Segmented(OnlinePlatt(), ["campaign"])
    corrected = cal.predict_learn_many(stream.scores, stream.y, keys={"campaign": stream.campaign})
    alone = OnlinePlatt().predict_learn_many(stream.scores, stream.y)
    each = [f"{regret(stream, np.asarray(p)):.2f}" for p in (alone, by_campaign(stream), corrected)]
    return f"| {name} | {' | '.join(each)} | {cal.orders()['score']:.2f} |"


def main(arguments: list[str] | None = None) -> None:
    """Measure the table, and write it to the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, metavar="N", help="so many rows, prints only")
    rows = parser.parse_args(arguments).rows
    lines = [
        line(f"{kind}, seed {seed}", stream) for seed in SEEDS for kind, stream in moving(seed, rows or ROWS).items()
    ]
    made = f"`python -m benchmarks.segments_moving`, {datetime.date.today()}: 1e-4 nats a row above the truth."
    table = "\n".join([HEAD, *lines, "", made])
    if rows is not None:
        print(table)
        return
    page = PAGE.read_text(encoding="utf-8")
    page = re.sub(MARKS.format("moving", "moving"), lambda _: table + "\n", page, flags=re.DOTALL)
    PAGE.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
