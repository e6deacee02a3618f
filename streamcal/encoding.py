"""Plain data as bytes: what `to_bytes` writes and `from_bytes` reads. The layout is described in docs/states.md.

Plain data are None, bool, int, float, str, lists and dicts with keys of text, as in `json`; they are read back with
the same types and, for floats, the same bits. Lists of numbers become arrays of the shortest type that holds them.

In memory a long list of numbers may also be an array, and a long list of rows the `Rows` of its columns: `pack` writes
them as the lists that they represent, and `unpack` reads them on demand, so that no list is made on either side.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal.errors import StateError
from streamcal.states import Rows

#: The first bytes, and the version of the layout.
MAGIC, VERSION = b"sCal", 1
#: Magic, version, compression, CRC-32 of all that follows, and its length before compression.
HEADER = struct.Struct("<4sBBIQ")
PLAIN, DEFLATED = 0, 1
#: The fewest numbers of a list that becomes an array.
SHORTEST = 4
#: Shorter lists are always read as lists: their readers are faster so.
LONG = 64
#: How many numbers of an array are tried in a shorter type before all of them are.
TRIED = 64
#: Numbers that arrays of one repeated number may have for each byte of all; and in any case.
REPEATED, ANY_REPEATED = 64, 1 << 16
#: zlib never makes more of a byte.
MOST_INFLATED = 1_032
#: Lists and dicts within one another.
DEEPEST = 64

NONE, FALSE, TRUE, INT, BIG, FLOAT, TEXT, LIST, DICT, ARRAY, ROWS = range(11)
#: The types of the numbers of an array.
BOOLS, INTS, FLOATS = range(3)
#: How an array is stored: one repeated number, bits, or numbers of a type, of which DELTA are differences to the last.
REPEAT, BITS = 0, 1
BYTES, SHORT_FLOAT, DOUBLE = 2, 6, 7
STORED = {2: "<i1", 3: "<i2", 4: "<i4", 5: "<i8", SHORT_FLOAT: "<f4", DOUBLE: "<f8"}
DELTA = 16
#: The forms of integers, and the largest that they hold; the least is one further from 0.
WHOLE = {2: 2**7 - 1, 3: 2**15 - 1, 4: 2**31 - 1, 5: 2**63 - 1}

#: The types of NumPy whose arrays represent lists of floats, integers and bools.
KINDS = {np.dtype(np.float64).str: float, np.dtype(np.int64).str: int, np.dtype(np.bool_).str: bool}

_DOUBLE = struct.Struct("<d")
_LONG = struct.Struct("<q")
_SIZE = struct.Struct("<Q")


def pack(plain: Any, compress: bool = False) -> bytes:
    """Encode plain data as bytes, compressed by zlib if `compress`.

    Arrays, of signed bytes too, and `Rows` are written as their lists. `TypeError` for what is no plain data.

    >>> len(pack({"weights": [1.0] * 1000})), unpack(pack([1, 1.0, None, "x"]))
    (41, [1, 1.0, None, 'x'])
    """
    content = bytearray()
    _write(content, plain)
    raw, how = len(content), DEFLATED if compress else PLAIN
    body = zlib.compress(content) if compress else content
    check = zlib.crc32(body, zlib.crc32(_SIZE.pack(raw)))
    return HEADER.pack(MAGIC, VERSION, how, check, raw) + body


def unpack(content: bytes | bytearray | memoryview, arrays: bool = False) -> Any:
    """Return the plain data in bytes that `pack` wrote.

    Raise `StateError` if they are other bytes, truncated or damaged, or of another version. With `arrays`, long lists
    of numbers are arrays and `Rows`, as the readers in `streamcal.states` take them. Arrays may be read-only.
    """
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise StateError(f"a state is read from bytes, not from {type(content).__name__}")
    content = bytes(content)
    if len(content) < HEADER.size or not content.startswith(MAGIC):
        raise StateError("these bytes are no state: expected what to_bytes() wrote")
    _, version, how, check, raw = HEADER.unpack_from(content)
    if version != VERSION:
        raise StateError(f"the bytes are of version {version}; this streamcal reads version {VERSION}")
    if zlib.crc32(memoryview(content)[HEADER.size - _SIZE.size :]) != check:
        raise StateError("the bytes are truncated or damaged: their checksum is another one")
    body, begin = content, HEADER.size  # not cut off: a copy of a large state takes as long as reading it
    if how == DEFLATED:
        body, begin = content[HEADER.size :], 0
        try:
            body = zlib.decompressobj().decompress(body, min(raw + 1, MOST_INFLATED * len(body)))
        except zlib.error:
            raise StateError("the bytes are damaged") from None
    _ensure(how in (PLAIN, DEFLATED) and len(body) - begin == raw)
    reader = _Reader(body, LONG if arrays else None)
    reader.at = begin
    found = reader.value(0)
    _ensure(reader.at == len(body))
    return found


def _ensure(condition: bool) -> None:
    if not condition:
        raise StateError("the bytes are damaged")


# -- writing -----------------------------------------------------------------------------------------------------------


def _write(out: bytearray, value: Any) -> None:
    kind = type(value)
    if kind is float:
        out.append(FLOAT)
        out += _DOUBLE.pack(value)
    elif kind is list or kind is tuple:
        _write_list(out, value)
    elif kind is dict:
        out.append(DICT)
        _write_size(out, len(value))
        for key, one in value.items():
            _write_text(out, key)
            _write(out, one)
    elif kind is int:
        small = -(2**63) <= value < 2**63
        out.append(INT if small else BIG)
        if small:
            _write_size(out, (value << 1) ^ (value >> 63))  # small ones of either sign are short
        else:
            _write_text(out, hex(value))
    elif kind is str:
        out.append(TEXT)
        _write_text(out, value)
    elif value is None or kind is bool:
        out.append(NONE if value is None else TRUE if value else FALSE)
    elif kind is np.ndarray or kind is Rows:
        _write_numbers(out, value)
    elif isinstance(value, float):  # of NumPy
        _write(out, float(value))
    elif isinstance(value, str):  # of an `Enum`, as JSON writes it
        _write(out, str.__str__(value))
    elif isinstance(value, int):
        _write(out, int(value))
    else:
        raise TypeError(f"{value!r} is no plain data")


def _write_size(out: bytearray, size: int) -> None:
    """Append a size with seven bits a byte, the lowest first; all bytes but the last have the highest bit."""
    while size > 0x7F:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    out.append(size)


def _write_text(out: bytearray, text: str) -> None:
    content = text.encode("utf-8", "surrogatepass")
    _write_size(out, len(content))
    out += content


def _write_list(out: bytearray, values: Sequence[Any]) -> None:
    column = _column(values) if len(values) >= SHORTEST else None
    if column is not None:
        out += column
        return
    out.append(LIST)
    _write_size(out, len(values))
    for one in values:
        _write(out, one)


def _write_numbers(out: bytearray, values: NDArray[Any] | Rows) -> None:
    """Append an array or `Rows` to the output as the list that it represents."""
    columns = _columns(values) if len(values) >= SHORTEST else None
    if columns is None:
        _write(out, values.tolist())
    else:
        out += columns


def _columns(values: NDArray[Any] | Rows) -> bytes | None:
    """Return what `_column` returns for the list of these values; None if `pack` writes the list entry by entry."""
    if type(values) is np.ndarray and values.ndim == 1 and values.dtype == np.int8:
        out = bytearray((ARRAY, INTS, BYTES))
        _write_size(out, len(values))
        return bytes(out) + values.tobytes()
    if type(values) is np.ndarray and values.ndim == 1:
        kind = KINDS.get(values.dtype.str)
        stored = None if kind is None else _stored(values, kind)
        return None if stored is None else bytes([ARRAY]) + stored
    parts = values.columns if isinstance(values, Rows) else list(np.moveaxis(values, 1, 0))
    if not len(parts) or _are_wide(len(values), len(parts)):
        return None
    written = [_columns(part) for part in parts]
    if None in written:
        return None
    out = bytearray([ROWS])
    _write_size(out, len(written))
    return bytes(out) + b"".join(one for one in written if one is not None)


def _column(values: Sequence[Any]) -> bytes | None:
    """Encode numbers of one type as an array, lists of equal length as columns if each is one; None for others."""
    kinds = set(map(type, values))
    if len(kinds) != 1:
        return None
    (kind,) = kinds
    if kind in (list, tuple):
        return _rows(values)
    if kind is np.ndarray or kind is Rows:  # rows that have been made one by one
        return _column([row.tolist() for row in values])
    stored = _stored(values, kind)
    return None if stored is None else bytes([ARRAY]) + stored


def _are_wide(number: int, width: int) -> bool:
    """Return whether rows are written one by one, since their columns would be many and short."""
    return width >= LONG and width > number


def _rows(rows: Sequence[Sequence[Any]]) -> bytes | None:
    width = len(rows[0])
    if not width or set(map(len, rows)) != {width} or _are_wide(len(rows), width):
        return None
    out = bytearray([ROWS])
    _write_size(out, width)
    for values in zip(*rows, strict=True):
        column = _column(values)
        if column is None:
            return None
        out += column
    return bytes(out)


def _stored(values: Sequence[Any] | NDArray[Any], kind: type) -> bytes | None:
    """Encode numbers of one type as an array; return None for other values and for integers of more than 64 bits."""
    out = bytearray()
    if kind is float:
        numbers = np.ascontiguousarray(values, dtype=np.float64)
        form, content = _stored_floats(numbers)
        out.append(FLOATS)
    elif kind is bool:
        form, content = BITS, np.packbits(np.array(values, dtype=np.bool_), bitorder="little").tobytes()
        out.append(BOOLS)
    elif kind is int:
        try:
            form, content = _stored_integers(np.ascontiguousarray(values, dtype=np.int64))
        except OverflowError:
            return None
        out.append(INTS)
    else:
        return None
    out.append(form)
    _write_size(out, len(values))
    return bytes(out) + content


def _stored_floats(numbers: NDArray[np.float64]) -> tuple[int, bytes]:
    bits = numbers.view(np.int64)
    if (bits == bits[0]).all():
        return REPEAT, _DOUBLE.pack(float(numbers[0]))
    with np.errstate(invalid="ignore", over="ignore"):
        if _fits(numbers[:TRIED], np.int64) and _fits(numbers, np.int64):  # not where one is −0
            return _stored_integers(numbers.astype(np.int64))
        if _fits(numbers[:TRIED], np.float32) and _fits(numbers, np.float32):
            return SHORT_FLOAT, numbers.astype("<f4").tobytes()
    return DOUBLE, numbers.astype("<f8", copy=False).tobytes()


def _fits(numbers: NDArray[np.float64], kind: type) -> bool:
    """Return whether another type of number represents these exactly, to the last bit."""
    return bool((numbers.astype(kind).astype(np.float64).view(np.int64) == numbers.view(np.int64)).all())


def _stored_integers(numbers: NDArray[np.int64]) -> tuple[int, bytes]:
    """Encode integers as numbers or as differences, whichever is shorter."""
    if (numbers == numbers[0]).all():
        return REPEAT, _LONG.pack(int(numbers[0]))
    form = _shortest(numbers)
    if max(abs(int(numbers.min())), abs(int(numbers.max()))) < 2**62:
        differences = np.diff(numbers, prepend=0)
        shorter = _shortest(differences)
        if shorter < form:
            return shorter | DELTA, differences.astype(STORED[shorter]).tobytes()
    return form, numbers.astype(STORED[form]).tobytes()


def _shortest(numbers: NDArray[np.int64]) -> int:
    low, high = int(numbers.min()), int(numbers.max())
    return next(form for form, largest in WHOLE.items() if -largest - 1 <= low and high <= largest)


# -- reading -----------------------------------------------------------------------------------------------------------


class _Reader:
    """Reads plain data from bytes, at the place `at`; nothing is allocated that the bytes cannot fill.

    Lists of `long` or more numbers are read as arrays and `Rows`, or none if that is None.
    """

    def __init__(self, content: bytes, long: int | None) -> None:
        self._content, self._long = content, long
        self._repeats = REPEATED * len(content) + ANY_REPEATED  # numbers that repetitions may still make
        self.at = 0

    def value(self, depth: int) -> Any:
        """Read the next value, which is nested in `depth` lists and dicts."""
        _ensure(depth <= DEEPEST)
        tag = self._byte()
        if tag == FLOAT:
            return _DOUBLE.unpack(self._take(8))[0]
        if tag == INT:
            coded = self._size()
            return (coded >> 1) ^ -(coded & 1)
        if tag == TEXT:
            return self._text()
        if tag == DICT:
            return {self._text(): self.value(depth + 1) for _ in range(self._number())}
        if tag == LIST:
            return [self.value(depth + 1) for _ in range(self._number())]
        if tag in (ARRAY, ROWS):
            found = self._column(tag, depth)
            return found if self._long is not None and len(found) >= self._long else found.tolist()
        return self._single(tag)

    def _column(self, tag: int, depth: int) -> NDArray[Any] | Rows:
        _ensure(tag in (ARRAY, ROWS) and depth <= DEEPEST)
        if tag == ARRAY:
            return self._array()
        columns = [self._column(self._byte(), depth + 1) for _ in range(self._number())]
        _ensure(len(set(map(len, columns))) == 1)
        return Rows(columns)

    def _single(self, tag: int) -> Any:
        if tag == BIG:
            try:
                return int(self._text(), 16)
            except ValueError:
                _ensure(False)
        _ensure(tag in (NONE, FALSE, TRUE))
        return None if tag == NONE else tag == TRUE

    def _take(self, size: int) -> bytes:
        begin, self.at = self.at, self.at + size
        _ensure(self.at <= len(self._content))
        return self._content[begin : self.at]

    def _byte(self) -> int:
        at = self.at
        _ensure(at < len(self._content))
        self.at = at + 1
        return self._content[at]

    def _size(self) -> int:
        at = self.at
        if at < len(self._content) and self._content[at] <= 0x7F:  # most are short
            self.at = at + 1
            return self._content[at]
        size, shift, more = 0, 0, True
        while more:
            _ensure(shift < 70)
            byte = self._byte()
            size |= (byte & 0x7F) << shift
            shift, more = shift + 7, byte > 0x7F
        return size

    def _number(self) -> int:
        """Read the number of parts that follow, each of at least one byte."""
        number = self._size()
        _ensure(number <= len(self._content) - self.at)
        return number

    def _text(self) -> str:
        begin, content = self.at + 1, self._content
        size = content[self.at] if begin <= len(content) else 0x80
        try:
            if size <= 0x7F and begin + size <= len(content):  # most are short
                self.at = begin + size
                return str(content[begin : self.at], "utf-8", "surrogatepass")
            return str(self._take(self._number()), "utf-8", "surrogatepass")
        except UnicodeDecodeError:
            raise StateError("the bytes are damaged") from None

    def _array(self) -> NDArray[Any]:
        kind, form, size = self._byte(), self._byte(), self._size()
        _ensure(kind in (BOOLS, INTS, FLOATS) and (kind == BOOLS) == (form == BITS))
        if form == BITS:
            bits = np.frombuffer(self._take((size + 7) // 8), dtype=np.uint8)
            return np.unpackbits(bits, count=size, bitorder="little").view(np.bool_)
        if form == REPEAT:
            self._repeats -= size
            _ensure(self._repeats >= 0)
            if kind == FLOATS:
                return np.full(size, _DOUBLE.unpack(self._take(8))[0], dtype=np.float64)
            return np.full(size, _LONG.unpack(self._take(8))[0], dtype=np.int64)
        stored = form & ~DELTA
        _ensure(stored in WHOLE or (stored in STORED and form == stored and kind == FLOATS))
        dtype = np.dtype(STORED[stored])
        numbers = np.frombuffer(self._take(size * dtype.itemsize), dtype=dtype)
        if form >= DELTA:
            numbers = np.cumsum(numbers, dtype=np.int64)
        return numbers.astype(np.float64 if kind == FLOATS else np.int64, copy=False)
