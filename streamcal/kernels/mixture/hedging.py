# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Forecasts by bin, after calibeating: shares of positives, and the randomised forecaster F99 (Foster 1999).

Symbols, in one row of F99:

    l, m, r                  left end, midpoint and right end of place i, m the i-th possible forecast: i/K to (i+1)/K
    q                        the share of positive outcomes when m was forecast; m, if it never was
    d = l − q,  e = q − r    deficit and excess: above 0 where the forecast m has been too high, too low

A place with d ≤ 0 and e ≤ 0 is calibrated and is forecast. If there is none, q lies above the first place and below the
last, so there is a place i of excess followed by a place i + 1 of deficit: the forecast is i with probability
d[i+1] / (d[i+1] + e[i]), else i + 1. With N the weight of a place, Σ N·max(d, e, 0)² then grows by at most 1/(N + 1) in
the mean, whatever the label is: its linear terms, 2·e[i]·(y − r[i]) and 2·d[i+1]·(r[i] − y), cancel.
"""

import cython
import numpy as np
from cython.cimports.streamcal.kernels.common.hashing import mixed
from cython.cimports.streamcal.kernels.newton.online_newton import OnlineNewton, fast_log_odds, log_odds

nan = cython.declare(cython.double, float("nan"))

# SplitMix64: the k-th number is a hash of seed + k·GOLDEN, without any state.
GOLDEN = cython.declare(cython.ulonglong, 0x9E3779B97F4A7C15)
MASK = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)  # for ordinary Python, whose integers do not wrap
UNIT = cython.declare(cython.double, 2.0**-53)


@cython.ccall
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def uniform(seed: cython.ulonglong, number: cython.ulonglong) -> cython.double:
    """Return the random number in [0, 1) of this seed and number (0, 1, ...), by the top 53 bits of SplitMix64."""
    z: cython.ulonglong = (seed + (number + 1) * GOLDEN) & MASK
    top: cython.double
    top = mixed(z) >> 11
    return top * UNIT


@cython.ccall
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def bin_of(p: cython.double, bins: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Return the index i of the bin [i/bins, (i + 1)/bins) that contains p; the last bin includes 1."""
    i: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, p * bins)
    return i if i < bins else bins - 1


class BinForecaster:
    """Forecasts of `size` bins, each a function of the bin and of the outcomes that fell into it.

    Fields and C signatures are in `hedging.pxd`.
    """

    def forecast(self, row: cython.Py_ssize_t) -> cython.double:
        """Return the probability forecast in a bin; NaN for one that there is not."""
        return self._forecast(row) if 0 <= row < self._size else nan

    def _forecast(self, row: cython.Py_ssize_t) -> cython.double:
        return nan

    def learn(self, row: cython.Py_ssize_t, y: cython.double, w: cython.double):
        """Learn the label y, of weight w, that followed the forecast of this bin."""
        if not 0 <= row < self._size:
            raise IndexError(f"there is no row {row} of {self._size}")
        self._learn(row, y, w)

    def _learn(self, row: cython.Py_ssize_t, y: cython.double, w: cython.double) -> cython.void:
        pass


class Shares(BinForecaster):
    """The share of positives in each bin, beside one pseudo-observation of weight 1 at its midpoint. O(1).

    Parameters
    ----------
    size : int
        Number of bins.
    """

    def __init__(self, size: cython.Py_ssize_t):
        self._size = size
        self._weight = np.ones(size)
        self._positive = (np.arange(size) + 0.5) / size

    def _forecast(self, row: cython.Py_ssize_t) -> cython.double:
        return self._positive[row] / self._weight[row]

    def _learn(self, row: cython.Py_ssize_t, y: cython.double, w: cython.double) -> cython.void:
        self._weight[row] += w
        self._positive[row] += w * y

    def state(self):
        """Return (weights, positive weights) as plain data, for `load`."""
        return np.asarray(self._weight).tolist(), np.asarray(self._positive).tolist()

    def load(self, weight: object, positive: object):
        """Load an earlier `state`; `ValueError` if it is of another size."""
        if not np.shape(weight) == np.shape(positive) == (self._size,):
            raise ValueError(f"expected {self._size} weights, not {np.shape(weight)}")
        self._weight = np.array(weight, dtype=np.float64)
        self._positive = np.array(positive, dtype=np.float64)


@cython.final
@cython.cclass
class Calibeaten:
    """Calibeating: `newton` determines the bin of each score, the bin's forecast is the prediction; then both learn.

    Parameters
    ----------
    newton : OnlineNewton
    bins : BinForecaster
    """

    newton: OnlineNewton
    bins: BinForecaster

    def __init__(self, newton: OnlineNewton, bins: BinForecaster):
        self.newton = newton
        self.bins = bins

    @property
    def weight(self):
        """The total weight learned."""
        return self.newton.weight

    def parameters(self):
        """Return slope and offset of the sigmoid whose values are binned."""
        return self.newton.parameters()

    def forecasts(self):
        """Return the forecast of each bin."""
        return [self.bins._forecast(i) for i in range(self.bins._size)]

    def predict_fast(self, score: object) -> cython.double:
        """Return the prediction at `score`, a float in [0, 1]; NaN for anything else."""
        p: cython.double = self.newton.predict_fast(score)
        return self.bins._forecast(bin_of(p, self.bins._size)) if p == p else nan

    def learn_fast(self, score: object, y: object, w: object) -> cython.bint:
        """Do `step` for a float in [0, 1], a bool and a float weight within the limit; return whether it did."""
        x: cython.double = fast_log_odds(score, y, w, self.newton.limit)
        if x != x:
            return False
        self.step(x, 1.0 if y is True else 0.0, w)
        return True

    def predict(self, x: cython.double) -> cython.double:
        """Return the prediction at the log-odds x."""
        return self.bins._forecast(bin_of(self.newton.predict(x), self.bins._size))

    def step(self, x: cython.double, y: cython.double, w: cython.double):
        """Learn the label y at the log-odds x, of weight w."""
        z: cython.double[3] = [0.0, 0.0, 0.0]
        p: cython.double = self.newton._forecast(x, z)
        self._learn(z, p, y, w)

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def _learn(self, z: cython.p_double, p: cython.double, y: cython.double, w: cython.double) -> cython.void:
        """Learn the label y, of weight w, at z, where `newton` predicted p."""
        self.newton._learn(z, p, y, w)
        self.bins._learn(bin_of(p, self.bins._size), y, self.newton.relative)

    def stream(
        self,
        scores: cython.const[cython.double][::1],
        y: cython.const[cython.double][::1],
        w: cython.const[cython.double][:],
        predictions: cython.double[::1],
    ):
        """Predict and then learn each row, without the GIL; scores are in [0, 1].

        Without predictions if that array is empty; a row of weight 0 is not learned.
        """
        i: cython.Py_ssize_t
        n: cython.Py_ssize_t = scores.shape[0]
        x: cython.double
        p: cython.double
        z: cython.double[3] = [0.0, 0.0, 0.0]
        predicts: cython.bint = predictions.shape[0] > 0
        if not n == y.shape[0] == w.shape[0] or (predicts and predictions.shape[0] != n):
            raise ValueError("lengths differ")
        with cython.nogil:
            x = log_odds(scores[0], self.newton.limit) if n > 0 else 0.0
            for i in range(n):
                p = self.newton._forecast(x, z)
                if i + 1 < n:
                    x = log_odds(scores[i + 1], self.newton.limit)
                if predicts:
                    predictions[i] = self.bins._forecast(bin_of(p, self.bins._size))
                if w[i] > 0.0:
                    self._learn(z, p, y[i], w[i])

    def state(self):
        """Return the states of both parts, for `load`."""
        return list(self.newton.state()), list(self.bins.state())

    def load(self, newton: object, bins: object):
        """Load an earlier `state`."""
        self.newton.load(*newton)
        self.bins.load(*bins)


class Hedger(BinForecaster):
    """`size` forecasters of `size` places, one for each row, with one stream of random numbers.

    Every row draws the random number of how many outcomes all rows have learned, so that the forecast of a row is the
    same until the next outcome is learned.

    Parameters
    ----------
    size : int
        Number of rows, and of places in each.
    seed : int
        From 0 to 2⁶⁴ − 1.

    Notes
    -----
    O(size) for a forecast and for an outcome, O(size²) memory.
    """

    def __init__(self, size: cython.Py_ssize_t, seed: cython.ulonglong):
        self._size = size
        self._seed = seed
        self._weight = np.zeros((size, size))
        self._positive = np.zeros((size, size))
        self.number = 0

    def _forecast(self, row: cython.Py_ssize_t) -> cython.double:
        return (self._choose(row) + 0.5) / self._size

    def _learn(self, row: cython.Py_ssize_t, y: cython.double, w: cython.double) -> cython.void:
        i: cython.Py_ssize_t = self._choose(row)
        self._weight[row, i] += w
        self._positive[row, i] += w * y
        self.number += 1

    def _choose(self, row: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Choose the place forecast in a row: the current one if calibrated, else the first calibrated, else random."""
        i: cython.Py_ssize_t
        deficit: cython.double
        excess: cython.double
        if self._size == 1:
            return 0
        if self._deficit(row, row) <= 0.0 and self._excess(row, row) <= 0.0:
            return row
        for i in range(self._size):
            if self._deficit(row, i) <= 0.0 and self._excess(row, i) <= 0.0:
                return i
        i = 1
        while i < self._size - 1 and self._deficit(row, i) <= 0.0:
            i += 1
        deficit = self._deficit(row, i)
        excess = self._excess(row, i - 1)
        return i - 1 if uniform(self._seed, self.number) * (deficit + excess) < deficit else i

    def _deficit(self, row: cython.Py_ssize_t, i: cython.Py_ssize_t) -> cython.double:
        """Return l − q of a place; below 0 where it was never forecast."""
        if self._weight[row, i] == 0.0:
            return -0.5 / self._size
        return cython.cast(cython.double, i) / self._size - self._positive[row, i] / self._weight[row, i]

    def _excess(self, row: cython.Py_ssize_t, i: cython.Py_ssize_t) -> cython.double:
        """Return q − r of a place; below 0 where it was never forecast."""
        if self._weight[row, i] == 0.0:
            return -0.5 / self._size
        return self._positive[row, i] / self._weight[row, i] - cython.cast(cython.double, i + 1) / self._size

    def state(self):
        """Return (weights, positive weights, number learned) as plain data, for `load`."""
        return np.asarray(self._weight).tolist(), np.asarray(self._positive).tolist(), self.number

    def load(self, weight: object, positive: object, number: cython.ulonglong):
        """Load an earlier `state`; `ValueError` if it is of another size."""
        if not np.shape(weight) == np.shape(positive) == (self._size, self._size):
            raise ValueError(f"expected {self._size} × {self._size} weights, not {np.shape(weight)}")
        self._weight = np.array(weight, dtype=np.float64)
        self._positive = np.array(positive, dtype=np.float64)
        self.number = number
