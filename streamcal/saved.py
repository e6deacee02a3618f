"""`Saved`: an object whose state can be written, as plain data or as bytes, and read back."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

from streamcal.encoding import pack, unpack
from streamcal.errors import StateError
from streamcal.names import Suggesting
from streamcal.states import FORMAT, plain, require_whole, signed

#: Errors that a constructor, or a field without a reader, may raise for a damaged state.
DAMAGE = (KeyError, TypeError, ValueError, IndexError, AttributeError, ArithmeticError, RecursionError, MemoryError)


class Saved(metaclass=Suggesting):
    """Writing and reading a state: the class, its parameters, and what was learned.

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

    def state_dict(self) -> dict[str, Any]:
        """Return the parameters and everything learned as plain, versioned data for `json`, with a checksum.

        Notes
        -----
        Later predictions may differ in the last place from those without this call; docs/states_measured.md says where.

        Examples
        --------
        >>> from streamcal import Platt
        >>> cal = Platt()
        >>> cal.learn_one(0.2, True)
        >>> Platt.from_state(cal.state_dict()).predict_one(0.2) == cal.predict_one(0.2)
        True
        """
        return signed(plain(self._written()))

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """Return the object whose `state_dict` is given; it resumes exactly where that object was.

        Raises
        ------
        StateError
            If the state was damaged or changed, which its checksum shows, is one of another class or version, or if a
            field is impossible, by itself or beside the others.
        """
        if not isinstance(state, dict) or FORMAT not in state:
            raise StateError("this is not a streamcal state: expected the dict written by state_dict()")
        require_whole(state)
        return cls._from_written(state)

    def to_bytes(self, compress: bool = False) -> bytes:
        """Return the state as bytes: versioned, with a checksum, without pickle (docs/states.md).

        Parameters
        ----------
        compress : bool
            By zlib. Small states become no smaller.

        Returns
        -------
        bytes
            160 of an `OnlinePlatt`, 10 for each distinct score of an exact tree with few repeated scores.

        Examples
        --------
        >>> from streamcal import Platt
        >>> cal = Platt()
        >>> cal.learn_one(0.2, True)
        >>> Platt.from_bytes(cal.to_bytes()).predict_one(0.2) == cal.predict_one(0.2)
        True
        """
        written = self._written()
        return pack([written["class"], written["params"], written["learned"]], compress)

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Return the object whose `to_bytes` is given; it resumes exactly where that object was, to the last bit.

        Raises
        ------
        StateError
            If the bytes were damaged, cut or changed, are of another version of the layout or another class, or if a
            field is impossible.
        """
        read = unpack(content, arrays=True)
        if not isinstance(read, list) or len(read) != 3:
            raise StateError("the bytes hold something else than a state")
        return cls._from_written({"class": read[0], "params": read[1], "learned": read[2]})

    def _written(self) -> dict[str, Any]:
        """Return the state without version and checksum, as it is part of another state."""
        return {"class": type(self).__name__, "params": self._plain_params(), "learned": self._state()}

    @classmethod
    def _from_written(cls, state: dict[str, Any]) -> Self:
        """Return the object of a state whose version and checksum have been checked."""
        own = cls._of_class(state.get("class"))
        try:
            return own._of_state(state["params"], state["learned"])
        except DAMAGE as error:
            reason = error if isinstance(error, StateError) else repr(error)
            raise StateError(f"the state of {own.__name__} is damaged: {reason}") from error

    @classmethod
    def _of_class(cls, name: Any) -> type[Self]:
        """Return the class of a state with this class name; `StateError` unless this class can read it."""
        if name != cls.__name__:
            raise StateError(f"the state is one of {name!r}, not of {cls.__name__!r}: use that class")
        return cls

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_bytes, (self.to_bytes(),)
