"""The name of a method stands for the method wherever a calibrator is taken; an unknown name brings the nearest."""

import re

import numpy as np
import pytest
from river import linear_model, naive_bayes
from sklearn.naive_bayes import GaussianNB

import streamcal.sklearn
from streamcal import (
    REGISTRY,
    Auto,
    Beta,
    Calibrator,
    CrossVennAbers,
    InputError,
    Isotonic,
    OnlinePlatt,
    VennAbers,
    fusion,
    live,
    metrics,
    multiclass,
    regression,
)
from streamcal.datasets import fetching, synthetic
from streamcal.lazy import ALIASES
from streamcal.learners.choosing import chosen
from streamcal.learners.learner import HERE
from streamcal.live import Multicalibrated, Segmented, Shadow
from streamcal.multiclass import OneVsRest
from streamcal.regression import EmpiricalDensity
from streamcal.river import (
    CalibratedClassifier,
    CalibratedMulticlassClassifier,
    CalibratedRegressor,
    CrossCalibratedClassifier,
    FusedClassifier,
    ScoreCalibrator,
)
from streamcal.stream.prequential import Prequential
from streamcal.stream.times import TimeOptions

X = np.random.default_rng(0).normal(size=(120, 2))
Y = (X[:, 0] > 0.0).astype(int)


def fitted(calibrator, wrapper=streamcal.sklearn.StreamingCalibratedClassifier):
    return wrapper(GaussianNB(), calibrator).fit(X, Y)


def classifier():
    return linear_model.LogisticRegression()


#: What takes a calibrator of one score → the calibrator that then learns.
BINARY = {
    "river": lambda given: CalibratedClassifier(classifier(), given).calibrator,
    "river, a score": lambda given: ScoreCalibrator(given).calibrator,
    "scikit-learn": lambda given: fitted(given).calibrator_,
    "stream": lambda given: Prequential(given).calibrator,
    "one against the rest": lambda given: OneVsRest(given)._engine.binary,
    "segments": lambda given: EmpiricalDensity(given, support=(0.0, 1.0))._engine.binary,
}
#: What takes another kind → (its methods, the names that need more than a name).
OTHERS = {
    "many classes": (
        lambda given: CalibratedMulticlassClassifier(naive_bayes.GaussianNB(), given).calibrator,
        multiclass.METHODS,
        (),
    ),
    "regression": (
        lambda given: CalibratedRegressor(linear_model.LinearRegression(), given).calibrator,
        regression.METHODS,
        ("empirical-density", "isotonic-distributional", "venn-abers-regression", "gaussian-process-cdf"),
    ),
    "fusion": (lambda given: FusedClassifier([classifier(), classifier()], given).fusion, fusion.METHODS, ()),
}


@pytest.mark.parametrize("place", BINARY)
@pytest.mark.parametrize("name", ["ops", "auto"])
def test_names_of_binary_methods(place, name):
    if place in ("scikit-learn", "one against the rest", "segments") and name == "auto":
        name = "platt"  # Auto is slower, and takes the same way
    assert type(BINARY[place](name)) is REGISTRY[name]


@pytest.mark.parametrize("place", BINARY)
def test_unknown_names_of_binary_methods(place):
    unknown = r"'isotnic' is unknown \(did you mean 'isotonic'\?\); known are identity, platt"
    with pytest.raises(InputError, match=unknown):
        BINARY[place]("isotnic")
    with pytest.raises(InputError, match="calibrator='zzz' is unknown; known are identity, platt"):
        BINARY[place]("zzz")
    with pytest.raises(InputError, match=r"calibrator=3 is not a .*calibrator; give one, or its name: identity"):
        BINARY[place](3)


@pytest.mark.parametrize(("place", "name"), [(place, name) for place in OTHERS for name in OTHERS[place][1]])
def test_names_of_other_methods(place, name):
    made, methods, need_more = OTHERS[place]
    if name in need_more:
        with pytest.raises(InputError, match=rf"needs support: give {methods[name].__name__}\(support=\.\.\.\)"):
            made(name)
    else:
        assert type(made(name)) is methods[name]


@pytest.mark.parametrize("place", OTHERS)
def test_unknown_names_of_other_methods(place):
    made, methods, _ = OTHERS[place]
    nearest = list(methods)[1]
    with pytest.raises(InputError, match=rf"is unknown \(did you mean '{nearest}'\?\); known are {', '.join(methods)}"):
        made(nearest.upper()[:-1])


def test_a_fusion_made_from_its_name_takes_as_many_scores_as_there_are_classifiers():
    model = FusedClassifier([classifier(), classifier(), classifier()], "mrmic")
    assert model.fusion.n_scores == 3


def test_cross_fitting_by_name():
    assert type(CrossCalibratedClassifier(classifier(), "cross-venn-abers").calibrator) is CrossVennAbers
    assert len(fitted("cross-venn-abers", streamcal.sklearn.CrossCalibratedClassifier).estimators_) == 5
    for wrapper in (
        lambda given: CrossCalibratedClassifier(classifier(), given),
        lambda given: fitted(given, streamcal.sklearn.CrossCalibratedClassifier),
    ):
        with pytest.raises(InputError, match="has no folds"):
            wrapper("venn-abers")
        with pytest.raises(InputError, match="did you mean 'cross-venn-abers'"):
            wrapper("cross_venn_aber")


def test_scikit_learn_keeps_the_name_as_its_parameter():
    model = fitted("venn-abers")
    assert model.get_params(deep=False)["calibrator"] == "venn-abers"
    np.testing.assert_array_equal(model.predict_proba(X), fitted(VennAbers()).predict_proba(X))
    assert model.predict_interval(X).shape == (len(X), 2)
    assert not hasattr(fitted("ops"), "predict_interval")
    assert not hasattr(streamcal.sklearn.StreamingCalibratedClassifier(GaussianNB(), "zzz"), "predict_interval")


def test_an_object_that_a_stream_is_given_learns_itself_and_wrappers_clone_it():
    cal = OnlinePlatt()
    assert Prequential(cal).calibrator is cal
    assert CalibratedClassifier(classifier(), cal).calibrator is not cal
    assert type(CalibratedClassifier(classifier(), Auto()).calibrator) is Auto


def segmented():
    return Segmented("ops", by=["campaign", "device"])


#: Places that take one of a few words, with a slip → the word meant.
WORDS = [
    (lambda: VennAbers("self-consistant"), "self-consistent"),
    (lambda: CrossVennAbers(point="log-minmax"), "log-minimax"),
    (lambda: fusion.PartialOrderVennAbers(point="brier-minmax"), "brier-minimax"),
    (lambda: regression.GaussianProcessCDF(support=(0.0, 1.0), mean="bse"), "base"),
    (lambda: metrics.CORP(loss="brir"), "brier"),
    (lambda: Beta(form="abmm"), "abm"),
    (lambda: synthetic.generate("abrubt"), "abrupt"),
    (lambda: fetching.fetch("bank_ful"), "bank_full"),
    (lambda: segmented().effect("campagn", 1), "campaign"),
    (lambda: Multicalibrated(segmented(), by=["campaign"]).gap("campain", 1), "campaign"),
    (lambda: Shadow("ops", {"other": "auto"}).promote("othr"), "other"),
    (lambda: TimeOptions(unit="mss"), "ms"),
    (lambda: ScoreCalibrator("ops", on="p").predict_proba_one({"P ": 0.3}), "P "),
]


@pytest.mark.parametrize(("call", "meant"), WORDS, ids=[meant for _, meant in WORDS])
def test_a_misspelt_word_brings_the_nearest(call, meant):
    with pytest.raises(InputError, match=f"did you mean '{meant}'"):
        call()


def kebab(cls):
    """Return the name of a class in kebab case: capitals in a row are one word."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "-", cls.__name__.replace("ELiTE", "Elite")).lower()


@pytest.mark.parametrize(
    "methods", [REGISTRY, multiclass.METHODS, fusion.METHODS, regression.METHODS], ids=["1", "K", "m", "R"]
)
def test_a_method_is_called_as_its_class_is(methods):
    for name, cls in methods.items():
        assert name == cls.name == kebab(cls)


def test_an_alias_is_a_method_and_is_listed_once():
    rooms = (REGISTRY, multiclass.METHODS, fusion.METHODS, regression.METHODS)
    for alias, name in ALIASES.items():
        found = [methods for methods in rooms if name in methods.places]
        assert len(found) == 1, alias
        assert found[0][alias] is found[0][name] is found[0].get(alias)
        assert alias in found[0]
        assert alias not in list(found[0])
    assert isinstance(chosen("ops", Calibrator, REGISTRY), REGISTRY["online-platt"])


#: Calls with a parameter that has another name here → that name.
PARAMETERS = [
    (lambda: OnlinePlatt().learn_many([0.5], [True], time=[1.0]), "t"),
    (lambda: OnlinePlatt().predict_learn_many([0.5], [True], sample_weight=[1.0]), "w"),
    (lambda: VennAbers().predict_interval_many([0.5], times=[1.0]), "t"),
    (lambda: fusion.LogisticFusion().learn_many([[0.5, 0.5]], [True], weight=[1.0]), "w"),
    (lambda: multiclass.OnlineVectorScaling().learn_many([[0.5, 0.5]], [0], weights=[1.0]), "w"),
    (lambda: segmented().learn_many([0.5], [True], key={"campaign": [1]}), "keys"),
    (lambda: metrics.LogLoss().update_many([True], [0.5], weight=[1.0]), "w"),
    (lambda: Isotonic(window=5), "forgetting"),
    (lambda: CalibratedClassifier(classifier(), calibratr="ops"), "calibrator"),
    (lambda: CalibratedRegressor(linear_model.LinearRegression(), calibratr="acp"), "calibrator"),
    (lambda: streamcal.sklearn.StreamingCalibratedClassifier(GaussianNB(), calibratr="ops"), "calibrator"),
    (lambda: streamcal.sklearn.CrossCalibratedClassifier(GaussianNB(), calibratr="ops"), "calibrator"),
    (lambda: Isotonic(time="24h"), "forgetting"),
]


@pytest.mark.parametrize(("call", "meant"), PARAMETERS)
def test_a_parameter_of_another_name_brings_the_one_here(call, meant):
    with pytest.raises(TypeError, match=f"did you mean '{meant}'"):
        call()


def test_a_class_of_another_package_says_where_it_is():
    for name, place in (("LabelJoin", "streamcal.live"), ("OneVsRest", "streamcal.multiclass")):
        with pytest.raises(AttributeError, match=f"'streamcal' has no attribute '{name}'; it is in {place}$"):
            getattr(streamcal, name)
    with pytest.raises(AttributeError, match="did you mean 'OnlinePlatt'"):
        getattr(streamcal, "OnlinePlat")  # noqa: B009


def test_challengers_by_name():
    assert list(Shadow("ops", "platt").challengers) == ["platt"]
    assert list(Shadow("ops", ["platt", "isotonic"]).challengers) == ["platt", "isotonic"]
    with pytest.raises(InputError, match="did you mean 'isotonic'"):
        Shadow("ops", ["isotnic"])


@pytest.mark.parametrize("name", sorted(HERE))
def test_names_of_other_libraries_are_no_attributes_and_say_what_to_use(name):
    cal = OnlinePlatt()
    for one in (cal, OnlinePlatt):
        assert not hasattr(one, name)
        with pytest.raises(AttributeError, match=re.escape(f"here it is {HERE[name]}")):
            getattr(one, name)
    assert name not in dir(cal)


def test_no_learner_has_a_getattr():
    """With one, Python looks up every attribute the slow way: a step of `OnlinePlatt` took twice as long."""
    for methods in (REGISTRY, fusion.METHODS, multiclass.METHODS, regression.METHODS, live.METHODS):
        for cls in methods.values():
            assert not hasattr(cls, "__getattr__"), cls
