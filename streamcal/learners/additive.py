"""`Additive`: the engine of all additive methods (one score, several scores, classes, distributions).

A method has its statistic (`new_statistic`), its fit (`solve`) and the map of an empty statistic (`empty_map`);
retraction, merging, forgetting, refreshing at intervals and saving are implemented here. The sub-packages differ in
what an observation is and in how it is checked.
"""

from __future__ import annotations

import logging
from typing import Any, Generic, TypeVar

from streamcal.errors import CapabilityError, InputError, MergeError, SolverError
from streamcal.learners.engine import Engine
from streamcal.memories.memory import StatisticT
from streamcal.memories.policies import memory_under
from streamcal.memories.refreshing import Refreshing
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.inputs import none_is_zero
from streamcal.parameters.numbers import whole_number
from streamcal.parameters.prior import PseudoObservations
from streamcal.parameters.spans import LARGEST_SPAN
from streamcal.parameters.types import FloatArray
from streamcal.states import Field, unread

logger = logging.getLogger(__name__)

#: The immutable map that is fitted to the statistic.
Map = TypeVar("Map")


class Unsolved:
    """The number of solves that have failed, which are logged."""

    count = 0

    def add(self, method: Any) -> None:
        """Count a failed solve of a method."""
        self.count += 1
        if self.count & (self.count - 1) == 0:  # at 1, 2, 4, 8 ...: a stream may fail at every row
            logger.warning("%r could not be solved %d times; the map before is served", method, self.count)


class Additive(Engine, Generic[StatisticT, Map]):
    """The memory of a method, and the map that the method fits to it. It is not thread-safe; its maps are.

    Parameters
    ----------
    statistic : Statistic
        The empty statistic of the method.
    forgetting : Forgetting
        The forgetting policy: `Forever()`, `Window(...)` or `Decay(...)`.
    refresh_every : int
        With 1 (default) the map always includes all observations kept. With r > 1, an option of methods whose `solve`
        is slow, the map is updated only after every r-th observation learned, unlearned or merged, so that predictions
        lag by fewer than r observations; before the r-th observation they do not lag. Between refreshes `t` has no
        effect on predictions. The statistic of the last refresh is saved with the state, which is then twice as large.
    prior : PseudoObservations or None
        The pseudo-observations of the prior.

    Notes
    -----
    A method has `solve(statistic, start)`, which fits the map to a statistic that is not empty and whose weights are in
    units of a new observation. The result depends only on the statistic and the parameters. `start`, the previous map
    or None, is a warm start of iterative solvers and changes the result by no more than the solver's tolerance. `solve`
    raises `SolverError` if the solver does not succeed. With `by_ratios` the map of a method depends only on
    ratios of weights, so that it does not change when all weights decay alike.

    Learning costs an update of the statistic; a prediction after a change costs a `solve`, other predictions only the
    evaluation of the map.

    A prediction does not fail because a solver does: where `solve` raises `SolverError`, the last map that was solved
    is served until the next change, or the empty map if there is none (a loaded state has none), and
    `tally()["unsolved"]` counts one.

    A prediction does not change the state. It may move later predictions by rounding where `solve` is iterative: the
    next solve starts from the last map (docs/states_measured.md has the methods and the largest differences).
    """

    reads_time = True

    def __init__(
        self,
        statistic: StatisticT,
        forgetting: Forgetting = Forever(),
        refresh_every: int = 1,
        prior: PseudoObservations | None = None,
    ) -> None:
        require(forgetting, Forgetting, "forgetting", "Forever(), Window(size) or Decay(half_life)")
        self.forgetting = forgetting
        self.refresh_every = whole_number(refresh_every, "refresh_every", 1)
        self.merges, self.unlearns, self.forgets_by_time = forgetting.merges, forgetting.unlearns, forgetting.timed
        self.memory = memory_under(forgetting, statistic, prior)
        self._refreshing = Refreshing(self.memory, self.refresh_every)
        #: The object whose `present` returns the statistic for predictions.
        self.source = self.memory if self.refresh_every == 1 else self._refreshing
        self.solved: Map | None = None
        self.start: Map | None = None  # what the next solve starts from: None, or the map solved
        self.solved_for: tuple[int, float] | None = None
        self.unsolved = Unsolved()

    @property
    def bounded(self) -> bool:
        keeps_observations = self.forgetting.unlearns and not isinstance(self.forgetting, Forever)
        return self.forgetting.bounded or (self.memory.statistic.bounded and not keeps_observations)

    @property
    def n(self) -> float:
        return self.memory.n

    def tally(self) -> dict[str, int]:
        """Count observations and maps.

        `missed` counts retractions of observations that were already forgotten. `late` counts observations that arrived
        too late to be kept. `unsolved` counts maps for which the solver failed, so that the last solved map predicted.
        `unsolved` starts at 0 when the object is made or read, and is not saved, because predictions change it.
        """
        return {"missed": self.memory.missed, "late": self.memory.late, "unsolved": self.unsolved.count}

    # -- learning ------------------------------------------------------------------------------------------------

    def learn(self, method: Any, x: Any, y: float, w: float, t: float) -> None:
        if w > 0.0:
            self.memory.learn(x, y, w, t)
            if self.refresh_every > 1:
                self._refreshing.changed(1)

    def learn_many(self, method: Any, x: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray) -> None:
        if not none_is_zero(w):
            weighted = w > 0.0
            x, y, w, t = x[weighted], y[weighted], w[weighted], t[weighted]
        self.require_times(t)  # before a first part is learned
        for part in self._refreshing.parts(len(x)):
            self.memory.learn_many(x[part], y[part], w[part], t[part])
            self.changed(len(x[part]))

    def unlearn(self, method: Any, x: Any, y: float, w: float, t: float) -> None:
        if not self.unlearns:
            raise CapabilityError(f"{method!r} cannot unlearn: its forgetting policy keeps no ages of observations")
        if w > 0.0:
            self.memory.unlearn(x, y, w, t)
            self.changed(1)

    def merge(self, method: Any, other: Any) -> None:
        if not method.same_parameters(other):
            raise MergeError(f"cannot merge {other!r} into {method!r}: class and parameters must be equal")
        if other is method:
            raise MergeError("a calibrator cannot be merged into itself: its observations would count twice")
        theirs: Additive[StatisticT, Map] = other._engine
        self.memory.merge(theirs.memory)
        self.changed(theirs.memory.count)
        self.unsolved.count += theirs.unsolved.count

    def changed(self, number: int) -> None:
        """Count changed observations; the map is refreshed after every r-th."""
        if self.refresh_every > 1:
            self._refreshing.changed(number)

    # -- the map -------------------------------------------------------------------------------------------------

    def present(self, t: float | None) -> StatisticT:
        """Return the statistic for predictions as of a checked time: read-only, valid until the next change."""
        return self.source.present(t)

    def map_at(self, method: Any, t: float | None) -> Map:
        """Return the map as of `t`, solved only if the statistic has changed; if that fails, the last solved map."""
        statistic = self.source.present(t)
        state = self.solving_for(method, statistic)
        if self.solved is None or self.solved_for != state:
            self.solved = self.start = method._map_of(statistic)
            self.solved_for = state
        return self.solved

    def map_of(self, method: Any, statistic: StatisticT) -> Map:
        """Return the map of a statistic, which may be empty; if the solver fails, return the last solved map."""
        return method.empty_map() if statistic.n <= 0.0 else self.solved_or_last(method, statistic)

    def solved_or_last(self, method: Any, statistic: StatisticT) -> Map:
        """Solve; if the solver fails, count this and return the last map, or the empty map if there is none."""
        solution: Map
        try:
            solution = method.solve(statistic, self.start)
        except SolverError:
            self.unsolved.add(method)
            solution = method.empty_map() if self.solved is None else self.solved
        return solution

    def solving_for(self, method: Any, statistic: StatisticT) -> tuple[int, float]:
        """Return the version and unit on which the map depends: one solution is enough for each pair."""
        return self.source.version, 1.0 if method.by_ratios else statistic.unit

    # -- state ---------------------------------------------------------------------------------------------------

    def fields(self, method: Any) -> dict[str, Field]:
        def written() -> dict[str, Any]:
            self.memory.as_of(None)
            method._forget_solved()
            return self.memory.state()

        refreshed = self._refreshing.fields() if self.refresh_every > 1 else {}
        return {"memory": Field(unread, written, self.memory.restore), **refreshed}

    def forget_solved(self) -> None:
        """Drop what solves start from, so that the next one is that of an object that was read from the state.

        A start depends on when predictions were made. It is not saved: a state is a function of what was learned. The
        last map is kept, for where the next solve fails.
        """
        self.start = self.solved_for = None

    # -- checks --------------------------------------------------------------------------------------------------

    def needs_time(self) -> str:
        return f"{self.forgetting!r} forgets by time: give the time t of every observation"

    def needs_seconds(self, factor: float) -> str:
        if not self.forgets_by_time:
            return ""
        span = float(getattr(self.forgetting, "size", 0.0) or getattr(self.forgetting, "half_life", 0.0))
        if span >= LARGEST_SPAN:
            return ""
        return (
            f", of which {self.forgetting!r} forgets by {span / factor:g} seconds: give times in seconds, or a span of "
            f"{span * factor:.15g}"
        )

    def require_times(self, t: FloatArray) -> None:
        self.memory.require_times(t)

    def require_time(self, t: float) -> None:
        self.memory.require_time(t)


def require(value: object, kind: type, name: str, allowed: str) -> None:
    """Raise `InputError` unless a parameter is of the right kind."""
    if not isinstance(value, kind):
        raise InputError(f"{name}={value!r} is not possible; give {allowed}")
