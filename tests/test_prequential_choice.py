"""`PrequentialChoice` against a plain transcription of its rule, its regret, and what it refuses."""

import itertools
import json
import math
from functools import cache

import numpy as np
import pytest

from streamcal import (
    Auto,
    Bernstein,
    BernsteinLogistic,
    CapabilityError,
    Decay,
    EmpiricalCDF,
    HistogramBinning,
    InputError,
    Interval,
    Isotonic,
    Logit,
    NearIsotonic,
    OnlinePlatt,
    Platt,
    PrequentialChoice,
    Protected,
    SmoothIsotonic,
    StateError,
    Window,
    load,
    save,
)
from streamcal.datasets.synthetic import generate
from streamcal.errors import ClockError
from streamcal.live import LabelJoin
from streamcal.multiclass import OneVsRest
from streamcal.regression import EmpiricalDensity

CHOICES = {
    "degree": lambda: PrequentialChoice(Bernstein, degree=[1, 3, 8]),
    "penalty": lambda: PrequentialChoice(SmoothIsotonic, penalty=[None, 1e-3, 0.1]),
    "two": lambda: PrequentialChoice("histogram-binning", bins=[2, 9], resolution=[64, None]),
    "forgetting": lambda: PrequentialChoice(Isotonic(), forgetting=[Window(20), Decay(30)]),
    "nested": lambda: PrequentialChoice(Platt(forgetting=Decay(9)), forgetting__half_life=[5, 50]),
    "sequential": lambda: PrequentialChoice(OnlinePlatt, discount=[1.0, 0.9]),
    "one": lambda: PrequentialChoice(Isotonic, resolution=[None]),
}


def stream(n, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.random(n)
    return s, rng.random(n) < s**2, rng.integers(1, 4, n).astype(float)


def limited(p):
    return min(max(p, 1e-9), 1.0 - 1e-9)


@pytest.mark.sample(4)
@pytest.mark.parametrize("kind", CHOICES)
def test_it_is_its_formula(kind):
    cal = CHOICES[kind]()
    plain, losses, heaviest = [one.clone() for one in cal.candidates], np.zeros(len(cal.candidates)), 1.0
    for s, y, w in zip(*stream(150), strict=True):
        parts = np.exp(-losses / heaviest)
        p = np.array([limited(one.predict_one(s)) for one in plain])
        assert cal.predict_one(s) == pytest.approx(parts @ p / parts.sum(), abs=1e-12)
        losses -= w * np.log(p if y else 1.0 - p)
        heaviest = max(heaviest, w)
        cal.learn_one(s, y, w)
        for one in plain:
            one.learn_one(s, y, w)
        np.testing.assert_allclose(cal.losses, losses, rtol=1e-12)
    assert cal.leader.params() == plain[int(np.argmin(losses))].params()
    assert sum(cal.weights().values()) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.sample(6)
@pytest.mark.parametrize("kind", CHOICES)
def test_all_ways_to_learn_and_to_predict_agree(kind):
    s, y, w = stream(120, 1)
    w[::7] = 0.0
    one, many, streamed = (CHOICES[kind]() for _ in range(3))
    found = []
    for row in zip(s, y, w, strict=True):
        found.append(one.predict_one(row[0]))
        one.learn_one(*row)
    many.learn_many(s, y, w)
    assert streamed.predict_learn_many(s, y, w).tolist() == found
    again = PrequentialChoice.from_state(json.loads(json.dumps(one.state_dict())))
    assert many.losses == streamed.losses == one.losses == again.losses
    queries = np.linspace(0.0, 1.0, 33)
    want = one.predict_many(queries)
    for other in (many, streamed, again):
        np.testing.assert_allclose(other.predict_many(queries), want, rtol=0, atol=2e-5)
    np.testing.assert_allclose([one.predict_one(q) for q in queries.tolist()], want, rtol=0, atol=1e-12)
    np.testing.assert_allclose(one.map().predict_many(queries), want, rtol=0, atol=1e-12)
    np.testing.assert_allclose([one.map()(q) for q in queries.tolist()], want, rtol=0, atol=1e-12)


@pytest.mark.sample(4)
@pytest.mark.parametrize("labels", ["drawn", "against the leader", "alternating", "ones"])
def test_the_regret_is_at_most_the_logarithm_of_the_number(labels):
    """Whatever the labels; the weights are those of likelihoods, so that the loss is that of their mean."""
    for seed, kind in itertools.product(range(3), ("degree", "two", "sequential")):
        cal, total = CHOICES[kind](), 0.0
        rng = np.random.default_rng(seed)
        for k, s in enumerate(rng.random(200).tolist()):
            p = cal.predict_one(s)
            ones = {"drawn": rng.random() < s, "against the leader": p < 0.5, "alternating": k % 2 > 0, "ones": True}
            total -= math.log(p if ones[labels] else 1.0 - p)
            cal.learn_one(s, ones[labels])
        least, number = min(cal.losses), len(cal.candidates)
        assert total <= least + math.log(number) + 1e-6
        mean = -math.log(sum(math.exp(least - one) for one in cal.losses) / number) + least
        assert total == pytest.approx(mean, abs=1e-6)


GRIDS = {
    "bernstein": lambda: PrequentialChoice(Bernstein, degree=[5, 10, 20, 40]),
    "smooth-isotonic": lambda: PrequentialChoice(
        SmoothIsotonic(resolution=256, refresh_every=64), penalty=[None, 1e-4, 1e-2, 1.0]
    ),
    "half-life": lambda: PrequentialChoice(Bernstein, forgetting=[Decay(100), Decay(1_000), Decay(10_000)]),
}


@cache
def drifting(kind):
    """Return a development stream of the race."""
    return generate(kind, oracle_size=1_000)


@pytest.mark.sample(9)
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("kind", ["cov-1d", "abrupt", "warp"])
def test_on_drifting_streams_it_is_as_good_as_the_best_choice_in_hindsight(kind, grid):
    """Within 2 nats and ln K of the best candidate that ran alone, whose forecasts nobody limits."""
    stream = drifting(kind)
    scores, y = np.clip(stream.scores, 0.001, 0.999), stream.y
    cal = GRIDS[grid]()

    def loss(p):
        p = np.clip(p, 1e-15, 1.0 - 1e-15)
        return float(-np.log(np.where(y, p, 1.0 - p)).sum())

    alone = [loss(one.clone().predict_learn_many(scores, y)) for one in cal.candidates]
    assert loss(cal.predict_learn_many(scores, y)) <= min(alone) + math.log(len(alone)) + 2.0


def test_a_factor_common_to_all_weights_changes_nothing():
    s, y, w = stream(80, 2)
    found = [CHOICES["degree"]().predict_learn_many(s, y, w * 2.0**k) for k in (-60, 0, 60)]
    np.testing.assert_allclose(found[0], found[1], atol=2e-5)
    np.testing.assert_allclose(found[2], found[1], atol=2e-5)


def test_labels_that_come_late_judge_the_forecasts_that_were_issued():
    s, y, _ = stream(60, 3)
    join = LabelJoin(CHOICES["two"](), horizon=1e3)
    for k, score in enumerate(s.tolist()):  # nothing is learned yet: every candidate predicts the score
        join.issue(id=k, score=score, t=float(k))
    for k, label in enumerate(y.tolist()):
        join.resolve(k, label, t=60.0)
    join.advance(t=2e3)
    assert join.calibrator.n == 60.0
    np.testing.assert_allclose(join.calibrator.losses, -np.log(np.where(y, s, 1.0 - s)).sum(), rtol=1e-12)


def test_it_is_saved_and_read_by_a_process_that_has_not_imported_it(tmp_path):
    cal = CHOICES["forgetting"]()
    cal.learn_many(*stream(50))
    save(cal, tmp_path / "state")
    assert load(tmp_path / "state").predict_one(0.3) == cal.predict_one(0.3)
    assert cal.clone().same_parameters(cal)
    assert repr(CHOICES["one"]()).startswith("PrequentialChoice(Isotonic(scale=Probability(),")
    assert repr(CHOICES["one"]()).endswith("resolution=None), resolution=[None])")
    assert cal.clone().set_params(values={"resolution": [None, 64]}).weights() == {
        "resolution=None": 0.5,
        "resolution=64": 0.5,
    }


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PrequentialChoice(Bernstein), "no parameter of Bernstein"),
        (lambda: PrequentialChoice(Bernstein, degree=[]), "nothing to choose from"),
        (lambda: PrequentialChoice(Bernstein, degree=5), r"degree=5 is not possible; give a list"),
        (lambda: PrequentialChoice(Bernstein, degree="5"), r"degree='5' is not possible; give a list"),
        (lambda: PrequentialChoice(Bernstein, degree=[5, 99]), "degree=99"),
        (lambda: PrequentialChoice(Bernstein, degrees=[5]), "has no parameter 'degrees'"),
        (lambda: PrequentialChoice("bernstien", degree=[5]), "did you mean 'bernstein'"),
        (lambda: PrequentialChoice(Bernstein, degree=range(1, 51), tolerance=[0.1] * 50), "2,500 candidates"),
        (lambda: PrequentialChoice(int, degree=[5]), "is not a method of one score"),
        (lambda: PrequentialChoice(Auto, delay=[0, 3]), "cannot be a candidate"),
        (lambda: PrequentialChoice(Protected, delay=[0, 3]), "cannot be a candidate"),
        (lambda: PrequentialChoice(BernsteinLogistic, scale=[Logit(), Interval(-1.0, 1.0)]), "different domains"),
    ],
)
def test_impossible_choices_are_refused(make, words):
    with pytest.raises(InputError, match=words):
        make()


def test_scales_can_be_chosen():
    scales = [Interval(-3.0, 3.0), EmpiricalCDF.from_scores([-1.0, 0.0, 1.0])]
    cal = PrequentialChoice(HistogramBinning, scale=scales)
    cal.learn_many([-0.5, 0.0, 2.0], [0, 1, 1])
    assert 0.0 < cal.predict_one(0.5) < 1.0
    assert cal.map()(0.5) == cal.predict_one(0.5)


def test_bad_input_changes_nothing():
    cal = PrequentialChoice(Isotonic, forgetting=[Window(9), Window(5.0, by="time")])
    cal.learn_one(0.5, True, t=1.0)
    before = cal.state_dict()
    for call in (
        lambda: cal.learn_one(0.5, True),
        lambda: cal.learn_one(1.5, True, t=1.0),
        lambda: cal.learn_one(0.5, 2, t=1.0),
        lambda: cal.learn_many([0.5, 1.5], [0, 1], t=[1.0, 2.0]),
        lambda: cal.predict_learn_many([0.5, 0.5], [0, 1]),
        lambda: cal.predict_many([0.5, 1.5]),
        lambda: cal.predict_one(-0.5),
        lambda: cal._require_issued([0.5]),
        lambda: cal._require_issued([0.5, 0.0]),
    ):
        with pytest.raises(InputError):
            call()
    with pytest.raises(ClockError):
        cal.learn_many([0.5, 0.5], [0, 1], t=[1.0, 1e300])
    with pytest.raises(CapabilityError):
        cal.unlearn_one(0.5, True, t=1.0)
    assert cal.state_dict() == before


def test_damaged_states_are_refused():
    cal = PrequentialChoice(NearIsotonic, penalty=[0.01, 0.1])
    cal.learn_many([0.2, 0.6], [0, 1])
    for field, value in (("losses", [1.0]), ("losses", [-1.0, 0.0]), ("heaviest", 0.0), ("candidates", [1, 2])):
        state = cal._written()
        state["learned"] = {**state["learned"], field: value}
        with pytest.raises(StateError):
            PrequentialChoice._from_written(state)


def test_it_forgets_by_time_where_a_candidate_does():
    counted = PrequentialChoice(Isotonic, forgetting=[Window(9), Decay(9.0)])
    timed = PrequentialChoice(Isotonic, forgetting=[Window(9), Decay(9.0, by="time")])
    assert (counted.forgets_by_time, timed.forgets_by_time) == (False, True)
    counted.learn_one(0.5, True)
    timed.learn_one(0.5, True, t=3.0)
    before = timed.state_dict()
    for call in (
        lambda: timed.learn_one(0.5, True),
        lambda: timed.learn_many([0.5], [True]),
        lambda: timed.predict_learn_many([0.5], [True]),
    ):
        with pytest.raises(InputError, match="forgets by time: give the time"):
            call()
    with pytest.raises(ClockError):
        timed.learn_one(0.5, True, t=1e30)
    assert timed.state_dict() == before


def test_candidates_that_forget_by_time_are_no_method_of_subproblems():
    timed = PrequentialChoice(Isotonic, forgetting=[Window(9), Decay(9.0, by="time")])
    for make in (lambda: OneVsRest(timed), lambda: EmpiricalDensity(timed, 4, support=(0.0, 1.0))):
        with pytest.raises(InputError, match="forgets by time, which subproblems cannot"):
            make()
    OneVsRest(PrequentialChoice(Isotonic, forgetting=[Window(9), Decay(9.0)])).learn_one({"a": 0.5, "b": 0.5}, "a")
