"""Commands with groups of options, each a dataclass and a heading of the help; the groups that commands share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cached_property, wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_args, get_type_hints
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer
from typer.core import TyperCommand

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
#: What click adds to the help of a number with bounds; the message for a number out of bounds names them.
RANGE = re.compile(r"  \[[\d.<=]*x[\d.<>=]*\]|; [\d.<=]*x[\d.<>=]*(?=\])")
#: The name in a context under which `--help-all` is noted.
ALL = "streamcal.help_all"


def help_all(context: typer.Context, asked: bool) -> None:
    """Print the help with all options, and exit."""
    if asked:
        context.meta[ALL] = True
        typer.echo(context.get_help())
        raise typer.Exit


HelpAllOption = Annotated[
    bool,
    typer.Option(
        "--help-all",
        is_eager=True,
        callback=help_all,
        show_envvar=False,
        help="Show all options, also the rarely needed ones, and exit.",
    ),
]


def option(panel: str, metavar: str | None, help: str, *names: str, **more: Any) -> Any:
    """Return an option: the heading under which the help shows it, the name of its value, and what it does.

    Its own name is that of the parameter unless others are given; `more` are further arguments of `typer.Option`.
    """
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=panel, show_envvar=False, **more)


class RareHeading(str):
    """The heading of an option that only `--help-all` shows."""

    __slots__ = ()


def rare_option(panel: str, metavar: str | None, help: str, *names: str, **more: Any) -> Any:
    """Return an option that only `--help-all` shows, as `option` does."""
    return option(RareHeading(panel), metavar, help, *names, **more)


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command in which each parameter that is a dataclass is replaced by its fields.

    Typer makes arguments and options of a signature. Required ones come first in it. A command with rare options has
    `--help-all`.
    """
    own = list(signature(command, eval_str=True).parameters.values())
    groups: dict[str, Any] = {option.name: option.annotation for option in own if is_dataclass(option.annotation)}
    names = {name: [field.name for field in fields(group)] for name, group in groups.items()}
    shown = [part for option in own for part in (_parts(option.annotation) if option.name in groups else [option])]

    @wraps(command)
    def with_arguments(**arguments: Any) -> None:
        arguments.pop("help_all", None)
        parts = {name: group(**{key: arguments.pop(key) for key in names[name]}) for name, group in groups.items()}
        command(**parts, **arguments)

    notes = [note for option in shown for note in getattr(option.annotation, "__metadata__", ())]
    if any(isinstance(getattr(note, "rich_help_panel", None), RareHeading) for note in notes):
        shown.append(Parameter("help_all", Parameter.KEYWORD_ONLY, default=False, annotation=HelpAllOption))
    shown.sort(key=lambda option: option.default is not Parameter.empty)
    keyword = [option.replace(kind=Parameter.KEYWORD_ONLY) for option in shown]
    with_arguments.__signature__ = Signature(keyword)  # type: ignore[attr-defined]
    return with_arguments


def _parts(group: Any) -> list[Parameter]:
    """Return the fields of a dataclass as parameters; each of its base classes has its own names of types."""
    types = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=types[field.name],
        )
        for field in fields(group)
    ]


class Grouped(TyperCommand):
    """A command whose help shows options below the heading of their group, `rich_help_panel` of the option.

    Options with a `RareHeading` are for rare needs. The shell completes them, and `--help-all` shows them, but not
    `--help`, which fits on a screen. Errors of streamcal end the command with a line, as in `failing`.
    """

    def invoke(self, ctx: Any) -> Any:
        with failing():
            return super().invoke(ctx)

    def format_options(self, context: Any, formatter: Any) -> None:
        """Write the options, those without a group first; options for rare needs only with `--help-all`."""
        headings: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(context):
            heading = getattr(parameter, "rich_help_panel", None) or "Options"
            left_out = isinstance(heading, RareHeading) and not context.meta.get(ALL)
            record = None if left_out else parameter.get_help_record(context)
            if record is not None:
                name, text = record
                headings.setdefault(heading, []).append((name, RANGE.sub("", text)))
        for heading, records in headings.items():
            with formatter.section(heading):
                formatter.write_dl(records)


# -- values and options that commands share ----------------------------------------------------------------------------


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
    return TimeOptions(unit, format, place)


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
        return input_files(self.stream)

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
