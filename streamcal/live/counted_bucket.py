"""`Bucket`: the predictions of a span of time, counted by cell of the score and by group, and their clicks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal.errors import InputError
from streamcal.kernels.counts.counted_rows import CountedRows
from streamcal.live.issued import Id, Keys, check_keys, rows_of
from streamcal.live.levels import column_of
from streamcal.parameters.inputs import check_weight
from streamcal.parameters.types import Columns, FloatArray
from streamcal.statistics.grid import MOST_CELLS, Grid

#: Observations that are expanded at once, where a bucket is learned one by one.
SLICE = 65_536
#: Times beyond this many buckets from 0 are refused: buckets could not be told apart.
FURTHEST = 2.0**50
#: 1/φ: where the first of equal observations is among the others.
GOLDEN = 0.6180339887498949

#: Whole numbers of 32 or 64 bits.
Whole = NDArray[np.signedinteger[Any]]


#: Fields and their levels.
Levels = tuple[tuple[str, str | int], ...]


class Group(NamedTuple):
    """What predictions of a row have in common beside the cell of their scores."""

    version: Id | None
    levels: Levels | None
    w: float

    @property
    def keys(self) -> dict[str, str | int] | None:
        """Field → level; None without levels."""
        return None if self.levels is None else dict(self.levels)


def group_of(version: Id | None, keys: Keys | None, w: float) -> Group:
    """Return the group with these levels."""
    return Group(version, None if keys is None else tuple(keys.items()), w)


def groups_of(
    calibrator: Any,
    n: int,
    keys: Columns | Sequence[Keys | None] | None,
    version: Id | None,
    w: ArrayLike | None,
) -> tuple[Whole | None, list[Group]]:
    """Return the groups of n predictions, and the place of that of each; None where there is one group."""
    by_field = {} if keys is None else _levels(calibrator, n, keys)
    fields, columns = tuple(by_field), list(by_field.values())
    weights = None if w is None else np.asarray(w)
    if weights is not None and weights.ndim:
        if len(weights) != n:
            raise InputError(f"scores and w differ in length: {n} and {len(weights)}; give a weight for each")
        columns.append([check_weight(weight) for weight in weights.tolist()])
    same = 1.0 if weights is None else check_weight(weights.item()) if not weights.ndim else None
    if not columns:
        assert same is not None
        return None, [Group(version, None, same)]
    places: dict[Any, int] = {}
    of = np.array([places.setdefault(group, len(places)) for group in zip(*columns, strict=True)], dtype=np.int64)
    groups = []
    for each in places:
        levels = tuple((name, level) for name, level in zip(fields, each, strict=False) if level is not None)
        groups.append(Group(version, levels or None, each[-1] if same is None else same))
    return of, groups


def _levels(calibrator: Any, n: int, keys: Columns | Sequence[Keys | None]) -> dict[str, list[Any]]:
    """Return the levels of n predictions by field, of those that the calibrator reads."""
    fields = getattr(calibrator, "fields", ())
    if isinstance(keys, Mapping):
        calibrator.require_names(keys)
        return {name: column_of(name, keys[name], n) for name in fields if name in keys}
    checked = []
    for place, row in enumerate(rows_of(keys, n)):
        try:
            if row is not None:
                calibrator.require_names(row)
            checked.append(check_keys(row) or {})
        except InputError as error:
            raise InputError(f"keys[{place}]: {error}") from None
    return {name: [row.get(name) for row in checked] for name in fields}


class Groups:
    """The groups of all buckets, numbered; a number is used again when no bucket has the group any more."""

    def __init__(self) -> None:
        self._numbers: dict[Group, int] = {}
        self._groups: list[Group | None] = []
        self._uses: list[int] = []
        self._free: list[int] = []

    def __getitem__(self, number: int) -> Group:
        group = self._groups[number]
        assert group is not None
        return group

    def add(self, group: Group) -> int:
        """Return the number of a group, a new one if need be."""
        number = self._numbers.get(group)
        if number is None:
            if self._free:
                number = self._free.pop()
                self._groups[number], self._uses[number] = group, 0
            else:
                number = len(self._groups)
                self._groups.append(group)
                self._uses.append(0)
            self._numbers[group] = number
        return number

    def use(self, number: int) -> None:
        """Note that one more bucket has a group."""
        self._uses[number] += 1

    def leave(self, number: int) -> None:
        """Note that a bucket with a group is gone; the last one frees the number."""
        self._uses[number] -= 1
        if not self._uses[number]:
            group = self._groups[number]
            assert group is not None
            del self._numbers[group]
            self._groups[number] = None
            self._free.append(number)

    def state(self) -> tuple[list[Group | None], list[int]]:
        """Return the groups by number, None where there is none, and the numbers that are free."""
        return list(self._groups), list(self._free)

    def load(self, each: list[Group | None], free: list[int]) -> None:
        """Take over what `state` returned; `use` follows for each bucket."""
        self._groups, self._free, self._uses = each, free, [0] * len(each)
        self._numbers = {group: number for number, group in enumerate(each) if group is not None}


class Bucket:
    """Rows of predictions, each a cell of the score and a group, and how many of them were clicked.

    While it is open, `rows` counts; when the clock has left it, `close` keeps the mean score, the group and the number
    of predictions of each row, and when it was learned, `n` is the number of negative labels that were learned.
    """

    __slots__ = (
        "clicked",
        "clicks",
        "counted",
        "delays",
        "early",
        "first",
        "groups",
        "grown",
        "issued",
        "learned",
        "n",
        "of",
        "place",
        "records",
        "rows",
        "scores",
        "serial",
        "used",
    )

    def __init__(self, serial: int, place: int, first: int, clicks: Any, cells: int) -> None:
        self.serial = serial  #: its number in tokens
        self.place = place  #: its time, in units of the width of a bucket
        self.first = first  #: the number of predictions issued before it
        self.issued = 0  #: predictions issued in it
        self.counted = 0  #: those of them that are in rows
        self.rows: Any = CountedRows()
        #: By row, what `VersionLearner.issue` returned; empty where there are none.
        self.records: list[bytes | None] = []
        self.of: set[int] = set()  #: the numbers of its groups
        self.used: dict[Any, int] = {}  #: their numbers by group, as far as this process has looked them up
        self.clicks = clicks  #: which of its predictions were clicked
        self.clicked: Whole = np.zeros(0, dtype=np.int64)  #: clicks by row
        self.early: Whole = np.zeros(0, dtype=np.int64)  #: those of them that were known early, by row
        self.delays = [0] * cells  #: clicks by cell of the curve of delays
        self.grown = 1  #: the first cell of the curve whose end its predictions have not reached
        self.learned = False
        self.scores: FloatArray = np.zeros(0)
        self.groups: Whole = np.zeros(0, dtype=np.int64)
        self.n: Whole = np.zeros(0, dtype=np.int64)

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.scores) if self.rows is None else int(self.rows.size)

    def close(self, grid: Grid) -> None:
        """Keep means in place of sums; no prediction is added any more."""
        keys, first, differences, n = self.rows.columns()
        self.scores = means(first, differences, n, keys % MOST_CELLS, grid)
        self.groups, self.n = _short(keys // MOST_CELLS), _short(n)
        self.rows, self.used, self.of = None, {}, set()
        self.clicked, self.early = (self._by_row(counts) for counts in (self.clicked, self.early))

    def click(self, row: int, *, early: bool) -> None:
        """Count a click of a row."""
        if row >= len(self.clicked):
            self.clicked, self.early = (self._by_row(counts) for counts in (self.clicked, self.early))
        self.clicked[row] += 1
        self.early[row] += early

    def _by_row(self, counts: Whole) -> Whole:
        """Return counts for all rows."""
        by_row = np.zeros(self.size if self.rows is None else max(2 * self.size, 16), dtype=np.int32)
        common = min(len(by_row), len(counts))
        by_row[:common] = counts[:common]
        return by_row

    @property
    def nbytes(self) -> int:
        """Bytes of its columns and of its clicks."""
        columns = (self.scores, self.groups, self.n, self.clicked, self.early)
        rows = 0 if self.rows is None else self.rows.nbytes
        records = sum(len(record) for record in self.records if record is not None)
        return rows + records + int(self.clicks.nbytes) + sum(int(column.nbytes) for column in columns)


def _short(numbers: Whole) -> Whole:
    return numbers.astype(np.int32)


def means(first: FloatArray, differences: FloatArray, n: Whole, cells: Whole, grid: Grid) -> FloatArray:
    """Return the mean score of each row; where rounding moves it to another cell, the first score."""
    scores = first + differences / n
    low, high = grid.scale.domain
    scores = np.minimum(np.maximum(scores, low), high)
    inside = grid.cells_of(np.ascontiguousarray(grid.scale.coordinates(scores))) == cells
    return np.where(inside, scores, first)


def spread(counts: Whole) -> Iterator[NDArray[np.intp]]:
    """Yield the numbers of streams in an order in which the items of each are evenly spread.

    Item j of the m items of stream s is at (j + u)/m, where u is s times the golden ratio, modulo 1. At most some
    `SLICE` items are yielded at once.

    Examples
    --------
    >>> [part.tolist() for part in spread(np.array([4, 2]))]
    [[1, 0, 0, 1, 0, 0]]
    """
    streams = np.flatnonzero(counts)
    m = counts[streams].astype(np.float64)
    u = ((streams + 1) * GOLDEN) % 1.0
    slices = max(1, -(-int(counts.sum()) // SLICE))
    ends = [np.zeros(len(m), dtype=np.int64)]
    ends += [np.clip(np.ceil(m * (part / slices) - u), 0.0, m).astype(np.int64) for part in range(1, slices)]
    ends.append(counts[streams].astype(np.int64))
    for begin, end in pairwise(ends):
        size = end - begin
        of = np.repeat(np.arange(len(m)), size)
        item = np.arange(len(of)) - np.repeat(np.cumsum(size) - size, size) + begin[of]
        yield streams[of[np.argsort((item + u[of]) / m[of], kind="stable")]]
