# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The levels of the fields of an observation, the variance of the levels of each field, and weights of forecasts.

Symbols, k being the level at place j, which is a field or what is made of fields, and a a term of the level:

    H[k, a], E[k, a]         sums of natural parameters of a term, with the mean m = E/(H + 1/τ²) and the variance
                             v = 1/(H + 1/τ²)
    τ²                       the variance of the levels of a place: (k₀τ₀ + S)/(k₀ + K), K being the number of levels,
                             C[k] = min(m², 16) + v at the last step of level k, and S = Σ C[k]; of the first two terms
    W[r, a]                  weights of forecasts that are mixed, under fixed share
"""

import cython
import numpy as np
from cython.cimports.libc.math import exp, log
from cython.cimports.streamcal.kernels.segments.level_table import LevelTable

#: The fraction of W that is redistributed after each outcome.
SHARE = 1e-5

_SHARE = cython.declare(cython.double, SHARE)
FIRST_LEVELS = cython.declare(cython.double, 4.0)
"""k₀: the number of levels that the prior of τ² counts as."""
FIRST_VARIANCE = cython.declare(cython.double, 0.02)
"""τ₀, in log-odds squared: levels differ by 0.14."""
FURTHEST = cython.declare(cython.double, 4.0)
"""A mean further from 0 counts as this in τ²."""
LARGEST = 16.0
"""The log-odds that a slope multiplies are clamped to ± this."""
MISSING = -2
"""The slot of a place without a level; `UNKNOWN` is that of a level that is not held."""


class ObservedLevels:
    """Places with a level each, and what is learned of them.

    Parameters
    ----------
    fields, size : int
        The fields of an observation, and the places; fields come first.
    most : int
        The number of levels held of each place. The level longest without an outcome makes room for a new one; it is
        forgotten, or where there is a store written to it.
    terms : int
        The terms of a level.
    layout : tuple of int
        The numbers kept of a level in double precision; from H of a term to H of the next; the numbers in single
        precision, of which C of the first two terms come first. The first number is the weight, the second H of the
        first term; E follows H.
    prior : list of list of float
        W at first, for each mixture.
    """

    def __init__(self, fields, size, most, terms, layout, prior):
        j: cython.Py_ssize_t
        self._fields, self.size, self.evicted = fields, size, 0
        self._width, self._apart, singles = layout
        self._table = LevelTable(size, most, self._width, singles)
        self._values, self._singles = self._table.values, self._table.singles
        self._precision, self._sums = np.ones((size, terms)), np.zeros((size, 2))
        self._parts = np.array([len(row) for row in prior], dtype=np.intp)
        longest = max(self._parts)
        self._prior = np.array([row + (longest - len(row)) * [0.0] for row in prior])
        self._weights = np.array(self._prior)
        self._level = [None] * size
        self._slot = np.full(size, -2, dtype=np.intp)
        for j in range(size):
            self._weigh_levels(j)

    def _find(self, j: cython.Py_ssize_t, level: object):
        """Set the level at a place, and its slot."""
        self._level[j] = level
        self._slot[j] = MISSING if level is None else self._table.find(j, level)

    def _find_fields(self, levels: list):
        j: cython.Py_ssize_t
        if len(levels) != self._fields:
            raise ValueError(f"{len(levels)} levels are not those of {self._fields} fields")
        for j in range(self._fields):
            self._find(j, levels[j])

    def _find_row(self, columns: list, i: cython.Py_ssize_t):
        j: cython.Py_ssize_t
        column: list
        for j in range(self._fields):
            column = columns[j]
            self._find(j, column[i])

    def _require_length(self, columns: list, length: cython.Py_ssize_t):
        """`ValueError` unless there is a column for each field, of this length."""
        if len(columns) != self._fields or any([len(column) != length for column in columns]):
            raise ValueError(f"expected {self._fields} columns of {length} levels")

    def _use(self, j: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the slot of the level at a place, and make it the newest."""
        if self._slot[j] < self.size:
            return self._admit(j)
        self._table.use(self._slot[j])
        return self._slot[j]

    def _admit(self, j: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Admit the level at a place, which is not held, as the newest; return its slot."""
        if self._table.is_full(j):
            if self._table.rows is None:
                self._drop(j, self._table.oldest(j))
            else:
                self._table.put_away(j, self._table.oldest(j))
            self.evicted += 1
        self._slot[j] = self._table.admit(j, self._level[j], self._slot[j])
        self._values, self._singles = self._table.values, self._table.singles
        return self._slot[j]

    def _drop(self, j: cython.Py_ssize_t, k: cython.Py_ssize_t):
        """Forget a level."""
        self._sums[j, 0] -= float(self._singles[k, 0])
        self._sums[j, 1] -= float(self._singles[k, 1])
        self._table.drop(j, k)

    def _judge(
        self, r: cython.Py_ssize_t, chances: cython.const[cython.double][:, ::1], w: cython.double
    ) -> cython.void:
        """Multiply W of a mixture by the probabilities of the label in that row to the power w, and share."""
        a: cython.Py_ssize_t
        size: cython.Py_ssize_t = self._parts[r]
        total: cython.double = 0.0
        best: cython.double = 0.0
        if w != 1.0:
            for a in range(size):
                best = max(best, chances[r, a])
        for a in range(size):
            self._weights[r, a] *= chances[r, a] if w == 1.0 else exp(w * log(chances[r, a] / best))
            total += self._weights[r, a]
        rest: cython.double = (1.0 - _SHARE) / total
        for a in range(size):
            self._weights[r, a] = rest * self._weights[r, a] + _SHARE * self._prior[r, a]

    def _weigh(self, j: cython.Py_ssize_t, k: cython.Py_ssize_t, a: cython.Py_ssize_t) -> cython.void:
        """Set C of one of the first two terms of a level, and the sum of its place with it."""
        at: cython.Py_ssize_t = 1 + self._apart * a
        variance: cython.double = 1.0 / (self._values[k, at] + self._precision[j, a])
        term: cython.double = self._values[k, at + 1] * variance
        term = min(term * term, FURTHEST * FURTHEST) + variance
        self._sums[j, a] -= float(self._singles[k, a])
        self._singles[k, a] = term
        self._sums[j, a] += float(self._singles[k, a])

    def _weigh_levels(self, j: cython.Py_ssize_t):
        """Set 1/τ² of a place."""
        a: cython.Py_ssize_t
        levels: cython.Py_ssize_t = self._table.known(j)
        for a in range(2):
            self._sums[j, a] = max(self._sums[j, a], 0.0) if levels else 0.0  # without rounding errors of what is gone
            self._precision[j, a] = (FIRST_LEVELS + levels) / (FIRST_LEVELS * FIRST_VARIANCE + self._sums[j, a])

    def _add(self, k: cython.Py_ssize_t, values: cython.const[cython.double][::1]) -> cython.void:
        """Add the sums of a level of others to those in a slot; C is set by `_weigh`."""
        a: cython.Py_ssize_t
        for a in range(self._width):
            self._values[k, a] += values[a]

    # -- saving ----------------------------------------------------------------------------------------------------

    def _weights_of(self, r: cython.Py_ssize_t) -> list:
        """Return W of a mixture."""
        return np.asarray(self._weights[r])[: self._parts[r]].tolist()

    def _load_weights(self, r: cython.Py_ssize_t, weights: object):
        """Load W of a mixture; `ValueError` if it is of another size."""
        a: cython.Py_ssize_t
        if len(weights) != self._parts[r]:
            raise ValueError(f"expected {self._parts[r]} weights")
        for a in range(self._parts[r]):
            self._weights[r, a] = weights[a]

    def _rows(self, levels: list, j: cython.Py_ssize_t) -> object:
        """Return the numbers of levels, a row each."""
        return np.array([self._table.row(self._table.find(j, level)) for level in levels])

    def _load(self, j: cython.Py_ssize_t, levels: object, rows: object, sums: object):
        """Load levels of a place and their numbers, and Σ C."""
        a: cython.Py_ssize_t
        for level, row in zip(levels, rows, strict=True):
            self._find(j, level)
            self._table.fill(self._use(j), row)
        for a in range(2):
            self._sums[j, a] = sums[a]
