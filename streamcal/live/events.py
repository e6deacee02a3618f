"""The events of a `LabelJoin` as bytes, as its journal keeps them: some 50 bytes each, and the keys."""

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
from streamcal.kernels.pending.pending_events import issued_events, resolved_events
from streamcal.live.issued import Id, Issued, Keys
from streamcal.parameters.types import FloatArray

ISSUE, RESOLVE, ADVANCE, NOTE, CHANGE, REPEAT = 0, 1, 2, 3, 4, 5
#: An impression that is remembered was issued again.
REPEATED = bytes((REPEAT,))
#: Bits of the second byte: the id is an integer; there are version, keys or weight; the outcome is positive; it has
#: a weight.
INTEGER, MORE, POSITIVE, WEIGHED = 1, 2, 4, 8

#: Rows whose levels are remembered as bytes, and the fields that they have at most.
USUAL, FEW = 1_024, 4

_ISSUED = struct.Struct("<BBHddd")  # kind, bits, length of the id, t, score, p
_RESOLVED = struct.Struct("<BBHd")
_ADVANCED = struct.Struct("<Bd")
_INTEGER = struct.Struct("<q")
_WEIGHT = struct.Struct("<d")


def issued(one: Issued) -> bytes:
    """Encode an impression and the probability that was issued for it."""
    id, integer = _id(one.id)
    if one.version is None and one.keys is None and one.w == 1.0:
        return _ISSUED.pack(ISSUE, integer, len(id), one.t, one.score, one.p) + id
    rest = _more(one.version, one.keys, one.w)
    return _ISSUED.pack(ISSUE, integer | MORE, len(id), one.t, one.score, one.p) + id + rest


def issued_rows(
    ids: list[Id],
    t: FloatArray,
    scores: FloatArray,
    p: FloatArray,
    w: FloatArray,
    version: Id | None,
    keys: list[Keys | None] | None,
    outcomes: tuple[NDArray[np.uint8], FloatArray, float],
) -> tuple[int, bytearray]:
    """Encode impressions of one version as `issued` does, each after its size, and count these events.

    `outcomes` are labels and their times, of which those up to the horizon follow their impressions; both may be empty.
    """
    rests = None
    if version is not None or keys is not None or (w != 1.0).any():
        levels = [None] * len(ids) if keys is None else keys
        rests = [_rest(version, one, w_) for one, w_ in zip(levels, w.tolist(), strict=True)]
    found: tuple[int, bytearray] = issued_events(ids, t, scores, p, rests, *outcomes)
    return found


def _rest(version: Id | None, keys: Keys | None, w: float) -> bytes | None:
    """Encode version, keys and weight; None where an impression needs none of them."""
    if keys is None:
        return None if version is None and w == 1.0 else _more(version, None, w)
    return _more(version, keys, w) if w != 1.0 or len(keys) > FEW else _usual(version, tuple(keys.items()))


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
def _usual(version: Id | None, levels: tuple[tuple[str, str | int], ...]) -> bytes:
    """Write [version, keys, 1.0] as `_more` does; most rows have the levels of others."""
    return _more(version, dict(levels), 1.0)


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
    written, integer = _id(id)
    bits = integer | (POSITIVE if positive else 0)
    if w is None:
        return _RESOLVED.pack(RESOLVE, bits, len(written), t) + written
    return _RESOLVED.pack(RESOLVE, bits | WEIGHED, len(written), t) + written + _WEIGHT.pack(w)


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
            _, bits, size, t, score, p = _ISSUED.unpack_from(event)
            if not bits:
                return kind, str(event[_ISSUED.size : _ISSUED.size + size], "utf-8"), score, t, None, None, 1.0, p
            id, rest = event[_ISSUED.size : _ISSUED.size + size], event[_ISSUED.size + size :]
            version, keys, w = json.loads(rest) if bits & MORE else (None, None, 1.0)
            return kind, _read_id(id, bits), score, t, version, keys, w, p
        if kind == RESOLVE:
            _, bits, size, t = _RESOLVED.unpack_from(event)
            weight = _WEIGHT.unpack_from(event, _RESOLVED.size + size) if bits & WEIGHED else ()
            of = _read_id(event[_RESOLVED.size : _RESOLVED.size + size], bits)
            return kind, of, bool(bits & POSITIVE), t, *weight
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


def _id(id: Id) -> tuple[bytes, int]:
    """Encode an id as bytes, and return them with the bit of its type."""
    return (id.encode(), 0) if isinstance(id, str) else (_INTEGER.pack(id), INTEGER)


def _read_id(written: bytes, bits: int) -> Id:
    return int(_INTEGER.unpack(written)[0]) if bits & INTEGER else written.decode()
