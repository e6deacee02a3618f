"""`ClassSubproblems`: the binary subproblems of several classes, with the evidence of rows that do not name a label."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, TypeAlias

from streamcal.errors import RetractionError
from streamcal.parameters.prior import PseudoObservations
from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray
from streamcal.states import HEAVIEST, Field, ensure, listed, number, row, whole
from streamcal.statistics.base import Statistic
from streamcal.statistics.keyed import Column, Entry, Key
from streamcal.statistics.retractions import never_learned
from streamcal.statistics.subproblems import Routed, RoutedColumn, Routing, Subproblems

#: A label; the keys of subproblems are tuples of labels.
Label: TypeAlias = str | float
#: Represents every label that is not known yet in a key.
NOBODY = None


class ClassRouting(Routing):
    """Maps an observation of several classes to subproblems of all known labels, also of those it does not name."""

    @abstractmethod
    def subproblems(self, labels: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Return all subproblems of these labels, which are in order."""

    @abstractmethod
    def label(self, plain: Any) -> Label:
        """Return a label of a saved state; `InputError` for a value that cannot be one."""

    @abstractmethod
    def labels_of(self, x: Any) -> tuple[Label, ...]:
        """Return the labels that an observation names, including its outcome."""

    @abstractmethod
    def ordered(self, labels: Any) -> list[Any]:
        """Return labels in order."""

    @abstractmethod
    def route_among(self, x: Any, y: float, labels: Sequence[Any]) -> Routed:
        """Return the subproblems of one observation among `labels`, in order; an unnamed label has score 0."""

    @abstractmethod
    def route_many_among(self, x: FloatArray, y: FloatArray, labels: Sequence[Any]) -> Iterator[RoutedColumn]:
        """Do `route_among` for n > 0 observations, one subproblem at a time."""

    @abstractmethod
    def route_nobody(self, x: Any, y: float) -> Routed:
        """Return the subproblems of one observation with a label that nobody has named, which are keyed by NOBODY."""

    @abstractmethod
    def route_many_nobody(self, x: FloatArray, y: FloatArray) -> Iterator[RoutedColumn]:
        """Do `route_nobody` for n > 0 observations, one subproblem at a time."""


class ClassSubproblems(Subproblems):
    """`Subproblems` in which a label that an observation does not name has the score 0 in it.

    A label is known while an observation held names it, or has it as its outcome. Every observation is part of the
    subproblems of all known labels. Those of a label that is not known yet are kept once for all such labels, under
    keys with NOBODY in the label's place; the subproblems of a new label begin as copies of them. So the content is a
    function of the observations held and not of their order: those learned before a label was known count against it
    as those learned after.

    Notes
    -----
    An operation costs the sum of its costs in the subproblems of all labels known. Under decay a label is dropped with
    its subproblems when the observations that name it have faded.
    """

    _routing: ClassRouting

    def __init__(
        self,
        make: Callable[[], Statistic],
        scale: Scale,
        routing: ClassRouting,
        prior: PseudoObservations | None = None,
    ) -> None:
        super().__init__(make, scale, routing, prior)
        # label -> [number, weight] of the observations that name it; the number is at least 1.
        self._named: dict[Any, list[Any]] = {}
        self._order: list[Any] | None = []  # the known labels in order; None where they have to be sorted again

    # -- labels --------------------------------------------------------------------------------------------------

    def known(self) -> list[Any]:
        """Return the labels that an observation held names, in order."""
        if self._order is None:
            self._order = self._routing.ordered(self._named)
        return self._order

    def is_late(self, key: tuple[Any, ...]) -> bool:
        """Return whether an observation held does not name one of the labels of a subproblem."""
        return any(self._named[label][0] < self._totals.count for label in key)

    def _among(self, labels: Sequence[Any]) -> list[Any]:
        """Return the known labels and these, in order."""
        if all(label in self._named for label in labels):
            return self.known()
        return self._routing.ordered({**dict.fromkeys(self._named), **dict.fromkeys(labels)})

    def _introduce(self, labels: Sequence[Any]) -> None:
        """Make the subproblems of labels that are not known yet, with what was learned before."""
        for new in [label for label in labels if label not in self._named]:
            self._named[new] = [0, 0.0]
            self._order = None
            for key in self._routing.subproblems(self.known()):
                if new in key and (pooled := self._parts.get(_with_nobody(key, new))) is not None:
                    self._parts[key] = _copy(pooled)

    def _name(self, labels: Sequence[Any], number: int, weight: float) -> None:
        for label in labels:
            own = self._named[label]
            own[0] += number
            own[1] = max(own[1] + weight, 0.0)

    def _drop(self, labels: Sequence[Any]) -> None:
        """Remove labels that no observation names any more, and their subproblems."""
        for label in labels:
            del self._named[label]
            self._order = None
        if labels:
            for key in [key for key in self._parts if any(label in key for label in labels)]:  # type: ignore[operator]
                del self._parts[key]

    # -- routing -------------------------------------------------------------------------------------------------

    def entries(self, x: Any, y: float) -> list[Entry]:
        among = self._among(self._routing.labels_of(x))
        routed = self._routing.route_among(x, y, among), self._routing.route_nobody(x, y)
        return [entry for one in routed for entry in self._entries(one)]

    def columns(self, x: FloatArray, y: FloatArray) -> Iterator[Column]:
        for routed in (self._routing.route_many_among(x, y, self.known()), self._routing.route_many_nobody(x, y)):
            yield from self._columns(routed)

    # -- as one statistic ----------------------------------------------------------------------------------------

    def update(self, x: Any, y: float, w: float) -> None:
        entries = self.entries(x, y)  # before anything changes: this may raise `InputError`
        labels = self._routing.labels_of(x)
        self._introduce(labels)
        self._name(labels, 1, w)
        self._totals.update(x, 1.0, w)
        for key, at, label in entries:
            self._part(key).update(at, label, w)

    def update_many(self, x: FloatArray, y: FloatArray, w: FloatArray) -> None:
        for one, weight in zip(x.tolist(), w.tolist(), strict=True):
            labels = self._routing.labels_of(one)
            self._introduce(labels)
            self._name(labels, 1, weight)
        super().update_many(x, y, w)

    def require(self, x: Any, y: float, w: float) -> None:
        if not all(label in self._named for label in self._routing.labels_of(x)):
            raise RetractionError(never_learned(x, y, w))
        super().require(x, y, w)

    def unlearn(self, x: Any, y: float, w: float) -> None:
        labels = self._routing.labels_of(x)
        if not all(label in self._named for label in labels):
            raise RetractionError(never_learned(x, y, w))
        keys = [key for key, _, _ in self.entries(x, y)]
        super(Subproblems, self).unlearn(x, y, w)
        self._totals.unlearn(x, 1.0, w)
        self._name(labels, -1, -w)
        self._drop([label for label in labels if self._named[label][0] == 0])
        nothing = 0 if self._prior is None else len(self._prior.x)
        for key in keys:
            if key in self._parts and self._parts[key].count == nothing:
                del self._parts[key]

    def merge(self, other: Self) -> None:
        labels = self._routing.ordered({**dict.fromkeys(self._named), **dict.fromkeys(other._named)})
        theirs: dict[Key, Statistic | None] = {key: other._before(key) for key in self._routing.subproblems(labels)}
        theirs |= {key: part for key, part in other._parts.items() if NOBODY in key}  # type: ignore[operator]
        self._introduce(labels)
        for label, named in other._named.items():
            self._name([label], *named)
        self._totals.merge(other._totals)
        for key, part in theirs.items():
            if part is not None:
                own = self._part(key)
                own.merge(part)
                if self._prior is not None:  # both contain it
                    own.release(self._prior)
        self._prior_share += other._prior_share

    def _before(self, key: tuple[Any, ...]) -> Statistic | None:
        """Return the content of a subproblem, also if one of its labels is not known yet; None if there is none."""
        if key in self._parts:
            return self._parts[key]
        unknown = [label for label in key if label not in self._named]
        return self._parts.get(_with_nobody(key, unknown[0])) if len(unknown) == 1 else None

    def decay(self, factor: float) -> None:
        super().decay(factor)
        for own in self._named.values():
            own[1] *= factor

    def prune(self, fraction: float) -> None:
        least = fraction * self.n / max(len(self._named), 1)
        self._drop([label for label, (_, weight) in self._named.items() if weight < least])
        super().prune(fraction)

    def fields(self) -> dict[str, Field]:
        named = listed(row(self._routing.label, whole(1), number(0.0, HEAVIEST)))
        written = Field(named, lambda: [[label, *own] for label, own in self._named.items()])
        return {**super().fields(), "named": written}

    def _load(
        self, totals: Any, sown: float, parts: list[tuple[Key, Any]], named: Sequence[tuple[Any, int, float]] = ()
    ) -> None:
        super()._load(totals, sown, parts)
        self._named = {label: own for label, *own in named}
        self._order = None
        ensure(len(self._named) == len(named), "a label occurs twice")
        keyed = {label for key in self._parts for label in key}  # type: ignore[attr-defined]
        ensure(keyed <= {*self._named, NOBODY}, "a subproblem has a label that no observation names")
        ensure(all(own[0] <= self._totals.count for own in self._named.values()), "a label is named too often")


def _with_nobody(key: tuple[Any, ...], new: Any) -> tuple[Any, ...]:
    return tuple([NOBODY if label == new else label for label in key])


def _copy(part: Statistic) -> Statistic:
    copied = part.empty()
    copied.merge(part)
    return copied
