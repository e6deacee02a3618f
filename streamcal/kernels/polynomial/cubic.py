# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Monotone piecewise cubic interpolation (PCHIP; Fritsch and Butland 1984): slopes, and values at many places."""

import cython
import numpy as np
from cython.cimports.libc.math import isinf


def slopes(x: cython.const[cython.double][::1], y: cython.const[cython.double][::1]):
    """Return the slopes at the left and right ends of each interval, times its width: two arrays of shape (m − 1,).

    x and y, of shape (m,), rise strictly. Slopes times widths are of the size of y, whatever the widths: knots may be
    neighbouring floats. The distance of two knots may overflow; then halves are used.
    """
    i: cython.Py_ssize_t
    m: cython.Py_ssize_t = x.shape[0]
    half: cython.double = 1.0
    left: cython.double
    right: cython.double
    a: cython.double
    b: cython.double
    u: cython.double
    v: cython.double
    slope: cython.double
    if m != y.shape[0]:
        raise ValueError(f"{m} knots and {y.shape[0]} values")
    rises, falls = np.empty(max(m - 1, 0)), np.empty(max(m - 1, 0))
    if m < 2:
        return rises, falls
    rise: cython.double[::1] = rises.data
    fall: cython.double[::1] = falls.data
    rise[0] = fall[0] = y[1] - y[0]  # a straight line, if there are no more
    if isinf(x[m - 1] - x[0]):
        half = 0.5
    for i in range(m - 2):
        left = half * x[i + 1] - half * x[i]
        right = half * x[i + 2] - half * x[i + 1]
        a, b = _share(left, right), _share(right, left)
        u = y[i + 1] - y[i]
        v = y[i + 2] - y[i + 1]
        slope = _slope(a, b, u, v)
        if i == 0:
            rise[0] = _end(a, b, u, v)
        fall[i] = a * slope
        rise[i + 1] = b * slope
        if i == m - 3:
            fall[m - 2] = _end(b, a, v, u)
    return rises, falls


def value_beside(
    x: cython.double,
    before: cython.double,
    left: cython.double,
    right: cython.double,
    after: cython.double,
    lowest: cython.double,
    low: cython.double,
    high: cython.double,
    highest: cython.double,
) -> cython.double:
    """Return the value at x, between the knots `left` and `right`, of the cubic of `slopes`. O(1).

    The knots before and after are these themselves where there are none; the values of all four follow in order.
    """
    other: cython.double
    half: cython.double = 0.5 if isinf(after - before) else 1.0
    width: cython.double = half * right - half * left
    rise: cython.double = high - low
    fall: cython.double = high - low
    step: cython.double = high - low
    a: cython.double = 0.0
    b: cython.double = 0.0
    if before < left:
        other = half * left - half * before
        a, b = _share(other, width), _share(width, other)
        rise = b * _slope(a, b, low - lowest, step)
        fall = _end(b, a, step, low - lowest)
    if after > right:
        other = half * after - half * right
        a, b = _share(width, other), _share(other, width)
        fall = a * _slope(a, b, step, highest - high)
        if before == left:
            rise = _end(a, b, step, highest - high)
    return _cubic((half * x - half * left) / width, low, high, rise, fall)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _share(own: cython.double, other: cython.double) -> cython.double:
    """Return the share of a width in the sum of two."""
    return own / (own + other) if own + other > 0.0 else 0.5


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _slope(a: cython.double, b: cython.double, u: cython.double, v: cython.double) -> cython.double:
    """Return the slope at a knot times the sum of both widths; a and b are their shares, u and v the steps."""
    return 3.0 * u * v / ((1.0 + b) * a * v + (1.0 + a) * b * u)


@cython.cfunc
@cython.exceptval(check=False)
def _end(near: cython.double, far: cython.double, step: cython.double, next_step: cython.double) -> cython.double:
    """Return the slope at an outer end times its interval's width: three points' parabola, unless it would decrease."""
    if (1.0 + near) * step * far <= near * near * next_step:
        return 0.0
    return (1.0 + near) * step - near * near / far * next_step


def values_at(
    x: cython.const[cython.double][::1],
    knots: cython.const[cython.double][::1],
    values: cython.const[cython.double][::1],
    rises: cython.const[cython.double][::1],
    falls: cython.const[cython.double][::1],
):
    """Return the values at x, shape (n,), of the cubics between the knots; constant outside. x need not be in order."""
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t = 0
    last: cython.Py_ssize_t
    t: cython.double
    m: cython.Py_ssize_t = knots.shape[0]
    if not m == values.shape[0] == rises.shape[0] + 1 == falls.shape[0] + 1:
        raise ValueError(f"{m} knots, {values.shape[0]} values and {rises.shape[0]} intervals")
    result = np.empty(x.shape[0])
    out: cython.double[::1] = result.data
    for i in range(x.shape[0]):
        last = k
        k = _after(x[i], knots, last)
        if k == 0 or k == m:
            out[i] = values[min(k, m - 1)]
            continue
        t = (x[i] - knots[k - 1]) / (knots[k] - knots[k - 1])
        if isinf(knots[k] - knots[k - 1]):
            t = (0.5 * x[i] - 0.5 * knots[k - 1]) / (0.5 * knots[k] - 0.5 * knots[k - 1])
        out[i] = _cubic(t, values[k - 1], values[k], rises[k - 1], falls[k - 1])
    return result


@cython.cfunc
@cython.exceptval(check=False)
def _cubic(
    t: cython.double, low: cython.double, high: cython.double, rise: cython.double, fall: cython.double
) -> cython.double:
    """Return the cubic from `low` at t = 0 to `high` at t = 1, with these slopes, within these values."""
    value: cython.double = low + (high - low) * t * t * (3.0 - 2.0 * t) + t * (1.0 - t) * (rise * (1.0 - t) - fall * t)
    return min(max(value, low), high)


@cython.cfunc
@cython.exceptval(check=False)
def _after(x: cython.double, knots: cython.const[cython.double][::1], guess: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the number of knots that are not above x, the answer for another place being `guess`."""
    low: cython.Py_ssize_t = 0
    high: cython.Py_ssize_t = knots.shape[0]
    middle: cython.Py_ssize_t
    if guess == 0 or knots[guess - 1] <= x:
        low = guess
        if guess == high or knots[guess] > x:
            return guess
    else:
        high = guess - 1
    while low < high:
        middle = (low + high) // 2
        if knots[middle] <= x:
            low = middle + 1
        else:
            high = middle
    return low


def line_between(
    x: cython.double, left: cython.double, right: cython.double, low: cython.double, high: cython.double
) -> cython.double:
    """Interpolate between (left, low) and (right, high); the distance of two scores may exceed the largest float."""
    if isinf(right - left):
        return low + (high - low) * ((0.5 * x - 0.5 * left) / (0.5 * right - 0.5 * left))
    return low + (high - low) * ((x - left) / (right - left))
