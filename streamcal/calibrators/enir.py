"""`ENIR`: the average of all nearly-isotonic fits, weighted by BIC."""

from __future__ import annotations

import numpy as np

from streamcal.calibrators.additive import AdditiveCalibrator, Table
from streamcal.calibrators.near_isotonic import NEGLIGIBLE, follow_path
from streamcal.maps.base import ScaledMap
from streamcal.maps.knots import KnotMap


class ENIR(AdditiveCalibrator[Table]):
    """Ensemble of near-isotonic regressions: p = Σₜ aₜ pₜ / Σₜ aₜ with aₜ = exp(−½ (BICₜ − min BIC)).

    pₜ is the near-isotonic fit at the t-th breakpoint of its path (`NearIsotonic`), from λ = 0 to the isotonic fit, and
    BIC = −2 log L + d log max(W, 1): L the likelihood of the labels, d the number of blocks, W the total weight. The
    map is not monotone.

    Parameters
    ----------
    scale, forgetting, prior, resolution, refresh_every
        See `NearIsotonic`.

    Notes
    -----
    Paper 002 states weights by a Bayesian score derived from BDeu; here they are by BIC, as in the ICDM paper.

    The authors' code omits λ = 0, which reproduces the labels where no two scores are equal, and shrinks the value of
    each block towards its mean score; neither is done here. Cost: an observation O(log k) for k distinct scores
    (cells), a prediction after it O(k²) in the worst case, 0.1 ms on the default grid; memory O(k).

    References
    ----------
    Naeini and Cooper, ICDM 2016 (model averaging by BIC); paper 002, §2.2.6.

    Examples
    --------
    >>> cal = ENIR()
    >>> cal.learn_many([0.2, 0.4, 0.6, 0.8] * 10, [0, 1, 0, 1] * 10)
    >>> cal.predict_one(0.4) > cal.predict_one(0.6)
    True
    """

    name = "enir"
    summary = "average of all near-isotonic fits, weighted by BIC"
    monotone = False
    default_resolution = 1024

    def solve(self, statistic: Table, start: ScaledMap | None) -> ScaledMap:
        x, weight, positive = statistic.columns()
        values = np.zeros(len(x))
        follow_path(weight, positive, values, NEGLIGIBLE, average=True)
        values = np.clip(values, 0.0, 1.0)  # rounding
        return KnotMap(self.scale, x, values, statistic.grid)
