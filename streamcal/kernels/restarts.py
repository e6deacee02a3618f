# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""What `Auto` mixes with its forecast: lines that begin anew, and the score until a switch."""

import cython

if not cython.compiled:
    import math

    from streamcal.kernels.implicit_regression import clamped, implicit
    from streamcal.kernels.logistic import sigmoid

    exp, log = math.exp, math.log
else:
    from cython.cimports.libc.math import exp, log
    from cython.cimports.streamcal.kernels.implicit_regression import clamped, implicit
    from cython.cimports.streamcal.kernels.logistic import sigmoid

import numpy as np

LARGEST = cython.declare(cython.double, 16.0)
"""The knots lie between log-odds ± this."""
FAR = cython.declare(cython.double, 1e300)
"""No log-odds of the weight of the score are further from 0, so that they stay finite."""
# What lines are mixed with, and where the first line is.
BASE = cython.declare(cython.Py_ssize_t, 0)
LINE = cython.declare(cython.Py_ssize_t, 1)
LINES = cython.declare(cython.Py_ssize_t, 4)
"""Lines that are held, at most."""
NONE = cython.declare(cython.longlong, -1)
"""When a line began that has not."""
LEAST = cython.declare(cython.double, 1e-100)
"""A line of less weight has none."""
YOUNG = cython.declare(cython.Py_ssize_t, 2)
"""A line is not given up before so many others have begun after it."""
SLOPE_PRECISION = cython.declare(cython.double, 3.0)
OFFSET_PRECISION = cython.declare(cython.double, 6.0)
"""What holds a line at the score, as the lines among the experts of `Auto`."""
NEAR = cython.declare(cython.double, 3.0)
"""A mean m of log-odds beyond ± this is far: offsets are then held at m − 9/m, as those of the experts of `Auto`."""
HEAVIEST = cython.declare(cython.double, 1e6)
"""Larger weights of observations are clipped to this in a line."""


@cython.ccall
@cython.exceptval(check=False)
def mean_of_two(v: cython.double, first: cython.double, second: cython.double) -> cython.double:
    """The log-odds of the mixture of two forecasts, of the odds against each; the first has the weight v."""
    p: cython.double = v / (1.0 + first)
    q: cython.double = (1.0 - v) / (1.0 + second)
    return log((p + q) / (first * p + second * q))


@cython.final
@cython.cclass
class Restarts:
    """The mixture of a forecast and of lines in the log-odds of the score, one of which begins anew from time to time.

    After every `every` outcomes a line begins at the score, in the place of the one that has the least weight, unless
    that is one of the last two; it is given the fraction `every`·`rate` of all weight, and what the other had goes to
    the forecast. A line is a logistic regression that forgets nothing, by implicit steps. An outcome multiplies each
    weight by the probability that was given to it; then the fraction `back` of all weight goes to the forecast. The
    loss is at most that of the forecast and n/`every`·ln 1/(1 − `every`·`rate`) after n outcomes; and, from where it
    began on, that of a line for as long as it is held, and ln 1/(`every`·`rate`), and as much a step as `back` says.

    This is fixed share (Herbster and Warmuth 1998) to experts that are born when they get their share, as of Adamskiy
    et al., A closer look at adaptive regret, JMLR 17, 2016.

    Parameters
    ----------
    every : int
    rate, back : float

    Notes
    -----
    Symbols: a line is c + θ·φ, φ = (x − c, 1), of curvature A. c is where offsets are held: 0, or near the mean of the
    scores since the last line began, if that is far from 0.
    """

    def __init__(self, every: cython.longlong, rate: cython.double, back: cython.double):
        self._every, self._given, self._back = every, every * rate, back
        self._z, self._odds = np.zeros((2, 1 + LINES)), np.ones((2, 1 + LINES))
        self._weights, self._began = np.zeros(1 + LINES), np.full(LINES, NONE)
        self._lines = np.zeros((LINES, 6))
        self._learned, self._sum = 0, 0.0
        self._drop()

    def _drop(self):
        """Give up all lines."""
        self._weights[:] = 0.0
        self._weights[BASE] = 1.0
        self._began[:] = NONE
        self._held = 0

    def weight(self):
        """The weight of all lines."""
        return 1.0 - self._weights[BASE] if self._held > 0 else 0.0

    def mean(self, side, x, z):
        """The log-odds of the mixture at a knot, of log-odds x, where the forecast is z."""
        k: cython.Py_ssize_t
        p: cython.double = 0.0
        q: cython.double = 0.0
        if self._held == 0:
            return z
        self._z[side, BASE] = z
        for k in range(LINES):
            self._z[side, LINE + k] = clamped(self._at(k, x), LARGEST)
        for k in range(1 + LINES):
            self._odds[side, k] = exp(-self._z[side, k])
            p += self._weights[k] / (1.0 + self._odds[side, k])
            q += self._weights[k] / (1.0 + self._odds[side, k]) * self._odds[side, k]
        return log(p / q)

    def _at(self, k, x):
        """What a line says at the log-odds x."""
        c: cython.double = self._lines[k, 0]
        return c + self._lines[k, 1] * (x - c) + self._lines[k, 2]

    def assess(self, share, y, out):
        """Set `out` to the log-probabilities of y under the forecast and the lines, as `mean` was told of them last."""
        if self._held > 0:
            set_gains(self._z, self._odds, share, y, out)

    def learn(self, x, y, w, gains):
        """One step on a label y at the log-odds x, of weight w, with its log-probabilities."""
        k: cython.Py_ssize_t
        if self._held > 0:
            self._weigh(gains, w)
            for k in range(LINES):
                if self._began[k] != NONE:
                    self._move(k, x, y, min(w, HEAVIEST))
        self._learned += 1
        self._sum += x
        if self._learned % self._every == 0:
            self._begin()

    def _weigh(self, gains, w):
        """Multiply all weights by the probabilities of the outcome, and give the forecast back its part."""
        k: cython.Py_ssize_t
        best: cython.double = -FAR
        total: cython.double = 0.0
        for k in range(1 + LINES):
            if self._weights[k] > 0.0:
                best = max(best, gains[k])
        for k in range(1 + LINES):
            if self._weights[k] > 0.0:
                self._weights[k] *= exp(w * (gains[k] - best))
                total += self._weights[k]
        for k in range(1 + LINES):
            self._weights[k] = (1.0 - self._back) * (self._weights[k] / total)
            if self._weights[k] < LEAST:
                self._weights[k] = 0.0
        self._weights[BASE] += self._back

    def _move(self, k, x, y, w):
        """A step of a line."""
        line: cython.double[:, ::1] = self._lines
        f: cython.double = x - line[k, 0]
        determinant: cython.double = max(
            line[k, 3] * line[k, 5] - line[k, 4] * line[k, 4], SLOPE_PRECISION * OFFSET_PRECISION
        )
        # A⁻¹φ
        slope: cython.double = (line[k, 5] * f - line[k, 4]) / determinant
        offset: cython.double = (line[k, 3] - line[k, 4] * f) / determinant
        v: cython.double = max(slope * f + offset, 0.0)
        p: cython.double = sigmoid(implicit(self._at(k, x), w * v, y))
        line[k, 1] += w * (y - p) * slope
        line[k, 2] += w * (y - p) * offset
        line[k, 3] += w * p * (1.0 - p) * f * f
        line[k, 4] += w * p * (1.0 - p) * f
        line[k, 5] += w * p * (1.0 - p)

    def _begin(self):
        """Begin a line at the score."""
        k: cython.Py_ssize_t
        place: cython.Py_ssize_t = -1
        middle: cython.double = self._sum / self._every
        for k in range(LINES):
            if self._began[k] == NONE:
                place = k
                break
            if self._learned - self._began[k] > YOUNG * self._every and (
                place < 0 or self._weights[LINE + k] < self._weights[LINE + place]
            ):
                place = k
        self._weights[BASE] += self._weights[LINE + place]
        self._weights[LINE + place] = 0.0
        for k in range(1 + LINES):
            self._weights[k] *= 1.0 - self._given
        self._weights[LINE + place] = self._given
        self._held += 1 if self._began[place] == NONE else 0
        self._began[place] = self._learned
        self._lines[place, 0] = middle - NEAR * NEAR / middle if abs(middle) > NEAR else 0.0
        self._lines[place, 1], self._lines[place, 2] = 1.0, 0.0
        self._lines[place, 3], self._lines[place, 4], self._lines[place, 5] = SLOPE_PRECISION, 0.0, OFFSET_PRECISION
        self._sum = 0.0

    def state(self):
        """[learned, sum of scores, weight of the forecast, lines that are held], for `load`.

        Of a line: its place, when it began, its weight, c, θ and A.
        """
        held: list = [k for k in range(LINES) if self._began[k] != NONE]
        lines: list = [
            [k, int(self._began[k]), float(self._weights[LINE + k]), *np.asarray(self._lines)[k].tolist()] for k in held
        ]
        return [int(self._learned), float(self._sum), float(self._weights[BASE]), lines]

    def load(self, learned: cython.longlong, total: cython.double, base: cython.double, lines):
        """Load an earlier `state`."""
        self._drop()
        self._learned, self._sum = learned, total
        self._weights[BASE] = base
        for line in lines:
            k: cython.Py_ssize_t = line[0]
            self._began[k] = line[1]
            self._weights[LINE + k] = line[2]
            np.asarray(self._lines)[k] = line[3:]
            self._held += 1


@cython.final
@cython.cclass
class Switch:
    """From one forecast to another, at most once: the mixture of all times at which that may happen.

    The first forecast has the weight `prior` and the second the rest; either is multiplied by the probability that it
    gave to an outcome; then the first hands the fraction `rate` of its weight to the second, and what it has above
    `most` if the label came late. The loss is at most that of the second and ln 1/(1 − `prior`). If no label is late,
    it is also at most that of the first and ln 1/`prior` + n ln 1/(1 − `rate`) after n outcomes. This is fixed share
    without a way back (Herbster and Warmuth 1998), or the switch distribution of van Erven, Grünwald and de Rooij
    (2012).

    Parameters
    ----------
    prior, rate, most : float
    """

    def __init__(self, prior: cython.double, rate: cython.double, most: cython.double):
        self._odds = log(prior / (1.0 - prior))
        self._rate = rate
        self._most = log(most / (1.0 - most))

    def weight(self):
        """The weight of the first forecast."""
        e: cython.double = exp(-abs(self._odds))
        return (1.0 if self._odds >= 0.0 else e) / (1.0 + e)

    def mean_of(self, first, second):
        """The log-odds of the mixture of two forecasts, of the odds against each of them."""
        return mean_of_two(self.weight(), first, second)

    def learn(self, first, second, w, late):
        """One step on an outcome of weight w, late or not, with its log-probabilities under both forecasts."""
        odds: cython.double = self._odds + w * (first - second)
        odds = min(max(odds, -FAR), self._most if late else FAR)
        # v ← (1 − rate) v, of odds o: (1 − rate) o / (1 + rate o)
        if odds > 0.0:
            odds = log((1.0 - self._rate) / (self._rate + exp(-odds)))
        else:
            odds += log((1.0 - self._rate) / (1.0 + self._rate * exp(odds)))
        self._odds = max(odds, -FAR)

    def state(self):
        """[log-odds of the weight of the first forecast], for `load`."""
        return [float(self._odds)]

    def load(self, odds: cython.double):
        """Load an earlier `state`."""
        self._odds = odds


@cython.ccall
@cython.exceptval(check=False)
def set_gains(
    z: cython.const[cython.double][:, ::1],
    odds: cython.const[cython.double][:, ::1],
    share: cython.double,
    y: cython.double,
    out: cython.double[::1],
) -> cython.void:
    """Set `out` to the log-probabilities of y under the forecasts, linear between the two knots.

    log σ(z) = −log(1 + exp(−z)), and log σ(−z) = log σ(z) − z; z lies within ±16, where neither is further off than
    1e-15.
    """
    k: cython.Py_ssize_t
    negative: cython.double = 1.0 if y <= 0.0 else 0.0
    for k in range(out.shape[0]):
        out[k] = -(1.0 - share) * (log(1.0 + odds[0, k]) + negative * z[0, k])
        if share > 0.0:
            out[k] -= share * (log(1.0 + odds[1, k]) + negative * z[1, k])
