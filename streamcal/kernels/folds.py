# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""K hull trees, one for each fold, as one: the fold of a coordinate, dealing single units, and the merged probability.

Symbols: p0 and p1 are the ends of the interval of a fold; K the number of folds that hold anything.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.math import floor
from cython.cimports.libc.math import pow as power

ALL_BITS = 0xFFFFFFFFFFFFFFFF
#: The finalizer of SplitMix64 (Steele, Lea and Flood 2014).
FIRST_FACTOR, SECOND_FACTOR = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
#: The hash uses a coordinate rounded to 44 bits (33 of the significand), so that differences in the last digits of a
#: model's score (another machine, another order of the features) do not change its fold.
DROPPED_BITS = 20
#: Sums of whole weights below this are exact.
LARGEST_COUNT = 2.0**49
#: A test object counts with no less and no more than these shares of the weight of a fold. Merges divide by 1 − p₀ and
#: by 1 − p₁ + p₀, which would otherwise be rounding: maps fell by 1e-3 and more.
LIGHTEST, HEAVIEST = 1e-9, 1e7
LOG_MINIMAX, BRIER_MINIMAX, SELF_CONSISTENT = 0, 1, 2

_ALL_BITS = cython.declare(cython.ulonglong, ALL_BITS)
_FIRST_FACTOR = cython.declare(cython.ulonglong, FIRST_FACTOR)
_SECOND_FACTOR = cython.declare(cython.ulonglong, SECOND_FACTOR)
_DROPPED_BITS = cython.declare(cython.int, DROPPED_BITS)
_LARGEST_COUNT = cython.declare(cython.double, LARGEST_COUNT)
_LIGHTEST = cython.declare(cython.double, LIGHTEST)
_HEAVIEST = cython.declare(cython.double, HEAVIEST)

if cython.compiled:

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _bits(value: cython.double) -> cython.ulonglong:
        return cython.cast(cython.pointer(cython.ulonglong), cython.address(value))[0]

else:
    import struct

    def _bits(value):
        return struct.unpack("<Q", struct.pack("<d", value))[0]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _mixed(bits: cython.ulonglong) -> cython.ulonglong:
    bits = ((bits ^ (bits >> 30)) * _FIRST_FACTOR) & _ALL_BITS
    bits = ((bits ^ (bits >> 27)) * _SECOND_FACTOR) & _ALL_BITS
    return bits ^ (bits >> 31)


@cython.ccall
@cython.exceptval(check=False)
def hash_of(x: cython.double) -> cython.ulonglong:
    """A hash of the leading bits of a coordinate."""
    half: cython.ulonglong = 1
    return _mixed((_bits(x + 0.0) + (half << (_DROPPED_BITS - 1))) >> _DROPPED_BITS)  # −0 + 0 is 0


def hash_with(bits: cython.ulonglong, t: cython.double):
    """A hash of a coordinate's hash and a time."""
    return _mixed(bits ^ _bits(t + 0.0))


def deal_unit(whole, trees: list, x: cython.double, kept: cython.double, label: cython.double) -> cython.int:
    """Add a unit of weight at x, which is `kept` as it is stored, to `whole` and to the tree whose turn it is.

    Returns the number of trees that have got their first share of this score and label, 0 or 1; or −1 and no change
    where something held at the score is no whole number.
    """
    weight: cython.double
    positive: cython.double
    own: cython.double
    number: cython.int
    folds: cython.ulonglong = len(trees)
    weight, positive, _ = whole.find(x)
    if not (weight < _LARGEST_COUNT and weight == floor(weight) and positive == floor(positive)):
        return -1
    own = positive if label == 1.0 else weight - positive
    number = 1 if own < folds else 0
    whole.update_one(x, label, 1.0)
    trees[(hash_of(kept) % folds + cython.cast(cython.ulonglong, own)) % folds].update(x, 1.0, label, number)
    return number


def merged_at(trees: list, x: cython.double, rule: cython.int) -> cython.double:
    """The merged probability of the trees at a coordinate, for a test object of weight 1."""
    low: cython.double
    high: cython.double
    held: cython.double
    lower: list = []
    upper: list = []
    for tree in trees:
        held = tree.weight
        if held > 0.0:
            low, high = tree.interval(x, min(max(1.0, _LIGHTEST * held), _HEAVIEST * held))
            lower.append(low)
            upper.append(high)
    if not lower:
        return 0.5
    return _merged(lower, upper, rule)


@cython.cfunc
@cython.exceptval(check=False)
def _merged(lower: list, upper: list, rule: cython.int) -> cython.double:
    """The rules of `maps/points.py`, in the same order of operations."""
    k: cython.Py_ssize_t
    low: cython.double
    high: cython.double
    p0: cython.double = 0.0
    p1: cython.double = 0.0
    number: cython.Py_ssize_t = len(lower)
    share: cython.double = 1.0 / number
    for k in range(number):
        low, high = lower[k], upper[k]
        if rule == LOG_MINIMAX:
            low, high = power(1.0 - low, share), power(high, share)
            p0 = low if k == 0 else p0 * low
            p1 = high if k == 0 else p1 * high
        elif rule == BRIER_MINIMAX:
            high = high + 0.5 * (low * low - high * high)
            p1 = high if k == 0 else p1 + high
        else:
            p0 = low if k == 0 else p0 + low
            p1 = high if k == 0 else p1 + high
    if rule == LOG_MINIMAX:
        return p1 / (p0 + p1)
    p0, p1 = p0 / number, p1 / number
    if rule == BRIER_MINIMAX:
        return p1
    held: cython.double = 1.0 - p1 + p0
    return 0.5 if held == 0.0 else p0 / held
