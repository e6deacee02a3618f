# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The levels of the fields of a stream with some numbers for each: so many held, the others in a store if there is one.

A level held has a slot, a row of `values`. The first slots, one for each field, hold no level: the values of a level
that is in the store alone are read to that of its field, where forecasts find them like any others.
"""

import cython
import numpy as np

UNKNOWN = cython.declare(cython.Py_ssize_t, -1)
"""The slot of a level that is neither held nor in the store."""
MULTIPLIER = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)
"""2⁶⁴ over the golden ratio: hashes that differ in any bits have products that differ in the upper ones."""
BITS = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
MOST_SLOTS = cython.declare(cython.Py_ssize_t, 2147483647)
"""Slots are numbers of 32 bits."""
MOST_USES = cython.declare(cython.Py_ssize_t, 2147483647)
"""The number of the last use, of 32 bits, after which they are numbered from 1 again."""
LEAST_AGING = cython.declare(cython.Py_ssize_t, 64)
"""The number of oldest levels of a field that are sorted at once, or a sixteenth of its levels if that is more."""


@cython.final
@cython.cclass
class LevelIndex:
    """The slots of the levels of one field: a hash table with open addressing and linear probing.

    A cell has a slot and a mark: eight bits of the hash of the slot's level, 0 where the cell is empty. Names are
    compared where marks are equal. Between 74 % and 83 % of the cells are taken, so that a level takes 7 bytes at most.
    `names`, which every call is given, has the level of each slot.
    """

    def __init__(self):
        self.count = 0
        self._allocate(16)

    @cython.cfunc
    def _allocate(self, cells: cython.Py_ssize_t):
        self._cells, self._marks = np.full(cells, -1, dtype=np.int32), np.zeros(cells, dtype=np.uint8)
        self._size = cells

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _home(self, product: cython.ulonglong) -> cython.Py_ssize_t:
        """The cell where the search for a level begins."""
        size: cython.ulonglong = self._size
        return cython.cast(cython.Py_ssize_t, ((product >> 32) * size) >> 32)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def find(self, level: object, names: list) -> cython.Py_ssize_t:
        """The slot of a level, −1 where there is none."""
        product: cython.ulonglong = _product(level)
        mark: cython.uchar = _mark(product)
        i: cython.Py_ssize_t = self._home(product)
        while self._marks[i] != 0:
            if self._marks[i] == mark:
                name: object = names[self._cells[i]]
                if name is level or name == level:
                    return self._cells[i]
            i += 1
            if i == self._size:
                i = 0
        return UNKNOWN

    @cython.cfunc
    def add(self, level: object, slot: cython.Py_ssize_t, names: list):
        """Add a level that is not there."""
        if 6 * (self.count + 1) > 5 * self._size:
            self._grow(names)
        self._put(_product(level), slot)
        self.count += 1

    @cython.cfunc
    @cython.exceptval(check=False)
    def _put(self, product: cython.ulonglong, slot: cython.Py_ssize_t) -> cython.void:
        i: cython.Py_ssize_t = self._home(product)
        while self._marks[i] != 0:
            i += 1
            if i == self._size:
                i = 0
        self._cells[i] = slot
        self._marks[i] = _mark(product)

    @cython.cfunc
    def _grow(self, names: list):
        i: cython.Py_ssize_t
        cells: cython.int[::1] = self._cells
        self._allocate(self._size + self._size // 8)
        for i in range(cells.shape[0]):
            if cells[i] >= 0:
                self._put(_product(names[cells[i]]), cells[i])

    @cython.cfunc
    def remove(self, level: object, slot: cython.Py_ssize_t, names: list):
        """Remove a level that is there, and close the gap: no search may end before its level."""
        i: cython.Py_ssize_t = self._home(_product(level))
        while self._cells[i] != slot:
            i = i + 1 if i + 1 < self._size else 0
        j: cython.Py_ssize_t = i
        while True:
            j = j + 1 if j + 1 < self._size else 0
            if self._marks[j] == 0:
                break
            home: cython.Py_ssize_t = self._home(_product(names[self._cells[j]]))
            if self._distance(home, j) >= self._distance(i, j):
                self._cells[i], self._marks[i] = self._cells[j], self._marks[j]
                i = j
        self._cells[i], self._marks[i] = -1, 0
        self.count -= 1

    @cython.cfunc
    def held(self):
        """The slots of all levels, as an array."""
        cells = np.asarray(self._cells)
        return cells[cells >= 0]

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _distance(self, i: cython.Py_ssize_t, j: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The steps from cell i to cell j."""
        return j - i if j >= i else j - i + self._size


@cython.cfunc
@cython.inline
def _product(level: object) -> cython.ulonglong:
    return (cython.cast(cython.ulonglong, hash(level)) * MULTIPLIER) & BITS


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _mark(product: cython.ulonglong) -> cython.uchar:
    """Bits of the product that hardly decide on the cell; never 0."""
    return cython.cast(cython.uchar, ((product >> 24) & 0xFF) | 1)


@cython.final
@cython.cclass
class LevelTable:
    """Levels and their values, in the order of their last outcomes.

    Parameters
    ----------
    fields, width : int
        Their number, and that of the values of a level.
    most : int
        The number of levels held of each field.

    Notes
    -----
    A level is any hashable object but None. O(1) for each call but `levels`, `oldest` on average. A level takes 8 bytes
    for each value and some 20 for its place, and its name. Arrays grow in place by a 64th. `rows`, the store, reads and
    writes the values of a level as an array and as bytes.
    """

    def __init__(self, fields: cython.Py_ssize_t, most: cython.Py_ssize_t, width: cython.Py_ssize_t):
        self.most = most
        self.rows = None
        self._arrays = [np.zeros((fields, width)), np.zeros(fields, dtype=np.int32)]
        self.values, self._used = self._arrays
        self.absent = np.zeros(fields, dtype=np.intp)
        self._clock = 0
        self._aging = [[] for _ in range(fields)]
        self._slots = [LevelIndex() for _ in range(fields)]
        self._names, self._free = [None] * fields, []
        self._looked, self._found = [None] * fields, [False] * fields

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def find(self, j: cython.Py_ssize_t, level: object) -> cython.Py_ssize_t:
        """The slot of a level of field j: j itself where it is in the store alone, −1 where it is unknown."""
        slots: LevelIndex = self._slots[j]
        slot: cython.Py_ssize_t = slots.find(level, self._names)
        if slot >= 0:
            return slot
        return UNKNOWN if self.absent[j] == 0 else self._look_up(j, level)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _look_up(self, j: cython.Py_ssize_t, level: object) -> cython.Py_ssize_t:
        """Read a level from the store to the slot of its field, unless it was looked up last."""
        a: cython.Py_ssize_t
        if self._looked[j] != level:
            self._looked[j] = None  # until it has been read
            read = self.rows.read(j, level)
            if read is not None:
                for a in range(self.values.shape[1]):
                    self.values[j, a] = read[a]
            self._looked[j], self._found[j] = level, read is not None
        return j if self._found[j] else UNKNOWN

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def is_full(self, j: cython.Py_ssize_t) -> cython.bint:
        """Whether a level of field j has to make room for a new one."""
        slots: LevelIndex = self._slots[j]
        return slots.count >= self.most

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def known(self, j: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The number of levels of field j, those in the store included."""
        slots: LevelIndex = self._slots[j]
        return slots.count + self.absent[j]

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def use(self, k: cython.Py_ssize_t) -> cython.int:
        """Make the level in a slot the newest of its field."""
        if self._clock >= MOST_USES:
            self._renumber()
        self._clock += 1
        self._used[k] = cython.cast(cython.int, self._clock)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def oldest(self, j: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The slot of the level of field j that is longest without an outcome; there is at least one.

        `_aging` has the slots of the oldest levels of the field at one moment, that longest without an outcome last,
        and when each was used last. Of those that have not been used since, the last is the oldest of all.
        """
        k: cython.Py_ssize_t
        when: cython.Py_ssize_t
        while True:
            aging: list = self._aging[j]
            while aging:
                k, when = aging[len(aging) - 1]
                if self._used[k] == when:
                    return k
                aging.pop()
            slots: LevelIndex = self._slots[j]
            held = np.asarray(slots.held())
            used = np.asarray(self._used)[held]
            size: cython.Py_ssize_t = max(len(held) // 16, LEAST_AGING)
            if len(held) > size:
                part = np.argpartition(used, size)[:size]
                held, used = held[part], used[part]
            order = np.argsort(-used)
            self._aging[j] = list(zip(held[order].tolist(), used[order].tolist(), strict=True))

    @cython.cfunc
    def _renumber(self):
        """Count uses from 1 again, in the same order, where there are no more numbers."""
        used = self._arrays[1]
        order = np.argsort(used[: len(self._names)], kind="stable")
        ranks = np.arange(1, len(order) + 1, dtype=np.int32)
        used[order] = np.where(used[order] > 0, ranks, 0)
        self._clock = len(order)
        self._aging = [[] for _ in self._aging]

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def admit(self, j: cython.Py_ssize_t, level: object, source: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The slot of a level that is not held, as the newest of its field; `source` is what `find` said of it."""
        a: cython.Py_ssize_t
        slots: LevelIndex = self._slots[j]
        k: cython.Py_ssize_t = self._take()
        self._names[k] = level
        slots.add(level, k, self._names)
        self._looked[j] = None
        if source >= 0:
            for a in range(self.values.shape[1]):
                self.values[k, a] = self.values[source, a]
            self.absent[j] -= 1
        self.use(k)
        return k

    @cython.cfunc
    def put_away(self, j: cython.Py_ssize_t, k: cython.Py_ssize_t):
        """Write a level to the store, which has it alone from now on."""
        self.rows.write(j, self._names[k], np.asarray(self.values[k]).tobytes())
        self.absent[j] += 1
        self._release(j, k)

    @cython.cfunc
    def drop(self, j: cython.Py_ssize_t, k: cython.Py_ssize_t):
        """Forget a level, in the store too."""
        if self.rows is not None:
            self.rows.write(j, self._names[k], b"")
        self._release(j, k)

    @cython.cfunc
    def _release(self, j: cython.Py_ssize_t, k: cython.Py_ssize_t):
        """Drop a level."""
        a: cython.Py_ssize_t
        slots: LevelIndex = self._slots[j]
        for a in range(self.values.shape[1]):
            self.values[k, a] = 0.0
        slots.remove(self._names[k], k, self._names)
        self._names[k] = None
        self._used[k] = 0
        self._free.append(k)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _take(self) -> cython.Py_ssize_t:
        """A slot that is free: one that was released, or the first that has never been used."""
        if self._free:
            return self._free.pop()
        k: cython.Py_ssize_t = len(self._names)
        if k == self.values.shape[0]:
            self._grow()
        self._names.append(None)
        return k

    @cython.cfunc
    def _grow(self):
        """Make a 64th more slots. No array is in use: whoever looks at `values` looks again after `admit`."""
        before: cython.Py_ssize_t = self.values.shape[0]
        size: cython.Py_ssize_t = before + max(before // 64, 16)
        if size > MOST_SLOTS:
            raise MemoryError("more than 2**31 levels cannot be held; give a smaller max_levels")
        self._arrays[0].resize((size, self.values.shape[1]), refcheck=False)
        self._arrays[1].resize(size, refcheck=False)
        self.values, self._used = self._arrays

    @cython.cfunc
    def levels(self, j: cython.Py_ssize_t) -> list:
        """The levels held of a field, that longest without an outcome first."""
        slots: LevelIndex = self._slots[j]
        held = slots.held()
        names: list = self._names
        order = np.argsort(np.asarray(self._used)[held])
        return [names[k] for k in held[order].tolist()]
