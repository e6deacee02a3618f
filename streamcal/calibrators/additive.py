"""`AdditiveCalibrator`: the methods that are functions of a statistic that adds up.

A subclass says which statistic it keeps (`_new_statistic`) and how a map is solved from it (`_solve`); learning,
retraction, merging, forgetting, cold start and saving are here, once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from streamcal.base import Calibrator, CapabilityError, FloatArray, InputError, Label, MergeError, Statistic, Time
from streamcal.forgetting import Forever, Forgetting
from streamcal.inputs import (
    check_batch,
    check_label,
    check_score,
    check_scores,
    check_time,
    check_times,
    check_weight,
)
from streamcal.kernels.usual import usual
from streamcal.maps.base import IdentityMap, ScaledMap
from streamcal.memories.memory import Seed
from streamcal.prior import Prior
from streamcal.scales import Probability, Scale


class AdditiveCalibrator(Calibrator):
    """A calibrator that is a function of a statistic. Not thread-safe; its `map()` is.

    Parameters
    ----------
    scale : Scale
        How a score becomes the coordinate the method works in.
    forgetting : Forgetting
        What is kept of the past: `Forever()`, `Window(...)` or `Decay(...)`.
    prior : Prior or None
        Pseudo-weight along the identity map, for a gentle start.
    resolution : int or None
        Cells of the grid on which the statistic is kept; None keeps every distinct score.
    refresh_every : int
        1 (default): the map is that of everything held, always. r > 1, offered by methods whose solve is not quick:
        after every r-th observation learned, unlearned or merged in, and not in between, the map becomes that of what
        is then held, so that predictions lag by fewer than r observations; before the r-th it is exact. `t` is not
        read in between. What the map was solved from is kept, and saved: the state is twice as large.
    """

    def __init__(
        self,
        *,
        scale: Scale = Probability(),
        forgetting: Forgetting = Forever(),
        prior: Prior | None = None,
        resolution: int | None = None,
        refresh_every: int = 1,
    ) -> None:
        _require(scale, Scale, "scale", "Probability(), Logit(lo, hi), Interval(lo, hi) or EmpiricalCDF.from_scores(s)")
        _require(forgetting, Forgetting, "forgetting", "Forever(), Window(size) or Decay(half_life)")
        if prior is not None:
            _require(prior, Prior, "prior", "None or Prior(strength)")
        if isinstance(refresh_every, bool) or not isinstance(refresh_every, int) or refresh_every < 1:
            raise InputError(f"refresh_every={refresh_every!r} is not possible; give a whole number of at least 1")
        self.scale = scale
        self.forgetting = forgetting
        self._timed = forgetting.timed
        self.prior = prior
        self.resolution = resolution
        self.refresh_every = refresh_every
        self._memory = forgetting.start(self._new_statistic(), self._seed())
        self._clamped = 0
        self._solved: ScaledMap | None = None
        self._solved_for: tuple[int, float] = (-1, 1.0)
        # With refresh_every > 1: observations since the last refresh; the statistic and the unit of that moment.
        self._since = 0
        self._basis: tuple[dict[str, Any], float] | None = None

    @abstractmethod
    def _new_statistic(self) -> Statistic:
        """An empty statistic for these parameters."""

    @abstractmethod
    def _solve(self, unit: float) -> ScaledMap:
        """The map of the present statistic, which holds weight; `unit` is what an observation of today weighs in it."""

    def _seed(self) -> Seed | None:
        """The pseudo-observations of the prior."""
        return None if self.prior is None else self.prior.seed(self.scale)

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

    def tally(self) -> dict[str, int]:
        """Counts of what was quietly handled: scores the scale clamped on learning, retractions of what forgetting had
        dropped already (`missed`), and observations that came too late to be kept (`late`)."""
        return {"clamped": self._clamped, "missed": self._memory.missed, "late": self._memory.late}

    # -- learning ------------------------------------------------------------------------------------------------

    def learn_one(self, score: float, y: Label, w: float = 1.0, t: Time | None = None) -> None:
        if usual(score, y, w) and t is None and not self._timed:
            s, label, weight, time = score, 1.0 if y else 0.0, w, 0.0
        else:
            s, label, weight, time = self._checked(score, y, w, t)
        x = self.scale.coordinate(s)
        if weight == 0.0:
            return
        self._memory.learn(x, label, weight, time)
        if self.refresh_every > 1:  # asked here too: a call costs more than the question
            self._changed(1)
        if x == self.scale.lo or x == self.scale.hi:
            self._clamped += self.scale.clamps(s)

    def learn_many(
        self,
        scores: npt.ArrayLike,
        y: npt.ArrayLike,
        w: npt.ArrayLike | None = None,
        t: npt.ArrayLike | Sequence[Time] | None = None,
    ) -> None:
        s, labels, weights, times = self._checked_many(scores, y, w, t)
        self._learn_many(s, self.scale.coordinates(s), labels, weights, times)

    def _learn_many(self, s: FloatArray, x: FloatArray, y: FloatArray, w: FloatArray, t: FloatArray) -> None:
        """Learn what has been checked: scores, their coordinates, labels, weights and times."""
        if not w.all():
            kept = w > 0.0
            s, x, y, w, t = s[kept], x[kept], y[kept], w[kept], t[kept]
        for part in self._parts(len(x)):
            self._memory.learn_many(x[part], y[part], w[part], t[part])
            self._changed(len(x[part]))
        self._clamped += self.scale.count_clamped(s)

    def unlearn_one(self, score: float, y: Label, w: float = 1.0, t: Time | None = None) -> None:
        s, label, weight, time = self._checked(score, y, w, t)
        x = self.scale.coordinate(s)
        if not self.unlearns:
            raise CapabilityError(f"{self!r} cannot unlearn: its forgetting policy does not know an observation's age")
        if weight > 0.0:
            self._memory.unlearn(x, label, weight, time)
            self._changed(1)

    def merge(self, other: Self) -> None:
        if type(other) is not type(self) or other.params() != self.params():
            raise MergeError(f"cannot merge {other!r} into {self!r}: class and parameters must be equal")
        if other is self:
            raise MergeError("a calibrator cannot be merged into itself: its observations would count twice")
        self._memory.merge(other._memory)
        self._changed(other._memory.statistic.count)
        self._clamped += other._clamped

    # -- predicting ----------------------------------------------------------------------------------------------

    def predict_one(self, score: float, t: Time | None = None) -> float:
        x = self.scale.coordinate(check_score(score))
        return self._map_at(t).at(x)

    def predict_many(self, scores: npt.ArrayLike, t: Time | None = None) -> FloatArray:
        x = self.scale.coordinates(check_scores(scores))
        return self._map_at(t).at_many(x)

    def map(self) -> ScaledMap:
        return self._map_at(None)

    def _map_at(self, t: Time | None) -> ScaledMap:
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

    def _solve_unless_empty(self, unit: float) -> ScaledMap:
        return self._empty_map() if self._memory.statistic.n <= 0.0 else self._solve(unit)

    def _empty_map(self) -> ScaledMap:
        """What is predicted where nothing is held."""
        return IdentityMap(self.scale)

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

    def _map_of(self, basis: dict[str, Any], unit: float) -> ScaledMap:
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
        state: dict[str, Any] = {"clamped": self._clamped, "memory": self._memory.state()}
        if self.refresh_every > 1:
            state["since"] = self._since
            state["basis"] = None if self._basis is None else list(self._basis)
        return state

    def _restore(self, state: dict[str, Any]) -> None:
        self._clamped = int(state["clamped"])
        self._memory.restore(state["memory"])
        if self.refresh_every > 1:
            self._since = int(state["since"])
            self._basis = None if state["basis"] is None else (dict(state["basis"][0]), float(state["basis"][1]))

    # -- checks --------------------------------------------------------------------------------------------------

    def _checked(self, score: float, y: Label, w: float, t: Time | None) -> tuple[float, float, float, float]:
        """Score, label, weight and time as floats, or an `InputError`."""
        if t is None and self._timed:
            raise InputError(self._needs_time())
        return check_score(score), check_label(y), check_weight(w), 0.0 if t is None else check_time(t)

    def _checked_many(
        self,
        scores: npt.ArrayLike,
        y: npt.ArrayLike,
        w: npt.ArrayLike | None,
        t: npt.ArrayLike | Sequence[Time] | None,
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Scores, labels, weights and times as arrays of one length, or an `InputError`."""
        s, labels, weights = check_batch(scores, y, w)
        if self._timed and t is None:
            raise InputError(self._needs_time())
        return s, labels, weights, check_times(t, len(s)) if t is not None else np.zeros(len(s))

    def _needs_time(self) -> str:
        return f"{self.forgetting!r} forgets by time: give the time t of every observation"


def _require(value: object, kind: type, name: str, allowed: str) -> None:
    """`InputError` unless a parameter is of the right kind."""
    if not isinstance(value, kind):
        raise InputError(f"{name}={value!r} is not possible; give {allowed}")
