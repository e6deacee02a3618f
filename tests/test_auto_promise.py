"""`Auto` and `Protected` keep their promise: adversaries, delays, and labels in any order or never."""

import math

import numpy as np
import pytest

from streamcal import Auto, InputError, Protected

N = 3_000


def against(p, score, i, rng):
    """Return the label that the calibrator finds less likely than the score does."""
    return p < score


def lure(p, score, i, rng):
    """Labels that reward departures from the score for a while, and then punish them."""
    return (p > score) if i // 300 % 2 == 0 else (p < score)


def blocks(p, score, i, rng):
    """All labels of a spell are equal."""
    return i // 150 % 2 == 0


def random(p, score, i, rng):
    """Draw the label by the score, which is right."""
    return rng.random() < score


def taken(order, waiting, learned, delay, rng):
    """Return the place of the forecast whose label comes next; None if it never does.

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


def excesses(cal, adversary, delay, order, seed=1):
    """After each label: the loss less that of the score, what is promised, and the surprises among d + 1 labels."""
    rng = np.random.default_rng(seed)
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
        yield excess, cal.promised, most


def of_full(case):
    return pytest.param(case, marks=pytest.mark.full)


@pytest.mark.sample(8)
@pytest.mark.parametrize("adversary", [against, lure, blocks, random])
@pytest.mark.parametrize("delay", [0, 48, of_full(1_000)])
@pytest.mark.parametrize("order", ["in", of_full("any"), of_full("never")])
@pytest.mark.parametrize("method", ["auto", "protected"])
def test_the_excess_is_never_above_the_promise(method, adversary, delay, order):
    """It is ln 4 or ln 2, the delay, and what surprises cost, but for the 1e-12 nats a label that are left to bet."""
    worst = -math.inf
    cal = Auto(delay) if method == "auto" else Protected(delay=delay)
    constant = math.log(4.0 if method == "auto" else 2.0) + delay
    for excess, promised, surprises in excesses(cal, adversary, delay, order):
        worst = max(worst, excess)
        assert excess <= promised + 1e-9
        assert promised <= constant + 8.0 * surprises + 1e-8
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
    assert 30.0 < cal.label_delay <= 60.0


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
    """Those at scores that get a label later are what that label judges, which docs/states_measured.md says."""
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


def test_protected_in_a_loop_keeps_its_promise_as_in_a_join():
    """Its own log of predictions gives each label the prediction that it judges; the states are equal."""
    rng = np.random.default_rng(6)
    loop, join = Protected(delay=60), Protected(delay=60)
    waiting, excess = [], 0.0
    for _ in range(1_500):
        score = float(rng.choice([0.05, 0.3, 0.7, 0.95]))
        x = join.scale.coordinate(score)
        issued, p = join._issue(x, math.nan), loop.predict_one(score)
        waiting.append((score, x, p, p < score, issued))
        if len(waiting) > 60:
            score, x, p, y, issued = waiting.pop(0)
            excess += math.log((score if y else 1.0 - score) / (p if y else 1.0 - p))
            loop.learn_one(score, y)
            join._learn_issued(x, float(y), 1.0, math.nan, issued)
            assert excess <= loop.promised + 1e-9
    assert loop.to_bytes() == join.to_bytes()
    assert Protected.from_bytes(loop.to_bytes()).predict_one(0.4) == loop.predict_one(0.4) == loop.map()(0.4)
    for said in ([0.0], [-1.0, 0.0, 0.0], [1e6, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 1e6, 0.0], [0.0, 0.0, math.nan]):
        with pytest.raises(InputError, match="issued with the prediction"):
            join._require_issued(said)


def test_protected_forgets_predictions_whose_label_never_comes():
    """Up to 4,096 are logged. A label of weight 0 takes its prediction with it."""
    cal = Protected(delay=3)
    cal.predict_many(np.linspace(0.01, 0.99, 5_000))
    assert len(cal._late._order) == 4_096
    for score in np.linspace(0.01, 0.99, 5_000):
        cal.learn_one(float(score), True, 0.0)
    assert not cal._late._order
    assert not cal._late._of
    assert cal.n == 0.0


@pytest.mark.parametrize("delay", [-1, 1.5, 100_001, "48"])
def test_a_delay_is_a_number_of_labels(delay):
    with pytest.raises(InputError, match="delay"):
        Protected(delay=delay)


def in_a_loop(lag, lost, *, asked=1, further=(), scores=(0.5,), delay=None, n=4_000):
    """Return the excess over the score's loss, and the promise: labels are `lag` predictions late, some lost."""
    rng, waiting, excess, cal = np.random.default_rng(1), [], 0.0, Auto(lag if delay is None else delay)
    for i in range(n):
        score = float(rng.choice(scores))
        rate = 1.0 / (1.0 + math.exp(-1.5 * math.sin(i / 40.0)))
        for _ in range(asked):
            p = cal.predict_one(score)
        cal.predict_many(list(further))
        waiting.append((score, p, rng.random() < rate, rng.random() < lost))
        if len(waiting) > lag:
            score, p, y, is_lost = waiting.pop(0)
            if not is_lost:
                excess += math.log((score if y else 1.0 - score) / (p if y else 1.0 - p))
                cal.learn_one(score, y)
    return excess, cal.promised


@pytest.mark.sample(24)
@pytest.mark.parametrize("lag", [0, 20])
@pytest.mark.parametrize("lost", [0.0, 0.01, 0.1])
@pytest.mark.parametrize("asked", [1, 2])
@pytest.mark.parametrize("further", [(), (0.2, 0.5, 0.8) * 4])
def test_lost_labels_and_further_predictions_leave_the_promise(lag, lost, asked, further):
    """All scores are equal, so that the delay alone tells which prediction a label belongs to."""
    excess, promised = in_a_loop(lag, lost, asked=asked, further=further)
    assert excess <= promised
    assert excess < -100.0, "the rate cycles slowly enough to be followed"


def test_the_delay_is_found_from_scores_that_tell_their_labels_apart():
    """Every other score is one of three; the rest are their own."""
    scores = np.concatenate([np.repeat([0.3, 0.5, 0.7], 400), np.linspace(0.2, 0.8, 1_200)])
    rng, cal, waiting = np.random.default_rng(2), Auto(), []
    for score in rng.permutation(scores).tolist():
        cal.predict_one(score)
        waiting.append(score)
        if len(waiting) > 25:
            cal.learn_one(waiting.pop(0), bool(rng.random() < 0.5))
    assert cal._steps.lag == 25


@pytest.mark.sample(2)
@pytest.mark.parametrize("many", [3, 1_000])
def test_further_predictions_change_nothing_with_labels_in_time(many):
    rng, asked, silent = np.random.default_rng(5), Auto(), Auto()
    for _ in range(60 if many > 100 else 400):
        score = float(rng.choice([0.1, 0.3, 0.5, 0.9]))
        y = bool(rng.random() < score**2)
        further = rng.choice([0.1, 0.2, 0.3, 0.5, 0.9], many)
        asked.predict_many(further)
        for cal in (asked, silent):
            cal.predict_one(score)
        asked.predict_many(further)
        for cal in (asked, silent):
            cal.learn_one(score, y)
    assert asked.to_bytes() == silent.to_bytes()


def test_a_stream_in_one_call_belongs_to_itself():
    """What was predicted before waits for other labels than those of the rows."""
    scores, y = np.tile([0.2, 0.5, 0.7], 50), np.tile([False, True, True, False, True], 30)
    asked, silent = Auto(), Auto()
    asked.predict_many(scores)
    assert np.array_equal(asked.predict_learn_many(scores, y), silent.predict_learn_many(scores, y))
    assert asked.to_bytes() == silent.to_bytes()


@pytest.mark.full
@pytest.mark.parametrize(("rate", "factor", "delay"), [(5e-4, 1.0, 5_000), (2e-3, 10.0, 1_000)])
def test_sums_of_rare_late_labels(rate, factor, delay):
    """The sum of predictions is that of labels, within 3 standard errors: lateness counts in units of information."""
    rng, n = np.random.default_rng(0), 60_000
    true = np.clip(rate * np.exp(0.8 * rng.standard_normal(n) - 0.32), 0.0, 0.5)
    y, scores = rng.random(n) < true, factor * true / (1.0 - true + factor * true)
    cal, issued = Auto(), []
    for i in range(n):
        issued.append(cal.issue(float(scores[i])))
        if i >= delay:
            cal.settle(issued[i - delay], bool(y[i - delay]))
    rows = slice(0 if factor == 1.0 else n // 4, n)
    p = np.array([one.p for one in issued])[rows]
    assert abs(p.sum() - y[rows].sum()) <= 3.0 * math.sqrt(y[rows].sum())


def test_scores_at_the_ends_of_the_scale_are_right_until_labels_say_otherwise():
    cal, tiny = Auto(), [0.0, 1e-9, 1e-7, 1.2e-7, 1e-6, 1e-5]
    least = 1.0 / (1.0 + math.exp(16.0))
    np.testing.assert_allclose(cal.predict_many(tiny), np.maximum(tiny, least), rtol=1e-9)
    np.testing.assert_allclose(1.0 - cal.predict_many([1.0, 1.0 - 1e-6]), [least, 1e-6], rtol=1e-6)
    for k in range(400):  # a score of 0 that is wrong in a twentieth of the cases
        cal.learn_one(0.0, k % 20 == 7)
    assert cal.predict_one(0.0) == pytest.approx(0.05, rel=0.4)


def test_sampled_negatives_are_worth_what_they_tell():
    """A negative that stands for 100 does not make a click a hundredth of an observation."""
    rng, n = np.random.default_rng(3), 300_000
    x = rng.normal(-4.6, 1.0, n)
    y = rng.random(n) < 1.0 / (1.0 + 3.0 * np.exp(-x))
    kept = y | (rng.random(n) < 0.01)
    scores, y = 1.0 / (1.0 + np.exp(-x[kept])), y[kept]
    w = np.where(y, 1.0, 100.0)
    p = Auto().predict_learn_many(scores, y, w)
    later = slice(len(y) // 4, None)
    assert (w * p)[later].sum() / (w * y)[later].sum() == pytest.approx(1.0, abs=0.15)


def test_scores_at_the_ends_follow_a_rate_that_moves():
    """Most scores of a naive Bayes model are 0: the rungs count the labels there with memories of their own."""
    rng, cal = np.random.default_rng(0), Auto()
    rate = np.repeat([0.03, 0.3], [6_000, 3_000])
    y = rng.random(len(rate)) < rate
    p = cal.predict_learn_many(np.zeros(len(rate)), y)
    assert p[-2_000:].sum() == pytest.approx(y[-2_000:].sum(), rel=0.1)
    assert Auto.from_bytes(cal.to_bytes()).predict_one(0.0) == cal.predict_one(0.0)
