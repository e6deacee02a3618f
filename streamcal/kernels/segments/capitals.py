# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The capitals of accounts by group: their slots, the further ones of large groups, what is known, merging and saving.

Symbols: h, a tilt; d = exp(h) − 1; W, a capital; w₀, the lowest floor; of a group, M = Σ v·(y − p) and
V = Σ v·p·(1 − p), where v is the weight of an observation, c(h) = exp(|h|) − 1 − |h|, and N its slots.

The capital of a group lies in slots. An observation takes one of those that are free, which are even, and its label
brings the slot back; where none is free, one more is opened at the floor. So N is the largest number of observations
that were pending at once, and 1 if labels come in time. The evidence of an account is N·ln(W/(N·w₀)), W being its
capital in all slots: by concavity at least the sum of ln(W/w₀) over slots, which no label, floor or slot lowers but by
what it proves.

A group is large once its V is above 10,000·N: a gap of a few standard deviations then tilts the odds by less than 1/27.
It is given further accounts, of ±1/81 and ±1/243. The accounts of ±b, b = 1/27, bound M over any latest labels by
b·|M| ≤ L + V·c(b), where L is their evidence. So an account of tilt h has the capital that it needs for the same labels
if its N slots open with N·w₀·exp((L·h/b + V·(c(b)·h/b − c(h)))/N).
"""

import cython
import numpy as np
from cython.cimports.libc.math import exp, expm1, log
from cython.cimports.streamcal.kernels.segments.groups import Groups
from cython.cimports.streamcal.kernels.segments.level_table import UNKNOWN

#: The tilts of the accounts of a group, those of the other sign after them: a factor of 3 apart.
TILTS = (1.0, 3.0**-1, 3.0**-2, 3.0**-3)
#: The tilts of the accounts that a large group has besides.
FINE = (3.0**-4, 3.0**-5)
#: A group is large above this V.
LARGE = 10_000.0
#: The accounts of a group, and the further ones of a large group.
SIZE, FINE_SIZE = 2 * len(TILTS), 2 * len(FINE)
#: Numbers kept of a group: its capitals in free slots; M and V.
WIDTH = SIZE + 2
#: Numbers of the slots of a group: its capitals in taken slots, slots that are free, those taken, and `evicted` when it
#: was admitted.
SLOTS = SIZE + 3
#: Numbers kept of a large group: its further capitals in free slots, in taken slots, slots that are free, those taken.
FINE_WIDTH = 2 * FINE_SIZE + 2
#: What `evidence` knows of a group: M, V and N, and the evidence of the accounts of all tilts.
KNOWN = 3 + SIZE + FINE_SIZE

_SIZE = SIZE
_FINE_SIZE = FINE_SIZE
_ALL = SIZE + FINE_SIZE
_GAP = SIZE
_VARIANCE = SIZE + 1
_FREE, _PENDING, _SINCE = SIZE, SIZE + 1, SIZE + 2
_FINE_FREE, _FINE_PENDING, _FINE_VARIANCE = 2 * FINE_SIZE, 2 * FINE_SIZE + 1, 2 * FINE_SIZE + 2
_COARSE = cython.declare(cython.double, TILTS[3])
_ABSENT = cython.declare(cython.double, float("nan"))


class Capitals(Groups):
    """The capitals of the groups of a stream, and counters.

    Parameters
    ----------
    fields, pairs, width, most
        As in `Groups`. The group longest without an observation makes room for a new one.
    share : float
        What all accounts of an observation hold together at their floors, further ones of large groups apart.

    Notes
    -----
    `injected` is all capital injected; `total` what accounts hold or held, of which `gone` was of groups which made
    room. `gain` is the log loss of what came in minus that of the predictions.

    The numbers of a group are its capitals, M and V. Of a large group, −1 − r is in the place of V, and row r of the
    further capitals ends with its V. The slots of groups have numbers of their own from the first observation that is
    issued on: before, each group has one, which is free.
    """

    def __init__(
        self,
        fields: cython.Py_ssize_t,
        pairs: list,
        width: cython.double,
        most: cython.Py_ssize_t,
        share: cython.double,
    ):
        a: cython.Py_ssize_t
        Groups.__init__(self, fields, pairs, width, most, WIDTH)
        if not cython.compiled:
            self._d, self._base = [0.0] * _ALL, [0.0] * _ALL
        self.floor = share / (SIZE * self.size)
        tilts = [*TILTS, *[-h for h in TILTS], *FINE, *[-h for h in FINE]]
        for a in range(_ALL):
            self._d[a] = expm1(tilts[a])
            self._base[a] = 2.0 * self.floor / (2.0 + self._d[a])
        self.lowest = self._base[0]
        self._fine, self._fine_slot = np.zeros((0, FINE_WIDTH + 1)), []
        self._slots, self.is_late = np.zeros((0, SLOTS)), False
        self.large = LARGE
        self.injected = self.total = self.gone = self.gain = 0.0
        self.evicted = 0

    def _admit(self, j: cython.Py_ssize_t) -> cython.int:
        """Give a group that is not held a place, without capital."""
        a: cython.Py_ssize_t
        k: cython.Py_ssize_t
        if self._table.is_full(j):
            k = self._table.oldest(j)
            self._drop_fine(k)
            for a in range(_SIZE):
                self.gone += self._values[k, a] + (self._slots[k, a] if self.is_late else 0.0)
            self._table.drop(j, k)
            self.evicted += 1
        k = self._slot[j] = self._table.admit(j, self._level[j], UNKNOWN)
        self._values = self._table.values
        if self.is_late:
            self._make_slots()
            for a in range(_SIZE + 2):
                self._slots[k, a] = 0.0
            self._slots[k, _SINCE] = self.evicted
        return 0

    # -- slots -----------------------------------------------------------------------------------------------------

    def be_late(self):
        """Keep the slots of groups from now on, each of which has had one so far."""
        if not self.is_late:
            self.is_late = True
            self._make_slots()
            np.asarray(self._slots)[self.size :, _FREE] = 1.0

    def _make_slots(self) -> cython.int:
        """Make room for the slots of all groups that the table has room for."""
        missing: cython.Py_ssize_t = self._values.shape[0] - self._slots.shape[0]
        if missing > 0:
            self._slots = np.concatenate([np.asarray(self._slots), np.zeros((missing, SLOTS))])
        return 0

    def _size_of(self, k: cython.Py_ssize_t) -> cython.double:
        """Return N of the group in a place."""
        return self._slots[k, _FREE] + self._slots[k, _PENDING] if self.is_late else 1.0

    # -- large groups ----------------------------------------------------------------------------------------------

    def _variance(self, k: cython.Py_ssize_t) -> cython.double:
        """Return V of the group in a place."""
        r: cython.Py_ssize_t = self._fine_row(k)
        return self._values[k, _VARIANCE] if r < 0 else self._fine[r, _FINE_VARIANCE]

    def _fine_row(self, k: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the row of the further capitals of the group in a place, −1 where it has none."""
        place: cython.double = self._values[k, _VARIANCE]
        return cython.cast(cython.Py_ssize_t, -1.0 - place) if place < 0.0 else UNKNOWN

    def _open(self, k: cython.Py_ssize_t) -> cython.int:
        """Give the group in a place its further accounts."""
        self._make_large(k)
        self._seed(k)
        return 0

    def _make_large(self, k: cython.Py_ssize_t) -> cython.int:
        """Give the group in a place its further accounts, without capital."""
        a: cython.Py_ssize_t
        r: cython.Py_ssize_t = len(self._fine_slot)
        if r == self._fine.shape[0]:
            self._fine = np.concatenate([np.asarray(self._fine), np.zeros((r + 4, FINE_WIDTH + 1))])
        self._fine_slot.append(k)
        for a in range(_FINE_VARIANCE):
            self._fine[r, a] = 0.0
        self._fine[r, _FINE_VARIANCE] = self._values[k, _VARIANCE]
        self._values[k, _VARIANCE] = -1.0 - r
        return 0

    def _seed(self, k: cython.Py_ssize_t) -> cython.void:
        """Inject what the further accounts of a large group open with, in N slots that are free."""
        a: cython.Py_ssize_t
        r: cython.Py_ssize_t = self._fine_row(k)
        n: cython.double = self._size_of(k)
        self._fine[r, _FINE_FREE] = max(self._fine[r, _FINE_FREE], n)
        for a in range(_FINE_SIZE):
            h: cython.double = log(1.0 + self._d[_SIZE + a % (_FINE_SIZE // 2)])
            part: cython.double = h / _COARSE
            exponent: cython.double = self._fine[r, _FINE_VARIANCE] * (
                part * (expm1(_COARSE) - _COARSE) - (expm1(h) - h)
            )
            exponent += part * self._evidence(k, (_SIZE // 2 if a < _FINE_SIZE // 2 else _SIZE) - 1)
            seed: cython.double = n * self.lowest * exp(exponent / n)
            self._fine[r, a] += seed
            self.injected += seed
            self.total += seed

    def _drop_fine(self, k: cython.Py_ssize_t) -> cython.int:
        """Close the further accounts of a group, if it has any; the last row takes their place."""
        a: cython.Py_ssize_t
        r: cython.Py_ssize_t = self._fine_row(k)
        if r < 0:
            return 0
        self._values[k, _VARIANCE] = self._fine[r, _FINE_VARIANCE]
        for a in range(_FINE_FREE):
            self.gone += self._fine[r, a]
        slot: cython.Py_ssize_t = self._fine_slot.pop()
        last: cython.Py_ssize_t = len(self._fine_slot)
        if r < last:
            self._fine_slot[r] = slot
            self._values[slot, _VARIANCE] = -1.0 - r
            for a in range(_FINE_VARIANCE + 1):
                self._fine[r, a] = self._fine[last, a]
        return 0

    # -- what is known ---------------------------------------------------------------------------------------------

    def _evidence(self, k: cython.Py_ssize_t, a: cython.Py_ssize_t) -> cython.double:
        """Return N·ln(W/(N·w₀)) of an account of the group in a place, 0 at least."""
        w: cython.double = self._values[k, a] + (self._slots[k, a] if self.is_late else 0.0)
        return self._sure(w, self._size_of(k))

    def _sure(self, w: cython.double, n: cython.double) -> cython.double:
        return n * log(w / (n * self.lowest)) if w > n * self.lowest else 0.0

    def _describe(self, k: cython.Py_ssize_t, row: cython.double[::1]) -> cython.int:
        """Write M, V, N and the evidence of each account of the group in a place; NaN where it has no such account."""
        a: cython.Py_ssize_t
        r: cython.Py_ssize_t = self._fine_row(k)
        row[0], row[1], row[2] = self._values[k, _GAP], self._variance(k), self._size_of(k)
        for a in range(_SIZE):
            row[3 + a] = self._evidence(k, a)
        for a in range(_FINE_SIZE):
            row[3 + _SIZE + a] = _ABSENT
            if r >= 0:
                row[3 + _SIZE + a] = self._sure(
                    self._fine[r, a] + self._fine[r, _FINE_SIZE + a],
                    self._fine[r, _FINE_FREE] + self._fine[r, _FINE_PENDING],
                )
        return 0

    def evidence(self, j: cython.Py_ssize_t):
        """Return the groups of a family, the one longest without an observation first, and what is known of each."""
        i: cython.Py_ssize_t
        levels: list = self._table.levels(j)
        evidence = np.empty((len(levels), KNOWN))
        rows: cython.double[:, ::1] = evidence
        for i in range(len(levels)):
            self._describe(self._named(j, levels[i]), rows[i])
        return levels, evidence

    def evidence_of(self, j: cython.Py_ssize_t, level: object):
        """Return what is known of a group; None where it is not held."""
        if self._named(j, level) < 0:
            return None
        evidence = np.empty(KNOWN)
        self._describe(self._slot[j], evidence)
        return evidence

    # -- merging and saving ----------------------------------------------------------------------------------------

    def capitals(self, j: cython.Py_ssize_t):
        """Return the groups of a family, the one longest without an observation first, and their numbers as rows."""
        i: cython.Py_ssize_t
        a: cython.Py_ssize_t
        k: cython.Py_ssize_t
        levels: list = self._table.levels(j)
        numbers = np.empty((len(levels), WIDTH))
        rows: cython.double[:, ::1] = numbers
        for i in range(len(levels)):
            k = self._named(j, levels[i])
            for a in range(rows.shape[1]):
                rows[i, a] = self._values[k, a]
            rows[i, _VARIANCE] = self._variance(k)
        return levels, numbers

    def slots(self, j: cython.Py_ssize_t):
        """Return the numbers of the slots of the groups of a family, in the order of `capitals`, as rows."""
        places: list = [self._named(j, level) for level in self._table.levels(j)]
        return np.asarray(self._slots)[places].reshape(-1, SLOTS)

    def fine(self, j: cython.Py_ssize_t):
        """Return the places of large groups among `capitals` of a family, and their further numbers as rows."""
        levels: list = self._table.levels(j) if self._fine_slot else []
        rows: list = [self._fine_row(self._named(j, level)) for level in levels]
        places: list = [place for place, row in enumerate(rows) if row >= 0]
        return places, np.asarray(self._fine)[[rows[place] for place in places], :FINE_WIDTH].reshape(-1, FINE_WIDTH)

    def merge(self, of: object):
        """Add the capitals, M, V and counters of the same families; groups of the other are then the newest.

        Free slots of both are joined in pairs. A large group has the sum of further capitals. Where it is large in one
        of both alone, those of the other are what they would open with.
        """
        other: Capitals = of
        j: cython.Py_ssize_t
        if other.size != self.size or other._fields != self._fields:
            raise ValueError("the accounts are of other families")
        if self.is_late or other.is_late:
            self.be_late()
        for j in range(self.size):
            levels, rows = other.capitals(j)
            slots = other.slots(j) if other.is_late else [None] * len(levels)
            further: dict = dict(zip(*other.fine(j), strict=True))
            for i, level in enumerate(levels):
                self._merge(j, level, rows[i], slots[i], further.get(i))
        self.injected += other.injected
        self.total += other.total
        self.gone += other.gone
        self.gain += other.gain
        self.evicted += other.evicted

    def _merge(self, j: cython.Py_ssize_t, level: object, numbers: object, slots: object, further: object):
        """Add the numbers of a group, its slots unless None: then it has one, and its further numbers unless None."""
        a: cython.Py_ssize_t
        self._add(j, level, numbers)
        k: cython.Py_ssize_t = self._slot[j]
        is_large: cython.bint = self._fine_row(k) >= 0
        if self.is_late:
            self._add_slots(k, slots)
        if not is_large and (further is not None or self._variance(k) > self.large * self._size_of(k)):
            self._open(k)
        elif is_large and further is None:
            self._seed(k)
        if further is not None:
            r: cython.Py_ssize_t = self._fine_row(k)
            for a in range(_FINE_FREE):
                self._fine[r, a] += further[a]
            self._fine[r, _FINE_FREE] = max(self._fine[r, _FINE_FREE], further[_FINE_FREE])
            self._fine[r, _FINE_PENDING] += further[_FINE_PENDING]

    def _add_slots(self, k: cython.Py_ssize_t, slots: object):
        """Add the slots of a group. What was issued before either was last admitted is of neither."""
        a: cython.Py_ssize_t
        if slots is None:
            self._slots[k, _FREE] = max(self._slots[k, _FREE], 1.0)
            return
        for a in range(_SIZE):
            self._slots[k, a] += slots[a]
        self._slots[k, _FREE] = max(self._slots[k, _FREE], slots[_FREE])
        self._slots[k, _PENDING] += slots[_PENDING]
        self._slots[k, _SINCE] = max(self._slots[k, _SINCE], slots[_SINCE])

    def _add(self, j: cython.Py_ssize_t, level: object, numbers: cython.const[cython.double][::1]) -> cython.int:
        """Add to the numbers of a group, which is then the newest."""
        a: cython.Py_ssize_t
        k: cython.Py_ssize_t
        r: cython.Py_ssize_t
        if self._named(j, level) == UNKNOWN:
            self._admit(j)
        k = self._slot[j]
        self._table.use(k)
        for a in range(_VARIANCE):
            self._values[k, a] += numbers[a]
        r = self._fine_row(k)
        if r < 0:
            self._values[k, _VARIANCE] += numbers[_VARIANCE]
        else:
            self._fine[r, _FINE_VARIANCE] += numbers[_VARIANCE]
        return 0

    def load(self, j: cython.Py_ssize_t, levels: list, rows: cython.const[cython.double][:, ::1], slots: object):
        """Load what `capitals` and `slots` returned into a family without groups; `ValueError` for another size.

        `slots` is None where nothing was ever issued.
        """
        i: cython.Py_ssize_t
        if rows.shape[0] != len(levels) or rows.shape[1] != WIDTH or self._table.known(j):
            raise ValueError(f"expected {WIDTH} numbers for each group")
        if len(levels) > self._table.most or len(set(levels)) != len(levels):
            raise ValueError("there are too many groups, or one twice")
        if slots is not None:
            self.be_late()
        for i in range(len(levels)):
            self._add(j, levels[i], rows[i])
            if slots is not None:
                np.asarray(self._slots)[self._slot[j]] = slots[i]

    def load_fine(self, j: cython.Py_ssize_t, levels: list, rows: cython.const[cython.double][:, ::1]):
        """Load what `fine` returned of a family, with the levels at these places."""
        i: cython.Py_ssize_t
        a: cython.Py_ssize_t
        r: cython.Py_ssize_t
        for i in range(len(levels)):
            self._named(j, levels[i])
            self._make_large(self._slot[j])
            r = self._fine_row(self._slot[j])
            for a in range(_FINE_VARIANCE):
                self._fine[r, a] = rows[i, a]
