"""The options that commands share, and how their values are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from streamcal.app.grouping import option, rare_option
from streamcal.app.terminal import fail, failing
from streamcal.names import did_you_mean
from streamcal.parameters.scales import Interval
from streamcal.parameters.spans import UNITS, parse_span
from streamcal.stream.columns import MISSING_LABELS, Columns
from streamcal.stream.files import Format, input_files
from streamcal.stream.records import PARSED_AS_PROBABILITY, shown
from streamcal.stream.times import TIME_UNITS, TimeOptions

#: The value of `--scale` for scores that are no probabilities.
MARGIN = "margin"
FORMATS = get_args(Format)
#: The choices of `--on-error`.
STOP, SKIP = "stop", "skip"


@dataclass(frozen=True)
class Span:
    """A number of rows or of units of time; if `unit` is given, `size` is in seconds."""

    size: float
    unit: str = ""

    def __str__(self) -> str:
        return f"{self.size / UNITS.get(self.unit, 1.0):.15g}{self.unit}"


def span_of(text: str) -> Span:
    """Parse an option that is a number, or a span of time: a number and s, m, h, d or w.

    Examples
    --------
    >>> span_of("5000"), str(span_of("1.5h"))
    (Span(size=5000.0, unit=''), '1.5h')
    """
    try:
        number, unit = parse_span(text)
        return Span(number * UNITS.get(unit, 1.0), unit)
    except ValueError:
        raise typer.BadParameter(f"{shown(text)} is not a number, nor a time such as 90s, 5m, 24h, 7d or 2w") from None


def one_of(*words: str) -> Callable[[str], str]:
    """Return a parser of an option that is one of a few words."""

    def read(text: str) -> str:
        if text not in words:
            raise typer.BadParameter(f"{shown(text)} is not one of {', '.join(words)}{did_you_mean(text, words)}")
        return text

    return read


def check_scale(text: str) -> str:
    """Check and return the value of `--scale`."""
    if text not in PARSED_AS_PROBABILITY and margin_of(text) is None:
        names = ", ".join(sorted(PARSED_AS_PROBABILITY))
        raise typer.BadParameter(
            f"{shown(text)} is not one of {names}, margin, or margin with bounds as in margin:-8,8"
            f"{did_you_mean(text, [*PARSED_AS_PROBABILITY, 'margin'])}"
        )
    return text


def margin_of(text: str) -> Interval | None:
    """Return the scale of `margin` or `margin:LO,HI`, None for any other text."""
    if text == MARGIN:
        return Interval()
    name, _, bounds = text.partition(":")
    try:
        low, high = map(float, bounds.split(","))
        return Interval(low, high) if name == MARGIN else None
    except ValueError:  # also that of an interval with no place between its bounds
        return None


def delimiter_of(text: str) -> str:
    """Return the value of an option that is one character, or "tab"."""
    character = "\t" if text in ("tab", "\\t") else text
    if len(character) != 1 or character in '"\r\n':
        raise typer.BadParameter(f"{shown(text)} is not one character, nor the word tab")
    if not character.isascii():
        raise typer.BadParameter(f"{shown(text)} is no character of ASCII")
    if character.isalnum() or character in "+-.":
        raise typer.BadParameter(f"{shown(text)} may be in a number, such as 1e-7")
    return character


def time_options(unit: str, format: str | None, zone: str | None) -> TimeOptions:
    """Check and return the options of times."""
    try:
        place = None if zone is None else ZoneInfo(zone)
    except (ValueError, OSError, ZoneInfoNotFoundError):
        raise typer.BadParameter(
            f"{shown(zone)} is no time zone; give UTC, or a name such as Europe/Berlin", param_hint="--timezone"
        ) from None
    with failing():
        return TimeOptions(unit, format, place)


def files_of(stream: list[str]) -> tuple[str, ...]:
    """Return the files of a stream in their order; exit with code 2 and one line if there are none."""
    with failing():
        return input_files(stream)


#: Headings of the help.
COLUMNS, TIMES, READING, OUTPUT = "Columns", "Times", "Reading", "Output"

OutputColumnOption = Annotated[str, rare_option(OUTPUT, "NAME", "Name of the column of probabilities in the output.")]
QuietOption = Annotated[bool, rare_option(OUTPUT, None, "Print only warnings and errors.", "--quiet")]
UnitOption = Annotated[
    str | None,
    option(
        COLUMNS,
        "[percent|logit]",
        "Read scores as percent or log-odds.",
        "--scale",
        parser=one_of(*PARSED_AS_PROBABILITY),
    ),
]


@dataclass(frozen=True, kw_only=True)
class Scores:
    """Options of every command that reads a stream of scores."""

    stream: Annotated[
        list[str],
        typer.Argument(metavar="STREAM", help="Files (CSV, JSON Lines, Parquet, Arrow), folders, globs, or -."),
    ]
    score: Annotated[str, option(COLUMNS, "COLUMN", "Column of the score.")]
    decreasing: Annotated[bool, rare_option(COLUMNS, None, "Higher scores mean fewer positives.", "--decreasing")] = (
        False
    )
    clip: Annotated[
        bool, rare_option(COLUMNS, None, "Accept probabilities outside [0, 1] by at most 1e-6.", "--clip")
    ] = False
    time: Annotated[str | None, option(COLUMNS, "COLUMN", "Column of the time: numbers, or ISO 8601.", "--time")] = None
    time_unit: Annotated[
        str,
        rare_option(
            TIMES, "UNIT", f"Unit of numbers that are times: {', '.join(TIME_UNITS)}.", parser=one_of(*TIME_UNITS)
        ),
    ] = "s"
    time_format: Annotated[
        str | None, rare_option(TIMES, "FORMAT", "Format of text that is a time, as %d/%m/%Y %H:%M.")
    ] = None
    timezone: Annotated[
        str | None, rare_option(TIMES, "ZONE", "Zone of times without one, as Europe/Berlin.  [default: UTC]")
    ] = None
    format: Annotated[
        str | None,
        rare_option(
            READING,
            "NAME",
            f"Format of STREAM: {', '.join(FORMATS)}.  [default: by its name]",
            "--format",
            parser=one_of(*FORMATS),
        ),
    ] = None
    delimiter: Annotated[
        str | None,
        rare_option(READING, "CHAR", "Delimiter of CSV: , ; tab or |.  [default: by the header]", parser=delimiter_of),
    ] = None
    decimal: Annotated[str, rare_option(READING, "CHAR", "Decimal mark of CSV: . or ,", parser=one_of(".", ","))] = "."
    on_error: Annotated[
        str, rare_option(READING, "[stop|skip]", "Stop at an invalid row, or skip it.", parser=one_of(STOP, SKIP))
    ] = STOP
    rejects: Annotated[
        str | None, rare_option(READING, "FILE", "With --on-error skip: write the skipped rows here.")
    ] = None

    @cached_property
    def files(self) -> tuple[str, ...]:
        """The files of the stream."""
        return files_of(self.stream)

    @property
    def skips(self) -> bool:
        """Whether rows that cannot be used are skipped; checked against `rejects`."""
        skips = self.on_error == SKIP
        if self.rejects is not None and not skips:
            fail("--rejects needs --on-error skip")
        return skips

    def columns(self, **others: Any) -> Columns:
        """Return the columns to be read; `others` are further arguments of `Columns`."""
        named = {"time": self.time, **others}
        for name in ("time_unit", "time_format", "timezone"):
            if named["time"] is None and getattr(self, name) != getattr(Scores, name):
                fail(f"--{name.replace('_', '-')} says how times are read: name their column with --time")
        times = time_options(self.time_unit, self.time_format, self.timezone)
        how: dict[str, Any] = {"decreasing": self.decreasing, "clip": self.clip, "decimal": self.decimal}
        return Columns(self.score, times=times, **how, **named)


@dataclass(frozen=True, kw_only=True)
class Labelled(Scores):
    """Options of every command that reads a stream of scores and labels."""

    label: Annotated[str, option(COLUMNS, "COLUMN", "Column of the label: 0/1, no/yes, false/true.")]
    positive: Annotated[str | None, option(COLUMNS, "VALUE", "The positive label, if it is another word.")] = None
    missing_label: Annotated[
        str | None,
        option(
            COLUMNS,
            "HOW",
            "Rows without a label: negative, unknown or skip.  [default: error]",
            parser=one_of(*MISSING_LABELS),
        ),
    ] = None
    weight: Annotated[str | None, rare_option(COLUMNS, "COLUMN", "Column of the weight.")] = None

    def columns(self, **others: Any) -> Columns:
        labels = {"positive": self.positive, "missing_label": self.missing_label, "weight": self.weight}
        return super().columns(label=self.label, **labels, **others)
