"""What the methods of several classes obey besides the laws of `test_laws.py`: labels, and binary subproblems."""

import json
import math

import numpy as np
import pytest
from laws import EVERYWHERE, ROUNDED, Observation, each, held, law, learned, size_of, through_json
from laws.multiclass import CASES, GOOD, LABELS, OTHERS, PROBES, SOLVED, VARIANTS

from streamcal import (
    Beta,
    CrossVennAbers,
    Decay,
    Forever,
    InputError,
    Isotonic,
    OnlinePlatt,
    Prior,
    RetractionError,
    Window,
)
from streamcal.multiclass import (
    Dirichlet,
    MulticlassVennAbers,
    OneVsRest,
    OnlineVectorScaling,
    TemperatureScaling,
    VectorScaling,
)
from streamcal.multiclass.softmax import SoftmaxScaling

assert_same = CASES[0].assert_same


@pytest.mark.parametrize("variant", [name for name in VARIANTS if "vs" in name or "ov" in name])
def test_a_window_retracts_whole_observations(variant):
    """Learn two observations that give the same answer about "a" against "b", but not about "c".

    The older one leaves the window, and the newer one stays as long as it would have.
    """
    build = VARIANTS[variant]
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
    assert_same(cal, learned(build(Forever()), newer), ROUNDED)
    assert_same(through_json(cal), cal, 0.0)


@each(CASES)
def test_before_anything_is_learned_the_scores_are_predicted(case):
    cal = case.build()
    assert cal.n == 0.0
    scores = {"a": 0.25, "b": 0.75, "c": 0.0}
    assert cal.predict_one(scores) == pytest.approx(scores, abs=ROUNDED)
    np.testing.assert_allclose(cal.predict_many(PROBES, labels=LABELS), PROBES, rtol=0, atol=ROUNDED)
    assert cal.map()({1: 0.75, 2.5: 0.25}) == {True: 0.75, 2.5: 0.25}  # 1 and True are one key of a dict
    learned(cal, [Observation({"a": 0.25, "b": 0.75}, "a")] * 3)
    assert cal.predict_one({"new": 0.25, "newer": 0.75}) == pytest.approx({"new": 0.25, "newer": 0.75}) or isinstance(
        cal, TemperatureScaling
    )


@law(CASES)
def test_a_map_says_the_same_of_other_labels(case, draw):
    cal = draw(case.calibrators())
    learned(cal, draw(case.streams(cal)))
    for scores in OTHERS:
        assert cal.map()(scores) == pytest.approx(cal.predict_one(scores), abs=ROUNDED)


@each(CASES)
def test_labels_keep_their_types(case):
    cal = case.build()
    labels = ["1", 2, 2.5, True, "true"]
    cal.learn_many([[0.2] * 5] * 5, labels, None, [0.0] * 5, labels=labels)
    text = json.dumps(cal.state_dict(), allow_nan=False)
    twin = type(cal).from_state(json.loads(text))
    assert json.dumps(twin.state_dict()) == text
    probe = dict.fromkeys(labels, 0.2)
    assert twin.predict_one(probe) == pytest.approx(cal.predict_one(probe), abs=case.within(cal))


@each(CASES, under=EVERYWHERE)
def test_memory_is_bounded_where_nothing_grows_with_the_stream(case):
    for made in (make() for make in case.makers):
        limited = isinstance(made, SoftmaxScaling) and case.policy in ("forever", "decay")
        bounded = limited or case.policy in ("window", None) or case.name == "one-vs-rest temperature"
        assert made.bounded_memory == bounded


@each((case for case in CASES if case.policy in ("forever", "time-window")), under=EVERYWHERE)
def test_nothing_is_left_of_a_hard_stream_that_was_taken_back(case):
    for kind, stream in case.hard.items():
        if "weights" not in kind:  # there the sums have lost what is taken back
            cal = learned(case.build(), stream)
            for observation in stream:
                cal.unlearn_one(*observation)
            case.assert_empty(cal)


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
            if label in o.x:
                binary.learn_one(o.x[label], o.y == label, w)
        shares[label] = [binary.predict_one(score) for score in (0.125, 0.25, 0.5)]
    for at, score in enumerate((0.125, 0.25, 0.5)):
        named = [column[at] for column in shares.values()]
        found = list(cal.predict_one(dict.fromkeys(shares, score)).values())
        np.testing.assert_allclose(found, np.array(named) / sum(named), rtol=0, atol=SOLVED)
    assert cal.n == pytest.approx(math.fsum(weights), rel=ROUNDED)


def test_a_prior_that_is_forgotten_does_not_come_back():
    """At a half-life of 1/2048 of an observation nothing is left of what was before the last one."""
    stream = [Observation({"a": 0.25, "b": 0.75}, "a"), Observation({"a": 0.5, "late": 0.5}, "late")]
    cal = learned(OneVsRest(Isotonic(forgetting=Decay(2.0**-11), prior=Prior(3.0))), stream)
    assert_same(cal, learned(OneVsRest(Isotonic()), stream[1:]), 0.0)


def test_a_prior_is_there_once_in_windows_and_merges():
    build = VARIANTS["one-vs-rest isotonic"]
    stream = [Observation({"a": k / 16, "b": 1 - k / 16}, "ab"[k % 2], 0.1) for k in range(16)]
    with_prior = Isotonic(prior=Prior(2.0))
    window = learned(OneVsRest(Isotonic(forgetting=Window(5), prior=Prior(2.0))), stream)
    assert_same(window, learned(OneVsRest(with_prior), stream[-5:]), ROUNDED)
    left, right = learned(OneVsRest(with_prior), stream[:6]), learned(OneVsRest(with_prior), stream[6:])
    left.merge(right)
    whole = learned(OneVsRest(with_prior), stream)
    assert_same(left, whole, ROUNDED)
    for observation in stream:
        left.unlearn_one(*observation)
    assert_same(left, OneVsRest(with_prior), 0.0)
    assert left.state_dict()["learned"]["memory"]["statistic"]["parts"] == [], "only the prior is left in one"
    assert CASES[0].predictions(whole).tolist() != CASES[0].predictions(learned(build(Forever()), stream)).tolist()


def test_a_label_that_has_left_the_window_costs_nothing():
    cal = OneVsRest(Isotonic(forgetting=Window(4)))
    sizes = []
    for k in range(100):
        cal.learn_one({k: 0.5, "a": 0.5}, k)
        assert cal.predict_one({k - 4: 0.25, "new": 0.75}) == {k - 4: 0.25, "new": 0.75}
        sizes.append(size_of(cal.state_dict()))
    assert set(sizes[4:]) == {sizes[3]}


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


@pytest.mark.parametrize("method", [Isotonic(), CrossVennAbers(folds=2)], ids=repr)
def test_a_refused_retraction_leaves_every_subproblem_as_it_was(method):
    """Of label a such an observation is held, and of the others none: what was taken from a is given back."""
    cal = OneVsRest(method)
    for scores, y in (
        ({"a": 0.5, "b": 0.5}, "a"),
        ({"a": 0.5, "b": 0.25, "c": 0.25}, "a"),
        ({"b": 0.75, "c": 0.25}, "b"),
    ):
        cal.learn_one(scores, y)
    before = held(cal)
    with pytest.raises(RetractionError):
        cal.unlearn_one({"a": 0.5, "b": 0.375, "c": 0.125}, "a")
    assert held(cal) == before  # sums of whole weights at binary fractions are exact


def test_a_state_holds_a_row_without_a_weight():
    """Beside a weight of 1e60 the others are rounded away, and what is left of them is a number of observations."""
    cal, scores = TemperatureScaling(), {"a": 0.25, "b": 0.75}
    for w in (1.0, 1e60, 1.0):
        cal.learn_one(scores, "b", w)
    cal.unlearn_one(scores, "b", 1e60)
    assert through_json(cal).predict_one(scores) == cal.predict_one(scores) == scores
