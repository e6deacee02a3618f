"""The sequential methods against plain transcriptions of their papers, and against what the papers promise of them.

A transcription works in whole matrices and lists, from the formulas alone, and shares no code with the package.
"""

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize
from weights_by_hand import WeightsByHand

from streamcal import HedgedOPS, InputError, OnlineBeta, OnlinePlatt, Protected, StateError, TrackingOPS
from streamcal.app.doctor import kernel_form
from streamcal.calibrators import newton
from streamcal.kernels.common.weights import WeightScale
from streamcal.kernels.mixture.hedging import Hedger
from streamcal.kernels.newton.online_newton import OnlineNewton
from streamcal.states import signed


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


# ---- online Platt scaling at every memory --------------------------------------------------------------------------


class LinesByHand:
    """Every line from the first label on, with a weight of its own, in whole matrices; sums from the beginning."""

    memories, prior = np.array([0.0, -0.2, 10.0, 100.0, 1e3, 1e4, 1e5]), np.array([1.0, 4.0, *[1.0] * 5]) / 10.0

    def __init__(self):
        self.theta, self.a = np.array([[0.0, 1.0]] * 7), np.zeros((7, 2, 2))
        self.v, self.information, self.seen = self.prior.copy(), 0.0, []
        self.weights, self.capped = WeightsByHand(), 0

    def issue(self, x):
        """Return the information, the forecast and those of the lines."""
        each = sigmoid(self.theta @ [1.0, x])
        return self.information, self.v @ each, each

    def learn(self, x, y, w, issued):
        before, p, each = issued
        steps = self.weights.steps(w)
        worth = sum(steps)
        u = worth * 4.0 * p * (1.0 - p)
        share = u / (self.information + u + 1e4)
        rate = worth * (1.0 + self.information - before) ** -0.625
        updated = self.v * (each if y else 1.0 - each) ** rate
        self.v = (1.0 - share) * updated / updated.sum() + share * self.prior
        for one in steps:
            self.move(x, y, one, u / len(steps), 2.0 if self.information > before else 0.0)
        late = self.memories > 10.0 * self.information
        self.information += u
        for k in np.flatnonzero(late):
            self.theta[k], self.a[k] = self.theta[0], self.a[0]

    def move(self, x, y, w, u, slope):
        self.seen = [(place, (1.0 - 1e-5 * u) * other) for place, other in self.seen] + [(x, u)]
        places, weights = np.array(self.seen).T
        mean, total = np.average(places, weights=weights), weights.sum()
        spread = (weights @ (places - mean) ** 2 + 1.0) / (total + 1.0) + slope
        prior = np.outer([1.0, mean], [1.0, mean]) + np.diag([0.0, spread])
        f = np.array([1.0, x])
        for k, memory in enumerate(self.memories):
            memory = max(10.0, -memory * self.information) if memory < 0.0 else memory
            keep = memory / (memory + u) if memory else 1.0
            s = sigmoid(self.theta[k] @ f)
            self.a[k] = keep * self.a[k] + w * s * (1.0 - s) * np.outer(f, f)
            pull = (1.0 - keep) * prior @ (self.theta[k] - [0.0, 1.0])
            step = np.linalg.solve(self.a[k] + prior, w * (y - s) * f - pull)
            self.capped += abs(step @ f) > 4.0
            self.theta[k] += step * min(1.0, 4.0 / abs(step @ f))


def unrounded(cal, x):
    """Return the record of a forecast at the log-odds x before it is rounded for those that wait."""
    weights, slopes, offsets = map(np.array, cal._ladder.lines())
    each = sigmoid(slopes * x + offsets)
    return [cal._ladder.information, min(weights @ each, 1.0), *each, *[each[0]] * (7 - len(each))]


def far_labels(seed, n):
    """Scores of which some are clamped and labelled against what they say."""
    s, y, w = stream(seed, n, weights="any")
    ends = np.random.default_rng(seed).random(n) < 0.03
    return np.where(ends, 0.0, s), np.where(ends, 1.0, y), w


LADDER_STREAMS = {
    "ones": lambda: stream(3, 400, shape=3.0),
    "weights": lambda: stream(4, 400, shape=0.5, weights="any"),
    "far": lambda: far_labels(5, 400),
}


@pytest.mark.sample(6)
@pytest.mark.parametrize("late", [0, 7])
@pytest.mark.parametrize("name", LADDER_STREAMS)
def test_online_platt_is_a_mixture_of_lines_of_every_memory(name, late):
    """Lines enter as copies of the first: at 0, 1, 10 and 100 units here."""
    s, y, w = LADDER_STREAMS[name]()
    cal, by_hand, waiting = OnlinePlatt(), LinesByHand(), []
    for i, x in enumerate(log_odds(s)):
        issued = by_hand.issue(x)
        assert cal.predict_one(s[i]) == pytest.approx(issued[1], rel=1e-8)
        assert cal.map()(s[i]) == pytest.approx(cal.predict_one(s[i]), rel=1e-15)
        waiting.append((i, x, unrounded(cal, x), issued))
        if len(waiting) > late:
            k, at, own, expected = waiting.pop(0)
            by_hand.learn(at, y[k], w[k], expected)
            if late:
                cal._learn_issued(at, y[k], w[k], np.nan, own)
            else:
                cal.learn_one(s[k], y[k], w[k])
    assert len(cal.map().slopes) == 5
    assert cal.n == pytest.approx(w[: len(s) - late].sum())
    assert (by_hand.capped > 0) == (name == "far")


@pytest.mark.parametrize("lag", [pytest.param(20, marks=pytest.mark.full), 200])
def test_what_waits_is_rounded_and_loses_nothing(lag):
    """By less than 1e-3 of what it gains on the score; what is rounded stays as it is."""
    s, y, _ = stream(6, 3_000, shape=3.0)
    losses = []
    for rounds in (True, False):
        cal, waiting, lost = OnlinePlatt(), [], 0.0
        for score, label in zip(s.tolist(), y > 0.0, strict=True):
            x = cal.scale.coordinate(score)
            p, record = cal.predict_one(score), cal._issue(x, np.nan)
            exact = unrounded(cal, x)
            np.testing.assert_allclose(log_odds(np.array(record[1:])), log_odds(np.array(exact[1:])), atol=2e-3)
            assert record[:2] == [exact[0], pytest.approx(p, rel=1e-15)]
            content = cal._issue_packed(score, None, False)[1]
            assert len(content) == 22
            assert cal._unpacked(x, p, content) == record
            lost -= np.log(p if label else 1.0 - p) - np.log(score if label else 1.0 - score)
            waiting.append((x, label, record if rounds else exact))
            if len(waiting) > lag:
                x, label, record = waiting.pop(0)
                cal._learn_issued(x, float(label), 1.0, np.nan, record)
        losses.append(lost)
    assert losses[1] < -30.0
    assert abs(losses[0] - losses[1]) < 1e-3 * abs(losses[1])
    for content in (b"", bytes(21), bytes(29), bytes(38)):
        with pytest.raises(InputError, match=f"{len(content)} bytes"):
            cal._unpacked(0.0, 0.5, content)


def test_late_labels_do_not_make_a_slope_of_scores_that_are_alike():
    """The first labels are of scores near 0.02; the base learns too, and its later scores are near 0.3."""
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.normal(-3.8, 0.05, 1_000), rng.normal(-1.0, 0.1, 1_000)])
    y = rng.random(2_000) < 0.27
    cal = OnlinePlatt()
    issued = [cal.issue(float(score)) for score in sigmoid(x)]
    for one, label in zip(issued[:1_000], y, strict=False):
        cal.settle(one, bool(label))
    assert all(0.0 < slope < 2.0 for slope in cal.map().slopes)


def test_a_record_that_was_not_issued_is_refused():
    cal = OnlinePlatt()
    record = cal._issue(0.5, math.nan)
    for wrong in (record[1:], [-1.0, *record[1:]], [*record[:-1], 1.5], [*record[:-1], math.nan]):
        with pytest.raises(InputError, match="not the numbers that were issued"):
            cal._learn_issued(0.5, 1.0, 1.0, math.nan, wrong)
    assert cal.n == 0.0


def kernel_states():
    """Yield the kernel's state of an `OnlinePlatt`, and damaged ones."""
    cal = OnlinePlatt()
    cal.learn_many(*stream(8, 300)[:2])
    state = cal.state_dict()
    yield state, None
    damages = {
        "sum to 1": lambda kernel: kernel[3].__setitem__(0, 0.5 * kernel[3][0]),
        "let 5 lines enter": lambda kernel: kernel[0].append(1.0),
        "let 7 lines enter": lambda kernel: kernel[5].__setitem__(1, 1e5),
        "below 0": lambda kernel: kernel[2].__setitem__(0, -1.0),
        "products": lambda kernel: kernel[2].__setitem__(1, 1e6),
        "places": lambda kernel: kernel.__setitem__(4, [0.0, 0.0, 0.0]),
    }
    for message, damage in damages.items():
        damaged = json.loads(json.dumps(cal.state_dict()))
        damage(damaged["learned"]["kernel"])
        yield signed(damaged), message


def test_damaged_states_of_online_platt_are_refused():
    for state, message in kernel_states():
        if message is None:
            assert OnlinePlatt.from_state(state).state_dict() == state
        else:
            with pytest.raises(StateError, match=message):
                OnlinePlatt.from_state(state)


# ---- online beta scaling -------------------------------------------------------------------------------------------


class OnlineBetaByHand:
    """Gupta & Ramdas 2023, Algorithm 1 on beta features, in matrices, with a general projection; weights are ours."""

    def __init__(self, radius=100.0):
        self.theta, self.a, self.radius, self.projected = np.array([1.0, 1.0, 0.0]), 25.0 * np.eye(3), radius, 0
        self.weights = WeightsByHand()

    def learn(self, x, y, w):
        z = np.array([-np.logaddexp(0.0, -x), np.logaddexp(0.0, x), 1.0])  # log s, −log(1 − s), 1
        for r in self.weights.steps(w):
            self.step(z, y, r)

    def step(self, z, y, r):
        g = (sigmoid(self.theta @ z) - y) * z
        self.a = self.a + r * np.outer(g, g)
        self.theta = self.theta - r * np.linalg.solve(self.a, g) / 0.1
        if np.linalg.norm(self.theta) > self.radius:
            self.theta = self.nearest_in_ball(self.theta)
            self.projected += 1

    def nearest_in_ball(self, target):
        """Return argmin (θ − target)ᵀ A (θ − target) over |θ| ≤ radius, by SLSQP in units of the radius."""
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


@pytest.mark.sample(2)
@pytest.mark.parametrize("weights", ["one", "any"])
def test_online_beta_is_the_plain_transcription(weights):
    s, y, w = stream(1, 600, shape=4.0, weights=weights)
    s[::200], s[1::200] = 0.0, 1.0  # log-odds clamped at ±16
    cal, by_hand, x = OnlineBeta(), OnlineBetaByHand(), log_odds(s)
    for i in range(len(s)):
        cal.learn_one(s[i], y[i], w[i])
        by_hand.learn(x[i], y[i], w[i])
        # The same sums in another order; every step corrects those before, so that rounding does not add up.
        np.testing.assert_allclose(theta_of(cal), by_hand.theta, rtol=0.0, atol=1e-11)
    assert not by_hand.projected


def test_online_beta_projects_onto_its_ball(monkeypatch):
    monkeypatch.setattr(newton, "RADIUS", 1.7)
    s, y, _ = stream(2, 300, shape=0.2)
    cal, by_hand, x = OnlineBeta(), OnlineBetaByHand(radius=1.7), log_odds(s)
    for i in range(len(s)):
        cal.learn_one(s[i], y[i])
        by_hand.learn(x[i], y[i], 1.0)
        # SLSQP stops where the objective no longer falls in double precision: at the root of 1e-16, in θ.
        np.testing.assert_allclose(theta_of(cal), by_hand.theta, rtol=0.0, atol=1e-6)
        assert np.linalg.norm(theta_of(cal)) <= 1.7 * (1.0 + 1e-12)
    assert by_hand.projected > 50


@pytest.mark.parametrize("exponent", [*range(-60, 60, 10), 59])
def test_online_beta_stays_in_its_ball(exponent):
    """After one step of any size, and after many."""
    many = OnlineBeta()
    for k in range(36):
        once, score, w = OnlineBeta(), 1.0 / (1.0 + math.exp(k % 7 - 3.0)), 10.0 ** (exponent + 0.1 * (k % 9))
        for cal in (once, many):
            cal.learn_one(score, k % 3 == 0, w)
            assert np.linalg.norm(theta_of(cal)) <= 100.0 * (1.0 + 1e-12)


def solved(matrix, right):
    """Return the solution of a system of Fractions, by elimination."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for i, pivot in enumerate(rows):
        for row in rows[i + 1 :]:
            row[:] = [entry - row[i] / pivot[i] * top for entry, top in zip(row, pivot, strict=True)]
    result = [Fraction(0)] * len(rows)
    for i, row in reversed(list(enumerate(rows))):
        result[i] = (row[-1] - sum(a * b for a, b in zip(row[i + 1 : -1], result[i + 1 :], strict=True))) / row[i]
    return result


def product(matrix, vector):
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def step_in_fractions(theta, a, g, radius):
    """θ after the step with gradient g, and whether it was projected; log λ by bisection."""
    size = range(len(g))
    a = [[a[i][j] + g[i] * g[j] for j in size] for i in size]
    z = [t - q * 10 for t, q in zip(theta, solved(a, g), strict=True)]
    low, high, pull = -600.0, 600.0, product(a, z)

    def at(log_multiplier):
        multiplier = Fraction(2.0 ** (log_multiplier % 1)) * Fraction(2) ** math.floor(log_multiplier)
        return solved([[a[i][j] + (i == j) * multiplier for j in size] for i in size], pull)

    if sum(t * t for t in z) <= radius**2:
        return z, False
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if sum(t * t for t in at(middle)) > radius**2 else (low, middle)
    return at(high), True


@pytest.mark.sample(2)
@pytest.mark.parametrize("size", [2, 3])
def test_a_projection_is_exact_beside_any_curvature(size):
    """A that is up to 10^60 times as heavy in one direction: the multiplier is looked for in the others."""
    rng, projected = np.random.default_rng(12), 0
    for _ in range(40):
        theta = rng.normal(size=size)
        theta *= 1.6 / np.linalg.norm(theta)
        d, lower = 25.0 * 10.0 ** rng.choice([0.0, 6.0, 60.0], size), rng.normal(size=size * (size - 1) // 2)
        newton = OnlineNewton(theta, 0.1, 25.0, 1.6, 1.0, 16.0)
        newton.load(*theta, *d, *lower, 0.0, 0.0, 0.0)
        unit = [[Fraction(i == j) for j in range(size)] for i in range(size)]
        for (i, j), entry in zip(((1, 0), (2, 0), (2, 1)), lower, strict=False):
            unit[i][j] = Fraction(entry)
        x, y = rng.uniform(-6.0, 6.0), float(rng.random() < 0.3)
        z = np.array([x, 1.0]) if size == 2 else np.array([-np.logaddexp(0.0, -x), np.logaddexp(0.0, x), 1.0])
        g = [Fraction((newton.predict(x) - y) * entry) for entry in z]
        a = [
            [sum(unit[i][k] * Fraction(d[k]) * unit[j][k] for k in range(size)) for j in range(size)]
            for i in range(size)
        ]
        expected, was = step_in_fractions([Fraction(t) for t in theta], a, g, Fraction(1.6))
        newton.step(x, y, 1.0)
        projected += was
        np.testing.assert_allclose(newton.state()[:size], [float(t) for t in expected], rtol=0.0, atol=1e-12)
    assert projected >= 10


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
    assert off["online-platt"] > 0.075


# ---- protected classification --------------------------------------------------------------------------------------

COX = [(alpha, beta) for alpha in (0.0, 1.0, -1.0) for beta in (1.0, 0.5, 2.0)]


class ProtectedByHand:
    """Vovk, Petej & Gammerman 2021, the Composite Jumper, in plain wealth, which may underflow: for short streams.

    What a calibrator of the list says is its probability of the label; the first is the score itself.
    """

    def __init__(self, rates=(1e-2, 1e-3, 1e-4), passive=0.5):
        self.rates = rates
        self.passive = passive
        self.active = [[(1.0 - passive) / len(rates)] + [0.0] * 8 for _ in rates]
        self.weights = WeightsByHand()

    def predict(self, x):
        said = [sigmoid(beta * x + alpha) for alpha, beta in COX]
        held = [(self.passive, said[0])]
        held += [(wealth, p) for row in self.active for wealth, p in zip(row, said, strict=True)]
        return sum(wealth * p for wealth, p in held) / sum(wealth for wealth, _ in held)

    def learn(self, x, y, w):
        r = self.weights.relative(w)
        gains = [sigmoid((2.0 * y - 1.0) * (beta * x + alpha)) ** r for alpha, beta in COX]
        self.passive *= gains[0]
        for j, rate in enumerate(self.rates):
            row = [wealth * gain for wealth, gain in zip(self.active[j], gains, strict=True)]
            self.active[j] = [(1.0 - rate) * wealth + rate * sum(row) / 9.0 for wealth in row]


@pytest.mark.sample(2)
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
    """Walk every path of the mixture, which is what the wealth means.

    A path names the calibrator of each outcome, starts at the score, and jumps with probability J to a calibrator drawn
    from all nine.
    """
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


@pytest.mark.sample(8)
@pytest.mark.parametrize("passive", [0.5, 0.1])
@pytest.mark.parametrize("kind", ["calibrated", "overconfident", "against it", "fooled", "weights that fall"])
def test_protected_loses_at_most_log_1_over_passive(kind, passive):
    """At every moment of every stream, those made against it included."""
    rng = np.random.default_rng(5)
    cal, lost, base, worst = Protected(passive=passive), 0.0, 0.0, -math.inf
    scale = WeightScale()
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
        if kind == "weights that fall":  # so that all are up to 1 relative to their mean so far
            w = 0.9985**k
        r = scale.relative(w)
        assert r <= 1.0
        lost += r * loss(p, y)
        base += r * loss(s, y)
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


# ---- calibeating ---------------------------------------------------------------------------------------------------


def bins_of(p, bins):
    """[0, 1/bins), [1/bins, 2/bins), ..., the last with its end."""
    return np.minimum((np.asarray(p) * bins).astype(int), bins - 1)


def ops_forecasts(s, y, w):
    """Return the forecasts of OPS, which has oracles of its own, before each outcome."""
    cal, said = OnlinePlatt(discount=1.0), []
    for i in range(len(s)):
        said.append(cal.predict_one(s[i]))
        cal.learn_one(s[i], y[i], w[i])
    return np.array(said)


@pytest.mark.sample(3)
@pytest.mark.parametrize("weights", ["one", "any"])
@pytest.mark.parametrize("bins", [1, 4, 10])
def test_tops_is_the_mean_outcome_of_earlier_forecasts_in_the_bin(bins, weights):
    """Gupta & Ramdas 2023, §3, every mean from the beginning, with a pseudo-outcome at the midpoint."""
    s, y, w = stream(7, 600, shape=2.0, weights=weights)
    place, cal = bins_of(ops_forecasts(s, y, w), bins), TrackingOPS(bins)
    scale = WeightsByHand()
    r = np.array([scale.relative(one) for one in w])
    for i in range(len(s)):
        before = place[:i] == place[i]
        positive = (place[i] + 0.5) / bins + np.sum((r * y)[:i][before])
        assert cal.predict_one(s[i]) == pytest.approx(positive / (1.0 + np.sum(r[:i][before])), rel=1e-13)
        cal.learn_one(s[i], y[i], w[i])


@pytest.mark.parametrize("kind", ["smooth", "a hump", "drifting", "against it"])
def test_tops_loses_little_more_than_the_refinement_of_its_bins(kind):
    """Foster and Hart's promise, with the constants of a mean that starts at a pseudo-outcome, at every moment."""
    rng = np.random.default_rng(8)
    n, bins = 4_000, 10
    cal, ops = TrackingOPS(bins), OnlinePlatt(discount=1.0)
    lost, raw, inside = 0.0, 0.0, [[] for _ in range(bins)]
    for k in range(n):
        s = float(rng.random())
        p, forecast = cal.predict_one(s), ops.predict_one(s)
        hump = 0.1 if s < 0.5 else 0.9 if s < 0.7 else 0.5
        truth = {"smooth": s**3, "a hump": hump, "drifting": s ** (1.0 + k % 1000 / 100.0)}
        y = p < 0.5 if kind == "against it" else rng.random() < truth[kind]
        lost += (p - y) ** 2
        raw += (forecast - y) ** 2
        inside[int(bins_of(forecast, bins))].append(float(y))
        cal.learn_one(s, y)
        ops.learn_one(s, y)
        if k % 100 == 99:
            refinement = sum(len(ys) * np.var(ys) for ys in inside if ys)
            assert lost <= refinement + sum(math.log(len(ys) + 1.0) + 1.0 for ys in inside if ys)
    if kind == "a hump":
        assert lost < 0.95 * raw, "bins must beat a sigmoid where the truth is none"


class F99ByHand:
    """Foster 1999 for one row, in lists: every share from the outcomes themselves."""

    def __init__(self, places, own):
        self.places, self.own, self.past = places, own, [[] for _ in range(places)]

    def distribution(self):
        """[(place, probability)]."""
        k = self.places
        q = [sum(w * y for y, w in past) / sum(w for _, w in past) if past else None for past in self.past]
        d = [-0.5 / k if q[i] is None else i / k - q[i] for i in range(k)]
        e = [-0.5 / k if q[i] is None else q[i] - (i + 1) / k for i in range(k)]
        right = [i for i in range(k) if d[i] <= 0.0 and e[i] <= 0.0]
        if right:
            return [(self.own if self.own in right else right[0], 1.0)]
        i = next(i for i in range(k - 1) if d[i + 1] > 0.0)
        assert e[i] > 0.0
        share = d[i + 1] / (d[i + 1] + e[i])
        return [(i, share), (i + 1, 1.0 - share)]


def draw(seed, number):
    """SplitMix64, by its definition."""
    z = (seed + (number + 1) * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return ((z ^ (z >> 31)) >> 11) / 2**53


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("bins", "seed", "weights"), [(10, 0, "one"), (4, 1, "any"), (1, 2, "one"), (3, 2**64 - 1, "one")]
)
def test_hops_is_foster_s_forecaster_in_each_bin(bins, seed, weights):
    rng = np.random.default_rng(9)
    s, _, w = stream(9, 500, weights=weights)
    y = (rng.random(500) < 0.5 + 0.4 * np.sin(np.arange(500) / 20.0)).astype(float)
    cal, rows, drawn = HedgedOPS(bins, seed=seed), [F99ByHand(bins, own) for own in range(bins)], 0
    place, scale = bins_of(ops_forecasts(s, y, w), bins), WeightsByHand()
    for k in range(len(s)):
        row = rows[place[k]]
        choice = row.distribution()
        drawn += len(choice) - 1
        chosen = choice[0][0] if draw(seed, k) < choice[0][1] else choice[-1][0]
        assert cal.predict_one(s[k]) == pytest.approx((chosen + 0.5) / bins, rel=1e-15)
        cal.learn_one(s[k], y[k], w[k])
        row.past[chosen].append((y[k], scale.relative(w[k])))
    assert drawn > 20 or bins == 1


def calibration_error(said, y):
    """Σ over the forecast values of |share of positives − forecast|·(how often)."""
    said, y = np.array(said), np.array(y, dtype=float)
    return sum(abs(np.sum(y[said == value] - value)) for value in np.unique(said)) / len(y)


@pytest.mark.sample(8)
@pytest.mark.parametrize("places", [3, 10, 25])
@pytest.mark.parametrize("adversary", ["against the mean", "against the likelier", "for the worse"])
def test_f99_keeps_its_bound_against_an_adversary_who_cannot_peek(adversary, places):
    """In one row, ε/2 + √((1 + ln T)/(εT)); the adversary knows the exact distribution of the forecast."""
    size, epsilon = 10_000, 1.0 / places
    hedger, weight, positive = Hedger(places, 5), np.zeros(places), np.zeros(places)
    lower, upper = np.arange(places) * epsilon, np.arange(1, places + 1) * epsilon
    for _ in range(size):
        share = np.where(weight > 0.0, positive / np.maximum(weight, 1.0), (lower + upper) / 2.0)
        deficit, excess = lower - share, share - upper
        right = np.flatnonzero((deficit <= 0.0) & (excess <= 0.0))
        i = right[0] if len(right) else np.flatnonzero(deficit > 0.0)[0] - 1
        chance = 1.0 if len(right) else deficit[i + 1] / (deficit[i + 1] + excess[i])
        mean = (i + 0.5 + (1.0 - chance)) * epsilon
        likelier = (i + 0.5 + (chance < 0.5)) * epsilon
        worse = share[i] >= likelier  # what moves the share of the lower place on in its direction
        y = {"against the mean": mean < 0.5, "against the likelier": likelier < 0.5, "for the worse": worse}[adversary]
        chosen = round(hedger.forecast(0) * places - 0.5)
        weight[chosen] += 1.0
        positive[chosen] += y
        hedger.learn(0, float(y), 1.0)
    error = np.abs(positive - weight * (lower + upper) / 2.0).sum() / size
    assert error <= epsilon / 2.0 + math.sqrt((1.0 + math.log(size)) * places / size)


@pytest.mark.full
@pytest.mark.parametrize("adversary", ["against the mean", "peeking"])
def test_hops_is_calibrated_against_an_adversary_who_cannot_peek(adversary):
    """The label is chosen against the mean forecast over eight seeds on the same past, which is all one can know.

    One who sees the draw itself defeats every forecaster: the randomness is what the promise rests on.
    """
    rng, size, bins = np.random.default_rng(10), 2_000, 5
    cal, said, labels = HedgedOPS(bins, seed=3), [], []
    for _ in range(size):
        s = float(rng.choice([0.45, 0.55]))
        p = cal.predict_one(s)
        if adversary == "against the mean":
            state = cal.state_dict()
            twins = [
                HedgedOPS.from_state(signed({**state, "params": {"bins": bins, "seed": 100 + k}})) for k in range(8)
            ]
            p = float(np.mean([twin.predict_one(s) for twin in twins]))
        said.append(cal.predict_one(s))
        labels.append(p <= 0.5)
        cal.learn_one(s, labels[-1])
    error = calibration_error(said, labels)
    if adversary == "peeking":
        assert error > 0.4
    else:
        assert error <= 0.5 / bins + bins * math.sqrt((1.0 + math.log(size)) / size)
        assert error < 0.2


def test_hops_with_another_seed_draws_otherwise_and_asking_draws_nothing():
    rng = np.random.default_rng(11)
    cals, said = [HedgedOPS(seed=seed) for seed in (0, 0, 1)], [[], [], []]
    for _ in range(500):
        s, y = float(rng.random()), bool(rng.random() < 0.5)
        for cal, answers in zip(cals, said, strict=True):
            answers.append(cal.predict_one(s))
            assert [cal.predict_one(s) for _ in range(3)] == answers[-1:] * 3
            cal.learn_one(s, y)
    assert said[0] == said[1] != said[2]


@pytest.mark.parametrize(
    ("cal", "small"),
    [
        (TrackingOPS(4), lambda kernel: [kernel[0], [[1.0], [0.5]]]),
        (HedgedOPS(4), lambda kernel: [kernel[0], [[[0.0]], [[0.0]], 1]]),
        (Protected(), lambda kernel: [[[1.0]], [0.0], *kernel[2:]]),
    ],
)
def test_a_state_of_another_size_is_refused(cal, small):
    """Kernels index without bounds."""
    cal.learn_one(0.3, True)
    state = cal.state_dict()
    kernel = small(state["learned"]["kernel"])
    with pytest.raises(StateError):
        type(cal).from_state(signed({**state, "learned": {**state["learned"], "kernel": kernel}}))
