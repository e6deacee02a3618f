"""`examples/mlflow/calibrated_model.py`: loaded elsewhere it is the map of its classifier, and today's map is new."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import streamcal

pytest.importorskip("mlflow", reason="mlflow is not installed, the example is not tried: pip install mlflow-skinny")
joblib = pytest.importorskip("joblib", reason="the extra sklearn is not installed")

PROGRAM = Path(__file__).parents[1] / "examples" / "mlflow" / "calibrated_model.py"


def run(*words):
    search = os.pathsep.join(filter(None, (str(PROGRAM.parents[2]), os.environ.get("PYTHONPATH"))))
    environment = {"STREAMCAL_COMPILE": "0", **os.environ, "PYTHONPATH": search}
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=300, env=environment)
    assert done.returncode == 0, done.stderr
    return done


def test_a_model_and_the_same_with_the_map_of_today(tmp_path):
    done = run(str(PROGRAM), str(tmp_path))
    assert "WARNING" not in done.stderr
    losses = {line[:24].strip(): float(line[24:]) for line in done.stdout.splitlines()[1:]}
    assert losses["today, calibrated"] < losses["first, calibrated"] < losses["first, score"]
    rows = np.random.default_rng(3).normal(size=(50, 4))
    (tmp_path / "rows.json").write_text(json.dumps(rows.tolist()))
    for name in ("first", "today"):
        path = tmp_path / name
        code = (
            "import json, mlflow, pandas\n"
            f"rows = json.load(open({str(tmp_path / 'rows.json')!r}))\n"
            "rows = pandas.DataFrame(rows, columns=[f'feature {k}' for k in range(4)])\n"
            f"print(mlflow.pyfunc.load_model({str(path)!r}).predict(rows).to_json(double_precision=15))\n"
        )
        found = json.loads(run("-c", code).stdout.splitlines()[-1])
        classifier = joblib.load(path / "artifacts" / "classifier.joblib")
        scores = classifier.predict_proba(rows)[:, 1]
        assert list(found["score"].values()) == pytest.approx(scores.tolist(), abs=1e-12)
        map = streamcal.load_map((path / "artifacts" / "map.json").read_text())
        assert list(found["calibrated"].values()) == pytest.approx(map.predict_many(scores).tolist(), abs=1e-12)
