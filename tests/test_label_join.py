"""`LabelJoin`: what is learned and when, for every order of events; late clicks, full memory, versions, states."""

import datetime
import itertools
import json
import math
import pickle
import random
import re
import uuid
import warnings
from decimal import Decimal

import fuzz_states
import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from streamcal import (
    REGISTRY,
    Auto,
    Decay,
    HistogramBinning,
    Identity,
    InputError,
    Interval,
    Isotonic,
    OnlineBeta,
    OnlinePlatt,
    Platt,
    StateError,
    VennAbers,
    Window,
)
from streamcal.errors import ClockError, StreamcalError
from streamcal.fusion import LogisticFusion
from streamcal.live import Issued, Journal, LabelJoin, Multicalibrated, Segmented, Shadow, importance_weight, join_state
from streamcal.live.early import DelayCurve
from streamcal.states import signed

HORIZON = 100.0


def learned(cal):
    """All that a calibrator holds, as text: equal to the last bit or not."""
    return json.dumps(cal.state_dict())


def taught(cal, observations):
    for one in observations:
        cal.learn_one(*one)
    return cal


def warned_of(play):
    """Return the warnings that a function leads to, as texts."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        play()
    return [str(one.message) for one in seen]


class Mixture(OnlineBeta):
    """A method that is judged by what it said: it notes what it is told."""

    def __init__(self):
        super().__init__()
        self.told = []

    def _issue(self, x, t):
        return (x, self._predict(x), self.n)

    def _learn_issued(self, x, y, w, t, said):
        self.told.append((x, y, w, tuple(said)))
        self._learn(x, y, w, t)


# -- ids -----------------------------------------------------------------------------------------------------------


def test_ids_of_numpy_are_those_of_python(tmp_path):
    def issued(ids, path):
        join = LabelJoin(OnlinePlatt(), HORIZON, journal=Journal(path))
        for k, id in enumerate(ids):
            one = join.issue(id, 0.1, float(k), version=id)
            assert type(one.id) is type(one.version) is (str if k else int)
        assert all(join.resolve(id, True, 5.0) for id in ids)
        assert not join.resolve(np.int8(99), True, 5.0)
        join.acknowledge()
        return join

    plain = issued([7, "a", 2**63 - 1], tmp_path / "plain")
    numpys = issued([np.int32(7), np.str_("a"), np.uint64(2**63 - 1)], tmp_path / "numpy")
    others = issued(["7", b"a", str(2**63 - 1)], tmp_path / "others")
    for one in (numpys, others):
        assert json.dumps(one.state_dict()) == json.dumps(plain.state_dict())
        assert list(one._journal.events()) == list(plain._journal.events())


def test_ids_are_read_by_value():
    """Each way to write an id finds the impression that was issued under each other way."""
    made = uuid.UUID("12345678-1234-5678-1234-567812345678")
    for same in (
        (7, "7", "7.0", "7.00", 7.0, np.uint8(7), np.float64(7.0), Decimal("7"), Decimal("7.00"), b"7"),
        (2**64 - 1, np.uint64(2**64 - 1), str(2**64 - 1), Decimal(2**64 - 1)),
        (made, str(made), made.bytes),
        ("c-7", b"c-7", np.str_("c-7")),
    ):
        for issued, told in itertools.product(same, same):
            join = LabelJoin(OnlinePlatt(), HORIZON)
            join.issue(issued, 0.1, 0.0)
            assert join.resolve(told, True, 1.0)
    join = LabelJoin(OnlinePlatt(), HORIZON)
    join.issue("07", 0.1, 0.0)
    assert not join.resolve(7, True, 1.0), "another text"


def test_outcomes_that_are_nearly_all_unknown_warn_once():
    join = LabelJoin(OnlinePlatt(), HORIZON)
    for k in range(300):
        join.issue(f"c{k}", 0.1, 0.0)
    for k in range(12):
        join.resolve(f"c{k}", True, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in range(107):
            join.resolve(f"C{k}", True, 1.0)
    with pytest.warns(RuntimeWarning, match="108 outcomes are of unknown ids such as 'C200', and 12 of known ones"):
        join.resolve("C200", True, 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        join.resolve("C201", True, 1.0)


@pytest.mark.parametrize("id", [1.5, 2.0**70, Decimal("0.5"), True, np.bool_(True), b"\xff", np.str_(""), None])
def test_other_ids_are_refused(id):
    join = LabelJoin(OnlinePlatt(), HORIZON)
    for call in (lambda: join.issue(id, 0.1, 0.0), lambda: join.resolve(id, True, 0.0)):
        with pytest.raises(InputError, match="give a printable text of 1 to 256 characters, a whole number or a UUID"):
            call()
    assert join.tally()["issued"] == join.tally()["unknown"] == 0


# -- what is learned, and when ---------------------------------------------------------------------------------------


def test_labels_are_learned_in_order_of_issue_when_their_time_has_come():
    join, told = LabelJoin(OnlinePlatt(discount=1.0), HORIZON), OnlinePlatt(discount=1.0)
    join.issue("a", 0.1, 0.0)
    join.issue("b", 0.2, 10.0)
    join.issue("c", 0.3, 20.0)
    join.resolve("c", True, 25.0)
    join.resolve("a", True, 30.0)
    join.advance(99.0)
    assert learned(join.calibrator) == learned(told)
    join.advance(100.0)  # the horizon itself has come
    assert learned(join.calibrator) == learned(taught(told, [(0.1, True)]))
    join.advance(120.0)
    assert learned(join.calibrator) == learned(taught(told, [(0.2, False), (0.3, True)]))
    counted = {name: number for name, number in join.tally().items() if number}
    assert counted == {"issued": 3, "learned": 3, "positives": 2, "timed_out": 1}


def test_a_forecast_is_made_with_the_labels_whose_time_has_come():
    join, told = LabelJoin(OnlinePlatt(), HORIZON), OnlinePlatt()
    assert join.issue("a", 0.25, 0.0).p == told.predict_one(0.25)
    assert join.issue("b", 0.25, 99.0).p == told.predict_one(0.25)
    told.learn_one(0.25, False)
    assert join.issue("c", 0.25, 100.0).p == told.predict_one(0.25) < 0.25


@pytest.mark.parametrize(
    ("horizon", "issue", "later"),
    [
        (datetime.timedelta(hours=1), 0.0, 3600.0),
        (3600, 0, 3600),
        (3600.0, datetime.datetime(2026, 1, 1), datetime.datetime(2026, 1, 1, 1)),
        (3600.0, np.datetime64("2026-01-01T00:00"), np.datetime64("2026-01-01T01:00")),
    ],
)
def test_times_are_seconds_dates_or_spans(horizon, issue, later):
    join = LabelJoin(OnlinePlatt(), horizon)
    join.issue(1, 0.5, issue)
    join.resolve(1, True, issue)
    join.advance(later)
    assert join.tally()["positives"] == 1


def test_an_issued_forecast_says_what_it_is():
    one = LabelJoin(OnlinePlatt(), HORIZON).issue("a", 0.25, 5.0, keys={"campaign": "c17"}, version="v2")
    assert isinstance(one, Issued)
    assert (one.id, one.score, one.t, one.version, one.keys) == ("a", 0.25, 5.0, "v2", {"campaign": "c17"})
    assert one.p == pytest.approx(0.25, abs=1e-12)  # the identity, through a logarithm


def test_a_mixture_is_judged_by_what_it_said_when_issued():
    join, said = LabelJoin(Mixture(), HORIZON), []
    for k in range(30):
        join.issue(k, 0.1, 10.0 * k, w=2.0)  # learns what is due before it forecasts
        x = join.calibrator.scale.coordinate(0.1)
        said.append((x, 0.0, 2.0, (x, join.calibrator._predict(x), join.calibrator.n)))
    assert join.calibrator.told == said[:20]
    again = LabelJoin.from_state(join.state_dict())
    again.advance(1_000.0)  # what was said is part of the state
    assert again.calibrator.told == said[20:]


@pytest.mark.parametrize("early", [None, 20.0])
def test_a_prediction_is_what_would_be_issued_and_changes_nothing(early):
    join = rich(early)
    before = join.state_dict()
    p = join.predict_one(0.3, 400.0, keys={"campaign": 1}, version="v2")
    assert join.predict_one(0.3) == p  # of a calibrator that reads neither time nor keys
    assert join.state_dict() == before
    assert join.issue("next", 0.3, join.clock, version="v2").p == p
    with pytest.raises(InputError, match=r"1\.5"):
        join.predict_one(1.5)


def test_weights_reach_the_calibrator():
    join = LabelJoin(OnlinePlatt(), HORIZON)
    join.issue("a", 0.1, 0.0, w=3.5)
    join.advance(HORIZON)
    assert join.calibrator.n == 3.5


def test_the_weight_of_a_label_comes_with_it(tmp_path):
    """Where one negative of ten is kept, its weight is not known before its label."""
    with Journal(tmp_path / "events.journal") as journal:
        join = LabelJoin(Mixture(), HORIZON, journal=journal)
        for k in range(6):
            join.issue(k, 0.5, 0.0, w=2.0)
        join.resolve(0, False, 1.0, w=importance_weight(False, 0.1))
        join.resolve(1, True, 1.0, w=importance_weight(True, 0.1))
        join.resolve(2, False, 1.0, w=7.0)
        join.resolve(2, True, 2.0, w=3.0)
        join.resolve(3, True, 2.0 * HORIZON + 1.0, w=3.0)  # too late: no outcome
        join.resolve("aside", True, 1.0, w=5.0)
        join.issue("aside", 0.5, 2.0)
        join.resolve("later", True, 1.0, w=5.0)
        told = []
        join.watch(lambda one, y: told.append((one.w, y)))
        with pytest.raises(InputError, match="w"):
            join.resolve(4, True, 1.0, w=-1.0)
        copies = [LabelJoin.from_state(json.loads(json.dumps(join.state_dict()))) for _ in range(1)]
        join.advance(HORIZON + 2.0)
        weights = [(10.0, 0.0), (1.0, 1.0), (3.0, 1.0), (2.0, 0.0), (2.0, 0.0), (2.0, 0.0), (5.0, 1.0)]
        assert [(w, y) for _, y, w, _ in join.calibrator.told] == weights
        assert [(w, float(y)) for w, y in told] == weights
        state = join.state_dict()
    for other in (*copies, LabelJoin(Mixture(), HORIZON, journal=Journal(tmp_path / "events.journal"))):
        other.advance(HORIZON + 2.0)
        assert other.state_dict() == state


def test_a_correction_has_the_weights_of_both_labels():
    join = LabelJoin(Isotonic(), HORIZON)
    for k, w in enumerate((1.0, 2.0)):
        join.issue(k, 0.5, 0.0, w=w)
    join.resolve(0, False, 1.0, w=4.0)
    join.advance(HORIZON + 1.0)
    assert join.calibrator.n == 6.0
    for k in range(2):
        join.resolve(k, True, HORIZON + 1.0, w=0.5)
    assert (join.tally()["corrected"], join.calibrator.n) == (2, 1.0)
    assert join.predict_one(0.5) == 1.0


@pytest.mark.parametrize("order", range(3))
def test_weights_of_outcomes_do_not_depend_on_their_order(order):
    outcomes = [(False, 3.0, 9.0), (True, 5.0, 2.0), (True, 5.0, None), (True, 5.0, 4.0), (True, 8.0, 5.0)]
    random.Random(order).shuffle(outcomes)
    join = LabelJoin(OnlinePlatt(), HORIZON)
    join.issue("a", 0.5, 0.0)
    for y, t, w in outcomes:
        join.resolve("a", y, t, w=w)
    assert join.outcome("a") == (True, True, 5.0, 0, 4.0)


def test_groups_are_corrected_with_the_weights_of_the_labels():
    """One negative of 50 is kept: without their weights half of a group are clicks, and 0.5 is predicted."""
    rng, join = random.Random(0), LabelJoin(Multicalibrated("online-platt", by=["campaign"]), 50.0)
    for k in range(3_000):
        y = rng.random() < 0.5  # 0.01 of all impressions are clicked, and 0.02 of the others are kept
        join.issue(k, 0.02, float(k), keys={"campaign": k % 2})
        join.resolve(k, y, k + 1.0, w=1.0 if y else 50.0)
    assert join.predict_one(0.02, keys={"campaign": 0}) < 0.1  # right is 0.02


# -- any order of outcomes -------------------------------------------------------------------------------------------

#: The rest walk the same code; `-m full` takes them too.
FEW = {"online-platt", "auto", "isotonic", "histogram-binning", "venn-abers", "beta"}
METHODS = [pytest.param(name, marks=[pytest.mark.full] * (name not in FEW)) for name in REGISTRY]
CHEAP = {"monotone-polynomial": {"degree": 4}, "bernstein": {"degree": 6}, "bernstein-logistic": {"degree": 4}}


def lived(make, early, order):
    """Return a join that has issued 40 impressions, with outcomes in a random order between every two clocks."""
    rng, shuffle = random.Random(5), random.Random(order)
    join, due = LabelJoin(make(), 100.0, early=early), []
    for k in range(40):
        now = 7.0 * k
        join.issue(k, round(rng.random(), 2), now)
        if rng.random() < 0.4:
            due.append((k, True, now + rng.expovariate(1 / 20.0)))
        if rng.random() < 0.2:
            due.append((k, False, now + rng.random()))
        if k % 5 == 4:  # no watermark is passed between here and the last issue
            ready = [one for one in due if one[2] <= now]
            due = [one for one in due if one[2] > now]
            shuffle.shuffle(ready)
            for one in ready:
                join.resolve(*one)
    join.advance(270.0)
    return join


@pytest.mark.sample(3)
@pytest.mark.parametrize("early", [None, 36.0])
@pytest.mark.parametrize("name", METHODS)
def test_any_order_of_outcomes_ends_in_the_same_state_to_the_last_bit(name, early):
    states = {
        json.dumps(lived(lambda: REGISTRY[name](**CHEAP.get(name, {})), early, order).state_dict())
        for order in range(3)
    }
    assert len(states) == 1


def test_all_orders_of_contradicting_outcomes_are_one():
    outcomes = [(True, 9.0), (False, 3.0), (True, 5.0), (False, 8.0)]
    states = set()
    for order in itertools.permutations(outcomes):
        join = LabelJoin(OnlinePlatt(), HORIZON)
        join.issue("a", 0.5, 0.0)
        for y, t in order:
            join.resolve("a", y, t)
        states.add(json.dumps(join.state_dict()))
    assert len(states) == 1
    assert join.tally()["repeated"] == 3
    assert join.tally()["contradicted"] == 1
    join.advance(HORIZON)
    assert join.tally()["positives"] == 1


def test_an_impression_may_come_after_its_outcome():
    join, told = LabelJoin(OnlinePlatt(), HORIZON), OnlinePlatt()
    join.advance(50.0)
    assert join.resolve("a", True, 55.0) is False
    assert join.set_aside == 1
    join.issue("a", 0.1, 52.0)
    assert join.set_aside == 0
    join.advance(160.0)
    assert learned(join.calibrator) == learned(taught(told, [(0.1, True)]))
    assert join.tally()["matched"] == 1


def test_predictions_and_outcomes_can_be_looked_up():
    join = LabelJoin(OnlinePlatt(), HORIZON)
    issued = [join.issue("a", 0.1, 0.0, version="v1"), join.issue(7, 0.2, 5.0, version="v2")]
    assert join.predictions == {"a": issued[0], 7: issued[1]}
    assert [name for name, _, _ in join.versions] == ["v1", "v2"]
    assert join.versions[-1][1] is join.calibrator
    assert join.oldest(now=9.0) == 9.0
    join.resolve("a", False, 6.0)
    join.resolve("a", True, 7.0)
    join.resolve("unknown", True, 8.0)
    assert [join.outcome(id) for id in ("a", "unknown", 7)] == [
        (True, True, 7.0, 0, None),
        (True, False, 8.0, 0, None),
        None,
    ]
    join.advance(HORIZON + 5.0)
    assert join.oldest(now=1e6) == 0.0
    assert join.predictions.keys() == {"a", 7}  # remembered, as late clicks may come
    join.advance(3.0 * HORIZON)
    assert not join.predictions


def test_outcomes_of_unknown_ids_are_bounded_the_oldest_go():
    join = LabelJoin(OnlinePlatt(), HORIZON, max_unknown=2)
    for id in "abc":
        join.resolve(id, True, 1.0)
    assert join.set_aside == 2
    assert (join.tally()["unknown"], join.tally()["overflowed"]) == (3, 1)
    join.issue("a", 0.1, 0.0)
    join.issue("c", 0.1, 0.0)
    assert join.tally()["matched"] == 1


def learning_early(calibrator, horizon=HORIZON, early=10.0, **more):
    """Return a join that has seen ten early clicks of impressions older than the horizon: it learns labels early."""
    join = LabelJoin(calibrator, horizon, early=early, **more)
    for cell in range(1, len(join._curve.edges)):
        for _ in range(10):
            join._curve.add(cell, inside=False)
    join._curve.turn(0)
    join._follow_curve()
    return join


# -- clocks ----------------------------------------------------------------------------------------------------------


def test_an_impression_from_the_past_keeps_its_place_and_its_time():
    join, told = learning_early(OnlinePlatt(discount=1.0), early=20.0), OnlinePlatt(discount=1.0)
    join.issue("a", 0.4, 50.0)
    join.issue("b", 0.2, 30.0)  # held as long as if it had been issued now, at 50
    assert join.clock == 50.0
    assert join.tally()["backwards"] == 1
    join.resolve(
        "b", True, 51.0
    )  # 21 s after its own time, and 1 s after it was issued: early by the clock of the join
    join.advance(69.0)
    assert learned(join.calibrator) == learned(told)
    join.advance(70.0)
    # with early the calibrator sees the score as the forecast of an early click
    share = join.early_share()[0]
    assert learned(join.calibrator) == learned(taught(told, [(share * 0.4, False), (share * 0.2, True)]))


def test_outcomes_do_not_move_the_clock():
    join = LabelJoin(OnlinePlatt(), HORIZON)
    join.issue("a", 0.1, 0.0)
    join.resolve("a", True, 1.5 * HORIZON)  # the clock of the clicks is ahead
    assert join.clock == 0.0
    assert join.waiting == 1
    join.advance(HORIZON)
    assert join.tally()["positives"] == 1


def test_before_the_first_event_there_is_no_time():
    """The forecast was that of 1970-01-01, a Thursday at midnight."""
    cal, rng = Auto(), np.random.default_rng(0)
    hours = np.arange(2_000) % 24
    cal.learn_many(
        np.full(2_000, 0.5), rng.random(2_000) < np.where(hours < 12, 0.8, 0.2), None, 3600.0 * np.arange(2_000)
    )
    assert abs(cal.predict_one(0.5, 0.0) - cal.predict_one(0.5)) > 0.05
    timeless = cal.predict_one(0.5)
    for calibrator, p in ((cal, timeless), (Shadow(cal), timeless), (Segmented(cal, by=["campaign"]), 0.5)):
        assert LabelJoin(calibrator, HORIZON).predict_one(0.5) == p  # segments begin with nothing learned


@pytest.mark.parametrize(("late", "last"), [(0.0, HORIZON), (30.0, HORIZON + 30.0), (None, 2 * HORIZON)])
def test_a_click_counts_by_its_own_time(late, last):
    """Also where no impression has moved the clock since; and the earliest click is the one that counts."""
    join = LabelJoin(OnlinePlatt(), HORIZON, late=late)
    for id in ("in time", "too late", "both"):
        join.issue(id, 0.1, 0.0)
    join.resolve("in time", True, last)
    join.resolve("too late", True, last + 1e-9)
    for t in (last + 1.0, last - 1.0):
        join.resolve("both", True, t)
    join.advance(HORIZON)
    tally = join.tally()
    assert (tally["learned"], tally["positives"], tally["timed_out"]) == (3, 2, 0)
    other = LabelJoin(OnlinePlatt(), HORIZON)
    for id in ("in time", "too late", "both"):
        other.issue(id, 0.1, 0.0)
        other.resolve(id, id != "too late", 0.0)
    other.advance(HORIZON)
    assert join.predict_one(0.1) == other.predict_one(0.1)


def test_an_outcome_before_its_impression_counts_as_immediate():
    join = learning_early(OnlinePlatt())
    join.issue("a", 0.1, 50.0)
    join.resolve("a", True, 40.0)
    join.advance(60.0)
    assert join.tally()["positives"] == 1
    assert join.tally()["before_issue"] == 1


def test_time_in_another_unit_is_refused_and_nothing_changes():
    join = LabelJoin(OnlinePlatt(), HORIZON)
    join.issue("a", 0.1, 1.7e9)
    before = join.state_dict()
    for event in (
        lambda: join.issue("b", 0.1, 1.7e12),
        lambda: join.issue("b", 0.1, 1.7e6),
        lambda: join.resolve("a", True, 1.7e12),
        lambda: join.advance(1.7e12),
    ):
        with pytest.raises(ClockError, match="max_jump"):
            event()
    assert join.state_dict() == before
    wide = LabelJoin(OnlinePlatt(), HORIZON, max_jump=1e10)
    wide.issue("a", 0.1, 0.0)
    wide.advance(1e9)
    assert wide.tally()["timed_out"] == 1


def test_an_event_that_is_stamped_far_ahead_is_told():
    """Labels of what is issued then would wait until its time; as on the command line, impressions are refused."""
    join, day = LabelJoin(OnlinePlatt(), "6h"), 86_400.0
    join.issue("a", 0.1, 0.0)
    join.issue("ahead", 0.1, 2.0 * day)
    before = join.state_dict()
    with pytest.raises(ClockError, match=r"172740 s older than the latest event.* max_behind=21600.*migrate\(clock=\)"):
        join.issue("b", 0.1, 60.0)
    assert join.state_dict() == before
    assert join.issue("ahead", 0.1, 60.0).t == 2.0 * day  # a request that is repeated
    wide = learning_early(OnlinePlatt(), "7d", early="6h", max_behind="30d")
    wide.issue("ahead", 0.1, 2.0 * day)

    def issued(first):
        for k in range(100):
            wide.issue(first + k, 0.1, 60.0 + k)

    (found,) = warned_of(lambda: issued(0))
    assert "the last 100 impressions are over 21600 s older than the latest event, at 172800" in found
    assert warned_of(lambda: issued(100)) == []
    with pytest.raises(InputError, match="max_behind=-1"):
        LabelJoin(OnlinePlatt(), "6h", max_behind=-1)


# -- after the horizon -----------------------------------------------------------------------------------------------

CORRECTING = {
    "forever": lambda: Isotonic(),
    "window by time": lambda: Isotonic(forgetting=Window(500.0, by="time")),
    "decay by time": lambda: Platt(forgetting=Decay(500.0, by="time")),
}
NOT_CORRECTING = {
    "online": lambda: OnlinePlatt(discount=1.0),
    "window by count": lambda: Isotonic(forgetting=Window(50)),
    "decay by count": lambda: Platt(forgetting=Decay(50)),
}


def with_a_late_click(make, late=None):
    """Return a join with a click after its negative was learned, of three impressions, and what should be learned."""
    join, timed = LabelJoin(make(), HORIZON, late=late), make().forgets_by_time
    for k, score in enumerate((0.2, 0.4, 0.6)):
        join.issue(k, score, float(k))
    join.advance(HORIZON + 50.0)
    join.resolve(1, True, HORIZON + 40.0)
    observations = [(0.2, False), (0.4, True), (0.6, False)]
    return join, [(*one, 1.0, float(k)) if timed else one for k, one in enumerate(observations)]


@pytest.mark.parametrize("name", CORRECTING)
def test_a_click_after_the_horizon_is_relearned_where_that_is_exact(name):
    join, observations = with_a_late_click(CORRECTING[name])
    fresh = taught(CORRECTING[name](), observations)
    at = {"t": 200.0} if join.calibrator.forgets_by_time else {}
    for score in (0.1, 0.3, 0.5, 0.7):
        # the sums are those of other additions; 1e-12 is some thousand roundings of them
        assert join.calibrator.predict_one(score, **at) == pytest.approx(fresh.predict_one(score, **at), abs=1e-12)
    assert join.calibrator.n == pytest.approx(fresh.n, abs=1e-12)
    assert (join.tally()["corrected"], join.tally()["uncorrected"]) == (1, 0)


@pytest.mark.parametrize("name", NOT_CORRECTING)
def test_a_click_after_the_horizon_is_counted_where_it_cannot_be_relearned(name):
    join, observations = with_a_late_click(NOT_CORRECTING[name])
    fresh = taught(NOT_CORRECTING[name](), [(score, False) for score, _ in observations])
    assert learned(join.calibrator) == learned(fresh)
    assert (join.tally()["corrected"], join.tally()["uncorrected"]) == (0, 1)


def test_the_same_late_click_again_changes_nothing():
    join, _ = with_a_late_click(Isotonic)
    before = learned(join.calibrator)
    assert join.resolve(1, True, HORIZON + 45.0) is True
    assert join.resolve(1, False, HORIZON + 45.0) is True
    assert learned(join.calibrator) == before
    assert (join.tally()["corrected"], join.tally()["uncorrected"]) == (1, 0)


def test_without_late_only_clicks_within_the_horizon_count():
    join, observations = with_a_late_click(Isotonic, late=0.0)
    assert learned(join.calibrator) == learned(taught(Isotonic(), [(score, False) for score, _ in observations]))
    assert join.tally()["unknown"] == 1
    assert join.held == 0


def test_with_early_a_click_that_is_told_late_is_part_of_the_share():
    """Learning and share have one clock: what was learned early is left, and the click counts as one that was late."""
    join = learning_early(Isotonic())
    for k in range(3):
        join.issue(k, 0.5, 0.0)
    join.advance(20.0)
    before = learned(join.calibrator)
    join.resolve(0, True, 5.0)  # clicked in time, told late
    join.resolve(1, True, 15.0)  # clicked later
    assert (join.tally()["corrected"], join.tally()["uncorrected"]) == (0, 1)
    assert [join.outcome(k).cell for k in (0, 1)] == [3, 3]  # both known at 20 s
    assert learned(join.calibrator) == before


# -- the early window ------------------------------------------------------------------------------------------------


def delayed(seed, hours, base=-3.9, per_hour=2_000, ten_minutes=0.8, jump=None):
    """Impressions and clicks: 80 % of the delays are exponential with mean 10 minutes, the others 3 hours."""
    rng = np.random.default_rng(seed)
    n = hours * per_hour
    t = np.sort(rng.random(n)) * hours * 3600.0
    x = rng.normal(0.0, 0.8, n)
    z = base + x + np.where(t >= (jump or math.inf) * 3600.0, math.log(2.0), 0.0)
    p = 1.0 / (1.0 + np.exp(-z))
    delay = np.where(rng.random(n) < ten_minutes, rng.exponential(600.0, n), rng.exponential(10_800.0, n))
    delay[rng.random(n) >= p] = np.inf
    return t, 1.0 / (1.0 + np.exp(-(base + x))), p, delay


def played(join, t, score, delay):
    """Return the forecasts of a stream whose clicks are resolved when they come."""
    p, order = np.empty(len(t)), np.argsort(t + delay)
    clicks = [(float(t[k] + delay[k]), int(k)) for k in order[: np.isfinite(delay).sum()]]
    next_click = 0
    for k, (now, s) in enumerate(zip(t.tolist(), score.tolist(), strict=True)):
        while next_click < len(clicks) and clicks[next_click][0] <= now:
            join.resolve(clicks[next_click][1], True, clicks[next_click][0])
            next_click += 1
        p[k] = join.issue(k, s, now).p
    return p


def share_within(seconds, ten_minutes=0.8):
    """Of the delays of `delayed`."""
    return ten_minutes * (1 - math.exp(-seconds / 600)) + (1 - ten_minutes) * (1 - math.exp(-seconds / 10_800))


@pytest.mark.sample(3)
@pytest.mark.parametrize("expected", [0.3, 0.75, 0.95])
def test_the_share_of_early_clicks_is_found_whatever_was_expected(expected):
    join = LabelJoin(OnlinePlatt(discount=0.9995), 21_600.0, early=900.0, early_share=expected)
    t, score, p, delay = delayed(3, hours=12)
    issued = played(join, t, score, delay)
    share, error = join.early_share()
    true = share_within(900.0) / share_within(21_600.0)
    assert abs(share - true) < 4.0 * error  # a chance of 6e-5, for one seed
    assert 0.005 < error < 0.05  # some 600 clicks
    later = t > 4 * 3600.0
    # with 800 clicks learned, whose number has a standard error of 3.5 %
    assert issued[later].sum() / (p[later].sum() * share_within(21_600.0)) == pytest.approx(1.0, abs=0.1)


def test_the_share_follows_when_delays_change():
    join = LabelJoin(OnlinePlatt(discount=0.9995), 21_600.0, early=900.0)
    curve = join._curve
    rng = random.Random(1)
    for now, expected in ((0.9, 0.9), (0.6, 0.6)):
        for _ in range(20_000):  # five times as many as are remembered: 1e-2 of the old is left
            cell = 0 if rng.random() < now else 4
            for one in range(max(cell, 1), len(curve.edges)):
                curve.add(one, inside=one == cell)
        share, error = join.early_share()
        assert share == pytest.approx(expected, abs=0.02 + 3.0 * error)


def test_a_clock_that_jumps_over_a_gap_loses_no_click_of_the_curve():
    """As if it had been told the time meanwhile: impressions that are forgotten then have grown older before."""
    jumping, ticking = (LabelJoin(OnlinePlatt(), 100.0, early=10.0) for _ in range(2))
    for join in (jumping, ticking):
        for k in range(40):
            join.issue(k, 0.5, float(k))
            join.resolve(k, True, k + 3.0 * (k % 30))
    for t in range(40, 1000):
        ticking.advance(float(t))
    for join in (jumping, ticking):
        join.advance(1000.0)
        assert join._curve.state()["known"][-1] > 39.0
    assert jumping.state_dict() == ticking.state_dict()


def test_the_curve_is_the_product_limit_of_truncated_delays():
    """Against the definition: clicks of delays 1 to 4, each seen only where its impression is older."""
    curve = DelayCurve(1.0, 16.0, 0.5)
    rng = random.Random(7)
    known, inside = [0] * len(curve.edges), [0] * len(curve.edges)
    for _ in range(500):
        delay, age = rng.expovariate(0.3), rng.random() * 30.0
        for cell in range(1, len(curve.edges)):
            if age >= curve.edges[cell] and delay <= curve.edges[cell]:
                known[cell] += 1
                inside[cell] += delay > curve.edges[cell - 1]
                curve.add(cell, delay > curve.edges[cell - 1])
    product = math.prod(1.0 - d / n for n, d in zip(known[1:], inside[1:], strict=True))
    # fading within 500 of 4,000 clicks, and a prior of 2 in some 200 each cell
    assert 1.0 / curve.inverse == pytest.approx(product, rel=0.08)
    truth = (1.0 - math.exp(-0.3)) / (1.0 - math.exp(-4.8))
    assert abs(1.0 / curve.inverse - truth) < 4.0 * curve.share()[1]


def uploaded(method, every, early=900.0, n=8_000, rate=0.1):
    """Return a join whose clicks, five minutes after the impression on average, are told in uploads, and its issues."""
    rng, join = random.Random(0), LabelJoin(method, 21_600.0, early=early)
    issued, clicks, upload = [], [], every
    for k in range(n):
        now = 20.0 * k
        if now >= upload:
            for id, t in clicks:
                if t <= now:
                    join.resolve(id, True, t)
            clicks, upload = [one for one in clicks if one[1] > now], upload + every
        issued.append(join.issue(k, rate, now).p)
        if rng.random() < rate:
            clicks.append((k, now + rng.expovariate(1 / 300.0)))
    return join, issued


@pytest.mark.sample(4)
@pytest.mark.parametrize("every", [60.0, 900.0, 3_600.0, 14_400.0])
def test_clicks_that_are_uploaded_late_are_early_by_the_time_when_they_are_known(every):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of the share, below
        join, issued = uploaded("online-platt", every)
    # 400 clicks in the second half: a standard error of 5 %, and 4 % of the share
    assert np.mean(issued[4_000:]) == pytest.approx(0.1, rel=0.25)
    if every == 3_600.0:  # clicked before the next upload, of impressions in the last quarter of an hour before it
        quarter = np.mean([1.0 - math.exp(-left / 300.0) for left in np.linspace(0.0, 900.0, 1_001)])
        assert join.early_share()[0] == pytest.approx(0.25 * quarter, abs=4.0 * join.early_share()[1])
    # from the own time to the next upload, and 10 s until the next impression
    assert join.report_delay() == pytest.approx(0.5 * every, rel=0.15, abs=20.0)


def test_clicks_that_are_mostly_told_after_a_negative_was_learned_warn_once():
    found = [one for one in warned_of(lambda: uploaded("identity", 2_400.0)) if "known only after" in one]
    assert len(found) == 1
    assert re.search(r"clicks are reported 1\d\d\d s after their own time on average; give a longer early", found[0])
    join = LabelJoin("identity", 86_400.0)

    def reported():
        for k in range(400):
            join.issue(k, 0.5, 600.0 * k)
            if k >= 150:
                join.resolve(k - 150, True, 600.0 * k - 80_000.0)

    (found,) = warned_of(reported)
    assert "100 clicks were known only after a negative label was learned, and 0 before" in found
    assert "reported 8e+04 s after their own time on average; give a longer horizon" in found
    assert join.tally()["corrected"] == 250  # of a method that learns nothing
    early = learning_early("identity", 86_400.0, early=3_600.0)

    def reported_after_the_horizon():
        for k in range(400):
            early.issue(k, 0.5, 600.0 * k)
            if k >= 150:
                early.resolve(k - 150, True, 600.0 * k - 80_000.0)  # clicked 10,000 s after the impression

    (found,) = warned_of(reported_after_the_horizon)
    assert "100 clicks were known only after a negative label was learned, and 0 before" in found
    assert early.tally()["uncorrected"] == 250
    assert warned_of(lambda: uploaded("identity", 60.0)) == []
    assert LabelJoin("identity", 10.0).report_delay() is None


SHARES = [0.0, 0.05, 0.25, 0.5, 0.95]


def of_share(make, share, early=21_600.0, n=4_000, score=0.1):
    """Return the probabilities issued where this share of the clicks is early; the score is right."""
    rng, join = random.Random(1), LabelJoin(make(), 259_200.0, early=early)
    issued, clicks = [], []
    for k in range(n):
        now = 240.0 * k
        for id, t in [one for one in clicks if one[1] <= now]:
            join.resolve(id, True, t)
        clicks = [one for one in clicks if one[1] > now]
        issued.append(join.issue(k, score, now, keys={"campaign": k % 3}).p)
        if rng.random() < 0.1:
            hours = rng.uniform(0.0, 6.0) if rng.random() < share else rng.uniform(6.0, 72.0)
            clicks.append((k, now + 3_600.0 * hours))
    return issued


@pytest.mark.sample(5)
@pytest.mark.filterwarnings("ignore:.*labels are learned at the horizon")
@pytest.mark.parametrize("share", SHARES)
def test_with_early_identity_is_the_identity_whatever_the_share(share):
    assert of_share(Identity, share) == pytest.approx([0.1] * 4_000, rel=1e-12)
    certain = LabelJoin(Identity(), HORIZON, early=10.0)
    assert [certain.predict_one(p) for p in (0.0, 1.0)] == [0.0, 1.0]


WHATEVER_THE_SHARE = [
    pytest.param(Auto, id="auto"),
    pytest.param(lambda: REGISTRY["protected"](), id="protected"),
    pytest.param(lambda: REGISTRY["hedged-ops"](), id="hedged-ops"),
    pytest.param(lambda: Shadow(Auto()), id="shadow"),
    pytest.param(lambda: Segmented("auto", by=["campaign"]), id="segmented"),
    pytest.param(lambda: Multicalibrated("auto", by=["campaign"]), id="multicalibrated"),
]


@pytest.mark.sample(3)
@pytest.mark.filterwarnings("ignore:.*labels are learned at the horizon")
@pytest.mark.parametrize("make", [one for one in WHATEVER_THE_SHARE if one.id != "hedged-ops"])
@pytest.mark.parametrize("share", [0.0, pytest.param(0.25, marks=pytest.mark.full)])
def test_with_early_a_right_score_stays_right_whatever_the_share(make, share):
    issued = of_share(make, share)
    # 200 clicks in the last 2,000: 7 %
    assert np.mean(issued[2_000:]) == pytest.approx(0.1, rel=0.2)


@pytest.mark.sample(8)
@pytest.mark.filterwarnings("ignore:.*labels are learned at the horizon")
@pytest.mark.parametrize("make", [*WHATEVER_THE_SHARE, lambda: Platt(forgetting=Decay(300))])
def test_where_no_click_is_early_what_is_issued_is_what_is_issued_without_early(make):
    with_early, without = (of_share(make, 0.0, early, 1_500) for early in (21_600.0, None))
    assert with_early == without


def test_labels_are_learned_early_once_ten_clicks_are_known_at_each_age():
    join, seen = LabelJoin(OnlinePlatt(), 100.0, early=10.0), []
    for k in range(130):
        join.issue(k, 0.5, float(k))
        join.resolve(k, True, float(k))
        seen.append((join.learns_at_horizon, join.tally()["learned"]))
    # the tenth is as old as the horizon at 109 s
    assert seen == [(True, max(0, k - 99)) for k in range(109)] + [(False, k - 9) for k in range(109, 130)]


def test_labels_are_learned_at_the_horizon_while_the_share_is_small():
    join = LabelJoin(Mixture(), HORIZON, early=10.0)

    def play(numbers, delay):
        for k in numbers:
            join.issue(k, 0.2, float(k))
            join.resolve(k, k % 5 == 0, k + delay)

    (found,) = warned_of(lambda: play(range(400), 40.0))
    assert "few clicks are known within early=10 s" in found
    assert join._curve.waits
    assert join.waiting == 100
    assert join.calibrator.told[-1][:2] == (pytest.approx(math.log(0.25)), False)  # the score itself
    assert join.predict_one(0.2) == join.calibrator.predict_one(0.2)
    assert sum(y for _, y, _, _ in join.calibrator.told[-100:]) == 20
    assert warned_of(lambda: play(range(400, 3_000), 4.0)) == []
    assert not join._curve.waits
    assert join.waiting == 10
    assert join.calibrator.told[-1][0] == pytest.approx(math.log(0.25), abs=0.3)  # the score times a share near 1


@pytest.mark.full
def test_a_doubled_rate_is_followed_without_waiting_for_the_horizon():
    t, score, p, delay = delayed(5, hours=30, jump=18)
    join = LabelJoin(OnlinePlatt(discount=0.9995), 21_600.0, early=900.0)
    issued = played(join, t, score, delay)
    after = (t >= 18 * 3600.0) & (t < 24 * 3600.0)
    ratio = issued[after].sum() / (p[after].sum() * share_within(21_600.0))
    assert 0.8 < ratio < 1.2  # the aim; holding both labels to the horizon gives .5


def test_early_needs_probabilities_and_a_longer_horizon():
    with pytest.raises(InputError, match="probabilities"):
        LabelJoin(Platt(scale=Interval(-3.0, 3.0)), HORIZON, early=10.0)
    with pytest.raises(InputError, match="less than the horizon"):
        LabelJoin(OnlinePlatt(), HORIZON, early=HORIZON)
    with pytest.raises(InputError, match="no early window"):
        LabelJoin(OnlinePlatt(), HORIZON).early_share()


# -- full memory -----------------------------------------------------------------------------------------------------


def test_memory_is_bounded_and_what_is_held_is_spread_evenly():
    join = LabelJoin(Identity(), horizon=10_000.0, max_held=1_000)
    held = [join.issue(k, 0.5, float(k)) and join.held for k in range(25_000)]
    assert max(held) <= 1_000
    waiting = np.array([one.number for one in list(join.predictions.values())[-join.waiting :]])
    assert len(waiting) > 250  # below a quarter of the room, all would be held again
    # ten equal parts of the horizon hold about as many each: ten impressions to one place, kept without clumps
    counts = np.histogram(waiting, bins=10, range=(15_000, 25_000))[0]
    assert counts.min() > 0.5 * counts.mean()
    tally = join.tally()
    assert tally["unheld"] + tally["learned"] + join.waiting == tally["issued"]


def test_what_was_learned_is_forgotten_before_anything_that_waits():
    join = LabelJoin(Identity(), horizon=10.0, late=1e9 / 1e6, max_held=100)
    for k in range(1_000):
        join.issue(k, 0.5, float(k))
    assert join.tally()["unheld"] == 0
    assert join.tally()["forgotten"] > 0
    assert join.held <= 100
    assert join.tally()["learned"] == 990


def test_memory_is_given_back():
    join = LabelJoin(Identity(), horizon=10.0)
    for k in range(1_000):
        join.issue(k, 0.5, float(k))
        join.resolve(k, k % 3 == 0, float(k))
    assert join.held == 20  # ten that wait and ten remembered
    assert sum(join.outcome(k) is not None for k in range(1_000)) == 20


# -- versions --------------------------------------------------------------------------------------------------------


def biased(seed, n, slope, offset):
    """Scores of a model whose log-odds are `slope` times as large and moved by `offset`, and their labels."""
    rng = np.random.default_rng(seed)
    z = rng.normal(-2.0, 1.0, n)
    return 1.0 / (1.0 + np.exp(-(slope * z + offset))), rng.random(n) < 1.0 / (1.0 + np.exp(-z))


def test_a_new_version_starts_from_the_map_of_the_one_before():
    join = LabelJoin(OnlinePlatt(discount=1.0), 10.0)
    scores, labels = biased(0, 3_000, 1.0, 1.0)
    for k, (s, y) in enumerate(zip(scores.tolist(), labels.tolist(), strict=True)):
        join.issue(k, s, float(k), version="v1")
        join.resolve(k, y, float(k))
    old = join.calibrator
    one = join.issue("new", 0.3, 3_000.0, version="v2")
    assert join.calibrator is not old
    assert join.calibrator.n == 0.0
    # nine tenths of the map before (linear in log-odds between knots, as the map itself is) and a tenth of the score
    assert one.p == pytest.approx(0.9 * old.predict_one(0.3) + 0.1 * 0.3, abs=1e-9)


def test_its_own_calibration_takes_over_as_it_earns_it():
    join = LabelJoin(OnlinePlatt(), 10.0)
    streams = {"v1": biased(1, 3_000, 1.0, 1.5), "v2": biased(2, 6_000, 1.0, -1.5)}
    clock, forecasts = 0, []
    for version, (scores, labels) in streams.items():
        for s, y in zip(scores.tolist(), labels.tolist(), strict=True):
            p = join.issue(clock, s, float(clock), version=version).p
            join.resolve(clock, y, float(clock))
            forecasts.append((version, p, y))
            clock += 1
    late = [(p, y) for version, p, y in forecasts if version == "v2"][3_000:]
    ratio = sum(p for p, _ in late) / sum(y for _, y in late)
    assert 0.9 < ratio < 1.1  # some 500 positives: a standard error of 5 %
    first = [p for version, p, _ in forecasts if version == "v2"][:50]
    assert np.mean(first) < 0.3 * np.mean(streams["v2"][1])  # the map of the version before misleads


def test_labels_of_an_old_version_go_to_its_own_calibrator():
    join = LabelJoin(OnlinePlatt(), HORIZON)
    join.issue("a", 0.1, 0.0, version=1)
    first = join.calibrator
    join.issue("b", 0.1, 1.0, version=2)
    join.advance(100.5)
    assert first.n == 1.0
    assert join.calibrator.n == 0.0
    join.advance(101.0)
    assert join.calibrator.n == 1.0


def test_versions_are_bounded():
    join = LabelJoin(OnlinePlatt(), HORIZON)
    for k in range(20):
        join.issue(k, 0.1, float(k), version=f"v{k}")
    assert len(join._versions) == 8
    join.advance(300.0)
    assert join.tally()["refused"] == 12
    assert join.tally()["learned"] == 8


# -- bad input -------------------------------------------------------------------------------------------------------

BAD = [
    (lambda join: join.issue("b", 1.5, 1.0), "1.5"),
    (lambda join: join.issue("b", math.nan, 1.0), "nan"),
    (lambda join: join.issue("b", "0.1", 1.0), "'0.1'"),
    (lambda join: join.issue("", 0.1, 1.0), "''"),
    (lambda join: join.issue(None, 0.1, 1.0), "None"),
    (lambda join: join.issue(True, 0.1, 1.0), "True"),
    (lambda join: join.issue("x" * 257, 0.1, 1.0), "xxx"),
    (lambda join: join.issue("\ud800", 0.1, 1.0), "printable"),
    (lambda join: join.issue("b", 0.1, math.inf), "inf"),
    (lambda join: join.issue("b", 0.1, "now"), "'now'"),
    (lambda join: join.issue("b", 0.1, 1.0, keys=["campaign"]), "keys"),
    (lambda join: join.issue("b", 0.1, 1.0, keys={"campaign": 1.5}), "campaign"),
    (lambda join: join.issue("b", 0.1, 1.0, keys={str(k): k for k in range(65)}), "65 keys"),
    (lambda join: join.issue("b", 0.1, 1.0, version=1.5), "version"),
    (lambda join: join.issue("b", 0.1, 1.0, w=-1.0), "-1.0"),
    (lambda join: join.issue("a", 0.7, 1.0), "of its own"),
    (lambda join: join.resolve("a", 2, 1.0), "2"),
    (lambda join: join.resolve("a", None, 1.0), "None"),
    (lambda join: join.resolve("a", True, math.nan), "nan"),
    (lambda join: join.resolve(b"\xff", True, 1.0), "xff"),
    (lambda join: join.advance(math.nan), "nan"),
    (lambda join: join.acknowledge(), "no journal"),
    (lambda join: join.snapshot(), "no journal"),
]


@pytest.mark.parametrize(("event", "named"), BAD)
def test_bad_input_is_named_and_changes_nothing(event, named):
    join = LabelJoin(OnlinePlatt(), HORIZON)
    join.issue("a", 0.5, 0.0)
    before = join.state_dict()
    with pytest.raises(InputError) as raised:
        event(join)
    assert named in str(raised.value)
    assert ";" in str(raised.value)  # what to do
    assert join.state_dict() == before


@pytest.mark.parametrize(
    "parameters",
    [
        {"horizon": 0.0},
        {"horizon": math.inf},
        {"horizon": "1 hour"},
        {"horizon": True},
        {"horizon": datetime.timedelta(0)},
        {"horizon": 10.0, "early": 0.0},
        {"horizon": 10.0, "early_share": 1.0},
        {"horizon": 10.0, "late": -1.0},
        {"horizon": 10.0, "max_held": 1},
        {"horizon": 10.0, "max_unknown": -1},
        {"horizon": 10.0, "max_jump": 0.0},
    ],
)
def test_other_parameters_are_refused(parameters):
    with pytest.raises(InputError, match=r"not possible|no span of time"):
        LabelJoin(OnlinePlatt(), **parameters)


def test_only_methods_of_one_score_are_taken():
    for other in (LogisticFusion(), OnlinePlatt, None):
        with pytest.raises(InputError, match="of one score"):
            LabelJoin(other, HORIZON)


def test_an_impression_issued_again_is_the_same(tmp_path):
    """It is counted, by a join that is resumed from its journal too; nothing else changes."""
    join = LabelJoin(OnlinePlatt(), HORIZON, journal=Journal(tmp_path / "events.journal"))
    first = join.issue("a", 0.5, 0.0)
    before = join.state_dict()
    assert join.issue("a", 0.5, 3.0) == first
    assert join.tally()["repeated"] == 1
    assert changed(join.state_dict(), "learned", "counts", "repeated", 0) == before
    join._journal.close()
    again = LabelJoin(OnlinePlatt(), HORIZON, journal=Journal(tmp_path / "events.journal"))
    assert again.state_dict() == join.state_dict()


def test_an_id_may_come_again_when_it_is_forgotten():
    join = LabelJoin(OnlinePlatt(), HORIZON)
    join.issue("a", 0.5, 0.0)
    with pytest.raises(InputError, match="of its own"):
        join.issue("a", 0.7, 199.0)
    assert join.issue("a", 0.7, 200.0).score == 0.7
    assert (join.tally()["learned"], join.held) == (1, 1)


def test_a_label_that_the_calibrator_refuses_is_counted_and_told(caplog):
    told, learned_labels = [], []
    join = LabelJoin(Isotonic(forgetting=Window(1.0, by="time", max_jump=5.0)), HORIZON)
    join.watch(lambda one, y: told.append((one.id, y)))
    join.on_learned = lambda one, y: learned_labels.append((one.id, y))
    join.issue("a", 0.5, 0.0)
    join.issue("b", 0.5, 50.0)  # further ahead of the first than the policy allows
    join.advance(200.0)
    assert join.tally()["refused"] == 1
    assert "'b'" in caplog.text
    assert told == [("a", False), ("b", False)]
    assert learned_labels == told[:1]


@pytest.mark.parametrize(("delay", "late", "y"), [(150.0, None, True), (201.0, None, False), (150.0, 0.0, False)])
def test_the_label_that_is_told_is_the_one_that_is_learned(delay, late, y):
    told, learned = [], []
    join = LabelJoin(OnlinePlatt(), HORIZON, late=late)
    join.watch(lambda one, y: told.append((one.id, y)))
    join.on_learned = lambda one, y: learned.append((one.id, y))
    join.issue("a", 0.5, 0.0)
    join.resolve("a", True, delay)
    join.advance(HORIZON)
    assert told == learned == [("a", y)]


@pytest.mark.parametrize("method", [OnlinePlatt, Isotonic])  # with compiled steps, and without
def test_with_early_a_label_is_told_when_the_horizon_has_passed(method):
    join, told = LabelJoin(method(), HORIZON, early=20.0, late=0.0), []
    for k in range(12):  # clicks by which the share of early ones is known
        join.issue(k, 0.5, 0.0)
        join.resolve(k, True, 5.0)
    join.advance(150.0)
    join.watch(lambda one, y: told.append((one.id, y)))
    join.issue("a", 0.5, 200.0)
    join.issue("b", 0.5, 210.0)
    join.resolve("b", True, 290.0)
    join.advance(295.0)
    assert (join.tally()["learned"], told) == (14, [])
    join.advance(300.0)
    assert told == [("a", False)]
    join.advance(310.0)
    assert told == [("a", False), ("b", True)]


def test_a_refused_label_does_not_weigh_the_version_before():
    join = LabelJoin(Isotonic(forgetting=Window(5.0, by="time", max_jump=5.0)), HORIZON)
    for k in range(4):
        join.issue(k, 0.5, float(k), version="v1")
        join.resolve(k, k > 0, float(k))
    join.advance(110.0)
    weights = [0.9]
    for k, refused in ((111.0, 0), (300.0, 1)):  # the last is further ahead than the policy allows
        join.issue(f"i{k}", 0.4, k, version="v2")
        join.advance(k + HORIZON)
        assert join.tally()["refused"] == refused
        weights.append(join._versions["v2"].weight)
    assert weights[0] != weights[1] == weights[2]


# -- states ----------------------------------------------------------------------------------------------------------


def rich(early=None):
    """Return a join that holds something of everything."""
    join = LabelJoin(OnlinePlatt(), HORIZON, early=early)
    for k in range(60):
        join.issue(f"i{k}", 0.1 + 0.01 * k, 3.0 * k, keys={"campaign": k % 4} if k % 3 else None, version=f"v{k // 25}")
        if k % 4 == 0:
            join.resolve(f"i{k}", True, 3.0 * k + 5.0)
        if k % 5 == 0:
            join.resolve(f"i{k}", False, 3.0 * k + 6.0)
    join.resolve("later", True, 180.0)
    join.issue(-7, 0.5, 100.0)
    return join


def go_on(join):
    for k in range(60, 140):
        join.issue(f"i{k}", 0.2, 3.0 * k, version="v2")
        join.resolve(f"i{k}", k % 3 == 0, 3.0 * k + 5.0)
    join.issue("later", 0.3, 400.0)
    join.advance(600.0)
    return json.dumps(join.state_dict())


@pytest.mark.parametrize("early", [None, 20.0])
def test_a_join_that_was_saved_goes_on_to_the_last_bit(early):
    join = rich(early)
    twins = [LabelJoin.from_state(json.loads(json.dumps(join.state_dict()))), LabelJoin.from_bytes(join.to_bytes())]
    twins.append(pickle.loads(pickle.dumps(join)))
    assert {go_on(one) for one in (join, *twins)} == {go_on(rich(early))}


def changed(state, *path_and_value):
    """Return a state in which one field is another, signed again."""
    *path, value = path_and_value
    copy = json.loads(json.dumps(state))
    place = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return signed(copy)


DAMAGES = [
    ("learned", "clock", 1e9),
    ("learned", "clock", "now"),
    ("learned", "number", 3),
    ("learned", "newest", "v7"),
    ("learned", "waiting", 10**6),
    ("learned", "waiting", 0),
    ("learned", "held", 0, "id", "\n" * 39),
    ("learned", "held", 0, "id", "\n".join(["i3"] * 40)),
    ("learned", "held", 0, "id", ["7"] * 40),
    ("learned", "held", 0, "id", [True] * 40),
    ("learned", "held", 0, "keys", {"each": "[null]", "of": [1] * 40}),
    ("learned", "held", 0, "records", "sizes", 0, 3),
    ("learned", "held", 0, "records", "sizes", 0, -1),
    ("learned", "held", 0, "id", []),
    ("learned", "held", 0, "p", 0, 1.5),
    ("learned", "held", 0, "p", None),
    ("learned", "held", 0, "number", 0, 50),
    ("learned", "held", 0, "t", 0, float("nan")),
    ("learned", "held", 0, "at", [50.0]),
    ("learned", "held", 0, "w", []),
    ("learned", "held", 0, "keys", {"each": '[{"campaign": 0.5}]', "of": [0] * 40}),
    ("learned", "held", 0, "version", []),
    ("learned", "held", 0, "of", 0, 10**6),
    ("learned", "held", 0, "of", 0, -1),
    ("learned", "held", 0, "of", 1, 0),
    ("learned", "held", 0, "of", []),
    ("learned", "held", 0, "positive", 0, 1.0),
    ("learned", "held", 0, "when", []),
    ("learned", "held", []),
    ("learned", "held", [{}]),
    ("learned", "held", {}),
    ("learned", "aside", [["a", True, False, 1.0]] * 2),
    ("learned", "counts", {}),
    ("learned", "counts", "issued", -1),
    ("learned", "curve", "known", [0.0] * 3),
    ("learned", "curve", "inside", [9.0] * 8),
    ("learned", "curve", "waits", 1.0),
    ("learned", "curve", "since", -1),
    ("learned", "ages", [[1.0, 0, 1, "nobody"]]),
    ("learned", "held", 0, "cell", []),
    ("learned", "held", 0, "cell", [10] * 15),
    ("learned", "versions", []),
    ("learned", "versions", 1, 1, "weight", 0.0),
    ("learned", "versions", 1, 1, "weight", 1.1),
    ("learned", "versions", 0, 1, "weight", 2.0),
    ("learned", "versions", 1, 1, "before", [0.0]),
    ("learned", "versions", 0, 1, "calibrator", "class", "PITCalibrator"),
    ("params", "horizon", -1.0),
    ("params", "horizont", 1.0),
    ("params", "early", None),
]


def test_what_is_held_is_written_in_chunks(monkeypatch, tmp_path):
    """Ids of one type and of two, versions, levels and what parts said, with and without others: all come back."""
    monkeypatch.setattr(join_state, "CHUNK", 7)
    with Journal(tmp_path / "events.journal") as journal:
        join = LabelJoin("auto", HORIZON, journal=journal)
        for k in range(60):
            id = k if k < 20 else f"i{k}" if k < 40 or k % 2 else 2**60 + k
            keys = None if k % 3 else {"campaign": k % 4, "\ud800": 'a\n"b'}
            join.issue(id, 0.2 + 0.01 * k, 0.3 * k, keys=keys, version=None if k < 30 else "v2", w=1.0 + (k > 50))
            if k % 5 == 0:
                join.resolve(id, True, 0.3 * k + 1.0)
        join.issue("backwards", 0.5, 1.0)
        join.snapshot()
        assert len(list(journal.parts())) == 1 + 9
    for again in (
        LabelJoin.from_bytes(join.to_bytes()),
        LabelJoin.from_state(json.loads(json.dumps(join.state_dict()))),
        LabelJoin("auto", HORIZON, journal=Journal(tmp_path / "events.journal")),
    ):
        assert again.state_dict() == join.state_dict()
        assert list(again.predictions.values())[-again.waiting :] == list(join.predictions.values())[-join.waiting :]


def test_forecasts_of_which_nothing_was_said_are_read():
    """Empty arrays as no arrays: a mixture may have had nothing to say."""
    join = LabelJoin(OnlinePlatt(discount=1.0), HORIZON)
    join.issue("a", 0.5, 0.0)
    state = join.state_dict()
    again = LabelJoin.from_state(changed(state, "learned", "held", 0, "records", {"sizes": [0], "values": []}))
    assert again.state_dict() == state


@pytest.mark.parametrize("missing", [None, math.nan, np.float64("nan")])
def test_a_level_that_is_missing_is_left_out(missing):
    """As `Segmented` takes it."""
    one, other = (LabelJoin(Segmented("online-platt", by=["campaign", "device"]), HORIZON) for _ in range(2))
    for k in range(40):
        issued = one.issue(k, 0.3, 3.0 * k, keys={"campaign": k % 2, "device": missing})
        assert issued.keys == {"campaign": k % 2}
        assert other.issue(k, 0.3, 3.0 * k, keys={"campaign": k % 2}).p == issued.p
        for join in (one, other):
            join.resolve(k, k % 2 == 0, 3.0 * k + 1.0)
    assert one.issue("none", 0.3, 130.0, keys={"device": missing}).keys is None
    other.issue("none", 0.3, 130.0)
    assert one.predict_one(0.3, keys={"campaign": missing}) == other.predict_one(0.3)
    assert one.state_dict() == other.state_dict()
    with pytest.raises(InputError, match=r"level '0.5' of 'device'"):
        one.issue("half", 0.3, 130.0, keys={"device": 0.5})


@pytest.mark.sample(5)
@pytest.mark.parametrize("damage", DAMAGES, ids=str)
def test_damaged_states_are_refused(damage):
    state = rich(20.0).state_dict()
    LabelJoin.from_state(changed(state, "learned", "stride", 1))  # so that it is the damage that is refused
    with pytest.raises(StateError, match="damaged"):
        LabelJoin.from_state(changed(state, *damage))


def survives(state, seed):
    """Whether a state with random damage is read; it is refused with a `StateError`, or as good as any other."""
    plain, said = fuzz_states.damaged(np.random.default_rng(seed), state)
    try:
        join = LabelJoin.from_state(signed(plain) if isinstance(plain, dict) else plain)
    except StateError:
        return False
    try:
        for k in range(40):
            t = join.clock + 3.0 if join.clock > -1e9 else 0.0
            assert 0.0 <= join.issue(f"new{k}", 0.2, t, version="v2").p <= 1.0, said
            join.resolve(f"new{k}", k % 2 == 0, t)
            join.resolve(f"i{k}", True, t)
        join.advance(join.clock + 500.0)
    except StreamcalError:
        pass
    assert LabelJoin.from_state(json.loads(json.dumps(join.state_dict()))).clock == join.clock, said
    return True


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("early", "seeds"),
    [
        (None, range(25)),
        (20.0, range(25)),
        pytest.param(20.0, range(25, 6_000), marks=pytest.mark.full),
    ],
)
def test_random_damage_is_refused_or_harmless(early, seeds):
    state = {name: value for name, value in rich(early).state_dict().items() if name != "check"}
    read = [survives(state, seed) for seed in seeds]
    assert 0 < sum(read) < len(read)  # some damage cannot be seen, such as another time


def test_other_states_are_refused():
    state = rich().state_dict()
    for other in ({}, {"streamcal": 1}, OnlinePlatt().state_dict(), {**state, "learned": {}}):
        with pytest.raises(StateError):
            LabelJoin.from_state(other)


def test_what_it_is_printed_as():
    assert (
        repr(LabelJoin(Identity(), 60, early=5, late=0))
        == f"LabelJoin({Identity()!r}, horizon=60.0, early=5.0, late=0.0)"
    )


# -- a machine -------------------------------------------------------------------------------------------------------


class Model:
    """The join as a list that is searched: nothing is fast, nothing is forgotten before its time."""

    def __init__(self, calibrator):
        self.calibrator = calibrator
        self.clock = -math.inf
        self.events = []  # [id, score, at, first positive, learned, t]
        self.aside = []  # [id, first positive]

    def _move(self, t):
        self.clock = max(self.clock, t)
        for event in self.events:
            if not event[4] and event[2] <= self.clock - HORIZON:
                self.calibrator.learn_one(event[1], self._positive(event))
                event[4] = True
        self.events = [event for event in self.events if event[2] > self.clock - 2 * HORIZON]

    @staticmethod
    def _positive(event):
        return event[3] - event[5] <= 2 * HORIZON

    def issue(self, id, score, t):
        if any(event[0] == id and event[2] > t - 2 * HORIZON for event in self.events):
            return None
        self._move(t)
        p = self.calibrator.predict_one(score)
        came = [one for one in self.aside if one[0] == id]
        first = min((one[1] for one in came), default=math.inf)
        self.events.append([id, score, self.clock, first, False, t])
        self.aside = [one for one in self.aside if one[0] != id]
        return p

    def resolve(self, id, y, t):
        first = t if y else math.inf
        for event in self.events:
            if event[0] == id:
                before = self._positive(event)
                event[3] = min(event[3], first)
                if event[4] and self._positive(event) and not before:
                    self.calibrator.unlearn_one(event[1], False)
                    self.calibrator.learn_one(event[1], True)
                return True
        came = [one for one in self.aside if one[0] == id]
        self.aside = [one for one in self.aside if one[0] != id]
        self.aside.append([id, min([first, *(one[1] for one in came)])])
        self.aside = self.aside[-3:]
        return False


ids = st.integers(0, 12)
times = st.floats(-60.0, 60.0, allow_nan=False)


class Joining(RuleBasedStateMachine):
    """Events in any order, against the model."""

    @initialize()
    def start(self):
        self.join = LabelJoin(HistogramBinning(4), HORIZON, max_unknown=3)
        self.model = Model(HistogramBinning(4))
        self.now = 1_000.0

    @rule(id=ids, score=st.sampled_from([0.1, 0.3, 0.6, 0.9]), ahead=times)
    def issue(self, id, score, ahead):
        held = self.join.predictions.get(id)
        score = held.score if held and held.at > self.now + ahead - 2 * HORIZON else score
        p = self.model.issue(id, score, self.now + ahead)
        issued = self.join.issue(id, score, self.now + ahead)
        assert p is None or issued.p == p
        self.now = max(self.now, self.now + ahead / 2)

    @rule(id=ids, y=st.booleans(), ahead=times)
    def resolve(self, id, y, ahead):
        assert self.join.resolve(id, y, self.now + ahead) == self.model.resolve(id, y, self.now + ahead)

    @rule(ahead=times)
    def advance(self, ahead):
        self.now = max(self.now, self.now + ahead)
        self.model._move(self.now)
        self.join.advance(self.now)

    @rule()
    def save(self):
        self.join = LabelJoin.from_state(json.loads(json.dumps(self.join.state_dict())))

    @invariant()
    def they_agree(self):
        if not hasattr(self, "join"):
            return
        assert learned(self.join.calibrator) == learned(self.model.calibrator)
        assert self.join.clock == self.model.clock
        assert self.join.held == len(self.model.events)
        assert self.join.waiting == sum(not event[4] for event in self.model.events)
        assert self.join.set_aside == len(self.model.aside)
        tally = self.join.tally()
        assert tally["issued"] == tally["learned"] + self.join.waiting
        assert tally["unknown"] >= tally["matched"] + tally["overflowed"] + self.join.set_aside


TestJoining = Joining.TestCase


def test_predictions_of_the_venn_abers_point_follow_the_issued_scores():
    """A method whose score is rounded to a grid learns the score as issued, and not what it was rounded to."""
    join, told = LabelJoin(VennAbers(), HORIZON), VennAbers()
    for k in range(50):
        join.issue(k, 0.01 * k, float(k))
        join.resolve(k, k % 3 == 0, float(k))
    join.advance(200.0)
    told = taught(told, [(0.01 * k, k % 3 == 0) for k in range(50)])
    assert learned(join.calibrator) == learned(told)
