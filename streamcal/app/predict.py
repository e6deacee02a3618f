"""The command `streamcal predict`: a saved state applied to rows without labels."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from streamcal.app.choosing import saved_in
from streamcal.app.options import (
    SKIP,
    STOP,
    ClipOption,
    DecimalOption,
    DecreasingOption,
    DelimiterOption,
    FormatOption,
    OnErrorOption,
    OutputColumnOption,
    QuietOption,
    RejectsOption,
    ScoreOption,
    StreamArgument,
    TimeFormatOption,
    TimeOption,
    TimeUnitOption,
    TimezoneOption,
    UnitOption,
    files_of,
    time_options,
)
from streamcal.app.terminal import (
    INTERRUPTED,
    check_place,
    fail,
    failing,
    interrupting,
    progress_bar,
    shares_terminal,
)
from streamcal.stream.columns import Columns
from streamcal.stream.formats import STANDARD_STREAM, same_file
from streamcal.stream.inputs import title_of
from streamcal.stream.run import CALIBRATED, Run

StateArgument = Annotated[
    Path, typer.Argument(metavar="STATE", help="What `streamcal run --state` or `streamcal.save` wrote.")
]
OutOption = Annotated[
    str, typer.Option(metavar="FILE", help="Write the input columns and `calibrated`; - is stdout, in STREAM's format.")
]


def predict(
    state: StateArgument,
    stream: StreamArgument,
    score: ScoreOption,
    out: OutOption = STANDARD_STREAM,
    output_column: OutputColumnOption = CALIBRATED,
    time: TimeOption = None,
    time_unit: TimeUnitOption = "s",
    time_format: TimeFormatOption = None,
    timezone: TimezoneOption = None,
    scale: UnitOption = None,
    decreasing: DecreasingOption = False,
    clip: ClipOption = False,
    on_error: OnErrorOption = STOP,
    rejects: RejectsOption = None,
    quiet: QuietOption = False,
    format_: FormatOption = None,
    delimiter: DelimiterOption = None,
    decimal: DecimalOption = ".",
) -> None:
    """Apply a saved state to rows without labels.

    Each row is written with the column `calibrated`, and `lower` and `upper` where the method has an interval. Nothing
    is learned, and the state stays as it is: a row gets what `predict_one` of the loaded state returns. Columns of
    segments are read under the names that they had when the state learned. Scores are read as `run` was told to read
    them: give the same --scale and --decreasing.

    \b
    Example:
      streamcal predict clicks.json today.parquet --score pctr --out today_calibrated.parquet
    """
    if rejects is not None and on_error == STOP:
        fail("--rejects needs --on-error skip")
    if str(state) == STANDARD_STREAM:
        fail("a state is a file; give its name in place of -")
    sources = files_of(stream)
    for other in (*sources, out, rejects):
        if other is not None and same_file(state, other):
            fail(f"{state}: the state would be read as a stream or overwritten; give another name")
    if out != STANDARD_STREAM:
        check_place(Path(out), "output")
    console = Console(
        stderr=STANDARD_STREAM in (out, rejects), highlight=False, markup=False, soft_wrap=True, quiet=quiet
    )
    with failing():
        calibrator, _ = saved_in(state)
        if calibrator is None:
            fail(f"{state}: there is no such file")
        fields = getattr(calibrator, "fields", ())
        times = time_options(time_unit, time_format, timezone)
        how: dict[str, Any] = {"decreasing": decreasing, "clip": clip, "decimal": decimal, "times": times}
        columns = Columns(score, None, time, segments=fields, **how)
        rows = (format_, out, on_error == SKIP, rejects, delimiter, scale)
        job = Run(calibrator, sources, columns, *rows, frozen=True, column=output_column)
        console.print(f"{calibrator!r}, which has learned {calibrator.n:,.15g} observations")
        interrupted = False
        try:
            with (
                interrupting(job),
                progress_bar(title_of(sources), quiet=quiet or shares_terminal(sources, out, rejects)) as tell,
            ):
                job.execute(tell)
        except KeyboardInterrupt:
            interrupted = True
    skipped = f", {job.skipped:,} skipped" if job.skip else ""
    pace = job.taken / job.seconds if job.taken else 0.0
    console.print(f"{job.taken:,} rows predicted{skipped}; {pace:,.0f} rows per second")
    if interrupted:
        typer.echo("streamcal: interrupted", err=True)
        raise typer.Exit(INTERRUPTED + job.interrupted_by - signal.SIGINT)
