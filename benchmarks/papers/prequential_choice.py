"""Regret of `PrequentialChoice` on the development streams of the race, beside following the leader.

    STREAMCAL_DATA=… python -m benchmarks.papers.prequential_choice    # writes docs/papers/prequential_choice.md

The candidates run once each. The mixture and the leader are computed from their forecasts.
"""

from __future__ import annotations

import argparse
import datetime
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

import streamcal
from benchmarks.streams import catalogue
from streamcal import Bernstein, Decay, PrequentialChoice, SmoothIsotonic

Array = npt.NDArray[np.float64]

PAGE = Path(__file__).resolve().parents[2] / "docs" / "papers" / "prequential_choice.md"
ROWS = 5_000
#: As `PrequentialChoice` limits forecasts.
NEAREST = 1e-9
#: What is chosen → the candidates as text, and how they are made.
GRIDS: dict[str, tuple[str, Callable[[], PrequentialChoice]]] = {
    "degree": (
        "`PrequentialChoice(Bernstein, degree=[5, 10, 20, 40])`",
        lambda: PrequentialChoice(Bernstein, degree=[5, 10, 20, 40]),
    ),
    "half-life": (
        "`PrequentialChoice(Bernstein, forgetting=[Decay(300), Decay(1_000), Decay(3_000), Decay(10_000)])`",
        lambda: PrequentialChoice(Bernstein, forgetting=[Decay(300), Decay(1_000), Decay(3_000), Decay(10_000)]),
    ),
    "λ": (
        "`PrequentialChoice(SmoothIsotonic(resolution=256, refresh_every=64), "
        "penalty=[None, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1])`",
        lambda: PrequentialChoice(
            SmoothIsotonic(resolution=256, refresh_every=64), penalty=[None, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1]
        ),
    ),
}


class Regret(NamedTuple):
    """Nats of the best candidate, and how many more the mixture, the leader and the worst candidate lose."""

    best: float
    name: str
    mixture: float
    leader: float
    worst: float


def regret(choice: PrequentialChoice, scores: Array, y: npt.NDArray[np.bool_]) -> Regret:
    """Run the candidates over a stream, and return the regret of both ways to choose."""
    p = np.array([one.clone().predict_learn_many(scores, y) for one in choice.candidates])
    right = np.where(y, p, 1.0 - p).clip(NEAREST, 1.0 - NEAREST)
    losses = np.cumsum(-np.log(right), axis=1)
    before = np.hstack([np.zeros((len(p), 1)), losses[:, :-1]])
    shares = np.exp(before.min(axis=0) - before)
    mixture = -np.log((shares * right).sum(axis=0) / shares.sum(axis=0)).sum()
    leader = -np.log(right[before.argmin(axis=0), np.arange(len(y))]).sum()
    last = losses[:, -1]
    best, name = float(last.min()), list(choice.weights())[int(last.argmin())]
    return Regret(best, name, float(mixture) - best, float(leader) - best, float(last.max()) - best)


def table(found: dict[str, Regret]) -> str:
    """Write one table, a row for each stream."""
    lines = [
        "| stream | best candidate | its log loss | mixture | leader | worst candidate |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for stream, one in found.items():
        short = one.name.replace("forgetting=Decay(half_life=", "").replace(", by='count')", "").partition("=")
        lines.append(
            f"| {stream} | {short[2] or short[0]} | {one.best:,.1f} | {one.mixture:+.2f} | {one.leader:+.2f} | "
            f"{one.worst:+.1f} |"
        )
    return "\n".join(lines)


PAGE_TEXT = """# Choosing a parameter on a stream

`PrequentialChoice` mixes candidates of one method by their log loss so far. This page measures what it loses against
the best candidate in hindsight on the development streams of [the race](../race.md), {rows:,} rows each, in nats. The
guarantee is ln K: {guarantees}.

The column "leader" is the other way to choose: to predict with the candidate of the smallest loss so far. It has no
such guarantee.

{sections}
## Reading

- **The mixture stays within its guarantee on every stream**: it loses at most {mixture:.2f} nats.
- **The leader loses up to {leader:.1f} nats**, and more than ln K in {over} of {cells} cells: it follows whoever was
  lucky. `PrequentialChoice` therefore mixes.
- **λ of `SmoothIsotonic`**: the interpolation of the isotonic fit is the best candidate on {none} of {streams} streams.
  It predicts 0 and 1 at both ends, which the log loss punishes. The best λ lies between 1e-5 and 0.1.
- **Fusions are not mixed**: `PrequentialChoice` takes methods of one score. `PrequentialFusion` selects one candidate
  by its squared loss, so that its map is that of one fusion. A mixture by log loss would need a contract of its own
  for vectors of scores, with missing ones.

---

`STREAMCAL_DATA=… python -m benchmarks.papers.prequential_choice`, {date}, streamcal {streamcal}, numpy {numpy}.
"""


def page(found: dict[str, dict[str, Regret]]) -> str:
    """Write the page of the documentation."""
    every = [(len(GRIDS[grid][1]().candidates), one) for grid, rows in found.items() for one in rows.values()]
    guarantees = ", ".join(
        f"{math.log(len(make().candidates)):.2f} for the {grid}" for grid, (_, make) in GRIDS.items()
    )
    return PAGE_TEXT.format(
        rows=ROWS,
        guarantees=guarantees,
        sections="\n".join(f"## The {grid}\n\n{GRIDS[grid][0]}\n\n{table(rows)}\n" for grid, rows in found.items()),
        mixture=max(one.mixture for _, one in every),
        leader=max(one.leader for _, one in every),
        over=sum(one.leader > math.log(number) for number, one in every),
        cells=len(every),
        none=sum(one.name == "penalty=None" for one in found["λ"].values()),
        streams=len(found["λ"]),
        date=datetime.date.today().isoformat(),
        streamcal=streamcal.__version__,
        numpy=np.__version__,
    )


def main(arguments: list[str] | None = None) -> None:
    """Run all streams, and write the page of a full run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, help="a shortened run: prints, writes no page")
    parser.add_argument("--streams", nargs="+", default=catalogue.names(development=True))
    given = parser.parse_args(arguments)
    found: dict[str, dict[str, Regret]] = {grid: {} for grid in GRIDS}
    for name in given.streams:
        stream = catalogue.stream(name, 0)
        rows = slice(given.rows or ROWS)
        for grid, (_, make) in GRIDS.items():
            found[grid][name] = regret(make(), stream.scores[rows], stream.y[rows])
    if given.rows is not None:
        print("\n\n".join(table(rows) for rows in found.values()))
        return
    PAGE.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
