"""`streamcal map`: the map of a saved state in every format."""

from __future__ import annotations

import csv
import errno
import json
import math
import os
import sqlite3

import numpy as np
import pytest
from laws.binary import PROBES, realistic
from typer.testing import CliRunner

from streamcal import Platt, load_map, save
from streamcal.app.cli import app
from streamcal.live import Multicalibrated, Segmented
from streamcal.maps.writing import FORMATS


@pytest.fixture
def state(tmp_path):
    cal = Platt()
    cal.learn_many(*realistic(seed=4, size=200, a=1.0, b=2.0))
    save(cal, tmp_path / "state.json")
    return cal, str(tmp_path / "state.json")


def run(*arguments):
    return CliRunner().invoke(app, ["map", *map(str, arguments)])


def test_every_format_is_the_map(state, tmp_path):
    cal, path = state
    assert load_map(run(path).stdout)(0.25) == pytest.approx(cal.predict_one(0.25), abs=1e-12)
    query = run(path, "--to", "sql", "--column", "pctr").stdout
    (p,) = sqlite3.connect(":memory:").execute(f"SELECT {query} FROM (SELECT 0.25e0 AS pctr)").fetchone()
    assert p == pytest.approx(cal.predict_one(0.25), abs=1e-12)
    assert "float8" in run(path, "--to", "sql", "--dialect", "postgresql").stdout
    assert run(path, "--to", "c", "--name", "pctr_map").stdout == cal.map().to_c("pctr_map")
    assert run(path, "--to", "js").stdout == cal.map().to_js()
    out = tmp_path / "map.json"
    assert run(path, "--to", "json", "--out", out).exit_code == 0
    assert json.loads(out.read_text()) == json.loads(cal.map().to_json())


@pytest.mark.parametrize("single", [False, True])
def test_onnx_is_the_map(state, tmp_path, single):
    runtime = pytest.importorskip("onnxruntime")
    cal, path = state
    out = tmp_path / "map.onnx"
    done = run(path, "--to", "onnx", "--out", out, *(["--float"] if single else []))
    assert done.exit_code == 0, done.output
    session = runtime.InferenceSession(str(out), providers=["CPUExecutionProvider"])
    scores = PROBES.astype(np.float32 if single else np.float64)
    found = session.run(None, {"score": scores})[0]
    np.testing.assert_allclose(found, cal.predict_many(scores.astype(np.float64)), rtol=0.0, atol=1e-12)


def test_mistakes_are_explained(state, tmp_path):
    _, path = state
    before = (tmp_path / "state.json").read_bytes()
    for arguments, message in [
        ((path, "--to", "pmml"), f"--to pmml is unknown; give one of {', '.join(FORMATS)}"),
        ((tmp_path / "none.json",), "none.json: there is no such file"),
        (("-",), "a state is a file"),
        ((path, "--out", path), "the state would be overwritten"),
        ((path, "--to", "sql", "--dialect", "oracle"), "dialect='oracle' is unknown"),
        ((path, "--to", "c", "--name", "double"), "name='double' is not possible"),
        ((path, "--column", "pctr"), "--column is for --to sql, and not for json"),
        ((path, "--to", "c", "--float"), "--float is for --to onnx, and not for c"),
        ((path, "--to", "sql", "--source", "rows"), "--source is for the query that joins --levels"),
    ]:
        done = run(*arguments)
        assert done.exit_code == 2, done.output
        assert message in " ".join(done.output.split())
    assert (tmp_path / "state.json").read_bytes() == before


@pytest.mark.parametrize(
    ("kind", "remedy"), [(Segmented, "give --levels"), (Multicalibrated, "use `streamcal predict`")]
)
def test_a_state_with_keys_has_no_map_of_the_score(tmp_path, kind, remedy):
    cal = kind("ops", by=["campaign"])
    cal.learn_one(0.5, True, keys={"campaign": "a"})
    save(cal, tmp_path / "state.json")
    done = run(tmp_path / "state.json")
    assert done.exit_code == 2
    assert " ".join(done.output.split()).endswith(f"has no map of the score alone; {remedy}")


def test_segments_are_a_map_and_a_table_of_levels(tmp_path):
    cal = Segmented("ops", by=["campaign"])
    for k in range(400):
        cal.learn_one(0.25, k % (2 + k % 4) == 0, keys={"campaign": f"c{k % 4}"})
    path, table = tmp_path / "state.json", tmp_path / "levels.csv"
    save(cal, path)
    assert load_map(run(path, "--levels", table).stdout)(0.25) == pytest.approx(
        cal.overall.predict_one(0.25), abs=1e-12
    )
    database = sqlite3.connect(":memory:")
    database.create_function("LN", 1, math.log, deterministic=True)
    database.create_function("EXP", 1, math.exp, deterministic=True)
    with table.open(newline="") as file:
        names, *rows = csv.reader(file)
    database.execute(f"CREATE TABLE levels (place INTEGER, level_1 TEXT, {' REAL, '.join(names[2:])} REAL)")
    database.executemany(f"INSERT INTO levels VALUES ({', '.join('?' * len(names))})", rows)
    database.execute("CREATE TABLE seen (row INTEGER, pctr REAL, campaign TEXT)")
    database.executemany("INSERT INTO seen VALUES (?, 0.25, ?)", [(k, f"c{k}") for k in range(6)])
    options = ("--levels", table, "--to", "sql", "--column", "pctr", "--source", "seen", "--keep", "row")
    found = dict(database.execute(run(path, *options).stdout).fetchall())
    want = {k: cal.predict_one(0.25, keys={"campaign": f"c{k}"}) for k in range(6)}
    assert found == pytest.approx(want, abs=1e-12)


def test_a_map_and_its_levels_are_two_files(tmp_path, monkeypatch):
    cal = Segmented("ops", by=["campaign"])
    cal.learn_one(0.25, True, keys={"campaign": "a"})
    save(cal, tmp_path / "state.json")
    monkeypatch.chdir(tmp_path)
    for out, levels, why in (("x", "./x", "would overwrite the table of levels"), ("x", "-", "is a file; give")):
        done = run(tmp_path / "state.json", "--to", "sql", "--out", out, "--levels", levels)
        assert done.exit_code == 2
        assert why in " ".join(done.output.split())
    assert [one.name for one in tmp_path.iterdir()] == ["state.json"]


def test_a_map_that_cannot_be_written_leaves_the_one_before(state, tmp_path, monkeypatch):
    def full(file):
        raise OSError(errno.ENOSPC, "No space left on device")

    out = tmp_path / "map.json"
    assert run(state[1], "--out", out).exit_code == 0
    before = out.read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    done = run(state[1], "--to", "c", "--out", out)
    assert done.exit_code == 2
    assert f"streamcal: {out}: the file cannot be written: No space left on device" in done.output
    assert out.read_bytes() == before


def test_levels_are_of_segments_alone(state, tmp_path):
    done = run(state[1], "--levels", tmp_path / "levels.csv")
    assert done.exit_code == 2
    assert "--levels is for a state of segments" in " ".join(done.output.split())
    assert not (tmp_path / "levels.csv").exists()


def test_a_level_that_is_no_text_is_named(tmp_path):
    cal = Segmented("platt", by=["campaign"])
    cal.learn_one(0.5, True, keys={"campaign": "a\udc80"})
    save(cal, tmp_path / "state.json")
    done = run(tmp_path / "state.json", "--levels", tmp_path / "levels.csv")
    assert (done.exit_code, (tmp_path / "levels.csv").exists()) == (2, False)
    assert "'\\udc80' in a level is no letter of UTF-8" in done.output
