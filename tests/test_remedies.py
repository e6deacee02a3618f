"""Mistakes of people who come from elsewhere get the remedy that is theirs."""

from __future__ import annotations

import gzip
import io
import json
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from test_cli import program, save, the_line

import streamcal
from streamcal import Platt, plot
from streamcal.errors import InputError
from streamcal.learners.choosing import chosen
from streamcal.live import LabelJoin
from streamcal.metrics import CORP, EqualMassECE


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("fit", "learn_many"),
        ("predict_proba", "predict_many"),
        ("transform", "predict_many"),
        ("save", "streamcal.save"),
    ],
)
def test_names_of_other_libraries(name: str, advice: str) -> None:
    with pytest.raises(AttributeError, match=advice):
        getattr(Platt(), name)
    assert not hasattr(Platt(), name)
    with pytest.raises(AttributeError, match=r"has no attribute 'nothing'$"):
        _ = Platt().nothing


def test_methods_of_other_libraries() -> None:
    with pytest.raises(InputError, match="did you mean 'platt'"):
        chosen("sigmoid", streamcal.Calibrator, streamcal.REGISTRY)
    with pytest.raises(InputError, match=r"calibrator is the class Platt: give an object, Platt\(\.\.\.\)"):
        chosen(Platt, streamcal.Calibrator, streamcal.REGISTRY)


def test_shapes_and_units() -> None:
    with pytest.raises(InputError, match=r"positive class, scores\[:, 1\]"):
        Platt().predict_many(np.array([[0.9, 0.1], [0.2, 0.8]]))
    with pytest.raises(InputError, match="divide percentages by 100"):
        Platt().predict_one(35)
    for score in (1.0000001, -1e-9):
        with pytest.raises(InputError, match=r"clip it to \[0, 1\]"):
            Platt().predict_many([0.5, score])
    with pytest.raises(InputError, match="scale"):
        Platt().predict_one(-3.5)


def test_a_measure_in_place_of_its_diagram() -> None:
    with pytest.raises(InputError, match=r"corp\.reliability\(\)"):
        plot.plot_corp(CORP())  # type: ignore[arg-type]


def test_misspelt_parameters() -> None:
    for make, name, near in (
        (streamcal.Bernstein, "degre", "'degree'"),
        (streamcal.Window, "sise", "'size'"),
        (EqualMassECE, "bin", "'bins'"),
        (LabelJoin, "horizons", "'horizon'"),
        (streamcal.compare, "metods", "'methods'"),
        (streamcal.calibrate, "scores", "'score'"),
    ):
        with pytest.raises(TypeError, match=f"did you mean {near}"):
            make(**{name: 1})
    with pytest.raises(TypeError, match="parameters are "):
        streamcal.Platt(xyz=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="missing"):
        LabelJoin()  # type: ignore[call-arg]


def test_spans_are_texts_wherever_time_is_meant() -> None:
    join = LabelJoin("ops", horizon="6h", early="15m", late="1d")
    assert repr(join) == repr(LabelJoin("ops", horizon=timedelta(hours=6), early=900.0, late=86_400.0))
    assert streamcal.Window("7d") == streamcal.Window(timedelta(days=7))
    assert streamcal.Decay("90s", max_jump="1h") == streamcal.Decay(90.0, by="time", max_jump=3600.0)
    for wrong in ("6", "6 hours", "", "h"):
        with pytest.raises(InputError, match=r"horizon='.*' is no span of time; give a number with s, m, h, d or w"):
            LabelJoin("ops", horizon=wrong)
    with pytest.raises(InputError, match="size='100' is no span"):
        streamcal.Window("100")


def test_diagrams_of_labels_and_forecasts() -> None:
    draw = np.random.default_rng(1)
    p = draw.random(500)
    y = draw.random(500) < p
    ece = EqualMassECE()
    ece.update_many(y, p)
    assert plot.text_reliability(y, p) == plot.text_reliability({"predictions": ece.reliability()})
    pytest.importorskip("matplotlib")
    for draw_one in (plot.plot_reliability, plot.plot_corp):
        texts = draw_one(y, {"raw": p, "squared": p**2}).get_legend().get_texts()
        assert [text.get_text().split()[0] for text in texts] == ["raw", "squared"]
    with pytest.raises(InputError, match="or labels and predictions"):
        plot.plot_reliability(y)


@pytest.mark.parametrize("packed", [False, True])
def test_standard_input_shows_its_format(tmp_path: Path, packed: bool) -> None:
    table = pa.table({"p": [0.25, 0.75] * 50, "y": [0, 1] * 50})
    arrow, lines = io.BytesIO(), "".join(json.dumps(row) + "\n" for row in table.to_pylist())
    with pa.ipc.new_stream(arrow, table.schema) as writer:
        writer.write_table(table)
    for content in (arrow.getvalue(), lines.encode()):
        content = gzip.compress(content) if packed else content
        result = program("compare", "-", "--score", "p", "--label", "y", "--methods", "ops", stdin=content)
        assert "100 rows (50 positive)" in result.stdout, result.output


def test_a_comparison_skips_rows_that_cannot_be_used(tmp_path: Path) -> None:
    source, rejects = tmp_path / "in.csv", tmp_path / "rejects.csv"
    source.write_text("p,y\n" + "0.25,0\n0.75,1\n" * 50 + "abc,1\n0.5,7\n0.5\n0.5,\n")
    command = ("compare", source, "--score", "p", "--label", "y", "--methods", "ops")
    assert "row 101" in the_line(program(*command))
    result = program(*command, "--on-error", "skip", "--missing-label", "skip", "--rejects", rejects)
    assert "100 rows (50 positive)" in result.stdout, result.output
    assert "3 rows that cannot be used were skipped" in result.stderr
    assert [line.split(",")[1] for line in rejects.read_text().splitlines()] == ["row", "101", "102", "103"]
    assert "--rejects needs --on-error skip" in the_line(program(*command, "--rejects", rejects))


def test_options_that_are_misspelt() -> None:
    result = program("run", "x.csv", "--scor", "p", "--label", "y")
    assert "--score" in result.output


def rows(tmp_path: Path, times: str | None = None) -> Path:
    draw = np.random.default_rng(0)
    start, found = datetime(2026, 1, 1), []
    for k, p in enumerate(draw.uniform(0.0, 1.0, 1_200).round(6).tolist()):
        moment = {} if times is None else {"t": (start + timedelta(minutes=k)).strftime(times)}
        found.append({"p": p, "y": int(draw.random() < p), **moment})
    return save(tmp_path / "in.csv", found)


def test_probabilities_read_as_percentages(tmp_path: Path) -> None:
    found = program("run", rows(tmp_path), "--score", "p", "--label", "y", "--method", "ops", "--scale", "percent")
    assert "leave out --scale percent" in found.output
    assert "--positive" not in found.output


@pytest.mark.sample(8)
@pytest.mark.parametrize("times", ["%Y%m%d%H%M", "%Y%m%d%H%M%S", "%Y%m%d%H", "%y%m%d%H"])
@pytest.mark.parametrize("method", [("auto",), ("platt", "--half-life", "2d")])
def test_dates_as_numbers(tmp_path: Path, times: str, method: tuple[str, ...]) -> None:
    given = (rows(tmp_path, times), "--score", "p", "--label", "y", "--time", "t", "--method", *method)
    found = program("run", *given)
    assert f"--time-format {times}" in found.output
    assert "milliseconds" not in found.output
    assert "warning" not in program("run", *given, "--time-format", times).output


def test_thousands_are_no_decimals(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    thousands, decimal = "write thousands without commas", "give --decimal ,"
    for w, advice in (("1,234", thousands), ("1,234,567", thousands), ("0,234", decimal), ("2,5e-3", decimal)):
        path.write_text(f'p,y,w\n0.5,1,"{w}"\n')
        line = the_line(program("run", path, "--score", "p", "--label", "y", "--weight", "w"))
        assert f"1e+60; {advice}" in line


def test_the_label_is_no_other_column(tmp_path: Path) -> None:
    """As a segment it gave the label away: a log loss of 0.03 in place of 0.32, called better."""
    path = rows(tmp_path)
    for command in ("run", "compare", "report"):
        page = ("--html", tmp_path / "r.html") if command == "report" else ()
        for other in ("--segment", "--multicalibrate", "--weight", "--time", "--score"):
            given = (*(("--score", "p") if other != "--score" else ()), "--label", "y", other, "y", *page)
            assert "column 'y' is the label" in the_line(program(command, path, *given))
    with pytest.raises(InputError, match="which the score would give away"):
        streamcal.calibrate({"p": [0.5], "y": [1]}, score="y", label="y")


def test_no_positive_label_is_told_by_all_commands(tmp_path: Path) -> None:
    path = tmp_path / "in.csv"
    path.write_text("p,y\n" + "".join(f"0.{i % 9 + 1},\n" for i in range(60)))
    for command in ("run", "compare", "report"):
        page = ("--html", tmp_path / "r.html") if command == "report" else ()
        given = (path, "--score", "p", "--label", "y", "--missing-label", "negative", *page)
        assert "none of 60 labels is positive: look at --label" in program(command, *given).output
    path.write_text("p,y\n" + "".join(f"{i % 97 / 100},{i % 1000 == 7:d}\n" for i in range(2_000)))
    assert "if they are percentages" in program("compare", path, "--score", "p", "--label", "y").stderr


def test_parquet_in_a_pipe_and_a_window_of_auto(tmp_path: Path) -> None:
    line = the_line(program("run", "-", "--format", "parquet", "--score", "p", "--label", "y", stdin=b"PAR1"))
    assert "the name of a file" in line
    line = the_line(program("run", rows(tmp_path), "--score", "p", "--label", "y", "--window", "500"))
    assert "follows changes by itself" in line
