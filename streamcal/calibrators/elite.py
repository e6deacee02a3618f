"""`ELiTE`: the average of linear trends of all penalties, weighted by AICc."""

from __future__ import annotations

import numpy as np

from streamcal.calibrators.additive import AdditiveCalibrator
from streamcal.calibrators.linear_trend import trend_path
from streamcal.maps.base import ScaledMap
from streamcal.maps.knots import KnotMap
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.prior import Prior
from streamcal.parameters.scales import Probability, Scale
from streamcal.statistics.base import Statistic
from streamcal.statistics.score_table import GridTable, score_table


class ELiTE(AdditiveCalibrator):
    """Ensemble of linear trend estimation: p = Σₜ aₜ pₜ / Σₜ aₜ with aₜ = exp(−½ (AICcₜ − min AICc)).

    pₜ are the fits of `LinearTrend` at its fifty penalties, clipped to [0, 1]; AICc is explained there. Not monotone.

    Parameters
    ----------
    scale, forgetting, prior, resolution, refresh_every
        See `LinearTrend`.

    Notes
    -----
    An observation costs O(log k) for k distinct scores (cells), a prediction after it what one of `LinearTrend` does,
    about 20 ms for 20,000 scores on the default grid. Naeini and Cooper, SDM 2016; paper 002, §2.2.6.

    >>> cal = ELiTE()
    >>> cal.learn_many([0.2, 0.4, 0.6, 0.8] * 10, [0, 1, 0, 1] * 10)
    >>> cal.predict_one(0.4) > cal.predict_one(0.6)
    True
    """

    name = "elite"
    summary = "average of linear trends of all penalties, weighted by AICc"
    monotone = False

    def __init__(
        self,
        *,
        scale: Scale = Probability(),
        forgetting: Forgetting = Forever(),
        prior: Prior | None = None,
        resolution: int | None = 2048,
        refresh_every: int = 1,
    ) -> None:
        super().__init__(
            scale=scale, forgetting=forgetting, prior=prior, resolution=resolution, refresh_every=refresh_every
        )

    def _new_statistic(self) -> Statistic:
        self._table = score_table(self.scale, self.resolution)
        return self._table

    def _solve(self, unit: float) -> ScaledMap:
        x, weight, positive = self._table.columns()
        models = list(trend_path(x, weight, positive, unit))
        criteria = np.array([criterion for criterion, _ in models])
        shares = np.exp(-0.5 * (criteria - criteria.min()))
        values = np.clip(shares @ np.array([fit for _, fit in models]) / shares.sum(), 0.0, 1.0)
        return KnotMap(self.scale, x, values, self._table.grid if isinstance(self._table, GridTable) else None)
