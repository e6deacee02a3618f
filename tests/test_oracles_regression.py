"""The methods of distributions against plain transcriptions, other people's code, and simulations of their claims."""

import inspect
import itertools
import math
import statistics

import numpy as np
import pytest
import scoringrules
from scipy import optimize, stats
from scipy.integrate import quad
from scipy.special import expit, log_ndtr, logit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from streamcal import Beta, CapabilityError, InputError, Isotonic, Platt
from streamcal.metrics import CRPS, IntervalCoverage, LogLikelihood, Pinball, PITHistogram
from streamcal.regression import (
    METHODS,
    CalibratedDistribution,
    ConformalPredictive,
    EmpiricalDensity,
    IsotonicDistributional,
    Normal,
    Piecewise,
    QuantileRecalibration,
    Quantiles,
    Sample,
    VennAbersRegression,
)
from streamcal.regression.ramps import NormalRamp, ScoreRamp
from streamcal.regression.reading import (
    CDF_ROUNDING,
    cdf_at,
    cdfs_at,
    median,
    pit_interval,
    quantiles_of,
    segment_edges,
)
from streamcal.regression.recalibrated import Recalibrated, Rescored, complete, recalibrated

SUPPORT = (-5.0, 5.0)
EDGES = np.linspace(*SUPPORT, 9)
#: The same formula in another order of operations.
ROUNDED = 1e-12
#: Two minimisers of the same convex loss: ours stops at a gradient of 1e-12 and scikit-learn's at 1e-10.
FITTED = 1e-6


def two_lines(n: int, seed: int = 0) -> tuple[list[Normal], np.ndarray]:
    """Draw the toy data of paper 004, Figure 1, in small: two lines, and forecasts that know only their mean."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0.0, 2.0, n)
    y = np.where(rng.random(n) < 0.5, x, -1.0) + 0.2 * rng.normal(size=n)
    return [Normal(one, 1.0 + one / 4.0) for one in ((x - 1.0) / 2.0).tolist()], y


FORECASTS, Y = two_lines(400)
NEW, NEW_Y = two_lines(40, seed=1)
MEANS = np.array([one.mean for one in FORECASTS])
PITS = np.array([stats.norm.cdf(y, one.mean, one.sd) for one, y in zip(FORECASTS, Y, strict=True)])


# -- the empirical approach --------------------------------------------------------------------------------------


def informed(n: int, seed: int) -> tuple[list[Normal], np.ndarray]:
    """Forecasts that rank well in every segment, so that no method comes to a slope of 0; and skewed outcomes."""
    rng = np.random.default_rng(seed)
    means, sds = rng.uniform(-2.0, 2.0, n), rng.uniform(0.6, 1.4, n)
    y = means + 0.5 * sds * rng.gumbel(size=n)
    return [Normal(m, sd) for m, sd in zip(means.tolist(), sds.tolist(), strict=True)], y


INFORMED, INFORMED_Y = informed(400, seed=0)


def empirical(fit: object, inner: list[float], forecast: Normal) -> np.ndarray:
    """Paper 004, §4, both lists of steps, word for word: the masses qᵢ of the segments."""
    thresholds = [-math.inf, *inner, math.inf]
    calibrated = []
    for low, high in itertools.pairwise(thresholds):
        masses = [stats.norm.cdf(high, f.mean, f.sd) - stats.norm.cdf(low, f.mean, f.sd) for f in INFORMED]
        predict = fit(np.array(masses), (low < INFORMED_Y) & (high >= INFORMED_Y))
        calibrated.append(predict(forecast.cdf(high) - forecast.cdf(low)))
    return np.array(calibrated) / sum(calibrated)


def by_isotonic(scores: np.ndarray, labels: np.ndarray) -> object:
    model = IsotonicRegression(out_of_bounds="clip").fit(scores, labels)
    return lambda p: float(model.predict([p])[0])


def clamped(p: np.ndarray | float) -> np.ndarray:
    """Probabilities whose log-odds are within ±16, beyond which `Logit()` does not tell them apart."""
    return np.clip(p, expit(-16.0), expit(16.0))


def logistic(features: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> LogisticRegression:
    return LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-10, max_iter=500).fit(
        features, labels, weights
    )


def by_platt(scores: np.ndarray, labels: np.ndarray) -> object:
    """Logistic regression on the log-odds, with Platt's targets: a label is 1 with weight t and 0 with 1 − t."""
    scores = clamped(scores)
    targets = np.where(labels, (labels.sum() + 1) / (labels.sum() + 2), 1 / ((~labels).sum() + 2))
    z = np.tile(logit(scores), 2).reshape(-1, 1)
    both = np.repeat([1, 0], len(scores))
    model = logistic(z, both, np.concatenate((targets, 1 - targets)))
    return lambda p: float(model.predict_proba([[logit(clamped(p))]])[0, 1])


def both_logs(scores: np.ndarray) -> np.ndarray:
    return np.column_stack((np.log(clamped(scores)), -np.log1p(-clamped(scores))))


def by_beta(scores: np.ndarray, labels: np.ndarray) -> object:
    """Kull and others 2017: logistic regression on (ln s, −ln(1 − s)), without a feature that gets a slope below 0."""
    kept = [0, 1]
    while True:
        features = both_logs(scores)[:, kept]
        model = logistic(features, labels, np.ones(len(scores)))
        if (model.coef_ >= 0.0).all():
            break
        kept = [feature for feature, slope in zip(kept, model.coef_[0], strict=True) if slope >= 0.0]
    return lambda p: float(model.predict_proba(both_logs(np.array([p]))[:, kept])[0, 1])


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("calibrator", "fit", "within"),
    [
        (Isotonic(), by_isotonic, 1e-9),
        (Platt(resolution=None), by_platt, FITTED),
        (Beta(resolution=None), by_beta, FITTED),
    ],
    ids=["isotonic", "e-logistic", "e-beta"],
)
def test_empirical_density_is_the_papers_recipe(calibrator, fit, within):
    inner = [-1.0, -0.5, 0.5, 1.5]
    cal = EmpiricalDensity(calibrator, inner, support=SUPPORT)
    cal.learn_many(INFORMED, INFORMED_Y)
    edges = np.array([SUPPORT[0], *inner, SUPPORT[1]])
    for forecast in informed(1, seed=1)[0]:
        expected = empirical(fit, inner, forecast)
        found = cal.predict_one(forecast)
        np.testing.assert_allclose(np.diff(found.cdf(edges)), expected, rtol=0.0, atol=within)
        # "Interpretable as a piecewise constant density": the mass over the width of the segment.
        np.testing.assert_allclose(found.pdf(edges[1:] - 0.1), expected / np.diff(edges), rtol=0.0, atol=2.0 * within)


def test_calibration_raises_the_likelihood_on_the_toy_data():
    """Paper 004, §6.1: the calibrated densities are nearer to the truth than a normal one."""
    forecasts, y = two_lines(2000, seed=2)
    cal = EmpiricalDensity("beta", 16, support=(-3.0, 4.0))
    cal.learn_many(forecasts, y)
    new, outcomes = two_lines(500, seed=3)
    before = np.mean([one.log_prob(v) for one, v in zip(new, outcomes, strict=True)])
    after = np.mean([one.log_prob(v) for one, v in zip(cal.predict_many(new), outcomes, strict=True)])
    assert after > before + 0.1


def test_thresholds_from_a_sample():
    sample = np.random.default_rng(0).normal(size=1000)
    cal = EmpiricalDensity.from_sample(sample, "platt", 4)
    assert cal.params()["thresholds"] == tuple(np.quantile(sample, [0.25, 0.5, 0.75]))
    reach = np.ptp(sample)
    assert cal.params()["support"] == (sample.min() - 0.5 * reach, sample.max() + 0.5 * reach)


# -- the PIT -----------------------------------------------------------------------------------------------------


def test_quantile_recalibration_is_isotonic_regression_of_the_empirical_levels():
    """Kuleshov, Fenner and Ermon 2018, algorithm 1."""
    cal = QuantileRecalibration()
    cal.learn_many(FORECASTS, Y)
    share = [np.mean(u >= PITS) for u in PITS]
    model = IsotonicRegression(out_of_bounds="clip").fit(PITS, share)
    between = np.linspace(PITS.min(), PITS.max(), 301)
    np.testing.assert_allclose(cal.map().ramp.cdf(between), model.predict(between), atol=ROUNDED)
    found = cal.predict_one(NEW[0])
    t = NEW[0].ppf(between)
    np.testing.assert_allclose(found.cdf(t), model.predict(NEW[0].cdf(t)), atol=ROUNDED)


def test_quantile_recalibration_on_a_grid_is_exact_at_the_ends_of_cells():
    cal = QuantileRecalibration(3.0, resolution=10, scale="uniform")
    cal.learn_many(FORECASTS, Y)
    ends = np.arange(11) / 10
    expected = [(np.sum(end >= PITS) + 3.0 * end) / (len(PITS) + 3.0) for end in ends]
    np.testing.assert_allclose(cal.map().ramp.cdf(ends), expected, atol=ROUNDED)
    middles = 0.5 * (ends[1:] + ends[:-1])
    np.testing.assert_allclose(cal.map().ramp.cdf(middles), np.interp(middles, ends, expected), atol=ROUNDED)


def test_conformal_bounds_are_those_of_the_definition():
    cal = ConformalPredictive()
    cal.learn_many([*FORECASTS, FORECASTS[0]], [*Y, Y[0]])  # a tie
    held = np.append(PITS, PITS[0])
    for forecast, y in [*zip(NEW, NEW_Y, strict=True), (FORECASTS[0], Y[0])]:
        u = forecast.cdf(y)
        less, equal = np.sum(held < u), np.sum(held == u)
        found = cal.predict_bounds_one(forecast, y)
        assert found == pytest.approx((less / (len(held) + 1), (less + equal + 1) / (len(held) + 1)), abs=ROUNDED)
        assert found[0] - ROUNDED <= cal.predict_one(forecast).cdf(y) <= found[1] + ROUNDED


def repeated(trials: int, n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """PITs of n + 1 exchangeable outcomes under a model that is wrong in mean, scale and shape."""
    rng = np.random.default_rng(seed)
    y = rng.gumbel(0.7, 2.0, (trials, n + 1)) * rng.exponential(1.0, (trials, n + 1))
    return y, stats.norm.cdf(y)


@pytest.mark.full
@pytest.mark.sample(2)
@pytest.mark.parametrize("resolution", [None, 4])
def test_conformal_pits_are_uniform_in_finite_samples(resolution):
    """The theorem: Q(y, τ) is uniform, for nine observations, of a wrong model, ties (on a grid) and all."""
    trials, n = 1500, 9
    outcomes, _ = repeated(trials, n, seed=5)
    rng = np.random.default_rng(6)
    forecast = Normal(0.0, 1.0)
    smoothed = []
    for y in outcomes.tolist():
        cal = ConformalPredictive(resolution=resolution)
        cal.learn_many([forecast] * n, y[:-1])
        low, high = cal.predict_bounds_one(forecast, y[-1])
        smoothed.append(low + rng.random() * (high - low))
    assert stats.kstest(smoothed, "uniform").pvalue > 0.01
    # A test that can fail: the model's own PITs are far from uniform.
    assert stats.kstest(stats.norm.cdf(outcomes[:, -1]), "uniform").pvalue < 1e-6


def test_conformal_quantiles_have_their_levels_exactly():
    trials, n = 400, 4
    outcomes, _ = repeated(trials, n, seed=8)
    forecast = Normal(0.0, 3.0)
    below = np.zeros(n)
    for y in outcomes.tolist():
        cal = ConformalPredictive()
        cal.learn_many([forecast] * n, y[:-1])
        below += y[-1] <= cal.predict_one(forecast).ppf(np.arange(1, n + 1) / (n + 1))
    levels = np.arange(1, n + 1) / (n + 1)
    assert np.abs(below / trials - levels).max() < 4.0 * math.sqrt(0.25 / trials)  # four standard errors


def test_outcomes_beyond_what_levels_tell_are_spread_over_the_next_piece():
    cal = QuantileRecalibration(scale="uniform")
    cal.learn_many([Normal(0.0, 1.0)] * 4, [-50.0, 0.0, 1.0, 50.0])
    assert cal.tally()["outside"] == 2
    ramp = cal.map().ramp
    assert ramp.knots.tolist() == [0.0, 0.5, float(stats.norm.cdf(1.0)), 1.0]
    assert ramp.levels.tolist() == [0.0, 0.5, 0.75, 1.0]
    # By normal scores they are outcomes like all others.
    cal = QuantileRecalibration()
    cal.learn_many([Normal(0.0, 1.0)] * 4, [-50.0, 0.0, 1.0, 50.0])
    assert cal.tally()["outside"] == 0
    assert cal.predict_one(Normal(3.0, 2.0)).ppf([0.25, 0.5, 0.75, 1.0]) == pytest.approx([-97.0, 3.0, 5.0, 103.0])


# -- thresholds and medians --------------------------------------------------------------------------------------


def test_isotonic_distributional_is_an_isotonic_regression_at_each_threshold():
    cal = IsotonicDistributional(8, support=SUPPORT)
    cal.learn_many(FORECASTS, Y)
    for forecast in NEW[:10]:
        expected = [
            IsotonicRegression(increasing=False, out_of_bounds="clip").fit(MEANS, t >= Y).predict([forecast.mean])[0]
            for t in EDGES[1:-1]
        ]
        np.testing.assert_allclose(cal.predict_one(forecast).cdf(EDGES[1:-1]), expected, atol=1e-9)


def test_venn_abers_regression_is_two_isotonic_regressions_at_each_threshold():
    cal = VennAbersRegression("brier-minimax", 8, support=SUPPORT)
    cal.learn_many(FORECASTS, Y)
    for forecast in NEW[:4]:
        found = cal.predict_one(forecast)
        for t in EDGES[1:-1]:
            pair = []
            for label in (0.0, 1.0):
                scores, labels = np.append(MEANS, forecast.mean), np.append(t < Y, label)
                pair.append(IsotonicRegression().fit(scores, labels).predict([forecast.mean])[0])
            p0, p1 = pair
            assert found.lower.cdf(t) == pytest.approx(1.0 - p1, abs=1e-9)
            assert found.upper.cdf(t) == pytest.approx(1.0 - p0, abs=1e-9)
            assert found.cdf(t) == pytest.approx(1.0 - (p1 + p0 * p0 / 2.0 - p1 * p1 / 2.0), abs=1e-9)


@pytest.mark.full
def test_venn_abers_pairs_are_calibrated_at_each_threshold():
    """P(Y > t | p_Y) = p_Y: the selected probability, over many small samples of a wrong model."""
    rng = np.random.default_rng(11)
    trials, n = 600, 12
    chosen, happened = [], []
    for _ in range(trials):
        m = rng.normal(size=n + 1)
        y = (0.5 * m + rng.gumbel(size=n + 1)).tolist()
        cal = VennAbersRegression(thresholds=[0.0, 1.0], support=(-9.0, 9.0))
        cal.learn_many([Normal(one, 0.3) for one in m[:-1].tolist()], y[:-1])
        found = cal.predict_one(Normal(float(m[-1]), 0.3))
        chosen.append([1.0 - (found.lower if y[-1] > t else found.upper).cdf(t) for t in (0.0, 1.0)])
        happened.append([y[-1] > t for t in (0.0, 1.0)])
    for p, outcome in zip(np.array(chosen).T, np.array(happened, dtype=float).T, strict=True):
        for group in (p < 0.4, (p >= 0.4) & (p < 0.7), p >= 0.7):
            error = np.mean(outcome[group] - p[group])
            assert abs(error) < 4.0 * math.sqrt(0.25 / group.sum())  # four standard errors at most


# -- distributions -----------------------------------------------------------------------------------------------


def test_normal_is_scipys():
    ours, theirs = Normal(1.5, 0.25), stats.norm(1.5, 0.25)
    t = np.linspace(-1.0, 4.0, 41)
    for mine, other in ((ours.cdf, theirs.cdf), (ours.pdf, theirs.pdf), (ours.log_prob, theirs.logpdf)):
        np.testing.assert_allclose(mine(t), other(t), rtol=1e-12)
    levels = np.linspace(0.0, 1.0, 21)
    np.testing.assert_allclose(ours.ppf(levels), theirs.ppf(levels), rtol=1e-12)
    assert ours.interval(0.9) == pytest.approx(theirs.interval(0.9))
    assert (ours.mean, ours.sd) == (theirs.mean(), theirs.std())
    assert ours.log_prob(500.0) == pytest.approx(theirs.logpdf(500.0))  # where the density rounds to 0


def test_crps_is_that_of_scoringrules():
    y = np.linspace(-4.0, 7.0, 45)
    np.testing.assert_allclose(Normal(0.5, 2.0).crps(y), scoringrules.crps_normal(y, 0.5, 2.0), atol=1e-12)
    uniform = Piecewise([-1.0, 3.0], [0.0, 1.0])
    np.testing.assert_allclose(uniform.crps(y), scoringrules.crps_uniform(y, -1.0, 3.0), atol=1e-12)
    values = np.array([0.5, -1.0, 2.0, 2.0, 6.5])
    expected = [scoringrules.crps_ensemble(one, values) for one in y]
    np.testing.assert_allclose(Sample(values).crps(y), expected, atol=1e-12)


def test_piecewise_is_a_mixture_of_uniforms_and_atoms():
    one = Piecewise([-1.0, 0.0, 0.0, 2.0, 3.0, 3.0], [0.0, 0.25, 0.5, 0.5, 0.75, 1.0])
    draws = one.sample(1, 40_000)
    t = np.array([-2.0, -1.0, -0.5, -1e-9, 0.0, 1.0, 2.5, 2.999, 3.0, 4.0])
    share = (draws[:, np.newaxis] <= t).mean(axis=0)
    np.testing.assert_allclose(one.cdf(t), share, atol=4.0 * math.sqrt(0.25 / 40_000))
    assert one.mean == pytest.approx(0.25 * -0.5 + 0.25 * 2.5 + 0.25 * 3.0)
    assert one.pdf(np.array([-0.5, 0.0, 1.0, 2.5, 3.0, 4.0])).tolist() == [0.25, math.inf, 0.0, 0.25, math.inf, 0.0]
    assert one.ppf(np.array([0.0, 0.3, 0.5, 0.625, 0.75, 0.9, 1.0])).tolist() == [-1.0, 0.0, 0.0, 2.5, 3.0, 3.0, 3.0]
    with pytest.raises(ValueError, match="read-only"):
        one.knots[0] = 5.0


def test_extreme_knots_stay_finite():
    wide = Piecewise([-1e308, 0.0, 1e308], [0.0, 0.5, 1.0])
    assert wide.mean == 0.0
    assert wide.cdf(0.0) == 0.5
    narrow = Piecewise([0.0, 5e-324], [0.0, 1.0])
    assert narrow.pdf(5e-324) == math.inf
    assert narrow.crps(1.0) == 1.0
    assert Sample([2.0]).interval(0.5) == (2.0, 2.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Normal(0.0, 0.0),
        lambda: Normal(0.0, -1.0),
        lambda: Normal(math.nan, 1.0),
        lambda: Normal(0.0, math.inf),
        lambda: Normal("0", 1.0),
        lambda: Normal(0.0, True),
        lambda: Quantiles([0.5], [1.0]),
        lambda: Quantiles([0.5, 0.5], [1.0, 2.0]),
        lambda: Quantiles([0.1, 1.5], [1.0, 2.0]),
        lambda: Quantiles([0.1, 0.5], [2.0, 1.0]),
        lambda: Quantiles([0.1, 0.5], [1.0, 2.0, 3.0]),
        lambda: Quantiles([0.1, 0.5], [1.0, math.nan]),
        lambda: Sample([]),
        lambda: Sample([math.inf]),
        lambda: Sample([[1.0]]),
        lambda: Sample("abc"),
        lambda: Piecewise([0.0, 1.0], [0.0, 0.5]),
        lambda: Piecewise([0.0, 1.0], [0.1, 1.0]),
        lambda: Piecewise([1.0, 0.0], [0.0, 1.0]),
        lambda: Piecewise([-1e308, 1e308], [0.0, 1.0]),
        lambda: Sample([-1e308, 1e308]),
        lambda: Piecewise([0.0, 1.0, 2.0, 3.0], [0.0, 0.6, 0.4, 1.0]),
        lambda: Piecewise([0.0, 1.0], [0.0, 0.5, 1.0]),
        lambda: Normal(0.0, 1.0).ppf(1.5),
        lambda: Normal(0.0, 1.0).ppf(math.nan),
        lambda: Normal(0.0, 1.0).cdf(math.nan),
        lambda: Normal(0.0, 1.0).crps("0"),
        lambda: Normal(0.0, 1.0).interval(2.0),
    ],
)
def test_what_is_no_distribution_and_no_question(make):
    with pytest.raises(InputError):
        make()


RAMP = Piecewise([0.0, 0.1, 0.3, 0.35, 0.8, 1.0], [0.0, 0.3, 0.35, 0.35, 0.9, 1.0])


@pytest.mark.sample(4)
@pytest.mark.parametrize("base", [stats.norm(0.5, 2.0), stats.expon(), stats.t(5.0), stats.beta(2.0, 3.0)])
def test_recalibrated_distributions_by_numerical_integration(base):
    found = recalibrated(base, RAMP)
    kinks = base.ppf(RAMP.knots)
    assert found.cdf(kinks[1:-1]) == pytest.approx(RAMP.levels[1:-1])
    for y in (-1.0, 0.25, 3.0):
        ends = np.unique(np.concatenate((np.clip(kinks, -300.0, 300.0), [y, 0.0])))
        pieces = list(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))
        # beyond ±300 nothing is left of these distributions but for 1e-9 of the Student t
        crps = sum(quad(lambda t, y=y: (found.cdf(t) - (t >= y)) ** 2, *piece, epsabs=1e-11)[0] for piece in pieces)
        assert found.crps(y) == pytest.approx(crps, abs=1e-6)
        mean = sum(quad(lambda t: (t >= 0.0) - found.cdf(t), *piece, epsabs=1e-11)[0] for piece in pieces)
        assert found.mean == pytest.approx(mean, abs=1e-5)
    slope = found.pdf(base.ppf(0.2)) / base.pdf(base.ppf(0.2))
    assert slope == pytest.approx(0.05 / 0.2)
    assert found.log_prob(base.ppf(0.33)) == -math.inf


def test_recalibrated_normals_have_their_closed_mean():
    z = stats.norm.ppf(RAMP.knots)
    expected = 0.5 - 2.0 * np.sum(np.diff(RAMP.levels) / np.diff(RAMP.knots) * np.diff(stats.norm.pdf(z)))
    assert Recalibrated(Normal(0.5, 2.0), RAMP).mean == pytest.approx(expected, abs=ROUNDED)
    assert Recalibrated(stats.norm(0.5, 2.0), RAMP).mean == pytest.approx(expected, abs=2e-10)  # as the class says
    assert complete(stats.norm(0.5, 2.0)).mean == pytest.approx(0.5, abs=2e-10)
    # Knots a float apart, whose densities differ by rounding alone.
    close = Piecewise([0.0, 0.3, np.nextafter(0.3, 1.0), 1.0], [0.0, 0.01, 0.99, 1.0])
    assert Recalibrated(Normal(0.0, 1.0), close).mean == pytest.approx(0.98 * stats.norm.ppf(0.3), abs=0.02)


@pytest.mark.sample(6)
@pytest.mark.parametrize("rate", [0.5, 1.0, 3.0, 10.0, 100.0, 1000.0])
def test_counts_are_exact_as_pieces_and_near_otherwise(rate):
    counts = np.arange(int(rate + 40.0 * math.sqrt(rate)))
    levels = stats.poisson(rate).cdf(np.append(counts - 1, counts[-1]))
    levels[-1] = 1.0
    exact = Piecewise(np.repeat(counts, 2), np.column_stack((levels[:-1], levels[1:])).ravel())
    general, deviation = complete(stats.poisson(rate)), math.sqrt(rate)
    assert exact.mean == pytest.approx(rate, abs=1e-9)
    assert general.mean == pytest.approx(rate, abs=0.02 * deviation)  # 0.011 seen, as the class says
    for y in (-0.5, 0.0, float(int(rate)), rate + 0.5, rate + 3.0 * deviation):
        gini = float(np.abs(counts[:, None] - counts) @ np.diff(levels) @ np.diff(levels))
        assert exact.crps(y) == pytest.approx(float(np.abs(counts - y) @ np.diff(levels)) - 0.5 * gini, abs=1e-9)
        assert general.crps(y) == pytest.approx(exact.crps(y), abs=0.02 * deviation)


def test_recalibrated_pieces_are_exact():
    """Against the general class, which asks the same cdf and searches it."""
    for base in (Quantiles([0.1, 0.35, 0.9], [0.0, 1.0, 1.0]), Sample([1.0, 2.0, 2.0, 5.0]), Normal(0.0, 1.0)):
        exact, general = recalibrated(base, RAMP), Recalibrated(base, RAMP)
        t = np.linspace(-3.0, 6.0, 91)
        np.testing.assert_allclose(exact.cdf(t), general.cdf(t), atol=ROUNDED)
        np.testing.assert_allclose(exact.ppf(np.linspace(0.01, 1.0, 34)), general.ppf(np.linspace(0.01, 1.0, 34)))


class OnlyCdf:
    """A distribution that answers one question."""

    cdf = staticmethod(stats.norm(3.0, 0.5).cdf)


def test_a_distribution_with_a_cdf_alone_has_searched_quantiles():
    levels = np.array([0.0, 0.001, 0.5, 0.9, 1.0])
    np.testing.assert_allclose(quantiles_of(OnlyCdf(), levels)[1:4], stats.norm(3.0, 0.5).ppf(levels[1:4]), rtol=1e-14)
    assert quantiles_of(OnlyCdf(), levels)[0] == -math.inf
    assert median(OnlyCdf()) == pytest.approx(3.0, rel=1e-14)
    found = complete(OnlyCdf())
    assert isinstance(found, CalibratedDistribution)
    assert found.mean == pytest.approx(3.0, abs=1e-9)
    assert found.crps(3.0) == pytest.approx(Normal(3.0, 0.5).crps(3.0), abs=1e-9)
    with pytest.raises(CapabilityError, match="no pdf"):
        found.pdf(0.0)


class OneByOne:
    """A distribution that takes floats alone, by `math` and an `if`."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def cdf(self, t: float) -> float:
        if self.error is not None:
            raise self.error
        return 0.5 * math.erfc(-t / math.sqrt(2.0)) if t < 0.0 else 1.0 - 0.5 * math.erfc(t / math.sqrt(2.0))


BOUNDED = {"support": SUPPORT}


@pytest.mark.sample(8)
@pytest.mark.parametrize("distribution", [statistics.NormalDist(0.0, 1.0), OneByOne()], ids=["statistics", "own"])
@pytest.mark.parametrize("name", METHODS)
def test_a_cdf_that_takes_floats_alone_is_one_as_any_other(name, distribution):
    needed = inspect.signature(METHODS[name]).parameters
    own, other = (METHODS[name](**(BOUNDED if "support" in needed else {})) for _ in range(2))
    y = np.random.default_rng(0).normal(0.3, 1.5, 40)
    for method, given in ((own, distribution), (other, Normal(0.0, 1.0))):
        method.learn_one(given, 0.3)
        method.learn_many([given] * len(y), y)
    for found, there in zip(own.predict_many([distribution]), other.predict_many([Normal(0.0, 1.0)]), strict=True):
        # `math.erfc` and SciPy differ in the last digits, and bisection of a cdf, whose step is 1e-16, is less exact in
        # the tails; the integrals are those of `test_a_distribution_with_a_cdf_alone_has_searched_quantiles`.
        assert found.cdf(0.2) == pytest.approx(there.cdf(0.2), abs=1e-9)
        assert found.interval(0.8) == pytest.approx(there.interval(0.8), abs=1e-6)
        assert found.mean == pytest.approx(there.mean, abs=1e-6)
        assert found.crps(0.3) == pytest.approx(there.crps(0.3), abs=1e-6)


@pytest.mark.parametrize("metric", [CRPS(), Pinball(0.9), PITHistogram(), LogLikelihood(), IntervalCoverage()])
def test_a_distribution_of_the_standard_library_is_measured(metric):
    metric.update(0.3, statistics.NormalDist(0.0, 1.0))
    metric.update_many([0.3, 0.4], [statistics.NormalDist(0.0, 1.0)] * 2)
    assert metric.n == 3.0


@pytest.mark.parametrize("error", [TypeError("no such cdf"), ValueError("no such cdf")])
def test_a_cdf_that_fails_is_refused_with_its_reason(error):
    cal = QuantileRecalibration()
    with pytest.raises(InputError, match=r"the cdf of .* failed at .*: no such cdf; it must give a number") as refused:
        cal.learn_one(OneByOne(error), 0.3)
    assert refused.value.__cause__ is error
    assert cal.n == 0.0


# -- reading -----------------------------------------------------------------------------------------------------


class Given:
    """A cdf with the values it was given."""

    def __init__(self, values: list[float]) -> None:
        self.values = values

    def cdf(self, t: np.ndarray) -> np.ndarray:
        return np.array(self.values)


def test_rounding_in_a_cdf_is_mended_and_more_is_refused():
    thresholds = np.arange(3.0)
    assert cdf_at(Given([-1e-16, 0.5, 0.5 - 1e-16]), thresholds).tolist() == [0.0, 0.5, 0.5]
    assert cdf_at(Given([0.0, 0.5, 1.0 + 1e-16]), thresholds).tolist() == [0.0, 0.5, 1.0]
    for bad in ([0.0, 0.5, 0.5 - 2 * CDF_ROUNDING], [-2 * CDF_ROUNDING, 0.0, 1.0], [0.0, math.nan, 1.0], [0.0, 1.0]):
        with pytest.raises(InputError):
            cdf_at(Given(bad), thresholds)
    with pytest.raises(InputError):
        pit_interval(Given([0.5]), 0.0)


def test_normals_read_together_are_normals_read_alone():
    thresholds = np.linspace(-3.0, 3.0, 7)
    expected = [cdf_at(one, thresholds) for one in NEW]
    assert np.array_equal(cdfs_at(NEW, thresholds), expected)
    mixed = [*NEW[:3], stats.norm(0.0, 1.0)]
    assert np.array_equal(cdfs_at(mixed, thresholds)[:3], expected[:3])
    assert cdfs_at([], thresholds).shape == (0, 7)


def test_segments_are_equal_and_reach_the_ends():
    assert segment_edges(5, (0.0, 1.0)).tolist() == np.linspace(0.0, 1.0, 6).tolist()
    assert segment_edges(np.array([0.25]), (0.0, 1.0)).tolist() == [0.0, 0.25, 1.0]


@pytest.mark.parametrize("weight", [1e-60, 1.0, 1e60])
def test_weights_of_every_magnitude(weight):
    """All weights times a constant: the same distribution, but for the +1 of the conformal rank, and for exact PITs.

    Of those a weight above 1 is a jump, as equal PITs are, so that the cdf is lower between them by a PIT at most.
    """
    for make, within in (
        (lambda: QuantileRecalibration(), 0.02 if weight > 1.0 else ROUNDED),
        (lambda: QuantileRecalibration(resolution=64), ROUNDED),
        (lambda: EmpiricalDensity("isotonic", 4, support=SUPPORT), ROUNDED),
        (lambda: IsotonicDistributional(4, support=SUPPORT), ROUNDED),
    ):
        plain, scaled = make(), make()
        plain.learn_many(FORECASTS[:50], Y[:50])
        scaled.learn_many(FORECASTS[:50], Y[:50], np.full(50, weight))
        t = np.linspace(-4.0, 4.0, 17)
        np.testing.assert_allclose(scaled.predict_one(NEW[0]).cdf(t), plain.predict_one(NEW[0]).cdf(t), atol=within)
    conformal = ConformalPredictive()
    conformal.learn_many(FORECASTS[:50], Y[:50], np.full(50, weight))
    assert 0.0 <= conformal.predict_one(NEW[0]).cdf(0.0) <= 1.0


# -- outcomes further away than the smallest float ----------------------------------------------------------------


def _ramp(knots, levels, geometric):
    levels = np.array(levels)
    return ScoreRamp(np.array(knots), levels, 1.0 - levels, geometric)


def _area(cdf, ends):
    """Return the mean by Gauss-Legendre quadrature between ends that include all knots and 0."""
    nodes, weights = np.polynomial.legendre.leggauss(40)
    total = 0.0
    for a, b in itertools.pairwise(ends):
        t = 0.5 * (a + b) + 0.5 * (b - a) * nodes
        total += 0.5 * (b - a) * float(weights @ ((1.0 - cdf(t)) if a >= 0.0 else -cdf(t)))
    return total


@pytest.mark.sample(6)
@pytest.mark.parametrize("geometric", [True, False])
@pytest.mark.parametrize("far", [50.0, 1e3, 1e6])
def test_a_knot_far_away_takes_no_time(far, geometric):
    made = Rescored(Normal(0.0, 1.0), _ramp([-1.5, far], [0.05, 0.95], geometric))
    near = np.concatenate(
        (-np.geomspace(40.0, 1.5, 60), np.linspace(-1.5, 0.0, 4)[1:], np.linspace(0.0, 40.0, 200)[1:])
    )
    upto = np.concatenate((np.geomspace(40.0, 0.9 * far, 200), far - np.geomspace(0.1 * far, 1e-9, 200), [far]))
    ends = np.concatenate((near, upto[1:], far + np.geomspace(1e-9, 40.0, 200)))
    assert made.mean == pytest.approx(_area(made.cdf, ends), rel=1e-8)
    assert made.ppf(0.95) == pytest.approx(far, rel=1e-12)


@pytest.mark.parametrize("base", [Normal(0.0, 1.0), stats.norm()], ids=["Normal", "scipy"])
def test_a_chain_of_maps_knows_levels_that_no_float_holds(base):
    inner = _ramp([-60.0, 1.0, 60.0], [0.2, 0.4, 0.8], True)
    outer = _ramp([-57.0, 57.0], [0.45, 0.55], True)
    made = Rescored(Rescored(base, inner), outer)
    # Beyond ±60 the mass is that of the base, times 0.2 over what is predicted there.
    depth = float(log_ndtr(-57.0) - math.log(0.2) + log_ndtr(-60.0))
    place = optimize.brentq(lambda z: log_ndtr(-z) - depth, 60.0, 200.0, xtol=1e-12)
    assert (made.ppf(0.45), made.ppf(0.55)) == pytest.approx((-place, place), rel=1e-12)
    assert made.cdf(place - 0.1) < 0.55 < made.cdf(place + 0.1)
    normal = Rescored(Rescored(base, NormalRamp(2.0, 2.0)), outer)
    assert (normal.ppf(0.45), normal.ppf(0.55)) == pytest.approx((-112.0, 116.0), rel=1e-12)


def test_the_mean_of_a_chain_with_far_knots():
    inner, outer = _ramp([-1.0, 1.0, 60.0], [0.2, 0.4, 0.8], False), _ramp([57.0], [0.43], True)
    made = Rescored(Rescored(Normal(0.0, 1.0), inner), outer)
    cuts = made._at_normal_scores(np.array([0.0]))
    last = made.ppf(0.43)
    ends = np.unique(np.concatenate((
        np.linspace(-40.0, 0.0, 300), [-1.0, 1.0, 60.0, last], cuts, np.linspace(0.0, 60.0, 1000),
        60.0 + np.geomspace(1e-6, last - 60.0, 300), np.linspace(60.0, last, 500), last + np.geomspace(1e-9, 5.0, 200),
    )))  # fmt: skip
    assert made.mean == pytest.approx(_area(made.cdf, ends), rel=1e-7)
