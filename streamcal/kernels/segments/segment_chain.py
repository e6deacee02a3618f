# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Two chains of corrections by the levels of an observation, and their mixture.

The first order corrects the forecast of a calibrator, field by field. The second corrects the score, field by field,
and then for all traffic, which is one more place with a single level. Symbols, z being the log-odds that reach a place
and k the level that it has; those of its members are in `level_members`:

    W[r, a]                  the weight of member a in mixture r, under fixed share: r is j for field j in the first
                             order, J + j in the second, of J fields; the last mixture is that of both orders

A place forecasts Σ W[a]·σ(z + m[a]), and its log-odds reach the next place of its order.
"""

import cython
import numpy as np
from cython.cimports.libc.math import exp, log
from cython.cimports.streamcal.kernels.common.logistic import logit, sigmoid
from cython.cimports.streamcal.kernels.newton.implicit_regression import clamped
from cython.cimports.streamcal.kernels.segments.level_members import (
    ALL_TWICE,
    FIRST_LINE,
    FIRST_OWN,
    LONG_TWICE,
    SECOND_LINE,
    LevelMembers,
)
from cython.cimports.streamcal.kernels.segments.level_table import UNKNOWN
from cython.cimports.streamcal.kernels.segments.observed_levels import LARGEST, MISSING

from streamcal.kernels.segments.level_members import HEAVIEST, LONG, MEMBERS, MIXED, NOTHING, SECOND, SHORT, WIDTH

#: Log-odds are clamped to ± this, so that a forecast is never 0 or 1; the last double below 1 is at 36.7.
LIMIT = 36.0
#: The only level of all traffic.
ALL_TRAFFIC = 0

_MEMBERS = cython.declare(cython.Py_ssize_t, MEMBERS)
_SECOND = cython.declare(cython.Py_ssize_t, SECOND)
_MIXED = cython.declare(cython.Py_ssize_t, MIXED)
_LONG = cython.declare(cython.double, LONG)
_SHORT = cython.declare(cython.double, SHORT)
_LIMIT = cython.declare(cython.double, LIMIT)
_HEAVIEST = cython.declare(cython.double, HEAVIEST)
LEAST = cython.declare(cython.double, 1e-100)
"""Merging leaves each member at least this weight: products over hundreds of chains would be 0."""


def _prior(members):
    """Return the weights of a mixture at first."""
    return [NOTHING] + (members - 1) * [(1.0 - NOTHING) / (members - 1)]


class SegmentChain(LevelMembers):
    """The members and levels of the fields, in both orders.

    Parameters
    ----------
    fields : int
        Their number, J.
    most : int
        The number of levels held of each field. The level longest without an outcome makes room for a new one; it is
        forgotten, or where there is a store (`keep_in`) written to it, and read back when it is seen again.

    Notes
    -----
    Levels are those of a `LevelTable`, None where a field has none: the forecast passes such a field, and one whose
    level is not held. O(J) for a forecast and for an outcome; O(1) memory for a level.
    """

    def __init__(self, fields: cython.Py_ssize_t, most: cython.Py_ssize_t):
        prior = fields * [_prior(MEMBERS)] + (fields + 1) * [_prior(SECOND)] + [[0.5, 0.5]]
        super().__init__(fields, most, prior)
        self.most = most
        self._own = np.zeros(MIXED)
        self._z = np.zeros(len(prior))
        self._log_odds, self._chances = np.zeros((len(prior), MEMBERS)), np.zeros((len(prior), MEMBERS))
        self._positive, self._negative = np.zeros((len(prior), MEMBERS)), np.zeros((len(prior), MEMBERS))
        self._find(fields, ALL_TRAFFIC)

    # -- forecasts -------------------------------------------------------------------------------------------------

    def predict(self, p: cython.double, score: cython.double, levels: list):
        """Return the probability for an observation of these levels, p being that of the calibrator.

        `score` is the score read as a probability.
        """
        self._find_fields(levels)
        return sigmoid(self._look(p, score))

    def numbers(self, levels):
        """Return how many numbers `issue` writes for an observation of these levels."""
        j: cython.Py_ssize_t
        size: cython.Py_ssize_t = _SECOND + 2
        for j in range(len(levels)):
            size += 0 if levels[j] is None else _MEMBERS + _SECOND
        return size

    def issue(self, p, score, levels, record: cython.double[::1], begin):
        """Return what `predict` returns, and write what `learn_issued` judges to `record`, from `begin` on.

        That is the log-odds of all members: for each field that has a level, those of the first and of the second
        order; those of all traffic; and those of both orders.
        """
        j: cython.Py_ssize_t
        last: cython.Py_ssize_t = 2 * self._fields + 1
        self._find_fields(levels)
        issued: cython.double = sigmoid(self._look(p, score))
        for j in range(self._fields):
            if self._slot[j] != MISSING:
                self._set_unknown(j)
                begin = self._write(j, MIXED, record, begin)
                record[begin] = clamped(log(self._positive[j, _MIXED] / self._negative[j, _MIXED]), _LIMIT)
                begin = self._write(self._fields + j, SECOND, record, begin + 1)
        self._set_unknown(self._fields)
        self._write(last, 2, record, self._write(last - 1, SECOND, record, begin))
        return issued

    def _write(self, r, size, record, begin):
        """Write the log-odds of the first members of a mixture, and return where they end."""
        a: cython.Py_ssize_t
        for a in range(size):
            record[begin + a] = self._log_odds[r, a]
        return begin + size

    def parts(self, p: cython.double, score: cython.double, levels: list):
        """Return what `issue` returns and what it writes, a list."""
        record = np.empty(self.numbers(levels))
        return self.issue(p, score, levels, record, 0), record.tolist()

    def predict_many(
        self,
        p: cython.const[cython.double][::1],
        scores: cython.const[cython.double][::1],
        columns: list,
        probabilities: cython.double[::1],
    ):
        """`predict` for each of n rows; `columns` has a list of n levels for each field."""
        i: cython.Py_ssize_t
        self._require_length(columns, p.shape[0])
        for i in range(p.shape[0]):
            self._find_row(columns, i)
            probabilities[i] = sigmoid(self._look(p[i], scores[i]))

    def _look(self, p: cython.double, score: cython.double) -> cython.double:
        """Return the log-odds of the mixture of both orders."""
        j: cython.Py_ssize_t
        r: cython.Py_ssize_t = self._fields
        z: cython.double = clamped(logit(p), _LIMIT)
        first: cython.double
        for j in range(self._fields):
            self._z[j] = z
            if self._slot[j] >= 0:
                self._set_first(j, self._slot[j], z)
                z = self._mix(j, _MEMBERS)
        first = z
        z = clamped(logit(score), _LIMIT)
        for j in range(self.size):
            self._z[r] = z
            if self._slot[j] >= 0:
                self._set_second(r, j, self._slot[j], z)
                z = self._mix(r, _SECOND)
            r += 1
        self._set_member(r, 0, first)
        self._set_member(r, 1, z)
        return self._mix(r, 2)

    def _set_first(self, j: cython.Py_ssize_t, k: cython.Py_ssize_t, z: cython.double) -> cython.void:
        """Set the log-odds of the first order's members for the level in slot k."""
        a: cython.Py_ssize_t
        precision: cython.double = self._precision[j, 0]
        positive: cython.double = 0.0
        negative: cython.double = 0.0
        self._set_member(j, 0, z)
        self._set_member(j, 1, z + self._offset(k, 1, precision))
        self._set_member(j, 2, z + self._values[k, 4] / self._certainty(k, 3, _LONG, precision))
        self._set_member(j, 3, z + self._values[k, 6] / self._certainty(k, 5, _SHORT, precision))
        self._set_member(j, 4, z + self._offset(k, 1, 1.0))
        self._set_member(j, 5, z + self._line(k, FIRST_LINE, clamped(z, LARGEST)))
        for a in range(_MIXED):
            positive += float(self._singles[k, FIRST_OWN + a]) * self._positive[j, a]
            negative += float(self._singles[k, FIRST_OWN + a]) * self._negative[j, a]
        self._positive[j, _MIXED] = positive / (positive + negative)
        self._negative[j, _MIXED] = negative / (positive + negative)

    def _set_second(
        self, r: cython.Py_ssize_t, j: cython.Py_ssize_t, k: cython.Py_ssize_t, z: cython.double
    ) -> cython.void:
        """Set the log-odds of the second order's members for the level in slot k."""
        precision: cython.double = self._precision[j, 1]
        self._set_member(r, 0, z)
        self._set_member(r, 1, z + self._offset(k, ALL_TWICE, precision))
        self._set_member(r, 2, z + self._values[k, LONG_TWICE + 1] / self._certainty(k, LONG_TWICE, _LONG, precision))
        self._set_member(r, 3, z + self._line(k, SECOND_LINE, clamped(z, LARGEST)))

    def _set_member(self, r: cython.Py_ssize_t, a: cython.Py_ssize_t, z: cython.double) -> cython.void:
        """Set the log-odds and the probabilities of a member."""
        z = clamped(z, _LIMIT)
        e: cython.double = exp(-abs(z))
        large: cython.double = 1.0 / (1.0 + e)
        self._log_odds[r, a] = z
        self._positive[r, a] = large if z >= 0.0 else e * large
        self._negative[r, a] = e * large if z >= 0.0 else large

    def _set_unknown(self, j: cython.Py_ssize_t) -> cython.void:
        """Let all members forecast what reaches the place, if its level is unknown."""
        a: cython.Py_ssize_t
        if self._slot[j] == UNKNOWN:
            if j < self._fields:
                for a in range(_MEMBERS):
                    self._set_member(j, a, self._z[j])
            for a in range(_SECOND):
                self._set_member(self._fields + j, a, self._z[self._fields + j])

    def _mix(self, r: cython.Py_ssize_t, size: cython.Py_ssize_t) -> cython.double:
        """Return the log-odds of a mixture."""
        a: cython.Py_ssize_t
        positive: cython.double = 0.0
        negative: cython.double = 0.0
        for a in range(size):
            positive += self._weights[r, a] * self._positive[r, a]
            negative += self._weights[r, a] * self._negative[r, a]
        return clamped(log(positive / negative), _LIMIT)

    # -- outcomes --------------------------------------------------------------------------------------------------

    def learn(self, p: cython.double, score: cython.double, levels: list, y: cython.double, w: cython.double):
        """One step on the label y, of weight w > 0."""
        self._find_fields(levels)
        self._look(p, score)
        self._learn_all(y, w)

    def learn_issued(self, p, score, levels, record: cython.const[cython.double][:], begin, y, w, rate):
        """Learn as `learn` does, but judge the members by what `issue` wrote to `record`, from `begin` on.

        p is the present forecast of the calibrator, from which members step; `rate` is the learning rate of weights.
        """
        j: cython.Py_ssize_t
        self._find_fields(levels)
        if begin + self.numbers(levels) > record.shape[0]:
            raise ValueError(f"expected {self.numbers(levels)} numbers, the log-odds of all members")
        self._look(p, score)
        for j in range(self._fields):
            if self._slot[j] != MISSING:
                begin = self._set_issued(j, MEMBERS, record, begin, y)
                begin = self._set_issued(self._fields + j, SECOND, record, begin, y)
                self._learn(j, self._chances, y, w, rate)
        begin = self._set_issued(2 * self._fields, SECOND, record, begin, y)
        self._set_issued(2 * self._fields + 1, 2, record, begin, y)
        self._learn(self._fields, self._chances, y, w, rate)
        self._judge(2 * self._fields + 1, self._chances, rate * min(w, _HEAVIEST))

    def _set_issued(self, r, size, record, begin, y):
        """Set the probabilities that issued log-odds of a mixture gave to the label, and return where they end."""
        a: cython.Py_ssize_t
        z: cython.double
        for a in range(size):
            z = clamped(record[begin + a], _LIMIT)
            self._chances[r, a] = sigmoid(z) if y > 0.0 else sigmoid(-z)
        return begin + size

    def stream(
        self,
        p: cython.const[cython.double][::1],
        scores: cython.const[cython.double][::1],
        columns: list,
        y: cython.const[cython.double][::1],
        w: cython.const[cython.double][:],
        predictions: cython.double[::1],
    ):
        """`predict`, unless `predictions` is empty, and then `learn`, for each of n rows; none of weight 0."""
        i: cython.Py_ssize_t
        z: cython.double
        predicts: cython.bint = predictions.shape[0] > 0
        self._require_length(columns, p.shape[0])
        for i in range(p.shape[0]):
            self._find_row(columns, i)
            z = self._look(p[i], scores[i])
            if predicts:
                predictions[i] = sigmoid(z)
            if w[i] > 0.0:
                self._learn_all(y[i], w[i])

    def _learn_all(self, y: cython.double, w: cython.double):
        """Make one step at all places, once `_look` has set the forecasts."""
        j: cython.Py_ssize_t
        for j in range(self.size):
            if self._slot[j] != MISSING and y > 0.0:
                self._learn(j, self._positive, y, w, 1.0)
            elif self._slot[j] != MISSING:
                self._learn(j, self._negative, y, w, 1.0)
        if y > 0.0:
            self._judge(2 * self._fields + 1, self._positive, min(w, _HEAVIEST))
        else:
            self._judge(2 * self._fields + 1, self._negative, min(w, _HEAVIEST))

    def _learn(
        self,
        j: cython.Py_ssize_t,
        chances: cython.const[cython.double][:, ::1],
        y: cython.double,
        w: cython.double,
        rate: cython.double,
    ):
        """One step of a place on its level, which is then the newest; `chances` judge its members."""
        r: cython.Py_ssize_t = self._fields + j
        k: cython.Py_ssize_t
        weight: cython.double = w if w < _HEAVIEST else _HEAVIEST
        self._set_unknown(j)
        k = self._use(j)
        if self._values[k, 0] <= 0.0:
            self._begin(k)
        if j < self._fields:
            self._judge(j, chances, rate * weight)
            self._judge_own(k, j, chances, rate * weight)
            self._step(j, k, self._z[j], y, weight)
        self._judge(r, chances, rate * weight)
        self._step_twice(r, j, k, self._z[r], y, weight)
        self._values[k, 0] += w
        self._weigh_level(j, k)
        self._weigh_levels(j)

    def _step(
        self, j: cython.Py_ssize_t, k: cython.Py_ssize_t, z: cython.double, y: cython.double, w: cython.double
    ) -> cython.void:
        """Make the steps of the first order's members from their present forecasts."""
        precision: cython.double = self._precision[j, 0]
        self._move(k, 1, 0.0, precision, z, self._positive[j, 1], self._negative[j, 1], y, w)
        self._move(k, 3, _LONG, precision, z, self._positive[j, 2], self._negative[j, 2], y, w)
        self._move(k, 5, _SHORT, precision, z, self._positive[j, 3], self._negative[j, 3], y, w)
        self._move_line(k, FIRST_LINE, z, self._positive[j, 5], self._negative[j, 5], y, w)

    def _step_twice(
        self,
        r: cython.Py_ssize_t,
        j: cython.Py_ssize_t,
        k: cython.Py_ssize_t,
        z: cython.double,
        y: cython.double,
        w: cython.double,
    ) -> cython.void:
        """Make the steps of the second order's members from their present forecasts."""
        precision: cython.double = self._precision[j, 1]
        self._move(k, ALL_TWICE, 0.0, precision, z, self._positive[r, 1], self._negative[r, 1], y, w)
        self._move(k, LONG_TWICE, _LONG, precision, z, self._positive[r, 2], self._negative[r, 2], y, w)
        self._move_line(k, SECOND_LINE, z, self._positive[r, 3], self._negative[r, 3], y, w)

    def unlearn(self, p: cython.double, score: cython.double, levels: list, y: cython.double, w: cython.double):
        """Subtract from the sums of each level what the observation adds to them where the means are now.

        This reverses the last step of a level exactly, but for τ², which has followed it. The weights of the members
        keep what they have learned. Levels that are neither held nor in the store are passed.
        """
        j: cython.Py_ssize_t
        self._find_fields(levels)
        self._look(p, score)
        for j in range(self.size):
            if self._slot[j] >= 0:
                self._retract(j, self._slot[j] if self._slot[j] >= self.size else self._admit(j), y, w)
                self._weigh_levels(j)

    def _retract(self, j: cython.Py_ssize_t, k: cython.Py_ssize_t, y: cython.double, w: cython.double):
        """`unlearn` of one level; one without any weight left is dropped."""
        r: cython.Py_ssize_t = self._fields + j
        z: cython.double = self._z[r]
        self._values[k, 0] -= w
        if self._values[k, 0] <= 1e-9 * w:  # rounding of sums of fractions
            self._drop(j, k)
            self._slot[j] = UNKNOWN
            return
        w = min(w, _HEAVIEST)
        self._take_line(k, SECOND_LINE, z, y, w)
        self._take(k, ALL_TWICE, 0.0, self._precision[j, 1], z, y, w)
        self._take(k, LONG_TWICE, _LONG, self._precision[j, 1], z, y, w)
        if j < self._fields:
            z = self._z[j]
            self._take_line(k, FIRST_LINE, z, y, w)
            self._take(k, 1, 0.0, self._precision[j, 0], z, y, w)
            self._take(k, 3, _LONG, self._precision[j, 0], z, y, w)
            self._take(k, 5, _SHORT, self._precision[j, 0], z, y, w)
        self._weigh_level(j, k)

    # -- levels ----------------------------------------------------------------------------------------------------

    def keep_in(self, rows: object):
        """From now on write levels that make room to `rows`, with `read` and `write` of a field, a level and values."""
        self._table.rows = rows

    def read_back(self, levels: list):
        """Read those of these levels that are in the store, so that the next call has no error of it."""
        self._find_fields(levels)

    def absent(self, j: cython.Py_ssize_t):
        """Return the number of levels of a field that are in the store and not held."""
        return int(self._table.absent[j])

    # -- what is known ---------------------------------------------------------------------------------------------

    def effect(self, j: cython.Py_ssize_t, level: object):
        """Mean and variance of what a field adds to the calibrator's log-odds for a level, and the level's weight.

        Both are over the members of the first order; offset and slope are taken where the log-odds of the level have
        been, on average by curvature.
        """
        k: cython.Py_ssize_t = self._table.find(j, level)
        means, variances = self._additions(j, k)
        shares = self.weights(j)
        mean = sum([share * m for share, m in zip(shares, means, strict=True)])
        squares = [share * (v + (m - mean) ** 2) for share, m, v in zip(shares, means, variances, strict=True)]
        return float(mean), float(sum(squares)), float(self._values[k, 0]) if k >= 0 else 0.0

    def terms(self, j: cython.Py_ssize_t, level: object):
        """Return what the members of a level that is held add to log-odds, for tables outside of this package.

        The offsets with all memory, 100 and 10 units, "free", offset and slope of the line; Q; and offsets with all
        memory and 100 units, offset and slope of the second order.
        """
        k: cython.Py_ssize_t = self._table.find(j, level)
        precision: cython.double = self._precision[j, 0]
        twice: cython.double = self._precision[j, 1]
        first = [self._offset(k, 1, precision), self._values[k, 4] / self._certainty(k, 3, _LONG, precision)]
        first += [self._values[k, 6] / self._certainty(k, 5, _SHORT, precision), self._offset(k, 1, 1.0)]
        first += [self._line(k, FIRST_LINE, 0.0), self._line(k, FIRST_LINE, 1.0) - self._line(k, FIRST_LINE, 0.0)]
        second = [self._offset(k, ALL_TWICE, twice)]
        second += [self._values[k, LONG_TWICE + 1] / self._certainty(k, LONG_TWICE, _LONG, twice)]
        second += [self._line(k, SECOND_LINE, 0.0), self._line(k, SECOND_LINE, 1.0) - self._line(k, SECOND_LINE, 0.0)]
        return [list(map(float, first)), self._own_weights(k), list(map(float, second))]

    def levels(self, j: cython.Py_ssize_t):
        """Return the levels held of a field, that longest without an outcome first; of all traffic where j is J."""
        return self._table.levels(j)

    def weights(self, j: cython.Py_ssize_t):
        """Return the weights of the first order's members of a field in forecasts, a list."""
        return self._weights_of(j)

    def weights_twice(self, j: cython.Py_ssize_t):
        """Return the weights of the second order's members of a field, or of all traffic where j is J, a list."""
        return self._weights_of(self._fields + j)

    def orders(self):
        """Return the weights of both orders, a list."""
        return self._weights_of(2 * self._fields + 1)

    def variances(self, j: cython.Py_ssize_t):
        """τ² of the offsets of both orders, a list."""
        return [float(1.0 / self._precision[j, a]) for a in range(2)]

    # -- merging and saving ----------------------------------------------------------------------------------------

    def merge(self, of: object):
        """Add the sums of another chain of the same fields; weights of members are multiplied, relative to the prior.

        Levels of the other chain are then newer than those held, and in their own order.
        """
        other: SegmentChain = of
        j: cython.Py_ssize_t
        if other.size != self.size:
            raise ValueError(f"a chain of {other._fields} fields is not one of {self._fields}")
        for j in range(self.size):
            for level, values in other._put_away(j):
                self._find(j, level)
                self._absorb(j, values)
            for level in other.levels(j):
                self._find(j, level)
                self._absorb(j, other._table.row(other._table.find(j, level)))
            self._weigh_levels(j)
        for j in range(self._parts.shape[0]):
            self._pool(j, other)
        self.evicted += other.evicted

    def _put_away(self, j: cython.Py_ssize_t):
        """Return an iterable of the levels of a field that are in the store alone, with their values."""
        return self._table.rows.absent(j, set(self.levels(j))) if self._table.absent[j] else ()

    def _pool(self, r: cython.Py_ssize_t, of: object):
        """Multiply the weights of a mixture by those of another chain, relative to the prior."""
        other: SegmentChain = of
        a: cython.Py_ssize_t
        total: cython.double = 0.0
        for a in range(self._parts[r]):
            self._weights[r, a] *= other._weights[r, a] / self._prior[r, a]
            total += self._weights[r, a]
        for a in range(self._parts[r]):
            self._weights[r, a] = max(self._weights[r, a] / total, LEAST)

    def state(self, j: cython.Py_ssize_t):
        """[W of both orders, S, levels, their numbers] of a field for `load`; the newest level last.

        All traffic is the field J, whose first W is empty.
        """
        levels = self.levels(j)
        first = self._weights_of(j) if j < self._fields else []
        return [[*first, *self.weights_twice(j)], np.asarray(self._sums[j]).tolist(), levels, self._rows(levels, j)]

    def load(
        self, j: cython.Py_ssize_t, weights: object, sums: object, levels: object, rows: object, absent: object = 0
    ):
        """Load an earlier `state` of a field that has no levels; `ValueError` if it is of another size.

        `absent` levels more are in the store.
        """
        first: cython.Py_ssize_t = MEMBERS if j < self._fields else 0
        if len(weights) != first + SECOND or len(sums) != 2 or np.shape(rows) not in ((0,), (len(levels), WIDTH)):
            raise ValueError(f"expected {first + SECOND} weights, 2 sums and {WIDTH} numbers for each level")
        if len(levels) > self.most or len(set(levels)) != len(levels) or self._table.known(j):
            raise ValueError("there are too many levels, or one twice")
        self._load(j, levels, rows, sums)
        self._table.absent[j] = absent
        if j < self._fields:
            self._load_weights(j, weights[:first])
        self._load_weights(self._fields + j, weights[first:])
        self._weigh_levels(j)

    def load_orders(self, weights: object):
        """Load earlier `orders`."""
        self._load_weights(2 * self._fields + 1, weights)
