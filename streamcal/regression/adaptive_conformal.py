"""`AdaptiveConformal`: intervals with a long-run coverage that no drift can break."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from operator import lt
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression
from scipy.special import ndtri
from sortedcontainers import SortedList

from streamcal.errors import InputError
from streamcal.parameters.numbers import one_of, real_number, whole_number
from streamcal.parameters.types import FloatArray, Time
from streamcal.regression.base import DistributionMap, SequentialDistributionCalibrator
from streamcal.regression.distributions import CalibratedDistribution, Distribution
from streamcal.regression.pit_calibrator import OVER_NORMAL, RecalibrationMap
from streamcal.regression.ramps import ScoreRamp
from streamcal.regression.reading import (
    OUTSIDE,
    counted,
    normal_scores,
    outermost,
    pit_interval,
    pit_intervals,
    quantiles_at_scores,
)
from streamcal.regression.recalibrated import Wrapped
from streamcal.states import HEAVIEST, Field, attribute, ensure, number, numbers, row, whole
from streamcal.statistics.pits import FURTHEST

#: C: the integral part is infinite where the mean error exceeds C·(π/2)/ln t, 0.11 at t = 1,000.
SATURATION = 0.5
#: The mean of |z| of a standard normal variable, and the step of its running mean.
MEAN_SIZE, SIZE_RATE = math.sqrt(2.0 / math.pi), 0.02
#: No level is higher: the upper end's, (1 + level)/2, would be 1 in double precision.
MOST_LEVEL = 1.0 - 2.0**-52
#: A larger relative weight counts as this: an end would otherwise stay far away for as many observations.
MOST_WEIGHT = 10.0
#: An outcome this far beyond an end, relative to the end and to its distance from the median, has predicted mass unless
#: the mass ends there.
JUST_AFTER, TINY = 1e-6, 1e-300
#: The weight of an infinite end in the means of ends that are out of order.
UNBOUNDED = 1e-18
#: No rate or slack is larger.
LARGEST = 1e300
ROOT_HALF = math.sqrt(0.5)
#: Where no end is tracked within the scores: the identity, by its middle.
MEDIAN = (np.array([0.0]), np.array([0.5]), np.array([0.5]))
#: The parts of its multiples spread evenly over [0, 1).
GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)
#: Beyond this angle its tangent is above 10⁶.
LARGEST_ANGLE = math.atan(FURTHEST)


class AdaptiveConformal(SequentialDistributionCalibrator):
    """Central intervals whose ends move after every outcome, so that the long-run coverage of each is its level.

    Each end is a quantile of the forecast, F⁻¹(Φ(q)), and is corrected on its own: the upper one for the level
    τ = (1 + level)/2, the lower one for (1 − level)/2. With the normal score z of an outcome:

    - ``"aci"`` (Gibbs and Candès 2021): q is the quantile of the last `window` scores at an adapted level τₜ, and
      τₜ₊₁ = τₜ + rate·(τ − 1[z ≤ q]). Where τₜ leaves (0, 1) the interval has no end on that side.
    - ``"pid"`` (Angelopoulos, Candès and Tibshirani 2023): with x = Σ (τ − 1[z ≤ q]) so far, q itself is tracked,
      q = q₁ + s·(rate·x + tan(x·ln(t + 1)/(t·C))). The proportional part is online gradient descent on the pinball
      loss; the integral part grows without bound if errors pile up. s ≥ 1 is the recent mean of |z|, relative to that
      of a standard normal variable, so that steps are of the size of the errors.
    - ``"tracking"`` (the same paper's quantile tracking): ``"pid"`` without the integral part. Its ends are finite,
      also after the first outcomes, of which the integral part makes much.

    Parameters
    ----------
    level : float or tuple of float
        Of the interval, above 0 and below 1, default 0.9; or of several, such as ``(0.5, 0.8, 0.95)``.
    method : {"pid", "aci", "tracking"}
        See above.
    rate : float
        > 0, default 0.05: of τ, or of q in normal scores. Higher follows drift faster, and varies more.
    window : int
        Of ``"aci"``, default 500: how many scores are kept.
    slack : float
        ≥ 0, default 0. An end stays where it is while the number of outcomes below it is off by at most this: x is
        replaced by sign(x)·max(|x| − slack, 0), for ``"aci"`` too. Forecasts that are right are then hardly changed.

    Notes
    -----
    The guarantee holds for every sequence of forecasts and outcomes, adversarial ones among them. After T outcomes of
    weight 1, the share below each end differs from its level by at most (1 + rate)/(rate·T) for ``"aci"``. For the
    others the bound is ((B + |q₁|)/rate + 1)/T, where all normal scores are within ±B, and slack/T more with a slack.
    The guarantee is one of averages over time, not of each interval; what it costs is that the interval may be infinite
    now and then (``"aci"``), or late (``"pid"``). It holds for the ends as tracked, each on its own. Where they are not
    in order, the predicted ones are their isotonic regression, for which there is no guarantee: of one level both are
    then the mean, and the interval is a point. Infinite ends do not count in a mean.

    An outcome that is an atom of its distribution, as counts are, is spread over its interval of levels, (F(y−), F(y)]:
    it is below an end by the part that is below. Forecasts that are right stay so: their CRPS rises by less than 5 % in
    tests. The guarantee counts parts of outcomes. Of the scores that ``"aci"`` keeps, those of atoms are spread evenly
    in the same way. An interval of counts contains more than its level, since it contains its ends.

    An outcome to which the forecast gave no mass, as one beyond a `Sample` that is too narrow, counts as one at a
    normal score of ±8.25. An end that is tracked beyond this score is infinite where the predicted mass ends before it.

    With `issue` and `settle`, an outcome that comes late is compared with the ends that were issued for it. The shares
    are then those of issued ends, and the bounds grow by d/T where d outcomes are awaited at most.

    The calibrated distribution has these intervals as its `interval(level)`, and elsewhere the shape of the forecast,
    as it has on a side where the interval has no end.

    A weight is relative to the running mean of all weights, and an observation of relative weight w is one step of w
    times the size, 10 times at most; the bounds are for equal weights. It neither merges nor unlearns. Cost: O(k) for k
    levels, O(k log window) for ``"aci"``.

    References
    ----------
    Gibbs and Candès, Adaptive conformal inference under distribution shift, NeurIPS 2021; Angelopoulos, Candès and
    Tibshirani, Conformal PID control for time series prediction, NeurIPS 2023 (proposition 2, without a scorecaster).

    Examples
    --------
    >>> from streamcal.regression import Normal
    >>> cal = AdaptiveConformal(0.8)
    >>> for k in range(300):
    ...     cal.learn_one(Normal(0.0, 0.1), (-1.0) ** k)
    >>> low, high = cal.predict_one(Normal(0.0, 0.1)).interval(0.8)
    >>> low < -0.9, high > 0.9
    (True, True)
    """

    name = "adaptive-conformal"
    summary = "intervals whose ends are corrected online: long-run coverage under any drift (ACI, PID)"
    bounded_memory = True

    def __init__(
        self,
        level: float | tuple[float, ...] = 0.9,
        method: Literal["pid", "aci", "tracking"] = "pid",
        rate: float = 0.05,
        window: int = 500,
        slack: float = 0.0,
    ) -> None:
        self.method = one_of(method, "method", TRACKED)
        levels = _levels(level)
        self.level = levels if isinstance(level, (tuple, list)) else levels[0]
        self.rate = rate = real_number(rate, "rate", "a finite number above 0", above=0.0, most=LARGEST)
        self.window = whole_number(window, "window", 1)
        outcomes = "a finite number of outcomes, 0 or more"
        self.slack = slack = real_number(slack, "slack", outcomes, least=0.0, most=LARGEST)
        self._scores = Scores(self.window if method == "aci" else 0)
        make = TRACKED[method]
        # of all ends the levels ascend: the widest interval first, and last
        self._lower = [make(0.5 - 0.5 * one, rate, slack) for one in reversed(levels)]
        self._upper = [make(0.5 + 0.5 * one, rate, slack) for one in levels]
        #: The mean of |z|, with weights that decay.
        self._size = MEAN_SIZE
        super().__init__()
        levels_of_ends = np.array([end.level for end in (*self._lower, *self._upper)])
        self._end_levels = levels_of_ends, 1.0 - levels_of_ends

    # -- learning ------------------------------------------------------------------------------------------------

    def _read(self, distribution: Distribution, y: float) -> tuple[tuple[float, float], float, bool]:
        low, high = pit_interval(distribution, y)
        outside = low == high and abs(high) == FURTHEST
        return (counted(low, distribution), counted(high, distribution)), 0.0, outside

    def _read_many(
        self, distributions: Sequence[Distribution], y: FloatArray
    ) -> tuple[FloatArray, FloatArray, NDArray[Any]]:
        low, high = pit_intervals(distributions, y)
        ends = [[counted(z, one) for one, z in zip(distributions, side.tolist(), strict=True)] for side in (low, high)]
        return np.array(ends).T, np.zeros(len(y)), (low == high) & (np.abs(high) == FURTHEST)

    def _step(self, x: tuple[float, float], y: float, w: float) -> None:
        """Learn the normal scores of F(y−) and F(y)."""
        self._track(x, w, self._ends())

    def _ends(self) -> list[float]:
        """Return the normal scores of the lower ends and of the upper ends, as tracked."""
        return [end.score(self._scores, self._size) for end in (*self._lower, *self._upper)]

    def _track(self, x: tuple[float, float], w: float, ends: Sequence[float]) -> None:
        """Learn whether an outcome of these normal scores was below each of the ends."""
        low, high = x
        relative, levels, of_atom = self._weight_scale.relative(w), len(self._lower), low < high
        for end, score in zip(self._lower, ends[:levels], strict=True):
            end.step(part_below(low, high, score) if of_atom else high < score, relative)
        for end, score in zip(self._upper, ends[levels:], strict=True):
            end.step(part_below(low, high, score) if of_atom else high <= score, relative)
        if of_atom:
            high = score_within(low, high, self._lower[0].steps * GOLDEN % 1.0)
        self._scores.add(high)
        self._size += SIZE_RATE * (abs(high) - self._size)
        self._stepped(w)

    def _issue_keyed(self, x: Distribution, keys: Any, t: Time | None, w: float) -> tuple[Any, list[float]]:
        return self.predict_one(x, t), self._ends()

    def _learn_keyed(
        self, x: Distribution, keys: Any, y: float, record: Sequence[float] | None, w: float, t: Time | None
    ) -> None:
        ends = [] if record is None else list(record)
        if len(ends) != len(self._lower) + len(self._upper) or any(map(math.isnan, ends)):
            raise InputError(f"{ends} are not the ends of {len(self._lower)} intervals that were issued")
        scores, _, weight, _, outside = self._checked(x, y, w, t)
        if weight > 0.0:
            self._track(scores, weight, ends)
            self._note(int(outside))

    def map(self) -> DistributionMap:
        """Return the current map, whose ends are in order; it is immutable."""
        if self._map is not None:
            return self._map
        ends = self._ends()
        if not -FURTHEST <= min(ends) <= max(ends) <= FURTHEST:
            ends = [min(max(end, -FURTHEST), FURTHEST) for end in ends]
        scores = np.array(ends)
        if any(map(lt, ends[1:], ends)):
            # Ends without a bound take that of the others they are pooled with: a mean of both would be far from all.
            scores = isotonic_regression(scores, weights=np.where(np.abs(scores) < FURTHEST, 1.0, UNBOUNDED)).x
        levels = len(self._lower)
        tracked = zip(scores[levels - 1 :: -1].tolist(), scores[levels:].tolist(), strict=True)
        by_level = dict(zip(_levels(self.level), tracked, strict=True))
        self._map = TrackedMap(self._ramp(scores), by_level, self.method == "aci")
        return self._map

    def _ramp(self, scores: FloatArray) -> ScoreRamp:
        """Return the map of levels through the ends. One that is tracked beyond all scores has no place in it."""
        below, above = self._end_levels
        inside = np.abs(scores) < FURTHEST
        if inside.all():
            return ScoreRamp(scores, below, above, True)
        if not inside.any():
            return ScoreRamp(*MEDIAN, True)
        return ScoreRamp(scores[inside], below[inside], above[inside], True)

    def _fields(self) -> dict[str, Field]:
        scores = numbers(None, least=-FURTHEST, most=FURTHEST)
        return {
            **super()._fields(),
            "lower": self._side(self._lower),
            "upper": self._side(self._upper),
            "scores": Field(scores, self._scores.state, self._load_scores),
            "size": attribute(self, "_size", number(0.0, FURTHEST)),
        }

    def _side(self, ends: Any) -> Field:
        """Return the field of the lower or the upper ends."""

        def load(read: tuple[float, ...]) -> None:
            *excesses, steps = read
            for end, excess in zip(ends, excesses, strict=True):
                end.excess, end.steps = excess, steps

        read = row(*[number(-HEAVIEST, HEAVIEST)] * len(ends), whole())
        return Field(read, lambda: [*(end.excess for end in ends), ends[0].steps], load)

    def _load_scores(self, scores: FloatArray) -> None:
        ensure(len(scores) <= (self.window if self.method == "aci" else 0), "there are more scores than are kept")
        self._scores.load(scores.tolist())


class TrackedMap(RecalibrationMap):
    """A map whose intervals end at the tracked scores, which belong to them.

    Parameters
    ----------
    ramp : ScoreRamp
        R.
    ends : dict
        level → the normal scores of the lower and the upper end.
    of_outcomes : bool
        Whether the ends are scores of outcomes.
    """

    def __init__(self, ramp: ScoreRamp, ends: dict[float, tuple[float, float]], of_outcomes: bool) -> None:
        super().__init__(ramp)
        self.ends = ends
        #: Whether the quantiles of continuous distributions are the intervals.
        self.plain = not of_outcomes and all(-OUTSIDE < low <= high < OUTSIDE for low, high in ends.values())

    def predict_one(self, distribution: Distribution) -> CalibratedDistribution:
        distributed = super().predict_one(distribution)
        return (
            distributed
            if self.plain and type(distribution) in OVER_NORMAL
            else TrackedDistribution(distributed, distribution, self)
        )


class TrackedDistribution(Wrapped):
    """A distribution with the intervals of a `TrackedMap`."""

    learned: TrackedMap

    def interval(self, level: float) -> tuple[float, float]:
        ends = super().interval(level)  # which checks the level
        tracked = self.learned.ends.get(level)
        return ends if tracked is None else (self._end(tracked[0], -1.0), self._end(tracked[1], 1.0))

    def _end(self, score: float, sign: float) -> float:
        """Return the end that a tracked score is; infinite if it contains outcomes without predicted mass."""
        if sign * score >= FURTHEST:
            return sign * math.inf
        end = float(quantiles_at_scores(self.base, np.array(score)))
        if sign * score >= OUTSIDE:
            after = end + sign * JUST_AFTER * max(abs(end), abs(end - self.ppf(0.5)), TINY)
            if math.isinf(float(normal_scores(self.base, np.array(after)))):
                return sign * math.inf
        return outermost(self.base, score, end, sign)


class Scores:
    """The last scores, in order of their age and of their size; O(log size)."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._by_age: deque[float] = deque()
        self._sorted: SortedList[float] = SortedList()

    def add(self, score: float) -> None:
        """Add a score, and drop the oldest where there are too many."""
        if not self._size:
            return
        self._by_age.append(score)
        self._sorted.add(score)
        if len(self._by_age) > self._size:
            self._sorted.remove(self._by_age.popleft())

    def quantile(self, level: float) -> float:
        """Return the smallest score held with at least this share at or below it; ∓∞ for levels ≤ 0 or ≥ 1."""
        if not 0.0 < level < 1.0:
            return -math.inf if level <= 0.0 else math.inf
        if not self._sorted:
            return float(ndtri(level))
        return float(self._sorted[max(math.ceil(level * len(self._sorted)), 1) - 1])

    def state(self) -> list[float]:
        """Return the scores, the oldest first."""
        return list(self._by_age)

    def load(self, scores: list[float]) -> None:
        """Replace the scores."""
        self._by_age = deque(scores)
        self._sorted = SortedList(scores)


class Tracked(ABC):
    """One end: a normal score below which a share `level` of outcomes is to be."""

    def __init__(self, level: float, rate: float, slack: float) -> None:
        self.level = level
        self.rate = rate
        self.slack = slack
        #: The normal score of the level.
        self.start = float(ndtri(level))
        #: Σ w·(level − 1[below]).
        self.excess = 0.0
        self.steps = 0

    @abstractmethod
    def score(self, scores: Scores, size: float) -> float:
        """Return the normal score of the end."""

    def step(self, below: float, w: float) -> None:
        """Learn whether an outcome was below the end, or which part of it was."""
        self.excess += min(w, MOST_WEIGHT) * (self.level - below)
        self.steps += 1


class TrackedLevel(Tracked):
    """ACI: the quantile of past scores at level + rate·excess."""

    def score(self, scores: Scores, size: float) -> float:
        beyond = math.copysign(max(abs(self.excess) - self.slack, 0.0), self.excess)  # without its first outcomes
        return scores.quantile(self.level + self.rate * beyond)


class TrackedScore(Tracked):
    """Quantile tracking: the quantile of a standard normal variable, plus rate·excess in units of errors."""

    def score(self, scores: Scores, size: float) -> float:
        beyond = abs(self.excess) - self.slack
        if beyond <= 0.0:
            return self.start
        unit = size / MEAN_SIZE if size > MEAN_SIZE else 1.0
        return self.start + unit * self.correction(beyond if self.excess > 0.0 else -beyond)

    def correction(self, excess: float) -> float:
        """Return the correction of the quantile, in units of errors."""
        return self.rate * excess


class IntegratedScore(TrackedScore):
    """PID: quantile tracking, and the integral part."""

    def correction(self, excess: float) -> float:
        angle = excess * math.log(self.steps + 1.0) / (max(self.steps, 1) * SATURATION)
        integral = math.tan(angle) if abs(angle) < LARGEST_ANGLE else math.copysign(FURTHEST, angle)
        return self.rate * excess + integral


def part_below(low: float, high: float, score: float) -> float:
    """Return the part of an atom with these normal scores of F(y−) < F(y) that is below a score, from 0 to 1.

    >>> round(part_below(-1.0, 1.0, 0.0), 9), part_below(-1.0, 1.0, -2.0)
    (0.5, 0.0)
    """
    if score <= low or score >= high:
        return 0.0 if score <= low else 1.0
    if low > 0.0:  # in the upper tail, levels have no digits left
        return 1.0 - part_below(-high, -low, -score)
    begin, end, at = (0.5 * math.erfc(-z * ROOT_HALF) for z in (low, high, score))
    return (at - begin) / (end - begin) if begin < end else 0.5


def score_within(low: float, high: float, part: float) -> float:
    """Return the normal score at this part of the levels of an atom."""
    if low > 0.0:
        return -score_within(-high, -low, 1.0 - part)
    begin, end = (0.5 * math.erfc(-z * ROOT_HALF) for z in (low, high))
    return min(max(float(ndtri(begin + part * (end - begin))), low), high)


#: method → its ends.
TRACKED: dict[str, type[Tracked]] = {"pid": IntegratedScore, "aci": TrackedLevel, "tracking": TrackedScore}


def _levels(level: Any) -> tuple[float, ...]:
    """Return the levels, ascending; `InputError` for anything but levels."""
    allowed = "a number above 0 and below 1, such as 0.9"
    values = tuple(level) if isinstance(level, (tuple, list)) else (level,)
    levels = {real_number(value, "level", allowed, above=0.0, most=MOST_LEVEL) for value in values}
    if not values or len(levels) < len(values):
        raise InputError(f"level={level!r} is not possible; give one level or several different ones")
    return tuple(sorted(levels))
