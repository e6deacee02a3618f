"""Each method against an oracle: an implementation someone else wrote, or the formula of the paper in plain NumPy.

An oracle here sees the single observations and their weights, computes its answer from the beginning, and shares no
code with what it judges.
"""

import math
import warnings
from fractions import Fraction

import clarabel
import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize, nnls
from scipy.stats import binom
from sklearn.isotonic import IsotonicRegression, isotonic_regression
from weights_by_hand import WeightsByHand

from streamcal import (
    Bernstein,
    Decay,
    Forever,
    HistogramBinning,
    Interval,
    Isotonic,
    Logit,
    OnlinePlatt,
    Platt,
    Prior,
    Probability,
    VennAbers,
    Window,
)
from streamcal.calibrators import newton

with np.errstate():  # importing the package switches NumPy's warnings off
    import venn_abers

# Two correct isotonic fits sum the same weights in another order: about 1e-15 per block, and relative to the lightest
# score among them. 1e-12 leaves room for long streams of fractional weights and none for a wrong block.
ISOTONIC = {"rtol": 0.0, "atol": 1e-12}


def observations(rng, n, *, levels=None, weights="one", shape=1.0):
    """Scores in (0, 1), labels of probability score^shape and weights; `levels` distinct scores, or all distinct."""
    s = rng.random(n) if levels is None else (rng.integers(0, levels, n) + 0.5) / levels
    y = (rng.random(n) < s**shape).astype(float)
    w = {"one": np.ones(n), "whole": rng.integers(1, 6, n).astype(float), "any": rng.uniform(0.1, 3.0, n)}[weights]
    return s, y, w


# ---- Venn-Abers ----------------------------------------------------------------------------------------------------


def two_isotonic_fits(held, query, w=1.0):
    """(p₀, p₁) as paper 003 §2 defines them: scikit-learn's fit of all observations with (query, 0), and (query, 1).

    `held` has the rows score, label, weight.
    """
    pair = []
    for label in (0.0, 1.0):
        s, y, weight = np.append(held, [[query], [label], [w]], axis=1)
        distinct, group = np.unique(s, return_inverse=True)
        total = np.bincount(group, weight)
        fit = isotonic_regression(np.bincount(group, weight * y) / total, sample_weight=total)
        pair.append(fit[np.searchsorted(distinct, query)])
    return pair


def telling_queries(rng, scores):
    """Held scores, their nearest neighbours among the floats, scores between them and scores outside."""
    some = rng.choice(scores, 3) if len(scores) else np.array([0.5])
    return np.concatenate((some, np.nextafter(some[:1], 2.0), np.nextafter(some[1:2], -1.0), rng.random(2), [0.0, 1.0]))


def assert_intervals(cal, held, queries, w=1.0):
    got = np.array([cal.predict_interval_one(q, w=w) for q in queries])
    np.testing.assert_allclose(got, [two_isotonic_fits(held, q, w) for q in queries], **ISOTONIC)


USUAL = "distinct, fractional weights"
STREAMS = {
    "ties": {"levels": 40},
    "ties, fractional weights": {"levels": 40, "weights": "any"},
    "half distinct, whole weights": {"levels": 2_000, "weights": "whole"},
    USUAL: {"weights": "any"},
}


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "stream", [pytest.param(name, marks=[pytest.mark.full] * (name not in ("ties", USUAL))) for name in STREAMS]
)
def test_venn_abers_is_two_isotonic_fits(stream):
    """10,000 random learns and unlearns a stream, checked every 250; now and then most is unlearned."""
    rng = np.random.default_rng(len(stream))
    operations, cal, held = 10_000, VennAbers(), []
    fresh = zip(*(column.tolist() for column in observations(rng, operations, **STREAMS[stream])), strict=True)
    checks = 0
    for step in range(operations):
        emptying = step // 1_000 % 5 == 4
        if held and rng.random() < (0.95 if emptying else 0.3):
            place = rng.integers(len(held))
            held[place], held[-1] = held[-1], held[place]
            cal.unlearn_one(*held.pop())
        else:
            held.append(next(fresh))
            cal.learn_one(*held[-1])
        if step % 250 == 249:
            columns = np.array(held).T
            weight = rng.choice([1.0, 0.25, 7.5])
            assert_intervals(cal, columns, telling_queries(rng, columns[0]), weight)
            checks += 1
    assert checks == operations // 250
    while held:
        cal.unlearn_one(*held.pop())
    assert cal.predict_interval_one(0.5) == (0.0, 1.0), "a ghost of what was unlearned"


@pytest.mark.parametrize("forgetting", [Window(300), Decay(half_life=150)], ids=repr)
def test_venn_abers_that_forgets_is_two_isotonic_fits(forgetting):
    rng = np.random.default_rng(4)
    s, y, w = observations(rng, 2_000, levels=500, weights="any")
    cal = VennAbers(forgetting=forgetting)
    for i in range(len(s)):
        cal.learn_one(s[i], y[i], w[i])
        if i % 100 == 99:
            rows = slice(max(0, i - 299), i + 1) if isinstance(forgetting, Window) else slice(0, i + 1)
            age = np.arange(i, -1, -1)[rows]
            faded = w[rows] * (1.0 if isinstance(forgetting, Window) else 0.5 ** (age / 150))
            got = [cal.predict_interval_one(q, w=2.0) for q in (s[i], 0.123, 0.9)]
            want = [two_isotonic_fits((s[rows], y[rows], faded), q, 2.0) for q in (s[i], 0.123, 0.9)]
            # Decay drops scores that weigh less than 2⁻³⁰ (1e-9) of the total together, which can move a fit as much.
            np.testing.assert_allclose(got, want, atol=1e-12 if isinstance(forgetting, Window) else 1e-8)


@pytest.mark.parametrize("levels", [1, 2, 30, None])
@pytest.mark.parametrize("n", [1, 2, 50, 400])
def test_venn_abers_is_the_package_venn_abers(n, levels):
    """The PyPI package `venn-abers`. It takes no weights; on unit weights no difference to the definition is known.

    Its `predict_proba` gives (1 − p, p), p the log-minimax point, and the pairs (p₀, p₁), read off the vectors of
    paper 003's Algorithms 1 to 4: F⁰ at the last calibration score ≤ s, F¹ at the first ≥ s, and 0 and 1 beyond.
    """
    rng = np.random.default_rng(n)
    for shape in (0.5, 3.0, 1e9):  # the last: negatives only
        s, y, _ = observations(rng, n, levels=levels, shape=shape)
        queries = np.concatenate((s[:20], rng.random(20), [0.0, 1.0]))
        theirs = venn_abers.VennAbers()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # 0/0 in its slopes, and an all-NaN row of them
            theirs.fit(np.column_stack((1.0 - s, s)), y)
            point, pair = theirs.predict_proba(np.column_stack((1.0 - queries, queries)))
        ours = VennAbers()
        ours.learn_many(s, y)
        np.testing.assert_allclose(np.column_stack(ours.predict_interval_many(queries)), pair, **ISOTONIC)
        np.testing.assert_allclose(ours.predict_many(queries), point[:, 1], **ISOTONIC)


def regrets_in_log_loss(p0, p1, p):
    """Paper 003, (3) and (4) with K = 1: the loss of p beyond that of the right member, under label 1 and label 0."""
    return np.log(p1 / p), np.log((1.0 - p0) / (1.0 - p))


def regrets_in_brier_score(p0, p1, p):
    return (1.0 - p) ** 2 - (1.0 - p1) ** 2, p**2 - p0**2


MINIMAX = {"log-minimax": regrets_in_log_loss, "brier-minimax": regrets_in_brier_score}


def pairs_and_points(point):
    """Intervals of real calibrators, balanced and rare, young and old, and the point made of each."""
    pairs = []
    for n, shape in ((3, 1.0), (30, 1.0), (300, 0.3), (3_000, 6.0)):
        s, y, _ = observations(np.random.default_rng(n), n, shape=shape)
        cal = VennAbers(point)
        cal.learn_many(s, y)
        queries = np.linspace(0.01, 0.99, 99)
        pairs.append((*cal.predict_interval_many(queries), cal.predict_many(queries)))
        np.testing.assert_array_equal([cal.predict_one(q) for q in queries], pairs[-1][2])
        np.testing.assert_array_equal(cal.map().predict_many(queries), pairs[-1][2])
    return (np.concatenate(columns) for columns in zip(*pairs, strict=True))


@pytest.mark.parametrize("point", MINIMAX)
def test_minimax_points_equalise_the_two_regrets_and_no_other_point_does_better(point):
    p0, p1, p = pairs_and_points(point)
    assert np.all(p0 < p1), "paper 003 §2"
    if_one, if_zero = MINIMAX[point](p0, p1, p)
    np.testing.assert_allclose(if_one, if_zero, rtol=0.0, atol=1e-12)  # rounding of numbers near 1
    for other in (
        p - 1e-3,
        p + 1e-3,
    ):  # the worst regret is convex in p: worse on both sides, worse everywhere
        inside = (other > 0.0) & (other < 1.0)
        worst = np.maximum(*MINIMAX[point](p0[inside], p1[inside], other[inside]))
        assert inside.mean() > 0.9
        assert np.all(worst > if_one[inside] + 5e-7)  # both grow by the square of the step, 1e-6, at the least


def test_self_consistent_point_is_the_mean_of_the_interval_under_itself():
    p0, p1, p = pairs_and_points("self-consistent")
    assert np.any(p0 > 0.0)
    assert np.any(p1 < 1.0)
    np.testing.assert_allclose(p, (1.0 - p) * p0 + p * p1, rtol=0.0, atol=1e-15)
    np.testing.assert_array_equal(p[(p0 == 0.0) & (p1 < 1.0)], 0.0)


# ---- Isotonic ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [1, 7, 200, None])
@pytest.mark.parametrize("weights", ["one", "any"])
def test_isotonic_is_scikit_learns(levels, weights):
    """At, between and outside the scores, after a third of what was learned has been unlearned."""
    rng = np.random.default_rng(11)
    s, y, w = observations(rng, 900, levels=levels, weights=weights)
    s = 0.2 + 0.6 * s  # so that there is an outside
    cal = Isotonic()
    cal.learn_many(s, y, w)
    for i in range(600, 900):
        cal.unlearn_one(s[i], y[i], w[i])
    theirs = IsotonicRegression(out_of_bounds="clip").fit(s[:600], y[:600], sample_weight=w[:600])
    queries = np.concatenate((s, rng.random(500), [0.0, 1.0]))
    np.testing.assert_allclose(cal.predict_many(queries), theirs.predict(queries), **ISOTONIC)
    np.testing.assert_allclose(cal.map().predict_many(queries), theirs.predict(queries), **ISOTONIC)
    np.testing.assert_allclose([cal.predict_one(q) for q in queries], theirs.predict(queries), **ISOTONIC)


def test_isotonic_on_a_window_is_scikit_learns_fit_of_the_suffix():
    rng = np.random.default_rng(12)
    s, y, w = observations(rng, 1_200, weights="any")
    cal, queries = Isotonic(scale=Interval(), forgetting=Window(250)), rng.normal(size=300)
    z = np.log(s / (1.0 - s))
    for i in range(len(s)):
        cal.learn_one(z[i], y[i], w[i])
        if i % 150 == 149:
            suffix = slice(max(0, i - 249), i + 1)
            theirs = IsotonicRegression(out_of_bounds="clip").fit(z[suffix], y[suffix], sample_weight=w[suffix])
            np.testing.assert_allclose(cal.predict_many(queries), theirs.predict(queries), **ISOTONIC)


# ---- Platt ---------------------------------------------------------------------------------------------------------


def platt_by_scipy(x, y, w):
    """Slope, offset and attained loss of paper 003, (5) to (7), over slope ≥ 0, with weights for counts."""
    k_plus, k_minus = w[y == 1.0].sum(), w[y == 0.0].sum()
    t = np.where(y == 1.0, (k_plus + 1.0) / (k_plus + 2.0), 1.0 / (k_minus + 2.0))

    def loss(theta):
        eta = theta[0] * x + theta[1]
        # −t log p − (1 − t) log(1 − p) with p = 1/(1 + exp(−η)), without overflow
        return np.sum(w * (t * np.logaddexp(0.0, -eta) + (1.0 - t) * np.logaddexp(0.0, eta))) / w.sum()

    def gradient(theta):
        p = 0.5 * (1.0 + np.tanh(0.5 * (theta[0] * x + theta[1])))
        return np.array([np.sum(w * (p - t) * x), np.sum(w * (p - t))]) / w.sum()

    tight = {"ftol": 1e-16, "gtol": 1e-12, "maxiter": 10_000}
    fit = minimize(loss, (0.5, 0.0), jac=gradient, method="L-BFGS-B", bounds=[(0.0, None), (None, None)], options=tight)
    return fit.x, loss


PLATT_STREAMS = {
    "informative": {"weights": "any"},
    "ties": {"levels": 9, "weights": "whole"},
    "rare": {"shape": 40.0},
    "one class": {"shape": 1e9},
    "overconfident": {"shape": 0.2, "weights": "any"},
}


@pytest.mark.parametrize("stream", PLATT_STREAMS)
def test_platt_is_scipys_minimum(stream):
    s, y, w = observations(np.random.default_rng(21), 1_500, **PLATT_STREAMS[stream])
    x = np.log(s) - np.log1p(-s)
    (slope, offset), loss = platt_by_scipy(x, y, w)
    cal = Platt(resolution=None)
    cal.learn_many(s, y, w)
    ours = cal.map()
    assert loss((ours.slope, ours.offset)) <= loss((slope, offset)) + 1e-15  # rounding of a loss below 1
    # L-BFGS-B stops where the loss no longer falls: a relative 1e-16 of it is 1e-8 of the parameters, times the
    # condition of a problem with few positives.
    np.testing.assert_allclose(ours.at_many(x), 1.0 / (1.0 + np.exp(-(slope * x + offset))), rtol=0.0, atol=1e-6)
    on_grid = Platt()
    on_grid.learn_many(s, y, w)
    np.testing.assert_allclose(on_grid.predict_many(s), ours.at_many(x), rtol=0.0, atol=1e-4)  # promised of the grid


def test_platt_keeps_the_slope_at_zero_where_scores_mislead():
    s, y, w = observations(np.random.default_rng(22), 800, weights="any")
    y = 1.0 - y
    cal = Platt(scale=Interval(0.0, 1.0), resolution=None)
    cal.learn_many(s, y, w)
    (slope, offset), _ = platt_by_scipy(s, y, w)
    assert slope == 0.0
    assert cal.map().slope == 0.0
    assert cal.predict_one(0.3) == pytest.approx(1.0 / (1.0 + math.exp(-offset)), abs=1e-7)  # L-BFGS-B, as above


@pytest.mark.parametrize("w", [1e15, 1e17, 1e60])
@pytest.mark.parametrize("y", [0, 1])
def test_platt_of_one_heavy_label_is_its_target(w, y):
    """Whose distance from 1 is less than rounding."""
    cal = Platt()
    cal.learn_one(0.9, y, w)
    p = cal.predict_one(0.9)
    wrong = 1.0 - p if y else p
    assert wrong == pytest.approx(1.0 / w, rel=1e-9, abs=3e-16 if y else 0.0)


def test_platt_of_margins_on_a_window_is_scipys_minimum_of_the_suffix():
    """The counts k₊ and k₋ are those of the window too, and every solve but the first starts warm."""
    s, y, w = observations(np.random.default_rng(23), 900, weights="whole")
    z = 3.0 * s - 1.0
    cal = Platt(scale=Interval(), resolution=None, forgetting=Window(200))
    for i in range(len(z)):
        cal.learn_one(z[i], y[i], w[i])
        if i % 180 == 179:
            suffix = slice(max(0, i - 199), i + 1)
            (slope, offset), loss = platt_by_scipy(z[suffix], y[suffix], w[suffix])
            ours = cal.map()
            assert loss((ours.slope, ours.offset)) <= loss((slope, offset)) + 1e-15
            np.testing.assert_allclose(ours.at_many(z), 1.0 / (1.0 + np.exp(-(slope * z + offset))), atol=1e-6)


# ---- histogram binning ---------------------------------------------------------------------------------------------


def histogram_by_hand(s, y, w, bins, queries):
    """Bin ⌊bins·(C + w/2)/W⌋ of every distinct score in exact fractions, and the share of the bin nearest a query."""
    rows = {}
    for score, label, weight in zip(s, y, w, strict=True):
        held, positive = rows.get(score, (Fraction(0), Fraction(0)))
        rows[score] = held + Fraction(weight), positive + Fraction(weight) * Fraction(label)
    below, total, members = Fraction(0), sum(weight for weight, _ in rows.values()), {}
    for score in sorted(rows):
        weight, positive = rows[score]
        members.setdefault(math.floor(bins * (below + weight / 2) / total), []).append((score, weight, positive))
        below += weight
    found = []
    for query in queries:
        # the nearer bin, the upper one if both are as near
        nearest = min(
            members,
            key=lambda b: (min(abs(Fraction(score) - Fraction(query)) for score, _, _ in members[b]), -b),
        )
        weight, positive = (sum(column) for column in list(zip(*members[nearest], strict=True))[1:])
        found.append(float(positive / weight))
    return found


@pytest.mark.sample(4)
@pytest.mark.parametrize("bins", [1, 2, 7, 15])
@pytest.mark.parametrize("levels", [3, 40, None])
def test_histogram_is_the_plain_transcription(bins, levels):
    rng = np.random.default_rng(bins)
    s, y, w = observations(rng, 150, levels=levels, weights="whole")
    cal = HistogramBinning(bins, resolution=None)
    cal.learn_many(s, y, w)
    queries = np.concatenate((s[:40], rng.random(40), [0.0, 1.0]))
    want = histogram_by_hand(s.tolist(), y.tolist(), w.tolist(), bins, queries.tolist())
    np.testing.assert_allclose(cal.predict_many(queries), want, rtol=1e-15, atol=0.0)  # one division of whole numbers


@pytest.mark.parametrize(("bins", "n"), [(22, 33), (26, 39), (46, 69)])
def test_histogram_puts_a_rank_on_a_boundary_into_the_upper_bin(bins, n):
    """Of n distinct scores, one has bins·(C + ½)/n whole; (C + ½)/n rounded first and then times bins falls short."""
    s, y = (np.arange(n) + 0.5) / n, np.arange(n) % 2.0
    cal = HistogramBinning(bins, resolution=None)
    cal.learn_many(s, y)
    want = histogram_by_hand(s.tolist(), y.tolist(), [1.0] * n, bins, s.tolist())
    np.testing.assert_allclose(cal.predict_many(s), want, rtol=1e-15, atol=0.0)


# ---- online Platt scaling ------------------------------------------------------------------------------------------


class OnlinePlattByHand:
    """Gupta & Ramdas 2023, Algorithm 1, in matrices, with a general projection; weights and discount are ours."""

    def __init__(self, radius=100.0, discount=1.0, gamma=0.1):
        self.theta, self.a = np.array([1.0, 0.0]), 100.0 * np.eye(2)
        self.radius, self.discount, self.gamma, self.projected = radius, discount, gamma, 0
        self.weights = WeightsByHand()

    def learn(self, x, y, w):
        z = np.array([x, 1.0])
        self.a = self.discount * self.a + (1.0 - self.discount) * 100.0 * np.eye(2)
        for r in self.weights.steps(w):
            g = (1.0 / (1.0 + np.exp(-self.theta @ z)) - y) * z
            self.a = self.a + r * np.outer(g, g)
            self.theta = self.theta - r * np.linalg.solve(self.a, g) / self.gamma
        if np.linalg.norm(self.theta) > self.radius:
            self.theta = self.nearest_in_ball(self.theta)
            self.projected += 1

    def nearest_in_ball(self, target):
        """Return argmin (θ − target)ᵀ A (θ − target) over |θ| ≤ radius, by SLSQP in units of the radius."""
        target, a = target / self.radius, self.a / np.trace(self.a)
        ball = {"type": "ineq", "fun": lambda v: 1.0 - v @ v, "jac": lambda v: -2.0 * v}
        fit = minimize(
            lambda v: (v - target) @ a @ (v - target),
            target / np.linalg.norm(target),
            jac=lambda v: 2.0 * a @ (v - target),
            constraints=[ball],
            method="SLSQP",
            options={"ftol": 1e-18, "maxiter": 500},
        )
        return self.radius * fit.x


@pytest.mark.sample(4)
@pytest.mark.parametrize("discount", [1.0, 0.99])
@pytest.mark.parametrize("weights", ["one", "any"])
def test_ops_is_the_plain_transcription(discount, weights):
    s, y, w = observations(np.random.default_rng(31), 1_500, shape=4.0, weights=weights)
    s[::500], s[1::500] = 0.0, 1.0  # log-odds clamped at ±16
    with np.errstate(divide="ignore"):
        x = np.clip(np.log(s) - np.log1p(-s), -16.0, 16.0)
    cal, by_hand, found, expected = OnlinePlatt(discount=discount), OnlinePlattByHand(discount=discount), [], []
    for i in range(len(s)):
        cal.learn_one(s[i], y[i], w[i])
        by_hand.learn(x[i], y[i], w[i])
        found.append((cal.map().slope, cal.map().offset))
        expected.append(by_hand.theta)
    # The same sums in another order; every step corrects those before, so that rounding does not add up.
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-12)
    assert not by_hand.projected


def test_ops_projects_on_an_ordinary_stream_with_a_small_ball(monkeypatch):
    monkeypatch.setattr(newton, "RADIUS", 1.25)
    s, y, _ = observations(np.random.default_rng(33), 500, shape=0.2)
    cal, by_hand = OnlinePlatt(discount=1.0), OnlinePlattByHand(radius=1.25)
    for score, label in zip(s, y, strict=True):
        cal.learn_one(score, label)
        by_hand.learn(np.log(score) - np.log1p(-score), label, 1.0)
        theta = cal.map().slope, cal.map().offset
        np.testing.assert_allclose(theta, by_hand.theta, rtol=0.0, atol=1e-6)  # SLSQP, as above
    assert by_hand.projected > 50


# ---- Bernstein -----------------------------------------------------------------------------------------------------


def design(u, degree):
    """Return the Bernstein basis as in paper 001's code: binomial probabilities. Shape (len(u), degree + 1)."""
    return binom.pmf(np.arange(degree + 1), degree, np.asarray(u)[:, None])


def increments(u, y, w, degree):
    """(R, b) with |R d − b|² = Σ w (p(u) − y)²/W + constant in the increments d of c, by QR: nothing is squared."""
    root = np.sqrt(w / w.sum())
    q, r = np.linalg.qr(np.cumsum(design(u, degree)[:, ::-1], axis=1)[:, ::-1] * root[:, None])
    return r, q.T @ (root * y)


def bernstein_by_clarabel(u, y, w, degree):
    """Coefficients of the full batch problem by an interior-point method; residuals are variables of the problem."""
    r, b = increments(u, y, w, degree)
    m = degree + 1
    quadratic = sparse.block_diag([sparse.csc_matrix((m, m)), sparse.eye_array(m)], format="csc")
    rows = sparse.bmat(
        [[sparse.csc_matrix(r), -sparse.eye_array(m)], [-sparse.eye_array(m), None], [np.ones((1, m)), None]],
        format="csc",
    )
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-14
    cones = [clarabel.ZeroConeT(m), clarabel.NonnegativeConeT(m + 1)]
    right = np.concatenate((b, np.zeros(m), [1.0]))
    solution = clarabel.DefaultSolver(quadratic, np.zeros(2 * m), rows, right, cones, settings).solve()
    assert str(solution.status) == "Solved", solution.status
    return np.cumsum(solution.x[:m])


def bernstein_by_nnls(u, y, w, degree):
    """Solve by scipy's nonnegative least squares, exact also where scores crowd at an end and Clarabel gives up.

    Σd ≤ 1 is a row of weight 1e5 with a slack variable: it is broken by 1e-10 of its multiplier at most.
    """
    r, b = increments(u, y, w, degree)
    heavy = np.append(np.full(len(b), 1e5), 1e5)
    d, _ = nnls(np.vstack((np.column_stack((r, np.zeros(len(b)))), heavy)), np.append(b, 1e5), maxiter=10_000)
    return np.cumsum(d[:-1])


def crowded(rng, n):
    """Scores of rare events, Beta(1, 40): 99.9 % of them below .16, and labels that follow them."""
    s = rng.beta(1.0, 40.0, n)
    return s, (rng.random(n) < s**1.2).astype(float), rng.uniform(0.1, 3.0, n)


def misleading(rng, n):
    """Labels that fall with the score up to .5 and rise above: half of the constraints are active."""
    s, _, w = observations(rng, n, weights="any")
    return s, (rng.random(n) < np.abs(2.0 * s - 1.0)).astype(float), w


BERNSTEIN_STREAMS = {
    "even": lambda rng: observations(rng, 1_500, weights="any", shape=1.5),
    "eight ties": lambda rng: observations(rng, 500, levels=8, weights="whole"),
    "misleading": lambda rng: misleading(rng, 1_000),
    "crowded": lambda rng: crowded(rng, 2_000),
}
# The ridge of 1e-10 on the increments, which makes the answer unique, moves the fit by less than this; Clarabel adds
# about 1e-8, the root of its gap. OSQP at its default stops at 1e-6 of a coefficient (1e-4 promised at every score).
SOLVERS = {
    "active-set": (lambda degree, **more: Bernstein(degree, **more), 1e-6),
    "osqp": (lambda degree, **more: Bernstein(degree, "osqp", **more), 1e-4),
    "osqp, 1e-9": (lambda degree, **more: Bernstein(degree, "osqp", tolerance=1e-9, **more), 1e-6),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("stream", BERNSTEIN_STREAMS)
@pytest.mark.parametrize("degree", [5, 10, 20, 30])
def test_bernstein_is_the_full_batch_problem(degree, stream):
    s, y, w = BERNSTEIN_STREAMS[stream](np.random.default_rng(degree))
    basis = design(s, degree)
    oracles = [bernstein_by_nnls(s, y, w, degree)]
    if stream != "crowded":
        oracles.append(bernstein_by_clarabel(s, y, w, degree))
    for make, tolerance in SOLVERS.values():
        cal = make(degree)
        cal.learn_many(s, y, w)
        for coefficients in oracles:
            np.testing.assert_allclose(cal.predict_many(s), basis @ coefficients, rtol=0.0, atol=tolerance)


@pytest.mark.parametrize("stream", BERNSTEIN_STREAMS)
@pytest.mark.parametrize("degree", [5, 10, 20, 30])
def test_active_set_meets_the_optimality_conditions_of_the_full_problem(degree, stream):
    """0 ≤ d, Σd ≤ 1; slope + λ ≥ 0 everywhere and = 0 where d > 0; λ ≥ 0, and = 0 unless Σd = 1."""
    s, y, w = BERNSTEIN_STREAMS[stream](np.random.default_rng(degree))
    cal = Bernstein(degree)
    cal.learn_many(s, y, w)
    c = cal.map().coefficients
    d, basis = np.diff(c, prepend=0.0), design(s, degree)
    assert d.min() >= 0.0
    assert c[-1] <= 1.0
    slope = np.cumsum((basis.T @ (w * (basis @ c - y)) / w.sum())[::-1])[::-1]
    multiplier = max(0.0, -slope[d > 0.0].min()) if c[-1] > 1.0 - 1e-12 else 0.0
    # 1e-8 is the figure promised; the ridge alone is 1e-10, and an increment below 1e-8 is as good as none
    assert np.minimum(np.abs(slope + multiplier), np.where(slope + multiplier >= 0.0, d, np.inf)).max() <= 1e-8


@pytest.mark.sample(8)
@pytest.mark.parametrize("degree", [5, 10, 20, 30])
@pytest.mark.parametrize("forgetting", [Window(400), Decay(half_life=200)], ids=repr)
def test_bernstein_that_forgets_is_the_full_batch_problem(forgetting, degree):
    """A drifting stream, learned one by one, warm-started over and over, and judged at the scores still held."""
    rng = np.random.default_rng(41)
    s, _, w = observations(rng, 1_500, weights="any")
    y = (rng.random(1_500) < np.where(np.arange(1_500) < 700, s**3, 0.3 + 0.7 * s**0.5)).astype(float)
    cals = [(make(degree, forgetting=forgetting), tolerance) for make, tolerance in SOLVERS.values()]
    for i in range(len(s)):
        for cal, _ in cals:
            cal.learn_one(s[i], y[i], w[i])
            if i % 50 == 0:
                cal.predict_one(0.5)  # so that solves follow one another
        if i % 500 == 499:
            rows = slice(max(0, i - 399), i + 1)
            age = np.arange(i, -1, -1)
            faded = w[: i + 1] * 0.5 ** (age / 200) if isinstance(forgetting, Decay) else w[: i + 1] * (age < 400)
            held = faded > 0.0
            coefficients = bernstein_by_clarabel(s[: i + 1][held], y[: i + 1][held], faded[held], degree)
            want = design(s[rows], degree) @ coefficients
            for cal, tolerance in cals:
                np.testing.assert_allclose(cal.predict_many(s[rows]), want, rtol=0.0, atol=tolerance)


# ---- prior ---------------------------------------------------------------------------------------------------------


def pseudo_observations(strength):
    """64 scores equally spaced in log-odds between ±16, each with its own share of positives: rows score, label, w."""
    z = -16.0 + 0.5 * (np.arange(64) + 0.5)
    s = 1.0 / (1.0 + np.exp(-z))
    w = strength / 64
    return np.tile(s, 2), np.repeat([1.0, 0.0], 64), np.concatenate((w * s, w / (1.0 + np.exp(z))))


PRIOR_METHODS = {
    "isotonic": lambda **more: Isotonic(**more),
    "venn-abers": lambda **more: VennAbers(**more),
    "histogram-binning": lambda **more: HistogramBinning(5, resolution=None, **more),
    "platt": lambda **more: Platt(resolution=None, **more),
    "bernstein": lambda **more: Bernstein(8, **more),
}


@pytest.mark.parametrize("forgetting", [Forever(), Window(60), Decay(half_life=80)], ids=repr)
@pytest.mark.parametrize("method", PRIOR_METHODS)
def test_prior_is_its_pseudo_observations(method, forgetting):
    """A window never drops them; under decay by count they age as if learned before the first observation."""
    rng = np.random.default_rng(51)
    s, y, w = observations(rng, 200, weights="any", shape=2.0)
    cal = PRIOR_METHODS[method](prior=Prior(30.0), forgetting=forgetting)
    for one in zip(s, y, w, strict=True):
        cal.learn_one(*one)
    seen = slice(140, 200) if isinstance(forgetting, Window) else slice(0, 200)
    fading = 0.5 ** (np.arange(199, -1, -1) / 80) if isinstance(forgetting, Decay) else np.ones(200)
    seed = pseudo_observations(30.0 * (0.5 ** (200 / 80) if isinstance(forgetting, Decay) else 1.0))
    explicit = PRIOR_METHODS[method]()
    explicit.learn_many(*seed)
    explicit.learn_many(s[seen], y[seen], (w * fading)[seen])
    queries = np.concatenate((s[:50], rng.random(50), [1e-6, 1.0 - 1e-6]))
    # Two sums of the same weights; Newton's steps and the polynomial's solve magnify their rounding the most.
    np.testing.assert_allclose(cal.predict_many(queries), explicit.predict_many(queries), rtol=0.0, atol=1e-9)
    assert cal.n == pytest.approx((w * fading)[seen].sum(), rel=1e-12)  # the prior does not count; sums of 200


@pytest.mark.parametrize("scale", [Probability(), Logit(-16.0, 16.0)], ids=repr)
def test_prior_alone_predicts_about_the_score(scale):
    """The pseudo-observations lie on the identity: exact at their scores, linear between them."""
    cal = Isotonic(scale=scale, prior=Prior(5.0))
    s = pseudo_observations(1.0)[0][:64]
    np.testing.assert_allclose(cal.predict_many(s), s, rtol=1e-12)  # a share is w·s / w
