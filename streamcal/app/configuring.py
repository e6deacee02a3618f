"""`--config`: the options of a command in a file of TOML."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperOption

from streamcal.app.grouping import Grouped
from streamcal.names import did_you_mean


class Configured(Grouped):
    """A command whose options can be in the environment, which its help says once and not of each."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for option in self.params:
            if isinstance(option, TyperOption):
                option.show_envvar = False


#: Options that a file cannot have.
NOT_IN_FILES = ("config", "help", "help-all")


def configure(context: typer.Context, path: Path | None) -> Path | None:
    """Take the options that a file has as defaults; those of the environment and of the command line prevail."""
    if path is None:
        return None
    try:
        settings = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{path}: the file cannot be read as TOML: {error}") from None
    options = {named(option): option for option in context.command.params if named(option) not in NOT_IN_FILES}
    for name, value in settings.items():
        if name not in options:
            known = ", ".join(sorted(options))
            raise typer.BadParameter(f"{path}: {name!r} is unknown{did_you_mean(name, options)}; known are {known}")
        if isinstance(value, dict):
            raise typer.BadParameter(
                f"{path}: {name} is a table; give a text, a number, true or false, or a list of texts"
            )
    several = {name for name, option in options.items() if getattr(option, "multiple", False)}
    context.default_map = {
        str(options[name].name): as_given([value] if name in several and not isinstance(value, list) else value)
        for name, value in settings.items()
    }
    return path


def unknown_variables(context: Any, environment: Mapping[str, str]) -> list[str]:
    """Describe each variable of the environment that begins as those of options do, and is none of them."""
    prefix = f"{context.auto_envvar_prefix}_"
    known = [option.envvar or f"{prefix}{option.name.upper()}" for option in context.command.params]
    of_service = re.compile(f"{prefix}(SERVICE|PORT)_")  # Kubernetes sets them for a service of this name
    odd = [name for name in environment if name.startswith(prefix) and name not in known and not of_service.match(name)]
    return [f"{name} is no option{did_you_mean(name, known)}" for name in sorted(odd)]


def named(option: Any) -> str:
    """Return the name of an option in a file: that of the command line, without the hyphens before it."""
    return max(option.opts, key=len).lstrip("-")


def as_given(value: Any) -> Any:
    """Return a value as the command line has it."""
    if isinstance(value, list):
        return [str(item) for item in value]
    return value if isinstance(value, bool) else str(value)


ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        is_eager=True,
        callback=configure,
        help='Read options from a TOML file, as horizon = "6h".',
    ),
]
