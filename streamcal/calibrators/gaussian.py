"""`Gaussian`: the sigmoid of two normal distributions with one variance."""

from __future__ import annotations

from typing import Literal

from streamcal.calibrators.additive import AdditiveCalibrator
from streamcal.kernels.normal.recent_moments import normal_line
from streamcal.maps.base import IdentityMap, ScaledMap
from streamcal.maps.sigmoids import SigmoidMap
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.numbers import one_of
from streamcal.parameters.prior import Prior
from streamcal.parameters.scales import LOGIT_LIMIT, Logit, Scale
from streamcal.parameters.types import FloatArray
from streamcal.statistics.base import Piece
from streamcal.statistics.label_moments import LabelMoments

#: The largest difference of the log-odds of two scores as far apart as the two means.
STEEPEST = 2.0 * LOGIT_LIMIT


class Gaussian(AdditiveCalibrator[LabelMoments]):
    """Bayes' rule for two normal densities of the coordinate x, with means μ₀ < μ₁ and one variance σ².

        p = 1 / (1 + exp(−(a·x + b))),   a = (μ₁ − μ₀)/σ²,   b = log(W₁/W₀) − a·(μ₀ + μ₁)/2

    W_y and μ_y are the weight and the mean of the observations with label y. There is no iteration, and no log loss is
    minimised: the map is calibrated where both densities are normal and biased otherwise, also in the base rate.

    Parameters
    ----------
    variance : {"within", "total"}
        `"within"`: σ² = Σ w (x − μ_y)² / W about the mean of each observation's own label, the maximum-likelihood
        estimate. `"total"`: Σ w (x − μ)² / (W − 1) about the common mean, which is eq. (6) as printed. It includes the
        difference of the means in the variance, so that its slope is too flat: 1.09 instead of 1.99 on normal data two
        deviations apart.
    scale : Scale
        Default `Logit()`: normal log-odds. The paper's scores are the margins of a classifier: `Interval()`.
    forgetting, prior
        See `AdditiveCalibrator`.

    Notes
    -----
    While one label is missing, the prediction is the score itself. Where μ₁ ≤ μ₀, a = 0, the maximum likelihood under
    a ≥ 0: p is the share of positives; so it is under `"total"` for W ≤ 1. Means within a relative difference of 1e-9
    are equal. σ² is at least (μ₁ − μ₀)²/32, so that at the means a score changes the log-odds by at most ±16, the limit
    of `Logit`, also where σ² is 0.

    Cost: O(1) time and memory. The sums are exact integers, so that order, merging and retraction change no bit.
    Retracting what was never learned is refused where it would leave a negative weight or variance.

    References
    ----------
    Paper 002, §2.1, eq. (5) to (7).

    Examples
    --------
    >>> cal = Gaussian()
    >>> cal.learn_many([0.2, 0.4, 0.3, 0.6, 0.5, 0.8], [0, 0, 1, 0, 1, 1])
    >>> round(cal.predict_one(0.7), 3)
    0.714
    """

    name = "gaussian"
    summary = "Bayes' rule for two normal densities of one variance, O(1)"
    default_resolution = None

    def __init__(
        self,
        variance: Literal["within", "total"] = "within",
        *,
        scale: Scale = Logit(),
        forgetting: Forgetting = Forever(),
        prior: Prior | None = None,
    ) -> None:
        self.variance = one_of(variance, "variance", ("within", "total"))
        super().__init__(scale=scale, forgetting=forgetting, prior=prior)
        # Under other policies each prediction is made from sums of integers.
        self.streams = isinstance(forgetting, Forever)

    def new_statistic(self) -> LabelMoments:
        return LabelMoments(self.scale)

    def _map_of(self, statistic: LabelMoments) -> ScaledMap:
        # `solve` knows by itself whether anything is held
        return self._engine.solved_or_last(self, statistic)

    def solve(self, statistic: LabelMoments, start: ScaledMap | None) -> ScaledMap:
        summary = statistic.summary(within=self.variance == "within")
        if summary is None:
            return IdentityMap(self.scale)
        weight = 0.0 if self.variance == "within" else statistic.n
        return SigmoidMap(self.scale, *normal_line(*summary, weight, STEEPEST))

    def _stream(self, x: FloatArray, y: FloatArray, piece: Piece, predictions: FloatArray) -> None:
        statistic, within, row, p = self._memory.statistic, self.variance == "within", 0, predictions[0]
        while (row := statistic.stream(x, y, piece.w, row, within=within, steepest=STEEPEST, p=p)) < len(x):
            p[row] = self.solve(statistic, None).at(float(x[row]))
            if piece.w[row] > 0.0:
                statistic.update(float(x[row]), float(y[row]), float(piece.w[row]))
            row += 1
