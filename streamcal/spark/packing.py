"""The events of a key as one value of bytes, so that a stream has a row for each key and not for each event.

An engine that gives a stateful function its rows one by one makes objects of each value, which takes longer than all
that is done with them. So events are packed before they are shuffled, a row for each key and partition, and predictions
are unpacked after it. `pack` and `unpack` take and give batches of Arrow and work on columns; nothing here knows Spark.
The bytes are the message of a batch of Arrow without its schema; they are written and read within one micro-batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any

import numpy as np

from streamcal.spark import folding
from streamcal.spark.joining import Event, Forecast
from streamcal.stream import arrow

pyarrow = arrow.pyarrow

#: A time of no event.
NEVER = np.iinfo(np.int64).min
#: The last time, in microseconds.
LATEST = int(np.iinfo(np.int64).max)


def events_schema(id: Any) -> Any:
    """Return the schema of packed events with ids of this type: `id`, `score`, `label`, `micros` since 1970 UTC."""
    numbers = [("score", pyarrow.float64()), ("label", pyarrow.float64()), ("micros", pyarrow.int64())]
    return pyarrow.schema([("id", id), *numbers])


def forecasts_schema(id: Any) -> Any:
    """Return the schema of packed predictions: `id`, `micros`, `score`, `calibrated` and `error`."""
    numbers = [("micros", pyarrow.int64()), ("score", pyarrow.float64()), ("calibrated", pyarrow.float64())]
    return pyarrow.schema([("id", id), *numbers, ("error", pyarrow.string())])


# -- before the shuffle ------------------------------------------------------------------------------------------------


def pack(batches: Iterable[Any], schema: Any) -> Iterator[Any]:
    """Pack events by key: batches with the column `key` and those of `events_schema`, rows in any order.

    Yield the columns `key`; `micros`, the latest time of an event, null where none has one; and `events`, bytes for
    `events_of`. A key may have several rows.
    """
    for table in folding.together(batches):
        columns = {name: folding.one_array(table.column(name)) for name in table.schema.names}
        order, runs = folding.runs_of(columns["key"])
        arrays = [arrow.cast(columns[field.name], field.type) for field in schema]
        rows = pyarrow.RecordBatch.from_arrays(arrays, schema=schema).take(pyarrow.array(order))
        micros = _integers(columns["micros"], NEVER)[order]
        latest = np.maximum.reduceat(micros, [run.start for _, run in runs])
        packed = [rows.slice(run.start, run.stop - run.start).serialize().to_pybytes() for _, run in runs]
        yield pyarrow.RecordBatch.from_arrays(
            [
                pyarrow.array([key for key, _ in runs], columns["key"].type),
                pyarrow.array(latest, mask=latest == NEVER),
                pyarrow.array(packed, pyarrow.binary()),
            ],
            names=["key", "micros", "events"],
        )


def _integers(column: Any, missing: int) -> Any:
    """Return a column of integers of 64 bits, with `missing` in place of null."""
    return np.where(folding.nulls(column), missing, arrow.as_array(column, np.int64))


# -- one key -----------------------------------------------------------------------------------------------------------


def events_of(packed: Iterable[bytes], schema: Any, after: float = -math.inf) -> list[Event]:
    """Return the events of a key that `pack` wrote by `events_schema`, without those up to the time `after`, in µs."""
    listed: list[Event] = []
    for batch in packed:
        ids, scores, labels, micros = pyarrow.ipc.read_record_batch(batch, schema).to_pydict().values()
        times = [math.nan if at is None else at / 1e6 for at in micros]
        # as `Event(...)`, whose own constructor takes longer
        events = map(tuple.__new__, repeat(Event), zip(ids, scores, labels, times, strict=True))
        listed += [event for event, at in zip(events, micros, strict=True) if at is None or at > after]
    return listed


def packed_forecasts(forecasts: Sequence[Forecast], schema: Any) -> bytes:
    """Pack predictions as bytes for `unpack`."""
    ids, scores, times, calibrated, errors = zip(*forecasts, strict=True)
    micros = [None if math.isnan(t) else min(max(round(t * 1e6), -LATEST), LATEST) for t in times]
    columns = (ids, micros, scores, calibrated, errors)
    arrays = [pyarrow.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return bytes(pyarrow.RecordBatch.from_arrays(arrays, schema=schema).serialize())


# -- after it ----------------------------------------------------------------------------------------------------------


def unpack(batches: Iterable[Any], schema: Any) -> Iterator[Any]:
    """Unpack predictions: batches with the columns `key` and `forecasts`, what `packed_forecasts` wrote.

    Yield a row for each prediction: the column `key` and those of `forecasts_schema`.
    """
    for batch in batches:
        read = [pyarrow.ipc.read_record_batch(one, schema) for one in batch.column("forecasts").to_pylist()]
        if read:
            rows = pyarrow.array(np.repeat(np.arange(len(read)), [one.num_rows for one in read]))
            table = pyarrow.Table.from_batches(read)
            columns = [batch.column("key").take(rows), *(folding.one_array(column) for column in table.columns)]
            yield pyarrow.RecordBatch.from_arrays(columns, names=["key", *schema.names])
