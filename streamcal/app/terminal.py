"""Output of commands on the terminal: errors in one line, exit codes, and a progress bar."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.console import Console

from streamcal.errors import StreamcalError
from streamcal.stream.files import STANDARD_STREAM, title_of

if TYPE_CHECKING:
    from streamcal.stream.run import Run

USAGE_ERROR = 2
INTERRUPTED = 130
#: How a `Console` prints text as it is.
PLAIN: dict[str, Any] = {"highlight": False, "markup": False, "soft_wrap": True}
#: As of a program that SIGPIPE ends.
CLOSED_PIPE = 141
#: Characters of a message; of a longer one the middle is left out.
LONGEST_MESSAGE = 2_000


def fail(message: str) -> NoReturn:
    """Exit with code 2 and one line on standard error."""
    typer.echo(one_line(message), err=True)
    raise typer.Exit(USAGE_ERROR)


def one_line(message: str) -> str:
    r"""Write a message as one line of bounded length that a terminal shows as it is.

    Examples
    --------
    >>> one_line("a\x1b[31m.csv:\ncannot be read")
    'streamcal: a\\x1b[31m.csv: cannot be read'
    """
    message = " ".join(message.splitlines())
    if len(message) > LONGEST_MESSAGE:
        message = f"{message[: LONGEST_MESSAGE // 2]} … {message[-LONGEST_MESSAGE // 2 :]}"
    return "streamcal: " + "".join(c if c.isprintable() else ascii(c)[1:-1] for c in message)


@contextmanager
def failing() -> Iterator[None]:
    """Convert errors of streamcal to one line and exit code 2, an interrupt to 130, and a closed pipe to 141."""
    try:
        yield
    except StreamcalError as error:
        fail(str(error))
    except BrokenPipeError:  # whoever reads standard output has closed it, such as `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still held
        raise typer.Exit(CLOSED_PIPE) from None
    except SystemExit:  # of rich, for the same reason
        raise typer.Exit(CLOSED_PIPE) from None
    except KeyboardInterrupt:
        typer.echo("streamcal: interrupted", err=True)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def progress_bar(title: str, *, quiet: bool = False) -> Iterator[Callable[[int, float | None], None]]:
    """Draw a progress bar on standard error, if that is a terminal; yield `progress(rows, share or None)`."""
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

        def progress(rows: int, share: float | None) -> None:
            bar.update(task, rows=rows, total=None if share is None else 1.0, completed=share or 0.0)

        yield progress


@contextmanager
def interrupting(job: Run) -> Iterator[None]:
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


def executed(job: Run, files: Sequence[str], *outputs: str | None, quiet: bool) -> bool:
    """Run a job with a progress bar, and return whether a signal ended it."""
    quiet = quiet or shares_terminal(files, *outputs)
    try:
        with interrupting(job), progress_bar(title_of(files), quiet=quiet) as progress:
            job.execute(progress)
    except KeyboardInterrupt:
        return True
    return False


def exit_interrupted(job: Run) -> NoReturn:
    """Exit with the code of the signal that ended a job."""
    typer.echo("streamcal: interrupted", err=True)
    raise typer.Exit(INTERRUPTED + job.interrupted_by - signal.SIGINT)


def shares_terminal(files: Sequence[str], *outputs: str | None) -> bool:
    """Return whether input or output uses the terminal on which a progress bar would be drawn."""
    typed = STANDARD_STREAM in files and sys.stdin is not None and sys.stdin.isatty()
    return typed or (STANDARD_STREAM in outputs and sys.stdout is not None and sys.stdout.isatty())


def check_place(path: Path, what: str) -> None:
    """Fail now if a file that is written at the end of the run cannot be written."""
    if os.path.exists(path) and not os.path.isfile(path):
        fail(f"{path}: the {what} cannot be written: it is no regular file")
    folder = Path(os.path.realpath(path)).parent
    if not folder.exists():
        fail(f"{path}: the {what} cannot be written: there is no folder {folder}; make it, or give another name")
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        fail(f"{path}: the {what} cannot be written: {folder} is not a writable folder; give another name")
