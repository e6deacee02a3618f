"""The command `streamcal map`: the map of a saved state, for the system where it is served."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from streamcal.app.choosing import saved_in
from streamcal.app.predict import StateArgument
from streamcal.app.terminal import check_place, fail, failing
from streamcal.live.keyed import Keyed
from streamcal.maps.base import ScaledMap
from streamcal.maps.sql import DIALECTS
from streamcal.maps.writing import FORMATS, written
from streamcal.stream.formats import STANDARD_STREAM, same_file


def map_(
    state: StateArgument,
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help=f"One of {', '.join(FORMATS)}.")] = "json",
    out: Annotated[str, typer.Option(metavar="FILE", help="Where the map is written; - is stdout.")] = STANDARD_STREAM,
    column: Annotated[
        str, typer.Option(metavar="NAME", help="With --to sql: the column of scores, inserted as it is.")
    ] = "score",
    dialect: Annotated[
        str, typer.Option(metavar="NAME", help=f"With --to sql: one of {', '.join(DIALECTS)}.")
    ] = "sqlite",
    name: Annotated[
        str, typer.Option(metavar="NAME", help="With --to c: the name of the function of one score.")
    ] = "calibrate",
    levels: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Of a state of segments: where the table of levels is written, as CSV; --to sql joins it.",
        ),
    ] = None,
    source: Annotated[
        str, typer.Option(metavar="NAME", help="With --levels and --to sql: the table of observations.")
    ] = "impressions",
    keep: Annotated[
        str, typer.Option(metavar="COLUMNS", help="With --levels and --to sql: the columns to select besides.")
    ] = "id",
    single: Annotated[bool, typer.Option("--float", help="With --to onnx: read float32 scores.")] = False,
) -> None:
    """Write the map of a saved state, for a system without streamcal.

    The map is what the state predicts without a time: an ONNX model, a C source, JSON, an SQL expression, or an ES
    module. A state of segments has no map of the score alone. With --levels it is exported as two files, the map of all
    observations and the table of levels; --to sql writes the query that joins the table levels. docs/maps.md has the
    formula.

    \b
    Example:
      streamcal map clicks.json --to onnx --out clicks.onnx
    """
    if to not in FORMATS:
        fail(f"--to {to} is unknown; give one of {', '.join(FORMATS)}")
    if str(state) == STANDARD_STREAM:
        fail("a state is a file; give its name in place of -")
    if out != STANDARD_STREAM:
        check_place(Path(out), "output")
        if same_file(state, out):
            fail(f"{state}: the state would be overwritten; give another --out")
    with failing():
        calibrator, _ = saved_in(state)
        if calibrator is None:
            fail(f"{state}: there is no such file")
        if levels is not None:
            check_place(Path(levels), "table of levels")
            if same_file(state, levels):
                fail(f"{state}: the state would be overwritten; give another --levels")
            content = _with_levels(calibrator, to, levels, source, column, keep, dialect)
            if content is not None:
                _write(out, content)
                return
            assert isinstance(calibrator, Keyed)
            calibrator = calibrator.overall
        found = calibrator.map() if hasattr(calibrator, "map") else None
        if not isinstance(found, ScaledMap):
            fail(f"{state}: {calibrator!r} has no map of the score alone; give --levels for segments, or use `predict`")
        try:
            content = written(found, to, column=column, dialect=dialect, name=name, single=single)
        except ModuleNotFoundError as error:
            fail(str(error))
        _write(out, content)


def _write(out: str, content: bytes) -> None:
    if out != STANDARD_STREAM:
        Path(out).write_bytes(content)
    else:
        sys.stdout.buffer.write(content)


def _with_levels(
    calibrator: Any, to: str, levels: str, source: str, column: str, keep: str, dialect: str
) -> bytes | None:
    """Write the table of levels; the query for --to sql, and None for other formats."""
    from streamcal.live.exported import flat_rows, level_columns, levels_sql
    from streamcal.live.segmented import Segmented

    if not isinstance(calibrator, Segmented):
        fail(f"--levels is for a state of segments, and not for {calibrator!r}")
    rows = flat_rows(calibrator)
    query = levels_sql(calibrator, column, source=source, keep=keep, dialect=dialect) if to == "sql" else None
    with open(levels, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(level_columns(calibrator))
        writer.writerows(rows)
    return None if query is None else f"{query}\n".encode()
