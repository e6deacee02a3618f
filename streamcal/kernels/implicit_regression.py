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

# The rows of the numbers of steps: z, v, c = v·w, m; σ(m); the bracket of m; the length of the last Newton step.
Z = cython.declare(cython.Py_ssize_t, 0)
V = cython.declare(cython.Py_ssize_t, 1)
C = cython.declare(cython.Py_ssize_t, 2)
M = cython.declare(cython.Py_ssize_t, 3)
P = cython.declare(cython.Py_ssize_t, 4)
LOW = cython.declare(cython.Py_ssize_t, 5)
HIGH = cython.declare(cython.Py_ssize_t, 6)
LAST = cython.declare(cython.Py_ssize_t, 7)

# What is known of a group of regressions, see `RegressionBank`.
START = cython.declare(cython.Py_ssize_t, 0)
AT = cython.declare(cython.Py_ssize_t, 1)
SIZE = cython.declare(cython.Py_ssize_t, 2)
LANES = cython.declare(cython.Py_ssize_t, 3)
WIDTH = cython.declare(cython.Py_ssize_t, 4)
FEATURES = cython.declare(cython.Py_ssize_t, 5)
TRENDS = cython.declare(cython.Py_ssize_t, 6)
LANE = cython.declare(cython.Py_ssize_t, 7)  # the column of the first lane among the numbers of steps


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
@cython.nogil
@cython.exceptval(check=False)
def _begin_steps(work: cython.double[:, ::1], y: cython.double) -> cython.void:
    """Set the brackets of the roots m = z + c·(y − σ(m)) for the z and c in `work`, and m to z."""
    i: cython.Py_ssize_t
    p: cython.double
    for i in range(work.shape[1]):
        work[M, i] = work[Z, i]
        p = work[P, i] = sigmoid(work[Z, i])
        work[LOW, i] = work[Z, i] if y > 0.0 else work[Z, i] - work[C, i] * p
        work[HIGH, i] = work[Z, i] + work[C, i] * (1.0 - p) if y > 0.0 else work[Z, i]
        work[LAST, i] = 2.0 * (work[HIGH, i] - work[LOW, i])


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _take_steps(work: cython.double[:, ::1], y: cython.double) -> cython.void:
    """Set M in `work` to the m with m = z + c·(y − σ(m)) for every Z and C there: implicit steps, without overshooting.

    One Newton step of each in turn, since the processor overlaps what does not depend on one another. LAST is −1 for a
    root that is found.
    """
    i: cython.Py_ssize_t
    p: cython.double
    excess: cython.double
    step: cython.double
    left: cython.double  # a bound on the distance from the root
    unfinished: cython.Py_ssize_t
    _begin_steps(work, y)
    for _ in range(STEPS):
        unfinished = 0
        for i in range(work.shape[1]):
            if work[LAST, i] < 0.0:
                continue
            p = work[P, i]
            excess = work[M, i] - work[Z, i] - work[C, i] * (y - p)
            work[HIGH if excess > 0.0 else LOW, i] = work[M, i]
            step = -excess / (1.0 + work[C, i] * p * (1.0 - p))
            left = CURVED * work[C, i] * step * step  # by Taylor: the derivative is at least 1
            if not work[LOW, i] <= work[M, i] + step <= work[HIGH, i] or abs(step) > 0.5 * work[LAST, i]:
                step = 0.5 * (work[LOW, i] + work[HIGH, i]) - work[M, i]
                left = abs(step)
            work[M, i] += step
            work[LAST, i] = abs(step)
            if left <= ROUNDING * max(1.0, abs(work[M, i])):
                work[LAST, i] = -1.0
            else:
                work[P, i] = sigmoid(work[M, i])
                unfinished += 1
        if unfinished == 0:
            break


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _variance(z: cython.double) -> cython.double:
    """σ(z)(1 − σ(z))."""
    e: cython.double = exp(-abs(z))
    return e / ((1.0 + e) * (1.0 + e))


# Arrays are passed to these functions rather than read from fields: the compiler then knows that they do not move.


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _decay_row(
    row: cython.p_double,
    a: cython.double[::1],
    root: cython.const[cython.double][::1],
    renewed: cython.const[cython.double][::1],
    i: cython.Py_ssize_t,
    group: cython.const[cython.Py_ssize_t][::1],
) -> cython.void:
    """A ← ΛAΛ + SA₀S in row i from the diagonal on, and from the third place on in `row`."""
    j: cython.Py_ssize_t
    start: cython.Py_ssize_t = group[START]
    first: cython.Py_ssize_t = i * group[LANES]
    at: cython.Py_ssize_t = group[AT] + i * group[WIDTH]
    one: cython.double = root[start + first]
    two: cython.double = root[start + first + group[LANES] - 1]
    for j in range(first - first % 2, group[WIDTH], 2):
        row[j + 2] = one * root[start + j] * a[at + j] + renewed[at + j]
        row[j + 3] = two * root[start + j + 1] * a[at + j + 1] + renewed[at + j + 1]
        a[at + j], a[at + j + 1] = row[j + 2], row[j + 3]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _move(
    theta: cython.double[::1],
    a: cython.double[::1],
    root: cython.const[cython.double][::1],
    renewed: cython.const[cython.double][::1],
    group: cython.const[cython.Py_ssize_t][::1],
    pace: cython.double,
) -> cython.void:
    """A ← ΛAΛ + SA₀S; and move the first coordinates by their velocities, after d others, and A with them."""
    row = cython.declare(cython.double[132])
    start: cython.Py_ssize_t = group[START]
    at: cython.Py_ssize_t = group[AT]
    lanes: cython.Py_ssize_t = group[LANES]
    width: cython.Py_ssize_t = group[WIDTH]
    d: cython.Py_ssize_t = group[FEATURES]
    trends: cython.Py_ssize_t = group[TRENDS]
    lane: cython.Py_ssize_t
    j: cython.Py_ssize_t
    k: cython.Py_ssize_t
    to: cython.Py_ssize_t  # the columns of the velocities
    for k in range(d + trends):
        _decay_row(row, a, root, renewed, k, group)
    for lane in range(lanes):
        to = at + d * lanes + lane
        for k in range(trends):
            theta[start + k * lanes + lane] += pace * theta[start + (d + k) * lanes + lane]
        for k in range(trends):
            for j in range(k, trends):
                a[to + (d + k) * width + j * lanes] -= pace * a[to + j * width + k * lanes]
        for k in range(trends):
            for j in range(d):
                a[to + j * width + k * lanes] -= pace * a[at + min(j, k) * width + max(j, k) * lanes + lane]
        for k in range(trends):
            for j in range(k, trends):
                a[to + (d + k) * width + j * lanes] -= pace * a[to + k * width + j * lanes]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _take_four(
    row: cython.p_double,
    l: cython.const[cython.double][::1],  # noqa: E741
    r0: cython.Py_ssize_t,
    x: cython.Py_ssize_t,
    y: cython.Py_ssize_t,
    begin: cython.Py_ssize_t,
    size: cython.Py_ssize_t,
) -> cython.void:
    """Subtract from a row what four rows before it give, which begin at `r0` in `l`; x and y are its diagonals."""
    j: cython.Py_ssize_t
    r1: cython.Py_ssize_t = r0 + size
    r2: cython.Py_ssize_t = r1 + size
    r3: cython.Py_ssize_t = r2 + size
    p0: cython.double = l[r0 + x] * l[r0]
    p1: cython.double = l[r1 + x] * l[r1]
    p2: cython.double = l[r2 + x] * l[r2]
    p3: cython.double = l[r3 + x] * l[r3]
    q0: cython.double = l[r0 + y] * l[r0 + 1]
    q1: cython.double = l[r1 + y] * l[r1 + 1]
    q2: cython.double = l[r2 + y] * l[r2 + 1]
    q3: cython.double = l[r3 + y] * l[r3 + 1]
    for j in range(begin, size, 2):
        row[j] = row[j] - p0 * l[r0 + j] - p1 * l[r1 + j] - p2 * l[r2 + j] - p3 * l[r3 + j]
        row[j + 1] = row[j + 1] - q0 * l[r0 + j + 1] - q1 * l[r1 + j + 1] - q2 * l[r2 + j + 1] - q3 * l[r3 + j + 1]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _solve(
    a: cython.double[::1],
    g: cython.double[::1],
    l: cython.double[::1],  # noqa: E741
    root: cython.const[cython.double][::1],
    renewed: cython.const[cython.double][::1],
    group: cython.const[cython.Py_ssize_t][::1],
) -> cython.void:
    """A ← ΛAΛ + SA₀S, unless `_move` did that, and g ← A⁻¹g by A = L D Lᵀ, of one or two lanes. O(n³/6).

    The rows of D Lᵀ are stored in `l`, each between its 1/D and what L⁻¹g is there. Each takes what the rows before it
    give, four at a time. Numbers are computed in pairs, which one instruction of the processor does: those of two
    lanes, or of two columns of one lane.
    """
    i: cython.Py_ssize_t
    j: cython.Py_ssize_t
    k: cython.Py_ssize_t
    x: cython.Py_ssize_t  # the places of the diagonal in both lanes
    y: cython.Py_ssize_t
    begin: cython.Py_ssize_t
    r0: cython.Py_ssize_t  # where a row of `l` begins
    p0: cython.double
    q0: cython.double
    row = cython.declare(cython.double[132])  # 2 `LARGEST_SIZE`, and what stands beside it
    start: cython.Py_ssize_t = group[START]
    at: cython.Py_ssize_t = group[AT]
    lanes: cython.Py_ssize_t = group[LANES]
    width: cython.Py_ssize_t = group[WIDTH]
    size: cython.Py_ssize_t = width + 4
    for i in range(group[SIZE]):
        x, y = i * lanes + 2, i * lanes + lanes + 1
        begin = x - x % 2
        if group[TRENDS] == 0:
            _decay_row(row, a, root, renewed, i, group)
        else:
            for j in range(begin, width + 2):
                row[j] = a[at + i * width + j - 2]
        row[width + 2], row[width + 3] = g[start + x - 2], g[start + y - 2]
        for k in range(0, i - 3, 4):
            _take_four(row, l, k * size, x, y, begin, size)
        for k in range(i - i % 4, i):
            r0 = k * size
            p0, q0 = l[r0 + x] * l[r0], l[r0 + y] * l[r0 + 1]
            for j in range(begin, size, 2):
                row[j] -= p0 * l[r0 + j]
                row[j + 1] -= q0 * l[r0 + j + 1]
        row[x] = max(row[x], PIVOT * a[at + i * width + x - 2])
        row[y] = max(row[y], PIVOT * a[at + i * width + y - 2])
        r0 = i * size
        l[r0], l[r0 + 1] = 1.0 / row[x], 1.0 / row[y]
        for j in range(begin, size):
            l[r0 + j] = row[j]
    for i in range(group[SIZE] - 1, -1, -1):
        r0, begin = i * size, i * lanes + lanes
        p0, q0 = l[r0 + width + 2], l[r0 + width + 3]
        if begin % 2 == 1:  # of one lane
            p0 -= l[r0 + 2 + begin] * g[start + begin]
            begin += 1
        row[0] = row[1] = 0.0
        for j in range(begin, width, 2):
            row[0] += l[r0 + 2 + j] * g[start + j]
            row[1] += l[r0 + 3 + j] * g[start + j + 1]
        if lanes == 1:
            g[start + i] = (p0 - (row[0] + row[1])) * l[r0]
        else:
            g[start + 2 * i], g[start + 2 * i + 1] = (p0 - row[0]) * l[r0], (q0 - row[1]) * l[r0 + 1]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _finish(
    theta: cython.double[::1],
    a: cython.double[::1],
    f: cython.const[cython.double][::1],
    g: cython.const[cython.double][::1],
    work: cython.const[cython.double][:, ::1],
    w: cython.double,
    group: cython.const[cython.Py_ssize_t][::1],
) -> cython.void:
    """θ ← θ + g·(m − z)/v and A ← A + w·σ(m)(1 − σ(m))·φφᵀ, of one or two lanes."""
    j: cython.Py_ssize_t
    k: cython.Py_ssize_t
    start: cython.Py_ssize_t = group[START]
    row: cython.Py_ssize_t = group[AT]
    lanes: cython.Py_ssize_t = group[LANES]
    width: cython.Py_ssize_t = group[WIDTH]
    i: cython.Py_ssize_t = group[LANE]
    last: cython.Py_ssize_t = i + lanes - 1
    step: cython.double = (work[M, i] - work[Z, i]) / work[V, i] if work[V, i] > 0.0 else 0.0
    other_step: cython.double = (work[M, last] - work[Z, last]) / work[V, last] if work[V, last] > 0.0 else 0.0
    h: cython.double = w * _variance(work[M, i])
    other_h: cython.double = w * _variance(work[M, last])
    one: cython.double
    two: cython.double
    for k in range(start, start + width, 2):
        theta[k] += g[k] * step
        theta[k + 1] += g[k + 1] * other_step
    for j in range(group[FEATURES]):
        one, two = h * f[start + j * lanes], other_h * f[start + j * lanes + lanes - 1]
        for k in range(j * lanes - j * lanes % 2, width, 2):
            a[row + k] += one * f[start + k]
            a[row + k + 1] += two * f[start + k + 1]
        row += width


@cython.final
@cython.cclass
class RegressionBank:
    """Online logistic regressions with forgetting that take their steps together.

    Two of one size are lanes of one group: their numbers alternate, so that one instruction computes both. Entry (j, k)
    of A is at AT + j·WIDTH + k·LANES + lane of its group, and entry k of a vector at START + k·LANES + lane. Rows of an
    odd number of entries end with a 0. A being symmetric, steps change only its diagonal and what is to its right.

    Parameters
    ----------
    regressions : sequence of ForgettingRegression
        They are moved into this bank with what they have learned, and from now on read from it.
    """

    def __init__(self, regressions):
        alike = {}
        for place, regression in enumerate(regressions):
            alike.setdefault(regression.shape, []).append(place)
        pairs = [(shape, places[i : i + 2]) for shape, places in alike.items() for i in range(0, len(places), 2)]
        groups, members, start, at = [], [], 0, 0
        for (size, features, trends, _), places in pairs:
            lanes = len(places)
            width = size * lanes + size * lanes % 2
            groups.append((start, at, size, lanes, width, features, trends, len(members)))
            members += places
            start, at = start + width, at + size * width
        self._groups = np.array(groups, dtype=np.intp).reshape(-1, 8)
        self._paces = np.array([pace for (_, _, _, pace), _ in pairs])
        self._members = np.array(members, dtype=np.intp)
        self.size = len(members)
        self._places = np.full(start, -1, dtype=np.intp)
        self._theta, self._root, self._f, self._g = np.zeros((4, start))
        self._a, self._renewed = np.zeros((2, at))
        self._l = np.zeros(max((size * (width + 4) for _, _, size, _, width, *_ in groups), default=0))
        self._work = np.zeros((8, len(members)))
        self._moved = False  # whether a step was taken
        for group, (_, places) in enumerate(pairs):
            for lane, place in enumerate(places):
                regressions[place].move_to(self, group, lane)

    def read(self, group, lane):
        """(θ, A, SA₀S) of a regression, copied."""
        vector, matrix, _ = self._entries(group, lane)
        a = np.asarray(self._a)[matrix]
        if self._moved:  # only the diagonal and what is to its right
            a = np.triu(a) + np.triu(a, 1).T
        return np.asarray(self._theta)[vector], a, np.asarray(self._renewed)[matrix]

    def write(self, group, lane, places, root, theta, a, renewed):
        """Replace the numbers of a regression; `places` are those of its features among those shown, `root` √λ."""
        vector, matrix, features = self._entries(group, lane)
        np.asarray(self._theta)[vector] = theta
        np.asarray(self._places)[vector[:features]] = places
        np.asarray(self._a)[matrix] = a
        np.asarray(self._root)[vector] = root
        np.asarray(self._renewed)[matrix] = renewed

    def _entries(self, group, lane):
        """Where the entries of θ of a regression are, and those of A, shape (size, size); its number of features."""
        start, at, size, lanes, width, features, _, _ = np.asarray(self._groups)[group].tolist()
        k = np.arange(size)
        matrix = at + np.add.outer(k * width, k * lanes) + lane
        return start + k * lanes + lane, matrix, features

    def predict_one(self, group, lane, phi, ahead):
        """θ·φ of a regression, with θ extrapolated by its velocities for `ahead` steps."""
        k: cython.Py_ssize_t
        lanes: cython.Py_ssize_t = self._groups[group, LANES]
        at: cython.Py_ssize_t = self._groups[group, START] + lane
        features: cython.Py_ssize_t = self._groups[group, FEATURES]
        pace: cython.double = ahead * self._paces[group]
        z: cython.double = 0.0
        for k in range(features):
            z += self._theta[at + k * lanes] * phi[self._places[at + k * lanes]]
        for k in range(self._groups[group, TRENDS]):
            z += pace * self._theta[at + (features + k) * lanes] * phi[self._places[at + k * lanes]]
        return z

    def predict(self, phi, ahead, places, out):
        """Write what each of the regressions predicts, clamped, to its place in `out`."""
        group: cython.Py_ssize_t
        lane: cython.Py_ssize_t
        first: cython.Py_ssize_t
        for group in range(self._groups.shape[0]):
            first = self._groups[group, LANE]
            for lane in range(self._groups[group, LANES]):
                out[places[self._members[first + lane]]] = clamped(self.predict_one(group, lane, phi, ahead))

    def learn(self, phi, y, w):
        """One step of each on the label y at these features, of weight w."""
        group: cython.Py_ssize_t
        k: cython.Py_ssize_t
        w = min(w, HEAVIEST)
        for k in range(self._f.shape[0]):
            self._f[k] = self._g[k] = phi[self._places[k]] if self._places[k] >= 0 else 0.0
        self._moved = True
        for group in range(self._groups.shape[0]):
            self._prepare(group, w)
        _take_steps(self._work, y)
        for group in range(self._groups.shape[0]):
            _finish(self._theta, self._a, self._f, self._g, self._work, w, self._groups[group])

    def _prepare(self, group, w):
        """Move a group by its velocities, set g to A⁻¹φ, and z, v and c of the step in `_work`."""
        k: cython.Py_ssize_t
        at: cython.Py_ssize_t
        lane: cython.Py_ssize_t
        lanes: cython.Py_ssize_t = self._groups[group, LANES]
        z: cython.double
        v: cython.double
        if self._groups[group, TRENDS] > 0:
            _move(self._theta, self._a, self._root, self._renewed, self._groups[group], self._paces[group])
        _solve(self._a, self._g, self._l, self._root, self._renewed, self._groups[group])
        for lane in range(lanes):
            z = v = 0.0
            for k in range(self._groups[group, FEATURES]):
                at = self._groups[group, START] + k * lanes + lane
                z += self._theta[at] * self._f[at]
                v += self._f[at] * self._g[at]
            v = max(v, 0.0)  # 0 only if every feature is 0
            k = self._groups[group, LANE] + lane
            self._work[Z, k], self._work[V, k], self._work[C, k] = z, v, v * w


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

    def move_to(self, bank: RegressionBank, group: cython.Py_ssize_t, lane: cython.Py_ssize_t):
        """Keep its numbers there, for `RegressionBank`."""
        numbers = self._numbers if self._bank is None else self._bank.read(self._group, self._lane)
        self._bank, self._group, self._lane, self._numbers = bank, group, lane, None
        self._write(*numbers)

    def _write(self, *numbers):
        self._bank.write(self._group, self._lane, self._places, self._root, *numbers)

    def _prior(self, prior):
        """A and SA₀S, where A₀ is `prior`."""
        fade = np.sqrt(1.0 - np.square(self._root))
        return prior, prior * np.outer(fade, fade)

    def predict(self, phi, ahead):
        """θ·φ, with θ extrapolated by its velocities for `ahead` steps."""
        return self._bank.predict_one(self._group, self._lane, phi, ahead)

    def learn(self, phi, y, w):
        """One step on the label y at these features, of weight w; `ValueError` if it takes its steps with others."""
        if self._bank.size != 1:
            raise ValueError(f"this regression learns with {self._bank.size - 1} others")
        self._bank.learn(phi, y, w)

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
        self._write(self._bank.read(self._group, self._lane)[0], *self._prior(prior))

    def state(self):
        """[θ, the rows of A] as plain data, for `load`."""
        theta, a, _ = self._bank.read(self._group, self._lane)
        return [theta.tolist(), a.tolist()]

    def load(self, theta, a):
        """Load an earlier `state`; `ValueError` if it is of another size."""
        if np.shape(theta) != (self.size,) or np.shape(a) != (self.size, self.size):
            raise ValueError(f"expected a state of size {self.size}, not {np.shape(theta)} and {np.shape(a)}")
        _, _, renewed = self._bank.read(self._group, self._lane)
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
        z += self.at(x)
        w = min(w, HEAVIEST)
        for k in range(first, last + 1):
            self._parts[k] = self._kernel(k, x)
            self._curvature[k] -= self._forget * self._parts[k] * (self._curvature[k] - self._firm)
        v = (1.0 - share) * self._kernel(knot, x) / self._curvature[knot]
        v += share * self._kernel(knot + 1, x) / self._curvature[knot + 1]
        m = implicit(z, v * w, y)
        h = w * _variance(m)
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
