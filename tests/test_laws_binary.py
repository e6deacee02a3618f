"""What the methods of one score obey besides the laws of `test_laws.py`, and the parameters that only they have."""

import contextlib
import functools
import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import (
    EVERYWHERE,
    HALF_LIFE,
    LONGEST,
    ROUNDED,
    TIMED,
    Observation,
    assert_close,
    changed,
    each,
    held,
    law,
    learned,
    size_of,
    trying,
)
from laws.binary import (
    CASES,
    GOOD,
    OSQP_SOLVED,
    PROBES,
    READ_AS_PROBABILITIES,
    SOLVED,
    VALUES,
    is_sequential,
    keeps_scores,
    realistic,
    rough_observations,
    solved_exactly,
    tolerance,
    variants,
)
from weights_by_hand import WeightsByHand

from streamcal import (
    BBQ,
    REGISTRY,
    AdaptiveCalibration,
    Beta,
    Calibrator,
    CenteredIsotonic,
    Decay,
    Forever,
    HedgedOPS,
    HistogramBinning,
    InputError,
    Logit,
    MergeError,
    OnlinePlatt,
    Platt,
    Prior,
    Probability,
    RetractionError,
    SmoothIsotonic,
    Temperature,
    TrackingOPS,
    Window,
)
from streamcal.app.doctor import kernel_form
from streamcal.calibrators.newton import RADIUS
from streamcal.live import LabelJoin
from streamcal.live.versions import or_score

COMPILED = kernel_form() == "compiled"
ADDITIVE = [case for case in CASES if case.policy is not None]
ADDING = [case for case in CASES if case.adds]
UNLEARNING = [case for case in CASES if case.unlearns]
NEW = [case for case in CASES if case.policy in ("forever", None)]
#: Methods whose predictions lag with `refresh_every`: the others keep up.
REFRESHING = [
    case
    for case in ADDING
    if "refresh_every" in case.build().params() and case.make(refresh_every=8)._engine.refresh_every == 8
]

#: Gaussian maximises the likelihood of the scores given the labels, Temperature has no offset, and the intervals of ACP
#: overlap, so that an outcome may count more often than once, or less.
KEEPS_NO_SUM = {"identity", "gaussian", "temperature", "adaptive-calibration"}
#: Methods that treat the two labels, or low and high scores, differently by their definition: a bin has its lower end
#: and not its upper one, of two equally near scores `adaptive-calibration` takes one, a hash of a score is not that of
#: its mirror image, and the experts of `auto` include such methods.
ASYMMETRIC = {
    "histogram-binning",
    "bbq",
    "adaptive-calibration",
    "cross-venn-abers",
    "tracking-ops",
    "hedged-ops",
    "auto",
}
#: How far a smooth map on its default grid may be from the exact fit: a grid of 4,096 cells moves log-odds by half a
#: cell, 1/256, and the logistic function rises by ¼ for each unit. Methods of the package come nearer.
GRID_LOSS, GRID_LOSS_HERE = 0.25 / 256.0, 1e-4


def test_a_class_without_a_constructor_has_one_variant():
    """So that a method which is being written does not keep the others from being tested."""

    class Unwritten(Calibrator):
        name = "unwritten"

    assert variants(Unwritten) == [{}]
    assert is_sequential(Unwritten)


def test_a_method_without_an_engine_says_what_it_holds():
    class Silent(Calibrator):
        predict_one = _predict_many = map = None

    for name in ("n", "bounded_memory"):
        with pytest.raises(NotImplementedError, match=f"a property `{name}` of its own"):
            getattr(Silent(), name)


# -- learning ------------------------------------------------------------------------------------------------------


@law(ADDING)
def test_order_does_not_matter_for_any_floats(case, draw):
    cal = draw(case.calibrators())
    stream = draw(case.rough_streams(cal, max_size=12))
    shuffled = learned(cal.clone(), draw(st.permutations(stream)))
    case.assert_same(learned(cal, stream), shuffled, within=max(tolerance(cal), 1e-9))


@law([case for case in ADDITIVE if "solver" in case.build().params()])
def test_another_solver_is_right_at_the_scores(case, draw):
    """OSQP leaves open what happens between them, so that the laws compare the exact solution on its sums."""
    cal = draw(case.calibrators(solver="osqp"))
    stream = draw(case.streams(cal, min_size=1))
    held = [o.x for o in case.model(cal, stream).held()]
    exact = solved_exactly(learned(cal, stream))
    assert_close(cal.predict_many(held), exact.predict_many(held), max(tolerance(cal), OSQP_SOLVED))


def is_symmetric(params):
    """Whether parameters do not distinguish the two ends: cells of a grid do, and monomials have their zero at one."""
    return params.get("resolution") is None and (params.get("bound") is None or params.get("basis") == "chebyshev")


@law([case for case in CASES if case.name not in ASYMMETRIC])
def test_the_mirror_image_gives_the_mirrored_answer(case, draw):
    """(1 − s, 1 − y) in place of (s, y) gives 1 − p(1 − s): what happens at once is not decided by an order."""
    exact = {"resolution": None} if "resolution" in case.build().params() else {}
    makers = [make for make in case.makers if isinstance(make().params().get("scale", Logit()), (Probability, Logit))]
    cal = changed(draw(st.sampled_from(makers))(), **exact)
    if not is_symmetric(cal.params()):
        return
    stream = draw(case.streams(cal, max_size=LONGEST))
    mirrored = [o._replace(x=1.0 - o.x, y=1 - o.y) for o in stream]
    one, other = (solved_exactly(learned(which, seen)) for which, seen in ((cal, stream), (cal.clone(), mirrored)))
    places = np.arange(65) / 64
    # Sums of labels become differences of sums, and iterations end elsewhere.
    within = max(tolerance(cal), SOLVED)
    assert_close(one.predict_many(places), 1.0 - other.predict_many(1.0 - places), within)


@each([case for case in ADDITIVE if case.policy in ("window", "decay")])
def test_by_count_two_observations_age_the_rest_twice(case):
    once, twice = case.build(), case.build()
    learned(once, [Observation(0.5, 1)] * 8 + [Observation(0.25, 0, 2.0)])
    learned(twice, [Observation(0.5, 1)] * 8 + [Observation(0.25, 0)] * 2)
    assert once.n > twice.n


@given(stream=st.lists(rough_observations, max_size=30), discount=st.sampled_from([1.0, 0.9]))
def test_online_platt_takes_newton_steps_whose_size_is_the_weight(stream, discount):
    """The definition, with a matrix inverted: A ← A + r g gᵀ, θ ← θ − r A⁻¹ g / γ, g = (p − y) z; before, A fades."""
    cal = OnlinePlatt(discount=discount)
    theta, curvature, weights = np.array([1.0, 0.0]), 100.0 * np.eye(2), WeightsByHand()
    for score, y, w, _ in stream:
        z = np.array([cal.scale.coordinate(score), 1.0])
        if w > 0.0:
            curvature = discount * curvature + (1.0 - discount) * 100.0 * np.eye(2)
            for r in weights.steps(w):
                gradient = (1.0 / (1.0 + np.exp(-theta @ z)) - y) * z
                curvature = curvature + r * np.outer(gradient, gradient)
                theta = theta - r * np.linalg.solve(curvature, gradient) / 0.1
        if np.linalg.norm(theta) > 99.0:
            break  # the projection has tests of its own
        cal.learn_one(score, y, w)
        found = cal.map()
        assert_close([found.slope, found.offset], theta, 1e-7)  # both solve a 2×2 system; A grows up to 1e8


@pytest.mark.parametrize("exponent", [*range(-60, 60, 5), 59])
def test_online_platt_stays_in_its_ball(exponent):
    """After one step of any size, and after many."""
    many = OnlinePlatt(discount=1.0)
    for k in range(36):
        once, score, w = (
            OnlinePlatt(discount=1.0),
            1.0 / (1.0 + math.exp(k % 7 - 3.0)),
            10.0 ** (exponent + 0.1 * (k % 9)),
        )
        for cal in (once, many):
            cal.learn_one(score, k % 3 == 0, w)
            assert math.hypot(cal.map().slope, cal.map().offset) <= RADIUS * (1.0 + ROUNDED)


@law([case for case in CASES if str(case) == "bernstein-forever"], under=EVERYWHERE)
def test_doubled_weights_give_the_same_bernstein_map(case, draw):
    cal = draw(case.calibrators(prior=None))
    stream = draw(case.rough_streams(cal))
    doubled = learned(cal.clone(), [o._replace(w=2.0 * o.w) for o in stream])
    assert doubled.predict_many(PROBES).tolist() == learned(cal, stream).predict_many(PROBES).tolist()


# -- unlearning ----------------------------------------------------------------------------------------------------


@each(UNLEARNING)
def test_a_tenth_and_two_tenths_leave_no_ghost(case):
    cal = case.build()
    for score, w in ((0.25, 0.1), (0.75, 1.0), (0.25, 0.2)):
        cal.learn_one(score, 1, w, 0.0)
    for w in (0.1, 0.2):
        cal.unlearn_one(0.25, 1, w, 0.0)
    case.assert_same(cal, learned(case.build(), [Observation(0.75, 1)]), within=max(tolerance(cal), ROUNDED))


def test_what_rounding_a_retraction_leaves_is_no_block_of_its_own():
    """1e-16 beside 0 was one, and drew the curve to 0."""
    cal = SmoothIsotonic()
    cal.learn_many([0.0, 1 / 3, 2 / 3, 1.0, 1.0], [0, 0, 1, 0, 1])
    expected = cal.predict_one(0.4)
    assert expected == pytest.approx(0.2154, abs=1e-4)
    for verb in (cal.learn_one, cal.unlearn_one):
        for w in (0.1, 0.2, 0.3):
            verb(1 / 3, 1, w)
    assert cal.predict_one(0.4) == expected


#: (how, seed): rounding moved a score to another bin, or made a block of its own.
DECIDED = {
    "smooth-isotonic": [("unlearn", 1442), ("window", 201)],
    "histogram-binning": [
        ("unlearn", 74),
        ("unlearn", 345),
        ("window", 935),
        ("window", 1429),
        ("order", 845),
        ("order", 1113),
    ],
    "bbq": [("unlearn", 313), ("unlearn", 423), ("order", 167)],
}


@pytest.mark.parametrize("name", DECIDED)
def test_the_rounding_of_sums_decides_nothing(name):
    """Weights in tenths, of which sums in different orders differ in the last bit."""
    for how, seed in DECIDED[name]:
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 40))
        s, y = rng.integers(0, 13, n) / 12, rng.integers(0, 2, n)
        w = rng.integers(1, 10, n) / 10 if seed % 2 else np.full(n, 0.1)
        params = {
            "resolution": None,
            **({"bins": int(rng.choice([2, 3, 5, 15]))} if name == "histogram-binning" else {}),
        }
        cal, other = REGISTRY[name](**params), REGISTRY[name](**params)
        if how == "unlearn":
            cal.learn_many(s, y, w)
            other.learn_many(s, y, w)
            more = [(rng.integers(0, 13) / 12, int(rng.integers(2)), rng.integers(1, 10) / 10) for _ in range(5)]
            learned(other, more)
            for k in rng.permutation(5):
                other.unlearn_one(*more[k])
        elif how == "window":
            other = learned(changed(other, forgetting=Window(8)), zip(s.tolist(), y.tolist(), w.tolist(), strict=True))
            cal.learn_many(s[-8:], y[-8:], w[-8:])
        else:
            order = rng.permutation(n)
            cal.learn_many(s, y, w)
            other.learn_many(s[order], y[order], w[order])
        places = np.arange(61) / 60
        assert_close(other.predict_many(places), cal.predict_many(places), ROUNDED)


@law(UNLEARNING)
def test_what_was_never_learned_cannot_be_unlearned(case, draw):
    """More than is held, another score and, of an observation alone at its score, another label, weight or time."""
    cal = draw(case.calibrators(prior=None))
    stream = draw(case.streams(cal, min_size=1, max_size=5))
    stream = [o._replace(x=min(o.x, 0.75)) for o in stream]  # away from the cells of the strangers
    learned(cal, stream)
    clock = max(o.t for o in stream)
    case.refuses_to_unlearn(cal, Observation(0.5, 1, cal.n + 1.0, clock))
    if "window" not in case.policy and not keeps_scores(cal):
        return  # its sums do not know the single observations
    case.refuses_to_unlearn(cal, Observation(0.875, 1, 1.0, clock))
    alone = Observation(0.96875, 1, 2.0, clock)
    cal.learn_one(*alone)
    for stranger in (alone._replace(y=0), alone._replace(w=1.0), alone._replace(w=4.0)):
        case.refuses_to_unlearn(cal, stranger)
    if case.policy in TIMED:
        case.refuses_to_unlearn(cal, alone._replace(t=clock - HALF_LIFE))
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


# -- predicting ----------------------------------------------------------------------------------------------------


@each(CASES)
def test_nobody_else_can_write_what_is_predicted(case):
    scores = np.array([0.25, 0.5])
    case.build().predict_many(scores)[:] = 7.0
    assert scores.tolist() == [0.25, 0.5]
    for name, value in vars(learned(case.build(), GOOD).map()).items():
        assert not isinstance(value, np.ndarray) or not value.flags.writeable, name


@each(CASES)
def test_before_anything_is_learned(case):
    """Predict the definition if there is one, the interval [0, 1] or the midpoint of a bin.

    Otherwise the prediction is the score on the probability scale.
    """
    for params in case.variants():
        if "prior" in params:
            continue
        cal = case.make(**params)
        assert cal.n == 0.0
        if cal.has_interval:
            assert cal.predict_interval_one(0.3) == (0.0, 1.0)
            assert 0.0 <= cal.predict_one(0.3) <= 1.0
        elif isinstance(cal, (TrackingOPS, HedgedOPS)):
            midpoints = [(math.floor(score * cal.bins) + 0.5) / cal.bins for score in (0.0625, 0.33, 0.93)]
            assert_close(cal.predict_many([0.0625, 0.33, 0.93]), midpoints, ROUNDED)
        else:
            expected = [cal.scale.probability(cal.scale.coordinate(score)) for score in (0.0625, 0.3, 0.9)]
            assert_close(cal.predict_many([0.0625, 0.3, 0.9]), expected, ROUNDED)


@each(CASES)
def test_minus_zero_is_zero(case):
    for params in case.variants():
        cal, twin = case.make(**params), case.make(**params)
        learned(cal, [Observation(-0.0, 1), Observation(0.0, 0), Observation(0.5, 1)])
        learned(twin, [Observation(0.0, 1), Observation(0.0, 0), Observation(0.5, 1)])
        case.assert_same(cal, twin)
        assert cal.predict_one(-0.0) == cal.predict_one(0.0)
        if case.unlearns:
            cal.unlearn_one(0.0, 1, 1.0, 0.0)
            cal.unlearn_one(-0.0, 0, 1.0, 0.0)
            assert cal.n == 1.0


@pytest.mark.sample(2)
@each(NEW, under=EVERYWHERE)
@pytest.mark.parametrize("shape", [(0.5, 100.0), (5.0, 995.0)], ids=["spread", "narrow"])
def test_half_a_percent_of_positives(case, shape):
    """In sum the predictions keep the base rate, and an identity stays one."""
    scores, y = realistic(seed=3, size=6_000, a=shape[0], b=shape[1])
    if is_sequential(case.method) and not COMPILED:  # minutes of one method, of which no sum is compared below
        scores, y = scores[:500], y[:500]
    for params in case.variants():
        cal = case.make(**params)
        cal.learn_many(scores, y)
        p = cal.predict_many(scores[:: cal.params().get("folds", 1)])  # K trees: as many questions as of one
        assert ((p >= 0.0) & (p <= 1.0)).all()
        keeps_sum = not (cal.has_interval or is_sequential(case.method)) and cal.name not in KEEPS_NO_SUM
        if keeps_sum and not params:
            # Least squares and likelihood keep the sum, but for Platt's targets and for Bernstein's bound at 0. The
            # last map of a sequential method is no fit of the whole stream.
            assert p.sum() == pytest.approx(y.sum(), rel=0.1)


@each((case for case in NEW if not case.method.monotone), under=EVERYWHERE)
def test_a_method_that_does_not_claim_to_be_monotone_is_not(case):
    cal = learned(case.build(), [Observation(score, y) for score, y in ((0.1, 1), (0.2, 1), (0.8, 0), (0.9, 0))] * 20)
    assert cal.predict_one(0.9) < cal.predict_one(0.1)


@pytest.mark.skipif(not COMPILED, reason="minutes, and what is held does not depend on the form of the kernels")
@each(CASES, under=("forever",))
def test_memory_is_bounded_where_claimed_and_grows_elsewhere(case):
    assert_bounded_or_growing(case, [{}])


@pytest.mark.full
@each(CASES)
def test_memory_is_bounded_in_every_variant(case):
    assert_bounded_or_growing(case, case.variants()[1:])


def assert_bounded_or_growing(case, variants):
    """Measured on the state. The scores reach every cell of every grid and fill every window."""
    first = np.concatenate((1.0 / (1.0 + np.exp(-np.linspace(-16.5, 16.5, 20_000))), np.linspace(0.0, 1.0, 40_000)))
    if is_sequential(case.method):
        first = first[::14]  # has no cells, and windows of no more than 4,096
    # A half-life of one observation would leave 60 of them, and most cells empty.
    policy = {"forgetting": Decay(1_000)} if case.policy == "decay" else {}
    for params in variants:
        cal = case.make(**params, **policy)
        if not cal.bounded_memory and case.policy != "forever":
            continue  # what forgets need not grow
        some = first if cal.bounded_memory else first[::16]
        sizes = []
        for scores in (some, 0.99 * some):
            cal.learn_many(scores, np.arange(len(scores)) % 2, None, np.zeros(len(scores)))
            sizes.append(size_of(held(cal)))
        if not cal.bounded_memory:
            assert sizes[0] < sizes[1], params
        elif case.policy in ("decay", "time-decay"):  # how many cells have faded varies
            full = case.method(**{**cal.params(), "forgetting": Forever()})
            full.learn_many(first, np.zeros(len(first)))
            assert sizes[1] <= size_of(held(full)) + 8, params
        else:
            assert sizes[0] == sizes[1], params


# -- late labels ---------------------------------------------------------------------------------------------------


@law(CASES)
def test_predictions_settled_in_the_order_of_issue_are_learned_as_by_a_join(case, draw):
    cal = draw(case.calibrators())
    join, issued = LabelJoin(cal.clone(), horizon=1000.0), []
    stream = draw(case.streams(cal))
    for k, o in enumerate(stream):
        issued.append(cal.issue(o.x, o.t, w=o.w))
        given = join.issue(k, o.x, o.t, w=o.w).p
        assert given == (issued[-1].p if cal.n else or_score(cal, issued[-1].p, o.x))
        if o.y:
            join.resolve(k, True, o.t)
            assert join.outcome(k).positive is True  # not of NumPy, uncompiled either
    join.advance(2000.0)
    for one, o in zip(issued, stream, strict=True):
        cal.settle(one, o.y)
    assert join.calibrator.state_dict() == cal.state_dict()


@each(CASES)
def test_a_calibrator_of_a_score_refuses_keys_by_name(case):
    cal, keys, t = case.build(), {"campaign": "a"}, [8.0, 9.0]
    cal.learn_one(0.5, True, 1.0, 7.0)
    before = cal.state_dict()
    calls = [
        lambda: cal.issue(0.5, 8.0, keys=keys),
        lambda: cal.predict_one(0.5, 8.0, keys=keys),
        lambda: cal.predict_many([0.5, 0.25], 8.0, keys=keys),
        lambda: cal.learn_one(0.5, True, 1.0, 8.0, keys=keys),
        lambda: cal.learn_many([0.5, 0.25], [0, 1], None, t, keys=keys),
        lambda: cal.predict_learn_many([0.5, 0.25], [0, 1], None, t, keys=keys),
        lambda: cal.unlearn_one(0.5, True, 1.0, 7.0, keys=keys),
    ]
    for call in calls:
        with pytest.raises(InputError, match=r"keys=.*campaign.*reads the score alone; leave them out, or give keys"):
            call()
    assert cal.state_dict() == before


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


@contextlib.contextmanager
def unchanged(cal):
    """Check that the calibrator is afterwards what it was, and predicts what it did."""
    before, predicted = held(cal), cal.predict_many(PROBES).tolist()
    yield
    assert held(cal) == before
    assert cal.predict_many(PROBES).tolist() == predicted


def assert_refused(value, call):
    """`InputError`, whose message says what came."""
    with pytest.raises(InputError) as error:
        call()
    message = str(error.value)
    said = {repr(value), repr(float(value))} if isinstance(value, float) else {repr(value)}
    if value == 10**400:
        said.add("inf")
    if isinstance(value, list):
        said.add("cannot be read as an array")
    assert any(word in message for word in said), f"{min(said, key=len)[:20]} is not named in: {message[:200]}"


@each(CASES)
def test_a_bad_value_is_named_and_leaves_the_state(case):
    verbs = ["learn_one", "learn_many", "predict_learn_many"] + ["unlearn_one"] * case.unlearns
    wrong = [what for what in BAD if what != "time" or case.policy is not None]  # sequential methods read no time
    cal = learned(case.build(), GOOD)
    for verb, what in itertools.product(verbs, wrong):
        with trying(f"{verb}, {what}"), unchanged(cal):
            for value in BAD[what]:
                if "many" in verb and isinstance(value, TEXT_OR_COMPLEX):
                    continue
                bad = list(GOOD[1])
                bad[PLACES[what]] = value
                if "many" in verb:  # in the middle
                    bad = [list(column) for column in zip(GOOD[0], bad, GOOD[2], strict=True)]
                assert_refused(value, lambda bad=bad, verb=verb: getattr(cal, verb)(*bad))


@each(CASES)
def test_a_bad_question_is_refused(case):
    cal = learned(case.build(), GOOD)
    found = cal.map()
    asked = {"score": [cal.predict_one, found]}
    in_bulk = {
        "score": [lambda value: cal.predict_many([0.5, value, 0.5]), lambda value: found.predict_many([0.5, value])]
    }
    if cal.has_interval:
        asked["score"].append(cal.predict_interval_one)
        asked["weight"] = [lambda value: cal.predict_interval_one(0.5, w=value)]
    if case.policy is not None:
        asked["time"] = [lambda value: cal.predict_one(0.5, value), lambda value: cal.predict_many([0.5], value)]
    for what, questions in asked.items():
        with trying(what), unchanged(cal):
            for value in BAD[what]:
                bulk = [] if isinstance(value, TEXT_OR_COMPLEX) else in_bulk.get(what, [])
                for question in [*questions, *bulk]:
                    assert_refused(value, functools.partial(question, value))


def test_methods_of_one_statistic_and_equal_parameters_do_not_merge():
    cal, other = (learned(method(resolution=64), [Observation(0.25, 1)]) for method in (Platt, Temperature))
    assert cal.params() == other.params()
    before = held(cal)
    with pytest.raises(MergeError):
        cal.merge(other)
    assert held(cal) == before


# -- refreshing at intervals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [Platt, Temperature, Beta, HistogramBinning, AdaptiveCalibration, CenteredIsotonic, SmoothIsotonic, BBQ],
)
def test_methods_that_keep_up_do_what_they_do_without_refresh_every(make):
    """Their kernels follow each observation at less than the cost of a refresh."""
    rng = np.random.default_rng(0)
    scores = rng.random(80)
    labels = rng.random(80) < scores
    at_once, refreshed = make(resolution=64), make(resolution=64, refresh_every=50)
    assert refreshed.params()["refresh_every"] == 50
    for score, label in zip(scores.tolist(), labels.tolist(), strict=True):
        assert refreshed.predict_one(0.3) == at_once.predict_one(0.3)
        at_once.learn_one(score, label)
        refreshed.learn_one(score, label)
    assert refreshed.streams == at_once.streams
    assert "since" not in refreshed.state_dict()["learned"]


@pytest.mark.parametrize("make", [Platt, Temperature, Beta, HistogramBinning, AdaptiveCalibration, BBQ])
def test_methods_that_keep_up_on_a_grid_lag_without_one(make):
    cal = make(resolution=None, refresh_every=50)
    cal.learn_many([0.2, 0.8] * 25, [0, 1] * 25)
    before = cal.predict_one(0.8)
    cal.learn_many([0.8] * 49, [0] * 49)
    assert cal.predict_one(0.8) == before
    cal.learn_one(0.8, 0)
    assert cal.predict_one(0.8) < before


@each(REFRESHING)
def test_retractions_and_merges_count_towards_a_refresh(case):
    stream = [Observation(k / 8, k > 3) for k in range(8)]
    cal, other = (learned(case.make(refresh_every=8), stream) for _ in range(2))
    before = cal.predict_many(PROBES).tolist()
    for observation in stream[:7]:
        cal.unlearn_one(*observation)
        assert cal.predict_many(PROBES).tolist() == before
    cal.unlearn_one(*stream[7])
    assert_close(cal.predict_many(PROBES), cal.clone().predict_many(PROBES), 0.0)
    cal.merge(other)
    assert_close(cal.predict_many(PROBES), before, tolerance(cal))  # solved again, from another start


@each(REFRESHING)
def test_a_merge_counts_what_was_learned_and_not_the_prior(case):
    """What goes beyond a refresh counts towards the next."""
    seeded = "prior" in case.build().params() and case.policy != "time-decay"
    for every, since in ((8, 3), (2, 1)):
        cal, other = (case.make(refresh_every=every, **({"prior": Prior(1.0)} if seeded else {})) for _ in range(2))
        for k in range(3):
            other.learn_one(k / 4, k % 2, 1.0, 0.0)
        cal.merge(other)
        assert cal.state_dict()["learned"]["since"] == since


@each(case for case in REFRESHING if case.policy == "time-window")
def test_what_was_predicted_does_not_change_what_a_merge_counts(case):
    cals = []
    for asked in (False, True):
        cal, other = (case.make(refresh_every=2) for _ in range(2))
        cal.learn_one(0.75, 1, 1.0, 0.0)
        other.learn_one(0.25, 0, 1.0, 0.0)
        if asked:
            other.predict_one(0.5, 1e6)
        cal.merge(other)
        cals.append(cal.state_dict()["learned"]["since"])
    assert cals == [0, 0]


# -- grids -------------------------------------------------------------------------------------------------------


ON_GRIDS = [case for case in NEW if {"resolution": 64} in case.variants()]


def on_a_grid(case, **params):
    """(calibrator on a grid, its statistic)."""
    cal = case.make(**params)
    return cal, cal._engine.memory.statistic


def is_smooth(case):
    """Whether two scores of one cell get different probabilities."""
    cal, statistic = on_a_grid(case, resolution=64)
    cal.learn_many([0.2, 0.3, 0.7, 0.8], [0, 1, 0, 1])
    assert statistic.grid.cell(cal.scale.coordinate(0.51)) == statistic.grid.cell(cal.scale.coordinate(0.52))
    return cal.predict_one(0.51) != cal.predict_one(0.52)


SMOOTH = [case for case in ON_GRIDS if is_smooth(case)]
STEPS = [case for case in ON_GRIDS if case not in SMOOTH]


@each(STEPS, under=EVERYWHERE)
@given(stream=st.lists(rough_observations, min_size=1, max_size=60), data=st.data())
def test_a_step_map_on_a_grid_is_the_exact_method_on_rounded_scores(case, stream, data):
    stream = [o._replace(w=float(math.ceil(o.w))) for o in stream]  # exact sums, in any order
    # The fold of a score is a hash of its coordinate, which is another one on another scale.
    folded = "folds" in case.make().params()
    scales = VALUES["scale"][1 if case.method.name in READ_AS_PROBABILITIES else 0 : 0 if folded else 2]
    scale = data.draw(st.sampled_from([{}, *({"scale": scale} for scale in scales)]))
    cal, statistic = on_a_grid(case, resolution=64, **scale)
    exact, _ = on_a_grid(case, resolution=None, **({"scale": VALUES["scale"][1]} if scale else {}))
    probability = not scale

    def rounded(score):
        x = statistic.grid.round(cal.scale.coordinate(score))
        return x if probability else (x + 16.0) / 32.0 if cal.scale.lo == -16.0 else x

    learned(cal, stream)
    learned(exact, [o._replace(x=rounded(o.x)) for o in stream])
    probes = [*PROBES, *(o.x for o in stream)]
    assert_close([cal.predict_one(s) for s in probes], [exact.predict_one(rounded(s)) for s in probes], ROUNDED)


REALISTIC = {
    "calibrated": realistic(1, 20_000, 2.0, 3.0),
    "overconfident": realistic(2, 20_000, 2.0, 2.0, temperature=3.0),
    "underconfident": realistic(3, 20_000, 0.7, 1.5, temperature=0.4),
    "half a percent": realistic(4, 20_000, 0.5, 99.5),
    "half a percent, narrow": realistic(5, 20_000, 5.0, 995.0, temperature=0.6),
    "extremes": realistic(6, 20_000, 0.05, 0.1),
}
REALISTIC["two decimals"] = (REALISTIC["calibrated"][0].round(2), REALISTIC["calibrated"][1])


#: The others with `-m full`.
PLAIN = ("calibrated", "half a percent", "extremes")


@each(SMOOTH, under=EVERYWHERE)
@pytest.mark.parametrize("kind", [pytest.param(k, marks=[pytest.mark.full] * (k not in PLAIN)) for k in REALISTIC])
def test_a_smooth_map_on_its_default_grid_is_the_exact_fit(case, kind):
    scores, y = REALISTIC[kind]
    grid, exact = case.make(), case.make(resolution=None)
    within = GRID_LOSS_HERE if type(grid).__module__.startswith("streamcal.") else GRID_LOSS
    assert grid.resolution is not None
    start = 0
    for end in (1, 2, 3, 5, 10, 30, 100, 300, 1_000, 5_000, 20_000):
        grid.learn_many(scores[start:end], y[start:end])
        exact.learn_many(scores[start:end], y[start:end])
        start = end
        probes = np.concatenate((PROBES, scores[:200]))
        assert_close(grid.predict_many(probes), exact.predict_many(probes), within)
