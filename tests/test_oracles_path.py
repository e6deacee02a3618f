"""The methods with a λ path against their definitions, solved by Clarabel, and their criteria in plain NumPy."""

from itertools import pairwise

import clarabel
import numpy as np
import pytest
from scipy import sparse
from scipy.special import xlogy
from sklearn.isotonic import IsotonicRegression

from streamcal import ENIR, ELiTE, Interval, Isotonic, LinearTrend, NearIsotonic, Prior
from streamcal.kernels.tree.near_isotonic import NearIsotonicPath, isotonic_bic
from streamcal.solvers.trend_filter import TrendFilter

# Clarabel stops at a relative gap of 1e-12 (settings below): the fit is then right to about its root.
CLARABEL = {"rtol": 0.0, "atol": 3e-6}
#: Divided differences of scores 1e-4 apart lose it more.
LITE_CLARABEL = {"rtol": 0.0, "atol": 2e-5}
#: Two formulas of the same sums.
ROUNDING = {"rtol": 1e-11, "atol": 1e-11}


def solved_by_clarabel(quadratic, linear, constraints, bounds):
    """Return argmin ½ zᵀPz + qᵀz with Gz ≤ h."""
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-12
    cones = [clarabel.NonnegativeConeT(len(bounds))]
    args = (sparse.csc_matrix(sparse.triu(quadratic)), linear, sparse.csc_matrix(constraints), bounds, cones)
    solution = clarabel.DefaultSolver(*args, settings).solve()
    assert str(solution.status) in ("Solved", "AlmostSolved")
    return np.array(solution.x)


def penalised(distinct, weight, mean, operator, penalty, *, signed):
    """Return argmin Σ w (p − ȳ)² / W + λ Σ (Bp)₊, or λ Σ |Bp| if not `signed`: z = (p, t), Bp ≤ t, 0 ≤ t."""
    k, m = len(distinct), operator.shape[0]
    share = weight / weight.sum()
    quadratic = sparse.block_diag((sparse.diags(2.0 * share), sparse.csc_matrix((m, m))))
    linear = np.concatenate((-2.0 * share * mean, np.full(m, penalty)))
    rows = [sparse.hstack((operator, -sparse.eye(m)))]
    rows.append(sparse.hstack((sparse.csc_matrix((m, k)) if signed else -operator, -sparse.eye(m))))
    return solved_by_clarabel(quadratic, linear, sparse.vstack(rows), np.zeros(2 * m))[:k]


def stream(seed, size, levels=None, weights="one"):
    """Scores, labels and weights of a miscalibrated, not monotone truth."""
    rng = np.random.default_rng(seed)
    s = rng.random(size) if levels is None else (rng.integers(0, levels, size) + 0.5) / levels
    y = (rng.random(size) < 0.5 + 0.4 * np.sin(5.0 * s)).astype(float)
    w = {"one": np.ones(size), "any": rng.uniform(0.1, 3.0, size), "far": 10.0 ** rng.uniform(-1.5, 1.5, size)}[weights]
    return s, y, w


def sums(s, y, w):
    """Distinct scores, their weights, their mean labels."""
    distinct, group = np.unique(s, return_inverse=True)
    weight = np.bincount(group, w)
    return distinct, weight, np.bincount(group, w * y) / weight


def taught(cal, s, y, w):
    cal.learn_many(s, y, w)
    return cal


# -- near-isotonic -----------------------------------------------------------------------------------------------


@pytest.mark.sample(3)
@pytest.mark.parametrize("weights", ["one", "any", "far"])
@pytest.mark.parametrize("levels", [None, 12])
@pytest.mark.parametrize("penalty", [0.0, 1e-4, 1e-3, 0.01, 0.03, 0.1, 0.3])
def test_near_isotonic_is_its_definition(penalty, levels, weights):
    s, y, w = stream(7, 60, levels, weights)
    distinct, weight, mean = sums(s, y, w)
    falls = sparse.diags([1.0, -1.0], [0, 1], shape=(len(distinct) - 1, len(distinct)))
    expected = penalised(distinct, weight, mean, falls, penalty, signed=True)
    cal = taught(NearIsotonic(penalty=penalty, resolution=None), s, y, w)
    np.testing.assert_allclose(cal.predict_many(distinct), expected, **CLARABEL)


@pytest.mark.parametrize("seed", range(20))
def test_near_isotonic_ends_as_isotonic(seed):
    """From λ = 1/2 on, everywhere; and not long before it on labels that only fall."""
    s, y, w = stream(seed, 80, 15 if seed % 2 else None, "any")
    probes = np.concatenate((s, np.linspace(0.0, 1.0, 101)))
    for resolution in (None, 64):
        near = taught(NearIsotonic(penalty=0.5, resolution=resolution), s, y, w)
        isotonic = taught(Isotonic(resolution=resolution), s, y, w)
        np.testing.assert_allclose(near.predict_many(probes), isotonic.predict_many(probes), **ROUNDING)
    falling = ([0.2, 0.4], [1, 0], None)
    assert taught(NearIsotonic(penalty=0.49), *falling).predict_one(0.2) > 0.5
    assert taught(NearIsotonic(penalty=0.5), *falling).predict_one(0.2) == pytest.approx(0.5, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_near_isotonic_path_is_piecewise_linear_between_its_breakpoints(seed):
    s, y, w = stream(seed, 60, 40, "any")
    _, weight, mean = sums(s, y, w)
    path, places = NearIsotonicPath(weight, weight * mean), [0.0]
    blocks = [path.blocks]
    while path.advance():
        places.append(path.penalty)
        blocks.append(path.blocks)
    assert (np.diff(places) > 0.0).all()
    assert (np.diff(blocks) < 0).all()

    def fit(penalty):
        one, values = NearIsotonicPath(weight, weight * mean), np.zeros(len(weight))
        one.advance_to(penalty)
        one.add_values(1.0, values)
        return values

    for left, right in pairwise(places):
        middle = 0.5 * (left + right)
        np.testing.assert_allclose(fit(middle), 0.5 * (fit(left) + fit(right)), **ROUNDING)
    assert np.diff(fit(places[-1])).min() >= 0.0
    for k in range(1, len(places)):  # one slope ends at every breakpoint, or it would not be one
        before, at, after = (fit(place) for place in (places[k - 1], places[k], places[k] + 0.01))
        slopes = (at - before) / (places[k] - places[k - 1]), (after - at) / 0.01
        assert np.abs(slopes[0] - slopes[1]).max() > 1e-6


@pytest.mark.parametrize("seed", range(20))
def test_bic_of_a_whole_path_is_that_of_each_fit(seed):
    """With the fit of the least, and the average; infinite only above the limit. The likelihood decreases with λ."""
    s, y, w = stream(seed, 60, 40, "any")
    _, weight, mean = sums(s, y, w)
    path, expected, fits, blocks = NearIsotonicPath(weight, weight * mean), [], [], []
    while True:
        blocks.append(path.blocks)
        fits.append(np.zeros(len(weight)))
        path.add_values(1.0, fits[-1])
        expected.append(-2.0 * path.log_likelihood() + 3.0 * path.blocks)
        if not path.advance():
            break
    isotonic = IsotonicRegression().fit(np.arange(len(mean)), mean, weight).predict(np.arange(len(mean)))
    likelihood = (xlogy(weight * mean, isotonic) + xlogy(weight * (1.0 - mean), 1.0 - isotonic)).sum()
    limit = isotonic_bic(weight, weight * mean, 3.0)
    assert limit == pytest.approx(3.0 * len(np.unique(isotonic.round(12))) - 2.0 * likelihood)
    for margin in (0.0, np.inf):
        values = np.zeros(len(weight))
        found = NearIsotonicPath(weight, weight * mean).bics(3.0, limit + margin, values, False)
        np.testing.assert_array_equal(values, fits[int(np.argmin(expected))])
        skipped = np.isinf(found)
        np.testing.assert_array_equal(found[~skipped], np.array(expected)[~skipped])
        assert not skipped.any() or np.array(expected)[skipped].min() > limit + margin
        average = np.zeros(len(weight))
        again = NearIsotonicPath(weight, weight * mean).bics(3.0, limit + margin, average, True)
        np.testing.assert_array_equal(again, found)
        shares = np.exp(-0.5 * (found - found.min()))
        np.testing.assert_allclose(average, shares @ np.array(fits) / shares.sum(), **ROUNDING)
    assert (np.diff(np.array(expected) - 3.0 * np.array(blocks)) > -1e-9).all()


def test_what_meets_at_one_penalty_is_one_breakpoint():
    """Ten pairs that fall by the same 0.03, which no two of them do in floating point."""
    mean = np.repeat(np.arange(10.0), 2) / 10.0 + np.tile([0.06, 0.03], 10)
    assert len(np.unique(mean[::2] - mean[1::2])) > 1
    path = NearIsotonicPath(np.ones(20), mean)
    assert path.blocks == 20
    assert path.advance()
    assert path.blocks == 10
    assert path.penalty == pytest.approx(0.03 / 2 / 20)
    assert not path.advance()


@pytest.mark.parametrize("method", [NearIsotonic, ENIR])
def test_blocks_that_meet_without_moving_apart_are_one(method):
    """At λ = .2 the falling pair meets the score after it, whose value does not change: one block and not two."""
    path = NearIsotonicPath(np.array([1.0, 1.0, 1.0, 2.0]), np.array([0.0, 1.0, 0.0, 1.0]))
    path.advance()
    assert path.blocks == 2
    cal, mirrored = method(resolution=None), method(resolution=None)
    scores, labels = np.array([0.1, 0.2, 0.3, 0.4, 0.4]), np.array([0, 1, 0, 0, 1])
    cal.learn_many(scores, labels)
    mirrored.learn_many(1.0 - scores, 1 - labels)
    p = cal.predict_many(scores[:4])
    assert 1.0 - mirrored.predict_many(1.0 - scores[:4]) == pytest.approx(p, abs=1e-12)
    if method is ENIR:
        assert p == pytest.approx([0.0, 13 / 18, 5 / 18, 0.5], abs=1e-12)


@pytest.mark.parametrize("method", [LinearTrend, ELiTE])
@pytest.mark.parametrize("seed", [7, 46, 59, 72, 107])
def test_a_kink_of_rounding_is_no_parameter(method, seed):
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 30)
    s, y, w = rng.integers(0, 17, n) / 16, rng.integers(0, 2, n), rng.integers(1, 4, n).astype(float)
    cal, mirrored = method(resolution=None), method(resolution=None)
    cal.learn_many(s, y, w)
    mirrored.learn_many(1.0 - s, 1 - y, w)
    places = np.arange(33) / 32
    np.testing.assert_allclose(cal.predict_many(places), 1.0 - mirrored.predict_many(1.0 - places), atol=1e-9)


# -- BIC and the ensemble ----------------------------------------------------------------------------------------


def path_by_definition(weight, mean):
    """(fits, BIC) at the breakpoints, by the paper: fuse neighbours, move all values along their slopes, again."""
    k = len(weight)
    share, penalty = weight / weight.sum(), 0.0
    blocks = [[i] for i in range(k)]
    values = mean.copy()
    fits = []
    while True:
        joined = [blocks[0]]  # neighbours of one value are one block
        for block in blocks[1:]:
            if abs(values[block[0]] - values[joined[-1][0]]) < 1e-11:
                joined[-1] = joined[-1] + block
            else:
                joined.append(block)
        blocks = joined
        fits.append((values.copy(), len(blocks)))
        level = np.array([values[block[0]] for block in blocks])
        falls = np.concatenate(([0.0], (level[:-1] > level[1:]) * 1.0, [0.0]))
        slope = (falls[:-1] - falls[1:]) / np.array([share[block].sum() for block in blocks])
        with np.errstate(divide="ignore", invalid="ignore"):
            meets = -np.diff(level) / np.diff(slope)
        meets = meets[meets > 1e-13]
        if len(meets) == 0 or not (falls > 0).any():
            break
        penalty += meets.min()
        for block, speed in zip(blocks, slope, strict=True):
            values[block] += speed * meets.min()
    n = weight.sum()
    bic = []
    for p, number in fits:
        with np.errstate(divide="ignore", invalid="ignore"):
            terms = np.where(mean > 0, mean * np.log(p), 0.0) + np.where(mean < 1, (1 - mean) * np.log(1 - p), 0.0)
        bic.append(-2.0 * (weight * terms).sum() + number * np.log(n))
    return np.array([p for p, _ in fits]), np.array(bic)


@pytest.mark.parametrize("seed", range(12))
def test_near_isotonic_by_bic_and_enir_are_their_definitions(seed):
    s, y, w = stream(seed, 200, (10, 25, None)[seed % 3], ("one", "any")[seed % 2])
    distinct, weight, mean = sums(s, y, w)
    fits, bic = path_by_definition(weight, mean)
    chosen = taught(NearIsotonic(resolution=None), s, y, w)
    np.testing.assert_allclose(chosen.predict_many(distinct), fits[bic.argmin()], rtol=0.0, atol=1e-9)
    share = np.exp(-0.5 * (bic - bic.min()))
    average = share @ fits / share.sum()
    np.testing.assert_allclose(taught(ENIR(resolution=None), s, y, w).predict_many(distinct), average, atol=1e-9)


def test_enir_of_weights_beside_which_a_likelihood_is_rounding():
    """In the mean of a block 1e40 beside 1e60 is nothing: the isotonic fit seems to be likelier than λ = 0."""
    cal = ENIR(prior=Prior(20.0), resolution=64)
    for score, y, w in ((0.625, 0, 1e40), (0.0, 1, 1e60), (0.75, 0, 1e40)):
        cal.learn_one(score, y, w)
    assert cal.predict_one(0.0) == pytest.approx(1.0)


def test_enir_weighs_several_fits():
    """The average is none of them where BIC leaves it open."""
    s, y, w = stream(3, 200, 10)
    distinct, weight, mean = sums(s, y, w)
    fits, _ = path_by_definition(weight, mean)
    found = taught(ENIR(resolution=None), s, y, w).predict_many(distinct)
    assert np.abs(fits - found).max(axis=1).min() > 1e-4


# -- linear trend ------------------------------------------------------------------------------------------------


def slope_changes(x):
    """Return the matrix of second divided differences of paper 002, eq. (11)."""
    width = np.diff(x)
    bands = (1.0 / width[:-1], -1.0 / width[:-1] - 1.0 / width[1:], 1.0 / width[1:])
    return sparse.diags(bands, [0, 1, 2], shape=(len(x) - 2, len(x)))


@pytest.mark.parametrize("weights", ["one", "any", "far"])
@pytest.mark.parametrize("levels", [None, 12])
@pytest.mark.parametrize("penalty", [1e-4, 1e-3, 0.01, 0.03, 0.1])
def test_linear_trend_is_its_definition(penalty, levels, weights):
    s, y, w = stream(11, 80, levels, weights)
    distinct, weight, mean = sums(s, y, w)
    expected = penalised(distinct, weight, mean, slope_changes(distinct), penalty, signed=False)
    cal = taught(LinearTrend(penalty=penalty, resolution=None), s, y, w)
    np.testing.assert_allclose(cal.predict_many(distinct), np.clip(expected, 0.0, 1.0), **LITE_CLARABEL)


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("share", [0.9, 0.3, 0.03, 1e-3, 1e-5])
def test_a_linear_trend_fulfils_the_conditions_of_optimality(seed, share):
    """|u| ≤ λ, and u = λ·sign(v) where the slope changes; on clustered scores down to 2e-9 apart."""
    rng = np.random.default_rng(seed)
    x = np.unique(np.concatenate((rng.random(60), 0.3 + 1e-8 * np.arange(5), 10.0 ** rng.uniform(-8, 0, 60))))
    x = x[np.diff(x, prepend=-1.0) > 2e-9]
    weight, mean = rng.uniform(0.1, 3.0, len(x)), rng.random(len(x)) ** 2
    problem = TrendFilter(x, weight, mean)
    penalty = share * problem.straight
    solution = problem.solve(penalty)
    assert solution.solved
    excess = weight / weight.sum() * (mean - solution.x)
    assert abs(excess.sum()) < 1e-11
    assert abs(excess @ x) < 1e-11
    u = 2.0 * np.concatenate(([0.0], np.cumsum(np.cumsum(excess)[:-1] * np.diff(x))))
    assert np.abs(u).max() <= penalty * (1.0 + 1e-8) + 1e-11
    bends = np.diff(np.diff(solution.x) / np.diff(x))
    kinks = np.abs(bends) > 1e-4  # rounding of values at scores 2e-9 apart
    np.testing.assert_allclose(u[1:-1][kinks], penalty * np.sign(bends[kinks]), rtol=1e-6, atol=1e-11)
    assert problem.kinks >= kinks.sum() > 0


@pytest.mark.sample(8)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("method", [LinearTrend, ELiTE])
def test_a_path_that_starts_from_the_last_one_is_that_without_a_start(method, seed):
    """Cells are left and entered; labels drift, so that kinks come and go."""
    rng = np.random.default_rng(seed)
    cal, held = method(resolution=40), []
    for number in range(150):
        score = float(rng.random())
        held.append((score, bool(rng.random() < (score if number < 80 else 1.0 - score))))
        cal.learn_one(*held[-1])
        if number > 60:
            cal.unlearn_one(*held.pop(0))
        found = cal.predict_many([0.1, 0.5, 0.9])
        fresh = method.from_state(cal.state_dict())
        np.testing.assert_allclose(found, fresh.predict_many([0.1, 0.5, 0.9]), rtol=0.0, atol=1e-9)


def test_a_large_penalty_gives_the_line_of_least_squares():
    s, y, w = stream(5, 200, None, "any")
    cal = taught(LinearTrend(penalty=10.0, resolution=None), s, y, w)
    line = np.polyfit(s, y, 1, w=np.sqrt(w))
    np.testing.assert_allclose(cal.predict_many(s), np.clip(np.polyval(line, s), 0.0, 1.0), atol=1e-9)


@pytest.mark.parametrize("scores", [[0.5], [0.2, 0.8], [0.0, 5e-324, 1e-323], [0.1, 0.1 + 1e-12, 0.9]])
def test_few_and_nearly_equal_scores(scores):
    """A point, a line, and scores that are one."""
    for penalty in (0.0, 1e-9, 0.1, None):
        cal = LinearTrend(penalty=penalty, resolution=None)
        for k, score in enumerate(scores * 4):
            cal.learn_one(score, k < 5)
        p = cal.predict_many(scores)
        assert ((p >= 0.0) & (p <= 1.0)).all()
        if len(scores) < 3:
            shares = [np.mean([k < 5 for k in range(j, 4 * len(scores), len(scores))]) for j in range(len(scores))]
            np.testing.assert_allclose(p, shares, atol=1e-12)


@pytest.mark.parametrize("method", [LinearTrend, ELiTE, NearIsotonic, ENIR])
def test_the_farthest_scores_there_are(method):
    """Their range overflows."""
    cal = method(scale=Interval(), resolution=None)
    for k, score in enumerate((-1.7e308, 0.0, 1.7e308) * 6):
        cal.learn_one(score, k % 3 == 2 or k == 0)
    p = cal.predict_many([-1.7e308, 0.0, 1.7e308])
    assert ((p >= 0.0) & (p <= 1.0)).all()
    assert p[2] > max(p[0], p[1])


def test_a_penalty_of_zero_gives_the_shares():
    s, y, w = stream(2, 100, 12)
    distinct, _, mean = sums(s, y, w)
    found = taught(LinearTrend(penalty=0.0, resolution=None), s, y, w).predict_many(distinct)
    np.testing.assert_allclose(found, mean, **ROUNDING)


# -- AICc and the ensemble ---------------------------------------------------------------------------------------


def trends_by_clarabel(distinct, weight, mean):
    """(fits, AICc) at fifty penalties, the kinks counted in Clarabel's answers."""
    n = weight.sum()
    operator = slope_changes(distinct)
    straight = penalised(distinct, weight, mean, operator, 1e3, signed=False)
    excess = weight / n * (mean - straight)
    most = 2.0 * np.abs(np.cumsum(np.cumsum(excess)[:-1] * np.diff(distinct))).max()
    fits, criteria = [], []
    for penalty in np.geomspace(most, 1e-5 * most, 50):
        fit = penalised(distinct, weight, mean, operator, penalty, signed=False)
        d = 2 + (np.abs(operator @ fit) > 1e-3).sum()
        if n - d - 1 <= 0:
            break
        p = np.clip(fit, 1.0 / (n + 2.0), 1.0 - 1.0 / (n + 2.0))
        likelihood = (weight * (mean * np.log(p) + (1.0 - mean) * np.log(1.0 - p))).sum()
        fits.append(np.clip(fit, 0.0, 1.0))
        criteria.append(-2.0 * likelihood + 2.0 * d + 2.0 * d * (d + 1.0) / (n - d - 1.0))
    return np.array(fits), np.array(criteria)


@pytest.mark.sample(4)
@pytest.mark.parametrize("seed", range(4))
def test_linear_trend_by_aicc_and_elite_are_their_definitions(seed):
    s, y, w = stream(seed, 300, 20)
    distinct, weight, mean = sums(s, y, w)
    fits, criteria = trends_by_clarabel(distinct, weight, mean)
    chosen = taught(LinearTrend(resolution=None), s, y, w)
    np.testing.assert_allclose(chosen.predict_many(distinct), fits[criteria.argmin()], **LITE_CLARABEL)
    shares = np.exp(-0.5 * (criteria - criteria.min()))
    average = shares @ fits / shares.sum()
    np.testing.assert_allclose(taught(ELiTE(resolution=None), s, y, w).predict_many(distinct), average, **LITE_CLARABEL)


@pytest.mark.parametrize("method", [LinearTrend, ELiTE])
def test_trends_on_the_default_grid_are_near_the_exact_ones(method):
    """The grid rounds the scores; on a smooth truth that moves predictions by less than sampling does."""
    rng = np.random.default_rng(1)
    s = rng.beta(2, 3, 5_000)
    y = rng.random(5_000) < s**2
    grid, exact = taught(method(), s, y, None), taught(method(resolution=None), s, y, None)
    assert np.abs(grid.predict_many(s) - exact.predict_many(s)).max() < 0.02
