"""`streamcal.calibrate`: tables of pandas, polars, Arrow, and of whoever speaks its C interface."""

from __future__ import annotations

import warnings
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from test_cli import made, read, run, save

import streamcal
from streamcal import InputError, Isotonic, OnlinePlatt, Platt, SolverError, VennAbers, Window
from streamcal.live import Segmented


class Foreign:
    """A table of a library that nobody here knows, as a relation of DuckDB is."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


ROWS = made(300)
ARROW = pa.Table.from_pylist(ROWS)
TABLES = {
    "pandas": pd.DataFrame(ROWS, index=pd.Index([f"row {i}" for i in range(len(ROWS))], name="request")),
    "polars": pl.DataFrame(ROWS),
    "arrow": ARROW,
    "chunks": pa.concat_tables([ARROW.slice(0, 7), ARROW.slice(7)]),
    "batch": ARROW.combine_chunks().to_batches()[0],
    "foreign": Foreign(ARROW),
}


def columns(table: Any) -> dict[str, list[Any]]:
    if isinstance(table, pd.DataFrame):
        return {name: table[name].tolist() for name in table.columns}
    return table.to_dict(as_series=False) if isinstance(table, pl.DataFrame) else table.to_pydict()


@pytest.mark.sample(4)
@pytest.mark.filterwarnings("ignore:time='t' has no effect")
@pytest.mark.parametrize("method", ["ops", "venn-abers"])
@pytest.mark.parametrize("name", TABLES)
def test_a_table_gets_the_columns_that_a_run_adds(tmp_path: Any, name: str, method: str) -> None:
    table = TABLES[name]
    out = tmp_path / "out.parquet"
    options = ["--method", method, "--weight", "w", "--time", "t"]
    assert run(save(tmp_path / "in.parquet", ROWS), *options, "--out", out).exit_code == 0
    expected = {key: [row[key] for row in read(out)] for key in read(out)[0]}
    found = streamcal.calibrate(table, score="score", label="click", calibrator=method, weight="w", time="t")
    assert type(found) is (type(table) if name in ("pandas", "polars") else pa.Table)
    assert columns(found) == expected
    if name == "pandas":
        pd.testing.assert_index_equal(found.index, table.index)
        assert "calibrated" not in table.columns


@pytest.mark.parametrize("name", ["pandas", "polars", "arrow"])
def test_columns_of_other_types(name: str) -> None:
    values = {"score": [0.25, 0.5], "click": ["no", "yes"], "t": ["2026-01-31", "2026-02-01"]}
    table = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}[name](values)
    cal = Isotonic(forgetting=Window(3600, by="time"))
    streamcal.calibrate(table, score="score", label="click", time="t", calibrator=cal)
    assert cal.n == 1
    parsed = {**values, "t": [pd.Timestamp(t) for t in values["t"]], "score": [1, 0], "click": [True, False]}
    table = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}[name](parsed)
    assert columns(streamcal.calibrate(table, score="score", label="click", time="t"))["score"] == [1, 0]


def texts(values: list[Any], kind: Any, coded: bool) -> Any:
    """Make a column of texts or bytes of this type of Arrow, or a dictionary of them."""
    as_bytes = kind in (pa.binary(), pa.large_binary(), pa.binary_view())
    column = pa.array([str(value).encode() if as_bytes else str(value) for value in values], kind)
    return pa.DictionaryArray.from_arrays(pa.array(range(len(values)), pa.int32()), column) if coded else column


KINDS = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()]


@pytest.mark.sample(12)
@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_texts_of_every_type_of_arrow(tmp_path: Any, kind: Any, coded: bool) -> None:
    """In columns that are used and that are passed on; a row in the midst of which a score is missing is left out."""
    table = pa.table({name: texts([row[name] for row in ROWS], kind, coded) for name in ROWS[0]})
    names = {"score": "score", "label": "click", "weight": "w", "time": "t"}
    found = streamcal.calibrate(table, **names)
    assert found.schema.field("id").type == table.schema.field("id").type
    assert found["calibrated"] == streamcal.calibrate(ARROW, **names)["calibrated"]

    holes = pa.array([None if i == 5 else row["score"] for i, row in enumerate(ROWS)])
    nested = pa.array([[value] for value in table["id"].to_pylist()], pa.list_(kind))
    table = table.set_column(1, "score", holes).append_column("names", nested)
    with pa.ipc.new_file(tmp_path / "in.arrow", table.schema) as writer:
        writer.write_table(table)
    for out in ("out.arrow", "out.parquet"):
        options = ["--weight", "w", "--segment", "id", "--on-error", "skip", "--out", tmp_path / out]
        result = run(tmp_path / "in.arrow", *options)
        assert result.exit_code == 0, result.output
        rows = read(tmp_path / out)
        assert [row["names"] for row in rows] == nested.to_pylist()[:5] + nested.to_pylist()[6:]


def test_the_calibrator_given_learns() -> None:
    cal = OnlinePlatt()
    streamcal.calibrate(ARROW, score="score", label="click", calibrator=cal)
    assert cal.n == len(ROWS)


def test_a_table_without_rows() -> None:
    found = streamcal.calibrate(ARROW.slice(0, 0), score="score", label="click", calibrator=VennAbers())
    assert found.column_names == [*ARROW.column_names, "calibrated", "lower", "upper"]
    assert len(found) == 0


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("score", 1.5, "row 18, column 'score': 1.5 cannot be used; allowed: a number from 0 to 1"),
        ("score", None, "row 18, column 'score': the value is missing"),
        ("click", 7, "row 18, column 'click': 7 cannot be used"),
        ("w", -1, "row 18, column 'w': -1 cannot be used"),
    ],
)
def test_a_field_that_cannot_be_used(column: str, value: Any, message: str) -> None:
    rows = made(100)
    rows[17][column] = value
    cal = OnlinePlatt()
    with pytest.raises(InputError) as caught:
        streamcal.calibrate(pa.Table.from_pylist(rows), score="score", label="click", weight="w", calibrator=cal)
    assert str(caught.value).startswith(message)
    assert cal.n == 0


def test_a_solver_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    predict = Platt.predict_one

    def giving_up(self: Platt, score: float, t: float | None = None) -> float:
        if self.n == 7.0:
            raise SolverError("it ended with status 'cycling'")
        return predict(self, score, t)

    monkeypatch.setattr(Platt, "predict_one", giving_up)
    monkeypatch.setattr(Platt, "_streamed", streamcal.Calibrator._streamed)
    cal = Platt()
    with pytest.raises(SolverError, match="cycling"):
        streamcal.calibrate(ARROW, score="score", label="click", calibrator=cal)
    assert cal.n == 7


def test_columns_that_are_not_there_or_there_already() -> None:
    with pytest.raises(
        InputError, match="there is no column 'scores' \\(did you mean 'score'\\?\\); there are 'id', 'score'"
    ):
        streamcal.calibrate(ARROW, score="scores", label="click")
    with pytest.raises(InputError, match="the table has a column 'calibrated', which would be added"):
        streamcal.calibrate(ARROW.append_column("calibrated", ARROW["score"]), score="score", label="click")


def frame(library: Any, scores: list[Any], labels: list[Any]) -> Any:
    """Make a table with columns of objects, as for values of several types."""
    if library is pd:
        return pd.DataFrame({"s": pd.Series(scores, dtype=object), "y": pd.Series(labels, dtype=object)})
    return pl.DataFrame({"s": pl.Series(scores, dtype=pl.Object), "y": pl.Series(labels, dtype=pl.Object)})


@pytest.mark.parametrize("library", [pd, pl])
def test_a_column_of_objects_of_several_types_is_read_as_one_of_csv(library: Any) -> None:
    plain = pd.DataFrame({"s": [0.1, 0.2, 0.7, 1.0], "y": [0, 1, 0, 1]})
    expected = streamcal.calibrate(plain, score="s", label="y", calibrator="ops")["calibrated"].to_list()
    for scores, labels in (
        ([0.1, "0.2", Decimal("0.7"), 1], [0, "1", False, True]),
        ([0.1, " 0.2", 0.7, b"1.0"], ["no", True, 0.0, b"yes"]),
    ):
        table = frame(library, scores, labels)
        found = streamcal.calibrate(table, score="s", label="y", calibrator="ops")
        assert found["calibrated"].to_list() == expected
        assert found["s"].to_list() == scores
        assert streamcal.compare(table, score="s", label="y", methods=["ops"]).rows == 4


@pytest.mark.sample(2)
@pytest.mark.parametrize("library", [pd, pl])
@pytest.mark.parametrize(
    ("scores", "labels", "message"),
    [
        ([0.1, "n/a", 0.3], [0, 1, 0], "row 2, column 's': 'n/a' cannot be used; allowed: a number from 0 to 1; leave"),
        ([0.1, "0.2", None], [0, 1, 0], "row 3, column 's': the value is missing"),
        ([0.1, 1j, 0.3], [0, 1, 0], "row 2, column 's': '1j' cannot be used"),
        ([0.1, 0.2, [0.3, 0.4]], [0, 1, 0], "row 3, column 's': '[0.3, 0.4]' cannot be used"),
        ([0.1, 0.2, 0.3], [0, "1", "maybe"], "row 3, column 'y': 'maybe' cannot be used"),
    ],
)
def test_an_object_that_cannot_be_used_has_its_row(
    library: Any, scores: list[Any], labels: list[Any], message: str
) -> None:
    table = frame(library, scores, labels)
    for call in (streamcal.calibrate, streamcal.compare):
        with pytest.raises(InputError) as caught:
            call(table, score="s", label="y")
        assert str(caught.value).startswith(message)


def test_a_type_of_numpy_that_arrow_has_not() -> None:
    with pytest.raises(InputError, match=r"row 1, column 's': '\(0.1\+0j\)' cannot be used"):
        streamcal.calibrate(pd.DataFrame({"s": np.array([0.1 + 0j]), "y": [0]}), score="s", label="y")


def test_a_lazy_frame_is_collected() -> None:
    table = TABLES["polars"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = streamcal.calibrate(table.lazy(), score="score", label="click", calibrator="ops")
    assert found.equals(streamcal.calibrate(table, score="score", label="click", calibrator="ops"))
    assert streamcal.compare(table.lazy(), score="score", label="click", methods=["ops"]).rows == len(table)


def test_names_that_are_numbers_and_columns_that_are_there_twice() -> None:
    table = pd.DataFrame({0: [0.1, 0.2], 1: [0, 1]})
    named = table.set_axis(["s", "y"], axis=1)
    expected = streamcal.calibrate(named, score="s", label="y", calibrator="ops")["calibrated"].tolist()
    assert streamcal.calibrate(table, score=0, label=1, calibrator="ops")["calibrated"].tolist() == expected
    for call in (streamcal.calibrate, streamcal.compare):
        with pytest.raises(InputError, match="there is no column '0' \\(did you mean 0\\?\\); there are 0, 1"):
            call(table, score="0", label=1)
        with pytest.raises(InputError, match="the table has 2 columns 's'; rename all but one"):
            call(pd.concat([named, named], axis=1), score="s", label="y")
    more = pd.concat([named, pd.DataFrame({"z": [1, 2]}), pd.DataFrame({"z": [3, 4]})], axis=1)
    assert streamcal.calibrate(more, score="s", label="y", calibrator="ops")["calibrated"].tolist() == expected


@pytest.mark.parametrize("table", [None, [[0.1, 0]], np.array([[0.1, 0]]), pd.Series([0.1]), pl.Series([0.1])])
def test_what_is_no_table(table: Any) -> None:
    message = f"^{type(table).__name__} cannot be read as a table: .*; give a DataFrame"
    for call in (streamcal.calibrate, streamcal.compare):
        with pytest.raises(InputError, match=message):
            call(table, score="s", label="y")


def test_a_column_is_given_by_its_name() -> None:
    table = pd.DataFrame({"s": [0.1], "y": [0]})
    for call in (streamcal.calibrate, streamcal.compare):
        with pytest.raises(InputError, match="a column is given by its name, and Series is none"):
            call(table, score=table["s"], label="y")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.uint64, np.bool_])
def test_columns_of_any_type_of_number(dtype: Any) -> None:
    scores, labels = np.array([0, 1, 1, 0]).astype(dtype), np.array([1, 0, 1, 1]).astype(dtype)
    expected = OnlinePlatt().predict_learn_many(scores.astype(float), labels.astype(float))
    for column in (np.asarray, pd.Series, pl.Series) if dtype is not np.float16 else (np.asarray, pd.Series, pa.array):
        assert (
            np.asarray(OnlinePlatt().predict_learn_many(column(scores), column(labels))).tolist() == expected.tolist()
        )


def test_a_stream_of_batches_is_read_once() -> None:
    stream = pa.RecordBatchReader.from_batches(ARROW.schema, ARROW.to_batches())
    found = streamcal.calibrate(stream, score="score", label="click", calibrator="ops")
    assert found.equals(streamcal.calibrate(ARROW, score="score", label="click", calibrator="ops"))


def test_the_positive_label_is_named_and_errors_speak_of_arguments() -> None:
    table = pd.DataFrame({"score": [0.1, 0.2], "y": ["no click", "click"]})
    found = streamcal.calibrate(table, score="score", label="y", calibrator="ops", positive="click")
    numbers = pd.DataFrame({"score": [0.1, 0.2], "y": [1, 2]})
    same = streamcal.calibrate(numbers, score="score", label="y", calibrator="ops", positive=2)
    assert found["calibrated"].tolist() == same["calibrated"].tolist()
    with pytest.raises(InputError, match="or give positive=VALUE"):
        streamcal.calibrate(table, score="score", label="y")
    with pytest.raises(InputError, match=r"give a calibrator with a scale, such as Interval\(lo, hi\)"):
        streamcal.calibrate(pd.DataFrame({"score": [7.0], "y": [1]}), score="score", label="y")
    more = pd.DataFrame({"score": [0.1, 0.2, 0.3], "y": ["no click", "click", "buy"]})
    with pytest.raises(InputError, match=r"third label; allowed: 'click' \(positive\)") as raised:
        streamcal.calibrate(more, score="score", label="y", positive="click")
    assert "--" not in str(raised.value)


@pytest.mark.parametrize(
    ("calibrator", "remedy"),
    [("ops", "online-platt does not read times"), ("platt", r"give Platt\(forgetting=Window\('24h'\)\)")],
)
def test_times_that_are_not_read_are_told(calibrator, remedy):
    table = pd.DataFrame({"score": [0.1, 0.9], "click": [0, 1], "t": [1, 2]})
    with pytest.warns(UserWarning, match=f"time='t' has no effect.*{remedy}") as found:
        streamcal.calibrate(table, score="score", label="click", time="t", calibrator=calibrator)
    assert found[0].filename == __file__, "the line of the caller"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for reading in ("auto", streamcal.Platt(forgetting=streamcal.Window("24h"))):
            streamcal.calibrate(table, score="score", label="click", time="t", calibrator=reading)


# -- segments --------------------------------------------------------------------------------------------------------


SEGMENTED = [{**row, "ad": f"a{k % 3}" if k % 7 else None, "site": k % 2} for k, row in enumerate(ROWS)]


@pytest.mark.parametrize("name", ["pandas", "polars", "arrow"])
def test_segments_are_those_of_a_run(tmp_path: Any, name: str) -> None:
    table = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.Table.from_pylist}[name](SEGMENTED)
    out = tmp_path / "out.parquet"
    options = ["--method", "ops", "--segment", "ad", "--segment", "ad,site", "--out", out]
    assert run(save(tmp_path / "in.parquet", SEGMENTED), *options).exit_code == 0
    wanted = [row["calibrated"] for row in read(out)]
    how = {"score": "score", "label": "click"}
    found = streamcal.calibrate(table, calibrator="ops", segment=["ad", ("ad", "site")], **how)
    assert columns(found)["calibrated"] == wanted
    cal = Segmented("ops", by=["ad", ("ad", "site")])
    assert columns(streamcal.calibrate(table, calibrator=cal, **how))["calibrated"] == wanted
    assert cal.n == len(ROWS), "the calibrator given has learned"
    alone = columns(streamcal.calibrate(table, calibrator="ops", segment="ad", **how))["calibrated"]
    assert alone != wanted
    assert alone != columns(streamcal.calibrate(table, calibrator="ops", **how))["calibrated"]


def test_segments_that_are_not_possible() -> None:
    how = {"score": "score", "label": "click"}
    with pytest.raises(InputError, match=r"there is no column 'add' \(did you mean 'ad'\?\)"):
        streamcal.calibrate(pd.DataFrame(SEGMENTED), segment="add", **how)
    with pytest.raises(InputError, match="which has fields, exclude each other"):
        streamcal.calibrate(pd.DataFrame(SEGMENTED), calibrator=Segmented("ops", by=["ad"]), segment="ad", **how)
    with pytest.raises(InputError, match="is the label, which a segment would give away"):
        streamcal.calibrate(pd.DataFrame(SEGMENTED), segment="click", **how)
    with pytest.raises(InputError, match="row 1, column 'w'"):
        streamcal.calibrate(pd.DataFrame(SEGMENTED).assign(w=0.5), segment="w", **how)
