"""Laplace's method for a Gaussian process classifier whose covariance is a product over two inputs, from sums by cell.

    labels      P(b = 1 | f) = 1/(1 + e^−f), f = m + g
    process     g(u, t) ~ GP(0, σ² k((u − u')/ℓᵤ) k((t − t')/ℓₜ)), k(d) = exp(−d²/2)

With inducing inputs Z along one axis, k(Z, Z) = U Λ Uᵀ, and features a(u) = Λ^−½ Uᵀ k(Z, u), a(u)·a(u') is the
covariance of what g(Z) says of g(u) and g(u'). So g(u, t) = σ a(u)ᵀ C b(t) with a matrix C of independent standard
normal entries, and a remainder of variance σ² (1 − |a(u)|² |b(t)|²) of which no label says anything. Where both axes
have their inducing inputs at all the points that have labels, this is the process itself.

The mode of C given the labels is a logistic regression with a ridge of 1, found by Newton's method (Rasmussen and
Williams 2006, Algorithm 3.1, in the space of the features). The posterior is taken to be normal around it, its
precision H the second derivatives there, and the evidence that of their eq. (3.32).
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, eigh

from streamcal.solvers.logistic import Terms, log_loss_terms
from streamcal.solvers.solution import Solution

Array = NDArray[np.float64]

#: Eigenvalues of k(Z, Z) below this share of the largest are left out. It is the share of the prior variance that is
#: lost at most for each of them; and Λ^−½ magnifies the rounding of k no further than from 1e-16 to 1e-11.
NEGLIGIBLE = 1e-10
#: Inducing inputs over an interval are this share of a length apart and go on for one length beyond both ends. Then
#: they leave less than 2e-7 of the prior variance open anywhere between.
SPACING = 0.4
#: Newton converges quadratically: after a step that moves no log-odds by more than this, relative to 1 and to the
#: largest of them, the next would move them by its square.
LAST_STEP = 1e-8
#: A loss rounds by this much of itself; a smaller gain cannot be seen in it. So many full steps in a row without one
#: are enough, too: where millions of labels stand against a ridge of 1, rounding moves the mode by more than that for
#: ever.
ROUNDING = 1e-14
QUIET_STEPS = 3
#: More weight than this at a threshold, times σ², and the ridge of 1 is lost in the rounding of the precision.
LARGEST = 1e12
MAX_ITERATIONS = 100
MAX_HALVINGS = 60


class Axis(NamedTuple):
    """The features of one input: inducing inputs, shape (m,), and what turns covariances with them into features."""

    inducing: Array
    length: float
    whitening: Array

    @property
    def size(self) -> int:
        """The number of features."""
        return int(self.whitening.shape[1])

    def features(self, x: Array) -> Array:
        """a(x), shape (len(x), size). |a(x)|² is the share of the variance at x that g(Z) explains."""
        features: Array = _correlation(x, self.inducing, self.length) @ self.whitening
        return features


def axis_through(inducing: Array, length: float) -> Axis:
    """The features of an input with these inducing inputs, all different."""
    values, vectors = eigh(_correlation(inducing, inducing, length))
    kept = values > NEGLIGIBLE * values[-1]
    return Axis(inducing, length, vectors[:, kept] / np.sqrt(values[kept]))


def axis_over(low: float, high: float, length: float) -> Axis:
    """The features of an input that may lie anywhere in an interval."""
    number = int(np.ceil((high - low + 2.0 * length) / (SPACING * length))) + 1
    return axis_through(np.linspace(low - length, high + length, number), length)


def _correlation(x: Array, z: Array, length: float) -> Array:
    """k((x − z)/ℓ) for every pair, shape (len(x), len(z))."""
    values: Array = np.exp(-0.5 * np.square((x[:, None] - z) / length))
    return values


class LaplaceProblem:
    """The labels of one statistic. C is a flat array of shape (αβ,) throughout.

    Args:
        rows: a(u) of the points, those of the first threshold first, shape (n, α).
        ends: where the points of each of K thresholds end, shape (K,).
        columns: σ b(t) of the thresholds, shape (K, β).
        offset: m at the points, shape (n,).
        neg: weight of the labels 0, shape (n,).
        pos: weight of the labels 1, shape (n,).
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
        """The C of the largest posterior density. Any finite `start` leads to the same answer.

        The objective is convex and its curvature at least 1, so that a full or halved Newton step always gains.
        """
        if float(self.weight.sum()) * float(np.square(self.columns).sum(axis=1).max()) > LARGEST * len(self.columns):
            return Solution(start, "too much weight", False, 0, np.inf)
        points = [(point, *self._assess(point)) for point in (np.zeros(start.shape), start)]
        point, terms, value = min(points, key=lambda one: one[2])
        moved, quiet = np.inf, 0
        for iteration in range(1, MAX_ITERATIONS + 1):
            gradient = self._gradient(point, terms)
            step = -cho_solve(cho_factor(self._curvature(terms), check_finite=False), gradient, check_finite=False)
            slope = float(gradient @ step)
            largest = 1.0 + float(np.abs(self._latent(point) + self.offset).max(initial=0.0))
            moved = float(np.abs(self._latent(step)).max(initial=0.0)) / largest
            quiet = quiet + 1 if -slope <= ROUNDING * value else 0
            point, terms, value, full = self._search(point, value, step, slope)
            if full and (moved <= LAST_STEP or quiet >= QUIET_STEPS):
                return Solution(point, "solved", True, iteration, moved)
        return Solution(point, "iteration limit", False, MAX_ITERATIONS, moved)

    def precision(self, point: Array) -> Array:
        """H at C, shape (αβ, αβ). O(n α² + K α² β²), where a matrix of all features would cost O(n α² β²)."""
        return self._curvature(self._assess(point)[0])

    def log_evidence(self, mode: Array) -> float:
        """Laplace's approximation of the log marginal likelihood."""
        factor, _ = cho_factor(self.precision(mode), check_finite=False)
        return -self._assess(mode)[1] - float(np.log(np.diag(factor)).sum())

    def _latent(self, point: Array) -> Array:
        """g at the points, shape (n,)."""
        by_threshold = self.columns @ point.reshape(self.shape).T  # (K, α)
        return np.concatenate([self.rows[part] @ one for part, one in zip(self._parts, by_threshold, strict=True)])

    def _assess(self, point: Array) -> tuple[Terms, float]:
        """The loss of every point with its derivatives; the objective, minus the log posterior up to a constant."""
        terms = log_loss_terms(self.offset + self._latent(point), self.weight, self.positive)
        return terms, float(terms.loss.sum()) + 0.5 * float(point @ point)

    def _gradient(self, point: Array, terms: Terms) -> Array:
        by_threshold = np.stack([terms.excess[part] @ self.rows[part] for part in self._parts])  # (K, α)
        gradient: Array = (by_threshold.T @ self.columns).reshape(-1) + point
        return gradient

    def _curvature(self, terms: Terms) -> Array:
        """Σ over the thresholds of (Σ over their points of h a aᵀ) ⊗ b bᵀ, and the identity."""
        (alpha, beta), h, rows = self.shape, terms.curvature, self.rows
        by_threshold = np.stack([(rows[part].T * h[part]) @ rows[part] for part in self._parts])  # (K, α, α)
        blocks = by_threshold.reshape(len(self._parts), -1).T @ self._squares  # (α², β²)
        blocks = blocks.reshape(alpha, alpha, beta, beta).transpose(0, 2, 1, 3)
        hessian: Array = blocks.reshape(alpha * beta, alpha * beta)
        hessian[np.diag_indices(alpha * beta)] += 1.0
        return hessian

    def _search(self, point: Array, value: float, step: Array, slope: float) -> tuple[Array, Terms, float, bool]:
        """The first of the full, halved, quartered … steps that gains enough; and whether it was the full one."""
        share = 1.0
        for _ in range(MAX_HALVINGS):
            trial = point + share * step
            terms, found = self._assess(trial)
            if found <= value + 1e-4 * share * slope + ROUNDING * abs(value):
                break
            share *= 0.5
        return trial, terms, found, share == 1.0


def covariance(precision: Array) -> Array:
    """The inverse of a positive definite matrix."""
    factor = cho_factor(precision, check_finite=False)
    inverse: Array = cho_solve(factor, np.eye(len(precision)), check_finite=False)
    return inverse
