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
    method: Any,
    kind: Any,
    methods: Methods[type[Method]],
    what: str = "a streamcal calibrator",
    parameter: str = "calibrator",
    **parameters: Any,
) -> Method:
    """Return the method itself, for the caller to clone, or make a new one from its name.

    `kind` is the contract, such as `Calibrator`, or a union of contracts, and `methods` has its methods by name;
    messages call kind and argument `what` and `parameter`. A method made from its name is given those `parameters` that
    its constructor has. Raise `InputError` for an object of another kind; for an unknown name, with the nearest known
    name; for the name of a method that needs parameters.

    Examples
    --------
    >>> from streamcal import REGISTRY, Calibrator
    >>> chosen("platt", Calibrator, REGISTRY).name
    'platt'
    >>> chosen("plat", Calibrator, Methods({"platt": "a.Platt", "beta": "b.Beta"}))
    Traceback (most recent call last):
    streamcal.errors.InputError: calibrator='plat' is unknown (did you mean 'platt'?); known are platt, beta
    """
    if isinstance(method, kind):
        return method
    if isinstance(method, type) and issubclass(method, kind):
        raise InputError(f"{parameter} is the class {method.__name__}: give an object, {method.__name__}(...)")
    if not isinstance(method, str):
        raise InputError(f"{parameter}={method!r} is not {what}; give one, or its name: {', '.join(methods)}")
    if method not in methods:
        known = methods.spellings()
        raise InputError(
            f"{parameter}={method!r} is unknown{did_you_mean(method, known)}; known are {', '.join(methods)}"
        )
    cls = methods[method]
    declared = inspect.signature(cls).parameters
    needed = [name for name, own in declared.items() if own.default is own.empty and name not in parameters]
    if needed:
        raise InputError(f"{parameter}={method!r} needs {' and '.join(needed)}: give {cls.__name__}({needed[0]}=...)")
    return cls(**{name: value for name, value in parameters.items() if name in declared})
