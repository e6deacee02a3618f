"""The sequential methods against plain transcriptions of their papers, and against what the papers promise of them.

A transcription works in whole matrices and lists, from the formulas alone, and shares no code with what it judges.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize

from streamcal import InputError, OnlineBeta, OnlinePlatt, Protected
from streamcal.calibrators import online_beta
from streamcal.doctor import kernel_form


def stream(seed, n, *, shape=1.0, weights="one"):
    """Scores in (0, 1), labels of probability score^shape, and weights."""
    rng = np.random.default_rng(seed)
    s = rng.random(n)
    y = (rng.random(n) < s**shape).astype(float)
    w = np.ones(n) if weights == "one" else rng.uniform(0.1, 3.0, n)
    return s, y, w


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))


def log_odds(s):
    """Clamped at ±16."""
    with np.errstate(divide="ignore"):
        return np.clip(np.log(s) - np.log1p(-s), -16.0, 16.0)


# ---- online beta scaling -------------------------------------------------------------------------------------------


class OnlineBetaByHand:
    """Gupta & Ramdas 2023, Algorithm 1 on beta features, in matrices, with a general projection; weights are ours."""

    def __init__(self, radius=100.0):
        self.theta, self.a, self.radius, self.projected = np.array([1.0, 1.0, 0.0]), 25.0 * np.eye(3), radius, 0

    def learn(self, x, y, w):
        z = np.array([-np.logaddexp(0.0, -x), np.logaddexp(0.0, x), 1.0])  # log s, −log(1 − s), 1
        g = w * (sigmoid(self.theta @ z) - y) * z
        self.a = self.a + np.outer(g, g)
        self.theta = self.theta - np.linalg.solve(self.a, g) / 0.1
        if np.linalg.norm(self.theta) > self.radius:
            self.theta = self.nearest_in_ball(self.theta)
            self.projected += 1

    def nearest_in_ball(self, target):
        """argmin (θ − target)ᵀ A (θ − target) over |θ| ≤ radius, by SLSQP in units of the radius."""
        target, a = target / self.radius, self.a / np.trace(self.a)
        fit = minimize(
            lambda v: (v - target) @ a @ (v - target),
            target / np.linalg.norm(target),
            jac=lambda v: 2.0 * a @ (v - target),
            constraints=[{"type": "ineq", "fun": lambda v: 1.0 - v @ v, "jac": lambda v: -2.0 * v}],
            method="SLSQP",
            options={"ftol": 1e-18, "maxiter": 500},
        )
        return self.radius * fit.x


def theta_of(cal):
    return np.array([cal.map().a, cal.map().b, cal.map().c])


@pytest.mark.parametrize("weights", ["one", "any"])
def test_online_beta_is_the_plain_transcription(weights):
    s, y, w = stream(1, 3_000, shape=4.0, weights=weights)
    s[::500], s[1::500] = 0.0, 1.0  # log-odds clamped at ±16
    cal, by_hand, x = OnlineBeta(), OnlineBetaByHand(), log_odds(s)
    for i in range(len(s)):
        cal.learn_one(s[i], y[i], w[i])
        by_hand.learn(x[i], y[i], w[i])
        # The same sums in another order; every step corrects those before, so that rounding does not add up.
        np.testing.assert_allclose(theta_of(cal), by_hand.theta, rtol=0.0, atol=1e-11)
    assert not by_hand.projected


def test_online_beta_projects_onto_its_ball(monkeypatch):
    monkeypatch.setattr(online_beta, "RADIUS", 1.7)
    s, y, _ = stream(2, 600, shape=0.2)
    cal, by_hand, x = OnlineBeta(), OnlineBetaByHand(radius=1.7), log_odds(s)
    for i in range(len(s)):
        cal.learn_one(s[i], y[i])
        by_hand.learn(x[i], y[i], 1.0)
        # SLSQP stops where the objective no longer falls in double precision: at the root of 1e-16, in θ.
        np.testing.assert_allclose(theta_of(cal), by_hand.theta, rtol=0.0, atol=1e-6)
        assert np.linalg.norm(theta_of(cal)) <= 1.7 * (1.0 + 1e-12)
    assert by_hand.projected > 100


@pytest.mark.parametrize("exponent", [*range(-60, 60, 10), 59])
def test_online_beta_stays_in_its_ball(exponent):
    """After one step of any size, and after many."""
    many = OnlineBeta()
    for k in range(36):
        once, score, w = OnlineBeta(), 1.0 / (1.0 + math.exp(k % 7 - 3.0)), 10.0 ** (exponent + 0.1 * (k % 9))
        for cal in (once, many):
            cal.learn_one(score, k % 3 == 0, w)
            assert np.linalg.norm(theta_of(cal)) <= 100.0 * (1.0 + 1e-12)


def test_online_beta_bends_where_online_platt_cannot():
    """A truth with a ≠ b and 40,000 outcomes: beta scaling finds it, Platt scaling is off by three times as much."""
    rng = np.random.default_rng(3)
    s = rng.uniform(0.02, 0.98, 40_000)
    truth = sigmoid(0.4 * np.log(s) - 1.6 * np.log1p(-s) - 0.3)
    y = rng.random(len(s)) < truth
    off = {}
    for cal in (OnlineBeta(), OnlinePlatt()):
        cal.learn_many(s, y)
        off[cal.name] = np.abs(cal.predict_many(s) - truth).max()
    assert off["online-beta"] < 0.025
    assert off["ops"] > 0.075


# ---- protected classification --------------------------------------------------------------------------------------

COX = [(alpha, beta) for alpha in (0.0, 1.0, -1.0) for beta in (1.0, 0.5, 2.0)]


class ProtectedByHand:
    """Vovk, Petej & Gammerman 2021, the Composite Jumper, in plain capitals that may underflow: for short streams.

    What a calibrator of the list says is its probability of the label; the first is the score itself.
    """

    def __init__(self, rates=(1e-2, 1e-3, 1e-4), passive=0.5):
        self.rates = rates
        self.passive = passive
        self.active = [[(1.0 - passive) / len(rates)] + [0.0] * 8 for _ in rates]

    def predict(self, x):
        said = [sigmoid(beta * x + alpha) for alpha, beta in COX]
        stakes = [(self.passive, said[0])]
        stakes += [(capital, p) for row in self.active for capital, p in zip(row, said, strict=True)]
        return sum(c * p for c, p in stakes) / sum(c for c, _ in stakes)

    def learn(self, x, y, w):
        paid = [sigmoid((2.0 * y - 1.0) * (beta * x + alpha)) ** w for alpha, beta in COX]
        self.passive *= paid[0]
        for j, rate in enumerate(self.rates):
            row = [capital * pay for capital, pay in zip(self.active[j], paid, strict=True)]
            self.active[j] = [(1.0 - rate) * capital + rate * sum(row) / 9.0 for capital in row]


@pytest.mark.parametrize("weights", ["one", "any"])
@pytest.mark.parametrize("params", [{}, {"jump_rates": (0.2, 1.0), "passive": 0.01}])
def test_protected_is_the_plain_transcription(params, weights):
    s, y, w = stream(4, 400, shape=3.0, weights=weights)
    s[::90], s[1::90] = 0.0, 1.0  # log-odds clamped at ±16
    cal, by_hand, x = Protected(**params), ProtectedByHand(*params.values()), log_odds(s)
    for i in range(len(s)):
        assert cal.predict_one(s[i]) == pytest.approx(by_hand.predict(x[i]), rel=1e-11)
        cal.learn_one(s[i], y[i], w[i])
        by_hand.learn(x[i], y[i], w[i])


def test_protected_is_the_mixture_over_all_paths_of_jumping_calibrators():
    """The meaning of the capitals: a path names the calibrator of each outcome, starts at the score, and jumps with
    probability J to a calibrator drawn from all nine. Here every path is walked."""
    s, y = [0.2, 0.9, 0.6, 0.35], [1, 0, 1]
    said = [[sigmoid(beta * log_odds(score) + alpha) for alpha, beta in COX] for score in s]
    top = bottom = 0.0
    for score_only in (True, False):
        for rate in (1e-2, 1e-3, 1e-4):
            for path in itertools.product(range(9), repeat=3):
                states = (0, 0, 0, 0) if score_only else (0, *path)
                prior = 0.5 / 3.0 * (1.0 / 729.0 if score_only else 1.0)
                for before, after in itertools.pairwise(() if score_only else states):
                    prior *= rate / 9.0 + (1.0 - rate) * (before == after)
                likelihood = math.prod(said[t][states[t]] if y[t] else 1.0 - said[t][states[t]] for t in range(3))
                bottom += prior * likelihood
                top += prior * likelihood * said[3][states[3]]
    cal = Protected()
    cal.learn_many(s[:3], y)
    assert cal.predict_one(s[3]) == pytest.approx(top / bottom, rel=1e-12)


def loss(p, y):
    """Log loss, each."""
    return -np.log(np.where(np.asarray(y) > 0, p, 1.0 - np.asarray(p)))


@pytest.mark.parametrize("passive", [0.5, 0.1])
@pytest.mark.parametrize("kind", ["calibrated", "overconfident", "against it", "fooled", "weights up to 1"])
def test_protected_loses_at_most_log_1_over_passive(kind, passive):
    """At every moment of every stream, those made against it included."""
    rng = np.random.default_rng(5)
    cal, lost, base, worst = Protected(passive=passive), 0.0, 0.0, -math.inf
    for k in range(3_000):
        s = float(rng.uniform(0.001, 0.999))
        p, w = cal.predict_one(s), 1.0
        y = rng.random() < s
        if kind == "overconfident":
            y = rng.random() < sigmoid(0.4 * log_odds(s))
        if kind == "against it":
            y = p < 0.5
        if kind == "fooled":  # towards a calibrator for a hundred outcomes, then back to the score
            y = rng.random() < (sigmoid(2.0 * log_odds(s) + 1.0) if k // 100 % 2 else s)
        if kind == "weights up to 1":
            w = float(rng.random())
        lost += w * loss(p, y)
        base += w * loss(s, y)
        worst = max(worst, lost - base)
        cal.learn_one(s, y, w)
    assert worst <= math.log(1.0 / passive) + 1e-9
    if kind == "calibrated":
        assert worst > 0.0  # the bound is about something
    if kind == "overconfident":
        assert lost < 0.92 * base


def test_protected_does_not_underflow_on_a_million_outcomes():
    """Log ratios grow to hundreds of thousands; the shares stay shares, and a change is still found."""
    size = 1_000_000 if kernel_form() == "compiled" else 20_000
    rng = np.random.default_rng(6)
    s = rng.uniform(0.01, 0.99, size)
    cal = Protected()
    cal.learn_many(s, rng.random(size) < sigmoid(2.0 * log_odds(s) + 1.0))
    probes = np.linspace(0.05, 0.95, 19)
    np.testing.assert_allclose(cal.predict_many(probes), sigmoid(2.0 * log_odds(probes) + 1.0), rtol=0.0, atol=1e-3)
    s = rng.uniform(0.01, 0.99, 2_000)
    cal.learn_many(s, rng.random(2_000) < sigmoid(0.5 * log_odds(s) - 1.0))
    np.testing.assert_allclose(cal.predict_many(probes), sigmoid(0.5 * log_odds(probes) - 1.0), rtol=0.0, atol=2e-2)


@pytest.mark.parametrize(
    "params",
    [{"jump_rates": rates} for rates in ((), [0.01], (0.0,), (1.5,), (math.nan,), (True,), ("0.1",), 0.01)]
    + [{"passive": passive} for passive in (0.0, 1.0, -0.5, math.nan, True, "0.5", None)],
)
def test_protected_refuses_other_parameters(params):
    with pytest.raises(InputError, match="is not possible; give"):
        Protected(**params)
