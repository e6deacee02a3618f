# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Three successive mixtures, each of the previous one and of corrections learned from its errors; their assessment.

A switch from the score to the third of them follows, and a mixture with lines that begin anew again and again.

Symbols:

    ζ                        log-odds of the first mixture, z₁ … z_K being those of its K experts
    σ                        1 / (1 + exp(−z))
"""

import cython

if not cython.compiled:
    import math

    from streamcal.kernels.fixed_share import FixedShare, require_said
    from streamcal.kernels.implicit_regression import Correction, ForgettingRegression, clamped, implicit
    from streamcal.kernels.logistic import sigmoid

    exp, log = math.exp, math.log
else:
    from cython.cimports.libc.math import exp, log
    from cython.cimports.streamcal.kernels.fixed_share import FixedShare, require_said
    from cython.cimports.streamcal.kernels.implicit_regression import (
        Correction,
        ForgettingRegression,
        clamped,
        implicit,
    )
    from cython.cimports.streamcal.kernels.logistic import sigmoid

import numpy as np

LARGEST = cython.declare(cython.double, 16.0)
"""The knots lie between log-odds ± this."""
# What is mixed second, and third.
FIRST_MIXTURE = cython.declare(cython.Py_ssize_t, 0)
STACK = cython.declare(cython.Py_ssize_t, 1)
SECOND_MIXTURE = cython.declare(cython.Py_ssize_t, 0)
BY_SCORE = cython.declare(cython.Py_ssize_t, 1)
BY_FORECAST = cython.declare(cython.Py_ssize_t, 2)
# What is left at a switch, and what is taken up.
SCORE = cython.declare(cython.Py_ssize_t, 0)
THIRD_MIXTURE = cython.declare(cython.Py_ssize_t, 1)
FAR = cython.declare(cython.double, 1e300)
"""No log-odds of the weight of the score are further from 0, so that they stay finite."""

# What lines are mixed with, and where the first line is.
BASE = cython.declare(cython.Py_ssize_t, 0)
LINE = cython.declare(cython.Py_ssize_t, 1)
LINES = cython.declare(cython.Py_ssize_t, 4)
"""Lines that are held, at most."""
NONE = cython.declare(cython.longlong, -1)
"""When a line began that has not."""
LEAST = cython.declare(cython.double, 1e-100)
"""A line of less weight has none."""
YOUNG = cython.declare(cython.Py_ssize_t, 2)
"""A line is not given up before so many others have begun after it."""
SLOPE_PRECISION = cython.declare(cython.double, 3.0)
OFFSET_PRECISION = cython.declare(cython.double, 6.0)
"""What holds a line at the score, as the lines among the experts of `Auto`."""
NEAR = cython.declare(cython.double, 3.0)
"""A mean m of log-odds beyond ± this is far: offsets are then held at m − 9/m, as those of the experts of `Auto`."""
HEAVIEST = cython.declare(cython.double, 1e6)
"""Larger weights of observations are clipped to this in a line."""


@cython.final
@cython.cclass
class Restarts:
    """The mixture of a forecast and of lines in the log-odds of the score, one of which begins anew from time to time.

    After every `every` outcomes a line begins at the score, in the place of the one that has the least weight, unless
    that is one of the last two; it is given the fraction `every`·`rate` of all weight, and what the other had goes to
    the forecast. A line is a logistic regression that forgets nothing, by implicit steps. An outcome multiplies each
    weight by the probability that was given to it; then the fraction `back` of all weight goes to the forecast. The
    loss is at most that of the forecast and n/`every`·ln 1/(1 − `every`·`rate`) after n outcomes; and, from where it
    began on, that of a line for as long as it is held, and ln 1/(`every`·`rate`), and as much a step as `back` says.

    This is fixed share (Herbster and Warmuth 1998) to experts that are born when they get their share, as of Adamskiy
    et al., A closer look at adaptive regret, JMLR 17, 2016. Nothing begins where labels are late.

    Parameters
    ----------
    every : int
    rate, back : float

    Notes
    -----
    Symbols: a line is c + θ·φ, φ = (x − c, 1), of curvature A. c is where offsets are held: 0, or near the mean of the
    scores since the last line began, if that is far from 0.
    """

    def __init__(self, every: cython.longlong, rate: cython.double, back: cython.double):
        self._every, self._given, self._back = every, every * rate, back
        self._z, self._odds = np.zeros((2, 1 + LINES)), np.ones((2, 1 + LINES))
        self._weights, self._began = np.zeros(1 + LINES), np.full(LINES, NONE)
        self._lines = np.zeros((LINES, 6))
        self._learned, self._sum = 0, 0.0
        self.drop()

    def drop(self):
        """Give up all lines."""
        self._weights[:] = 0.0
        self._weights[BASE] = 1.0
        self._began[:] = NONE
        self._held = 0

    def weight(self):
        """The weight of all lines."""
        return 1.0 - self._weights[BASE] if self._held > 0 else 0.0

    def mean(self, side, x, z):
        """The log-odds of the mixture at a knot, of log-odds x, where the forecast is z."""
        k: cython.Py_ssize_t
        p: cython.double = 0.0
        q: cython.double = 0.0
        if self._held == 0:
            return z
        self._z[side, BASE] = z
        for k in range(LINES):
            self._z[side, LINE + k] = clamped(self._at(k, x), LARGEST)
        for k in range(1 + LINES):
            self._odds[side, k] = exp(-self._z[side, k])
            p += self._weights[k] / (1.0 + self._odds[side, k])
            q += self._weights[k] / (1.0 + self._odds[side, k]) * self._odds[side, k]
        return log(p / q)

    def _at(self, k, x):
        """What a line says at the log-odds x."""
        c: cython.double = self._lines[k, 0]
        return c + self._lines[k, 1] * (x - c) + self._lines[k, 2]

    def assess(self, share, y, out):
        """Set `out` to the log-probabilities of y under the forecast and the lines, as `mean` was told of them last."""
        if self._held > 0:
            _gain(self._z, self._odds, share, y, out)

    def learn(self, x, y, w, gains):
        """One step on a label y at the log-odds x, of weight w, with its log-probabilities."""
        k: cython.Py_ssize_t
        if self._held > 0:
            self._weigh(gains, w)
            for k in range(LINES):
                if self._began[k] != NONE:
                    self._move(k, x, y, min(w, HEAVIEST))
        self._learned += 1
        self._sum += x
        if self._learned % self._every == 0:
            self._begin()

    def _weigh(self, gains, w):
        """Multiply all weights by the probabilities of the outcome, and give the forecast back its part."""
        k: cython.Py_ssize_t
        best: cython.double = -FAR
        total: cython.double = 0.0
        for k in range(1 + LINES):
            if self._weights[k] > 0.0:
                best = max(best, gains[k])
        for k in range(1 + LINES):
            if self._weights[k] > 0.0:
                self._weights[k] *= exp(w * (gains[k] - best))
                total += self._weights[k]
        for k in range(1 + LINES):
            self._weights[k] = (1.0 - self._back) * (self._weights[k] / total)
            if self._weights[k] < LEAST:
                self._weights[k] = 0.0
        self._weights[BASE] += self._back

    def _move(self, k, x, y, w):
        """A step of a line."""
        line: cython.double[:, ::1] = self._lines
        f: cython.double = x - line[k, 0]
        determinant: cython.double = max(
            line[k, 3] * line[k, 5] - line[k, 4] * line[k, 4], SLOPE_PRECISION * OFFSET_PRECISION
        )
        # A⁻¹φ
        slope: cython.double = (line[k, 5] * f - line[k, 4]) / determinant
        offset: cython.double = (line[k, 3] - line[k, 4] * f) / determinant
        v: cython.double = max(slope * f + offset, 0.0)
        p: cython.double = sigmoid(implicit(self._at(k, x), w * v, y))
        line[k, 1] += w * (y - p) * slope
        line[k, 2] += w * (y - p) * offset
        line[k, 3] += w * p * (1.0 - p) * f * f
        line[k, 4] += w * p * (1.0 - p) * f
        line[k, 5] += w * p * (1.0 - p)

    def _begin(self):
        """Begin a line at the score."""
        k: cython.Py_ssize_t
        place: cython.Py_ssize_t = -1
        middle: cython.double = self._sum / self._every
        for k in range(LINES):
            if self._began[k] == NONE:
                place = k
                break
            if self._learned - self._began[k] > YOUNG * self._every and (
                place < 0 or self._weights[LINE + k] < self._weights[LINE + place]
            ):
                place = k
        self._weights[BASE] += self._weights[LINE + place]
        self._weights[LINE + place] = 0.0
        for k in range(1 + LINES):
            self._weights[k] *= 1.0 - self._given
        self._weights[LINE + place] = self._given
        self._held += 1 if self._began[place] == NONE else 0
        self._began[place] = self._learned
        self._lines[place, 0] = middle - NEAR * NEAR / middle if abs(middle) > NEAR else 0.0
        self._lines[place, 1], self._lines[place, 2] = 1.0, 0.0
        self._lines[place, 3], self._lines[place, 4], self._lines[place, 5] = SLOPE_PRECISION, 0.0, OFFSET_PRECISION
        self._sum = 0.0

    def state(self):
        """[learned, sum of scores, weight of the forecast, lines that are held], for `load`.

        Of a line: its place, when it began, its weight, c, θ and A.
        """
        held: list = [k for k in range(LINES) if self._began[k] != NONE]
        lines: list = [
            [k, int(self._began[k]), float(self._weights[LINE + k]), *np.asarray(self._lines)[k].tolist()] for k in held
        ]
        return [int(self._learned), float(self._sum), float(self._weights[BASE]), lines]

    def load(self, learned: cython.longlong, total: cython.double, base: cython.double, lines):
        """Load an earlier `state`."""
        self.drop()
        self._learned, self._sum = learned, total
        self._weights[BASE] = base
        for line in lines:
            k: cython.Py_ssize_t = line[0]
            self._began[k] = line[1]
            self._weights[LINE + k] = line[2]
            np.asarray(self._lines)[k] = line[3:]
            self._held += 1


@cython.final
@cython.cclass
class Switch:
    """From one forecast to another, at most once: the mixture of all times at which that may happen.

    The first forecast has the weight `prior` and the second the rest; either is multiplied by the probability that it
    gave to an outcome; then the first hands the fraction `rate` of its weight to the second, and what it has above
    `most` if the label came late. The loss is at most that of the second and ln 1/(1 − `prior`). If no label is late,
    it is also at most that of the first and ln 1/`prior` + n ln 1/(1 − `rate`) after n outcomes. This is fixed share
    without a way back (Herbster and Warmuth 1998), or the switch distribution of van Erven, Grünwald and de Rooij
    (2012).

    Parameters
    ----------
    prior, rate, most : float
    """

    def __init__(self, prior: cython.double, rate: cython.double, most: cython.double):
        self._odds = log(prior / (1.0 - prior))
        self._rate = rate
        self._most = log(most / (1.0 - most))

    def weight(self):
        """The weight of the first forecast."""
        e: cython.double = exp(-abs(self._odds))
        return (1.0 if self._odds >= 0.0 else e) / (1.0 + e)

    def mean_of(self, first, second):
        """The log-odds of the mixture of two forecasts, of the odds against each of them."""
        v: cython.double = self.weight()
        p: cython.double = v / (1.0 + first)
        q: cython.double = (1.0 - v) / (1.0 + second)
        return log((p + q) / (first * p + second * q))

    def learn(self, first, second, w, late):
        """One step on an outcome of weight w, late or not, with its log-probabilities under both forecasts."""
        odds: cython.double = self._odds + w * (first - second)
        odds = min(max(odds, -FAR), self._most if late else FAR)
        # v ← (1 − rate) v, of odds o: (1 − rate) o / (1 + rate o)
        if odds > 0.0:
            odds = log((1.0 - self._rate) / (self._rate + exp(-odds)))
        else:
            odds += log((1.0 - self._rate) / (1.0 + self._rate * exp(odds)))
        self._odds = max(odds, -FAR)

    def state(self):
        """[log-odds of the weight of the first forecast], for `load`."""
        return [float(self._odds)]

    def load(self, odds: cython.double):
        """Load an earlier `state`."""
        self._odds = odds


@cython.final
@cython.cclass
class Assessment:
    """The log-probabilities of a label under the forecasts for its score, made by `Mixture.assess` for `Mixture.learn`.

    Fields: the label `y` and its weight `w`; `place`, the score in knots; `second`, the log-odds of the second
    mixture; `features` of the stack, shape (K + 2,); for each mixture the log-probabilities of the label under its
    components, and under its rows, shape (rows,); those under the score and the third mixture; whether the label is
    `late`; the learning `rate` for it, and the `means` of labels in the forecast, or none, which no state has; if it is
    not late, its log-probabilities under what `Restarts` mixes, which no state has either. If `recorded`, it was
    learned, and `steps` and `panel_steps` are what the stack and the regressions of the panel did then; a state does
    without.
    """

    def __init__(self, count: cython.Py_ssize_t, rows: cython.Py_ssize_t):
        arrays: cython.double[::1] = np.empty(2 * count + 9 + 3 * rows)
        start: cython.Py_ssize_t = count + 2
        self._arrays = arrays
        self.features = arrays[:start]
        self.experts = arrays[start : start + count]
        start += count
        self.expert_rows = arrays[start : start + rows]
        start += rows
        self.stacked = arrays[start : start + 2]
        start += 2
        self.stacked_rows = arrays[start : start + rows]
        start += rows
        self.corrected = arrays[start : start + 3]
        start += 3
        self.corrected_rows = arrays[start : start + rows]
        self.switched = arrays[start + rows :]
        self.restarted = np.empty(1 + LINES)
        self.recorded = self.late = False
        self.rate = 1.0
        self.means = arrays[:0]
        self.steps = self.panel_steps = arrays[:0]

    def state(self):
        """All fields, in the order of the class, as a list of floats, for `Mixture.assessment`."""
        return [float(self.y), float(self.w), float(self.place), float(self.second), *np.asarray(self._arrays).tolist()]

    def load(self, numbers):
        """Load an earlier `state`; `ValueError` if it is of another size.

        Versions without a switch wrote two numbers less, and nothing is then said for or against it.
        """
        if np.shape(numbers) == (2 + len(self._arrays),):
            numbers = [*numbers, 0.0, 0.0]
        if np.shape(numbers) != (4 + len(self._arrays),):
            raise ValueError(f"expected an assessment of {4 + len(self._arrays)} numbers, not {np.shape(numbers)}")
        self.y, self.w, self.place, self.second = numbers[:4]
        np.asarray(self._arrays)[:] = numbers[4:]


@cython.final
@cython.cclass
class Mixture:
    """Three successive mixtures over equidistant knots in log-odds, and a switch to the third.

    The first is of K experts; ζ are its log-odds. The second is of the first and of the stack, an online logistic
    regression with forgetting on (ζ, z₁ − ζ, …, z_K − ζ, 1). The third is of the second and of its corrections: one
    as a function of the score, and one as a function of the second mixture.

    The score until the switch, and then the third mixture, is mixed with the lines of `restarts`, if no label is late.

    The state that issued a forecast assesses it; a later state may `learn` from the assessment.

    Parameters
    ----------
    experts, stacked, corrected : FixedShare
        The weights of the first, second and third mixture, with equal numbers of rows.
    stack : ForgettingRegression
        On K + 2 features.
    by_score, by_forecast : Correction
    switch : Switch
    restarts : Restarts
    knots_a_unit : float
        Knots in a unit of log-odds.
    late : bool
        Whether labels are late. Those of forecasts that were issued are, in any case.

    Notes
    -----
    O(K · rows) for a forecast, O(K³) for an outcome (the step of the stack).
    """

    def __init__(
        self,
        *,
        experts: FixedShare,
        stack: ForgettingRegression,
        stacked: FixedShare,
        by_score: Correction,
        by_forecast: Correction,
        corrected: FixedShare,
        switch: Switch,
        restarts: Restarts,
        knots_a_unit,
        late,
    ):
        self._experts = experts
        self._stack, self._bank = stack, stack.bank
        self._stacked = stacked
        self._by_score = by_score
        self._by_forecast = by_forecast
        self._corrected = corrected
        self._switch = switch
        self._restarts = restarts
        self._unit = knots_a_unit
        self._late = late
        if not experts.rows == stacked.rows == corrected.rows or (stacked.size, corrected.size) != (2, 3):
            raise ValueError("the mixtures are of two and of three forecasts upon the first, and of as many rows")
        if stack.size != experts.size + 2:
            raise ValueError(f"expected a stack on {experts.size + 2} features, not {stack.size}")
        self._first, self._second, self._third = (np.zeros((2, size)) for size in (experts.size, 2, 3))
        self._first_odds, self._second_odds, self._third_odds = (np.ones((2, size)) for size in (experts.size, 2, 3))
        self._either, self._either_odds = np.zeros((2, 2)), np.ones((2, 2))
        self._forecast = np.zeros(2)
        self._features = np.zeros((2, experts.size + 2))
        self._knot = 0
        self._spare = Assessment(experts.size, experts.rows)

    def show(self, left, right, knot):
        """Take the log-odds of the experts at a knot and at the next, each of shape (K,), for `at` and `assess`.

        `ValueError` if there are more or fewer. To be called again after `learn`.
        """
        if not left.shape[0] == right.shape[0] == self._experts.size:
            raise ValueError(f"expected {self._experts.size} forecasts, not {left.shape[0]} and {right.shape[0]}")
        self._knot = knot
        self._fill(0, left)
        self._fill(1, right)

    def _fill(self, side, z):
        """Set the components of all mixtures, and the features of the stack, at a knot."""
        k: cython.Py_ssize_t
        middle: cython.double
        for k in range(z.shape[0]):
            self._first[side, k] = z[k]
        _odds(self._first, self._first_odds, side)
        self._second[side, FIRST_MIXTURE] = self._experts.mean_of(self._first_odds, side)
        self._set_features(side)
        self._second[side, STACK] = clamped(self._stack.predict(self._features[side], 0.0), LARGEST)
        _odds(self._second, self._second_odds, side)
        middle = clamped(self._stacked.mean_of(self._second_odds, side), LARGEST)
        self._third[side, SECOND_MIXTURE] = middle
        self._third[side, BY_SCORE] = clamped(
            middle + self._by_score.at((self._knot + side) / self._unit - LARGEST), LARGEST
        )
        self._third[side, BY_FORECAST] = clamped(middle + self._by_forecast.at(middle), LARGEST)
        _odds(self._third, self._third_odds, side)
        self._choose(side, self._corrected.mean_of(self._third_odds, side))

    def _choose(self, side, third):
        """Set the forecast at a knot, where the third mixture says `third`."""
        self._either[side, SCORE] = (self._knot + side) / self._unit - LARGEST
        self._either[side, THIRD_MIXTURE] = third
        _odds(self._either, self._either_odds, side)
        if self._switch.weight() > 0.0:
            third = self._switch.mean_of(self._either_odds[side, SCORE], self._either_odds[side, THIRD_MIXTURE])
        self._forecast[side] = self._restarts.mean(side, self._either[side, SCORE], third)

    def _set_features(self, side):
        """Set the features of the stack: the first mixture, each expert beside it, and 1."""
        k: cython.Py_ssize_t
        count: cython.Py_ssize_t = self._first.shape[1]
        middle: cython.double = self._second[side, FIRST_MIXTURE]
        self._features[side, 0] = middle
        for k in range(count):
            self._features[side, 1 + k] = self._first[side, k] - middle
        self._features[side, count + 1] = 1.0

    def at(self, share):
        """The log-odds of the forecast at the fraction `share` between the two knots."""
        return self._forecast[0] + share * (self._forecast[1] - self._forecast[0])

    def assess(self, share, y, w, spent=None):
        """The assessment of the forecasts for a label y of weight w, to be passed to `learn`.

        The score is at the fraction `share` between the two knots. The loss at the score is the mean of the losses
        there, with weights 1 − `share` and `share`. An assessment that was learned, `spent`, is written over.
        """
        found: Assessment = Assessment(self._experts.size, self._experts.rows) if spent is None else spent
        if found.experts.shape[0] != self._experts.size or found.expert_rows.shape[0] != self._experts.rows:
            raise ValueError(f"the assessment is of {found.experts.shape[0]} experts")
        self._judge(found, share, y, w, self._late)
        self._experts.assess(found.experts, found.expert_rows)
        self._stacked.assess(found.stacked, found.stacked_rows)
        self._corrected.assess(found.corrected, found.corrected_rows)
        self._restarts.assess(share, y, found.restarted)
        return found

    def _judge(self, found, share, y, w, late):
        """Set everything in the assessment but what is said of rows."""
        k: cython.Py_ssize_t
        found.y = y
        found.w = w
        found.late, found.recorded, found.rate = late, False, 1.0
        found.means = found.features[:0]
        found.place = self._knot + share
        found.second = self._third[0, SECOND_MIXTURE] + share * (
            self._third[1, SECOND_MIXTURE] - self._third[0, SECOND_MIXTURE]
        )
        for k in range(self._features.shape[1]):
            found.features[k] = self._features[0, k] + share * (self._features[1, k] - self._features[0, k])
        _gain(self._first, self._first_odds, share, y, found.experts)
        _gain(self._second, self._second_odds, share, y, found.stacked)
        _gain(self._third, self._third_odds, share, y, found.corrected)
        _gain(self._either, self._either_odds, share, y, found.switched)

    def issue(self, share):
        """What all parts say at the fraction `share` between the two knots, for `assess_issued`: a list of floats.

        The log-odds of the components of each mixture at both knots, the log-probabilities of the labels 0 and 1 under
        its rows, and the log-odds of the third mixture at both knots.
        """
        k: cython.Py_ssize_t
        side: cython.Py_ssize_t
        rows: cython.Py_ssize_t = self._experts.rows
        found: Assessment = self._spare
        said: list = []
        for side in range(2):
            for k in range(self._experts.size):
                said.append(float(self._first[side, k]))
            for k in range(2):
                said.append(float(self._second[side, k]))
            for k in range(3):
                said.append(float(self._third[side, k]))
        for side in range(2):  # the label
            self.assess(share, side, 1.0, found)
            for k in range(rows):
                said.append(float(found.expert_rows[k]))
            for k in range(rows):
                said.append(float(found.stacked_rows[k]))
            for k in range(rows):
                said.append(float(found.corrected_rows[k]))
        for side in range(2):
            said.append(float(self._either[side, THIRD_MIXTURE]))
        return said

    def assess_issued(self, said, knot, share, y, w, rate, spent=None):
        """`assess`, of the forecasts of which `issue` returned what was said; `ValueError` if it cannot have.

        The score is at the fraction `share` between this knot and the next. `show` is to be called again afterwards.
        Below 1, `rate` is a learning rate for which rows are doubled, if they are not yet; what was issued before that
        was said by the rows of which they are copies. Earlier versions issued no third mixture, and nothing is then
        said for or against the switch.
        """
        k: cython.Py_ssize_t
        side: cython.Py_ssize_t
        count: cython.Py_ssize_t = self._experts.size
        rows: cython.Py_ssize_t = self._experts.rows
        place: cython.Py_ssize_t = 0
        issued: cython.Py_ssize_t = (said.shape[0] - 2 * (count + 5)) // 6  # rows
        known: cython.Py_ssize_t = 2 * (count + 5) + 6 * issued
        found: Assessment
        own: cython.Py_ssize_t = rows - self._experts.late_rows
        if issued not in (own, own if self._late else 2 * own) or said.shape[0] not in (known, known + 2):
            raise ValueError(f"expected {2 * (count + 6) + 6 * own} numbers that were said, not {said.shape[0]}")
        require_said(said, 0, 2 * (count + 5), LARGEST, "the mixture")
        require_said(said, 2 * (count + 5), known, 0.0, "the mixture")
        require_said(said, known, said.shape[0], LARGEST, "the mixture")
        rows = 2 * own if rows > own or rate < 1.0 else own
        found = spent if spent is not None and spent.expert_rows.shape[0] == rows else Assessment(count, rows)
        self._knot = knot
        for side in range(2):
            for k in range(count):
                self._first[side, k] = said[place + k]
            for k in range(2):
                self._second[side, k] = said[place + count + k]
            for k in range(3):
                self._third[side, k] = said[place + count + 2 + k]
            place += count + 5
            _odds(self._first, self._first_odds, side)
            _odds(self._second, self._second_odds, side)
            _odds(self._third, self._third_odds, side)
            self._set_features(side)
            self._choose(side, said[known + side] if said.shape[0] > known else (knot + side) / self._unit - LARGEST)
        self._judge(found, share, y, w, True)
        found.rate = rate
        place += 3 * issued if y > 0.0 else 0
        for k in range(rows):
            found.expert_rows[k] = said[place + k % issued]
            found.stacked_rows[k] = said[place + issued + k % issued]
            found.corrected_rows[k] = said[place + 2 * issued + k % issued]
        return found

    def double_rows(self):
        """Have all mixtures double their rows."""
        self._experts.double_rows()
        self._stacked.double_rows()
        self._corrected.double_rows()
        self._spare = Assessment(self._experts.size, self._experts.rows)

    def learn(self, found):
        """Learn from an assessment; `ValueError` if it is one of another size.

        If `found.recorded`, another mixture has learned from it in the same state: the stack repeats the recorded step.
        """
        if found.rate < 1.0 and self._experts.late_rows == 0:
            self.double_rows()
        if found.experts.shape[0] != self._experts.size or found.expert_rows.shape[0] != self._experts.rows:
            raise ValueError(f"the assessment is of {found.experts.shape[0]} experts")
        self._experts.learn(found.experts, found.expert_rows, found.w, found.rate)
        self._stacked.learn(found.stacked, found.stacked_rows, found.w, found.rate)
        self._corrected.learn(found.corrected, found.corrected_rows, found.w, found.rate)
        self._switch.learn(found.switched[SCORE], found.switched[THIRD_MIXTURE], found.w, found.late)
        if found.late:
            self._restarts.drop()
        else:
            self._restarts.learn(found.place / self._unit - LARGEST, found.y, found.w, found.restarted)
        if not found.recorded:
            self._bank.learn(found.features, found.y, found.w)
        else:
            self._bank.repeat(found.features, found.steps)
        self._by_score.learn(found.place / self._unit - LARGEST, found.second, found.y, found.w)
        self._by_forecast.learn(found.second, found.second, found.y, found.w)

    def rows(self):
        """Rows of each mixture."""
        return self._experts.rows

    @property
    def stack_recorded(self):
        """Length of a record of the stack."""
        return self._bank.recorded

    def record(self, found):
        """Note in an assessment just learned what the stack did, for `learn` of another mixture."""
        self._bank.record(found.steps)

    def assessment(self, numbers):
        """The assessment with this `Assessment.state`; `ValueError` if it is of another size."""
        found: Assessment = Assessment(self._experts.size, self._experts.rows)
        found.load(numbers)
        found.late = self._late
        return found

    def weights(self):
        """Weights in the forecast; they sum to 1: (experts, shape (K,), stack, by score, by forecast, score, lines)."""
        lines: cython.double = self._restarts.weight()
        score: cython.double = (1.0 - lines) * self._switch.weight()
        second, third = self._stacked.weights(), (1.0 - lines - score) * self._corrected.weights()
        experts = third[SECOND_MIXTURE] * second[FIRST_MIXTURE] * self._experts.weights()
        stack = third[SECOND_MIXTURE] * second[STACK]
        return experts, float(stack), float(third[BY_SCORE]), float(third[BY_FORECAST]), float(score), float(lines)

    def state(self):
        """Everything learned, as plain data, for `load`."""
        return [part.state() for part in self._parts()]

    def load(self, states):
        """Load an earlier `state`; `ValueError` if it is of another size."""
        if not self._late and self._experts.late_rows == 0 and len(states[0][1]) == 2 * self._experts.rows:
            self.double_rows()
        for part, state in zip(self._parts(), states, strict=True):
            part.load(*state)

    def _parts(self):
        """The parts, in the order of a state."""
        shares = (self._experts, self._stacked, self._corrected)
        return (*shares, self._stack, self._by_score, self._by_forecast, self._switch, self._restarts)


@cython.cfunc
@cython.exceptval(check=False)
def _odds(z: cython.const[cython.double][:, ::1], out: cython.double[:, ::1], side: cython.Py_ssize_t) -> cython.void:
    """Set a row of `out` to exp(−z)."""
    k: cython.Py_ssize_t
    for k in range(z.shape[1]):
        out[side, k] = exp(-z[side, k])


@cython.cfunc
@cython.exceptval(check=False)
def _gain(
    z: cython.const[cython.double][:, ::1],
    odds: cython.const[cython.double][:, ::1],
    share: cython.double,
    y: cython.double,
    out: cython.double[::1],
) -> cython.void:
    """Set `out` to the log-probabilities of y under the forecasts, linear between the two knots.

    log σ(z) = −log(1 + exp(−z)), and log σ(−z) = log σ(z) − z; z lies within ±16, where neither is further off than
    1e-15.
    """
    k: cython.Py_ssize_t
    negative: cython.double = 1.0 if y <= 0.0 else 0.0
    for k in range(out.shape[0]):
        out[k] = -(1.0 - share) * (log(1.0 + odds[0, k]) + negative * z[0, k])
        if share > 0.0:
            out[k] -= share * (log(1.0 + odds[1, k]) + negative * z[1, k])
