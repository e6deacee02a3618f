"""The events of a `LabelJoin` as bytes, as its journal keeps them: some 50 bytes each, and the keys.

`streamcal.kernels.pending.pending_events` has the form of impressions and outcomes.
"""

from __future__ import annotations

import json
import struct
from functools import lru_cache
from json.encoder import encode_basestring as _text
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal.encoding import pack, unpack
from streamcal.errors import StateError
from streamcal.kernels.pending.pending_events import (
    ISSUE,
    RESOLVE,
    issued_event,
    issued_events,
    read_event,
    resolved_event,
    resolved_events,
    rests_of,
)
from streamcal.live.issued import Id, Issued, Keys
from streamcal.parameters.types import FloatArray

ADVANCE, NOTE, CHANGE, REPEAT = 2, 3, 4, 5
#: An impression that is remembered was issued again.
REPEATED = bytes((REPEAT,))

#: Rows whose levels are remembered when they are read.
USUAL = 1_024
#: Levels that were written, as bytes.
_WRITTEN: dict[tuple[Any, ...], bytes] = {}

_ADVANCED = struct.Struct("<Bd")


def issued(prediction: Issued) -> bytes:
    """Encode an impression and the probability that was issued for it."""
    plain = prediction.version is None and prediction.keys is None and prediction.w == 1.0
    rest = None if plain else _more(prediction.version, prediction.keys, prediction.w)
    event: bytes = issued_event(prediction.id, prediction.t, prediction.score, prediction.p, rest)
    return event


def issued_rows(
    ids: list[Id],
    t: FloatArray,
    scores: FloatArray,
    p: FloatArray,
    w: FloatArray,
    version: Id | None,
    keys: list[Keys | None] | None,
    outcomes: tuple[NDArray[np.uint8], FloatArray],
) -> tuple[int, bytearray]:
    """Encode impressions of one version as `issued` does, each after its size, and count these events.

    `outcomes` are labels and their times, of which those at a finite time follow their impressions; both may be empty.
    """
    rests = None
    if version is not None or keys is not None or (w != 1.0).any():
        rests = rests_of(version, [None] * len(ids) if keys is None else keys, w, _WRITTEN, _more)
    counted: tuple[int, bytearray] = issued_events(ids, t, scores, p, rests, *outcomes)
    return counted


def resolved_rows(ids: list[Id], positive: NDArray[np.uint8], t: FloatArray) -> tuple[int, bytearray]:
    """Encode outcomes without weights as `resolved` does, each after its size, and count them."""
    return len(ids), resolved_events(ids, positive, t)


def _more(version: Id | None, keys: Keys | None, w: float) -> bytes:
    r"""Write [version, keys, weight] as JSON, faster than `json.dumps`, which sets up an encoder for each call.

    >>> _more("v2", {"campaign": "c\n", "place": 3}, 1.0)
    b'["v2",{"campaign":"c\\n","place":3},1.0]'
    """
    if keys is None:
        levels = "null"
    else:
        levels = f"{{{','.join([f'{_text(field)}:{_plain(level)}' for field, level in keys.items()])}}}"
    text = f"[{'null' if version is None else _plain(version)},{levels},{float(w)!r}]"
    return text.encode("utf-8", "surrogatepass")  # levels of files that are not UTF-8 have lone surrogates


@lru_cache(USUAL)
def _read_usual(rest: bytes) -> tuple[Id | None, Keys | None, float]:
    version, keys, w = json.loads(rest)
    return version, keys, w


def read_rest(rest: bytes | None) -> tuple[Id | None, Keys | None, float]:
    """Decode version, keys and weight, which must not be changed; `StateError` for bytes that are none."""
    if rest is None:
        return None, None, 1.0
    try:
        return _read_usual(rest)
    except (ValueError, TypeError) as error:
        raise StateError(f"the journal holds something that is no event: {error}") from None


def _plain(value: str | int) -> str:
    return _text(value) if value.__class__ is str else int.__repr__(value)


def resolved(id: Id, positive: bool, t: float, w: float | None = None) -> bytes:
    """Encode an outcome."""
    event: bytes = resolved_event(id, positive, t, w)
    return event


def advanced(t: float) -> bytes:
    """Encode the time."""
    return _ADVANCED.pack(ADVANCE, t)


def noted(note: str) -> bytes:
    """Encode the note that a user keeps with a join, as ASCII."""
    return bytes((NOTE,)) + note.encode("ascii")


def changed(version: Id | None, what: str, name: str, calibrator: dict[str, Any] | None) -> bytes:
    """Encode a change ("use", "add" or "remove") of a version's `Shadow`, with the state of an added calibrator."""
    return bytes((CHANGE,)) + pack([version, what, name, calibrator])


def read(event: bytes) -> tuple[Any, ...]:
    """Decode an event's kind, and the arguments of the method of `LabelJoin` that takes it again, such as `_issue`.

    Raise `StateError` for bytes that are no event.

    Examples
    --------
    >>> read(resolved("a", True, 5.0))
    (1, 'a', True, 5.0)
    >>> read(issued(Issued(7, 0.25, 0.5, 5.0, "v2", {"campaign": "c17"})))
    (0, 7, 0.5, 5.0, 'v2', {'campaign': 'c17'}, 1.0, 0.25)
    """
    try:
        kind = event[0]
        if kind == ISSUE:
            _, id, score, t, rest, p = read_event(event)
            return kind, id, score, t, *read_rest(rest), p
        if kind == RESOLVE:
            outcome: tuple[Any, ...] = read_event(event)
            return outcome
        if kind == ADVANCE:
            return _ADVANCED.unpack(event)
        if kind == NOTE:
            return kind, event[1:].decode("ascii")
        if kind == REPEAT:
            return (kind,)
        if kind == CHANGE:
            version, what, name, calibrator = unpack(event[1:])
            return kind, version, what, name, calibrator
    except (struct.error, ValueError, IndexError, TypeError, StateError) as error:
        raise StateError(f"the journal holds something that is no event: {error}") from None
    raise StateError(f"the journal holds an event of kind {kind}, which this version does not know; use a newer one")
