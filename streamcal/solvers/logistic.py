"""Logistic regression with few parameters and lower bounds, on a table of scores: projected Newton steps.

Symbols: η = offset + features δ the log-odds; p = 1/(1 + e^−η); w the weight of a score and a that of its positives.
"""

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from streamcal.solvers.solution import Solution

Array = NDArray[np.float64]
TermsT = TypeVar("TermsT")

RIDGE = 1e-9
"""A penalty of ½ RIDGE ‖δ‖² per unit of weight. It makes the solution finite and unique where the likelihood alone does
not: perfectly separated labels end at log-odds in the tens, and a direction that the scores do not determine at 0.
Where the curvature per unit of weight is h, it shrinks a parameter by RIDGE/h of its distance from 0."""

MAX_ITERATIONS = 200
MAX_HALVINGS = 60
#: Newton converges quadratically: after a step that changes no log-odds by more than this, relative to 1 and to the
#: largest of them, the next step would be below rounding.
LAST_STEP = 1e-9
#: Where only the ridge determines the solution, rounding changes log-odds by more than LAST_STEP at every step. This
#: many full steps in a row, each with a decrease below the rounding of the loss, also end the search.
QUIET_STEPS = 3
#: Accepted violation of the optimality conditions, per unit of weight and of the largest feature.
ACCEPTED_VIOLATION = 1e-12
#: Relative rounding of the loss: a smaller decrease cannot be measured.
ROUNDING = 1e-14


class Terms(NamedTuple):
    """Log loss and its first two derivatives in the log-odds, one entry for each score; shapes (k,)."""

    loss: Array
    excess: Array
    curvature: Array


def log_loss_terms(log_odds: Array, weight: Array, positive: Array) -> Terms:
    """Return the log loss w log(1 + exp η) − a η, and its derivatives w p − a and w p (1 − p).

    All have shape (k,); a is from 0 to w ≥ 0. Accurate relative to the smaller of p and 1 − p. O(k).
    """
    e = np.exp(-np.abs(log_odds))
    tail = e / (1.0 + e)
    up = log_odds > 0.0
    other = np.where(up, weight - positive, positive)
    loss = weight * np.log1p(e) + other * np.abs(log_odds)
    excess = np.where(up, other - weight * tail, weight * tail - other)
    return Terms(loss, excess, weight * tail / (1.0 + e))


def log_loss_excess(log_odds: Array, weight: Array, positive: Array) -> Array:
    """Return the first derivative that `log_loss_terms` returns, without the others. O(k)."""
    tail = np.exp(-np.abs(log_odds))
    tail *= weight / (1.0 + tail)
    return np.where(log_odds > 0.0, weight - positive - tail, tail - positive)


def fit_logistic(features: Array, offset: Array, neg: Array, pos: Array, lower: Array, start: Array) -> Solution:
    """Fit a logistic regression with an offset and lower bounds.

    It minimises Σ w log(1 + exp η) − pos η + ½ RIDGE Σw ‖δ‖², with η = offset + features δ, δ ≥ lower, w = neg + pos.
    `features` have shape (k, m), m of at most 3 or so; `offset`, `neg` and `pos`, the weights of the two labels, (k,).
    `lower` < 0, −inf for none, `start`, used if it is better than 0, and `x` of the result have shape (m,).

    Damped Newton: each step goes to the minimum of the quadratic model over the bounds, found by trying every active
    set. Loss and bounds are convex and the model is positive definite, so that a full or halved step always decreases
    the loss; `solved` means that the last step changed nothing above rounding. Cost of a step: O(k m² + 2ᵐ m³).
    """
    total = float(neg.sum() + pos.sum())
    if not total > 0.0:
        return Solution(np.zeros_like(lower), "no data", False, 0, 0.0)
    problem = _Problem(features, offset, (neg + pos) / total, pos / total, lower)
    return descend(problem, np.maximum(start, lower), ACCEPTED_VIOLATION * max(1.0, float(np.abs(features).max())))


def descend(problem: Any, start: Array, accepted: float) -> Solution:
    """Minimise a convex problem by damped Newton steps from 0 or `start`, whichever is better.

    It is solved where the last step changed nothing above rounding, and the violation is at most `accepted`.
    """
    points = [(point, *problem.assess(point)) for point in (np.zeros_like(start), start) if np.isfinite(point).all()]
    delta, terms, loss = min(points, key=lambda point: point[2])
    if not np.isfinite(loss):
        return Solution(delta, "not finite", False, 0, 0.0)
    quiet = 0
    for iteration in range(1, MAX_ITERATIONS + 1):
        step, slope = problem.newton_step(delta, terms)
        moved = problem.moves(delta, step)
        delta, terms, loss, full = problem.search(delta, loss, step, slope)
        quiet = quiet + 1 if full and -slope <= ROUNDING * loss else 0
        violation = problem.violation(delta, terms)
        if full and (moved <= LAST_STEP or quiet >= QUIET_STEPS) and violation <= accepted:
            return Solution(delta, "solved", True, iteration, violation)
    return Solution(delta, "iteration limit", False, MAX_ITERATIONS, problem.violation(delta, terms))


def backtrack(
    assess: Callable[[Array], tuple[TermsT, float]],
    at: Callable[[float], Array],
    loss: float,
    slope: float,
    blur: float,
) -> tuple[Array, TermsT, float, bool]:
    """Take the first of the full, halved, quartered … steps that decreases a loss sufficiently, up to its rounding.

    `at` is the point after a share of the step, and `slope` that of the loss along it. The result is the point, what
    `assess` returns there, and whether it is the full step.
    """
    share = 1.0
    for _ in range(MAX_HALVINGS):
        point = at(share)
        terms, trial_loss = assess(point)
        if trial_loss <= loss + 1e-4 * share * slope + blur:
            break
        share *= 0.5
    return point, terms, trial_loss, share == 1.0


class _Problem:
    """The data of one fit, with weights that sum to 1."""

    def __init__(self, features: Array, offset: Array, weight: Array, positive: Array, lower: Array) -> None:
        self.features = features
        self.offset = offset
        self.weight = weight
        self.positive = positive
        self.lower = lower

    def log_odds(self, delta: Array) -> Array:
        """Return η at δ, shape (k,)."""
        return self.offset + self.features @ delta

    def assess(self, delta: Array) -> tuple[Terms, float]:
        """Return the terms of the log loss at δ, and the objective."""
        terms = log_loss_terms(self.log_odds(delta), self.weight, self.positive)
        return terms, float(terms.loss.sum()) + 0.5 * RIDGE * float(delta @ delta)

    def moves(self, delta: Array, step: Array) -> float:
        """Return the largest change of a log-odds, relative to 1 and to the largest log-odds."""
        return float(np.abs(self.features @ step).max()) / (1.0 + float(np.abs(self.log_odds(delta)).max()))

    def newton_step(self, delta: Array, terms: Terms) -> tuple[Array, float]:
        """Return the step to the minimum of the quadratic model over the bounds, and the slope of the loss, ≤ 0."""
        gradient = self.gradient(delta, terms)
        hessian = self.features.T @ (terms.curvature[:, None] * self.features) + RIDGE * np.eye(len(delta))
        step, best = np.zeros_like(delta), 0.0
        for bounded in product(*((False, True) if np.isfinite(bound) else (False,) for bound in self.lower)):
            trial = _minimum_on_face(hessian, gradient, np.where(bounded, self.lower - delta, np.nan))
            value = float(gradient @ trial + 0.5 * trial @ hessian @ trial)
            if value < best and (bounded | (delta + trial >= self.lower)).all():
                step, best = trial, value
        return step, float(gradient @ step)

    def search(self, delta: Array, loss: float, step: Array, slope: float) -> tuple[Array, Terms, float, bool]:
        """Backtrack.

        If the expected decrease is below the rounding of the loss, the loss cannot be used for the comparison and
        the full step is taken: parameters in the hundreds that nearly cancel give log-odds, and so a loss, with
        rounding errors larger than the values themselves.
        """
        # to first order, the change of the loss if every term of a log-odds changed by its own size
        terms, _ = self.assess(delta)
        cancelling = float(np.abs(terms.excess) @ (np.abs(self.features) @ np.abs(delta)))
        blur = ROUNDING * (loss + cancelling)
        blur = np.inf if -slope <= blur else blur
        return backtrack(self.assess, lambda share: np.maximum(delta + share * step, self.lower), loss, slope, blur)

    def gradient(self, delta: Array, terms: Terms) -> Array:
        """Return the derivatives of the objective at δ, shape (m,)."""
        return terms.excess @ self.features + RIDGE * delta

    def violation(self, delta: Array, terms: Terms) -> float:
        """Return the largest violation of the optimality conditions, per unit of weight and of the features."""
        gradient = self.gradient(delta, terms)
        return float(np.abs(np.where(delta > self.lower, gradient, np.minimum(gradient, 0.0))).max())


def _minimum_on_face(hessian: Array, gradient: Array, fixed: Array) -> Array:
    """Return the minimum of ½ dᵀHd + gᵀd with the entries of d given where `fixed` is not NaN."""
    free = np.isnan(fixed)
    step = np.where(free, 0.0, fixed)
    if free.any():
        step[free] = np.linalg.solve(hessian[np.ix_(free, free)], -(gradient + hessian @ step)[free])
    return step
