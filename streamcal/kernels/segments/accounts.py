# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Accounts that bet against the predictions of their group, and the prediction at which they gain nothing together.

Symbols, z being the probability of the calibrator, and p the prediction:

    h[a], d[a]       the tilts, ±1, ±1/4, ±1/16 and ±1/64, then ±1/256 of large groups, and exp(h) − 1
    W[g, a]          the capital that the account of tilt h[a] in group g can stake
    least[a]         the floor of an account, 2·floor·(1 + z·d)/(2 + d): the two of ±h cancel at z
    S[a]             what the accounts of tilt h[a] stake, a sum over the groups of the observation
    I, C             all capital that was injected at floors; and what accounts hold, held or have set aside

For each observation, with r(p) the probability p with its log-odds moved by h:

    before the prediction    W ← max(W, least), for the groups of the observation
    the prediction           p = the root of z − p + Σ S·(r(p) − p), where r(p) − p = p·(1 − p)·d/(1 + p·d)
    after the label          W ← W·(1 + v·(r(y)/p(y) − 1)), where p(1) = p, p(0) = 1 − p, and the weight v is at most 1

Then C gains at most v·ln(p(y)/z(y)). A double near 1 is not the exact root, and an observation of more weight than 1 is
learned in several steps but was predicted once: what C gains beyond is added to I, so that C − I is always at most the
log loss of z minus that of p, for predictions as issued.

A group is large once its Σ v·p·(1 − p) is above 500,000: a gap of a few standard deviations then tilts the odds by less
than 1/64. Its two more accounts are kept apart, since few groups are large. They need labels in time: the first
prediction that is issued for a late label closes them.
"""

import cython

if not cython.compiled:
    import math

    from streamcal.kernels.common.logistic import logit
    from streamcal.kernels.common.weights import steps_of
    from streamcal.kernels.segments.level_table import LevelPair, LevelTable

    exp, floor, log, sqrt = math.exp, math.floor, math.log, math.sqrt
else:
    from cython.cimports.libc.math import exp, floor, log, sqrt
    from cython.cimports.streamcal.kernels.common.logistic import logit
    from cython.cimports.streamcal.kernels.common.weights import steps_of
    from cython.cimports.streamcal.kernels.segments.level_table import LevelPair, LevelTable

import numpy as np

#: The tilts of the accounts of a group, those of the other sign after them.
TILTS = (1.0, 0.25, 0.0625, 0.015625)
#: The tilt of the accounts that a large group has besides.
FINE = 0.00390625
#: A group is large above this Σ v·p·(1 − p).
LARGE = 500_000.0
#: Numbers kept of the accounts of a large group: their capitals, and Σ v·p·(1 − p) since they were opened.
FINE_WIDTH = 3
#: The accounts of a group.
SIZE = 2 * len(TILTS)
#: Numbers kept of a group: its capitals; Σ v·(y − p) and Σ v·p·(1 − p).
WIDTH = SIZE + 2
#: Probabilities are clamped to this and 1 minus this.
LOWEST = 2.0**-52

_HALF = cython.declare(cython.Py_ssize_t, 4)
_SIZE = cython.declare(cython.Py_ssize_t, 8)
_ALL = cython.declare(cython.Py_ssize_t, 10)
_GAP = cython.declare(cython.Py_ssize_t, 8)
_VARIANCE = cython.declare(cython.Py_ssize_t, 9)
_LOWEST = cython.declare(cython.double, LOWEST)
PRECISION = cython.declare(cython.double, 1e-13)
"""The root is found when accounts gain at most this together, whatever the label."""
MOST_STEPS = cython.declare(cython.Py_ssize_t, 100)
UNKNOWN = cython.declare(cython.Py_ssize_t, -1)
"""The slot of a group that is not held."""
MISSING = cython.declare(cython.Py_ssize_t, -2)
"""The slot of a family in which the observation has no group."""


@cython.final
@cython.cclass
class Accounts:
    """The accounts of the groups of a stream.

    The families of groups are: all observations; the levels of each field; the levels of each pair of fields; and with
    bins, the bins of the log-odds of z, and those within each level of each field.

    Parameters
    ----------
    fields : int
        Their number.
    pairs : list of (int, int)
        The fields of each pair.
    width : float
        The width of a bin of log-odds; 0 for no bins.
    most : int
        The number of groups held of each family. The group longest without an observation makes room for a new one.
    share : float
        What all accounts of an observation hold together at their floors.

    Notes
    -----
    Levels are those of a `LevelTable`, None where a field has none: the observation is then in no group of that field.
    `injected`, `total`, `aside`, `gone` and `gain` are counters: I, C, the parts of C that are set aside for labels to
    come and that were of groups which made room, and the log loss of z minus that of p. O(groups of the observation)
    for a prediction and for a label; 80 bytes for a group, some 20 for its place, and its name.
    """

    size = cython.declare(cython.Py_ssize_t, visibility="readonly")
    floor = cython.declare(cython.double, visibility="readonly")
    injected = cython.declare(cython.double, visibility="public")
    total = cython.declare(cython.double, visibility="public")
    aside = cython.declare(cython.double, visibility="public")
    gone = cython.declare(cython.double, visibility="public")
    gain = cython.declare(cython.double, visibility="public")
    evicted = cython.declare(cython.longlong, visibility="public")
    large = cython.declare(cython.double, visibility="public")
    _fine: dict  # the row in `_fine_values` of each slot of a large group
    _fine_values: cython.double[:, ::1]
    _is_closed: cython.bint  # whether large groups have no accounts of their own
    _crossed: cython.bint  # whether a group of the observation is large
    _tilts: cython.Py_ssize_t  # those of the observation, 8 or 10
    _fields: cython.Py_ssize_t
    _pairs: cython.Py_ssize_t
    _first: cython.Py_ssize_t[::1]  # the fields of each pair
    _second: cython.Py_ssize_t[::1]
    _bin_width: cython.double
    _table: LevelTable
    _values: cython.double[:, ::1]  # those of the table
    _row: list  # the levels of a row of columns
    _level: list  # of the observation, by family; a LevelPair, always the same, where a group has two levels
    _bins: list  # the numbers of bins, which groups share
    _slot: cython.Py_ssize_t[::1]
    _d: cython.double[::1]
    _base: cython.double[::1]  # 2·floor/(2 + d)
    _least: cython.double[::1]
    _sums: cython.double[::1]  # S
    _rise: cython.double[::1]
    _z: cython.double
    _p: cython.double
    _q: cython.double  # 1 − p, exactly where p is near 1

    def __init__(
        self,
        fields: cython.Py_ssize_t,
        pairs: list,
        width: cython.double,
        most: cython.Py_ssize_t,
        share: cython.double,
    ):
        a: cython.Py_ssize_t
        self._fields, self._pairs, self._bin_width = fields, len(pairs), width
        self.size = 1 + fields + len(pairs) + (1 + fields if width > 0.0 else 0)
        self.floor = share / (SIZE * self.size)
        self._first = np.array([i for i, _ in pairs], dtype=np.intp)
        self._second = np.array([j for _, j in pairs], dtype=np.intp)
        self._table = LevelTable(self.size, most, WIDTH)
        self._values = self._table.values
        self._row = [None] * fields
        self._level = [LevelPair(None, None) if self._is_double(j) else None for j in range(self.size)]
        self._bins = list(range(-self._reach(), self._reach() + 1)) if width > 0.0 else []
        self._slot = np.full(self.size, -2, dtype=np.intp)
        tilts = [*TILTS, *(-h for h in TILTS), FINE, -FINE]
        self._d, self._base, self._least = np.zeros(_ALL), np.zeros(_ALL), np.zeros(_ALL)
        self._sums, self._rise = np.zeros(_ALL), np.zeros(_ALL)
        for a in range(_ALL):
            self._d[a] = exp(tilts[a]) - 1.0
            self._base[a] = 2.0 * self.floor / (2.0 + self._d[a])
        self._fine, self._fine_values = {}, np.zeros((0, FINE_WIDTH))
        self.large, self._is_closed, self._crossed, self._tilts = LARGE, False, False, _SIZE
        self.injected = self.total = self.aside = self.gone = self.gain = 0.0
        self.evicted = 0

    # -- groups ----------------------------------------------------------------------------------------------------

    @cython.cfunc
    def _look(self, z: cython.double, levels: list):
        """Set z, and the group of each family and its slot."""
        i: cython.Py_ssize_t
        self._z = min(max(z, _LOWEST), 1.0 - _LOWEST)
        self._find(0, 0)
        for i in range(self._fields):
            self._find(1 + i, levels[i])
        for i in range(self._pairs):
            self._find_two(1 + self._fields + i, levels[self._first[i]], levels[self._second[i]])
        if self._bin_width > 0.0:
            self._look_in_bin(levels)

    @cython.cfunc
    def _look_at(self, z: cython.double, columns: list, i: cython.Py_ssize_t):
        """`_look` at row i of columns."""
        m: cython.Py_ssize_t
        column: list
        for m in range(self._fields):
            column = columns[m]
            self._row[m] = column[i]
        self._look(z, self._row)

    @cython.cfunc
    def _look_in_bin(self, levels: list):
        """Set the bin of z, and the groups of levels in that bin."""
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t = 1 + self._fields + self._pairs
        place: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, floor(logit(self._z) / self._bin_width))
        number: object = self._bins[place + self._reach()]
        self._find(j, number)
        for i in range(self._fields):
            self._find_two(j + 1 + i, levels[i], number)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _reach(self) -> cython.Py_ssize_t:
        """No bin is further than this from 0."""
        return cython.cast(cython.Py_ssize_t, 37.0 / self._bin_width) + 1

    @cython.cfunc
    @cython.exceptval(check=False)
    def _is_double(self, j: cython.Py_ssize_t) -> cython.bint:
        """Whether a group of family j has two levels, or a level and a bin."""
        return j > self._fields and j != 1 + self._fields + self._pairs

    @cython.cfunc
    def _find(self, j: cython.Py_ssize_t, level: object):
        self._level[j] = level
        self._slot[j] = MISSING if level is None else self._table.find(j, level)

    @cython.cfunc
    def _find_two(self, j: cython.Py_ssize_t, first: object, second: object):
        name: LevelPair = self._level[j]
        name.first, name.second = first, second
        self._slot[j] = MISSING if first is None or second is None else self._table.find(j, name)

    @cython.cfunc
    @cython.exceptval(-3, check=True)
    def _named(self, j: cython.Py_ssize_t, level: object) -> cython.Py_ssize_t:
        """`_find` of a group of which two levels are given as a tuple; its slot."""
        if self._is_double(j):
            self._find_two(j, level[0], level[1])
        else:
            self._find(j, level)
        return self._slot[j]

    @cython.cfunc
    def _admit(self, j: cython.Py_ssize_t):
        """Give a group that is not held a slot, without capital."""
        a: cython.Py_ssize_t
        k: cython.Py_ssize_t
        if self._table.is_full(j):
            k = self._table.oldest(j)
            for a in range(_SIZE):
                self.gone += self._values[k, a]
            self._drop_fine(k)
            self._table.drop(j, k)
            self.evicted += 1
        self._slot[j] = self._table.admit(j, self._level[j], UNKNOWN)
        self._values = self._table.values

    # -- predictions -----------------------------------------------------------------------------------------------

    @cython.cfunc
    def _sum(self):
        """Set the floors, and S as it is once all accounts are at their floors or above."""
        a: cython.Py_ssize_t
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        w: cython.double
        least: cython.double
        total: cython.double
        for a in range(_SIZE):
            least = self._base[a] * (1.0 + self._z * self._d[a])
            total = 0.0
            for j in range(self.size):
                k = self._slot[j]
                if k != MISSING:
                    w = self._values[k, a] if k >= 0 else 0.0
                    total += w if w > least else least
            self._least[a], self._sums[a] = least, total
        self._tilts = _SIZE
        if self._fine:
            self._sum_fine()

    @cython.cfunc
    def _sum_fine(self):
        """`_sum` of the accounts of large groups."""
        a: cython.Py_ssize_t
        j: cython.Py_ssize_t
        r: cython.Py_ssize_t
        for a in range(_SIZE, _ALL):
            self._least[a], self._sums[a] = self._base[a] * (1.0 + self._z * self._d[a]), 0.0
        for j in range(self.size):
            r = self._fine_row(self._slot[j])
            if r >= 0:
                for a in range(_SIZE, _ALL):
                    self._sums[a] += max(self._fine_values[r, a - _SIZE], self._least[a])
        self._tilts = _ALL

    @cython.cfunc
    @cython.exceptval(-2, check=True)
    def _fine_row(self, k: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Return the row of the accounts that the group in a slot has besides, −1 where it has none."""
        if k < 0 or not self._values[k, _VARIANCE] > self.large:
            return UNKNOWN
        return self._fine.get(k, UNKNOWN)

    @cython.cfunc
    def _fill(self):
        """Raise the accounts of the groups of the observation to their floors; the groups are then the newest."""
        a: cython.Py_ssize_t
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        added: cython.double = 0.0
        for j in range(self.size):
            if self._slot[j] == MISSING:
                continue
            if self._slot[j] == UNKNOWN:
                self._admit(j)
            k = self._slot[j]
            self._table.use(k)
            for a in range(_SIZE):
                if self._values[k, a] < self._least[a]:
                    added += self._least[a] - self._values[k, a]
                    self._values[k, a] = self._least[a]
            r: cython.Py_ssize_t = self._fine_row(k) if self._tilts == _ALL else UNKNOWN
            if r >= 0:
                for a in range(_SIZE, _ALL):
                    if self._fine_values[r, a - _SIZE] < self._least[a]:
                        added += self._least[a] - self._fine_values[r, a - _SIZE]
                        self._fine_values[r, a - _SIZE] = self._least[a]
        self.injected += added
        self.total += added

    @cython.cfunc
    @cython.exceptval(check=False)
    def _balance(self) -> cython.void:
        """Set p, which is never 0 or 1, and 1 − p."""
        self._p = min(max(self._root(self._z, self._sums), _LOWEST), 1.0 - _LOWEST)
        self._q = 1.0 - self._p

    @cython.cfunc
    @cython.exceptval(check=False)
    def _root(self, z: cython.double, stakes: cython.double[::1]) -> cython.double:
        """Return the p in (0, 1) with z − p + p·(1 − p)·Σ stakes·d/(1 + p·d) = 0, by Newton steps in a bracket.

        It is the only one: the left side over p·(1 − p) is the derivative of a strictly concave function of p,
        z·ln p + (1 − z)·ln(1 − p) + Σ stakes·ln(1 + p·d).
        """
        a: cython.Py_ssize_t
        p: cython.double = z
        down: cython.double = 0.0
        up: cython.double = 0.0
        for a in range(self._tilts):
            if self._d[a] > 0.0:
                up += stakes[a] * self._d[a] / (1.0 + self._d[a])
            else:
                down -= stakes[a] * self._d[a]
        low: cython.double = z / (1.0 + down)
        high: cython.double = 1.0 - (1.0 - z) / (1.0 + up)
        for _ in range(MOST_STEPS):
            s: cython.double = 0.0
            t: cython.double = 0.0
            for a in range(self._tilts):
                q: cython.double = self._d[a] / (1.0 + p * self._d[a])
                s += stakes[a] * q
                t += stakes[a] * q * q
            f: cython.double = z - p + p * (1.0 - p) * s
            if abs(f) <= PRECISION * p * (1.0 - p):
                break
            if f > 0.0:
                low = p
            else:
                high = p
            slope: cython.double = -1.0 + (1.0 - 2.0 * p) * s - p * (1.0 - p) * t
            following: cython.double = p - f / slope if slope < 0.0 else -1.0
            if not (low < following < high):
                following = sqrt(low * high) if high < 0.5 else 0.5 * (low + high)
            if abs(following - p) <= 1e-15 * p:
                break
            p = following
        return p

    def predict(self, z: cython.double, levels: list):
        """Return the prediction for an observation of these levels. Nothing changes."""
        self._require_levels(levels)
        self._look(z, levels)
        self._sum()
        self._balance()
        return float(self._p)

    def predict_many(self, z: cython.const[cython.double][::1], columns: list, found: cython.double[::1]):
        """`predict` for each of n rows; `columns` has a list of n levels for each field."""
        i: cython.Py_ssize_t
        self._require_length(columns, z.shape[0])
        for i in range(z.shape[0]):
            self._look_at(z[i], columns, i)
            self._sum()
            self._balance()
            found[i] = self._p

    @cython.cfunc
    def _require_levels(self, levels: list):
        if len(levels) != self._fields:
            raise ValueError(f"{len(levels)} levels are not those of {self._fields} fields")

    @cython.cfunc
    def _require_length(self, columns: list, length: cython.Py_ssize_t):
        """`ValueError` unless there is a column for each field, of this length."""
        if len(columns) != self._fields or any([len(column) != length for column in columns]):
            raise ValueError(f"expected {self._fields} columns of {length} levels")

    # -- labels in time --------------------------------------------------------------------------------------------

    def learn(self, z: cython.double, levels: list, y: cython.double, w: cython.double):
        """Settle the bets on an observation of relative weight w > 0, at the prediction that `predict` returns."""
        self._require_levels(levels)
        self._look(z, levels)
        self._sum()
        self._balance()
        self._learn(y, w)

    def stream(
        self,
        z: cython.const[cython.double][::1],
        columns: list,
        y: cython.const[cython.double][::1],
        w: cython.const[cython.double][:],
        predictions: cython.double[::1],
    ):
        """`predict`, unless `predictions` is empty, and then `learn`, for each of n rows; none of weight 0."""
        i: cython.Py_ssize_t
        predicts: cython.bint = predictions.shape[0] > 0
        self._require_length(columns, z.shape[0])
        for i in range(z.shape[0]):
            self._look_at(z[i], columns, i)
            self._sum()
            self._balance()
            if predicts:
                predictions[i] = self._p
            if w[i] > 0.0:
                self._learn(y[i], w[i])

    @cython.cfunc
    def _learn(self, y: cython.double, w: cython.double):
        """Settle an observation in steps of weight 1 at most, each with the prediction that balances it."""
        i: cython.Py_ssize_t
        steps: cython.Py_ssize_t = steps_of(w)
        v: cython.double = min(w / steps, 1.0)
        gain: cython.double = self._gain(y, v)
        self._fill()
        for i in range(steps):
            if i > 0:
                self._sum()
                self._fill()
                self._balance()
            self._settle(y, v, gain)
            if self._crossed:
                self._settle_fine(v * self._p * self._q)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _gain(self, y: cython.double, v: cython.double) -> cython.double:
        """Return v times the log loss of z minus that of p."""
        return v * (log(self._p / self._z) if y > 0.0 else log(self._q / (1.0 - self._z)))

    @cython.cfunc
    @cython.exceptval(check=False)
    def _settle(self, y: cython.double, v: cython.double, gain: cython.double) -> cython.void:
        """Multiply the accounts that were filled, and add to the moments of their groups."""
        a: cython.Py_ssize_t
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        change: cython.double = 0.0
        residual: cython.double = v * (self._q if y > 0.0 else -self._p)
        variance: cython.double = v * self._p * self._q
        self._crossed = False
        for a in range(self._tilts):
            self._rise[a] = residual * self._d[a] / (1.0 + self._p * self._d[a])
            change += self._sums[a] * self._rise[a]
        for j in range(self.size):
            k = self._slot[j]
            if k >= 0:
                for a in range(_SIZE):
                    self._values[k, a] += self._values[k, a] * self._rise[a]
                self._values[k, _GAP] += residual
                self._values[k, _VARIANCE] += variance
                if self._values[k, _VARIANCE] > self.large:
                    self._crossed = not self._is_closed
        self._count(change, gain)

    @cython.cfunc
    def _settle_fine(self, variance: cython.double):
        """Multiply the accounts that large groups have besides, or open them."""
        a: cython.Py_ssize_t
        j: cython.Py_ssize_t
        r: cython.Py_ssize_t
        for j in range(self.size):
            r = self._fine_row(self._slot[j])
            if r >= 0:
                for a in range(_SIZE, _ALL):
                    self._fine_values[r, a - _SIZE] *= 1.0 + self._rise[a]
                self._fine_values[r, 2] += variance
            elif self._slot[j] >= 0 and self._values[self._slot[j], _VARIANCE] > self.large:
                self._open_fine(self._slot[j])

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _open_fine(self, k: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Give the group in a slot two more accounts, without capital; their row."""
        r: cython.Py_ssize_t = len(self._fine)
        if r == self._fine_values.shape[0]:
            self._fine_values = np.concatenate([np.asarray(self._fine_values), np.zeros((r + 4, FINE_WIDTH))])
        self._fine[k] = r
        return r

    @cython.cfunc
    def _drop_fine(self, k: cython.Py_ssize_t):
        """Close the accounts that a group has besides, if it has any; the last row takes their place."""
        a: cython.Py_ssize_t
        r: cython.Py_ssize_t = self._fine.pop(k, UNKNOWN)
        if r < 0:
            return
        last: cython.Py_ssize_t = len(self._fine)
        self.gone += self._fine_values[r, 0] + self._fine_values[r, 1]
        for a in range(FINE_WIDTH):
            self._fine_values[r, a] = self._fine_values[last, a]
            self._fine_values[last, a] = 0.0
        for slot, place in self._fine.items():
            if place == last:
                self._fine[slot] = r

    def close_fine(self):
        """Close the accounts that large groups have besides, and open none from now on."""
        self._is_closed = True
        for k in list(self._fine):
            self._drop_fine(k)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _count(self, change: cython.double, gain: cython.double) -> cython.void:
        self.total += change
        self.gain += gain
        if change > gain:
            self.injected += change - gain

    # -- labels that come late -------------------------------------------------------------------------------------

    def issue(self, z: cython.double, levels: list, v: cython.double):
        """Predict, fix the stakes of the accounts, and set aside what these can lose.

        Returns [z, p, v] and the stakes, a group after the other, for `resolve`; v is the weight, at most 1.
        """
        a: cython.Py_ssize_t
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        stake: cython.double
        lost: cython.double
        self._require_levels(levels)
        self.close_fine()
        self._look(z, levels)
        self._sum()
        self._balance()
        self._fill()
        found: list = [float(self._z), float(self._p), float(v)]
        for j in range(self.size):
            k = self._slot[j]
            if k == MISSING:
                continue
            for a in range(_SIZE):
                stake = v * self._values[k, a]
                lost = stake * self._loss(a)
                self._values[k, a] -= lost
                self.aside += lost
                found.append(float(stake))
        return found

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _loss(self, a: cython.Py_ssize_t) -> cython.double:
        """Return what a stake of 1 loses if the label is the one that it was not on."""
        return (self._p if self._d[a] > 0.0 else -self._q) * self._d[a] / (1.0 + self._p * self._d[a])

    def groups(self, levels: list):
        """Return the number of groups of an observation with these levels."""
        i: cython.Py_ssize_t
        self._require_levels(levels)
        present: cython.Py_ssize_t = sum([level is not None for level in levels])
        paired: cython.Py_ssize_t = 0
        for i in range(self._pairs):
            paired += levels[self._first[i]] is not None and levels[self._second[i]] is not None
        return 1 + present + paired + (1 + present if self._bin_width > 0.0 else 0)

    def resolve(self, levels: list, issued: cython.const[cython.double][::1], y: cython.double):
        """Settle the bets of an issued observation by its label, 1 or 0; −1 where it never comes, and the bets are off.

        What belongs to a group that has made room is gone.
        """
        a: cython.Py_ssize_t
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        i: cython.Py_ssize_t = 3
        lost: cython.double
        change: cython.double
        changes: cython.double = 0.0
        if issued.shape[0] != 3 + _SIZE * self.groups(levels):
            raise ValueError("the stakes are not those of these levels")
        self._look(issued[0], levels)
        self._p, self._q = issued[1], 1.0 - issued[1]
        v: cython.double = issued[2]
        residual: cython.double = self._q if y > 0.0 else -self._p if y == 0.0 else 0.0
        for j in range(self.size):
            k = self._slot[j]
            if k == MISSING:
                continue
            for a in range(_SIZE):
                lost = issued[i] * self._loss(a)
                change = issued[i] * residual * self._d[a] / (1.0 + self._p * self._d[a])
                self.aside -= lost
                changes += change
                if k >= 0:
                    self._values[k, a] += max(lost + change, 0.0)
                else:
                    self.gone += max(lost + change, 0.0)
                i += 1
            if k >= 0 and y >= 0.0:
                self._values[k, _GAP] += v * residual
                self._values[k, _VARIANCE] += v * self._p * self._q
        if y >= 0.0:
            self._count(changes, self._gain(y, v))

    # -- what is known ---------------------------------------------------------------------------------------------

    def values(self, j: cython.Py_ssize_t, level: object):
        """Return the capitals and moments of a group; None where it is not held."""
        self._named(j, level)
        return None if self._slot[j] < 0 else np.array(self._values[self._slot[j]])

    def fine(self, j: cython.Py_ssize_t):
        """Return the places of large groups in `held` of a family, and the numbers of their further accounts."""
        levels: list = self._table.levels(j) if self._fine else []
        rows: list = [self._fine.get(self._named(j, level), UNKNOWN) for level in levels]
        places: list = [place for place, row in enumerate(rows) if row >= 0]
        return places, np.asarray(self._fine_values)[[rows[place] for place in places]].reshape(-1, FINE_WIDTH)

    def fine_values(self, j: cython.Py_ssize_t, level: object):
        """Return the numbers of the further accounts of a group; None where it has none."""
        self._named(j, level)
        r: cython.Py_ssize_t = self._fine.get(self._slot[j], UNKNOWN)
        return None if r < 0 else np.array(self._fine_values[r])

    def held(self, j: cython.Py_ssize_t):
        """Return the groups of a family, the one longest without an observation first, and their numbers as rows."""
        i: cython.Py_ssize_t
        a: cython.Py_ssize_t
        k: cython.Py_ssize_t
        levels: list = self._table.levels(j)
        found = np.empty((len(levels), WIDTH))
        rows: cython.double[:, ::1] = found
        for i in range(len(levels)):
            k = self._named(j, levels[i])
            for a in range(rows.shape[1]):
                rows[i, a] = self._values[k, a]
        return levels, found

    # -- merging and saving ----------------------------------------------------------------------------------------

    def merge(self, of: object):
        """Add the capitals, moments and counters of accounts of the same families; their groups are then the newest."""
        other: Accounts = of
        j: cython.Py_ssize_t
        if other.size != self.size or other._fields != self._fields:
            raise ValueError("the accounts are of other families")
        for j in range(self.size):
            levels, rows = other.held(j)
            known: list = [self.values(j, level) is not None for level in levels]
            self._add(j, levels, rows)
            self._merge_fine(j, levels, known, dict(zip(*other.fine(j), strict=True)))
        if self._is_closed or other._is_closed:
            self.close_fine()
        self.injected += other.injected
        self.total += other.total
        self.aside += other.aside
        self.gone += other.gone
        self.gain += other.gain
        self.evicted += other.evicted

    @cython.cfunc
    def _merge_fine(self, j: cython.Py_ssize_t, levels: list, known: list, others: dict):
        """Add the further accounts of groups of a family. They judge what both objects had them for."""
        i: cython.Py_ssize_t
        r: cython.Py_ssize_t
        for i in range(len(levels)):
            self._named(j, levels[i])
            r = self._fine.get(self._slot[j], UNKNOWN)
            values = others.get(i)
            if self._slot[j] < 0 or (r < 0 and values is None):
                continue
            since = self._fine_values[r, 2] if r >= 0 else 0.0 if known[i] else values[2]
            if r < 0:
                r = self._open_fine(self._slot[j])
            self._fine_values[r, 2] = 0.0 if values is None else min(since, values[2])
            if values is not None:
                self._fine_values[r, 0] += values[0]
                self._fine_values[r, 1] += values[1]

    def load_fine(self, j: cython.Py_ssize_t, levels: list, rows: cython.const[cython.double][:, ::1]):
        """Load what `fine` returned of a family, with the levels at these places."""
        i: cython.Py_ssize_t
        a: cython.Py_ssize_t
        r: cython.Py_ssize_t
        for i in range(len(levels)):
            self._named(j, levels[i])
            r = self._open_fine(self._slot[j])
            for a in range(FINE_WIDTH):
                self._fine_values[r, a] = rows[i, a]

    @cython.cfunc
    def _add(self, j: cython.Py_ssize_t, levels: list, rows: cython.const[cython.double][:, ::1]):
        """Add rows of numbers to those of groups of a family."""
        i: cython.Py_ssize_t
        a: cython.Py_ssize_t
        k: cython.Py_ssize_t
        for i in range(len(levels)):
            self._named(j, levels[i])
            if self._slot[j] == UNKNOWN:
                self._admit(j)
            k = self._slot[j]
            self._table.use(k)
            for a in range(rows.shape[1]):
                self._values[k, a] += rows[i, a]

    def load(self, j: cython.Py_ssize_t, levels: list, rows: cython.const[cython.double][:, ::1]):
        """Load what `held` returned of a family that has no groups; `ValueError` if it is of another size."""
        if rows.shape[0] != len(levels) or rows.shape[1] != WIDTH or self._table.known(j):
            raise ValueError(f"expected {WIDTH} numbers for each group")
        if len(levels) > self._table.most or len(set(levels)) != len(levels):
            raise ValueError("there are too many groups, or one twice")
        self._add(j, levels, rows)
