"""Policies and memories at work: what enters, what leaves, what is counted. The laws are in `test_laws.py`."""

import inspect
import itertools
import json
import math
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from invariants import check
from laws import ROUNDED, assert_close, learned, through_json
from laws.binary import assert_same, without_forgetting
from sklearn.isotonic import isotonic_regression

from streamcal import (
    REGISTRY,
    Bernstein,
    CapabilityError,
    CrossVennAbers,
    Decay,
    Forever,
    Gaussian,
    HistogramBinning,
    Identity,
    InputError,
    Interval,
    Isotonic,
    MergeError,
    MonotonePolynomial,
    NearIsotonic,
    Platt,
    Prior,
    Probability,
    RetractionError,
    StateError,
    VennAbers,
    Window,
)
from streamcal.memories.decay import FORGOTTEN_HALF_LIVES, FURTHEST_AHEAD, PRUNE_FRACTION, RESCALE_HALF_LIVES
from streamcal.memories.policies import memory_under
from streamcal.states import plain, signed
from streamcal.statistics import score_table, score_tree
from streamcal.statistics.grid import Grid
from streamcal.statistics.score_table import GridTable
from streamcal.statistics.score_tree import PRUNED_CHANGE, ScoreTree
from streamcal.statistics.totals import Totals

METHODS = [Identity, Platt, HistogramBinning, Isotonic, Bernstein, VennAbers]
each_method = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)


def exact(**params):
    """Make a method whose map shows at once which scores are held."""
    return Isotonic(**params)


def held_scores(cal):
    """Return the scores that a tree holds."""
    return cal._engine.memory.statistic.scores().tolist()


# -- the policies as parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: Window(0),
        lambda: Window(-3),
        lambda: Window(2.5),
        lambda: Window(True),
        lambda: Window("5"),
        lambda: Window(None),
        lambda: Window(math.nan),
        lambda: Window(math.inf, by="time"),
        lambda: Window(0.0, by="time"),
        lambda: Window(5, by="weeks"),
        lambda: Window(timedelta(0)),
        lambda: Decay(0),
        lambda: Decay(-1.0, by="time"),
        lambda: Decay(math.inf),
        lambda: Decay(10**400),
        lambda: Window(10**400, by="time"),
        lambda: Decay("5"),
        lambda: Decay(5, by="day"),
        lambda: Decay(timedelta(days=-1)),
    ],
)
def test_impossible_policies_are_refused(make):
    with pytest.raises(InputError, match=r"is not possible|is no span of time"):
        make()


def test_a_span_of_time_needs_no_word():
    assert Window(timedelta(hours=1)) == Window(3600.0, by="time")
    assert Decay(timedelta(minutes=1)) == Decay(60.0, by="time")


def test_policies_are_frozen_and_compare_by_value():
    assert Window(5) == Window(5) != Window(6)
    assert Forever() == Forever()
    assert hash(Decay(3)) == hash(Decay(3))
    with pytest.raises(AttributeError):
        Window(5).size = 6


@pytest.mark.parametrize("policy", [5, None, "forever", Window])
def test_a_policy_is_an_object(policy):
    with pytest.raises(InputError, match="forgetting"):
        Identity(forgetting=policy)


# -- windows by count --------------------------------------------------------------------------------------------


def test_a_window_keeps_the_last_observations():
    cal = exact(forgetting=Window(3))
    for k in range(8):
        cal.learn_one(k / 8, k % 2)
        assert held_scores(cal) == [j / 8 for j in range(max(k - 2, 0), k + 1)]
    assert cal.n == 3.0


def test_a_window_counts_observations_and_not_weight():
    cal = learned(exact(forgetting=Window(2)), [(0.25, 1, 10.0), (0.5, 1, 0.5), (0.75, 0, 3.0)])
    assert cal.n == 3.5


def test_a_window_retracts_the_newest_equal_observation():
    """Seen in what leaves next: of a, b, a the first a is the oldest left."""
    cal = learned(exact(forgetting=Window(3)), [(0.25, 1), (0.5, 1), (0.25, 1)])
    cal.unlearn_one(0.25, 1)
    cal.learn_one(0.75, 1)
    assert held_scores(cal) == [0.25, 0.5, 0.75]
    cal.learn_one(0.875, 1)
    assert held_scores(cal) == [0.5, 0.75, 0.875]


def test_equal_means_score_label_and_weight():
    cal = learned(exact(forgetting=Window(5)), [(0.25, 1, 2.0)])
    for other in ((0.5, 1, 2.0), (0.25, 0, 2.0), (0.25, 1, 1.0)):
        cal.unlearn_one(*other)
    assert cal.n == 2.0
    assert cal.tally()["missed"] == 3
    cal.unlearn_one(0.25, 1, 2.0)
    assert cal.n == 0.0
    assert cal.tally()["missed"] == 3


def test_a_retraction_makes_room():
    cal = learned(exact(forgetting=Window(2)), [(0.25, 1), (0.5, 1)])
    cal.unlearn_one(0.5, 1)
    cal.learn_one(0.75, 0)
    assert held_scores(cal) == [0.25, 0.75]
    assert cal.tally()["missed"] == 0


@each_method
def test_a_window_stays_bounded_under_learning_and_unlearning(method):
    cal = method(forgetting=Window(10))
    for _ in range(500):
        cal.learn_one(0.5, 0)
        cal.learn_one(0.25, 1)
        cal.unlearn_one(0.25, 1)
    assert cal.n == 9.0
    assert len(cal._engine.memory._buffer) <= 20
    assert cal.bounded_memory


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=60))
def test_a_window_retracts_what_a_list_would(steps):
    """Few distinct observations, many retractions: gaps in the buffer, and equal observations at several places."""
    cal, held, missed = exact(forgetting=Window(4)), [], 0
    for number, learns in steps:
        score = (1 + number) / 4
        if learns:
            cal.learn_one(score, 1)
            held = [*held, score][-4:]
        else:
            cal.unlearn_one(score, 1)
            places = [place for place, other in enumerate(held) if other == score]
            missed += not places
            held = [other for place, other in enumerate(held) if place not in places[-1:]]
        assert held_scores(cal) == sorted(set(held))
        assert cal.n == len(held)
    assert cal.tally()["missed"] == missed
    assert json.dumps(through_json(cal).state_dict()) == json.dumps(cal.state_dict())


@pytest.mark.sample(2)
@pytest.mark.parametrize("policy", [Window(50), Window(50.0, by="time")], ids=["count", "time"])
@pytest.mark.parametrize("method", [Bernstein, Platt], ids=lambda method: method.name)
def test_a_window_of_floating_sums_does_not_drift(method, policy):
    """Sums are rebuilt once in a turnover: after forty of them, heavy weights long gone have left nothing behind."""
    rng = np.random.default_rng(5)
    scores, y = rng.random(2_000), rng.random(2_000) < 0.4
    w = np.where(np.arange(2_000) < 1_900, 1e6, 1.0) * (0.5 + rng.random(2_000))
    stream = list(zip(scores, y, w, np.arange(2_000.0), strict=True))
    cal = learned(method(forgetting=policy), stream)
    fresh = learned(method(), stream[-50:])
    assert_close(cal.predict_many(scores[-50:]), fresh.predict_many(scores[-50:]), 1e-9)
    assert cal.n == pytest.approx(fresh.n, rel=ROUNDED)


@pytest.mark.sample(2)
@pytest.mark.parametrize("policy", [Window(50), Window(50.0, by="time")], ids=["count", "time"])
@pytest.mark.parametrize("method", [Bernstein, Platt], ids=lambda method: method.name)
def test_the_sums_of_a_window_are_rebuilt_once_in_a_turnover(method, policy):
    """Of the weights held: then they are those of a fresh fit to the last bit, which what has left would not allow."""
    rng = np.random.default_rng(5)
    rows = list(zip(rng.random(300), rng.random(300) < 0.4, 0.5 + rng.random(300), np.arange(300.0), strict=True))
    cal = learned(method(forgetting=policy), rows[:240])
    equal = []
    for end in range(241, 301):
        cal.learn_one(*rows[end - 1])
        fresh = learned(method(), rows[end - 50 : end])
        equal.append(plain(cal._engine.memory.statistic.state()) == plain(fresh._engine.memory.statistic.state()))
    assert any(equal)


# -- windows by time ---------------------------------------------------------------------------------------------


def test_the_edge_of_a_time_window_is_open():
    """An observation exactly `size` old is gone, one a moment younger is not."""
    cal = learned(exact(forgetting=Window(10.0, by="time")), [(0.25, 1, 1.0, 0.0), (0.5, 1, 1.0, 0.5)])
    cal.learn_one(0.75, 0, 1.0, 9.5)
    assert held_scores(cal) == [0.25, 0.5, 0.75]
    cal.learn_one(0.75, 0, 1.0, 10.0)
    assert held_scores(cal) == [0.5, 0.75]


def test_late_observations_enter_where_they_belong():
    cal = learned(exact(forgetting=Window(10.0, by="time")), [(0.75, 1, 1.0, 10.0), (0.25, 1, 1.0, 3.0)])
    assert held_scores(cal) == [0.25, 0.75]
    cal.learn_one(0.5, 1, 1.0, 12.0)
    assert held_scores(cal) == [0.25, 0.5, 0.75]
    cal.learn_one(0.5, 1, 1.0, 13.0)
    assert held_scores(cal) == [0.5, 0.75]


def test_too_late_observations_are_counted_and_not_kept():
    cal = learned(exact(forgetting=Window(10.0, by="time")), [(0.75, 1, 1.0, 20.0), (0.25, 1, 1.0, 10.0)])
    cal.learn_many([0.25, 0.5, 0.5], [1, 1, 1], None, [9.0, 19.0, 5.0])
    assert cal.tally()["late"] == 3
    assert held_scores(cal) == [0.5, 0.75]
    cal.unlearn_one(0.25, 1, 1.0, 10.0)
    assert cal.tally()["missed"] == 1
    assert cal.n == 2.0


def test_in_one_batch_an_observation_can_be_too_late_for_the_one_before():
    cal = exact(forgetting=Window(10.0, by="time"))
    cal.learn_many([0.25, 0.5, 0.75], [1, 1, 1], None, [0.0, 100.0, 50.0])
    assert held_scores(cal) == [0.5]
    assert cal.tally()["late"] == 1


def test_predicting_ahead_and_back_moves_the_edge_and_moves_it_back():
    cal = learned(exact(forgetting=Window(10.0, by="time")), [(0.25, 0, 1.0, 0.0), (0.75, 1, 1.0, 5.0)])
    now = cal.predict_one(0.25)
    assert now == 0.0
    assert cal.predict_one(0.25, t=12.0) == 1.0  # only the positive is left
    assert cal.predict_one(0.25, t=15.0) == 0.25  # nothing is: the score itself
    assert cal.predict_one(0.25) == now
    assert cal.predict_one(0.25, t=-100.0) == now  # as of an earlier time is as of the clock
    assert cal.n == 2.0


def test_after_looking_ahead_learning_and_unlearning_see_the_present():
    cal = learned(exact(forgetting=Window(10.0, by="time")), [(0.25, 0, 1.0, 0.0), (0.75, 1, 1.0, 5.0)])
    cal.predict_one(0.25, t=1e9)
    cal.learn_one(0.5, 1, 1.0, 6.0)
    assert held_scores(cal) == [0.25, 0.5, 0.75]
    cal.predict_one(0.25, t=1e9)
    cal.unlearn_one(0.25, 0, 1.0, 0.0)
    assert cal.n == 2.0
    cal.predict_one(0.25, t=1e9)
    other = learned(cal.clone(), [(0.125, 0, 1.0, 5.0)])
    other.predict_one(0.25, t=1e9)
    cal.merge(other)
    assert held_scores(cal) == [0.125, 0.5, 0.75]
    cal.predict_one(0.25, t=1e9)
    assert through_json(cal).n == 3.0


def test_merging_windows_moves_the_clock_to_the_later_one():
    early = learned(exact(forgetting=Window(10.0, by="time")), [(0.25, 1, 1.0, 0.0), (0.5, 1, 1.0, 5.0)])
    late = learned(early.clone(), [(0.75, 0, 1.0, 11.0)])
    for one, other in ((early, late), (late, through_json(early))):
        merged = through_json(one)
        merged.merge(other)
        assert held_scores(merged) == [0.5, 0.75]
    assert held_scores(early) == [0.25, 0.5]


@pytest.mark.parametrize("t", [0.0, 1.7e18, -1e308, 1e308])
def test_an_observation_of_the_present_is_in_the_window(t):
    """Also where the clock is so large that it rounds clock − size to itself, as nanoseconds since 1970 do."""
    cal = learned(exact(forgetting=Window(60.0, by="time")), [(0.25, 1, 1.0, t)])
    assert cal.n == 1.0
    assert cal.tally()["late"] == 0


# -- decay -------------------------------------------------------------------------------------------------------


def test_by_count_every_observation_ages_the_others():
    cal = exact(forgetting=Decay(1))
    for k in range(1, 40):
        cal.learn_one(0.5, 1)
        assert cal.n == pytest.approx(2.0 - 2.0 ** (1 - k), abs=2 * PRUNE_FRACTION)


def test_by_time_weight_halves_with_each_half_life():
    cal = learned(exact(forgetting=Decay(10.0, by="time")), [(0.25, 0, 8.0, 100.0), (0.75, 1, 1.0, 120.0)])
    assert cal.n == 3.0
    cal.learn_one(0.5, 1, 4.0, 100.0)  # late: it has aged as if it had come in time
    assert cal.n == 4.0
    assert cal.tally()["late"] == 0


def test_by_time_only_differences_of_time_matter():
    stream = [(k / 16, k % 2, 1.0, 8.0 * k) for k in range(12)]
    here, there = (Platt(forgetting=Decay(64.0, by="time")) for _ in range(2))
    learned(here, stream)
    learned(there, [(score, y, w, t - 2.0**40) for score, y, w, t in stream])
    assert_same(here, there)


@pytest.mark.parametrize("by", ["count", "time"])
@each_method
def test_long_decay_is_the_weighted_fit(method, by):
    """Over many rescalings, against weights computed in one go; and pieces of any size leave the same."""
    rng = np.random.default_rng(8)
    size, half_life = 900, 20.0  # 45 half-lives, rescaled at every 16; what is pruned weighs less than 1e-9
    scores, y = rng.integers(1, 32, size) / 32, (rng.random(size) < 0.4).astype(int)
    w, t = rng.integers(1, 4, size).astype(float), np.arange(float(size))
    age = t[-1] - t
    expected = method()
    expected.learn_many(scores, y, w * np.exp2(-age / half_life))
    loop = learned(method(forgetting=Decay(half_life, by=by)), list(zip(scores, y, w, t, strict=True)))
    many = method(forgetting=Decay(half_life, by=by))
    for start, end in ((0, 7), (7, 700), (700, size)):
        many.learn_many(scores[start:end], y[start:end], w[start:end], t[start:end])
    for cal in (loop, many):
        assert cal.n == pytest.approx(expected.n, rel=2 * PRUNE_FRACTION)
        assert_close(cal.predict_many(np.arange(1, 32) / 32), expected.predict_many(np.arange(1, 32) / 32), 1e-6)


@pytest.mark.parametrize("method", [Platt, HistogramBinning, VennAbers], ids=lambda method: method.name)
@pytest.mark.parametrize("by", ["count", "time"])
def test_a_table_of_many_scores_drops_light_ones_between_heavy_ones(method, by, monkeypatch):
    """A range that went quiet is kept whole: there the light scores are all that is known."""
    for module in (score_table, score_tree):
        monkeypatch.setattr(module, "LARGEST_UNPRUNED", 8)
    cal = method(forgetting=Decay(1.0, by=by), resolution=None, scale=Probability())
    old = [0.1, 0.3, 0.6, 0.7, 0.8]
    cal.learn_many(old, np.arange(5) % 2, None, np.zeros(5))
    for k in range(1, 100):
        cal.learn_one([0.2, 0.25, 0.35, 0.4, 0.5][k % 5], k % 2, 1.0, float(k))
    statistic = cal._engine.memory.statistic
    held = statistic.scores() if hasattr(statistic, "scores") else statistic.columns()[0]
    quiet = [] if method is VennAbers else [0.1, 0.6, 0.7, 0.8]  # a test object outweighs what is light
    assert held.tolist() == sorted([*quiet, 0.2, 0.25, 0.35, 0.4, 0.5])
    assert cal._engine.memory.late == 0


@pytest.mark.parametrize("by", ["count", "time"])
@pytest.mark.parametrize("kind", ["any", "separated", "ties", "rare"])
def test_isotonic_under_decay_is_the_weighted_fit_at_every_score(by, kind):
    """Also where all observations near are old: pruning moved single scores by up to .59."""
    rng = np.random.default_rng(6)
    size, half_life = 1_900, 10.0  # weights from 1e-57 on
    s = {"ties": np.round(rng.random(size), 2), "rare": rng.beta(0.5, 5.0, size)}.get(kind, rng.random(size))
    y = s > 0.5 if kind == "separated" else rng.random(size) < s
    cal = Isotonic(forgetting=Decay(half_life, by=by))
    cal.learn_many(s, y, None, np.arange(float(size)))
    x, group = np.unique(s, return_inverse=True)
    weights = 0.5 ** ((size - 1 - np.arange(size)) / half_life)
    total, positive = np.bincount(group, weights), np.bincount(group, weights * y)
    # Two isotonic fits of fractional weights, whose sums are added up in different orders.
    assert_close(cal.predict_many(x), isotonic_regression(positive / total, sample_weight=total), 1e-12)


def test_pruning_a_tree_moves_no_score_by_more_than_is_stated(monkeypatch):
    """Of larger trees than those that are kept whole, at every single pruning."""
    monkeypatch.setattr(score_tree, "LARGEST_UNPRUNED", 0)
    moved, dropped = [], []
    prune = ScoreTree.prune

    def watched(tree, fraction):
        x, size = tree.scores(), tree._tree.size
        before = tree.isotonics(x)
        prune(tree, fraction)
        check(tree)
        moved.append(np.abs(tree.isotonics(x) - before).max())
        dropped.append(size - tree._tree.size)

    monkeypatch.setattr(ScoreTree, "prune", watched)
    rng = np.random.default_rng(7)
    cal = Isotonic(forgetting=Decay(8.0))
    for k in range(4_000):
        s = rng.random() if k % 400 < 300 else 0.9 + 0.1 * rng.random()
        cal.learn_one(s, rng.random() < s)
    assert 0.0 < max(moved) <= PRUNED_CHANGE
    assert sum(dropped) > 3_000


def test_what_decay_drops_is_a_bounded_fraction():
    cal = VennAbers(forgetting=Decay(1))
    kept = VennAbers(forgetting=Decay(1))
    for k in range(200):
        for one in (cal, kept):
            one.learn_one((k % 50) / 50, k % 2)
        assert cal.n == pytest.approx(2.0 - 2.0**-k, rel=PRUNE_FRACTION * (1 + 200 / RESCALE_HALF_LIVES))


def test_after_a_very_long_pause_nothing_is_left():
    cal = learned(exact(forgetting=Decay(1.0, by="time")), [(0.25, 1, 1e60, 0.0)])
    cal.learn_one(0.75, 0, 1.0, float(FORGOTTEN_HALF_LIVES))
    assert held_scores(cal) == [0.75]
    assert cal.n == 1.0


@pytest.mark.sample(4)
@pytest.mark.parametrize("first", [-1e308, -1e15, 0.0, 1.7e9])
@pytest.mark.parametrize("second", [0.0, 1e15, 1e308])
@each_method
def test_times_may_be_any_finite_numbers(method, first, second):
    for policy in (Decay(1.0, by="time", max_jump=math.inf), Window(1.0, by="time", max_jump=math.inf)):
        cal = learned(method(forgetting=policy), [(0.25, 1, 1.0, first), (0.75, 0, 1.0, second)])
        assert 0.0 <= cal.n <= 2.0
        for t in (-1e308, 1e308):
            assert 0.0 <= cal.predict_one(0.5, t) <= 1.0
        assert_same(through_json(cal), cal)


# -- a wrong clock -------------------------------------------------------------------------------------------------

LEAPING = [Window(3600.0, by="time"), Decay(3600.0, by="time"), Window(timedelta(hours=1), max_jump=timedelta(days=1))]
NOW, NEVER = 1.7e9, 4102444800.0  # the year 2100


@pytest.mark.parametrize("policy", LEAPING, ids=repr)
def test_a_time_far_ahead_is_refused_and_changes_nothing(policy):
    """One such row made every later one late, and every prediction that of this row."""
    cal = learned(exact(forgetting=policy), [(0.25, 1, 1.0, NOW), (0.75, 0, 1.0, NOW + 60.0)])
    before = cal.state_dict()
    with pytest.raises(InputError, match=rf"time {NEVER!r} is .* ahead of the latest one, {NOW + 60.0!r}.*max_jump"):
        cal.learn_one(0.5, True, 1.0, NEVER)
    with pytest.raises(InputError, match="at place 1"):
        cal.learn_many([0.5, 0.5, 0.5], [1, 1, 1], None, [NOW + 61.0, 1000.0 * NOW, NOW + 62.0])
    with pytest.raises(InputError, match="at place 1"):
        cal.predict_learn_many([0.5, 0.5, 0.5], [1, 1, 1], None, [NOW + 61.0, 1000.0 * NOW, NOW + 62.0])
    assert cal.state_dict() == before
    cal.learn_one(0.5, True, 1.0, NOW + 120.0)
    assert cal.tally()["late"] == 0
    assert 2.9 < cal.n <= 3.0


@pytest.mark.parametrize("policy", LEAPING, ids=repr)
def test_a_bound_on_jumps_is_one_of_jumps(policy):
    """The first time may be any, a batch may go further than the bound in steps, and a prediction may look ahead."""
    cal, step = exact(forgetting=policy), 20 * 3600.0
    cal.learn_many([0.5] * 4, [1] * 4, None, NOW + step * np.arange(4.0))
    assert 0.0 <= cal.predict_one(0.5, NEVER) <= 1.0
    assert cal.n >= 1.0
    other = through_json(cal)
    assert other.forgetting == policy
    with pytest.raises(InputError, match="max_jump"):
        other.learn_one(0.5, True, 1.0, NEVER)


def test_a_refused_time_in_a_later_part_of_a_batch_leaves_the_first_part_unlearned():
    cal = Platt(forgetting=Window(10.0, by="time"), refresh_every=2)
    with pytest.raises(InputError, match="max_jump"):
        cal.learn_many([0.5] * 5, [1] * 5, None, [0.0, 1.0, 2.0, 3.0, 1e9])
    assert cal.n == 0.0


@pytest.mark.parametrize("policy", [Decay(1000.0), Decay(1000.0, by="time")], ids=repr)
def test_few_rows_under_decay_are_learned_in_a_loop(policy, monkeypatch):
    """What arrays cost is spent on 12 rows and more that are predicted, and on 32 that are learned."""
    cal, calls = HistogramBinning(forgetting=policy), []
    scores, times = np.linspace(0.1, 0.9, 32), np.arange(32.0)
    cal.learn_many(scores, scores > 0.5, None, times)
    memory, ones = cal._engine.memory, np.ones(32)
    many = memory.statistic.update_many
    monkeypatch.setattr(memory.statistic, "update_many", lambda *rows: calls.append(len(rows[0])) or many(*rows))
    for size, pieces, parts in ((1, False, []), (11, False, []), (12, True, []), (31, True, []), (32, True, [32])):
        calls.clear()
        rows = [column[:size] for column in (scores, ones, ones, times + 31.0)]
        assert (memory.pieces(*rows) is not None) == pieces
        memory.learn_many(*rows)
        assert calls == parts


def test_what_a_bound_on_jumps_may_be():
    assert repr(Window(5.0, by="time")) == "Window(size=5.0, by='time')"
    assert repr(Decay(5.0, "time", 7.0)) == "Decay(half_life=5.0, by='time', max_jump=7.0)"
    assert Window(timedelta(hours=1), max_jump=timedelta(days=1)).max_jump == 86400.0
    for wrong in ({"by": "count", "max_jump": 100.0}, {"by": "time", "max_jump": 1.0}, {"by": "time", "max_jump": "x"}):
        for policy in (Window, Decay):
            with pytest.raises(InputError, match="max_jump"):
                policy(5.0, **wrong)


def additive_methods():
    """Every method that forgets, in its variants with a grid and without."""
    for method in REGISTRY.values():
        parameters = inspect.signature(method).parameters
        if "forgetting" in parameters and method is not MonotonePolynomial:  # slow, and its sums have no rows
            for resolution in (None, 16) if "resolution" in parameters else ():
                yield pytest.param(method, {"resolution": resolution}, id=f"{method.name}-{resolution}")
            if "resolution" not in parameters:
                yield pytest.param(method, {}, id=method.name)


def assert_answers(cal, t=None):
    """Probabilities, the same of one score and of many."""
    asked = [0.0, 0.3, 0.6, 0.7, 1.0]
    p = cal.predict_many(asked, t)
    assert ((p >= 0.0) & (p <= 1.0)).all()
    assert_close(p, [cal.predict_one(score, t) for score in asked], 1e-9)


@pytest.mark.parametrize(("method", "params"), list(additive_methods()))
def test_weights_of_any_size_may_fade_for_any_time(method, params):
    """They neither become rows of weight 0 nor vanish in the unit of a time far ahead."""
    for w, pause, y in itertools.product((1e-60, 1.0, 1e60), (500.0, 900.0, 999.0), (0, 1)):
        cal = method(forgetting=Decay(1.0, by="time"), **params)
        learned(cal, [(0.3, y, w, 0.0), (0.7, 1 - y, 1.0, 0.0)])
        assert_answers(cal, pause)
        for heavy in (1e-60, 1e60):
            cal.learn_one(0.7, 1 - y, heavy, pause)
            assert_answers(cal)
            assert_answers(cal, 1e300)


@pytest.mark.sample(4)
@pytest.mark.parametrize(("method", "params"), list(additive_methods()))
@pytest.mark.parametrize("score", [0.3, 0.301])
def test_what_was_rounded_away_by_a_retraction_is_no_obstacle(method, params, score):
    """Unlearn 1 beside 1e60, where a float has lost it.

    What is left after the retraction is a row of weight 0, or no weight, or the retraction is refused.
    """
    for rest in ([], [(0.305, 0)], [(0.8, 1), (0.1, 0)]):
        cal = method(**params)
        learned(cal, [(0.3, 1, 1e60), (score, 1, 1.0)])
        if isinstance(cal, Bernstein | MonotonePolynomial):
            state = cal.state_dict()
            with pytest.raises(RetractionError, match=r"accurate to less than 1e-10.*learn them anew"):
                cal.unlearn_one(0.3, 1, 1e60)
            assert cal.state_dict() == state
        else:
            cal.unlearn_one(0.3, 1, 1e60)
        assert_answers(learned(cal, rest))


@pytest.mark.parametrize("make", [Bernstein, lambda **policy: MonotonePolynomial(6, **policy)])
@pytest.mark.parametrize("heavy", [1e3, 1e12, 1e16, 1e20])
@pytest.mark.parametrize("timed", [False, True])
def test_a_heavy_observation_leaves_no_rounding_when_it_is_unlearned(make, heavy, timed):
    """Floating sums kept 3e-6 of weight 1e12, and .02 of 1e16."""
    rng = np.random.default_rng(5)
    scores = rng.random(200)
    labels = rng.random(200) < scores
    policy = {"forgetting": Decay(1000.0, by="time")} if timed else {}
    cal, never = make(**policy), make(**policy)
    for k, (score, label) in enumerate(zip(scores.tolist(), labels.tolist(), strict=True)):
        if k == 100:
            cal.learn_one(0.37, True, heavy, 100.0)
            cal = through_json(cal)
        for each in (cal, never):
            each.learn_one(score, label, 1.0, float(k))
    cal.unlearn_one(0.37, True, heavy, 100.0)
    places = np.linspace(0.0, 1.0, 101)
    # The last bits of the sums may be rounded otherwise, which the ridge magnifies: 3e-15 seen.
    assert_close(cal.predict_many(places), never.predict_many(places), 1e-9)


@pytest.mark.parametrize("make", [Gaussian, lambda: Gaussian(scale=Interval(0.0, 1.0)), Bernstein, MonotonePolynomial])
def test_retracting_twice_is_refused_where_the_sums_can_tell_and_harmless_where_they_cannot(make):
    """A polynomial of degree 20 knows 41 sums of the scores: of a few observations each is known."""
    rng, places = np.random.default_rng(3), np.linspace(0.0, 1.0, 101)
    refused = 0
    for size in [2, 3, 4, 5, 6, 8, 12, 40] * 3:
        cal = make()
        cal.learn_many(rng.random(size), np.arange(size) % 2)
        cal.learn_one(0.93, True)
        cal.unlearn_one(0.93, True)
        state = cal.state_dict()
        try:
            cal.unlearn_one(0.93, True)
        except RetractionError:
            refused += 1
            assert cal.state_dict() == state
        p = cal.predict_many(places)
        assert ((p >= 0.0) & (p <= 1.0)).all()
        assert np.diff(p).min() >= -1e-13
    assert refused >= (18 if cal.name in ("bernstein", "monotone-polynomial") else 6), refused


@pytest.mark.parametrize("make", [Gaussian, Bernstein, MonotonePolynomial])
def test_the_last_observation_has_the_score_that_was_learned(make):
    cal = make()
    cal.learn_one(0.25, True)
    with pytest.raises(RetractionError):
        cal.unlearn_one(0.75, True)
    cal.unlearn_one(0.25, True)
    assert cal.n == 0.0


@each_method
@pytest.mark.parametrize("by", ["count", "time"])
@pytest.mark.parametrize("heavy", [1e17, 1e60])
def test_what_outweighed_the_rest_leaves_a_window_without_a_trace(method, by, heavy):
    """By age, by retraction, and in a view from later on: sums of floats alone would hold nothing but its rounding."""
    stream = [(0.3, 1, 1.0, 0.0), (0.31, 0, heavy, 1.0), (0.5, 0, 1.0, 2.0), (0.55, 1, 1.0, 3.0), (0.7, 1, 2.0, 4.0)]
    left = learned(method(forgetting=Window(3, by=by)), stream)
    assert_same(left, learned(method(), stream[2:]), within=1e-9)
    taken = learned(method(forgetting=Window(3, by=by)), stream[:3])
    taken.unlearn_one(*stream[1])
    assert_same(taken, learned(method(), [stream[0], stream[2]]), within=1e-9)
    if by == "time":
        viewed = learned(method(forgetting=Window(3, by=by)), stream[:4])
        assert_close(
            viewed.predict_many([0.4, 0.5, 0.6], 4.5),
            learned(method(), stream[2:4]).predict_many([0.4, 0.5, 0.6]),
            1e-9,
        )


@pytest.mark.sample(36)
@pytest.mark.parametrize(("method", "params"), list(additive_methods()))
@pytest.mark.parametrize("by", ["count", "time"])
def test_a_window_is_its_reload_whatever_its_weights(method, params, by):
    """A score of weights 1e60 and 1e-60 was left with the rounding of the first, 1e44, when that went."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        cal = method(forgetting=Window(6, by=by), **params)
        for i in range(24):
            w = float(rng.choice([1e-60, 1e-30, 1.0, 1e30, 1e60]))
            cal.learn_one(float(rng.integers(0, 9)) / 8.0, int(rng.integers(2)), w, float(i))
        places = np.arange(17) / 16
        # Of weights 1e10 apart in one score the sums keep six digits, and the ridges magnify rounding as always.
        assert_close(cal.predict_many(places), through_json(cal).predict_many(places), 1e-5)


@pytest.mark.sample(3)
@pytest.mark.parametrize("method", [Platt, Isotonic, VennAbers])
@pytest.mark.parametrize("by", ["count", "time"])
def test_a_window_continues_as_its_reload_where_weights_stop_being_whole(method, by):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        rows = [(int(rng.integers(4)) / 4.0, int(rng.integers(2)), 1.0, float(t)) for t in range(20 + 3 * seed)]
        cal = learned(method(forgetting=Window(10, by=by)), rows)
        loaded = through_json(cal)
        for t in range(len(rows), len(rows) + 40):
            score, y, w = float(rng.random()), int(rng.integers(2)), float(rng.choice([0.1, 0.3, 0.7]))
            assert cal.predict_one(0.5, t) == loaded.predict_one(0.5, t)
            for one in (cal, loaded):
                one.learn_one(score, y, w, t)
        assert cal.to_bytes() == loaded.to_bytes()


@pytest.mark.parametrize("method", [Platt, Isotonic, VennAbers])
def test_a_window_of_few_observations_after_many_is_saved(method):
    """The number of observations that have left was above the window's size, which a state of rounded sums refuses."""
    cal = learned(method(forgetting=Window(5)), [(0.5, k % 2, 1.0) for k in range(50)])
    cal.unlearn_one(0.5, True)
    cal.learn_one(0.3, True, 0.3)
    assert through_json(cal).predict_one(0.3) == cal.predict_one(0.3)


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", [Platt, Isotonic, VennAbers])
@pytest.mark.parametrize("unit", [1.0, 0.3])
def test_a_stream_in_a_window_is_the_loop_where_weights_stop_being_whole(method, unit):
    rng = np.random.default_rng(2)
    for size in (3, 7, 40):
        loop, stream = method(forgetting=Window(size)), method(forgetting=Window(size))
        for n, factor in ((50, 1.0), (37, unit), (60, 1.0), (25, unit)):
            s, y, w = rng.random(n), rng.integers(0, 2, n), factor * rng.integers(0, 3, n)
            expected = []
            for row in zip(s.tolist(), y.tolist(), w.tolist(), strict=True):
                expected.append(loop.predict_one(row[0]))
                loop.learn_one(*row)
            assert stream.predict_learn_many(s, y, w).tolist() == expected
            assert stream.to_bytes() == loop.to_bytes()


@pytest.mark.sample(3)
@pytest.mark.parametrize("point", ["log-minimax", "brier-minimax", "self-consistent"])
@pytest.mark.parametrize("spread", [0.0, 16.0])
@pytest.mark.parametrize("forgetting", [Forever(), Window(30), Decay(5.0)], ids=repr)
def test_cross_venn_abers_does_not_fall_whatever_its_weights(point, spread, forgetting):
    """1 − p₀ was rounding where an observation weighed 1e16 times the test object: the map fell from 1 to 0."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        s = rng.random(60)
        cal = CrossVennAbers(point, folds=int(rng.choice([1, 2, 5])), forgetting=forgetting)
        cal.learn_many(s, rng.random(60) < s, 10.0 ** rng.uniform(-spread, spread, 60))
        p = cal.predict_many(np.sort(np.concatenate([s, np.linspace(0.0, 1.0, 100)])))
        assert np.diff(p).min() >= (-1e-13 if spread == 0.0 else -1e-7)


def test_means_of_a_cell_stay_in_it_whatever_a_retraction_leaves():
    table = GridTable(Grid(Probability(), 16))
    for x, w in ((0.501, 1e20), (0.502, 1.0)):
        table.update(x, 1.0, w)
    table.unlearn(0.501, 1.0, 1e20)
    table._cells[8, 4] = 4096.0  # the coordinate sum may round to any such number
    table.update(0.5, 1.0, 1.0)
    x, _, _ = table.points()
    assert x.tolist() == [table.grid.edges[8]]


@pytest.mark.parametrize("method", [Isotonic, VennAbers], ids=lambda method: method.name)
@pytest.mark.parametrize("weight", [1e-60, 1.0, 1e60])
@pytest.mark.parametrize("pause", [50.0, 450.0, 510.0, 700.0, 999.0])
def test_after_a_pause_of_many_half_lives_the_fit_is_still_monotone(method, weight, pause):
    """Also where weights, or the products of two of them, would underflow."""
    cal = learned(method(forgetting=Decay(1.0, by="time")), [(k / 100, k % 2, weight, 0.0) for k in range(100)])
    asked = np.arange(201) / 200
    for later in (0.0, 1.0):
        cal.learn_one(0.995, 1, 1e-60, pause + later)
        assert (np.diff(cal.predict_many(asked)) >= -1e-13).all()  # values within 1.4e-14 of one another tie
        if method is Isotonic:
            assert cal.predict_one(1.0) == pytest.approx(1.0, rel=1e-13)
    cal._engine.memory.statistic._tree.check()


def test_two_very_late_observations_are_compared_or_not_held():
    """Their products would underflow from 10⁻¹⁵⁴ on."""
    for age in (400.0, 495.0, 505.0, 660.0):
        stream = [(0.9, 1, 1.0, 0.0), (0.1, 1, 1.0, -age), (0.2, 0, 1.0, -age)]
        cal = learned(Isotonic(forgetting=Decay(1.0, by="time")), stream)
        assert cal.predict_one(0.1) == cal.predict_one(0.2) == (0.5 if cal.tally()["late"] == 0 else 1.0)


@pytest.mark.parametrize("w", [1.0, 1e8, 1e60])
@pytest.mark.parametrize("ahead", [0.0, 100.0, 900.0, 1e6])
def test_a_test_object_far_ahead_decides_alone(w, ahead):
    cal = learned(VennAbers(forgetting=Decay(1.0, by="time")), [(0.3, 1, 1.0, 0.0), (0.7, 0, 1.0, 0.0)])
    p0, p1 = cal.predict_interval_one(0.5, ahead, w=w)
    # 1/(2 + w') and (1 + w')/(2 + w') with w' = w·2^ahead
    assert p0 == pytest.approx(1.0 / (2.0 + min(w * 2.0 ** min(ahead, FURTHEST_AHEAD), 1e150)), rel=1e-12)
    assert p1 == pytest.approx(1.0 - p0, rel=1e-12)


def test_a_light_observation_is_not_a_late_one():
    """Whether something comes too late is a matter of its time, not of its weight beside others."""
    cal = learned(exact(forgetting=Decay(100.0, by="time")), [(0.125, 1, 1e10, 0.0)] + [(0.5, 0, 1e-30, 0.0)] * 10)
    assert cal.tally()["late"] == 0
    assert held_scores(cal) == [0.125, 0.5]


def test_by_time_what_has_faded_is_missed_when_retracted():
    cal = learned(exact(forgetting=Decay(1.0, by="time")), [(0.25, 1, 1.0, 0.0), (0.75, 0, 1.0, 100.0)])
    cal.unlearn_one(0.25, 1, 1.0, 0.0)
    assert cal.tally()["missed"] == 1
    assert cal.n == pytest.approx(1.0)
    with pytest.raises(RetractionError):
        cal.unlearn_one(0.25, 1, 1.0, 100.0)


@each_method
@given(data=st.data())
def test_by_time_everything_learned_can_be_unlearned_in_any_order(method, data):
    times = data.draw(st.lists(st.floats(0.0, 30.0), max_size=12))
    stream = [((k % 4) / 4, k % 2, 0.1 + k / 7, t) for k, t in enumerate(times)]
    cal = learned(method(forgetting=Decay(1.3, by="time")), stream)
    missed = 0
    for observation in data.draw(st.permutations(stream)):
        cal.unlearn_one(*observation)
        missed = cal.tally()["missed"]
    assert cal.n == pytest.approx(0.0, abs=1e-6 * (missed > 0))


def test_merging_decays_brings_the_earlier_one_up_to_date():
    half = Decay(10.0, by="time")
    early = learned(exact(forgetting=half), [(0.25, 1, 8.0, 0.0)])
    late = learned(exact(forgetting=half), [(0.75, 0, 1.0, 30.0)])
    merged = early.clone()
    merged.merge(early)
    merged.merge(late)
    assert merged.n == 2.0
    late.merge(early)
    assert late.n == 2.0
    assert early.n == 8.0


@given(
    st.lists(st.tuples(st.integers(0, 8), st.booleans(), st.floats(0.0, 500.0)), min_size=1, max_size=20),
    st.integers(0, 20),
)
# One part spans more half-lives than pass before its weights are rescaled, the other does not.
@example(rows=[(2, True, 0.0), (4, False, 400.0), (6, True, 480.0), (1, False, 390.0)], cut=2)
@example(rows=[(6, True, 480.0), (1, False, 390.0), (2, True, 0.0), (4, False, 400.0)], cut=2)
def test_merging_decays_of_any_age_is_concatenation(rows, cut):
    """Landmarks and rescalings differ between the parts; within 25 half-lives nothing is pruned."""
    stream = [(k / 8, y, 1.0, t) for k, y, t in rows]
    whole, left, right = (VennAbers(forgetting=Decay(20.0, by="time")) for _ in range(3))
    learned(whole, stream)
    learned(left, stream[:cut]).merge(learned(right, stream[cut:]))
    assert_same(left, whole, within=1e-9)


# -- the prior under the policies --------------------------------------------------------------------------------

WITH_PRIOR = [method for method in METHODS if method is not Identity]
each_with_prior = pytest.mark.parametrize("method", WITH_PRIOR, ids=lambda method: method.name)


@each_with_prior
@pytest.mark.parametrize("strength", [0.1, 7.7, 20.0])
def test_a_prior_never_counts(method, strength):
    for policy in (Forever(), Window(3), Window(3.0, by="time"), Decay(2)):
        cal = method(prior=Prior(strength), forgetting=policy)
        assert cal.n == 0.0
        learned(cal, [(0.25, 1, 1.0, 0.0), (0.5, 0, 1.0, 0.0)])
        assert cal.n == pytest.approx(1.0 + 0.5**0.5 if policy == Decay(2) else 2.0, rel=1e-9)
        assert through_json(cal).n == pytest.approx(cal.n, rel=1e-9)


@each_with_prior
def test_a_prior_survives_in_a_window(method):
    cal = learned(method(prior=Prior(20.0), forgetting=Window(2)), [(k / 16, 1, 1.0, 0.0) for k in range(16)])
    assert_same(cal, learned(method(prior=Prior(20.0)), [(14 / 16, 1), (15 / 16, 1)]), within=1e-6)


@each_with_prior
def test_a_prior_fades_under_decay_by_count(method):
    stream = [(k % 16 / 16, k % 3 == 0) for k in range(120)]
    faded = learned(method(prior=Prior(20.0), forgetting=Decay(4)), stream)
    without = learned(method(forgetting=Decay(4)), stream)
    scores = np.arange(16) / 16
    assert_close(faded.predict_many(scores), without.predict_many(scores), 1e-5)
    early, bare = (learned(method(prior=prior, forgetting=Decay(4)), stream[:2]) for prior in (Prior(20.0), None))
    assert np.abs(early.predict_many(scores) - bare.predict_many(scores)).max() > 0.2


@pytest.mark.parametrize("method", [Platt, VennAbers])
def test_what_is_held_is_told_when_it_counts_as_many_as_the_prior_did(method):
    """Decay has then dropped rows of the prior, and holds as many observations instead."""
    # After 498 half-lives a weight is dropped; 64 observations, as many as the prior has rows, are held then.
    cal = method(prior=Prior(20), forgetting=Decay(half_life=0.127))
    met = 0
    for k in range(300):
        cal.learn_one(k * 0.618 % 1.0, k % 3 == 0)
        met += cal._engine.memory.statistic.count == cal._engine.memory._prior_count
        assert cal.n > 0.9
    assert met > 0


@each_with_prior
def test_a_prior_counts_once_in_a_merge(method):
    one, other = (method(prior=Prior(20.0)) for _ in range(2))
    learned(one, [(0.25, 1), (0.5, 1)])
    learned(other, [(0.75, 0)])
    one.merge(other)
    assert_same(one, learned(method(prior=Prior(20.0)), [(0.25, 1), (0.5, 1), (0.75, 0)]), within=1e-6)


def test_a_prior_that_was_forgotten_stays_so_when_saved():
    """A half-life of 1/1000 of an observation forgets everything at each, and the prior with it."""
    cal = learned(exact(prior=Prior(20.0), forgetting=Decay(1e-3)), [(0.25, 1), (0.5, 0)])
    twin = through_json(cal)
    assert twin.n == cal.n == 1.0
    assert not twin._engine.memory.holds_nothing


def test_the_longest_spans_are_no_limit():
    cal = exact(forgetting=Decay(1.7e308))
    cal.learn_many([0.25, 0.5], [0, 1])
    assert cal.n == 2.0
    window = exact(forgetting=Window(1e308, by="time"))
    window.learn_many([0.25, 0.5], [0, 1], None, [-1.7e308, 1.7e308])
    assert held_scores(window) == [0.5]


@each_with_prior
def test_a_prior_has_no_time_and_so_no_decay_by_time(method):
    with pytest.raises(InputError, match="prior"):
        method(prior=Prior(20.0), forgetting=Decay(5.0, by="time"))


@each_with_prior
def test_unlearning_everything_leaves_the_prior(method):
    cal = learned(method(prior=Prior(20.0)), [(0.1, 1, 0.1), (0.1, 1, 0.2)])
    cal.unlearn_one(0.1, 1, 0.1)
    cal.unlearn_one(0.1, 1, 0.2)
    assert cal.n == 0.0
    assert_same(cal, method(prior=Prior(20.0)), within=1e-6)


# -- times as dates ----------------------------------------------------------------------------------------------

DATES = {
    "naive": lambda hour: datetime(2024, 3, 1, hour),
    "utc": lambda hour: datetime(2024, 3, 1, hour, tzinfo=UTC),
    "zoned": lambda hour: datetime(2024, 3, 1, hour, tzinfo=UTC).astimezone(timezone(timedelta(hours=-5))),
    "numpy": lambda hour: np.datetime64(f"2024-03-01T{hour:02}:00"),
    "seconds": lambda hour: 1_709_251_200.0 + 3600.0 * hour,
}


@pytest.mark.parametrize("kind", DATES)
def test_dates_are_seconds_utc(kind):
    date = DATES[kind]
    one, many = (exact(forgetting=Window(timedelta(hours=2))) for _ in range(2))
    for hour in (0, 1, 2):
        one.learn_one(hour / 4, 1, 1.0, date(hour))
    many.learn_many([0.0, 0.25, 0.5], [1, 1, 1], None, [date(hour) for hour in (0, 1, 2)])
    assert one.state_dict() == many.state_dict()
    assert one._engine.memory.state()["clock"] == DATES["seconds"](2)
    assert held_scores(one) == [0.25, 0.5]
    assert one.predict_one(0.25, date(9)) == 0.25


def test_an_array_of_dates_is_as_good_as_a_list():
    times = np.array(["2024-03-01T00", "2024-03-01T01"], dtype="datetime64[h]")
    cal = exact(forgetting=Window(timedelta(hours=2)))
    cal.learn_many([0.25, 0.5], [1, 0], None, times)
    assert cal._engine.memory.state()["clock"] == DATES["seconds"](1)


# -- what is counted ---------------------------------------------------------------------------------------------


def test_the_counts_survive_saving_and_add_up_in_a_merge():
    cal = learned(exact(forgetting=Window(10.0, by="time")), [(0.5, 1, 1.0, 50.0), (0.25, 1, 1.0, 0.0)])
    cal.unlearn_one(0.25, 1, 1.0, 0.0)
    assert cal.tally() == {"clamped": 0, "missed": 1, "late": 1, "unsolved": 0}
    read = through_json(cal)
    assert read.tally() == cal.tally()
    read.merge(cal)
    assert read.tally() == {"clamped": 0, "missed": 2, "late": 2, "unsolved": 0}
    assert cal.clone().tally() == {"clamped": 0, "missed": 0, "late": 0, "unsolved": 0}


# -- memories without a method -----------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_table_without_finite_coordinates_is_refused(bad):
    state = learned(NearIsotonic(resolution=None), [(0.25, 1), (0.5, 0)]).state_dict()
    state["learned"]["memory"]["statistic"]["rows"][1][0] = bad
    with pytest.raises(StateError, match="finite"):
        NearIsotonic.from_state(signed(state))


@pytest.mark.parametrize("policy", [Forever(), Window(5), Window(5.0, by="time"), Decay(5)], ids=repr)
@pytest.mark.parametrize("method", [HistogramBinning, Isotonic])
@pytest.mark.parametrize("bad", [None, "inf", 10**400])
def test_a_state_without_finite_numbers_is_refused(method, policy, bad):
    """A kernel would look for the cell of such a coordinate beyond the end of its table."""
    cal = learned(method(forgetting=policy), [(0.25, 1, 1.0, 0.0), (0.5, 0, 1.0, 1.0)])
    state = through_json(cal).state_dict()
    memory = state["learned"]["memory"]
    rows = memory.get("buffer") or memory.get("entries") or memory["statistic"].get("cells")
    (rows[0] if rows else memory["statistic"]["weight"])[1 if rows and "entries" in memory else 0] = bad
    with pytest.raises(StateError, match="damaged"):
        method.from_state(signed(state))


def test_memories_of_count_refuse_what_has_no_meaning():
    window, decay = memory_under(Window(3), Totals()), memory_under(Decay(3), Totals())
    with pytest.raises(MergeError, match="by count"):
        window.merge(window)
    with pytest.raises(MergeError, match="by count"):
        decay.merge(decay)
    with pytest.raises(CapabilityError, match="by count"):
        decay.unlearn(0.5, 1.0, 1.0, 0.0)


def test_a_refused_retraction_changes_nothing():
    memory = memory_under(Forever(), Totals())
    memory.learn(0.5, 1.0, 1.0, 0.0)
    version, state = memory.version, memory.state()
    with pytest.raises(RetractionError):
        memory.unlearn(0.5, 1.0, 2.0, 0.0)
    assert memory.state() == state
    assert memory.version == version


def test_weights_of_a_decay_stay_between_one_and_the_limit():
    """Rescaling is by powers of two, counted in whole halvings: the weight of today never outgrows a double."""
    memory = memory_under(Decay(3.0), Totals())
    for _ in range(1_000):
        memory.learn(0.5, 1.0, 1.0, 0.0)
        assert 1.0 <= memory.as_of(None) < 2.0**RESCALE_HALF_LIVES
    assert memory.n == pytest.approx(1.0 / (1.0 - 2.0 ** (-1 / 3)), rel=1e-9)


def test_a_model_without_forgetting_is_what_it_says():
    """The reference of the suite itself."""
    cal = Isotonic(forgetting=Window(2))
    assert without_forgetting(cal, []).forgetting == Forever()
