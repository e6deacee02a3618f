"""The command `streamcal map`: the map of a saved state, for the system where it is served."""

from __future__ import annotations

import csv
import io
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from streamcal.app.choosing import conversion, saved_in
from streamcal.app.options import grouped
from streamcal.app.predict import StateArgument
from streamcal.app.terminal import check_place, fail, one_line
from streamcal.maps.base import ScaledMap
from streamcal.maps.sql import DIALECTS
from streamcal.maps.writing import FORMATS, written
from streamcal.stream.durable import atomic_write
from streamcal.stream.files import STANDARD_STREAM, same_file

#: Options that are for one format.
FOR = {"column": "sql", "dialect": "sql", "source": "sql", "keep": "sql", "name": "c", "single": "onnx"}


@dataclass(frozen=True)
class Export:
    """Options of `map`."""

    state: StateArgument
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help=f"One of {', '.join(FORMATS)}.")] = "json"
    out: Annotated[str, typer.Option(metavar="FILE", help="Write the map to this file; - is stdout.")] = STANDARD_STREAM
    column: Annotated[str, typer.Option(metavar="NAME", help="With --to sql: the column of scores, as it is.")] = (
        "score"
    )
    dialect: Annotated[
        str, typer.Option(metavar="NAME", help=f"Of sql: {', '.join(DIALECTS)}.", show_default=False)
    ] = "sqlite"
    name: Annotated[str, typer.Option(metavar="NAME", help="With --to c: the name of the function.")] = "calibrate"
    levels: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the table of a state's segments, as CSV.")
    ] = None
    source: Annotated[str, typer.Option(metavar="NAME", help="With --levels and --to sql: the table of rows.")] = (
        "impressions"
    )
    keep: Annotated[
        str, typer.Option(metavar="COLUMNS", help="With --levels and --to sql: further columns to select.")
    ] = "id"
    single: Annotated[bool, typer.Option("--float", help="With --to onnx: read float32 scores.")] = False

    def check(self) -> None:
        """Exit with 2 for an unknown format, and for files that cannot be written."""
        if self.to not in FORMATS:
            fail(f"--to {self.to} is unknown; give one of {', '.join(FORMATS)}")
        for name, to in FOR.items():
            if getattr(self, name) == getattr(Export, name):
                continue
            if self.to != to:
                fail(f"--{'float' if name == 'single' else name} is for --to {to}, and not for {self.to}")
            if name in ("source", "keep") and self.levels is None:
                fail(f"--{name} is for the query that joins --levels: give them too")
        if str(self.state) == STANDARD_STREAM:
            fail("a state is a file; give its name in place of -")
        if self.out != STANDARD_STREAM:
            check_place(Path(self.out), "output")
            if same_file(self.state, self.out):
                fail(f"{self.state}: the state would be overwritten; give another --out")
        if self.levels is not None:
            if self.levels == STANDARD_STREAM:
                fail("a table of levels is a file; give its name in place of -")
            check_place(Path(self.levels), "table of levels")
            if same_file(self.state, self.levels):
                fail(f"{self.state}: the state would be overwritten; give another --levels")
            if same_file(self.out, self.levels):
                fail(f"{self.levels}: the map would overwrite the table of levels; give another --out")


@grouped
def map_(asked: Export) -> None:
    """Write the map of a saved state, for a system without streamcal.

    The map is what the state predicts without a time: an ONNX model, a C source, JSON, an SQL expression, or an ES
    module. A state of segments has no map of the score alone. With --levels it is exported as two files, the map of all
    observations and the table of levels; --to sql writes the query that joins the table levels.
    docs/maps.md has the formula.

    \b
    Examples:
      streamcal map clicks.json --to onnx --out clicks.onnx
      streamcal map clicks.json --to sql --column pctr
    """
    asked.check()
    calibrator, before = saved_in(asked.state)
    if calibrator is None:
        fail(f"{asked.state}: there is no such file")
    if (advice := conversion(before, calibrator)) is not None:
        typer.echo(one_line(f"{asked.state} {advice}"), err=True)
    if asked.levels is not None:
        content = _with_levels(calibrator, asked)
        if content is not None:
            _write(asked.out, content)
            return
        calibrator = calibrator.overall
    scaled = calibrator.map() if hasattr(calibrator, "map") else None
    if not isinstance(scaled, ScaledMap):
        remedy = "give --levels" if hasattr(calibrator, "levels") else "use `streamcal predict`"
        fail(f"{asked.state}: {calibrator!r} has no map of the score alone; {remedy}")
    try:
        content = written(
            scaled, asked.to, column=asked.column, dialect=asked.dialect, name=asked.name, single=asked.single
        )
    except ModuleNotFoundError as error:
        fail(str(error))
    _write(asked.out, content)


def _write(out: str, content: bytes) -> None:
    if out == STANDARD_STREAM:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        atomic_write(out, content)  # whoever serves the map before reads all of it, or all of this one
    except OSError as error:
        fail(f"{out}: the file cannot be written: {error.strerror or error}")


def _with_levels(calibrator: Any, asked: Export) -> bytes | None:
    """Write the table of levels; the query for --to sql, and None for other formats."""
    from streamcal.live.exported import flat_rows, level_columns, levels_sql
    from streamcal.live.segmented import Segmented

    if not isinstance(calibrator, Segmented):
        fail(f"--levels is for a state of segments, and not for {calibrator!r}")
    rows, query = flat_rows(calibrator), None
    if asked.to == "sql":
        names = {"source": asked.source, "keep": asked.keep, "dialect": asked.dialect}
        query = levels_sql(calibrator, asked.column, **names)
    assert asked.levels is not None
    file = io.StringIO(newline="")
    csv.writer(file).writerows([level_columns(calibrator), *rows])
    try:
        table = file.getvalue().encode()
    except UnicodeEncodeError as error:
        fail(f"{asked.state}: {error.object[error.start : error.end]!r} in a level is no letter of UTF-8")
    _write(asked.levels, table)
    return None if query is None else f"{query}\n".encode()
