# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Levels of the fields of a stream with their values: a limited number in memory, the others in an optional store.

A level in memory has a slot, a row of `values`. The first slots, one for each field, are reserved: the values of a
level that is only in the store are read into the slot of its field, where predictions find them like any others.
"""

import cython
import numpy as np
from cython.cimports.streamcal.kernels.segments.level_names import BITS, MULTIPLIER, LevelNames

UNKNOWN = -1
"""The slot of a level that is neither held nor in the store."""
MOST_SLOTS = cython.declare(cython.Py_ssize_t, 2147483647)
"""Slots are numbers of 32 bits."""
MOST_USES = cython.declare(cython.Py_ssize_t, 2147483647)
"""The number of the last use, of 32 bits, after which they are numbered from 1 again."""
LEAST_AGING = cython.declare(cython.Py_ssize_t, 64)
"""The number of oldest levels of a field that are sorted at once, or a sixteenth of its levels if that is more."""


class LevelIndex:
    """The slots of the levels of one field: a hash table with open addressing and linear probing.

    A cell has a slot and a mark: eight bits of the hash of the slot's level, 0 where the cell is empty. Names are
    compared where marks are equal. Between 74 % and 83 % of the cells are taken, so that a level takes 7 bytes at most.
    `names`, which calls are given, has the level of each slot, and the 32 bits of its hash that decide on its cell.

    `_aging` has the slots of the oldest levels of the field at one moment, that longest without an outcome last, and
    `_when` the number of their last use then; `_left` of them may still be the oldest.
    """

    def __init__(self):
        self.count = self._left = 0
        self._aging = self._when = np.zeros(0, dtype=np.int32)
        self._allocate(16)

    def _allocate(self, cells: cython.Py_ssize_t):
        self._cells, self._marks = np.full(cells, -1, dtype=np.int32), np.zeros(cells, dtype=np.uint8)
        self._size = cells

    def _home(self, code: cython.ulonglong) -> cython.Py_ssize_t:
        """Return the cell where the search for a level begins."""
        size: cython.ulonglong = self._size
        return cython.cast(cython.Py_ssize_t, (cython.cast(cython.ulonglong, code) * size) >> 32)

    def find(self, level: object, names: LevelNames) -> cython.Py_ssize_t:
        """Return the slot of a level, −1 where there is none."""
        code: cython.uint = _code(level)
        mark: cython.uchar = _mark(code)
        i: cython.Py_ssize_t = self._home(code)
        while self._marks[i] != 0:
            if self._marks[i] == mark and names.is_level(self._cells[i], level):
                return self._cells[i]
            i += 1
            if i == self._size:
                i = 0
        return UNKNOWN

    def add(self, slot: cython.Py_ssize_t, names: LevelNames):
        """Add the level of a slot, which is not there."""
        if 6 * (self.count + 1) > 5 * self._size:
            self._grow(names)
        self._put(names.codes[slot], slot)
        self.count += 1

    def _put(self, code: cython.uint, slot: cython.Py_ssize_t) -> cython.void:
        i: cython.Py_ssize_t = self._home(code)
        while self._marks[i] != 0:
            i += 1
            if i == self._size:
                i = 0
        self._cells[i] = slot
        self._marks[i] = _mark(code)

    def _grow(self, names: LevelNames):
        i: cython.Py_ssize_t
        cells: cython.int[::1] = self._cells
        self._allocate(self._size + self._size // 8)
        for i in range(cells.shape[0]):
            if cells[i] >= 0:
                self._put(names.codes[cells[i]], cells[i])

    def remove(self, slot: cython.Py_ssize_t, names: LevelNames) -> cython.void:
        """Remove the level of a slot, and close the gap: no search may end before its level."""
        i: cython.Py_ssize_t = self._home(names.codes[slot])
        while self._cells[i] != slot:
            i = i + 1 if i + 1 < self._size else 0
        j: cython.Py_ssize_t = i
        while True:
            j = j + 1 if j + 1 < self._size else 0
            if self._marks[j] == 0:
                break
            home: cython.Py_ssize_t = self._home(names.codes[self._cells[j]])
            if self._distance(home, j) >= self._distance(i, j):
                self._cells[i], self._marks[i] = self._cells[j], self._marks[j]
                i = j
        self._cells[i], self._marks[i] = -1, 0
        self.count -= 1

    def slots(self):
        """Return the slots of all levels, as an array."""
        cells = np.asarray(self._cells)
        return cells[cells >= 0]

    def oldest(self, used: cython.int[::1]) -> cython.Py_ssize_t:
        """Return the slot used longest ago, by the number of the last use of each slot; there is at least one."""
        while True:
            while self._left > 0:
                if used[self._aging[self._left - 1]] == self._when[self._left - 1]:
                    return self._aging[self._left - 1]
                self._left -= 1
            self._sort(np.asarray(used))

    def _sort(self, used: object):
        """Sort the oldest levels, by the number of the last use of each slot."""
        slots = self.slots()
        when = used[slots]
        self._left = min(max(len(slots) // 16, LEAST_AGING), len(slots))
        if self._left < len(slots):
            part = np.argpartition(when, self._left)[: self._left]
            slots, when = slots[part], when[part]
        order = np.argsort(-when)
        self._aging, self._when = slots[order], when[order]

    def forget_order(self) -> cython.void:
        """Discard the sorted oldest levels: the uses have been renumbered."""
        self._left = 0

    def _distance(self, i: cython.Py_ssize_t, j: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the steps from cell i to cell j."""
        return j - i if j >= i else j - i + self._size


@cython.cfunc
@cython.inline
@cython.exceptval(0, check=True)
def _code(level: object) -> cython.uint:
    """Return the upper half of the product of a hash, 32 bits."""
    return cython.cast(cython.uint, ((cython.cast(cython.ulonglong, hash(level)) * MULTIPLIER) & BITS) >> 32)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _mark(code: cython.uint) -> cython.uchar:
    """Bits of a code that hardly decide on the cell; never 0."""
    return cython.cast(cython.uchar, (code & 0xFF) | 1)


class LevelTable:
    """Levels and their values, in the order of their last outcomes.

    Parameters
    ----------
    fields, width : int
        Their number, and that of the values of a level.
    most : int
        The number of levels held of each field.
    singles : int
        The number of further values of a level, which are kept in single precision.

    Notes
    -----
    A level is a text, a whole number of 64 bits, a tuple of levels, or a `LevelPair`, which is read as a tuple but is
    another level than it. O(1) for each call but `levels`, `oldest` on average. A level takes 8 bytes for each value, 4
    for each single, some 24 for its place, and its name. Arrays grow in place by a 64th. `rows`, the store, reads and
    writes the values of a level, followed by its singles, as an array and as bytes.
    """

    def __init__(
        self,
        fields: cython.Py_ssize_t,
        most: cython.Py_ssize_t,
        width: cython.Py_ssize_t,
        singles: cython.Py_ssize_t = 0,
    ):
        self.most = most
        self.rows = None
        single = np.zeros((fields, singles), dtype=np.float32)
        self._arrays = [np.zeros((fields, width)), np.zeros(fields, dtype=np.int32), single]
        self.values, self._used, self.singles = self._arrays
        self.absent = np.zeros(fields, dtype=np.intp)
        self._clock = 0
        self._indexes = [LevelIndex() for _ in range(fields)]
        self._names, self._free, self._count = LevelNames(fields), [], fields
        self._sought, self._present = [None] * fields, [False] * fields

    def find(self, j: cython.Py_ssize_t, level: object) -> cython.Py_ssize_t:
        """Return the slot of a level of field j: j itself where it is in the store alone, −1 where it is unknown."""
        index: LevelIndex = self._indexes[j]
        slot: cython.Py_ssize_t = index.find(level, self._names)
        if slot >= 0:
            return slot
        return UNKNOWN if self.absent[j] == 0 else self._look_up(j, level)

    def _look_up(self, j: cython.Py_ssize_t, level: object) -> cython.Py_ssize_t:
        """Read a level from the store to the slot of its field, unless it was looked up last."""
        if self._sought[j] != level:
            self._sought[j] = None  # until it has been read
            read = self.rows.read(j, level)
            if read is not None:
                self.fill(j, read)
            self._sought[j], self._present[j] = level, read is not None
        return j if self._present[j] else UNKNOWN

    def is_full(self, j: cython.Py_ssize_t) -> cython.bint:
        """Return whether a level of field j must be dropped before a new one is admitted."""
        index: LevelIndex = self._indexes[j]
        return index.count >= self.most

    def known(self, j: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the number of levels of field j, those in the store included."""
        index: LevelIndex = self._indexes[j]
        return index.count + self.absent[j]

    def use(self, k: cython.Py_ssize_t) -> cython.int:
        """Make the level in a slot the newest of its field."""
        if self._clock >= MOST_USES:
            self._renumber()
        self._clock += 1
        self._used[k] = cython.cast(cython.int, self._clock)
        return 0

    def oldest(self, j: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the slot of the level of field j that is longest without an outcome; there is at least one."""
        index: LevelIndex = self._indexes[j]
        return index.oldest(self._used)

    def _renumber(self):
        """Count uses from 1 again, in the same order, where there are no more numbers."""
        j: cython.Py_ssize_t
        used = self._arrays[1]
        order = np.argsort(used[: self._count], kind="stable")
        ranks = np.arange(1, len(order) + 1, dtype=np.int32)
        used[order] = np.where(used[order] > 0, ranks, 0)
        self._clock = len(order)
        for j in range(len(self._indexes)):
            index: LevelIndex = self._indexes[j]
            index.forget_order()

    def admit(self, j: cython.Py_ssize_t, level: object, source: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Admit an absent level as the newest of its field; return its slot. `source` is the result of `find`."""
        a: cython.Py_ssize_t
        index: LevelIndex = self._indexes[j]
        k: cython.Py_ssize_t = self._take()
        self._names.write(k, level, _code(level))
        index.add(k, self._names)
        self._sought[j] = None
        if source >= 0:
            for a in range(self.values.shape[1]):
                self.values[k, a] = self.values[source, a]
            for a in range(self.singles.shape[1]):
                self.singles[k, a] = self.singles[source, a]
            self.absent[j] -= 1
        self.use(k)
        return k

    def row(self, k: cython.Py_ssize_t) -> object:
        """Return the values and singles of the level in a slot, as one array."""
        return np.concatenate([np.asarray(self.values[k]), np.asarray(self.singles[k])])

    def fill(self, k: cython.Py_ssize_t, row: object):
        """Set the values and singles of a slot."""
        a: cython.Py_ssize_t
        width: cython.Py_ssize_t = self.values.shape[1]
        for a in range(width):
            self.values[k, a] = row[a]
        for a in range(self.singles.shape[1]):
            self.singles[k, a] = row[width + a]

    def put_away(self, j: cython.Py_ssize_t, k: cython.Py_ssize_t):
        """Write a level to the store, which has it alone from now on."""
        self.rows.write(j, self._names.read(k), self.row(k).tobytes())
        self.absent[j] += 1
        self._release(j, k)

    def drop(self, j: cython.Py_ssize_t, k: cython.Py_ssize_t):
        """Forget a level, in the store too."""
        if self.rows is not None:
            self.rows.write(j, self._names.read(k), b"")
        self._release(j, k)

    def _release(self, j: cython.Py_ssize_t, k: cython.Py_ssize_t):
        """Drop a level."""
        a: cython.Py_ssize_t
        index: LevelIndex = self._indexes[j]
        for a in range(self.values.shape[1]):
            self.values[k, a] = 0.0
        for a in range(self.singles.shape[1]):
            self.singles[k, a] = 0.0
        index.remove(k, self._names)
        self._names.release(k)
        self._used[k] = 0
        self._free.append(k)

    def _take(self) -> cython.Py_ssize_t:
        """Return a slot that is free: one that was released, or the first that has never been used."""
        if self._free:
            return self._free.pop()
        k: cython.Py_ssize_t = self._count
        if k == self.values.shape[0]:
            self._grow()
        self._count += 1
        return k

    def _grow(self):
        """Add a 64th more slots. This replaces the arrays, so a caller must read `values` again after `admit`."""
        before: cython.Py_ssize_t = self.values.shape[0]
        size: cython.Py_ssize_t = before + max(before // 64, 16)
        if size > MOST_SLOTS:
            raise MemoryError("more than 2**31 levels cannot be held; give a smaller max_levels")
        self._arrays[0].resize((size, self.values.shape[1]), refcheck=False)
        self._arrays[1].resize(size, refcheck=False)
        self._arrays[2].resize((size, self.singles.shape[1]), refcheck=False)
        self._names.resize(size)
        self.values, self._used, self.singles = self._arrays

    def levels(self, j: cython.Py_ssize_t) -> list:
        """Return the levels held of a field, that longest without an outcome first."""
        index: LevelIndex = self._indexes[j]
        slots = index.slots()
        order = np.argsort(np.asarray(self._used)[slots])
        return [self._names.read(k) for k in slots[order].tolist()]
