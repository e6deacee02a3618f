"""The events of a `CountedJoin` as bytes: 17 for a prediction and 26 for a click, fewer in columns."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from streamcal.encoding import pack, unpack
from streamcal.errors import StateError
from streamcal.live import events
from streamcal.live.counted_bucket import Group, Whole, group_of
from streamcal.parameters.types import FloatArray

ISSUE, RESOLVE, RESUME, ISSUES, RESOLVES = 16, 17, 18, 19, 20
#: A process went on with the journal of another one.
RESUMED = bytes((RESUME,))

_ISSUED = struct.Struct("<Bdd")  # kind, t, score; the group follows
_RESOLVED = struct.Struct("<BBdIIII")  # kind, whether positive, t, the numbers of the token


def issued(t: float, score: float, group: bytes) -> bytes:
    """Encode a prediction, whose group is written by `written`."""
    return _ISSUED.pack(ISSUE, t, score) + group


def written(group: Group) -> bytes:
    """Encode a group, without bytes where it has neither version, levels nor a weight of its own."""
    if group.version is None and group.keys is None and group.w == 1.0:
        return b""
    return json.dumps([group.version, group.keys, group.w]).encode("utf-8", "surrogatepass")


def all_issued(t: FloatArray, scores: FloatArray, of: Whole | None, groups: Sequence[Group]) -> bytes:
    """Encode predictions in columns; `of` are the places of their groups, None where there is one."""
    return bytes((ISSUES,)) + pack(
        [t, scores, of, json.dumps([[group.version, group.keys, group.w] for group in groups])]
    )


def resolved(positive: bool, t: float, token: Sequence[int]) -> bytes:
    """Encode an outcome."""
    return _RESOLVED.pack(RESOLVE, positive, t, *token)


def all_resolved(y: Any, t: FloatArray, tokens: Whole) -> bytes:
    """Encode outcomes in columns."""
    return bytes((RESOLVES,)) + pack([y, t, *tokens.T])


def read(event: bytes) -> tuple[Any, ...]:
    """Decode an event's kind, and the arguments of the method of `CountedJoin` that takes it again.

    Raise `StateError` for bytes that are no event.

    Examples
    --------
    >>> read(resolved(True, 5.0, (1, 2, 3, 4)))
    (17, (1, 2, 3, 4), True, 5.0)
    >>> read(issued(5.0, 0.5, written(Group("v2", (("campaign", 7),), 1.0))))
    (16, 0.5, 5.0, Group(version='v2', levels=(('campaign', 7),), w=1.0))
    """
    try:
        kind = event[0]
        if kind == ISSUE:
            _, t, score = _ISSUED.unpack_from(event)
            rest = event[_ISSUED.size :]
            return kind, score, t, group_of(*json.loads(rest)) if rest else Group(None, None, 1.0)
        if kind == RESOLVE:
            _, positive, t, *token = _RESOLVED.unpack(event)
            return kind, tuple(token), bool(positive), t
        if kind == RESUME:
            return (kind,)
        if kind == ISSUES:
            times, scores, of, groups = unpack(event[1:])
            each = [group_of(*one) for one in json.loads(groups)]
            places = None if of is None else np.array(of, dtype=np.int64)
            return kind, np.array(scores, dtype=np.float64), np.array(times, dtype=np.float64), places, each
        if kind == RESOLVES:
            y, times, *columns = unpack(event[1:])
            tokens = np.array(columns, dtype=np.int64).T
            return kind, tokens, np.array(y, dtype=np.bool_), np.array(times, dtype=np.float64)
    except (struct.error, ValueError, IndexError, TypeError, StateError) as error:
        raise StateError(f"the journal holds something that is no event: {error}") from None
    return events.read(event)
