"""Forecasts that are too narrow, counts and tied outcomes: what recalibration has to repair, and must not ruin."""

from __future__ import annotations

import decimal
import itertools
import json
import math
import pickle
import warnings
from statistics import NormalDist

import numpy as np
import pytest
import scoringrules
from scipy import stats
from scipy.special import log_ndtr, ndtr, ndtri

from streamcal import CapabilityError, Decay, InputError, Logit, StateError, Window
from streamcal.errors import ClockError
from streamcal.regression import (
    AdaptiveConformal,
    AdaptiveScale,
    Composition,
    ConformalPredictive,
    EmpiricalDensity,
    GaussianProcessCDF,
    MondrianConformal,
    Normal,
    Piecewise,
    QuantileRecalibration,
    Quantiles,
    Sample,
    ScaleRecalibration,
)
from streamcal.regression.pit_calibrator import edges_of
from streamcal.regression.ramps import NormalRamp, ScoreRamp
from streamcal.regression.reading import normal_scores, pit_interval, quantiles_at_scores
from streamcal.regression.recalibrated import Recalibrated, Rescored, complete, recalibrated
from streamcal.regression.scale_recalibration import moments_between
from streamcal.statistics.pits import PITs

LEVELS = np.array([0.5, 0.8, 0.9, 0.95])


def narrow(n: int, c: float, seed: int = 0) -> tuple[list[Normal], np.ndarray]:
    """Forecasts Normal(m, 1/c) of outcomes that are N(m, 1)."""
    rng = np.random.default_rng(seed)
    m = rng.normal(size=n)
    return [Normal(one, 1.0 / c) for one in m.tolist()], m + rng.normal(size=n)


def true_coverage(cal: object, c: float, m: float = 0.0) -> np.ndarray:
    """Return the probability of the calibrated intervals of Normal(m, 1/c) under N(m, 1)."""
    calibrated = cal.predict_one(Normal(m, 1.0 / c))
    return np.array([np.diff(ndtr(np.array(calibrated.interval(level)) - m))[0] for level in LEVELS])


@pytest.mark.sample(10)
@pytest.mark.parametrize("chain", [1, 2, 3])
@pytest.mark.parametrize("geometric", [True, False])
@pytest.mark.parametrize("shift", [0.0, -1.5])
def test_mean_and_crps_of_rescored_normals_are_integrals_of_their_cdf(chain, geometric, shift):
    """Of a chain of ramps with jumps, one of them in the middle; the integral by many equal steps."""
    rng = np.random.default_rng(chain)
    found = Normal(3.0, 2.0)
    for _ in range(chain):
        knots = np.sort(np.concatenate((rng.normal(shift, 2.0, 5), [0.0, 0.0, 1.0, 1.0])))
        below = np.sort(rng.random(9))
        found = Rescored(found, ScoreRamp(knots, below, 1.0 - below, geometric))
    t = np.linspace(3.0 - 80.0, 3.0 + 80.0, 400_001)
    middle = 0.5 * (t[1:] + t[:-1])
    cdf, step = found.cdf(middle), t[1] - t[0]
    assert found.mean == pytest.approx(t[-1] - cdf.sum() * step, abs=2e-4)
    for y in (-70.0, -5.0, 3.0, 3.7, 40.0):
        assert found.crps(y) == pytest.approx(((cdf - (middle >= y)) ** 2).sum() * step, abs=2e-4)
        assert found.crps(np.array([y]))[0] == found.crps(y)


@pytest.mark.parametrize("geometric", [True, False])
def test_a_chain_over_a_normal_agrees_with_quadrature_and_with_arrays_of_levels(geometric):
    """Quantiles of a number and of an array to the last places; a pickled forecast as the first one."""
    rng = np.random.default_rng(7)
    found = Normal(3.0, 2.0)
    for _ in range(2):
        knots, below = np.sort(rng.normal(0.0, 2.0, 8)), np.sort(rng.random(8))
        below[:2], below[-2:] = below[1], 1.0  # a flat piece, and no mass above
        found = Rescored(found, ScoreRamp(knots, below, 1.0 - below, geometric))
    assert found.mean == pytest.approx(Recalibrated.mean.fget(found), abs=1e-8)
    outcomes = rng.normal(3.0, 5.0, 20)
    np.testing.assert_allclose(found.crps(outcomes), Recalibrated._crps(found, outcomes), atol=1e-8)
    levels = np.concatenate(([0.0, 1e-300, 1e-17, 0.5, 1.0], found.ramp.below, rng.random(200)))
    np.testing.assert_allclose([found.ppf(one) for one in levels.tolist()], found.ppf(levels), rtol=1e-12, atol=1e-12)
    again = pickle.loads(pickle.dumps(found))
    assert (again.mean, again.ppf(0.3)) == (found.mean, found.ppf(0.3))


@pytest.mark.parametrize("scale", [0.1, 1.0, 7.0])
@pytest.mark.parametrize("geometric", [True, False])
def test_mean_and_crps_of_a_ramp_that_is_the_identity_are_those_of_the_normal(scale, geometric):
    knots = np.linspace(-8.0, 8.0, 40)
    found = Rescored(Normal(1.0, scale), ScoreRamp(knots, ndtr(knots), ndtr(-knots), geometric))
    assert found.mean == pytest.approx(1.0, abs=1e-9 * scale)
    for z in (-50.0, -2.0, 0.0, 0.3, 9.0):
        assert found.crps(1.0 + scale * z) == pytest.approx(Normal(1.0, scale).crps(1.0 + scale * z), abs=1e-9 * scale)


# -- overconfidence ------------------------------------------------------------------------------------------------


@pytest.mark.sample(4)
@pytest.mark.parametrize("c", [0.2, 1.0, 2.0, 5.0, 20.0])
@pytest.mark.parametrize("make", [QuantileRecalibration, ConformalPredictive, lambda: QuantileRecalibration(1.0)])
@pytest.mark.parametrize("resolution", [None, 64])
def test_levels_are_repaired_however_far_out_the_outcomes_are(make, resolution, c):
    made = make()
    cal = type(made)(**{**made.params(), "resolution": resolution})
    cal.learn_many(*narrow(5000, c))
    # Three standard errors of the empirical cdf at both ends of an interval, √(2 · ¼/5000) at most.
    assert np.abs(true_coverage(cal, c) - LEVELS).max() < 0.03
    assert cal.tally()["outside"] == 0


def covered(cal: object, forecasts: list[Normal], y: np.ndarray, after: int) -> np.ndarray:
    """Return the shares of outcomes in the intervals, each predicted before its outcome was learned."""
    hits = []
    for i, (forecast, outcome) in enumerate(zip(forecasts, y.tolist(), strict=True)):
        if i >= after:
            hits.append(np.abs(cal.predict_one(forecast).cdf(outcome) - 0.5) <= LEVELS / 2.0)
        cal.learn_one(forecast, outcome)
    return np.mean(hits, axis=0)


#: A plain `pytest` tries each noise and each factor once.
@pytest.mark.parametrize(
    ("noise", "c"),
    [
        pytest.param(noise, c, marks=[pytest.mark.full] * (i != j or i > 0))
        for i, noise in enumerate(["normal", "student", "laplace"])
        for j, c in enumerate([0.2, 3.0, 20.0])
    ],
)
def test_the_default_covers_what_it_says_after_500_rows(noise, c):
    rng = np.random.default_rng(4)
    n = 1500
    m = rng.normal(size=n)
    draw = {"normal": rng.normal, "student": lambda size: rng.standard_t(3, size), "laplace": rng.laplace}[noise]
    forecasts = [Normal(one, 1.0 / c) for one in m.tolist()]
    found = covered(Composition(), forecasts, m + draw(size=n), 500)
    # The goal of ±.02, and two standard errors of a share of 1,000, √(¼/1000).
    assert np.abs(found - LEVELS).max() < 0.02 + 2.0 * 0.0158


def test_scores_are_kept_beyond_the_precision_of_a_level():
    cal = QuantileRecalibration()
    cal.learn_many([stats.norm(0.0, 1.0)] * 3, [-40.0, 12.0, 60.0])
    assert cal.tally()["outside"] == 0
    found = cal.predict_one(Normal(0.0, 1.0))
    assert found.cdf([-40.0, 12.0, 60.0]) == pytest.approx([1 / 3, 2 / 3, 1.0], rel=1e-12)
    assert found.cdf([-40.1, 11.0, 59.0]) == pytest.approx([0.0, 2 / 3, 1.0], abs=0.02)
    assert found.ppf(1.0) == pytest.approx(60.0, rel=1e-9)
    assert normal_scores(stats.t(5.0), np.array([-1e6, 1e6])) == pytest.approx(
        [ndtri(stats.t(5.0).sf(1e6)), -ndtri(stats.t(5.0).sf(1e6))], rel=1e-9
    )


@pytest.mark.parametrize("geometric", [False, True])
def test_a_ramp_through_the_identity_is_the_identity_in_both_tails(geometric):
    z = np.array([-30.0, -3.0, -0.4, 0.9, 5.0, 12.0])
    ramp = ScoreRamp(z, ndtr(z), ndtr(-z), geometric)
    at = np.linspace(-40.0, 40.0, 321)
    low, high = ramp.log_tails(at)
    # log Φ of ±40 is −800: relative 1e-12 of it. A tail between knots is a difference that loses six digits at most.
    np.testing.assert_allclose(low, stats.norm.logcdf(at), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(high, stats.norm.logsf(at), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(ramp.log_slope(at), 0.0, atol=1e-9)
    np.testing.assert_allclose(ramp.at_normal_scores(np.linspace(-8, 8, 33)), np.linspace(-8, 8, 33), atol=1e-9)


@pytest.mark.sample(4)
@pytest.mark.parametrize("geometric", [True, False])
@pytest.mark.parametrize("seed", range(60))
def test_one_level_of_a_ramp_is_that_of_many_to_the_last_bit(geometric, seed):
    rng = np.random.default_rng(seed)
    size = seed % 6
    knots, levels = np.sort(rng.normal(size=size)) * rng.choice([0.01, 1.0, 5.0]), np.sort(rng.random(size))
    if size > 1:
        knots[size // 2] = 0.0 if seed % 2 else knots[size // 2 - 1]  # a knot in the middle, or a jump
        knots.sort()
        levels[[0, -1]] = rng.choice([0.0, levels[0]]), rng.choice([1.0, levels[-1]])
    geometric = geometric and bool((np.diff(knots) > 0.0).all())  # jumps are in those that are linear
    ramp = ScoreRamp(knots, levels, 1.0 - levels, geometric)
    z = np.concatenate((rng.normal(size=9) * 3.0, knots, [0.0, -0.0, 1e-300, -1e-300, 40.0, -40.0, np.inf, -np.inf]))
    low, high = ramp.log_tails(z)
    one_by_one = np.array([ramp.log_tails(np.array(one)) for one in z.tolist()])
    np.testing.assert_array_equal(one_by_one, np.column_stack((low, high)))
    np.testing.assert_array_equal([ramp.level(one) for one in z.tolist()], ramp.level_at(z))
    np.testing.assert_array_equal(
        np.concatenate([ramp.level_at(z[i : i + 2]) for i in range(0, len(z), 2)]), ramp.level_at(z)
    )


@pytest.mark.parametrize("geometric", [False, True])
def test_a_ramp_its_slope_and_its_inverse_agree(geometric):
    z, levels = np.array([-3.0, -1.0, 0.5, 2.0, 6.0]), np.array([0.1, 0.3, 0.35, 0.8, 0.99])
    ramp = ScoreRamp(z, levels, 1.0 - levels, geometric)
    np.testing.assert_allclose(ramp.level_at(z), levels, rtol=1e-12)
    at, h = np.linspace(-5.0, 4.0, 37) + 0.01, 1e-5
    numeric = (ramp.level_at(at + h) - ramp.level_at(at - h)) / (ndtr(at + h) - ndtr(at - h))
    np.testing.assert_allclose(np.exp(ramp.log_slope(at)), numeric, rtol=1e-4)  # of second order in h
    u = np.linspace(0.001, 0.999, 99)
    np.testing.assert_allclose(ramp.level_at(ramp.scores(u)), u, rtol=1e-9)
    np.testing.assert_allclose(ramp.scores_above(1.0 - u), ramp.scores(u), rtol=1e-9)


# -- a scale -------------------------------------------------------------------------------------------------------


def test_scale_recalibration_is_the_maximum_of_the_likelihood():
    rng = np.random.default_rng(1)
    m, s = rng.normal(size=4000), rng.uniform(0.1, 2.0, 4000)
    y = m + s * (0.5 + 3.0 * rng.normal(size=4000))
    forecasts = [Normal(*one) for one in zip(m.tolist(), s.tolist(), strict=True)]
    cal = ScaleRecalibration(smoothing=1e-9)
    cal.learn_many(forecasts, y)
    z = (y - m) / s
    found = cal.predict_one(Normal(2.0, 10.0))
    assert (found.mean, found.sd) == pytest.approx((2.0 + 10.0 * z.mean(), 10.0 * z.std()), rel=1e-9)
    best = np.sum(stats.norm.logpdf(y, m + s * z.mean(), s * z.std()))
    for shift, scale in ((0.02, 1.0), (-0.02, 1.0), (0.0, 1.02), (0.0, 0.98)):
        assert best > np.sum(stats.norm.logpdf(y, m + s * (z.mean() + shift), s * z.std() * scale))


def test_scale_recalibration_by_moments_is_in_the_unit_of_the_outcomes():
    rng = np.random.default_rng(2)
    m, s = rng.normal(size=500), rng.uniform(0.1, 2.0, 500)
    y = m + 1.5 + 2.0 * s * rng.normal(size=500)
    cal = ScaleRecalibration("moments", 1e-9)
    cal.learn_many([Normal(*one) for one in zip(m.tolist(), s.tolist(), strict=True)], y)
    error = y - m
    found = cal.predict_one(Normal(0.0, 3.0))
    assert found.mean == pytest.approx(error.mean(), rel=1e-9)
    assert found.sd == pytest.approx(3.0 * math.sqrt(error.var() / np.mean(s * s)), rel=1e-9)
    # A forecast with a tiny sd, which would determine the likelihood, has next to no influence.
    before = found.sd
    cal.learn_one(Normal(0.0, 1e-9), 1.0)
    assert cal.predict_one(Normal(0.0, 3.0)).sd == pytest.approx(before, rel=0.01)


def test_scale_recalibration_of_counts_keeps_them_whole():
    rng = np.random.default_rng(3)
    lam = rng.uniform(2.0, 9.0, 400)
    cal = ScaleRecalibration()
    cal.learn_many([stats.poisson(one) for one in lam], rng.poisson(lam * rng.gamma(2.0, 0.5, 400)))
    found = cal.predict_one(stats.poisson(4.0))
    assert isinstance(found, Piecewise)
    assert set(np.unique(found.knots)) <= set(range(2000))
    wide = found.ppf(0.95) - found.ppf(0.05)
    assert wide > np.diff(stats.poisson(4.0).ppf([0.05, 0.95]))[0]


@pytest.mark.parametrize(("low", "high"), [(-1.0, 0.3), (0.5, 4.0), (-1e6, -2.0), (30.0, 31.0), (-1e6, 1e6)])
def test_moments_of_a_normal_variable_between_two_values(low, high):
    expected = stats.truncnorm(low, high)
    mean, deviation = moments_between(low, high)
    # A variance is a difference of terms z²: of 900 at 30 standard deviations, eleven digits are left.
    assert (mean, deviation) == pytest.approx((expected.mean(), expected.std()), rel=1e-8)


def test_the_mean_of_a_distribution_with_infinite_quantiles_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert math.isfinite(Rescored(Normal(0.0, 1e308), NormalRamp(10.0, 1.0)).mean)


# -- compositions --------------------------------------------------------------------------------------------------


def test_each_stage_learns_the_forecasts_that_were_issued_before_it():
    forecasts, y = narrow(60, 4.0, seed=5)
    cal = Composition((ScaleRecalibration(), QuantileRecalibration()))
    cal.learn_many(forecasts, y)
    scale, levels = ScaleRecalibration(), QuantileRecalibration()
    for i, (forecast, outcome) in enumerate(zip(forecasts, y.tolist(), strict=True)):
        issued = scale.predict_one(forecast)
        if i >= 5:  # the first stage learns five observations alone
            levels.learn_one(issued, outcome)
        scale.learn_one(forecast, outcome)
    t = np.linspace(-4.0, 4.0, 33)
    expected = levels.predict_one(scale.predict_one(Normal(0.3, 0.25))).cdf(t)
    np.testing.assert_allclose(cal.predict_one(Normal(0.3, 0.25)).cdf(t), expected, atol=1e-12)
    assert (cal.merges, cal.unlearns) == (False, False)
    with pytest.raises(CapabilityError):
        cal.unlearn_one(forecasts[0], y[0])
    with pytest.raises(InputError):
        cal.learn_many([Normal(0.0, 1.0), None], [0.0, 0.0])
    assert cal.n == 60.0


@pytest.mark.parametrize(
    ("later", "refused"),
    [
        (MondrianConformal(), (Sample([0.0]), 1.0)),  # of one value, which has no spread
        (Composition((ScaleRecalibration(), MondrianConformal())), (Sample([0.0]), 1.0)),
        (ScaleRecalibration(forgetting=Window(9.0, by="time", max_jump=9.0)), (Normal(0.0, 1.0), 1.0, 1.0, 1e6)),
    ],
)
def test_what_a_later_stage_refuses_no_stage_learns(later, refused):
    cal = Composition((QuantileRecalibration(), later))
    for k in range(12):
        cal.learn_one(Normal(0.0, 1.0), 0.1 * k, 1.0, float(k))
    before = cal.state_dict()
    with pytest.raises(InputError):
        cal.learn_one(*refused)
    assert cal.state_dict() == before


def test_the_density_is_0_where_no_mass_was_predicted():
    """Outside of a support, and in a tail that is below the smallest float."""
    for cal in (ScaleRecalibration(), AdaptiveScale(), Composition()):
        cal.learn_many([Normal(0.0, 1.0)] * 9, [-0.5, 0.0, 0.5] * 3)
        for base, y in ((stats.uniform(), -1.0), (stats.expon(), -0.5), (NormalDist(), 50.0)):
            found = cal.predict_one(base)
            assert (found.pdf(y), found.log_prob(y)) == (0.0, -math.inf)


@pytest.mark.parametrize("cal", [AdaptiveConformal(), AdaptiveScale(), ScaleRecalibration()])
def test_distributions_may_come_from_an_iterator(cal):
    y, listed = [0.5, 1.0, -1.0], cal.clone()
    cal.learn_many((Normal(0.0, 1.0) for _ in y), y)
    listed.learn_many([Normal(0.0, 1.0)] * 3, y)
    assert cal.state_dict() == listed.state_dict()


@pytest.mark.sample(2)
@pytest.mark.parametrize("stages", [None, ("scale-recalibration", "quantile-recalibration")])
@pytest.mark.parametrize("far", [44.0, -1e5])
def test_first_errors_in_units_that_are_corrected_do_not_overshoot(stages, far):
    """The first outcomes are far out in standard deviations that the first stage then corrects."""
    cal = Composition(stages)
    for i in range(40):
        cal.learn_one(Normal(0.0, 1.0), far + (-1.0) ** i)
        found = cal.predict_one(Normal(0.0, 1.0))
        assert 0.0 < found.mean / far < 1.1, i
        assert 0.0 < found.ppf(0.5) / far < 1.1, i


@pytest.mark.parametrize("weight", [0.01, 1.0, 100.0])
def test_the_first_stage_learns_five_observations_alone_whatever_they_weigh(weight):
    cal = Composition()
    for i in range(8):
        cal.learn_one(Normal(0.0, 1.0), 0.5, w=weight)
        cal.learn_one(Normal(0.0, 1.0), 9.0, w=0.0)
        assert [stage.n for stage in cal.stages[1:]] == pytest.approx([max(i - 4, 0)] * 2, rel=0.02)


@pytest.mark.parametrize("stages", [(), ("platt", "composition"), ("composition",), "composition", (3, 4)])
def test_stages_that_are_not_possible(stages):
    with pytest.raises(InputError):
        Composition(stages)


def test_a_composition_repairs_what_a_clamped_gaussian_process_cannot():
    """With this scale its inputs end at log-odds of ±8: all outcomes of overconfident forecasts beyond are alike."""
    forecasts, y = narrow(1500, 5.0, seed=6)
    made = GaussianProcessCDF(support=(-8.0, 8.0), scale=Logit(-8.0, 8.0))
    first = ScaleRecalibration()
    first.learn_many(forecasts[:1000], y[:1000])
    made.learn_many(first.predict_many(forecasts[:1000]), y[:1000])
    found = made.predict_many(first.predict_many(forecasts[1000:]))
    inside = np.mean([np.abs(one.cdf(v) - 0.5) <= 0.45 for one, v in zip(found, y[1000:], strict=True)])
    assert abs(inside - 0.9) < 3.0 * math.sqrt(0.09 / 500)  # three standard errors


@pytest.mark.sample(4)
@pytest.mark.parametrize("c", [0.3, 1.0, 2.0, 3.0, 5.0, 10.0])
def test_the_gaussian_process_widens_forecasts_that_are_too_narrow(c):
    """On clamped log-odds, the 90 % interval covered .87, .81 and .86 at c = 2, 3 and 5, the 80 % one .71 and .66."""
    cal = GaussianProcessCDF(support=(-8.0, 8.0))
    cal.learn_many(*narrow(5000, c))
    found = np.mean([true_coverage(cal, c, m) for m in np.linspace(-1.5, 1.5, 24).tolist()], axis=0)
    # The standard error of an interval's frequency among 5,000 outcomes is .007 at most.
    assert np.abs(found - LEVELS)[1:].max() < 0.02
    assert np.abs(found - LEVELS).max() < 0.03


# -- atoms ---------------------------------------------------------------------------------------------------------


def counts(n: int, seed: int = 0) -> tuple[list[object], np.ndarray]:
    rng = np.random.default_rng(seed)
    lam = rng.uniform(0.2, 1.5, n)
    return [stats.poisson(one) for one in lam.tolist()], rng.poisson(lam).astype(float)


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "make",
    [
        QuantileRecalibration,
        lambda: QuantileRecalibration(1.0, resolution=64),
        lambda: QuantileRecalibration(1.0, resolution=64, scale="uniform"),
        lambda: ConformalPredictive(resolution=32),
    ],
)
def test_calibrated_counts_stay_calibrated(make):
    """P(Y = 0) was .113 instead of .368, and the mean 1.61."""
    cal = make()
    cal.learn_many(*counts(400))
    found, exact = cal.predict_one(stats.poisson(1.0)), stats.poisson(1.0)
    assert isinstance(getattr(found, "inner", found), Piecewise)
    k = np.arange(8.0)
    # Three standard errors of an empirical cdf of 400, √(¼/400).
    np.testing.assert_allclose(found.cdf(k), exact.cdf(k), atol=0.075)
    np.testing.assert_array_equal(found.cdf(k + 0.5), found.cdf(k))
    assert found.mean == pytest.approx(1.0, abs=3.0 * math.sqrt(1.0 / 400) + 0.02)
    assert found.ppf(0.5) == 1.0


@pytest.mark.full
def test_overdispersed_counts_are_widened():
    rng = np.random.default_rng(7)
    lam = rng.uniform(2.0, 20.0, 500)
    y = rng.negative_binomial(2.0, 2.0 / (2.0 + lam)).astype(float)
    cal = QuantileRecalibration(1.0, resolution=64)
    forecasts = [stats.poisson(one) for one in lam.tolist()]
    cal.learn_many(forecasts[:400], y[:400])
    before = np.mean([complete(one).crps(v) for one, v in zip(forecasts[400:], y[400:], strict=True)])
    after = np.mean([one.crps(v) for one, v in zip(cal.predict_many(forecasts[400:]), y[400:], strict=True)])
    assert after < 0.97 * before


class ZeroInflated:
    """An atom at 0, and an exponential density above it."""

    def __init__(self, zero: float, mean: float) -> None:
        self.zero, self.mean_above = zero, mean

    def cdf(self, t):
        positive = np.maximum(t, 0.0)
        return np.where(
            np.asarray(t) < 0.0, 0.0, self.zero + (1.0 - self.zero) * -np.expm1(-positive / self.mean_above)
        )


def test_a_mixed_distribution_keeps_its_atom():
    rng = np.random.default_rng(8)
    y = np.where(rng.random(1000) < 0.6, 0.0, rng.exponential(3.0, 1000))
    cal = QuantileRecalibration(1.0, resolution=64)
    cal.learn_many([ZeroInflated(0.3, 3.0)] * 1000, y)
    found = cal.predict_one(ZeroInflated(0.3, 3.0))
    assert found.cdf(-1e-9) == 0.0
    assert found.cdf(0.0) == pytest.approx(0.6, abs=3.0 * math.sqrt(0.24 / 1000))
    assert found.ppf(0.5) == pytest.approx(0.0, abs=1e-300)
    assert found.mean == pytest.approx(y.mean(), abs=0.05)  # of cells
    assert found.crps(0.0) == pytest.approx(np.mean(y) - 0.5 * np.abs(y[:, None] - y).mean(), abs=0.02)  # of cells


def test_samples_keep_their_values():
    cal = QuantileRecalibration(1.0, resolution=16)
    values = [0.0, 1.0, 2.0, 5.0]
    cal.learn_many([Sample(values)] * 40, values * 10)
    found = cal.predict_one(Sample(values))
    assert set(found.knots) == set(values)
    assert np.diff(found.cdf(np.array([-1.0, *values]))) == pytest.approx([0.25] * 4, abs=1e-9)
    assert pit_interval(Sample(values), 1.0) == pytest.approx((ndtri(0.25), 0.0), abs=1e-12)


@pytest.mark.parametrize(
    "base",
    [stats.poisson(0.7), stats.poisson(40.0), stats.nbinom(2, 0.2), stats.binom(20, 0.3), stats.poisson(1000.0)],
    ids=lambda base: base.dist.name,
)
def test_scores_of_counts_are_exact(base):
    found, deviation = complete(base), base.std()
    assert found.mean == pytest.approx(base.mean(), rel=1e-9)
    k = np.arange(base.ppf(1e-14), base.ppf(1 - 1e-14) + 1.0)
    for y in (float(base.ppf(0.5)), float(base.ppf(0.99))):
        # CRPS = ∫ (F − 1[y ≤ t])² dt, over steps of width 1
        assert found.crps(y) == pytest.approx(np.sum((base.cdf(k) - (k >= y)) ** 2), abs=1e-9 * deviation)
    draws = base.rvs(4000, random_state=1).astype(float)
    y = float(base.ppf(0.7))
    ensemble = scoringrules.crps_ensemble(y, draws)
    assert found.crps(y) == pytest.approx(ensemble, abs=4.0 * deviation / math.sqrt(4000))  # four standard errors


def test_poisson_scores_are_those_of_scoringrules():
    for rate in (0.5, 3.0, 30.0):
        for y in (0.0, 2.0, 40.0):
            assert complete(stats.poisson(rate)).crps(y) == pytest.approx(
                scoringrules.crps_poisson(y, rate), rel=1e-9, abs=1e-12
            )


# -- ties ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["normal", "uniform"])
@pytest.mark.parametrize("make", [QuantileRecalibration, ConformalPredictive])
def test_equal_pits_are_an_atom_and_do_not_smear(make, scale):
    """The interval was (−1.48, .31), and the mean −.51."""
    cal = make(scale=scale)
    for _ in range(60):
        cal.learn_one(Normal(0.0, 1.0), 0.5)
    found = cal.predict_one(Normal(0.0, 1.0))
    assert found.interval(0.8) == pytest.approx((0.5, 0.5), abs=1e-12)
    # One of sixty, and a conformal one of 61, is spread to the left and to the right.
    assert found.mean == pytest.approx(0.5, abs=0.04)
    assert found.crps(0.5) < 0.001
    assert found.pdf(0.5) == math.inf


def test_ties_among_others_are_the_limit_of_pits_that_come_together():
    forecasts = [Normal(0.0, 1.0)] * 7
    tied, near = QuantileRecalibration(), QuantileRecalibration()
    tied.learn_many(forecasts, [-1.0, 0.3, 0.3, 0.3, 0.3, 0.9, 1.4])
    near.learn_many(forecasts, [-1.0, 0.3, 0.3 + 1e-12, 0.3 + 2e-12, 0.3 + 3e-12, 0.9, 1.4])
    t = np.array([-2.0, -0.5, 0.2, 0.29, 0.31, 0.7, 1.0, 2.0])
    np.testing.assert_allclose(
        tied.predict_one(Normal(0.0, 1.0)).cdf(t), near.predict_one(Normal(0.0, 1.0)).cdf(t), atol=1e-9
    )


# -- means ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [QuantileRecalibration, lambda: QuantileRecalibration(1.0, resolution=16)])
def test_a_cauchy_base_has_no_mean_and_says_so(make):
    cal = make()
    with pytest.raises(CapabilityError, match="no mean"):
        _ = cal.predict_one(stats.cauchy()).mean
    with pytest.raises(CapabilityError, match="no mean"):
        _ = complete(stats.cauchy(3.0, 2.0)).mean
    assert complete(stats.t(2.0)).mean == pytest.approx(0.0, abs=1e-6)
    # Its CRPS exists: ∫ (F − 1[0 ≤ t])² dt = ln 4 / π, cut off where a level of 1e-18 is, or 2e-16 without `isf`.
    assert complete(stats.cauchy()).crps(0.0) == pytest.approx(math.log(4.0) / math.pi, abs=1e-5)


def test_rescored_distributions_are_like_normal_ones():
    """A map of levels that is the affine one, over a base that is not known to be normal."""
    found = Rescored(stats.norm(1.0, 2.0), NormalRamp(0.5, 3.0))
    expected = Normal(2.0, 6.0)
    t = np.linspace(-60.0, 60.0, 25)
    for name in ("cdf", "log_prob"):
        np.testing.assert_allclose(getattr(found, name)(t), getattr(expected, name)(t), rtol=1e-9)
    np.testing.assert_allclose(found.ppf([1e-12, 0.3, 0.999]), expected.ppf([1e-12, 0.3, 0.999]), rtol=1e-7)
    assert found.mean == pytest.approx(2.0, abs=1e-8)
    assert found.crps(7.0) == pytest.approx(expected.crps(7.0), abs=1e-8)
    assert recalibrated(Normal(1.0, 2.0), NormalRamp(0.5, 3.0)).sd == 6.0


# -- e-logistic ----------------------------------------------------------------------------------------------------


def test_e_logistic_is_unregularised_logistic_regression_on_the_mass():
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(9)
    m = rng.uniform(-1.0, 1.0, 600)
    y = m + rng.normal(size=600)
    forecasts, inner = [Normal(one, 1.0) for one in m.tolist()], [-0.7, 0.0, 0.7]
    cal = EmpiricalDensity("logistic", inner, support=(-5.0, 5.0))
    cal.learn_many(forecasts, y)
    ends, new = np.array([-np.inf, *inner, np.inf]), Normal(0.2, 1.0)
    expected = []
    for low, high in itertools.pairwise(ends):
        mass = (ndtr(high - m) - ndtr(low - m)).reshape(-1, 1)
        model = LogisticRegression(C=np.inf, tol=1e-10, max_iter=5000).fit(mass, (low < y) & (y <= high))
        at = new.cdf(high) - new.cdf(low)
        expected.append(model.predict_proba([[at]])[0, 1])
    expected = np.cumsum(expected)[:-1] / np.sum(expected)
    # Both stop at small gradients; cells of the grid are of second order, 1e-7 here.
    np.testing.assert_allclose(cal.predict_one(new).cdf(np.array(inner)), expected, atol=1e-4)
    assert EmpiricalDensity.from_state(json.loads(json.dumps(cal.state_dict()))).same_parameters(cal)


def test_e_logistic_may_have_a_negative_slope():
    cal = EmpiricalDensity("logistic", [0.0], support=(-1.0, 1.0))
    wrong = [Piecewise([-1.0, 0.0, 1.0], [0.0, p, 1.0]) for p in (0.2, 0.8)]
    cal.learn_many(wrong * 20, [-0.5, 0.5] * 15 + [0.5, -0.5] * 5)
    assert cal.predict_one(wrong[0]).cdf(0.0) == pytest.approx(0.75, abs=1e-6)


def test_decay_is_of_use_where_a_model_starts_overconfident():
    cal = ScaleRecalibration(forgetting=Decay(50))
    forecasts, y = narrow(400, 1.0, seed=10)
    cal.learn_many([Normal(0.0, 1e-6)] * 10, np.ones(10))
    cal.learn_many(forecasts, y)
    plain = ScaleRecalibration()
    plain.learn_many([Normal(0.0, 1e-6)] * 10, np.ones(10))
    plain.learn_many(forecasts, y)
    assert cal.predict_one(Normal(0.0, 1.0)).sd < plain.predict_one(Normal(0.0, 1.0)).sd / 5.0


@pytest.mark.parametrize("smoothing", [0.0, 1.0])
def test_the_cdf_at_a_float_is_that_at_an_array_of_no_dimension(smoothing: float) -> None:
    """At scores that are held too, beyond all of them, and where it is empty."""
    rng = np.random.default_rng(8)
    cal = QuantileRecalibration(smoothing)
    for number in range(60):
        outcome = float(np.round(rng.normal(), 1)) if number % 9 else math.copysign(1e300, rng.normal())
        found = cal.predict_one(Normal(0.5, 2.0))
        for t in (outcome, 0.5, -40.0, 90.0, 1e-300, math.inf, -math.inf, *rng.normal(size=3).tolist()):
            assert found.cdf(t) == found.cdf(np.array(t))
        cal.learn_one(Normal(0.5, 2.0), outcome)
    with pytest.raises(InputError, match="not a number"):
        found.cdf(math.nan)


# -- far tails and small samples -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "family",
    [
        stats.norm(0.0, 1.0),
        stats.logistic(1.0, 0.5),
        stats.expon(),
        stats.weibull_min(1.5),
        stats.rayleigh(),
    ],
    ids=lambda one: one.dist.name,
)
@pytest.mark.parametrize("z", [30.0, 40.0, 100.0, 1000.0])
def test_quantiles_far_out_are_those_of_the_log_mass(family, z):
    """Beyond z = 38 the mass of a tail is no double, and quantiles come from its logarithm."""
    (t,) = quantiles_at_scores(family, np.array([z])).tolist()
    assert math.isfinite(t)
    assert family.logsf(t) == pytest.approx(log_ndtr(-z), rel=1e-9)
    assert normal_scores(family, np.array([t]))[0] == pytest.approx(z, rel=1e-9)


def test_quantiles_beyond_a_support_are_its_ends():
    z = np.array([-1e3, -40.0, 40.0, 1e3])
    assert quantiles_at_scores(stats.uniform(), z).tolist() == pytest.approx([0.0, 0.0, 1.0, 1.0], abs=1e-290)
    assert quantiles_at_scores(stats.expon(), z[:2]).tolist() == pytest.approx([0.0, 0.0], abs=1e-290)
    for family in (stats.gumbel_r(), stats.laplace()):  # whose log mass is the logarithm of a double
        assert np.isfinite(quantiles_at_scores(family, z)).all()


@pytest.mark.sample(6)
@pytest.mark.parametrize(("n", "level"), [(3, 0.9), (9, 0.95), (9, 0.8), (19, 0.9), (40, 0.95)])
def test_conformal_intervals_contain_the_next_outcome_as_often_as_promised(n, level):
    """Exchangeable outcomes, forecasts that are too narrow; infinite exactly where n + 1 < 2/(1 − level)."""
    rng, inside, trials = np.random.default_rng(n), 0, 150
    for _ in range(trials):
        y = rng.normal(1.0, 3.0, n + 1)
        cal = ConformalPredictive()
        cal.learn_many([Normal(0.0, 1.0)] * n, y[:-1])
        low, high = cal.predict_one(Normal(0.0, 1.0)).interval(level)
        inside += low <= y[-1] <= high
        assert math.isinf(low) == math.isinf(high) == (n + 1 < 2.0 / (1.0 - level) - 1e-9)
    assert inside / trials >= level - 3.0 * math.sqrt(level * (1.0 - level) / trials)


def test_cells_have_the_same_edges_on_every_machine():
    """A state has points at edges: one that is a unit in the last place off would be in the wrong cell elsewhere."""
    edges = edges_of(16, True)
    upper = [0.22330896283026938, 0.48913687615015944, 0.8480984745496045, 1.3685415316091116]  # correctly rounded
    np.testing.assert_array_equal(edges[8:12], upper)
    np.testing.assert_array_equal(edges, -edges[::-1])
    with decimal.localcontext(prec=3):
        edges_of.cache_clear()
        np.testing.assert_array_equal(edges_of(16, True), edges)
    pits = PITs(edges, True)
    pits.update(upper[3], 0.0, 1.0)
    state = pits.state()
    pits.restore(state)
    with pytest.raises(StateError, match="upper end of a cell"):
        pits.restore({**state, "scores": np.nextafter(state["scores"], 0.0)})


@pytest.mark.parametrize(
    "options", [{}, {"resolution": 64}, {"scale": "uniform"}, {"scale": "uniform", "resolution": 64}]
)
@pytest.mark.sample(8)
@pytest.mark.parametrize("level", [0.5, 0.8])
def test_conformal_intervals_cover_where_outcomes_lie_beyond_all_predicted_mass(options, level):
    """Samples that are too narrow: an end that would have to contain outcomes beyond them is infinite."""
    rng, hits, finite, runs = np.random.default_rng(4), 0, 0, 100
    narrow = np.array([-0.8, -0.4, -0.1, 0.1, 0.4, 0.8])
    for _ in range(runs):
        means = rng.normal(size=40)
        outcomes = means + rng.normal(size=40)
        cal = ConformalPredictive(**options)
        cal.learn_many([Sample(mean + narrow) for mean in means[1:]], outcomes[1:])
        low, high = cal.predict_one(Sample(means[0] + narrow)).interval(level)
        hits += low <= outcomes[0] <= high
        finite += math.isfinite(low) and math.isfinite(high)
    assert hits >= runs * level - 3.0 * math.sqrt(runs * level * (1.0 - level))
    assert finite == 0 if level == 0.8 else finite > runs / 5  # 21 % of the outcomes lie beyond on either side


CONSTANT = {
    "gamma": stats.gamma(1.7),
    "scipy": stats.norm(2.1, 0.7),
    "normal": Normal(2.1, 0.7),
    "quantiles": Quantiles([0.1, 0.5, 0.9], [1.2, 2.3, 2.9]),
    "sample": Sample([1.05, 1.45, 2.2, 2.8]),
}


@pytest.mark.sample(5)
@pytest.mark.parametrize("scale", ["normal", "uniform"])
@pytest.mark.parametrize("forecast", CONSTANT)
def test_conformal_intervals_contain_what_ties_with_their_ends(forecast, scale):
    """All outcomes between two values of a sample tie; elsewhere those tie whose PITs differ by rounding."""
    base, rng = CONSTANT[forecast], np.random.default_rng(6)
    for level in (0.3, 0.5, 0.8, 0.9):
        outcomes = np.round(rng.choice([1.1, 1.2, 1.3, 2.5, 2.6], 25), 1)
        cal = ConformalPredictive(scale=scale)
        cal.learn_many([base] * 25, outcomes)
        low, high = cal.predict_one(base).interval(level)
        pits, below = base.cdf(outcomes), math.floor(0.5 * (1.0 - level) * 26 + 1e-9)
        for y in np.unique(np.append(outcomes, np.linspace(1.11, 2.79, 29))):
            u = float(base.cdf(y))
            inside = (pits <= u).sum() >= below and (pits >= u).sum() >= below
            assert (low <= y <= high) == inside, (level, y)
        read = pickle.loads(pickle.dumps(cal.map())).predict_one(base)
        assert read.interval(level) == (low, high)


@pytest.mark.parametrize("place", [0, 1])
def test_a_composition_forgets_by_time_where_a_stage_does(place):
    stages = [AdaptiveScale(), AdaptiveScale()]
    assert not Composition(tuple(stages)).forgets_by_time
    stages[place] = QuantileRecalibration(forgetting=Decay(9.0, by="time"))
    cal = Composition((Composition(tuple(stages)), AdaptiveScale()))
    assert cal.forgets_by_time
    cal.learn_many([Normal(0.0, 1.0)] * 9, np.linspace(-1.0, 1.0, 9), t=np.arange(9.0))
    before = cal.state_dict()
    for call in (
        lambda: cal.learn_one(Normal(0.0, 1.0), 0.5),
        lambda: cal.learn_many([Normal(0.0, 1.0)], [0.5]),
        lambda: cal.predict_learn_many([Normal(0.0, 1.0)], [0.5]),
    ):
        with pytest.raises(InputError, match="forgets by time: give the time"):
            call()
    with pytest.raises(ClockError):
        cal.learn_one(Normal(0.0, 1.0), 0.5, t=1e30)
    assert cal.state_dict() == before
