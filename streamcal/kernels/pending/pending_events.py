# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Events of a join in columns as bytes: the size of each, and the event in the form of `streamcal.live.events`."""

import struct

import cython

if cython.compiled:
    from cython.cimports.libc.string import memcpy

ISSUE, RESOLVE = cython.declare(cython.int, 0), cython.declare(cython.int, 1)
INTEGER, MORE, POSITIVE = cython.declare(cython.int, 1), cython.declare(cython.int, 2), cython.declare(cython.int, 4)
SIZE, ISSUED, RESOLVED = (
    cython.declare(cython.Py_ssize_t, 4),
    cython.declare(cython.Py_ssize_t, 28),
    cython.declare(cython.Py_ssize_t, 12),
)
"""Bytes of a size, and of what comes before the id of an impression and of an outcome."""
ALL = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
infinity = cython.declare(cython.double, float("inf"))


@cython.cfunc
@cython.exceptval(check=False)
def _whole(out: cython.uchar[::1], at: cython.Py_ssize_t, value: cython.ulonglong, size: cython.int) -> cython.void:
    """Write a whole number, its lowest byte first."""
    k: cython.int
    for k in range(size):
        out[at + k] = (value >> (8 * k)) & 255


@cython.cfunc
@cython.exceptval(check=False)
def _number(out: cython.uchar[::1], at: cython.Py_ssize_t, value: cython.double) -> cython.void:
    """Write a number as a double, its lowest byte first."""
    bits: cython.ulonglong = 0
    if cython.compiled:
        memcpy(cython.address(bits), cython.address(value), 8)
        _whole(out, at, bits, 8)
    else:
        out[at : at + 8] = struct.pack("<d", value)


@cython.cfunc
def _id(out: cython.uchar[::1], at: cython.Py_ssize_t, id: object, text: object, size: cython.Py_ssize_t):
    """Write an id: its text, or a whole number without one."""
    if text is None:
        _whole(out, at, cython.cast(cython.ulonglong, cython.cast(cython.longlong, id)) & ALL, 8)
    else:
        _text(out, at, text, size)


@cython.cfunc
def _text(out: cython.uchar[::1], at: cython.Py_ssize_t, text: object, size: cython.Py_ssize_t):
    """Write bytes."""
    if not cython.compiled:
        out[at : at + size] = text
    elif size:
        memcpy(cython.address(out[at]), cython.cast(cython.p_char, text), size)


@cython.cfunc
def _head(
    out: cython.uchar[::1],
    at: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
    kind: cython.int,
    bits: cython.int,
    id_size: cython.Py_ssize_t,
    t: cython.double,
):
    """Write what all events begin with: their size, the kind, its bits, the size of the id, and the time."""
    _whole(out, at, size, 4)
    out[at + 4] = kind
    out[at + 5] = bits
    _whole(out, at + 6, id_size, 2)
    _number(out, at + 8, t)


def issued_events(
    ids: list,
    t: cython.const[cython.double][::1],
    scores: cython.const[cython.double][::1],
    p: cython.const[cython.double][::1],
    rests,
    y: cython.const[cython.uchar][:],
    when: cython.const[cython.double][:],
    horizon: cython.double,
):
    """Return how many events impressions are, and their bytes.

    `rests` has the bytes of version, levels and weight where a row needs them, or is None. An outcome `y` that came
    at `when`, up to the horizon, follows its impression; both may be empty.
    """
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t
    more: cython.Py_ssize_t
    total: cython.Py_ssize_t = 0
    count: cython.Py_ssize_t = t.shape[0]
    outcomes: cython.bint = when.shape[0] > 0
    texts: list = [None if type(id) is int else id.encode() for id in ids]
    for i in range(t.shape[0]):
        text = texts[i]
        size = 8 if text is None else len(text)
        total += SIZE + ISSUED + size
        if rests is not None and rests[i] is not None:
            total += len(rests[i])
        if outcomes and when[i] <= t[i] + horizon:
            total += SIZE + RESOLVED + size
            count += 1
    content = bytearray(total)
    out: cython.uchar[::1] = content
    for i in range(t.shape[0]):
        text, rest = texts[i], None if rests is None else rests[i]
        integer: cython.int = INTEGER if text is None else 0
        size = 8 if text is None else len(text)
        more = 0 if rest is None else len(rest)
        _head(out, at, ISSUED + size + more, ISSUE, integer if rest is None else integer | MORE, size, t[i])
        _number(out, at + SIZE + 12, scores[i])
        _number(out, at + SIZE + 20, p[i])
        at += SIZE + ISSUED
        _id(out, at, ids[i], text, size)
        at += size
        if rest is not None:
            _text(out, at, rest, more)
            at += more
        if outcomes and when[i] <= t[i] + horizon:
            at = _resolved(out, at, ids[i], text, y[i] > 0, when[i])
    return count, content


@cython.cfunc
def _resolved(
    out: cython.uchar[::1],
    at: cython.Py_ssize_t,
    id: object,
    text: object,
    positive: cython.bint,
    t: cython.double,
) -> cython.Py_ssize_t:
    """Write an outcome, and return where it ends."""
    size: cython.Py_ssize_t = 8 if text is None else len(text)
    bits: cython.int = (INTEGER if text is None else 0) | (POSITIVE if positive else 0)
    _head(out, at, RESOLVED + size, RESOLVE, bits, size, t)
    _id(out, at + SIZE + RESOLVED, id, text, size)
    return at + SIZE + RESOLVED + size


def resolved_events(ids: list, y: cython.const[cython.uchar][:], t: cython.const[cython.double][:]):
    """Return the bytes of outcomes without weights."""
    i: cython.Py_ssize_t
    at: cython.Py_ssize_t = 0
    total: cython.Py_ssize_t = 0
    texts: list = [None if type(id) is int else id.encode() for id in ids]
    for i in range(t.shape[0]):
        text = texts[i]
        total += SIZE + RESOLVED + (8 if text is None else len(text))
    content = bytearray(total)
    out: cython.uchar[::1] = content
    for i in range(t.shape[0]):
        text = texts[i]
        at = _resolved(out, at, ids[i], text, y[i] > 0, t[i])
    return content


@cython.cfunc
def _read_whole(content: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, size: cython.int) -> cython.ulonglong:
    """Return a whole number of some bytes, the lowest first."""
    k: cython.int
    found: cython.ulonglong = 0
    for k in range(size):
        found |= cython.cast(cython.ulonglong, content[at + k]) << (8 * k)
    return found


@cython.cfunc
def _read_number(content: cython.const[cython.uchar][::1], at: cython.Py_ssize_t) -> cython.double:
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
def _plain_size(
    content: cython.const[cython.uchar][::1], at: cython.Py_ssize_t, kind: cython.int, known: cython.int
) -> cython.Py_ssize_t:
    """Return the size of an event of a kind with no other bits than those known; −1 for another one."""
    head: cython.Py_ssize_t = ISSUED if kind == ISSUE else RESOLVED
    if at + SIZE + head > len(content):
        return -1
    size: cython.Py_ssize_t = _read_whole(content, at, 4)
    if size < head or at + SIZE + size > len(content) or content[at + SIZE] != kind:
        return -1
    bits: cython.int = content[at + SIZE + 1]
    own: cython.Py_ssize_t = head + _read_whole(content, at + SIZE + 2, 2)
    if bits & ~known or (bits & INTEGER and own != head + 8):
        return -1
    if own > size or (own < size and not (kind == ISSUE and bits & MORE)):
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
    content: cython.const[cython.uchar][::1] = blob
    at: cython.Py_ssize_t = begin
    size: cython.Py_ssize_t
    body: cython.Py_ssize_t
    own: cython.Py_ssize_t
    bits: cython.int
    t: cython.double
    issues: cython.bint = _plain_size(content, at, ISSUE, INTEGER | MORE) >= 0
    ids, scores, times, p, rests, labels, when, ends = [], [], [], [], [], [], [], []
    while len(ids) < most:
        size = _plain_size(content, at, ISSUE if issues else RESOLVE, INTEGER | (MORE if issues else POSITIVE))
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
        size = _plain_size(content, at, RESOLVE, INTEGER | POSITIVE)
        known: cython.bint = size == RESOLVED + own and _read_number(content, at + SIZE + 4) <= t + horizon
        known = known and (content[at + SIZE + 1] & INTEGER) == (bits & INTEGER)
        if known and blob[body + ISSUED : body + ISSUED + own] == blob[at + SIZE + RESOLVED : at + SIZE + size]:
            labels.append(content[at + SIZE + 1] & POSITIVE != 0)
            when.append(_read_number(content, at + SIZE + 4))
            at += SIZE + size
        else:
            labels.append(False)
            when.append(infinity)
        ends.append(at)
    return (issues, ids, scores, times, p, rests, labels, when, ends) if issues else (issues, ids, times, labels, ends)
