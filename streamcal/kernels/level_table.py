# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The levels of the fields of a stream with some numbers for each: so many held, the others in a store if there is one.

A level held has a slot, a row of `values`. The first slots, one for each field, hold no level: the values of a level
that is in the store alone are read to that of its field, where forecasts find them like any others.
"""

import cython
import numpy as np

UNKNOWN = cython.declare(cython.Py_ssize_t, -1)
"""The slot of a level that is neither held nor in the store."""


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
    A level is any hashable object but None. O(1) for each call but `levels`; 8 bytes for a value, 16 more for a level,
    and what Python takes for its name. `rows`, the store, reads and writes the values of a level as an array and as
    bytes.
    """

    def __init__(self, fields: cython.Py_ssize_t, most: cython.Py_ssize_t, width: cython.Py_ssize_t):
        self.most = most
        self.rows = None
        self.values = np.zeros((fields, width))
        self.absent = np.zeros(fields, dtype=np.intp)
        self._newest, self.oldest = np.full(fields, -1, dtype=np.intp), np.full(fields, -1, dtype=np.intp)
        self._newer, self._older = np.full(fields, -1, dtype=np.intp), np.full(fields, -1, dtype=np.intp)
        self._slots = [{} for _ in range(fields)]
        self._names, self._free = [None] * fields, []
        self._looked, self._found = [None] * fields, [False] * fields

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def find(self, j: cython.Py_ssize_t, level: object) -> cython.Py_ssize_t:
        """The slot of a level of field j: j itself where it is in the store alone, −1 where it is unknown."""
        slots: dict = self._slots[j]
        slot = slots.get(level)
        if slot is not None:
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
        slots: dict = self._slots[j]
        return len(slots) >= self.most

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def known(self, j: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The number of levels of field j, those in the store included."""
        slots: dict = self._slots[j]
        return len(slots) + self.absent[j]

    @cython.cfunc
    @cython.exceptval(check=False)
    def use(self, j: cython.Py_ssize_t, k: cython.Py_ssize_t) -> cython.void:
        """Make the level in a slot the newest of its field."""
        if self._newest[j] != k:
            self._unlink(j, k)
            self._link(j, k)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def admit(self, j: cython.Py_ssize_t, level: object, source: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """The slot of a level that is not held, as the newest of its field; `source` is what `find` said of it."""
        a: cython.Py_ssize_t
        slots: dict = self._slots[j]
        if not self._free:
            self._grow()
        k: cython.Py_ssize_t = self._free.pop()
        slots[level] = k
        self._names[k] = level
        self._looked[j] = None
        if source >= 0:
            for a in range(self.values.shape[1]):
                self.values[k, a] = self.values[source, a]
            self.absent[j] -= 1
        self._link(j, k)
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
        """Hold a level no longer."""
        a: cython.Py_ssize_t
        slots: dict = self._slots[j]
        for a in range(self.values.shape[1]):
            self.values[k, a] = 0.0
        self._unlink(j, k)
        del slots[self._names[k]]
        self._names[k] = None
        self._free.append(k)

    @cython.cfunc
    def _grow(self):
        """Make as many slots again."""
        before = self.values.shape[0]
        more = max(before, 16)
        self.values = np.concatenate([np.asarray(self.values), np.zeros((more, self.values.shape[1]))])
        self._newer = np.concatenate([np.asarray(self._newer), np.full(more, -1, dtype=np.intp)])
        self._older = np.concatenate([np.asarray(self._older), np.full(more, -1, dtype=np.intp)])
        self._names.extend([None] * more)
        self._free.extend(range(before + more - 1, before - 1, -1))

    @cython.cfunc
    @cython.exceptval(check=False)
    def _link(self, j: cython.Py_ssize_t, k: cython.Py_ssize_t) -> cython.void:
        """Put a slot at the newest end of the list of a field."""
        last: cython.Py_ssize_t = self._newest[j]
        self._older[k] = last
        self._newer[k] = -1
        if last >= 0:
            self._newer[last] = k
        else:
            self.oldest[j] = k
        self._newest[j] = k

    @cython.cfunc
    @cython.exceptval(check=False)
    def _unlink(self, j: cython.Py_ssize_t, k: cython.Py_ssize_t) -> cython.void:
        """Take a slot out of the list of a field."""
        older: cython.Py_ssize_t = self._older[k]
        newer: cython.Py_ssize_t = self._newer[k]
        if older >= 0:
            self._newer[older] = newer
        else:
            self.oldest[j] = newer
        if newer >= 0:
            self._older[newer] = older
        else:
            self._newest[j] = older

    @cython.cfunc
    def levels(self, j: cython.Py_ssize_t) -> list:
        """The levels held of a field, that longest without an outcome first."""
        k: cython.Py_ssize_t = self.oldest[j]
        found: list = []
        while k >= 0:
            found.append(self._names[k])
            k = self._newer[k]
        return found
