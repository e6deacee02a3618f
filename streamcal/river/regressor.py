"""`CalibratedRegressor`: a River regressor with predictive distributions that are calibrated online."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator
from typing import Any

from river import base, linear_model, preprocessing

from streamcal.errors import InputError
from streamcal.learners.choosing import chosen
from streamcal.learners.pending import Pending
from streamcal.names import suggesting
from streamcal.parameters.inputs import check_outcome, check_weight
from streamcal.parameters.numbers import real_number
from streamcal.parameters.types import Time
from streamcal.regression import METHODS, CalibratedDistribution, Composition, DistributionCalibrator, Normal, Sample
from streamcal.river.bases import Issues, Regressor, ShowsCalibrator, taken_by_base, takes, takes_to_predict

#: How many residuals are held, and which share of them the size of a residual is compared with; of a standard normal
#: variable, 9 of 10 are within ±1.645.
RESIDUALS, SHARE, OF_NORMAL = 50, 0.9, 1.645
#: A residual, or mean squared error, this many times as large is out of proportion.
MOST = 10.0
#: The same for a correction of the mean, in s: nine residuals of ten, bias included, are within 1.645 s.
MOST_MOVED = 3.0


class CalibratedRegressor(Issues, ShowsCalibrator, base.Wrapper, base.Regressor):
    """A River regressor, or a pipeline that ends in one, with its predictive distribution calibrated online.

    The forecast of x is a normal distribution. If `predict_one` of the base has the option `with_dist`, as in
    `BayesianLinearRegression`, it is the distribution returned by the base. For other bases its mean is the prediction
    of the base, and its variance the mean squared error of past predictions, each made before its outcome was learned.
    The Notes explain how outliers, and first rows in which a base diverges, are kept out of it.

    `learn_one(x, y)` first makes the forecast of x; the calibrator learns (forecast, y), unless y is out of proportion
    (see the Notes); then the mean squared error is updated, and the base learns (x, y). `predict_distribution_one`
    returns the calibrated forecast and `predict_one` its mean.

    Parameters
    ----------
    regressor : river.base.Regressor
        The base model. It is not cloned, and continues to learn, as in all River wrappers.
    calibrator : str, DistributionCalibrator or None
        The calibrator to clone, or its name such as "conformal-predictive"; the clone is the attribute `calibrator`.
        None means `Composition()`: the scale of the forecasts is corrected, then the shape that is left, then the
        coverage of intervals. It has fixed memory, forgets, and needs no support.
    half_life : float or None
        Half-life, in observations, of squared residuals in the mean squared error; None (default) weights all alike.
        Recommended if the base starts with large errors, or the stream drifts. Not used with `with_dist`.

    Raises
    ------
    InputError
        For a regressor or calibrator of another kind, an outcome that is not finite, or a base that predicts what is no
        number; nothing has then been learned.

    Notes
    -----
    Learning costs a prediction and a step of the base, and a step of the calibrator; a prediction costs one of each.

    Before the first residual, and if the prediction of the base is not finite, there is no forecast: the calibrator
    does not learn, `predict_one` returns the prediction of the base, and `predict_distribution_one` None.

    Let s be the standard deviation that the last 50 residuals, or all while there are fewer, would have if they were
    normal, by their 90 % quantile: |residual| / 1.645. A residual that is larger than 10 s counts as 10 s in the mean
    squared error; where the root of that exceeds 10 s, all residuals but the last 50 are forgotten. So an outlier does
    not widen the forecasts of the base from the tenth row on; of fewer residuals s is that of the largest. First errors
    of any size are forgotten once they are a tenth of the last 50, or fewer. Where more than nine residuals of ten are
    0, s is 0, and neither cap is applied. Residuals whose squares overflow are left out.

    The calibrator learns every outcome but those whose residual is more than ten times the largest of the last 50: such
    a residual comes from a base that has diverged, and does not describe its next forecasts. The next outcome is
    learned unless its residual is ten times as large again, so that a change of any size costs the calibrator one row.
    The default calibrator then widens its intervals for some hundred rows. With `with_dist` every outcome is learned.

    One variance for all x is the assumption of ordinary least squares; where it does not hold, use a base with
    predictive distributions.

    Weights, times and other keywords are passed on as in `CalibratedClassifier`. For late outcomes there are `issue`
    and `settle`: the residual is that of the prediction as issued.

    Examples
    --------
    >>> from river import datasets, evaluate, linear_model, metrics, preprocessing
    >>> base = preprocessing.StandardScaler() | linear_model.LinearRegression()
    >>> model = CalibratedRegressor(base, half_life=100)
    >>> for x, y in datasets.TrumpApproval():
    ...     model.learn_one(x, y)
    >>> forecast = model.predict_distribution_one(x)
    >>> forecast.ppf(0.05) < y < forecast.ppf(0.95)
    True
    """

    @suggesting
    def __init__(
        self,
        regressor: Regressor,
        calibrator: str | DistributionCalibrator | None = None,
        half_life: float | None = None,
    ) -> None:
        if not isinstance(regressor, base.Regressor):
            raise InputError(f"regressor={regressor!r} is not a River regressor, nor a pipeline that ends in one")
        calibrator = Composition() if calibrator is None else calibrator
        calibrator = chosen(calibrator, DistributionCalibrator, METHODS, "a calibrator of distributions")
        if half_life is not None:
            half_life = real_number(half_life, "half_life", "None or a finite number above 0", above=0.0)
        self.regressor = regressor
        self.calibrator = calibrator.clone()
        self.half_life = half_life
        self._for_base = frozenset(name for name in ("w", "t") if takes(regressor, name))
        self._with_dist = takes_to_predict(regressor, "with_dist")
        self._weight = 0.0
        self._squares = 0.0
        #: The last residuals, without sign, and their weights; and the residuals alone, ascending.
        self._residuals: deque[tuple[float, float]] = deque()
        self._sorted: list[float] = []

    @property
    def _wrapped_model(self) -> Regressor:
        return self.regressor

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"regressor": preprocessing.StandardScaler() | linear_model.LinearRegression(), "half_life": 50}
        # Scaled, because without scaling the base alone depends on the order of features, in the fourth digit.
        yield {"regressor": preprocessing.StandardScaler() | linear_model.BayesianLinearRegression()}

    @property
    def residual_sd(self) -> float | None:
        """Root mean squared residual, with the weights of `half_life` (see the Notes); None before the first one."""
        return math.sqrt(self._squares / self._weight) if self._weight > 0.0 else None

    def learn_one(self, x: dict[Any, Any], y: float, w: float = 1.0, t: Time | None = None, **kwargs: Any) -> None:
        """Learn that the outcome of the features `x` was `y`, with weight `w` ≥ 0, at time `t`."""
        outcome, weight = check_outcome(y), check_weight(w)
        mean, sd = self._predicted(x)
        forecast = _normal(mean, sd)
        if forecast is not None and not self._out_of_proportion(outcome - forecast.mean):
            self.calibrator.learn_one(forecast, outcome, w, t)
        if not self._with_dist:
            self._learn_scale(outcome, mean, weight)
        self.regressor.learn_one(x, y, **kwargs, **taken_by_base(self._for_base, w, t))

    def _issued(self, x: dict[Any, Any], t: Time | None, w: float) -> tuple[Any, Any]:
        """Without a forecast, keep the mean that the base predicts, for the residual."""
        mean, sd = self._predicted(x)
        forecast = _normal(mean, sd)
        if forecast is None:
            return self._certain(mean, sd), None if mean is None else array("d", [mean])
        issued = self.calibrator.issue(forecast, t, w=w)
        return issued.p, issued

    def _learn_keyed(self, x: dict[Any, Any], keys: Any, y: float, record: Any, w: float, t: Time | None) -> None:
        outcome, weight = check_outcome(y), check_weight(w)
        if isinstance(record, Pending):
            mean: float | None = record.x.mean
            self.calibrator.settle(record, None if self._out_of_proportion(outcome - record.x.mean) else outcome, w, t)
        else:
            mean = record[0] if record else None
        if not self._with_dist:
            self._learn_scale(outcome, mean, weight)
        self.regressor.learn_one(x, y, **taken_by_base(self._for_base, w, t))

    def predict_one(self, x: dict[Any, Any], t: Time | None = None, **kwargs: Any) -> Any:
        """Return the mean of the calibrated forecast, as of time `t`; without a forecast, the prediction of the base.

        If that mean is further than 3 s from the base's prediction, as after an outlier, the base's prediction is
        returned. s is as in the Notes, but with fewer than ten residuals it is that of the second largest. Nothing is
        learned.
        """
        if self._with_dist:
            calibrated = self.predict_distribution_one(x, t, **kwargs)
            return self.regressor.predict_one(x, **kwargs) if calibrated is None else calibrated.mean
        own = self.regressor.predict_one(x, **kwargs)
        forecast = _normal(_number(own), self.residual_sd)
        if forecast is None:
            return own
        mean = self.calibrator.predict_one(forecast, t).mean
        return own if abs(mean - own) > MOST_MOVED * self._recent_sd(left_out=1) else mean

    def predict_distribution_one(
        self, x: dict[Any, Any], t: Time | None = None, **kwargs: Any
    ) -> CalibratedDistribution | None:
        """Return the calibrated forecast, as of time `t`; None if there is no forecast. The state does not change.

        While all residuals are 0, as of a stream that begins with zeros, it is the prediction of the base alone.
        """
        mean, sd = self._predicted(x, **kwargs)
        forecast = _normal(mean, sd)
        return self._certain(mean, sd) if forecast is None else self.calibrator.predict_one(forecast, t)

    def _certain(self, mean: float | None, sd: float | None) -> Sample | None:
        """Return the prediction of the base alone while all residuals are 0, else None."""
        return Sample([mean]) if sd == 0.0 and mean is not None and math.isfinite(mean) else None

    def _predicted(self, x: dict[Any, Any], **kwargs: Any) -> tuple[float | None, float | None]:
        """Return the mean and standard deviation that the base predicts; `InputError` for anything but numbers."""
        if self._with_dist:
            forecast = self.regressor.predict_one(x, with_dist=True, **kwargs)
            return _number(forecast.mu), _number(forecast.sigma)
        return _number(self.regressor.predict_one(x, **kwargs)), self.residual_sd

    def _learn_scale(self, y: float, predicted: float | None, w: float) -> None:
        if w == 0.0 or predicted is None or not math.isfinite(predicted):
            return
        error = abs(y - predicted)
        if not error * error * w < math.inf:  # not ** 2, which raises where a float overflows
            return
        self._add_residual(error, w)
        most = MOST * self._recent_sd() or math.inf
        self._add(min(error, most), w)
        if self._squares > most * most * self._weight:
            self._weight = self._squares = 0.0
            for residual, weight in self._residuals:
                self._add(min(residual, most), weight)

    def _add(self, error: float, w: float) -> None:
        decay = 1.0 if self.half_life is None else 0.5 ** (1.0 / self.half_life)
        squares = decay * self._squares + w * error * error
        if squares < math.inf:
            self._weight, self._squares = decay * self._weight + w, squares

    def _add_residual(self, error: float, w: float) -> None:
        """Hold a residual in place of the oldest one."""
        if len(self._residuals) == RESIDUALS:
            del self._sorted[bisect_left(self._sorted, self._residuals.popleft()[0])]
        self._residuals.append((error, w))
        insort(self._sorted, error)

    def _recent_sd(self, left_out: int = 0) -> float:
        """Return s of the Notes, leaving out at least the `left_out` largest residuals; ∞ before the first one."""
        size = len(self._sorted)
        place = min(math.ceil(SHARE * size), size - left_out)
        return self._sorted[max(place, 1) - 1] / OF_NORMAL if size else math.inf

    def _out_of_proportion(self, error: float) -> bool:
        """Return whether a residual is too large to be learned; False if none is held, or all are 0."""
        largest = self._sorted[-1] if self._sorted else 0.0
        return largest > 0.0 and abs(error) > MOST * largest


def _number(predicted: Any) -> float | None:
    """Return a prediction of the base as a float, or None; `InputError` for a value that is no number."""
    if predicted is None:
        return None
    try:
        if not isinstance(predicted, (str, bytes)):
            return float(predicted)  # arrays and tensors of one number, too
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(f"the base predicts {predicted!r}; its predictions have to be numbers")


def _normal(mean: float | None, sd: float | None) -> Normal | None:
    """Return the forecast of the base; None if it has none, or one that is not finite."""
    if mean is None or sd is None or not (math.isfinite(mean) and 0.0 < sd < math.inf):
        return None
    return Normal(mean, sd)
