"""`AdditiveLearner`: the base of all additive methods: one score, several scores, classes, distributions.

A subclass defines the statistic it keeps (`new_statistic`) and the solve (`solve`); retraction, merging, forgetting,
refreshing at intervals and saving are implemented here. The sub-packages differ in what an observation is, and in how
it is checked.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt

from streamcal.errors import CapabilityError, InputError, MergeError
from streamcal.learners.learner import Learner
from streamcal.memories.memory import Held
from streamcal.memories.policies import memory_under
from streamcal.memories.refreshing import Refreshing
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.inputs import check_time, check_times, none_is_zero
from streamcal.parameters.prior import PseudoObservations
from streamcal.parameters.types import FloatArray, Time

#: What is solved from the statistic: an immutable map.
Map = TypeVar("Map")


class AdditiveLearner(Learner, Generic[Held, Map]):
    """A learner that is a function of a statistic. Not thread-safe; its maps are.

    Parameters
    ----------
    forgetting : Forgetting
        What is kept of the past: `Forever()`, `Window(...)` or `Decay(...)`.
    refresh_every : int
        1 (default): the map is that of everything held, always. r > 1, offered by methods whose solve is not quick:
        after every r-th observation learned, unlearned or merged in, and not in between, the map becomes that of what
        is then held, so that predictions lag by fewer than r observations; before the r-th it is exact. `t` is not
        read in between. What the map was solved from is kept, and saved: the state is twice as large.

    Constructors set the parameters that `new_statistic` and `pseudo_observations` read before they call this one.
    """

    #: Whether a map depends on ratios of weights alone, so that it stays the same when all of them fade alike.
    by_ratios: ClassVar[bool] = False

    def __init__(self, *, forgetting: Forgetting = Forever(), refresh_every: int = 1) -> None:
        require(forgetting, Forgetting, "forgetting", "Forever(), Window(size) or Decay(half_life)")
        if isinstance(refresh_every, bool) or not isinstance(refresh_every, int) or refresh_every < 1:
            raise InputError(f"refresh_every={refresh_every!r} is not possible; give a whole number of at least 1")
        self.forgetting = forgetting
        self._timed = forgetting.timed
        self.refresh_every = refresh_every
        self._memory = memory_under(forgetting, self.new_statistic(), self.pseudo_observations())
        self._refreshing = Refreshing(self._memory, refresh_every)
        #: Where the statistic that predictions are made from comes from.
        self._source = self._memory if refresh_every == 1 else self._refreshing
        self._solved: Map | None = None
        self._solved_for: tuple[int, float] = (-1, 1.0)

    @abstractmethod
    def new_statistic(self) -> Held:
        """An empty statistic for these parameters."""

    @abstractmethod
    def solve(self, statistic: Held, start: Map | None) -> Map:
        """The map of a statistic that holds weight, in units of an observation of today.

        A pure function of the statistic and the parameters. `start`, the previous map or None, is where an iterative
        solver may begin: it moves the answer by no more than the solver's tolerance.
        """

    @abstractmethod
    def empty_map(self) -> Map:
        """What is predicted where nothing is held."""

    def pseudo_observations(self) -> PseudoObservations | None:
        """The pseudo-observations of a prior."""
        return None

    # -- what it can do ------------------------------------------------------------------------------------------

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
        """Whether nothing that was learned is held, as of time `t`. O(1), and as much as the window has to move."""
        self._memory.as_of(None if t is None else check_time(t))
        return self._memory.holds_nothing

    def tally(self) -> dict[str, int]:
        """Counts of what was quietly handled: what the class calls `noted` (scores clamped by the scale, outcomes where
        the method cannot follow), retractions of what forgetting had dropped already (`missed`), and observations that
        came too late to be kept (`late`)."""
        return {**super().tally(), "missed": self._memory.missed, "late": self._memory.late}

    # -- learning ------------------------------------------------------------------------------------------------

    def _learn(self, x: Any, y: float, w: float, t: float) -> None:
        """Learn one observation that has been checked."""
        if w > 0.0:
            self._memory.learn(x, y, w, t)
            self._changed(1)

    def _learn_many(self, x: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray) -> None:
        """Learn what has been checked: coordinates of shape (n,) or (n, M), outcomes, weights and times."""
        if not none_is_zero(w):
            kept = w > 0.0
            x, y, w, t = x[kept], y[kept], w[kept], t[kept]
        for part in self._refreshing.parts(len(x)):
            self._memory.learn_many(x[part], y[part], w[part], t[part])
            self._changed(len(x[part]))

    def _unlearn(self, x: Any, y: float, w: float, t: float) -> None:
        """Take back one observation that has been checked."""
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

    def _changed(self, number: int) -> None:
        """Count changed observations; the map is refreshed after every r-th."""
        if self.refresh_every > 1:
            self._refreshing.changed(number)

    # -- the map -------------------------------------------------------------------------------------------------

    def map(self) -> Map:
        """The present map, immutable."""
        return self._map_at(None)

    def _present(self, t: Time | None) -> Held:
        """The statistic that predictions as of `t` are made from; to be read, until the next change."""
        return self._source.present(t if t is None else check_time(t))

    def _map_at(self, t: Time | None) -> Map:
        """The map as of `t`, solved only if something has changed since the last one."""
        statistic = self._present(t)
        state = self._source.version, 1.0 if self.by_ratios else statistic.unit
        if self._solved is None or self._solved_for != state:
            self._solved = self.empty_map() if statistic.n <= 0.0 else self.solve(statistic, self._solved)
            self._solved_for = state
        return self._solved

    def _check(self) -> None:
        """Raise `AssertionError` if an invariant of what is held does not hold; for tests, after every change."""
        self._memory._check()
        self._refreshing._check()

    # -- state ---------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        self._memory.as_of(None)
        refreshed = self._refreshing.state() if self.refresh_every > 1 else {}
        return {**super()._state(), "memory": self._memory.state(), **refreshed}

    def _restore(self, state: dict[str, Any]) -> None:
        super()._restore(state)
        self._memory.restore(state["memory"])
        if self.refresh_every > 1:
            self._refreshing.restore(state)

    # -- checks --------------------------------------------------------------------------------------------------

    def _time(self, t: Time | None) -> float:
        """The time as a float; `InputError` if the policy needs one and there is none."""
        if t is not None:
            return check_time(t)
        if self._timed:
            raise InputError(self._needs_time())
        return 0.0

    def _times(self, t: npt.ArrayLike | Sequence[Time] | None, size: int) -> FloatArray:
        """The times as an array of shape (size,), or an `InputError`."""
        if t is not None:
            return check_times(t, size)
        if self._timed:
            raise InputError(self._needs_time())
        return np.zeros(size)

    def _needs_time(self) -> str:
        return f"{self.forgetting!r} forgets by time: give the time t of every observation"


def require(value: object, kind: type, name: str, allowed: str) -> None:
    """`InputError` unless a parameter is of the right kind."""
    if not isinstance(value, kind):
        raise InputError(f"{name}={value!r} is not possible; give {allowed}")
