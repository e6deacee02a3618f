"""The River edge of many classes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from river import base, checks, datasets, linear_model, multiclass, naive_bayes, preprocessing, tree

from streamcal import InputError, Platt, Window
from streamcal.multiclass import METHODS, MulticlassVennAbers, OneVsRest, OnlineVectorScaling, VectorScaling
from streamcal.river import CalibratedMulticlassClassifier

#: Not those that solve: River predicts each of thousands of rows, a millisecond or two a solve.
CALIBRATORS = {
    "online": lambda: OnlineVectorScaling(),
    "one-vs-rest": lambda: OneVsRest("ops"),
    "venn-abers ovo": lambda: MulticlassVennAbers("ovo", resolution=256),
}
BASES = {
    "naive Bayes": lambda: preprocessing.StandardScaler() | naive_bayes.GaussianNB(),
    "tree": lambda: tree.HoeffdingTreeClassifier(),
    "one-vs-rest": lambda: (
        preprocessing.StandardScaler() | multiclass.OneVsRestClassifier(linear_model.LogisticRegression())
    ),
}
ROWS = list(datasets.ImageSegments().take(150))


@pytest.mark.full
@pytest.mark.parametrize("calibrator", CALIBRATORS)
def test_all_of_rivers_checks(calibrator):
    model = CalibratedMulticlassClassifier(BASES["tree"](), CALIBRATORS[calibrator]())
    assert model._multiclass
    assert not model._unit_test_skips()
    for check in checks.yield_checks(model):
        check(model.clone())


@pytest.mark.full
@pytest.mark.parametrize("params", list(CalibratedMulticlassClassifier._unit_test_params()))
def test_rivers_checks_on_its_own_test_parameters(params):
    checks.check_estimator(CalibratedMulticlassClassifier(**params))


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", BASES)
def test_the_scores_are_what_the_base_says_before_it_learns(name):
    model, twin, calibrator = CalibratedMulticlassClassifier(BASES[name]()), BASES[name](), OnlineVectorScaling()
    for x, y in ROWS:
        scores = twin.predict_proba_one(x)
        assert model.predict_proba_one(x) == (calibrator.predict_one(scores) if scores else {})
        model.learn_one(x, y)
        if scores:
            calibrator.learn_one(scores, y)
        twin.learn_one(x, y)
    assert set(model.predict_proba_one(ROWS[0][0])) == {y for _, y in ROWS}
    assert pickle.loads(pickle.dumps(model)).predict_proba_one(ROWS[0][0]) == model.predict_proba_one(ROWS[0][0])


@pytest.mark.sample(6)
@pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
def test_every_method_works_in_it(method):
    model = CalibratedMulticlassClassifier(BASES["naive Bayes"](), method())
    for x, y in ROWS:
        model.learn_one(x, y)
    assert model.calibrator.n == len(ROWS) - 1  # before the first row the base has no opinion
    p = model.predict_proba_one(ROWS[0][0])
    assert sum(p.values()) == pytest.approx(1.0)
    assert model.predict_one(ROWS[0][0]) == max(p, key=p.get)


class Weighted(base.Classifier):
    """A base that takes weights, and remembers what it was given."""

    def __init__(self):
        self.learned = []

    def learn_one(self, x, y, w=1.0):
        self.learned.append((y, w))

    def predict_proba_one(self, x):
        return {"a": 0.5, "b": 0.5}


def test_weights_and_times_go_where_they_are_taken():
    calibrator = VectorScaling(forgetting=Window(10.0, by="time"))
    model = CalibratedMulticlassClassifier(Weighted(), calibrator)
    model.learn_one({}, "a", w=2.0, t=0.0)
    model.learn_one({}, "b", w=3.0, t=20.0)
    assert model.classifier.learned == [("a", 2.0), ("b", 3.0)]
    assert model.calibrator.n == 3.0
    assert calibrator.n == 0.0, "the calibrator given is not changed"
    for y, w, t in (("c", -1.0, 20.0), ("c", 1.0, None), (None, 1.0, 20.0)):
        with pytest.raises(InputError):
            model.learn_one({}, y, w=w, t=t)
    assert len(model.classifier.learned) == 2


def test_a_weight_is_checked_where_the_base_has_no_scores_too():
    model = CalibratedMulticlassClassifier(naive_bayes.GaussianNB())
    with pytest.raises(InputError, match="weight"):
        model.learn_one({"a": 1.0}, "grass", w=float("nan"))
    assert not model.classifier.class_counts


@pytest.mark.parametrize("zero", [0.0, 0, np.float64(0.0)])
@pytest.mark.parametrize("method", [None, *METHODS])
def test_zeros_for_all_classes_are_no_scores(method, zero):
    """As in the binary wrapper: every class is as likely as another, and nothing is learned of it but by the base."""
    model = CalibratedMulticlassClassifier(Weighted(), method)
    model.classifier.predict_proba_one = lambda x: {"a": zero, "b": zero, "c": zero}
    model.learn_one({}, "a")
    assert model.calibrator.n == 0.0
    assert model.predict_proba_one({}) == dict.fromkeys("abc", 1.0 / 3.0)
    for y, w in (("a", -1.0), (None, 1.0)):
        with pytest.raises(InputError):
            model.learn_one({}, y, w=w)


def test_what_is_no_classifier_or_calibrator_is_refused():
    with pytest.raises(InputError, match="River classifier"):
        CalibratedMulticlassClassifier(linear_model.LinearRegression())
    with pytest.raises(InputError, match="many classes"):
        CalibratedMulticlassClassifier(naive_bayes.GaussianNB(), Platt())


@pytest.mark.sample(3)
@pytest.mark.parametrize("make", CALIBRATORS.values(), ids=CALIBRATORS)
def test_late_labels_are_those_of_what_was_issued(make):
    """As by a calibrator and a base, taught by hand; labels in another order, some of which never come."""
    model, base, by_hand = (
        CalibratedMulticlassClassifier(BASES["naive Bayes"](), make()),
        BASES["naive Bayes"](),
        make(),
    )
    waiting = []
    for k, (x, y) in enumerate(ROWS):
        scores, issued = base.predict_proba_one(x), model.issue(x)
        own = by_hand.issue(scores) if any(scores.values()) else None
        assert issued.p == model.predict_proba_one(x)
        assert own is None or issued.p == own.p
        waiting.append((x, y, issued, own))
        if k > 20:
            x, y, issued, own = waiting.pop(k % 5)
            y = None if k % 7 == 0 else y
            model.settle(pickle.loads(pickle.dumps(issued)), y, w=2.0)
            if own is not None:
                by_hand.settle(own, y, w=2.0)
            if y is not None:
                base.learn_one(x, y)
    assert model.calibrator.state_dict() == by_hand.state_dict()
    assert by_hand.n > 100.0
    assert model.classifier.predict_proba_one(ROWS[0][0]) == base.predict_proba_one(ROWS[0][0])
