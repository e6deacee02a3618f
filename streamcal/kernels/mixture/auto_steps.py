# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""An `AutoMixture` in a loop: which label belongs to which forecast, where labels are late."""

import cython
import numpy as np

if cython.compiled:
    from cython.cimports.libc.string import memcpy

from cython.cimports.streamcal.kernels.common.fast_path import NUMBER, fast_observation, fast_score
from cython.cimports.streamcal.kernels.common.logistic import sigmoid
from cython.cimports.streamcal.kernels.mixture.auto_mixture import AutoMixture
from cython.cimports.streamcal.kernels.mixture.codes import (
    WIDEST,
    bytes_of,
    coarse,
    coded,
    decoded,
    fine,
    number_in,
    with_sign,
)
from cython.cimports.streamcal.kernels.mixture.combination import CLOCK, COUNT, ISSUED, MEANS, NONE, ROWS, TIMED
from cython.cimports.streamcal.kernels.mixture.guard import Guard
from cython.cimports.streamcal.kernels.mixture.knot_sums import LARGEST
from cython.cimports.streamcal.kernels.newton.implicit_regression import clamped
from cython.cimports.streamcal.kernels.newton.online_newton import log_odds

ROUNDING = cython.declare(cython.double, 1e-6)
SECONDS = cython.declare(cython.double, 1e11)
"""A later time may be in a shorter unit than seconds, of which the caller warns."""
SURE = cython.declare(cython.longlong, 4)
"""The delay is that of an unambiguous pair once this many more of them were late than in time."""
LOOKS = cython.declare(cython.longlong, 16)
"""Every 16th late label is looked for in all of the log, whether its pair is unambiguous."""
NOW, NOWHERE = cython.declare(cython.Py_ssize_t, -2), cython.declare(cython.Py_ssize_t, -1)
FAR = cython.declare(cython.double, 1.7976931348623157e308)
nan = cython.declare(cython.double, float("nan"))
infinity = cython.declare(cython.double, float("inf"))


LEAST_CODE = cython.declare(cython.longlong, -32768)
"""The value that means `NONE`."""
PARTS, LARGEST_CLOCK = cython.declare(cython.double, 16384.0), cython.declare(cython.double, 1.7e10)


def fast_time(t):
    """Return a time that is a float or an int in seconds, NaN for None, and ∞ for a time that has to be checked."""
    time: cython.double
    if t is None:
        return nan
    if type(t) is float or (type(t) is int and -(2**53) < t < 2**53):
        time = t
        return time if -FAR <= time <= SECONDS else infinity
    return infinity


class AutoSteps:
    """An `AutoMixture`, and a log of the forecasts that were asked for, by which a late label finds its own record.

    A forecast is logged when another one follows it, or a label that is not its own: where each label follows its
    forecast there is nothing to log. Records are logged as `pack` rounds them. The log is not
    part of the state. It is emptied, and nothing logged until the next label, after `most` forecasts without a label.

    A label belongs to a logged forecast at its score. Where several were issued after different numbers of labels, it
    belongs to the one whose delay is nearest to that of the last unambiguous pair, and of these to the latest: labels
    may be lost, and forecasts asked for that wait for no label.

    Parameters
    ----------
    mixture : AutoMixture
    most : int
        Number of forecasts that are logged at most.
    delay : int
        The number of labels that are learned between a forecast and its label, as far as it is known; 0 if it is not.
    """

    def __init__(self, mixture: AutoMixture, most: cython.longlong, delay: cython.longlong):
        self.mixture, self._most, self._delay, self.lag = mixture, most, delay, delay
        self._evidence = SURE if delay > 0 else 0
        self._size, self._logs, self._due, self._guess = 0, True, 0, 0
        self.packed = 2 * (mixture.end + ISSUED - 1) + (CLOCK - ROWS) + 2 * (mixture.width - mixture.end - MEANS) + 11
        self._content, self.record = np.empty(self.packed, dtype=np.uint8), np.empty(mixture.width)
        self._forget()

    def _forget(self):
        """Empty the log."""
        self._first = self._logged = 0
        self._unlabelled = 0
        self._asked = False

    def ask(self, x, t):
        """Note that the forecast at the log-odds x and the time t is asked for."""
        if self._logs and self._unlabelled > self._most:
            return
        if self._asked:
            self._keep()
        if not self._logs:
            self._asked, self._x, self._t = True, x, t
            return
        self._unlabelled += 1
        if self._unlabelled > self._most:
            self._forget()
            self._unlabelled = self._most + 1
            return
        self._asked, self._x, self._t = True, x, t

    def _keep(self):
        """Log the forecast that was asked for last, unless nothing is logged."""
        size: cython.Py_ssize_t = self._size
        if not self._logs:
            self._asked = False
            return
        if self._logged == size:
            if size < self._most:
                self._lengthen(min(self._most, size + size // 4 + 8))
            else:
                self._drop()
        place: cython.Py_ssize_t = (self._first + self._logged) % self._size
        self._scores[place] = self._x
        self._write(place)
        self._asked = False
        self._logged += 1

    def _write(self, place):
        """Write the record of the forecast that was asked for last to a place of the log."""
        record: cython.double[::1] = self.mixture._record
        self.mixture.write(self._x, self._t, record)
        self._issued[place] = log_odds(sigmoid(record[self.mixture.end + ISSUED]), LARGEST)
        self._counts[place] = cython.cast(cython.longlong, record[self.mixture.end + COUNT])
        self.pack(record, self._issued[place], self._records[place])

    def _read(self, place, x):
        """Write a record of the log, which is that of a forecast at x, to the mixture's own one."""
        self.unpack(self._records[place], x, self._issued[place], self.mixture._record)

    def pack(self, record: cython.const[cython.double][::1], issued: cython.double, out: cython.uchar[::1]):
        """Write what is remembered of a record to `out`, of `packed` bytes, beside its score and what was forecast.

        Log-odds are differences to `issued`, and what is stored of them is the square root: two bytes, with an error of
        3e-6 of a difference of 0.001, of 1e-4 of one of 1, and 1e-3 at most. Mixtures by other learning rates, which
        decide on these alone, have a byte. Information is rounded down to 1/16384 of a unit.
        """
        k: cython.Py_ssize_t
        at: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t = self.mixture.end
        code: cython.longlong
        for k in range(1, end + ISSUED):
            code = LEAST_CODE if k == end + TIMED and record[k] == NONE else coded(record[k] - issued, WIDEST)
            out[at] = code & 255
            out[at + 1] = (code >> 8) & 255
            at += 2
        for k in range(end + ROWS, end + CLOCK):
            out[at] = coarse(record[k] - issued) & 255
            at += 1
        for k in range(end + MEANS, self.mixture.width):
            code = coded(record[k], 1.0)
            out[at] = code & 255
            out[at + 1] = (code >> 8) & 255
            at += 2
        code = cython.cast(cython.longlong, min(record[end + CLOCK], LARGEST_CLOCK) * PARTS)
        for k in range(6):
            out[at + k] = (code >> (8 * k)) & 255
        code = cython.cast(cython.longlong, record[end + COUNT])
        for k in range(5):
            out[at + 6 + k] = (code >> (8 * k)) & 255

    def unpack(self, content: cython.const[cython.uchar][::1], x, issued, record: cython.double[::1]):
        """Write the record whose bytes `pack` wrote, of a forecast at x, to `record`."""
        k: cython.Py_ssize_t
        at: cython.Py_ssize_t = 0
        end: cython.Py_ssize_t = self.mixture.end
        code: cython.longlong
        record[0], record[end + ISSUED] = x, issued
        for k in range(1, end + ISSUED):
            code = with_sign(
                cython.cast(cython.longlong, content[at]) + 256 * cython.cast(cython.longlong, content[at + 1]), 65536
            )
            at += 2
            record[k] = NONE if code == LEAST_CODE else clamped(issued + decoded(code, WIDEST), LARGEST)
        for k in range(end + ROWS, end + CLOCK):
            record[k] = clamped(issued + fine(with_sign(cython.cast(cython.longlong, content[at]), 256)), LARGEST)
            at += 1
        for k in range(end + MEANS, self.mixture.width):
            code = with_sign(
                cython.cast(cython.longlong, content[at]) + 256 * cython.cast(cython.longlong, content[at + 1]), 65536
            )
            at += 2
            record[k] = decoded(code, 1.0)
        code = 0
        for k in range(6):
            code += cython.cast(cython.longlong, content[at + k]) << (8 * k)
        record[end + CLOCK] = code / PARTS
        code = 0
        for k in range(5):
            code += cython.cast(cython.longlong, content[at + 6 + k]) << (8 * k)
        record[end + COUNT] = code

    def issue(self, x, t):
        """Return the record of the forecast at the log-odds x and the time t, as it would be logged.

        Nothing is logged from now on but the last forecast, since the caller keeps the records.
        """
        self.unpack(self._content, x, self.issue_packed(x, t, self._content), self.record)
        return np.array(self.record)

    def issue_packed(self, x: cython.double, t: cython.double, out: cython.uchar[::1]):
        """Write to `out` what is remembered of the forecast at the log-odds x and the time t, and return its log-odds.

        These are rounded: those of its probability.
        """
        issued: cython.double
        record: cython.double[::1] = self.mixture._record
        self._logs = False
        if self._asked or self._logged:
            self._forget()
        self.mixture.write(x, t, record)
        issued = log_odds(sigmoid(record[self.mixture.end + ISSUED]), LARGEST)
        self.pack(record, issued, out)
        return issued

    def _lengthen(self, size):
        """Have room for more forecasts."""
        scores, issued, counts = np.zeros(size), np.zeros(size), np.zeros(size, dtype=np.int64)
        records = np.zeros((size, self.packed), dtype=np.uint8)
        if self._size > 0:  # it is full
            order = (self._first + np.arange(self._size)) % self._size
            scores[: self._size] = np.asarray(self._scores)[order]
            issued[: self._size] = np.asarray(self._issued)[order]
            counts[: self._size] = np.asarray(self._counts)[order]
            records[: self._size] = np.asarray(self._records)[order]
        self._scores, self._issued, self._counts, self._records = scores, issued, counts, records
        self._size, self._first = size, 0

    def _drop(self):
        """Drop the oldest forecast, and what was labelled of those after it."""
        while self._logged > 0:
            self._first = (self._first + 1) % self._size
            self._logged -= 1
            if self._scores[self._first] == self._scores[self._first]:
                break

    def _late(self, i):
        """Return how many labels were learned since the forecast that follows i others in the log was issued."""
        return self.mixture.learned - self._counts[(self._first + i) % self._size]

    def _place_of(self, x):
        """Return how many forecasts the one at x, to which a label belongs, follows in the log; −1 for none."""
        i: cython.Py_ssize_t
        place: cython.Py_ssize_t = -1
        late: cython.longlong
        best: cython.longlong = 0
        ambiguous: cython.bint = False
        if self._logged == 0:  # the log may not have been made
            return -1
        self._due -= 1
        i = min(self._guess, self._logged - 1)
        if self._due > 0 and self._scores[(self._first + i) % self._size] == x and self._late(i) == self.lag:
            return i
        self._due = LOOKS
        for i in range(self._logged - 1, -1, -1):
            if self._scores[(self._first + i) % self._size] != x:
                continue
            late = self._late(i)
            if place < 0 or abs(late - self.lag) < abs(best - self.lag):
                ambiguous = ambiguous or (place >= 0 and late != best)
                place, best = i, late
            elif late != best:
                ambiguous = True
            if late >= self.lag and (self.lag == 0 or ambiguous):
                break  # those before are further from it
        if place >= 0 and not ambiguous:
            self._note(best)
        self._guess = max(place, 0)
        return place

    def _note(self, late):
        """Note the delay of an unambiguous pair, in labels."""
        if late > 0:
            self._evidence = min(self._evidence + 1, 4 * SURE)
            if self._evidence >= SURE:
                self.lag = late
        else:
            self._evidence = max(self._evidence - 1, 0)
            if self._evidence == 0:
                self.lag = 0

    def take(self, x):
        """Take the forecast at x to which a label belongs out of the log, which is all that a label of weight 0 does.

        Return its place in `_records`, `NOW` where it was asked for last and not yet logged, or `NOWHERE`.
        """
        i: cython.Py_ssize_t
        place: cython.Py_ssize_t
        if self._asked and self._x == x and (self._logged == 0 or self.lag == 0):
            self._asked = False
            if self._evidence > 0:
                self._note(0)
            return NOW
        if self._asked:
            self._keep()
        i = self._place_of(x)
        if i < 0:
            return NOWHERE
        place = (self._first + i) % self._size
        self._scores[place] = nan  # until those before it are labelled or dropped
        if i == 0:
            self._drop()
        return place

    def step(self, x, y, w, t):
        """Learn the label y at the log-odds x and the time t, with weight w > 0."""
        place: cython.Py_ssize_t = self.take(x)
        if place == NOW:
            self.mixture.learn(x, y, w, t, None, 0.0)
        elif place == NOWHERE:
            self.mixture.learn(x, y, w, t, None, self.mixture.guard.delay if self.lag > 0 else 0.0)
        else:
            self._read(place, x)
            self.learn_issued(x, y, w, t, self.mixture._record)
        self._unlabelled = 0

    def issue_bytes(self, x, t, apart):
        """Return the bytes of `issue_packed`, read beside score and forecast; if `apart`, they begin with both."""
        issued: cython.double = self.issue_packed(x, t, self._content)
        if cython.compiled:
            content: bytes = cython.cast(cython.p_char, cython.address(self._content[0]))[: self.packed]
        else:
            content = bytes(self._content)
        return bytes_of(x) + bytes_of(issued) + content if apart else content

    def unpack_bytes(self, content, x, p):
        """Write what `issue_bytes` returned with the forecast p at x to `record`; return False for other bytes."""
        issued: cython.double = log_odds(p, LARGEST)
        apart: cython.Py_ssize_t = (0 if content is None else len(content)) - self.packed
        if apart == 2 * NUMBER:
            x, issued = number_in(content, 0), number_in(content, NUMBER)
        elif apart != 0:
            return False
        if cython.compiled:
            memcpy(cython.address(self._content[0]), cython.cast(cython.p_char, content) + apart, self.packed)
        else:
            self._content[:] = np.frombuffer(content, dtype=np.uint8, offset=apart)
        self.unpack(self._content, x, issued, self.record)
        try:
            self.require(self.record)
        except ValueError:
            return False
        return True

    def learn_bytes(self, x, y, w, t, p, content):
        """Do `learn_issued` for the bytes of a record with the forecast p; return False for bytes that are none."""
        if not self.unpack_bytes(content, x, p):
            return False
        self.learn_issued(x, y, w, t, self.record)
        return True

    def require(self, record: cython.const[cython.double][::1]):
        """Raise `ValueError` for numbers that are no record of a forecast of this mixture."""
        i: cython.Py_ssize_t
        place: cython.Py_ssize_t = self.mixture.end + CLOCK
        if record.shape[0] != self.mixture.width:
            raise ValueError(f"{record.shape[0]} numbers are not {self.mixture.width}")
        for i in range(place):
            if not abs(record[i]) <= LARGEST + ROUNDING and not (i == place - CLOCK + TIMED and record[i] == NONE):
                raise ValueError(f"number {i} is {record[i]}, not log-odds from -16 to 16")
        if not 0.0 <= record[place] <= self.mixture.guard.clock:
            raise ValueError(f"{record[place]} units were learned by then, and {self.mixture.guard.clock} are by now")
        place += 1
        if not 0.0 <= record[place] <= self.mixture.learned or record[place] % 1.0 != 0.0:
            raise ValueError(f"{record[place]} labels were learned by then, and {self.mixture.learned} are by now")
        for i in range(place + 1, self.mixture.width):
            if not abs(record[i]) <= 1.0 + ROUNDING:
                raise ValueError(f"the mean of labels in number {i} is {record[i]}, not from -1 to 1")

    def learn_issued(self, x, y, w, t, record):
        """Learn a label from the record of its forecast, an array of `width` numbers."""
        guard: Guard = self.mixture.guard
        late: cython.double = guard.clock - record[self.mixture.end + CLOCK]
        if record[self.mixture.end + COUNT] == self.mixture.learned:  # what was forecast then is forecast now
            self.mixture.learn(x, y, w, t, None, 0.0)
            return
        if self._delay > 0:  # the labels that are pending are worth what those were that have come
            guard.grow(guard.clock * (self._delay / max(1.0, self.mixture.learned)))
        guard.grow(late)
        self.mixture.learn(x, y, w, t, record, late)

    def predict_fast(self, score, t):
        """Return the probability at `score`, a float in [0, 1], and a time that is fast; NaN for anything else."""
        x: cython.double
        time: cython.double = fast_time(t)
        if time == infinity or not fast_score(score, 0.0, 1.0):
            return nan
        x = log_odds(score, LARGEST)
        self.ask(x, time)
        return sigmoid(self.mixture.at(x, time))

    def learn_fast(self, score, y, w, t):
        """Do `step` for an unclamped float in [0, 1], a bool, a float weight and a fast time; return whether it did."""
        x: cython.double
        time: cython.double = fast_time(t)
        if time == infinity or not fast_observation(score, y, w, 0.0, 1.0):
            return False
        x = log_odds(score, LARGEST)
        if not -LARGEST < x < LARGEST:
            return False
        self.step(x, 1.0 if y is True else 0.0, w, time)
        return True

    def predict_many(self, x: cython.const[cython.double][::1], t: cython.double, out: cython.double[::1]):
        """Write the probability at each of the log-odds x and the time t to `out`."""
        i: cython.Py_ssize_t
        for i in range(x.shape[0]):
            self.ask(float(x[i]), t)
        for i in np.argsort(x):  # so that what is forecast at each knot is computed once
            out[i] = sigmoid(self.mixture.at(float(x[i]), t))

    def stream(
        self,
        x: cython.const[cython.double][::1],
        y: cython.const[cython.double][::1],
        w: cython.const[cython.double][:],
        t: cython.const[cython.double][::1],
        predictions: cython.double[::1],
    ):
        """Predict each row, and then learn its label; if `predictions` is empty, `step`. Weight 0 makes no step."""
        i: cython.Py_ssize_t
        n: cython.Py_ssize_t = x.shape[0]
        predicts: cython.bint = predictions.shape[0] > 0
        if not n == y.shape[0] == w.shape[0] == t.shape[0] or (predicts and predictions.shape[0] != n):
            raise ValueError("lengths differ")
        for i in range(n):
            if predicts:
                predictions[i] = sigmoid(self.mixture.at(float(x[i]), float(t[i])))
                if w[i] > 0.0:
                    self.mixture.learn(float(x[i]), float(y[i]), float(w[i]), float(t[i]), None, 0.0)
            elif w[i] > 0.0:
                self.step(float(x[i]), float(y[i]), float(w[i]), float(t[i]))
