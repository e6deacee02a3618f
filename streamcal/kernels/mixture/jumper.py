# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The Composite Jumper: fixed share (Herbster and Warmuth, Tracking the best expert, 1998) over sigmoids of a score.

Symbols:

    V[j, k]                  the weight of calibrator k in row j, a row being one jump rate; rows sum to 1
    R[j]                     log-wealth of row j: the log of the product of its probabilities of the labels, relative
                             to those of the score

Only weights within rows and differences of log-wealth are kept, so nothing underflows, however long the stream.
Fields and C signatures are in `jumper.pxd`, for kernels that hold such objects.
"""

import cython
import numpy as np
from cython.cimports.libc.math import exp, log, log1p
from cython.cimports.streamcal.kernels.common.fast_path import fast_observation, fast_score
from cython.cimports.streamcal.kernels.common.weights import WeightScale
from cython.cimports.streamcal.kernels.newton.online_newton import log_odds

nan = cython.declare(cython.double, float("nan"))

LARGEST = cython.declare(cython.double, 16.0)
"""Log-odds of scores are clamped to ± this."""
NOTHING = cython.declare(cython.double, -746.0)
"""The exponential of this is 0, after long in libm: it looks for errors there."""


# These loops are functions of their own, since the compiler must otherwise assume that a store to one array, read from
# a field, moves the others.


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _redistribute(
    shares: cython.double[::1],
    at: cython.Py_ssize_t,
    gains: cython.const[cython.double][::1],
    prior: cython.const[cython.double][::1],
    rate: cython.double,
) -> cython.double:
    """Multiply a row, which begins at an index, normalise and redistribute it; returns the mean factor."""
    k: cython.Py_ssize_t
    total: cython.double = 0.0
    left: cython.double
    for k in range(gains.shape[0]):
        shares[at + k] *= gains[k]
    for k in range(gains.shape[0]):
        total += shares[at + k]
    left = (1.0 - rate) / total
    for k in range(gains.shape[0]):
        shares[at + k] = left * shares[at + k] + rate * prior[k]
    return total


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _add_row(
    sums: cython.double[::1], by: cython.double, rows: cython.double[::1], at: cython.Py_ssize_t
) -> cython.void:
    """Add a multiple of a row, which begins at an index."""
    k: cython.Py_ssize_t
    for k in range(sums.shape[0]):
        sums[k] += by * rows[at + k]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _multiply(out: cython.double[::1], by: cython.double) -> cython.void:
    """Multiply all entries."""
    k: cython.Py_ssize_t
    for k in range(out.shape[0]):
        out[k] *= by


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _set_multiples(out: cython.double[::1], by: cython.double, of: cython.const[cython.double][::1]) -> cython.void:
    """Set `out` to multiples of `of`."""
    k: cython.Py_ssize_t
    for k in range(out.shape[0]):
        out[k] = by * of[k]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _set_chances(
    odds: cython.double[::1],
    p: cython.double[::1],
    q: cython.double[::1],
    against: cython.const[cython.double][::1],
    of_slope: cython.const[cython.double][::1],
    factors: cython.const[cython.double][::1],
) -> cython.void:
    """Set the odds against 1, and the probabilities p of 1 and q of 0."""
    k: cython.Py_ssize_t
    for k in range(odds.shape[0]):
        odds[k] = against[cython.cast(cython.Py_ssize_t, of_slope[k])] * factors[k]
    for k in range(odds.shape[0]):
        p[k] = 1.0 / (1.0 + odds[k])
        q[k] = odds[k] * p[k]


class Jumper:
    """The Composite Jumper (Vovk, Petej & Gammerman 2021): fixed share over K sigmoids of the log-odds x of a score.

    The calibrators are fₖ = σ(βₖ x + αₖ), f₀ being the score itself. The rows, one for each jump rate, are
    initialised with all weight on the score, and R is their log-wealth relative to the score: a log likelihood ratio.

    Parameters
    ----------
    slopes, offsets : sequences of float
        βₖ and αₖ, the first pair being (1, 0).
    rates : sequence of float
        The jump rates, each above 0.
    passive : float
        The fraction of the initial weight that always stays on the score.

    Notes
    -----
    O(K) for a forecast, O(K · rates) for an outcome and in memory.
    """

    def __init__(self, slopes, offsets, rates, passive: cython.double):
        j: cython.Py_ssize_t
        different = sorted(set(slopes))
        self.size, self.rows = len(slopes), len(rates)
        self._passive = passive
        self._cut(np.zeros(2 * self.rows + 2 * len(different) + (8 + self.rows) * self.size), len(different))
        np.asarray(self._of_slope)[:] = [different.index(slope) for slope in slopes]
        np.asarray(self._rates)[:], np.asarray(self._slopes)[:] = rates, different
        np.asarray(self._prior)[:] = 1.0 / self.size
        np.asarray(self._factors)[:] = [exp(-offset) for offset in offsets]
        self._scale = WeightScale()
        self.weight = 0.0
        for j in range(self.rows):
            self._shares[j * self.size] = 1.0
        self._weigh()

    def _cut(self, block: cython.double[::1], slopes: cython.Py_ssize_t):
        """Set the small arrays, which are parts of one: each array apart takes 0.4 kB more."""
        size: cython.Py_ssize_t = self.size
        at: cython.Py_ssize_t = 2 * self.rows + 2 * slopes
        self._rates, self._log_wealth = block[: self.rows], block[self.rows : 2 * self.rows]
        self._slopes, self._against = block[2 * self.rows : at - slopes], block[at - slopes : at]
        self._prior, at = block[at : at + size], at + size
        self._weights, at = block[at : at + size], at + size
        self._gains, at = block[at : at + size], at + size
        self._factors, at = block[at : at + size], at + size
        self._odds_of, at = block[at : at + size], at + size
        self._p, at = block[at : at + size], at + size
        self._q, at = block[at : at + size], at + size
        self._of_slope, self._shares = block[at : at + size], block[at + size :]

    def predict(self, x):
        """Σ weightₖ fₖ(x)."""
        self._look(x)
        return self._mean()

    def predict_fast(self, score: object) -> cython.double:
        """Return the prediction at `score`, a float in [0, 1]; NaN for anything else."""
        return self.predict(log_odds(score, LARGEST)) if fast_score(score, 0.0, 1.0) else nan

    def learn_fast(self, score: object, y: object, w: object) -> cython.bint:
        """Do `step` for an unclamped float in [0, 1], a bool and a float weight; return whether it did."""
        x: cython.double
        if not fast_observation(score, y, w, 0.0, 1.0):
            return False
        x = log_odds(score, LARGEST)
        if not -LARGEST < x < LARGEST:
            return False
        self.step(x, 1.0 if y is True else 0.0, w)
        return True

    def _look(self, x):
        """Set the odds exp(−z) against 1 of each calibrator at x, and its probabilities; one exponential a slope."""
        k: cython.Py_ssize_t
        for k in range(self._slopes.shape[0]):
            self._against[k] = exp(-self._slopes[k] * x)
        _set_chances(self._odds_of, self._p, self._q, self._against, self._of_slope, self._factors)

    def _mean(self):
        """Return the prediction where `_look` has looked."""
        k: cython.Py_ssize_t
        p: cython.double = 0.0
        for k in range(self.size):
            p += self._weights[k] * self._p[k]
        return p if p < 1.0 else 1.0

    def _log_of(self, k, y):
        """Return the log-probability of the label y under a calibrator where `_look` has looked."""
        return -log1p(self._odds_of[k] if y > 0.0 else 1.0 / self._odds_of[k])

    def step(self, x, y, w):
        """Learn the label y at x, with weight w; then jump."""
        self._look(x)
        self._learn(y, w)

    def _learn(self, y, w):
        """Make the step where `_look` has looked, with the weight relative to the running mean."""
        j: cython.Py_ssize_t
        relative: cython.double = self._scale.relative(w)
        best: cython.double = self._set_gains(y) if relative == 1.0 else self._set_weighted_gains(y, relative)
        for j in range(self.rows):
            self._log_wealth[j] += best + log(self._pay(j))
        self.weight += w
        self._weigh()

    def _set_gains(self, y):
        """Set `_gains` to the probabilities of y relative to that under the score; returns 0.

        They are within exp(±33), as scores are within log-odds ±16.
        """
        if y > 0.0:
            _set_multiples(self._gains, 1.0 + self._odds_of[0], self._p)
        else:
            _set_multiples(self._gains, 1.0 + 1.0 / self._odds_of[0], self._q)
        self._gains[0] = 1.0
        return 0.0

    def _set_weighted_gains(self, y, w):
        """Set `_gains` to the same to the power w, divided by the largest; return the logarithm of the largest."""
        k: cython.Py_ssize_t
        score: cython.double = self._log_of(0, y)
        best: cython.double = 0.0  # the log gain of the score relative to itself
        for k in range(self.size):
            self._gains[k] = w * (self._log_of(k, y) - score) if k else 0.0
            if self._gains[k] > best and self._shares[k] > 0.0:  # before the first jump only the score has weight
                best = self._gains[k]
        for k in range(self.size):
            self._gains[k] = exp(min(self._gains[k] - best, 0.0))
        return best

    def _pay(self, row):
        """Multiply a row by `_gains`, normalise and redistribute it; returns the mean factor."""
        return _redistribute(self._shares, row * self.size, self._gains, self._prior, self._rates[row])

    def _weigh(self):
        """Set the weights: the fraction of each forecast in the total wealth."""
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        part: cython.double
        each: cython.double = (1.0 - self._passive) / self.rows
        largest: cython.double = 0.0
        total: cython.double
        for j in range(self.rows):
            largest = max(largest, self._log_wealth[j])
        total = self._passive * exp(-largest) if -largest > NOTHING else 0.0
        for k in range(self.size):
            self._weights[k] = 0.0
        self._weights[0] = total
        for j in range(self.rows):
            if self._log_wealth[j] - largest > NOTHING:
                part = each * exp(self._log_wealth[j] - largest)
                total += part
                _add_row(self._weights, part, self._shares, j * self.size)
        _multiply(self._weights, 1.0 / total)

    def weights(self):
        """Return the weight of each forecast, a new array; they sum to 1."""
        return np.array(self._weights)

    def stream(
        self,
        x: cython.const[cython.double][::1],
        y: cython.const[cython.double][::1],
        w: cython.const[cython.double][:],
        predictions: cython.double[::1],
    ):
        """Do `predict`, unless `predictions` is empty, and then `step` for each row; a row of weight 0 makes no step.

        It runs without the GIL.
        """
        i: cython.Py_ssize_t
        n: cython.Py_ssize_t = x.shape[0]
        predicts: cython.bint = predictions.shape[0] > 0
        if not n == y.shape[0] == w.shape[0] or (predicts and predictions.shape[0] != n):
            raise ValueError("lengths differ")
        with cython.nogil:
            for i in range(n):
                self._look(x[i])
                if predicts:
                    predictions[i] = self._mean()
                if w[i] > 0.0:
                    self._learn(y[i], w[i])

    def state(self):
        """Return [V, R, weight learned, state of the weight scale] as plain data, for `load`."""
        shares = np.asarray(self._shares).reshape(self.rows, self.size).tolist()
        return [shares, np.asarray(self._log_wealth).tolist(), float(self.weight), self._scale.state()]

    def load(self, shares, log_wealth, weight: cython.double, scale):
        """Load an earlier `state`; `ValueError` if it is of another size."""
        if np.shape(shares) != (self.rows, self.size) or np.shape(log_wealth) != (self.rows,):
            raise ValueError(f"expected weights of shape {(self.rows, self.size)}, not {np.shape(shares)}")
        np.asarray(self._shares)[:] = np.ravel(shares)
        np.asarray(self._log_wealth)[...] = log_wealth
        self.weight = weight
        self._scale.load(*scale)
        self._weigh()
