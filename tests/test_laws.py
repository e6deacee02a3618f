"""The laws of `docs/architecture.md`, for every method of every room under every policy.

A law is written once. What it has to know of a room is in `laws/`, and what holds in one room only is in
`test_laws_<room>.py`. A plain `pytest` tries all methods under decay by time (`laws.ONCE`), in some laws without
forgetting as well (`laws.EVERYWHERE`), and the first method of each statistic under all policies; the rest is `full`.
"""

import gc
import itertools
import json
import pickle
import weakref
from datetime import datetime, timedelta

import pytest
from hypothesis import assume
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from laws import (
    COPIES,
    EVERYWHERE,
    HALF_LIFE,
    LONGEST,
    POLICIES,
    ROUNDED,
    TIMED,
    assert_close,
    binary,
    changed,
    each,
    fusion,
    held,
    law,
    learned,
    multiclass,
    regression,
    through_bytes,
    through_json,
    trying,
)

import streamcal
from streamcal import Auto, CapabilityError, InputError, MergeError, Prior, SolverError, StateError
from streamcal.learners.additive import Additive
from streamcal.learners.engine import Steps
from streamcal.states import signed

ROOMS = {
    "one score": (binary.CASES, streamcal.REGISTRY),
    "several scores": (fusion.CASES, streamcal.fusion.METHODS),
    "several classes": (multiclass.CASES, streamcal.multiclass.METHODS),
    "distributions": (regression.CASES, streamcal.regression.METHODS),
}
ALL = [case for cases, _ in ROOMS.values() for case in cases]
ADDITIVE = [case for case in ALL if case.policy is not None]
SEQUENTIAL = [case for case in ALL if case.policy is None]
ADDING = [case for case in ALL if case.adds]
UNLEARNING = [case for case in ALL if case.unlearns]
NOT_UNLEARNING = [case for case in ALL if not case.unlearns]
BY_TIME = [case for case in ALL if case.policy in TIMED]
WINDOWS = [case for case in ALL if case.policy in ("window", "time-window")]
NEW = [case for case in ALL if case.policy in ("forever", None)]
REFRESHING = [case for case in ADDITIVE if "refresh_every" in case.build().params()]


@pytest.mark.parametrize("room", ROOMS)
def test_every_method_is_walked_under_every_policy(room):
    cases, methods = ROOMS[room]
    assert {type(make()) for case in cases for make in case.makers} - {binary.WithFolds} == set(methods.values())
    assert {case.policy for case in cases} == {*POLICIES, None}
    for name, method in methods.items():
        assert (method.name, bool(method.summary)) == (name, True)


@each(case for case in ALL if isinstance(case, binary.ScoreCase))
def test_every_variant_keeps_its_parameters(case):
    for params, make in zip(case.variants(), case.makers, strict=True):
        found = make().params()
        assert {name: found[name] for name in params} == params
    varied = {name for params in case.variants() for name in params}
    listed = set(binary.VALUES) & set(case.build().params()) if case in binary.CASES else set()
    assert varied >= listed - ({"prior"} if case.policy == "time-decay" else set()), "a listed parameter is not varied"


# -- learning ------------------------------------------------------------------------------------------------------


@law(ALL)
def test_learn_many_is_a_loop_of_learn_one(case, draw):
    loop = draw(case.calibrators())
    many, stream = loop.clone(), draw(case.streams(loop, max_size=LONGEST, alike=True))
    cut = draw(st.integers(0, LONGEST))
    learned(loop, stream)
    case.learn_many(many, stream[:cut])
    case.learn_many(many, stream[cut:])
    case.assert_same(loop, many)
    assert loop.tally() == many.tally()


@law(ALL, under=EVERYWHERE)
def test_predict_learn_many_is_a_loop_of_predict_one_and_learn_one(case, draw):
    """To the last bit, of answers and of the state, with observations of weight 0 and with weights that round."""
    loop = draw(case.calibrators())
    if loop.params().get("refresh_every") and draw(st.booleans()):
        loop = changed(loop, refresh_every=3)
    stream = draw(case.streams(loop, max_size=LONGEST, alike=True))
    factors = draw(st.lists(st.sampled_from([0.0, 1.0, 1.0, 0.1]), min_size=len(stream), max_size=len(stream)))
    stream = [o._replace(w=factor * o.w) for o, factor in zip(stream, factors, strict=True)]
    cut = draw(st.integers(0, LONGEST))
    for verb in ["predict_learn_many"] + ["predict_interval_learn_many"] * getattr(loop, "has_interval", False):
        one, many = loop.clone(), loop.clone()
        expected = case.in_turn(one, stream, verb).tolist()
        found = [row for part in (stream[:cut], stream[cut:]) for row in case.streamed(many, part, verb).tolist()]
        assert found == expected
        assert many.state_dict() == one.state_dict()


class Dated:
    """A calibrator that is given its times as dates without a time zone."""

    def __init__(self, cal):
        self._cal = cal

    def __getattr__(self, name):
        verb = getattr(self._cal, name)
        if name != "predict_learn_many":
            return verb
        return lambda x, y, w, t, **more: verb(x, y, w, t.astype("datetime64[s]"), **more)


@law(ALL, under=EVERYWHERE)
def test_dates_without_a_time_zone_are_seconds(case, draw):
    """In one call, and in the parts of which a method is made: these are given numbers, of a date that was checked."""
    seconds = draw(case.calibrators())
    dates, stream = seconds.clone(), draw(case.streams(seconds, max_size=6, alike=True))
    expected = case.streamed(seconds, stream, "predict_learn_many")
    assert case.streamed(Dated(dates), stream, "predict_learn_many").tolist() == expected.tolist()
    for o in stream:
        at = datetime(1970, 1, 1) + timedelta(seconds=o.t)
        dates.predict_one(o.x, at)
        seconds.predict_one(o.x, o.t)
        dates.learn_one(*o[:3], at)
        seconds.learn_one(*o)
    assert dates.state_dict() == seconds.state_dict()


@each(ADDITIVE)
def test_the_weight_held_is_asked_after_every_observation(case):
    cal = case.build()
    stream = [*case.good(cal)] * 2
    for size, observation in enumerate(stream, 1):
        cal.learn_one(*observation)
        assert cal.n == pytest.approx(sum(o.w for o in case.model(cal, stream[:size]).held()), rel=ROUNDED)


@law(ADDITIVE)
def test_a_policy_is_a_fresh_fit_of_what_it_holds(case, draw):
    """A window is a refit on the suffix, decay one with the weights of today."""
    cal = draw(case.calibrators(**({"prior": None} if case.policy == "decay" and case in binary.CASES else {})))
    stream = draw(case.streams(cal, max_size=LONGEST))
    case.assert_same(learned(cal, stream), case.fit(cal, case.model(cal, stream).held()))


@each((case for case in ADDITIVE if case.policy == "decay"), under=())
def test_rows_that_went_quiet_are_held_alike_in_a_loop_and_in_bulk(case):
    """Over several rescalings; what is held is that of the definition, where no other row is near."""
    half_life = POLICIES["decay"].half_life
    for make in case.makers:
        loop, bulk, pieces = (make() for _ in range(3))
        rows = case.ordered(loop, 6)
        stream = [*rows[3:], *itertools.islice(itertools.cycle(rows[:3]), 150)]
        within = max(case.within(loop), ROUNDED)
        with trying(loop):
            learned(loop, stream)
            case.learn_many(bulk, stream)
            for first in range(0, len(stream), 33):
                case.learn_many(pieces, stream[first : first + 33])
            for other in (bulk, pieces):
                assert other._engine.memory.count == loop._engine.memory.count
                case.assert_same(loop, other, within)
            if loop.params().get("prior") is None:  # it fades as the rows do
                weighed = [o._replace(w=2.0 ** ((k + 1 - len(stream)) / half_life)) for k, o in enumerate(stream)]
                case.assert_same(loop, case.fit(loop, weighed), within)


@law(ADDING)
def test_order_does_not_matter(case, draw):
    cal = draw(case.calibrators())
    stream = draw(case.streams(cal))
    shuffled = learned(cal.clone(), draw(st.permutations(stream)))
    case.assert_same(learned(cal, stream), shuffled)


@law(ADDING)
def test_weight_two_is_twice(case, draw):
    cal = draw(case.calibrators())
    stream = draw(case.streams(cal, min_size=1))
    place = draw(st.integers(0, len(stream) - 1))
    doubled = [o._replace(w=2.0 * o.w) if k == place else o for k, o in enumerate(stream)]
    case.assert_same(learned(cal.clone(), doubled), learned(cal, [*stream, stream[place]]))


@law(SEQUENTIAL)
def test_a_sequential_observation_of_weight_two_is_one_step(case, draw):
    cal = draw(case.calibrators(discount=1.0))
    twice = cal.clone()
    for observation in draw(case.streams(cal, min_size=2)):
        cal.learn_one(observation.x, observation.y, 2.0)
        case.learn_many(twice, [observation._replace(w=1.0)] * 2)
    assert cal.n == twice.n
    assert held(cal) != held(twice)


@law(NEW, under=EVERYWHERE)
def test_labels_and_numbers_of_every_type_are_the_same(case, draw):
    cal = draw(case.calibrators())
    stream = draw(case.streams(cal, min_size=1))
    state = learned(cal.clone(), stream).state_dict()
    for spelled in case.spellings(stream):
        assert learned(cal.clone(), spelled).state_dict() == state


@law(ALL)
def test_weight_zero_is_nothing(case, draw):
    cal = draw(case.calibrators())
    stream = draw(case.streams(cal, alike=True))
    learned(cal, stream)
    before = held(cal)
    idle = [o._replace(w=0.0, t=o.t + 100.0) for o in draw(case.streams(cal, max_size=4, alike=True))]
    case.learn_many(learned(cal, idle), idle)
    for observation in idle if case.unlearns else []:
        cal.unlearn_one(*observation)
    assert held(cal) == before
    mixed, many = [twin for o in stream for twin in (o, o._replace(w=0.0))], cal.clone()
    case.learn_many(many, mixed)
    case.assert_same(many, cal)


# -- merging -------------------------------------------------------------------------------------------------------


@law(ADDING)
def test_merging_is_concatenation_associative_and_commutative_with_the_empty_one_as_identity(case, draw):
    cal = draw(case.calibrators())
    parts = [draw(case.streams(cal, max_size=8)) for _ in range(3)]
    a, b, c = (learned(cal.clone(), part) for part in parts)
    left, right, turned = cal.clone(), through_json(c), cal.clone()
    before = [held(other) for other in (a, b, c)]
    for part in (a, b, c):
        left.merge(part)  # ((0 + a) + b) + c
    right.merge(a)
    right.merge(cal.clone())
    turned.merge(b)
    turned.merge(right)  # (0 + b) + ((c + a) + 0)
    assert [held(other) for other in (a, b, c)] == before
    b.learn_one(*case.good(cal)[1]._replace(t=8 * HALF_LIFE))  # and shares nothing with what it was merged into
    whole = learned(cal, [o for part in parts for o in part])
    case.assert_same(left, whole)
    case.assert_same(turned, whole)
    counted = [{**cal.tally(), "late": None} for cal in (left, turned, whole)]  # what is late depends on the order
    assert counted[0] == counted[1] == counted[2]


@each(ALL)
def test_merging_is_refused_where_the_table_says_so(case):
    cal = case.build()
    learned(cal, case.good(cal))
    others = [*case.strangers(), *(make() for make in case.makers[1:])]
    others = [other for other in others if not cal.same_parameters(other)]
    before = held(cal)
    for other in [*others, cal, 3, None, *([] if case.adds else [cal.clone()])]:
        with pytest.raises(MergeError):
            cal.merge(other)
    assert held(cal) == before


# -- unlearning ----------------------------------------------------------------------------------------------------


@law(UNLEARNING)
def test_learning_then_unlearning_is_nothing(case, draw):
    """Also late, out of order, and interleaved with what stays; at most six, the size of the window by count."""
    cal = draw(case.calibrators())
    kept, extra = draw(case.streams(cal, max_size=2)), draw(case.streams(cal, max_size=3))
    clock = max([draw(st.integers(0, 8)) * HALF_LIFE, *(o.t for o in kept + extra)])
    kept.append(case.good(cal)[0]._replace(t=clock))
    learned(cal, draw(st.permutations(kept + extra)))
    for observation in draw(st.permutations(extra)):
        cal.unlearn_one(*observation)
    case.assert_same(cal, learned(cal.clone(), kept))


@law(UNLEARNING)
def test_unlearning_everything_leaves_no_ghost(case, draw):
    """In any order, of any floats: .1 + .2 − .1 − .2 is not 0, but nothing is held."""
    cal = draw(case.calibrators())
    stream = draw(case.rough_streams(cal))
    if stream and draw(st.booleans()):  # several observations of one thing
        stream = [o._replace(x=stream[0].x) for o in stream]
    learned(cal, stream)
    for observation in draw(st.permutations(stream)):
        cal.unlearn_one(*observation)
    case.assert_empty(cal)


@each(NOT_UNLEARNING)
def test_unlearning_is_refused_where_the_table_says_so(case):
    for make in case.makers:
        cal = make()
        learned(cal, case.good(cal))
        before = held(cal)
        with pytest.raises(CapabilityError):
            cal.unlearn_one(*case.good(cal)[0])
        assert held(cal) == before


@each(UNLEARNING)
def test_what_was_never_learned_cannot_be_unlearned(case):
    cal = case.build()
    learned(cal, case.good(cal))
    for stranger in case.unknown(cal):
        case.refuses_to_unlearn(cal, stranger)


@each(WINDOWS)
def test_what_a_window_dropped_is_counted_as_missed(case):
    for make in case.makers:
        cal = make()
        stream = case.ordered(cal, 12)
        before = learned(cal, stream).n
        cal.unlearn_one(*stream[0])
        assert cal.tally()["missed"] == 1
        assert cal.n == before
        case.assert_same(cal, learned(cal.clone(), stream))


# -- predicting ----------------------------------------------------------------------------------------------------


@law(ALL)
def test_predicting_changes_nothing(case, draw):
    """Also as of times ahead of the clock, and back.

    `Auto` finds by the forecasts that it is asked for how late labels are: they change what later labels are judged by.
    """
    cal = draw(case.calibrators())
    stream = draw(case.streams(cal))
    learned(cal, stream)
    before, predicted, n = held(cal), case.predictions(cal), cal.n
    for t in [*draw(st.lists(st.integers(-2, 40).map(lambda k: k * HALF_LIFE), max_size=4)), None]:
        case.look(cal, t)
    assert held(cal) == before
    assert cal.n == n
    assert_close(case.predictions(cal), predicted, case.within(cal))
    if case.name != "auto":
        unasked = learned(learned(cal.clone(), stream), stream[:2])
        case.assert_same(learned(cal, stream[:2]), unasked)


#: Methods whose solve starts from the last map: docs/states_measured.md says by how much later forecasts differ.
SOLVED_FROM_THE_LAST = {
    *("platt", "temperature", "beta", "bernstein-logistic", "bernstein-fusion", "monotone-polynomial"),
    *("temperature-scaling", "vector-scaling", "dirichlet", "structured-matrix-scaling", "one-vs-rest"),
    *("empirical-density", "gaussian-process-cdf"),
}


@law([case for case in ALL if not isinstance(case.build(), Auto)])  # a label finds the forecast it is for
def test_a_stream_that_was_predicted_leads_to_the_bytes_of_one_that_was_not(case, draw):
    """Later forecasts are equal too, but for where a solve ends that starts from the last one."""
    silent = draw(case.calibrators())
    assume(not getattr(silent, "delay", 0))  # here too a label finds the forecast it is for
    asked, stream = silent.clone(), draw(case.streams(silent, max_size=LONGEST))
    for one in stream:
        case.predictions(asked)
        learned(asked, [one])
        learned(silent, [one])
    if "osqp" not in repr(silent):  # which leaves open what the data do
        within = case.within(silent) if silent.name in SOLVED_FROM_THE_LAST else 0.0
        if silent.name == "monotone-polynomial":
            within = 1e-5
        assert_close(case.predictions(asked), case.predictions(silent), within)
    assert asked.to_bytes() == silent.to_bytes()
    assert_close(case.predictions(asked), case.predictions(silent), 0.0)


@law(BY_TIME)
def test_a_prediction_as_of_a_time_is_what_a_policy_holds_then(case, draw):
    cal = draw(case.calibrators())
    stream = draw(case.streams(cal, min_size=1))
    model = case.model(cal, stream)
    t = model.clock + draw(st.integers(-2, 20)) * HALF_LIFE
    model.look_ahead(t)
    cal = case.settled(learned(cal, stream))
    expected = case.settled(case.fit(cal, model.held()))
    assert_close(case.predictions(cal, t), case.predictions(expected), case.within(cal))


@law(ALL, under=EVERYWHERE)
def test_predictions_are_possible_and_one_many_and_map_predict_the_same(case, draw):
    cal = draw(case.calibrators())
    stream = draw(case.rough_streams(cal, max_size=LONGEST))
    learned(cal, stream)
    places = case.places(cal, stream)
    case.assert_possible(cal, places)
    many, within = case.by_many(cal, places), case.rounding(cal)
    assert_close(case.by_one(cal, places), many, within)
    for found in case.by_map(cal.map(), places):
        assert_close(found, many[tuple(slice(size) for size in found.shape)], within)


@each(ADDITIVE)
def test_a_prediction_does_not_fail_where_a_solver_does(case):
    """The last map is served, and counted, until a solve succeeds; what is held does not change."""
    for make in case.makers:
        cal = make()
        stream = case.good(cal)
        learned(cal, stream[:2])
        served = case.predictions(cal)
        broken = make_solvers_fail(cal)
        learned(cal, stream[2:])
        before = held(cal)
        found = case.predictions(cal)
        case.assert_possible(cal, case.places(cal))
        failed = cal.tally()["unsolved"]
        if not failed:  # it reads its statistic, and solves nothing
            case.assert_same(cal, learned(make(), stream))
        elif not (hasattr(cal._engine, "binary") or hasattr(cal, "_method")):  # a new subproblem has no last map
            assert failed == 1
            assert_close(found, served, 0.0)
        assert held(cal) == before
        assert through_json(cal).tally()["unsolved"] == 0, "counted since the object was made"
        case.assert_possible(first_prediction_fails(make(), stream), case.places(cal))
        for owner, name in broken:
            delattr(owner, name)
        learned(cal, stream)
        case.assert_same(cal, learned(learned(make(), stream), stream))
        if cal.merges:
            other = make()
            other.merge(cal)
            assert other.tally()["unsolved"] == failed


def make_solvers_fail(cal):
    """Make every solve of a calibrator fail; returns where that was done."""

    def fail(*_):
        raise SolverError("made to fail")

    # of binary subproblems, whose solves are its own
    owner = getattr(cal._engine, "binary", None) or getattr(cal, "_method", None) or cal
    if getattr(owner, "reads_statistic", False) or not isinstance(owner._engine, Additive):
        return []  # there is no solver
    names = ["solve"] + ["reader"] * hasattr(owner, "reader") + ["_fit"] * (owner.name == "bernstein")
    owners = [(owner, name) for name in names]
    for owner, name in owners:
        setattr(owner, name, fail)
    return owners


def first_prediction_fails(cal, stream):
    """Return a calibrator none of whose solves has succeeded."""
    make_solvers_fail(cal)
    return learned(cal, stream)


@law(ALL)
def test_a_map_does_not_change(case, draw):
    cal = draw(case.calibrators())
    learned(cal, draw(case.streams(cal)))
    snapshot, places = cal.map(), case.places(cal)
    before = [found.tolist() for found in case.by_map(snapshot, places)]
    for found in case.by_map(snapshot, places):
        found[:] = 7.0  # what was handed out is the caller's
    learned(cal, draw(case.streams(cal, min_size=1)))
    case.by_many(cal, places)[:] = 7.0
    assert [found.tolist() for found in case.by_map(snapshot, places)] == before


# -- late labels ---------------------------------------------------------------------------------------------------


@law(ALL, under=EVERYWHERE)
def test_a_prediction_that_is_settled_at_once_is_predict_one_and_learn_one(case, draw):
    """To the last bit, weights of 0 among them."""
    loop = draw(case.calibrators())
    issuing = loop.clone()
    for o in draw(case.streams(loop, alike=True)):
        weight = draw(st.sampled_from([o.w, o.w, 0.0]))
        predicted = loop.predict_one(o.x, o.t)
        loop.learn_one(o.x, o.y, weight, o.t)
        issued = issuing.issue(o.x, o.t, w=weight)
        assert case.said(issued.p) == case.said(predicted)
        issuing.settle(issued, o.y)
    assert issuing.state_dict() == loop.state_dict()
    assert issuing.tally() == loop.tally()


@law(ALL)
def test_predictions_are_settled_in_any_order_after_pickling_and_saving(case, draw):
    """Some never get a label, weights and times come with the label, and predictions in between change nothing."""
    cal = draw(case.calibrators())
    learned(cal, draw(case.streams(cal, max_size=4)))
    stream = draw(case.streams(cal, max_size=6, alike=True))
    before = held(cal)
    issued = [cal.issue(o.x, o.t) for o in stream]
    assert held(cal) == before
    waiting, saved = pickle.dumps(issued), through_bytes(cal)
    bare = through_bytes(cal)
    for k in draw(st.permutations(range(len(stream)))):
        o, lost = stream[k], draw(st.booleans())
        case.look(saved, None)
        for one, own in ((cal, issued[k]), (saved, pickle.loads(waiting)[k])):
            unlearned = held(one)
            one.settle(own, None if lost else o.y, w=o.w, t=o.t)
            assert own.settled
            assert not lost or held(one) == unlearned
        if not (lost or issued[k].record):
            bare.learn_one(*o)
    assert held(saved) == held(cal)
    assert saved.tally() == cal.tally()
    if all(one.record is None for one in issued):
        assert held(bare) == held(cal)


@each(ALL)
def test_what_cannot_be_settled_is_refused_and_leaves_the_state(case):
    cal = case.build()
    learned(cal, case.good(cal))
    o = case.good(cal)[0]
    stranger = next(one for one in case.strangers() if type(one) is not type(cal))
    issued, other, before = cal.issue(o.x, 8.0), stranger.issue(o.x, 8.0), held(cal)
    refused = [(other, o.y), (issued.p, o.y), (None, o.y), (o.x, None)]
    for given, y in refused:
        with pytest.raises(InputError, match=r"give what `issue` returned|was issued by"):
            cal.settle(given, y)
    with pytest.raises(InputError, match="weight"):
        cal.settle(issued, o.y, w=-1.0)
    assert held(cal) == before
    assert not issued.settled
    cal.settle(issued, o.y)
    before = held(cal)
    for y in (o.y, None):
        with pytest.raises(InputError, match="settle each prediction once"):
            cal.settle(issued, y)
    assert held(cal) == before


# -- copies and state ----------------------------------------------------------------------------------------------

#: Copies and pickles go through the state: three methods show it, and the rest with `-m full`.
COPIED = ("isotonic-forever", "online-platt", "partial-order-venn-abers-forever")


@law(ALL)
def test_a_copy_goes_on_as_if_it_had_never_stopped(case, draw):
    assert_copy_goes_on(case, draw, "json")


@law([case for case in ALL if str(case) in COPIED], under=EVERYWHERE)
def test_a_copy_made_otherwise_goes_on_as_well(case, draw):
    assert_copy_goes_on(case, draw, draw(st.sampled_from(["pickle", "copy", "deepcopy"])))


@pytest.mark.full
@law([case for case in ALL if str(case) not in COPIED and case.is_tried(EVERYWHERE)])
def test_every_copy_made_otherwise_goes_on_as_well(case, draw):
    assert_copy_goes_on(case, draw, draw(st.sampled_from(["pickle", "copy", "deepcopy"])))


def assert_copy_goes_on(case, draw, way):
    cal = draw(case.calibrators())
    learned(cal, draw(case.streams(cal)))
    twin, later = COPIES[way](cal), draw(case.streams(cal))
    assert type(twin) is type(cal)
    assert twin.same_parameters(cal)
    assert held(twin) == held(cal)
    assert twin.tally() == cal.tally()
    case.assert_same(twin, cal)
    state = held(cal)
    learned(twin, later)
    assert held(cal) == state, "learning on the copy has moved the original"
    case.assert_same(twin, learned(cal, later))
    assert twin.tally() == cal.tally()


@each(ALL)
def test_a_learner_is_freed_at_once(case):
    """None of its parts refers back to it, so that a large tree need not wait for the garbage collector."""
    cal = case.makers[0]()
    learned(cal, case.good(cal))
    case.predictions(cal)
    engine = cal._engine
    parts = [cal] if type(engine) is Steps else [cal, engine, engine.memory, engine.memory.statistic]
    left = [weakref.ref(part) for part in parts]
    enabled = gc.isenabled()
    gc.disable()
    try:
        del cal, engine, parts
        assert [ref() for ref in left] == [None] * len(left)
    finally:
        if enabled:
            gc.enable()


@law(ALL)
def test_a_clone_holds_nothing_and_has_equal_parameters(case, draw):
    cal = draw(case.calibrators())
    fresh, stream = held(cal), draw(case.streams(cal))
    learned(cal, stream)
    clone, before = cal.clone(), held(cal)
    assert clone.same_parameters(cal)
    assert held(clone) == fresh
    assert clone.n == 0.0
    assert repr(clone) == repr(cal)
    assert repr(cal).startswith(f"{type(cal).__name__}(")
    learned(clone, stream)
    assert held(cal) == before


def leaves(state):
    """Yield the numbers, texts and Nones of a state."""
    parts = state.values() if isinstance(state, dict) else state if isinstance(state, (list, tuple)) else None
    if parts is None:
        yield state
    else:
        for part in parts:
            yield from leaves(part)


@each(ALL)
def test_a_state_is_plain_data_that_later_learning_does_not_move(case):
    cal = case.build()
    good = case.good(cal)
    learned(cal, good[:1])
    case.learn_many(cal, good[1:2])
    state = cal.state_dict()
    text = json.dumps(state, allow_nan=False)
    assert {type(value) for value in leaves(state)} <= {bool, int, float, str, type(None)}
    learned(cal, good[2:])
    assert json.dumps(state, allow_nan=False) == text
    learned(type(cal).from_state(state), good[2:])
    assert json.dumps(state, allow_nan=False) == text


def damaged(state):
    """Yield the state with one thing missing or wrong; the checksum is right, unless it is what is missing."""
    yield {key: value for key, value in state.items() if key != "check"}
    yield {key: value for key, value in state.items() if key != "streamcal"}
    for name in ("class", "params", "learned"):
        yield signed({key: value for key, value in state.items() if key != name})
    yield {**state, "streamcal": 999}
    yield signed({**state, "class": "Stranger"})
    yield signed({**state, "learned": None})
    yield signed({**state, "learned": {**state["learned"], "stranger": 1}})
    yield signed({**state, "params": {**state["params"], "stranger": 1}})
    for name in state["learned"]:
        yield signed({**state, "learned": {key: value for key, value in state["learned"].items() if key != name}})
    yield from (None, [], "state", {})


@each(ALL)
def test_a_damaged_state_is_refused(case):
    cal = case.build()
    learned(cal, case.good(cal))
    for state in damaged(cal.state_dict()):
        with pytest.raises(StateError):
            type(cal).from_state(state)


# -- hard streams, bad calls, capabilities -------------------------------------------------------------------------


@each((case for case in ALL if case.policy not in TIMED and not case.costly), under=("forever",))
def test_hard_streams(case):
    assert_hard_streams(case, tried_on_hard_streams(case))


@pytest.mark.full
@each(ALL)
def test_hard_streams_in_every_variant(case):
    """Also under the policies by time, which hold all of these streams: all their times are 0."""
    everything = case.policy in TIMED or case.costly
    assert_hard_streams(case, case.makers if everything else case.makers[len(tried_on_hard_streams(case)) :])


def tried_on_hard_streams(case):
    """Return the variant tried most and, without forgetting, one more for the first method of a statistic."""
    return case.makers[: 2 if case.policy in ("forever", None) and case.first else 1]


def assert_hard_streams(case, makers):
    for kind, make in itertools.product(case.hard, makers):
        cal = make()
        with trying(f"{kind}: {cal!r}"):
            assert_hard_stream(case, kind, cal)


def assert_hard_stream(case, kind, cal):
    stream = case.hard_stream(cal, kind)
    for observation in stream:
        cal.learn_one(*observation)
        case.assert_possible(cal, case.places(cal), monotone=case.keeps_monotone(cal, kind))
    if case.policy is not None:
        held = sum(o.w for o in case.model(cal, stream).held())
        assert cal.n == pytest.approx(held, rel=1e-9)
    if "huge" not in kind and not isinstance(cal.params().get("prior"), Prior):
        # There the sums have lost what the copy sums anew.
        case.assert_same(through_json(cal), cal, within=max(case.within(cal), 1e-9))


@each(ALL)
def test_a_bad_call_is_refused_and_leaves_the_state(case):
    cal = case.build()
    learned(cal, case.good(cal))
    before, predicted = held(cal), case.predictions(cal).tolist()
    for call in case.bad_calls(cal):
        with pytest.raises(InputError):
            call()
        assert held(cal) == before
    assert case.predictions(cal).tolist() == predicted


@each(BY_TIME)
def test_by_time_a_missing_time_is_refused(case):
    cal = case.build()
    good = case.good(cal)
    learned(cal, good)
    before = held(cal)
    for call in (
        lambda: cal.learn_one(*good[0][:2]),
        lambda: case.learn_many(cal, good, timed=False),
        lambda: cal.unlearn_one(*good[0][:3]),
    ):
        with pytest.raises(InputError, match="time t"):
            call()
        assert held(cal) == before


@each(ALL)
def test_nothing_is_learned_from_empty_arrays(case):
    cal = case.build()
    learned(cal, case.good(cal))
    before = held(cal)
    case.learn_many(cal, [])
    assert held(cal) == before
    assert len(case.by_many(cal, case.places(cal)[:0])) == 0


@each(ALL)
def test_what_a_method_says_it_can_do_is_what_the_table_says(case):
    for make in case.makers:
        cal = make()
        assert cal.n == 0.0
        assert (cal.merges, cal.unlearns) == (case.adds, case.unlearns)
        assert getattr(cal, "has_interval", False) == hasattr(cal, "predict_interval_one")
        assert isinstance(getattr(cal, "monotone", False), bool)
        assert isinstance(cal.bounded_memory, bool)


# -- refreshing at intervals ---------------------------------------------------------------------------------------
# The laws above are those of refresh_every=1, the default. With more, predictions are those of an earlier moment.


@law(REFRESHING, under=())
def test_a_map_refreshed_at_intervals_is_that_of_the_last_one(case, draw):
    cal = draw(case.calibrators())
    lagging = changed(cal, refresh_every=4)
    many, stream, every = lagging.clone(), draw(case.streams(cal)), lagging._engine.refresh_every
    assert every in (1, 4)  # 1: the method keeps up, and there is no lag
    for number, observation in enumerate(stream, 1):
        learned(lagging, [observation])
        if number <= every or number % every == 0:
            expected = case.predictions(case.settled(learned(cal.clone(), stream[:number])))
        before = held(lagging)
        assert_close(case.predictions(case.settled(lagging)), expected, case.within(cal))
        case.look(lagging, 1e6)  # as of a time ahead, it is still the map of the last refresh
        assert held(lagging) == before
    copied = draw(st.sampled_from(sorted(COPIES)))
    assert_close(case.predictions(COPIES[copied](lagging)), case.predictions(lagging), case.within(cal))
    cut = draw(st.integers(0, LONGEST))
    case.learn_many(many, stream[:cut])
    case.learn_many(many, stream[cut:])
    case.assert_same(lagging, many)


# -- a life --------------------------------------------------------------------------------------------------------


def life_of(case):
    """Make a machine that learns, unlearns, merges, saves and predicts in any order, to compare with the model."""

    class Life(RuleBasedStateMachine):
        @initialize(data=st.data())
        def begin(self, data):
            fixed = {"prior": None} if case.policy == "decay" and case in binary.CASES else {}
            self.cal = data.draw(case.calibrators(**fixed))
            self.model = case.model(self.cal)
            self.missed = 0

        @property
        def has_room(self):
            return self.model.number < LONGEST

        @precondition(lambda self: self.has_room)
        @rule(data=st.data())
        def learn_one(self, data):
            observation = data.draw(case.observations(self.cal, alike=False))
            self.cal.learn_one(*observation)
            self.model.learn(observation)

        @precondition(lambda self: self.has_room)
        @rule(data=st.data())
        def learn_many(self, data):
            stream = data.draw(case.streams(self.cal, max_size=4, alike=True))
            case.learn_many(self.cal, stream)
            for observation in stream:
                self.model.learn(observation)

        @precondition(lambda self: case.unlearns and self.model.entries)
        @rule(data=st.data())
        def unlearn_one(self, data):
            observation = data.draw(st.sampled_from([observation for _, observation in self.model.entries]))
            self.cal.unlearn_one(*observation)
            assert self.model.unlearn(observation)

        @precondition(lambda self: case.policy == "window")
        @rule(data=st.data())
        def unlearn_what_may_not_be_held(self, data):
            observation = data.draw(case.observations(self.cal, alike=False))
            self.cal.unlearn_one(*observation)
            self.missed += not self.model.unlearn(observation)

        @precondition(lambda self: case.adds)
        @rule(data=st.data())
        def merge(self, data):
            stream = data.draw(case.streams(self.cal, max_size=4))
            other = learned(self.cal.clone(), stream)
            self.cal.merge(other)
            self.model.merge(case.model(self.cal, stream))

        @rule(way=st.sampled_from(sorted(COPIES)))
        def save_and_load(self, way):
            self.cal = COPIES[way](self.cal)

        @rule(t=st.none() | st.integers(0, 40).map(lambda k: k * HALF_LIFE))
        def predict(self, t):
            case.look(self.cal, t)

        @rule(data=st.data())
        def learn_what_cannot_be_learned(self, data):
            observation = data.draw(case.observations(self.cal, alike=False))
            before = held(self.cal)
            with pytest.raises(InputError):
                self.cal.learn_one(*observation._replace(w=-1.0, t=1e6))
            with pytest.raises(InputError):
                case.learn_many(self.cal, [observation._replace(t=1e6), observation._replace(w=-1.0, t=1e6)])
            self.cal.learn_one(*observation._replace(w=0.0, t=1e6))
            assert held(self.cal) == before

        @invariant()
        def holds_what_the_policy_says(self):
            if hasattr(self, "cal"):
                case.assert_same(self.cal, case.fit(self.cal, self.model.held()))
                assert self.cal.tally()["missed"] == self.missed

    return Life


@pytest.mark.sample(4)
@each(ADDITIVE, under=())
def test_a_life_of_learning_unlearning_merging_and_saving(case):
    run_state_machine_as_test(life_of(case), settings=case.settings())
