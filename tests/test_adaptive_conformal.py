"""Conformal systems by category and difficulty, and intervals that adapt: what they guarantee, by simulation."""

from __future__ import annotations

import functools
import math
from array import array

import numpy as np
import pytest
from scipy import stats

from streamcal import InputError
from streamcal.metrics import CRPS
from streamcal.regression import (
    AdaptiveConformal,
    AdaptiveScale,
    Composition,
    ConformalPredictive,
    EmpiricalDensity,
    MondrianConformal,
    Normal,
    Piecewise,
    Quantiles,
    Sample,
)
from streamcal.regression.adaptive_conformal import part_below, score_within
from streamcal.regression.reading import counted, pit_interval
from streamcal.regression.recalibrated import weighted_crps

# -- difficulty and categories -------------------------------------------------------------------------------------


def test_the_pit_of_a_normal_forecast_is_difficulty_normalised():
    """Quantiles of (y − m)/σ, times the σ of the new one: the normalised system of crepes, word for word."""
    rng = np.random.default_rng(0)
    m, sd = rng.normal(size=99), rng.uniform(0.2, 3.0, 99)
    y = m + sd * rng.gumbel(size=99)
    cal = ConformalPredictive()
    cal.learn_many([Normal(*one) for one in zip(m.tolist(), sd.tolist(), strict=True)], y)
    scores = np.sort((y - m) / sd)
    found = cal.predict_one(Normal(2.0, 0.5))
    for k in (5, 50, 95):
        assert found.ppf(k / 100) == pytest.approx(2.0 + 0.5 * scores[k - 1], rel=1e-9)


def mixed(n: int, seed: int) -> tuple[list[Normal], np.ndarray]:
    """Narrow forecasts that are right, and wide ones of skewed outcomes."""
    rng = np.random.default_rng(seed)
    wide = rng.random(n) < 0.5
    y = np.where(wide, 2.0 * rng.exponential(2.0, n), 0.5 * rng.normal(size=n))
    return [Normal(0.0, 2.0 if one else 0.5) for one in wide.tolist()], y


def test_a_mondrian_system_is_a_conformal_one_of_each_category():
    forecasts, y = mixed(200, seed=1)
    cal = MondrianConformal([1.0])
    cal.learn_many(forecasts, y)
    for sd in (0.5, 2.0):
        alone = ConformalPredictive()
        rows = [i for i, one in enumerate(forecasts) if one.sd == sd]
        alone.learn_many([forecasts[i] for i in rows], y[rows])
        new, t = Normal(0.3, sd), np.linspace(-4.0, 9.0, 40)
        np.testing.assert_allclose(cal.predict_one(new).cdf(t), alone.predict_one(new).cdf(t), atol=1e-12)
        assert cal.predict_bounds_one(new, 0.7) == alone.predict_bounds_one(new, 0.7)
    empty = MondrianConformal([1.0, 5.0])
    empty.learn_many(forecasts, y)
    assert empty.predict_one(Normal(0.0, 9.0)) == Normal(0.0, 9.0) or empty.predict_one(Normal(0.0, 9.0)).mean == 0.0


@pytest.mark.full
def test_a_mondrian_system_is_valid_within_its_categories_and_a_plain_one_is_not():
    """Q(y, τ) is uniform given the category, for six observations of each."""
    rng = np.random.default_rng(2)
    smoothed = {"mondrian": [], "plain": []}
    for trial in range(800):
        forecasts, y = mixed(13, seed=1000 + trial)
        forecasts[-1] = Normal(0.0, 2.0)
        y[-1] = 2.0 * rng.exponential(2.0)
        for name, cal in (("mondrian", MondrianConformal([1.0])), ("plain", ConformalPredictive())):
            cal.learn_many(forecasts[:-1], y[:-1])
            low, high = cal.predict_bounds_one(forecasts[-1], y[-1])
            smoothed[name].append(low + rng.random() * (high - low))
    assert stats.kstest(smoothed["mondrian"], "uniform").pvalue > 0.01
    assert stats.kstest(smoothed["plain"], "uniform").pvalue < 1e-6


@pytest.mark.parametrize("arguments", [([],), ([1.0, 1.0],), ([2.0, 1.0],), ([math.nan],), ([1.0], "mean")])
def test_categories_that_are_not_possible(arguments):
    with pytest.raises(InputError):
        MondrianConformal(*arguments)


# -- intervals that adapt ------------------------------------------------------------------------------------------


def hostile(n: int) -> np.ndarray:
    """Return normal scores of outcomes: calm, ten times as far out, shifted, then right outside each interval."""
    rng = np.random.default_rng(3)
    calm = rng.normal(size=n)
    calm[n // 4 :] *= 10.0
    calm[n // 2 :] = 0.1 * calm[n // 2 :] + 8.0
    return np.clip(calm, -40.0, 40.0)


@pytest.mark.sample(12)
@pytest.mark.parametrize("method", ["aci", "pid", "tracking"])
@pytest.mark.parametrize("rate", [0.01, 0.1])
@pytest.mark.parametrize("adversary", [False, True])
def test_the_long_run_coverage_is_within_its_bound_for_any_outcomes(method, rate, adversary):
    """A theorem, without noise: no tolerance but that of rounding."""
    level, n, furthest = 0.8, 1200, 40.0
    cal = AdaptiveConformal(level, method, rate, window=100)
    forecast, covered, below, above = Normal(0.0, 1.0), 0, 0, 0
    for i, z in enumerate(hostile(n).tolist()):
        low, high = cal.predict_one(forecast).interval(level)
        if adversary:  # outside, wherever there is room within ±40, on either side in turn
            z = min(high + 0.01, furthest) if i % 2 else max(low - 0.01, -furthest)
        covered += low <= z <= high
        below += z < low
        above += z > high
        cal.learn_one(forecast, z)
    start = abs(stats.norm.ppf(0.9))
    bound = (1.0 + rate) / (rate * n) if method == "aci" else ((furthest + start) / rate + 1.0) / n
    assert below / n - 0.1 <= bound + 1e-9
    assert above / n - 0.1 <= bound + 1e-9
    assert covered / n >= level - 2.0 * bound - 1e-9
    # Of an adversary it may ask for all that the bound allows; outcomes that only drift are covered far better, but for
    # ends that move by .01 at most: they are late, and most so without an integral part.
    if not adversary:
        assert abs(covered / n - level) < (0.03 if rate == 0.1 else 0.08 if method != "tracking" else 0.2)


@pytest.mark.sample(3)
@pytest.mark.parametrize("method", ["aci", "pid", "tracking"])
def test_late_outcomes_are_counted_at_the_ends_that_were_issued(method):
    """On forecasts that are too narrow by more and more, the share below issued ends is what the steps have counted."""
    delay, rng, waiting = 25, np.random.default_rng(4), []
    cal, below = AdaptiveConformal(0.8, method, rate=0.05), np.zeros(2)
    for k in range(2_000):
        waiting.append((cal.issue(Normal(0.0, 1.0)), float(rng.normal()) * (1.0 + k / 500)))
        if len(waiting) > delay:
            issued, y = waiting.pop(0)
            low, high = issued.p.interval(0.8)
            below += (y < low, y <= high)
            cal.settle(issued, y)
    learned = 2_000 - delay
    counted = [cal._lower[0].excess, cal._upper[0].excess]
    np.testing.assert_allclose(counted, learned * np.array([0.1, 0.9]) - below, atol=1e-9)
    if method == "aci":
        assert max(map(abs, counted)) <= (1.0 + cal.rate) / cal.rate + delay
    for record in ([0.0], [0.0, math.nan], None):
        issued.settled, issued.record = False, None if record is None else array("d", record)
        with pytest.raises(InputError, match="not the ends"):
            cal.settle(issued, 0.0)


@pytest.mark.sample(6)
@pytest.mark.parametrize("method", ["pid", "aci", "tracking"])
@pytest.mark.parametrize("width", [0.2, 1.0])
def test_intervals_of_samples_contain_the_outcomes_that_are_counted(method, width):
    """Outcomes lie between the values of a sample, where they tie, and beyond all of them."""
    rng, cal, compared = np.random.default_rng(8), AdaptiveConformal((0.5, 0.9), method, 0.2), 0
    for _ in range(200):
        forecast, y = Sample(width * rng.normal(size=8)), float(np.round(rng.normal(), 2))
        tracked = [end.score(cal._scores, cal._size) for end in (*cal._lower, *cal._upper)]
        if tracked == sorted(tracked):
            found, score = cal.predict_one(forecast), counted(pit_interval(forecast, y)[1], forecast)
            for level, end, other in ((0.5, 1, 2), (0.9, 0, 3)):
                low, high = found.interval(level)
                assert (low <= y <= high) == (tracked[end] <= score <= tracked[other])
                compared += 1
        cal.learn_one(forecast, y)
    assert compared > 200


@pytest.mark.full
def test_the_default_covers_outcomes_beyond_samples_that_are_too_narrow():
    rng, cal, hits = np.random.default_rng(9), Composition(), []
    for _ in range(500):
        forecast, y = Sample(0.3 * rng.normal(size=20)), float(rng.normal())
        low, high = cal.predict_one(forecast).interval(0.9)
        hits.append(low <= y <= high)
        cal.learn_one(forecast, y)
    assert np.mean(hits[200:]) == pytest.approx(0.9, abs=0.03)


ATOMS = {
    "rare counts": stats.poisson(0.3),
    "counts": stats.poisson(1.0),
    "more counts": stats.binom(12, 0.4),
    "a coin": Piecewise([0.0, 0.0, 1.0, 1.0], [0.0, 0.5, 0.5, 1.0]),
    "rain": Piecewise([0.0, 0.0, 5.0], [0.0, 0.6, 1.0]),
}


@pytest.mark.sample(10)
@pytest.mark.parametrize("name", ATOMS)
@pytest.mark.parametrize(
    "make",
    [
        Composition,
        *(functools.partial(AdaptiveConformal, 0.9, method) for method in ("pid", "aci", "tracking")),
        pytest.param(functools.partial(AdaptiveConformal, (0.5, 0.8, 0.95), "aci"), marks=pytest.mark.full),
    ],
    ids=["default", "pid", "aci", "tracking", "aci of three levels"],
)
def test_right_forecasts_with_atoms_stay_right(make, name):
    """An atom counts by the part of it that is below an end; as a whole, ends move through it."""
    forecast, rng, cal, ours, theirs = ATOMS[name], np.random.default_rng(1), make(), CRPS(), CRPS()
    for k, u in enumerate(rng.random(450).tolist()):
        y = float(forecast.ppf(u))
        if k >= 200:
            found = cal.predict_one(forecast)
            ours.update(y, found)
            theirs.update(y, forecast)
        cal.learn_one(forecast, y)
    assert ours.get() < 1.05 * theirs.get()
    assert float(found.cdf(0.0)) == pytest.approx(float(forecast.cdf(0.0)), abs=0.1)


def test_counts_that_are_more_than_forecast_are_followed():
    forecast, cal, ours, theirs = stats.poisson(1.0), AdaptiveConformal((0.5, 0.9)), [], []
    for y in np.random.default_rng(2).poisson(3.0, 160).tolist():
        ours.append(weighted_crps(cal.predict_one(forecast), y, -math.inf, math.inf))
        theirs.append(weighted_crps(forecast, y, -math.inf, math.inf))
        cal.learn_one(forecast, y)
    assert np.mean(ours[80:]) < 0.8 * np.mean(theirs[80:])


@pytest.mark.parametrize(
    ("low", "high"), [(-1.0, 1.0), (-9.0, -6.0), (6.0, 9.0), (30.0, 31.0), (-math.inf, 0.0), (0.5, math.inf)]
)
def test_the_part_of_an_atom_below_a_score(low, high):
    for part in (0.001, 0.3, 0.999):
        score = score_within(low, high, part)
        assert low < score < high
        assert part_below(low, high, score) == pytest.approx(part, abs=1e-6)
    assert part_below(low, high, low) == 0.0
    assert part_below(low, high, high) == 1.0


def test_an_end_at_infinity_leaves_the_distribution_as_it_was_forecast():
    cal, forecast = AdaptiveConformal(0.9, "aci", 5.0), Normal(0.0, 1.0)
    cal.learn_many([forecast] * 30, [(-1.0) ** k * (9.0 + k) for k in range(30)])
    found = cal.predict_one(forecast)
    assert found.interval(0.9) == (-math.inf, math.inf)
    assert found.cdf(np.array([-1.0, 0.0, 2.0])) == pytest.approx(forecast.cdf(np.array([-1.0, 0.0, 2.0])), abs=1e-9)


@pytest.mark.parametrize("side", ["_lower", "_upper"])
def test_an_infinite_end_that_is_out_of_order_is_that_of_the_wider_interval(side):
    """The mean of both was 5e5 standard deviations away, where the forecast then had a part of its mass."""
    cal, forecast = AdaptiveConformal((0.8, 0.95), "aci"), Normal(0.0, 1.0)
    next(end for end in getattr(cal, side) if end.level in (0.5 - 0.5 * 0.8, 0.5 + 0.5 * 0.8)).excess = math.copysign(
        10.0, 1.0 if side == "_upper" else -1.0
    )
    found = cal.predict_one(forecast)
    assert found.interval(0.8)[side == "_upper"] == pytest.approx(forecast.interval(0.95)[side == "_upper"], rel=1e-6)
    assert found.crps(0.0) < 0.4


def test_ends_are_infinite_only_where_no_mass_follows():
    for base, ends in ((Quantiles([0.1, 0.9], [-0.5, 0.5]), True), (stats.norm(0.0, 1.0), False)):
        cal = AdaptiveConformal(0.9, "tracking", 2.0)
        cal.learn_many([base] * 6, [60.0] * 6)
        low, high = cal.predict_one(base).interval(0.9)
        assert math.isfinite(low)
        assert math.isinf(high) == ends


def test_the_static_interval_fails_where_the_adaptive_one_holds():
    z = hostile(1200)
    static = ConformalPredictive()
    static.learn_many([Normal(0.0, 1.0)] * 300, z[:300])
    low, high = static.predict_one(Normal(0.0, 1.0)).interval(0.8)
    assert np.mean((z[300:] >= low) & (z[300:] <= high)) < 0.3


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", ["aci", "pid"])
def test_overconfident_forecasts_are_covered_soon(method):
    rng = np.random.default_rng(5)
    cal, inside = AdaptiveConformal(0.9, method), []
    for y in rng.normal(size=800).tolist():
        forecast = Normal(0.0, 0.1)
        low, high = cal.predict_one(forecast).interval(0.9)
        inside.append(low <= y <= high)
        cal.learn_one(forecast, y)
    assert np.mean(inside[300:]) == pytest.approx(0.9, abs=0.054)  # four standard errors of 500


def test_the_interval_is_the_one_that_was_tracked_and_the_rest_has_the_shape_of_the_forecast():
    cal = AdaptiveConformal(0.5)
    cal.learn_many([Normal(0.0, 1.0)] * 50, np.linspace(-6.0, 6.0, 50))
    found = cal.predict_one(Normal(10.0, 2.0))
    low, high = found.interval(0.5)
    assert found.cdf(low) == pytest.approx(0.25)
    assert found.cdf(high) == pytest.approx(0.75)
    assert (np.diff(found.cdf(np.linspace(-20.0, 40.0, 121))) >= 0.0).all()


def test_several_levels_are_those_of_calibrators_of_one_where_no_ends_cross():
    rng = np.random.default_rng(6)
    levels, y = (0.5, 0.8, 0.95), 1.5 * rng.normal(size=400) + 0.3
    together = AdaptiveConformal(levels, rate=0.02)
    apart = [AdaptiveConformal(level, rate=0.02) for level in levels]
    for cal in (together, *apart):
        cal.learn_many([Normal(0.0, 1.0)] * len(y), y)
    found = together.predict_one(Normal(2.0, 3.0))
    assert len(set(together.map().ramp.score_knots.tolist())) == 6, "the ends of this stream do not cross"
    for cal, level in zip(apart, levels, strict=True):
        assert found.interval(level) == pytest.approx(cal.predict_one(Normal(2.0, 3.0)).interval(level), rel=1e-9)


def test_ends_that_cross_are_put_in_order_by_isotonic_regression():
    cal = AdaptiveConformal((0.5, 0.52, 0.9), rate=1.0)
    crossed = 0
    for y in np.random.default_rng(7).standard_cauchy(300).tolist():
        cal.learn_one(Normal(0.0, 1.0), y)
        ends = [end.score(cal._scores, cal._size) for end in (*cal._lower, *cal._upper)]
        served = cal.map().ramp.score_knots
        crossed += ends != sorted(ends)
        # min-max formula of isotonic regression
        expected = [
            max(min(np.mean(ends[i : k + 1]) for k in range(j, len(ends))) for i in range(j + 1))
            for j in range(len(ends))
        ]
        assert served == pytest.approx(expected, rel=1e-12)
    assert crossed > 50


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", ["aci", "pid"])
def test_a_slack_leaves_ends_alone_until_the_count_is_off_by_it(method):
    """And costs slack/T of the bound, which the plain formula of the class adds."""
    cal = AdaptiveConformal(0.8, method, rate=0.1, window=1, slack=2.0)
    start = cal.map().ramp.score_knots
    forecast, x, ends = Normal(0.0, 1.0), 0.0, []
    for _ in range(30):  # outcomes above the upper end: x = .9 after the first, and so on
        ends.append(cal.predict_one(forecast).interval(0.8)[1])
        x += 0.9
        cal.learn_one(forecast, 1.6)
        if method == "pid" and x <= 2.0:
            assert cal.map().ramp.score_knots == pytest.approx(start)
    assert ends[-1] >= 1.6
    z = hostile(1200)
    cal, below = AdaptiveConformal(0.8, method, rate=0.1, window=100, slack=5.0), 0
    for one in z.tolist():
        below += one < cal.predict_one(forecast).interval(0.8)[0]
        cal.learn_one(forecast, one)
    plain = 1.1 / (0.1 * 1200) if method == "aci" else ((40.0 + 1.2816) / 0.1 + 1.0) / 1200
    assert abs(below / 1200 - 0.1) <= plain + 5.0 / 1200


@pytest.mark.parametrize(
    "arguments",
    [
        ((0.5, 0.5),),
        ((),),
        ((0.5, 1.0),),
        (0.9, "pid", 0.1, 500, -1.0),
        (0.9, "pid", 0.1, 500, math.inf),
        (0.9, "pid", 0.1, 500, 10**400),
        (0.9, "pid", 10**400),
        (1.0 - 2.0**-53,),
        (1.0,),
        (0.0,),
        ("0.9",),
        (0.9, "saocp"),
        (0.9, "aci", 0.0),
        (0.9, "aci", 0.1, 0),
        (0.9, "aci", 1, 2.5),
    ],
)
def test_parameters_that_are_not_possible(arguments):
    with pytest.raises(InputError):
        AdaptiveConformal(*arguments)


# -- the start -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["venn-abers", "logistic", "beta", "histogram-binning", "ops"])
def test_a_density_starts_at_the_forecast(name):
    """Venn-Abers calibration, which knows nothing, said that all segments are alike."""
    found = EmpiricalDensity(name, [-1.0, 0.0, 2.0], support=(-4.0, 4.0)).predict_one(Normal(0.3, 0.8))
    assert found.cdf(np.array([-1.0, 0.0, 2.0])) == pytest.approx(Normal(0.3, 0.8).cdf(np.array([-1.0, 0.0, 2.0])))


# -- on top of the default -----------------------------------------------------------------------------------------

LEVELS = (0.5, 0.8, 0.9, 0.95)


def shares_inside(cal, rows):
    """Return the shares of the outcomes after the first 500 in the intervals of `LEVELS`, each predicted before."""
    inside = []
    for i, (forecast, y) in enumerate(rows):
        if i >= 500:
            found = cal.predict_one(forecast)
            inside.append([low <= y <= high for low, high in map(found.interval, LEVELS)])
        cal.learn_one(forecast, y)
    return np.mean(inside, axis=0)


def autoregressive(n, phi, seed):
    """Errors of one sign follow one another, with variance 1."""
    noise, errors = np.random.default_rng(seed).normal(size=n), [0.0]
    for one in (math.sqrt(1.0 - phi**2) * noise[1:]).tolist():
        errors.append(phi * errors[-1] + one)
    return [(Normal(0.0, 0.5), error) for error in errors]


def trump_approval():
    """Forecasts of River's Bayesian linear regression, and the outcomes."""
    datasets, linear_model = (pytest.importorskip(f"river.{name}") for name in ("datasets", "linear_model"))
    scaler = pytest.importorskip("river.preprocessing").StandardScaler()
    model, rows = scaler | linear_model.BayesianLinearRegression(), []
    for x, y in datasets.TrumpApproval():
        found = model.predict_one(x, with_dist=True)
        rows.append((Normal(found.mu, found.sigma), float(y)))
        model.learn_one(x, y)
    return rows


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda: autoregressive(1000, 0.97, 5), id="synthetic"),
        pytest.param(trump_approval, id="River's", marks=pytest.mark.full),
    ],
)
def test_the_default_covers_where_errors_follow_one_another(make):
    rows = make()
    scale_and_shape = Composition(Composition().stages[:2])
    found, alone = (abs(shares_inside(cal, rows) - LEVELS).max() for cal in (Composition(), scale_and_shape))
    # Not errors of sampling: the bound of the class, with normal scores within ±4, is .08 for 500 outcomes.
    assert found <= 0.02
    assert alone > found, "or the last stage would be of no use"


# -- a scale from several memories ---------------------------------------------------------------------------------


def by_definition(z, half_lives, share):
    """`AdaptiveScale` from its docstring: weighted sums over the past for each memory, Student's t of scipy."""
    weights, k = np.full(len(half_lives), 1.0 / len(half_lives)), len(half_lives)
    for n in range(len(z) + 1):
        estimates, location, variance = [None] * k, 0.0, 1.0
        past = np.array(z[:n])
        for i in range(k - 1, -1, -1):
            own = 0.5 ** (np.arange(n)[::-1] / half_lives[i])
            total = own.sum() + 1.0
            mean = (own @ past + location) / total
            variance = (own @ (past - mean) ** 2 + variance + (location - mean) ** 2) / total
            location, estimates[i] = mean, (mean, variance, own.sum() + 2.0)
        if n == len(z):
            return weights @ [e[0] for e in estimates], math.exp(weights @ [0.5 * math.log(e[1]) for e in estimates])
        density = [stats.t(e[2], e[0], math.sqrt(e[1])).pdf(z[n]) for e in estimates]
        weights = share / k + (1.0 - share) * weights * density / (weights @ density)
    raise AssertionError


@pytest.mark.sample(3)
@pytest.mark.parametrize(("half_lives", "share"), [((2.0, 9.0), 0.01), ((5.0,), 0.0), ((1.0, 3.0), 1.0)])
def test_the_adaptive_scale_equals_its_definition(half_lives, share):
    z = (np.random.default_rng(8).normal(size=40) * 3.0 + np.repeat([0.0, 7.0], 20)).tolist()
    cal = AdaptiveScale(half_lives, share)
    half_lives = (*half_lives, math.inf)
    cal.learn_many([Normal(0.0, 1.0)] * len(z), z)
    found = cal.predict_one(Normal(10.0, 2.0))
    location, scale = by_definition(z, half_lives, share)
    assert (found.mean, found.sd) == pytest.approx((10.0 + 2.0 * location, 2.0 * scale), rel=1e-9)


def test_the_adaptive_scale_does_not_depend_on_the_stated_one_after_a_while():
    y = np.random.default_rng(9).normal(size=2000)
    found = []
    for sd in (1e-4, 1.0, 1e4):
        cal = AdaptiveScale()
        cal.learn_many([Normal(0.0, sd)] * len(y), y)
        found.append(cal.predict_one(Normal(0.0, sd)).sd)
    # The stated variance is one observation's worth in 2,000 of the longest memory: (1 + 1e8/2,000) of it at sd = 1e4.
    assert found[0] == pytest.approx(found[1], rel=1e-3)
    assert 1.0 < found[1] < 1.2
    assert found[2] < 60.0


def test_the_adaptive_scale_follows_a_jump_and_is_sharp_where_nothing_changes():
    rng = np.random.default_rng(10)
    cal, forecast = AdaptiveScale(), Normal(0.0, 1.0)
    cal.learn_many([forecast] * 2000, rng.normal(size=2000))
    # the sd of 2,000 observations is off by 3 %, of the 29 that a half-life of 20 holds by 26 % (two standard errors)
    assert cal.predict_one(forecast).sd == pytest.approx(1.0, rel=0.15)
    cal.learn_many([forecast] * 10, 20.0 + rng.normal(size=10))
    assert cal.predict_one(forecast).mean == pytest.approx(20.0, abs=2.0)


@pytest.mark.parametrize("method", ["pid", "aci", "tracking"])
def test_a_heavy_observation_moves_an_end_ten_times_as_far_at_most(method):
    cals = [AdaptiveConformal(0.8, method), AdaptiveConformal(0.8, method)]
    z = np.random.default_rng(3).normal(size=50).tolist()
    for cal, w in zip(cals, (20.0, 1e6), strict=True):  # relative to the mean they weigh 12 and 50
        cal.learn_many([Normal(0.0, 1.0)] * 50, z)
        cal.learn_one(Normal(0.0, 1.0), 1.0, w)
    low, high = cals[1].predict_one(Normal(0.0, 1.0)).interval(0.8)
    assert (low, high) == cals[0].predict_one(Normal(0.0, 1.0)).interval(0.8)
    assert cals[1].n == 50 + 1e6


@pytest.mark.parametrize(
    ("half_lives", "share"),
    [
        ((), 0.01),
        *[((3.0, 2.0), 0.01), ((0.0,), 0.01), ((2.0, 2.0), 0.01), (("2",), 0.01), ((2.0,), 1.5)],
        *[(3.0, 0.01), ((math.inf,), 0.01), ((2, 10**400), 0.01)],
    ],
)
def test_memories_that_are_not_possible(half_lives, share):
    with pytest.raises(InputError):
        AdaptiveScale(half_lives, share)
