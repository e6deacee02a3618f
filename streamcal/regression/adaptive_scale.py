"""`AdaptiveScale`: a location and a scale for all forecasts, from memories of several lengths."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamcal.errors import InputError
from streamcal.parameters.numbers import plain_number, real_number
from streamcal.parameters.types import FloatArray
from streamcal.regression.base import DistributionMap, SequentialDistributionCalibrator
from streamcal.regression.distributions import Distribution
from streamcal.regression.reading import counted, pit_interval, pit_intervals
from streamcal.regression.scale_recalibration import SCALES, ScaleMap, moments_between
from streamcal.states import HEAVIEST, Field, ensure, numbers
from streamcal.statistics.pits import FURTHEST

#: Half-lives of the default, in observations: from a few errors of one sign to what changes slowly.
HALF_LIVES = (2.5, 5.0, 10.0, 20.0, 80.0, 320.0)
#: No half-life is longer.
LARGEST = 1e300
#: Each step of the mixture gives this share of the weight to all memories alike.
SHARE = 0.01
#: The weight of the next longer memory in each memory, in observations.
PRIOR = 1.0
#: Added to the weight of a memory for the degrees of freedom with which it is judged, so that it has a variance.
FREEDOM = 2.0
#: No variance is smaller.
LEAST_VARIANCE = SCALES[0] ** 2
#: At more degrees of freedom Student's t is normal to 1e-6.
MOST_FREEDOM = 1e6


class AdaptiveScale(SequentialDistributionCalibrator):
    """A location and a scale for all forecasts, from memories of several lengths, weighed by their likelihood.

    Of Normal(m, s) it predicts Normal(m + a·s, b·s), as `ScaleRecalibration` does. Each memory keeps the mean and the
    variance of the normal scores z of the outcomes, with weights that halve in its half-life. One observation's worth
    of the next longer memory is added to each, and one of the forecast (mean 0, variance 1) to the longest. a and log b
    are the averages over the memories, with the weights of a mixture under fixed share (Herbster and Warmuth 1998). The
    weight of a memory is multiplied by the density that it gave to each outcome: Student's t with its location and
    scale, whose degrees of freedom are its number of observations plus 2.

    So it follows errors that stay of one sign for a few outcomes, or a model that learns, and is nearly as sharp as the
    mean of the whole past where nothing changes. No half-life has to be chosen.

    Parameters
    ----------
    half_lives : tuple of float
        In observations, ascending and above 0. Default: six, from 2.5 to 320. A memory that never forgets is added.
    share : float
        From 0 to 1, default 0.01: the share of the weight that each observation divides among all memories, so that
        another memory can take over after a change.

    Notes
    -----
    Approximate where `ScaleRecalibration` is exact: it depends on the order of the observations, and neither merges nor
    unlearns. Against the best single memory in hindsight, the mixture of the densities loses at most
    ln(k)/T + ln(1/(1 − share)) nats an observation over T observations of weight 1 with k memories. What is predicted
    is not that mixture but one scale, the average above.

    Atoms and outcomes without predicted mass are read as by `ScaleRecalibration`. Weights count relative to their
    running mean: multiplying all by one number changes nothing. Time is not read. Cost: O(k), some 20 µs.

    References
    ----------
    Herbster and Warmuth, Tracking the best expert, Machine Learning 32, 1998.

    Examples
    --------
    >>> from streamcal.regression import Normal
    >>> cal = AdaptiveScale()
    >>> cal.learn_many([Normal(0.0, 1.0)] * 99, [-3.0, 0.0, 3.0] * 33)
    >>> round(cal.predict_one(Normal(5.0, 2.0)).sd, 1)
    4.9
    >>> cal.learn_many([Normal(0.0, 1.0)] * 9, [8.0, 9.0, 10.0] * 3)  # a jump
    >>> round(cal.predict_one(Normal(5.0, 2.0)).mean)
    21
    """

    name = "adaptive-scale"
    summary = "a stated mean and standard deviation, corrected by memories of several lengths"
    bounded_memory = True

    def __init__(self, half_lives: tuple[float, ...] = HALF_LIVES, share: float = SHARE) -> None:
        self.half_lives = _ascending(half_lives)
        self.share = real_number(share, "share", "a number from 0 to 1", least=0.0, most=1.0)
        self._memories = [Memory(0.5 ** (1.0 / one)) for one in (*self.half_lives, math.inf)]
        self._weights = [1.0 / len(self._memories)] * len(self._memories)
        super().__init__()

    # -- learning ------------------------------------------------------------------------------------------------

    def _read(self, distribution: Distribution, y: float) -> tuple[tuple[float, float], float, bool]:
        """Return the mean and the standard deviation of the normal scores of an outcome; an atom has many scores."""
        low, high = pit_interval(distribution, y)
        return _moments(low, high, distribution), 0.0, low == high and abs(high) == FURTHEST

    def _read_many(
        self, distributions: Sequence[Distribution], y: FloatArray
    ) -> tuple[FloatArray, FloatArray, NDArray[Any]]:
        low, high = pit_intervals(distributions, y)
        x = [_moments(*row) for row in zip(low.tolist(), high.tolist(), distributions, strict=True)]
        return np.array(x).reshape(-1, 2), np.zeros(len(y)), (low == high) & (np.abs(high) == FURTHEST)

    def _step(self, x: tuple[float, float], y: float, w: float) -> None:
        centre, deviation = x
        relative = self._weight_scale.relative(w)
        logs = [
            math.log(max(weight, 1e-300)) + relative * memory.log_density(centre, *estimate)
            for weight, memory, estimate in zip(self._weights, self._memories, self._estimates(), strict=True)
        ]
        largest = max(logs)
        likely = [math.exp(log - largest) for log in logs]
        total, equal = sum(likely), self.share / len(likely)
        self._weights = [equal + (1.0 - self.share) * one / total for one in likely]
        for memory in self._memories:
            memory.add(centre, deviation, relative)
        self._stepped(w)

    def _estimates(self) -> list[tuple[float, float]]:
        """Return the location and the variance of each memory, with one observation's worth of the next longer one."""
        estimates, location, variance = [], 0.0, 1.0
        for memory in reversed(self._memories):
            own, step = memory.weight / (memory.weight + PRIOR), memory.mean - location
            location += own * step
            variance = own * memory.variance + (1.0 - own) * (variance + own * step * step)
            estimates.append((location, variance))
        return estimates[::-1]

    def map(self) -> DistributionMap:
        """Return the current map, of the averages over the memories; it is immutable."""
        if self._map is None:
            location = log_scale = 0.0
            for weight, (own, variance) in zip(self._weights, self._estimates(), strict=True):
                location += weight * own
                log_scale += 0.5 * weight * math.log(variance if variance > LEAST_VARIANCE else LEAST_VARIANCE)
            self._map = ScaleMap(location, min(max(math.exp(log_scale), SCALES[0]), SCALES[1]), False)
        return self._map

    # -- state ---------------------------------------------------------------------------------------------------

    def _fields(self) -> dict[str, Field]:
        k = len(self._memories)
        memories = numbers(k, 3, least=-HEAVIEST, most=HEAVIEST)
        return {
            **super()._fields(),
            "memories": Field(memories, lambda: [memory.state() for memory in self._memories], self._load_memories),
            "weights": Field(numbers(k, least=0.0, most=1.0), lambda: self._weights, self._load_weights),
        }

    def _load_memories(self, memories: FloatArray) -> None:
        ensure((memories[:, [0, 2]] >= 0.0).all(), "a memory has a weight or a variance below 0")
        ensure((np.abs(memories[:, 1]) <= FURTHEST).all(), f"a memory has a mean beyond {FURTHEST:g}")
        for memory, row in zip(self._memories, memories.tolist(), strict=True):
            memory.weight, memory.mean, memory.variance = row

    def _load_weights(self, weights: FloatArray) -> None:
        ensure(abs(float(weights.sum()) - 1.0) <= 1e-9, "the weights of the memories do not add up to 1")
        self._weights = weights.tolist()


class Memory:
    """The mean and the variance of numbers whose weights shrink by a factor with each one that follows."""

    __slots__ = ("_decay", "mean", "variance", "weight")

    def __init__(self, decay: float) -> None:
        self._decay = decay
        self.weight = 0.0
        self.mean = 0.0
        self.variance = 0.0

    def add(self, centre: float, deviation: float, w: float) -> None:
        """Add a number of weight w, known up to a standard deviation (West 1979)."""
        old = self._decay * self.weight
        self.weight = min(old + w, HEAVIEST)
        part, step = w / (old + w), centre - self.mean
        self.mean += part * step
        self.variance = (1.0 - part) * (self.variance + part * step * step) + part * deviation * deviation

    def log_density(self, z: float, location: float, variance: float) -> float:
        """Return the log density of Student's t with this location, squared scale and weight + `FREEDOM` degrees."""
        freedom = min(self.weight + FREEDOM, MOST_FREEDOM)
        variance = max(variance, LEAST_VARIANCE)
        constant = math.lgamma(0.5 * (freedom + 1.0)) - math.lgamma(0.5 * freedom) - 0.5 * math.log(freedom * variance)
        return constant - 0.5 * (freedom + 1.0) * math.log1p((z - location) ** 2 / (freedom * variance))

    def state(self) -> list[float]:
        """Return the state as plain data."""
        return [self.weight, self.mean, self.variance]


def _moments(low: float, high: float, distribution: Distribution) -> tuple[float, float]:
    """Return the mean and the standard deviation of a normal score between two values."""
    return moments_between(low, high) if low < high else (counted(high, distribution), 0.0)


def _ascending(half_lives: Any) -> tuple[float, ...]:
    """Return the half-lives as floats; `InputError` for anything but ascending numbers above 0."""
    numbers = tuple(map(plain_number, half_lives)) if isinstance(half_lives, (tuple, list)) else ()
    if not (numbers and numbers[0] > 0.0 and all(a < b for a, b in pairwise((*numbers, LARGEST)))):
        raise InputError(
            f"half_lives={half_lives!r} are not possible; give ascending numbers above 0, such as (20, 320)"
        )
    return tuple(float(number) for number in numbers)
