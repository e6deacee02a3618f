"""Which method to start with, by the committed results of the race and of the ad streams, and by measured times.

    python tools/race_advice.py     prints the table and the chart of docs/which.md

What is needed restricts the methods to those that can do it. Recommended is the one with the lowest mean rank in log
loss on the held-out streams (`docs/race/held_out.md`); ranks are among the methods that remain. For rare events the
streams are those of `docs/rare_events.md`, and the raw score is ranked with the methods: what does not beat it is not
recommended. How sure that is: the share of 10,000 resamples of the streams, with replacement and each with both its
label delays, in which the method is first as well. Times are those of `streamcal methods`.

The chart asks for the same abilities one after the other. At its ends stands the method that this rule gives among
those that have all that was asked for on the way.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from streamcal import REGISTRY

ROOT = Path(__file__).parents[1]
DOCS, TIMES = ROOT / "docs", ROOT / "streamcal" / "app" / "method_times.json"
RESAMPLES, SEED = 10_000, 0
#: Microseconds to learn one observation and predict another that are "about one".
FAST = 1.5

Array = npt.NDArray[np.float64]


class Losses(NamedTuple):
    """Log losses: shape (courses, methods), and the stream of each course."""

    streams: list[str]
    methods: list[str]
    values: Array


class Standing(NamedTuple):
    """A method's column in the table of held-out streams of `docs/race.md`, and its time."""

    against_auto: str
    microseconds: float


class Need(NamedTuple):
    """What is needed, and which methods have it."""

    text: str
    suits: Callable[[str, Standing], bool]


ANYTHING = Need("nothing else: the default", lambda *_: True)
FASTEST = Need("a microsecond per observation", lambda _, standing: standing.microseconds <= FAST)
ADDITIVE = Need("merging, retraction, windows", lambda name, _: REGISTRY[name]().merges and REGISTRY[name]().unlearns)
MONOTONE = Need("the order of the scores kept", lambda name, _: REGISTRY[name].monotone)
INTERVAL = Need("an interval", lambda name, _: REGISTRY[name].has_interval)
NEEDS = (ANYTHING, FASTEST, ADDITIVE, MONOTONE, INTERVAL)
RARE = "rare events, such as clicks"


class Question(NamedTuple):
    """A question of the chart: what "yes" asks of a method, and the questions that follow either answer."""

    text: str
    need: Need
    yes: Question | None = None
    no: Question | None = None


KEEP_ORDER = Question("Must a higher score never get a lower probability?", MONOTONE)
TAKE_BACK = Question("Are merging, retraction or exact windows needed?", ADDITIVE, KEEP_ORDER, KEEP_ORDER)
CHART = Question(
    f"Must predicting and learning take less than {FAST} µs?",
    FASTEST,
    None,
    Question("Is an interval needed beside the probability?", INTERVAL, None, TAKE_BACK),
)


class Advice(NamedTuple):
    """The method with the lowest mean rank, the second, and in what share of resamples the first is first."""

    method: str
    rank: float
    second: str
    confidence: float


def rows() -> list[list[str]]:
    """Return the table of docs/which.md, the heading first."""
    found, standings = held_out(), race()
    lines = [["you need", "start with", "mean rank", "first in", "µs", "decided by confidence sequences"]]
    for need in NEEDS:
        able = [name for name in found.methods if name != "identity" and need.suits(name, standings[name])]
        one, standing = first(among(found, able)), standings[first(among(found, able)).method]
        verdicts = decided("`auto` is better", standing.against_auto) if standing.against_auto else ""
        lines.append(row(need.text, one, len(able), standing, verdicts))
    ads, one = rare_events(), first(rare_events())
    verdicts = decided("better than the score", against_raw(one.method))
    lines.insert(2, row(RARE, one, len(ads.methods), standings[one.method], verdicts))
    return lines


def chart() -> str:
    """Return the chart of docs/which.md, as a block of text."""
    return "\n".join(["```text", *branches(CHART, [], held_out(), race()), "```"])


def branches(question: Question | None, needs: list[Need], found: Losses, standings: dict[str, Standing]) -> list[str]:
    """Return the lines of a question and its branches; at an end, one line with the method.

    A question whose answers lead to the same method is left out.
    """
    if question is None:
        able = [name for name in found.methods if all(need.suits(name, standings[name]) for need in needs)]
        return [first(among(found, [name for name in able if name != "identity"])).method]
    yes = branches(question.yes, [*needs, question.need], found, standings)
    no = branches(question.no, needs, found, standings)
    if yes == no:
        return yes
    below_yes, below_no = (f"│        {line}" for line in yes[1:]), (f"         {line}" for line in no[1:])
    return [question.text, f"├─ yes ─ {yes[0]}", *below_yes, f"└─ no ── {no[0]}", *below_no]


def row(text: str, one: Advice, of: int, standing: Standing, verdicts: str) -> list[str]:
    """Return the cells of one row of the table of docs/which.md."""
    shares = f"{100.0 * one.confidence:.0f} %; next is `{one.second}`"
    return [text, f"`{one.method}`", f"{one.rank:.1f} of {of}", shares, f"{standing.microseconds:.2g}", verdicts]


def decided(better: str, counts: str) -> str:
    """Describe how many streams are better, undecided and worse."""
    won, undecided, lost = map(int, counts.split(" / "))
    return f"{better} on {won}, worse on {lost} of {won + undecided + lost}"


def first(found: Losses) -> Advice:
    """Return the method with the lowest mean rank, by the rule at the top."""
    ranks = np.array([rankdata(row) for row in found.values])
    means = ranks.mean(axis=0)
    best, second = np.argsort(means, kind="stable")[:2]
    names = sorted(set(found.streams))
    by_stream = np.array([ranks[[name == stream for stream in found.streams]].sum(axis=0) for name in names])
    share = np.full(len(names), 1.0 / len(names))
    drawn = np.random.default_rng(SEED).multinomial(len(names), share, RESAMPLES) @ by_stream
    confidence = float((drawn[:, best] <= drawn.min(axis=1)).mean())
    return Advice(found.methods[best], float(means[best]), found.methods[second], confidence)


def among(found: Losses, methods: list[str]) -> Losses:
    """Return the losses of some of the methods."""
    return Losses(found.streams, methods, found.values[:, [found.methods.index(name) for name in methods]])


def held_out() -> Losses:
    """Return the log losses of the methods of this package on the held-out streams of the race."""
    heading, *body = table_below("race/held_out.md", "## Log loss, nats")
    kept = [k for k, name in enumerate(heading) if name in REGISTRY]
    values = np.array([[float(row[k]) for k in kept] for row in body])
    return Losses([row[0] for row in body], [heading[k] for k in kept], values)


def race() -> dict[str, Standing]:
    """Return the standings on the held-out streams, by method."""
    times = json.loads(TIMES.read_text(encoding="utf-8"))["microseconds"]
    _, *body = table_below("race.md", "## Held-out streams")
    return {name: Standing(row[3], times[name]) for row in body if (name := plain(row[0])) in REGISTRY}


def rare_events() -> Losses:
    """Return the log losses on the ad streams, with the raw score among the methods."""
    heading, *body = table_below("rare_events.md", "# Rare events")
    values = np.array([[float(plain(cell)) for cell in row[1:]] for row in body])
    return Losses([row[0] for row in body], [plain(name) for name in heading[1:]], values)


def against_raw(method: str) -> str:
    """Count the ad streams on which a method is better than the raw score, undecided and worse."""
    heading, *body = table_below("rare_events.md", "Log loss minus that of the raw score")
    cells = [row[[plain(name) for name in heading].index(method)] for row in body]
    better, worse = (sum(verdict in cell for cell in cells) for verdict in ("better", "worse"))
    return f"{better} / {len(cells) - better - worse} / {worse}"


def table_below(page: str, text: str) -> list[list[str]]:
    """Return the cells of the first table below a text of a page in docs, without the line of dashes."""
    below = (DOCS / page).read_text(encoding="utf-8").partition(text)[2]
    lines = re.search(r"(?:^\|.*\n)+", below, flags=re.MULTILINE)
    if lines is None:
        raise SystemExit(f"docs/{page} has no table below {text!r}")
    heading, _, *body = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines[0].splitlines())
    return [heading, *body]


def plain(cell: str) -> str:
    """Return a cell without the marks of code and bold type."""
    return cell.replace("*", "").replace("`", "")


if __name__ == "__main__":
    sys.stdout.write("\n".join(" | ".join(cells) for cells in rows()) + f"\n{chart()}\n")
