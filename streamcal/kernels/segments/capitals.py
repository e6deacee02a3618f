# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The capitals of accounts by group: the further ones of large groups, what is known, merging and saving.

Symbols: h, a tilt; d = exp(h) − 1; W, a capital; w₀, the lowest floor; of a group, M = Σ v·(y − p) and
V = Σ v·p·(1 − p), where v is the weight of an observation, and c(h) = exp(|h|) − 1 − |h|.

A group is large once its V is above 10,000: a gap of a few standard deviations then tilts the odds by less than 1/27.
It is given further accounts, of ±1/81 and ±1/243. The accounts of ±b, b = 1/27, bound M over any latest observations by
b·|M| ≤ ln(W/w₀) + V·c(b). So an account of tilt h has the capital that it needs for the same observations if it opens
with w₀·(W/w₀)^(h/b)·exp(V·(c(b)·h/b − c(h))).
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
#: Numbers kept of a group: its capitals; M and V.
WIDTH = SIZE + 2

_SIZE = SIZE
_FINE_SIZE = FINE_SIZE
_ALL = SIZE + FINE_SIZE
_GAP = SIZE
_VARIANCE = SIZE + 1
_COARSE = cython.declare(cython.double, TILTS[3])


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
    `injected` is all capital injected; `total` what accounts hold, held or have set aside, of which `aside` is set
    aside for labels to come, and `gone` was of groups which made room. `gain` is the log loss of what came in minus
    that of the predictions.

    The numbers of a group are its capitals, M and V. Of a large group, −1 − r is in the place of V, and row r of the
    further capitals ends with its V.
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
        self._fine, self._fine_slot = np.zeros((0, FINE_SIZE + 1)), []
        self.large, self._is_closed = LARGE, False
        self.injected = self.total = self.aside = self.gone = self.gain = 0.0
        self.evicted = 0

    def _admit(self, j: cython.Py_ssize_t) -> cython.int:
        """Give a group that is not held a slot, without capital."""
        a: cython.Py_ssize_t
        k: cython.Py_ssize_t
        if self._table.is_full(j):
            k = self._table.oldest(j)
            self._drop_fine(k)
            for a in range(_SIZE):
                self.gone += self._values[k, a]
            self._table.drop(j, k)
            self.evicted += 1
        self._slot[j] = self._table.admit(j, self._level[j], UNKNOWN)
        self._values = self._table.values
        return 0

    # -- large groups ----------------------------------------------------------------------------------------------

    def _variance(self, k: cython.Py_ssize_t) -> cython.double:
        """Return V of the group in a slot."""
        r: cython.Py_ssize_t = self._fine_row(k)
        return self._values[k, _VARIANCE] if r < 0 else self._fine[r, _FINE_SIZE]

    def _fine_row(self, k: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the row of the further capitals of the group in a slot, −1 where it has none."""
        place: cython.double = self._values[k, _VARIANCE]
        return cython.cast(cython.Py_ssize_t, -1.0 - place) if place < 0.0 else UNKNOWN

    def _open(self, k: cython.Py_ssize_t) -> cython.int:
        """Give the group in a slot its further accounts."""
        self._make_large(k)
        self._seed(k)
        return 0

    def _make_large(self, k: cython.Py_ssize_t) -> cython.int:
        """Give the group in a slot its further accounts, without capital."""
        a: cython.Py_ssize_t
        r: cython.Py_ssize_t = len(self._fine_slot)
        if r == self._fine.shape[0]:
            self._fine = np.concatenate([np.asarray(self._fine), np.zeros((r + 4, FINE_SIZE + 1))])
        self._fine_slot.append(k)
        for a in range(_FINE_SIZE):
            self._fine[r, a] = 0.0
        self._fine[r, _FINE_SIZE] = self._values[k, _VARIANCE]
        self._values[k, _VARIANCE] = -1.0 - r
        return 0

    def _seed(self, k: cython.Py_ssize_t) -> cython.void:
        """Inject what the further accounts of a large group open with."""
        a: cython.Py_ssize_t
        r: cython.Py_ssize_t = self._fine_row(k)
        for a in range(_FINE_SIZE):
            h: cython.double = log(1.0 + self._d[_SIZE + a % (_FINE_SIZE // 2)])
            w: cython.double = self._values[k, (_SIZE // 2 if a < _FINE_SIZE // 2 else _SIZE) - 1]
            part: cython.double = h / _COARSE
            exponent: cython.double = self._fine[r, _FINE_SIZE] * (part * (expm1(_COARSE) - _COARSE) - (expm1(h) - h))
            if w > self.lowest:
                exponent += part * log(w / self.lowest)
            seed: cython.double = self.lowest * exp(exponent)
            self._fine[r, a] += seed
            self.injected += seed
            self.total += seed

    def _drop_fine(self, k: cython.Py_ssize_t) -> cython.int:
        """Close the further accounts of a group, if it has any; the last row takes their place."""
        a: cython.Py_ssize_t
        r: cython.Py_ssize_t = self._fine_row(k)
        if r < 0:
            return 0
        self._values[k, _VARIANCE] = self._fine[r, _FINE_SIZE]
        for a in range(_FINE_SIZE):
            self.gone += self._fine[r, a]
        slot: cython.Py_ssize_t = self._fine_slot.pop()
        last: cython.Py_ssize_t = len(self._fine_slot)
        if r < last:
            self._fine_slot[r] = slot
            self._values[slot, _VARIANCE] = -1.0 - r
            for a in range(_FINE_SIZE + 1):
                self._fine[r, a] = self._fine[last, a]
        return 0

    def close_fine(self):
        """Close the further accounts of large groups, and open none from now on."""
        self._is_closed = True
        for slot in self._fine_slot.copy():
            self._drop_fine(slot)

    # -- what is known ---------------------------------------------------------------------------------------------

    def values(self, j: cython.Py_ssize_t, level: object):
        """Return the numbers of a group; None where it is not held."""
        if self._named(j, level) < 0:
            return None
        found = np.array(self._values[self._slot[j]])
        found[_VARIANCE] = self._variance(self._slot[j])
        return found

    def held(self, j: cython.Py_ssize_t):
        """Return the groups of a family, the one longest without an observation first, and their numbers as rows."""
        i: cython.Py_ssize_t
        a: cython.Py_ssize_t
        k: cython.Py_ssize_t
        levels: list = self._table.levels(j)
        found = np.empty((len(levels), WIDTH))
        rows: cython.double[:, ::1] = found
        for i in range(len(levels)):
            k = self._named(j, levels[i])
            for a in range(rows.shape[1]):
                rows[i, a] = self._values[k, a]
            rows[i, _VARIANCE] = self._variance(k)
        return levels, found

    def fine(self, j: cython.Py_ssize_t):
        """Return the places of large groups in `held` of a family, and their further capitals as rows."""
        levels: list = self._table.levels(j) if self._fine_slot else []
        rows: list = [self._fine_row(self._named(j, level)) for level in levels]
        places: list = [place for place, row in enumerate(rows) if row >= 0]
        return places, np.asarray(self._fine)[[rows[place] for place in places], :FINE_SIZE].reshape(-1, FINE_SIZE)

    def fine_values(self, j: cython.Py_ssize_t, level: object):
        """Return the further capitals of a group; None where it has none."""
        r: cython.Py_ssize_t = UNKNOWN
        if self._named(j, level) >= 0:
            r = self._fine_row(self._slot[j])
        return None if r < 0 else np.array(self._fine[r, :_FINE_SIZE])

    # -- merging and saving ----------------------------------------------------------------------------------------

    def merge(self, of: object):
        """Add the capitals, M, V and counters of the same families; groups of the other are then the newest.

        A large group has the sum of further capitals. Where it is large in one of both alone, those of the other are
        what they would open with.
        """
        other: Capitals = of
        j: cython.Py_ssize_t
        if other.size != self.size or other._fields != self._fields:
            raise ValueError("the accounts are of other families")
        if other._is_closed:
            self.close_fine()
        for j in range(self.size):
            levels, rows = other.held(j)
            further: dict = dict(zip(*other.fine(j), strict=True))
            for i, level in enumerate(levels):
                self._merge(j, level, rows[i], further.get(i))
        self.injected += other.injected
        self.total += other.total
        self.aside += other.aside
        self.gone += other.gone
        self.gain += other.gain
        self.evicted += other.evicted

    def _merge(self, j: cython.Py_ssize_t, level: object, numbers: object, further: object):
        """Add the numbers of a group, and its further capitals unless None."""
        a: cython.Py_ssize_t
        self._add(j, level, numbers)
        k: cython.Py_ssize_t = self._slot[j]
        is_large: cython.bint = self._fine_row(k) >= 0
        if self._is_closed:
            if further is not None:
                self.gone += float(further.sum())
            return
        if not is_large and (further is not None or self._variance(k) > self.large):
            self._open(k)
        elif is_large and further is None:
            self._seed(k)
        if further is not None:
            for a in range(_FINE_SIZE):
                self._fine[self._fine_row(k), a] += further[a]

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
            self._fine[r, _FINE_SIZE] += numbers[_VARIANCE]
        return 0

    def load(self, j: cython.Py_ssize_t, levels: list, rows: cython.const[cython.double][:, ::1]):
        """Load what `held` returned of a family that has no groups; `ValueError` if it is of another size."""
        i: cython.Py_ssize_t
        if rows.shape[0] != len(levels) or rows.shape[1] != WIDTH or self._table.known(j):
            raise ValueError(f"expected {WIDTH} numbers for each group")
        if len(levels) > self._table.most or len(set(levels)) != len(levels):
            raise ValueError("there are too many groups, or one twice")
        for i in range(len(levels)):
            self._add(j, levels[i], rows[i])

    def load_fine(self, j: cython.Py_ssize_t, levels: list, rows: cython.const[cython.double][:, ::1]):
        """Load what `fine` returned of a family, with the levels at these places."""
        i: cython.Py_ssize_t
        a: cython.Py_ssize_t
        r: cython.Py_ssize_t
        for i in range(len(levels)):
            self._named(j, levels[i])
            self._make_large(self._slot[j])
            r = self._fine_row(self._slot[j])
            for a in range(_FINE_SIZE):
                self._fine[r, a] = rows[i, a]
