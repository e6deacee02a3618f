"""`ELiTE`: the average of linear trends of all penalties, weighted by AICc."""

from __future__ import annotations

from typing import Unpack

from streamcal.calibrators.additive import AdditiveCalibrator, Common, Table
from streamcal.calibrators.linear_trend import TrendPath
from streamcal.maps.base import ScaledMap
from streamcal.maps.knots import KnotMap


class ELiTE(AdditiveCalibrator[Table]):
    """Ensemble of linear trend estimation: p = Σₜ aₜ pₜ / Σₜ aₜ with aₜ = exp(−½ (AICcₜ − min AICc)).

    pₜ are the fits of `LinearTrend` at its fifty penalties, clipped to [0, 1]; AICc is defined there. The map is not
    monotone.

    Parameters
    ----------
    scale, forgetting, prior, resolution, refresh_every
        See `LinearTrend`.

    Notes
    -----
    Paper 002 states weights by a Bayesian score derived from BDeu; here they are by AICc, as in the SDM paper.

    Cost: an observation O(log k) for k distinct scores (cells), a prediction after it the solve of `LinearTrend`, 0.2
    to 0.4 ms on the default grid; memory O(k).

    References
    ----------
    Naeini and Cooper, SDM 2016; paper 002, §2.2.6.

    Examples
    --------
    >>> cal = ELiTE()
    >>> cal.learn_many([0.2, 0.4, 0.6, 0.8] * 10, [0, 1, 0, 1] * 10)
    >>> cal.predict_one(0.4) > cal.predict_one(0.6)
    True
    """

    name = "elite"
    summary = "average of linear trends of all penalties, weighted by AICc"
    monotone = False
    default_resolution = 2048

    def __init__(self, **common: Unpack[Common]) -> None:
        self._path = TrendPath()
        super().__init__(**common)

    def solve(self, statistic: Table, start: ScaledMap | None) -> ScaledMap:
        x, weight, positive = statistic.columns()
        values = self._path.average(x, weight, positive, start is not None)
        return KnotMap(self.scale, x, values, statistic.grid)
