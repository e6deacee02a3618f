"""Plain data as bytes: what `to_bytes` writes and `from_bytes` reads. The layout is described in docs/states.md.

Plain data are None, bool, int, float, str, lists and dicts with keys of text, as in `json`; they are read back with
the same types and, for floats, the same bits. In memory a long list of numbers may also be an array, and a long list of
rows the `Rows` of its columns; both are read back as such, without a list on either side.
"""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from streamcal.errors import StateError
from streamcal.states import Rows, plain

#: The first bytes, and the version of the layout.
MAGIC, VERSION = b"sCal", 1
#: Magic, version, compression, CRC-32 of all that follows, and its length before compression.
HEADER = struct.Struct("<4sBBIQ")
PLAIN, DEFLATED = 0, 1
#: Shorter arrays and `Rows` become lists: their readers are faster so.
LONG = 64
#: How many numbers of an array are tried in a shorter type before all of them are.
TRIED = 64
#: zlib never makes more of a byte.
MOST_INFLATED = 1_032

#: What reading damaged bytes may raise.
DAMAGE = zlib.error, struct.error, msgspec.DecodeError, ValueError, TypeError, KeyError, RecursionError, MemoryError

#: The types of the extensions of MessagePack.
ARRAY, ROWS, JSON = 1, 2, 3
#: An array begins with the letter of its type, `=` or, for differences to the number before, `+`, and the stored type.
HEAD = struct.Struct("<1s1s2s")
#: The types of arrays that become extensions; other arrays become lists.
READ = {b"b": np.dtype(np.bool_), b"c": np.dtype(np.int8), b"i": np.dtype(np.int64), b"f": np.dtype(np.float64)}
LETTERS = {dtype: letter for letter, dtype in READ.items()}
STORED = {name.encode(): np.dtype(f"<{name}") for name in ("i1", "i2", "i4", "i8", "f4", "f8")}
#: The types of integers shorter than 8 bytes, with the number below which they hold each.
WHOLE = {"i1": 2**7, "i2": 2**15, "i4": 2**31}

_SIZE = struct.Struct("<Q")


def pack(value: Any, compress: bool = False) -> bytes:
    """Encode plain data as bytes, compressed by zlib if `compress`; raise `TypeError` for other data.

    >>> len(pack({"weights": [1.0, 2.0]})), unpack(pack([1, 1.0, None, "x"]))
    (46, [1, 1.0, None, 'x'])
    """
    content = encode(value)
    body = zlib.compress(content) if compress else content
    raw = len(content)
    check = zlib.crc32(body, zlib.crc32(_SIZE.pack(raw)))
    return HEADER.pack(MAGIC, VERSION, DEFLATED if compress else PLAIN, check, raw) + body


def encode(value: Any) -> bytearray:
    """Encode plain data without a checksum, for what has one elsewhere; raise `TypeError` for other data.

    >>> decode(encode([1, 1.0, None, "x"]))
    [1, 1.0, None, 'x']
    """
    content = bytearray()
    try:
        _ENCODER.encode_into(value, content)
    except (OverflowError, UnicodeEncodeError):  # MessagePack has no integers above 64 bits and no lone surrogates
        _ENCODER.encode_into(msgspec.msgpack.Ext(JSON, json.dumps(plain(value)).encode()), content)
    return content


def decode(content: bytes | bytearray | memoryview) -> Any:
    """Return the plain data that `encode` wrote; arrays may be read-only. Raise `StateError` for other bytes."""
    try:
        return _DECODER.decode(content)
    except DAMAGE:
        raise StateError("the bytes are damaged") from None


def unpack(content: bytes | bytearray | memoryview) -> Any:
    """Return the plain data in bytes that `pack` wrote; arrays may be read-only.

    Raise `StateError` if they are other bytes, truncated or damaged, or of another version.
    """
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise StateError(f"a state is read from bytes, not from {type(content).__name__}")
    content = memoryview(content)
    if len(content) < HEADER.size or content[: len(MAGIC)] != MAGIC:
        raise StateError("these bytes are no state: expected what to_bytes() wrote")
    _, version, how, check, raw = HEADER.unpack_from(content)
    if version != VERSION:
        raise StateError(f"the bytes are of version {version}; this streamcal reads version {VERSION}")
    if zlib.crc32(content[HEADER.size - _SIZE.size :]) != check:
        raise StateError("the bytes are truncated or damaged: their checksum is another one")
    body: Any = content[HEADER.size :]
    try:
        if how == DEFLATED:
            body = zlib.decompressobj().decompress(body, min(raw + 1, MOST_INFLATED * len(body)))
    except DAMAGE:
        raise StateError("the bytes are damaged") from None
    if how not in (PLAIN, DEFLATED) or len(body) != raw:
        raise StateError("the bytes are damaged")
    return decode(body)


# -- arrays and rows ---------------------------------------------------------------------------------------------------


def _substitute(value: Any) -> Any:
    """Return what MessagePack writes in place of an array, `Rows`, or a member of a subclass of a plain type."""
    if isinstance(value, (np.ndarray, Rows)):
        return _numbers(value)
    if isinstance(value, str):
        return str.__str__(value)
    for kind in (float, int):
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"{value!r} is no plain data")


def _numbers(values: NDArray[Any] | Rows) -> Any:
    """Return an extension for a long array or long `Rows`, and a list for others."""
    if isinstance(values, np.ndarray) and values.ndim == 1:
        known = values.dtype in LETTERS
        return msgspec.msgpack.Ext(ARRAY, _stored(values)) if known and len(values) >= LONG else values.tolist()
    columns = values.columns if isinstance(values, Rows) else list(np.moveaxis(values, 1, 0))
    if columns and len(values) >= LONG:
        return msgspec.msgpack.Ext(ROWS, _ENCODER.encode(columns))
    return values.tolist() if isinstance(values, Rows) else list(values)


def _stored(numbers: NDArray[Any]) -> bytes:
    """Encode the numbers of an array in the shortest type that represents each exactly, to the last bit."""
    letter, step, kind = LETTERS[numbers.dtype], b"=", "i1"
    if letter == b"f":
        numbers = np.ascontiguousarray(numbers)
        kind = next((kind for kind in ("i8", "f4") if _represents(kind, numbers)), "f8")
        numbers = numbers.astype(kind, copy=False)
    if numbers.dtype == np.int64 and (kind := _shortest(numbers)) != "i1":
        differences = np.diff(numbers, prepend=0)  # which may wrap around, and back
        if (shorter := _shortest(differences)) < kind:
            step, kind, numbers = b"+", shorter, differences
    stored = np.ascontiguousarray(numbers, STORED[kind.encode()])
    return b"".join((HEAD.pack(letter, step, kind.encode()), stored.view(np.uint8).data))


def _represents(kind: str, numbers: NDArray[Any]) -> bool:
    """Return whether a type represents all floats to the last bit, which no integer does for −0."""
    with np.errstate(invalid="ignore", over="ignore"):
        return all(
            (part.astype(kind).astype(np.float64).view(np.int64) == part.view(np.int64)).all()
            for part in (numbers[:TRIED], numbers)
        )


def _shortest(numbers: NDArray[Any]) -> str:
    """Return the shortest type of integers that holds all of these."""
    low, high = int(numbers.min()), int(numbers.max())
    return next((kind for kind, most in WHOLE.items() if -most <= low and high < most), "i8")


def _extension(code: int, data: memoryview) -> Any:
    """Decode an extension; raise one of the errors that `unpack` expects."""
    if code == JSON:
        return json.loads(bytes(data))
    if code == ROWS:
        columns = _DECODER.decode(data)
        if any(not isinstance(column, (np.ndarray, Rows)) for column in columns) or len(set(map(len, columns))) != 1:
            raise ValueError("columns of several lengths")
        return Rows(columns)
    if code != ARRAY:
        raise ValueError("no extension of this format")
    letter, step, name = HEAD.unpack_from(data)
    numbers = np.frombuffer(data, STORED[name], offset=HEAD.size)
    if (numbers.dtype.kind == "f" and (letter, step) != (b"f", b"=")) or (letter == b"c" and name != b"i1"):
        raise ValueError("floats are no differences and no integers, and integers no characters")
    if step == b"+":
        numbers = np.cumsum(numbers, dtype=np.int64)
    return numbers.astype(READ[letter])  # a copy: the data may begin at any byte, and belong to the whole state


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_substitute)
_DECODER = msgspec.msgpack.Decoder(ext_hook=_extension)
