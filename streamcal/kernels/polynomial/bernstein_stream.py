# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Bernstein least squares along a stream: a prediction from the sums as they are, and then an update of them."""

import cython
from cython.cimports.streamcal.kernels.polynomial.bernstein import BernsteinSums, Curve
from cython.cimports.streamcal.kernels.polynomial.monotone_qp import MonotoneQP

nan = cython.declare(cython.double, float("nan"))


@cython.cclass
class BernsteinStream:
    """The loop over the rows of a batch: solve, if the sums have changed, read the curve, add the row. Without the GIL.

    Parameters
    ----------
    sums : BernsteinSums
        The sums that are held, which `qp` watches.
    qp : MonotoneQP
        Writes the coefficients.
    curve : Curve
        Reads them.

    Attributes
    ----------
    solved : bool
        Whether the coefficients are those of the sums as they are.
    fitted : bool
        Whether a solve has succeeded since this was set.
    """

    solved = cython.declare(cython.bint, visibility="public")
    fitted = cython.declare(cython.bint, visibility="public")
    _sums: BernsteinSums
    _qp: MonotoneQP
    _curve: Curve

    def __init__(self, sums: BernsteinSums, qp: MonotoneQP, curve: Curve):
        self._sums, self._qp, self._curve = sums, qp, curve
        self.solved = self.fitted = False

    def run(
        self,
        x: cython.const[cython.double][::1],
        y: cython.const[cython.double][::1],
        w: cython.const[cython.double][:],
        leaving_x: cython.const[cython.double][::1],
        leaving_y: cython.const[cython.double][::1],
        leaving_w: cython.const[cython.double][::1],
        room: cython.Py_ssize_t,
        predicted: cython.Py_ssize_t,
        predictions: cython.double[::1],
    ) -> cython.Py_ssize_t:
        """Write the prediction for each row, but for the first `predicted`, NaN without weight; then add the row.

        A row of weight 0 is not added. After each one added beyond `room`, the next of those leaving is removed.
        Returns the first row for which the solve has failed, before it is predicted and added; else their number.
        """
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t = -room
        n: cython.Py_ssize_t = x.shape[0]
        lo: cython.double = self._sums.lo
        width: cython.double = self._sums.hi - self._sums.lo
        if not n == y.shape[0] == w.shape[0] == predictions.shape[0]:
            raise ValueError("lengths differ")
        if not leaving_x.shape[0] == leaving_y.shape[0] == leaving_w.shape[0]:
            raise ValueError("lengths of what leaves differ")
        with cython.nogil:
            for i in range(n):
                if i >= predicted:
                    if not self._solve():
                        n = i
                        break
                    predictions[i] = self._curve.at(x[i]) if self._sums.weight > 0.0 else nan
                if w[i] > 0.0:
                    self._sums.update_one(x[i], y[i], w[i])
                    self.solved = False
                    if 0 <= j < leaving_x.shape[0]:
                        self._sums.unlearn((leaving_x[j] - lo) / width, leaving_w[j], leaving_w[j] * leaving_y[j])
                    j += 1
        return n

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _solve(self) -> cython.bint:
        """Bring the coefficients up to date; False if the solver fails."""
        if self.solved or not self._sums.weight > 0.0:
            return True
        if self._qp.solve_watched(self._sums.weight) != 0:
            return False
        self.solved = self.fitted = True
        return True
