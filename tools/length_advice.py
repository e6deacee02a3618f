"""What holds on long, late, rare and weighted streams, by the tables of docs/long_streams.md.

python tools/length_advice.py     prints the paragraphs of docs/which.md and docs/rare_events.md
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "long_streams.md"
WIDTH = 118


def section(name: str) -> str:
    """Return the text between the markers of a section."""
    text = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"<!-- benchmarks: {name} -->\n(.*?)<!-- end: {name} -->", text, re.DOTALL)
    if found is None:
        raise SystemExit(f"{PAGE.name} has no section {name!r}; write it with python -m benchmarks --only {name}")
    return found[1]


def columns(name: str) -> dict[str, list[str]]:
    """Return the columns of a section's table by their headings; of two with one heading, the first."""
    head, _, *body = (
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in section(name).splitlines()
        if line.startswith("|")
    )
    found: dict[str, list[str]] = {}
    for place, heading in enumerate(head):
        found.setdefault(heading, [row[place] for row in body])
    return found


def totals(cells: Iterable[str]) -> list[float]:
    """Return predicted over observed of cells such as "1.22; +1"."""
    return [float(cell.partition(";")[0].partition(",")[0]) for cell in cells]


def nats(cells: Iterable[str]) -> list[float]:
    """Return the nats above the score of cells such as "1.22; +1"."""
    return [float(cell.partition(";")[2]) for cell in cells]


def between(values: list[float]) -> str:
    """Write the least and the most of some ratios."""
    return f"{min(values):.2f} to {max(values):.2f}"


def long() -> str:
    """Say how near `Auto` comes to the best memory on long streams."""
    found = columns("long-streams")
    auto, platt = ([float(cell) for cell in found[name]] for name in ("`auto`", "`online-platt`"))
    less = sum(a < b for a, b in zip(auto, platt, strict=True))
    within = re.search(r"on (\d+) of \d+ streams", " ".join(section("long-streams").split()))
    assert within is not None
    return (
        f"On {len(auto)} streams of a million rows, `Auto` has less regret than `OnlinePlatt` on {less}, and about the "
        f"regret of the best single memory on {within[1]}."
    )


def late() -> str:
    """Say what late labels of rare clicks do to totals and losses."""
    found = columns("late-streams")
    names = found["stream, rows late"]
    rows = [place for place, name in enumerate(names) if not name.endswith(", 0")]
    auto, platt = ([found[name][place] for place in rows] for name in ("`Auto()`", "`OnlinePlatt()`"))
    lower = sum(a < b for a, b in zip(nats(auto), nats(platt), strict=True))
    return (
        f"On {len(rows)} courses of rare clicks, 1,000 to 20,000 rows late, `Auto` predicts {between(totals(auto))} "
        f"times the clicks, and `OnlinePlatt` {between(totals(platt))} times. The loss of `Auto` is lower on {lower}."
    )


def weighted() -> str:
    """Say what sampled negatives do to totals."""
    found = columns("weighted-streams")
    auto, platt = (totals(found[name]) for name in ("`Auto()`", "`Platt()`"))
    advice = ": where totals must be right, use `Platt`" if off(auto) > off(platt) else ""
    return (
        f"With negatives sampled at 1 % and weight 100, `Auto` predicts {between(auto)} times the weighted clicks, and "
        f"`Platt` {between(platt)} times{advice}."
    )


def off(values: list[float]) -> float:
    """Return how far the worst of some ratios is from 1."""
    return max(abs(value - 1.0) for value in values)


def click_log() -> str:
    """Say how sums by hour hold on the click log."""
    text = section("click-log")
    rows = re.search(r"([\d,]+)\s+impressions", text)
    assert rows is not None
    found = columns("click-log")
    cells = zip(found["regret"], found["Σp / Σt"], found["hours off"], strict=True)
    by_name = dict(zip(found["labels"], cells, strict=True))
    auto, segmented, late = (by_name[name] for name in ("`Auto()`", "`Segmented(Auto())`", "`LabelJoin(Auto(), 6 h)`"))
    wrong = [name for name, cells in (("in time", auto), ("late", late)) if cells[2] != "0"]
    hours = f"some hours' sums are wrong by more ({' and '.join(wrong)})" if wrong else "no hour's sum is wrong by more"
    return (
        f"On a click log of {rows[1]} rows, `Auto` predicts {auto[1]} times the clicks, and {late[1]} times with "
        f"labels 6 hours late; {hours} than 3 standard errors. `Segmented(Auto())` by campaign lowers the regret from "
        f"{auto[0]} to {segmented[0]} (1e-4 nats a row)."
    )


def which() -> str:
    """Write the paragraph of docs/which.md."""
    first = "[Long streams](long_streams.md) has results of a million rows and more."
    return textwrap.fill(" ".join([first, long(), late(), weighted(), click_log()]), WIDTH)


def rare() -> str:
    """Write the paragraph of docs/rare_events.md."""
    text = (
        f"Where clicks come late, or negatives are sampled, see [long streams](long_streams.md). {late()} {weighted()}"
    )
    return textwrap.fill(text, WIDTH)


if __name__ == "__main__":
    print(which(), rare(), sep="\n\n")
