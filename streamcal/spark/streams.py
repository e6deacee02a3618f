"""`calibrate_stream`: a `LabelJoin` and its calibrator for each key of a stream, kept by Spark as bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.streaming import StatefulProcessor, StatefulProcessorHandle

from streamcal.calibrators.base import Calibrator
from streamcal.errors import InputError
from streamcal.live.label_join import LabelJoin
from streamcal.spark import frames
from streamcal.spark.joining import ANY_JUMP, Event, take

#: Where Spark keeps states; the other store has no `transformWithState`.
STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def calibrate_stream(
    df: DataFrame,
    *,
    key: str,
    id: str,
    score: str,
    label: str,
    event_time: str,
    horizon: float | timedelta,
    calibrator: Calibrator,
    early: float | timedelta | None = None,
    late: float | timedelta | None = None,
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
        Column of timestamps: of the impression, and of the outcome.
    horizon, early, late, max_held
        As in `streamcal.live.LabelJoin`; `max_held` is for each key.
    calibrator : Calibrator
        The method, which has learned nothing. Each key gets a clone.
    watermark : str
        How late an event may come; Spark drops later ones.
    initial : DataFrame, optional
        What `fit` returned: the calibrators that keys begin with.

    Returns
    -------
    DataFrame
        A stream with a row for each new impression: the columns of key, id, event time and score, `calibrated`, and
        `error`, null. An event that is refused, as for a score that is no probability, has null in `calibrated` and the
        reason in `error`. Duplicates that are still remembered give no row.

    Raises
    ------
    InputError
        For a column that is not there or of another type, parameters that are not possible, and another state store
        than RocksDB.

    Notes
    -----
    What a key holds is one value of bytes, which is read and written in each micro-batch that has events of the key:
    some 150 bytes for the calibrator and 40 for each impression within `horizon` and `late`. Labels whose time
    comes while a key has no traffic are learned by a timer of the watermark. A batch that is run again after a failure
    gives the same rows and the same state; `docs/spark.md` says how they are written once.
    """
    frames.check_calibrator(calibrator, event_time)
    options = {"horizon": horizon, "early": early, "late": late, "max_held": max_held, "max_jump": ANY_JUMP}
    processor = Joins(calibrator, options)
    _check_store(df)
    kinds = {name: frames.kind(df, column) for name, column in (("key", key), ("id", id))}
    if not isinstance(kinds["id"], (T.StringType, T.IntegralType)):
        raise InputError(f"column {id!r} is of type {kinds['id'].simpleString()}; ids are texts or whole numbers")
    if not isinstance(frames.kind(df, event_time), T.TimestampType):
        raise InputError(f"column {event_time!r} is not of type timestamp; cast it")
    rows = df.select(
        frames.column(df, "key", key).alias("key"),
        frames.quoted(id).alias("id"),
        frames.column(df, "score", score).alias("score"),
        frames.column(df, "label", label).alias("label"),
        frames.quoted(event_time).alias("at"),
        F.unix_micros(frames.quoted(event_time)).alias("micros"),
    ).withWatermark("at", watermark)
    told = rows.groupBy("key").transformWithState(
        statefulProcessor=processor,
        outputStructType=_told(kinds["key"], kinds["id"]),
        outputMode="append",
        timeMode="EventTime",
        initialState=None if initial is None else initial.select("key", "state").groupBy("key"),
    )
    names = zip(("key", "id", "micros", "score"), (key, id, event_time, score), strict=True)
    columns = [(F.timestamp_micros(name) if name == "micros" else F.col(name)).alias(own) for name, own in names]
    return told.select(*columns, "calibrated", "error")


def _told(key: Any, id: Any) -> Any:
    kinds = {"key": key, "id": id, "micros": T.LongType(), "score": T.DoubleType(), "calibrated": T.DoubleType()}
    return T.StructType([T.StructField(name, kind) for name, kind in {**kinds, "error": T.StringType()}.items()])


def _check_store(df: DataFrame) -> None:
    if df.isStreaming and df.sparkSession.conf.get(STORE, "") != ROCKSDB:
        raise InputError(f'states with timers need RocksDB: spark.conf.set("{STORE}", "{ROCKSDB}")')


def _event(row: Row) -> Event:
    t = math.nan if row["micros"] is None else row["micros"] / 1e6
    return Event(row["id"], row["score"], row["label"], t)


class Joins(StatefulProcessor):
    """A `LabelJoin` for each key, as one value of bytes.

    Parameters
    ----------
    calibrator : Calibrator
        The method, which has learned nothing.
    options : dict
        The other arguments of `LabelJoin`.
    """

    def __init__(self, calibrator: Calibrator, options: dict[str, Any]) -> None:
        self._calibrator = calibrator
        self._options = options
        self._begun(calibrator.clone())  # raises for options that are not possible

    def _begun(self, calibrator: Calibrator) -> LabelJoin:
        return LabelJoin(calibrator, **self._options)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState("join", "state binary")

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        """Begin with the calibrator of a backfill."""
        seeded = Calibrator.from_bytes(bytes(initialState["state"]))
        if not seeded.same_parameters(self._calibrator):
            raise InputError(f"initial has {seeded!r} for the key {key[0]!r}; the stream has {self._calibrator!r}")
        self._save(self._begun(seeded))

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:
        """Issue, resolve, and learn what is due."""
        join = self._load()
        for one in take(join, map(_event, rows)):
            micros = None if math.isnan(one.t) else round(one.t * 1e6)
            yield Row(key=key[0], id=one.id, micros=micros, score=one.score, calibrated=one.p, error=one.error)
        self._save(join)
        if next(iter(self._handle.listTimers()), None) is None:
            self._wait(join, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        """Learn what became due without traffic."""
        join = self._load()
        join.advance(timerValues.getCurrentWatermarkInMs() / 1e3)
        self._save(join)
        self._wait(join, timerValues)
        return iter(())

    def close(self) -> None:
        """Nothing is open."""

    def _load(self) -> LabelJoin:
        held = self._state.get() if self._state.exists() else None
        return self._begun(self._calibrator.clone()) if held is None else LabelJoin.from_bytes(bytes(held[0]))

    def _save(self, join: LabelJoin) -> None:
        self._state.update((join.to_bytes(),))

    def _wait(self, join: LabelJoin, timerValues: Any) -> None:
        """Set a timer for what is due next; a key has one at a time."""
        if join.due < math.inf:
            later = timerValues.getCurrentWatermarkInMs() + 1
            self._handle.registerTimer(max(math.ceil(join.due * 1e3), later))
