"""Names that are not known: the nearest of those that are."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from abc import ABCMeta
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

#: What methods and parameters are called in other libraries → here, in the order of preference.
ELSEWHERE = {
    **dict.fromkeys(("sigmoid", "logistic"), ("platt",)),
    **dict.fromkeys(("pav", "pava"), ("isotonic",)),
    "ivap": ("venn-abers",),
    **dict.fromkeys(("time", "times", "timestamp", "timestamps"), ("t", "time", "forgetting")),
    **dict.fromkeys(("window", "half_life", "decay"), ("forgetting",)),
    **dict.fromkeys(("weight", "weights", "sample_weight"), ("w", "weight")),
    **dict.fromkeys(("label", "labels", "y_true"), ("y", "label")),
}
#: Verbs that take many observations in a call, and name the nearest parameter as constructors do.
BULK = (
    "learn_many",
    "predict_many",
    "predict_interval_many",
    "predict_learn_many",
    "predict_interval_learn_many",
    "update_many",
)
#: The name in Python's message.
_UNKNOWN = re.compile(r"unexpected keyword argument '(\w+)'")
P = ParamSpec("P")
R = TypeVar("R")


class Suggesting(ABCMeta):
    """The metaclass of classes whose constructors and bulk verbs name the nearest parameter where one is misspelt."""

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any) -> Suggesting:
        """Make a class; its bulk verbs are wrapped, and its verbs of one observation, which cost less, are not."""
        for verb in BULK:
            if inspect.isfunction(namespace.get(verb)):
                namespace[verb] = suggesting(namespace[verb])
        return super().__new__(mcls, name, bases, namespace, **options)

    if not TYPE_CHECKING:  # type checkers are to read the constructors

        @property
        def __signature__(cls):
            """That of the constructor, which `inspect` would otherwise take from `__call__`; or one that was set."""
            if "_signature" in cls.__dict__:
                return cls.__dict__["_signature"]
            if cls.__init__ is object.__init__:
                return inspect.Signature()
            own = inspect.signature(cls.__init__)
            return own.replace(parameters=list(own.parameters.values())[1:])

        @__signature__.setter
        def __signature__(cls, signature):
            cls._signature = signature

        def __call__(cls, *args, **named):
            """Make an object; the `TypeError` of an unknown parameter lists the known ones."""
            try:
                return super().__call__(*args, **named)
            except TypeError as error:
                suggested = _suggested(error, cls, named)
                if suggested is None:
                    raise
                raise suggested from None


@functools.cache
def parameter_names(cls: type) -> tuple[str, ...]:
    """Return the names of a constructor's arguments, cached: `inspect` takes longer than writing a small state."""
    return tuple(inspect.signature(cls).parameters)


def suggesting(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function that names the nearest parameter where one is misspelt."""

    @functools.wraps(function)
    def called(*args: P.args, **options: P.kwargs) -> R:
        try:
            return function(*args, **options)
        except TypeError as error:
            suggested = _suggested(error, function, options)
            if suggested is None:
                raise
            raise suggested from None

    return called


def _suggested(error: TypeError, called: Any, options: Mapping[str, Any]) -> TypeError | None:
    """Return the error with the nearest parameter, or with all of them; None unless a parameter is unknown."""
    match = _UNKNOWN.search(str(error))
    if match is None or match[1] not in options:
        return None
    known = [name for name in inspect.signature(called).parameters if name != "self"]
    if match[1] in known:  # of a function that was called by this one
        return None
    listed = f"; parameters are {', '.join(known)}" if known else "; there are no parameters"
    return TypeError(f"{error}{did_you_mean(match[1], known) or listed}")


def did_you_mean(name: Any, known: Iterable[Any]) -> str:
    """Return a question for a message that suggests the known name most like `name`; empty if none is like it.

    Names may be other than texts, as those of columns of pandas are.

    >>> did_you_mean("clik", ["click", 0]), did_you_mean("pctr", ["click", 0]), did_you_mean("0", ["click", 0])
    (" (did you mean 'click'?)", '', ' (did you mean 0?)')
    """
    by_lower_case = {str(one).lower(): one for one in known}
    elsewhere = [one for one in ELSEWHERE.get(str(name).lower(), ()) if one in by_lower_case]
    if elsewhere:
        return f" (did you mean {by_lower_case[elsewhere[0]]!r}?)"
    near = difflib.get_close_matches(str(name).lower(), by_lower_case, n=1)
    return f" (did you mean {by_lower_case[near[0]]!r}?)" if near else ""
