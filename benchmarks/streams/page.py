"""`docs/race.md`: the standings as tables and one picture. Every sentence with a figure is filled from the results."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import river
import scipy
import sklearn

import streamcal
from benchmarks.streams import catalogue, picture
from benchmarks.streams.entrants import ENTRANTS
from benchmarks.streams.goals import goals
from benchmarks.streams.race import ORACLE, Results
from benchmarks.streams.standings import ONLINE_PLATT, RAW, REFERENCE, SCORE_BLIND, TRACKING_OPS, Course, Standings

#: Measure → what stands above its table.
MEASURES = {
    "log_loss": "Log loss, nats",
    "brier": "Brier score",
    "ece": "Debiased calibration error; the last column is the floor of the raw score, reached by chance alone",
    "ratio": "Calibration ratio: predicted over observed positives",
    "infinite": "Observed labels that were predicted with probability 0 (infinite losses, capped in the log loss)",
}
DASH = "–"
#: What the picture of a part shows, for those who do not see it.
ALT = "Log loss of each method minus that of auto, on each course of the {}"


def write(results: Results, out: Path) -> None:
    """Write the page, the full tables and the picture, and the held-out part if it was run."""
    development = Standings(results, catalogue.names(True))
    held_out = Standings(results, catalogue.names(False))
    parts = {"development": development} | ({"held_out": held_out} if _complete(held_out) else {})
    if REFERENCE not in development.ranked:
        raise SystemExit(f"{REFERENCE} has not run on all development streams: there is nothing to compare with")
    folder = out / "race"
    folder.mkdir(parents=True, exist_ok=True)
    for name, standings in parts.items():
        (folder / f"{name}.md").write_text(_full(standings, name), encoding="utf-8")
        picture.draw(standings, folder / f"{name}.png")
    (out / "race.md").write_text(_page(parts), encoding="utf-8")
    print(f"\nwritten: {out / 'race.md'}")


def _complete(standings: Standings) -> bool:
    """Return whether the reference ran on every course; an incomplete part is not reported."""
    return REFERENCE in standings.ranked


def table(results: Results, streams: list[str], chosen: Iterable[str] | None) -> str:
    """Write the log losses, as a shortened race prints them."""
    standings = Standings(results, streams)
    return _measure_table(standings, "log_loss", [e for e in standings.entrants if chosen is None or e in chosen])


# -- the page --------------------------------------------------------------------------------------------------------

PAGE = """# The race

Calibrators on streams that drift, evaluated prequentially: each probability was predicted before its label was
learned. Which streams are for development and which are held out was fixed before the first experiment;
`benchmarks/streams/README.md` describes each stream, and how each method was run. A *course* is a stream with a label
delay of 0, 48 or 1,000 steps.

A method is called better or worse than `auto` on a course where the confidence sequence of the difference of their
log losses excludes 0 (`LogLossDifference`, 95 % for each course, valid at every time); otherwise the course is
undecided.

{summaries}

## The goals

{goals}

## Course by course

Log loss in nats. *Best other* is the best of all other entrants on that course, chosen in hindsight, and the last
column is the loss of `auto` minus the loss of that entrant, with the confidence sequence.

{courses}

## The generators: gap closed

(`online-platt` − method)/(`online-platt` − oracle) in log loss, in percent: 100 is the best possible calibrator, below
0 is worse than `online-platt`. The gap is in nats. Where it is small, the percentage of one draw is mostly noise. The
column *in all draws* is computed from the sums over {draws} draws of the generator, each with its own training data,
base and stream. The first of them is the stream of the race. A dash stands where the other draws were not run.

{gaps}

## Notes

{notes}
- `benchmarks/streams/README.md` lists all runs on the held-out streams, and the changes that earlier ones led to.
- Log losses are capped at −log 1e-6 = 13.8 nats; the full tables have the number of capped losses:
  {links}.
- What a step of each method takes is on another page: [every method](performance.md#every-method).
- Seed {seed} for generators and models, the following seeds for the other draws. {date},
  `STREAMCAL_DATA=… python -m benchmarks.streams{option}`, streamcal {streamcal}, river {river},
  scikit-learn {sklearn}, numpy {numpy}, scipy {scipy}.
"""


def _page(parts: dict[str, Standings]) -> str:
    sections = {name: _title(name) for name in parts}
    return PAGE.format(
        summaries="\n\n".join(
            f"## {sections[name]}\n\n{_summary(s)}\n\n![{ALT.format(sections[name].lower())}]({_png(name)})"
            for name, s in parts.items()
        ),
        goals=_goals(parts),
        courses="\n\n".join(f"### {sections[name]}\n\n{_courses(s)}" for name, s in parts.items()),
        gaps="\n\n".join(f"### {sections[name]}\n\n{_gaps(s)}" for name, s in parts.items()),
        notes=_notes(parts),
        links=", ".join(f"[{_title(name).lower()}](race/{name}.md)" for name in parts),
        seed=catalogue.SEED,
        draws=catalogue.DRAWS,
        option=" --held-out" if "held_out" in parts else "",
        date=datetime.date.today().isoformat(),
        streamcal=streamcal.__version__,
        river=river.__version__,
        sklearn=sklearn.__version__,
        numpy=np.__version__,
        scipy=scipy.__version__,
    )


def _title(part: str) -> str:
    return "Development streams" if part == "development" else "Held-out streams"


def _png(part: str) -> str:
    return f"race/{part}.png"


def _summary(standings: Standings) -> str:
    """Write all entrants by mean rank in log loss; those that did not run on all courses come last."""
    log_ranks, brier_ranks = standings.mean_ranks("log_loss"), standings.mean_ranks("brier")
    lines = [
        f"{len(standings.courses)} courses; ranks are among the {len(standings.ranked)} that ran on all of them.",
        "Entrants without a rank did not run on all courses.",
        "",
        "| | mean rank, log loss | mean rank, Brier | `auto` is better / undecided / worse "
        "| worst against the raw score | worst against `online-platt` |",
        "|---|---:|---:|---|---|---|",
    ]
    by_rank = sorted(standings.entrants, key=lambda entrant: log_ranks.get(entrant, np.inf))
    for entrant in by_rank:
        ranks = [f"{r[entrant]:.1f}" if entrant in r else DASH for r in (log_ranks, brier_ranks)]
        harms = [_harm(standings.worst_harm(entrant, against)) for against in (RAW, ONLINE_PLATT)]
        tally = "" if entrant == REFERENCE else _tally(standings, entrant)
        lines.append(f"| {_name(entrant)} | {' | '.join((*ranks, tally, *harms))} |")
    return "\n".join(lines)


def _tally(standings: Standings, entrant: str) -> str:
    found = [d for course in standings.courses if (d := standings.difference(course, entrant)) is not None]
    won, lost = sum(d.won for d in found), sum(d.lost for d in found)
    return f"{won} / {len(found) - won - lost} / {lost}"


def _harm(worst: tuple[float, Course] | None) -> str:
    return DASH if worst is None else f"{worst[0]:+.3f} ({_course(worst[1])})"


def _course(course: Course) -> str:
    return f"{course[0]}, {course[1]}"


def _name(entrant: str) -> str:
    return f"**`{entrant}`**" if entrant == REFERENCE else f"`{entrant}`" if ENTRANTS[entrant].ours else entrant


def _courses(standings: Standings) -> str:
    columns = (RAW, ONLINE_PLATT, TRACKING_OPS, SCORE_BLIND, ORACLE, REFERENCE)
    lines = [
        "| stream | delay | raw | `online-platt` | `tracking-ops` | score-blind | oracle | `auto` | best other "
        "| difference |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---|---|",
    ]
    for course in standings.courses:
        cells = [_figure(standings.get(course, name, "log_loss")) for name in columns]
        best = standings.best_other(course)
        difference = standings.difference(course, best)
        shown = f"{_name(best)} {_figure(standings.get(course, best, 'log_loss'))}"
        interval = (
            "" if difference is None else f"{difference.value:+.4f} [{difference.low:+.4f}, {difference.high:+.4f}]"
        )
        lines.append(f"| {course[0]} | {course[1]} | {' | '.join(cells)} | {shown} | {interval} |")
    return "\n".join(lines)


def _figure(value: float | None, digits: int = 4) -> str:
    return DASH if value is None else f"{value:.{digits}f}"


def _gaps(standings: Standings) -> str:
    """Write the reference and the entrants with the highest median at delay 0."""
    medians = {e: standings.median_gap_closed(e, 0) for e in standings.ranked}
    leaders = sorted((e for e, m in medians.items() if m is not None), key=lambda e: -(medians[e] or 0.0))
    shown = [REFERENCE, *[e for e in leaders if e != REFERENCE][:5]]
    lines = [
        f"| stream | delay | {_name(REFERENCE)} in all draws | gap | {' | '.join(map(_name, shown))} |",
        "|---|---:|---:|---:|" + "---:|" * len(shown),
    ]
    for course in standings.generated():
        platt, oracle = (standings.get(course, name, "log_loss") for name in (ONLINE_PLATT, ORACLE))
        gap = DASH if platt is None or oracle is None else f"{platt - oracle:.4f}"
        cells = " | ".join(_percent(standings.gap_closed(course, entrant)) for entrant in shown)
        everywhere = _percent(standings.gap_closed_in_all_draws(course, REFERENCE))
        lines.append(f"| {course[0]} | {course[1]} | {everywhere} | {gap} | {cells} |")
    for delay in catalogue.DELAYS:
        cells = " | ".join(_percent(standings.median_gap_closed(entrant, delay)) for entrant in shown)
        everywhere = _percent(standings.median_gap_closed(REFERENCE, delay, in_all_draws=True))
        lines.append(f"| **median** | {delay} | {everywhere} | | {cells} |")
    return "\n".join(lines)


def _percent(share: float | None) -> str:
    return DASH if share is None else f"{100.0 * share:.0f}"


def _goals(parts: dict[str, Standings]) -> str:
    lines = ["| goal | reached | |", "|---|---|---|"]
    for name, standings in parts.items():
        for goal in goals(standings):
            lines.append(
                f"| {goal.what}, {_title(name).lower()} | {goal.seen} | {'met' if goal.met else '**not met**'} |"
            )
    return "\n".join(lines)


def _notes(parts: dict[str, Standings]) -> str:
    """Write the significant losses."""
    lines = []
    for name, standings in parts.items():
        lost = {
            course: [_name(e) for e in standings.entrants if _lost(standings, course, e)]
            for course in standings.courses
        }
        text = "; ".join(f"{_course(course)}: to {', '.join(to)}" for course, to in lost.items() if to) or "none"
        lines.append(f"- Courses with an entrant significantly better than `auto`, {_title(name).lower()}: {text}.")
    return "\n".join(lines)


def _lost(standings: Standings, course: Course, entrant: str) -> bool:
    difference = None if entrant == REFERENCE else standings.difference(course, entrant)
    return difference is not None and difference.lost


# -- the full tables -------------------------------------------------------------------------------------------------


def _full(standings: Standings, part: str) -> str:
    """Write every measure of all entrants on every course."""
    title = f"# The race: {_title(part).lower()}, every measure\n\nSee [the page of the race](../race.md)."
    sections = [
        f"## {text}\n\n{_measure_table(standings, measure, standings.entrants)}" for measure, text in MEASURES.items()
    ]
    return "\n\n".join((title, *sections)) + "\n"


def _measure_table(standings: Standings, measure: str, entrants: list[str]) -> str:
    """Courses as rows, since there are too many for columns."""
    shown = [*entrants, *([ORACLE] if standings.generated() else [])]
    style: Callable[[float | None], str] = {"infinite": lambda v: _figure(v, 0), "ratio": lambda v: _figure(v, 3)}.get(
        measure, _figure
    )
    extra = ["floor"] if measure == "ece" else []
    lines = [
        f"| stream | delay | {' | '.join(shown + extra)} |",
        "|---|---:|" + "---:|" * (len(shown) + len(extra)),
    ]
    for course in standings.courses:
        cells = [style(standings.get(course, entrant, measure)) for entrant in shown]
        cells += [style(standings.get(course, RAW, "floor")) for _ in extra]
        lines.append(f"| {course[0]} | {course[1]} | {' | '.join(cells)} |")
    return "\n".join(lines)
