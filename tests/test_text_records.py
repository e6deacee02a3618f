"""The kernel `text_records` against the csv module, and its two forms; batches of text, and what becomes of them."""

from __future__ import annotations

import csv
import io
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cli import made, run, save, the_line
from test_kernel_forms import twins

from streamcal.stream import reading
from streamcal.stream.arrow import as_text
from streamcal.stream.reading import RecordReader
from streamcal.stream.records import RecordError
from streamcal.stream.run import CONTINUED

LONGEST = 40


def found(module: Any, text: bytes, wanted: list[int], room: int = 50) -> tuple[list[list[int]], int]:
    """Return the spans of a text; wanted fields that a record lacks are −1."""
    spans = np.zeros((room, 3 + 2 * len(wanted)), dtype=np.int64)
    count, end = module.find_records(text, ord(","), np.array(wanted, dtype=np.int64), LONGEST, spans)
    return spans[:count].tolist(), end


def by_csv(text: str) -> list[list[str] | None]:
    """Return the records as the csv module reads them one by one; None for one that is not valid."""
    rows: list[list[str] | None] = []
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    while True:
        try:
            rows.extend(fields for fields in reader if fields)
            return rows
        except csv.Error:
            rows.append(None)


FIELDS = st.text(st.sampled_from('ab0 ,"\n\ré'), max_size=5)


@given(rows=st.lists(st.lists(FIELDS, min_size=1, max_size=4), max_size=8), end=st.sampled_from(["\n", "\r\n", "\r"]))
def test_records_are_those_of_the_csv_module(rows: list[list[str]], end: str) -> None:
    compiled, plain = twins("text_records")
    text = io.StringIO()
    csv.writer(text, lineterminator=end).writerows(rows)
    content, expected = text.getvalue().encode(), [row for row in by_csv(text.getvalue()) if row]
    spans, place = found(compiled, content, [0, 2])
    assert (spans, place) == found(plain, content, [0, 2])
    assert place == len(content)
    assert [span[2] for span in spans] == [len(row or ()) for row in expected]
    several = [(span, row) for span, row in zip(spans, expected, strict=True) if len(row or ()) > 2]
    for module in (compiled, plain):
        for slot, column in ((0, 0), (1, 2)):
            places = np.array([span for span, _ in several], dtype=np.int64).reshape(-1, 7)
            for stripped in (True, False):
                offsets, fields = module.gather_fields(content, places, slot, stripped)
                texts = [bytes(fields[i:j]) for i, j in pairwise(offsets)]
                given = [row[column] for _, row in several if row]
                assert texts == [(text.strip(" \t") if stripped else text).encode() for text in given]


@given(text=st.text(st.sampled_from('a,"\n'), max_size=30))
def test_records_that_are_not_valid_are_marked(text: str) -> None:
    """Of each line by itself, since after an error the csv module goes on with the next line."""
    compiled, plain = twins("text_records")
    for line in text.split("\n"):
        content = line.encode() + b"\n"
        spans, end = found(compiled, content, [])
        assert (spans, end) == found(plain, content, [])
        (row,) = by_csv(line + "\n") or [[]]
        if end < len(content):  # a quote is open
            assert row is None
        else:
            assert [span[2] for span in spans] == ([] if row == [] else [-1 if row is None else len(row)])


def test_a_field_that_is_too_long_ends_its_record_at_the_line() -> None:
    compiled, plain = twins("text_records")
    content = b'1,"' + b"x" * (LONGEST + 5) + b'\n2,3\n4,"5\n6"\n'
    for module in (compiled, plain):
        spans, end = found(module, content, [])
        assert [span[2] for span in spans] == [-1, 2, 2]
        assert end == len(content)


@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6))
def test_records_with_values(values: list[float]) -> None:
    compiled, plain = twins("text_records")
    content = b'a,b\n\n"c\n",d\r\n'
    spans = np.array(found(compiled, content, [])[0])
    array = np.array([values, values[::-1]])
    offsets, texts = as_text(array.ravel())
    before = [b","] * len(values)
    joined = [
        bytes(module.joined_records(content, spans, 0, before, offsets, texts, b"\n")) for module in (compiled, plain)
    ]
    assert joined[0] == joined[1]
    rows = list(csv.reader(io.StringIO(joined[0].decode(), newline="")))
    assert [row[:2] for row in rows] == [["a", "b"], ["c\n", "d"]]
    assert [[float(text) for text in row[2:]] for row in rows] == array.tolist()


# -- what is passed through ----------------------------------------------------------------------------------------

#: Rows as they may stand in a file, and as they leave it, without the value that is added.
LINES = [
    b"0.10,12345678901234567890,NaN,1",
    b'0.20,"a, ""b""",,0',
    b"0.30,  spaces ,1e-05,1",
    b'0.40,"two\r\nlines",\xff\xfe,0',
    b'"0.50",+7,"NULL"," 1 "',
]


@pytest.mark.parametrize("repeat", [1, 100])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n"])
def test_csv_leaves_byte_for_byte(tmp_path: Path, end: bytes, repeat: int) -> None:
    """Row by row and by column alike; line ends become line feeds."""
    lines = LINES * repeat
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_bytes(end.join([b"score,id,x,click", *lines]))
    assert run(source, "--method", "identity", "--out", out).exit_code == 0
    scores = [b",0.1", b",0.2", b",0.3", b",0.4", b",0.5"] * repeat
    expected = [b"score,id,x,click,calibrated", *(line + score for line, score in zip(lines, scores, strict=True))]
    assert out.read_bytes() == b"\n".join(expected) + b"\n"


@pytest.mark.parametrize("repeat", [1, 100])
def test_json_lines_leave_byte_for_byte(tmp_path: Path, repeat: int) -> None:
    lines = [
        b'{"score": 0.10, "click": 1, "id": 12345678901234567890, "x": [1,  {"y": null}]}',
        b'{"click":false,"score":2e-1,"text":"\xc3\xa9 \\u00e9 \\ud800 }{"}',
    ]
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(b"\r\n".join(lines * repeat))
    assert run(source, "--method", "identity", "--out", out).exit_code == 0
    added = [b', "calibrated": 0.1}', b', "calibrated": 0.2}']
    expected = [line[:-1] + value for line, value in zip(lines * repeat, added * repeat, strict=True)]
    assert out.read_bytes() == b"\n".join(expected) + b"\n"


def test_json_that_only_looks_like_lines_of_objects(tmp_path: Path) -> None:
    """Arrow reads an object over two lines, and two objects in one: each is a line that cannot be read here."""
    good = '{"score": 0.5, "click": 1}\n' * 200
    for bad in ('{"score": 0.5, "click": 1}{"score": 0.5,\n"click": 1}\n', '{"score": .5, "click": 1}\n', "[]\n"):
        source = tmp_path / "in.jsonl"
        source.write_text(good + bad + good)
        line = the_line(run(source, "--method", "identity"))
        assert line.startswith(f"{source}, row 201: the line is")


@given(
    names=st.lists(st.sampled_from(["calibrated", "c\\u0061librated", "Calibrated", "x"]), min_size=80, max_size=80),
)
@settings(max_examples=20)
def test_a_key_that_the_output_adds_is_found_however_it_is_written(
    tmp_path_factory: pytest.TempPathFactory, names: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("keys")
    (folder / "in.jsonl").write_text("".join(f'{{"score": 0.5, "click": 1, "{name}": 2}}\n' for name in ["x", *names]))
    bad = next((i for i, name in enumerate(["x", *names], 1) if json.loads(f'"{name}"') == "calibrated"), None)
    result = run(folder / "in.jsonl", "--method", "identity", "--out", folder / "out.jsonl")
    if bad is None:
        assert result.exit_code == 0
    else:
        assert f"row {bad}, column 'calibrated': the output adds a column" in the_line(result)


# -- by column and row by row --------------------------------------------------------------------------------------


@pytest.mark.sample(12)
@pytest.mark.parametrize("name", ["in.csv", "in.jsonl", "in.parquet", "in.arrow"])
@pytest.mark.parametrize("skip", [False, True])
def test_a_bad_row_in_the_midst_of_many(tmp_path: Path, name: str, skip: bool) -> None:
    """The same output, state, message and rejects as row by row: by a batch of one row each."""
    rows = made(900)
    for i in (577, 700, 860):
        rows[i]["w"] = -1
    source = save(tmp_path / name, rows)
    results, files = [], []
    for folder, batch_rows in (("many", 1 << 16), ("one", 1)):
        place = tmp_path / folder
        place.mkdir()
        options = ["--on-error", "skip", "--rejects", place / "bad.csv"] if skip else []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reading, "BATCH_ROWS", batch_rows)
            result = run(
                *(source, "--method", "ops", "--weight", "w", "--time", "t", "--out", place / "out.csv"),
                *("--state", place / "state.json", *options),
            )
        assert result.exit_code == (0 if skip else 2)
        results.append(result.stdout.splitlines()[2:5])
        state = json.loads((place / "state.json").read_text())
        files.append([(place / "out.csv").read_bytes(), state["learned"], state["run"]["files"]])
        if skip:
            files[-1].append((place / "bad.csv").read_bytes())
        else:
            assert f"{source}, row 578, column 'w': " in result.stderr
    assert files[0] == files[1]
    assert results[0] == results[1]
    assert files[0][0].count(b"\n") == (898 if skip else 578)


# -- bounds --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["in.csv", "in.jsonl"])
def test_a_record_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(reading, "BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr(reading, "LONGEST_RECORD", 1 << 14)
    source = save(tmp_path / name, made(20))
    good = source.read_bytes()
    source.write_bytes(good + b'{"' + b"x" * (1 << 16))
    line = the_line(run(source, "--on-error", "skip"))
    assert (
        line == f"{source}, row 21: the record has more than 16,384 bytes; allowed: shorter lines, and quotes in pairs"
    )


def test_a_field_that_is_too_long_is_one_bad_row(tmp_path: Path) -> None:
    """As is a quote that nothing closes: it does not take the rest of the file with it."""
    source = tmp_path / "in.csv"
    long = b"0.5,1," + b"x" * (reading.LONGEST_FIELD + 1)
    opened = b'0.5,1,"' + b"y" * 10 + b"\n" + b"0.5,1,z\n" * (reading.LONGEST_FIELD // 8 + 2)
    text = b"score,click,text\n0.5,1,a\n" + long + b"\n" + opened + b"0.5,0,b\n"
    source.write_bytes(text)
    result = run(source, "--on-error", "skip", "--rejects", tmp_path / "bad.csv")
    assert result.exit_code == 0
    with RecordReader(tmp_path / "bad.csv") as reader:
        rejects = [row for batch in reader for row in batch.rows]
    records = {"2": "", "3": ""}
    for reject in rejects:
        records[reject["row"]] += reject["record"]
    assert records["2"] == long.decode()
    taken = records["3"].count("\n") + 1
    assert records["3"].encode() + b"\n" == b"\n".join(text.splitlines()[3 : 3 + taken]) + b"\n"
    begins = [reject["reason"] for reject in rejects if reject["reason"] != CONTINUED]
    assert len(begins) == 2
    assert all("field" in reason for reason in begins)
    assert "lines" not in begins[0]
    assert begins[1].endswith(f"; the row takes {taken:,} lines; allowed: fields, quoted or not; quotes in pairs")
    assert all(reject["record"].endswith("\n") for reject in rejects[:-1] if reject["row"] == "3"), "whole lines"
    rest = len(text.splitlines()) - 1 - 1 - taken
    assert f"{rest:,} rows ({rest - 1:,} positive), 2 skipped ({1 + taken:,} lines of the file);" in result.output


def test_lines_in_the_quotes_of_a_row_that_cannot_be_used_are_counted(tmp_path: Path) -> None:
    """The quote of one row closes at that of another, and the fields are as many as they should be."""
    source = tmp_path / "in.csv"
    source.write_text('score,click\n0.5,1\n"0.4,0\n0.3,0\n0.2",0\n0.1,0\n')
    result = run(source, "--on-error", "skip", "--rejects", tmp_path / "bad.jsonl")
    assert "2 rows (1 positive), 1 skipped (3 lines of the file);" in result.output
    (reject,) = map(json.loads, (tmp_path / "bad.jsonl").read_text().splitlines())
    assert "; the row takes 3 lines; allowed: " in reject["reason"]
    assert json.loads(reject["record"]) == {"score": "0.4,0\n0.3,0\n0.2", "click": "0"}
    line = the_line(run(source))
    assert line.startswith(f"{source}, row 2, column 'score': ")
    assert "; the row takes 3 lines; allowed: " in line


@pytest.mark.sample(2)
@pytest.mark.parametrize("letter", ["é", '"', "\udcff", "漢", "𝄞"])
def test_rejects_can_be_read_however_long_a_record_is(tmp_path: Path, letter: str) -> None:
    source = tmp_path / "in.csv"
    source.write_bytes(b"score,click\n0.5,1\n" + f"{letter * 70_000},1,1\n".encode("utf-8", "surrogateescape"))
    run(source, "--on-error", "skip", "--rejects", tmp_path / "bad.csv")
    with RecordReader(tmp_path / "bad.csv") as reader:
        rejects = [row for batch in reader for row in batch.rows]
    assert "".join(row["record"] for row in rejects) == letter * 70_000 + ",1,1"
    assert {row["row"] for row in rejects} == {"2"}


DEEP = 100_000


@pytest.mark.sample(3)
@pytest.mark.parametrize("out", ["out.jsonl", "out.csv"])
@pytest.mark.parametrize("content", [b"[" * DEEP, b'{"a":' * DEEP, b'{"a":' * DEEP + b"1" + b"}" * DEEP])
def test_nesting_is_bounded(tmp_path: Path, content: bytes, out: str) -> None:
    """Also where Arrow reads the line, and finds no score in it."""
    source = tmp_path / "in.jsonl"
    good = b'{"score": 0.5, "click": 1}\n' * 100
    source.write_bytes(good + content + b"\n" + good)
    line = the_line(run(source, "--method", "ops", "--out", tmp_path / out))
    assert line.startswith(f"{source}, row 101: the line is not valid JSON")
    result = run(source, "--method", "ops", "--out", tmp_path / out, "--on-error", "skip")
    assert "200 rows (200 positive), 1 skipped" in result.stdout


def test_what_is_deep_and_not_read_is_passed_through(tmp_path: Path) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(b'{"score": 0.5, "click": 1, "x": ' + b"[" * 900 + b"]" * 900 + b"}\n")
    source.write_bytes(source.read_bytes() * 100)
    assert run(source, "--method", "identity", "--out", out).exit_code == 0
    assert out.read_bytes() == source.read_bytes().replace(b"}\n", b', "calibrated": 0.5}\n')


def test_the_time_for_a_long_line_is_linear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the bytes that are looked at: each a few times, however many blocks a line has."""
    looked, find = [0], reading.find_records

    def counting(text: memoryview, *rest: Any) -> Any:
        looked[0] += len(text)
        return find(text, *rest)

    monkeypatch.setattr(reading, "BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(reading, "find_records", counting)
    source = tmp_path / "in.jsonl"
    source.write_text('{"score": 0.5, "click": 1, "x": "' + "x" * (1 << 20) + '"}\n')
    with RecordReader(source) as reader:
        assert sum(map(len, reader)) == 1
    # A block is as long as all that was read of the line before: 1 + 2 + 4 + ... lines, once for the names of the
    # columns and once for the rows.
    assert looked[0] < 6 * (1 << 20)


def test_a_device_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LONGEST_RECORD", 1 << 22)
    for format in ("csv", "jsonl"):
        with pytest.raises(RecordError, match="the record has more than 4,194,304 bytes"):
            RecordReader("/dev/zero", format)
