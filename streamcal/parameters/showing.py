"""A `repr` made of the constructor's arguments, with long arrays abbreviated; and tables for notebooks."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from html import escape
from typing import Any

import numpy as np

#: Entries of a sequence that are shown at its start; of longer ones besides only the last.
ENTRIES = 3
#: A longer repr of a parameter is made again from its fields.
LONGEST = 60


def shown(value: Any) -> str:
    """Return an object as a text that names the arguments of its constructor that it keeps, as `x` or as `_x`.

    A class that shows itself in this way has `__repr__ = shown` and `_repr_html_ = shown_table`. Numbers have six
    digits. Arguments at their defaults are left out, and "..." replaces those that the object does not keep.

    Examples
    --------
    >>> from streamcal import Platt
    >>> Platt().map()
    IdentityMap(scale=Logit(lo=-16.0, hi=16.0))
    """
    arguments, complete = _arguments_of(value)
    parts = [f"{name}={text}" for name, text in arguments.items()]
    return f"{type(value).__name__}({', '.join(parts if complete else [*parts, '...'])})"


def shown_table(value: Any, picture: str = "") -> str:
    """Return the arguments that `shown` names as a table for notebooks, with a picture as in `html_table`."""
    return html_table(type(value).__name__, _arguments_of(value)[0], picture)


def _arguments_of(value: Any) -> tuple[dict[str, str], bool]:
    """Return the kept arguments that differ from their defaults, as texts, and whether all arguments were kept."""
    parts, complete = {}, True
    for name, parameter in inspect.signature(type(value)).parameters.items():
        attributes = [key for key in (name, f"_{name}") if hasattr(value, key)]
        if not attributes:
            complete = False
        elif (argument := getattr(value, attributes[0])) is not parameter.default:
            parts[name] = shown_value(argument)
    return parts, complete


def html_table(title: str, rows: Mapping[str, str], picture: str = "") -> str:
    """Return a small table for notebooks: a caption, and a row for each name; all texts are escaped.

    `picture` is HTML placed below the table, such as an SVG.

    >>> html_table("Platt", {"n": "3 < 4"})
    '<table><caption>Platt</caption><tbody><tr><th scope="row">n</th><td>3 &lt; 4</td></tr></tbody></table>'
    """
    cells = (f'<tr><th scope="row">{escape(name)}</th><td>{escape(text)}</td></tr>' for name, text in rows.items())
    return f"<table><caption>{escape(title)}</caption><tbody>{''.join(cells)}</tbody></table>{picture}"


def shown_value(value: Any) -> str:
    """Return an argument as a short text."""
    if isinstance(value, (float, np.floating)):
        return repr(float(f"{value:.6g}"))
    if isinstance(value, (np.ndarray, list)):
        return f"[{_abbreviated(value, _entry)}]"
    if inspect.isfunction(value):
        return value.__name__
    if hasattr(value, "_fields"):  # a named tuple, of what a solver left
        return f"{type(value).__name__}(...)"
    if isinstance(value, tuple):
        return f"({_abbreviated(value, _entry)}{',' if len(value) == 1 else ''})"
    if isinstance(value, Mapping):
        entries = _abbreviated(list(value.items()), lambda pair: f"{pair[0]!r}: {_entry(pair[1])}")
        return f"{{{entries}}}"
    if type(value).__repr__ is object.__repr__:  # a class and an address
        return f"{type(value).__name__}(...)"
    text = repr(value)
    if len(text) > LONGEST and dataclasses.is_dataclass(value):
        fields = [f"{one.name}={shown_value(getattr(value, one.name))}" for one in dataclasses.fields(value)]
        return f"{type(value).__name__}({', '.join(fields)})"
    return text


def _abbreviated(values: Any, show: Callable[[Any], str]) -> str:
    """Return the entries as a text, or the first of them and the last."""
    if len(values) <= ENTRIES + 2:
        return ", ".join(map(show, values))
    return ", ".join([*map(show, values[:ENTRIES]), "...", show(values[-1])])


def _entry(value: Any) -> str:
    """Return an entry of a sequence as a text: only the name of the class for objects with many parts."""
    return f"{type(value).__name__}(...)" if type(value).__repr__ is shown else shown_value(value)
