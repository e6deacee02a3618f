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
