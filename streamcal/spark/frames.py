"""`fit`, `merge`, `states` and `transform`: states of calibrators over the DataFrames of Spark."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamcal.calibrators.base import Calibrator
from streamcal.errors import InputError
from streamcal.spark import folding
from streamcal.stream.arrow import pyarrow

#: Types of columns that hold keys: equal values are equal in Spark, Arrow and Python.
KEYS = (T.StringType, T.IntegralType, T.BooleanType, T.DateType, T.BinaryType)
#: Such a type → the Python values that equal its own. (A `datetime` is a `date` to Python and equals none.)
VALUES: dict[Any, Any] = dict(zip(KEYS, (str, Integral, (Integral, np.bool_), datetime.date, bytes), strict=True))
#: Types of columns that hold times, beside numbers.
TIMES = (T.TimestampType, T.TimestampNTZType, T.DateType)
#: Columns of a DataFrame of states.
STATES = ("key", "state", "n")


def fit(
    df: DataFrame,
    *,
    score: str,
    label: str,
    weight: str | None = None,
    time: str | None = None,
    key: str | None = None,
    calibrator: Calibrator,
) -> DataFrame:
    """Learn a table: one state for each key.

    Parameters
    ----------
    df : DataFrame
        The observations.
    score, label : str
        Columns: numbers, and labels that are bool, or numbers equal to 0 or 1.
    weight : str, optional
        Column of weights, default 1.
    time : str, optional
        Column of times: numbers, timestamps or dates. Times without a time zone are those of UTC.
    key : str, optional
        Column of keys, texts, whole numbers, bools or dates; each gets its own calibrator. Null is a key like others.
    calibrator : Calibrator
        The method, which has learned nothing. Each key gets a clone.

    Returns
    -------
    DataFrame
        Columns `key` (null without `key`), `state` (the bytes of `to_bytes`) and `n` (the weight held): a row a key,
        none for a table without rows. It is computed each time it is used: write it to a table, or `persist` it.

    Raises
    ------
    InputError
        For a column that is not there or is of another type, a stream, a calibrator that has learned, and a method that
        depends on the order where `time` is not given. In the action that computes the result, for null, NaN and other
        values that the method does not take, with column, value and key.

    Notes
    -----
    A method that merges is folded in every partition by itself; then the states are shuffled, and no rows are, so that
    a key with most of the rows is no burden. Its result is that of `learn_many` on one machine: equal where sums are
    exact, and otherwise within the rounding of sums in another order (1e-12 relative).

    A method that does not merge learns each key in the order of time, ties by score, label and weight; all rows are
    shuffled and sorted for it, and the rows of one key are learned by one process, though never held at once.

    Examples
    --------
    ::

        states = streamcal.spark.fit(clicks, score="ctr", label="clicked", key="campaign", calibrator=Platt())
        states.write.parquet("states")
    """
    check_table(df)
    check_calibrator(calibrator, time)
    columns = {"score": score, "label": label, "weight": weight, "time": time, "key": key}
    names = {name: column for name, column in columns.items() if column is not None}
    rows = df.select(*(column(df, name, own).alias(name) for name, own in names.items()))
    key_type = kind(df, key) if key is not None else T.StringType()
    in_order = not calibrator.merges
    if in_order:
        rows = _sorted(rows, [name for name in ("key", "time", "score", "label", "weight") if name in names])

    def fold(batches: Iterator[Any]) -> Iterator[Any]:
        return folding.fold(batches, calibrator, names, in_order)

    folded = rows.mapInArrow(fold, _schema(key_type))
    return folded if in_order else _merged(folded, type(calibrator).from_bytes)


def merge(first: DataFrame, *others: DataFrame) -> DataFrame:
    """Merge the states of several tables, as yesterday's and today's, key by key.

    Parameters
    ----------
    first, *others : DataFrame
        What `fit` returned, for calibrators of one class with equal parameters.

    Returns
    -------
    DataFrame
        The states of all observations.

    Raises
    ------
    InputError
        For other columns than those of `fit`. `MergeError` in the action that computes the result, where methods or
        parameters differ or the method does not merge.
    """
    for frame in (first, *others):
        check_states(frame)
        check_type(kind(first, "key"), frame, "key")  # Spark would cast, and might find no key in a text
    union = reduce(DataFrame.unionByName, (frame.select(*STATES) for frame in (first, *others)))
    return _merged(union, Calibrator.from_bytes)


def states(df: DataFrame) -> dict[Any, Calibrator]:
    """Return the calibrators of a DataFrame of states, in the driver: by key, or by None for `key=None`."""
    return {key: Calibrator.from_bytes(state) for key, state in _collected(df).items()}


def transform(
    df: DataFrame,
    states: DataFrame | Mapping[Any, Calibrator] | Calibrator,
    *,
    score: str,
    key: str | None = None,
    broadcast: bool = True,
) -> DataFrame:
    """Calibrate a column of scores.

    Parameters
    ----------
    df : DataFrame
        Rows, of a table or a stream.
    states : DataFrame, mapping or Calibrator
        What `fit` returned, or calibrators by key, or one for all rows.
    score : str
        Column of scores.
    key : str, optional
        Column of keys, of the type that the keys of `states` have; whole numbers may differ in width.
    broadcast : bool
        Whether every Python worker gets all states, which are collected by the driver: no row is shuffled. With False,
        rows are joined with `states`, which is for more keys than fit into a worker. Keys are checked in the same way.

    Returns
    -------
    DataFrame
        With the column `calibrated`, and where the method has intervals also `lower` and `upper`. They are null where
        the score is null, and where the key has no state.

    Raises
    ------
    InputError
        For a column that is not there, is of another type or there already, in whatever case; where `states` have keys
        and `key` is not given, or a calibrator for all rows is given with `key`; for keys of another type than the
        column's, two states of one key, and calibrators of which some have intervals and others have none. In the
        action that computes the result, for NaN and scores that the method does not take, with column, value and key,
        and for rows of `states` of which some have intervals and others have none.

    Notes
    -----
    `states` that come from `fit` are computed here: write them to a table, or `persist` them, before. Predictions are
    as of the last observation that was learned.

    A null key is a key like others: a state of a null key, which is also what `fit` returns without `key`, is that of
    all rows without `key`, and that of rows with a null key otherwise.
    """
    if isinstance(states, DataFrame):
        check_states(states)
        check_type(states.schema["key"].dataType, df, key)
    if broadcast or not isinstance(states, DataFrame):
        rows, beside_score, find, sample = _broadcast(df, states, key)
    else:
        rows, beside_score, find, sample = _joined(df, states, key)
    interval = sample is not None and Calibrator.from_bytes(sample).has_interval
    new = ["calibrated", "lower", "upper"] if interval else ["calibrated"]
    there = [name for name in df.columns if name.lower() in new]
    if there:
        raise InputError(f"the rows have a column {there[0]!r} already; drop or rename it")
    applied = _udf(find, interval, score, new)
    own = _unused(rows, "applied")
    with_it = rows.withColumn(own, applied(column(df, "score", score), beside_score))
    result = with_it.select("*", *(F.col(f"{own}.{name}") for name in new))
    return result.drop(own, *rows.columns[len(df.columns) :])  # a select by names would not tell equal ones apart


class _Beside(NamedTuple):
    """Rows, the column beside the score that leads to a state, how it does, and one of the states."""

    rows: DataFrame
    column: Any
    find: Callable[[Any], bytes | None]
    sample: bytes | None


def _broadcast(df: DataFrame, states: Any, key: str | None) -> _Beside:
    """Put keys beside scores; the states are sent with the function."""
    if isinstance(states, DataFrame):
        by_key = _collected(states)
    else:
        by_key = _bytes_of(states)
        _check_values(states, df, key)
    _require_key(next((content for content in by_key if content is not None), None), key)
    beside = F.lit(None).cast("string") if key is None else column(df, "key", key)
    return _Beside(df, beside, by_key.get, next(iter(by_key.values()), None))


def _joined(df: DataFrame, states: DataFrame, key: str | None) -> _Beside:
    """Put states beside scores; the driver reads one of the states, and otherwise only counts of the keys."""
    counts = states.groupBy("key").agg(F.count(F.lit(1)).alias("n"), F.count("state").alias("known"))
    sums = counts.agg(F.max("key"), F.count(F.lit(1)), F.sum("n"), F.sum("known"))  # max is null for no other key
    some, keys, n, known = sums.collect()[0]
    _check_once(n or 0, keys, known or 0)
    _require_key(_hashable(some), key)
    first = states.select("state").limit(1).collect()
    its_key, state = _unused(df, "key"), _unused(df, "state")
    beside = states.select(F.col("key").alias(its_key), F.col("state").alias(state))
    own = F.lit(None) if key is None else quoted(key)
    rows = df.join(beside, own.eqNullSafe(F.col(its_key)), "left")
    return _Beside(rows, F.col(state), _itself, bytes(first[0]["state"]) if first else None)


def _unused(df: DataFrame, name: str) -> str:
    """Return a name that no column has; Spark ignores case."""
    taken = {name.lower() for name in df.columns}
    name = f"__{name}"
    while name in taken:
        name += "_"
    return name


def _udf(find: Callable[[Any], bytes | None], interval: bool, score: str, new: list[str]) -> Any:
    """Make the Arrow UDF of scores and of what `find` reads, such as keys; each task reads each state once."""

    def apply(batches: Iterator[tuple[pyarrow.Array, pyarrow.Array]]) -> Iterator[pyarrow.Array]:
        applied = folding.Applied(find, interval, score)
        for scores, keys in batches:
            yield applied(scores, keys)

    return F.arrow_udf(apply, T.StructType([T.StructField(name, T.DoubleType()) for name in new]))


def _itself(state: bytes | None) -> bytes | None:
    return state


# -- plans -------------------------------------------------------------------------------------------------------------


def _sorted(rows: DataFrame, by: list[str]) -> DataFrame:
    """Sort rows in partitions, with the rows of a key in one; without keys there is one partition.

    Sorted partitions are read as a stream. `applyInArrow` would keep each group whole in memory, and open a stream of
    Arrow for each, which takes a millisecond for every one of a million keys.
    """
    gathered = rows.repartition("key") if "key" in rows.columns else rows.repartition(1)
    return gathered.sortWithinPartitions(*by)


def _merged(partial: DataFrame, read: Callable[[bytes], Calibrator]) -> DataFrame:
    """Merge states into one per key. The order of the merges does not depend on which partition came first."""

    def merge(batches: Iterator[Any]) -> Iterator[Any]:
        return folding.merge(batches, read)

    schema = _schema(partial.schema["key"].dataType)
    return _sorted(partial, ["key", "n", "state"]).mapInArrow(merge, schema)


def _schema(key_type: Any) -> Any:
    fields = zip(STATES, (key_type, T.BinaryType(), T.DoubleType()), strict=True)
    return T.StructType([T.StructField(name, kind) for name, kind in fields])


def _collected(df: DataFrame) -> dict[Any, bytes]:
    """Return the state of each key, in the driver."""
    check_states(df)
    rows = df.select("key", "state").collect()
    by_key = {_hashable(row["key"]): row["state"] for row in rows}
    _check_once(len(rows), len(by_key), sum(row["state"] is not None for row in rows))
    return {key: bytes(state) for key, state in by_key.items()}


def _bytes_of(states: Any) -> dict[Any, bytes]:
    """Return the state of each key, of calibrators."""
    by_key = states if isinstance(states, Mapping) else {None: states}
    for value in by_key.values():
        if not isinstance(value, Calibrator):
            raise InputError(f"states {value!r} is none; give what fit returned, calibrators by key, or a calibrator")
    with_interval = {bool(calibrator.has_interval): key for key, calibrator in by_key.items()}
    if len(with_interval) > 1:
        raise InputError(
            f"the method of key {with_interval[True]!r} has intervals, and that of key {with_interval[False]!r} has "
            "none; transform them one after the other"
        )
    return {key: calibrator.to_bytes() for key, calibrator in by_key.items()}


def _hashable(key: Any) -> Any:
    return bytes(key) if isinstance(key, bytearray) else key


# -- checks ------------------------------------------------------------------------------------------------------------


def check_calibrator(calibrator: Any, time: str | None) -> None:
    """Raise `InputError` unless the calibrator reads one score, has learned nothing and can learn these rows."""
    if not isinstance(calibrator, Calibrator):
        raise InputError(f"calibrator {calibrator!r} is none of one score; give such as Platt() or Isotonic()")
    if calibrator.n > 0.0:
        raise InputError("the calibrator has learned already; give a clone(), and merge what it learned afterwards")
    if time is None and not calibrator.merges:
        raise InputError(f"{calibrator!r} depends on the order of its observations: give time=, the column of times")
    if time is None and calibrator.forgets_by_time:
        raise InputError(f"{calibrator!r} forgets by time: give time=, the column of times")


def check_table(df: DataFrame) -> None:
    """Raise `InputError` for a stream, whose rows Spark cannot sort."""
    if df.isStreaming:
        raise InputError("df is a stream; give a table, or use calibrate_stream or SegmentStream")


def check_states(df: Any) -> None:
    """Raise `InputError` unless a DataFrame has the columns of states."""
    if not isinstance(df, DataFrame):
        raise InputError(f"the states are of type {type(df).__name__}; give what streamcal.spark.fit returned")
    if not set(STATES) <= set(df.columns):
        raise InputError(f"the states have the columns {df.columns}; give what streamcal.spark.fit returned")
    if not isinstance(of := kind(df, "state"), T.BinaryType):
        raise InputError(f"column 'state' of the states is of type {of.simpleString()}; give the bytes of to_bytes()")


def _check_once(n: int, keys: int, known: int) -> None:
    if keys < n:
        raise InputError(f"{n} states are those of {keys} keys; give one a key, as streamcal.spark.merge")
    if known < n:
        raise InputError(f"{n - known} of {n} states are null; drop those rows")


def _require_key(some: Any, key: str | None) -> None:
    """Raise `InputError` if states have keys, of which `some` is one, and no column of keys is given."""
    if key is None and some is not None:
        raise InputError(f"the states have keys, such as {some!r}; give key=, the column of keys")


def check_type(of: Any, df: DataFrame, key: str | None) -> None:
    """Raise `InputError` if keys of states are of another type than those of rows: none would be found."""
    if key is None:
        return
    column(df, "key", key)
    own = kind(df, key)
    if not any(isinstance(own, allowed) and isinstance(of, allowed) for allowed in KEYS):
        raise InputError(
            f"the keys of the states are of type {of.simpleString()}, and column {key!r} is of type "
            f"{own.simpleString()}; cast one of them"
        )


def _check_values(states: Any, df: DataFrame, key: str | None) -> None:
    """Raise `InputError` if keys of calibrators are no values of the column of keys: none would be found."""
    if key is None:
        return
    if not isinstance(states, Mapping):
        raise InputError("a calibrator without a key is given; leave key= out, or give calibrators by key")
    column(df, "key", key)
    own = kind(df, key)
    allowed = next(values for data_type, values in VALUES.items() if isinstance(own, data_type))
    for value in states:
        if value is not None and (not isinstance(value, allowed) or isinstance(value, datetime.datetime)):
            raise InputError(f"the key {value!r} of the states is no value of column {key!r}, {own.simpleString()}")


def kind(df: DataFrame, own: str) -> Any:
    """Return the type of a column; `InputError` if there is none, or several."""
    fields = [field for field in df.schema.fields if field.name == own]
    if len(fields) != 1:
        there = ", ".join(df.columns)
        raise InputError(f"{len(fields) or 'no'} columns are named {own!r}; the columns are: {there}")
    return fields[0].dataType


def column(df: DataFrame, name: str, own: str) -> Any:
    """Return a column as the workers read it: numbers as doubles."""
    of, what = kind(df, own), quoted(own)
    if name == "key":
        if not isinstance(of, KEYS):
            raise InputError(
                f"column {own!r} is of type {of.simpleString()}; keys are texts, whole numbers, bools or dates"
            )
        return exact(df, own)
    if name == "time" and isinstance(of, TIMES):
        return what
    if isinstance(of, T.NumericType) or (name == "label" and isinstance(of, T.BooleanType)):
        return what.cast("double")
    raise InputError(f"column {own!r} is of type {of.simpleString()}; cast it: a {name} is {_allowed(name)}")


def exact(df: DataFrame, own: str) -> Any:
    """Return a column whose values are equal in Spark if they are equal in Python.

    Raise `InputError` for texts with a collation; in the action, an error of Spark for a text that is not UTF-8.
    """
    of, what = kind(df, own), quoted(own)
    if not isinstance(of, T.StringType):
        return what
    if of.collation != T.StringType().collation:
        raise InputError(
            f"column {own!r} has the collation {of.collation}, by which different texts may be equal; cast it to string"
        )
    broken = F.concat(F.lit(f"column {own!r} has a text that is not UTF-8, the bytes "), F.hex(what))
    error = F.raise_error(F.concat(broken, F.lit("; repair it, such as by make_valid_utf8")))
    return F.when(~F.is_valid_utf8(what), error).otherwise(what)  # null is neither valid nor not


def _allowed(name: str) -> str:
    return {"label": "a bool or a number", "time": "a number, a timestamp or a date"}.get(name, "a number")


def quoted(name: str) -> Any:
    """Return a column by its exact name, dots included."""
    return F.col("`" + name.replace("`", "``") + "`")
