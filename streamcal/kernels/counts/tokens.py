# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Tokens: four numbers of 32 bits and their signature, as 32 characters that are safe in a URL.

The signature is SipHash-2-4 with a key of 128 bits (Aumasson and Bernstein, SipHash: a fast short-input PRF, 2012). A
token has 24 bytes, which base64url writes as 32 characters without padding: the numbers, the least significant byte
first, then the signature.
"""

import cython

#: Characters of a token.
LENGTH = 32
_LENGTH = cython.declare(cython.Py_ssize_t, LENGTH)
_ALL_BITS = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
_LOW_BITS = cython.declare(cython.ulonglong, 0xFFFFFFFF)
#: "somepseudorandomlygeneratedbytes", with which SipHash begins.
_BEGIN_0 = cython.declare(cython.ulonglong, 0x736F6D6570736575)
_BEGIN_1 = cython.declare(cython.ulonglong, 0x646F72616E646F6D)
_BEGIN_2 = cython.declare(cython.ulonglong, 0x6C7967656E657261)
_BEGIN_3 = cython.declare(cython.ulonglong, 0x7465646279746573)
#: The last block of a message of 16 bytes: its length in the highest byte.
_END = cython.declare(cython.ulonglong, 0x1000000000000000)
_FINAL = cython.declare(cython.ulonglong, 0xFF)

ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
_NONE = 255
_VALUES = bytearray([_NONE] * 256)
for _value, _character in enumerate(ALPHABET):
    _VALUES[_character] = _value


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _turned(x: cython.ulonglong, bits: cython.int) -> cython.ulonglong:
    return ((x << bits) & _ALL_BITS) | (x >> (64 - bits))


@cython.final
@cython.cclass
class Signer:
    """Writes and reads the tokens of one key of 16 bytes."""

    _k0: cython.ulonglong
    _k1: cython.ulonglong
    _v0: cython.ulonglong
    _v1: cython.ulonglong
    _v2: cython.ulonglong
    _v3: cython.ulonglong
    _alphabet: cython.uchar[::1]
    _values: cython.uchar[::1]
    _raw: cython.uchar[::1]
    _text: object
    _characters: cython.uchar[::1]

    def __init__(self, key):
        if len(key) != 16:
            raise ValueError(f"a key of {len(key)} bytes")
        self._k0, self._k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
        self._alphabet, self._values = bytearray(ALPHABET), _VALUES
        self._raw = bytearray(24)
        self._text = bytearray(LENGTH)
        self._characters = self._text

    @cython.cfunc
    @cython.exceptval(check=False)
    def _rounds(self, number: cython.int) -> cython.void:
        v0: cython.ulonglong = self._v0
        v1: cython.ulonglong = self._v1
        v2: cython.ulonglong = self._v2
        v3: cython.ulonglong = self._v3
        _i: cython.int
        for _i in range(number):
            v0 = (v0 + v1) & _ALL_BITS
            v1 = _turned(v1, 13) ^ v0
            v0 = _turned(v0, 32)
            v2 = (v2 + v3) & _ALL_BITS
            v3 = _turned(v3, 16) ^ v2
            v0 = (v0 + v3) & _ALL_BITS
            v3 = _turned(v3, 21) ^ v0
            v2 = (v2 + v1) & _ALL_BITS
            v1 = _turned(v1, 17) ^ v2
            v2 = _turned(v2, 32)
        self._v0, self._v1, self._v2, self._v3 = v0, v1, v2, v3

    @cython.cfunc
    @cython.exceptval(check=False)
    def _signature(self, first: cython.ulonglong, second: cython.ulonglong) -> cython.ulonglong:
        self._v0, self._v1 = _BEGIN_0 ^ self._k0, _BEGIN_1 ^ self._k1
        self._v2, self._v3 = _BEGIN_2 ^ self._k0, _BEGIN_3 ^ self._k1
        self._v3 ^= first
        self._rounds(2)
        self._v0 ^= first
        self._v3 ^= second
        self._rounds(2)
        self._v0 ^= second
        self._v3 ^= _END
        self._rounds(2)
        self._v0 ^= _END
        self._v2 ^= _FINAL
        self._rounds(4)
        return self._v0 ^ self._v1 ^ self._v2 ^ self._v3

    def signature(self, first: cython.ulonglong, second: cython.ulonglong):
        """Return SipHash-2-4 of two numbers of 64 bits."""
        return self._signature(first, second)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _write(
        self,
        bucket: cython.ulonglong,
        number: cython.ulonglong,
        row: cython.ulonglong,
        time: cython.ulonglong,
        out: cython.uchar[::1],
        start: cython.Py_ssize_t,
    ) -> cython.void:
        first: cython.ulonglong = bucket | (number << 32)
        second: cython.ulonglong = row | (time << 32)
        last: cython.ulonglong = self._signature(first, second)
        i: cython.Py_ssize_t
        bits: cython.ulonglong
        for i in range(8):
            self._raw[i] = (first >> (8 * i)) & _FINAL
            self._raw[8 + i] = (second >> (8 * i)) & _FINAL
            self._raw[16 + i] = (last >> (8 * i)) & _FINAL
        for i in range(8):
            bits = (
                (cython.cast(cython.ulonglong, self._raw[3 * i]) << 16)
                | (cython.cast(cython.ulonglong, self._raw[3 * i + 1]) << 8)
                | cython.cast(cython.ulonglong, self._raw[3 * i + 2])
            )
            out[start + 4 * i] = self._alphabet[bits >> 18]
            out[start + 4 * i + 1] = self._alphabet[(bits >> 12) & 63]
            out[start + 4 * i + 2] = self._alphabet[(bits >> 6) & 63]
            out[start + 4 * i + 3] = self._alphabet[bits & 63]

    def write(self, bucket: cython.ulonglong, number: cython.ulonglong, row: cython.ulonglong, time: cython.ulonglong):
        """Return the token of four numbers below 2³²."""
        self._write(bucket, number, row, time, self._characters, 0)
        return self._text.decode("ascii")

    def write_many(
        self,
        bucket: cython.ulonglong,
        first: cython.ulonglong,
        rows: cython.const[cython.longlong][::1],
        times: cython.const[cython.longlong][::1],
        out: cython.uchar[::1],
    ):
        """Write the tokens of the numbers from `first` on to `out`, 32 bytes each."""
        k: cython.Py_ssize_t
        if out.shape[0] != _LENGTH * rows.shape[0] or times.shape[0] != rows.shape[0]:
            raise ValueError("rows, times and tokens are of different numbers")
        for k in range(rows.shape[0]):
            self._write(bucket, first + k, int(rows[k]), int(times[k]), out, _LENGTH * k)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _read(self, text: cython.const[cython.uchar][::1], start: cython.Py_ssize_t) -> cython.bint:
        """Read a token into `_raw`; return whether it is one."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        bits: cython.ulonglong
        value: cython.ulonglong
        for i in range(8):
            bits = 0
            for j in range(4):
                value = self._values[text[start + 4 * i + j]]
                if value > 63:
                    return False
                bits = (bits << 6) | value
            self._raw[3 * i] = (bits >> 16) & _FINAL
            self._raw[3 * i + 1] = (bits >> 8) & _FINAL
            self._raw[3 * i + 2] = bits & _FINAL
        return self._number(16) == self._signature(self._number(0), self._number(8))

    @cython.cfunc
    @cython.exceptval(check=False)
    def _number(self, start: cython.Py_ssize_t) -> cython.ulonglong:
        i: cython.Py_ssize_t
        number: cython.ulonglong = 0
        for i in range(7, -1, -1):
            number = (number << 8) | cython.cast(cython.ulonglong, self._raw[start + i])
        return number

    def read_many(self, text: cython.const[cython.uchar][::1], out: cython.longlong[:, ::1]):
        """Write the numbers of tokens of 32 bytes each to `out`; return the first that is none, or −1."""
        k: cython.Py_ssize_t
        first: cython.ulonglong
        second: cython.ulonglong
        if text.shape[0] != _LENGTH * out.shape[0] or out.shape[1] != 4:
            raise ValueError("tokens and numbers are of different numbers")
        for k in range(out.shape[0]):
            if not self._read(text, _LENGTH * k):
                return k
            first, second = self._number(0), self._number(8)
            out[k, 0], out[k, 1] = first & _LOW_BITS, first >> 32
            out[k, 2], out[k, 3] = second & _LOW_BITS, second >> 32
        return -1

    def read(self, text: bytes):
        """Return the four numbers of a token; None for 32 bytes that are none."""
        first: cython.ulonglong
        second: cython.ulonglong
        if len(text) != LENGTH or not self._read(text, 0):
            return None
        first, second = self._number(0), self._number(8)
        return first & _LOW_BITS, first >> 32, second & _LOW_BITS, second >> 32
