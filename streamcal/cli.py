"""The command line: `streamcal run`, `methods`, `doctor` and `demo`."""

from __future__ import annotations

import inspect
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from streamcal.base import Calibrator, InputError, StateError, StreamcalError
from streamcal.doctor import environment, kernel_form
from streamcal.forgetting import Decay, Window
from streamcal.registry import REGISTRY
from streamcal.settings import parse
from streamcal.stream import durable
from streamcal.stream.report import scores_table
from streamcal.stream.run import Columns, Run

app = typer.Typer(
    help="Keep the probabilities of a deployed model calibrated while outcomes arrive.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

#: The method of `streamcal run` when none is named: O(1), no state to grow, follows drift, right for rare events.
DEFAULT_METHOD = "ops"
USAGE_ERROR = 2
INTERRUPTED = 130


@app.command()
def run(
    stream: Annotated[str, typer.Argument(help="CSV, CSV.gz, JSON Lines or Parquet file; - is standard input.")],
    score: Annotated[str, typer.Option(help="Column of the score.")],
    label: Annotated[str, typer.Option(help="Column of the label: 0/1, true/false.")],
    method: Annotated[
        str | None, typer.Option(help=f"Method, see `streamcal methods`. [default: {DEFAULT_METHOD}]")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help='Parameter, e.g. "scale=Logit(-8, 0)".')
    ] = None,
    window: Annotated[float | None, typer.Option(help="Keep the last N rows; with --time, a span of time.")] = None,
    half_life: Annotated[float | None, typer.Option(help="Halve the past every N rows; with --time, a span.")] = None,
    time_column: Annotated[str | None, typer.Option("--time", help="Column of the time: numbers or ISO 8601.")] = None,
    weight: Annotated[str | None, typer.Option(help="Column of the weight.")] = None,
    out: Annotated[str | None, typer.Option(help="Output: the input columns and the calibrated probability.")] = None,
    state: Annotated[Path | None, typer.Option(help="Go on from this state, if it exists, and save it.")] = None,
    on_error: Annotated[str, typer.Option(help="`stop` or `skip` rows that cannot be used.")] = "stop",
    rejects: Annotated[str | None, typer.Option(help="With --on-error skip: file for the rows skipped.")] = None,
    format_: Annotated[str | None, typer.Option("--format", help="csv, jsonl or parquet, if not by ending.")] = None,
) -> None:
    """Calibrate a stream of scores online: each row is predicted first and learned afterwards.

    Without --time, --window and --half-life count rows; with it they are spans of time (seconds for ISO 8601).
    Exit code 2: a row, a file or an option cannot be used; rows before it are in the output and in the state.
    """
    if on_error not in ("stop", "skip"):
        fail(f"--on-error {on_error!r} is not possible; give stop or skip")
    if rejects is not None and on_error != "skip":
        fail("--rejects needs --on-error skip")
    console = Console(stderr=out == "-", highlight=False)
    options = _options(method, set_ or [], window, half_life, timed=time_column is not None)
    with failing():
        calibrator = _calibrator(options, state)
        if calibrator_needs_time(calibrator) and time_column is None:
            fail(f"{calibrator!r} forgets by time: name the column with --time")
        columns = Columns(score, label, time_column, weight)
        job = Run(calibrator, stream, columns, format_, out, on_error == "skip", rejects)
        console.print(f"streamcal, {kernel_form()} kernels: {calibrator!r}", soft_wrap=True)
        started = time.perf_counter()
        with _saved(calibrator, state, job), progress_bar(f"calibrating {stream}") as tell:
            job.execute(tell)
    _report(console, job, time.perf_counter() - started)


@app.command()
def methods() -> None:
    """List the methods and what each can do."""
    table = Table("name", "class", "method", "merges", "unlearns", "monotone", "interval", "fixed memory", box=None)
    for name, cls in REGISTRY.items():
        cal = cls()
        can = (cal.merges, cal.unlearns, cal.monotone, cal.has_interval, cal.bounded_memory)
        table.add_row(name, cls.__name__, cls.summary, *("yes" if able else "no" for able in can))
    Console(width=None if sys.stdout.isatty() else 140).print(table)


@app.command()
def doctor() -> None:
    """Say which form of the kernels is in use, and the versions of everything that matters."""
    for what, found in environment().items():
        typer.echo(f"{what:16} {found}")


@app.command()
def demo(
    picture: Annotated[Path, typer.Option(help="Where to save the reliability diagrams.")] = Path("streamcal-demo.png"),
) -> None:
    """Calibrate two online models on a real conversion stream that ships with the package. Less than a minute."""
    from streamcal import demo as show

    console = Console(highlight=False)
    with failing(), progress_bar("bank marketing") as tell:
        result = show.run(tell)
    show.report(result, console)
    show.save_picture(result, picture, console)
    console.print("\nThe same on your own file:")
    console.print(
        "  streamcal run your.csv --score SCORE_COLUMN --label LABEL_COLUMN --out calibrated.csv", soft_wrap=True
    )


def main() -> None:
    """The entry point of the console script."""
    app()


def fail(message: str) -> NoReturn:
    """End with one line on standard error and exit code 2."""
    typer.echo(f"streamcal: {message}", err=True)
    raise typer.Exit(USAGE_ERROR)


@contextmanager
def failing() -> Iterator[None]:
    """Errors made on purpose end the program with one line; an interrupt with 130."""
    try:
        yield
    except StreamcalError as error:
        fail(str(error))
    except KeyboardInterrupt:
        typer.echo("streamcal: interrupted", err=True)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def progress_bar(title: str) -> Iterator[Any]:
    """A bar on standard error; gives `tell(rows, share or None)`."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[rows]:,} rows"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None, rows=0)

        def tell(rows: int, share: float | None) -> None:
            bar.update(task, rows=rows, total=None if share is None else 1.0, completed=share or 0.0)

        yield tell


def calibrator_needs_time(calibrator: Calibrator) -> bool:
    """Whether its forgetting policy reads the time."""
    forgetting = getattr(calibrator, "forgetting", None)
    return forgetting is not None and bool(forgetting.timed)


@contextmanager
def _saved(calibrator: Calibrator, path: Path | None, job: Run) -> Iterator[None]:
    """Save the state when the block ends, however it ends; a request to terminate ends it like an interrupt."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
        if path is not None and job.evaluation.rows:
            try:
                durable.save(calibrator, path)
            except OSError as error:
                fail(f"{path}: the state cannot be written: {error.strerror or error}")


def _options(
    method: str | None, settings: list[str], window: float | None, half_life: float | None, *, timed: bool
) -> tuple[str | None, dict[str, Any]]:
    """The method named, and its parameters."""
    if method is not None and method not in REGISTRY:
        fail(f"--method {method!r} is unknown; known are {', '.join(REGISTRY)}")
    if window is not None and half_life is not None:
        fail("--window and --half-life exclude each other")
    parameters: dict[str, Any] = {}
    try:
        for setting in settings:
            key, equals, value = setting.partition("=")
            if not equals:
                fail(f"--set {setting!r} is not of the form KEY=VALUE")
            parameters[key.strip()] = parse(value.strip())
        by = "time" if timed else "count"
        if window is not None:
            parameters["forgetting"] = Window(window if timed or window % 1 else int(window), by=by)  # type: ignore[arg-type]
        if half_life is not None:
            parameters["forgetting"] = Decay(half_life, by=by)  # type: ignore[arg-type]
    except (ValueError, TypeError) as error:
        fail(str(error))
    return method, parameters


def _calibrator(options: tuple[str | None, dict[str, Any]], state: Path | None) -> Calibrator:
    """A new calibrator, or the one saved in `state`, which must not contradict the options."""
    method, parameters = options
    saved = None
    if state is not None and state.exists():
        try:
            saved = durable.load(state)
        except OSError as error:
            fail(f"{state}: the state cannot be read: {error.strerror or error}")
        if method is None:
            method = saved.name
    cls = REGISTRY[method or DEFAULT_METHOD]
    allowed = inspect.signature(cls).parameters
    for key in parameters:
        if key not in allowed:
            known = ", ".join(allowed) or "none"
            raise InputError(f"method {cls.name} has no parameter {key!r}; it has: {known}")
    wanted = cls(**parameters)
    if saved is None:
        return wanted
    differing = [key for key in parameters if wanted.params()[key] != saved.params().get(key)]
    if type(saved) is not cls or differing:
        raise StateError(f"{state} holds {saved!r}, which contradicts the options given; use another state file")
    return saved


def _report(console: Console, job: Run, seconds: float) -> None:
    """The closing table: raw against calibrated."""
    evaluation = job.evaluation
    boards = {"raw": evaluation.raw, "calibrated": evaluation.calibrated}
    console.print(scores_table({name: board for name, board in boards.items() if board is not None}))
    skipped = f", {job.skipped:,} skipped" if job.skipped else ""
    pace = f"{evaluation.rows / seconds:,.0f} rows per second" if seconds > 0 else ""
    console.print(f"{evaluation.rows:,} rows{skipped}; {pace}")
    counts = ", ".join(f"{count:,} {what}" for what, count in job.calibrator.tally().items() if count)
    if counts:
        console.print(f"handled on learning: {counts}")
