"""Rows per second that `streamcal.spark` learns, beside other ways of making the same statistic; events per second.

    PYSPARK_PYTHON=... python -m benchmarks.spark                       # 10⁷ rows; some minutes
    python -m benchmarks.spark --rows 1000000 --events 200000 600000 --repeats 2
    python -m benchmarks.spark --workers                                # one worker of a cluster, and two

Needs PySpark and Java; Polars and DuckDB where they are installed. The rows are in eight Parquet files. What is made
is, for each of 300 keys, the weights and labels in 4,096 cells of the score: by `fit` with `Isotonic(resolution=4096)`,
by the same folding in two processes without an engine, and by GROUP BY in Polars and DuckDB on two threads, which keep
no coordinates in their cells and merge nothing. Times are the least of the repeats, starting the JVM and the processes
left out. Of the stream, batches with so many impressions, the best of six is told, and the processor time of the JVM
and the workers in it, which other programs on the machine change less than the seconds. Every size is measured with the
settings that Spark begins with and four partitions, and with those of `SMALL`, in turn.

With `--workers` a standalone master and two workers with a core each are started; `fit` and the stream use one of them,
and then both, on the same rows. The driver and the master run beside them, on the cores that are there.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from streamcal import Isotonic, OnlinePlatt
from streamcal.spark import folding

KEYS, FILES, CELLS = 300, 8, 4096
#: Settings for a stream whose checkpoint is on a local disk, on two cores (docs/spark_measured.md says what each does).
STORES = "spark.sql.streaming.stateStore.rocksdb"
FILES_OF = "org.apache.spark.sql.execution.streaming.checkpointing"
SMALL = {
    "spark.sql.shuffle.partitions": "2",
    f"{STORES}.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.checkpointFileManagerClass": f"{FILES_OF}.FileSystemBasedCheckpointFileManager",
}
NAMES = {"score": "score", "label": "label", "key": "key"}


def write(folder: Path, rows: int) -> list[str]:
    """Parquet files with so many rows in all."""
    rng = np.random.default_rng(0)
    paths = []
    for part in range(FILES):
        size = rows // FILES
        score = rng.random(size)
        columns = {"key": rng.integers(0, KEYS, size), "score": score, "label": rng.random(size) < score}
        paths.append(str(folder / f"{part}.parquet"))
        parquet.write_table(pa.table(columns), paths[-1])
    return paths


def folded(path: str) -> list[Any]:
    """Return the states folded from one file, for `alone`."""
    table = parquet.read_table(path, columns=["key", "score", "label"])
    labels = table.column("label").cast(pa.int8()).cast(pa.float64())
    batches = table.set_column(2, "label", labels).to_batches()
    return [*folding.fold(batches, Isotonic(resolution=CELLS), NAMES)]


def alone(paths: list[str], pool: Any) -> int:
    """Two processes and pyarrow."""
    partial_states = pa.Table.from_batches(chain.from_iterable(pool.map(folded, paths, chunksize=1)))
    merged = folding.merge(partial_states.sort_by("key").to_batches(), Isotonic.from_bytes)
    return sum(batch.num_rows for batch in merged)


def on_spark(paths: list[str], spark: Any) -> int:
    """`fit`, the states collected."""
    from streamcal.spark import fit

    df = spark.read.parquet(*paths)
    return len(fit(df, score="score", label="label", key="key", calibrator=Isotonic(resolution=CELLS)).collect())


def by_polars(paths: list[str]) -> int:
    """GROUP BY in Polars."""
    import polars as pl

    cell = (pl.col("score") * CELLS).cast(pl.Int32).alias("cell")
    cells = pl.scan_parquet(paths).group_by("key", cell).agg(pl.len().alias("n"), pl.col("label").sum().alias("ones"))
    return int(cells.collect(engine="streaming")["key"].n_unique())


def by_duckdb(paths: list[str]) -> int:
    """GROUP BY in DuckDB."""
    import duckdb

    cells = (
        f"SELECT key, CAST(floor(score * {CELLS}) AS INTEGER) AS cell, count(*) AS n, "
        f"sum(CAST(label AS INTEGER)) AS ones FROM read_parquet({paths!r}) GROUP BY ALL"
    )
    with duckdb.connect(config={"threads": 2}) as connection:
        found = connection.execute(f"SELECT count(DISTINCT key) FROM (SELECT * FROM ({cells}))").fetchone()
    assert found is not None
    return int(found[0])


def session(memory: str, master: str = "local[2]", **others: str) -> Any:
    """Two threads of this machine, or a cluster."""
    from pyspark.sql import SparkSession

    from streamcal.spark.streams import ROCKSDB, STORE

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(master).config("spark.driver.memory", memory)
    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", STORE: ROCKSDB}
    settings["spark.sql.shuffle.partitions"] = "4"
    for name, value in {**settings, **others}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def processor_time() -> float:
    """Seconds of processor time of this process and its descendants: the JVM, and the workers that it started."""
    times, children = {}, defaultdict(list)
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        children[int(fields[1])].append(int(name))
        times[int(name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    spent, todo = 0.0, [os.getpid()]
    while todo:
        one = todo.pop()
        spent += times.get(one, 0.0)
        todo += children[one]
    return spent


def stream(spark: Any, folder: Path, events: int, batches: int) -> tuple[float, float]:
    """Events per second of `calibrate_stream`, and seconds of processor time an event.

    Impressions, and clicks of a tenth of them, in batches of a file; the best batch, and the least time.
    """
    from pyspark.sql import functions as F

    from streamcal.spark import calibrate_stream

    source = folder / "events"
    source.mkdir(parents=True)
    rng = np.random.default_rng(1)
    for part in range(batches):
        t = part * 3600.0 + np.sort(rng.random(events)) * 3600.0
        key, ids = rng.integers(0, KEYS, events), np.arange(events) + part * events
        click = rng.random(events) < 0.1
        columns = {
            "key": np.r_[key, key[click]],
            "id": np.r_[ids, ids[click]],
            "score": pa.array(
                np.r_[rng.random(events), np.zeros(click.sum())], mask=np.arange(events + click.sum()) >= events
            ),
            "label": pa.array(
                np.r_[np.zeros(events), np.ones(click.sum())], mask=np.arange(events + click.sum()) < events
            ),
            "t": np.r_[t, t[click] + 60.0],
        }
        parquet.write_table(pa.table(columns), source / f"{part}.parquet")
    df = spark.readStream.schema("key long, id long, score double, label double, t double")
    df = df.option("maxFilesPerTrigger", 1).parquet(str(source))
    df = df.withColumn("at", F.timestamp_micros((F.col("t") * 1e6).cast("long")))
    names = {"key": "key", "id": "id", "score": "score", "label": "label", "event_time": "at"}
    told = calibrate_stream(df, **names, horizon=1800.0, late=0.0, calibrator=OnlinePlatt())
    query = told.writeStream.format("noop").option("checkpointLocation", str(folder / "checkpoint"))
    before, processor = processor_time(), {}
    query = query.trigger(availableNow=True).start()
    while query.isActive:
        for one in query.recentProgress:
            if one["batchId"] not in processor:
                now = processor_time()
                processor[one["batchId"]], before = now - before, now
        time.sleep(0.05)
    query.awaitTermination()
    done = [one for one in query.recentProgress if one["numInputRows"]]
    rate = max(one["numInputRows"] / one["batchDuration"] * 1e3 for one in done)
    return rate, min(processor[one["batchId"]] / one["numInputRows"] for one in done if one["batchId"] in processor)


def with_settings(spark: Any, settings: dict[str, str], make: Callable[[], Any]) -> Any:
    """Call `make` under other settings, restore them, and return its result."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        return make()
    finally:
        for name, old in before.items():
            spark.conf.unset(name) if old is None else spark.conf.set(name, old)


def streams(spark: Any, folder: Path, sizes: list[int]) -> None:
    """Print a row for each size and each of the settings."""
    print("\n| impressions in a batch | settings | events a second | processor time an event | load |")
    print("|---:|---|---:|---:|---:|", flush=True)
    for events in sizes:
        for name, settings in {"Spark's own": {}, "`SMALL`": SMALL}.items():
            place = folder / f"{events} {len(settings)}"
            rate, spent = with_settings(spark, settings, partial(stream, spark, place, events, 6))
            load = os.getloadavg()[0]
            print(f"| {events:,} | {name} | {rate:,.0f} | {spent * 1e6:.1f} µs | {load:.1f} |", flush=True)


def workers(folder: Path, paths: list[str], rows: int, events: int, repeats: int) -> None:
    """Print what one worker of a cluster does, and two."""
    from tests.spark_kills import Standalone

    cluster = Standalone(folder)
    print("| workers | `fit`, million rows a second | stream, events a second | load |")
    print("|---:|---:|---:|---:|", flush=True)
    try:
        for count in (1, 2):
            here = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
            own = {"spark.executor.memory": "1g", "spark.executorEnv.PYTHONPATH": str(Path.cwd())}
            spark = session("1g", cluster.address, **{"spark.cores.max": str(count), **here, **own, **SMALL})
            seconds = least(partial(on_spark, paths, spark), repeats + 1)  # the first warms up
            rate, _ = stream(spark, folder / f"{count}", events, 6)
            load = os.getloadavg()[0]
            print(f"| {count} | {rows / seconds / 1e6:.2f} | {rate:,.0f} | {load:.1f} |", flush=True)
            spark.stop()
    finally:
        cluster.stop()


def least(make: Callable[[], int], repeats: int) -> float:
    """Seconds, the least of the repeats."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        keys = make()
        times.append(time.perf_counter() - begin)
        assert keys == KEYS, keys
    return min(times)


def main() -> None:
    """Run the measurements on Spark, and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000, help="0: the stream alone")
    parser.add_argument(
        "--events", type=int, nargs="*", default=[50_000, 200_000, 600_000], help="impressions in batches of the stream"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", action="store_true", help="one worker of a cluster and two, and nothing else")
    parser.add_argument("--memory", default="2g", help="of the JVM")
    given = parser.parse_args()
    os.environ["POLARS_MAX_THREADS"] = "2"
    with tempfile.TemporaryDirectory() as name, get_context("spawn").Pool(2) as pool:
        folder = Path(name)
        paths = write(folder, given.rows)
        if given.workers:
            workers(folder, paths, given.rows, given.events[0], given.repeats)
            return
        spark = session(given.memory)
        print(f"| {given.rows:,} rows, {KEYS} keys, two processes or threads | seconds | million rows a second |")
        print("|---|---:|---:|", flush=True)
        subjects: dict[str, Callable[[], int]] = {
            "`streamcal.spark.fit`": partial(on_spark, paths, spark),
            "pyarrow and `streamcal`, without an engine": partial(alone, paths, pool),
            "Polars, cells alone": partial(by_polars, paths),
            "DuckDB, cells alone": partial(by_duckdb, paths),
        }
        for subject, make in subjects.items() if given.rows else ():
            try:
                seconds = least(make, given.repeats)
            except ModuleNotFoundError as error:
                print(f"| {subject} | {error.name} is not installed | |", flush=True)
                continue
            print(f"| {subject} | {seconds:.2f} | {given.rows / seconds / 1e6:.2f} |", flush=True)
        streams(spark, folder, given.events)
        spark.stop()


if __name__ == "__main__":
    main()
