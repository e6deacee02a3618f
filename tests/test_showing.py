"""What maps, and the models of River, show of themselves."""

import inspect

import numpy as np
import pytest
from river import linear_model, naive_bayes, preprocessing

import streamcal
from streamcal import (
    EmpiricalCDF,
    HistogramBinning,
    Isotonic,
    Logit,
    Platt,
    Temperature,
    VennAbers,
    fusion,
    load_map,
    multiclass,
    regression,
)
from streamcal.maps.sigmoids import SigmoidMap
from streamcal.regression import Normal
from streamcal.river import (
    CalibratedClassifier,
    CalibratedMulticlassClassifier,
    CalibratedRegressor,
    CrossCalibratedClassifier,
    FusedClassifier,
    ScoreCalibrator,
)

RNG = np.random.default_rng(0)
SCORES = RNG.uniform(0.05, 0.95, 60)
LABELS = RNG.uniform(size=60) < SCORES
#: Longer than this, a map fills a screen.
SCREEN = 600


def assert_short_and_named(shown, map):
    assert shown.startswith(f"{type(map).__name__}(")
    assert " at 0x" not in shown
    assert "array(" not in shown
    assert "np.float" not in shown
    assert len(shown) < SCREEN


def test_a_sigmoid_shows_its_numbers():
    assert repr(SigmoidMap(Logit(), 1.2, 1.0 / 3.0)) == (
        "SigmoidMap(scale=Logit(lo=-16.0, hi=16.0), slope=1.2, offset=0.333333)"
    )


def test_short_arrays_are_shown_and_long_ones_abbreviated():
    cal = Isotonic()
    cal.learn_many([0.25, 0.5], [0, 1])
    assert repr(cal.map()) == "KnotMap(scale=Probability(), knots=[0.25, 0.5], values=[0.0, 1.0])"
    cal = VennAbers()
    cal.learn_many(np.arange(8) / 8.0, [0, 0, 0, 0, 1, 1, 1, 1])
    assert "knots=[0.0, 0.125, 0.25, ..., 0.875]" in repr(cal.map())


@pytest.mark.parametrize("name", streamcal.REGISTRY)
def test_maps_of_every_binary_method(name):
    cal = streamcal.REGISTRY[name]()
    for _ in range(2):
        assert_short_and_named(repr(cal.map()), cal.map())
        assert "scale=" in repr(cal.map())
        cal.learn_many(SCORES, LABELS)


def test_a_scale_with_a_sample_in_it_is_abbreviated_too():
    cal = HistogramBinning(bins=2, scale=EmpiricalCDF.from_scores(SCORES), resolution=64)
    cal.learn_many(SCORES, LABELS)
    assert_short_and_named(repr(cal.map()), cal.map())
    assert "scale=EmpiricalCDF(knots=(" in repr(cal.map())


@pytest.mark.parametrize("name", fusion.METHODS)
def test_maps_of_every_fusion(name):
    cal = fusion.METHODS[name](3) if name == "bernstein-fusion" else fusion.METHODS[name]()
    cal.learn_many(np.column_stack((SCORES, SCORES[::-1])), LABELS)
    assert_short_and_named(repr(cal.map()), cal.map())


@pytest.mark.parametrize("name", multiclass.METHODS)
def test_maps_of_every_method_of_many_classes(name):
    cal = multiclass.METHODS[name]()
    cal.learn_many(np.column_stack((SCORES, 1.0 - SCORES)), np.where(LABELS, "a", "b"), labels=["a", "b"])
    assert_short_and_named(repr(cal.map()), cal.map())


@pytest.mark.parametrize("name", regression.METHODS)
def test_maps_of_every_method_of_distributions(name):
    method, more = regression.METHODS[name], {"gaussian-process-cdf": {"points": 32}}.get(name, {})
    bounded = "support" in inspect.signature(method).parameters
    cal = method(thresholds=4, support=(-3.0, 3.0), **more) if bounded else method()
    cal.learn_many([Normal(0.0, 1.0)] * 20, RNG.normal(size=20))
    assert_short_and_named(repr(cal.map()), cal.map())


def test_a_map_that_was_loaded():
    assert repr(load_map(Platt().map().to_json())) == "PortableMap(kind='identity', scale='logit')"


def test_models_of_river_show_their_calibrator():
    base = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    shown = {
        CalibratedClassifier(base, "ops"): "CalibratedClassifier(StandardScaler | LogisticRegression, OnlinePlatt(",
        CrossCalibratedClassifier(
            base
        ): "CrossCalibratedClassifier(StandardScaler | LogisticRegression, CrossVennAbers(",
        CalibratedMulticlassClassifier(naive_bayes.GaussianNB()): (
            "CalibratedMulticlassClassifier(GaussianNB, OnlineVectorScaling("
        ),
        CalibratedRegressor(linear_model.LinearRegression()): (
            "CalibratedRegressor(LinearRegression, Composition(calibrators=None)"
        ),
        FusedClassifier([base, naive_bayes.GaussianNB()], "mrmic"): (
            "FusedClassifier([StandardScaler | LogisticRegression, GaussianNB], MRMIC("
        ),
        ScoreCalibrator(Temperature(), on="pctr"): "ScoreCalibrator(Temperature(",
    }
    for model, start in shown.items():
        assert str(model).startswith(start)
    assert str(ScoreCalibrator(Temperature(), on="pctr")).endswith("), on='pctr')")
