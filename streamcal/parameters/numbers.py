"""Numbers given as parameters: NumPy's become Python's, so that a sweep over an array equals written-out numbers.

All methods store Python's numbers, so that `repr`, saved states and equality are the same. Bools, arrays (also of shape
()), fractions and texts are refused; and if a whole number is required, any float.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import Any, TypeVar

import numpy as np

from streamcal.errors import InputError
from streamcal.names import did_you_mean

Text = TypeVar("Text", bound=str)


def is_number(value: object) -> bool:
    """Return whether the value is an integer or a float, of Python or NumPy; a bool or a `timedelta64` is neither."""
    if value.__class__ is float or value.__class__ is int:  # most are
        return True
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, (bool, np.timedelta64))


def plain_number(value: Any) -> float:
    """Return a number as an int or a float of Python; NaN, which is within no bounds, for anything else."""
    if value.__class__ is float or value.__class__ is int:
        return value
    if not is_number(value):
        return math.nan
    return int(value) if isinstance(value, (int, np.integer)) else float(value)


def whole_number(value: Any, name: str, least: int, most: int | None = None, allowed: str | None = None) -> int:
    """Check for an int from `least` to `most`; `InputError` naming the parameter, its value and what is allowed.

    Examples
    --------
    >>> whole_number(np.int64(20), "bins", 1)
    20
    """
    number = plain_number(value)
    if isinstance(number, int) and least <= number and (most is None or number <= most):
        return number
    bounds = f"of at least {least:,}" if most is None else f"from {least:,} to {most:,}"
    raise InputError(f"{name}={value!r} is not possible; give {allowed or f'a whole number {bounds}'}")


def real_number(
    value: Any,
    name: str,
    allowed: str,
    *,
    above: float = -math.inf,
    least: float = -math.inf,
    most: float = sys.float_info.max,
    below: float = math.inf,
) -> float:
    """Check for a finite number within the bounds; `InputError` naming the parameter, its value and what is allowed.

    Examples
    --------
    >>> real_number(np.float32(0.5), "share", "a number above 0", above=0.0)
    0.5
    """
    number = plain_number(value)
    if not (above < number < below and least <= number <= most):
        raise InputError(f"{name}={value!r} is not possible; give {allowed}")
    return number


def one_of(value: Text, name: str, allowed: Iterable[str]) -> Text:
    """Check for one of these texts; `InputError` naming the parameter, its value, the nearest text and all of them.

    Examples
    --------
    >>> one_of("ab", "form", ("abm", "ab", "am"))
    'ab'
    """
    *others, last = allowed
    if value in (*others, last):
        return value
    nearest = did_you_mean(value, (*others, last))
    raise InputError(f"{name}={value!r} is not possible{nearest}; give {', '.join(map(repr, others))} or {last!r}")
