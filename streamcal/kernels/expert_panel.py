# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The experts of a mixture over equidistant knots in log-odds: regressions, smoothers and given forecasts.

Symbols:

    s, x                     the score, and its log-odds
    φ                        features of the score and of recent labels, at the indices in `FEATURES`
    K = (1 − u²)²            the weight of an observation at a knot, u being their distance in units of the half width
"""

import cython

if not cython.compiled:
    import math

    from streamcal.kernels.implicit_regression import RegressionBank, clamped, fill_line
    from streamcal.kernels.logistic import logit, sigmoid

    exp, expm1, log, log1p = math.exp, math.expm1, math.log, math.log1p
else:
    from cython.cimports.libc.math import exp, expm1, log, log1p
    from cython.cimports.streamcal.kernels.implicit_regression import RegressionBank, clamped, fill_line
    from cython.cimports.streamcal.kernels.logistic import logit, sigmoid

import numpy as np

from streamcal.kernels.implicit_regression import LINE_FEATURES

LARGEST = cython.declare(cython.double, 16.0)
"""The knots lie between log-odds ± this; a score at either end is clamped."""
PRIOR_EVENTS = cython.declare(cython.double, 0.25)
"""The worth of the prior at the score in `_score_prior`, in events."""
FULL = cython.declare(cython.double, 1e100)
"""The unit of a smoother, which grows, is rescaled to 1 when it exceeds this."""
FIRST = cython.declare(cython.int, 10)
"""Number of scores whose mean determines `_hold`."""
NEAR = cython.declare(cython.double, 3.0)
"""Mean log-odds within ± this count as 0 (probabilities from .05 to .95): the prior is then left as it is."""

# The indices of the features of a score in φ, after those of a line. Decaying means of labels follow them.
SQUARE = cython.declare(cython.Py_ssize_t, 4)
CUBE = cython.declare(cython.Py_ssize_t, 5)
LINEAR = cython.declare(cython.Py_ssize_t, 6)
LOG = cython.declare(cython.Py_ssize_t, 7)
LOG_REST = cython.declare(cython.Py_ssize_t, 8)

#: Name of a feature of a score → its index in φ.
FEATURES = {
    **LINE_FEATURES,
    "(x/4)²": SQUARE,  # 0 where the score is clamped
    "(x/4)³": CUBE,
    "2s − 1": LINEAR,
    "ln s": LOG,
    "−ln(1 − s)": LOG_REST,
}


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _log_odds(positive: cython.double, negative: cython.double) -> cython.double:
    """log(positive/negative), clamped; both are at least 0."""
    if positive <= 0.0:
        return -LARGEST
    if negative <= 0.0:
        return LARGEST
    return clamped(log(positive / negative), LARGEST)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _score_prior(lower: cython.double, upper: cython.double, p: cython.double) -> cython.double:
    """The log-odds of `streamcal.maps.points.score_prior` of an interval, at the probability p."""
    middle: cython.double = min(max(p, lower), upper)
    rarer: cython.double = min(middle, 1.0 - middle)
    width: cython.double = PRIOR_EVENTS * (upper - lower)
    return _log_odds(lower * rarer + width * middle, (1.0 - upper) * rarer + width * (1.0 - middle))


@cython.final
@cython.cclass
class Panel:
    """Experts that learn online and forecast at knots; each writes its forecast to its index in an array.

    The features of the regressions are those of the score (`FEATURES`), followed by a mean of the labels ±1 for each of
    `label_rates`, with exponential decay at that rate. If labels arrive `delay` observations late, the means in a step
    contain only labels that were known when the score was predicted. Let m be the mean of the scores so far, of the
    first ten at most: if it is beyond ±3, the prior A₀ is centred on m − 9/m, otherwise on log-odds 0.

    A smoother at a knot forecasts (a·p + Σ Kᵢyᵢ) / (a + Σ Kᵢ), p being the forecast of the regression at index
    `anchor`, a = `anchored`, and K decaying with its memory.

    Parameters
    ----------
    regressions : dict of int to ForgettingRegression
        By index in the forecasts, like the next two.
    smoothers : dict of int to (float, float)
        (Half width in log-odds, memory in observations).
    curves : sequence of int
        Indices of forecasts that are curves over all knots, see `draw`; they are initialised as the score.
    interval, protected, score : int
        Indices of the score-prior point of an interval, of a probability (both are arguments of `forecast`), and of the
        score itself.
    anchor : int
        Index of a regression; see above.
    anchored : float
        The weight of the anchor, in observations at the knot.
    label_rates : sequence of float
    knots_a_unit : float
        Knots in a unit of log-odds.
    delay : int
        Label delay: number of labels learned between a prediction and its own. Regressions that move at a steady pace
        forecast so many steps `ahead`, a field that may be set where labels come late to a delay of 0.
    whole : int or None
        Index of a curve that has the forecast of the regression at index `until_drawn` until the field `drawn` is set.

    Notes
    -----
    Cost of a step: O(d³/6) for each regression of d coordinates, O(width · knots_a_unit) for each smoother. Fields and
    C signatures are in `expert_panel.pxd`.
    """

    def __init__(
        self,
        *,
        regressions,
        smoothers,
        curves,
        interval,
        protected,
        score,
        anchor,
        anchored,
        label_rates,
        knots_a_unit,
        delay,
        whole=None,
        until_drawn=0,
    ):
        self.regressions = list(regressions.values())
        self._bank = RegressionBank(self.regressions)
        self._regression_places = np.array(list(regressions), dtype=np.intp)
        self._smoother_places = np.array(list(smoothers), dtype=np.intp)
        self._curve_places = np.array(curves, dtype=np.intp)
        self.drawn = whole is None
        self._whole, self._until_drawn = 0 if whole is None else whole, until_drawn
        self._interval = interval
        self._protected = protected
        self._score = score
        self._anchor = anchor
        self._places = len(regressions) + len(smoothers) + len(curves) + 3
        if sorted([*regressions, *smoothers, *curves, interval, protected, score]) != list(range(self._places)):
            raise ValueError(f"the experts are not at the places 0 to {self._places - 1}")
        if not 0 <= anchor < self._places:
            raise ValueError(f"the anchor {anchor} is no expert")
        if not self.drawn and (whole not in curves or until_drawn not in regressions):
            raise ValueError(f"{whole} is no curve, or {until_drawn} no regression")
        self._anchored = anchored
        self._rates = np.array(label_rates, dtype=np.float64)
        self._log_kept = np.log1p(-np.array(label_rates, dtype=np.float64))
        self._moved = np.zeros(len(label_rates))
        self._phi = np.zeros(len(FEATURES) + len(label_rates))
        self._widths = np.array([width for width, _ in smoothers.values()], dtype=np.float64)
        self._fades = np.array([memory / (memory - 1.0) for _, memory in smoothers.values()], dtype=np.float64)
        self._step = 1.0 / knots_a_unit
        self._delay = delay
        self.ahead = delay
        size = round(2.0 * LARGEST * knots_a_unit) + 1
        self._means = np.zeros(len(label_rates))
        self._then = np.zeros(len(label_rates))
        self._waiting = np.zeros((delay, 2))
        self._learned = 0
        self._first = 0
        self._off_centre = False
        self._sum = 0.0
        self._units = np.ones(len(smoothers))
        self._sums = np.zeros((len(smoothers), 2, size))
        self._curves = np.tile(np.linspace(-LARGEST, LARGEST, size), (len(curves), 1))
        self._at_knots, self._scores = np.zeros((size, len(FEATURES))), np.zeros(size)
        for knot in range(size):
            self._scores[knot] = sigmoid(knot * self._step - LARGEST)
            self._fill(knot * self._step - LARGEST, self._means)
            np.asarray(self._at_knots)[knot] = np.asarray(self._phi)[: len(FEATURES)]

    def draw(self, place, z):
        """Set the curve at this index of the forecasts: log-odds at all knots."""
        curve = np.asarray(self._curve_places).tolist().index(place)
        np.clip(z, -LARGEST, LARGEST, out=np.asarray(self._curves)[curve])

    def draw_beside_the_score(self, place, p: cython.const[cython.double][::1], n: cython.double):
        """Set the curve to the mean of n observations of p, at all knots, and one of the score: a fit to few may be 0.

        p is taken as within [0, 1]; `ValueError` if it is of another shape than the knots.
        """
        knot: cython.Py_ssize_t
        curve: cython.Py_ssize_t = np.asarray(self._curve_places).tolist().index(place)
        if p.shape[0] != self._curves.shape[1]:
            raise ValueError(f"expected {self._curves.shape[1]} probabilities, not {p.shape[0]}")
        for knot in range(p.shape[0]):
            self._curves[curve, knot] = clamped(
                logit((n * min(max(p[knot], 0.0), 1.0) + self._scores[knot]) / (n + 1.0)), LARGEST
            )

    def _fill(self, x, means):
        """Set φ to the features at the log-odds x, with these means of labels."""
        k: cython.Py_ssize_t
        u: cython.double = 0.25 * x if -LARGEST < x < LARGEST else 0.0
        rest: cython.double = log1p(exp(-abs(x)))
        fill_line(self._phi, x)
        self._phi[SQUARE] = u * u
        self._phi[CUBE] = u * u * u
        self._phi[LINEAR] = 2.0 * sigmoid(x) - 1.0
        self._phi[LOG] = min(x, 0.0) - rest
        self._phi[LOG_REST] = max(x, 0.0) + rest
        for k in range(self._rates.shape[0]):
            self._phi[LOG_REST + 1 + k] = means[k]

    def forecast(self, knot, lower, upper, protected, out):
        """Write the log-odds of every expert at a knot to its index in `out`.

        `lower` and `upper` are the ends of the given interval, `protected` the given probability.
        """
        if out.shape[0] != self._places or not 0 <= knot < self._sums.shape[2]:
            raise ValueError(f"{out.shape[0]} forecasts, not {self._places}, or no knot {knot}")
        self._forecast(knot, lower, upper, protected, out)

    def _forecast(self, knot, lower, upper, protected, out):
        k: cython.Py_ssize_t
        anchor: cython.double
        negative: cython.double
        positive: cython.double
        score: cython.double = knot * self._step - LARGEST
        for k in range(self._at_knots.shape[1]):
            self._phi[k] = self._at_knots[knot, k]
        for k in range(self._rates.shape[0]):
            self._phi[LOG_REST + 1 + k] = self._means[k]
        self._bank.predict(self._phi, self.ahead + 1.0, self._regression_places, out)
        anchor = out[self._anchor]
        negative = self._anchored * sigmoid(-anchor)
        positive = self._anchored * sigmoid(anchor)
        for k in range(self._smoother_places.shape[0]):
            out[self._smoother_places[k]] = _log_odds(
                positive + self._sums[k, 1, knot] / self._units[k], negative + self._sums[k, 0, knot] / self._units[k]
            )
        for k in range(self._curve_places.shape[0]):
            out[self._curve_places[k]] = self._curves[k, knot]
        if not self.drawn:
            out[self._whole] = out[self._until_drawn]
        out[self._interval] = _score_prior(lower, upper, sigmoid(score))
        out[self._protected] = _log_odds(protected, 1.0 - protected)
        out[self._score] = score

    def means(self):
        """The means of the labels known by now, as a list of floats: those in a forecast."""
        return np.asarray(self._means).tolist()

    def learn(self, x, y, w, means=None):
        """Update all experts with the label y at the log-odds x, with weight w.

        `means` are those in the forecast, if it was issued earlier and there is no delay.
        """
        self._see(x)
        if means is None or means.shape[0] != self._means.shape[0] or self._delay > 0:
            self._fill(x, self._then if self._delay > 0 else self._means)
        else:
            self._fill(x, means)
        self._bank.learn(self._phi, y, w)
        self._learn_others(x, y, w)

    @property
    def recorded(self):
        """Length of a record of the regressions."""
        return self._bank.recorded

    def record(self, out):
        """Write to `out` what the regressions did in the step just made."""
        self._bank.record(out)

    def repeat(self, x, y, w, recorded):
        """`learn`, from the state and with the arguments from which another panel has, as it was recorded."""
        self._see(x)
        self._fill(x, self._then if self._delay > 0 else self._means)
        self._bank.repeat(self._phi, recorded)
        self._learn_others(x, y, w)

    def _learn_others(self, x, y, w):
        place: cython.Py_ssize_t
        self._smooth(x, y, w)
        self._follow(self._means, y, w)
        if self._delay > 0:
            place = self._learned % self._delay
            if self._learned >= self._delay:
                self._follow(self._then, self._waiting[place, 0], self._waiting[place, 1])
            self._waiting[place, 0] = y
            self._waiting[place, 1] = w
        self._learned += 1

    def _see(self, x):
        """Centre the prior on the mean of the first scores, before anything is learned of the label at x."""
        if self._first < FIRST and -LARGEST < x < LARGEST:
            self._first += 1
            self._sum += x
            self._hold()

    def _hold(self):
        """Centre the prior of the regressions on the mean score, if that is far from 0, and otherwise on 0."""
        middle = self._sum / self._first
        far = abs(middle) > NEAR
        if far:
            self._fill(middle - NEAR * NEAR / middle, np.zeros(len(self._rates)))
        elif self._off_centre:  # an offset by itself is the prior at first
            np.asarray(self._phi)[:] = 0.0
            self._phi[FEATURES["1"]] = 1.0
        if far or self._off_centre:
            for regression in self.regressions:
                regression.hold(self._phi, FEATURES["1"])
        self._off_centre = far

    def _follow(self, means, y, w):
        """Update the means of labels; weight w is equivalent to w steps."""
        k: cython.Py_ssize_t
        for k in range(self._rates.shape[0]):
            self._moved[k] = -self._rates[k] if w == 1.0 else expm1(w * self._log_kept[k])
        for k in range(self._rates.shape[0]):
            means[k] -= self._moved[k] * (2.0 * y - 1.0 - means[k])

    def _smooth(self, x, y, w):
        """Decay the sums of the smoothers, by increasing their unit, and add the observation."""
        b: cython.Py_ssize_t
        j: cython.Py_ssize_t
        k: cython.Py_ssize_t
        first: cython.Py_ssize_t
        last: cython.Py_ssize_t
        size: cython.Py_ssize_t = self._sums.shape[2]
        side: cython.Py_ssize_t = 1 if y > 0.0 else 0
        u: cython.double
        for b in range(self._widths.shape[0]):
            self._units[b] *= self._fades[b]
            if self._units[b] > FULL:
                for j in range(2):
                    for k in range(size):
                        self._sums[b, j, k] /= self._units[b]
                self._units[b] = 1.0
            first = max(0, cython.cast(cython.Py_ssize_t, (x + LARGEST - self._widths[b]) / self._step))
            last = min(size - 1, cython.cast(cython.Py_ssize_t, (x + LARGEST + self._widths[b]) / self._step) + 1)
            for k in range(first, last + 1):
                u = (k * self._step - LARGEST - x) / self._widths[b]
                if -1.0 < u < 1.0:
                    self._sums[b, side, k] += w * self._units[b] * (1.0 - u * u) * (1.0 - u * u)

    def state(self):
        """Everything learned, as plain data, for `load`."""
        return {
            "trackers": [regression.state() for regression in self.regressions],  # the name in states of version 1
            "means": np.asarray(self._means).tolist(),
            "then": np.asarray(self._then).tolist(),
            "waiting": np.asarray(self._waiting).tolist(),
            "learned": self._learned,
            "first": [self._first, self._sum],
            **({} if self.ahead == self._delay else {"ahead": self.ahead}),
            "units": np.asarray(self._units).tolist(),
            "sums": np.asarray(self._sums).tolist(),
            "curves": np.asarray(self._curves).tolist(),
        }

    def load(self, state):
        """Load an earlier `state` into a new panel; `ValueError` if it is of another size."""
        own = {
            "means": self._means,
            "then": self._then,
            "units": self._units,
            "sums": self._sums,
            "curves": self._curves,
        }
        arrays = [np.array(state[name], dtype=np.float64) for name in own]
        same = [np.shape(array) for array in arrays] == [np.shape(array) for array in own.values()]
        if not same or len(state["waiting"]) != self._delay or len(state["trackers"]) != len(self.regressions):
            raise ValueError("the state is that of a panel of another size")
        if state["learned"] < 0:
            raise ValueError(f"{state['learned']} observations are no number of them")
        self._first, self._sum = state["first"]
        if self._first > 0:
            self._hold()
        for regression, saved in zip(self.regressions, state["trackers"], strict=True):
            regression.load(*saved)
        self._means, self._then, self._units, self._sums, self._curves = arrays
        self._waiting = np.array(state["waiting"], dtype=np.float64).reshape(self._delay, 2)
        self._learned = state["learned"]
        self.ahead = self._delay if state.get("ahead") is None else state["ahead"]
