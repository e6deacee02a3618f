# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The finalizer of SplitMix64 (Steele, Lea and Flood 2014): 64 bits whose every bit depends on all bits given."""

import cython

#: 2⁶⁴ times the golden ratio: steps of it reach all numbers before one comes again.
GOLDEN = 0x9E3779B97F4A7C15
FIRST_FACTOR, SECOND_FACTOR = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
_FIRST_FACTOR = cython.declare(cython.ulonglong, FIRST_FACTOR)
_SECOND_FACTOR = cython.declare(cython.ulonglong, SECOND_FACTOR)
_ALL_BITS = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)  # for ordinary Python, whose integers do not wrap


def mixed(bits: cython.ulonglong) -> cython.ulonglong:
    """Return the hash of 64 bits; different ones have different hashes."""
    bits = ((bits ^ (bits >> 30)) * _FIRST_FACTOR) & _ALL_BITS
    bits = ((bits ^ (bits >> 27)) * _SECOND_FACTOR) & _ALL_BITS
    return bits ^ (bits >> 31)
