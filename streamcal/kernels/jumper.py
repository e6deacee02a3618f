# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The Composite Jumper over sigmoids (Vovk, Petej & Gammerman 2021): which calibrator has been right lately?

Symbols, x being the log-odds of the score:

    fₖ = σ(βₖ x + αₖ)        the calibrators; f₀ is the score itself
    J                        a jump rate: the part of a row's weight that is spread anew over all calibrators
    V[j, k]                  the weight of calibrator k in the row of jump rate j; rows sum to 1
    R[j]                     log-wealth of row j against that of the score: a log likelihood ratio

This is fixed share whose rows start on the score, with a passive part that stays there.
"""

import cython

if not cython.compiled:
    import math

    from streamcal.kernels.fixed_share import FixedShare
    from streamcal.kernels.logistic import log_sigmoid, sigmoid

    exp, log = math.exp, math.log
else:
    from cython.cimports.libc.math import exp, log
    from cython.cimports.streamcal.kernels.fixed_share import FixedShare
    from cython.cimports.streamcal.kernels.logistic import log_sigmoid, sigmoid

import numpy as np


@cython.final
@cython.cclass
class Jumper(FixedShare):
    """Fixed share over K sigmoids of the log-odds of one score.

    Parameters
    ----------
    slopes, offsets : sequences of float
        βₖ and αₖ, the first pair being (1, 0).
    rates : sequence of float
        The jump rates, each above 0.
    passive : float
        The part of the wealth at the start that stays on the score for good.

    Notes
    -----
    O(K) for a forecast, O(K · rates) for an outcome and in memory.
    """

    weight = cython.declare(cython.double, visibility="readonly")
    _slopes: cython.const[cython.double][::1]
    _offsets: cython.const[cython.double][::1]

    def __init__(self, slopes, offsets, rates, passive: cython.double):
        FixedShare.__init__(self, rates, np.ones(len(rates)), np.full(len(slopes), 1.0 / len(slopes)), 1.0, passive)
        self._slopes = np.array(slopes, dtype=np.float64)
        self._offsets = np.array(offsets, dtype=np.float64)
        start = np.zeros((self.rows, self.size))
        start[:, 0] = 1.0
        self.load(start, np.zeros(self.rows), 0.0)

    @cython.ccall
    @cython.exceptval(check=False)
    def predict(self, x: cython.double) -> cython.double:
        """Σ weightₖ fₖ(x)."""
        k: cython.Py_ssize_t
        p: cython.double = 0.0
        for k in range(self.size):
            p += self._weights[k] * sigmoid(self._slopes[k] * x + self._offsets[k])
        return p if p < 1.0 else 1.0

    @cython.ccall
    def step(self, x: cython.double, y: cython.double, w: cython.double):
        """One step on the label y at x, which counts w times; then the jump."""
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        z: cython.double
        score: cython.double = log_sigmoid(x if y > 0.0 else -x)
        best: cython.double = 0.0  # the log of how much the score gains on itself
        for k in range(self.size):
            z = self._slopes[k] * x + self._offsets[k]
            self._gains[k] = w * (log_sigmoid(z if y > 0.0 else -z) - score)
            if self._gains[k] > best and self._shares[0, k] > 0.0:  # before the first jump only the score has weight
                best = self._gains[k]
        for k in range(self.size):
            self._gains[k] = exp(min(self._gains[k] - best, 0.0))
        for j in range(self.rows):
            self._log_wealth[j] += best + log(self._pay(j))
        self.weight += w
        self._weigh()

    def state(self):
        """[V, R, weight learned] as plain data, for `load`."""
        return [*FixedShare.state(self), self.weight]

    def load(self, shares, log_wealth, weight: cython.double):
        """Take over an earlier `state`; `ValueError` if it is of another size."""
        FixedShare.load(self, shares, log_wealth)
        self.weight = weight
