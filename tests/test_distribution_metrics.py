"""The measures of distributions against their definitions, and the laws they share."""

from __future__ import annotations

import copy
import math
import pickle

import numpy as np
import pytest
import scoringrules
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtr

from streamcal.errors import CapabilityError, InputError, MergeError, RetractionError
from streamcal.metrics import (
    CRPS,
    DistributionMetric,
    IntervalCoverage,
    IntervalScore,
    LogLikelihood,
    Pinball,
    PITHistogram,
    Sharpness,
    ThresholdWeightedCRPS,
)
from streamcal.regression import AdaptiveConformal, ConformalPredictive, Normal, Piecewise, Quantiles, Sample

METRICS = [
    LogLikelihood,
    CRPS,
    lambda: Pinball(0.9),
    lambda: IntervalCoverage(0.5),
    lambda: PITHistogram(4),
    lambda: IntervalScore(0.5),
    lambda: ThresholdWeightedCRPS(low=0.25),
    Sharpness,
]
#: Plain sums of a few terms, in another order.
SUMS = 1e-11

FORECASTS = [
    Normal(0.0, 1.0),
    Normal(1.0, 0.25),
    Quantiles([0.25, 0.75], [-1.0, 1.0]),
    Sample([0.0, 1.0]),
    stats.norm(0.5, 2.0),
]
observations = st.tuples(
    st.sampled_from(FORECASTS),
    st.sampled_from([-3.0, -0.5, 0.0, 0.3, 1.0, 4.0]),
    st.integers(0, 8).map(lambda k: k / 4),
)
streams = st.lists(observations, max_size=8)


def filled(make, rows) -> DistributionMetric:
    metric = make()
    for forecast, y, w in rows:
        metric.update(y, forecast, w)
    return metric


def answers(metric: DistributionMetric) -> list[float]:
    """All that a metric says."""
    names = ("value", "n", "finite", "impossible", "certain", "width", "log_e_value", "weights", "counts")
    said = [getattr(metric, name, None) for name in names]
    return [number for one in said if one is not None for number in np.ravel(one).tolist()]


@pytest.mark.parametrize("make", METRICS)
@pytest.mark.parametrize("w", [1e60, 1e10])
def test_a_retraction_that_leaves_what_rounding_has_reached_is_refused(make, w):
    metric = filled(make, [(Normal(0.0, 1.0), 0.5, w), (Normal(0.0, 1.0), 0.5, 1.0)])
    before = pickle.dumps(metric)
    with pytest.raises(RetractionError, match="rounding"):
        metric.revert(0.5, Normal(0.0, 1.0), w)
    assert pickle.dumps(metric) == before


# -- each measure against its definition -------------------------------------------------------------------------


def test_means_of_terms_are_their_definitions():
    rng = np.random.default_rng(0)
    means, y, w = rng.normal(size=50), rng.normal(size=50), rng.integers(1, 4, 50).astype(float)
    forecasts = [Normal(m, 1.5) for m in means.tolist()]
    found = []
    for metric in (LogLikelihood(), CRPS(), Pinball(0.2), IntervalCoverage(0.8)):
        metric.update_many(y, forecasts, w)
        found.append(metric.get())
    q = stats.norm.ppf(0.2, means, 1.5)
    low, high = stats.norm(means, 1.5).interval(0.8)
    expected = [
        stats.norm.logpdf(y, means, 1.5),
        [one.crps(v) for one, v in zip(forecasts, y.tolist(), strict=True)],
        np.where(y >= q, 0.2 * (y - q), 0.8 * (q - y)),
        (low <= y) & (y <= high),
    ]
    assert found == pytest.approx([np.average(terms, weights=w) for terms in expected], rel=SUMS)


def test_the_crps_is_twice_the_pinball_loss_over_all_levels():
    forecast, y = Normal(0.5, 2.0), 1.25
    levels = (np.arange(2000) + 0.5) / 2000
    mean = np.mean(
        [filled(lambda level=level: Pinball(level), [(forecast, y, 1.0)]).get() for level in levels.tolist()]
    )
    assert filled(CRPS, [(forecast, y, 1.0)]).get() == pytest.approx(2.0 * mean, abs=1e-5)


def test_the_interval_score_is_that_of_scoringrules():
    for forecast in (Normal(0.5, 2.0), Quantiles([0.25, 0.75], [-1.0, 1.0])):
        low, high = forecast.interval(0.8)
        for y in (-5.0, 0.3, 7.0):
            found = filled(lambda: IntervalScore(0.8), [(forecast, y, 1.0)]).get()
            assert found == pytest.approx(scoringrules.interval_score(y, low, high, 0.2), rel=1e-12)
            pinballs = [filled(lambda a=a: Pinball(a), [(forecast, y, 1.0)]).get() for a in (0.1, 0.9)]
            assert 0.1 * found == pytest.approx(sum(pinballs), rel=1e-9)


def test_the_weighted_crps_is_that_of_scoringrules():
    """Of normal distributions it is the CRPS of a censored one."""
    values = np.array([0.5, -1.0, 2.0, 2.0, 6.5])
    for low, high in ((-1.0, 2.5), (3.0, math.inf), (-math.inf, 0.2), (40.0, 50.0)):
        for y in (-3.0, 0.7, 2.5, 45.0, 99.0):
            metric = filled(lambda low=low, high=high: ThresholdWeightedCRPS(low, high), [(Normal(0.5, 2.0), y, 1.0)])
            inside = min(max(y, low), high)
            # Where no mass is inside, as theirs divides by it, all of it is at the end.
            expected = inside - low if low == 40.0 else scoringrules.crps_cnormal(inside, 0.5, 2.0, low, high)
            # our quadrature is cut off at levels of 1e-18, theirs is a closed formula that cancels
            assert metric.get() == pytest.approx(float(expected), abs=1e-8)
            sample = filled(lambda low=low, high=high: ThresholdWeightedCRPS(low, high), [(Sample(values), y, 1.0)])
            moved = np.clip(values, low, high)
            assert sample.get() == pytest.approx(float(scoringrules.crps_ensemble(inside, moved)), abs=1e-12)
    wide = filled(lambda: ThresholdWeightedCRPS(-1e9, math.inf), [(Sample(values), 3.0, 1.0)])
    assert wide.get() == pytest.approx(Sample(values).crps(3.0), abs=1e-9)


def test_sharpness_is_the_root_of_the_mean_variance():
    forecasts = [
        Normal(0.0, 3.0),
        Sample([1.0, 2.0, 6.0]),
        Piecewise([0.0, 1.0, 4.0], [0.0, 0.5, 1.0]),
        stats.gamma(2.0),
    ]
    variances = [9.0, np.var([1.0, 2.0, 6.0]), None, 2.0]
    t = (np.arange(200_000) + 0.5) / 200_000
    variances[2] = np.var(forecasts[2].ppf(t))
    for forecast, variance in zip(forecasts, variances, strict=True):
        assert filled(Sharpness, [(forecast, 0.0, 1.0)]).get() == pytest.approx(math.sqrt(variance), rel=1e-8)
    assert filled(Sharpness, [(one, 5.0, 2.0) for one in forecasts]).get() == pytest.approx(
        math.sqrt(np.mean(variances)), rel=1e-8
    )


@pytest.mark.parametrize("forecast", [stats.t(2.5), stats.pareto(2.5), stats.lognorm(2.0), stats.poisson(1e12)])
def test_a_stated_deviation_is_the_sharpness(forecast):
    assert filled(Sharpness, [(forecast, 0.0, 1.0)]).get() == pytest.approx(forecast.std(), rel=1e-15)


class Student:
    """A t distribution that states no deviation."""

    def __init__(self, degrees):
        self.cdf, self.ppf = stats.t(degrees).cdf, stats.t(degrees).ppf


def test_there_is_no_sharpness_without_a_variance():
    for forecast in (stats.t(2.0), stats.pareto(1.5), Normal(0.0, 1e155)):
        with pytest.raises(InputError, match=r"variance .* is inf; it must be finite"):
            Sharpness().update(0.0, forecast)
    with pytest.raises(CapabilityError, match="has no variance: its tail is too heavy"):
        Sharpness().update(0.0, Student(1.9))
    assert filled(Sharpness, [(Student(3.0), 0.0, 1.0)]).get() == pytest.approx(math.sqrt(3.0), rel=1e-5)


def test_an_attribute_called_inner_is_no_distribution():
    forecast = Student(5.0)
    expected = filled(lambda: ThresholdWeightedCRPS(low=0.0), [(forecast, 1.0, 1.0)]).get()
    forecast.inner = Normal(5.0, 1.0)
    assert filled(lambda: ThresholdWeightedCRPS(low=0.0), [(forecast, 1.0, 1.0)]).get() == expected


def test_adjusted_intervals_leave_closed_formulas():
    ensemble = Sample(np.random.default_rng(0).standard_normal(50))
    issued = AdaptiveConformal(0.9).predict_one(ensemble)
    for make in (Sharpness, CRPS, lambda: ThresholdWeightedCRPS(low=0.0)):
        assert filled(make, [(issued, 0.5, 1.0)]).get() == pytest.approx(
            filled(make, [(ensemble, 0.5, 1.0)]).get(), rel=1e-14
        )


def test_the_log_likelihood_counts_its_infinities():
    bounded = Piecewise([0.0, 1.0], [0.0, 1.0])
    metric = LogLikelihood()
    assert (metric.get(), metric.finite) == (None, None)
    metric.update(0.5, bounded)
    assert metric.get() == metric.finite == 0.0
    metric.update(2.0, bounded, 3.0)
    assert (metric.get(), metric.finite, metric.impossible) == (-math.inf, 0.0, 1)
    metric.update(1.0, Sample([1.0]))
    assert (metric.get(), metric.finite, metric.certain) == (None, 0.0, 1)
    metric.revert(2.0, bounded, 3.0)
    assert metric.get() == math.inf
    metric.revert(1.0, Sample([1.0]))
    assert metric.get() == 0.0
    metric.update(1e3, Normal(0.0, 1.0))  # of a density that rounds to 0, but is none
    assert metric.impossible == 0


def test_coverage_of_points_and_its_width():
    metric = IntervalCoverage(0.5)
    metric.update_many([1.0, 1.0, 1.0, 2.0], [Sample([1.0])] * 4)
    assert (metric.get(), metric.width) == (0.75, 0.0)


def test_infinite_intervals_count_and_are_reverted():
    cal = ConformalPredictive()
    cal.learn_many([Normal(0.0, 1.0)] * 3, [-1.0, 0.0, 1.0])
    infinite = cal.predict_one(Normal(0.0, 1.0))
    for make in (IntervalCoverage, IntervalScore):
        metric, other = make(0.8), make(0.8)
        metric.update(0.5, Normal(0.0, 1.0))
        before = (metric.get(), getattr(metric, "width", 0.0))
        other.update(9.0, infinite, 2.0)
        metric.merge(other)
        assert getattr(metric, "width", metric.get()) == math.inf
        assert metric.get() == (1.0 if make is IntervalCoverage else math.inf)
        metric.revert(9.0, infinite, 2.0)
        assert (metric.get(), getattr(metric, "width", 0.0)) == before


# -- the PIT -----------------------------------------------------------------------------------------------------

UNIFORM = Piecewise([0.0, 1.0], [0.0, 1.0])


def test_the_histogram_counts_and_measures_levels():
    metric = PITHistogram(4)
    metric.update_many([0.0, 0.25, 0.26, 0.9, 1.0, 1.0], [UNIFORM] * 6, [1, 1, 2, 1, 1, 2])
    assert metric.counts.tolist() == [2, 1, 0, 3]
    assert metric.weights.tolist() == [2.0, 2.0, 0.0, 4.0]
    assert metric.get() == pytest.approx((abs(2 / 8 - 0.25) + abs(4 / 8 - 0.5) + abs(4 / 8 - 0.75)) / 3)


def test_the_e_process_is_the_product_of_its_bets():
    """Krichevsky-Trofimov: before each PIT, the bet on a bin is (count + ½)/(n + M/2), paid M to one."""
    rng = np.random.default_rng(0)
    metric, log_e, counts = PITHistogram(5), 0.0, np.zeros(5)
    for u in rng.beta(1.5, 1.0, 200).tolist():
        metric.update(u, UNIFORM)
        place = math.ceil(5 * u) - 1
        log_e += math.log(5 * (counts[place] + 0.5) / (counts.sum() + 2.5))
        counts[place] += 1
        assert metric.log_e_value == pytest.approx(log_e, abs=1e-9)


@pytest.mark.sample(3)
@pytest.mark.parametrize("rate", [0.5, 2.0, 30.0])
def test_calibrated_counts_are_uniform_and_wrong_ones_are_not(rate):
    """Czado, Gneiting and Held 2009: the mean of the cdfs of a uniform level between F(y−) and F(y)."""
    rng = np.random.default_rng(4)
    y, u = rng.poisson(rate, 1_000).astype(float), np.arange(1, 10) / 10
    right, wrong, forecast = PITHistogram(10), PITHistogram(10), stats.poisson(rate)
    right.update_many(y, [forecast] * len(y))
    wrong.update_many(y, [stats.poisson(1.6 * rate)] * len(y))
    low, high = forecast.cdf(y - 1.0), forecast.cdf(y)
    shares = np.clip((u[:, np.newaxis] - low) / (high - low), 0.0, 1.0).mean(axis=1)
    np.testing.assert_allclose(np.cumsum(right.weights)[:-1] / len(y), shares, atol=1e-12)
    assert right.log_e_value < math.log(20.0) < wrong.log_e_value
    for k, outcome in enumerate(y.tolist()):
        right.revert(outcome, forecast)
        assert right.n == len(y) - 1.0 - k
    assert right.counts.tolist() == [0.0] * 10


def log_e_paths(u: np.ndarray, bins: int) -> np.ndarray:
    """Return the e-process of many streams at every moment, shape as u; vectorised, tested against the class below."""
    counts = np.zeros((len(u), bins))
    rows, path = np.arange(len(u)), np.zeros(len(u))
    paths = np.empty(u.shape)
    for i, places in enumerate((np.ceil(bins * u.T) - 1).astype(int)):
        path = path + np.log(bins * (counts[rows, places] + 0.5) / (i + 0.5 * bins))
        counts[rows, places] += 1
        paths[:, i] = path
    return paths


def test_the_e_process_is_valid_under_the_null_and_finds_what_is_wrong():
    rng = np.random.default_rng(1)
    fair = log_e_paths(rng.random((4000, 300)), 10)
    for level in (0.2, 0.05):
        share = np.mean(fair.max(axis=1) >= -math.log(level))
        assert share <= level + 3.0 * math.sqrt(level / 4000)  # Ville's inequality, over every moment of a stream
    assert np.mean(np.exp(fair[:, 1])) == pytest.approx(1.0, abs=0.05)  # a martingale, seen after two steps
    wrong = log_e_paths(stats.norm.cdf(1.5 * rng.normal(size=(200, 300))), 10)  # forecasts too narrow by a third
    assert np.mean(wrong[:, -1] >= math.log(20.0)) > 0.8
    metric = PITHistogram(10)
    metric.update_many(np.random.default_rng(1).random((4000, 300))[7], [UNIFORM] * 300)
    assert metric.log_e_value == pytest.approx(fair[7, -1], abs=1e-9)


# -- the laws ----------------------------------------------------------------------------------------------------


@pytest.mark.sample(9)
@pytest.mark.parametrize("make", METRICS)
@settings(max_examples=15)
@given(rows=streams, cut=st.integers(0, 8))
def test_many_merge_and_revert(make, rows, cut):
    whole, many = filled(make, rows), make()
    many.update_many([row[1] for row in rows], [row[0] for row in rows], [row[2] for row in rows])
    assert answers(many) == answers(whole)
    one, other = filled(make, rows[:cut]), filled(make, rows[cut:])
    before = answers(other)
    one.merge(other)
    assert answers(one) == pytest.approx(answers(whole), rel=SUMS, abs=SUMS)
    assert answers(other) == before
    for forecast, y, w in rows[:cut]:
        whole.revert(y, forecast, w)
    assert answers(whole) == pytest.approx(answers(other), rel=1e-9, abs=1e-9)
    for forecast, y, w in rows[cut:]:
        whole.revert(y, forecast, w)
    assert answers(whole) == answers(make())


@pytest.mark.parametrize("make", METRICS)
def test_bad_input_changes_nothing(make):
    metric = filled(make, [(FORECASTS[0], 0.3, 1.0)])
    before = copy.deepcopy(vars(metric))
    for bad in ((math.nan, FORECASTS[0]), (0.0, None), (0.0, FORECASTS[0], -1.0), ("0", FORECASTS[0])):
        with pytest.raises(InputError):
            metric.update(*bad)
        with pytest.raises(InputError):
            metric.revert(*bad)
        with pytest.raises(InputError):
            metric.update_many([0.0, bad[0]], [FORECASTS[0], bad[1]], None if len(bad) == 2 else [1.0, bad[2]])
    with pytest.raises(InputError):
        metric.update_many([0.0], FORECASTS[:2])
    for name, value in vars(metric).items():
        assert np.array_equal(value, before[name])
    with pytest.raises(RetractionError):
        make().revert(0.0, FORECASTS[0])
    with pytest.raises(MergeError):
        make().merge(LogLikelihood() if not isinstance(metric, LogLikelihood) else CRPS())
    with pytest.raises(MergeError):
        Pinball(0.5).merge(Pinball(0.9))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning:scipy")
def test_what_is_not_finite_is_no_score():
    for metric in (CRPS(), Pinball(0.5), IntervalCoverage(0.5)):
        with pytest.raises(InputError, match="finite"):
            metric.update(1.0, stats.uniform(0.0, math.inf))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Pinball(0.0),
        lambda: IntervalCoverage(1.0),
        lambda: PITHistogram(1),
        lambda: IntervalScore(1.0),
        ThresholdWeightedCRPS,
        lambda: ThresholdWeightedCRPS(2.0, 1.0),
    ],
)
def test_parameters_that_are_not_possible(make):
    with pytest.raises(InputError):
        make()


def test_parameters_are_printed():
    assert [repr(make()) for make in METRICS] == [
        "LogLikelihood()",
        "CRPS()",
        "Pinball(level=0.9)",
        "IntervalCoverage(level=0.5)",
        "PITHistogram(bins=4)",
        "IntervalScore(level=0.5)",
        "ThresholdWeightedCRPS(low=0.25, high=inf)",
        "Sharpness()",
    ]


DIVERGED = [(1e300, 1e-10), (-1e308, 1e-300), (0.0, 5e-324), (1e308, 1e300), (3.0, 1e-200)]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("mean", "sd"), DIVERGED)
def test_a_normal_whose_base_has_diverged_warns_of_nothing(mean, sd):
    forecast, far = Normal(mean, sd), [-1e308, -5.0, 0.0, 1e308]
    assert forecast.cdf(far).tolist() == [0.5 if y == mean else float(y > mean) for y in far]
    assert (forecast.pdf(far) >= 0.0).all()
    said = [forecast.log_prob(far), forecast.crps(far), forecast.ppf([0.0, 1e-300, 0.5, 1.0])]
    assert not np.isnan(said).any()
    assert forecast.ppf(0.5) == mean


@pytest.mark.parametrize("sd", [1e-200, 5e-324])
def test_the_crps_of_a_normal_of_no_width_is_the_distance_to_its_mean(sd):
    assert Normal(3.0, sd).crps([-5.0, 3.0, 1e200]).tolist() == [8.0, pytest.approx(0.0, abs=sd), 1e200]


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("forecast", "within"),
    [
        (stats.norm(0.0, 1.0), 1e-8),
        (stats.gamma(2.0), 1e-8),
        (stats.beta(0.5, 0.5), 1e-8),
        (stats.beta(0.1, 0.1), 1e-3),
    ],
    ids=["normal", "gamma", "arcsine", "poles"],
)
def test_the_quadrature_of_the_crps_is_within_its_stated_tolerance(forecast, within):
    """Against the integral over levels, 2 ∫ (1[y ≤ q] − u) (q − y) du with q the quantile at u."""
    levels = ndtr(np.linspace(-8.0, 8.0, 400_001))
    u, q = 0.5 * (levels[1:] + levels[:-1]), forecast.ppf(0.5 * (levels[1:] + levels[:-1]))
    for y in forecast.ppf([0.2, 0.5, 0.9]).tolist():
        expected = 2.0 * float(np.diff(levels) @ (((y <= q) - u) * (q - y)))
        metric = CRPS()
        metric.update(y, forecast)
        assert metric.get() == pytest.approx(expected, rel=max(within, 1e-7))  # the sum over levels is right to 1e-7
