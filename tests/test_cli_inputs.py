"""Several files, globs and folders are one stream, as if they were one file; numbers with a decimal comma."""

from __future__ import annotations

import csv
import signal
import time
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest
from test_cli import PATIENCE, made, program, read, run, save, the_line
from test_resuming import started, weight, whole

import streamcal
from streamcal.errors import InputError
from streamcal.stream.files import input_files, title_of

ROWS = 900


def parts(folder: Path, ending: str = ".csv", rows: int = ROWS) -> list[Path]:
    """Three files with rows of one stream; their order is that of their names."""
    folder.mkdir(exist_ok=True)
    found = made(rows)
    size = rows // 3
    return [save(folder / f"part-{i}{ending}", found[i * size : (i + 1) * size]) for i in range(3)]


@pytest.mark.sample(4)
@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".jsonl", ".parquet", ".arrow"])
def test_files_a_glob_and_a_folder_are_the_one_stream(tmp_path: Path, ending: str) -> None:
    files = parts(tmp_path / "parts", ending)
    expected = whole(tmp_path, save(tmp_path / f"all{ending}", made(ROWS)), f"whole{ending}")
    (tmp_path / "parts" / "_SUCCESS").touch()
    out = tmp_path / f"out{ending}"
    for stream in (files, [tmp_path / "parts" / f"part-*{ending}"], [tmp_path / "parts"]):
        first, *more = stream
        result = run(first, *more, "--method", "ops", "--out", out)
        assert result.exit_code == 0, result.output
        assert f"{ROWS:,} rows" in result.output
        assert read(out) == expected


def test_the_order_is_as_given_and_of_names_in_a_folder(tmp_path: Path) -> None:
    for name in ("b/2.csv", "b/1.csv", "a.csv", "c.csv", "b/.hidden.csv", "b/notes.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("score,click\n0.5,1\n")
    found = input_files([tmp_path / "c.csv", tmp_path / "b", tmp_path / "a*"])
    assert [str(Path(one).relative_to(tmp_path)) for one in found] == ["c.csv", "b/1.csv", "b/2.csv", "a.csv"]
    assert input_files(str(tmp_path / "**" / "*.csv")) == input_files(tmp_path)
    assert title_of(found) == "c.csv and 3 more"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["part-0.csv", "part-0.csv"], "part-0.csv: the file is given twice"),
        (["part-*.csv", "part-1.csv"], "part-1.csv: the file is given twice"),
        (["part-0.csv", "-"], "-: standard input is read alone"),
        (["no-*.csv"], "no-*.csv: no file matches"),
        (["part-0.csv", "none.csv"], "none.csv: cannot be read: No such file or directory"),
        (["part-0.csv", "other.parquet"], "other.parquet: the format is parquet, and that of part-0.csv is csv"),
        (["part-0.csv", "other.csv"], "other.csv: it has 'label' where part-0.csv has 'click'"),
        (["part-0.csv", "lacking.csv"], "lacking.csv, column 'click': there is no such column"),
    ],
)
def test_inputs_that_do_not_go_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    parts(tmp_path)
    save(tmp_path / "other.parquet", made(10))
    (tmp_path / "other.csv").write_text("id,score,label,click\n1,0.5,1,1\n")
    (tmp_path / "lacking.csv").write_text("id,score\n1,0.5\n")
    result = run(names[0], *names[1:], "--out", "out.csv", "--state", "state.json")
    assert message in the_line(result)
    assert not Path("state.json").exists(), "nothing was learned"
    assert not Path("out.csv").exists()


def test_an_output_is_none_of_the_files(tmp_path: Path) -> None:
    files = parts(tmp_path)
    assert "--out would overwrite the input" in the_line(run(tmp_path, "--out", files[1]))
    for option in ("--state", "--html"):
        assert "would overwrite" in the_line(run(*files, option, files[2]))


@pytest.mark.sample(2)
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_a_file_that_is_added_continues(tmp_path: Path, ending: str) -> None:
    files = parts(tmp_path / "parts", ending)
    expected = whole(tmp_path, save(tmp_path / f"all{ending}", made(ROWS)), f"whole{ending}")
    aside = tmp_path / f"aside{ending}"
    files[2].rename(aside)
    out, state = tmp_path / f"out{ending}", tmp_path / "state.json"
    options = ["--method", "ops", "--out", out, "--state", state]
    assert run(tmp_path / "parts", *options).exit_code == 0
    assert read(out) == expected[:600]
    aside.rename(files[2])
    result = run(tmp_path / "parts", *options)
    assert "the 600 rows before had been learned" in result.output
    assert read(out) == expected
    assert weight(state) == ROWS
    assert run(files[1], "--method", "ops", "--state", state).exit_code == 0, "a file of them is known by itself"
    assert weight(state) == ROWS


def test_an_earlier_file_that_was_changed_stops(tmp_path: Path) -> None:
    files = parts(tmp_path / "parts")
    state = tmp_path / "state.json"
    assert run(tmp_path / "parts", "--method", "ops", "--state", state).exit_code == 0
    lines = files[1].read_text().splitlines(keepends=True)
    files[1].write_text("".join([*lines[:4], lines[4].replace("a", "b"), *lines[5:]]))
    line = the_line(run(tmp_path / "parts", "--method", "ops", "--state", state))
    assert line.startswith(f"{files[1]} was changed: 300 rows of it were learned")
    assert "--again" in line
    assert weight(state) == ROWS
    assert run(tmp_path / "parts", "--method", "ops", "--state", state, "--again").exit_code == 0
    assert weight(state) == 2 * ROWS


def test_files_with_the_same_rows_are_learned_each(tmp_path: Path) -> None:
    for name in ("1.csv", "2.csv"):
        save(tmp_path / name, made(100))
    state = tmp_path / "state.json"
    for _ in range(2):
        assert run(tmp_path, "--method", "ops", "--state", state).exit_code == 0
        assert weight(state) == 200


@pytest.mark.full
@pytest.mark.in_every_share
def test_a_run_over_files_that_was_killed_goes_on(tmp_path: Path) -> None:
    files = parts(tmp_path / "parts", rows=30_000)
    expected = whole(tmp_path, save(tmp_path / "all.csv", made(30_000)))
    state, out, kills = tmp_path / "state.json", tmp_path / "out.csv", 0
    while True:
        with started(tmp_path / "parts", "--out", out, "--state", state) as process:
            before = state.read_bytes() if state.exists() else b""
            while process.poll() is None and (not state.exists() or state.read_bytes() == before):
                time.sleep(0.001)
            if process.poll() is None and not kills:
                process.send_signal(signal.SIGKILL)
                kills += 1
            process.communicate(timeout=PATIENCE)
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL
    assert kills == 1
    assert read(out) == expected
    assert weight(state) == 30_000
    assert run(*files, "--method", "ops", "--state", state).exit_code == 0
    assert weight(state) == 30_000


@pytest.mark.parametrize("command", ["run", "compare"])
def test_rows_that_cannot_be_used_are_named_by_file_and_row(tmp_path: Path, command: str) -> None:
    files = parts(tmp_path / "parts")
    for file, row in ((files[0], 3), (files[2], 2)):
        lines = file.read_text().splitlines(keepends=True)
        lines[row] = "a,0.5,maybe,1,1\n"
        lines.append("only one field\n")
        file.write_text("".join(lines))
    bad = tmp_path / "bad.csv"
    options = ["--score", "score", "--label", "click", "--method" if command == "run" else "--methods", "ops"]
    line = the_line(program(command, tmp_path / "parts", *options))
    assert f"{files[0]}, row 3" in line
    result = program(command, tmp_path / "parts", *options, "--on-error", "skip", "--rejects", bad)
    assert result.exit_code == 0, result.output
    assert [(row["file"], row["row"]) for row in read(bad)] == [
        (str(files[0]), "3"),
        (str(files[0]), "301"),
        (str(files[2]), "2"),
        (str(files[2]), "301"),
    ]


def test_types_of_a_later_table_become_those_of_the_first(tmp_path: Path) -> None:
    whole_numbers = pyarrow.table({"score": [0.1, 0.2], "click": [0, 1], "n": [1, 2]})
    others = pyarrow.table({"score": [0.3], "click": [1], "n": [3.0]})
    broken = pyarrow.table({"score": [0.3], "click": [1], "n": [3.5]})
    for name, table in (("1", whole_numbers), ("2", others), ("3", broken)):
        pyarrow.parquet.write_table(table, tmp_path / f"{name}.parquet")
    out, two = tmp_path / "out.parquet", [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    assert run(*two, "--out", out).exit_code == 0
    assert pyarrow.parquet.read_table(out)["n"].to_pylist() == [1, 2, 3]
    line = the_line(run(*two, tmp_path / "3.parquet", "--out", out))
    assert "column 'n': a value does not fit the column, whose type is that of the first rows" in line


def test_no_value_of_a_later_table_is_lost(tmp_path: Path) -> None:
    """Arrow casts 2 to true, 0.1 to single precision, and objects to the keys that the first ones have."""
    score = {"score": [0.1], "click": [0]}
    for first, other, kept in (
        (pyarrow.array([True]), [2], False),
        (pyarrow.array([0.5], pyarrow.float32()), [0.1], False),
        (pyarrow.array([0.5], pyarrow.float32()), [0.25], True),
        (pyarrow.array([{"a": 1}]), [{"a": 1, "b": 2}], False),
        (pyarrow.array([{"a": 1, "b": 2}]), [{"a": 3}], True),
        (pyarrow.array([0.5]), pyarrow.array([float("nan")], pyarrow.float32()), True),
        (pyarrow.array(["7"]), [7], True),
        (pyarrow.array(["a"]).dictionary_encode(), ["b"], True),
        (pyarrow.array(["a"]), pyarrow.array(["b"]).dictionary_encode(), True),
    ):
        for name, column in (("1", first), ("2", other)):
            pyarrow.parquet.write_table(pyarrow.table({**score, "n": column}), tmp_path / f"{name}.parquet")
        result = run(tmp_path / "1.parquet", tmp_path / "2.parquet", "--out", tmp_path / "out.parquet")
        assert (result.exit_code == 0) == kept, (first.type, other, result.output)
        assert kept or "would become" in the_line(result)


@pytest.mark.parametrize("target", ["csv", "jsonl"])
@pytest.mark.parametrize(
    ("values", "kind", "texts"),
    [
        ([0, 253402300800], pyarrow.timestamp("s"), ["1970-01-01T00:00:00", "10000-01-01 00:00:00"]),
        ([0, -719163], pyarrow.date32(), ["1970-01-01", "0000-12-31"]),
        ([1_000, 1_001], pyarrow.time64("ns"), ["00:00:00.000001", "00:00:00.000001001"]),
        ([1, 2**62], pyarrow.duration("s"), ["0:00:01", str(2**62)]),
    ],
)
def test_times_that_python_has_not_are_text(
    tmp_path: Path, target: str, values: list[int], kind: pyarrow.DataType, texts: list[str]
) -> None:
    source, out = tmp_path / "in.arrow", tmp_path / f"out.{target}"
    table = pyarrow.table({"score": [0.25, 0.5], "click": [0, 1], "when": pyarrow.array(values, kind)})
    with pyarrow.ipc.new_file(source, table.schema) as writer:
        writer.write_table(table)
    assert run(source, "--method", "ops", "--out", out).exit_code == 0
    assert [row["when"] for row in read(out)] == texts
    other = ("--time", "when") if kind == pyarrow.duration("s") else ("--weight", "when")
    assert "column 'when'" in the_line(run(source, "--method", "platt", "--window", 5, *other))


def test_compare_report_and_predict_take_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = parts(tmp_path / "parts")
    state = tmp_path / "state.json"
    columns = ["--score", "score", "--label", "click"]
    assert f"{ROWS:,} rows" in program("compare", *files, *columns, "--methods", "ops").stdout
    assert "stream.html" in program("report", *files, *columns, "--methods", "ops").stdout
    assert "part-1.csv" in Path("stream.html").read_text(encoding="utf-8"), "the command has every file"
    assert "parts.html" in program("report", "parts", *columns, "--methods", "ops").stdout
    assert run(*files, "--state", state).exit_code == 0
    assert program("predict", state, "parts/*", "--score", "score", "--out", "out.csv").exit_code == 0
    assert len(read(Path("out.csv"))) == ROWS


def test_python_takes_names_of_several_files(tmp_path: Path) -> None:
    files = parts(tmp_path / "parts")
    one = streamcal.compare(save(tmp_path / "all.csv", made(ROWS)), label="click", methods=["ops"])
    for data in (files, tmp_path / "parts", str(tmp_path / "parts" / "*.csv")):
        several = streamcal.compare(data, label="click", methods=["ops"])
        assert several.to_dict()["methods"]["ops"]["log_loss"] == pytest.approx(
            one.to_dict()["methods"]["ops"]["log_loss"], rel=1e-12
        )
    with pytest.raises(InputError, match="no file matches"):
        streamcal.compare(str(tmp_path / "no-*.csv"), methods=["ops"])


# -- decimal commas ------------------------------------------------------------------------------------------------


def with_commas(path: Path, delimiter: str, rows: int = 300) -> Path:
    """Save the rows of `made` with decimal commas in scores, weights and times."""
    found = [
        {name: str(value).replace(".", ",") if name in ("score", "w", "t") else value for name, value in row.items()}
        for row in halved(rows)
    ]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(found[0]), delimiter=delimiter, lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)
    return path


def halved(rows: int = 300) -> list[dict[str, Any]]:
    """Rows with weights that are no whole numbers."""
    return [{**row, "w": row["w"] / 2} for row in made(rows)]


@pytest.mark.sample(6)
@pytest.mark.parametrize("delimiter", [";", "\t", ","])
@pytest.mark.parametrize("bad", [False, True])
def test_a_decimal_comma_is_read_and_written(tmp_path: Path, delimiter: str, bad: bool) -> None:
    """Also one by one, where a row cannot be used; fields of the input are as they were."""
    source, plain = with_commas(tmp_path / "commas.csv", delimiter), save(tmp_path / "plain.csv", halved())
    if bad:
        for path, between in ((source, delimiter), (plain, ",")):
            path.write_text(path.read_text() + between.join(("x", "1", "maybe", "1", "1000")) + "\n")
    options = ["--time", "t", "--weight", "w", "--half-life", "50", "--method", "platt", "--on-error", "skip"]
    assert run(plain, *options, "--out", tmp_path / "plain_out.csv").exit_code == 0
    result = run(source, *options, "--decimal", ",", "--out", tmp_path / "out.csv")
    assert result.exit_code == 0, result.output
    with open(tmp_path / "out.csv", newline="", encoding="utf-8") as file:
        found = list(csv.DictReader(file, delimiter=delimiter))
    expected = read(tmp_path / "plain_out.csv")
    assert [row["calibrated"].replace(",", ".") for row in found] == [row["calibrated"] for row in expected]
    assert [row["score"].replace(",", ".") for row in found] == [row["score"] for row in expected]
    assert not any("." in row["calibrated"] for row in found)
    again = run(tmp_path / "out.csv", "--decimal", ",", "--output-column", "twice", "--out", tmp_path / "twice.jsonl")
    assert again.exit_code == 0, "the output is read as it was written"


def test_a_decimal_comma_between_fields_with_commas_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("score,click\n0,5,1\n")
    line = the_line(run(tmp_path / "in.csv", "--decimal", ","))
    assert "row 1: the row has 3 fields" in line
    assert "numbers with a decimal comma are in quotes, or with another --delimiter" in line


@pytest.mark.parametrize("number", ["0.5", "1.234,5", "1,2,3", "abc"])
def test_numbers_that_have_no_decimal_comma_are_refused(tmp_path: Path, number: str) -> None:
    (tmp_path / "in.csv").write_text(f"score;click\n0,5;1\n{number};0\n")
    line = the_line(run(tmp_path / "in.csv", "--decimal", ","))
    assert f"row 2, column 'score': {number!r} cannot be used" in line


def test_times_with_points_are_times_beside_decimal_commas(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("score;click;t\n0,5;1;31.01.2026 12:00\n0,25;0;31.01.2026 12:30\n")
    options = ["--decimal", ",", "--time", "t", "--time-format", "%d.%m.%Y %H:%M"]
    assert "2 rows" in run(tmp_path / "in.csv", *options).output
    (tmp_path / "in.csv").write_text("score;click;t\n0,5;1;2026-01-31T12:00:00.5\n0,25;0;2026-01-31T12:00:01,5\n")
    assert "2 rows" in run(tmp_path / "in.csv", *options[:4]).output


def test_compare_report_and_predict_read_decimal_commas(tmp_path: Path) -> None:
    source, state = with_commas(tmp_path / "in.csv", ";"), tmp_path / "state.json"
    columns = ["--score", "score", "--decimal", ","]
    assert "300 rows" in program("compare", source, *columns, "--label", "click", "--methods", "ops").stdout
    made_ = program("report", source, *columns, "--label", "click", "--methods", "ops", "--html", tmp_path / "r.html")
    assert made_.exit_code == 0
    assert "--decimal ," in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert run(source, "--decimal", ",", "--state", state).exit_code == 0
    assert "300 rows predicted" in program("predict", state, source, *columns, "--out", tmp_path / "out.csv").output


def test_parquet_in_a_pipe_says_what_can_be_there(tmp_path: Path) -> None:
    line = the_line(run("-", stdin=save(tmp_path / "in.parquet", made(10)).read_bytes()))
    assert "Parquet has its index at the end, and cannot be read from a pipe" in line
    assert "Arrow, CSV or JSON Lines in the pipe" in line
