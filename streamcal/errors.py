"""The errors raised on purpose. Each is also a built-in one, so that `except ValueError` goes on working."""


class StreamcalError(Exception):
    """The root of every error raised on purpose by streamcal."""


class InputError(StreamcalError, ValueError):
    """A value that cannot be used; the message says what came, what is allowed and what to do."""


class ClockError(InputError):
    """A time that is further ahead of the latest one than the forgetting policy allows."""


class RetractionError(InputError):
    """An observation to be unlearned that was never learned."""


class MergeError(StreamcalError, ValueError):
    """Two calibrators that cannot be merged: other parameters, or a method or policy that does not merge."""


class StateError(StreamcalError, ValueError):
    """A saved state that cannot be read: another class, another version, or damaged."""


class StoreError(StateError):
    """A store of levels that cannot be read or written, or is damaged."""


class SolverError(StreamcalError, RuntimeError):
    """A solver that did not solve; the message holds its status."""


class CapabilityError(StreamcalError, TypeError):
    """A verb this method, or its forgetting policy, does not have."""
