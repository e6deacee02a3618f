# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
# cython: infer_types=True
"""Platt scaling by Newton's method, on a table of distinct scores.

Symbols, after paper 003 section 5.1 with the sign of the slope turned, so that p grows with the score:

    x_j            the distinct scores (features), with negative weight neg_j and positive weight pos_j
    t_plus, t_minus   the regularised targets of the two classes, eqs. (6) and (7)
    w_j = neg_j + pos_j,   a_j = pos_j t_plus + neg_j t_minus,   all divided by Σw
    p_j = 1 / (1 + exp(−η_j)),   η_j = A x_j + B
    minimise  L(A, B) = −Σ a_j log p_j + (w_j − a_j) log(1 − p_j) = Σ w_j log(1 + exp η_j) − a_j η_j,   A ≥ 0

Internally z = (x − mean) / deviation and η = α z + β, so that the problem is well-conditioned for scores near ±700
and for scores within 1e-9 of each other.

L is convex, and at A = 0 its minimum over B is at the log-odds of Σa. So the sign of ∂L/∂A there decides whether
A = 0 is the solution; if not, the minimum has A > 0 and needs no constraint.
"""

import cython
import numpy as np
from cython.cimports.libc.math import exp, fabs, isfinite, log, log1p, sqrt

SOLVED, NO_DATA, ITERATION_LIMIT, NOT_FINITE = 0, 1, 2, 3
STATUS = ("solved", "no data", "iteration limit", "not finite", "unbounded")

MAX_ITERATIONS = cython.declare(cython.int, 100)
MAX_HALVINGS = cython.declare(cython.int, 40)
# Of the loss, relative to its terms.
ROUNDING = cython.declare(cython.double, 1e-14)
# The gradient is per unit of weight. Below the floor a step changes nothing in the last place; where rounding
# stops all progress earlier, the point is accepted below the tolerance.
GRADIENT_FLOOR = cython.declare(cython.double, 1e-16)
GRADIENT_TOLERANCE = cython.declare(cython.double, 1e-12)
# A step changes no η by more than this plus the largest |η|: where all p are near 0 or 1 the curvature is nearly 0,
# and a full step could overflow.
LONGEST_STEP = cython.declare(cython.double, 5.0)
# Scores whose standard deviation is below this are treated as one score: a slope between them is not finite.
SMALLEST_DEVIATION = cython.declare(cython.double, 1e-290)


@cython.cclass
class SigmoidFit:
    """One problem: the scaled table, and the current point with its derivatives."""

    size: cython.Py_ssize_t
    mean: cython.double
    deviation: cython.double
    low: cython.double  # smallest and largest z
    high: cython.double
    share: cython.double  # Σ a
    slope: cython.double  # −∂L/∂α at α = 0
    loss: cython.double
    blur: cython.double  # rounding of the loss, also where α z and β cancel
    gradient: cython.double  # ∂L/∂α after eliminating β: Σ (w p − a)(z − z̄), z̄ the curvature-weighted mean
    gradient_beta: cython.double
    norm: cython.double
    center: cython.double  # z̄
    curvature: cython.double  # Σ w p (1 − p) (z − z̄)²
    curvature_beta: cython.double
    z: cython.double[::1]
    w: cython.double[::1]
    a: cython.double[::1]
    excess: cython.double[::1]  # w p − a
    curve: cython.double[::1]  # w p (1 − p)

    def __init__(self, size: cython.Py_ssize_t):
        self.size = size
        self.z, self.w, self.a = np.zeros(size).data, np.zeros(size).data, np.zeros(size).data
        self.excess, self.curve = np.zeros(size).data, np.zeros(size).data
        self.norm = 1.0

    @cython.cfunc
    def describe(
        self,
        x: cython.const[cython.double][::1],
        neg: cython.const[cython.double][::1],
        pos: cython.const[cython.double][::1],
        t_plus: cython.double,
        t_minus: cython.double,
    ) -> cython.int:
        """Set the scaled table, and its loss and derivative at α = 0."""
        total, mean = 0.0, 0.0
        for j in range(self.size):
            total = total + (neg[j] + pos[j])
        if total == 0.0:
            return 1
        for j in range(self.size):
            self.w[j] = (neg[j] + pos[j]) / total
            self.a[j] = pos[j] / total * t_plus + neg[j] / total * t_minus
            mean = mean + (x[j] - x[0]) * self.w[j]
        mean = x[0] + mean
        if not (isfinite(total) and isfinite(mean) and total > 0.0):
            return 3
        spread, largest = 0.0, 0.0
        for j in range(self.size):
            self.z[j] = x[j] - mean if self.w[j] > 0.0 else 0.0
            largest = max(largest, fabs(self.z[j]))
        if largest > 0.0:
            for j in range(self.size):
                spread = spread + self.w[j] * (self.z[j] / largest) * (self.z[j] / largest)
        self.mean, self.deviation = mean, sqrt(spread) * largest
        if not isfinite(self.deviation):
            return 3
        one_score = self.deviation < SMALLEST_DEVIATION
        share, slope = 0.0, 0.0
        self.low, self.high = 0.0, 0.0
        for j in range(self.size):
            self.z[j] = 0.0 if one_score else self.z[j] / self.deviation
            self.low, self.high = min(self.low, self.z[j]), max(self.high, self.z[j])
            share = share + self.a[j]
        for j in range(self.size):
            slope = slope + (self.a[j] - self.w[j] * share) * self.z[j]
        share = min(max(share, min(t_minus, t_plus)), max(t_minus, t_plus))  # it is their mean; its sum may round to 1
        self.share, self.slope = share, slope
        return 0 if 0.0 < share < 1.0 else 4

    @cython.cfunc
    def assess(self, alpha: cython.double, beta: cython.double) -> cython.void:
        """Return the loss and its derivatives at (α, β), with sums about z̄ to avoid cancellation."""
        loss, g, h, hz, moved = 0.0, 0.0, 0.0, 0.0, 0.0
        for j in range(self.size):
            w, a, z = self.w[j], self.a[j], self.z[j]
            eta = alpha * z + beta
            e = exp(-fabs(eta))
            # the smaller of p and 1 − p; with it all terms of the loss are positive, and w p − a is accurate
            tail = e / (1.0 + e)
            curve = w * tail / (1.0 + e)
            if eta > 0.0:
                loss = loss + (w * log1p(e) + (w - a) * eta)
                excess = (w - a) - w * tail
            else:
                loss = loss + (w * log1p(e) - a * eta)
                excess = w * tail - a
            self.excess[j], self.curve[j] = excess, curve
            moved = moved + fabs(excess) * (fabs(alpha * z) + fabs(beta))
            g, h, hz = g + excess, h + curve, hz + curve * z
        center = hz / h if h > 0.0 else 0.0
        gz, hzz = 0.0, 0.0
        for j in range(self.size):
            z = self.z[j] - center
            gz = gz + self.excess[j] * z
            hzz = hzz + self.curve[j] * z * z
        self.loss, self.center = loss, center
        self.blur = ROUNDING * (loss + moved)
        self.gradient, self.gradient_beta = gz, g
        self.curvature, self.curvature_beta = hzz, h
        self.norm = max(fabs(gz + center * g), fabs(g))

    @cython.cfunc
    def reach(self, alpha: cython.double, beta: cython.double) -> cython.double:
        """Largest |α z + β|, attained at one of the two ends."""
        return max(fabs(alpha * self.low + beta), fabs(alpha * self.high + beta))

    @cython.cfunc
    def newton(self, alpha: cython.double, beta: cython.double):
        """Damped Newton from (α, β), for which `assess` was called.

        A step is accepted if it lowers L or, if L is equal up to rounding, the gradient, or if its slope along the step
        says so.
        """
        iterations: cython.int = 0
        while iterations < MAX_ITERATIONS and self.norm > GRADIENT_FLOOR:
            iterations += 1
            if self.curvature > 0.0 and self.curvature_beta > 0.0:
                d0 = -self.gradient / self.curvature
                d1 = -self.gradient_beta / self.curvature_beta - self.center * d0
            else:
                d0, d1 = -self.gradient - self.center * self.gradient_beta, -self.gradient_beta
            gain = d0 * (self.gradient + self.center * self.gradient_beta) + d1 * self.gradient_beta
            loss, norm, blur = self.loss, self.norm, self.blur
            step = min(1.0, (LONGEST_STEP + self.reach(alpha, beta)) / max(self.reach(d0, d1), 1e-300))
            for _k in range(MAX_HALVINGS):
                self.assess(alpha + step * d0, beta + step * d1)
                if self.loss < loss + 1e-4 * step * gain:
                    break
                if self.loss <= loss + blur:
                    # L is convex: where it changes by less than its rounding, it has decreased if it still falls at
                    # the end of the step, and has hardly increased if it rises there by less than it fell
                    end = d0 * (self.gradient + self.center * self.gradient_beta) + d1 * self.gradient_beta
                    if self.norm < 0.5 * norm or end < -0.5 * gain:
                        break
                step = 0.5 * step
            else:
                self.assess(alpha, beta)
                break
            alpha, beta = alpha + step * d0, beta + step * d1
        return alpha, beta, iterations


def fit(
    x: cython.const[cython.double][::1],
    neg: cython.const[cython.double][::1],
    pos: cython.const[cython.double][::1],
    t_plus: cython.double,
    t_minus: cython.double,
    slope0: cython.double = 0.0,
    offset0: cython.double = 0.0,
):
    """Minimise L from the warm start (slope0, offset0).

    Returns (slope A, offset B, status, iterations, gradient norm per unit of weight in the scaled problem).
    O(len(x)) per iteration: none or one from the previous solution, about five from a cold start.
    """
    if not x.shape[0] == neg.shape[0] == pos.shape[0]:
        raise ValueError(f"lengths differ: {x.shape[0]}, {neg.shape[0]}, {pos.shape[0]}")
    table: SigmoidFit = SigmoidFit(x.shape[0])
    status = table.describe(x, neg, pos, t_plus, t_minus)
    if status != SOLVED:
        return 0.0, 0.0, status, 0, 0.0
    base: cython.double = log(table.share / (1.0 - table.share))
    if table.slope <= 0.0:
        return 0.0, base, SOLVED, 0, 0.0
    # L at α = 0, the cold start; a warm start that is no better is not worth a step
    cold: cython.double = -table.share * log(table.share) - (1.0 - table.share) * log1p(-table.share)
    alpha: cython.double = slope0 * table.deviation
    beta: cython.double = offset0 + slope0 * table.mean
    iterations: cython.int = 0
    if isfinite(alpha) and isfinite(beta) and alpha > 0.0:
        table.assess(alpha, beta)
        if table.loss < cold:
            alpha, beta, iterations = table.newton(alpha, beta)
    if not table.norm <= GRADIENT_TOLERANCE:
        table.assess(0.0, base)
        alpha, beta, iterations = table.newton(0.0, base)
    status = SOLVED if table.norm <= GRADIENT_TOLERANCE else ITERATION_LIMIT
    slope: cython.double = alpha / table.deviation
    return slope, beta - slope * table.mean, status, iterations, table.norm
