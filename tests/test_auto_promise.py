"""`Auto` never loses more than it promises to the score: adversaries, delays, and labels in any order or never."""

import math

import numpy as np
import pytest

from streamcal import Auto

N = 3_000


def against(p, score, i, rng):
    """The label that `Auto` finds less likely than the score does."""
    return p < score


def lure(p, score, i, rng):
    """Labels that reward departures from the score for a while, and then punish them."""
    return (p > score) if i // 300 % 2 == 0 else (p < score)


def blocks(p, score, i, rng):
    """All labels of a spell are equal."""
    return i // 150 % 2 == 0


def random(p, score, i, rng):
    """The score is right."""
    return rng.random() < score


def taken(order, waiting, learned, delay, rng):
    """The place of the forecast whose label comes next; None where it never does.

    A forecast was made after `waiting[k][0]` labels. None may be later than `delay`: in another order than that of the
    forecasts, one is drawn among those that are not yet due, if each of those due can still be in time after it.
    """
    if order == "never" and rng.random() < 0.2:
        waiting.pop(0)
        return None
    if order == "any":
        chosen = int(rng.integers(len(waiting)))
        ahead = sorted(at for k, (at, *_) in enumerate(waiting) if k != chosen)
        if all(learned + 1 + k - at <= delay for k, at in enumerate(ahead)):
            return chosen
    return 0


def excesses(adversary, delay, order, seed=1):
    """`Auto` after each label: its loss less that of the score, what it promises, and the bound on that."""
    rng, cal = np.random.default_rng(seed), Auto(delay)
    waiting, learned, excess = [], 0, 0.0
    unlikely, most = [], 0  # whether a label had less than ¼ by the score and cost something; the most in d + 1 labels
    for i in range(N):
        score = float(rng.uniform(0.02, 0.98))
        x = cal.scale.coordinate(score)
        issued, p = cal._issue(x, math.nan), cal.predict_one(score)
        waiting.append((learned, score, x, p, bool(adversary(p, score, i, rng)), issued))
        if len(waiting) <= delay:
            continue
        place = taken(order, waiting, learned, delay, rng)
        if place is None or not waiting:
            continue
        at, score, x, p, y, issued = waiting.pop(place)
        assert learned - at <= delay
        given, lost = score if y else 1.0 - score, math.log((score if y else 1.0 - score) / (p if y else 1.0 - p))
        excess += lost
        cal._learn_issued(x, float(y), 1.0, math.nan, issued)
        learned += 1
        unlikely.append(given < 0.25 and lost > 0.0)
        most = max(most, sum(unlikely[-delay - 1 :]) if delay else 0)
        yield excess, cal.promised, math.log(4.0) + delay / 4.0 + most


@pytest.mark.sample(4)
@pytest.mark.parametrize("adversary", [against, lure, blocks, random])
@pytest.mark.parametrize("delay", [0, 48, 1_000])
@pytest.mark.parametrize("order", ["in", "any", "never"])
def test_the_excess_is_never_above_the_promise(adversary, delay, order):
    """The promise is ln 4 + delay/4 + surprises, but for the 1e-12 nats a label that are left to bet with."""
    worst = -math.inf
    for excess, promised, bound in excesses(adversary, delay, order):
        worst = max(worst, excess)
        assert excess <= promised + 1e-9
        assert promised <= bound + 1e-8
    if adversary is against and delay < 1_000:
        assert worst > 0.5 * promised, "the adversary is too weak to test anything"


@pytest.mark.parametrize("given", [None, 5])
def test_later_labels_than_known_are_paid_for_by_the_promise(given):
    """A delay that is found, and one that was given too small: `promised` bounds the excess at any time."""
    rng, cal = np.random.default_rng(3), Auto(given)
    waiting, excess, before = [], 0.0, cal.promised
    for i in range(2_000):
        score = float(rng.uniform(0.02, 0.98))
        p = cal.predict_one(score)
        waiting.append((score, p, p < score))
        if len(waiting) > (60 if i > 500 else 3):
            score, p, y = waiting.pop(0)
            excess += math.log((score if y else 1.0 - score) / (p if y else 1.0 - p))
            cal.learn_one(score, y)
            assert excess <= cal.promised + 1e-9
    assert cal.promised > before
    assert cal.label_delay == (5 if given else 60)


def test_heavy_labels_are_paid_for_by_the_promise():
    """Losses of weight w count w/mean times; labels heavier than the mean may cost more than was set aside."""
    rng, cal = np.random.default_rng(4), Auto()
    excess, count, total = 0.0, 0.0, 0.0
    for _ in range(2_000):
        score, w = float(rng.uniform(0.02, 0.98)), float(rng.pareto(1.2) + 0.1)
        p = cal.predict_one(score)
        y = p < score
        count, total = 0.9999 * count + 1.0, 0.9999 * total + w
        excess += w * count / total * math.log((score if y else 1.0 - score) / (p if y else 1.0 - p))
        cal.learn_one(score, y, w)
        assert excess <= cal.promised + 1e-4
    assert math.isfinite(cal.promised)


def test_with_labels_in_time_it_is_the_mixture_with_a_prior_of_a_quarter():
    """The weight of the score is ¼ of its likelihood relative to that of `Auto`."""
    cal = Auto()
    score = 1.0 / (1.0 + math.exp(-1.0))  # a knot
    log_ratio = 0.0
    for k in range(400):
        guard = cal._mixture.guard
        assert guard.budget == pytest.approx(math.log(4.0) + log_ratio, abs=1e-9)
        p, y = cal.predict_one(score), k % 2 == 0
        assert guard.guarded(1.0, -1.0) == pytest.approx(mixed(1.0, -1.0, math.exp(-guard.budget)), abs=1e-12)
        log_ratio += math.log((p if y else 1.0 - p) / (score if y else 1.0 - score))
        cal.learn_one(score, y)


def mixed(x, z, w):
    """Log-odds of the mixture of log-odds x with weight w and z."""
    p = w / (1.0 + math.exp(-x)) + (1.0 - w) / (1.0 + math.exp(-z))
    return math.log(p / (1.0 - p))


def test_forecasts_whose_label_never_comes_change_nothing():
    """Those at scores that get a label later are what that label judges, which docs/states.md says."""
    rng = np.random.default_rng(5)
    asked, silent, judged = Auto(), Auto(), Auto()
    for _ in range(300):
        score = float(rng.uniform(0.02, 0.98))
        y = bool(rng.random() < score**2)
        asked.predict_many([0.99, 0.995])
        judged.predict_one(0.5)
        for cal in (asked, silent, judged):
            cal.predict_one(score)
            cal.learn_one(score, y)
    assert np.array_equal(asked.map().log_odds, silent.map().log_odds)
    assert asked.to_bytes() == silent.to_bytes()
    for cal in (silent, judged):
        cal.learn_one(0.5, True)
    assert judged.label_delay > silent.label_delay == 0
