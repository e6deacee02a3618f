"""`streamcal.spark` on Spark itself, two threads of this machine."""

import datetime
import decimal

import numpy as np
import pandas as pd
import pytest
import spark_session

from streamcal import BBQ, Isotonic, OnlinePlatt, Platt, VennAbers, Window
from streamcal.errors import InputError
from streamcal.live import Segmented

pytestmark = pytest.mark.full
SCORES = np.linspace(0.01, 0.99, 25)


@pytest.fixture(scope="module")
def spark():
    spark_session.needed()
    found = spark_session.session()
    yield found
    found.stop()


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    n = 4_000
    return pd.DataFrame(
        {
            "ctr": rng.random(n),
            "click.ed": rng.random(n) < 0.3,  # a dot in a name is no path
            "w": rng.integers(0, 4, n),
            "at": pd.Timestamp("2026-03-08") + pd.to_timedelta(rng.permutation(n), unit="min"),  # over a change of DST
            "campaign": [None if i == 0 else f"c{i}" for i in rng.integers(0, 6, n)],
        }
    )


@pytest.fixture(scope="module")
def df(spark, rows):
    return spark.createDataFrame(rows.assign(at=rows["at"].dt.tz_localize("UTC"))).repartition(4).persist()


def seconds(times):
    return (times - pd.Timestamp(0)) / pd.Timedelta(1, "s")


def alone(rows, calibrator, key):
    chosen = rows[rows["campaign"].isna() if key is None else rows["campaign"] == key].sort_values("at")
    one = calibrator.clone()
    one.learn_many(chosen["ctr"], chosen["click.ed"], chosen["w"], seconds(chosen["at"]))
    return one


def fit(df, calibrator, **more):
    from streamcal.spark import fit

    return fit(df, **{"score": "ctr", "label": "click.ed", "weight": "w", "time": "at", **more}, calibrator=calibrator)


@pytest.mark.parametrize(
    "calibrator",
    [VennAbers(), OnlinePlatt(), Isotonic(forgetting=Window(100)), Isotonic(forgetting=Window(86_400.0, by="time"))],
    ids=repr,
)
def test_a_table_is_learned_as_one_process_would(df, rows, calibrator):
    from streamcal.spark import states, transform

    fitted = fit(df, calibrator, key="campaign").persist()
    found = states(fitted)
    assert set(found) == {None, *(f"c{i}" for i in range(1, 6))}
    expected = {key: alone(rows, calibrator, key) for key in found}
    for key, one in found.items():
        assert one.n == expected[key].n
        assert one.predict_many(SCORES).tolist() == expected[key].predict_many(SCORES).tolist()
    for broadcast in (True, False):
        table = transform(df, fitted, score="ctr", key="campaign", broadcast=broadcast).toPandas()
        assert len(table) == len(rows)
        assert [*table] == [*rows, "calibrated", *(["lower", "upper"] if calibrator.has_interval else [])]
        for key, chosen in table.groupby("campaign", dropna=False):
            one = expected[None if pd.isna(key) else key]
            assert chosen["calibrated"].tolist() == one.predict_many(chosen["ctr"]).tolist()
            if calibrator.has_interval:
                assert chosen["upper"].tolist() == one.predict_interval_many(chosen["ctr"])[1].tolist()


def test_only_states_are_shuffled(spark):
    given = spark.range(10).selectExpr("id / 10.0D as ctr", "id % 2 = 0 as `click.ed`", "id as campaign")
    plan = fit(given, VennAbers(), weight=None, time=None, key="campaign")._jdf.queryExecution()
    after, _, before = plan.executedPlan().toString().partition("Exchange hashpartitioning(key")
    assert "MapInArrow merge" in after
    assert "MapInArrow fold" in before
    assert "Exchange" not in before


def test_yesterday_and_today_are_merged(df, rows):
    from streamcal.spark import merge, states

    early, late = (df.where(f"at {sign} timestamp'2026-03-09 00:00:00'") for sign in ("<", ">="))
    both = states(merge(fit(early, Isotonic(), key="campaign"), fit(late, Isotonic(), key="campaign")))
    for key, one in both.items():
        assert one.state_dict() == alone(rows, Isotonic(), key).state_dict()


def test_without_keys_and_from_an_empty_table(spark, df, rows):
    from streamcal.spark import states, transform

    everything = states(fit(df, VennAbers()))
    one = VennAbers()
    one.learn_many(rows["ctr"], rows["click.ed"], rows["w"])
    assert everything[None].state_dict() == one.state_dict()
    nothing = fit(df.limit(0), VennAbers())
    assert states(nothing) == {}
    found = transform(df.limit(3), nothing, score="ctr").toPandas()
    assert found["calibrated"].isna().all()
    found = transform(df.limit(3), one, score="ctr").toPandas()
    assert found["lower"].tolist() == one.predict_interval_many(found["ctr"])[0].tolist()
    assert transform(df.limit(0), one, score="ctr").count() == 0


@pytest.mark.parametrize(("yes", "no"), [(1, 0), (True, False), (1.0, 0.0), (decimal.Decimal(1), decimal.Decimal(0))])
def test_labels_scores_and_times_of_other_types(spark, yes, no):
    from streamcal.spark import fit, states

    days = [datetime.date(2026, 1, day) for day in (1, 2, 3)]
    given = zip(map(decimal.Decimal, ("0.25", "0.5", "0.75")), (no, yes, yes), days, days, strict=True)
    df = spark.createDataFrame([*given], ["s", "y", "t", "k"])
    for calibrator, times in ((Platt(), None), (OnlinePlatt(), "t")):
        one = calibrator.clone()
        one.learn_many([0.25, 0.5, 0.75], [0, 1, 1])
        assert (
            states(fit(df, score="s", label="y", time=times, calibrator=calibrator))[None].to_bytes() == one.to_bytes()
        )
    assert set(states(fit(df, score="s", label="y", key="k", calibrator=Platt()))) == set(days)


def test_bad_values_are_named_by_the_action(spark, df):
    from pyspark.errors import PythonException

    from streamcal.spark import transform

    for value, column, said in (
        (2, "w", None),
        (-1, "w", "column 'w': -1.0 is not allowed"),
        (None, "w", "column 'w' has 1 null"),
        (float("nan"), "ctr", "column 'ctr': nan is not finite"),
        (7.5, "ctr", "column 'ctr': 7.5 is not a probability"),
    ):
        row = {"ctr": 0.5, "click.ed": True, "w": 1, "campaign": "c1", column: value}
        given = spark.createDataFrame([row], "ctr double, `click.ed` boolean, w int, campaign string")
        fitted = fit(given, Platt(), time=None, key="campaign")
        if said is None:
            assert fitted.collect()[0]["n"] == 2.0
            continue
        with pytest.raises(PythonException, match=said):
            fitted.collect()
        if column == "ctr":
            with pytest.raises(PythonException, match=said):
                transform(given, Platt(), score="ctr").collect()


def test_what_cannot_be_is_refused_before_anything_runs(spark, df):
    from streamcal.spark import merge, transform

    text = spark.createDataFrame([("a", 0.5)], ["ctr", "click.ed"])
    learned = Platt()
    learned.learn_one(0.5, True)
    for call, said in (
        (lambda: fit(df, OnlinePlatt(), time=None), "depends on the order of its observations: give time="),
        (lambda: fit(df, Platt(forgetting=Window(9.0, by="time")), time=None), "forgets by time"),
        (lambda: fit(df, learned), "has learned already"),
        (lambda: fit(df, "platt"), "none of one score"),
        (lambda: fit(df, Platt(), score="ctrr"), "no columns are named 'ctrr'; the columns are: ctr, "),
        (lambda: fit(text, Platt(), weight=None, time=None), "column 'ctr' is of type string; cast it: a score is"),
        (lambda: fit(df, Platt(), time="campaign"), "a time is a number, a timestamp or a date"),
        (lambda: fit(df, Platt(), key="ctr"), "keys are texts"),
        (lambda: transform(df.withColumnRenamed("w", "calibrated"), Platt(), score="ctr"), "'calibrated' already"),
        (lambda: transform(df, {"c1": Platt()}, score="ctr"), "give key="),
        (lambda: transform(df, Platt(), score="ctr", key="campaign"), "a calibrator without a key"),
        (lambda: transform(df, {"c1": 3}, score="ctr", key="campaign"), "states 3 is none"),
        (lambda: transform(df, {1: Platt()}, score="ctr", key="campaign"), "the key 1 of the states is no value of"),
        (
            lambda: transform(df, {"a": VennAbers(), None: Platt()}, score="ctr", key="campaign"),
            "key 'a' has intervals",
        ),
        (
            lambda: transform(df, {None: Platt(), "a": VennAbers()}, score="ctr", key="campaign"),
            "key 'a' has intervals",
        ),
        (lambda: transform(df.withColumnRenamed("w", "Calibrated"), Platt(), score="ctr"), "'Calibrated' already"),
        (lambda: transform(df, df, score="ctr"), "give what streamcal.spark.fit returned"),
        (lambda: merge(df), "give what streamcal.spark.fit returned"),
        (lambda: merge(fit(df, Platt()), fit(df, Platt(), key="w")), "the keys of the states are of type string, and"),
    ):
        with pytest.raises(InputError, match=said):
            call()


def test_calibrators_by_key_and_keys_without_a_state(df, rows):
    from streamcal.spark import transform

    one = alone(rows, BBQ(), "c1")
    found = transform(df, {"c1": one}, score="ctr", key="campaign").toPandas()
    its = found["campaign"] == "c1"
    assert found["calibrated"][its].tolist() == one.predict_many(found["ctr"][its]).tolist()
    assert found["calibrated"][~its].isna().all()


def states_of(spark, calibrators, kind="string"):
    given = [(key, one.to_bytes(), one.n) for key, one in calibrators]
    return spark.createDataFrame(given, f"key {kind}, state binary, n double")


@pytest.mark.parametrize("broadcast", [True, False])
def test_states_that_do_not_fit_the_rows_are_refused(spark, df, broadcast):
    from streamcal.spark import transform

    text = states_of(spark, [("c1", Platt())])
    with_null = states_of(spark, [(None, Platt()), ("c1", Platt())])
    number = states_of(spark, [(1, Platt())], "int")
    for states, key, said in (
        (text.union(text), "campaign", "2 states are those of 1 keys"),
        (text, None, "the states have keys, such as 'c1'; give key="),
        (with_null, None, "the states have keys, such as 'c1'; give key="),
        (number, "campaign", "are of type int, and column 'campaign' is of type string; cast one"),
        (text, "w", "are of type string, and column 'w' is of type bigint; cast one"),
        (states_of(spark, []), "nowhere", "no columns are named 'nowhere'"),
    ):
        with pytest.raises(InputError, match=said):
            transform(df, states, score="ctr", key=key, broadcast=broadcast)


@pytest.mark.parametrize("broadcast", [True, False])
def test_keys_of_another_width_and_a_null_key_alone_are_found(spark, df, rows, broadcast):
    from streamcal.spark import transform

    one = alone(rows, Platt(), "c1")
    wide = states_of(spark, [(1, one)], "int")  # the column is bigint
    found = transform(df, wide, score="ctr", key="w", broadcast=broadcast).toPandas()
    its = found["w"] == 1
    assert found["calibrated"][its].tolist() == one.predict_many(found["ctr"][its]).tolist()
    assert found["calibrated"][~its].isna().all()
    of_null = fit(df.where("campaign is null"), Platt(), key="campaign")
    found = transform(df, of_null, score="ctr", key="campaign", broadcast=broadcast).toPandas()
    assert (found["calibrated"].notna() == found["campaign"].isna()).all()
    found = transform(df, fit(df, Platt()), score="ctr", broadcast=broadcast).toPandas()
    assert len(found) == len(rows)
    assert found["calibrated"].notna().all()
    assert transform(df, states_of(spark, []), score="ctr", broadcast=broadcast).where(
        "calibrated is null"
    ).count() == len(rows)


@pytest.mark.parametrize("broadcast", [True, False])
def test_no_column_of_the_rows_is_lost(spark, broadcast):
    from streamcal.spark import transform

    names = ["__KEY", "__key_", "__state", "__applied", "key", "state", "n"]
    given = spark.createDataFrame([("c1", "u", 0.25, 0.5, "c1", 2.5, 3.5, 0.5)], [*names, "ctr"])
    states = states_of(spark, [("c1", Platt())])
    for key in ("key", "__KEY"):
        found = transform(given, states, score="ctr", key=key, broadcast=broadcast)
        assert found.columns == [*names, "ctr", "calibrated"]
        row = found.collect()[0]
        assert [*row[:-1]] == ["c1", "u", 0.25, 0.5, "c1", 2.5, 3.5, 0.5]
        assert row["calibrated"] == Platt().predict_one(0.5)


@pytest.mark.parametrize("broadcast", [True, False])
def test_rows_of_states_with_and_without_intervals_are_refused_by_the_action(spark, df, broadcast):
    from pyspark.errors import PythonException

    from streamcal.spark import transform

    for first, second in ((Platt(), VennAbers()), (VennAbers(), Platt())):
        states = states_of(spark, [("c1", first), ("c2", second)]).coalesce(1)
        with pytest.raises(PythonException, match="intervals, and others of the states have"):
            transform(df, states, score="ctr", key="campaign", broadcast=broadcast).collect()


@pytest.mark.parametrize("broadcast", [True, False])
def test_rows_may_have_columns_of_one_name(spark, broadcast):
    from streamcal.spark import transform

    given = spark.createDataFrame([(1, 0.5, "c1", 2)], "id int, ctr double, campaign string, u int").toDF(
        "id", "ctr", "campaign", "id"
    )
    found = transform(given, states_of(spark, [("c1", Platt())]), score="ctr", key="campaign", broadcast=broadcast)
    assert found.columns == ["id", "ctr", "campaign", "id", "calibrated"]
    assert [tuple(row) for row in found.collect()] == [(1, 0.5, "c1", 2, Platt().predict_one(0.5))]


def test_states_with_more_columns_are_merged(spark, df):
    from pyspark.sql import functions as F

    from streamcal.spark import merge

    first = fit(df, Platt(), key="campaign")
    second = first.select("n", "state", F.lit("2026-03-08").alias("day"), "key")  # as from a partitioned table
    found = merge(second, first)
    assert found.columns == ["key", "state", "n"]
    assert found.agg(F.sum("n")).collect()[0][0] == 2.0 * first.agg(F.sum("n")).collect()[0][0]
    assert merge(first, second).count() == first.count()


@pytest.mark.parametrize("broadcast", [True, False])
def test_states_that_are_null_or_of_another_type_are_refused(spark, df, broadcast):
    from streamcal.spark import merge, states, transform

    some = states_of(spark, [("c1", Platt())])
    missing = some.union(spark.createDataFrame([("c2", None, 1.0)], some.schema))
    text = some.withColumn("state", some["n"].cast("string"))
    for states_, said in (
        (missing, "1 of 2 states are null"),
        (text, "column 'state' of the states is of type string"),
    ):
        with pytest.raises(InputError, match=said):
            transform(df, states_, score="ctr", key="campaign", broadcast=broadcast)
        with pytest.raises(InputError, match=said):
            states(states_)
    with pytest.raises(InputError, match="the states are of type dict"):
        merge({"c1": Platt()})


def test_keys_that_are_equal_in_spark_and_not_in_python_are_refused(spark, df):
    from streamcal.spark import checksums, fit_segments, transform

    given = df.selectExpr("ctr", "`click.ed`", "at", "collate(campaign, 'UTF8_LCASE') as campaign")
    for call in (
        lambda: fit(given, Platt(), weight=None, key="campaign"),
        lambda: transform(given, {"c1": Platt()}, score="ctr", key="campaign"),
        lambda: transform(given, states_of(spark, [("c1", Platt())]), score="ctr", key="campaign", broadcast=False),
        lambda: checksums(given, key="campaign", id="campaign"),
        lambda: fit_segments(given, Segmented("ops", by=["campaign"]), score="ctr", label="click.ed", time="at"),
    ):
        with pytest.raises(InputError, match="has the collation UTF8_LCASE, by which different texts may be equal"):
            call()
    plain = given.withColumn("campaign", given["campaign"].cast("string"))
    assert fit(plain, Platt(), weight=None, key="campaign").count() == 6


def test_texts_that_are_not_utf8_are_named_by_the_action(spark):
    from pyspark.errors import SparkRuntimeException

    from streamcal.spark import fit_segments, transform, transform_segments

    given = spark.sql("select 0.5D as ctr, true as `click.ed`, 1 as at, cast(X'FF41' as string) as campaign")
    cal = Segmented("ops", by=["campaign"])
    for call in (
        lambda: fit(given, Platt(), weight=None, key="campaign").collect(),
        lambda: fit(given, OnlinePlatt(), weight=None, key="campaign").collect(),
        lambda: transform(given, {"c1": Platt()}, score="ctr", key="campaign").collect(),
        lambda: fit_segments(given, cal, score="ctr", label="click.ed", time="at"),
        lambda: transform_segments(given, cal, score="ctr").collect(),
    ):
        with pytest.raises(
            SparkRuntimeException, match="column 'campaign' has a text that is not UTF-8, the bytes FF41"
        ):
            call()


def test_a_stream_is_no_table(spark, tmp_path):
    from streamcal.spark import fit_segments

    given = spark.readStream.schema("ctr double, `click.ed` boolean, at int, campaign string").parquet(str(tmp_path))
    cal = Segmented("ops", by=["campaign"])
    for call in (
        lambda: fit(given, Platt(), weight=None),
        lambda: fit_segments(given, cal, score="ctr", label="click.ed", time="at"),
    ):
        with pytest.raises(InputError, match="df is a stream; give a table"):
            call()


def test_ids_are_counted_as_a_join_reads_them(spark):
    from streamcal.live.issued import check_id
    from streamcal.spark import checksums
    from streamcal.spark.joining import Learned

    ids = ["7", "7.0", "-7.00", "0.0", "-0.0", "007.0", "7.", "7.5", "7.0\n", "1e3", f"{10**16}.0", f"{10**17}.0"]
    ids += [f"-{10**15}.0", f"-{10**16}.0", "x.0", "\u0661.0", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"]
    rows = spark.createDataFrame([(id,) for id in ids], "id string").selectExpr("id", "id as key")
    found = {row["key"]: row["ids"] for row in checksums(rows, key="key", id="id").collect()}
    assert found == {id: Learned().with_ids([(id if id.endswith("\n") else check_id(id), False)]).ids for id in ids}
