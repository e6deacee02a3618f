# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Three successive mixtures, each of the previous one and of corrections learned from its errors; their assessment.

A switch from the score to the third of them follows, and a mixture with lines that begin anew again and again. Where
labels are late, the forecast with these lines and that without them are mixed once more.

Symbols:

    ζ                        log-odds of the first mixture, z₁ … z_K being those of its K experts
    σ                        1 / (1 + exp(−z))
"""

import cython

if not cython.compiled:
    import math

    from streamcal.kernels.fixed_share import FixedShare, hindsight_weight, late_rate, require_said
    from streamcal.kernels.implicit_regression import Correction, ForgettingRegression, clamped
    from streamcal.kernels.restarts import Restarts, Switch, mean_of_two, set_gains

    exp = math.exp
else:
    from cython.cimports.libc.math import exp
    from cython.cimports.streamcal.kernels.fixed_share import FixedShare, hindsight_weight, late_rate, require_said
    from cython.cimports.streamcal.kernels.implicit_regression import Correction, ForgettingRegression, clamped
    from cython.cimports.streamcal.kernels.restarts import Restarts, Switch, mean_of_two, set_gains

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
# What is mixed last, where labels are late.
WITHOUT = cython.declare(cython.Py_ssize_t, 0)
WITH_LINES = cython.declare(cython.Py_ssize_t, 1)
RESTARTED = cython.declare(cython.Py_ssize_t, 5)
"""What `Restarts` mixes: a forecast, and lines."""


@cython.final
@cython.cclass
class Assessment:
    """The log-probabilities of a label under the forecasts for its score, made by `Mixture.assess` for `Mixture.learn`.

    Fields: the label `y` and its weight `w`; `place`, the score in knots; `second`, the log-odds of the second
    mixture; `features` of the stack, shape (K + 2,); for each mixture the log-probabilities of the label under its
    components, and under its rows, shape (rows,); those under the score and the third mixture, under what `Restarts`
    mixes, and, where labels are late, under the forecasts without and with lines. `late` is how many labels were
    learned since the forecast was issued. If that is not 0, the log-probabilities under the components of the mixtures
    and under what `Restarts` mixes are there as of now, too: `Mixture.look_back` sets those. `means` are those of
    labels in the forecast, or none, which no state has. If `recorded`, it was learned, and `steps` and `panel_steps`
    are what the stack and the regressions of the panel did then; a state does without.
    """

    def __init__(self, count: cython.Py_ssize_t, rows: cython.Py_ssize_t):
        arrays: cython.double[::1] = np.zeros(3 * count + 3 * rows + 16 + RESTARTED)
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
        start += rows
        self.switched = arrays[start : start + 2]
        start += 2
        self.with_lines = arrays[start : start + 2]
        start += 2
        self.experts_now = arrays[start : start + count]
        start += count
        self.stacked_now = arrays[start : start + 2]
        start += 2
        self.corrected_now = arrays[start : start + 3]
        self.restarted = arrays[start + 3 :]
        self.recorded = False
        self.late = 0.0
        self.means = arrays[:0]
        self.steps = self.panel_steps = arrays[:0]

    def state(self):
        """All fields, in the order of the class, as a list of floats, for `Mixture.assessment`."""
        return [float(self.y), float(self.w), float(self.place), float(self.second), *np.asarray(self._arrays).tolist()]

    def load(self, numbers):
        """Load an earlier `state`; `ValueError` if it is of another size."""
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

    The score until the switch, and then the third mixture, is mixed with the lines of `restarts`. Once a label was
    late, rows are tripled, and the forecast is the mixture by `lined` of those without and with lines, of which that
    with lines counts less the later labels are.

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
    lined : FixedShare
        Of two forecasts, with one row.
    knots_a_unit : float
        Knots in a unit of log-odds.
    late : int
        The label delay, if it is known beforehand: so many labels are learned between a forecast and its own.

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
        lined: FixedShare,
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
        self._lined = lined
        self._unit = knots_a_unit
        self._late = late
        if not experts.rows == stacked.rows == corrected.rows or (stacked.size, corrected.size) != (2, 3):
            raise ValueError("the mixtures are of two and of three forecasts upon the first, and of as many rows")
        if (lined.rows, lined.size) != (1, 2):
            raise ValueError("the last mixture is of two forecasts, with one row")
        if stack.size != experts.size + 2:
            raise ValueError(f"expected a stack on {experts.size + 2} features, not {stack.size}")
        self._first, self._second, self._third = (np.zeros((2, size)) for size in (experts.size, 2, 3))
        self._first_odds, self._second_odds, self._third_odds = (np.ones((2, size)) for size in (experts.size, 2, 3))
        self._either, self._either_odds = np.zeros((2, 2)), np.ones((2, 2))
        self._last, self._last_odds = np.zeros((2, 2)), np.ones((2, 2))
        self._forecast = np.zeros(2)
        self._features = np.zeros((2, experts.size + 2))
        self._knot = 0
        self._spare = Assessment(experts.size, experts.rows)
        self._of_row = np.zeros(1)
        if late > 0:
            self._triple_rows()
            self.set_late(late)

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
        self._last[side, WITH_LINES] = self._restarts.mean(side, self._either[side, SCORE], self._last[side, WITHOUT])
        self._forecast[side] = self._last[side, WITH_LINES]
        if self._experts.third > 0:
            _odds(self._last, self._last_odds, side)
            self._forecast[side] = mean_of_two(
                self._weight_of_lines(), self._last_odds[side, WITH_LINES], self._last_odds[side, WITHOUT]
            )

    def _weight_of_lines(self):
        """The weight of the forecast with lines beside that without, where labels are late."""
        weight: cython.double = self._lined.weight_of(WITH_LINES) * hindsight_weight(self._experts.late)
        return weight / (weight + self._lined.weight_of(WITHOUT))

    def _choose(self, side, third):
        """Set what the switch chooses between at a knot, where the third mixture says `third`, and what it says."""
        self._either[side, SCORE] = (self._knot + side) / self._unit - LARGEST
        self._either[side, THIRD_MIXTURE] = third
        _odds(self._either, self._either_odds, side)
        if self._switch.weight() > 0.0:
            third = self._switch.mean_of(self._either_odds[side, SCORE], self._either_odds[side, THIRD_MIXTURE])
        self._last[side, WITHOUT] = third

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
        if self._late == 0.0:
            self._restarts.assess(share, y, found.restarted)
        return found

    def look_back(self, z, knot, y, found):
        """Set in an assessment of a late label what the components say now, at the knot next to its score.

        `z`, shape (K,), are log-odds of the experts there. Returns those of the forecast.
        """
        self._knot = knot
        self._fill(0, z)
        set_gains(self._first, self._first_odds, 0.0, y, found.experts_now)
        set_gains(self._second, self._second_odds, 0.0, y, found.stacked_now)
        set_gains(self._third, self._third_odds, 0.0, y, found.corrected_now)
        self._restarts.assess(0.0, y, found.restarted)
        return self._forecast[0]

    def _judge(self, found, share, y, w, late):
        """Set everything in the assessment but what is said of rows, and what is said now."""
        k: cython.Py_ssize_t
        found.y = y
        found.w = w
        found.late, found.recorded = late, False
        found.means = found.features[:0]
        found.place = self._knot + share
        found.second = self._third[0, SECOND_MIXTURE] + share * (
            self._third[1, SECOND_MIXTURE] - self._third[0, SECOND_MIXTURE]
        )
        for k in range(self._features.shape[1]):
            found.features[k] = self._features[0, k] + share * (self._features[1, k] - self._features[0, k])
        set_gains(self._first, self._first_odds, share, y, found.experts)
        set_gains(self._second, self._second_odds, share, y, found.stacked)
        set_gains(self._third, self._third_odds, share, y, found.corrected)
        set_gains(self._either, self._either_odds, share, y, found.switched)
        if late > 0.0:
            set_gains(self._last, self._last_odds, share, y, found.with_lines)

    def issue(self, share):
        """What all parts say at the fraction `share` between the two knots, for `assess_issued`: a list of floats.

        The log-odds of the components of each mixture at both knots, the log-probabilities of the labels 0 and 1 under
        its rows, and, at both knots, the log-odds of the third mixture and of the forecasts without and with lines.
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
        for k in range(2):
            for side in range(2):
                said.append(float(self._last[side, k]))
        return said

    def assess_issued(self, said, knot, share, y, w, late, spent=None):
        """`assess`, of the forecasts of which `issue` returned what was said; `ValueError` if it cannot have.

        The score is at the fraction `share` between this knot and the next; `late` labels were learned since. `show` is
        to be called again afterwards. What was issued before the first late label, which triples the rows, was said by
        the rows of which they are copies.
        """
        k: cython.Py_ssize_t
        side: cython.Py_ssize_t
        count: cython.Py_ssize_t = self._experts.size
        rows: cython.Py_ssize_t = self._experts.rows
        place: cython.Py_ssize_t = 0
        issued: cython.Py_ssize_t = (said.shape[0] - 2 * (count + 8)) // 6  # rows
        known: cython.Py_ssize_t = 2 * (count + 5) + 6 * issued
        found: Assessment
        own: cython.Py_ssize_t = self._experts.third if self._experts.third > 0 else rows
        if issued not in (3 * own if self._late > 0.0 else own, 3 * own) or said.shape[0] != known + 6:
            raise ValueError(f"expected {2 * (count + 8) + 6 * own} numbers that were said, not {said.shape[0]}")
        require_said(said, 0, 2 * (count + 5), LARGEST, "the mixture")
        require_said(said, 2 * (count + 5), known, 0.0, "the mixture")
        require_said(said, known, known + 6, LARGEST, "the mixture")
        rows = 3 * own if rows > own or late > 0.0 else own
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
            self._choose(side, said[known + side])
            for k in range(2):
                self._last[side, k] = said[known + 2 + 2 * k + side]
            _odds(self._last, self._last_odds, side)
        self._judge(found, share, y, w, late)
        place += 3 * issued if y > 0.0 else 0
        for k in range(rows):
            found.expert_rows[k] = said[place + k % issued]
            found.stacked_rows[k] = said[place + issued + k % issued]
            found.corrected_rows[k] = said[place + 2 * issued + k % issued]
        return found

    def set_late(self, late):
        """Labels are so late now."""
        self._experts.set_late(late)
        self._stacked.set_late(late)
        self._corrected.set_late(late)

    def _triple_rows(self):
        """Have all mixtures triple their rows."""
        self._experts.triple_rows()
        self._stacked.triple_rows()
        self._corrected.triple_rows()
        self._spare = Assessment(self._experts.size, self._experts.rows)

    def learn(self, found, late):
        """Learn from an assessment, where labels are usually so late; `ValueError` if it is one of another size.

        If `found.recorded`, another mixture has learned from it in the same state: the stack repeats the recorded step.
        """
        first: cython.bint = found.late > 0.0 and self._experts.third == 0
        rows: cython.Py_ssize_t = 3 * self._experts.rows if first else self._experts.rows
        if found.experts.shape[0] != self._experts.size or found.expert_rows.shape[0] != rows:
            raise ValueError(f"the assessment is of {found.experts.shape[0]} experts")
        if first:
            self._triple_rows()
        if self._experts.third == 0:
            self._experts.learn(found.experts, found.expert_rows, found.w)
            self._stacked.learn(found.stacked, found.stacked_rows, found.w)
            self._corrected.learn(found.corrected, found.corrected_rows, found.w)
        else:
            self._experts.late = self._stacked.late = self._corrected.late = late
            self._learn_late(found)
        self._switch.learn(found.switched[SCORE], found.switched[THIRD_MIXTURE], found.w, found.late > 0.0)
        self._restarts.learn(found.place / self._unit - LARGEST, found.y, found.w, found.restarted)
        if not found.recorded:
            self._bank.learn(found.features, found.y, found.w)
        else:
            self._bank.repeat(found.features, found.steps)
        self._by_score.learn(found.place / self._unit - LARGEST, found.second, found.y, found.w)
        self._by_forecast.learn(found.second, found.second, found.y, found.w)

    def _learn_late(self, found):
        """One step of the tripled rows, and of the mixture with lines. What was said of a label on time is said now."""
        late: cython.double = found.late
        if late == 0.0:
            self._experts.learn_late(found.experts, found.expert_rows, found.experts, found.w, late)
            self._stacked.learn_late(found.stacked, found.stacked_rows, found.stacked, found.w, late)
            self._corrected.learn_late(found.corrected, found.corrected_rows, found.corrected, found.w, late)
        else:
            self._experts.learn_late(found.experts, found.expert_rows, found.experts_now, found.w, late)
            self._stacked.learn_late(found.stacked, found.stacked_rows, found.stacked_now, found.w, late)
            self._corrected.learn_late(found.corrected, found.corrected_rows, found.corrected_now, found.w, late)
            self._lined.learn(found.with_lines, self._of_row, found.w * late_rate(late))

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
        if self._experts.third > 0:
            lines *= self._weight_of_lines()
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
        if self._experts.third == 0 and len(states[0][1]) == 3 * self._experts.rows:
            self._triple_rows()
        for part, state in zip(self._parts(), states, strict=True):
            part.load(*state)

    def _parts(self):
        """The parts, in the order of a state."""
        shares = (self._experts, self._stacked, self._corrected)
        return (*shares, self._stack, self._by_score, self._by_forecast, self._switch, self._restarts, self._lined)


@cython.cfunc
@cython.exceptval(check=False)
def _odds(z: cython.const[cython.double][:, ::1], out: cython.double[:, ::1], side: cython.Py_ssize_t) -> cython.void:
    """Set a row of `out` to exp(−z)."""
    k: cython.Py_ssize_t
    for k in range(z.shape[1]):
        out[side, k] = exp(-z[side, k])
