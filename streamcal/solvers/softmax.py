"""Multinomial logistic regression on tables of weighted observations: damped Newton steps.

Symbols, for an observation n whose outcome is one of K classes:

    w_nk            the weight of the outcomes k;  w_n = Σ_k w_nk;  all of them together sum to 1
    z_nk = o_nk + Σ_i f_nki δ[place_ki]      the log-odds of class k, a function of the parameters δ that it uses
    q_nk = exp z_nk / Σ_j exp z_nj           the probability of class k
    c_i             the penalty of parameter i
    B               the sums of parameters that are penalised besides, each in a row

    min  F(δ) = −Σ w_nk log q_nk + ½ Σ_i c_i δ_i² + ½ |Bδ|²,      c_i >= RIDGE
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal.solvers.logistic import ACCEPTED_VIOLATION, RIDGE, ROUNDING, backtrack, descend
from streamcal.solvers.solution import Solution

Array = NDArray[np.float64]

#: Numbers of one piece of the features: 32 MB.
CHUNK = 4_000_000


class Part(NamedTuple):
    """Observations with the same K classes."""

    features: Array  #: f, of shape (n, K, d); a view may repeat one row of features for every class
    places: NDArray[np.intp]  #: indices of the parameters of each class, (K, d); no class uses a parameter twice
    offset: Array  #: o, the log-odds at δ = 0, (n, K)
    weight: Array  #: w ≥ 0, (n, K)


class _Terms(NamedTuple):
    """Probabilities q, residuals w_n q − w_nk and variances w_n q (1 − q), each of shape (n, K)."""

    q: Array
    excess: Array
    spread: Array


def fit_softmax(parts: Sequence[Part], penalty: Array, start: Array, sums: Array | None = None) -> Solution:
    """Find the minimum of F for observations grouped by their classes.

    `penalty` is c for weights that sum to 1, ≥ 0, to which RIDGE is added; `start` is used if it is better than 0;
    both, and δ, the `x` of the result, have shape (m,). `sums` is B, of shape (r, m); None for no rows. Cost of a
    Newton step: O(n K² d²) for the Hessian and O(m³) to solve for it. Memory O(n K d + m²).
    """
    total = float(sum(part.weight.sum() for part in parts))
    if not total > 0.0:
        return Solution(np.zeros_like(penalty), "no data", False, 0, 0.0)
    scaled = [part._replace(weight=part.weight / total) for part in parts]
    problem = _Problem(scaled, penalty + RIDGE, np.zeros((0, len(penalty))) if sums is None else sums)
    largest = ACCEPTED_VIOLATION * max(1.0, *(float(np.abs(part.features).max(initial=0.0)) for part in parts))
    return descend(problem, start, largest)


class _Problem:
    """The data of one fit, with weights that sum to 1."""

    def __init__(self, parts: list[Part], penalty: Array, sums: Array) -> None:
        self.parts = parts
        self.penalty = penalty
        self.sums = sums

    def assess(self, delta: Array) -> tuple[list[_Terms], float]:
        """Return the terms of every part at δ, and F(δ)."""
        terms, loss = [], 0.5 * float(self.penalty @ (delta * delta) + np.sum((self.sums @ delta) ** 2))
        for part in self.parts:
            own, lost = _terms(part.offset + _change(part, delta), part.weight)
            terms.append(own)
            loss += lost
        return terms, loss

    def gradient(self, delta: Array, terms: list[_Terms]) -> Array:
        """Return the derivatives of F at δ, shape (m,)."""
        gradient: Array = self.penalty * delta + (self.sums @ delta) @ self.sums
        for part, term in zip(self.parts, terms, strict=True):
            np.add.at(gradient, part.places, np.einsum("nkd,nk->kd", part.features, term.excess))
        return gradient

    def newton_step(self, delta: Array, terms: list[_Terms]) -> tuple[Array, float]:
        """Return the step to the minimum of the quadratic model of F, and the slope of F, ≤ 0."""
        gradient = self.gradient(delta, terms)
        step: Array = np.linalg.solve(self.hessian(terms), -gradient).astype(np.float64, copy=False)
        return step, float(gradient @ step)

    def hessian(self, terms: list[_Terms]) -> Array:
        """Return Σ_n Σ_jk w_n q_j (δ_jk − q_k) f_j f_kᵀ, a block for each pair of classes, plus the penalty."""
        hessian = np.diag(self.penalty) + self.sums.T @ self.sums
        for part, term in zip(self.parts, terms, strict=True):
            _, size, depth = part.features.shape
            whole = part.weight.sum(axis=1)
            blocks = np.zeros((size * depth, size * depth))
            own = np.zeros((size, depth, depth))
            for rows in _chunks(part):
                features, q = part.features[rows], term.q[rows]
                each = (features * q[:, :, None]).reshape(len(q), -1)
                blocks -= each.T @ (each * whole[rows, None])
                own += np.einsum("nk,nkd,nke->kde", term.spread[rows], features, features, optimize=True)
            for j in range(size):  # from w q (1 − q), which does not cancel where q is nearly 1
                place = slice(j * depth, (j + 1) * depth)
                blocks[place, place] = own[j]
            flat = part.places.reshape(-1)
            if len(np.unique(flat)) == len(flat):
                hessian[np.ix_(flat, flat)] += blocks
            else:  # a parameter belongs to several classes
                summed = np.zeros((len(hessian), size * depth))
                np.add.at(summed, flat, blocks)
                np.add.at(hessian.T, flat, summed.T)
        return hessian

    def moves(self, delta: Array, step: Array) -> float:
        """Return the largest change of a difference of two log-odds, relative to 1 and to the largest log-odds."""
        largest = 0.0
        for part in self.parts:
            moved = np.ptp(_change(part, step), axis=1).max(initial=0.0)
            largest = max(largest, float(moved) / (1.0 + float(np.abs(part.offset).max(initial=0.0))))
        return largest

    def search(self, delta: Array, loss: float, step: Array, slope: float) -> tuple[Array, list[_Terms], float, bool]:
        """Backtrack; take the full step where the expected decrease is below the rounding of the loss.

        As in logistic regression with one score, log-odds whose terms nearly cancel round by more than their size.
        """
        step_taken = backtrack(self.assess, lambda share: delta + share * step, loss, slope, ROUNDING * loss)
        if step_taken[-1] or -slope > ROUNDING * self._cancelling(delta):
            return step_taken
        return delta + step, *self.assess(delta + step), True

    def _cancelling(self, delta: Array) -> float:
        """Return the change of F, to first order, if every term of a log-odds changed by its own size."""
        terms, change = self.assess(delta)[0], 0.0
        for part, term in zip(self.parts, terms, strict=True):
            sizes = np.einsum("nkd,kd->nk", np.abs(part.features), np.abs(delta[part.places]))
            change += float((np.abs(term.excess) * sizes).sum())
        return change

    def violation(self, delta: Array, terms: list[_Terms]) -> float:
        """Return the largest absolute derivative of F, per unit of the penalty where that is above 1.

        With little weight the penalties are huge, and so is the rounding of their derivatives.
        """
        stiffness = self.penalty + (self.sums**2).sum(axis=0)
        return float((np.abs(self.gradient(delta, terms)) / np.maximum(stiffness, 1.0)).max())


def _change(part: Part, delta: Array) -> Array:
    """Return the change of the log-odds by δ, shape (n, K)."""
    return np.einsum("nkd,kd->nk", part.features, delta[part.places])


def _chunks(part: Part) -> Iterator[slice]:
    """Yield the observations in pieces whose features occupy at most CHUNK numbers."""
    size = max(CHUNK // max(int(np.prod(part.features.shape[1:])), 1), 1)
    for start in range(0, len(part.features), size):
        yield slice(start, start + size)


def _terms(z: Array, weight: Array) -> tuple[_Terms, float]:
    """Return probabilities, residuals, variances and the loss, accurate relative to the smaller of q and 1 − q.

    For the most likely class 1 − q is the sum of the other probabilities.
    """
    rows, top = np.arange(len(z)), z.argmax(axis=1)
    behind = z - z[rows, top][:, None]
    e = np.exp(behind)
    e[rows, top] = 0.0
    rest = e.sum(axis=1)
    q = e / (1.0 + rest)[:, None]
    others = weight.copy()
    others[rows, top] = 0.0
    whole = weight.sum(axis=1)
    excess = whole[:, None] * q - weight
    excess[rows, top] = others.sum(axis=1) - whole * (rest / (1.0 + rest))
    spread = whole[:, None] * q * (1.0 - q)
    spread[rows, top] = whole * (rest / (1.0 + rest)) / (1.0 + rest)
    q[rows, top] = 1.0 / (1.0 + rest)
    loss = float((weight * (np.log1p(rest)[:, None] - behind)).sum())
    return _Terms(q, excess, spread), loss
