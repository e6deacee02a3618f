# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The Composite Jumper over sigmoids (Vovk, Petej & Gammerman 2021): which calibrator has been right lately?

Symbols, x being the log-odds of the score:

    fₖ = σ(βₖ x + αₖ)        the calibrators; f₀ is the score itself
    J                        a jump rate: the share of capital that moves to a calibrator drawn at random
    v[j, k]                  of the capital staked at jump rate j, the share on calibrator k; rows sum to 1
    S[j]                     log of the capital at rate j against that of the score: a log likelihood ratio

Only shares and log ratios are kept, so nothing underflows, however long or heavy the stream: after a jump every share
is at least J/K.
"""

import cython

if not cython.compiled:
    import math

    exp, log, log1p = math.exp, math.log, math.log1p
else:
    from cython.cimports.libc.math import exp, log, log1p

import numpy as np


@cython.cclass
class Jumper:
    """Shares and capitals, and the step that moves them.

    Parameters: `slopes` βₖ and `offsets` αₖ, the first pair being (1, 0); `rates`, the jump rates; `passive`, the share
    of the initial capital that stays on the score for good. The rest is split evenly over the rates.
    """

    weight = cython.declare(cython.double, visibility="readonly")
    _slopes: cython.double[::1]
    _offsets: cython.double[::1]
    _rates: cython.double[::1]
    _shares: cython.double[:, ::1]
    _ratios: cython.double[::1]
    _mixture: cython.double[::1]  # the share of each calibrator in all capital: what a prediction needs
    _gains: cython.double[::1]  # of the step being made
    _passive: cython.double

    def __init__(self, slopes, offsets, rates, passive: cython.double):
        self._slopes = np.array(slopes, dtype=np.float64)
        self._offsets = np.array(offsets, dtype=np.float64)
        self._rates = np.array(rates, dtype=np.float64)
        self._passive = passive
        self._gains = np.zeros(len(slopes))
        self._mixture = np.zeros(len(slopes))
        shares = np.zeros((len(rates), len(slopes)))
        shares[:, 0] = 1.0
        self.load(shares, np.zeros(len(rates)), 0.0)

    @cython.ccall
    @cython.exceptval(check=False)
    def predict(self, x: cython.double) -> cython.double:
        """Σ mixtureₖ fₖ(x)."""
        k: cython.Py_ssize_t
        p: cython.double = 0.0
        z: cython.double
        e: cython.double
        for k in range(self._slopes.shape[0]):
            z = self._slopes[k] * x + self._offsets[k]
            if z >= 0.0:
                p += self._mixture[k] * (1.0 / (1.0 + exp(-z)))
            else:
                e = exp(z)
                p += self._mixture[k] * (e / (1.0 + e))
        return p if p < 1.0 else 1.0

    @cython.ccall
    def step(self, x: cython.double, y: cython.double, w: cython.double):
        """Pay for the label y at x, w times over; then jump."""
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        count: cython.Py_ssize_t = self._slopes.shape[0]
        z: cython.double
        score: cython.double = _log_sigmoid(x if y > 0.0 else -x)
        best: cython.double = 0.0  # the log gain of the score over itself
        total: cython.double
        rate: cython.double
        for k in range(count):
            z = self._slopes[k] * x + self._offsets[k]
            self._gains[k] = w * (_log_sigmoid(z if y > 0.0 else -z) - score)
            if self._gains[k] > best and self._shares[0, k] > 0.0:  # before the first jump only the score has capital
                best = self._gains[k]
        for k in range(count):
            self._gains[k] = exp(min(self._gains[k] - best, 0.0))
        for j in range(self._rates.shape[0]):
            total = 0.0
            for k in range(count):
                total += self._shares[j, k] * self._gains[k]
            rate = self._rates[j]
            for k in range(count):
                self._shares[j, k] = (1.0 - rate) / total * (self._shares[j, k] * self._gains[k]) + rate / count
            self._ratios[j] += best + log(total)
        self.weight += w
        self._mix()

    @cython.cfunc
    @cython.exceptval(check=False)
    def _mix(self) -> cython.void:
        """Set the mixture: the passive capital on the score, and that of every rate on its shares."""
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        rates: cython.Py_ssize_t = self._rates.shape[0]
        largest: cython.double = 0.0
        capital: cython.double
        total: cython.double
        for j in range(rates):
            if self._ratios[j] > largest:
                largest = self._ratios[j]
        total = self._passive * exp(-largest)
        for k in range(self._slopes.shape[0]):
            self._mixture[k] = total if k == 0 else 0.0
        for j in range(rates):
            capital = (1.0 - self._passive) / rates * exp(self._ratios[j] - largest)
            total += capital
            for k in range(self._slopes.shape[0]):
                self._mixture[k] += capital * self._shares[j, k]
        for k in range(self._slopes.shape[0]):
            self._mixture[k] /= total

    def mixture(self):
        """The share of each calibrator in all capital, a new array."""
        return np.array(self._mixture)

    def state(self):
        """(shares, log ratios, weight) as plain data, for `load`."""
        return np.asarray(self._shares).tolist(), np.asarray(self._ratios).tolist(), self.weight

    @cython.ccall
    def load(self, shares: object, ratios: object, weight: cython.double):
        """Take over an earlier `state`; `ValueError` if it is of another size."""
        expected = (len(self._rates), len(self._slopes))
        if np.shape(shares) != expected or np.shape(ratios) != expected[:1]:
            raise ValueError(f"expected shares of shape {expected}, not {np.shape(shares)}")
        self._shares = np.array(shares, dtype=np.float64)
        self._ratios = np.array(ratios, dtype=np.float64)
        self.weight = weight
        self._mix()


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _log_sigmoid(z: cython.double) -> cython.double:
    """log σ(z), without cancellation."""
    return -log1p(exp(-z)) if z >= 0.0 else z - log1p(exp(z))
