"""A method given as an object or by its name: `chosen`, for everything that takes one."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

from streamcal.errors import InputError
from streamcal.lazy import Methods
from streamcal.learners.learner import Learner
from streamcal.names import did_you_mean

Method = TypeVar("Method", bound=Learner)


def chosen(
    given: Any,
    kind: type[Any],
    methods: Methods[type[Method]],
    what: str = "a streamcal calibrator",
    parameter: str = "calibrator",
    **parameters: Any,
) -> Method:
    """Return the given method unchanged, or a new method of the given name.

    Parameters
    ----------
    given : str or Learner
        A name of `methods`, or an object of the right kind, which is returned itself: the caller clones it.
    kind : type
        The contract, such as `Calibrator`.
    methods : Methods
        The methods of this kind by name.
    what, parameter : str
        What messages call the kind and the argument.
    **parameters
        What a method that is made from its name is given, where its constructor has such a parameter.

    Raises
    ------
    InputError
        For an object of another kind; for an unknown name, with the nearest known name; for the name of a method that
        needs parameters.

    Examples
    --------
    >>> from streamcal import REGISTRY, Calibrator
    >>> chosen("platt", Calibrator, REGISTRY).name
    'platt'
    >>> chosen("plat", Calibrator, Methods({"platt": "a.Platt", "beta": "b.Beta"}))
    Traceback (most recent call last):
    streamcal.errors.InputError: calibrator='plat' is unknown (did you mean 'platt'?); known are platt, beta
    """
    if isinstance(given, kind):
        return given
    if not isinstance(given, str):
        raise InputError(f"{parameter}={given!r} is not {what}; give one, or its name: {', '.join(methods)}")
    if given not in methods:
        known = methods.spellings()
        raise InputError(
            f"{parameter}={given!r} is unknown{did_you_mean(given, known)}; known are {', '.join(methods)}"
        )
    cls = methods[given]
    declared = inspect.signature(cls).parameters
    needed = [name for name, one in declared.items() if one.default is one.empty and name not in parameters]
    if needed:
        raise InputError(f"{parameter}={given!r} needs {' and '.join(needed)}: give {cls.__name__}({needed[0]}=...)")
    return cls(**{name: value for name, value in parameters.items() if name in declared})
