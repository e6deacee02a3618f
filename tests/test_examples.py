"""Every example runs to its end, without a warning, and prints its table."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import streamcal
from streamcal.multiclass import MulticlassVennAbers

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

#: Two rows of the table of each example: the log loss (the CRPS of distributions) of the second is the lower one.
CALIBRATED_BELOW_RAW = {
    "ad_clicks_river.py": ("pipeline, raw", "calibrated: Auto"),
    "auto_weights.py": ("served score, raw", "Auto"),
    "clicks_and_conversions.py": ("scores, raw", "both joins, calibrated"),
    "delivery_times.py": ("forecast, raw", "calibrated: QuantileRecalibration"),
    "drift_recalibration.py": ("served score, raw", "Window(1000)"),
    "fusing_two_models.py": ("naive Bayes, calibrated", "both, fused"),
    "many_classes.py": ("pipeline, raw", "calibrated: OnlineVectorScaling"),
    "served_scores.py": ("served score, raw", "calibrated"),
}


def test_the_examples_are_found():
    assert {path.name for path in EXAMPLES} == set(CALIBRATED_BELOW_RAW)


@pytest.mark.full
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path, tmp_path):
    here = str(Path(streamcal.__file__).parents[1])  # the streamcal of this test, compiled or not, and no other
    search = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        cwd=tmp_path,  # an example must not need the folder it is started from, nor leave anything there
        # without compiled kernels a warning would end the example: it is not the example's
        env={"STREAMCAL_COMPILE": "0", **os.environ, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.iterdir()) == []
    raw, calibrated = (log_loss(done.stdout, row) for row in CALIBRATED_BELOW_RAW[path.name])
    assert calibrated < raw
    for p, lower, upper in re.findall(r"([0-9.]+)  \(([0-9.]+), ([0-9.]+)\)", done.stdout):
        assert float(lower) <= float(p) <= float(upper)


def test_divided_intervals_hold_the_divided_probabilities():
    """The function of `many_classes.py`, without running the example."""
    tree = ast.parse((ROOT / "examples" / "many_classes.py").read_text(encoding="utf-8"))
    tree.body = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "after_dividing"]
    names = {}
    exec(compile(tree, "many_classes.py", "exec"), names)
    rng = np.random.default_rng(3)
    P = rng.dirichlet(np.ones(4), 200)
    cal = MulticlassVennAbers()
    cal.learn_many(P, [int(rng.choice(4, p=row)) for row in P], labels=range(4))
    outside = 0
    for row in P[:20].tolist():
        scores = dict(enumerate(row))
        intervals, p = cal.predict_interval_one(scores), cal.predict_one(scores)
        outside += any(not lower <= p[label] <= upper for label, (lower, upper) in intervals.items())
        for label, (lower, upper) in names["after_dividing"](intervals).items():
            # 1e-12: a rounding error or two of the sums, each relative to numbers up to 4
            assert lower - 1e-12 <= p[label] <= upper + 1e-12
    assert outside  # before dividing they do not: that is why the example divides


def log_loss(printed: str, row: str) -> float:
    """Return the first number of a row of the table."""
    found = re.search(rf"^{re.escape(row)} +([0-9.]+)", printed, re.MULTILINE)
    assert found, printed
    return float(found[1])
