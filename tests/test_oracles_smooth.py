"""The smooth one-score methods against implementations someone else wrote, or their formulas in plain NumPy."""

import math
import warnings
from fractions import Fraction

import betacal
import clarabel
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, sparse, special
from scipy.stats import binom
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from streamcal import BernsteinLogistic, Beta, Decay, Gaussian, Interval, Logit, Prior, Temperature, Window
from streamcal.maps.sigmoids import BetaMap, log_probabilities
from streamcal.solvers.active_set import MonotoneLeastSquares
from streamcal.solvers.bernstein_logistic import basis_matrix, fit_bernstein_logistic
from streamcal.solvers.logistic import fit_logistic
from streamcal.statistics.label_moments import KEPT_BITS, LabelMoments


def normals(seed, n, gap=2.0, share=0.3):
    """Margins of two normal classes of variance 1, their labels and any weights."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(float)
    return rng.normal(gap * y, 1.0), y, rng.uniform(0.1, 3.0, n)


# ---- Gaussian ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [0.0, 1e6])
@pytest.mark.parametrize(("n", "gap"), [(12, 1.0), (50, 0.5), (3_000, 2.0)])
def test_gaussian_is_linear_discriminant_analysis(n, gap, shift):
    x, y, _ = normals(n, n, gap)
    x += shift
    theirs = LinearDiscriminantAnalysis(solver="lsqr").fit(x[:, None], y)  # its "svd" divides by N − 2, not by N
    ours = Gaussian(scale=Interval())
    ours.learn_many(x, y)
    # theirs is given 1e6 with nine digits after the point, and squares it
    np.testing.assert_allclose(
        ours.predict_many(x), theirs.predict_proba(x[:, None])[:, 1], atol=1e-12 if shift == 0.0 else 1e-5
    )


def rational_slope(x, y, w, within):
    """(μ₁ − μ₀)/σ² in rational arithmetic, and the two means."""
    x, y, w = ([Fraction(v) for v in column] for column in (x, y, w))
    total = sum(w)
    means = []
    for label in (0, 1):
        weight = sum(b for b, c in zip(w, y, strict=True) if c == label)
        means.append(sum(a * b for a, b, c in zip(x, w, y, strict=True) if c == label) / weight)
    if within:
        variance = sum(b * (a - means[int(c)]) ** 2 for a, b, c in zip(x, w, y, strict=True)) / total
    else:
        mean = sum(a * b for a, b in zip(x, w, strict=True)) / total
        variance = sum(b * (a - mean) ** 2 for a, b in zip(x, w, strict=True)) / (total - 1)
    return (means[1] - means[0]) / variance, means


@pytest.mark.parametrize("variance", ["within", "total"])
@pytest.mark.parametrize("scale", [1e-150, 1e-5, 1.0, 1e5, 1e150])
def test_gaussian_is_its_formula(variance, scale):
    """In rational arithmetic, for weights of any size, after retraction of observations that outweigh the rest."""
    x, y, w = normals(3, 60)
    x = (x + 7.0) * scale
    cal = Gaussian(variance, scale=Interval())
    for i in range(60):
        cal.learn_one(x[i], y[i], w[i])
        cal.learn_one(-1e155 * x[i] / scale, 1 - y[i], 1e40)
    for i in range(60):
        cal.unlearn_one(-1e155 * x[i] / scale, 1 - y[i], 1e40)
    slope, means = rational_slope(x, y, w, variance == "within")
    assert cal.map().slope == pytest.approx(float(slope), rel=1e-14)
    middle = float(sum(means) / 2)
    odds = math.log(w[y == 1.0].sum() / w[y == 0.0].sum())
    assert cal.map().slope * middle + cal.map().offset == pytest.approx(odds, abs=1e-9)


def test_gaussian_as_printed_is_too_flat():
    """On two normal classes two deviations apart the slope is 2; eq. (6) as printed gives 2 / (1 + 2²·¼) and less."""
    x, y, _ = normals(1, 100_000, 2.0, share=0.3)
    slopes = []
    for variance in ("within", "total"):
        cal = Gaussian(variance, scale=Interval())
        cal.learn_many(x, y)
        slopes.append(cal.map().slope)
    assert slopes[0] == pytest.approx(2.0, abs=0.03)
    assert slopes[1] == pytest.approx(2.0 / (1.0 + 0.3 * 0.7 * 4.0), abs=0.03)


def test_gaussian_at_its_limits():
    """One label; means in the wrong order, equal, or equal but for rounding; no variance; less weight than one."""

    def gaussian(observations, **params):
        cal = Gaussian(scale=Interval(), **params)
        for observation in observations:
            cal.learn_one(*observation)
        return cal

    one_label = gaussian([(1.0, 1), (2.0, 1)])
    assert one_label.predict_one(0.7) == pytest.approx(1.0 / (1.0 + math.exp(-0.7)))
    for falling in ([(2.0, 0), (1.0, 1), (1.5, 1)], [(1.0, 0), (1.0, 1), (1.0, 1)], [(1.0, 0), (1 + 1e-12, 1, 2.0)]):
        assert gaussian(falling).predict_many([-9.0, 9.0]).tolist() == pytest.approx([2 / 3, 2 / 3])
    steep = gaussian([(1.0, 0), (3.0, 1)])
    np.testing.assert_allclose(
        steep.predict_many([1.0, 2.0, 3.0]), [1 / (1 + math.exp(16.0)), 0.5, 1 / (1 + math.exp(-16.0))]
    )
    light = gaussian([(1.0, 0, 0.4), (1.5, 0, 0.2), (3.0, 1, 0.3)], variance="total")
    assert light.predict_many([-9.0, 9.0]).tolist() == pytest.approx([1 / 3, 1 / 3])


@pytest.mark.sample(2)
@pytest.mark.parametrize("forgetting", [Window(200), Decay(half_life=77.7)], ids=repr)
@pytest.mark.parametrize("prior", [None, Prior(5.0)])
def test_gaussian_that_forgets_is_its_formula(forgetting, prior):
    x, y, w = normals(5, 3_000)
    s = 1.0 / (1.0 + np.exp(-x))
    cal = Gaussian(forgetting=forgetting, prior=prior)
    for one in zip(s, y, w, strict=True):
        cal.learn_one(*one)
    if isinstance(forgetting, Window):
        held = [column[-200:] for column in (s, y, w)]
        faded = 1.0
    else:
        held = [s, y, w * 0.5 ** (np.arange(3_000)[::-1] / 77.7)]
        faded = 0.5 ** (3_000 / 77.7)
    z, labels, weights = (np.asarray(column) for column in held)
    z = np.log(z) - np.log1p(-z)
    if prior is not None:
        seed = prior.pseudo_observations(Logit())
        z = np.concatenate((z, seed.x, seed.x))
        labels = np.concatenate((labels, np.zeros(64), np.ones(64)))
        weights = np.concatenate((weights, seed.w * (1 - seed.y) * faded, seed.w * seed.y * faded))
    slope, _ = rational_slope(z, labels, weights, within=True)
    assert cal.map().slope == pytest.approx(float(slope), rel=1e-10)
    assert cal.n == pytest.approx(math.fsum(held[2]), rel=1e-9)


numbers = st.floats(-1e150, 1e150) | st.sampled_from([0.0, 5e-324, 1e-300, 0.1, 1.0])


@given(st.lists(st.tuples(numbers, st.sampled_from([0.0, 1.0, 0.3]), st.floats(1e-60, 1e60)), max_size=12), st.data())
def test_label_moments_hold_the_same_bits_in_any_order(observations, data):
    one, other, part = LabelMoments(), LabelMoments(), LabelMoments()
    for observation in observations:
        one.update(*observation)
    shuffled = data.draw(st.permutations(observations))
    for observation in shuffled[:5]:
        other.update(*observation)
    for observation in shuffled[5:]:
        part.update(*observation)
    other.merge(part)
    for statistic in (one, other):
        statistic.update(0.25, 1.0, 1.0)
        statistic.update(-0.5, 0.0, 1.0)
    assert one.means() == other.means()
    assert one.gap_by_variance(within=True) == other.gap_by_variance(within=True)
    for observation in data.draw(st.permutations(observations)):
        other.unlearn(*observation)
    assert other.means() == (-0.5, 0.25)
    assert other.weights() == (1.0, 1.0)


@pytest.mark.parametrize("x", [5e-324, 1e-300, 1e300])
def test_gaussian_takes_coordinates_of_any_size(x):
    cal = Gaussian(scale=Interval())
    cal.learn_many([x, 2.0 * x], [0, 1])
    if x < 1e-290:
        assert cal.predict_many([-x, x]).tolist() == [0.5, 0.5]
        return
    assert cal.predict_one(4.0 * x) > 1.0 - 1e-6 > 1e-6 > cal.predict_one(-4.0 * x)


def test_label_moments_stay_small_under_decay():
    statistic = LabelMoments()
    for k in range(300):
        statistic.update(0.1 * (k % 7), float(k % 2), 0.3)
        statistic.decay(0.9)
    assert all(weight.bit_length() <= KEPT_BITS for weight, _, _ in statistic._sums)
    expected = sum(Fraction(0.3) * Fraction(0.9) ** k for k in range(1, 301))
    assert statistic.n == pytest.approx(float(expected), rel=1e-15)


# ---- Temperature and Beta ------------------------------------------------------------------------------------------


def probabilities(seed, n, a=2.0, b=3.0, power=1.0, levels=None):
    """Scores of a Beta(a, b) distribution, outcomes whose log-odds are `power` times theirs, and any weights."""
    rng = np.random.default_rng(seed)
    s = np.clip(rng.beta(a, b, n), 1e-6, 1.0 - 1e-6)
    s = s if levels is None else np.clip((s * levels).round() / levels, 0.01, 0.99)
    y = (rng.random(n) < special.expit(power * special.logit(s))).astype(float)
    return s, y, rng.uniform(0.1, 3.0, n)


def beta_log_loss(parameters, s, y, w):
    """Return the mean log loss of (a, b, c), and its gradient: the likelihood of paper 004, §2.1, term by term."""
    features = np.column_stack((np.log(s), -np.log1p(-s), np.ones_like(s)))
    log_odds = features @ parameters
    loss = w @ (np.logaddexp(0.0, log_odds) - y * log_odds) / w.sum()
    return loss, (w * (special.expit(log_odds) - y)) @ features / w.sum()


#: How the parameters of each form make (a, b, c).
FORMS = {
    "abm": np.eye(3),
    "am": np.array([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    "ab": np.array([[1.0, 0.0, math.log(2.0)], [0.0, 1.0, -math.log(2.0)]]),
}

STREAMS = {
    "calibrated": {},
    "overconfident": {"power": 0.4},
    "rare": {"a": 0.5, "b": 60.0},
    "a is 0": {"a": 1.0, "b": 1.0, "power": -0.3},
    "ties": {"levels": 10},
}


def beta_likelihood(form, s, y, w):
    """Return the least log loss that L-BFGS-B finds over a, b ≥ 0, and its (a, b, c)."""
    shape = FORMS[form]

    def value(theta):
        loss, gradient = beta_log_loss(theta @ shape, s, y, w)
        return loss, shape @ gradient

    bounds = [(None, None) if row[:2].sum() == 0.0 else (0.0, None) for row in shape]
    found = optimize.minimize(
        value, np.ones(len(shape)), jac=True, bounds=bounds, options={"ftol": 1e-16, "gtol": 1e-10, "maxiter": 5_000}
    )
    return found.fun, found.x @ shape


@pytest.mark.sample(4)
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("form", FORMS)
def test_beta_is_maximum_likelihood(form, stream):
    s, y, w = probabilities(7, 4_000, **STREAMS[stream])
    cal = Beta(form, resolution=None)
    cal.learn_many(s, y, w)
    fit = cal.map()
    least, theirs = beta_likelihood(form, s, y, w)
    ours, gradient = beta_log_loss(np.array([fit.a, fit.b, fit.c]), s, y, w)
    assert ours <= least + 1e-12
    # the optimality conditions: no slope along what is free, none downwards at a bound
    gradient = FORMS[form] @ gradient
    bounded = np.array([row[:2].any() and row[:2] @ [fit.a, fit.b] == 0.0 for row in FORMS[form]])
    assert (gradient >= -1e-7).all()
    assert (np.abs(gradient[~bounded]) <= 1e-7).all()
    np.testing.assert_allclose(BetaMap(Logit(), *theirs).predict_many(s), cal.predict_many(s), atol=1e-5)


def test_beta_reaches_its_bounds():
    s, y, w = probabilities(7, 4_000, a=1.0, b=1.0, power=-0.3)
    for form in FORMS:
        cal = Beta(form)
        cal.learn_many(s, y, w)
        assert 0.0 in (cal.map().a, cal.map().b)


@pytest.mark.sample(2)
@pytest.mark.parametrize("stream", [name for name in STREAMS if name != "a is 0"])
@pytest.mark.parametrize("form", FORMS)
def test_beta_is_the_package_betacal(form, stream):
    """It stops where scikit-learn's logistic regression does, at a slope of 1e-4: near ours, and never likelier."""
    s, y, _ = probabilities(11, 4_000, **STREAMS[stream])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it changes the filters of the process
        theirs = betacal.BetaCalibration(parameters=form).fit(s, y).predict(s)
    ours = Beta(form)
    ours.learn_many(s, y)
    p = ours.predict_many(s)
    np.testing.assert_allclose(p, theirs, atol=5e-3)
    losses = [-np.mean(y * np.log(q) + (1.0 - y) * np.log1p(-q)) for q in (p, theirs)]
    assert losses[0] - 1e-10 <= losses[1] <= losses[0] + 1e-5  # the grid of ours may cost 1e-10


def test_beta_of_one_label_and_of_separated_labels():
    """Finite, on the right side, and log-odds in the tens."""
    for form in FORMS:
        negatives, separated = Beta(form), Beta(form)
        negatives.learn_many([0.2, 0.4], [0, 0])
        separated.learn_many([0.2, 0.4, 0.6, 0.8], [0, 0, 1, 1])
        assert 1e-11 < negatives.predict_one(0.3) < 1e-4 or form == "ab"
        assert 1e-30 < separated.predict_one(0.2) < 1e-5
        assert 1.0 - separated.predict_one(0.8) < 1e-5
        assert separated.predict_one(0.5) == pytest.approx(0.5, abs=1e-9)


@pytest.mark.parametrize("stream", [name for name in STREAMS if name != "a is 0"])
def test_temperature_is_maximum_likelihood(stream):
    s, y, w = probabilities(13, 4_000, **STREAMS[stream])
    z = special.logit(s)

    def slope_of_loss(beta):
        return w @ ((special.expit(beta * z) - y) * z) / w.sum()

    cal = Temperature(resolution=None)
    cal.learn_many(s, y, w)
    assert cal.map().slope == pytest.approx(optimize.brentq(slope_of_loss, 0.0, 10.0, xtol=1e-14), rel=1e-6)
    assert cal.map().offset == 0.0


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3, 1e9, 1e200])
def test_temperature_divides_margins_in_any_unit(unit):
    x, y, w = normals(21, 500, gap=1.0, share=0.5)
    cal, twin = Temperature(scale=Interval(), resolution=None), Temperature(scale=Interval(), resolution=None)
    cal.learn_many(x * unit, y, w)
    twin.learn_many(x, y, w)
    assert cal.map().slope * unit == pytest.approx(twin.map().slope, rel=1e-2 if unit < 1.0 else 1e-6)  # the ridge


def test_temperature_at_its_limits():
    wrong, right, none = Temperature(), Temperature(), Temperature()
    wrong.learn_many([0.2, 0.8], [1, 0])
    assert wrong.predict_many([0.1, 0.9]).tolist() == [0.5, 0.5]
    right.learn_many([0.2, 0.8], [0, 1])
    assert 1e-12 < right.predict_one(0.2) < 1e-6
    none.learn_many([0.5, 0.5], [0, 1])
    assert none.predict_one(0.9) == pytest.approx(0.9)


tables = st.lists(
    st.tuples(st.floats(-16.0, 16.0), st.floats(0.0, 1e6), st.floats(0.0, 1e6)), min_size=1, max_size=12
).filter(lambda rows: sum(row[1] + row[2] for row in rows) > 0.0)


@given(tables, st.sampled_from(sorted(FORMS)), st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=3))
def test_any_table_is_fitted_from_any_start(rows, form, start):
    """Separated tables, saturated starts and weights of any ratio: to the conditions of optimality."""
    x, neg, pos = (np.array(column) for column in zip(*rows, strict=True))
    ln_s, ln_not_s = log_probabilities(x)
    features = np.column_stack((ln_s, -ln_not_s, np.ones_like(x))) @ FORMS[form].T
    lower = np.array([-1.0 if row[:2].any() else -np.inf for row in FORMS[form]])
    cold = fit_logistic(features, x, neg, pos, lower, np.zeros(len(lower)))
    warm = fit_logistic(features, x, neg, pos, lower, np.array(start[: len(lower)]))
    for solution in (cold, warm):
        assert solution.solved
        assert solution.residual <= 1e-12 * max(1.0, np.abs(features).max())
        assert (solution.x >= lower).all()
    np.testing.assert_allclose(features @ warm.x, features @ cold.x, atol=1e-4)


def test_where_the_ridge_alone_decides_rounding_does_not_go_on_for_ever():
    """Found by trial: at x = 16 all labels are positive, and steps of 1e-6 in the log-odds there never end."""
    x = np.array([0.0, -16.0, -16.0, -16.0, 0.0, 16.0])
    neg = np.array([1.79410341, 0.0, 0.0, 6.04782391, 0.0, 0.0])
    pos = np.array([0.0, 2.46307789, 1.50379647, 0.0, 7.77170995, 0.0])
    ln_s, ln_not_s = log_probabilities(x)
    share = (neg + pos) / (neg + pos).sum()
    features = np.column_stack((ln_s - share @ ln_s, share @ ln_not_s - ln_not_s, np.ones(6)))
    solution = fit_logistic(features, x, neg, pos, np.array([-1.0, -1.0, -np.inf]), np.zeros(3))
    assert solution.solved
    u, neg, pos = np.array([[0.5, 0.0, 0.5, 1.0], [5.0, 0.0, 1.3, 0.0], [4.3, 0.0, 8.9, 3.6]])
    assert fit_bernstein_logistic(u, neg, pos, MonotoneLeastSquares(20), np.zeros(21), 20).solved


@pytest.mark.parametrize("seed", [1, 26, 31, 36, 72, 109])
def test_one_positive_above_all_negatives_is_fitted(seed):
    """Fit one positive above all negatives, as found on one segment of a distribution.

    The parameters are in the hundreds, and the loss too rough for a search along the last steps. One such table in
    seven ended at the iteration limit.
    """
    rng = np.random.default_rng(seed)
    scores = np.sort(0.93 * rng.beta(0.5, 0.5, int(rng.integers(50, 300))))
    cal = Beta(resolution=None)
    cal.learn_many(scores, np.arange(len(scores)) == len(scores) - 1)
    p = cal.predict_many(scores)
    # The score equation of c, which is free, up to a ridge of 1e-9 a unit of weight on parameters of 1e3 (seen: 4e-4).
    assert p.sum() == pytest.approx(1.0, abs=1e-3)
    assert (np.diff(p) >= 0.0).all()


def test_fit_logistic_says_what_it_cannot_do():
    one, free = np.ones(1), np.array([-np.inf])
    assert fit_logistic(one[:, None], one, 0 * one, 0 * one, free, 0 * one).status == "no data"
    assert fit_logistic(one[:, None], one * np.nan, one, one, free, 0 * one).status == "not finite"


# ---- Bernstein logistic regression ---------------------------------------------------------------------------------


def cone_program(degree, s, y, w):
    """Paper 001's problem as it stands, one exponential cone pair a score, by Clarabel: its coefficients.

    log(1 + exp η) ≤ t is exp(−t) + exp(η − t) ≤ 1: variables c, t, and the two exponentials.
    """
    n, k = degree + 1, len(s)
    basis = binom.pmf(np.arange(n), degree, s[:, None])
    size = n + 3 * k
    pick_t, pick_a, pick_b = (sparse.eye_array(k, size, k=n + i * k, format="csc") for i in range(3))
    log_odds = sparse.hstack([sparse.csc_array(basis), sparse.csc_array((k, 3 * k))], format="csc")
    rises = sparse.csc_array((n - 1, size)) + sparse.eye_array(n - 1, size) - sparse.eye_array(n - 1, size, k=1)
    ends = sparse.csc_array(np.vstack([-np.eye(1, size), np.eye(1, size, degree)]))
    # rows of A x + slack = b: c rises, −15 ≤ c_0, c_n ≤ 15, a + b ≤ 1, then (−t, 1, a) and (η − t, 1, b) in K_exp
    cones = [clarabel.NonnegativeConeT(n + 1 + k)] + [clarabel.ExponentialConeT() for _ in range(2 * k)]
    zero = sparse.csc_array((k, size))
    first = sparse.vstack([pick_t, zero, -pick_a], format="csr")
    second = sparse.vstack([pick_t - log_odds, zero, -pick_b], format="csr")
    order = np.arange(3 * k).reshape(3, k).T.ravel()
    rows = sparse.vstack([rises, ends, pick_a + pick_b, first[order], second[order]], format="csc")
    ones = np.tile([0.0, 1.0, 0.0], k)
    bounds = np.concatenate([np.zeros(n - 1), [15.0, 15.0], np.ones(k), ones, ones])
    share = w / w.sum()
    cost = np.concatenate([-(share * y) @ basis, share, np.zeros(2 * k)])
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    solver = clarabel.DefaultSolver(
        sparse.csc_matrix((size, size)), cost, sparse.csc_matrix(rows), bounds, cones, settings
    )
    return np.array(solver.solve().x[:n])


def bernstein_log_loss(coefficients, s, y, w):
    """Return the mean log loss, and its gradient in the coefficients."""
    basis = binom.pmf(np.arange(len(coefficients)), len(coefficients) - 1, s[:, None])
    log_odds = basis @ coefficients
    excess = w * (special.expit(log_odds) - y) / w.sum()
    return w @ (np.logaddexp(0.0, log_odds) - y * log_odds) / w.sum(), excess @ basis


LOGISTIC_STREAMS = {
    "calibrated": (300, {}),
    "overconfident": (300, {"power": 0.4}),
    "falling": (200, {"power": -0.5}),
    "steep": (200, {"power": 4.0}),
    "rare": (300, {"a": 0.5, "b": 20.0}),
    "ties": (400, {"levels": 10}),
    "few": (12, {}),
}


@pytest.mark.sample(7)
@pytest.mark.parametrize("stream", LOGISTIC_STREAMS)
@pytest.mark.parametrize("degree", [1, 5, 10])
def test_bernstein_logistic_is_the_cone_program(degree, stream):
    n, params = LOGISTIC_STREAMS[stream]
    s, y, w = probabilities(17, n, **params)
    cal = BernsteinLogistic(degree, resolution=None)
    cal.learn_many(s, y, w)
    ours = cal.map().coefficients
    theirs = cone_program(degree, s, y, w)
    losses = [bernstein_log_loss(c, s, y, w)[0] for c in (ours, theirs)]
    assert losses[0] == pytest.approx(losses[1], abs=1e-11)
    p = special.expit(binom.pmf(np.arange(degree + 1), degree, s[:, None]) @ theirs)
    np.testing.assert_allclose(cal.predict_many(s), p, atol=2e-6)


@pytest.mark.sample(3)
@pytest.mark.parametrize("stream", LOGISTIC_STREAMS)
@pytest.mark.parametrize("degree", [1, 10, 20])
def test_bernstein_logistic_obeys_the_conditions_of_optimality(degree, stream):
    """In the increments d: slope 0 where d > 0, none below 0 where d = 0, with a multiplier for c_n ≤ 15."""
    n, params = LOGISTIC_STREAMS[stream]
    s, y, w = probabilities(19, 10 * n, **params)
    cal = BernsteinLogistic(degree, resolution=None)
    cal.learn_many(s, y, w)
    c = cal.map().coefficients
    d = np.diff(c, prepend=-15.0)
    assert (d >= -1e-12).all()
    assert c[-1] <= 15.0
    ridge = 2.5e-11 * np.diff(c)
    slope = np.cumsum(bernstein_log_loss(c, s, y, w)[1][::-1])[::-1]
    slope[1:] += ridge
    multiplier = max(0.0, -slope.min()) if c[-1] > 15.0 - 1e-9 else 0.0
    slope = slope + multiplier
    assert slope.min() >= -1e-8
    assert np.abs(slope[d > 1e-9]).max(initial=0.0) <= 1e-8


def test_bernstein_logistic_of_one_label_and_of_separated_labels():
    cal = BernsteinLogistic()
    cal.learn_many([0.2, 0.4], [0, 0])
    assert cal.predict_many([0.0, 0.3, 1.0]).tolist() == pytest.approx([special.expit(-15.0)] * 3, rel=1e-4)
    cal.learn_many([0.6, 0.8], [1, 1])
    assert cal.map().coefficients[[0, -1]].tolist() == pytest.approx([-15.0, 15.0])
    assert cal.predict_one(0.4) < 0.01 < 0.99 < cal.predict_one(0.6)


@given(
    st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1e6), st.floats(0.0, 1e6)), min_size=1, max_size=12).filter(
        lambda rows: sum(row[1] + row[2] for row in rows) > 0.0
    ),
    st.sampled_from([1, 4, 10, 30]),
    st.integers(0, 2**32),
)
def test_any_bernstein_table_is_fitted_from_any_start(rows, degree, seed):
    u, neg, pos = (np.array(column) for column in zip(*rows, strict=True))
    start = np.sort(np.random.default_rng(seed).uniform(-15.0, 15.0, degree + 1))
    found = []
    for point in (np.zeros(degree + 1), start):
        solution = fit_bernstein_logistic(u, neg, pos, MonotoneLeastSquares(degree), point, degree)
        assert solution.solved
        assert solution.residual <= 1e-11
        found.append(basis_matrix(degree, u) @ solution.x)
    weight = (neg + pos) / (neg + pos).sum()
    p = [special.expit(log_odds) for log_odds in found]
    np.testing.assert_allclose((p[0] - p[1]) * weight, 0.0, atol=1e-6)


def test_fit_bernstein_logistic_says_what_it_cannot_do():
    one, start = np.ones(1), np.zeros(4)
    quadratic = MonotoneLeastSquares(3)
    assert fit_bernstein_logistic(one, 0 * one, 0 * one, quadratic, start, 3).status == "no data"
    assert fit_bernstein_logistic(one * np.nan, one, one, quadratic, start, 3).status == "not finite"
