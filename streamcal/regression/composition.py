"""`Composition`: calibrators in a row, each of which learns from the forecasts of the one before it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from streamcal.errors import InputError
from streamcal.learners.choosing import chosen
from streamcal.parameters.forgetting import Decay
from streamcal.parameters.inputs import CheckedTime
from streamcal.parameters.types import FloatArray, Time, Times
from streamcal.regression import METHODS
from streamcal.regression.adaptive_conformal import AdaptiveConformal
from streamcal.regression.adaptive_scale import AdaptiveScale
from streamcal.regression.base import DistributionCalibrator, DistributionMap, SequentialDistributionCalibrator
from streamcal.regression.distributions import CalibratedDistribution, Distribution
from streamcal.regression.quantile_recalibration import QuantileRecalibration
from streamcal.regression.reading import check_distributions
from streamcal.states import Field, listed, unread

#: Of the default: the half-life of the shape, in observations, and its cells.
HALF_LIFE, CELLS = 300, 64
#: Of the default: levels whose intervals are corrected last, by which rate, and by how many outcomes they may be off.
LEVELS, RATE, SLACK = (0.5, 0.8, 0.9, 0.95), 0.1, 2.0
#: Number of observations that the first stage learns alone.
ALONE = 5


class Composition(SequentialDistributionCalibrator):
    """Calibrators in a row: each stage learns from the outcome and the forecast that the stage before it issued for it.

    With stages c₁, …, c_k and a forecast F₀, stage i predicts Fᵢ = cᵢ(Fᵢ₋₁), and the composition predicts F_k. When the
    outcome y comes, each stage learns (Fᵢ₋₁, y), where Fᵢ₋₁ is what it was before y was learned: an out-of-sample
    forecast, as the next one will be. The first five observations are learned by the first stage alone: what it issues
    for them is mostly what it was given, and not as the next one will be.

    Parameters
    ----------
    calibrators : tuple of DistributionCalibrator or str, or None
        The stages, two or more, or their names, such as ``("scale-recalibration", "conformal-predictive")``. None
        (default): `AdaptiveScale`; `QuantileRecalibration` with 64 cells and a pseudo-weight of 1 under ``Decay(300)``;
        and `AdaptiveConformal` by tracking of the levels 0.5, 0.8, 0.9 and 0.95, with a rate of 0.1 and a slack of 2. A
        location and a scale that follow drift, then the shape that is left, then intervals that follow their coverage,
        in fixed memory. Where nothing drifts, `ScaleRecalibration` and `QuantileRecalibration` without forgetting are
        sharper: by how much, see `docs/regression.md`.

    Raises
    ------
    InputError
        For a stage of another kind, or fewer than two.

    Notes
    -----
    It depends on the order of the observations, whatever its stages are: what a later stage has learned are forecasts
    as issued, which were functions of all that had been learned until then. So it neither merges nor unlearns. A stage
    that does can be taken out of it and merged on its own.

    With `AdaptiveConformal` as the last stage, as by default, its guarantee applies to the composition from the sixth
    observation on, whatever the base, the drift and the stages before it do. The share of outcomes below each end of an
    interval, as it is tracked, tends to its level. Where tracked ends are out of order, what is predicted is their
    isotonic regression, for which nothing is proven. The coverage on streams that drift is in
    `docs/regression_measured.md`.

    Cost: the sum of those of the stages, each of which solves at every observation.

    Examples
    --------
    >>> from streamcal.regression import Normal
    >>> cal = Composition()
    >>> cal.learn_many([Normal(0.0, 0.1)] * 300, [-1.0, 0.0, 1.0] * 100)
    >>> low, high = cal.predict_one(Normal(0.0, 0.1)).interval(0.9)
    >>> low < -0.9, high > 0.9
    (True, True)
    """

    name = "composition"
    summary = (
        "calibrators in a row, each learning from the forecasts of the one before; by default scale, shape, coverage"
    )

    def __init__(self, calibrators: tuple[DistributionCalibrator | str, ...] | None = None) -> None:
        self.calibrators = None if calibrators is None else stages_of(calibrators)
        self._stages = [stage.clone() for stage in self.calibrators or default_stages()]
        super().__init__()

    @property
    def stages(self) -> tuple[DistributionCalibrator, ...]:
        """The calibrators that have learned, first to last."""
        return tuple(self._stages)

    @property
    def bounded_memory(self) -> bool:
        return all(stage.bounded_memory for stage in self._stages)

    @property
    def forgets_by_time(self) -> bool:
        return any(stage.forgets_by_time for stage in self._stages)

    def tally(self) -> dict[str, int]:
        """Return the counts of the stages, as in ``{"1 outside": 3}``."""
        return {f"{i} {name}": n for i, stage in enumerate(self._stages, 1) for name, n in stage.tally().items()}

    # -- learning ------------------------------------------------------------------------------------------------

    def _read(self, distribution: Distribution, y: float) -> tuple[Any, float, bool]:
        return distribution, y, False

    def _checked(
        self, distribution: Distribution, y: float, w: float, t: Time | None
    ) -> tuple[Any, float, float, float, int]:
        """Return what the base does; x is what each stage that learns yet has checked of the forecast issued to it."""
        forecast, outcome, weight, time, outside = super()._checked(distribution, y, w, t)
        at = None if math.isnan(time) else CheckedTime(time)
        checked: list[Any] = []
        for place, stage in enumerate(self._stages if self._totals.count >= ALONE else self._stages[:1]):
            if place:
                forecast = self._stages[place - 1].predict_one(forecast, at)
            checked.append(stage._checked(forecast, outcome, weight, at))
            if weight > 0.0:
                stage._require_time(time)
        return checked, outcome, weight, time, outside

    def _read_many(self, distributions: Sequence[Distribution], y: FloatArray) -> tuple[Any, FloatArray, Any]:
        return distributions, y, np.zeros(len(y), dtype=bool)

    def _time(self, t: Time | None) -> float:
        """Check the time, which stages may need; NaN without a time."""
        at = None if t is None else CheckedTime(self._checked_time(t))
        for stage in self._stages:
            stage._time(at)
        return math.nan if at is None else at

    def _times(self, t: Times | None, size: int) -> FloatArray:
        at = None if t is None else self._checked_times(t, size)
        for stage in self._stages:
            stage._times(at, size)
        return np.full(size, math.nan) if at is None else at

    def _learn(self, x: Any, y: float, w: float, t: float, noted: int = 0) -> None:
        if w > 0.0:
            relative = self._weight_scale.relative(w)
            for stage, (own, label, _, time, outside) in zip(self._stages, x, strict=False):
                stage._learn(own, label, relative, time, outside)
            self._stepped(w)

    def _learn_many(self, x: Any, y: FloatArray, w: FloatArray, t: FloatArray, noted: int = 0) -> None:
        with self._all_or_nothing():  # a later stage may refuse what an earlier one issues
            for one, outcome, weight, time in zip(x, y.tolist(), w.tolist(), t.tolist(), strict=True):
                at = None if math.isnan(time) else CheckedTime(time)
                self._learn(*self._checked(one, outcome, weight, at))

    # -- predicting ----------------------------------------------------------------------------------------------

    def predict_one(self, distribution: Distribution, t: Time | None = None) -> CalibratedDistribution:
        """Return the calibrated distribution, as of time `t`; the state does not change."""
        forecast: Any = distribution
        at = self._asked_time(t)
        for stage in self._stages:
            forecast = stage.predict_one(forecast, at)
        return forecast

    def predict_many(
        self, distributions: Sequence[Distribution], t: Time | None = None
    ) -> list[CalibratedDistribution]:
        forecasts: Any = check_distributions(distributions)
        at = self._asked_time(t)
        for stage in self._stages:
            forecasts = stage.predict_many(forecasts, at)
        return forecasts

    def map(self) -> DistributionMap:
        return ComposedMap([stage.map() for stage in self._stages])

    # -- state ---------------------------------------------------------------------------------------------------

    def _fields(self) -> dict[str, Field]:
        stages = Field(
            listed(unread, len(self._stages)), lambda: [stage._state() for stage in self._stages], self._load_stages
        )
        return {**super()._fields(), "stages": stages}

    def _load_stages(self, states: list[Any]) -> None:
        for stage, saved in zip(self._stages, states, strict=True):
            stage._restore(saved)


class ComposedMap(DistributionMap):
    """Maps, one after the other."""

    def __init__(self, maps: Sequence[DistributionMap]) -> None:
        self.maps = tuple(maps)

    def predict_one(self, distribution: Distribution) -> CalibratedDistribution:
        forecast: Any = distribution
        for one in self.maps:
            forecast = one.predict_one(forecast)
        return forecast


def default_stages() -> tuple[DistributionCalibrator, ...]:
    """Return the default stages: scale, then shape, then the coverage of intervals."""
    return (
        AdaptiveScale(),
        QuantileRecalibration(1.0, resolution=CELLS, forgetting=Decay(HALF_LIFE)),
        AdaptiveConformal(LEVELS, "tracking", RATE, slack=SLACK),
    )


def stages_of(calibrators: Any) -> tuple[DistributionCalibrator, ...]:
    """Return the stages as objects; `InputError` for other values, and for fewer than two."""
    if not isinstance(calibrators, (tuple, list)) or len(calibrators) < 2:
        raise InputError(f"calibrators={calibrators!r} are not possible; give a tuple of two calibrators or more")
    return tuple(
        chosen(calibrator, DistributionCalibrator, METHODS, "a calibrator of distributions", "calibrators")
        for calibrator in calibrators
    )
