"""The command line: `streamcal run`, `predict`, `map`, `compare`, `report`, `methods`, `doctor` and `demo`."""

from __future__ import annotations

import inspect
import math
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from streamcal.app.choosing import (
    LevelsStoreOption,
    MaxLevelsOption,
    MulticalibrateOption,
    PairsOption,
    calibrator_of,
    check_store,
    choice_of,
    held,
    segments_of,
)
from streamcal.app.compare import check_report, compare, report
from streamcal.app.configuring import Configured
from streamcal.app.doctor import NAME_AND_VERSION, environment, summary
from streamcal.app.late_labels import (
    EarlyOption,
    EventTimeOption,
    HorizonOption,
    IdOption,
    JournalOption,
    LabelTimeOption,
    LateOption,
    MaxHeldOption,
    VersionOption,
    closing_lines,
    late_labels,
    waiting,
)
from streamcal.app.map import map_
from streamcal.app.oddities import oddities, reads_time, times_in_no_order
from streamcal.app.options import (
    SKIP,
    STOP,
    ClipOption,
    DecimalOption,
    DecreasingOption,
    DelimiterOption,
    FormatOption,
    LabelOption,
    MissingLabelOption,
    OnErrorOption,
    OutputColumnOption,
    PositiveOption,
    QuietOption,
    RejectsOption,
    ScoreOption,
    Span,
    StreamArgument,
    TimeFormatOption,
    TimeOption,
    TimeUnitOption,
    TimezoneOption,
    WeightOption,
    check_scale,
    files_of,
    margin_of,
    span_of,
    time_options,
)
from streamcal.app.predict import predict
from streamcal.app.report import conclusions, scores_table
from streamcal.app.serve import VARIABLES, serve
from streamcal.app.terminal import (
    INTERRUPTED,
    USAGE_ERROR,
    check_place,
    fail,
    failing,
    interrupting,
    one_line,
    progress_bar,
    shares_terminal,
)
from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.registry import DEFAULT_METHOD, REGISTRY
from streamcal.errors import StreamcalError
from streamcal.lazy import ALIASES, Methods
from streamcal.names import did_you_mean
from streamcal.parameters.scales import Interval
from streamcal.stream import checkpoints
from streamcal.stream.columns import Columns
from streamcal.stream.formats import STANDARD_STREAM, same_file
from streamcal.stream.inputs import title_of
from streamcal.stream.prequential import Measures
from streamcal.stream.records import PARSED_AS_PROBABILITY
from streamcal.stream.run import CALIBRATED, KEEP_EVERY, Run

if TYPE_CHECKING:
    from streamcal.app.run_report import RunReport
    from streamcal.live.keyed import Keyed
    from streamcal.live.multicalibrated import Multicalibrated

app = typer.Typer(
    help="Keep the probabilities of a deployed model calibrated while outcomes arrive.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

#: Groups with most evidence against their predictions that a run shows.
MOST_GROUPS = 3
#: Descriptions of the counts of `Calibrator.tally`.
TALLIES = {
    "clamped": "scores beyond the scale, moved to its end",
    "late": "rows too old to be learned",
    "missed": "retractions of what was forgotten already",
    "evicted": "times a level of a segment was dropped to make room for another",
}
EVICTED_TO_STORE = "times a level of a segment made room in memory, and went to the store"
#: The run came to its end, but learned less than half of its rows.
UNLEARNED = 1
#: 2026-01-01, when the clicks of `sample` begin.
START_OF_SAMPLE = 1_767_225_600.0


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(NAME_AND_VERSION)
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Options before the command."""


@app.command()
def run(
    context: typer.Context,
    stream: StreamArgument,
    score: ScoreOption,
    label: LabelOption,
    positive: PositiveOption = None,
    missing_label: MissingLabelOption = None,
    decreasing: DecreasingOption = False,
    clip: ClipOption = False,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"See `streamcal methods`; {DEFAULT_METHOD} takes 4 µs a row, ops half a microsecond.  "
            f"[default: {DEFAULT_METHOD}]",
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help='Parameter, such as "scale=Logit(-8, 0)". Repeatable.'),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            parser=check_scale,
            help="Scores that are no probabilities: percent (0 to 100), logit (log-odds), or margin (any number, for "
            "methods with a scale), with bounds as in margin:-8,8.",
        ),
    ] = None,
    window: Annotated[
        Span | None,
        typer.Option(
            metavar="N",
            parser=span_of,
            help="Keep the last N rows, or with --time the last N units of time, or a span such as 24h.",
        ),
    ] = None,
    half_life: Annotated[
        Span | None,
        typer.Option(
            metavar="N",
            parser=span_of,
            help="Halve the weight of the past every N rows; with --time, every N units of time or a span such as 7d.",
        ),
    ] = None,
    time_column: TimeOption = None,
    time_unit: TimeUnitOption = "s",
    time_format: TimeFormatOption = None,
    timezone: TimezoneOption = None,
    weight: WeightOption = None,
    id_: IdOption = None,
    event_time: EventTimeOption = None,
    label_time: LabelTimeOption = None,
    horizon: HorizonOption = None,
    early: EarlyOption = None,
    late: LateOption = None,
    journal: JournalOption = None,
    max_held: MaxHeldOption = None,
    version: VersionOption = None,
    segment: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN[,COLUMN]",
            help="Column of segments, such as campaigns, whose levels are corrected besides; two with a comma: their "
            "pairs. Repeatable, the coarsest first.",
        ),
    ] = None,
    levels_store: LevelsStoreOption = None,
    max_levels: MaxLevelsOption = None,
    pairs: PairsOption = False,
    multicalibrate: MulticalibrateOption = None,
    out: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write the input columns and `calibrated`; - is stdout, in STREAM's format."),
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Go on from this state, if it is there, after the rows that it has learned, and save it at the end.",
        ),
    ] = None,
    checkpoint: Annotated[
        Span | None,
        typer.Option(
            metavar="SPAN",
            parser=span_of,
            help="With --state: save it so often while the run goes on, as in 5m.  [default: 30s; of --journal 2s]",
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Learn STREAM from its start, also rows that the state has learned.")
    ] = False,
    on_error: OnErrorOption = STOP,
    rejects: RejectsOption = None,
    output_column: OutputColumnOption = CALIBRATED,
    quiet: QuietOption = False,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a report with pictures, raw against calibrated, as one HTML file."),
    ] = None,
    format_: FormatOption = None,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = ".",
) -> None:
    """Calibrate a stream of scores online.

    Each row is predicted first and learned afterwards. The output has `lower` and `upper` too where the method has an
    interval; a table at the end compares raw and calibrated. A row that cannot be used ends the run with exit code 2;
    rows before it are in the output and in the state. A probability outside [0, 1] cannot be used, even by rounding,
    without --clip. An interrupt ends the run between two rows with exit code 130 (SIGTERM: 143), and output and state
    hold the same rows.

    The same command once more goes on after the last row that the --state has learned, and continues the output;
    another file is learned from its start. After a crash the state is that of the last checkpoint. A pipe cannot be
    read twice: rows after the checkpoint are then in the output alone, which the next run continues.

    --html writes the page of `streamcal report` on the rows of this run, also after an interrupt.

    Where labels come late, --id, --event-time, --label-time and --horizon replay the log: each row is predicted at the
    time of its event, and learned when the horizon has passed, by default (--early), as negative unless its label came.
    The rows have to be in the order of their events; one may be older than the latest by the horizon, and not more.
    With --journal the same command goes on where it ended, however it ended. docs/late_labels.md has the rest.

    Warnings come last: scores that predict 20 times, or 1/20 of, the positives (from 1,000 rows on); times in
    milliseconds with a span in seconds; --time where nothing reads it; and rows in no order, where more than half came
    too late to be learned (exit code 1). docs/command_line.md has the rules.

    \b
    Example:
      streamcal run clicks.csv.gz --score pctr --label click --out calibrated.csv
    """
    if rejects is not None and on_error == STOP:
        fail("--rejects needs --on-error skip")
    sources = files_of(stream)
    if html is not None:
        check_report(html, sources, out, rejects, state, journal)
    plain: dict[str, Any] = {"highlight": False, "markup": False, "soft_wrap": True}
    console = Console(stderr=STANDARD_STREAM in (out, rejects), quiet=quiet, **plain)
    seconds = any(span is not None and span.unit for span in (window, half_life))
    every = KEEP_EVERY if checkpoint is None else checkpoint.size
    excluded = {"--time": time_column, "--state": state, "--again": again, "--missing-label": missing_label}
    asked = late_labels(id_, event_time, label_time, horizon, early, late, journal, max_held, version, excluded)
    time_column = time_column if asked is None else asked.event_time
    timed, levels = time_column is not None, (levels_store, max_levels, pairs)
    choice = choice_of(method, set_ or [], window, half_life, segment or [], *levels, timed=timed)
    choice = replace(choice, groups=segments_of(multicalibrate or [], "--multicalibrate"))
    unit = scale if scale in PARSED_AS_PROBABILITY else None
    if scale is not None and unit is None:
        if "scale" in choice.parameters:
            fail("--scale margin and --set scale exclude each other")
        margin = margin_of(scale)
        choice.parameters["scale"] = Interval(-margin.hi, -margin.lo) if decreasing and margin else margin
    with failing():
        if state is not None:
            _check_state_file(state, (*sources, out, rejects))
        with nullcontext() if state is None else checkpoints.locked(state), ExitStack() as files:
            calibrator, before = calibrator_of(choice, state)
            check_store(calibrator, *sources, out, rejects, state, journal, html)
            if time_column is None and reads_time(calibrator):
                fail(f"{calibrator!r} forgets by time: name the column with --time")
            join = None if asked is None else files.enter_context(asked.join(calibrator, *sources, out, rejects))
            calibrator = calibrator if join is None else join.calibrator
            fields = () if isinstance(calibrator, Calibrator) else calibrator.fields
            columns = Columns(
                score,
                label,
                time_column,
                weight,
                positive,
                fields,
                id_,
                label_time,
                version,
                missing_label,
                decreasing,
                clip,
                decimal,
                time_options(time_unit, time_format, timezone),
            )
            rows = (format_, out, on_error == SKIP, rejects, delimiter, unit)
            job = Run(calibrator, sources, columns, *rows, join=join, column=output_column)
            job.checkpoint, job.again = before, again
            if state is not None:
                job.keep, job.keep_every = partial(checkpoints.save, calibrator, state), every
            elif asked is not None:
                asked.go_on(job, every)
            told = None if html is None else _run_report(job, html)
            console.print(summary())
            console.print(f"{calibrator!r}{held(calibrator, state)}" if join is None else f"{join!r}{waiting(join)}")
            interrupted = False
            try:
                with (
                    interrupting(job),
                    progress_bar(title_of(sources), quiet=quiet or shares_terminal(sources, out, rejects)) as tell,
                ):
                    job.execute(tell)
            except KeyboardInterrupt:
                interrupted = True
            _report(console, job, seconds=seconds)
            if told is not None:
                console.print(told.save(context))
            if interrupted:
                typer.echo("streamcal: interrupted", err=True)
                raise typer.Exit(INTERRUPTED + job.interrupted_by - signal.SIGINT)
        if times_in_no_order(job):
            raise typer.Exit(UNLEARNED)


app.command()(predict)
app.command()(compare)
app.command()(report)
app.command("map")(map_)


@app.command("methods")
def methods_(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Show the documentation of this method.")] = None,
) -> None:
    """List the methods and what each can do, or document one.

    Those for several scores, many classes and distributions, which are used from Python, come last, by name.
    """
    from streamcal import fusion, multiclass, regression  # not at the top, since `run` does not need them

    console = Console(highlight=False, markup=False)
    if name is not None:
        packages: tuple[Methods[Any], ...] = (REGISTRY, multiclass.METHODS, fusion.METHODS, regression.METHODS)
        found = next((methods[name] for methods in packages if name in methods), None)
        if found is None:
            known = [*ALIASES, *(key for methods in packages for key in methods)]
            fail(f"{name!r} is unknown{did_you_mean(name, known)}; `streamcal methods` lists the methods")
        console.print(f"{found.__module__}.{found.__name__}\n\n{inspect.getdoc(found)}", soft_wrap=True)
        return
    abilities = Table(box=None, pad_edge=False)
    for heading in ("method", "merges", "unlearns", "monotone", "interval", "memory"):
        abilities.add_column(heading, no_wrap=True)
    descriptions = Table(box=None, pad_edge=False, show_header=False)
    descriptions.add_column(no_wrap=True)
    descriptions.add_column()
    for name, cls in REGISTRY.items():
        try:
            cal = cls()
        except StreamcalError as error:  # an extra is not installed
            descriptions.add_row(name, f"{cls.summary}\n{error}")
            continue
        can = (cal.merges, cal.unlearns, cal.monotone, cal.has_interval)
        memory = "fixed" if cal.bounded_memory else "grows"
        abilities.add_row(name, *("yes" if able else "no" for able in can), memory)
        descriptions.add_row(name, f"{cls.summary}\n{cal!r}")
    console.print(abilities)
    console.print(
        "\nmerges: two can be added up; unlearns: a label can be taken back; monotone: keeps the order of the scores; "
        "interval: gives `lower` and `upper` too; memory: fixed, or grows with the distinct scores. "
        "All for the default parameters: forgetting and resolution change some.\n"
    )
    console.print(descriptions)
    console.print('\nParameters are set one by one:\n  --method bernstein --set degree=10 --set "scale=Logit(-8, 0)"')
    short = ", ".join(f"{alias} for {name}" for alias, name in ALIASES.items() if name in REGISTRY)
    console.print(f"\nShort names: {short}.")
    console.print("\nIn Python, with the same verbs, there are besides:\n")
    others = Table(box=None, pad_edge=False, show_header=False)
    others.add_column(no_wrap=True)
    others.add_column()
    for package, what in ((multiclass, "many classes"), (fusion, "several scores"), (regression, "distributions")):
        others.add_row(package.__name__, what)
        for other in package.METHODS.values():
            others.add_row(f"  {other.__name__}", other.summary)
    console.print(others)


@app.command()
def doctor() -> None:
    """Show which files and kernels are in use, and the versions."""
    for what, found in environment().items():
        typer.echo(f"{what:16} {found}")


@app.command()
def sample(
    file: Annotated[str, typer.Argument(metavar="FILE", help="CSV, JSON Lines, Parquet or Arrow, by its ending.")],
    rows: Annotated[int, typer.Option(metavar="N", min=1, help="Number of rows.")] = 20_000,
) -> None:
    """Write a file of simulated ad clicks to try commands on.

    Columns: t (seconds since 2026), campaign, advertiser, placement, pctr (the score) and click (the label). Every call
    writes the same rows (`streamcal.datasets.ad_clicks` with rate=0.02).

    \b
    Example:
      streamcal sample clicks.csv.gz && streamcal run clicks.csv.gz --score pctr --label click --out calibrated.csv
    """
    from streamcal.datasets import ad_clicks
    from streamcal.stream.writing import RecordWriter

    check_place(Path(file), "sample")
    stream = ad_clicks(rows, rate=0.02)
    columns = {
        "t": (START_OF_SAMPLE + stream.t).round(3),
        "campaign": stream.campaign,
        "advertiser": stream.advertiser,
        "placement": stream.placement,
        "pctr": stream.score,
        "click": stream.click.astype(int),
    }
    with failing(), RecordWriter(file, list(columns)) as writer:
        table = zip(*(column.tolist() for column in columns.values()), strict=True)
        writer.write(dict(zip(columns, row, strict=True)) for row in table)
    typer.echo(f"{file}: {rows:,} rows, {int(stream.click.sum()):,} clicks; score: pctr, label: click")


@app.command()
def demo(
    picture: Annotated[Path, typer.Option(metavar="FILE", help="Where to save the picture.")] = Path(
        "streamcal-demo.png"
    ),
) -> None:
    """Calibrate two online models on a real stream that drifts.

    The conversion stream ships with the package: UCI Bank Marketing, 41,188 calls, May 2008 to November 2010. It takes
    some 20 seconds. The picture needs matplotlib.
    """
    from streamcal.app import demo as show
    from streamcal.app import demo_report

    console = Console(highlight=False)
    check_place(picture, "picture")
    with failing():
        with progress_bar("bank marketing") as tell:
            result = show.run(tell)
        demo_report.report(result, console)
        demo_report.save_picture(result, picture, console)
    console.print("\nThe same on your own file:", soft_wrap=True)
    console.print("  streamcal run FILE.csv --score COLUMN --label COLUMN --out calibrated.csv", soft_wrap=True)


app.command(cls=Configured, context_settings={"auto_envvar_prefix": VARIABLES})(serve)


def main() -> None:
    """The entry point of the console script."""
    try:
        app(prog_name="streamcal")
    except OSError as error:  # of standard output or standard error; errors of files have been told
        with suppress(OSError):
            typer.echo(one_line(f"standard output cannot be written: {error.strerror or error}"), err=True)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                os.dup2(nowhere, stream.fileno())  # what is still held for it is lost without another error
        raise SystemExit(USAGE_ERROR) from None


def _check_state_file(state: Path, others: tuple[str | None, ...]) -> None:
    """Fail now, and not at the end of the run, if the state could not be written."""
    check_place(state, "state")
    if any(other is not None and same_file(state, other) for other in others):
        fail(f"{state}: --state would overwrite another file of this run; give another name")


def _run_report(job: Run, path: Path) -> RunReport:
    """What writes the page of `--html`."""
    from streamcal.app.run_report import RunReport  # not at the top: most runs do not need it

    return RunReport(job, path)


def _report(console: Console, job: Run, *, seconds: bool) -> None:
    """The closing table, raw against calibrated, what follows from it, what was read, and what was odd about it."""
    evaluation: Measures = job.evaluation
    console.print(scores_table(evaluation.boards()))
    for line in conclusions(evaluation):
        console.print(line)
    if job.passed_over:
        advice = "" if job.replay is not None else "; --again learns them once more"
        console.print(f"the {job.passed_over:,} rows before had been learned{advice}")
    for source in job.replaced:
        console.print(f"{source}: another file of this name was learned before; this one was learned from its start")
    skipped = f", {job.skipped:,} skipped" if job.skip or job.skipped else ""
    if job.skipped_lines > job.skipped:
        skipped += f" ({job.skipped_lines:,} lines of the file)"
    pace = job.taken / job.seconds if job.taken else 0.0
    positives = evaluation.positives if job.replay is None else job.replay.clicks
    console.print(f"{job.taken:,} rows ({positives:,} positive){skipped}; {pace:,.0f} rows per second")
    for line in closing_lines(job):
        console.print(line)
    for line in _segments_found(job.learning[-1]):
        console.print(line)
    for what, count in job.tally().items():
        if count:
            kept = what == "evicted" and getattr(job.learning[-1], "store", None) is not None
            console.print(f"{EVICTED_TO_STORE if kept else TALLIES[what]}: {count:,}")
    for line in oddities(job, seconds=seconds):
        (Console(stderr=True, highlight=False, markup=False, soft_wrap=True) if console.quiet else console).print(
            f"warning: {line}"
        )


def _segments_found(calibrator: Calibrator | Keyed) -> Iterator[str]:
    """How much the levels of each field differ, a line each, and the groups with most evidence against predictions."""
    if isinstance(calibrator, Calibrator):
        return
    from streamcal.live.multicalibrated import Multicalibrated
    from streamcal.live.segmented import Segmented

    if isinstance(calibrator, Multicalibrated):
        yield from _segments_found(calibrator.inner)
        yield from _groups_found(calibrator)
    if not isinstance(calibrator, Segmented):
        return
    for field in calibrator.by:
        name = field if isinstance(field, str) else ",".join(field)
        deviation, share = math.sqrt(calibrator.variance(field)), 1.0 - calibrator.weights(field)["nothing"]
        held, stored = len(calibrator.levels(field)), calibrator.levels_stored(field)
        away = f" ({stored:,} of them in the store)" if stored else ""
        differ = f"which differ by {deviation:.2f} in log-odds; corrections weigh {share:.0%}"
        yield f"segments by {name}: {held + stored:,}{away}, {differ}"


def _groups_found(calibrator: Multicalibrated) -> Iterator[str]:
    """What is certified, and the groups with most evidence against their predictions, a line each."""
    from streamcal.app.group_data import bound_text, certificate_text, group_text

    yield f"multicalibrated: {certificate_text(calibrator.certificate())}"
    for group in calibrator.worst(MOST_GROUPS):
        numbers = f"gap {group.gap:+.1f} (z {group.z:+.1f}, bound {bound_text(group)})"
        yield f"  {group_text(group, calibrator.bins)}: {numbers}"
