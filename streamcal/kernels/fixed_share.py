# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Fixed share (Herbster and Warmuth, Tracking the best expert, 1998): mixtures of forecasts under log loss.

Symbols:

    V[j, k]                  the weight of forecast k in row j, a row being one share rate; rows sum to 1
    R[j]                     log-wealth of row j: the log of the product of its probabilities of the outcomes

Only weights within rows and differences of log-wealth are kept, so nothing underflows, however long the stream.
Fields and C signatures of `FixedShare` are in `fixed_share.pxd`, for the kernels that hold such objects.
"""

import cython

if not cython.compiled:
    import math

    from streamcal.kernels.fast_path import fast_observation, fast_score
    from streamcal.kernels.online_newton import log_odds
    from streamcal.kernels.weights import WeightScale

    exp, log, log1p, nan, power = math.exp, math.log, math.log1p, math.nan, math.pow
else:
    from cython.cimports.libc.math import NAN as nan
    from cython.cimports.libc.math import exp, log, log1p
    from cython.cimports.libc.math import pow as power
    from cython.cimports.streamcal.kernels.fast_path import fast_observation, fast_score
    from cython.cimports.streamcal.kernels.online_newton import log_odds
    from cython.cimports.streamcal.kernels.weights import WeightScale

import numpy as np

LARGEST = cython.declare(cython.double, 16.0)
"""Log-odds of scores are clamped to ± this."""
NOTHING = cython.declare(cython.double, -746.0)
"""The exponential of this is 0, after long in libm: it looks for errors there."""

SLACK = cython.declare(cython.double, 1e-6)
"""Log-odds of a mean of forecasts at the bound, and log-probabilities, may be beyond it by so much rounding."""
LATE_POWER = cython.declare(cython.double, 0.75)
"""The learning rate of a label before which d others were learned, since its forecast was issued, is (1 + d)^−¾."""
FOOLED = cython.declare(cython.double, 300.0)
"""What is judged by hindsight has 1/(1 + d/300) of its weight: the later labels are, the longer it may be fooled."""

# The loops of these functions could stand where they are called; but while arrays are read from fields, the compiler
# does not know that what is written to one leaves the others where they are.


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _redistribute(
    shares: cython.double[:, ::1],
    row: cython.Py_ssize_t,
    gains: cython.const[cython.double][::1],
    prior: cython.const[cython.double][::1],
    rate: cython.double,
) -> cython.double:
    """Multiply a row, normalise and redistribute it; returns the mean factor."""
    k: cython.Py_ssize_t
    total: cython.double = 0.0
    left: cython.double
    for k in range(gains.shape[0]):
        shares[row, k] *= gains[k]
    for k in range(gains.shape[0]):
        total += shares[row, k]
    left = (1.0 - rate) / total
    for k in range(gains.shape[0]):
        shares[row, k] = left * shares[row, k] + rate * prior[k]
    return total


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _add_row(
    sums: cython.double[::1], by: cython.double, rows: cython.double[:, ::1], row: cython.Py_ssize_t
) -> cython.void:
    """Add a multiple of a row."""
    k: cython.Py_ssize_t
    for k in range(sums.shape[0]):
        sums[k] += by * rows[row, k]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _multiply(out: cython.double[::1], by: cython.double) -> cython.void:
    """Multiply all entries."""
    k: cython.Py_ssize_t
    for k in range(out.shape[0]):
        out[k] *= by


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _set_multiples(out: cython.double[::1], by: cython.double, of: cython.const[cython.double][::1]) -> cython.void:
    """Set `out` to multiples of `of`."""
    k: cython.Py_ssize_t
    for k in range(out.shape[0]):
        out[k] = by * of[k]


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _set_chances(
    odds: cython.double[::1],
    p: cython.double[::1],
    q: cython.double[::1],
    against: cython.const[cython.double][::1],
    of_slope: cython.const[cython.Py_ssize_t][::1],
    factors: cython.const[cython.double][::1],
) -> cython.void:
    """Set the odds against 1, and the probabilities p of 1 and q of 0."""
    k: cython.Py_ssize_t
    for k in range(odds.shape[0]):
        odds[k] = against[of_slope[k]] * factors[k]
    for k in range(odds.shape[0]):
        p[k] = 1.0 / (1.0 + odds[k])
        q[k] = odds[k] * p[k]


@cython.ccall
@cython.nogil
@cython.exceptval(check=False)
def late_rate(late: cython.double) -> cython.double:
    """The learning rate of a label that is so many labels late."""
    return power(1.0 + late, -LATE_POWER)


@cython.ccall
@cython.nogil
@cython.exceptval(check=False)
def hindsight_weight(late: cython.double) -> cython.double:
    """The part of its weight that has what is judged by hindsight, where labels are so many labels late."""
    return 1.0 / (1.0 + late / FOOLED)


@cython.ccall
def require_said(
    said: cython.const[cython.double][::1],
    first: cython.Py_ssize_t,
    last: cython.Py_ssize_t,
    most: cython.double,
    whose: object,
):
    """`ValueError` unless the numbers from `first` to before `last` lie between −16 and `most`, but for rounding."""
    i: cython.Py_ssize_t
    for i in range(first, last):
        if not -LARGEST - SLACK <= said[i] <= most + SLACK:
            raise ValueError(f"number {i} that {whose} said is {said[i]}, not from -16 to {most:g}")


@cython.cclass
class FixedShare:
    """The fixed-share algorithm for K forecasts; the weighted mean of the forecasts is itself a forecast.

    An outcome multiplies V[j, k] by its probability under forecast k; row j is normalised, and then the fraction
    `rates[j]` of its weight is redistributed according to the prior. Rows are weighted in the same way: R[j] grows by
    the log-probability of the outcome under the mean of row j. `triple_rows` says what is added where labels are late.

    Parameters
    ----------
    rates : sequence of float
        The share rate of each row.
    prior : sequence of float
        The initial weights, also used for redistribution: K numbers that sum to 1.
    passive : float
        The fraction of the initial weight that always stays on the first forecast; the rest is split evenly over the
        rows. If it is not 0, R[j] is relative to the log-wealth of the first forecast.

    Notes
    -----
    O(K) for a forecast, O(K · rows) for an outcome and in memory.
    """

    def __init__(self, rates, prior, passive: cython.double = 0.0):
        self.size = len(prior)
        self.rows = len(rates)
        self._rates = np.array(rates, dtype=np.float64)
        self.third = 0
        self.late = 0.0
        self._passive = passive
        self._prior = np.array(prior, dtype=np.float64)
        work: cython.double[::1] = np.zeros(2 * self.size + self.rows)
        self._weights, self._gains = work[: self.size], work[self.size : 2 * self.size]
        self._log_wealth = work[2 * self.size :]
        self._odds = None
        self._shares = np.array([prior] * self.rows, dtype=np.float64)
        self._weigh()

    def mean(self, z):
        """The log-odds of the weighted mean of the forecasts whose log-odds are z, shape (K,); else NaN."""
        k: cython.Py_ssize_t
        if z.shape[0] != self.size:
            return nan
        if self._odds is None:
            self._odds = np.zeros((1, self.size))
        for k in range(self.size):
            self._odds[0, k] = exp(-z[k])
        return self.mean_of(self._odds, 0)

    def mean_of(self, e, row):
        """The same, of the odds against each forecast, exp(−z), in a row of `e`."""
        k: cython.Py_ssize_t
        if e.shape[1] != self.size:
            return nan
        p: cython.double
        positive: cython.double = 0.0
        negative: cython.double = 0.0
        for k in range(self.size):
            p = self._weights[k] / (1.0 + e[row, k])
            positive += p
            negative += e[row, k] * p
        return log(positive / negative)

    def assess(self, gains, of_rows):
        """Set `of_rows`, shape (rows,), to the log-probability of an outcome under the mean of each row.

        `gains`, shape (K,), are its log-probabilities under the forecasts.
        """
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        total: cython.double
        self._require_sizes(gains.shape[0], of_rows.shape[0])
        for k in range(self.size):
            self._gains[k] = exp(gains[k])
        for j in range(self.rows):
            total = 0.0
            for k in range(self.size):
                total += self._shares[j, k] * self._gains[k]
            of_rows[j] = log(total)

    def learn(self, gains, of_rows, w):
        """One step on an outcome of weight w, with the arguments of `assess`; not after `triple_rows`."""
        j: cython.Py_ssize_t
        self._require_sizes(gains.shape[0], of_rows.shape[0])
        self._set_factors(gains, w)
        for j in range(self.rows):
            self._pay(j)
            self._log_wealth[j] += w * of_rows[j]
        self._weigh_rows()

    def learn_late(self, gains, of_rows, now, w, late):
        """One step after `triple_rows`: gains and rows as of forecasts issued `late` labels ago, and gains of `now`.

        `self.late`, by which the last third counts, is how late labels usually are: it is set beforehand.
        """
        rate: cython.double = w * late_rate(late)
        whole: cython.double = w / (1.0 + late)
        self._require_sizes(gains.shape[0], of_rows.shape[0])
        self._set_factors(gains, rate)
        self._learn_third(0, of_rows, True, rate, whole)
        self._set_factors(gains, w)
        self._learn_third(self.third, of_rows, True, w, whole)
        self._set_factors(now, w)
        self._learn_third(2 * self.third, of_rows, False, w, whole)
        self._weigh_rows()

    def _learn_third(self, first, of_rows, issued, rate, whole):
        """Multiply the rows of a third, and weigh them: against each other, and all of them against the other thirds.

        Against each other, by the log-probability under each row, when it was issued or as of now, times `rate`. All,
        by that under their mean when it was issued, times `whole`.
        """
        j: cython.Py_ssize_t
        own: cython.double
        before: cython.double = self._wealth_of(first)
        said: cython.double = 0.0
        for j in range(first, first + self.third):
            said += exp(self._log_wealth[j] - before + of_rows[j])
            own = self._pay(j)
            self._log_wealth[j] += rate * of_rows[j] if issued else log(own)
        before += whole * log(said) - self._wealth_of(first)
        for j in range(first, first + self.third):
            self._log_wealth[j] += before

    def _wealth_of(self, first):
        """The log of the wealth of a third."""
        j: cython.Py_ssize_t
        largest: cython.double = self._log_wealth[first]
        total: cython.double = 0.0
        for j in range(first, first + self.third):
            largest = max(largest, self._log_wealth[j])
        for j in range(first, first + self.third):
            total += exp(self._log_wealth[j] - largest)
        return largest + log(total)

    def _set_factors(self, gains, w):
        """Set what each weight of a row is multiplied by, of which the largest is 1."""
        k: cython.Py_ssize_t
        best: cython.double = gains[0]
        for k in range(self.size):
            best = max(best, gains[k])
        for k in range(self.size):
            self._gains[k] = exp(w * (gains[k] - best))

    def _weigh_rows(self):
        """Make the log-wealth of the best row 0, since only differences count, and set the weights."""
        j: cython.Py_ssize_t
        largest: cython.double
        largest = self._log_wealth[0]
        for j in range(self.rows):
            largest = max(largest, self._log_wealth[j])
        for j in range(self.rows):
            self._log_wealth[j] -= largest
        self._weigh()

    def triple_rows(self):
        """Have every row thrice from now on, since labels are late: `learn_late` then makes the steps.

        The first third, with half of the wealth, has a learning rate that is the smaller the later a label is: its
        factors are to that power. The second has the learning rate 1. Both are judged by the forecasts that were
        issued. The last third, of learning rate 1 too, is judged by what the forecasts say now that the outcome is
        known, which is a better guess of how good they are now, unless outcomes that come in a row have much in common.
        The rows of a third are weighted against each other in the same way. Whichever third it is, its wealth grows
        with what its mean said when the forecast was issued, so that one that is fooled loses its weight. The last
        third counts less the later labels are, `late`.
        """
        j: cython.Py_ssize_t
        self.third = self.rows
        self.rows *= 3
        self._rates = np.tile(self._rates, 3)
        self._shares, self._log_wealth = np.tile(self._shares, (3, 1)), np.tile(self._log_wealth, 3)
        for j in range(self.third, self.rows):
            self._log_wealth[j] -= log(2.0)
        self._weigh()

    def _require_sizes(self, forecasts, rows):
        """`ValueError` unless there are so many forecasts and rows."""
        if forecasts != self.size or rows != self.rows:
            raise ValueError(f"{forecasts} forecasts and {rows} rows are not {self.size} and {self.rows}")

    def _pay(self, row):
        """Multiply a row by `_gains`, normalise and redistribute it; returns the mean factor."""
        return _redistribute(self._shares, row, self._gains, self._prior, self._rates[row])

    def _weigh(self):
        """Set the weights: the fraction of each forecast in the total wealth."""
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        part: cython.double
        each: cython.double = (1.0 - self._passive) / self.rows
        largest: cython.double = 0.0
        total: cython.double
        for j in range(self.rows):
            largest = max(largest, self._log_wealth[j])
        total = self._passive * exp(-largest) if -largest > NOTHING else 0.0
        for k in range(self.size):
            self._weights[k] = 0.0
        self._weights[0] = total
        for j in range(self.rows):
            if self._log_wealth[j] - largest > NOTHING:
                part = each * exp(self._log_wealth[j] - largest)
                if self.third > 0 and j >= 2 * self.third:
                    part *= hindsight_weight(self.late)
                total += part
                _add_row(self._weights, part, self._shares, j)
        _multiply(self._weights, 1.0 / total)

    def weights(self):
        """The weight of each forecast, a new array; they sum to 1."""
        return np.array(self._weights)

    def state(self):
        """[V, R] as plain data, for `load`."""
        return [np.asarray(self._shares).tolist(), np.asarray(self._log_wealth).tolist()]

    def load(self, shares, log_wealth):
        """Load an earlier `state`; `ValueError` if it is of another size."""
        if np.shape(shares) != (self.rows, self.size) or np.shape(log_wealth) != (self.rows,):
            raise ValueError(f"expected weights of shape {(self.rows, self.size)}, not {np.shape(shares)}")
        self._shares = np.array(shares, dtype=np.float64)
        self._log_wealth = np.array(log_wealth, dtype=np.float64)
        self._weigh()

    def weight_of(self, k):
        """The weight of a forecast."""
        return self._weights[k]

    def set_late(self, late):
        """Labels are so late now."""
        self.late = late
        self._weigh()


@cython.cclass
class Jumper(FixedShare):
    """The Composite Jumper (Vovk, Petej & Gammerman 2021): fixed share over K sigmoids of the log-odds x of a score.

    The calibrators are fₖ = σ(βₖ x + αₖ), f₀ being the score itself. The rows, one for each jump rate, are
    initialised with all weight on the score, and R is their log-wealth relative to the score: a log likelihood ratio.

    Parameters
    ----------
    slopes, offsets : sequences of float
        βₖ and αₖ, the first pair being (1, 0).
    rates : sequence of float
        The jump rates, each above 0.
    passive : float
        The fraction of the initial weight that always stays on the score.

    Notes
    -----
    O(K) for a forecast, O(K · rates) for an outcome and in memory.
    """

    def __init__(self, slopes, offsets, rates, passive: cython.double):
        k: cython.Py_ssize_t
        j: cython.Py_ssize_t
        FixedShare.__init__(self, rates, [1.0 / len(slopes)] * len(slopes), passive)
        different = sorted(set(slopes))
        work: cython.double[::1] = np.zeros(3 * self.size + len(different))
        self._slopes = np.array(different, dtype=np.float64)
        self._of_slope = np.array([different.index(slope) for slope in slopes], dtype=np.intp)
        self._factors = np.array([exp(-offset) for offset in offsets])
        self._odds_of, self._p = work[: self.size], work[self.size : 2 * self.size]
        self._q, self._against = work[2 * self.size : 3 * self.size], work[3 * self.size :]
        self._table = None
        self._scale = WeightScale()
        self.weight = 0.0
        for j in range(self.rows):
            for k in range(self.size):
                self._shares[j, k] = 1.0 if k == 0 else 0.0
        self._weigh()

    def predict(self, x):
        """Σ weightₖ fₖ(x)."""
        self._look(x)
        return self._mean()

    def predict_fast(self, score: object) -> cython.double:
        """The prediction at `score`, a float in [0, 1]; NaN for anything else."""
        return self.predict(log_odds(score, LARGEST)) if fast_score(score, 0.0, 1.0) else nan

    def learn_fast(self, score: object, y: object, w: object) -> cython.bint:
        """`step` for a float in [0, 1] that is not clamped, a bool and a float weight; whether it was."""
        x: cython.double
        if not fast_observation(score, y, w, 0.0, 1.0):
            return False
        x = log_odds(score, LARGEST)
        if not -LARGEST < x < LARGEST:
            return False
        self.step(x, 1.0 if y is True else 0.0, w)
        return True

    def tabulate(self, x):
        """Prepare `predict_at` for an array of log-odds."""
        self._table = np.zeros((len(x), self.size))
        for i in range(len(x)):
            self._look(x[i])
            for k in range(self.size):
                self._table[i, k] = self._p[k]

    def predict_at(self, i):
        """`predict` at the log-odds at index i of those that were tabulated."""
        k: cython.Py_ssize_t
        p: cython.double = 0.0
        for k in range(self.size):
            p += self._weights[k] * self._table[i, k]
        return p if p < 1.0 else 1.0

    def _look(self, x):
        """Set the odds exp(−z) against 1 of each calibrator at x, and its probabilities; one exponential a slope."""
        k: cython.Py_ssize_t
        for k in range(self._slopes.shape[0]):
            self._against[k] = exp(-self._slopes[k] * x)
        _set_chances(self._odds_of, self._p, self._q, self._against, self._of_slope, self._factors)

    def _mean(self):
        """The prediction where `_look` has looked."""
        k: cython.Py_ssize_t
        p: cython.double = 0.0
        for k in range(self.size):
            p += self._weights[k] * self._p[k]
        return p if p < 1.0 else 1.0

    def _log_of(self, k, y):
        """The log-probability of the label y under a calibrator where `_look` has looked."""
        return -log1p(self._odds_of[k] if y > 0.0 else 1.0 / self._odds_of[k])

    def step(self, x, y, w):
        """One step on the label y at x, with weight w; then the jump."""
        self._look(x)
        self._learn(y, w)

    def _learn(self, y, w):
        """The step where `_look` has looked, with the weight relative to the running mean."""
        j: cython.Py_ssize_t
        relative: cython.double = self._scale.relative(w)
        best: cython.double = self._set_gains(y) if relative == 1.0 else self._set_weighted_gains(y, relative)
        for j in range(self.rows):
            self._log_wealth[j] += best + log(self._pay(j))
        self.weight += w
        self._weigh()

    def _set_gains(self, y):
        """Set `_gains` to the probabilities of y relative to that under the score; returns 0.

        They are within exp(±33), as scores are within log-odds ±16.
        """
        if y > 0.0:
            _set_multiples(self._gains, 1.0 + self._odds_of[0], self._p)
        else:
            _set_multiples(self._gains, 1.0 + 1.0 / self._odds_of[0], self._q)
        self._gains[0] = 1.0
        return 0.0

    def _set_weighted_gains(self, y, w):
        """The same to the power w, divided by the largest; returns the logarithm of that."""
        k: cython.Py_ssize_t
        score: cython.double = self._log_of(0, y)
        best: cython.double = 0.0  # the log gain of the score relative to itself
        for k in range(self.size):
            self._gains[k] = w * (self._log_of(k, y) - score) if k else 0.0
            if self._gains[k] > best and self._shares[0, k] > 0.0:  # before the first jump only the score has weight
                best = self._gains[k]
        for k in range(self.size):
            self._gains[k] = exp(min(self._gains[k] - best, 0.0))
        return best

    def stream(
        self,
        x: cython.const[cython.double][::1],
        y: cython.const[cython.double][::1],
        w: cython.const[cython.double][:],
        predictions: cython.double[::1],
    ):
        """`predict`, unless `predictions` is empty, and then `step` for each row; a row of weight 0 makes no step.

        It runs without the GIL.
        """
        i: cython.Py_ssize_t
        n: cython.Py_ssize_t = x.shape[0]
        predicts: cython.bint = predictions.shape[0] > 0
        if not n == y.shape[0] == w.shape[0] or (predicts and predictions.shape[0] != n):
            raise ValueError("lengths differ")
        with cython.nogil:
            for i in range(n):
                self._look(x[i])
                if predicts:
                    predictions[i] = self._mean()
                if w[i] > 0.0:
                    self._learn(y[i], w[i])

    def state(self):
        """[V, R, weight learned, state of the weight scale] as plain data, for `load`."""
        return [*FixedShare.state(self), float(self.weight), self._scale.state()]

    def load(self, shares, log_wealth, weight: cython.double, scale):
        """Load an earlier `state`; `ValueError` if it is of another size."""
        FixedShare.load(self, shares, log_wealth)
        self.weight = weight
        self._scale.load(*scale)
