"""Measures of many classes against scikit-learn and their definitions; and what every measure promises."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest
from sklearn.metrics import brier_score_loss, log_loss

from streamcal import InputError, MergeError, RetractionError
from streamcal.metrics import Brier, ClasswiseECE, EqualMassECE, MulticlassBrier, MulticlassLogLoss

METRICS = [MulticlassLogLoss, MulticlassBrier, ClasswiseECE, lambda: ClasswiseECE(bins=3)]
LABELS = ["a", "b", 3]
RNG = np.random.default_rng(0)
P = RNG.dirichlet([1.0, 1.0, 1.0], 200)
PLACES = RNG.integers(0, 3, 200)
Y = [LABELS[place] for place in PLACES]
W = RNG.integers(1, 4, 200).astype(float)


def filled(metric, rows=slice(None)):
    metric.update_many(Y[rows], P[rows], W[rows], labels=LABELS)
    return metric


def test_against_scikit_learn():
    assert filled(MulticlassLogLoss(clip=1e-15)).get() == pytest.approx(log_loss(PLACES, P, sample_weight=W), abs=1e-12)
    theirs = brier_score_loss(PLACES, P, sample_weight=W, labels=[0, 1, 2], scale_by_half=False)
    assert filled(MulticlassBrier()).get() == pytest.approx(theirs, abs=1e-12)


def test_the_classwise_error_is_the_mean_over_labels():
    errors = []
    for k in range(3):
        ece = EqualMassECE()
        ece.update_many(k == PLACES, P[:, k], W)
        errors.append(ece.get())
    found = filled(ClasswiseECE())
    assert found.get() == pytest.approx(np.mean(errors), abs=1e-15)
    assert found.by_label() == pytest.approx(dict(zip(LABELS, errors, strict=True)), abs=1e-15)


def test_two_classes_are_twice_the_score_of_one():
    brier, binary = MulticlassBrier(), Brier()
    for p, y in ((0.25, True), (0.5, False), (1.0, True)):
        brier.update(y, {False: 1.0 - p, True: p})
        binary.update(y, p)
    assert brier.get() == pytest.approx(2.0 * binary.get())


def test_a_label_without_a_probability_had_none():
    loss, brier, ece = MulticlassLogLoss(), MulticlassBrier(), ClasswiseECE()
    for metric in (loss, brier, ece):
        metric.update("b", {"a": 1.0})
    assert loss.get() == -math.log(loss.clip)
    assert brier.get() == 2.0
    assert ece.by_label() == {"a": 1.0, "b": 1.0}


@pytest.mark.sample(4)
@pytest.mark.parametrize("build", METRICS)
def test_order_merging_reverting_and_weights(build):
    whole, empty = filled(build()), build()
    assert empty.get() is None
    assert empty.n == 0.0
    left, right = filled(build(), slice(0, 90)), filled(build(), slice(90, None))
    left.merge(right)
    assert left.get() == pytest.approx(whole.get(), abs=1e-12)
    assert left.n == whole.n == W.sum()
    loop = build()
    for i in reversed(range(200)):
        loop.update(Y[i], dict(zip(LABELS, P[i].tolist(), strict=True)), W[i])
    assert loop.get() == pytest.approx(whole.get(), abs=1e-12)
    loop.update("b", {"a": 1.0}, 0.0)
    assert loop.n == whole.n
    for i in range(90, 200):
        loop.revert(Y[i], dict(zip(LABELS, P[i].tolist(), strict=True)), W[i])
    assert loop.get() == pytest.approx(filled(build(), slice(0, 90)).get(), abs=1e-12)
    for i in range(90):
        loop.revert(Y[i], dict(zip(LABELS, P[i].tolist(), strict=True)), W[i])
    assert loop.get() is None
    assert loop.n == 0.0
    with pytest.raises(RetractionError):
        loop.revert("a", {"a": 1.0})


@pytest.mark.parametrize("build", METRICS)
def test_bad_input_changes_nothing(build):
    metric = filled(build())
    before = metric.get(), metric.n
    for p, y, w in (
        ({"a": 0.5}, "a", 1.0),
        ({"a": 1.5, "b": -0.5}, "a", 1.0),
        ({"a": math.nan}, "a", 1.0),
        ({}, "a", 1.0),
        ({"a": 1.0}, None, 1.0),
        ({"a": 1.0}, "a", -1.0),
    ):
        for verb in (metric.update, metric.revert):
            with pytest.raises(InputError):
                verb(p, y, w)
    with pytest.raises(InputError):
        metric.update_many(["a", "b"], [[0.5, 0.5], [0.5, math.nan]], labels=["a", "b"])
    for other in (Brier(), ClasswiseECE(bins=4), MulticlassLogLoss(clip=0.1)):
        with pytest.raises(MergeError):
            metric.merge(other)
    assert (metric.get(), metric.n) == before
    assert repr(metric).startswith(type(metric).__name__)


def test_a_retraction_that_is_refused_takes_nothing():
    ece = ClasswiseECE()
    ece.update("a", {"a": 0.5, "b": 0.5})
    ece.update("b", {"a": 0.5, "b": 0.5}, 2.0)
    before = ece.by_label(), ece.n
    for p, y in (({"a": 0.5, "c": 0.5}, "a"), ({"a": 0.5, "b": 0.5}, "c"), ({"b": 0.5, "a": 0.25, "c": 0.25}, "b")):
        with pytest.raises(RetractionError):
            ece.revert(y, p)
        assert (ece.by_label(), ece.n) == before
    ece.update("a", {"a": 1.0}, 1e20)
    before = ece.by_label(), ece.n
    with pytest.raises(RetractionError, match="has 0 left"):  # of the label b, although a has more
        ece.revert("b", {"a": 0.5, "b": 0.5}, 1e18)
    assert (ece.by_label(), ece.n) == before


@pytest.mark.parametrize("build", METRICS)
def test_a_retraction_that_leaves_what_rounding_has_reached_is_refused(build):
    metric = build()
    for w in (1e10, 1.0):
        metric.update("a", {"a": 0.5, "b": 0.5}, w)
    before = metric.get()
    with pytest.raises(RetractionError, match="rounding"):
        metric.revert("a", {"a": 0.5, "b": 0.5}, 1e10)
    assert metric.get() == before


def test_parameters_that_are_not_possible_are_refused():
    for build in (lambda: MulticlassLogLoss(clip=0.0), lambda: ClasswiseECE(bins=0)):
        with pytest.raises(InputError):
            build()


@pytest.mark.parametrize("build", METRICS)
def test_a_copy_learns_alone(build):
    metric = filled(build())
    before = metric.get(), metric.n
    other = copy.copy(metric)
    other.update("a", {"b": 1.0})
    assert (metric.get(), metric.n) == before
    assert other.n == metric.n + 1.0


def test_a_batch_is_the_loop_to_the_last_bit_where_a_label_has_no_probability():
    batch, loop = MulticlassBrier(), MulticlassBrier()
    row = [0.84, 0.059, 0.10099999999999998]
    batch.update_many(["z"], [row], labels=["a", "b", "c"])
    loop.update("z", dict(zip("abc", row, strict=True)))
    assert batch.get() == loop.get()
