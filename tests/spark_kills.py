"""Streams are killed at random moments; each forecast is there once, and each label was learned once.

    PYSPARK_PYTHON=... python tests/spark_kills.py --kills 24                # some minutes
    python tests/spark_kills.py --master 'local-cluster[2,1,1500]'           # with executors of their own
    python tests/spark_kills.py --master standalone                          # a master and two workers, started here
    python tests/spark_kills.py --subject segments --kills 10                # SegmentStream, not calibrate_stream

A process runs the stream over files that come while it runs. At random moments one of its processes is ended by
SIGKILL: the driver's JVM, the driver's Python, an executor (in a cluster), a Python worker, or the daemon that forks
workers. What ended is started again, with another number of shuffle partitions. At the end the files that
`foreachBatch` wrote have to hold each impression once, with the probability to the last bit that one `LabelJoin` a key
says without any of this, and the checkpoint, by `audit`, each label learned once. Of `SegmentStream`, whose batches are
the files, the forecasts and the last state have to be those of one process, to the last bit, which they are not where a
label was learned twice or not at all; its two folders of states have to have the last batch and the one before it.
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
from streamcal.live import LabelJoin, Segmented
from streamcal.spark.joining import ANY_JUMP, Event, Learned, take

HORIZON = 1800.0
#: Seconds of event time in a file.
SPAN = 3600.0
SCHEMA = "key long, id long, score double, label double, micros long"
LEVELS = ("advertiser", "place")
SEGMENTS_SCHEMA = "id long, score double, label double, t double, advertiser long, place long"
DRIVER, PYTHON, EXECUTOR, WORKER, DAEMON = "driver's JVM", "driver's Python", "executor", "Python worker", "daemon"
CLUSTER = "worker of a cluster"
#: Other settings of Spark, `name=value`, of this process and those that it starts.
OTHERS: list[str] = []
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


def labelled(rows, advertisers, number, rng):
    """Tables of rows with levels, nine in ten with a label; the times of a table in any order."""
    size = rows // number
    for part in range(number):
        advertiser, place, score = rng.integers(0, advertisers, size), rng.integers(0, 5, size), rng.random(size)
        label = rng.random(size) < score ** (1.0 + advertiser % 3)
        columns = {
            "id": np.arange(size) + part * size,
            "score": score,
            "label": pa.array(label.astype(np.float64), mask=rng.random(size) < 0.1),
            "t": part * SPAN + rng.permutation(size) * (SPAN / size),
        }
        yield pa.table({**columns, "advertiser": advertiser, "place": place})


def expected(tables):
    """Return what one join for each key gives: forecasts by id, and for each key what was learned."""
    joins, labels, said = {}, defaultdict(list), {}
    for table in tables:
        by_key = defaultdict(list)
        for key, id, score, label, micros in zip(*table.to_pydict().values(), strict=True):
            by_key[key].append(Event(id, score, label, micros / 1e6))
        for key, events in by_key.items():
            if key not in joins:
                joins[key] = new_join()
                joins[key].on_learned = lambda one, y, key=key: labels[key].append((one.id, y))
            said.update((one.id, one.p) for one in take(joins[key], events))
    return said, {key: Learned().with_ids(labels[key]) for key in joins}


def expected_of_segments(tables):
    """Return what one `Segmented` gives that learns after each table: forecasts by id, and the last state."""
    said, cal = {}, new_segmented()
    for table in tables:
        scores, keys = columns_of(table)
        said.update(zip(table.column("id").to_pylist(), cal.predict_many(scores, keys=keys), strict=True))
        known = table.filter(table.column("label").is_valid()).sort_by("t")
        scores, keys = columns_of(known)
        cal.learn_many(scores, known.column("label").to_numpy(), None, known.column("t").to_numpy(), keys=keys)
    return said, cal.to_bytes()


def columns_of(table):
    """Scores, and levels by field."""
    return table.column("score").to_numpy(), {name: table.column(name).to_pylist() for name in LEVELS}


def new_segmented():
    return Segmented(OnlinePlatt(), by=[LEVELS[0], LEVELS])


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
        **dict(one.split("=", 1) for one in OTHERS),
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


def segments(folder, master, partitions, last):
    """As `stream`, with `SegmentStream`."""
    from streamcal.spark import SegmentStream

    spark = session(master, partitions)
    df = spark.readStream.schema(SEGMENTS_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder / "in"))

    def save(batch, number):
        batch.select("id", "calibrated").write.mode("overwrite").parquet(str(folder / "out" / f"batch={number}"))

    columns = {"score": "score", "label": "label", "time": "t"}
    learn = SegmentStream(str(folder / "states"), new_segmented(), **columns, forecasts=save)
    query = df.repartition(2).writeStream.foreachBatch(learn).option("checkpointLocation", str(folder / "checkpoint"))
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
    command += [f"--set={one}" for one in OTHERS]
    with open(folder / "log", "ab") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)


# -- killing -----------------------------------------------------------------------------------------------------------


def processes(root, workers=(), daemons=()):
    """Return the descendants of a process, and of the workers of a cluster: process ids by kind.

    Python workers outlive a daemon that was killed, and are used again: they are still in its process group.
    """
    children, groups, commands = defaultdict(list), defaultdict(list), {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
            commands[int(name)] = Path("/proc", name, "cmdline").read_bytes().decode()
        except OSError:  # it has ended meanwhile
            continue
        if fields[0] != "Z":
            children[int(fields[1])].append(int(name))
            groups[int(fields[2])].append(int(name))
    found, todo = defaultdict(list), [(root, PYTHON), *((one, CLUSTER) for one in workers)]
    todo += [(one, WORKER) for daemon in daemons for one in groups[daemon] if one != daemon]
    while todo:
        one, kind = todo.pop()
        if one in commands:
            found[kind].append(one)
            todo += [(child, kind_of(commands.get(child, ""), kind)) for child in children[one]]
    return found


def own(found):
    """Return the processes that a stream has started, without the workers of a cluster."""
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

    def __init__(self, folder, subject, master, workers, rng):
        self.folder, self.subject, self.master, self.workers, self.rng = folder, subject, master, workers, rng
        self.done, self.starts = Counter(), 0
        self.daemons = []  # those that were killed
        self.kinds = [WORKER, DAEMON] * 3 + [DRIVER, PYTHON] + [EXECUTOR] * 3 * (not master.startswith("local["))
        self.start()

    def start(self):
        self.starts += 1
        self.process = started(self.folder, self.subject, "--master", self.master, "--partitions", 2 + self.starts % 4)

    def found(self):
        return processes(self.process.pid, self.workers, self.daemons)

    def kill_one(self):
        """Kill something that runs, after a random time in which there is work."""
        time.sleep(self.rng.random() * 8.0)
        latest = time.monotonic() + PATIENCE
        while True:
            if time.monotonic() > latest:
                return  # all files are done
            if self.process.poll() is not None:  # its tasks failed too often, as without kills they never do
                self.start()
            found = self.found()
            kinds = [kind for kind in self.kinds if found[kind]]
            if found[DAEMON] or found[WORKER]:  # there is work
                break
            time.sleep(0.02)
        kind = self.rng.choice(kinds)
        one = self.rng.choice(found[kind])
        if not kill(one):
            return
        self.done[kind] += 1
        if kind == DAEMON:
            self.daemons.append(one)
        if kind in (DRIVER, PYTHON):
            end(self.process, own(found))
            self.start()

    def said(self):
        """Describe what was killed."""
        kinds = ", ".join(f"{number} {kind}" for kind, number in self.done.items())
        return f"{sum(self.done.values())} kills ({kinds}), {self.starts} starts"

    def finish(self):
        """Stop it, and run it to the end."""
        known = own(self.found())
        self.process.kill()
        end(self.process, known)
        process = started(self.folder, self.subject, "--master", self.master, "--partitions", 7, "--last", 1)
        assert process.wait(3600.0) == 0, f"see {self.folder / 'log'}"


# -- the whole ---------------------------------------------------------------------------------------------------------


def run(folder, given, master, workers):
    """Kill a stream so many times, check what it wrote, and say what was found."""
    make = labelled if given.subject == "segments" else files
    made = [*make(given.impressions, given.keys, 2 * given.kills, np.random.default_rng(given.seed))]
    for name in ("in", "new"):
        (folder / name).mkdir()
    killed = Killed(folder, given.subject, master, workers, random.Random(given.seed))
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
    found = check_segments(folder, made) if given.subject == "segments" else check_stream(folder, made)
    return f"{killed.said()}; {found}: none lost, none twice"


def check_stream(folder, made):
    assert started(folder, "audit", "--master", "local[2]").wait(3600.0) == 0, f"see {folder / 'log'}"
    said, learned = expected(made)
    assert check_forecasts(folder, said).column("error").null_count == len(said), "an event was refused"
    check_audit(folder, learned)
    clicks, labels = sum(map(len, made)) - len(said), sum(one.learned for one in learned.values())
    return f"{len(said):,} impressions, {clicks:,} clicks, {labels:,} labels learned"


def check_segments(folder, made):
    said, state = expected_of_segments(made)
    check_forecasts(folder, said)
    slots = [parquet.read_table(one).to_pylist() for one in sorted((folder / "states").glob("slot=*/*.parquet"))]
    kept = {row["batch"]: row["state"] for rows in slots for row in rows}
    last = len(made) - 1
    assert kept.keys() == {last - 1, last}, f"states after the batches {sorted(kept)}, not {last - 1} and {last}"
    assert kept[last] == state, "the state is another one"
    labels = sum(len(table) - table.column("label").null_count for table in made)
    return f"{len(said):,} rows, {labels:,} labels learned, {Segmented.from_bytes(state).n:,.0f} in the state"


def check_forecasts(folder, said):
    """Each is there once, and the same to the last bit."""
    written = pa.concat_tables(parquet.read_table(one) for one in sorted((folder / "out").glob("batch=*/*.parquet")))
    ids = Counter(written.column("id").to_pylist())
    assert max(ids.values()) == 1, "a forecast was written twice"
    assert dict(zip(written.column("id").to_pylist(), written.column("calibrated").to_pylist(), strict=True)) == said
    return written


def check_audit(folder, learned):
    found = {row["key"]: row for row in parquet.read_table(folder / "audit.parquet").to_pylist()}
    assert found.keys() == learned.keys()
    for key, wanted in learned.items():
        assert tuple(found[key][name] for name in Learned._fields) == wanted, f"key {key}: {found[key]}, not {wanted}"
        assert found[key]["waiting"] == 1, "only the impression that ends the stream waits"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--subject", choices=["stream", "segments"], default="stream")
    parser.add_argument("--kills", type=int, default=24)
    parser.add_argument("--impressions", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=300, help="of segments: advertisers")
    parser.add_argument("--master", default="local[2,8]", help="of Spark, or standalone; a task may fail eight times")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="a setting of Spark")
    for name, kind in (("folder", Path), ("do", str), ("partitions", int), ("last", int)):
        parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    given = parser.parse_args()
    OTHERS.extend(given.set)
    if given.do in ("stream", "segments"):
        subject = stream if given.do == "stream" else segments
        subject(given.folder, given.master, given.partitions, bool(given.last))
    elif given.do == "audit":
        audited(given.folder, given.master)
    else:
        with tempfile.TemporaryDirectory() as place:
            begun = time.perf_counter()
            cluster = Standalone(Path(place)) if given.master == "standalone" else None
            try:
                workers = [] if cluster is None else [one.pid for one in cluster.processes[1:]]
                said = run(Path(place), given, given.master if cluster is None else cluster.address, workers)
            finally:
                if cluster is not None:
                    cluster.stop()
            print(f"{given.master}: {said}; {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
