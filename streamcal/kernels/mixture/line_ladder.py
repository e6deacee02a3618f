# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
# cython: binding=False, always_allow_keywords=False
"""A ladder of lines alone: sigmoid maps of one score that forget at many speeds, and their mixture.

The lines are those of `memory_ladder`, with the features f = (1, x), x being the log-odds of the score. Their prior is
one event at the scores so far, T = Σ u·ffᵀ / Σ u. A line of memory m enters as a copy of the first, which forgets
nothing, once the information learned exceeds m/10. Until then it counts with the first, so that a step costs as much as
the lines that have entered. A memory may also be a part of what has been learned: that line forgets by a power law.

Symbols:

    s                        the forecast of a line, σ(slope·x + offset)
    v                        its weight; the forecast is p = Σ v·s
    r                        the weight of a label, relative to the running mean of all weights
    u = r·4p(1 − p)          the information of a label, at its issued forecast p
    U                        the information learned
    d                        the lateness of a label: the information learned between its forecast and the label

A label multiplies each v by the probability that the line gave to it when p was issued, to the power r(1 + d)^-5/8.
Then the share u/(U + u + 10⁴) of all weight returns to the prior.

By the time that late labels come, scores may have moved away from the places where a slope was learned. A late label
therefore has a narrower prior of the slope, which is worth as much wherever the scores are.
"""

import cython
import numpy as np
from cython.cimports.libc.math import exp, log, sqrt
from cython.cimports.streamcal.kernels.common.fast_path import LARGEST, NUMBER, fast_score
from cython.cimports.streamcal.kernels.common.weights import WeightScale, steps_of
from cython.cimports.streamcal.kernels.mixture.codes import WIDEST, bytes_of, coded, decoded, number_in, with_sign
from cython.cimports.streamcal.kernels.mixture.memory_ladder import ENTERS, PLACE_FADES, step_line
from cython.cimports.streamcal.kernels.newton.online_newton import fast_log_odds, log_odds

if cython.compiled:
    from cython.cimports.libc.string import memcpy

nan = cython.declare(cython.double, float("nan"))

#: Lines, at most: the size of the arrays in `line_ladder.pxd`.
MOST = 7
#: Bytes of U in a record. Each line takes two more: 22 in all, at most.
FIRST = 8
SHARED = cython.declare(cython.double, 1e4)
LONGEST = cython.declare(cython.double, 4.0)
"""A step changes the log-odds at its own score by at most this: one label far from all others may be an error."""
LEAST = cython.declare(cython.double, 1e-300)
"""The probability of a label is at least this, where weights are updated."""
SHORTEST = cython.declare(cython.double, 10.0)
"""A memory that is a part of what has been learned has at least this many units of information."""
LATE_SLOPE = cython.declare(cython.double, 2.0)
"""What a late label adds to the prior curvature of the slope."""
NEVER = cython.declare(cython.double, 1e300)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _rate(late: cython.double) -> cython.double:
    """Return (1 + late)^(-5/8), at which a label judges forecasts."""
    root: cython.double = sqrt(1.0 + late)
    return 1.0 / (root * sqrt(sqrt(root)))


class LineLadder:
    """Lines with memories of many lengths, and their mixture.

    Parameters
    ----------
    memories : sequence of float
        In units of information: first 0, which is all; then a part of all, written as −part; then in rising order.
    prior : sequence of float
        Their prior weights, which count in proportion to their sum.
    limit : float
        Log-odds of scores are clamped to ±limit.

    Notes
    -----
    O(lines that have entered). `predict_fast` and `learn_fast` take unchecked arguments, and return NaN or False,
    without a change, for types and values that need the full checks. `stream` runs without the GIL. A record is
    [U, p, the forecast of each line] when a forecast was issued, rounded as the `packed` bytes of `write` are.
    """

    def __init__(self, memories, prior, limit: cython.double):
        k: cython.Py_ssize_t
        if not 0 < len(memories) == len(prior) <= MOST:
            raise ValueError(f"expected one to {MOST} memories, and as many prior weights, not {memories!r}, {prior!r}")
        if not cython.compiled:
            self._memory, self._prior, self._weights = [0.0] * MOST, [0.0] * MOST, [0.0] * MOST
            self._slopes, self._offsets = [0.0] * MOST, [0.0] * MOST
            self._a, self._places = [0.0] * (3 * MOST), [0.0] * 3
        self.size, self.limit = len(memories), limit
        self.packed = FIRST + 2 * self.size
        self._least = 1.0 / (1.0 + exp(limit))
        self._scale = WeightScale()
        for k in range(self.size):
            self._memory[k], self._prior[k] = memories[k], prior[k] / sum(prior)
        k = sum([memory <= 0.0 for memory in memories])
        own = [self._prior[j] for j in range(1, k)]
        none = [0.0] * k
        self.load([1.0] * k, none, none * 3, [1.0 - sum(own), *own], [0.0] * 3, [0.0, 0.0], [0.0, 0.0])

    # -- forecasts -----------------------------------------------------------------------------------------------

    def predict_fast(self, score: object) -> cython.double:
        """Return the forecast at `score`, a float in [0, 1]; NaN for anything else."""
        return self.predict(log_odds(score, self.limit)) if fast_score(score, 0.0, 1.0) else nan

    def learn_fast(self, score: object, y: object, w: object) -> cython.bint:
        """Do `step` for a float in [0, 1], a bool and a float weight within the limit; return whether it did."""
        x: cython.double = fast_log_odds(score, y, w, self.limit)
        if x != x:
            return False
        self.step(x, 1.0 if y is True else 0.0, w)
        return True

    def predict(self, x: cython.double) -> cython.double:
        """Return the forecast at the log-odds x."""
        each: cython.double[7] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        return self._forecast(x, each)

    def _forecast(self, x: cython.double, each: cython.p_double) -> cython.double:
        """Set the forecasts of the lines that have entered, and return their mixture."""
        k: cython.Py_ssize_t
        z: cython.double
        e: cython.double
        p: cython.double = 0.0
        for k in range(self.entered):
            z = self._slopes[k] * x + self._offsets[k]
            e = exp(-abs(z))
            each[k] = (1.0 if z >= 0.0 else e) / (1.0 + e)  # no branch, which would be guessed wrong half of the time
        for k in range(self.entered):
            p += self._weights[k] * each[k]
        return min(p, 1.0)

    def issue(self, x: cython.double) -> list:
        """Return the record of the forecast at the log-odds x."""
        return self.unpacked(self.issue_bytes(x, False), self.issued)

    def issue_bytes(self, x, apart):
        """Return the bytes of `write`, which are read beside the forecast, `issued`; if `apart`, they begin with it."""
        content: cython.uchar[22] = [0] * 22
        self.issued = self.write(x, content)
        if cython.compiled:
            record: bytes = cython.cast(cython.p_char, content)[: self.packed]
        else:
            record = bytes(content[: self.packed])
        return bytes_of(self.issued) + record if apart else record

    def unpack(self, content, p, record):
        """Set the record whose bytes `issue_bytes` returned with the forecast p; return False for other bytes."""
        apart: cython.Py_ssize_t = (0 if content is None else len(content)) - self.packed
        if apart == NUMBER:
            p = number_in(content, 0)
        if (apart != 0 and apart != NUMBER) or not 0.0 <= p <= 1.0:
            return False
        if cython.compiled:
            self.read(cython.cast(cython.p_uchar, cython.cast(cython.p_char, content)) + apart, p, record)
        else:
            self.read(list(content[apart:]), p, record)
        return self.is_possible(record)

    def unpacked(self, content: bytes, p: cython.double) -> list:
        """Return what `unpack` sets; no numbers for other bytes."""
        record: cython.double[9] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        possible: cython.bint = self.unpack(content, p, record)
        return [record[k] for k in range(self.size + 2)] if possible else []

    def write(self, x: cython.double, content: cython.p_uchar) -> cython.double:
        """Write U and the forecasts of the lines at the log-odds x to `content`, and return their mixture.

        Of a forecast, what is written is how far its log-odds are from those of the mixture, with an error of 1e-4 of a
        difference of 1.
        """
        k: cython.Py_ssize_t
        line: cython.Py_ssize_t
        code: cython.longlong
        each: cython.double[7] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        p: cython.double = self._forecast(x, each)
        at: cython.double = log_odds(p, self.limit)
        if cython.compiled:
            memcpy(content, cython.address(self.information), FIRST)
        else:
            content[:FIRST] = np.array([self.information]).tobytes()
        for k in range(self.size):
            line = k if k < self.entered else 0
            code = coded(self._slopes[line] * x + self._offsets[line] - at, WIDEST)
            content[FIRST + 2 * k] = code & 255
            content[FIRST + 2 * k + 1] = (code >> 8) & 255
        return p

    def read(self, content: cython.p_uchar, p: cython.double, record: cython.p_double) -> cython.void:
        """Set the record that `write` has written for the forecast p, whose log-odds are clamped to ±limit."""
        k: cython.Py_ssize_t
        z: cython.double
        e: cython.double
        code: cython.longlong
        at: cython.double = log_odds(p, self.limit)
        if cython.compiled:
            memcpy(record, content, FIRST)
        else:
            record[0] = float(np.frombuffer(bytes(content[:FIRST]))[0])
        record[1] = min(max(p, self._least), 1.0 - self._least)
        for k in range(self.size):
            code = cython.cast(cython.longlong, content[FIRST + 2 * k])
            code += 256 * cython.cast(cython.longlong, content[FIRST + 2 * k + 1])
            z = at + decoded(with_sign(code, 65536), WIDEST)
            e = exp(-abs(z))
            record[2 + k] = (1.0 if z >= 0.0 else e) / (1.0 + e)

    def is_possible(self, record: cython.p_double) -> cython.bint:
        """Return whether `issue` can have returned these numbers."""
        k: cython.Py_ssize_t
        possible: cython.bint = 0.0 <= record[0] <= LARGEST
        for k in range(1, self.size + 2):
            possible = possible and 0.0 <= record[k] <= 1.0
        return possible

    def lines(self):
        """Return the weights, slopes and offsets of the lines that have entered."""
        weights = [self._weights[k] for k in range(self.entered)]
        return weights, [self._slopes[k] for k in range(self.entered)], [self._offsets[k] for k in range(self.entered)]

    # -- learning ------------------------------------------------------------------------------------------------

    def step(self, x: cython.double, y: cython.double, w: cython.double) -> cython.void:
        """Learn the label y at the log-odds x, of weight w, whose forecast was made just now."""
        each: cython.double[7] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        p: cython.double = self._forecast(x, each)
        self._learn(x, y, w, p, each, each, 0.0)

    def learn_issued(self, x: cython.double, y: cython.double, w: cython.double, record):
        """Learn the label y at the log-odds x, of weight w, from the record of its forecast."""
        k: cython.Py_ssize_t
        read: cython.double[9] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        for k in range(self.size + 2):
            read[k] = record[k]
        self.learn_record(x, y, w, read)

    def learn_bytes(self, x, y, w, p, content):
        """Do `learn_issued` for the bytes of a record with the forecast p; return False for bytes that are none."""
        record: cython.double[9] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        if not self.unpack(content, p, record):
            return False
        self.learn_record(x, y, w, record)
        return True

    def learn_record(
        self, x: cython.double, y: cython.double, w: cython.double, record: cython.p_double
    ) -> cython.void:
        """Do `learn_issued` for an array."""
        k: cython.Py_ssize_t
        each: cython.double[7] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        issued: cython.double[7] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        late: cython.double = max(0.0, self.information - record[0])
        p: cython.double = self._forecast(x, each)
        if late == 0.0:  # what was forecast then is forecast now, and the record is rounded
            self._learn(x, y, w, p, each, each, 0.0)
            return
        for k in range(self.size):
            issued[k] = record[2 + k]
        self._learn(x, y, w, record[1], each, issued, late)

    def _learn(
        self,
        x: cython.double,
        y: cython.double,
        w: cython.double,
        p: cython.double,
        each: cython.p_double,
        issued: cython.p_double,
        late: cython.double,
    ) -> cython.void:
        """Learn a label: p and those of lines were issued; `each` are the forecasts of the lines now."""
        k: cython.Py_ssize_t
        u: cython.double
        r: cython.double = self._scale.relative(w)
        steps: cython.Py_ssize_t = steps_of(r)
        self.weight += w
        u = r * 4.0 * p * (1.0 - p)
        self._judge(y, r * _rate(late), u / (self.information + u + SHARED), issued)
        for k in range(steps):
            if k > 0:
                self._forecast(x, each)
            self._move(x, y, r / steps, u / steps, LATE_SLOPE if late > 0.0 else 0.0, each)
        self.information += u
        if self.information >= self._due:
            self._enter()

    def _judge(
        self, y: cython.double, rate: cython.double, share: cython.double, issued: cython.p_double
    ) -> cython.void:
        """Weight the lines by what each forecast of a label, and return a share of all weight to the prior."""
        k: cython.Py_ssize_t
        best: cython.double = LEAST
        total: cython.double = 0.0
        q: cython.double[7] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        for k in range(self.entered):
            q[k] = max(issued[k] if y > 0.0 else 1.0 - issued[k], LEAST)
            best = max(best, q[k])
        best = 1.0 / best
        for k in range(self.entered):
            self._weights[k] = self._weights[k] * (q[k] * best if rate == 1.0 else exp(rate * log(q[k] * best)))
            total += self._weights[k]
        total = (1.0 - share) / total
        self._weights[0] = total * self._weights[0] + share * self._rest
        for k in range(1, self.entered):
            self._weights[k] = total * self._weights[k] + share * self._prior[k]

    def _move(
        self,
        x: cython.double,
        y: cython.double,
        w: cython.double,
        u: cython.double,
        slope: cython.double,
        each: cython.p_double,
    ) -> cython.void:
        """Move the lines by a label of relative weight w and information u; their forecasts are `each`.

        `slope` is what is added to the prior of the slope.
        """
        k: cython.Py_ssize_t
        mean: cython.double
        change: cython.double
        keep: cython.double = max(0.0, 1.0 - PLACE_FADES * u)
        prior: cython.double[3] = [0.0, 0.0, 0.0]
        a: cython.double[3] = [0.0, 0.0, 0.0]
        step: cython.double[2] = [0.0, 0.0]
        self._places[0] = keep * self._places[0] + u
        self._places[1] = keep * self._places[1] + u * x
        self._places[2] = keep * self._places[2] + u * x * x
        mean = self._places[1] / self._places[0]
        change = max(0.0, self._places[2] - mean * self._places[1])  # of the places around their mean
        prior[0], prior[1] = 1.0, mean
        prior[2] = mean * mean + (change + 1.0) / (self._places[0] + 1.0) + slope
        for k in range(self.entered):
            keep = self._memory[k]
            if keep < 0.0:
                keep = max(SHORTEST, -keep * self.information)
            keep = keep / (keep + u) if keep > 0.0 else 1.0
            a[0], a[1], a[2] = self._a[3 * k], self._a[3 * k + 1], self._a[3 * k + 2]
            change = w * each[k] * (1.0 - each[k])
            step_line(a, prior, self._offsets[k], self._slopes[k] - 1.0, keep, x, w * (y - each[k]), change, step)
            self._a[3 * k], self._a[3 * k + 1], self._a[3 * k + 2] = a[0], a[1], a[2]
            change = abs(step[0] + step[1] * x)
            if change > LONGEST:
                step[0] = step[0] * (LONGEST / change)
                step[1] = step[1] * (LONGEST / change)
            self._offsets[k] = self._offsets[k] + step[0]
            self._slopes[k] = self._slopes[k] + step[1]

    def _enter(self):
        """Let lines enter whose time has come; the first one hands them their part of its weight."""
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        while self.information >= self._due:
            k = self.entered
            self._weights[k] = self._weights[0] * (self._prior[k] / self._rest)
            self._weights[0] = self._weights[0] - self._weights[k]
            self._slopes[k], self._offsets[k] = self._slopes[0], self._offsets[0]
            for j in range(3):
                self._a[3 * k + j] = self._a[j]
            self.entered += 1
            self._find_next()

    def _find_next(self):
        """Find when the next line enters, and the prior weight of those that count as the first."""
        k: cython.Py_ssize_t
        self._due = ENTERS * self._memory[self.entered] if self.entered < self.size else NEVER
        self._rest = self._prior[0]
        for k in range(self.entered, self.size):
            self._rest += self._prior[k]

    def stream(
        self,
        scores: cython.const[cython.double][::1],
        y: cython.const[cython.double][::1],
        w: cython.const[cython.double][:],
        predictions: cython.double[::1],
    ):
        """Do `predict`, unless `predictions` is empty, and then `step` for each score in [0, 1] whose weight is not 0.

        The log-odds of the next score are computed before the step, whose operations wait for one another.
        """
        i: cython.Py_ssize_t
        x: cython.double
        now: cython.double
        p: cython.double
        each: cython.double[7] = [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
        n: cython.Py_ssize_t = scores.shape[0]
        predicts: cython.bint = predictions.shape[0] > 0
        if not n == y.shape[0] == w.shape[0] or (predicts and predictions.shape[0] != n):
            raise ValueError("lengths differ")
        with cython.nogil:
            x = log_odds(scores[0], self.limit) if n > 0 else 0.0
            for i in range(n):
                now = x
                p = self._forecast(now, each)
                if i + 1 < n:
                    x = log_odds(scores[i + 1], self.limit)
                if predicts:
                    predictions[i] = p
                if w[i] > 0.0:
                    self._learn(now, y[i], w[i], p, each, each, 0.0)

    # -- state ---------------------------------------------------------------------------------------------------

    def state(self):
        """Return slopes, offsets, curvatures and weights of the lines that have entered, and the sums, for `load`."""
        n: cython.Py_ssize_t = self.entered
        return [
            [float(self._slopes[k]) for k in range(n)],
            [float(self._offsets[k]) for k in range(n)],
            [float(self._a[k]) for k in range(3 * n)],
            [float(self._weights[k]) for k in range(n)],
            [float(self._places[k]) for k in range(3)],
            [float(self.weight), float(self.information)],
            self._scale.state(),
        ]

    def load(self, slopes, offsets, curvatures, weights, places, learned, scale):
        """Load an earlier `state`."""
        k: cython.Py_ssize_t
        self.entered = len(slopes)
        for k in range(self.entered):
            self._slopes[k], self._offsets[k], self._weights[k] = slopes[k], offsets[k], weights[k]
        for k in range(3 * self.entered):
            self._a[k] = curvatures[k]
        for k in range(3):
            self._places[k] = places[k]
        self.weight, self.information = learned
        self._scale.load(scale[0], scale[1])
        self._find_next()
