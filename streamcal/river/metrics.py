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
from streamcal.parameters.inputs import check_label
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
    """A River metric that reads its value from a measure of `streamcal.metrics`, the attribute `measure`."""

    _fmt = ".6f"

    def __init__(self, measure: measures.Metric, pos_val: Any) -> None:
        super().__init__(pos_val=pos_val)
        self.measure = measure

    @property
    def bigger_is_better(self) -> bool:
        """Return whether a higher value is better."""
        return False

    @property
    def requires_labels(self) -> bool:
        """Return whether labels are required, rather than probabilities."""
        return False

    def update(self, y_true: Any, y_pred: float | dict[Any, float], w: float = 1.0) -> None:
        """Add a prediction (a probability, or River's dict of them) for the label `y_true`."""
        self.measure.update(self._probability(y_pred), self._label(y_true), w)

    def revert(self, y_true: Any, y_pred: float | dict[Any, float], w: float = 1.0) -> None:
        """Remove an earlier `update` with the same arguments."""
        self.measure.revert(self._probability(y_pred), self._label(y_true), w)

    def get(self) -> float:
        """The value; 0 where it is undefined, as before the first observation, like other River metrics."""
        value = self.measure.value
        return 0.0 if value is None else value

    def _label(self, y_true: Any) -> bool:
        """Whether a label is `pos_val`; `InputError` for one that is of another kind than `pos_val`, or missing."""
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
            return rounded(y_pred)
        if self.pos_val not in y_pred and not (y_pred and all(map(self._is_alike, y_pred))):
            raise InputError(f"{y_pred!r} has no probability of pos_val={self.pos_val!r}; {GIVE}")
        return rounded(y_pred.get(self.pos_val, 0.0))

    def _is_alike(self, label: Any) -> bool:
        """Whether a label is of the type of `pos_val`; numbers are of one, and a missing value of none."""
        numbers = (int, float, np.number, np.bool_)
        kind = numbers if isinstance(self.pos_val, numbers) else type(self.pos_val)
        return isinstance(label, kind) and label == label and label != ""


class BestAtOne(ProbabilityMetric):
    """A metric whose best value is 1: the better of two is the one that is nearer to it."""

    def is_better_than(self, other: BestAtOne) -> bool:
        """Whether the distance of this value from 1 is smaller; undefined values are worse than all others."""
        return self._distance() < other._distance()

    def _distance(self) -> float:
        value = self.measure.value
        return math.inf if value is None else abs(value - 1.0)


class Brier(ProbabilityMetric):
    """The Brier score as a River metric: mean of (p − y)², p being the probability of `pos_val`. Lower is better.

    Parameters
    ----------
    pos_val : Any
        The positive label.

    Notes
    -----
    O(1) per update, in fixed memory.

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
    """`streamcal.metrics.LogLoss` as a River metric: mean logarithmic loss with a bound of −log(clip). Lower is better.

    River's own clips at 1e-15, so that one certainty that fails costs 34.5 nats instead of 13.8.

    Parameters
    ----------
    clip : float
        Probability above 0 and below 1.
    pos_val : Any
        The positive label.

    Examples
    --------
    >>> metric = LogLoss()
    >>> metric.update(True, 0.0)
    >>> metric
    LogLoss: 13.815511
    """

    def __init__(self, clip: float = LOG_LOSS_CLIP, pos_val: Any = True) -> None:
        super().__init__(measures.LogLoss(clip), pos_val)
        self.clip = clip


class NormalizedEntropy(ProbabilityMetric):
    """`streamcal.metrics.NormalizedEntropy` as a River metric: log loss over that of the share. Lower is better.

    Parameters
    ----------
    clip : float
        Probability above 0 and below 1.
    pos_val : Any
        The positive label.

    Examples
    --------
    >>> metric = NormalizedEntropy()
    >>> for y in (True, False):
    ...     metric.update(y, 0.5)
    >>> metric
    NormalizedEntropy: 1.
    """

    def __init__(self, clip: float = LOG_LOSS_CLIP, pos_val: Any = True) -> None:
        super().__init__(measures.NormalizedEntropy(clip), pos_val)
        self.clip = clip


class CalibrationRatio(BestAtOne):
    """`streamcal.metrics.CalibrationRatio` as a River metric: predicted over observed positives. 1 is best.

    Parameters
    ----------
    pos_val : Any
        The positive label.

    Examples
    --------
    >>> metric, other = CalibrationRatio(), CalibrationRatio()
    >>> metric.update(True, 0.5)
    >>> other.update(True, 0.9)
    >>> metric, other.is_better_than(metric)
    (CalibrationRatio: 0.5, True)
    """

    def __init__(self, pos_val: Any = True) -> None:
        super().__init__(measures.CalibrationRatio(), pos_val)

    def _distance(self) -> float:
        value = self.measure.value
        return abs(math.log(value)) if value else math.inf


class CalibrationSlope(BestAtOne):
    """`streamcal.metrics.CalibrationSlope` as a River metric: slope of a logistic recalibration. 1 is best.

    `metric.measure.fit` has the intercept too.

    Parameters
    ----------
    pos_val : Any
        The positive label.

    Examples
    --------
    >>> metric = CalibrationSlope()
    >>> for y, p in [(True, 0.9), (False, 0.1), (True, 0.1), (False, 0.9)]:
    ...     metric.update(y, p)
    >>> abs(metric.get()) < 1e-9
    True
    """

    def __init__(self, pos_val: Any = True) -> None:
        super().__init__(measures.CalibrationSlope(), pos_val)


class CORP(ProbabilityMetric):
    """The miscalibration of `streamcal.metrics.CORP` as a River metric. Lower is better.

    `metric.measure` has the decomposition, the floor and the data of a diagram.

    Parameters
    ----------
    loss : {"brier", "log"}
        The score that is decomposed.
    pos_val : Any
        The positive label.

    Examples
    --------
    >>> metric = CORP()
    >>> metric.update(True, 0.5)
    >>> metric
    CORP: 0.25
    """

    def __init__(self, loss: Loss = "brier", pos_val: Any = True) -> None:
        super().__init__(measures.CORP(loss), pos_val)
        self.loss = loss


class EqualMassECE(ProbabilityMetric):
    """`streamcal.metrics.EqualMassECE` as a River metric: calibration error over bins of equal mass. Lower is better.

    Parameters
    ----------
    bins : int
        Number of bins.
    pos_val : Any
        The positive label.

    Examples
    --------
    >>> metric = EqualMassECE(bins=1)
    >>> metric.update(True, 0.75)
    >>> metric
    EqualMassECE: 0.25
    """

    def __init__(self, bins: int = 15, pos_val: Any = True) -> None:
        super().__init__(measures.EqualMassECE(bins), pos_val)
        self.bins = bins


class DebiasedECE(ProbabilityMetric):
    """`streamcal.metrics.DebiasedECE` as a River metric: the same without its sampling bias. Lower is better.

    Parameters
    ----------
    bins : int
        Number of bins.
    pos_val : Any
        The positive label.

    Examples
    --------
    >>> metric = DebiasedECE(bins=1)
    >>> for _ in range(2):
    ...     metric.update(True, 0.75)
    >>> metric
    DebiasedECE: 0.25
    """

    def __init__(self, bins: int = 15, pos_val: Any = True) -> None:
        super().__init__(measures.DebiasedECE(bins), pos_val)
        self.bins = bins


class SmoothECE(ProbabilityMetric):
    """`streamcal.metrics.SmoothECE` as a River metric: smooth calibration error, without bins. Lower is better.

    Parameters
    ----------
    pos_val : Any
        The positive label.

    Examples
    --------
    >>> metric = SmoothECE()
    >>> metric.update(True, 0.75)
    >>> round(metric.get(), 2)
    0.25
    """

    def __init__(self, pos_val: Any = True) -> None:
        super().__init__(measures.SmoothECE(), pos_val)


class AUC(ProbabilityMetric):
    """`streamcal.metrics.AUC` as a River metric: area under the ROC curve, with cells finer than River's thresholds.

    Parameters
    ----------
    pos_val : Any
        The positive label.

    Examples
    --------
    >>> metric = AUC()
    >>> for y, p in [(True, 0.7), (False, 0.4)]:
    ...     metric.update(y, p)
    >>> metric
    AUC: 1.
    """

    def __init__(self, pos_val: Any = True) -> None:
        super().__init__(measures.AUC(), pos_val)

    @property
    def bigger_is_better(self) -> bool:
        """Return whether a higher value is better."""
        return True
