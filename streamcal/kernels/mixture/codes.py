# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Small numbers for what is remembered of a forecast: one or two bytes for a difference of log-odds."""

import struct

import cython
from cython.cimports.libc.math import sqrt

if cython.compiled:
    from cython.cimports.libc.string import memcpy

#: Log-odds differ by this much at most.
WIDEST = 32.0


def coded(value, most):
    """Return a number of 16 bits, in proportion to the root of a value from −`most` to `most`."""
    code: cython.longlong = cython.cast(cython.longlong, 32767.0 * sqrt(min(abs(value), most) / most) + 0.5)
    return code if value >= 0.0 else -code


def decoded(code, most):
    """Return the value whose code is given."""
    root: cython.double = code / 32767.0
    return root * abs(root) * most


def coarse(value):
    """Return a number of 8 bits, in proportion to the fourth root of a difference of log-odds."""
    code: cython.longlong = cython.cast(cython.longlong, 127.0 * sqrt(sqrt(min(abs(value), WIDEST) / WIDEST)) + 0.5)
    return code if value >= 0.0 else -code


def fine(code):
    """Return the difference of log-odds that `coarse` has coded."""
    root: cython.double = code / 127.0
    return root * root * root * abs(root) * WIDEST


def with_sign(code, size):
    """Return the number from −`size`/2 on that is stored as one from 0 to `size`."""
    return code - size if code >= size // 2 else code


def bytes_of(value):
    """Return the bytes of a number."""
    return cython.cast(cython.p_char, cython.address(value))[:8] if cython.compiled else struct.pack("=d", value)


def number_in(content, at):
    """Return the number whose bytes begin at a place."""
    value: cython.double = 0.0
    if cython.compiled:
        memcpy(cython.address(value), cython.cast(cython.p_char, content) + at, 8)
        return value
    return struct.unpack_from("=d", content, at)[0]
