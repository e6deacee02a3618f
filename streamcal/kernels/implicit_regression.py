# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Online logistic regressions with forgetting, and corrections of a forecast. Both take implicit steps.

An implicit step uses the gradient at its own end point, and so never overshoots (Kulis and Bartlett, Implicit online
learning, ICML 2010). Symbols:

    φ                        features
    z = θ·φ, p = σ(z)        a forecast
    A                        the curvature of the losses so far and of the prior, A₀
    λ                        the factor of a coordinate of A at each step
    v = φᵀA⁻¹φ               the variance of z

Fields and C signatures are in `implicit_regression.pxd`, for other kernels.
"""

import cython

if not cython.compiled:
    import math

    from streamcal.kernels.logistic import sigmoid

    exp = math.exp
else:
    from cython.cimports.libc.math import exp
    from cython.cimports.streamcal.kernels.logistic import sigmoid

import numpy as np

LARGEST = cython.declare(cython.double, 16.0)
"""Log-odds of forecasts stay within ± this, as those of scores do: a forecast is never nearer to 0 or 1 than 1e-7."""
HEAVIEST = cython.declare(cython.double, 1e6)
"""Larger weights of observations are clipped to this in a regression, for numerical accuracy."""
PIVOT = cython.declare(cython.double, 1e-9)
"""A pivot below this fraction of its diagonal is rounding error: A is at least A₀, and grows by at most 1e6 a step."""
LARGEST_SIZE = cython.declare(cython.Py_ssize_t, 64)
"""Coordinates of a regression, at most."""
STEPS = cython.declare(cython.int, 100)
"""Newton steps towards the root of an equation, halvings of its bracket where they do not shrink; 5 as a rule."""
ROUNDING = cython.declare(cython.double, 1e-15)
"""The iteration ends where what a Newton step leaves is as small as this, relative to the root if that is large."""
CURVED = cython.declare(cython.double, 0.05)
"""Half of the largest second derivative of σ, rounded up: .0963/2."""


def clamped(z):
    """Log-odds within ±16."""
    return -LARGEST if z < -LARGEST else LARGEST if z > LARGEST else z


def implicit(z, c, y):
    """The m with m = z + c·(y − σ(m)): the implicit step, which never overshoots."""
    m: cython.double = z
    p: cython.double = sigmoid(z)
    low: cython.double = z if y > 0.0 else z - c * p
    high: cython.double = z + c * (1.0 - p) if y > 0.0 else z
    excess: cython.double
    step: cython.double
    left: cython.double  # a bound on the distance from the root
    last: cython.double = 2.0 * (high - low)
    for _ in range(STEPS):
        p = sigmoid(m)
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
    return m


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _variance(z: cython.double) -> cython.double:
    """σ(z)(1 − σ(z))."""
    e: cython.double = exp(-abs(z))
    return e / ((1.0 + e) * (1.0 + e))


# Arrays are passed to these functions rather than read from fields: the compiler then knows that they do not move.


@cython.cfunc
@cython.exceptval(check=False)
def _decay(
    a: cython.double[:, ::1], kept: cython.const[cython.double][:, ::1], renewed: cython.const[cython.double][:, ::1]
) -> cython.void:
    """A ← ΛAΛ + SA₀S."""
    j: cython.Py_ssize_t
    k: cython.Py_ssize_t
    for j in range(a.shape[0]):
        for k in range(a.shape[0]):
            a[j, k] = kept[j, k] * a[j, k] + renewed[j, k]


@cython.cfunc
@cython.exceptval(check=False)
def _move(
    theta: cython.double[::1],
    a: cython.double[:, ::1],
    trends: cython.Py_ssize_t,
    d: cython.Py_ssize_t,
    pace: cython.double,
) -> cython.void:
    """Move the first coordinates by their velocities, which come after d others, and A with them."""
    j: cython.Py_ssize_t
    k: cython.Py_ssize_t
    for k in range(trends):
        theta[k] += pace * theta[d + k]
    for k in range(trends):
        for j in range(a.shape[0]):
            a[j, d + k] -= pace * a[j, k]
    for k in range(trends):
        for j in range(a.shape[0]):
            a[d + k, j] -= pace * a[k, j]


@cython.cfunc
@cython.exceptval(check=False)
def _solve(
    a: cython.const[cython.double][:, ::1],
    f: cython.const[cython.double][::1],
    l: cython.double[:, ::1],  # noqa: E741
    g: cython.double[::1],
) -> cython.void:
    """g ← A⁻¹(f, 0) by A = L D Lᵀ; the rows of D Lᵀ are stored in `l`, with 1/D before them. O(size³/6).

    Each row takes what the rows before it give, four at a time, in `row`.
    """
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    k: cython.Py_ssize_t
    n: cython.Py_ssize_t = a.shape[0]
    row = cython.declare(cython.double[64])  # `LARGEST_SIZE`
    one: cython.double
    p0: cython.double
    p1: cython.double
    p2: cython.double
    p3: cython.double
    for i in range(n):
        for j in range(i, n):
            row[j] = a[i, j]
        one = f[i] if i < f.shape[0] else 0.0
        for k in range(0, i - 3, 4):
            p0 = l[k, 1 + i] * l[k, 0]
            p1 = l[k + 1, 1 + i] * l[k + 1, 0]
            p2 = l[k + 2, 1 + i] * l[k + 2, 0]
            p3 = l[k + 3, 1 + i] * l[k + 3, 0]
            for j in range(i, n):
                row[j] = row[j] - p0 * l[k, 1 + j] - p1 * l[k + 1, 1 + j] - p2 * l[k + 2, 1 + j] - p3 * l[k + 3, 1 + j]
            one = one - p0 * g[k] - p1 * g[k + 1] - p2 * g[k + 2] - p3 * g[k + 3]
        for k in range(i - i % 4, i):
            p0 = l[k, 1 + i] * l[k, 0]
            for j in range(i, n):
                row[j] -= p0 * l[k, 1 + j]
            one -= p0 * g[k]
        row[i] = max(row[i], PIVOT * a[i, i])
        for j in range(i, n):
            l[i, 1 + j] = row[j]
        l[i, 0] = 1.0 / row[i]
        g[i] = one
    for i in range(n - 1, -1, -1):
        one = g[i]
        for k in range(i + 1, n):
            one -= l[i, 1 + k] * g[k]
        g[i] = one * l[i, 0]


@cython.cfunc
@cython.exceptval(check=False)
def _curve(a: cython.double[:, ::1], f: cython.const[cython.double][::1], h: cython.double) -> cython.void:
    """A ← A + h·φφᵀ."""
    j: cython.Py_ssize_t
    k: cython.Py_ssize_t
    one: cython.double
    for j in range(f.shape[0]):
        one = h * f[j]
        for k in range(f.shape[0]):
            a[j, k] += one * f[k]


@cython.cclass
class ForgettingRegression:
    """An online logistic regression with forgetting: θ, A and their update.

    A step is  A ← ΛAΛ + SA₀S with Λ = diag(√λ), S = diag(√(1 − λ));  θ ← θ + A⁻¹φ·(m − z)/v, m being the log-odds
    z + v·w·(y − σ(m)) of the implicit step;  A ← A + w·σ(m)(1 − σ(m))·φφᵀ.

    Parameters
    ----------
    places : sequence of int
        The indices of its features φ in the array of features.
    keep, precision, start : sequences of float, of one length
        For each coordinate of θ: λ, the diagonal of A₀, the initial value.
    trends : int
        How many coordinates at the end of θ are velocities: coordinate k moves by `pace` times its velocity at every
        step, k < trends.
    pace : float
        The unit of velocities.

    Notes
    -----
    O(size) to predict, O(size³/6) to learn, O(size²) memory, size = len(keep).
    """

    def __init__(self, places, keep, precision, start, trends: cython.Py_ssize_t = 0, pace: cython.double = 0.0):
        self.size = len(keep)
        if self.size > LARGEST_SIZE:
            raise ValueError(f"a regression of {self.size} coordinates is larger than {LARGEST_SIZE}")
        self._features = len(places)
        self._places = np.array(places, dtype=np.intp)
        self._trends = trends
        self._pace = pace
        self._root = np.sqrt(np.array(keep, dtype=np.float64))
        self._precision = np.array(precision, dtype=np.float64)
        self._theta = np.array(start, dtype=np.float64)
        self._begin(np.diag(self._precision))
        self._l = np.zeros((self.size, 1 + self.size))
        self._f = np.zeros(self._features)
        self._g = np.zeros(self.size)

    def predict(self, phi, ahead):
        """θ·φ, with θ extrapolated by its velocities for `ahead` steps."""
        k: cython.Py_ssize_t
        z: cython.double = 0.0
        for k in range(self._features):
            z += self._theta[k] * phi[self._places[k]]
        for k in range(self._trends):
            z += ahead * self._pace * self._theta[self._features + k] * phi[self._places[k]]
        return z

    def learn(self, phi, y, w):
        """One step on the label y at these features, of weight w."""
        k: cython.Py_ssize_t
        z: cython.double
        m: cython.double
        v: cython.double = 0.0
        w = min(w, HEAVIEST)
        for k in range(self._features):
            self._f[k] = phi[self._places[k]]
        _decay(self._a, self._kept, self._renewed)
        if self._trends > 0:
            _move(self._theta, self._a, self._trends, self._features, self._pace)
        _solve(self._a, self._f, self._l, self._g)
        z = self.predict(phi, 0.0)
        for k in range(self._features):
            v += self._f[k] * self._g[k]
        if v <= 0.0:  # only if every feature is 0
            return
        m = implicit(z, v * w, y)
        for k in range(self.size):
            self._theta[k] += self._g[k] * ((m - z) / v)
        _curve(self._a, self._f, w * _variance(m))

    def _begin(self, prior):
        """Set A₀, and A to A₀."""
        fade = np.sqrt(1.0 - np.square(self._root))
        self._kept = np.outer(self._root, self._root)
        self._renewed = prior * np.outer(fade, fade)
        self._a = prior

    def hold(self, phi, constant):
        """Reset A to a new A₀ that penalises changes of the forecast at the features φ instead of those of the offset.

        The entry p of the offset on the diagonal of A₀ is replaced by pφφᵀ; so is that of its velocity. `constant` is
        the index of the feature that is always 1; a regression without it is not changed.
        """
        places = np.asarray(self._places).tolist()
        if constant not in places:
            return
        size, offset = self._features, places.index(constant)
        held, precision = np.asarray(phi)[places], np.asarray(self._precision)
        prior = np.diag(precision)
        for start, stop in ((0, size), (size, self.size))[: 2 if offset < self._trends else 1]:
            part = np.outer(held[: stop - start], held[: stop - start])
            part[offset, offset] -= 1.0
            prior[start:stop, start:stop] += precision[start + offset] * part
        self._begin(prior)

    def state(self):
        """[θ, the rows of A] as plain data, for `load`."""
        return [np.asarray(self._theta).tolist(), np.asarray(self._a).tolist()]

    def load(self, theta, a):
        """Load an earlier `state`; `ValueError` if it is of another size."""
        if np.shape(theta) != (self.size,) or np.shape(a) != (self.size, self.size):
            raise ValueError(f"expected a state of size {self.size}, not {np.shape(theta)} and {np.shape(a)}")
        self._theta = np.array(theta, dtype=np.float64)
        self._a = np.array(a, dtype=np.float64)


@cython.cclass
class Correction:
    """A curve over log-odds, added to the log-odds of a forecast and learned from the residuals.

    It has values f and curvatures H at knots of equal distance, and is linear between them. An observation at x moves
    the knots nearer than `width`, by K = (1 − u²)² of their distance u in widths:  H ← firm + (H − firm)(1 − K/memory);
    f ← f + (K/H)·(m − z)/v, z being the corrected log-odds, v the change of f(x) by steps of K/H at the knots, and m
    the log-odds z + v·w·(y − σ(m)) of the implicit step;  H ← H + K·w·σ(m)(1 − σ(m)). H starts as `firm`, f as 0.

    Parameters: `width` in log-odds, `memory` in observations, `firm` in curvature (¼ for an observation at
    probability ½), `knots_a_unit` in knots. O(1) to evaluate, O(width · knots_a_unit) to learn.
    """

    def __init__(self, width, memory, firm, knots_a_unit):
        size = round(2.0 * LARGEST * knots_a_unit) + 1
        self._width = width
        self._forget = 1.0 / memory
        self._firm = firm
        self._unit = knots_a_unit
        self._last = size - 1
        self._curve = np.zeros(size)
        self._curvature = np.full(size, float(firm))

    def _knot(self, x):
        """The knot at or below the log-odds x, not the last; the first one below it."""
        x = (x + LARGEST) * self._unit
        return min(cython.cast(cython.Py_ssize_t, x), self._last - 1) if x >= 0.0 else 0  # also where x is NaN

    def _kernel(self, knot, x):
        u: cython.double = (knot / self._unit - LARGEST - x) / self._width
        return (1.0 - u * u) * (1.0 - u * u) if -1.0 < u < 1.0 else 0.0

    def at(self, x):
        """The correction at the log-odds x, within ±16."""
        knot: cython.Py_ssize_t = self._knot(x)
        share: cython.double = (x + LARGEST) * self._unit - knot
        return self._curve[knot] + share * (self._curve[knot + 1] - self._curve[knot])

    def learn(self, x, z, y, w):
        """One step on the label y at x, of weight w; z is the log-odds of the forecast to be corrected."""
        k: cython.Py_ssize_t
        knot: cython.Py_ssize_t = self._knot(x)
        share: cython.double = (x + LARGEST) * self._unit - knot
        first: cython.Py_ssize_t = max(0, self._knot(max(x - self._width, -LARGEST)))
        last: cython.Py_ssize_t = min(self._last, self._knot(min(x + self._width, LARGEST)) + 1)
        part: cython.double
        v: cython.double
        m: cython.double
        h: cython.double
        step: cython.double
        w = min(w, HEAVIEST)
        z += self.at(x)
        for k in range(first, last + 1):
            self._curvature[k] -= self._forget * self._kernel(k, x) * (self._curvature[k] - self._firm)
        v = (1.0 - share) * self._kernel(knot, x) / self._curvature[knot]
        v += share * self._kernel(knot + 1, x) / self._curvature[knot + 1]
        m = implicit(z, v * w, y)
        h = w * _variance(m)
        step = (m - z) / v
        for k in range(first, last + 1):
            part = self._kernel(k, x)
            self._curve[k] += part / self._curvature[k] * step
            self._curvature[k] += part * h

    def state(self):
        """[the curve, its curvature] as plain data, for `load`."""
        return [np.asarray(self._curve).tolist(), np.asarray(self._curvature).tolist()]

    def load(self, curve, curvature):
        """Load an earlier `state`; `ValueError` if it is of another size."""
        size = self._last + 1
        if np.shape(curve) != (size,) or np.shape(curvature) != (size,):
            raise ValueError(f"expected a curve of {size} knots, not {np.shape(curve)}")
        self._curve = np.array(curve, dtype=np.float64)
        self._curvature = np.array(curvature, dtype=np.float64)
