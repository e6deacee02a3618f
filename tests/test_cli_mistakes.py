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


@pytest.mark.parametrize(("content", "reason"), [(b"", "the file is empty"), (b'{"class": "Pl', "Unterminated string")])
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
