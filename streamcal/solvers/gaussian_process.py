"""Laplace's method for a Gaussian process classifier whose covariance is a product over two inputs, from sums by cell.

    labels      P(b = 1 | f) = 1/(1 + e^−f), f = m + g
    process     g(u, t) ~ GP(0, σ² k((u − u')/ℓᵤ) k((t − t')/ℓₜ)), k(d) = exp(−d²/2)

With inducing inputs Z along one axis, k(Z, Z) = U Λ Uᵀ, and features a(u) = Λ^−½ Uᵀ k(Z, u), the product a(u)·a(u') is
the part of the covariance of g(u) and g(u') that g(Z) explains. So g(u, t) = σ a(u)ᵀ C b(t) with a matrix C of
independent standard normal entries, and a remainder of variance σ² (1 − |a(u)|² |b(t)|²) that is independent of every
label. Where both axes have inducing inputs at all points with labels, the features represent the process exactly.

The mode of C given the labels is a logistic regression with a ridge of 1, found by Newton's method (Rasmussen and
Williams 2006, Algorithm 3.1, in the space of the features). The posterior is approximated by a normal distribution
around the mode, whose precision H is the matrix of second derivatives there, and the evidence by their eq. (3.32).

On a stream, H of an earlier solve replaces H in the Newton steps: its inverse is known, and a step costs as much as the
gradient. The change of log det H is bounded by traces over the thresholds (`LaplaceProblem.evidence_bounds`).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigh
from scipy.linalg.lapack import dpotri

from streamcal.solvers.logistic import QUIET_STEPS, ROUNDING, Terms, backtrack, log_loss_excess, log_loss_terms
from streamcal.solvers.solution import Solution

Array = NDArray[np.float64]

#: Eigenvalues of k(Z, Z) below this share of the largest are left out. Each of them carries at most this share of the
#: prior variance; with the others Λ^−½ magnifies the rounding of k from 1e-16 to 1e-11 at most.
NEGLIGIBLE = 1e-10
#: Inducing inputs over an interval are this share of a length apart and extend one length beyond both ends. Inside the
#: interval they then explain all but 2e-7 of the prior variance.
SPACING = 0.4
#: Newton converges quadratically: after a step that changes no log-odds by more than this, relative to 1 and to the
#: largest of them, the next step would change them by the square of it.
LAST_STEP = 1e-8
#: With more weight than this at a threshold, times σ², the ridge of 1 is below the rounding of the precision.
LARGEST = 1e12
MAX_ITERATIONS = 100
#: Steps with an earlier precision converge linearly. They end once the remaining error, estimated from the ratio of the
#: last two steps, changes no log-odds by more than this, relative to 1 and to the largest of them.
REMAINING = 1e-10
#: With a ratio of two steps above this, the earlier precision is out of date.
SLOW = 0.25
#: Relative rounding of an evidence, as the bounds of two are compared.
EVIDENCE_ROUNDING = 1e-12


class Axis(NamedTuple):
    """The features of one input."""

    inducing: Array  #: inducing inputs Z, of shape (m,)
    length: float  #: ℓ > 0, in the unit of the input
    whitening: Array  #: Λ^−½ U, of shape (m, size), which turns covariances with Z into features

    @property
    def size(self) -> int:
        """The number of features."""
        return int(self.whitening.shape[1])

    def features(self, x: Array) -> Array:
        """Return a(x), shape (len(x), size). |a(x)|² is the share of the variance at x that g(Z) explains."""
        return _correlation(x, self.inducing, self.length) @ self.whitening


def axis_through(inducing: Array, length: float) -> Axis:
    """Return the features of an input with m distinct inducing inputs. O(m³), an eigendecomposition.

    Which of v and −v an eigenvector is depends on the processor; here its first entry of at least half the largest size
    is positive, so that C means the same on every machine, up to rounding.
    """
    values, vectors = eigh(_correlation(inducing, inducing, length))
    large = values > NEGLIGIBLE * values[-1]
    vectors = vectors[:, large]
    sizes = np.abs(vectors)
    first = np.argmax(sizes >= 0.5 * sizes.max(axis=0), axis=0)
    signs = np.sign(vectors[first, np.arange(vectors.shape[1])])
    return Axis(inducing, length, signs * vectors / np.sqrt(values[large]))


def axis_over(low: float, high: float, length: float) -> Axis:
    """Return the features of an input that may lie anywhere in [low, high]; inducing inputs are SPACING · ℓ apart."""
    number = int(np.ceil((high - low + 2.0 * length) / (SPACING * length))) + 1
    return axis_through(np.linspace(low - length, high + length, number), length)


def _correlation(x: Array, z: Array, length: float) -> Array:
    """Return k((x − z)/ℓ) for every pair, shape (len(x), len(z))."""
    values: Array = np.subtract.outer(x, z)
    values /= length
    np.square(values, out=values)
    values *= -0.5
    return np.exp(values, out=values)


class Posterior(NamedTuple):
    """The normal approximation of a solve, from which later solves start."""

    mode: Array  #: C, of shape (αβ,)
    inverse: Array  #: H⁻¹, (αβ, αβ)
    log_det: float  #: log det H
    #: B_k = Σ h a aᵀ over the points of a threshold, (K, α, α), of which H = I + Σ_k B_k ⊗ b_k b_kᵀ is made.
    moments: Array
    #: S_k = (I ⊗ b_k)ᵀ H⁻¹ (I ⊗ b_k), (K, α, α): a(u)ᵀ S_k a(u) is the posterior variance of g(u, t_k).
    spreads: Array


class Mode(NamedTuple):
    """A mode, the terms of the loss there, and the objective."""

    point: Array
    terms: Terms
    value: float


class LaplaceProblem:
    """The posterior of C given labels at points (u, t). C is a flat array of shape (αβ,) throughout.

    Parameters
    ----------
    rows : ndarray of shape (n, α)
        a(u) of the points, sorted by threshold.
    ends : ndarray of shape (K,)
        Where the points of each of the K thresholds end.
    columns : ndarray of shape (K, β)
        σ b(t) of the thresholds.
    offset : ndarray of shape (n,)
        Prior mean m at the points.
    neg, pos : ndarray of shape (n,)
        Weight of the labels 0 and of the labels 1 at each point.
    """

    def __init__(
        self, rows: Array, ends: NDArray[np.intp], columns: Array, offset: Array, neg: Array, pos: Array
    ) -> None:
        self.rows = rows
        self.columns = columns
        self.offset = offset
        self.weight = neg + pos
        self.positive = pos
        self.shape = rows.shape[1], columns.shape[1]
        self._parts = [slice(int(i), int(j)) for i, j in zip((0, *ends[:-1]), ends, strict=True)]
        self._squares = np.einsum("jk,jl->jkl", columns, columns).reshape(len(columns), -1)  # (K, β²)

    def mode(self, start: Array) -> Solution:
        """Return the C of the largest posterior density; any finite start leads to the same solution.

        The objective is convex with curvature of at least 1, so that a full or halved Newton step always decreases it.
        A step costs O(n α² + K α² β²) for the Hessian and O((αβ)³) for its factor.
        """
        if float(self.weight.sum()) * float(np.square(self.columns).sum(axis=1).max()) > LARGEST * len(self.columns):
            return Solution(start, "too much weight", False, 0, np.inf)
        points = [(point, *self._assess(point)) for point in (np.zeros(start.shape), start)]
        point, terms, value = min(points, key=lambda one: one[2])
        moved, quiet = np.inf, 0
        for iteration in range(1, MAX_ITERATIONS + 1):
            step, slope = self._newton_step(point, terms)
            moved = self._moved(point, step)
            quiet = quiet + 1 if -slope <= ROUNDING * value else 0
            point, terms, value, full = self._search(point, value, step, slope)
            if full and (moved <= LAST_STEP or quiet >= QUIET_STEPS):
                return Solution(point, "solved", True, iteration, moved)
        return Solution(point, "iteration limit", False, MAX_ITERATIONS, moved)

    def followed(self, start: Posterior) -> Mode | None:
        """Return the mode by steps with the precision of an earlier posterior; None if they converge too slowly.

        A step costs O(n α + K α β + (αβ)²). Where the steps shrink, they shrink to the mode: it is the only point with
        a step of 0.
        """
        point, before = start.mode, np.inf
        log_odds = self.offset + self._latent(point)
        for _ in range(MAX_ITERATIONS):
            step = start.inverse @ -self._gradient(point, log_loss_excess(log_odds, self.weight, self.positive))
            change = self._latent(step)
            moved = float(np.abs(change).max()) / (1.0 + float(np.abs(log_odds).max()))
            point, log_odds = point + step, log_odds + change
            ratio = min(moved / before, 1.0)
            if moved * (ratio if before < np.inf else 1.0) <= (1.0 - SLOW) * REMAINING:
                return Mode(point, *self._assess_at(log_odds, point))
            if before < np.inf and not ratio <= SLOW:
                return None
            before = moved
        return None

    def at(self, point: Array) -> Mode:
        """Return a mode with the terms of the loss there."""
        return Mode(point, *self._assess(point))

    def posterior(self, mode: Mode) -> Posterior:
        """Return the normal approximation at the mode. O(n α² + K α² β² + (αβ)³)."""
        moments = self._moments(mode.terms)
        factor, _ = cho_factor(self._precision_of(moments), lower=True, check_finite=False)
        log_det = 2.0 * float(np.log(np.diag(factor)).sum())
        lower, _ = dpotri(factor, lower=1, overwrite_c=1)
        inverse = np.tril(lower) + np.tril(lower, -1).T
        blocks = inverse.reshape(*self.shape, *self.shape).transpose(0, 2, 1, 3)
        spreads = blocks.reshape(-1, self.shape[1] ** 2) @ self._squares.T
        return Posterior(mode.point, inverse, log_det, moments, spreads.T.reshape(moments.shape))

    def evidence_bounds(self, mode: Mode, earlier: Posterior) -> tuple[float, float]:
        """Return bounds of Laplace's approximation of the log marginal likelihood at the mode. O(n α² + K α³).

        Notes
        -----
        With H₀ = L Lᵀ the earlier precision, H differs from it by the sum of E_k ⊗ b_k b_kᵀ, E_k the change of B_k. Let
        μ be the eigenvalues of L⁻¹ (H − H₀) L⁻ᵀ. Their sum T is Σ tr S_k E_k. Since L⁻¹ (I ⊗ b_k) = Q S_k^½ with
        orthonormal columns Q, the root φ of the sum of their squares is at most Σ ‖S_k^½ E_k S_k^½‖. Now log det H is
        log det H₀ + Σ log(1 + μ), which is at most T more, and at least T − ½ φ²/(1 − φ)² more where φ < 1.
        """
        products = earlier.spreads @ (self._moments(mode.terms) - earlier.moments)
        trace = float(np.einsum("kii->", products))
        squares = np.einsum("kij,kji->k", products, products)
        spread = float(np.sqrt(np.maximum(squares, 0.0)).sum())
        least = -mode.value - 0.5 * (earlier.log_det + trace)
        slack = EVIDENCE_ROUNDING * (1.0 + abs(least))
        if spread >= 1.0:
            return least - slack, np.inf
        return least - slack, least + 0.25 * (spread / (1.0 - spread)) ** 2 + slack

    def precision(self, point: Array) -> Array:
        """Return H at C, shape (αβ, αβ). O(n α² + K α² β²); a matrix of all features would cost O(n α² β²)."""
        return self._curvature(self._assess(point)[0])

    def _newton_step(self, point: Array, terms: Terms) -> tuple[Array, float]:
        """Return the step, and the derivative of the objective along it."""
        gradient = self._gradient(point, terms.excess)
        step = -cho_solve(cho_factor(self._curvature(terms), check_finite=False), gradient, check_finite=False)
        return step, float(gradient @ step)

    def _moved(self, point: Array, step: Array) -> float:
        """Return the largest change of a log-odds by the step, relative to 1 and to the largest log-odds."""
        largest = 1.0 + float(np.abs(self._latent(point) + self.offset).max(initial=0.0))
        return float(np.abs(self._latent(step)).max(initial=0.0)) / largest

    def _latent(self, point: Array) -> Array:
        """Return g at the points, shape (n,)."""
        by_threshold = self.columns @ point.reshape(self.shape).T  # (K, α)
        latent = np.empty(len(self.rows))
        for part, one in zip(self._parts, by_threshold, strict=True):
            np.dot(self.rows[part], one, out=latent[part])
        return latent

    def _assess(self, point: Array) -> tuple[Terms, float]:
        """Return the loss of every point with its derivatives, and the objective.

        The objective is minus the log posterior, up to a constant.
        """
        return self._assess_at(self.offset + self._latent(point), point)

    def _assess_at(self, log_odds: Array, point: Array) -> tuple[Terms, float]:
        """Return what `_assess` returns, with the log-odds at the point known."""
        terms = log_loss_terms(log_odds, self.weight, self.positive)
        return terms, float(terms.loss.sum()) + 0.5 * float(point @ point)

    def _gradient(self, point: Array, excess: Array) -> Array:
        """Return the derivatives of the objective at C, shape (αβ,)."""
        by_threshold = np.empty((len(self._parts), self.shape[0]))
        for part, row in zip(self._parts, by_threshold, strict=True):
            np.dot(excess[part], self.rows[part], out=row)
        return (by_threshold.T @ self.columns).reshape(-1) + point

    def _curvature(self, terms: Terms) -> Array:
        """Return H: Σ over the thresholds of (Σ over their points of h a aᵀ) ⊗ b bᵀ, plus the identity."""
        return self._precision_of(self._moments(terms))

    def _moments(self, terms: Terms) -> Array:
        """Return Σ h a aᵀ over the points of each threshold, shape (K, α, α)."""
        weighted = terms.curvature[:, None] * self.rows
        moments = np.empty((len(self._parts), self.shape[0], self.shape[0]))
        for part, block in zip(self._parts, moments, strict=True):
            np.dot(weighted[part].T, self.rows[part], out=block)
        return moments

    def _precision_of(self, moments: Array) -> Array:
        alpha, beta = self.shape
        blocks = moments.reshape(len(self._parts), -1).T @ self._squares  # (α², β²)
        blocks = blocks.reshape(alpha, alpha, beta, beta).transpose(0, 2, 1, 3)
        hessian: Array = blocks.reshape(alpha * beta, alpha * beta)
        hessian[np.diag_indices(alpha * beta)] += 1.0
        return hessian

    def _search(self, point: Array, value: float, step: Array, slope: float) -> tuple[Array, Terms, float, bool]:
        """Backtrack."""
        blur = ROUNDING * abs(value)
        return backtrack(self._assess, lambda share: point + share * step, value, slope, blur)


def covariance(precision: Array) -> Array:
    """Return the inverse of a positive definite matrix."""
    factor = cho_factor(precision, check_finite=False)
    return cho_solve(factor, np.eye(len(precision)), check_finite=False)
