# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The levels of slots in one buffer: whole numbers, texts, and pairs or longer rows of them."""

import cython

if cython.compiled:
    from cython.cimports.cpython.unicode import PyUnicode_DATA, PyUnicode_FromKindAndData, PyUnicode_KIND
    from cython.cimports.libc.string import memcmp, memcpy

import numpy as np

MULTIPLIER = 0x9E3779B97F4A7C15
"""2⁶⁴ over the golden ratio: hashes that differ in any bits have products that differ in the upper ones."""
BITS = 0xFFFFFFFFFFFFFFFF
WHOLE = cython.declare(cython.int, 0)
"""What a whole number begins with in a buffer of names. A text begins with the bytes of a character: 1, 2 or 4."""
SEVERAL = cython.declare(cython.int, 8)
"""What a level of several parts begins with."""
LONGEST = cython.declare(cython.Py_ssize_t, 65535)
"""A text has at most this many characters, and a level at most 255 parts."""
MOST_BYTES = cython.declare(cython.Py_ssize_t, 4294967295)
"""Places of names are numbers of 32 bits."""


@cython.final
@cython.no_gc
@cython.cclass
class LevelPair:
    """A pair of levels as one level, kept between searches. A search finds the pair, and reading returns a tuple."""

    def __init__(self, first: object, second: object):
        self.first, self.second = first, second

    def __hash__(self):
        product: cython.ulonglong = cython.cast(cython.ulonglong, hash(self.first)) * MULTIPLIER
        return cython.cast(cython.Py_hash_t, (product + cython.cast(cython.ulonglong, hash(self.second))) & BITS)


class LevelNames:
    """The level of each slot, all of them in one buffer, and 32 bits of its hash.

    A whole number needs 9 bytes, a text 3 and its characters, a level of several parts 2 and its parts. The first byte
    of the buffer is unused, so that the place of a level is not 0. The buffer is compacted when half of it has been
    released.
    """

    def __init__(self, size: cython.Py_ssize_t):
        self._arrays = [
            np.zeros(size, dtype=np.uint32),
            np.zeros(size, dtype=np.uint32),
            np.zeros(64, dtype=np.uint8),
        ]
        self._starts, self.codes, self._bytes = self._arrays
        self._end = 1
        self._released = self._at = 0

    def resize(self, size: cython.Py_ssize_t):
        """Extend the arrays to `size` slots."""
        self._arrays[0].resize(size, refcheck=False)
        self._arrays[1].resize(size, refcheck=False)
        self._starts, self.codes = self._arrays[0], self._arrays[1]

    def write(self, k: cython.Py_ssize_t, level: object, code: cython.uint) -> cython.int:
        """Give a slot that has none a level."""
        size: cython.Py_ssize_t = self._size_of(level)
        if self._end + size > self._bytes.shape[0]:
            self._make_room(size)
        self._starts[k], self.codes[k] = self._end, code
        self._at = self._end
        self._end += size
        self._write(level)
        return 0

    def is_level(self, k: cython.Py_ssize_t, level: object) -> cython.bint:
        """Return whether a slot contains this level."""
        self._at = self._starts[k]
        return self._is_next(level)

    def read(self, k: cython.Py_ssize_t) -> object:
        """Return the level of a slot."""
        self._at = self._starts[k]
        return self._read()

    def release(self, k: cython.Py_ssize_t) -> cython.int:
        """Drop the level of a slot."""
        self._released += self._length(self._starts[k])
        self._starts[k] = 0
        return 0

    def _make_room(self, size: cython.Py_ssize_t):
        """Make room for `size` more bytes: compact a buffer that is half released, otherwise extend it by a 32nd."""
        k: cython.Py_ssize_t
        length: cython.Py_ssize_t
        a: cython.Py_ssize_t
        if 2 * self._released > self._end:
            before: cython.uchar[::1] = self._bytes
            self._arrays[2] = np.zeros(before.shape[0], dtype=np.uint8)
            after: cython.uchar[::1] = self._arrays[2]
            self._end, self._released = 1, 0
            for k in range(self._starts.shape[0]):
                if self._starts[k] > 0:
                    length = self._length(self._starts[k])
                    for a in range(length):
                        after[self._end + a] = before[self._starts[k] + a]
                    self._starts[k] = self._end
                    self._end += length
            self._bytes = after
        room: cython.Py_ssize_t = self._bytes.shape[0]
        if self._end + size > MOST_BYTES:
            raise ValueError("the names of levels take 4 GiB; give a lower max_levels, or shorter names")
        if self._end + size > room:
            self._arrays[2].resize(room + max(room // 32, size, 64), refcheck=False)
            self._bytes = self._arrays[2]

    def _size_of(self, level: object) -> cython.Py_ssize_t:
        """Return the number of bytes that a level needs."""
        if isinstance(level, str):
            if len(level) > LONGEST:
                raise ValueError(f"a level of {len(level)} characters is too long")
            return 3 + len(level) * _kind(level)
        if isinstance(level, LevelPair):
            pair: LevelPair = level
            return 2 + self._size_of(pair.first) + self._size_of(pair.second)
        if isinstance(level, tuple):
            if len(level) > 255:
                raise ValueError(f"a level of {len(level)} parts is too long")
            return 2 + sum([self._size_of(part) for part in level])
        return 9

    def _length(self, i: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the bytes of the level at a place."""
        kind: cython.Py_ssize_t = self._byte(i)
        if kind == WHOLE:
            return 9
        if kind != SEVERAL:
            return 3 + kind * self._characters(i)
        length: cython.Py_ssize_t = 2
        for _ in range(self._byte(i + 1)):
            length += self._length(i + length)
        return length

    def _characters(self, i: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the number of characters of the text at a place."""
        return self._byte(i + 1) + 256 * self._byte(i + 2)

    def _byte(self, i: cython.Py_ssize_t) -> cython.Py_ssize_t:
        return cython.cast(cython.Py_ssize_t, self._bytes[i])

    def _write(self, level: object) -> cython.int:
        """Write a level, and move the position behind it."""
        a: cython.int
        i: cython.Py_ssize_t = self._at
        if isinstance(level, str):
            self._bytes[i] = _kind(level)
            self._bytes[i + 1], self._bytes[i + 2] = len(level) & 255, len(level) >> 8
            self._at = i + 3 + len(level) * _kind(level)
            if cython.compiled:
                memcpy(cython.address(self._bytes[i + 3]), PyUnicode_DATA(level), self._at - i - 3)
            else:
                self._bytes[i + 3 : self._at] = np.frombuffer(_characters_of(level), dtype=np.uint8)
        elif isinstance(level, (LevelPair, tuple)):
            parts: tuple = (level.first, level.second) if isinstance(level, LevelPair) else level
            self._bytes[i], self._bytes[i + 1] = SEVERAL, len(parts)
            self._at = i + 2
            for part in parts:
                self._write(part)
        else:
            number: cython.longlong = level
            self._bytes[i] = WHOLE
            for a in range(8):
                self._bytes[i + 1 + a] = (number >> 8 * a) & 255
            self._at = i + 9
        return 0

    def _is_next(self, level: object) -> cython.bint:
        """Return whether this level is next; if so, move the position behind it."""
        i: cython.Py_ssize_t = self._at
        kind: cython.Py_ssize_t = self._byte(i)
        if isinstance(level, str):
            characters: cython.Py_ssize_t = len(level)
            size: cython.Py_ssize_t = kind * characters
            self._at = i + 3 + size
            if kind != _kind(level) or self._characters(i) != characters:
                return False
            if cython.compiled:
                return memcmp(cython.address(self._bytes[i + 3]), PyUnicode_DATA(level), size) == 0
            return bytes(self._bytes[i + 3 : self._at]) == _characters_of(level)
        if isinstance(level, LevelPair):
            pair: LevelPair = level
            self._at = i + 2
            return (
                kind == SEVERAL and self._bytes[i + 1] == 2 and self._is_next(pair.first) and self._is_next(pair.second)
            )
        if isinstance(level, tuple):
            self._at = i + 2
            if kind != SEVERAL or self._bytes[i + 1] != len(level):
                return False
            for part in level:  # noqa: SIM110 (a loop has no generator to make)
                if not self._is_next(part):
                    return False
            return True
        number: cython.longlong = level
        self._at = i + 9
        return kind == WHOLE and self._whole(i) == number

    def _whole(self, i: cython.Py_ssize_t) -> cython.longlong:
        """Return the whole number at a place."""
        a: cython.int
        number: cython.longlong = self._byte(i + 8) - (256 if self._byte(i + 8) > 127 else 0)
        for a in range(7):
            number = number * 256 + self._byte(i + 7 - a)
        return number

    def _read(self) -> object:
        """Read the next level, and move the position behind it."""
        i: cython.Py_ssize_t = self._at
        kind: cython.Py_ssize_t = self._byte(i)
        if kind == WHOLE:
            self._at = i + 9
            return int(self._whole(i))
        if kind == SEVERAL:
            self._at = i + 2
            levels: list = []
            for _ in range(self._byte(i + 1)):
                levels.append(self._read())
            return tuple(levels)
        size: cython.Py_ssize_t = kind * self._characters(i)
        self._at = i + 3 + size
        if cython.compiled:  # from a copy, where each character has the place that its size asks for
            content: bytes = cython.cast(cython.p_char, cython.address(self._bytes[i + 3]))[:size]
            return PyUnicode_FromKindAndData(kind, cython.cast(cython.p_char, content), self._characters(i))
        return bytes(self._bytes[i + 3 : i + 3 + size]).decode("utf-32-le", "surrogatepass")


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _kind(text: object) -> cython.int:
    """Return the bytes of a character of a text."""
    return PyUnicode_KIND(text) if cython.compiled else 4


def _characters_of(text: str) -> bytes:
    """Return the characters of a text, where this is not compiled."""
    return text.encode("utf-32-le", "surrogatepass")
