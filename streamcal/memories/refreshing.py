"""`Refreshing`: the statistic that a map is solved from: the current one, or that of the last refresh."""

from __future__ import annotations

from typing import Any, Generic

from streamcal.memories.decay import RESCALE_HALF_LIVES
from streamcal.memories.memory import Memory, StatisticT
from streamcal.states import Field, attribute, maybe, number, row, unread, whole


class Refreshing(Generic[StatisticT]):
    """The statistic of a memory as of the last refresh, which takes place after every r-th observation.

    Before the r-th observation, and with r = 1, it is the current statistic. A refresh copies the state, O(k); the
    statistic is restored from the copy when a map is needed. `version` changes whenever the result of `present` does.
    """

    def __init__(self, memory: Memory[StatisticT], every: int) -> None:
        self._memory = memory
        self._every = every
        self._since = 0  # observations since the last refresh
        self._refreshes = 0
        #: State and unit of the statistic at the last refresh.
        self._basis: tuple[dict[str, Any], float] | None = None
        self._restored: StatisticT | None = None  # the same, as a statistic

    @property
    def version(self) -> int:
        return self._memory.version if self._basis is None else -self._refreshes

    def present(self, t: float | None) -> StatisticT:
        """Return the statistic to solve from, in units of an observation at `t` or at the last refresh."""
        if self._basis is None:
            return self._memory.present(t)
        state, unit = self._basis
        if self._restored is None:
            self._restored = self._memory.statistic.empty()
            self._restored.restore(state)
        return self._restored.present(unit)

    def changed(self, number: int) -> None:
        """Count changed observations, and refresh after every r-th."""
        self._since += number
        if self._since >= self._every:
            self._since %= self._every
            unit = self._memory.as_of(None)
            self._basis = self._memory.statistic.state(), unit
            self._restored = None
            self._refreshes += 1

    def parts(self, size: int) -> list[slice]:
        """Split a batch at its last refresh, so that the final map is that of a loop of `learn_one`."""
        last = (self._since + size) // self._every * self._every - self._since
        return [slice(0, last), slice(last, size)] if 0 < last < size else [slice(0, size)]

    def fields(self) -> dict[str, Field]:
        """Return the fields of the state by name."""
        growth = number(1.0, 2.0**RESCALE_HALF_LIVES)
        basis = Field(maybe(row(unread, growth)), self._written_basis, self._load_basis)
        return {"since": attribute(self, "_since", whole(0, self._every - 1)), "basis": basis}

    def _written_basis(self) -> list[Any] | None:
        return None if self._basis is None else list(self._basis)

    def _load_basis(self, basis: tuple[dict[str, Any], float] | None) -> None:
        if basis is not None:  # read now, not at the first prediction
            self._restored = self._memory.statistic.empty()
            self._restored.restore(basis[0])
        self._basis = basis
        self._refreshes += 1
