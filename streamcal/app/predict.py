"""The command `streamcal predict`: a saved state applied to rows without labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from streamcal.app.choosing import saved_in
from streamcal.app.oddities import mostly_skipped, odd_unit_of_time, times_left_out
from streamcal.app.options import OUTPUT, OutputColumnOption, QuietOption, Scores, UnitOption, grouped, option
from streamcal.app.report import times_read
from streamcal.app.terminal import PLAIN, check_place, executed, exit_interrupted, fail
from streamcal.stream.files import STANDARD_STREAM, same_file
from streamcal.stream.run import CALIBRATED, Run

StateArgument = Annotated[
    Path, typer.Argument(metavar="STATE", help="A state of `streamcal run --state` or `streamcal.save`.")
]


@dataclass(frozen=True, kw_only=True)
class Predicted:
    """Options of the output for rows without labels."""

    out: Annotated[str, option(OUTPUT, "FILE", "Write the input columns and `calibrated`; - is stdout.")] = (
        STANDARD_STREAM
    )
    output_column: OutputColumnOption = CALIBRATED
    quiet: QuietOption = False


@grouped
def predict(state: StateArgument, read: Scores, write: Predicted, scale: UnitOption = None) -> None:
    """Apply a saved state to rows without labels.

    Each row is written with the column `calibrated`, and `lower` and `upper` if the method has an interval. Nothing is
    learned, and the state does not change. Columns of segments keep the names that they had when the state learned.
    Give the same --scale and --decreasing as to `run`.

    \b
    Examples:
      streamcal predict clicks.json today.parquet --score pctr --out done.parquet
      streamcal predict clicks.json - --score pctr < today.csv > calibrated.csv
    """
    out, outputs = write.out, (write.out, read.rejects)
    skips = read.skips
    if str(state) == STANDARD_STREAM:
        fail("a state is a file; give its name in place of -")
    for other in (*read.files, *outputs):
        if other is not None and same_file(state, other):
            fail(f"{state}: the state would be read as a stream or overwritten; give another name")
    if out != STANDARD_STREAM:
        check_place(Path(out), "output")
    console = Console(stderr=STANDARD_STREAM in outputs, quiet=write.quiet, **PLAIN)
    calibrator, before = saved_in(state)
    if calibrator is None:
        fail(f"{state}: there is no such file")
    columns = read.columns(label=None, segments=getattr(calibrator, "fields", ()))
    rows = (read.format, out, skips, read.rejects, read.delimiter, scale)
    job = Run(calibrator, read.files, columns, *rows, frozen=True, column=write.output_column)
    if before.reading is not None:
        replace(before.reading, positive=None).require(job.reading, state, learned=False)  # no labels are read
    console.print(f"{calibrator!r}, which has learned {calibrator.n:,.15g} observations")
    interrupted = executed(job, read.files, *outputs, quiet=write.quiet)
    for line in (
        mostly_skipped(job.taken, job.reasons),
        times_left_out(job, before),
        odd_unit_of_time(job, seconds=False),
    ):
        if line is not None:
            Console(stderr=True, **PLAIN).print(f"warning: {line}")
    skipped = f", {job.skipped:,} skipped" if job.skip else ""
    pace = job.taken / job.seconds if job.taken else 0.0
    console.print(f"{job.taken:,} rows predicted{skipped}; {pace:,.0f} rows per second")
    if (line := times_read(job.order)) is not None:
        console.print(line)
    if interrupted:
        exit_interrupted(job)
