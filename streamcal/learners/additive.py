"""`AdditiveLearner`: what learns by adding up, in every room: one score, several scores, classes, distributions.

A subclass says which statistic it keeps (`_new_statistic`) and what is solved from it (`_solve`); retraction, merging,
forgetting, refreshing at intervals and saving are here, once. What an observation is, and how it is checked, is the
matter of the room.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, Self, TypeVar

import numpy as np
import numpy.typing as npt

from streamcal.errors import CapabilityError, InputError, MergeError
from streamcal.learners.learner import Learner
from streamcal.memories.policies import memory_under
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.inputs import check_time, check_times, none_is_zero
from streamcal.parameters.prior import PseudoObservations
from streamcal.parameters.types import FloatArray, Time
from streamcal.statistics.base import Statistic

#: What is solved from the statistic: an immutable map.
Map = TypeVar("Map")


class AdditiveLearner(Learner, Generic[Map]):
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

    Constructors set the parameters that `_new_statistic` and `_pseudo_observations` read before they call this one.
    """

    def __init__(self, *, forgetting: Forgetting = Forever(), refresh_every: int = 1) -> None:
        require(forgetting, Forgetting, "forgetting", "Forever(), Window(size) or Decay(half_life)")
        if isinstance(refresh_every, bool) or not isinstance(refresh_every, int) or refresh_every < 1:
            raise InputError(f"refresh_every={refresh_every!r} is not possible; give a whole number of at least 1")
        self.forgetting = forgetting
        self._timed = forgetting.timed
        self.refresh_every = refresh_every
        self._memory = memory_under(forgetting, self._new_statistic(), self._pseudo_observations())
        self._solved: Map | None = None
        self._solved_for: tuple[int, float] = (-1, 1.0)
        # With refresh_every > 1: observations since the last refresh; the statistic and the unit of that moment.
        self._since = 0
        self._basis: tuple[dict[str, Any], float] | None = None

    @abstractmethod
    def _new_statistic(self) -> Statistic:
        """An empty statistic for these parameters."""

    @abstractmethod
    def _solve(self, unit: float) -> Map:
        """The map of the present statistic, which holds weight; `unit` is what an observation of today weighs in it."""

    @abstractmethod
    def _empty_map(self) -> Map:
        """What is predicted where nothing is held."""

    def _pseudo_observations(self) -> PseudoObservations | None:
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
        """Counts of what was quietly handled: retractions of what forgetting had dropped already (`missed`), and
        observations that came too late to be kept (`late`)."""
        return {"missed": self._memory.missed, "late": self._memory.late}

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
        for part in self._parts(len(x)):
            self._memory.learn_many(x[part], y[part], w[part], t[part])
            self._changed(len(x[part]))

    def _unlearn(self, x: Any, y: float, w: float, t: float) -> None:
        """Take back one observation that has been checked."""
        if not self.unlearns:
            raise CapabilityError(f"{self!r} cannot unlearn: its forgetting policy does not know an observation's age")
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

    # -- the map -------------------------------------------------------------------------------------------------

    def map(self) -> Map:
        """The present map, immutable."""
        return self._map_at(None)

    def _map_at(self, t: Time | None) -> Map:
        """The map as of `t`, solved only if something has changed since the last one."""
        if t is not None:
            t = check_time(t)
        if self._basis is not None:
            return self._map_of(*self._basis)
        unit = self._memory.as_of(t)
        if self._solved is None or self._solved_for != (self._memory.version, unit):
            self._solved = self._solve_unless_empty(unit)
            self._solved_for = (self._memory.version, unit)
        return self._solved

    def _solve_unless_empty(self, unit: float) -> Map:
        return self._empty_map() if self._memory.statistic.n <= 0.0 else self._solve(unit)

    # -- refreshing at intervals ---------------------------------------------------------------------------------

    def _parts(self, size: int) -> list[slice]:
        """A batch up to the last refresh that falls into it, and the rest: the map a loop of `learn_one` leaves."""
        last = (self._since + size) // self.refresh_every * self.refresh_every - self._since
        return [slice(0, last), slice(last, size)] if 0 < last < size else [slice(0, size)]

    def _changed(self, number: int) -> None:
        """Count changed observations; when it is time, note what the map is to be solved from, should it be asked."""
        if self.refresh_every == 1:
            return
        self._since += number
        if self._since >= self.refresh_every:
            self._since %= self.refresh_every
            unit = self._memory.as_of(None)
            self._basis = self._memory.statistic.state(), unit
            self._solved = None

    def _map_of(self, basis: dict[str, Any], unit: float) -> Map:
        """The map of the statistic at the last refresh, solved at the first question."""
        if self._solved is None:
            statistic = self._memory.statistic
            present = statistic.state()
            statistic.restore(basis)
            try:
                self._solved = self._solve_unless_empty(unit)
            finally:
                statistic.restore(present)
        return self._solved

    # -- state ---------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        self._memory.as_of(None)
        state: dict[str, Any] = {"memory": self._memory.state()}
        if self.refresh_every > 1:
            state["since"] = self._since
            state["basis"] = None if self._basis is None else list(self._basis)
        return state

    def _restore(self, state: dict[str, Any]) -> None:
        self._memory.restore(state["memory"])
        if self.refresh_every > 1:
            self._since = int(state["since"])
            self._basis = None if state["basis"] is None else (dict(state["basis"][0]), float(state["basis"][1]))

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
