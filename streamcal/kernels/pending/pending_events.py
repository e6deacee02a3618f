# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Impressions and outcomes of a join as the bytes of its journal, one by one and in columns.

    kind, bits               two bytes
    size of the id           two bytes, the lowest first, as all numbers
    t                        a double
    score, p                 doubles, of an impression
    id                       a text, or a whole number of eight bytes
    rest                     of an impression: version, levels and weight as JSON, where it needs them
    w                        of an outcome: a double, where it has a weight

In columns the size of each event, four bytes, comes before it.
"""

import struct

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy

#: Kinds of events.
ISSUE, RESOLVE = 0, 1
INTEGER, MORE, POSITIVE, WEIGHED = (
    cython.declare(cython.int, 1),
    cython.declare(cython.int, 2),
    cython.declare(cython.int, 4),
    cython.declare(cython.int, 8),
)
"""Bits: the id is a whole number; there is a rest; the outcome is positive; it has a weight."""
SIZE, ISSUED, RESOLVED = (
    cython.declare(cython.Py_ssize_t, 4),
    cython.declare(cython.Py_ssize_t, 28),
    cython.declare(cython.Py_ssize_t, 12),
)
"""Bytes of a size, and of what comes before the id of an impression and of an outcome."""
FEW, USUAL = cython.declare(cython.Py_ssize_t, 4), cython.declare(cython.Py_ssize_t, 1024)
"""Fields of the levels whose bytes are remembered, at most, and how many of these."""
ALL = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
infinity = cython.declare(cython.double, float("inf"))


# -- writing -----------------------------------------------------------------------------------------------------------


@cython.cfunc
@cython.exceptval(check=False)
def _whole(out: cython.p_uchar, at: cython.Py_ssize_t, value: cython.ulonglong, size: cython.int) -> cython.void:
    """Write a whole number, its lowest byte first."""
    k: cython.int
    for k in range(size):
        out[at + k] = (value >> (8 * k)) & 255


@cython.cfunc
def _number(out: cython.p_uchar, at: cython.Py_ssize_t, value: cython.double):
    """Write a double."""
    bits: cython.ulonglong = 0
    if cython.compiled:
        memcpy(cython.address(bits), cython.address(value), 8)
        _whole(out, at, bits, 8)
    else:
        out[at : at + 8] = struct.pack("<d", value)


@cython.cfunc
def _text(out: cython.p_uchar, at: cython.Py_ssize_t, text: object):
    """Write bytes."""
    size: cython.Py_ssize_t = len(text)
    if not cython.compiled:
        out[at : at + size] = text
    elif size:
        memcpy(cython.address(out[at]), cython.cast(cython.p_char, text), size)


@cython.cfunc
@cython.inline
def _coded(id: object) -> object:
    """Return the text of an id as bytes; None for a whole number."""
    return None if type(id) is int else id.encode()


@cython.cfunc
@cython.inline
def _size_of(text: object) -> cython.Py_ssize_t:
    """Return the number of bytes of an id with this text."""
    return 8 if text is None else len(text)


@cython.cfunc
def _event(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    kind: cython.int,
    bits: cython.int,
    t: cython.double,
    id: object,
    text: object,
) -> cython.Py_ssize_t:
    """Write what all events have, and return where the id ends."""
    size: cython.Py_ssize_t = _size_of(text)
    out[at] = kind
    out[at + 1] = bits if text is not None else bits | INTEGER
    _whole(out, at + 2, size, 2)
    _number(out, at + 4, t)
    at += ISSUED if kind == ISSUE else RESOLVED
    if text is None:
        _whole(out, at, cython.cast(cython.ulonglong, cython.cast(cython.longlong, id)) & ALL, 8)
    else:
        _text(out, at, text)
    return at + size


@cython.cfunc
def _issued(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    t: cython.double,
    score: cython.double,
    p: cython.double,
    id: object,
    text: object,
    rest: object,
):
    """Write an impression."""
    end: cython.Py_ssize_t = _event(out, at, ISSUE, 0 if rest is None else MORE, t, id, text)
    _number(out, at + 12, score)
    _number(out, at + 20, p)
    if rest is not None:
        _text(out, end, rest)


def issued_event(id, t: cython.double, score: cython.double, p: cython.double, rest):
    """Return the bytes of an impression; `rest` has its version, levels and weight, or is None."""
    text: object = _coded(id)
    content: bytearray = bytearray(ISSUED + _size_of(text) + (0 if rest is None else len(rest)))
    out: cython.p_uchar = content
    _issued(out, 0, t, score, p, id, text, rest)
    return bytes(content)


def resolved_event(id, positive: cython.bint, t: cython.double, w):
    """Return the bytes of an outcome; `w` is its weight, or None."""
    text: object = _coded(id)
    bits: cython.int = (POSITIVE if positive else 0) | (0 if w is None else WEIGHED)
    content: bytearray = bytearray(RESOLVED + _size_of(text) + (0 if w is None else 8))
    out: cython.p_uchar = content
    end: cython.Py_ssize_t = _event(out, 0, RESOLVE, bits, t, id, text)
    if w is not None:
        _number(out, end, w)
    return bytes(content)


def issued_events(
    ids: list,
    t: cython.const[cython.double][::1],
    scores: cython.const[cython.double][::1],
    p: cython.const[cython.double][::1],
    rests,
    y: cython.const[cython.uchar][:],
    when: cython.const[cython.double][:],
):
    """Return how many events impressions are, and their bytes.

    `rests` has the bytes of version, levels and weight where a row needs them, or is None. An outcome `y` that came
    at a finite `when` follows its impression; both may be empty.
    """
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t
    total: cython.Py_ssize_t = 0
    count: cython.Py_ssize_t = t.shape[0]
    outcomes: cython.bint = when.shape[0] > 0
    rest: object = None
    texts: list = [_coded(id) for id in ids]
    for i in range(t.shape[0]):
        size = _size_of(texts[i])
        total += SIZE + ISSUED + size
        if rests is not None and rests[i] is not None:
            total += len(rests[i])
        if outcomes and when[i] < infinity:
            total += SIZE + RESOLVED + size
            count += 1
    content: bytearray = bytearray(total)
    out: cython.p_uchar = content
    for i in range(t.shape[0]):
        rest = None if rests is None else rests[i]
        size = ISSUED + _size_of(texts[i]) + (0 if rest is None else len(rest))
        _whole(out, at, size, 4)
        _issued(out, at + SIZE, t[i], scores[i], p[i], ids[i], texts[i], rest)
        at += SIZE + size
        if outcomes and when[i] < infinity:
            at = _resolved(out, at, ids[i], texts[i], y[i] > 0, when[i])
    return count, content


@cython.cfunc
def _resolved(
    out: cython.p_uchar,
    at: cython.Py_ssize_t,
    id: object,
    text: object,
    positive: cython.bint,
    t: cython.double,
) -> cython.Py_ssize_t:
    """Write an outcome after its size, and return where it ends."""
    _whole(out, at, RESOLVED + _size_of(text), 4)
    return _event(out, at + SIZE, RESOLVE, POSITIVE if positive else 0, t, id, text)


def resolved_events(ids: list, y: cython.const[cython.uchar][:], t: cython.const[cython.double][:]):
    """Return the bytes of outcomes without weights."""
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t = 0
    total: cython.Py_ssize_t = 0
    texts: list = [_coded(id) for id in ids]
    for i in range(t.shape[0]):
        total += SIZE + RESOLVED + _size_of(texts[i])
    content: bytearray = bytearray(total)
    out: cython.p_uchar = content
    for i in range(t.shape[0]):
        at = _resolved(out, at, ids[i], texts[i], y[i] > 0, t[i])
    return content


def rests_of(version, keys: list, w: cython.const[cython.double][:], usual: dict, write):
    """Return what `write` returns of version, levels and weight of each row, and None where a row needs none of them.

    Most rows have the levels of others: `usual` has the bytes of some.
    """
    i: cython.Py_ssize_t
    rests: list = [None] * len(keys)
    for i in range(len(keys)):
        if keys[i] is None or w[i] != 1.0 or len(keys[i]) > FEW:
            if version is not None or keys[i] is not None or w[i] != 1.0:
                rests[i] = write(version, keys[i], float(w[i]))
            continue
        own: dict = keys[i]
        parts: list = [version]
        for field, level in own.items():
            parts.append(field)
            parts.append(level)
        known = tuple(parts)
        rest = usual.get(known)
        if rest is None:
            if len(usual) >= USUAL:
                usual.clear()
            rest = usual[known] = write(version, own, 1.0)
        rests[i] = rest
    return rests


# -- reading -----------------------------------------------------------------------------------------------------------


@cython.cfunc
def _read_whole(content: cython.p_uchar, at: cython.Py_ssize_t, size: cython.int) -> cython.ulonglong:
    """Return a whole number of some bytes, the lowest first."""
    k: cython.int
    value: cython.ulonglong = 0
    for k in range(size):
        value |= cython.cast(cython.ulonglong, content[at + k]) << (8 * k)
    return value


@cython.cfunc
def _read_number(content: cython.p_uchar, at: cython.Py_ssize_t) -> cython.double:
    """Return a double."""
    bits: cython.ulonglong = _read_whole(content, at, 8)
    value: cython.double = 0.0
    if cython.compiled:
        memcpy(cython.address(value), cython.address(bits), 8)
        return value
    return struct.unpack("<d", bits.to_bytes(8, "little"))[0]


@cython.cfunc
def _read_id(blob: bytes, at: cython.Py_ssize_t, size: cython.Py_ssize_t, integer: cython.bint):
    """Return an id; `UnicodeDecodeError` for bytes that are none."""
    if not integer:
        return blob[at : at + size].decode()
    return int.from_bytes(blob[at : at + 8], "little", signed=True)


@cython.cfunc
def _id_size(
    content: cython.p_uchar, at: cython.Py_ssize_t, size: cython.Py_ssize_t, kind: cython.int, known: cython.int
) -> cython.Py_ssize_t:
    """Return the size of the id of an event of `size` bytes; −1 for another kind or bits that are not known."""
    head: cython.Py_ssize_t = ISSUED if kind == ISSUE else RESOLVED
    if size < head or content[at] != kind:
        return -1
    bits: cython.int = content[at + 1]
    own: cython.Py_ssize_t = _read_whole(content, at + 2, 2)
    rest: cython.Py_ssize_t = size - head - own
    if bits & ~known or (bits & INTEGER and own != 8) or rest < 0:
        return -1
    return own if bits & MORE or rest == (8 if bits & WEIGHED else 0) else -1


def read_event(event: bytes):
    """Return kind, id, score, t, rest and p of an impression, or kind, id, label, t and, if there is one, weight.

    `ValueError` for bytes that are neither.
    """
    content: cython.p_uchar = event
    kind: cython.int = content[0] if len(event) > RESOLVED else -1
    known: cython.int = INTEGER | MORE if kind == ISSUE else INTEGER | POSITIVE | WEIGHED
    own: cython.Py_ssize_t = -1
    if 0 <= kind <= RESOLVE:
        own = _id_size(content, 0, len(event), kind, known)
    if own < 0:
        raise ValueError("the bytes are no impression and no outcome")
    bits: cython.int = content[1]
    end: cython.Py_ssize_t = (ISSUED if kind == ISSUE else RESOLVED) + own
    id = _read_id(event, end - own, own, bits & INTEGER != 0)
    if kind == ISSUE:
        rest = event[end:] if bits & MORE else None
        return kind, id, _read_number(content, 12), _read_number(content, 4), rest, _read_number(content, 20)
    if bits & WEIGHED:
        return kind, id, bits & POSITIVE != 0, _read_number(content, 4), _read_number(content, end)
    return kind, id, bits & POSITIVE != 0, _read_number(content, 4)


@cython.cfunc
def _plain_size(blob: bytes, at: cython.Py_ssize_t, kind: cython.int, known: cython.int) -> cython.Py_ssize_t:
    """Return the size of the event after its size, if it is plain as `_id_size` has it; −1 for another one."""
    content: cython.p_uchar = blob
    if at + SIZE > len(blob):
        return -1
    size: cython.Py_ssize_t = _read_whole(content, at, 4)
    if at + SIZE + size > len(blob) or _id_size(content, at + SIZE, size, kind, known) < 0:
        return -1
    return size


def read_events(blob: bytes, begin: cython.Py_ssize_t, most: cython.Py_ssize_t, horizon: cython.double):
    """Read plain events of one kind, as many as follow one another: impressions with their outcomes, or outcomes.

    Returns
    -------
    tuple
        Whether they are impressions, ids, scores, times, probabilities, bytes of version, levels and weight or None,
        labels, their times or ∞, and where each row ends. An outcome up to the horizon that follows its impression is
        of its row. Of outcomes there are ids, times, labels and ends.
    """
    content: cython.p_uchar = blob
    at: cython.Py_ssize_t = begin
    size: cython.Py_ssize_t
    body: cython.Py_ssize_t
    own: cython.Py_ssize_t
    bits: cython.int
    t: cython.double
    issues: cython.bint = _plain_size(blob, at, ISSUE, INTEGER | MORE) >= 0
    ids, scores, times, p, rests, labels, when, ends = [], [], [], [], [], [], [], []
    while len(ids) < most:
        size = _plain_size(blob, at, ISSUE if issues else RESOLVE, INTEGER | (MORE if issues else POSITIVE))
        if size < 0:
            break
        body, bits, own = at + SIZE, content[at + SIZE + 1], _read_whole(content, at + SIZE + 2, 2)
        t = _read_number(content, body + 4)
        try:
            id = _read_id(blob, body + (ISSUED if issues else RESOLVED), own, bits & INTEGER != 0)
        except UnicodeDecodeError:
            break
        ids.append(id)
        times.append(t)
        at += SIZE + size
        if not issues:
            labels.append(bits & POSITIVE != 0)
            ends.append(at)
            continue
        scores.append(_read_number(content, body + 12))
        p.append(_read_number(content, body + 20))
        rests.append(blob[body + ISSUED + own : body + size] if bits & MORE else None)
        size = _plain_size(blob, at, RESOLVE, INTEGER | POSITIVE)
        follows: cython.bint = size == RESOLVED + own and _read_number(content, at + SIZE + 4) <= t + horizon
        follows = follows and (content[at + SIZE + 1] & INTEGER) == (bits & INTEGER)
        if follows and blob[body + ISSUED : body + ISSUED + own] == blob[at + SIZE + RESOLVED : at + SIZE + size]:
            labels.append(content[at + SIZE + 1] & POSITIVE != 0)
            when.append(_read_number(content, at + SIZE + 4))
            at += SIZE + size
        else:
            labels.append(False)
            when.append(infinity)
        ends.append(at)
    return (issues, ids, scores, times, p, rests, labels, when, ends) if issues else (issues, ids, times, labels, ends)
