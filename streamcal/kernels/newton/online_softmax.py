# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The online Newton step on the log loss of a softmax with a slope and an offset for each class.

Symbols, for an observation of J classes, x_j being the log-probability of class j:

    δ                 slope − 1 and offset of class k at the indices 2k and 2k + 1
    q                 the shares of exp(x_j + δ_2k x_j + δ_2k+1), k the class at j
    g                 (q_j − [j is the outcome]) (x_j, 1) at the indices of the classes of the observation, else 0
    m_k               relative weight of the outcomes of class k before this one; with a discount decayed like A
    A = L D Lᵀ        the curvature: L unit lower triangular, D diagonal; it starts at initial·I
    r                 the weight, relative to the running mean of all weights, in equal steps of at most 1
    A ← d·A + (1 − d)·initial·I + r g gᵀ,  δ ← Π_A(δ − r A⁻¹ g / γ)
    Π_A               the projection on the ball |δ| <= radius in the norm of A

With more than two classes, the slope's part of g at the outcome k is multiplied by 30 m_k³ / n, at least 0.1 and at
most 1, n being Σm and this outcome: the first outcomes of a rare class, which often come at a score of 0, are no reason
to flatten the class.

A class may be added at any time: its parameters are 0, and its part of A is initial·I.
"""

import cython
import numpy as np
from cython.cimports.libc.math import exp, sqrt
from cython.cimports.streamcal.kernels.common.weights import WeightScale, steps_of

RARE = cython.declare(cython.double, 30.0)
"""An outcome of class k moves its slope in full if m_k³ ≥ n/30: the second among 30, the sixth among 3,750."""
LEAST = cython.declare(cython.double, 0.1)
"""Of its part an outcome moves the slope at least: a class seen once, at score 0, then has less than 0.005 at 0.001."""
BISECTIONS = cython.declare(cython.int, 2200)
"""Steps of the search for the multiplier of a projection: a double has 2,098 binary places. It ends earlier if the
bracket contains no further double."""


@cython.cclass
class OnlineSoftmax:
    """δ and A of K classes, which may be added one by one (`classes` is their number), and the online Newton step.

    Parameters
    ----------
    gamma : float
        γ: the step is A⁻¹g/γ.
    initial : float
        A starts at initial·I.
    radius : float
        Of the ball in which δ is kept.
    discount : float
        d, above 0 and at most 1.

    Notes
    -----
    A step costs O(K²), with a discount O(K³); memory O(K²). A projection, which is rare, costs O(K³).

    References
    ----------
    Gupta and Ramdas, Online Platt scaling with calibeating, ICML 2023, algorithm 1, for two classes.
    """

    classes = cython.declare(cython.Py_ssize_t, visibility="readonly")
    weight = cython.declare(cython.double, visibility="readonly")
    gamma: cython.double
    initial: cython.double
    radius: cython.double
    discount: cython.double
    scale: WeightScale
    room: cython.Py_ssize_t  # number of parameters for which memory is allocated
    delta: cython.double[::1]
    d: cython.double[::1]
    l: cython.double[::1]  # row i of L starts at index i·room  # noqa: E741
    g: cython.double[::1]
    v: cython.double[::1]
    q: cython.double[::1]
    seen: cython.double[::1]  # m

    def __init__(self, gamma: cython.double, initial: cython.double, radius: cython.double, discount: cython.double):
        self.gamma = gamma
        self.initial = initial
        self.radius = radius
        self.discount = discount
        self.weight = 0.0
        self.scale = WeightScale()
        self.classes = 0
        self.room = 0
        self._make_room(8)

    def _make_room(self, room: cython.Py_ssize_t):
        """Reallocate memory for `room` parameters, and copy the content."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        old: cython.Py_ssize_t = self.room
        delta: cython.double[::1] = np.zeros(room).data
        seen: cython.double[::1] = np.zeros(room // 2).data
        d: cython.double[::1] = np.full(room, self.initial).data
        l: cython.double[::1] = np.zeros(room * room).data  # noqa: E741
        for i in range(self.classes):
            seen[i] = self.seen[i]
        for i in range(2 * self.classes):
            delta[i] = self.delta[i]
            d[i] = self.d[i]
            for j in range(i):
                l[i * room + j] = self.l[i * old + j]
        self.delta, self.d, self.l, self.seen, self.room = delta, d, l, seen, room
        self.g, self.v, self.q = np.zeros(room).data, np.zeros(room).data, np.zeros(room).data

    def add_class(self):
        """Add a class."""
        if 2 * self.classes + 2 > self.room:
            self._make_room(2 * self.room)
        self.classes += 1

    def step(self, places: list, x: list, came: cython.Py_ssize_t, w: cython.double):
        """Learn an observation of the classes `places`, of weight w, with outcome places[came]."""
        size: cython.Py_ssize_t = 2 * self.classes
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        if len(x) != len(places) or len(places) > self.classes or not 0 <= came < len(places):
            raise ValueError(f"{len(places)} classes of {self.classes}, {len(x)} scores and outcome {came}")
        for j in range(len(places)):
            k = places[j]
            if not 0 <= k < self.classes:
                raise ValueError(f"there is no class {k} of {self.classes}")
        relative: cython.double = self.scale.relative(w)
        steps: cython.Py_ssize_t = steps_of(relative)
        fresh: cython.double = (1.0 - self.discount) * self.initial
        self.weight = self.discount * self.weight + w
        if self.discount < 1.0:
            for k in range(self.classes):
                self.seen[k] = self.seen[k] * self.discount
            for i in range(size):
                self.d[i] = self.d[i] * self.discount
            for i in range(size):
                self._clear()
                self.v[i] = sqrt(fresh)
                self._add_outer(i)
        for _ in range(steps):
            self._step(places, x, came, relative / steps)

    @cython.cfunc
    def _step(self, places: list, x: list, came: cython.Py_ssize_t, w: cython.double):
        """Make a step of relative weight w."""
        size: cython.Py_ssize_t = 2 * self.classes
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        value: cython.double
        top: cython.double = -1e300
        total: cython.double = 0.0
        error: cython.double
        damping: cython.double = 1.0
        norm: cython.double = 0.0
        root: cython.double = sqrt(w)
        for j in range(len(places)):
            k = places[j]
            value = x[j]
            value = value + self.delta[2 * k] * value + self.delta[2 * k + 1]
            self.q[j] = value
            top = max(top, value)
        for j in range(len(places)):
            self.q[j] = exp(self.q[j] - top)
            total = total + self.q[j]
        for i in range(size):
            self.g[i] = 0.0
        for j in range(len(places)):
            k = places[j]
            error = root * (self.q[j] / total - (1.0 if j == came else 0.0))
            value = x[j]
            self.g[2 * k] = error * value
            self.g[2 * k + 1] = error
        self._weigh_slope(places[came], w)
        # With A before g gᵀ is added, (A + g gᵀ)⁻¹ g = A⁻¹g / (1 + gᵀA⁻¹g): of bounded length whatever the weight.
        for i in range(size):
            value = self.g[i]
            for j in range(i):
                value = value - self.l[i * self.room + j] * self.v[j]
            self.v[i] = value
            damping = damping + value * value / self.d[i]
        for i in range(size - 1, -1, -1):
            value = self.v[i] / self.d[i]
            for j in range(i + 1, size):
                value = value - self.l[j * self.room + i] * self.v[j]
            self.v[i] = value
        for i in range(size):
            self.delta[i] = self.delta[i] - root * self.v[i] / (self.gamma * damping)
            norm = norm + self.delta[i] * self.delta[i]
            self.v[i] = self.g[i]
        self._add_outer(0)
        if norm > self.radius * self.radius:
            self._project()

    @cython.cfunc
    @cython.exceptval(check=False)
    def _weigh_slope(self, k: cython.Py_ssize_t, w: cython.double) -> cython.void:
        """Reduce the slope's part of the gradient at the outcome k while k is rare, and count the outcome."""
        i: cython.Py_ssize_t
        before: cython.double = self.seen[k]
        total: cython.double = w
        for i in range(self.classes):
            total = total + self.seen[i]
        if self.classes > 2 and total > 0.0:
            self.g[2 * k] = self.g[2 * k] * min(1.0, max(LEAST, RARE * before * before * before / total))
        self.seen[k] = before + w

    @cython.cfunc
    @cython.exceptval(check=False)
    def _clear(self) -> cython.void:
        i: cython.Py_ssize_t
        for i in range(2 * self.classes):
            self.v[i] = 0.0

    @cython.cfunc
    @cython.exceptval(check=False)
    def _add_outer(self, first: cython.Py_ssize_t) -> cython.void:
        """Replace A by A + vvᵀ on the factors, v being 0 before `first`; v is overwritten. D only ever grows."""
        size: cython.Py_ssize_t = 2 * self.classes
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        share: cython.double = 1.0
        own: cython.double
        d: cython.double
        factor: cython.double
        for j in range(first, size):
            own = self.v[j]
            d = self.d[j] + share * own * own
            factor = share * own / d
            share = share * (self.d[j] / d)
            self.d[j] = d
            for i in range(j + 1, size):
                self.v[i] = self.v[i] - own * self.l[i * self.room + j]
                self.l[i * self.room + j] = self.l[i * self.room + j] + factor * self.v[i]

    def _project(self):
        """Set δ to the point of the ball nearest to it in the norm of A: (A + λI) δ' = A δ with |δ'| = radius.

        |δ'| falls as λ grows and is at most |A δ| / λ, so that λ is found by bisection on the eigenvalues of A.
        """
        size: cython.Py_ssize_t = 2 * self.classes
        lower = np.eye(size)
        for i in range(size):
            for j in range(i):
                lower[i, j] = self.l[i * self.room + j]
        values, vectors = np.linalg.eigh((lower * np.asarray(self.d)[:size]) @ lower.T)
        values = np.maximum(values, 0.0)  # rounding beside eigenvalues that are 1e120 times as large
        start = vectors.T @ np.asarray(self.delta)[:size]
        low, high = 0.0, float(np.linalg.norm(values * start)) / self.radius
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            if np.linalg.norm(values / (values + middle) * start) > self.radius:
                low = middle
            else:
                high = middle
        projected = vectors @ (values / (values + high) * start)
        for i in range(size):
            self.delta[i] = projected[i]

    def log_odds(self, places: list, x: list):
        """Return slope · x + offset of each of the classes `places`, a list; x itself where the place is None."""
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        value: cython.double
        log_odds: list = list(x)
        if len(x) != len(places):
            raise ValueError(f"{len(places)} classes and {len(x)} scores")
        for j in range(len(x)):
            if places[j] is not None:
                k, value = places[j], x[j]
                if not 0 <= k < self.classes:
                    raise ValueError(f"there is no class {k} of {self.classes}")
                log_odds[j] = (1.0 + self.delta[2 * k]) * value + self.delta[2 * k + 1]
        return log_odds

    def parameters(self):
        """Return [slope, offset] of each class."""
        return [[1.0 + self.delta[2 * k], self.delta[2 * k + 1]] for k in range(self.classes)]

    def state(self):
        """Return (δ, D, rows of L below the diagonal, m, weight, state of the weight scale), for `load`."""
        size = 2 * self.classes
        rows = [[self.l[i * self.room + j] for j in range(i)] for i in range(size)]
        return (
            [self.delta[i] for i in range(size)],
            [self.d[i] for i in range(size)],
            rows,
            [self.seen[k] for k in range(self.classes)],
            self.weight,
            self.scale.state(),
        )

    def load(self, delta: list, d: list, rows: list, seen: list, weight: cython.double, scale: object):
        """Load an earlier `state`; `ValueError` if its parts do not go together."""
        size = len(delta)
        if size % 2 or len(d) != size or 2 * len(seen) != size or [len(row) for row in rows] != list(range(size)):
            raise ValueError(
                f"{size} parameters do not go with {len(d)} curvatures, {len(rows)} rows and {len(seen)} counts"
            )
        self.classes = 0
        for _ in range(len(delta) // 2):
            self.add_class()
        for i in range(len(seen)):
            self.seen[i] = seen[i]
        for i in range(len(delta)):
            self.delta[i], self.d[i] = delta[i], d[i]
            for j in range(i):
                self.l[i * self.room + j] = rows[i][j]
        self.weight = weight
        self.scale.load(*scale)
