"""Scores that are missing: None, NaN, or a name that a dict does not have."""

import json
import math

import numpy as np
import pytest
from laws import ROUNDED
from weights_by_hand import WeightsByHand

from streamcal import Decay, InputError, Logit, Probability
from streamcal.fusion import (
    MRMIC,
    BernsteinFusion,
    CopulaFusion,
    LogisticFusion,
    PartialOrderVennAbers,
    PrequentialFusion,
)

ADDITIVE = {
    "bernstein": lambda n=3, **more: BernsteinFusion(2, n, **more),
    "copula-fusion": lambda n=3, **more: CopulaFusion(("gaussian",), n_scores=n, **more),
    "mrmic": lambda n=3, **more: MRMIC(n_scores=n, **more),
    "partial order": lambda n=3, **more: PartialOrderVennAbers(n_scores=n, **more),
}
each = pytest.mark.parametrize("name", ADDITIVE)


def stream(size, seed=0, gaps=True):
    """Three noisy scores of one truth; in every third row one is missing, and in every fifth two are."""
    rng = np.random.default_rng(seed)
    truth = rng.random(size)
    scores = np.clip(truth[:, None] + 0.2 * rng.normal(size=(size, 3)), 0.0, 1.0).round(2)
    for k in range(size if gaps else 0):
        if k % 3 == 0:
            scores[k, k % 2] = math.nan
        elif k % 5 == 0:
            scores[k, 1:] = math.nan
    return scores, (rng.random(size) < truth).astype(int)


@pytest.mark.sample(15)
@each
@pytest.mark.parametrize("places", [(0,), (0, 2), (1, 2), (0, 1, 2)])
def test_the_fit_is_that_to_all_observations_with_these_scores(name, places):
    """As if there were no other scores."""
    scores, y = stream(90)
    fused = ADDITIVE[name](missing="marginal")
    fused.learn_many(scores, y)
    alone = ADDITIVE[name](len(places))
    has = ~np.isnan(scores[:, places]).any(axis=1)
    alone.learn_many(scores[has][:, places], y[has])
    probes = np.random.default_rng(1).random((20, 3))
    given = np.full((20, 3), math.nan)
    given[:, places] = probes[:, places]
    expected = alone.predict_many(probes[:, places])
    # Sums in another order; between observations a ridge of 1e-10 decides Bernstein coefficients, and magnifies that.
    within = 2e-5 if name == "bernstein" else 1e-9
    np.testing.assert_allclose(fused.predict_many(given), expected, rtol=0, atol=within)
    np.testing.assert_allclose([fused.map()(row) for row in given.tolist()], expected, rtol=0, atol=within)
    if fused.has_interval:
        np.testing.assert_allclose(
            fused.predict_interval_many(given), alone.predict_interval_many(probes[:, places]), rtol=0, atol=within
        )
        assert fused.predict_interval_one(given[0]) == pytest.approx(alone.predict_interval_one(probes[0, places]))


@each
def test_complete_observations_are_learned_as_by_the_method_that_refuses_others(name):
    scores, y = stream(60, gaps=False)
    fused, plain = ADDITIVE[name](missing="marginal"), ADDITIVE[name]()
    for row, label in zip(scores.tolist(), y, strict=True):
        fused.learn_one(row, label)
    plain.learn_many(scores, y)
    probes = np.random.default_rng(1).random((20, 3))
    within = 2e-5 if name == "bernstein" else 1e-9  # as above
    np.testing.assert_allclose(fused.predict_many(probes), plain.predict_many(probes), rtol=0, atol=within)


@each
@pytest.mark.parametrize("score", [None, math.nan, np.float32("nan")])
def test_by_default_a_missing_score_is_refused(name, score):
    cal = ADDITIVE[name]()
    cal.learn_one([0.2, 0.4, 0.5], 1)
    before = cal.state_dict()
    for call in (lambda: cal.learn_one([0.2, score, 0.5], 1), lambda: cal.predict_one([0.2, score, 0.5])):
        with pytest.raises(InputError):
            call()
    assert cal.state_dict() == before
    with pytest.raises(InputError, match="missing"):
        ADDITIVE[name](missing="drop")


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "build", [*(lambda b=b: b(missing="marginal") for b in ADDITIVE.values()), lambda: LogisticFusion(3)]
)
def test_a_name_that_is_absent_is_a_score_that_is_missing(build):
    cal, twin = build(), build()
    for k in range(30):
        row = {"a": k / 30, "b": (k * 7) % 30 / 30, "c": 0.5}
        if k % 4 == 1:
            del row["b"]
        cal.learn_one(row, k % 3 == 0)
        twin.learn_one([row.get(name) for name in "abc"], k % 3 == 0)
    assert cal.predict_one({"a": 0.3, "c": 0.1}) == twin.predict_one([0.3, None, 0.1])
    copied = type(cal).from_state(json.loads(json.dumps(cal.state_dict(), allow_nan=False)))
    assert copied.predict_one({"b": 0.25}) == pytest.approx(twin.predict_one([math.nan, 0.25, None]), abs=ROUNDED)
    before = cal.state_dict()
    for bad in ({"a": 0.3, "d": 0.1}, {}, {"a": None}, [None, None, math.nan]):
        with pytest.raises(InputError):
            cal.learn_one(bad, 1)
        with pytest.raises(InputError):
            cal.predict_one(bad)
    with pytest.raises(InputError):
        cal.predict_many([[0.5, 0.5, 0.5], [None, None, None]])
    with pytest.raises(InputError):
        build().learn_one({"a": 0.3, "b": 0.1}, 1)  # the first dict says which names there are
    assert cal.state_dict() == before


def test_candidates_of_a_prequential_fusion_take_missing_scores():
    scores, y = stream(60)
    fused = PrequentialFusion((BernsteinFusion(1, 3), BernsteinFusion(2, 3)), missing="marginal")
    fused.learn_many(scores, y)
    assert fused.predict_one([0.5, None, 0.5]) == fused.leader.predict_one([0.5, None, 0.5])
    assert fused.n == 60.0
    with pytest.raises(InputError):
        PrequentialFusion((BernsteinFusion(1, 3),)).learn_many(scores, y)


@each
def test_missing_scores_under_decay(name):
    """The fit to some of the scores has the weights of today."""
    if name == "mrmic":
        pytest.skip("its penalty depends on the weight, which is compared in other units here")
    scores, y = stream(40)
    fused = ADDITIVE[name](missing="marginal", forgetting=Decay(10.0))
    fused.learn_many(scores, y)
    alone, has = ADDITIVE[name](1), ~np.isnan(scores[:, 0])
    weights = 2.0 ** (-(39.0 - np.arange(40)) / 10.0)
    alone.learn_many(scores[has, :1], y[has], weights[has])
    probes = np.array([[0.2, math.nan, math.nan], [0.7, math.nan, math.nan]])
    np.testing.assert_allclose(fused.predict_many(probes), alone.predict_many(probes[:, :1]), rtol=0, atol=2e-5)


# -- logistic fusion ---------------------------------------------------------------------------------------------------


class Transcribed:
    """The formulas of `LogisticFusion`'s docstring, without kernels."""

    def __init__(self, m, discount, bound):
        self.m, self.d, self.bound = m, discount, bound
        self.theta = np.r_[np.full(m, 1 / m), np.zeros(m + 1)]
        self.weights = WeightsByHand()
        self.a0 = np.diag(np.r_[np.full(m, 1.0), np.full(m, 0.25), 1.0])
        self.a = self.a0.copy()
        correlation = 0.9 + 0.1 * np.eye(m)
        self.prior = 2.0 * np.block([[4.0 * correlation, 1.4 * correlation], [1.4 * correlation, 0.6 * correlation]])
        self.weight, self.sums, self.products = 2.0, np.zeros(2 * m), self.prior.copy()

    def completed(self, scores):
        here = np.flatnonzero(~np.isnan(scores))
        z = np.clip(np.log(scores) - np.log1p(-scores), -self.bound, self.bound)
        phi = np.r_[z, np.tanh(z)]
        here = np.r_[here, here + self.m]
        rest = np.setdiff1d(np.arange(2 * self.m), here)
        mean = self.sums / self.weight
        cov = self.products / self.weight - np.outer(mean, mean) + 1e-6 * np.eye(2 * self.m)
        slope = cov[np.ix_(rest, here)] @ np.linalg.inv(cov[np.ix_(here, here)])
        phi[rest] = mean[rest] + slope @ (phi[here] - mean[here])
        left = np.zeros_like(cov)
        left[np.ix_(rest, rest)] = cov[np.ix_(rest, rest)] - slope @ cov[np.ix_(here, rest)]
        return phi, left

    def predict(self, scores):
        phi, left = self.completed(np.array(scores, dtype=float))
        own = self.theta[:-1]
        z = (self.theta @ np.r_[phi, 1.0]) / math.sqrt(1.0 + math.pi / 8.0 * max(own @ left @ own, 0.0))
        return 1.0 / (1.0 + math.exp(-z))

    def learn(self, scores, y, w):
        w = self.weights.relative(w)
        phi, left = self.completed(np.array(scores, dtype=float))
        f = np.r_[phi, 1.0]
        self.a = self.d * self.a + (1.0 - self.d) * self.a0
        gain = np.linalg.solve(self.a, f)
        z, v = self.theta @ f, f @ gain
        low, high = z - v * w, z + v * w  # the root of m = z + v w (y − σ(m)), by bisection
        for _ in range(200):
            middle = 0.5 * (low + high)
            if middle - z - v * w * (y - 1.0 / (1.0 + math.exp(-middle))) > 0.0:
                high = middle
            else:
                low = middle
        p = 1.0 / (1.0 + math.exp(-low))
        self.theta = self.theta + gain * (low - z) / v
        self.a += w * p * (1.0 - p) * np.outer(f, f)
        self.weight = self.d * self.weight + (1 - self.d) * 2.0 + w
        self.sums = self.d * self.sums + w * phi
        self.products = self.d * self.products + (1 - self.d) * self.prior + w * (np.outer(phi, phi) + left)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("discount", "bound"), [(1.0, 8.0), (0.98, 3.0)])
def test_logistic_fusion_is_its_formula(discount, bound):
    scores, y = stream(80, seed=3)
    scores = np.clip(scores, 0.01, 0.99)
    fused, plain = LogisticFusion(3, discount=discount, bound=bound), Transcribed(3, discount, bound)
    for k, (row, label) in enumerate(zip(scores.tolist(), y.tolist(), strict=True)):
        if k:
            assert fused.predict_one(row) == pytest.approx(plain.predict(row), abs=1e-9)  # 80 steps of 1e-12 each
        fused.learn_one(row, label, 1.0 + k % 2)
        plain.learn(row, label, 1.0 + k % 2)
    assert fused.map()([None, 0.3, None]) == pytest.approx(plain.predict([math.nan, 0.3, math.nan]), abs=1e-9)


def test_logistic_fusion_learns_which_model_is_right():
    """Of two models one says the truth, and the other something that has nothing to do with it."""
    rng = np.random.default_rng(4)
    truth, other = rng.uniform(0.05, 0.95, (2, 4000))
    y = rng.random(4000) < truth
    fused = LogisticFusion()
    fused.learn_many(np.column_stack((truth, other)), y)
    probes = np.array([[0.2, 0.9], [0.5, 0.1], [0.8, 0.5]])
    np.testing.assert_allclose(fused.predict_many(probes), probes[:, 0], rtol=0, atol=0.04)  # 2 sd of the estimate
    # With the good model down there is the base rate, and with the bad one down the good one.
    assert fused.predict_one([None, 0.9]) == pytest.approx(0.5, abs=0.05)
    assert fused.predict_one([0.2, None]) == pytest.approx(0.2, abs=0.04)


def test_a_model_that_is_down_passes_its_weight_to_those_that_agree_with_it():
    """Two models always say the same: alone, one says what both say."""
    rng = np.random.default_rng(5)
    truth = rng.uniform(0.05, 0.95, 4000)
    fused = LogisticFusion()
    fused.learn_many(np.column_stack((truth, truth)), rng.random(4000) < truth)
    for p in (0.1, 0.4, 0.8):
        assert fused.predict_one([p, None]) == pytest.approx(fused.predict_one([p, p]), abs=0.01)


def test_scores_of_other_scales():
    fused = LogisticFusion(2, scale=(Probability(), Logit(-4.0, 4.0)))
    fused.learn_one([0.2, 0.99], 1)
    assert fused.tally() == {"clamped": 1}
    assert type(fused).from_state(fused.state_dict()).tally() == {"clamped": 1}


@pytest.mark.parametrize(
    "params", [{"bound": 0.0}, {"bound": math.inf}, {"discount": 0.0}, {"n_scores": 0}, {"missing": "no"}]
)
def test_parameters_that_are_not_possible_are_refused(params):
    with pytest.raises(InputError):
        LogisticFusion(**params)


# -- degrees -----------------------------------------------------------------------------------------------------------


@pytest.mark.sample(2)
@pytest.mark.parametrize(("width", "degrees"), [(1, 5), (2, 5), (3, 3), (4, 2), (5, 1), (6, 1), (9, 1)])
def test_degrees_are_chosen_from_the_number_of_scores(width, degrees):
    assert BernsteinFusion(n_scores=width).map().predict_one([0.5] * width) == 0.5
    fused = BernsteinFusion(n_scores=width)
    fused.learn_one([0.5] * width, 1)
    assert fused.state_dict()["params"]["degrees"] is None
    if width < 7:  # where a solve takes up to a millisecond
        assert fused.map().degrees == (degrees,) * width
