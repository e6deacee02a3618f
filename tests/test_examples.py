"""Every example runs to its end, without a warning, and prints its table."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import streamcal

ROOT = Path(__file__).parent.parent
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

#: Two rows of the table of each example: the log loss (the CRPS of distributions) of the second is the lower one.
CALIBRATED_BELOW_RAW = {
    "ad_clicks_river.py": ("pipeline, raw", "calibrated: OnlinePlatt"),
    "auto_weights.py": ("served score, raw", "Auto"),
    "delivery_times.py": ("forecast, raw", "calibrated: QuantileRecalibration"),
    "drift_recalibration.py": ("served score, raw", "Window(1000)"),
    "fusing_two_models.py": ("logistic regression, calibrated", "both, fused"),
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


def log_loss(printed: str, row: str) -> float:
    """The first number of a row of the table."""
    found = re.search(rf"^{re.escape(row)} +([0-9.]+)", printed, re.MULTILINE)
    assert found, printed
    return float(found[1])
