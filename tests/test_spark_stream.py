"""`calibrate_stream`: events of micro-batches, the processor without a JVM, and a stream on Spark."""

import hashlib
import math
import random
import shutil
import zlib

import pytest
import spark_session

from streamcal import Auto, OnlinePlatt, Platt
from streamcal.errors import InputError, StateError
from streamcal.live import LabelJoin
from streamcal.spark import packing
from streamcal.spark.joining import ANY_JUMP, Event, Forecast, Learned, take

HORIZON = 3600.0
pa = packing.pyarrow
SCHEMA = packing.events_schema(pa.string())


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
    """Return the forecasts of a join that gets one event after the other, and the join."""
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


def one_by_one(join, given):
    """Return the forecasts of a join that gets sorted events without columns."""
    found, number = [], join.tally()["issued"]
    for id, score, label, t in sorted(given, key=lambda one: (one.t, one.score is None)):
        try:
            if score is not None:
                issued = join.issue(id, score, t)
                if issued.number >= number:
                    number = issued.number + 1
                    found.append(Forecast(id, score, t, issued.p, None))
            if label is not None:
                join.resolve(id, label, t)
        except InputError as error:
            found.append(Forecast(id, score, t, None, str(error)))
    return found


@pytest.mark.sample(3)
@pytest.mark.parametrize("make", [OnlinePlatt, Auto, Platt])
def test_a_large_batch_is_taken_in_columns(make, monkeypatch):
    """Forecasts, labels and the state are those of a loop, to the last bit; events that are refused lie in between."""
    draws = random.Random(3)
    given = []
    for k in range(3_000):
        score = [draws.random(), 1.5][draws.random() < 0.005]
        given.append(Event(f"i{k}", score, None, 20.0 * k + 1.0))
        if draws.random() < 0.02:
            given.append(Event(draws.choice([f"i{k}", "i1", "", None]), 0.5, None, 20.0 * k + 2.0))
    for k, one in enumerate([one for one in given if draws.random() < 0.3]):  # clicks are uploaded every 2,000 s
        at = (one.t // 2_000.0 + 1.0) * 2_000.0 + 0.5 + k * 1e-5
        given.append(Event(one.id, None, float(draws.random() < 0.7), at))
    given.sort(key=lambda one: one.t)
    rows, columns = [], []
    for verb, into in (("issue_many", columns), ("resolve_many", rows)):
        plain = getattr(LabelJoin, verb)

        def counted(self, ids, values, t, plain=plain, into=into):
            into.append(len(ids))
            return plain(self, ids, values, t)

        monkeypatch.setattr(LabelJoin, verb, counted)
    one, other, labels = new_join(make()), new_join(make()), ([], [])
    for join, found in zip((one, other), labels, strict=True):
        join.on_learned = lambda issued, y, found=found: found.append((issued, y))
    for begin in range(0, len(given), 1_500):
        batch = given[begin : begin + 1_500]
        assert [*take(other, batch)] == one_by_one(one, batch)
    assert sum(columns) > 2_500
    assert sum(rows) > 100
    assert labels[0] == labels[1]
    assert len(labels[0]) == one.tally()["learned"] > 2_000
    assert one.tally() == other.tally()
    assert one.to_bytes() == other.to_bytes()


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


def test_events_of_the_same_time_have_an_order_of_their_own():
    """Whatever the order in which they come, ids as numbers or texts."""
    given = [Event(i % 7, 0.1 * (i % 7), None, 5.0) for i in range(14)]
    given += [Event(i, None, float(i % 2), 5.0) for i in range(7)] + [Event(9, 0.5, None, math.nan)]
    states, told = set(), set()
    for seed in range(20):
        join = new_join()
        told.add(str([*take(join, random.Random(seed).sample(given, len(given)))]))
        states.add(join.to_bytes())
        assert join.tally()["unknown"] == 0, "impressions come before outcomes of the same time"
    assert len(states) == len(told) == 1


def test_what_was_learned_is_known_by_sums_over_ids():
    labels = [(f"i{k}", k % 3 == 0) for k in range(50)] + [(-7, True), (2**63 - 1, False)]
    texts = [str(id).encode() for id, _ in labels]
    sums = Learned().with_ids(labels)
    assert sums == Learned().with_ids(reversed(labels[20:])).with_ids(labels[:20])
    assert (sums.learned, sums.positives) == (52, 18)
    assert sums.ids == sum(zlib.crc32(text) for text in texts)
    hashes = [int.from_bytes(hashlib.md5(text).digest()[:8], "big", signed=True) for text in texts]
    for one in hashes:
        sums = sums._replace(hash=sums.hash ^ one)
    assert sums.hash == 0
    assert sums.with_ids(labels[:1]) != sums.with_ids(labels[1:2])


# -- packs -------------------------------------------------------------------------------------------------------------


def packed(given, key="a", id=None):
    """Pack events of one key, in batches of three."""
    columns = {"key": [key] * len(given), "id": [one.id for one in given]}
    columns |= {"score": [one.score for one in given], "label": [one.label for one in given]}
    micros = [None if math.isnan(one.t) else round(one.t * 1e6) for one in given]
    kinds = {"key": pa.string(), **dict(zip(SCHEMA.names, SCHEMA.types, strict=True)), "id": id or pa.string()}
    table = pa.table({**columns, "micros": micros}, schema=pa.schema(kinds))
    (found,) = packing.pack(table.to_batches(max_chunksize=3), packing.events_schema(kinds["id"]))
    return found


def test_events_that_were_packed_are_the_same():
    given = [
        Event("a", 0.5, None, 1.5),
        Event("a", None, 1.0, 1e9 + 0.000001),
        Event(None, 0.25, 0.0, -3.0),
        Event("\u00e4" * 300, math.nan, math.inf, math.nan),
    ]
    batch = packed(given, key=None)
    assert batch.column("key").to_pylist() == [None]
    assert batch.column("micros").to_pylist() == [1_000_000_000_000_001]
    content = batch.column("events").to_pylist()
    assert repr(packing.events_of(content, SCHEMA)) == repr(given)
    assert repr(packing.events_of(content * 2, SCHEMA, after=1.5e6)) == repr([given[1], given[3]] * 2), "late ones"
    assert packed(given[3:]).column("micros").to_pylist() == [None]
    numbers = [Event(-(2**63), 0.5, None, 1.0), Event(2**63 - 1, 0.5, None, 2.0)]
    whole = packing.events_schema(pa.int64())
    assert packing.events_of(packed(numbers, id=pa.int64()).column("events").to_pylist(), whole) == numbers
    assert [*packing.pack([], SCHEMA)] == []


def test_keys_are_packed_apart_and_their_events_stay_in_order():
    keys = pa.array(["b", None, "a", "b", None, "b"])
    columns = [keys, pa.array(list("uvwxyz")), pa.array([0.5] * 6), pa.nulls(6, pa.float64()), pa.array(range(6))]
    batch = pa.RecordBatch.from_arrays(columns, names=["key", *SCHEMA.names])
    (found,) = packing.pack([batch.slice(0, 0), batch], SCHEMA)
    rows = zip(found.column("key").to_pylist(), found.column("events").to_pylist(), strict=True)
    ids = {key: [event.id for event in packing.events_of([content], SCHEMA)] for key, content in rows}
    assert ids == {"b": ["u", "x", "z"], None: ["v", "y"], "a": ["w"]}
    assert dict(zip(*(found.column(name).to_pylist() for name in ("key", "micros")), strict=True)) == {
        "b": 5,
        None: 4,
        "a": 2,
    }


def test_forecasts_are_unpacked_with_their_key():
    given = [Forecast("x", 0.5, 1.5, 0.25, None), Forecast(None, None, math.nan, None, "no id")]
    told = packing.forecasts_schema(pa.string())
    contents = [packing.packed_forecasts(given, told), packing.packed_forecasts(given[:1], told)]
    batch = pa.RecordBatch.from_arrays([pa.array([7, None]), pa.array(contents)], names=["key", "forecasts"])
    (found,) = packing.unpack([batch, batch.slice(0, 0)], told)
    first = {"id": "x", "micros": 1_500_000, "score": 0.5, "calibrated": 0.25, "error": None}
    second = {"id": None, "micros": None, "score": None, "calibrated": None, "error": "no id"}
    assert found.to_pylist() == [{"key": 7, **first}, {"key": 7, **second}, {"key": None, **first}]


def test_times_at_the_end_of_their_type_fail_no_task():
    """In seconds as a float, the last microsecond of 64 bits is one beyond it."""
    told = packing.forecasts_schema(pa.string())
    given = [Forecast("x", 0.5, sign * 2.0**63 / 1e6, None, "far") for sign in (-1.0, 1.0)]
    batch = pa.RecordBatch.from_arrays(
        [pa.array([7]), pa.array([packing.packed_forecasts(given, told)])], names=["key", "forecasts"]
    )
    (found,) = packing.unpack([batch], told)
    assert [abs(one["micros"]) for one in found.to_pylist()] == [packing.LATEST] * 2


# -- the processor, without a JVM --------------------------------------------------------------------------------------


@pytest.fixture
def tester():
    """Makes the tester of PySpark 4.2 with a processor."""
    spark_session.needed(java=False)
    tws = pytest.importorskip("pyspark.sql.streaming.tws_tester", reason="TwsTester came with PySpark 4.2")
    from streamcal.spark.streams import Joins

    def made(calibrator=None, initial=None, **options):
        options = {"horizon": HORIZON, "max_jump": ANY_JUMP, **options}
        processor = Joins(calibrator or OnlinePlatt(), options, pa.string())
        return tws.TwsTester(
            processor,
            initialStateRow=initial,
            timeMode="EventTime",
            eventTimeExtractor=lambda row: math.inf if row.micros is None else row.micros / 1e3,
        )

    return made


def as_rows(given):
    """As two partitions pack them."""
    from pyspark.sql import Row

    halves = [packed(half) for half in (given[::2], given[1::2]) if half]
    return [Row(**row) for half in halves for row in half.to_pylist()]


def said(rows):
    """Return the forecasts in the rows of a processor."""
    told = packing.forecasts_schema(pa.string())
    return [
        {"key": row["key"], **one}
        for row in rows
        for one in pa.ipc.read_record_batch(row["forecasts"], told).to_pylist()
    ]


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
            for row in said(made.test(key, as_rows(batch))):
                assert (row["key"], row["error"]) == (key, None)
                found[key][row["id"]] = row["calibrated"]
    for key, stream in given.items():
        expected_said, expected = straight(stream)
        assert found[key] == expected_said
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


def test_a_key_has_one_timer_at_the_time_of_what_is_due_next(tester):
    from streamcal.spark.streams import KeyState

    made = tester()

    def timers():
        return [*made.handle._timers.listTimers("a")]

    made.test("a", as_rows([Event("x", 0.5, None, 1000.0)]))
    assert timers() == [4_600_000]
    made.test("a", as_rows([Event("y", 0.5, None, 4700.0)]))
    assert timers() == [4_600_000], "it rings without need, once, which is cheaper than to move it each time"
    made.setWatermark(4_650_000)
    assert timers() == [8_200_000], "when the first impression is forgotten"
    made.test("a", as_rows([Event("x", None, 1.0, 4_700.5)]))
    assert timers() == [8_200_000]
    kept = KeyState(*made.peekValueState("join", "a"))
    assert (kept.timer, kept.waiting, kept.learned, kept.positives) == (8_200_000, 1, 1, 0)
    made.setWatermark(20_000_000)
    kept = KeyState(*made.peekValueState("join", "a"))
    assert timers() == []
    assert kept[1:] == (None, 0, *Learned().with_ids([("x", False), ("y", False)]))


def test_an_event_without_a_time_is_refused_and_a_late_one_dropped(tester):
    made = tester()
    (found,) = said(made.test("a", as_rows([Event("x", 0.5, None, math.nan)])))
    assert (found["micros"], found["calibrated"]) == (None, None)
    assert "time nan" in found["error"]
    made.setWatermark(10_000)
    given = [Event(id, 0.5, None, t) for id, t in (("x", 9.0), ("y", 10.0), ("z", 10.001), ("y", 11.0))]
    found = said(made.test("b", as_rows(given)))
    assert [(one["id"], one["micros"]) for one in found] == [("z", 10_001_000), ("y", 11_000_000)]
    assert made.test("c", as_rows(given[:1])) == []
    assert made.peekValueState("join", "c") is None


def test_the_state_of_a_checkpoint_with_other_parameters_is_refused(tester):
    made = tester()
    made.test("a", as_rows([Event("x", 0.5, None, 1000.0)]))
    kept = made.peekValueState("join", "a")
    for calibrator, horizon in ((Platt(), HORIZON), (OnlinePlatt(discount=0.9), HORIZON), (OnlinePlatt(), 60.0)):
        other = tester(calibrator, horizon=horizon)
        other.updateValueState("join", "a", kept)
        with pytest.raises(StateError, match=r"the checkpoint is that of LabelJoin.*give the parameters of the"):
            other.test("a", as_rows([Event("y", 0.5, None, 1001.0)]))
        assert other.peekValueState("join", "a") == kept
    larger = tester(max_held=7)
    larger.updateValueState("join", "a", kept)
    larger.test("a", as_rows([Event("y", 0.5, None, 1001.0)]))
    assert (held(larger, "a").max_held, held(larger, "a").held) == (7, 2)


def test_two_calibrators_of_a_backfill_for_one_key_are_refused(tester):
    from pyspark.sql import Row

    state = Row(state=OnlinePlatt().to_bytes())
    made = tester(initial=[("a", state)])
    with pytest.raises(InputError, match="initial has several states of the key 'a'"):
        made.processor.handleInitialState(("a",), state, None)


def test_a_key_begins_with_the_calibrator_of_a_backfill(tester):
    from pyspark.sql import Row

    learned = OnlinePlatt()
    learned.learn_many([0.1, 0.8, 0.5] * 30, [0, 1, 1] * 30)
    made = tester(initial=[("a", Row(state=bytearray(learned.to_bytes())))])
    first = said(made.test("a", as_rows([Event("x", 0.3, None, 1.0)])))
    assert first[0]["calibrated"] == learned.predict_one(0.3)
    (other,) = said(made.test("b", as_rows([Event("x", 0.3, None, 1.0)])))
    assert other["calibrated"] == OnlinePlatt().predict_one(0.3)
    with pytest.raises(InputError, match="the stream has OnlinePlatt"):
        tester(initial=[("a", Row(state=Platt().to_bytes()))])


# -- on Spark ----------------------------------------------------------------------------------------------------------


@pytest.mark.full
def test_what_a_stream_cannot_be_is_refused_before_anything_runs():
    spark_session.needed()
    from pyspark.sql import functions as F

    from streamcal.spark import calibrate_stream
    from streamcal.spark.streams import ROCKSDB, STORE

    spark = spark_session.session()
    given = spark.createDataFrame([], "key string, id string, score double, label int, at timestamp")
    columns = ["'a' as key", "value as id", "0.5D as score", "1 as label", "timestamp as at"]
    endless = spark.readStream.format("rate").load().selectExpr(*columns)
    names = {"key": "key", "id": "id", "score": "score", "label": "label", "event_time": "at"}

    def stream(df, **changed):
        return calibrate_stream(df, **{**names, **changed}, horizon=HORIZON, calibrator=OnlinePlatt())

    try:
        spark.conf.set(STORE, ROCKSDB)
        for call, said in (
            (lambda: stream(given.withColumnRenamed("score", "Calibrated"), score="Calibrated"), "2 columns 'Calib"),
            (lambda: stream(given.withColumnRenamed("id", "error"), id="error"), "the result has 2 columns 'error'"),
            (lambda: stream(given, id="key"), "the result has 2 columns 'key'"),
            (
                lambda: stream(endless.withWatermark("at", "1 minute")),
                "column 'at' has a watermark, and a query has one",
            ),
            (lambda: stream(given.withColumn("key", F.collate("key", "UTF8_LCASE"))), "the collation UTF8_LCASE"),
        ):
            with pytest.raises(InputError, match=said):
                call()
        # an id that is no text is refused, and the other events are not
        broken = (
            "select 'a' as key, cast(X'FF' as string) as id, 0.5D as score, null as label, timestamp_seconds(9) as at"
        )
        rows = stream(given.union(spark.sql(broken)).union(spark.sql(broken.replace("cast(X'FF' as string)", "'x'"))))
        assert {(row["id"], row["calibrated"], str(row["error"])[:26]) for row in rows.collect()} == {
            (None, None, "id None is not possible; g"),
            ("x", 0.5, "None"),
        }
    finally:
        spark.stop()


@pytest.mark.full
def test_a_stream_that_is_stopped_goes_on_where_it_was(tmp_path):
    spark_session.needed()
    from pyspark.sql import functions as F

    from streamcal.spark import audit, calibrate_stream, checksums, fit, states
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
        """Save the same files if a batch is run again."""
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

    def run(**settings):
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
            **{"initial": initial, **settings},
        )
        query = told.writeStream.foreachBatch(save).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()

    try:
        arrive(0, merged[:200])
        with pytest.raises(InputError, match="RocksDB"):
            run()
        spark.conf.set(STORE, ROCKSDB)
        with pytest.raises(InputError, match="the keys of the states are of type bigint, and column 'key' is of type"):
            run(initial=initial.withColumn("key", F.lit(1).cast("long")))
        run()
        arrive(1, merged[200:])
        run()  # another query, from the checkpoint
        rows = spark.read.parquet(str(out)).collect()
        assert {row["error"] for row in rows} == {None}
        for key, stream in given.items():
            said, _ = straight(stream, seeded.get(key))
            assert {row["id"]: row["calibrated"] for row in rows if row["key"] == key} == said
        assert len(rows) == 360
        # what ends all waiting: an impression of each key, long after
        arrive(2, [(key, "end", 0.5, None, 1e6) for key in "abcd"] + [("d", "end", None, 1.0, 1e6)])
        spark.conf.set("spark.sql.shuffle.partitions", "5")  # of the checkpoint it stays 3
        run()
        found = {row["key"]: row for row in audit(spark, str(tmp_path / "checkpoint")).collect()}
        assert {key: (row["waiting"], row["learned"]) for key, row in found.items()} == {
            **dict.fromkeys("abc", (1, 120)),
            "d": (1, 0),
        }
        for key, stream in given.items():
            clicked = {one.id for one in stream if one.label}
            labels = [(one.id, one.id in clicked) for one in stream if one.score is not None]
            assert tuple(found[key][name] for name in Learned._fields) == Learned().with_ids(labels)
        written = spark.createDataFrame(merged, schema.replace("label int", "label double"))
        counted = checksums(written.where("score is not null"), key="key", id="id").collect()
        assert {tuple(row) for row in counted} == {
            (key, *(found[key][name] for name in ("learned", "ids", "hash"))) for key in "abc"
        }
    finally:
        spark.stop()
