# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The step of `Auto` in one call.

The experts have a kernel each: `score_regressions`, `knot_sums`, `jumper`, `repeated_scores`. `combination` has their
weights, the stack and the correction by the forecast, `day_and_week` the correction by time, `guard` the promise, and
`auto_steps` the labels that come late.

Symbols:

    x                        the log-odds of the score
    r                        the weight of an observation, relative to the running mean of all weights
    d                        the lateness: the number of labels learned between a forecast and its label

A record holds what was forecast at one x. A label is learned from the record of its own forecast,
whether that was written just before or long ago.
"""

import cython
import numpy as np
from cython.cimports.libc.math import pow as power
from cython.cimports.streamcal.kernels.common.logistic import sigmoid
from cython.cimports.streamcal.kernels.common.weights import WeightScale, steps_of
from cython.cimports.streamcal.kernels.mixture.combination import (
    BOTH,
    COUNT,
    ISSUED,
    MEANS,
    NONE,
    TIMED,
    Combination,
    gain_of,
)
from cython.cimports.streamcal.kernels.mixture.day_and_week import DayAndWeek
from cython.cimports.streamcal.kernels.mixture.guard import of_two
from cython.cimports.streamcal.kernels.mixture.jumper import Jumper
from cython.cimports.streamcal.kernels.mixture.knot_sums import LARGEST, LAST, UNIT, KnotSums, log_odds_of
from cython.cimports.streamcal.kernels.mixture.repeated_scores import RepeatedScores
from cython.cimports.streamcal.kernels.mixture.score_regressions import ScoreRegressions

LATE_POWER = cython.declare(cython.double, 0.75)
"""The learning rate of the second row of weights for a label d late is (1 + d)^−¾."""
GROWTH = cython.declare(cython.longlong, 16)
"""The fits to all observations are repeated when their number has grown by a 16th."""
nan = cython.declare(cython.double, float("nan"))


class AutoMixture:
    """Experts, and all that stands on them.

    The experts are, in this order: the score; a line fitted to all observations; regressions; smoothers; the Venn-Abers
    curve of all observations; the `Jumper`; means of the labels at scores that repeat. The fits to all observations are
    repeated when their number has grown by a 16th, the others learn with every label.

    Parameters
    ----------
    regressions : ScoreRegressions
    sums : KnotSums
    jumper : Jumper
    line : tuple of float
        The precisions of slope and offset of the line.
    combination : Combination
        Of as many experts.
    times : DayAndWeek
    """

    def __init__(
        self,
        *,
        regressions: ScoreRegressions,
        sums: KnotSums,
        jumper: Jumper,
        line,
        combination: Combination,
        times: DayAndWeek,
    ):
        self.size = 5 + regressions.number + sums.smoothers
        if combination.size != self.size:
            raise ValueError(f"{combination.size} prior weights of experts are not {self.size}")
        self.width = self.size + MEANS + regressions.means
        self.regressions, self.sums, self.jumper = regressions, sums, jumper
        self.repeated, self.combination, self.times = RepeatedScores(), combination, times
        self.guard, self.scale = combination.guard, WeightScale()
        self._line = line
        self.sums.hold(line[0], line[1], 0.0)
        self.learned, self.weight, self.due = 0, 0.0, 0
        self._cut(np.zeros(4 * self.width))
        self._knot, self._spot = -1, nan

    def _cut(self, block: cython.double[::1]):
        """Set the arrays, which are parts of one: each array apart takes 0.4 kB more."""
        self._sides, self._record = block[: 3 * self.width], block[3 * self.width :]

    # -- forecasts -----------------------------------------------------------------------------------------------

    def _forecast(self, knot, at):
        """Write what is forecast at a knot to `_sides`, from an index on."""
        k: cython.Py_ssize_t
        end: cython.Py_ssize_t = at + self.size
        x: cython.double = knot / UNIT - LARGEST
        z: cython.double = self.sums.line(knot, x)
        p: cython.double = sigmoid(z)
        self._sides[at], self._sides[at + 1] = x, z
        at += 2
        self.regressions.show(x, None, 0)
        for k in range(self.regressions.number):
            self._sides[at + k] = self.regressions.predict(k)
        at += self.regressions.number
        for k in range(self.sums.smoothers):
            self._sides[at + k] = self.sums.local(k, knot, p)
        self._sides[end - 3] = self._sides[end - 1] = self.sums.venn_abers(knot, z)
        p = self.jumper.predict(x)
        self._sides[end - 2] = log_odds_of(p, 1.0 - p)
        self.combination.combine(self._sides, end - self.size)

    def _look(self, x):
        """Set the third side to what is forecast at x: between the knots, or at a score that has come before."""
        k: cython.Py_ssize_t
        at: cython.Py_ssize_t = 2 * self.width
        knot: cython.Py_ssize_t = min(cython.cast(cython.Py_ssize_t, (x + LARGEST) * UNIT), LAST - 1)
        share: cython.double = (x + LARGEST) * UNIT - knot
        slot: cython.Py_ssize_t
        if self._spot == x:
            return
        if knot != self._knot:
            self._forecast(knot, 0)
            self._forecast(knot + 1, self.width)
            self._knot = knot
        for k in range(self.size + COUNT):
            self._sides[at + k] = (1.0 - share) * self._sides[k] + share * self._sides[self.width + k]
        self._sides[at] = self._spot = x
        slot = self.repeated.known(x)
        if slot >= 0:
            k = at + self.size - 1
            self._sides[k] = self.repeated.forecast(slot, sigmoid(self._sides[k]))
            self.combination.combine(self._sides, at)

    def at(self, x, t):
        """Return the log-odds of the forecast at the log-odds x and the time t, NaN for none."""
        end: cython.Py_ssize_t = 2 * self.width + self.size
        self._look(x)
        if t == t and self.times.begun:
            both: cython.double = self._sides[end + BOTH]
            return self.guard.guarded(x, of_two(both, self.times.at(x, both, t), self.times.share))
        return self._sides[end + ISSUED]

    def curve_at(self):
        """Return log-odds in order and those of the forecasts there: at knots, repeated scores, and beside these."""
        own = self.repeated.scores()
        knots = np.arange(LAST + 1) / UNIT - LARGEST
        beside = np.concatenate([np.nextafter(own, -np.inf), np.nextafter(own, np.inf)])
        x = np.unique(np.concatenate([knots, own, beside[np.abs(beside) <= LARGEST]]))
        return x, np.array([self.at(one, nan) for one in x.tolist()])

    def write(self, x, t, out):
        """Write the record of the forecast at the log-odds x and the time t to `out`, of `width` numbers."""
        k: cython.Py_ssize_t
        both: cython.double
        self._look(x)
        for k in range(self.size + COUNT):
            out[k] = self._sides[2 * self.width + k]
        self.combination.write_rows(out)
        out[self.size + TIMED] = NONE
        if t == t and self.times.begun:
            both = out[self.size + BOTH]
            out[self.size + TIMED] = self.times.at(x, both, t)
            out[self.size + ISSUED] = self.guard.guarded(x, of_two(both, out[self.size + TIMED], self.times.share))
        out[self.size + COUNT] = self.learned
        self.regressions.write_means(out, self.size + MEANS)

    # -- learning ------------------------------------------------------------------------------------------------

    def learn(self, x, y, w, t, issued, late):
        """Learn the label y at the log-odds x and the time t, with weight w > 0, from the record of its forecast.

        `late` is the number of labels learned since. Without a record, None, the present forecast is in its place. A
        label of relative weight r > 1 is learned in ⌈r⌉ equal steps, 32 at most. It judges the forecast of its record
        alone, once: after a step, what adapts fastest has the label that it forecasts.
        """
        r: cython.double
        if issued is None:
            self.write(x, t, self._record)
            issued = self._record
        if late > 0.0 and not self.combination.late:
            self.combination.split()
        if t == t and not self.times.begun:
            self.times.begin()
        r = self.scale.relative(w)
        gain: cython.double = r * (gain_of(issued[self.size + ISSUED], y) - gain_of(x, y))
        steps: cython.Py_ssize_t = steps_of(r)
        if self.regressions.see(x):
            self.sums.hold(self._line[0], self._line[1], self.regressions.hold())
        rate: cython.double = r * power(1.0 + late, -LATE_POWER) if late > 0.0 else r
        self.combination.judge(y, r, rate, late, issued)
        if issued[self.size + TIMED] != NONE:
            self.times.judge(issued[self.size + BOTH], issued[self.size + TIMED], y, rate)
        self._learn_once(x, y, r / steps, t, issued)
        for _ in range(1, steps):
            self._knot, self._spot = -1, nan
            self.write(x, t, self._record)
            self._learn_once(x, y, r / steps, t, self._record)
        self.jumper.step(x, y, w)
        self.sums.learn(x, y, r)
        self.repeated.learn(x, y, r)
        self.weight += w
        self.learned += 1
        if self.learned >= self.due:
            self.sums.refit()
            self.due = self.learned + max(1, self.learned // GROWTH)
        self.guard.learn(gain, r)
        self._knot, self._spot = -1, nan

    def _learn_once(self, x, y, w, t, issued):
        """One step of what learns by steps: the stack, corrections, regressions and means of labels."""
        self.combination.learn(y, w, issued)
        if t == t:
            self.times.learn(x, y, w, t, issued[self.size + BOTH])
        self.regressions.learn(x, y, w, issued, self.size + MEANS)

    # -- weights and state ---------------------------------------------------------------------------------------

    def weights(self):
        """Return the weights of the experts and the stack, and of both corrections, each in what it corrects."""
        return self.combination.weights(), self.combination.corrected, self.times.share if self.times.begun else 0.0

    def state(self):
        """Everything learned, as plain data, for `load`."""
        return {
            "learned": [self.learned, float(self.weight), self.due, self.sums.drawn, *self.regressions.first()],
            **self.regressions.state(),
            **self.combination.state(),
            **self.sums.state(),
            "timed": self.times.state(),
            "jumper": list(self.jumper.state()),
            "corrected": [float(self.combination.corrected), float(self.times.share)],
            **self.repeated.state(),
            "scale": self.scale.state(),
        }

    def load(self, state):
        """Load an earlier `state` into a new mixture."""
        self.learned, self.weight, self.due, drawn, *first = state["learned"]
        self.sums.hold(self._line[0], self._line[1], self.regressions.load(state, first))
        self.sums.load(state, drawn)
        corrected, by_time = state["corrected"]
        self.combination.load(state, corrected)
        self.times.load(state["timed"], by_time)
        self.jumper.load(*state["jumper"])
        self.scale.load(*state["scale"])
        self.repeated.lengthen(state["slots"], np.array(state["repeated"]).reshape(-1, 5))
        self._knot, self._spot = -1, nan
