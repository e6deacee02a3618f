"""Maps as ONNX models, alone and behind classifiers, run by ONNX Runtime."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from laws.binary import PROBES, realistic

from streamcal import (
    REGISTRY,
    Auto,
    CapabilityError,
    CrossVennAbers,
    InputError,
    Interval,
    Isotonic,
    Platt,
    Probability,
    VennAbers,
    append_to_onnx,
)
from streamcal.maps.knots import KnotMap
from streamcal.maps.steps import StepMap
from streamcal.multiclass import Dirichlet, OneVsRest, OnlineVectorScaling, TemperatureScaling, VectorScaling

onnx = pytest.importorskip("onnx", reason='pip install ".[test]" installs onnx and onnxruntime')
runtime = pytest.importorskip("onnxruntime", reason='pip install ".[test]" installs onnx and onnxruntime')


#: One method for each kind of map.
ONE_OF_EACH_KIND = (
    "platt",
    "protected",
    "beta",
    "bernstein",
    "monotone-polynomial",
    "bbq",
    "isotonic",
    "auto",
    "smooth-isotonic",
)
ONE_OF_EACH_KIND += ("venn-abers", "bernstein-logistic", "identity")


def run(model, scores, output="probability", /, **inputs):
    """Return what ONNX Runtime computes, in one thread."""
    onnx.checker.check_model(model, full_check=True)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run([output], inputs or {"score": scores})[0]


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", REGISTRY)
def test_the_map_of_every_method_is_the_same_in_onnx(name):
    scores, y = realistic(seed=4, size=400, a=1.0, b=2.0)
    scores[::2] = np.round(scores[::2] * 16) / 16
    x = np.concatenate((PROBES, scores, np.nextafter(scores, 2.0).clip(0.0, 1.0), np.nextafter(scores, -1.0).clip(0.0)))
    cal = REGISTRY[name]()
    for learned in (False, True):
        if learned:
            cal.learn_many(scores, y)
        found = cal.map()
        p = run(found.to_onnx(), x)
        assert p.dtype == np.float64
        np.testing.assert_allclose(p, found.predict_many(x), rtol=0.0, atol=1e-12)
        column = x.astype(np.float32)[:, None]
        np.testing.assert_allclose(
            run(found.to_onnx("float", column=True), column),
            found.predict_many(column[:, 0].astype(np.float64))[:, None],
            rtol=0.0,
            atol=1e-12,
        )


@pytest.mark.parametrize("pieces", [1, 2, 3, 4, 255, 256, 257, 10_000])
@pytest.mark.parametrize("kind", [StepMap, KnotMap])
def test_a_binary_search_finds_the_piece_of_every_score(kind, pieces):
    rng = np.random.default_rng(pieces)
    places = np.unique(rng.random(pieces + 1))
    found = kind(Probability(), places[1:] if kind is StepMap else places, rng.random(len(places)))
    x = np.concatenate((places, np.nextafter(places, 0.0), np.nextafter(places, 1.0), [0.0, 1.0]))
    model = found.to_onnx()
    assert run(model, x).tolist() == found.predict_many(x).tolist()
    gathers = sum(node.op_type == "Gather" for node in model.graph.node)
    assert gathers <= int(pieces).bit_length() + 5


@pytest.mark.parametrize("decreasing", [False, True])
def test_a_float32_score_falls_on_the_side_on_which_it_falls_in_double(decreasing):
    """Cuts lie between two float32 scores; those next to each cut are tried."""
    cuts = np.unique(np.random.default_rng(1).random(1_000))
    found = StepMap(Interval(decreasing=decreasing), -cuts[::-1] if decreasing else cuts, np.linspace(0, 1, 1_001))
    near = cuts.astype(np.float32)
    x = np.concatenate((near, np.nextafter(near, np.float32(0)), np.nextafter(near, np.float32(2))))
    assert run(found.to_onnx("float"), x).tolist() == found.predict_many(x.astype(np.float64)).tolist()


def test_what_is_no_score_becomes_nan_and_others_are_clamped():
    probabilities = Platt()
    probabilities.learn_many([0.2, 0.4, 0.6, 0.8], [0, 0, 1, 1])
    bad = np.array([np.nan, -0.1, 1.1, np.inf, -np.inf, np.nextafter(1.0, 2.0), -5e-324])
    assert np.isnan(run(probabilities.map().to_onnx(), bad)).all()
    margins = Isotonic(scale=Interval(-1.0, 1.0))
    margins.learn_many([-5.0, 0.0, 0.5], [0, 0, 1])
    found = run(margins.map().to_onnx(), np.array([np.nan, np.inf, -np.inf, -9.0, 9.0, 1e308]))
    np.testing.assert_array_equal(found, [np.nan, np.nan, np.nan, 0.0, 1.0, 1.0])
    assert run(margins.map().to_onnx(), np.empty(0)).shape == (0,)


def test_one_score_is_used_for_every_fold():
    cal = CrossVennAbers(folds=3)
    scores, y = realistic(seed=5, size=300, a=1.0, b=2.0)
    cal.learn_many(scores, y)
    assert run(cal.map().to_onnx(), PROBES).tolist() == cal.map().predict_many(PROBES).tolist()


@pytest.mark.sample(9)
@pytest.mark.parametrize("point", ["log-minimax", "brier-minimax", "self-consistent"])
@pytest.mark.parametrize("scale", [Probability(), Probability(decreasing=True), Interval(-1.0, 0.75)], ids=repr)
def test_each_fold_may_have_a_score_of_its_own(point, scale):
    rng = np.random.default_rng(1)
    scores, y = rng.random((300, 3)), rng.random(300) < 0.4
    cal = CrossVennAbers(point, folds=3, scale=scale)
    assert (
        run(cal.map().to_onnx(folds=True), None, "probability", scores=scores).tolist()
        == cal.map().predict_many(scores).tolist()
    )
    cal.learn_many(scores[:, 0], y)
    found = cal.map().to_onnx(folds=True)
    p = run(found, None, "probability", scores=scores)
    assert p.shape == (300,)
    np.testing.assert_allclose(p, cal.map().predict_many(scores), rtol=0.0, atol=1e-12)
    bad = np.array([[0.5, np.nan, 0.5], [0.5, 0.5, np.inf], [0.5, 0.5, 0.5]])
    assert np.isnan(run(found, None, "probability", scores=bad)).tolist() == [True, True, False]
    single = scores.astype(np.float32)
    want = cal.map().predict_many(single.astype(np.float64))
    np.testing.assert_allclose(
        run(cal.map().to_onnx("float", folds=True), None, "probability", scores=single), want, atol=1e-12
    )


def test_a_map_without_folds_has_no_scores_of_folds():
    with pytest.raises(InputError, match="folds=True is for maps of K folds"):
        Platt().map().to_onnx(folds=True)
    with pytest.raises(InputError, match="give one column"):
        CrossVennAbers(folds=2).map().to_sql(["a", "b"])


@pytest.mark.sample(4)
@pytest.mark.parametrize("opset", [9, 12, 13, 21])
def test_every_kind_needs_no_more_than_the_oldest_opset(opset):
    """LightGBM models are exported at opset 9."""
    scores, y = realistic(seed=6, size=300, a=1.0, b=2.0)
    for method in ONE_OF_EACH_KIND:
        cal = REGISTRY[method]()
        cal.learn_many(scores, y)
        model = cal.map().to_onnx()
        model.opset_import[0].version = opset
        np.testing.assert_allclose(run(model, PROBES), cal.map().predict_many(PROBES), rtol=0.0, atol=1e-12)


def test_other_types_of_scores_are_refused():
    with pytest.raises(InputError, match="'double' or 'float'"):
        Platt().map().to_onnx("half")


def test_without_onnx_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ModuleNotFoundError, match=r"\.\[onnx\]"):
        Platt().map().to_onnx()


# -- behind a model ----------------------------------------------------------------------------------------------


def clicks(classes=2):
    """Features, labels and features to predict."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(1_200, 4)).astype(np.float32)
    y = np.digitize(x[:, 0] + 0.5 * x[:, 1] + rng.normal(size=1_200), np.linspace(-0.5, 0.5, classes - 1))
    return x[:600], y[:600], x[600:], y[600:]


def fitted(method, p, y):
    method.learn_many(p, y)
    return method.map()


@pytest.mark.full
@pytest.mark.sample(9)
@pytest.mark.parametrize("zipmap", [True, False])
@pytest.mark.parametrize("method", [Auto, VennAbers, Platt, Isotonic])
def test_a_map_is_joined_behind_a_model_of_scikit_learn(method, zipmap):
    pytest.importorskip("skl2onnx")
    from skl2onnx import to_onnx
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x, y, later, outcomes = clicks()
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(x, y)
    exported = to_onnx(model, x[:1], options={"zipmap": zipmap}, target_opset=17)
    output = exported.graph.output[1].name
    given = {exported.graph.input[0].name: later}
    plain = to_onnx(model, x[:1], options={"zipmap": False}, target_opset=17)
    raw = run(plain, None, plain.graph.output[1].name, **given)[:, 1].astype(np.float64)
    found = fitted(method(), raw, outcomes)
    joined = append_to_onnx(exported, output, found)
    np.testing.assert_allclose(run(joined, None, "calibrated", **given), found.predict_many(raw), rtol=0.0, atol=1e-12)
    assert [one.name for one in joined.graph.output] == [*(one.name for one in exported.graph.output), "calibrated"]
    second = append_to_onnx(joined, output, Platt().map(), name="other", positive=0)
    np.testing.assert_allclose(run(second, None, "other", **given), 1.0 - raw, rtol=0.0, atol=1e-6)


def exported_from(package, x, y):
    """Return a classifier of gradient boosting, and its model as onnxmltools converts it."""
    boosting = pytest.importorskip(package, reason='pip install ".[test]" installs LightGBM and XGBoost')
    converters = pytest.importorskip("onnxmltools")
    from onnxmltools.convert.common.data_types import FloatTensorType

    kinds = [("x", FloatTensorType([None, 4]))]
    if package == "lightgbm":
        model = boosting.LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1).fit(x, y)
        return model, converters.convert_lightgbm(model, initial_types=kinds, target_opset=15, zipmap=False)
    model = boosting.XGBClassifier(n_estimators=20, max_depth=3, n_jobs=1).fit(x, y)
    return model, converters.convert_xgboost(model, initial_types=kinds, target_opset=15)


@pytest.mark.full
@pytest.mark.sample(2)
@pytest.mark.parametrize("package", ["lightgbm", "xgboost"])
def test_a_map_is_joined_behind_gradient_boosting(package):
    x, y, later, outcomes = clicks()
    model, exported = exported_from(package, x, y)
    raw = run(exported, None, "probabilities", x=later)[:, 1].astype(np.float64)
    np.testing.assert_allclose(raw, model.predict_proba(later)[:, 1], atol=1e-6)
    found = fitted(Auto(), raw, outcomes)
    joined = append_to_onnx(exported, "probabilities", found)
    np.testing.assert_allclose(run(joined, None, "calibrated", x=later), found.predict_many(raw), rtol=0.0, atol=1e-12)


def test_the_positive_class_of_several_is_named():
    to_onnx = pytest.importorskip("skl2onnx").to_onnx
    from sklearn.linear_model import LogisticRegression

    x, y, later, _ = clicks(classes=3)
    model = LogisticRegression().fit(x, np.array(["a", "b", "c"])[y])
    exported = to_onnx(model, x[:1], target_opset=17)
    output, given = exported.graph.output[1].name, {exported.graph.input[0].name: later}
    with pytest.raises(InputError, match=r"3 classes; give positive, one of \['a', 'b', 'c'\]"):
        append_to_onnx(exported, output, Platt().map())
    with pytest.raises(InputError, match="'d' is no class"):
        append_to_onnx(exported, output, Platt().map(), positive="d")
    joined = append_to_onnx(exported, output, Platt().map(), positive="b")
    want = Platt().map().predict_many(model.predict_proba(later.astype(np.float64))[:, 1])
    np.testing.assert_allclose(run(joined, None, "calibrated", **given), want, atol=1e-5)


def test_a_model_that_cannot_be_joined_is_refused():
    first = Platt().map().to_onnx()
    with pytest.raises(InputError, match="'p' is no output of the model; it has probability"):
        append_to_onnx(first, "p", Platt().map())
    with pytest.raises(InputError, match="'score' is a name of the model already"):
        append_to_onnx(first, "probability", Platt().map(), name="score")
    with pytest.raises(InputError, match="give a map of one score"):
        append_to_onnx(first, "probability", Platt())
    first.opset_import[0].version = 8
    with pytest.raises(InputError, match="opset 8"):
        append_to_onnx(first, "probability", Platt().map())


def test_one_score_a_row_needs_no_class():
    first = Platt().map().to_onnx("float", column=True)
    scores = PROBES.astype(np.float32)[:, None]
    twice = run(append_to_onnx(first, "probability", Isotonic().map()), scores, "calibrated")
    assert twice.shape == PROBES.shape
    np.testing.assert_allclose(twice, scores[:, 0], atol=1e-6)


# -- several classes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [TemperatureScaling, VectorScaling, OnlineVectorScaling, Dirichlet])
def test_a_map_of_several_classes_is_the_same(method):
    rng = np.random.default_rng(1)
    P = rng.dirichlet([1.0, 2.0, 0.5], 300)
    cal = method()
    cal.learn_many(P, np.array(["a", "b", "c"])[rng.integers(0, 3, 300)], labels=["a", "b", "c"])
    edges = np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [1e-9, 1.0 - 1e-9, 0.0], [0.33, 0.33, 0.339]])
    for labels in (["a", "b", "c"], ["c", "new", "a"]):
        scores = np.vstack((P, edges))
        found = run(cal.map().to_onnx(labels), None, "probabilities", scores=scores)
        np.testing.assert_allclose(found, cal.map().predict_many(scores, labels=labels), rtol=0.0, atol=1e-12)
    bad = np.array([[np.nan, 0.5, 0.5], [-0.1, 0.6, 0.5], [0.5, 0.4, 0.0], [0.2, 0.3, 0.5]])
    found = run(cal.map().to_onnx(["a", "b", "c"]), None, "probabilities", scores=bad)
    assert np.isnan(found).all(axis=1).tolist() == [True, True, True, False]
    single = P.astype(np.float32)
    found = run(cal.map().to_onnx(["a", "b", "c"], "float"), None, "probabilities", scores=single)
    want = cal.map().predict_many(single.astype(np.float64), labels=["a", "b", "c"])
    np.testing.assert_allclose(found, want, rtol=0.0, atol=1e-12)


def test_a_map_of_several_classes_that_is_no_softmax_is_refused():
    with pytest.raises(CapabilityError, match="cannot be written as ONNX"):
        OneVsRest("platt").map().to_onnx(["a", "b"])
