"""Numbers of NumPy as parameters: whatever is made of them is what Python's numbers make."""

import importlib
import inspect
import pickle
import re
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from river import linear_model

import streamcal
from streamcal import Calibrator, Decay, Prior, Window
from streamcal.errors import InputError
from streamcal.fusion import BernsteinFusion, LogisticFusion
from streamcal.live import LabelJoin
from streamcal.stream.comparing import Comparison

MODULES = ["regression", "multiclass", "fusion", "live", "metrics", "datasets", "datasets.synthetic", "river"]
#: Results, which no one makes, and what reads data, which is tried on its own.
LEFT_OUT = {
    *("Answer", "Issued", "CORPBlock", "CORPReliability", "Decomposition", "LevelData", "PairEffect", "Recalibration"),
    *("Certificate", "Group", "Pending"),
    *("ReliabilityBin", "ReliabilityData", "SyntheticStream", "AdClicks", "Setting", "compare"),
}
#: A possible value of each parameter that is a number; where names are used twice, also by class.
VALUES = {
    "breadth": 5.0,
    "bucket": 5.0,
    "max_behind": 5.0,
    "cells": 64,
    "max_rows": 1_000,
    "click_bits": 128,
    "resolution": 64,
    "refresh_every": 3,
    "delay": 48,
    "degree": 4,
    "tolerance": 1e-5,
    "folds": 3,
    "half_life": 12.5,
    "max_jump": 1e6,
    "knots": (0.0, 0.5, 2.0),
    "ranks": (0.0, 0.25, 1.0),
    "half_width": 0.125,
    "bins": 5,
    "fewest": 20.5,
    "seed": 7,
    "lo": -3.0,
    "hi": 2.5,
    "penalty": 0.3,
    "bound": 4.0,
    "fraction": 0.1,
    "discount": 0.9,
    "strength": 0.1,
    "jump_rates": (0.1, 0.01),
    "passive": 0.3,
    "scores": (-1.0, 1.0),
    "size": 100,
    "variance": 3.3,
    "q_length": 0.3,
    "t_length": 0.2,
    "level": 0.8,
    "rate": 0.01,
    "window": 50,
    "slack": 0.1,
    "half_lives": (2.5, 20),
    "share": 0.1,
    "thresholds": 4,
    "support": (-2.0, 2.0),
    "points": 64,
    "mean": 0.1,
    "sd": 1.1,
    "smoothing": 0.7,
    "off_diagonal": 0.1,
    "intercept": 2,
    "prior": 0.2,
    "limit": 100,
    "slope": 0.2,
    "diagonal": 5.5,
    "n_scores": 3,
    "degrees": 2,
    "alpha": 0.1,
    "run_length": 1e5,
    "max_segments": 10,
    "horizon": 600.5,
    "early": 60,
    "late": 0,
    "early_share": 0.6,
    "max_held": 50,
    "max_unknown": 0,
    "max_levels": 10,
    "confidence": 0.9,
    "trained": 0.5,
    "served": 0.02,
    "clip": 1e-3,
    "low": -1.0,
    "high": 3,
    "n": 500,
    "days": 2.5,
    "versions": 2,
    "candidates": 3,
    "oracle_size": 1_000,
}
VALUES |= {("ScoreIntervals", "lo"): (-1.5, 0.5), ("ScoreIntervals", "hi"): (-0.5, 1.5)}
#: What else is needed.
GIVEN = {
    "Decay": {"by": "time", "half_life": 10},
    "Window": {"by": "time", "size": 10},
    "EmpiricalCDF": {"knots": (0.0, 0.5, 2.0), "ranks": (0.0, 0.25, 1.0)},
    "ScoreIntervals": {"scores": (-1.0, 1.0), "lo": (-1.5, 0.5), "hi": (-0.5, 1.5)},
    "Normal": {"mean": 0.0, "sd": 1.0},
    "Multicalibrated": {"by": ["campaign"]},
    "Segmented": {"by": ["campaign"]},
    "Shadow": {"champion": "ops"},
    "LabelJoin": {"calibrator": "ops", "horizon": 600},
    "CountedJoin": {"calibrator": "ops", "horizon": 600, "key": bytes(32)},
    "importance_weight": {"y": False},
    "undo_downsampling": {"p": 0.5},
    "shift_prior": {"p": 0.5, "trained": 0.5, "served": 0.1},
    "ad_clicks": {"n": 100},
    "ad_click_chunks": {"n": 100},
    "generate": {"name": "lab-1d", "oracle_size": 1_000},
    "CalibratedRegressor": {"regressor": linear_model.LinearRegression()},
    "EmpiricalDensity": {"support": (-1.0, 1.0)},
    "GaussianProcessCDF": {"support": (-1.0, 1.0)},
    "IsotonicDistributional": {"support": (-1.0, 1.0)},
    "VennAbersRegression": {"support": (-1.0, 1.0)},
}
#: Tuples of data, in which a bool is a number as in arrays.
DATA = {"knots", "ranks", "scores", "support", ("ScoreIntervals", "lo"), ("ScoreIntervals", "hi")}
#: How messages name a parameter, where not by its name: bounds are in what was called, and an array is one of scores.
NAMED = {"lo": "lo < hi", "hi": "lo < hi", "thresholds": "thresholds|scores"}


def parameters():
    """Everything public that takes numbers: (what, parameter, annotation)."""
    found = {}
    for module in (streamcal, *(importlib.import_module(f"streamcal.{name}") for name in MODULES)):
        for name in getattr(module, "__all__", dir(module)):
            one = getattr(module, name)
            if name in LEFT_OUT or not callable(one) or not getattr(one, "__module__", "").startswith("streamcal"):
                continue
            if inspect.isclass(one) and (inspect.isabstract(one) or issubclass(one, BaseException)):
                continue
            for parameter in inspect.signature(one).parameters.values():
                if re.search(r"\b(int|float)\b", str(parameter.annotation)):
                    found[name, parameter.name] = (one, parameter.name, str(parameter.annotation))
    return found


PARAMETERS = parameters()
each_parameter = pytest.mark.parametrize(("what", "name", "kind"), PARAMETERS.values(), ids=map(".".join, PARAMETERS))


def value_of(what, name):
    return VALUES.get((what.__name__, name), VALUES.get(name))


def made(what, **given):
    """Return everything visible of an object: its repr, its saved form, and what it returns."""
    one = what(**{**GIVEN.get(what.__name__, {}), **given})
    if not inspect.isclass(what):
        return pickle.dumps(list(one) if inspect.isgenerator(one) else one)
    if isinstance(one, Calibrator):
        one.learn_many([0.1, 0.4, 0.4, 0.9], [False, True, False, True])
    return one, repr(one), one.to_bytes() if hasattr(one, "to_bytes") else None


def forms(value):
    """Pair a number, or a tuple of them, in types of NumPy with the same number of Python."""
    if isinstance(value, tuple):
        parts = [forms(one) for one in value]
        return [tuple(map(tuple, zip(*each, strict=True))) for each in zip(*parts, strict=False)]
    types = (np.int64, np.int32, np.uint8) if isinstance(value, int) and value < 256 else (np.int64, np.int32)
    types = types if isinstance(value, int) else (np.float64, np.float32)
    return [(kind(value), kind(value).item()) for kind in types]


@pytest.mark.sample(12)
@each_parameter
def test_a_number_of_numpy_is_that_of_python(what, name, kind):
    for of_numpy, of_python in forms(value_of(what, name)):
        found, expected = made(what, **{name: of_numpy}), made(what, **{name: of_python})
        if not inspect.isclass(what):
            assert found == expected
            continue
        assert found[1:] == expected[1:], of_numpy
        one, other = found[0], expected[0]
        if hasattr(type(other), "__eq__") and type(other).__eq__ is not object.__eq__:
            assert one == other
        stored = getattr(one, name, of_python)
        assert type(stored) is type(getattr(other, name, of_python))
        if hasattr(one, "clone") and not isinstance(one, Calibrator):
            assert repr(one.clone()) == repr(other.clone())


@pytest.mark.sample(4)
@each_parameter
def test_what_is_no_number_is_refused(what, name, kind):
    value = value_of(what, name)
    wrong = [True, np.True_, "1", np.timedelta64(5, "s"), Fraction(1, 2), Decimal(5), 1j]
    wrong += [5.0, np.float64(5.0), np.float32(5.0)] if "float" not in kind else [np.nan, np.float32(np.nan)]
    if isinstance(value, tuple):
        if name in DATA or (what.__name__, name) in DATA:
            return
        wrong = [(one, *value[1:]) for one in wrong] + ([0.1] if name == "jump_rates" else [])
    for one in wrong:
        with pytest.raises(InputError, match=NAMED.get(name, name)):
            made(what, **{name: one})


@pytest.mark.sample(4)
@each_parameter
def test_an_array_is_no_number(what, name, kind):
    if not isinstance(value_of(what, name), tuple):
        with pytest.raises(InputError, match=NAMED.get(name, name)):
            made(what, **{name: np.array(value_of(what, name))})


def test_parameters_of_every_kind_are_found():
    rooms = {what.__module__.split(".")[1] for what, _, _ in PARAMETERS.values()}
    assert rooms >= {"calibrators", "parameters", "regression", "multiclass", "fusion", "live", "metrics", "river"}
    assert {("Platt", "refresh_every"), ("Window", "max_jump"), ("LabelJoin", "late")} <= set(PARAMETERS)


def test_learning_and_predicting_are_those_of_the_numbers_of_python():
    """Numbers inside of a fusion, beside those that are printed and saved."""
    scores, y = np.random.default_rng(3).random((60, 3)), np.arange(60) % 3 == 0
    for of_numpy, of_python in [
        (
            LogisticFusion(np.int64(3), discount=np.float64(0.9), bound=np.float64(3.0)),
            LogisticFusion(3, discount=0.9, bound=3.0),
        ),
        (BernsteinFusion((np.int64(1), np.int32(2), 1), np.int64(3)), BernsteinFusion((1, 2, 1), 3)),
    ]:
        for fusion in (of_numpy, of_python):
            fusion.learn_many(scores, y)
        assert of_numpy.to_bytes() == of_python.to_bytes()
        assert of_numpy.predict_many(scores).tolist() == of_python.predict_many(scores).tolist()


def test_parameters_are_swept_by_name():
    """As searches do, `forgetting__size` with them."""
    model = BernsteinFusion(2, forgetting=Window(100))
    model.set_params(degrees=np.int64(3), forgetting__size=np.int64(50))
    assert repr(model) == repr(BernsteinFusion(3, forgetting=Window(50)))
    assert Window(np.int64(100)) == Window(100)
    assert hash(Prior(np.float32(0.5))) == hash(Prior(0.5))


@pytest.mark.parametrize("delay", [np.int64(5), np.int32(5), 5])
def test_a_comparison_takes_a_delay(delay):
    assert (Comparison(["ops"], delay=delay).delay.__class__, Comparison(["ops"], delay=delay).delay) == (int, 5)
    for wrong in (True, np.True_, np.float64(5.0), -1, np.array(5)):
        with pytest.raises(InputError, match="delay="):
            Comparison(["ops"], delay=wrong)


def test_spans_of_time_are_seconds_as_before():
    hour = timedelta(hours=1)
    assert Window(hour, max_jump=hour) == Window(3600.0, by="time", max_jump=3600.0)
    assert repr(Decay(hour)) == repr(Decay(3600.0, by="time"))
    join, seconds = (
        LabelJoin("ops", hour, hour / 4, late=hour),
        LabelJoin("ops", 3600, np.int64(900), late=np.int32(3600)),
    )
    assert join.spans == seconds.spans
    assert join.to_bytes() == seconds.to_bytes()
    for wrong in (timedelta(0), -hour):
        for make in (Window, Decay, lambda span: LabelJoin("ops", span)):
            with pytest.raises(InputError, match="above 0"):
                make(wrong)
