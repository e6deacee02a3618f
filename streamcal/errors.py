"""The errors raised on purpose, each of them a built-in one too, so that `except ValueError` works; and `warn`."""

import sys
import warnings


class StreamcalError(Exception):
    """The root of every error raised on purpose by streamcal."""


class InputError(StreamcalError, ValueError):
    """A value that cannot be used; the message says what came, what is allowed and what to do.

    An argument outside its documented range always raises it, whether or not the docstring says so, and leaves the
    state as it was. Of n rows none is learned where one is refused.
    """


class ClockError(InputError):
    """A time that is further ahead of the latest one than the forgetting policy allows."""


class RetractionError(InputError):
    """An observation that cannot be unlearned: it was never learned, or what is left would be inaccurate."""


class MergeError(StreamcalError, ValueError):
    """Two calibrators that cannot be merged: other parameters, or a method or policy that does not merge."""


class StateError(StreamcalError, ValueError):
    """A saved state that cannot be read: another class, another version, or damaged."""


class StoreError(StateError):
    """A store of levels that cannot be read or written, or is damaged."""


class SolverError(StreamcalError, RuntimeError):
    """A solver that found no solution; the message has its status."""


class CapabilityError(StreamcalError, TypeError):
    """A call that this method, or its forgetting policy, does not support."""


def warn(message: str) -> None:
    """Raise a `RuntimeWarning` at the line outside of streamcal that led here."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("streamcal."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, RuntimeWarning, stacklevel=level)
