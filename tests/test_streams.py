"""Streams in one call: the compiled loops, over more rows than they take at once, beside the loop of single steps."""

import itertools
import threading

import numpy as np
import pytest
from invariants import check
from laws import trying
from laws.binary import WithFolds

import streamcal
from streamcal import (
    AdaptiveCalibration,
    Bernstein,
    Beta,
    CrossVennAbers,
    Decay,
    Forever,
    Gaussian,
    HedgedOPS,
    HistogramBinning,
    Identity,
    InputError,
    Interval,
    Isotonic,
    Logit,
    OnlineBeta,
    OnlinePlatt,
    Platt,
    Prior,
    Protected,
    Temperature,
    TrackingOPS,
    VennAbers,
    Window,
)
from streamcal.memories.memory import PIECE
from streamcal.regression import EmpiricalDensity, Normal, Piecewise

SEQUENTIAL = [
    OnlinePlatt,
    lambda: OnlinePlatt(discount=0.99),
    OnlineBeta,
    TrackingOPS,
    lambda: HedgedOPS(4, seed=3),
    Protected,
]


FOREVER = Forever()


def with_prior(forgetting=FOREVER):
    """Return a policy and a prior, which is refused where it cannot fade."""
    return {"forgetting": forgetting, "prior": None if forgetting.timed else Prior(5.0)}


ADDITIVE = [
    Isotonic,
    VennAbers,
    lambda **policy: Isotonic(resolution=256, **with_prior(**policy)),
    lambda **policy: VennAbers("self-consistent", resolution=256, **policy),
    lambda **policy: VennAbers("brier-minimax", scale=Interval(0.2, 0.7), **policy),
    lambda **policy: Isotonic(scale=Logit(-2.0, 2.0), **policy),
    Bernstein,
    lambda **policy: Bernstein(3, scale=Logit(), **with_prior(**policy)),
    Identity,
    HistogramBinning,
    lambda **policy: HistogramBinning(4, scale=Logit(-2.0, 2.0), resolution=50, **with_prior(**policy)),
    lambda **policy: AdaptiveCalibration(resolution=200, **policy),
    lambda **policy: Platt(resolution=512, **policy),
    lambda **policy: Platt(scale=Interval(0.2, 0.7), resolution=60, **policy),
    lambda **policy: Beta(resolution=512, **policy),
    lambda **policy: Beta("ab", resolution=300, **with_prior(**policy)),
    lambda **policy: Beta("am", resolution=300, **policy),
    lambda **policy: Temperature(resolution=300, **with_prior(**policy)),
    Gaussian,
    lambda **policy: Gaussian("total", **with_prior(**policy)),
]
#: A grid that is small enough for points to meet.
GRIDS = {VennAbers: {"resolution": 256}, Platt: {"resolution": 512}}
#: Windows shorter and longer than a piece, and half-lives between whose rescalings there are fewer and more rows.
POLICIES = [
    *(Forever(), Window(1), Window(700), Window(5_000), Decay(0.25), Decay(20), Decay(300.0)),
    *(Decay(0.5, by="time"), Decay(300.0, by="time")),
]
WEIGHTS = {
    "ones": lambda rng, n: None,
    "whole": lambda rng, n: rng.integers(0, 4, n),
    "fractions": lambda rng, n: np.where(rng.random(n) < 0.1, 0.0, 0.5 + rng.random(n)),
    "far apart": lambda rng, n: 10.0 ** rng.integers(-6, 7, n),  # a window sums anew beside what outweighs the rest
}


def stream(weights, n):
    """Scores, of which some are equal and some at the ends, labels and weights."""
    rng = np.random.default_rng(11)
    scores = np.where(rng.random(n) < 0.3, rng.integers(0, 21, n) / 20, rng.random(n))
    return scores, rng.random(n) < scores**2, WEIGHTS[weights](rng, n)


def times(cal, n):
    """Times of which some are late, by up to 2,000 half-lives, and after some of which as many pass."""
    if not cal.forgets_by_time:
        return [None] * n
    rng, half_life = np.random.default_rng(12), cal.forgetting.half_life
    steps = np.where(rng.random(n) < 0.97, rng.exponential(1.0, n), rng.choice([20.0, 500.0, 2_000.0], n) * half_life)
    late = np.where(rng.random(n) < 0.9, 0.0, rng.choice([0.5, 3.0, 600.0, 2_000.0], n) * half_life)
    return (1e9 + np.cumsum(steps) - late).tolist()


def in_turn(cal, scores, y, w, t):
    """Return the results of `predict_one`, and the interval if there is one, before `learn_one` learns each."""
    found = []
    for i in range(len(scores)):
        score, weight = float(scores[i]), 1.0 if w is None else float(w[i])
        ends = cal.predict_interval_one(score, t=t[i]) if cal.has_interval else ()
        found.append((cal.predict_one(score, t[i]), *ends))
        cal.learn_one(score, bool(y[i]), weight, t[i])
    return np.array(found)


def at_once(cal, scores, y, w, t):
    t = t if cal.forgets_by_time else None
    if cal.has_interval:
        return np.transpose(cal.predict_interval_learn_many(scores, y, w, t=t))
    return cal.predict_learn_many(scores, y, w, t)[:, None]


def assert_same_stream(make, weights, n, parts):
    one, many = make(), make()
    scores, y, w = stream(weights, n)
    t = times(one, n)
    expected = in_turn(one, scores, y, w, t)
    ends = np.linspace(0, n, parts + 1).astype(int)
    rows = [slice(*pair) for pair in itertools.pairwise(ends)]
    found = [at_once(many, scores[part], y[part], None if w is None else w[part], t[part]) for part in rows]
    np.testing.assert_array_equal(np.vstack(found), expected)
    assert many.state_dict() == one.state_dict()
    assert many.tally() == one.tally()


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("make", SEQUENTIAL, ids=lambda make: make().name)
def test_a_sequential_stream_is_the_loop(make, weights):
    assert_same_stream(make, weights, 600, 3)


@pytest.mark.sample(180)
@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize("make", ADDITIVE, ids=lambda make: make().name)
def test_an_additive_stream_is_the_loop(make, policy):
    for weights in tried_weights(make):
        with trying(weights):
            assert_same_stream(lambda: make(forgetting=policy), weights, 100 if solves_long(make) else 400, 3)


@pytest.mark.parametrize("half_life", [0.5, 300.0])
@pytest.mark.parametrize("make", [VennAbers, Platt, Bernstein], ids=lambda make: make.name)
def test_a_stream_with_late_rows_and_pauses_is_the_loop(make, half_life):
    assert_same_stream(lambda: make(forgetting=Decay(half_life, by="time"), **GRIDS.get(make, {})), "fractions", 300, 3)


@pytest.mark.full
@pytest.mark.parametrize("policy", POLICIES, ids=repr)
@pytest.mark.parametrize("make", ADDITIVE, ids=lambda make: make().name)
def test_an_additive_stream_is_the_loop_with_other_weights(make, policy):
    for weights in WEIGHTS.keys() - tried_weights(make):
        with trying(weights):
            assert_same_stream(lambda: make(forgetting=policy), weights, 300 if solves_long(make) else 900, 3)


def solves_long(make):
    """Whether a fit that the kernel cannot certify, as in a window of one observation, takes a millisecond."""
    return make().name in ("beta", "temperature")


def tried_weights(make):
    """Those of a plain `pytest`: all with the default parameters, and those that round with others."""
    if solves_long(make):
        return {"fractions"}
    return WEIGHTS.keys() if isinstance(make, type) else {"fractions", "far apart"}


#: Pieces are cut alike under every policy: no forgetting, what is left within a piece and across, and rescalings.
@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(one, marks=[pytest.mark.full] * (i not in (0, 2, 3, 5)), id=repr(one))
        for i, one in enumerate(POLICIES)
    ],
)
@pytest.mark.parametrize("make", [VennAbers, Bernstein, HistogramBinning], ids=lambda make: make.name)
def test_a_stream_of_more_than_a_piece_is_the_loop(make, policy):
    assert_same_stream(lambda: make(forgetting=policy), "fractions", 2 * PIECE + 100, 1)


def test_learn_many_of_a_sequential_method_is_its_stream_without_predictions():
    """But for `Auto(2)`: what is learned without a prediction is as late as it was told; these labels are in time."""
    scores, y, w = stream("fractions", 500)
    for make in SEQUENTIAL:
        one, many = make(), make()
        one.learn_many(scores, y, w)
        many.predict_learn_many(scores, y, w)
        assert one.state_dict() == many.state_dict()


def test_after_retractions_a_window_goes_on_as_the_loop_does():
    one, many = VennAbers(forgetting=Window(50)), VennAbers(forgetting=Window(50))
    scores, y, _ = stream("ones", 400)
    for cal in (one, many):
        cal.learn_many(scores[:60], y[:60])
        for i in (55, 20, 59, 12):
            cal.unlearn_one(scores[i], y[i])
    rest = scores[60:], y[60:], None, times(one, 340)
    np.testing.assert_array_equal(at_once(many, *rest), in_turn(one, *rest))
    for cal in (one, many):
        cal.unlearn_one(scores[-1], y[-1])
        check(cal)
    assert one.state_dict() == many.state_dict()


@pytest.mark.parametrize(("after", "asked"), [(0, True), (1, True), (40, True), (40, False)])
def test_where_the_solver_of_bernstein_fails_in_a_stream_the_last_curve_is_served_and_counted(after, asked):
    scores, y, w = stream("whole", 120)
    one, many = Bernstein(4), Bernstein(4)
    for cal in (one, many):
        cal.learn_many(scores[:after], y[:after])
        if asked:
            cal.predict_one(0.5)
        cal._sums.cross[0] = np.nan
    rows = scores, y, w, times(one, 120)
    np.testing.assert_array_equal(at_once(many, *rows), in_turn(one, *rows))
    assert many.tally() == one.tally()
    assert many.tally()["unsolved"] > 60
    assert bool(w[-1] > 0) is (many._failed_for != many._engine.memory.version)


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "make", [OnlinePlatt, TrackingOPS, Protected, Bernstein, HistogramBinning], ids=lambda make: make.name
)
def test_another_thread_runs_meanwhile(make):
    """The loop is compiled to run without the GIL, which it would else hold to its end."""
    if not streamcal.kernels.COMPILED:
        pytest.skip("uncompiled kernels hold the GIL")
    cal, scores = make(), np.random.default_rng(2).random(2_000_000 if make is OnlinePlatt else 300_000)
    thread = threading.Thread(target=cal.predict_learn_many, args=(scores, scores > 0.4))
    turns = 0
    thread.start()
    while thread.is_alive():
        turns += 1
    thread.join()
    assert cal.n == len(scores)
    assert turns > 1_000


# -- folds, and errors that only a prediction sees -------------------------------------------------------------------


def test_folds_may_be_given():
    scores, y, w = stream("whole", 200)
    folds = np.arange(200) % 3
    one, many = CrossVennAbers(folds=3), CrossVennAbers(folds=3)
    found = many.predict_interval_learn_many(scores, y, w, fold=folds)
    for i, score in enumerate(scores.tolist()):
        expected = (one.predict_one(score), *one.predict_interval_one(score))
        assert tuple(column[i] for column in found) == expected
        one.learn_one(score, bool(y[i]), float(w[i]), fold=int(folds[i]))
    assert many.state_dict() == one.state_dict()
    for wrong in (3, -1, folds[:-1], folds + 1):
        with pytest.raises(InputError, match="fold"):
            many.predict_learn_many(scores, y, w, fold=wrong)
    assert many.state_dict() == one.state_dict()
    assert WithFolds(folds=3).predict_learn_many([0.5, 0.5], [0, 1], fold=1).shape == (2,)


class WrongInTheMiddle:
    """A cdf that decreases where no outcome looks at it."""

    def cdf(self, t):
        return np.where(np.abs(np.asarray(t)) < 0.25, 2.0, Normal(0.0, 1.0).cdf(t))


def test_a_distribution_that_cannot_be_calibrated_leaves_nothing_learned():
    cal = streamcal.regression.QuantileRecalibration()
    good = Piecewise([-1.0, 1.0], [0.0, 1.0])
    cal.learn_many([good] * 20, np.linspace(-0.9, 0.9, 20))
    before = cal.state_dict()
    composed = streamcal.regression.Composition(("quantile-recalibration", EmpiricalDensity("ops", 4, support=(-1, 1))))
    with pytest.raises(InputError):
        cal.predict_learn_many([good, WrongInTheMiddle()], [0.5, 0.1])
    assert cal.state_dict() == before
    empty = composed.state_dict()
    with pytest.raises(InputError):
        composed.predict_learn_many([good, WrongInTheMiddle()], [0.5, 0.1])
    assert composed.state_dict() == empty
