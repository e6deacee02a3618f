"""The command line: `streamcal run`, `predict`, `map`, `compare`, `report`, `methods`, `doctor` and `demo`."""

from __future__ import annotations

import inspect
import io
import math
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from streamcal.app.choosing import LevelOptions, MethodOptions, calibrator_of, check_store, choice_of, resumed_note
from streamcal.app.compare import check_report, compare, report
from streamcal.app.doctor import NAME_AND_VERSION, environment, method_times, summary
from streamcal.app.late_labels import LateOptions, closing_lines, waiting
from streamcal.app.map import map_
from streamcal.app.oddities import oddities, times_in_no_order
from streamcal.app.options import (
    OUTPUT,
    Grouped,
    Labelled,
    OutputColumnOption,
    QuietOption,
    Span,
    grouped,
    option,
    rare_option,
    span_of,
)
from streamcal.app.predict import predict
from streamcal.app.report import NOTHING, conclusions, scores_table, times_read
from streamcal.app.serve import VARIABLES, serve
from streamcal.app.terminal import (
    PLAIN,
    USAGE_ERROR,
    check_place,
    executed,
    exit_interrupted,
    fail,
    one_line,
    progress_bar,
)
from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.registry import DEFAULT_METHOD, REGISTRY
from streamcal.errors import StreamcalError
from streamcal.lazy import ALIASES, Methods
from streamcal.names import did_you_mean
from streamcal.stream import checkpoints
from streamcal.stream.files import STANDARD_STREAM, same_file, title_of
from streamcal.stream.prequential import Measures
from streamcal.stream.reading import RecordReader
from streamcal.stream.records import RecordError
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
    context_settings={"max_content_width": 100},
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
#: From this version of the model on, of five, it is trained on this share of the rows without a click.
RETRAINED, KEPT = 2, 0.5
SAMPLE_COLUMNS = ("t", "campaign", "advertiser", "placement", "pctr", "click", "id", "click_t")


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
    """Accept the options before the command."""


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """Options of the output of a run."""

    out: Annotated[str | None, option(OUTPUT, "FILE", "Write the input columns and `calibrated`; - is stdout.")] = None
    output_column: OutputColumnOption = CALIBRATED
    state: Annotated[Path | None, option(OUTPUT, "FILE", "Resume from this state if it exists, and save it.")] = None
    checkpoint: Annotated[
        Span | None,
        rare_option(OUTPUT, "SPAN", "Save the state this often.  [default: 30s; journal: 2s]", parser=span_of),
    ] = None
    again: Annotated[
        bool, rare_option(OUTPUT, None, "Learn STREAM from its start, also rows learned before.", "--again")
    ] = False
    html: Annotated[Path | None, option(OUTPUT, "FILE", "Write a report with pictures as one HTML file.")] = None
    quiet: QuietOption = False

    @property
    def every(self) -> float:
        """Seconds between two saved states."""
        return KEEP_EVERY if self.checkpoint is None else self.checkpoint.size

    def check(self, read: Labelled, late: LateOptions) -> None:
        """End the command where the report would replace another file, or states are not saved so often."""
        if self.html is not None:
            check_report(self.html, read.files, self.out, read.rejects, self.state, late.journal)
        if self.checkpoint is not None and self.state is None and late.journal is None:
            fail("--checkpoint says how often learned rows are saved: give --state too, or --journal")
        if not self.every >= 0.0:
            fail(f"--checkpoint {self.checkpoint} is not possible; give a number of seconds, 0 or more")


@app.command(cls=Grouped)
@grouped
def run(
    context: typer.Context,
    read: Labelled,
    method: MethodOptions,
    late: LateOptions,
    levels: LevelOptions,
    write: OutputOptions,
) -> None:
    """Calibrate a stream of scores online.

    Each row is predicted, then learned; a table at the end compares raw and calibrated scores. The same command resumes
    from its --state, also after a crash. An invalid row ends the run with exit code 2. docs/command_line.md explains
    the options, docs/late_labels.md those for late labels.

    \b
    Examples:
      streamcal run clicks.csv.gz --score pctr --label click --out calibrated.csv
      streamcal run monday.csv --score pctr --label click --state clicks.json
    """
    files, skips = (*read.files, write.out, read.rejects), read.skips
    write.check(read, late)
    excluded = {"--time": read.time, "--state": write.state, "--again": write.again}
    asked = late.checked({**excluded, "--missing-label": read.missing_label})
    time = read.time if asked is None else asked.event_time
    choice = choice_of(method, levels, timed=time is not None, decreasing=read.decreasing)
    if write.state is not None:
        _check_state_file(write.state, files)
    with nullcontext() if write.state is None else checkpoints.locked(write.state), ExitStack() as opened:
        calibrator, before = calibrator_of(choice, write.state)
        check_store(calibrator, *files, write.state, late.journal, write.html)
        if time is None and calibrator.forgets_by_time:
            fail(f"{calibrator!r} forgets by time: name the column with --time")
        join = None if asked is None else opened.enter_context(asked.join(calibrator, *files))
        calibrator = calibrator if join is None else join.calibrator
        fields = calibrator.fields
        ids: dict[str, Any] = {"id": late.id, "label_time": late.label_time, "version": late.version}
        skew = 0.0 if asked is None else asked.clock_skew
        columns = read.columns(time=time, segments=fields, clock_skew=skew, **ids)
        rows = (read.format, write.out, skips, read.rejects, read.delimiter, method.unit)
        job = Run(calibrator, read.files, columns, *rows, join=join, column=write.output_column)
        job.checkpoint, job.again = before, write.again
        if write.state is not None:
            job.keep, job.keep_every = partial(checkpoints.save, calibrator, write.state), write.every
        elif asked is not None:
            asked.go_on(job, write.every)
        job.checkpoint.require(job.reading, write.state or late.journal or "the state")
        console = Console(stderr=STANDARD_STREAM in files[-2:], quiet=write.quiet, **PLAIN)
        page = None if write.html is None else _run_report(job, write.html)
        console.print(summary())
        of_state = f"{calibrator!r}{resumed_note(calibrator, write.state)}"
        console.print(of_state if join is None else f"{join!r}{waiting(join)}")
        interrupted = executed(job, read.files, write.out, read.rejects, quiet=write.quiet)
        _report(console, job, seconds=method.in_seconds if late.horizon is None else bool(late.horizon.unit))
        if page is not None:
            console.print(page.save(context))
        if interrupted:
            exit_interrupted(job)
    if times_in_no_order(job):
        raise typer.Exit(UNLEARNED)


app.command(cls=Grouped)(predict)
app.command(cls=Grouped)(compare)
app.command(cls=Grouped)(report)
app.command("map", cls=Grouped)(map_)


@app.command("methods")
def methods_(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Show the documentation of this method.")] = None,
) -> None:
    """List the methods and what each can do, or document one.

    Those for several scores, many classes and distributions, which are used from Python, come last, by name.

    \b
    Examples:
      streamcal methods
      streamcal methods venn-abers
    """
    from streamcal import fusion, multiclass, regression  # not at the top, since `run` does not need them

    console = Console(highlight=False, markup=False)
    if name is not None:
        packages: tuple[Methods[Any], ...] = (REGISTRY, multiclass.METHODS, fusion.METHODS, regression.METHODS)
        cls = next((methods[name] for methods in packages if name in methods), None)
        if cls is None:
            known = [*ALIASES, *(key for methods in packages for key in methods)]
            fail(f"{name!r} is unknown{did_you_mean(name, known)}; `streamcal methods` lists the methods")
        console.print(f"{cls.__module__}.{cls.__name__}\n\n{inspect.getdoc(cls)}", soft_wrap=True)
        return
    _print_methods(console)
    console.print('\nParameters are set one by one:\n  --method bernstein --set degree=10 --set "scale=Logit(-8, 0)"')
    short = ", ".join(f"{alias} for {name}" for alias, name in ALIASES.items() if name in REGISTRY)
    console.print(f"\nShort names: {short}.")
    console.print("\nAlso in Python, with the same verbs:\n")
    others = Table(box=None, pad_edge=False, show_header=False)
    others.add_column(no_wrap=True)
    others.add_column()
    for package, what in ((multiclass, "many classes"), (fusion, "several scores"), (regression, "distributions")):
        others.add_row(package.__name__, what)
        for other in package.METHODS.values():
            others.add_row(f"  {other.__name__}", other.summary)
    console.print(others)


def _print_methods(console: Console) -> None:
    """Print what each method of one score can do, and its parameters; the default comes first."""
    times = method_times()
    abilities = Table(box=None, pad_edge=False)
    for heading in ("method", "µs", "merges", "unlearns", "monotone", "interval", "memory"):
        abilities.add_column(heading, no_wrap=True, justify="right" if heading == "µs" else "left")
    descriptions = Table(box=None, pad_edge=False, show_header=False)
    descriptions.add_column(no_wrap=True)
    descriptions.add_column()
    for name in sorted(REGISTRY, key=lambda name: name != DEFAULT_METHOD):
        cls = REGISTRY[name]
        try:
            cal = cls()
        except StreamcalError as error:  # an extra is not installed
            descriptions.add_row(name, f"{cls.summary}\n{error}")
            continue
        can = (cal.merges, cal.unlearns, cal.monotone, cal.has_interval)
        memory = "fixed" if cal.bounded_memory else "grows"
        marked = f"{name} *" if name == DEFAULT_METHOD else name
        each = times["microseconds"].get(name)
        microseconds = "–" if each is None else f"{each:.2g}" if each < 10.0 else f"{each:.0f}"
        abilities.add_row(marked, microseconds, *("yes" if able else "no" for able in can), memory)
        descriptions.add_row(name, f"{cls.summary}\n{cal!r}")
    console.print(abilities)
    console.print(
        f"\n*: the default; µs: median time to learn and predict one observation, {times['learned']} learned before, "
        f"measured {times['measured']}; merges: two calibrators can be combined; unlearns: an observation can be "
        "removed; monotone: keeps the order of the scores; interval: gives `lower` and `upper` too; "
        "memory: fixed, or grows with the distinct scores. "
        "All for the default parameters: forgetting and resolution change some.\n"
    )
    console.print(descriptions)


@app.command()
def doctor() -> None:
    """Show which files and kernels are in use, and the versions."""
    for what, version in environment().items():
        typer.echo(f"{what:16} {version}")


@app.command(cls=Grouped)
def sample(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file to write, in the format of its ending.")],
    rows: Annotated[int, typer.Option(metavar="N", min=1, help="Number of rows.")] = 20_000,
) -> None:
    """Write a file of simulated ad clicks to try commands on.

    Columns: t (seconds since 1970, from 2026 on), campaign, advertiser, placement, pctr (the score), click (the label),
    id and click_t (the time of the click). After two fifths of the rows, the model is retrained on half of the rows
    without a click, and its odds are twice too high. Every call writes the same rows (`streamcal.datasets.ad_clicks`
    with rate=0.02).

    \b
    Examples:
      streamcal sample clicks.csv.gz
      streamcal run clicks.csv.gz --score pctr --label click --out calibrated.csv
    """
    import numpy as np

    from streamcal.datasets import ad_clicks
    from streamcal.stream.writing import RecordWriter

    check_place(Path(file), "sample")
    if os.path.exists(file) and not _is_sample(file):
        fail(f"{file}: there is another file of this name, which the sample would overwrite; give another name")
    stream = ad_clicks(rows, rate=0.02)
    retrained = stream.version >= RETRAINED
    scores = np.where(retrained, stream.score / (stream.score + KEPT * (1.0 - stream.score)), stream.score)
    clicked = (START_OF_SAMPLE + stream.t + stream.delay).round(3).astype(object)
    clicked[~stream.click] = None
    columns = (
        (START_OF_SAMPLE + stream.t).round(3),
        stream.campaign,
        stream.advertiser,
        stream.placement,
        scores,
        stream.click.astype(int),
        np.arange(1, rows + 1),
        clicked,
    )
    with RecordWriter(file, SAMPLE_COLUMNS) as writer:
        table = zip(*(column.tolist() for column in columns), strict=True)
        writer.write(dict(zip(SAMPLE_COLUMNS, row, strict=True)) for row in table)
    typer.echo(f"{file}: {rows:,} rows, {int(stream.click.sum()):,} clicks; score: pctr, label: click")


@app.command(cls=Grouped)
def demo(
    picture: Annotated[Path, typer.Option(metavar="FILE", help="Save the picture here.")] = Path("streamcal-demo.png"),
) -> None:
    """Calibrate two online models on a real stream that drifts.

    The conversion stream ships with the package: UCI Bank Marketing, 41,188 calls, May 2008 to November 2010. It takes
    some 20 seconds. The picture needs matplotlib.

    \b
    Examples:
      streamcal demo
      streamcal demo --picture drift.png
    """
    from streamcal.app import demo as show
    from streamcal.app import demo_report

    console = Console(highlight=False)
    check_place(picture, "picture")
    with progress_bar("bank marketing") as progress:
        result = show.run(progress)
    demo_report.report(result, console)
    demo_report.save_picture(result, picture, console)
    console.print("\nThe same on your own file:", soft_wrap=True)
    console.print("  streamcal run FILE.csv --score COLUMN --label COLUMN --out calibrated.csv", soft_wrap=True)


app.command(cls=Grouped, context_settings={"auto_envvar_prefix": VARIABLES})(serve)


def main() -> None:
    """Run the console script."""
    out: Any = sys.stdout
    if isinstance(getattr(out, "buffer", None), io.RawIOBase):  # PYTHONUNBUFFERED: it may write a part, and say nothing
        out = sys.stdout = open(out.fileno(), "w", 1, out.encoding, closefd=False)  # noqa: SIM115  (for all time)
    if out is not None:
        out.reconfigure(errors="replace")  # of a dash or a µ in another encoding than UTF-8
    for message in ("times such as", "neighbouring labels"):  # with the options that help
        warnings.filterwarnings("ignore", message, RuntimeWarning)
    try:
        try:
            app(prog_name="streamcal")
        finally:  # what is held for it: Python would say nothing of streamcal, and exit with 120
            if sys.stdout is not None:
                sys.stdout.flush()
    except OSError as error:  # of standard output or standard error; errors of files are reported already
        if not getattr(error.__context__, "code", None):  # of an exit with an error, which was reported
            with suppress(OSError):
                typer.echo(one_line(f"standard output cannot be written: {error.strerror or error}"), err=True)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                os.dup2(nowhere, stream.fileno())  # what is still held for it is lost without another error
        raise SystemExit(USAGE_ERROR) from None


def _is_sample(file: str) -> bool:
    """Return whether a file has the columns that `sample` writes."""
    try:
        with RecordReader(file) as reader:
            return reader.names == SAMPLE_COLUMNS
    except RecordError:
        return False


def _check_state_file(state: Path, others: tuple[str | None, ...]) -> None:
    """Fail now, and not at the end of the run, if the state could not be written."""
    check_place(state, "state")
    if any(other is not None and same_file(state, other) for other in others):
        fail(f"{state}: --state would overwrite another file of this run; give another name")


def _run_report(job: Run, path: Path) -> RunReport:
    """Return what writes the page of `--html`."""
    from streamcal.app.run_report import RunReport  # not at the top: most runs do not need it

    return RunReport(job, path)


def _report(console: Console, job: Run, *, seconds: bool) -> None:
    """Print the closing table of raw against calibrated, its conclusions, what was read, and what was odd about it."""
    evaluation: Measures = job.evaluation
    nothing = _nothing(job)
    if nothing is None:
        console.print(scores_table(evaluation.boards()))
        for line in conclusions(evaluation):
            console.print(line)
    else:
        console.print(nothing)
    if job.passed_over and job.taken:
        console.print(_passed_over(job))
    for source in job.replaced:
        console.print(f"{source}: another file of this name was learned before; this one was learned from its start")
    skipped = f", {job.skipped:,} skipped" if job.skip or job.skipped else ""
    if job.skipped_lines > job.skipped:
        skipped += f" ({job.skipped_lines:,} lines of the file)"
    positives = evaluation.positives if job.replay is None else job.replay.clicks
    pace = f"; {job.taken / job.seconds:,.0f} rows per second" if job.taken else ""
    console.print(f"{job.taken:,} rows ({positives:,} positive){skipped}{pace}")
    for read in (times_read(job.order), *closing_lines(job)):
        if read is not None:
            console.print(read)
    for line in _segments_found(job.learning[-1]):
        console.print(line)
    for what, count in job.tally().items():
        if count:
            stored = what == "evicted" and getattr(job.learning[-1], "store", None) is not None
            console.print(f"{EVICTED_TO_STORE if stored else TALLIES[what]}: {count:,}")
    for line in oddities(job, seconds=seconds):
        (Console(stderr=True, **PLAIN) if console.quiet else console).print(f"warning: {line}")


def _nothing(job: Run) -> str | None:
    """Return why a run has nothing to compare; None if it has something."""
    if job.evaluation.measured:
        return None
    if job.evaluation.rows:
        return NOTHING
    if job.taken:
        return "no horizon has passed yet: there is nothing to compare"
    if job.passed_over:
        return f"no new rows: {_passed_over(job)}"
    return f"{title_of(job.sources)} has no row{' that can be used' if job.skipped else 's'}: nothing was learned"


def _passed_over(job: Run) -> str:
    advice = "" if job.replay is not None else "; --again learns them once more"
    return f"the {job.passed_over:,} rows before had been learned{advice}"


def _segments_found(calibrator: Calibrator | Keyed) -> Iterator[str]:
    """Yield lines: how much the levels of each field differ, and the groups with most evidence against predictions."""
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
        in_memory, stored = len(calibrator.levels(field)), calibrator.levels_stored(field)
        away = f" ({stored:,} of them in the store)" if stored else ""
        differ = f"which differ by {deviation:.2f} in log-odds; corrections weigh {share:.0%}"
        yield f"segments by {name}: {in_memory + stored:,}{away}, {differ}"


def _groups_found(calibrator: Multicalibrated) -> Iterator[str]:
    """Yield the certificate, and the groups with most evidence against their predictions, a line each."""
    from streamcal.app.group_data import bound_text, certificate_text, group_text

    yield f"multicalibrated: {certificate_text(calibrator.certificate())}"
    for group in calibrator.worst(MOST_GROUPS):
        numbers = f"gap {group.gap:+.1f} (z {group.z:+.1f}, bound {bound_text(group)})"
        yield f"  {group_text(group, calibrator.bins)}: {numbers}"
