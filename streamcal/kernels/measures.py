# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Losses and sums of many forecasts at once, for the streaming measures; those of one forecast are in `metrics/`."""

import cython
import numpy as np

if not cython.compiled:
    import math

    log, log1p, floor, inf = math.log, math.log1p, math.floor, math.inf
else:
    from cython.cimports.libc.math import INFINITY as inf
    from cython.cimports.libc.math import floor, log, log1p


def log_losses(p: cython.const[cython.double][::1]):
    """−log p and −log(1 − p) for p in [0, 1], two arrays; infinite where the probability is 0."""
    n: cython.Py_ssize_t = p.shape[0]
    i: cython.Py_ssize_t
    positive, negative = np.empty(n), np.empty(n)
    of_positive: cython.double[::1] = positive
    of_negative: cython.double[::1] = negative
    for i in range(n):
        of_positive[i] = -log(p[i]) if p[i] > 0.0 else inf
        of_negative[i] = -log1p(-p[i]) if p[i] < 1.0 else inf
    return positive, negative


def add_to_cells(
    table: cython.double[:, ::1],
    p: cython.const[cython.double][::1],
    of_positive: cython.const[cython.double][::1],
    of_negative: cython.const[cython.double][::1],
    y: cython.const[cython.double][::1],
    w: cython.const[cython.double][:],
    per_logit: cython.double,
):
    """Add forecasts to their cells of the log-odds.

    Parameters
    ----------
    table : array of shape (2c + 1, 7)
        Row c + k has cell k = ⌊per_logit ⋅ log(p / (1 − p))⌋, clipped at ±c: the lowest and the highest p, the number
        of forecasts, Σ w, Σ w², Σ w p and Σ w y. Empty cells have the lowest p 1 and the highest p 0.
    p, of_positive, of_negative : array of shape (n,)
        Probabilities, and `log_losses` of them.
    y, w : array of shape (n,)
        Labels, 0.0 or 1.0, and weights; those of weight 0 are left out.
    per_logit : float
        Cells per unit of log-odds.
    """
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    last: cython.Py_ssize_t = table.shape[0] // 2
    place: cython.double
    for i in range(p.shape[0]):
        if w[i] <= 0.0:
            continue
        place = per_logit * (of_negative[i] - of_positive[i])
        k = 0 if place <= -last else 2 * last if place >= last else last + cython.cast(cython.Py_ssize_t, floor(place))
        table[k, 0] = min(table[k, 0], p[i])
        table[k, 1] = max(table[k, 1], p[i])
        table[k, 2] += 1.0
        table[k, 3] += w[i]
        table[k, 4] += w[i] * w[i]
        table[k, 5] += w[i] * p[i]
        table[k, 6] += w[i] * y[i]


def add_differences(
    sums: cython.double[::1],
    differences: cython.const[cython.double][::1],
    others: cython.const[cython.double][::1],
):
    """Add differences of losses one after another to the sums of `LogLossDifference`.

    Parameters
    ----------
    sums : array of 4
        The number of differences, their sum, the sum of their squared deviations from the mean before each, and the
        largest deviation that was possible.
    differences, others : array of shape (n,)
        The difference for the label that came, and for the other one.
    """
    i: cython.Py_ssize_t
    count: cython.double = sums[0]
    total: cython.double = sums[1]
    squares: cython.double = sums[2]
    largest: cython.double = sums[3]
    mean: cython.double
    deviation: cython.double
    for i in range(differences.shape[0]):
        mean = total / count if count > 0.0 else 0.0
        deviation = differences[i] - mean
        largest = max(largest, abs(deviation), abs(others[i] - mean))
        count += 1.0
        total += differences[i]
        squares += deviation * deviation
    sums[0] = count
    sums[1] = total
    sums[2] = squares
    sums[3] = largest
