"""Mini-batches of the River wrapper: frames of pandas, polars and Arrow."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from river import compose, datasets, linear_model, naive_bayes, preprocessing, tree

from streamcal import Decay, InputError, OnlinePlatt, VennAbers
from streamcal.live import Segmented
from streamcal.river import CalibratedClassifier

ROWS = list(datasets.Phishing().take(200))
X = pd.DataFrame([x for x, _ in ROWS], index=[f"row {k}" for k in range(len(ROWS))])
Y = pd.Series([y for _, y in ROWS], index=X.index, name="phishing")


def pipeline():
    return preprocessing.StandardScaler() | linear_model.LogisticRegression()


def batches(size):
    return [(X[start : start + size], Y[start : start + size]) for start in range(0, len(X), size)]


def test_the_calibrator_learns_what_the_base_said_before_the_batch():
    model, base, cal = CalibratedClassifier(pipeline(), VennAbers()), pipeline(), VennAbers()
    for features, labels in batches(50):
        scores = base.predict_proba_many(features)[True]
        assert (model.predict_proba_many(features)[True].to_numpy() == cal.predict_many(scores).to_numpy()).all()
        model.learn_many(features, labels)
        cal.learn_many(scores, labels)
        base.learn_many(features, labels)
    assert model.calibrator.state_dict() == cal.state_dict()


def test_batches_of_one_row_are_single_observations():
    many, single = CalibratedClassifier(pipeline(), OnlinePlatt()), CalibratedClassifier(pipeline(), OnlinePlatt())
    for (features, labels), (x, y) in zip(batches(1)[:60], ROWS[:60], strict=True):
        p = many.predict_proba_many(features)
        # 1e-9: River's scaler has one formula for a row and another for a batch, which differ by rounding
        assert p[True].iloc[0] == pytest.approx(single.predict_proba_one(x)[True], abs=1e-9)
        many.learn_many(features, labels)
        single.learn_one(x, y)
    assert many.calibrator.n == single.calibrator.n == 60.0


@pytest.mark.sample(3)
@pytest.mark.parametrize("rows", [0, 1, 200])
def test_labels_of_a_batch_are_those_of_its_rows(rows):
    model = CalibratedClassifier(pipeline(), OnlinePlatt())
    for features in (X[:rows], pl.from_pandas(X[:rows]), pa.Table.from_pandas(X[:rows], preserve_index=False)):
        assert not np.any(model.predict_many(features).to_numpy())  # of ½, as `predict_one` says
    for batch in batches(5) * 2:
        model.learn_many(*batch)
    expected = [model.predict_one(x) for x, _ in ROWS[:rows]]
    assert rows < 200 or len(set(expected)) == 2
    found = model.predict_many(X[:rows])
    assert type(found) is pd.Series
    assert found.name is None
    assert found.dtype == bool
    assert found.index.equals(X.index[:rows])
    assert found.tolist() == expected
    for features in (pl.from_pandas(X[:rows]), pa.Table.from_pandas(X[:rows], preserve_index=False)):
        assert model.predict_many(features).to_numpy().tolist() == expected


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_frames_come_back_as_they_were_given(kind):
    given = {
        "pandas": lambda: (X, Y, (False, True)),
        "polars": lambda: (pl.from_pandas(X), pl.from_pandas(Y), ("False", "True")),
        "arrow": lambda: (pa.Table.from_pandas(X, preserve_index=False), pa.chunked_array([Y]), ("False", "True")),
    }
    features, labels, (no, yes) = given[kind]()
    model, same = CalibratedClassifier(pipeline(), "ops"), CalibratedClassifier(pipeline(), "ops")
    model.learn_many(features, labels)
    same.learn_many(X, Y)
    p = model.predict_proba_many(features)
    assert type(p) is type(features)
    # 1e-12: the products of River's matrices round otherwise for another layout in memory
    assert np.asarray(p[yes]) == pytest.approx(same.predict_proba_many(X)[True].to_numpy(), abs=1e-12)
    assert (np.asarray(p[no]) == 1.0 - np.asarray(p[yes])).all()
    if kind == "pandas":
        assert p.index.equals(X.index)


def test_no_rows_and_no_scores():
    model = CalibratedClassifier(naive_bayes.BernoulliNB(), VennAbers())
    assert model.predict_proba_many(X[:3])[True].tolist() == [0.5] * 3, "it has learned nothing: no scores"
    model.learn_many(X[:0], Y[:0])
    assert len(model.predict_proba_many(X[:0])) == 0
    with pytest.raises(InputError, match="not binary"):
        model.learn_many(X[:3], pd.Series([1, 2, 0]))
    model.learn_many(X[:3], pd.Series([True, True, True]))
    assert model.calibrator.n == 0.0
    model.learn_many(X[3:9], pd.Series([True] * 6))  # the base knows one class
    assert model.calibrator.n == 6.0
    assert ((p := model.predict_proba_many(X[:9])[True]) > 0.5).all()
    assert len(p) == 9


def test_a_bad_batch_changes_nothing():
    model = CalibratedClassifier(pipeline(), VennAbers())
    model.learn_many(X[:50], Y[:50])
    state, before = model.calibrator.state_dict(), model.classifier.predict_proba_many(X)
    for labels, weights in [(pd.Series([3] * 50), None), (Y[:50], -np.ones(50)), (Y[:49], None)]:
        with pytest.raises(InputError):
            model.learn_many(X[50:100], labels, weights)
    assert model.calibrator.state_dict() == state
    assert model.classifier.predict_proba_many(X).equals(before)


def test_a_time_that_is_refused_changes_nothing():
    model = CalibratedClassifier(pipeline(), VennAbers(forgetting=Decay(10.0, by="time")))
    model.learn_many(X[:50], Y[:50], t=np.arange(50.0))
    state, before = model.calibrator.state_dict(), model.classifier.predict_proba_many(X)
    for times in [None, np.full(50, np.nan), np.arange(49.0), np.full(50, 1e9)]:
        with pytest.raises(InputError):
            model.learn_many(X[50:100], Y[50:100], t=times)
    assert model.calibrator.state_dict() == state
    assert model.classifier.predict_proba_many(X).equals(before)


def test_where_the_base_fails_the_calibrator_has_not_learned(monkeypatch):
    for calibrator in (VennAbers(), Segmented("ops", by=["campaign"])):
        model = CalibratedClassifier(pipeline(), calibrator)
        named = X.assign(campaign=1.0)
        model.learn_many(named[:50], Y[:50])
        state = model.calibrator.state_dict()
        with monkeypatch.context() as patched:
            patched.setattr(linear_model.LogisticRegression, "learn_many", lambda self, X, y, w=1: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                model.learn_many(named[50:100], Y[50:100])
        assert model.calibrator.state_dict() == state


def test_a_keyword_that_the_base_does_not_have_changes_nothing():
    model = CalibratedClassifier(pipeline(), VennAbers())
    model.learn_many(X[:50], Y[:50])
    state, before = model.calibrator.state_dict(), model.classifier.predict_proba_many(X)
    with pytest.raises(InputError, match="has no rate; leave"):
        model.learn_many(X[50:100], Y[50:100], rate=0.1)
    assert model.calibrator.state_dict() == state
    assert model.classifier.predict_proba_many(X).equals(before)  # the scaler has not learned either


@pytest.mark.sample(3)
@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
@pytest.mark.parametrize("kind", [list, np.asarray, pd.Series, pl.Series, pa.array])
def test_labels_and_weights_may_be_of_any_kind(library, kind):
    given = {
        "pandas": lambda frame: frame,
        "polars": pl.from_pandas,
        "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    }[library]
    model = CalibratedClassifier(linear_model.LogisticRegression(), "ops")
    same = CalibratedClassifier(linear_model.LogisticRegression(), "ops")
    w = np.linspace(0.5, 2.0, len(X))
    for start in (0, 100):
        part = slice(start, start + 100)
        model.learn_many(given(X[part]), kind(Y[part].tolist()), kind(w[part].tolist()))
        same.learn_many(X[part], Y[part], pd.Series(w[part], index=X.index[part]))
    assert model.calibrator.n == pytest.approx(w.sum())
    # 1e-12: the products of River's matrices round otherwise for another layout in memory
    p = np.asarray(model.predict_proba_many(given(X))[True if library == "pandas" else "True"])
    assert p == pytest.approx(same.predict_proba_many(X)[True].to_numpy(), abs=1e-12)


def test_a_base_that_reads_pandas_alone_gets_labels_of_pandas():
    model, base = CalibratedClassifier(naive_bayes.BernoulliNB(), "ops"), naive_bayes.BernoulliNB()
    model.learn_many(X, Y.tolist(), [1.0] * len(X))
    base.learn_many(X, Y)
    assert model.classifier.predict_proba_many(X).equals(base.predict_proba_many(X))


def test_labels_may_be_floats():
    model, same = (CalibratedClassifier(naive_bayes.BernoulliNB(), "ops") for _ in range(2))
    for start in (0, 100):
        part = slice(start, start + 100)
        model.learn_many(X[part], Y[part].astype(float))
        same.learn_many(X[part], Y[part])
    assert model.predict_proba_many(X).equals(same.predict_proba_many(X))


def test_features_may_be_named_by_bools():
    stacked = pd.DataFrame({True: np.linspace(0.0, 1.0, 100), False: np.linspace(1.0, 0.0, 100)})
    y = pd.Series([k % 3 == 0 for k in range(100)])
    model = CalibratedClassifier(linear_model.LogisticRegression(), Segmented("ops", by=["campaign"]), ["campaign"])
    model.learn_many(stacked.assign(campaign="a"), y)
    assert set(model.classifier.weights) == {True, False}
    assert model.calibrator.n == 100.0


def test_weights_reach_calibrator_and_base():
    model, base = (
        CalibratedClassifier(linear_model.LogisticRegression(), VennAbers()),
        linear_model.LogisticRegression(),
    )
    w = pd.Series(np.linspace(0.5, 2.0, len(X)), index=X.index)
    model.learn_many(X, Y, w)
    base.learn_many(X, Y, w=w)
    assert model.calibrator.n == pytest.approx(w.sum())
    assert model.classifier.predict_proba_many(X).equals(base.predict_proba_many(X))
    without = CalibratedClassifier(naive_bayes.BernoulliNB(), VennAbers())
    without.learn_many(X, Y, w)  # a base without weights learns all rows alike


def test_segments_are_columns():
    segmented = Segmented("ops", by=["campaign"])
    model = CalibratedClassifier(pipeline(), segmented, keys=["campaign"])
    named = X.assign(campaign=["a", "b"] * (len(X) // 2))
    for start in range(0, len(X), 50):
        model.learn_many(named[start : start + 50], Y[start : start + 50])
    assert model.calibrator.effect("campaign", "a")[2] == len(X) / 2
    assert "campaign" not in model.classifier["LogisticRegression"].weights
    one = {"campaign": "a", **ROWS[0][0]}
    # 1e-9: see above
    assert model.predict_proba_many(named[:1])[True].iloc[0] == pytest.approx(
        model.predict_proba_one(one)[True], abs=1e-9
    )


@pytest.mark.parametrize(
    "estimator",
    [
        tree.HoeffdingTreeClassifier(),
        preprocessing.StandardScaler() | tree.HoeffdingTreeClassifier(),
        compose.Pipeline(preprocessing.AdaptiveStandardScaler(), linear_model.LogisticRegression()),
    ],
)
def test_a_base_without_batches_is_named(estimator):
    model = CalibratedClassifier(estimator)
    with pytest.raises(InputError, match="no mini-batches; use learn_one"):
        model.learn_many(X, Y)
    with pytest.raises(InputError, match="no mini-batches; use learn_one"):
        model.predict_proba_many(X)


def test_it_may_be_the_last_step_of_a_pipeline():
    whole = preprocessing.StandardScaler() | CalibratedClassifier(linear_model.LogisticRegression(), "ops")
    inside = CalibratedClassifier(pipeline(), "ops")
    for features, labels in batches(50):
        whole.learn_many(features, labels)
        inside.learn_many(features, labels)
    assert whole["CalibratedClassifier"].calibrator.n == inside.calibrator.n == len(ROWS)
    assert len(whole.predict_proba_many(X)) == len(X)


def test_other_classes_are_refused():
    model = CalibratedClassifier(naive_bayes.BernoulliNB(), VennAbers())
    model.classifier.learn_many(X, pd.Series(["yes" if y else "no" for y in Y], index=X.index))
    with pytest.raises(InputError, match="only False and True"):
        model.predict_proba_many(X)
