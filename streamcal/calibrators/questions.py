"""Binary calibrators side by side, one for each question about an observation, as one statistic under one memory.

With a memory for each of them, a retraction in a window could take back different observations for different
questions: equal answers are common, and differ in age, and so in when they are dropped. Where one question refused,
half of an observation would be left. Here one memory holds whole observations, and drives all calibrators.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import numpy.typing as npt

from streamcal.calibrators.additive import AdditiveCalibrator
from streamcal.calibrators.base import Calibrator
from streamcal.errors import CapabilityError, MergeError, RetractionError
from streamcal.learners.additive import AdditiveLearner, Map
from streamcal.memories.decay import SMALLEST_HELD
from streamcal.memories.memory import Coordinate, Memory
from streamcal.parameters.forgetting import Decay, Forever, Forgetting
from streamcal.parameters.prior import PseudoObservations
from streamcal.parameters.types import FloatArray
from streamcal.statistics.base import Statistic
from streamcal.statistics.held import not_held
from streamcal.statistics.totals import Totals

#: What names a question: a number, or a tuple of labels.
Question: TypeAlias = Hashable
#: What an observation answers: the questions, the scores they are asked with (or one for all), and whether yes is the
#: answer of each.
Answers: TypeAlias = tuple[Sequence[Question], Sequence[float] | float, Sequence[bool]]
#: A question, the rows of a batch that answer it, and their scores and answers.
Column: TypeAlias = tuple[Question, slice | npt.NDArray[np.bool_], FloatArray, npt.NDArray[np.bool_]]

#: The coordinate of the pseudo-observation that stands for the prior of every question, of those that come later too.
EVERY_QUESTION = None


class Asking(ABC):
    """Which questions an observation (x, y) answers. Stateless."""

    #: Whether every observation answers the same questions.
    constant: ClassVar[bool] = False

    @abstractmethod
    def answers(self, x: Any, y: float) -> Answers:
        """What one observation answers, no question twice."""

    @abstractmethod
    def answers_many(self, x: FloatArray, y: FloatArray) -> Iterator[Column]:
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
    A question is there as long as something is held that answers it; under decay, as long as that weighs at least the
    `PRUNE_FRACTION` of all that is held, divided by the number of questions. A retraction that one question refuses is
    undone for those before it, which leaves their sums as they were up to rounding. The prior of a question is as old
    as the stream, whenever the question first came.
    """

    adds = True

    def __init__(self, calibrator: Any, asking: Asking) -> None:
        self.calibrator = calibrator
        self.asking = asking
        self.bounded = self._is_bounded()
        self._params = calibrator.params()
        #: What is held of the observations, whatever they answer.
        self._totals = Totals()
        self._calibrators: defaultdict[Question, Any] = defaultdict(self._new)
        #: Those that hold nothing any more, for the next questions: some take 100 µs to make.
        self._idle: list[Any] = []
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
        entries = self._read(x, y)  # before anything is changed: it may refuse a score
        self._totals.update(x, 1.0, w)
        calibrators = self._calibrators
        for question, at, label in entries:
            calibrators[question]._memory.learn(at, label, w, 0.0)

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        if len(y) == 0:
            return
        if x.dtype == object and x[0] is EVERY_QUESTION:
            self._sown += float(w[0])
            return
        self._totals.update_many(x, np.ones(len(y)), w)
        for question, rows, scores, positive in self.asking.answers_many(x, y):
            at, labels, weights = self.calibrator.scale.coordinates(scores), positive.astype(np.float64), w[rows]
            if self.calibrator._recode is not None:
                labels = self.calibrator._recode(at, labels)
            self._calibrators[question]._memory.learn_many(at, labels, weights, weights)

    def revert(self, x: Coordinate, y: float, w: float) -> None:
        if x is EVERY_QUESTION:
            self._sown -= w
            return
        entries, done = list(self._read(x, y)), 0
        self._totals.revert(x, 1.0, w)
        try:
            for question, at, label in entries:
                if question not in self._calibrators:
                    raise RetractionError(not_held(at, label, w))
                self._calibrators[question]._memory.unlearn(at, label, w, 0.0)
                done += 1
        except RetractionError:
            for question, at, label in entries[:done]:
                self._calibrators[question]._memory.learn(at, label, w, 0.0)
            self._totals.update(x, 1.0, w)
            raise
        if self.asking.constant:
            if self._totals.count == 0:
                self._let_go(list(self._calibrators))
        else:
            self._let_go([asked for asked, _, _ in entries if self._calibrators[asked]._memory.holds_nothing])

    def merge(self, other: Self) -> None:
        self._totals.merge(other._totals)
        self._sown += other._sown
        for question, calibrator in other._calibrators.items():
            self._calibrators[question]._memory.merge(calibrator._memory)

    def decay(self, factor: float) -> None:
        self._totals.decay(factor)
        self._sown *= factor
        for memory in self._memories():
            memory.decay(factor)

    def prune(self, fraction: float) -> None:
        # A question that is hardly answered any more goes as a whole: its weights would underflow.
        least = fraction * self.n / max(len(self._calibrators), 1)
        self._let_go([asked for asked, one in self._calibrators.items() if one._memory.statistic.n < least])
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
        self._let_go(list(self._calibrators))
        for question, saved in state["calibrators"]:
            # JSON has made a list of a tuple of labels.
            self._calibrators[tuple(question) if isinstance(question, list) else question]._restore(saved)

    def _read(self, x: Coordinate, y: float) -> Iterable[tuple[Question, float, float]]:
        """The questions an observation answers, each with the coordinate and the label its memory takes."""
        questions, scores, labels = self.asking.answers(x, y)
        coordinate, recode = self.calibrator.scale.coordinate, self.calibrator._recode
        if isinstance(scores, float):
            at = [coordinate(scores)] * len(questions)
        else:
            at = [coordinate(score) for score in scores]
        if recode is not None:
            labels = [recode(*one) for one in zip(at, labels, strict=False)]
        return zip(questions, at, labels, strict=False)  # they are of one length; being strict costs time

    def _let_go(self, questions: list[Question]) -> None:
        """Drop the calibrators of questions."""
        for question in questions:
            calibrator = self._calibrators.pop(question)
            if self._params.get("prior") is None:
                calibrator._restore(self._nothing)
                self._idle.append(calibrator)

    def _new(self) -> Any:
        """A calibrator that holds its prior, as far as that has not faded."""
        calibrator = self._idle.pop() if self._idle else self._made()
        if isinstance(calibrator._memory, _DrivenMemory):
            calibrator._memory.unit = self._unit
            if calibrator._memory.prior is not None:
                calibrator._memory.decay(self._sown)
        return calibrator

    def _made(self) -> Any:
        """A calibrator without forgetting, whose weights fade when it is told so."""
        driven: dict[str, Any] = {
            "forgetting": _Driven() if isinstance(self._params["forgetting"], Decay) else Forever()
        }
        if "refresh_every" in self._params:
            driven["refresh_every"] = 1
        if "prior" in self._params and self._sown < SMALLEST_HELD:
            driven["prior"] = None
        return type(self.calibrator)(**{**self._params, **driven})

    @cached_property
    def _nothing(self) -> dict[str, Any]:
        """The state of a calibrator that has learned nothing, without a prior."""
        state: dict[str, Any] = self._made()._state()
        return state

    def _is_bounded(self) -> bool:
        return bool(self.calibrator._memory.statistic.bounded)

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
        calibrators = self._calibrators
        questions, scores, labels = self.asking.answers(x, y)
        each = repeat(scores) if isinstance(scores, float) else scores
        for question, score, positive in zip(questions, each, labels, strict=False):
            calibrators[question].learn_one(score, positive, w)

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        if len(y) == 0:
            return
        self._totals.update_many(x, np.ones(len(y)), w)
        for question, rows, scores, positive in self.asking.answers_many(x, y):
            self._calibrators[question].learn_many(scores, positive, w[rows])

    def revert(self, x: Coordinate, y: float, w: float) -> None:
        raise CapabilityError(f"{self.calibrator!r} depends on the order of its observations and cannot unlearn")

    def merge(self, other: Self) -> None:
        raise MergeError(f"{self.calibrator!r} depends on the order of its observations and cannot merge")

    def decay(self, factor: float) -> None:
        raise CapabilityError(f"{self.calibrator!r} forgets by its own step")

    def _new(self) -> Any:
        return self._made()

    def _made(self) -> Any:
        return self.calibrator.clone()

    def _is_bounded(self) -> bool:
        return bool(self.calibrator.bounded_memory)


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

    def _pseudo_observations(self) -> PseudoObservations | None:
        if not self._questions.adds or self._method.params().get("prior") is None:
            return None
        return PseudoObservations(np.array([EVERY_QUESTION], dtype=object), np.ones(1), np.ones(1))

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

    def start(self, statistic: Statistic, prior: PseudoObservations | None = None) -> Memory:
        return _DrivenMemory(statistic, prior)


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
