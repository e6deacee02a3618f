# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The points of a fit in numbered slots, in the order of their last change.

Each has a bound on the weight of all points up to it, so that a pass can leave out those before the first that matters:
under a short half-life nearly all. A replaced point leaves an entry of weight 0, and these are dropped when all entries
are in use.
"""

from __future__ import annotations

import cython
import numpy as np

#: Entries beside one for each slot.
ROOM = 256
#: A point that weighs more, relative to what is left of its label, leaves too much rounding in the sum of weights.
_HEAVY = cython.declare(cython.double, 1024.0)


class RecentPoints:
    """Two features and a weight for each slot in use; even slots hold negative weight, odd ones positive."""

    def __init__(self, size):
        self.place = np.full(size, -1, dtype=np.intp).data
        self.slot = np.full(size + ROOM, -1, dtype=np.intp).data
        self.u, self.v, self.negative, self.positive, self.upto = (np.zeros(size + ROOM).data for _ in range(5))
        self.weight, self.low, self.high = (np.zeros(2).data for _ in range(3))
        self.end = self.live = self.compacted = 0

    def load(
        self,
        slots: cython.const[cython.Py_ssize_t][::1],
        u: cython.const[cython.double][::1],
        v: cython.const[cython.double][::1],
        w: cython.const[cython.double][::1],
    ):
        """Replace all points by these, the lightest first."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        for i in range(self.place.shape[0]):
            self.place[i] = -1
        self.end = self.live = 0
        self.weight[0] = self.weight[1] = 0.0
        order: cython.const[cython.Py_ssize_t][::1] = np.argsort(w, kind="stable")
        for j in range(order.shape[0]):
            i = order[j]
            self.replace(slots[i], u[i], v[i], w[i])

    def _changes(self, slot: cython.Py_ssize_t, u: cython.double, v: cython.double, w: cython.double) -> cython.bint:
        """Return whether the point of a slot is another one."""
        i: cython.Py_ssize_t = self.place[slot]
        if i < 0:
            return w > 0.0
        return self._weight(i) != w or self.u[i] != u or self.v[i] != v

    def _weight(self, i: cython.Py_ssize_t) -> cython.double:
        """Return the weight of an entry, which has one label."""
        return self.negative[i] + self.positive[i]

    def replace(self, slot: cython.Py_ssize_t, u: cython.double, v: cython.double, w: cython.double) -> cython.void:
        """Replace the point of a slot; weight 0 for none."""
        i: cython.Py_ssize_t = self.place[slot]
        gone: cython.double = 0.0
        if i >= 0:
            gone = self._weight(i)
            self.weight[slot & 1] -= gone
            self.negative[i] = self.positive[i] = 0.0
            self.slot[i] = self.place[slot] = -1
            self.live -= 1
            if i == self.end - 1:
                self.end = i
        if w > 0.0:
            if self.live == 0:
                self.end = 0
                self.weight[0] = self.weight[1] = 0.0
                self.low[0] = self.high[0] = u
                self.low[1] = self.high[1] = v
            elif self.end == self.slot.shape[0]:
                self._compact()
            i = self.end
            self.u[i], self.v[i] = u, v
            self.negative[i], self.positive[i] = (0.0, w) if slot & 1 else (w, 0.0)
            self.upto[i] = (self.upto[i - 1] if i > 0 else 0.0) + w
            self.slot[i], self.place[slot] = slot, i
            self.end = i + 1
            self.live += 1
            self.weight[slot & 1] += w
            self.low[0], self.high[0] = min(self.low[0], u), max(self.high[0], u)
            self.low[1], self.high[1] = min(self.low[1], v), max(self.high[1], v)
        if gone > _HEAVY * self.weight[slot & 1]:  # its rounding is left in the sum
            self.weight[slot & 1] = 0.0
            for i in range(self.end):
                if self.slot[i] >= 0 and self.slot[i] & 1 == slot & 1:
                    self.weight[slot & 1] += self._weight(i)

    def _compact(self) -> cython.void:
        """Drop the entries without a point, and sum and measure the others again."""
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t = 0
        up: cython.double = 0.0
        self.weight[0] = self.weight[1] = 0.0
        for i in range(self.end):
            if self.slot[i] >= 0:
                if k == 0:
                    self.low[0] = self.high[0] = self.u[i]
                    self.low[1] = self.high[1] = self.v[i]
                self.u[k], self.v[k], self.slot[k] = self.u[i], self.v[i], self.slot[i]
                self.negative[k], self.positive[k] = self.negative[i], self.positive[i]
                self.place[self.slot[k]] = k
                up += self._weight(k)
                self.upto[k] = up
                self.weight[self.slot[k] & 1] += self._weight(k)
                self.low[0], self.high[0] = min(self.low[0], self.u[k]), max(self.high[0], self.u[k])
                self.low[1], self.high[1] = min(self.low[1], self.v[k]), max(self.high[1], self.v[k])
                k += 1
        self.end = k
        self.compacted += 1

    def _scale(self, factor: cython.double) -> cython.void:
        """Multiply all weights."""
        i: cython.Py_ssize_t
        for i in range(self.end):
            self.negative[i] *= factor
            self.positive[i] *= factor
            self.upto[i] *= factor
        self.weight[0] *= factor
        self.weight[1] *= factor

    def _above(self, limit: cython.double) -> cython.Py_ssize_t:
        """Return the first entry such that those before it weigh no more than `limit`."""
        low: cython.Py_ssize_t = 0
        high: cython.Py_ssize_t = self.end
        middle: cython.Py_ssize_t
        while low < high:
            middle = (low + high) // 2
            if self.upto[middle] > limit:
                high = middle
            else:
                low = middle + 1
        return low
