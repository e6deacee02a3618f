"""`Quality`: how the forecasts of a service compare with their labels, in all and for each segment."""

from __future__ import annotations

import logging
from typing import NamedTuple

from streamcal.live.alarms import Alarm, Segment
from streamcal.live.issued import Issued
from streamcal.live.monitor import CalibrationMonitor
from streamcal.metrics import CalibrationRatio, LogLoss, NormalizedEntropy

logger = logging.getLogger(__name__)

#: Labels that are added at once: together they take a tenth of the time that they take one by one.
AT_ONCE = 256
#: The level of all segments that have no measures of their own.
OTHER = "other"


class Sums(NamedTuple):
    """Of the forecasts of a segment: their number, the clicks forecast and the clicks."""

    labels: int
    forecast: float
    positives: float


class Quality:
    """Measures of forecasts whose labels are certain, since the start of the process.

    Parameters
    ----------
    run_length : float
        Mean number of labels until a false alarm.
    max_segments : int
        Segments with sums of their own; those that come first have them, the others of a field are together.
    """

    def __init__(self, run_length: float, max_segments: int) -> None:
        self.ratio, self.log_loss, self.entropy = CalibrationRatio(), LogLoss(), NormalizedEntropy()
        self.monitor = CalibrationMonitor(run_length=run_length, on_alarm=self._alarm)
        self.labels = self.alarms = 0
        self.segments: dict[Segment, Sums] = {}
        self._most = max_segments
        self._new: list[tuple[Issued, bool]] = []

    def take(self, one: Issued, y: bool) -> None:
        """Add a forecast and its label."""
        self._new.append((one, y))
        if len(self._new) >= AT_ONCE:
            self.settle()

    def settle(self) -> None:
        """Add what was taken."""
        new, self._new = self._new, []
        if not new:
            return
        p, y, w = [one.p for one, _ in new], [label for _, label in new], [one.w for one, _ in new]
        for measure in (self.ratio, self.log_loss, self.entropy):
            measure.update_many(p, y, w)
        if any(one.keys for one, _ in new):
            for one, label in new:
                self.monitor.update(one.p, label, one.keys)
                for segment in (one.keys or {}).items():
                    self._add(segment, one, label)
        else:
            self.monitor.update_many(p, y)
        self.labels += len(new)

    def _add(self, segment: Segment, one: Issued, y: bool) -> None:
        before = self.segments.get(segment)
        if before is None and len(self.segments) >= self._most:
            segment = (segment[0], OTHER)
            before = self.segments.get(segment)
        labels, forecast, positives = before or Sums(0, 0.0, 0.0)
        self.segments[segment] = Sums(labels + 1, forecast + one.w * one.p, positives + one.w * y)

    def _alarm(self, alarm: Alarm) -> None:
        self.alarms += 1
        where = None if alarm.segment is None else {alarm.segment[0]: alarm.segment[1]}
        told = {"moved": alarm.moved, "direction": alarm.direction, "since": alarm.since, "segment": where}
        logger.warning("calibration alarm: %s", alarm, extra={"event": "alarm", **told})
