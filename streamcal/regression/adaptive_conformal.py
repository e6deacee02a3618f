"""`AdaptiveConformal`: intervals with a long-run coverage that no drift can break."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri
from sortedcontainers import SortedList

from streamcal.errors import InputError
from streamcal.learners.sequential import SequentialLearner
from streamcal.parameters.types import FloatArray, Time
from streamcal.regression.base import DistributionCalibrator, DistributionMap
from streamcal.regression.distributions import CalibratedDistribution, Distribution
from streamcal.regression.pit_calibrator import RecalibrationMap
from streamcal.regression.ramps import ScoreRamp
from streamcal.regression.reading import check_distributions, pit_interval, pit_intervals
from streamcal.states import HEAVIEST, Reader, ensure, number, numbers, row, unread, whole
from streamcal.statistics.pits import FURTHEST
from streamcal.statistics.totals import Totals

#: C: the integral part is infinite where the mean error exceeds C·(π/2)/ln t, 0.11 at t = 1,000.
SATURATION = 0.5
#: The mean of |z| of a standard normal variable, and the step of its running mean.
MEAN_SIZE, SIZE_RATE = math.sqrt(2.0 / math.pi), 0.02
#: Beyond this angle its tangent is above 10⁶.
LARGEST_ANGLE = math.atan(FURTHEST)


class AdaptiveConformal(SequentialLearner, DistributionCalibrator):
    """The central interval of a level, whose ends move after every outcome so that its long-run coverage is the level.

    Each end is a quantile of the forecast, F⁻¹(Φ(q)), and is corrected on its own: the upper one for the level
    τ = (1 + level)/2, the lower one for (1 − level)/2. With the normal score z of an outcome:

    - ``"aci"`` (Gibbs and Candès 2021): q is the quantile of the last `window` scores at an adapted level τₜ, and
      τₜ₊₁ = τₜ + rate·(τ − 1[z ≤ q]). Where τₜ leaves (0, 1) the interval has no end on that side.
    - ``"pid"`` (Angelopoulos, Candès and Tibshirani 2023): with x = Σ (τ − 1[z ≤ q]) so far, q itself is tracked,
      q = q₁ + s·(rate·x + tan(x·ln(t + 1)/(t·C))). The proportional part is online gradient descent on the pinball
      loss; the integral part grows without bound if errors pile up. s ≥ 1 is the recent mean of |z|, relative to that
      of a standard normal variable, so that steps are of the size of the errors.

    Parameters
    ----------
    level : float
        Of the interval, above 0 and below 1, default 0.9.
    method : {"pid", "aci"}
        See above.
    rate : float
        > 0, default 0.05: of τ, or of q in normal scores. Higher follows drift faster, and varies more.
    window : int
        Of ``"aci"``, default 500: how many scores are kept.

    Notes
    -----
    The guarantee holds for every sequence of forecasts and outcomes, adversarial ones among them: after T outcomes of
    weight 1, the share below each end differs from its level by at most (1 + rate)/(rate·T) for ``"aci"``, and by
    ((B + |q₁|)/rate + 1)/T for ``"pid"``, where all normal scores are within ±B. It is one of averages over time, not
    of each interval; what it costs is that the interval may be infinite now and then (``"aci"``), or late (``"pid"``).
    Should the ends cross, the interval is a point.

    The calibrated distribution has this interval as its `interval(level)`, and elsewhere the shape of the forecast.

    An observation of weight w is one step of w times the size; the bounds are of weight 1. It neither merges nor
    unlearns. Cost: O(1) for ``"pid"``, O(log window) for ``"aci"``.

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
    summary = "an interval whose ends are corrected online: long-run coverage under any drift (ACI, PID)"

    def __init__(
        self, level: float = 0.9, method: Literal["pid", "aci"] = "pid", rate: float = 0.05, window: int = 500
    ) -> None:
        if isinstance(level, bool) or not isinstance(level, (int, float)) or not 0.0 < level < 1.0:
            raise InputError(f"level={level!r} is not possible; give a number above 0 and below 1, such as 0.9")
        if method not in ("pid", "aci"):
            raise InputError(f"method={method!r} is not possible; give 'pid' or 'aci'")
        if isinstance(rate, bool) or not isinstance(rate, (int, float)) or not 0.0 < rate < math.inf:
            raise InputError(f"rate={rate!r} is not possible; give a finite number above 0")
        if isinstance(window, bool) or not isinstance(window, int) or window < 1:
            raise InputError(f"window={window!r} is not possible; give a whole number of at least 1")
        self.level = level
        self.method = method
        self.rate = rate
        self.window = window
        self._scores = Scores(window if method == "aci" else 0)
        make = TrackedLevel if method == "aci" else TrackedScore
        self._lower, self._upper = make(0.5 - 0.5 * level, rate), make(0.5 + 0.5 * level, rate)
        #: The mean of |z|, with weights that decay.
        self._size = MEAN_SIZE
        self._totals = Totals()

    bounded_memory = True

    @property
    def n(self) -> float:
        """The total weight learned."""
        return self._totals.n

    # -- learning ------------------------------------------------------------------------------------------------

    def _read(self, distribution: Distribution, y: float) -> tuple[tuple[float, float], float, bool]:
        low, high = pit_interval(distribution, y)
        return (low, high), 0.0, low == high and abs(high) == FURTHEST

    def _read_many(
        self, distributions: Sequence[Distribution], y: FloatArray
    ) -> tuple[FloatArray, FloatArray, npt.NDArray[Any]]:
        low, high = pit_intervals(distributions, y)
        return np.column_stack((low, high)), np.zeros(len(y)), (low == high) & (np.abs(high) == FURTHEST)

    def _step(self, x: tuple[float, float], y: float, w: float) -> None:
        """Learn the normal scores of F(y−) and F(y)."""
        low, high = x
        upper = self._upper.score(self._scores, self._size)
        self._lower.step(high < self._lower.score(self._scores, self._size), w)
        self._upper.step(low < upper if low < high else high <= upper, w)
        self._scores.add(high)
        self._size += SIZE_RATE * (abs(high) - self._size)
        self._totals.update(None, 1.0, w)

    # -- predicting ----------------------------------------------------------------------------------------------

    def predict_one(self, distribution: Distribution, t: Time | None = None) -> CalibratedDistribution:
        return self.map().predict_one(distribution)

    def predict_many(
        self, distributions: Sequence[Distribution], t: Time | None = None
    ) -> list[CalibratedDistribution]:
        return self.map().predict_many(check_distributions(distributions))

    def map(self) -> DistributionMap:
        ends = [
            min(max(end.score(self._scores, self._size), -FURTHEST), FURTHEST) for end in (self._lower, self._upper)
        ]
        if ends[0] > ends[1]:
            ends = [0.5 * (ends[0] + ends[1])] * 2
        levels = np.array([self._lower.level, self._upper.level])
        return RecalibrationMap(ScoreRamp(np.array(ends), levels, 1.0 - levels, True))

    def _state(self) -> dict[str, Any]:
        ends = {"lower": self._lower.state(), "upper": self._upper.state()}
        kept = {"scores": self._scores.state(), "size": self._size, "totals": self._totals.state()}
        return {**super()._state(), **ends, **kept}

    def _state_fields(self) -> dict[str, Reader]:
        end = row(number(-HEAVIEST, HEAVIEST), whole())
        scores = numbers(None, least=-FURTHEST, most=FURTHEST)
        own = {"lower": end, "upper": end, "scores": scores, "size": number(0.0, FURTHEST), "totals": unread}
        return {**super()._state_fields(), **own}

    def _load(self, *, lower: Any, upper: Any, scores: FloatArray, size: float, totals: Any, **fields: Any) -> None:
        ensure(len(scores) <= (self.window if self.method == "aci" else 0), "there are more scores than are kept")
        super()._load(**fields)
        self._totals.restore(totals)
        self._lower.load(*lower)
        self._upper.load(*upper)
        self._scores.load(scores.tolist())
        self._size = size


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
        """The smallest score held with at least this share at or below it; ∓∞ for a level of 0 or 1 and beyond."""
        if not 0.0 < level < 1.0:
            return -math.inf if level <= 0.0 else math.inf
        if not self._sorted:
            return float(ndtri(level))
        return float(self._sorted[max(math.ceil(level * len(self._sorted)), 1) - 1])

    def state(self) -> list[float]:
        """The scores, the oldest first."""
        return list(self._by_age)

    def load(self, scores: list[float]) -> None:
        """Replace the scores."""
        self._by_age = deque(scores)
        self._sorted = SortedList(scores)


class Tracked(ABC):
    """One end: a normal score below which a share `level` of outcomes is to be."""

    def __init__(self, level: float, rate: float) -> None:
        self.level = level
        self.rate = rate
        #: Σ w·(level − 1[below]).
        self.excess = 0.0
        self.steps = 0

    @abstractmethod
    def score(self, scores: Scores, size: float) -> float:
        """The normal score of the end."""

    def step(self, below: bool, w: float) -> None:
        """Learn whether an outcome was below the end."""
        self.excess += w * (self.level - below)
        self.steps += 1

    def state(self) -> list[float]:
        """Plain data."""
        return [self.excess, self.steps]

    def load(self, excess: float, steps: int) -> None:
        """Load what `state` gave."""
        self.excess, self.steps = excess, steps


class TrackedLevel(Tracked):
    """ACI: the quantile of past scores at level + rate·excess."""

    def score(self, scores: Scores, size: float) -> float:
        return scores.quantile(self.level + self.rate * self.excess)


class TrackedScore(Tracked):
    """PID: the quantile of a standard normal variable, plus rate·excess and the integral part in units of errors."""

    def score(self, scores: Scores, size: float) -> float:
        angle = self.excess * math.log(self.steps + 1.0) / (max(self.steps, 1) * SATURATION)
        integral = math.tan(angle) if abs(angle) < LARGEST_ANGLE else math.copysign(FURTHEST, angle)
        return float(ndtri(self.level)) + max(size / MEAN_SIZE, 1.0) * (self.rate * self.excess + integral)
