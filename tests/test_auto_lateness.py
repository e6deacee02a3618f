"""`Auto(delay="inferred")`: how late labels are is found from the scores that were asked for."""

import copy
import json
import math
import tracemalloc
from collections import deque

import numpy as np
import pytest

from streamcal import Auto, InputError, StateError
from streamcal.app.doctor import kernel_form
from streamcal.calibrators.auto.lateness import CHECKED, REMEMBERED, IssuedScores, with_delay
from streamcal.kernels.fixed_share import hindsight_weight
from streamcal.live import LabelJoin

#: Labels until a delay is found, and as many again.
LONG = 2 * CHECKED + 22
COMPILED = pytest.mark.skipif(kernel_form() != "compiled", reason="thousands of observations")


def stream(n, seed=1):
    """Scores, some of them clamped or repeated, labels, and weights, some of them 0."""
    rng = np.random.default_rng(seed)
    scores = rng.random(n)
    scores[::17] = rng.choice([0.0, 1.0, 0.25], len(scores[::17]))
    return scores, rng.random(n) < scores, rng.choice([0.0, 1.0, 1.0, 3.0], n)


def plain(cal):
    """The state as JSON: to the last bit."""
    return json.dumps(cal.state_dict())


def late(cal, scores, y, delay, w=None):
    """What is said where each label is learned so many predictions later."""
    w, waiting, said = np.ones(len(y)) if w is None else w, deque(), []
    for row in zip(scores.tolist(), y.tolist(), w.tolist(), strict=True):
        said.append(cal.predict_one(row[0]))
        waiting.append(row)
        if len(waiting) > delay:
            cal.learn_one(*waiting.popleft())
    return np.array(said)


@pytest.mark.parametrize("rows", ["in one call", "one by one", "never asked for"])
def test_where_no_label_is_late_it_is_auto_to_the_last_bit(rows):
    cal, told = Auto("inferred"), Auto()
    scores, y, w = stream(LONG)
    expected = told.predict_learn_many(scores, y, w)
    if rows == "in one call":
        assert cal.predict_learn_many(scores, y, w).tolist() == expected.tolist()
    elif rows == "one by one":
        assert late(cal, scores, y, 0, w).tolist() == expected.tolist()
    else:
        cal.learn_many(scores, y, w)
    assert cal.label_delay == 0
    found, learned = cal.state_dict()["learned"], told.state_dict()["learned"]
    assert found.pop("delay") == 0
    assert json.dumps(found) == json.dumps(learned)


@pytest.mark.parametrize("delay", [1, 7, 30])
def test_a_delay_is_found(delay):
    """Exactly, as soon as 64 labels were recognised after the first ones, of which fewer were learned before."""
    cal = Auto("inferred")
    scores, y, _ = stream(3 * CHECKED + delay, seed=delay)
    late(cal, scores, y, delay)
    assert cal.label_delay == delay
    assert cal.n == 3 * CHECKED


def test_asking_changes_no_forecast_and_no_state():
    """Also many times and for other scores; and forecasts that were asked for twice are recognised."""
    cal, once = Auto("inferred"), Auto("inferred")
    scores, y, _ = stream(LONG)
    waiting = deque()
    for place, (score, label) in enumerate(zip(scores.tolist(), y.tolist(), strict=True)):
        before = plain(cal) if place % 10 == 0 else None
        p = once.predict_one(score)
        assert [cal.predict_one(score), cal.predict_one(score)] == [p, p]
        # Rounding of the interpolation between knots.
        assert [cal.predict_many([score, 0.123])[0], cal.map()(score)] == pytest.approx([p, p], abs=1e-12)
        assert before is None or plain(cal) == before
        waiting.append((score, label))
        if len(waiting) > 5:
            row = waiting.popleft()
            cal.learn_one(*row)
            once.learn_one(*row)
    assert cal.label_delay == once.label_delay == 5
    assert plain(cal) == plain(once)


@pytest.mark.parametrize("timed", [False, True])
def test_batches_are_the_loop(timed):
    """Batches are predicted, and learned when the next one has been: about 1.5 batches late."""
    batches, loop = Auto("inferred"), Auto("inferred")
    scores, y, w = stream(LONG)
    t = 1.7e9 + 3_600.0 * np.arange(LONG) if timed else None
    size, waiting = 25, slice(0, 0)
    for start in range(0, LONG, size):
        now = slice(start, start + size)
        time = None if t is None else float(t[start])
        said = batches.predict_many(scores[now], time)
        assert said.tolist() == pytest.approx([loop.predict_one(one, time) for one in scores[now].tolist()], abs=1e-12)
        batches.learn_many(scores[waiting], y[waiting], w[waiting], None if t is None else t[waiting])
        for k in range(waiting.start, waiting.stop):
            loop.learn_one(float(scores[k]), bool(y[k]), float(w[k]), None if t is None else float(t[k]))
        waiting = now
    assert batches.label_delay == loop.label_delay > 0
    assert plain(batches) == plain(loop)


def test_what_is_saved_has_the_delay_and_not_the_scores():
    cal = Auto("inferred")
    scores, y, _ = stream(LONG)
    late(cal, scores, y, 9)
    for again in (Auto.from_state(json.loads(plain(cal))), Auto.from_bytes(cal.to_bytes()), copy.deepcopy(cal)):
        assert again.label_delay == 9
        assert again.delay == "inferred"
        assert plain(again) == plain(cal)
        assert again.predict_one(0.3) == cal.predict_one(0.3)
        again.learn_one(0.9, True)  # it was asked for by nobody here
        assert again.label_delay == 9
    assert cal.clone().label_delay == 0
    assert repr(cal) == "Auto(delay='inferred')"


def test_states_that_cannot_be():
    cal = Auto("inferred")
    scores, y, _ = stream(LONG)
    late(cal, scores, y, 9)
    state = {**cal.state_dict(), "streamcal": 1}
    del state["check"]
    assert len(state["learned"]["late"]) == 9
    assert Auto.from_state(state).label_delay == 9
    for delay in (8, 10, 0, -1, 200_000, None, "inferred", 9.5):
        with pytest.raises(StateError):
            Auto.from_state({**state, "learned": {**state["learned"], "delay": delay}})
    with pytest.raises(StateError, match="inferred"):
        Auto.from_state({**state, "params": {"delay": 9}})
    with pytest.raises(StateError):
        Auto.from_state({**state, "learned": {k: v for k, v in state["learned"].items() if k != "delay"}})


@pytest.mark.parametrize("between", [REMEMBERED // 2, REMEMBERED, 120_000])
def test_what_is_learned_between_asking_and_telling_is_soon_forgotten(between):
    """A warm start after the first predictions: 120,000 labels late was found, and such a state could not be read."""
    cal, rng = Auto("inferred"), np.random.default_rng(3)
    scores, past = rng.random(4 * CHECKED), rng.random(between)
    y = scores > 0.5
    cal.predict_many(scores[:CHECKED])
    cal.learn_many(past, past > 0.5)
    cal.learn_many(scores[:CHECKED], y[:CHECKED])
    assert cal.label_delay == (between + CHECKED // 2 if between < REMEMBERED else 0)
    assert Auto.from_state(cal.state_dict()).label_delay == cal.label_delay
    late(cal, scores[CHECKED:], y[CHECKED:], 0)
    assert cal.label_delay == 0


@pytest.mark.parametrize("delay", ["auto", "", True, -1, 2.0, None, [1]])
def test_delays_that_are_none(delay):
    with pytest.raises(InputError, match="inferred"):
        Auto(delay)


def test_what_is_remembered_is_bounded_and_scores_that_come_again_tell_nothing():
    asked = IssuedScores()
    for k in range(3 * REMEMBERED):
        asked.add(float(k), k)
    assert len(asked._learned_at) == REMEMBERED
    asked = IssuedScores()
    for learned in range(4 * CHECKED):  # two scores, in turn, 10 labels late: told apart by nobody
        asked.add(float(learned % 2), learned)
        assert asked.delay_after(float(learned % 2), learned + 10 if learned > 1 else learned, 0) == 0
    found = []
    for k in range(CHECKED):
        asked.add(100.0 + k, 1_000)
        asked.add(100.0 + k, 1_000)  # the same prediction, asked for twice
        found.append(asked.delay_after(100.0 + k, 1_010, 0))
    assert max(found) == 10


def test_labels_without_a_prediction_of_their_own_tell_nothing():
    """One prediction, and many labels at its score; scores that were asked for once, and learned again and again."""
    cal = Auto("inferred")
    cal.predict_one(0.8)
    for k in range(LONG):
        cal.learn_one(0.8, k % 5 > 0)
    assert cal.label_delay == 0
    cal, scores = Auto("inferred"), np.linspace(0.1, 0.9, 50)
    cal.predict_many(scores)
    for _ in range(10):
        cal.learn_many(scores, scores > 0.5)
    assert cal.label_delay == 0


def test_a_delay_may_grow_shrink_and_vanish():
    cal = Auto("inferred")
    scores, y, _ = stream(12 * CHECKED, seed=3)
    delays, start = [], 0
    for delay in (6, 20, 4, 0):
        rows = slice(start, start + 3 * CHECKED)
        late(cal, scores[rows] * 0.9, y[rows], delay)
        delays.append(cal.label_delay)
        start = rows.stop
    assert delays == [6, 20, 4, 0]
    assert Auto.from_state(cal.state_dict()).predict_one(0.4) == cal.predict_one(0.4)


def test_the_state_for_another_delay_says_the_same():
    """Rows of the mixtures are there thrice, and then once again: what a weight is does not change.

    But lines begun anew have half of theirs, until it is seen whether they help where labels are late.
    """
    cal = Auto()
    scores, y, _ = stream(LONG)
    cal.learn_many(scores, y)
    state = cal._live.state()
    there = with_delay(state, 0, 4)
    other = Auto(4)
    other._live.restore(there)
    weights, before = other.weights(), cal.weights()
    late = hindsight_weight(4) / (1.0 + hindsight_weight(4))
    lines, rest = late * before["lines begun anew"], 1.0 - before["lines begun anew"]
    assert 0.0 < weights["lines begun anew"] == pytest.approx(lines, rel=1e-14)
    # Equal rows are summed thrice, and divided by the sum of what they weigh: rounding.
    expected = {name: (1.0 - lines) * weight / rest for name, weight in before.items()} | {"lines begun anew": lines}
    assert weights == pytest.approx(expected, abs=1e-15)
    again = with_delay(there, 4, 0)
    own = state["panel"]["panel"]
    assert again["panel"] == {**state["panel"], "panel": {**own, "then": own["means"]}}
    for (shares, wealth), (found, log_wealth) in zip(state["mixture"][:3], again["mixture"][:3], strict=True):
        assert found == shares
        assert log_wealth == pytest.approx(wealth, abs=1e-15)  # less ln 2, and more again
    assert again["mixture"][3:] == state["mixture"][3:]


@COMPILED
def test_where_labels_persist_nobody_has_to_tell():
    """Labels come in spells of about 200, 30 late, and scores know nothing: the last label looks right, and is not."""
    rng = np.random.default_rng(8)
    y = np.cumsum(rng.random(6_000) < 0.005) % 2 == 1
    scores = rng.uniform(0.3, 0.7, 6_000)
    told, untold, inferred = (late(cal, scores, y, 30) for cal in (Auto(30), Auto(), Auto("inferred")))
    losses = [-np.log(np.where(y, p, 1.0 - p)).mean() for p in (told, untold, inferred)]
    assert losses[1] > losses[0] + 0.1
    # The first hundred labels or so, before the delay is known, are judged by hindsight. Rows that believe it lose what
    # they won slowly, at the rate 1/(1 + delay): on five seeds 0 to .016 nats more than told.
    assert losses[2] < losses[0] + 0.02


@COMPILED
def test_what_is_held_of_a_late_label_is_as_large_as_the_docs_say():
    """9 kB with a delay; and in a join, once labels are late, 1.3 kB of a forecast, and a list of what was issued."""
    scores, y, _ = stream(1_100)
    told, joined = Auto(2_000), Auto()
    said = joined._issue(0.3, math.nan)
    joined.learn_one(0.5, True)
    joined._learn_issued(0.3, 1.0, 1.0, math.nan, said)
    join, later = LabelJoin(joined, horizon=1e9), scores[100:].tolist()
    told.learn_many(scores[:100], y[:100])
    held = []
    for what in (
        lambda: told.learn_many(scores[100:], y[100:]),
        lambda: [join.issue(id=f"impression-{k:08d}", score=p, t=float(k)) for k, p in enumerate(later)],
    ):
        tracemalloc.start()
        kept = what()
        held.append(tracemalloc.get_traced_memory()[0] / 1_000)
        tracemalloc.stop()
    del kept
    assert 6_000 < held[0] < 9_500
    assert 800 < held[1] < 1_600


def test_a_join_judges_by_what_was_issued_and_infers_nothing():
    """What `LabelJoin` says is as with `Auto()`, to the last bit, however late labels are."""
    joins = [LabelJoin(Auto(delay), horizon=20.0) for delay in (0, "inferred")]
    scores, y, _ = stream(LONG)
    for k, (score, label) in enumerate(zip(scores.tolist(), y.tolist(), strict=True)):
        said = [join.issue(id=k, score=score, t=float(k)).p for join in joins]
        assert said[0] == said[1]
        for join in joins:
            join.resolve(id=k, y=label, t=float(k) + 0.5)
    assert joins[1].calibrator.n > CHECKED
    assert joins[1].calibrator.label_delay == 0
