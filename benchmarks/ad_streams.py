"""Calibrators on ad streams, whose positives are rare: prequential log losses and calibration ratios.

    STREAMCAL_DATA=/path/to/data python -m benchmarks.ad_streams                 # prints what rare_events.py writes
    STREAMCAL_DATA=/path/to/data python -m benchmarks.ad_streams --rows 5000     # shortened

Every probability is predicted before its outcome is learned, cold start included, by each method with its defaults and
a label delay of 0. The streams: impressions of two iPinYou advertisers with the click probability of a published model;
the Open Bandit sample, scored by a River logistic regression that learns online; and the click generators of the race
with rare positives.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

from benchmarks.streams.bases import online
from benchmarks.streams.tables import Array, Flags, served, table
from streamcal import Auto, OnlineBeta, OnlinePlatt, Protected, VennAbers
from streamcal.calibrators.base import Calibrator
from streamcal.datasets.synthetic import generate
from streamcal.stream.prequential import Prequential, Scoreboard

SEED = 0
RAW = "raw"
METHODS: dict[str, Callable[[], Calibrator]] = {
    "`online-platt`": OnlinePlatt,
    "`online-beta`": OnlineBeta,
    "`protected`": Protected,
    "`venn-abers`": VennAbers,
    '`VennAbers("self-consistent")`': lambda: VennAbers("self-consistent"),
    '`VennAbers("score-prior")`': lambda: VennAbers("score-prior"),
    "`auto`": Auto,
}


class Scored(NamedTuple):
    """Scores and clicks in order."""

    scores: Array
    y: Flags


class Found(NamedTuple):
    """What a method reached on a stream; the difference is its log loss minus the raw one, with its interval."""

    log_loss: float
    ratio: float
    infinite: int
    difference: float
    low: float
    high: float


def open_bandit(rows: int | None) -> Scored:
    """Recommendations of a fashion shop; the model knows item, position, campaign and four features of the user."""
    data = table("open_bandit", rows)
    return Scored(online(data, train=0, delay=0), data.y)


def generated(setting: str, rows: int | None) -> Scored:
    """Return the first draw of a click generator of the race."""
    made = generate(setting, SEED)
    return Scored(made.scores[:rows], made.y[:rows])


#: Stream → how it is made, of so many rows or all.
STREAMS: dict[str, Callable[[int | None], Scored]] = {
    "iPinYou 2997": lambda rows: Scored(*served("ipinyou_2997_test", rows)),
    "iPinYou 1458": lambda rows: Scored(*served("ipinyou_1458_stream", rows)),
    "Open Bandit": open_bandit,
    "generator, 0.5 %": lambda rows: generated("clicks-0.005", rows),
    "generator, 0.05 %": lambda rows: generated("clicks-0.0005", rows),
}


def reached(stream: Scored, calibrator: Calibrator) -> tuple[Found, Found]:
    """Measure the raw scores and a method on one stream."""
    evaluation = Prequential(calibrator)
    for score, y in zip(stream.scores.tolist(), stream.y.tolist(), strict=True):
        evaluation.step(score, y)

    def found(board: Scoreboard, difference: float, interval: tuple[float, float]) -> Found:
        assert board.log_loss.get() is not None
        assert board.ratio.get() is not None
        return Found(board.log_loss.get(), board.ratio.get(), board.log_loss.infinite, difference, *interval)

    raw, difference = evaluation.raw, evaluation.difference
    assert raw is not None
    assert difference.get() is not None
    return found(raw, 0.0, (0.0, 0.0)), found(evaluation.calibrated, difference.get(), difference.interval)


def results(rows: int | None = None) -> dict[str, dict[str, Found]]:
    """Measure every method on every stream; the raw score comes first."""
    found: dict[str, dict[str, Found]] = {}
    for name, make in STREAMS.items():
        stream = make(rows)
        title = f"{name}; {len(stream.y):,} rows, {int(stream.y.sum()):,} clicks"
        found[title] = {}
        for method, new in METHODS.items():
            found[title][RAW], found[title][method] = reached(stream, new())
    return found


def loss_table(found: dict[str, dict[str, Found]]) -> str:
    """Log losses; the lowest is bold."""

    def cell(one: Found, of_all: dict[str, Found]) -> str:
        lowest = one.log_loss == min(other.log_loss for other in of_all.values())
        return f"**{one.log_loss:.6f}**" if lowest else f"{one.log_loss:.6f}"

    return _table(found, [RAW, *METHODS], cell)


def difference_table(found: dict[str, dict[str, Found]]) -> str:
    """Log losses minus the raw one, and the verdict of the confidence sequence where it has one."""

    def cell(one: Found, _: dict[str, Found]) -> str:
        verdict = " better" if one.high < 0.0 else " **worse**" if one.low > 0.0 else ""
        return f"{one.difference:+.6f}{verdict}"

    return _table(found, list(METHODS), cell)


def ratio_table(found: dict[str, dict[str, Found]]) -> str:
    """Calibration ratios, and in brackets the labels that had been given probability 0."""
    infinite = {True: " ({})", False: ""}
    return _table(
        found, [RAW, *METHODS], lambda one, _: f"{one.ratio:.3f}" + infinite[one.infinite > 0].format(one.infinite)
    )


def beside_raw(found: dict[str, dict[str, Found]], method: str) -> tuple[int, int]:
    """Count the streams on which a method's log loss is below and above that of the raw score, to six digits."""
    differences = [round(by_method[method].difference, 6) for by_method in found.values()]
    return sum(one < 0.0 for one in differences), sum(one > 0.0 for one in differences)


def _table(
    found: dict[str, dict[str, Found]], columns: list[str], cell: Callable[[Found, dict[str, Found]], str]
) -> str:
    lines = [f"| stream | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    for name, by_method in found.items():
        lines.append(f"| {name} | {' | '.join(cell(by_method[method], by_method) for method in columns)} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    """Print the tables of losses, differences and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, metavar="N", help="the first N rows of every stream")
    found = results(parser.parse_args(arguments).rows)
    print("\n\n".join((loss_table(found), difference_table(found), ratio_table(found))))


if __name__ == "__main__":
    main()
