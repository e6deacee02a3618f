# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""A chain of corrections of a forecast, one for each field of a stream, each by the level that the field has.

Symbols, z being the log-odds that reach a field and k the level that it has; those of its members are in
`level_members`:

    W[j, a]                  the weight of member a in field j, under fixed share

A field forecasts Σ W[a]·σ(z + m[a]), and its log-odds reach the next field.
"""

import cython
import numpy as np
from cython.cimports.libc.math import exp, log
from cython.cimports.streamcal.kernels.common.logistic import logit, sigmoid
from cython.cimports.streamcal.kernels.newton.implicit_regression import clamped
from cython.cimports.streamcal.kernels.segments.level_members import LevelMembers
from cython.cimports.streamcal.kernels.segments.level_table import UNKNOWN
from cython.cimports.streamcal.kernels.segments.observed_levels import LARGEST, MISSING

from streamcal.kernels.segments.level_members import HEAVIEST, MEMBERS, WIDTH

#: The prior of "nothing".
NOTHING = 0.5
#: Log-odds are clamped to ± this, so that a forecast is never 0 or 1; the last double below 1 is at 36.7.
LIMIT = 36.0

_MEMBERS = cython.declare(cython.Py_ssize_t, MEMBERS)
_LIMIT = cython.declare(cython.double, LIMIT)
_HEAVIEST = cython.declare(cython.double, HEAVIEST)
LEAST = cython.declare(cython.double, 1e-100)
"""Merging leaves each member at least this weight: products over hundreds of chains would be 0."""


@cython.final
@cython.cclass
class SegmentChain(LevelMembers):
    """The members and levels of the fields of a chain.

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
    level is not held. O(J) for a forecast and for an outcome; 136 bytes for a level, and its name.
    """

    most = cython.declare(cython.Py_ssize_t, visibility="readonly")
    _z: cython.double[::1]  # what reaches each field
    _said: cython.double[:, ::1]  # log-odds of each member
    _positive: cython.double[:, ::1]  # their probabilities, neither of them as a difference
    _negative: cython.double[:, ::1]

    def __init__(self, fields: cython.Py_ssize_t, most: cython.Py_ssize_t):
        prior = [NOTHING] + (MEMBERS - 1) * [(1.0 - NOTHING) / (MEMBERS - 1)]
        super().__init__(fields, most, prior)
        self.most = most
        self._z = np.zeros(fields)
        self._said = np.zeros((fields, MEMBERS))
        self._positive, self._negative = np.zeros((fields, MEMBERS)), np.zeros((fields, MEMBERS))

    # -- forecasts -------------------------------------------------------------------------------------------------

    def predict(self, p: cython.double, levels: list):
        """Return the probability for an observation of these levels, of which p was forecast."""
        self._find_fields(levels)
        return sigmoid(self._look(logit(p)))

    def parts(self, p: cython.double, levels: list):
        """Return the same, and for each field the log-odds of its members; None where it has no level."""
        j: cython.Py_ssize_t
        self._find_fields(levels)
        found = sigmoid(self._look(logit(p)))
        said: list = []
        for j in range(self.size):
            if self._slot[j] == UNKNOWN:
                self._say_alike(j)
            said.append(None if self._slot[j] == MISSING else [float(self._said[j, a]) for a in range(MEMBERS)])
        return found, said

    def predict_many(self, p: cython.const[cython.double][::1], columns: list, found: cython.double[::1]):
        """`predict` for each of n rows; `columns` has a list of n levels for each field."""
        i: cython.Py_ssize_t
        self._require_length(columns, p.shape[0])
        for i in range(p.shape[0]):
            self._find_row(columns, i)
            found[i] = sigmoid(self._look(logit(p[i])))

    @cython.cfunc
    @cython.exceptval(check=False)
    def _look(self, z: cython.double) -> cython.double:
        """Return the log-odds that leave the chain where z enters it."""
        j: cython.Py_ssize_t
        z = clamped(z, _LIMIT)
        for j in range(self.size):
            self._z[j] = z
            if self._slot[j] >= 0:
                self._hear(j, self._slot[j], z)
                z = self._mixed(j)
        return z

    @cython.cfunc
    @cython.exceptval(check=False)
    def _hear(self, j: cython.Py_ssize_t, k: cython.Py_ssize_t, z: cython.double) -> cython.void:
        """Set what the members of a field say of the level in slot k."""
        a: cython.Py_ssize_t
        self._say(j, 0, z)
        for a in range(3):
            self._say(j, a + 1, z + self._offset(j, k, a))
        self._say(j, 4, z + self._line(k, clamped(z, LARGEST)))

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _say(self, j: cython.Py_ssize_t, a: cython.Py_ssize_t, z: cython.double) -> cython.void:
        """Set the log-odds of one member."""
        z = clamped(z, _LIMIT)
        e: cython.double = exp(-abs(z))
        large: cython.double = 1.0 / (1.0 + e)
        self._said[j, a] = z
        self._positive[j, a] = large if z >= 0.0 else e * large
        self._negative[j, a] = e * large if z >= 0.0 else large

    @cython.cfunc
    @cython.exceptval(check=False)
    def _say_alike(self, j: cython.Py_ssize_t) -> cython.void:
        """Of a level that is not held all members say what reaches the field."""
        a: cython.Py_ssize_t
        for a in range(_MEMBERS):
            self._say(j, a, self._z[j])

    @cython.cfunc
    @cython.exceptval(check=False)
    def _mixed(self, j: cython.Py_ssize_t) -> cython.double:
        """Return the log-odds of the mixture of the members of a field."""
        a: cython.Py_ssize_t
        positive: cython.double = 0.0
        negative: cython.double = 0.0
        for a in range(_MEMBERS):
            positive += self._weights[j, a] * self._positive[j, a]
            negative += self._weights[j, a] * self._negative[j, a]
        return clamped(log(positive / negative), _LIMIT)

    # -- outcomes --------------------------------------------------------------------------------------------------

    def learn(self, p: cython.double, levels: list, y: cython.double, w: cython.double):
        """One step on the label y, of weight w > 0."""
        self._find_fields(levels)
        self._look(logit(p))
        self._learn_all(y, w)

    def learn_issued(
        self,
        p: cython.double,
        levels: list,
        said: list,
        y: cython.double,
        w: cython.double,
        rate: cython.double,
    ):
        """Learn as `learn` does, but judge the members by the forecasts that were issued (`parts`).

        p is what is forecast now, from which the members step, and `rate` the learning rate of their weights. A field
        whose level was missing then is passed.
        """
        j: cython.Py_ssize_t
        a: cython.Py_ssize_t
        self._find_fields(levels)
        if len(said) != self.size or any([one is not None and len(one) != MEMBERS for one in said]):
            raise ValueError(f"expected what {MEMBERS} members said for each of {self.size} fields")
        self._look(logit(p))
        for j in range(self.size):
            if self._slot[j] == MISSING or said[j] is None:
                continue
            for a in range(_MEMBERS):
                self._say(j, a, said[j][a])
            self._learn(j, y, w, rate)

    def stream(
        self,
        p: cython.const[cython.double][::1],
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
            z = self._look(logit(p[i]))
            if predicts:
                predictions[i] = sigmoid(z)
            if w[i] > 0.0:
                self._learn_all(y[i], w[i])

    @cython.cfunc
    def _learn_all(self, y: cython.double, w: cython.double):
        """One step of all fields where `_look` has looked."""
        j: cython.Py_ssize_t
        for j in range(self.size):
            if self._slot[j] == UNKNOWN:
                self._say_alike(j)
            if self._slot[j] != MISSING:
                self._learn(j, y, w, 1.0)

    @cython.cfunc
    def _learn(self, j: cython.Py_ssize_t, y: cython.double, w: cython.double, rate: cython.double):
        """One step of a field on its level, which is then the newest."""
        k: cython.Py_ssize_t = self._held(j)
        weight: cython.double = w if w < _HEAVIEST else _HEAVIEST
        if y > 0.0:
            self._judge(j, self._positive, rate * weight)
        else:
            self._judge(j, self._negative, rate * weight)
        self._learn_level(j, k, self._z[j], y, w)
        self._weigh_levels(j)

    def unlearn(self, p: cython.double, levels: list, y: cython.double, w: cython.double):
        """Subtract from the sums of each level what the observation adds to them where the means are now.

        This reverses the last step of a level exactly, but for τ² and the cap, which have followed it. The weights of
        the members keep what they have learned. Levels that are neither held nor in the store are passed.
        """
        j: cython.Py_ssize_t
        self._find_fields(levels)
        self._look(logit(p))
        for j in range(self.size):
            if self._slot[j] >= 0:
                self._take(j, self._slot[j] if self._slot[j] >= self.size else self._admit(j), self._z[j], y, w)
                self._weigh_levels(j)

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
        """Mean and variance of what a field adds to the log-odds of a level, over its members, and the level's weight.

        Offset and slope are taken where the log-odds of the level have been, on average by curvature.
        """
        k: cython.Py_ssize_t = self._table.find(j, level)
        means, variances = self._additions(j, k)
        shares = self.weights(j)
        mean = sum([share * one for share, one in zip(shares, means, strict=True)])
        squares = [share * (v + (m - mean) ** 2) for share, m, v in zip(shares, means, variances, strict=True)]
        return float(mean), float(sum(squares)), float(self._values[k, 0]) if k >= 0 else 0.0

    def levels(self, j: cython.Py_ssize_t):
        """Return the levels held of a field, that longest without an outcome first."""
        return self._table.levels(j)

    def weights(self, j: cython.Py_ssize_t):
        """Return the weights of the members of a field in forecasts, a list."""
        return self._weights_of(j)

    def variances(self, j: cython.Py_ssize_t):
        """τ² of the offsets with all and with recent memory, a list."""
        return [float(1.0 / self._precision[j, a]) for a in range(2)]

    # -- merging and saving ----------------------------------------------------------------------------------------

    def merge(self, of: object):
        """Add the sums of another chain of the same fields; weights of members are multiplied, relative to the prior.

        Levels of the other chain are then newer than those held, and in their own order.
        """
        other: SegmentChain = of
        j: cython.Py_ssize_t
        if other.size != self.size:
            raise ValueError(f"a chain of {other.size} fields is not one of {self.size}")
        for j in range(self.size):
            for level, values in other._put_away(j):
                self._find(j, level)
                self._absorb(j, values)
            for level in other.levels(j):
                self._find(j, level)
                self._absorb(j, other._values[other._table.find(j, level)])
            self._weigh_levels(j)
            self._pool(j, other)
        self.evicted += other.evicted

    @cython.cfunc
    def _put_away(self, j: cython.Py_ssize_t):
        """Return an iterable of the levels of a field that are in the store alone, with their values."""
        return self._table.rows.absent(j, set(self.levels(j))) if self._table.absent[j] else ()

    @cython.cfunc
    def _pool(self, j: cython.Py_ssize_t, of: object):
        """Multiply the weights of the members of a field by those of another chain, relative to the prior."""
        other: SegmentChain = of
        a: cython.Py_ssize_t
        total: cython.double = 0.0
        for a in range(_MEMBERS):
            self._weights[j, a] *= other._weights[j, a] / self._prior[a]
            total += self._weights[j, a]
        for a in range(_MEMBERS):
            self._weights[j, a] = max(self._weights[j, a] / total, LEAST)

    @cython.cfunc
    def _absorb(self, j: cython.Py_ssize_t, values: cython.const[cython.double][::1]):
        """Add the sums of a level of another chain to those of the level of a field."""
        k: cython.Py_ssize_t = self._held(j)
        self._add(k, values)
        self._forget(k)
        self._weigh_level(j, k)

    def state(self, j: cython.Py_ssize_t):
        """[W, S, levels, their numbers] of a field as plain data, for `load`; the newest level last."""
        levels = self.levels(j)
        return [self._weights_of(j), np.asarray(self._sums[j]).tolist(), levels, self._rows(levels, j)]

    def load(
        self, j: cython.Py_ssize_t, weights: object, sums: object, levels: object, rows: object, absent: object = 0
    ):
        """Load an earlier `state` of a field that has no levels; `ValueError` if it is of another size.

        `absent` levels more are in the store.
        """
        a: cython.Py_ssize_t
        if len(weights) != MEMBERS or len(sums) != 2 or np.shape(rows) != (len(levels), WIDTH):
            raise ValueError(f"expected {MEMBERS} weights, 2 sums and {WIDTH} numbers for each level")
        if len(levels) > self.most or len(set(levels)) != len(levels) or self._table.known(j):
            raise ValueError("there are too many levels, or one twice")
        self._load(j, levels, rows, sums)
        self._table.absent[j] = absent
        for a in range(_MEMBERS):
            self._weights[j, a] = weights[a]
        self._weigh_levels(j)
