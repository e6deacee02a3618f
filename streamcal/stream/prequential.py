"""Prequential evaluation: predict, then learn, and measure the raw and the calibrated probabilities.

`StreamSample` keeps what scores and labels show of rows that are probably not as intended: their direction and order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import repeat
from time import process_time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.registry import REGISTRY
from streamcal.errors import StoreError, StreamcalError
from streamcal.learners.choosing import chosen
from streamcal.metrics import Brier, CalibrationRatio, EqualMassECE, LogLoss, LogLossDifference
from streamcal.metrics.base import check_probability, check_true
from streamcal.metrics.cells import Forecasts
from streamcal.parameters.inputs import check_time, check_weight
from streamcal.parameters.order import LEAST_CHANGES, in_blocks
from streamcal.parameters.scales import Interval, Logit, Probability, Scale
from streamcal.parameters.types import Columns, FloatArray, Keys, Label, Time

if TYPE_CHECKING:
    from streamcal.live.keyed import Keyed

#: Columns that the output has in addition to those of the input; the last two where the method has an interval.
ADDED = ("calibrated", "lower", "upper")
#: Observations of the sample: all of them at first, then every second one, every fourth, ...
LARGEST_SAMPLE = 8_192
#: The z-score of the rank sum below which scores fall. Where scores say nothing, one stream in 3 million is below.
FALLING = -5.0
#: Scores are in order if less than this part of their changes are in the other direction: of 68 streams of real tables
#: and generators, none had less than 0.46.
FEW_REVERSALS = 0.01


class Prediction(NamedTuple):
    """A prediction made before its label was learned, with the interval if the method has one."""

    calibrated: float
    interval: tuple[float, float] | None


class Scoreboard:
    """The measures of one stream of probabilities: log loss, Brier score, equal-mass ECE and calibration ratio.

    Examples
    --------
    >>> board = Scoreboard()
    >>> board.update(True, 0.5)
    >>> round(board.log_loss.get(), 3), board.brier.get()
    (0.693, 0.25)
    """

    def __init__(self) -> None:
        self.log_loss = LogLoss()
        self.brier = Brier()
        self.ece = EqualMassECE()
        self.ratio = CalibrationRatio()

    def update(self, y_true: Label, y_pred: float, w: float = 1.0) -> None:
        """Add the label `y_true` and the probability `y_pred` that was predicted for it, with weight `w`."""
        label = check_true(y_true)
        self.update_checked(check_probability(y_pred), label, check_weight(w))

    def update_checked(self, p: float, y: float, w: float) -> None:
        """Update the metrics with checked floats: p in [0, 1], y 0.0 or 1.0, w ≥ 0."""
        self.log_loss.update_checked(p, y, w)
        self.brier.update_checked(p, y, w)
        self.ece.update_checked(p, y, w)
        self.ratio.update_checked(p, y, w)

    def update_forecasts(self, forecasts: Forecasts) -> None:
        """Update the metrics with many checked predictions."""
        for metric in (self.log_loss, self.brier, self.ece, self.ratio):
            metric.update_forecasts(forecasts)


class Observer(Protocol):
    """A recipient of each row and its prediction."""

    def one(self, score: float, y: bool, w: float, p: float, keys: Keys, t: float | None) -> None: ...

    def many(
        self,
        scores: FloatArray,
        y: NDArray[np.bool_],
        w: FloatArray,
        p: FloatArray,
        keys: Columns,
        t: FloatArray | None,
    ) -> None: ...


class StreamSample:
    """A bounded sample of scores and labels, and counts of all their changes from one row to the next.

    Examples
    --------
    >>> sample = StreamSample()
    >>> sample.add(np.arange(100.0), np.arange(100.0) < 50.0)
    >>> sample.auc_if_falling(), sample.blocks(), sample.scores_in_order()
    (0.0, 'neighbouring labels differ once, and would 50 times in random order', True)
    """

    def __init__(self) -> None:
        self._scores: list[float] = []
        self._labels: list[bool] = []
        self._seen, self._every = 0, 1
        self._positives = self._changes = self._rises = self._falls = 0
        self._only_classes = True
        self._last: tuple[float, bool] | None = None

    def add(self, scores: FloatArray, labels: FloatArray) -> None:
        """Add observations in their order."""
        if not len(scores):
            return
        positive = labels > 0.0
        first = -self._seen % self._every
        self._scores += scores[first :: self._every].tolist()
        self._labels += positive[first :: self._every].tolist()
        self._follow(float(scores[0]), bool(positive[0]))
        self._changes += int(np.count_nonzero(positive[1:] != positive[:-1]))
        self._rises += int(np.count_nonzero(scores[1:] > scores[:-1]))
        self._falls += int(np.count_nonzero(scores[1:] < scores[:-1]))
        self._only_classes = self._only_classes and bool(((scores == 0.0) | (scores == 1.0)).all())
        self._positives += int(np.count_nonzero(positive))
        self._last = float(scores[-1]), bool(positive[-1])
        self._seen += len(scores)
        self._thin()

    def add_one(self, score: float, label: bool) -> None:
        """Add one observation."""
        if self._seen % self._every == 0:
            self._scores.append(score)
            self._labels.append(label)
        self._follow(score, label)
        self._only_classes = self._only_classes and score in (0.0, 1.0)
        self._positives += label
        self._last = score, label
        self._seen += 1
        self._thin()

    def _follow(self, score: float, label: bool) -> None:
        """Count how a row differs from the last one."""
        if self._last is not None:
            self._changes += label != self._last[1]
            self._rises += score > self._last[0]
            self._falls += score < self._last[0]

    def _thin(self) -> None:
        while len(self._scores) > LARGEST_SAMPLE:
            self._scores, self._labels = self._scores[::2], self._labels[::2]
            self._every *= 2

    def auc_if_falling(self) -> float | None:
        """Return the AUC of the sample where scores fall significantly with the label, else None."""
        _, place, ties = np.unique(self._scores, return_inverse=True, return_counts=True)
        ranks = (np.cumsum(ties) - 0.5 * (ties - 1))[place]  # ties have their mean rank
        positive = np.array(self._labels, dtype=np.bool_)
        n, ones = len(ranks), int(np.count_nonzero(positive))
        pairs = ones * (n - ones)
        if not pairs:
            return None
        excess = float(ranks[positive].sum()) - ones * (ones + 1) / 2 - pairs / 2
        variance = pairs / 12 * (n + 1 - float(np.sum(ties.astype(np.float64) ** 3 - ties)) / (n * (n - 1)))
        if variance <= 0.0 or excess / math.sqrt(variance) >= FALLING:
            return None
        return 0.5 + excess / pairs

    def blocks(self) -> str | None:
        """Describe how often the label changes, if labels are in blocks; else return None."""
        return in_blocks(self._changes, (self._positives, self._seen - self._positives))

    def scores_in_order(self) -> bool:
        """Return whether the scores hardly ever change direction, as in rows sorted by score."""
        changes = self._rises + self._falls
        return changes >= LEAST_CHANGES and min(self._rises, self._falls) < FEW_REVERSALS * changes

    def has_only_classes(self) -> bool:
        """Return whether both 0 and 1 occur as scores, and nothing else does, in 20 rows or more."""
        return self._only_classes and self._seen >= LEAST_CHANGES and self._rises + self._falls > 0

    def odd_rows(self) -> str | None:
        """Describe rows that are sorted by their label or score, or scores that are classes, and what to do."""
        if self.has_only_classes():
            return (
                "all scores are 0 or 1, as predicted classes are: give the probability of the positive class, which "
                "scikit-learn has as predict_proba(X)[:, 1]"
            )
        blocks = self.blocks()
        if blocks is not None:
            return (
                f"{blocks}: in rows sorted by label, earlier labels give the next one away, and every figure is too "
                "good; sort the rows by time, or shuffle them"
            )
        if self.scores_in_order():
            return (
                "the rows are sorted by score, so that each prediction has learned from lower scores alone, or from "
                "higher ones; sort them by time, or shuffle them"
            )
        return None


class Measures:
    """The measures of predictions before and after calibration.

    Attributes
    ----------
    raw, calibrated : Scoreboard
        The measures before and after calibration; `raw` is None where scores are not probabilities.
    difference : LogLossDifference
        The log loss after calibration minus that before; empty where `raw` is None.
    rows, positives, measured : int
        Number of observations, of positive ones, and of those of weight above 0.
    observer : Observer or None
        Told every observation that is measured, with its prediction; None by default.
    seconds : float
        Processor time to predict and to learn, of single rows only where there is an observer.
    """

    #: What predicts all rows, where there is one.
    calibrator: Any

    def __init__(self, calibrator: Any) -> None:
        scale = getattr(calibrator, "scale", None)
        self._scale: Scale = scale if isinstance(scale, Scale) else Interval()
        self.raw = Scoreboard() if isinstance(scale, (Probability, Logit)) else None
        self.calibrated = Scoreboard()
        self.difference = LogLossDifference(adaptive=True)
        self.rows = 0
        self.positives = 0
        self.measured = 0
        self.sample = StreamSample()
        self.observer: Observer | None = None
        self.seconds = 0.0

    @property
    def added(self) -> tuple[str, ...]:
        """The columns that an output with the predictions has in addition."""
        return ADDED if self.calibrator.has_interval else ADDED[:1]

    def boards(self) -> dict[str, Scoreboard]:
        """Return the scoreboards by name; without "raw" if scores are not probabilities."""
        return ({} if self.raw is None else {"raw": self.raw}) | {"calibrated": self.calibrated}

    def add(self, p: FloatArray, scores: FloatArray, labels: FloatArray, weights: FloatArray) -> None:
        """Add predictions that have been checked, with their scores, labels and weights, all of shape (n,)."""
        self.rows += len(p)
        self.positives += int(np.count_nonzero(labels))
        calibrated = Forecasts.of(p, labels, weights)
        self.measured += len(calibrated.p)
        counted, scores = weights > 0.0, self._scale.rising(scores)
        self.sample.add(scores[counted], labels[counted])
        self.calibrated.update_forecasts(calibrated)
        if self.raw is not None:
            raw = Forecasts.of(scores, labels, weights)
            self.raw.update_forecasts(raw)
            self.difference.update_forecasts(calibrated, raw)


class Prequential(Measures):
    """Prequential evaluation of a calibrator: each outcome is predicted first and learned afterwards.

    The calibrator learns itself, not a clone; a name, as in "auto", makes a new one. One that reads keys is given
    `keys`.

    Examples
    --------
    >>> from streamcal import OnlinePlatt
    >>> run = Prequential(OnlinePlatt())
    >>> round(run.step(0.8, True).calibrated, 12)
    0.8
    """

    def __init__(self, calibrator: str | Calibrator | Keyed) -> None:
        self.calibrator: Any = _chosen(calibrator)
        self._segmented = bool(self.calibrator.fields)
        super().__init__(self.calibrator)
        if not self._segmented:
            self._predict = predictor(self.calibrator)

    def step(
        self, score: float, y: Label, w: float = 1.0, t: Time | None = None, keys: Keys | None = None
    ) -> Prediction:
        """Predict, learn and measure one observation; on an error nothing changes."""
        begun = 0.0 if self.observer is None else process_time()
        if self._segmented:
            prediction = Prediction(self.calibrator.predict_one(score, t, keys=keys or {}), None)
            self.calibrator.learn_one(score, y, w, t, keys=keys or {})
        else:
            prediction = self._predict(score, t)
            self.calibrator.learn_one(score, y, w, t)
        # `learn_one` has checked the arguments: what follows cannot fail.
        label, weight, rising = (1.0 if y else 0.0), float(w), float(self._scale.rising(score))
        if self.observer is not None:
            self.seconds += process_time() - begun
            at = None if t is None else check_time(t)
            self.observer.one(float(score), bool(y), weight, prediction.calibrated, keys or {}, at)
        self.rows += 1
        self.positives += label == 1.0
        self.measured += weight > 0.0
        self.calibrated.update_checked(prediction.calibrated, label, weight)
        if weight:
            self.sample.add_one(rising, label > 0.0)
        if self.raw is not None:
            self.raw.update_checked(rising, label, weight)
            self.difference.update_checked(prediction.calibrated, rising, label, weight)
        return prediction

    def step_many(
        self,
        scores: FloatArray,
        y: NDArray[np.bool_],
        w: FloatArray | None = None,
        t: FloatArray | None = None,
        keys: Columns | None = None,
    ) -> FloatArray:
        """Do `step` over arrays that have been checked; sums of measures differ by rounding.

        Returns
        -------
        ndarray of shape (k, 1), or (k, 3) for a method with intervals
            The predictions, and the lower and upper ends of the intervals. k is the number of observations, or that of
            those before the first that cannot be predicted or learned: `step` of that one says why.
        """
        begun = process_time()
        predictions = self._predict_and_learn(scores, y, w, t, keys)
        self.seconds += process_time() - begun
        count = len(predictions)
        weights = np.ones(count) if w is None else w[:count]
        self.add(predictions[:, 0], scores[:count], y[:count].astype(np.float64), weights)
        if self.observer is not None and count:
            learned = {name: column[:count] for name, column in (keys or {}).items()}  # type: ignore[index]
            times = None if t is None else t[:count]
            self.observer.many(scores[:count], y[:count], weights, predictions[:, 0], learned, times)
        return predictions

    def _predict_and_learn(
        self, scores: FloatArray, y: NDArray[np.bool_], w: FloatArray | None, t: FloatArray | None, keys: Columns | None
    ) -> FloatArray:
        """Return the predictions of the observations before the first that raises an error; these are learned."""
        calibrator = self.calibrator
        try:  # compiled loops, which learn all or nothing
            if self._segmented:
                return calibrator.predict_learn_many(scores, y, w, t, keys=keys or {})[:, np.newaxis]
            if calibrator.has_interval:
                return np.column_stack(cast(_WithInterval, calibrator).predict_interval_learn_many(scores, y, w, t))
            predictions = calibrator._streamed(scores, y, w, t)
        except StoreError:  # some levels have learned, and others not
            raise
        except StreamcalError:
            return np.empty((0, 3 if calibrator.has_interval else 1))
        if predictions is not None:
            return predictions[:, np.newaxis]
        probabilities: list[float] = []
        weights, times = repeat(1.0) if w is None else w.tolist(), repeat(None) if t is None else t.tolist()
        try:
            for score, label, weight, time in zip(scores.tolist(), y.tolist(), weights, times, strict=False):
                p = calibrator.predict_one(score, time)
                calibrator.learn_one(score, label, weight, time)
                probabilities.append(p)
        except StreamcalError:  # a solver that fails, or a time too far ahead
            pass
        return np.array(probabilities, dtype=np.float64)[:, np.newaxis]


class _WithInterval(Protocol):
    """A calibrator with intervals."""

    def predict_with_interval_one(self, score: float, t: Time | None) -> tuple[float, tuple[float, float]]: ...

    def predict_interval_learn_many(
        self, scores: FloatArray, y: NDArray[np.bool_], w: FloatArray | None, t: FloatArray | None
    ) -> tuple[FloatArray, FloatArray, FloatArray]: ...


def _chosen(asked: str | Calibrator | Keyed) -> Calibrator | Keyed:
    """Return what is evaluated; `InputError` for anything but a calibrator, or one that reads keys."""
    if isinstance(asked, str | Calibrator):
        return chosen(asked, Calibrator, REGISTRY)
    from streamcal.live.keyed import Entrant

    return chosen(asked, Entrant, REGISTRY)


def predictor(calibrator: Any) -> Callable[[float, Time | None], Prediction]:
    """Return the prediction function of a calibrator, with intervals if it has them."""
    if not calibrator.has_interval:
        return lambda score, t: Prediction(calibrator.predict_one(score, t), None)
    both = cast(_WithInterval, calibrator).predict_with_interval_one
    return lambda score, t: Prediction(*both(score, t))
