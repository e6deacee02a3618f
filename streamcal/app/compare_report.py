"""Output of `streamcal compare`: the table of methods, live and at the end, and its conclusions."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.table import Column, Table

from streamcal.app.group_data import GroupTable
from streamcal.app.report import NOTHING, agreement, aligned, plain, ratio_text
from streamcal.app.segment_data import SegmentTable
from streamcal.parameters.spans import span_text
from streamcal.stream.as_issued import Horizon
from streamcal.stream.comparing import CONFIDENCE, RAW, Comparison, Difference, Standing

#: Seconds between two drawings of the live table.
REDRAWN = 0.25
#: The width where no terminal has one: no table needs as much.
WIDTH = 10_000
#: Spaces between two columns.
GAP = 2
UNITS = ("B", "kB", "MB", "GB")


def methods_table(comparison: Comparison, *, final: bool = True) -> Table:
    """Return a row for each method, best first; unless final, leave out the columns that take long to compute."""
    names = comparison.names or list(comparison.standings)
    rows = [comparison.standings[name] for name in names]
    columns = {
        "log loss": aligned([row.log_loss.get() for row in rows]),
        "Brier": aligned([row.brier.get() for row in rows]),
    }
    if final:
        columns["debiased ECE"] = aligned([row.debiased_ece.get() for row in rows])
        columns["floor"] = aligned([row.debiased_ece.floor for row in rows])
    columns["ratio"] = [_ratio(row) for row in rows]
    columns["µs"] = [_microseconds(row, comparison.issued) for row in rows]
    if final:
        columns["state"] = ["" if row.bytes is None else size(row.bytes) for row in rows]
        columns[f"against {comparison.base}"] = [_verdict(comparison, name, comparison.base) for name in names]
        columns["against the best"] = [_verdict(comparison, name, comparison.best) for name in names]
    table = Table(box=None, pad_edge=False)
    table.add_column("", no_wrap=True)
    for heading in columns:
        table.add_column(heading, justify="left" if heading.startswith("against") else "right", no_wrap=True)
    for row in zip(names, *columns.values(), strict=True):
        table.add_row(*row)
    return table


def segments_table(segments: SegmentTable) -> Group:
    """Return the levels of a field whose totals differ most from the predictions, and the mean over all levels."""
    return Group("", f"By {segments.field}: {segments.lead}", *folded(_table(segments)), segments.sentence)


def groups_table(groups: GroupTable) -> Group:
    """Return the groups with most evidence against their predictions, and the certificate."""
    title = f"Groups with most evidence against {groups.of}:"
    return Group("", title, *folded(_table(groups)), f"Certified: {groups.sentence}.")


def _table(data: SegmentTable | GroupTable) -> Table:
    table = Table(box=None, pad_edge=False)
    for i, heading in enumerate(data.headings):
        table.add_column(heading, justify="right" if i else "left", no_wrap=True)
    for row in data.rows:
        table.add_row(*row)
    return table


def sentences(comparison: Comparison) -> list[str]:
    """Return the recommendation with its reason, the alternatives and the failures."""
    advice, lines = comparison.recommendation, []
    if advice is not None:
        what = "Keep the raw score" if advice.method == RAW else f"Take {advice.method}"
        what = what if advice.decided else "Miscalibrated"
        lines.append(f"{what}: {advice.reason}.")
        if cheaper := comparison.cheaper():
            faster = ", ".join(f"{name} ({times:,.0f} times as fast)" for name, times in cheaper.items())
            lines.append(f"No difference from it is shown for {faster}.")
        if advice.decided:
            lines.append(f"Calibration ratio: {advice.method} {agreement(comparison.standings[advice.method].ratio)}.")
    lines += [f"{name} failed: {comparison.standings[name].failure}" for name in comparison.failed()]
    if comparison.rows and not comparison.measured:
        lines.append(NOTHING)
    lines.append(
        f"Verdicts are of {100.0 * CONFIDENCE:g} % confidence sequences of log loss, which hold for all pairs together."
    )
    if comparison.extreme:
        lines.append(f"{comparison.extreme:,} scores beyond the scale, log-odds ±16, were moved to its end.")
    return lines


def reading(comparison: Comparison) -> str:
    """Return what was read, when labels came, and how fast."""
    rows = f"{comparison.rows:,} rows ({comparison.positives:,} positive)"
    pace = f"{comparison.issued / comparison.seconds if comparison.issued else 0.0:,.0f} rows per second"
    if comparison.horizon is not None:
        spans = of_horizon(comparison.horizon)
        waiting = f"{comparison.issued - comparison.rows:,} more wait until their horizon has passed"
        return f"{rows}, judged as issued with a horizon of {spans}; {waiting}; {pace}"
    late = f", labels {comparison.delay:,} rows late" if comparison.delay else ""
    return f"{rows}{late}; {pace}"


def of_horizon(horizon: Horizon) -> str:
    """Describe when labels are known.

    >>> of_horizon(Horizon(21_600.0, 900.0))
    '6h, early clicks learned after 15m'
    """
    early = "" if horizon.early is None else f", early clicks learned after {span_text(horizon.early)}"
    return f"{span_text(horizon.horizon)}{early}"


@contextmanager
def live_table(title: str, *, quiet: bool) -> Iterator[Callable[[Comparison, float | None], None]]:
    """Draw the growing table on standard error if that is a terminal; yield the callback that `compare` calls."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda comparison, share: None
        return
    with Live(console=console, transient=True, auto_refresh=False) as live:
        drawn = 0.0

        def progress(comparison: Comparison, share: float | None) -> None:
            nonlocal drawn
            if time.monotonic() - drawn >= REDRAWN:
                read = "" if share is None else f", {share:.0%}"
                head = f"{title}: {comparison.rows:,} rows{read}, {comparison.seconds:.0f} s"
                live.update(Group(head, methods_table(comparison, final=False)), refresh=True)
                drawn = time.monotonic()

        yield progress


def wide_console() -> Console:
    """Return a console on standard output that breaks no line and cuts no cell."""
    return Console(highlight=False, markup=False, soft_wrap=True, width=WIDTH)


def folded(table: Table) -> list[Table]:
    """Return the table in parts as wide as the terminal, each with the first column; elsewhere the table itself."""
    console = Console()
    return parts_of(table, console.width if console.is_terminal else WIDTH)


def parts_of(table: Table, width: int) -> list[Table]:
    """Return parts of a table that fit in lines of `width` characters, if its first column and another one do.

    Examples
    --------
    >>> table = Table("method", "log loss", "verdict")
    >>> [[column.header for column in part.columns] for part in parts_of(table, 20)]
    [['method', 'log loss'], ['method', 'verdict']]
    """
    first, *others = table.columns
    parts: list[list[Column]] = []
    for column in others:
        if not parts or sum(map(_width, (first, *parts[-1], column))) + GAP * len((*parts[-1], column)) > width:
            parts.append([])
        parts[-1].append(column)
    return [_of_columns([first, *part]) for part in parts]


def _of_columns(columns: list[Column]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column.header, justify=column.justify, no_wrap=True)
    for row in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*row)
    return table


def _width(column: Column) -> int:
    return max(cell_len(str(text)) for text in (column.header, *column.cells))


def size(number: int) -> str:
    """Write bytes in few characters.

    >>> size(325), size(126_373), size(2_500_000)
    ('325 B', '126 kB', '2.5 MB')
    """
    value, unit = float(number), 0
    while value >= 999.5 and unit < len(UNITS) - 1:
        value, unit = value / 1000.0, unit + 1
    return f"{value:.0f} {UNITS[unit]}" if value >= 10.0 or not unit else f"{value:.1f} {UNITS[unit]}"


def difference_text(gap: Difference) -> str:
    """Return a verdict with the size of the difference."""
    return gap.verdict if gap.verdict == "no difference shown" else f"{gap.verdict} by {plain(gap.value)}"


def _verdict(comparison: Comparison, name: str, other: str | None) -> str:
    if other is None or name == other or other not in comparison.names:
        return ""
    return difference_text(comparison.difference(name, other))


def _ratio(row: Standing) -> str:
    return ratio_text(row.ratio.get())


def _microseconds(row: Standing, rows: int) -> str:
    if row.name == RAW or not rows:
        return ""
    each = 1e6 * row.seconds / rows
    return f"{each:.2g}" if each < 10.0 else f"{each:.0f}"
