# cython: language_level=3
"""The look at a single observation that finds nothing to remark: one call, where the full checks take four or five."""

import cython

#: Weights outside this range, 0 apart, are refused: their squares, sums and decayed values stay finite and above 0.
SMALLEST_WEIGHT, LARGEST_WEIGHT = 1e-60, 1e60

UNUSUAL, USUAL, PLAIN = 0, 1, 2

_SMALLEST = cython.declare(cython.double, SMALLEST_WEIGHT)
_LARGEST = cython.declare(cython.double, LARGEST_WEIGHT)
_HUGE = cython.declare(cython.double, 1.7976931348623157e308)


def usual(score: object, y: object, w: object, lo: cython.double, hi: cython.double) -> cython.int:
    """USUAL for a finite float, a bool and a float from SMALLEST_WEIGHT to LARGEST_WEIGHT, else UNUSUAL.

    PLAIN where, besides, lo <= score <= hi: a caller whose scale leaves such scores as they are need not ask it.
    """
    s: cython.double
    weight: cython.double
    if type(score) is not float or type(w) is not float or not (y is True or y is False):
        return 0
    s = score
    weight = w
    if not (-_HUGE <= s <= _HUGE and _SMALLEST <= weight <= _LARGEST):
        return 0
    return 2 if lo <= s <= hi else 1
