"""Stopping and going on: output and state hold the same rows, and none is learned twice, whatever ended the run."""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import signal
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from test_cli import PATIENCE, PROGRAM, as_csv, made, read, run, save, the_line

import streamcal
from streamcal.stream import checkpoints, durable, tables
from streamcal.stream.checkpoints import Checkpoint, Position
from streamcal.stream.columns import Columns
from streamcal.stream.reading import RecordReader
from streamcal.stream.records import RecordError
from streamcal.stream.run import Run
from streamcal.stream.tables import rows_in
from streamcal.stream.writing import RecordWriter

ROWS = 3_000
OUTPUTS = ["out.csv", "out.csv.gz", "out.csv.bz2", "out.csv.zst", "out.jsonl", "out.jsonl.lz4", "out.parquet"]


def weight(state: Path) -> float:
    return float(durable.load(state).n)


def whole(tmp_path: Path, source: Path, name: str = "whole.csv", *options: object) -> list[dict[str, Any]]:
    """Return what an undisturbed run writes."""
    assert run(source, "--method", "ops", "--out", tmp_path / name, *options).exit_code == 0
    return read(tmp_path / name)


def started(source: Path, *options: object) -> subprocess.Popen[bytes]:
    """Start a run in a process of its own that keeps a checkpoint after each chunk of rows."""
    command = [*PROGRAM, "run", source, "--score", "score", "--label", "click", "--method", "ops", "--checkpoint", "0s"]
    return subprocess.Popen([str(one) for one in (*command, *options)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.sample(6)
@pytest.mark.parametrize("out", OUTPUTS)
def test_the_same_command_goes_on_where_a_run_was_stopped(tmp_path: Path, out: str) -> None:
    rows = made(ROWS)
    source, state = tmp_path / "in.csv", tmp_path / "state.json"
    expected = whole(tmp_path, save(source, rows), "whole." + out.split(".", 1)[1])
    for stop in (700, 1_900, ROWS):  # the file grows
        save(source, rows[:stop])
        result = run(source, "--method", "ops", "--out", tmp_path / out, "--state", state)
        assert result.exit_code == 0, result.output
        assert read(tmp_path / out) == expected[:stop]
        assert weight(state) == stop
    result = run(source, "--method", "ops", "--out", tmp_path / out, "--state", state)
    assert f"no new rows: the {ROWS:,} rows before had been learned; --again learns them once more" in result.output
    assert "–" not in result.output, "a table without figures"
    assert read(tmp_path / out) == expected
    assert weight(state) == ROWS


@pytest.mark.full
@pytest.mark.parametrize(
    ("out", "number"),
    [
        ("out.csv", signal.SIGKILL),
        ("out.csv", signal.SIGTERM),
        ("out.parquet", signal.SIGKILL),
        ("out.jsonl.gz", signal.SIGKILL),
        ("out.jsonl.gz", signal.SIGTERM),
    ],
)
def test_a_run_that_was_killed_goes_on_after_its_last_checkpoint(tmp_path: Path, out: str, number: int) -> None:
    source, state = save(tmp_path / "in.csv", made(8_000)), tmp_path / "state.json"
    expected = whole(tmp_path, source, "whole." + out.split(".", 1)[1])
    kills = 0
    while True:
        with started(source, "--out", tmp_path / out, "--state", state) as process:
            before = state.read_bytes() if state.exists() else b""
            while process.poll() is None and (not state.exists() or state.read_bytes() == before):
                time.sleep(0.001)
            if kills < 2 and process.poll() is None:
                process.send_signal(number)
                kills += 1
            process.communicate(timeout=PATIENCE)
        if process.returncode == 0:
            break
        assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    assert kills == 2
    assert read(tmp_path / out) == expected
    assert weight(state) == 8_000


@pytest.mark.full
def test_fifty_kills_at_any_moment(tmp_path: Path) -> None:
    source, state, out = save(tmp_path / "in.csv", made(60_000)), tmp_path / "state.json", tmp_path / "out.csv"
    expected = whole(tmp_path, source)
    draw, done = random.Random(1), False
    for _ in range(50):
        with started(source, "--out", out, "--state", state) as process:
            time.sleep(draw.uniform(0.3, 1.0))
            process.kill()
            process.communicate(timeout=PATIENCE)
        done = process.returncode == 0
    if not done:
        with started(source, "--out", out, "--state", state) as process:
            process.communicate(timeout=PATIENCE)
    assert read(out) == expected
    assert weight(state) == 60_000
    with checkpoints.locked(state):  # which removes what a kill while saving has left
        assert {path.suffix for path in tmp_path.iterdir()} <= {".csv", ".json", ".lock"}


def test_another_file_is_learned_from_its_start_and_none_twice(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    one, other = save(tmp_path / "one.csv", made(500)), save(tmp_path / "other.csv", made(400, seed=2))
    learned = []
    for source in (one, other, one, other, tmp_path / "renamed.csv"):
        if not source.exists():
            one.rename(source)
        assert run(source, "--method", "ops", "--state", state).exit_code == 0
        learned.append(weight(state))
    assert learned == [500, 900, 900, 900, 900]
    assert run(other, "--method", "ops", "--state", state, "--again").exit_code == 0
    assert weight(state) == 1_300


def test_rows_skipped_are_in_the_rejects_once(tmp_path: Path) -> None:
    rows = made(40)
    for i in (0, 7, 20, 39):
        rows[i]["click"] = "?"
    source, bad, state, out = tmp_path / "in.csv", tmp_path / "bad.csv", tmp_path / "s.json", tmp_path / "o.csv"
    options = ["--method", "ops", "--on-error", "skip", "--rejects", bad, "--state", state, "--out", out]
    for stop in (10, 21, 40, 40):
        text = save(source, rows[:stop]).read_bytes()
        source.write_bytes(text.replace(b"\na3,", b"\n3 fields,a3,", 1))  # a row that cannot be split
        assert run(source, *options).exit_code == 0
    assert [row["row"] for row in read(bad)] == ["1", "4", "8", "21", "40"]
    assert len(read(out)) == weight(state) == 35


@pytest.mark.sample(3)
@pytest.mark.parametrize(("name", "line"), [("in.csv", b"1,2,3"), ("in.jsonl", b"{"), ("in.jsonl", b"null")])
@pytest.mark.parametrize("skip", [True, False])
def test_a_run_stopped_by_a_row_that_cannot_be_split_goes_on(
    tmp_path: Path, name: str, line: bytes, skip: bool
) -> None:
    """Rows behind it in the same batch were not learned, and are not in the position of the state."""
    source, state, out = save(tmp_path / name, made(60)), tmp_path / "state.json", tmp_path / "out.csv"
    expected = whole(tmp_path, source)
    lines = source.read_bytes().splitlines(keepends=True)
    source.write_bytes(b"".join([*lines[:40], line, b"\n", *lines[40:]]))
    command = (source, "--method", "ops", "--out", out, "--state", state)
    assert run(*command).exit_code == 2
    done = 40 - (name == "in.csv")
    assert (weight(state), len(read(out))) == (done, done)
    if not skip:  # the row is taken out
        source.write_bytes(b"".join(lines))
    result = run(*command, *(["--on-error", "skip"] if skip else []))
    assert result.exit_code == 0, result.output
    assert (weight(state), read(out)) == (60, expected)


def test_two_runs_do_not_share_a_state(tmp_path: Path) -> None:
    source, state = save(tmp_path / "in.csv", made()), tmp_path / "state.json"
    with checkpoints.locked(state):
        assert "state.json is in use by another run" in the_line(run(source, "--state", state))
    assert not state.exists()
    (tmp_path / ".state.json.0123456789abcdef.tmp").write_bytes(b"what a killed run has left")
    assert run(source, "--state", state).exit_code == 0
    assert not list(tmp_path.glob(".*"))
    assert [path.name for path in tmp_path.iterdir() if "lock" in path.name] == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full here")
def test_rows_that_could_not_be_written_are_not_in_the_state(tmp_path: Path) -> None:
    source, state, out = save(tmp_path / "in.csv", made()), tmp_path / "state.json", tmp_path / "out.csv"
    out.symlink_to("/dev/full")
    line = the_line(run(source, "--out", out, "--state", state))
    assert "cannot be written: No space left on device" in line
    assert "with --state, a run resumes after its last checkpoint, which is whole" in line
    assert not state.exists()


def test_a_disk_that_fills_up_leaves_the_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = made(ROWS)
    source, state, out = tmp_path / "in.csv", tmp_path / "state.json", tmp_path / "out.csv"
    expected = whole(tmp_path, save(source, rows))
    save(source, rows[:800])
    options = ["--method", "ops", "--out", out, "--state", state]
    assert run(source, *options).exit_code == 0
    before = state.read_bytes()
    opened = RecordWriter._opened

    class Filling(io.RawIOBase):
        """Takes half of what it is given, and then nothing more."""

        def __init__(self, writer: RecordWriter) -> None:
            self.below = opened(writer)

        def write(self, content: Any) -> int:
            self.below.write(content[: len(content) // 2])
            raise OSError(28, "No space left on device")

    save(source, rows)
    with monkeypatch.context() as patch:
        patch.setattr(RecordWriter, "_opened", lambda writer: Filling(writer))
        assert "No space left on device" in the_line(run(source, *options))
    assert state.read_bytes() == before
    assert run(source, *options).exit_code == 0
    assert read(out) == expected
    assert weight(state) == ROWS


def test_a_state_that_cannot_be_written_is_written_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, state = save(tmp_path / "in.csv", made()), tmp_path / "state.json"

    def refuse(*_: Any) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(checkpoints, "atomic_write", refuse)
    line = the_line(run(source, "--method", "ops", "--state", state))
    assert "Read-only file system; it is in " in line
    place = Path(line.partition("it is in ")[2].partition(": move")[0])
    assert weight(place) == 300
    place.unlink()


def test_an_output_that_became_shorter_is_refused(tmp_path: Path) -> None:
    source, state, out = save(tmp_path / "in.csv", made()), tmp_path / "state.json", tmp_path / "out.csv"
    options = ["--method", "ops", "--out", out, "--state", state]
    assert run(source, *options).exit_code == 0
    out.write_bytes(out.read_bytes()[:100])
    assert "the file is shorter than the" in the_line(run(source, *options))


def test_an_arrow_output_is_not_replaced_by_the_rows_that_are_left(tmp_path: Path) -> None:
    source, state, out = save(tmp_path / "in.csv", made()), tmp_path / "state.json", tmp_path / "out.arrow"
    options = ["--method", "ops", "--state", state]
    assert run(source, *options, "--out", out).exit_code == 0
    before = out.read_bytes()
    line = the_line(run(source, *options, "--out", out))
    assert "the first 300 rows were learned before, and a file of Arrow cannot be continued" in line
    assert out.read_bytes() == before


@pytest.mark.sample(6)
@pytest.mark.parametrize("lost", ["older", "without"])
@pytest.mark.parametrize("name", ["out.csv", "out.jsonl.gz", "out.parquet"])
def test_an_output_is_not_replaced_by_the_rows_that_are_left(tmp_path: Path, lost: str, name: str) -> None:
    """The output of the newest input stays where an older one comes again; so does one that a run left out."""
    one, other = save(tmp_path / "one.csv", made()), save(tmp_path / "other.csv", made(200, seed=2))
    options = ["--method", "ops", "--state", tmp_path / "state.json"]
    out = tmp_path / name
    assert run(one, *options, "--out", out).exit_code == 0
    again = run(other, *options, "--out", out) if lost == "older" else run(one, *options)
    assert again.exit_code == 0
    before = out.read_bytes()
    line = the_line(run(one, *options, "--out", out))
    assert "the first 300 rows were learned before, and the file is not the output of the run that learned" in line
    assert line.endswith("allowed: another --out for the rows after them, or --again")
    assert out.read_bytes() == before
    assert run(one, *options, "--out", tmp_path / "more.csv").exit_code == 0
    assert run(one, *options, "--out", out, "--again").exit_code == 0


def test_rows_after_the_last_checkpoint_are_cut_from_a_parquet_output(tmp_path: Path) -> None:
    """Also where a kill left half of a batch after them, and where the file was finished."""
    path = tmp_path / "a.parquet"
    beside = tmp_path / ".a.parquet.rows"
    with RecordWriter(path, ["a"]) as writer:
        writer.write([{"a": 1}, {"a": 2}])
        size = writer.sync()
        writer.write([{"a": 3}])
        writer.sync()
        killed = beside.read_bytes()[:-3]
    assert size == 2
    assert [row["a"] for row in read(path)] == [1, 2, 3]
    assert not beside.exists()
    for content in (None, killed):
        if content is not None:
            path.write_bytes(b"PAR1 and no end")
            beside.write_bytes(content)
            assert rows_in(str(path)) == 2
        with RecordWriter(path, ["a"], append_at=size) as writer:
            writer.write([{"a": 4}])
        assert [row["a"] for row in read(path)] == [1, 2, 4]
        assert not list(tmp_path.glob(".*"))
    with pytest.raises(RecordError, match="the file is shorter than the 4 rows that a run has written"):
        RecordWriter(path, ["a"], append_at=4)
    assert [row["a"] for row in read(path)] == [1, 2, 4]
    assert not list(tmp_path.glob(".*"))


def test_a_parquet_output_that_could_not_be_finished_keeps_its_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, state, out = save(tmp_path / "in.csv", made()), tmp_path / "state.json", tmp_path / "out.parquet"
    options = ["--method", "ops", "--out", out, "--state", state]

    def fail(self: Any, table: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(tables._RowGroups, "write_batch", fail)
        assert "cannot be written: No space left on device" in the_line(run(source, *options))
    assert weight(state) == rows_in(str(out)) == 300
    assert run(source, *options).exit_code == 0
    assert read(out) == whole(tmp_path, source, "whole.parquet")


def test_rows_beside_a_parquet_output_are_not_replaced_by_the_rows_that_are_left(tmp_path: Path) -> None:
    source, state, out = save(tmp_path / "in.csv", made()), tmp_path / "state.json", tmp_path / "out.parquet"
    options = ["--method", "ops", "--state", state]
    assert run(source, *options).exit_code == 0
    out.touch()
    (tmp_path / ".out.parquet.rows").write_bytes(b"rows")
    assert "the file is not the output of the run that learned" in the_line(run(source, *options, "--out", out))


@pytest.mark.parametrize("bad", [5, 290])
def test_an_interrupt_among_rows_that_are_read_one_by_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: int
) -> None:
    """The state counts the rows before it and no other, whichever part of a batch they are in."""
    rows = made(300)
    rows[bad]["click"] = "?"
    source, state = save(tmp_path / "in.csv", rows), tmp_path / "state.json"
    calibrator = streamcal.OnlinePlatt()
    job = Run(calibrator, [str(source)], Columns("score", "click"), skip=True, out=str(tmp_path / "out.csv"))
    job.keep = partial(checkpoints.save, calibrator, state)
    step = job.evaluation.step

    def interrupting(*observation: Any) -> Any:
        if calibrator.n == bad - 3:
            job.interrupt()
        return step(*observation)

    monkeypatch.setattr(job.evaluation, "step", interrupting)
    with pytest.raises(KeyboardInterrupt):
        job.execute()
    assert weight(state) == checkpoints.load(state)[1].inputs[0].rows == len(read(tmp_path / "out.csv")) == bad - 2
    options = ["--method", "ops", "--state", state, "--out", tmp_path / "out.csv", "--on-error", "skip"]
    assert run(source, *options).exit_code == 0
    assert read(tmp_path / "out.csv") == whole(tmp_path, source, "whole.csv", "--on-error", "skip")
    assert weight(state) == 299


def test_a_parquet_output_of_a_pipe_goes_on(tmp_path: Path) -> None:
    rows = made(300)
    state, out = tmp_path / "state.json", tmp_path / "out.parquet"
    for part in (rows[:100], rows[100:]):
        assert run("-", "--method", "ops", "--out", out, "--state", state, stdin=as_csv(part)).exit_code == 0
    assert read(out) == whole(tmp_path, save(tmp_path / "in.csv", rows), "whole.parquet")


def test_a_parquet_output_is_not_continued_with_other_columns(tmp_path: Path) -> None:
    state, out = tmp_path / "state.json", tmp_path / "out.parquet"
    options = ["--method", "ops", "--out", out, "--state", state]
    assert run("-", *options, stdin=as_csv(made(100))).exit_code == 0
    before = read(out)
    other = as_csv([{"score": 0.5, "click": 1}] * 100)
    assert "the rows have other columns than those in the file" in the_line(run("-", *options, stdin=other))
    assert read(out) == before
    assert weight(state) == 100


def test_a_pipe_continues_the_output_after_whole_lines(tmp_path: Path) -> None:
    first, second = save(tmp_path / "1.csv", made(30)), save(tmp_path / "2.csv", made(20, seed=2))
    state, out = tmp_path / "state.json", tmp_path / "out.csv"
    options = ["--method", "ops", "--out", out, "--state", state]
    assert run("-", *options, stdin=first.read_bytes()).exit_code == 0
    with open(out, "ab") as file:  # as a run leaves it that is killed after its checkpoint
        file.write(b"b0,0.5,1,1,1.0,0.5\nb1,0.")
    assert run("-", *options, stdin=second.read_bytes()).exit_code == 0
    written = read(out)
    assert [row["id"] for row in written] == [*(f"a{i}" for i in range(30)), "b0", *(f"a{i}" for i in range(20))]
    assert weight(state) == 50


@pytest.mark.full
@pytest.mark.in_every_share
def test_standard_input_is_not_overwritten(tmp_path: Path) -> None:
    source = save(tmp_path / "in.csv", made())
    before = source.read_bytes()
    with open(source, "rb") as file:
        command = [*PROGRAM, "run", "-", "--score", "score", "--label", "click", "--out", str(source)]
        done = subprocess.run(command, stdin=file, capture_output=True, timeout=PATIENCE)
    assert done.returncode == 2
    assert b"--out would overwrite the input" in done.stderr
    assert source.read_bytes() == before


def test_an_address_goes_on_and_is_not_overwritten(tmp_path: Path) -> None:
    rows = made()
    source, state, out = tmp_path / "in.csv", tmp_path / "state.json", tmp_path / "out.csv"
    for stop in (200, len(rows)):
        address = save(source, rows[:stop]).as_uri()
        assert run(address, "--method", "ops", "--out", out, "--state", state).exit_code == 0
    assert read(out) == whole(tmp_path, source)
    before = source.read_bytes()
    assert "--out would overwrite the input" in run(address, "--out", source).output
    assert source.read_bytes() == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_is_no_state(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "state")
    line = the_line(run(save(tmp_path / "in.csv", made()), "--state", tmp_path / "state"))
    assert "it is no regular file" in line


def test_the_checkpoint_is_part_of_the_state_and_checked(tmp_path: Path) -> None:
    source, state = save(tmp_path / "in.csv", made()), tmp_path / "state.json"
    assert run(source, "--method", "ops", "--state", state).exit_code == 0
    assert streamcal.load(state).n == 300
    saved = json.loads(state.read_text())
    saved["run"]["files"][0][1] = 10
    state.write_text(json.dumps(saved))
    assert "does not match its checksum" in the_line(run(source, "--method", "ops", "--state", state))


def test_a_file_that_was_changed_is_not_learned_again_without_a_word(tmp_path: Path) -> None:
    """A row was corrected, inserted or removed, or the file cut: learning it from its start would count rows twice."""
    rows = made()
    source, state, out = tmp_path / "in.csv", tmp_path / "state.json", tmp_path / "out.csv"
    command = (source, "--method", "ops", "--state", state, "--out", out)
    save(source, rows)
    assert run(*command).exit_code == 0
    written = out.read_bytes()
    corrected = [*rows[:4], {**rows[4], "score": 0.123}, *rows[5:]]
    for changed in (corrected, [*rows[:4], *rows[5:]], [*rows[:4], rows[3], *rows[4:]], rows[:200]):
        save(source, changed)
        line = the_line(run(*command))
        assert "was changed: 300 rows of it were learned" in line
        assert "give --again" in line
        assert (weight(state), out.read_bytes()) == (300, written)
    save(source, corrected)
    assert run(*command, "--again").exit_code == 0
    assert weight(state) == 600
    save(source, [*corrected, *rows[:10]])
    assert run(*command).exit_code == 0  # rows appended are learned as always
    assert weight(state) == 610


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", ["in.csv", "in.jsonl"])
@pytest.mark.parametrize("skip", [(), ("--on-error", "skip")])
def test_half_a_line_of_a_growing_file_waits_for_the_rest(tmp_path: Path, name: str, skip: tuple[str, ...]) -> None:
    rows = made(80)
    source, state, out = save(tmp_path / name, rows), tmp_path / "state.json", tmp_path / f"out.{name[3:]}"
    expected = whole(tmp_path, source, f"whole.{name[3:]}")
    content = source.read_bytes()
    lines = content.splitlines(keepends=True)
    given = ("--method", "ops", "--state", state, "--out", out, *skip)
    for end in (b"".join(lines[:41])[:-1], b"".join(lines[:61])[:-9], content[:-2]):
        source.write_bytes(end)
        result = run(source, *given)
        assert result.exit_code == 0, result.output
        assert f"the last row of {name} has no line end, or a quote that is open, and is left" in result.output
        assert "1 skipped" not in result.output
    source.write_bytes(content)
    result = run(source, *given)
    assert "no line end" not in result.output
    assert weight(state) == 80
    assert read(out) == expected
    source.write_bytes(content[:-1])  # without a state all rows are read, as they are of other kinds of files
    assert "80 rows" in run(source, "--method", "ops").output
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(content[:-1]))
    assert "80 rows" in run(packed, "--method", "ops", "--state", tmp_path / "other.json").output


@pytest.mark.parametrize("skip", [(), ("--on-error", "skip")])
def test_half_a_row_with_line_ends_in_quotes_waits_for_the_rest(tmp_path: Path, skip: tuple[str, ...]) -> None:
    source, state, out = tmp_path / "in.csv", tmp_path / "state.json", tmp_path / "out.csv"
    content = as_csv([{**row, "id": f"of two\nlines, {row['id']}"} for row in made(60)])
    source.write_bytes(content)
    expected = whole(tmp_path, source)
    source.write_bytes(content[: content.index(b"lines, a30")])
    given = ("--method", "ops", "--state", state, "--out", out, *skip)
    result = run(source, *given)
    assert result.exit_code == 0, result.output
    assert "a quote that is open, and is left for the next run" in result.output
    assert weight(state) == 30
    source.write_bytes(content)
    assert run(source, *given).exit_code == 0
    assert weight(state) == 60
    assert read(out) == expected
    source.write_bytes(content[: content.index(b"lines, a30")])  # without a state all rows are read
    assert "row 31: the row is not valid CSV" in the_line(run(source, "--method", "ops"))


def test_an_output_of_csv_is_not_continued_with_other_columns(tmp_path: Path) -> None:
    state, out, first = tmp_path / "state.json", tmp_path / "out.csv", as_csv(made(20))
    given = ("--method", "ops", "--out", out, "--state", state)
    assert run("-", *given, stdin=first).exit_code == 0
    before = out.read_bytes()
    others = (
        as_csv([{"click": 0, "score": 0.5}] * 20),
        first.replace(b",", b";"),
        b'{"score": 0.5, "click": 1}\n',
    )
    for other in others:
        assert "other columns than those in the file; allowed: 'id" in the_line(run("-", *given, stdin=other))
    line = the_line(run("-", *given, "--output-column", "p", stdin=first))
    assert "other columns than those in the file" in line
    out.write_bytes(b"")
    assert "the file is shorter than the" in the_line(run("-", *given, stdin=first))
    out.write_bytes(before)
    assert run("-", *given, stdin=first).exit_code == 0
    assert weight(state) == 40
    assert len(read(out)) == 40


def test_a_new_file_under_the_old_name_is_learned_with_a_word(tmp_path: Path) -> None:
    rows, source, state = made(), tmp_path / "in.csv", tmp_path / "state.json"
    save(source, rows[:100])
    assert run(source, "--method", "ops", "--state", state).exit_code == 0
    save(source, rows[100:150])
    said = run(source, "--method", "ops", "--state", state)
    assert "another file of this name was learned before" in said.output
    assert weight(state) == 150


def test_positions_of_files_that_begin_alike(tmp_path: Path) -> None:
    """Of several positions with the same first row, the furthest that agrees with the file."""
    rows = made(50)
    source = save(tmp_path / "in.csv", rows)
    columns = ["score", "click"]

    def position_after(number: int) -> Position:
        here = Position("in.csv")
        with RecordReader(source, batch_rows=7) as reader:
            for batch in reader:
                here.advance(batch.take(slice(max(number - here.rows, 0))), columns)
        return here

    ten, thirty = position_after(10), position_after(30)
    other = Position("other.csv", 20, ten.first, 12345)
    for inputs, expected in [((ten, other), ten), ((thirty, ten), thirty), ((other,), None), ((), None)]:
        with RecordReader(source) as reader:
            assert Checkpoint(inputs).position_in(reader, columns) is expected
    assert Checkpoint.read(json.loads(json.dumps(Checkpoint((ten, other)).state()))) == Checkpoint((ten, other))


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32(), pa.int64(), pa.dictionary(pa.int8(), pa.float64())])
def test_a_table_with_missing_values_is_the_same_in_batches_of_any_size(tmp_path: Path, kind: Any) -> None:
    """A batch may have no missing value where a longer one has some; the file was taken for another one."""
    values = pa.array([None if i in (3, 17) else float(i) for i in range(30)])
    values = values.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else values.cast(kind)
    source = tmp_path / "in.parquet"
    parquet.write_table(pa.table({"score": pa.array([0.5] * 30), "click": values}), source)

    def position(rows: int) -> Position:
        here = Position("in.parquet")
        with RecordReader(source, batch_rows=rows) as reader:
            reader.require("score", "click")
            for batch in reader:
                here.advance(batch, ["score", "click"])
        return here

    assert position(1) == position(4) == position(7) == position(30)


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl.bz2"])
def test_what_is_synced_is_there_while_the_file_is_open(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with RecordWriter(path, ["a"]) as writer:
        writer.write([{"a": 1}])
        size = writer.sync()
        copy = tmp_path / f"copy-{name}"
        copy.write_bytes(path.read_bytes()[:size])
        assert [str(row["a"]) for row in read(copy)] == ["1"]
        writer.write([{"a": 2}])
    assert [str(row["a"]) for row in read(path)] == ["1", "2"]
    with RecordWriter(path, ["a"], append_at=size) as writer:
        writer.write([{"a": 3}])
    assert [str(row["a"]) for row in read(path)] == ["1", "3"]


def test_a_compressed_file_without_rows_is_one(tmp_path: Path) -> None:
    with RecordWriter(tmp_path / "a.jsonl.gz", ["a"]):
        pass
    assert gzip.decompress((tmp_path / "a.jsonl.gz").read_bytes()) == b""
    assert (tmp_path / "a.jsonl.gz").stat().st_size > 0
