"""Reading records: formats, row numbers, fields, and what is said about bad ones."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import math
import zlib
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from record_files import read

from streamcal.errors import InputError
from streamcal.stream.files import FileKind
from streamcal.stream.reading import BLOCK_BYTES, RecordReader
from streamcal.stream.records import LabelReader, RecordError, parse_label, parse_score, parse_weight
from streamcal.stream.times import TimeReader
from streamcal.stream.writing import RecordWriter

ROWS = [{"id": f"a{k}", "score": f"0.{k:03d}0", "click": str(k % 2)} for k in range(25)]
CSV = "id,score,click\n" + "".join(f"{r['id']},{r['score']},{r['click']}\n" for r in ROWS)


def read_until_error(path: Path, **options: Any) -> tuple[list[dict[str, Any]], RecordError]:
    rows: list[dict[str, Any]] = []
    with RecordReader(path, **options) as reader, pytest.raises(RecordError) as caught:
        rows.extend(row for chunk in reader for row in chunk.rows)
    return rows, caught.value


def write(path: Path, text: str | bytes) -> Path:
    content = text.encode() if isinstance(text, str) else text
    compress = {".gz": gzip.compress, ".bz2": bz2.compress}.get(path.suffix, bytes)
    path.write_bytes(compress(content))
    return path


# -- reading -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_rows", [1, 7, 25, 4096])
@pytest.mark.parametrize("name", ["s.csv", "s.csv.gz", "s.csv.bz2", "S.CSV"])
def test_csv_in_chunks(tmp_path: Path, name: str, batch_rows: int) -> None:
    path = write(tmp_path / name, CSV) if name != "S.CSV" else write(tmp_path / "S.CSV", CSV)
    assert read(path, batch_rows=batch_rows) == (list(range(1, 26)), ROWS)


@pytest.mark.parametrize("name", ["s.jsonl", "s.ndjson", "s.jsonl.gz", "s.ndjson.gz"])
def test_json_lines(tmp_path: Path, name: str) -> None:
    rows = [{"score": 0.25, "click": True}, {"score": 1e-7, "click": False, "more": [1, None]}, {"click": 1}]
    path = write(tmp_path / name, "".join(json.dumps(row) + "\n\n" for row in rows))
    assert read(path) == ([1, 2, 3], rows)
    assert RecordReader(path).names == ("score", "click")


def test_parquet(tmp_path: Path) -> None:
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    moment = datetime(2026, 1, 31, tzinfo=UTC)
    table = arrow.table({"score": [0.1, None, 0.3], "click": [True, False, True], "at": [moment] * 3})
    parquet.write_table(table, tmp_path / "s.parquet")
    numbers, rows = read(tmp_path / "s.parquet", batch_rows=2)
    assert numbers == [1, 2, 3]
    assert rows[1] == {"score": None, "click": False, "at": moment}


@pytest.mark.parametrize("name", ["s.parquet", "s.arrow"])
def test_what_was_read_of_a_table_is_not_kept(tmp_path: Path, name: str) -> None:
    """Ten row groups of .8 MB of noise, which no encoding makes smaller; one, its page and a batch are in memory."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = 1_000_000
    table = arrow.table({"score": np.random.default_rng(0).random(rows)})
    size = table.nbytes // 10
    if name == "s.parquet":
        parquet.write_table(table, tmp_path / name, row_group_size=rows // 10, use_dictionary=False)
    else:
        with arrow.OSFile(str(tmp_path / name), "wb") as file, arrow.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=rows // 10)
    del table
    held = []
    before = arrow.total_allocated_bytes()
    with RecordReader(tmp_path / name) as reader:
        for _ in reader:
            held.append(arrow.total_allocated_bytes() - before)
    assert len(held) >= 10
    assert max(held) <= 3 * size


@pytest.mark.parametrize(("format", "text"), [(None, CSV), ("jsonl", '{"score": 1}\n')])
def test_standard_input(monkeypatch: pytest.MonkeyPatch, format: str | None, text: str) -> None:
    source = io.BytesIO(text.encode())
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=source))
    _, rows = read("-", format=format)
    assert rows == (ROWS if format is None else [{"score": 1}])
    assert not source.closed


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, pa.Codec("zstd").compress, pa.Codec("lz4").compress])
def test_compression_on_standard_input(monkeypatch: pytest.MonkeyPatch, compress: Any) -> None:
    source = io.BytesIO(bytes(compress(CSV.encode())))
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=source))
    assert read("-")[1] == ROWS
    assert not source.closed


@pytest.mark.parametrize("between", [",", ";", "\t", "|"])
def test_the_header_shows_the_delimiter(tmp_path: Path, between: str) -> None:
    path = write(tmp_path / "s.csv", "\n" + CSV.replace(",", between))
    assert read(path)[1] == ROWS
    with RecordReader(path) as reader:
        assert reader.delimiter == between


@pytest.mark.parametrize(
    ("name", "text", "delimiter", "names"),
    [
        ("s.csv", 'id;"score, raw";"a|b|c|d"\n', None, ("id", "score, raw", "a|b|c|d")),
        ("s.csv", "amount;eur,click\n", None, ("amount;eur", "click")),
        ("s.csv", "amount;eur,click\n", ";", ("amount", "eur,click")),
        ("s.csv", "a:b\n", ":", ("a", "b")),
        ("s.csv", "a\n", None, ("a",)),
        ("s.tsv", "a,b\tc\n", None, ("a,b", "c")),
        ("s.tsv.bz2", "a\tb\n", None, ("a", "b")),
    ],
)
def test_delimiters(tmp_path: Path, name: str, text: str, delimiter: str | None, names: tuple[str, ...]) -> None:
    with RecordReader(write(tmp_path / name, text), delimiter=delimiter) as reader:
        assert reader.names == names


def test_a_delimiter_is_for_csv_and_named_where_a_single_column_was_found(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="only CSV has a delimiter"):
        RecordReader(write(tmp_path / "s.jsonl", "{}"), delimiter=";")
    with (
        RecordReader(write(tmp_path / "s.csv", "score:click\n1:2\n")) as reader,
        pytest.raises(RecordError, match="--delimiter"),
    ):
        reader.require("score")


def test_a_row_that_cannot_be_split_is_shown_with_its_own_delimiter(tmp_path: Path) -> None:
    _, error = read_until_error(write(tmp_path / "s.csv", "a;b\n1;2;3\n"))
    assert error.record == "1;2;3"


@pytest.mark.parametrize(("ending", "name"), [("zst", "Zstandard"), ("lz4", "LZ4")])
def test_compression_by_arrow(tmp_path: Path, ending: str, name: str) -> None:
    """In whole streams, one after another, and with a lost end. Arrow writes no checksums."""
    with RecordWriter(tmp_path / f"s.csv.{ending}", list(ROWS[0])) as writer:
        writer.write(ROWS)
    content = (tmp_path / f"s.csv.{ending}").read_bytes()
    assert read(tmp_path / f"s.csv.{ending}")[1] == ROWS
    doubled = write(tmp_path / f"d.csv.{ending}", content + content)
    assert len(read(doubled, on_bad_row=print)[1]) == 2 * len(ROWS) + 1  # the second header is a row
    for damaged in (content[:-3], b"oops" + content[4:]):
        with pytest.raises(RecordError, match=f"the {name} file is truncated or damaged"):
            read(write(tmp_path / f"t.csv.{ending}", damaged))


@pytest.mark.parametrize("name", ["s.csv", "s.csv.gz", "s.jsonl", "s.parquet", "s.arrow", "s.arrows"])
def test_an_address_is_read_as_the_file(tmp_path: Path, name: str) -> None:
    """By the file systems of Arrow: that of files stands here for S3 and others, behind the same calls."""
    path = tmp_path / name
    with RecordWriter(path, list(ROWS[0])) as writer:
        writer.write(ROWS)
    assert read(path.as_uri()) == read(path)
    with RecordReader(path.as_uri()) as reader:
        shares = [reader.share for _ in reader]
    assert shares[-1] == pytest.approx(1.0, abs=0.05), "a stream of Arrow has an end mark that is not read"


def test_addresses_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"missing\.csv: cannot be read: .*No such file"):
        RecordReader((tmp_path / "missing.csv").as_uri())
    with pytest.raises(RecordError, match=r"the address is not understood: .*allowed: a path, or .* s3://"):
        RecordReader("ftp://host/s.csv")


def test_csv_fields_are_the_text_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "s.csv", b'\xef\xbb\xbfname,score\r\n"a, ""b""\nc",0.10\r\n\xe9 , 1e-3 \r\n')
    _, rows = read(path)
    assert rows[0] == {"name": 'a, "b"\nc', "score": "0.10"}
    assert rows[1]["name"].encode("utf-8", "surrogateescape") == b"\xe9 "
    assert rows[1]["score"] == " 1e-3 "


def test_blank_lines_are_passed_over_and_not_counted(tmp_path: Path) -> None:
    path = write(tmp_path / "s.csv", "\nscore,click\n\n0.1,1\n\n\n0.2,0\n")
    assert read(path)[0] == [1, 2]


def test_no_newline_at_the_end_and_no_rows(tmp_path: Path) -> None:
    assert read(write(tmp_path / "s.csv", "a,b\n1,2"))[1] == [{"a": "1", "b": "2"}]
    empty = write(tmp_path / "t.csv", "a,b\n")
    assert RecordReader(empty).names == ("a", "b")
    assert read(empty) == ([], [])


def test_share_goes_from_none_to_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "s.csv", "a\n" + "1\n" * 100_000)
    with RecordReader(path, batch_rows=20_000) as reader:
        shares = [(reader.share, 2 * (chunk.numbers[-1] + 1)) for chunk in reader]
    assert shares[-1][0] == 1.0
    for share, read_bytes in shares:  # the reader is ahead of the rows by its block
        assert read_bytes <= round(200_002 * share) <= read_bytes + BLOCK_BYTES
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(b"a\n1\n")))
    assert RecordReader("-").share is None


# -- bad rows and bad files ----------------------------------------------------------------------------------------

BAD_ROWS = [
    ("s.csv", "a,b\n1,2\n1,2,3\n5,6\n", "3 fields", "1,2,3"),
    ("s.csv", 'a,b\n1,2\n"x, y"\n5,6\n', "1 fields", '"x, y"'),
    ("s.csv", 'a,b\n1,2\n"3"x,4\n5,6\n', "not valid CSV", '"3"x,4'),
    ("s.jsonl", '{"a": 1}\n{"a": \n{"a": 5}\n', "not valid JSON", '{"a":'),
    ("s.jsonl", '{"a": 1}\n[1]\n{"a": 5}\n', "not an object", "[1]"),
    ("s.jsonl", '{"a": 1}\n' + "[" * 100_000 + '\n{"a": 5}\n', "not valid JSON", "[" * 100_000),
]


@pytest.mark.parametrize(("name", "text", "reason", "record"), BAD_ROWS)
def test_a_bad_row_stops_after_the_rows_before_it(
    tmp_path: Path, name: str, text: str, reason: str, record: str | None
) -> None:
    path = write(tmp_path / name, text)
    rows, error = read_until_error(path)
    assert len(rows) == 1
    assert (error.file, error.row, error.record) == (str(path), 2, record)
    assert reason in error.reason
    assert str(error).startswith(f"{path}, row 2: ")


@pytest.mark.parametrize(("name", "text", "reason", "record"), BAD_ROWS)
def test_a_handler_hears_of_a_bad_row_and_reading_goes_on(
    tmp_path: Path, name: str, text: str, reason: str, record: str | None
) -> None:
    heard: list[RecordError] = []
    numbers, rows = read(write(tmp_path / name, text), on_bad_row=heard.append)
    assert numbers == [1, 3]
    assert [row["a"] for row in rows] in (["1", "5"], [1, 5])
    assert [(error.row, error.record) for error in heard] == [(2, record)]


def test_a_handler_hears_of_bad_rows_before_the_first_good_one(tmp_path: Path) -> None:
    heard: list[RecordError] = []
    numbers, rows = read(write(tmp_path / "s.jsonl", 'oops\n\n3\n{"a": 1}\n'), on_bad_row=heard.append)
    assert (numbers, rows, [error.row for error in heard]) == ([3], [{"a": 1}], [1, 2])


def test_unclosed_quote_is_an_error(tmp_path: Path) -> None:
    """It says how many lines it has taken with it, whatever ends them."""
    for end in ("\n", "\r\n", "\r"):
        rows, error = read_until_error(write(tmp_path / "s.csv", end.join(["a,b", "1,2", '"3,4', "5,6", "7,8", ""])))
        assert len(rows) == 1
        assert "not valid CSV" in error.reason
        assert "; the row takes 3 lines; allowed: " in str(error)
        assert (error.record or "").rstrip() == end.join(['"3,4', "5,6", "7,8"])


@pytest.mark.sample(8)
@pytest.mark.parametrize("keep", [0.05, 0.3, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("batch_rows", [10, 4096])
def test_truncated_gzip_gives_every_row_that_can_be_read(tmp_path: Path, keep: float, batch_rows: int) -> None:
    draw = np.random.default_rng(1)
    text = "id,score\n" + "".join(f"{k},{s}\n" for k, s in enumerate(draw.random(20_000)))
    whole = gzip.compress(text.encode())
    part = whole[: int(keep * len(whole))]
    path = tmp_path / "s.csv.gz"
    path.write_bytes(part)
    # What zlib itself can make of the part, up to its last complete line.
    readable = zlib.decompressobj(wbits=31).decompress(part).decode()
    lines = readable[: readable.rfind("\n") + 1].splitlines()
    rows, error = read_until_error(path, batch_rows=batch_rows)
    assert [f"{row['id']},{row['score']}" for row in rows] == lines[1:]
    assert error.row == len(rows) + 1
    assert "truncated" in error.reason


def test_truncated_gzip_raises_whatever_the_handler(tmp_path: Path) -> None:
    path = tmp_path / "s.csv.gz"
    path.write_bytes(gzip.compress(CSV.encode())[:-4])
    with pytest.raises(RecordError, match="truncated"):
        read(path, on_bad_row=lambda error: None)


@pytest.mark.parametrize("rest", [b"BZh9 is damaged", b"3,4\n", bz2.compress(b"3,4\n")[:20]])
def test_a_later_stream_of_bzip2_that_is_damaged_is_no_end(tmp_path: Path, rest: bytes) -> None:
    path, whole = tmp_path / "s.csv.bz2", bz2.compress(b"a,b\n1,2\n")
    path.write_bytes(whole + rest)
    read = []
    with RecordReader(path) as reader:
        batches = iter(reader)
        read += next(batches).rows
        with pytest.raises(RecordError, match="row 2: the bzip2 file is truncated or damaged"):
            list(batches)
    assert read == [{"a": "1", "b": "2"}]
    path.write_bytes(whole + bz2.compress(b"3,4\n") + bytes(100_000))
    with RecordReader(path) as reader:
        assert sum(map(len, reader)) == 2


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("s.csv", b"", "empty"),
        ("s.csv", b"\n\n", "empty"),
        ("s.jsonl", b"\n", "empty"),
        ("s.csv.gz", b"", "empty"),
        ("s.csv.gz", b"a,b\n1,2\n", "the file is not compressed by gzip; allowed: a name that says how it is"),
        ("s.csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0)[:12], "truncated"),
        ("s.csv.bz2", bz2.compress(b"a,b\n1,2\n")[:20], "truncated"),
        ("s.csv.bz2", b"a,b\n1,2\n", "the file is not compressed by bzip2"),
        ("s.csv.zst", b"a,b\n1,2\n", "the file is not compressed by Zstandard"),
        ("s.csv", gzip.compress(b"a,b\n1,2\n", mtime=0), "compressed by gzip; .*with a name that ends in .gz"),
        ("s.jsonl", b"PAR1\x15\x04", "the file is Parquet; .*.parquet, or --format parquet"),
        ("s.csv", b"ARROW1\0\0", "the file is Arrow; .*.arrow, or --format arrow"),
        ("s.csv", b"PK\x03\x04\x14", "a zip archive or an Excel workbook; .*save the sheet as CSV"),
        ("s.jsonl", b'[{"a": 1}, {"a": 2}]\n', "an object a line"),
        ("s.csv", b"a,b,a\n1,2,3\n", "twice; allowed: different names"),
        ("s.csv", b"1,b,c,d,1\n1,2,3,4,5\n", "twice; allowed: different names"),
        ("s.csv", b"u1,0,0.5,0\n", "twice; names are numbers: if the file has no header row, give it one; allowed"),
        ("s.csv", b'"a"b\n', "header is not valid CSV"),
        ("s.parquet", b"PAR1 not really", "cannot be read as Parquet"),
        ("s.txt", b"a\n", "ending"),
        ("s.gz", b"a\n", "ending"),
        ("s.parquet.gz", b"", "Parquet"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(RecordError, match=message) as caught:
        RecordReader(path)
    assert caught.value.file == str(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "jsonl", "parquet"])
def test_missing_file_and_folder(tmp_path: Path, ending: str) -> None:
    (tmp_path / f"folder.{ending}").mkdir()
    for name in ("none", "folder"):
        with pytest.raises(RecordError, match="cannot be read"):
            RecordReader(tmp_path / f"{name}.{ending}")


def test_missing_column_says_which_there_are(tmp_path: Path) -> None:
    with RecordReader(write(tmp_path / "s.csv", CSV)) as reader:
        reader.require("score", "click")
        with pytest.raises(RecordError, match="'id', 'score', 'click'") as caught:
            reader.require("score", "pctr")
    assert caught.value.column == "pctr"
    assert "header row" not in str(caught.value)


@pytest.mark.parametrize("name", ["in.parquet", "in.jsonl"])
def test_a_file_without_columns_has_no_numbers_as_names(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if name == "in.parquet":
        parquet.write_table(pa.table({}), path)
    else:
        path.write_text("{}\n{}\n")
    with RecordReader(path) as reader, pytest.raises(RecordError) as error:
        reader.require("score")
    assert str(error.value).endswith("column 'score': there is no such column")


def test_a_header_that_is_missing_is_asked_for(tmp_path: Path) -> None:
    message = "no such column; names are numbers: if the file has no header row,"
    source = write(tmp_path / "s.csv", "u1,x,0.25,1\nu2,x,0.5,0\n")
    with RecordReader(source) as reader, pytest.raises(RecordError, match=message):
        reader.require("score", "click")
    with RecordWriter(tmp_path / "s.parquet", ["1", "2"]) as writer:
        writer.write([{"1": 1, "2": 2}])
    with RecordReader(tmp_path / "s.parquet") as reader, pytest.raises(RecordError) as caught:
        reader.require("3")
    assert "header row" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "format", "kind"),
    [
        ("a.csv", None, ("csv",)),
        ("a.NDJSON.GZ", None, ("jsonl", "gzip")),
        ("a.txt", "csv", ("csv",)),
        ("a.txt.gz", "jsonl", ("jsonl", "gzip")),
        ("a.tsv", None, ("csv", None, "\t")),
        ("a.tsv.bz2", None, ("csv", "bzip2", "\t")),
        ("a.tsv.zst", "jsonl", ("jsonl", "Zstandard")),
        ("-", None, ("csv",)),
        ("-", "jsonl", ("jsonl",)),
        ("a.csv", "parquet", ("parquet",)),
        ("a.jsonl.lz4", None, ("jsonl", "LZ4")),
        ("a.feather", None, ("arrow",)),
        ("-", "arrow", ("arrow",)),
    ],
)
def test_formats_by_name(path: str, format: str | None, kind: tuple[Any, ...]) -> None:
    assert FileKind.of(path, format) == FileKind(*kind)


def test_formats_that_are_not_known() -> None:
    for path, format in [("a.csv", "xml"), ("-", "parquet"), ("a", None)]:
        with pytest.raises(RecordError):
            FileKind.of(path, format)


# -- fields --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "score"),
    [("0.25", 0.25), (" 1e-3 ", 1e-3), ("-7", -7.0), (3, 3.0), (np.float32(0.5), 0.5), (Decimal("0.1"), 0.1)],
)
def test_scores(value: object, score: float) -> None:
    assert parse_score(value) == score


@pytest.mark.parametrize(
    "value",
    ["", "  ", None, "abc", "nan", "inf", "-Infinity", "1_000", "0,5", "0x1", True, math.nan, math.inf, [1], 10**400],
)
def test_values_that_are_no_scores(value: object) -> None:
    with pytest.raises(RecordError) as caught:
        parse_score(value)
    assert caught.value.allowed is not None
    assert caught.value.allowed.split("; ")[0] == "a finite number"


@pytest.mark.parametrize("value", ["1", "1.0", "true", " True", "YES", "y", "T", True, 1, 1.0, np.True_, np.int64(1)])
def test_positive_labels(value: object) -> None:
    assert parse_label(value) is True


@pytest.mark.parametrize(
    "value",
    ["0", "0.0", "false", "FALSE ", "No", "n", "f", "-1", -1, Decimal(-1), False, 0, 0.0, np.False_, np.float32(0)],
)
def test_negative_labels(value: object) -> None:
    assert parse_label(value) is False


@pytest.mark.parametrize(
    "value", ["", None, "ja", "2", "-2", "0.5", "0_1", "1e", "nan", 2, 0.5, math.nan, [], "none", Decimal("0.5")]
)
def test_values_that_are_no_labels(value: object) -> None:
    with pytest.raises(RecordError) as caught:
        parse_label(value)
    missing = value in ("", None, "nan", "none") or value != value
    assert ("--missing-label negative" if missing else "0 or 1") in str(caught.value)


@pytest.mark.parametrize("one", ["1", "1.00", "1.000000000000000000e+00", "+1", "1e0", "01", " 1. ", Decimal("1.0")])
@pytest.mark.parametrize("other", ["0.00", "0e0", "00", "-1", "-1.0", "-1e0", Decimal("0"), Decimal("-1")])
def test_labels_are_numbers_in_any_notation(one: object, other: object) -> None:
    read = LabelReader()
    assert [read(value) for value in (one, other, one, other)] == [True, False, True, False]


@pytest.mark.parametrize(
    ("positive", "labels"),
    [
        (None, {"yes": True, "no": False}),
        (None, {"1": True, "-1": False, " -1": False}),
        (None, {1: True, 0: False}),
        ("click", {"click": True, "noclick": False, " click ": True}),
        ("2", {2.0: True, "1": False, 1: False}),
        ("false", {False: True, True: False}),
    ],
)
def test_the_two_labels_of_a_column(positive: str | None, labels: dict[object, bool]) -> None:
    reader = LabelReader(positive)
    assert [reader(value) for value in labels] == list(labels.values())


@pytest.mark.parametrize(
    ("positive", "values", "message"),
    [
        (None, ["1", "0", "-1"], "'-1' in a column that has '0'"),
        (None, [-1, 1, 0], "'0' in a column that has '-1'"),
        ("click", ["click", "noclick", "view"], "'view' is a third label; allowed: 'click' (--positive) or 'noclick'"),
        ("1", [1.0, math.nan], "the value is missing; allowed: a label, or --missing-label"),
        ("click", ["click", " "], "the value is missing; allowed: a label, or --missing-label"),
    ],
)
def test_a_third_label_is_refused(positive: str | None, values: list[object], message: str) -> None:
    reader = LabelReader(positive)
    for value in values[:-1]:
        reader(value)
    with pytest.raises(RecordError) as caught:
        reader(values[-1])
    assert str(caught.value).startswith(message)


def test_weights() -> None:
    assert [parse_weight(value) for value in ("0", "2.5", 3)] == [0.0, 2.5, 3.0]
    for value in ("-1", "nan", "inf", "", None, "x", True):
        with pytest.raises(RecordError, match="0, or a number from 1e-60"):
            parse_weight(value)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("12.5", 12.5),
        ("20260131", 20260131.0),
        (-3, -3.0),
        ("1970-01-02", 86400.0),
        ("1970-01-01T00:00:10", 10.0),
        ("1970-01-01 00:00:10Z", 10.0),
        ("1970-01-01T02:00:00.250+02:00", 0.25),
        (datetime(1970, 1, 1, 0, 1), 60.0),
        (datetime(1970, 1, 1, 0, 1, tzinfo=UTC), 60.0),
        (date(1970, 1, 2), 86400.0),
    ],
)
def test_times(value: object, seconds: float) -> None:
    assert TimeReader().one(value, "time") == seconds


@pytest.mark.parametrize("value", ["", None, "nan", "inf", "yesterday", "2026-13-01", True, [], math.nan])
def test_values_that_are_no_times(value: object) -> None:
    with pytest.raises(RecordError, match="ISO 8601"):
        TimeReader().one(value, "time")


def test_record_error_is_one_line_with_all_its_parts() -> None:
    with pytest.raises(InputError) as caught:
        parse_score("multi\nline " + "x" * 1000)
    error = caught.value.at("clicks.csv", 17, "score")
    assert str(error).startswith("clicks.csv, row 17, column 'score': 'multi\\nline xxx")
    assert "\n" not in str(error)
    assert len(str(error)) < 200
