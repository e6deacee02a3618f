"""The format of maps: its schema, its vectors, and the evaluators in other languages."""

from __future__ import annotations

import importlib.util
import json
import math
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from compiled_maps import compiled
from laws.binary import realistic

from streamcal import REGISTRY, CrossVennAbers, load_map
from streamcal.maps import portable

FOLDER = Path(__file__).parents[1] / "maps"


def script(name):
    spec = importlib.util.spec_from_file_location(f"maps_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


vectors = script("vectors")
EVERY = json.loads(vectors.FILE.read_text(encoding="utf-8"))["vectors"]


@pytest.mark.full
def test_the_vectors_are_those_of_the_script():
    """Probabilities may differ in their last bits, by the logarithm of the system."""
    found = vectors.vectors()
    for kept, made in zip(EVERY, found, strict=True):
        for name in ("map", "tolerance", "scores"):
            assert kept[name] == json.loads(json.dumps(made[name])), kept["map"]["kind"]
        assert vectors.wrong(kept, [float.fromhex(value) for value in made["probabilities"]]) == []


def test_every_kind_and_scale_has_vectors():
    assert {one["map"]["kind"] for one in EVERY} == set(portable.KINDS)
    assert {one["map"]["scale"]["kind"] for one in EVERY} == set(portable.SCALES)
    assert any("spots" in one["map"] for one in EVERY)
    odd = {score for one in EVERY for line in one["scores"] for score in vectors.read(line) if not math.isfinite(score)}
    assert {-math.inf, math.inf} < odd


def test_load_map_agrees_with_the_vectors():
    for vector in EVERY:
        read = load_map(json.dumps(vector["map"]))
        scores = [vectors.read(line) for line in vector["scores"]]
        assert vectors.wrong(vector, [answer(read, row) for row in scores]) == []


def answer(read, row):
    try:
        return read(row[0] if len(row) == 1 else row)
    except ValueError:
        return math.nan


# -- evaluators --------------------------------------------------------------------------------------------------


def needs(*programs):
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"NOT TESTED: {program} is not installed")


def built(language, folder):
    """Return the command of an evaluator."""
    sources = FOLDER / language
    if language == "javascript":
        needs("node")
        return ["node", str(sources / "main.mjs")]
    if language == "java":
        needs("javac", "java")
        files = map(str, sorted(sources.glob("*.java")))
        subprocess.run(["javac", "-Xlint:all", "-Werror", "-d", str(folder), *files], check=True)
        return ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-cp", str(folder), "Main"]
    program = str(folder / "evaluator")
    if language == "rust":
        needs("rustc")
        command = ["rustc", "--edition", "2021", "-D", "warnings", "-o", program, str(sources / "main.rs")]
        subprocess.run(command, check=True)
    else:
        needs("go")
        subprocess.run(["go", "vet", "."], cwd=sources, check=True)
        subprocess.run(["go", "build", "-o", program, "."], cwd=sources, check=True)
    return [program]


@pytest.mark.full
@pytest.mark.parametrize(
    "language",
    [
        "javascript",
        pytest.param("java", marks=pytest.mark.full),
        *(pytest.param(one, marks=pytest.mark.full) for one in ("rust", "go")),
    ],
)
def test_an_evaluator_agrees_with_the_vectors(language, tmp_path):
    assert vectors.tried(built(language, tmp_path), EVERY)[:10] == []


@pytest.mark.full
def test_c_agrees_with_the_vectors(tmp_path):
    every = [one for one in EVERY if all(" " not in line for line in one["scores"])]
    maps = [Written(one["map"]) for one in every]
    for vector, evaluated in zip(every, compiled(maps, tmp_path, "-O0"), strict=True):
        found = evaluated([vectors.read(line)[0] for line in vector["scores"]])
        assert vectors.wrong(vector, found.tolist()) == []


class Written:
    """A map that is only known as plain data."""

    def __init__(self, plain):
        self.plain = plain

    def to_c(self, name):
        from streamcal.maps.c_source import c_source

        return c_source(self.plain, name)


def test_a_wrong_evaluator_is_found(tmp_path):
    program = "import sys\nfor line in sys.stdin:\n    if not line.startswith('{'):\n        print(0.5)\n"
    lines = vectors.tried([sys.executable, "-c", program], EVERY[:3])
    assert len(lines) > 50
    assert "identity on probability at [0.0]: 0.5, and not 0.0" in lines
    assert "ended with 3" in vectors.tried([sys.executable, "-c", "import sys; sys.exit(3)"], EVERY[:1])[0]


@pytest.mark.parametrize(
    "files",
    [
        [FOLDER / "javascript/calibration_map.mjs"],
        [FOLDER / "go/calibration_map.go"],
        [FOLDER / "java/CalibrationMap.java"],
        [FOLDER / "rust/calibration_map.rs", FOLDER / "rust/formulas.rs"],
    ],
    ids=lambda files: files[0].suffix,
)
def test_evaluators_have_fewer_than_200_lines_of_code(files):
    lines = [line.strip() for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    assert len([line for line in lines if line and not line.startswith(("//", "/**", "* ", "*/"))]) < 200


# -- the schema --------------------------------------------------------------------------------------------------


def test_the_schema_is_that_of_the_script():
    made = script("schema")
    assert json.loads(made.FILE.read_text(encoding="utf-8")) == json.loads(json.dumps(made.schema()))


@pytest.fixture(scope="module")
def validator():
    jsonschema = pytest.importorskip("jsonschema_rs")
    return jsonschema.validator_for(json.loads((FOLDER / "calibration_map.schema.json").read_text(encoding="utf-8")))


def test_maps_and_vectors_are_valid(validator):
    scores, y = realistic(seed=4, size=200, a=1.0, b=2.0)
    scores = np.round(scores * 16) / 16
    for method in REGISTRY.values():
        cal = method()
        for _ in range(2):
            validator.validate(json.loads(cal.map().to_json()))
            cal.learn_many(scores, y)
    for vector in EVERY:
        validator.validate(vector["map"])


def test_what_the_schema_refuses_is_no_map(validator):
    """A field fewer, one more, another type, or a probability of 2."""
    for vector in EVERY[:: max(len(EVERY) // 60, 1)]:
        plain = vector["map"]
        damaged = [{name: value for name, value in plain.items() if name != left_out} for left_out in plain]
        damaged += [plain | {"further": 1.0}, plain | {"streamcal_map": 2}, plain | {"scale": {"kind": "probability?"}}]
        if "values" in plain:
            damaged += [plain | {"values": [2.0, *plain["values"][1:]]}, plain | {"values": "text"}]
        for one in damaged:
            if "spots" not in plain or "spots" in one:
                assert not validator.is_valid(one), one


def test_a_map_is_an_es_module_too(tmp_path):
    """A map of folds takes one score, or one of each fold."""
    needs("node")
    cal, folded = REGISTRY["auto"](), CrossVennAbers(folds=3)
    scores, y = realistic(seed=4, size=200, a=1.0, b=2.0)
    cal.learn_many(scores, y)
    folded.learn_many(scores, y, fold=np.arange(len(y)) % 3)
    (tmp_path / "map.mjs").write_text(cal.map().to_js(), encoding="utf-8")
    (tmp_path / "folded.mjs").write_text(folded.map().to_js(), encoding="utf-8")
    program = """
    import { calibrate } from "./map.mjs";
    import { calibrate as folded } from "./folded.mjs";
    console.log(calibrate(0.25), folded(0.2), folded(0.2, 0.3, 0.4));
    console.log(calibrate(2), calibrate(null), calibrate(), folded(0.2, 0.3), folded(0.2, 0.3, NaN), folded(NaN));
    """
    command = ["node", "--input-type=module", "-e", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    values, none = done.stdout.splitlines()
    want = [cal.predict_one(0.25), folded.predict_one(0.2), folded.predict_one([0.2, 0.3, 0.4])]
    assert list(map(float, values.split())) == pytest.approx(want, abs=1e-12)
    assert none.split() == ["NaN"] * 6
