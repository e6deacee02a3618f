"""`SubproblemsEngine`: one binary method, applied to each of several binary subproblems."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from typing import Any, Self, cast

import numpy as np

from streamcal.calibrators.additive import AdditiveCalibrator
from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.sequential import newtons_of
from streamcal.errors import CapabilityError, InputError, MergeError, SolverError
from streamcal.kernels.newton.newton_each import learn_each
from streamcal.learners.additive import Additive, Unsolved
from streamcal.maps.base import CalibrationMap
from streamcal.memories.memory import Coordinate
from streamcal.parameters.forgetting import Forever
from streamcal.parameters.types import FloatArray
from streamcal.states import Field, ensure, listed, number, row, unread
from streamcal.statistics.base import Statistic
from streamcal.statistics.keyed import Key
from streamcal.statistics.subproblems import Routing, Subproblems
from streamcal.statistics.totals import Totals

#: Makes the statistic of an additive method from its own statistic, its scale, the routing and its prior.
StatisticOf = Callable[..., Subproblems]


class Readers:
    """The predictors of subproblems, made when they are needed.

    Parameters
    ----------
    method : AdditiveCalibrator
        The binary method.
    statistic : Subproblems
        Read until its next change.
    previous : Readers or None
        The previous ones, as warm starts of solvers; where a solver fails, they are served instead.
    unsolved : Unsolved
        Counts the subproblems whose solver fails.
    """

    def __init__(
        self,
        method: AdditiveCalibrator[Any],
        statistic: Subproblems,
        previous: Readers | None,
        unsolved: Unsolved,
    ) -> None:
        self._method = method
        self._statistic = statistic
        self._unsolved = unsolved
        self._starts: dict[Key, Any] = {}
        self._last: dict[Key, Any] = {}  # served where a solver fails
        if previous is not None and not method.reads_statistic:
            self._starts = {**previous._starts, **previous._new}
            self._last = {**previous._last, **previous._new}
        self._new: dict[Key, Any] = {}

    def get(self, key: Key) -> CalibrationMap | None:
        """Return a subproblem's predictor, a map or an object like one; None if it has no observation."""
        made = self._new.get(key)
        if made is None:
            part = self._statistic.part(key)
            if part is None:
                return None
            made = self._solved(key, part, self._method.reader)
            self._new[key] = made
        return made

    def each(self, keys: Sequence[Key]) -> Sequence[CalibrationMap | None]:
        """Return the predictors of several subproblems."""
        return [self.get(key) for key in keys]

    def forget(self) -> None:
        """Drop all maps and warm starts; the last maps are kept in case a solver fails."""
        self._last |= self._new
        self._starts, self._new = {}, {}

    def all(self) -> dict[Key, CalibrationMap]:
        """Return the maps of all subproblems with observations; the maps are immutable."""
        if self._method.reads_statistic:  # its predictors are no maps
            return {key: self._solved(key, part, self._method.solve) for key, part in self._statistic.parts.items()}
        return {key: self.get(key) for key in self._statistic.parts}  # type: ignore[misc]

    def reads(self, statistic: Subproblems) -> bool:
        """Return whether these readers are over this statistic."""
        return self._statistic is statistic

    def over(self, statistic: Subproblems) -> Readers:
        """Attach these readers to an equal statistic, and return them."""
        self._statistic = statistic
        return self

    def _solved(self, key: Key, part: Statistic, solve: Callable[[Any, Any], CalibrationMap]) -> CalibrationMap:
        """Return the method's predictor of a part; if the solver fails, the previous predictor, or the empty map."""
        if part.n <= 0.0:
            return self._method.empty_map()
        try:
            return solve(part, self._starts.get(key))
        except SolverError:
            self._unsolved.add(self._method)
            last: CalibrationMap | None = self._last.get(key)
            return self._method.empty_map() if last is None else last


class SequentialSubproblems(Statistic):
    """Sequential calibrators, one for each subproblem, which forget by their own steps, under `Forever`."""

    drifts = False  # nothing is ever unlearned

    def __init__(self, calibrator: Calibrator, routing: Routing) -> None:
        self._calibrator = calibrator
        self._routing = routing
        self._totals = Totals()
        self.calibrators: dict[Key, Calibrator] = {}
        # The keys of the last observation, their calibrators and kernels: the next one mostly has the same.
        self._last: tuple[Sequence[Key], list[Calibrator], list[Any] | None] = (), [], None
        self.bounded = calibrator.bounded_memory

    @property
    def n(self) -> float:
        return self._totals.n

    @property
    def count(self) -> int:
        return self._totals.count

    def get(self, key: Key) -> CalibrationMap | Calibrator | None:
        """Return the calibrator of a subproblem; None if the subproblem has no observation."""
        return self.calibrators.get(key)

    def each(self, keys: Sequence[Key]) -> Sequence[CalibrationMap | Calibrator | None]:
        """Return the calibrators of several subproblems."""
        if keys is self._last[0]:  # those of the last observation
            return self._last[1]
        return [self.calibrators.get(key) for key in keys]

    def all(self) -> dict[Key, CalibrationMap]:
        """Return the maps of all subproblems with observations."""
        return {key: calibrator.map() for key, calibrator in self.calibrators.items()}

    def issue(self, keys: Sequence[Key], scores: Sequence[float]) -> list[float] | None:
        """Return the records of predictions at the scores of these subproblems, all of one length, in one list.

        None where labels do not judge the predictions of the binary method.
        """
        records: list[float] = []
        for key, score in zip(keys, scores, strict=True):
            own = self.calibrators.get(key, self._calibrator)  # a new one is a clone of it
            record = own._issue(own.scale.coordinate(score), math.nan) if own._judged else None
            if record is None:
                return None
            records += record
        return records

    def learn_issued(self, x: Coordinate, y: float, w: float, records: Mapping[Key, Sequence[float]]) -> None:
        """Learn an observation by the records of its predictions; a subproblem without one predicts now.

        Raise `InputError` for numbers that are no records; nothing is learned then.
        """
        keys, scores, labels = self._routing.route(x, y)
        each = repeat(scores) if isinstance(scores, float) else scores
        rows = [
            (key, score, positive, records.get(key)) for key, score, positive in zip(keys, each, labels, strict=False)
        ]
        for key, _, _, record in rows:
            if record is not None:
                self.calibrators.get(key, self._calibrator)._require_issued(record)
        self._totals.update(x, 1.0, w)
        for key, score, positive, record in rows:
            self._calibrator_of(key)._learn_keyed(score, None, positive, record, w, None)

    def update(self, x: Coordinate, y: float, w: float) -> None:
        self._totals.update(x, 1.0, w)
        keys, scores, labels = self._routing.route(x, y)
        each = repeat(scores) if isinstance(scores, float) else scores
        calibrators, newtons = self._calibrators_of(keys)
        if newtons is not None and not isinstance(scores, float):
            own_scores, flags = list(scores), list(labels)
            left, beyond = learn_each(newtons, own_scores, flags, w)
            for place in left:
                calibrators[place].learn_one(own_scores[place], flags[place], w)
            for place in beyond:
                calibrators[place]._note(1)
            return
        for calibrator, score, positive in zip(calibrators, each, labels, strict=False):
            calibrator.learn_one(score, positive, w)

    def give_up(self, x: Coordinate, y: float) -> None:
        """Tell the calibrators that predictions of an observation are not judged: its weight is 0."""
        keys, scores, labels = self._routing.route(x, y)
        each = repeat(scores) if isinstance(scores, float) else scores
        for calibrator, score, positive in zip(self.each(keys), each, labels, strict=False):
            if isinstance(calibrator, Calibrator):
                calibrator.learn_one(score, positive, 0.0)

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        if len(y) == 0:
            return
        self._totals.update_many(x, np.ones(len(y)), w)
        for key, rows, scores, positive in self._routing.route_many(x, y):
            self._calibrator_of(key).learn_many(scores, positive, w[rows])

    def unlearn(self, x: Coordinate, y: float, w: float) -> None:
        raise CapabilityError(f"{self._calibrator!r} depends on the order of its observations and cannot unlearn")

    def merge(self, other: Self) -> None:
        raise MergeError(f"{self._calibrator!r} depends on the order of its observations and cannot merge")

    def decay(self, factor: float) -> None:
        raise CapabilityError(f"{self._calibrator!r} forgets by its own step")

    def empty(self) -> Self:
        return type(self)(self._calibrator, self._routing)

    def fields(self) -> dict[str, Field]:
        parts = listed(row(self._routing.key, unread))
        return {
            "totals": Field(unread, self._totals.state),
            "sown": Field(number(0.0, 0.0), lambda: 0.0),
            "parts": Field(parts, lambda: [[key, calibrator._state()] for key, calibrator in self.calibrators.items()]),
        }

    def _load(self, totals: Any, sown: float, parts: list[tuple[Key, Any]]) -> None:
        read = Totals()
        read.restore(totals)
        loaded: dict[Key, Calibrator] = {}
        for key, saved in parts:
            ensure(key not in loaded, f"subproblem {key!r} occurs twice")
            loaded[key] = self._calibrator.clone()
            loaded[key]._restore(saved)
        if self._routing.constant and read.count:
            ensure(set(loaded) == set(self._routing.keys()), "not every subproblem is there")
        self._totals, self.calibrators, self._last = read, loaded, ((), [], None)

    def require_possible(self, x: Any, y: FloatArray) -> None:
        self._routing.require_possible(x, y)

    def _calibrators_of(self, keys: Sequence[Key]) -> tuple[list[Calibrator], list[Any] | None]:
        """Return the calibrators of these keys, and their kernels if the kernels can learn in one call."""
        known, calibrators, newtons = self._last
        if keys is not known:
            calibrators = [self._calibrator_of(key) for key in keys]
            newtons = newtons_of(calibrators)
            self._last = keys, calibrators, newtons
        return calibrators, newtons

    def _calibrator_of(self, key: Key) -> Calibrator:
        calibrator = self.calibrators.get(key)
        if calibrator is None:
            calibrator = self.calibrators[key] = self._calibrator.clone()
        return calibrator


class SubproblemsEngine(Additive[Any, Any]):
    """The engine of a binary method that is applied to each of several subproblems.

    Forgetting policy and `refresh_every` are those of the method; under a sequential method every subproblem has a
    calibrator, and nothing is merged or taken back.
    """

    def __init__(self, method: Calibrator, routing: Routing, of_additive: StatisticOf = Subproblems) -> None:
        self.binary = method
        #: The method, if it is a function of a statistic.
        self.additive: AdditiveCalibrator[Any] | None = method if isinstance(method, AdditiveCalibrator) else None
        self._readers: Readers | None = None
        self._readers_for: tuple[int, float] | None = None
        statistic: Any = SequentialSubproblems(method, routing)
        prior, additive, params = None, self.additive, method.params()
        if additive is None and method.forgets_by_time:
            raise InputError(f"calibrator={method!r} forgets by time, which subproblems cannot; forget by count in it")
        if additive is not None:
            prior = additive.pseudo_observations()
            statistic = of_additive(additive.new_statistic, additive.scale, routing, prior)
        super().__init__(statistic, params.get("forgetting", Forever()), params.get("refresh_every", 1), prior)
        if additive is None:
            self.merges = self.unlearns = False

    def learn(self, method: Any, x: Coordinate, y: float, w: float, t: float) -> None:
        if w == 0.0 and self.additive is None:
            self.memory.statistic.give_up(x, y)
        super().learn(method, x, y, w, t)

    def learn_issued(self, x: Coordinate, y: float, w: float, records: Mapping[Key, Sequence[float]]) -> None:
        """Learn an observation of a sequential method by the records of its predictions, by subproblem."""
        if w > 0.0:
            self.memory.statistic.learn_issued(x, y, w, records)
            self.memory.version += 1

    def unlearn(self, method: Any, x: Coordinate, y: float, w: float, t: float) -> None:
        if self.additive is None:
            raise CapabilityError(f"{self.binary!r} depends on the order of its observations and cannot unlearn")
        super().unlearn(method, x, y, w, t)

    def readers_of(self, statistic: Any) -> Readers | SequentialSubproblems:
        """Return what predicts for subproblems from the present statistic."""
        if self.additive is None:
            return statistic
        state = self.source.version, statistic.unit
        if self._readers is None or self._readers_for != state:
            self._readers = Readers(self.additive, statistic, self._readers, self.unsolved)
            self._readers_for = state
        return self._readers.over(statistic)

    def solved_or_last(self, method: Any, statistic: Any) -> Any:
        self.readers_of(statistic)  # one map of a subproblem, however it is read: the next one starts from it
        return super().solved_or_last(method, statistic)

    def forget_solved(self) -> None:
        super().forget_solved()
        self._readers_for = None
        if self._readers is not None:
            self._readers.forget()
        if self.additive is not None:
            self.additive._forget_solved()

    def maps_of(self, statistic: Subproblems | SequentialSubproblems) -> Mapping[Key, CalibrationMap]:
        """Return the maps of all subproblems with observations."""
        if isinstance(statistic, SequentialSubproblems):
            return statistic.all()
        if self._readers is not None and self._readers.reads(statistic):
            return self._readers.all()
        return Readers(cast(AdditiveCalibrator[Any], self.additive), statistic, self._readers, self.unsolved).all()
