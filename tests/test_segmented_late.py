"""`Segmented` with late labels: members are judged by issued forecasts, and step from present ones, at rate 1/D."""

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from test_kernel_forms import twins
from test_segmented import BY, Dense, learned, losses, plain, rows_of, stream

from streamcal import Auto, InputError, OnlinePlatt, Protected, StateError
from streamcal.kernels.segments.delay_variance import DelayVariance
from streamcal.kernels.segments.level_members import MEMBERS, SECOND
from streamcal.live import Multicalibrated, Segmented
from streamcal.states import signed


class Residuals:
    """D by its definition, from all residuals so far: half-overlapping windows of 2, 4, 8, … late labels."""

    def __init__(self):
        self.residuals, self.variances = [], []

    def at(self, late):
        half = 1
        while 2 * half < late:
            half *= 2
        s, v = (np.cumsum([0.0, *one])[::half] for one in (self.residuals, self.variances))
        changes = s[4:] - 2.0 * s[2:-2] + s[:-4]
        ratio = np.sum(changes**2) / np.sum(v[4:] - v[:-4]) if len(changes) else 0.0
        labels = half * len(changes)
        found = (labels * ratio + late * math.sqrt(1.0 + late)) / (labels + late) if late else 1.0
        return min(max(found, 1.0), 1.0 + late)


class DenseLate(Dense):
    """Both orders by their definition, where labels are late."""

    def __init__(self, fields):
        super().__init__(fields)
        self.residuals = Residuals()

    def take_late(self, p, levels, issued, y, late):
        """Learn y, of which `issued` was said, where the calibrator says p now."""
        found, said = issued
        if late:
            self.residuals.residuals.append(y - found)
            self.residuals.variances.append(found * (1.0 - found))
        self.take(p, levels, said, y, 1.0 / self.residuals.at(late))


def with_record(issued, record):
    """Return a copy of an issued prediction with other numbers."""
    return replace(issued, record=record)


def run_late(cal, rows, late, found=None):
    """Each row is forecast, and that `late` rows before it learned."""
    parts = []
    for i, (score, key, _) in enumerate(rows):
        if found is not None:
            found.append(cal.predict_one(score, keys=key))
        parts.append(cal.issue(score, keys=key))
        if i >= late:
            cal.settle(parts[i - late], rows[i - late][2])
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
        issued.append(dense.look(score, levels[i]))
        expected.append(issued[i][0])
        if i >= late:
            k = i - late
            dense.take_late(rows[k][0], levels[k], issued[k], float(rows[k][2]), min(k, late))  # those issued since
    # Roots by bisection to 1e-15, sums in another order and weights in single precision, over 400 steps.
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)
    assert 1.0 <= dense.residuals.at(late) == pytest.approx(cal._delay_variance.at(late), rel=1e-6)


def test_a_level_steps_from_what_the_calibrator_says_now():
    """By then the calibrator has learned the same error, which the level must not correct again."""
    effects = []
    for between in (0, 300):
        cal, key = Segmented(OnlinePlatt(), ["campaign"]), {"campaign": "c"}
        issued = cal.issue(0.1, keys=key)
        cal.learn_many([0.1] * between, [True] * between, keys={})
        now = cal.overall.predict_one(0.1)
        cal.settle(issued, True)
        effects.append(cal.effect("campaign", "c")[0])
        alone = learned(Segmented("identity", ["campaign"]), [now], {"campaign": ["c"]}, [True])
        assert cal.effect("campaign", "c")[0] == pytest.approx(alone.effect("campaign", "c")[0], rel=1e-9)
    assert 0.0 < effects[1] < 0.1 * effects[0]


@pytest.mark.sample(2)
@pytest.mark.parametrize("late", [1, 7, 48])
def test_the_rate_is_1_where_labels_are_independent_and_low_where_they_share_a_cause(late):
    rng, p = np.random.default_rng(late), 0.2
    alone, shared = DelayVariance(), DelayVariance()
    assert alone.at(late) == pytest.approx(math.sqrt(1.0 + late)), "at first"
    for k in range(40_000):
        alone.learn((rng.random() < p) - p, p * (1.0 - p))
        if k % late == 0:
            of_all = float(rng.random() < p)
        shared.learn(of_all - p, p * (1.0 - p))
    # 40,000/48 windows: a relative standard deviation of 6 %.
    assert alone.at(late) == pytest.approx(1.0, abs=0.25)
    assert shared.at(late) > 0.5 * late
    assert alone.at(0) == 1.0


def test_an_error_that_lasts_is_no_common_cause():
    """A later label can still correct it."""
    one, rng = DelayVariance(), np.random.default_rng(3)
    for _ in range(20_000):
        one.learn((rng.random() < 0.5) - 0.2, 0.2 * 0.8)
    assert one.at(100) < 2.0, "variances of the labels, 0.25/0.16, and no more"


@pytest.mark.parametrize("late", [0, 1, 5, 64, 2.0**53])
def test_the_compiled_variance_is_its_source_and_its_definition(late):
    rng, dense = np.random.default_rng(5), Residuals()
    forms = [module.DelayVariance() for module in twins("delay_variance")]
    for _ in range(333):
        residual, variance = rng.normal(), rng.uniform(0.1, 2.0)
        dense.residuals.append(residual)
        dense.variances.append(variance)
        for one in forms:
            one.learn(residual, variance)
    assert forms[0].state() == forms[1].state()
    assert forms[0].at(late) == forms[1].at(late)
    assert forms[0].at(late) == pytest.approx(dense.at(late) if late < 1e9 else math.sqrt(1.0 + late), rel=1e-9)
    for form, module in zip(forms, twins("delay_variance"), strict=True):
        again = module.DelayVariance()
        again.load(form.state())
        assert again.state() == form.state()
        again.merge(form)
        assert again.at(late) == pytest.approx(dense.at(late), rel=0.5) or late > 1e9


def test_labels_in_time_are_no_part_of_the_variance():
    cal = learned(Segmented("identity", ["campaign"]), *stream(50))
    assert cal._delay_variance.state() == []
    run_late(cal, list(rows_of(*stream(20))), 0)
    assert cal._delay_variance.state() == []


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


def test_windows_of_merged_ones_add_up():
    one, other = (
        run_late(Segmented("platt", BY), list(rows_of(*stream(90, seed=k))), late) for k, late in ((1, 20), (2, 9))
    )
    sums = [np.array(cal._delay_variance.state())[:, 1:4] for cal in (one, other)]
    one.merge(other)
    np.testing.assert_allclose(np.array(one._delay_variance.state())[:, 1:4], sums[0] + sums[1])


@pytest.mark.parametrize("count", [-1e300, -1.0, 1e300])
def test_counts_that_cannot_be(count):
    cal = Segmented("ops", ["campaign"])
    issued = cal.issue(0.5, keys={"campaign": "c"})
    cal.settle(with_record(issued, [issued.record[0], count, *issued.record[2:]]), True)
    assert 0.0 < cal.predict_one(0.5, keys={"campaign": "c"}) < 1.0
    Segmented.from_state(plain(cal))
    before = cal.state_dict()
    with pytest.raises(InputError, match="not what `issue` keeps"):
        cal.settle(with_record(issued, [issued.record[0], float("inf"), *issued.record[2:]]), True)
    assert cal.state_dict() == before


def test_what_is_learned_at_once_as_issued_is_what_is_learned():
    at_once, issued = Segmented("ops", BY), Segmented("ops", BY)
    scores, keys, y = stream(300, seed=12)
    keys["placement"][7] = None
    for score, key, label in rows_of(scores, keys, y):
        one = pickle.loads(pickle.dumps(issued.issue(score, keys=key)))
        at_once.learn_one(score, label, keys=key)
        issued.settle(one, label)
    assert issued.state_dict() == at_once.state_dict()


def test_late_labels_judge_members_by_what_they_said():
    scores, keys, y = stream(6000, seed=13)
    rows, late = list(rows_of(scores, keys, y)), 1000
    cal, parts, found = Segmented("identity", BY), [], []
    for i, (score, key, _) in enumerate(rows):
        found.append(cal.predict_one(score, keys=key))
        parts.append(cal.issue(score, keys=key))
        if i >= late:
            cal.settle(parts[i - late], rows[i - late][2])
    assert losses(np.array(found), y).sum() < losses(scores, y).sum() - 50.0


def test_the_later_a_label_the_less_it_moves_the_weights_of_members():
    scores, keys, y = stream(2000, seed=13)
    moved = []
    for between in (0, 10, 500):
        cal = learned(Segmented("identity", ["campaign"]), scores, keys, y)
        issued = cal.issue(0.3, keys={"campaign": "c1"})
        cal.learn_many([0.5] * between, [True] * between, keys={})
        before = cal._chain.state(0)[0][0]
        cal.settle(issued, True)
        moved.append(abs(cal._chain.state(0)[0][0] - before))
        again = Segmented.from_state(plain(cal))
        assert again.issue(0.3, keys={}).record[1] == 2001.0 + between
    assert moved[0] > 1.5 * moved[1] > 2.0 * moved[2] > 0.0


def test_the_parts_of_the_calibrator_are_given_back_to_it(monkeypatch):
    cal, given = Segmented("ops", ["campaign"]), []
    monkeypatch.setattr(OnlinePlatt, "_issue", lambda self, x, t: [x, 7.0])
    monkeypatch.setattr(OnlinePlatt, "_learn_issued", lambda self, *arguments: given.append(arguments))
    first, second = (cal.issue(0.5, keys={"campaign": "c"}) for _ in range(2))
    assert len(first.record) == 2 + MEMBERS + SECOND + SECOND + 2 + 2
    cal.settle(first, True, w=2.0)
    assert given == [(0.0, 1.0, 2.0, 0.0, [0.0, 7.0])]
    cal.settle(second, True, w=0.0)
    assert len(given) == 1
    assert cal.effect("campaign", "c")[2] == 1.0, "relative to the mean of all weights"


@pytest.mark.parametrize(
    "said", [[], None, 19 * ["p"], [None] * 19, [0.5, 0.0], [2.0, *18 * [0.0]], [0.5, 0.0, math.nan, *16 * [0.0]]]
)
def test_what_was_never_said(said):
    cal = Segmented("ops", ["campaign"])
    before = cal.state_dict()
    issued = with_record(cal.issue(0.5, keys={"campaign": "c"}), said)
    with pytest.raises(InputError, match="not what `issue` keeps"):
        cal.settle(issued, True)
    assert cal.state_dict() == before


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        *(("delay_variance", [[count, *11 * [0.0]]]) for count in (-1.0, 0.5)),
        *(("delay_variance", [[4.0, 1.0, *one, *8 * [0.0]]]) for one in ((-1.0, 1.0), (1.0, -1.0))),
        ("delay_variance", [[4.0, 1.0, 1.0, 1.0, *4 * [0.0], *4 * [-1.0]]]),
        ("delay_variance", 60 * [12 * [0.0]]),
        ("delay_variance", [[0.0]]),
        *(("orders", one) for one in ([0.5, 0.6], [1.0, 0.0], [0.5], None)),
    ],
)
def test_variances_and_orders_that_cannot_be(name, wrong):
    state = plain(run_late(Segmented("ops", BY), list(rows_of(*stream(30))), 5))
    Segmented.from_state(state)
    state["learned"][name] = wrong
    with pytest.raises(StateError):
        Segmented.from_state(signed(state))


@pytest.mark.parametrize("wrapper", [Segmented, Multicalibrated])
@pytest.mark.parametrize("make", [Auto, lambda: Protected(delay=5)])
def test_the_prediction_that_a_wrapper_makes_to_learn_takes_no_label(make, wrapper):
    """The calibrator pairs labels with the predictions that were asked for, as it does without the wrapper."""
    alone, wrapped = make(), wrapper(make(), by=["device"])
    rng, waiting = np.random.default_rng(0), []
    for _ in range(300):
        x = float(rng.choice([0.2, 0.5, 0.7]))
        waiting.append((x, bool(rng.random() < x / 2)))
        if rng.random() < 0.8:
            alone.predict_one(x)
            wrapped.predict_one(x, keys={"device": "a"})
        while len(waiting) > 5 or (waiting and rng.random() < 0.5):
            x, y = waiting.pop(int(rng.integers(len(waiting))))
            alone.learn_one(x, y)
            wrapped.learn_one(x, y, keys={"device": "a"})
    assert wrapped.overall.state_dict() == alone.state_dict()
