"""Predictions over time, in bounded memory: sums and numbers of alarms over consecutive parts of a stream."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from streamcal.live.alarms import Alarm
from streamcal.live.monitor import CalibrationMonitor
from streamcal.metrics.cells import Forecasts, dot
from streamcal.metrics.label_weights import sampled, weights_by_label
from streamcal.metrics.log_loss import LOG_LOSS_CLIP
from streamcal.metrics.log_loss_difference import STATE, LogLossDifference
from streamcal.parameters.types import FloatArray

#: Parts that are held at most: beyond, neighbours are joined. A finished stream has more than half as many, or as many
#: as it has `SHORTEST` rows.
MOST_PARTS = 128
SHORTEST = 16
#: Outcomes between two false alarms, on average at least: see `CalibrationMonitor`.
RUN_LENGTH = 1e5
#: Alarms that are kept of one series; the others are counted in their parts.
MOST_ALARMS = 500
#: Alarms of one series that are drawn one by one.
MOST_MARKS = 200
#: Columns that all series share (rows, weight, positive weight and latest time), and of each series (Σ w p, Σ w ℓ,
#: evidence, alarms, and at the end of the part the state of the difference to the base).
SHARED, EACH = 4, 4 + STATE


class Part(NamedTuple):
    """One part of the stream, for one series of predictions."""

    rows: int
    weight: float
    positives: float  #: share of positive labels, by weight
    predicted: float  #: mean prediction
    log_loss: float  #: mean, in nats
    evidence: float  #: the largest value that the monitor had at the end of a piece
    alarms: int
    #: The confidence sequence, at the end of the part, of the sum of the log losses minus those of the base, in nats.
    low: float
    high: float


class History:
    """Sums of predictions over parts of equal length, which is doubled whenever there are too many of them.

    By series of predictions of the same labels, `alarms` are the first `MOST_ALARMS` of a `CalibrationMonitor` with
    `RUN_LENGTH`, which counts each row once, and `alarms_in_all` their number. Where weights depend on the label, as
    with sampled negatives, a monitor is given the probability of a positive among the rows of the sample. `differences`
    compare the log loss of each series with that of the base, which is the first if none is given, at the level
    `confidence`. Cost: O(1) for each prediction, most of it that of the monitor; memory O(names).

    Examples
    --------
    >>> history = History(["raw"])
    >>> y, w = np.array([0.0, 1.0] * 16), np.ones(32)
    >>> history.add({"raw": Forecasts(np.full(32, 0.25), y, w)})
    >>> part = history.parts("raw")[0]
    >>> part.rows, part.positives, part.predicted, part.alarms
    (16, 0.5, 0.25, 0)
    """

    def __init__(self, names: Sequence[str], base: str | None = None, confidence: float = 0.95) -> None:
        self.names = tuple(names)
        self.base = self.names[0] if base is None else base
        self.confidence = confidence
        others = [name for name in names if name != self.base]
        self.differences = {name: LogLossDifference(confidence, adaptive=True) for name in others}
        self.alarms: dict[str, list[Alarm]] = {name: [] for name in names}
        self.alarms_in_all = dict.fromkeys(names, 0)
        # Alarms are read from what `update_many` returns, and not logged.
        self._monitors = {name: CalibrationMonitor(run_length=RUN_LENGTH, on_alarm=lambda _: None) for name in names}
        self._length = SHORTEST
        self._parts = np.zeros((0, SHARED + EACH * len(names)))
        self._begun = math.nan  # the earliest time
        self._by_label = np.zeros(4)  # Σ w of the positives and of the negatives, and Σ w² of both

    def add(self, forecasts: Mapping[str, Forecasts], times: FloatArray | None = None) -> None:
        """Add the next predictions of every series, of the same labels, made at these times.

        A series that is left out once stays out.
        """
        (first, *_) = forecasts.values()
        times = np.full(len(first.y), math.nan) if times is None else times
        if len(times):
            self._begun = float(np.fmin(self._begun, times.min()))
        begin = 0
        while begin < len(first.y):
            rows = self._parts[-1, 0] if len(self._parts) else self._length
            if rows >= self._length:
                self._open()
                rows = 0
            end = min(begin + self._length - int(rows), len(first.y))
            self._fill(forecasts, times, slice(begin, end))
            begin = end

    @property
    def times(self) -> list[float]:
        """The times at the ends of the parts, after that of the first row; empty without times."""
        times = [self._begun, *np.maximum.accumulate(self._parts[:, 3]).tolist()]
        return [] if any(map(math.isnan, times)) else times

    def marks(self, name: str) -> list[float]:
        """Return the rows at which alarms are drawn: each, or of more than `MOST_MARKS` the parts that have some."""
        alarms, parts = self.alarms[name], self.parts(name)
        if self.alarms_in_all[name] <= min(MOST_MARKS, len(alarms)):
            return [float(alarm.n) for alarm in alarms]
        ends = itertools.accumulate((part.rows for part in parts), initial=0)
        return [(a + b) / 2.0 for (a, b), part in zip(itertools.pairwise(ends), parts, strict=True) if part.alarms]

    def parts(self, name: str) -> list[Part]:
        """Return the parts of one series in their order."""
        place = SHARED + EACH * self.names.index(name)
        parts = []
        for row in self._parts.tolist():
            weight = row[1] or 1.0  # where all weights are 0, so are the sums
            predicted, loss, evidence, alarms, *state = row[place : place + EACH]
            means = (row[2] / weight, predicted / weight, loss / weight)
            parts.append(Part(int(row[0]), row[1], *means, evidence, int(alarms), *self._interval(state)))
        return parts

    def _interval(self, state: list[float]) -> tuple[float, float]:
        """Return the confidence sequence of the sum of differences that had this state."""
        difference = LogLossDifference(self.confidence, adaptive=True)
        difference.load([int(state[0]), *state[1:]])
        low, high = difference.interval
        return difference.weight * low, difference.weight * high

    def _open(self) -> None:
        """Begin a part; if there are too many, join neighbours first."""
        if len(self._parts) == MOST_PARTS:
            pairs = self._parts.reshape(MOST_PARTS // 2, 2, -1)
            largest, last = pairs.max(axis=1), pairs[:, 1]
            self._parts = pairs.sum(axis=1)
            for column in (SHARED - 1, slice(SHARED + 2, None, EACH)):
                self._parts[:, column] = largest[:, column]
            for k in range(4, EACH):
                self._parts[:, SHARED + k :: EACH] = last[:, SHARED + k :: EACH]
            self._length *= 2
        new = np.zeros(self._parts.shape[1])
        new[SHARED - 1] = -math.inf
        self._parts = np.vstack((self._parts, new))

    def _fill(self, forecasts: Mapping[str, Forecasts], times: FloatArray, rows: slice) -> None:
        """Add rows to the last part."""
        part = self._parts[-1]
        (first, *_) = forecasts.values()
        y, w = first.y[rows], first.w[rows]
        part[: SHARED - 1] += len(y), w.sum(), dot(w, y)
        negative, squared = 1.0 - y, w * w
        self._by_label += dot(w, y), dot(w, negative), dot(squared, y), dot(squared, negative)
        by_label = weights_by_label(*self._by_label.tolist())
        part[SHARED - 1] = np.maximum(part[SHARED - 1], times[rows].max())  # nan where there are no times
        here = {name: Forecasts(forecast.p[rows], y, w) for name, forecast in forecasts.items()}
        for i, name in enumerate(self.names):
            if name in here:
                self._fill_one(part[SHARED + EACH * i : SHARED + EACH * (i + 1)], name, here, by_label)

    def _fill_one(
        self, columns: FloatArray, name: str, forecasts: Mapping[str, Forecasts], by_label: tuple[float, float]
    ) -> None:
        """Add predictions of one series to its columns of the last part."""
        forecast, monitor = forecasts[name], self._monitors[name]
        alarms = monitor.update_many(forecast.y, sampled(forecast.p, by_label))
        self.alarms[name] += alarms[: MOST_ALARMS - len(self.alarms[name])]
        self.alarms_in_all[name] += len(alarms)
        losses = np.where(forecast.y > 0.0, *forecast.log_losses)
        losses = np.minimum(losses, -math.log(LOG_LOSS_CLIP))  # as `LogLoss` has them
        columns[:4] += dot(forecast.w, forecast.p), dot(forecast.w, losses), 0.0, len(alarms)
        columns[2] = max([columns[2], monitor.e_value, *(a.e_value for a in alarms)])
        if name in self.differences and self.base in forecasts:
            self.differences[name].update_forecasts(forecast, forecasts[self.base])
            columns[4:] = self.differences[name].state()
