# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Losses and sums of many forecasts at once, for the streaming measures; those of one forecast are in `metrics/`."""

import cython
import numpy as np
from cython.cimports.libc.math import fabs, floor, log, log1p

inf = cython.declare(cython.double, float("inf"))


def log_losses(p: cython.const[cython.double][::1]):
    """Return −log p and −log(1 − p) for p in [0, 1], two arrays; infinite where the probability is 0."""
    n: cython.Py_ssize_t = p.shape[0]
    i: cython.Py_ssize_t
    positive, negative = np.empty(n), np.empty(n)
    of_positive: cython.double[::1] = positive
    of_negative: cython.double[::1] = negative
    for i in range(n):
        of_positive[i] = -log(p[i]) if p[i] > 0.0 else inf
        of_negative[i] = -log1p(-p[i]) if p[i] < 1.0 else inf
    return positive, negative


@cython.final
@cython.cclass
class CellTable:
    """Sums of forecasts by cell of their log-odds z: cell ⌊per_logit ⋅ z⌋, and beyond ±last cells of ¼ each.

    Parameters
    ----------
    last : int
        There are 2 last cells of 1/per_logit.
    per_logit : float
        Cells per unit of log-odds.
    tail : int
        The number of cells of ¼ at each end; the outermost counts everything beyond.

    Notes
    -----
    `rows`, an array of shape (2 tail + 2 last, 8), has the cells in ascending order: the lowest and the highest p, the
    number of forecasts, Σ w, Σ w², Σ w p, Σ w y and Σ w² y. It is zero where no forecast is held: memory that nothing
    was written to is taken from the operating system by page, so that a few cells take a few pages.
    """

    rows = cython.declare(object, visibility="readonly")
    _rows: cython.double[:, ::1]
    _last: cython.Py_ssize_t
    _per_logit: cython.double
    _tail: cython.Py_ssize_t

    def __init__(self, last: cython.Py_ssize_t, per_logit: cython.double, tail: cython.Py_ssize_t):
        self.rows = np.zeros((2 * tail + 2 * last, 8))
        self._rows = self.rows
        self._last = last
        self._per_logit = per_logit
        self._tail = tail

    def row_of(self, p: cython.double) -> cython.Py_ssize_t:
        """Return the row of a probability in [0, 1]."""
        return self._row_of(p)

    def add(self, p: cython.double, y: cython.double, w: cython.double):
        """Add a forecast, y 0 or 1, w > 0. O(1)."""
        self._add(self._row_of(p), p, y, w)

    def take(self, p: cython.double, y: cython.double, w: cython.double) -> cython.bint:
        """Remove an earlier `add`; False, and no change, where its cell is empty. O(1).

        Sums that remain beside a much larger removed weight are rounding errors, and may be 0 or less.
        """
        i: cython.Py_ssize_t = self._row_of(p)
        k: cython.int
        if self._rows[i, 2] == 0.0:
            return False
        if self._rows[i, 2] == 1.0:
            for k in range(8):
                self._rows[i, k] = 0.0
            return True
        self._rows[i, 2] -= 1.0
        self._rows[i, 3] -= w
        self._rows[i, 4] -= w * w
        self._rows[i, 5] -= w * p
        self._rows[i, 6] -= w * y
        self._rows[i, 7] -= w * w * y
        return True

    def add_many(
        self,
        p: cython.const[cython.double][::1],
        y: cython.const[cython.double][::1],
        w: cython.const[cython.double][:],
        of_positive: cython.const[cython.double][::1],
        of_negative: cython.const[cython.double][::1],
    ):
        """Do `add` for arrays of shape (n,), with their `log_losses`, leaving out rows of weight 0. O(n).

        The losses are given because other measures of the same forecasts need them too (`Forecasts.log_losses`).
        """
        i: cython.Py_ssize_t
        if {y.shape[0], w.shape[0], of_positive.shape[0], of_negative.shape[0]} != {p.shape[0]}:
            raise ValueError("the lengths differ")
        for i in range(p.shape[0]):
            if w[i] > 0.0:
                self._add(self._row_at(of_negative[i] - of_positive[i]), p[i], y[i], w[i])

    def merge(self, rows: cython.const[cython.double][:, ::1]):
        """Add the rows of another table of this size, which may be this one. O(rows)."""
        i: cython.Py_ssize_t
        k: cython.int
        if rows.shape[0] != self._rows.shape[0] or rows.shape[1] != self._rows.shape[1]:
            raise ValueError("the tables are of other sizes")
        for i in range(rows.shape[0]):
            if rows[i, 2] == 0.0:
                continue
            if self._rows[i, 2] == 0.0:
                self._rows[i, 0], self._rows[i, 1] = rows[i, 0], rows[i, 1]
            self._rows[i, 0] = min(self._rows[i, 0], rows[i, 0])
            self._rows[i, 1] = max(self._rows[i, 1], rows[i, 1])
            for k in range(2, 8):
                self._rows[i, k] += rows[i, k]

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _row_of(self, p: cython.double) -> cython.Py_ssize_t:
        return self._row_at(inf if p >= 1.0 else log(p) - log1p(-p) if p > 0.0 else -inf)

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _row_at(self, log_odds: cython.double) -> cython.Py_ssize_t:
        place: cython.double = self._per_logit * log_odds
        beyond: cython.double = (fabs(place) - self._last) / (0.25 * self._per_logit)
        if -self._last <= place < self._last:
            return self._tail + self._last + cython.cast(cython.Py_ssize_t, floor(place))
        cell: cython.Py_ssize_t = self._tail - 1 if beyond >= self._tail else cython.cast(cython.Py_ssize_t, beyond)
        return self._tail - 1 - cell if place < 0.0 else self._tail + 2 * self._last + cell

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _add(self, i: cython.Py_ssize_t, p: cython.double, y: cython.double, w: cython.double) -> cython.void:
        if self._rows[i, 2] == 0.0:
            self._rows[i, 0] = self._rows[i, 1] = p
        elif p < self._rows[i, 0]:
            self._rows[i, 0] = p
        elif p > self._rows[i, 1]:
            self._rows[i, 1] = p
        self._rows[i, 2] += 1.0
        self._rows[i, 3] += w
        self._rows[i, 4] += w * w
        self._rows[i, 5] += w * p
        self._rows[i, 6] += w * y
        self._rows[i, 7] += w * w * y


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
    if others.shape[0] != differences.shape[0] or sums.shape[0] != 4:
        raise ValueError("the lengths differ")
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
