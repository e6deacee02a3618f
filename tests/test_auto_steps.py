"""The compiled step of `Auto`: whole streams, late labels, and the memories that its kernel keeps by itself."""

import itertools
import json
import math
from itertools import pairwise

import numpy as np
import pytest

from streamcal import Auto, InputError, StateError, states
from streamcal.app.doctor import kernel_form
from streamcal.calibrators.auto import earlier as of_before
from streamcal.calibrators.auto.experts import NAMES
from streamcal.calibrators.auto.mixture import FAR, MOST_LINES, RATES, STACK_PRECISION
from streamcal.calibrators.auto.specialists import SPECIALISTS
from streamcal.kernels.ensemble import FadingMoments, RecentScores
from streamcal.kernels.fast_path import LARGEST_WEIGHT, SMALLEST_WEIGHT
from streamcal.kernels.specialists import ScoreCounts
from streamcal.live import Segmented
from streamcal.memories.decay import RESCALE_HALF_LIVES, CountDecay
from streamcal.memories.memory import OUTWEIGHING, OUTWEIGHING_ONE
from streamcal.memories.windows import CountWindow
from streamcal.parameters.scales import Logit, Probability
from streamcal.states import signed
from streamcal.statistics.bernstein_moments import BernsteinMoments
from streamcal.statistics.score_tree import ScoreTree

#: Enough for the curves to be fitted again, every 64 observations, and short where kernels are not compiled.
LONG = 150 if kernel_form() == "compiled" else 70
#: Of how many rows one is asked whether its forecast left the state as it was: writing it takes as long as ten rows.
SELDOM = 10


def stream(n, seed=1):
    """Scores, some of them clamped, labels, and weights, some of them 0."""
    rng = np.random.default_rng(seed)
    scores = rng.random(n)
    scores[::17] = rng.choice([0.0, 1.0, 1e-9], len(scores[::17]))
    return scores, rng.random(n) < 0.2 + 0.5 * scores, rng.choice([0.0, 1.0, 1.0, 0.25, 3.0], n)


def plain(cal):
    """The state as JSON: to the last bit."""
    return json.dumps(cal.state_dict())


@pytest.mark.parametrize("delay", [0, 3])
def test_a_stream_in_one_call_is_the_loop(delay):
    one, other, learned = Auto(delay), Auto(delay), Auto(delay)
    scores, y, w = stream(LONG)
    said = one.predict_learn_many(scores, y, w)
    for place, row in enumerate(zip(scores.tolist(), y.tolist(), w.tolist(), strict=True)):
        assert other.predict_one(row[0]) == said[place]
        other.learn_one(*row)
    learned.learn_many(scores, y, w)
    assert plain(one) == plain(other) == plain(learned)


@pytest.mark.parametrize("delay", [0, 3])
@pytest.mark.parametrize(("repeats", "gap"), [(False, None), (True, None), (True, 1e4)])
def test_issuing_and_learning_at_once_is_learning(delay, repeats, gap):
    """Without a delay; with one, `learn_one` judges by what was said `delay` observations ago."""
    hooked, plainly = Auto(delay), Auto(0)
    scores, y, w = stream(LONG)
    scores = scores.round(1) if repeats else scores
    for place, (score, label, weight) in enumerate(zip(scores.tolist(), y.tolist(), w.tolist(), strict=True)):
        x, t = hooked.scale.coordinate(score), None if gap is None else gap * place
        time = math.nan if t is None else t
        before = plain(hooked) if place % SELDOM == 0 else None
        said = hooked._issue(x, time)
        assert before is None or plain(hooked) == before
        assert all(type(number) is float for number in said)
        if delay == 0:
            assert hooked.predict_one(score, t) == plainly.predict_one(score, t)
        hooked._learn_issued(x, float(label), weight, time, json.loads(json.dumps(said)))
        plainly.learn_one(score, label, weight, t)
    assert hooked.n == plainly.n
    if delay == 0:
        learned, expected = hooked.state_dict()["learned"], plainly.state_dict()["learned"]
        assert json.dumps({**learned, "clamped": 0}) == json.dumps({**expected, "clamped": 0})  # the hook counts none


@pytest.mark.parametrize("lateness", [1, 4])
@pytest.mark.parametrize("gap", [None, 1e4])
def test_at_a_fixed_lateness_the_hooks_are_the_delay(lateness, gap):
    """Each label comes that many predictions late, so that the forecast judged is the one that was issued."""
    hooked, told, issued = Auto(lateness), Auto(lateness), []
    scores, y, _ = stream(LONG)
    for place, (score, label) in enumerate(zip(scores.tolist(), y.tolist(), strict=True)):
        x, t = hooked.scale.coordinate(score), None if gap is None else gap * place
        issued.append((score, label, x, t, hooked._issue(x, hooked._time(t))))
        assert hooked.predict_one(score, t) == told.predict_one(score, t)
        if place >= lateness:
            score, label, x, t, said = issued[place - lateness]
            hooked._learn_issued(x, float(label), 1.0, hooked._time(t), said)
            told.learn_one(score, label, 1.0, t)
    assert hooked.weights() == told.weights()


def test_what_was_said_must_be_of_this_mixture():
    cal = Auto()
    before, said = plain(cal), cal._issue(0.5, math.nan)
    for wrong in ([], said[:-1], [*said, 1.0], [*said, *[0.5] * 12], [*said[:-7], *said[-6:]], np.array([said])):
        with pytest.raises(ValueError, match=r"numbers that were said|dimensions|that the \w+ said|learned by then"):
            cal._learn_issued(0.5, 1.0, 1.0, math.nan, wrong)
    assert plain(cal) == before
    cal._learn_issued(0.5, 1.0, 1.0, math.nan, None)  # nothing was remembered: it is judged by what is said now
    assert cal.n == 1.0


def test_a_recorded_step_leads_to_the_same_curvatures():
    """With a delay regressions repeat what they did before: their θ and A, to the last bit, also after a restart."""
    cal, live = Auto(delay=4), []
    scores, y, w = stream(LONG, seed=2)
    for place, row in enumerate(zip(scores.tolist(), y.tolist(), (w + 0.5).tolist(), strict=True)):
        live.append(json.dumps(states.plain(cal._live.state())))
        if place == 60:
            cal = Auto.from_state(cal.state_dict())  # what is late then has no record
        cal.learn_one(*row)
        if place >= 4:
            assert json.dumps(states.plain(cal._then.state())) == live[place - 3]


# ---- the memories of the kernel ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "weights", [(1.0,), (0.1, 0.3), (1.0, 1e-12, 1e7), (SMALLEST_WEIGHT, 1.0, LARGEST_WEIGHT)], ids=str
)
def test_recent_scores_are_a_window(weights):
    """`CountWindow` to the last bit: sums of fractions are made anew when it makes them anew."""
    rng = np.random.default_rng(4)
    size, tree, held = 20, ScoreTree(scale=Logit()), ScoreTree(scale=Logit())
    window = CountWindow(held, None, size)
    recent = RecentScores(tree.tree, size, OUTWEIGHING, OUTWEIGHING_ONE)
    for _ in range(120):
        x, y, w = float(rng.integers(-9, 9)) / 8.0, float(rng.random() < 0.4), float(rng.choice(weights))
        window.learn(x, y, w, 0.0)
        if recent.add(x, y, w):
            tree.restore(tree.empty().state())
            tree.update_many(*recent.held().T.copy())
            recent.summed_anew()
        rows, evicted = window.held()
        assert recent.held().tolist() == rows.tolist()
        assert recent.evicted == evicted
        assert [column.tolist() for column in tree.tree.to_arrays()] == [
            column.tolist() for column in held.tree.to_arrays()
        ]


def test_fading_moments_are_a_decay():
    """`CountDecay` to the last bit, past two rescalings."""
    rng = np.random.default_rng(5)
    sums, held = BernsteinMoments(3, Probability()), BernsteinMoments(3, Probability())
    decay, fading = CountDecay(held, None, 5.0), FadingMoments(sums.sums, 5.0, RESCALE_HALF_LIVES)
    assert fading.n == decay.n == 0.0
    for _ in range(200):
        x, y, w = rng.random(), float(rng.random() < 0.4), float(rng.choice([1.0, 0.3, 1e6]))
        decay.learn(x, y, w, 0.0)
        fading.add(x, y, w)
        assert sums.state() == held.state()
        assert (fading.clock, fading.halvings, fading.n) == (decay.clock, decay.halvings, decay.n)


# ---- specialists ---------------------------------------------------------------------------------------------------


def repeating(n, seed=3):
    """Scores of ten values, of which the labels say something else than they do, and times three hours apart."""
    rng = np.random.default_rng(seed)
    leaf = rng.integers(0, 10, n)
    return (leaf + 0.5) / 10.0, rng.random(n) < (0.1 + 0.8 * (leaf % 2)), 1.7e9 + 10_800.0 * np.arange(n)


@pytest.mark.parametrize("delay", [0, 3])
def test_a_stream_with_times_is_the_loop_and_goes_on_after_a_restart(delay):
    one, other, learned = Auto(delay), Auto(delay), Auto(delay)
    scores, y, t = repeating(LONG)
    said = one.predict_learn_many(scores, y, None, t)
    for place, (score, label, time) in enumerate(zip(scores.tolist(), y.tolist(), t.tolist(), strict=True)):
        before = plain(other) if place % SELDOM == 0 else None
        assert other.predict_one(score, time) == said[place]
        assert before is None or plain(other) == before
        other.learn_one(score, label, 1.0, time)
        if place == 12 * SELDOM:  # after regressions on the time began to speak
            other = Auto.from_state(json.loads(before))
            other.learn_one(score, label, 1.0, time)
    learned.learn_many(scores, y, None, t)
    assert plain(one) == plain(other) == plain(learned)
    later = t[-1] + 4_000.0
    assert other.predict_many(scores[:20], later).tolist() == [other.predict_one(s, later) for s in scores[:20]]


def test_without_times_and_repeats_specialists_are_silent():
    """The forecast is that of the ensemble, to the last bit, and no weight moves."""
    cal = Auto()
    rng = np.random.default_rng(5)
    for score, label in zip(rng.random(LONG).tolist(), (rng.random(LONG) < 0.5).tolist(), strict=True):
        x = cal.scale.coordinate(score)
        assert cal._steps.at(x, np.nan) == cal._live.at(x)
        cal.learn_one(score, label)
    assert cal.specialist_weights() == Auto().specialist_weights()
    assert len(cal.map().knots) == 257


def test_a_map_has_the_scores_that_repeat():
    cal = Auto()
    scores, y, _ = repeating(LONG)
    cal.learn_many(scores, y)
    asked = [*np.unique(scores).tolist(), 0.123, 0.4567, 0.0, 1.0]
    # Between knots the map is linear in log-odds, as the forecast: rounding of the interpolation only.
    assert cal.predict_many(asked).tolist() == pytest.approx([cal.predict_one(one) for one in asked], abs=1e-12)
    counted = sum(cal.specialist_weights()[name] for name in ("score counts 1", "score counts .997"))
    assert counted > 0.15  # .1 before


@pytest.mark.skipif(kernel_form() != "compiled", reason="thousands of observations")
def test_a_daily_cycle_is_learned_from_times_alone():
    """The log-odds move by ±1.5 with the time of the day: worth .19 nats to who knows, and told to no other."""
    rng = np.random.default_rng(7)
    t = 1800.0 * np.arange(4_000)
    score, moved = 0.5, 1.5 * np.sin(2.0 * np.pi * t / 86_400.0)
    y = rng.random(4_000) < 1.0 / (1.0 + np.exp(-moved))
    p = Auto().predict_learn_many(np.full(4_000, score), y, None, t)
    known = 1.0 / (1.0 + np.exp(-moved))
    more = [-np.log(np.where(y, one, 1.0 - one)).mean() for one in (p, known)]
    assert more[0] < more[1] + 0.02  # 80 nats for four parameters and the hours before: 55 seen


def wave(n, seed=7):
    """Scores, labels and random times five minutes apart; the log-odds move by ±1.5 in a cycle of 5.3 hours."""
    rng = np.random.default_rng(seed)
    t = 1.7e9 + np.cumsum(rng.exponential(300.0, n))
    x = rng.normal(0.0, 1.0, n)
    known = 1.0 / (1.0 + np.exp(-x - 1.5 * np.sin(2.0 * np.pi * t / 19_080.0)))
    return 1.0 / (1.0 + np.exp(-x)), rng.random(n) < known, t, known


@pytest.mark.skipif(kernel_form() != "compiled", reason="thousands of observations")
def test_a_period_that_nobody_told_is_found():
    """It is worth 203 nats to who knows it and the probabilities; a third of them is lost until it is learned."""
    scores, y, t, known = wave(4_000)
    cal = Auto()
    losses = [
        -np.log(np.where(y, p, 1.0 - p)).sum()
        for p in (known, cal.predict_learn_many(scores, y, None, t), Auto().predict_learn_many(scores, y))
    ]
    assert losses[1] < losses[0] + 100.0
    assert losses[2] > losses[0] + 150.0
    assert 1.0 / cal._last.search.frequency == pytest.approx(19_080.0, rel=2e-3)
    assert sum(cal.specialist_weights()[name] for name in ("period", "corrected by period")) > 0.5


@pytest.mark.skipif(kernel_form() != "compiled", reason="a period takes hundreds of observations")
@pytest.mark.parametrize("delay", [0, 3])
def test_what_has_found_a_period_goes_on_after_a_restart(delay):
    """As plain data and as bytes, before and after; and without times, or where nothing is learned, nothing moves."""
    scores, y, t, _ = wave(1_200)
    w = np.random.default_rng(8).choice([0.0, 1.0, 2.5], 1_200)
    cal = Auto(delay)
    for start in range(0, 1_200, 200):
        rows = slice(start, start + 200)
        twins = [Auto.from_state(json.loads(json.dumps(cal.state_dict()))), Auto.from_bytes(cal.to_bytes())]
        said = cal.predict_learn_many(scores[rows], y[rows], w[rows], t[rows])
        for twin in twins:
            assert twin.predict_learn_many(scores[rows], y[rows], w[rows], t[rows]).tolist() == said.tolist()
            assert plain(twin) == plain(cal)
    assert cal._last.search.learned > 100
    before, x = plain(cal), cal.scale.coordinate(0.4321)
    cal.predict_one(0.4321, t[-1] + 1e6)
    cal.learn_one(0.4321, True, 0.0, t[-1])
    assert plain(cal) == before
    assert cal._steps.at(x, math.nan) == cal._live.at(x)
    own = len(cal._live.kernel.issue(x)) + 7  # five means, and two numbers
    assert len(cal._issue(x, math.nan)) == own + 1  # without a time no specialist speaks of a new score
    assert len(cal._issue(x, t[-1])) == own + cal._last.issued


@pytest.mark.skipif(kernel_form() != "compiled", reason="a period takes hundreds of observations")
@pytest.mark.parametrize(
    ("place", "value"), [(0, []), (1, [1e9] * 700), (2, [0, 0]), (2, [5, 10**9]), (3, [-1.0, 0.0, 0.0]), (4, [[0.0]])]
)
def test_a_damaged_search_is_refused(place, value):
    cal = Auto()
    scores, y, t, _ = wave(700)
    cal.learn_many(scores, y, None, t)
    state = cal.state_dict()
    assert state["learned"]["specialists"]["now"]["search"][3][0] > 0.0
    state["learned"]["specialists"]["now"]["search"][place] = value
    with pytest.raises(StateError):
        Auto.from_state(signed(state))


def as_before(shares):
    """Weights and log-wealth of the rows judged by what was issued: earlier versions had no others."""
    rows, wealth = shares[0][:2], shares[1][:2]
    return rows, [one - max(wealth) for one in wealth]


def weights_of_rows_as_issued(cal):
    """`specialist_weights` of these alone."""
    rows, wealth = map(np.array, as_before(cal._last.state()["shares"]))
    weights = np.exp(wealth) @ rows / np.exp(wealth).sum()
    return dict(zip(SPECIALISTS, weights.tolist()[1:], strict=True))


def test_weights_of_a_state_from_before_the_period_are_shared_with_it():
    """The experts of the period have theirs from the other cycles: those of all others, and the sum, stay."""
    cal = Auto(delay=2)
    scores, y, t = repeating(LONG)
    cal.learn_many(scores, y, None, t)
    state = cal.state_dict()
    for part in ("now", "then"):
        saved = state["learned"]["specialists"][part]
        saved = {key: value for key, value in saved.items() if key not in ("search", "periodic", "hours")}
        rows, wealth = as_before(saved["shares"])
        rows = [[*row[:3], *[sum(row[3:]) / 4.0] * 4] for row in rows]
        state["learned"]["specialists"][part] = {**saved, "shares": [rows, wealth]}
    judged = state["learned"]["specialists"]["judged"]
    state["learned"]["specialists"]["judged"] = [[*one[:2], one[2][:7], one[3][:2]] for one in judged]
    earlier = Auto.from_state(signed(state))
    weights, before = earlier.specialist_weights(), weights_of_rows_as_issued(cal)
    assert [weights[name] for name in list(weights)[:2]] == pytest.approx([before[name] for name in list(before)[:2]])
    assert sum(weights.values()) == pytest.approx(sum(before.values()))
    assert weights["period"] / weights["day"] == pytest.approx(0.006 / 0.02)
    assert weights["hours"] / weights["day"] == pytest.approx(0.008 / 0.02)
    earlier.learn_many(scores, y, None, t)
    assert plain(Auto.from_state(earlier.state_dict())) == plain(earlier)


def test_weights_of_a_state_from_before_the_hours_are_shared_with_them():
    """Their expert has its weight from the four on the day and the week: those of all others, and the sum, stay."""
    cal = Auto(delay=2)
    scores, y, t = repeating(LONG)
    cal.learn_many(scores, y, None, t)
    state = cal.state_dict()
    specialists = state["learned"]["specialists"]
    for part in ("now", "then"):
        rows, wealth = as_before(specialists[part]["shares"])
        rows = [[*row[:3], *[sum(row[3:7] + row[9:]) / 4.0] * 4, *row[7:9]] for row in rows]
        specialists[part] = {k: v for k, v in specialists[part].items() if k != "hours"} | {"shares": [rows, wealth]}
    specialists["judged"] = [[*one[:2], one[2][:9], one[3][:2]] for one in specialists["judged"]]
    earlier = Auto.from_state(signed(state))
    weights, before = earlier.specialist_weights(), weights_of_rows_as_issued(cal)
    for name in ("score counts 1", "score counts .997", "period", "corrected by period"):
        assert weights[name] == pytest.approx(before[name])
    assert sum(weights.values()) == pytest.approx(sum(before.values()))
    assert weights["hours"] / weights["day"] == pytest.approx(0.008 / 0.02)
    assert earlier._last.profile.learned == 0  # it begins now, and speaks when it has learned 100
    earlier.learn_many(scores, y, None, t)
    assert plain(Auto.from_state(earlier.state_dict())) == plain(earlier)


def opening(n, seed=11):
    """Scores, labels and times 15 minutes apart; the log-odds are higher from 8:00 to 17:30, Mondays to Fridays."""
    rng = np.random.default_rng(seed)
    t = 1_699_228_800.0 + 900.0 * np.arange(n)  # from a Monday on
    is_open = (t % 86_400.0 >= 28_800.0) & (t % 86_400.0 < 63_000.0) & ((t // 86_400.0 + 3.0) % 7.0 < 5.0)
    x = rng.normal(0.0, 1.0, n)
    known = 1.0 / (1.0 + np.exp(-x - np.where(is_open, 1.0, -0.7)))
    return 1.0 / (1.0 + np.exp(-x)), rng.random(n) < known, t, known


@pytest.mark.skipif(kernel_form() != "compiled", reason="thousands of observations")
def test_hours_that_open_and_close_in_steps_are_learned():
    """They are worth 238 nats to who knows them and the probabilities; 46 are lost until they are learned."""
    scores, y, t, known = opening(6_000)
    cal = Auto()
    losses = [
        -np.log(np.where(y, p, 1.0 - p)).sum()
        for p in (known, cal.predict_learn_many(scores, y, None, t), Auto().predict_learn_many(scores, y))
    ]
    assert losses[1] < losses[0] + 70.0
    assert losses[2] > losses[0] + 200.0
    assert cal.specialist_weights()["hours"] > 0.5
    said = [cal.predict_one(0.5, t[-1] + 900.0 * k) for k in range(1, 673)]
    right = np.array([round(np.log(p / (1.0 - p)) + 0.15) for p in said])  # 1 where open, −1 or 0 where not
    step = (np.arange(6_000, 6_672) * 900.0 + 1_699_228_800.0) % 86_400.0
    assert (right[(step >= 28_800.0) & (step < 63_000.0)] == 1).mean() == pytest.approx(5.0 / 7.0, abs=0.02)
    assert not (right[(step < 28_800.0) | (step >= 63_000.0)] == 1).any()


@pytest.mark.parametrize(
    ("part", "value"),
    [
        (0, [0.0] * 335),
        (0, [-1.0] + [0.0] * 335),
        (1, [1e9] + [0.0] * 335),
        (2, [5.0] + [0.0] * 335),
        (2, [math.nan] + [0.0] * 335),
        (3, 0.5),
        (4, [0, 10]),
        (4, [5000, 10]),
        (4, [5, 10**6]),
    ],
)
def test_a_damaged_profile_is_refused(part, value):
    cal = Auto()
    scores, y, t = repeating(20)
    cal.learn_many(scores, y, None, t)
    state = cal.state_dict()
    state["learned"]["specialists"]["now"]["hours"][0][part] = value
    with pytest.raises(StateError):
        Auto.from_state(signed(state))
    for wrong in ([1.0], None, [state["learned"]["specialists"]["now"]["hours"][0]]):
        state["learned"]["specialists"]["now"]["hours"] = wrong
        with pytest.raises(StateError):
            Auto.from_state(signed(state))


@pytest.mark.parametrize("told", [False, True])
def test_specialists_cost_no_more_than_their_bound(told):
    """Labels are what the specialists do not expect: against the ensemble alone, which the mixture falls back to."""
    cal, more = Auto(), 0.0
    long = 3_000 if kernel_form() == "compiled" else 150
    for place in range(long):
        score, t = (place % 5 + 0.5) / 5.0, 1_800.0 * place if told else None
        p = cal.predict_one(score, t)
        z = cal._live.at(cal.scale.coordinate(score))
        alone = 1.0 / (1.0 + np.exp(-z))
        y = p < alone or (p == alone and place % 2 == 0)
        more += np.log((alone if y else 1.0 - alone) / (p if y else 1.0 - p))
        cal.learn_one(score, bool(y), 1.0, t)
    assert more <= np.log(2.0 / 0.8) + long * np.log(1.0 / (1.0 - 1e-5)) + 1e-9
    assert more > 0.2  # it does cost something


def test_times_that_are_none():
    cal = Auto()
    for bad in (float("nan"), float("inf"), "noon"):
        with pytest.raises(InputError):
            cal.predict_one(0.5, bad)
        with pytest.raises(InputError):
            cal.learn_one(0.5, True, 1.0, bad)
        with pytest.raises(InputError):
            cal.learn_many([0.5], [True], None, [bad])
    assert cal.n == 0.0


def test_a_table_of_scores_is_bounded():
    """Ten thousand scores, each learned three times: the last ones are held, and forecasts of the others are plain."""
    counts = ScoreCounts(2, 10.0, (1.0,))
    for x in np.repeat(np.linspace(-5.0, 5.0, 10_000 if kernel_form() == "compiled" else 300), 3).tolist():
        counts.learn(x, 1.0, 1.0)
    assert len(counts.state()) == 8
    assert counts.find(5.0) >= 0
    assert counts.find(-5.0) == -1
    assert counts.has_repeated(counts.find(5.0))
    # Three positive labels, and ten as likely as the forecast, ½.
    assert counts.forecast(counts.find(5.0), 0, 0.0) == pytest.approx(np.log(8.0 / 5.0))


def test_what_an_earlier_version_saved_is_taken():
    """States had no specialists."""
    cal = Auto(2)
    scores, y, _ = repeating(20)
    cal.learn_many(scores, y)
    state = cal.state_dict()
    learned = {name: value for name, value in state["learned"].items() if name != "specialists"}
    earlier = Auto.from_state({**{k: v for k, v in state.items() if k != "check"}, "streamcal": 1, "learned": learned})
    assert earlier.weights() == cal.weights()
    earlier.learn_one(0.5, True)
    assert earlier.n == 21.0


@pytest.mark.parametrize("delay", [0, 3])
def test_a_state_whose_specialists_are_apart_is_taken(delay):
    """An earlier version had three fields for what is one record now; one that is damaged is refused in both forms."""
    cal = Auto(delay)
    cal.learn_many(*repeating(20)[:2])
    state = {**cal.state_dict(), "streamcal": 1}
    del state["check"]
    parts = state["learned"].pop("specialists")
    for damage in ({}, {"now": None}, {"then": parts["then"] if delay == 0 else None}, {"judged": None}):
        one = {**parts, **damage}
        apart = {"last": one["now"], "last_then": one["then"], "judged": one["judged"]}
        for more in (apart, {"specialists": one}):
            saved = {**state, "learned": {**state["learned"], **more}}
            if one == parts:
                assert plain(Auto.from_state(saved)) == plain(cal)
            else:
                with pytest.raises(StateError):
                    Auto.from_state(saved)
    for wrong in ({}, {**parts, "judged": [*parts["judged"], [0.0]]}, {**parts, "then": 1.0}, {**parts, "more": 1}):
        with pytest.raises(StateError):
            Auto.from_state({**state, "learned": {**state["learned"], "specialists": wrong}})


def test_what_is_made_of_earlier_states_has_the_constants_of_today():
    assert (len(RATES), STACK_PRECISION, -FAR) == (of_before.RATES, of_before.STACK_PRECISION, of_before.SWITCHED)
    assert of_before.RESTARTED == 1 + MOST_LINES


def forms(said, specialists):
    """What is issued today with what earlier versions did not say made neutral; as they issued it; and as they issued
    it before there was the last expert, which then says what all say."""
    size, rows = len(NAMES), int(said[-1])
    start, own = 2 * (size + 5), 2 * (size + 8) + 6 * rows
    sides, third, block, tail = said[:start], said[own - 6 : own - 4], said[own:-7], said[-7:]
    of_rows = [said[start + k * rows : start + (k + 1) * rows] for k in range(6)]
    before, now = of_rows, of_rows
    block_now = block
    if rows == 6:  # late: what is judged by now, or for specialists the second half, says what stands before it
        before = [row[:4] for row in of_rows]
        now = [[*row, *row[2:]] for row in before]
        if len(block) > 1:
            z, negative, positive = block[:specialists], block[specialists:][:2], block[specialists + 4 :][:2]
            block, block_now = [*z, *negative, *positive], [*z, *negative * 2, *positive * 2]
    flat, flat_now = (list(itertools.chain(*each)) for each in (before, now))
    earlier = [*sides, *flat, *third, *block, *tail[:-1], 4.0 if rows == 6 else rows]
    neutral = [*sides, *flat_now, *third * 3, *block_now, *tail]
    last = {size - 1, 2 * size + 4}  # at either knot the experts, five mixtures
    without = [number for place, number in enumerate(earlier) if place not in last]
    as_all = [neutral[place + 1] if place in last else number for place, number in enumerate(neutral)]
    return (neutral, earlier), (as_all, without)


@pytest.mark.parametrize(("delay", "came_late"), [(0, False), (0, True), (3, False)])
@pytest.mark.parametrize("y", [0.0, 1.0])
def test_what_earlier_versions_issued_is_taken(delay, came_late, y):
    """Without lines and what is judged by now; and without the last expert. It is learned as what is issued now, where
    specialists speak and where not, on time and late."""
    cal = Auto(delay)
    scores, labels, _ = repeating(LONG)
    issued = cal._issue(0.3, math.nan)
    cal.learn_many(scores, labels)
    if came_late:  # to a join, which triples the rows of the mixtures, and doubles those of specialists
        cal._learn_issued(0.3, 1.0, 1.0, math.nan, issued)
    assert len(cal._live._mixture.state()[0][1]) == (6 if delay or came_late else 2)
    for score, spoke in ((scores[0], True), (0.1234, False)):
        x = cal.scale.coordinate(float(score))
        said = cal._issue(x, math.nan)
        for late in (0, 2):
            for neutral, earlier in forms(said, cal._last.size):
                assert len(neutral) == len(said) > len(earlier) + 3
                one, other = (Auto.from_state(cal.state_dict()) for _ in range(2))
                for each, numbers in ((one, neutral), (other, earlier)):
                    for _ in range(late):
                        each.learn_one(0.3, True)
                    each._require_issued(numbers)
                    each._learn_issued(x, y, 1.0, math.nan, numbers)
                assert plain(one) == plain(other)
                assert one.n == cal.n + late + 1.0
        assert (len(said) > len(cal._issue(cal.scale.coordinate(0.1234), math.nan))) == spoke


def test_what_no_version_issued_is_refused():
    """Nor what versions of before 2026-11-23 did, which had no means of labels at the end, nor a third mixture."""
    cal = Auto()
    cal.learn_many(*repeating(20)[:2])
    said = cal._issue(0.5, math.nan)
    before = plain(cal)
    ((_, earlier), _) = forms(said, cal._last.size)
    for wrong in (earlier[:-7], [*earlier[:-1], 4.0], [*earlier[:-1], 3.0], earlier[1:], 0.5, "said"):
        with pytest.raises(InputError, match="not the numbers that were issued"):
            cal._learn_issued(0.5, 1.0, 1.0, math.nan, wrong)
    assert plain(cal) == before


@pytest.mark.parametrize("score", [1e-5, 0.001, 0.01])
def test_a_rare_label_among_the_first_moves_forecasts_by_little(score):
    """After ten labels a regression has seen where the scores are; of fewer, one click made .33 of a score of .001."""
    said = []
    for before in range(16):
        cal, mirror = Auto(), Auto()
        for y in [False] * before + [True]:
            cal.learn_one(score, y)
            mirror.learn_one(1.0 - score, not y)
        said.append(cal.predict_one(score))
        # Rounding of 1 − score, and experts that know which label is which, see `docs/auto.md`.
        assert mirror.predict_one(1.0 - score) == pytest.approx(1.0 - said[-1], abs=0.01)
    assert max(said) < 0.06
    assert all(a > b for a, b in pairwise(said))


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, 65.0, -1e300])
def test_numbers_that_cannot_have_been_issued_are_refused(wrong):
    alone, segmented = Auto(), Segmented(Auto(), by=["page"])
    scores, y, _ = repeating(60)
    alone.learn_many(scores, y)
    segmented.learn_many(scores, {"page": [1] * 60}, y)
    states = plain(alone), plain(segmented)
    said, parts = alone._issue(0.5, math.nan), segmented.issue_parts(0.5, {"page": 1})
    for place in (0, len(said) // 2, -1):
        said[place], before = wrong, said[place]
        with pytest.raises(InputError, match="issued"):
            alone._learn_issued(0.5, 1.0, 1.0, math.nan, said)
        said[place], parts[7 + place if place >= 0 else place] = before, wrong
        with pytest.raises(InputError, match="issued"):
            segmented.learn_issued(0.5, {"page": 1}, True, parts)
    assert (plain(alone), plain(segmented)) == states


def test_the_score_keeps_less_weight_where_labels_were_issued():
    """It may have nearly all where each label comes at once, and .85 at most after one that came late."""
    state = {**Auto().state_dict(), "streamcal": 1}
    del state["check"]
    state["learned"]["live"]["mixture"][6] = [9.0]
    for late, most in ((False, 1.0 - 1e-4), (True, 0.85)):
        cal = Auto.from_state(state)
        if late:
            said = cal._issue(0.0, math.nan)
            cal.learn_one(0.5, False)
            cal._learn_issued(0.0, 1.0, 1.0, math.nan, said)
        else:
            cal.learn_one(0.5, True)
        assert cal._live._mixture.weights()[-2] == pytest.approx(most, abs=1e-4)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("counts", [[0.5, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0]] * 2),
        ("counts", [[99.0, 1.0, 1.0, 1.0, 0.0, 1.0, 0.0]]),
        ("counts", [[0.5, 1.0, 1.0, -1.0, 0.0, 1.0, 0.0]]),
        ("counts", [[0.5, 1e15, 1.0, 1.0, 0.0, 1.0, 0.0]]),
        ("counted", -1.0),
        ("timed", 3),
        ("shares", [[[0.5]], [0.0]]),
        ("cycles", [1]),
    ],
)
def test_damaged_specialists_are_refused(field, value):
    cal = Auto()
    cal.learn_many(*repeating(20)[:2])
    state = {**cal.state_dict(), "streamcal": 1}
    del state["check"]
    state["learned"]["specialists"]["now"][field] = value
    with pytest.raises(StateError):
        Auto.from_state(state)


@pytest.mark.parametrize("delay", [0, 5])
@pytest.mark.parametrize("weight", [1.0, 1001.0, 1e12])
def test_a_saved_copy_goes_on_where_some_scores_repeat_and_others_do_not(delay, weight):
    draw = np.random.default_rng(4)
    scores = np.where(draw.random(300) < 0.5, draw.choice(np.linspace(0.1, 0.9, 15), 300), draw.random(300))
    labels = draw.random(300) < scores
    cal, later = Auto(delay=delay), scores[200:]
    cal.learn_many(scores[:200], labels[:200], np.where(np.arange(200) % 3 == 0, weight, 1.0))
    copy = Auto.from_state(json.loads(json.dumps(cal.state_dict(), allow_nan=False)))
    assert copy.state_dict() == cal.state_dict()
    assert copy.predict_learn_many(later, labels[200:]).tolist() == cal.predict_learn_many(later, labels[200:]).tolist()


@pytest.mark.parametrize("rows", [0, 3, 40])
def test_a_state_without_specialists_is_saved_and_read_again_with_a_delay(rows):
    cal = Auto(delay=5)
    cal.learn_many(np.linspace(0.1, 0.9, 30), np.arange(30) % 2 == 0)
    state = cal.state_dict()
    learned = {name: value for name, value in state["learned"].items() if name != "specialists"}
    earlier = Auto.from_state(signed({**state, "learned": learned}))
    earlier.learn_many(np.linspace(0.2, 0.8, rows), np.arange(rows) % 3 == 0)
    assert Auto.from_state(earlier.state_dict()).predict_one(0.3) == earlier.predict_one(0.3)
