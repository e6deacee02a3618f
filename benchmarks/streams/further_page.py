"""`docs/race/further.md`: `auto` on the further streams, against a few methods and the oracle."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np

import streamcal
from benchmarks.streams.catalogue import names
from benchmarks.streams.race import ORACLE, Results
from benchmarks.streams.standings import BLOCKS, ONLINE_PLATT, RAW, REFERENCE, Course, Difference, Standings

#: What `auto` is compared with.
RIVALS = (RAW, ONLINE_PLATT, "protected", "venn-abers")
METHODS = (*RIVALS, REFERENCE)
#: Differences are small.
UNIT = 1e4

PAGE = """# The race: further streams

What the streams of [the race](../race.md) lack: cycles of time, tied scores, calibrated scores, naive Bayes and MLP
bases, rare real clicks, labels that are 1,000 steps late or randomly so. `benchmarks/streams/README.md` describes them.

Log loss in nats, and differences in 1e-4 nats: of `auto` to the oracle; of `auto` to the best of the other columns,
with the 95 % interval of a paired bootstrap of {blocks} blocks of neighbours in time, and with the confidence
sequence. Σp/Σy is after the first fifth, with two standard errors of the number of positives.

{tables}

{date}, `STREAMCAL_DATA=… python -m benchmarks.streams --further{option}`, streamcal {version}.
"""


def write(results: Results, out: Path, held_out: bool) -> None:
    """Write the page, with the held-out part if it was run."""
    parts = {"Development streams": names(True, further=True)}
    if held_out:
        parts["Held-out streams"] = names(False, further=True)
    page = PAGE.format(
        blocks=BLOCKS,
        tables="\n\n".join(f"## {title}\n\n{table(Standings(results, streams))}" for title, streams in parts.items()),
        date=datetime.date.today().isoformat(),
        option=" --held-out" * held_out + (f" --rows {results.rows}" if results.rows else ""),
        version=streamcal.__version__,
    )
    (out / "race").mkdir(parents=True, exist_ok=True)
    (out / "race" / "further.md").write_text(page, encoding="utf-8")


def table(standings: Standings) -> str:
    """Write a line for each course."""
    lines = [
        "| stream | delay | raw | `online-platt` | `protected` | `venn-abers` | `auto` | to the oracle | best other "
        "| bootstrap | sequence | Σp/Σy |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---|---|---|---:|",
    ]
    return "\n".join([*lines, *(_line(standings, course) for course in standings.courses)])


def _line(standings: Standings, course: Course) -> str:
    losses = {name: standings.get(course, name, "log_loss") for name in (*METHODS, ORACLE)}
    known = [name for name in RIVALS if losses[name] is not None]
    best = min(known, key=lambda name: losses[name] or 0.0)
    cells = [_loss(losses[name]) for name in (*RIVALS, REFERENCE)]
    cells += [_more(losses[REFERENCE], losses[ORACLE]), f"`{best}`"]
    cells += [_interval(standings.bootstrapped(course, best)), _interval(standings.difference(course, best))]
    cells += [_ratio(standings, course)]
    return f"| {course[0]} | {course[1]} | {' | '.join(cells)} |"


def _loss(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def _more(one: float | None, other: float | None) -> str:
    return "–" if one is None or other is None else f"{UNIT * (one - other):+.0f}"


def _interval(found: Difference | None) -> str:
    return "–" if found is None else f"{UNIT * found.value:+.0f} [{UNIT * found.low:+.0f}, {UNIT * found.high:+.0f}]"


def _ratio(standings: Standings, course: Course) -> str:
    """Predicted over observed positives after the first fifth."""
    found = standings.predicted(course, REFERENCE)
    if found is None:
        return "–"
    p, y = (column[len(column) // 5 :] for column in found)
    return f"{p.sum() / y.sum():.3f} ± {2.0 / np.sqrt(y.sum()):.3f}"
