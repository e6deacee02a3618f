"""`Quality`: how the predictions of a service compare with their labels, in all and for each segment."""

from __future__ import annotations

import logging
from bisect import bisect_left
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal.calibrators.base import Calibrator
from streamcal.live.alarms import Alarm, Segment
from streamcal.live.issued import Issued
from streamcal.live.keyed import Keyed
from streamcal.live.levels import MOST_FIELDS
from streamcal.live.monitor import CalibrationMonitor
from streamcal.metrics import CalibrationRatio, LogLoss, NormalizedEntropy
from streamcal.parameters.types import FloatArray
from streamcal.stream.comparing import IDENTITY, RAW, Comparison, Standing

logger = logging.getLogger(__name__)

#: Labels that are added at once: together they take less time than one by one.
AT_ONCE = 512
#: Seconds from an impression to its positive outcome, for the metrics.
DELAYS = (1.0, 10.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 43200.0, 86400.0, 604800.0)
#: The level of all segments that have no measures of their own, and beyond `MOST_FIELDS` such fields their field.
OTHER = "other"


class Sums(NamedTuple):
    """Of the predictions of a segment: their number, the clicks predicted and the clicks."""

    labels: int
    forecast: float
    positives: float


class Quality:
    """Measures of predictions whose labels are certain, since the start of the process, and beside them of the scores.

    `run_length` is the mean number of labels until a false alarm. The first `max_segments` segments have sums of their
    own, the others of a field are together, those of many fields too. The calibrator says which probabilities its
    scores express.
    """

    def __init__(self, run_length: float, max_segments: int, calibrator: Calibrator | Keyed) -> None:
        self._scale = calibrator.scale
        self.name = calibrator.name if calibrator.name not in (RAW, IDENTITY) else "calibrated"
        self.comparison = Comparison({self.name: calibrator})
        self.entropy = NormalizedEntropy()
        self.monitor = CalibrationMonitor(run_length=run_length, on_alarm=self._alarm)
        self.labels = self.alarms = 0
        self.segments: dict[Segment, Sums] = {}
        self.delays = [0] * (len(DELAYS) + 1)  #: positive outcomes by delay, each up to one of `DELAYS`
        self.delay = 0.0  #: the sum of the delays
        self._most = max_segments
        # Of what was taken and is to be added, one of both is empty.
        self._new: list[tuple[Issued, bool]] = []
        self._rows: list[tuple[FloatArray, ...]] = []
        self._waiting = 0  # rows of these

    @property
    def standing(self) -> Standing:
        """The measures of the predictions."""
        return self.comparison.standings[self.name]

    @property
    def ratio(self) -> CalibrationRatio:
        return self.standing.ratio

    @property
    def log_loss(self) -> LogLoss:
        return self.standing.log_loss

    def take(self, prediction: Issued, y: bool) -> None:
        """Add a prediction and its label."""
        if self._rows:
            self.settle()
        self._new.append((prediction, y))
        if len(self._new) >= AT_ONCE:
            self.settle()

    def outcome(self, delay: float) -> None:
        """Note how late a positive outcome came."""
        self.delays[bisect_left(DELAYS, delay)] += 1
        self.delay += max(delay, 0.0)

    def outcomes(self, delays: FloatArray) -> None:
        """Note how late positive outcomes came."""
        if len(delays):
            cells = np.bincount(np.searchsorted(DELAYS, delays), minlength=len(self.delays)).tolist()
            self.delays = [before + more for before, more in zip(self.delays, cells, strict=True)]
            self.delay += float(np.maximum(delays, 0.0).sum())

    def settle(self) -> None:
        """Add what was taken."""
        if self._rows:
            p, scores, y, w = map(np.concatenate, zip(*self._rows, strict=True))
            self._rows, self._waiting = [], 0
            self._measure(p, scores, y > 0.0, w)
            self.monitor.update_many(y > 0.0, p)
            self.labels += len(p)
        new, self._new = self._new, []
        if not new:
            return
        score, p, w = np.array([(prediction.score, prediction.p, prediction.w) for prediction, _ in new]).T
        y = np.array([label for _, label in new])
        self._measure(p, score, y, w)
        if any(prediction.keys for prediction, _ in new):
            for prediction, label in new:
                segments = prediction.keys.items() if prediction.keys else ()
                self.monitor.update_checked(prediction.p, 1.0 if label else 0.0, segments)
                for segment in segments:
                    self._add(segment, prediction, label)
        else:
            self.monitor.update_many(y, p)
        self.labels += len(new)

    def take_many(self, p: FloatArray, scores: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray) -> None:
        """Add predictions without keys and their labels, in columns."""
        if self._new:
            self.settle()
        self._rows.append((p, scores, y, w))
        self._waiting += len(p)
        if self._waiting >= AT_ONCE:
            self.settle()

    def _measure(self, p: FloatArray, scores: FloatArray, y: NDArray[np.bool_], w: FloatArray) -> None:
        scale = self._scale
        raw = scale.rising(scores) if scale.domain == (0.0, 1.0) else scale.probabilities(scale.coordinates(scores))
        self.comparison.measure({RAW: raw, self.name: p}, y, w)
        self.entropy.update_many(y, p, w)

    def _add(self, segment: Segment, prediction: Issued, y: bool) -> None:
        before = self.segments.get(segment)
        if before is None and len(self.segments) >= self._most:
            segment = (segment[0], OTHER)
            if segment not in self.segments and len(self.segments) >= self._most + MOST_FIELDS:
                segment = (OTHER, OTHER)
            before = self.segments.get(segment)
        labels, forecast, positives = before or Sums(0, 0.0, 0.0)
        self.segments[segment] = Sums(labels + 1, forecast + prediction.w * prediction.p, positives + prediction.w * y)

    def _alarm(self, alarm: Alarm) -> None:
        self.alarms += 1
        where = None if alarm.segment is None else {alarm.segment[0]: alarm.segment[1]}
        fields = {"moved": alarm.moved, "direction": alarm.direction, "since": alarm.since, "segment": where}
        logger.warning("calibration alarm: %s", alarm, extra={"event": "alarm", **fields})
