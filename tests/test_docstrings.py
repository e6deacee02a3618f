"""Everything public has a docstring, its own or of the method it overrides: what `help` and the site show."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "tools"))

import style


def function_of(value):
    """Return the function of a method, property or class method; None for a field."""
    value = getattr(value, "fget", None) or getattr(value, "fn", None) or getattr(value, "__func__", value)
    return value if inspect.isfunction(value) else None


def undocumented(found):
    """Return the class or function, and public methods of the class and its bases, that have no docstring."""
    own = [cls for cls in getattr(found, "__mro__", [found]) if cls.__module__.startswith("streamcal")]
    missing = {f"{one.__module__}.{one.__qualname__}" for one in own if not one.__doc__}
    for cls in own:
        for name, value in vars(cls).items() if inspect.isclass(cls) else ():
            function = function_of(value)
            if not name.startswith("_") and function is not None and not inspect.getdoc(getattr(cls, name)):
                missing.add(f"{cls.__module__}.{cls.__qualname__}.{name}")
    return missing


@pytest.mark.parametrize("module", style.PUBLIC)
def test_public_names_and_their_methods_have_docstrings(module):
    assert not set().union(*map(undocumented, style.public_names(module)))


def test_a_method_without_a_docstring_is_found():
    class Silent:
        """A class."""

        @property
        def value(self):
            return 1

        def told(self):
            """Return two."""
            return 2

    Silent.__module__ = "streamcal.of_this_test"
    assert {name.rpartition(".")[2] for name in undocumented(Silent)} == {"value"}
