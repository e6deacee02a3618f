# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""An online logistic regression with forgetting, which takes implicit steps.

An implicit step uses the gradient at its own end point, and so never overshoots (Kulis and Bartlett, Implicit online
learning, ICML 2010). Symbols:

    φ                        features
    z = θ·φ, p = σ(z)        a prediction in log-odds, and its probability
    A                        the curvature of the losses so far and of the prior, A₀
    v = φᵀA⁻¹φ               the variance of z

Fields and C signatures are in `implicit_regression.pxd`, for other kernels.
"""

import cython
import numpy as np
from cython.cimports.libc.math import exp
from cython.cimports.streamcal.kernels.common.logistic import sigmoid

LARGEST = cython.declare(cython.double, 16.0)
"""Log-odds of forecasts stay within ± this, as those of scores do: a forecast is never nearer to 0 or 1 than 1e-7."""
HEAVIEST = cython.declare(cython.double, 1e6)
"""Larger weights of observations are clipped to this in a regression, for numerical accuracy."""
PIVOT = cython.declare(cython.double, 1e-9)
"""A pivot below this fraction of its diagonal is rounding error: A is at least A₀, and grows by at most 1e6 a step."""
STEPS = cython.declare(cython.int, 100)
"""Newton steps towards the root of an equation, halvings of its bracket where they do not shrink; 5 as a rule."""
ROUNDING = cython.declare(cython.double, 1e-15)
"""The iteration ends where what a Newton step leaves is as small as this, relative to the root if that is large."""
CURVED = cython.declare(cython.double, 0.05)
"""Half of the largest second derivative of σ, rounded up: .0963/2."""

# The indices in φ of the features of a line in the log-odds of a score, for the kernels that show regressions a score.
X = cython.declare(cython.Py_ssize_t, 0)
CONSTANT = cython.declare(cython.Py_ssize_t, 1)
CLAMPED_BELOW = cython.declare(cython.Py_ssize_t, 2)
CLAMPED_ABOVE = cython.declare(cython.Py_ssize_t, 3)


def clamped(z, limit):
    """Return z within ±limit."""
    return -limit if z < -limit else limit if z > limit else z


def fill_line(phi, x):
    """Set the first of φ to the features of a line at the log-odds x, which are clamped at ±16."""
    phi[X] = x if -LARGEST < x < LARGEST else 0.0
    phi[CONSTANT] = 1.0
    phi[CLAMPED_BELOW] = 1.0 if x <= -LARGEST else 0.0
    phi[CLAMPED_ABOVE] = 1.0 if x >= LARGEST else 0.0


def implicit(z, c, y):
    """Return the m with m = z + c·(y − σ(m)): the implicit step, which never overshoots."""
    m: cython.double = z
    p: cython.double = sigmoid(z)
    low: cython.double = z if y > 0.0 else z - c * p
    high: cython.double = z + c * (1.0 - p) if y > 0.0 else z
    excess: cython.double
    step: cython.double
    left: cython.double  # a bound on the distance from the root
    last: cython.double = 2.0 * (high - low)
    for _ in range(STEPS):
        excess = m - z - c * (y - p)
        if excess > 0.0:
            high = m
        else:
            low = m
        step = -excess / (1.0 + c * p * (1.0 - p))
        left = CURVED * c * step * step  # by Taylor: the derivative is at least 1
        if not low <= m + step <= high or abs(step) > 0.5 * last:
            step = 0.5 * (low + high) - m
            left = abs(step)
        m += step
        last = abs(step)
        if left <= ROUNDING * max(1.0, abs(m)):
            break
        p = sigmoid(m)
    return m


def curvature(z):
    """Return σ(z)(1 − σ(z))."""
    e: cython.double = exp(-abs(z))
    return e / ((1.0 + e) * (1.0 + e))


def residual(y, z):
    """Return y − σ(z) of a label 0 or 1, without cancellation."""
    return sigmoid(-z) if y > 0.0 else -sigmoid(z)


class ForgettingRegression:
    """An online logistic regression with forgetting: θ, A and their update.

    A step is  A ← λA + (1 − λ)A₀;  θ ← θ + A⁻¹φ·(m − z)/v, m being the log-odds z + v·w·(y − σ(m)) of the implicit
    step;  A ← A + w·σ(m)(1 − σ(m))·φφᵀ. O(n) to predict, O(n³/6) to learn, O(n²) memory for n features.

    Parameters
    ----------
    keep : float
        λ.
    precision, start : sequences of float, of one length
        For each coordinate of θ: the diagonal of A₀, the initial value.
    """

    def __init__(self, keep: cython.double, precision, start):
        self.size = len(start)
        self._keep = keep
        self._renewed = (1.0 - keep) * np.array(precision, dtype=np.float64)
        self._theta = np.array(start, dtype=np.float64)
        self._a = np.diag(np.array(precision, dtype=np.float64))
        self._l, self._g = np.zeros((self.size, self.size)), np.zeros(self.size)

    def predict(self, phi):
        """Return θ·φ."""
        k: cython.Py_ssize_t
        z: cython.double = 0.0
        for k in range(self.size):
            z += self._theta[k] * phi[k]
        return z

    def learn(self, phi, y, w):
        """Learn the label y at these features, of weight w."""
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        m: cython.double
        h: cython.double
        z: cython.double = self.predict(phi)
        v: cython.double = 0.0
        w = min(w, HEAVIEST)
        for j in range(self.size):
            for k in range(self.size):
                self._a[j, k] *= self._keep
            self._a[j, j] += self._renewed[j]
        _solve(self._a, self._l, phi, self._g)
        for k in range(self.size):
            v += phi[k] * self._g[k]
        if v <= 0.0:  # every feature is 0
            return
        m = implicit(z, v * w, y)
        h = w * curvature(m)
        for j in range(self.size):
            self._theta[j] += self._g[j] * ((m - z) / v)
            for k in range(self.size):
                self._a[j, k] += h * (phi[j] * phi[k])

    def state(self):
        """Return [θ, the rows of A] as plain data, for `load`."""
        return [np.asarray(self._theta).tolist(), np.asarray(self._a).tolist()]

    def load(self, theta, a):
        """Load an earlier `state`; `ValueError` if it is of another size."""
        if np.shape(theta) != (self.size,) or np.shape(a) != (self.size, self.size):
            raise ValueError(f"expected a state of size {self.size}, not {np.shape(theta)} and {np.shape(a)}")
        np.asarray(self._theta)[...], np.asarray(self._a)[...] = theta, a


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _solve(
    a: cython.const[cython.double][:, ::1],
    l: cython.double[:, ::1],  # noqa: E741
    phi: cython.const[cython.double][::1],
    g: cython.double[::1],
) -> cython.void:
    """Set g to A⁻¹φ by A = LDLᵀ; `l` has L below its diagonal, and D on it."""
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    k: cython.Py_ssize_t
    d: cython.double
    n: cython.Py_ssize_t = phi.shape[0]
    for i in range(n):
        for j in range(i):
            d = a[i, j]
            for k in range(j):
                d -= l[i, k] * l[j, k]  # row i has L times D until it is whole
            l[i, j] = d
        d = a[i, i]
        for j in range(i):
            l[i, j], d = l[i, j] / l[j, j], d - l[i, j] * l[i, j] / l[j, j]
        l[i, i] = max(d, PIVOT * a[i, i])
        g[i] = phi[i]
        for j in range(i):
            g[i] -= l[i, j] * g[j]
    for i in range(n):
        g[i] /= l[i, i]
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            g[i] -= l[j, i] * g[j]
