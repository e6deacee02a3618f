"""Parameter objects (scales, priors, forgetting policies) as plain data and as text.

`Setting` subclasses can be written as plain data (`encode`, `decode`) and parsed from the text of their own `repr`
(`parse`), which is how the command line reads `--set "scale=Logit(-8, 0)"`.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import math
from importlib import import_module
from typing import Any

from streamcal.lazy import SETTINGS
from streamcal.names import Suggesting
from streamcal.states import as_list

#: Metadata of a field that is written only where it differs from its default.
OMITTED: dict[str, Any] = {"omitted": True}
#: Bits of a parameter that stays an integer: NumPy has none of more.
LARGEST_BITS = 63


class Setting(metaclass=Suggesting):
    """A frozen dataclass used as a parameter. Subclasses register themselves under their class name."""

    _known: dict[str, type[Setting]] = {}  # noqa: RUF012

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Setting._known[cls.__name__] = cls

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that reproduce this setting, without those that are omitted at their defaults."""
        return {name: getattr(self, name) for name in written_fields(self)}


def encode(value: Any) -> Any:
    """Encode a parameter as plain data: a `Setting` becomes a dict with its class name, a tuple a list."""
    if isinstance(value, Setting):
        fields = {name: encode(item) for name, item in value.arguments().items()}
        return {"setting": type(value).__name__, **fields}
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    return value


def written_fields(setting: Setting) -> list[str]:
    """Return the names of the fields of a setting that are written."""
    fields = dataclasses.fields(setting)  # type: ignore[arg-type]
    return [field.name for field in fields if is_written(getattr(setting, field.name), field)]


def is_written(value: Any, field: dataclasses.Field[Any]) -> bool:
    """Return whether the value of a field is written. An infinite default is not, since JSON has no such number."""
    if isinstance(value, float) and math.isinf(value):
        return bool(value != field.default)
    return "omitted" not in field.metadata or value != field.default


def decode(value: Any) -> Any:
    """Decode the parameter that `encode` wrote."""
    value = as_list(value)
    if isinstance(value, dict):
        fields = {name: decode(item) for name, item in value.items() if name != "setting"}
        return _class_named(value["setting"])(**fields)
    if isinstance(value, list):
        return tuple(decode(item) for item in value)
    if isinstance(value, int) and value.bit_length() > LARGEST_BITS:
        return float(value)
    return value


def parse(text: str) -> Any:
    """Parse `text`: a Python literal, a bare word (kept as text), or a setting such as `Window(5000)`.

    Examples
    --------
    >>> parse("20"), parse("osqp"), parse("None")
    (20, 'osqp', None)
    """
    try:
        node = ast.parse(text, mode="eval").body
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return _built(node, text)
    except SyntaxError:
        return text
    except (MemoryError, RecursionError):  # of Python's parser, which has no other words for it
        raise ValueError("the value has too many signs or brackets inside one another") from None
    try:
        return _literal(node)
    except (ValueError, RecursionError):
        return text


def _built(call: ast.Call, text: str) -> Setting:
    """Return the setting written in `text`, such as `Window(5000)`."""
    cls = _class_named(ast.unparse(call.func))
    try:
        positional = [_literal(argument) for argument in call.args]
        named = {word.arg or f"**{ast.unparse(word.value)}": _literal(word.value) for word in call.keywords}
    except ValueError:
        raise ValueError(f"the arguments in {text!r} must be written out as numbers or texts") from None
    signature = inspect.signature(cls)
    try:
        signature.bind(*positional, **named)
    except TypeError:
        raise TypeError(f"{text!r} does not match {cls.__name__}{_without_types(signature)}") from None
    return cls(*positional, **named)


def _without_types(signature: inspect.Signature) -> str:
    """Format a signature without its types, as in `(lo=-16.0, hi=16.0)`."""
    names = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    return str(inspect.Signature(names))


def _literal(node: ast.expr) -> Any:
    """Parse a Python literal, in which `inf` is a number, as in the `repr` of floats."""
    return ast.literal_eval(_Infinities().visit(node))


class _Infinities(ast.NodeTransformer):
    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.copy_location(ast.Constant(math.inf), node) if node.id == "inf" else node


def _class_named(name: str) -> type[Setting]:
    """Return the setting class named `name`; `ValueError` listing the known ones, without abstract classes."""
    if name not in Setting._known:  # then it may be one of a module that was not imported yet
        for module in SETTINGS:
            import_module(module)
    setting = Setting._known.get(name)
    if setting is None or not dataclasses.is_dataclass(setting):
        known = sorted(key for key, cls in Setting._known.items() if dataclasses.is_dataclass(cls))
        raise ValueError(f"unknown setting {name!r}; known are {', '.join(known)}")
    return setting
