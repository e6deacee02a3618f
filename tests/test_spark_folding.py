"""What runs in the workers of Spark, tried without Spark: batches of Arrow are folded, merged and applied."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest

from streamcal import BBQ, Bernstein, Calibrator, Decay, Isotonic, OnlinePlatt, Platt, VennAbers, Window
from streamcal.errors import InputError, MergeError
from streamcal.spark import folding

NAMES = {"score": "ctr", "label": "clicked", "weight": "w", "time": "at", "key": "campaign"}
#: What is a sum of floats in another order differs by rounding: 3,000 terms, each by half an ulp, are far less.
ROUNDING = 1e-12
SCORES = np.linspace(0.01, 0.99, 41)


def table(rows=3_000, keys=7, seed=0):
    """Observations of several keys in random order, one of them null."""
    rng = np.random.default_rng(seed)
    named = ["a", None, *(f"k{i}" for i in range(keys - 2))]
    return pa.table(
        {
            "key": [named[i] for i in rng.integers(0, keys, rows)],
            "score": rng.random(rows),
            "label": (rng.random(rows) < 0.3).astype(float),
            "weight": rng.integers(0, 4, rows).astype(float),
            "time": rng.permutation(rows).astype(float),
        }
    )


def sorted_by_key(partial):
    states = pa.Table.from_batches(partial)
    return states.sort_by([("key", "ascending"), ("n", "ascending")]).to_batches(max_chunksize=3)


def fitted(given, calibrator, parts=4):
    """Key → calibrator, folded in so many partitions and merged."""
    size = -(-len(given) // parts)
    partial = []
    for begin in range(0, len(given), size):
        partial += folding.fold(given.slice(begin, size).to_batches(max_chunksize=100), calibrator, NAMES)
    return read(folding.merge(sorted_by_key(partial), type(calibrator).from_bytes))


def read(batches):
    rows = pa.Table.from_batches(list(batches)).to_pylist()
    assert len({row["key"] for row in rows}) == len(rows), "a key has one state"
    found = {row["key"]: Calibrator.from_bytes(row["state"]) for row in rows}
    assert {row["key"]: row["n"] for row in rows} == {key: one.n for key, one in found.items()}
    return found


def alone(given, calibrator, key):
    """One process, one call."""
    rows = [row for row in given.to_pylist() if row["key"] == key]
    one = calibrator.clone()
    one.learn_many(*([row[name] for row in rows] for name in ("score", "label", "weight", "time")))
    return one


@pytest.mark.sample(4)
@pytest.mark.parametrize("few", [0, 8, 10_000], ids=["in bulk", "mixed", "one by one"])
@pytest.mark.parametrize("calibrator", [VennAbers(), Isotonic(), Platt(), Bernstein(6)], ids=repr)
def test_partitions_folded_and_merged_are_one_learn_many(calibrator, few, monkeypatch):
    monkeypatch.setattr(folding, "FEW", few)
    given = table()
    found = fitted(given, calibrator)
    assert set(found) == set(given.column("key").to_pylist())
    for key, one in found.items():
        expected = alone(given, calibrator, key)
        assert one.n == expected.n, "integer weights add up exactly"
        if isinstance(calibrator, (VennAbers, Isotonic)):  # counts of distinct scores, exact
            assert one.predict_many(SCORES).tolist() == expected.predict_many(SCORES).tolist()
        else:
            # a solver starts from sums that differ by ROUNDING and ends within its own tolerance, 1e-9
            np.testing.assert_allclose(one.predict_many(SCORES), expected.predict_many(SCORES), rtol=1e-8)


@pytest.mark.parametrize(("most", "together"), [(0, 50), (3, 1 << 18)])
def test_states_given_out_early_merge_to_the_same(most, together, monkeypatch):
    monkeypatch.setattr(folding, "MOST_OPEN", most)
    monkeypatch.setattr(folding, "ROWS_TOGETHER", together)
    monkeypatch.setattr(folding, "STATES_TOGETHER", 2)
    given = table(800)
    for key, one in fitted(given, Isotonic()).items():
        assert one.state_dict() == alone(given, Isotonic(), key).state_dict()


@pytest.mark.parametrize("calibrator", [OnlinePlatt(), Isotonic(forgetting=Window(50))], ids=repr)
def test_methods_that_do_not_merge_learn_each_key_in_order(calibrator, monkeypatch):
    monkeypatch.setattr(folding, "ROWS_TOGETHER", 300)
    given = table().sort_by([("key", "ascending"), ("time", "ascending")])
    found = read(folding.fold(given.to_batches(max_chunksize=100), calibrator, NAMES, in_order=True))
    for key, one in found.items():
        assert one.to_bytes() == alone(given, calibrator, key).to_bytes()


def test_without_weights_times_and_keys():
    given = table().select(["score", "label"])
    one = read(folding.fold(given.to_batches(), Platt(), NAMES))[None]
    expected = Platt()
    expected.learn_many(given.column("score"), given.column("label"))
    assert one.to_bytes() == expected.to_bytes()


def test_nothing_gives_nothing():
    empty = table().slice(0, 0)
    assert [*folding.fold(empty.to_batches(), Platt(), NAMES)] == []
    assert [*folding.fold([], Platt(), NAMES, in_order=True)] == []
    assert [*folding.merge([], Platt.from_bytes)] == []


def test_one_class_and_weights_of_zero():
    given = pa.table(
        {"key": ["a", "a", "b"], "score": [0.2, 0.4, 0.3], "label": [1.0, 1.0, 0.0], "weight": [1.0, 1, 0]}
    )
    found = fitted(given, Platt(), parts=2)
    assert found["a"].predict_one(0.3) > 0.3
    assert found["b"].n == 0.0
    assert found["b"].predict_one(0.3) == Platt().predict_one(0.3)


@pytest.mark.parametrize(
    ("column", "value", "said"),
    [
        ("score", float("nan"), "column 'ctr': nan is not finite"),
        ("score", 1.5, "column 'ctr': 1.5 is not a probability"),
        ("score", None, "column 'ctr' has 1 null in 5 rows"),
        ("label", 2.0, "column 'clicked': 2.0 is not binary"),
        ("label", float("nan"), "column 'clicked': nan is not binary"),
        ("label", None, "column 'clicked' has 1 null"),
        ("label", 0.5, "column 'clicked': 0.5 is not binary"),
        ("label", -1.0, "column 'clicked': -1.0 is not binary"),
        ("weight", -1.0, "column 'w': -1.0 is not allowed"),
        ("weight", None, "column 'w' has 1 null"),
        ("time", float("inf"), "column 'at': inf is not finite"),
        ("time", None, "column 'at' has 1 null"),
    ],
)
@pytest.mark.parametrize("few", [0, 8], ids=["in bulk", "one by one"])
def test_a_value_that_is_not_taken_is_named_with_its_column_and_key(column, value, said, few, monkeypatch):
    monkeypatch.setattr(folding, "FEW", few)
    rows = table(5, keys=2).to_pylist()
    for row in rows:
        row["key"] = "a"
    rows[3][column] = value
    with pytest.raises(InputError) as found:
        [*folding.fold(pa.Table.from_pylist(rows).to_batches(), Platt(), NAMES)]
    assert str(found.value).startswith(said)
    assert value is None or "(key 'a')" in str(found.value)


@pytest.mark.parametrize("few", [0, 8], ids=["in bulk", "one by one"])
@pytest.mark.parametrize("t", [float("nan"), float("inf")])
def test_a_time_without_a_place_in_the_order_is_refused_where_only_the_order_counts(t, few, monkeypatch):
    monkeypatch.setattr(folding, "FEW", few)
    rows = pa.table({"score": [0.1, 0.2], "label": [1.0, 0.0], "time": [1.0, t]})
    with pytest.raises(InputError, match=f"^column 'at': {t} is not finite"):
        [*folding.fold(rows.to_batches(), OnlinePlatt(), NAMES, in_order=True)]


def test_times_are_read_as_seconds_of_utc():
    day = datetime.date(2026, 1, 2)
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 678_901)
    aware = moment.replace(tzinfo=datetime.UTC)
    assert folding._seconds(pa.array([day])).tolist() == [(day - datetime.date(1970, 1, 1)).days * 86_400.0]
    for unit, kind in ((moment, pa.timestamp("us")), (aware, pa.timestamp("us", "UTC"))):
        assert folding._seconds(pa.array([unit], kind)).tolist() == [aware.timestamp()]


@pytest.mark.parametrize("rows", [3, 300])
def test_times_in_another_unit_are_an_error(rows):
    """Nobody sees the warning of a worker."""
    given = table(rows, keys=2)
    given = given.set_column(4, "time", pa.array(1.7e12 + np.arange(rows)))
    with pytest.raises(InputError, match=r"column 'at': times such as 17\d+ look like milliseconds"):
        list(folding.fold(given.to_batches(), Platt(forgetting=Decay("6h", by="time")), NAMES, False))


def test_states_of_other_parameters_are_not_merged():
    states = []
    for calibrator in (Bernstein(3), Bernstein(4)):
        states += folding.fold([table().select(["score", "label"]).to_batches()[0]], calibrator, NAMES)
    with pytest.raises(MergeError, match="class and parameters"):
        [*folding.merge(states, Calibrator.from_bytes)]


@pytest.mark.sample(3)
@pytest.mark.parametrize("calibrator", [VennAbers(), Platt(), BBQ()], ids=repr)
def test_states_are_applied(calibrator, monkeypatch):
    monkeypatch.setattr(folding, "MOST_READ", 2)
    found = fitted(table(), calibrator)
    keys = ["a", "unknown", "k1", None, "a", "k2", "k0"]
    scores = pa.array([0.1, 0.2, 0.3, 0.4, None, 0.6, 0.7])
    applied = folding.Applied({key: one.to_bytes() for key, one in found.items()}.get, calibrator.has_interval, "ctr")
    rows = applied(scores, pa.array(keys)).to_pylist()
    for key, score, row in zip(keys, scores.to_pylist(), rows, strict=True):
        if score is None or key == "unknown":
            assert set(row.values()) == {None}
            continue
        # One and many may add up in another order: a unit in the last place.
        assert row["calibrated"] == pytest.approx(found[key].predict_one(score), rel=4e-16)
        if calibrator.has_interval:
            assert (row["lower"], row["upper"]) == found[key].predict_interval_one(score)
        else:
            assert set(row) == {"calibrated"}


def test_a_score_that_the_method_does_not_take_is_named():
    applied = folding.Applied({"a": Platt().to_bytes()}.get, False, "ctr")
    with pytest.raises(InputError, match=r"column 'ctr': 2.0 is not a probability .*\(key 'a'\)"):
        applied(pa.array([0.1, 2.0]), pa.array(["a", "a"]))


@pytest.mark.parametrize(
    ("calibrator", "said"), [(VennAbers(), "has intervals"), (Platt(), "has no intervals")], ids=repr
)
def test_states_with_and_without_intervals_are_not_mixed(calibrator, said):
    applied = folding.Applied({"a": calibrator.to_bytes()}.get, not calibrator.has_interval, "ctr")
    with pytest.raises(InputError, match=f"{said}, and others"):
        applied(pa.array([0.5]), pa.array(["a"]))


def test_keys_of_other_types():
    for values in ([1, 2, 1], [True, False, True], [datetime.date(2026, 1, 1), datetime.date(2026, 1, 2)] * 2):
        given = pa.table({"key": values, "score": [0.5] * len(values), "label": [1.0] * len(values)})
        assert set(fitted(given, Platt(), parts=2)) == set(values)


def test_numbers_of_any_type_are_read_as_doubles():
    column = pa.array([decimal.Decimal("0.25"), decimal.Decimal("1.00")])
    assert folding.numbers(column).tolist() == [0.25, 1.0]
    assert folding.numbers(pa.array([0, 1], pa.int8())).tolist() == [0.0, 1.0]
