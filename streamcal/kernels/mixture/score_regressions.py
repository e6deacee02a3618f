# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The online regressions of `Auto`: on functions of the score and fading means of the labels."""

import cython
import numpy as np
from cython.cimports.libc.math import expm1, log1p
from cython.cimports.streamcal.kernels.mixture.knot_sums import LARGEST
from cython.cimports.streamcal.kernels.newton.implicit_regression import clamped, fill_line
from cython.cimports.streamcal.kernels.newton.regressions import Regressions

FIRST = cython.declare(cython.Py_ssize_t, 10)
"""Number of scores whose mean is the centre of the prior of the regressions."""
NEAR = cython.declare(cython.double, 3.0)
"""Mean log-odds within ± this (probabilities from 0.05 to 0.95) count as 0."""

# The indices in φ of the features of a score, after those of a line; means of labels follow them.
SQUARE = cython.declare(cython.Py_ssize_t, 4)
CUBE = cython.declare(cython.Py_ssize_t, 5)
SHOWN = cython.declare(cython.Py_ssize_t, 6)


class ScoreRegressions:
    """Regressions with forgetting, and the means of the labels ±1 that are features of some.

    Parameters
    ----------
    plan : Plan
        The features are those of a score x: x, 1, clamped below, clamped above, (x/4)², (x/4)³; then the means.
    rates : array
        Of the means: what a label moves each towards it.
    """

    def __init__(self, plan, rates):
        self.number, self.means = plan.number, len(rates)
        self.regressions = Regressions(plan)
        self._cut(np.zeros(SHOWN + 3 * self.means))
        np.asarray(self._means)[self.means :] = rates
        self._seen, self._total, self._off_centre = 0, 0.0, False

    def _cut(self, block: cython.double[::1]):
        """Make the arrays slices of one block: separate arrays take 0.4 kB more each."""
        at: cython.Py_ssize_t = SHOWN + self.means
        self._phi, self._means = block[:at], block[at:]

    def show(self, x, means, at):
        """Set the features to those of the log-odds x, and of the means that begin at an index; None: as they are."""
        k: cython.Py_ssize_t
        u: cython.double = 0.25 * x if -LARGEST < x < LARGEST else 0.0
        fill_line(self._phi, x)
        self._phi[SQUARE], self._phi[CUBE] = u * u, u * u * u
        for k in range(self.means):
            self._phi[SHOWN + k] = self._means[k] if means is None else means[at + k]

    def predict(self, index):
        """Return the log-odds that a regression forecasts where it was shown."""
        return clamped(self.regressions.predict(index, self._phi), LARGEST)

    def write_means(self, out, at):
        """Write the means from an index of a record on."""
        k: cython.Py_ssize_t
        for k in range(self.means):
            out[at + k] = self._means[k]

    def learn(self, x, y, w, issued, at):
        """Learn a label, from a record with the means from an index on."""
        k: cython.Py_ssize_t
        rate: cython.double
        self.show(x, issued, at)
        for k in range(self.number):
            self.regressions.learn(k, self._phi, y, w, True)
        for k in range(self.means):
            rate = self._means[self.means + k]
            if w != 1.0:
                rate = -expm1(w * log1p(-rate))
            self._means[k] += rate * (2.0 * y - 1.0 - self._means[k])

    def see(self, x):
        """Count a score among the first; return whether it is one of them, so that `hold` is due."""
        if self._seen >= FIRST:
            return False
        self._seen += 1
        self._total += x
        return True

    def hold(self):
        """Hold the offsets of the regressions where the first scores are, if they are far from log-odds 0.

        With the mean m of the first ten scores beyond ±3, the prior is centred on m − 9/m; else on 0. Only before
        regressions have learned much: their curvature starts again.
        """
        middle: cython.double = self._total / self._seen if self._seen > 0 else 0.0
        far: cython.bint = abs(middle) > NEAR
        centre: cython.double = middle - NEAR * NEAR / middle if far else 0.0
        if not far and not self._off_centre:
            return
        phi = np.asarray(self._phi)
        phi[:] = 0.0
        phi[1] = 1.0
        if far:
            fill_line(self._phi, centre)
            u = 0.25 * centre
            phi[SQUARE], phi[CUBE] = u * u, u * u * u
        self.regressions.hold(phi, 1)
        self._off_centre = far

    def first(self):
        """Return the number and the sum of the first scores."""
        return [self._seen, self._total]

    def state(self):
        """Return the fields of `AutoMixture.state` that are learned here, but for the first scores."""
        return {"regressions": self.regressions.state(), "means": np.asarray(self._means)[: self.means].tolist()}

    def load(self, state, first):
        """Load an earlier `state`, and the first scores."""
        self._seen, self._total = first
        if self._seen > 0:
            self.hold()
        self.regressions.load(*state["regressions"])
        np.asarray(self._means)[: self.means] = state["means"]
