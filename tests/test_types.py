"""Users with mypy --strict or pyright: the code of README.md and docs/, and the types of what has several.

One run of each over one folder: a file for each page, with its blocks on the lines of the page.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from test_pages import PROGRAMS

ROOT = Path(__file__).parents[1]
#: What blocks that are not run use from elsewhere, such as the session of Spark: a line before the first of the page.
ELSEWHERE = {
    "docs/spark.md": "from elsewhere import clicks, impressions, spark, yesterday; from datetime import timedelta; "
    "from streamcal import OnlinePlatt; from streamcal.live import Segmented",
    "docs/testing.md": "from elsewhere import ADDING, law, learned; from hypothesis import strategies as st",
}
#: River is typed in part and calls its untyped parts; the others have no types, or need a package of stubs.
MYPY = """[mypy]
strict = True
allow_redefinition = True
local_partial_types = True
untyped_calls_exclude = river
[mypy-streamcal.*]
follow_imports = silent
[mypy-pandas.*,pyarrow.*,sklearn.*,matplotlib.*,pyspark.*,apache_beam.*,onnxmltools.*,onnxruntime.*]
ignore_missing_imports = True
[mypy-docs_engines,docs_spark,docs_testing]
disallow_untyped_defs = False
disallow_untyped_calls = False
disallow_subclassing_any = False
"""
#: Types that pyright infers from the code of untyped libraries are guesses: a default "auto" is no sign of `str`.
PYRIGHT = {
    "typeCheckingMode": "standard",
    "useLibraryCodeForTypes": False,
    "reportMissingModuleSource": False,
    "reportUnusedExpression": False,
}
KNOWN = """
from typing import assert_type

import numpy as np
import numpy.typing as npt
import polars as pl
from river import linear_model, preprocessing

import streamcal
from streamcal.live import Segmented, shift_prior, undo_downsampling
from streamcal.multiclass import TemperatureScaling
from streamcal.river import CalibratedClassifier
from streamcal.saved import Saved

assert_type(streamcal.load("state"), Saved)
assert_type(streamcal.load("state", streamcal.VennAbers), streamcal.VennAbers)
assert_type(streamcal.load("state", streamcal.Calibrator), streamcal.Calibrator)
assert_type(streamcal.load("state", kind=Segmented), Segmented)
assert_type(streamcal.calibrate(pl.DataFrame(), score="p", label="y"), pl.DataFrame)
assert_type(streamcal.calibrate(pl.LazyFrame(), score="p", label="y"), pl.DataFrame)
assert_type(undo_downsampling(0.5, 0.1), float)
assert_type(shift_prior([0.5], 0.1, 0.2), npt.NDArray[np.float64])
CalibratedClassifier(preprocessing.StandardScaler() | linear_model.LogisticRegression())
TemperatureScaling().learn_one({"cat": 0.5, "dog": 0.5}, "cat")
TemperatureScaling().learn_one({1: 0.5, 2: 0.5}, 1)
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """Make a folder with the pages as programs, and one of the types that are known."""
    folder = tmp_path_factory.mktemp("programs")
    for name, blocks in PROGRAMS.items():
        lines = [""] * (blocks[-1].line + blocks[-1].code.count("\n"))
        for block in blocks:
            for number, line in enumerate(block.code.splitlines(), block.line - 1):
                lines[number] = line
        lines[0] = ELSEWHERE.get(name, "")
        path = folder / (name.removesuffix(".md").replace("/", "_") + ".py")
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    names = ("beam", "rows", "clicks", "impressions", "spark", "yesterday", "ADDING", "law", "learned")
    stub = "from typing import Any\n" + "".join(f"{name}: Any\n" for name in names)
    (folder / "elsewhere.pyi").write_text(stub, encoding="utf-8")
    (folder / "known.py").write_text(KNOWN, encoding="utf-8")
    return folder


def checked(*command, **options):
    """Return the output of a type checker if it finds an error."""
    done = subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, **options)
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.mark.full
def test_mypy_accepts_the_code_of_all_pages(programs):
    pytest.importorskip("mypy", reason="mypy is in the extra `lint`")
    (programs / "mypy.ini").write_text(MYPY)
    said = checked(
        "mypy",
        "--config-file=mypy.ini",
        "--cache-dir=cache",
        ".",
        cwd=programs,
        env={**os.environ, "MYPYPATH": str(ROOT)},
    )
    assert not said, said


@pytest.mark.full
def test_pyright_accepts_the_code_of_all_pages(programs):
    """It is in no extra, since it fetches Node."""
    if importlib.util.find_spec("pyright") is None:
        pytest.skip("NOT TESTED: pyright is not installed, and checked the types of no page; pip install pyright")
    settings = {"include": ["*.py"], "extraPaths": [str(ROOT)], **PYRIGHT}
    (programs / "pyrightconfig.json").write_text(json.dumps(settings))
    said = checked("pyright", "--pythonpath", sys.executable, cwd=programs)
    assert not said, said
