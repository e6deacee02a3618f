"""The sequential methods against plain transcriptions of their papers, and against what the papers promise of them.

A transcription works in whole matrices and lists, from the formulas alone, and shares no code with what it judges.
"""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from streamcal import OnlineBeta, OnlinePlatt
from streamcal.calibrators import online_beta


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
