"""`AdditiveLearner`: the base class of all additive methods (one score, several scores, classes, distributions).

A subclass defines its statistic (`new_statistic`) and the fit (`solve`); retraction, merging, forgetting, refreshing at
intervals and saving are implemented here. The sub-packages differ in what an observation is and in how it is checked.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from typing import Any, Generic, Self, TypeVar

import numpy as np

from streamcal.errors import CapabilityError, InputError, MergeError, SolverError
from streamcal.learners.learner import Learner
from streamcal.memories.memory import Held
from streamcal.memories.policies import memory_under
from streamcal.memories.refreshing import Refreshing
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.given import whole_number
from streamcal.parameters.inputs import check_time, none_is_zero, of_one_kind
from streamcal.parameters.prior import PseudoObservations
from streamcal.parameters.spans import LARGEST_SPAN
from streamcal.parameters.types import FloatArray, Time, Times
from streamcal.states import Reader, unread

logger = logging.getLogger(__name__)

#: The immutable map that is fitted to the statistic.
Map = TypeVar("Map")


class AdditiveLearner(Learner, Generic[Held, Map]):
    """A learner whose map is a function of a sufficient statistic. It is not thread-safe; its maps are.

    Parameters
    ----------
    forgetting : Forgetting
        The forgetting policy: `Forever()`, `Window(...)` or `Decay(...)`.
    refresh_every : int
        With 1 (default) the map always includes all observations kept. With r > 1, an option of methods whose `solve`
        is slow, the map is updated only after every r-th observation learned, unlearned or merged, so that predictions
        lag by fewer than r observations; before the r-th observation they do not lag. Between refreshes `t` has no
        effect on predictions. The statistic of the last refresh is saved with the state, which is then twice as large.

    Notes
    -----
    Learning costs an update of the statistic; a prediction after a change costs a `solve`, other predictions only the
    evaluation of the map. Constructors of subclasses set the parameters that `new_statistic` and `pseudo_observations`
    read, and then call this one.

    A prediction does not fail because a solver does: where `solve` raises `SolverError`, the last map that was solved
    is served until the next change, or the empty map if there is none (a loaded state has none), and
    `tally()["unsolved"]` counts one.

    A prediction does not change the state. It may move later predictions by rounding where `solve` is iterative: the
    next solve starts from the last map (docs/states_measured.md has the methods and the largest differences).
    """

    #: Whether the map depends only on ratios of weights, so that it does not change when all weights decay alike.
    by_ratios: bool = False
    #: Whether observations are forgotten by their times, so that each needs one.
    forgets_by_time: bool = False

    def __init__(self, *, forgetting: Forgetting = Forever(), refresh_every: int = 1) -> None:
        require(forgetting, Forgetting, "forgetting", "Forever(), Window(size) or Decay(half_life)")
        self.forgetting = forgetting
        self.forgets_by_time = forgetting.timed
        self.refresh_every = whole_number(refresh_every, "refresh_every", 1)
        self._memory = memory_under(forgetting, self._empty_statistic(), self.pseudo_observations())
        self._refreshing = Refreshing(self._memory, self.refresh_every)
        #: The object whose `present` returns the statistic for predictions.
        self._source = self._memory if self.refresh_every == 1 else self._refreshing
        self._solved: Map | None = None
        self._start: Map | None = None  # what the next solve starts from: None, or the map solved
        self._solved_for: tuple[int, float] | None = None
        self._unsolved = 0  # how many solves have failed

    @abstractmethod
    def new_statistic(self) -> Held:
        """Return an empty statistic for these parameters."""

    @abstractmethod
    def solve(self, statistic: Held, start: Map | None) -> Map:
        """Fit the map to a non-empty statistic whose weights are in units of a new observation.

        The result depends only on the statistic and the parameters. `start`, the previous map or None, is a warm start
        for iterative solvers and changes the result by no more than the solver's tolerance. Raise `SolverError` if the
        solver does not succeed.
        """

    @abstractmethod
    def empty_map(self) -> Map:
        """Return the map of an empty statistic."""

    def pseudo_observations(self) -> PseudoObservations | None:
        """Return the pseudo-observations of the prior; None if there is no prior."""
        return None

    # -- capabilities --------------------------------------------------------------------------------------------

    @property
    def merges(self) -> bool:
        return self.forgetting.merges

    @property
    def unlearns(self) -> bool:
        return self.forgetting.unlearns

    @property
    def bounded_memory(self) -> bool:
        keeps_observations = self.forgetting.unlearns and not isinstance(self.forgetting, Forever)
        return self.forgetting.bounded or (self._memory.statistic.bounded and not keeps_observations)

    @property
    def n(self) -> float:
        return self._memory.n

    def holds_nothing(self, t: Time | None = None) -> bool:
        """Return whether no observation is kept as of time `t`. O(1), plus the cost of moving a time window."""
        self._memory.as_of(None if t is None else check_time(t))
        return self._memory.holds_nothing

    def tally(self) -> dict[str, int]:
        """Count the observations handled without an error.

        The count that the class calls `noted` is, for example, of scores clamped by the scale. `missed` counts
        retractions of observations that were already forgotten. `late` counts observations that arrived too late to be
        kept. `unsolved` counts maps for which the solver failed, so that the last solved map predicted. `unsolved`
        starts at 0 when the object is made or read, and is not saved, because predictions change it.
        """
        memory = self._memory
        return {**super().tally(), "missed": memory.missed, "late": memory.late, "unsolved": self._unsolved}

    # -- learning ------------------------------------------------------------------------------------------------

    def _learn(self, x: Any, y: float, w: float, t: float, noted: int = 0) -> None:
        if w > 0.0:
            self._memory.learn(x, y, w, t)
            self._changed(1)
            if noted:
                self._note(noted)

    def _learn_many(self, x: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray, noted: int = 0) -> None:
        if not none_is_zero(w):
            kept = w > 0.0
            x, y, w, t = x[kept], y[kept], w[kept], t[kept]
        self._require_times(t)  # before a first part is learned
        for part in self._refreshing.parts(len(x)):
            self._memory.learn_many(x[part], y[part], w[part], t[part])
            self._changed(len(x[part]))
        self._note(noted)

    def _unlearn(self, x: Any, y: float, w: float, t: float, noted: int = 0) -> None:
        if not self.unlearns:
            raise CapabilityError(f"{self!r} cannot unlearn: its forgetting policy keeps no ages of observations")
        if w > 0.0:
            self._memory.unlearn(x, y, w, t)
            self._changed(1)

    def merge(self, other: Self) -> None:
        if not self.same_parameters(other):
            raise MergeError(f"cannot merge {other!r} into {self!r}: class and parameters must be equal")
        if other is self:
            raise MergeError("a calibrator cannot be merged into itself: its observations would count twice")
        self._memory.merge(other._memory)
        self._changed(other._memory.count)
        self._note(other._noted)
        self._unsolved += other._unsolved

    def _require_times(self, t: FloatArray) -> None:
        self._memory.require_times(t)

    def _require_time(self, t: float) -> None:
        self._memory.require_time(t)

    def _changed(self, number: int) -> None:
        """Count changed observations; the map is refreshed after every r-th."""
        if self.refresh_every > 1:
            self._refreshing.changed(number)

    # -- the map -------------------------------------------------------------------------------------------------

    def map(self) -> Map:
        """Return the current map, which is immutable."""
        return self._map_at(None)

    def _present(self, t: Time | None) -> Held:
        """Return the statistic for predictions as of `t`: read-only, valid until the next change."""
        if t is not None:
            of_one_kind(t, self._first_time)
            t = check_time(t)
        return self._source.present(t)

    def _map_at(self, t: Time | None) -> Map:
        """Return the map as of `t`, solved only if the statistic has changed; if that fails, the last solved map."""
        statistic = self._present(t)
        state = self._solving_for(statistic)
        if self._solved is None or self._solved_for != state:
            self._solved = self._start = self._map_of(statistic)
            self._solved_for = state
        return self._solved

    def _empty_statistic(self) -> Held:
        """Return the empty statistic of the memory: that of `solve`, unless a package keeps several of them."""
        return self.new_statistic()

    def _map_of(self, statistic: Held) -> Map:
        """Return the map of a statistic, which may be empty; if the solver fails, return the last solved map."""
        return self.empty_map() if statistic.n <= 0.0 else self._solved_or_last(statistic)

    def _solved_or_last(self, statistic: Held) -> Map:
        """Solve; if the solver fails, count this and return the last map, or the empty map if there is none."""
        try:
            return self.solve(statistic, self._start)
        except SolverError:
            self._count_unsolved()
            return self.empty_map() if self._solved is None else self._solved

    def _count_unsolved(self) -> None:
        self._unsolved += 1
        if self._unsolved & (self._unsolved - 1) == 0:  # at 1, 2, 4, 8 ...: a stream may fail at every row
            logger.warning("%r could not be solved %d times; the map before is served", self, self._unsolved)

    # -- state ---------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        self._memory.as_of(None)
        self._forget_solved()
        refreshed = self._refreshing.state() if self.refresh_every > 1 else {}
        return {**super()._state(), "memory": self._memory.state(), **refreshed}

    def _state_fields(self) -> dict[str, Reader]:
        refreshed = dict.fromkeys(("since", "basis"), unread) if self.refresh_every > 1 else {}
        return {**super()._state_fields(), "memory": unread, **refreshed}

    def _load(self, *, memory: Any, since: Any = None, basis: Any = None, **fields: Any) -> None:
        super()._load(**fields)
        self._memory.restore(memory)
        if self.refresh_every > 1:
            self._refreshing.restore({"since": since, "basis": basis})

    def _forget_solved(self) -> None:
        """Drop what solves start from, so that the next one is that of an object that was read from the state.

        A start depends on when predictions were made. It is not saved: a state is a function of what was learned. The
        last map is kept, for where the next solve fails.
        """
        self._start = self._solved_for = None

    def _solving_for(self, statistic: Held) -> tuple[int, float]:
        """Return the version and unit on which the map depends: one solution is enough for each pair."""
        return self._source.version, 1.0 if self.by_ratios else statistic.unit

    # -- checks --------------------------------------------------------------------------------------------------

    def _time(self, t: Time | None) -> float:
        if t is not None:
            return self._checked_time(t)
        if self.forgets_by_time:
            raise InputError(self._needs_time())
        return 0.0

    def _times(self, t: Times | None, size: int) -> FloatArray:
        if t is not None:
            return self._checked_times(t, size)
        if self.forgets_by_time:
            raise InputError(self._needs_time())
        return np.zeros(size)

    def _needs_seconds(self, factor: float) -> str:
        if not self.forgets_by_time:
            return ""
        span = float(getattr(self.forgetting, "size", 0.0) or getattr(self.forgetting, "half_life", 0.0))
        if span >= LARGEST_SPAN:
            return ""
        return (
            f", of which {self.forgetting!r} forgets by {span / factor:g} seconds: give times in seconds, or a span of "
            f"{span * factor:.15g}"
        )

    def _needs_time(self) -> str:
        return f"{self.forgetting!r} forgets by time: give the time t of every observation"


def require(value: object, kind: type, name: str, allowed: str) -> None:
    """Raise `InputError` unless a parameter is of the right kind."""
    if not isinstance(value, kind):
        raise InputError(f"{name}={value!r} is not possible; give {allowed}")
