"""`CalibeatenOPS`: the base of the two calibeating methods, online Platt scaling whose forecasts are binned."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from streamcal.calibrators.online_platt import INITIAL_CURVATURE, NEWTON_GAMMA, RADIUS, newton_state
from streamcal.calibrators.sequential import SequentialCalibrator
from streamcal.errors import InputError
from streamcal.kernels.online_newton import OnlineNewton
from streamcal.maps.steps import BinnedSigmoidMap, bin_of
from streamcal.parameters.inputs import check_score
from streamcal.parameters.scales import LOGIT_LIMIT, Logit
from streamcal.parameters.types import Label, Time
from streamcal.states import Reader

#: `HedgedOPS` keeps two tables of bins² numbers: 16 MB.
MOST_BINS = 1_000


class CalibeatenOPS(SequentialCalibrator):
    """Online Platt scaling, whose forecast determines only the bin, of `bins` bins of equal width, of an observation.

    The prediction is a function of the bin and of the outcomes of earlier forecasts in it. A subclass defines this
    function (`_forecast`) and its update (`_learn`).
    """

    monotone = False

    def __init__(self, bins: int) -> None:
        if isinstance(bins, bool) or not isinstance(bins, int) or not 1 <= bins <= MOST_BINS:
            raise InputError(f"bins={bins!r} is not possible; give a whole number from 1 to {MOST_BINS:,}")
        super().__init__()
        self.bins = bins
        self.scale = Logit()
        self._newton = OnlineNewton((1.0, 0.0), NEWTON_GAMMA, INITIAL_CURVATURE, RADIUS, 1.0, LOGIT_LIMIT)

    @abstractmethod
    def _forecast(self, i: int) -> float:
        """The current prediction of bin `i`."""

    @abstractmethod
    def _learn_bin(self, i: int, y: float, w: float) -> None:
        """Update bin `i` with the label `y` of weight `w`."""

    @property
    def n(self) -> float:
        return self._newton.weight

    def predict_one(self, score: float, t: Time | None = None) -> float:
        p = self._newton.predict_fast(score)
        if p != p:
            p = self._newton.predict(self.scale.coordinate(check_score(score)))
        return self._forecast(bin_of(p, self.bins))

    def learn_one(self, score: float, y: Label, w: float = 1.0, t: Time | None = None) -> None:
        p = self._newton.predict_fast(score)
        if self._newton.learn_fast(score, y, w):
            self._learn_bin(bin_of(p, self.bins), 1.0 if y else 0.0, w)
        else:
            super().learn_one(score, y, w, t)

    def map(self) -> BinnedSigmoidMap:
        slope, offset = self._newton.parameters()
        return BinnedSigmoidMap(self.scale, slope, offset, [self._forecast(i) for i in range(self.bins)])

    def _step(self, x: float, y: float, w: float) -> None:
        self._learn_bin(bin_of(self._newton.predict(x), self.bins), y, w)
        self._newton.step(x, y, w)

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "newton": list(self._newton.state())}

    def _state_fields(self) -> dict[str, Reader]:
        return {**super()._state_fields(), "newton": newton_state(2, INITIAL_CURVATURE)}

    def _load(self, *_: Any, **fields: Any) -> None:
        super()._load(**fields)
        self._newton.load(*fields["newton"])
