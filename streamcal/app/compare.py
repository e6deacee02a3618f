"""The commands `streamcal compare` and `streamcal report`."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamcal.app.choosing import METHOD, SEGMENTS, segments_of
from streamcal.app.late_labels import LateLabels, LateLog
from streamcal.app.options import Labelled, UnitOption, grouped, option
from streamcal.app.report import NOTHING
from streamcal.app.terminal import INTERRUPTED, check_place, fail, shares_terminal
from streamcal.calibrators.registry import COMPARED, RAW, REGISTRY
from streamcal.stream.columns import Columns
from streamcal.stream.files import ADDRESS, STANDARD_STREAM, is_among, same_file, title_of

if TYPE_CHECKING:  # what a comparison needs is imported in its functions, since `run` does not need it
    from streamcal.live.levels import Field
    from streamcal.stream.batches import Row
    from streamcal.stream.comparing import Comparison
    from streamcal.stream.records import Reasons, RecordError
    from streamcal.stream.replay import Replay

#: Why the times of a comparison without a report are not read.
NO_TIMES = "of these methods none reads times, as auto does; the report of --html has them on its axes"
#: No method of a comparison is shown to be better than the base.
NONE_BETTER = 1
#: A comparison of a file with fewer bytes has one process: others take a second to start.
SMALL_FILE = 1 << 23
MOST_PROCESSES = 4
#: Rows that cannot be used and wait to be written.
MOST_WAITING = 10_000
#: The value of `--methods` where it is not given.
DEFAULT_METHODS = ",".join(COMPARED)


@dataclass(frozen=True, kw_only=True)
class Asked(LateLog, Labelled):
    """Options that `compare` and `report` share."""

    methods: Annotated[str, option(METHOD, "A,B,C", f"Names.  [default: {DEFAULT_METHODS}]", show_default=False)] = (
        DEFAULT_METHODS
    )
    scale: UnitOption = None
    delay: Annotated[int, option(METHOD, "N", "Learn each row N rows later.", min=0)] = 0
    base: Annotated[str, option(METHOD, "NAME", "Recommend what is better than this method, or raw.")] = RAW
    segment: Annotated[
        list[str] | None, option(SEGMENTS, "COLUMNS", "Correct each level of a column too, as a or a,b. Repeatable.")
    ] = None
    multicalibrate: Annotated[
        list[str] | None, option(SEGMENTS, "COLUMNS", "Keep each level of a column calibrated too. Repeatable.")
    ] = None
    processes: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help=f"Share the methods.  [default: 1 below 8 MB, else at most {MOST_PROCESSES}]"
        ),
    ] = None

    @cached_property
    def log(self) -> LateLabels | None:
        """The log's columns and spans; None where labels do not come late."""
        return self.checked({"--time": self.time, "--missing-label": self.missing_label, "--delay": self.delay})

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The fields of segments."""
        return segments_of(self.segment or [])

    @cached_property
    def groups(self) -> tuple[Field, ...]:
        """The fields of groups."""
        return segments_of(self.multicalibrate or [], "--multicalibrate")

    def columns(self, **others: Any) -> Columns:
        from streamcal.live.levels import names_of

        late = self.log
        if late is not None:
            ids = {"id": late.id, "label_time": late.label_time}
            others |= {"time": late.event_time, "clock_skew": late.clock_skew, **ids}
        return super().columns(segments=names_of((*self.fields, *self.groups)), **others)

    @property
    def command(self) -> str:
        """The command that makes its report: the options that are not as by default, but for `--processes`."""
        words = ["streamcal", "report", *self.stream]
        for spec in fields(self):
            value = getattr(self, spec.name)
            if spec.name not in ("stream", "processes") and value and (value != spec.default or spec.name == "methods"):
                option = f"--{spec.name.replace('_', '-')}"
                for item in value if isinstance(value, list) else [value]:
                    words += [option] if item is True else [option, str(item)]
        return shlex.join(words)


@grouped
def compare(
    asked: Asked,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a report with pictures as one HTML file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Exit with 1 if no method is shown better.")] = False,
) -> None:
    """Compare methods on a stream, and recommend one.

    All methods predict and then learn every row, in one pass and in bounded memory. The table has log loss, Brier
    score, calibration error and its floor, predicted over observed positives, time and size. "better" and "worse" are
    verdicts of a confidence sequence of the log loss. With --check the exit code is 1 if no method is shown better than
    the base. docs/compare.md has the rules.

    \b
    Examples:
      streamcal compare clicks.csv.gz --score pctr --label click
      streamcal compare clicks.csv --score pctr --label click --methods auto,bbq
    """
    if html is not None:
        check_report(html, asked.files, asked.rejects)
    job = _compared(asked)
    if asked.time is not None and html is None and not job.reads_time:
        typer.echo(f"streamcal: warning: --time has no effect: {NO_TIMES}", err=True)
    if as_json:
        typer.echo(json.dumps(job.comparison.to_dict(), allow_nan=False))
    else:
        _print(job)
    if html is not None:
        _save_report(job, asked, html)
    job.exit(check)


@grouped
def report(
    asked: Asked,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file to write.  [default: NAME of the stream.html]")
    ] = None,
) -> None:
    """Write a report on the calibration of a stream as one HTML file.

    It is the page of `streamcal compare --html`: reliability diagrams, calibration maps, rates and losses over time
    with alarms, the tables of methods and segments, and the command that makes it again. The file needs no network.
    docs/compare.md has more.

    \b
    Examples:
      streamcal report clicks.csv.gz --score pctr --label click --html clicks.html
      streamcal report clicks.csv.gz --score pctr --label click --time t
    """
    from streamcal.app.compare_report import sentences

    source = asked.stream[0]
    named = len(asked.stream) == 1 and (os.path.exists(source) or ADDRESS in source)  # unlike a glob or standard input
    name = os.path.basename(os.path.abspath(source)) if named else "stream"
    place = Path(f"{name}.html") if html is None else html
    check_report(place, asked.files, asked.rejects)
    job = _compared(asked)
    _save_report(job, asked, place)
    typer.echo(f"{sentences(job.comparison)[0]}\n{place}")
    job.exit()


@dataclass
class Compared:
    """A comparison that has come to its end, or was interrupted."""

    comparison: Comparison
    interrupted: bool
    #: Whether one of the methods reads times.
    reads_time: bool
    skipped: int  #: rows that cannot be used

    @property
    def nothing(self) -> str | None:
        """Why nothing was compared; None if something was."""
        comparison = self.comparison
        if comparison.names:
            return None
        if comparison.rows:
            return NOTHING
        if comparison.issued:
            return f"no horizon has passed yet: {comparison.issued:,} predictions wait for their labels"
        return f"{comparison.source} has no row{' that can be used' if self.skipped else 's'}: nothing was compared"

    def exit(self, check: bool = False) -> None:
        """Exit with 130 after an interrupt and, with `check`, with 1 where no method is shown better."""
        if self.interrupted:
            typer.echo("streamcal: interrupted", err=True)
            raise typer.Exit(INTERRUPTED)
        if check and not self.comparison.improves:
            raise typer.Exit(NONE_BETTER)


class Skipped:
    """Counts rows that cannot be used, and writes them to a file, if one is given."""

    def __init__(self, path: str | None, files: ExitStack) -> None:
        from streamcal.stream.records import Reasons
        from streamcal.stream.run import REJECT_COLUMNS
        from streamcal.stream.writing import RecordWriter

        self.reasons = Reasons()
        self._writer = None if path is None else files.enter_context(RecordWriter(path, REJECT_COLUMNS))
        self._waiting: list[dict[str, Any]] = []
        files.callback(self._settle)

    def __call__(self, error: RecordError, row: Row | None) -> None:
        """Take a row that cannot be used, and the reason."""
        from streamcal.stream.run import reject_of

        self.reasons.add(error)
        if self._writer is not None:
            if len(self._waiting) >= MOST_WAITING or (self._waiting and self._waiting[0]["file"] != error.file):
                self._settle()
            self._waiting.append(reject_of(error, row))

    def _settle(self) -> None:
        """Write rows in their order: those that cannot be split are known before others of their batch."""
        from streamcal.stream.run import parts_of

        if self._writer is not None:
            for event in sorted(self._waiting, key=lambda event: event["row"]):
                self._writer.write(parts_of(event))
        self._waiting = []


def _compared(asked: Asked) -> Compared:
    """Read a stream with a live table; an interrupt ends the comparison, and is no error."""
    from streamcal.app.compare_report import live_table
    from streamcal.stream.as_issued import Horizon
    from streamcal.stream.comparing import Comparison
    from streamcal.stream.sources import opened

    sources = asked.files
    skips = asked.skips
    if asked.rejects is not None and is_among(asked.rejects, sources):
        fail(f"{asked.rejects}: --rejects would overwrite the input; give another name")
    if asked.rejects == STANDARD_STREAM:
        fail("--rejects is a file, since the result is on standard output; give its name in place of -")
    with ExitStack() as files:
        names = [name.strip() for name in asked.methods.split(",") if name.strip()]
        fields = {"segments": asked.fields, "multicalibrate": asked.groups}
        late = asked.log
        horizon = None if late is None else Horizon(late.horizon, late.early)
        comparison = Comparison(names, delay=asked.delay, base=asked.base, horizon=horizon, **fields)
        interrupted, number, replay = False, asked.processes or _processes(sources), None
        skipped = Skipped(asked.rejects, files)
        with live_table(title_of(sources), quiet=shares_terminal(sources)) as progress:
            try:
                reading = {"unit": asked.scale, "format": asked.format, "delimiter": asked.delimiter}
                refused = skipped if skips else None
                with opened(list(sources), asked.columns(), refused=refused, horizon=horizon, **reading) as source:
                    replay = None if source.lead is None else source.lead.replay
                    comparison.run(source, number, progress)
            except KeyboardInterrupt:
                interrupted = True
    _warn(asked, comparison, names, skipped.reasons, replay)
    reads_time = any(REGISTRY[name].learns_time for name in names if name in REGISTRY)
    return Compared(comparison, interrupted, reads_time, skipped.reasons.rows)


def _print(job: Compared) -> None:
    """Print the tables and what follows from them, or why there is nothing to compare."""
    from streamcal.app.compare_report import (
        folded,
        groups_table,
        methods_table,
        reading,
        segments_table,
        sentences,
        wide_console,
    )
    from streamcal.app.group_data import group_tables
    from streamcal.app.report import times_read
    from streamcal.app.segment_data import segment_tables

    console = wide_console()
    if job.nothing is not None:
        console.print(job.nothing)
        return
    for part in folded(methods_table(job.comparison)):
        console.print(part)
    for line in filter(None, (*sentences(job.comparison), reading(job.comparison), times_read(job.comparison.order))):
        console.print(line)
    for segments in segment_tables(job.comparison):
        console.print(segments_table(segments))
    for groups in group_tables(job.comparison):
        console.print(groups_table(groups))


def _warn(asked: Asked, comparison: Comparison, names: Sequence[str], skipped: Reasons, replay: Replay | None) -> None:
    """Print what is odd about the stream, a line each; `replay` is that of a log with late labels."""
    from streamcal.app import oddities

    if replay is None:
        of_labels: tuple[str | None, ...] = (
            oddities.odd_times(comparison.order, [REGISTRY[name] for name in names if name in REGISTRY]),
            oddities.disordered(comparison.order),
            oddities.none_negative(comparison.measured, comparison.positives),
            _delayed(comparison.rows, comparison.delay),
        )
    else:
        horizon, unit = replay.join.spans.horizon, bool(asked.horizon and asked.horizon.unit)
        of_labels = (
            oddities.odd_unit_of_events(comparison.order, horizon, seconds=unit),
            oddities.odd_labels(replay),
            oddities.early_labels(replay),
            oddities.odd_ids(replay, comparison.issued + replay.repeated),
        )
    odd = (
        *of_labels,
        oddities.odd_ratio(comparison.standings[RAW], comparison.measured, asked.scale),
        oddities.falling(comparison.sample),
        comparison.sample.odd_rows(),
        oddities.mostly_skipped(comparison.issued, skipped)
        or (f"{skipped.rows:,} rows that cannot be used were skipped" if skipped.rows else None),
        oddities.skipped_by_class(
            comparison.issued, comparison.positives if replay is None else replay.clicks, skipped
        ),
    )
    for line in filter(None, odd):
        typer.echo(f"streamcal: warning: {line}", err=True)


def _delayed(rows: int, delay: int) -> str | None:
    """Report that most rows were predicted before the first label was learned, if they were."""
    if not rows or 2 * delay < rows:
        return None
    before = min(delay + 1, rows)
    return f"{before:,} of {rows:,} rows were predicted before a label was learned: give a shorter --delay"


def _save_report(job: Compared, asked: Asked, path: Path) -> None:
    from streamcal.app.html_report import save_report

    if job.nothing is not None:
        fail(f"{path}: there is no report: {job.nothing}")
    save_report(job.comparison, path, command=asked.command)


def _processes(sources: Sequence[str]) -> int:
    """Return how many processes are worth the cost of their start."""
    small = all(map(os.path.isfile, sources)) and sum(map(os.path.getsize, sources)) < SMALL_FILE
    return 1 if small else min(os.cpu_count() or 1, MOST_PROCESSES)


def check_report(path: Path, sources: Sequence[str], *others: str | Path | None) -> None:
    """Fail now if the report could not be written, or would replace the stream or another file."""
    if str(path) == STANDARD_STREAM:
        fail("a report is a file; give its name in place of -")
    check_place(path, "report")
    if is_among(path, sources):
        fail(f"{path}: the report would overwrite the stream; give another name")
    if any(other is not None and same_file(path, other) for other in others):
        fail(f"{path}: the report would overwrite another file of this run; give another name")
