"""`calibrate_stream`: events of micro-batches, the processor without a JVM, and a stream on Spark."""

import math
import random
import shutil

import pytest
import spark_session

from streamcal import OnlinePlatt, Platt
from streamcal.errors import InputError
from streamcal.live import LabelJoin
from streamcal.spark.joining import ANY_JUMP, Event, take

HORIZON = 3600.0


def events(number, seed=0, every=60.0):
    """Impressions a minute apart, and clicks of a third of them some minutes later, in the order of time."""
    draws = random.Random(seed)
    found = []
    for i in range(number):
        t = (i + 1) * every  # what is not after the watermark, 0, is late
        found.append(Event(f"i{i}", draws.random(), None, t))
        if draws.random() < 0.3:
            found.append(Event(f"i{i}", None, 1.0, t + draws.uniform(1.0, HORIZON)))
    return sorted(found, key=lambda one: (one.t, one.score is None))


def new_join(calibrator=None):
    return LabelJoin(calibrator or OnlinePlatt(), horizon=HORIZON, max_jump=ANY_JUMP)


def straight(given, calibrator=None):
    """What a join says that is given one event after the other, and the join."""
    join, said = new_join(calibrator), {}
    for one in given:
        if one.score is not None:
            said[one.id] = join.issue(one.id, one.score, one.t).p
        if one.label is not None:
            join.resolve(one.id, one.label, one.t)
    return said, join


def batches(given, size, seed=1):
    """Micro-batches, each shuffled."""
    draws = random.Random(seed)
    for begin in range(0, len(given), size):
        yield draws.sample(part := given[begin : begin + size], len(part))


def test_shuffled_batches_are_one_stream():
    given = events(300)
    said, expected = straight(given)
    join, found = new_join(), {}
    for batch in batches(given, 50):
        join = LabelJoin.from_bytes(join.to_bytes())
        found |= {one.id: one.p for one in take(join, [*batch, batch[0]])}  # with a duplicate
    assert found == said
    join.advance(1e6)
    expected.advance(1e6)
    assert join.calibrator.to_bytes() == expected.calibrator.to_bytes()
    assert join.tally()["learned"] == 300


def test_a_duplicate_gives_no_row_and_a_bad_event_says_why():
    join = new_join()
    given = [
        Event("a", 0.5, None, 1.0),
        Event("a", 0.5, None, 2.0),
        Event("a", 0.6, None, 3.0),
        Event("b", 1.5, None, 4.0),
        Event("c", math.nan, None, 5.0),
        Event("d", 0.5, 2.0, 6.0),
        Event("e", None, None, 7.0),
        Event("f", 0.5, 1.0, 8.0),
        Event("unknown", None, 1.0, 9.0),
        Event("g", 0.5, None, math.nan),
        Event(None, 0.5, None, 10.0),
    ]
    rows = [*take(join, given)]
    assert [one.id for one in rows if one.error is None] == ["a", "d", "f"]
    refused = {one.id: one.error for one in rows if one.error is not None}
    assert set(refused) == {"a", "b", "c", "d", "e", "g", None}
    assert "time nan is not finite" in refused["g"]
    assert "id None is not possible" in refused[None]
    assert "was issued with the score 0.5" in refused["a"]
    assert "not a probability" in refused["b"]
    assert "not finite" in refused["c"]
    assert "not binary" in refused["d"]
    assert "neither" in refused["e"]
    assert join.tally()["issued"] == 3
    assert join.set_aside == 1


def test_due_says_when_something_happens_next():
    join = LabelJoin(OnlinePlatt(), horizon=100.0, late=50.0)
    assert join.due == math.inf
    join.issue("a", 0.5, 7.0)
    assert join.due == 107.0
    join.advance(107.0)
    assert join.tally()["learned"] == 1
    assert join.due == 157.0
    join.advance(157.0)
    assert join.due == math.inf
    assert join.held == 0
    early = LabelJoin(OnlinePlatt(), horizon=100.0, early=10.0)
    early.issue("a", 0.5, 0.0)
    early.resolve("a", True, 1.0)
    while (due := early.due) < math.inf:
        early.advance(due)
        assert early.due > due, "what is due happens"
    assert early.held == 0


# -- the processor, without a JVM --------------------------------------------------------------------------------------


@pytest.fixture
def tester():
    """Makes the tester of PySpark 4.2 with a processor."""
    spark_session.needed(java=False)
    tws = pytest.importorskip("pyspark.sql.streaming.tws_tester", reason="TwsTester came with PySpark 4.2")
    from streamcal.spark.streams import Joins

    def made(calibrator=None, initial=None):
        processor = Joins(calibrator or OnlinePlatt(), {"horizon": HORIZON, "max_jump": ANY_JUMP})
        return tws.TwsTester(
            processor, initialStateRow=initial, timeMode="EventTime", eventTimeExtractor=lambda row: row.micros / 1e3
        )

    return made


def as_rows(given):
    from pyspark.sql import Row

    return [Row(id=one.id, score=one.score, label=one.label, micros=round(one.t * 1e6)) for one in given]


def at_microseconds(given):
    return [one._replace(t=round(one.t * 1e6) / 1e6) for one in given]


def held(tester, key):
    return LabelJoin.from_bytes(tester.peekValueState("join", key)[0])


def test_the_processor_keeps_a_join_for_each_key(tester):
    made = tester()
    found = {"a": {}, "b": {}}
    given = {key: at_microseconds(events(200, seed)) for seed, key in enumerate(found)}
    for key, stream in given.items():
        for batch in batches(stream, 40):
            for row in made.test(key, as_rows(batch)):
                assert (row["key"], row["error"]) == (key, None)
                found[key][row["id"]] = row["calibrated"]
    for key, stream in given.items():
        said, expected = straight(stream)
        assert found[key] == said
        assert held(made, key).to_bytes() == expected.to_bytes()


def test_labels_are_learned_by_a_timer_where_traffic_has_stopped(tester):
    made = tester()
    made.test(
        "a", as_rows([Event("x", 0.5, None, 1000.0), Event("y", 0.5, None, 2000.0), Event("x", None, 1.0, 1010.0)])
    )
    assert held(made, "a").tally()["learned"] == 0
    for watermark, learned, kept in ((4599, 0, 2), (4600, 1, 2), (5600, 2, 2), (8200, 2, 1), (9200, 2, 0)):
        made.setWatermark(watermark * 1000)
        join = held(made, "a")
        assert (join.tally()["learned"], join.held) == (learned, kept)
    assert list(made.handle._timers.getAllKeysWithTimers()) == []
    assert held(made, "a").tally()["positives"] == 1


def test_an_event_without_a_time_is_refused(tester):
    from pyspark.sql import Row

    processor = tester().processor
    found = [*processor.handleInputRows(("a",), iter([Row(id="x", score=0.5, label=None, micros=None)]), None)]
    assert (found[0]["micros"], found[0]["calibrated"]) == (None, None)
    assert "time nan" in found[0]["error"]


def test_a_key_begins_with_the_calibrator_of_a_backfill(tester):
    from pyspark.sql import Row

    learned = OnlinePlatt()
    learned.learn_many([0.1, 0.8, 0.5] * 30, [0, 1, 1] * 30)
    made = tester(initial=[("a", Row(state=bytearray(learned.to_bytes())))])
    first = made.test("a", as_rows([Event("x", 0.3, None, 1.0)]))
    assert first[0]["calibrated"] == learned.predict_one(0.3)
    assert made.test("b", as_rows([Event("x", 0.3, None, 1.0)]))[0]["calibrated"] == OnlinePlatt().predict_one(0.3)
    with pytest.raises(InputError, match="the stream has OnlinePlatt"):
        tester(initial=[("a", Row(state=Platt().to_bytes()))])


# -- on Spark ----------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_a_stream_that_is_stopped_goes_on_where_it_was(tmp_path):
    spark_session.needed()
    from pyspark.sql import functions as F

    from streamcal.spark import calibrate_stream, fit, states
    from streamcal.spark.streams import ROCKSDB, STORE

    spark = spark_session.session()
    source, out = tmp_path / "in", tmp_path / "out"
    given = {key: at_microseconds(events(120, seed)) for seed, key in enumerate("abc")}
    merged = sorted(((key, *one) for key in given for one in given[key]), key=lambda row: (row[4], row[2] is None))
    schema = "key string, id string, score double, label int, t double"

    def arrive(part, rows):
        written = [(key, id, score, None if label is None else int(label), t) for key, id, score, label, t in rows]
        spark.createDataFrame(written, schema).coalesce(1).write.parquet(str(tmp_path / "new"))
        source.mkdir(exist_ok=True)
        (tmp_path / "new").rename(tmp_path / f"new{part}")
        for file in (tmp_path / f"new{part}").glob("*.parquet"):
            shutil.move(file, source / f"{part}.parquet")

    def save(batch, number):
        """The same files when a batch is run again."""
        batch.write.mode("overwrite").parquet(f"{out}/batch={number}")

    past = [("c", 0.1 * (i % 10), i % 3 == 0, i) for i in range(60)]
    initial = fit(
        spark.createDataFrame(past, "key string, score double, label boolean, t int"),
        score="score",
        label="label",
        time="t",
        key="key",
        calibrator=OnlinePlatt(),
    )
    seeded = states(initial)

    def run():
        df = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(source))
        df = df.withColumn("at", F.timestamp_micros(F.round(F.col("t") * 1e6).cast("long")))
        told = calibrate_stream(
            df,
            key="key",
            id="id",
            score="score",
            label="label",
            event_time="at",
            horizon=HORIZON,
            calibrator=OnlinePlatt(),
            initial=initial,
        )
        query = told.writeStream.foreachBatch(save).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()

    try:
        arrive(0, merged[:200])
        with pytest.raises(InputError, match="RocksDB"):
            run()
        spark.conf.set(STORE, ROCKSDB)
        run()
        arrive(1, merged[200:])
        run()  # another query, from the checkpoint
        rows = spark.read.parquet(str(out)).collect()
        assert {row["error"] for row in rows} == {None}
        for key, stream in given.items():
            said, _ = straight(stream, seeded.get(key))
            assert {row["id"]: row["calibrated"] for row in rows if row["key"] == key} == said
        assert len(rows) == 360
    finally:
        spark.stop()
