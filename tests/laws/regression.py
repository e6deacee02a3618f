"""The room of distributions: the methods of `streamcal.regression`, each in a few variants."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from hypothesis import strategies as st

from laws import EXACT_TIMES, EXACT_WEIGHTS, POLICIES, ROUNDED, Case, Observation, changed, one_of_each, read_only
from streamcal import Beta, Decay, Forever, HistogramBinning, Isotonic, OnlinePlatt, Platt, VennAbers
from streamcal.regression import (
    RBF,
    AdaptiveConformal,
    AdaptiveScale,
    Composition,
    ConformalPredictive,
    EmpiricalDensity,
    GaussianProcessCDF,
    IsotonicDistributional,
    Logistic,
    MondrianConformal,
    Normal,
    Piecewise,
    QuantileRecalibration,
    Quantiles,
    Sample,
    ScaleRecalibration,
    VennAbersRegression,
)

SUPPORT = (-4.0, 4.0)
#: Newton's method stops at a gradient of 1e-12, and starts where it ended; a mass is divided by the sum of all.
SOLVED = 1e-7
#: Where few scores leave the parameters of `Beta` to its ridge of 1e-9, that magnifies the rounding of its gradient.
RIDGED = 1e-5

#: Method → how its variants are made under a policy.
VARIANTS: dict[str, list[Callable[[Any], Any]]] = {
    "empirical-density": [
        lambda p: EmpiricalDensity(Isotonic(forgetting=p), [-1.0, 0.0, 2.0], support=SUPPORT),
        lambda p: EmpiricalDensity(Beta(resolution=64, forgetting=p), 4, support=SUPPORT),
        lambda p: EmpiricalDensity(Platt(resolution=None, forgetting=p), 4, support=SUPPORT),
        lambda p: EmpiricalDensity(HistogramBinning(2, forgetting=p), [0.0], support=SUPPORT),
        lambda p: EmpiricalDensity(Logistic(resolution=None, forgetting=p), 4, support=SUPPORT),
        lambda p: EmpiricalDensity(VennAbers(resolution=64, forgetting=p), 3, support=SUPPORT),
    ],
    "quantile-recalibration": [
        lambda p: QuantileRecalibration(forgetting=p),
        lambda p: QuantileRecalibration(2.0, forgetting=p, resolution=4),
        lambda p: QuantileRecalibration(forgetting=p, scale="uniform"),
        lambda p: QuantileRecalibration(1.0, forgetting=p, resolution=8, scale="uniform"),
    ],
    "scale-recalibration": [
        lambda p: ScaleRecalibration(forgetting=p),
        lambda p: ScaleRecalibration("moments", 0.5, forgetting=p),
    ],
    "conformal-predictive": [
        lambda p: ConformalPredictive(forgetting=p),
        lambda p: ConformalPredictive(forgetting=p, resolution=8),
    ],
    "mondrian-conformal": [
        lambda p: MondrianConformal([0.5, 2.0], forgetting=p),
        lambda p: MondrianConformal([0.0], "median", forgetting=p, resolution=8),
    ],
    "isotonic-distributional": [
        lambda p: IsotonicDistributional(4, support=SUPPORT, forgetting=p),
        lambda p: IsotonicDistributional([0.0], support=SUPPORT, forgetting=p, resolution=16),
    ],
    "venn-abers-regression": [
        lambda p: VennAbersRegression(thresholds=4, support=SUPPORT, forgetting=p),
        lambda p: VennAbersRegression("self-consistent", [-1.0, 1.0], support=SUPPORT, forgetting=p, resolution=16),
    ],
    "gaussian-process-cdf": [
        lambda p: GaussianProcessCDF(4, support=SUPPORT, resolution=64, points=33, forgetting=p),
        lambda p: GaussianProcessCDF(
            *([0.0],), support=SUPPORT, kernel=RBF(), mean="zero", point="mean", resolution=None, points=9, forgetting=p
        ),
    ],
}
#: One of streams of binary methods, one of a table of ranks, one of a table of thresholds: the first of each statistic.
FIRST = ("empirical-density", "quantile-recalibration", "isotonic-distributional")
SEQUENTIAL = (
    lambda: EmpiricalDensity("online-platt", 4, support=SUPPORT),
    lambda: EmpiricalDensity(OnlinePlatt(discount=0.875), [0.0], support=SUPPORT),
)
ADAPTIVE = (
    lambda: AdaptiveConformal(),
    lambda: AdaptiveConformal(0.5, "aci", 0.1, 8),
    lambda: AdaptiveConformal((0.5, 0.9, 0.95), rate=0.2, slack=1.0),
)
SCALES = (lambda: AdaptiveScale(), lambda: AdaptiveScale((2.0, 16.0), 0.0))
COMPOSED = (
    lambda: Composition(),
    lambda: Composition((ScaleRecalibration("moments", forgetting=Decay(4)), ConformalPredictive(), "composition")),
)

#: Cdfs that are exact in floats at the thresholds above; each is one object, and equal to itself alone.
FORECASTS = [
    Piecewise([-4.0, 4.0], [0.0, 1.0]),
    Piecewise([-1.0, 1.0], [0.0, 1.0]),
    Piecewise([0.0, 4.0], [0.0, 1.0]),
    Piecewise([-8.0, -4.0, 0.0, 8.0], [0.0, 0.25, 0.5, 1.0]),
    Sample([-2.0, 0.5, 1.5, 2.5]),
]
PROBES = [FORECASTS[1], FORECASTS[4], Normal(0.3, 1.0), Quantiles([0.25, 0.5], [-1.0, 3.0])]
PLACES = np.linspace(-6.0, 6.0, 49)
OUTCOMES = [k / 2 for k in range(-10, 11)]
observations = one_of_each(FORECASTS, OUTCOMES, EXACT_WEIGHTS, EXACT_TIMES).map(lambda drawn: Observation(*drawn))
GOOD = [
    Observation(FORECASTS[0], 3.0, 1.0, 0.0),
    Observation(FORECASTS[1], 3.0, 2.0, 4.0),
    Observation(FORECASTS[0], 3.0, 1.0, 8.0),
]
HARD = {
    "one": [Observation(FORECASTS[1], 0.25)],
    "outside of every support": [Observation(f, y) for f in FORECASTS for y in (-1e300, 1e300)],
    "all equal": [Observation(FORECASTS[4], 0.5)] * 12,
    "forecasts too narrow": [Observation(Normal(0.0, 1e-9), (-1.0) ** k * k) for k in range(12)],
    "huge and tiny weights": [Observation(FORECASTS[k % 5], k / 2 - 4, 10.0 ** (15 * (k % 9) - 60)) for k in range(16)],
}


class Bad:
    """A distribution whose cdf gives what it was told to."""

    def __init__(self, answer: Any) -> None:
        self.cdf = answer


BAD_DISTRIBUTIONS = [
    3.0,
    None,
    "normal",
    Bad(3.0),
    Bad(lambda t: np.full(np.shape(t), math.nan)),
    Bad(lambda t: np.full(np.shape(t), 1.5)),
    Bad(lambda t: np.full(np.shape(t), -0.5)),
    Bad(lambda t: np.zeros(7)),
    Bad(lambda t: "no"),
]


def cdfs(found: list[Any]) -> np.ndarray:
    """Return the values of distributions at PLACES, and of their bounds if they have them."""
    ends = [getattr(one, end) for one in found for end in ("lower", "upper") if hasattr(one, end)]
    return np.array([one.cdf(PLACES) for one in [*found, *ends]])


@dataclass(frozen=True)
class DistributionCase(Case):
    """A method of distributions in one variant."""

    longest: ClassVar[int] = 24
    hard: ClassVar[dict[str, list[Observation]]] = HARD

    def observations(self, cal: Any, alike: bool) -> st.SearchStrategy[Observation]:
        return observations

    def good(self, cal: Any) -> list[Observation]:
        return GOOD

    def ordered(self, cal: Any, size: int) -> list[Observation]:
        forecasts = [Piecewise([-4.0 - k / 4, 4.0 + k / 2], [0.0, 1.0]) for k in range(size)]
        return [Observation(forecast, k / 4 - 3.75, 1.0, 4.0 * k) for k, forecast in enumerate(forecasts)]

    def spellings(self, stream: list[Observation]) -> Iterator[list[Observation]]:
        for kind in (np.float64, np.float32):
            yield [o._replace(y=kind(o.y), w=kind(o.w)) for o in stream]

    def unknown(self, cal: Any) -> list[Observation]:
        if isinstance(cal, ScaleRecalibration):  # whose sums know no more than the weight
            return super().unknown(cal)
        return [Observation(FORECASTS[2], -1.5, 1.0, 8.0), Observation(FORECASTS[0], -3.0, 3.0, 8.0)]

    def key(self, cal: Any, observation: Observation) -> Any:
        """Return what the method reads: two distributions may be the same to it."""
        return json.dumps(learned_alone(self.forever(cal), observation))

    def learn_many(self, cal: Any, stream: list[Observation], timed: bool = True) -> None:
        columns = [np.array([o[i] for o in stream], dtype=np.float64) for i in (1, 2, 3)]
        cal.learn_many([o.x for o in stream], *columns[: 3 if timed else 2])

    def streamed(self, cal: Any, stream: list[Observation], verb: str) -> np.ndarray:
        found = getattr(cal, verb)(
            [o.x for o in stream], *(read_only([o[place] for o in stream]) for place in (1, 2, 3))
        )
        return np.array([self.said(one) for one in found])

    def said(self, answer: Any) -> list[float]:
        return [one for cdf in cdfs([answer]).tolist() for one in cdf]

    def forever(self, cal: Any) -> Any:
        if isinstance(cal, EmpiricalDensity):
            return changed(cal, calibrator=changed(cal.calibrator, forgetting=Forever()))
        return super().forever(cal)

    def within(self, cal: Any) -> float:
        if isinstance(cal, EmpiricalDensity) and isinstance(cal.calibrator, Beta | Platt | Logistic):
            return SOLVED if isinstance(cal.calibrator, Platt) else RIDGED
        return SOLVED if isinstance(cal, GaussianProcessCDF) else ROUNDED

    def rounding(self, cal: Any) -> float:
        return self.within(cal)

    def places(self, cal: Any, stream: Any = ()) -> list[Any]:
        return [*PROBES, *(o.x for o in stream)]

    def by_many(self, cal: Any, places: Any, t: float | None = None) -> np.ndarray:
        return cdfs(cal.predict_many(places, t))

    def by_one(self, cal: Any, places: Any) -> np.ndarray:
        return cdfs([cal.predict_one(place) for place in places])

    def by_map(self, found: Any, places: Any) -> Iterator[np.ndarray]:
        yield cdfs([found(place) for place in places])
        yield cdfs(found.predict_many(places))

    def assert_possible(self, cal: Any, places: Any, monotone: bool = True) -> None:
        """Assert that predictions are cdfs from exactly 0 to exactly 1."""
        for one in cal.predict_many(places):
            values = one.cdf(np.concatenate(([-math.inf], PLACES, [math.inf])))
            assert (values[0], values[-1]) == (0.0, 1.0)
            assert (np.diff(values) >= 0.0).all()

    def bad_calls(self, cal: Any) -> Iterator[Callable[[], Any]]:
        for y in (math.nan, math.inf, "1", None, [1.0]):
            yield partial(cal.learn_one, FORECASTS[0], y, 1.0, 8.0)
            yield partial(cal.learn_many, FORECASTS[:2], [0.0, y], None, [8.0, 8.0])
            yield partial(cal.predict_learn_many, FORECASTS[:2], [0.0, y], None, [8.0, 8.0])
        for w in (-1.0, math.nan, 1e61):
            yield partial(cal.learn_one, FORECASTS[0], 0.0, w, 8.0)
        for bad in BAD_DISTRIBUTIONS:
            yield partial(cal.learn_one, bad, 0.0, 1.0, 8.0)
            yield partial(cal.learn_many, [FORECASTS[0], bad], [0.0, 0.0], None, [8.0, 8.0])
            yield partial(cal.predict_learn_many, [FORECASTS[0], bad], [0.0, 0.0], None, [8.0, 8.0])
            if self.unlearns:
                yield partial(cal.unlearn_one, bad, 0.0, 1.0, 8.0)
        for arguments in ((FORECASTS[:2], [0.0]), (FORECASTS[0], [0.0]), (FORECASTS[:1], [0.0], [1.0, 1.0])):
            yield partial(cal.learn_many, *arguments)
        for bad in (3.0, None):
            yield partial(cal.predict_one, bad)
            yield partial(cal.predict_many, bad)

    def strangers(self) -> Iterator[Any]:
        yield from (case.build() for case in CASES if case.policy in ("forever", self.policy))
        yield EmpiricalDensity("beta", 5, support=SUPPORT)


def learned_alone(cal: Any, observation: Observation) -> Any:
    """Return what one observation leaves, except the count of outcomes outside of the support, learned as its ends."""
    cal.learn_one(*observation[:3], observation.t)
    return {name: value for name, value in cal.state_dict()["learned"].items() if name != cal.noted}


def case_of(name: str, policy: str) -> DistributionCase:
    makers = tuple(partial(make, POLICIES[policy]) for make in VARIANTS[name])
    return DistributionCase(name, policy, makers, name in FIRST)


CASES = [case_of(name, policy) for name in VARIANTS for policy in POLICIES]
CASES.append(DistributionCase("empirical-density ops", None, SEQUENTIAL))
CASES.append(DistributionCase("adaptive-conformal", None, ADAPTIVE))
CASES.append(DistributionCase("adaptive-scale", None, SCALES))
CASES.append(DistributionCase("composition", None, COMPOSED))
