# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
# cython: binding=False, always_allow_keywords=False
"""The online Newton step on the log loss of a sigmoid of two or three parameters (Gupta & Ramdas 2023, Algorithm 1).

Symbols, x being the log-odds of the score s:

    θ, z                     (slope, offset) and (x, 1), or (a, b, c) and (log s, −log(1 − s), 1)
    p = σ(θ·z)               the prediction
    g = (p − y) z            the gradient of the log loss at θ
    r                        the weight, relative to the running mean of all weights: A ← A + r g gᵀ, θ ← θ − r A⁻¹g / γ
    A = L D Lᵀ               the curvature: L unit lower triangular, its entries below the diagonal row by row in `l`

An observation with r > 1 is split into equal steps, each at the prediction that the step before it leaves: the limit of
repeated observations, which does not overshoot (Karampatziakis & Langford 2011).

A is kept factored: adding g gᵀ then only ever adds positive numbers to D, where the determinant of the entries would
cancel. The functions of a matrix take its size as an argument, so that the compiler unrolls their loops for 2 and 3.
"""

import cython
from cython.cimports.libc.math import exp, log, log1p, sqrt
from cython.cimports.streamcal.kernels.common.fast_path import fast_observation, fast_score
from cython.cimports.streamcal.kernels.common.weights import WeightScale, steps_of

nan = cython.declare(cython.double, float("nan"))

BISECTIONS = cython.declare(cython.int, 2200)
"""Steps of the search for the multiplier of a projection: a double has 2,098 binary places. It ends earlier if the
bracket contains no further double: usually within 100, but after heavy weights the initial bracket is wide."""


def log_odds(s: cython.double, limit: cython.double) -> cython.double:
    """Return the log-odds of a score in [0, 1], clamped to ±limit."""
    x: cython.double
    if s <= 0.0:
        return -limit
    if s >= 1.0:
        return limit
    x = log(s) - log1p(-s)
    return -limit if x < -limit else limit if x > limit else x


def fast_log_odds(score: object, y: object, w: object, limit: cython.double) -> cython.double:
    """Return the log-odds of a score, within ±limit, if `fast_observation` accepts the observation; NaN otherwise."""
    s: cython.double
    x: cython.double
    if not fast_observation(score, y, w, 0.0, 1.0):
        return nan
    s = score
    if s == 0.0 or s == 1.0:
        return nan
    x = log(s) - log1p(-s)
    return x if -limit < x < limit else nan


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _set_features(size: cython.Py_ssize_t, x: cython.double, z: cython.p_double) -> cython.void:
    """Set z at the log-odds x of a score s.

    Both logarithms come without cancellation: log s = min(x, 0) − r and −log(1 − s) = max(x, 0) + r with
    r = log(1 + exp(−|x|)).
    """
    rest: cython.double
    if size == 2:
        z[0] = x
    else:
        rest = log1p(exp(-abs(x)))
        z[0] = min(x, 0.0) - rest
        z[1] = max(x, 0.0) + rest
    z[size - 1] = 1.0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _sigmoid_of(size: cython.Py_ssize_t, theta: cython.p_double, z: cython.p_double) -> cython.double:
    """Return σ(θ·z)."""
    k: cython.Py_ssize_t
    total: cython.double = theta[0] * z[0]
    e: cython.double
    for k in range(1, size):
        total += theta[k] * z[k]
    e = exp(-abs(total))
    return (1.0 if total >= 0.0 else e) / (1.0 + e)  # no branch, which would be guessed wrong half of the time


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _add_outer(size: cython.Py_ssize_t, d: cython.p_double, l: cython.p_double, v: cython.p_double) -> cython.void:  # noqa: E741
    """Replace A by A + vvᵀ; v is overwritten."""
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    own: cython.double
    enlarged: cython.double
    factor: cython.double
    share: cython.double = 1.0
    for j in range(size):
        own = v[j]
        enlarged = d[j] + own * own * share
        factor = share * own / enlarged
        share = share * (d[j] / enlarged)
        d[j] = enlarged
        for i in range(j + 1, size):
            v[i] = v[i] - l[i * (i - 1) // 2 + j] * own
            l[i * (i - 1) // 2 + j] += v[i] * factor


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _add_identity(size: cython.Py_ssize_t, d: cython.p_double, l: cython.p_double, c: cython.double) -> cython.void:  # noqa: E741
    """Replace A by A + c·I."""
    v: cython.double[3] = [0.0, 0.0, 0.0]
    k: cython.Py_ssize_t
    for k in range(size - 1):
        v[0] = 0.0
        v[1] = 0.0
        v[2] = 0.0
        v[k] = sqrt(c)
        _add_outer(size, d, l, v)
    d[size - 1] += c


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _solve(
    size: cython.Py_ssize_t,
    d: cython.p_double,
    l: cython.p_double,  # noqa: E741
    g: cython.p_double,
    solution: cython.p_double,
) -> cython.double:
    """Set `solution` to A⁻¹ g; returns 1 + gᵀ A⁻¹ g."""
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    y: cython.double[3] = [0.0, 0.0, 0.0]
    total: cython.double = 1.0
    for i in range(size):
        y[i] = g[i]
        for j in range(i):
            y[i] = y[i] - l[i * (i - 1) // 2 + j] * y[j]
        solution[i] = y[i] / d[i]
        total += y[i] * solution[i]
    for j in range(size - 2, -1, -1):
        for i in range(j + 1, size):
            solution[j] = solution[j] - l[i * (i - 1) // 2 + j] * solution[i]
    return total


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _squared_norm(size: cython.Py_ssize_t, v: cython.p_double) -> cython.double:
    """Return v·v."""
    k: cython.Py_ssize_t
    total: cython.double = 0.0
    for k in range(size):
        total += v[k] * v[k]
    return total


class OnlineNewton:
    """θ, A and their update.

    Parameters
    ----------
    theta : sequence of two or three floats
        The initial θ: (slope, offset), or (a, b, c) of beta calibration.
    gamma : float
        The step is A⁻¹g/γ.
    initial : float
        A starts at initial·I.
    radius : float
        The radius of the ball to which θ is projected.
    discount : float
        d in A ← d·A + (1 − d)·initial·I + r g gᵀ.
    limit : float
        Log-odds are clamped to ±limit.

    Notes
    -----
    O(1). `predict_fast` and `learn_fast` are the fast path: they take unchecked arguments, and return NaN or False,
    without a change, for types and values that need the full checks. `stream` runs without the GIL. Fields and C
    signatures are in `online_newton.pxd`.
    """

    def __init__(
        self,
        theta: object,
        gamma: cython.double,
        initial: cython.double,
        radius: cython.double,
        discount: cython.double,
        limit: cython.double,
    ):
        if len(theta) not in (2, 3):
            raise ValueError(f"expected two or three parameters, not {theta!r}")
        if not cython.compiled:
            self._theta, self._d, self._l = [0.0] * 3, [0.0] * 3, [0.0] * 3
        self._size = len(theta)
        self._gamma = gamma
        self._initial = initial
        self._radius = radius
        self._discount = discount
        self.limit = limit
        self._scale = WeightScale()
        self.relative = 1.0
        self.load(*theta, *[initial] * len(theta), *[0.0] * (len(theta) * (len(theta) - 1) // 2), 0.0, 0.0, 0.0)

    def predict_fast(self, score: object) -> cython.double:
        """Return the prediction at `score`, a float in [0, 1]; NaN for anything else."""
        return self.predict(log_odds(score, self.limit)) if fast_score(score, 0.0, 1.0) else nan

    def learn_fast(self, score: object, y: object, w: object) -> cython.bint:
        """Do `step` for a float in [0, 1], a bool and a float weight within the limit; return whether it did."""
        x: cython.double = fast_log_odds(score, y, w, self.limit)
        if x != x:
            return False
        self.step(x, 1.0 if y is True else 0.0, w)
        return True

    def predict(self, x: cython.double) -> cython.double:
        """Return σ(θ·z) at the log-odds x."""
        z: cython.double[3] = [0.0, 0.0, 0.0]
        return self._forecast(x, z)

    def step(self, x: cython.double, y: cython.double, w: cython.double) -> cython.void:
        """Learn the label y at the log-odds x, of weight w."""
        z: cython.double[3] = [0.0, 0.0, 0.0]
        p: cython.double = self._forecast(x, z)
        self._learn(z, p, y, w)

    def _forecast(self, x: cython.double, z: cython.p_double) -> cython.double:
        """Set z, and return σ(θ·z)."""
        if self._size == 2:
            _set_features(2, x, z)
            return _sigmoid_of(2, self._theta, z)
        _set_features(3, x, z)
        return _sigmoid_of(3, self._theta, z)

    def _learn(self, z: cython.p_double, p: cython.double, y: cython.double, w: cython.double) -> cython.void:
        """Learn the label y, of weight w, at z, where p was predicted."""
        k: cython.Py_ssize_t
        steps: cython.Py_ssize_t
        weight: cython.double = self._scale.relative(w)
        self.relative = weight
        self.weight = self._discount * self.weight + w
        if self._discount < 1.0:
            for k in range(self._size):
                self._d[k] = self._d[k] * self._discount
            _add_identity(self._size, self._d, self._l, (1.0 - self._discount) * self._initial)
        steps = steps_of(weight)
        weight /= steps
        for k in range(steps):
            if self._size == 2:
                self._step(2, z, (p if k == 0 else _sigmoid_of(2, self._theta, z)) - y, weight)
            else:
                self._step(3, z, (p if k == 0 else _sigmoid_of(3, self._theta, z)) - y, weight)

    def _step(self, size: cython.Py_ssize_t, z: cython.p_double, error: cython.double, w: cython.double) -> cython.void:
        """Make a step of relative weight w, with the gradient error·z."""
        k: cython.Py_ssize_t
        g: cython.double[3] = [0.0, 0.0, 0.0]
        target: cython.double[3] = [0.0, 0.0, 0.0]
        damping: cython.double
        root: cython.double = sqrt(w)
        for k in range(size):
            g[k] = root * error * z[k]
        # With A before g gᵀ is added, (A + g gᵀ)⁻¹ g = A⁻¹g / (1 + gᵀA⁻¹g): of bounded length whatever the weight,
        # where the solve with the sum would lose all digits to a heavy observation.
        damping = self._gamma * _solve(size, self._d, self._l, g, target)
        for k in range(size):
            target[k] = self._theta[k] - root * target[k] / damping
        _add_outer(size, self._d, self._l, g)
        for k in range(size):
            self._theta[k] = target[k]
        if _squared_norm(size, target) > self._radius * self._radius:
            self._project(target)

    def _project(self, z: cython.p_double) -> cython.void:
        """Set θ to the point of the ball nearest to z in the norm of A: θ = z − λ (A + λI)⁻¹ z with |θ| = radius.

        |θ| falls as λ grows, and is at most μ|z| / (μ + λ), μ being the largest eigenvalue: λ lies between 0 and
        μ (|z| / radius − 1). A step of the method is short, |A⁻¹g| ≤ 1/(2γ√A₀), so that z is near the ball, λ small
        against A, and the difference loses nothing.
        """
        k: cython.Py_ssize_t
        low: cython.double = 0.0
        high: cython.double = self._trace() * (sqrt(_squared_norm(self._size, z)) / self._radius - 1.0)
        middle: cython.double
        norm: cython.double
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            if self._pull(z, middle) > self._radius:
                low = middle
            else:
                high = middle
        norm = self._pull(z, high)
        if norm > self._radius:  # by rounding
            for k in range(self._size):
                self._theta[k] = self._theta[k] * (self._radius / norm)

    def _pull(self, z: cython.p_double, multiplier: cython.double) -> cython.double:
        """Set θ to z − λ (A + λI)⁻¹ z; returns |θ|."""
        k: cython.Py_ssize_t
        d: cython.double[3] = [self._d[0], self._d[1], self._d[2]]
        l: cython.double[3] = [self._l[0], self._l[1], self._l[2]]  # noqa: E741
        solution: cython.double[3] = [0.0, 0.0, 0.0]
        _add_identity(self._size, d, l, multiplier)
        _solve(self._size, d, l, z, solution)
        for k in range(self._size):
            self._theta[k] = z[k] - multiplier * solution[k]
        return sqrt(_squared_norm(self._size, self._theta))

    def _trace(self) -> cython.double:
        """Return the sum of the diagonal of A, above its largest eigenvalue."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        entry: cython.double
        total: cython.double = 0.0
        for i in range(self._size):
            total += self._d[i]
            for j in range(i):
                entry = self._l[i * (i - 1) // 2 + j]
                total += entry * entry * self._d[j]
        return total

    def stream(
        self,
        scores: cython.const[cython.double][::1],
        y: cython.const[cython.double][::1],
        w: cython.const[cython.double][:],
        predictions: cython.double[::1],
    ):
        """Do `predict`, unless `predictions` is empty, and then `step` for each score in [0, 1] whose weight is not 0.

        The log-odds of the next score are computed before the step, whose operations wait for one another.
        """
        i: cython.Py_ssize_t
        x: cython.double
        p: cython.double
        z: cython.double[3] = [0.0, 0.0, 0.0]
        n: cython.Py_ssize_t = scores.shape[0]
        predicts: cython.bint = predictions.shape[0] > 0
        if not n == y.shape[0] == w.shape[0] or (predicts and predictions.shape[0] != n):
            raise ValueError("lengths differ")
        with cython.nogil:
            x = log_odds(scores[0], self.limit) if n > 0 else 0.0
            for i in range(n):
                p = self._forecast(x, z)
                if i + 1 < n:
                    x = log_odds(scores[i + 1], self.limit)
                if predicts:
                    predictions[i] = p
                if w[i] > 0.0:
                    self._learn(z, p, y[i], w[i])

    def parameters(self):
        """Return θ, as a tuple."""
        return tuple([float(self._theta[k]) for k in range(self._size)])

    def state(self):
        """Return (θ, D, rows of L below the diagonal, weight, state of the weight scale), concatenated, for `load`."""
        below = self._size * (self._size - 1) // 2
        d, l = [float(self._d[k]) for k in range(self._size)], [float(self._l[k]) for k in range(below)]  # noqa: E741
        return (*self.parameters(), *d, *l, float(self.weight), *self._scale.state())

    def load(self, *numbers):
        """Load an earlier `state`; `ValueError` if it is of another size."""
        size, below = self._size, self._size * (self._size - 1) // 2
        if len(numbers) != 2 * size + below + 3:
            raise ValueError(f"expected {2 * size + below + 3} numbers, not {len(numbers)}")
        for k in range(size):
            self._theta[k], self._d[k] = numbers[k], numbers[size + k]
        for k in range(below):
            self._l[k] = numbers[2 * size + k]
        self.weight = numbers[2 * size + below]
        self._scale.load(numbers[2 * size + below + 1], numbers[2 * size + below + 2])
