"""Logs with late labels in a comparison: each method is behind a `LabelJoin`, and is judged by what it issued."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.identity import Identity
from streamcal.errors import StreamcalError
from streamcal.live.issued import Issued
from streamcal.live.keyed import Keyed
from streamcal.parameters.types import FloatArray
from streamcal.stream.columns import Columns, Observations, rows_of
from streamcal.stream.impressions import Impressions
from streamcal.stream.records import RecordError
from streamcal.stream.replay import Replay, join_of

#: Methods are given impressions that can be used, so that no error of theirs names a column.
NO_COLUMNS = Columns("", None)


class Horizon(NamedTuple):
    """When labels are known, in seconds after the impression: as for `LabelJoin`."""

    horizon: float
    early: float | None = None


class Arrivals(NamedTuple):
    """Impressions in the order of their events, and the clock of the join after them."""

    rows: Impressions
    clock: float


class Judged(NamedTuple):
    """Impressions to be issued and, by the clock after them, the observations whose horizon has passed."""

    arrivals: Arrivals
    observations: Observations
    issued: int  #: predictions so far


class AsIssued:
    """A calibrator behind a join, which replays impressions as `streamcal run --id` does.

    Examples
    --------
    >>> from streamcal import OnlinePlatt
    >>> replayed = AsIssued(OnlinePlatt(), Horizon(10.0))
    >>> times = np.array([0.0, 5.0, 15.0])
    >>> rows = Impressions(np.full(3, 0.5), np.ones(3, dtype=bool), None, times, [1, 2, 3], times + 1.0)
    >>> replayed.predict_learn(Arrivals(rows, 15.0))  # the horizon of the third has not passed
    array([0.5, 0.5])
    """

    def __init__(self, calibrator: Calibrator | Keyed, horizon: Horizon, columns: Columns = NO_COLUMNS) -> None:
        self.replay = Replay(join_of(calibrator, horizon.horizon, early=horizon.early), columns)
        self._settled: list[tuple[Issued, bool]] = []
        self.replay.join.watch(lambda issued, y: self._settled.append((issued, y)))

    def predict_learn(self, arrivals: Arrivals) -> FloatArray:
        """Issue impressions and learn the labels that are due; return what was issued where the horizon has passed.

        Raises
        ------
        StreamcalError
            If the calibrator cannot predict a score, or refuses a label.
        """
        rows, join = arrivals.rows, self.replay.join
        done = len(self.replay.step_many(*rows))
        if done < len(rows.scores):
            self.replay.step(*row_of(rows, done))
        join.advance(arrivals.clock)
        refused = join.tally()["refused"]
        if refused:
            raise StreamcalError(f"{refused:,} labels were refused, as the warnings say")
        return np.array([issued.p for issued, _ in self.settled()], dtype=np.float64)

    def settled(self) -> list[tuple[Issued, bool]]:
        """Return the predictions whose horizon has passed since the last call, in the order of issue, with labels."""
        settled = self._settled[:]
        self._settled.clear()
        return settled


class Lead:
    """The join of the score itself, which decides what rows can be used, and when the horizon of each has passed."""

    def __init__(self, horizon: Horizon, columns: Columns) -> None:
        self._raw = AsIssued(Identity(), horizon, columns)
        self._fields = columns.segments

    @property
    def replay(self) -> Replay:
        """Its replay, with the join and the counts of the log."""
        return self._raw.replay

    def judged(self, rows: Impressions, refuse: Callable[[int, RecordError], None]) -> Judged:
        """Return the impressions that can be used; the place and the error of each of the others go to `refuse`."""
        replay, begin = self.replay, 0
        used: list[int] = []
        while begin < len(rows.scores):
            done = len(replay.step_many(*rows_of(rows, slice(begin, None))))
            used += range(begin, begin + done)
            begin += done
            if begin < len(rows.scores):
                try:
                    replay.step(*row_of(rows, begin))
                    used.append(begin)
                except RecordError as error:
                    refuse(begin, error)
                begin += 1
        usable = rows if len(used) == len(rows.scores) else rows_of(rows, np.array(used, dtype=np.int64))
        join = replay.join
        return Judged(Arrivals(usable, join.clock), self._observations(), join.tally()["issued"])

    def _observations(self) -> Observations:
        """Return the impressions whose horizon has passed."""
        settled = self._raw.settled()
        rows = [(issued.score, issued.w, issued.t) for issued, _ in settled]
        numbers = np.array(rows, dtype=np.float64).reshape(-1, 3)
        labels = np.array([y for _, y in settled], dtype=np.bool_)
        keys = {name: [(issued.keys or {}).get(name) for issued, _ in settled] for name in self._fields}
        scores, weights, times = numbers.T.copy()
        return Observations(scores, labels, weights, times, keys or None)


def row_of(rows: Impressions, place: int) -> tuple[Any, ...]:
    """Return one of the impressions, as an `Impression` is."""
    scores, labels, weights, times, ids, label_times, versions, keys = rows
    w, y = 1.0 if weights is None else float(weights[place]), bool(labels[place])
    version = None if versions is None else versions[place]
    levels = {name: column[place] for name, column in (keys or {}).items()}
    return float(scores[place]), y, w, float(times[place]), ids[place], float(label_times[place]), version, levels
