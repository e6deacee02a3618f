# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Accounts that bet against the predictions of their group, and the prediction at which they gain nothing together.

Symbols, z being the probability of the calibrator, and p the prediction:

    h[a], d[a]       the tilts, ±1, ±1/3, ±1/9 and ±1/27, then ±1/81 and ±1/243 of large groups, and exp(h) − 1
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

The further accounts of large groups (`capitals.py`) need labels in time: the first prediction that is issued for a late
label closes them.
"""

import cython
from cython.cimports.libc.math import log
from cython.cimports.streamcal.kernels.common.weights import steps_of
from cython.cimports.streamcal.kernels.segments.balance import balanced
from cython.cimports.streamcal.kernels.segments.capitals import _ALL, _FINE_SIZE, _GAP, _SIZE, _VARIANCE, Capitals
from cython.cimports.streamcal.kernels.segments.groups import MISSING
from cython.cimports.streamcal.kernels.segments.level_table import UNKNOWN

#: Probabilities are clamped to this and 1 minus this.
_LOWEST = cython.declare(cython.double, 2.0**-52)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _stake(
    first: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    held: cython.p_double,
    least: cython.p_double,
    sums: cython.p_double,
) -> cython.void:
    """Add the capitals of a group, as they are once raised to their floors, to S."""
    a: cython.Py_ssize_t
    for a in range(first, end):
        w: cython.double = held[a - first]
        sums[a] += least[a] if w < least[a] else w


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _raise(
    first: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    held: cython.p_double,
    least: cython.p_double,
    sums: cython.p_double,
    added: cython.p_double,
) -> cython.void:
    """`_stake`, and raise the capitals to their floors."""
    a: cython.Py_ssize_t
    for a in range(first, end):
        w: cython.double = held[a - first]
        raised: cython.double = least[a] if w < least[a] else w
        sums[a] += raised
        added[a] += raised - w
        held[a - first] = raised


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _multiply(
    first: cython.Py_ssize_t, end: cython.Py_ssize_t, held: cython.p_double, rise: cython.p_double
) -> cython.void:
    """Settle the bets of a group."""
    a: cython.Py_ssize_t
    for a in range(first, end):
        held[a - first] += held[a - first] * rise[a]


@cython.final
@cython.cclass
class Accounts(Capitals):
    """The accounts of the groups of a stream, with the parameters and counters of `Capitals`.

    O(groups of the observation) for a prediction and for a label; 80
    bytes for a group, some 20 for its place, and its name.
    """

    _tilts: cython.Py_ssize_t  # those of the observation: further ones if one of its groups is large
    _least: cython.double[12]
    _sums: cython.double[12]  # S
    _added: cython.double[12]  # what was injected for the observation
    _rise: cython.double[12]  # the ratio in which accounts gain
    _z: cython.double
    _p: cython.double
    _q: cython.double  # 1 − p, exactly where p is near 1

    def __init__(self, *parameters):
        Capitals.__init__(self, *parameters)
        if not cython.compiled:
            self._least, self._sums, self._added, self._rise = ([0.0] * _ALL for _ in range(4))

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _numbers(self, k: cython.Py_ssize_t) -> cython.p_double:
        """Return the numbers of the group in a slot."""
        if cython.compiled:
            return cython.address(self._values[k, 0])
        else:
            return self._values[k]

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _further(self, place: cython.double) -> cython.p_double:
        """Return the further capitals of a large group, and its V, by what is in the place of its V."""
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
        """Set S as it is once all accounts are at their floors or above. Nothing else changes."""
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        self._start()
        for j in range(self.size):
            k = self._slot[j]
            if k == MISSING:
                continue
            held: cython.p_double = self._numbers(k if k >= 0 else j)
            _stake(0, _SIZE, held, self._least, self._sums)
            if held[_VARIANCE] < 0.0:
                _stake(_SIZE, _ALL, self._further(held[_VARIANCE]), self._least, self._sums)
                self._tilts = _ALL

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _fill(self) -> cython.int:
        """`_sum`, and raise the accounts to their floors; the groups of the observation are then the newest."""
        a: cython.Py_ssize_t
        j: cython.Py_ssize_t
        self._start()
        for j in range(self.size):
            if self._slot[j] == MISSING:
                continue
            if self._slot[j] == UNKNOWN:
                self._admit(j)
            self._table.use(self._slot[j])
            held: cython.p_double = self._numbers(self._slot[j])
            _raise(0, _SIZE, held, self._least, self._sums, self._added)
            if held[_VARIANCE] < 0.0:
                _raise(_SIZE, _ALL, self._further(held[_VARIANCE]), self._least, self._sums, self._added)
                self._tilts = _ALL
        added: cython.double = 0.0
        for a in range(self._tilts):
            added += self._added[a]
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

    def predict_many(self, z: cython.const[cython.double][::1], columns: list, found: cython.double[::1]):
        """`predict` for each of n rows; `columns` has a list of n levels for each field."""
        i: cython.Py_ssize_t
        self._require_length(columns, z.shape[0])
        for i in range(z.shape[0]):
            self._look_at(self._clamp(z[i]), columns, i)
            self._sum()
            self._balance()
            found[i] = self._p

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
            self._settle(y, v, gain)
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _gain(self, y: cython.double, v: cython.double) -> cython.double:
        """Return v times the log loss of z minus that of p."""
        return v * (log(self._p / self._z) if y > 0.0 else log(self._q / (1.0 - self._z)))

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _settle(self, y: cython.double, v: cython.double, gain: cython.double) -> cython.int:
        """Multiply the accounts that were filled, and add to M and V of their groups."""
        a: cython.Py_ssize_t
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        change: cython.double = 0.0
        residual: cython.double = v * (self._q if y > 0.0 else -self._p)
        variance: cython.double = v * self._p * self._q
        for a in range(self._tilts):
            self._rise[a] = residual * self._d[a] / (1.0 + self._p * self._d[a])
        for a in range(self._tilts):
            change += self._sums[a] * self._rise[a]
        for j in range(self.size):
            k = self._slot[j]
            if k < 0:
                continue
            held: cython.p_double = self._numbers(k)
            _multiply(0, _SIZE, held, self._rise)
            held[_GAP] += residual
            if held[_VARIANCE] < 0.0:
                further: cython.p_double = self._further(held[_VARIANCE])
                _multiply(_SIZE, _ALL, further, self._rise)
                further[_FINE_SIZE] += variance
            else:
                held[_VARIANCE] += variance
                if held[_VARIANCE] > self.large and not self._is_closed:
                    self._open(k)
        self._count(change, gain)
        return 0

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
        """Predict, fix the stakes of the accounts, and set aside what these can lose.

        Returns [z, p, v] and the stakes, a group after the other, for `resolve`; v is the weight, at most 1.
        """
        a: cython.Py_ssize_t
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        self._require_levels(levels)
        self.close_fine()
        self._look(self._clamp(z), levels)
        self._fill()
        self._balance()
        found: list = [float(self._z), float(self._p), float(v)]
        for j in range(self.size):
            k = self._slot[j]
            if k == MISSING:
                continue
            for a in range(_SIZE):
                stake: cython.double = v * self._values[k, a]
                lost: cython.double = stake * self._loss(a)
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

    def resolve(self, levels: list, issued: cython.const[cython.double][::1], y: cython.double):
        """Settle the bets of an issued observation by its label, 1 or 0; −1 where it never comes, and the bets are off.

        What belongs to a group that has made room is gone.
        """
        a: cython.Py_ssize_t
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        i: cython.Py_ssize_t = 3
        changes: cython.double = 0.0
        if issued.shape[0] != 3 + _SIZE * self.groups(levels):
            raise ValueError("the stakes are not those of these levels")
        self._look(self._clamp(issued[0]), levels)
        self._p, self._q = issued[1], 1.0 - issued[1]
        v: cython.double = issued[2]
        residual: cython.double = self._q if y > 0.0 else -self._p if y == 0.0 else 0.0
        for j in range(self.size):
            k = self._slot[j]
            if k == MISSING:
                continue
            for a in range(_SIZE):
                lost: cython.double = issued[i] * self._loss(a)
                change: cython.double = issued[i] * residual * self._d[a] / (1.0 + self._p * self._d[a])
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
