"""The laws of `docs/architecture.md` for methods of several scores: every one of `streamcal.fusion.METHODS` under every
policy. A new method is covered without a line of test code, as in `test_conformance.py`."""

import copy
import itertools
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import (
    ADDING,
    HALF_LIFE,
    MONOTONE_TO,
    POLICIES,
    TIMED,
    UNLEARNING,
    Model,
    Observation,
    assert_close,
    exact_times,
    learned,
    size_of,
    solved_exactly,
    through_json,
)
from laws_fusion import (
    ANY_POLICY,
    Case,
    assert_same,
    drawn,
    each,
    few,
    learned_many,
    probes,
    rough_observations,
    tolerance,
    under,
    width_of,
    without_forgetting,
)

from streamcal import CapabilityError, Forever, InputError, MergeError, RetractionError, StateError
from streamcal.fusion import METHODS, Fusion

# -- the walk, parameters, copies ----------------------------------------------------------------------------------


def test_methods_are_listed_under_their_names():
    assert METHODS
    for name, method in METHODS.items():
        assert issubclass(method, Fusion)
        assert (method.name, bool(method.summary)) == (name, True)


@each()
@given(data=st.data())
@few
def test_parameters_are_kept_and_a_clone_holds_nothing(case, data):
    cal = data.draw(case.fusions())
    fresh = cal.state_dict()
    assert repr(cal).startswith(f"{type(cal).__name__}(")
    learned(cal, drawn(data, cal))
    assert cal.clone().params() == cal.params()
    assert cal.clone().state_dict() == fresh


COPIES = {
    "json": through_json,
    "pickle": lambda cal: pickle.loads(pickle.dumps(cal)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@each()
@given(data=st.data())
@few
def test_a_copy_goes_on_at_every_point_as_if_it_had_never_stopped(case, data):
    cal = data.draw(case.fusions())
    for observation in drawn(data, cal):
        twin = COPIES[data.draw(st.sampled_from(sorted(COPIES)))](cal)
        assert twin.state_dict() == cal.state_dict()
        assert twin.same_parameters(cal)
        before = cal.state_dict()
        learned(twin, [observation])
        assert cal.state_dict() == before, "learning on the copy has moved the original"
        learned(cal, [observation])
        assert twin.tally() == cal.tally()
        assert_same(twin, cal)


@each()
def test_a_state_is_plain_data_and_a_damaged_one_is_refused(case):
    cal = learned(case.build(), [Observation((0.5, 0.25), 1), Observation((0.25, 0.5), 0)])
    state = cal.state_dict()
    text = json.dumps(state, allow_nan=False)
    learned(cal, [Observation((0.5, 0.5), 0)])
    assert json.dumps(state, allow_nan=False) == text
    damaged = [
        {**state, "learned": {k: v for k, v in state["learned"].items() if k != name}} for name in state["learned"]
    ]
    for bad in [*damaged, {**state, "class": "Stranger"}, {**state, "streamcal": 9}, {**state, "learned": None}, None]:
        with pytest.raises(StateError):
            type(cal).from_state(bad)


# -- learning ------------------------------------------------------------------------------------------------------


@each()
@given(data=st.data(), cut=st.integers(0, 10))
@few
def test_learn_many_is_a_loop_of_learn_one(case, data, cut):
    loop = data.draw(case.fusions())
    many, stream = loop.clone(), drawn(data, loop)
    learned(loop, stream)
    learned_many(learned_many(many, stream[:cut]), stream[cut:])
    assert_same(loop, many)
    assert loop.tally() == many.tally()


@under(*ANY_POLICY)
@given(data=st.data())
@few
def test_a_policy_is_a_fresh_fit_of_what_it_holds(case, data):
    cal = data.draw(case.fusions())
    stream = drawn(data, cal, max_size=16)
    assert_same(learned(cal, stream), without_forgetting(cal, Model(case.policy, stream).held()))


@under(*ADDING)
@given(data=st.data())
@few
def test_order_does_not_matter_and_weight_two_is_twice(case, data):
    cal = data.draw(case.fusions())
    stream = drawn(data, cal, min_size=1)
    shuffled = learned(cal.clone(), data.draw(st.permutations(stream)))
    first = stream[0]
    twice = learned(cal.clone(), [*stream, first])
    doubled = learned(cal.clone(), [first._replace(w=2.0 * first.w), *stream[1:]])
    assert_same(learned(cal, stream), shuffled)
    assert_same(doubled, twice)


@each()
@given(data=st.data())
@few
def test_weight_zero_is_nothing(case, data):
    cal = data.draw(case.fusions())
    learned(cal, drawn(data, cal))
    before = cal.state_dict()
    idle = [o._replace(w=0.0, t=o.t + 100.0) for o in drawn(data, cal, min_size=1)]
    learned_many(learned(cal, idle), idle)
    if case.policy in UNLEARNING:
        cal.unlearn_one(*idle[0])
    assert cal.state_dict() == before


# -- merging -------------------------------------------------------------------------------------------------------


@under(*ADDING)
@given(data=st.data())
@few
def test_merging_is_concatenation_associative_and_has_an_identity(case, data):
    cal = data.draw(case.fusions())
    parts = [drawn(data, cal, max_size=5) for _ in range(3)]
    a, b, c = (learned(cal.clone(), part) for part in parts)
    left, right, untouched = cal.clone(), cal.clone(), c.state_dict()
    for part in (a, b, c):
        left.merge(part)  # ((0 + a) + b) + c
    c_and_b = through_json(c)
    c_and_b.merge(b)
    right.merge(c_and_b)
    right.merge(a)  # (0 + (c + b)) + a
    assert c.state_dict() == untouched
    assert_same(left, right)
    assert_same(left, learned(cal, [o for part in parts for o in part]))


@each()
def test_merging_is_refused_where_the_table_says_so(case):
    stream = [Observation((0.5, 0.25), 1)]
    cal, other = learned(case.build(), stream), learned(case.build(), stream)
    before = cal.state_dict()
    policies = [] if case.policy is None else [policy for policy in POLICIES if policy != case.policy]
    strangers = [cal, None] + [Case(case.method, policy).build() for policy in policies]
    strangers += [case.build(**params) for params in case.variants() if case.build(**params).params() != cal.params()]
    for stranger in (strangers if case.policy else []) + ([] if case.policy in ADDING else [other]):
        with pytest.raises(MergeError):
            cal.merge(stranger)
    assert cal.state_dict() == before


# -- unlearning ----------------------------------------------------------------------------------------------------


@under(*UNLEARNING)
@given(data=st.data(), end=exact_times)
@few
def test_learning_then_unlearning_is_nothing(case, data, end):
    """Also late, out of order, and interleaved with what stays; at most six, the size of the window by count."""
    cal = data.draw(case.fusions())
    kept, extra = drawn(data, cal, max_size=2), drawn(data, cal, max_size=3)
    kept.append(Observation((0.5,) * width_of(cal), 1, 1.0, max([end, *(o.t for o in kept + extra)])))
    learned(cal, data.draw(st.permutations(kept + extra)))
    for observation in data.draw(st.permutations(extra)):
        cal.unlearn_one(*observation)
    assert_same(cal, learned(cal.clone(), kept))
    for observation in kept:
        cal.unlearn_one(*observation)
    assert_same(cal, cal.clone(), within=0.0)


@under("window")
def test_a_window_unlearns_the_newest_equal_observation_and_counts_what_it_has_dropped(case):
    same, other = Observation((0.25, 0.75), 1), Observation((0.5, 0.5), 0)
    stream = [same, other, same, *[other._replace(score=(k / 8, 0.5)) for k in range(4)]]  # the window holds six
    cal, model = learned(case.build(), stream), Model("window", stream)
    for observation in (same, same, other):
        cal.unlearn_one(*observation)
        model.unlearn(observation)
    assert cal.tally()["missed"] == 1  # the first `same` was gone
    assert_same(cal, without_forgetting(cal, model.held()))


@each()
def test_what_cannot_be_unlearned_is_refused(case):
    cal = learned(case.build(), [Observation((0.5, 0.25), 1, 1.0, HALF_LIFE)])
    before = cal.state_dict()
    if case.policy not in UNLEARNING:
        with pytest.raises(CapabilityError):
            cal.unlearn_one((0.5, 0.25), 1, 1.0, HALF_LIFE)
    elif case.policy != "window":
        for w, t in ((2.0, HALF_LIFE), (1.0, 100.0) if case.policy in TIMED else (3.0, None)):
            with pytest.raises(RetractionError):
                cal.unlearn_one((0.5, 0.25), 1, w, t)
    assert cal.state_dict() == before


# -- predicting ----------------------------------------------------------------------------------------------------


def look(cal, t):
    """Everything that can be asked."""
    cal.predict_one(probes(cal)[0], t)
    if cal.has_interval:
        cal.predict_interval_one(probes(cal)[0])
    return cal.predict_many(probes(cal), t), cal.map(), cal.n, cal.tally(), repr(cal), cal.clone(), cal.bounded_memory


@each()
@given(data=st.data(), ahead=st.integers(-2, 40))
@few
def test_predicting_changes_nothing(case, data, ahead):
    cal = data.draw(case.fusions())
    stream = drawn(data, cal)
    learned(cal, stream)
    before, predicted = cal.state_dict(), cal.predict_many(probes(cal))
    for t in (ahead * HALF_LIFE, None):
        look(cal, t)
    assert cal.state_dict() == before
    assert_close(cal.predict_many(probes(cal)), predicted, tolerance(cal))
    assert_same(learned(cal, stream[:2]), learned(cal.clone(), stream + stream[:2]))


@under(*TIMED)
@given(data=st.data(), ahead=st.integers(-2, 20))
@few
def test_a_prediction_as_of_a_time_is_what_a_policy_holds_then(case, data, ahead):
    cal = data.draw(case.fusions())
    stream = drawn(data, cal, min_size=1)
    model = Model(case.policy, stream)
    t = model.clock + ahead * HALF_LIFE
    model.clock = max(model.clock, t)
    model._let_go()
    cal = solved_exactly(learned(cal, stream))
    expected = solved_exactly(without_forgetting(cal, model.held()))
    assert_close(cal.predict_many(probes(cal), t), expected.predict_many(probes(cal)), tolerance(cal))


@each()
@given(data=st.data())
@few
def test_predictions_are_one_function_monotone_where_claimed_and_a_map_does_not_change(case, data):
    cal = data.draw(case.fusions())
    stream = drawn(data, cal, max_size=20, of=rough_observations)
    learned(cal, stream)
    lower = np.vstack([probes(cal), *([o.score] for o in stream)])
    upper = np.minimum(lower + np.random.default_rng(1).random(lower.shape) * [1.0, *[0.3] * (width_of(cal) - 1)], 1.0)
    p, found = cal.predict_many(lower), cal.map()
    assert ((p >= 0.0) & (p <= 1.0)).all()
    assert not cal.monotone or (cal.predict_many(upper) - p).min() >= -MONOTONE_TO
    assert isinstance(cal.predict_one(lower[0]), float)
    for one in (cal.predict_one, found.predict_one, found):
        assert_close([one(scores) for scores in lower.tolist()], p, 1e-12)
    if cal.has_interval:
        ends = np.transpose(cal.predict_interval_many(lower))
        assert ((ends[:, 0] >= 0.0) & (ends[:, 0] <= ends[:, 1]) & (ends[:, 1] <= 1.0)).all()
        assert_close([cal.predict_interval_one(scores) for scores in lower.tolist()], ends, 1e-12)
    learned(cal, stream)
    cal.predict_many(lower)[:] = 7.0
    assert found.predict_many(lower).tolist() == p.tolist()


@each()
def test_before_anything_is_learned_it_is_the_mean_of_the_scores(case):
    cal = case.build()
    if not cal.has_interval:
        assert cal.predict_one((0.25, 0.75)) == cal.predict_many([[0.25, 0.75]])[0] == 0.5
    assert cal.n == 0.0


# -- names, bad calls ----------------------------------------------------------------------------------------------


@each()
def test_scores_by_name_are_read_in_the_order_of_the_names(case):
    cal, twin = case.build(), case.build()
    for k in range(8):
        cal.learn_one({"b": k / 8, "a": 1.0 - k / 16}, k > 3, 1.0, 0.0)
        twin.learn_one((1.0 - k / 16, k / 8), k > 3, 1.0, 0.0)
    assert_same(cal, twin)
    copied = through_json(cal)
    for one in (cal, copied):
        before = one.state_dict()
        assert one.predict_one({"a": 0.25, "b": 0.5}) == one.predict_one((0.25, 0.5))
        for call in (
            lambda one=one: one.predict_one({"a": 0.25, "c": 0.5}),
            lambda one=one: one.learn_one({"c": 0.1}, 1),
        ):
            with pytest.raises(InputError):
                call()
        assert one.state_dict() == before


@each()
def test_a_map_can_be_handed_to_another_process(case):
    cal = learned(case.build(), [Observation((k / 8, k % 3 / 2), k > 3, 1.0, 0.0) for k in range(8)])
    found, places = cal.map(), probes(cal)
    for twin in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert twin.predict_many(places).tolist() == found.predict_many(places).tolist()


@under(*ADDING)
def test_scores_of_other_names_do_not_merge(case):
    cal, other = case.build(), case.build()
    cal.learn_one({"a": 0.2, "b": 0.3}, 1, 1.0, 0.0)
    other.learn_one({"a": 0.2, "c": 0.3}, 1, 1.0, 0.0)
    before = cal.state_dict()
    with pytest.raises(MergeError, match="named"):
        cal.merge(other)
    assert cal.state_dict() == before


@each()
@pytest.mark.parametrize("scores", [{1: 0.2, 2: 0.3}, {"a": 0.2, 2: 0.3}, {None: 0.2, "a": 0.3}])
def test_names_are_texts(case, scores):  # JSON has no others: what was learned under 1 would come back under "1"
    cal = case.build()
    before = cal.state_dict()
    for call in (lambda: cal.learn_one(scores, 1, 1.0, 0.0), lambda: cal.predict_one(scores)):
        with pytest.raises(InputError, match="texts"):
            call()
    assert cal.state_dict() == before


NEVER = [float("nan"), float("inf"), "0.5", None, 1j, [0.5]]
CALLS = {
    "score": [(scores, 1, 1.0, 8.0) for scores in ([0.5, 1.5], [-0.25, 0.5], *([0.5, bad] for bad in NEVER))],
    "scores": [(scores, 1, 1.0, 8.0) for scores in ([0.5], [0.5] * 3, 0.5, "ab", None, {"a": 0.5}, [])],
    "label": [([0.5, 0.5], bad, 1.0, 8.0) for bad in (*NEVER, 2, 0.5)],
    "weight": [([0.5, 0.5], 1, bad, 8.0) for bad in (*NEVER, -1.0, 1e61)],
    "time": [([0.5, 0.5], 1, 1.0, bad) for bad in NEVER if bad is not None],
}


@each()
@pytest.mark.parametrize("what", CALLS)
def test_a_bad_call_is_refused_and_leaves_the_state(case, what):
    if what == "time" and case.policy is None:
        pytest.skip("sequential methods read no time")
    cal = learned(case.build(), [Observation((0.25, 0.5), 0, 1.0, 0.0), Observation((0.75, 0.5), 1, 2.0, 4.0)])
    before, predicted = cal.state_dict(), cal.predict_many(probes(cal)).tolist()
    for bad in CALLS[what]:
        calls = [lambda bad=bad: cal.learn_one(*bad)]
        if what != "scores":
            good = ([0.25, 0.25], 0, 1.0, 8.0)
            calls.append(lambda bad=bad, good=good: cal.learn_many(*map(list, zip(good, bad, good, strict=True))))
        if what in ("score", "scores"):
            calls += [lambda bad=bad: cal.predict_one(bad[0]), lambda bad=bad: cal.predict_many([bad[0]])]
        if case.policy in UNLEARNING:
            calls.append(lambda bad=bad: cal.unlearn_one(*bad))
        for call in calls:
            with pytest.raises(InputError):
                call()
    assert cal.state_dict() == before
    assert cal.predict_many(probes(cal)).tolist() == predicted


@each()
def test_nothing_is_learned_from_empty_arrays(case):
    cal = learned(case.build(), [Observation((0.25, 0.5), 0)])
    before = cal.state_dict()
    cal.learn_many(np.empty((0, 2)), [], [], [])
    assert cal.state_dict() == before
    assert cal.predict_many(np.empty((0, 2))).shape == (0,)


@under(*TIMED)
def test_by_time_a_missing_time_is_refused(case):
    with pytest.raises(InputError, match="give the time t"):
        case.build().learn_one((0.5, 0.5), 1)


# -- hard streams, memory, refreshing ------------------------------------------------------------------------------

EDGES = [0.0, 5e-324, 1e-300, 0.5, 1.0 - 2.0**-53, 1.0]
HARD = {
    "one": [Observation((0.3, 0.6), 1)],
    "one class": [Observation((k / 16, 1.0 - k / 16), 0) for k in range(16)],
    "all ties": [Observation((0.3, 0.3), k % 3 == 0) for k in range(12)],
    "edges": [Observation(pair, k % 2) for k, pair in enumerate(itertools.product(EDGES, EDGES))],
    "separated": [Observation((k / 32, k / 40), k > 16) for k in range(32)],
    "reversed": [Observation((k / 32, k / 40), k < 16) for k in range(32)],
    "weights far apart": [Observation((k / 18, 0.5), k % 2, 10.0 ** (15 * (k % 9) - 60)) for k in range(18)],
}


@each()
@pytest.mark.parametrize("kind", HARD)
def test_hard_streams(case, kind):
    cal = case.build()
    for observation in HARD[kind]:
        cal.learn_one(*observation)
        p = cal.predict_many(probes(cal))
        assert ((p >= 0.0) & (p <= 1.0)).all()
    if kind != "weights far apart":  # there the sums have lost what the copy sums anew
        assert_same(through_json(cal), cal)


@each()
def test_what_a_method_says_it_can_do_is_so(case):
    cal = case.build()
    assert (cal.merges, cal.unlearns) == (case.policy in ADDING, case.policy in UNLEARNING)
    assert cal.has_interval == hasattr(cal, "predict_interval_one") == hasattr(cal, "predict_interval_many")
    if not cal.bounded_memory:
        return
    grid = {"resolution": 8} if "resolution" in cal.params() else {}
    scores, y = np.random.default_rng(2).random((800, 2)), np.arange(800) % 2  # they reach every cell
    cal, sizes = case.build(**grid), []
    for part in (scores, scores[::-1] * 0.999):
        cal.learn_many(part, y, None, np.zeros(800))
        sizes.append(size_of(cal.state_dict()))
    if case.policy in ("decay", "time-decay"):  # how many cells have faded varies: none at all is the most
        full = case.method(**{**cal.params(), "forgetting": Forever()})
        full.learn_many(scores, y)
        assert max(sizes) <= size_of(full.state_dict()) + 8
    else:
        assert sizes[0] == sizes[1]


@each(lambda case: "refresh_every" in case.build().params())
@given(data=st.data())
@few
def test_a_map_refreshed_at_intervals_is_that_of_the_last_one(case, data):
    cal = data.draw(case.fusions())
    lagging = type(cal)(**{**cal.params(), "refresh_every": 4})
    many, stream = lagging.clone(), drawn(data, cal, max_size=10)
    for number, observation in enumerate(stream, 1):
        learned(lagging, [observation])
        exact = learned(cal.clone(), stream[: number if number < 4 else number - number % 4])
        seen = lagging.predict_many(probes(cal)), through_json(lagging).predict_many(probes(cal))
        for predicted in seen:
            assert_close(predicted, solved_exactly(exact).predict_many(probes(cal)), max(tolerance(cal), 1e-4))
    assert_same(learned_many(many, stream), lagging)
