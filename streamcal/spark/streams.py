"""`calibrate_stream`: a `LabelJoin` and its calibrator for each key of a stream, kept by Spark as bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from streamcal.calibrators.base import Calibrator
from streamcal.errors import InputError, StateError
from streamcal.live.issued import Id
from streamcal.live.label_join import LabelJoin
from streamcal.spark import frames, joining, packing
from streamcal.spark.joining import ANY_JUMP, Learned
from streamcal.stream.arrow import pyarrow

#: Where Spark keeps states; the other store has no `transformWithState`.
STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
#: The key of a column's metadata where it has a watermark.
WATERMARK = "spark.watermarkDelayMs"


def calibrate_stream(
    df: DataFrame,
    *,
    key: str,
    id: str,
    score: str,
    label: str,
    event_time: str,
    horizon: float | timedelta | str,
    calibrator: Calibrator,
    early: float | timedelta | str | None = None,
    late: float | timedelta | str | None = None,
    watermark: str = "10 minutes",
    max_held: int = 100_000,
    initial: DataFrame | None = None,
) -> DataFrame:
    """Calibrate a stream of impressions while their labels come in.

    Parameters
    ----------
    df : DataFrame
        A stream whose rows are impressions, with a score and no label, and outcomes, with a label and no score. (A row
        with both is an impression whose outcome is known.)
    key : str
        Column of keys, as in `fit`; each has a `LabelJoin` and a calibrator of its own.
    id : str
        Column of ids, texts or whole numbers, by which an outcome finds its impression.
    score, label : str
        Columns, null where a row has none.
    event_time : str
        Column of timestamps, without a watermark: of the impression, and of the outcome.
    horizon, early, late, max_held
        As in `streamcal.live.LabelJoin`; `max_held` is for each key.
    calibrator : Calibrator
        The method, which has learned nothing. Each key gets a clone.
    watermark : str
        How late an event may come; later ones are dropped, by the watermark as it is when the batch is processed.
    initial : DataFrame, optional
        What `fit` returned: the calibrators that keys begin with. Spark reads it in the first batch of a checkpoint.

    Returns
    -------
    DataFrame
        A stream with a row for each new impression: the columns of key, id, event time and score, `calibrated`, and
        `error`, null. An event that is refused, as for a score that is no probability, has null in `calibrated` and the
        reason in `error`. Duplicates that are still remembered give no row.

    Raises
    ------
    InputError
        For a column that is not there or of another type, columns that the result would have twice, parameters that are
        not possible, and another state store than RocksDB.
    StateError
        From Spark, for the checkpoint of a stream with another method, `horizon`, `early` or `late`.

    Notes
    -----
    The state of a key is one value of bytes, which is read and written in each micro-batch with events of the key: some
    400 bytes for `OnlinePlatt` and 56 for each impression within `horizon` and `late`; 140 and 32 with a `discount`.
    Labels whose time comes while a key has no traffic are learned by a timer of the watermark. A batch that is run
    again after a failure gives the same rows and the same state; `docs/spark.md` describes how to write them once.
    """
    frames.check_calibrator(calibrator, event_time)
    options = {"horizon": horizon, "early": early, "late": late, "max_held": max_held}
    options |= {"max_jump": ANY_JUMP, "max_behind": ANY_JUMP}
    Joins(calibrator, options, None)  # raises for what is not possible
    _check_store(df)
    key_type, id_type, arrow_type = _types(df, key, id, event_time)
    _check_initial(initial, df, key)
    _check_names(key, id, event_time, score, "calibrated", "error")
    rows = df.select(
        frames.column(df, "key", key).alias("key"),
        _ids(id, id_type).alias("id"),
        frames.column(df, "score", score).alias("score"),
        frames.column(df, "label", label).alias("label"),
        F.unix_micros(frames.quoted(event_time)).alias("micros"),
    )
    packed = rows.mapInArrow(
        lambda batches: packing.pack(batches, packing.events_schema(arrow_type)),
        _schema(key=key_type, micros=T.LongType(), events=T.BinaryType()),
    )
    joined = (
        packed.withColumn("at", F.timestamp_micros("micros"))
        .withWatermark("at", watermark)
        .groupBy("key")
        .transformWithState(
            statefulProcessor=Joins(calibrator, options, arrow_type),
            outputStructType=_schema(key=key_type, forecasts=T.BinaryType()),
            outputMode="append",
            timeMode="EventTime",
            initialState=None if initial is None else initial.select("key", "state").groupBy("key"),
        )
    )
    numbers = {"micros": T.LongType(), "score": T.DoubleType(), "calibrated": T.DoubleType()}
    forecasts = joined.mapInArrow(
        lambda batches: packing.unpack(batches, packing.forecasts_schema(arrow_type)),
        _schema(key=key_type, id=id_type, **numbers, error=T.StringType()),
    )
    return forecasts.select(
        F.col("key").alias(key),
        F.col("id").cast(frames.kind(df, id)).alias(id),
        F.timestamp_micros("micros").alias(event_time),
        F.col("score").alias(score),
        "calibrated",
        "error",
    )


def _types(df: DataFrame, key: str, id: str, event_time: str) -> tuple[Any, Any, Any]:
    """Return the type of keys, and those of ids on their way, in Spark and in Arrow; check ids and event times."""
    kind = frames.kind(df, id)
    if not isinstance(kind, (T.StringType, T.IntegralType)):
        raise InputError(f"column {id!r} is of type {kind.simpleString()}; ids are texts or whole numbers")
    if not isinstance(frames.kind(df, event_time), T.TimestampType):
        raise InputError(f"column {event_time!r} is not of type timestamp; cast it")
    for field in df.schema.fields:
        if WATERMARK in field.metadata:
            raise InputError(
                f"column {field.name!r} has a watermark, and a query has one; give its delay as watermark= in place of "
                "withWatermark (duplicates are left out without it)"
            )
    texts = isinstance(kind, T.StringType)
    id_type, arrow_type = (T.StringType(), pyarrow.string()) if texts else (T.LongType(), pyarrow.int64())
    return frames.kind(df, key), id_type, arrow_type


def _ids(id: str, kind: Any) -> Any:
    """Return the column of ids: null, which is refused, for a text that is no UTF-8."""
    ids = frames.quoted(id).cast(kind)
    return F.try_validate_utf8(ids) if kind == T.StringType() else ids


def _schema(**kinds: Any) -> Any:
    return T.StructType([T.StructField(name, kind) for name, kind in kinds.items()])


def _check_store(df: DataFrame) -> None:
    if df.isStreaming and df.sparkSession.conf.get(STORE, "") != ROCKSDB:
        raise InputError(f'states with timers need RocksDB: spark.conf.set("{STORE}", "{ROCKSDB}")')


def _check_names(*names: str) -> None:
    """Raise `InputError` for columns of the result that Spark cannot tell apart."""
    for name in {one.lower() for one in names}:
        same = [one for one in names if one.lower() == name]
        if len(same) > 1:
            raise InputError(f"the result has {len(same)} columns {same[0]!r}; rename the one that is given")


def _check_initial(initial: DataFrame | None, df: DataFrame, key: str) -> None:
    """Raise `InputError` for states that no key of the stream can have: Spark would start without them."""
    if initial is not None:
        frames.check_states(initial)
        frames.check_type(frames.kind(initial, "key"), df, key)


class KeyState(NamedTuple):
    """The columns of a key's state."""

    state: bytes  #: of the `LabelJoin`
    timer: int | None = None  #: milliseconds: when the timer rings that is set
    waiting: int = 0  #: the number of predictions whose labels are to be learned
    #: Those of `joining.Learned`.
    learned: int = 0
    ids: int = 0
    hash: int = 0
    positives: int = 0
    positive_ids: int = 0
    positive_hash: int = 0


#: The name of the state, and its columns in Spark.
STATE = "join"
COLUMNS = ", ".join(f"{name} {'binary' if name == 'state' else 'long'}" for name in KeyState._fields)


class Joins(StatefulProcessor):
    """A `LabelJoin` for each key, as one value of bytes, and what it has learned.

    The calibrator has learned nothing; `options` are the other arguments of `LabelJoin`, and `id_type` is that of ids
    in Arrow.
    """

    def __init__(self, calibrator: Calibrator, options: dict[str, Any], id_type: Any) -> None:
        self._calibrator = calibrator
        self._options = options
        self._id_type = id_type
        self._new = self._begun(calibrator.clone())  # raises for options that are not possible

    def _begun(self, calibrator: Calibrator) -> LabelJoin:
        return LabelJoin(calibrator, **self._options)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState(STATE, COLUMNS)
        self._events_schema = packing.events_schema(self._id_type)
        self._forecasts_schema = packing.forecasts_schema(self._id_type)

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        """Begin with the calibrator of a backfill."""
        if self._state.exists():
            raise InputError(f"initial has several states of the key {key[0]!r}; give one, as streamcal.spark.merge")
        seeded = Calibrator.from_bytes(bytes(initialState["state"] or b""))
        if not seeded.same_parameters(self._calibrator):
            raise InputError(f"initial has {seeded!r} for the key {key[0]!r}; the stream has {self._calibrator!r}")
        self._state.update(KeyState(self._begun(seeded).to_bytes()))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Issue, resolve, and learn what is due."""
        watermark = timerValues.getCurrentWatermarkInMs()
        events = packing.events_of((row["events"] for row in rows), self._events_schema, watermark * 1e3)
        if events:
            forecasts = self._do(lambda join: [*joining.take(join, events)], watermark)
            if forecasts:
                yield Row(key=key[0], forecasts=packing.packed_forecasts(forecasts, self._forecasts_schema))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """Learn what became due without traffic."""
        watermark = timerValues.getCurrentWatermarkInMs()
        self._do(lambda join: join.advance(watermark / 1e3), watermark, expiredTimerInfo.getExpiryTimeInMs())
        return iter(())

    def close(self) -> None:
        """Do nothing: nothing is open."""

    def _do(self, act: Callable[[LabelJoin], Any], watermark: int, rung: int | None = None) -> Any:
        """Let the key's join act, and keep it; `rung` is the timer that has fired, which Spark removes."""
        content = self._state.get()
        stored = None if content is None else KeyState(*content)
        join = self._begun(self._calibrator.clone()) if stored is None else self._resumed(stored)
        labels: list[tuple[Id, bool]] = []
        join.on_learned = lambda event, y: labels.append((event.id, y))
        result = act(join)
        before = Learned() if stored is None else Learned(*stored[3:])
        timer = None if stored is None or stored.timer == rung else stored.timer
        timer = self._waited_for(join, timer, watermark)
        self._state.update(KeyState(join.to_bytes(), timer, join.waiting, *before.with_ids(labels)))
        return result

    def _resumed(self, stored: KeyState) -> LabelJoin:
        """Return the join that was kept; `StateError` if it has other parameters than those of the stream."""
        join, new = LabelJoin.from_bytes(bytes(stored.state)), self._new
        if join.spans != new.spans or not join.calibrator.same_parameters(self._calibrator):
            raise StateError(
                f"the checkpoint is that of {join!r}, and the stream has {new!r}; give the parameters of the "
                "checkpoint, or another checkpoint"
            )
        join._limit(new.max_held, join.max_unknown)
        return join

    def _waited_for(self, join: LabelJoin, timer: int | None, watermark: int) -> int | None:
        """Set a timer for what is due next, where the one that is set is later, or would ring for nothing."""
        if timer is not None and timer > watermark and timer <= join.due * 1e3:
            return timer
        if timer is not None:
            self._handle.deleteTimer(timer)
        if join.due == math.inf:
            return None
        due = max(math.ceil(join.due * 1e3), watermark + 1)
        self._handle.registerTimer(due)
        return due
