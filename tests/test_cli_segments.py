"""`streamcal run --segment`: what `Segmented` computes, from every format, with resumption."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from test_cli import made, read, run, save, the_line

import streamcal
from streamcal import OnlinePlatt
from streamcal.live import Segmented

FIELDS = ("campaign", ("campaign", "placement"))
OPTIONS = ("--method", "ops", "--segment", "campaign", "--segment", "campaign, placement")


def rows_with_segments(n: int = 900) -> list[dict[str, Any]]:
    """Campaigns as texts, one in thirty missing, and placements as whole numbers."""
    draw = random.Random(4)
    segments = [
        {"campaign": f"c{draw.randrange(9)}" if k % 30 else "", "placement": draw.randrange(3)} for k in range(n)
    ]
    return [{**row, **segment} for row, segment in zip(made(n), segments, strict=True)]


def expected(rows: list[dict[str, Any]], as_text: bool, cal: Segmented | None = None) -> list[float]:
    """Run the definition of the job."""
    cal, found = cal or Segmented(OnlinePlatt(), FIELDS), []
    for row in rows:
        placement = str(row["placement"]) if as_text else row["placement"]
        keys = {"campaign": row["campaign"] or None, "placement": placement}
        found.append(cal.predict_one(row["score"], keys=keys))
        cal.learn_one(row["score"], row["click"], keys=keys)
    return found


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", ["in.csv", "in.jsonl", "in.parquet", "in.arrows"])
def test_it_is_the_loop(tmp_path: Path, name: str) -> None:
    rows = rows_with_segments()
    source, out = save(tmp_path / name, rows), tmp_path / "out.jsonl"
    result = run(source, *OPTIONS, "--out", out)
    assert result.exit_code == 0, result.output
    assert [float(row["calibrated"]) for row in read(out)] == expected(rows, as_text=name == "in.csv")
    assert "segments by campaign: 9, which differ by" in result.output
    assert "segments by campaign,placement: 27, which differ by" in result.output


def test_a_row_that_cannot_be_used_makes_no_difference_to_the_others(tmp_path: Path) -> None:
    """Its batch is read row by row."""
    rows = rows_with_segments()
    bad = [*rows[:500], {**rows[0], "score": 7.0}, {**rows[1], "campaign": 0.5}, *rows[500:]]
    result = run(save(tmp_path / "in.jsonl", bad), *OPTIONS, "--out", tmp_path / "out.jsonl", "--on-error", "skip")
    assert result.exit_code == 0, result.output
    assert "2 skipped" in result.output
    assert [row["calibrated"] for row in read(tmp_path / "out.jsonl")] == expected(rows, as_text=False)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ["in.parquet", "in.jsonl"])
@pytest.mark.parametrize("bad", [False, True])
def test_truth_values_are_the_levels_that_the_output_has(tmp_path: Path, name: str, bad: bool) -> None:
    rows = [{**row, "mobile": i % 3 == 0} for i, row in enumerate(made(200))]
    source, state, out = save(tmp_path / name, rows), tmp_path / "state.json", tmp_path / "out.csv"
    if bad:  # rows are read one by one
        save(source, [*rows, {**rows[0], "score": 7.0}])
    given = ("--method", "ops", "--on-error", "skip", "--segment", "mobile")
    assert run(source, *given, "--state", state, "--out", out).exit_code == 0
    again = tmp_path / "again.csv"
    assert run(out, *given, "--output-column", "again", "--out", again).exit_code == 0
    assert all(float(row["again"]) == float(row["calibrated"]) for row in read(again))
    assert streamcal.load(state, Segmented).effect("mobile", "true")[2] > 0


def test_a_level_that_is_none_is_named(tmp_path: Path) -> None:
    source = save(tmp_path / "in.jsonl", [{**row, "campaign": 0.5} for row in made(3)])
    line = the_line(run(source, "--segment", "campaign"))
    assert "row 1, column 'campaign'" in line
    assert "level '0.5' of 'campaign' is not possible" in line


@pytest.mark.sample(2)
@pytest.mark.parametrize("stop", [450, 900])
def test_pairs_that_are_not_named(tmp_path: Path, stop: int) -> None:
    rows, state, out = rows_with_segments(), tmp_path / "state.json", tmp_path / "out.csv"
    source = save(tmp_path / "in.csv", rows[:stop])
    options = ("--method", "ops", "--segment", "campaign", "--segment", "placement")
    result = run(source, *options, "--pairs", "--state", state, "--out", out)
    assert result.exit_code == 0, result.output
    save(source, rows)
    assert run(source, "--state", state, "--out", out).exit_code == 0, "the state knows it"
    job = Segmented(OnlinePlatt(), ["campaign", "placement"], pairs=True)
    assert [float(row["calibrated"]) for row in read(out)] == expected(rows, True, job)
    assert streamcal.load(state).pair_effects() == job.pair_effects()
    assert run(source, *options, "--state", tmp_path / "alone.json").exit_code == 0
    line = the_line(run(source, *options, "--pairs", "--state", tmp_path / "alone.json"))
    assert "which contradicts the options given" in line
    assert "--pairs needs --segment" in the_line(run(source, "--pairs"))
    assert "give 2 to 16 fields" in the_line(run(source, "--segment", "campaign", "--pairs"))
    stored = ("--levels-store", tmp_path / "levels.db")
    assert "a file holds no levels of pairs" in the_line(run(source, *options, *stored, "--pairs"))


@pytest.mark.sample(2)
@pytest.mark.parametrize("stop", [1, 450])
def test_the_same_command_goes_on(tmp_path: Path, stop: int) -> None:
    rows, state, out = rows_with_segments(), tmp_path / "state.json", tmp_path / "out.csv"
    source = save(tmp_path / "in.csv", rows[:stop])
    assert run(source, *OPTIONS, "--state", state, "--out", out).exit_code == 0
    save(source, rows)
    assert run(source, "--state", state, "--out", out).exit_code == 0, "the state knows the fields"
    assert [float(row["calibrated"]) for row in read(out)] == expected(rows, as_text=True)
    saved = streamcal.load(state)
    assert isinstance(saved, Segmented)
    assert saved.n == len(rows)


@pytest.mark.parametrize(
    "options",
    [("--segment", "placement"), ("--method", "platt"), ("--method", "ops", "--set", "discount=0.5")],
)
def test_options_that_contradict_the_state(tmp_path: Path, options: tuple[str, ...]) -> None:
    source, state = save(tmp_path / "in.csv", rows_with_segments(50)), tmp_path / "state.json"
    assert run(source, *OPTIONS, "--state", state).exit_code == 0
    assert "which contradicts the options given" in the_line(run(source, *options, "--state", state))


def test_a_state_without_segments_takes_none(tmp_path: Path) -> None:
    source, state = save(tmp_path / "in.csv", rows_with_segments(50)), tmp_path / "state.json"
    assert run(source, "--method", "ops", "--state", state).exit_code == 0
    assert "which contradicts the options given" in the_line(run(source, "--segment", "campaign", "--state", state))
    content = json.loads(state.read_text())
    assert content["class"] == "OnlinePlatt"


@pytest.mark.parametrize("given", [("campaign", "campaign"), ("campaign,campaign",), (",",), ("a,b", "b,a")])
def test_fields_given_twice(tmp_path: Path, given: tuple[str, ...]) -> None:
    options = [option for field in given for option in ("--segment", field)]
    assert "give each field once" in the_line(run(save(tmp_path / "in.csv", rows_with_segments(5)), *options))


def test_a_column_that_is_not_there(tmp_path: Path) -> None:
    line = the_line(run(save(tmp_path / "in.csv", rows_with_segments(5)), "--segment", "campain"))
    assert "did you mean 'campaign'?" in line


def test_a_method_that_forgets_by_time_still_asks_for_it(tmp_path: Path) -> None:
    source = save(tmp_path / "in.csv", rows_with_segments(50))
    options = ("--method", "platt", "--segment", "campaign", "--set", "forgetting=Window(5, by='time')")
    assert "name the column with --time" in the_line(run(source, *options))
    assert run(source, *options, "--time", "t").exit_code == 0
