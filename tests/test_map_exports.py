"""The laws of every method on every scale in every export: the same function, in [0, 1], monotone, with the same cuts.

The matrix is generated. A new method, or a new export in `EXPORTS`, is covered without another test.
"""

from __future__ import annotations

import inspect
import json
import math
import shutil
import sqlite3
import subprocess
from functools import partial

import numpy as np
import pytest
from compiled_maps import compiled

from streamcal import REGISTRY, EmpiricalCDF, InputError, Interval, Logit, Probability, load_map
from streamcal.maps.knots import CubicMap, KnotMap

SCALES = [
    Probability(),
    Probability(decreasing=True),
    Logit(),
    Logit(-3.0, 1.0, decreasing=True),
    Interval(-1.0, 0.75),
    Interval(),
    Interval(0.0, 2.0, decreasing=True),
    EmpiricalCDF.from_scores([-1.0, 0.0, 0.1, 0.3, 0.3, 0.5, 0.9, 1.0, 2.0]),
]
#: By how much an export may differ, and fall where the map does not; SQL does not clip polynomials.
SAME, FALLS, BEYOND = 1e-12, 1e-13, {"sql": 1e-13}


def learned(name):
    """Return a map on each scale that the method accepts; on a scale of its own if it has none."""
    method, maps = REGISTRY[name], []
    scales = SCALES if "scale" in inspect.signature(method).parameters else [None]
    for seed, scale in enumerate(scales):
        rng = np.random.default_rng(seed)
        margins = scale is not None and scale.domain != (0.0, 1.0)
        scores = rng.normal(0.3, 0.8, 300) if margins else rng.random(300)
        scores[:100] = np.round(scores[:100] * 8) / 8
        rising = scores if scale is None or not scale.decreasing else -scores
        try:
            cal = method() if scale is None else method(scale=scale, **_on_no_grid(method, scale))
        except InputError:  # polynomials need bounds, and a few methods need probabilities
            continue
        cal.learn_many(scores, rng.random(300) < 1.0 / (1.0 + np.exp(-3.0 * rising)))
        maps.append((cal.map(), scores))
    return maps


def _on_no_grid(method, scale):
    """Return parameters without a grid for a scale without bounds."""
    unbounded = not math.isfinite(scale.hi - scale.lo)
    return {"resolution": None} if unbounded and "resolution" in inspect.signature(method).parameters else {}


def scores_of(found, scores):
    """Scores, those beside them and beside each cut that is written, and the ends of the domain."""
    written = json.loads(found.to_json())
    cuts = [part["cuts"] for part in (written, written.get("lower", {}), written.get("upper", {})) if "cuts" in part]
    cuts += [fold[end]["cuts"] for fold in written.get("folds", []) for end in ("lower", "upper")]
    places = np.concatenate([scores, *(found.scale.rising(np.array(one, dtype=float)) for one in cuts)])
    lo, hi = found.scale.domain
    ends = [lo, hi] if hi == 1.0 else [-1e6, 1e6]
    beside = np.concatenate((places, np.nextafter(places, -np.inf), np.nextafter(places, np.inf), ends))
    return np.unique(beside.clip(lo, hi))


def in_json(maps, folder):
    return [load_map(one.to_json()).predict_many for one in maps]


def in_onnx(maps, folder):
    runtime = pytest.importorskip("onnxruntime", reason='pip install ".[test]" installs onnx and onnxruntime')
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    models = [one.to_onnx().SerializeToString() for one in maps]
    sessions = [runtime.InferenceSession(one, options, providers=["CPUExecutionProvider"]) for one in models]
    return [lambda scores, one=one: one.run(None, {"score": scores})[0] for one in sessions]


def in_sql(maps, folder):
    def evaluated(expression, scores):
        database = sqlite3.connect(":memory:")
        database.create_function("LN", 1, math.log, deterministic=True)
        database.create_function("EXP", 1, math.exp, deterministic=True)
        database.execute("CREATE TABLE served (i INTEGER, s DOUBLE)")
        database.executemany("INSERT INTO served VALUES (?, ?)", enumerate(scores.tolist()))
        return np.array([p for (p,) in database.execute(f"SELECT {expression} FROM served ORDER BY i")])

    return [partial(evaluated, one.to_sql("s")) for one in maps]


def in_javascript(maps, folder):
    program = """
    import { readFileSync } from "node:fs";
    const { calibrate } = await import(process.argv[1]);
    for (const line of readFileSync(0, "utf8").trim().split("\\n")) console.log(String(calibrate(Number(line))));
    """

    def evaluated(place, scores):
        command = ["node", "--input-type=module", "-e", program, str(folder / f"map{place}.mjs")]
        lines = "\n".join(map(repr, scores.tolist()))
        done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
        return np.array(done.stdout.split(), dtype=float)

    for place, one in enumerate(maps):
        (folder / f"map{place}.mjs").write_text(one.to_js(), encoding="utf-8")
    return [partial(evaluated, place) for place in range(len(maps))]


EXPORTS = {"json": in_json, "onnx": in_onnx, "c": compiled, "sql": in_sql}
if shutil.which("node"):
    EXPORTS["js"] = in_javascript


@pytest.mark.full
@pytest.mark.sample(26)
@pytest.mark.parametrize("name", REGISTRY)
def test_every_export_keeps_the_laws(name, tmp_path):
    maps = learned(name)
    assert maps
    for export, write in EXPORTS.items():
        for (found, learned_from), evaluated in zip(maps, write([one for one, _ in maps], tmp_path), strict=True):
            scores = scores_of(found, learned_from)
            want, p = found.predict_many(scores), evaluated(scores)
            case = f"{export} of {found!r}"
            if found.kind == "steps":
                np.testing.assert_array_equal(p, want, err_msg=case)
            np.testing.assert_allclose(p, want, rtol=0.0, atol=SAME, err_msg=case)
            beyond = BEYOND.get(export, 0.0)
            assert -beyond <= p.min(), case
            assert p.max() <= 1.0 + beyond, case
            turn = -1.0 if found.scale.decreasing else 1.0
            if (turn * np.diff(want)).min() >= 0.0:
                assert (turn * np.diff(p)).min() >= -FALLS, case


@pytest.mark.full
@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", [KnotMap, CubicMap])
def test_knots_at_neighbouring_floats_have_their_values_in_every_export(kind, tmp_path):
    """The last bit of a logarithm decides there, and libraries differ in it."""
    maps, near = [], []
    for number, scale in enumerate(SCALES):
        lo, hi = max(scale.lo, -12.0), min(scale.hi, 8.0)
        close = [lo + (hi - lo) * (0.123, 0.345, 0.745)[number % 3]]
        for _ in range(3):
            close.append(math.nextafter(close[-1], math.inf))
        knots = np.array([lo, *close, hi])
        rises = [] if kind is KnotMap else [np.full(5, 0.1)] * 2
        maps.append(kind(scale, knots, np.linspace(0.0, 1.0, 6), *rises))
        near.append(beside(scale, knots))
    for export, write in EXPORTS.items():
        for found, scores, evaluated in zip(maps, near, write(maps, tmp_path), strict=True):
            want = found.predict_many(scores)
            np.testing.assert_allclose(evaluated(scores), want, rtol=0.0, atol=SAME, err_msg=f"{export} of {found!r}")


def beside(scale, knots):
    """Scores at the knots, and the six floats on both sides of each."""
    rising = scale.increasing
    every = [rising.first_scores(knots)]
    every[0] = every[0][np.isfinite(every[0])]
    for way in (-math.inf, math.inf):
        scores = every[0]
        for _ in range(6):
            scores = np.nextafter(scores, way)
            every.append(scores)
    return np.unique(scale.rising(np.concatenate(every).clip(*rising.domain)))
