# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Fits to all observations, summed at knots: the Venn-Abers curve, and a line in log-odds."""

import cython
import numpy as np
from cython.cimports.libc.math import log
from cython.cimports.streamcal.kernels.common.logistic import sigmoid

LARGEST = cython.declare(cython.double, 16.0)
"""Log-odds of forecasts stay within ± this."""
STEPS = cython.declare(cython.int, 50)
"""Steps of `fit_line`, at most; 5 as a rule. A step changes slope and offset by 1 at most."""
ACCURACY = cython.declare(cython.double, 1e-9)
"""`fit_line` ends where a step is this short in slope and offset."""


@cython.cfunc
@cython.exceptval(check=False)
def _pooled(
    knot: cython.Py_ssize_t,
    extra: cython.double,
    sums: cython.const[cython.double][:, ::1],
    blocks: cython.double[:, ::1],
    ends: cython.Py_ssize_t[:, ::1],
) -> cython.double:
    """Return the isotonic fit at a knot with one more observation there, whose label is `extra`.

    The blocks of the fit to the knots below are found backwards from their last one, those above forwards.
    """
    n: cython.double = sums[0, knot] + sums[1, knot] + 1.0
    positive: cython.double = sums[1, knot] + extra
    below: cython.Py_ssize_t = knot - 1
    above: cython.Py_ssize_t = knot + 1
    merged: cython.bint = True
    while merged:
        merged = False
        while below >= 0 and blocks[1, below] * n >= positive * blocks[0, below]:
            n += blocks[0, below]
            positive += blocks[1, below]
            below = ends[0, below] - 1
            merged = True
        while above < sums.shape[1] and blocks[3, above] * n <= positive * blocks[2, above]:
            n += blocks[2, above]
            positive += blocks[3, above]
            above = ends[1, above] + 1
            merged = True
    return positive / n


@cython.cfunc
@cython.exceptval(check=False)
def _set_blocks(
    sums: cython.const[cython.double][:, ::1], blocks: cython.double[:, ::1], ends: cython.Py_ssize_t[:, ::1]
) -> cython.void:
    """Set the last block of the isotonic fit to the knots up to each, and the first one from each on.

    A block is (weight, positive weight) and the knot at its other end. Empty knots join the block beside them.
    """
    i: cython.Py_ssize_t
    k: cython.Py_ssize_t
    size: cython.Py_ssize_t = sums.shape[1]
    n: cython.double
    positive: cython.double
    for i in range(size):
        n, positive, k = sums[0, i] + sums[1, i], sums[1, i], i - 1
        while k >= 0 and blocks[1, k] * n >= positive * blocks[0, k]:
            n += blocks[0, k]
            positive += blocks[1, k]
            k = ends[0, k] - 1
        blocks[0, i], blocks[1, i], ends[0, i] = n, positive, k + 1
    for i in range(size - 1, -1, -1):
        n, positive, k = sums[0, i] + sums[1, i], sums[1, i], i + 1
        while k < size and blocks[3, k] * n <= positive * blocks[2, k]:
            n += blocks[2, k]
            positive += blocks[3, k]
            k = ends[1, k] + 1
        blocks[2, i], blocks[3, i], ends[1, i] = n, positive, k - 1


def draw(sums: cython.const[cython.double][:, ::1], out: cython.double[::1]):
    """Write the log-odds of the log-minimax point of the Venn-Abers interval at each knot to `out`.

    `sums`, of shape (2, knots), are the weights of negatives and of positives. The interval at a knot has as its ends
    the isotonic fits there with one more observation of weight 1, negative and positive. O(knots) memory, O(knots²)
    time at worst.
    """
    k: cython.Py_ssize_t
    lower: cython.double
    upper: cython.double
    size: cython.Py_ssize_t = sums.shape[1]
    if sums.shape[0] != 2 or out.shape[0] != size:
        raise ValueError(f"sums of shape {(sums.shape[0], size)} have no curve of {out.shape[0]} knots")
    blocks: cython.double[:, ::1] = np.zeros((4, size))
    ends: cython.Py_ssize_t[:, ::1] = np.zeros((2, size), dtype=np.intp)
    _set_blocks(sums, blocks, ends)
    for k in range(size):
        lower = _pooled(k, 0.0, sums, blocks, ends)
        upper = _pooled(k, 1.0, sums, blocks, ends)
        if upper <= 0.0 or lower >= 1.0:
            out[k] = -LARGEST if upper <= 0.0 else LARGEST
        else:
            out[k] = min(max(log(upper / (1.0 - lower)), -LARGEST), LARGEST)


def fit_line(
    sums: cython.const[cython.double][:, ::1],
    slope: cython.double,
    offset: cython.double,
    prior: tuple,
):
    """Fit σ(slope·x + offset) to the sums at all knots but the first and the last by damped Newton steps.

    The search starts at the given slope and offset. The penalty is ½ dᵀA₀d, with d = (slope − 1, offset) and `prior`
    the entries of A₀: of the slope, mixed, of the offset.

    Returns
    -------
    tuple of float
        Slope and offset.
    """
    k: cython.Py_ssize_t
    last: cython.Py_ssize_t = sums.shape[1] - 1
    unit: cython.double = 2.0 * LARGEST / last
    a0: cython.double = prior[0]
    b0: cython.double = prior[1]
    c0: cython.double = prior[2]
    a: cython.double
    b: cython.double
    c: cython.double
    n: cython.double
    x: cython.double
    p: cython.double
    g: cython.double
    h: cython.double
    for _ in range(STEPS):
        along: cython.double = a0 * (slope - 1.0) + b0 * offset
        up: cython.double = b0 * (slope - 1.0) + c0 * offset
        a, b, c = a0, b0, c0
        for k in range(1, last):
            n = sums[0, k] + sums[1, k]
            if n > 0.0:
                x = unit * k - LARGEST
                p = sigmoid(slope * x + offset)
                g = n * p - sums[1, k]
                h = n * p * (1.0 - p)
                along += g * x
                up += g
                a += h * x * x
                b += h * x
                c += h
        det: cython.double = a * c - b * b
        ds: cython.double = (c * along - b * up) / det
        do: cython.double = (a * up - b * along) / det
        longest: cython.double = max(abs(ds), abs(do))
        damping: cython.double = 1.0 / longest if longest > 1.0 else 1.0
        slope -= damping * ds
        offset -= damping * do
        if longest <= ACCURACY:
            break
    return slope, offset
