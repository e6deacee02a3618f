"""What the methods of distributions obey besides the laws of `test_laws.py`: they predict distributions."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import EVERYWHERE, ROUNDED, Observation, each, law, learned, through_json
from laws.regression import CASES, FORECASTS, PLACES, SOLVED, SUPPORT, VARIANTS, Bad, observations
from scipy import stats
from scipy.integrate import quad

from streamcal import (
    REGISTRY,
    Decay,
    Forever,
    HistogramBinning,
    InputError,
    Isotonic,
    MergeError,
    NearIsotonic,
    Platt,
    Prior,
    Window,
)
from streamcal.regression import (
    CalibratedDistribution,
    ConformalPredictive,
    EmpiricalDensity,
    GaussianProcessCDF,
    IsotonicDistributional,
    Normal,
    Piecewise,
    QuantileRecalibration,
    Quantiles,
    VennAbersRegression,
)
from streamcal.regression.conformal_predictive import ConformalDistribution

WITHOUT_FORGETTING = [case for case in CASES if case.policy == "forever"]
cdfs = CASES[0].predictions


def test_merging_needs_equal_parameters():
    one = EmpiricalDensity("beta", 4, support=SUPPORT)
    for other in (EmpiricalDensity("beta", 5, support=SUPPORT), EmpiricalDensity("platt", 4, support=SUPPORT)):
        with pytest.raises(MergeError):
            one.merge(other)


@each(case for case in CASES if case.policy in ("forever", "time-decay"))
def test_nothing_is_left_of_a_batch_that_was_taken_back(case):
    """What `learn_many` read of normal distributions together, `unlearn_one` finds when it reads them alone."""
    rng = np.random.default_rng(3)
    means, sds = rng.normal(size=60), rng.uniform(0.1, 2.0, 60)
    forecasts = [Normal(m, sd) for m, sd in zip(means.tolist(), sds.tolist(), strict=True)]
    y, w, t = rng.normal(size=60), rng.uniform(0.1, 5.0, 60), rng.uniform(0.0, 9.0, 60)
    for make in case.makers:
        cal = make()
        cal.learn_many(forecasts, y, w, t)
        for i in rng.permutation(60).tolist():
            cal.unlearn_one(forecasts[i], y[i], w[i], t[i])
        case.assert_empty(cal)


# -- what is predicted ---------------------------------------------------------------------------------------------


def assert_distribution(one: CalibratedDistribution) -> None:
    """Assert that it is a distribution: a cdf from 0 to 1, its quantiles, and its score by numerical integration."""
    low, high = one.interval(0.5)
    if isinstance(one, ConformalDistribution):  # outwards; the rest is that of the distribution inside
        assert low <= one.ppf(0.25) <= one.ppf(0.75) <= high
        one = one.inner
    else:
        assert one.ppf(0.25) == low <= high == one.ppf(0.75)
    values = one.cdf(np.concatenate(([-math.inf], PLACES, [math.inf])))
    assert values[0] == 0.0
    assert values[-1] == 1.0
    assert (np.diff(values) >= 0.0).all()
    levels = np.linspace(0.01, 1.0, 23)
    quantiles = one.ppf(levels)
    assert (np.diff(quantiles) >= 0.0).all()
    within = ROUNDED + rounding_of(one)
    assert (one.cdf(quantiles) >= levels - within).all()  # the smallest t with cdf(t) >= level
    finite = np.isfinite(quantiles)
    before = np.nextafter(quantiles[finite], -math.inf) - 1e-9
    assert (one.cdf(before) <= levels[finite] + within).all()
    for y in (-5.0, 0.3, 2.0):
        assert one.crps(y) == pytest.approx(integrated_crps(one, y), abs=1e-6)
    assert np.array_equal(one.sample(3, 5), one.sample(3, 5))
    assert one.mean == pytest.approx(mean_by_cdf(one), abs=1e-6)


def rounding_of(one: CalibratedDistribution) -> float:
    """By how much a cdf rises between two floats, where it is steepest; jumps apart."""
    if not isinstance(one, Piecewise):
        return 0.0
    width, rise = np.diff(one.knots), np.diff(one.levels)
    some = width > 0.0
    return float(np.max(rise[some] * np.minimum(np.spacing(np.abs(one.knots[1:][some])) / width[some], 1.0), initial=0))


def pieces(one: CalibratedDistribution, y: float) -> list[tuple[float, float]]:
    """Where a cdf has no kinks; what is outside of ±40 weighs nothing here."""
    if isinstance(one, Piecewise):
        inner = one.knots
    elif isinstance(one, Normal):
        inner = np.empty(0)
    else:
        ramp = one.ramp  # type: ignore[attr-defined]
        levels = ramp.knots[1:-1] if isinstance(ramp, Piecewise) else stats.norm.cdf(ramp.score_knots)
        inner = one.base.ppf(levels)  # type: ignore[attr-defined]
        inner = inner[np.isfinite(inner)]
    ends = np.unique(np.concatenate(([-40.0, 40.0, 0.0, y], inner)))
    return list(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))


def integrated_crps(one: CalibratedDistribution, y: float) -> float:
    def square(t: float) -> float:
        return (one.cdf(t) - (t >= y)) ** 2

    return sum(quad(square, a, b, epsabs=1e-9)[0] for a, b in pieces(one, y))


def mean_by_cdf(one: CalibratedDistribution) -> float:
    return sum(quad(lambda t: (t >= 0.0) - one.cdf(t), a, b, epsabs=1e-9)[0] for a, b in pieces(one, 0.0))


@pytest.mark.filterwarnings("ignore::scipy.integrate.IntegrationWarning")  # the tolerance below is what counts
@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("case", "number"), [(case, k) for case in WITHOUT_FORGETTING for k in range(len(case.makers))], ids=str
)
@settings(max_examples=2)
@given(stream=st.lists(observations, max_size=8))
def test_what_is_predicted_is_a_distribution(case, number, stream):
    cal = learned(case.makers[number](), stream)
    for probe in (FORECASTS[1], FORECASTS[4], Normal(0.3, 1.0)):
        assert_distribution(cal.predict_one(probe))


@each(WITHOUT_FORGETTING, under=EVERYWHERE)
def test_a_frozen_scipy_distribution_is_taken_as_it_is(case):
    for make in case.makers:
        one, other = make(), make()
        means, within = np.linspace(-2.0, 2.0, 9), max(case.within(one), 1e-9)
        one.learn_many([stats.norm(m, 1.5) for m in means], 0.5 * means)
        other.learn_many([Normal(m, 1.5) for m in means], 0.5 * means)
        found, expected = one.predict_one(stats.norm(0.2, 1.0)), other.predict_one(Normal(0.2, 1.0))
        np.testing.assert_allclose(found.cdf(PLACES), expected.cdf(PLACES), atol=within)
        assert found.log_prob(0.3) == pytest.approx(expected.log_prob(0.3), abs=within)
        assert found.crps(0.3) == pytest.approx(expected.crps(0.3), abs=within)


def test_a_cdf_that_decreases_is_refused_where_thresholds_see_it():
    falling = Bad(lambda t: 1.0 - stats.norm.cdf(t))
    for build in VARIANTS["empirical-density"][:3]:
        with pytest.raises(InputError, match="decreases"):
            build(Forever()).learn_one(falling, 0.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: EmpiricalDensity("no such method", support=SUPPORT),
        lambda: EmpiricalDensity(3, support=SUPPORT),
        lambda: EmpiricalDensity("cross-venn-abers", support=SUPPORT),
        lambda: EmpiricalDensity(Platt(prior=Prior(1.0)), support=SUPPORT),
        lambda: EmpiricalDensity(support=(1.0, 1.0)),
        lambda: EmpiricalDensity(support=(0.0, math.inf)),
        lambda: EmpiricalDensity(support=3.0),
        lambda: EmpiricalDensity(thresholds=1, support=SUPPORT),
        lambda: EmpiricalDensity(thresholds=[1.0, 0.0], support=SUPPORT),
        lambda: EmpiricalDensity(thresholds=[9.0], support=SUPPORT),
        lambda: EmpiricalDensity(thresholds=[], support=SUPPORT),
        lambda: EmpiricalDensity.from_sample([1.0, 1.0]),
        lambda: EmpiricalDensity.from_sample([1.0, 2.0], thresholds=1),
        lambda: EmpiricalDensity.from_sample([1.0, 2.0], thresholds=-3),
        lambda: EmpiricalDensity.from_sample([1.0, 2.0], thresholds="8"),
        lambda: QuantileRecalibration(-1.0),
        lambda: QuantileRecalibration(resolution=1),
        lambda: ConformalPredictive(resolution=2.5),
        lambda: VennAbersRegression("mean", support=SUPPORT),
        lambda: IsotonicDistributional(support=SUPPORT, resolution=0),
        lambda: QuantileRecalibration(forgetting="window"),
    ],
)
def test_parameters_that_are_not_possible(make):
    with pytest.raises(InputError):
        make()


# -- streams of binary methods --------------------------------------------------------------------------------------


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", [name for name in REGISTRY if name != "cross-venn-abers"])
def test_every_binary_method_can_be_streamed(name):
    cal = learned(
        EmpiricalDensity(name, 3, support=SUPPORT), [Observation(f, y) for f in FORECASTS for y in (-3, 0, 2)]
    )
    found = cdfs(cal)
    assert (np.diff(found) >= 0.0).all()
    np.testing.assert_allclose(cdfs(through_json(cal)), found, rtol=0.0, atol=SOLVED)
    for mapped in CASES[0].by_map(cal.map(), CASES[0].places(cal)):
        np.testing.assert_allclose(mapped, found, rtol=0.0, atol=SOLVED)
    kind = REGISTRY[name]()
    assert (cal.merges, cal.unlearns, cal.bounded_memory) == (kind.merges, kind.unlearns, kind.bounded_memory)


@law((case for case in WITHOUT_FORGETTING if case.name == "empirical-density"), under=EVERYWHERE)
def test_refreshing_at_intervals_lags_by_fewer_than_r(case, draw):
    cal, exact = (EmpiricalDensity(NearIsotonic(refresh_every=r), 3, support=SUPPORT) for r in (4, 1))
    stream = draw(case.streams(cal, max_size=24))
    upto = len(stream) if len(stream) < 4 else len(stream) // 4 * 4
    np.testing.assert_allclose(cdfs(learned(cal, stream)), cdfs(learned(exact, stream[:upto])), rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("policy", [Window(3), Decay(2.0)])
def test_memory_is_bounded_where_it_says_so(policy):
    assert ConformalPredictive(resolution=8).bounded_memory
    assert not ConformalPredictive().bounded_memory
    assert EmpiricalDensity("platt", support=SUPPORT).bounded_memory
    assert not EmpiricalDensity("isotonic", support=SUPPORT).bounded_memory
    assert IsotonicDistributional(support=SUPPORT, resolution=8, forgetting=policy).bounded_memory


def test_outcomes_and_mass_outside_of_the_support_count_at_its_ends():
    cal = EmpiricalDensity(HistogramBinning(1), 2, support=(-1.0, 1.0))
    cal.learn_many([Normal(0.0, 1.0)] * 4, [-9.0, -0.5, 0.5, 9.0])
    assert cal.tally()["outside"] == 2
    found = cal.predict_one(Normal(50.0, 1.0))
    assert found.cdf(0.0) == 0.5
    assert found.log_prob(9.0) == -math.inf


def test_where_every_calibrated_mass_is_zero_the_masses_stay():
    cal = EmpiricalDensity(HistogramBinning(2), [0.0], support=SUPPORT)
    # The segment with most of the mass never had the outcome.
    low, high = (Quantiles([0.0, level, 1.0], [-4.0, 0.0, 4.0]) for level in (0.75, 0.25))
    cal.learn_many([low, high], [1.0, -1.0])
    for scores, y in (([0.75, 0.25], [0, 1]), ([0.25, 0.75], [1, 0])):  # those of the two segments
        segment = HistogramBinning(2)
        segment.learn_many(scores, y)
        assert segment.predict_one(0.5) == 0.0
    assert cal.predict_one(FORECASTS[0]).cdf(2.0) == FORECASTS[0].cdf(2.0) == 0.75


def test_a_window_retracts_whole_observations():
    """Of two observations with equal masses far out, retracting a dropped one must not take the other's."""
    cal = EmpiricalDensity(Isotonic(forgetting=Window(2)), [0.0, 3.0], support=SUPPORT)
    held = [Observation(FORECASTS[1], 0.5), Observation(Piecewise([-2.0, 2.0], [0.0, 1.0]), -0.5)]
    dropped = Observation(Piecewise([-4.0, 0.0], [0.0, 1.0]), -1.0)
    learned(cal, [dropped, *held])
    before = cdfs(cal)
    cal.unlearn_one(*dropped)
    assert cal.tally()["missed"] == 1
    assert np.array_equal(cdfs(cal), before)
    fresh = learned(EmpiricalDensity(Isotonic(), [0.0, 3.0], support=SUPPORT), held)
    assert np.array_equal(before, cdfs(fresh))


def test_a_stream_in_pieces_is_a_loop_to_the_last_bit_where_solves_start_from_the_last_one():
    random = np.random.default_rng(0)
    forecasts = [Normal(*row) for row in np.column_stack((random.normal(size=24), random.uniform(0.2, 2.0, 24)))]
    y = random.normal(size=24)
    loop = GaussianProcessCDF(4, support=(-1.0, 1.0), points=17)
    pieces, expected, found = loop.clone(), [], []
    for forecast, outcome in zip(forecasts, y.tolist(), strict=True):
        expected.append(loop.predict_one(forecast).cdf(0.3))
        loop.learn_one(forecast, outcome)
    for first in range(0, 24, 5):
        rows = slice(first, first + 5)
        found += [one.cdf(0.3) for one in pieces.predict_learn_many(forecasts[rows], y[rows])]
    assert found == expected
