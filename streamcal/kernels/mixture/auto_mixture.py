# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The step of `Auto` in one call.

The experts have a kernel each: `memory_ladder`, `score_regressions`, `knot_sums`, `jumper`, `repeated_scores`.
`combination` has their weights, stacks and a correction by the forecast, `day_and_week` the correction by time,
`guard` the promise, and `auto_steps` the labels that come late.

Symbols:

    x                        the log-odds of the score
    r                        the weight of an observation, relative to the running mean of all weights
    w                        what it is worth, in observations of weight 1
    u                        its information: w·4p(1 − p), p being its issued forecast
    d                        the lateness: the information learned between a forecast and its label

A record holds what was forecast at one x. A label is learned from the record of its own forecast,
whether that was written just before or long ago.
"""

import cython
import numpy as np
from cython.cimports.libc.math import pow as power
from cython.cimports.streamcal.kernels.common.logistic import sigmoid
from cython.cimports.streamcal.kernels.common.weights import InformationScale, WeightScale
from cython.cimports.streamcal.kernels.mixture.combination import (
    BASE,
    CLOCK,
    COUNT,
    ISSUED,
    LATE_POWER,
    MEANS,
    NONE,
    ROWS,
    RUNGS,
    SHARED,
    TIMED,
    Combination,
)
from cython.cimports.streamcal.kernels.mixture.day_and_week import DayAndWeek
from cython.cimports.streamcal.kernels.mixture.guard import information, of_two
from cython.cimports.streamcal.kernels.mixture.jumper import Jumper
from cython.cimports.streamcal.kernels.mixture.knot_sums import LARGEST, LAST, UNIT, KnotSums, log_odds_of
from cython.cimports.streamcal.kernels.mixture.late_weights import gain_of
from cython.cimports.streamcal.kernels.mixture.memory_ladder import MemoryLadder
from cython.cimports.streamcal.kernels.mixture.repeated_scores import RepeatedScores
from cython.cimports.streamcal.kernels.mixture.score_regressions import ScoreRegressions

KEPT = cython.declare(cython.Py_ssize_t, 32)
"""Slots of knots, a power of 2: scores are mostly in a range of 8 in log-odds."""
nan = cython.declare(cython.double, float("nan"))


class AutoMixture:
    """Experts, and everything that mixes or corrects them.

    The experts are, in this order: the score; the ladder of memories; regressions; smoothers; the `Jumper`; means of
    the labels at scores that repeat.

    Parameters
    ----------
    ladder : MemoryLadder
    regressions : ScoreRegressions
    sums : KnotSums
    jumper : Jumper
    combination : Combination
        Of as many experts and rungs.
    times : DayAndWeek
    """

    def __init__(
        self,
        *,
        ladder: MemoryLadder,
        regressions: ScoreRegressions,
        sums: KnotSums,
        jumper: Jumper,
        combination: Combination,
        times: DayAndWeek,
    ):
        self.size = 4 + regressions.number + sums.smoothers
        if combination.size != self.size or combination.end != self.size + combination.stacks + ladder.size:
            raise ValueError(f"{combination.size} prior weights of experts are not {self.size}")
        self.end = combination.end
        self.width = self.end + MEANS + regressions.means
        self.ladder, self.regressions, self.sums, self.jumper = ladder, regressions, sums, jumper
        self.repeated, self.combination, self.times = RepeatedScores(), combination, times
        self.guard, self.scale, self.worth = combination.guard, WeightScale(), InformationScale()
        self.learned, self.weight, self._owed = 0, 0.0, 0.0
        self._cut(2)

    def _cut(self, slots: cython.Py_ssize_t):
        """Set the arrays, which are parts of one: each array apart takes 0.4 kB more.

        A slot has what is forecast at a knot, and when and where: the number of labels learned, and the knot.
        """
        block: cython.double[::1] = np.full(slots * (self.width + 1) + 2 * self.width, -1.0)
        self._slots, self._between = slots, slots * (self.width + 1)
        self._sides, self._record = block[: self._between + self.width], block[self._between + self.width :]
        self._spot = nan

    def keep_knots(self):
        """Keep what is forecast at many knots until a label is learned, for forecasts at many scores in between."""
        if self._slots < KEPT:
            self._cut(KEPT)

    # -- forecasts -----------------------------------------------------------------------------------------------

    def _side(self, knot):
        """Return the index in `_sides` of what is forecast at a knot."""
        at: cython.Py_ssize_t = (knot & (self._slots - 1)) * (self.width + 1)
        made_of: cython.double = self.learned * 256.0 + knot
        if self._sides[at + self.width] != made_of:
            self._forecast(knot, at)
            self._sides[at + self.width] = made_of
        return at

    def _forecast(self, knot, at):
        """Write what is forecast at a knot to `_sides`, from an index on."""
        k: cython.Py_ssize_t
        rungs: cython.Py_ssize_t = at + self.size + self.combination.stacks
        last: cython.Py_ssize_t = at + self.size
        x: cython.double = knot / UNIT - LARGEST
        z: cython.double
        p: cython.double
        self._sides[at] = x
        if knot == 0 or knot == LAST:
            self.ladder.show_end(knot == LAST, self._sides, rungs)
        else:
            self.ladder.show(x, self._sides, rungs)
        z = self._sides[rungs]
        self._sides[at + 1] = self.ladder.weights.mixed(self._sides, rungs)
        p = sigmoid(z)
        at += 2
        self.regressions.show(x, None, 0)
        for k in range(self.regressions.number):
            self._sides[at + k] = self.regressions.predict(k)
        at += self.regressions.number
        for k in range(self.sums.smoothers):
            self._sides[at + k] = self.sums.local(k, knot, p)
        self._sides[last - 1] = z
        p = self.jumper.predict(x)
        self._sides[last - 2] = log_odds_of(p, 1.0 - p)
        self.combination.combine(self._sides, last - self.size)

    def _look(self, x):
        """Set the record between knots to what is forecast at x, there or at a score that has come before."""
        k: cython.Py_ssize_t
        left: cython.Py_ssize_t
        right: cython.Py_ssize_t
        at: cython.Py_ssize_t = self._between
        knot: cython.Py_ssize_t = min(cython.cast(cython.Py_ssize_t, (x + LARGEST) * UNIT), LAST - 1)
        share: cython.double = (x + LARGEST) * UNIT - knot
        slot: cython.Py_ssize_t
        if self._spot == x:
            return
        left, right = self._side(knot), self._side(knot + 1)
        for k in range(self.end + ROWS):
            self._sides[at + k] = (1.0 - share) * self._sides[left + k] + share * self._sides[right + k]
        self._sides[at] = self._spot = x
        slot = self.repeated.known(x)
        if slot >= 0:
            k = at + self.size - 1
            self._sides[k] = self.repeated.forecast(slot, sigmoid(self._sides[k]))
            self.combination.combine(self._sides, at)

    def at(self, x, t):
        """Return the log-odds of the forecast at the log-odds x and the time t, NaN for none."""
        end: cython.Py_ssize_t = self._between + self.end
        self._look(x)
        if t == t and self.times.begun:
            both: cython.double = self._sides[end + BASE]
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
        end: cython.Py_ssize_t = self.end
        self._look(x)
        for k in range(end + ROWS):
            out[k] = self._sides[self._between + k]
        self.combination.weights.write(out, 0, out, end + ROWS)
        self.ladder.weights.write(out, self.size + self.combination.stacks, out, end + RUNGS)
        out[end + TIMED] = NONE
        if t == t and self.times.begun:
            both = out[end + BASE]
            out[end + TIMED] = self.times.at(x, both, t)
            out[end + ISSUED] = self.guard.guarded(x, of_two(both, out[end + TIMED], self.times.share))
        out[end + CLOCK], out[end + COUNT] = self.guard.clock, self.learned
        self.regressions.write_means(out, end + MEANS)

    # -- learning ------------------------------------------------------------------------------------------------

    def learn(self, x, y, w, t, issued, late):
        """Learn the label y at the log-odds x and the time t, with weight w > 0, from the record of its forecast.

        `late` is the information learned since. Without a record, None, the present forecast is in its place.
        """
        r: cython.double
        p: cython.double
        u: cython.double
        weight: cython.double = w
        end: cython.Py_ssize_t = self.end
        if issued is None:
            self.write(x, t, self._record)
            issued = self._record
        if late > 0.0 and not self.combination.weights.late:
            self.combination.weights.split()
            self.ladder.weights.split()
        if t == t and not self.times.begun:
            self.times.begin()
        r = self.scale.relative(w)
        gain: cython.double = r * (gain_of(issued[end + ISSUED], y) - gain_of(x, y))
        p = sigmoid(issued[end + ISSUED])
        w = self.worth.worth(r, (y - p) * (y - p))
        u = w * 4.0 * p * (1.0 - p)
        if self.regressions.see(x):
            self.regressions.hold()
        if issued[end + TIMED] != NONE:
            p = power(1.0 + late, -LATE_POWER) if late > 0.0 else 1.0
            self.times.judge(
                issued[end + BASE], issued[end + TIMED], y, w * p, u / (self.combination.information + u + SHARED)
            )
        self.combination.judge(y, w, u, late, issued)
        self.ladder.judge(issued, self.size + self.combination.stacks, end + RUNGS, y, w, u, late, SHARED)
        self.ladder.learn(x, y, w, u)
        self._owed = min(self._owed + u, 2.0)
        forgets: cython.bint = self._owed >= 1.0  # once in a unit of information, and once in a step at most
        if forgets:
            self._owed -= 1.0
        self.combination.learn(y, w, forgets, issued)
        if t == t:
            self.times.learn(x, y, w, forgets, t, issued[end + BASE])
        self.regressions.learn(x, y, w, issued, end + MEANS)
        self.sums.learn(x, y, w, forgets)
        self.jumper.step(x, y, weight)
        self.repeated.learn(x, y, w, u)
        self.weight += weight
        self.learned += 1
        self.guard.learn(gain, information(x, issued[end + ISSUED]), r)
        self._spot = nan

    # -- weights and state ---------------------------------------------------------------------------------------

    def weights(self):
        """Return the weights of experts and stacks, of the rungs, and of both corrections, each in what it corrects."""
        by_time = self.times.share if self.times.begun else 0.0
        return self.combination.weights.weights(), self.ladder.weights.weights(), self.combination.corrected, by_time

    def state(self):
        """Everything learned, as plain data, for `load`."""
        seen, total = self.regressions.first()
        return {
            "learned": [self.learned, float(self.weight), seen, total],
            "information": [float(self.combination.information), float(self._owed)],
            "ladder": self.ladder.state(),
            **self.regressions.state(),
            **self.combination.state(),
            **self.sums.state(),
            "timed": self.times.state(),
            "jumper": list(self.jumper.state()),
            "corrected": [float(self.combination.corrected), float(self.times.share)],
            **self.repeated.state(),
            "scale": self.scale.state(),
            "worth": self.worth.state(),
        }

    def load(self, state):
        """Load an earlier `state` into a new mixture."""
        self.learned, self.weight, *first = state["learned"]
        learned, self._owed = state["information"]
        self.ladder.load(*state["ladder"])
        self.regressions.load(state, first)
        self.sums.load(state)
        corrected, by_time = state["corrected"]
        self.combination.load(state, corrected, learned)
        self.times.load(state["timed"], by_time)
        self.jumper.load(*state["jumper"])
        self.scale.load(*state["scale"])
        self.worth.load(*state["worth"])
        self.repeated.lengthen(state["slots"], np.array(state["repeated"]).reshape(-1, 5))
        self._cut(self._slots)
