"""What Griffe, which reads docstrings for mkdocstrings, has to be told.

Parameters that a docstring names together, `scale, forgetting`, have each its own type and default, those of the
signature; Griffe gives all of them those of the first. A method without a docstring has that of the method it
overrides, as in `help`.
"""

from __future__ import annotations

from typing import Any

import griffe


class OwnTypes(griffe.Extension):
    """Corrects what was parsed, once for the package."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        correct(pkg)
        inherit(pkg)


def correct(found: griffe.Object) -> None:
    """Give the parameters of an object, and of all that it contains, their own types and defaults."""
    if found.docstring is not None and isinstance(found, (griffe.Class, griffe.Function)):
        for section in found.docstring.parsed:
            if section.kind is griffe.DocstringSectionKind.parameters:
                for parameter in section.value:
                    correct_one(parameter, list(found.parameters))
    for member in found.members.values():
        if not member.is_alias:
            correct(member)


def inherit(found: griffe.Object) -> None:
    """Give methods without a docstring that of the method they override, in an object and in all that it contains."""
    for member in (one for one in found.members.values() if not one.is_alias):
        if isinstance(found, griffe.Class) and member.docstring is None:
            above = (base.members.get(member.name) for base in found.mro())
            member.docstring = next((one.docstring for one in above if one is not None and one.docstring), None)
        inherit(member)


def correct_one(parameter: griffe.DocstringParameter, signature: list[griffe.Parameter]) -> None:
    """Drop a type and default that belong to another parameter; those that the docstring itself states stay."""
    own = next((one for one in signature if one.name == parameter.name), None)
    others = [one for one in signature if one is not own]
    if parameter.annotation is not None and any(parameter.annotation is one.annotation for one in others):
        parameter.annotation = own.annotation if own else None
    if parameter.value is not None and any(parameter.value is one.default for one in others):
        parameter.value = own.default if own else None
