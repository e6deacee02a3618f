"""Records of CSV against the csv module; batches of text, and what becomes of them."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_cli import made, run, save, the_line

from streamcal.stream import reading
from streamcal.stream.arrow import as_text, csv_text, read_csv
from streamcal.stream.reading import Grammar, RecordReader
from streamcal.stream.records import RecordError
from streamcal.stream.run import CONTINUED


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
    text = io.StringIO()
    csv.writer(text, lineterminator=end).writerows(rows)
    content, expected = text.getvalue().encode(), [row for row in by_csv(text.getvalue()) if row]
    grammar = Grammar(",")
    place = grammar.whole(content, 0)
    found = [(by_csv(record.decode())[0], fields) for record, fields in grammar.records(content[:place])]
    assert found == [(row, len(row)) for row in expected]
    assert not content[place:].strip(b"\r\n")
    for width in {len(row) for row in expected}:
        same = [row for row in expected if len(row) == width]
        text = io.StringIO()
        csv.writer(text, lineterminator=end).writerows(same)
        table = read_csv(text.getvalue().encode(), [str(i) for i in range(width)], ",")
        assert [column.to_pylist() for column in table.columns] == [
            [field.encode() for field in column] for column in zip(*same, strict=True)
        ]
        again = bytes(csv_text(table.columns, b",")).decode()
        assert [row for row in by_csv(again) if row] == [row for row in same if row != [""]]


@given(text=st.text(st.sampled_from('a,"\n'), max_size=30))
def test_records_that_are_not_valid_are_not_whole(text: str) -> None:
    """Of each line by itself, since after an error the csv module goes on with the next line."""
    grammar = Grammar(",")
    for line in text.split("\n"):
        content = line.encode() + b"\n"
        end = grammar.whole(content, 0)
        (row,) = by_csv(line + "\n") or [[]]
        assert (end == len(content)) is (row is not None)
        if row is None:
            assert grammar.record(content, 0) in (None, (0, len(content)))


@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=6))
def test_records_with_values(values: list[float]) -> None:
    table = read_csv(b'a,b\n\n"c\n",d\r\n', ["x", "y"], ",")
    texts = [as_text(np.array([value, -value])) for value in values]
    rows = list(csv.reader(io.StringIO(bytes(csv_text([*table.columns, *texts], b",")).decode(), newline="")))
    assert [row[:2] for row in rows] == [["a", "b"], ["c\n", "d"]]
    assert [[float(text) for text in row[2:]] for row in rows] == [values, [-value for value in values]]


# -- what is passed through ----------------------------------------------------------------------------------------

#: Rows as they may stand in a file, which leave it with quotes where they are needed.
LINES = [
    b"0.10,12345678901234567890,NaN,1",
    b'0.20,"a, ""b""",,0',
    b"0.30,  spaces ,1e-05,1",
    b'0.40,"two\r\nlines",\xff\xfe,0',
    b'"0.50",+7,"NULL"," 1 "',
]
LEAVING = [*LINES[:4], b"0.50,+7,NULL, 1 "]


@pytest.mark.parametrize("repeat", [1, 100])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n"])
def test_fields_of_csv_leave_as_they_came(tmp_path: Path, end: bytes, repeat: int) -> None:
    """Row by row and by column alike; line ends of records become line feeds."""
    lines = LINES * repeat
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_bytes(end.join([b"score,id,x,click", *lines]))
    assert run(source, "--method", "identity", "--out", out).exit_code == 0
    scores = [b",0.1", b",0.2", b",0.3", b",0.4", b",0.5"] * repeat
    expected = [
        b"score,id,x,click,calibrated",
        *(line + score for line, score in zip(LEAVING * repeat, scores, strict=True)),
    ]
    assert out.read_bytes() == b"\n".join(expected) + b"\n"


@pytest.mark.parametrize("delimiter", [",", ";", "|", "\t"])
def test_a_field_leaves_as_the_same_text_beside_bad_rows(tmp_path: Path, delimiter: str) -> None:
    """Quotes within a field, fields of any length, and bytes that are no UTF-8."""
    fields = ['5" pipe', "x" * (reading.LONGEST_FIELD + 1), " a, b; c|d\te ", "\udcff", "", "two\nlines"]
    source, out = tmp_path / "in.csv", tmp_path / "out.csv"
    with open(source, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        writer = csv.writer(file, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_MINIMAL)
        writer.writerow(["score", "click", "text"])
        for field in fields:
            writer.writerow(["0.5", "1", field])
        file.write(f"0.25{delimiter}1\n0.25{delimiter}1{delimiter}\udcff{delimiter}\n")
        file.write(f'0.75{delimiter}0{delimiter}5" pipe\n0.25{delimiter}1{delimiter}"a"b\n')
    options = ["--method", "identity", "--out", out, "--on-error", "skip", "--rejects", tmp_path / "bad.csv"]
    result = run(source, *options)
    assert "7 rows (6 positive), 3 skipped" in result.output
    csv.field_size_limit(1 << 20)
    try:
        with open(out, encoding="utf-8", errors="surrogateescape", newline="") as file:
            rows = list(csv.DictReader(file, delimiter=delimiter, strict=True))
    finally:
        csv.field_size_limit(reading.LONGEST_FIELD)
    assert [row["text"] for row in rows] == [*fields, '5" pipe']
    assert {row["calibrated"] for row in rows} == {"0.5", "0.75"}
    with RecordReader(tmp_path / "bad.csv") as reader:
        rejects = [(row["row"], row["record"].split(delimiter)) for batch in reader for row in batch.rows]
    assert rejects == [("7", ["0.25", "1"]), ("8", ["0.25", "1", "\udcff", ""]), ("10", ["0.25", "1", '"a"b'])]


def test_a_key_that_a_line_has_twice_is_refused(tmp_path: Path) -> None:
    """Also where another line has it in escapes; a value that is the name of the key is none."""
    good = '{"score": 0.5, "click": 1, "event": "click", "x": {"score": 1}}\n' * 100
    source = tmp_path / "in.jsonl"
    source.write_text(good + '{"score": 1, "event": "click", "click": 0}\n')
    assert "101 rows (100 positive)" in run(source, "--method", "identity").stdout
    twice = '{"score": 0.5, "click": 1, "click": 0}\n'
    source.write_text(good + twice)
    assert the_line(run(source, "--method", "identity")).startswith(f"{source}, row 101: the line has the key 'click' ")
    source.write_text('{"score": 0.5, "click": 1}\n' + twice + '{"score": 0.5, "\\u0063lick": 1}\n')
    assert the_line(run(source, "--method", "identity")).startswith(
        f"{source}, row 2: the line has the key 'click' twice"
    )


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


def test_a_quote_that_nothing_closes_is_one_bad_row(tmp_path: Path) -> None:
    """It does not take the rest of the file with it."""
    source = tmp_path / "in.csv"
    opened = b'0.5,1,"' + b"y" * 10 + b"\n" + b"0.5,1,z\n" * (reading.LONGEST_FIELD // 8 + 2)
    text = b"score,click,text\n0.5,1,a\n" + opened + b"0.5,0,b\n"
    source.write_bytes(text)
    result = run(source, "--on-error", "skip", "--rejects", tmp_path / "bad.csv")
    assert result.exit_code == 0
    with RecordReader(tmp_path / "bad.csv") as reader:
        rejects = [row for batch in reader for row in batch.rows]
    record = "".join(reject["record"] for reject in rejects)
    assert {reject["row"] for reject in rejects} == {"2"}
    taken = record.count("\n") + 1
    assert record.encode() + b"\n" == b"\n".join(text.splitlines()[2 : 2 + taken]) + b"\n"
    (begin,) = [reject["reason"] for reject in rejects if reject["reason"] != CONTINUED]
    assert begin.endswith(f"; the row takes {taken:,} lines; allowed: fields, quoted or not; quotes in pairs")
    assert all(reject["record"].endswith("\n") for reject in rejects[:-1]), "whole lines"
    rest = len(text.splitlines()) - 1 - taken
    assert f"{rest:,} rows ({rest - 1:,} positive), 1 skipped ({taken:,} lines of the file);" in result.output


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


@pytest.mark.full
@pytest.mark.sample(6)
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
    looked, find = [0], reading.last_line_end

    def counting(text: bytes, at: int) -> int:
        looked[0] += len(text) - at
        return find(text, at)

    monkeypatch.setattr(reading, "BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(reading, "last_line_end", counting)
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
