# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Platt scaling by Newton's method, on a table of distinct scores.

Symbols, after paper 003 section 5.1 with the sign of the slope turned, so that it grows with the score:

    x_j            the distinct scores (features), with negative weight neg_j and positive weight pos_j
    t_plus, t_minus   the regularised targets of the two classes, eqs. (6) and (7)
    w_j = neg_j + pos_j,   a_j = pos_j t_plus + neg_j t_minus,   b_j = w_j − a_j
    p_j = 1 / (1 + exp(−(A x_j + B)))
    minimise  L(A, B) = −Σ a_j log p_j + b_j log(1 − p_j)   over A ≥ 0

Inside, z = (x − mean) / deviation and η = α z + β, so that scores near ±700 and scores within 1e-9 of each
other make the same well-conditioned problem; all weights are divided by their sum.

L is convex and at A = 0 its best B is the log odds of Σa/Σw. So the sign of ∂L/∂A there decides at once
whether A = 0 is the answer; if not, the minimum has A > 0 and needs no constraint.
"""

import cython
from cython.cimports.libc.math import exp, fabs, isfinite, log, log1p, sqrt

SOLVED, NO_DATA, ITERATION_LIMIT, NOT_FINITE, UNBOUNDED = 0, 1, 2, 3, 4
STATUS = ("solved", "no data", "iteration limit", "not finite", "unbounded")

MAX_ITERATIONS = cython.declare(cython.int, 100)
MAX_HALVINGS = cython.declare(cython.int, 60)

GRADIENT_FLOOR = cython.declare(cython.double, 1e-15)
"""Per unit of weight. Below it a Newton step changes nothing in the last place: stop."""

GRADIENT_TOLERANCE = cython.declare(cython.double, 1e-12)
"""Per unit of weight. Where rounding stops further progress, the point is accepted below this."""


@cython.cfunc
@cython.exceptval(check=False)
def _assess(
    x: cython.const[cython.double][::1],
    neg: cython.const[cython.double][::1],
    pos: cython.const[cython.double][::1],
    frame: cython.double[::1],
    alpha: cython.double,
    beta: cython.double,
    out: cython.double[::1],
) -> cython.void:
    """out = (L, ∂α, ∂β, ∂αα, ∂αβ, ∂ββ) at (α, β); frame = (mean, deviation, total weight, t_plus, t_minus)."""
    j: cython.Py_ssize_t
    z: cython.double
    eta: cython.double
    w: cython.double
    a: cython.double
    e: cython.double
    p: cython.double
    slope: cython.double
    curve: cython.double
    loss: cython.double = 0.0
    g0: cython.double = 0.0
    g1: cython.double = 0.0
    h0: cython.double = 0.0
    h1: cython.double = 0.0
    h2: cython.double = 0.0
    for j in range(x.shape[0]):
        w = (neg[j] + pos[j]) / frame[2]
        a = (pos[j] / frame[2]) * frame[3] + (neg[j] / frame[2]) * frame[4]
        z = (x[j] - frame[0]) / frame[1]
        eta = alpha * z + beta
        e = exp(-fabs(eta))
        p = 1.0 / (1.0 + e) if eta >= 0.0 else e / (1.0 + e)
        slope = w * p - a
        curve = w * e / ((1.0 + e) * (1.0 + e))
        # −a log p − b log(1−p) = w log(1 + exp η) − a η
        loss += w * (log1p(e) + (eta if eta > 0.0 else 0.0)) - a * eta
        g0 += slope * z
        g1 += slope
        h0 += curve * z * z
        h1 += curve * z
        h2 += curve
    out[0] = loss
    out[1] = g0
    out[2] = g1
    out[3] = h0
    out[4] = h1
    out[5] = h2


@cython.cfunc
@cython.exceptval(check=False)
def _describe(
    x: cython.const[cython.double][::1],
    neg: cython.const[cython.double][::1],
    pos: cython.const[cython.double][::1],
    frame: cython.double[::1],
) -> cython.double:
    """Fill `frame`; return Σ (a_j − w_j p̄) z_j, minus the slope of L in α at α = 0. Not finite on bad data."""
    j: cython.Py_ssize_t
    w: cython.double
    a: cython.double
    largest: cython.double = 0.0
    total: cython.double = 0.0
    mean: cython.double = 0.0
    spread: cython.double = 0.0
    share: cython.double = 0.0
    covariance: cython.double = 0.0
    for j in range(x.shape[0]):
        total += neg[j] + pos[j]
        share += pos[j]
    frame[2] = total
    if not isfinite(total) or total <= 0.0:
        return total
    for j in range(x.shape[0]):
        mean += (x[j] - x[0]) * ((neg[j] + pos[j]) / total)
    mean = x[0] + mean
    for j in range(x.shape[0]):
        if neg[j] + pos[j] > 0.0:
            largest = max(largest, fabs(x[j] - mean))
    if largest > 0.0:
        for j in range(x.shape[0]):
            w = (neg[j] + pos[j]) / total
            spread += w * ((x[j] - mean) / largest) * ((x[j] - mean) / largest)
    frame[0] = mean
    frame[1] = sqrt(spread) * largest
    frame[5] = (share / total) * frame[3] + (1.0 - share / total) * frame[4]
    if not isfinite(frame[1]):
        return frame[1]
    if frame[1] > 0.0:
        for j in range(x.shape[0]):
            a = (pos[j] / total) * frame[3] + (neg[j] / total) * frame[4]
            w = (neg[j] + pos[j]) / total
            covariance += (a - w * frame[5]) * ((x[j] - mean) / frame[1])
    return covariance


def fit(
    x: cython.const[cython.double][::1],
    neg: cython.const[cython.double][::1],
    pos: cython.const[cython.double][::1],
    t_plus: cython.double,
    t_minus: cython.double,
    slope0: cython.double = 0.0,
    offset0: cython.double = 0.0,
):
    """Minimise L from the warm start (slope0, offset0).

    Returns (slope A, offset B, status, iterations, gradient norm per unit of weight in the scaled problem).
    O(len(x)) per iteration; two or three iterations from a good start, some ten from a bad one.
    """
    frame = array_of(6)
    view: cython.double[::1] = frame
    now: cython.double[::1] = array_of(6)
    trial: cython.double[::1] = array_of(6)
    covariance: cython.double
    alpha: cython.double
    beta: cython.double
    base: cython.double
    if not x.shape[0] == neg.shape[0] == pos.shape[0]:
        raise ValueError(f"lengths differ: {x.shape[0]}, {neg.shape[0]}, {pos.shape[0]}")
    view[3] = t_plus
    view[4] = t_minus
    covariance = _describe(x, neg, pos, view)
    if view[2] == 0.0:
        return 0.0, 0.0, NO_DATA, 0, 0.0
    if not isfinite(covariance) or not view[2] > 0.0:
        return 0.0, 0.0, NOT_FINITE, 0, 0.0
    if not 0.0 < view[5] < 1.0:
        return 0.0, 0.0, UNBOUNDED, 0, 0.0
    base = log(view[5] / (1.0 - view[5]))
    if covariance <= 0.0 or view[1] == 0.0:
        return 0.0, base, SOLVED, 0, 0.0
    alpha = slope0 * view[1]
    beta = offset0 + slope0 * view[0]
    return _newton(x, neg, pos, view, now, trial, alpha, beta, base)


@cython.cfunc
def _newton(
    x: cython.const[cython.double][::1],
    neg: cython.const[cython.double][::1],
    pos: cython.const[cython.double][::1],
    frame: cython.double[::1],
    now: cython.double[::1],
    trial: cython.double[::1],
    alpha: cython.double,
    beta: cython.double,
    base: cython.double,
):
    """Damped Newton: a step counts if it lowers L, or, where L no longer tells, the gradient."""
    k: cython.int
    iterations: cython.int = 0
    step: cython.double
    d0: cython.double
    d1: cython.double
    determinant: cython.double
    norm: cython.double
    _assess(x, neg, pos, frame, 0.0, base, now)
    if isfinite(alpha) and isfinite(beta) and alpha > 0.0:
        _assess(x, neg, pos, frame, alpha, beta, trial)
    else:
        trial[0] = now[0] + 1.0
    # the warm start is kept only if it is better than the cold one, (0, log odds)
    if trial[0] < now[0]:
        for k in range(6):
            now[k] = trial[k]
    else:
        alpha = 0.0
        beta = base
    norm = max(fabs(now[1]), fabs(now[2]))
    while iterations < MAX_ITERATIONS and norm > GRADIENT_FLOOR:
        iterations += 1
        determinant = now[3] * now[5] - now[4] * now[4]
        if determinant > 1e-14 * now[3] * now[5]:
            d0 = (now[4] * now[2] - now[5] * now[1]) / determinant
            d1 = (now[4] * now[1] - now[3] * now[2]) / determinant
        else:
            d0 = -now[1] / max(now[3], 1e-300)
            d1 = -now[2] / max(now[5], 1e-300)
        step = 1.0
        for _k in range(MAX_HALVINGS):
            _assess(x, neg, pos, frame, alpha + step * d0, beta + step * d1, trial)
            if trial[0] < now[0] + 1e-4 * step * (d0 * now[1] + d1 * now[2]):
                break
            if max(fabs(trial[1]), fabs(trial[2])) < 0.5 * norm and trial[0] <= now[0] + 1e-14 * fabs(now[0]):
                break
            step = 0.5 * step
        else:
            break
        alpha += step * d0
        beta += step * d1
        for k in range(6):
            now[k] = trial[k]
        norm = max(fabs(now[1]), fabs(now[2]))
    status = SOLVED if norm <= GRADIENT_TOLERANCE else ITERATION_LIMIT
    slope = alpha / frame[1]
    return slope, beta - slope * frame[0], status, iterations, norm


def array_of(length):
    """A zeroed buffer of doubles."""
    return memoryview(bytearray(8 * length)).cast("d")
