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

# The indices in φ of the features of a line in the log-odds of a score, for the kernels that show regressions a score.
X = cython.declare(cython.Py_ssize_t, 0)
CONSTANT = cython.declare(cython.Py_ssize_t, 1)
CLAMPED_BELOW = cython.declare(cython.Py_ssize_t, 2)
CLAMPED_ABOVE = cython.declare(cython.Py_ssize_t, 3)

#: Name of such a feature → its index. Other features follow them.
LINE_FEATURES = {
    "x": X,  # 0 where the score is clamped
    "1": CONSTANT,
    "clamped below": CLAMPED_BELOW,  # 1 or 0
    "clamped above": CLAMPED_ABOVE,
}

# The rows of the numbers of steps: z, v, and the log-odds m.
Z = cython.declare(cython.Py_ssize_t, 0)
V = cython.declare(cython.Py_ssize_t, 1)
M = cython.declare(cython.Py_ssize_t, 2)

# What is known of each regression in a bank: where its vectors and its A begin; the sizes of θ, of a row of A and of φ;
# how many coordinates of θ move.
START = cython.declare(cython.Py_ssize_t, 0)
AT = cython.declare(cython.Py_ssize_t, 1)
SIZE = cython.declare(cython.Py_ssize_t, 2)
WIDTH = cython.declare(cython.Py_ssize_t, 3)
FEATURES = cython.declare(cython.Py_ssize_t, 4)
TRENDS = cython.declare(cython.Py_ssize_t, 5)


def clamped(z, limit):
    """z within ±limit."""
    return -limit if z < -limit else limit if z > limit else z


def fill_line(phi, x):
    """Set the first of φ to the features of a line at the log-odds x, which are clamped at ±16."""
    phi[X] = x if -LARGEST < x < LARGEST else 0.0
    phi[CONSTANT] = 1.0
    phi[CLAMPED_BELOW] = 1.0 if x <= -LARGEST else 0.0
    phi[CLAMPED_ABOVE] = 1.0 if x >= LARGEST else 0.0


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
    """σ(z)(1 − σ(z))."""
    e: cython.double = exp(-abs(z))
    return e / ((1.0 + e) * (1.0 + e))


# Arrays are passed to these functions rather than read from fields: the compiler then knows that they do not move. They
# are passed whole, beside an index, since each slice of one is counted by an atomic instruction when it is made and
# another when it is left, which take as long as the arithmetic of a small regression.


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _move(
    theta: cython.double[::1],
    a: cython.double[::1],
    kept: cython.const[cython.double][::1],
    renewed: cython.const[cython.double][::1],
    table: cython.const[cython.Py_ssize_t][:, ::1],
    one: cython.Py_ssize_t,
    pace: cython.double,
) -> cython.void:
    """A ← ΛAΛ + SA₀S; move the first coordinates by their velocities, which come after d others, and A with them."""
    j: cython.Py_ssize_t
    k: cython.Py_ssize_t
    d: cython.Py_ssize_t = table[one, FEATURES]
    at: cython.Py_ssize_t = table[one, AT]
    to: cython.Py_ssize_t = at + d  # the columns of the velocities
    width: cython.Py_ssize_t = table[one, WIDTH]
    trends: cython.Py_ssize_t = table[one, TRENDS]
    for k in range(at, at + table[one, SIZE] * width):
        a[k] = kept[k] * a[k] + renewed[k]
    for k in range(trends):
        theta[table[one, START] + k] += pace * theta[table[one, START] + d + k]
    for k in range(trends):
        for j in range(k, trends):
            a[to + (d + k) * width + j] -= pace * a[to + j * width + k]
    for k in range(trends):
        for j in range(d):
            a[to + j * width + k] -= pace * a[at + min(j, k) * width + max(j, k)]
    for k in range(trends):
        for j in range(k, trends):
            a[to + (d + k) * width + j] -= pace * a[to + k * width + j]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _take_four(
    row: cython.p_double,
    other: cython.p_double,
    l: cython.const[cython.double][::1],  # noqa: E741
    r0: cython.Py_ssize_t,
    i: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.void:
    """Subtract from rows i and i + 1 what four rows before them give, which begin at `r0` in `l`."""
    j: cython.Py_ssize_t
    r1: cython.Py_ssize_t = r0 + size
    r2: cython.Py_ssize_t = r1 + size
    r3: cython.Py_ssize_t = r2 + size
    p0: cython.double = l[r0 + 2 + i] * l[r0]
    p1: cython.double = l[r1 + 2 + i] * l[r1]
    p2: cython.double = l[r2 + 2 + i] * l[r2]
    p3: cython.double = l[r3 + 2 + i] * l[r3]
    q0: cython.double = l[r0 + 3 + i] * l[r0]
    q1: cython.double = l[r1 + 3 + i] * l[r1]
    q2: cython.double = l[r2 + 3 + i] * l[r2]
    q3: cython.double = l[r3 + 3 + i] * l[r3]
    for j in range(i + 2, size, 2):
        row[j] = row[j] - p0 * l[r0 + j] - p1 * l[r1 + j] - p2 * l[r2 + j] - p3 * l[r3 + j]
        row[j + 1] = row[j + 1] - p0 * l[r0 + j + 1] - p1 * l[r1 + j + 1] - p2 * l[r2 + j + 1] - p3 * l[r3 + j + 1]
        other[j] = other[j] - q0 * l[r0 + j] - q1 * l[r1 + j] - q2 * l[r2 + j] - q3 * l[r3 + j]
        other[j + 1] = other[j + 1] - q0 * l[r0 + j + 1] - q1 * l[r1 + j + 1] - q2 * l[r2 + j + 1] - q3 * l[r3 + j + 1]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _take_two(
    row: cython.p_double,
    other: cython.p_double,
    l: cython.const[cython.double][::1],  # noqa: E741
    r0: cython.Py_ssize_t,
    i: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.void:
    """`_take_four` of two rows."""
    j: cython.Py_ssize_t
    r1: cython.Py_ssize_t = r0 + size
    p0: cython.double = l[r0 + 2 + i] * l[r0]
    p1: cython.double = l[r1 + 2 + i] * l[r1]
    q0: cython.double = l[r0 + 3 + i] * l[r0]
    q1: cython.double = l[r1 + 3 + i] * l[r1]
    for j in range(i + 2, size, 2):
        row[j] = row[j] - p0 * l[r0 + j] - p1 * l[r1 + j]
        row[j + 1] = row[j + 1] - p0 * l[r0 + j + 1] - p1 * l[r1 + j + 1]
        other[j] = other[j] - q0 * l[r0 + j] - q1 * l[r1 + j]
        other[j + 1] = other[j + 1] - q0 * l[r0 + j + 1] - q1 * l[r1 + j + 1]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _eliminate(
    a: cython.const[cython.double][::1],
    kept: cython.const[cython.double][::1],
    renewed: cython.const[cython.double][::1],
    g: cython.const[cython.double][::1],
    l: cython.double[::1],  # noqa: E741
    table: cython.const[cython.Py_ssize_t][:, ::1],
    one: cython.Py_ssize_t,
) -> cython.void:
    """ΛAΛ + SA₀S = L D Lᵀ: the rows of Lᵀ to `l`, each after its D, twice, and before its D⁻¹L⁻¹g. O(n³/6).

    Where coordinates move, `_move` has done the left side, and A is decomposed.

    Two rows at a time take what the rows before them give, four at a time: loops are fewer and longer, and what is
    loaded serves twice. Columns are in pairs, which one instruction computes.
    """
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    k: cython.Py_ssize_t
    p: cython.double
    width: cython.Py_ssize_t = table[one, WIDTH]
    size: cython.Py_ssize_t = width + 4
    at: cython.Py_ssize_t = table[one, AT] - 2
    to: cython.Py_ssize_t = 0
    row = cython.declare(cython.double[68])  # `LARGEST_SIZE`, and what stands beside it
    other = cython.declare(cython.double[68])
    for i in range(0, table[one, SIZE], 2):
        both: cython.bint = i + 1 < table[one, SIZE]
        next_at: cython.Py_ssize_t = at + width if both else at
        if table[one, TRENDS] > 0:
            for j in range(i + 2, width + 2):
                row[j], other[j] = a[at + j], a[next_at + j]
        else:
            for j in range(i + 2, width + 2):
                row[j] = kept[at + j] * a[at + j] + renewed[at + j]
                other[j] = kept[next_at + j] * a[next_at + j] + renewed[next_at + j]
        least: cython.double = PIVOT * row[i + 2]
        other_least: cython.double = PIVOT * other[i + 3]
        row[width + 2], row[width + 3] = g[table[one, START] + i], 0.0
        other[width + 2], other[width + 3] = g[table[one, START] + i + 1] if both else 0.0, 0.0
        for k in range(0, i - 3, 4):
            _take_four(row, other, l, k * size, i, size)
        if i % 4 == 2:
            _take_two(row, other, l, (i - 2) * size, i, size)
        l[to] = l[to + 1] = max(row[i + 2], least)
        p = 1.0 / l[to]
        q: cython.double = row[i + 3] * p
        for j in range(i + 2, size):
            l[to + j] = row[j] * p
            other[j] = other[j] - q * row[j]
        if both:
            l[to + size] = l[to + size + 1] = max(other[i + 3], other_least)
            p = 1.0 / l[to + size]
            for j in range(i + 2, size):
                l[to + size + j] = other[j] * p
        at += 2 * width
        to += 2 * size


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _substitute(
    g: cython.double[::1],
    l: cython.const[cython.double][::1],  # noqa: E741
    table: cython.const[cython.Py_ssize_t][:, ::1],
    one: cython.Py_ssize_t,
) -> cython.void:
    """g ← A⁻¹g, after `_eliminate`.

    The three entries found last are not read from `g`: a processor that loads two together waits until both are stored.
    """
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    row: cython.Py_ssize_t
    begin: cython.Py_ssize_t
    start: cython.Py_ssize_t = table[one, START]
    width: cython.Py_ssize_t = table[one, WIDTH]
    even: cython.double
    odd: cython.double
    first: cython.double = 0.0  # entries i + 1, i + 2 and i + 3, where there are any
    second: cython.double = 0.0
    third: cython.double = 0.0
    for i in range(table[one, SIZE] - 1, -1, -1):
        row, begin = i * (width + 4) + 2, i + 1
        even, odd = l[row + width], 0.0
        if begin % 2 == 1 and begin < width:
            odd = -l[row + begin] * first
            if begin + 1 < width:
                even -= l[row + begin + 1] * second
                odd -= l[row + begin + 2] * third
            begin += 3
        elif begin < width:
            even -= l[row + begin] * first
            odd -= l[row + begin + 1] * second
            begin += 2
        for j in range(begin, width, 2):
            even -= l[row + j] * g[start + j]
            odd -= l[row + j + 1] * g[start + j + 1]
        first, second, third = even + odd, first, second
        g[start + i] = first


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _solve_four(
    a: cython.const[cython.double][::1],
    kept: cython.const[cython.double][::1],
    renewed: cython.const[cython.double][::1],
    g: cython.double[::1],
    at: cython.Py_ssize_t,
    start: cython.Py_ssize_t,
) -> cython.void:
    """`_eliminate` and `_substitute` of four coordinates of which none moves: the same operations, without loops.

    Entry j, k of what is decomposed is `a` with both indices, that of Lᵀ `l`, that of D `d`.
    """
    a00: cython.double = kept[at] * a[at] + renewed[at]
    a01: cython.double = kept[at + 1] * a[at + 1] + renewed[at + 1]
    a02: cython.double = kept[at + 2] * a[at + 2] + renewed[at + 2]
    a03: cython.double = kept[at + 3] * a[at + 3] + renewed[at + 3]
    a11: cython.double = kept[at + 5] * a[at + 5] + renewed[at + 5]
    a12: cython.double = kept[at + 6] * a[at + 6] + renewed[at + 6]
    a13: cython.double = kept[at + 7] * a[at + 7] + renewed[at + 7]
    a22: cython.double = kept[at + 10] * a[at + 10] + renewed[at + 10]
    a23: cython.double = kept[at + 11] * a[at + 11] + renewed[at + 11]
    a33: cython.double = kept[at + 15] * a[at + 15] + renewed[at + 15]
    least1: cython.double = PIVOT * a11
    least2: cython.double = PIVOT * a22
    least3: cython.double = PIVOT * a33
    q: cython.double
    g0: cython.double = g[start]
    g1: cython.double = g[start + 1]
    g2: cython.double = g[start + 2]
    g3: cython.double = g[start + 3]
    d0: cython.double = max(a00, PIVOT * a00)
    p: cython.double = 1.0 / d0
    l01: cython.double = a01 * p
    l02: cython.double = a02 * p
    l03: cython.double = a03 * p
    a11, a12, a13, g1 = a11 - l01 * a01, a12 - l01 * a02, a13 - l01 * a03, g1 - l01 * g0
    g0 *= p
    d1: cython.double = max(a11, least1)
    p = 1.0 / d1
    l12: cython.double = a12 * p
    l13: cython.double = a13 * p
    g1 *= p
    p, q = l02 * d0, l12 * d1
    a22, a23, g2 = a22 - p * l02 - q * l12, a23 - p * l03 - q * l13, g2 - p * g0 - q * g1
    p, q = l03 * d0, l13 * d1
    a33, g3 = a33 - p * l03 - q * l13, g3 - p * g0 - q * g1
    p = 1.0 / max(a22, least2)
    l23: cython.double = a23 * p
    a33, g3 = a33 - l23 * a23, g3 - l23 * g2
    g2 *= p
    g3 *= 1.0 / max(a33, least3)
    g2 -= l23 * g3
    g1 = g1 - l12 * g2 - l13 * g3
    g[start] = (g0 - l02 * g2) - (l01 * g1 + l03 * g3)
    g[start + 1], g[start + 2], g[start + 3] = g1, g2, g3


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _curve(
    a: cython.double[::1],
    kept: cython.const[cython.double][::1],
    renewed: cython.const[cython.double][::1],
    f: cython.const[cython.double][::1],
    h: cython.double,
    table: cython.const[cython.Py_ssize_t][:, ::1],
    one: cython.Py_ssize_t,
) -> cython.void:
    """A ← ΛAΛ + SA₀S + h·φφᵀ, from the diagonal on; of the first two terms `_move` took care, where it was called."""
    j: cython.Py_ssize_t
    k: cython.Py_ssize_t
    part: cython.double
    start: cython.Py_ssize_t = table[one, START]
    row: cython.Py_ssize_t = table[one, AT]
    width: cython.Py_ssize_t = table[one, WIDTH]
    for j in range(table[one, FEATURES]):
        part = h * f[start + j]
        if table[one, TRENDS] > 0:
            for k in range(j - j % 2, width):
                a[row + k] += part * f[start + k]
        else:
            for k in range(j - j % 2, width):
                a[row + k] = kept[row + k] * a[row + k] + renewed[row + k] + part * f[start + k]
        row += width


@cython.final
@cython.cclass
class RegressionBank:
    """Online logistic regressions with forgetting that take their steps together.

    Entry k of a vector is at START + k, and entry (j, k) of A at AT + j·WIDTH + k; vectors and rows of an odd number of
    entries end with a 0. A being symmetric, steps change only its diagonal and what is to its right.

    Parameters
    ----------
    regressions : sequence of ForgettingRegression
        They are moved into this bank with what they have learned, and from now on read from it.
    """

    def __init__(self, regressions):
        table, start, at = [], 0, 0
        for regression in regressions:
            size, features, trends, _ = regression.shape
            width = size + size % 2
            table.append((start, at, size, width, features, trends))
            start, at = start + width, at + size * width
        self.size = len(regressions)
        self._table = np.array(table, dtype=np.intp).reshape(-1, 6)
        self._paces = np.array([regression.shape[3] for regression in regressions])
        self._places = np.full(start, -1, dtype=np.intp)
        self._theta, self._f, self._g = np.zeros((3, start))
        self._h = np.zeros(self.size)
        self._a, self._kept, self._renewed = np.zeros((3, at + 2))
        self._l = np.zeros(max((size * (width + 4) for _, _, size, width, _, _ in table), default=0))
        self._work = np.zeros((3, len(regressions)))
        self._moved = False  # whether a step was taken
        for place, regression in enumerate(regressions):
            regression.move_to(self, place)

    def read(self, place):
        """(θ, A, SA₀S) of a regression, copied."""
        vector, matrix, _ = self._entries(place)
        a = np.asarray(self._a)[matrix]
        if self._moved:  # only the diagonal and what is to its right
            a = np.triu(a) + np.triu(a, 1).T
        return np.asarray(self._theta)[vector], a, np.asarray(self._renewed)[matrix]

    def write(self, place, features, root, theta, a, renewed):
        """Replace the numbers of a regression; `features` are the places of φ among those shown, and `root` is √λ."""
        vector, matrix, number = self._entries(place)
        np.asarray(self._theta)[vector] = theta
        np.asarray(self._kept)[matrix] = np.outer(root, root)
        np.asarray(self._places)[vector[:number]] = features
        np.asarray(self._a)[matrix] = a
        np.asarray(self._renewed)[matrix] = renewed

    def _entries(self, place):
        """Where the entries of θ of a regression are, and those of A, shape (size, size); its number of features."""
        start, at, size, width, features, _ = np.asarray(self._table)[place].tolist()
        k = np.arange(size)
        return start + k, at + np.add.outer(k * width, k), features

    def predict_one(self, place, phi, ahead):
        """θ·φ of a regression, with θ extrapolated by its velocities for `ahead` steps."""
        k: cython.Py_ssize_t
        start: cython.Py_ssize_t = self._table[place, START]
        features: cython.Py_ssize_t = self._table[place, FEATURES]
        pace: cython.double = ahead * self._paces[place]
        z: cython.double = 0.0
        for k in range(start, start + features):
            z += self._theta[k] * phi[self._places[k]]
        for k in range(start, start + self._table[place, TRENDS]):
            z += pace * self._theta[k + features] * phi[self._places[k]]
        return z

    def predict(self, phi, ahead, places, out):
        """Write what each of the regressions predicts, clamped, to its place in `out`."""
        i: cython.Py_ssize_t
        for i in range(self.size):
            out[places[i]] = clamped(self.predict_one(i, phi, ahead), LARGEST)

    def learn(self, phi, y, w):
        """One step of each on the label y at these features, of weight w."""
        i: cython.Py_ssize_t
        m: cython.double
        v: cython.double
        w = min(w, HEAVIEST)
        self._show(phi)
        for i in range(self.size):
            self._prepare(i)
        for i in range(self.size):  # in a loop of their own, so that the processor begins one before it ends another
            self._work[M, i] = implicit(self._work[Z, i], self._work[V, i] * w, y)
        for i in range(self.size):
            m, v = self._work[M, i], self._work[V, i]
            step: cython.double = (m - self._work[Z, i]) / v if v > 0.0 else 0.0
            self._h[i] = w * curvature(m) if v > 0.0 else 0.0
            self._finish(i, step)

    def _finish(self, i, step):
        """θ ← θ + step·g, and add the new curvature to A."""
        k: cython.Py_ssize_t
        start: cython.Py_ssize_t = self._table[i, START]
        for k in range(start, start + self._table[i, WIDTH]):
            self._theta[k] += self._g[k] * step
        _curve(self._a, self._kept, self._renewed, self._f, self._h[i], self._table, i)

    def _show(self, phi):
        """Set φ of each."""
        k: cython.Py_ssize_t
        for k in range(self._f.shape[0]):
            self._f[k] = self._g[k] = phi[self._places[k]] if self._places[k] >= 0 else 0.0
        self._moved = True

    @property
    def recorded(self):
        """Length of a record of a step."""
        return self._theta.shape[0] + self.size

    def record(self, out):
        """Write to `out` what the step just made led to: the θ of all, and their new curvatures."""
        k: cython.Py_ssize_t
        for k in range(self._theta.shape[0]):
            out[k] = self._theta[k]
        for k in range(self.size):
            out[self._theta.shape[0] + k] = self._h[k]

    def repeat(self, phi, recorded):
        """Take a step that another bank has taken from the same state with the same φ, as it was recorded."""
        i: cython.Py_ssize_t
        self._show(phi)
        for i in range(self.size):
            if self._table[i, TRENDS] > 0:
                _move(self._theta, self._a, self._kept, self._renewed, self._table, i, self._paces[i])
            self._h[i] = recorded[self._theta.shape[0] + i]
            self._finish(i, 0.0)
        for i in range(self._theta.shape[0]):
            self._theta[i] = recorded[i]

    def _prepare(self, i):
        """Decay and move a regression, set g to A⁻¹φ, and z and v of its step in `_work`."""
        k: cython.Py_ssize_t
        start: cython.Py_ssize_t = self._table[i, START]
        z: cython.double = 0.0
        v: cython.double = 0.0
        if self._table[i, SIZE] == 4 and self._table[i, TRENDS] == 0:
            _solve_four(self._a, self._kept, self._renewed, self._g, self._table[i, AT], start)
        else:
            if self._table[i, TRENDS] > 0:
                _move(self._theta, self._a, self._kept, self._renewed, self._table, i, self._paces[i])
            _eliminate(self._a, self._kept, self._renewed, self._g, self._l, self._table, i)
            _substitute(self._g, self._l, self._table, i)
        for k in range(start, start + self._table[i, FEATURES]):
            z += self._theta[k] * self._f[k]
            v += self._f[k] * self._g[k]
        v = max(v, 0.0)  # 0 only if every feature is 0
        self._work[Z, i], self._work[V, i] = z, v


@cython.final
@cython.cclass
class ForgettingRegression:
    """An online logistic regression with forgetting: θ, A and their update.

    A step is  A ← ΛAΛ + SA₀S with Λ = diag(√λ), S = diag(√(1 − λ));  θ ← θ + A⁻¹φ·(m − z)/v, m being the log-odds
    z + v·w·(y − σ(m)) of the implicit step;  A ← A + w·σ(m)(1 − σ(m))·φφᵀ.

    Its numbers are in a `RegressionBank`: its own, or one that takes the steps of several.

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
        self._places = list(places)
        self.shape = (self.size, len(self._places), trends, pace)
        self._root = np.sqrt(np.array(keep, dtype=np.float64))
        self._precision = np.array(precision, dtype=np.float64)
        self._numbers = (np.array(start, dtype=np.float64), *self._prior(np.diag(self._precision)))
        self._bank = None
        RegressionBank([self])

    def move_to(self, bank: RegressionBank, place: cython.Py_ssize_t):
        """Keep its numbers there, for `RegressionBank`."""
        numbers = self._numbers if self._bank is None else self._bank.read(self._place)
        self._bank, self._place, self._numbers = bank, place, None
        self._write(*numbers)

    def _write(self, *numbers):
        self._bank.write(self._place, self._places, self._root, *numbers)

    def _prior(self, prior):
        """A and SA₀S, where A₀ is `prior`."""
        fade = np.sqrt(1.0 - np.square(self._root))
        return prior, prior * np.outer(fade, fade)

    def predict(self, phi, ahead):
        """θ·φ, with θ extrapolated by its velocities for `ahead` steps."""
        return self._bank.predict_one(self._place, phi, ahead)

    def learn(self, phi, y, w):
        """One step on the label y at these features, of weight w; `ValueError` if it takes its steps with others."""
        if self._bank.size != 1:
            raise ValueError(f"this regression learns with {self._bank.size - 1} others")
        self._bank.learn(phi, y, w)

    @property
    def bank(self):
        """Where its numbers are."""
        return self._bank

    def hold(self, phi, constant):
        """Reset A to a new A₀ that penalises changes of the forecast at the features φ instead of those of the offset.

        The entry p of the offset on the diagonal of A₀ is replaced by pφφᵀ; so is that of its velocity. `constant` is
        the index of the feature that is always 1; a regression without it is not changed.
        """
        if constant not in self._places:
            return
        _, size, trends, _ = self.shape
        offset = self._places.index(constant)
        held, precision = np.asarray(phi)[self._places], self._precision
        prior = np.diag(precision)
        for start, stop in ((0, size), (size, self.size))[: 2 if offset < trends else 1]:
            part = np.outer(held[: stop - start], held[: stop - start])
            part[offset, offset] -= 1.0
            prior[start:stop, start:stop] += precision[start + offset] * part
        self._write(self._bank.read(self._place)[0], *self._prior(prior))

    def state(self):
        """[θ, the rows of A] as plain data, for `load`."""
        theta, a, _ = self._bank.read(self._place)
        return [theta.tolist(), a.tolist()]

    def load(self, theta, a):
        """Load an earlier `state`; `ValueError` if it is of another size."""
        if np.shape(theta) != (self.size,) or np.shape(a) != (self.size, self.size):
            raise ValueError(f"expected a state of size {self.size}, not {np.shape(theta)} and {np.shape(a)}")
        _, _, renewed = self._bank.read(self._place)
        self._write(np.array(theta, dtype=np.float64), np.array(a, dtype=np.float64), renewed)


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
        self._parts = np.zeros(size)

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
        v: cython.double
        m: cython.double
        h: cython.double
        step: cython.double
        w = min(w, HEAVIEST)
        for k in range(first, last + 1):
            self._parts[k] = self._kernel(k, x)
            self._curvature[k] -= self._forget * self._parts[k] * (self._curvature[k] - self._firm)
        v = (1.0 - share) * self._kernel(knot, x) / self._curvature[knot]
        v += share * self._kernel(knot + 1, x) / self._curvature[knot + 1]
        z += self.at(x)
        m = implicit(z, v * w, y)
        h = w * curvature(m)
        step = (m - z) / v
        for k in range(first, last + 1):
            self._curve[k] += self._parts[k] / self._curvature[k] * step
            self._curvature[k] += self._parts[k] * h

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
