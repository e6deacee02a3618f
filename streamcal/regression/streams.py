"""K binary calibrators that learn side by side, as one statistic under one memory.

With a memory for each of them, a retraction in a window could take back different observations in different streams
(equal masses are common: most of a distribution's segments hold nothing), and a half of one. One memory holds whole
observations, and drives the calibrators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from streamcal.base import Calibrator, CapabilityError, FloatArray, InputError, MergeError, RetractionError, Statistic
from streamcal.calibrators.additive import AdditiveCalibrator
from streamcal.calibrators.cross_venn_abers import CrossVennAbers
from streamcal.forgetting import Forgetting
from streamcal.memories.memory import Memory, Seed
from streamcal.registry import REGISTRY

#: y, i → whether the outcome y is positive in stream i; for arrays of y too.
Relation = Callable[[Any, int], Any]


class Streams(Statistic):
    """Additive calibrators 0 … K − 1. An observation (x, y, w): the scores x were followed by `relation(y, i)` in each.

    Parameters
    ----------
    calibrator : AdditiveCalibrator
        Each stream is a clone of it without forgetting: its policy and its `refresh_every` are those of the learner
        that owns this statistic (`policy_of`).
    size : int
        K.
    relation : Relation
        Which streams an outcome is positive in.

    Notes
    -----
    x is a tuple of K scores, or one score for all. A retraction that one stream refuses is undone in those before it,
    which leaves their sums as they were up to rounding.
    """

    adds = True

    def __init__(self, calibrator: Calibrator, size: int, relation: Relation) -> None:
        self.calibrator = calibrator
        self.relation = relation
        self.streams = [self._stream() for _ in range(size)]
        self.bounded = self._is_bounded()

    @property
    def n(self) -> float:
        return self._memory(0).statistic.n

    @property
    def count(self) -> int:
        return self._memory(0).statistic.count

    @property
    def drifts(self) -> bool:
        return any(memory.statistic.drifts for memory in self._memories())

    def as_of(self, unit: float) -> list[Any]:
        """The calibrators, where an observation of today weighs `unit`."""
        for memory in self._memories():
            memory.unit = unit
        return self.streams

    def update(self, x: float | tuple[float, ...], y: float, w: float) -> None:
        for i, score in self._each(x):
            stream = self.streams[i]
            stream._memory.learn(stream.scale.coordinate(score), float(self.relation(y, i)), w, 0.0)

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        for i, stream in enumerate(self.streams):
            scores = x[:, i].copy() if x.ndim == 2 else x
            stream._memory.learn_many(stream.scale.coordinates(scores), self.relation(y, i) * 1.0, w, w)

    def revert(self, x: float | tuple[float, ...], y: float, w: float) -> None:
        done: list[tuple[Any, ...]] = []
        try:
            for i, score in self._each(x):
                observation = self.streams[i].scale.coordinate(score), float(self.relation(y, i)), w, 0.0
                self._memory(i).unlearn(*observation)
                done.append(observation)
        except RetractionError:
            for i, observation in enumerate(done):
                self._memory(i).learn(*observation)
            raise

    def merge(self, other: Self) -> None:
        for i, stream in enumerate(other.streams):
            self._memory(i).merge(stream._memory)

    def decay(self, factor: float) -> None:
        for memory in self._memories():
            memory.decay(factor)

    def prune(self, fraction: float) -> None:
        for memory in self._memories():
            memory.prune(fraction)

    def empty(self) -> Self:
        return type(self)(self.calibrator, len(self.streams), self.relation)

    def state(self) -> dict[str, Any]:
        return {"streams": [stream._state() for stream in self.streams]}

    def restore(self, state: dict[str, Any]) -> None:
        for stream, saved in zip(self.streams, state["streams"], strict=True):
            stream._restore(saved)

    def _stream(self) -> Any:
        params = self.calibrator.params()
        driven: dict[str, Any] = {"forgetting": _Driven()}
        if "refresh_every" in params:
            driven["refresh_every"] = 1
        return type(self.calibrator)(**{**params, **driven})

    def _is_bounded(self) -> bool:
        return self._memory(0).statistic.bounded

    def _memory(self, i: int) -> _DrivenMemory:
        memory: _DrivenMemory = self.streams[i]._memory
        return memory

    def _memories(self) -> list[_DrivenMemory]:
        return [stream._memory for stream in self.streams]

    def _each(self, x: float | tuple[float, ...]) -> enumerate[float]:
        return enumerate(x if isinstance(x, tuple) else (x,) * len(self.streams))


class SequentialStreams(Streams):
    """Sequential calibrators 0 … K − 1, each of which forgets by its own step. They are under `Forever`."""

    adds = False

    def __init__(self, calibrator: Calibrator, size: int, relation: Relation) -> None:
        super().__init__(calibrator, size, relation)
        self._count = 0

    @property
    def n(self) -> float:
        return float(self.streams[0].n)

    @property
    def count(self) -> int:
        return self._count

    def as_of(self, unit: float) -> list[Any]:
        return self.streams

    def update(self, x: float | tuple[float, ...], y: float, w: float) -> None:
        for i, score in self._each(x):
            self.streams[i].learn_one(score, self.relation(y, i), w)
        self._count += 1

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        for i, stream in enumerate(self.streams):
            stream.learn_many(x[:, i] if x.ndim == 2 else x, self.relation(y, i), w)
        self._count += len(y)

    def revert(self, x: float | tuple[float, ...], y: float, w: float) -> None:
        raise CapabilityError(f"{self.calibrator!r} depends on the order of its observations and cannot unlearn")

    def merge(self, other: Self) -> None:
        raise MergeError(f"{self.calibrator!r} depends on the order of its observations and cannot merge")

    def decay(self, factor: float) -> None:
        raise CapabilityError(f"{self.calibrator!r} forgets by its own step")

    def state(self) -> dict[str, Any]:
        return {"count": self._count, **super().state()}

    def restore(self, state: dict[str, Any]) -> None:
        self._count = int(state["count"])
        super().restore(state)

    def _stream(self) -> Any:
        return self.calibrator.clone()

    def _is_bounded(self) -> bool:
        return self.streams[0].bounded_memory


def streams_of(calibrator: Calibrator, size: int, relation: Relation) -> Streams:
    """K streams of a binary method, of its kind."""
    kind = Streams if isinstance(calibrator, AdditiveCalibrator) else SequentialStreams
    return kind(calibrator, size, relation)


def policy_of(calibrator: Calibrator) -> dict[str, Any]:
    """The forgetting policy and the refresh of a binary method, as arguments of the learner that drives it."""
    params = calibrator.params()
    return {name: params[name] for name in ("forgetting", "refresh_every") if name in params}


def check_binary(calibrator: Any) -> Calibrator:
    """A binary method by its name in the registry, or a clone of one; `InputError` for what cannot be streamed."""
    if isinstance(calibrator, str):
        if calibrator not in REGISTRY:
            raise InputError(f"calibrator={calibrator!r} is not a method; known are {', '.join(REGISTRY)}")
        calibrator = REGISTRY[calibrator]()
    if not isinstance(calibrator, Calibrator):
        raise InputError(f"calibrator={calibrator!r} is not possible; give a name such as 'beta', or a calibrator")
    if isinstance(calibrator, CrossVennAbers):
        raise InputError("CrossVennAbers needs the fold of each observation, and here there is none; give VennAbers()")
    if calibrator.params().get("prior") is not None:
        raise InputError(f"calibrator={calibrator!r} has a prior, which has no place in K streams; give prior=None")
    return calibrator.clone()


class _Driven(Forgetting):
    """The policy of a calibrator in a stream: another memory decides what it holds."""

    merges = True
    unlearns = True

    def start(self, statistic: Statistic, seed: Seed | None = None) -> Memory:
        return _DrivenMemory(statistic, seed)


class _DrivenMemory(Memory):
    """Keeps what it is given, and is told what an observation of today weighs in it."""

    steady = False  # the unit is another memory's
    unit = 1.0

    def as_of(self, t: float | None) -> float:
        return self.unit

    def decay(self, factor: float) -> None:
        self.statistic.decay(factor)
        self.version += 1

    def prune(self, fraction: float) -> None:
        self.statistic.prune(fraction)
        self.version += 1
