# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Records of a text: where each begins and ends, where its fields are, and the text with values added to each record.

A record ends at a line feed or a carriage return outside quotes; empty ones are passed over. Rules of quotes as in the
csv module of Python with `strict=True`: a field is quoted if a quote is its first character, two quotes inside stand
for one, and after the closing one the field ends. Positions are in bytes from the start of the text.

Notation: a span is the row of an array, of 3 + 2k whole numbers for k fields that are wanted:

    begin and end of the record; the number of its fields, or FLAWED; begin and end of each wanted field, in the order
    of the fields in the record, with −1 as the begin of one that the record does not have
"""

import cython
import numpy as np

LINE_FEED = cython.declare(cython.int, 10)
CARRIAGE_RETURN = cython.declare(cython.int, 13)
QUOTE = cython.declare(cython.int, 34)
SPACE = cython.declare(cython.int, 32)
TAB = cython.declare(cython.int, 9)
#: In place of the number of fields: something follows a closing quote, or a field is longer than `longest`.
FLAWED = cython.declare(cython.int, -1)
#: Numbers of a span before those of the wanted fields.
HEAD = cython.declare(cython.int, 3)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _ends_field(c: cython.int, delimiter: cython.int) -> cython.bint:
    return c in (delimiter, LINE_FEED, CARRIAGE_RETURN)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _after_quotes(
    text: cython.const[cython.uchar][::1], field: cython.Py_ssize_t, longest: cython.Py_ssize_t
) -> cython.Py_ssize_t:
    """Return the place after the closing quote of a field; after `longest` bytes, or the text, where there is none."""
    i: cython.Py_ssize_t = field + 1
    length: cython.Py_ssize_t = len(text)
    while i < length and i - field <= longest:
        if text[i] != QUOTE:
            i += 1
        elif i + 1 < length and text[i + 1] == QUOTE:
            i += 2
        else:
            return i + 1
    return i


@cython.ccall
def find_records(
    text: cython.const[cython.uchar][::1],
    delimiter: cython.int,
    wanted: cython.const[cython.longlong][::1],
    longest: cython.Py_ssize_t,
    spans: cython.longlong[:, ::1],
):
    """Fill in the span of each whole record of the text, until `spans` is full.

    Parameters
    ----------
    text : buffer of bytes
        A record that does not end in it is left out.
    delimiter : int
        The byte between two fields; −1 where a record is one field without quotes, as a line of JSON is.
    wanted : array of int64
        Numbers of fields, increasing.
    longest : int
        Bytes that a field may have. Of one with more, quotes are no longer looked at, so that a quote that nothing
        closes ends its record.
    spans : array of int64, shape (n, 3 + 2 len(wanted))

    Returns
    -------
    tuple of int
        The number of records, and where the next one begins.

    Notes
    -----
    O(length of the text), about a nanosecond for each byte.
    """
    count: cython.Py_ssize_t = 0
    i: cython.Py_ssize_t = 0
    begin: cython.Py_ssize_t
    field: cython.Py_ssize_t
    number: cython.Py_ssize_t
    slot: cython.Py_ssize_t
    length: cython.Py_ssize_t = len(text)
    room: cython.Py_ssize_t = spans.shape[0]
    slots: cython.Py_ssize_t = wanted.shape[0]
    flawed: cython.bint
    while count < room:
        while i < length and (text[i] == LINE_FEED or text[i] == CARRIAGE_RETURN):
            i += 1
        begin = i
        number = slot = 0
        flawed = False
        while True:  # one turn for each field
            field = i
            if delimiter >= 0 and i < length and text[i] == QUOTE:
                i = _after_quotes(text, field, longest)
                flawed |= i < length and not _ends_field(text[i], delimiter)
            while i < length and not _ends_field(text[i], delimiter):
                i += 1
            if i >= length:  # the record does not end here
                return count, begin
            flawed |= i - field > longest
            if slot < slots and wanted[slot] == number:
                spans[count, HEAD + 2 * slot] = field
                spans[count, HEAD + 1 + 2 * slot] = i
                slot += 1
            number += 1
            if text[i] != delimiter:
                break
            i += 1
        spans[count, 0] = begin
        spans[count, 1] = i
        spans[count, 2] = FLAWED if flawed else number
        while slot < slots:
            spans[count, HEAD + 2 * slot] = -1
            slot += 1
        count += 1
        i += 1
    return count, i


def gather_fields(
    text: cython.const[cython.uchar][::1],
    spans: cython.const[cython.longlong][:, ::1],
    slot: cython.Py_ssize_t,
    stripped: cython.bint,
):
    """Return the wanted field number `slot` of each record, one after another, without quotes around it.

    If `stripped`, spaces and tabs around a field are left out too.

    Returns
    -------
    tuple of arrays
        The n + 1 offsets (int32) and the bytes, as an array of strings in Arrow has them.
    """
    n: cython.Py_ssize_t = spans.shape[0]
    column: cython.Py_ssize_t = HEAD + 2 * slot
    r: cython.Py_ssize_t
    i: cython.Py_ssize_t
    end: cython.Py_ssize_t
    size: cython.Py_ssize_t = 0
    total: cython.Py_ssize_t = 0
    quoted: cython.bint
    for r in range(n):
        total += spans[r, column + 1] - spans[r, column]
    offsets = np.empty(n + 1, dtype=np.int32)
    content = np.empty(total, dtype=np.uint8)
    place: cython.int[::1] = offsets
    out: cython.uchar[::1] = content
    for r in range(n):
        place[r] = size
        i = spans[r, column]
        end = spans[r, column + 1]
        quoted = end - i >= 2 and text[i] == QUOTE
        if quoted:
            i += 1
            end -= 1
        while stripped and i < end and (text[i] == SPACE or text[i] == TAB):
            i += 1
        while stripped and i < end and (text[end - 1] == SPACE or text[end - 1] == TAB):
            end -= 1
        while i < end:
            out[size] = text[i]
            size += 1
            if quoted and text[i] == QUOTE:
                i += 1  # the second of two
            i += 1
    place[n] = size
    return offsets, content[:size]


def joined_records(
    text: cython.const[cython.uchar][::1],
    spans: cython.const[cython.longlong][:, ::1],
    dropped: cython.Py_ssize_t,
    before: list,
    offsets: cython.const[cython.int][::1],
    values: cython.const[cython.uchar][::1],
    after: bytes,
):
    """Return the records, each followed by its values.

    Parameters
    ----------
    text, spans
        As `find_records` has filled them in.
    dropped : int
        Bytes left out at the end of each record.
    before : list of bytes
        What stands before each of the m values of a record.
    offsets, values
        The n·m values, those of a record beside one another, as `gather_fields` returns fields.
    after : bytes
        What ends each record.

    Returns
    -------
    ndarray of uint8
    """
    n: cython.Py_ssize_t = spans.shape[0]
    m: cython.Py_ssize_t = len(before)
    marks = np.cumsum([0, *map(len, before)], dtype=np.int64)
    mark: cython.const[cython.longlong][::1] = marks
    signs: cython.const[cython.uchar][::1] = np.frombuffer(b"".join(before) or b"\0", dtype=np.uint8)
    last: cython.const[cython.uchar][::1] = np.frombuffer(after, dtype=np.uint8)
    r: cython.Py_ssize_t
    j: cython.Py_ssize_t
    i: cython.Py_ssize_t
    size: cython.Py_ssize_t = 0
    total: cython.Py_ssize_t = n * (mark[m] + len(after) - dropped)
    for r in range(n):
        total += spans[r, 1] - spans[r, 0]
    if m:
        total += offsets[n * m] - offsets[0]
    content = np.empty(total, dtype=np.uint8)
    out: cython.uchar[::1] = content
    for r in range(n):
        for i in range(spans[r, 0], spans[r, 1] - dropped):
            out[size] = text[i]
            size += 1
        for j in range(m):
            for i in range(mark[j], mark[j + 1]):
                out[size] = signs[i]
                size += 1
            for i in range(offsets[r * m + j], offsets[r * m + j + 1]):
                out[size] = values[i]
                size += 1
        for i in range(last.shape[0]):
            out[size] = last[i]
            size += 1
    return content
