# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Tensor products of Bernstein polynomials: their values, and the sufficient statistic of their least-squares problem.

Symbols, after paper 000 ("Multivariate Probability Calibration with Isotonic Bernstein Polynomials"):

    M        number of scores;  u in [0, 1]^M the scaled scores
    K_m      degree along axis m;  b_k^{K_m}  its Bernstein basis, k = 0..K_m
    β        coefficients, (K_1+1) × … × (K_M+1) of them;  B(u) = Σ_k β_k b_{k_1}(u_1) … b_{k_M}(u_M)   (eq. 8)
    moments  Σ w b_{k_1}^{2K_1}(u_1) … b_{k_M}^{2K_M}(u_M), k_m = 0..2K_m.  They determine the Gram matrix, since
             b_i^K b_j^K = C(K, i) C(K, j) / C(2K, i+j) · b_{i+j}^{2K}  along every axis
    cross    Σ w y b_{k_1}^{K_1}(u_1) … b_{k_M}^{K_M}(u_M)

Arrays are flat, in C order. All terms are products of powers without subtraction, so that each is accurate to about
2(K_1 + … + K_M) rounding errors at every u.
"""

import cython
import numpy as np

from streamcal.kernels.polynomial.bernstein import MAX_DEGREE, binomials

_ROWS = 2 * MAX_DEGREE + 1


def _pascal():
    """C(n, k) by rows."""
    table = np.zeros((_ROWS, _ROWS))
    for n in range(_ROWS):
        table[n, : n + 1] = binomials(n)
    return table


_BINOMIAL = cython.declare(cython.double[:, ::1], _pascal().data)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _powers(
    rising: cython.double[::1], falling: cython.double[::1], n: cython.Py_ssize_t, u: cython.double
) -> cython.void:
    """Set rising[k] = uᵏ and falling[n − k] = (1 − u)ᵏ, k = 0..n."""
    k: cython.Py_ssize_t
    up: cython.double = 1.0
    down: cython.double = 1.0
    v: cython.double = 1.0 - u
    for k in range(n + 1):
        rising[k] = up
        falling[n - k] = down
        up = up * u
        down = down * v


@cython.cclass
class TensorPolynomial:
    """B, for flat coefficients that do not decrease along any axis. Immutable; calls share no working memory."""

    degrees = cython.declare(tuple, visibility="readonly")
    coefficients = cython.declare(object, visibility="readonly")
    _longest: cython.Py_ssize_t
    _degrees: cython.Py_ssize_t[::1]
    _coefficients: cython.const[cython.double][::1]

    def __init__(self, coefficients, degrees):
        self.degrees = tuple(int(degree) for degree in degrees)
        if not self.degrees or not all(1 <= degree <= MAX_DEGREE for degree in self.degrees):
            raise ValueError(f"degrees must lie in 1..{MAX_DEGREE}, got {degrees!r}")
        self.coefficients = np.array(coefficients, dtype=np.float64)
        self.coefficients.setflags(write=False)
        if self.coefficients.shape != (int(np.prod([degree + 1 for degree in self.degrees])),):
            raise ValueError(f"degrees {self.degrees} do not fit coefficients of shape {self.coefficients.shape}")
        self._degrees = np.array(self.degrees, dtype=np.intp).data
        self._coefficients = self.coefficients.data
        self._longest = max(self.degrees) + 1

    def at(self, u):
        """B(u) at one point u, a sequence of M numbers in [0, 1].

        The value lies between the first and the last coefficient; its error is a few times K_1 + … + K_M ulps of their
        difference. The values at points that are closer may be in either order. O(M + Π(K_m + 1)).
        """
        point = np.array(u, dtype=np.float64)
        if point.shape != (len(self.degrees),):
            raise ValueError(f"{len(self.degrees)} scores are needed, got shape {point.shape}")
        work = np.empty(self._coefficients.shape[0] + 2 * self._longest)
        return self._contract(point.data, work.data)

    def at_many(self, u: cython.const[cython.double][:, ::1]):
        """Return `at` for every row of u, shape (n, M), as a new array."""
        i: cython.Py_ssize_t
        if u.shape[1] != self._degrees.shape[0]:
            raise ValueError(f"{self._degrees.shape[0]} scores are needed, got {u.shape[1]} columns")
        work: cython.double[::1] = np.empty(self._coefficients.shape[0] + 2 * self._longest).data
        result = np.empty(u.shape[0])
        out: cython.double[::1] = result.data
        for i in range(u.shape[0]):
            out[i] = self._contract(u[i], work)
        return result

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _contract(self, u: cython.const[cython.double][::1], work: cython.double[::1]) -> cython.double:
        """B(u), measured from the smallest coefficient: all terms have one sign, and a constant is exact."""
        size: cython.Py_ssize_t = self._coefficients.shape[0]
        lowest: cython.double = self._coefficients[0]
        highest: cython.double = self._coefficients[size - 1]
        rising: cython.double[::1] = work[size : size + self._longest]
        falling: cython.double[::1] = work[size + self._longest :]
        total: cython.double
        m: cython.Py_ssize_t
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        n: cython.Py_ssize_t
        for i in range(size):
            work[i] = self._coefficients[i] - lowest
        for m in range(self._degrees.shape[0] - 1, -1, -1):
            n = self._degrees[m]
            _powers(rising, falling, n, u[m])
            for k in range(n + 1):
                rising[k] = _BINOMIAL[n, k] * rising[k] * falling[k]
            size = size // (n + 1)
            for i in range(size):
                total = 0.0
                for k in range(n + 1):
                    total = total + work[i * (n + 1) + k] * rising[k]
                work[i] = total
        total = lowest + work[0]
        return total if total <= highest else highest

    def __reduce__(self):
        return TensorPolynomial, (self.coefficients, self.degrees)


@cython.cclass
class TensorSums:
    """The sufficient statistic of least squares in the tensor basis.

    `moments` and `cross` are the live arrays, flat: they may be read and passed to a solver, not written to. `positive`
    is both Σ w y and Σ w y². One update is O(Π(2K_m + 1)).
    """

    degrees = cython.declare(tuple, visibility="readonly")
    moments = cython.declare(object, visibility="readonly")
    cross = cython.declare(object, visibility="readonly")
    weight = cython.declare(cython.double, visibility="readonly")
    positive = cython.declare(cython.double, visibility="readonly")
    _axes: cython.Py_ssize_t  # M
    _degrees: cython.Py_ssize_t[::1]
    _moments: cython.double[::1]
    _cross: cython.double[::1]
    _rising: cython.double[::1]
    _falling: cython.double[::1]
    _double: cython.double[:, ::1]  # row m: the basis of degree 2K_m at u_m
    _single: cython.double[:, ::1]  # row m: that of degree K_m
    _product: cython.double[::1]

    def __init__(self, degrees):
        self.degrees = tuple(int(degree) for degree in degrees)
        if not self.degrees or not all(1 <= degree <= MAX_DEGREE for degree in self.degrees):
            raise ValueError(f"degrees must lie in 1..{MAX_DEGREE}, got {degrees!r}")
        longest = 2 * max(self.degrees) + 1
        self._axes = len(self.degrees)
        self._degrees = np.array(self.degrees, dtype=np.intp).data
        self.moments = np.zeros(int(np.prod([2 * degree + 1 for degree in self.degrees])))
        self.cross = np.zeros(int(np.prod([degree + 1 for degree in self.degrees])))
        self._moments = self.moments.data
        self._cross = self.cross.data
        self._rising = np.empty(longest).data
        self._falling = np.empty(longest).data
        self._double = np.zeros((self._axes, longest)).data
        self._single = np.zeros((self._axes, longest)).data
        self._product = np.empty(len(self.moments)).data
        self.weight = 0.0
        self.positive = 0.0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _set_axis(self, m: cython.Py_ssize_t, u: cython.double) -> cython.void:
        """Set the basis of both degrees along one axis."""
        k: cython.Py_ssize_t
        n: cython.Py_ssize_t = self._degrees[m]
        _powers(self._rising, self._falling, 2 * n, u)
        for k in range(2 * n + 1):
            self._double[m, k] = _BINOMIAL[2 * n, k] * self._rising[k] * self._falling[k]
        for k in range(n + 1):
            self._single[m, k] = _BINOMIAL[n, k] * self._rising[k] * self._falling[n + k]

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _add_product(
        self, sums: cython.double[::1], basis: cython.double[:, ::1], times: cython.Py_ssize_t, w: cython.double
    ) -> cython.void:
        """Add w · (outer product of the rows of `basis`), each of times·K_m + 1 numbers, to `sums`."""
        size: cython.Py_ssize_t = 1
        last: cython.Py_ssize_t = self._axes - 1
        length: cython.Py_ssize_t
        value: cython.double
        m: cython.Py_ssize_t
        i: cython.Py_ssize_t
        k: cython.Py_ssize_t
        self._product[0] = w
        for m in range(last):
            length = times * self._degrees[m] + 1
            for i in range(size - 1, -1, -1):  # from the end, so that nothing is overwritten before it is read
                value = self._product[i]
                for k in range(length):
                    self._product[i * length + k] = value * basis[m, k]
            size = size * length
        length = times * self._degrees[last] + 1
        for i in range(size):
            value = self._product[i]
            for k in range(length):
                sums[i * length + k] += value * basis[last, k]

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _add(self, w: cython.double, positive: cython.double) -> cython.void:
        self._add_product(self._moments, self._double, 2, w)
        if positive != 0.0:
            self._add_product(self._cross, self._single, 1, positive)
        self.weight = self.weight + w
        self.positive = self.positive + positive

    def update(self, u, w: cython.double, positive: cython.double):
        """Add weight w at u, M numbers in [0, 1], `positive` of it (0 <= positive <= w) with label 1."""
        m: cython.Py_ssize_t
        if len(u) != self._axes:
            raise ValueError(f"{self._axes} scores are needed, got {len(u)}")
        for m in range(self._axes):
            self._set_axis(m, u[m])
        self._add(w, positive)

    def unlearn(self, u, w: cython.double, positive: cython.double):
        """Remove an earlier `update` with the same arguments, up to rounding."""
        self.update(u, -w, -positive)

    def update_many(
        self,
        u: cython.const[cython.double][:, ::1],
        w: cython.const[cython.double][:],
        positive: cython.const[cython.double][::1],
    ):
        """Do `update` for every row of u, shape (n, M), in order: bit for bit the result of the loop."""
        i: cython.Py_ssize_t
        m: cython.Py_ssize_t
        if not u.shape[0] == w.shape[0] == positive.shape[0] or u.shape[1] != self._axes:
            raise ValueError(f"shapes differ: {u.shape}, {w.shape}, {positive.shape} for {self._axes} scores")
        for i in range(u.shape[0]):
            for m in range(self._axes):
                self._set_axis(m, u[i, m])
            self._add(w[i], positive[i])

    def merge(self, other):
        """Add the sums of another of the same degrees."""
        if other.degrees != self.degrees:
            raise ValueError(f"degrees differ: {self.degrees} and {other.degrees}")
        self.moments += other.moments
        self.cross += other.cross
        self.weight = self.weight + other.weight
        self.positive = self.positive + other.positive

    def multiply(self, factor: cython.double):
        """Multiply all sums by a factor > 0: decay, or a change of the unit of weight."""
        self.moments *= factor
        self.cross *= factor
        self.weight = self.weight * factor
        self.positive = self.positive * factor

    def state(self):
        """Return copies of (moments, cross, weight, positive) for `load`."""
        return self.moments.copy(), self.cross.copy(), self.weight, self.positive

    def load(self, moments, cross, weight: cython.double, positive: cython.double):
        """Replace the sums by those of an earlier `state`."""
        moments = np.asarray(moments, dtype=np.float64)
        cross = np.asarray(cross, dtype=np.float64)
        if moments.shape != self.moments.shape or cross.shape != self.cross.shape:
            raise ValueError(
                f"degrees {self.degrees} need {len(self.moments)} moments and {len(self.cross)} cross sums,"
                f" got shapes {moments.shape} and {cross.shape}"
            )
        self.moments[:] = moments
        self.cross[:] = cross
        self.weight = weight
        self.positive = positive
