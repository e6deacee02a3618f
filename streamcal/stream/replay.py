"""Replaying impressions and their late labels, in the order of the events, through a `LabelJoin`."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from time import process_time
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from streamcal.errors import ClockError, InputError, StateError, StreamcalError
from streamcal.live.issued import RETRIED, ConflictError, Id, Issued, Keys, Rows, check_id, ids_of, levels_of
from streamcal.live.joining import JUMP_HORIZONS
from streamcal.live.label_join import LabelJoin
from streamcal.parameters.types import Columns as Levels
from streamcal.parameters.types import FloatArray
from streamcal.states import listed, number, record, row, unread, whole
from streamcal.stream.checkpoints import Checkpoint
from streamcal.stream.columns import Columns
from streamcal.stream.impressions import NEVER
from streamcal.stream.prequential import Measures, Prediction
from streamcal.stream.records import RecordError

#: Events after which the whole state takes their place in the journal.
SNAPSHOT_EVERY = 1_000_000
#: Seconds by which an event may be ahead of the latest one, if 100 horizons are less: logs have gaps.
GAP = 30 * 86_400.0


class Replay(Measures):
    """Issues every row at the time of its event, and resolves it when its outcome came.

    An outcome within the horizon is given at once: until its watermark it changes nothing (`LabelJoin`). A later
    outcome is given at its time if the calibrator can unlearn the negative exactly, and otherwise counted. Predictions
    are measured in the order of issue, when the horizon has passed. The join is new, or resumed from its journal;
    `StateError` if that was noted by something else. Memory: that of the join, and the outcomes after the horizon,
    where they can be learned, until their time.

    `repeated` counts rows whose id was issued before, with the same score: their prediction is the one issued then;
    `clicks` the positive outcomes, `after_horizon` those of them that came after the horizon, and `out_of_order` rows
    that were refused for the time of their event. `before` is the tally of the join at the start.
    """

    def __init__(self, join: LabelJoin, columns: Columns) -> None:
        super().__init__(join.calibrator)
        self.join = join
        self.repeated = self.clicks = self.after_horizon = self.out_of_order = 0
        self._columns = columns
        #: Prediction, score, label, weight, time and levels.
        self._settled: list[tuple[float, float, bool, float, float, Keys]] = []
        corrects = join.spans.early is None and join.calibrator.unlearns and join.calibrator.merges
        self._keep = join.spans.horizon + (join.spans.late if corrects else 0.0)
        self.checkpoint, self._to_come = noted_in(join.noted)
        self._snapshot_at: int | None = None
        self.before = join.tally()
        join.watch(
            lambda issued, y: self._settled.append((issued.p, issued.score, y, issued.w, issued.t, issued.keys or {})),
            self._settle_many,
        )

    @property
    def added(self) -> tuple[str, ...]:
        """The columns that the output has in addition: the probability as issued."""
        return ("calibrated",)

    def step(
        self,
        score: float,
        y: bool,
        w: float,
        t: float,
        id: Id,
        label_time: float,
        version: Id | None = None,
        keys: Mapping[str, Any] | None = None,
    ) -> Prediction:
        """Issue one row and tell its outcome; on an error nothing changes.

        Raises
        ------
        RecordError
            With the column: for an id that is remembered with another score, an event that is older than the latest
            one by more than the horizon, or one too far ahead of it.
        """
        columns = self._columns
        try:
            p = self._take(score, y, w, t, id, label_time, version, keys or None)
        except ConflictError as error:
            raise RecordError(str(error), column=columns.id) from None
        except ClockError as error:
            self.out_of_order += 1
            raise RecordError(str(error), column=columns.time) from None
        self._measure()
        return Prediction(p, None)

    def step_many(
        self,
        scores: FloatArray,
        y: NDArray[np.bool_],
        w: FloatArray | None,
        t: FloatArray,
        ids: list[Any],
        label_times: FloatArray,
        versions: list[Id | None] | None = None,
        keys: Levels | None = None,
    ) -> FloatArray:
        """Do `step` over the fields of rows, up to the first that raises an error.

        Returns
        -------
        ndarray of shape (k, 1)
            The probabilities as issued.
        """
        begun = process_time()
        weights = np.ones(len(t)) if w is None else w
        p, at = np.empty(len(t)), 0
        try:
            plain = None if versions is not None else self._plain(scores, y, weights, t, ids, label_times, keys)
            while at < len(t):
                if plain is not None:
                    at = self._take_plain(plain, label_times, at, p)
                for k in range(at, len(t) if plain is None else min(at + RETRIED, len(t))):
                    version = None if versions is None else versions[k]
                    levels = {name: cast(Any, column)[k] for name, column in (keys or {}).items()} or None
                    row_ = float(scores[k]), bool(y[k]), float(weights[k]), float(t[k]), ids[k], float(label_times[k])
                    p[k] = self._take(*row_, version, levels)
                    at = k + 1
        except StreamcalError:  # `step` says why
            pass
        self.seconds += process_time() - begun
        self._measure()
        return p[:at, np.newaxis]

    def _plain(
        self,
        scores: FloatArray,
        y: NDArray[np.bool_],
        w: FloatArray,
        t: FloatArray,
        ids: list[Any],
        label_times: FloatArray,
        keys: Levels | None,
    ) -> Rows | None:
        """Return rows in columns, as the join takes many; None where they are taken one by one."""
        if self._keep > self.join.spans.horizon:  # outcomes are given when they came
            return None
        try:
            levels = levels_of(list(map(_present, _rows(keys)))) if keys else None
            return Rows(ids_of(ids), scores, t, w, y.astype(np.uint8), label_times.copy(), levels)
        except InputError:  # `step` says which
            return None

    def _take_plain(self, rows: Rows, label_times: FloatArray, begin: int, p: FloatArray) -> int:
        """Issue plain rows with their outcomes from `begin` on; return the first that is not plain."""
        end = self.join._issue_rows(rows, begin, p)
        some = slice(begin, end)
        clicked = (label_times[some] < NEVER) & (rows.y[some] > 0)
        self.clicks += int(np.count_nonzero(clicked))
        self.after_horizon += int(np.count_nonzero(clicked & (rows.when[some] == NEVER)))
        return end

    def _take(
        self,
        score: float,
        y: bool,
        w: float,
        t: float,
        id: Id,
        label_time: float,
        version: Id | None,
        keys: Mapping[str, Any] | None,
    ) -> float:
        """Issue a row, tell its outcome, and before it those that came since the row before."""
        join = self.join
        self._require_order(t)
        while self._to_come and self._to_come[0][0] <= t <= join.clock + join.max_jump:
            at, _, late = heapq.heappop(self._to_come)
            join.advance(at)  # its horizon has passed, whether or not there was a row since
            join.resolve(late, True, at)
        number = join.tally()["issued"]
        issued = join.issue(id, score, t, keys=keys, version=version, w=w)
        self.repeated += issued.number < number
        if label_time < NEVER:
            self._resolve(issued, y, label_time)
        return issued.p

    def _require_order(self, t: float) -> None:
        behind = self.join.clock - t
        if behind > self.join.spans.horizon:
            raise ClockError(
                f"the event is {behind:.6g} s older than the latest one, more than the horizon of "
                f"{self.join.spans.horizon:g} s; sort the rows by the time of the event, which is in seconds"
            )

    def _resolve(self, issued: Issued, y: bool, label_time: float) -> None:
        """Tell the outcome of a row, now or when it came."""
        join = self.join
        self.clicks += y
        if label_time > issued.at + join.spans.horizon:
            self.after_horizon += y
            if y and label_time <= issued.at + self._keep:
                heapq.heappush(self._to_come, (label_time, issued.number, issued.id))
        elif issued.id in join.predictions:  # otherwise it is not held, for lack of room
            join.resolve(issued.id, y, label_time)

    def _settle_many(self, p: FloatArray, scores: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray) -> None:
        """Measure predictions in columns, after those that were settled one by one."""
        self._measure()
        self.add(p, scores, y, w)
        if self.observer is not None:
            self.observer.many(scores, y > 0.0, w, p, {}, t)

    def _measure(self) -> None:
        """Add the predictions whose horizon has passed to the measures."""
        if self._settled:
            *numbers, keys = zip(*self._settled, strict=True)
            self._settled.clear()
            p, scores, y, w, t = (np.array(values, dtype=np.float64) for values in numbers)
            self.add(p, scores, y, w)
            if self.observer is not None:
                columns = (column.tolist() for column in (scores, y > 0.0, w, p))
                for row_ in zip(*columns, keys, t.tolist(), strict=True):
                    self.observer.one(*row_)

    def keep(self, checkpoint: Checkpoint) -> None:
        """Note how far the file was read, and write all events to the journal, and now and then the whole state."""
        self.join.note({"run": checkpoint.state(), "to_come": [list(outcome) for outcome in self._to_come]})
        events = self.join.acknowledge()
        if self._snapshot_at is None:
            self._snapshot_at = events + SNAPSHOT_EVERY - self.join.replayed
        if events >= self._snapshot_at:
            self.join.snapshot()
            self._snapshot_at = events + SNAPSHOT_EVERY


def join_of(calibrator: Any, horizon: float, **parameters: Any) -> LabelJoin:
    """Return the join by which a log is replayed; `parameters` are further ones of `LabelJoin`."""
    return LabelJoin(calibrator, horizon, max_jump=max(JUMP_HORIZONS * horizon, GAP), **parameters)


def noted_in(note: Any) -> tuple[Checkpoint, list[tuple[float, int, Id]]]:
    """Return the checkpoint, and the outcomes to come, that `Replay.keep` noted; empty ones without a note."""
    if note is None:
        return Checkpoint(), []
    try:
        noted = record({"run": unread, "to_come": listed(row(number(), whole(), check_id))})(note)
        return Checkpoint.read(noted["run"]), noted["to_come"]
    except (StateError, InputError) as error:
        raise StateError(f"the journal holds a note that is not of `streamcal run`: {error}") from None


def _rows(keys: Levels) -> Iterator[dict[str, Any]]:
    """Yield columns of levels as the keys of each row."""
    return (dict(zip(keys, some, strict=True)) for some in zip(*keys.values(), strict=True))


def _present(keys: dict[str, Any]) -> Keys:
    """Return the levels that are not missing."""
    return {name: level for name, level in keys.items() if level is not None}
