"""Monotone Bernstein logistic regression: Newton steps, each of which is a monotone least-squares problem.

Symbols:

    u_j                the distinct scores in [0, 1], with weights w_j and positive weights a_j, Σ w = 1
    B_i                the Bernstein basis of degree n; V_ji = B_i(u_j)
    η = LIMIT (2Vc − 1)    the log-odds; 0 <= c_0 <= … <= c_n <= 1, so that their coefficients lie in [−LIMIT, LIMIT]
    p = σ(η),  D = w p (1 − p)

    min  F(c) = S Σ w log(1 + exp η) − a η  +  ½ ridge Σ (c_j − c_{j−1})²,      S = 1 / LIMIT²

The quadratic model of F at c has the Hessian 4 VᵀDV: the Gram matrix of the basis under the weights 4D. Its minimum
over the constraints is therefore a monotone Bernstein least-squares problem, given by 2n + 1 moments, and is solved by
the solvers of that problem. The factor S keeps its entries below 1, the range for which their tolerances are set.

Source: paper 001 for the bounds of the log-odds; the Newton step is derived above.
"""

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.polynomial.bernstein import binomials
from streamcal.kernels.polynomial.monotone_qp import RIDGE
from streamcal.solvers.logistic import QUIET_STEPS, ROUNDING, Terms, log_loss_terms
from streamcal.solvers.solution import Solution

Array = NDArray[np.float64]

LIMIT = 15.0
"""Coefficients are log-odds between ±15 (paper 001): p from 3e-7 to 1 − 3e-7."""

MAX_ITERATIONS = 200
MAX_HALVINGS = 40
#: Newton converges quadratically: after a full step that changes no log-odds by more than this, the next step would be
#: below rounding.
LAST_STEP = 1e-8
#: Accepted suboptimality: the log loss per unit of weight that may remain, by the bound of `_Problem.gap`.
ACCEPTED_GAP = 1e-11


class QuadraticProgram(Protocol):
    """A solver of monotone Bernstein least squares: `MonotoneLeastSquares` or `WarmOSQP`."""

    def solve(self, moments: Array, cross: Array, weight: float) -> Solution: ...


class _Point(NamedTuple):
    """One iterate: c, Vc, the terms of the log loss at c, and F(c)."""

    c: Array
    height: Array
    terms: Terms
    loss: float


def fit_bernstein_logistic(
    u: Array, neg: Array, pos: Array, quadratic: QuadraticProgram, start: Array, degree: int
) -> Solution:
    """Minimise F by damped Newton steps, with a solver of the quadratic programs of this degree.

    `u`, `neg` and `pos`, the weights of the two labels, have shape (k,). `start` and the result's `x` are coefficients
    of the log-odds, LIMIT (2c − 1), shape (n + 1,); the start is used if it is better than the best constant.
    `residual` bounds the log loss per unit of weight that could still be gained.

    F is convex, and each step goes towards the minimum of a strictly convex model, so that the damped steps converge
    from any start. Cost of a step: O(k n) and one quadratic program; O(k n) memory.
    """
    total = float(neg.sum() + pos.sum())
    if not total > 0.0:
        return Solution(start, "no data", False, 0, 0.0)
    problem = _Problem(u, (neg + pos) / total, pos / total, degree)
    point = problem.better_start(start)
    if not np.isfinite(point.loss):
        return Solution(start, "not finite", False, 0, 0.0)
    quiet = 0
    for iteration in range(1, MAX_ITERATIONS + 1):
        model = quadratic.solve(*problem.model(point), 1.0)
        if not model.solved:
            return Solution(_log_odds(point.c), model.status, False, iteration, problem.gap(point))
        point, moved, lost = problem.search(point, model.x)
        quiet = quiet + 1 if lost else 0
        if (moved <= LAST_STEP or quiet >= QUIET_STEPS) and (gap := problem.gap(point)) <= ACCEPTED_GAP:
            return Solution(_log_odds(point.c), "solved", True, iteration, gap)
    return Solution(_log_odds(point.c), "iteration limit", False, MAX_ITERATIONS, problem.gap(point))


class _Problem:
    """The data of one fit, with weights that sum to 1."""

    def __init__(self, u: Array, weight: Array, positive: Array, degree: int) -> None:
        self.basis = basis_matrix(degree, u)
        self.products = basis_matrix(2 * degree, u)
        self.weight = weight
        self.positive = positive

    def at(self, c: Array, height: Array) -> _Point:
        """Return the iterate at c, where `height` is Vc."""
        terms = log_loss_terms(_log_odds(height), self.weight, self.positive)
        rise = np.diff(c)
        return _Point(c, height, terms, float(terms.loss.sum()) / LIMIT**2 + 0.5 * RIDGE * float(rise @ rise))

    def better_start(self, start: Array) -> _Point:
        """Return the better of `start` and the best constant."""
        share = float(self.positive.sum())
        odds = np.log(share / (1.0 - share)) if 0.0 < share < 1.0 else LIMIT * (2.0 * share - 1.0)
        constant = np.full_like(start, np.clip(0.5 * (odds / LIMIT + 1.0), 0.0, 1.0))
        warm = 0.5 * (start / LIMIT + 1.0)
        return min((self.at(c, self.basis @ c) for c in (constant, warm)), key=lambda point: point.loss)

    def model(self, point: _Point) -> tuple[Array, Array]:
        """Return moments (2n + 1,) and cross sums (n + 1,) of the least-squares model of F at this iterate."""
        curvature = 4.0 * point.terms.curvature
        pull = curvature * point.height - (2.0 / LIMIT) * point.terms.excess
        return curvature @ self.products, pull @ self.basis

    def search(self, point: _Point, goal: Array) -> tuple[_Point, float, bool]:
        """Backtrack: take the first of the full, halved, quartered … steps to `goal` that decreases F sufficiently.

        Return it, the largest change of a log-odds by the full step, and whether the decrease it promises is below the
        rounding of F.
        """
        step = goal - point.c
        slope = float(self.gradient(point) @ _increments(step))
        rise = self.basis @ step
        share = 1.0
        for _ in range(MAX_HALVINGS):
            trial = self.at(point.c + share * step, point.height + share * rise)
            if trial.loss <= point.loss + 1e-4 * share * slope + ROUNDING * point.loss:
                break
            share *= 0.5
        return trial, 2.0 * LIMIT * float(np.abs(rise).max()), -slope <= ROUNDING * point.loss

    def gradient(self, point: _Point) -> Array:
        """Return ∂F in the increments d_0 = c_0, d_j = c_j − c_{j−1}."""
        by_coefficient = (2.0 / LIMIT) * (point.terms.excess @ self.basis)
        penalty = RIDGE * _increments(point.c)
        penalty[0] = 0.0
        return np.cumsum(by_coefficient[::-1])[::-1] + penalty

    def gap(self, point: _Point) -> float:
        """Return an upper bound on F(c) − min F, in units of the log loss (the Frank-Wolfe gap).

        F is convex and lies above its tangent. Over the increments d >= 0, Σd <= 1, the tangent is least at a
        corner: at 0 or at one d_j = 1.
        """
        gradient = self.gradient(point)
        return LIMIT**2 * (float(gradient @ _increments(point.c)) - min(float(gradient.min()), 0.0))


def basis_matrix(degree: int, u: Array) -> Array:
    """Return the Bernstein basis at the points u, B_i(u_j), of shape (k, degree + 1). O(k · degree)."""
    basis = np.ones((degree + 1, len(u)))  # one row per i: the loops run along memory, without large temporaries
    for i in range(degree):
        np.multiply(basis[i], u, out=basis[i + 1])
    falling, v = np.ones(len(u)), 1.0 - u
    for i, number in reversed(list(enumerate(binomials(degree).tolist()))):
        basis[i] *= number * falling
        falling *= v
    return basis.T


def _increments(c: Array) -> Array:
    """Return d_0 = c_0, d_j = c_j − c_{j−1}."""
    return np.diff(c, prepend=0.0)


def _log_odds(c: Array) -> Array:
    """Return the coefficients of the log-odds from coefficients in [0, 1]."""
    return LIMIT * (2.0 * c - 1.0)
