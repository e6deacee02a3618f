"""`streamcal demo`: its parts on the first calls and, with `-m full`, the whole of it once, as a program."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

import streamcal.app.demo as demo
import streamcal.app.demo_report as demo_report
from streamcal.app.cli import app
from streamcal.app.terminal import USAGE_ERROR
from streamcal.datasets import bank

CALLS = 700
#: Another River, or another libm, steps a little differently.
WITHIN = 0.01


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Return what the program prints, and the picture that it saves."""
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
    environment = {**os.environ, "COLUMNS": "80", "PYTHONHASHSEED": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stderr == ""  # no terminal, no bar
    return done.stdout, picture


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the first calls only."""
    monkeypatch.setattr(demo, "bank", lambda: islice(bank(), CALLS))
    monkeypatch.setattr(demo, "BANK_ROWS", CALLS)


def printed(what: Any) -> str:
    console = Console(width=80, highlight=False, file=io.StringIO())
    console.print(what)
    return console.file.getvalue()


def figures(shown: str, model: str) -> dict[str, list[float]]:
    """Return the rows of a model's table: name → log loss, Brier, ECE, calibration ratio, ..."""
    table = shown.partition(f"\n{model}, learning online\n")[2].partition("\n\n")[0]
    rows = (re.split(r"  +", re.sub(r" \[.*?\]", "", line)) for line in table.splitlines()[1:])
    return {name: [float(cell) for cell in cells] for name, *cells in rows if cells}


@pytest.mark.full
def test_the_figures_are_those_of_the_documentation(shown: tuple[str, Path]) -> None:
    regression, bayes = (figures(shown[0], model) for model in ("logistic regression", "naive Bayes"))
    assert list(regression) == list(bayes) == ["raw", "online-platt", "bernstein", "venn-abers", "auto"]
    losses = {
        "raw": (0.2818, 1.331),
        "online-platt": (0.2762, 0.2835),
        "bernstein": (0.285, 0.292),
        "venn-abers": (0.277, 0.292),
        "auto": (0.2750, 0.2778),
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
def test_it_says_what_is_better(shown: tuple[str, Path]) -> None:
    said = " ".join(shown[0].split())
    sentences = re.findall(r"Log loss against raw, by 95 % confidence sequences: ([^.]*)\.", said)
    assert [re.findall(r"(better|undecided|worse)", sentence) for sentence in sentences] == [
        ["better", "undecided"],
        ["better"],
    ]
    assert "auto takes naive Bayes from log loss 1.33" in said
    assert "below that of the raw logistic regression" in said
    assert "exactly the same again" in said


@pytest.mark.full
def test_the_readme_and_the_site_begin_with_a_sentence_of_the_demonstration(shown: tuple[str, Path]) -> None:
    (sentence,) = re.findall(r"Of calls .*? auto says [\d.]+ %\.", " ".join(shown[0].split()))
    for page in ("README.md", "docs/index.md"):
        text = " ".join((Path(__file__).parents[1] / page).read_text(encoding="utf-8").split())
        assert sentence in text, page


@pytest.mark.full
def test_it_fits_80_columns(shown: tuple[str, Path]) -> None:
    assert max(len(line) for line in shown[0].splitlines() if "diagrams.png" not in line) <= 80


@pytest.mark.full
def test_the_picture_is_saved(shown: tuple[str, Path]) -> None:
    pytest.importorskip("matplotlib")
    assert f"Drift as a picture: {shown[1]}" in shown[0]
    assert shown[1].read_bytes().startswith(b"\x89PNG")


@pytest.mark.full
def test_the_line_it_ends_with_does_the_same_to_a_file(shown: tuple[str, Path], tmp_path: Path) -> None:
    program, *arguments = shlex.split(shown[0].splitlines()[-1])
    assert program == "streamcal"
    source, out = tmp_path / "in.csv", tmp_path / "calibrated.csv"
    source.write_text("score,label\n0,0\n1,1\n")
    named = {"FILE.csv": str(source), "calibrated.csv": str(out)}
    columns = iter(("score", "label"))
    given = [next(columns) if word == "COLUMN" else named.get(word, word) for word in arguments]
    assert CliRunner().invoke(app, given).exit_code == 0
    assert out.read_text().startswith("score,label,calibrated\n0,0,")


@pytest.mark.usefixtures("short")
def test_without_matplotlib_it_says_how_to_get_the_picture(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(demo_report, "find_spec", lambda name: None)
    result = CliRunner().invoke(app, ["demo", "--picture", str(tmp_path / "no.png")])
    assert result.exit_code == 0, result.output
    assert 'pip install ".[plot]"' in result.stdout
    assert "r raw   a auto" in result.stdout, "there is a diagram all the same"
    assert not (tmp_path / "no.png").exists()


@pytest.mark.sample(2)
@pytest.mark.usefixtures("short")
@pytest.mark.parametrize(("name", "at_once"), [("nowhere/no.png", True), ("no.xyz", False), ("folder.png", True)])
def test_a_picture_that_cannot_be_saved_ends_with_one_line(tmp_path: Path, name: str, at_once: bool) -> None:
    pytest.importorskip("matplotlib")
    (tmp_path / "folder.png").mkdir()
    result = CliRunner().invoke(app, ["demo", "--picture", str(tmp_path / name)])
    assert result.exit_code == USAGE_ERROR
    assert ("naive Bayes, learning online" in result.stdout) != at_once
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"streamcal: {tmp_path / name}: the picture cannot be written: ")


@pytest.mark.full
@pytest.mark.usefixtures("short")
def test_a_picture_without_an_ending_is_a_png(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    result = CliRunner().invoke(app, ["demo", "--picture", str(tmp_path / "diagrams")])
    assert f"Drift as a picture: {tmp_path / 'diagrams.png'}\n" in result.stdout
    assert (tmp_path / "diagrams.png").exists()


@pytest.mark.full
def test_scores_do_not_depend_on_the_process() -> None:
    """River iterates over sets of strings, whose order is another one in every process."""
    code = """
from itertools import islice
from streamcal.app import demo
from streamcal.datasets import bank
for model in demo.bases().values():
    print([score.hex() for score, _ in demo.score_stream(model(), islice(bank(), 400))])
"""
    printed = {
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(printed) == 1
    assert "0x" in printed.pop()


@pytest.mark.usefixtures("short")
def test_the_late_correction_is_exact() -> None:
    correction = demo.run(lambda rows, share: None).correction
    assert correction.wrong != correction.right == correction.corrected
    assert "exactly the same again" in demo_report.correction_text(correction)
    broken = demo.Correction(0.2, 0.5, 0.25)
    assert "it says 0.2500: not the same again" in demo_report.correction_text(broken)


@pytest.mark.full
@pytest.mark.usefixtures("short")
def test_drift_is_counted_part_by_part() -> None:
    result = demo.run(lambda rows, share: None)
    scored = list(demo.score_stream(demo.bases()[demo.SHOWN](), islice(bank(), CALLS)))
    assert sum(part.calls for part in result.parts) == CALLS
    assert sum(part.positives for part in result.parts) == sum(y for _, y in scored)
    first = result.parts[0]
    assert first.raw == pytest.approx(sum(score for score, _ in scored[: first.calls]), rel=1e-12)  # a sum of floats
    shown = [line.split() for line in printed(demo_report.drift_table(result.parts)).splitlines()[1:]]
    assert [float(row[2].rstrip("%")) for row in shown] == pytest.approx(
        [100 * part.positives / part.calls for part in result.parts],
        abs=0.051,  # one decimal
    )


@pytest.mark.usefixtures("short")
def test_the_picture_has_what_the_table_says() -> None:
    pytest.importorskip("matplotlib")
    parts = demo.run(lambda rows, share: None).parts
    (ax,) = demo_report.drift_picture(parts).axes
    shown = [line.split() for line in printed(demo_report.drift_table(parts)).splitlines()[1:]]
    for line, column in zip(ax.get_lines(), (3, 4), strict=True):
        shares = [100.0 * share for share in line.get_ydata()]
        assert shares == pytest.approx([float(row[column].rstrip("%")) for row in shown], abs=0.051)  # one decimal
    part, before = parts[-2], sum(part.calls for part in parts[:-2])
    observed, raw, calibrated = (
        f"{100 * count / part.calls:.1f} %" for count in (part.positives, part.raw, part.calibrated)
    )
    sentence = demo_report.drift_sentence(parts)
    assert sentence == (
        f"Of calls {before + 1:,} to {before + part.calls:,}, {observed} subscribed: "
        f"naive Bayes says {raw}, auto says {calibrated}."
    )
    assert ax.get_title(loc="left") == sentence


@pytest.mark.usefixtures("short")
def test_progress_is_told_up_to_the_end() -> None:
    told: list[tuple[int, Any]] = []
    demo.run(lambda rows, share: told.append((rows, share)))
    assert told == [
        (rows, rows / (2 * CALLS)) for rows in range(demo.PROGRESS_EVERY, 2 * CALLS + 1, demo.PROGRESS_EVERY)
    ]


@pytest.mark.full
@pytest.mark.usefixtures("short")
def test_every_call_is_calibrated_before_it_is_learned() -> None:
    result = demo.run(lambda rows, share: None)
    for name, model in demo.bases().items():
        scored = list(demo.score_stream(model(), islice(bank(), CALLS)))
        for method, calibrator in demo.methods().items():
            loss = demo.Scoreboard()
            for score, y in scored:
                loss.update(y, calibrator.predict_one(score))
                calibrator.learn_one(score, y)
            assert result.boards[name][method].log_loss.get() == pytest.approx(loss.log_loss.get(), abs=1e-12)
