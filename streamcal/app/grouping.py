"""Commands whose parameters are groups of options: a dataclass for each group, and a heading in the help."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import partial, wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand

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
        "--help-all", is_eager=True, callback=help_all, help="Show all options, also the rarely needed ones, and exit."
    ),
]


def option(panel: str, metavar: str | None, help: str, *names: str, **more: Any) -> Any:
    """Return an option: the heading under which the help shows it, the name of its value, and what it does.

    Its own name is that of the parameter unless others are given; `more` are further arguments of `typer.Option`.
    """
    return typer.Option(*names, metavar=metavar, help=help, rich_help_panel=panel, **more)


#: The same for an option that only `--help-all` shows.
rare_option = partial(option, hidden=True)


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command in which each parameter that is a dataclass is replaced by its fields.

    Typer makes arguments and options of a signature. Required ones come first in it. A command with options that are
    `hidden` has `--help-all`.
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
    if any(getattr(note, "hidden", False) for note in notes):
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

    Options that are declared `hidden` are for rare needs. The shell completes them, and `--help-all` shows them, but
    not `--help`, which fits on a screen.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.rare = {parameter.name for parameter in self.params if getattr(parameter, "hidden", False)}
        for parameter in self.params:
            parameter.hidden = False  # type: ignore[attr-defined]

    def format_options(self, context: Any, formatter: Any) -> None:
        """Write the options, those without a group first; options for rare needs only with `--help-all`."""
        headings: dict[str, list[tuple[str, str]]] = {}
        left_out = set() if context.meta.get(ALL) else self.rare
        for parameter in self.get_params(context):
            record = None if parameter.name in left_out else parameter.get_help_record(context)
            if record is not None:
                name, text = record
                heading = getattr(parameter, "rich_help_panel", None) or "Options"
                headings.setdefault(heading, []).append((name, RANGE.sub("", text)))
        for heading, records in headings.items():
            with formatter.section(heading):
                formatter.write_dl(records)
