"""`FieldwiseECE` against its definition, its floor and χ² by simulation, and the laws of metrics."""

import copy
import math
import pickle

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from streamcal.errors import InputError, MergeError, RetractionError
from streamcal.metrics import Brier, FieldwiseECE, LevelData

LEVELS = ["a", 1, ("a", 2), None]
#: Weights and probabilities with exact sums, so that what a stream leaves does not depend on the order of additions.
rows = st.lists(
    st.tuples(
        st.integers(0, 16).map(lambda k: k / 16),
        st.booleans(),
        st.sampled_from(LEVELS),
        st.integers(0, 8).map(lambda k: k / 8),
    ),
    max_size=30,
)


def filled(observations):
    metric = FieldwiseECE()
    for p, y, level, w in observations:
        metric.update(y, p, level, w)
    return metric


def held(metric):
    return metric.levels(), metric.n, metric.get(), metric.floor, metric.chi_square


def test_it_is_what_its_definition_says():
    rng = np.random.default_rng(0)
    p, level, w = rng.random(500), rng.integers(7, size=500), rng.choice([0.5, 1.0, 2.0], 500)
    y = rng.random(500) < p**1.5
    metric = FieldwiseECE()
    metric.update_many(y, p, level, w)
    gaps = [abs((w * (y - p))[level == k].sum()) for k in range(7)]
    variances = [(w**2 * p * (1 - p))[level == k].sum() for k in range(7)]
    # Sums of 500 terms in another order.
    assert metric.get() == pytest.approx(sum(gaps) / w.sum(), rel=1e-12)
    assert [one.variance for one in metric.levels().values()] == pytest.approx(
        [variances[k] for k in metric.levels()], rel=1e-12
    )
    assert metric.chi_square == pytest.approx(np.mean(np.square(gaps) / variances), rel=1e-12)
    assert metric.degrees == 7


@pytest.mark.sample(6)
@pytest.mark.parametrize(("levels", "n", "chance"), [(1, 3_000, 9), (5, 3_000, 9), (300, 3_000, 9), (40, 2_000, 300)])
def test_a_twentieth_of_right_forecasts_are_above_the_floor(levels, n, chance):
    above, streams = 0, 150
    for seed in range(streams):
        rng = np.random.default_rng(seed)
        p = rng.beta(1, chance, n)
        metric = FieldwiseECE()
        metric.update_many(rng.random(n) < p, p, rng.integers(levels, size=n))
        above += metric.get() > metric.floor
    assert 0.01 * streams < above < 0.12 * streams  # 0.05, and four standard errors of 150 streams are 0.07


@pytest.mark.full
@pytest.mark.parametrize(("of_positives", "of_negatives"), [(1.0, 20.0), (1.0, 5.0), (8.0, 1.0)])
def test_right_forecasts_of_a_stream_sampled_by_label(of_positives, of_negatives):
    """All rows of one label and a part of the others, which have its inverse as weight."""
    above, squares, streams = 0, [], 80
    for seed in range(streams):
        rng = np.random.default_rng(seed)
        p, level = rng.beta(1, 30, 20_000), rng.integers(10, size=20_000)
        y = rng.random(20_000) < p
        w = np.where(y, of_positives, of_negatives)
        kept = rng.random(20_000) < 1.0 / w
        metric = FieldwiseECE()
        metric.update_many(y[kept], p[kept], level[kept], w[kept])
        above += metric.get() > metric.floor
        squares.append(metric.chi_square)
    assert above < 0.12 * streams
    # 800 squares have a standard error of 0.05; weights that are ignored leave 0.12, 0.3 and 7.
    assert np.mean(squares) == pytest.approx(1.0, abs=0.2)


def test_right_forecasts_have_the_floor_and_a_chi_square_of_one_and_wrong_ones_more():
    rng = np.random.default_rng(1)
    n, k = 200_000, 500
    level = rng.integers(k, size=n)
    z = -2.0 + rng.standard_normal(n)
    right, wrong = FieldwiseECE(), FieldwiseECE()
    right.update_many(rng.random(n) < expit(z), expit(z), level)
    wrong.update_many(rng.random(n) < expit(z + 0.3 * rng.standard_normal(k)[level]), expit(z), level)
    # Three standard deviations over 500 levels: √(2/500) of χ², and √(π/2 − 1)/√500 of the mean gap, which has its 95 %
    # quantile 1.6 of them above it.
    assert right.chi_square == pytest.approx(1.0, abs=3 * math.sqrt(2 / k))
    assert right.get() == pytest.approx(right.floor, rel=4.6 * math.sqrt((math.pi / 2 - 1) / k))
    assert wrong.chi_square > 3.0
    assert wrong.get() > 1.5 * wrong.floor


def test_levels_with_few_expected_events_are_not_in_chi_square():
    metric = FieldwiseECE()
    metric.update_many([False] * 4000 + [True] * 100, [0.001] * 4000 + [0.5] * 100, ["rare"] * 4000 + ["half"] * 100)
    assert metric.degrees == 1
    assert metric.chi_square == pytest.approx(100.0)
    assert FieldwiseECE().chi_square is None


def test_a_certain_forecast_that_was_wrong():
    metric = filled([(0.0, True, "a", 1.0), (1.0, True, "b", 1.0)])
    assert metric.levels()["a"].z == math.inf
    assert metric.levels()["b"].z == 0.0
    assert metric.levels()["b"] == LevelData(1.0, 1.0, 1.0, 0.0)
    assert metric.chi_square is None


def test_missing_levels_are_one_and_equal_ones_too():
    metric = filled([(0.5, True, None, 1.0), (0.5, True, math.nan, 1.0), (0.5, True, 1, 1.0), (0.5, True, 1.0, 1.0)])
    assert list(metric.levels()) == [None, 1]


@given(rows)
def test_update_many_is_the_loop(observations):
    many = FieldwiseECE()
    p, y, levels, w = zip(*observations, strict=True) if observations else ([], [], [], [])
    many.update_many(list(y), list(p), levels, list(w))
    assert held(many) == held(filled(observations))


@given(rows, rows)
def test_merge_is_concatenation(first, second):
    metric, other = filled(first), filled(second)
    before = held(other)
    metric.merge(other)
    assert metric.levels() == filled(first + second).levels()
    assert held(other) == before


@given(rows, rows)
def test_revert_undoes_update(kept, gone):
    metric = filled(kept + gone)
    for p, y, level, w in reversed(gone):
        metric.revert(y, p, level, w)
    assert metric.levels() == filled(kept).levels()
    for p, y, level, w in kept:
        metric.revert(y, p, level, w)
    assert (metric.levels(), metric.n, metric.get()) == ({}, 0.0, None)


def test_merging_with_itself_and_with_others():
    metric = filled([(0.5, True, "a", 1.0)])
    metric.merge(metric)
    assert metric.levels()["a"].n == metric.n == 2.0
    with pytest.raises(MergeError):
        metric.merge(Brier())


@pytest.mark.parametrize(
    "row",
    [(1.5, True, "a", 1.0), (0.5, 2, "a", 1.0), (0.5, True, [], 1.0), (0.5, True, "a", -1.0), (None, 1, "a", 1.0)],
)
def test_bad_calls_raise_and_change_nothing(row):
    metric = filled([(0.5, True, "a", 1.0)])
    before = held(metric)
    p, y, level, w = row
    for call in (
        lambda: metric.update(y, p, level, w),
        lambda: metric.update_many([True, y], [0.5, p], ["a", level], [1.0, w]),
        lambda: metric.update_many([True], [0.5], ["a", "b"]),
        lambda: metric.revert(y, p, level, w),
    ):
        with pytest.raises(InputError):
            call()
    with pytest.raises(RetractionError):
        metric.revert(True, 0.5, "b")
    metric.revert(True, 0.5, "b", 0.0)
    assert held(metric) == before


def test_copies_hold_the_same():
    metric = filled([(0.25, True, ("a", 1), 2.0)])
    for other in (copy.deepcopy(metric), copy.copy(metric), pickle.loads(pickle.dumps(metric))):
        assert held(other) == held(metric)
        other.update(True, 0.25, ("a", 1))
        assert metric.levels()[("a", 1)].n == metric.n == 2.0
    assert repr(metric) == "FieldwiseECE()"


def test_rounding_of_reverted_weights_leaves_no_negative_variance():
    metric = filled([(0.3, True, "a", 0.7), (0.7, True, "a", 0.3), (0.0, False, "a", 0.3)])
    metric.revert(True, 0.3, "a", 0.7)
    metric.revert(True, 0.7, "a", 0.3)
    assert metric.levels()["a"].variance < 0.0
    assert metric.floor == 0.0


def test_a_retraction_that_leaves_what_rounding_has_reached_is_refused():
    metric = filled([(0.5, True, "a", 1.0), (0.5, True, "b", 1e60)])
    before = held(metric)
    with pytest.raises(RetractionError, match="has 0 left, which rounding has reached"):
        metric.revert(True, 0.5, "b", 1e60)
    assert held(metric) == before


def test_levels_of_arrow_are_its_plain_values():
    metric, plain = FieldwiseECE(), FieldwiseECE()
    metric.update_many([1, 0, 1], [0.5, 0.25, 0.5], pa.array(["a", None, "b"]))
    metric.update(True, 0.75, pa.scalar("a"))
    plain.update_many([1, 0, 1, 1], [0.5, 0.25, 0.5, 0.75], ["a", None, "b", "a"])
    assert metric.levels() == plain.levels()


@pytest.mark.parametrize("levels", [{"a", "b"}, {"a": 1, "b": 2}, "ab", 3])
def test_levels_without_an_order_are_refused(levels):
    with pytest.raises(InputError, match="is not a list; give one for each of 2 observations"):
        FieldwiseECE().update_many([1, 0], [0.5, 0.5], levels)
