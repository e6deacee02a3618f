"""Commands whose parameters are groups of options: a dataclass for each group, and a heading in the help."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Any, get_type_hints

from typer.core import TyperCommand

#: What click adds to the help of a number with bounds; the message for a number out of bounds names them.
RANGE = re.compile(r"  \[[\d.<=]*x[\d.<>=]*\]|; [\d.<=]*x[\d.<>=]*(?=\])")


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command in which each parameter that is a dataclass is replaced by its fields.

    Typer makes arguments and options of a signature. Required ones come first in it.
    """
    own = list(signature(command, eval_str=True).parameters.values())
    groups: dict[str, Any] = {one.name: one.annotation for one in own if is_dataclass(one.annotation)}
    names = {name: [field.name for field in fields(group)] for name, group in groups.items()}
    shown = [part for one in own for part in (_parts(one.annotation) if one.name in groups else [one])]

    @wraps(command)
    def with_arguments(**given: Any) -> None:
        parts = {name: group(**{key: given.pop(key) for key in names[name]}) for name, group in groups.items()}
        command(**parts, **given)

    shown.sort(key=lambda one: one.default is not Parameter.empty)
    keyword = [one.replace(kind=Parameter.KEYWORD_ONLY) for one in shown]
    with_arguments.__signature__ = Signature(keyword)  # type: ignore[attr-defined]
    return with_arguments


def _parts(group: Any) -> list[Parameter]:
    """Return the fields of a dataclass as parameters; each of its base classes has its own names of types."""
    types = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            one.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if one.default is MISSING else one.default,
            annotation=types[one.name],
        )
        for one in fields(group)
    ]


class Grouped(TyperCommand):
    """A command whose help shows options below the heading of their group, `rich_help_panel` of the option."""

    def format_options(self, context: Any, formatter: Any) -> None:
        """Write the options, those without a group first."""
        headings: dict[str, list[tuple[str, str]]] = {}
        for one in self.get_params(context):
            record = one.get_help_record(context)
            if record is not None:
                name, text = record
                heading = getattr(one, "rich_help_panel", None) or "Options"
                headings.setdefault(heading, []).append((name, RANGE.sub("", text)))
        for heading, records in headings.items():
            with formatter.section(heading):
                formatter.write_dl(records)
