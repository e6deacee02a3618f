"""The kernel `rank_tree`, and R read from it: as the table of all knots, and no more than a path of it."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from invariants import check
from test_kernel_forms import twins

from streamcal import Decay, Window
from streamcal.kernels.tree.rank_tree import RankTree
from streamcal.regression import ConformalPredictive, Normal, QuantileRecalibration
from streamcal.regression.pit_calibrator import Levels, RankRamp
from streamcal.statistics.pits import FURTHEST

few = st.integers(-6, 6).map(float)


@given(st.lists(st.tuples(few, st.sampled_from([1.0, 2.0])), max_size=80), st.lists(few, max_size=40))
def test_it_is_a_sorted_list_in_both_forms(added, removed):
    held = {}
    trees = [module.RankTree() for module in twins("rank_tree")]
    for x, w in added + [(x, -1.0) for x in removed]:
        if w < 0.0 and held.get(x, 0.0) < 1.0:
            continue
        before = [(tree, tree.to_arrays()) for tree in trees]
        held[x] = held.get(x, 0.0) + w
        if held[x] == 0.0:
            del held[x]
        trees = [tree.changed(x, w) for tree in trees]
        for tree, arrays in before:
            assert all(np.array_equal(one, other) for one, other in zip(tree.to_arrays(), arrays, strict=True))
    scores, weights = np.array(sorted(held)), np.array([held[x] for x in sorted(held)])
    for tree in trees:
        tree.check()
        assert all(np.array_equal(*pair) for pair in zip(tree.to_arrays(), (scores, weights), strict=True))
        assert (tree.size, tree.total) == (len(held), weights.sum())
        for x in np.arange(-7.0, 7.5, 0.5).tolist():
            low, at_low, below, high, at_high, above = tree.around(x)
            expected = scores[scores <= x].max(initial=-np.inf), scores[scores > x].min(initial=np.inf)
            assert (low, high) == tuple(e if np.isfinite(e) else pytest.approx(np.nan, nan_ok=True) for e in expected)
            assert (at_low, at_high) == (held.get(low, 0.0), held.get(high, 0.0))
            assert (below, above) == (weights[scores <= x].sum(), weights[scores > x].sum())
        for weight in np.arange(0.5, weights.sum() + 1.0).tolist():
            place = np.searchsorted(np.cumsum(weights), weight)
            if len(held):
                assert tree.reaching(weight) == scores[min(place, len(scores) - 1)]


def test_a_tree_of_arrays_is_balanced_and_copied():
    tree = RankTree(np.arange(1000.0), np.ones(1000))
    tree.check()
    for x in range(1000, 6000):
        tree = tree.changed(float(x), 1.0)
    tree.check()
    for again in (pickle.loads(pickle.dumps(tree)), copy.deepcopy(tree)):
        assert np.array_equal(again.to_arrays()[0], np.arange(6000.0))
    with pytest.raises(ValueError, match="length"):
        RankTree([1.0], [])


@given(st.lists(st.tuples(few, st.floats(0.01, 5.0)), max_size=30), st.lists(few, max_size=30), st.floats(0.0, 3.0))
def test_weights_and_levels_at_knots_are_sums_of_the_scores_in_both_forms(rows, knots, pseudo):
    x, w = (np.array(sorted(rows)).reshape(-1, 2)[:, column].copy() for column in (0, 1))
    knots, found = np.sort(knots), []
    levels = 1.0 / (2.0 + np.exp(knots)), 1.0 - 1.0 / (2.0 + np.exp(knots))
    for module in twins("rank_tree"):
        below, above, total = module.weights_around(knots, x, w)
        np.testing.assert_allclose(below, [w[x <= knot].sum() for knot in knots], rtol=1e-14)
        np.testing.assert_allclose(above, [w[x > knot].sum() for knot in knots], rtol=1e-14)
        assert total == pytest.approx(w.sum(), rel=1e-14)
        found.append(module.levels_around(knots, x, w, levels, pseudo, 1.0))
        np.testing.assert_array_equal(found[-1], Levels(pseudo, 1.0).at(*levels, below, above, total))
    np.testing.assert_array_equal(*found)


METHODS = {
    "quantile": QuantileRecalibration,
    "smoothed": lambda: QuantileRecalibration(2.5),
    "conformal": ConformalPredictive,
}
each = pytest.mark.parametrize("name", METHODS)
SCORES = st.sampled_from([-FURTHEST, -60.0, -3.0, -0.5, 0.0, 0.25, 2.0, 2.0, 45.0, FURTHEST]) | st.floats(
    -4.0, 4.0
).map(lambda z: round(z, 3))


def inner(found):
    """Return a map or a distribution without the part that adds conformal intervals to it."""
    return getattr(found, "inner", found)


@given(
    st.lists(SCORES, min_size=1, max_size=12), st.lists(st.floats(-70.0, 70.0).map(lambda z: round(z, 3)), max_size=5)
)
@each
def test_a_number_is_that_of_the_whole_table(name, scores, asked):
    cal = METHODS[name]()
    for z in scores:
        cal.learn_one(Normal(0.0, 1.0), z)
    ramp = inner(cal.map()).ramp
    assert isinstance(ramp, RankRamp)
    whole = ramp.whole
    zs = [*asked, *scores, *(z - 1e-6 for z in scores), -np.inf, np.inf]
    for z in map(np.float64, zs):
        assert ramp.level_at(z) == pytest.approx(float(whole.level_at(z)), rel=1e-12, abs=1e-15)
        for found, expected in zip(ramp.log_tails(z), whole.log_tails(z), strict=True):
            # The whole table has masses, where the tree has logarithms: below the smallest double they are 0 there.
            both = [max(float(one), -745.0) for one in (found, expected)]
            assert both[0] == pytest.approx(both[1], rel=1e-11, abs=1e-12)
        if z in asked or z in scores:  # beside a knot, rounding decides to which piece a number belongs
            assert float(ramp.log_slope(z)) == pytest.approx(float(whole.log_slope(z)), rel=1e-10, abs=1e-10)
    n = len(scores)
    # Between the levels of knots, at which rounding decides on which side of a jump a quantile is.
    for level in map(np.float64, ((np.arange(2 * n) + 0.37) / (2 * n)).tolist()):
        assert float(ramp.scores(level)) == pytest.approx(float(whole.scores(level)), rel=1e-9, abs=1e-9)
        assert float(ramp.scores_above(level)) == pytest.approx(float(whole.scores_above(level)), rel=1e-9, abs=1e-9)


@each
def test_quantiles_at_the_levels_of_knots(name):
    cal = METHODS[name]()
    for y in (-1.0, -0.2, 0.3, 0.3, 1.5):
        cal.learn_one(Normal(0.0, 1.0), y)
    ramp = inner(cal.map()).ramp
    for level in (0.0, 1e-9, 1.0 / 6.0, 0.2, 0.4, 0.5, 0.6, 0.8, 1.0):
        found = float(cal.predict_one(Normal(0.0, 1.0)).ppf(level))
        assert found == pytest.approx(float(ramp.whole.scores(np.float64(level))), abs=1e-12)


@each
def test_a_forecast_stays_as_it_was_when_more_is_learned(name):
    rng = np.random.default_rng(0)
    cal = METHODS[name]()
    for y in rng.normal(size=50).tolist():
        cal.learn_one(Normal(0.0, 1.0), y)
    kept, map = cal.predict_one(Normal(0.0, 1.0)), cal.map()
    before = kept.cdf(0.3), kept.ppf(0.7), kept.crps(0.1)
    again = cal.predict_one(Normal(0.0, 1.0))
    for y in rng.normal(size=50).tolist():
        cal.learn_one(Normal(0.0, 1.0), y)
        cal.predict_one(Normal(0.0, 1.0))
    assert (again.cdf(0.3), again.ppf(0.7), again.crps(0.1)) == before
    assert map.predict_one(Normal(0.0, 1.0)).cdf(0.3) == before[0]
    assert pickle.loads(pickle.dumps(kept)).cdf(0.3) == pytest.approx(before[0], rel=1e-12)


class Counted:
    """A tree that counts how often the whole of it is read."""

    def __init__(self, tree):
        self.tree, self.whole = tree, 0

    def to_arrays(self):
        self.whole += 1
        return self.tree.to_arrays()

    def __getattr__(self, name):
        return getattr(self.tree, name)


@pytest.mark.parametrize("name", ["quantile", "conformal"])
def test_numbers_do_not_read_the_whole_table(name):
    cal = METHODS[name]()
    cal.learn_many([Normal(0.0, 1.0)] * 500, np.random.default_rng(1).normal(size=500))
    forecast = inner(cal.predict_one(Normal(0.0, 1.0)))
    counted = forecast.ramp._order = Counted(forecast.ramp._order)
    forecast.cdf(0.3), forecast.interval(0.9), forecast.log_prob(0.2)
    assert counted.whole == 0
    forecast.crps(0.3)
    assert counted.whole == 1


@pytest.mark.sample(3)
@pytest.mark.parametrize("policy", [Window(40), Window(40, by="time"), Decay(half_life=20)])
def test_the_tree_follows_what_is_held(policy):
    rng = np.random.default_rng(2)
    cal = QuantileRecalibration(forgetting=policy)
    for i, y in enumerate(rng.normal(size=200).round(1).tolist()):
        cal.learn_one(Normal(0.0, 1.0), y, 1.0 if i % 50 else 0.3, t=float(i) if policy.by == "time" else None)
        found = cal.predict_one(Normal(0.0, 1.0)).cdf(0.05)
        check(cal._engine.memory.statistic)
        other = QuantileRecalibration.from_state(cal.state_dict())
        assert other.predict_one(Normal(0.0, 1.0)).cdf(0.05) == found
