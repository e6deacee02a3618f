"""Forecasts over time, in bounded memory: sums over consecutive parts of a stream, and alarms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from streamcal.live.alarms import Alarm
from streamcal.live.monitor import CalibrationMonitor
from streamcal.metrics.base import Forecasts
from streamcal.metrics.log_loss import LOG_LOSS_CLIP
from streamcal.parameters.types import FloatArray

#: Parts that are held at most: beyond, neighbours are joined. A finished stream has more than half as many, or as many
#: as it has `SHORTEST` rows.
MOST_PARTS = 128
SHORTEST = 16
#: Outcomes between two false alarms, on average at least: see `CalibrationMonitor`.
RUN_LENGTH = 1e5
#: Alarms that are kept of one series; the others are counted.
MOST_ALARMS = 500


class Part(NamedTuple):
    """One part of the stream, for one series of forecasts."""

    rows: int
    positives: float  #: share of positive labels, by weight
    predicted: float  #: mean forecast
    log_loss: float  #: mean, in nats
    evidence: float  #: the largest value that the monitor had at the end of a piece


class Watch(CalibrationMonitor):
    """A monitor whose alarms are read from what `update_many` returns, and not logged."""

    def _tell(self, alarms: list[Alarm]) -> Alarm | None:
        return alarms[0] if alarms else None


class History:
    """Sums of forecasts over parts of equal length, which is doubled whenever there are too many of them.

    Parameters
    ----------
    names : sequence of str
        The series of forecasts of the same labels.

    Attributes
    ----------
    alarms : dict of list of Alarm
        By series, the first `MOST_ALARMS`, by a `CalibrationMonitor` with `RUN_LENGTH`. It counts each row once.
    alarms_in_all : dict of int
        Their number.

    Notes
    -----
    Cost: 0.2 µs for each forecast, most of it that of the monitor; memory O(names).

    Examples
    --------
    >>> history = History(["raw"])
    >>> y, w = np.array([0.0, 1.0] * 16), np.ones(32)
    >>> history.add({"raw": Forecasts(np.full(32, 0.25), y, w)})
    >>> history.parts("raw")[0]._replace(log_loss=None, evidence=None)
    Part(rows=16, positives=0.5, predicted=0.25, log_loss=None, evidence=None)
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self.alarms: dict[str, list[Alarm]] = {name: [] for name in names}
        self.alarms_in_all = dict.fromkeys(names, 0)
        self._monitors = {name: Watch(run_length=RUN_LENGTH) for name in names}
        self._length = SHORTEST
        #: A row for each part: rows, weight and positive weight; then for each series Σ w p, Σ w ℓ and the evidence.
        self._parts = np.zeros((0, 3 + 3 * len(names)))

    def add(self, forecasts: Mapping[str, Forecasts]) -> None:
        """The next forecasts of every series, of the same labels. A series that is left out once stays out."""
        (first, *_) = forecasts.values()
        begin = 0
        while begin < len(first.y):
            rows = self._parts[-1, 0] if len(self._parts) else self._length
            if rows >= self._length:
                self._open()
                rows = 0
            end = min(begin + self._length - int(rows), len(first.y))
            self._fill(forecasts, slice(begin, end))
            begin = end

    def parts(self, name: str) -> list[Part]:
        """The parts of one series in their order."""
        place = 3 + 3 * self.names.index(name)
        found = []
        for row in self._parts.tolist():
            weight = row[1] or 1.0  # where all weights are 0, so are the sums
            predicted, loss, evidence = row[place : place + 3]
            found.append(Part(int(row[0]), row[2] / weight, predicted / weight, loss / weight, evidence))
        return found

    def _open(self) -> None:
        """Begin a part; if there are too many, join neighbours first."""
        if len(self._parts) == MOST_PARTS:
            pairs = self._parts.reshape(MOST_PARTS // 2, 2, -1)
            largest = pairs.max(axis=1)
            self._parts = pairs.sum(axis=1)
            self._parts[:, 5::3] = largest[:, 5::3]
            self._length *= 2
        self._parts = np.vstack((self._parts, np.zeros(self._parts.shape[1])))

    def _fill(self, forecasts: Mapping[str, Forecasts], rows: slice) -> None:
        """Add rows to the last part."""
        part = self._parts[-1]
        (first, *_) = forecasts.values()
        y, w = first.y[rows], first.w[rows]
        part[:3] += len(y), w.sum(), w @ y
        for i, name in enumerate(self.names):
            if name not in forecasts:
                continue
            p = forecasts[name].p[rows]
            alarms = self._monitors[name].update_many(p, y)
            room = MOST_ALARMS - len(self.alarms[name])
            self.alarms[name] += alarms[:room]
            self.alarms_in_all[name] += len(alarms)
            part[3 + 3 * i : 5 + 3 * i] += w @ p, w @ capped_losses(p, y)
            part[5 + 3 * i] = max([part[5 + 3 * i], self._monitors[name].e_value, *(a.e_value for a in alarms)])


def capped_losses(p: FloatArray, y: FloatArray) -> FloatArray:
    """The losses of `LogLoss` with its default clip."""
    return -np.log(np.maximum(np.where(y > 0.0, p, 1.0 - p), LOG_LOSS_CLIP))
