"""Columns of pandas, polars and Arrow, masked arrays and tensors, at every verb of every kind of method.

That their numbers are read as those of lists is in `test_read_only_arrays.py`; here are what comes back, and nulls.
"""

import subprocess
import sys

import numpy as np
import pytest

import streamcal
from streamcal import InputError, Platt, fusion, multiclass, regression
from streamcal.maps.portable import load_map
from streamcal.metrics import Brier

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")

ROWS = 24
SCORES = (np.arange(ROWS) % 8 + 0.5) / 8.0
LABELS = (np.arange(ROWS) * 5 % 7 < 3).astype(np.float64)
INDEX = pd.Index([f"row {i}" for i in range(ROWS)], name="request")
CLASSES = ["fox", "cat", "dog"]


class Tensor:
    """What of a tensor of torch counts here: it requires a gradient, and then refuses to be an array."""

    def __init__(self, values, requires_grad):
        self.values = values
        self.requires_grad = requires_grad

    def __array__(self, dtype=None, copy=None):
        if self.requires_grad:
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        return np.asarray(self.values, dtype=dtype)


class DeviceTensor:
    """A tensor that lies on another device."""

    def __array__(self, dtype=None, copy=None):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")


def assert_same_index(given, plain, columns=None):
    """Assert a Series, or a DataFrame, with the index of the scores and the numbers that arrays get."""
    assert type(given) is (pd.Series if plain.ndim == 1 else pd.DataFrame)
    pd.testing.assert_index_equal(given.index, INDEX)
    np.testing.assert_array_equal(given.to_numpy(), plain)
    assert columns is None or list(given.columns) == columns


def assert_polars(given, plain, columns=None):
    """A Series, or a DataFrame, of polars with the numbers that arrays are answered with."""
    assert type(given) is (pl.Series if plain.ndim == 1 else pl.DataFrame)
    np.testing.assert_array_equal(given.to_numpy(), plain)
    assert columns is None or given.columns == columns


def assert_verbs_keep_the_index(cal, frame, array, **named):
    """`predict_many` and `predict_interval_many` of the method and of its map; those of polars come back as such."""
    columns = named.get("labels")
    for one in (cal, cal.map()):
        plain = one.predict_many(array, **named)
        assert_same_index(one.predict_many(frame, **named), plain, columns)
        polars = pl.Series(array) if array.ndim == 1 else pl.DataFrame(array, schema=[str(c) for c in frame.columns])
        assert_polars(one.predict_many(polars, **named), plain, columns)
        if hasattr(one, "predict_interval_many"):
            ends = (one.predict_interval_many(given) for given in (frame, polars, array))
            for given, other, plain in zip(*ends, strict=True):
                assert_same_index(given, plain)
                assert_polars(other, plain)


@pytest.mark.parametrize("name", streamcal.REGISTRY)
def test_binary_methods_keep_the_index(name):
    cal = streamcal.REGISTRY[name]()
    series = pd.Series(SCORES, index=INDEX)
    assert_verbs_keep_the_index(cal, series, SCORES)
    cal.learn_many(series, pd.Series(LABELS, index=INDEX))
    assert_verbs_keep_the_index(cal, series, SCORES)


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", streamcal.REGISTRY)
def test_binary_streams_keep_the_index(name):
    scores, y = pd.Series(SCORES, index=INDEX), pd.Series(LABELS, index=INDEX)
    one, other = streamcal.REGISTRY[name](), streamcal.REGISTRY[name]()
    assert_same_index(one.predict_learn_many(scores, y), other.predict_learn_many(SCORES, LABELS))
    if one.has_interval:
        found = one.predict_interval_learn_many(scores, y), other.predict_interval_learn_many(SCORES, LABELS)
        for given, plain in zip(*found, strict=True):
            assert_same_index(given, plain)


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_tables_are_streams(table):
    columns = {"a": SCORES / 2.0, "b": 1.0 - SCORES / 2.0}
    array, frame, classes = np.column_stack(list(columns.values())), table(columns), ["a", "b"]
    y = np.where(LABELS, "a", "b")
    for make in (lambda: fusion.BernsteinFusion(2), fusion.LogisticFusion, fusion.PartialOrderVennAbers):
        found = [np.asarray(make().predict_learn_many(one, LABELS)).tolist() for one in (frame, array)]
        assert found[0] == found[1]
    for make in (multiclass.OnlineVectorScaling, multiclass.MulticlassVennAbers):
        found = [np.asarray(make().predict_learn_many(one, y, labels=classes)).tolist() for one in (frame, array)]
        assert found[0] == found[1]


@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
@pytest.mark.parametrize("verb", ["learn_many", "predict_learn_many"])
@pytest.mark.sample(36)
@pytest.mark.parametrize("name", fusion.METHODS)
def test_columns_of_a_table_are_read_by_name(name, verb, table):
    """Whatever was learned first, a dict or a table, the order of later columns does not matter."""
    b, a = np.random.default_rng(0).random((2, 200))
    y, each = b > 0.5, [dict(zip("ab", row, strict=True)) for row in zip(a.tolist(), b.tolist(), strict=True)]
    make = fusion.METHODS[name]
    by_table, by_dict, plain = make(), make(), make()
    getattr(by_table, verb)(table({"b": b, "a": a}), y)
    plain.learn_many(np.column_stack((b, a)), y)
    for scores, label in zip(each, y.tolist(), strict=True):
        by_dict.learn_one(scores, label)
    wanted = plain.predict_many(np.column_stack((b[:9], a[:9])))
    within = 1e-6  # solves that start elsewhere, or know the scores in another order, end so near
    for one in (by_table, by_dict):
        for columns in ({"a": a[:9], "b": b[:9]}, {"b": b[:9], "a": a[:9]}):
            np.testing.assert_allclose(np.asarray(one.predict_many(table(columns))), wanted, rtol=0, atol=within)
        again = type(one).from_bytes(one.to_bytes())
        assert again.predict_one(each[0]) == one.predict_one(each[0]) == pytest.approx(wanted[0], abs=within)
        with pytest.raises(InputError, match="the scores are named a, c; those learned were"):
            one.predict_many(table({"a": a, "c": b}))


@pytest.mark.sample(25)
@pytest.mark.parametrize("table", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
@pytest.mark.parametrize("name", multiclass.METHODS)
def test_columns_named_as_the_labels_are_read_by_name(name, table):
    columns = {"fox": SCORES / 2.0, "cat": SCORES / 4.0, "dog": 1.0 - 0.75 * SCORES}
    array, other = np.column_stack(list(columns.values())), table({one: columns[one] for one in ("dog", "fox", "cat")})
    y = CLASSES * (ROWS // 3)
    one, plain = multiclass.METHODS[name](), multiclass.METHODS[name]()
    found = one.predict_learn_many(other, y, labels=CLASSES)
    np.testing.assert_array_equal(np.asarray(found), plain.predict_learn_many(array, y, labels=CLASSES))
    later = one.predict_many(other, labels=CLASSES)
    np.testing.assert_array_equal(np.asarray(later), plain.predict_many(array, labels=CLASSES))


@pytest.mark.parametrize("labels", [[False, True], [True, False], [0, 1]])
def test_columns_of_pandas_named_by_bools_and_numbers_are_read_by_name(labels):
    frame = pd.DataFrame({labels[1]: SCORES, labels[0]: 1.0 - SCORES}, index=INDEX)
    array, y = np.column_stack((1.0 - SCORES, SCORES)), labels * (ROWS // 2)
    one, plain = multiclass.OneVsRest("platt"), multiclass.OneVsRest("platt")
    found = one.predict_learn_many(frame, y, labels=labels)
    np.testing.assert_array_equal(np.asarray(found), plain.predict_learn_many(array, y, labels=labels))


def test_streams_of_polars_come_back_as_polars():
    y = pl.Series(LABELS)
    for make in (streamcal.Platt, streamcal.OnlinePlatt, streamcal.Auto):
        found = make().predict_learn_many(pl.Series(SCORES), y)
        assert_polars(found, make().predict_learn_many(SCORES, LABELS))


def test_scores_of_folds_keep_the_index():
    cal = streamcal.CrossVennAbers(folds=2)
    cal.learn_many(SCORES, LABELS, fold=np.arange(ROWS) % 2)
    columns = np.column_stack((SCORES, SCORES[::-1]))
    assert_verbs_keep_the_index(cal, pd.DataFrame(columns, index=INDEX), columns)


@pytest.mark.parametrize("name", fusion.METHODS)
def test_fusion_methods_keep_the_index(name):
    cal = fusion.METHODS[name](3) if name == "bernstein-fusion" else fusion.METHODS[name]()
    columns = np.column_stack((SCORES, SCORES[::-1]))
    frame = pd.DataFrame(columns, index=INDEX)
    cal.learn_many(frame, LABELS)
    assert_verbs_keep_the_index(cal, frame, columns)


@pytest.mark.parametrize("name", multiclass.METHODS)
def test_multiclass_methods_keep_the_index_and_name_the_columns(name):
    cal = multiclass.METHODS[name]()
    P = np.column_stack((SCORES / 2.0, SCORES / 2.0, 1.0 - SCORES))
    frame = pd.DataFrame(P, index=INDEX, columns=CLASSES)
    cal.learn_many(frame, pd.Series(CLASSES * (ROWS // 3), index=INDEX), labels=CLASSES)
    assert_verbs_keep_the_index(cal, frame, P, labels=CLASSES)


@pytest.mark.parametrize("column", [pa.array(SCORES), np.ma.array(SCORES), pd.Index(SCORES), SCORES.tolist()], ids=type)
def test_anything_else_comes_back_as_an_array(column):
    assert type(Platt().predict_many(column)) is np.ndarray


#: Two nulls each, the first at place 1.
NULLS = {
    "pandas": lambda: pd.Series([0.5, None, 0.25, None]),
    "pandas, nullable": lambda: pd.Series([0.5, None, 0.25, None], dtype="Float64"),
    "pandas, Arrow": lambda: pd.Series([0.5, None, 0.25, None], dtype="double[pyarrow]"),
    "polars": lambda: pl.Series([0.5, None, 0.25, None]),
    "Arrow": lambda: pa.array([0.5, None, 0.25, None]),
    "Arrow, chunks": lambda: pa.chunked_array([[0.5], [None, 0.25, None]]),
    "masked": lambda: np.ma.array([0.5, 7.0, 0.25, 7.0], mask=[False, True, False, True]),
}


@pytest.mark.parametrize("form", NULLS)
@pytest.mark.parametrize("argument", ["scores", "y", "w", "t"])
def test_nulls_are_counted_and_the_first_is_named(form, argument):
    arguments = {name: [0.0, 1.0, 1.0, 1.0] for name in ("scores", "y", "w", "t")}
    arguments[argument] = NULLS[form]()
    cal = streamcal.VennAbers(forgetting=streamcal.Window(2.0, by="time"))
    with pytest.raises(InputError, match=rf"{argument} has 2 nulls in 4 rows, the first at {argument}\[1\]"):
        cal.learn_many(**arguments)
    assert cal.n == 0.0


@pytest.mark.parametrize("form", NULLS)
def test_nulls_at_the_other_verbs(form):
    cal = streamcal.VennAbers()
    for verb in (cal.predict_many, cal.predict_interval_many, cal.map().predict_many, regression.Sample):
        with pytest.raises(InputError, match=r"2 nulls in 4 rows, the first at \w+\[1\]"):
            verb(NULLS[form]())
    with pytest.raises(InputError, match="y has 2 nulls"):
        regression.QuantileRecalibration().learn_many([regression.Normal(0.0, 1.0)] * 4, NULLS[form]())
    with pytest.raises(InputError, match="2 nulls"):
        Brier().update_many(NULLS[form](), [0.5] * 4)


@pytest.mark.parametrize(
    "table",
    [
        lambda rows: pd.DataFrame(rows, dtype="Float64"),
        lambda rows: pl.DataFrame(rows, orient="row"),
        lambda rows: pa.table([pa.array(column) for column in zip(*rows, strict=True)], names=["a", "b"]),
        lambda rows: np.ma.array(
            [[one or 7.0 for one in row] for row in rows], mask=[[not x for x in r] for r in rows]
        ),
    ],
)
def test_nulls_of_tables(table):
    rows = [[0.5, 0.25], [0.5, None], [0.5, 0.25]]
    with pytest.raises(InputError, match=r"scores has 1 null in 3 rows, the first at scores\[1, 1\]"):
        fusion.MRMIC().learn_many(table(rows), [0, 1, 1])
    with pytest.raises(InputError, match=r"the first at scores\[1, 1\]"):
        multiclass.OneVsRest().predict_many(table(rows), labels=["a", "b"])
    with pytest.raises(InputError, match=r"the first at scores\[1, 1\]"):
        streamcal.CrossVennAbers(folds=2).predict_many(table(rows))


@pytest.mark.parametrize("column", [pd.Series(["a", None]), pl.Series(["a", None]), pa.array(["a", None])], ids=type)
def test_nulls_among_class_labels(column):
    with pytest.raises(InputError, match=r"y has 1 null in 2 rows, the first at y\[1\]"):
        multiclass.OneVsRest().learn_many([[0.5, 0.5]] * 2, column, labels=["a", "b"])


def test_a_served_map_refuses_masked_scores():
    with pytest.raises(ValueError, match="masked"):
        load_map(Platt().map().to_json()).predict_many(NULLS["masked"]())


def test_tensors():
    cal = Platt()
    assert cal.predict_many(Tensor([0.5, 0.25], requires_grad=False)).tolist() == cal.predict_many([0.5, 0.25]).tolist()
    with pytest.raises(InputError, match=r"scores requires a gradient.*give scores\.detach\(\)"):
        cal.predict_many(Tensor([0.5], requires_grad=True))
    with pytest.raises(InputError, match=r"y requires a gradient"):
        cal.learn_many([0.5], Tensor([1.0], requires_grad=True))
    with pytest.raises(InputError, match="scores cannot be read as an array: can't convert cuda:0"):
        cal.predict_many(DeviceTensor())


@pytest.mark.parametrize("kind", ["m8[ns]", "m8[s]", "M8[ns]"])
def test_spans_and_points_of_time_are_no_numbers(kind):
    """NumPy reads them as numbers of their unit: a label, a weight or an outcome of one nanosecond would be 1."""
    many, one = np.array([0, 1], dtype=kind), np.array([0, 1], dtype=kind)[1]
    p, n, forecast = [0.2, 0.3], [0, 1], regression.Normal(1.0, 1.0)
    timed = Platt(forgetting=streamcal.Decay(5.0, by="time"))
    calls = [
        lambda: Platt().learn_many(many, n),
        lambda: Platt().learn_many(p, many),
        lambda: Platt().learn_many(p, n, many),
        lambda: Platt().learn_many(p, list(many)),
        lambda: Platt().learn_one(one, 1),
        lambda: Platt().learn_one(0.3, one),
        lambda: Platt().learn_one(0.3, 1, one),
        lambda: Brier().update_many(many, p),
        lambda: Brier().update(1, one),
        lambda: regression.Composition().learn_one(forecast, one),
        lambda: regression.Composition().learn_many([forecast] * 2, many),
        lambda: multiclass.VectorScaling().learn_many([many], ["a"], labels=["a", "b"]),
    ]
    if kind[0] == "m":
        calls += [lambda: timed.learn_many(p, n, t=many), lambda: timed.learn_one(0.3, 1, t=one)]
    for call in calls:
        with pytest.raises(InputError):
            call()


def test_a_lazy_frame_and_long_objects_are_named():
    with pytest.raises(InputError, match=r"scores is a LazyFrame, which has no values yet; give scores.collect\(\)"):
        Platt().learn_many(pl.LazyFrame({"p": [0.5]}), [1])
    with pytest.raises(InputError, match="is of type set; give a list or an array") as error:
        Platt().learn_many(set(range(10_000)), [1])
    assert len(str(error.value)) < 200


def test_none_of_these_libraries_is_imported():
    code = "import sys, streamcal; streamcal.Identity().predict_many([0.5]); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    assert not {"'pandas'", "'polars'", "'pyarrow'", "'torch'"} & set(done.stdout.strip("[]\n").split(", "))
