# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Effects of fields, of their pairs and of the score on log-odds, learned together, and mixed with a chain of fields.

Symbols, z being the log-odds of the calibrator, x = z within ±16, and k the level at place j, which is a field, a pair
of fields, or, at the last place, the score, whose levels are bins of log-odds of width 1:

    H[k, g], E[k, g]     sums of natural parameters of term g: 0 an offset, 1 (of fields alone) a slope in x/2
    P[j, g]              1/τ², τ² being the variance of the levels: (4·0.02 + Σ C)/(4 + levels), and C = min(m², 16) + v
    m, v                 E/(H + P), 1/(H + P)
    s[j, g]              the share of a term: the probability that it improves the forecast, under fixed share
    f                    1 of an offset, x/2 of a slope
    u = z + Σ s·m·f      what is forecast; `end` = u + V·w·(y − σ(end)), V = Σ s·v·f², an implicit step
    W[a]                 the weights of the chain, of u, and of the mean of the log-odds of both, under fixed share

With r = w·(y − σ(end)), h = w·σ(end)(1 − σ(end)): H ← H + h·f², E ← E + f·r + h·f²·s·(m + v·f·r). A term is judged by
the forecast with all of it, u + (1 − s)·m·f, against that without, u − s·m·f.
"""

import cython
import numpy as np
from cython.cimports.libc.math import floor, log
from cython.cimports.streamcal.kernels.common.logistic import logit, sigmoid
from cython.cimports.streamcal.kernels.newton.implicit_regression import clamped, curvature, implicit, residual
from cython.cimports.streamcal.kernels.segments.observed_levels import LARGEST, MISSING, ObservedLevels

from streamcal.kernels.segments.observed_levels import SHARE

#: Numbers kept of a level: its weight; H and E of the offset, and of the slope; in single precision, C of both.
DOUBLES, WIDTH = 5, 7
#: The chain, the joint effects, and the mean of both in log-odds.
MIXED = 3
#: The weight of the chain at first; the others have equal parts of the rest.
CHAIN = 0.5
#: The share of each term at first.
PRIOR = 0.9

_SHARE = cython.declare(cython.double, SHARE)
_PRIOR = cython.declare(cython.double, PRIOR)
LIMIT = cython.declare(cython.double, 36.0)
"""Log-odds are clamped to ± this, as in the chain."""
ON_EDGE = cython.declare(cython.double, 1e-9)
"""Log-odds less than this below an edge are on it, as in `groups`."""
HEAVIEST = cython.declare(cython.double, 1e6)
"""Larger weights of observations are clipped to this."""
FURTHEST = cython.declare(cython.double, 4.0)
"""A retraction moves no mean further from 0."""


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _likelihood(y: cython.double, z: cython.double) -> cython.double:
    """Return the probability that log-odds z give to the label."""
    z = clamped(z, LIMIT)
    return sigmoid(z) if y > 0.0 else sigmoid(-z)


class JointEffects(ObservedLevels):
    """The levels of fields, pairs of fields and the score, and the weights of forecasts.

    Parameters
    ----------
    fields : int
        Their number, J.
    pairs : list of (int, int)
        The fields of each pair, K pairs.
    most : int
        The number of levels held of each place. The level longest without an outcome makes room for a new one, and is
        forgotten.

    Notes
    -----
    O(J + K) for a forecast and for an outcome; O(1) memory for a level.
    """

    def __init__(self, fields: cython.Py_ssize_t, pairs: list, most: cython.Py_ssize_t):
        prior = [CHAIN] + (MIXED - 1) * [(1.0 - CHAIN) / (MIXED - 1)]
        super().__init__(fields, fields + len(pairs) + 1, most, 2, (DOUBLES, 2, WIDTH - DOUBLES), [prior])
        self._ends = np.array(pairs, dtype=np.intp).reshape(-1, 2)
        self._shares = np.full((self.size, 2), PRIOR)
        self._added, self._features = np.zeros((self.size, 2)), np.ones(2)
        self._log_odds, self._chances = np.zeros(MIXED), np.zeros((1, MIXED))

    # -- forecasts -------------------------------------------------------------------------------------------------

    def predict(self, p: cython.double, chain: cython.double, levels: list):
        """Return the probability, from those of the calibrator, p, and of the chain, for the levels of the fields."""
        self._find_all(levels)
        self._look(p, chain)
        return sigmoid(self._mixed())

    def parts(self, p: cython.double, chain: cython.double, levels: list):
        """Return the same, and the log-odds of the chain and of the joint effects."""
        probability = self.predict(p, chain, levels)
        return probability, [float(self._log_odds[0]), float(self._log_odds[1])]

    def predict_many(
        self,
        p: cython.const[cython.double][::1],
        columns: list,
        probabilities: cython.double[::1],
    ):
        """`predict` for each of n rows. `probabilities` contains those of the chain, which are replaced."""
        i: cython.Py_ssize_t
        self._require_length(columns, p.shape[0])
        for i in range(p.shape[0]):
            self._find_row(columns, i)
            self._find_pairs()
            self._look(p[i], probabilities[i])
            probabilities[i] = sigmoid(self._mixed())

    def _find_pairs(self):
        """Set the levels of pairs, from those of their fields."""
        i: cython.Py_ssize_t
        for i in range(self._ends.shape[0]):
            first, second = self._level[self._ends[i, 0]], self._level[self._ends[i, 1]]
            self._find(self._fields + i, None if first is None or second is None else (first, second))

    def _find_all(self, levels: list):
        self._find_fields(levels)
        self._find_pairs()

    def _look(self, p: cython.double, chain: cython.double):
        """Set what the terms add, and the log-odds that are mixed, once the levels of fields and pairs are set."""
        j: cython.Py_ssize_t
        g: cython.Py_ssize_t
        k: cython.Py_ssize_t
        u: cython.double = clamped(logit(p), LIMIT)
        x: cython.double = clamped(u, LARGEST)
        bin_of: cython.longlong = cython.cast(cython.longlong, floor(x + ON_EDGE))
        self._features[1] = 0.5 * x
        self._find(self.size - 1, bin_of)
        for j in range(self.size):
            k = self._slot[j]
            for g in range(self._terms(j)):
                self._added[j, g] = 0.0 if k < 0 else self._features[g] * self._mean(j, k, g)
                u += self._shares[j, g] * self._added[j, g]
        self._set_log_odds(clamped(logit(chain), LIMIT), clamped(u, LIMIT))

    def _set_log_odds(self, chain: cython.double, u: cython.double) -> cython.void:
        """Set the log-odds that are mixed."""
        self._log_odds[0] = chain
        self._log_odds[1] = u
        self._log_odds[2] = 0.5 * (chain + u)

    def _terms(self, j: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Offset and slope of a field, and the offset alone of others."""
        return 2 if j < self._fields else 1

    def _mean(self, j: cython.Py_ssize_t, k: cython.Py_ssize_t, g: cython.Py_ssize_t) -> cython.double:
        """Return m of the level in slot k."""
        return self._values[k, 2 + 2 * g] / (self._values[k, 1 + 2 * g] + self._precision[j, g])

    def _mixed(self) -> cython.double:
        """Return the log-odds of the mixture."""
        a: cython.Py_ssize_t
        positive: cython.double = 0.0
        negative: cython.double = 0.0
        for a in range(3):
            positive += self._weights[0, a] * sigmoid(self._log_odds[a])
            negative += self._weights[0, a] * sigmoid(-self._log_odds[a])
        return clamped(log(positive / negative), LIMIT)

    # -- outcomes --------------------------------------------------------------------------------------------------

    def learn(self, p: cython.double, chain: cython.double, levels: list, y: cython.double, w: cython.double):
        """Learn the label y, of weight w > 0; `chain` is the probability of the chain before it learned the label."""
        self._find_all(levels)
        self._look(p, chain)
        self._learn(y, w, 1.0)

    def learn_issued(
        self,
        p: cython.double,
        levels: list,
        issued: list,
        y: cython.double,
        w: cython.double,
        rate: cython.double,
    ):
        """Learn as `learn` does, but judge W by the forecasts that were issued, with learning rate `rate`.

        The terms are judged by their present forecasts, at that rate.
        """
        u: cython.double
        self._find_all(levels)
        self._look(p, 0.5)
        u = self._log_odds[1]
        self._set_log_odds(issued[0], issued[1])
        self._judge_mixed(y, rate * min(w, HEAVIEST))
        self._log_odds[1] = u
        self._step(y, w, rate)

    def stream(
        self,
        p: cython.const[cython.double][::1],
        chain: cython.const[cython.double][::1],
        columns: list,
        y: cython.const[cython.double][::1],
        w: cython.const[cython.double][:],
        predictions: cython.double[::1],
    ):
        """`predict`, unless `predictions` is empty, and then `learn`, for each of n rows; none of weight 0."""
        i: cython.Py_ssize_t
        predicts: cython.bint = predictions.shape[0] > 0
        self._require_length(columns, p.shape[0])
        for i in range(p.shape[0]):
            self._find_row(columns, i)
            self._find_pairs()
            self._look(p[i], chain[i])
            if predicts:
                predictions[i] = sigmoid(self._mixed())
            if w[i] > 0.0:
                self._learn(y[i], w[i], 1.0)

    def _learn(self, y: cython.double, w: cython.double, rate: cython.double):
        """Learn a label once `_look` has set the forecasts."""
        self._judge_mixed(y, rate * min(w, HEAVIEST))
        self._step(y, w, rate)

    def _judge_mixed(self, y: cython.double, w: cython.double) -> cython.void:
        """Update W by the probabilities that the mixed forecasts give to the label, to the power w."""
        a: cython.Py_ssize_t
        for a in range(3):
            self._chances[0, a] = _likelihood(y, self._log_odds[a])
        self._judge(0, self._chances, w)

    def _step(self, y: cython.double, w: cython.double, rate: cython.double):
        """Move the terms of all levels, which are then the newest, and the shares."""
        j: cython.Py_ssize_t
        g: cython.Py_ssize_t
        k: cython.Py_ssize_t
        f: cython.double
        precision: cython.double
        weight: cython.double = min(w, HEAVIEST)
        u: cython.double = self._log_odds[1]
        variance: cython.double = 0.0
        for j in range(self.size):
            k = self._slot[j]
            if k != MISSING:
                for g in range(self._terms(j)):
                    f = self._features[g]
                    precision = self._precision[j, g] + (self._values[k, 1 + 2 * g] if k >= 0 else 0.0)
                    variance += self._shares[j, g] * f * f / precision
        end: cython.double = implicit(u, weight * variance, y)
        r: cython.double = weight * residual(y, end)
        h: cython.double = weight * curvature(end)
        for j in range(self.size):
            if self._slot[j] != MISSING:
                k = self._use(j)
                self._values[k, 0] += w
                for g in range(self._terms(j)):
                    self._move(j, k, g, r, h)
                    self._weigh(j, k, g)
                    if self._added[j, g] != 0.0:
                        self._judge_term(j, g, u, y, rate * weight)
                self._weigh_levels(j)

    def _move(
        self, j: cython.Py_ssize_t, k: cython.Py_ssize_t, g: cython.Py_ssize_t, r: cython.double, h: cython.double
    ) -> cython.void:
        """Make the step of one term of a level."""
        f: cython.double = self._features[g]
        precision: cython.double = self._values[k, 1 + 2 * g] + self._precision[j, g]
        mean: cython.double = (self._values[k, 2 + 2 * g] + f * r) / precision
        self._values[k, 1 + 2 * g] += h * f * f
        self._values[k, 2 + 2 * g] += f * r + h * f * f * self._shares[j, g] * mean

    def _judge_term(
        self, j: cython.Py_ssize_t, g: cython.Py_ssize_t, u: cython.double, y: cython.double, w: cython.double
    ) -> cython.void:
        """Set the share of a term, by the forecasts with all of it and without it, to the power w."""
        s: cython.double = self._shares[j, g]
        part: cython.double = s * _likelihood(y, u + (1.0 - s) * self._added[j, g])
        rest: cython.double = (1.0 - s) * _likelihood(y, u - s * self._added[j, g])
        if w == 1.0:
            s = part / (part + rest)
        else:
            odds: cython.double = s / (1.0 - s)
            s = sigmoid(log(odds) + w * log(part / (rest * odds)))
        self._shares[j, g] = (1.0 - _SHARE) * s + _SHARE * _PRIOR

    def unlearn(self, p: cython.double, levels: list, y: cython.double, w: cython.double):
        """Subtract from the sums of each level what the observation adds where the means are now.

        Shares and W keep what they have learned. Levels that are not held are passed, and one without any weight left
        is dropped.
        """
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        g: cython.Py_ssize_t
        weight: cython.double = min(w, HEAVIEST)
        self._find_all(levels)
        self._look(p, 0.5)
        end: cython.double = self._log_odds[1]
        r: cython.double = weight * residual(y, end)
        h: cython.double = weight * curvature(end)
        for j in range(self.size):
            k = self._slot[j]
            if k >= 0:
                self._values[k, 0] -= w
                if self._values[k, 0] <= 1e-9 * w:  # rounding of sums of fractions
                    self._drop(j, k)
                else:
                    for g in range(self._terms(j)):
                        self._take(j, k, g, r, h)
                        self._weigh(j, k, g)
                self._weigh_levels(j)

    def _take(
        self, j: cython.Py_ssize_t, k: cython.Py_ssize_t, g: cython.Py_ssize_t, r: cython.double, h: cython.double
    ) -> cython.void:
        """`unlearn` of one term of a level."""
        f: cython.double = self._features[g]
        mean: cython.double = self._mean(j, k, g)
        taken: cython.double = min(h * f * f, self._values[k, 1 + 2 * g])
        total: cython.double = self._values[k, 2 + 2 * g] - f * r - taken * self._shares[j, g] * mean
        limit: cython.double
        self._values[k, 1 + 2 * g] -= taken
        limit = max(abs(mean), FURTHEST) * (self._values[k, 1 + 2 * g] + self._precision[j, g])
        self._values[k, 2 + 2 * g] = max(-limit, min(limit, total))

    # -- what is known ---------------------------------------------------------------------------------------------

    def weights(self):
        """W, a list."""
        return self._weights_of(0)

    def shares(self, j: cython.Py_ssize_t):
        """Return s of offset and slope at a place, a list."""
        return [float(self._shares[j, 0]), float(self._shares[j, 1])]

    def variance(self, j: cython.Py_ssize_t):
        """τ² of the offsets at a place."""
        return float(1.0 / self._precision[j, 0])

    # -- merging and saving ----------------------------------------------------------------------------------------

    def merge(self, of: object):
        """Add the sums of others of the same fields; W and s are multiplied, relative to the prior, and shared once.

        Levels of the other are then newer than those held, and in their own order.
        """
        other: JointEffects = of
        a: cython.Py_ssize_t
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        g: cython.Py_ssize_t
        total: cython.double = 0.0
        if other.size != self.size:
            raise ValueError(f"effects at {other.size} places are not those of {self.size}")
        for j in range(self.size):
            for level in other._table.levels(j):
                self._find(j, level)
                k = self._use(j)
                self._add(k, other._values[other._table.find(j, level)])
                for g in range(self._terms(j)):
                    self._weigh(j, k, g)
            self._weigh_levels(j)
            for g in range(2):
                part: cython.double = self._shares[j, g] * other._shares[j, g] / _PRIOR
                rest: cython.double = (1.0 - self._shares[j, g]) * (1.0 - other._shares[j, g]) / (1.0 - _PRIOR)
                self._shares[j, g] = (1.0 - _SHARE) * (part / (part + rest)) + _SHARE * _PRIOR
        for a in range(3):
            self._weights[0, a] *= other._weights[0, a] / self._prior[0, a]
            total += self._weights[0, a]
        for a in range(3):
            self._weights[0, a] = (1.0 - _SHARE) * (self._weights[0, a] / total) + _SHARE * self._prior[0, a]
        self.evicted += other.evicted

    def state(self):
        """[W, [s, Σ C, levels, their numbers] of each place] for `load`; the newest level last."""
        places: list = []
        for j in range(self.size):
            levels = self._table.levels(j)
            places.append([self.shares(j), np.asarray(self._sums[j]).tolist(), levels, self._rows(levels, j)])
        return [self.weights(), places]

    def load(self, weights: object, places: object):
        """Load an earlier `state` into effects that have no levels; `ValueError` if it is of another size."""
        a: cython.Py_ssize_t
        if len(weights) != MIXED or len(places) != self.size:
            raise ValueError(f"expected {MIXED} weights and {self.size} places")
        self._load_weights(0, weights)
        for j, (shares, sums, levels, rows) in enumerate(places):
            if np.shape(rows) not in ((0,), (len(levels), WIDTH)) or len(levels) > self._table.most:
                raise ValueError(f"expected {WIDTH} numbers for each of at most {self._table.most} levels")
            self._load(j, levels, rows, sums)
            for a in range(2):
                self._shares[j, a] = shares[a]
            self._weigh_levels(j)
