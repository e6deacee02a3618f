"""`streamcal demo`: its parts on the first calls and, with `-m full`, the whole of it once, as a program."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import streamcal.app.demo as demo
from streamcal.app.cli import USAGE_ERROR, app
from streamcal.datasets import bank

CALLS = 700
#: Another River, or another libm, steps a little differently.
WITHIN = 0.01


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """What the program prints, and the picture it saves."""
    picture = tmp_path_factory.mktemp("demo") / "diagrams.png"
    command = [
        sys.executable,
        "-P",
        "-c",
        "from streamcal.app.cli import main; main()",
        "demo",
        "--picture",
        str(picture),
    ]
    environment = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stderr == ""  # no terminal, no bar
    return done.stdout, picture


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first calls only."""
    monkeypatch.setattr(demo, "bank", lambda: islice(bank(), CALLS))
    monkeypatch.setattr(demo, "BANK_ROWS", CALLS)


def figures(shown: str, model: str) -> dict[str, list[float]]:
    """The rows of a model's table: name → log loss, Brier, ECE, calibration ratio, ..."""
    table = shown.partition(f"\n{model}, learning online\n")[2].partition("\n\n")[0]
    rows = (re.split(r"  +", line) for line in table.splitlines()[1:])
    return {name: [float(cell) for cell in cells] for name, *cells in rows if cells}


@pytest.mark.full
def test_the_figures_are_those_of_the_documentation(shown: tuple[str, Path]) -> None:
    regression, bayes = (figures(shown[0], model) for model in ("logistic regression", "naive Bayes"))
    assert list(regression) == list(bayes) == ["raw", "ops", "bernstein", "venn-abers"]
    losses = {
        "raw": (0.2818, 1.331),
        "ops": (0.2774, 0.2881),
        "bernstein": (0.285, 0.292),
        "venn-abers": (0.277, 0.292),
    }
    for name, expected in losses.items():
        assert (regression[name][0], bayes[name][0]) == pytest.approx(expected, rel=WITHIN)
    base_rate = re.search(r"base rate so far has log loss (\S+)\.\n", shown[0])
    assert base_rate is not None
    assert float(base_rate[1]) == pytest.approx(0.3522, rel=WITHIN)


@pytest.mark.full
def test_calibration_repairs_naive_bayes_by_every_measure(shown: tuple[str, Path]) -> None:
    raw, *calibrated = figures(shown[0], "naive Bayes").values()
    for losses in calibrated:
        assert all(after < before for after, before in zip(losses[:3], raw[:3], strict=True))
        assert abs(losses[3] - 1) < abs(raw[3] - 1)


@pytest.mark.full
def test_it_fits_80_columns(shown: tuple[str, Path]) -> None:
    assert max(len(line) for line in shown[0].splitlines() if "diagrams.png" not in line) <= 80


@pytest.mark.full
def test_the_picture_is_saved(shown: tuple[str, Path]) -> None:
    pytest.importorskip("matplotlib")
    assert f"Reliability diagrams: {shown[1]}" in shown[0]
    assert shown[1].read_bytes().startswith(b"\x89PNG")


@pytest.mark.full
def test_the_line_it_ends_with_does_the_same_to_a_file(shown: tuple[str, Path], tmp_path: Path) -> None:
    program, *arguments = shlex.split(shown[0].splitlines()[-1])
    assert program == "streamcal"
    source, out = tmp_path / "in.csv", tmp_path / "calibrated.csv"
    source.write_text("COLUMN\n0\n1\n")
    named = {"FILE.csv": str(source), "calibrated.csv": str(out)}
    assert CliRunner().invoke(app, [named.get(word, word) for word in arguments]).exit_code == 0
    assert out.read_text().startswith("COLUMN,calibrated\n0,")


@pytest.mark.usefixtures("short")
def test_without_matplotlib_it_says_how_to_get_the_picture(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["demo", "--picture", str(tmp_path / "no.png")])
    assert result.exit_code == 0, result.output
    assert 'pip install ".[plot]"' in result.stdout
    assert not (tmp_path / "no.png").exists()


@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(("name", "at_once"), [("nowhere/no.png", True), ("no.xyz", False), ("folder.png", False)])
def test_a_picture_that_cannot_be_saved_ends_with_one_line(tmp_path: Path, name: str, at_once: bool) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "folder.png").mkdir()
    result = CliRunner().invoke(app, ["demo", "--picture", str(tmp_path / name)])
    assert result.exit_code == USAGE_ERROR
    assert ("naive Bayes, learning online" in result.stdout) != at_once
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"streamcal: {tmp_path / name}: the picture cannot be written: ")


@pytest.mark.usefixtures("short")
def test_a_picture_without_an_ending_is_a_png(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = CliRunner().invoke(app, ["demo", "--picture", str(tmp_path / "diagrams")])
    assert f"Reliability diagrams: {tmp_path / 'diagrams.png'}\n" in result.stdout
    assert (tmp_path / "diagrams.png").exists()


@pytest.mark.usefixtures("short")
def test_progress_is_told_up_to_the_end() -> None:
    told: list[tuple[int, Any]] = []
    demo.run(lambda rows, share: told.append((rows, share)))
    assert told == [(rows, rows / (2 * CALLS)) for rows in range(demo.TELL_EVERY, 2 * CALLS + 1, demo.TELL_EVERY)]


@pytest.mark.usefixtures("short")
def test_every_call_is_calibrated_before_it_is_learned() -> None:
    result = demo.run(lambda rows, share: None)
    for name, model in demo.bases().items():
        scored = list(demo.score_stream(model(), islice(bank(), CALLS)))
        for method, calibrator in demo.methods().items():
            loss = demo.Scoreboard()
            for score, y in scored:
                loss.update(calibrator.predict_one(score), y)
                calibrator.learn_one(score, y)
            assert result.boards[name][method].log_loss.value == pytest.approx(loss.log_loss.value, abs=1e-12)
