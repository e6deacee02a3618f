"""What `save` writes `load` reads: for every method of every kind, also in a process that has imported none of them."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys

import numpy as np
import pytest
from laws.binary import realistic

import streamcal
from streamcal import REGISTRY, InputError, Platt, StateError, TrackingOPS, fusion, live, multiclass, regression
from streamcal.fusion import BernsteinFusion, CopulaFusion, PrequentialFusion
from streamcal.learners.learner import Learner
from streamcal.live import CalibrationMonitor, LabelJoin, Segmented, Shadow
from streamcal.multiclass import OneVsRest
from streamcal.regression import Normal
from streamcal.saved import Saved
from streamcal.states import signed

SIZE = 60
#: Two scores a row.
TUPLES = np.random.default_rng(3).random((SIZE, 2))


def built(method):
    """With what has no default."""
    needs_support = "support" in inspect.signature(method).parameters
    try:
        return method(**({"support": (0.0, 10.0)} if needs_support else {}))
    except InputError as error:
        if "pip install" in str(error):
            pytest.skip("an extra is not installed")
        raise


def one_score(cal):
    scores, y = realistic(seed=2, size=SIZE, a=1.0, b=2.0)
    cal.learn_many(scores, y)
    return lambda found: found.predict_many(scores).tolist()


def several_scores(cal):
    cal.learn_many(TUPLES, TUPLES.sum(axis=1) > 1.0 + 0.3 * np.cos(np.arange(SIZE)))
    return lambda found: found.predict_many(TUPLES).tolist()


def many_classes(cal):
    rows = np.column_stack((TUPLES, 2.0 - TUPLES.sum(axis=1))) / 2.0
    labels = ["cat", "dog", "fox"]
    cal.learn_many(rows, [labels[i % 3] for i in range(SIZE)], labels=labels)
    return lambda found: [found.predict_one(dict(zip(labels, row, strict=True))) for row in rows[:8].tolist()]


def distributions(cal):
    forecasts = [Normal(2.0 + 6.0 * mean, 1.0) for mean, _ in TUPLES]
    for forecast, u in zip(forecasts, TUPLES[:, 1].tolist(), strict=True):
        cal.learn_one(forecast, forecast.mean + u - 0.3)
    return lambda found: [float(found.predict_one(one).cdf(5.0)) for one in forecasts[:8]]


EVERY = [
    pytest.param(methods, name, learned, id=f"{kind}-{name}")
    for kind, methods, learned in (
        ("one score", REGISTRY, one_score),
        ("fusion", fusion.METHODS, several_scores),
        ("multiclass", multiclass.METHODS, many_classes),
        ("regression", regression.METHODS, distributions),
    )
    for name in methods
]


@pytest.mark.sample(6)
@pytest.mark.parametrize(("methods", "name", "learned"), EVERY)
def test_what_is_saved_is_loaded(methods, name, learned, tmp_path):
    cal = built(methods[name])
    predictions = learned(cal)
    streamcal.save(cal, tmp_path / "state.json")
    found = streamcal.load(tmp_path / "state.json")
    assert type(found) is type(cal) is methods[name]
    assert found.same_parameters(cal)
    # A state holds the sums themselves: additive maps are solved from the same numbers. An iterative solve may start
    # elsewhere, and a tree built anew adds in another order.
    np.testing.assert_equal(found.n, cal.n)
    assert np.allclose(flat(predictions(found)), flat(predictions(cal)), rtol=0.0, atol=1e-9)


def joined() -> LabelJoin:
    """Make a join with forecasts that wait, an outcome set aside, early labels, a second version, and a note."""
    join = LabelJoin(Segmented("ops", by=["place"]), 60.0, early=10.0)
    for k in range(90):
        join.issue(f"i{k}", 0.1 + k / 200, float(k), keys={"place": k % 3}, version="v2" if k > 50 else "v1")
        if k % 4 == 0:
            join.resolve(f"i{k}", True, k + 5.0)
    join.resolve("later", True, 90.0)
    join.note({"offset": 17})
    return join


def monitor() -> CalibrationMonitor:
    watched = CalibrationMonitor(run_length=1e4)
    for k in range(200):
        watched.update(k % 2 == 0, 0.3, {"place": k % 3})
    return watched


def shadow() -> Shadow:
    given = Shadow(Platt(), {"ops": TrackingOPS()})
    given.predict_learn_many(*realistic(seed=2, size=SIZE, a=1.0, b=2.0))
    return given


@pytest.mark.parametrize("make", [joined, monitor, shadow])
def test_what_learns_beside_calibrators_is_saved_too(make, tmp_path):
    """Everything of `streamcal.live` that has a state; the class that is loaded is the one of the list."""
    given = make()
    streamcal.save(given, tmp_path / "state.json")
    found = streamcal.load(tmp_path / "state.json")
    assert type(found) is type(given)
    assert type(found).__name__ in live.SAVED
    assert found.state_dict() == given.state_dict()
    assert repr(found) == repr(given)


def test_lists_of_live_name_every_class_with_a_state():
    found = {
        name
        for name in live.__all__
        if isinstance(getattr(live, name), type) and issubclass(getattr(live, name), Saved)
    }
    assert found == {*live.SAVED, *live.METHODS.by_class}


def flat(predictions):
    return [list(one.values()) if isinstance(one, dict) else one for one in predictions]


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "cal", [OneVsRest(Platt()), PrequentialFusion((BernsteinFusion(2), CopulaFusion()))], ids=lambda cal: cal.name
)
def test_a_new_process_loads_what_it_has_not_imported(cal, tmp_path):
    """The class of the file, and those of its parameters."""
    streamcal.save(cal, tmp_path / "state.json")
    code = "import sys, streamcal; print(repr(streamcal.load(sys.argv[1])))"
    run = subprocess.run(
        [sys.executable, "-P", "-c", code, tmp_path / "state.json"], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == repr(cal)


def test_lists_of_methods_name_every_learner():
    """Else a state could be saved that no new process can load."""
    for methods in (REGISTRY, fusion.METHODS, multiclass.METHODS, regression.METHODS):
        for name, cls in methods.items():
            assert cls.name == name
            assert Learner.class_named(cls.__name__) is cls


def test_a_method_defined_elsewhere_can_be_saved_too(tmp_path):
    class Mine(Platt):
        name = "mine"

    streamcal.save(Mine(), tmp_path / "state.json")
    assert type(streamcal.load(tmp_path / "state.json")) is Mine


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not a streamcal state"),
        (b"[1, 2]", "names no class"),
        (b"{}", "names no class"),
        (json.dumps({"streamcal": 1, "class": "dict", "params": {}, "learned": {}}).encode(), "'dict', which is not"),
        (json.dumps({"streamcal": 1, "class": "Calibrator"}).encode(), "'Calibrator', which is not"),
        (json.dumps({**Platt().state_dict(), "streamcal": 99}).encode(), "version 99"),
        (json.dumps(signed({**Platt().state_dict(), "learned": {}})).encode(), "damaged"),
        (
            json.dumps(
                signed({**OneVsRest(Platt()).state_dict(), "params": {"calibrator": {"learner": "No"}}})
            ).encode(),
            "'No', which is not",
        ),
    ],
)
def test_what_is_no_state_is_refused_with_the_name_of_the_file(content, reason, tmp_path):
    path = tmp_path / "state.json"
    path.write_bytes(content)
    with pytest.raises(StateError, match=reason) as refused:
        streamcal.load(path)
    assert str(path) in str(refused.value)


def test_a_file_that_is_not_there_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        streamcal.load(tmp_path / "none.json")


def test_saving_and_loading_are_logged(tmp_path, caplog):
    cal = Platt()
    cal.learn_one(0.3, True)
    with caplog.at_level("DEBUG", logger="streamcal"):
        streamcal.save(cal, tmp_path / "state.json")
        streamcal.load(tmp_path / "state.json")
    saved, loaded = [record.getMessage() for record in caplog.records]
    size = (tmp_path / "state.json").stat().st_size
    assert saved == f"saved Platt of weight 1, {size} bytes, to {tmp_path / 'state.json'}"
    assert loaded == f"loaded Platt of weight 1 from {tmp_path / 'state.json'}"


def test_a_state_of_another_class_than_expected_is_refused(tmp_path):
    path = tmp_path / "state.json"
    streamcal.save(Platt(), path)
    for kind in (Platt, streamcal.Calibrator, Learner, Saved):
        assert type(streamcal.load(path, kind)) is Platt
    with pytest.raises(StateError, match="holds the state of a Platt, not of a TrackingOPS; give kind=Platt"):
        streamcal.load(path, TrackingOPS)
    with pytest.raises(StateError, match="not of a Segmented"):
        streamcal.load(path, kind=Segmented)
