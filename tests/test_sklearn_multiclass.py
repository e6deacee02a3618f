"""The scikit-learn edge with more than two classes."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_digits, load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.metaestimators import available_if
from test_sklearn import DENSE, assert_checked

from streamcal import Decay, InputError, Isotonic, VennAbers
from streamcal.live import Multicalibrated, Segmented
from streamcal.multiclass import (
    MulticlassVennAbers,
    OneVsRest,
    OnlineVectorScaling,
    TemperatureScaling,
    VectorScaling,
)
from streamcal.sklearn import CrossCalibratedClassifier, StreamingCalibratedClassifier

X, Y = load_iris(return_X_y=True)
ORDER = np.random.default_rng(0).permutation(len(Y))
X, Y = X[ORDER], np.array(["setosa", "versicolor", "virginica"])[Y[ORDER]]
LABELS = ["setosa", "versicolor", "virginica"]


@pytest.mark.full
@pytest.mark.parametrize(
    ("estimator", "calibrator", "expected_failures"),
    [
        (GaussianNB(), "temperature", []),
        pytest.param(GaussianNB(), "auto", [DENSE], marks=pytest.mark.full),
        pytest.param(LinearSVC(dual=False, tol=1e-12), VectorScaling(), [], marks=pytest.mark.full),
        pytest.param(LogisticRegression(), OneVsRest("isotonic"), [], marks=pytest.mark.full),
    ],
    ids=str,
)
def test_check_estimator(estimator, calibrator, expected_failures):
    assert_checked(StreamingCalibratedClassifier(estimator, calibrator), expected_failures)


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ("auto", OnlineVectorScaling()),
        ("temperature", TemperatureScaling()),
        ("venn-abers", MulticlassVennAbers()),
        ("isotonic", OneVsRest(Isotonic())),
        (Isotonic(), OneVsRest(Isotonic())),
        (VectorScaling(), VectorScaling()),
    ],
    ids=str,
)
def test_what_a_calibrator_stands_for(given, made):
    model = StreamingCalibratedClassifier(GaussianNB(), given).fit(X, Y)
    assert repr(model.calibrator_) == repr(made)
    assert model.classes_.tolist() == LABELS


@pytest.mark.parametrize("method", ["vector-scaling", TemperatureScaling()], ids=str)
def test_methods_of_many_classes_work_for_two(method):
    two = Y != "setosa"
    model = StreamingCalibratedClassifier(GaussianNB(), method).fit(X[two], Y[two])
    assert model.predict_proba(X[:7]).shape == (7, 2)
    assert log_loss(Y[two], model.predict_proba(X[two])) < 0.3


@pytest.mark.parametrize("calibrator", ["temperature", "isotonic"])
def test_fit_is_out_of_fold(calibrator):
    weights = np.random.default_rng(1).integers(1, 4, len(Y)).astype(float)
    model = StreamingCalibratedClassifier(GaussianNB(), calibrator).fit(X, Y, weights)
    by_hand = TemperatureScaling() if calibrator == "temperature" else OneVsRest("isotonic")
    held_out = cross_val_predict(
        GaussianNB(), X, Y, cv=StratifiedKFold(5), method="predict_proba", params={"sample_weight": weights}
    )
    by_hand.learn_many(held_out, Y, weights, labels=LABELS)
    base = GaussianNB().fit(X, Y, weights)
    expected = by_hand.predict_many(base.predict_proba(X), labels=LABELS)
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=0.0, atol=1e-9)
    assert np.array_equal(model.predict(X), np.array(LABELS)[expected.argmax(axis=1)])


def test_partial_fit_predicts_then_learns_chunk_by_chunk():
    model, base, by_hand = StreamingCalibratedClassifier(GaussianNB()), GaussianNB(), OnlineVectorScaling()
    for start in range(0, len(Y), 30):
        rows = slice(start, start + 30)
        model.partial_fit(X[rows], Y[rows], classes=LABELS[::-1])
        if start:
            by_hand.learn_many(base.predict_proba(X[rows]), Y[rows], labels=LABELS)
        base.partial_fit(X[rows], Y[rows], classes=LABELS)
    assert model.calibrator_.n == len(Y) - 30
    assert np.array_equal(model.predict_proba(X), by_hand.predict_many(base.predict_proba(X), labels=LABELS))
    with pytest.raises(ValueError, match=r"y holds the classes \['fox'\], which are not in"):
        model.partial_fit(X[:1], ["fox"])


@pytest.mark.full
@pytest.mark.parametrize(
    ("base", "method"), [(LogisticRegression(max_iter=5_000), "temperature"), (LinearSVC(), "temperature")], ids=str
)
def test_digits_as_scikit_learn_calibrates_them(base, method):
    """The temperature of the same out-of-fold scores; ours learns 1,000 of 1,797 handwritten digits."""
    X, y = load_digits(return_X_y=True)
    peer = CalibratedClassifierCV(base, method=method, ensemble=False).fit(X[:1_000], y[:1_000])
    model = StreamingCalibratedClassifier(base, method).fit(X[:1_000], y[:1_000])
    losses = [log_loss(y[1_000:], one.predict_proba(X[1_000:])) for one in (peer, model)]
    assert losses[1] < losses[0] + 0.02, losses


@pytest.mark.full
def test_digits_by_isotonic_regression_of_each_class_as_scikit_learn_does():
    """Its curves have lines between the points, ours have steps: Brier scores, since both give probabilities of 0."""
    X, y = load_digits(return_X_y=True)
    losses = []
    for model in (
        GaussianNB(),
        CalibratedClassifierCV(GaussianNB(), method="isotonic", ensemble=False),
        StreamingCalibratedClassifier(GaussianNB(), "isotonic"),
    ):
        p = model.fit(X[:1_000], y[:1_000]).predict_proba(X[1_000:])
        losses.append(((p - np.eye(10)[y[1_000:]]) ** 2).sum(axis=1).mean())
    raw, peer, ours = losses
    assert ours < raw - 0.05
    assert abs(ours - peer) < 0.01


def test_margins_are_taken_by_their_softmax():
    logistic = LogisticRegression(max_iter=1_000)
    model = StreamingCalibratedClassifier(logistic, "temperature").fit(X, Y)

    class Margins(LogisticRegression):
        @available_if(lambda self: False)
        def predict_proba(self, X): ...

    of_margins = StreamingCalibratedClassifier(Margins(max_iter=1_000), "temperature").fit(X, Y)
    np.testing.assert_allclose(of_margins.predict_proba(X), model.predict_proba(X), rtol=0.0, atol=1e-9)
    two = Y != "setosa"
    for names in (Y, Y[two]):
        rows = X if names is Y else X[two]
        fitted = [
            StreamingCalibratedClassifier(one, TemperatureScaling()).fit(rows, names)
            for one in (logistic, Margins(max_iter=1_000))
        ]
        np.testing.assert_allclose(fitted[0].predict_proba(rows), fitted[1].predict_proba(rows), rtol=0.0, atol=1e-9)
    X4, y4 = np.vstack([X, X + 9.0]), np.concatenate([Y, np.where(Y == "setosa", "fox", Y)])
    with pytest.raises(InputError, match=r"gives 6 margins for 4 classes; .*decision_function_shape='ovr'"):
        StreamingCalibratedClassifier(SVC(decision_function_shape="ovo"), "vector-scaling").fit(X4, y4)


class Backwards(ClassifierMixin, BaseEstimator):
    """A base whose classes are in the reverse order, fitted with or without weights."""

    def fit(self, X, y, sample_weight=None):
        self.base_ = GaussianNB().fit(X, y)
        self.weighted_ = sample_weight is not None
        self.classes_, self.n_features_in_ = self.base_.classes_[::-1], np.shape(X)[1]
        return self

    def predict_proba(self, X):
        return self.base_.predict_proba(X)[:, ::-1]


@pytest.mark.parametrize("frozen", [True, False])
def test_classes_of_the_base_may_be_in_another_order(frozen):
    bases = [one.fit(X, Y) if frozen else one for one in (Backwards(), GaussianNB())]
    found = [
        StreamingCalibratedClassifier(FrozenEstimator(base) if frozen else base, "vector-scaling")
        .fit(X, Y)
        .predict_proba(X)
        for base in bases
    ]
    np.testing.assert_allclose(found[0], found[1], rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("asked", [True, False])
def test_a_base_gets_the_weights_that_it_requests(asked):
    weights = np.random.default_rng(2).random(len(Y)) + 0.5
    with config_context(enable_metadata_routing=True):
        model = StreamingCalibratedClassifier(Backwards().set_fit_request(sample_weight=asked), "temperature")
        model.fit(X, Y, sample_weight=weights)
    assert model.estimator_.weighted_ == asked
    assert model.calibrator_.n == pytest.approx(weights.sum())


def test_a_class_of_two_rows_may_be_missing_in_a_training_part():
    rows = np.concatenate([np.flatnonzero(Y != "virginica"), np.flatnonzero(Y == "virginica")[:1]])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The least populated class", UserWarning)  # of scikit-learn's splitter
        warnings.filterwarnings("ignore", "divide by zero", RuntimeWarning)  # of GaussianNB, whose prior is 0
        model = StreamingCalibratedClassifier(GaussianNB(), "temperature").fit(X[rows], Y[rows])
    p = model.predict_proba(X)
    assert p.shape == (150, 3)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


def test_intervals_of_each_class():
    model = StreamingCalibratedClassifier(GaussianNB(), "venn-abers").fit(X, Y)
    found = model.predict_interval(X[:5])
    assert found.shape == (5, 3, 2)
    assert (found[..., 0] <= found[..., 1]).all()
    one = StreamingCalibratedClassifier(GaussianNB(), VennAbers()).fit(X, Y)  # each class against the rest
    assert not hasattr(one, "predict_interval")


def test_parameters_of_the_calibrator_are_searched():
    model = StreamingCalibratedClassifier(GaussianNB(), VectorScaling())
    search = GridSearchCV(model, {"calibrator__prior": [0.1, 10.0]}, scoring="neg_log_loss", cv=3).fit(X, Y)
    assert search.best_params_["calibrator__prior"] in (0.1, 10.0)


@pytest.mark.parametrize(
    ("calibrator", "message"),
    [
        ("isotnic", "did you mean 'isotonic'"),
        (3, "is not a streamcal calibrator"),
        (OneVsRest(Isotonic(forgetting=Decay(9.0, by="time"))), "forgets by time"),
        (VectorScaling(forgetting=Decay(9.0, by="time")), "forgets by time"),
    ],
    ids=str,
)
def test_calibrators_that_do_not_fit(calibrator, message):
    with pytest.raises(InputError, match=message):
        StreamingCalibratedClassifier(GaussianNB(), calibrator).fit(X, Y)


def test_cross_venn_abers_is_binary_and_other_labels_are_no_classes():
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        CrossCalibratedClassifier(GaussianNB()).fit(X, Y)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        StreamingCalibratedClassifier(GaussianNB()).fit(X, X[:, 0])


@pytest.mark.parametrize("kind", [Segmented, Multicalibrated])
def test_what_reads_columns_calibrates_two_classes(kind):
    frame = pd.DataFrame(X, columns=list("abcd")).assign(site="news")
    base = make_pipeline(make_column_transformer(("passthrough", list("abcd"))), GaussianNB())
    with pytest.raises(InputError, match="calibrates one score, and y has 3 classes; give a method of"):
        StreamingCalibratedClassifier(base, kind("platt", by=["site"])).fit(frame, Y)


def test_rows_sorted_by_their_labels_are_fitted_as_in_random_order():
    order = np.argsort(Y, kind="stable")
    model = StreamingCalibratedClassifier(GaussianNB())
    sorted_rows = log_loss(Y, model.fit(X[order], Y[order]).predict_proba(X))
    rows = np.random.default_rng(0).permutation(len(Y))
    assert sorted_rows < log_loss(Y, model.fit(X[rows], Y[rows]).predict_proba(X)) + 0.05
