"""`ClassTable`: for each distinct vector of class scores, the weight of each outcome and the number of observations."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from streamcal.errors import RetractionError
from streamcal.parameters.types import FloatArray
from streamcal.states import HEAVIEST, LIGHTEST, ROUNDING, Fields, ensure, listed, number, numbers, text, unread, whole
from streamcal.statistics.base import Statistic, agree
from streamcal.statistics.held import holds

#: Texts, numbers and scores: see `streamcal.multiclass.observations`.
_Coordinate = tuple[tuple[str, ...], tuple[float, ...], tuple[float, ...]]

#: Of a label that is a text, in characters.
LONGEST_LABEL = 100_000


class ClassPoints(NamedTuple):
    """The distinct score vectors of one set of labels."""

    labels: tuple[str | float, ...]  #: the K labels, texts first
    scores: FloatArray  #: shape (k, K)
    weights: FloatArray  #: shape (k, K): weight of the observations with each outcome


class ClassTable(Statistic):
    """An exact table of multiclass observations.

    A coordinate is (texts, numbers, scores): the labels of the observation that are texts, those that are numbers, and
    their scores in this order. The outcome y is the index of the observed label, as a float. The contribution of an
    observation depends only on its own labels, so that labels seen later do not change what is held.

    Notes
    -----
    An update costs O(K) for K labels; memory and all other operations O(k·K) for k distinct vectors.
    """

    def __init__(self) -> None:
        # x -> [weight of outcome 0, …, of outcome K − 1, count]; count ≥ 1 and no weight below 0 in every row.
        self._rows: dict[_Coordinate, list[float]] = {}
        self._count = 0
        self._peak = 0.0  # the largest weight ever summed in a row, see `holds`
        self._n: float | None = 0.0  # the total weight; None where it has to be summed again

    @property
    def n(self) -> float:
        if self._n is None:
            self._n = math.fsum(weight for row in self._rows.values() for weight in row[:-1])
        return self._n / self.unit

    @property
    def count(self) -> int:
        return self._count

    def points(self) -> list[ClassPoints]:
        """The content of the table, one entry for each set of labels."""
        parts: dict[tuple[Any, Any], tuple[list[tuple[float, ...]], list[list[float]]]] = {}
        for (texts, named, scores), row in self._rows.items():
            part = parts.setdefault((texts, named), ([], []))
            part[0].append(scores)
            part[1].append(row[:-1])
        return [
            ClassPoints(texts + named, np.array(scores), np.array(weights) / self.unit)
            for (texts, named), (scores, weights) in sorted(parts.items())
        ]

    def update(self, x: _Coordinate, y: float, w: float) -> None:
        self._n = None
        row = self._rows.get(x)
        if row is None:
            row = self._rows[x] = [0.0] * len(x[2]) + [0]
        row[int(y)] += w
        row[-1] += 1
        self._count += 1
        self._peak = max(self._peak, math.fsum(row[:-1]))

    def update_many(self, x: npt.NDArray[Any], y: FloatArray, w: FloatArray) -> None:
        for one in zip(x.tolist(), y.tolist(), w.tolist(), strict=True):
            self.update(*one)

    def revert(self, x: _Coordinate, y: float, w: float) -> None:
        row = self._rows.get(x)
        place = int(y)
        if row is None or not holds((math.fsum(row[:-1]), row[place], int(row[-1])), 1.0, w, self._peak):
            raise RetractionError(f"no observation (scores {x!r}, weight {w!r}) is held; unlearn only what was learned")
        self._n = None
        self._count -= 1
        if row[-1] == 1:
            del self._rows[x]
            return
        row[place] = max(row[place] - w, 0.0)
        row[-1] -= 1

    def merge(self, other: Self) -> None:
        self._n = None
        for x, theirs in list(other._rows.items()):
            row = self._rows.setdefault(x, [0.0] * len(x[2]) + [0])
            for place, value in enumerate(theirs):
                row[place] += value
            self._peak = max(self._peak, math.fsum(row[:-1]))
        self._count += other._count
        self._peak = max(self._peak, other._peak)

    def decay(self, factor: float) -> None:
        self._n = None
        self._peak *= factor
        for row in self._rows.values():
            row[:-1] = [weight * factor for weight in row[:-1]]

    def prune(self, fraction: float) -> None:
        threshold = fraction * self.n / max(len(self._rows), 1)
        self._n = None
        for x in [x for x, row in self._rows.items() if math.fsum(row[:-1]) < threshold]:
            self._count -= int(self._rows.pop(x)[-1])

    def _check(self) -> None:
        super()._check()
        assert self._count == sum(row[-1] for row in self._rows.values())
        for (texts, named, scores), (*weights, count) in self._rows.items():
            assert len(texts) + len(named) == len(scores) == len(weights)
            assert count >= 1, "a row without observations is dropped"
            assert min(weights) >= 0.0

    def empty(self) -> Self:
        return type(self)()

    def state(self) -> dict[str, Any]:
        rows = [[*map(list, x), *row] for x, row in self._rows.items()]
        return {"rows": rows, "peak": self._peak}

    def fields(self) -> Fields:
        return {"rows": listed(_at_least_five), "peak": number(0.0, HEAVIEST)}

    def _load(self, rows: list[list[Any]], peak: float) -> None:
        read: dict[_Coordinate, list[float]] = {}
        for texts, named, scores, *sums in rows:
            x = possible_classes(texts, named, scores)
            ensure(x not in read, "a coordinate occurs twice")
            weights = numbers(len(x[2]), least=0.0, most=peak)(sums[:-1])
            ensure(weights.sum() >= LIGHTEST and weights.sum() <= peak * (1.0 + ROUNDING), "a weight is not possible")
            read[x] = [*weights.tolist(), whole(1)(sums[-1])]
        self._n = None
        self._rows = read
        self._count = int(sum(row[-1] for row in read.values()))
        self._peak = peak

    def agrees(self, other: Self) -> bool:
        if self._rows.keys() != other._rows.keys():
            return False
        return agree(*[tuple(np.array(table._rows[x]) for x in self._rows) for table in (self, other)])

    def require_possible(self, x: Any, y: FloatArray) -> None:
        require_classes(x, y)


def _at_least_five(value: Any) -> list[Any]:
    """A row: texts, numbers, scores, at least one weight and the count."""
    found: list[Any] = listed(unread)(value)
    ensure(len(found) >= 5, "a row is too short")
    return found


def possible_classes(texts: Any, named_numbers: Any, scores: Any) -> _Coordinate:
    """A saved coordinate: labels in order, texts and numbers apart, and their scores; else `StateError`."""
    named = listed(text(LONGEST_LABEL))(texts)
    for label in listed(unread)(named_numbers):
        ensure(isinstance(label, (int, float)) and -math.inf < label < math.inf, "a label is not possible")
    for labels in (named, named_numbers):
        ensure(all(one < other for one, other in itertools.pairwise(labels)), "labels are in no order")
    read = numbers(len(named) + len(named_numbers), least=0.0, most=1.0)(scores)
    ensure(len(read), "an observation has no labels")
    return tuple(named), tuple(named_numbers), tuple(read.tolist())


def require_classes(x: Any, y: FloatArray) -> None:
    """`StateError` unless these arrays can be coordinates of observations and the places of the labels that came."""
    ensure(isinstance(x, np.ndarray) and x.dtype == object, "coordinates are no labels and scores")
    for one, place in zip(x.tolist(), y.tolist(), strict=True):
        ensure(len(one) == 3, "a coordinate has no labels and scores")
        ensure(place in range(len(possible_classes(*one)[2])), "an outcome is no place of a label")
