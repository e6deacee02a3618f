# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""A logistic regression of the coordinate along a stream: a prediction from the sums as they are, then an update."""

import cython
import numpy as np
from cython.cimports.libc.math import exp, fabs, log, log1p
from cython.cimports.streamcal.kernels.cells.cell_points import find_points
from cython.cimports.streamcal.kernels.cells.cell_sums import CellRows, CellSums
from cython.cimports.streamcal.kernels.common.logistic import sigmoid
from cython.cimports.streamcal.kernels.newton.anchored_logistic import AnchoredLogistic, regularised_targets


@cython.final
@cython.cclass
class AnchoredStream:
    """The loop over the rows of a batch: follow the changed cells, fit, predict, add the row. Without the GIL.

    Parameters
    ----------
    sums : CellSums
        The cells that are held.
    borders : array of shape (cells + 1,)
        Their ends.
    curved : bool
        Whether the log-odds are slope·ln s − second·ln(1 − s) + offset of the probability s whose log-odds are the
        coordinate, in place of a line in the coordinate.
    shift : float
        What is added to ln s and to ln(1 − s) in the features.

    Attributes
    ----------
    following : bool
        Whether the kernel has the points of the cells, but for the changes that are listed.
    solved : bool
        Whether slope and offset are those of the cells as they are.
    fitted : bool
        Whether they have been found here since this was set to False.
    slope, second, offset : float
        Of the log-odds; NaN while there are none.
    """

    following = cython.declare(cython.bint, visibility="public")
    solved = cython.declare(cython.bint, visibility="public")
    fitted = cython.declare(cython.bint, visibility="public")
    slope = cython.declare(cython.double, visibility="public")
    second = cython.declare(cython.double, visibility="public")
    offset = cython.declare(cython.double, visibility="public")
    _sums: CellSums
    _borders: cython.const[cython.double][::1]
    _cell_points: cython.double[::1]
    _curved: cython.bint
    _shift: cython.double

    def __init__(
        self,
        sums: CellSums,
        borders: cython.const[cython.double][::1],
        curved: cython.bint = False,
        shift: cython.double = 0.0,
    ):
        self._sums, self._borders = sums, borders
        self._cell_points = np.zeros(4).data
        self._curved, self._shift = curved, shift
        self.following = self.solved = self.fitted = False
        self.slope = self.second = self.offset = np.nan

    def run(
        self,
        kernel: AnchoredLogistic,
        rows: CellRows,
        unit: cython.const[cython.double][:],
        start: cython.Py_ssize_t,
        predictions: cython.double[::1],
    ) -> cython.Py_ssize_t:
        """Write the prediction for each row from `start` on, and then learn it.

        `unit` is the stored weight of an observation of weight 1. Returns the first row before whose prediction the fit
        was not certified, or their number. The kernel is read only where `following`.
        """
        i: cython.Py_ssize_t
        n: cython.Py_ssize_t = rows._size
        if not n == unit.shape[0] == predictions.shape[0]:
            raise ValueError("lengths differ")
        with cython.nogil:
            for i in range(start, n):
                if i > start and kernel.targets and unit[i] != unit[i - 1]:  # as time passes, without an observation
                    self.solved = False
                if not (self.solved or (self.following and self._follow(kernel) and self._fit(kernel, unit[i]))):
                    n = i
                    break
                predictions[i] = self._at(rows._x[i])
                if rows._learn(i):
                    self.solved = False
        return n

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _at(self, x: cython.double) -> cython.double:
        """Return the prediction at a coordinate, by the formula of the map."""
        tail: cython.double
        if not self._curved:
            return sigmoid(self.slope * x + self.offset)
        tail = log1p(exp(-fabs(x)))
        return sigmoid(self.slope * (min(x, 0.0) - tail) + self.second * (max(x, 0.0) + tail) + self.offset)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _follow(self, kernel: AnchoredLogistic) -> cython.bint:
        """Replace the points of the changed cells; False, and no longer `following`, if any may have changed."""
        k: cython.Py_ssize_t
        cell: cython.Py_ssize_t
        self.following = self._sums._number >= 0
        if self._sums._factor > 0.0 and self._sums._factor != 1.0:
            kernel.scale(self._sums._factor)
            self._sums._factor = 1.0
        for k in range(self._sums._number):
            cell = self._sums._changed[k]
            find_points(self._sums._cells, cell, self._borders[cell], self._borders[cell + 1], self._cell_points)
            self._replace(kernel, 2 * cell, self._cell_points[0], self._cell_points[1])
            self._replace(kernel, 2 * cell + 1, self._cell_points[2], self._cell_points[3])
        self._sums._number = 0
        return self.following

    @cython.cfunc
    @cython.inline
    @cython.nogil
    @cython.exceptval(check=False)
    def _replace(
        self, kernel: AnchoredLogistic, slot: cython.Py_ssize_t, x: cython.double, w: cython.double
    ) -> cython.void:
        tail: cython.double
        if kernel.two and w > 0.0:
            tail = log1p(exp(-fabs(x)))
            kernel.replace(slot, min(x, 0.0) - tail + self._shift, max(x, 0.0) + tail - self._shift, w)
        else:
            kernel.replace(slot, x if w > 0.0 else 0.0, 0.0, w)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _fit(self, kernel: AnchoredLogistic, unit: cython.double) -> cython.bint:
        """Return whether the fit is certified; slope and offset are then those of the fit."""
        t_plus: cython.double = 1.0
        t_minus: cython.double = 0.0
        if kernel.targets:
            t_plus, t_minus = regularised_targets(kernel.points.weight[0] / unit, kernel.points.weight[1] / unit)
        if not kernel.fit(t_plus, t_minus):
            return False
        self.slope, self.offset = kernel.fitted[0], kernel.fitted[2]
        self.second = kernel.fitted[1] if kernel.two else self.slope
        if self._curved and not kernel.constant:
            self.offset = log(2.0) * (self.slope - self.second)
        self.solved = self.fitted = True
        return True
