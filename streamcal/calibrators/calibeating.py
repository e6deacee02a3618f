"""`CalibeatenOPS`: the base of the two calibeating methods, online Platt scaling whose forecasts are binned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamcal.calibrators.newton import INITIAL_CURVATURE, NEWTON_GAMMA, RADIUS, newton_state
from streamcal.calibrators.sequential import SequentialCalibrator
from streamcal.kernels.mixture.hedging import bin_of, stream
from streamcal.kernels.newton.online_newton import OnlineNewton
from streamcal.maps.steps import BinnedSigmoidMap
from streamcal.parameters.given import whole_number
from streamcal.parameters.scales import LOGIT_LIMIT, Logit
from streamcal.parameters.types import FloatArray, Label, Time
from streamcal.states import Reader

#: `HedgedOPS` keeps two tables of bins² numbers: 16 MB.
MOST_BINS = 1_000


class CalibeatenOPS(SequentialCalibrator):
    """Online Platt scaling, whose forecast determines only the bin, of `bins` bins of equal width, of an observation.

    The prediction is a function of the bin and of the outcomes of earlier forecasts in it: the `BinForecaster` that
    `forecaster` makes, from the number of bins.
    """

    monotone = False

    def __init__(self, bins: int, forecaster: Callable[[int], Any]) -> None:
        super().__init__()
        self.bins = whole_number(bins, "bins", 1, MOST_BINS)
        self.scale = Logit()
        self._newton = OnlineNewton((1.0, 0.0), NEWTON_GAMMA, INITIAL_CURVATURE, RADIUS, 1.0, LOGIT_LIMIT)
        self._forecaster = forecaster(self.bins)

    @property
    def n(self) -> float:
        """Return the total weight learned; under decay, in units of a new observation."""
        return self._newton.weight

    def predict_one(self, score: float, t: Time | None = None) -> float:
        """Return the probability of a positive label at `score`, as of time `t`; the state does not change."""
        p = self._newton.predict_fast(score)
        return self._forecaster.forecast(bin_of(p, self.bins)) if p == p else super().predict_one(score, t)

    def learn_one(self, score: float, y: Label, w: float = 1.0, t: Time | None = None) -> None:
        """Learn that `score` was followed by the label `y`, with weight `w` ≥ 0, at time `t`."""
        p = self._newton.predict_fast(score)
        if self._newton.learn_fast(score, y, w):
            self._forecaster.learn(bin_of(p, self.bins), 1.0 if y else 0.0, self._newton.relative)
        else:
            super().learn_one(score, y, w, t)

    def map(self) -> BinnedSigmoidMap:
        """Return the current map, which is immutable."""
        slope, offset = self._newton.parameters()
        return BinnedSigmoidMap(self.scale, slope, offset, [self._forecaster.forecast(i) for i in range(self.bins)])

    def _predict(self, x: float) -> float:
        return self._forecaster.forecast(bin_of(self._newton.predict(x), self.bins))

    def _step(self, x: float, y: float, w: float) -> None:
        place = bin_of(self._newton.predict(x), self.bins)
        self._newton.step(x, y, w)
        self._forecaster.learn(place, y, self._newton.relative)

    def _stream(self, scores: FloatArray, y: FloatArray, w: FloatArray, predictions: FloatArray) -> None:
        stream(self._newton, self._forecaster, scores, y, w, predictions)

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "newton": list(self._newton.state())}

    def _state_fields(self) -> dict[str, Reader]:
        return {**super()._state_fields(), "newton": newton_state(2, INITIAL_CURVATURE)}

    def _load(self, *_: Any, **fields: Any) -> None:
        super()._load(**fields)
        self._newton.load(*fields["newton"])
