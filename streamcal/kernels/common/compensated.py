# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Sums of doubles that keep what rounding drops: of each addition in `low`, beside the sum itself.

Knuth's two-sum gives the rounding error e of s = a + b exactly, in five further additions, whatever the sizes of a and
b. With the errors added up separately, sums + low are accurate to 2^−106 of the largest sum there ever was (Ogita, Rump
and Oishi 2005, Sum2): a term that is added and subtracted again leaves no error.
"""

import cython


def add_terms(
    sums: cython.double[::1], low: cython.double[::1], terms: cython.double[::1], number: cython.Py_ssize_t
) -> cython.void:
    """Add the first `number` terms; `sums` alone are what plain additions give."""
    k: cython.Py_ssize_t
    before: cython.double
    after: cython.double
    part: cython.double
    for k in range(number):
        before = sums[k]
        after = before + terms[k]
        part = after - before
        low[k] = low[k] + ((before - (after - part)) + (terms[k] - part))
        sums[k] = after


def settle(sums: cython.double[::1], low: cython.double[::1]) -> cython.void:
    """Round sums + low to `sums`, and leave the rest in `low`: needed where a sum has become much smaller."""
    k: cython.Py_ssize_t
    before: cython.double
    after: cython.double
    part: cython.double
    for k in range(sums.shape[0]):
        before = sums[k]
        after = before + low[k]
        part = after - before
        low[k] = (before - (after - part)) + (low[k] - part)
        sums[k] = after


def add_arrays(sums: cython.double[::1], low: cython.double[::1], other, other_low):
    """Add other sums of the same kind: of both parts, in place."""
    terms: cython.double[::1] = other.copy()
    if not sums.shape[0] == low.shape[0] == terms.shape[0] == len(other_low):
        raise ValueError(f"lengths differ: {sums.shape[0]}, {low.shape[0]}, {terms.shape[0]}, {len(other_low)}")
    add_terms(sums, low, terms, terms.shape[0])
    terms = other_low.copy()
    k: cython.Py_ssize_t
    for k in range(terms.shape[0]):
        low[k] = low[k] + terms[k]
    settle(sums, low)
