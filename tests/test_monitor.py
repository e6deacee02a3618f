"""`CalibrationMonitor`: martingales by enumeration, a naive mixture as oracle, false alarms, what is said, states."""

import copy
import itertools
import json
import logging
import math
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, logit
from scipy.stats import binom, norm, poisson

import streamcal
from streamcal import CapabilityError, InputError, MergeError, StateError
from streamcal.live import CalibrationMonitor
from streamcal.live.alarms import HORIZON, IMMEDIATE, LEVELS, PRIOR, SLOPES, Alarm
from streamcal.live.segments import family_weight
from streamcal.states import signed

FORMS = [{"alpha": 0.05}, {"run_length": 1e4}]
#: Sums of some thousand products of rounded factors.
CLOSE = 1e-9


def forecasts(n, seed=0, centre=-3.0, deviation=0.8):
    rng = np.random.default_rng(seed)
    z = centre + deviation * rng.standard_normal(n)
    return z, rng


def calibrated(n, seed=0, centre=-3.0):
    z, rng = forecasts(n, seed, centre)
    return expit(z), rng.random(n) < expit(z)


def state_of(monitor):
    return monitor.state_dict()


# -- the e-process -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [(0.5, 0.1, 0.9, 0.02, 0.3, 0.3), (0.001, 0.001, 0.999, 0.5, 0.5, 0.01)])
@pytest.mark.parametrize(("form", "mean"), [({"alpha": 1e-9}, 1.0), ({"run_length": 1e12}, 6.0)])
def test_the_mean_under_calibration_is_that_of_the_theorems(p, form, mean):
    """Over all 64 outcomes with their probabilities; no threshold is reached."""
    total = 0.0
    for labels in itertools.product([False, True], repeat=len(p)):
        monitor = CalibrationMonitor(**form)
        assert monitor.update_many(labels, p) == []
        total += math.prod(q if y else 1.0 - q for q, y in zip(p, labels, strict=True)) * monitor.e_value
    assert total == pytest.approx(mean, abs=CLOSE)


def naive(p, y, restarting):
    """Return the mixture of the likelihood ratios of labels."""
    x = logit(p)
    means = np.cumsum(x) / np.arange(1, len(x) + 1)
    z = x + np.add.outer(LEVELS, 0.0 * x) + np.multiply.outer(SLOPES, x - means)
    return mixture(np.where(y, expit(z) / p, (1.0 - expit(z)) / (1.0 - p)), restarting)


def mixture(ratios, restarting):
    """Every bet from every start separately: its products, summed with their priors."""
    n = ratios.shape[1]
    products = [np.dot(PRIOR, ratios[:, s:].prod(axis=1)) for s in range(n)]
    if restarting:
        return sum(products)
    waiting = (1.0 - IMMEDIATE) * HORIZON / (HORIZON + np.arange(n + 1.0))
    starts = -np.diff(waiting)
    starts[0] += IMMEDIATE
    return waiting[-1] + np.dot(starts, products)


@pytest.mark.parametrize("restarting", [False, True])
def test_the_value_is_that_of_the_naive_mixture(restarting):
    z, rng = forecasts(300, 5, centre=-1.0)
    p, y = expit(z), rng.random(300) < expit(z + 0.2)
    monitor = CalibrationMonitor(run_length=1e12) if restarting else CalibrationMonitor(alpha=1e-9)
    monitor.update_many(y, p)
    assert monitor.e_value == pytest.approx(naive(p, y, restarting), rel=CLOSE)


@pytest.mark.sample(3)
@pytest.mark.parametrize("centre", [-1.0, -3.2, -5.6])
def test_false_alarms_are_as_few_as_promised(centre):
    """3,000 outcomes at rates of some 30, 5 and .5 %: more than 5 % of 400 by chance is less likely than 1e-6."""
    streams = 400
    found = sum(
        bool(CalibrationMonitor(alpha=0.05).update_many(*calibrated(3000, s, centre)[::-1])) for s in range(streams)
    )
    assert found <= binom.isf(1e-6, streams, 0.05)


@pytest.mark.full
@pytest.mark.parametrize("centre", [-1.0, -3.2])
def test_false_alarms_of_the_detector_are_as_rare_as_promised(centre):
    """Compare the number of false alarms with its expectation, at most n/run_length.

    Alarms within a stream are a renewal process, hardly more variable than Poisson's, so that six deviations of it are
    exceeded by none of a million correct builds.
    """
    expected = 200 * 5000 / 2000.0
    found = sum(
        len(CalibrationMonitor(run_length=2000).update_many(*calibrated(5000, s, centre)[::-1])) for s in range(200)
    )
    assert 0 < found <= expected + 6.0 * math.sqrt(expected)


@pytest.mark.full
def test_the_family_of_segments_has_few_false_alarms():
    """Any alarm of any of 20 segments, on calibrated streams, has probability α at most."""
    found = 0
    for seed in range(100):
        p, y = calibrated(2000, seed)
        monitor = CalibrationMonitor(alpha=0.05)
        monitor.update_many(y, p, {"c": np.arange(2000) % 20})
        found += any(segment is not None for segment in monitor.alarmed)
    assert found <= binom.isf(1e-6, 100, 0.05)


# -- what is said ------------------------------------------------------------------------------------------------------

CHANGES = {
    ("level", "higher"): lambda z: z + 0.6,
    ("level", "lower"): lambda z: z - 0.6,
    ("slope", "higher"): lambda z: -2.0 + 1.9 * (z + 2.0),
    ("slope", "lower"): lambda z: -2.0 + 0.4 * (z + 2.0),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", CHANGES)
def test_an_alarm_says_what_moved_and_since_when(form, kind):
    """Levels and slopes are hard to tell apart after few events: in 100 streams each, 85 to 100 names were right."""
    named = []
    for seed in range(10):
        z, rng = forecasts(6000, seed, centre=-2.0, deviation=1.0)
        true = np.where(np.arange(6000) < 3000, z, CHANGES[kind](z))
        found = CalibrationMonitor(**form).update_many(rng.random(6000) < expit(true), expit(z))
        alarm = next(alarm for alarm in found if alarm.n > 3000)
        named.append((alarm.moved, alarm.direction))
        assert alarm.segment is None
        assert alarm.n < 5000
        assert 2000 < alarm.since <= 4000  # the start with the largest likelihood is some hundred outcomes off
        assert alarm.e_value >= (20.0 if "alpha" in form else 1e4)
    assert named.count(kind) >= 7  # 3 of 10 wrong names have a chance of some 10 % at 15 %, 4 have one of 1 %


@pytest.mark.sample(2)
@pytest.mark.parametrize("form", FORMS)
def test_a_segment_that_moves_is_named(form):
    z, rng = forecasts(12_000, 4)
    campaign = rng.integers(10, size=12_000)
    true = z + 1.5 * ((campaign == 3) & (np.arange(12_000) >= 6000))
    monitor = CalibrationMonitor(**form)
    alarms = monitor.update_many(rng.random(12_000) < expit(true), expit(z), {"campaign": campaign})
    segments = {alarm.segment for alarm in alarms} - {None}
    assert segments == {("campaign", 3)}
    first = next(alarm for alarm in alarms if alarm.segment)
    assert (first.moved, first.direction) == ("level", "higher")
    assert 6000 < first.n < 9000
    if "alpha" in form:
        assert ("campaign", 3) in monitor.alarmed
        assert monitor.discoveries() == [("campaign", 3)]


def test_alarms_are_not_written_to_standard_error_where_logging_is_not_configured():
    """A program that prints alarms, as the tutorial does, shows each once."""
    code = (
        "from streamcal.live import CalibrationMonitor\n"
        "monitor = CalibrationMonitor(alpha=0.05)\n"
        "for k in range(200):\n"
        "    alarm = monitor.update(k % 4 == 0, 0.01)\n"
        "    if alarm is not None: print(alarm)\n"
    )
    search = {**os.environ, "PYTHONPATH": str(Path(streamcal.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], env=search, capture_output=True, text=True)
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


def test_alarms_are_passed_on_or_logged(caplog):
    """Each comes once: one that is logged too would be in a service's log twice."""
    heard = []
    monitor = CalibrationMonitor(alpha=0.05, on_alarm=heard.append)
    with caplog.at_level(logging.WARNING, logger="streamcal"):
        alarms = [alarm for k in range(200) if (alarm := monitor.update(k % 4 == 0, 0.01, {"shop": "a"}))]
        assert not caplog.records
        monitor.on_alarm, again = None, CalibrationMonitor(alpha=0.05)
        for k in range(200):
            again.update(k % 4 == 0, 0.01, {"shop": "a"})
    assert heard[0] == alarms[0]
    assert heard[0].segment is None
    assert [record.getMessage() for record in caplog.records] == [str(alarm) for alarm in heard]
    assert {record.name.split(".")[0] for record in caplog.records} == {"streamcal"}
    assert [alarm.segment for alarm in heard] == monitor.alarmed == [None, ("shop", "a")]
    assert "events are more frequent than predicted where shop is 'a'" in str(heard[1])


def test_with_alpha_there_is_one_alarm_and_the_value_stays():
    monitor = CalibrationMonitor(alpha=0.05)
    alarms = monitor.update_many([True] * 1000, [0.01] * 1000)
    assert len(alarms) == 1
    assert monitor.e_value == alarms[0].e_value >= 20.0
    assert monitor.n == 1000
    assert monitor.update(True, 0.01) is None
    assert monitor.n == 1001


def test_with_a_run_length_it_starts_anew():
    monitor = CalibrationMonitor(run_length=1e4)
    alarms = monitor.update_many([True] * 1000, [0.01] * 1000)
    assert len(alarms) > 10
    assert len({alarm.n - before.n for before, alarm in itertools.pairwise(alarms)}) == 1
    assert monitor.alarmed == []
    with pytest.raises(CapabilityError, match="run length"):
        monitor.discoveries()


@pytest.mark.parametrize(("p", "y", "direction"), [(0.0, True, "higher"), (1.0, False, "lower")])
@pytest.mark.parametrize("form", FORMS)
def test_a_certainty_that_fails_is_an_alarm_at_once(form, p, y, direction):
    monitor = CalibrationMonitor(**form)
    before = monitor.e_value
    assert monitor.update(not y, p, {"a": 1}) is None
    assert monitor.e_value == before
    alarm = monitor.update(y, p, {"a": 1})
    assert alarm == Alarm(None, "certainty", direction, 2, 2, math.inf)
    assert monitor.e_value == (math.inf if "alpha" in form else 0.0)
    back = CalibrationMonitor.from_state(json.loads(json.dumps(state_of(monitor), allow_nan=False)))
    assert back.e_values == monitor.e_values
    assert back.e_value == monitor.e_value


# -- segments ----------------------------------------------------------------------------------------------------------


def test_when_full_the_segment_longest_without_an_outcome_goes():
    monitor = CalibrationMonitor(max_segments=2)
    for name in ("a", "b", "a", "c"):
        monitor.update(False, 0.3, {"s": name})
    assert list(monitor.e_values) == [("s", "a"), ("s", "c")]
    assert monitor.tally() == {"evicted": 1, "unwatched": 0}


def test_segments_with_an_alarm_stay_and_leave_no_room():
    monitor = CalibrationMonitor(max_segments=1)
    for _ in range(30):
        monitor.update(True, 0.01, {"s": "bad"})
    monitor.update(False, 0.3, {"s": "new"})
    assert list(monitor.e_values) == [("s", "bad")]
    assert monitor.tally() == {"evicted": 0, "unwatched": 1}


def test_no_segments_are_held_where_none_are_allowed():
    monitor = CalibrationMonitor(max_segments=0)
    monitor.update(False, 0.3, {"s": "a"})
    assert monitor.e_values == {}


@given(st.lists(st.tuples(st.integers(0, 8), st.booleans()), max_size=120))
@settings(deadline=None)
def test_discoveries_are_those_of_e_bh_and_contain_every_alarm(outcomes):
    monitor = CalibrationMonitor(alpha=0.3)
    for segment, y in outcomes:
        monitor.update(y, 0.2, {"s": segment})
    places = {("s", segment): place for place, segment in enumerate(dict.fromkeys(s for s, _ in outcomes), 1)}
    weighted = {segment: e * family_weight(places[segment]) for segment, e in monitor.e_values.items()}
    sizes = [r for r in range(1, 10) if sum(value >= 1.0 / (0.3 * r) for value in weighted.values()) >= r]
    found = monitor.discoveries()
    assert len(found) == max(sizes, default=0)
    assert all(weighted[segment] >= 1.0 / (0.3 * len(found)) for segment in found)
    assert {segment for segment in monitor.alarmed if segment} <= set(found)


# -- laws --------------------------------------------------------------------------------------------------------------

outcomes = st.lists(st.tuples(st.floats(0.0, 1.0), st.booleans(), st.sampled_from("abc")), max_size=60)


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("form", [{"alpha": 0.4}, {"run_length": 5.0}])
@given(outcomes=outcomes)
@settings(deadline=None)
def test_update_many_is_the_loop(form, keyed, outcomes):
    looped, many = CalibrationMonitor(**form, max_segments=2), CalibrationMonitor(**form, max_segments=2)
    heard = []
    looped.on_alarm = heard.append
    for p, y, s in outcomes:
        looped.update(y, p, {"s": s} if keyed else None)
    p, y, s = (list(column) for column in zip(*outcomes, strict=True)) if outcomes else ([], [], [])
    assert many.update_many(np.array(y, dtype=bool), np.array(p), {"s": s} if keyed else None) == heard
    assert state_of(many) == state_of(looped)


@given(outcomes=outcomes, at=st.integers(0, 60))
@settings(deadline=None)
def test_a_saved_monitor_goes_on_as_it_would_have(outcomes, at):
    for form in FORMS:
        monitor = CalibrationMonitor(**form)
        for p, y, s in outcomes[:at]:
            monitor.update(y, p, {"s": s})
        copies = [
            CalibrationMonitor.from_state(json.loads(json.dumps(state_of(monitor), allow_nan=False))),
            pickle.loads(pickle.dumps(monitor)),
            copy.deepcopy(monitor),
        ]
        for p, y, s in outcomes[at:]:
            said = monitor.update(y, p, {"s": s})
            assert all(one.update(y, p, {"s": s}) == said for one in copies)
        assert all(state_of(one) == state_of(monitor) for one in copies)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n", -1),
        ("n", 0),
        ("stopped", 1),
        ("of_pits", None),
        ("of_pits", "labels"),
        ("bets", []),
        ("bets", [3, False, 0.0, -0.1, [0.0] * 12, [1.0] * 12, [1] * 12]),
        ("bets", [3, False, 0.0, 0.1, [0.0] * 11, [1.0] * 12, [1] * 12]),
        ("bets", [3, False, 0.0, 0.1, [0.0] * 12, [1.0] * 12, [9] * 12]),
        ("bets", [3, False, math.inf, 0.1, [0.0] * 12, [1.0] * 12, [1] * 12]),
        ("segments", {}),
        ("other", 1),
    ],
)
def test_impossible_states_are_refused(name, value):
    monitor = CalibrationMonitor()
    monitor.update_many([0, 1, 0], [0.2] * 3, {"s": ["a", "b", "a"]})
    state = state_of(monitor)
    state["learned"] = {**state["learned"], name: value}
    with pytest.raises(StateError):
        CalibrationMonitor.from_state(signed(state))


def test_impossible_segments_are_refused():
    monitor = CalibrationMonitor()
    monitor.update_many([0, 1, 0], [0.2] * 3, {"s": ["a", "b", "a"]})
    held = state_of(monitor)["learned"]["segments"]
    first, second = held["watched"]
    twice, same_place = [first, [*first[:2], 1, first[3]]], [first, [*second[:2], first[2], second[3]]]
    for changed in (
        {"watched": twice},
        {"watched": same_place},
        {"watched": [[3.5, *first[1:]]]},
        {"watched": [["s", 2.5, *first[2:]]]},
        {"appeared": 0},
        {"rejected": [["s", "a", 3, 30.0]]},
        {"rejected": [["s", "z", 9, 30.0]]},
    ):
        state = state_of(monitor)
        state["learned"] = {**state["learned"], "segments": {**held, **changed}}
        with pytest.raises(StateError):
            CalibrationMonitor.from_state(signed(state))


def test_changed_and_foreign_states_are_refused():
    state = state_of(CalibrationMonitor())
    for wrong, match in (
        (None, "not a streamcal state"),
        ({**state, "class": "Other"}, "checksum"),
        (signed({**state, "class": "Other"}), "Other"),
        (signed({**state, "params": {"alpha": 2.0, "run_length": None, "max_segments": 5}}), "alpha"),
        (signed({**state, "params": {"nothing": 1}}), "nothing"),
    ):
        with pytest.raises(StateError, match=match):
            CalibrationMonitor.from_state(wrong)


# -- merging -----------------------------------------------------------------------------------------------------------


def test_a_merge_is_a_martingale_of_both_streams():
    """Over all outcomes of both: products of bets have mean 1, and sums of detectors the number of outcomes."""
    p, q = (0.3, 0.05, 0.6), (0.2, 0.9)
    for form, mean in (({"alpha": 1e-9}, 1.0), ({"run_length": 1e12}, 5.0)):
        total = 0.0
        for labels in itertools.product([False, True], repeat=5):
            one, other = CalibrationMonitor(**form), CalibrationMonitor(**form)
            one.update_many(labels[:3], p)
            other.update_many(labels[3:], q)
            one.merge(other)
            chance = math.prod(r if y else 1.0 - r for r, y in zip(p + q, labels, strict=True))
            total += chance * one.e_value
            assert one.n == 5
        assert total == pytest.approx(mean, abs=CLOSE)


def test_merged_evidence_is_found_that_neither_has():
    z, rng = forecasts(800, 8)
    p, y = expit(z), rng.random(800) < expit(z + 0.7)
    halves = []
    for part in (slice(0, 400), slice(400, 800)):
        halves.append(CalibrationMonitor(alpha=1e-6))
        assert halves[-1].update_many(y[part], p[part], {"s": ["a"] * 400}) == []
    one, other = halves
    untouched = state_of(other)
    separate = one.e_value, other.e_value
    one.merge(other)
    assert state_of(other) == untouched
    assert one.e_value > max(separate)
    assert one.e_values[("s", "a")] == one.e_value


def test_alarms_and_segments_of_both_are_in_a_merge():
    one, other = CalibrationMonitor(max_segments=3), CalibrationMonitor(max_segments=3)
    for k in range(40):
        one.update(k % 2, 0.5, {"s": "a"})
        one.update(k % 2, 0.5, {"s": "b"})
        other.update(True, 0.01, {"s": "b"})
        other.update(k % 2, 0.5, {"s": "c"})
    one.merge(other)
    assert one.alarmed == [None, ("s", "b")]
    assert set(one.e_values) == {("s", "a"), ("s", "b"), ("s", "c")}
    assert one.n == 160
    more = CalibrationMonitor(max_segments=3)
    more.update(True, 0.5, {"s": "d"})
    one.merge(more)
    assert one.tally()["evicted"] == 1
    assert len(one.e_values) == 3
    again = CalibrationMonitor.from_state(state_of(one))
    assert state_of(again) == state_of(one)


def test_what_cannot_be_merged_is_refused():
    monitor = CalibrationMonitor()
    for other in (monitor, CalibrationMonitor(alpha=0.1), CalibrationMonitor(run_length=1e4), None):
        with pytest.raises(MergeError, match="same parameters"):
            monitor.merge(other)


# -- distributions -----------------------------------------------------------------------------------------------------


@pytest.mark.full
@pytest.mark.sample(2)
@pytest.mark.parametrize(("form", "mean"), [({"alpha": 1e-9}, 1.0), ({"run_length": 1e15}, 2.0)])
def test_the_mean_over_calibrated_distributions_is_that_of_the_theorems(form, mean):
    """Integrate over two normal scores by the trapezoidal rule, which is exact to rounding for such densities.

    The widest ratio has the standard deviation 2.5, so that 1e-3 of its mass lies beyond the clamp at 8.25.
    """
    z = np.linspace(-9.0, 9.0, 61)
    weights = norm.pdf(z) * (z[1] - z[0])
    total = 0.0
    for first, one in zip(z, weights, strict=True):
        for second, other in zip(z, weights, strict=True):
            monitor = CalibrationMonitor(**form)
            monitor.update_pits(norm.cdf([first, second]))
            total += one * other * monitor.e_value
    assert 0.998 * mean < total <= mean + 1e-6


@pytest.mark.parametrize("restarting", [False, True])
def test_the_value_of_pits_is_that_of_the_naive_mixture(restarting):
    z = np.random.default_rng(6).normal(0.1, 1.1, 200)
    monitor = CalibrationMonitor(run_length=1e15) if restarting else CalibrationMonitor(alpha=1e-9)
    monitor.update_pits(norm.cdf(z))
    spread = 1.0 + np.array(SLOPES)[:, None]
    ratios = norm.pdf(z, np.array(LEVELS)[:, None], spread) / norm.pdf(z)
    assert monitor.e_value == pytest.approx(mixture(ratios, restarting), rel=CLOSE)


CHANGES_OF_DISTRIBUTIONS = {
    ("location", "higher"): lambda z: z + 0.4,
    ("location", "lower"): lambda z: z - 0.4,
    ("spread", "higher"): lambda z: 1.4 * z,
    ("spread", "lower"): lambda z: 0.7 * z,
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("kind", CHANGES_OF_DISTRIBUTIONS)
def test_an_alarm_of_distributions_says_what_moved(form, kind):
    z = np.random.default_rng(1).standard_normal(3000)
    u = norm.cdf(np.where(np.arange(3000) < 2000, z, CHANGES_OF_DISTRIBUTIONS[kind](z)))
    monitor, looped = CalibrationMonitor(**form), CalibrationMonitor(**form)
    alarm, *_ = alarms = monitor.update_pits(u, {"shop": ["a", "b"] * 1500})
    assert (alarm.moved, alarm.direction) == kind
    assert 2000 < alarm.n < 2300
    assert 1900 < alarm.since < 2200
    heard = []
    looped.on_alarm = heard.append
    for k, one in enumerate(u.tolist()):
        looped.update_pit(one, {"shop": "ab"[k % 2]})
    assert heard == alarms
    assert state_of(looped) == state_of(monitor)
    assert state_of(CalibrationMonitor.from_state(state_of(monitor))) == state_of(monitor)


def test_pits_without_keys_are_the_loop_too():
    u = np.concatenate(([0.0, 1.0], np.random.default_rng(3).random(500)))
    many, looped = CalibrationMonitor(run_length=50), CalibrationMonitor(run_length=50)
    alarms = many.update_pits(u)
    assert [alarm for one in u.tolist() if (alarm := looped.update_pit(one))] == alarms != []
    assert state_of(many) == state_of(looped)


def test_labels_and_pits_are_not_mixed():
    labels, pits = CalibrationMonitor(), CalibrationMonitor()
    labels.update(True, 0.5)
    pits.update_pit(0.5)
    states = state_of(labels), state_of(pits)
    for call in (
        lambda: labels.update_pit(0.5),
        lambda: labels.update_pits([0.5]),
        lambda: pits.update(True, 0.5),
        lambda: pits.update_many([True], [0.5]),
        lambda: pits.update_pit(1.5),
        lambda: pits.update_pits([0.5, -0.1]),
        lambda: pits.update_pit(0.5, {"s": 1.5}),
    ):
        with pytest.raises(InputError, match="give"):
            call()
    with pytest.raises(MergeError, match="PITs"):
        labels.merge(pits)
    assert (state_of(labels), state_of(pits)) == states
    empty = CalibrationMonitor()
    empty.merge(pits)
    assert empty.update_pit(0.5) is None


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [
        {"alpha": 0.0},
        {"alpha": 1.0},
        {"alpha": math.nan},
        {"alpha": "0.05"},
        {"run_length": 1.0},
        {"run_length": math.inf},
        {"alpha": 0.05, "run_length": 1e6},
        {"max_segments": -1},
        {"max_segments": 2.0},
        {"on_alarm": 3},
    ],
)
def test_impossible_parameters(wrong):
    with pytest.raises(InputError, match="give"):
        CalibrationMonitor(**wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        (True, 1.2),
        (True, math.nan),
        (None, "0.2"),
        (2, 0.2),
        (0.2, True),
        (True, 0.2, ["campaign"]),
        (True, 0.2, {3: "a"}),
        (True, 0.2, {"a": "b", "s": 1.5}),
        (True, 0.2, {"s": 2.0**60}),
    ],
)
def test_a_wrong_outcome_changes_nothing(wrong):
    monitor = CalibrationMonitor()
    monitor.update(True, 0.2, {"s": "a"})
    before = state_of(monitor)
    with pytest.raises(InputError, match="give"):
        monitor.update(*wrong)
    assert state_of(monitor) == before


@pytest.mark.parametrize(
    "wrong",
    [
        ([0, 1], [0.2, 1.2]),
        ([0, 1, 1], [0.2, 0.2]),
        ([0, 2], [0.2, 0.2]),
        ([0.2, 0.2], [0, 1]),
        ([0, 1], [0.2, 0.2], "abc"),
        ([0, 1], [0.2, 0.2], {"s": ["a"]}),
        ([0, 1], [0.2, 0.2], {"s": 5}),
        ([0, 1], [0.2, 0.2], {"s": ["a", 1.5]}),
    ],
)
def test_wrong_outcomes_change_nothing(wrong):
    monitor = CalibrationMonitor()
    before = state_of(monitor)
    with pytest.raises(InputError):
        monitor.update_many(*wrong)
    assert state_of(monitor) == before


@pytest.mark.parametrize("missing", [None, math.nan, np.float64("nan")])
def test_an_outcome_whose_level_is_missing_is_in_no_segment_of_the_field(missing):
    one, other, many = CalibrationMonitor(), CalibrationMonitor(), CalibrationMonitor()
    one.update(True, 0.2, {"s": missing, "t": "x"})
    one.update(False, 0.3, {"s": missing})
    other.update(True, 0.2, {"t": "x"})
    other.update(False, 0.3)
    many.update_many([1, 0], [0.2, 0.3], {"s": [missing, missing], "t": ["x", missing]})
    assert state_of(one) == state_of(other) == state_of(many)
    one.update(True, 0.2, {"s": True, "t": 2.0})
    assert set(one.e_values) == {("s", 1), ("t", 2), ("t", "x")}, "bools and floats are whole numbers"


def test_levels_of_numpy_and_mixed_columns_are_those_of_python():
    one, other = CalibrationMonitor(), CalibrationMonitor()
    one.update_many([0, 1], [0.2, 0.3], {"s": np.array([3, 4]), "t": ["x", 7]})
    other.update(0, 0.2, {"s": np.int64(3), "t": "x"})
    other.update(1, 0.3, {"s": 4, "t": 7})
    assert state_of(one) == state_of(other)


def test_the_repr_shows_what_was_given():
    assert repr(CalibrationMonitor()) == "CalibrationMonitor(alpha=0.05)"
    assert repr(CalibrationMonitor(run_length=1e6, max_segments=5)) == (
        "CalibrationMonitor(run_length=1000000.0, max_segments=5)"
    )


@pytest.mark.parametrize("at_once", [False, True])
def test_pits_of_counts_are_refused_once_they_are_seen_to_repeat(at_once):
    forecast, rng = poisson(3.0), np.random.default_rng(0)
    y = rng.poisson(3.0, 200)
    u, monitor = forecast.cdf(y), CalibrationMonitor()
    with pytest.raises(InputError, match=r"64 PITs have \d+ values"):
        monitor.update_pits(u) if at_once else [monitor.update_pit(one) for one in u.tolist()]
    assert monitor.n == (0 if at_once else 63)
    spread, below = CalibrationMonitor(), forecast.cdf(y - 1)
    assert spread.update_pits(below + rng.random(200) * (u - below)) == []
    assert spread.n == 200
