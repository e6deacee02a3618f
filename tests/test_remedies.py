"""Mistakes of people who come from elsewhere get the remedy that is theirs."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from test_cli import program, save, the_line

import streamcal
from streamcal import Platt, plot
from streamcal.errors import InputError
from streamcal.learners.choosing import chosen
from streamcal.metrics import CORP


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


def test_shapes_and_units() -> None:
    with pytest.raises(InputError, match=r"positive class, scores\[:, 1\]"):
        Platt().predict_many(np.array([[0.9, 0.1], [0.2, 0.8]]))
    with pytest.raises(InputError, match="divide percentages by 100"):
        Platt().predict_one(35)
    with pytest.raises(InputError, match="scale"):
        Platt().predict_one(-3.5)


def test_a_measure_in_place_of_its_diagram() -> None:
    with pytest.raises(InputError, match=r"corp\.reliability\(\)"):
        plot.plot_corp(CORP())  # type: ignore[arg-type]


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


@pytest.mark.parametrize("times", ["%Y%m%d%H%M", "%Y%m%d%H%M%S"])
@pytest.mark.parametrize("method", [("auto",), ("platt", "--half-life", "2d")])
def test_dates_as_numbers(tmp_path: Path, times: str, method: tuple[str, ...]) -> None:
    given = (rows(tmp_path, times), "--score", "p", "--label", "y", "--time", "t", "--method", *method)
    found = program("run", *given)
    assert f"--time-format {times}" in found.output
    assert "milliseconds" not in found.output
    assert "warning" not in program("run", *given, "--time-format", times).output


def test_parquet_in_a_pipe_and_a_window_of_auto(tmp_path: Path) -> None:
    line = the_line(program("run", "-", "--format", "parquet", "--score", "p", "--label", "y", stdin=b"PAR1"))
    assert "the name of a file" in line
    line = the_line(program("run", rows(tmp_path), "--score", "p", "--label", "y", "--window", "500"))
    assert "follows changes by itself" in line
