"""The expert of `Auto` on all observations: `VennAbers` over the knots beside the scores, fitted from time to time."""

import json

import numpy as np
import pytest
from weights_by_hand import WeightsByHand

from streamcal import Auto, StateError, VennAbers
from streamcal.calibrators.auto.experts import BEGINS, NAMES, PLACES, WHOLE
from streamcal.calibrators.auto.panel import KNOTS, KNOTS_A_UNIT, SCORES
from streamcal.kernels.logistic import logits, sigmoids
from streamcal.states import signed


def said(cal, name):
    """What an expert says at all knots."""
    out, found = np.empty(len(NAMES)), []
    for knot in range(len(KNOTS)):
        cal._live._panel.forecast(knot, out)
        found.append(out[PLACES[name]])
    return np.array(found)


def stream(n, seed, positive=0.5):
    rng = np.random.default_rng(seed)
    scores = rng.random(n)
    scores[::9] = rng.choice([0.0, 1.0, 5e-324, 0.25], len(scores[::9]))
    return scores, rng.random(n) < positive * scores + 0.1, rng.choice([1.0, 0.5, 3.0], n)


@pytest.mark.parametrize("seed", [0, 1])
def test_it_is_the_log_minimax_point_of_all_observations_at_the_knots_beside_them(seed):
    """Each is shared between two knots, as a forecast at its score is."""
    cal, by_hand, fitted, kept = Auto(), VennAbers(), [], 0
    weights = WeightsByHand()
    for score, y, weight in zip(*(column.tolist() for column in stream(400, seed)), strict=True):
        cal.learn_one(score, y, weight)
        w = weights.relative(weight)
        x = cal.scale.coordinate(score)
        place = (x + KNOTS[-1]) * KNOTS_A_UNIT
        left = min(int(place), len(KNOTS) - 2)
        for knot, share in ((left, 1.0 - (place - left)), (left + 1, place - left)):
            if share > 0.0:
                by_hand.learn_one(float(SCORES[knot]), y, w * share)
        due = cal._live._panel.kernel.due
        if due != kept:
            fitted, kept = [*fitted, cal._live.learned], due
            p = by_hand.predict_many(SCORES)
            np.testing.assert_allclose(sigmoids(said(cal, WHOLE)), p, rtol=0.0, atol=1e-12)
            np.testing.assert_allclose(said(cal, WHOLE), np.clip(logits(p), -16.0, 16.0), atol=1e-6)
    more = np.diff(fitted)
    assert more.tolist() == [max(4, before // 16) for before in fitted[:-1]]
    assert len(more) > 40


@pytest.mark.parametrize("delay", [0, 3])
def test_before_four_labels_of_either_kind_it_says_what_a_line_says(delay):
    cal = Auto(delay)
    for k in range(30):
        assert (said(cal, WHOLE) == said(cal, BEGINS)).all()
        cal.learn_one(0.1 + 0.02 * k, k % 9 == 0)  # the fourth positive is the last but two
        if k == 27:
            assert (said(cal, WHOLE) != said(cal, BEGINS)).any()
            break
    else:
        pytest.fail("it was never fitted")


def test_it_forgets_nothing():
    """After 10,000 observations a score that was right for the first of them is still told apart."""
    cal = Auto()
    rng = np.random.default_rng(2)
    early = rng.random(5_000) < 0.8
    cal.learn_many(np.full(5_000, 0.25), early)
    cal.learn_many(np.full(10_000, 0.75), rng.random(10_000) < 0.3)
    p = sigmoids(said(cal, WHOLE))
    pooled = np.average([early.mean(), 0.3], weights=[5_000, 10_000])
    assert p[len(KNOTS) // 2 - 9] == pytest.approx(pooled, abs=0.02)  # it falls, so that the fit is one block
    # 15,000 sums of two shares of at most 1: rounding
    assert np.asarray(cal._live._panel.kernel.whole).sum() == pytest.approx(15_000.0, abs=1e-7)


@pytest.mark.parametrize("score", [0.001, 0.999, 0.3])
def test_equal_scores_are_forecast_by_their_own_labels(score):
    """Also at the end of what was seen, between two knots: sums at the nearest knot would leave the next one empty."""
    cal = Auto()
    cal.learn_many(np.full(4_000, score), np.arange(4_000) % 5 == 0)
    x = cal.scale.coordinate(score)
    place = (x + KNOTS[-1]) * KNOTS_A_UNIT
    left, z = int(place), said(cal, WHOLE)
    expected = logits(np.array([0.2]))[0]
    # log-minimax: as if one label in 4,000 more were known, and positive or negative
    assert z[left] + (place - left) * (z[left + 1] - z[left]) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("delay", [0, 3])
def test_it_goes_on_to_the_bit_wherever_it_is_saved(delay):
    cal = Auto(delay)
    for k, (score, y, w) in enumerate(zip(*(column.tolist() for column in stream(150, 3)), strict=True)):
        if k % 10 == 0:
            twin = Auto.from_state(json.loads(json.dumps(cal.state_dict())))
            assert (said(twin, WHOLE) == said(cal, WHOLE)).all()
            assert twin._live._panel.kernel.due == cal._live._panel.kernel.due
            twin.learn_one(score, y, w)
            cal.learn_one(score, y, w)
            assert json.dumps(twin.state_dict()) == json.dumps(cal.state_dict())
        else:
            cal.learn_one(score, y, w)


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (lambda whole: whole["sums"][0].__setitem__(3, -1.0), "not all numbers"),
        (lambda whole: whole["sums"].pop(), "shape"),
        (lambda whole: whole.update(labels=[0, 3]), "labels and their weights"),
        (lambda whole: whole.update(labels=[300, 3]), "more labels"),
        (lambda whole: whole.update(due=7), "fitted before"),
        (lambda whole: whole.pop("due"), "due missing"),
    ],
)
def test_damaged_sums_are_refused(damage, match):
    cal = Auto()
    scores, y, w = stream(60, 4)
    cal.learn_many(scores, y, w)
    state = json.loads(json.dumps(cal.state_dict()))
    damage(state["learned"]["live"]["panel"]["whole"])
    with pytest.raises(StateError, match=match):
        Auto.from_state(signed(state))


def test_a_state_without_sums_has_no_curve_of_them():
    cal = Auto()
    cal.learn_many(*stream(60, 5))
    state = json.loads(json.dumps(cal.state_dict()))
    del state["learned"]["live"]["panel"]["whole"]
    with pytest.raises(StateError, match="another number of curves"):
        Auto.from_state(signed(state))
