# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The groups that an observation belongs to, by its levels and the log-odds of its prediction.

The families of groups are: all observations; the levels of each field; the levels of each pair of fields; and with
bins, the bins of the log-odds, and those within each level of each field. An observation is in at most one group of
each family.
"""

import cython
import numpy as np
from cython.cimports.libc.math import floor
from cython.cimports.streamcal.kernels.common.logistic import logit
from cython.cimports.streamcal.kernels.segments.level_names import LevelPair
from cython.cimports.streamcal.kernels.segments.level_table import LevelTable

MISSING = -2
"""The slot of a family in which the observation has no group."""
FURTHEST = cython.declare(cython.double, 37.0)
"""No log-odds are further than this from 0."""
ON_EDGE = cython.declare(cython.double, 1e-9)
"""Log-odds less than this part of a bin below an edge are on it, so that rounding does not change the group."""


class Groups:
    """The groups of a stream and their numbers, in the order of their last observations.

    Parameters
    ----------
    fields : int
        The number of fields.
    pairs : list of (int, int)
        The fields of each pair.
    width : float
        The width of a bin of log-odds; 0 for no bins.
    most : int
        The number of groups held of each family.
    numbers : int
        The number of numbers kept of a group.

    Notes
    -----
    Levels are those of a `LevelTable`, None where a field has none: the observation is then in no group of that field.
    The first `size` rows of numbers are 0: a group that is not held has those of its family.
    """

    def __init__(
        self,
        fields: cython.Py_ssize_t,
        pairs: list,
        width: cython.double,
        most: cython.Py_ssize_t,
        numbers: cython.Py_ssize_t,
    ):
        self._fields, self._pairs, self._bin_width = fields, len(pairs), width
        self.size = 1 + fields + len(pairs) + (1 + fields if width > 0.0 else 0)
        self._first = np.array([i for i, _ in pairs], dtype=np.intp)
        self._second = np.array([j for _, j in pairs], dtype=np.intp)
        self._table = LevelTable(self.size, most, numbers)
        self._values = self._table.values
        self._level = [LevelPair(None, None) if self._is_double(j) else None for j in range(self.size)]
        self._reach = int(FURTHEST / width) + 1 if width > 0.0 else 0
        self._bins = list(range(-self._reach, self._reach + 1))
        self._slot = np.full(self.size, -2, dtype=np.intp)

    # -- the groups of an observation ------------------------------------------------------------------------------

    def _look(self, z: cython.double, levels: list) -> cython.int:
        """Set the group of each family, and its slot."""
        i: cython.Py_ssize_t
        for i in range(self._fields):
            self._find(1 + i, levels[i])
        return self._look_further(z)

    def _look_at(self, z: cython.double, columns: list, i: cython.Py_ssize_t) -> cython.int:
        """`_look` at row i of columns."""
        m: cython.Py_ssize_t
        column: list
        for m in range(self._fields):
            column = columns[m]
            self._find(1 + m, column[i])
        return self._look_further(z)

    def _look_further(self, z: cython.double) -> cython.int:
        """Set the groups of all families but those of single levels, which are set."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t = 1 + self._fields
        if self._slot[0] < 0:  # all observations: once held, always held
            self._find(0, 0)
        for i in range(self._pairs):
            self._find_two(j + i, self._level[1 + self._first[i]], self._level[1 + self._second[i]])
        if self._bin_width > 0.0:
            j += self._pairs
            place: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, floor(logit(z) / self._bin_width + ON_EDGE))
            number: object = self._bins[place + self._reach]
            self._find(j, number)
            for i in range(self._fields):
                self._find_two(j + 1 + i, self._level[1 + i], number)
        return 0

    def _is_double(self, j: cython.Py_ssize_t) -> cython.bint:
        """Whether a group of family j has two levels, or a level and a bin."""
        return j > self._fields and j != 1 + self._fields + self._pairs

    def _find(self, j: cython.Py_ssize_t, level: object) -> cython.int:
        """Set the group of family j by its level, and its slot."""
        self._level[j] = level
        self._slot[j] = MISSING if level is None else self._table.find(j, level)
        return 0

    def _find_two(self, j: cython.Py_ssize_t, first: object, second: object) -> cython.int:
        """`_find` of a group of two levels."""
        name: LevelPair = self._level[j]
        name.first, name.second = first, second
        self._slot[j] = MISSING if first is None or second is None else self._table.find(j, name)
        return 0

    def _named(self, j: cython.Py_ssize_t, level: object) -> cython.Py_ssize_t:
        """`_find` of a group of which two levels are given as a tuple; its slot."""
        if self._is_double(j):
            self._find_two(j, level[0], level[1])
        else:
            self._find(j, level)
        return self._slot[j]

    # -- what is asked for -----------------------------------------------------------------------------------------

    def groups(self, levels: list):
        """Return the number of groups of an observation with these levels."""
        i: cython.Py_ssize_t
        self._require_levels(levels)
        present: cython.Py_ssize_t = sum([level is not None for level in levels])
        paired: cython.Py_ssize_t = 0
        for i in range(self._pairs):
            paired += levels[self._first[i]] is not None and levels[self._second[i]] is not None
        return 1 + present + paired + (1 + present if self._bin_width > 0.0 else 0)

    def _require_levels(self, levels: list) -> cython.int:
        """`ValueError` unless there is a level for each field."""
        if len(levels) != self._fields:
            raise ValueError(f"{len(levels)} levels are not those of {self._fields} fields")
        return 0

    def _require_length(self, columns: list, length: cython.Py_ssize_t) -> cython.int:
        """`ValueError` unless there is a column for each field, of this length."""
        if len(columns) != self._fields or any([len(column) != length for column in columns]):
            raise ValueError(f"expected {self._fields} columns of {length} levels")
        return 0
