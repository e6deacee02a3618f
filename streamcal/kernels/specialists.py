# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The last mixture of `Auto`: a forecast, and specialists that speak only where they know something.

One kind counts labels at scores that repeat; the other knows the time. Where none speaks, the forecast stays as it is,
to the last bit, and no weight changes.

Symbols:

    z, x                     log-odds of the forecast, and of the score
    φ                        features of the score, the forecast and the time, at the indices in `TIME_FEATURES`
    W[j, k], R[j]            weight of forecast k in row j, and log-wealth of the row

Fields and C signatures are in `specialists.pxd`.
"""

import cython

if not cython.compiled:
    import math

    from streamcal.kernels.fixed_share import hindsight_weight, late_rate, require_said
    from streamcal.kernels.implicit_regression import RegressionBank, clamped, fill_line
    from streamcal.kernels.logistic import log_sigmoid, sigmoid
    from streamcal.kernels.period_search import PeriodSearch
    from streamcal.kernels.week_profile import WeekProfile

    cos, exp, floor, log, rint, sin = math.cos, math.exp, math.floor, math.log, round, math.sin
    nan = math.nan
else:
    from cython.cimports.libc.math import NAN as nan
    from cython.cimports.libc.math import cos, exp, floor, log, rint, sin
    from cython.cimports.streamcal.kernels.fixed_share import hindsight_weight, late_rate, require_said
    from cython.cimports.streamcal.kernels.implicit_regression import RegressionBank, clamped, fill_line
    from cython.cimports.streamcal.kernels.logistic import log_sigmoid, sigmoid
    from cython.cimports.streamcal.kernels.period_search import PeriodSearch
    from cython.cimports.streamcal.kernels.week_profile import WeekProfile

import numpy as np

from streamcal.kernels.implicit_regression import LINE_FEATURES

LARGEST = cython.declare(cython.double, 16.0)
"""Log-odds of scores and forecasts are within ± this."""
SILENT = cython.declare(cython.double, 1.0)
"""In the place of the log-probability that a specialist gave to a label, where it said nothing."""
UNSAID = cython.declare(cython.double, 32.0)
"""Likewise in the place of log-odds that are issued."""
FINE = cython.declare(cython.double, 1073741824.0)
"""2³⁰: scores whose log-odds are the same in units of its inverse are one."""
SPREAD = cython.declare(cython.double, 618033.98874989)
"""Scores are spread over the table by the fraction of this multiple of their log-odds."""
WAYS = cython.declare(cython.Py_ssize_t, 4)
"""Places in the table at which a score may be."""
REPEATED = cython.declare(cython.double, 2.0)
"""A score has repeated when it was learned so often."""
HEAVIEST = cython.declare(cython.double, 10.0)
"""Larger weights of observations are clipped to this in the search for a period, where a heavy one has power
everywhere, and in the profile of the week."""
DAY = cython.declare(cython.double, 86400.0)
TURN = cython.declare(cython.double, 6.283185307179586)

# The indices of the features in φ, after those of a line; sine and cosine of the harmonics follow, of the day first.
FORECAST = cython.declare(cython.Py_ssize_t, 4)
CYCLES = cython.declare(cython.Py_ssize_t, 5)
DAILY = cython.declare(cython.Py_ssize_t, 4)
WEEKLY = cython.declare(cython.Py_ssize_t, 3)
PERIODIC = cython.declare(cython.Py_ssize_t, 4)
PROFILE = cython.declare(cython.Py_ssize_t, 27)

#: Name of a feature → its index in φ: those of a score, log-odds of the forecast, harmonics of the day, the week and
#: the period that was found; and the profile of the week.
TIME_FEATURES = {
    **LINE_FEATURES,
    "z": FORECAST,
    **{f"{wave} {k} day": CYCLES + 2 * k - 2 + (wave == "cos") for k in range(1, DAILY + 1) for wave in ("sin", "cos")},
    **{
        f"{wave} {k} week": CYCLES + 2 * (DAILY + k - 1) + (wave == "cos")
        for k in range(1, WEEKLY + 1)
        for wave in ("sin", "cos")
    },
    **{
        f"{wave} {k} period": CYCLES + 2 * (DAILY + WEEKLY + k - 1) + (wave == "cos")
        for k in range(1, PERIODIC + 1)
        for wave in ("sin", "cos")
    },
    "profile": PROFILE,
}


@cython.final
@cython.cclass
class ScoreCounts:
    """Counts of the labels of scores that repeat, with several memories; of the scores that were learned last.

    What is said of a score is (n₁ + f·σ(z)) / (n₀ + n₁ + f), n₀ and n₁ being its negative and positive labels and f
    `firm`. The table has `sets` · 4 places: a score may be at four of them, and takes that which was learned longest
    ago.

    Parameters
    ----------
    sets : int
    firm : float
    keep : sequence of float
        What a label keeps of the earlier ones of its score, one for each memory.
    """

    def __init__(self, sets: cython.Py_ssize_t, firm: cython.double, keep):
        self.memories = len(keep)
        self.sets = sets
        self._firm = firm
        self._keep = np.array(keep, dtype=np.float64)
        size: cython.Py_ssize_t = sets * WAYS
        self._keys, self._seen = np.zeros(size), np.zeros(size)
        self._learned_at = np.zeros(size)  # the number of observations then; 0: the place is empty
        self._counts = np.zeros((size, 2 * self.memories))
        self.learned = 0.0

    def _set_of(self, key):
        """The first place at which a score may be."""
        spread: cython.double = key * SPREAD
        return WAYS * min(cython.cast(cython.Py_ssize_t, (spread - floor(spread)) * self.sets), self.sets - 1)

    def find(self, x):
        """The place of a score, −1 if it has none."""
        key: cython.double = rint(x * FINE) / FINE
        first: cython.Py_ssize_t = self._set_of(key)
        place: cython.Py_ssize_t
        for place in range(first, first + WAYS):
            if self._keys[place] == key and self._learned_at[place] > 0.0:
                return place
        return -1

    def has_repeated(self, place):
        """Whether what is at a place has been learned often enough to be asked."""
        return place >= 0 and self._seen[place] >= REPEATED

    def forecast(self, place, memory, z):
        """The log-odds for the score at a place, where those of the forecast are z."""
        negative: cython.double = self._counts[place, 2 * memory] + self._firm * sigmoid(-z)
        positive: cython.double = self._counts[place, 2 * memory + 1] + self._firm * sigmoid(z)
        return clamped(log(positive / negative), LARGEST)

    def learn(self, x, y, w):
        """Count a label."""
        k: cython.Py_ssize_t
        other: cython.Py_ssize_t
        place: cython.Py_ssize_t = self.find(x)
        if place < 0:
            place = self._set_of(rint(x * FINE) / FINE)
            for other in range(place + 1, place - place % WAYS + WAYS):
                if self._learned_at[other] < self._learned_at[place]:
                    place = other
            self._keys[place] = rint(x * FINE) / FINE
            self._seen[place] = 0.0
            for k in range(2 * self.memories):
                self._counts[place, k] = 0.0
        self.learned += 1.0
        self._learned_at[place] = self.learned
        self._seen[place] += 1.0
        for k in range(self.memories):
            self._counts[place, 2 * k] *= self._keep[k]
            self._counts[place, 2 * k + 1] *= self._keep[k]
            self._counts[place, 2 * k + (1 if y > 0.0 else 0)] += w

    def repeated(self):
        """The log-odds of the scores that have repeated, in order; a new array."""
        return np.sort(np.asarray(self._keys)[np.asarray(self._seen) >= REPEATED])

    def state(self):
        """A row for each score: log-odds, when it was learned last, how often, and its counts."""
        held = np.asarray(self._learned_at) > 0.0
        columns = np.column_stack((self._keys, self._learned_at, self._seen, self._counts))
        return columns[held].tolist()

    def load(self, rows, learned: cython.double):
        """Load an earlier `state` into an empty table; `ValueError` where more scores than places belong to a set."""
        place: cython.Py_ssize_t
        first: cython.Py_ssize_t
        for row in rows:
            first = place = self._set_of(row[0])
            while place < first + WAYS and self._learned_at[place] > 0.0:
                place += 1
            if place == first + WAYS:
                raise ValueError(f"more than {WAYS} scores are at one place")
            self._keys[place], self._learned_at[place], self._seen[place] = row[0], row[1], row[2]
            np.asarray(self._counts)[place] = row[3:]
        self.learned = learned


@cython.final
@cython.cclass
class Judgement:
    """What was said of a score, for `Specialists.learn`: made by `Specialists.assess`.

    Fields: `z`, the log-odds of the forecast; `t`, the time, NaN if there is none; log-probabilities of the label under
    each forecast, `SILENT` where it said nothing, and under each row; `spoke`, whether any specialist did. `late` is
    how many labels were learned since; if that is not 0, `now` are the log-probabilities under what is said now, and
    `speaks` is whether any specialist says something now: `Specialists.look_back` sets those.
    """

    def __init__(self, count: cython.Py_ssize_t, rows: cython.Py_ssize_t):
        self.z, self.t, self.late = 0.0, nan, 0.0
        self.spoke = self.speaks = False
        self.gains, self.now, self.of_rows = np.full(count, SILENT), np.full(count, SILENT), np.zeros(rows)

    def state(self):
        """[z, t or None, the log-probabilities of forecasts, those of rows, those of what is said now], for `load`."""
        t = None if self.t != self.t else float(self.t)
        nothing = Judgement(self.gains.shape[0], self.of_rows.shape[0])
        said, now = self if self.spoke else nothing, self if self.speaks else nothing
        gains, of_rows = np.asarray(said.gains).tolist(), np.asarray(said.of_rows).tolist()
        return [float(self.z), t, gains, of_rows, np.asarray(now.now).tolist()]

    def load(self, z: cython.double, t, gains, of_rows, now):
        """Load an earlier `state`."""
        self.z, self.t = z, nan if t is None else t
        np.asarray(self.gains)[:], np.asarray(self.of_rows)[:], np.asarray(self.now)[:] = gains, of_rows, now
        self.spoke, self.speaks = (any(gain != SILENT for gain in one[1:]) for one in (gains, now))


@cython.final
@cython.cclass
class Specialists:
    """Fixed share over a forecast and its specialists (Freund, Schapire, Singer and Warmuth 1997).

    In row j, those that speak are weighted by W[j, k]; what they say together multiplies and shares as in `FixedShare`,
    the weight of those that speak being the same before and after. With the first late label every row is there twice:
    first with the learning rate of that label, judged by what was said when the forecast was issued, then with the
    learning rate 1, judged by what is said now. Both have the wealth of what they said then; the second counts less the
    later labels are, `late`.

    Forecasts are the given one, one for each memory of `counts`, one for each regression on the time, one for each on
    the period found, and one on the profile of the week.

    Parameters
    ----------
    counts : ScoreCounts
    cycles : sequence of ForgettingRegression
        On features of `TIME_FEATURES`. They speak after `timed_from` observations with a time.
    periodic : sequence of ForgettingRegression
        On features of `TIME_FEATURES`. They begin anew where `search` has found another period, and speak after
        `timed_from` more observations with a time.
    search : PeriodSearch
    profile : WeekProfile
    hours : ForgettingRegression
        On features of `TIME_FEATURES`; `profile` is of what the other features leave. It speaks after `timed_from`
        observations with a time.
    timed_from : int
    prior, rates
        As in `FixedShare`.
    late : int
        The label delay, if it is known beforehand.

    Attributes
    ----------
    late : float
        How late labels usually are; to be set before `learn`.
    """

    def __init__(
        self,
        *,
        counts: ScoreCounts,
        cycles,
        periodic,
        search: PeriodSearch,
        profile: WeekProfile,
        hours,
        timed_from,
        prior,
        rates,
        late,
    ):
        self.counts, self.search, self.profile = counts, search, profile
        self._regressions, self._periodic = list(cycles), list(periodic)
        self._new = [regression.state() for regression in periodic]
        self._bank, self._periodic_bank = RegressionBank(self._regressions), RegressionBank(self._periodic)
        self._hours, self._hours_bank = hours, RegressionBank([hours])
        self._timed_from = timed_from
        self.timed = 0
        self.size, self.rows = len(prior), len(rates)
        self._first_cycle = 1 + counts.memories
        self._first_periodic = self._first_cycle + self._bank.size
        self._place_of_hours = self._first_periodic + self._periodic_bank.size
        if self.size != self._place_of_hours + 1:
            raise ValueError(f"{self.size} prior weights are not for {self._place_of_hours + 1} forecasts")
        self._rates = np.array(rates, dtype=np.float64)
        self._prior = np.array(prior, dtype=np.float64)
        self._shares = np.array([prior] * self.rows, dtype=np.float64)
        self._log_wealth = np.zeros(self.rows)
        self._z, self._speaks = np.zeros(self.size), np.zeros(self.size, dtype=np.intc)
        self._phi = np.zeros(len(TIME_FEATURES))
        self._places = np.arange(self._first_cycle, self._first_periodic)
        self._periodic_places = np.arange(self._first_periodic, self._place_of_hours)
        self.half = 0
        self.late = late
        self._judged = Judgement(self.size, self.rows)
        if late > 0:
            self._double_rows()

    @property
    def issued(self):
        """How many numbers `issue` returns where a specialist speaks."""
        return self.size + 2 * self.rows

    def _double_rows(self):
        """Have every row twice."""
        self.half = self.rows
        self.rows *= 2
        self._rates = np.tile(self._rates, 2)
        self._shares, self._log_wealth = np.tile(self._shares, (2, 1)), np.tile(self._log_wealth, 2)
        self._judged = Judgement(self.size, self.rows)

    def _fill(self, x, z, t):
        """Set φ."""
        fill_line(self._phi, x)
        self._phi[FORECAST] = z
        self._fill_waves(t / DAY, CYCLES, DAILY)
        self._fill_waves(t / (7.0 * DAY), CYCLES + 2 * DAILY, WEEKLY)
        if self.search.frequency > 0.0:
            self._fill_waves(self.search.turns_at(t), CYCLES + 2 * (DAILY + WEEKLY), PERIODIC)
        self._phi[PROFILE] = self.profile.at(t)

    def _fill_waves(self, turns, start, count):
        """Sine and cosine of 1 to `count` times an angle, by the addition theorem."""
        k: cython.Py_ssize_t
        s: cython.double = sin(TURN * (turns - floor(turns)))
        c: cython.double = cos(TURN * (turns - floor(turns)))
        self._phi[start], self._phi[start + 1] = s, c
        for k in range(start + 2, start + 2 * count, 2):
            self._phi[k] = self._phi[k - 2] * c + self._phi[k - 1] * s
            self._phi[k + 1] = self._phi[k - 1] * c - self._phi[k - 2] * s

    def _ask(self, z, x, t):
        """Set what each forecast says, and which speak; whether any specialist does."""
        k: cython.Py_ssize_t
        place: cython.Py_ssize_t = self.counts.find(x)
        repeated: cython.bint = self.counts.has_repeated(place)
        timed: cython.bint = t == t and self.timed >= self._timed_from
        if not (repeated or timed):
            return False
        self._z[0], self._speaks[0] = z, True
        for k in range(self.counts.memories):
            self._speaks[1 + k] = repeated
            if repeated:
                self._z[1 + k] = self.counts.forecast(place, k, z)
        if timed:
            self._fill(x, z, t)
            self._bank.predict(self._phi, 0.0, self._places, self._z)
        for k in range(self._first_cycle, self._first_periodic):
            self._speaks[k] = timed
        periodic: cython.bint = timed and self.search.learned >= self._timed_from
        if periodic:
            self._periodic_bank.predict(self._phi, 0.0, self._periodic_places, self._z)
        for k in range(self._first_periodic, self._place_of_hours):
            self._speaks[k] = periodic
        timed = timed and self.profile.learned >= self._timed_from
        self._speaks[self._place_of_hours] = timed
        if timed:
            self._z[self._place_of_hours] = clamped(self._hours_bank.predict_one(0, self._phi, 0.0), LARGEST)
        return True

    def at(self, z, x, t):
        """The log-odds of the mixture at the log-odds x and the time t (NaN: none), where the forecast says z."""
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        e: cython.double
        p: cython.double
        wealth: cython.double
        positive: cython.double = 0.0
        negative: cython.double = 0.0
        if not self._ask(z, x, t):
            return z
        for j in range(self.rows):
            wealth = exp(self._log_wealth[j]) / self._speaking(j)
            if self.half > 0 and j >= self.half:
                wealth *= hindsight_weight(self.late)
            for k in range(self.size):
                if self._speaks[k]:
                    e = exp(-self._z[k])
                    p = wealth * self._shares[j, k] / (1.0 + e)
                    positive += p
                    negative += e * p
        return clamped(log(positive / negative), LARGEST)

    def _speaking(self, row):
        """The weight in a row of those that speak."""
        k: cython.Py_ssize_t
        total: cython.double = 0.0
        for k in range(self.size):
            if self._speaks[k]:
                total += self._shares[row, k]
        return total

    def assess(self, z, x, y, t, spent=None):
        """The judgement of a label y, to be passed to `learn`; one that was learned, `spent`, is written over."""
        found: Judgement = Judgement(self.size, self.rows) if spent is None else spent
        found.z, found.t, found.late, found.spoke = z, t, 0.0, self._ask(z, x, t)
        if found.spoke:
            self._judge_forecasts(y, found.gains)
            self._judge_rows(found)
        return found

    def look_back(self, z, x, y, found):
        """Set in the judgement of a late label what is said now, where the forecast says z."""
        found.speaks = self._ask(z, x, found.t)
        if found.speaks:
            self._judge_forecasts(y, found.now)

    def _judge_forecasts(self, y, out):
        """Set `out` to the log-probabilities of y under the forecasts that were asked last."""
        k: cython.Py_ssize_t
        for k in range(self.size):
            out[k] = SILENT
            if self._speaks[k]:
                out[k] = log_sigmoid(self._z[k] if y > 0.0 else -self._z[k])

    def _judge_rows(self, found):
        """Set the log-probabilities under the rows to those that follow from the forecasts."""
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        total: cython.double
        for j in range(self.rows):
            total = 0.0
            for k in range(self.size):
                if self._speaks[k]:
                    total += self._shares[j, k] * exp(found.gains[k])
            found.of_rows[j] = log(total / self._speaking(j))

    def issue(self, z, x, t):
        """What is said at the log-odds x and the time t (NaN: none), for `assess_issued`: a list of floats.

        z alone where no specialist speaks; else `issued` numbers: the log-odds of each forecast, `UNSAID` where it says
        nothing, and the log-probabilities of the labels 0 and 1 under the rows.
        """
        k: cython.Py_ssize_t
        label: cython.Py_ssize_t
        if not self._ask(z, x, t):
            return [float(z)]
        said: list = []
        for k in range(self.size):
            said.append(float(self._z[k]) if self._speaks[k] else float(UNSAID))
        for label in range(2):
            self._judge_forecasts(label, self._judged.gains)
            self._judge_rows(self._judged)
            for k in range(self.rows):
                said.append(float(self._judged.of_rows[k]))
        return said

    def assess_issued(self, said, y, t, late, spent=None):
        """`assess`, of the forecasts of which `issue` returned what was said at the time t, `late` labels ago.

        What was issued before the first late label, which doubles the rows, was said by the rows of which they are
        copies. `ValueError` for another number of them, and for one that cannot be.
        """
        k: cython.Py_ssize_t
        n: cython.Py_ssize_t = said.shape[0]
        rows: cython.Py_ssize_t = (n - self.size) // 2
        own: cython.Py_ssize_t = self.half if self.half > 0 else self.rows
        found: Judgement
        if n != 1 and (n != self.size + 2 * rows or rows not in (own, 2 * own)):
            raise ValueError(f"expected 1 or {self.issued} numbers that were said by specialists, not {n}")
        require_said(said, 0, 1, LARGEST, "the specialists")
        for k in range(1, min(n, self.size)):
            if said[k] != UNSAID:
                require_said(said, k, k + 1, LARGEST, "the specialists")
        if n > 1:
            require_said(said, self.size, n, 0.0, "the specialists")
        own = 2 * own if self.half > 0 or late > 0.0 else own
        found = spent if spent is not None and spent.of_rows.shape[0] == own else Judgement(self.size, own)
        found.z, found.t, found.late, found.spoke = said[0], t, late, n > 1
        if found.spoke:
            for k in range(self.size):
                self._speaks[k] = abs(said[k]) < UNSAID
                self._z[k] = said[k] if self._speaks[k] else 0.0
            self._judge_forecasts(y, found.gains)
            for k in range(own):
                found.of_rows[k] = said[self.size + k % rows + (rows if y > 0.0 else 0)]
        return found

    def learn(self, x, y, w, found):
        """Learn the label y of weight w at the log-odds x, and how right was what was said of it."""
        if found.late > 0.0 and self.half == 0:
            self._double_rows()
        self._weigh(found, w)
        self.counts.learn(x, y, w)
        if found.t == found.t:
            self._fill(x, found.z, found.t)
            self._bank.learn(self._phi, y, w)
            self.timed += 1
            if self.search.frequency > 0.0:
                self._periodic_bank.learn(self._phi, y, w)
            if self.search.add(found.t, min(w, HEAVIEST) * (y - sigmoid(x))):
                for regression, new in zip(self._periodic, self._new, strict=True):
                    regression.load(*new)
            self._learn_profile(y, w, found.t)

    def _learn_profile(self, y, w, t):
        """Learn the profile of the week, and then, beside the profile before, the regression on it."""
        offset: cython.double = self._phi[PROFILE]
        z: cython.double = self._hours_bank.predict_one(0, self._phi, 0.0)
        p: cython.double = sigmoid(z)
        h: cython.double = p * (1.0 - p)
        self._phi[PROFILE] = 0.0
        m: cython.double = clamped(z - self._hours_bank.predict_one(0, self._phi, 0.0), LARGEST)
        self._phi[PROFILE] = offset
        self.profile.learn(t, min(w, HEAVIEST) * h, min(w, HEAVIEST) * (y - p + h * m))
        self._hours_bank.learn(self._phi, y, w)

    def _weigh(self, found, w):
        """One step of fixed share among those that spoke, and of the rows judged by what is said now, if it is late."""
        j: cython.Py_ssize_t
        late: cython.bint = found.late > 0.0
        rate: cython.double
        largest: cython.double
        if not (found.spoke or (late and found.speaks)):
            return
        rate = late_rate(found.late) if late else 1.0
        if found.of_rows.shape[0] != self.rows:
            raise ValueError(f"the judgement is of {found.of_rows.shape[0]} rows, not {self.rows}")
        for j in range(self.rows):
            if found.spoke:
                self._log_wealth[j] += w * rate * found.of_rows[j]
            if late and j >= self.half:
                if found.speaks:
                    self._pay(j, found.now, w)
            elif found.spoke:
                self._pay(j, found.gains, w * rate)
        largest = self._log_wealth[0]
        for j in range(self.rows):
            largest = max(largest, self._log_wealth[j])
        for j in range(self.rows):
            self._log_wealth[j] -= largest  # only their differences count

    def _pay(self, j, gains, w):
        """Multiply the weights in a row of those that spoke, and share anew."""
        k: cython.Py_ssize_t
        best: cython.double = -1e308
        before: cython.double = 0.0
        after: cython.double = 0.0
        for k in range(self.size):
            if gains[k] <= 0.0:
                best = max(best, gains[k])
        for k in range(self.size):
            if gains[k] <= 0.0:
                before += self._shares[j, k]
                self._shares[j, k] *= exp(w * (gains[k] - best))
                after += self._shares[j, k]
        for k in range(self.size):
            if gains[k] <= 0.0:
                self._shares[j, k] *= before / after
            self._shares[j, k] = (1.0 - self._rates[j]) * self._shares[j, k] + self._rates[j] * self._prior[k]

    def weights(self):
        """The weight of each forecast if all spoke, a new array; they sum to 1."""
        wealth = np.exp(np.asarray(self._log_wealth))
        if self.half > 0:
            wealth[self.half :] *= hindsight_weight(self.late)
        found = wealth @ np.asarray(self._shares)
        return found / found.sum()

    def state(self):
        """Everything learned, as plain data, for `load`."""
        return {
            "shares": [np.asarray(self._shares).tolist(), np.asarray(self._log_wealth).tolist()],
            "counts": self.counts.state(),
            "counted": float(self.counts.learned),
            "timed": int(self.timed),
            "cycles": [regression.state() for regression in self._regressions] if self.timed else [],
            "search": self.search.state(),
            "periodic": [regression.state() for regression in self._periodic] if self.search.frequency else [],
            "hours": [self.profile.state(), self._hours.state()] if self.profile.learned else [],
        }

    def load(self, state):
        """Load an earlier `state` into new specialists; `ValueError` if it is of another size."""
        shares, log_wealth = state["shares"]
        if self.half == 0 and np.shape(log_wealth) == (2 * self.rows,):
            self._double_rows()
        if np.shape(shares) != (self.rows, self.size) or np.shape(log_wealth) != (self.rows,):
            raise ValueError(f"expected weights of shape {(self.rows, self.size)}, not {np.shape(shares)}")
        self._shares, self._log_wealth = np.array(shares, dtype=np.float64), np.array(log_wealth, dtype=np.float64)
        self.counts.load(state["counts"], state["counted"])
        self.timed = state["timed"]
        for regression, saved in zip(self._regressions, state["cycles"], strict=self.timed > 0):
            regression.load(*saved)
        self.search.load(*state["search"])
        for regression, saved in zip(self._periodic, state["periodic"], strict=self.search.frequency > 0.0):
            regression.load(*saved)
        if state["hours"]:
            self.profile.load(*state["hours"][0])
            self._hours.load(*state["hours"][1])
