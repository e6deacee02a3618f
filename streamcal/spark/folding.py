"""Folding Arrow batches into states, merging states and applying them: what runs in the Python workers of an engine.

Nothing here knows Spark. A batch of observations has the columns `score` and `label`, and where they were given
`weight`, `time` and `key`; a batch of states has `key`, `state` (`to_bytes`) and `n`. A missing key is a key.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal.calibrators.base import Calibrator
from streamcal.errors import InputError
from streamcal.parameters.inputs import check_times
from streamcal.parameters.types import FloatArray
from streamcal.stream import arrow

pyarrow = arrow.pyarrow

#: Rows that are sorted by key and learned together: 2²⁰ rows of five columns are 40 MB. A call of `learn_many` costs as
#: much as some hundred to some thousand rows, whatever it learns.
ROWS_TOGETHER = 1 << 20
#: Calibrators that a partition holds at once. Then their states are written, and new ones started: later they merge.
MOST_OPEN = 20_000
#: Rows and bytes of states in a batch that is given out.
STATES_TOGETHER, BYTES_TOGETHER = 10_000, 16 << 20
#: Calibrators that are kept read when states are applied.
MOST_READ = 10_000
#: Fewer rows than this are learned one by one, which is faster; the state is the same.
FEW = 8

#: The arguments of `learn_many` in its messages → the columns of a batch; `learn_one` names them as columns are.
ARGUMENTS = {"scores": "score", "y": "label", "w": "weight", "t": "time"}

#: A batch, an array and a table of Arrow.
Batch = Any
Array = Any

#: Column of a batch (`score`, `label` ...) → the user's name of it, for messages.
Names = Mapping[str, str]


class Rows(NamedTuple):
    """Observations as `learn_many` takes them, arrays of shape (n,)."""

    scores: FloatArray
    y: FloatArray
    w: FloatArray | None
    t: FloatArray | None

    def at(self, chosen: Any) -> Rows:
        """Select some of the rows."""
        return Rows(*(None if column is None else column[chosen] for column in self))  # type: ignore[arg-type]


def fold(batches: Iterable[Batch], calibrator: Calibrator, names: Names, in_order: bool = False) -> Iterator[Batch]:
    """Fold observations, in any order, into one state for each key, each by a clone of the calibrator.

    Yield batches with the columns `key`, `state` and `n`; no observations, no states. With `in_order` they are sorted
    by key: a key is done when another one comes, so that one calibrator is held. Otherwise a key may come in several
    states, which are to be merged. `names` are the user's names of the columns: an `InputError` for a value that the
    method does not take names the column and, with keys, the key.
    """
    open_keys: dict[Any, Calibrator] = {}
    kind = pyarrow.string()
    for table in together(batches):
        kind = table.schema.field("key").type if "key" in table.schema.names else kind
        for key, rows in _by_key(table, names):
            if key not in open_keys:
                open_keys[key] = calibrator.clone()
            _learn(open_keys[key], rows, names, key)
        if in_order:
            done = {key: open_keys.pop(key) for key in [*open_keys][:-1]}
        else:
            done, open_keys = (open_keys, {}) if len(open_keys) > MOST_OPEN else ({}, open_keys)
        yield from written(_states_of(done), kind)
    yield from written(_states_of(open_keys), kind)


def merge(batches: Iterable[Batch], read: Callable[[bytes], Calibrator]) -> Iterator[Batch]:
    """Merge the states of each key; batches, and the one row a key that is yielded, have the columns of `fold`.

    Batches are sorted by key, and `read` is `from_bytes` of the class. Raise `MergeError` where states of one key have
    different classes or parameters, or those of a method that does not merge.
    """
    kind: Any = None
    open_keys: dict[Any, list[bytes]] = {}
    for batch in batches:
        kind = batch.schema.field("key").type
        for key, state in zip(batch.column("key").to_pylist(), batch.column("state").to_pylist(), strict=True):
            open_keys.setdefault(key, []).append(state)
        done = {key: open_keys.pop(key) for key in [*open_keys][:-1]}  # of the last one there may be more
        yield from written(((key, *_merged(states, read)) for key, states in done.items()), kind)
    yield from written(((key, *_merged(states, read)) for key, states in open_keys.items()), kind)


class Applied:
    """The map of each key, applied to columns of scores, with lower and upper ends where an interval is wanted.

    `find` leads from a key, or any value of the column of keys, to bytes of a state; None if there is none. `score` is
    the user's name of the column, for messages.
    """

    def __init__(self, find: Callable[[Any], bytes | None], interval: bool, score: str) -> None:
        self._find = find
        self._interval = interval
        self._names = {"score": score}
        self._read: dict[Any, Calibrator | None] = {}

    def __call__(self, scores: Array, keys: Array) -> Array:
        """Return the probabilities of a column of scores, null where the score is null or the key has no state.

        They are an array of structs with the fields `calibrated`, and `lower` and `upper` where intervals are wanted.
        Raise `InputError` for a score that the method does not take, and a state whose method has intervals where none
        are wanted, or the other way round.
        """
        values, present = numbers(scores), ~nulls(scores)
        ends = [np.zeros(len(values)) for _ in range(3 if self._interval else 1)]
        known = np.zeros(len(values), dtype=np.bool_)
        order, runs = runs_of(keys)
        for key, run in runs:
            calibrator = self._calibrator(key)
            rows = order[run]
            rows = rows[present[rows]]
            if calibrator is None or not len(rows):
                continue
            known[rows] = True
            for end, values_at_rows in zip(ends, self._predict(calibrator, values[rows], key), strict=True):
                end[rows] = values_at_rows
        arrays = [pyarrow.array(end, mask=~known) for end in ends]
        return pyarrow.StructArray.from_arrays(arrays, names=["calibrated", "lower", "upper"][: len(ends)])

    def _calibrator(self, key: Any) -> Calibrator | None:
        if key not in self._read:
            if len(self._read) >= MOST_READ:
                self._read.clear()
            state = self._find(key)
            self._read[key] = None if state is None else self._checked(Calibrator.from_bytes(state))
        return self._read[key]

    def _checked(self, calibrator: Calibrator) -> Calibrator:
        """Check that a calibrator has intervals if the others do; columns are the same for all keys."""
        if calibrator.has_interval != self._interval:
            has, others = ("has intervals", "none") if calibrator.has_interval else ("has no intervals", "some")
            raise InputError(f"the method {calibrator!r} {has}, and others of the states have {others}; separate them")
        return calibrator

    def _predict(self, calibrator: Calibrator, scores: FloatArray, key: Any) -> list[FloatArray]:
        try:
            ends = [calibrator.predict_many(scores)]
            if self._interval:
                ends += calibrator.predict_interval_many(scores)  # type: ignore[attr-defined]
        except InputError as error:
            raise named(error, self._names, key if isinstance(key, (str, int)) else None) from None
        return ends


# -- observations ------------------------------------------------------------------------------------------------------


def together(batches: Iterable[Batch]) -> Iterator[Any]:
    """Join batches into tables of about `ROWS_TOGETHER` rows so that each key's rows are learned in larger groups."""
    waiting: list[Batch] = []
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= ROWS_TOGETHER:
            yield pyarrow.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pyarrow.Table.from_batches(waiting)


def _by_key(table: Any, names: Names) -> Iterator[tuple[Any, Rows]]:
    """Yield each key with its observations in their order, keys in the order of their first observation."""
    rows = rows_of(table, names)
    if "key" not in table.schema.names:
        yield None, rows
        return
    order, runs = runs_of(one_array(table.column("key")))
    rows = rows.at(order)
    for key, run in runs:
        yield key, rows.at(run)


def rows_of(table: Any, names: Names) -> Rows:
    """Return the observations of a table; `InputError` for null."""
    columns = {name: one_array(table.column(name)) for name in ARGUMENTS.values() if name in table.schema.names}
    for name, column in columns.items():
        if column.null_count:
            raise InputError(
                f"column {names[name]!r} has {column.null_count} null{'s' * (column.null_count > 1)} in "
                f"{len(column)} rows; drop those rows, or fill them"
            )
    w, t = columns.get("weight"), columns.get("time")
    return Rows(
        numbers(columns["score"]),
        numbers(columns["label"]),
        None if w is None else numbers(w),
        None if t is None else _seconds(t),
    )


def runs_of(keys: Array) -> tuple[NDArray[np.intp], list[tuple[Any, slice]]]:
    """Return the order that sorts rows by key, stable within a key, and each key with its rows in this order."""
    distinct, codes = arrow.codes(keys)
    short = codes.astype(np.uint16) if len(distinct) <= 1 << 16 else codes  # which NumPy sorts in linear time
    order = np.argsort(short, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1)).tolist()
    ends = [*starts[1:], len(codes)]
    return order, [(distinct[codes[order[a]]], slice(a, b)) for a, b in zip(starts, ends, strict=True) if a < b]


def _learn(calibrator: Calibrator, rows: Rows, names: Names, key: Any) -> None:
    """Learn the rows of a key; a warning about their times is an error, since nobody sees those of workers."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "times such as ", RuntimeWarning)
        try:
            require_times(rows)
            _learned(calibrator, rows)
        except InputError as error:
            raise named(error, names, key) from None
        except RuntimeWarning as warning:
            raise named(InputError(f"time {warning}"), names, key) from None


def require_times(rows: Rows) -> None:
    """Raise `InputError` for NaN and infinity as a time, which have no place in an order.

    A method without a clock does not read times, but rows are put in their order.
    """
    if rows.t is not None:
        check_times(rows.t, len(rows.t))


def _learned(calibrator: Calibrator, rows: Rows) -> None:
    if len(rows.scores) >= FEW:
        calibrator.learn_many(*rows)
        return
    w = repeat(1.0) if rows.w is None else rows.w.tolist()
    t = repeat(None) if rows.t is None else rows.t.tolist()
    for row in zip(rows.scores.tolist(), rows.y.tolist(), w, t, strict=False):
        calibrator.learn_one(*row)


def named(error: InputError, names: Names, key: Any) -> InputError:
    """Return the error with the user's name of the column in place of the argument's."""

    def column(match: re.Match[str]) -> str:
        name = ARGUMENTS.get(match[1], match[1])
        return f"column {names[name]!r}: " if name in names else match[0]

    message = re.sub(r"^(?:scores\[\d+\]: )?(scores?|y|label|w|weight|t|time)(?:\[\d+\] =)? ", column, str(error))
    return InputError(message if key is None else f"{message} (key {key!r})")


def one_array(column: Any) -> Array:
    """Return a column of a table as one array."""
    return column.chunk(0) if column.num_chunks == 1 else pyarrow.concat_arrays(column.chunks)


def nulls(column: Array) -> NDArray[np.bool_]:
    """Return where a column is null."""
    return np.asarray(column.is_null(), dtype=np.bool_)


def numbers(column: Array) -> FloatArray:
    """Return a column as doubles; the values are arbitrary where it is null."""
    return arrow.as_array(arrow.cast(column, pyarrow.float64()), np.float64)


def _seconds(column: Array) -> FloatArray:
    """Return times as seconds since 1970 UTC; numbers as they are. Times without a time zone are read as UTC."""
    kind = column.type
    if pyarrow.types.is_timestamp(kind):
        return arrow.as_array(arrow.cast(column, pyarrow.timestamp("us", kind.tz)), np.int64) / 1e6
    if pyarrow.types.is_date(kind):
        return arrow.as_array(arrow.cast(column, pyarrow.date32()), np.int32) * 86_400.0
    return numbers(column)


# -- states ------------------------------------------------------------------------------------------------------------


def _states_of(calibrators: Mapping[Any, Calibrator]) -> Iterator[tuple[Any, bytes, float]]:
    return ((key, calibrator.to_bytes(), calibrator.n) for key, calibrator in calibrators.items())


def _merged(states: list[bytes], read: Callable[[bytes], Calibrator]) -> tuple[bytes, float]:
    """Merge states into one, and return it with the weight that it holds."""
    first = read(states[0])
    for state in states[1:]:
        first.merge(read(state))
    return (first.to_bytes() if len(states) > 1 else states[0]), first.n


def written(states: Iterable[tuple[Any, bytes, float]], kind: Any) -> Iterator[Batch]:
    """Yield batches of states, none of which is large."""
    rows: list[tuple[Any, bytes, float]] = []
    size = 0
    for row in states:
        rows.append(row)
        size += len(row[1])
        if len(rows) >= STATES_TOGETHER or size >= BYTES_TOGETHER:
            yield _batch(rows, kind)
            rows, size = [], 0
    if rows:
        yield _batch(rows, kind)


def _batch(rows: list[tuple[Any, bytes, float]], kind: Any) -> Batch:
    keys, states, weights = zip(*rows, strict=True)
    arrays = [
        pyarrow.array(keys, kind),
        pyarrow.array(states, pyarrow.binary()),
        pyarrow.array(weights, pyarrow.float64()),
    ]
    return pyarrow.RecordBatch.from_arrays(arrays, names=["key", "state", "n"])
