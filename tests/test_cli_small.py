"""Small things of the command line: names of the output, quiet runs, one method, a sample."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_cli import made, program, read, run, save, the_line

import streamcal


def test_the_output_column_has_another_name(tmp_path: Path) -> None:
    rows = [{**row, "calibrated": 1} for row in made(50)]
    source, out, state = save(tmp_path / "in.csv", rows), tmp_path / "out.csv", tmp_path / "state.json"
    line = the_line(run(source, "--method", "venn-abers", "--out", out))
    assert "--output-column" in line
    given = ("--out", out, "--output-column", "p")
    assert run(source, "--method", "venn-abers", "--state", state, *given).exit_code == 0
    assert list(read(out)[0])[-4:] == ["calibrated", "p", "lower", "upper"]
    assert program("predict", state, source, "--score", "score", *given).exit_code == 0
    assert list(read(out)[0])[-4:] == ["calibrated", "p", "lower", "upper"]
    line = the_line(run(source, "--method", "venn-abers", "--out", out, "--output-column", "lower"))
    assert "adds a column 'lower'; give another --output-column" in line


def test_a_quiet_run_prints_warnings_alone(tmp_path: Path) -> None:
    source, out = save(tmp_path / "in.csv", made(100)), tmp_path / "out.csv"
    found = run(source, "--method", "ops", "--out", out, "--quiet")
    assert (found.exit_code, found.output) == (0, "")
    assert len(read(out)) == 100
    positives = save(tmp_path / "ones.csv", [{**row, "click": 1} for row in made(100)])
    found = run(positives, "--method", "ops", "--quiet")
    assert found.stdout == ""
    assert found.stderr.startswith("warning: none of 100 labels is negative")


@pytest.mark.parametrize(("name", "title"), [("ops", "OnlinePlatt"), ("one-vs-rest", "OneVsRest")])
def test_one_method_shows_its_documentation(name: str, title: str) -> None:
    found = program("methods", name)
    assert found.exit_code == 0
    assert found.stdout.splitlines()[0].endswith(f".{title}")
    assert "Parameters" in found.stdout
    assert "did you mean 'ops'" in the_line(program("methods", "opps"))


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", ["clicks.csv.gz", "clicks.parquet", "clicks.jsonl"])
def test_the_sample_is_what_the_readme_runs_on(tmp_path: Path, name: str) -> None:
    place = tmp_path / name
    found = program("sample", place, "--rows", 3_000)
    assert found.exit_code == 0, found.output
    given = ("--score", "pctr", "--label", "click", "--time", "t", "--segment", "advertiser", "--method", "ops")
    assert "3,000 rows" in program("run", place, *given, "--out", tmp_path / "out.parquet").output
    late = ("--id", "id", "--event-time", "t", "--label-time", "click_t", "--horizon", "6h", "--early", "15m")
    assert "3,000 rows" in program("run", place, *given[:4], *late, "--method", "ops").output
    before = place.read_bytes()
    program("sample", place, "--rows", 3_000)
    assert read(place) == read(tmp_path / name)
    assert name.endswith(".gz") or place.read_bytes() == before
    for other in ("score,click\n0.5,1\n", ""):
        log = tmp_path / "log.csv"
        log.write_text(other)
        assert "which the sample would overwrite" in the_line(program("sample", log))
        assert log.read_text() == other


def test_rejects_of_a_comparison_are_not_among_its_result(tmp_path: Path) -> None:
    source = save(tmp_path / "in.csv", made(50))
    given = ("--score", "score", "--label", "click", "--on-error", "skip", "--rejects", "-")
    assert "--rejects is a file, since the result is on standard output" in the_line(program("compare", source, *given))


def test_a_comparison_prints_its_table() -> None:
    rng = np.random.default_rng(0)
    p = rng.random(2_000)
    found = streamcal.compare((p, rng.random(2_000) < p**3), methods=["ops", "isotonic"])
    header, *rows, advice = str(found).splitlines()
    assert header.split() == ["method", "log", "loss", "Brier", "ratio", "against", "raw"]
    assert [row.split()[0] for row in rows] == ["ops", "isotonic", "raw"]
    assert advice.startswith("ops: ops has the lowest log loss")
    assert repr(found).startswith("Comparison([")


@pytest.mark.parametrize("name", ["in.csv", "in.parquet"])
def test_scores_that_rounding_led_outside(tmp_path: Path, name: str) -> None:
    rows = made(60)
    source = save(tmp_path / name, [*rows, {**rows[0], "score": 1.0000001}, {**rows[1], "score": -1e-9}])
    line = the_line(run(source, "--method", "ops"))
    assert "row 61, column 'score'" in line
    assert "--clip" in line
    out, exact = tmp_path / "out.jsonl", tmp_path / "exact.jsonl"
    assert run(source, "--method", "ops", "--clip", "--out", out).exit_code == 0
    ends = save(tmp_path / f"ends-{name}", [*rows, {**rows[0], "score": 1.0}, {**rows[1], "score": 0.0}])
    assert run(ends, "--method", "ops", "--out", exact).exit_code == 0
    assert [row["calibrated"] for row in read(out)] == [row["calibrated"] for row in read(exact)]
    far = save(tmp_path / f"far-{name}", [{**rows[0], "score": 1.001}])
    assert "row 1, column 'score'" in the_line(run(far, "--method", "ops", "--clip"))
    compared = program("compare", source, "--score", "score", "--label", "click", "--methods", "ops", "--clip")
    assert compared.exit_code == 0, compared.output


def test_the_shell_completes_names_of_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_ROOT_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "root run clicks.csv --method online")
    monkeypatch.setenv("COMP_CWORD", "4")
    assert program().stdout.split() == ["online-platt", "online-beta"]
