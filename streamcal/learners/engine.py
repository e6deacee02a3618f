"""`Engine`: what checked observations become; and `Steps`, the engine of sequential methods."""

from __future__ import annotations

from typing import Any

import numpy as np

from streamcal.errors import CapabilityError, MergeError
from streamcal.parameters.types import FloatArray
from streamcal.states import Field


class Engine:
    """What a learner does with checked observations: the verbs of `Learner`, without the checks of their arguments.

    A learner passes itself, and an engine keeps no reference to it, so that both are freed with the learner. `Additive`
    is the engine of the methods that are functions of a statistic, `Steps` that of the sequential ones. A learner made
    of other learners passes observations on by itself, and uses the defaults here.
    """

    #: Whether `merge` and `unlearn` are possible.
    merges: bool = False
    unlearns: bool = False
    #: Whether times are checked where they are given, and whether each observation needs one.
    reads_time: bool = False
    forgets_by_time: bool = False

    @property
    def bounded(self) -> bool:
        """Whether memory has a bound that is fixed at construction."""
        raise NotImplementedError("a sequential method has a property `bounded_memory` of its own")

    @property
    def n(self) -> float:
        """Total weight held; under decay, in units of a new observation."""
        raise NotImplementedError("a sequential method has a property `n` of its own")

    def learn(self, method: Any, x: Any, y: Any, w: float, t: float) -> None:
        """Learn an observation."""
        raise NotImplementedError

    def learn_many(self, method: Any, x: Any, y: Any, w: FloatArray, t: FloatArray) -> None:
        """Learn n observations: coordinates of shape (n,) or (n, M), and arrays of shape (n,)."""
        raise NotImplementedError

    def unlearn(self, method: Any, x: Any, y: Any, w: float, t: float) -> None:
        """Remove an observation."""
        raise CapabilityError(f"{type(method).__name__} depends on the order of its observations and cannot unlearn")

    def merge(self, method: Any, other: Any) -> None:
        """Add everything that another method of the same kind has learned."""
        raise MergeError(f"{type(method).__name__} depends on the order of its observations and cannot merge")

    def tally(self) -> dict[str, int]:
        """Count what was handled without an error."""
        return {}

    def needs_time(self) -> str:
        """Return the message where `forgets_by_time` and an observation has no time."""
        return ""

    def needs_seconds(self, factor: float) -> str:
        """Return the end of the warning of times with `factor` units in a second; empty where any unit will do."""
        return ""

    def require_times(self, t: FloatArray) -> None:
        """Raise `ClockError` if one of these times, in order, is too far ahead to be learned."""

    def require_time(self, t: float) -> None:
        """Raise `ClockError` if the time of one observation is too far ahead to be learned."""

    def fields(self, method: Any) -> dict[str, Field]:
        """Return the fields of the state by name."""
        return {}


class Steps(Engine):
    """One step for each observation (`_step` of the method), so that nothing can be merged or unlearned.

    A weight counts relative to the running mean of all weights (`WeightScale`), so that multiplying all weights by one
    number changes nothing. Weight 0 is no step. Forgetting is a parameter of the step, and time is not read.
    """

    def learn(self, method: Any, x: Any, y: Any, w: float, t: float) -> None:
        if w > 0.0:
            method._step(x, y, w)

    def learn_many(self, method: Any, x: Any, y: Any, w: FloatArray, t: FloatArray) -> None:
        columns = (one.tolist() if isinstance(one, np.ndarray) else one for one in (x, y, w))
        for one in zip(*columns, strict=True):
            if one[-1] > 0.0:
                method._step(*one)
