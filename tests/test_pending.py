"""`issue` and `settle` of calibrators made of others; those of the registries have laws in `test_laws.py`."""

from __future__ import annotations

import json
import math
import pickle
from datetime import UTC, datetime

import numpy as np
import pytest
from scipy.special import expit

from streamcal import Auto, Bernstein, HistogramBinning, InputError, OnlinePlatt, Platt, PrequentialChoice, Protected
from streamcal.live import LabelJoin, Multicalibrated, Segmented, Shadow
from streamcal.multiclass import OneVsRest

BY = ["campaign", ("campaign", "device")]
#: Name → a calibrator of one score, which a `LabelJoin` takes too.
LIVE = {
    "chain": lambda: Segmented(HistogramBinning(4), BY),
    "chain of auto": lambda: Segmented("auto", BY),
    "pairs": lambda: Segmented("ops", ["campaign", "device"], pairs=True),
    "groups": lambda: Multicalibrated("auto", BY),
    "groups of a chain": lambda: Multicalibrated(Segmented("ops", ["device"]), ["campaign"]),
    "shadow": lambda: Shadow("auto", {"groups": Multicalibrated(Segmented("ops", ["device"]), BY)}),
    "choice": lambda: PrequentialChoice(Bernstein, degree=[1, 4]),
}


def traffic(n, seed=0):
    """Yield score, keys with one that nobody reads, and label."""
    rng = np.random.default_rng(seed)
    for k in range(n):
        campaign = f"c{rng.integers(3)}"
        score = float(rng.choice([0.25, 0.5, round(float(rng.random()), 3)]))
        keys = {"campaign": campaign, "device": None if k % 9 == 0 else int(rng.integers(2)), "page": "x" * 1000}
        yield score, keys, bool(rng.random() < score * (0.3 if campaign == "c0" else 1.0))


def given(cal, keys):
    return {} if isinstance(cal, PrequentialChoice) else {"keys": keys}


def predicted(cal, score, keys):
    if isinstance(cal, Shadow):
        return cal.predict_one(score, keys=keys)
    return cal.predict_one(score, keys=keys) if isinstance(cal, Segmented | Multicalibrated) else cal.predict_one(score)


def plain(cal):
    return json.dumps(cal.state_dict())


@pytest.mark.sample(7)
@pytest.mark.parametrize("make", LIVE.values(), ids=LIVE)
def test_labels_come_in_another_order_to_a_calibrator_that_was_saved(make):
    """Each prediction is pickled; in between others are asked for, and every seventh label never comes."""
    cal, saved, waiting = make(), make(), []
    for k, (score, keys, y) in enumerate(traffic(80)):
        issued, again = (one.issue(score, **given(one, keys)) for one in (cal, saved))
        assert issued.p == again.p
        assert len(pickle.dumps(issued)) < 2_000 + 8 * len(issued.record)
        waiting.append((issued, pickle.dumps(again), y))
        if k >= 20:
            issued, again, y = waiting.pop(k % 11)
            y = None if k % 7 == 0 else y
            cal.settle(issued, y)
            saved = type(saved).from_bytes(saved.to_bytes())
            for other, levels, _ in traffic(3, seed=k):
                predicted(saved, other, levels)
            saved.settle(pickle.loads(again), y)
    assert plain(saved) == plain(cal)


@pytest.mark.sample(6)
@pytest.mark.parametrize("make", LIVE.values(), ids=LIVE)
def test_settled_in_the_order_of_issue_it_is_what_a_join_learns(make):
    cal, join, waiting = make(), LabelJoin(make(), horizon=20.0), []
    for k, (score, keys, y) in enumerate(traffic(150)):
        if k >= 20:
            cal.settle(*waiting.pop(0))
        levels = {name: keys[name] for name in ("campaign", "device")}
        waiting.append((cal.issue(score, float(k), **given(cal, levels)), y))
        assert join.issue(k, score, float(k), keys=levels).p == waiting[-1][0].p
        join.resolve(k, y, float(k))
    assert plain(join.calibrator) == plain(cal)


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", ["chain", "chain of auto", "pairs", "choice"])
def test_what_is_settled_at_once_is_learned_as_by_learn_one(name):
    issuing, loop = LIVE[name](), LIVE[name]()
    for score, keys, y in traffic(60):
        issued = issuing.issue(score, **given(issuing, keys))
        assert issued.p == predicted(loop, score, keys)
        issuing.settle(issued, y)
        loop.learn_one(score, y, keys=keys) if given(loop, keys) else loop.learn_one(score, y)
        before = plain(issuing)
        issuing.settle(issuing.issue(score, **given(issuing, keys)), None)
        assert plain(issuing) == before
    assert plain(issuing) == plain(loop)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "method", [Auto, lambda: Protected(delay=3), lambda: PrequentialChoice(Bernstein, degree=[1, 4])]
)
def test_one_vs_rest_keeps_the_records_of_its_binary_methods(method):
    """Of labels that have no calibrator yet too, and one that comes without a score; further predictions do nothing."""
    rng = np.random.default_rng(2)
    loop, at_once, late, saved, waiting = (*(OneVsRest(method()) for _ in range(4)), [])
    for k in range(65):
        a = float(rng.choice([0.25, 0.5, 0.625]))
        scores = {"a": a, "b": 0.875 - a, "c": 0.125} if k % 10 else {"a": a, "b": 1.0 - a}
        y = "never seen" if k == 60 else "abc"[int(rng.integers(3))]
        loop.predict_one(scores)
        loop.learn_one(scores, y)
        at_once.settle(at_once.issue(scores), y)
        waiting.append((late.issue(scores), pickle.dumps(saved.issue(scores)), y))
        if k >= 10:
            issued, again, y = waiting.pop(k % 5)
            late.settle(issued, y)
            saved = OneVsRest.from_bytes(saved.to_bytes())
            saved.predict_one(scores)
            saved.settle(pickle.loads(again), y)
    assert plain(at_once) == plain(loop)
    assert plain(saved) == plain(late)
    damaged = late.issue({"a": 0.5, "b": 0.5})
    damaged.record = damaged.record[:-2]
    with pytest.raises(InputError, match="not the numbers that were issued"):
        late.settle(damaged, "a")
    assert plain(saved) == plain(late)


def test_a_prediction_keeps_what_is_needed_and_no_more():
    issued = Segmented("ops", BY).issue(np.float32(0.25), 7.0, keys={"campaign": "a", "page": "x" * 1000})
    assert (type(issued.x), issued.keys, issued.t) == (float, {"campaign": "a"}, 7.0)
    assert len(pickle.dumps(OnlinePlatt().issue(0.3, datetime(2026, 1, 1, tzinfo=UTC)))) < 350
    assert repr(issued) == "Pending(p=0.25, x=0.25, keys={'campaign': 'a'})"


def test_the_weight_and_the_time_may_come_with_the_label():
    first, second = Platt(), Platt()
    first.settle(first.issue(0.25, w=2.0), True)
    second.settle(second.issue(0.25), True, w=2.0)
    assert plain(first) == plain(second)
    with pytest.raises(InputError, match=r"has no time zone, and 1\.0, given before it"):
        first.settle(first.issue(0.5, 1.0), True, t=datetime(2026, 1, 1))


@pytest.mark.parametrize("keys", [None, 3, {"campagn": "a"}, {"campaign": 0.5}])
def test_keys_that_are_none_are_refused_when_issued(keys):
    for cal in (Segmented("ops", BY), Multicalibrated("ops", BY), Shadow(Segmented("ops", BY))):
        before = plain(cal)
        with pytest.raises(InputError, match=r"key|level"):
            cal.issue(0.5, keys=keys)
        assert plain(cal) == before


def test_a_weight_of_0_returns_the_stakes():
    cal = Multicalibrated("ops", BY)
    cal.settle(cal.issue(0.5, keys={"campaign": "a"}), True, w=0.0)
    assert (cal.n, cal.gap("campaign", "a").gap) == (0.0, 0.0)
    assert cal._accounts.slots(1)[0, :10].tolist() == [*[pytest.approx(0.0, abs=1e-15)] * 8, 1.0, 0.0]


@pytest.mark.sample(2)
@pytest.mark.parametrize("delay", [0, 20])
def test_the_promise_of_auto_holds_where_labels_are_lost_and_predictions_asked_for_twice(delay):
    """One score and a rate that moves: a label of another prediction would be worth nats."""
    rng, cal, waiting, excess = np.random.default_rng(1), Auto(delay=delay), [], 0.0
    for k in range(3_000):
        waiting.append((cal.issue(0.5), bool(rng.random() < expit(-1.5 * math.sin(k / 40)))))
        cal.predict_many([0.5, 0.25])
        if len(waiting) > delay:
            issued, y = waiting.pop(0)
            lost = rng.random() < 0.01
            cal.settle(issued, None if lost else y)
            excess -= 0.0 if lost else math.log(issued.p if y else 1.0 - issued.p) - math.log(0.5)
    assert excess < cal.promised
    assert excess < (-250.0 if delay == 0 else -200.0), "it follows the rate"
