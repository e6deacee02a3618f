# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""A ladder of memories: online logistic regressions that forget at many speeds, from tens of units to nothing.

Symbols:

    x                        the log-odds of the score; d = x − c is its distance from the first score, c
    f                        the features of a line, (1, d), or of a curve, (1, d, (e/4)², (e/4)³), with e = d within ±6
    b                        the coefficients of a rung, whose forecast is x + b·f in log-odds
    p, u = 4p(1 − p)         an issued forecast, and the information of its label: 1 at even odds
    U                        the information learned
    m                        the memory of a rung, in units of information; 0 is all
    A                        the curvature that a rung has learned and not forgotten
    T                        the curvature of the prior, which never fades
    k, n                     the positives and negatives of a rung among scores that are clamped, at either end

A step is  A ← m/(m + u)·A + w·s(1 − s)·ffᵀ;  b ← b + (A + T)⁻¹((y − s)·w·f − u/(m + u)·T·b), s being the forecast of
the rung now. T = o·μμᵀ + l·Σ, with the mean μ and the covariance Σ of the features, weighted by information: the prior
is worth o events where the scores are. Where scores are clamped, a rung forecasts the mean of the labels there and of
one more, equal to the score:  k ← m/(m + u)·k + w·y, and n likewise. A rung of memory m is a copy of the one
that forgets nothing until U = m/10.

This is dynamic logistic regression with dynamic model averaging (Raftery, Kárný and Ettler, Technometrics 2010;
McCormick, Raftery, Madigan and Burd, Biometrics 2012), with time counted in information.
"""

import cython
import numpy as np
from cython.cimports.libc.math import exp
from cython.cimports.streamcal.kernels.mixture.knot_sums import LARGEST, log_odds_of
from cython.cimports.streamcal.kernels.mixture.late_weights import LateWeights

LINE, CURVE = cython.declare(cython.Py_ssize_t, 2), cython.declare(cython.Py_ssize_t, 4)
FULL = cython.declare(cython.Py_ssize_t, 16)
"""The numbers of a rung's curvature: four rows of four, of which the lower triangle is used."""
OFFSET, SLOPE = cython.declare(cython.double, 1.0), cython.declare(cython.double, 4.0)
"""o and l of T, in p(1 − p): 1 is one event where events are rare."""
PLACE_FADES = cython.declare(cython.double, 1e-5)
"""The part of the sums for μ and Σ that a unit of information replaces."""
ENTERS = cython.declare(cython.double, 0.1)
"""A rung enters when the stream is this part of its memory long."""
BENDS = cython.declare(cython.double, 6.0)
"""Curves bend within ± this of the first score, and are lines beyond."""
TINY = cython.declare(cython.double, 1e-7)
"""The positive part of the label that holds a clamped score at its end."""
PIVOT = cython.declare(cython.double, 1e-12)
"""A pivot of a curvature is at least this."""


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _sigmoid(z: cython.double) -> cython.double:
    return 1.0 / (1.0 + exp(-z))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _clamped(z: cython.double) -> cython.double:
    return -LARGEST if z < -LARGEST else LARGEST if z > LARGEST else z


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _bent(d: cython.double) -> cython.double:
    """Return a quarter of the distance d, within the range where curves bend."""
    return 0.25 * (-BENDS if d < -BENDS else BENDS if d > BENDS else d)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _show(
    theta: cython.const[cython.double][::1],
    entered: cython.const[cython.double][::1],
    lines: cython.Py_ssize_t,
    x: cython.double,
    d: cython.double,
    out: cython.double[::1],
    at: cython.Py_ssize_t,
) -> cython.void:
    """Write the forecast of each rung."""
    k: cython.Py_ssize_t
    e: cython.double = _bent(d)
    square: cython.double = e * e
    cube: cython.double = square * e
    place: cython.Py_ssize_t = 0
    for k in range(lines):
        if entered[k] != 0.0:
            out[at + k] = _clamped(x + theta[place] + theta[place + 1] * d)
        else:
            out[at + k] = out[at]
        place += LINE
    for k in range(lines, entered.shape[0]):
        if entered[k] != 0.0:
            out[at + k] = _clamped(
                x + theta[place] + theta[place + 1] * d + theta[place + 2] * square + theta[place + 3] * cube
            )
        else:
            out[at + k] = out[at + lines]
        place += CURVE


def step_line(a, prior, offset, slope, keep, d, error, curvature, step):
    """Set `step` to the change of a line's coefficients by a label; its curvature a, (1, d, d²) in turn, is updated.

    `prior` is T, `keep` what the label leaves of the past, and `error` and `curvature` are w·(y − s) and w·s(1 − s).
    """
    gone: cython.double = 1.0 - keep
    first: cython.double = error - gone * (prior[0] * offset + prior[1] * slope)
    second: cython.double = error * d - gone * (prior[1] * offset + prior[2] * slope)
    m0: cython.double
    m1: cython.double
    m2: cython.double
    h: cython.double
    a[0] = a[0] * keep + curvature
    a[1] = a[1] * keep + curvature * d
    a[2] = a[2] * keep + curvature * d * d
    m0, m1, m2 = a[0] + prior[0], a[1] + prior[1], a[2] + prior[2]
    h = 1.0 / max(m0 * m2 - m1 * m1, PIVOT * m0 * m2)
    step[0] = (m2 * first - m1 * second) * h
    step[1] = (m0 * second - m1 * first) * h


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _step_lines(
    theta: cython.double[::1],
    a: cython.double[::1],
    memory: cython.const[cython.double][::1],
    entered: cython.const[cython.double][::1],
    lines: cython.Py_ssize_t,
    prior: cython.p_double,
    x: cython.double,
    d: cython.double,
    y: cython.double,
    w: cython.double,
    u: cython.double,
) -> cython.void:
    """Move the lines by a label."""
    k: cython.Py_ssize_t
    at: cython.Py_ssize_t
    s: cython.double
    keep: cython.double
    own_prior: cython.double[3] = [0.0, 0.0, 0.0]
    own: cython.double[3] = [0.0, 0.0, 0.0]
    step: cython.double[2] = [0.0, 0.0]
    own_prior[0], own_prior[1], own_prior[2] = prior[0], prior[4], prior[5]
    for k in range(lines):
        if entered[k] == 0.0:
            continue
        at = LINE * k
        s = _sigmoid(_clamped(x + theta[at] + theta[at + 1] * d))
        keep = memory[k] / (memory[k] + u) if memory[k] > 0.0 else 1.0
        own[0], own[1], own[2] = a[3 * k], a[3 * k + 1], a[3 * k + 2]
        step_line(own, own_prior, theta[at], theta[at + 1], keep, d, w * (y - s), w * s * (1.0 - s), step)
        a[3 * k], a[3 * k + 1], a[3 * k + 2] = own[0], own[1], own[2]
        theta[at] += step[0]
        theta[at + 1] += step[1]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _solve(m: cython.p_double, b: cython.p_double) -> cython.void:
    """Set b to M⁻¹b by M = LDLᵀ, given the lower triangle of M. Written out: loops take twice as long."""
    r0: cython.double = 1.0 / m[0]
    l1: cython.double = m[4] * r0
    l2: cython.double = m[8] * r0
    l3: cython.double = m[12] * r0
    r1: cython.double = 1.0 / max(m[5] - l1 * m[4], PIVOT * m[5])
    d21: cython.double = m[9] - l2 * m[4]
    d31: cython.double = m[13] - l3 * m[4]
    l21: cython.double = d21 * r1
    l31: cython.double = d31 * r1
    r2: cython.double = 1.0 / max(m[10] - l2 * m[8] - l21 * d21, PIVOT * m[10])
    d32: cython.double = m[14] - l3 * m[8] - l31 * d21
    l32: cython.double = d32 * r2
    r3: cython.double = 1.0 / max(m[15] - l3 * m[12] - l31 * d31 - l32 * d32, PIVOT * m[15])
    b[1] -= l1 * b[0]
    b[2] -= l2 * b[0] + l21 * b[1]
    b[3] = (b[3] - l3 * b[0] - l31 * b[1] - l32 * b[2]) * r3
    b[2] = b[2] * r2 - l32 * b[3]
    b[1] = b[1] * r1 - l21 * b[2] - l31 * b[3]
    b[0] = b[0] * r0 - l1 * b[1] - l2 * b[2] - l3 * b[3]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _step_curve(
    theta: cython.double[::1],
    at: cython.Py_ssize_t,
    a: cython.double[::1],
    start: cython.Py_ssize_t,
    memory: cython.double,
    prior: cython.p_double,
    f: cython.p_double,
    x: cython.double,
    y: cython.double,
    w: cython.double,
    u: cython.double,
) -> cython.void:
    """Move a curve by a label."""
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    keep: cython.double = memory / (memory + u) if memory > 0.0 else 1.0
    gone: cython.double = 1.0 - keep
    s: cython.double = x
    h: cython.double
    c: cython.double
    m = cython.declare(cython.double[16])
    b = cython.declare(cython.double[4])
    for j in range(4):  # a number that the compiler knows: it writes such loops out
        s += theta[at + j] * f[j]
    s = _sigmoid(_clamped(s))
    h, c = w * s * (1.0 - s), w * (y - s)
    for i in range(4):
        b[i] = c * f[i]
        if keep < 1.0:
            s = 0.0
            for j in range(4):
                s += prior[4 * i + j] * theta[at + j]
            b[i] -= gone * s
        s = h * f[i]
        for j in range(i + 1):
            a[start + 4 * i + j] = keep * a[start + 4 * i + j] + s * f[j]
            m[4 * i + j] = a[start + 4 * i + j] + prior[4 * i + j]
    _solve(m, b)
    for j in range(4):
        theta[at + j] += b[j]


class MemoryLadder:
    """Lines and curves with memories of many lengths, and their mixture.

    Parameters
    ----------
    lines, curves : sequences of float
        Memories in units of information. The first of each is 0, a memory of all.
    prior : sequence of float
        The prior weights of the lines, then of the curves, which count in proportion to their sum.
    """

    def __init__(self, lines, curves, prior):
        memory = np.array([*lines, *curves], dtype=np.float64)
        self.size, self._lines = len(memory), len(lines)
        weights = np.array(prior, dtype=np.float64)
        self.weights = LateWeights(weights / weights.sum())
        at = LINE * self._lines
        coefficients = at + CURVE * (self.size - self._lines)
        self._cut(
            np.zeros(coefficients + 3 * self._lines + FULL * (self.size - self._lines) + FULL + 2 * self.size),
            coefficients,
        )
        self._ends = np.zeros((self.size, 4))
        np.asarray(self._memory)[:] = memory
        np.asarray(self._entered)[:] = memory == 0.0
        self.information, self._centre, self._placed = 0.0, 0.0, 0.0
        self._next_rung()

    def _cut(self, block: cython.double[::1], coefficients: cython.Py_ssize_t):
        """Set the arrays, which are parts of one: each array apart takes 0.4 kB more."""
        n: cython.Py_ssize_t = block.shape[0] - self.size
        self._theta, self._entered, block = block[:coefficients], block[n:], block[coefficients:n]
        n = block.shape[0] - self.size
        self._memory, block = block[n:], block[:n]
        self._a, self._places = block[: n - FULL], block[n - FULL :]

    def show(self, x, out, at):
        """Write the log-odds that the rungs forecast at the log-odds x, from out[at] on."""
        _show(self._theta, self._entered, self._lines, x, x - self._centre, out, at)

    def show_end(self, above, out, at):
        """Write the log-odds that the rungs forecast at a score that is clamped, above or below."""
        k: cython.Py_ssize_t
        end: cython.Py_ssize_t = 2 if above else 0
        for k in range(self.size):
            if self._entered[k] == 0.0:
                out[at + k] = out[at] if k < self._lines else out[at + self._lines]
            else:
                out[at + k] = log_odds_of(
                    self._ends[k, end + 1] + (1.0 if above else TINY), self._ends[k, end] + (TINY if above else 1.0)
                )

    def judge(self, z, at, rows, y, w, u, late, shares):
        """Weight the rungs by a label of u units: they issued the forecasts from z[at] on, by row from z[rows] on.

        The share u/(U + `shares`) of all weight returns to the prior.
        """
        self.weights.judge(z, at, rows, y, w, late, u / (self.information + u + shares))

    def learn(self, x, y, w, u):
        """Move the rungs by the label y at the log-odds x, of weight w and of u units of information."""
        if -LARGEST < x < LARGEST:
            self._move(x, y, w, u)
        else:
            self._count(2 if x > 0.0 else 0, y, w, u)
        self.information += u
        if self.information >= self._due:
            self._next_rung()

    def _count(self, end, y, w, u):
        """Count a label at a score that is clamped."""
        k: cython.Py_ssize_t
        keep: cython.double
        for k in range(self.size):
            if self._entered[k] == 0.0:
                continue
            keep = self._memory[k] / (self._memory[k] + u) if self._memory[k] > 0.0 else 1.0
            self._ends[k, end] = keep * self._ends[k, end] + (0.0 if y > 0.0 else w)
            self._ends[k, end + 1] = keep * self._ends[k, end + 1] + (w if y > 0.0 else 0.0)

    def _move(self, x, y, w, u):
        """Make a step of all regressions."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        mean: cython.double
        spread: cython.double
        d: cython.double
        f = cython.declare(cython.double[4])
        prior = cython.declare(cython.double[16])
        if self._placed == 0.0:
            self._centre = x
        d = x - self._centre
        f[0], f[1], f[2] = 1.0, d, _bent(d)
        f[3] = f[2] * f[2] * f[2]
        f[2] = f[2] * f[2]
        mean = max(0.0, 1.0 - PLACE_FADES * u)
        self._placed = mean * self._placed + u
        for i in range(4):
            for j in range(i + 1):
                self._places[4 * i + j] = mean * self._places[4 * i + j] + u * f[i] * f[j]
        spread = 1.0 / (self._placed * (self._placed + 1.0))
        for i in range(4):
            for j in range(i + 1):
                mean = self._places[4 * i] * self._places[4 * j] / (self._placed * self._placed)
                prior[4 * i + j] = OFFSET * mean
                if j > 0:
                    prior[4 * i + j] += (
                        SLOPE * (self._places[4 * i + j] / self._placed - mean) * (self._placed * self._placed * spread)
                    )
            if i > 0:
                prior[5 * i] += SLOPE / (self._placed + 1.0)
            for j in range(i):
                prior[4 * j + i] = prior[4 * i + j]
        _step_lines(self._theta, self._a, self._memory, self._entered, self._lines, prior, x, d, y, w, u)
        for k in range(self._lines, self.size):
            if self._entered[k] != 0.0:
                i = LINE * self._lines + CURVE * (k - self._lines)
                j = 3 * self._lines + FULL * (k - self._lines)
                _step_curve(self._theta, i, self._a, j, self._memory[k], prior, f, x, y, w, u)

    def _next_rung(self):
        """Let rungs enter whose time has come, and find when the next one does."""
        self._due = 1e300
        k: cython.Py_ssize_t
        j: cython.Py_ssize_t
        base: cython.Py_ssize_t
        for k in range(self.size):
            if self._entered[k] != 0.0:
                continue
            if self.information < ENTERS * self._memory[k]:
                self._due = min(self._due, ENTERS * self._memory[k])
                continue
            self._entered[k] = 1.0
            base = 0 if k < self._lines else self._lines
            for j in range(4):
                self._ends[k, j] = self._ends[base, j]
            if k < self._lines:
                for j in range(LINE):
                    self._theta[LINE * k + j] = self._theta[j]
                for j in range(3):
                    self._a[3 * k + j] = self._a[j]
            else:
                base = LINE * self._lines
                for j in range(CURVE):
                    self._theta[base + CURVE * (k - self._lines) + j] = self._theta[base + j]
                base = 3 * self._lines
                for j in range(FULL):
                    self._a[base + FULL * (k - self._lines) + j] = self._a[base + j]

    def state(self):
        """Return coefficients, curvatures, sums of the features, information and places, and weights, for `load`."""
        numbers = [float(self.information), float(self._centre), float(self._placed)]
        theta, a, places = np.asarray(self._theta), np.asarray(self._a), np.asarray(self._places)
        ends = np.asarray(self._ends).tolist()
        return [theta.tolist(), a.tolist(), places.tolist(), numbers, ends, *self.weights.state()]

    def load(self, theta, a, places, numbers, ends, *weights):
        """Load an earlier `state`."""
        np.asarray(self._theta)[:], np.asarray(self._a)[:], np.asarray(self._places)[:] = theta, a, places
        self.information, self._centre, self._placed = numbers
        np.asarray(self._ends)[...] = ends
        np.asarray(self._entered)[:] = np.asarray(self._memory) * ENTERS <= self.information
        later = np.asarray(self._memory)[np.asarray(self._entered) == 0.0]
        self._due = float(later.min()) * ENTERS if len(later) else 1e300
        self.weights.load(*weights)
