"""`calibrate_stream` is killed at random moments; each forecast is there once, and each label was learned once.

    PYSPARK_PYTHON=... python tests/spark_kills.py --kills 24                # some minutes
    python tests/spark_kills.py --master 'local-cluster[2,1,1500]'           # with executors of their own
    python tests/spark_kills.py --master standalone                          # a master and two workers, started here

A process runs the stream over files that come while it runs. At random moments one of its processes is ended by
SIGKILL: the driver's JVM, the driver's Python, an executor (in a cluster), a Python worker, or the daemon that forks
workers. What ended is started again, with another number of shuffle partitions. At the end the files that
`foreachBatch` wrote have to hold each impression once, with the probability to the last bit that one `LabelJoin` a key
says without any of this, and the checkpoint, by `audit`, each label learned once.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from streamcal import OnlinePlatt
from streamcal.live import LabelJoin
from streamcal.spark.joining import ANY_JUMP, Event, Learned, take

HORIZON = 1800.0
#: Seconds of event time in a file.
SPAN = 3600.0
SCHEMA = "key long, id long, score double, label double, micros long"
DRIVER, PYTHON, EXECUTOR, WORKER, DAEMON = "driver's JVM", "driver's Python", "executor", "Python worker", "daemon"
CLUSTER = "worker of a cluster"
#: Seconds that the processes of a stream may take to end after one of them was killed.
PATIENCE = 60.0


# -- the events --------------------------------------------------------------------------------------------------------


def files(impressions, keys, number, rng):
    """Tables of impressions, and of the clicks of a fifth of them, in the order of time; at last one that ends all."""
    size = impressions // number
    t = np.sort(rng.random(size * number)) * SPAN * number + 1.0
    key, score = rng.integers(0, keys, len(t)), rng.random(len(t))
    click = np.flatnonzero(rng.random(len(t)) < 0.4 * score)
    at = np.r_[t, t[click] + rng.random(len(click)) * HORIZON]
    missing = np.arange(len(at)) >= len(t)
    columns = {
        "key": np.r_[key, key[click]],
        "id": np.r_[np.arange(len(t)), click],
        "score": pa.array(np.r_[score, score[click]], mask=missing),
        "label": pa.array(np.ones(len(at)), mask=~missing),
        "micros": (at * 1e6).astype(np.int64),
    }
    table = pa.table(columns).take(pa.array(np.argsort(at, kind="stable")))
    part = np.minimum(table.column("micros").to_numpy() // int(SPAN * 1e6), number - 1)
    for one in range(number):
        yield table.filter(pa.array(part == one))
    ends = {"key": np.arange(keys), "id": -1 - np.arange(keys), "score": np.full(keys, 0.5)}
    late = np.full(keys, int(10 * SPAN * number * 1e6))
    yield pa.table({**ends, "label": pa.nulls(keys, pa.float64()), "micros": late})


def expected(tables):
    """What one join for each key says: forecasts by id, and for each key what was learned."""
    joins, labels, said = {}, defaultdict(list), {}
    for table in tables:
        by_key = defaultdict(list)
        for key, id, score, label, micros in zip(*table.to_pydict().values(), strict=True):
            by_key[key].append(Event(id, score, label, micros / 1e6))
        for key, events in by_key.items():
            if key not in joins:
                joins[key] = new_join()
                joins[key]._on_learned = lambda one, y, key=key: labels[key].append((one.id, y))
            said.update((one.id, one.p) for one in take(joins[key], events))
    return said, {key: Learned().with_ids(labels[key]) for key in joins}


def new_join():
    return LabelJoin(OnlinePlatt(), horizon=HORIZON, late=0.0, max_held=100_000, max_jump=ANY_JUMP)


# -- a cluster on this machine -----------------------------------------------------------------------------------------


class Standalone:
    """A standalone master of Spark and two workers with a core each, on the loopback interface."""

    def __init__(self, folder):
        import pyspark

        self.home = Path(pyspark.__file__).parent
        self.folder, self.address = folder, f"spark://127.0.0.1:{free_port()}"
        host, port = "127.0.0.1", self.address.rpartition(":")[2]
        self.processes = [self.started("master.Master", "--host", host, "--port", port, "--webui-port", "0")]
        for _ in range(2):
            own = ("--host", host, "--cores", "1", "--memory", "1500m", "--webui-port", "0")
            self.processes.append(self.started("worker.Worker", *own, "-d", str(folder / "work"), self.address))

    def started(self, what, *arguments):
        environment = {
            **os.environ,
            "SPARK_HOME": str(self.home),
            "SPARK_NO_DAEMONIZE": "1",
            "SPARK_DAEMON_MEMORY": "256m",
        }
        command = [str(self.home / "bin" / "spark-class"), f"org.apache.spark.deploy.{what}", *arguments]
        with open(self.folder / "log", "ab") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def stop(self):
        for one in self.processes:
            one.terminate()
            one.wait()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


# -- the process that is killed ----------------------------------------------------------------------------------------


def session(master, partitions):
    from pyspark.sql import SparkSession

    from streamcal.spark.streams import ROCKSDB, STORE

    settings = {
        "spark.driver.memory": "1g",
        "spark.executor.memory": "1g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.task.maxFailures": "8",
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        STORE: ROCKSDB,
    }
    builder = SparkSession.builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def stream(folder, master, partitions, last):
    """Run the stream; to the end of what is there if this is the last time."""
    from pyspark.sql import functions as F

    from streamcal.spark import calibrate_stream

    spark = session(master, partitions)
    df = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))
    told = calibrate_stream(
        df.withColumn("at", F.timestamp_micros("micros")),
        key="key",
        id="id",
        score="score",
        label="label",
        event_time="at",
        horizon=HORIZON,
        late=0.0,
        calibrator=OnlinePlatt(),
    )

    def save(batch, number):
        batch.write.mode("overwrite").parquet(str(folder / "out" / f"batch={number}"))

    query = told.writeStream.foreachBatch(save).option("checkpointLocation", str(folder / "checkpoint"))
    query = query.trigger(availableNow=True) if last else query
    query.start().awaitTermination()


def audited(folder, master):
    """Write what the checkpoint says that was learned."""
    from streamcal.spark import audit

    rows = audit(session(master, 2), str(folder / "checkpoint")).drop("state").collect()
    parquet.write_table(pa.Table.from_pylist([row.asDict() for row in rows]), folder / "audit.parquet")


def started(folder, what, *arguments):
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYSPARK_PYTHON": sys.executable}
    environment["PYTHONPATH"] = str(Path(__file__).parents[1])
    command = [sys.executable, __file__, "--folder", str(folder), "--do", what, *map(str, arguments)]
    with open(folder / "log", "ab") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)


# -- killing -----------------------------------------------------------------------------------------------------------


def processes(root, *workers):
    """What descends from a process, and from the workers of a cluster: kind → process ids."""
    children, commands = defaultdict(list), {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
            commands[int(name)] = Path("/proc", name, "cmdline").read_bytes().decode()
        except OSError:  # it has ended meanwhile
            continue
        if fields[0] != "Z":
            children[int(fields[1])].append(int(name))
    found, todo = defaultdict(list), [(root, PYTHON), *((one, CLUSTER) for one in workers)]
    while todo:
        one, kind = todo.pop()
        if one in commands:
            found[kind].append(one)
            todo += [(child, kind_of(commands.get(child, ""), kind)) for child in children[one]]
    return found


def own(found):
    """The processes that a stream has started: not the workers of a cluster."""
    return [one for kind, some in found.items() for one in some if kind != CLUSTER]


def kind_of(command, parent):
    if "pyspark.daemon" in command:
        return WORKER if parent == DAEMON else DAEMON
    if "CoarseGrainedExecutorBackend" in command:
        return EXECUTOR
    return DRIVER if "SparkSubmit" in command else "other"


def end(process, known):
    """Wait until a process and its descendants have ended; kill those of them that take too long."""
    begun = time.monotonic()
    while process.poll() is None or any(Path("/proc", str(one)).exists() for one in known):
        if time.monotonic() > begun + PATIENCE:
            process.kill()
            for one in known:
                kill(one)
        time.sleep(0.2)


def kill(one):
    try:
        os.kill(one, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True


class Killed:
    """A stream that is killed, and started again where that ended it."""

    def __init__(self, folder, master, workers, rng):
        self.folder, self.master, self.workers, self.rng = folder, master, workers, rng
        self.done, self.starts = Counter(), 0
        self.kinds = [WORKER, DAEMON] * 3 + [DRIVER, PYTHON] + [EXECUTOR] * 3 * (not master.startswith("local["))
        self.start()

    def start(self):
        self.starts += 1
        self.process = started(self.folder, "stream", "--master", self.master, "--partitions", 2 + self.starts % 4)

    def kill_one(self):
        """Kill something that runs, after a random time in which there is work."""
        kind = self.rng.choice(self.kinds)
        time.sleep(self.rng.random() * 8.0)
        latest = time.monotonic() + PATIENCE
        while True:
            if time.monotonic() > latest:
                return  # all files are done, and the daemon was the last that was killed
            if self.process.poll() is not None:  # its tasks failed too often, as without kills they never do
                self.start()
            found = processes(self.process.pid, *self.workers)
            if found[kind] and found[DAEMON]:  # there is work
                break
            time.sleep(0.02)
        if not kill(self.rng.choice(found[kind])):
            return
        self.done[kind] += 1
        if kind in (DRIVER, PYTHON):
            end(self.process, own(found))
            self.start()

    def finish(self):
        """Stop it, and run it to the end."""
        known = own(processes(self.process.pid, *self.workers))
        self.process.kill()
        end(self.process, known)
        process = started(self.folder, "stream", "--master", self.master, "--partitions", 7, "--last", 1)
        assert process.wait(3600.0) == 0, f"see {self.folder / 'log'}"


# -- the whole ---------------------------------------------------------------------------------------------------------


def run(folder, given, master, workers):
    """Kill a stream so many times, and say what was found at its end."""
    rng = random.Random(given.seed)
    made = [*files(given.impressions, given.keys, 2 * given.kills, np.random.default_rng(given.seed))]
    for name in ("in", "new"):
        (folder / name).mkdir()
    killed = Killed(folder, master, workers, rng)
    begun = time.time()
    for part, table in enumerate(made):
        new = folder / "new" / f"{part}.parquet"
        parquet.write_table(table, new)
        os.utime(new, (begun + part, begun + part))  # the order in which Spark takes them
        new.rename(folder / "in" / new.name)
        if sum(killed.done.values()) < given.kills:
            killed.kill_one()
            print(f"{sum(killed.done.values())} kills, {killed.starts} starts", file=sys.stderr, flush=True)
    killed.finish()
    assert started(folder, "audit", "--master", "local[2]").wait(3600.0) == 0, f"see {folder / 'log'}"
    said, learned = expected(made)
    check(folder, said, learned)
    return (
        killed,
        len(said),
        sum(len(table) for table in made) - len(said),
        sum(one.learned for one in learned.values()),
    )


def check(folder, said, learned):
    written = pa.concat_tables(parquet.read_table(one) for one in sorted((folder / "out").glob("batch=*/*.parquet")))
    assert written.column("error").null_count == len(written), "an event was refused"
    ids = Counter(written.column("id").to_pylist())
    assert max(ids.values()) == 1, "a forecast was written twice"
    assert dict(zip(written.column("id").to_pylist(), written.column("calibrated").to_pylist(), strict=True)) == said
    found = {row["key"]: row for row in parquet.read_table(folder / "audit.parquet").to_pylist()}
    assert found.keys() == learned.keys()
    for key, wanted in learned.items():
        assert tuple(found[key][name] for name in Learned._fields) == wanted, f"key {key}: {found[key]}, not {wanted}"
        assert found[key]["waiting"] == 1, "only the impression that ends the stream waits"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=24)
    parser.add_argument("--impressions", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=300)
    parser.add_argument("--master", default="local[2,8]", help="of Spark, or standalone; a task may fail eight times")
    parser.add_argument("--seed", type=int, default=1)
    for name, kind in (("folder", Path), ("do", str), ("partitions", int), ("last", int)):
        parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.do == "stream":
        stream(given.folder, given.master, given.partitions, bool(given.last))
    elif given.do == "audit":
        audited(given.folder, given.master)
    else:
        with tempfile.TemporaryDirectory() as place:
            begun = time.perf_counter()
            cluster = Standalone(Path(place)) if given.master == "standalone" else None
            try:
                workers = [] if cluster is None else [one.pid for one in cluster.processes[1:]]
                killed, issued, clicks, labels = run(
                    Path(place), given, given.master if cluster is None else cluster.address, workers
                )
            finally:
                if cluster is not None:
                    cluster.stop()
            kinds = ", ".join(f"{number} {kind}" for kind, number in killed.done.items())
            print(
                f"{given.master}: {sum(killed.done.values())} kills ({kinds}), {killed.starts} starts; {issued:,} "
                f"impressions, {clicks:,} clicks, {labels:,} labels learned: none lost, none twice; "
                f"{time.perf_counter() - begun:.0f} s"
            )


if __name__ == "__main__":
    main()
