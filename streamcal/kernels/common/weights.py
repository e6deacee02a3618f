# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: binding=False, always_allow_keywords=False
"""Weights under decay, and relative to their running mean, for methods that take one step per observation.

A sequential method has a learning rate, and so a unit of weight: an observation of weight 1 moves it as far as its rate
says. `WeightScale` makes the mean weight that unit. Multiplying all weights by one number then changes nothing.
"""

import cython
import numpy as np
from cython.cimports.libc.math import ceil, exp2

KEEP = cython.declare(cython.double, 0.9999)
"""An observation's part in the mean falls by this factor with each later observation: a memory of 10⁴ observations."""
SPLITTER = cython.declare(cython.double, 536870913.0)
"""2²⁹ + 1. Veltkamp's splitting keeps 24 of the 53 digits, so that rounding in the division does not reach a step."""
LIGHTEST = cython.declare(cython.double, 1e-50)
"""Smaller relative weights count as this: their products with gradients stay normal numbers."""
LEAST_SQUARE = cython.declare(cython.double, 1e-14)
"""Smaller squared residuals count as this, that of a forecast at log-odds 16."""
MOST_STEPS = cython.declare(cython.Py_ssize_t, 32)
"""An observation is learned in at most this many steps."""


def steps_of(weight: cython.double) -> cython.Py_ssize_t:
    """Return into how many equal steps to split a relative weight: the whole number above it, at most 32."""
    if weight <= 1.0:
        return 1
    return MOST_STEPS if weight >= MOST_STEPS else cython.cast(cython.Py_ssize_t, ceil(weight))


def exp2s(exponents: cython.const[cython.double][::1]):
    """Return 2 to the power of each exponent, as `math.exp2` does; NumPy's may differ in the last place."""
    i: cython.Py_ssize_t
    result = np.empty(exponents.shape[0])
    out: cython.double[::1] = result.data
    for i in range(exponents.shape[0]):
        out[i] = exp2(exponents[i])
    return result


class WeightScale:
    """The running mean of the weights of observations.

    Notes
    -----
    The mean includes the present weight, so that a relative weight is at most the number of observations in the mean,
    10⁴. Where all weights are equal, each is 1 exactly. O(1).
    """

    def __init__(self):
        self._total = self._count = 0.0

    def relative(self, w: cython.double) -> cython.double:
        """Add a weight above 0 to the mean, and return it relative to the mean, rounded to 24 binary digits."""
        self._total = KEEP * self._total + w
        self._count = KEEP * self._count + 1.0
        return self.ratio(w)

    def ratio(self, w: cython.double) -> cython.double:
        """Return a weight relative to the present mean, which stays as it is; `relative` returned it if w came last."""
        high: cython.double
        ratio: cython.double = w * self._count / self._total if self._total > 0.0 else 1.0
        if ratio < LIGHTEST:
            return LIGHTEST
        high = SPLITTER * ratio
        return high - (high - ratio)

    def relative_many(self, weights: cython.const[cython.double][:]):
        """Return `relative` of each weight in order, as an array; 0 stays 0 and does not enter the mean."""
        i: cython.Py_ssize_t
        result = np.zeros(weights.shape[0])
        out: cython.double[::1] = result
        for i in range(weights.shape[0]):
            if weights[i] > 0.0:
                out[i] = self.relative(float(weights[i]))
        return result

    def merge(self, other: "WeightScale"):
        """Add the weights of another mean."""
        self._total += other._total
        self._count += other._count

    def state(self):
        """Return the sum of the weights and their number, both with the factors of `KEEP`, for `load`."""
        return [float(self._total), float(self._count)]

    def load(self, total: cython.double, count: cython.double):
        """Load an earlier `state`."""
        self._total, self._count = total, count


class InformationScale:
    """What a weighted observation is worth, in observations of weight 1.

    An observation of relative weight w and squared residual r² is worth w·Σwr²/Σw²r² of them, with sums over the
    observations so far that fade as in `WeightScale`: weighted residuals then have the variance of as many
    observations. Where all weights are equal, each is worth 1. O(1).
    """

    def __init__(self):
        self._squares = self._sum = 0.0

    def worth(self, w: cython.double, square: cython.double) -> cython.double:
        """Add an observation of weight w relative to the mean, and return its worth, rounded to 24 binary digits."""
        high: cython.double
        ratio: cython.double
        square = max(square, LEAST_SQUARE)
        self._squares = KEEP * self._squares + w * (w * square)
        self._sum = KEEP * self._sum + w * square
        ratio = max(w * (self._sum / self._squares), LIGHTEST)
        high = SPLITTER * ratio
        return high - (high - ratio)

    def state(self):
        """Return [Σw²r², Σwr²], for `load`."""
        return [float(self._squares), float(self._sum)]

    def load(self, squares: cython.double, total: cython.double):
        """Load an earlier `state`."""
        self._squares, self._sum = squares, total
