"""Methods that run side by side over one stream, here or in processes of their own; each predicts, then learns."""

from __future__ import annotations

import json
import multiprocessing
import signal
import time
import warnings
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from multiprocessing.connection import Connection
from typing import Any, NamedTuple, Protocol

import numpy as np

from streamcal.calibrators.base import Calibrator
from streamcal.errors import StreamcalError
from streamcal.learners.pending import Pending
from streamcal.live.keyed import Keyed
from streamcal.live.levels import Field, Level
from streamcal.live.multicalibrated import Certificate, Multicalibrated
from streamcal.live.multicalibrated import Group as Held
from streamcal.live.segmented import Effect, Segmented
from streamcal.parameters.order import BLOCKS
from streamcal.parameters.types import FloatArray
from streamcal.stream.as_issued import Arrivals, AsIssued, Horizon
from streamcal.stream.columns import Observations

#: Groups with most evidence against their predictions that are kept at the end.
MOST_GROUPS = 10
#: Seconds that a process is given to end by itself.
PATIENCE = 5.0


class Step(NamedTuple):
    """What one method says to a piece: predictions, or why it has none; and its seconds of processor time so far."""

    predicted: FloatArray | None
    failure: str | None
    seconds: float


class Last(NamedTuple):
    """What a method is asked at the end: its map at some scores, and the effects of some levels of each field."""

    scores: FloatArray
    levels: dict[Field, list[Level]]


class Certified(NamedTuple):
    """What a `Multicalibrated` reports at the end: its certificate, the width of its bins, and the worst groups."""

    certificate: Certificate
    bins: float
    groups: list[Held]


class Ended(NamedTuple):
    """What is left of a method: bytes of the state that `streamcal.save` writes, its map, and effects of levels."""

    bytes: int
    mapped: FloatArray
    effects: dict[Field, list[Effect]]
    certified: Certified | None = None


class Entrant:
    """A method that predicts each observation and learns it `delay` observations later; it learns itself.

    Delay 0 is one call of `predict_learn_many`; else it is a loop in Python. With a `horizon` it is given `Arrivals`.
    """

    def __init__(self, calibrator: Calibrator | Keyed, delay: int, horizon: Horizon | None = None) -> None:
        self.calibrator = calibrator
        self._replayed = None if horizon is None else AsIssued(calibrator, horizon)
        self._delay = delay
        self._waiting: deque[tuple[Any, ...]] = deque()
        self._seconds = 0.0
        self._failure: str | None = None

    def step(self, piece: Observations | Arrivals) -> Step:
        """Predict and learn; a method that fails once says nothing from then on."""
        if self._failure is not None:
            return Step(None, self._failure, self._seconds)
        begun, predicted = time.process_time(), None
        try:
            if isinstance(piece, Arrivals):
                assert self._replayed is not None
                predicted = self._replayed.predict_learn(piece)
            elif not self._delay:
                with warnings.catch_warnings():  # the comparison warns of it once, for the whole stream
                    warnings.filterwarnings("ignore", BLOCKS, RuntimeWarning)
                    predicted = self._at_once(piece)
            else:
                predicted = one_by_one(self.calibrator, piece, self._delay, self._waiting)
        except StreamcalError as error:
            self._failure = str(error)
        self._seconds += time.process_time() - begun
        return Step(predicted, self._failure, self._seconds)

    def end(self, last: Last) -> Ended | None:
        """Return the results at the end; None for a method that has failed, or whose last solve does."""
        if self._failure is not None:
            return None
        try:
            return left_of(self.calibrator, last)
        except StreamcalError:
            return None

    def _at_once(self, piece: Observations) -> FloatArray:
        keys = self.calibrator._own_keys(piece.keys or {})
        return np.asarray(self.calibrator.predict_learn_many(*piece[:4], keys=keys))


def one_by_one(
    calibrator: Any, piece: Observations, delay: int, waiting: deque[tuple[Pending, bool]] | None = None
) -> FloatArray:
    """Issue each row, and then settle the one `delay` rows earlier, whose label has come; return the predictions.

    `waiting` are rows of earlier pieces without a label; those of this one are added.

    Examples
    --------
    >>> from streamcal import OnlinePlatt
    >>> rows = Observations(np.array([0.5, 0.5, 0.5]), np.array([True, True, True]), None, None)
    >>> one_by_one(OnlinePlatt(), rows, 1).round(3).tolist()  # the first label is known after the second row
    [0.5, 0.5, 0.599]
    """
    issue, settle, probabilities = calibrator.issue, calibrator.settle, []
    waiting = deque() if waiting is None else waiting
    levels = _keys(piece) if calibrator.fields and piece.keys else repeat(None)
    for (score, label, weight, at), keys in zip(_rows(piece), levels, strict=False):
        issued = issue(score, at, keys=keys, w=weight)
        probabilities.append(issued.p)
        waiting.append((issued, label))
        if len(waiting) > delay:
            settle(*waiting.popleft())
    return np.array(probabilities, dtype=np.float64)


def _keys(piece: Observations) -> Iterator[dict[str, Any]]:
    """Yield field → level of each row."""
    columns: Any = piece.keys
    return (dict(zip(columns, levels, strict=True)) for levels in zip(*columns.values(), strict=True))


def _rows(piece: Observations) -> Iterator[tuple[float, bool, float, float | None]]:
    """Yield score, label, weight and time of each row."""
    scores, y, w, t, _ = piece
    weights, times = repeat(1.0) if w is None else w.tolist(), repeat(None) if t is None else t.tolist()
    return zip(scores.tolist(), y.tolist(), weights, times, strict=False)


def left_of(calibrator: Calibrator | Keyed, last: Last) -> Ended:
    """Return the results of a method; with segments, the map is that of a row without any."""
    effects: dict[Field, list[Effect]] = {}
    certified = None
    mapped = np.asarray(calibrator.predict_many(last.scores, keys=calibrator._own_keys({})))
    if isinstance(calibrator, Segmented):
        effects = {
            field: calibrator.effects(field, levels) for field, levels in last.levels.items() if field in calibrator.by
        }
    if isinstance(calibrator, Multicalibrated):
        certified = Certified(calibrator.certificate(), calibrator.bins, calibrator.worst(MOST_GROUPS))
    return Ended(len(json.dumps(calibrator.state_dict())), mapped, effects, certified)


class Group(Protocol):
    """Some entrants: `send` them a piece, `receive` what they say to it, and at the end ask what is left."""

    def send(self, piece: Observations | Arrivals) -> None: ...

    def receive(self) -> dict[str, Step]: ...

    def end(self, last: Last) -> dict[str, Ended | None]: ...

    def close(self) -> None: ...


class Here:
    """Entrants in this process, one after another."""

    def __init__(
        self, calibrators: Mapping[str, Calibrator | Keyed], delay: int, horizon: Horizon | None = None
    ) -> None:
        self._entrants = {name: Entrant(calibrator, delay, horizon) for name, calibrator in calibrators.items()}
        self._steps: dict[str, Step] = {}

    def send(self, piece: Observations | Arrivals) -> None:
        self._steps = {name: entrant.step(piece) for name, entrant in self._entrants.items()}

    def receive(self) -> dict[str, Step]:
        return self._steps

    def end(self, last: Last) -> dict[str, Ended | None]:
        return {name: entrant.end(last) for name, entrant in self._entrants.items()}

    def close(self) -> None:
        """Do nothing: nothing is open."""


class Processes:
    """Entrants in several processes, which work while this one reads and measures.

    Raises `StreamcalError` where a process has ended, as for lack of memory.
    """

    def __init__(
        self, calibrators: Mapping[str, Calibrator | Keyed], delay: int, number: int, horizon: Horizon | None = None
    ) -> None:
        # Spawned, as on every system: a fork of a process with threads may hang.
        context = multiprocessing.get_context("spawn")
        self._ends: list[Connection] = []
        self._running: list[Any] = []
        for share in dealt(list(calibrators), number):
            ours, theirs = context.Pipe()
            assigned = {name: calibrators[name] for name in share}
            process = context.Process(target=work, args=(theirs, assigned, delay, horizon), daemon=True)
            process.start()
            theirs.close()
            self._ends.append(ours)
            self._running.append(process)

    def send(self, piece: Observations | Arrivals) -> None:
        self._send(piece)

    def receive(self) -> dict[str, Any]:
        results: dict[str, Any] = {}
        for end in self._ends:
            try:
                results |= end.recv()
            except (EOFError, OSError) as error:
                raise StreamcalError(f"a process of the comparison has ended: {error!r}; try processes=1") from None
        return results

    def end(self, last: Last) -> dict[str, Ended | None]:
        self._send(last)
        return self.receive()

    def close(self) -> None:
        """End the processes."""
        for end, process in zip(self._ends, self._running, strict=True):
            end.close()
            process.terminate()
            process.join(PATIENCE)

    def _send(self, what: Observations | Arrivals | Last) -> None:
        for end in self._ends:
            try:
                end.send(what)
            except OSError as error:
                raise StreamcalError(f"a process of the comparison has ended: {error!r}; try processes=1") from None


def work(
    end: Connection, calibrators: Mapping[str, Calibrator | Keyed], delay: int, horizon: Horizon | None = None
) -> None:
    """Run the loop of a process: receive pieces and send steps; for a `Last`, send the results at the end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process hears of it, and ends this one
    group = Here(calibrators, delay, horizon)
    while True:
        try:
            piece = end.recv()
            if isinstance(piece, Last):
                end.send(group.end(piece))
            else:
                group.send(piece)
                end.send(group.receive())
        except (EOFError, OSError):  # the other end is closed
            return


def dealt(names: Sequence[str], number: int) -> list[list[str]]:
    """Deal the names to `number` hands, one after another.

    >>> dealt(["auto", "online-platt", "platt", "beta"], 2)
    [['auto', 'platt'], ['online-platt', 'beta']]
    """
    return [list(names[i::number]) for i in range(min(number, len(names)))]


def group(
    calibrators: Mapping[str, Calibrator | Keyed], delay: int, processes: int, horizon: Horizon | None = None
) -> Group:
    """Make the entrants here, or in this number of processes."""
    if processes > 1 and len(calibrators) > 1:
        return Processes(calibrators, delay, processes, horizon)
    return Here(calibrators, delay, horizon)
