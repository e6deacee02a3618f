# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The depth −log Q(x) of a normal score x ≥ 0, where Q(x) is the mass of a standard normal distribution above it.

`depth_of` has all its digits. `quick_depth` is a third of its time: a series of four derivatives around the nearest of
a table's places; with h = φ/Q they are h, h(h − x), and so on. `place_of` and `quick_place` are their inverses.
"""

import cython
import numpy as np
from cython.cimports.libc.math import erfc, exp, fabs, log, log1p, sqrt

PLACES = cython.declare(cython.Py_ssize_t, 384)
EACH = cython.declare(cython.double, 32.0)
"""The table has this many places, and this many in a unit of x."""
FAR = cython.declare(cython.double, 35.0)
"""From here on Q is summed by its asymptotic series."""
MIDDLE = cython.declare(cython.double, 0.6931471805599453)
ROOT_HALF = cython.declare(cython.double, 0.7071067811865476)
HALF_LOG_TAU = cython.declare(cython.double, 0.9189385332046727)


def depth_of(x: cython.double) -> cython.double:
    """Return −log Q(x), for x ≥ 0."""
    s: cython.double
    if x < FAR:
        return -log(0.5 * erfc(x * ROOT_HALF))
    s = 1.0 / (x * x)
    return 0.5 * x * x + log(x) + HALF_LOG_TAU - log1p(-s * (1.0 - s * (3.0 - s * (15.0 - 105.0 * s))))


def _series():
    """Return −log Q and its first four derivatives, over the factorials, at each place of the table."""
    x = np.arange(PLACES) / EACH
    d = np.array([depth_of(one) for one in x.tolist()])
    first = np.exp(d - 0.5 * x * x - HALF_LOG_TAU)
    excess = first - x
    second = first * excess
    third = first * (excess * excess + second - 1.0)
    fourth = excess * third + first * ((2.0 * excess + first) * (second - 1.0) + excess * second)
    return np.ascontiguousarray(np.column_stack((d, first, second / 2.0, third / 6.0, fourth / 24.0)))


cython.declare(_table=cython.double[:, ::1])
_table = _series()


def quick_depth(x: cython.double) -> cython.double:
    """Return `depth_of` to 1e-12."""
    i: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, x * EACH + 0.5) if x < FAR else PLACES
    by: cython.double
    if i >= PLACES:
        return depth_of(x)
    by = x - i / EACH
    return _table[i, 0] + by * (_table[i, 1] + by * (_table[i, 2] + by * (_table[i, 3] + by * _table[i, 4])))


def place_of(d: cython.double) -> cython.double:
    """Return the x ≥ 0 of a depth by Newton's method: −log Q is convex, so steps from the right never pass the root."""
    _i: cython.int
    x: cython.double
    step: cython.double
    depth: cython.double
    if d <= MIDDLE:
        return 0.0
    # Q(x) ≤ exp(−x²/2) / 2
    x = sqrt(2.0 * d) if d > _table[PLACES - 1, 0] else _place_beyond(d) / EACH
    for _i in range(50):
        depth = depth_of(x)
        step = (depth - d) / exp(depth - 0.5 * x * x - HALF_LOG_TAU)
        x -= step
        if fabs(step) <= 1e-15 * (1.0 + x):
            break
    return max(x, 0.0)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _place_beyond(d: cython.double) -> cython.Py_ssize_t:
    """Return the first place of the table that is at least as deep, but for the last one."""
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = PLACES - 1
    middle: cython.Py_ssize_t
    while high - low > 1:
        middle = (low + high) // 2
        if _table[middle, 0] < d:
            low = middle
        else:
            high = middle
    return high


def quick_place(d: cython.double) -> cython.double:
    """Return `place_of` to 1e-12, by Newton's method on the series of `quick_depth`."""
    _i: cython.int
    i: cython.Py_ssize_t
    by: cython.double = 0.0
    if d <= MIDDLE or d > _table[PLACES - 1, 0]:
        return place_of(d)
    i = _place_beyond(d)
    for _i in range(4):  # the first step is off by less than 1/32
        by -= (
            _table[i, 0] - d + by * (_table[i, 1] + by * (_table[i, 2] + by * (_table[i, 3] + by * _table[i, 4])))
        ) / (_table[i, 1] + by * (2.0 * _table[i, 2] + by * (3.0 * _table[i, 3] + by * 4.0 * _table[i, 4])))
    return i / EACH + by
