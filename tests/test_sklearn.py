"""The scikit-learn edge: a calibrated classifier that is fitted as a stream."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression, SGDClassifier
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    StratifiedKFold,
    TimeSeriesSplit,
    cross_val_predict,
    cross_val_score,
)
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.metaestimators import available_if

from streamcal import (
    Bernstein,
    CrossVennAbers,
    Decay,
    EmpiricalCDF,
    Forever,
    Identity,
    InputError,
    Interval,
    Isotonic,
    OnlinePlatt,
    Platt,
    VennAbers,
    Window,
)
from streamcal.calibrators.registry import DEFAULT_METHOD
from streamcal.live import Multicalibrated, Segmented
from streamcal.multiclass import OneVsRest
from streamcal.sklearn import CrossCalibratedClassifier, StreamingCalibratedClassifier, _may_be_in_order_of_time

X, Y = make_classification(600, n_features=6, flip_y=0.2, random_state=0)
W = np.random.default_rng(0).integers(0, 4, len(Y)).astype(float)
SVC = LinearSVC(dual=False, tol=1e-12)
SGD = SGDClassifier(loss="log_loss", random_state=0)

SEQUENTIAL = (
    "a sequential fit depends on the order of the rows and on where chunks end: a row of weight 2 is scored once, "
    "before the base has learned it; of two equal rows the second is scored by a base that may know the first"
)
DENSE, SPARSE = (f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse"))


def fitted(estimator, calibrator, **options):
    return StreamingCalibratedClassifier(estimator, calibrator, **options).fit(X, Y)


@pytest.mark.parametrize(
    ("estimator", "calibrator", "expected_failures"),
    [
        pytest.param(GaussianNB(), VennAbers(), [], marks=[pytest.mark.full, pytest.mark.in_every_share]),
        pytest.param(GaussianNB(), OnlinePlatt(), [DENSE], marks=pytest.mark.full),
        pytest.param(SGD, Isotonic(), [DENSE, SPARSE], marks=pytest.mark.full),
        pytest.param(
            SGDClassifier(random_state=0),
            Platt(scale=Interval(-50, 50)),
            [DENSE, SPARSE],
            marks=pytest.mark.full,
        ),
        # Cross-fitting an additive calibrator does not depend on the order: these pass every check.
        pytest.param(LogisticRegression(), Platt(), [], marks=pytest.mark.full),
        pytest.param(SVC, Bernstein(scale=Interval(-3, 3)), [], marks=pytest.mark.full),
    ],
    ids=lambda value: type(value).__name__,
)
def test_check_estimator(estimator, calibrator, expected_failures):
    assert_checked(StreamingCalibratedClassifier(estimator, calibrator), expected_failures)


def assert_checked(model, expected_failures):
    """Every check of scikit-learn passes but for these, without a warning of Python or NumPy."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.filterwarnings("ignore", ".* has no partial_fit", UserWarning)  # right: some checks call it
        expected = dict.fromkeys(expected_failures, SEQUENTIAL)
        results = check_estimator(model, expected_failed_checks=expected, on_skip=None)
    status = {
        kind: {r["check_name"] for r in results if r["status"] == kind} for kind in ("passed", "xfail", "skipped")
    }
    assert status["xfail"] == set(expected_failures)
    # The one that is skipped needs the environment variable SCIPY_ARRAY_API, for arrays that are not NumPy's.
    assert status["skipped"] <= {"check_array_api_input"}
    assert len(status["passed"]) > 50


# -- bases with partial_fit --------------------------------------------------------------------------------------------


def test_partial_fit_predicts_then_learns_chunk_by_chunk():
    model, base, calibrator = StreamingCalibratedClassifier(GaussianNB(), VennAbers()), GaussianNB(), VennAbers()
    for start in range(0, len(Y), 50):
        rows = slice(start, start + 50)
        model.partial_fit(X[rows], Y[rows], classes=[0, 1])
        if start:
            calibrator.learn_many(base.predict_proba(X[rows])[:, 1], Y[rows])
        base.partial_fit(X[rows], Y[rows], classes=[0, 1])
    expected = calibrator.predict_many(base.predict_proba(X)[:, 1])
    assert np.array_equal(model.predict_proba(X)[:, 1], expected)
    assert model.calibrator_.n == len(Y) - 50
    assert np.array_equal(model.predict(X), (expected > 0.5).astype(int))


def test_fit_is_out_of_fold_and_partial_fit_goes_on_from_it():
    """Scores of a base that has seen a part of the rows are not those of the base that is served."""
    model = fitted(GaussianNB(), Platt())
    peer = CalibratedClassifierCV(GaussianNB(), method="sigmoid", ensemble=False).fit(X, Y)
    base, calibrator = GaussianNB().fit(X, Y), Platt()
    calibrator.learn_many(cross_val_predict(GaussianNB(), X, Y, method="predict_proba")[:, 1], Y)
    expected = calibrator.predict_many(base.predict_proba(X)[:, 1])
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], expected, rtol=0.0, atol=1e-12)
    assert abs(log_loss(Y, model.predict_proba(X)) - log_loss(Y, peer.predict_proba(X))) < 0.02  # a sigmoid of p itself
    model.partial_fit(X[:50], Y[:50])
    calibrator.learn_many(base.predict_proba(X[:50])[:, 1], Y[:50])
    base.partial_fit(X[:50], Y[:50])
    expected = calibrator.predict_many(base.predict_proba(X)[:, 1])
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], expected, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("calibrator", ["auto", "platt", "isotonic", "venn-abers"])
def test_names_take_margins(calibrator):
    """Sigmoids of margins, as in scikit-learn; the default, a mixture for probabilities, is one of them then."""
    model = fitted(SVC, calibrator)
    margins = SVC.fit(X, Y).decision_function(X)
    assert isinstance(model.calibrator_, Platt) == (calibrator in ("auto", "platt"))
    assert model.calibrator_.scale == Interval()
    assert brier_score_loss(Y, model.predict_proba(X)[:, 1]) < Y.var() - 0.02
    order = np.argsort(margins)
    assert (np.diff(model.predict_proba(X)[order, 1]) >= -1e-9).all()


def test_weights_reach_calibrator_and_base_and_weight_zero_is_no_row():
    rows, splits = W > 0, list(KFold(5).split(X))
    place = np.cumsum(rows) - 1  # of a row among those of weight above 0
    kept = [tuple(place[part[rows[part]]] for part in split) for split in splits]
    model = StreamingCalibratedClassifier(GaussianNB(), Platt(), cv=splits).fit(X, Y, W)
    without = StreamingCalibratedClassifier(GaussianNB(), Platt(), cv=kept).fit(X[rows], Y[rows], W[rows])
    unweighted = StreamingCalibratedClassifier(GaussianNB(), Platt(), cv=kept).fit(X[rows], Y[rows])
    assert np.array_equal(model.predict_proba(X), without.predict_proba(X))
    assert model.calibrator_.n == pytest.approx(W[rows].sum())
    assert not np.array_equal(without.estimator_.theta_, unweighted.estimator_.theta_)
    with pytest.raises(ValueError, match="non-zero"):
        model.fit(X, Y, np.zeros(len(Y)))


def test_without_a_calibrator_it_is_the_default_of_the_race():
    assert type(StreamingCalibratedClassifier(GaussianNB()).fit(X, Y).calibrator_).name == DEFAULT_METHOD == "auto"
    copies = CrossCalibratedClassifier(GaussianNB()).fit(X, Y)
    assert (copies.calibrator_.name, len(copies.estimators_)) == ("cross-venn-abers", 5)


# -- bases without -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "method", "calibrator"),
    [
        (LogisticRegression(), "predict_proba", OnlinePlatt()),
        (SVC, "decision_function", Platt(scale=Interval(), resolution=None)),
        (SVC, "decision_function", Isotonic(scale=EmpiricalCDF.from_scores([-2.0, 0.0, 2.0]))),
    ],
)
def test_other_bases_are_cross_fitted(estimator, method, calibrator):
    folds = StratifiedKFold(4)
    model = fitted(estimator, calibrator, cv=folds)
    scores = cross_val_predict(estimator, X, Y, cv=folds, method=method)
    calibrator.learn_many(scores[:, 1] if method == "predict_proba" else scores, Y)
    final = getattr(clone(estimator).fit(X, Y), method)(X)
    expected = calibrator.predict_many(final[:, 1] if method == "predict_proba" else final)
    assert np.array_equal(model.predict_proba(X)[:, 1], expected)


def test_rows_in_no_test_part_do_not_reach_the_calibrator():
    assert fitted(LogisticRegression(), Platt(), cv=TimeSeriesSplit(5)).calibrator_.n == 500.0


@pytest.mark.parametrize("wrapper", [StreamingCalibratedClassifier, CrossCalibratedClassifier])
def test_a_test_part_may_have_no_row_with_a_weight(wrapper):
    """Unshuffled folds of rows of which the first half has weight 0."""
    weights = np.repeat([0.0, 1.0], 300)
    model = wrapper(LogisticRegression(), cv=KFold(5)).fit(X, Y, weights)
    assert model.calibrator_.n == 300.0


def test_partial_fit_of_a_cross_fitted_base_teaches_the_calibrator_alone():
    model = StreamingCalibratedClassifier(LogisticRegression(), Platt())
    with pytest.warns(UserWarning, match="LogisticRegression has no partial_fit: it is fitted once"):
        model.partial_fit(X[:300], Y[:300], classes=[0, 1])
    coefficients = model.estimator_.coef_.copy()
    assert np.array_equal(coefficients, LogisticRegression().fit(X[:300], Y[:300]).coef_)
    model.partial_fit(X[300:], Y[300:], sample_weight=W[300:])
    assert np.array_equal(model.estimator_.coef_, coefficients)
    assert model.calibrator_.n == 300.0 + W[300:].sum()


def test_a_base_without_weights_is_warned_about():
    with pytest.warns(UserWarning, match=r"KNeighbors.*no sample_weight"):
        model = StreamingCalibratedClassifier(KNeighborsClassifier(), Platt()).fit(X, Y, W)
    assert model.calibrator_.n == W.sum()


def test_a_frozen_base_only_scores():
    frozen = FrozenEstimator(clone(SGD).fit(X[:200], Y[:200]))
    before = frozen.coef_.copy()
    model = StreamingCalibratedClassifier(frozen, Platt()).fit(X, Y)
    model.partial_fit(X[:1], Y[:1])
    assert np.array_equal(frozen.coef_, before)
    assert model.calibrator_.n == 601.0
    calibrator = Platt()
    calibrator.learn_many(frozen.predict_proba(np.vstack((X, X[:1])))[:, 1], np.append(Y, Y[0]))
    # Sums added chunk by chunk, and one solver warm-started otherwise: rounding of a Newton solution.
    np.testing.assert_allclose(
        model.predict_proba(X)[:, 1], calibrator.predict_many(frozen.predict_proba(X)[:, 1]), rtol=1e-9
    )
    with pytest.raises(ValueError, match="fitted on the classes"):
        StreamingCalibratedClassifier(frozen, Platt()).fit(X, np.where(Y, "yes", "no"))


# -- cross-fitted copies -----------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.parametrize(
    ("estimator", "calibrator", "expected_failures"),
    [
        pytest.param(GaussianNB(), CrossVennAbers(folds=3), [], marks=pytest.mark.full),
        # On grids: weights and repeated rows give solutions that differ in last digits, and exact ties do not survive.
        (LogisticRegression(), CrossVennAbers(folds=3, resolution=256), []),
        pytest.param(
            *(SVC, CrossVennAbers("self-consistent", 3, scale=Interval(-3, 3), resolution=256), []),
            marks=pytest.mark.full,
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_check_estimator_of_cross_fitted_copies(estimator, calibrator, expected_failures):
    assert_checked(CrossCalibratedClassifier(estimator, calibrator), expected_failures)


@pytest.mark.parametrize(
    ("estimator", "method", "calibrator"),
    [
        (LogisticRegression(), "predict_proba", CrossVennAbers(folds=4)),
        (SVC, "decision_function", CrossVennAbers("brier-minimax", 4, scale=Interval())),
    ],
)
def test_copies_score_the_rows_they_were_not_fitted_on_and_all_predict(estimator, method, calibrator):
    folds, asked = StratifiedKFold(4), []
    model = CrossCalibratedClassifier(estimator, calibrator, cv=folds).fit(X, Y, W)
    for fold, (train, test) in enumerate(folds.split(X, Y)):
        train, test = train[W[train] > 0], test[W[test] > 0]
        copy = clone(estimator).fit(X[train], Y[train], W[train])
        found = getattr(copy, method)(np.vstack((X[test], X)))
        found = found[:, 1] if method == "predict_proba" else found
        calibrator.learn_many(found[: len(test)], Y[test], W[test], fold=fold)
        asked.append(found[len(test) :])
    expected = np.transpose(asked)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], calibrator.predict_many(expected), rtol=0.0, atol=1e-12)
    interval = np.transpose(calibrator.predict_interval_many(expected))
    np.testing.assert_allclose(model.predict_interval(X), interval, rtol=0.0, atol=1e-12)
    assert np.array_equal(model.predict(X), (model.predict_proba(X)[:, 1] > 0.5).astype(int))
    copies = [copy.coef_.copy() for copy in model.estimators_]
    with pytest.warns(UserWarning, match="no partial_fit"):
        model.partial_fit(X[:7], Y[:7])
    assert model.calibrator_.n == W.sum() + 7.0
    assert all(np.array_equal(copy.coef_, before) for copy, before in zip(model.estimators_, copies, strict=True))


def test_copies_with_partial_fit_learn_the_rows_of_the_other_folds():
    model = CrossCalibratedClassifier(GaussianNB(), CrossVennAbers(folds=3))
    by_hand, copies, calibrator = [GaussianNB() for _ in range(3)], [], CrossVennAbers(folds=3)
    folds = np.arange(len(Y)) % 3
    for start in range(0, len(Y), 50):
        rows = np.arange(start, start + 50)
        model.partial_fit(X[rows], Y[rows], classes=[0, 1])
        for fold, copy in enumerate(by_hand):
            own, others = rows[folds[rows] == fold], rows[folds[rows] != fold]
            if start:
                calibrator.learn_many(copy.predict_proba(X[own])[:, 1], Y[own], fold=fold)
            copy.partial_fit(X[others], Y[others], classes=[0, 1])
    copies = np.transpose([copy.predict_proba(X)[:, 1] for copy in by_hand])
    assert model.calibrator_.n == len(Y) - 50
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], calibrator.predict_many(copies), rtol=0.0, atol=1e-12)


def test_row_by_row_the_copy_that_has_learned_nothing_does_not_score():
    model = CrossCalibratedClassifier(SGD, CrossVennAbers(folds=2))
    for row in range(4):
        model.partial_fit(X[row : row + 1], Y[row : row + 1], classes=[0, 1])
    assert model.calibrator_.n == 3.0  # the second row is the first that the copy of its fold can score
    assert np.isfinite(model.predict_proba(X)).all()


@pytest.mark.parametrize(
    ("estimator", "calibrator", "options", "message"),
    [
        (LogisticRegression(), VennAbers(), {}, "has no folds"),
        (LogisticRegression(), CrossVennAbers(folds=1), {}, "has no folds"),
        (LogisticRegression(), CrossVennAbers(), {"cv": 3}, "gives 3 splits"),
        (FrozenEstimator(LogisticRegression()), CrossVennAbers(), {}, "cannot be cross-fitted"),
        (SVC, CrossVennAbers(), {}, "gives margins"),
        (GaussianNB(), CrossVennAbers(forgetting=Decay(10.0, by="time")), {}, "forgets by time"),
    ],
)
def test_what_cannot_be_cross_fitted(estimator, calibrator, options, message):
    with pytest.raises(InputError, match=message):
        CrossCalibratedClassifier(estimator, calibrator, **options).fit(X, Y)


def test_a_frozen_base_calibrated_on_its_training_rows_is_the_simplified_predictor():
    base = LogisticRegression().fit(X, Y)
    model = fitted(FrozenEstimator(base), VennAbers())
    calibrator = VennAbers()
    calibrator.learn_many(base.predict_proba(X)[:, 1], Y)
    assert np.array_equal(model.predict_proba(X)[:, 1], calibrator.predict_many(base.predict_proba(X)[:, 1]))


# -- life inside scikit-learn ------------------------------------------------------------------------------------------


def test_parameters_are_kept_and_never_changed():
    estimator, calibrator = GaussianNB(), Platt()
    model = fitted(estimator, calibrator)
    assert model.get_params(deep=False) == {
        "estimator": estimator,
        "calibrator": calibrator,
        "cv": None,
    }
    assert calibrator.n == 0.0
    assert not hasattr(estimator, "theta_")
    assert "calibrator=Platt(scale=Logit(" in repr(model)
    copy = clone(model)
    assert copy.calibrator is not calibrator
    assert copy.calibrator.params() == calibrator.params()
    with pytest.raises(NotFittedError):
        copy.predict(X)
    back = pickle.loads(pickle.dumps(model))
    assert np.array_equal(back.predict_proba(X), model.predict_proba(X))
    assert model.set_params(calibrator=Identity(), estimator__var_smoothing=0.1).calibrator.name == "identity"


def test_grid_search_over_calibrators():
    search = GridSearchCV(
        StreamingCalibratedClassifier(GaussianNB(), Identity()),
        {"calibrator": [Identity(), Isotonic(), Platt()], "cv": [2, 5]},
        scoring="neg_brier_score",
    )
    search.fit(X, Y)
    assert len(search.cv_results_["params"]) == 6
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_frames_strings_and_pipelines():
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "site": np.where(X[:, 2] > 0, "news", "shop")})
    columns = make_column_transformer((StandardScaler(), ["a", "b"]), (OneHotEncoder(), ["site"]))
    label = np.where(Y == 1, "yes", "no")
    model = StreamingCalibratedClassifier(make_pipeline(columns, LogisticRegression()), Isotonic()).fit(frame, label)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.feature_names_in_.tolist() == ["a", "b", "site"]
    assert model.n_features_in_ == 3
    assert np.array_equal(model.predict(frame) == "yes", model.predict_proba(frame)[:, 1] > 0.5)
    assert model.score(frame, label) > 0.7


FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "site": np.where(X[:, 2] > 0, "news", "shop"), "n": X[:, 3] > 0})
COLUMNS = make_column_transformer(("passthrough", ["a", "b"]))
KEYED = (Segmented("ops", by=["site"]), Multicalibrated(Segmented("ops", by=["n"]), by=["site", ("site", "n")]))


@pytest.mark.sample(2)
@pytest.mark.parametrize("calibrator", KEYED)
def test_calibrators_that_read_levels_take_the_columns_of_x(calibrator):
    """Cross-fitted, and on chunks, against the calibrator called by hand."""
    base = make_pipeline(COLUMNS, GaussianNB())
    model, by_hand = StreamingCalibratedClassifier(base, calibrator).fit(FRAME, Y), calibrator.clone()
    assert model.calibrator_.n == len(Y)
    assert clone(model).calibrator.same_parameters(calibrator)
    frozen = StreamingCalibratedClassifier(FrozenEstimator(model.estimator_), calibrator)
    for rows in (slice(0, 250), slice(250, 600)):
        chunk = FRAME[rows]
        frozen.partial_fit(chunk, Y[rows], classes=[0, 1], sample_weight=1.0 + W[rows])
        raw = model.estimator_.predict_proba(chunk)[:, 1]
        by_hand.learn_many(raw, Y[rows], 1.0 + W[rows], keys=chunk)
        expected = by_hand.predict_many(model.estimator_.predict_proba(FRAME)[:, 1], keys=FRAME)
        assert frozen.predict_proba(FRAME)[:, 1].tolist() == expected.tolist()
    assert not hasattr(model, "predict_interval")
    assert model.get_params()["calibrator__by"] == calibrator.by
    assert pickle.loads(pickle.dumps(frozen)).predict_proba(FRAME).tolist() == frozen.predict_proba(FRAME).tolist()


@pytest.mark.sample(3)
@pytest.mark.parametrize("frame", [X, FRAME[["a", "b"]], FRAME[["a", "site"]].rename(columns={"site": "place"})])
def test_a_field_that_is_no_column_is_an_error(frame):
    model = StreamingCalibratedClassifier(GaussianNB(), KEYED[0])
    for fit in (model.fit, lambda X, y: model.partial_fit(X, y, classes=[0, 1])):
        with pytest.raises(InputError, match=r"reads the columns \['site'\], and X has no 'site'; give a DataFrame"):
            fit(frame, Y)
    assert not hasattr(model, "classes_")
    fitted_before = StreamingCalibratedClassifier(make_pipeline(COLUMNS, GaussianNB()), KEYED[0]).fit(FRAME, Y)
    with pytest.raises(InputError, match="no 'site'"):
        fitted_before.predict_proba(frame)


def test_the_interval_where_the_calibrator_has_one():
    model = fitted(LogisticRegression(), VennAbers())
    lower, upper = model.predict_interval(X).T
    assert (lower < upper).all()
    assert np.array_equal(upper / (1.0 - lower + upper), model.predict_proba(X)[:, 1])
    assert not hasattr(fitted(LogisticRegression(), Platt()), "predict_interval")


# -- what it refuses ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("calibrator", [Platt(), OnlinePlatt(), Isotonic()])
def test_margins_need_a_scale_for_margins(calibrator):
    with pytest.raises(InputError, match=r"gives margins.*Interval\(lo, hi\)"):
        fitted(SVC, calibrator)


@pytest.mark.parametrize(
    ("estimator", "calibrator", "options", "message"),
    [
        (GaussianNB(), Platt, {}, "is the class Platt: give an object"),
        (GaussianNB(), Platt(forgetting=Decay(10.0, by="time")), {}, "forgets by time"),
        (LinearRegression(), Platt(), {}, "gives no scores"),
    ],
)
def test_bad_parameters(estimator, calibrator, options, message):
    with pytest.raises(InputError, match=message):
        fitted(estimator, calibrator, **options)


def test_bad_labels():
    model = StreamingCalibratedClassifier(GaussianNB(), Platt())
    with pytest.raises(ValueError, match="at least two classes are needed"):
        model.fit(X, np.ones(len(Y)))
    with pytest.raises(ValueError, match="classes must be passed"):
        model.partial_fit(X, Y)
    with pytest.raises(ValueError, match="which are not in"):
        model.partial_fit(X, Y + 1, classes=[0, 1])
    assert not hasattr(model, "classes_"), "a call that failed is no first call"
    model.partial_fit(X, Y, classes=[1, 0])
    with pytest.raises(ValueError, match="which are not in"):
        model.partial_fit(X, Y + 1)
    with pytest.raises(ValueError, match=r"classes=\[0, 2\] are not those of the first call, \[0, 1\]"):
        model.partial_fit(X, Y, classes=[0, 2])
    model.partial_fit(X, Y, classes=[0, 1])


def test_grid_search_over_a_parameter_of_the_calibrator():
    X, y = make_classification(200, random_state=0)
    model = StreamingCalibratedClassifier(GaussianNB(), Bernstein())
    search = GridSearchCV(
        model, {"calibrator__degree": [3, 7], "calibrator__forgetting": [Forever(), Window(50)]}, cv=2
    )
    search.fit(X, y)
    assert len(search.cv_results_["params"]) == 4
    fitted = search.best_estimator_.calibrator_
    assert fitted.degree == search.best_params_["calibrator__degree"]
    assert fitted.forgetting == search.best_params_["calibrator__forgetting"]
    assert model.calibrator.same_parameters(Bernstein())  # the one given stays as it is


def test_parameters_of_parameters_can_be_set():
    cal = Bernstein(forgetting=Window(100))
    assert cal.get_params()["forgetting__size"] == 100
    assert cal.get_params(deep=False) == cal.params()
    assert cal.set_params(degree=4, forgetting__size=20) is cal
    assert cal.same_parameters(Bernstein(4, forgetting=Window(20)))
    model = StreamingCalibratedClassifier(GaussianNB(), cal).set_params(calibrator__forgetting__size=10)
    assert model.calibrator.forgetting.size == 10
    ovr = OneVsRest(Bernstein()).set_params(calibrator__degree=5)
    assert ovr.calibrator.degree == 5
    ovr.learn_one({"a": 0.25, "b": 0.75}, "b")
    assert ovr.n == 1.0


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"degre": 4}, "no parameter 'degre'; its parameters are: degree"),
        ({"forgetting__half_life": 4}, "no parameter 'forgetting__half_life'"),
        ({"degree": -1}, "degree"),
    ],
)
def test_parameters_that_cannot_be_set_change_nothing(params, message):
    cal = Bernstein()
    with pytest.raises(InputError, match=message):
        cal.set_params(**params)
    assert cal.same_parameters(Bernstein())


def test_parameters_are_not_changed_under_what_was_learned():
    cal = Bernstein()
    cal.learn_many([0.25, 0.75], [0, 1])
    before = cal.state_dict()
    with pytest.raises(InputError, match="has learned"):
        cal.set_params(degree=4)
    assert cal.state_dict() == before
    assert clone(cal).set_params(degree=4).degree == 4
    assert clone(cal).n == 0.0


@pytest.mark.sample(6)
@pytest.mark.parametrize("base", [LogisticRegression(), FrozenEstimator(LogisticRegression().fit(X, Y)), GaussianNB()])
@pytest.mark.parametrize("calibrator", [DEFAULT_METHOD, "online-platt", VennAbers(forgetting=Window(100)), Platt()])
def test_rows_sorted_by_their_labels_are_fitted_as_in_random_order(base, calibrator):
    """All negatives and then all positives would look like a change that a calibrator has to follow."""
    random, by_label = np.random.default_rng(5).permutation(len(Y)), np.argsort(Y, kind="stable")
    model = StreamingCalibratedClassifier(base, calibrator)
    cases = [lambda rows: clone(model).fit(X[rows], Y[rows])]
    if not isinstance(base, FrozenEstimator) and not hasattr(base, "partial_fit"):
        cases.append(lambda rows: clone(model).partial_fit(X[rows], Y[rows], classes=[0, 1]))
    warnings.filterwarnings("ignore", "LogisticRegression has no partial_fit")
    for fitted in cases:
        right, found = fitted(random).predict_proba(X)[:, 1], fitted(by_label).predict_proba(X)[:, 1]
        assert log_loss(Y, found) < log_loss(Y, right) + 0.05
        assert found.mean() == pytest.approx(right.mean(), abs=0.05)
        np.testing.assert_array_equal(found, fitted(by_label).predict_proba(X)[:, 1])


def test_the_order_of_rows_is_kept_where_it_may_be_that_of_time():
    """Ten equal labels in a row are no sorted rows, and a change towards the end is followed."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=(2_000, 1))
    y = rng.random(2_000) < np.where(np.arange(2_000) < 1_000, 0.2, 0.6)
    model = StreamingCalibratedClassifier(LogisticRegression(), VennAbers(forgetting=Window(500)))
    assert model.fit(x, y).predict_proba(x)[:, 1].mean() > 0.5
    assert _may_be_in_order_of_time(np.repeat(Y[:60], 10))
    assert not _may_be_in_order_of_time(np.append(Y, np.zeros(200)))
    assert _may_be_in_order_of_time(np.array([0, 0, 0, 1, 1]))


def test_training_sets_of_a_split_by_class_are_fitted_as_in_random_order():
    """`StratifiedKFold` takes a third of each class in turn: what is left ends with rows of one class."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(6_000, 1)), rng.random(6_000) < 0.3
    model = StreamingCalibratedClassifier(GaussianNB(), "online-platt")
    scores = {"scoring": "neg_log_loss"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for cv in (StratifiedKFold(3), StratifiedKFold(3, shuffle=True, random_state=0)):
            assert cross_val_score(model, x, y, cv=cv, **scores).mean() > -0.63  # the entropy is 0.611


def test_a_frozen_base_of_other_classes_is_refused():
    base = FrozenEstimator(LogisticRegression().fit(X, Y))
    with pytest.raises(ValueError, match=r"classes \[0, 1\], not \['a', 'b'\]; they must be the same"):
        StreamingCalibratedClassifier(base).fit(X, np.where(Y, "b", "a"))


# -- metadata routing, and classes in another order ----------------------------------------------------------------


class Recorder(ClassifierMixin, BaseEstimator):
    """A base that says what its `fit` was given."""

    def fit(self, X, y, sample_weight=None, scale=None, each=None):
        self.classes_, self.n_features_in_ = np.unique(y), np.shape(X)[1]
        self.given_ = {"sample_weight": sample_weight, "scale": scale, "each": each}
        self.rows_ = np.asarray(X)[:, 0]
        return self

    def predict_proba(self, X):
        p = np.clip(np.asarray(X)[:, 0], 0.0, 1.0)
        return np.column_stack((1.0 - p, p))


@pytest.mark.parametrize("wrap", [StreamingCalibratedClassifier, CrossCalibratedClassifier])
@pytest.mark.parametrize("asked", [True, False])
def test_a_base_gets_the_weights_that_it_requests(wrap, asked):
    rng = np.random.default_rng(0)
    X, w = rng.random((200, 1)), rng.random(200) + 0.5
    y = rng.random(200) < X[:, 0]
    with config_context(enable_metadata_routing=True):
        model = wrap(Recorder().set_fit_request(sample_weight=asked)).fit(X, y, sample_weight=w)
    for base in getattr(model, "estimators_", None) or [model.estimator_]:
        weights = base.given_["sample_weight"]
        assert (weights is not None) == asked
        if asked:
            np.testing.assert_array_equal(weights, w[np.isin(X[:, 0], base.rows_)])
    assert model.calibrator_.n == pytest.approx(w.sum())


@pytest.mark.parametrize("routing", [True, False])
def test_groups_go_to_the_splitter_and_parameters_to_the_base(routing):
    rng = np.random.default_rng(1)
    X, groups = rng.random((210, 1)), np.arange(210) % 7
    y, each = rng.random(210) < X[:, 0], rng.random(210)
    with config_context(enable_metadata_routing=routing):
        base = Recorder().set_fit_request(scale=True, each=True) if routing else Recorder()
        model = StreamingCalibratedClassifier(base, "platt", cv=GroupKFold(7))
        model.fit(X, y, groups=groups, scale=3.0, each=each)
    assert model.estimator_.given_["scale"] == 3.0
    np.testing.assert_array_equal(model.estimator_.given_["each"], each)
    assert model.calibrator_.n == 210.0
    copies = CrossCalibratedClassifier(Recorder(), CrossVennAbers(folds=7), cv=GroupKFold(7)).fit(X, y, groups=groups)
    for copy in copies.estimators_:
        left_out = set(groups[~np.isin(X[:, 0], copy.rows_)])
        assert len(left_out) == 1, "a whole group"


class Backwards(ClassifierMixin, BaseEstimator):
    """A base whose classes are not sorted, with probabilities or with margins."""

    def __init__(self, margins=False):
        self.margins = margins

    def fit(self, X, y):
        self.classes_, self.n_features_in_ = np.unique(y)[::-1], np.shape(X)[1]
        return self

    @available_if(lambda self: not self.margins)
    def predict_proba(self, X):
        p = np.asarray(X)[:, 0]
        return np.column_stack((p, 1.0 - p))

    @available_if(lambda self: self.margins)
    def decision_function(self, X):
        return 1.0 - 2.0 * np.asarray(X)[:, 0]


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("margins", [True, False])
def test_classes_of_the_base_may_be_in_another_order(frozen, margins):
    rng = np.random.default_rng(2)
    X = rng.random((600, 1))
    y = np.where(rng.random(600) < X[:, 0], "yes", "no")
    base = FrozenEstimator(Backwards(margins).fit(X, y)) if frozen else Backwards(margins)
    calibrator = Platt(scale=Interval(-1.0, 1.0)) if margins else Platt()
    model = StreamingCalibratedClassifier(base, calibrator).fit(X, y)
    assert model.classes_.tolist() == ["no", "yes"]
    assert 0.7 < model.predict_proba([[0.9]])[0, 1] < 1.0


def test_probabilities_of_one_dimension_say_what_to_return():
    class OneColumn(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_ = np.unique(y)
            return self

        def predict_proba(self, X):
            return np.full(len(X), 0.5)

    X, y = np.zeros((40, 1)), np.arange(40) % 2
    for model in (StreamingCalibratedClassifier(OneColumn(), "ops"), CrossCalibratedClassifier(OneColumn())):
        with pytest.raises(InputError, match=r"returns shape \(\d+,\), .*np.column_stack\(\(1 - p, p\)\)"):
            model.fit(X, y)
