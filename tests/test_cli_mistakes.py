"""What the command line says to mistakes of a first day: folders, states, dates, ports."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from streamcal.app.cli import app
from streamcal.app.terminal import USAGE_ERROR

COLUMNS = ["--score", "score", "--label", "click"]


def run(path: Path, *options: object) -> Result:
    return CliRunner().invoke(app, ["run", str(path), *COLUMNS, *map(str, options)])


def compare(path: Path, *options: object) -> Result:
    return CliRunner().invoke(app, ["compare", str(path), *COLUMNS, *map(str, options)])


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    path = tmp_path / "in.csv"
    path.write_text("score,click\n0.2,0\n0.4,1\n")
    return path


@pytest.mark.parametrize("option", ["--out", "--state", "--html"])
def test_a_folder_that_is_missing_is_named(stream: Path, tmp_path: Path, option: str) -> None:
    result = run(stream, option, tmp_path / "nowhere" / "out.csv")
    assert result.exit_code == USAGE_ERROR
    assert f"there is no folder {tmp_path / 'nowhere'}" in result.stderr


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is empty"),
        (b'{"class": "Pl', "Unterminated string"),
        (b"SQLite format 3\0\xcb", "the file is a journal of"),
    ],
)
def test_a_file_that_is_no_state_is_told_with_a_remedy(stream: Path, content: bytes, reason: str) -> None:
    state = stream.with_name("state.json")
    state.write_bytes(content)
    result = run(stream, "--state", state)
    assert result.exit_code == USAGE_ERROR
    assert f"is not a streamcal state: {reason}" in result.stderr
    assert result.stderr.endswith("; give a copy that is whole, or another name to begin anew\n")
    assert state.read_bytes() == content


def test_a_lock_that_cannot_be_written_is_no_error_of_standard_output(stream: Path) -> None:
    state = stream.with_name("state.json")
    state.with_name("state.json.lock").mkdir()
    result = run(stream, "--state", state)
    assert result.exit_code == USAGE_ERROR
    assert f"its lock {state}.lock cannot be written: Is a directory; use another state" in result.stderr


@pytest.mark.parametrize(
    ("times", "options", "warns"),
    [
        ((20260131, 20260201), [], True),
        ((20260131, 20260201), ["--method", "isotonic", "--window", "7d"], True),
        ((20260131, 20260201), ["--method", "isotonic", "--half-life", "7000000"], True),
        ((20261301, 20261399), [], False),  # no such month
        ((2026.0131, 2026.0201), [], False),
        ((202601, 202602), [], False),
        ((1_769_860_800, 1_769_860_900), [], False),
    ],
)
def test_dates_that_are_read_as_seconds(
    tmp_path: Path, times: tuple[float, ...], options: list[str], warns: bool
) -> None:
    path = tmp_path / "in.csv"
    path.write_text("score,click,t\n" + "".join(f"0.2,0,{t}\n" for t in times))
    result = run(path, "--time", "t", *options)
    assert result.exit_code == 0
    assert ("times up to 20260201 look like dates" in result.output) == warns
    assert ("give --time-format %Y%m%d, or times such as 2026-02-01" in result.output) == warns


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("first", "step", "options", "said"),
    [
        (46023.0, 0.25, [], "times from 46023 to 46028.75 are taken for seconds, 5.75 seconds in all: if"),
        (
            46023,
            1,
            ["--method", "platt", "--window", "24h"],
            "46046 are taken for seconds, 23 seconds in all: if they are minutes",
        ),
        (490_896, 1, ["--method", "platt", "--half-life", "7d"], "490919 are taken for seconds, 23 seconds in all: if"),
        (1_767_225_600, 60, ["--time-unit", "ms"], "or of another --time-unit, give them in seconds"),
        (46023, 1, ["--method", "platt", "--window", "500"], None),  # a span in their own unit
        (0, 0.75, [], "times from 0 to 17.25 are taken for seconds, 17.2 seconds in all: if"),  # hours
        (0, 0.75, ["--method", "ops"], None),  # which reads no times
        (0, 600, [], "times from 0 to 13800 are taken for seconds, 3.83 hours in all: if"),
    ],
)
def test_times_of_a_longer_unit(
    tmp_path: Path, first: float, step: float, options: list[str], said: str | None
) -> None:
    path = tmp_path / "in.csv"
    path.write_text("score,click,t\n" + "".join(f"0.{1 + i % 7},{i % 2},{first + i * step}\n" for i in range(24)))
    result = run(path, "--time", "t", *options)
    assert ("warning: times" in result.output) == (said is not None)
    assert (said or "") in result.output
    compared = compare(path, "--time", "t", "--methods", "auto")
    assert ("warning: times" in compared.output) == (first < 1e8)


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("times", "read"),
    [
        (range(24), "times read: 0 to 23, in seconds; 23 seconds in all"),
        ([1_767_225_600 + 3_600 * i for i in range(24)], "2026-01-01 00:00:00 to 2026-01-01 23:00:00 UTC; 23 hours"),
        ([f"2026-01-{1 + i:02}T00:00:00+01:00" for i in range(24)], "2025-12-31 23:00:00 to 2026-01-23 23:00:00 UTC"),
        ([1e15 + i for i in range(24)], "times read: 1e+15 to 1e+15, in seconds; 23 seconds in all"),
    ],
)
def test_the_times_that_were_read_are_printed(tmp_path: Path, times: list[object], read: str) -> None:
    path, state = tmp_path / "in.csv", tmp_path / "state.json"
    path.write_text("score,click,t\n" + "".join(f"0.2,{i % 2},{t}\n" for i, t in enumerate(times)))
    assert read in run(path, "--time", "t", "--state", state).output
    assert read in compare(path, "--time", "t").output
    predict = ["predict", state, path, "--score", "score", "--time", "t", "--out", tmp_path / "out.csv"]
    assert read in CliRunner().invoke(app, [str(one) for one in predict]).output
    assert "times read" not in run(path).output


def test_times_of_a_longer_unit_with_a_horizon(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("id,score,click,t,clicked\n" + "".join(f"a{i},0.2,0,{29_453_760 + i},\n" for i in range(24)))
    late = ["--id", "id", "--event-time", "t", "--label-time", "clicked", "--horizon"]
    assert "29453783 are taken for seconds, 23 seconds in all" in run(path, *late, "6h").output
    assert "warning" not in run(path, *late, "360").output


def test_a_year_that_means_no_end_is_no_other_unit(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    rows = ["9999-12-31" if i == 5 else f"2026-01-{1 + i:02}" for i in range(24)]
    path.write_text("score,click,t\n" + "".join(f"0.2,0,{t}\n" for t in rows))
    output = run(path, "--time", "t").output
    assert "unit" not in output
    assert "or correct a time that is far ahead" in output


def test_dates_that_are_read_as_seconds_of_events(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("id,score,click,t,clicked\na,0.2,0,20260131,\nb,0.2,0,20260201,\n")
    late = ["--id", "id", "--event-time", "t", "--label-time", "clicked", "--horizon", "6h"]
    assert "times up to 20260201 look like dates" in run(path, *late).output


def test_an_id_that_is_missing_is_told_with_a_remedy(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("id,score,click,t,clicked\n,0.2,0,5,\n")
    result = run(path, "--id", "id", "--event-time", "t", "--label-time", "clicked", "--horizon", "6h")
    assert "row 1, column 'id': the value is missing; allowed: an id of each impression; leave such" in result.stderr


@pytest.mark.full
@pytest.mark.in_every_share
def test_a_port_in_use_and_a_missing_folder_of_serve(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-P", "-m", "streamcal", "serve", "--horizon", "6h", "--port", str(port)]
        command += ["--journal", str(tmp_path / "a.journal")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == USAGE_ERROR
    assert done.stderr.splitlines()[-1].endswith("Where the port is in use, give another --port")
    journal = os.path.join(tmp_path, "nowhere", "a.journal")
    result = CliRunner().invoke(app, ["serve", "--horizon", "6h", "--journal", journal])
    assert result.exit_code == USAGE_ERROR
    assert "the journal cannot be written: there is no folder" in result.stderr


@pytest.mark.sample(12)
@pytest.mark.parametrize("word", ["NULL", "None", "nan", "NaT", "<NA>", "N/A", "\\N", "?", " null "])
def test_a_text_for_no_label_is_no_label(tmp_path: Path, word: str) -> None:
    """With `--positive 1` it would be the negative one."""
    path = tmp_path / "in.csv"
    path.write_text("score,click\n" + f"0.2,{word}\n0.4,1\n0.3,0\n" * 40)
    for options in ((), ("--positive", "1")):
        result = run(path, *options)
        assert result.exit_code == USAGE_ERROR
        assert "the value is missing; allowed: a label, or --missing-label negative" in result.stderr
        for treatment, positives in (("negative", "120 rows (40 positive)"), ("skip", "80 rows (40 positive)")):
            assert positives in run(path, *options, "--missing-label", treatment).stdout
        assert "1.5" not in run(path, *options, "--missing-label", "unknown").stderr
    named = run(path, "--positive", word, "--on-error", "skip")
    assert named.exit_code == 0, named.stderr


@pytest.mark.parametrize("command", ["run", "compare", "predict"])
def test_most_rows_were_skipped(tmp_path: Path, command: str) -> None:
    """Log-odds under --on-error skip: those between 0 and 1 would be learned as probabilities, without a word."""
    state, few, most = tmp_path / "state.json", tmp_path / "few.csv", tmp_path / "most.csv"
    for path, times in ((few, 40), (most, 60)):
        path.write_text("score,click\n" + "0.3,0\n" * 50 + "-1.5,0\n" * times)
    skip, out = ["--on-error", "skip"], str(tmp_path / "out.csv")
    assert run(few, *skip, "--method", "platt", "--state", state).exit_code == 0
    before, after = {
        "run": ([command], [*COLUMNS, "--method", "platt"]),
        "compare": ([command], [*COLUMNS, "--methods", "platt"]),
        "predict": ([command, str(state)], [*COLUMNS[:2], "--out", out]),
    }[command]
    results = [CliRunner().invoke(app, [*before, str(path), *after, *skip]) for path in (few, most)]
    told = "60 of 110 rows were skipped, 60 of them for column 'score', such as '-1.5' cannot be used"
    assert [told in result.output for result in results] == [False, True]
    assert [result.exit_code for result in results] == [0, 0]


def test_weights_that_measure_nothing_or_one_row(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    weighted = [*COLUMNS, "--weight", "w"]
    for weights, told in (("0", "No row has a weight above 0"), ("1e60", "e+")):
        path.write_text("score,click,w\n" + f"0.3,0,{weights}\n" + "0.3,1,0\n" * 60 + "0.4,1,1e-3\n" * (weights != "0"))
        for command in (["run", "--method", "platt"], ["compare", "--methods", "platt"]):
            result = CliRunner().invoke(app, [*command, str(path), *weighted])
            assert (result.exit_code, told in result.output) == (0, True), result.output
            assert "00000000" not in result.output


@pytest.mark.parametrize("absent", ["", ', "click": null'])
def test_keys_that_first_rows_leave_out(tmp_path: Path, absent: str) -> None:
    """Protocol buffers and others write no key for 0: the first row may lack the label."""
    path, out = tmp_path / "in.jsonl", tmp_path / "out.csv"
    rows = ['{"score": 0.3' + (', "click": 1' if k % 4 == 3 else absent) + "}" for k in range(200)]
    path.write_text("\n".join(rows))
    assert "--missing-label negative" in run(path).stderr
    result = run(path, "--missing-label", "negative", "--method", "platt", "--out", out)
    assert "200 rows (50 positive)" in result.stdout, result.stderr
    header, first, *_ = out.read_text().splitlines()
    assert (header, first.count(",")) == ("score,click,calibrated", 2)
    mistaken = CliRunner().invoke(app, ["run", str(path), "--score", "score", "--label", "clicks"])
    assert "there is no such column" in mistaken.stderr


@pytest.mark.sample(2)
@pytest.mark.parametrize("rows", [5, 200])
def test_two_values_for_one_key(tmp_path: Path, rows: int) -> None:
    """As two columns of a name, they are an error, unless nothing is read from them."""
    path = tmp_path / "in.jsonl"
    within = '{"score": 0.3, "click": 1, "at": 1, "at": 2, "of": {"score": 1, "said": "score"}}\n'
    path.write_text(within * rows)
    assert f"{rows} rows" in run(path, "--method", "platt").stdout
    path.write_text(within * rows + '{"score": 0.9, "click": 1, "score": 0.1}\n')
    assert f"row {rows + 1}: the line has the key 'score' twice" in run(path, "--method", "platt").stderr
    result = run(path, "--method", "platt", "--on-error", "skip")
    assert f"{rows} rows" in result.stdout
    assert ", 1 skipped" in result.stdout


@pytest.mark.parametrize(("delay", "before"), [(0, None), (9, None), (10, 11), (19, 20), (100, 20)])
def test_a_delay_that_leaves_nothing_to_compare(tmp_path: Path, delay: int, before: int | None) -> None:
    path = tmp_path / "in.csv"
    path.write_text("score,click\n" + "0.2,0\n0.4,1\n" * 10)
    options = ["compare", str(path), *COLUMNS, "--methods", "platt", "--delay", str(delay)]
    said = CliRunner().invoke(app, options).stderr
    told = f"warning: {before} of 20 rows were predicted before a label was learned: give a shorter --delay"
    assert (told in said) if before else ("--delay" not in said)


def test_columns_in_the_names_of_folders(stream: Path, tmp_path: Path) -> None:
    place = tmp_path / "campaign=c1" / "part-0.csv"
    place.parent.mkdir()
    stream.rename(place)
    result = run(place, "--segment", "campaign")
    assert "the names of folders are not read as columns: write it into the files" in result.stderr


def test_lines_before_the_header_are_told(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("# exported today\n\nscore,click\n0.2,0\n")
    assert "line 3 has it: leave out the lines before the header" in run(path).stderr
    path.write_text("A title,,\n,,\nscore,click,n\n0.2,0,1\n")
    assert "leave out lines before the header" in run(path).stderr
    path.write_text("score;click\n0.2;0\n")
    line = run(path, "--delimiter", ",").stderr
    assert "say with --delimiter what is between them" in line
    assert "leave out" not in line


@pytest.mark.parametrize("rows", [1, 200])
def test_levels_in_another_encoding_are_refused(tmp_path: Path, rows: int) -> None:
    """They would be other levels than those of a file, or a client, with the same letters in UTF-8."""
    path = tmp_path / "in.csv"
    path.write_bytes(b"score,click,place\n" + "0.2,0,Orléans\n".encode("latin-1") * rows)
    assert "iconv -f LATIN1 -t UTF-8" in run(path, "--segment", "place").stderr
    assert run(path).exit_code == 0
    assert "iconv" in run(path, "--out", tmp_path / "out.parquet").stderr


@pytest.mark.sample(2)
@pytest.mark.parametrize("command", [run, compare])
def test_rows_skipped_that_are_mostly_of_one_class_are_told(tmp_path: Path, command: object) -> None:
    """Of 2,000 rows 200 are positive; 40 of these, or 400 of the others, have no score."""

    def warned(without_score: set[int], positive: str = "1") -> bool:
        path = tmp_path / "in.csv"
        lines = (
            f"{'' if i in without_score else 0.1 + i % 7 / 100},{positive if i % 10 == 0 else 0}\n"
            for i in range(2_000)
        )
        path.write_text("score,click\n" + "".join(lines))
        output = command(path, "--on-error", "skip", "--positive", positive).output  # type: ignore[operator]
        return "rows skipped are positive, and" in output

    assert warned(set(range(0, 400, 10)))
    assert warned({i for i in range(450) if i % 10})
    assert not warned(set(range(400)))
    assert not warned(set(range(0, 100, 10)))  # ten rows
    assert warned(set(range(0, 400, 10)), "yes")
