# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The correction of `Auto`'s forecast by the cycles of the day and of the week (UTC)."""

import cython
import numpy as np
from cython.cimports.libc.math import cos, sin
from cython.cimports.streamcal.kernels.mixture.combination import share_after
from cython.cimports.streamcal.kernels.mixture.knot_sums import LARGEST
from cython.cimports.streamcal.kernels.newton.implicit_regression import clamped
from cython.cimports.streamcal.kernels.newton.regressions import Regressions

DAY = cython.declare(cython.double, 86400.0)
TURN = cython.declare(cython.double, 6.283185307179586)
DAYS = cython.declare(cython.int, 4)
WEEKS = cython.declare(cython.int, 3)
"""Harmonics of the day, and of the week."""


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _set_harmonics(
    out: cython.double[::1], at: cython.Py_ssize_t, number: cython.int, turn: cython.double
) -> cython.void:
    """Set cos(k·turn) and sin(k·turn), k = 1 … number, by the sum formulas: rounding errors grow with k alone."""
    k: cython.Py_ssize_t
    c: cython.double = cos(turn)
    s: cython.double = sin(turn)
    out[at], out[at + 1] = c, s
    for k in range(at + 2, at + 2 * number, 2):
        out[k] = c * out[k - 2] - s * out[k - 1]
        out[k + 1] = s * out[k - 2] + c * out[k - 1]


class DayAndWeek:
    """A regression on the forecast, the score, a constant, and harmonics of the day and of the week.

    Nothing is stored before the first time.

    Parameters
    ----------
    plan : Plan
        Of the regression.
    prior : float
        The prior weight of what it forecasts, beside the forecast that it corrects.
    """

    def __init__(self, plan, prior: cython.double):
        self._plan, self._prior, self.share = plan, prior, prior
        self.regression, self.begun = None, False

    def begin(self):
        """Begin, at the first time."""
        self.regression, self.begun = Regressions(self._plan), True
        self._features = np.zeros(3 + 2 * (DAYS + WEEKS))

    def _show(self, x, both, t):
        """Set the features."""
        turn: cython.double = TURN * (t / DAY % 7.0)
        self._features[0], self._features[1], self._features[2] = both, x, 1.0
        _set_harmonics(self._features, 3, DAYS, turn)
        _set_harmonics(self._features, 3 + 2 * DAYS, WEEKS, turn / 7.0)

    def at(self, x, both, t):
        """Return the log-odds of the forecast `both` at the log-odds x of the score, corrected by the time t."""
        self._show(x, both, t)
        return clamped(self.regression.predict(0, self._features), LARGEST)

    def learn(self, x, y, w, forgets, t, both):
        """Learn a label, from the forecast that was corrected."""
        self._show(x, both, t)
        self.regression.learn(0, self._features, y, w, forgets)

    def judge(self, both, timed, y, rate, shared):
        """Update the weight by the likelihood that both issued forecasts gave a label."""
        self.share = share_after(self.share, self._prior, both, timed, y, rate, shared)

    def state(self):
        """Return the state of the regression as plain data, None before the first time."""
        return self.regression.state() if self.begun else None

    def load(self, state, share: cython.double):
        """Load an earlier `state`, and the weight."""
        if state is not None:
            self.begin()
            self.regression.load(*state)
        self.share = share
