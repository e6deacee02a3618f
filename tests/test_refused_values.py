"""Values that are no numbers, levels or forecasts, of NumPy, pandas and `decimal`: `InputError`, and nothing changes.

What is tried here got past the checks once, or met them with the error of another library.
"""

import copy
import dataclasses
from array import array
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from streamcal import OnlinePlatt, Platt, VennAbers
from streamcal.errors import InputError
from streamcal.fusion import LogisticFusion
from streamcal.live import CalibrationMonitor, LabelJoin, Segmented, Shadow
from streamcal.metrics import Brier, FieldwiseECE, MulticlassLogLoss
from streamcal.multiclass import OneVsRest, OnlineVectorScaling, VectorScaling
from streamcal.regression import Normal, Sample, ScaleRecalibration

HUGE = 10**400
SECOND = np.timedelta64(1, "s")
SERIES = pd.Series([0.5, 0.6])
KEYS = {"a": 1}


def segmented():
    cal = Segmented(OnlinePlatt(), by=["a"])
    cal.learn_many([0.2, 0.4, 0.6] * 5, [0, 1, 0] * 5, keys={"a": [1, 2, "x"] * 5})
    return cal


def shadow():
    found = Shadow(OnlinePlatt(), {"other": OnlinePlatt(discount=0.9)})
    for k in range(20):
        found.learn_one(k / 20, k % 3 == 0)
    return found


def joined():
    join = LabelJoin(segmented(), 3600.0)
    join.issue("first", 0.3, 0.0, keys=KEYS)
    return join


def watching():
    monitor = CalibrationMonitor()
    monitor.update(True, 0.3, KEYS)
    return monitor


class OfAQuarter:
    """A number, of which only `float` knows."""

    def __float__(self):
        return 0.25


@pytest.mark.parametrize("w", [pd.NA, SERIES, np.array([]), Decimal("sNaN")])
def test_a_weight_that_cannot_be_compared(w):
    for make, learn in ((segmented, lambda one: one.learn_one(0.3, True, w, keys=KEYS)), (joined, issue_weighted(w))):
        refused(make(), learn)


def issue_weighted(w):
    return lambda join: join.issue("next", 0.3, 1.0, w=w)


@pytest.mark.parametrize("keys", [pd.NA, SERIES, np.array([])])
def test_keys_that_have_no_truth_value(keys):
    refused(joined(), lambda join: join.issue("next", 0.3, 1.0, keys=keys))
    refused(joined(), lambda join: join.predict_one(0.3, 1.0, keys=keys))
    refused(watching(), lambda monitor: monitor.update(True, 0.3, keys))
    refused(segmented(), lambda cal: cal.effect(keys, 1))


def test_a_span_of_time_is_no_level():
    refused(segmented(), lambda cal: cal.learn_one(0.3, True, keys={"a": SECOND}))
    refused(watching(), lambda monitor: monitor.update(True, 0.3, {"a": SECOND}))


@pytest.mark.parametrize("version", [[1], {}, SERIES, 0.5])
def test_a_version_that_is_none(version):
    refused(joined(), lambda join: join.predict_one(0.3, version=version))


@pytest.mark.parametrize(("level", "place"), [([1], 2), (0.5, 2), (np.timedelta64(1), 2)])
def test_a_bad_level_of_a_column_is_named_with_its_row(level, place):
    column = ["x", 1, level, level]
    refused(
        segmented(), lambda cal: cal.learn_many([0.3] * 4, [0, 1, 0, 1], keys={"a": column}), rf"keys\['a'\]\[{place}\]"
    )


def test_parts_that_no_float_holds():
    cal = segmented()
    issued = cal.issue(0.3, keys=KEYS)
    refused(cal, lambda cal: cal.settle(dataclasses.replace(issued, record=[HUGE, *issued.record[1:]]), True))


def test_what_is_no_prediction_of_a_shadow():
    issued = shadow().issue(0.3)
    nan = dataclasses.replace(issued, record=array("d", [0.0, float("nan"), 0.0]))
    for wrong in (0.3, None, tuple(issued.record), nan, segmented().issue(0.3, keys=KEYS)):
        refused(shadow(), lambda one, wrong=wrong: one.settle(wrong, True))


def test_a_number_that_only_float_knows_is_one():
    auto = Shadow("auto")
    assert auto.issue(OfAQuarter()).p == auto.issue(0.25).p
    assert type(auto.issue(OfAQuarter()).x) is float


@pytest.mark.parametrize("p", ["0.5", b"0.5", np.str_("0.5"), HUGE, Decimal("NaN"), pd.NA])
def test_what_is_no_probability(p):
    """A text was read as a number here, and nowhere else."""
    for make in (Brier, FieldwiseECE, CalibrationMonitor):
        level = () if make is not FieldwiseECE else ("a",)
        measure = make()
        with pytest.raises(InputError, match="probability"):
            measure.update(True, p, *level)
        assert not measure.n


@pytest.mark.parametrize("level", [np.float16("nan"), Decimal("NaN"), pd.NA, pd.NaT, np.datetime64("NaT"), None])
def test_missing_levels_are_one(level):
    one, many = FieldwiseECE(), FieldwiseECE()
    one.update(True, 0.5, level)
    many.update_many([True], [0.5], [level])
    assert list(one.levels()) == list(many.levels()) == [None]


@pytest.mark.parametrize("levels", [None, 1, "ab", np.array(1)])
def test_levels_are_a_list(levels):
    with pytest.raises(InputError, match="levels="):
        FieldwiseECE().update_many([True, False], [0.5, 0.5], levels)


def test_one_masked_value_is_no_array():
    for learn in (
        lambda: Platt().learn_many(np.ma.masked, [1]),
        lambda: VennAbers().learn_many([0.5], np.ma.masked),
        lambda: OnlineVectorScaling().learn_many(np.ma.masked, ["a"], labels=["a", "b"]),
        lambda: Sample(np.ma.masked),
    ):
        with pytest.raises(InputError, match="masked"):
            learn()


@pytest.mark.parametrize("scores", [np.array(0.5), np.array(None, dtype=object)])
def test_one_number_is_no_row_of_scores(scores):
    with pytest.raises(InputError, match="give a list"):
        LogisticFusion().learn_one(scores, True)


def test_a_normal_distribution_has_floats():
    for parameters in ((HUGE, 1.0), (-HUGE, 1.0), (0.0, HUGE)):
        with pytest.raises(InputError, match="not possible"):
            Normal(*parameters)


@pytest.mark.parametrize("forecasts", [np.array(0.5), np.recarray, 0.5, Normal(0.0, 1.0)])
def test_distributions_are_a_list(forecasts):
    with pytest.raises(InputError, match="list of distributions"):
        ScaleRecalibration().learn_many(forecasts, [0.5])


def test_distributions_may_come_from_a_generator():
    one, other = ScaleRecalibration(), ScaleRecalibration()
    forecasts = [Normal(float(k), 1.0) for k in range(5)]
    one.learn_many((forecast for forecast in forecasts), np.arange(5) + 0.3)
    other.learn_many(forecasts, np.arange(5) + 0.3)
    assert one.state_dict() == other.state_dict()


def refused(learner, call, message=None):
    before = copy.deepcopy(learner.state_dict())
    with pytest.raises(InputError, match=message):
        call(learner)
    assert learner.state_dict() == before


@pytest.mark.parametrize(
    ("y", "classes"),
    [(1, ["0", "1"]), ("1", [0, 1]), ("1.0 ", ["0", "1.0"]), (1.0, ["0", "1"]), ("1.0", [0, 1]), ("0.5", [0, 0.5])],
)
def test_a_class_in_another_form_than_the_scores_have_it_is_no_new_class(y, classes):
    scores = dict(zip(classes, (0.2, 0.8), strict=True))
    stated = rf"label {y!r} has no score, but {classes[1]!r} has"
    for cal in (OnlineVectorScaling(), VectorScaling(), OneVsRest("platt")):
        cal.learn_one(scores, classes[0])
        before = cal.to_bytes()
        with pytest.raises(InputError, match=stated):
            cal.learn_one(scores, y)
        with pytest.raises(InputError, match=stated):
            cal.learn_many([[0.2, 0.8]], [y], labels=classes)
        assert cal.to_bytes() == before
        cal.learn_one(scores, "another")  # a class that is new
    loss = MulticlassLogLoss()
    with pytest.raises(InputError, match=stated):
        loss.update(y, scores)
    with pytest.raises(InputError, match=stated):
        loss.update_many([y], [[0.2, 0.8]], labels=classes)
    assert loss.get() is None
