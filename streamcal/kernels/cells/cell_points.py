# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The points that represent the cells of a grid in smooth fits: the mean coordinate of each label in each cell.

A row of `cells` is weight, positive weight, count, and the coordinate sums of the negative and of the positive weight.
The two labels of cell i are in the slots 2i (negatives) and 2i + 1 (positives).
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.libc.math import fabs

TIED_MEANS = 1e-9
"""Mean coordinates that differ by less than this, relative to the coordinate, belong to one score and differ by
rounding. A method that treated them as two scores would find the labels of that score perfectly separated."""

_TIED_MEANS = cython.declare(cython.double, TIED_MEANS)


def points_of(
    cells: cython.const[cython.double][:, ::1], i: cython.Py_ssize_t, low: cython.double, high: cython.double
):
    """Return the mean coordinate and weight of the negatives of cell i, from `low` to `high`, and of its positives."""
    points: cython.double[::1] = np.empty(4).data
    find_points(cells, i, low, high, points)
    return points[0], points[1], points[2], points[3]


def all_points(
    cells: cython.const[cython.double][:, ::1],
    borders: cython.const[cython.double][::1],
):
    """Return the slots in use, ascending, the mean coordinates of their points, and their weights: shape (k,)."""
    i: cython.Py_ssize_t
    label: cython.int
    number: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t = cells.shape[0]
    slots = np.empty(2 * size, dtype=np.intp)
    x, w = np.empty(2 * size), np.empty(2 * size)
    to_slots: cython.Py_ssize_t[::1] = slots
    to_x: cython.double[::1] = x
    to_w: cython.double[::1] = w
    points: cython.double[::1] = np.empty(4).data
    for i in range(size):
        if cells[i, 0] > 0.0:
            find_points(cells, i, borders[i], borders[i + 1], points)
            for label in range(2):
                if points[2 * label + 1] > 0.0:
                    to_slots[number] = 2 * i + label
                    to_x[number], to_w[number] = points[2 * label], points[2 * label + 1]
                    number += 1
    return slots[:number], x[:number], w[:number]


def find_points(
    cells: cython.const[cython.double][:, ::1],
    i: cython.Py_ssize_t,
    low: cython.double,
    high: cython.double,
    points: cython.double[::1],
) -> cython.void:
    """Write to `points` what `points_of` returns."""
    weight: cython.double = cells[i, 0]
    positive: cython.double = cells[i, 1]
    negative: cython.double = weight - positive
    mean: cython.double
    left: cython.double
    right: cython.double
    points[0] = points[1] = points[2] = points[3] = 0.0
    if not weight > 0.0:
        return
    mean = (cells[i, 3] + cells[i, 4]) / weight
    left = cells[i, 3] / negative if negative > 0.0 else mean
    right = cells[i, 4] / positive if positive > 0.0 else mean
    if fabs(right - left) <= _TIED_MEANS * max(1.0, fabs(mean)):
        left = right = mean
    # Within the cell: retractions of heavy observations may have left rounding errors in the sums.
    points[0], points[1] = min(max(left, low), high), negative
    points[2], points[3] = min(max(right, low), high), positive
