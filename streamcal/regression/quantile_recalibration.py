"""`QuantileRecalibration`: predicted levels are replaced by the observed frequencies of outcomes below them."""

from __future__ import annotations

from typing import Literal

from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.numbers import real_number
from streamcal.regression.pit_calibrator import Levels, PITCalibrator


class QuantileRecalibration(PITCalibrator):
    """Quantile recalibration: the cdf R(F(t)), where R(u) is the frequency of outcomes with Fᵢ(yᵢ) ≤ u.

    Kuleshov, Fenner and Ermon fit R by isotonic regression to the pairs (uᵢ, share of PITs ≤ uᵢ). These increase
    together already, so that isotonic regression does not change them: R is the empirical cdf of the PITs, at the PITs,
    and linear between them, from (0, 0) to (1, 1); equal PITs are a jump. It is exact on a stream.

    Parameters
    ----------
    smoothing : float
        s ≥ 0: R becomes (W·R(u) + s·u)/(W + s), where W is the weight held: a pseudo-weight along the identity, for a
        stable start and a density above 0 everywhere. Default 0: the paper's R.
    forgetting, resolution, scale
        See `PITCalibrator`.

    Notes
    -----
    R corrects levels on average over all distributions, and does not depend on the distribution it corrects.
    With smoothing=0 the density above the largest PIT held is 0, and on a grid also in empty cells: there the
    log-likelihood is −∞. `ConformalPredictive` keeps a mass of 1/(n + 1) there. Between exact PITs the density is
    rough: for densities give a `resolution`. Where forecasts are several times too narrow or too wide, correct their
    scale first: `Composition` of `ScaleRecalibration` and this method. Cost: that of `PITCalibrator`.

    References
    ----------
    Kuleshov, Fenner and Ermon, Accurate uncertainties for deep learning using calibrated regression, ICML 2018,
    algorithm 1.

    Examples
    --------
    >>> from streamcal.regression import Normal
    >>> cal = QuantileRecalibration()
    >>> cal.learn_many([Normal(0.0, 1.0)] * 4, [-2.0, -1.0, 1.0, 2.0])
    >>> calibrated = cal.predict_one(Normal(5.0, 1.0))
    >>> round(calibrated.cdf(4.0), 6), round(calibrated.ppf(0.75), 6)
    (0.5, 6.0)
    """

    name = "quantile-recalibration"
    summary = "isotonic map of the predicted levels (the PIT), exact on a stream"

    def __init__(
        self,
        smoothing: float = 0.0,
        *,
        forgetting: Forgetting = Forever(),
        resolution: int | None = None,
        scale: Literal["normal", "uniform"] = "normal",
    ) -> None:
        self.smoothing = real_number(smoothing, "smoothing", "a finite weight of at least 0", least=0.0)
        super().__init__(forgetting=forgetting, resolution=resolution, scale=scale)

    def _levels(self) -> Levels:
        return Levels(self.smoothing, 0.0)
