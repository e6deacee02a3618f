"""`Segmented` with late labels: members are judged by what they said, and "nothing" counts twice for a while."""

import json
import math

import numpy as np
import pytest
from scipy.special import expit, logit
from test_segmented import BY, Dense, learned, losses, plain, rows_of, stream

from streamcal import InputError, OnlinePlatt
from streamcal.kernels.segments.level_members import MEMBERS
from streamcal.live import Segmented
from streamcal.live.segmented import LATE_POWER

PRIOR = np.array([0.5, 0.125, 0.125, 0.125, 0.125])


class DenseLate(Dense):
    """The chain by its definition, where labels are late."""

    def __init__(self, fields):
        super().__init__(fields)
        self.late, self.judged = 0, [0] * fields

    def look(self, p, levels):
        """Return the forecast, and for each field z, means, variances, forecasts, and whether the level is known."""
        z, said = logit(p), []
        for j, level in enumerate(levels):
            means, variances = self.moments(j, level, z)
            forecasts = expit(z + np.array([0.0, *means]))
            known = level in self.levels[j]
            said.append((z, means, variances, forecasts, known))
            if known:
                weights = self.weights[j] * [2.0 if self.judged[j] < self.late else 1.0, 1.0, 1.0, 1.0, 1.0]
                z = logit(weights @ forecasts / weights.sum())
        return expit(z), said

    def take(self, p, levels, issued, y, late):
        self.late = late
        self.judged = [count + bool(one[4] and late) for count, one in zip(self.judged, issued, strict=True)]
        rate = (1.0 + late) ** -LATE_POWER
        for j, (now, then) in enumerate(zip(self.look(p, levels)[1], issued, strict=True)):
            judged = then[3] ** rate if y else 1.0 - (1.0 - then[3]) ** rate
            self.learn(j, levels[j], *now[:3], judged, y)


def run_late(cal, rows, late, found=None):
    """Each row is forecast, and that `late` rows before it learned."""
    parts = []
    for i, (score, key, _) in enumerate(rows):
        if found is not None:
            found.append(cal.predict_one(score, key))
        parts.append(cal.issue_parts(score, key))
        if i >= late:
            cal.learn_issued(*rows[i - late], parts[i - late])
    return cal


@pytest.mark.sample(2)
@pytest.mark.parametrize("late", [1, 40])
def test_the_chain_is_that_of_its_definition(late):
    scores, keys, y = stream(400, seed=8, campaigns=4, centre=-0.3)
    rows = list(rows_of(scores, keys, y))
    cal, dense, found, expected, issued = Segmented("identity", BY), DenseLate(2), [], [], []
    run_late(cal, rows, late, found)
    levels = [(c, (c, p)) for c, p in zip(keys["campaign"], keys["placement"], strict=True)]
    for i, (score, _, _) in enumerate(rows):
        p, said = dense.look(score, levels[i])
        expected.append(p)
        issued.append(said)
        if i >= late:
            k = i - late
            dense.take(rows[k][0], levels[k], issued[k], float(rows[k][2]), min(k, late))  # late are those issued since
    # Roots by bisection to 1e-15 and sums in another order, over 400 steps.
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    assert dense.judged != [0, 0]
    assert cal._chain.lateness() == [dense.late, dense.judged]


def test_nothing_has_twice_its_weight_until_the_field_was_judged():
    cal, said = Segmented("identity", ["campaign"]), []
    key = {"campaign": "c"}
    for _ in range(3):
        cal.learn_one(0.5, key, True)
    kept = cal.weights("campaign")
    said = [cal.issue_parts(0.5, key) for _ in range(8)]
    for k, one in enumerate(said):
        before = cal.effect("campaign", "c")[0]
        cal.learn_issued(0.5, key, False, one)
        assert cal._chain.lateness() == [k, [k]], "the first one is not late"
        assert cal.weights("campaign") == pytest.approx(dict(zip(kept, cal._chain.state(0)[0], strict=True)))
        assert cal.effect("campaign", "c")[0] < before
    for _ in range(20):
        cal.learn_one(0.5, {}, True)
    cal.learn_issued(0.5, {}, True, [0.5, 11.0])  # late by 20, and of no level
    assert cal._chain.lateness() == [20, [7]]
    kept, doubled = cal._chain.state(0)[0], list(cal.weights("campaign").values())
    assert doubled[0] == pytest.approx(2.0 * kept[0] / (1.0 + kept[0]))
    assert doubled[1:] == pytest.approx([one / (1.0 + kept[0]) for one in kept[1:]])
    members = expit(np.array(cal.issue_parts(0.5, key)[2:]))
    assert cal.predict_one(0.5, key) == pytest.approx(doubled @ members, rel=1e-12)
    cal.learn_one(0.5, {}, True)  # in time
    assert cal._chain.lateness() == [0, [7]]
    assert cal.predict_one(0.5, key) == pytest.approx(kept @ members, rel=1e-12)


def test_labels_of_new_levels_judge_nothing():
    cal = Segmented("identity", ["campaign"])
    run_late(cal, [(0.5, {"campaign": k}, True) for k in range(50)], 10)
    assert cal._chain.lateness() == [10, [0]]


@pytest.mark.parametrize("cut", [5, 60, 199])
def test_a_saved_state_goes_on(cut):
    rows = list(rows_of(*stream(200, seed=3)))
    cal, other = run_late(Segmented("ops", BY), rows[:cut], 30), None
    other = Segmented.from_state(plain(cal))
    assert plain(other) == plain(cal)
    assert Segmented.from_bytes(cal.to_bytes()).state_dict() == cal.state_dict()
    for one in (cal, other):
        run_late(one, rows[cut:], 30)
    assert other.state_dict() == cal.state_dict()


def test_merged_counts_add_up_and_the_later_labels_count():
    one, other = (
        run_late(Segmented("platt", BY), list(rows_of(*stream(90, seed=k))), late) for k, late in ((1, 20), (2, 9))
    )
    counts = [cal._chain.lateness() for cal in (one, other)]
    one.merge(other)
    assert one._chain.lateness() == [20, [a + b for a, b in zip(counts[0][1], counts[1][1], strict=True)]]


@pytest.mark.parametrize("count", [-1e300, -1.0, 1e300])
def test_counts_that_cannot_be(count):
    cal = Segmented("ops", ["campaign"])
    said = cal.issue_parts(0.5, {"campaign": "c"})
    cal.learn_issued(0.5, {"campaign": "c"}, True, [said[0], count, *said[2:]])
    assert 0.0 < cal.predict_one(0.5, {"campaign": "c"}) < 1.0
    Segmented.from_state(plain(cal))
    before = cal.state_dict()
    with pytest.raises(InputError, match="not what `issue_parts` returns"):
        cal.learn_issued(0.5, {"campaign": "c"}, True, [said[0], float("inf"), *said[2:]])
    assert cal.state_dict() == before


def test_what_is_learned_at_once_as_issued_is_what_is_learned():
    at_once, issued = Segmented("ops", BY), Segmented("ops", BY)
    scores, keys, y = stream(300, seed=12)
    keys["placement"][7] = None
    for score, key, label in rows_of(scores, keys, y):
        said = json.loads(json.dumps(issued.issue_parts(score, key)))
        at_once.learn_one(score, key, label)
        issued.learn_issued(score, key, label, said)
    assert issued.state_dict() == at_once.state_dict()


def test_late_labels_judge_members_by_what_they_said():
    scores, keys, y = stream(6000, seed=13)
    rows, late = list(rows_of(scores, keys, y)), 1000
    cal, parts, found = Segmented("identity", BY), [], []
    for i, (score, key, _) in enumerate(rows):
        found.append(cal.predict_one(score, key))
        parts.append(cal.issue_parts(score, key))
        if i >= late:
            cal.learn_issued(*rows[i - late], parts[i - late])
    assert losses(np.array(found), y).sum() < losses(scores, y).sum() - 50.0


def test_the_later_a_label_the_less_it_moves_the_weights_of_members():
    scores, keys, y = stream(2000, seed=13)
    moved = []
    for between in (0, 10, 500):
        cal = learned(Segmented("identity", ["campaign"]), scores, keys, y)
        said = cal.issue_parts(0.3, {"campaign": "c1"})
        cal.learn_many([0.5] * between, {}, [True] * between)
        before = cal._chain.state(0)[0][0]  # of "nothing", which forecasts may take twice
        cal.learn_issued(0.3, {"campaign": "c1"}, True, said)
        moved.append(abs(cal._chain.state(0)[0][0] - before))
        again = Segmented.from_state(plain(cal))
        assert again.issue_parts(0.3, {})[1] == 2001.0 + between
    assert moved[0] > 1.5 * moved[1] > 2.0 * moved[2] > 0.0


def test_the_parts_of_the_calibrator_are_given_back_to_it(monkeypatch):
    cal, given = Segmented("ops", ["campaign"]), []
    monkeypatch.setattr(OnlinePlatt, "_issue", lambda self, x, t: [x, 7.0])
    monkeypatch.setattr(OnlinePlatt, "_learn_issued", lambda self, *arguments: given.append(arguments))
    said = cal.issue_parts(0.5, {"campaign": "c"})
    assert len(said) == 2 + MEMBERS + 2
    cal.learn_issued(0.5, {"campaign": "c"}, True, said, 2.0)
    assert given == [(0.0, 1.0, 2.0, 0.0, [0.0, 7.0])]
    cal.learn_issued(0.5, {"campaign": "c"}, True, said, 0.0)
    assert len(given) == 1
    assert cal.effect("campaign", "c")[2] == 1.0, "relative to the mean of all weights"


@pytest.mark.parametrize(
    "said", [[], None, 7 * ["p"], [None] * 7, [0.5, 0.0], [2.0, *6 * [0.0]], [0.5, 0.0, math.nan, *4 * [0.0]]]
)
def test_what_was_never_said(said):
    cal = Segmented("ops", ["campaign"])
    before = cal.state_dict()
    with pytest.raises(InputError, match="not what `issue_parts` returns"):
        cal.learn_issued(0.5, {"campaign": "c"}, True, said)
    assert cal.state_dict() == before
