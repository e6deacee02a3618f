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
from streamcal.maps import IdentityMap, ScaledMap
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
    """

    def __init__(
        self,
        *,
        scale: Scale = Probability(),  # noqa: B008 - frozen
        forgetting: Forgetting = Forever(),  # noqa: B008 - frozen
        prior: Prior | None = None,
        resolution: int | None = None,
    ) -> None:
        _require(scale, Scale, "scale", "Probability(), Logit(lo, hi), Interval(lo, hi) or EmpiricalCDF.from_scores(s)")
        _require(forgetting, Forgetting, "forgetting", "Forever(), Window(size) or Decay(half_life)")
        if prior is not None:
            _require(prior, Prior, "prior", "None or Prior(strength)")
        self.scale = scale
        self.forgetting = forgetting
        self.prior = prior
        self.resolution = resolution
        self._memory = forgetting.start(self._new_statistic(), None if prior is None else prior.seed(scale))
        self._clamped = 0
        self._solved: ScaledMap | None = None
        self._solved_for: tuple[int, float] = (-1, 1.0)

    @abstractmethod
    def _new_statistic(self) -> Statistic:
        """An empty statistic for these parameters."""

    @abstractmethod
    def _solve(self, unit: float) -> ScaledMap:
        """The map of the present statistic, which holds weight; `unit` is what an observation of today weighs in it."""

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
        s, label, weight, time = self._checked(score, y, w, t)
        x = self.scale.coordinate(s)
        if weight == 0.0:
            return
        self._memory.learn(x, label, weight, time)
        if x == self.scale.lo or x == self.scale.hi:
            self._clamped += self.scale.clamps(s)

    def learn_many(
        self,
        scores: npt.ArrayLike,
        y: npt.ArrayLike,
        w: npt.ArrayLike | None = None,
        t: npt.ArrayLike | Sequence[Time] | None = None,
    ) -> None:
        s, labels, weights = check_batch(scores, y, w)
        x = self.scale.coordinates(s)
        if self.forgetting.timed and t is None:
            raise InputError(self._needs_time())
        times = check_times(t, len(s)) if t is not None else np.zeros(len(s))
        if w is not None and not weights.all():
            kept = weights > 0.0
            s, x, labels, weights, times = s[kept], x[kept], labels[kept], weights[kept], times[kept]
        self._memory.learn_many(x, labels, weights, times)
        self._clamped += self.scale.count_clamped(s)

    def unlearn_one(self, score: float, y: Label, w: float = 1.0, t: Time | None = None) -> None:
        s, label, weight, time = self._checked(score, y, w, t)
        x = self.scale.coordinate(s)
        if not self.unlearns:
            raise CapabilityError(f"{self!r} cannot unlearn: its forgetting policy does not know an observation's age")
        if weight > 0.0:
            self._memory.unlearn(x, label, weight, time)

    def merge(self, other: Self) -> None:
        if type(other) is not type(self) or other.params() != self.params():
            raise MergeError(f"cannot merge {other!r} into {self!r}: class and parameters must be equal")
        if other is self:
            raise MergeError("a calibrator cannot be merged into itself: its observations would count twice")
        self._memory.merge(other._memory)
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
        unit = self._memory.as_of(None if t is None else check_time(t))
        if self._solved is None or self._solved_for != (self._memory.version, unit):
            empty = self._memory.statistic.n <= 0.0
            self._solved = self._empty_map() if empty else self._solve(unit)
            self._solved_for = (self._memory.version, unit)
        return self._solved

    def _empty_map(self) -> ScaledMap:
        """What is predicted where nothing is held."""
        return IdentityMap(self.scale)

    # -- state ---------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        self._memory.as_of(None)
        return {"clamped": self._clamped, "memory": self._memory.state()}

    def _restore(self, state: dict[str, Any]) -> None:
        self._clamped = int(state["clamped"])
        self._memory.restore(state["memory"])

    # -- checks --------------------------------------------------------------------------------------------------

    def _checked(self, score: float, y: Label, w: float, t: Time | None) -> tuple[float, float, float, float]:
        """Score, label, weight and time as floats, or an `InputError`."""
        if t is None and self.forgetting.timed:
            raise InputError(self._needs_time())
        return check_score(score), check_label(y), check_weight(w), 0.0 if t is None else check_time(t)

    def _needs_time(self) -> str:
        return f"{self.forgetting!r} forgets by time: give the time t of every observation"


def _require(value: object, kind: type, name: str, allowed: str) -> None:
    """`InputError` unless a parameter is of the right kind."""
    if not isinstance(value, kind):
        raise InputError(f"{name}={value!r} is not possible; give {allowed}")
