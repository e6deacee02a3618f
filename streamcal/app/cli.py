"""The command line: `streamcal run`, `compare`, `report`, `methods`, `doctor` and `demo`."""

from __future__ import annotations

import inspect
import json
import math
import os
import shlex
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_args

import typer
from rich.console import Console
from rich.table import Table

from streamcal.app.compare_report import live_table, methods_table, sentences, wide_console
from streamcal.app.doctor import NAME_AND_VERSION, environment, summary
from streamcal.app.oddities import oddities, overall, reads_time, times_in_no_order
from streamcal.app.report import conclusions, scores_table
from streamcal.app.serve import serve
from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.registry import DEFAULT_METHOD, REGISTRY
from streamcal.errors import InputError, StateError, StreamcalError
from streamcal.live.levels import Field, check_fields
from streamcal.live.segmented import Segmented
from streamcal.parameters.forgetting import Decay, Window
from streamcal.parameters.names import did_you_mean
from streamcal.parameters.scales import Interval
from streamcal.parameters.settings import parse
from streamcal.stream import checkpoints
from streamcal.stream.checkpoints import Checkpoint
from streamcal.stream.columns import Columns
from streamcal.stream.comparing import METHODS, RAW, Comparison
from streamcal.stream.formats import STANDARD_STREAM, Format
from streamcal.stream.records import PARSED_AS_PROBABILITY, shown
from streamcal.stream.run import KEEP_EVERY, Run, same_file
from streamcal.stream.sources import opened

app = typer.Typer(
    help="Keep the probabilities of a deployed model calibrated while outcomes arrive.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

#: Descriptions of the counts of `Calibrator.tally`.
TALLIES = {
    "clamped": "scores beyond the scale, moved to its end",
    "late": "rows too old to be learned",
    "missed": "retractions of what was forgotten already",
    "evicted": "levels of segments dropped for lack of space",
}
USAGE_ERROR = 2
INTERRUPTED = 130
#: Characters of a message; of a longer one the middle is left out.
LONGEST_MESSAGE = 2_000
#: The run came to its end, but learned less than half of its rows.
UNLEARNED = 1


#: No method of a comparison is shown to be better than the base.
NONE_BETTER = 1
#: A comparison of a file with fewer bytes has one process: others take a second to start.
SMALL_FILE = 1 << 23
MOST_PROCESSES = 4


#: The value of `--methods` where it is not given.
DEFAULT_METHODS = ",".join(METHODS)

#: The choices of `--on-error`.
STOP, SKIP = "stop", "skip"
FORMATS = get_args(Format)
#: The value of `--scale` for scores that stand for no probability.
MARGIN = "margin"


#: Seconds of the units in which a span of time can be given.
UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}


@dataclass(frozen=True)
class Span:
    """A number of rows or of units of time; if `unit` is given, `size` is in seconds."""

    size: float
    unit: str = ""

    def __str__(self) -> str:
        return f"{self.size / UNITS.get(self.unit, 1.0):g}{self.unit}"


def _span(text: str) -> Span:
    """Parse an option that is a number, or a span of time: a number and s, m, h, d or w.

    Examples
    --------
    >>> _span("5000"), str(_span("1.5h"))
    (Span(size=5000.0, unit=''), '1.5h')
    """
    number = text.strip()
    unit = number[-1:].lower()
    if unit not in UNITS:
        unit = ""
    try:
        return Span(float(number.removesuffix(number[-1:]) if unit else number) * UNITS.get(unit, 1.0), unit)
    except ValueError:
        raise typer.BadParameter(f"{shown(text)} is not a number, nor a time such as 90s, 5m, 24h, 7d or 2w") from None


def _one_of(*words: str) -> Callable[[str], str]:
    """A parser of an option that is one of a few words."""

    def read(text: str) -> str:
        if text not in words:
            raise typer.BadParameter(f"{shown(text)} is not one of {', '.join(words)}")
        return text

    return read


def _scale(text: str) -> str:
    """The value of `--scale`, checked."""
    if text not in PARSED_AS_PROBABILITY and _margin(text) is None:
        names = ", ".join(sorted(PARSED_AS_PROBABILITY))
        raise typer.BadParameter(
            f"{shown(text)} is not one of {names}, margin, or margin with bounds as in margin:-8,8"
        )
    return text


def _margin(text: str) -> Interval | None:
    """The scale of `margin` or `margin:LO,HI`, None for any other text."""
    if text == MARGIN:
        return Interval()
    name, _, bounds = text.partition(":")
    try:
        low, high = map(float, bounds.split(","))
        return Interval(low, high) if name == MARGIN else None
    except ValueError:  # also that of an interval with no place between its bounds
        return None


def _delimiter(text: str) -> str:
    """The value of an option that is one character, or "tab"."""
    character = "\t" if text in ("tab", "\\t") else text
    if len(character) != 1 or character in '"\r\n':
        raise typer.BadParameter(f"{shown(text)} is not one character, nor the word tab")
    if not character.isascii():
        raise typer.BadParameter(f"{shown(text)} is no character of ASCII")
    return character


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


@dataclass(frozen=True)
class Choice:
    """The method and its parameters, as given on the command line."""

    method: str | None
    parameters: dict[str, Any]
    segments: tuple[Field, ...] = ()


StreamArgument = Annotated[
    str,
    typer.Argument(
        metavar="STREAM",
        help="CSV or JSON Lines (.gz, .bz2, .zst, .lz4), Parquet, Arrow; an address such as s3://…; - for stdin.",
    ),
]
ScoreOption = Annotated[str, typer.Option(metavar="COLUMN", help="Column of the score.")]
LabelOption = Annotated[str, typer.Option(metavar="COLUMN", help="Column of the label: 0/1, -1/1, no/yes, false/true.")]
PositiveOption = Annotated[
    str | None, typer.Option(metavar="VALUE", help="The label that is positive, where the words are others.")
]
WeightOption = Annotated[str | None, typer.Option(metavar="COLUMN", help="Column of the weight.")]
FormatOption = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar=f"[{'|'.join(FORMATS)}]",
        parser=_one_of(*FORMATS),
        help="Format of STREAM, where its name does not say it.",
    ),
]
DelimiterOption = Annotated[
    str | None,
    typer.Option(
        metavar="CHAR",
        parser=_delimiter,
        help="What is between the fields of CSV, where the header does not show it (, ; tab or |).",
    ),
]


MethodsOption = Annotated[
    str,
    typer.Option(metavar="A,B,C", help="See `streamcal methods`. The score itself is always compared."),
]
DelayOption = Annotated[
    int, typer.Option(metavar="N", min=0, help="Labels come N rows late: learn each row only then.")
]
BaseOption = Annotated[
    str, typer.Option(metavar="NAME", help="What a method has to be better than: raw, or one of the methods.")
]
UnitOption = Annotated[
    str | None,
    typer.Option(
        "--scale",
        metavar="[percent|logit]",
        parser=_one_of(*PARSED_AS_PROBABILITY),
        help="Scores that are no probabilities.",
    ),
]
ProcessesOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help=f"Processes that share the methods.  [default: 1 for a file below 8 MB, else the cores, at most "
        f"{MOST_PROCESSES}]",
    ),
]


@app.command()
def run(
    stream: StreamArgument,
    score: ScoreOption,
    label: LabelOption,
    positive: PositiveOption = None,
    method: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"See `streamcal methods`; {DEFAULT_METHOD} takes some 10 µs a row, ops a microsecond.  "
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
            parser=_scale,
            help="Scores that are no probabilities: percent (0 to 100), logit (log-odds), or margin (any number, for "
            "methods with a scale), with bounds as in margin:-8,8.",
        ),
    ] = None,
    window: Annotated[
        Span | None,
        typer.Option(
            metavar="N",
            parser=_span,
            help="Keep the last N rows, or with --time the last N units of time, or a span such as 24h.",
        ),
    ] = None,
    half_life: Annotated[
        Span | None,
        typer.Option(
            metavar="N",
            parser=_span,
            help="Halve the weight of the past every N rows; with --time, every N units of time or a span such as 7d.",
        ),
    ] = None,
    time_column: Annotated[
        str | None,
        typer.Option("--time", metavar="COLUMN", help="Column of the time: numbers, or ISO 8601 (unit: seconds)."),
    ] = None,
    weight: WeightOption = None,
    segment: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN[,COLUMN]",
            help="Column of segments, such as campaigns, whose levels are corrected besides; two with a comma: their "
            "pairs. Repeatable, the coarsest first.",
        ),
    ] = None,
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
            parser=_span,
            help="With --state: save it so often while the run goes on, as in 5m.  [default: 30s]",
        ),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Learn STREAM from its start, also rows that the state has learned.")
    ] = False,
    on_error: Annotated[
        str,
        typer.Option(
            metavar="[stop|skip]", parser=_one_of(STOP, SKIP), help="Stop at a row that cannot be used, or skip it."
        ),
    ] = STOP,
    rejects: Annotated[
        str | None, typer.Option(metavar="FILE", help="With --on-error skip: write the rows skipped, with the reason.")
    ] = None,
    format_: FormatOption = None,
    delimiter: DelimiterOption = None,
) -> None:
    """Calibrate a stream of scores online.

    Each row is predicted first and learned afterwards. The output has `lower` and `upper` too where the method has an
    interval; a table at the end compares raw and calibrated. A row that cannot be used ends the run with exit code 2;
    rows before it are in the output and in the state. A probability outside [0, 1], even by rounding, cannot be used.
    An interrupt ends the run between two rows with exit code 130 (SIGTERM: 143), and output and state hold the same
    rows.

    The same command once more goes on after the last row that the --state has learned, and continues the output;
    another file is learned from its start. After a crash the state is that of the last checkpoint. A pipe cannot be
    read twice: rows after the checkpoint are then in the output alone, which the next run continues.

    Warnings come last: scores that predict 20 times, or 1/20 of, the positives (from 1,000 rows on); times in
    milliseconds with a span in seconds; --time where nothing reads it; and rows in no order, where more than half came
    too late to be learned (exit code 1). docs/command_line.md has the rules.

    \b
    Example:
      streamcal run clicks.csv.gz --score pctr --label click --out calibrated.csv
    """
    if rejects is not None and on_error == STOP:
        fail("--rejects needs --on-error skip")
    console = Console(stderr=STANDARD_STREAM in (out, rejects), highlight=False, markup=False, soft_wrap=True)
    seconds = any(span is not None and span.unit for span in (window, half_life))
    every = KEEP_EVERY if checkpoint is None else checkpoint.size
    choice = _choice(method, set_ or [], window, half_life, segment or [], timed=time_column is not None)
    unit = scale if scale in PARSED_AS_PROBABILITY else None
    if scale is not None and unit is None:
        if "scale" in choice.parameters:
            fail("--scale margin and --set scale exclude each other")
        choice.parameters["scale"] = _margin(scale)
    with failing():
        if state is not None:
            _check_state_file(state, (stream, out, rejects))
        with nullcontext() if state is None else checkpoints.locked(state):
            calibrator, before = _calibrator(choice, state)
            if time_column is None and reads_time(calibrator):
                fail(f"{calibrator!r} forgets by time: name the column with --time")
            fields = calibrator.fields if isinstance(calibrator, Segmented) else ()
            columns = Columns(score, label, time_column, weight, positive, fields)
            job = Run(calibrator, stream, columns, format_, out, on_error == SKIP, rejects, delimiter, unit)
            job.checkpoint, job.again = before, again
            if state is not None:
                job.keep, job.keep_every = partial(checkpoints.save, calibrator, state), every
            console.print(summary())
            console.print(f"{calibrator!r}{_held(calibrator, state)}")
            quiet = _shares_terminal(stream, out, rejects)
            try:
                with _interrupting(job), progress_bar(_title(stream), quiet=quiet) as tell:
                    job.execute(tell)
            except KeyboardInterrupt:
                _report(console, job, seconds=seconds)
                typer.echo("streamcal: interrupted", err=True)
                raise typer.Exit(INTERRUPTED + job.interrupted_by - signal.SIGINT) from None
            _report(console, job, seconds=seconds)
        if times_in_no_order(job):
            raise typer.Exit(UNLEARNED)


@app.command()
def compare(
    stream: StreamArgument,
    score: ScoreOption,
    label: LabelOption,
    methods: MethodsOption = DEFAULT_METHODS,
    delay: DelayOption = 0,
    base: BaseOption = RAW,
    positive: PositiveOption = None,
    weight: WeightOption = None,
    scale: UnitOption = None,
    format_: FormatOption = None,
    delimiter: DelimiterOption = None,
    processes: ProcessesOption = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a report with pictures as one HTML file, too.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Compare methods on a stream, and say which to take.

    All methods predict and then learn every row, in one pass and in bounded memory. The table has log loss, Brier
    score, the debiased calibration error and its floor (what a calibrated forecaster stays below), the ratio of
    predicted to observed positives, microseconds a row and the size of the saved state. "better" and "worse" are said
    where a confidence sequence of the log loss shows it. docs/compare.md has the rules.

    The exit code is 0 where some method is shown better than the base, 1 where none is, 2 for an error, and 130 after
    an interrupt, whose table is that of the rows so far.

    \b
    Example:
      streamcal compare clicks.csv.gz --score pctr --label click --methods auto,ops,venn-abers
    """
    if html is not None:
        _check_report(html, stream)
    asked = Asked(
        stream, Columns(score, label, None, weight, positive), methods, delay, base, scale, format_, delimiter
    )
    job = _compared(asked, processes)
    if html is not None:
        _save_report(job, asked, html)
    if as_json:
        typer.echo(json.dumps(job.comparison.to_dict(), allow_nan=False))
    else:
        console = wide_console()
        console.print(methods_table(job.comparison))
        for line in sentences(job.comparison):
            console.print(line)
    job.exit()


@app.command()
def report(
    stream: StreamArgument,
    score: ScoreOption,
    label: LabelOption,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file to write.  [default: NAME of the stream.html]")
    ] = None,
    methods: MethodsOption = DEFAULT_METHODS,
    delay: DelayOption = 0,
    base: BaseOption = RAW,
    positive: PositiveOption = None,
    weight: WeightOption = None,
    scale: UnitOption = None,
    format_: FormatOption = None,
    delimiter: DelimiterOption = None,
    processes: ProcessesOption = None,
) -> None:
    """Write a report on the calibration of a stream as one HTML file.

    It is that of `streamcal compare --html`: reliability diagrams with consistency bands, calibration maps, rates,
    losses and evidence over time with alarms, the table of methods with its verdicts, and the command that makes it
    again. The file needs no network. The exit code is 0, 2 for an error, and 130 after an interrupt, whose report is
    that of the rows so far. docs/compare.md has more.

    \b
    Example:
      streamcal report clicks.csv.gz --score pctr --label click --out clicks.html
    """
    place = Path(f"{'stream' if stream == STANDARD_STREAM else Path(stream).name}.html") if out is None else out
    _check_report(place, stream)
    asked = Asked(
        stream, Columns(score, label, None, weight, positive), methods, delay, base, scale, format_, delimiter
    )
    job = _compared(asked, processes)
    _save_report(job, asked, place)
    typer.echo(f"{sentences(job.comparison)[0]}\n{place}")
    if job.interrupted:
        job.exit()


@app.command("methods")
def methods_() -> None:
    """List the methods, what each can do and its parameters.

    Those for several scores, many classes and distributions, which are used from Python, come last, by name.
    """
    from streamcal import fusion, multiclass, regression  # not at the top, since `run` does not need them

    console = Console(highlight=False, markup=False)
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
    _check_place(picture, "picture")
    with failing():
        with progress_bar("bank marketing") as tell:
            result = show.run(tell)
        demo_report.report(result, console)
        demo_report.save_picture(result, picture, console)
    console.print("\nThe same on your own file:", soft_wrap=True)
    console.print("  streamcal run FILE.csv --score COLUMN --label COLUMN --out calibrated.csv", soft_wrap=True)


app.command()(serve)


def main() -> None:
    """The entry point of the console script."""
    try:
        app(prog_name="streamcal")
    except OSError as error:  # of standard output or standard error; errors of files have been told
        with suppress(OSError):
            typer.echo(_line(f"standard output cannot be written: {error.strerror or error}"), err=True)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                os.dup2(nowhere, stream.fileno())  # what is still held for it is lost without another error
        raise SystemExit(USAGE_ERROR) from None


def fail(message: str) -> NoReturn:
    """Exit with code 2 and one line on standard error."""
    typer.echo(_line(message), err=True)
    raise typer.Exit(USAGE_ERROR)


def _line(message: str) -> str:
    """A message as one line of bounded length that a terminal shows as it is.

    Examples
    --------
    >>> _line("a\\x1b[31m.csv:\\ncannot be read")
    'streamcal: a\\\\x1b[31m.csv: cannot be read'
    """
    message = " ".join(message.splitlines())
    if len(message) > LONGEST_MESSAGE:
        message = f"{message[: LONGEST_MESSAGE // 2]} … {message[-LONGEST_MESSAGE // 2 :]}"
    return "streamcal: " + "".join(c if c.isprintable() else ascii(c)[1:-1] for c in message)


@contextmanager
def failing() -> Iterator[None]:
    """Convert errors of streamcal to one line and exit code 2, and an interrupt to exit code 130."""
    try:
        yield
    except StreamcalError as error:
        fail(str(error))
    except KeyboardInterrupt:
        typer.echo("streamcal: interrupted", err=True)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def progress_bar(title: str, *, quiet: bool = False) -> Iterator[Callable[[int, float | None], None]]:
    """A progress bar on standard error, if that is a terminal; yields `tell(rows, share or None)`."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda rows, share: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[rows]:,} rows"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=None, rows=0)

        def tell(rows: int, share: float | None) -> None:
            bar.update(task, rows=rows, total=None if share is None else 1.0, completed=share or 0.0)

        yield tell


@dataclass
class Compared:
    """A comparison that has come to its end, or was interrupted."""

    comparison: Comparison
    interrupted: bool

    def exit(self) -> None:
        """Exit with the code that says how it ended, unless a method is shown better."""
        if self.interrupted:
            typer.echo("streamcal: interrupted", err=True)
            raise typer.Exit(INTERRUPTED)
        if not self.comparison.improves:
            raise typer.Exit(NONE_BETTER)


@dataclass(frozen=True)
class Asked:
    """What a comparison was asked for."""

    stream: str
    columns: Columns
    methods: str
    delay: int
    base: str
    scale: str | None
    format: str | None
    delimiter: str | None

    @property
    def command(self) -> str:
        """The command that makes its report."""
        columns = self.columns
        options = {
            "score": columns.score,
            "label": columns.label,
            "positive": columns.positive,
            "weight": columns.weight,
            "methods": self.methods,
            "delay": str(self.delay or ""),
            "base": self.base if self.base != RAW else None,
            "scale": self.scale,
            "format": self.format,
            "delimiter": self.delimiter,
        }
        given = [word for name, value in options.items() if value for word in (f"--{name}", value)]
        return shlex.join(["streamcal", "report", self.stream, *given])


def _compared(asked: Asked, processes: int | None) -> Compared:
    """Read a stream with a live table; an interrupt ends the comparison, and is no error."""
    stream = asked.stream
    with failing():
        names = [name.strip() for name in asked.methods.split(",") if name.strip()]
        comparison, interrupted = Comparison(names, delay=asked.delay, base=asked.base), False
        number = _processes(stream) if processes is None else processes
        with live_table(_title(stream), quiet=_shares_terminal(stream)) as tell:
            try:
                reading = {"unit": asked.scale, "format": asked.format, "delimiter": asked.delimiter}
                with opened(stream, asked.columns, **reading) as source:
                    comparison.run(source, number, tell)
            except KeyboardInterrupt:
                interrupted = True
    return Compared(comparison, interrupted)


def _save_report(job: Compared, asked: Asked, path: Path) -> None:
    """Write the HTML report."""
    from streamcal.app.html_report import save_report  # not at the top, since `run` does not need it

    with failing():
        save_report(job.comparison, path, command=asked.command)


def _processes(stream: str) -> int:
    """How many processes are worth their start."""
    small = os.path.isfile(stream) and os.path.getsize(stream) < SMALL_FILE
    return 1 if small else min(os.cpu_count() or 1, MOST_PROCESSES)


@contextmanager
def _interrupting(job: Run) -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP (unless ignored, as by `nohup`) end the job between two rows."""

    def interrupt(number: int, _: Any) -> None:
        job.interrupt(number)

    heard = [signal.SIGINT, signal.SIGTERM]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        heard.append(signal.SIGHUP)
    before = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check_state_file(state: Path, others: tuple[str | None, ...]) -> None:
    """Fail now, and not at the end of the run, if the state could not be written."""
    _check_place(state, "state")
    if state.exists() and not state.is_file():
        fail(f"{state}: the state cannot be read: it is no regular file")
    if any(other is not None and same_file(state, other) for other in others):
        fail(f"{state}: --state would overwrite another file of this run; give another name")


def _check_report(path: Path, stream: str) -> None:
    """Fail now if the report could not be written, or would replace the stream."""
    _check_place(path, "report")
    if same_file(path, stream):
        fail(f"{path}: the report would overwrite the stream; give another name")


def _check_place(path: Path, what: str) -> None:
    """Fail now if a file that is written at the end of the run cannot be written."""
    folder = Path(os.path.realpath(path)).parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        fail(f"{path}: the {what} cannot be written: {folder} is not a writable folder")


def _choice(
    method: str | None,
    settings: list[str],
    window: Span | None,
    half_life: Span | None,
    segments: list[str],
    *,
    timed: bool,
) -> Choice:
    """The chosen method and its parameters."""
    if method is not None and method not in REGISTRY:
        fail(f"--method {shown(method)} is unknown{did_you_mean(method, REGISTRY)}; known are {', '.join(REGISTRY)}")
    parameters = _parameters(settings)
    by = "time" if timed else "count"
    for option, span in (("--window", window), ("--half-life", half_life)):
        if span is not None and span.unit and not timed:
            fail(f"{option} {span} is a span of time: name the column with --time, or give a number of rows")
    policies: list[tuple[str, Callable[[], Any]]] = []
    if window is not None:
        size = int(window.size) if window.size.is_integer() else window.size
        policies.append(("--window", lambda: Window(size, by=by)))  # type: ignore[arg-type]
    if half_life is not None:
        policies.append(("--half-life", lambda: Decay(half_life.size, by=by)))  # type: ignore[arg-type]
    names = [name for name, _ in policies] + ["--set forgetting"] * ("forgetting" in parameters)
    if len(names) > 1:
        fail(f"{' and '.join(names)} exclude each other")
    for name, policy in policies:
        try:
            parameters["forgetting"] = policy()
        except InputError as error:
            fail(f"{name}: {error}")
    return Choice(method, parameters, _segments(segments))


def _segments(given: list[str]) -> tuple[Field, ...]:
    """The fields given by `--segment`.

    Examples
    --------
    >>> _segments(["campaign", "campaign, placement"])
    ('campaign', ('campaign', 'placement'))
    """
    fields = [tuple(part.strip() for part in one.split(",")) for one in given]
    try:
        return check_fields([one if len(one) > 1 else one[0] for one in fields]) if fields else ()
    except InputError:
        named = ", ".join(f"--segment {shown(one)}" for one in given)
        fail(f"{named}: give each field once: a column, or two different columns with a comma between them")


def _parameters(settings: list[str]) -> dict[str, Any]:
    """The parameters given by `--set`."""
    parameters: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = (part.strip() for part in setting.partition("="))
        if not (key and equals and value):
            fail(f"--set {shown(setting)} is not of the form KEY=VALUE")
        if key in parameters:
            fail(f"--set {key} is given twice")
        try:
            parameters[key] = parse(value)
        except (ValueError, TypeError) as error:
            fail(f"--set {shown(setting)}: {error}")
    return parameters


def _calibrator(choice: Choice, state: Path | None) -> tuple[Calibrator | Segmented, Checkpoint]:
    """The calibrator and the checkpoint saved in `state`, which must agree with the options, or new ones."""
    saved, before = (None, Checkpoint()) if state is None else _saved_in(state)
    known = None if saved is None else overall(saved)
    name = choice.method or (known.name if known is not None else DEFAULT_METHOD)
    wanted = _new(REGISTRY[name], choice.parameters)
    if saved is None:
        return (Segmented(wanted, choice.segments) if choice.segments else wanted), before
    differing = [key for key in choice.parameters if getattr(wanted, key) != getattr(known, key, None)]
    others = choice.segments and choice.segments != (saved.by if isinstance(saved, Segmented) else ())
    if type(known) is not type(wanted) or differing or others:
        raise StateError(f"{state} holds {saved!r}, which contradicts the options given; use another state file")
    return saved, before


def _saved_in(state: Path) -> tuple[Calibrator | Segmented | None, Checkpoint]:
    """The calibrator and the checkpoint in the file; None and an empty one if the file does not exist."""
    try:
        saved, before = checkpoints.load(state)
    except FileNotFoundError:
        return None, Checkpoint()
    except OSError as error:
        raise StateError(f"{state}: the state cannot be read: {error.strerror or error}") from None
    method = overall(saved)
    if not isinstance(method, Calibrator) or type(method).__name__ not in REGISTRY.by_class:
        what = f"{type(method).__name__}, which `streamcal run` does not offer"
        raise StateError(f"{state} holds {what}: it runs the methods of one score listed by `streamcal methods`")
    return saved, before


def _new(cls: type[Calibrator], parameters: dict[str, Any]) -> Calibrator:
    """A calibrator with these parameters; `InputError` naming the known ones for an unknown one."""
    allowed = inspect.signature(cls).parameters
    for key in parameters:
        if key not in allowed:
            missing = "--window and no --half-life" if key == "forgetting" else f"parameter {key!r}"
            own = f"its parameters are: {', '.join(allowed) or 'none'}{did_you_mean(key, allowed)}"
            raise InputError(f"method {cls.name} has no {missing}; {own}{_having(key)}")
    try:
        return cls(**parameters)
    except StreamcalError as error:
        bounds = ", as in --scale margin:-8,8" if parameters.get("scale") == Interval() else ""
        raise InputError(f"method {cls.name}: {error}{bounds}") from None
    except (TypeError, ValueError, OverflowError):  # a value so far off that the method's own check cannot look at it
        given = ", ".join(f"{key}={value!r}" for key, value in parameters.items())
        defaults = ", ".join(f"{key}={allowed[key].default!r}" for key in parameters)
        raise InputError(f"method {cls.name}: {given} is not possible; give values like {defaults}") from None


def _having(parameter: str) -> str:
    """Which methods have this parameter, to be added to a message; empty where none has it."""
    names = [name for name, cls in REGISTRY.items() if parameter in inspect.signature(cls).parameters]
    return f"; methods that have it: {', '.join(names)}" if names else ""


def _held(calibrator: Calibrator | Segmented, state: Path | None) -> str:
    """A note on the weight that the state already holds."""
    return f", going on from {state}: weight {calibrator.n:,.6g} held" if calibrator.n else ""


def _shares_terminal(stream: str, *outputs: str | None) -> bool:
    """Whether input or output uses the terminal where a progress bar would be drawn."""
    typed = stream == STANDARD_STREAM and sys.stdin is not None and sys.stdin.isatty()
    return typed or (STANDARD_STREAM in outputs and sys.stdout is not None and sys.stdout.isatty())


def _title(stream: str) -> str:
    """The title of the progress bar."""
    return "standard input" if stream == STANDARD_STREAM else Path(stream).name


def _report(console: Console, job: Run, *, seconds: bool) -> None:
    """The closing table, raw against calibrated, what follows from it, what was read, and what was odd about it."""
    evaluation = job.evaluation
    console.print(scores_table(evaluation.boards()))
    for line in conclusions(evaluation):
        console.print(line)
    if job.passed_over:
        console.print(f"the {job.passed_over:,} rows before had been learned; --again learns them once more")
    skipped = f", {job.skipped:,} skipped" if job.skip else ""
    pace = evaluation.rows / job.seconds if evaluation.rows else 0.0
    console.print(f"{evaluation.rows:,} rows ({evaluation.positives:,} positive){skipped}; {pace:,.0f} rows per second")
    for line in _segments_found(job.calibrator):
        console.print(line)
    for what, count in job.calibrator.tally().items():
        if count:
            console.print(f"{TALLIES[what]}: {count:,}")
    for line in oddities(job, seconds=seconds):
        console.print(f"warning: {line}")


def _segments_found(calibrator: Calibrator | Segmented) -> Iterator[str]:
    """How much the levels of each field differ, a line each."""
    if not isinstance(calibrator, Segmented):
        return
    for field in calibrator.by:
        name = field if isinstance(field, str) else ",".join(field)
        deviation, share = math.sqrt(calibrator.variance(field)), 1.0 - calibrator.weights(field)["nothing"]
        differ = f"which differ by {deviation:.2f} in log-odds; corrections weigh {share:.0%}"
        yield f"segments by {name}: {len(calibrator.levels(field)):,}, {differ}"
