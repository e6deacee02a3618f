# cython: language_level=3, binding=False
"""The one look at a single observation that fast paths take before they do without the full checks.

It passes what needs no conversion: a finite float, a bool and a float weight in range. Everything else takes the full
checks of `streamcal.parameters.inputs`, which convert, refuse and explain.
"""

import cython

#: Weights outside this range, 0 apart, are refused: their squares, sums and decayed values stay finite and above 0.
SMALLEST_WEIGHT, LARGEST_WEIGHT = 1e-60, 1e60

_SMALLEST = cython.declare(cython.double, SMALLEST_WEIGHT)
_LARGEST = cython.declare(cython.double, LARGEST_WEIGHT)
_HUGE = cython.declare(cython.double, 1.7976931348623157e308)

#: What `fast_case` says: take the full checks; passed; passed, and the score lies in the range that was asked about.
CHECK, PASSED, IN_RANGE = 0, 1, 2


@cython.ccall
@cython.exceptval(check=False)
def fast_score(score: object, lo: cython.double, hi: cython.double) -> cython.bint:
    """Whether a score is a float from `lo` to `hi`, both finite or infinite."""
    s: cython.double
    if type(score) is not float:
        return False
    s = score
    return lo <= s <= hi and -_HUGE <= s <= _HUGE


@cython.ccall
@cython.exceptval(check=False)
def fast_case(score: object, y: object, w: object, lo: cython.double, hi: cython.double) -> cython.int:
    """Whether score, label and weight are a finite float, a bool and a float from SMALLEST_WEIGHT to LARGEST_WEIGHT.

    CHECK where they are not. IN_RANGE where, besides, lo <= score <= hi: a caller whose scale leaves such scores as
    they are need not call it. Else PASSED.
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
