# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Bernstein polynomials and the sufficient statistic of their least-squares problem.

Symbols, after paper 001 ("A Bernstein SkLearn model calibrator"):

    n        degree; u in [0, 1] the scaled score; v = 1 - u
    B_i^n    C(n, i) uⁱ vⁿ⁻ⁱ, the Bernstein basis, i = 0..n
    V        the matrix with a row B^n(u) for every observation;  VᵀV and Vᵀy determine the fit
    moments  Σ w B_k^{2n}(u), k = 0..2n.  They determine VᵀWV, because
             B_i^n B_j^n = C(n, i) C(n, j) / C(2n, i+j) · B_{i+j}^{2n}
    cross    Σ w y B_i^n(u), i = 0..n

All terms of the basis are products of powers without subtraction, so each is accurate to about 2n rounding errors
at every u, also at 0, 1 and 1e-300; there is no division by u or v, and only terms below 1e-300 underflow.
"""

from math import comb

import cython
import numpy as np
from cython.cimports.streamcal.kernels.common.compensated import add_terms, settle

from streamcal.kernels.common.compensated import add_arrays

MAX_DEGREE = 50
"""Largest degree. The condition number of VᵀV is then 2e29; no fit in double precision is meaningful beyond."""

_ROWS = 2 * MAX_DEGREE + 1


def _pascal():
    """C(m, k) by rows, exact integers rounded once. Floats, since division of C integers would truncate."""
    table = np.zeros((_ROWS, _ROWS))
    for m in range(_ROWS):
        table[m, : m + 1] = [comb(m, k) for k in range(m + 1)]
    return table


_BINOMIAL = cython.declare(cython.double[:, ::1], _pascal().data)


def binomials(n):
    """C(n, 0..n) as an array of floats, each the integer rounded once; 0 <= n <= 2 MAX_DEGREE."""
    if not 0 <= n < _ROWS:
        raise ValueError(f"degree must lie in 0..{_ROWS - 1}, got {n}")
    return np.array(_BINOMIAL)[n, : n + 1].copy()


@cython.ccall
def basis(n: cython.Py_ssize_t, u: cython.double, out: cython.double[::1]):
    """Write B_0^n(u) .. B_n^n(u) into `out` (length n + 1 or more). O(n)."""
    if not 0 <= n < _ROWS or out.shape[0] <= n:
        raise ValueError(f"degree {n} must lie in 0..{_ROWS - 1} and fit into `out`, which has {out.shape[0]}")
    write_basis(n, u, out)


def write_basis(n: cython.Py_ssize_t, u: cython.double, out: cython.double[::1]) -> cython.void:
    """Write `basis`, unchecked."""
    k: cython.Py_ssize_t
    power: cython.double = 1.0
    v: cython.double = 1.0 - u
    for k in range(n + 1):
        out[k] = _BINOMIAL[n, k] * power
        power = power * u
    power = 1.0
    for k in range(n, -1, -1):
        out[k] = out[k] * power
        power = power * v


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _evaluate(c: cython.const[cython.double][::1], n: cython.Py_ssize_t, u: cython.double) -> cython.double:
    """Use Horner's rule in the smaller of u/v and v/u, and measure the value from the nearer end of the curve.

    So p(0) = c_0 and p(1) = c_n exactly, a constant curve is exactly constant, and all terms have one sign.
    """
    k: cython.Py_ssize_t
    value: cython.double
    ratio: cython.double
    power: cython.double = 1.0
    v: cython.double = 1.0 - u
    if u <= 0.5:
        ratio = u / v
        value = c[n] - c[0]
        for k in range(n - 1, -1, -1):
            value = value * ratio + _BINOMIAL[n, k] * (c[k] - c[0])
            power = power * v
        value = c[0] + value * power
        return value if value <= c[n] else c[n]
    ratio = v / u
    value = c[n] - c[0]
    for k in range(1, n + 1):
        value = value * ratio + _BINOMIAL[n, k] * (c[n] - c[k])
        power = power * u
    value = c[n] - value * power
    return value if value >= c[0] else c[0]


@cython.ccall
def evaluate(coefficients: cython.const[cython.double][::1], u: cython.double) -> cython.double:
    """Value at u in [0, 1] of the polynomial with these nondecreasing Bernstein coefficients. O(n).

    The value lies in [c_0, c_n]; its error is a few times n ulps of c_n - c_0. The values at two scores that are
    closer than that may be in either order.
    """
    n: cython.Py_ssize_t = coefficients.shape[0] - 1
    if not 0 <= n < _ROWS:
        raise ValueError(f"expected 1 to {_ROWS} coefficients, got {n + 1}")
    return _evaluate(coefficients, n, u)


def evaluate_many(coefficients: cython.const[cython.double][::1], u: cython.const[cython.double][::1]):
    """Return `evaluate` at every entry of the array u, as a new array."""
    n: cython.Py_ssize_t = coefficients.shape[0] - 1
    i: cython.Py_ssize_t
    if not 0 <= n < _ROWS:
        raise ValueError(f"expected 1 to {_ROWS} coefficients, got {n + 1}")
    result = np.empty(u.shape[0])
    out: cython.double[::1] = result.data
    for i in range(u.shape[0]):
        out[i] = _evaluate(coefficients, n, u[i])
    return result


class Curve:
    """The polynomial over [lo, hi] with the Bernstein coefficients in an array, clipped to [0, 1].

    The array is read at every evaluation, so that the curve follows a solver that writes its solutions to the array.
    """

    def __init__(
        self, coefficients: cython.const[cython.double][::1], lo: cython.double = 0.0, hi: cython.double = 1.0
    ):
        if not 0 < coefficients.shape[0] <= _ROWS:
            raise ValueError(f"expected 1 to {_ROWS} coefficients, got {coefficients.shape[0]}")
        self._coefficients = coefficients
        self._lo, self._width = lo, hi - lo

    def at(self, x: cython.double) -> cython.double:
        """Return the value at x, lo <= x <= hi. O(n)."""
        n: cython.Py_ssize_t = self._coefficients.shape[0] - 1
        return min(max(_evaluate(self._coefficients, n, (x - self._lo) / self._width), 0.0), 1.0)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _fill_powers(
    rising: cython.double[::1], falling: cython.double[::1], m: cython.Py_ssize_t, u: cython.double
) -> cython.void:
    """Set rising[k] = uᵏ and falling[k] = (1 − u)ᵐ⁻ᵏ, k = 0..m: two recurrences, kept out of later loops."""
    k: cython.Py_ssize_t
    up: cython.double = 1.0
    down: cython.double = 1.0
    v: cython.double = 1.0 - u
    for k in range(m + 1):
        rising[k] = up
        falling[m - k] = down
        up = up * u
        down = down * v


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _fill_terms(
    terms: cython.double[::1],
    w: cython.double,
    binomial: cython.double[:, ::1],
    m: cython.Py_ssize_t,
    rising: cython.double[::1],
    falling: cython.double[::1],
    shift: cython.Py_ssize_t,
) -> cython.void:
    """Set terms[k] = w B_k^m, k = 0..m; `falling` has powers that are higher by `shift` than needed."""
    k: cython.Py_ssize_t
    for k in range(m + 1):
        terms[k] = w * (binomial[m, k] * rising[k] * falling[shift + k])


class BernsteinSums:
    """The sufficient statistic of Bernstein least squares: 2n+1 moments, n+1 cross sums, two weights and a count.

    `moments` and `cross` are the live arrays, which are never replaced: they may be read and passed to a solver, but
    not written to. `positive` is both Σ w y and Σ w y², since y is 0 or 1. `peak` is the largest weight held since the
    sums were 0; rounding errors are relative to it. An update is O(n). `lo` and `hi` are the coordinates of u = 0 and
    u = 1 for `update_one`.

    Every sum is kept in two parts (`kernels.common.compensated`), `low` being the second ones, so that a retraction
    leaves no more than 2^−100 of `peak` behind. Adding alone reads and changes the first parts as plain sums would be.
    Fields and C signatures are in `bernstein.pxd`.
    """

    def __init__(self, degree: cython.Py_ssize_t, lo: cython.double = 0.0, hi: cython.double = 1.0):
        if not 1 <= degree <= MAX_DEGREE:
            raise ValueError(f"degree must lie in 1..{MAX_DEGREE}, got {degree}")
        self.degree, self.lo, self.hi = degree, lo, hi
        self.moments = np.zeros(2 * degree + 1)
        self.cross = np.zeros(degree + 1)
        self._moments = self.moments.data
        self._cross = self.cross.data
        self._totals = np.zeros(2).data
        self._moments_low, self._cross_low = np.zeros(2 * degree + 1).data, np.zeros(degree + 1).data
        self._totals_low = np.zeros(2).data
        self._terms = np.empty(2 * degree + 1).data
        self._rising = np.empty(2 * degree + 1).data
        self._falling = np.empty(2 * degree + 1).data
        self.weight = self.positive = self.peak = 0.0
        self.count = 0

    def _add(self, u: cython.double, w: cython.double, positive: cython.double, count: cython.longlong) -> cython.void:
        n: cython.Py_ssize_t = self.degree
        _fill_powers(self._rising, self._falling, 2 * n, u)
        _fill_terms(self._terms, w, _BINOMIAL, 2 * n, self._rising, self._falling, 0)
        add_terms(self._moments, self._moments_low, self._terms, 2 * n + 1)
        if positive != 0.0:
            _fill_terms(self._terms, positive, _BINOMIAL, n, self._rising, self._falling, n)
            add_terms(self._cross, self._cross_low, self._terms, n + 1)
        self._terms[0], self._terms[1] = w, positive
        add_terms(self._totals, self._totals_low, self._terms, 2)
        self.weight, self.positive = self._totals[0], self._totals[1]
        self.peak = max(self.peak, self.weight)
        self.count += count

    def update_one(self, x: cython.double, y: cython.double, w: cython.double) -> cython.void:
        """Add an observation at the coordinate x with the label y and the weight w."""
        self._add((x - self.lo) / (self.hi - self.lo), w, w * y, 1)

    def update(self, u: cython.double, w: cython.double, positive: cython.double) -> cython.void:
        """Add weight w at u, `positive` of it (0 <= positive <= w) with label 1."""
        self._add(u, w, positive, 1)

    def unlearn(self, u: cython.double, w: cython.double, positive: cython.double) -> cython.void:
        """Remove an earlier `update` with the same arguments, up to rounding; without observations all sums are 0."""
        if self.count == 1:
            with cython.gil:
                self.reset()
        else:
            self._add(u, -w, -positive, -1)
            self._settle()

    def _settle(self) -> cython.void:
        """Round both parts of every sum to the first."""
        settle(self._moments, self._moments_low)
        settle(self._cross, self._cross_low)
        settle(self._totals, self._totals_low)
        self.weight, self.positive = self._totals[0], self._totals[1]

    @property
    def low(self):
        """What the sums have dropped in rounding, copied: for moments, cross sums, and weight and positive weight."""
        return np.array(self._moments_low), np.array(self._cross_low), np.array(self._totals_low)

    def update_many(
        self,
        u: cython.const[cython.double][::1],
        w: cython.const[cython.double][:],
        positive: cython.const[cython.double][::1],
    ):
        """Do `update` for every row of three arrays of one length, in order: bit for bit the result of the loop."""
        i: cython.Py_ssize_t
        if not u.shape[0] == w.shape[0] == positive.shape[0]:
            raise ValueError(f"lengths differ: {u.shape[0]}, {w.shape[0]}, {positive.shape[0]}")
        for i in range(u.shape[0]):
            self._add(u[i], w[i], positive[i], 1)

    def merge(self, other):
        """Add the sums of another of the same degree."""
        if other.degree != self.degree:
            raise ValueError(f"degrees differ: {self.degree} and {other.degree}")
        moments_low, cross_low, totals_low = other.low
        add_arrays(self._moments, self._moments_low, other.moments, moments_low)
        add_arrays(self._cross, self._cross_low, other.cross, cross_low)
        add_arrays(self._totals, self._totals_low, np.array([other.weight, other.positive]), totals_low)
        self.weight, self.positive = self._totals[0], self._totals[1]
        self.count += other.count
        self.peak = max(self.peak, other.peak, self.weight)

    def multiply(self, factor: cython.double):
        """Multiply all sums by a factor > 0: decay, or a change of the unit of weight."""
        k: cython.Py_ssize_t
        for k in range(self._moments.shape[0]):
            self._moments[k] *= factor
            self._moments_low[k] *= factor
        for k in range(self._cross.shape[0]):
            self._cross[k] *= factor
            self._cross_low[k] *= factor
        for k in range(2):
            self._totals[k] *= factor
            self._totals_low[k] *= factor
        self.weight, self.positive = self._totals[0], self._totals[1]
        self.peak = self.peak * factor

    def reset(self):
        """Set all sums to 0."""
        self.load(np.zeros(2 * self.degree + 1), np.zeros(self.degree + 1), 0.0, 0.0, 0, 0.0)

    def state(self):
        """Return copies of (moments, cross, weight, positive, count, peak) for `load`, which also takes `low`."""
        return self.moments.copy(), self.cross.copy(), self.weight, self.positive, self.count, self.peak

    def load(
        self,
        moments,
        cross,
        weight: cython.double,
        positive: cython.double,
        count: cython.longlong,
        peak: cython.double,
        low=None,
    ):
        """Replace the sums by those of an earlier `state`, and what they have dropped by `low`, or by 0."""
        moments = np.asarray(moments, dtype=np.float64)
        cross = np.asarray(cross, dtype=np.float64)
        if moments.shape != (2 * self.degree + 1,) or cross.shape != (self.degree + 1,):
            raise ValueError(
                f"degree {self.degree} needs {2 * self.degree + 1} moments and {self.degree + 1} cross sums,"
                f" got shapes {moments.shape} and {cross.shape}"
            )
        low = (np.zeros(moments.size), np.zeros(cross.size), np.zeros(2)) if low is None else low
        low = [np.asarray(part, dtype=np.float64) for part in low]
        if [part.shape for part in low] != [moments.shape, cross.shape, (2,)]:
            raise ValueError(f"what was dropped has the shapes {[part.shape for part in low]}, unlike the sums")
        self.moments[:] = moments
        self.cross[:] = cross
        self.weight, self.positive, self.count, self.peak = weight, positive, count, peak
        self._totals = np.array([weight, positive]).data
        self._moments_low, self._cross_low, self._totals_low = (part.copy().data for part in low)

    def gram(self):
        """VᵀWV, (n+1) x (n+1), from the moments. A new array."""
        n: cython.Py_ssize_t = self.degree
        row = binomials(n)
        index = np.add.outer(np.arange(n + 1), np.arange(n + 1))
        return np.multiply.outer(row, row) / binomials(2 * n)[index] * self.moments[index]

    def __reduce__(self):
        return _restored, (self.degree, self.lo, self.hi, self.state(), self.low)


def _restored(degree, lo, hi, state, low=None):
    """Unpickle a BernsteinSums."""
    sums = BernsteinSums(degree, lo, hi)
    sums.load(*state, low)
    return sums
