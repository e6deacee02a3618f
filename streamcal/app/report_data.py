"""Data of the HTML report; `html_report.py` writes the report and `figures.py` draws its pictures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from streamcal.app.compare_report import difference_text, of_horizon, sentences, size
from streamcal.app.doctor import NAME_AND_VERSION
from streamcal.app.group_data import GroupTable, group_tables
from streamcal.app.report import aligned, ratio_text
from streamcal.app.segment_data import SegmentTable, segment_tables
from streamcal.live.alarms import Alarm
from streamcal.metrics import CORPReliability
from streamcal.stream.comparing import RAW, Comparison
from streamcal.stream.history import Part

#: Series that have pictures: the score itself, the base, and the best. More lines are hard to tell apart.
MOST_SERIES = 4
#: Alarms of one series that are listed.
LISTED = 8
#: Different times at the ends of parts that make an axis.
FEWEST_TIMES = 3
#: The setting that says how late labels were.
LATE = "labels known after"


@dataclass(frozen=True)
class Series:
    """One series of predictions, with what its pictures are drawn from.

    `floor` is that of the miscalibration; `marks` are the rows at which alarms are drawn; `mapped` are
    scores and what the method made of them at the end, empty for the score itself.
    """

    name: str
    shown: str
    reliability: CORPReliability
    floor: float
    parts: tuple[Part, ...]
    alarms: tuple[Alarm, ...]
    alarms_in_all: int
    marks: tuple[float, ...]
    mapped: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class ReportData:
    """A report: headings and texts, a table, and series of predictions for the pictures."""

    #: What was read.
    source: str
    base: str  #: the series that others are compared with
    rows: int
    positives: int
    sentences: tuple[str, ...]  #: what follows, the recommendation first
    headings: tuple[str, ...]  #: of the columns of `table`
    table: tuple[tuple[str, ...], ...]  #: a row for each method, the best first
    series: tuple[Series, ...]  #: those with pictures, the score itself first
    settings: tuple[tuple[str, str], ...]  #: methods with their parameters, and versions
    command: str  #: what makes this report again; empty where it was made in Python
    made: str  #: the day
    segments: tuple[SegmentTable, ...] = ()  #: one for each field of segments
    #: The table of the best method that is kept calibrated in groups, if there is one.
    groups: tuple[GroupTable, ...] = ()
    #: The time of the first row, and the times at the ends of the parts of all series; empty if there are no times, or
    #: rows are in no order.
    times: tuple[float, ...] = ()


def prepared(comparison: Comparison, *, command: str = "", made: str = "") -> ReportData:
    """Compute the data of a report on a finished comparison.

    Cost: 400 isotonic fits for each of up to four series, some 0.1 s.
    """
    headings, table = _table(comparison)
    settings = [(name, comparison.standings[name].shown) for name in comparison.standings]
    late = f"{comparison.delay:,} rows" if comparison.horizon is None else of_horizon(comparison.horizon)
    more = [(LATE, late), ("better than", comparison.base)]
    return ReportData(
        source=comparison.source,
        base=comparison.base,
        rows=comparison.rows,
        positives=comparison.positives,
        sentences=tuple(sentences(comparison)),
        headings=headings,
        table=table,
        series=tuple(_series(comparison, name) for name in pictured(comparison)),
        settings=(*settings, *more, ("version", NAME_AND_VERSION)),
        command=command,
        made=made,
        segments=segment_tables(comparison),
        groups=group_tables(comparison),
        times=_times(comparison),
    )


def _times(comparison: Comparison) -> tuple[float, ...]:
    """Return the times on the axis of pictures; parts that end at the same time, such as a day, divide it evenly."""
    times = comparison.history.times
    values, first = np.unique(times, return_index=True)
    if len(values) < FEWEST_TIMES or comparison.order.disordered:
        return ()
    rest, step = len(times) - 1 - first[-1], (values[-1] - values[-2]) / (first[-1] - first[-2])
    known, at = [*first.tolist(), len(times) - 1], [*values.tolist(), values[-1] + rest * step]
    return tuple(np.interp(np.arange(len(times)), known, at).tolist())


def pictured(comparison: Comparison) -> list[str]:
    """Return the series with pictures: the score itself, the base, and the best methods."""
    names = comparison.names
    wanted = [RAW, comparison.base, *(name for name in names if name != RAW)]
    return [name for name in dict.fromkeys(wanted) if name in names][:MOST_SERIES]


def _series(comparison: Comparison, name: str) -> Series:
    standing, history = comparison.standings[name], comparison.history
    return Series(
        name=name,
        shown=standing.shown,
        reliability=standing.corp.reliability(),
        floor=standing.corp.floor or 0.0,
        parts=tuple(history.parts(name)),
        alarms=tuple(history.alarms[name]),
        alarms_in_all=history.alarms_in_all[name],
        marks=tuple(history.marks(name)),
        mapped=standing.mapped,
    )


def _table(comparison: Comparison) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """Return headings, and the row of each method, the best first."""
    names = comparison.names
    rows = [comparison.standings[name] for name in names]
    parts = [row.corp.decomposition for row in rows]
    columns = {
        "method": names,
        "log loss": aligned([row.log_loss.get() for row in rows]),
        f"against {comparison.base}": [_verdict(comparison, name, comparison.base) for name in names],
        "against the best": [_verdict(comparison, name, names[0]) for name in names],
        "Brier": aligned([row.brier.get() for row in rows]),
        "miscalibration": aligned([None if part is None else part.miscalibration for part in parts]),
        "discrimination": aligned([None if part is None else part.discrimination for part in parts]),
        "debiased ECE": aligned([row.debiased_ece.get() for row in rows]),
        "its floor": aligned([row.debiased_ece.floor for row in rows]),
        "predicted / actual": [_ratio(comparison, name) for name in names],
        "alarms": [f"{comparison.history.alarms_in_all[name]:,}" for name in names],
        "µs a row": [_each(comparison, name) for name in names],
        "state": ["" if row.bytes is None else size(row.bytes) for row in rows],
    }
    known = {heading: cells for heading, cells in columns.items() if any(cells)}
    return tuple(known), tuple(zip(*known.values(), strict=True))


def _each(comparison: Comparison, name: str) -> str:
    """Return microseconds a row, if they were measured."""
    seconds = comparison.standings[name].seconds
    return f"{1e6 * seconds / comparison.issued:.2g}" if seconds else ""


def _ratio(comparison: Comparison, name: str) -> str:
    ratio = comparison.standings[name].ratio
    if ratio.get() is None:
        return "–"
    low, high = map(ratio_text, ratio.interval())
    return f"{ratio_text(ratio.get())} [{low},\u00a0{high}]"  # a narrow cell breaks before the interval


def _verdict(comparison: Comparison, name: str, other: str) -> str:
    if name == other or other not in comparison.names:
        return ""
    return difference_text(comparison.difference(name, other))
