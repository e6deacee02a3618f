"""`CalibratedRegressor`: a River regressor whose predictive distributions are calibrated as it learns."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from river import base, linear_model, preprocessing

from streamcal.errors import InputError
from streamcal.learners.choosing import chosen
from streamcal.parameters.inputs import check_outcome, check_weight
from streamcal.parameters.types import Time
from streamcal.regression import METHODS, CalibratedDistribution, DistributionCalibrator, Normal, QuantileRecalibration
from streamcal.river.bases import ShowsCalibrator, taken_by_base, takes, takes_to_predict


class CalibratedRegressor(ShowsCalibrator, base.Wrapper, base.Regressor):
    """A River regressor, or a pipeline that ends in one, with its predictive distribution calibrated online.

    The forecast of x is a normal distribution. Of a base whose `predict_one` has the option `with_dist`, such as
    `BayesianLinearRegression`, it is the one that the base gives. Of any other its mean is what the base predicts and
    its variance the mean squared error of the base's past predictions, each made before its outcome was learned.

    `learn_one(x, y)` first takes the forecast of x, as it is before (x, y) is learned; the calibrator learns that y
    followed it; then the scale of the residuals, then the base learns. `predict_distribution_one` is the calibrated
    forecast and `predict_one` its mean.

    Parameters
    ----------
    regressor : river.base.Regressor
        The base. It is taken as it is and learns on, as in every River wrapper.
    calibrator : str, DistributionCalibrator or None
        A method, or its name, as in "conformal-predictive". A clone of it learns, and is the attribute `calibrator`;
        the one given is never changed. None is
        `QuantileRecalibration(smoothing=1.0, resolution=64)`: fixed memory, and no support to be known.
    half_life : float or None
        Observations after which a squared residual counts half in the scale; None (default) counts all alike. A base
        that begins with large errors, or a stream that drifts, wants one. With `with_dist` it is not used.

    Notes
    -----
    Before the first residual, and where the base predicts nothing finite, there is no forecast: the calibrator learns
    nothing, `predict_one` is what the base says, and `predict_distribution_one` is None. A residual whose square is no
    finite float, of a base that diverges, has no part in the scale. One scale for all x is the
    assumption of ordinary least squares; give the calibrator what follows the outcome's scale, or a base with
    distributions, where it does not hold.

    Weights, times and other keywords go where those of `CalibratedClassifier` go. Errors: `InputError` for a
    regressor or calibrator of another kind, or an outcome that is not finite; nothing has learned then.

    >>> from river import datasets, evaluate, linear_model, metrics, preprocessing
    >>> base = preprocessing.StandardScaler() | linear_model.LinearRegression()
    >>> model = CalibratedRegressor(base, half_life=100)
    >>> for x, y in datasets.TrumpApproval():
    ...     model.learn_one(x, y)
    >>> forecast = model.predict_distribution_one(x)
    >>> forecast.ppf(0.05) < y < forecast.ppf(0.95)
    True
    """

    def __init__(
        self,
        regressor: base.Regressor,
        calibrator: str | DistributionCalibrator | None = None,
        half_life: float | None = None,
    ) -> None:
        if not isinstance(regressor, base.Regressor):
            raise InputError(f"regressor={regressor!r} is not a River regressor, nor a pipeline that ends in one")
        calibrator = QuantileRecalibration(1.0, resolution=64) if calibrator is None else calibrator
        calibrator = chosen(calibrator, DistributionCalibrator, METHODS, "a calibrator of distributions")
        if half_life is not None and not (isinstance(half_life, (int, float)) and 0.0 < half_life < math.inf):
            raise InputError(f"half_life={half_life!r} is not possible; give None or a finite number above 0")
        self.regressor = regressor
        self.calibrator = calibrator.clone()
        self.half_life = half_life
        self._for_base = frozenset(name for name in ("w", "t") if takes(regressor, name))
        self._with_dist = takes_to_predict(regressor, "with_dist")
        self._weight = 0.0
        self._squares = 0.0

    @property
    def _wrapped_model(self) -> base.Regressor:
        return self.regressor

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"regressor": preprocessing.StandardScaler() | linear_model.LinearRegression(), "half_life": 50}
        # Scaled: without, the base by itself depends on the order of features, in the fourth digit.
        yield {"regressor": preprocessing.StandardScaler() | linear_model.BayesianLinearRegression()}

    @property
    def residual_sd(self) -> float | None:
        """Root of the mean squared residual, by weight and age; None before there is one."""
        return math.sqrt(self._squares / self._weight) if self._weight > 0.0 else None

    def learn_one(self, x: dict[Any, Any], y: float, w: float = 1.0, t: Time | None = None, **kwargs: Any) -> None:
        """Learn that the features `x` came with the outcome `y`, with weight `w` ≥ 0, at time `t`."""
        outcome, weight = check_outcome(y), check_weight(w)
        forecast = self._forecast(x)
        if forecast is not None:
            self.calibrator.learn_one(forecast, outcome, w, t)
        if not self._with_dist:
            self._learn_scale(outcome, self.regressor.predict_one(x), weight)
        self.regressor.learn_one(x, y, **kwargs, **taken_by_base(self._for_base, w, t))

    def predict_one(self, x: dict[Any, Any], t: Time | None = None, **kwargs: Any) -> Any:
        """The mean of the calibrated forecast, as of time `t`; what the base says, where there is none. Changes
        nothing."""
        calibrated = self.predict_distribution_one(x, t, **kwargs)
        return self.regressor.predict_one(x, **kwargs) if calibrated is None else calibrated.mean

    def predict_distribution_one(
        self, x: dict[Any, Any], t: Time | None = None, **kwargs: Any
    ) -> CalibratedDistribution | None:
        """The calibrated forecast, as of time `t`; None where there is none. Changes nothing."""
        forecast = self._forecast(x, **kwargs)
        return None if forecast is None else self.calibrator.predict_one(forecast, t)

    def _forecast(self, x: dict[Any, Any], **kwargs: Any) -> Normal | None:
        """The normal distribution that the base predicts, None if it has no finite one."""
        if self._with_dist:
            found = self.regressor.predict_one(x, with_dist=True, **kwargs)
            mean, sd = found.mu, found.sigma
        else:
            mean, sd = self.regressor.predict_one(x, **kwargs), self.residual_sd
        if mean is None or sd is None or not (math.isfinite(mean) and 0.0 < sd < math.inf):
            return None
        return Normal(mean, sd)

    def _learn_scale(self, y: float, predicted: float | None, w: float) -> None:
        if w == 0.0 or predicted is None or not math.isfinite(predicted):
            return
        kept = 1.0 if self.half_life is None else 0.5 ** (1.0 / self.half_life)
        error = y - predicted
        squares = kept * self._squares + w * error * error  # not ** 2, which raises where a float overflows
        if squares < math.inf:
            self._weight, self._squares = kept * self._weight + w, squares
