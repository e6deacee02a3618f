"""Writing and reading a state, as plain data or as bytes: of learners, and of what else has a state."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Protocol, Self, runtime_checkable

from streamcal.encoding import pack, unpack
from streamcal.errors import StateError
from streamcal.names import Suggesting
from streamcal.states import FORMAT, plain, require_whole, signed

#: Errors that a constructor, or a field without a reader, may raise for a damaged state.
DAMAGE = (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RecursionError, MemoryError)


@runtime_checkable
class Saved(Protocol):
    """What has a state: every learner, and the classes of `streamcal.live`."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state as plain, versioned data for `json`, with a checksum."""
        ...

    def to_bytes(self, compress: bool = False) -> bytes:
        """Return the state as bytes."""
        ...


class WithState(metaclass=Suggesting):
    """The base of what has a state and is no learner: its class, its parameters, and what was learned.

    A class says what its parameters and its learned parts are as plain data, and how an object is made of them.
    """

    @abstractmethod
    def _plain_params(self) -> dict[str, Any]:
        """Return the parameters as plain data."""

    @abstractmethod
    def _state(self) -> dict[str, Any]:
        """Return what was learned as plain data, with arrays and `Rows` in place of long lists of numbers.

        They are copies: what is learned afterwards does not change them.
        """

    @classmethod
    @abstractmethod
    def _of_state(cls, params: Any, learned: Any) -> Self:
        """Return the object with these parameters that has learned this; raise one of `DAMAGE` if there is none."""

    @classmethod
    def _of_class(cls, name: Any) -> type[Self]:
        """Return the class of a state with this class name; `StateError` unless this class can read it."""
        return own_class(cls, name)

    def state_dict(self) -> dict[str, Any]:
        """Return the state as plain, versioned data for `json`, with a checksum: as `Learner.state_dict`."""
        return signed_state(self)

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return the object whose `state_dict` is given: as `Learner.from_state`."""
        return read_state(cls, state)

    def to_bytes(self, compress: bool = False) -> bytes:
        """Return the state as bytes: as `Learner.to_bytes`."""
        return packed_state(self, compress)

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Return the object whose `to_bytes` is given: as `Learner.from_bytes`."""
        return unpacked_state(cls, content)

    def _written(self) -> dict[str, Any]:
        """Return the state without version and checksum, as it is part of another state."""
        return written(self)

    @classmethod
    def _from_written(cls, state: dict[str, Any]) -> Self:
        """Return the object of a state whose version and checksum have been checked."""
        return read_written(cls, state)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)


def own_class(cls: type[Any], name: Any) -> type[Any]:
    """Return a class; `StateError` unless a state has its name."""
    if name != cls.__name__:
        raise StateError(f"the state is one of {name!r}, not of {cls.__name__!r}: use that class")
    return cls


def written(learner: Any) -> dict[str, Any]:
    """Return class, parameters and what was learned, without version and checksum."""
    return {"class": type(learner).__name__, "params": learner._plain_params(), "learned": learner._state()}


def read_written(cls: type[Any], state: dict[str, Any]) -> Any:
    """Return the object of a state whose version and checksum have been checked."""
    own = cls._of_class(state.get("class"))
    try:
        return own._of_state(state["params"], state["learned"])
    except DAMAGE as error:
        reason = error if isinstance(error, StateError) else repr(error)
        raise StateError(f"the state of {own.__name__} is damaged: {reason}") from error


def signed_state(learner: Any) -> dict[str, Any]:
    """Return the state as plain, versioned data with a checksum."""
    return signed(plain(learner._written()))


def read_state(cls: type[Any], state: dict[str, Any]) -> Any:
    """Invert `signed_state`."""
    if not isinstance(state, dict) or FORMAT not in state:
        raise StateError("this is not a streamcal state: expected the dict written by state_dict()")
    require_whole(state)
    return cls._from_written(state)


def packed_state(learner: Any, compress: bool) -> bytes:
    """Return the state as bytes with a checksum."""
    state = learner._written()
    return pack([state["class"], state["params"], state["learned"]], compress)


def unpacked_state(cls: type[Any], content: bytes) -> Any:
    """Invert `packed_state`."""
    read = unpack(content)
    if not isinstance(read, list) or len(read) != 3:
        raise StateError("the bytes hold something else than a state")
    return cls._from_written({"class": read[0], "params": read[1], "learned": read[2]})
