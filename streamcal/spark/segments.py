"""`Segmented` on Spark: learned in one task in the order of time, and applied by all."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from streamcal.errors import InputError
from streamcal.live.keyed import Keyed
from streamcal.spark import chaining, frames
from streamcal.stream.arrow import pyarrow

#: Types of columns that hold levels.
LEVELS = (T.StringType, T.IntegralType, T.BooleanType)
#: States are written to two folders in turn, so that one of them is whole while the other is written.
SLOTS = 2
#: The columns of a state there: `batch` is the number of the last micro-batch in it, -1 before the first.
KEPT = "batch long, state binary"


def fit_segments(
    df: DataFrame, calibrator: Keyed, *, score: str, label: str, time: str, weight: str | None = None
) -> Keyed:
    """Learn a table in the order of time.

    Parameters
    ----------
    df : DataFrame
        The observations; it has a column for each of `calibrator.fields`, texts, whole numbers or bools, null where
        there is no level.
    calibrator : Segmented or Multicalibrated
        The calibrator that continues; it is not changed.
    score, label, time, weight : str
        Columns, as in `fit`. Rows without a label, null, are not learned.

    Returns
    -------
    Segmented or Multicalibrated
        What `learn_many` of all rows gives, to the last bit: in the order of time, ties by score, label, weight and
        levels.

    Raises
    ------
    InputError
        For a column that is not there or of another type. From Spark, with column and value, for null, NaN and other
        values that are not taken.

    Notes
    -----
    The rows are sorted by Spark, and learned by one Python worker, which holds 10⁶ of them at once: each field corrects
    what those before it leave over, so that the order matters. `docs/spark_measured.md` shows what is lost by learning
    parts of a stream side by side and adding up, and how many rows a second one worker learns.

    Examples
    --------
    ::

        cal = Segmented(OnlinePlatt(), by=["advertiser", ("advertiser", "placement")])
        cal = streamcal.spark.fit_segments(clicks, cal, score="ctr", label="clicked", time="at")
    """
    frames.check_table(df)
    columns = {"score": score, "label": label, "weight": weight, "time": time}
    return Keyed.from_bytes(_learned(df, _checked(calibrator), calibrator.to_bytes(), columns))


def transform_segments(df: DataFrame, calibrator: Keyed, *, score: str) -> DataFrame:
    """Calibrate a column of scores by the levels beside it.

    Parameters
    ----------
    df : DataFrame
        Rows, of a table or a stream, with a column for each of `calibrator.fields`.
    calibrator : Segmented or Multicalibrated
        Every Python worker gets it.
    score : str
        Column of scores.

    Returns
    -------
    DataFrame
        With the column `calibrated`, null where the score is null.

    Raises
    ------
    InputError
        For a column that is not there, of another type, or there already. In the action that computes the result, for
        NaN and scores that the calibrator does not take.
    """
    return _forecast(df, _checked(calibrator), calibrator.to_bytes(), score)


class SegmentStream:
    """A `Segmented` or `Multicalibrated` that predicts and learns micro-batches: a function for `foreachBatch`.

    Each batch is predicted by what was learned of those before it, on all executors. Then its rows with a label are
    learned, in the order of time, by one task, and the state is written before Spark notes the batch as done.

    Parameters
    ----------
    folder : str
        Where states are kept, of this stream alone, beside its checkpoint; any path that Spark reads and writes.
    calibrator : Segmented or Multicalibrated
        The initial state of the stream; not read if `folder` has a state.
    score, label, time, weight : str
        Columns, as in `fit_segments`; the label is null where a row is to be predicted and not learned.
    forecasts : callable, optional
        Called with the batch, with the column `calibrated`, and its number. It has to replace what it wrote of this
        number before.

    Raises
    ------
    InputError
        For another calibrator than the one whose states are in `folder`; in a batch, as `fit_segments`, and for states
        that are not those of the batches before it.

    Notes
    -----
    A batch that Spark runs again after a failure gives the same predictions, and is learned once: `folder` has the
    state after it, or only that before it. Predictions follow labels by a batch; the time of an event is only read to
    put those of a batch in order. Members are judged by their predictions at the time of the label, so that labels
    should not be later than batches are long; `docs/segments_measured.md` has the costs of later ones. The bounds of a
    `Multicalibrated` are for predictions in the order of learning, not for predictions by the state before a batch.

    Examples
    --------
    ::

        def save(batch, number):
            batch.write.mode("overwrite").parquet(f"forecasts/batch={number}")


        cal = Segmented(OnlinePlatt(), by=["advertiser", ("advertiser", "placement")])
        learn = SegmentStream("states", cal, score="ctr", label="clicked", time="at", forecasts=save)
        events.writeStream.foreachBatch(learn).option("checkpointLocation", "checkpoint").start()
    """

    def __init__(
        self,
        folder: str,
        calibrator: Keyed,
        *,
        score: str,
        label: str,
        time: str,
        weight: str | None = None,
        forecasts: Callable[[DataFrame, int], Any] | None = None,
    ) -> None:
        self._folder = folder
        self._first = _checked(calibrator)
        self._columns = {"score": score, "label": label, "weight": weight, "time": time}
        self._forecasts = forecasts
        self._states: dict[int, bytes] = {}  # after the batches of these numbers

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Predict a micro-batch and learn it, unless that is done."""
        spark = batch.sparkSession
        if not self._states:
            self._states = self._read_states(spark)
        if not self._states:
            self._states[-1] = self._first.to_bytes()
            self._write(spark, -1, self._states[-1])
        last = max(self._states)
        if number not in (last, last + 1) or number - 1 not in self._states:
            raise InputError(
                f"{self._folder!r} has the states after the batches {sorted(self._states)}, and this is batch {number} "
                "of its checkpoint; give the checkpoint that belongs to them, or another folder"
            )
        before = self._states[number - 1]
        if self._forecasts is not None:
            self._forecasts(_forecast(batch, self._first, before, str(self._columns["score"])), number)
        if number > last:
            state = _learned(batch, self._first, before, self._columns)
            self._write(spark, number, state)
            self._states = {number - 1: before, number: state}

    @property
    def calibrator(self) -> Keyed:
        """What has been learned after the last batch whose state is in the folder; the initial state before the first.

        The folder is read by the active session, since another process may learn, as with Spark Connect.
        """
        states = self._read_states(SparkSession.active())
        return Keyed.from_bytes(states[max(states)]) if states else self._first

    def _slot(self, number: int) -> str:
        return f"{self._folder.rstrip('/')}/slot={number % SLOTS}"

    def _write(self, spark: SparkSession, number: int, state: bytes) -> None:
        spark.createDataFrame([(number, state)], KEPT).coalesce(1).write.mode("overwrite").parquet(self._slot(number))

    def _read_states(self, spark: SparkSession) -> dict[int, bytes]:
        """Return the states in the folder; `InputError` for those of another calibrator."""
        states: dict[int, bytes] = {}
        for slot in range(SLOTS):
            try:
                rows = spark.read.schema(KEPT).parquet(self._slot(slot)).collect()
            except AnalysisException:  # there is no such folder
                continue
            states |= {row["batch"]: bytes(row["state"]) for row in rows}
        for state in states.values():
            stored = Keyed.from_bytes(state)
            if not stored.same_parameters(self._first):
                raise InputError(f"{self._folder!r} has the states of {stored!r}, not of {self._first!r}; give another")
        return states


# -- plans -------------------------------------------------------------------------------------------------------------


def _learned(df: DataFrame, calibrator: Keyed, content: bytes, columns: dict[str, str | None]) -> bytes:
    """Return the state after the rows of a table, which one task learns."""
    names = {name: column for name, column in columns.items() if column is not None}
    levels = _levels(df, calibrator)
    own = [frames.column(df, name, column).alias(name) for name, column in names.items()]
    rows = df.select(*own, *levels).where(F.col("label").isNotNull())
    order: list[str] = [name for name in ("time", "score", "label", "weight") if name in names]
    order += [f"`{chaining.level_name(i)}`" for i in range(len(levels))]
    learn = partial(_learn, content=content, names=names)
    ordered = rows.repartition(1).sortWithinPartitions(*order)
    rows_of_state = ordered.mapInArrow(learn, "key string, state binary, n double").collect()
    return bytes(rows_of_state[0]["state"]) if rows_of_state else content  # without rows there may be no task


def _learn(batches: Iterator[Any], content: bytes, names: dict[str, str]) -> Iterator[Any]:
    return chaining.learn(batches, content, names)


def _forecast(df: DataFrame, calibrator: Keyed, content: bytes, score: str) -> DataFrame:
    if any(name.lower() == "calibrated" for name in df.columns):
        raise InputError("the rows have a column 'calibrated' already; drop or rename it")

    def apply(batches: Iterator[tuple[pyarrow.Array, ...]]) -> Iterator[pyarrow.Array]:
        forecasts = chaining.Forecasts(content, score)
        for scores, *levels in batches:
            yield forecasts(scores, levels)

    udf = F.arrow_udf(apply, T.DoubleType())
    probabilities = udf(frames.column(df, "score", score), *_levels(df, calibrator))
    return df.withColumn("calibrated", probabilities)


def _levels(df: DataFrame, calibrator: Keyed) -> list[Any]:
    """Return the columns of levels; `InputError` for a missing column, or one of another type."""
    for name in calibrator.fields:
        kind = frames.kind(df, name)
        if not isinstance(kind, LEVELS):
            raise InputError(f"column {name!r} is of type {kind.simpleString()}; levels are texts or whole numbers")
    return [frames.exact(df, name).alias(chaining.level_name(i)) for i, name in enumerate(calibrator.fields)]


def _checked(calibrator: Any) -> Keyed:
    if not getattr(calibrator, "fields", ()):
        message = f"calibrator {calibrator!r} is no Segmented or Multicalibrated"
        raise InputError(f"{message}; give one, or use streamcal.spark.fit")
    store = getattr(calibrator, "store", None)
    if store is not None:
        raise InputError(f"store={store!r}: workers have no file of levels in common; give one without a store")
    return calibrator
