"""`Composition`: calibrators in a row, each of which learns from the forecasts of the one before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy.typing as npt

from streamcal.errors import InputError
from streamcal.learners.additive import AdditiveLearner
from streamcal.learners.choosing import chosen
from streamcal.learners.sequential import SequentialLearner
from streamcal.parameters.forgetting import Decay
from streamcal.parameters.inputs import check_outcome, check_outcomes, check_times, check_weight
from streamcal.parameters.types import Time
from streamcal.regression import METHODS
from streamcal.regression.base import DistributionCalibrator, DistributionMap
from streamcal.regression.distributions import CalibratedDistribution, Distribution
from streamcal.regression.quantile_recalibration import QuantileRecalibration
from streamcal.regression.reading import check_distributions
from streamcal.regression.scale_recalibration import ScaleRecalibration
from streamcal.statistics.totals import Totals

#: The half-lives of the default, in observations. The scale of a model that learns changes faster than its shape.
SCALE_HALF_LIFE, SHAPE_HALF_LIFE = 20, 300
#: Cells of the default.
CELLS = 64


class Composition(SequentialLearner, DistributionCalibrator):
    """Calibrators in a row: each stage learns from the outcome and the forecast that the stage before it issued for it.

    With stages c₁, …, c_k and a forecast F₀, stage i predicts Fᵢ = cᵢ(Fᵢ₋₁), and the composition predicts F_k. When the
    outcome y comes, each stage learns (Fᵢ₋₁, y), where Fᵢ₋₁ is what it was before y was learned: an out-of-sample
    forecast, as the next one will be.

    Parameters
    ----------
    calibrators : tuple of DistributionCalibrator or str, or None
        The stages, two or more, or their names, such as ``("scale-recalibration", "conformal-predictive")``. None
        (default): `ScaleRecalibration` under ``Decay(20)``, and `QuantileRecalibration` with 64 cells and a
        pseudo-weight of 1 under ``Decay(300)``: a scale that follows drift, then the shape that is left, in fixed
        memory. It repairs forecasts that are 20 times too narrow, or 5 times too wide. Where nothing drifts, longer
        half-lives have a likelihood that is higher by 0.03 nats.

    Raises
    ------
    InputError
        For a stage of another kind, or fewer than two.

    Notes
    -----
    It depends on the order of the observations, whatever its stages are: what a later stage has learned are forecasts
    as issued, which were functions of all that had been learned until then. So it neither merges nor unlearns. A stage
    that does can be taken out of it and merged on its own.

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
    summary = "calibrators in a row, each learning from the forecasts of the one before; by default scale, then shape"

    def __init__(self, calibrators: tuple[DistributionCalibrator | str, ...] | None = None) -> None:
        self.calibrators = None if calibrators is None else stages_of(calibrators)
        self._stages = [stage.clone() for stage in self.calibrators or default_stages()]
        self._totals = Totals()

    @property
    def stages(self) -> tuple[DistributionCalibrator, ...]:
        """The calibrators that have learned, first to last."""
        return tuple(self._stages)

    @property
    def bounded_memory(self) -> bool:
        return all(stage.bounded_memory for stage in self._stages)

    @property
    def n(self) -> float:
        """The total weight learned, whatever the stages have forgotten of it."""
        return self._totals.n

    def tally(self) -> dict[str, int]:
        """The counts of the stages, as in ``{"1 outside": 3}``."""
        return {f"{i} {name}": n for i, stage in enumerate(self._stages, 1) for name, n in stage.tally().items()}

    # -- learning ------------------------------------------------------------------------------------------------

    def learn_one(self, distribution: Distribution, y: float, w: float = 1.0, t: Time | None = None) -> None:
        outcome, weight = check_outcome(y), check_weight(w)
        self._check_time(t)
        if weight == 0.0:
            self._stages[0].learn_one(distribution, outcome, 0.0, t)  # which checks the distribution
            return
        forecasts = [distribution]
        for stage in self._stages[:-1]:
            forecasts.append(stage.predict_one(forecasts[-1], t))
        for stage, forecast in zip(self._stages, forecasts, strict=True):
            stage.learn_one(forecast, outcome, weight, t)
        self._totals.update(None, 1.0, weight)

    def learn_many(
        self,
        distributions: Sequence[Distribution],
        y: npt.ArrayLike,
        w: npt.ArrayLike | None = None,
        t: npt.ArrayLike | Sequence[Time] | None = None,
    ) -> None:
        given = check_distributions(distributions)
        outcomes, weights = check_outcomes(y, w)
        if len(given) != len(outcomes):
            raise InputError(f"distributions and y differ in length: {len(given)} and {len(outcomes)}")
        times = [None] * len(given) if t is None else check_times(t, len(given)).tolist()
        learned = type(self).from_state(self.state_dict())  # so that nothing is learned where a row is refused
        for row in zip(given, outcomes.tolist(), weights.tolist(), times, strict=True):
            learned.learn_one(*row)
        self._stages, self._totals = learned._stages, learned._totals

    def _check_time(self, t: Time | None) -> None:
        """`InputError` for a time that a stage cannot take, before any has learned."""
        for stage in self._stages:
            if isinstance(stage, AdditiveLearner):
                stage._time(t)

    # -- predicting ----------------------------------------------------------------------------------------------

    def predict_one(self, distribution: Distribution, t: Time | None = None) -> CalibratedDistribution:
        forecast: Any = distribution
        for stage in self._stages:
            forecast = stage.predict_one(forecast, t)
        return forecast

    def predict_many(
        self, distributions: Sequence[Distribution], t: Time | None = None
    ) -> list[CalibratedDistribution]:
        forecasts: Any = check_distributions(distributions)
        for stage in self._stages:
            forecasts = stage.predict_many(forecasts, t)
        return forecasts

    def map(self) -> DistributionMap:
        return ComposedMap([stage.map() for stage in self._stages])

    # -- state ---------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "totals": self._totals.state(), "stages": [one._state() for one in self._stages]}

    def _restore(self, state: dict[str, Any]) -> None:
        super()._restore(state)
        self._totals.restore(state["totals"])
        for stage, saved in zip(self._stages, state["stages"], strict=True):
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
    """Scale, then shape."""
    return (
        ScaleRecalibration(forgetting=Decay(SCALE_HALF_LIFE)),
        QuantileRecalibration(1.0, resolution=CELLS, forgetting=Decay(SHAPE_HALF_LIFE)),
    )


def stages_of(calibrators: Any) -> tuple[DistributionCalibrator, ...]:
    """The stages as objects; `InputError` for others, and for fewer than two."""
    if not isinstance(calibrators, (tuple, list)) or len(calibrators) < 2:
        raise InputError(f"calibrators={calibrators!r} are not possible; give a tuple of two calibrators or more")
    return tuple(
        chosen(one, DistributionCalibrator, METHODS, "a calibrator of distributions", "calibrators")
        for one in calibrators
    )
