"""The point of a Venn-Abers interval for rare events: never 0 or 1, with the total right."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, logit
from scipy.stats import norm

from streamcal import EmpiricalCDF, InputError, Interval, Logit, Prior, VennAbers, load_map
from streamcal.maps.points import LEAST_SCORE, log_minimax, score_prior, self_consistent

probabilities = st.floats(0.0, 1.0)
#: Rounding of a quotient of sums of a few products.
ROUNDING = 1e-12


def ordered(*values):
    return sorted(values)


# -- the formula -------------------------------------------------------------------------------------------------------


@given(k=st.integers(0, 1000), more=st.integers(0, 10**6), score=st.floats(1e-6, 0.5))
def test_in_one_block_it_is_its_mean_with_a_quarter_event_at_the_score(k, more, score):
    """Or at the end of the interval that is nearest to the score."""
    n = k + more
    lower, upper = k / (n + 1), (k + 1) / (n + 1)
    middle = min(max(score, lower), upper)
    if middle <= 0.5:
        assert score_prior(lower, upper, score) == pytest.approx((k + 0.25) / (n + 0.25 / middle), rel=1e-9)


@given(ends=st.tuples(probabilities, probabilities), score=probabilities)
def test_it_lies_in_the_interval_and_turns_with_the_labels(ends, score):
    lower, upper = ordered(*ends)
    p = score_prior(lower, upper, score)
    assert lower - ROUNDING <= p <= upper + ROUNDING
    assert score_prior(1.0 - upper, 1.0 - lower, 1.0 - score) == pytest.approx(1.0 - p, abs=1e-9)
    array = score_prior(*(np.array([value]) for value in (lower, upper, score)))
    assert array.tolist() == [p]


@given(a=st.tuples(*3 * [probabilities]), b=st.tuples(*3 * [probabilities]))
def test_it_rises_with_both_ends_and_with_the_score(a, b):
    """Maps stay monotone: intervals and scores rise together."""
    low = min(min(a[:2]), min(b[:2])), min(max(a[:2]), max(b[:2])), min(a[2], b[2])
    for high in (ordered(*a[:2]), ordered(*b[:2])):
        assert score_prior(*low) <= score_prior(*high, max(a[2], b[2])) + ROUNDING


def test_it_lies_between_the_points_that_it_resembles():
    assert score_prior(0.2, 0.3, 0.5) == score_prior(0.2, 0.3, 0.3)
    sure = score_prior(0.01, 0.01 + 1e-9, 0.3), self_consistent(0.01, 0.01 + 1e-9)
    assert sure[0] == pytest.approx(sure[1], rel=1e-6)  # the prior weighs 1e-7 of the block


# -- the calibrator ----------------------------------------------------------------------------------------------------


def test_before_anything_is_learned_it_is_the_score():
    cal = VennAbers("score-prior")
    for score in (1e-5, 0.003, 0.5, 0.98):
        assert cal.predict_one(score) == pytest.approx(score, rel=ROUNDING)
    assert (cal.predict_one(0.0), cal.predict_one(1.0)) == pytest.approx((LEAST_SCORE, 1.0 - LEAST_SCORE), rel=1e-9)


@pytest.mark.parametrize("scale", [Interval(-3, 3), EmpiricalCDF.from_scores([0.0, 0.5, 1.0])])
def test_it_needs_scores_that_are_probabilities(scale):
    with pytest.raises(InputError, match="probabilities"):
        VennAbers("score-prior", scale=scale)


@pytest.mark.parametrize(
    "params",
    [{}, {"scale": Logit(-8.0, 0.0)}, {"resolution": 64}, {"prior": Prior(5.0)}],
    ids=lambda one: str(one)[:20],
)
def test_every_way_to_the_point_is_the_formula(params):
    """One score, many, the map, the map elsewhere; the grid rounds the score for the interval alone."""
    rng = np.random.default_rng(2)
    scores = np.concatenate(([0.0, 1.0], expit(rng.normal(-4.0, 2.0, 300))))
    cal = VennAbers("score-prior", **params)
    cal.learn_many(scores, rng.random(302) < scores)
    x = np.concatenate((scores, expit(rng.normal(-4.0, 3.0, 300))))
    lower, upper = cal.predict_interval_many(x)
    read = cal.scale.probabilities(cal.scale.coordinates(x))
    expected = score_prior(lower, upper, read)
    assert cal.predict_many(x).tolist() == expected.tolist()
    assert [cal.predict_one(score) for score in x.tolist()] == expected.tolist()
    np.testing.assert_allclose(cal.map().predict_many(x), expected, rtol=ROUNDING)  # sums in another order
    assert cal.predict_with_interval_one(x[5])[0] == expected[5]
    elsewhere = load_map(cal.map().to_json())
    np.testing.assert_allclose(elsewhere.predict_many(x), expected, rtol=ROUNDING)
    np.testing.assert_allclose([elsewhere(score) for score in x], expected, rtol=ROUNDING)
    order = np.argsort(x, kind="stable")
    assert (np.diff(cal.predict_many(x[order])) >= -ROUNDING).all()


@pytest.mark.parametrize("damage", [{"least": 0.0}, {"least": 0.9, "greatest": 0.1}, {"greatest": "1"}])
def test_damaged_maps_are_refused(damage):
    data = json.loads(VennAbers("score-prior").map().to_json())
    with pytest.raises(ValueError, match="least"):
        load_map(json.dumps({**data, **damage}))


# -- rare streams ------------------------------------------------------------------------------------------------------

#: What the model makes of the true log-odds: slope about their centre, and offset. Its own totals are 1.0, 1.7 to 1.9,
#: 1.8 to 2.0 and .6 times the events.
MODELS = [(1.0, 0.0), (1.2, 0.4), (1.0, 0.7), (0.8, -0.4)]


def rare_stream(rate, rows, seed):
    """Draw true log-odds about a centre for which their mean probability is `rate`, and outcomes."""
    rng = np.random.default_rng([seed, round(1e6 * rate)])
    levels = norm.ppf((np.arange(2000) + 0.5) / 2000)
    centre = logit(rate) - 0.5
    for _ in range(50):  # a fixed point: the mean is nearly exponential in the centre
        centre += math.log(rate / np.mean(expit(centre + levels)))
    z = rng.standard_normal(rows)
    return z, centre, rng.random(rows) < expit(centre + z)


@pytest.mark.full
@pytest.mark.parametrize(("rate", "rows"), [(0.05, 100_000), (0.02, 200_000), (0.005, 400_000)])
def test_the_total_is_right_and_nothing_is_impossible(rate, rows):
    """Forecast 2,000 to 5,000 events, each before it was learned, cold start included.

    The total is compared with that of the rate of events so far, which has no bias and the same sampling error: the
    quotient scatters by 0.3 % at most, and the mean over three streams by 0.2 %. Intervals depend only on the order of
    the scores, and are computed once.
    """
    totals = {model: [] for model in MODELS}
    for seed in range(3):
        z, centre, y = rare_stream(rate, rows, seed)
        cal, pairs = VennAbers(), np.empty((rows, 2))
        for k, (score, label) in enumerate(zip(expit(centre + z).tolist(), y.tolist(), strict=True)):
            pairs[k] = cal.predict_interval_one(score)
            cal.learn_one(score, label)
        assert (self_consistent(*pairs.T) <= 0.0).mean() > 0.01, "no forecast of 0 to be repaired"
        so_far = (np.cumsum(y) - y) / np.maximum(np.arange(rows), 1)
        minimax = log_minimax(*pairs.T)
        for slope, offset in MODELS:
            p = score_prior(*pairs.T, expit(centre + slope * z + offset))
            assert ((p > 0.0) & (p < 1.0)).all()
            loss, other = (-np.log(np.where(y, q, 1.0 - q)).mean() for q in (p, minimax))
            assert loss < 1.001 * other  # the total does not cost a thousandth of the log loss of that point
            totals[slope, offset].append(p.sum() / so_far.sum())
    for model, found in totals.items():
        assert np.mean(found) == pytest.approx(1.0, abs=0.01), model
