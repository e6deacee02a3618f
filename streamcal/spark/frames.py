"""`fit`, `merge`, `states` and `transform`: states of calibrators over the DataFrames of Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamcal.calibrators.base import Calibrator
from streamcal.errors import InputError
from streamcal.spark import folding
from streamcal.stream.arrow import pyarrow

#: Types of columns that hold keys: equal values are equal in Spark, Arrow and Python.
KEYS = (T.StringType, T.IntegralType, T.BooleanType, T.DateType, T.BinaryType)
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
        For a column that is not there or is of another type, a calibrator that has learned, and a method that depends
        on the order where `time` is not given. In the action that computes the result, for null, NaN and other values
        that the method does not take, with column, value and key.

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
    check_calibrator(calibrator, time)
    given = {"score": score, "label": label, "weight": weight, "time": time, "key": key}
    names = {name: column for name, column in given.items() if column is not None}
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
    for one in (first, *others):
        _check_states(one)
    return _merged(reduce(DataFrame.unionByName, others, first), Calibrator.from_bytes)


def states(df: DataFrame) -> dict[Any, Calibrator]:
    """The calibrators of a DataFrame of states, in the driver: key → calibrator, None being the key of `key=None`."""
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
        Column of keys.
    broadcast : bool
        Whether every Python worker gets all states, which are collected by the driver: no row is shuffled. With False,
        rows are joined with `states`, which is for more keys than fit into a worker: a million, at some 150 bytes.

    Returns
    -------
    DataFrame
        With the column `calibrated`, and where the method has intervals also `lower` and `upper`. They are null where
        the score is null, and where the key has no state.

    Raises
    ------
    InputError
        For a column that is not there, is of another type or there already, and where one of `states` and `df` has keys
        and the other has none. In the action that computes the result, for NaN and scores that the method does not
        take, with column, value and key.

    Notes
    -----
    `states` that come from `fit` are computed here: write them to a table, or `persist` them, before. Forecasts are as
    of the last observation that was learned.
    """
    find: Callable[[Any], bytes | None]
    if isinstance(states, DataFrame):
        _check_states(states)
    if broadcast or not isinstance(states, DataFrame):
        found = _collected(states) if isinstance(states, DataFrame) else _bytes_of(states)
        _check_keys(found, key)
        sample, rows = next(iter(found.values()), None), df
        beside_score = F.lit(None).cast("string") if key is None else column(df, "key", key)
        find = found.get
    else:
        first = states.limit(1).collect()
        sample = bytes(first[0]["state"]) if first else None
        beside = states.select(F.col("key").alias("__key"), F.col("state").alias("__state"))
        own = F.lit(None) if key is None else column(df, "key", key)
        rows = df.join(beside, own.eqNullSafe(F.col("__key")), "left")
        beside_score, find = F.col("__state"), _itself
    interval = sample is not None and Calibrator.from_bytes(sample).has_interval
    new = ["calibrated", "lower", "upper"] if interval else ["calibrated"]
    there = [name for name in new if name in df.columns]
    if there:
        raise InputError(f"the rows have a column {there[0]!r} already; drop or rename it")
    applied = _udf(find, interval, score, new)
    with_it = rows.withColumn("__applied", applied(column(df, "score", score), beside_score))
    return with_it.select(*map(quoted, df.columns), *(F.col(f"__applied.{name}") for name in new))


def _udf(find: Callable[[Any], bytes | None], interval: bool, score: str, new: list[str]) -> Any:
    """The Arrow UDF of scores and keys, or whatever `find` takes, which reads each state once in a task."""

    def apply(batches: Iterator[tuple[pyarrow.Array, pyarrow.Array]]) -> Iterator[pyarrow.Array]:
        applied = folding.Applied(find, interval, score)
        for scores, keys in batches:
            yield applied(scores, keys)

    return F.arrow_udf(apply, T.StructType([T.StructField(name, T.DoubleType()) for name in new]))


def _itself(state: bytes | None) -> bytes | None:
    return state


# -- plans -------------------------------------------------------------------------------------------------------------


def _sorted(rows: DataFrame, by: list[str]) -> DataFrame:
    """Rows sorted in partitions, those of a key in one; without keys there is one partition.

    Sorted partitions are read as a stream: groups of `applyInArrow` would each be held whole, and cost a stream of
    Arrow each, a millisecond for every one of a million keys.
    """
    gathered = rows.repartition("key") if "key" in rows.columns else rows.repartition(1)
    return gathered.sortWithinPartitions(*by)


def _merged(partial: DataFrame, read: Callable[[bytes], Calibrator]) -> DataFrame:
    """One state a key. The order of the merges does not depend on which partition came first."""

    def merge(batches: Iterator[Any]) -> Iterator[Any]:
        return folding.merge(batches, read)

    schema = _schema(partial.schema["key"].dataType)
    return _sorted(partial, ["key", "n", "state"]).mapInArrow(merge, schema)


def _schema(key_type: Any) -> Any:
    fields = zip(STATES, (key_type, T.BinaryType(), T.DoubleType()), strict=True)
    return T.StructType([T.StructField(name, one) for name, one in fields])


def _collected(df: DataFrame) -> dict[Any, bytes]:
    """Key → state, in the driver."""
    _check_states(df)
    rows = df.select("key", "state").collect()
    found = {_hashable(row["key"]): bytes(row["state"]) for row in rows}
    if len(found) < len(rows):
        raise InputError(f"{len(rows)} states are those of {len(found)} keys; give one a key, as streamcal.spark.merge")
    return found


def _bytes_of(given: Any) -> dict[Any, bytes]:
    """Key → state, of calibrators."""
    by_key = given if isinstance(given, Mapping) else {None: given}
    for one in by_key.values():
        if not isinstance(one, Calibrator):
            raise InputError(f"states {one!r} is none; give what fit returned, calibrators by key, or a calibrator")
    return {key: one.to_bytes() for key, one in by_key.items()}


def _hashable(key: Any) -> Any:
    return bytes(key) if isinstance(key, bytearray) else key


# -- checks ------------------------------------------------------------------------------------------------------------


def check_calibrator(calibrator: Any, time: str | None) -> None:
    if not isinstance(calibrator, Calibrator):
        raise InputError(f"calibrator {calibrator!r} is none of one score; give such as Platt() or Isotonic()")
    if calibrator.n > 0.0:
        raise InputError("the calibrator has learned already; give a clone(), and merge what it learned afterwards")
    if time is None and not calibrator.merges:
        raise InputError(f"{calibrator!r} depends on the order of its observations: give time=, the column of times")
    if time is None and getattr(calibrator, "_timed", False):
        raise InputError(f"{calibrator!r} forgets by time: give time=, the column of times")


def _check_states(df: DataFrame) -> None:
    if not set(STATES) <= set(df.columns):
        raise InputError(f"the states have the columns {df.columns}; give what streamcal.spark.fit returned")


def _check_keys(found: Mapping[Any, bytes], key: str | None) -> None:
    """`InputError` where states have keys and rows have none, or the other way round."""
    if key is None and found and None not in found:
        raise InputError(f"the states have keys, such as {next(iter(found))!r}; give key=, the column of keys")
    if key is not None and [*found] == [None]:
        raise InputError("the states were fitted without keys; leave key= out, or fit with key=")


def kind(df: DataFrame, own: str) -> Any:
    """The type of a column; `InputError` where there is none, or several."""
    found = [field for field in df.schema.fields if field.name == own]
    if len(found) != 1:
        there = ", ".join(df.columns)
        raise InputError(f"{len(found) or 'no'} columns are named {own!r}; the columns are: {there}")
    return found[0].dataType


def column(df: DataFrame, name: str, own: str) -> Any:
    """A column as the workers read it: numbers as doubles."""
    of, what = kind(df, own), quoted(own)
    if name == "key":
        if not isinstance(of, KEYS):
            raise InputError(
                f"column {own!r} is of type {of.simpleString()}; keys are texts, whole numbers, bools or dates"
            )
        return what
    if name == "time" and isinstance(of, TIMES):
        return what
    if isinstance(of, T.NumericType) or (name == "label" and isinstance(of, T.BooleanType)):
        return what.cast("double")
    raise InputError(f"column {own!r} is of type {of.simpleString()}; cast it: a {name} is {_allowed(name)}")


def _allowed(name: str) -> str:
    return {"label": "a bool or a number", "time": "a number, a timestamp or a date"}.get(name, "a number")


def quoted(name: str) -> Any:
    """A column by its exact name, dots included."""
    return F.col("`" + name.replace("`", "``") + "`")
