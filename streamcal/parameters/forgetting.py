"""Forgetting policies, passed to a calibrator as `forgetting`.

A policy (`Forever`, `Window`, `Decay`) is a frozen parameter. `streamcal.memories` has a `Memory` for each: it owns the
statistic and decides what enters, what leaves and how much a new observation weighs. Statistics and methods do not
depend on the policy.

| policy | keeps | retraction |
|---|---|---|
| `Forever()` | everything | by (score, y, w) |
| `Window(size)` | the last `size` observations | the newest equal observation inside; otherwise counted as missed |
| `Window(size, by="time")` | observations younger than `size` | needs the `t` of the learn |
| `Decay(half_life)` | all, halved every `half_life` observations | refused |
| `Decay(half_life, by="time")` | all, halved every `half_life` units of time | needs the `t` of the learn |

Time is a number in any unit, or dates; spans are then seconds or a `timedelta`. Observations may arrive late and in any
order. The clock is the latest time learned, and a prediction as of an earlier time is made as of the clock.

A time far in the future, such as one in milliseconds among seconds, would make everything that is held old, and all
later observations late. An observation further ahead of the clock than `max_jump` is refused.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from streamcal.errors import InputError
from streamcal.parameters.numbers import one_of, real_number
from streamcal.parameters.settings import OMITTED, Setting, written_fields
from streamcal.parameters.spans import in_seconds

By = Literal["count", "time"]

#: The most spans by which the clock moves forward by default: 417 days for a span of an hour. A pause is seldom
#: longer, and a time in milliseconds, or the year 2100 in place of "never", is further ahead.
JUMP_SPANS = 10_000


class Forgetting(Setting, ABC):
    """The contract of a policy."""

    #: What a span of it is counted in.
    by: By = "count"

    @property
    def merges(self) -> bool:
        """Whether two streams under this policy can be merged."""
        return self.timed

    @property
    @abstractmethod
    def unlearns(self) -> bool:
        """Whether an observation can be retracted under this policy."""

    @property
    def timed(self) -> bool:
        """Whether observations need a time."""
        return self.by == "time"

    @property
    def bounded(self) -> bool:
        """Whether the number of observations held is bounded."""
        return False

    def __repr__(self) -> str:
        arguments = [f"{name}={getattr(self, name)!r}" for name in written_fields(self)]
        return f"{type(self).__name__}({', '.join(arguments)})"


@dataclass(frozen=True)
class Forever(Forgetting):
    """Keep every observation; the default.

    Notes
    -----
    Cost: none beside that of the statistic. Times are not needed.

    Examples
    --------
    >>> Forever()
    Forever()
    """

    merges = True
    unlearns = True


@dataclass(frozen=True, repr=False)
class Window(Forgetting):
    """Keep the last `size` observations, or (by time) those less than `size` older than the clock.

    Parameters
    ----------
    size : float, timedelta or str
        A whole number of observations, or a span of time; a `timedelta`, or a text such as "7d", is one in seconds.
    by : {"count", "time"}
        The unit of `size`, default "count".
    max_jump : float, timedelta, str or None
        By time, how far an observation may be ahead of the clock; None (default) is 10,000 times `size`. A later
        one is refused, and changes nothing; `math.inf` refuses none.

    Raises
    ------
    InputError
        For a size that is not a finite number above 0, or not whole by count; for a `max_jump` by count.

    Notes
    -----
    Memory: the observations inside the window. Each observation enters and leaves the statistic once, so that the cost
    of learning is about doubled.

    Examples
    --------
    >>> Window(50_000)
    Window(size=50000, by='count')
    >>> Window(timedelta(days=7))
    Window(size=604800.0, by='time')
    """

    size: float | timedelta | str
    by: By = "count"
    max_jump: float | timedelta | str | None = field(default=None, metadata=OMITTED)

    unlearns = True

    def __post_init__(self) -> None:
        _set_span(self, "size", self.size)
        _set_jump(self, self.size)  # type: ignore[arg-type]
        if self.by == "count" and (self.size != int(self.size) or self.size < 1):  # type: ignore[operator, arg-type]
            raise InputError(f"a window of {self.size!r} observations is not possible; give a whole number above 0")

    @property
    def bounded(self) -> bool:
        return self.by == "count"


@dataclass(frozen=True, repr=False)
class Decay(Forgetting):
    """Halve the weight of past observations every `half_life` observations, or units of time.

    Parameters
    ----------
    half_life : float, timedelta or str
        A number of observations, or a span of time; a `timedelta`, or a text such as "7d", is one in seconds.
    by : {"count", "time"}
        The unit of `half_life`, default "count".
    max_jump : float, timedelta, str or None
        By time, how far an observation may be ahead of the clock; None (default) is 10,000 times `half_life`. A later
        one is refused, and changes nothing; `math.inf` refuses none.

    Raises
    ------
    InputError
        For a half-life that is not a finite number above 0; for a `max_jump` by count.

    Notes
    -----
    A statistic of more than 8,192 scores drops those whose decayed weight is negligible (2⁻³⁰ of the total), unless no
    heavier score is near. Cost: O(1) per observation, no memory beside the statistic.

    Examples
    --------
    >>> Decay(half_life=10_000)
    Decay(half_life=10000, by='count')
    """

    half_life: float | timedelta | str
    by: By = "count"
    max_jump: float | timedelta | str | None = field(default=None, metadata=OMITTED)

    def __post_init__(self) -> None:
        _set_span(self, "half_life", self.half_life)
        _set_jump(self, self.half_life)  # type: ignore[arg-type]

    @property
    def unlearns(self) -> bool:
        return self.by == "time"


def _set_span(policy: Forgetting, field: str, value: float | timedelta | str) -> None:
    """Validate a span; a `timedelta` or a text such as "7d" becomes seconds and makes the policy one by time."""
    if isinstance(value, (timedelta, str)):
        value = in_seconds(value, field)
        object.__setattr__(policy, "by", "time")
    object.__setattr__(policy, field, real_number(value, field, "a finite number above 0", above=0.0))
    one_of(policy.by, "by", ("count", "time"))


def _set_jump(policy: Forgetting, span: float) -> None:
    """Validate `max_jump`; a `timedelta` or a text such as "7d" becomes seconds."""
    jump = in_seconds(policy.max_jump, "max_jump")  # type: ignore[attr-defined]
    if jump is None:
        return
    if not policy.timed:
        raise InputError(f"max_jump={jump!r} is not possible by count; give by='time', or leave it out")
    if jump == math.inf:  # which JSON does not have
        jump = sys.float_info.max
    allowed = f"a number of at least {span!r}, the span itself"
    object.__setattr__(policy, "max_jump", real_number(jump, "max_jump", allowed, least=span))


def largest_jump(policy: Forgetting, span: float) -> float:
    """Return how far an observation may be ahead of the clock."""
    jump: float | None = policy.max_jump  # type: ignore[attr-defined]
    if jump is None:
        return JUMP_SPANS * span
    return math.inf if jump == sys.float_info.max else jump
