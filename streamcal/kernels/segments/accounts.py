# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Accounts that bet against the predictions of their group, and the prediction at which they gain nothing together.

Symbols, z being the probability of the calibrator, and p the prediction:

    h[a], d[a]       the tilts, ±1, ±1/3, ±1/9 and ±1/27, then ±1/81 and ±1/243 of large groups, and exp(h) − 1
    F[g, a], m[g]    the capital of the account of tilt h[a] in group g in free slots, and how many are free
    x[g, a]          the stake of an account on an observation, which is away until its label comes
    least[a]         the floor of an account, 2·floor·(1 + z·d)/(2 + d): the two of ±h cancel at z
    w₀               the lowest floor
    S[a]             what the accounts of tilt h[a] stake, a sum over the groups of the observation
    I, C             all capital that was injected at floors; and what accounts hold or held

For each observation, with r(p) the probability p with its log-odds moved by h:

    before the prediction    x ← max(F/m, least), F ← F − F/m and m ← m − 1; where m is 0, one more slot is opened
    the prediction           p = the root of z − p + Σ S·(r(p) − p), where r(p) − p = p·(1 − p)·d/(1 + p·d)
    after the label          F ← F + max(x·(1 + v·(r(y)/p(y) − 1)), w₀) and m ← m + 1,
                             where p(1) = p, p(0) = 1 − p, and the weight v is at most 1

If labels come in time, each group has one slot. Then C gains at most v·ln(p(y)/z(y)). A double near 1 is not the exact
root, and an observation of more weight than 1 is learned in several steps but was predicted once: what C gains beyond
is added to I, so that C − I is always at most the log loss of z minus that of p, for predictions as issued.
"""

import cython
import numpy as np
from cython.cimports.libc.math import log
from cython.cimports.streamcal.kernels.common.weights import steps_of
from cython.cimports.streamcal.kernels.segments.balance import balanced
from cython.cimports.streamcal.kernels.segments.capitals import (
    _ALL,
    _FINE_FREE,
    _FINE_PENDING,
    _FINE_SIZE,
    _FINE_VARIANCE,
    _FREE,
    _GAP,
    _PENDING,
    _SINCE,
    _SIZE,
    _VARIANCE,
    Capitals,
)
from cython.cimports.streamcal.kernels.segments.groups import MISSING
from cython.cimports.streamcal.kernels.segments.level_table import UNKNOWN

#: Probabilities are clamped to this and 1 minus this.
_LOWEST = cython.declare(cython.double, 2.0**-52)
#: What `issue` returns of an observation before its stakes: z, p, v, `evicted`, and how many of its groups are large.
HEAD = 5
_HEAD = HEAD
_INFINITY = cython.declare(cython.double, float("inf"))


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _stake(
    first: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    free: cython.p_double,
    part: cython.double,
    least: cython.p_double,
    sums: cython.p_double,
) -> cython.void:
    """Add what the accounts of a group would stake to S, a slot being this part of what is free."""
    a: cython.Py_ssize_t
    for a in range(first, end):
        w: cython.double = free[a - first] * part
        sums[a] += least[a] if w < least[a] else w


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _take(
    first: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    free: cython.p_double,
    part: cython.double,
    least: cython.p_double,
    sums: cython.p_double,
    added: cython.p_double,
    stakes: cython.p_double,
) -> cython.void:
    """`_stake`, and take the slot."""
    a: cython.Py_ssize_t
    for a in range(first, end):
        w: cython.double = free[a - first] * part
        x: cython.double = least[a] if w < least[a] else w
        sums[a] += x
        added[a] += x - w
        free[a - first] -= w
        stakes[a] = x


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _give(
    first: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    free: cython.p_double,
    lowest: cython.double,
    stakes: cython.p_double,
    rise: cython.p_double,
    added: cython.p_double,
) -> cython.void:
    """Settle the bets of a group and give its slot back."""
    a: cython.Py_ssize_t
    for a in range(first, end):
        w: cython.double = stakes[a] + stakes[a] * rise[a]
        back: cython.double = lowest if w < lowest else w
        added[a] += back - w
        free[a - first] += back


@cython.final
@cython.cclass
class Accounts(Capitals):
    """The accounts of the groups of a stream, with the parameters and counters of `Capitals`.

    O(groups of the observation) for a prediction and for a label; 80 bytes for a group, 88 more if anything was ever
    issued, some 20 for its place, and its name.
    """

    _tilts: cython.Py_ssize_t  # those of the observation: further ones if one of its groups is large
    _least: cython.double[12]
    _sums: cython.double[12]  # S
    _added: cython.double[12]  # what was injected for the observation
    _rise: cython.double[12]  # the ratio in which accounts gain
    _stakes: cython.double[:, ::1]  # x of each family; those of further accounts are 0 where an issued one had none
    _residual: cython.double  # v·(y − p)
    _spread: cython.double  # v·p·(1 − p)
    _z: cython.double
    _p: cython.double
    _q: cython.double  # 1 − p, exactly where p is near 1

    def __init__(self, *parameters):
        Capitals.__init__(self, *parameters)
        self._stakes = np.zeros((self.size, _ALL))
        if not cython.compiled:
            self._least, self._sums, self._added, self._rise = ([0.0] * _ALL for _ in range(4))

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _numbers(self, k: cython.Py_ssize_t) -> cython.p_double:
        """Return the numbers of the group in a place."""
        if cython.compiled:
            return cython.address(self._values[k, 0])
        else:
            return self._values[k]

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _of(self, j: cython.Py_ssize_t) -> cython.p_double:
        """Return the stakes of a family."""
        if cython.compiled:
            return cython.address(self._stakes[j, 0])
        else:
            return self._stakes[j]

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _part(self, k: cython.Py_ssize_t) -> cython.double:
        """Return the part that a slot of the group in a place is of what is free."""
        return 1.0 / max(self._slots[k, _FREE], 1.0) if self.is_late else 1.0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _further(self, place: cython.double) -> cython.p_double:
        """Return the further numbers of a large group, and its V, by what is in the place of its V."""
        if cython.compiled:
            return cython.address(self._fine[cython.cast(cython.Py_ssize_t, -1.0 - place), 0])
        else:
            return self._fine[int(-1.0 - place)]

    # -- predictions -----------------------------------------------------------------------------------------------

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _clamp(self, z: cython.double) -> cython.double:
        """Set z, and return it."""
        self._z = min(max(z, _LOWEST), 1.0 - _LOWEST)
        return self._z

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _start(self) -> cython.void:
        """Set the floors at z, and sums to 0."""
        a: cython.Py_ssize_t
        self._tilts = _SIZE
        for a in range(_ALL):
            self._least[a] = self._base[a] * (1.0 + self._z * self._d[a])
            self._sums[a] = self._added[a] = 0.0

    @cython.cfunc
    @cython.exceptval(check=False)
    def _sum(self) -> cython.void:
        """Set S as it is once a slot of each group is taken. Nothing else changes."""
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        self._start()
        for j in range(self.size):
            k = self._slot[j]
            if k == MISSING:
                continue
            if k < 0:
                k = j
            numbers: cython.p_double = self._numbers(k)
            _stake(0, _SIZE, numbers, self._part(k), self._least, self._sums)
            if numbers[_VARIANCE] < 0.0:
                further: cython.p_double = self._further(numbers[_VARIANCE])
                _stake(_SIZE, _ALL, further, 1.0 / max(further[_FINE_FREE], 1.0), self._least, self._sums)
                self._tilts = _ALL

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _fill(self) -> cython.int:
        """`_sum`, and take the slots; the groups of the observation are then the newest."""
        a: cython.Py_ssize_t
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        self._start()
        for j in range(self.size):
            k = self._slot[j]
            if k == MISSING:
                continue
            if k == UNKNOWN:
                self._admit(j)
                k = self._slot[j]
            self._table.use(k)
            numbers: cython.p_double = self._numbers(k)
            stakes: cython.p_double = self._of(j)
            _take(0, _SIZE, numbers, self._part(k), self._least, self._sums, self._added, stakes)
            if self.is_late and self._slots[k, _FREE] == 0.0:
                self._slots[k, _FREE] = 1.0
            if numbers[_VARIANCE] < 0.0:
                further: cython.p_double = self._further(numbers[_VARIANCE])
                further[_FINE_FREE] = max(further[_FINE_FREE], 1.0)
                part: cython.double = 1.0 / further[_FINE_FREE]
                _take(_SIZE, _ALL, further, part, self._least, self._sums, self._added, stakes)
                self._tilts = _ALL
        added: cython.double = 0.0
        for a in range(self._tilts):
            added += self._added[a]
            self._added[a] = 0.0
        self.injected += added
        self.total += added
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def _balance(self) -> cython.void:
        """Set p, which is never 0 or 1, and 1 − p."""
        self._p = min(max(balanced(self._tilts, self._z, self._d, self._sums), _LOWEST), 1.0 - _LOWEST)
        self._q = 1.0 - self._p

    def predict(self, z: cython.double, levels: list):
        """Return the prediction for an observation of these levels. Nothing changes."""
        self._require_levels(levels)
        self._look(self._clamp(z), levels)
        self._sum()
        self._balance()
        return float(self._p)

    def predict_many(self, z: cython.const[cython.double][::1], columns: list, predictions: cython.double[::1]):
        """`predict` for each of n rows; `columns` has a list of n levels for each field."""
        i: cython.Py_ssize_t
        self._require_length(columns, z.shape[0])
        for i in range(z.shape[0]):
            self._look_at(self._clamp(z[i]), columns, i)
            self._sum()
            self._balance()
            predictions[i] = self._p

    # -- labels in time --------------------------------------------------------------------------------------------

    def learn(self, z: cython.double, levels: list, y: cython.double, w: cython.double):
        """Settle the bets on an observation of relative weight w > 0, at the prediction that `predict` returns."""
        self._require_levels(levels)
        self._look(self._clamp(z), levels)
        self._fill()
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
            self._look_at(self._clamp(z[i]), columns, i)
            if w[i] > 0.0:
                self._fill()
            else:
                self._sum()
            self._balance()
            if predicts:
                predictions[i] = self._p
            if w[i] > 0.0:
                self._learn(y[i], w[i])

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _learn(self, y: cython.double, w: cython.double) -> cython.int:
        """Settle an observation in steps of weight 1 at most, each with the prediction that balances it."""
        i: cython.Py_ssize_t
        steps: cython.Py_ssize_t = steps_of(w)
        v: cython.double = min(w / steps, 1.0)
        gain: cython.double = self._gain(y, v)
        for i in range(steps):
            if i > 0:
                self._fill()
                self._balance()
            self._judge(y, v)
            self._settle(gain, 0.0)
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _gain(self, y: cython.double, v: cython.double) -> cython.double:
        """Return v times the log loss of z minus that of p."""
        return v * (log(self._p / self._z) if y > 0.0 else log(self._q / (1.0 - self._z)))

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _judge(self, y: cython.double, v: cython.double) -> cython.void:
        """Set what accounts gain by a label."""
        a: cython.Py_ssize_t
        self._residual = v * (self._q if y > 0.0 else -self._p)
        self._spread = v * self._p * self._q
        for a in range(self._tilts):
            self._rise[a] = self._residual * self._d[a] / (1.0 + self._p * self._d[a])

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _settle(self, gain: cython.double, lost: cython.double) -> cython.int:
        """Give slots back, and add to M and V of their groups; `lost` is what groups gained that are not held."""
        a: cython.Py_ssize_t
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        change: cython.double = lost
        raised: cython.double = 0.0
        for j in range(self.size):
            k = self._slot[j]
            if k < 0:
                continue
            numbers: cython.p_double = self._numbers(k)
            stakes: cython.p_double = self._of(j)
            _give(0, _SIZE, numbers, self.lowest, stakes, self._rise, self._added)
            numbers[_GAP] += self._residual
            if numbers[_VARIANCE] < 0.0:
                further: cython.p_double = self._further(numbers[_VARIANCE])
                if stakes[_SIZE] > 0.0:
                    _give(_SIZE, _ALL, further, self.lowest, stakes, self._rise, self._added)
                else:
                    raised += self._follow(further)
                further[_FINE_VARIANCE] += self._spread
            else:
                numbers[_VARIANCE] += self._spread
                if numbers[_VARIANCE] > self.large and numbers[_VARIANCE] > self.large * self._size_of(k):
                    self._open(k)
        for a in range(self._tilts):
            change += self._sums[a] * self._rise[a]
            raised += self._added[a]
        self.injected += raised
        self.total += raised
        self._count(change, gain)
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def _follow(self, further: cython.p_double) -> cython.double:
        """Inject what a slot of further accounts, opened since the observation was issued, would have gained by it."""
        a: cython.Py_ssize_t
        raised: cython.double = 0.0
        further[_FINE_FREE] = max(further[_FINE_FREE], 1.0)
        for a in range(_FINE_SIZE):
            own: cython.double = further[a] / further[_FINE_FREE]
            w: cython.double = max(own, self.lowest)
            more: cython.double = max(w + w * self._rise[_SIZE + a], own) - own
            further[a] += more
            raised += more
        return raised

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _count(self, change: cython.double, gain: cython.double) -> cython.void:
        """Add what accounts and the prediction have gained to the counters."""
        self.total += change
        self.gain += gain
        if change > gain:
            self.injected += change - gain

    # -- labels that come late -------------------------------------------------------------------------------------

    def issue(self, z: cython.double, levels: list, v: cython.double):
        """Predict, and take a slot of each group until the label comes.

        Returns [z, p, v, `evicted`, large groups] and the stakes, a group after the other, for `resolve`; v is the
        weight, at most 1. The family of each large group follows with its further stakes.
        """
        a: cython.Py_ssize_t
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        r: cython.Py_ssize_t
        self._require_levels(levels)
        self.be_late()
        self._look(self._clamp(z), levels)
        self._fill()
        self._balance()
        record: list = [float(self._z), float(self._p), float(v), float(self.evicted), 0.0]
        fine: list = []
        for j in range(self.size):
            k = self._slot[j]
            if k == MISSING:
                continue
            for a in range(_SIZE):
                self._slots[k, a] += self._stakes[j, a]
                record.append(float(self._stakes[j, a]))
            self._slots[k, _FREE] -= 1.0
            self._slots[k, _PENDING] += 1.0
            r = self._fine_row(k)
            if r >= 0:
                fine.append(float(j))
                for a in range(_FINE_SIZE):
                    self._fine[r, _FINE_SIZE + a] += self._stakes[j, _SIZE + a]
                    fine.append(float(self._stakes[j, _SIZE + a]))
                self._fine[r, _FINE_FREE] -= 1.0
                self._fine[r, _FINE_PENDING] += 1.0
                record[_HEAD - 1] += 1.0
        return record + fine

    def record_end(self, levels: list, issued: cython.const[cython.double][::1]) -> cython.Py_ssize_t:
        """Return where what `issue` returned for these levels ends; `ValueError` where it is nothing like it."""
        i: cython.Py_ssize_t
        first: cython.Py_ssize_t = _HEAD + _SIZE * self.groups(levels)
        end: cython.Py_ssize_t = -1
        large: cython.Py_ssize_t = 0
        if issued.shape[0] >= first and 0.0 <= issued[_HEAD - 1] <= self.size:
            large = cython.cast(cython.Py_ssize_t, issued[_HEAD - 1])
            end = first + (1 + _FINE_SIZE) * large
        is_record: cython.bint = first <= end <= issued.shape[0] and issued[_HEAD - 1] == large
        if is_record:
            is_record = 0.0 < issued[0] < 1.0 and 0.0 < issued[1] < 1.0 and issued[2] <= 1.0
            for i in range(end):
                is_record = is_record and 0.0 <= issued[i] < _INFINITY
            for i in range(first, end, 1 + _FINE_SIZE):
                is_record = is_record and issued[i] < self.size
        if not is_record:
            raise ValueError("the numbers are not those of an observation of these levels")
        return end

    def resolve(self, levels: list, issued: cython.const[cython.double][::1], y: cython.double):
        """Settle the bets of an issued observation by its label, 1 or 0; −1 where it never comes, and the bets are off.

        What belongs to a group that has made room is gone.
        """
        a: cython.Py_ssize_t
        i: cython.Py_ssize_t
        j: cython.Py_ssize_t
        lost: cython.double = 0.0
        end: cython.Py_ssize_t = _HEAD + _SIZE * self.groups(levels)
        if self.record_end(levels, issued) != issued.shape[0]:
            raise ValueError("there are more numbers than those of an observation")
        self.be_late()
        self._look(self._clamp(issued[0]), levels)
        self._p, self._q = issued[1], 1.0 - issued[1]
        v: cython.double = issued[2] if y >= 0.0 else 0.0
        self._tilts = _ALL
        self._judge(y, v)
        for a in range(_ALL):
            self._sums[a] = self._added[a] = 0.0
        i = _HEAD
        for j in range(self.size):
            if self._slot[j] != MISSING:
                lost += self._return(j, issued[i : i + _SIZE], issued[3])
                i += _SIZE
        for i in range(end, issued.shape[0], 1 + _FINE_SIZE):
            lost += self._return_fine(cython.cast(cython.Py_ssize_t, issued[i]), issued[i + 1 : i + 1 + _FINE_SIZE])
        self.gone += lost
        self._settle(self._gain(y, v), lost)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _return(
        self, j: cython.Py_ssize_t, stakes: cython.const[cython.double][::1], evicted: cython.double
    ) -> cython.double:
        """Set the stakes of a family, whose slot is free again; what they gain if its group has been admitted since."""
        a: cython.Py_ssize_t
        k: cython.Py_ssize_t = self._slot[j]
        lost: cython.double = 0.0
        if k < 0 or self._slots[k, _SINCE] > evicted or self._slots[k, _PENDING] == 0.0:
            self._slot[j] = UNKNOWN
            for a in range(_SIZE):
                lost += stakes[a] * self._rise[a]
            return lost
        for a in range(_SIZE):
            self._stakes[j, a] = stakes[a]
            self._sums[a] += stakes[a]
            self._slots[k, a] -= self._less(self._slots[k, a], stakes[a])
        self._stakes[j, _SIZE] = 0.0
        self._slots[k, _FREE] += 1.0
        self._slots[k, _PENDING] -= 1.0
        return 0.0

    @cython.cfunc
    @cython.exceptval(check=False)
    def _return_fine(self, j: cython.Py_ssize_t, stakes: cython.const[cython.double][::1]) -> cython.double:
        """`_return` of the stakes of further accounts."""
        a: cython.Py_ssize_t
        r: cython.Py_ssize_t = self._fine_row(self._slot[j]) if self._slot[j] >= 0 else UNKNOWN
        lost: cython.double = 0.0
        if r < 0 or self._fine[r, _FINE_PENDING] == 0.0:
            for a in range(_FINE_SIZE):
                lost += stakes[a] * self._rise[_SIZE + a]
            return lost
        for a in range(_FINE_SIZE):
            self._stakes[j, _SIZE + a] = stakes[a]
            self._sums[_SIZE + a] += stakes[a]
            self._fine[r, _FINE_SIZE + a] -= self._less(self._fine[r, _FINE_SIZE + a], stakes[a])
        self._fine[r, _FINE_FREE] += 1.0
        self._fine[r, _FINE_PENDING] -= 1.0
        return 0.0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _less(self, taken: cython.double, stake: cython.double) -> cython.double:
        """Return what a stake takes from those of its group: all of them where it is more, and the rest is injected."""
        more: cython.double = max(stake - taken, 0.0)
        self.injected += more
        self.total += more
        return stake - more
