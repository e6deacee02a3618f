# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The derivative of a polynomial as a function of an angle: its minima, and a lower bound of all its values.

    p = Σ x_m T_m(2u − 1), m = 0 … k,     2u − 1 = cos θ,     0 ≤ θ ≤ π;     p′ is the derivative by u

`slopes` has the Chebyshev coefficients of p′, p″ and p‴ in 2u − 1, and three zeros after each. In θ, p′ is a
trigonometric polynomial of degree d = k − 1 times a constant, whose fourth derivative is at most d⁴ times the sum M of
its absolute coefficients. So a cubic through two values and slopes at a distance h is wrong by no more than h⁴d⁴M/384:
cells are halved until that bounds p′ from below (`_lower_bound`).

A constraint on p is a number: θ for p′(θ) ≥ 0, −1 for p(0) ≥ 0, −2 for p(1) ≤ 1. The product of its normal and x is
p(0), −p(1), or p′(θ) times sin θ + 1/k (`scale`), so that normals at the ends are of the same size as others.
"""

import cython
import numpy as np
from cython.cimports.libc.math import cos, fabs, sin

#: Points of the grid for each degree; Newton steps to a local minimum; halvings of a cell.
_POINTS = cython.declare(cython.Py_ssize_t, 4)
_REFINEMENTS = cython.declare(cython.int, 4)
_HALVINGS = cython.declare(cython.int, 24)
_PI = cython.declare(cython.double, np.pi)
_INFINITE = cython.declare(cython.double, np.inf)


def grid_of(degree: cython.Py_ssize_t):
    """Return the scaled normals at the points of the grid, an array."""
    grid = np.zeros((_POINTS * degree + 1, degree + 1))
    for i in range(len(grid)):
        set_normal(grid[i], _PI * i / (_POINTS * degree))
    return grid


def grid_step(degree: cython.Py_ssize_t) -> cython.double:
    """Return the distance of two points of the grid."""
    return _PI / (_POINTS * degree)


def scale(theta: cython.double, degree: cython.Py_ssize_t) -> cython.double:
    """Return the factor by which the normal of a constraint is scaled."""
    return sin(theta) + 1.0 / degree if theta >= 0.0 else 1.0


def set_normal(normal: cython.double[::1], theta: cython.double) -> cython.void:
    """Set the scaled normal of a constraint."""
    m: cython.Py_ssize_t
    x: cython.double
    factor: cython.double
    before: cython.double = 0.0
    now: cython.double = 1.0  # U_{m−1}, by its recurrence
    n: cython.Py_ssize_t = normal.shape[0]
    if theta < 0.0:
        for m in range(n):
            normal[m] = -1.0 if theta < -1.5 or m % 2 == 1 else 1.0
        return
    x = cos(theta)
    factor = 2.0 * scale(theta, n - 1)
    normal[0] = 0.0
    for m in range(1, n):
        normal[m] = factor * m * now
        before, now = now, 2.0 * x * now - before


def set_turn(turn: cython.double[::1], theta: cython.double) -> cython.void:
    """Set the derivative by θ of the normal of p′, not scaled: of 2m sin(mθ)/sin θ."""
    m: cython.Py_ssize_t
    c: cython.double = cos(theta)
    s: cython.double = sin(theta)
    turn[0] = 0.0
    for m in range(1, turn.shape[0]):
        turn[m] = 2.0 * m * (m * cos(m * theta) * s - sin(m * theta) * c) / (s * s)


def set_slopes(slopes: cython.double[:, ::1], x: cython.const[cython.double][::1]) -> cython.void:
    """Set the coefficients of p′, p″ and p‴."""
    m: cython.Py_ssize_t
    k: cython.Py_ssize_t
    total: cython.double
    degree: cython.Py_ssize_t = x.shape[0] - 1
    # by u: twice the derivative by 2u − 1;  c′_{m−1} = c′_{m+1} + 2m c_m, and half of that for m = 1
    for k in range(3):
        for m in range(degree, -1, -1):
            slopes[k, m] = slopes[k, m + 2]
            if m < degree - k:
                total = x[m + 1] if k == 0 else slopes[k - 1, m + 1]
                slopes[k, m] += 4.0 * (m + 1) * total
        slopes[k, 0] *= 0.5


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _series(slopes: cython.const[cython.double][:, ::1], k: cython.Py_ssize_t, x: cython.double) -> cython.double:
    """Return the value of derivative number k + 1: Clenshaw's recurrence."""
    m: cython.Py_ssize_t
    value: cython.double = 0.0
    after: cython.double = 0.0
    for m in range(slopes.shape[1] - 5 - k, 0, -1):
        value, after = 2.0 * x * value - after + slopes[k, m], value
    return x * value - after + slopes[k, 0]


def bend(slopes: cython.const[cython.double][:, ::1], theta: cython.double) -> cython.double:
    """Return the second derivative of p′ by θ; a derivative by u is half of one by 2u − 1 = cos θ."""
    x: cython.double = cos(theta)
    return 0.25 * _series(slopes, 2, x) * (1.0 - x * x) - 0.5 * _series(slopes, 1, x) * x


def refined(slopes: cython.const[cython.double][:, ::1], theta: cython.double) -> cython.double:
    """Return the θ of the minimum of p′ near this one, within a step of the grid of it."""
    _step: cython.int
    h: cython.double = grid_step(slopes.shape[1] - 4)
    low: cython.double = max(theta - h, 0.0)
    high: cython.double = min(theta + h, _PI)
    first: cython.double
    second: cython.double
    step: cython.double
    for _step in range(_REFINEMENTS):
        second = bend(slopes, theta)
        first = -0.5 * _series(slopes, 1, cos(theta)) * sin(theta)
        if not second > 0.0:
            break
        step = min(max(theta - first / second, low), high) - theta
        theta += step
        if fabs(step) < 1e-9:
            break
    return theta


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _survey(
    grid: cython.const[cython.double][:, ::1], x: cython.const[cython.double][::1], values: cython.double[::1]
) -> cython.void:
    """Set the scaled p′ at the points of the grid."""
    i: cython.Py_ssize_t
    m: cython.Py_ssize_t
    total: cython.double
    for i in range(grid.shape[0]):
        total = 0.0
        for m in range(1, x.shape[0]):
            total += grid[i, m] * x[m]
        values[i] = total


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _is_low(values: cython.double[::1], i: cython.Py_ssize_t, narrow: cython.bint) -> cython.bint:
    """Return whether there may be a minimum of at most 0 near a point of the grid: by a parabola through three points.

    A `narrow` dip may lie between two points of a slope, beside the least of the three.
    """
    bent: cython.double
    fall: cython.double
    last: cython.Py_ssize_t = values.shape[0] - 1
    if i == 0 or i == last:
        return values[i] <= (values[1] if i == 0 else values[last - 1])
    bent = values[i - 1] + values[i + 1] - 2.0 * values[i]
    if values[i] <= values[i - 1] and values[i] <= values[i + 1]:
        return not (bent > 0.0 and values[i] > 0.5 * bent)
    fall = 0.5 * fabs(values[i - 1] - values[i + 1])
    return narrow and fall <= bent and 2.0 * values[i] * bent <= fall * fall


def find_minima(
    slopes: cython.double[:, ::1],
    x: cython.const[cython.double][::1],
    grid: cython.const[cython.double][:, ::1],
    values: cython.double[::1],
    minima: cython.double[::1],
    below: cython.double,
    above: cython.double,
    narrow: cython.bint,
) -> cython.Py_ssize_t:
    """Write the constraints with a slack below `below` (at the ends) or `above` (at minima of p′); return their number.

    Set `slopes`, and `values` at the points of the grid. Minima in narrow dips between these may be missed, and cost a
    fifth more if they are wanted.
    """
    i: cython.Py_ssize_t
    number: cython.Py_ssize_t = 0
    theta: cython.double
    bottom: cython.double = 0.0
    top: cython.double = 0.0
    n: cython.Py_ssize_t = x.shape[0]
    for i in range(n):
        top += x[i]
        bottom += -x[i] if i % 2 == 1 else x[i]
    if bottom < below:
        minima[number] = -1.0
        number += 1
    if 1.0 - top < below:
        minima[number] = -2.0
        number += 1
    _survey(grid, x, values)
    set_slopes(slopes, x)
    for i in range(grid.shape[0]):
        if _is_low(values, i, narrow):
            theta = refined(slopes, grid_step(n - 1) * i)
            if narrow and number > 0 and fabs(theta - minima[number - 1]) < 1e-8:
                continue
            if _series(slopes, 0, cos(theta)) * scale(theta, n - 1) < above and number < n:
                minima[number] = theta
                number += 1
    return number


def make_monotone(slopes: cython.double[:, ::1], x: cython.double[::1], limit: cython.double) -> cython.double:
    """Lift p so that it is monotone, and scale it into [0, 1].

    Return what is added to p′, or infinity where p, or p′, would change by more than about `limit`.
    """
    i: cython.Py_ssize_t
    lift: cython.double
    bottom: cython.double = 0.0
    top: cython.double = 0.0
    set_slopes(slopes, x)
    lift = max(-_lower_bound(slopes, 0.1 * limit), 0.0)
    if not lift <= limit:
        return _INFINITE
    x[0] += 0.5 * lift
    x[1] += 0.5 * lift
    for i in range(x.shape[0]):
        bottom += -x[i] if i % 2 == 1 else x[i]
    x[0] += max(-bottom, 0.0)
    for i in range(x.shape[0]):
        top += x[i]
    for i in range(x.shape[0]):
        x[i] /= max(top, 1.0)
    return lift if -bottom <= limit and top <= 1.0 + limit + lift else _INFINITE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _lower_bound(slopes: cython.const[cython.double][:, ::1], precision: cython.double) -> cython.double:
    """Return a lower bound of p′, at most 0: cells are halved until it is above −precision, unless p′ is not."""
    i: cython.Py_ssize_t
    size: cython.double = 0.0
    least: cython.double = 0.0
    degree: cython.Py_ssize_t = slopes.shape[1] - 4
    cells: cython.Py_ssize_t = 2 * _POINTS * degree
    for i in range(degree):
        size += fabs(slopes[0, i])
    for i in range(cells):
        least = min(least, _cell_bound(slopes, _PI * i / cells, _PI * (i + 1) / cells, size, precision))
    return least


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _cell_bound(
    slopes: cython.const[cython.double][:, ::1],
    low: cython.double,
    high: cython.double,
    size: cython.double,
    precision: cython.double,
) -> cython.double:
    """Return a lower bound of p′ between two θ: halve the part that may be below 0, from the left.

    What is next to the least of the two values is not halved: where p′ is flat at −precision, rounding would take
    each of 2²⁴ parts for the one that may be below it.
    """
    h: cython.double
    f0: cython.double
    f1: cython.double
    s0: cython.double
    s1: cython.double
    bound: cython.double
    least: cython.double = 0.0
    end: cython.double = high
    d: cython.double = slopes.shape[1] - 5.0
    halvings: cython.int = 0
    f0, s0 = _series(slopes, 0, cos(low)), -0.5 * sin(low) * _series(slopes, 1, cos(low))
    while low < high:
        f1, s1 = _series(slopes, 0, cos(end)), -0.5 * sin(end) * _series(slopes, 1, cos(end))
        h = end - low
        bound = min(min(f0, f0 + h * s0 / 3.0), min(f1, f1 - h * s1 / 3.0)) - (h * d) ** 4 * size / 384.0
        if bound < min(-precision, min(f0, f1) - 0.1 * precision) and halvings < _HALVINGS and f1 > -precision:
            end = 0.5 * (low + end)
            halvings += 1
            continue
        least = min(least, bound)
        low, f0, s0 = end, f1, s1
        end = min(high, low + 2.0 * h)
        halvings = max(halvings - 1, 0)
    return least
