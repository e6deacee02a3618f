# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The blocks of an isotonic fit with their centres of mass, from sorted groups of observations."""

import cython
import numpy as np


def centred_blocks(x, weight, positive, tied):
    """First, last and weighted mean coordinate of each block of the isotonic fit, and its value. O(k).

    Coordinates rise strictly; weights are positive. All are arrays of shape (k,). A block is joined to the one before
    if its value is not above that one's by more than the fraction `tied`.
    """
    columns = [np.ascontiguousarray(column, dtype=np.float64) for column in (x, weight, positive)]
    if not len(columns[0]) == len(columns[1]) == len(columns[2]):
        raise ValueError("the lengths of the columns differ")
    starts = np.empty(len(columns[0]) + 1, dtype=np.intp)
    blocks = np.empty((4, len(columns[0])))
    number = _fill(*columns, tied, starts, np.empty((2, len(columns[0]))), blocks)
    return tuple(column[:number].copy() for column in blocks)


@cython.ccall
@cython.locals(i=cython.Py_ssize_t, j=cython.Py_ssize_t, n=cython.Py_ssize_t, number=cython.Py_ssize_t)
@cython.locals(w=cython.double, p=cython.double, mean=cython.double, before=cython.double, value=cython.double)
def _fill(
    x: cython.const[cython.double][::1],
    weight: cython.const[cython.double][::1],
    positive: cython.const[cython.double][::1],
    tied: cython.double,
    starts: cython.Py_ssize_t[::1],
    masses: cython.double[:, ::1],
    out: cython.double[:, ::1],
) -> cython.Py_ssize_t:
    """Write the blocks to `out`; their number."""
    n = number = 0
    for i in range(x.shape[0]):  # pool adjacent violators
        w, p, starts[n] = weight[i], positive[i], i
        while n > 0 and masses[1, n - 1] * w >= p * masses[0, n - 1]:
            n -= 1
            w += masses[0, n]
            p += masses[1, n]
        masses[0, n], masses[1, n] = w, p
        n += 1
        starts[n] = i + 1
    before = -1.0
    for i in range(n):
        value = masses[1, i] / masses[0, i]
        if value - before > tied * value:
            starts[number] = starts[i]
            number += 1
        before = value
    starts[number] = x.shape[0]
    for i in range(number):
        w = p = mean = 0.0
        for j in range(starts[i], starts[i + 1]):
            w += weight[j]
            p += positive[j]
        for j in range(starts[i], starts[i + 1]):
            mean += weight[j] / w * x[j]  # divided first: then neither the product nor the sum can overflow
        out[0, i], out[1, i] = x[starts[i]], x[starts[i + 1] - 1]
        out[2, i] = min(max(mean, out[0, i]), out[1, i])
        out[3, i] = p / w
    return number
