"""The laws of `docs/architecture.md`, for every method of the registry under every policy."""

import copy
import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
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
    ALL,
    HALF_LIFE,
    LONGEST,
    MONOTONE_TO,
    OSQP_SOLVED,
    POLICIES,
    PROBES,
    READ_AS_PROBABILITIES,
    TIMED,
    VALUES,
    WALKED,
    Case,
    Model,
    Observation,
    assert_close,
    assert_monotone,
    assert_same,
    columns,
    each,
    exact_times,
    is_sequential,
    learned,
    magnifies,
    marks,
    observations,
    realistic,
    rough_streams,
    size_of,
    solved_exactly,
    streams,
    through_json,
    tolerance,
    variants,
    without_forgetting,
)

from streamcal import (
    REGISTRY,
    Bernstein,
    CapabilityError,
    Decay,
    Forever,
    InputError,
    MergeError,
    OnlinePlatt,
    Prior,
    RetractionError,
    StateError,
)
from streamcal.app.doctor import kernel_form
from streamcal.calibrators.calibeating import CalibeatenOPS
from streamcal.calibrators.online_platt import RADIUS

ADDITIVE = [case for case in ALL if case.policy is not None]
SEQUENTIAL = [case for case in ALL if case.policy is None]
ADDING = [case for case in ADDITIVE if case.adds]
NOT_ADDING = [case for case in ALL if not case.adds]
UNLEARNING = [case for case in ADDITIVE if case.unlearns]
NOT_UNLEARNING = [case for case in ALL if not case.unlearns]
NEW = [Case(method, None if is_sequential(method) else "forever") for method in REGISTRY.values()]
ON_GRIDS = [case for case in NEW if {"resolution": 64} in variants(case.method)]

#: Rounding of one formula in scalar and in array arithmetic, or of a tree against the map drawn from it.
ONE_FORMULA = 1e-12
#: Gaussian maximises the likelihood of the scores given the labels, Temperature has no offset, and the intervals of ACP
#: overlap, so that an outcome may count more often than once, or less.
KEEPS_NO_SUM = {"identity", "gaussian", "temperature", "acp"}
#: What a smooth map on its default grid may lose against the exact fit.
GRID_LOSS = 1e-4


def keeps_scores(cal):
    """Whether its statistic keeps the scores: it can be on a grid. Others keep sums, which know less."""
    return hasattr(cal, "resolution") and "resolution" in cal.params()


# -- the walk itself ---------------------------------------------------------------------------------------------


def test_the_registry_is_walked_with_every_policy_and_variant():
    assert {case.method.name for case in ALL} == set(REGISTRY)
    assert {case.policy for case in ADDITIVE} == set(POLICIES)
    for case in NEW:
        names = {name for params in case.variants() for name in params}
        assert names >= set(VALUES) & set(case.build().params()), "a listed parameter is not varied"


@each(ALL)
def test_every_variant_keeps_its_parameters(case):
    for params in case.variants():
        cal = case.build(**params)
        assert {name: cal.params()[name] for name in params} == params
        assert repr(cal).startswith(f"{type(cal).__name__}(")


# -- learning ----------------------------------------------------------------------------------------------------


@each(ALL)
@given(data=st.data(), stream=streams(max_size=LONGEST), cut=st.integers(0, LONGEST))
def test_learn_many_is_a_loop_of_learn_one(case, data, stream, cut):
    loop = data.draw(case.calibrators())
    many = loop.clone()
    learned(loop, stream)
    many.learn_many(*columns(stream[:cut]))
    many.learn_many(*columns(stream[cut:]))
    assert_same(loop, many)
    assert loop.tally() == many.tally()


@each(ADDITIVE)
@given(data=st.data(), stream=streams(max_size=LONGEST))
def test_a_policy_is_a_fresh_fit_of_what_it_holds(case, data, stream):
    """A window is a refit on the suffix, decay one with the weights of today."""
    cal = data.draw(case.calibrators(**({"prior": None} if case.policy == "decay" else {})))
    learned(cal, stream)
    held = Model(case.policy, stream).held()
    expected = without_forgetting(cal, held)
    assert_same(cal, expected)
    scores = [o.score for o in held]
    assert_close(
        cal.predict_many(scores), solved_exactly(expected).predict_many(scores), max(tolerance(cal), OSQP_SOLVED)
    )


@each(ADDING)
@given(data=st.data(), stream=streams())
def test_order_does_not_matter(case, data, stream):
    cal = data.draw(case.calibrators())
    shuffled = learned(cal.clone(), data.draw(st.permutations(stream)))
    assert_same(learned(cal, stream), shuffled)


@each(ADDING)
@given(data=st.data(), stream=rough_streams())
def test_order_does_not_matter_for_any_floats(case, data, stream):
    if case.method.name in ("histogram", "bbq"):
        pytest.skip("rounding may move a score to another bin: discontinuous")
    cal = data.draw(case.calibrators())
    shuffled = learned(cal.clone(), data.draw(st.permutations(stream)))
    assert_same(learned(cal, stream), shuffled, within=max(tolerance(cal), 1e-9))


@each(NEW)
@given(data=st.data(), stream=streams())
def test_it_does_not_matter_which_label_comes_first(case, data, stream):
    cal = data.draw(case.calibrators())
    if is_sequential(case.method):
        pytest.skip("depends on the order by nature")
    positives, negatives = ([o for o in stream if o.y == y] for y in (1, 0))
    assert_same(learned(cal.clone(), positives + negatives), learned(cal, negatives + positives))


@each(NEW)
@given(data=st.data(), stream=streams(min_size=1))
def test_labels_of_every_kind_are_the_same(case, data, stream):
    cal = data.draw(case.calibrators())
    state = learned(cal.clone(), stream).state_dict()
    for kind in (bool, float, np.bool_, np.int8):
        assert learned(cal.clone(), [o._replace(y=kind(o.y)) for o in stream]).state_dict() == state


@each(ADDING)
@given(data=st.data(), stream=streams(min_size=1), place=st.integers(0, 11))
def test_weight_two_is_twice(case, data, stream, place):
    cal = data.draw(case.calibrators())
    place %= len(stream)
    observation = stream[place]
    doubled = [*stream[:place], observation._replace(w=2 * observation.w), *stream[place + 1 :]]
    assert_same(learned(cal.clone(), doubled), learned(cal, [*stream, observation]))


@each([case for case in ADDITIVE if case.policy in ("window", "decay")])
def test_by_count_two_observations_age_the_rest_twice(case):
    once, twice = case.build(), case.build()
    learned(once, [Observation(0.5, 1)] * 8 + [Observation(0.25, 0, 2.0)])
    learned(twice, [Observation(0.5, 1)] * 8 + [Observation(0.25, 0)] * 2)
    assert once.n > twice.n


@each(SEQUENTIAL)
@given(data=st.data(), stream=streams(min_size=2))
def test_a_sequential_observation_of_weight_two_is_one_step(case, data, stream):
    cal = data.draw(case.calibrators(discount=1.0) if "discount" in case.build().params() else case.calibrators())
    twice = cal.clone()
    for observation in stream:
        cal.learn_one(observation.score, observation.y, 2.0)
        twice.learn_many([observation.score] * 2, [observation.y] * 2)
    assert cal.n == twice.n == 2 * len(stream)
    assert cal.state_dict() != twice.state_dict()


@given(stream=rough_streams(max_size=30), discount=st.sampled_from([1.0, 0.9]))
def test_online_platt_takes_newton_steps_whose_size_is_the_weight(stream, discount):
    """The definition, with a matrix inverted: A ← d·A + (1 − d)·100·I + g gᵀ, θ ← θ − A⁻¹ g / γ, g = w (p − y) z."""
    cal = OnlinePlatt(discount=discount)
    theta, curvature = np.array([1.0, 0.0]), 100.0 * np.eye(2)
    for score, y, w, _ in stream:
        z = np.array([cal.scale.coordinate(score), 1.0])
        gradient = w * (1.0 / (1.0 + np.exp(-theta @ z)) - y) * z
        curvature = discount * curvature + (1.0 - discount) * 100.0 * np.eye(2) + np.outer(gradient, gradient)
        theta = theta - np.linalg.solve(curvature, gradient) / 0.1
        if np.linalg.norm(theta) > 99.0:
            break  # the projection has tests of its own
        cal.learn_one(score, y, w)
        found = cal.map()
        assert_close([found.slope, found.offset], theta, 1e-7)  # both solve a 2×2 system; A grows up to 1e8


@pytest.mark.parametrize("exponent", [*range(-60, 60, 5), 59])
def test_online_platt_stays_in_its_ball(exponent):
    """After one step of any size, and after many."""
    many = OnlinePlatt()
    for k in range(36):
        once, score, w = OnlinePlatt(), 1.0 / (1.0 + math.exp(k % 7 - 3.0)), 10.0 ** (exponent + 0.1 * (k % 9))
        for cal in (once, many):
            cal.learn_one(score, k % 3 == 0, w)
            assert math.hypot(cal.map().slope, cal.map().offset) <= RADIUS * (1.0 + ONE_FORMULA)


@each(ALL)
@given(data=st.data(), stream=streams(), idle=st.lists(observations, max_size=6))
def test_weight_zero_is_nothing(case, data, stream, idle):
    cal = data.draw(case.calibrators())
    learned(cal, stream)
    before = cal.state_dict()
    idle = [o._replace(w=0.0, t=o.t + 100.0) for o in idle]
    learned(cal, idle)
    cal.learn_many(*columns(idle))
    assert cal.state_dict() == before
    mixed = [o for pair in zip(stream, [*idle, *stream], strict=False) for o in (pair[0], pair[1]._replace(w=0.0))]
    many = cal.clone()
    many.learn_many(*columns(mixed))
    assert_same(many, cal)
    if case.unlearns:
        for observation in idle:
            cal.unlearn_one(*observation)
        assert cal.state_dict() == before


@each([case for case in ADDING if case.method is Bernstein and case.policy == "forever"])
@given(data=st.data(), stream=rough_streams(min_size=1))
def test_doubled_weights_give_the_same_bernstein_map(case, data, stream):
    cal = data.draw(case.calibrators(prior=None))
    doubled = learned(cal.clone(), [o._replace(w=2.0 * o.w) for o in stream])
    assert doubled.map().coefficients.tolist() == learned(cal, stream).map().coefficients.tolist()


# -- merging -----------------------------------------------------------------------------------------------------


@each(ADDING)
@given(data=st.data(), one=streams(), two=streams())
def test_merging_is_concatenation(case, data, one, two):
    cal = data.draw(case.calibrators())
    left, right = learned(cal.clone(), one), learned(cal.clone(), two)
    right_before = right.state_dict()
    left.merge(right)
    assert_same(left, learned(cal, one + two))
    assert right.state_dict() == right_before
    right.learn_one(0.5, 1, 3.0, 8 * HALF_LIFE)  # and shares nothing with what it was merged into
    assert_same(left, learned(cal.clone(), one + two))


@each(ADDING)
@given(data=st.data(), parts=st.tuples(streams(), streams(), streams()))
def test_merging_is_associative_and_commutative(case, data, parts):
    cal = data.draw(case.calibrators())
    a, b, c = (learned(cal.clone(), part) for part in parts)
    left, right, turned = a.clone(), b.clone(), c.clone()
    for part in (a, b, c):
        left.merge(part)  # ((0 + a) + b) + c
    right.merge(c)
    right.merge(a)  # (0 + c) + a
    turned.merge(b)
    turned.merge(right)  # (0 + b) + (c + a)
    assert_same(left, turned)


@each(ADDING)
@given(data=st.data(), stream=streams())
def test_the_empty_calibrator_is_the_identity_of_merging(case, data, stream):
    cal = learned(data.draw(case.calibrators()), stream)
    twin = through_json(cal)
    cal.merge(cal.clone())
    assert_same(cal, twin)
    empty = cal.clone()
    empty.merge(cal)
    assert_same(empty, twin)


@each(ADDING)
def test_a_calibrator_is_not_merged_into_itself(case):
    cal = learned(case.build(), [Observation(0.5, 1)])
    with pytest.raises(MergeError):
        cal.merge(cal)
    assert cal.n == 1.0


@each(NOT_ADDING)
@given(data=st.data(), stream=streams(min_size=1))
def test_merging_is_refused_where_the_table_says_so(case, data, stream):
    cal = learned(data.draw(case.calibrators()), stream)
    other = learned(cal.clone(), stream)
    before = cal.state_dict()
    with pytest.raises(MergeError):
        cal.merge(other)
    assert cal.state_dict() == before == other.state_dict()


@each(ADDING)
def test_other_parameters_do_not_merge(case):
    for params in case.variants()[1:]:
        cal, other = case.build(), learned(case.build(**params), [Observation(0.5, 1)])
        if cal.params() != other.params():
            with pytest.raises(MergeError):
                cal.merge(other)
            assert cal.n == 0.0


@each(ADDING)
def test_other_policies_and_methods_do_not_merge(case):
    cal = case.build()
    strangers = [Case(case.method, policy).build() for policy in POLICIES if policy != case.policy]
    strangers += [
        Case(method, "forever").build()
        for method in REGISTRY.values()
        if method is not case.method and not is_sequential(method)
    ]
    for other in [*strangers, 3, None]:
        with pytest.raises(MergeError):
            cal.merge(other)


# -- unlearning --------------------------------------------------------------------------------------------------


@each(UNLEARNING)
@given(data=st.data(), kept=streams(max_size=3), extra=streams(max_size=3), end=exact_times)
def test_learning_then_unlearning_is_nothing(case, data, kept, extra, end):
    """Also late, out of order, and interleaved with what stays; at most six, the size of the window by count."""
    cal = data.draw(case.calibrators())
    clock = max([end, *(o.t for o in kept + extra)])
    kept = [*kept, Observation(0.5, 1, 1.0, clock)][-3:]
    for observation in data.draw(st.permutations(kept + extra)):
        cal.learn_one(*observation)
    for observation in data.draw(st.permutations(extra)):
        cal.unlearn_one(*observation)
    assert_same(cal, learned(cal.clone(), kept))


@each(UNLEARNING)
@given(data=st.data(), stream=rough_streams(max_size=6))
def test_unlearning_everything_leaves_no_ghost(case, data, stream):
    """In any order, of any floats: .1 + .2 − .1 − .2 is not 0, but nothing is held."""
    cal = data.draw(case.calibrators())
    same = [o._replace(score=0.5) for o in stream if o.score > 0.3]  # several observations at one score
    stream = (same + [o for o in stream if o.score <= 0.3])[:6]
    learned(cal, stream)
    for observation in data.draw(st.permutations(stream)):
        cal.unlearn_one(*observation)
    assert cal.n == 0.0
    assert_same(cal, cal.clone(), within=max(tolerance(cal), 1e-9) if cal.params().get("prior") else 0.0)


@each(UNLEARNING)
def test_a_tenth_and_two_tenths_leave_no_ghost(case):
    cal = case.build()
    for score, w in ((0.25, 0.1), (0.75, 1.0), (0.25, 0.2)):
        cal.learn_one(score, 1, w, 0.0)
    for w in (0.1, 0.2):
        cal.unlearn_one(0.25, 1, w, 0.0)
    assert_same(cal, learned(case.build(), [Observation(0.75, 1)]), within=max(tolerance(cal), ONE_FORMULA))


@each(NOT_UNLEARNING)
@given(data=st.data(), stream=streams(min_size=1))
def test_unlearning_is_refused_where_the_table_says_so(case, data, stream):
    cal = learned(data.draw(case.calibrators()), stream)
    before = cal.state_dict()
    with pytest.raises(CapabilityError):
        cal.unlearn_one(*stream[0])
    assert cal.state_dict() == before


def wrongly(case, cal, observation):
    """Unlearn what was never learned: refused, or, where a window cannot know, counted; nothing else changes."""
    before, missed = cal.state_dict(), cal.tally()["missed"]
    if case.policy == "window":
        cal.unlearn_one(*observation)
        assert cal.tally()["missed"] == missed + 1
        before["learned"]["memory"]["missed"] += 1
    else:
        with pytest.raises(RetractionError, match="only what was learned"):
            cal.unlearn_one(*observation)
    assert cal.state_dict() == before


@each(UNLEARNING)
@given(data=st.data(), stream=streams(max_size=6))
def test_more_than_is_held_cannot_be_unlearned(case, data, stream):
    cal = learned(data.draw(case.calibrators(prior=None)), stream)
    clock = max([0.0, *(o.t for o in stream)])
    wrongly(case, cal, Observation(0.5, 1, cal.n + 1.0, clock))


@each(UNLEARNING)
@given(data=st.data(), stream=streams(min_size=1, max_size=6))
def test_what_was_never_learned_cannot_be_unlearned(case, data, stream):
    """Another score, and, of an observation alone at its score, the other label, another weight, another time."""
    stream = [o._replace(score=min(o.score, 0.75)) for o in stream]  # away from the cells of the strangers
    cal = learned(data.draw(case.calibrators(prior=None)), stream)
    if case.policy != "time-window" and not (case.policy == "window" or keeps_scores(cal)):
        pytest.skip("its sums do not know the single observations")
    clock = max(o.t for o in stream)
    wrongly(case, cal, Observation(0.875, 1, 1.0, clock))
    alone = Observation(0.96875, 1, 2.0, clock)
    cal.learn_one(*alone)
    wrongly(case, cal, alone._replace(y=0))
    wrongly(case, cal, alone._replace(w=1.0))
    wrongly(case, cal, alone._replace(w=4.0))
    if case.policy in TIMED:
        wrongly(case, cal, alone._replace(t=clock - HALF_LIFE))
    cal.unlearn_one(*alone)


@each([case for case in UNLEARNING if case.policy in TIMED])
def test_unlearning_needs_the_time_of_the_learning(case):
    cal = learned(case.build(), [Observation(0.5, 1, 1.0, 0.0)])
    with pytest.raises(InputError, match="time t"):
        cal.unlearn_one(0.5, 1)
    for w, t in ((1.0, 100.0), (0.5, HALF_LIFE)):  # half the weight, half a life later, would weigh the same
        with pytest.raises(RetractionError):
            cal.unlearn_one(0.5, 1, w, t)
    cal.unlearn_one(0.5, 1, 1.0, 0.0)
    assert cal.n == 0.0


@each([case for case in UNLEARNING if "window" in case.policy])
def test_what_a_window_dropped_is_counted_as_missed(case):
    stream = [Observation(k / 16, k % 2, 1.0, 4.0 * k) for k in range(12)]
    cal = learned(case.build(), stream)
    before = cal.n
    cal.unlearn_one(*stream[0])
    assert cal.tally()["missed"] == 1
    assert cal.n == before
    assert_same(cal, learned(case.build(), stream))


# -- predicting --------------------------------------------------------------------------------------------------


def look(cal, t):
    """Everything that can be asked."""
    cal.predict_one(0.3, t)
    cal.predict_many(PROBES, t)
    if cal.has_interval:
        cal.predict_interval_one(0.3, t=t)
        cal.predict_interval_many(PROBES, w=2.0, t=t)
    return cal.map(), cal.n, cal.tally(), repr(cal), cal.params(), cal.clone(), cal.bounded_memory


@each(ALL)
@given(data=st.data(), stream=streams(), times=st.lists(st.integers(-2, 40).map(lambda k: k * HALF_LIFE), max_size=4))
def test_predicting_changes_nothing(case, data, stream, times):
    """Also as of times ahead of the clock, and back."""
    cal = data.draw(case.calibrators())
    learned(cal, stream)
    before, predicted, n = cal.state_dict(), cal.predict_many(PROBES), cal.n
    for t in [*times, None]:
        look(cal, t)
    assert cal.state_dict() == before
    assert cal.n == n
    assert_close(cal.predict_many(PROBES), predicted, tolerance(cal))
    unasked = learned(learned(cal.clone(), stream), stream[:2])
    assert_same(learned(cal, stream[:2]), unasked)


@each([case for case in ADDITIVE if case.policy in TIMED])
@given(data=st.data(), stream=streams(min_size=1), ahead=st.integers(0, 20))
def test_a_prediction_as_of_a_time_is_what_a_policy_holds_then(case, data, stream, ahead):
    cal = data.draw(case.calibrators())
    learned(cal, stream)
    model = Model(case.policy, stream)
    t = model.clock + (ahead - 2) * HALF_LIFE
    model.clock = max(model.clock, t)
    model._let_go()
    expected = without_forgetting(cal, model.held()).predict_many(PROBES)
    assert_close(cal.predict_many(PROBES, t), expected, tolerance(cal))
    assert_close([cal.predict_one(score, t) for score in PROBES], expected, tolerance(cal))


@each(ALL)
@given(data=st.data(), stream=rough_streams(max_size=LONGEST))
def test_predictions_are_probabilities_and_monotone_where_claimed(case, data, stream):
    cal = data.draw(case.calibrators())
    learned(cal, stream)
    scores = np.unique(np.concatenate((PROBES, [o.score for o in stream])))
    p = cal.predict_many(scores)
    assert ((p >= 0.0) & (p <= 1.0)).all()
    if cal.monotone:
        assert_monotone(p)
    if cal.has_interval:
        lower, upper = cal.predict_interval_many(scores)
        assert ((lower >= 0.0) & (lower <= upper) & (upper <= 1.0)).all()
        assert ((lower <= p + MONOTONE_TO) & (p <= upper + MONOTONE_TO)).all()


@each(ALL)
@given(data=st.data(), stream=rough_streams(max_size=LONGEST))
def test_one_many_and_map_predict_the_same(case, data, stream):
    cal = data.draw(case.calibrators())
    learned(cal, stream)
    scores = np.concatenate((PROBES, [o.score for o in stream]))
    many, found = cal.predict_many(scores), cal.map()
    assert isinstance(cal.predict_one(0.5), float)
    assert_close([cal.predict_one(score) for score in scores], many, ONE_FORMULA)
    assert_close(found.predict_many(scores), many, ONE_FORMULA)
    assert_close([found(score) for score in scores.tolist()], many, ONE_FORMULA)
    if cal.has_interval:
        lower, upper = cal.predict_interval_many(scores)
        assert_close([cal.predict_interval_one(score) for score in scores], np.transpose([lower, upper]), ONE_FORMULA)


@each(ALL)
@given(data=st.data(), stream=streams(), later=streams(min_size=1))
def test_a_map_does_not_change(case, data, stream, later):
    cal = data.draw(case.calibrators())
    learned(cal, stream)
    snapshot = cal.map()
    before = snapshot.predict_many(PROBES)
    result = snapshot.predict_many(PROBES)
    result[:] = 7.0  # what was handed out is the caller's
    learned(cal, later)
    cal.predict_many(PROBES)[:] = 7.0
    assert snapshot.predict_many(PROBES).tolist() == before.tolist()
    for name, value in vars(snapshot).items():
        assert not isinstance(value, np.ndarray) or not value.flags.writeable, name


@each(ALL)
def test_predictions_do_not_hand_out_the_callers_scores(case):
    scores = np.array([0.25, 0.5])
    case.build().predict_many(scores)[:] = 7.0
    assert scores.tolist() == [0.25, 0.5]


@each(ALL)
def test_before_anything_is_learned(case):
    """The definition where there is one, the interval [0, 1] or the midpoint of a bin; else the score on the
    probability scale."""
    for params in case.variants():
        if "prior" in params:
            continue
        cal = case.build(**params)
        assert cal.n == 0.0
        if cal.has_interval:
            assert cal.predict_interval_one(0.3) == (0.0, 1.0)
            assert 0.0 <= cal.predict_one(0.3) <= 1.0
        elif isinstance(cal, CalibeatenOPS):
            midpoints = [(math.floor(score * cal.bins) + 0.5) / cal.bins for score in (0.0625, 0.33, 0.93)]
            assert_close(cal.predict_many([0.0625, 0.33, 0.93]), midpoints, ONE_FORMULA)
        else:
            expected = [cal.scale.probability(cal.scale.coordinate(score)) for score in (0.0625, 0.3, 0.9)]
            assert_close(cal.predict_many([0.0625, 0.3, 0.9]), expected, ONE_FORMULA)


# -- copies and state --------------------------------------------------------------------------------------------

COPIES = {
    "json": through_json,
    "pickle": lambda cal: pickle.loads(pickle.dumps(cal)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


#: Copies and pickles go through the state: three methods show it, and the rest with `-m full`.
COPIED = ("isotonic", "platt", "ops")


def copy_marks(case, way):
    if way == "json" or case.method.name in COPIED:
        return marks(case.policy, case.method in WALKED.values())
    return [pytest.mark.full]


COPYING = [pytest.param(case, way, id=f"{way}-{case}", marks=copy_marks(case, way)) for case in ALL for way in COPIES]


@pytest.mark.parametrize(("case", "way"), COPYING)
@given(data=st.data(), stream=streams(), later=streams())
def test_a_copy_goes_on_as_if_it_had_never_stopped(case, way, data, stream, later):
    cal = data.draw(case.calibrators())
    learned(cal, stream)
    twin = COPIES[way](cal)
    assert type(twin) is type(cal)
    assert twin.params() == cal.params()
    assert twin.state_dict() == cal.state_dict()
    assert twin.tally() == cal.tally()
    assert_same(twin, cal)
    state = cal.state_dict()
    learned(twin, later)
    assert cal.state_dict() == state, "learning on the copy has moved the original"
    assert_same(twin, learned(cal, later))
    assert twin.tally() == cal.tally()


@each(ALL)
@given(data=st.data(), stream=streams())
def test_a_clone_holds_nothing_and_has_equal_parameters(case, data, stream):
    cal = data.draw(case.calibrators())
    fresh = cal.state_dict()
    learned(cal, stream)
    clone = cal.clone()
    assert clone.params() == cal.params()
    assert clone.state_dict() == fresh
    assert clone.n == 0.0
    before = cal.state_dict()
    learned(clone, stream)
    assert cal.state_dict() == before


@each(ALL)
def test_a_state_is_plain_data_that_later_learning_does_not_move(case):
    cal = learned(case.build(), [Observation(0.5, 1), Observation(0.25, 0)])
    state = cal.state_dict()
    text = json.dumps(state, allow_nan=False)
    learned(cal, [Observation(0.5, 0), Observation(0.75, 1)])
    assert json.dumps(state, allow_nan=False) == text
    read = type(cal).from_state(state)
    learned(read, [Observation(0.5, 0)])
    assert json.dumps(state, allow_nan=False) == text


def damaged(state):
    """The state with one thing missing or wrong, in turn."""
    for name in list(state):
        yield {key: value for key, value in state.items() if key != name}
    yield {**state, "streamcal": 999}
    yield {**state, "class": "Stranger"}
    yield {**state, "learned": None}
    yield {**state, "params": {**state["params"], "stranger": 1}}
    for name in state["learned"]:
        yield {**state, "learned": {key: value for key, value in state["learned"].items() if key != name}}


@each(ALL)
def test_a_damaged_state_is_refused(case):
    cal = learned(case.build(), [Observation(0.5, 1), Observation(0.25, 0)])
    for state in [*damaged(cal.state_dict()), None, [], "state", {}]:
        with pytest.raises(StateError):
            type(cal).from_state(state)


# -- hard streams ------------------------------------------------------------------------------------------------

EDGES = [0.0, -0.0, 5e-324, 1e-323, 2.2e-308, 1e-300, 1e-16, 1.0 - 2.0**-53, 1.0]
HARD = {
    "one positive": [Observation(0.3, 1)],
    "one negative": [Observation(0.3, 0)],
    "positives only": [Observation(k / 16, 1) for k in range(16)],
    "negatives only": [Observation(k / 16, 0) for k in range(16)],
    "all ties": [Observation(0.3, k % 3 == 0) for k in range(20)],
    "edges": [Observation(score, y) for score in EDGES for y in (0, 1)],
    "edges, falling": [Observation(score, k % 2) for k, score in enumerate(reversed(EDGES))],
    "neighbouring floats": [Observation(0.5 + k * 2.0**-53, k % 2) for k in range(8)],
    "separated": [Observation(k / 64, k > 32) for k in range(64)],
    "reversed": [Observation(k / 64, k < 32) for k in range(64)],
    "fractional weights": [Observation(k / 16, k % 2, 1.0 / (k + 3)) for k in range(16)],
    "huge weights": [Observation(k / 16, k % 2, 1e60) for k in range(16)],
    "tiny weights": [Observation(k / 16, k % 2, 1e-60) for k in range(16)],
    "huge and tiny weights": [Observation(k / 32, k % 2, 10.0 ** (15 * (k % 9) - 60)) for k in range(18)],
    "weights 1e5 apart": [Observation(0.98, 1, 102.479), Observation(0.36, 0, 0.001)],
}


@each(ALL)
@pytest.mark.parametrize("kind", HARD)
def test_hard_streams(case, kind):
    hard_streams(case, kind, case.variants()[:2])


@pytest.mark.full
@each(ALL)
@pytest.mark.parametrize("kind", HARD)
def test_hard_streams_of_every_variant(case, kind):
    hard_streams(case, kind, case.variants()[2:])


def hard_streams(case, kind, variants):
    uncompiled = kernel_form() == "uncompiled"
    for params in variants:
        cal = case.build(**params)
        for number, observation in enumerate(HARD[kind]):
            cal.learn_one(*observation)
            if uncompiled and number % cal.params().get("folds", 1):
                continue  # K trees are asked: as many questions as of one tree
            p = cal.predict_many(PROBES)
            assert ((p >= 0.0) & (p <= 1.0)).all(), (params, number)
            if cal.monotone and not (magnifies(cal) and "huge" in kind):
                assert_monotone(p)
        if case.policy is not None and case.policy != "decay":
            assert cal.n == pytest.approx(math.fsum(o.w for o in Model(case.policy, HARD[kind]).held()), rel=1e-9), (
                params
            )
        assert 0.0 <= cal.map()(0.3) <= 1.0
        if "prior" not in params and "huge" not in kind:  # there the sums have lost what the copy sums anew
            assert_same(through_json(cal), cal, within=max(tolerance(cal), 1e-9))


@each(ALL)
def test_minus_zero_is_zero(case):
    for params in case.variants():
        cal, twin = case.build(**params), case.build(**params)
        learned(cal, [Observation(-0.0, 1), Observation(0.0, 0), Observation(0.5, 1)])
        learned(twin, [Observation(0.0, 1), Observation(0.0, 0), Observation(0.5, 1)])
        assert_same(cal, twin)
        assert cal.predict_one(-0.0) == cal.predict_one(0.0)
        if case.unlearns:
            cal.unlearn_one(0.0, 1, 1.0, 0.0)
            cal.unlearn_one(-0.0, 0, 1.0, 0.0)
            assert cal.n == 1.0


@each(NEW)
@pytest.mark.parametrize("shape", [(0.5, 100.0), (5.0, 995.0)], ids=["spread", "narrow"])
def test_half_a_percent_of_positives(case, shape):
    """In sum the predictions keep the base rate, and an identity stays one."""
    scores, y = realistic(seed=3, size=6_000, a=shape[0], b=shape[1])
    for params in case.variants():
        cal = case.build(**params)
        cal.learn_many(scores, y)
        p = cal.predict_many(scores[:: cal.params().get("folds", 1)])  # K trees: as many questions as of one
        assert ((p >= 0.0) & (p <= 1.0)).all()
        keeps_sum = not (cal.has_interval or is_sequential(case.method)) and cal.name not in KEEPS_NO_SUM
        if keeps_sum and not params:
            # Least squares and likelihood keep the sum, but for Platt's targets and for Bernstein's bound at 0. The
            # last map of a sequential method is no fit of the whole stream.
            assert p.sum() == pytest.approx(y.sum(), rel=0.1)


# -- bad calls ---------------------------------------------------------------------------------------------------

PLACES = {"score": 0, "label": 1, "weight": 2, "time": 3}
NEVER = [math.nan, math.inf, -math.inf, 10**400, "0.5", b"0.5", None, [0.5], object(), 1j]
#: numpy makes of an array with one of these an array of these: `test_settings_and_inputs` has tests for them.
TEXT_OR_COMPLEX = (str, bytes, complex)
BAD = {
    "score": [*NEVER, 1.5, -0.25],
    "label": [*NEVER, 2, -1, 0.5, "1", "True"],
    "weight": [*NEVER, -1.0, 1e-61, 1e61, 5e-324],
    "time": [value for value in NEVER if value is not None],
}
GOOD = [Observation(0.25, 0, 1.0, 0.0), Observation(0.75, 1, 2.0, 4.0), Observation(0.5, 1, 1.0, 8.0)]


def assert_refused(cal, value, call):
    """`InputError`, whose message says what came, and a calibrator as it was."""
    before, predicted = cal.state_dict(), cal.predict_many(PROBES).tolist()
    with pytest.raises(InputError) as error:
        call()
    message = str(error.value)
    said = {repr(value), repr(float(value))} if isinstance(value, float) else {repr(value)}
    if value == 10**400:
        said.add("inf")
    if isinstance(value, list):
        said.add("cannot be read as an array")
    assert any(word in message for word in said), f"{min(said, key=len)[:20]} is not named in: {message[:200]}"
    assert cal.state_dict() == before
    assert cal.predict_many(PROBES).tolist() == predicted


@each(ALL)
@pytest.mark.parametrize("what", BAD)
@pytest.mark.parametrize("verb", ["learn_one", "learn_many", "unlearn_one"])
def test_a_bad_value_is_named_and_leaves_the_state(case, what, verb):
    if what == "time" and case.policy is None:
        pytest.skip("sequential methods read no time")
    if verb == "unlearn_one" and not case.unlearns:
        pytest.skip("refused in any case")
    cal = learned(case.build(), GOOD)
    for value in BAD[what]:
        if verb == "learn_many" and isinstance(value, TEXT_OR_COMPLEX):
            continue
        bad = list(GOOD[1])
        bad[PLACES[what]] = value
        if verb == "learn_many":  # in the middle
            bad = [list(column) for column in zip(GOOD[0], bad, GOOD[2], strict=True)]
        assert_refused(cal, value, lambda bad=bad: getattr(cal, verb)(*bad))


@each(ALL)
def test_a_bad_question_is_refused(case):
    cal = learned(case.build(), GOOD)
    for value in BAD["score"]:
        assert_refused(cal, value, lambda value=value: cal.predict_one(value))
        assert_refused(cal, value, lambda value=value: cal.map()(value))
        if not isinstance(value, TEXT_OR_COMPLEX):
            assert_refused(cal, value, lambda value=value: cal.predict_many([0.5, value, 0.5]))
            assert_refused(cal, value, lambda value=value: cal.map().predict_many([0.5, value]))
        if cal.has_interval:
            assert_refused(cal, value, lambda value=value: cal.predict_interval_one(value))
    for value in BAD["time"] if case.policy is not None else []:
        assert_refused(cal, value, lambda value=value: cal.predict_one(0.5, value))
        assert_refused(cal, value, lambda value=value: cal.predict_many([0.5], value))
    for value in BAD["weight"] if cal.has_interval else []:
        assert_refused(cal, value, lambda value=value: cal.predict_interval_one(0.5, value))


@each([case for case in ADDITIVE if case.policy in TIMED])
def test_by_time_a_missing_time_is_refused(case):
    cal = learned(case.build(), GOOD)
    for call in (
        lambda: cal.learn_one(0.5, 1),
        lambda: cal.learn_many([0.5], [1]),
        lambda: cal.unlearn_one(0.75, 1, 2.0),
    ):
        before = cal.state_dict()
        with pytest.raises(InputError, match="give the time t"):
            call()
        assert cal.state_dict() == before


@each(ALL)
def test_arrays_that_do_not_fit_are_refused(case):
    cal = learned(case.build(), GOOD)
    t = [8.0, 8.0]
    calls = [
        lambda: cal.learn_many([0.5, 0.5], [1], None, t),
        lambda: cal.learn_many([0.5, 0.5], [1, 0], [1.0], t),
        lambda: cal.learn_many([[0.5], [0.5]], [1, 0], None, t),
        lambda: cal.learn_many(0.5, 1, None, 8.0),
        lambda: cal.learn_many([0.5, [0.5]], [1, 0], None, t),
        lambda: cal.learn_many(["a", "b"], [1, 0], None, t),
        lambda: cal.predict_many([[0.5], [0.5]]),
        lambda: cal.predict_many(0.5),
    ]
    if case.policy is not None:
        calls.append(lambda: cal.learn_many([0.5, 0.5], [1, 0], None, [8.0]))
    for call in calls:
        before = cal.state_dict()
        with pytest.raises(InputError):
            call()
        assert cal.state_dict() == before


@each(ALL)
def test_nothing_is_learned_from_empty_arrays(case):
    cal = learned(case.build(), GOOD)
    before = cal.state_dict()
    cal.learn_many([], [], [], [])
    assert cal.state_dict() == before
    assert cal.predict_many([]).shape == (0,)


# -- capabilities ------------------------------------------------------------------------------------------------


@each(ALL)
def test_what_a_method_says_it_can_do_is_what_the_table_says(case):
    for params in case.variants():
        cal = case.build(**params)
        assert cal.merges == case.adds
        assert cal.unlearns == case.unlearns
        assert cal.has_interval == hasattr(cal, "predict_interval_one") == hasattr(cal, "predict_interval_many")
        assert isinstance(cal.monotone, bool)
        assert isinstance(cal.bounded_memory, bool)


@each(ALL)
def test_memory_is_bounded_where_claimed_and_grows_elsewhere(case):
    """Measured on the state. The scores reach every cell of every grid and fill every window: uncompiled, long work."""
    first = np.concatenate((1.0 / (1.0 + np.exp(-np.linspace(-16.5, 16.5, 20_000))), np.linspace(0.0, 1.0, 40_000)))
    if is_sequential(case.method):
        first = first[::16]  # has no cells, and windows of no more than 1,000
    # A half-life of one observation would leave 60 of them, and most cells empty.
    policy = {"forgetting": Decay(1_000)} if case.policy == "decay" else {}
    for params in case.variants() if kernel_form() == "compiled" else [{}]:
        cal = case.build(**params, **policy)
        if not cal.bounded_memory and case.policy != "forever":
            continue  # what forgets need not grow
        sizes = []
        for scores in (first, 0.99 * first):
            cal.learn_many(scores, np.arange(len(scores)) % 2, None, np.zeros(len(scores)))
            sizes.append(size_of(cal.state_dict()))
        if not cal.bounded_memory:
            assert sizes[0] < sizes[1], params
        elif case.policy in ("decay", "time-decay"):  # how many cells have faded varies
            full = case.method(**{**cal.params(), "forgetting": Forever()})
            full.learn_many(first, np.zeros(len(first)))
            assert sizes[1] <= size_of(full.state_dict()) + 8, params
        else:
            assert sizes[0] == sizes[1], params


@each([case for case in NEW if not case.method.monotone])
def test_a_method_that_does_not_claim_to_be_monotone_is_not(case):
    cal = learned(case.build(), [Observation(score, y) for score, y in ((0.1, 1), (0.2, 1), (0.8, 0), (0.9, 0))] * 20)
    assert cal.predict_one(0.9) < cal.predict_one(0.1)


# -- refreshing at intervals -------------------------------------------------------------------------------------
# The laws above are those of refresh_every=1, the default. With more, predictions are those of an earlier moment.

REFRESHING = [case for case in ADDITIVE if "refresh_every" in case.build().params()]


@each(REFRESHING)
@given(data=st.data(), stream=streams(max_size=12))
def test_a_map_refreshed_at_intervals_is_that_of_the_last_one(case, data, stream):
    cal = data.draw(case.calibrators())
    lagging = type(cal)(**{**cal.params(), "refresh_every": 4})
    for number, observation in enumerate(stream, 1):
        learned(lagging, [observation])
        exact = learned(cal.clone(), stream[: number if number < 4 else number - number % 4])
        before = lagging.state_dict()
        predicted = lagging.predict_many(PROBES)
        assert_close(predicted, exact.predict_many(PROBES), tolerance(cal))
        look(lagging, 1e6)  # as of a time ahead, it is still the map of the last refresh
        assert lagging.state_dict() == before
        for way in COPIES.values():
            assert_close(way(lagging).predict_many(PROBES), predicted, tolerance(cal))


@each(REFRESHING)
@given(data=st.data(), stream=streams(min_size=4, max_size=LONGEST), cut=st.integers(0, LONGEST))
def test_learn_many_refreshes_where_a_loop_does(case, data, stream, cut):
    cal = data.draw(case.calibrators())
    loop = type(cal)(**{**cal.params(), "refresh_every": 4})
    many = loop.clone()
    learned(loop, stream)
    many.learn_many(*columns(stream[:cut]))
    many.learn_many(*columns(stream[cut:]))
    assert_same(loop, many)
    assert loop.n == many.n


@each([case for case in REFRESHING if case.adds])
def test_retractions_and_merges_count_towards_a_refresh(case):
    stream = [Observation(k / 8, k > 3) for k in range(8)]
    cal, other = (learned(case.build(refresh_every=8), stream) for _ in range(2))
    before = cal.predict_many(PROBES).tolist()
    for observation in stream[:7]:
        cal.unlearn_one(*observation)
        assert cal.predict_many(PROBES).tolist() == before
    cal.unlearn_one(*stream[7])
    assert_close(cal.predict_many(PROBES), cal.clone().predict_many(PROBES), 0.0)
    cal.merge(other)
    assert_close(cal.predict_many(PROBES), before, tolerance(cal))  # solved again, from another start


@each([case for case in REFRESHING if case.adds])
def test_a_merge_counts_what_was_learned_and_not_the_prior(case):
    seeded = "prior" in case.build().params() and case.policy != "time-decay"
    cal, other = (case.build(refresh_every=8, **({"prior": Prior(1.0)} if seeded else {})) for _ in range(2))
    for k in range(3):
        other.learn_one(k / 4, k % 2, 1.0, 0.0)
    cal.merge(other)
    assert cal.state_dict()["learned"]["since"] == 3


@each([case for case in REFRESHING if case.policy == "time-window"])
def test_what_was_predicted_does_not_change_what_a_merge_counts(case):
    cals = []
    for asked in (False, True):
        cal, other = (case.build(refresh_every=2) for _ in range(2))
        cal.learn_one(0.75, 1, 1.0, 0.0)
        other.learn_one(0.25, 0, 1.0, 0.0)
        if asked:
            other.predict_one(0.5, 1e6)
        cal.merge(other)
        cals.append(cal.state_dict()["learned"]["since"])
    assert cals == [0, 0]


# -- grids -------------------------------------------------------------------------------------------------------


def on_a_grid(case, **params):
    """(calibrator on a grid, its statistic)."""
    cal = case.build(**params)
    return cal, cal._memory.statistic


def is_smooth(case):
    """Whether two scores of one cell get different probabilities."""
    cal, statistic = on_a_grid(case, resolution=64)
    cal.learn_many([0.2, 0.3, 0.7, 0.8], [0, 1, 0, 1])
    assert statistic.grid.cell(cal.scale.coordinate(0.51)) == statistic.grid.cell(cal.scale.coordinate(0.52))
    return cal.predict_one(0.51) != cal.predict_one(0.52)


SMOOTH = [case for case in ON_GRIDS if is_smooth(case)]
STEPS = [case for case in ON_GRIDS if case not in SMOOTH]


@each(STEPS)
@given(stream=rough_streams(min_size=1, max_size=60), data=st.data())
def test_a_step_map_on_a_grid_is_the_exact_method_on_rounded_scores(case, stream, data):
    stream = [o._replace(w=float(math.ceil(o.w))) for o in stream]  # exact sums, in any order
    # The fold of a score is a hash of its coordinate, which is another one on another scale.
    folded = "folds" in case.build().params()
    scales = VALUES["scale"][1 if case.method.name in READ_AS_PROBABILITIES else 0 : 0 if folded else 2]
    scale = data.draw(st.sampled_from([{}, *({"scale": scale} for scale in scales)]))
    cal, statistic = on_a_grid(case, resolution=64, **scale)
    exact, _ = on_a_grid(case, resolution=None, **({"scale": VALUES["scale"][1]} if scale else {}))
    probability = not scale

    def rounded(score):
        x = statistic.grid.round(cal.scale.coordinate(score))
        return x if probability else (x + 16.0) / 32.0 if cal.scale.lo == -16.0 else x

    learned(cal, stream)
    learned(exact, [o._replace(score=rounded(o.score)) for o in stream])
    probes = [*PROBES, *(o.score for o in stream)]
    assert_close([cal.predict_one(s) for s in probes], [exact.predict_one(rounded(s)) for s in probes], ONE_FORMULA)


REALISTIC = {
    "calibrated": realistic(1, 20_000, 2.0, 3.0),
    "overconfident": realistic(2, 20_000, 2.0, 2.0, temperature=3.0),
    "underconfident": realistic(3, 20_000, 0.7, 1.5, temperature=0.4),
    "half a percent": realistic(4, 20_000, 0.5, 99.5),
    "half a percent, narrow": realistic(5, 20_000, 5.0, 995.0, temperature=0.6),
    "extremes": realistic(6, 20_000, 0.05, 0.1),
}
REALISTIC["two decimals"] = (REALISTIC["calibrated"][0].round(2), REALISTIC["calibrated"][1])


@each(SMOOTH)
@pytest.mark.parametrize("kind", REALISTIC)
def test_a_smooth_map_on_its_default_grid_is_the_exact_fit(case, kind):
    scores, y = REALISTIC[kind]
    grid, exact = case.build(), case.build(resolution=None)
    assert grid.resolution is not None
    start = 0
    for end in (1, 2, 3, 5, 10, 30, 100, 300, 1_000, 5_000, 20_000):
        grid.learn_many(scores[start:end], y[start:end])
        exact.learn_many(scores[start:end], y[start:end])
        start = end
        probes = np.concatenate((PROBES, scores[:200]))
        assert_close(grid.predict_many(probes), exact.predict_many(probes), GRID_LOSS)


# -- a life ------------------------------------------------------------------------------------------------------


def life_of(case):
    """A machine that learns, unlearns, merges, saves and predicts in any order, against the model of the policy."""

    class Life(RuleBasedStateMachine):
        @initialize(data=st.data())
        def begin(self, data):
            fixed = {"prior": None} if case.policy == "decay" else {}
            self.cal = data.draw(case.calibrators(**fixed))
            self.model = Model(case.policy)
            self.missed = 0

        @property
        def has_room(self):
            return self.model.number < LONGEST

        @precondition(lambda self: self.has_room)
        @rule(observation=observations)
        def learn_one(self, observation):
            self.cal.learn_one(*observation)
            self.model.learn(observation)

        @precondition(lambda self: self.has_room)
        @rule(stream=streams(max_size=4))
        def learn_many(self, stream):
            self.cal.learn_many(*columns(stream))
            for observation in stream:
                self.model.learn(observation)

        @precondition(lambda self: case.unlearns and self.model.entries)
        @rule(data=st.data())
        def unlearn_one(self, data):
            observation = data.draw(st.sampled_from([observation for _, observation in self.model.entries]))
            self.cal.unlearn_one(*observation)
            assert self.model.unlearn(observation)

        @precondition(lambda self: case.policy == "window")
        @rule(observation=observations)
        def unlearn_what_may_not_be_held(self, observation):
            self.cal.unlearn_one(*observation)
            self.missed += not self.model.unlearn(observation)

        @precondition(lambda self: case.adds)
        @rule(stream=streams(max_size=4))
        def merge(self, stream):
            other = learned(self.cal.clone(), stream)
            self.cal.merge(other)
            self.model.merge(Model(case.policy, stream))

        @rule(way=st.sampled_from(sorted(COPIES)))
        def save_and_load(self, way):
            self.cal = COPIES[way](self.cal)

        @rule(t=st.none() | st.integers(0, 40).map(lambda k: k * HALF_LIFE))
        def predict(self, t):
            look(self.cal, t)

        @rule(observation=observations)
        def learn_what_cannot_be_learned(self, observation):
            before = self.cal.state_dict()
            with pytest.raises(InputError):
                self.cal.learn_many([0.5, observation.score], [observation.y, 2], None, [1e6, 1e6])
            self.cal.learn_one(observation.score, observation.y, 0.0, 1e6)
            assert self.cal.state_dict() == before

        @invariant()
        def holds_what_the_policy_says(self):
            if hasattr(self, "cal"):
                assert_same(self.cal, without_forgetting(self.cal, self.model.held()))
                assert self.cal.tally()["missed"] == self.missed

    return Life


@each(ADDITIVE)
def test_a_life_of_learning_unlearning_merging_and_saving(case):
    run_state_machine_as_test(life_of(case))
