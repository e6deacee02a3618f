"""`ClassTable`: for each distinct vector of class scores, the weight of each outcome and the number of observations.

Beyond a limit, vectors are kept in cells: see `ClassTable`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from streamcal.errors import RetractionError
from streamcal.kernels.common import class_scores
from streamcal.parameters.scales import LOGIT_LIMIT
from streamcal.parameters.types import FloatArray
from streamcal.states import (
    HEAVIEST,
    LIGHTEST,
    ROUNDING,
    Field,
    ensure,
    in_columns,
    listed,
    number,
    numbers,
    text,
    unread,
    whole,
)
from streamcal.statistics.base import Statistic, agree
from streamcal.statistics.retractions import can_contain

#: Texts, numbers and scores: see `streamcal.multiclass.observations`.
_Coordinate = tuple[tuple[str, ...], tuple[float, ...], tuple[float, ...]]

#: Lower limit of ln p, p = 1.1e-7: no stream resolves a rarer event, and a score of exactly 0 must not become an
#: infinite feature. Click rates are far above.
LOG_FLOOR = -LOGIT_LIMIT
#: Halvings of the range of each fourth root in the finest cells.
MOST_BITS = 12
#: Of a saved depth: many times that of any number of labels.
DEEPEST = 2**32

#: Of a label that is a text, in characters.
LONGEST_LABEL = 100_000


class ClassPoints(NamedTuple):
    """The distinct score vectors of one set of labels."""

    labels: tuple[str | float, ...]  #: the K labels, texts first
    logs: FloatArray  #: ln of the scores divided by their sum, at least LOG_FLOOR; or its mean in a cell; shape (k, K)
    weights: FloatArray  #: shape (k, K): weight of the observations with each outcome


def log_scores(scores: Sequence[float]) -> list[float]:
    """Return ln of the scores divided by their sum, at least LOG_FLOOR."""
    return class_scores.log_scores(list(scores), LOG_FLOOR)


def log_scores_many(scores: FloatArray) -> FloatArray:
    """Return the `log_scores` of each row."""
    shares = scores / scores.sum(axis=1, keepdims=True)
    logs: FloatArray = np.log(np.maximum(shares, math.exp(LOG_FLOOR)))
    return np.maximum(logs, LOG_FLOOR)


class ClassTable(Statistic):
    """A table of multiclass observations, exact up to a limit of distinct score vectors.

    A coordinate is (texts, numbers, scores): the labels of the observation that are texts, those that are numbers, and
    their scores in this order. The outcome y is the index of the observed label, as a float. The contribution of an
    observation depends only on its own labels, so that labels seen later do not change what is held.

    Once there are more vectors than the limit, they are kept in the finest nested cells of which no more than that are
    in use. With `depth` D, one of `depths_up_to`, each of K scores is known by the first (D + K − 1 − i)//K binary
    digits of its fourth root, i being its place: fine near 0, where logarithms differ. So the fourth roots of a score
    in a cell differ by at most 2 to the power of minus that number of digits. A cell keeps the weight of each outcome
    and the sums of ln s, and its observations are placed at their mean ln s. Which D it is depends on what has been
    added, not on its order, and it stays until nothing is held. There is a cell at least for each set of labels that an
    observation named.

    An update costs O(K) for K labels; memory and all other operations O(k·K) for k distinct vectors.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self.bounded = limit is not None
        #: Binary digits by which vectors are distinguished; None while every vector is kept.
        self.depth: int | None = None
        # x -> [weight of outcome 0, …, of outcome K − 1, count]; count ≥ 1 and no weight below 0 in every row. With a
        # depth, x has the digits in place of the scores, and the row ends with the K sums of weight · ln s.
        self._rows: dict[_Coordinate, list[float]] = {}
        self._count = 0
        self._peak = 0.0  # the largest weight ever summed in a row, see `holds`
        self._n: float | None = 0.0  # the total weight; None where it has to be summed again

    @property
    def n(self) -> float:
        if self._n is None:
            self._n = math.fsum(weight for x, row in self._rows.items() for weight in row[: len(x[2])])
        return self._n / self.unit

    def points(self) -> list[ClassPoints]:
        """Return the content of the table, one entry for each set of labels."""
        parts: dict[tuple[Any, Any], tuple[list[tuple[float, ...]], list[list[float]]]] = {}
        for (texts, named, place), row in self._rows.items():
            part = parts.setdefault((texts, named), ([], []))
            part[0].append(place)
            part[1].append(row)
        tables = []
        for (texts, named), (places, rows) in sorted(parts.items()):
            sums, size = np.array(rows), len(texts) + len(named)
            weights = sums[:, :size] / self.unit
            if self.depth is None:
                logs = log_scores_many(np.array(places))
            else:  # sums may have rounding errors after retractions
                weight = np.maximum(sums[:, :size].sum(axis=1, keepdims=True), LIGHTEST)
                logs = np.clip(sums[:, size + 1 :] / weight, LOG_FLOOR, 0.0)
            tables.append(ClassPoints(texts + named, logs, weights))
        return tables

    # -- changing ------------------------------------------------------------------------------------------------

    def update(self, x: _Coordinate, y: float, w: float) -> None:
        self._add(*self._at_depth(x, _row(x, y, w), None))
        self._keep_limit()

    def update_many(self, x: NDArray[Any], y: FloatArray, w: FloatArray) -> None:
        for observation in zip(x.tolist(), y.tolist(), w.tolist(), strict=True):
            self.update(*observation)

    def unlearn(self, x: _Coordinate, y: float, w: float) -> None:
        size, place = len(x[2]), int(y)
        cell, removed = self._at_depth(x, _row(x, y, w), None)
        row = self._rows.get(cell)
        if row is None or not can_contain((math.fsum(row[:size]), row[place], int(row[size])), 1.0, w, self._peak):
            raise RetractionError(f"no observation (scores {x!r}, weight {w!r}) is held; unlearn only what was learned")
        self._n = None
        self._count -= 1
        if row[size] == 1:
            del self._rows[cell]
            if not self._rows:
                self.depth = None
            return
        self._rows[cell] = [value - other for value, other in zip(row, removed, strict=True)]
        self._rows[cell][place] = max(row[place] - w, 0.0)

    def merge(self, other: Self) -> None:
        depths = [table.depth for table in (self, other) if table.depth is not None]
        if depths:
            self._round_to(min(depths))
        for x, theirs in list(other._rows.items()):
            self._add(*self._at_depth(x, list(theirs), other.depth))
        self._peak = max(self._peak, other._peak)
        self._keep_limit()

    def decay(self, factor: float) -> None:
        self._n = None
        self._peak *= factor
        for x, row in self._rows.items():
            count = len(x[2])
            row[:] = [value if place == count else value * factor for place, value in enumerate(row)]

    def prune(self, fraction: float) -> None:
        threshold = fraction * self.n / max(len(self._rows), 1)
        self._n = None
        for x in [x for x, row in self._rows.items() if math.fsum(row[: len(x[2])]) < threshold]:
            self._count -= int(self._rows.pop(x)[len(x[2])])
        if not self._rows:
            self.depth = None

    def _add(self, x: _Coordinate, row: list[float]) -> None:
        self._n = None
        sums = self._rows.get(x)
        self._rows[x] = sums = row if sums is None else [value + other for value, other in zip(sums, row, strict=True)]
        size = len(x[2])
        self._count += int(row[size])
        self._peak = max(self._peak, math.fsum(sums[:size]))

    # -- cells ---------------------------------------------------------------------------------------------------

    def _at_depth(self, x: _Coordinate, row: list[float], before: int | None) -> tuple[_Coordinate, list[float]]:
        """Return a coordinate and its row at the present depth; they were at the depth `before`, which is not less."""
        if self.depth is None or self.depth == before:
            return x, row
        texts, numbers, place = x
        if before is not None:
            return (texts, numbers, fewer_digits(place, before, self.depth)), row
        size = len(place)
        weight = math.fsum(row[:size])
        return (texts, numbers, digits(place, self.depth)), [*row, *(weight * log for log in log_scores(place))]

    def _keep_limit(self) -> None:
        """Keep fewer digits until no more cells than the limit are in use; of those that do, the most, by bisection."""
        if self.limit is None or len(self._rows) <= self.limit or self.depth == 0:
            return
        most = MOST_BITS * max(len(x[2]) for x in self._rows) if self.depth is None else self.depth - 1
        depths, places = depths_up_to(most), self._places()
        low, high = 0, len(depths) - 1
        while low < high:
            middle = (low + high + 1) // 2
            if sum(self._cells_at(place, depths[middle]) for place in places) <= self.limit:
                low = middle
            else:
                high = middle - 1
        self._round_to(depths[low])

    def _places(self) -> list[NDArray[Any]]:
        """Return the fourth roots of the shares, or the cells, of each set of labels; shapes (k, K)."""
        sets: dict[tuple[Any, Any], list[tuple[float, ...]]] = {}
        for texts, named, place in self._rows:
            sets.setdefault((texts, named), []).append(place)
        if self.depth is not None:
            return [np.array(cells) for cells in sets.values()]
        totals = [np.array([math.fsum(row) for row in rows]) for rows in sets.values()]
        return [
            np.sqrt(np.sqrt(np.array(rows) / total[:, np.newaxis]))
            for rows, total in zip(sets.values(), totals, strict=True)
        ]

    def _cells_at(self, places: NDArray[Any], depth: int) -> int:
        """Count the cells of a depth that contain these places."""
        size = places.shape[1]
        bits = np.array(bits_of(size, depth))
        if self.depth is None:
            cells = np.minimum(np.floor(np.ldexp(places, bits)), np.ldexp(1.0, bits) - 1.0)
        else:
            cells = places >> (np.array(bits_of(size, self.depth)) - bits)
        return len({row.tobytes() for row in cells})

    def _round_to(self, depth: int) -> None:
        """Keep cells of this depth, which is not above the present one."""
        rows, before = self._rows, self.depth
        self._rows, self._count, self.depth = {}, 0, depth
        for x, row in rows.items():
            self._add(*self._at_depth(x, row, before))

    def empty(self) -> Self:
        return type(self)(self.limit)

    # -- state ---------------------------------------------------------------------------------------------------

    def fields(self) -> dict[str, Field]:
        return {
            "rows": Field(listed(listed(unread, 3)), self._tables),
            "peak": Field(number(0.0, HEAVIEST), lambda: self._peak),
            "depth": Field(whole(0, DEEPEST), lambda: self.depth, optional=True),
        }

    def _tables(self) -> list[list[Any]]:
        """Return a table for each set of labels."""
        sets: dict[tuple[Any, Any], list[list[Any]]] = {}
        for (texts, named, place), row in self._rows.items():
            sets.setdefault((texts, named), []).append([*place, *row])
        return [[list(texts), list(named), in_columns(table)] for (texts, named), table in sets.items()]

    def _load(self, rows: list[list[Any]], peak: float, depth: int | None) -> None:
        ensure(depth is None or self.limit is not None, "there are cells where there is no limit")
        ensure(depth is None or rows, "there is nothing in the cells")
        read: dict[_Coordinate, list[float]] = {}
        for texts, named, place, sums in _each_row(rows):
            x = possible_classes(texts, named, place) if depth is None else possible_cells(texts, named, place, depth)
            ensure(x not in read, "a coordinate occurs twice")
            size = len(x[2])
            ensure(len(sums) > size, "a row is too short")
            weights = numbers(size, least=0.0, most=peak)(sums[:size])
            weight = weights.sum()  # 0 where an observation of 1e60 beside others was unlearned
            ensure(weight == 0.0 or LIGHTEST <= weight <= peak * (1.0 + ROUNDING), "a weight is not possible")
            ensure(len(sums) == size + 1 + (0 if depth is None else size), "a row has another length")
            logs = numbers(len(sums) - size - 1, least=LOG_FLOOR * peak * (1.0 + ROUNDING), most=ROUNDING * peak)
            read[x] = [*weights.tolist(), whole(1)(sums[size]), *logs(sums[size + 1 :]).tolist()]
        ensure(self.limit is None or depth == 0 or len(read) <= self.limit, "there are more rows than the limit")
        self._n = None
        self._rows, self.depth = read, depth
        self._count = int(sum(row[len(x[2])] for x, row in read.items()))
        self._peak = peak

    def agrees(self, other: Self) -> bool:
        if self._rows.keys() != other._rows.keys():
            return False
        return agree(*[tuple(np.array(table._rows[x]) for x in self._rows) for table in (self, other)])

    def require_possible(self, x: Any, y: FloatArray) -> None:
        require_classes(x, y)


def _row(x: _Coordinate, y: float, w: float) -> list[float]:
    """Return the row of a single observation: weights by outcome, and the number 1."""
    row = [0.0] * len(x[2]) + [1]
    row[int(y)] = w
    return row


def depths_up_to(most: int) -> list[int]:
    """Return the depths in use: all up to 16, then eight in every doubling, so that the depth rarely changes."""
    depths = [0]
    while depths[-1] < most:
        depths.append(depths[-1] + max(1, 2 ** (depths[-1].bit_length() - 4)))
    return [depth for depth in depths if depth <= most]


def bits_of(size: int, depth: int) -> list[int]:
    """Return the number of binary digits of each of `size` scores; the first ones have one more."""
    return [min((depth + size - 1 - place) // size, MOST_BITS) for place in range(size)]


def digits(scores: tuple[float, ...], depth: int) -> tuple[int, ...]:
    """Return the cell of a score vector: the first binary digits of the fourth roots of its shares, as integers."""
    total = math.fsum(scores)
    roots = [math.sqrt(math.sqrt(score / total)) for score in scores]  # rounded alike on every machine
    return tuple(
        min(int(math.ldexp(root, bits)), (1 << bits) - 1)
        for root, bits in zip(roots, bits_of(len(scores), depth), strict=True)
    )


def fewer_digits(cell: Sequence[Any], before: int, depth: int) -> tuple[int, ...]:
    """Return the cell of depth `depth` that contains a cell of depth `before`."""
    size = len(cell)
    dropped = (many - few for many, few in zip(bits_of(size, before), bits_of(size, depth), strict=True))
    return tuple(one >> number for one, number in zip(cell, dropped, strict=True))


def _each_row(sets: list[Any]) -> Iterator[tuple[Any, Any, list[Any], list[Any]]]:
    """Return texts, numbers, place and sums of each saved row."""
    for texts, named, table in sets:
        size = len(listed(unread)(texts)) + len(listed(unread)(named))
        for values in listed(listed(unread))(table):
            yield texts, named, values[:size], values[size:]


def possible_classes(texts: Any, named_numbers: Any, scores: Any) -> _Coordinate:
    """Read a saved coordinate: labels in order, texts and numbers apart, and their scores; else `StateError`."""
    texts, named_numbers = possible_labels(texts, named_numbers)
    read = numbers(len(texts) + len(named_numbers), least=0.0, most=1.0)(scores)
    return texts, named_numbers, tuple(read.tolist())


def possible_cells(texts: Any, named_numbers: Any, cell: Any, depth: int) -> _Coordinate:
    """Read a saved coordinate with the cell of its scores; else `StateError`."""
    texts, named_numbers = possible_labels(texts, named_numbers)
    read = listed(whole(0, 1 << MOST_BITS), len(texts) + len(named_numbers))(cell)
    ensure(all(one < 1 << bits for one, bits in zip(read, bits_of(len(read), depth), strict=True)), "a cell is beyond")
    return texts, named_numbers, tuple(read)


def possible_labels(texts: Any, named_numbers: Any) -> tuple[tuple[str, ...], tuple[float, ...]]:
    """Read at least one saved label, in order, texts and numbers apart; else `StateError`."""
    named, named_numbers = listed(text(LONGEST_LABEL))(texts), listed(unread)(named_numbers)
    for label in named_numbers:
        ensure(isinstance(label, (int, float)) and -math.inf < label < math.inf, "a label is not possible")
    for labels in (named, named_numbers):
        ensure(all(label < other for label, other in itertools.pairwise(labels)), "labels are in no order")
    ensure(len(named) + len(named_numbers), "an observation has no labels")
    return tuple(named), tuple(named_numbers)


def require_classes(x: Any, y: FloatArray) -> None:
    """Raise `StateError` unless these can be coordinates of observations and the places of their outcomes."""
    ensure(isinstance(x, np.ndarray) and x.dtype == object, "coordinates are no labels and scores")
    for coordinate, place in zip(x.tolist(), y.tolist(), strict=True):
        ensure(len(coordinate) == 3, "a coordinate has no labels and scores")
        ensure(place in range(len(possible_classes(*coordinate)[2])), "an outcome is no place of a label")
