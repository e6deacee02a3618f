"""`streamcal predict`: what `predict_one` of the loaded state returns, for every row of every format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from test_cli import made, program, read, save, the_line

import streamcal
from streamcal.app.terminal import USAGE_ERROR
from streamcal.live import Segmented


def trained(tmp_path: Path, *options: object) -> Path:
    rows = [{**row, "place": f"p{k % 5}", "t": 1.7e9 + 600.0 * k} for k, row in enumerate(made(600))]
    source, state = save(tmp_path / "train.jsonl", rows), tmp_path / "state.json"
    found = program("run", source, "--score", "score", "--label", "click", "--state", state, *options)
    assert found.exit_code == 0, found.output
    return state


def new_rows() -> list[dict[str, Any]]:
    rows = [{"id": k, "score": row["score"], "place": f"p{k % 7}"} for k, row in enumerate(made(300, seed=2))]
    return [{**row, "t": 1.7e9 + 400_000.0 + 600.0 * k} for k, row in enumerate(rows)]


def predict(state: Path, stream: object, *options: object, stdin: bytes | None = None) -> Any:
    return program("predict", state, stream, "--score", "score", *options, stdin=stdin)


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", ["in.csv", "in.jsonl", "in.parquet", "in.arrow", "in.csv.gz"])
@pytest.mark.parametrize("method", ["venn-abers", "ops"])
def test_every_format_is_predicted_and_nothing_is_learned(tmp_path: Path, name: str, method: str) -> None:
    state = trained(tmp_path, "--method", method)
    before, rows, out = state.read_bytes(), new_rows(), tmp_path / f"out.{name.split('.', 1)[1]}"
    found = predict(state, save(tmp_path / name, rows), "--out", out)
    assert found.exit_code == 0, found.output
    assert "600 observations" in found.output
    assert "300 rows predicted" in found.output
    calibrator = streamcal.load(state)
    written = read(out)
    assert [float(row["calibrated"]) for row in written] == [calibrator.predict_one(row["score"]) for row in rows]
    assert [int(row["id"]) for row in written] == [row["id"] for row in rows]
    if method == "venn-abers":
        ends = [calibrator.predict_interval_one(row["score"]) for row in rows]
        assert [(float(row["lower"]), float(row["upper"])) for row in written] == ends
    assert state.read_bytes() == before


def test_segments_are_read_under_their_names(tmp_path: Path) -> None:
    state, rows, out = trained(tmp_path, "--method", "ops", "--segment", "place"), new_rows(), tmp_path / "out.csv"
    assert predict(state, save(tmp_path / "in.csv", rows), "--out", out).exit_code == 0
    calibrator = streamcal.load(state)
    assert isinstance(calibrator, Segmented)
    expected = [calibrator.predict_one(row["score"], keys={"place": row["place"]}) for row in rows]
    assert [float(row["calibrated"]) for row in read(out)] == expected
    without = [{"score": row["score"]} for row in rows]
    assert "'place'" in the_line(predict(state, save(tmp_path / "without.csv", without)))


@pytest.mark.parametrize("options", [("--method", "auto"), ("--method", "platt", "--half-life", "2d")])
def test_times_are_those_of_the_rows(tmp_path: Path, options: tuple[str, ...]) -> None:
    state, rows, out = trained(tmp_path, *options, "--time", "t"), new_rows(), tmp_path / "out.csv"
    assert predict(state, save(tmp_path / "in.csv", rows), "--time", "t", "--out", out).exit_code == 0
    calibrator = streamcal.load(state)
    expected = [calibrator.predict_one(row["score"], row["t"]) for row in rows]
    assert [float(row["calibrated"]) for row in read(out)] == expected


def test_units_and_falling_scores_are_given_again(tmp_path: Path) -> None:
    state, out = trained(tmp_path, "--method", "ops"), tmp_path / "out.csv"
    rows = [{"score": round(100.0 * (1.0 - row["score"]), 6)} for row in new_rows()]
    given = ("--scale", "percent", "--decreasing", "--out", out)
    assert predict(state, save(tmp_path / "in.csv", rows), *given).exit_code == 0
    calibrator = streamcal.load(state)
    expected = [calibrator.predict_one(1.0 - row["score"] / 100.0) for row in rows]
    assert [float(row["calibrated"]) for row in read(out)] == expected


def test_rows_that_cannot_be_used(tmp_path: Path) -> None:
    state, rows = trained(tmp_path, "--method", "ops"), new_rows()
    rows[7]["score"] = 1.5
    source, out, rejects = save(tmp_path / "in.csv", rows), tmp_path / "out.csv", tmp_path / "rejects.csv"
    line = the_line(predict(state, source, "--out", out))
    assert "row 8, column 'score'" in line
    assert len(read(out)) == 7
    found = predict(state, source, "--out", out, "--on-error", "skip", "--rejects", rejects)
    assert found.exit_code == 0
    assert "299 rows predicted, 1 skipped" in found.output
    assert len(read(rejects)) == 1


def test_a_pipe(tmp_path: Path) -> None:
    state = trained(tmp_path, "--method", "ops")
    found = predict(state, "-", "--format", "csv", stdin=b"score\n0.25\n0.5\n")
    assert found.exit_code == 0
    p = streamcal.load(state)
    assert found.stdout.splitlines() == [
        "score,calibrated",
        f"0.25,{p.predict_one(0.25)!r}",
        f"0.5,{p.predict_one(0.5)!r}",
    ]


def test_what_is_no_state(tmp_path: Path) -> None:
    source = save(tmp_path / "in.csv", new_rows())
    assert "no such file" in the_line(predict(tmp_path / "none.json", source))
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    assert str(broken) in the_line(predict(broken, source))
    state = trained(tmp_path, "--method", "ops")
    assert "overwritten" in the_line(predict(state, source, "--out", state))
    assert streamcal.load(state).n == 600


@pytest.mark.sample(3)
@pytest.mark.parametrize("given", [("--scale", "percent"), ("--decreasing",), ("--positive", "0")])
def test_a_state_is_not_used_with_other_scores_or_labels(tmp_path: Path, given: tuple[str, ...]) -> None:
    """An option left out or added would mix scores or labels of two meanings, or predict of others, without a word."""
    rows = made(100)
    source, state, out = save(tmp_path / "in.csv", rows), tmp_path / "state.json", tmp_path / "out.csv"
    command = ("run", source, "--score", "score", "--label", "click", "--method", "platt", "--state", state)
    assert program(*command, *given).exit_code == 0
    before, option = state.read_bytes(), " ".join(given)
    assert f"{state} learned with {option}; give it again" in the_line(program(*command))
    assert state.read_bytes() == before
    assert program(*command, *given).exit_code == 0
    of_scores = given[0] != "--positive"
    found = predict(state, source, "--out", out)
    assert found.exit_code == (USAGE_ERROR if of_scores else 0)
    assert predict(state, source, "--out", out, *(given if of_scores else ())).exit_code == 0
    assert ("in place of score, give" in program("map", state).stderr) == of_scores

    other = tmp_path / "other.json"
    plain = ("run", source, "--score", "score", "--label", "click", "--method", "platt", "--state", other)
    assert program(*plain).exit_code == 0
    before = other.read_bytes()
    assert f"{other} learned without {option}; leave it out" in the_line(program(*plain, *given))
    assert other.read_bytes() == before


def test_a_state_with_cycles_of_the_day_asks_for_times(tmp_path: Path) -> None:
    state, stream = trained(tmp_path, "--time", "t"), save(tmp_path / "in.csv", new_rows())
    assert "give --time" in predict(state, stream, "--out", tmp_path / "out.csv").stderr
    assert "give --time" not in predict(state, stream, "--out", tmp_path / "out.csv", "--time", "t").stderr
    late = save(tmp_path / "ms.csv", [{**row, "t": 1000.0 * row["t"]} for row in new_rows()])
    assert "look like milliseconds" in predict(state, late, "--out", tmp_path / "out.csv", "--time", "t").stderr
