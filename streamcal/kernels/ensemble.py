# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The step of `Auto` in one call: experts, their mixture, specialists, and what is known where labels come late.

Fields and C signatures are in `ensemble.pxd`.
"""

import cython

if not cython.compiled:
    import math

    from streamcal.kernels.bernstein import BernsteinSums
    from streamcal.kernels.expert_panel import Panel
    from streamcal.kernels.fast_path import fast_observation, fast_score
    from streamcal.kernels.fixed_share import Jumper
    from streamcal.kernels.hull_tree import HullTree
    from streamcal.kernels.logistic import sigmoid
    from streamcal.kernels.mixture import Assessment, Mixture
    from streamcal.kernels.online_newton import log_odds
    from streamcal.kernels.specialists import Judgement, Specialists
    from streamcal.kernels.weights import WeightScale

    exp2, floor, inf, nan, rint = math.exp2, math.floor, math.inf, math.nan, round
else:
    from cython.cimports.libc.math import INFINITY as inf
    from cython.cimports.libc.math import NAN as nan
    from cython.cimports.libc.math import exp2, floor, rint
    from cython.cimports.streamcal.kernels.bernstein import BernsteinSums
    from cython.cimports.streamcal.kernels.expert_panel import Panel
    from cython.cimports.streamcal.kernels.fast_path import fast_observation, fast_score
    from cython.cimports.streamcal.kernels.fixed_share import Jumper
    from cython.cimports.streamcal.kernels.hull_tree import HullTree
    from cython.cimports.streamcal.kernels.logistic import sigmoid
    from cython.cimports.streamcal.kernels.mixture import Assessment, Mixture
    from cython.cimports.streamcal.kernels.online_newton import log_odds
    from cython.cimports.streamcal.kernels.specialists import Judgement, Specialists
    from cython.cimports.streamcal.kernels.weights import WeightScale

import numpy as np

LARGEST = cython.declare(cython.double, 16.0)
"""The knots lie between log-odds ± this; a score at either end is clamped."""
LEAST_KIND = cython.declare(cython.longlong, 4)
LEAST_MORE = cython.declare(cython.longlong, 4)
GROWTH = cython.declare(cython.longlong, 16)
"""The curve of all observations is fitted to so many positives and negatives at least, and again when there are four
observations more, and a 16th more."""
SLOWLY = cython.declare(cython.longlong, 8)
"""With each label, how late labels are taken to be changes by this part of it, and 1, at most: one that is far later
than the others changes little."""


@cython.final
@cython.cclass
class RecentScores:
    """The last `size` observations, in order, and a `HullTree` of them.

    Parameters
    ----------
    tree : HullTree
    size : int
    outweighing, outweighing_one : float
        If what leaves is so many times heavier than all that is left, or than one observation that is left, rounding
        errors of its size may be left too; see `add`.
    """

    def __init__(
        self, tree: HullTree, size: cython.Py_ssize_t, outweighing: cython.double, outweighing_one: cython.double
    ):
        self.tree = tree
        self._size = size
        self._outweighing, self._outweighing_one = outweighing, outweighing_one
        self._held = np.zeros((size + 1, 3))
        self.load(np.zeros((0, 3)), 0)

    def add(self, x, y, w):
        """Add an observation, and remove the oldest beyond `size`; whether sums have to be made anew (`summed_anew`).

        They have if rounding errors are as large as what is left, and else once for each `size` that have left.
        """
        place: cython.Py_ssize_t = (self._first + self._number) % (self._size + 1)
        gone: cython.double
        gone_y: cython.double
        gone_x: cython.double
        self.tree.update_one(x, y, w)
        self._held[place, 0], self._held[place, 1], self._held[place, 2] = x, y, w
        self._lightest = min(self._lightest, w)
        if self._number < self._size:
            self._number += 1
            return False
        gone_x, gone_y = float(self._held[self._first, 0]), float(self._held[self._first, 1])
        gone = float(self._held[self._first, 2])
        self._first = (self._first + 1) % (self._size + 1)
        self.evicted += 1
        if self.tree.revert(gone_x, gone, gone * gone_y, 1):
            raise ValueError("what leaves is not held")
        if self.tree.exact:
            return False
        if self.evicted >= self._size or gone > self._outweighing_one * self._lightest:
            return True
        return gone > self._outweighing * w and gone > self._outweighing * self.tree.weight

    def summed_anew(self):
        """To be called after the tree was made anew of what is held."""
        self.evicted = 0
        self._lightest = min(self.held()[:, 2].tolist(), default=inf)

    def held(self):
        """The observations, the oldest first: rows of x, y, w, shape (number, 3). A new array."""
        places = (self._first + np.arange(self._number)) % (self._size + 1)
        return np.asarray(self._held)[places]

    def load(self, held, evicted: cython.longlong):
        """Replace what is held, as the tree has it already."""
        self._first, self._number = 0, len(held)
        np.asarray(self._held)[: len(held)] = held
        self.summed_anew()
        self.evicted = evicted


@cython.final
@cython.cclass
class FadingMoments:
    """`BernsteinSums` under decay by count: the weight of each new observation grows instead of all others falling.

    Parameters
    ----------
    sums : BernsteinSums
    half_life : float
        In observations.
    rescaled_after : float
        Number of half-lives after which all sums are divided by a power of 2.
    """

    def __init__(self, sums: BernsteinSums, half_life: cython.double, rescaled_after: cython.double):
        self.sums = sums
        self._half_life, self._rescaled_after = half_life, rescaled_after
        self.clock, self.halvings = 0.0, 0

    def add(self, x, y, w):
        """Add an observation."""
        growth: cython.double
        self.clock += 1.0
        growth = self.clock / self._half_life - self.halvings
        if growth >= self._rescaled_after:
            self.sums.multiply(exp2(-floor(growth)))
            self.halvings += cython.cast(cython.longlong, growth)
        self.sums.update_one(x, y, w * exp2(self.clock / self._half_life - self.halvings))

    @property
    def n(self):
        """Total weight, in units of a new observation."""
        if self.sums.count == 0:
            return 0.0
        return max(self.sums.weight, 0.0) / exp2(self.clock / self._half_life - self.halvings)

    def load(self, clock: cython.double, halvings: cython.longlong):
        """Replace the clock and the number of halvings, as the sums have them already."""
        self.clock, self.halvings = clock, halvings


@cython.final
@cython.cclass
class Experts:
    """A `Panel`, and what it is given: a `Jumper`, recent scores for intervals, and moments.

    Parameters
    ----------
    panel : Panel
    jumper : Jumper
    scores : RecentScores
        Learns log-odds rounded to the nearest knot.
    moments : FadingMoments
    knots_a_unit : int
    every : int
        `draw` is called after so many observations.
    draw, draw_whole, sum_anew : function without arguments
        Fit the curves of recent observations again; that of all observations, ever more rarely; make the tree of
        `scores` anew.

    Attributes
    ----------
    whole : memoryview of shape (2, knots)
        Summed weights of all negatives and of all positives, each shared between the two knots beside its score, as
        forecasts are.
    negatives, positives : int
        How many there were.
    due : int
        The number of observations at which the curve of all is fitted again; 0 before it was the first time.
    """

    def __init__(
        self,
        *,
        panel: Panel,
        jumper: Jumper,
        scores: RecentScores,
        moments: FadingMoments,
        knots_a_unit,
        every,
        draw,
        draw_whole,
        sum_anew,
    ):
        self.panel, self._jumper, self._scores, self._moments = panel, jumper, scores, moments
        jumper.tabulate(np.linspace(-LARGEST, LARGEST, round(2 * LARGEST * knots_a_unit) + 1))
        self._unit = knots_a_unit
        self._every = every
        self._draw, self._draw_whole, self._sum_anew = draw, draw_whole, sum_anew
        self._interval = np.zeros(2)
        self.whole = np.zeros((2, round(2 * LARGEST * knots_a_unit) + 1))
        self.learned = self.due = self.negatives = self.positives = 0

    def fit_whole(self):
        """Fit the curve of all observations again, if they are enough, and settle when that is due the next time."""
        if min(self.negatives, self.positives) >= LEAST_KIND:
            self.due = self.learned + max(LEAST_MORE, self.learned // GROWTH)
            self._draw_whole()

    def forecast(self, knot, out):
        """Write the log-odds of each expert at a knot to `out`; `ValueError` for another knot or size."""
        x: cython.double = knot / self._unit - LARGEST
        self._scores.tree.write_interval(x, 1.0, self._interval)
        self.panel.forecast(knot, self._interval[0], self._interval[1], self._jumper.predict_at(knot), out)

    def learn(self, x, y, w, found):
        """Learn the label y at the log-odds x, with weight w > 0; the regressions as recorded in `found`, if so."""
        if found.recorded:
            self.panel.repeat(x, y, w, found.panel_steps)
        else:
            self.panel.learn(x, y, w, found.means)
        self._jumper.step(x, y, w)
        steps: cython.double = rint(x * self._unit)
        place: cython.double = (x + LARGEST) * self._unit
        last: cython.Py_ssize_t = self.whole.shape[1] - 1
        knot: cython.Py_ssize_t = min(cython.cast(cython.Py_ssize_t, place), last - 1)
        side: cython.Py_ssize_t = 1 if y > 0.0 else 0
        if self._scores.add(steps / self._unit + 0.0, y, w):
            self._sum_anew()
        self._moments.add(sigmoid(x), y, w)
        self.learned += 1
        if y > 0.0:
            self.positives += 1
        else:
            self.negatives += 1
        self.whole[side, knot] += w * (1.0 - (place - knot))
        self.whole[side, knot + 1] += w * (place - knot)
        if self.learned >= self.due:
            self.fit_whole()
        if self.learned % self._every == 0:
            self._draw()


@cython.final
@cython.cclass
class Ensemble:
    """`Experts` and their `Mixture`, at one state of knowledge.

    Parameters
    ----------
    experts : Experts
    mixture : Mixture
    size : int
        Number of experts.
    knots : int
    knots_a_unit : int
    """

    def __init__(self, *, experts: Experts, mixture: Mixture, size, knots, knots_a_unit):
        self._experts, self._mixture = experts, mixture
        self._unit, self._last = knots_a_unit, knots - 1
        # The forecasts of the experts at a knot and at the next, until something is learned; -1: at none yet.
        self._left, self._right = np.empty(size), np.empty(size)
        self._knot = -1

    def learned(self):
        """Number of observations learned."""
        return self._experts.learned

    def means(self):
        """The means of labels in the forecasts, as a list of floats."""
        return self._experts.panel.means()

    def look_ahead(self, late):
        """A label came so late: forecasts are made for labels as late as the last ones, see `SLOWLY`."""
        ahead: cython.longlong = self._experts.panel.ahead
        step: cython.longlong = ahead // SLOWLY + 1
        self._experts.panel.ahead = min(max(late, ahead - step), ahead + step)

    def ahead(self):
        """How late labels are taken to be."""
        return self._experts.panel.ahead

    def rows(self):
        """Rows of the mixtures."""
        return self._mixture.rows()

    def said_of_rows(self, rows):
        """How many numbers `issue` returns where the mixtures have so many rows."""
        return 2 * (self._left.shape[0] + 8) + 6 * rows

    def forget(self):
        """Forecasts have to be made anew: something was learned or loaded."""
        self._knot = -1

    def _show_beside(self, x):
        """Show the mixture the forecasts at the knots beside the log-odds x; the share of the way to the second."""
        steps: cython.double = (x + LARGEST) * self._unit
        knot: cython.Py_ssize_t = min(cython.cast(cython.Py_ssize_t, steps), self._last - 1)
        if knot != self._knot:
            self._experts.forecast(knot, self._left)
            self._experts.forecast(knot + 1, self._right)
            self._mixture.show(self._left, self._right, knot)
            self._knot = knot
        return steps - knot

    def at(self, x):
        """The log-odds of the forecast at the log-odds x."""
        share: cython.double = self._show_beside(x)
        return self._mixture.at(share)

    def assess(self, x, y, w, spent=None):
        """How right the present forecasts at the log-odds x are for the label y of weight w: for `learn`.

        An assessment that was learned, `spent`, is written over.
        """
        share: cython.double = self._show_beside(x)
        return self._mixture.assess(share, y, w, spent)

    def issue(self, x):
        """What the parts of the mixture say at the log-odds x, as a list of floats, for `assess_issued`."""
        share: cython.double = self._show_beside(x)
        return self._mixture.issue(share)

    def look_back(self, x, y, found):
        """Set in an assessment of a late label what is said now, at the knot next to x; log-odds of the forecast there.

        One knot, where `assess` takes both beside x: for the forecast itself it makes no difference.
        """
        knot: cython.Py_ssize_t = cython.cast(cython.Py_ssize_t, rint((x + LARGEST) * self._unit))
        self._experts.forecast(knot, self._left)
        self._knot = -1
        return self._mixture.look_back(self._left, knot, y, found)

    def assess_issued(self, x, y, w, said, late, spent=None):
        """`assess`, of the forecasts of `issue`, so many labels late."""
        steps: cython.double = (x + LARGEST) * self._unit
        knot: cython.Py_ssize_t = min(cython.cast(cython.Py_ssize_t, steps), self._last - 1)
        self._knot = -1
        return self._mixture.assess_issued(said, knot, steps - knot, y, w, late, spent)

    def learn(self, x, y, w, found):
        """Learn an observation, and how right the forecasts issued for its score were."""
        self._mixture.learn(found, cython.cast(cython.double, self._experts.panel.ahead))
        self._experts.learn(x, y, w, found)
        self._knot = -1

    def record(self, found):
        """Note in an assessment just learned what all regressions did, for `learn` of another ensemble."""
        if found.steps.shape[0] == 0:
            found.steps = np.zeros(self._mixture.stack_recorded)
            found.panel_steps = np.zeros(self._experts.panel.recorded)
        self._mixture.record(found)
        self._experts.panel.record(found.panel_steps)
        found.recorded = True


@cython.final
@cython.cclass
class AutoSteps:
    """The steps of `Auto`: what it knows now, and what it knew when the forecast for the label learned now was issued.

    `late`, an empty deque, will hold what `then` and `last_then` have yet to learn of what `live` and `last` have
    learned: (x, y, w, assessment, judgement), `delay` of them, the oldest first. With `delay` 0 both are one.
    A time t of NaN is none.
    """

    def __init__(
        self,
        live: Ensemble,
        then: Ensemble,
        last: Specialists,
        last_then: Specialists,
        delay: cython.Py_ssize_t,
        late,
    ):
        self._live, self._then, self._delay = live, then, delay
        self._last, self._last_then = last, last_then
        self.late = late
        self._means = len(live.means())
        self._spent = self._spent_last = None
        self.n = 0.0
        self.scale = WeightScale()

    def at(self, x, t):
        """The log-odds of the forecast at the log-odds x and the time t."""
        return self._last.at(self._live.at(x), x, t)

    def predict(self, x):
        """The probability at the log-odds x."""
        return sigmoid(self.at(x, nan))

    def predict_fast(self, score):
        """The probability at `score`, a float in [0, 1]; NaN for anything else."""
        return self.predict(log_odds(score, LARGEST)) if fast_score(score, 0.0, 1.0) else nan

    def learn_fast(self, score, y, w):
        """`step` for a float in [0, 1] that is not clamped, a bool and a float weight; whether it was."""
        x: cython.double
        if not fast_observation(score, y, w, 0.0, 1.0):
            return False
        x = log_odds(score, LARGEST)
        if not -LARGEST < x < LARGEST:
            return False
        self.step(x, 1.0 if y is True else 0.0, w, nan)
        return True

    def step(self, x, y, w, t):
        """Learn the label y at the log-odds x and the time t, with weight w > 0."""
        relative: cython.double = self.scale.relative(w)
        found: Assessment = self._then.assess(x, y, relative, self._spent)
        judged: Judgement = self._last_then.assess(self._then.at(x), x, y, t, self._spent_last)
        judged.late = self._delay
        self._live.look_ahead(self._delay)
        self._learn(x, y, relative, found, judged)
        self.n += w

    def issue(self, x, t):
        """What all parts say at the log-odds x and the time t, as a list of floats, for `step_issued`.

        At its end are the means of the labels known by then, their number, and the rows of the mixtures.
        """
        said: list = self._live.issue(x) + self._last.issue(self._live.at(x), x, t) + self._live.means()
        return [*said, float(self._live.learned()), float(self._live.rows())]

    def step_issued(self, x, y, w, t, said):
        """`step`, where `said` is what `issue` returned when the forecast was made, with the time t.

        `ValueError` for another number of them, or for one that cannot be, before anything is learned.
        """
        assessed: tuple = self._assess_issued(x, y, w, t, said)
        found: Assessment = assessed[0]
        judged: Judgement = assessed[1]
        if judged.late == 0.0:  # what was said then is what is said now
            self.step(x, y, w, t)
            return
        self._live.look_ahead(cython.cast(cython.longlong, judged.late))
        found.w = self.scale.relative(w)
        self._learn(x, y, found.w, found, judged)
        self.n += w

    def require_issued(self, said):
        """`ValueError` where `step_issued` does not take what was said; nothing changes."""
        self._assess_issued(0.0, 1.0, 1.0, nan, said)

    def _assess_issued(self, x, y, w, t, said):
        """The assessment and the judgement of what was said, for `_learn`, or `ValueError`."""
        i: cython.Py_ssize_t
        late: cython.double
        learned: cython.double
        numbers: cython.const[cython.double][::1] = np.array(said, dtype=np.float64)
        n: cython.Py_ssize_t = numbers.shape[0] - 2 - self._means
        own: cython.Py_ssize_t = 0
        if n > 0 and 0.0 <= numbers[n + self._means + 1] <= 3.0 * self._live.rows():
            own = self._live.said_of_rows(cython.cast(cython.Py_ssize_t, numbers[n + self._means + 1]))
        if not 0 < own < n:
            raise ValueError(f"{numbers.shape[0]} is not how many numbers that were said there are")
        learned = numbers[n + self._means]
        if not 0.0 <= learned <= self._live.learned():
            raise ValueError(f"{learned} labels were learned by then, and {self._live.learned()} are by now")
        for i in range(n, n + self._means):
            if not -1.0 <= numbers[i] <= 1.0:
                raise ValueError(f"the mean of labels in number {i} is {numbers[i]}, not from -1 to 1")
        late = self._delay if self._delay > 0 else self._live.learned() - learned
        found: Assessment = self._live.assess_issued(x, y, w, numbers[:own], late, self._spent)
        judged: Judgement = self._last.assess_issued(numbers[own:n], y, t, late, self._spent_last)
        if self._delay == 0:
            found.means = numbers[n : n + self._means]
        return found, judged

    def _learn(self, x, y, w, found, judged):
        if judged.late > 0.0:
            self._last.look_back(self._live.look_back(x, y, found), x, y, judged)
        self._live.learn(x, y, w, found)
        self._last.late = self._live.ahead()
        self._last.learn(x, y, w, judged)
        self._spent, self._spent_last = found, judged
        if self._delay > 0:
            self._spent = self._spent_last = None
            self._live.record(found)
            self.late.append((x, y, w, found, judged))
            if len(self.late) > self._delay:
                oldest = self.late.popleft()
                self._then.learn(oldest[0], oldest[1], oldest[2], oldest[3])
                self._last_then.learn(oldest[0], oldest[1], oldest[2], oldest[4])
                self._spent, self._spent_last = oldest[3], oldest[4]

    def stream(
        self,
        x: cython.const[cython.double][::1],
        y: cython.const[cython.double][::1],
        w: cython.const[cython.double][:],
        t: cython.const[cython.double][::1],
        predictions: cython.double[::1],
    ):
        """The forecast, unless `predictions` is empty, and then `step` for each row; weight 0 makes no step."""
        i: cython.Py_ssize_t
        n: cython.Py_ssize_t = x.shape[0]
        predicts: cython.bint = predictions.shape[0] > 0
        if not n == y.shape[0] == w.shape[0] == t.shape[0] or (predicts and predictions.shape[0] != n):
            raise ValueError("lengths differ")
        for i in range(n):
            if predicts:
                predictions[i] = sigmoid(self.at(float(x[i]), float(t[i])))
            if w[i] > 0.0:
                self.step(float(x[i]), float(y[i]), float(w[i]), float(t[i]))
