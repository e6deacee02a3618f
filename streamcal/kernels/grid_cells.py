# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Which cell of a grid a coordinate lies in, and sums over cells, one number or an array at a time.

Cells are defined by their edges, an increasing array: cell i holds edges[i−1] ≤ x < edges[i]. A table gives a guess,
and comparisons with the edges correct it, so that the guess decides about speed only:

    linear        the place of x between the outermost edges, for equally spaced edges
    logarithmic   the exponent and the top 8 bits of the mantissa of min(x, 1 − x), for edges equally spaced in log-odds
"""

import cython
import numpy as np

SHIFT = 44  # of the 52 bits of a mantissa, those that are left out of the table's index
_SHIFT = cython.declare(cython.int, SHIFT)


@cython.cclass
class CellFinder:
    """Finds cells. `edges` increase; `logarithmic` edges lie in (0, 1)."""

    _edges: cython.double[::1]
    _number: cython.Py_ssize_t
    _logarithmic: cython.bint
    _first: cython.double  # linear: the first edge
    _step: cython.double  # linear: cells per unit
    _guess: cython.Py_ssize_t[::1]  # logarithmic: edges at or below the smallest number of each index
    _base: cython.longlong  # logarithmic: the index of the smallest number in the table

    def __init__(self, edges, logarithmic):
        copy = np.array(edges, dtype=np.float64)
        self._edges = copy
        self._number = len(copy)
        self._logarithmic = logarithmic
        first, last = float(copy.min()), float(copy.max())
        self._first = first
        self._step = (len(copy) - 1) / (last - first) if len(copy) > 1 else 0.0
        self._base = 0
        self._guess = np.zeros(1, dtype=np.intp)
        if logarithmic:
            keys = np.array([min(first, 1.0 - last), 0.5]).view(np.int64) >> SHIFT
            starts = (np.arange(keys[0], keys[1] + 1) << SHIFT).view(np.float64)
            self._guess = np.searchsorted(copy, starts, side="right").astype(np.intp)
            self._base = keys[0]

    @cython.ccall
    @cython.exceptval(check=False)
    def find(self, x: cython.double) -> cython.Py_ssize_t:
        """The cell of x."""
        i: cython.Py_ssize_t = self._guessed(x)
        while i < self._number and self._edges[i] <= x:
            i += 1
        while i > 0 and x < self._edges[i - 1]:
            i -= 1
        return i

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _guessed(self, x: cython.double) -> cython.Py_ssize_t:
        near: cython.double
        place: cython.double
        i: cython.longlong
        if not self._logarithmic:
            place = (x - self._first) * self._step
            if not place > 0.0:
                return 0
            return self._number if place >= self._number else cython.cast(cython.Py_ssize_t, place)
        near = x if x <= 0.5 else 1.0 - x
        i = (_bits(near) >> _SHIFT) - self._base
        if i < 0:
            i = 0
        return self._guess[i] if x <= 0.5 else self._number - self._guess[i]

    def find_many(self, x: cython.const[cython.double][::1]):
        """`find` at every entry; a new array."""
        k: cython.Py_ssize_t
        result = np.empty(x.shape[0], dtype=np.intp)
        out: cython.Py_ssize_t[::1] = result
        for k in range(x.shape[0]):
            out[k] = self.find(x[k])
        return result

    def add(
        self,
        x: cython.const[cython.double][::1],
        y: cython.const[cython.double][::1],
        w: cython.const[cython.double][::1],
        cells: cython.double[:, ::1],
    ):
        """Add weight, positive weight, count and the coordinate sums of both labels to the five rows of `cells`."""
        k: cython.Py_ssize_t
        i: cython.Py_ssize_t
        positive: cython.double
        for k in range(x.shape[0]):
            i = self.find(x[k])
            positive = w[k] * y[k]
            cells[0, i] += w[k]
            cells[1, i] += positive
            cells[2, i] += 1.0
            cells[3, i] += (w[k] - positive) * x[k]
            cells[4, i] += positive * x[k]


if cython.compiled:

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _bits(x: cython.double) -> cython.longlong:
        """The bits of a double as an integer; they increase with x ≥ 0."""
        return cython.cast(cython.p_longlong, cython.address(x))[0]

else:

    def _bits(x):
        """The bits of a double as an integer; they increase with x ≥ 0."""
        return int(np.float64(x).view(np.int64))
