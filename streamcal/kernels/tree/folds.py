# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""K hull trees, one for each fold, as one: the fold of a coordinate, dealing single units, and the merged probability.

Symbols: p0 and p1 are the ends of the interval of a fold; K the number of folds that hold anything.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.libc.math import floor
from cython.cimports.libc.math import pow as power
from cython.cimports.streamcal.kernels.common.fast_path import fast_observation
from cython.cimports.streamcal.kernels.common.hashing import mixed
from cython.cimports.streamcal.kernels.tree.hull_tree import HullTree

#: The hash uses a coordinate rounded to 44 bits (33 of the significand), so that differences in the last digits of a
#: model's score (another machine, another order of the features) do not change its fold.
DROPPED_BITS = 20
#: Sums of whole weights below this are exact.
_LARGEST_COUNT = cython.declare(cython.double, 2.0**49)
#: A test object counts with no less and no more than these shares of the weight of a fold. Merges divide by 1 − p₀ and
#: by 1 − p₁ + p₀, which would otherwise be rounding: maps fell by 1e-3 and more.
LIGHTEST, HEAVIEST = 1e-9, 1e7
_LOG_MINIMAX = cython.declare(cython.int, 0)
_BRIER_MINIMAX = cython.declare(cython.int, 1)

_DROPPED_BITS = cython.declare(cython.int, DROPPED_BITS)
_LIGHTEST = cython.declare(cython.double, LIGHTEST)
_HEAVIEST = cython.declare(cython.double, HEAVIEST)

if cython.compiled:

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _bits(value: cython.double) -> cython.ulonglong:
        return cython.cast(cython.pointer(cython.ulonglong), cython.address(value))[0]

else:
    import struct

    def _bits(value):
        return struct.unpack("<Q", struct.pack("<d", value))[0]


@cython.ccall
@cython.exceptval(check=False)
def hash_of(x: cython.double) -> cython.ulonglong:
    """Return a hash of the leading bits of a coordinate."""
    half: cython.ulonglong = 1
    return mixed((_bits(x + 0.0) + (half << (_DROPPED_BITS - 1))) >> _DROPPED_BITS)  # −0 + 0 is 0


def hash_with(bits: cython.ulonglong, t: cython.double):
    """Return a hash of a coordinate's hash and a time."""
    return mixed(bits ^ _bits(t + 0.0))


@cython.final
@cython.cclass
class Folds:
    """The trees of all folds, and that of what was dealt to them, read and changed in one call.

    Parameters
    ----------
    trees : list of HullTree
        One for each fold.
    whole : HullTree
        What was learned without a fold; the trees hold it too.
    find : function or None
        The centre of the cell of a coordinate, where the trees are on a grid.
    """

    shares = cython.declare(cython.longlong, visibility="public")
    """How many observations the trees count for what was dealt: one for each fold, score and label with a share."""
    _trees: list
    _whole: HullTree
    _find: object
    _lo: cython.double
    _hi: cython.double
    _pair: cython.double[::1]
    _lower: cython.double[::1]
    _upper: cython.double[::1]

    def __init__(self, trees: list, whole: HullTree, find: object):
        self._trees, self._find, self.shares = trees, find, 0
        self._whole = whole
        self._lo, self._hi = 1.0, 0.0
        self._pair, self._lower, self._upper = np.zeros(2), np.zeros(len(trees)), np.zeros(len(trees))

    def set_whole(self, whole: HullTree):
        """Replace the tree of what was dealt."""
        self._whole = whole

    def set_fast_range(self, lo: cython.double, hi: cython.double):
        """Set the range of scores that `deal_fast` accepts."""
        self._lo, self._hi = lo, hi

    def deal_fast(self, score: object, y: object, w: object) -> cython.bint:
        """Do `deal_unit` for an unchecked observation if `fast_observation` accepts it; return whether it did."""
        if not fast_observation(score, y, w, self._lo, self._hi) or w != 1.0:
            return False
        return self._deal(score, 1.0 if y is True else 0.0)

    def deal_unit(self, x: cython.double, label: cython.double) -> cython.bint:
        """Add a unit of weight to what was dealt and to the tree whose turn it is.

        Returns False, and changes nothing, where something held at the score is no whole number.
        """
        return self._deal(x, label)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _deal(self, x: cython.double, label: cython.double) -> cython.bint:
        tree: HullTree
        own: cython.double
        folds: cython.ulonglong = len(self._trees)
        stored: cython.double = x if self._find is None else self._find(x)
        self._whole.write_group(stored, self._pair)
        own = self._pair[1] if label == 1.0 else self._pair[0] - self._pair[1]
        if not (self._pair[0] < _LARGEST_COUNT and self._pair[0] == floor(self._pair[0]) and own == floor(own)):
            return False
        self._whole.update_one(stored, label, 1.0)
        tree = self._trees[(hash_of(stored) % folds + cython.cast(cython.ulonglong, own)) % folds]
        tree.update(stored, 1.0, label, 1 if own < folds else 0)
        if own < folds:
            self.shares += 1
        return True

    def merged(self, x: cython.double, rule: cython.int) -> cython.double:
        """Return the merged probability of the trees at a coordinate, for a test object of weight 1."""
        k: cython.Py_ssize_t
        weight: cython.double
        tree: HullTree
        number: cython.Py_ssize_t = 0
        for k in range(len(self._trees)):
            tree = self._trees[k]
            weight = tree.mass()
            if weight > 0.0:
                tree.write_interval(x, min(max(1.0, _LIGHTEST * weight), _HEAVIEST * weight), self._pair)
                self._lower[number], self._upper[number] = self._pair[0], self._pair[1]
                number += 1
        return self._merged(number, rule) if number > 0 else 0.5

    @cython.cfunc
    @cython.exceptval(check=False)
    def _merged(self, number: cython.Py_ssize_t, rule: cython.int) -> cython.double:
        """Apply the rules of `maps/points.py`, in the same order of operations."""
        k: cython.Py_ssize_t
        low: cython.double
        high: cython.double
        p0: cython.double = 0.0
        p1: cython.double = 0.0
        share: cython.double = 1.0 / number
        for k in range(number):
            low, high = self._lower[k], self._upper[k]
            if rule == _LOG_MINIMAX:
                low, high = power(1.0 - low, share), power(high, share)
                p0 = low if k == 0 else p0 * low
                p1 = high if k == 0 else p1 * high
            elif rule == _BRIER_MINIMAX:
                high = high + 0.5 * (low * low - high * high)
                p1 = high if k == 0 else p1 + high
            else:
                p0 = low if k == 0 else p0 + low
                p1 = high if k == 0 else p1 + high
        if rule == _LOG_MINIMAX:
            return p1 / (p0 + p1)
        p0, p1 = p0 / number, p1 / number
        if rule == _BRIER_MINIMAX:
            return p1
        return 0.5 if 1.0 - p1 + p0 == 0.0 else p0 / (1.0 - p1 + p0)
