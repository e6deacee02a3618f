"""The laws of `docs/architecture.md`, for every method of many classes under every policy."""

from __future__ import annotations

import copy
import json
import math
import os
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import hypothesis
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from laws import ADDING, HALF_LIFE, POLICIES, TIMED, UNLEARNING, Model, through_json

from streamcal import (
    Beta,
    CapabilityError,
    CrossVennAbers,
    Decay,
    Forever,
    InputError,
    Isotonic,
    MergeError,
    OnlinePlatt,
    Prior,
    RetractionError,
    StateError,
    Temperature,
    Window,
)
from streamcal.multiclass import (
    METHODS,
    Dirichlet,
    MulticlassCalibrator,
    MulticlassVennAbers,
    OneVsRest,
    OnlineVectorScaling,
    TemperatureScaling,
    VectorScaling,
)

# -- cases: a method in one of its variants, under a policy ------------------------------------------------------------

#: Streams of integer weights and scores in sixteenths make the sums of tables and trees exact.
EXACT = 1e-12
#: A Newton iteration stops at a gradient of 1e-12 of the weight, and starts where the last one ended.
SOLVED = 1e-9
#: Without a prior a ridge of 1e-9 decides what few observations leave open: it magnifies rounding (1e-16) by 1e9, and
#: a log-probability of 16 does once more. 1e-5 leaves room for a few of them.
RIDGED = 1e-5


class Variant(NamedTuple):
    """How a calibrator is made under a policy, and by how much two that ought to be equal may differ."""

    build: Callable[[Any], MulticlassCalibrator]
    within: float


def given(**strategies):
    """Fewer examples than in the suite of one score, whose laws these are again; more where a profile is asked for."""
    few = {} if "HYPOTHESIS_PROFILE" in os.environ else {"max_examples": 5}
    return lambda test: settings(**few)(hypothesis.given(**strategies)(test))


VARIANTS = {
    "one-vs-rest isotonic": Variant(lambda policy: OneVsRest(Isotonic(forgetting=policy)), EXACT),
    "venn-abers ovr": Variant(lambda policy: MulticlassVennAbers(forgetting=policy), EXACT),
    "venn-abers ovo": Variant(lambda policy: MulticlassVennAbers("ovo", "self-consistent", forgetting=policy), EXACT),
    "temperature": Variant(lambda policy: TemperatureScaling(forgetting=policy), SOLVED),
    "vector": Variant(lambda policy: VectorScaling(forgetting=policy), SOLVED),
    "dirichlet": Variant(lambda policy: Dirichlet(off_diagonal=0.1, intercept=0.01, forgetting=policy), SOLVED),
}
#: Tried without forgetting only.
MORE = {
    "one-vs-rest temperature": Variant(lambda policy: OneVsRest(Temperature(forgetting=policy)), SOLVED),
    "vector, no prior": Variant(lambda policy: VectorScaling(prior=0.0, forgetting=policy), RIDGED),
}
SEQUENTIAL = {
    "one-vs-rest ops": Variant(lambda _: OneVsRest("ops"), 0.0),
    "online-vector": Variant(lambda _: OnlineVectorScaling(), 0.0),
    "online-vector, discount": Variant(lambda _: OnlineVectorScaling(discount=0.875), 0.0),
}


@dataclass(frozen=True)
class Case:
    variant: str
    policy: str | None

    def __str__(self):
        return self.variant if self.policy is None else f"{self.variant}-{self.policy}"

    def build(self):
        if self.policy is None:
            return SEQUENTIAL[self.variant].build(None)
        return {**VARIANTS, **MORE}[self.variant].build(POLICIES[self.policy])

    @property
    def within(self):
        return {**VARIANTS, **MORE, **SEQUENTIAL}[self.variant].within


ADDITIVE_CASES = [Case(variant, policy) for variant in VARIANTS for policy in POLICIES]
ADDITIVE_CASES += [Case(variant, "forever") for variant in MORE]
ALL = [*ADDITIVE_CASES, *(Case(variant, None) for variant in SEQUENTIAL)]
ADDING_CASES = [case for case in ADDITIVE_CASES if case.policy in ADDING]
UNLEARNING_CASES = [case for case in ADDITIVE_CASES if case.policy in UNLEARNING]
NEW = [case for case in ALL if case.policy in ("forever", None)]


def each(cases):
    return pytest.mark.parametrize("case", [pytest.param(case, id=str(case)) for case in cases])


def test_every_method_is_walked_under_every_policy():
    assert {type(case.build()) for case in ALL} == set(METHODS.values())
    assert all(name == method.name for name, method in METHODS.items())
    assert {case.policy for case in ADDITIVE_CASES} == set(POLICIES)


# -- streams -----------------------------------------------------------------------------------------------------------


class Observation(NamedTuple):
    """The arguments of `learn_one`, in order."""

    scores: dict
    y: Any
    w: float = 1.0
    t: float = 0.0


LABELS = ["a", "b", 3]


def vectors(labels):
    """Scores in sixteenths, summing to one, zeros among them."""
    cuts = st.lists(st.integers(0, 16), min_size=len(labels) - 1, max_size=len(labels) - 1).map(sorted)
    return cuts.map(
        lambda c: {label: (end - start) / 16 for label, start, end in zip(labels, [0, *c], [*c, 16], strict=True)}
    )


#: All three labels in one order or another, two of them, or one alone; the label that comes may be none of them.
some_scores = st.one_of(vectors(LABELS), vectors([3, "b", "a"]), vectors(["b", "a"]), vectors([3, "a"]), vectors(["b"]))
exact_weights = st.sampled_from([1.0, 1.0, 2.0, 3.0])
exact_times = st.integers(0, 8).map(lambda k: k * HALF_LIFE)
observations = st.builds(Observation, some_scores, st.sampled_from(LABELS), exact_weights, exact_times)
full_observations = st.builds(Observation, vectors(LABELS), st.sampled_from(LABELS), exact_weights, exact_times)


def streams(min_size=0, max_size=10):
    return st.lists(observations, min_size=min_size, max_size=max_size)


def full_streams(min_size=0, max_size=10):
    return st.lists(full_observations, min_size=min_size, max_size=max_size)


def learned(cal, stream):
    for observation in stream:
        cal.learn_one(*observation)
    return cal


def learn_arrays(cal, stream, labels=("b", 3, "a")):
    """`learn_many` of observations that all have the same labels, in the order of these columns."""
    P = np.array([[o.scores[label] for label in labels] for o in stream]).reshape(-1, len(labels))
    w, t = (np.array([o[place] for o in stream], dtype=float) for place in (2, 3))
    cal.learn_many(P, [o.y for o in stream], w, t, labels=labels)


# -- comparisons -------------------------------------------------------------------------------------------------------

PROBES = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.25, 0.5, 0.25], [0.3, 0.3, 0.4], [1e-9, 1.0 - 1e-9, 0.0]])
#: Of other labels, of one that is never learned among them.
OTHERS = [{"b": 0.25, "a": 0.75}, {3: 1.0}, {"z": 0.5, "a": 0.5}, {"z": 1.0}]


def answers(cal, t=None):
    """Everything predicted, as one list of numbers."""
    found = cal.predict_many(PROBES, t, labels=LABELS).ravel().tolist()
    for scores in OTHERS:
        found += cal.predict_one(scores, t).values()
        if cal.has_interval:
            found += [end for pair in cal.predict_interval_one(scores, t).values() for end in pair]
    return found


def assert_same(one, other, within):
    assert one.n == pytest.approx(other.n, rel=EXACT, abs=EXACT)
    np.testing.assert_allclose(answers(one), answers(other), rtol=0, atol=within)


def forever(cal):
    """A calibrator of the same parameters, but for the policy, that has learned nothing."""
    if isinstance(cal, OneVsRest):
        inner = cal.calibrator
        return OneVsRest(type(inner)(**{**inner.params(), "forgetting": Forever()}))
    return type(cal)(**{**cal.params(), "forgetting": Forever()})


# -- learning ----------------------------------------------------------------------------------------------------------


@each(ALL)
@given(stream=full_streams(max_size=16), cut=st.integers(0, 16), late=st.sampled_from([None, "z", 7]))
def test_learn_many_is_a_loop_of_learn_one(case, stream, cut, late):
    """Also with outcomes that have no column."""
    if late is not None and stream:
        stream[len(stream) // 2] = stream[len(stream) // 2]._replace(y=late)
    loop, many = learned(case.build(), stream), case.build()
    learn_arrays(many, stream[:cut])
    learn_arrays(many, stream[cut:], labels=("a", "b", 3))
    assert_same(loop, many, case.within)
    assert loop.tally() == many.tally()


@each(ADDITIVE_CASES)
@given(stream=streams(max_size=12))
def test_a_policy_is_a_fresh_fit_of_what_it_holds(case, stream):
    cal = learned(case.build(), stream)
    held = Model(case.policy, stream).held()
    assert cal.n == pytest.approx(math.fsum(o.w for o in held), rel=EXACT)
    assert_same(cal, learned(forever(cal), held), case.within)


@each(ADDING_CASES)
@given(data=st.data(), stream=streams())
def test_order_does_not_matter(case, data, stream):
    shuffled = data.draw(st.permutations(stream))
    assert_same(learned(case.build(), stream), learned(case.build(), shuffled), case.within)


@each(ADDING_CASES)
@given(stream=streams(min_size=1), place=st.integers(0, 9))
def test_weight_two_is_twice(case, stream, place):
    place %= len(stream)
    doubled = [o._replace(w=2 * o.w) if i == place else o for i, o in enumerate(stream)]
    assert_same(learned(case.build(), doubled), learned(case.build(), [*stream, stream[place]]), case.within)


@each(NEW)
@given(stream=streams(min_size=1))
def test_labels_and_scores_of_every_kind_are_the_same(case, stream):
    """numpy's texts and numbers, 3.0 for 3, and dicts in another order."""
    state = learned(case.build(), stream).state_dict()
    as_numpy = {"a": np.str_("a"), "b": np.str_("b"), 3: np.int64(3)}
    turned = [
        o._replace(scores={as_numpy[k]: np.float64(p) for k, p in reversed(o.scores.items())}, y=as_numpy[o.y])
        for o in stream
    ]
    assert learned(case.build(), turned).state_dict() == state
    assert learned(case.build(), [o._replace(y=3.0 if o.y == 3 else o.y) for o in stream]).state_dict() == state


@each(ALL)
@given(stream=streams(), idle=full_streams(max_size=4))
def test_weight_zero_is_nothing(case, stream, idle):
    cal = learned(case.build(), stream)
    before = cal.state_dict()
    idle = [o._replace(w=0.0, t=o.t + 100.0, y="new") for o in idle]
    learned(cal, idle)
    learn_arrays(cal, idle)
    if cal.unlearns:
        for observation in idle:
            cal.unlearn_one(*observation)
    assert cal.state_dict() == before


@each([case for case in ALL if case.policy is None])
def test_a_sequential_observation_of_weight_two_is_one_step(case):
    cal, twice = case.build(), case.build()
    cal.learn_one({"a": 0.25, "b": 0.75}, "a", 2.0)
    twice.learn_many([[0.25, 0.75]] * 2, ["a", "a"], labels=["a", "b"])
    assert cal.state_dict() != twice.state_dict()


# -- merging -----------------------------------------------------------------------------------------------------------


@each(ADDING_CASES)
@given(one=streams(), two=streams(), three=streams(max_size=4))
def test_merging_is_concatenation(case, one, two, three):
    left, right, third = (learned(case.build(), part) for part in (one, two, three))
    before = right.state_dict()
    right_first = case.build()
    right_first.merge(third)
    right_first.merge(right)
    right_first.merge(left)
    left.merge(right)
    assert right.state_dict() == before
    right.learn_one({"a": 0.5, "b": 0.5}, "b", 3.0, 8 * HALF_LIFE)  # and shares nothing with what it was merged into
    left.merge(third)
    whole = learned(case.build(), one + two + three)
    assert_same(left, whole, case.within)
    assert_same(right_first, whole, case.within)
    assert left.tally()["missed"] == 0


@each(ALL)
def test_merging_is_refused_where_the_table_says_so(case):
    cal = learned(case.build(), GOOD)
    strangers = [build(Forever()) for build, _ in VARIANTS.values()] + [build(None) for build, _ in SEQUENTIAL.values()]
    strangers = [other for other in strangers if not cal.same_parameters(other)]
    strangers += [cal, 3] if cal.merges else [learned(case.build(), GOOD)]
    before = cal.state_dict()
    for other in strangers:
        with pytest.raises(MergeError):
            cal.merge(other)
        assert cal.state_dict() == before


# -- unlearning --------------------------------------------------------------------------------------------------------


@each(UNLEARNING_CASES)
@given(data=st.data(), kept=streams(max_size=3), extra=streams(max_size=3), end=exact_times)
def test_learning_then_unlearning_is_nothing(case, data, kept, extra, end):
    """Also late, out of order, and interleaved with what stays; at most six, the size of the window by count."""
    clock = max([end, *(o.t for o in kept + extra)])
    kept = [*kept, Observation({"a": 0.5, "b": 0.5}, 3, 1.0, clock)][-3:]
    cal = learned(case.build(), data.draw(st.permutations(kept + extra)))
    for observation in data.draw(st.permutations(extra)):
        cal.unlearn_one(*observation)
    assert_same(cal, learned(case.build(), kept), case.within)


@each(UNLEARNING_CASES)
@given(data=st.data(), stream=streams(max_size=6))
def test_unlearning_everything_leaves_no_ghost(case, data, stream):
    cal = case.build()
    if case.policy == "time-window":
        stream = [o._replace(t=0.0) for o in stream]
    stream = [o._replace(w=o.w / 10) for o in stream]
    learned(cal, stream)
    for observation in data.draw(st.permutations(stream)):
        cal.unlearn_one(*observation)
    assert cal.n == 0.0
    assert_same(cal, case.build(), 0.0)


@each([case for case in ALL if case not in UNLEARNING_CASES])
def test_unlearning_is_refused_where_the_table_says_so(case):
    cal = learned(case.build(), GOOD)
    before = cal.state_dict()
    with pytest.raises(CapabilityError):
        cal.unlearn_one(*GOOD[0])
    assert cal.state_dict() == before


@each(UNLEARNING_CASES)
@given(data=st.data(), stream=streams(min_size=1, max_size=14))
def test_what_a_policy_holds_after_retractions_is_a_fresh_fit_of_it(case, data, stream):
    """Whole observations are taken back and dropped, whatever answers they share with others."""
    cal, model, missed = case.build(), Model(case.policy), 0
    for k, observation in enumerate(stream):
        cal.learn_one(*observation)
        model.learn(observation)
        if data.draw(st.booleans()):
            choice = data.draw(st.sampled_from(stream[: k + 1]))
            if model.unlearn(choice):
                cal.unlearn_one(*choice)
            elif case.policy == "window":
                cal.unlearn_one(*choice)
                missed += 1
    assert cal.tally()["missed"] == missed
    assert_same(cal, learned(forever(cal), model.held()), case.within)


@pytest.mark.parametrize("variant", [name for name in VARIANTS if "vs" in name or "ov" in name])
def test_a_window_retracts_whole_observations(variant):
    """Two give the same answer about "a" against "b", but not about "c": the older one goes, and the newer one stays as
    long as it would have."""
    build = VARIANTS[variant].build
    older = Observation({"a": 0.25, "b": 0.75}, "a")
    newer = [
        Observation({"a": 0.25, "b": 0.75, "c": 0.5}, "a"),
        Observation({"a": 0.5, "b": 0.125, "c": 0.25}, "c"),
        Observation({"a": 0.75, "b": 0.25, "c": 0.125}, "b"),
    ]
    between = Observation({"a": 0.5, "b": 0.25, "c": 0.25}, "b")
    cal = learned(build(Window(3)), [older, between, newer[0]])
    cal.unlearn_one(*older)
    learned(cal, newer[1:])
    assert cal.n == 3.0
    assert_same(cal, learned(build(Forever()), newer), EXACT)
    assert_same(through_json(cal), cal, 0.0)


@each(UNLEARNING_CASES)
def test_what_was_never_learned_cannot_be_unlearned(case):
    """Other scores, another label, weight or time; and observations of which a part was learned."""
    stream = [
        Observation({"a": 0.25, "b": 0.75}, "a", 2.0, 0.0),
        Observation({"a": 0.25, 3: 0.75}, 3, 2.0, 0.0),
        Observation({"a": 0.5, "b": 0.5}, "b", 1.0, 0.0),
    ]
    cal = learned(case.build(), stream)
    strangers = [
        stream[0]._replace(scores={"a": 0.125, "b": 0.875}),
        stream[0]._replace(y="b"),
        stream[0]._replace(y="never"),
        stream[0]._replace(w=0.5),
        Observation({"a": 0.25, "b": 0.5, 3: 0.25}, "a", 2.0, 0.0),
    ]
    strangers += [stream[0]._replace(t=-HALF_LIFE)] if case.policy in TIMED else []
    for stranger in strangers:
        before, missed = cal.state_dict(), cal.tally()["missed"]
        if case.policy == "window":
            cal.unlearn_one(*stranger)
            assert cal.tally()["missed"] == missed + 1
        else:
            with pytest.raises(RetractionError):
                cal.unlearn_one(*stranger)
            assert cal.state_dict() == before


@each([case for case in UNLEARNING_CASES if "window" in case.policy])
def test_what_a_window_dropped_is_counted_as_missed(case):
    stream = [Observation({"a": k / 16, "b": 1 - k / 16}, "ab"[k % 2], 1.0, 4.0 * k) for k in range(12)]
    cal = learned(case.build(), stream)
    cal.unlearn_one(*stream[0])
    assert cal.tally()["missed"] == 1
    assert_same(cal, learned(case.build(), stream), case.within)


# -- predicting --------------------------------------------------------------------------------------------------------


@each(ALL)
@given(stream=streams(max_size=14))
def test_predictions_are_probabilities_that_sum_to_one(case, stream):
    cal = learned(case.build(), stream)
    p = cal.predict_many(PROBES, labels=LABELS)
    assert p.shape == PROBES.shape
    assert ((p >= 0.0) & (p <= 1.0)).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    for scores in [*OTHERS, *(o.scores for o in stream)]:
        found = cal.predict_one(scores)
        assert list(found) == list(scores)
        assert all(type(q) is float and 0.0 <= q <= 1.0 for q in found.values())
        assert math.fsum(found.values()) == pytest.approx(1.0, abs=1e-12)


@each(ALL)
@given(stream=streams(max_size=14))
def test_one_many_and_map_predict_the_same(case, stream):
    cal = learned(case.build(), stream)
    many, found = cal.predict_many(PROBES, labels=LABELS), cal.map()
    named = [dict(zip(LABELS, row, strict=True)) for row in PROBES.tolist()]
    np.testing.assert_allclose([list(cal.predict_one(one).values()) for one in named], many, rtol=0, atol=EXACT)
    np.testing.assert_allclose([list(found(one).values()) for one in named], many, rtol=0, atol=EXACT)
    np.testing.assert_allclose(found.predict_many(PROBES, labels=LABELS), many, rtol=0, atol=EXACT)
    turned = found.predict_many(PROBES[:, ::-1], labels=LABELS[::-1])
    assert turned[:, ::-1].tolist() == found.predict_many(PROBES, labels=LABELS).tolist()
    for one in OTHERS:
        np.testing.assert_allclose(list(found(one).values()), list(cal.predict_one(one).values()), rtol=0, atol=EXACT)


@each(ALL)
@given(stream=streams(), later=streams(min_size=1), ahead=st.integers(-2, 40).map(lambda k: k * HALF_LIFE))
def test_predicting_changes_nothing_and_a_map_does_not_change(case, stream, later, ahead):
    cal = learned(case.build(), stream)
    before, said, snapshot = cal.state_dict(), answers(cal), cal.map()
    then = snapshot.predict_many(PROBES, labels=LABELS).tolist()
    for t in (ahead, None):
        answers(cal, t)
        _ = cal.map(), cal.n, cal.tally(), repr(cal), cal.params(), cal.clone(), cal.bounded_memory
    assert cal.state_dict() == before
    np.testing.assert_allclose(answers(cal), said, rtol=0, atol=case.within)
    learned(cal, later)
    assert snapshot.predict_many(PROBES, labels=LABELS).tolist() == then


@each([case for case in ADDITIVE_CASES if case.policy in TIMED])
@given(stream=full_streams(min_size=1), ahead=st.integers(0, 20))
def test_a_prediction_as_of_a_time_is_what_a_policy_holds_then(case, stream, ahead):
    cal = learned(case.build(), stream)
    model = Model(case.policy, stream)
    t = model.clock + (ahead - 2) * HALF_LIFE
    model.clock = max(model.clock, t)
    model._let_go()
    expected = learned(forever(cal), model.held()).predict_many(PROBES, labels=LABELS)
    np.testing.assert_allclose(cal.predict_many(PROBES, t, labels=LABELS), expected, rtol=0, atol=case.within)


@each(ALL)
def test_before_anything_is_learned_the_scores_are_predicted(case):
    cal = case.build()
    assert cal.n == 0.0
    scores = {"a": 0.25, "b": 0.75, "c": 0.0}
    assert cal.predict_one(scores) == pytest.approx(scores, abs=EXACT)
    np.testing.assert_allclose(cal.predict_many(PROBES, labels=LABELS), PROBES, rtol=0, atol=EXACT)
    assert cal.map()({1: 0.75, 2.5: 0.25}) == {True: 0.75, 2.5: 0.25}  # 1 and True are one key of a dict
    learned(cal, [Observation({"a": 0.25, "b": 0.75}, "a")] * 3)
    assert cal.predict_one({"new": 0.25, "newer": 0.75}) == pytest.approx({"new": 0.25, "newer": 0.75}) or isinstance(
        cal, TemperatureScaling
    )


# -- copies and state --------------------------------------------------------------------------------------------------

COPIES = {
    "json": through_json,
    "pickle": lambda cal: pickle.loads(pickle.dumps(cal)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@each(ALL)
@given(way=st.sampled_from(sorted(COPIES)), stream=streams(), later=streams())
def test_a_copy_goes_on_as_if_it_had_never_stopped(case, way, stream, later):
    cal = learned(case.build(), stream)
    twin = COPIES[way](cal)
    assert type(twin) is type(cal)
    assert twin.same_parameters(cal)
    assert twin.state_dict() == cal.state_dict()
    assert twin.tally() == cal.tally()
    assert_same(twin, cal, case.within)
    state = cal.state_dict()
    learned(twin, later)
    assert cal.state_dict() == state, "learning on the copy has moved the original"
    assert_same(twin, learned(cal, later), case.within)


@each(ALL)
def test_labels_keep_their_types(case):
    cal = case.build()
    labels = ["1", 2, 2.5, True, "true"]
    cal.learn_many([[0.2] * 5] * 5, labels, None, [0.0] * 5, labels=labels)
    text = json.dumps(cal.state_dict(), allow_nan=False)
    twin = type(cal).from_state(json.loads(text))
    assert json.dumps(twin.state_dict()) == text
    probe = dict.fromkeys(labels, 0.2)
    assert twin.predict_one(probe) == pytest.approx(cal.predict_one(probe), abs=case.within)


@each(ALL)
def test_a_clone_holds_nothing_and_has_equal_parameters(case):
    cal = case.build()
    fresh = cal.state_dict()
    learned(cal, GOOD)
    clone = cal.clone()
    assert clone.same_parameters(cal)
    assert clone.state_dict() == fresh
    assert repr(clone) == repr(cal)
    assert repr(cal).startswith(f"{type(cal).__name__}(")
    before = cal.state_dict()
    learned(clone, GOOD)
    assert cal.state_dict() == before


@each(ALL)
def test_a_damaged_state_is_refused(case):
    cal = learned(case.build(), GOOD)
    state = cal.state_dict()
    wrong = [{**state, "streamcal": 999}, {**state, "class": "Stranger"}, {**state, "learned": None}, None, []]
    for name in state["learned"]:
        wrong.append({**state, "learned": {key: value for key, value in state["learned"].items() if key != name}})
    for one in wrong:
        with pytest.raises(StateError):
            type(cal).from_state(one)


# -- bad calls ---------------------------------------------------------------------------------------------------------

GOOD = [
    Observation({"a": 0.25, "b": 0.75}, "a", 1.0, 0.0),
    Observation({"a": 0.5, "b": 0.25, 3: 0.25}, 3, 2.0, 4.0),
    Observation({"a": 0.125, "b": 0.875}, "b", 1.0, 8.0),
]
BAD_SCORES = [
    {"a": 1.5, "b": 0.5},
    {"a": -0.25, "b": 1.25},
    {"a": math.nan, "b": 0.5},
    {"a": math.inf, "b": 0.5},
    {"a": "0.5", "b": 0.5},
    {"a": None, "b": 0.5},
    {math.nan: 0.5, "b": 0.5},
    {None: 0.5, "b": 0.5},
    {("a", "b"): 0.5, "b": 0.5},
    {},
    [0.5, 0.5],
    None,
    0.5,
]
BAD_LABELS = [None, math.nan, math.inf, ["a"], b"a", object()]


@each(ALL)
def test_bad_values_are_refused_and_leave_the_state(case):
    cal = learned(case.build(), GOOD)
    before = cal.state_dict()
    good = GOOD[1]
    bad = [good._replace(scores=scores) for scores in BAD_SCORES]
    bad += [good._replace(y=y) for y in BAD_LABELS]
    bad += [good._replace(w=w) for w in (-1.0, 1e-61, 1e61, math.nan, "1", None)]
    bad += [good._replace(t=t) for t in (math.nan, math.inf, "now")] if case.policy is not None else []
    if cal.sums_to_one:
        bad.append(good._replace(scores={"a": 0.5, "b": 0.25}))
    for one in bad:
        for verb in (cal.learn_one, cal.unlearn_one) if cal.unlearns else (cal.learn_one,):
            with pytest.raises(InputError):
                verb(*one)
        assert cal.state_dict() == before, one
    for scores in BAD_SCORES:
        with pytest.raises(InputError):
            cal.predict_one(scores)
        with pytest.raises(InputError):
            cal.map()(scores)


@each(ALL)
def test_arrays_that_do_not_fit_are_refused(case):
    cal = learned(case.build(), GOOD)
    before, P, t = cal.state_dict(), [[0.5, 0.5], [0.25, 0.75]], [8.0, 8.0]
    ab = ["a", "b"]
    calls = [
        lambda: cal.learn_many(P, ["a"], None, t, labels=ab),
        lambda: cal.learn_many(P, ["a", None], None, t, labels=ab),
        lambda: cal.learn_many(P, "ab", None, t, labels=ab),
        lambda: cal.learn_many(P, 3, None, t, labels=ab),
        lambda: cal.learn_many(P, np.array("a"), None, t, labels=ab),
        lambda: cal.learn_many(P, [["a"], ["b", "a"]], None, t, labels=ab),
        lambda: cal.learn_many(P, np.array([["a"], ["b"]]), None, t, labels=ab),
        lambda: cal.learn_many(P, ["a", "b"], [1.0], t, labels=ab),
        lambda: cal.learn_many(P, ["a", "b"], [1.0, -1.0], t, labels=ab),
        lambda: cal.learn_many(P, ["a", "b"], None, t, labels=["a"]),
        lambda: cal.learn_many(P, ["a", "b"], None, t, labels=["a", "a"]),
        lambda: cal.learn_many(P, ["a", "b"], None, t, labels="ab"),
        lambda: cal.learn_many(P, ["a", "b"], None, t, labels=[]),
        lambda: cal.learn_many([[0.5, 1.5], [0.25, 0.75]], ["a", "b"], None, t, labels=ab),
        lambda: cal.learn_many([[0.5, math.nan], [0.25, 0.75]], ["a", "b"], None, t, labels=ab),
        lambda: cal.learn_many([0.5, 0.5], ["a", "b"], None, t, labels=ab),
        lambda: cal.predict_many([[0.5, -0.5]], labels=ab),
        lambda: cal.predict_many([0.5, 0.5], labels=ab),
    ]
    calls += [lambda: cal.learn_many(P, ["a", "b"], None, [8.0], labels=ab)] if case.policy is not None else []
    calls += [lambda: cal.predict_many([[0.5, 0.25]], labels=ab)] if cal.sums_to_one else []
    for call in calls:
        with pytest.raises(InputError):
            call()
        assert cal.state_dict() == before


@each([case for case in ADDITIVE_CASES if case.policy in TIMED])
def test_by_time_a_missing_time_is_refused(case):
    cal = learned(case.build(), GOOD)
    before = cal.state_dict()
    for call in (
        lambda: cal.learn_one({"a": 1.0}, "new"),
        lambda: cal.learn_many([[1.0]], ["new"], labels=["a"]),
        lambda: cal.unlearn_one(*GOOD[0][:3]),
    ):
        with pytest.raises(InputError, match="time t"):
            call()
        assert cal.state_dict() == before


@each(ALL)
def test_nothing_is_learned_from_empty_arrays(case):
    cal = learned(case.build(), GOOD)
    before = cal.state_dict()
    cal.learn_many(np.empty((0, 2)), [], [], [], labels=["a", "b"])
    assert cal.state_dict() == before
    assert cal.predict_many(np.empty((0, 2)), labels=["a", "b"]).shape == (0, 2)


@each(ALL)
def test_what_a_method_says_it_can_do_is_what_the_table_says(case):
    cal = case.build()
    assert cal.merges == (case in ADDING_CASES)
    assert cal.unlearns == (case in UNLEARNING_CASES)
    assert cal.has_interval == hasattr(cal, "predict_interval_one")
    on_grids = case.variant == "one-vs-rest temperature"
    assert cal.bounded_memory == (case.policy in ("window", None) or on_grids)


# -- hard streams ------------------------------------------------------------------------------------------------------

HARD = {
    "one label": [Observation({"a": 1.0}, "a")] * 5,
    "certain and wrong": [Observation({"a": 1.0, "b": 0.0}, "b")] * 5,
    "certain and right": [Observation({"a": 1.0, "b": 0.0, "c": 0.0}, "a")] * 20,
    "separated": [Observation({k: 0.8 if k == j else 0.1 for k in range(3)}, j) for j in range(3)] * 10,
    "reversed": [Observation({k: 0.8 if k == j else 0.1 for k in range(3)}, (j + 1) % 3) for j in range(3)] * 10,
    "tiny scores": [Observation({"a": 5e-324, "b": 1e-300, "c": 1.0}, "abc"[k % 3]) for k in range(9)],
    "huge weights": [Observation({"a": k / 16, "b": 1 - k / 16}, "ab"[k % 2], 1e60) for k in range(8)],
    "tiny weights": [Observation({"a": k / 16, "b": 1 - k / 16}, "ab"[k % 2], 1e-60) for k in range(8)],
    "huge and tiny weights": [
        Observation({"a": k / 16, "b": 1 - k / 16}, "ab"[k % 2], 10.0 ** (15 * (k % 9) - 60)) for k in range(16)
    ],
    "a label each": [Observation({j: 1 / (k + 1) for j in range(k + 1)}, k) for k in range(7)],
    "all come unannounced": [Observation({"a": 1.0}, k) for k in range(7)],
}


@each([case for case in ALL if case.policy in ("forever", "time-window", None)])
@pytest.mark.parametrize("kind", HARD)
def test_hard_streams(case, kind):
    cal = case.build()
    for observation in HARD[kind]:
        cal.learn_one(*observation)
        p = cal.predict_one(observation.scores)
        assert all(0.0 <= q <= 1.0 for q in p.values())
        assert math.fsum(p.values()) == pytest.approx(1.0, abs=1e-12)
    assert cal.n > 0.0
    if case.policy in ("forever", "time-window"):
        assert cal.n == pytest.approx(math.fsum(o.w for o in HARD[kind]), rel=1e-12)
        if "weights" not in kind:
            for observation in HARD[kind]:
                cal.unlearn_one(*observation)
            assert_same(cal, case.build(), 0.0)


@pytest.mark.parametrize("method", [TemperatureScaling, VectorScaling, Dirichlet])
def test_a_map_refreshed_at_intervals_is_that_of_the_last_one(method):
    rng = np.random.default_rng(0)
    P, y = rng.dirichlet([1.0, 1.0, 1.0], 25), rng.integers(0, 3, 25)
    lagging, exact = method(refresh_every=8), method()
    lagging.learn_many(P, y, labels=[0, 1, 2])
    exact.learn_many(P[:24], y[:24], labels=[0, 1, 2])
    for cal in (lagging, through_json(lagging)):
        np.testing.assert_allclose(
            cal.predict_many(P, labels=[0, 1, 2]), exact.predict_many(P, labels=[0, 1, 2]), rtol=0, atol=SOLVED
        )


# -- parameters --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "build",
    [
        lambda: OneVsRest("stranger"),
        lambda: OneVsRest(3),
        lambda: MulticlassVennAbers("ovx"),
        lambda: MulticlassVennAbers(point="middle"),
        lambda: VectorScaling(prior=-1.0),
        lambda: VectorScaling(prior=math.inf),
        lambda: VectorScaling(refresh_every=0),
        lambda: TemperatureScaling(forgetting="Forever"),
        lambda: Dirichlet(off_diagonal=-1.0),
        lambda: Dirichlet(intercept=True),
        lambda: OnlineVectorScaling(discount=0.0),
    ],
)
def test_parameters_that_are_not_possible_are_refused(build):
    with pytest.raises(InputError):
        build()


def test_one_vs_rest_takes_any_binary_method():
    """With its folds, its prior and its forgetting; the calibrator given is not changed."""
    given = CrossVennAbers(folds=2, forgetting=Window(50))
    cal = OneVsRest(given)
    cal.learn_many([[0.2, 0.8], [0.6, 0.4], [0.7, 0.3]], ["a", "b", "a"], labels=["a", "b"])
    assert given.n == 0.0
    assert cal.n == 3.0
    for inner in (Beta(forgetting=Decay(10.0)), OnlinePlatt(discount=0.9)):
        twin = through_json(learned(OneVsRest(inner), GOOD))
        assert repr(twin) == repr(OneVsRest(inner))
    assert repr(through_json(OneVsRest("platt"))) == "OneVsRest(calibrator='platt')"


@pytest.mark.parametrize("half_life", [1.0, 16.0])
def test_a_prior_is_as_old_as_the_stream(half_life):
    """That of a label which comes late too: as if all questions had been there from the beginning."""
    strength, stream = 3.0, [Observation({"a": k % 17 / 16, "b": 1 - k % 17 / 16}, "ab"[k % 2]) for k in range(40)]
    stream += [Observation({"a": 0.5, "late": 0.5}, "late"), Observation({"late": 0.25, "a": 0.75}, "a")]
    cal = learned(OneVsRest(Isotonic(forgetting=Decay(half_life), prior=Prior(strength))), stream)
    cal = through_json(cal)
    shares, weights = {}, [2.0 ** (-(len(stream) - k) / half_life) for k in range(1, len(stream) + 1)]
    for label in ("a", "b", "late"):
        binary = Isotonic(prior=Prior(strength * 2.0 ** (-len(stream) / half_life)))
        for o, w in zip(stream, weights, strict=True):
            if label in o.scores:
                binary.learn_one(o.scores[label], o.y == label, w)
        shares[label] = [binary.predict_one(score) for score in (0.125, 0.25, 0.5)]
    for at, score in enumerate((0.125, 0.25, 0.5)):
        named = [column[at] for column in shares.values()]
        found = list(cal.predict_one(dict.fromkeys(shares, score)).values())
        np.testing.assert_allclose(found, np.array(named) / sum(named), rtol=0, atol=SOLVED)
    assert cal.n == pytest.approx(math.fsum(weights), rel=EXACT)


def test_a_prior_that_is_forgotten_does_not_come_back():
    """At a half-life of 1/2048 of an observation nothing is left of what was before the last one."""
    stream = [Observation({"a": 0.25, "b": 0.75}, "a"), Observation({"a": 0.5, "late": 0.5}, "late")]
    cal = learned(OneVsRest(Isotonic(forgetting=Decay(2.0**-11), prior=Prior(3.0))), stream)
    assert_same(cal, learned(OneVsRest(Isotonic()), stream[1:]), 0.0)


def test_a_prior_is_there_once_in_windows_and_merges():
    build = VARIANTS["one-vs-rest isotonic"].build
    stream = [Observation({"a": k / 16, "b": 1 - k / 16}, "ab"[k % 2], 0.1) for k in range(16)]
    with_prior = Isotonic(prior=Prior(2.0))
    window = learned(OneVsRest(Isotonic(forgetting=Window(5), prior=Prior(2.0))), stream)
    assert_same(window, learned(OneVsRest(with_prior), stream[-5:]), EXACT)
    left, right = learned(OneVsRest(with_prior), stream[:6]), learned(OneVsRest(with_prior), stream[6:])
    left.merge(right)
    whole = learned(OneVsRest(with_prior), stream)
    assert_same(left, whole, EXACT)
    for observation in stream:
        left.unlearn_one(*observation)
    assert_same(left, OneVsRest(with_prior), 0.0)
    assert answers(whole) != answers(learned(build(Forever()), stream))


def test_a_label_that_has_left_the_window_costs_nothing():
    cal = OneVsRest(Isotonic(forgetting=Window(4)))
    for k in range(100):
        cal.learn_one({k: 0.5, "a": 0.5}, k)
        assert cal.predict_one({k - 4: 0.25, "new": 0.75}) == {k - 4: 0.25, "new": 0.75}
    assert len(cal._memory.statistic.parts) == 5


def test_what_a_window_has_dropped_is_not_taken_from_another_observation():
    """Which gave the same score to the label that came."""
    cal = OneVsRest(Isotonic(forgetting=Window(3)))
    dropped = ({"a": 0.25, "b": 0.75}, "a")
    for scores, y in (dropped, ({"a": 0.25, "b": 0.5, "c": 0.25}, "a"), *[({"a": 0.5, "b": 0.5}, "b")] * 2):
        cal.learn_one(scores, y)
    before = cal.predict_one(dropped[0])
    cal.unlearn_one(*dropped)
    assert cal.tally()["missed"] == 1
    assert cal.predict_one(dropped[0]) == before
