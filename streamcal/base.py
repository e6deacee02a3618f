"""The words everything else is written in: the errors, `Statistic`, `CalibrationMap`, `Learner` and `Calibrator`.

A calibrator is a sufficient statistic, a solve and a forgetting policy; this module holds the contracts.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from streamcal.settings import decode, encode

FloatArray = npt.NDArray[np.float64]
#: What may be given as a label: a bool, or a number equal to 0 or 1.
Label = bool | int | float | np.bool_
#: What may be given as a time: a number in units of your choice, or a date (read as seconds, UTC if naive).
Time = float | datetime | np.datetime64

STATE_VERSION = 1


class StreamcalError(Exception):
    """The root of every error raised on purpose by streamcal."""


class InputError(StreamcalError, ValueError):
    """A value that cannot be used; the message says what came, what is allowed and what to do."""


class RetractionError(InputError):
    """An observation to be unlearned that was never learned."""


class MergeError(StreamcalError, ValueError):
    """Two calibrators that cannot be merged: other parameters, or a method or policy that does not merge."""


class StateError(StreamcalError, ValueError):
    """A saved state that cannot be read: another class, another version, or damaged."""


class SolverError(StreamcalError, RuntimeError):
    """A solver that did not solve; the message holds its status."""


class CapabilityError(StreamcalError, TypeError):
    """A verb this method, or its forgetting policy, does not have."""


class Statistic(ABC):
    """A sufficient summary of weighted outcomes by coordinate (the score on its scale).

    An observation is `(x, y, w)`: the coordinate, the label in [0, 1] (0 or 1 for real observations, between them
    for pseudo-observations of a prior) and the weight, w > 0. Callers have checked all three. Where there are several
    scores, x is the tuple of their coordinates and, in arrays, a row of shape (n, M); a statistic of classes or of
    real outcomes says what its y is.
    """

    #: Whether its memory is fixed whatever is learned.
    bounded: bool = False

    @property
    @abstractmethod
    def n(self) -> float:
        """Total weight held."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of observations held; nothing is left of the floats when it is 0."""

    @property
    def drifts(self) -> bool:
        """Whether `revert` may have left rounding behind that only a rebuild removes."""
        return True

    @abstractmethod
    def update(self, x: Any, y: float, w: float) -> None:
        """Add one observation."""

    def updater(self) -> Callable[[Any, float, float], None]:
        """What `update` comes down to: `update` itself, or a function of a kernel that a memory may call directly."""
        return self.update

    def taker(self, lo: float, hi: float) -> Callable[[Any, Any, Any], bool] | None:
        """A kernel's function of a score, label and weight as they came, or None.

        It does `update` where they are usual, the score a float from `lo` to `hi`, and says whether it did.
        """
        return None

    @abstractmethod
    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        """Add observations; the same state as a loop of `update`, up to rounding."""

    @abstractmethod
    def revert(self, x: Any, y: float, w: float) -> None:
        """Take back one earlier `update`; `RetractionError`, and no change, where it is known never to have been."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Add all that `other` holds; `other` is left as it was."""

    @abstractmethod
    def decay(self, factor: float) -> None:
        """Multiply every weight by `factor` > 0."""

    def prune(self, fraction: float) -> None:
        """Drop what weighs so little that all of it together is below `fraction` of the total. May do nothing."""
        return None

    @abstractmethod
    def empty(self) -> Self:
        """A statistic of the same shape that holds nothing."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Plain data (numbers and lists) that `restore` reads."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Replace the content by a saved `state`."""


class CalibrationMap(ABC):
    """A pure function score → probability: an immutable snapshot, safe to hand to any number of threads."""

    @abstractmethod
    def predict_one(self, score: float) -> float:
        """The probability at `score`; `InputError` outside the scale's range."""

    @abstractmethod
    def predict_many(self, scores: npt.ArrayLike) -> FloatArray:
        """The probabilities at an array of scores, shape (n,)."""

    def __call__(self, score: float) -> float:
        return self.predict_one(score)


class Learner(ABC):
    """What everything that learns can do, whatever it learns from: be merged, copied, printed and saved.

    Parameters are the constructor's arguments, kept under their own names and never changed afterwards. `Calibrator`
    learns from single scores; `streamcal.fusion`, `.multiclass` and `.regression` have contracts of their own.
    """

    #: The name under which the lists of methods know it.
    name: ClassVar[str]
    #: One line for `streamcal methods` and the documentation.
    summary: ClassVar[str] = ""
    _known: ClassVar[dict[str, type[Learner]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Learner._known[cls.__name__] = cls

    @property
    @abstractmethod
    def merges(self) -> bool:
        """Whether `merge` is possible."""

    @property
    @abstractmethod
    def unlearns(self) -> bool:
        """Whether `unlearn_one` is possible."""

    @property
    @abstractmethod
    def bounded_memory(self) -> bool:
        """Whether memory stays below a bound fixed at construction, whatever is learned."""

    @property
    @abstractmethod
    def n(self) -> float:
        """Total weight now held; under decay, in today's units."""

    def merge(self, other: Self) -> None:
        """Add all that `other` has learned, as if both streams had been one; `other` is left as it was."""
        raise MergeError(f"{type(self).__name__} depends on the order of its observations and cannot merge")

    @abstractmethod
    def tally(self) -> dict[str, int]:
        """Counts of what was quietly handled, such as scores clamped by the scale."""

    # -- parameters ----------------------------------------------------------------------------------------------

    def params(self) -> dict[str, Any]:
        """The constructor's arguments by name."""
        names = inspect.signature(type(self)).parameters
        return {name: getattr(self, name) for name in names}

    def same_parameters(self, other: object) -> bool:
        """Whether `other` is of this class and has equal parameters: what merging asks for."""
        return type(other) is type(self) and _parameters_of(other) == _parameters_of(self)

    def clone(self) -> Self:
        """A calibrator with the same parameters that has learned nothing."""
        return type(self)(**self.params())

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.params().items())
        return f"{type(self).__name__}({given})"

    # -- state ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def _state(self) -> dict[str, Any]:
        """What was learned, as plain data."""

    @abstractmethod
    def _restore(self, state: dict[str, Any]) -> None:
        """Take over what `_state` wrote; called on a fresh clone."""

    def state_dict(self) -> dict[str, Any]:
        """Parameters and everything learned as plain, versioned data that `json` can write.

        >>> from streamcal import Platt
        >>> cal = Platt()
        >>> cal.learn_one(0.2, True)
        >>> Platt.from_state(cal.state_dict()).predict_one(0.2) == cal.predict_one(0.2)
        True
        """
        return {
            "streamcal": STATE_VERSION,
            "class": type(self).__name__,
            "params": _parameters_of(self),
            "learned": self._state(),
        }

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_state, (self.state_dict(),)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The calibrator that `state_dict` wrote; `StateError` if it cannot be read."""
        if not isinstance(state, dict) or "streamcal" not in state:
            raise StateError("this is not a streamcal state: expected the dict written by state_dict()")
        if state["streamcal"] != STATE_VERSION:
            raise StateError(f"state version {state['streamcal']!r} cannot be read, only {STATE_VERSION}")
        if state.get("class") != cls.__name__:
            raise StateError(f"the state is one of {state.get('class')!r}, not of {cls.__name__!r}: use that class")
        try:
            calibrator = cls(**_parameters_in(state["params"]))
            calibrator._restore(state["learned"])
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError) as error:
            raise StateError(f"the state of {cls.__name__} is damaged: {error!r}") from error
        return calibrator


def _parameters_of(learner: Learner) -> dict[str, Any]:
    """The parameters as plain data."""
    return {name: _plain(value) for name, value in learner.params().items()}


def _plain(value: Any) -> Any:
    """A parameter as plain data. One that is itself a learner is written as its class and parameters."""
    if isinstance(value, Learner):
        return {"learner": type(value).__name__, "params": _parameters_of(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return encode(value)


def _parameters_in(plain: dict[str, Any]) -> dict[str, Any]:
    """The parameters that `_parameters_of` wrote."""
    return {name: _read(value) for name, value in plain.items()}


def _read(value: Any) -> Any:
    """The parameter that `_plain` wrote."""
    if isinstance(value, dict) and "learner" in value:
        return Learner._known[value["learner"]](**_parameters_in(value["params"]))
    if isinstance(value, list):
        return tuple(_read(item) for item in value)
    return decode(value)


class Calibrator(Learner):
    """A method of one score: it learns that a score was followed by a label, and predicts a probability.

    See `docs/architecture.md` for the laws.
    """

    #: Whether a higher score never gets a lower probability.
    monotone: ClassVar[bool] = True
    #: Whether `predict_interval_one` exists.
    has_interval: ClassVar[bool] = False

    @abstractmethod
    def learn_one(self, score: float, y: Label, w: float = 1.0, t: Time | None = None) -> None:
        """Learn that `score` was followed by the label `y`, with weight `w` ≥ 0, at time `t`."""

    @abstractmethod
    def learn_many(
        self,
        scores: npt.ArrayLike,
        y: npt.ArrayLike,
        w: npt.ArrayLike | None = None,
        t: npt.ArrayLike | Sequence[Time] | None = None,
    ) -> None:
        """Learn arrays of shape (n,): the state a loop of `learn_one` leaves. All or, on an error, nothing."""

    @abstractmethod
    def predict_one(self, score: float, t: Time | None = None) -> float:
        """The probability of a positive label at `score`, as of time `t`. Changes nothing."""

    @abstractmethod
    def predict_many(self, scores: npt.ArrayLike, t: Time | None = None) -> FloatArray:
        """The probabilities at an array of scores, all as of time `t`, shape (n,). Changes nothing."""

    def unlearn_one(self, score: float, y: Label, w: float = 1.0, t: Time | None = None) -> None:
        """Take back an earlier `learn_one` of the same arguments, exactly."""
        raise CapabilityError(f"{type(self).__name__} depends on the order of its observations and cannot unlearn")

    @abstractmethod
    def map(self) -> CalibrationMap:
        """The present calibration map, immutable."""
