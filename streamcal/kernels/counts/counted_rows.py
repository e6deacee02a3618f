# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Rows of a bucket of time, each a cell of scores and a group of levels, and which predictions were clicked.

A row has the number of its predictions, and their mean score as the first one and the sum of the differences to it, so
that the mean of equal scores is that score.
"""

import cython
import numpy as np
from cython.cimports.libc.math import pow as power
from cython.cimports.streamcal.kernels.common.hashing import mixed

_ALL_BITS = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
#: 2⁶⁴ times the golden ratio, and bits for the second hash of a number.
_GOLDEN = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)
_OTHER = cython.declare(cython.ulonglong, 0xBF58476D1CE4E5B9)
#: Rows for which there is space at first.
LEAST = 16
#: Bits of a filter that an item sets.
PROBES = 6
_PROBES = cython.declare(cython.int, PROBES)
#: The number of a row that is not there.
NO_ROW = 2**32 - 1
_NO_ROW = cython.declare(cython.longlong, NO_ROW)


@cython.final
@cython.cclass
class CountedRows:
    """Counts by key, in the order in which keys came; an open addressing table finds the row of a key in O(1)."""

    size = cython.declare(cython.Py_ssize_t, visibility="readonly")
    _capacity: cython.Py_ssize_t
    _keys: cython.longlong[::1]
    _first: cython.double[::1]
    _differences: cython.double[::1]
    _n: cython.longlong[::1]
    _slots: cython.int[::1]
    _shift: cython.int

    def __init__(self, keys=(), first=(), differences=(), n=()):
        self._hold(keys, first, differences, n)

    def _hold(self, keys, first, differences, n):
        """Take over columns, and leave space behind them."""
        size = len(keys)
        capacity = LEAST
        while capacity <= size:
            capacity *= 2
        rest = capacity - size
        self.size, self._capacity = size, capacity
        self._keys = np.concatenate((np.asarray(keys, dtype=np.int64), np.zeros(rest, dtype=np.int64)))
        self._first = np.concatenate((np.asarray(first, dtype=np.float64), np.zeros(rest)))
        self._differences = np.concatenate((np.asarray(differences, dtype=np.float64), np.zeros(rest)))
        self._n = np.concatenate((np.asarray(n, dtype=np.int64), np.zeros(rest, dtype=np.int64)))
        self._index()

    def _index(self):
        """Make the table of rows by key, at most half of which is in use."""
        bits = 5
        while 2**bits < 2 * self._capacity:
            bits += 1
        self._shift = 64 - bits
        self._slots = np.full(2**bits, -1, dtype=np.intc)
        for row in range(self.size):
            self._slots[self._slot(int(self._keys[row]))] = row

    @cython.cfunc
    @cython.exceptval(check=False)
    def _slot(self, key: cython.longlong) -> cython.Py_ssize_t:
        """Return the slot of a key, or the empty one where it goes."""
        place: cython.Py_ssize_t = ((cython.cast(cython.ulonglong, key) * _GOLDEN) & _ALL_BITS) >> self._shift
        while self._slots[place] >= 0 and self._keys[self._slots[place]] != key:
            place += 1
            if place == self._slots.shape[0]:
                place = 0
        return place

    @cython.ccall
    def add(self, key: cython.longlong, score: cython.double, room: cython.bint) -> cython.longlong:
        """Count a prediction, and return its row; `NO_ROW` where a new one is needed and there is no room."""
        place: cython.Py_ssize_t = self._slot(key)
        row: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, self._slots[place])  # tokens need it as `int`
        if row < 0:
            if not room:
                return _NO_ROW
            if self.size == self._capacity:
                self._hold(*self.columns())
                place = self._slot(key)
            row = self.size
            self.size += 1
            self._slots[place] = row
            self._keys[row], self._first[row], self._differences[row], self._n[row] = key, score, 0.0, 0
        self._differences[row] += score - self._first[row]
        self._n[row] += 1
        return row

    def add_many(
        self,
        keys: cython.const[cython.longlong][::1],
        scores: cython.const[cython.double][::1],
        room: cython.Py_ssize_t,
        rows: cython.longlong[::1],
    ):
        """Do `add` for arrays, where at most `room` rows may be new; write their rows to `rows`."""
        k: cython.Py_ssize_t
        most: cython.Py_ssize_t = self.size + room
        if scores.shape[0] != keys.shape[0] or rows.shape[0] != keys.shape[0]:
            raise ValueError("keys, scores and rows are of different numbers")
        for k in range(keys.shape[0]):
            rows[k] = self.add(int(keys[k]), scores[k], self.size < most)

    def first(self, row: cython.Py_ssize_t):
        """Return the first score of a row."""
        if not 0 <= row < self.size:
            raise IndexError(row)
        return self._first[row]

    def key(self, row: cython.Py_ssize_t):
        """Return the key of a row."""
        if not 0 <= row < self.size:
            raise IndexError(row)
        return self._keys[row]

    def columns(self):
        """Keys, first scores, sums of differences to them, and numbers of predictions of all rows; new arrays."""
        size = self.size
        return (
            np.array(self._keys[:size]),
            np.array(self._first[:size]),
            np.array(self._differences[:size]),
            np.array(self._n[:size]),
        )

    @property
    def nbytes(self):
        """Bytes of its columns and of its table."""
        return 32 * self._capacity + 4 * self._slots.shape[0]


@cython.final
@cython.cclass
class ClickFilter:
    """Which numbers have been added: exactly up to `most`, then by a Bloom filter of as many bits.

    `most` is a multiple of 8. The bits are those of the numbers until a number of `most` or more is added; then those
    added are put into the filter, where each sets 6 bits. A filter of m bits takes a new number for one that it holds
    with probability (1 − exp(−6n/m))⁶ after n others.
    """

    exact = cython.declare(cython.bint, visibility="readonly")
    most = cython.declare(cython.longlong, visibility="readonly")
    _bits: cython.uchar[::1]

    def __init__(self, most, places=(), exact=True):
        self.most, self.exact = most, exact
        self._bits = np.zeros(0 if exact else most // 8, dtype=np.uint8)
        for place in places:
            if exact:
                self._reach(place)
            self._set(place)

    @cython.cfunc
    def _reach(self, number: cython.longlong) -> cython.bint:
        """Make space for the bit of a number, in the exact form."""
        size: cython.longlong = 8 * self._bits.shape[0]
        if number < size:
            return True
        size = min(max(2 * size, (number // 64 + 1) * 64), self.most)
        grown = np.zeros(size // 8, dtype=np.uint8)
        grown[: self._bits.shape[0]] = self._bits
        self._bits = grown
        return True

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _set(self, place: cython.longlong) -> cython.bint:
        """Set a bit; return whether it was not set."""
        byte: cython.Py_ssize_t = place >> 3
        bit: cython.int = 1 << (place & 7)
        if self._bits[byte] & bit:
            return False
        self._bits[byte] |= bit
        return True

    @cython.cfunc
    @cython.exceptval(check=False)
    def _probe(self, number: cython.ulonglong) -> cython.bint:
        """Set the bits of a number in the filter; return whether any was not set."""
        bits: cython.ulonglong = mixed((number + _GOLDEN) & _ALL_BITS)
        step: cython.ulonglong = mixed(bits ^ _OTHER) | 1
        new: cython.bint = False
        _i: cython.int
        for _i in range(_PROBES):
            if self._set(bits % cython.cast(cython.ulonglong, self.most)):
                new = True
            bits = (bits + step) & _ALL_BITS
        return new

    @cython.ccall
    def add(self, number: cython.longlong) -> cython.bint:
        """Add a number; return whether it was new."""
        if self.exact and number < self.most:
            self._reach(number)
            return self._set(number)
        if self.exact:
            self._spill()
        return self._probe(number)

    def _spill(self):
        """Put the numbers added into a filter."""
        places = self.places()
        self.exact, self._bits = False, np.zeros(self.most // 8, dtype=np.uint8)
        for place in places.tolist():
            self._probe(place)

    def places(self):
        """Return the places of the bits that are set: of the exact form the numbers, an array in ascending order."""
        return np.flatnonzero(np.unpackbits(np.asarray(self._bits), bitorder="little"))

    def error(self):
        """Return the probability that a number not added yet is taken for one that was."""
        if self.exact:
            return 0.0
        return power(np.unpackbits(np.asarray(self._bits)).sum() / float(self.most), PROBES)

    @property
    def nbytes(self):
        """Bytes of its bits."""
        return self._bits.shape[0]
