# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Which cell of a grid a coordinate lies in, and sums and values by cell, one number or an array at a time.

Cells are defined by their edges, an increasing array: cell i holds edges[i−1] ≤ x < edges[i]. A lower bound
for the index is computed without a search and corrected by comparisons with the edges, so that it only affects speed:

    linear        from the position of x between the outermost edges, for equally spaced edges
    logarithmic   a table by the exponent and the top bits of the mantissa of min(x, 1 − x), for edges equally spaced in
                  log-odds; with enough bits no entry of the table spans two edges, and one comparison suffices
"""

import cython
import numpy as np

MANTISSA = 52
BITS_MIN, BITS_MAX = 8, 14  # of the mantissa, in the table's index; 14 are enough for 2¹⁷ cells, in 3 MB

# Cells are found for blocks of this many observations before the sums are updated: two simple loops are faster.
BLOCK = 4096


@cython.cclass
class CellFinder:
    """Finds cells. `edges` increase; `logarithmic` edges lie in (0, 1); `centres` are the representatives. O(1)."""

    _edges: cython.double[::1]  # followed by an infinite edge as a sentinel
    _centres: cython.double[::1]
    _number: cython.Py_ssize_t
    _logarithmic: cython.bint
    _single: cython.bint  # logarithmic: one comparison suffices
    _first: cython.double  # linear: the first edge
    _step: cython.double  # linear: cells per unit
    _shift: cython.int  # logarithmic: the bits of a double that are left out of the index
    _base: cython.longlong  # logarithmic: the index of the smallest number in the table
    _length: cython.longlong  # logarithmic: indices of x ≤ ½; those of 1 − x follow
    _guess: cython.int[::1]

    def __init__(self, edges, centres, logarithmic):
        inner = np.array(edges, dtype=np.float64)
        if len(centres) != len(inner) + 1:
            raise ValueError(f"{len(centres)} centres for {len(inner) + 1} cells")
        self._centres = np.array(centres, dtype=np.float64)
        self._edges = np.append(inner, np.inf)
        self._number = len(inner)
        self._logarithmic = logarithmic
        self._single = False
        self._first = inner.min()
        self._step = (len(inner) - 1) / (inner.max() - inner.min()) if len(inner) > 1 else 0.0
        self._shift, self._base, self._length = MANTISSA, 0, 0
        self._guess = np.zeros(1, dtype=np.intc)
        if logarithmic:
            bits = BITS_MIN
            self._fill(inner, bits)
            while not self._single and bits < BITS_MAX:
                bits += 1
                self._fill(inner, bits)

    def _fill(self, edges, bits):
        """Make the table with this many bits of the mantissa."""
        self._shift = MANTISSA - bits
        keys = np.array([min(edges.min(), 1.0 - edges.max()), 0.5]).view(np.int64) >> self._shift
        index = np.arange(keys[0], keys[1] + 2)
        starts = (index << self._shift).view(np.float64)
        starts[0] = 0.0  # smaller numbers use the first entry
        self._base, self._length = keys[0], len(index) - 1
        # Edges at or below each number, and at or below one minus each number.
        lower = np.searchsorted(edges, starts, side="right")
        upper = np.searchsorted(edges, 1.0 - starts, side="right")
        self._guess = np.concatenate((lower[: self._length], upper[1:])).astype(np.intc)
        self._single = bool(np.diff(lower).max() <= 1 and np.diff(upper).min() >= -1)

    @cython.ccall
    @cython.exceptval(check=False)
    def find(self, x: cython.double) -> cython.Py_ssize_t:
        """Return the cell of x."""
        i: cython.Py_ssize_t = self._guessed(x)
        while self._edges[i] <= x:
            i += 1
        while i > 0 and x < self._edges[i - 1]:  # only if equally spaced edges are a few ulps apart
            i -= 1
        return i

    def round(self, x: cython.double) -> cython.double:
        """Return the centre of the cell of x."""
        return self._centres[self.find(x)]

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _guessed(self, x: cython.double) -> cython.Py_ssize_t:
        place: cython.double
        if self._logarithmic:
            return _looked_up(x, self._guess, self._shift, self._base, self._length)
        place = (x - self._first) * self._step
        if not place > 0.0:
            return 0
        return self._number if place >= self._number else cython.cast(cython.Py_ssize_t, place)

    def find_many(self, x: cython.const[cython.double][::1]):
        """Return `find` at every entry, as a new array."""
        result = np.empty(x.shape[0], dtype=np.intp)
        self._find_into(x, result)
        return result

    def take(self, values: cython.const[cython.double][::1], x: cython.const[cython.double][::1]):
        """Return the value of the cell of every entry; a new array. `values` has an entry for each cell."""
        k: cython.Py_ssize_t
        start: cython.Py_ssize_t
        end: cython.Py_ssize_t
        if values.shape[0] != self._number + 1:
            raise ValueError(f"{values.shape[0]} values for {self._number + 1} cells")
        result = np.empty(x.shape[0])
        out: cython.double[::1] = result
        cells: cython.Py_ssize_t[::1] = np.empty(min(BLOCK, x.shape[0]), dtype=np.intp)
        for start in range(0, x.shape[0], BLOCK):
            end = min(start + BLOCK, x.shape[0])
            self._find_into(x[start:end], cells)
            for k in range(start, end):
                out[k] = values[cells[k - start]]
        return result

    def add(
        self,
        x: cython.const[cython.double][::1],
        y: cython.const[cython.double][::1],
        w: cython.const[cython.double][:],
        sums: cython.double[:, ::1],
    ):
        """Add weight, positive weight, count and the coordinate sums of both labels to the rows of `sums`."""
        k: cython.Py_ssize_t
        i: cython.Py_ssize_t
        start: cython.Py_ssize_t
        end: cython.Py_ssize_t
        weight: cython.double
        positive: cython.double
        if sums.shape[0] != self._number + 1 or sums.shape[1] != 5:
            raise ValueError(f"sums of shape ({sums.shape[0]}, {sums.shape[1]}) for {self._number + 1} cells")
        cells: cython.Py_ssize_t[::1] = np.empty(min(BLOCK, x.shape[0]), dtype=np.intp)
        for start in range(0, x.shape[0], BLOCK):
            end = min(start + BLOCK, x.shape[0])
            self._find_into(x[start:end], cells)
            for k in range(start, end):
                i = cells[k - start]
                weight = w[k]
                positive = weight * y[k]
                sums[i, 0] += weight
                sums[i, 1] += positive
                sums[i, 2] += 1.0
                sums[i, 3] += (weight - positive) * x[k]
                sums[i, 4] += positive * x[k]

    @cython.cfunc
    def _find_into(self, x: cython.const[cython.double][::1], out: cython.Py_ssize_t[::1]) -> cython.void:
        """Write `find` at every entry to `out`."""
        k: cython.Py_ssize_t
        i: cython.Py_ssize_t
        # Local names, since the compiler must assume that a store to `out` changes attributes.
        edges: cython.double[::1] = self._edges
        guess: cython.int[::1] = self._guess
        shift: cython.int = self._shift
        base: cython.longlong = self._base
        length: cython.longlong = self._length
        if not self._single:
            for k in range(x.shape[0]):
                out[k] = self.find(x[k])
            return
        for k in range(x.shape[0]):
            i = _looked_up(x[k], guess, shift, base, length)
            out[k] = i + (edges[i] <= x[k])


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _looked_up(
    x: cython.double,
    guess: cython.int[::1],
    shift: cython.int,
    base: cython.longlong,
    length: cython.longlong,
) -> cython.Py_ssize_t:
    """Return the guess for x in [0, 1]; without branches, half of which would be mispredicted."""
    left: cython.longlong = _bits(x)
    right: cython.longlong = _bits(1.0 - x)  # without rounding where x > ½
    nearer: cython.longlong = right if right < left else left
    i: cython.longlong = (nearer >> shift) - base
    i = i if i > 0 else 0
    return guess[i + length if right < left else i]


if cython.compiled:

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _bits(x: cython.double) -> cython.longlong:
        """Return the bits of a double as an integer; they increase with x ≥ 0."""
        return cython.cast(cython.p_longlong, cython.address(x))[0]

else:

    def _bits(x):
        """Return the bits of a double as an integer; they increase with x ≥ 0."""
        return int(np.float64(x).view(np.int64))
