"""What notebooks show: small tables that are well-formed, and in which everything from outside is only text.

The notebooks of examples/notebooks/ run, without a warning, and print what they store.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_html_report import parsed

import streamcal
from streamcal import Isotonic, Platt, fusion, metrics, multiclass, regression
from streamcal.metrics import CalibrationSlope, LogLossDifference
from streamcal.metrics.base import Metric
from streamcal.parameters.showing import html_table
from streamcal.regression import Normal

SCORES = np.linspace(0.05, 0.95, 40)
LABELS = np.random.default_rng(0).random(40) < SCORES
#: A table of this length is small beside a cell of a notebook.
SMALL = 6_000


def tree_of(shown):
    assert len(shown) < SMALL
    assert "<script" not in shown
    return parsed(shown)


def cells(tree):
    return tree.text.get("th", ""), tree.text.get("td", "")


@pytest.mark.parametrize("name", streamcal.REGISTRY)
def test_calibrators_and_maps_of_one_score(name):
    cal = streamcal.REGISTRY[name]()
    for _ in range(2):
        tree = tree_of(cal._repr_html_())
        assert tree.text["caption"] == type(cal).__name__
        assert all(parameter in cells(tree)[0] for parameter in cal.params())
        assert f"{cal.n:,.6g}" in cells(tree)[1]
        tree = tree_of(cal.map()._repr_html_())
        assert tree.text["caption"] == type(cal.map()).__name__
        (picture,) = (attributes for tag, attributes, _ in tree.elements if tag == "svg")
        assert picture["role"] == "img"
        cal.learn_many(SCORES, LABELS)


def test_the_graph_is_that_of_the_map():
    cal = Isotonic()
    cal.learn_many([0.0, 1.0], [0, 1])
    tree = tree_of(cal.map()._repr_html_())
    (points,) = (attributes["points"] for tag, attributes, _ in tree.elements if tag == "polyline")
    pairs = [tuple(map(float, pair.split(","))) for pair in points.split()]
    assert (pairs[0], pairs[50], pairs[-1]) == ((0.0, 100.0), (50.0, 50.0), (100.0, 0.0))
    assert "<svg" not in Platt(scale=streamcal.Interval(-3, 3)).map()._repr_html_()


def test_calibrators_and_maps_of_other_rooms():
    several = fusion.LogisticFusion()
    several.learn_many(np.column_stack((SCORES, SCORES[::-1])), LABELS)
    many = multiclass.VectorScaling()
    many.learn_many(np.column_stack((SCORES, 1.0 - SCORES)), np.where(LABELS, "<a>", "b"), labels=["<a>", "b"])
    recalibrated = regression.QuantileRecalibration()
    recalibrated.learn_many([Normal(0.0, 1.0)] * 20, np.linspace(-2.0, 2.0, 20))
    for one in (several, many, recalibrated):
        assert tree_of(one._repr_html_()).text["caption"] == type(one).__name__
        assert tree_of(one.map()._repr_html_()).text["caption"] == type(one.map()).__name__
    assert not any(tag == "a" for tag, _, _ in tree_of(many.map()._repr_html_()).elements)


@pytest.mark.parametrize("name", metrics.__all__)
def test_measures(name):
    make = getattr(metrics, name)
    if not (isinstance(make, type) and issubclass(make, Metric)) or make is Metric:
        pytest.skip("no measure of probabilities")
    metric = make()
    assert "–" in cells(tree_of(metric._repr_html_()))[1]
    metric.update_many(LABELS, SCORES)
    tree = tree_of(metric._repr_html_())
    assert tree.text["caption"] == name
    assert f"{metric.get():.6g}" in cells(tree)[1]


def test_a_difference_and_a_comparison():
    difference = LogLossDifference()
    assert "–" in cells(tree_of(difference._repr_html_()))[1]
    difference.update_many([True] * 3, [0.9] * 3, [0.5] * 3)
    assert f"{difference.get():.6g}" in cells(tree_of(difference._repr_html_()))[1]
    found = streamcal.compare((SCORES, LABELS), methods={"<b>": Platt()})
    tree = tree_of(found._repr_html_())
    assert "<b>" in tree.text["th"]
    assert not any(tag == "b" for tag, _, _ in tree.elements)
    tree_of(streamcal.compare(([], []), methods=["ops"])._repr_html_())


def test_infinite_values_are_shown():
    slope = CalibrationSlope()
    slope.update_many([False, True], [0.2, 0.4])
    assert slope.get() == math.inf
    assert "inf" in cells(tree_of(slope._repr_html_()))[1]


def test_texts_are_escaped():
    tree = tree_of(html_table("<h1>", {"<script>x</script>": 'a < b & "c"'}))
    assert [tag for tag, _, _ in tree.elements] == ["table", "caption", "tbody", "tr", "th", "td"]


TOOL = Path(__file__).parents[1] / "tools" / "notebooks.py"
NOTEBOOKS = sorted((TOOL.parents[1] / "examples" / "notebooks").glob("*.ipynb"))


def checked(path):
    search = os.pathsep.join(filter(None, (str(TOOL.parents[1]), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, "-W", "error", str(TOOL), "--check", str(path)],
        env={"STREAMCAL_COMPILE": "0", **os.environ, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.full
@pytest.mark.sample(6)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_stores(path):
    pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    if path.stem == "scikit_learn":
        pytest.importorskip("sklearn", reason="the extra sklearn is not installed")
    done = checked(path)
    assert done.returncode == 0, done.stdout + done.stderr
    stored = json.loads(path.read_text(encoding="utf-8"))
    assert [cell["outputs"] == [] for cell in stored["cells"] if cell["cell_type"] == "code"].count(True) == 0


def test_four_notebooks_are_found_and_named_on_the_page():
    page = (TOOL.parents[1] / "docs" / "examples.md").read_text(encoding="utf-8")
    assert len(NOTEBOOKS) == 4
    assert all(f"../examples/notebooks/{path.name}" in page for path in NOTEBOOKS)


def test_a_notebook_that_prints_something_else_is_found(tmp_path):
    cell = {"cell_type": "code", "metadata": {}, "execution_count": 1, "source": ["print(1)"]}
    stored = {"name": "stdout", "output_type": "stream", "text": ["2\n"]}
    path = tmp_path / "one.ipynb"
    path.write_text(json.dumps({"cells": [{**cell, "outputs": [stored]}]}), encoding="utf-8")
    done = checked(path)
    assert (done.returncode, "one.ipynb stores\n2\n" in done.stdout) == (1, True)
    path.write_text(json.dumps({"cells": [{**cell, "outputs": [{**stored, "text": ["1\n"]}]}]}), encoding="utf-8")
    assert checked(path).returncode == 0
