# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The prediction at which bets on tilted odds gain together what the prediction itself gains.

Symbols: z, the probability that comes in; S[a], the stake on odds that are exp(h) times those predicted; d[a], which is
exp(h) − 1. The prediction p has

    f(p) = z − p + p·(1 − p)·s(p) = 0,  where  s = Σ S·q  and  q = d/(1 + p·d)

There is one: f over p·(1 − p) is the derivative of a strictly concave function of p,
z·ln p + (1 − z)·ln(1 − p) + Σ S·ln(1 + p·d).
"""

import cython
from cython.cimports.libc.math import sqrt

PRECISION = cython.declare(cython.double, 1e-13)
"""The prediction is found when bets gain at most this together, whatever the label."""
MOST_STEPS = cython.declare(cython.Py_ssize_t, 100)
QUICK_STEPS = cython.declare(cython.Py_ssize_t, 8)
"""Newton steps that are tried before a bracket is kept."""


def balanced(size: cython.Py_ssize_t, z: cython.double, d: cython.p_double, stakes: cython.p_double) -> cython.double:
    """Return p for an even number of stakes, 12 at most.

    The last step needs no further sums. A Newton step of length e leaves |f| ≤ e²·max|f″|/2, and with t = Σ S·q², a
    step of at most p·(1 − p)/4 has |f″|/2 ≤ |s| + 4t on its way: there q grows by a third at most, and
    p·(1 − p)·|q| ≤ 1.
    """
    a: cython.Py_ssize_t
    q: cython.double[12] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    p: cython.double = z
    for _ in range(QUICK_STEPS):
        s: cython.double = 0.0
        t: cython.double = 0.0
        s_odd: cython.double = 0.0
        t_odd: cython.double = 0.0
        for a in range(size):  # a loop of its own, in which divisions are vectorised
            q[a] = d[a] / (1.0 + p * d[a])
        for a in range(0, size, 2):  # two sums each: additions need not wait for one another
            s += stakes[a] * q[a]
            s_odd += stakes[a + 1] * q[a + 1]
            t += stakes[a] * q[a] * q[a]
            t_odd += stakes[a + 1] * q[a + 1] * q[a + 1]
        s, t = s + s_odd, t + t_odd
        spread: cython.double = p * (1.0 - p)
        slope: cython.double = (1.0 - 2.0 * p) * s - spread * t - 1.0
        step: cython.double = (p - z - spread * s) / slope if slope < 0.0 else 1.0
        p += step
        if not (0.0 < p < 1.0):
            break
        if 4.0 * abs(step) <= spread and (abs(s) + 4.0 * t) * step * step <= PRECISION * spread:
            return p
    return _bracketed(size, z, d, stakes)


@cython.cfunc
@cython.exceptval(check=False)
def _bracketed(size: cython.Py_ssize_t, z: cython.double, d: cython.p_double, stakes: cython.p_double) -> cython.double:
    """Return p by Newton steps from z in a bracket."""
    a: cython.Py_ssize_t
    p: cython.double = z
    down: cython.double = 0.0
    up: cython.double = 0.0
    for a in range(size):
        if d[a] > 0.0:
            up += stakes[a] * d[a] / (1.0 + d[a])
        else:
            down -= stakes[a] * d[a]
    low: cython.double = z / (1.0 + down)
    high: cython.double = 1.0 - (1.0 - z) / (1.0 + up)
    for _ in range(MOST_STEPS):
        s: cython.double = 0.0
        t: cython.double = 0.0
        for a in range(size):
            q: cython.double = d[a] / (1.0 + p * d[a])
            s += stakes[a] * q
            t += stakes[a] * q * q
        f: cython.double = z - p + p * (1.0 - p) * s
        if abs(f) <= PRECISION * p * (1.0 - p):
            break
        if f > 0.0:
            low = p
        else:
            high = p
        slope: cython.double = -1.0 + (1.0 - 2.0 * p) * s - p * (1.0 - p) * t
        following: cython.double = p - f / slope if slope < 0.0 else -1.0
        if not (low < following < high):
            following = sqrt(low * high) if high < 0.5 else 0.5 * (low + high)
        if abs(following - p) <= 1e-15 * p:
            break
        p = following
    return p
