# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Online logistic regressions that forget, smoothers that are local in the score, and the mixture that stakes on them.

Symbols:

    x                        the log-odds of the score
    φ                        features, of the score and of recent labels
    z = θ·φ, p = σ(z)        a forecast; experts give z
    A                        the curvature of the losses so far and of the prior, A₀
    λ                        what is kept of a coordinate of A at each step
    v = φᵀA⁻¹φ               how uncertain z is
    V[j, k]                  of the capital staked at share rate j, the part on expert k; rows sum to 1
    R[j]                     log of the capital at rate j
"""

import cython

if not cython.compiled:
    import math

    exp, expm1, log, log1p = math.exp, math.expm1, math.log, math.log1p
else:
    from cython.cimports.libc.math import exp, expm1, log, log1p

import numpy as np

LARGEST = cython.declare(cython.double, 16.0)
"""Log-odds of forecasts stay within ± this, as those of scores do: a forecast is never nearer to 0 or 1 than 1e-7."""
HEAVIEST = cython.declare(cython.double, 1e6)
"""What a heavier observation counts as in a regression: beside 1e-6 of a curvature nothing else keeps its digits."""
PIVOT = cython.declare(cython.double, 1e-9)
"""Share of its diagonal below which a pivot of A is rounding: the curvature is at least A₀, and at most 1e6 a step."""
STEPS = cython.declare(cython.int, 100)
"""Newton steps towards the root of an equation, halvings of its bracket where they do not shrink; 5 are usual."""
ROUNDING = cython.declare(cython.double, 1e-12)
"""A step as small as this, relative to the root where that is large, ends them."""
FULL = cython.declare(cython.double, 1e100)
"""Where the growing unit of a smoother is scaled back to 1."""
SCORE_FEATURES = cython.declare(cython.int, 9)
CONSTANT = cython.declare(cython.int, 1)
"""The feature that is always 1."""
FIRST = cython.declare(cython.int, 10)
"""Scores of which the mean tells where most will be."""
NEAR = cython.declare(cython.double, 3.0)
"""Log-odds as near to 0 as this count as 0: a line that is held there is held well enough (.05 to .95)."""


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _sigmoid(z: cython.double) -> cython.double:
    e: cython.double
    if z >= 0.0:
        return 1.0 / (1.0 + exp(-z))
    e = exp(z)
    return e / (1.0 + e)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _log_sigmoid(z: cython.double) -> cython.double:
    """log σ(z), without cancellation."""
    return -log1p(exp(-z)) if z >= 0.0 else z - log1p(exp(z))


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _clamped(z: cython.double) -> cython.double:
    return -LARGEST if z < -LARGEST else LARGEST if z > LARGEST else z


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _log_odds(positive: cython.double, negative: cython.double) -> cython.double:
    """log(positive/negative), clamped; both are at least 0."""
    if positive <= 0.0:
        return -LARGEST
    if negative <= 0.0:
        return LARGEST
    return _clamped(log(positive) - log(negative))


@cython.cfunc
@cython.exceptval(check=False)
def _implicit(z: cython.double, c: cython.double, y: cython.double) -> cython.double:
    """The m with m = z + c·(y − σ(m)): the step that ends where its own gradient is taken. It never overshoots."""
    m: cython.double = z
    p: cython.double = _sigmoid(z)
    low: cython.double = z if y > 0.0 else z - c * p
    high: cython.double = z + c * (1.0 - p) if y > 0.0 else z
    excess: cython.double
    step: cython.double
    last: cython.double = 2.0 * (high - low)
    for _ in range(STEPS):
        p = _sigmoid(m)
        excess = m - z - c * (y - p)
        if excess > 0.0:
            high = m
        else:
            low = m
        step = -excess / (1.0 + c * p * (1.0 - p))
        if not low <= m + step <= high or abs(step) > 0.5 * last:
            step = 0.5 * (low + high) - m
        m += step
        last = abs(step)
        if last <= ROUNDING * max(1.0, abs(m)):
            break
    return m


@cython.cclass
class Tracker:
    """A logistic regression that follows drift: θ and A, and the step that moves them.

    `which` features of those it is shown are its φ. One number for each coordinate of θ: `keep` λ, `precision` the
    diagonal of A₀, `start` of θ. The last `trends` coordinates are velocities: coordinate k moves by `pace` times its
    velocity at every step, k < trends.

    A step is  A ← ΛAΛ + SA₀S with Λ = diag(√λ), S = diag(√(1 − λ));  θ ← θ + A⁻¹φ·(m − z)/v, m being the log-odds
    z + v·w·(y − σ(m)) of the implicit step;  A ← A + w·σ(m)(1 − σ(m))·φφᵀ.
    """

    size = cython.declare(cython.Py_ssize_t, visibility="readonly")
    _features: cython.Py_ssize_t
    _which: cython.longlong[::1]
    _trends: cython.Py_ssize_t
    _pace: cython.double
    _root: cython.double[::1]
    _precision: cython.double[::1]
    _renewed: cython.double[:, ::1]  # SA₀S
    _theta: cython.double[::1]
    _a: cython.double[:, ::1]
    _l: cython.double[:, ::1]
    _f: cython.double[::1]  # φ, of the step being made
    _g: cython.double[::1]  # A⁻¹φ, likewise

    def __init__(self, which, keep, precision, start, trends: cython.Py_ssize_t = 0, pace: cython.double = 0.0):
        self.size = len(keep)
        self._features = len(which)
        self._which = np.array(which, dtype=np.int64)
        self._trends = trends
        self._pace = pace
        self._root = np.sqrt(np.array(keep, dtype=np.float64))
        self._precision = np.array(precision, dtype=np.float64)
        self._theta = np.array(start, dtype=np.float64)
        self._begin(np.diag(self._precision))
        self._l = np.zeros((self.size, self.size))
        self._f = np.zeros(self._features)
        self._g = np.zeros(self.size)

    @cython.ccall
    @cython.exceptval(check=False)
    def predict(self, phi: cython.double[::1], ahead: cython.double) -> cython.double:
        """θ·φ, velocities followed for `ahead` steps."""
        k: cython.Py_ssize_t
        z: cython.double = 0.0
        for k in range(self._features):
            z += self._theta[k] * phi[self._which[k]]
        for k in range(self._trends):
            z += ahead * self._pace * self._theta[self._features + k] * phi[self._which[k]]
        return z

    @cython.ccall
    def learn(self, phi: cython.double[::1], y: cython.double, w: cython.double):
        """One step on the label y at these features, of weight w."""
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        a: cython.double[:, ::1] = self._a
        f: cython.double[::1] = self._f
        g: cython.double[::1] = self._g
        z: cython.double = self.predict(phi, 0.0)
        m: cython.double
        v: cython.double = 0.0
        h: cython.double
        w = min(w, HEAVIEST)
        for k in range(self._features):
            f[k] = phi[self._which[k]]
        self._forget()
        self._solve()
        for k in range(self._features):
            v += f[k] * g[k]
        if v <= 0.0:  # only if every feature is 0
            return
        if self._trends > 0:
            z = self.predict(phi, 0.0)  # what has a velocity has moved
        m = _implicit(z, v * w, y)
        for k in range(self.size):
            self._theta[k] += g[k] * ((m - z) / v)
        h = w * _sigmoid(m) * _sigmoid(-m)
        for j in range(self._features):
            z = h * f[j]
            for k in range(self._features):
                a[j, k] += z * f[k]

    @cython.cfunc
    @cython.exceptval(check=False)
    def _forget(self) -> cython.void:
        """A fades towards its prior; what has a velocity moves on."""
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        n: cython.Py_ssize_t = self.size
        d: cython.Py_ssize_t = self._features
        a: cython.double[:, ::1] = self._a
        root: cython.double[::1] = self._root
        renewed: cython.double[:, ::1] = self._renewed
        one: cython.double
        for j in range(n):
            one = root[j]
            for k in range(n):
                a[j, k] = one * root[k] * a[j, k] + renewed[j, k]
        for k in range(self._trends):
            self._theta[k] += self._pace * self._theta[d + k]
        for k in range(self._trends):
            for j in range(n):
                a[j, d + k] -= self._pace * a[j, k]
        for k in range(self._trends):
            for j in range(n):
                a[d + k, j] -= self._pace * a[k, j]

    @cython.cfunc
    @cython.exceptval(check=False)
    def _solve(self) -> cython.void:
        """g ← A⁻¹(f, 0) by A = L D Lᵀ; the rows of Lᵀ and the pivots D stand in `_l`. O(size³/6), row by row."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        n: cython.Py_ssize_t = self.size
        a: cython.double[:, ::1] = self._a
        l: cython.double[:, ::1] = self._l  # noqa: E741
        g: cython.double[::1] = self._g
        one: cython.double
        pivot: cython.double
        for i in range(n):
            for j in range(i, n):
                l[i, j] = a[i, j]
            g[i] = self._f[i] if i < self._features else 0.0
        for k in range(n):
            l[k, k] = max(l[k, k], PIVOT * a[k, k])
            pivot = 1.0 / l[k, k]
            for i in range(k + 1, n):
                one = l[k, i] * pivot
                for j in range(i, n):
                    l[i, j] -= one * l[k, j]
                g[i] -= one * g[k]
        for i in range(n - 1, -1, -1):
            one = g[i]
            for k in range(i + 1, n):
                one -= l[i, k] * g[k]
            g[i] = one / l[i, i]

    def _begin(self, prior):
        """Set A₀, and A to it."""
        fade = np.sqrt(1.0 - np.square(self._root))
        self._renewed = prior * np.outer(fade, fade)
        self._a = prior

    def hold(self, phi):
        """Begin A anew, at an A₀ that holds the forecast where the features are φ, and not where all of them are 0.

        The part of the offset in A₀, p at its place on the diagonal, becomes pφφᵀ; so does that of its velocity.
        """
        which = np.asarray(self._which).tolist()
        if CONSTANT not in which:
            return
        size, offset = self._features, which.index(CONSTANT)
        held = np.asarray(phi)[which]
        prior = np.diag(self._precision)
        for start, stop in ((0, size), (size, self.size))[: 2 if offset < self._trends else 1]:
            part = np.outer(held[: stop - start], held[: stop - start])
            part[offset, offset] -= 1.0
            prior[start:stop, start:stop] += self._precision[start + offset] * part
        self._begin(prior)

    def state(self):
        """[θ, the rows of A] as plain data, for `load`."""
        return [np.asarray(self._theta).tolist(), np.asarray(self._a).tolist()]

    @cython.ccall
    def load(self, theta: object, a: object):
        """Take over an earlier `state`; `ValueError` if it is of another size."""
        if np.shape(theta) != (self.size,) or np.shape(a) != (self.size, self.size):
            raise ValueError(f"expected a state of size {self.size}, not {np.shape(theta)} and {np.shape(a)}")
        self._theta = np.array(theta, dtype=np.float64)
        self._a = np.array(a, dtype=np.float64)


@cython.cclass
class Panel:
    """Trackers of chosen features, and local smoothers, over knots of equal distance in log-odds.

    Features of a score: x (0 where it is clamped), 1, [clamped below], [clamped above], (x/4)², (x/4)³, 2s − 1,
    ln s and −ln(1 − s), s being the score; then, for each of `rates`, the mean of the labels ±1 that fades by it.
    Labels are known `delay` observations late: those means leave out the labels that were not there when a score came.

    `trackers` is a list of them. A₀ holds them at log-odds 0 until ten scores tell where most will be: where their mean
    m is beyond ±3, it then holds them at m − 9/m. `smoothers` are (half width in log-odds, memory in observations).
    A smoother at a knot says (a·p + Σ Kᵢyᵢ) / (a + Σ Kᵢ), p being the forecast of the tracker number `anchor`, a =
    `anchored` and K = (1 − u²)² of the distance u in half widths, fading. `curves` others have drawn, over all knots.
    """

    trackers: list
    _anchor: cython.Py_ssize_t
    _anchored: cython.double
    _phi: cython.double[::1]
    _rates: cython.double[::1]
    _means: cython.double[::1]  # of all labels learned
    _then: cython.double[::1]  # of those that were there `delay` observations ago
    _waiting: cython.double[:, ::1]  # (label, weight) of the last `delay` observations, in a ring
    _learned: cython.Py_ssize_t
    _first: cython.Py_ssize_t  # how many scores count for where the trackers are held, and their sum
    _sum: cython.double
    _delay: cython.Py_ssize_t
    _widths: cython.double[::1]
    _fades: cython.double[::1]
    _units: cython.double[::1]
    _sums: cython.double[:, :, ::1]  # (smoother, negative or positive, knot), in units
    _curves: cython.double[:, ::1]
    _step: cython.double

    def __init__(self, trackers, smoothers, curves, rates, knots_a_unit, anchor, anchored, delay):
        self.trackers = trackers
        self._anchor = anchor
        self._anchored = anchored
        self._rates = np.array(rates, dtype=np.float64)
        self._phi = np.zeros(SCORE_FEATURES + len(rates))
        self._widths = np.array([width for width, _ in smoothers], dtype=np.float64)
        self._fades = np.array([memory / (memory - 1.0) for _, memory in smoothers], dtype=np.float64)
        self._step = 1.0 / knots_a_unit
        self._delay = delay
        size = round(2.0 * LARGEST * knots_a_unit) + 1
        self._means = np.zeros(len(rates))
        self._then = np.zeros(len(rates))
        self._waiting = np.zeros((delay, 2))
        self._learned = 0
        self._first = 0
        self._sum = 0.0
        self._units = np.ones(len(smoothers))
        self._sums = np.zeros((len(smoothers), 2, size))
        self._curves = np.zeros((curves, size))
        for k in range(curves):
            self.draw(k, np.linspace(-LARGEST, LARGEST, size))

    def draw(self, k: cython.Py_ssize_t, z):
        """Set curve k: log-odds at all knots."""
        j: cython.Py_ssize_t
        drawn: cython.double[::1] = np.ascontiguousarray(z, dtype=np.float64)
        for j in range(self._curves.shape[1]):
            self._curves[k, j] = _clamped(drawn[j])

    @cython.cfunc
    @cython.exceptval(check=False)
    def _fill(self, x: cython.double, means: cython.double[::1]) -> cython.void:
        """Set φ to the features at the log-odds x, with these means of labels."""
        k: cython.Py_ssize_t
        inside: cython.bint = -LARGEST < x < LARGEST
        u: cython.double = 0.25 * x if inside else 0.0
        rest: cython.double = log1p(exp(-abs(x)))
        self._phi[0] = x if inside else 0.0
        self._phi[1] = 1.0
        self._phi[2] = 1.0 if x <= -LARGEST else 0.0
        self._phi[3] = 1.0 if x >= LARGEST else 0.0
        self._phi[4] = u * u
        self._phi[5] = u * u * u
        self._phi[6] = 2.0 * _sigmoid(x) - 1.0
        self._phi[7] = min(x, 0.0) - rest
        self._phi[8] = max(x, 0.0) + rest
        for k in range(self._rates.shape[0]):
            self._phi[SCORE_FEATURES + k] = means[k]

    @cython.ccall
    def forecast(
        self,
        knot: cython.Py_ssize_t,
        lower: cython.double,
        upper: cython.double,
        insured: cython.double,
        out: cython.double[::1],
    ):
        """Write the log-odds of all experts at a knot to `out`.

        Trackers, smoothers and curves; then those whose probabilities are given: the log-minimax point of the interval
        from `lower` to `upper`, and `insured`; and the score itself.
        """
        k: cython.Py_ssize_t
        b: cython.Py_ssize_t
        count: cython.Py_ssize_t = len(self.trackers)
        tracker: Tracker
        ahead: cython.double = self._delay + 1.0
        anchor: cython.double
        negative: cython.double
        positive: cython.double
        score: cython.double = knot * self._step - LARGEST
        self._fill(score, self._means)
        for k in range(count):
            tracker = self.trackers[k]
            out[k] = _clamped(tracker.predict(self._phi, ahead))
        anchor = out[self._anchor]
        for b in range(self._widths.shape[0]):
            negative = self._anchored * _sigmoid(-anchor) + self._sums[b, 0, knot] / self._units[b]
            positive = self._anchored * _sigmoid(anchor) + self._sums[b, 1, knot] / self._units[b]
            out[count + b] = _log_odds(positive, negative)
        count += self._widths.shape[0]
        for k in range(self._curves.shape[0]):
            out[count + k] = self._curves[k, knot]
        count += self._curves.shape[0]
        out[count] = _log_odds(upper, 1.0 - lower) if self._learned > 0 else score
        out[count + 1] = _log_odds(insured, 1.0 - insured)
        out[count + 2] = score

    @cython.ccall
    def learn(self, x: cython.double, y: cython.double, w: cython.double):
        """All experts learn the label y at the log-odds x, with weight w."""
        k: cython.Py_ssize_t
        tracker: Tracker
        place: cython.Py_ssize_t
        self._fill(x, self._then if self._delay > 0 else self._means)
        for k in range(len(self.trackers)):
            tracker = self.trackers[k]
            tracker.learn(self._phi, y, w)
        self._smooth(x, y, w)
        self._follow(self._means, y, w)
        if self._delay > 0:
            place = self._learned % self._delay
            if self._learned >= self._delay:
                self._follow(self._then, self._waiting[place, 0], self._waiting[place, 1])
            self._waiting[place, 0] = y
            self._waiting[place, 1] = w
        self._learned += 1
        if self._first < FIRST and -LARGEST < x < LARGEST:
            self._first += 1
            self._sum += x
            if self._first == FIRST:
                self._hold()

    def _hold(self):
        """Hold the trackers where most scores are, if that is far from 0."""
        middle = self._sum / FIRST
        if abs(middle) > NEAR:
            self._fill(middle - NEAR * NEAR / middle, np.zeros(len(self._rates)))
            for tracker in self.trackers:
                tracker.hold(self._phi)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _follow(self, means: cython.double[::1], y: cython.double, w: cython.double) -> cython.void:
        """Means of labels move towards ±1; a weight w moves as w steps do."""
        k: cython.Py_ssize_t
        for k in range(self._rates.shape[0]):
            means[k] -= expm1(w * log1p(-self._rates[k])) * (2.0 * y - 1.0 - means[k])

    @cython.cfunc
    @cython.exceptval(check=False)
    def _smooth(self, x: cython.double, y: cython.double, w: cython.double) -> cython.void:
        """The sums of the smoothers fade, by a growing unit, and take the observation in."""
        b: cython.Py_ssize_t
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        first: cython.Py_ssize_t
        last: cython.Py_ssize_t
        size: cython.Py_ssize_t = self._sums.shape[2]
        side: cython.Py_ssize_t = 1 if y > 0.0 else 0
        u: cython.double
        for b in range(self._widths.shape[0]):
            self._units[b] *= self._fades[b]
            if self._units[b] > FULL:
                for j in range(2):
                    for k in range(size):
                        self._sums[b, j, k] /= self._units[b]
                self._units[b] = 1.0
            first = max(0, int((x + LARGEST - self._widths[b]) / self._step))
            last = min(size - 1, int((x + LARGEST + self._widths[b]) / self._step) + 1)
            for k in range(first, last + 1):
                u = (k * self._step - LARGEST - x) / self._widths[b]
                if -1.0 < u < 1.0:
                    self._sums[b, side, k] += w * self._units[b] * (1.0 - u * u) * (1.0 - u * u)

    def state(self):
        """Everything learned, as plain data, for `load`."""
        return {
            "trackers": [tracker.state() for tracker in self.trackers],
            "means": np.asarray(self._means).tolist(),
            "then": np.asarray(self._then).tolist(),
            "waiting": np.asarray(self._waiting).tolist(),
            "learned": self._learned,
            "first": [self._first, self._sum],
            "units": np.asarray(self._units).tolist(),
            "sums": np.asarray(self._sums).tolist(),
            "curves": np.asarray(self._curves).tolist(),
        }

    def load(self, state):
        """Take over an earlier `state`, on a new panel; `ValueError` if it is of another size."""
        own = {
            "means": self._means,
            "then": self._then,
            "units": self._units,
            "sums": self._sums,
            "curves": self._curves,
        }
        arrays = [np.array(state[name], dtype=np.float64) for name in own]
        same = [np.shape(array) for array in arrays] == [np.shape(array) for array in own.values()]
        if not same or len(state["waiting"]) != self._delay or len(state["trackers"]) != len(self.trackers):
            raise ValueError("the state is that of a panel of another size")
        self._first, self._sum = state["first"]
        if self._first == FIRST:
            self._hold()
        for tracker, saved in zip(self.trackers, state["trackers"], strict=True):
            tracker.load(*saved)
        self._means, self._then, self._units, self._sums, self._curves = arrays
        self._waiting = np.array(state["waiting"], dtype=np.float64).reshape(self._delay, 2)
        self._learned = state["learned"]


@cython.cclass
class FixedShare:
    """Capital staked on K forecasts by log loss, and shared: the mean of the forecasts by capital is a forecast.

    Row r has a share rate and a stake. Its capital V[r, k] starts as `prior`. An outcome multiplies it by the
    probability that k gave, to the power of the stake; then the share `rate` of all is spread anew as the prior says.
    Rows are mixed in turn: R[r] grows by the log of the probability that the mean of the row gave, times `caution`.
    """

    size = cython.declare(cython.Py_ssize_t, visibility="readonly")
    rows = cython.declare(cython.Py_ssize_t, visibility="readonly")
    _rates: cython.double[::1]
    _stakes: cython.double[::1]
    _caution: cython.double
    _prior: cython.double[::1]
    _capital: cython.double[:, ::1]
    _ratios: cython.double[::1]
    _weights: cython.double[::1]

    def __init__(self, rates, stakes, prior, caution: cython.double = 1.0):
        self.size = len(prior)
        self.rows = len(rates)
        self._rates = np.array(rates, dtype=np.float64)
        self._stakes = np.array(stakes, dtype=np.float64)
        self._caution = caution
        self._prior = np.array(prior, dtype=np.float64)
        self._weights = np.zeros(self.size)
        self.load(np.tile(self._prior, (self.rows, 1)), np.zeros(self.rows))

    @cython.ccall
    @cython.exceptval(check=False)
    def mean(self, z: cython.double[::1]) -> cython.double:
        """The log-odds of the mean of the forecasts whose log-odds are z, shape (K,)."""
        k: cython.Py_ssize_t
        e: cython.double
        positive: cython.double = 0.0
        negative: cython.double = 0.0
        for k in range(self.size):
            e = exp(-z[k])
            positive += self._weights[k] * (1.0 / (1.0 + e))
            negative += self._weights[k] * (e / (1.0 + e))
        return log(positive) - log(negative)

    @cython.ccall
    def judge(self, earned: cython.double[::1]):
        """Beside the log probabilities of the K forecasts in `earned`, shape (K + rows,), set those of the rows."""
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        total: cython.double
        for j in range(self.rows):
            total = 0.0
            for k in range(self.size):
                total += self._capital[j, k] * exp(earned[k])
            earned[self.size + j] = log(total)

    @cython.ccall
    def learn(self, earned: cython.double[::1], w: cython.double):
        """Pay the log probabilities that forecasts and rows gave, w times over."""
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        rate: cython.double
        total: cython.double
        best: cython.double = earned[0]
        for k in range(self.size):
            best = max(best, earned[k])
        for j in range(self.rows):
            rate = self._rates[j]
            total = 0.0
            for k in range(self.size):
                self._capital[j, k] *= exp(w * self._stakes[j] * (earned[k] - best))
                total += self._capital[j, k]
            for k in range(self.size):
                self._capital[j, k] = (1.0 - rate) * (self._capital[j, k] / total) + rate * self._prior[k]
            self._ratios[j] += self._caution * w * earned[self.size + j]
        self._weigh()

    @cython.cfunc
    @cython.exceptval(check=False)
    def _weigh(self) -> cython.void:
        """Set the weights: the part of each forecast in the capital of all rows."""
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        part: cython.double
        largest: cython.double = self._ratios[0]
        total: cython.double = 0.0
        for j in range(self.rows):
            largest = max(largest, self._ratios[j])
        for k in range(self.size):
            self._weights[k] = 0.0
        for j in range(self.rows):
            self._ratios[j] -= largest  # only their differences count
            part = exp(self._ratios[j])
            total += part
            for k in range(self.size):
                self._weights[k] += part * self._capital[j, k]
        for k in range(self.size):
            self._weights[k] /= total

    def weights(self):
        """The weight of each forecast, a new array; they sum to 1."""
        return np.array(self._weights)

    def state(self):
        """Capital and log ratios of the rows, as plain data, for `load`."""
        return [np.asarray(self._capital).tolist(), np.asarray(self._ratios).tolist()]

    def load(self, capital, ratios):
        """Take over an earlier `state`; `ValueError` if it is of another size."""
        if np.shape(capital) != (self.rows, self.size) or np.shape(ratios) != (self.rows,):
            raise ValueError(f"expected capital of shape {(self.rows, self.size)}, not {np.shape(capital)}")
        self._capital = np.array(capital, dtype=np.float64)
        self._ratios = np.array(ratios, dtype=np.float64)
        self._weigh()


@cython.cclass
class Correction:
    """A curve over log-odds that is added to the log-odds of a forecast, and learned from what they miss.

    It has values f and curvatures H at knots of equal distance, and is linear between them. An observation at x moves
    the knots nearer than `width`, by K = (1 − u²)² of their distance u in widths:  H ← firm + (H − firm)(1 − K/memory);
    f ← f + (K/H)·(m − z)/v, z being the corrected log-odds, v how far steps of K/H at the knots move f(x), and m the
    log-odds z + v·w·(y − σ(m)) of the implicit step;  H ← H + K·w·σ(m)(1 − σ(m)). H starts as `firm`, f as 0.
    """

    _width: cython.double
    _forget: cython.double
    _firm: cython.double
    _unit: cython.double
    _last: cython.Py_ssize_t
    _curve: cython.double[::1]
    _curvature: cython.double[::1]

    def __init__(self, width, memory, firm, knots_a_unit):
        size = round(2.0 * LARGEST * knots_a_unit) + 1
        self._width = width
        self._forget = 1.0 / memory
        self._firm = firm
        self._unit = knots_a_unit
        self._last = size - 1
        self._curve = np.zeros(size)
        self._curvature = np.full(size, float(firm))

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _knot(self, x: cython.double) -> cython.Py_ssize_t:
        """The knot at or below the log-odds x, not the last."""
        return min(cython.cast(cython.Py_ssize_t, (x + LARGEST) * self._unit), self._last - 1)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _kernel(self, knot: cython.Py_ssize_t, x: cython.double) -> cython.double:
        u: cython.double = (knot / self._unit - LARGEST - x) / self._width
        return (1.0 - u * u) * (1.0 - u * u) if -1.0 < u < 1.0 else 0.0

    @cython.ccall
    @cython.exceptval(check=False)
    def at(self, x: cython.double) -> cython.double:
        """The correction at the log-odds x, within ±16."""
        knot: cython.Py_ssize_t = self._knot(x)
        share: cython.double = (x + LARGEST) * self._unit - knot
        return self._curve[knot] + share * (self._curve[knot + 1] - self._curve[knot])

    @cython.ccall
    def learn(self, x: cython.double, z: cython.double, y: cython.double, w: cython.double):
        """One step on the label y at x, of weight w; z is the log-odds of the forecast to be corrected."""
        k: cython.Py_ssize_t
        knot: cython.Py_ssize_t = self._knot(x)
        share: cython.double = (x + LARGEST) * self._unit - knot
        first: cython.Py_ssize_t = max(0, self._knot(max(x - self._width, -LARGEST)))
        last: cython.Py_ssize_t = min(self._last, self._knot(min(x + self._width, LARGEST)) + 1)
        part: cython.double
        v: cython.double
        m: cython.double
        w = min(w, HEAVIEST)
        z += self.at(x)
        for k in range(first, last + 1):
            self._curvature[k] -= self._forget * self._kernel(k, x) * (self._curvature[k] - self._firm)
        v = (1.0 - share) * self._kernel(knot, x) / self._curvature[knot]
        v += share * self._kernel(knot + 1, x) / self._curvature[knot + 1]
        m = _implicit(z, v * w, y)
        for k in range(first, last + 1):
            part = self._kernel(k, x)
            self._curve[k] += part / self._curvature[k] * ((m - z) / v)
            self._curvature[k] += part * w * _sigmoid(m) * _sigmoid(-m)

    def state(self):
        """[the curve, its curvature] as plain data, for `load`."""
        return [np.asarray(self._curve).tolist(), np.asarray(self._curvature).tolist()]

    def load(self, curve, curvature):
        """Take over an earlier `state`; `ValueError` if it is of another size."""
        size = self._last + 1
        if np.shape(curve) != (size,) or np.shape(curvature) != (size,):
            raise ValueError(f"expected a curve of {size} knots, not {np.shape(curve)}")
        self._curve = np.array(curve, dtype=np.float64)
        self._curvature = np.array(curvature, dtype=np.float64)


@cython.cclass
class Mixture:
    """Three mixtures, each upon the one before, over knots of equal distance in log-odds.

    The first is of K experts; ζ are its log-odds. The second is of the first and of the stack, a Tracker on
    (ζ, z₁ − ζ, …, z_K − ζ, 1). The third is of the second and of its corrections: one that is learned by score, and one
    by what the second mixture itself says.

    What an outcome earned is settled by the mixture that was asked, in `judge`; a later state of it may `learn` that.
    """

    _experts: FixedShare
    _stack: Tracker
    _stacked: FixedShare
    _by_score: Correction
    _by_forecast: Correction
    _corrected: FixedShare
    _unit: cython.double
    _phi: cython.double[:, ::1]  # at the left knot and at the right one; so are the next two
    _second: cython.double[:, ::1]
    _third: cython.double[:, ::1]

    def __init__(self, shares, stack, corrections, knots_a_unit):
        self._experts, self._stacked, self._corrected = shares
        self._stack = stack
        self._by_score, self._by_forecast = corrections
        self._unit = knots_a_unit
        self._phi = np.zeros((2, self._experts.size + 2))
        self._second = np.zeros((2, 2))
        self._third = np.zeros((2, 3))

    @cython.cfunc
    @cython.exceptval(check=False)
    def _fill(self, side: cython.Py_ssize_t, z: cython.double[::1], knot: cython.Py_ssize_t) -> cython.void:
        """Set the features of the stack, and what is mixed second and third: at a knot, the experts saying z."""
        k: cython.Py_ssize_t
        count: cython.Py_ssize_t = self._experts.size
        middle: cython.double = self._experts.mean(z)
        self._phi[side, 0] = middle
        for k in range(count):
            self._phi[side, 1 + k] = z[k] - middle
        self._phi[side, count + 1] = 1.0
        self._second[side, 0] = middle
        self._second[side, 1] = _clamped(self._stack.predict(self._phi[side], 0.0))
        middle = _clamped(self._stacked.mean(self._second[side]))
        self._third[side, 0] = middle
        self._third[side, 1] = _clamped(middle + self._by_score.at(knot / self._unit - LARGEST))
        self._third[side, 2] = _clamped(middle + self._by_forecast.at(middle))

    @cython.ccall
    @cython.exceptval(check=False)
    def blend(self, z: cython.double[::1], knot: cython.Py_ssize_t) -> cython.double:
        """The log-odds of the third mixture at a knot, those of the experts being z, shape (K,)."""
        self._fill(0, z, knot)
        return self._corrected.mean(self._third[0])

    @cython.ccall
    def judge(
        self,
        left: cython.double[::1],
        right: cython.double[::1],
        knot: cython.Py_ssize_t,
        share: cython.double,
        y: cython.double,
        w: cython.double,
    ):
        """What a label y of weight w earned, for `learn`; its score is `share` of the way from a knot to the next.

        `left` and `right` are the log-odds of the experts at both knots. The loss at the score is that at the left one
        for 1 − `share` of it, and that at the right one for the rest. An array: y, w, the score in knots, what the
        second mixture said of it, the features of the stack; and for each mixture, what `FixedShare.judge` says.
        """
        k: cython.Py_ssize_t
        count: cython.Py_ssize_t = self._experts.size
        rows: cython.Py_ssize_t = self._experts.rows
        start: cython.Py_ssize_t = count + 6
        outcome = np.empty(start + count + 5 + 3 * rows)
        out: cython.double[::1] = outcome
        self._fill(0, left, knot)
        self._fill(1, right, knot + 1)
        out[0] = y
        out[1] = w
        out[2] = knot + share
        out[3] = self._third[0, 0] + share * (self._third[1, 0] - self._third[0, 0])
        for k in range(count + 2):
            out[4 + k] = self._phi[0, k] + share * (self._phi[1, k] - self._phi[0, k])
        _earn(left, right, share, y, out[start:])
        self._experts.judge(out[start:])
        start += count + rows
        _earn(self._second[0], self._second[1], share, y, out[start:])
        self._stacked.judge(out[start:])
        start += 2 + rows
        _earn(self._third[0], self._third[1], share, y, out[start:])
        self._corrected.judge(out[start:])
        return outcome

    @cython.ccall
    def learn(self, outcome: cython.double[::1]):
        """Learn what `judge` has settled."""
        count: cython.Py_ssize_t = self._experts.size
        rows: cython.Py_ssize_t = self._experts.rows
        start: cython.Py_ssize_t = count + 6
        y: cython.double = outcome[0]
        w: cython.double = outcome[1]
        middle: cython.double = outcome[3]
        self._experts.learn(outcome[start:], w)
        self._stacked.learn(outcome[start + count + rows :], w)
        self._corrected.learn(outcome[start + count + 2 + 2 * rows :], w)
        self._stack.learn(outcome[4:start], y, w)
        self._by_score.learn(outcome[2] / self._unit - LARGEST, middle, y, w)
        self._by_forecast.learn(middle, middle, y, w)

    def weights(self):
        """The weights in the forecast of the experts, of the stack and of the two corrections, shape (K + 3,)."""
        second, third = self._stacked.weights(), self._corrected.weights()
        parts = (third[0] * second[0] * self._experts.weights(), third[:1] * second[1:], third[1:])
        return np.concatenate(parts)

    def state(self):
        """Everything learned, as plain data, for `load`."""
        return [part.state() for part in self._parts()]

    def load(self, states):
        """Take over an earlier `state`; `ValueError` if it is of another size."""
        for part, state in zip(self._parts(), states, strict=True):
            part.load(*state)

    def _parts(self):
        shares = (self._experts, self._stacked, self._corrected)
        return (*shares, self._stack, self._by_score, self._by_forecast)


@cython.cfunc
@cython.exceptval(check=False)
def _earn(
    left: cython.double[::1],
    right: cython.double[::1],
    share: cython.double,
    y: cython.double,
    out: cython.double[::1],
) -> cython.void:
    """Set `out` to the log of the probability each forecast gave to y, its loss between two knots being linear."""
    k: cython.Py_ssize_t
    sign: cython.double = 1.0 if y > 0.0 else -1.0
    for k in range(left.shape[0]):
        out[k] = (1.0 - share) * _log_sigmoid(sign * left[k]) + share * _log_sigmoid(sign * right[k])
