"""`Subproblems`: the statistics of several binary subproblems, such as one-vs-rest, as a single statistic."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from streamcal.parameters.prior import PseudoObservations
from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray
from streamcal.states import ROUNDING, Field, ensure, listed, number, row, unread
from streamcal.statistics.base import Statistic
from streamcal.statistics.keyed import Column, Entry, Key, Keyed
from streamcal.statistics.retractions import SMALLEST_WEIGHT
from streamcal.statistics.totals import Totals

#: The binary subproblems of an observation: their keys, its score in each (or one for all) and its label in each.
Routed: TypeAlias = tuple[Sequence[Key], Sequence[float] | float, Sequence[bool]]
#: The key of a subproblem, the rows of a batch that belong to it, and their scores and labels in it.
RoutedColumn: TypeAlias = tuple[Key, slice | NDArray[np.bool_], FloatArray, NDArray[np.bool_]]


class Routing(ABC):
    """Maps an observation (x, y) to binary subproblems, with a score and a label in each: a pure function."""

    #: Whether every observation belongs to the same subproblems.
    constant: ClassVar[bool] = False

    @abstractmethod
    def route(self, x: Any, y: float) -> Routed:
        """Return the subproblems of one observation, each at most once."""

    @abstractmethod
    def route_many(self, x: FloatArray, y: FloatArray) -> Iterator[RoutedColumn]:
        """Do `route` for n > 0 observations, one subproblem at a time."""

    @abstractmethod
    def key(self, plain: Any) -> Key:
        """Return the key of a subproblem, from plain data; `StateError` if it is none."""

    def keys(self) -> Sequence[Key]:
        """Return the keys of all subproblems, if they are `constant`."""
        return ()

    @abstractmethod
    def require_possible(self, x: Any, y: FloatArray) -> None:
        """Raise `StateError` unless these saved coordinates and outcomes can be observations."""


class Subproblems(Keyed[Statistic]):
    """The statistic of a binary method for each subproblem of the observations held.

    `make` returns the empty statistic of one subproblem, `scale` maps its scores to coordinates, and every subproblem
    is initialised with the pseudo-observations of the `prior`, which has the age of the stream, however late the
    subproblem first occurred.

    Every operation costs the sum of its costs in the subproblems of the observation. A subproblem is kept as long as an
    observation in it is held; under decay, as long as its weight is at least `PRUNE_FRACTION` of the total weight,
    divided by the number of subproblems.
    """

    def __init__(
        self, make: Callable[[], Statistic], scale: Scale, routing: Routing, prior: PseudoObservations | None = None
    ) -> None:
        super().__init__(make)
        self._scale = scale
        self._routing = routing
        self._prior = prior
        #: The remaining weight of the prior of a subproblem, as a fraction: 1 until it decays.
        self._prior_share = 0.0
        #: Weights of whole observations, whatever their subproblems.
        self._totals = Totals()
        pattern = make()
        self.bounded = pattern.bounded
        #: `labelled` of a part where it encodes labels; None where labels are stored as they are.
        self._labelled = None if type(pattern).labelled is Statistic.labelled else pattern.labelled

    def _new_part(self) -> Statistic:
        """Return the statistic of a new subproblem, initialised with the remaining weight of the prior."""
        part = self._make()
        if self._prior is not None and self._prior_share >= SMALLEST_WEIGHT:
            part.hold(self._prior)
            part.decay(self._prior_share)
        return part

    # -- routing -------------------------------------------------------------------------------------------------

    def entries(self, x: Any, y: float) -> list[Entry]:
        return self._entries(self._routing.route(x, y))

    def columns(self, x: FloatArray, y: FloatArray) -> Iterator[Column]:
        return self._columns(self._routing.route_many(x, y))

    def _entries(self, routed: Routed) -> list[Entry]:
        """Return the entries of one observation, with coordinates in place of scores."""
        keys, scores, labels = routed
        coordinate, labelled = self._scale.coordinate, self._labelled
        each = [scores] * len(keys) if isinstance(scores, float) else scores
        at = [coordinate(score) for score in each]
        if labelled is None:
            return list(zip(keys, at, map(float, labels), strict=False))  # lengths are equal; `strict` would cost time
        return [(key, place, labelled(place, label)) for key, place, label in zip(keys, at, labels, strict=False)]

    def _columns(self, routed: Iterator[RoutedColumn]) -> Iterator[Column]:
        """Yield `_entries` for columns."""
        for key, rows, scores, labels in routed:
            at, plain = self._scale.coordinates(scores), labels.astype(np.float64)
            yield key, rows, at, plain if self._labelled is None else self._labelled(at, plain)

    # -- as one statistic ----------------------------------------------------------------------------------------

    @property
    def n(self) -> float:
        return self._totals.n / self.unit

    @property
    def count(self) -> int:
        return self._totals.count

    def hold(self, prior: PseudoObservations) -> None:
        self._prior_share += 1.0

    def release(self, prior: PseudoObservations) -> None:
        self._prior_share -= 1.0

    def update(self, x: Any, y: float, w: float) -> None:
        entries = self.entries(x, y)  # before anything changes: this may raise `InputError`
        self._totals.update(x, 1.0, w)
        for key, at, label in entries:
            self._part(key).update(at, label, w)

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        if len(y):
            self._totals.update_many(x, np.ones(len(y)), w)
            super().update_many(x, y, w)

    def unlearn(self, x: Any, y: float, w: float) -> None:
        super().unlearn(x, y, w)
        self._totals.unlearn(x, 1.0, w)
        if not self._routing.constant:
            nothing = 0 if self._prior is None else len(self._prior.x)
            for key in self._routing.route(x, y)[0]:
                if self._parts[key].count == nothing:
                    del self._parts[key]
        elif self._totals.count == 0:
            self._parts.clear()

    def merge(self, other: Self) -> None:
        self._totals.merge(other._totals)
        for key, part in other._parts.items():
            own = self._part(key)
            own.merge(part)
            if self._prior is not None:  # both contain it
                own.release(self._prior)
        self._prior_share += other._prior_share

    def decay(self, factor: float) -> None:
        self._totals.decay(factor)
        self._prior_share *= factor
        super().decay(factor)

    def prune(self, fraction: float) -> None:
        # A subproblem with a negligible weight is dropped as a whole: its weights would underflow.
        least = fraction * self.n / max(len(self._parts), 1)
        for key in [key for key, part in self._parts.items() if part.n < least]:
            del self._parts[key]
        super().prune(fraction)

    def empty(self) -> Self:
        return type(self)(self._make, self._scale, self._routing, self._prior)

    def fields(self) -> dict[str, Field]:
        parts = listed(row(self._routing.key, unread))
        return {
            "totals": Field(unread, self._totals.state),
            "sown": Field(number(0.0, 1.0 + ROUNDING), lambda: self._prior_share),
            "parts": Field(parts, lambda: [[key, part.state()] for key, part in self._parts.items()]),
        }

    def _load(self, totals: Any, sown: float, parts: list[tuple[Key, Any]]) -> None:
        read = Totals()
        read.restore(totals)
        loaded: dict[Key, Statistic] = {}
        for key, saved in parts:
            ensure(key not in loaded, f"subproblem {key!r} occurs twice")
            loaded[key] = self._make()
            loaded[key].restore(saved)
        self._require_whole(read, loaded)
        self._totals, self._prior_share, self._parts = read, sown, loaded

    def _require_whole(self, totals: Totals, parts: dict[Key, Statistic]) -> None:
        """Raise `StateError` unless observations of this number can have these parts."""
        priors = 0 if self._prior is None else len(self._prior.x)
        for part in parts.values():
            ensure(part.count <= totals.count + priors, "a subproblem holds more observations than there are")
        if self._routing.constant and totals.count:
            ensure(set(parts) == set(self._routing.keys()), "not every subproblem is there")

    def require_possible(self, x: Any, y: FloatArray) -> None:
        self._routing.require_possible(x, y)
