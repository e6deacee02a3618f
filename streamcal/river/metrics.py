"""The measures of `streamcal.metrics` as River metrics, for `progressive_val_score`, `utils.Rolling` and others.

All take the probability of the positive label, or River's dict of probabilities.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from river import metrics

from streamcal import metrics as measures
from streamcal.errors import InputError
from streamcal.metrics.corp import Loss
from streamcal.metrics.log_loss import LOG_LOSS_CLIP
from streamcal.parameters.inputs import as_number, check_label
from streamcal.river.bases import rounded

__all__ = [
    "AUC",
    "CORP",
    "Brier",
    "CalibrationRatio",
    "CalibrationSlope",
    "DebiasedECE",
    "EqualMassECE",
    "LogLoss",
    "NormalizedEntropy",
    "SmoothECE",
]


#: What to do about a label that is not known.
GIVE = "give labels of one type, and the positive one as pos_val"


class ProbabilityMetric(metrics.base.BinaryMetric):
    """A River metric that reads its value from a measure of `streamcal.metrics`, the attribute `measure`.

    Each subclass is called as its measure is, whose parameters it accepts, and `pos_val`, the positive label.
    """

    _fmt = ".6f"
    bigger_is_better = False
    requires_labels = False

    def __init__(self, measure: measures.Metric, pos_val: Any) -> None:
        super().__init__(pos_val=pos_val)
        self.measure = measure
        self.__dict__.update(measure._params())  # as attributes, which River's `clone` reads

    def update(self, y_true: Any, y_pred: float | dict[Any, float], w: float = 1.0) -> None:
        """Add a prediction (a probability, or River's dict of them) for the label `y_true`."""
        self.measure.update(self._label(y_true), self._probability(y_pred), w)

    def revert(self, y_true: Any, y_pred: float | dict[Any, float], w: float = 1.0) -> None:
        """Remove an earlier `update` with the same arguments."""
        self.measure.revert(self._label(y_true), self._probability(y_pred), w)

    def get(self) -> float:
        """Return the value; 0 if it is undefined, as before the first observation, like other River metrics."""
        value = self.measure.get()
        return 0.0 if value is None else value

    def _label(self, y_true: Any) -> bool:
        """Return whether a label is `pos_val`; `InputError` for a missing label, or one of another kind."""
        if self.pos_val is True:
            try:
                return check_label(y_true) > 0.0
            except InputError:
                raise InputError(f"label {y_true!r} is not binary; {GIVE}") from None
        if not self._is_alike(y_true):
            raise InputError(f"label {y_true!r} is of another type than pos_val={self.pos_val!r}; {GIVE}")
        return bool(y_true == self.pos_val)

    def _probability(self, y_pred: float | dict[Any, float]) -> float:
        if not isinstance(y_pred, dict):
            return _rounded(y_pred)
        if not y_pred:
            raise InputError("the prediction is {}, without probabilities; a CalibratedClassifier predicts ½ there")
        if self.pos_val not in y_pred and not all(map(self._is_alike, y_pred)):
            raise InputError(f"{y_pred!r} has no probability of pos_val={self.pos_val!r}; {GIVE}")
        return _rounded(y_pred.get(self.pos_val, 0.0))

    def _is_alike(self, label: Any) -> bool:
        """Return whether a label is of the type of `pos_val`; numbers share one type, a missing value has none."""
        numbers = (int, float, np.number, np.bool_)
        kind = numbers if isinstance(self.pos_val, numbers) else type(self.pos_val)
        return isinstance(label, kind) and label == label and label != ""


def _rounded(p: Any) -> float:
    """Return `rounded` of a probability; `InputError` for anything but a number."""
    return rounded(p if p.__class__ is float else as_number(p, "probability", "give a float in [0, 1]"))


class BestAtOne(ProbabilityMetric):
    """A metric whose best value is 1: the better of two is the one that is nearer to it."""

    def is_better_than(self, other: BestAtOne) -> bool:
        """Return whether the distance of this value from 1 is smaller; undefined values are worse than all others."""
        return self._distance() < other._distance()

    def _distance(self) -> float:
        value = self.measure.get()
        return math.inf if value is None else abs(value - 1.0)


class Brier(ProbabilityMetric):
    """The Brier score: mean of (p − y)², p being the probability of `pos_val`. Lower is better.

    Parameters
    ----------
    pos_val : Any
        The positive label.

    Examples
    --------
    >>> from river import utils
    >>> metric = Brier()
    >>> metric.update(True, {False: 0.5, True: 0.5})
    >>> metric
    Brier: 0.25
    >>> rolling = utils.Rolling(Brier, window_size=2)
    >>> for y, p in [(True, 0.0), (True, 0.5), (False, 0.5)]:
    ...     rolling.update(y, p)
    >>> rolling.get()
    0.25
    """

    def __init__(self, pos_val: Any = True) -> None:
        super().__init__(measures.Brier(), pos_val)


class LogLoss(ProbabilityMetric):
    """Mean logarithmic loss, of at most −log(clip): 13.8 nats, where River's own allows 34.5. Lower is better."""

    def __init__(self, clip: float = LOG_LOSS_CLIP, pos_val: Any = True) -> None:
        super().__init__(measures.LogLoss(clip), pos_val)


class NormalizedEntropy(ProbabilityMetric):
    """Log loss over that of the share of positives. Lower is better."""

    def __init__(self, clip: float = LOG_LOSS_CLIP, pos_val: Any = True) -> None:
        super().__init__(measures.NormalizedEntropy(clip), pos_val)


class CalibrationRatio(BestAtOne):
    """Predicted over observed positives. 1 is best."""

    def __init__(self, pos_val: Any = True) -> None:
        super().__init__(measures.CalibrationRatio(), pos_val)

    def _distance(self) -> float:
        value = self.measure.get()
        return abs(math.log(value)) if value else math.inf


class CalibrationSlope(BestAtOne):
    """Slope of a logistic recalibration, whose intercept is `measure.fit.intercept`. 1 is best."""

    def __init__(self, pos_val: Any = True) -> None:
        super().__init__(measures.CalibrationSlope(), pos_val)


class CORP(ProbabilityMetric):
    """Miscalibration of the CORP decomposition; `measure` has the other parts. Lower is better."""

    def __init__(self, loss: Loss = "brier", pos_val: Any = True) -> None:
        super().__init__(measures.CORP(loss), pos_val)


class EqualMassECE(ProbabilityMetric):
    """Calibration error over bins of equal mass. Lower is better."""

    def __init__(self, bins: int = 15, pos_val: Any = True) -> None:
        super().__init__(measures.EqualMassECE(bins), pos_val)


class DebiasedECE(ProbabilityMetric):
    """Calibration error over bins of equal mass, without its sampling bias. Lower is better."""

    def __init__(self, bins: int = 15, pos_val: Any = True) -> None:
        super().__init__(measures.DebiasedECE(bins), pos_val)


class SmoothECE(ProbabilityMetric):
    """Smooth calibration error, without bins. Lower is better."""

    def __init__(self, pos_val: Any = True) -> None:
        super().__init__(measures.SmoothECE(), pos_val)


class AUC(ProbabilityMetric):
    """Area under the ROC curve, with cells finer than River's thresholds. Higher is better."""

    bigger_is_better = True

    def __init__(self, pos_val: Any = True) -> None:
        super().__init__(measures.AUC(), pos_val)
