"""Binary calibrators side by side, one for each question about an observation, as one statistic under one memory.

With a memory for each of them, a retraction in a window could take back different observations for different
questions: equal answers are common, and differ in age, and so in when they are dropped. Where one question refused,
half of an observation would be left. Here one memory holds whole observations, and drives all calibrators.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from streamcal.additive import AdditiveLearner, Map
from streamcal.base import Calibrator, CapabilityError, FloatArray, MergeError, RetractionError, Statistic
from streamcal.calibrators.additive import AdditiveCalibrator
from streamcal.forgetting import Decay, Forever, Forgetting
from streamcal.memories.decay import SMALLEST_HELD
from streamcal.memories.memory import Coordinate, Memory, Seed
from streamcal.statistics.held import not_held
from streamcal.statistics.totals import Totals

#: What names a question: a number, or a tuple of labels.
Question: TypeAlias = Hashable
#: A question, the score it is asked with, and whether yes is the answer.
Answer: TypeAlias = tuple[Question, float, bool]
#: A question, the rows of a batch that answer it, and their scores and answers.
Answers: TypeAlias = tuple[Question, slice | npt.NDArray[np.bool_], FloatArray, npt.NDArray[np.bool_]]

#: The coordinate of the pseudo-observation that stands for the prior of every question, of those that come later too.
EVERY_QUESTION = None


class Asking(ABC):
    """Which questions an observation (x, y) answers. Stateless."""

    @abstractmethod
    def answers(self, x: Any, y: float) -> Iterable[Answer]:
        """The questions that one observation answers, none twice."""

    @abstractmethod
    def answers_many(self, x: FloatArray, y: FloatArray) -> Iterator[Answers]:
        """`answers` for n > 0 observations, a question at a time."""


class Questions(Statistic):
    """Additive calibrators, one for each question that what is held answers.

    Parameters
    ----------
    calibrator : AdditiveCalibrator
        Each calibrator is a clone of it without forgetting: its policy and its `refresh_every` are those of the learner
        that owns this statistic (`QuestionsLearner`).
    asking : Asking
        Which questions an observation answers.

    Notes
    -----
    A question is there as long as something is held that answers it. A retraction that one question refuses is undone
    for those before it, which leaves their sums as they were up to rounding. The prior of a question is as old as the
    stream, whenever the question first came.
    """

    adds = True

    def __init__(self, calibrator: Calibrator, asking: Asking) -> None:
        self.calibrator = calibrator
        self.asking = asking
        self.bounded = self._is_bounded()
        #: What is held of the observations, whatever they answer.
        self._totals = Totals()
        self._calibrators: dict[Question, Any] = {}
        self._unit = 1.0
        self._sown = 0.0  # what is left of a prior of weight 1

    @property
    def n(self) -> float:
        return self._totals.n

    @property
    def count(self) -> int:
        return self._totals.count

    @property
    def drifts(self) -> bool:
        return any(memory.statistic.drifts for memory in self._memories())

    def as_of(self, unit: float) -> Mapping[Question, Any]:
        """The calibrators by question, where an observation of today weighs `unit`; not to be changed."""
        if unit != self._unit:
            self._unit = unit
            for calibrator in self._calibrators.values():
                calibrator._memory.unit = unit
        return self._calibrators

    @cached_property
    def blank(self) -> Any:
        """A calibrator that has learned nothing, for a question of which nothing is held."""
        return self._new()

    def update(self, x: Coordinate, y: float, w: float) -> None:
        self._totals.update(x, 1.0, w)
        calibrators = self._calibrators
        for question, score, positive in self.asking.answers(x, y):
            calibrator = calibrators.get(question)
            if calibrator is None:
                calibrator = self._start(question)
            calibrator._memory.learn(*calibrator._entry(score, positive), w, 0.0)

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        if len(y) == 0:
            return
        if x.dtype == object and x[0] is EVERY_QUESTION:
            self._sown += float(w[0])
            return
        self._totals.update_many(x, np.ones(len(y)), w)
        for question, rows, scores, positive in self.asking.answers_many(x, y):
            calibrator, weights = self._of(question), w[rows]
            calibrator._memory.learn_many(*calibrator._entries(scores, positive), weights, weights)

    def revert(self, x: Coordinate, y: float, w: float) -> None:
        if x is EVERY_QUESTION:
            self._sown -= w
            return
        self._totals.revert(x, 1.0, w)
        done: list[tuple[Question, Memory, tuple[float, float]]] = []
        try:
            for question, score, positive in self.asking.answers(x, y):
                calibrator = self._calibrators.get(question)
                if calibrator is None:
                    raise RetractionError(not_held(score, float(positive), w))
                entry = calibrator._entry(score, positive)
                calibrator._memory.unlearn(*entry, w, 0.0)
                done.append((question, calibrator._memory, entry))
        except RetractionError:
            for _, memory, entry in done:
                memory.learn(*entry, w, 0.0)
            self._totals.update(x, 1.0, w)
            raise
        for question, memory, _ in done:
            if memory.holds_nothing:
                del self._calibrators[question]

    def merge(self, other: Self) -> None:
        self._totals.merge(other._totals)
        self._sown += other._sown
        for question, calibrator in other._calibrators.items():
            self._of(question)._memory.merge(calibrator._memory)

    def decay(self, factor: float) -> None:
        self._totals.decay(factor)
        self._sown *= factor
        for memory in self._memories():
            memory.decay(factor)

    def prune(self, fraction: float) -> None:
        # A question that is hardly answered any more goes as a whole: its weights would underflow.
        least = fraction * self.n / max(len(self._calibrators), 1)
        kept = {q: one for q, one in self._calibrators.items() if one._memory.statistic.n >= least}
        self._calibrators = kept
        for memory in self._memories():
            memory.prune(fraction)

    def empty(self) -> Self:
        return type(self)(self.calibrator, self.asking)

    def state(self) -> dict[str, Any]:
        calibrators = [[question, one._state()] for question, one in self._calibrators.items()]
        return {"totals": self._totals.state(), "sown": self._sown, "calibrators": calibrators}

    def restore(self, state: dict[str, Any]) -> None:
        self._totals.restore(state["totals"])
        self._sown = float(state["sown"])
        self._calibrators = {}
        for question, saved in state["calibrators"]:
            # JSON has made a list of a tuple of labels.
            self._start(tuple(question) if isinstance(question, list) else question)._restore(saved)

    def _of(self, question: Question) -> Any:
        """The calibrator of a question, a new one if there was none."""
        calibrator = self._calibrators.get(question)
        return self._start(question) if calibrator is None else calibrator

    def _start(self, question: Question) -> Any:
        """A new calibrator for a question."""
        calibrator = self._calibrators[question] = self._new()
        return calibrator

    def _new(self) -> Any:
        """A calibrator that holds its prior, as far as that has not faded, and is told when to forget."""
        params = self.calibrator.params()
        decays = isinstance(params["forgetting"], Decay)
        params["forgetting"] = _Driven() if decays else Forever()
        if "refresh_every" in params:
            params["refresh_every"] = 1
        if params.get("prior") is not None and self._sown < SMALLEST_HELD:
            params["prior"] = None
        calibrator = type(self.calibrator)(**params)
        if decays:
            memory: Any = calibrator._memory  # type: ignore[attr-defined]
            memory.unit = self._unit
            if params.get("prior") is not None:
                memory.decay(self._sown)
        return calibrator

    def _is_bounded(self) -> bool:
        return bool(self.calibrator._memory.statistic.bounded)  # type: ignore[attr-defined]

    def _memories(self) -> list[Any]:
        return [calibrator._memory for calibrator in self._calibrators.values()]


class SequentialQuestions(Questions):
    """Sequential calibrators, one for each question, which forget by their own steps. They are under `Forever`."""

    adds = False

    @property
    def drifts(self) -> bool:
        return False  # nothing is ever reverted

    def as_of(self, unit: float) -> Mapping[Question, Any]:
        return self._calibrators

    def update(self, x: Coordinate, y: float, w: float) -> None:
        self._totals.update(x, 1.0, w)
        for question, score, positive in self.asking.answers(x, y):
            self._of(question).learn_one(score, positive, w)

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        if len(y) == 0:
            return
        self._totals.update_many(x, np.ones(len(y)), w)
        for question, rows, scores, positive in self.asking.answers_many(x, y):
            self._of(question).learn_many(scores, positive, w[rows])

    def revert(self, x: Coordinate, y: float, w: float) -> None:
        raise CapabilityError(f"{self.calibrator!r} depends on the order of its observations and cannot unlearn")

    def merge(self, other: Self) -> None:
        raise MergeError(f"{self.calibrator!r} depends on the order of its observations and cannot merge")

    def decay(self, factor: float) -> None:
        raise CapabilityError(f"{self.calibrator!r} forgets by its own step")

    def _new(self) -> Any:
        return self.calibrator.clone()

    def _is_bounded(self) -> bool:
        return self.calibrator.bounded_memory


class QuestionsLearner(AdditiveLearner[Map]):
    """A learner whose statistic is `Questions`: the policy and the `refresh_every` of a binary method are its own."""

    def __init__(self, method: Calibrator, asking: Asking) -> None:
        self._method = method
        self._asking = asking
        params = method.params()
        super().__init__(**{name: params[name] for name in ("forgetting", "refresh_every") if name in params})

    def _new_statistic(self) -> Statistic:
        kind = Questions if isinstance(self._method, AdditiveCalibrator) else SequentialQuestions
        self._questions = kind(self._method, self._asking)
        return self._questions

    def _seed(self) -> Seed | None:
        if not self._questions.adds or self._method.params().get("prior") is None:
            return None
        return Seed(np.array([EVERY_QUESTION], dtype=object), np.ones(1), np.ones(1))

    @property
    def merges(self) -> bool:
        return self._questions.adds and super().merges

    @property
    def unlearns(self) -> bool:
        return self._questions.adds and super().unlearns

    def _unlearn(self, x: Coordinate, y: float, w: float, t: float) -> None:
        if not self._questions.adds:
            raise CapabilityError(f"{self._method!r} depends on the order of its observations and cannot unlearn")
        super()._unlearn(x, y, w, t)


class _Driven(Forgetting):
    """The policy of a calibrator whose observations fade as another memory says."""

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
