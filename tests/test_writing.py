"""Writing records: what goes in comes out again, and files replaced in one step."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from record_files import read

from streamcal.stream import durable
from streamcal.stream.arrow import read_csv
from streamcal.stream.batches import CsvBatch, TableBatch
from streamcal.stream.durable import atomic_write
from streamcal.stream.reading import RecordReader
from streamcal.stream.records import RecordError
from streamcal.stream.writing import RecordWriter

ROWS = [{"id": f"a{k}", "score": f"0.{k:03d}0", "click": str(k % 2)} for k in range(25)]


def write(path: Path, text: str | bytes) -> Path:
    content = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"), max_size=8) | st.sampled_from(['"', ",", ""])


@given(rows=st.lists(st.lists(CELLS, min_size=2, max_size=2), max_size=6))
def test_csv_text_survives_the_way_through(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]) -> None:
    folder = tmp_path_factory.mktemp("way")
    with (folder / "in.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["a", "b"], *rows])
    with RecordReader(folder / "in.csv") as reader, RecordWriter(folder / "out.csv", reader.names) as writer:
        for chunk in reader:
            writer.write(chunk.rows)
    with (folder / "out.csv").open(newline="", encoding="utf-8") as file:
        assert list(csv.reader(file)) == [["a", "b"], *rows]


@pytest.mark.parametrize("between", [",", ";", "\t", "|"])
@pytest.mark.parametrize("name", ["a,b", "a;b;c;d", "a\tb\tc\td", "a|b|c|d", 'say "a,b"'])
def test_a_header_shows_the_same_delimiter_again(tmp_path: Path, between: str, name: str) -> None:
    for names in ([name, "click"], ["click", name], [name]):
        with RecordWriter(tmp_path / "o.csv", names, delimiter=between) as writer:
            writer.write([dict.fromkeys(names, "x")])
        with RecordReader(tmp_path / "o.csv") as reader:
            assert reader.names == tuple(names)
            assert [row for batch in reader for row in batch.rows] == [dict.fromkeys(names, "x")]


def test_a_header_has_no_more_quotes_than_it_needs(tmp_path: Path) -> None:
    with RecordWriter(tmp_path / "o.csv", ["a:b", "say", ""]):
        pass
    assert (tmp_path / "o.csv").read_text() == "a:b,say,\n"


def test_a_carriage_return_in_a_field_does_not_end_its_row(tmp_path: Path) -> None:
    rows = [{"a": "x\ry", "b": "\r"}, {"a": "\r\n", "b": "z\r\n"}]
    with RecordWriter(tmp_path / "out.csv", ["a", "b"]) as writer:
        writer.write(rows)
    assert read(tmp_path / "out.csv")[1] == rows
    assert (tmp_path / "out.csv").read_bytes() == b'a,b\n"x\ry","\r"\n"\r\n","z\r\n"\n'


def test_half_a_surrogate_pair_is_written_as_its_escape(tmp_path: Path) -> None:
    """JSON can hold it; UTF-8 cannot. Bytes that were no UTF-8, beside it, still come through."""
    source = write(tmp_path / "in.jsonl", b'{"a": "\\ud800\xff\\udfff"}\n')
    with RecordReader(source) as reader:
        rows = [row for chunk in reader for row in chunk.rows]
    for name in ("out.jsonl", "out.csv"):
        with RecordWriter(tmp_path / name, ["a"]) as writer:
            writer.write(rows)
    assert (tmp_path / "out.jsonl").read_bytes() == source.read_bytes()
    assert (tmp_path / "out.csv").read_bytes() == b"a\n\\ud800\xff\\udfff\n"


def test_csv_bytes_survive_even_if_not_utf8(tmp_path: Path) -> None:
    content = b"name,score\ncaf\xe9,0.10\n\xff\xfe,1E-03\n"
    source = write(tmp_path / "in.csv", content)
    with RecordReader(source) as reader, RecordWriter(tmp_path / "out.csv", reader.names) as writer:
        for chunk in reader:
            writer.write(chunk.rows)
    assert (tmp_path / "out.csv").read_bytes() == content


@pytest.mark.parametrize("name", ["o.csv", "o.csv.gz", "o.jsonl", "o.jsonl.gz", "o.parquet"])
def test_every_format_keeps_text_and_floats(tmp_path: Path, name: str) -> None:
    if name == "o.parquet":
        pytest.importorskip("pyarrow")
    rows = [{**row, "calibrated": k / 3} for k, row in enumerate(ROWS)]
    with RecordWriter(tmp_path / name, ["id", "score", "click", "calibrated"]) as writer:
        writer.write(rows[:10])
        writer.write(rows[10:])
    back = read(tmp_path / name)[1]
    if ".csv" in name:
        back = [{**row, "calibrated": float(row["calibrated"])} for row in back]
    assert back == rows  # the floats too, to the last digit


def test_same_rows_same_bytes(tmp_path: Path) -> None:
    for name in ("a.csv.gz", "b.csv.gz"):
        with RecordWriter(tmp_path / name, ["id", "score", "click"]) as writer:
            writer.write(ROWS)
    packed = (tmp_path / "a.csv.gz").read_bytes()
    assert packed == (tmp_path / "b.csv.gz").read_bytes()
    assert packed[4:8] == bytes(4)  # no time in the gzip header


def test_values_in_csv(tmp_path: Path) -> None:
    row = {"a": None, "b": True, "c": [1, "x"], "d": datetime(2026, 1, 31, tzinfo=UTC), "e": np.float64(0.1), "f": 7}
    with RecordWriter(tmp_path / "o.csv", [*row, "missing"]) as writer:
        writer.write([row])
    assert read(tmp_path / "o.csv")[1] == [
        {
            "a": "",
            "b": "true",
            "c": '[1, "x"]',
            "d": "2026-01-31T00:00:00+00:00",
            "e": "0.1",
            "f": "7",
            "missing": "",
        }
    ]


TYPES_OF_BYTES = {
    "binary": pa.binary(),
    "large": pa.large_binary(),
    "fixed": pa.binary(3),
    "view": pa.binary_view(),
    "dictionary": pa.dictionary(pa.int32(), pa.binary()),
    "list": pa.list_(pa.binary()),
    "struct": pa.struct([("x", pa.list_(pa.binary()))]),
}


def table_batch(column: pa.Array) -> TableBatch:
    return TableBatch(("id",), np.arange(1, len(column) + 1), pa.RecordBatch.from_arrays([column], names=["id"]))


def shaped(kind: str, value: Any) -> Any:
    """Put the value into a column of this type."""
    return [value] if kind == "list" else {"x": [value]} if kind == "struct" else value


@pytest.mark.parametrize("kind", TYPES_OF_BYTES)
def test_bytes_of_a_table_are_text(tmp_path: Path, kind: str) -> None:
    texts = ["c17", "ß!"]
    batch = table_batch(pa.array([shaped(kind, text.encode()) for text in texts], TYPES_OF_BYTES[kind]))
    for name in ("o.csv", "o.jsonl"):
        with RecordWriter(tmp_path / name, ["id"]) as writer:
            writer.write_batch(batch)
    expected = [shaped(kind, text) for text in texts]
    assert [row["id"] for row in read(tmp_path / "o.jsonl")[1]] == expected
    fields = [row["id"] for row in read(tmp_path / "o.csv")[1]]
    assert (list(map(json.loads, fields)) if kind in ("list", "struct") else fields) == expected


@pytest.mark.parametrize("kind", TYPES_OF_BYTES)
@pytest.mark.parametrize("name", ["o.csv", "o.jsonl"])
def test_bytes_of_a_table_that_are_no_utf_8_are_refused(tmp_path: Path, name: str, kind: str) -> None:
    batch = table_batch(pa.array([shaped(kind, b"\xff\x00!")], TYPES_OF_BYTES[kind]))
    with RecordWriter(tmp_path / name, ["id"]) as writer, pytest.raises(RecordError) as caught:
        writer.write_batch(batch)
    reason = "bytes that are no text in UTF-8; allowed: text, or an output of Parquet or Arrow"
    assert str(caught.value) == f"{tmp_path / name}, column 'id': {reason}"


def test_bytes_of_a_table_stay_bytes_in_a_table(tmp_path: Path) -> None:
    for name in ("o.parquet", "o.arrow"):
        with RecordWriter(tmp_path / name, ["id"]) as writer:
            writer.write_batch(table_batch(pa.array([b"\xff", None])))
        assert read(tmp_path / name)[1] == [{"id": b"\xff"}, {"id": None}]


def test_bytes_in_rows_are_text_with_escapes(tmp_path: Path) -> None:
    row = {"id": b"c17", "more": [b"a\xff"]}
    for name in ("o.csv", "o.jsonl"):
        with RecordWriter(tmp_path / name, list(row)) as writer:
            writer.write([row])
    assert read(tmp_path / "o.csv")[1] == [{"id": "c17", "more": '["a\\\\xff"]'}]
    assert read(tmp_path / "o.jsonl")[1] == [{"id": "c17", "more": ["a\\xff"]}]


def test_numbers_that_json_has_not_are_null(tmp_path: Path) -> None:
    """Also in what is nested, and in JSON that stands in a field of CSV."""
    numbers = [0.5, float("nan"), float("inf"), -float("inf")]
    batch = table_batch(pa.array([{"x": numbers, "y": numbers[1]}]))
    for name in ("o.csv", "o.jsonl"):
        with RecordWriter(tmp_path / name, ["id"]) as writer:
            writer.write_batch(batch)
    expected = '{"x": [0.5, null, null, null], "y": null}'
    assert (tmp_path / "o.jsonl").read_text() == f'{{"id": {expected}}}\n'
    assert read(tmp_path / "o.csv")[1] == [{"id": expected}]
    with RecordWriter(tmp_path / "o.csv", ["id"]) as writer:
        writer.write_batch(table_batch(pa.array(numbers)))
    assert (tmp_path / "o.csv").read_text() == "id\n0.5\nnan\ninf\n-inf\n"


def test_json_lines_keep_the_keys_of_each_row(tmp_path: Path) -> None:
    rows = [{"b": 1, "a": "é"}, {"a": None}, {"c": {"d": [True]}}]
    with RecordWriter(tmp_path / "o.jsonl", ["a", "b"]) as writer:
        writer.write(rows)
    assert [json.loads(line) for line in (tmp_path / "o.jsonl").read_text("utf-8").splitlines()] == rows


NOT_YET = [None, [], {}, {"a": None}, {"a": None, "b": 1}, [{"a": []}]]
AND_THEN = [0.5, ["x"], {"z": 1}, {"a": 1.5, "b": 2}, {"a": "x", "b": 2}, [{"a": [1]}]]


@pytest.mark.parametrize("name", ["out.parquet", "out.arrow"])
@pytest.mark.parametrize(("first", "later"), list(zip(NOT_YET, AND_THEN, strict=True)))
def test_a_type_is_that_of_the_first_values(tmp_path: Path, name: str, first: Any, later: Any) -> None:
    path = tmp_path / name
    with RecordWriter(path, ["id", "x"]) as writer:
        for begin in range(0, 60, 20):
            writer.write([{"id": i, "x": first if i < 45 else later} for i in range(begin, begin + 20)])
    found = [row["x"] for row in read(path)[1]]
    assert found[45:] == [later] * 15
    kept = {key: first.get(key) for key in later} if isinstance(first, dict) else first
    assert found[:45] == [kept] * 45


def test_no_key_is_lost_where_a_type_is_that_of_later_values(tmp_path: Path) -> None:
    path = tmp_path / "out.arrow"
    with RecordWriter(path, ["x"]) as writer:
        writer.write([{"x": {"a": None, "b": 1}}])
        with pytest.raises(RecordError, match="column 'x': a value does not fit"):
            writer.write([{"x": {"a": 1}}])


def test_parquet_types_are_kept(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = {"score": arrow.array([0.5, 0.25], arrow.float32()), "k": arrow.array([1, None], arrow.int8())}
    parquet.write_table(arrow.table(columns), tmp_path / "in.parquet")
    with RecordReader(tmp_path / "in.parquet", batch_rows=1) as reader:
        names = [*reader.names, "calibrated"]
        with RecordWriter(tmp_path / "out.parquet", names, types=reader.types) as writer:
            for chunk in reader:
                writer.write([{**row, "calibrated": 0.1} for row in chunk.rows])
    out = parquet.read_table(tmp_path / "out.parquet")
    assert [str(kind) for kind in out.schema.types] == ["float", "int8", "double"]
    assert out.column("k").to_pylist() == [1, None]


def test_parquet_without_rows_is_a_file_with_columns(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    RecordWriter(tmp_path / "o.parquet", ["a", "b"]).close()
    assert parquet.read_table(tmp_path / "o.parquet").column_names == ["a", "b"]


def test_parquet_refuses_what_does_not_fit(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    with RecordWriter(tmp_path / "o.parquet", ["a"]) as writer:
        writer.write([{"a": 1}])
        with pytest.raises(RecordError, match="int64") as caught:
            writer.write([{"a": "x"}])
    assert caught.value.column == "a"
    assert read(tmp_path / "o.parquet")[1] == [{"a": 1}]


@pytest.mark.parametrize("name", ["o.csv", "o.parquet"])
def test_columns_the_output_has_not(tmp_path: Path, name: str) -> None:
    if name == "o.parquet":
        pytest.importorskip("pyarrow")
    with RecordWriter(tmp_path / name, ["a"]) as writer, pytest.raises(RecordError, match="'a'") as caught:
        writer.write([{"a": 1, "new": 2}])
    assert caught.value.column == "new"


@pytest.mark.parametrize("name", ["o.csv", "o.csv.gz", "o.jsonl", "o.parquet"])
def test_files_that_cannot_be_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(RecordError, match="cannot be written"):
        RecordWriter(tmp_path / "no such folder" / name, ["a"])


def test_rows_before_an_error_are_in_the_output(tmp_path: Path) -> None:
    def broken() -> Iterator[dict[str, str]]:
        yield {"a": "1"}
        raise ZeroDivisionError

    with RecordWriter(tmp_path / "o.csv.gz", ["a"]) as writer, pytest.raises(ZeroDivisionError):
        writer.write(broken())
    assert read(tmp_path / "o.csv.gz")[1] == [{"a": "1"}]


def test_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    target = io.BytesIO()
    monkeypatch.setattr("sys.stdout", SimpleNamespace(buffer=target))
    with RecordWriter("-", ["a"]) as writer:
        writer.write([{"a": "1"}])
        writer.flush()
        assert target.getvalue() == b"a\n1\n"
    assert not target.closed


# -- replacing a file ----------------------------------------------------------------------------------------------


def test_atomic_write_replaces_and_keeps_permissions(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    umask = os.umask(0o027)
    try:
        atomic_write(path, b"one")
    finally:
        os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o604)
    atomic_write(path, b"two")
    assert path.read_bytes() == b"two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o604
    assert [item.name for item in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_atomic_write_that_fails_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(durable.os, step, fail)
    with pytest.raises(OSError, match="full"):
        atomic_write(path, b"new")
    assert path.read_bytes() == b"old"
    assert [item.name for item in tmp_path.iterdir()] == ["state.json"]


def test_atomic_write_leaves_a_symbolic_link(tmp_path: Path) -> None:
    target, link = tmp_path / "real.json", tmp_path / "link.json"
    target.write_bytes(b"old")
    link.symlink_to(target)
    atomic_write(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


#: What a table may have, and CSV as text: missing values, NaN, long ids, quotes, dictionaries, nested values, times.
CONVERTED = pa.RecordBatch.from_pydict(
    {
        "score": pa.array([0.1, None, float("nan"), 1e-300]),
        "id": pa.array([2**63 - 1, None, 0, -1]),
        "text": pa.array(['say "no"', None, "a,b\r\n", "12345678901234567890"]),
        "word": pa.array(["x", None, "y", "x"]).dictionary_encode(),
        "nested": pa.array([[1, 2], None, [], [3]]),
        "flag": pa.array([True, None, False, True]),
        "price": pa.array([Decimal("1.50"), None, Decimal("0.00"), Decimal("-2.25")]),
        "time": pa.array([datetime(2026, 1, 1), None, datetime(2026, 1, 2), datetime(2026, 1, 3)]),
    }
)


@pytest.mark.parametrize("rows", [0, 1, 4])
@pytest.mark.parametrize(("source", "ending"), [("table", "csv"), ("csv", "csv"), ("csv", "parquet"), ("csv", "arrow")])
def test_a_format_changed_by_column_is_as_by_row(tmp_path, ending, rows, source):
    batch = TableBatch(tuple(CONVERTED.schema.names), np.arange(1, rows + 1), CONVERTED.slice(0, rows))
    if source == "csv":
        with RecordWriter(tmp_path / "in.tsv", batch.names) as writer:
            writer.write(batch.rows)
        with RecordReader(tmp_path / "in.tsv") as reader:
            found = [*reader, CsvBatch(batch.names, np.empty(0, np.int64), read_csv(b"", batch.names, "\t"))]
        batch = found[0]
    added = np.linspace(0.0, 1.0, 2 * rows).reshape(rows, 2)
    names = [*batch.names, "no such", "calibrated", "lower"]
    one, other = tmp_path / f"one.{ending}", tmp_path / f"other.{ending}"
    with RecordWriter(one, names) as writer:
        writer.write_batch(batch, ["calibrated", "lower"], added)
    with RecordWriter(other, names) as writer:
        more = added.tolist()
        writer.write([{**row, "calibrated": p, "lower": low} for row, (p, low) in zip(batch.rows, more, strict=True)])
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
@pytest.mark.parametrize(
    ("first", "later", "becomes"),
    [
        (1, 1.5, "1.5 would become 1"),
        ([1], [2, 2.5], "[2, 2.5] would become [2, 2]"),
        ({"a": 1}, {"a": 1, "b": 2}, "{'a': 1, 'b': 2} would become {'a': 1}"),
        (1, 2.0, None),
        (1.5, 2, None),
        ({"a": 1, "b": [1]}, {"b": [3.0, None]}, None),
        (1.5, float("nan"), None),
    ],
)
def test_no_value_is_cut_to_the_type_of_those_before(
    tmp_path: Path, ending: str, first: Any, later: Any, becomes: str | None
) -> None:
    with RecordWriter(tmp_path / f"out.{ending}", ["x"]) as writer:
        writer.write([{"x": first}])
        with nullcontext() if becomes is None else pytest.raises(RecordError, match=re.escape(becomes)):
            writer.write([{"x": later}])


@pytest.mark.parametrize("ending", ["parquet", "arrow", "arrows"])
def test_batches_with_dictionaries_of_their_own(tmp_path: Path, ending: str) -> None:
    batches = [pa.RecordBatch.from_arrays([pa.array(x).dictionary_encode()], ["x"]) for x in (["a", None], ["b", "a"])]
    with RecordWriter(tmp_path / f"out.{ending}", ["x"]) as writer:
        for batch in batches:
            writer.write_batch(TableBatch(("x",), np.arange(1, 3), batch))
    with RecordReader(tmp_path / f"out.{ending}") as reader:
        assert [row["x"] for batch in reader for row in batch.rows] == ["a", None, "b", "a"]


@pytest.mark.parametrize(("fails", "refused"), [(PermissionError, True), (None, False)])
def test_locks_of_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: type[OSError] | None, refused: bool
) -> None:
    """Where there is no `fcntl`, a file that another run has locked is a `PermissionError`."""

    def locking(*_: int) -> None:
        if fails is not None:
            raise fails(13, "Permission denied")

    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", SimpleNamespace(LK_NBLCK=2, locking=locking))
    with pytest.raises(RecordError, match="another run is writing") if refused else nullcontext():
        RecordWriter(tmp_path / "out.csv", ["score"]).close()


def test_two_writers_of_one_file(tmp_path: Path) -> None:
    """A second writer is refused and leaves what the first one writes; afterwards the file can be written."""
    path = tmp_path / "out.csv"
    with RecordWriter(path, ["score"]) as writer:
        writer.write([{"score": "0.5"}])
        for append_at in (None, 3):
            with pytest.raises(RecordError, match="another run is writing this file; allowed: another name"):
                RecordWriter(path, ["score"], append_at=append_at)
        writer.write([{"score": "0.25"}])
    assert path.read_text() == "score\n0.5\n0.25\n"
    with RecordWriter(path, ["s"]):
        pass
    assert path.read_text() == "s\n"
