"""`Shadow`: what is promoted and when, late labels, refused observations, states."""

import dataclasses
import json
import math
import pickle
from array import array
from datetime import datetime

import numpy as np
import pytest

from streamcal import (
    Auto,
    CapabilityError,
    Identity,
    InputError,
    OnlinePlatt,
    Platt,
    StateError,
    TrackingOPS,
    VennAbers,
    Window,
)
from streamcal.encoding import pack
from streamcal.errors import ClockError
from streamcal.live import Journal, LabelJoin, Multicalibrated, Segmented, Shadow, events
from streamcal.live.shadow import Predictions, Version
from streamcal.metrics import LogLossDifference
from streamcal.states import signed


def overconfident(n, seed=0):
    """Scores whose log-odds are twice those of the truth, and labels."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal(n)
    return 1.0 / (1.0 + np.exp(-2.0 * z)), rng.random(n) < 1.0 / (1.0 + np.exp(-z))


def learned(n=3_000, **options):
    shadow = Shadow(Identity(), {"platt": OnlinePlatt(), "ops": TrackingOPS()}, **options)
    shadow.predict_learn_many(*overconfident(n))
    return shadow


def test_a_shadow_serves_the_champion_and_compares_as_issued():
    """By hand: each calibrator alone, and the difference of their losses."""
    scores, y = overconfident(500)
    shadow = Shadow(Identity(), {"platt": OnlinePlatt()}, confidence=0.9)
    platt, difference = OnlinePlatt(), LogLossDifference(0.95, adaptive=True)  # half of α for the first comparison
    for score, label in zip(scores.tolist(), y.tolist(), strict=True):
        assert shadow.predict_one(score) == score
        difference.update(label, platt.predict_one(score), score)
        platt.learn_one(score, label)
        shadow.learn_one(score, label)
    (found,) = shadow.comparisons()
    assert (found.name, found.n, found.difference) == ("platt", 500, difference.get())
    assert (found.low, found.high) == difference.interval
    assert shadow.challengers["platt"].predict_one(0.9) == platt.predict_one(0.9)


def test_a_whole_stream_is_the_loop():
    scores, y = overconfident(400)
    w = np.where(np.arange(400) % 5, 1.5, 0.0)
    one, many = (Shadow(OnlinePlatt(), {"ops": TrackingOPS(), "va": VennAbers()}) for _ in range(2))
    served = []
    for row in zip(scores.tolist(), y.tolist(), w.tolist(), strict=True):
        served.append(one.predict_one(row[0]))
        one.learn_one(*row)
    assert many.predict_learn_many(scores, y, w).tolist() == served
    assert many.n == one.n == 320
    for name, calibrator in many.challengers.items():
        assert calibrator.state_dict() == one.challengers[name].state_dict()
    for ours, theirs in zip(many.comparisons(), one.comparisons(), strict=True):
        assert (ours.name, ours.n) == (theirs.name, theirs.n)
        assert ours.difference == pytest.approx(theirs.difference, rel=1e-9)  # logarithms of arrays round differently


def test_only_what_is_shown_to_be_better_is_promoted():
    shadow = learned(30)
    assert {one.verdict for one in shadow.comparisons()} == {"undecided"}
    with pytest.raises(CapabilityError, match=r"wait for more outcomes"):
        shadow.promote()
    with pytest.raises(CapabilityError, match=r"platt: undecided, log loss .* over 30 outcomes"):
        shadow.promote("platt")
    shadow = learned()
    best = shadow.comparisons()[0]
    assert best.verdict == "better"
    assert best.high < 0.0
    assert shadow.promote() == Version(2, best.name, 3_000)
    assert shadow.predict_one(0.9) == shadow.champion.predict_one(0.9) != 0.9
    assert set(shadow.challengers) == {"champion", "platt", "ops"} - {best.name}
    assert all(one.n == 0 and one.verdict == "undecided" for one in shadow.comparisons())
    assert str(shadow.comparisons()[0]).endswith("undecided, no outcomes yet")
    shadow.predict_learn_many(*overconfident(3_000, seed=1))
    verdicts = {one.name: one.verdict for one in shadow.comparisons()}
    assert verdicts["champion"] == "worse", "the scores themselves are overconfident"
    with pytest.raises(CapabilityError, match="champion: worse"):
        shadow.promote("champion")


def test_no_promotion_where_nothing_is_better():
    """Two forecasts as far from the truth, ½, on either side: their expected losses are equal."""
    promoted = 0
    for seed in range(20):
        shadow = Shadow(Identity(), {"other": Identity()}, confidence=0.8)
        y = np.random.default_rng(seed).random(200) < 0.5
        for label in y.tolist():
            shadow._learn(0.4, None, Predictions({"champion": 0.4, "other": 0.6}), float(label), 1.0, None)
            (found,) = shadow.comparisons()
            if found.verdict == "better":
                promoted += 1
                break
    # The bound is α/2 = .1 of 20 streams; 9 or more have a probability below 1e-4 at that rate.
    assert promoted < 9


def test_all_comparisons_together_keep_the_confidence():
    shadow = Shadow(Identity(), {str(k): TrackingOPS() for k in range(50)}, confidence=0.9)
    shares = [1.0 - one.confidence for one in shadow._differences.values()]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(0.1 * 50 / 51)  # 1/1·2 + 1/2·3 + … telescopes
    for k in range(50):
        shadow.remove(str(k))
        shadow.add(str(k), TrackingOPS())
    assert sum(1.0 - one.confidence for one in shadow._differences.values()) < 0.1 - sum(shares) + 1e-12


def test_rollback_returns_to_what_went_on_learning():
    shadow = Shadow(TrackingOPS(), {"platt": OnlinePlatt()}, confidence=0.5)
    alone = TrackingOPS()
    scores, y = overconfident(200)
    shadow.predict_learn_many(scores, y)
    shadow._use("platt")
    shadow.predict_learn_many(scores, y)
    for _ in range(2):
        alone.learn_many(scores, y)
    assert shadow.rollback(1) == Version(3, "champion", 400)
    assert shadow.predict_one(0.3) == alone.predict_one(0.3)
    assert [one.name for one in shadow.versions] == ["champion", "platt", "champion"]
    with pytest.raises(InputError, match="there is no version 7; there are 1 to 3"):
        shadow.rollback(7)
    with pytest.raises(InputError, match="no challenger 'champion'"):
        shadow.rollback(1)
    shadow.remove("platt")
    with pytest.raises(InputError, match="no challenger 'platt'; there are: none"):
        shadow.rollback(2)


def test_no_version_is_that_of_another_calibrator():
    shadow = Shadow(Identity(), {"ops": TrackingOPS()})
    shadow._use("ops")
    shadow.rollback(1)
    shadow.remove("ops")
    with pytest.raises(InputError, match="'ops' is the name of version 2, whose calibrator was removed; give another"):
        shadow.add("ops", TrackingOPS(bins=3))
    with pytest.raises(InputError, match="there is no challenger 'ops'"):
        shadow.rollback(2)
    shadow.add("other", TrackingOPS(bins=3))
    assert list(shadow.challengers) == ["other"]


def test_late_labels_are_compared_by_what_was_issued():
    """Through a promotion, and with a challenger that came after some forecasts."""
    shadow = Shadow(Identity(), {"platt": OnlinePlatt()})
    early = [shadow.issue(score) for score in (0.2, 0.9)]
    assert [one.p for one in early] == [0.2, 0.9]
    shadow.add("ops", TrackingOPS())
    shadow.settle(early[0], False)
    assert {one.name: one.n for one in shadow.comparisons()} == {"platt": 1, "ops": 0}
    shadow._use("ops")
    shadow.settle(early[1], True)  # the champion of now had said nothing then
    assert [one.n for one in shadow.comparisons()] == [0, 0]
    late = shadow.issue(0.4)
    by_name = shadow._read(late.record).by_name
    assert by_name.keys() == {"champion", "platt", "ops"}
    shadow.predict_learn_many(*overconfident(50))
    losses = {name: one.difference * one.n for name, one in ((c.name, c) for c in shadow.comparisons())}
    shadow.settle(late, True)
    for found in shadow.comparisons():
        expected = losses[found.name] - math.log(by_name[found.name]) + math.log(by_name["ops"])
        assert found.difference == pytest.approx(expected / 51, abs=1e-12), "not by what they say after 50 outcomes"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((1.5, True), InputError),
        ((math.nan, True), InputError),
        ((0.5, 2), InputError),
        ((0.5, True, -1.0), InputError),
        ((0.5, True, 1.0, None), InputError),
        ((0.5, True, 1.0, 1e12), ClockError),
    ],
)
def test_a_refused_observation_is_learned_by_nobody(arguments, error):
    shadow = Shadow(TrackingOPS(), {"window": VennAbers(forgetting=Window(60.0, by="time"))})
    shadow.learn_one(0.5, True, 1.0, 0.0)
    before = shadow.state_dict()
    with pytest.raises(error):
        shadow.learn_one(*arguments)
    w = None if len(arguments) < 3 else [arguments[2]]
    t = None if len(arguments) < 4 or arguments[3] is None else [arguments[3]]
    with pytest.raises(error):
        shadow.predict_learn_many([arguments[0]], [arguments[1]], w, t)
    assert shadow.state_dict() == before


@pytest.mark.parametrize("t", [[3.0], ["x", "y"], [3.0, math.nan], [datetime(2026, 1, 1), datetime(2026, 1, 2)]])
def test_times_that_one_refuses_are_learned_by_nobody(t):
    """Also where the champion reads no times."""
    shadow = Shadow(OnlinePlatt(), {"platt": Platt()})
    shadow.predict_learn_many([0.2, 0.4], [0, 1], t=[1.0, 2.0])
    before = shadow.state_dict()
    with pytest.raises(InputError, match=r"^t has length 1|^t\[[01]\]"):
        shadow.predict_learn_many([0.6, 0.8], [1, 0], t=t)
    assert shadow.state_dict() == before
    shadow.predict_learn_many([0.6, 0.8], [1, 0], t=[3.0, 4.0])


def test_a_refused_time_is_not_the_first_one():
    shadow = Shadow(Platt(), {"auto": Auto()})
    issued = shadow.issue(0.5, 1.0)
    with pytest.raises(InputError, match=r"has no time zone, and 1\.0, given before it, is a number"):
        shadow.settle(issued, True, 1.0, datetime(2026, 1, 1))
    shadow.settle(issued, True, 1.0, 2.0)
    assert shadow.n == 1


@pytest.mark.parametrize("champion", [OnlinePlatt, Auto])
@pytest.mark.parametrize("wrong", [lambda said: said[:-1], lambda said: [*said[:-2], 9.0, said[-1]]])
def test_an_outcome_whose_forecast_one_cannot_have_issued_is_learned_by_nobody(champion, wrong):
    shadow = Shadow(champion(), {"auto": Auto()})
    shadow.learn_one(0.5, True)
    before, one = shadow.state_dict(), shadow.issue(0.4)
    damaged = with_record(shadow, one, "auto", wrong)
    with pytest.raises(InputError, match="not the numbers that were issued"):
        shadow.settle(damaged, True)
    assert shadow.state_dict() == before
    shadow.settle(one, True)
    assert shadow.n == 2


def with_record(shadow, issued, name, change):
    """Return a copy of a prediction with another record of one calibrator."""
    by_name, records = shadow._read(issued.record)
    record = []
    for other, p in by_name.items():
        own = records.get(other, ())
        own = change(own) if other == name else own
        record += [shadow._numbers[other], p, len(own), *own]
    return dataclasses.replace(issued, record=array("d", record))


def test_what_is_no_challenger_is_refused():
    cal = Platt()
    shadow = Shadow(cal)
    for name, one, message in [
        ("", Platt(), "the name '' is not allowed"),
        (3, Platt(), "the name 3 is not allowed"),
        ("champion", Platt(), "there is a calibrator 'champion' already"),
        ("platt", cal, "would learn twice"),
        ("platt", Shadow(Platt()), "is no calibrator of one score"),
    ]:
        with pytest.raises(InputError, match=message):
            shadow.add(name, one)
    for confidence in (0.0, 1.0, "0.95", math.nan):
        with pytest.raises(InputError, match="confidence"):
            Shadow(Platt(), confidence=confidence)
    assert shadow.challengers == {}
    with pytest.raises(InputError, match="no challenger 'x'; there are: none"):
        shadow.remove("x")


@pytest.mark.parametrize("copied", [lambda s: Shadow.from_state(json.loads(json.dumps(s.state_dict()))), None])
def test_a_restored_shadow_goes_on(copied):
    shadow = learned(800)
    shadow._use("platt")
    shadow.remove("champion")
    shadow.predict_learn_many(*overconfident(100, seed=3))
    restored = pickle.loads(pickle.dumps(shadow)) if copied is None else copied(shadow)
    for one in (shadow, restored):
        one.predict_learn_many(*overconfident(100, seed=4))
    assert restored.state_dict() == shadow.state_dict()
    assert restored.comparisons() == shadow.comparisons()
    assert repr(restored) == repr(shadow)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s["learned"]["versions"].clear(), r"damaged"),
        (lambda s: s["learned"]["versions"][0].__setitem__(2, 10**6), "a version is of a later time"),
        (lambda s: s["learned"]["versions"][0].__setitem__(0, 2), "versions are missing"),
        (lambda s: [s["learned"][of].pop("champion") for of in ("calibrators", "numbers")], "in use is missing"),
        (lambda s: s["learned"]["calibrators"].pop("champion"), "no numbers of their own"),
        (lambda s: s["learned"]["differences"].pop("ops"), "comparisons and challengers differ"),
        (lambda s: s["learned"].__setitem__("compared", 1), "a number of later ones"),
        (lambda s: s["learned"]["differences"]["ops"].__setitem__(0, 0.5), "a confidence is not possible"),
        (lambda s: s["learned"]["differences"]["ops"].__setitem__(1, 10**6), "more outcomes were compared"),
        (lambda s: s["learned"]["differences"]["ops"].__setitem__(2, 1e9), "the sum of the differences"),
        (lambda s: s["learned"]["numbers"].__setitem__("ops", 0), "two calibrators have one number"),
        (lambda s: s["learned"]["numbers"].__setitem__("ops", -1), "damaged"),
        (lambda s: s["learned"].__setitem__("numbers", [0, 1, 2]), "no numbers of their own"),
        (lambda s: s["learned"]["numbers"].__setitem__("ops", 9), "a number of later ones"),
        (lambda s: s["learned"].pop("numbers"), "damaged"),
        (lambda s: s["params"].__setitem__("confidence", 2.0), "confidence=2.0"),
        (lambda s: s.__setitem__("class", "Auto"), "is one of 'Auto'"),
    ],
)
def test_a_damaged_state_is_refused(change, message):
    state = learned(100).state_dict()
    change(state)
    with pytest.raises(StateError, match=r"changed|damaged|checksum"):
        Shadow.from_state(state)
    with pytest.raises(StateError, match=message):
        Shadow.from_state(signed({key: value for key, value in state.items() if key != "checksum"}))


def test_the_order_of_the_calibrators_in_a_state_is_of_no_account():
    """Comparisons are listed, and those of a new version begin, in the order in which the calibrators came."""
    shadow = Shadow(Identity(), {"platt": OnlinePlatt(), "ops": TrackingOPS(), "late": trained()})
    state = shadow.state_dict()
    for name in ("calibrators", "differences", "numbers"):
        state["learned"][name] = dict(reversed(state["learned"][name].items()))
    again = Shadow.from_state(state)
    assert repr(again) == repr(shadow)
    assert again.comparisons() == shadow.comparisons()
    for one in (shadow, again):
        one._use("ops")
    assert again.state_dict() == shadow.state_dict()


# -- calibrators that read keys --------------------------------------------------------------------------------------


def campaigns(n, seed=0):
    """Scores that are right on average, clicks that depend on the campaign, and its names."""
    rng = np.random.default_rng(seed)
    at = rng.integers(0, 3, n)
    scores = rng.uniform(0.2, 0.4, n)
    return scores, rng.random(n) < scores * np.array([0.3, 1.0, 1.7])[at], np.array(["a", "b", "c"])[at]


def three(**options):
    return Shadow(
        OnlinePlatt(),
        {
            "segments": Segmented(OnlinePlatt(), by=["campaign"]),
            "groups": Multicalibrated(Segmented("auto", by=["campaign"]), by=["campaign", "device"]),
        },
        **options,
    )


def test_levels_reach_the_calibrators_that_read_them():
    """As each alone, to the last bit, one by one and in one call; the loser makes room."""
    scores, y, names = campaigns(2_000)
    one, many = three(), three()
    served = []
    for score, label, name in zip(scores.tolist(), y.tolist(), names.tolist(), strict=True):
        served.append(one.predict_one(score, keys={"campaign": name}))
        one.learn_one(score, label, keys={"campaign": name})
    assert many.predict_learn_many(scores, y, keys={"campaign": iter(names.tolist())}).tolist() == served
    assert one.fields == ("campaign", "device")
    alone = three().challengers
    for name, calibrator in alone.items():
        calibrator.learn_many(scores, y, keys={"campaign": names})
        for shadow in (one, many):
            assert shadow.challengers[name].state_dict() == calibrator.state_dict()
    assert many.promote().name in alone
    found = many.predict_many([0.3, 0.3], keys={"campaign": ["a", "c"]})
    assert found.tolist() == [many.predict_one(0.3, keys={"campaign": name}) for name in ("a", "c")]
    assert found[0] < 0.15 < 0.4 < found[1]
    again = Shadow.from_state(json.loads(json.dumps(many.state_dict())))
    assert again.state_dict() == many.state_dict()
    assert many.clone().fields == many.fields


def test_late_labels_of_calibrators_that_read_keys():
    """In any order, some never: each as it would be alone, and the stakes of those that never come are returned."""
    scores, y, names = campaigns(300)
    shadow, alone = three(), three().challengers
    waiting = []
    for k in range(300):
        keys = {"campaign": names[k]}
        waiting.append(
            (
                shadow.issue(scores[k], keys=keys),
                alone["segments"].issue(scores[k], keys=keys),
                alone["groups"].issue(scores[k], keys=keys),
            )
        )
        if k < 40:
            continue
        at = (k ^ 1) - 40
        issued, parts, bets = waiting[at]
        label = None if at % 10 == 0 else bool(y[at])
        shadow.settle(pickle.loads(pickle.dumps(issued)), label)
        alone["groups"].settle(bets, label)
        if label is not None:
            alone["segments"].settle(parts, label)
    for name, calibrator in alone.items():
        assert shadow.challengers[name].state_dict() == calibrator.state_dict()
    assert {one.n for one in shadow.comparisons()} == {shadow.n}


def test_a_join_passes_levels_to_a_shadow(tmp_path):
    """As each calibrator in a join of its own; again from the journal; what cannot be held returns its stakes."""
    scores, y, names = campaigns(400)

    def run(calibrator, **given):
        join = LabelJoin(calibrator, HORIZON, max_held=30, **given)
        for k in range(400):
            keys = None if k % 50 == 0 else {"campaign": str(names[k])}
            join.issue(k, scores[k], float(k), keys=keys)
            if y[k]:
                join.resolve(k, True, k + 5.0)
        join.advance(1_000.0)
        return join

    with Journal(tmp_path / "journal") as journal:
        join = run(three(), journal=journal)
        join.acknowledge()
        state = join.state_dict()
    for name, calibrator in three().challengers.items():
        assert run(calibrator).calibrator.state_dict() == join.calibrator.challengers[name].state_dict()
    slots = join.calibrator.challengers["groups"]._accounts.slots(0)[0]
    assert slots[:10].tolist() == [*[pytest.approx(0.0, abs=1e-15)] * 8, slots[8], 0.0]
    assert slots[8] > 1.0
    assert join.tally()["unheld"] > 0
    with Journal(tmp_path / "journal") as journal:
        again = LabelJoin(three(), HORIZON, journal=journal, max_held=30)
        assert again.state_dict() == state
    with pytest.raises(InputError, match="campagn"):
        join.issue("x", 0.3, 1_001.0, keys={"campagn": "a"})


@pytest.mark.parametrize(
    "call",
    [
        lambda one: one.learn_one(0.3, True),
        lambda one: one.learn_one(0.3, True, keys={"campagn": "a"}),
        lambda one: one.learn_one(0.3, True, keys={"campaign": 1.5}),
        lambda one: one.learn_one(0.3, 2, keys={"campaign": "a"}),
        lambda one: one.predict_one(1.3, keys={"campaign": "a"}),
        lambda one: one.issue(0.3),
        lambda one: one.issue(0.3, keys={"campaign": "a"}, w=-1.0),
        lambda one: one.predict_learn_many([0.3, 0.4], [0, 1]),
        lambda one: one.predict_learn_many([0.3, 0.4], [0, 1], keys={"campaign": ["a"]}),
        lambda one: one.predict_learn_many([0.3, 0.4], [0, 1], keys={"campagn": ["a", "b"]}),
        lambda one: one.settle(issued_wrongly(one), True),
        lambda one: one.settle(issued_wrongly(one), None),
        lambda one: one.add("stored", Segmented("ops", by=["campaign"], store="levels.db")),
    ],
)
def test_levels_that_one_refuses_are_learned_by_nobody(call):
    shadow = three()
    shadow.learn_one(0.3, True, keys={"campaign": "a"})
    before = {name: one.state_dict() for name, one in shadow._calibrators.items() if name != "groups"}
    with pytest.raises(InputError):
        call(shadow)
    assert {name: one.state_dict() for name, one in shadow._calibrators.items() if name != "groups"} == before
    assert shadow.n == 1


def issued_wrongly(shadow):
    issued = shadow.issue(0.3, keys={"campaign": "a"})
    return with_record(shadow, issued, "groups", lambda record: record[:3])


# -- in a `LabelJoin` ------------------------------------------------------------------------------------------------

HORIZON = 40.0


def late(shadow, scores, y, join=None, first=0, act=lambda k: None):
    """Send a row a second through a join; positive labels come 10 seconds later."""
    join = LabelJoin(shadow, HORIZON) if join is None else join
    for k, (score, label) in enumerate(zip(scores.tolist(), y.tolist(), strict=True), start=first):
        join.issue(k, score, float(k))
        if label:
            join.resolve(k, True, k + 10.0)
        act(k)
    return join


def kinds():
    return Shadow(Auto(), {"ops": TrackingOPS(), "window": VennAbers(forgetting=Window(500.0, by="time"))})


def test_a_shadow_of_a_sample_decides_for_the_whole():
    """All positives and one negative in 100: scores three times too high suit the sample, and not the whole."""
    rng = np.random.default_rng(2)
    true = rng.beta(1.0, 30.0, 60_000)
    y = rng.random(len(true)) < true
    kept = y | (rng.random(len(true)) < 0.01)
    scores, y, w = np.minimum(3.0 * true, 0.99)[kept], y[kept], np.where(y, 1.0, 100.0)[kept]
    many, loop, without = (Shadow(Identity(), {"platt": OnlinePlatt(discount=1.0)}) for _ in range(3))
    many.predict_learn_many(scores, y, w)
    difference = LogLossDifference(0.975, adaptive=True)
    difference.update_many(y, OnlinePlatt(discount=1.0).predict_learn_many(scores, y, w), scores, w)
    for row in zip(scores.tolist(), y.tolist(), w.tolist(), strict=True):
        loop.settle(loop.issue(row[0]), *row[1:])
    for (found,) in (many.comparisons(), loop.comparisons()):
        assert (found.difference, found.low, found.high) == pytest.approx(
            (difference.get(), *difference.interval), rel=1e-9
        )
        assert (found.n, found.verdict) == (len(y), "better")
    without.predict_learn_many(scores, y)
    assert without.challengers["platt"].predict_one(0.06) > 2.0 * many.challengers["platt"].predict_one(0.06)
    again = Shadow.from_state(json.loads(json.dumps(many.state_dict())))
    assert again.comparisons() == many.comparisons()


def test_nothing_is_decided_before_both_labels_have_occurred():
    """Their weights may differ: 200 positives of weight 1 tell nothing of a negative that stands for 1,000."""
    shadow = Shadow(Identity(), {"ops": TrackingOPS()})
    shadow.predict_learn_many(np.full(200, 0.1), np.ones(200, dtype=bool))
    (found,) = shadow.comparisons()
    assert (found.verdict, found.low, found.high) == ("undecided", math.log(1e-6), -math.log(1e-6))
    with pytest.raises(CapabilityError, match="only a challenger that is shown to be better"):
        shadow.promote("ops")
    shadow.learn_one(0.1, False)
    assert shadow.comparisons()[0].verdict == "better"
    other = Shadow(Identity(), {"ops": TrackingOPS()})
    other.predict_learn_many(np.full(200, 0.1), np.ones(200, dtype=bool))
    other.learn_one(0.1, False, 1_000.0)
    assert other.comparisons()[0].verdict == "undecided"


def test_a_join_lets_champion_and_challengers_learn_late_labels_as_issued():
    """Each as in a join of its own, to the last bit, mixtures included; compared by what was issued."""
    scores, y = overconfident(300)
    shadow = kinds()
    join = late(shadow, scores, y)
    for name, alone in (("champion", Auto()), ("ops", TrackingOPS())):
        assert shadow._calibrators[name].state_dict() == late(alone, scores, y).calibrator.state_dict()
    timed = late(VennAbers(forgetting=Window(500.0, by="time")), scores, y).calibrator
    assert shadow.challengers["window"].predict_one(0.4, 299.0) == timed.predict_one(0.4, 299.0)
    ops, auto = LabelJoin(TrackingOPS(), HORIZON), LabelJoin(Auto(), HORIZON)
    served = []
    late(None, scores, y, ops, act=lambda k: served.append(ops.predictions[k].p))
    of_auto = []
    late(None, scores, y, auto, act=lambda k: of_auto.append(auto.predictions[k].p))
    learned = len(scores) - int(HORIZON)
    difference = LogLossDifference(adaptive=True)
    difference.update_many(y[:learned], served[:learned], of_auto[:learned])
    found = next(one for one in shadow.comparisons() if one.name == "ops")
    assert (shadow.n, found.n) == (learned, learned)
    assert found.difference == pytest.approx(difference.get(), rel=1e-9)  # logarithms of arrays round differently
    assert join.tally()["corrected"] == 0


def test_a_join_with_a_shadow_goes_on_from_its_state_and_its_journal(tmp_path):
    """Promotions, challengers that come and go, and earlier forecasts that still wait."""
    scores, y = overconfident(400)

    def change(shadow, k):
        if k == 150:
            shadow._use("ops")
            shadow.add("late", OnlinePlatt())
        if k == 200:
            shadow.remove("window")
            shadow.add("window", TrackingOPS())  # another one of the same name: not judged by what the first one said

    whole = kinds()
    expected = late(whole, scores, y, act=lambda k: change(whole, k))
    comparisons = {one.name: one.n for one in whole.comparisons()}
    assert comparisons == {"champion": 249, "late": 209, "window": 159}, "those issued since both were here"
    with Journal(tmp_path / "journal") as journal:
        shadow = kinds()
        join = LabelJoin(shadow, HORIZON, journal=journal)
        late(None, scores[:220], y[:220], join, act=lambda k: (change(shadow, k), k % 20 or join.snapshot()))
    for copied in (lambda j: j, lambda j: LabelJoin.from_bytes(j.to_bytes())):
        again = copied(LabelJoin.from_state(join.state_dict()))
        assert late(None, scores[220:], y[220:], again, first=220).state_dict() == expected.state_dict()
    with Journal(tmp_path / "journal") as journal:
        with pytest.raises(StateError, match="the journal of another join"):
            LabelJoin(kinds(), HORIZON, journal=journal)  # "window" is another calibrator there
        again = LabelJoin(Shadow(Auto()), HORIZON, journal=journal)
        assert late(None, scores[220:], y[220:], again, first=220).state_dict() == expected.state_dict()


def changed(join, k):
    """Do everything that may be done with a shadow beside the events, in two versions of the model."""
    shadow = join.calibrator
    if k == 150:
        assert shadow.promote().name == "window"
        shadow.add("late", trained())
    if k in (170, 350):
        assert shadow.rollback(1).name == "champion"
    if k == 200:
        shadow.remove("window")
        shadow.add("bins", TrackingOPS())
    if k == 330:
        shadow._use("bins")
        shadow.add("new", OnlinePlatt())


def trained():
    cal = VennAbers()
    cal.learn_many([0.2, 0.4, 0.6], [0, 1, 1])
    return cal


def versioned(join, rows, act=lambda k: None):
    """`late` with scores far too high, in which the first version has a name, and another one begins after 300 rows."""
    rng = np.random.default_rng(9)
    scores, y = rng.uniform(0.8, 0.95, 400), rng.random(400) < 0.1
    for k in rows:
        join.issue(k, float(scores[k]), float(k), version="v1" if k < 300 else "v2")
        if y[k]:
            join.resolve(k, True, k + 10.0)
        act(k)
    return join


def shadowed(**given):
    return LabelJoin(Shadow(Identity(), {"ops": TrackingOPS(), "window": OnlinePlatt(discount=1.0)}), HORIZON, **given)


@pytest.mark.sample(4)
@pytest.mark.parametrize("stops", [(150, 151, 201, 299, 300, 351, 400), (151, 340, 400)])
@pytest.mark.parametrize("snapshot", [False, True])
def test_changes_of_a_shadow_are_events_of_the_journal(tmp_path, stops, snapshot):
    """Promotions, rollbacks and challengers that come and go are made again in their order, in each version."""
    whole = shadowed()
    versioned(whole, range(400), act=lambda k: changed(whole, k))
    assert [one.name for one in whole._versions["v1"].calibrator.versions] == ["champion", "window", "champion"]
    assert [one.name for one in whole._versions["v2"].calibrator.versions] == ["champion", "bins", "champion"]
    begin = 0
    for stop in stops:
        with Journal(tmp_path / "journal") as journal:
            join = LabelJoin(Shadow(Identity()), HORIZON, journal=journal) if begin else shadowed(journal=journal)
            versioned(join, range(begin, stop), act=lambda k, join=join: changed(join, k))
            if snapshot and stop == 201:
                join.snapshot()
        begin = stop
    with Journal(tmp_path / "journal") as journal:
        again = LabelJoin(Shadow(Identity()), HORIZON, journal=journal)
        assert again.state_dict() == whole.state_dict()


def test_a_change_that_cannot_be_written_is_not_made(tmp_path):
    with Journal(tmp_path / "journal") as journal:
        join = shadowed(journal=journal)
        versioned(join, range(200))
    before = join.calibrator.state_dict()
    for change in (
        lambda shadow: shadow.promote("ops"),
        lambda shadow: shadow.add("more", OnlinePlatt()),
        lambda shadow: shadow.remove("ops"),
    ):
        with pytest.raises(StateError, match="the journal is closed"):
            change(join.calibrator)
        assert join.calibrator.state_dict() == before
    free = join.calibrator
    LabelJoin(free, HORIZON)  # of another join, without a journal
    assert free.promote("ops").number == 2


def test_changes_that_are_refused_are_no_events(tmp_path):
    with Journal(tmp_path / "journal") as journal:
        shadow = shadowed(journal=journal).calibrator
        for change in (
            lambda: shadow.promote(),
            lambda: shadow.promote("ops"),
            lambda: shadow.rollback(1),
            lambda: shadow.rollback(7),
            lambda: shadow.remove("nobody"),
            lambda: shadow.add("ops", OnlinePlatt()),
            lambda: shadow.add("again", shadow.champion),
        ):
            with pytest.raises((CapabilityError, InputError)):
                change()
        assert journal.n == 0


def test_a_version_that_is_forgotten_writes_no_more(tmp_path):
    with Journal(tmp_path / "journal") as journal:
        join = shadowed(journal=journal)
        join.issue(0, 0.5, 0.0, version="v0")
        first = join.calibrator
        for k in range(1, 9):
            join.issue(k, 0.5, float(k), version=f"v{k}")
        number = journal.n
        first._use("ops")
        assert journal.n == number
        join.calibrator._use("ops")
        assert journal.n == number + 1
        state = join.state_dict()
    with Journal(tmp_path / "journal") as journal:
        assert shadowed(journal=journal).state_dict() == state


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "event",
    [
        events.changed("v9", "use", "ops", None),
        events.changed(None, "use", "nobody", None),
        events.changed(None, "use", "champion", None),
        events.changed(None, "add", "more", None),
        events.changed(None, "add", "more", {"class": "Nothing", "params": {}, "learned": {}}),
        events.changed(None, "add", "ops", TrackingOPS()._written()),
        events.changed(None, "turn", "ops", None),
        events.changed(None, "use", "ops", None)[:-1],
        bytes((events.CHANGE,)) + pack([1, 2]),
        bytes((events.CHANGE,)) + pack(None),
    ],
)
def test_a_journal_with_an_impossible_change_is_refused(tmp_path, event):
    with Journal(tmp_path / "journal") as journal:
        shadowed(journal=journal)
        journal.append(event)
    with Journal(tmp_path / "journal") as journal, pytest.raises(StateError):
        shadowed(journal=journal)
    with Journal(tmp_path / "other") as journal:
        LabelJoin(OnlinePlatt(), HORIZON, journal=journal)
        journal.append(events.changed(None, "use", "ops", None))
    with Journal(tmp_path / "other") as journal, pytest.raises(StateError, match="calibrator is none"):
        LabelJoin(OnlinePlatt(), HORIZON, journal=journal)


def test_a_new_version_of_the_model_begins_with_the_same_calibrators():
    scores, y = overconfident(200)
    shadow = kinds()
    join = late(shadow, scores, y)
    shadow._use("ops")
    join.advance(200.0)
    before = join.predict_one(0.8)
    issued = join.issue("next", 0.8, 200.0, version="v2")
    assert join.calibrator is not shadow
    assert (join.calibrator.version, set(join.calibrator.challengers)) == (Version(1, "ops", 0), {"champion", "window"})
    assert isinstance(join.calibrator.champion, TrackingOPS)
    # nine tenths of the previous map, on knots an eighth of log-odds apart; the other calibrator has learned nothing
    assert issued.p == pytest.approx(0.9 * before + 0.1 * 0.8, abs=1e-3)
    assert LabelJoin.from_bytes(join.to_bytes()).state_dict() == join.state_dict()


def test_what_is_damaged_in_a_forecast_is_left_out():
    """Numbers that no forecast has, as a state may hold: nothing is raised."""
    for said in ([], [0.0], [7.0, 0.5, 0.0], [0.0, 0.5, 99.0], [1.0, 9.0, -3.0], [1.0, 0.5, 0.0, 0.0, 0.4, 1.0, 0.3]):
        join = late(kinds(), *overconfident(5))
        state = join.state_dict()
        written = state["learned"]["held"][0]["records"]
        sizes, values = written["sizes"], written["values"]
        damaged = np.array(said, dtype=np.float64).view(np.int8).tolist()
        written["values"] = [*damaged, *values[sizes[0] :]]
        written["sizes"] = [len(damaged), *sizes[1:]]
        again = LabelJoin.from_state(signed({key: value for key, value in state.items() if key != "checksum"}))
        again.advance(60.0)
        assert again.tally()["learned"] + again.tally()["refused"] == 5
