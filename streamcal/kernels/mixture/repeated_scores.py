# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Means of the labels at scores that repeat, such as those of a tree: an expert of `Auto`."""

import math

import cython
import numpy as np
from cython.cimports.streamcal.kernels.mixture.knot_sums import shrunk_log_odds

# The columns of the table.
SCORE = cython.declare(cython.Py_ssize_t, 0)
NEGATIVE = cython.declare(cython.Py_ssize_t, 1)
POSITIVE = cython.declare(cython.Py_ssize_t, 2)
TIMES = cython.declare(cython.Py_ssize_t, 3)  # labels since the score has the slot, heavy ones by their weight
LIFE = cython.declare(cython.Py_ssize_t, 4)  # other scores that may come in between

FEWEST_SLOTS, MOST_SLOTS = 32, 128
"""Slots: at first, and at most; they double when more than half of them are in use. The limit keeps an `Auto` below
40 kB (docs/auto_measured.md)."""
SPREAD = cython.declare(cython.double, 7919.371372)
SPREAD_FROM = cython.declare(cython.double, 17.0)
"""A score x is in the slot of the fraction of (x + 17) · 7919.37…, which spreads scores evenly."""
COUNT_FADES = cython.declare(cython.double, 0.001)
"""The part of the counts at a score that a unit of information there replaces."""
MOST_LIFE = cython.declare(cython.double, 64.0)
"""The number of labels at other scores of its slot after which a score that does not return has lost it."""


class RepeatedScores:
    """A table of the log-odds of scores and of the labels at each, of limited size.

    A slot belongs to one score. Another one takes it when it has come more often since than its owner.
    """

    def __init__(self):
        self.slots = self._known = 0

    def _slot(self, x):
        """Where a score is in the table, if it is there."""
        place: cython.double = (x + SPREAD_FROM) * SPREAD
        place -= cython.cast(cython.longlong, place)
        return cython.cast(cython.Py_ssize_t, place * self.slots)

    def known(self, x):
        """Return the slot of a score that has come before; −1 for another."""
        slot: cython.Py_ssize_t
        if self.slots == 0:
            return -1
        slot = self._slot(x)
        return slot if self.table[slot, SCORE] == x and self.table[slot, TIMES] >= 2.0 else -1

    def forecast(self, slot, p):
        """Return the log-odds of the mean of the labels in a slot, shrunk towards p."""
        return shrunk_log_odds(p, self.table[slot, POSITIVE], self.table[slot, NEGATIVE])

    def learn(self, x, y, w, u):
        """Count the label at its score, of weight w and of u units of information."""
        if self.slots == 0:
            self.lengthen(FEWEST_SLOTS, np.zeros((0, 5)))
        slot: cython.Py_ssize_t = self._slot(x)
        table = self.table
        if table[slot, SCORE] != x:
            table[slot, LIFE] -= 1.0
            if table[slot, LIFE] > 0.0:
                return
            if table[slot, TIMES] >= 2.0:
                self._known -= 1
            table[slot, SCORE], table[slot, NEGATIVE], table[slot, POSITIVE], table[slot, TIMES] = x, 0.0, 0.0, 0.0
        known: cython.bint = table[slot, TIMES] >= 2.0
        keep: cython.double = max(0.0, 1.0 - COUNT_FADES * u)
        table[slot, NEGATIVE] *= keep
        table[slot, POSITIVE] *= keep
        table[slot, POSITIVE if y > 0.0 else NEGATIVE] += w
        table[slot, TIMES] += max(w, 1.0)
        table[slot, LIFE] = min(table[slot, TIMES], MOST_LIFE)
        if not known and table[slot, TIMES] >= 2.0:
            self._known += 1
            if 2 * self._known > self.slots and self.slots < MOST_SLOTS:
                self.lengthen(2 * self.slots, np.array(table))

    def lengthen(self, size, entries):
        """Put entries into a table of another size."""
        self.table, self.slots = np.zeros((size, 5)), size
        self.table[:, SCORE] = math.nan
        for entry in entries[entries[:, TIMES] > 0.0]:
            np.asarray(self.table)[self._slot(entry[SCORE])] = entry
        self._known = int((np.asarray(self.table)[:, TIMES] >= 2.0).sum())

    def scores(self):
        """Return the log-odds of the scores that have come before, as far as they are in the table; in order."""
        known = np.asarray(self.table) if self.slots else np.zeros((0, 5))
        return np.sort(known[known[:, TIMES] >= 2.0, SCORE])

    def state(self):
        """Return the fields of `AutoMixture.state` that are learned here."""
        entries = np.asarray(self.table) if self.slots else np.zeros((0, 5))
        return {"repeated": entries[entries[:, TIMES] > 0.0].tolist(), "slots": max(self.slots, FEWEST_SLOTS)}
