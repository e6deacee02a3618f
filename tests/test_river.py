"""The River edge: classifiers that are calibrated as they learn, and the Brier metric."""

from __future__ import annotations

import gc
import pickle
from datetime import timedelta

import numpy as np
import pytest
from laws.binary import SMALL
from river import (
    base,
    checks,
    compose,
    datasets,
    ensemble,
    evaluate,
    feature_extraction,
    linear_model,
    metrics,
    naive_bayes,
    preprocessing,
    stats,
    tree,
    utils,
)

from streamcal import (
    REGISTRY,
    Auto,
    Bernstein,
    CrossVennAbers,
    Decay,
    Identity,
    InputError,
    Interval,
    MonotonePolynomial,
    Platt,
    Protected,
    VennAbers,
    Window,
)
from streamcal.calibrators.registry import DEFAULT_METHOD
from streamcal.live import Multicalibrated, Segmented
from streamcal.river import (
    Brier,
    CalibratedClassifier,
    CalibratedMulticlassClassifier,
    CrossCalibratedClassifier,
    ScoreCalibrator,
)
from streamcal.river.bases import takes

#: Methods that solve for milliseconds.
SLOW = {"monotone-polynomial", "near-isotonic", "enir", "linear-trend", "elite"}
BASES = {
    "logistic regression": lambda: linear_model.LogisticRegression(),
    "naive Bayes": lambda: naive_bayes.GaussianNB(),
    "Hoeffding tree": lambda: tree.HoeffdingTreeClassifier(),
    "pipeline": lambda: preprocessing.StandardScaler() | linear_model.LogisticRegression(),
}
ROWS = list(datasets.Phishing().take(300))


class Fixed(base.Classifier):
    """A base that always answers the same, and remembers what it learned."""

    def __init__(self, answer):
        self.answer = answer
        self.learned = []

    def learn_one(self, x, y):
        self.learned.append(y)

    def predict_proba_one(self, x):
        return self.answer


class Echo(base.Classifier):
    """A base whose probability is a feature."""

    def learn_one(self, x, y):
        pass

    def predict_proba_one(self, x):
        return {True: x["score"]}


def taught(model, rows=ROWS):
    for x, y in rows:
        model.learn_one(x, y)
    return model


# -- River's own checks ------------------------------------------------------------------------------------------------


#: A method over the base with the harshest scores, which are often exactly 0 or 1, every method over that base, and
#: three over every base.
FIRST = ("naive Bayes", "venn-abers")
MORE = [("naive Bayes", method) for method in REGISTRY]
MORE += [(name, method) for name in BASES for method in ("platt", "venn-abers", "auto")]
CHECKED = [pytest.param(*FIRST, marks=pytest.mark.in_every_share)]
CHECKED += [pytest.param(*row) for row in dict.fromkeys(MORE) if row != FIRST]


@pytest.fixture
def frozen():
    """River's checks collect garbage dozens of times, each time among all objects that other tests have left."""
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.full
@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize(("name", "method"), CHECKED)
def test_all_of_rivers_checks(name, method):
    # River predicts before it learns each of thousands of rows: methods with a slow solve refresh now and then.
    params = {"refresh_every": 16} if method in SLOW else {}
    model = CalibratedClassifier(BASES[name](), REGISTRY[method](**params, **SMALL.get(method, {})))
    assert not model._unit_test_skips()
    for check in checks.yield_checks(model):
        check(model.clone())


@pytest.mark.full
@pytest.mark.parametrize("params", list(CalibratedClassifier._unit_test_params()))
def test_rivers_checks_on_its_own_test_parameters(params):
    checks.check_estimator(CalibratedClassifier(**params))


@pytest.mark.usefixtures("frozen")
def test_rivers_checks_of_a_score_calibrator():
    # Skips three checks that take away the feature with the score: see ScoreCalibrator._unit_test_skips.
    checks.check_estimator(ScoreCalibrator(Platt(), on="ip_in_url"))


# -- what it promises --------------------------------------------------------------------------------------------------


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", BASES)
def test_the_score_is_what_the_base_says_before_it_learns(name):
    model, twin, calibrator = CalibratedClassifier(BASES[name](), VennAbers()), BASES[name](), VennAbers()
    for x, y in ROWS:
        scores = twin.predict_proba_one(x)
        expected = calibrator.predict_one(scores.get(True, 0.0)) if scores else 0.5
        assert model.predict_proba_one(x) == {False: 1.0 - expected, True: expected}
        model.learn_one(x, y)
        if scores:
            calibrator.learn_one(scores.get(True, 0.0), y)
        twin.learn_one(x, y)


def test_identity_passes_p_true_on_and_not_the_top_label():
    assert CalibratedClassifier(Fixed({False: 0.9, True: 0.1}), Identity()).predict_proba_one({})[True] == 0.1


def test_a_base_without_an_opinion():
    model = CalibratedClassifier(Fixed({}), Platt())
    model.learn_one({}, True)
    assert model.predict_proba_one({}) == {False: 0.5, True: 0.5}
    assert model.predict_one({}) is False
    assert (model.calibrator.n, model.classifier.learned) == (0.0, [True])
    with pytest.raises(InputError, match="not binary"):
        model.learn_one({}, "click")
    with pytest.raises(InputError, match="weight"):
        model.learn_one({}, True, w=float("nan"))
    assert model.classifier.learned == [True]


@pytest.mark.parametrize("answer", [{False: 0.3, True: 0.7}, {0: 0.3, 1: 0.7}, {np.False_: 0.3, np.True_: 0.7}])
def test_the_base_may_name_its_labels_in_three_ways(answer):
    assert CalibratedClassifier(Fixed(answer), Identity()).predict_proba_one({})[True] == 0.7


def test_a_label_the_base_has_not_met_has_probability_zero():
    assert CalibratedClassifier(Fixed({False: 1.0}), Identity()).predict_proba_one({})[True] == 0.0


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", BASES)
def test_bool_int_and_numpy_labels_are_the_same(name):
    models = [
        taught(CalibratedClassifier(BASES[name](), Platt()), [(x, kind(y)) for x, y in ROWS])
        for kind in (bool, int, np.bool_)
    ]
    for x, _ in ROWS[:20]:
        p = [model.predict_proba_one(x) for model in models]
        assert p[0] == p[1] == p[2]
        assert [type(label) for label in p[1]] == [bool, bool]


@pytest.mark.sample(8)
@pytest.mark.parametrize("method", [name for name, method in REGISTRY.items() if method.monotone])
def test_a_monotone_map_never_flips_two_scores(method):
    model = taught(CalibratedClassifier(BASES["pipeline"](), REGISTRY[method]()))
    pairs = sorted(
        (model.classifier.predict_proba_one(x)[True], model.predict_proba_one(x)[True]) for x, _ in datasets.Phishing()
    )
    calibrated = np.array([p for _, p in pairs])
    # The polynomials are summed in floating point: 21 terms in [0, 1] carry some 1e-15.
    assert np.diff(calibrated).min() >= (-1e-14 if method in (Bernstein.name, MonotonePolynomial.name) else 0.0)
    assert calibrated[-1] > calibrated[0]


def test_the_given_calibrator_is_cloned():
    given = Platt()
    given.learn_one(0.9, False)
    before = given.state_dict()
    model = CalibratedClassifier(BASES["naive Bayes"](), given)
    assert model.calibrator.n == 0.0
    taught(model)
    assert given.state_dict() == before
    assert CalibratedClassifier(classifier=naive_bayes.GaussianNB()).calibrator.name == DEFAULT_METHOD == Auto.name
    assert ScoreCalibrator().calibrator.name == DEFAULT_METHOD


def test_it_is_binary_over_a_multiclass_base():
    model = CalibratedClassifier(tree.HoeffdingTreeClassifier(), Platt())
    assert tree.HoeffdingTreeClassifier()._multiclass
    assert model._multiclass is False


# -- weights, times and other keywords ---------------------------------------------------------------------------------


class TimedBase(Fixed):
    def learn_one(self, x, y, t=None):
        self.learned.append((y, t))


@pytest.mark.parametrize(
    ("estimator", "w", "t"),
    [
        (linear_model.LogisticRegression(), True, False),
        (tree.HoeffdingTreeClassifier(), True, False),
        (naive_bayes.GaussianNB(), False, False),
        (preprocessing.StandardScaler() | linear_model.LogisticRegression(), True, False),
        (preprocessing.StandardScaler() | naive_bayes.GaussianNB(), False, False),
        (ensemble.ADWINBaggingClassifier(linear_model.LogisticRegression()), True, False),
        (ensemble.ADWINBaggingClassifier(naive_bayes.GaussianNB()), False, False),
        (
            (compose.Select("a") + feature_extraction.Agg(on="a", by="b", how=stats.Mean())) | naive_bayes.GaussianNB(),
            False,
            True,
        ),
        (CalibratedClassifier(naive_bayes.GaussianNB()), True, True),
        (preprocessing.TargetStandardScaler(linear_model.LinearRegression()), False, False),
        (preprocessing.PredClipper(linear_model.LinearRegression(), 0.0, 1.0), True, False),
    ],
    ids=str,
)
def test_which_bases_take_a_weight_and_a_time(estimator, w, t):
    assert (takes(estimator, "w"), takes(estimator, "t")) == (w, t)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", BASES)
def test_a_weight_reaches_the_calibrator_and_a_base_that_takes_it(name):
    model, twin = CalibratedClassifier(BASES[name](), Platt()), BASES[name]()
    weights = {"w": 2.5} if takes(twin, "w") else {}
    for x, y in ROWS:
        model.learn_one(x, y, w=2.5)
        twin.learn_one(x, y, **weights)
    # Before its first label naive Bayes and the tree answer {}: no score to learn.
    assert model.calibrator.n == 2.5 * (len(ROWS) - (name in ("naive Bayes", "Hoeffding tree")))
    for x, _ in ROWS[:20]:
        assert model.classifier.predict_proba_one(x) == twin.predict_proba_one(x)


def test_a_time_goes_where_it_is_asked_for():
    timed = CalibratedClassifier(TimedBase({True: 0.3}), Platt(forgetting=Window(timedelta(days=1))))
    timed.learn_one({}, True, t=0.0)
    timed.learn_one({}, False, t=86_401.0)
    assert timed.classifier.learned == [(True, 0.0), (False, 86_401.0)]
    assert timed.calibrator.n == 1.0
    now, later = (timed.predict_proba_one({}, t=t)[True] for t in (86_401.0, 200_000.0))
    assert later == pytest.approx(0.3)  # the window is empty by then, and the score read through its log-odds
    assert now != later


def test_progressive_val_score_hands_times_and_weights_on():
    def stream():
        return ((x, y, {"t": float(i), "w": 1.0 + i % 3}) for i, (x, y) in enumerate(ROWS))

    model = CalibratedClassifier(BASES["pipeline"](), Platt(forgetting=Decay(100.0, by="time")))
    twin = model.clone()
    metric = evaluate.progressive_val_score(stream(), model, Brier())
    losses = []
    for x, y, extra in stream():
        losses.append((twin.predict_proba_one(x, t=extra["t"])[True] - y) ** 2)
        twin.learn_one(x, y, **extra)
    assert metric.get() == pytest.approx(np.mean(losses), rel=1e-12)  # one sum in two orders
    assert model.calibrator.state_dict() == twin.calibrator.state_dict()


FEATURES = ["ip_in_url"]
SELF_PACED = {
    "auto": Auto,
    "protected": lambda: Protected(delay=3),
    "segments": lambda: Segmented("auto", FEATURES),
    "groups": lambda: Multicalibrated("auto", FEATURES),
    "groups of segments": lambda: Multicalibrated(Segmented("auto", FEATURES), FEATURES),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("make", SELF_PACED.values(), ids=SELF_PACED)
def test_further_predictions_change_nothing_that_is_learned(make):
    """A label belongs to the prediction of its own `learn_one`, also where scores repeat and others were asked for."""
    quiet, asked = (CalibratedClassifier(Echo(), make()) for _ in range(2))
    rows = [({"score": (0.2, 0.5, 0.7)[k * k % 3], "ip_in_url": k % 2}, k % 4 == 0) for k in range(300)]
    for k, (x, y) in enumerate(rows):
        quiet.learn_one(x, y)
        for other, _ in rows[k + 1 : k + 4]:
            asked.predict_proba_one(other)
        asked.learn_one(x, y)
    assert asked.calibrator.state_dict() == quiet.calibrator.state_dict()


@pytest.mark.sample(2)
@pytest.mark.parametrize("make", [Auto, Platt, lambda: Segmented("auto", by=["ip_in_url"])])
def test_late_labels_are_those_of_what_was_issued(make):
    """As by a calibrator and a base, taught by hand; labels in another order, some of which never come."""
    model, base, by_hand = CalibratedClassifier(BASES["pipeline"](), make()), BASES["pipeline"](), make()
    waiting = []
    for k, (x, y) in enumerate(ROWS):
        keys = {"keys": x} if isinstance(by_hand, Segmented) else {}
        waiting.append((x, y, model.issue(x), by_hand.issue(base.predict_proba_one(x)[True], **keys)))
        assert waiting[-1][2].p == model.predict_proba_one(x)[True] == waiting[-1][3].p
        if k > 20:
            x, y, issued, own = waiting.pop(k % 5)
            y = None if k % 7 == 0 else y
            model.settle(pickle.loads(pickle.dumps(issued)), y, w=2.0)
            by_hand.settle(own, y, w=2.0)
            if y is not None:
                base.learn_one(x, y, w=2.0)
    assert model.calibrator.state_dict() == by_hand.state_dict()
    assert model.classifier.predict_proba_one(ROWS[0][0]) == base.predict_proba_one(ROWS[0][0])


def test_a_score_among_the_features_is_calibrated_by_segment():
    model, by_hand = ScoreCalibrator(Segmented("ops", by=["site"]), on="pctr"), Segmented("ops", by=["site"])
    for k in range(60):
        x = {"pctr": 0.2 + k % 5 / 10, "site": f"s{k % 2}"}
        assert model.predict_proba_one(x)[True] == by_hand.predict_one(x["pctr"], keys=x)
        model.learn_one(x, k % 3 == 0)
        by_hand.learn_one(x["pctr"], k % 3 == 0, keys=x)
    assert model.calibrator.state_dict() == by_hand.state_dict()


@pytest.mark.parametrize("id", [None, "user"])
def test_late_labels_of_cross_fitted_clones_are_those_of_what_was_issued(id):
    """As by clones and a calibrator, taught by hand; labels in another order, some of which never come."""
    model = CrossCalibratedClassifier(BASES["pipeline"](), CrossVennAbers(folds=3), id=id)
    clones, by_hand = [BASES["pipeline"]() for _ in range(3)], CrossVennAbers(folds=3)
    waiting, learned = [], 0
    for k, (x, y) in enumerate(ROWS[:300]):
        x = {**x, "user": f"u{k % 20}"} if id else x
        seen = {name: value for name, value in x.items() if name != "user"}
        scores = [clone.predict_proba_one(seen)[True] for clone in clones]
        issued = model.issue(x)
        assert issued.p == model.predict_proba_one(x)[True] == by_hand.predict_one(scores)
        waiting.append((x, seen, y, scores, issued))
        if k > 20:
            x, seen, y, scores, issued = waiting.pop(k % 5)
            y = None if k % 7 == 0 else y
            model.settle(pickle.loads(pickle.dumps(issued)), y, w=2.0)
            if y is not None:
                fold = model._fold_of(x) if id else learned % 3
                by_hand.learn_one(scores[fold], y, 2.0, fold=fold)
                for clone in clones[:fold] + clones[fold + 1 :]:
                    clone.learn_one(seen, y, w=2.0)
                learned += 1
    assert model.calibrator.state_dict() == by_hand.state_dict()
    assert [one.predict_proba_one(seen) for one in model.classifiers] == [one.predict_proba_one(seen) for one in clones]


def test_cross_fitted_clones_without_scores_settle_and_an_x_without_a_group_is_not_issued():
    model = CrossCalibratedClassifier(Fixed({}), CrossVennAbers(folds=3), id="user")
    issued = model.issue({"user": "a"})
    assert issued.p == 0.5
    model.settle(issued, True)
    assert model.calibrator.n == 0.0
    with pytest.raises(InputError, match="no feature 'user'"):
        model.issue({"usr": "a"})


@pytest.mark.parametrize("make", SELF_PACED.values(), ids=SELF_PACED)
def test_late_labels_of_a_score_among_the_features_are_those_of_what_was_issued(make):
    model, by_hand, waiting = ScoreCalibrator(make(), on="pctr"), make(), []
    for k, (features, y) in enumerate(ROWS[:200]):
        x = {**features, "pctr": 0.2 + k % 5 / 10}
        keys = {"keys": x} if by_hand.fields else {}
        issued = model.issue(x)
        waiting.append((issued, by_hand.issue(x["pctr"], **keys)))
        assert issued.p == waiting[-1][1].p
        if k > 20:
            issued, own = waiting.pop(k % 5)
            for wrapped, one in ((model, pickle.loads(pickle.dumps(issued))), (by_hand, own)):
                wrapped.settle(one, None if k % 7 == 0 else y)
    assert model.calibrator.state_dict() == by_hand.state_dict()


@pytest.mark.parametrize("make", SELF_PACED.values(), ids=SELF_PACED)
def test_a_weighted_label_of_now_is_that_of_the_calibrator_alone(make):
    model, by_hand = CalibratedClassifier(Fixed({True: 0.3}), make()), make()
    for k, (x, y) in enumerate(ROWS[:100]):
        w = (0.0, 1.0, 4.0)[k % 3]
        model.learn_one(x, y, w=w)
        by_hand.learn_one(0.3, y, w, keys=x if by_hand.fields else None)
    assert model.calibrator.state_dict() == by_hand.state_dict()


def test_a_prediction_without_a_score_is_settled_by_the_base_alone():
    model = CalibratedClassifier(Fixed({}), Platt())
    first, second = model.issue({}), model.issue({})
    model.settle(first, True)
    model.settle(second, None)
    assert (first.p, model.calibrator.n, model.classifier.learned) == (0.5, 0.0, [True])


def test_a_bad_call_leaves_base_and_calibrator_as_they_were():
    model = taught(CalibratedClassifier(BASES["pipeline"](), Platt(forgetting=Window(1e9, by="time"))), [])
    for i, (x, y) in enumerate(ROWS[:50]):
        model.learn_one(x, y, t=i)
    before = pickle.dumps(model)
    for bad in ({"y": 2}, {"y": True, "w": -1.0, "t": 99}, {"y": True}):  # a label, a weight, a time that is missing
        with pytest.raises(InputError):
            model.learn_one(ROWS[0][0], **bad)
    assert pickle.dumps(model) == before


def test_an_unknown_keyword_reaches_the_base_which_raises():
    with pytest.raises(TypeError, match="wieght"):
        CalibratedClassifier(naive_bayes.GaussianNB(), Platt()).learn_one({"a": 1.0}, True, wieght=2.0)


# -- what it refuses ---------------------------------------------------------------------------------------------------


def test_it_refuses_what_is_no_classifier_or_calibrator():
    with pytest.raises(InputError, match="not a River classifier"):
        CalibratedClassifier(linear_model.LinearRegression(), Platt())
    with pytest.raises(InputError, match="not a River classifier"):
        CalibratedClassifier(preprocessing.StandardScaler() | preprocessing.MinMaxScaler(), Platt())
    with pytest.raises(InputError, match="is the class Platt: give an object"):
        CalibratedClassifier(naive_bayes.GaussianNB(), Platt)
    with pytest.raises(InputError, match="not a streamcal calibrator"):
        ScoreCalibrator(0.5)


@pytest.mark.parametrize("wrapper", [CalibratedClassifier, CalibratedMulticlassClassifier])
def test_a_base_without_probabilities_is_told_so(wrapper):
    labels_only = ensemble.VotingClassifier([naive_bayes.GaussianNB(), tree.HoeffdingTreeClassifier()])
    model = wrapper(preprocessing.StandardScaler() | labels_only)
    for call in (lambda: model.predict_proba_one({"a": 1.0}), lambda: model.learn_one({"a": 1.0}, True)):
        with pytest.raises(InputError, match="predicts probabilities"):
            call()


def test_it_refuses_other_classes_and_forgives_rounding_only():
    with pytest.raises(InputError, match="'no', 'yes'"):
        CalibratedClassifier(Fixed({"no": 0.5, "yes": 0.5}), Platt()).predict_proba_one({})
    for p, inside in ((np.nextafter(1.0, 2.0), 1.0), (-1e-17, 0.0)):
        assert CalibratedClassifier(Fixed({True: p}), Identity()).predict_proba_one({})[True] == inside
    for p in (1.001, -0.001, float("nan")):
        with pytest.raises(InputError):
            CalibratedClassifier(Fixed({True: p}), Identity()).predict_proba_one({})


# -- life inside River -------------------------------------------------------------------------------------------------


def test_clone_pickle_repr_and_drawing():
    model = taught(CalibratedClassifier(BASES["pipeline"](), Platt(forgetting=Window(100))))
    fresh = model.clone()
    assert (fresh.calibrator.n, fresh.calibrator.params()) == (0.0, model.calibrator.params())
    assert fresh.predict_proba_one(ROWS[0][0])[True] == 0.5
    assert model.clone({"calibrator": Identity()}).calibrator.name == "identity"
    back = pickle.loads(pickle.dumps(model))
    back.learn_one(*ROWS[0])
    model.learn_one(*ROWS[0])
    assert back.predict_proba_one(ROWS[1][0]) == model.predict_proba_one(ROWS[1][0])
    assert "Platt(scale=Logit(" in repr(model)
    assert str(model).startswith("CalibratedClassifier(StandardScaler | LogisticRegression, ")
    assert "StandardScaler" in model._repr_html_()


def test_it_may_be_the_last_step_of_a_pipeline():
    inside = taught(preprocessing.StandardScaler() | CalibratedClassifier(naive_bayes.GaussianNB(), Platt()))
    assert inside["CalibratedClassifier"].calibrator.n == len(ROWS) - 1
    p = inside.predict_proba_one(ROWS[0][0])[True]
    assert f"True: {p:.5f}" in inside.debug_one(ROWS[0][0])


def test_score_calibrator_reads_its_feature():
    model, calibrator = ScoreCalibrator(Platt(scale=Interval(-4, 4)), on="margin"), Platt(scale=Interval(-4, 4))
    for margin, y in [(-2.0, False), (3.0, True), (0.5, False), (1.0, True)]:
        model.learn_one({"margin": margin, "site": "news"}, y, w=2.0)
        calibrator.learn_one(margin, y, w=2.0)
    assert model.predict_proba_one({"margin": 0.7})[True] == calibrator.predict_one(0.7)
    assert model.predict_one({"margin": 3.0}) is True
    with pytest.raises(InputError, match="it has 'site'"):
        model.predict_proba_one({"site": "news"})


# -- cross-fitted ------------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize("name", BASES)
def test_all_of_rivers_checks_of_a_cross_calibrated_classifier(name):
    # On its default grid: exact, two scores that differ in their last digit, as they do when the features come in
    # another order, are no tie, and an interval beside a score is not the interval at it.
    model = CrossCalibratedClassifier(BASES[name]())
    assert not model._unit_test_skips()
    for check in checks.yield_checks(model):
        check(model.clone())


@pytest.mark.full
@pytest.mark.parametrize("params", list(CrossCalibratedClassifier._unit_test_params()))
def test_rivers_checks_of_a_cross_calibrated_classifier_on_its_own_test_parameters(params):
    checks.check_estimator(CrossCalibratedClassifier(**params))


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", BASES)
def test_each_fold_is_calibrated_by_the_clone_that_never_learns_it(name):
    model, calibrator = CrossCalibratedClassifier(BASES[name](), CrossVennAbers(folds=3)), CrossVennAbers(folds=3)
    twins = [BASES[name]() for _ in range(3)]
    for i, (x, y) in enumerate(ROWS):
        answers = [twin.predict_proba_one(x) for twin in twins]
        scores = [answer.get(True, 0.0) for answer in answers]
        expected = calibrator.predict_one(scores) if all(answers) else 0.5
        assert model.predict_proba_one(x) == {False: 1.0 - expected, True: expected}
        model.learn_one(x, y)
        if answers[i % 3]:
            calibrator.learn_one(scores[i % 3], y, fold=i % 3)
        for fold, twin in enumerate(twins):
            if fold != i % 3:
                twin.learn_one(x, y)


def test_the_id_says_the_fold_and_is_hidden_from_the_clones():
    class Seeing(Fixed):
        def learn_one(self, x, y):
            self.learned.append(dict(x))

    model = CrossCalibratedClassifier(Seeing({True: 0.3}), CrossVennAbers(folds=4), id="user")
    for k in range(200):
        model.learn_one({"user": k % 20, "a": k % 20}, k % 3 == 0)
    for user in range(20):
        knowing = [sum(x["a"] == user for x in clone.learned) for clone in model.classifiers]
        assert sorted(knowing) == [0, 10, 10, 10], "a user is in one fold, at every visit"
    assert all("user" not in x for clone in model.classifiers for x in clone.learned)
    assert {model._fold_of({"user": user}) for user in range(20)} == {0, 1, 2, 3}
    assert [model._fold_of({"user": user}) for user in ("ann", 7, "7", np.int64(7))] == [1, 3, 3, 3]  # on every machine
    assert model.predict_proba_one({"a": 1}) == model.predict_proba_one({"a": 1, "user": 3})
    before = pickle.dumps(model.calibrator)
    with pytest.raises(InputError, match="no feature 'user'"):
        model.learn_one({"a": 1}, True)
    assert pickle.dumps(model.calibrator) == before


def test_half_until_every_clone_has_an_opinion():
    model = CrossCalibratedClassifier(naive_bayes.GaussianNB(), CrossVennAbers(folds=2))
    answers = []
    for x, y in ROWS[:3]:
        answers.append(model.predict_proba_one(x)[True])
        model.learn_one(x, y)
    assert answers[:2] == [0.5, 0.5]  # the first observation is of fold 0, whose clone does not learn it
    assert model.calibrator.n == 2.0
    with pytest.raises(InputError, match="not binary"):
        CrossCalibratedClassifier(naive_bayes.GaussianNB()).learn_one({"a": 1.0}, "click")
    with pytest.raises(InputError, match="weight"):
        CrossCalibratedClassifier(naive_bayes.GaussianNB()).learn_one({"a": 1.0}, True, w=-1.0)


def test_weights_times_and_bad_calls_of_a_cross_calibrated_classifier():
    window = CrossVennAbers(folds=2, forgetting=Window(timedelta(days=1)))
    model = CrossCalibratedClassifier(TimedBase({True: 0.3}), window)
    for i in range(4):
        model.learn_one({}, i % 2, w=2.0, t=float(i))
    model.learn_one({}, True, w=2.0, t=86_401.5)
    assert model.calibrator.n == 6.0
    assert model.classifiers[0].learned == [(1, 1.0), (1, 3.0)]
    assert model.classifiers[1].learned == [(0, 0.0), (0, 2.0), (True, 86_401.5)]
    assert model.predict_proba_one({}, t=1e9)[True] == 0.5
    before = pickle.dumps(model)
    for bad in ({"y": 2, "t": 1.0}, {"y": True, "w": -1.0, "t": 99}, {"y": True}):
        with pytest.raises(InputError):
            model.learn_one({}, **bad)
    assert pickle.dumps(model) == before
    weighted = taught(CrossCalibratedClassifier(BASES["pipeline"]()), [])
    for x, y in ROWS[:30]:
        weighted.learn_one(x, y, w=2.5)
    assert weighted.calibrator.n == 75.0


def test_what_a_cross_calibrated_classifier_refuses_and_keeps():
    for calibrator in (VennAbers(), CrossVennAbers(folds=1), CrossVennAbers):
        with pytest.raises(InputError, match="has no folds"):
            CrossCalibratedClassifier(naive_bayes.GaussianNB(), calibrator)
    with pytest.raises(InputError, match="not a River classifier"):
        CrossCalibratedClassifier(linear_model.LinearRegression())
    given = BASES["pipeline"]()
    model = taught(CrossCalibratedClassifier(given, CrossVennAbers("self-consistent", 3)))
    assert given["LogisticRegression"].weights == {}
    fresh = model.clone()
    assert (fresh.calibrator.n, fresh.calibrator.params()) == (0.0, model.calibrator.params())
    back = pickle.loads(pickle.dumps(model))
    for twin in (back, model):
        twin.learn_one(*ROWS[0])
    assert back.predict_proba_one(ROWS[1][0]) == model.predict_proba_one(ROWS[1][0])
    assert str(model).startswith("CrossCalibratedClassifier(StandardScaler | LogisticRegression, CrossVennAbers(")


# -- the Brier metric --------------------------------------------------------------------------------------------------


def test_brier_is_the_mean_squared_error():
    rng = np.random.default_rng(0)
    p, y, w = rng.random(500), rng.random(500) < 0.3, rng.random(500) + 0.1
    metric = Brier()
    for p_i, y_i, w_i in zip(p, y, w, strict=True):
        metric.update(y_i, {False: 1 - p_i, True: p_i}, w_i)
    assert metric.get() == pytest.approx(np.average((p - y) ** 2, weights=w), rel=1e-12)  # sums in another order


def test_brier_rolls():
    rng = np.random.default_rng(1)
    p, y = rng.random(300), rng.random(300) < 0.5
    rolling = utils.Rolling(Brier, window_size=50)
    for i in range(300):
        rolling.update(bool(y[i]), p[i])
        seen = slice(max(0, i - 49), i + 1)
        # 300 additions and subtractions of numbers below 1 leave at most 300 * 1e-16 * 50.
        assert rolling.get() == pytest.approx(np.mean((p[seen] - y[seen]) ** 2), abs=2e-12)
    metric = Brier()
    metric.update(True, 0.3)
    metric.revert(True, 0.3)
    assert metric.get() == 0.0


def test_brier_keeps_rivers_conventions():
    good, bad = Brier(), Brier()
    assert good.get() == 0.0
    good.update(True, 0.9)
    bad.update(True, 0.2)
    assert not good.bigger_is_better
    assert not good.requires_labels
    assert good.is_better_than(bad)
    assert str(bad) == "Brier: 0.64"
    assert bad.clone().get() == 0.0
    clicks = Brier(pos_val="click").clone()
    clicks.update("click", {"click": 0.5, "none": 0.5})
    assert clicks.get() == 0.25
    both = evaluate.progressive_val_score(iter(ROWS), BASES["pipeline"](), metrics.LogLoss() + Brier())
    assert both[1].get() < 0.25  # a model that knows nothing says one half
    rolling = utils.Rolling(Brier, window_size=100)
    evaluate.progressive_val_score(iter(ROWS), CalibratedClassifier(BASES["pipeline"](), Platt()), rolling)
    assert 0.0 < rolling.get() < 0.25
