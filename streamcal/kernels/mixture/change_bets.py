# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
# cython: binding=False, always_allow_keywords=False
"""Bets against the calibration of issued probabilities or distributions, over the kind and the time of a change.

Symbols, p being an issued probability of log-odds x, y its label and x̄ the mean of the log-odds so far, x among them:

    q[k]                     σ(x + a[k] + b[k]·(x − x̄)), the probability that bet k expects
    L[k]                     the likelihood ratio (q/p)^y ((1 − q)/(1 − p))^(1 − y), whose mean is 1 if P(y = 1) = p
    z                        a standard normal variable if a distribution is calibrated; then L[k] is its likelihood
                             ratio under N(a[k], (1 + b[k])²), clamped to ±`LARGEST_SCORE`
    π[k]                     the prior of bet k; they sum to 1
    c                        the prior probability that the change is still to come, given all outcomes so far
    W[k]                     Σ over starts s of the prior of (k, s) times L[k] at s, s + 1, ..., now
    V[k], since[k]           the largest product of L[k] from a start until now, and that start

Both forms have W[k] ← (W[k] + start·π[k])·L[k] at every outcome. In the e-process c + Σ W[k], `start` is what c loses:
it begins at 1 − `immediate` and falls as `horizon`/(t + `horizon`). In the Shiryaev–Roberts detector Σ W[k], `start` is
1 and c is 0.
"""

import cython
from cython.cimports.libc.math import exp, log, log1p
from cython.cimports.streamcal.kernels.common.fast_path import fast_observation

inf = cython.declare(cython.double, float("inf"))
nan = cython.declare(cython.double, float("nan"))

MOST = 12
"""The number of bets is at most this: C arrays have a fixed size, and a segment has a kilobyte."""
LARGEST_SCORE = cython.declare(cython.double, 8.25)
"""Normal scores are clamped to ± this: the PITs 0 and 1 of double precision."""
LIMIT = cython.declare(cython.double, 30.0)
"""Distances from the mean log-odds are clamped to ± this, so that no exponential overflows."""


@cython.final
@cython.cclass
class ChangeBets:
    """The wealth of K bets and of the cash that is not bet yet.

    Parameters
    ----------
    levels, slopes : sequences of float
        a[k] and b[k].
    prior : sequence of float
        π[k], which sum to 1.
    immediate : float
        The prior probability of a change before the first outcome.
    horizon : float
        The number of outcomes by which half of the later changes have come; 0 makes a Shiryaev–Roberts detector.

    Notes
    -----
    O(K) for an outcome and in memory. An outcome whose probability was exactly 0 or 1 is certain: if it comes, nothing
    can be bet on it, and if its opposite comes, `value` is infinite from then on.
    """

    count = cython.declare(cython.longlong, visibility="readonly")
    contradicted = cython.declare(cython.bint, visibility="readonly")
    size = cython.declare(cython.Py_ssize_t, visibility="readonly")
    _horizon: cython.double
    _mean: cython.double
    _cash: cython.double
    _levels: cython.double[12]
    _slopes: cython.double[12]
    _prior: cython.double[12]
    _ratios: cython.double[12]
    _wealth: cython.double[12]
    _longest: cython.double[12]
    _since: cython.longlong[12]

    def __init__(self, levels: object, slopes: object, prior: object, immediate: cython.double, horizon: cython.double):
        k: cython.Py_ssize_t
        if not len(levels) == len(slopes) == len(prior) <= MOST:
            raise ValueError(f"expected up to {MOST} bets, not {len(levels)}, {len(slopes)} and {len(prior)}")
        if not cython.compiled:
            self._levels, self._slopes, self._prior = [0.0] * MOST, [0.0] * MOST, [0.0] * MOST
            self._ratios = [0.0] * MOST
            self._wealth, self._longest, self._since = [0.0] * MOST, [0.0] * MOST, [0] * MOST
        self.size = len(prior)
        self.count = 0
        self.contradicted = False
        self._horizon = horizon
        self._mean = 0.0
        self._cash = 1.0 - immediate if horizon > 0.0 else 0.0
        for k in range(self.size):
            self._levels[k] = levels[k]
            self._slopes[k] = slopes[k]
            self._prior[k] = prior[k]
            self._wealth[k] = immediate * self._prior[k] if horizon > 0.0 else 0.0
            self._longest[k] = 1.0
            self._since[k] = 1

    @cython.ccall
    @cython.exceptval(check=False)
    def value(self) -> cython.double:
        """Return c + Σ W[k]; infinite after a contradiction."""
        k: cython.Py_ssize_t
        total: cython.double = self._cash
        for k in range(self.size):
            total += self._wealth[k]
        return inf if self.contradicted else total

    @cython.ccall
    @cython.exceptval(check=False)
    def step(self, p: cython.double, y: cython.double, now: cython.longlong) -> cython.double:
        """Return `value` after the label y of the probability p, the outcome number `now`."""
        k: cython.Py_ssize_t
        x: cython.double
        ratio: cython.double
        if p <= 0.0 or p >= 1.0:
            self.contradicted = self.contradicted or y != p
            return self.value()
        x = log(p) - log1p(-p)
        self.count += 1
        self._mean += (x - self._mean) / self.count
        x = max(-LIMIT, min(LIMIT, x - self._mean))
        for k in range(self.size):
            ratio = exp(self._levels[k] + self._slopes[k] * x)
            self._ratios[k] = (ratio if y > 0.0 else 1.0) / (1.0 - p + p * ratio)
        return self._settle(now)

    @cython.ccall
    @cython.exceptval(check=False)
    def step_score(self, z: cython.double, now: cython.longlong) -> cython.double:
        """Return `value` after the normal score z, the outcome number `now`."""
        k: cython.Py_ssize_t
        distance: cython.double
        spread: cython.double
        self.count += 1
        z = max(-LARGEST_SCORE, min(LARGEST_SCORE, z))
        for k in range(self.size):
            spread = 1.0 + self._slopes[k]
            distance = (z - self._levels[k]) / spread
            self._ratios[k] = exp(0.5 * (z * z - distance * distance)) / spread
        return self._settle(now)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _settle(self, now: cython.longlong) -> cython.double:
        """Return `value` after multiplying all bets by their ratios and making new ones at this outcome."""
        k: cython.Py_ssize_t
        ratio: cython.double
        start: cython.double = 1.0
        total: cython.double
        if self._horizon > 0.0:
            start = self._cash / (self.count + self._horizon)
            self._cash -= start
        total = self._cash
        for k in range(self.size):
            ratio = self._ratios[k]
            self._wealth[k] = (self._wealth[k] + start * self._prior[k]) * ratio
            total += self._wealth[k]
            if self._longest[k] <= 1.0:
                self._longest[k] = 1.0
                self._since[k] = now
            self._longest[k] *= ratio
        return inf if self.contradicted else total

    def step_fast(self, p: object, y: object, now: cython.longlong) -> cython.double:
        """Do `step` for a float p inside (0, 1) and a bool y; NaN, without a change, for anything else."""
        if not fast_observation(p, y, 1.0, 0.0, 1.0) or p == 0.0 or p == 1.0:
            return nan
        return self.step(p, 1.0 if y is True else 0.0, now)

    def step_many(self, p: object, y: object, now: cython.longlong, threshold: cython.double):
        """Do `step` until `value` reaches the threshold; return how many outcomes were used."""
        i: cython.Py_ssize_t
        probabilities: cython.const[cython.double][::1] = p
        labels: cython.const[cython.double][::1] = y
        if probabilities.shape[0] != labels.shape[0]:
            raise ValueError(f"{probabilities.shape[0]} probabilities and {labels.shape[0]} labels are not as many")
        for i in range(probabilities.shape[0]):
            if self.step(probabilities[i], labels[i], now + i) >= threshold:
                return i + 1
        return probabilities.shape[0]

    def step_scores(self, z: object, now: cython.longlong, threshold: cython.double):
        """Do `step_score` until `value` reaches the threshold; return how many outcomes were used."""
        i: cython.Py_ssize_t
        scores: cython.const[cython.double][::1] = z
        for i in range(scores.shape[0]):
            if self.step_score(scores[i], now + i) >= threshold:
                return i + 1
        return scores.shape[0]

    def wealth(self):
        """W, a list."""
        return [self._wealth[k] for k in range(self.size)]

    def runs(self):
        """Return V and since, two lists."""
        return [self._longest[k] for k in range(self.size)], [self._since[k] for k in range(self.size)]

    def pool(self, of: object):
        """Take over the evidence of bets of the same parameters on other outcomes.

        N[k] = c + W[k]/π[k] is the wealth of bet k alone over all times of its change. In the e-process the N of both
        are multiplied, bet by bet; in the detector the W are added.
        """
        other: ChangeBets = of
        k: cython.Py_ssize_t
        own: cython.double
        theirs: cython.double
        total: cython.longlong = self.count + other.count
        if self.size != other.size or self._horizon != other._horizon:
            raise ValueError("bets of other parameters cannot be pooled")
        if total:
            self._mean = (self._mean * self.count + other._mean * other.count) / total
        for k in range(self.size):
            if self._horizon > 0.0:
                own = self._cash + self._wealth[k] / self._prior[k]
                theirs = other._cash + other._wealth[k] / self._prior[k]
                self._wealth[k] = self._prior[k] * max(0.0, own * theirs - self._cash * other._cash)
            else:
                self._wealth[k] += other._wealth[k]
            if other._longest[k] > self._longest[k]:
                self._longest[k] = other._longest[k]
                self._since[k] = other._since[k]
        self._cash *= other._cash
        self.count = total
        self.contradicted = self.contradicted or other.contradicted

    def state(self):
        """Return [number of bets made, contradicted, x̄, c, W, V, since] as plain data, for `load`."""
        return [self.count, bool(self.contradicted), self._mean, self._cash, self.wealth(), *self.runs()]

    def load(
        self,
        count: cython.longlong,
        contradicted: cython.bint,
        mean: cython.double,
        cash: cython.double,
        wealth: object,
        longest: object,
        since: object,
    ):
        """Load an earlier `state`; `ValueError` if it is of another size."""
        k: cython.Py_ssize_t
        if not len(wealth) == len(longest) == len(since) == self.size:
            raise ValueError(f"expected {self.size} bets, not {len(wealth)}, {len(longest)} and {len(since)}")
        self.count = count
        self.contradicted = contradicted
        self._mean = mean
        self._cash = cash
        for k in range(self.size):
            self._wealth[k] = wealth[k]
            self._longest[k] = longest[k]
            self._since[k] = since[k]
