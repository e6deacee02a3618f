"""`Segmented` on Spark: what runs in the workers, without a JVM; tables, and a stream that is interrupted."""

import shutil

import numpy as np
import pyarrow as pa
import pytest
import spark_session

from streamcal import OnlinePlatt, Platt
from streamcal.errors import InputError
from streamcal.live import Multicalibrated, Segmented
from streamcal.spark import chaining

NAMES = {"score": "ctr", "label": "clicked", "time": "at"}
BY = ["advertiser", ("advertiser", "place")]


def table(rows=3_000, seed=0):
    """Observations in the order of time, some without a level, labels of some unknown."""
    rng = np.random.default_rng(seed)
    score, advertiser = rng.random(rows), rng.integers(0, 5, rows)
    label = rng.random(rows) < score * (0.4 + 0.1 * advertiser)
    return pa.table(
        {
            "ctr": score,
            "clicked": pa.array(label, mask=rng.random(rows) < 0.1),
            "at": np.arange(rows) // 3,  # ties
            "w": rng.integers(0, 3, rows).astype(float),
            "advertiser": pa.array([f"a{one}" for one in advertiser], mask=rng.random(rows) < 0.05),
            "place": rng.integers(0, 3, rows),
            "id": np.arange(rows),
        }
    )


def new():
    return Segmented(OnlinePlatt(), by=BY)


def known(given):
    """Return the rows with a label, in the order in which they are learned."""
    columns = ("at", "ctr", "clicked", "w", "advertiser", "place")
    rows = [row for row in given.to_pylist() if row["clicked"] is not None]
    rows.sort(key=lambda row: [(row[name] is not None, row[name] or 0) for name in columns])
    return pa.Table.from_pylist(rows, schema=given.schema)


def learned(cal, given, weight=True):
    """One process: `cal` after the rows of a table with a label."""
    rows = known(given)
    keys = {name: rows.column(name).to_pylist() for name in ("advertiser", "place")}
    cal.learn_many(rows.column("ctr"), rows.column("clicked"), rows.column("w") if weight else None, keys=keys)
    return cal


def forecasts(cal, given):
    keys = {name: given.column(name).to_pylist() for name in ("advertiser", "place")}
    return cal.predict_many(given.column("ctr").to_numpy(), keys=keys).tolist()


def as_batches(rows, weight=True):
    """Return the batches that Spark gives to the worker."""
    label = rows.column("clicked").cast(pa.int8()).cast(pa.float64())
    columns = {"score": rows.column("ctr"), "label": label, "time": rows.column("at").cast(pa.float64())}
    columns |= {"weight": rows.column("w")} if weight else {}
    levels = {chaining.level_name(i): rows.column(name) for i, name in enumerate(("advertiser", "place"))}
    return pa.table(columns | levels).to_batches(max_chunksize=170)


# -- without Spark -----------------------------------------------------------------------------------------------------


def held():
    return Multicalibrated(new(), by=["advertiser", ("advertiser", "place")])


@pytest.mark.sample(4)
@pytest.mark.parametrize("new", [new, held])
@pytest.mark.parametrize("together", [500, 1 << 20])
def test_batches_are_one_learn_many(together, new, monkeypatch):
    monkeypatch.setattr(chaining.folding, "ROWS_TOGETHER", together)
    given = table()
    begun = learned(new(), given.slice(0, 900))
    found = [*chaining.learn(as_batches(known(given.slice(900))), begun.to_bytes(), {**NAMES, "weight": "w"})]
    assert [batch.num_rows for batch in found] == [1]
    row = found[0].to_pylist()[0]
    expected = learned(begun, given.slice(900))
    assert (row["key"], row["state"], row["n"]) == (None, expected.to_bytes(), expected.n)


def test_nothing_leaves_the_state_as_it_is():
    begun = learned(new(), table(300)).to_bytes()
    for batches in ([], as_batches(table(0))):
        assert next(chaining.learn(batches, begun, NAMES)).to_pylist()[0]["state"] == begun


def test_levels_of_every_type_are_those_of_segmented():
    cal = Segmented("identity", by=["a", "b"])
    keys = {"a": [True, False, None, True], "b": [3, None, 3, 4]}
    cal.learn_many([0.5] * 4, [1, 0, 1, 1], keys=keys)
    told = chaining.Forecasts(cal.to_bytes(), "ctr")
    columns = [pa.array(keys["a"]), pa.array(keys["b"], pa.int16())]
    scores = pa.array([0.1, None, 0.3, 0.4])
    found = told(scores, columns).to_pylist()
    assert found[1] is None
    for i in (0, 2, 3):
        assert found[i] == cal.predict_one(scores[i].as_py(), keys={name: keys[name][i] for name in keys})
    assert told(scores.slice(0, 0), [column.slice(0, 0) for column in columns]).to_pylist() == []
    assert told(pa.nulls(2, pa.float64()), [column.slice(0, 2) for column in columns]).to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("score", 1.5, "column 'ctr': 1.5 is not a probability"),
        ("score", None, "column 'ctr' has 1 null"),
        ("label", 2.0, "column 'clicked': 2.0 is not binary"),
        ("weight", -1.0, "column 'w': -1.0 is not allowed"),
        ("time", None, "column 'at' has 1 null"),
        ("time", float("nan"), "column 'at': nan is not finite"),
        ("level 0", "x" * 10_001, "of 'advertiser' is not possible"),
    ],
)
def test_a_value_that_is_not_taken_is_named(column, value, said):
    rows = as_batches(known(table(9)))[0].to_pylist()
    rows[3][column] = value
    with pytest.raises(InputError, match=said):
        [*chaining.learn(pa.Table.from_pylist(rows).to_batches(), new().to_bytes(), {**NAMES, "weight": "w"})]
    if (column, value) == ("score", 1.5):
        with pytest.raises(InputError, match=said):
            chaining.Forecasts(new().to_bytes(), "ctr")(pa.array([1.5]), [pa.array(["a"]), pa.array([1])])


# -- on Spark ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def spark():
    spark_session.needed()
    found = spark_session.session()
    yield found
    found.stop()


def frame(spark, given):
    return spark.createDataFrame(given).repartition(4)


@pytest.mark.full
def test_a_table_is_learned_as_one_process_would_and_applied(spark):
    from streamcal.spark import fit_segments, transform_segments

    given = table()
    columns = {"score": "ctr", "label": "clicked", "time": "at", "weight": "w"}
    cal = fit_segments(frame(spark, given.slice(0, 2_000)), new(), **columns)
    assert cal.to_bytes() == learned(new(), given.slice(0, 2_000)).to_bytes()
    more = fit_segments(frame(spark, given.slice(2_000)), cal, **columns)
    assert more.to_bytes() == learned(learned(new(), given.slice(0, 2_000)), given.slice(2_000)).to_bytes()
    assert fit_segments(frame(spark, given).where("false"), cal, **columns).to_bytes() == cal.to_bytes()
    found = transform_segments(frame(spark, given), cal, score="ctr").orderBy("id").collect()
    assert [row["calibrated"] for row in found] == forecasts(cal, given)


@pytest.mark.full
def test_what_cannot_be_is_refused_before_anything_runs(spark):
    from streamcal.spark import fit_segments, transform_segments

    df = frame(spark, table(20))
    columns = {"score": "ctr", "label": "clicked", "time": "at"}
    for call, said in (
        (lambda: fit_segments(df, Platt(), **columns), "is no Segmented"),
        (lambda: fit_segments(df, Segmented("ops", by=["nowhere"]), **columns), "no columns are named 'nowhere'"),
        (lambda: fit_segments(df, Segmented("ops", by=["w"]), **columns), "'w' is of type double; levels are texts"),
        (lambda: fit_segments(df, new(), **{**columns, "score": "advertiser"}), "cast it: a score is"),
        (lambda: transform_segments(df.withColumnRenamed("w", "Calibrated"), new(), score="ctr"), "already"),
    ):
        with pytest.raises(InputError, match=said):
            call()


@pytest.mark.full
def test_a_stream_that_fails_anywhere_is_forecast_and_learned_once(spark, tmp_path):
    """A batch fails before, in and after the writing of its forecasts and of its state, and is run again."""
    from streamcal.spark import SegmentStream

    given, size = table(1_200), 200
    told, folder = {}, f"{tmp_path}/states"

    class Failure(Exception):
        pass

    def save(batch, number):
        rows = batch.select("id", "calibrated").collect()
        if number in told:
            assert told[number] == {row["id"]: row["calibrated"] for row in rows}, "another forecast"
        told[number] = {row["id"]: row["calibrated"] for row in rows}
        if fail == "forecasts":
            raise Failure

    def stream():
        learn = SegmentStream(folder, new(), score="ctr", label="clicked", time="at", forecasts=save)
        if fail == "state":
            learn._write = broken
        return learn

    def broken(*_):
        raise Failure

    expected = new()
    learn, fail = None, None
    for number in range(6):
        rows = given.slice(number * size, size)
        part = frame(spark, rows) if number != 2 else frame(spark, rows).where("false")
        for fail in ["forecasts", "state", "after", "torn", None] if number in (0, 2, 3) else [None]:
            learn = stream() if fail or learn is None else learn
            if fail == "torn":  # what is left of a folder that Spark was writing anew
                shutil.rmtree(learn._slot(number))
                (tmp_path / "states" / f"slot={number % 2}" / "_temporary" / "0").mkdir(parents=True)
            try:
                learn(part, number)
            except Failure:
                assert fail in ("forecasts", "state")
                learn = None
            if fail in ("after", "torn"):
                learn = None  # Spark has not noted it as done
        wanted = dict(zip(rows.column("id").to_pylist(), forecasts(expected, rows), strict=True))
        assert told[number] == ({} if number == 2 else wanted)
        expected = expected if number == 2 else learned(expected, rows, weight=False)
        assert learn.calibrator.to_bytes() == expected.to_bytes()
    with pytest.raises(InputError, match="after the batches"):
        stream()(frame(spark, given), 0)  # of another checkpoint
    other = Segmented(Platt(), by=BY)
    with pytest.raises(InputError, match="give another"):
        SegmentStream(folder, other, score="ctr", label="clicked", time="at")(frame(spark, given), 6)


@pytest.mark.full
def test_a_query_goes_on_from_its_checkpoint(spark, tmp_path):
    from pyarrow import parquet

    from streamcal.spark import SegmentStream

    given, told = table(900), {}
    schema = "ctr double, clicked boolean, at long, w double, advertiser string, place long, id long"
    columns = {"score": "ctr", "label": "clicked", "time": "at"}
    (tmp_path / "in").mkdir()
    expected = new()
    assert SegmentStream(str(tmp_path / "states"), new(), **columns).calibrator.to_bytes() == expected.to_bytes()
    for part in range(3):
        rows = given.slice(part * 300, 300)
        parquet.write_table(rows, tmp_path / "in" / f"{part}.parquet")
        df = spark.readStream.schema(schema).parquet(str(tmp_path / "in"))
        learn = SegmentStream(
            str(tmp_path / "states"),
            new(),
            **columns,
            forecasts=lambda batch, number: told.update((row["id"], row["calibrated"]) for row in batch.collect()),
        )
        query = df.writeStream.foreachBatch(learn).option("checkpointLocation", str(tmp_path / "checkpoint"))
        query.trigger(availableNow=True).start().awaitTermination()
        ids = rows.column("id").to_pylist()
        assert [told[id] for id in ids] == forecasts(expected, rows)
        expected = learned(expected, rows, weight=False)
        assert learn.calibrator.to_bytes() == expected.to_bytes()
        # so says an object that has seen no batch, such as after a restart or beside Spark Connect
        other = SegmentStream(str(tmp_path / "states"), new(), **columns)
        assert other.calibrator.to_bytes() == expected.to_bytes()
