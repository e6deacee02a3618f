"""The command `streamcal map`: the map of a saved state, for the system where it is served."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from streamcal.app.choosing import saved_in
from streamcal.app.predict import StateArgument
from streamcal.app.terminal import check_place, fail, failing
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
    single: Annotated[bool, typer.Option("--float", help="With --to onnx: read float32 scores.")] = False,
) -> None:
    """Write the map of a saved state, for a system without streamcal.

    The map is what the state predicts without a time: an ONNX model, a C source, JSON, an SQL expression, or an ES
    module. A state of segments has no map of the score alone; its forecasts depend on the levels too.

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
        found = calibrator.map() if hasattr(calibrator, "map") else None
        if not isinstance(found, ScaledMap):
            fail(f"{state}: {calibrator!r} has no map of the score alone; use `streamcal predict` or `streamcal serve`")
        try:
            content = written(found, to, column=column, dialect=dialect, name=name, single=single)
        except ModuleNotFoundError as error:
            fail(str(error))
        if out != STANDARD_STREAM:
            Path(out).write_bytes(content)
        else:
            sys.stdout.buffer.write(content)
