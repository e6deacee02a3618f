"""The measures as River metrics: what River checks of its own metrics, with the same kind of cases."""

from __future__ import annotations

import collections
import copy
import inspect
import math
import pickle

import numpy as np
import pytest
from river import datasets, evaluate, linear_model, metrics, preprocessing, utils
from sklearn.metrics import brier_score_loss, log_loss

from streamcal import InputError
from streamcal import metrics as measures
from streamcal.metrics.base import Metric
from streamcal.river import CalibratedClassifier, bases
from streamcal.river import metrics as ours

ALL = [getattr(ours, name) for name in ours.__all__]
#: Plain sums of a few dozen terms, in two orders; River asks for 1e-6 of its own.
SUMS = 1e-10


def cases(n, seed=0):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet((1.0, 1.0), n)
    y = [bool(one) for one in rng.random(n) < 0.5]
    return y, [dict(zip((False, True), row, strict=True)) for row in p.tolist()], (rng.random(n) + 0.01).tolist()


def of_measure(make):
    """Return the measure itself, over all at once."""

    def value(y, y_pred, w):
        measure = make()
        measure.update_many(y, [one[True] for one in y_pred], w)
        return 0.0 if measure.get() is None else measure.get()

    return value


def of_sklearn(score, **more):
    def value(y, y_pred, w):
        p = [one[True] for one in y_pred]
        return score(y, np.clip(p, 1e-6, 1 - 1e-6) if score is log_loss else p, sample_weight=w, **more)

    return value


#: Metric → what it has to be. Where there is no other implementation it is the measure, which has oracles of its own.
ORACLES = {
    ours.Brier: of_sklearn(brier_score_loss, labels=[False, True]),
    ours.LogLoss: of_sklearn(log_loss, labels=[False, True]),
    **{make: of_measure(getattr(measures, make.__name__)) for make in ALL if make not in (ours.Brier, ours.LogLoss)},
}


def test_every_binary_measure_has_an_adapter():
    def is_binary(name):
        one = getattr(measures, name)
        return inspect.isclass(one) and issubclass(one, Metric) and not inspect.isabstract(one)

    assert set(ours.__all__) == {name for name in measures.__all__ if is_binary(name)}


@pytest.mark.parametrize("make", ALL)
def test_pickling_cloning_and_repr(make):
    metric = make()
    assert isinstance(pickle.loads(pickle.dumps(metric)), make)
    assert isinstance(copy.deepcopy(metric), make)
    for y, p in zip(*cases(10)[:2], strict=True):
        metric.update(y, p)
        assert repr(metric).startswith(f"{make.__name__}: ")
    assert metric.clone().measure.n == 0.0
    assert pickle.loads(pickle.dumps(metric)).get() == metric.get()


@pytest.mark.sample(5)
@pytest.mark.parametrize("make", ALL)
def test_every_update_is_that_of_the_oracle(make):
    y, p, w = cases(30)
    metric = make()
    for i, (label, prediction, weight) in enumerate(zip(y, p, w, strict=True)):
        metric.update(label, prediction, weight)
        wanted = ORACLES[make](y[: i + 1], p[: i + 1], w[: i + 1])
        assert metric.get() == pytest.approx(wanted, abs=SUMS)


@pytest.mark.sample(14)
@pytest.mark.parametrize("window", [1, 2, 5, 10])
@pytest.mark.parametrize("make", ALL)
def test_rolling(make, window):
    y, p, _ = cases(30, seed=1)
    rolling = utils.Rolling(make, window_size=window)
    str(rolling)
    for i, (label, prediction) in enumerate(zip(y, p, strict=True)):
        rolling.update(label, prediction)
        last = [list(collections.deque(column[: i + 1], maxlen=window)) for column in (y, p)]
        wanted = ORACLES[make](*last, [1.0] * len(last[0]))
        # A sum of one term is reverted exactly; others leave at most the rounding of ten, of which slopes make more.
        assert rolling.get() == pytest.approx(wanted, abs=1e-7)


@pytest.mark.parametrize("make", ALL)
def test_which_is_better(make):
    rng = np.random.default_rng(2)
    p = rng.random(400)
    y = rng.random(400) < p
    good, bad = make(), make()
    for label, prediction in zip(y.tolist(), p.tolist(), strict=True):
        good.update(label, prediction)
        bad.update(label, (1.0 - prediction) ** 3)
    assert good.is_better_than(bad)
    assert not bad.is_better_than(good)
    assert good.bigger_is_better is (make is ours.AUC)
    assert not good.requires_labels
    assert good.works_with(linear_model.LogisticRegression())


def test_two_values_on_both_sides_of_one():
    low, high = ours.CalibrationRatio(), ours.CalibrationRatio()
    low.update(True, 0.5)
    for p in (0.9, 0.9):
        high.update(p == 0.9, p)
    high.update(False, 0.1)
    assert high.get() < 1.0
    assert high > low
    assert not ours.CalibrationSlope().is_better_than(low)  # nothing is known of it


def test_labels_of_other_words_and_composition():
    metric = ours.CORP("log", pos_val="click").clone()
    assert (metric.loss, metric.pos_val) == ("log", "click")
    metric.update("click", {"click": 0.5, "none": 0.5})
    assert metric.get() == pytest.approx(np.log(2.0), rel=SUMS)
    both = metrics.Accuracy() + ours.AUC() + ours.EqualMassECE(bins=5)
    base = preprocessing.StandardScaler() | linear_model.LogisticRegression()
    evaluate.progressive_val_score(datasets.Phishing().take(300), CalibratedClassifier(base, "ops"), both)
    assert both[1].get() > 0.8  # .5 knows nothing
    with pytest.raises(ValueError, match="not compatible"):
        _ = ours.Brier() + metrics.MSE()


def test_probabilities_beyond_by_rounding_are_clipped():
    for make in ALL:
        metric = make()
        metric.update(True, 1.0 + bases.ROUNDING / 2.0)
        assert metric.measure.n == 1.0


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", sorted(ours.__all__))
@pytest.mark.parametrize(
    ("pos_val", "label"),
    [
        *((True, "yes"), (True, None), (True, math.nan), (True, 2), (True, ""), (True, 0.5)),
        *(("yes", True), ("yes", None), ("yes", ""), ("yes", 1), (1, "1"), (1, math.nan)),
    ],
)
def test_a_label_of_another_type_than_the_positive_one_is_refused(name, pos_val, label):
    metric = getattr(ours, name)(pos_val=pos_val)
    for call in (metric.update, metric.revert):
        with pytest.raises(InputError, match="pos_val"):
            call(label, 0.3)
    assert metric.measure.n == 0.0


@pytest.mark.parametrize(("pos_val", "p"), [(True, {"no": 0.9, "yes": 0.1}), ("yes", {False: 1.0})])
def test_a_prediction_without_the_positive_label_is_refused(pos_val, p):
    for nothing in (None, "0.5", [0.5], {pos_val: None}):
        with pytest.raises(InputError, match=r"probability .* is not a number"):
            ours.Brier(pos_val).update(pos_val, nothing)
    with pytest.raises(InputError, match="has no probability of pos_val"):
        ours.Brier(pos_val).update(pos_val, p)
    with pytest.raises(InputError, match="without probabilities; a CalibratedClassifier predicts ½ there"):
        ours.Brier(pos_val).update(pos_val, {})
    assert ours.Brier("yes").update("no", {"no": 1.0}) is None, "a class not seen yet has probability 0"
