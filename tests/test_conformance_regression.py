"""The laws of `docs/architecture.md`, for every method of distributions under every policy."""

import copy
import json
import math
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laws import ADDING, HALF_LIFE, LONGEST, POLICIES, TIMED, UNLEARNING, Model, exact_times, exact_weights
from scipy import stats
from scipy.integrate import quad

from streamcal import (
    REGISTRY,
    Beta,
    CapabilityError,
    Decay,
    Forever,
    HistogramBinning,
    InputError,
    Isotonic,
    MergeError,
    NearIsotonic,
    OnlinePlatt,
    Platt,
    Prior,
    RetractionError,
    StateError,
    VennAbers,
    Window,
)
from streamcal.regression import (
    METHODS,
    RBF,
    CalibratedDistribution,
    ConformalPredictive,
    EmpiricalDensity,
    GaussianProcessCDF,
    IsotonicDistributional,
    Normal,
    Piecewise,
    QuantileRecalibration,
    Quantiles,
    Sample,
    VennAbersRegression,
)

SUPPORT = (-4.0, 4.0)
#: Sums of integer weights are exact, and what is solved from them is a closed formula but for its last places.
CLOSED = 1e-12
#: Newton's method stops at a gradient of 1e-12, and starts where it ended; a mass is divided by the sum of all.
SOLVED = 1e-7
#: Where few scores leave the parameters of `Beta` to its ridge of 1e-9, that magnifies the rounding of its gradient.
RIDGED = 1e-5

#: Each method as functions of a policy, the first with its defaults, and what may differ.
VARIANTS: dict[str, list[tuple[Any, float]]] = {
    "empirical-density": [
        (
            lambda p: EmpiricalDensity(Beta(resolution=64, forgetting=p), 4, support=SUPPORT),
            1e-5,
        ),  # the ridge of Beta, see laws.py
        (lambda p: EmpiricalDensity(Platt(resolution=None, forgetting=p), 4, support=SUPPORT), SOLVED),
        (lambda p: EmpiricalDensity(Isotonic(forgetting=p), [-1.0, 0.0, 2.0], support=SUPPORT), CLOSED),
        (lambda p: EmpiricalDensity(HistogramBinning(2, forgetting=p), [0.0], support=SUPPORT), CLOSED),
        (lambda p: EmpiricalDensity(VennAbers(resolution=64, forgetting=p), 3, support=SUPPORT), CLOSED),
    ],
    "quantile-recalibration": [
        (lambda p: QuantileRecalibration(forgetting=p), CLOSED),
        (lambda p: QuantileRecalibration(2.0, forgetting=p, resolution=4), CLOSED),
    ],
    "conformal-predictive": [
        (lambda p: ConformalPredictive(forgetting=p), CLOSED),
        (lambda p: ConformalPredictive(forgetting=p, resolution=8), CLOSED),
    ],
    "isotonic-distributional": [
        (lambda p: IsotonicDistributional(4, support=SUPPORT, forgetting=p), CLOSED),
        (lambda p: IsotonicDistributional([0.0], support=SUPPORT, forgetting=p, resolution=16), CLOSED),
    ],
    "venn-abers-regression": [
        (lambda p: VennAbersRegression(thresholds=4, support=SUPPORT, forgetting=p), CLOSED),
        (
            lambda p: VennAbersRegression("self-consistent", [-1.0, 1.0], support=SUPPORT, forgetting=p, resolution=16),
            CLOSED,
        ),
    ],
    "gaussian-process-cdf": [
        (lambda p: GaussianProcessCDF(4, support=SUPPORT, resolution=64, points=33, forgetting=p), SOLVED),
        (
            lambda p: GaussianProcessCDF(
                [0.0], support=SUPPORT, kernel=RBF(), mean="zero", point="mean", resolution=None, points=9, forgetting=p
            ),
            SOLVED,
        ),
    ],
}
SEQUENTIAL = [
    EmpiricalDensity("ops", 4, support=SUPPORT),
    EmpiricalDensity(OnlinePlatt(discount=0.875), [0.0], support=SUPPORT),
]

#: Cdfs that are exact in floats at the thresholds above; each is one object, and equal to itself alone.
FORECASTS = [
    Piecewise([-4.0, 4.0], [0.0, 1.0]),
    Piecewise([-1.0, 1.0], [0.0, 1.0]),
    Piecewise([0.0, 4.0], [0.0, 1.0]),
    Piecewise([-8.0, -4.0, 0.0, 8.0], [0.0, 0.25, 0.5, 1.0]),
    Sample([-2.0, 0.5, 1.5, 2.5]),
]
PROBES = [FORECASTS[1], FORECASTS[4], Normal(0.3, 1.0), Quantiles([0.25, 0.5], [-1.0, 3.0])]
PLACES = np.linspace(-6.0, 6.0, 49)


class Observation(NamedTuple):
    """The arguments of `learn_one`, in order."""

    distribution: Any
    y: float
    w: float = 1.0
    t: float = 0.0


observations = st.builds(
    Observation, st.sampled_from(FORECASTS), st.integers(-10, 10).map(lambda k: k / 2), exact_weights, exact_times
)


def streams(min_size: int = 0, max_size: int = 10) -> st.SearchStrategy[list[Observation]]:
    return st.lists(observations, min_size=min_size, max_size=max_size)


def each(policies: Any) -> Any:
    """Parametrize over (variant, tolerance) of each method, and a policy."""
    cases = [
        pytest.param(build, POLICIES[policy], policy, within, id=f"{name}-{i}-{policy}")
        for name, variants in VARIANTS.items()
        for i, (build, within) in enumerate(variants)
        for policy in policies
    ]
    return pytest.mark.parametrize(("build", "forgetting", "policy", "within"), cases)


def few(function: Any) -> Any:
    """A fifth of the examples of the profile, which is what some fifty cases of each law have time for."""
    return settings(max_examples=max(settings.default.max_examples // 5, 1))(function)


def learned(cal: Any, stream: list[Observation]) -> Any:
    for observation in stream:
        cal.learn_one(*observation)
    return cal


def columns(stream: list[Observation]) -> tuple[Any, ...]:
    """The arguments of `learn_many`."""
    forecasts = [o.distribution for o in stream]
    return forecasts, *(np.array([o[i] for o in stream], dtype=np.float64) for i in (1, 2, 3))


class Read(Model):
    """The model of a policy, where two observations are equal if the method reads the same in them."""

    def __init__(self, policy: str, stream: list[Observation], cal: Any) -> None:
        self._cal = cal
        super().__init__(policy, stream)  # type: ignore[arg-type]

    def unlearn(self, observation: Any) -> bool:
        for place in reversed(range(len(self.entries))):
            if self._key(self.entries[place][1]) == self._key(observation):
                del self.entries[place]
                return True
        return False

    def _key(self, observation: Any) -> tuple[Any, ...]:
        time = observation.t if self.policy in TIMED else None
        return *self._cal._read(observation.distribution, observation.y)[:2], observation.w, time


def cdfs(cal: Any) -> np.ndarray:
    found = [cal.predict_one(probe) for probe in PROBES]
    ends = [getattr(one, end) for one in found for end in ("lower", "upper") if hasattr(one, end)]
    return np.array([one.cdf(PLACES) for one in [*found, *ends]])


def assert_same(one: Any, other: Any, within: float) -> None:
    assert one.n == pytest.approx(other.n, rel=CLOSED, abs=CLOSED)
    np.testing.assert_allclose(cdfs(one), cdfs(other), rtol=0.0, atol=within)


def plain(cal: Any) -> str:
    return json.dumps(cal.state_dict(), allow_nan=False)


# -- the walk itself ---------------------------------------------------------------------------------------------


def test_every_method_has_variants():
    assert set(VARIANTS) == set(METHODS)
    for name, variants in VARIANTS.items():
        assert all(type(build(Forever())) is METHODS[name] for build, _ in variants)


@each(POLICIES)
def test_capabilities_are_those_of_the_policy(build, forgetting, policy, within):
    cal = build(forgetting)
    assert cal.merges == (policy in ADDING)
    assert cal.unlearns == (policy in UNLEARNING)
    assert cal.clone().same_parameters(cal)
    assert repr(cal).startswith(f"{type(cal).__name__}(")


# -- learning ----------------------------------------------------------------------------------------------------


@each(POLICIES)
@few
@given(stream=streams(max_size=LONGEST), cut=st.integers(0, LONGEST))
def test_learn_many_is_a_loop_of_learn_one(build, forgetting, policy, within, stream, cut):
    loop, many = learned(build(forgetting), stream), build(forgetting)
    many.learn_many(*columns(stream[:cut]))
    many.learn_many(*columns(stream[cut:]))
    assert_same(loop, many, within)
    assert loop.tally() == many.tally()


@each(POLICIES)
@few
@given(stream=streams(max_size=LONGEST))
def test_a_policy_is_a_fresh_fit_of_what_it_holds(build, forgetting, policy, within, stream):
    fresh = build(Forever())
    fresh.learn_many(*columns(Model(policy, stream).held()))
    assert_same(learned(build(forgetting), stream), fresh, within)


@each(ADDING)
@few
@given(data=st.data(), stream=streams())
def test_order_does_not_matter(build, forgetting, policy, within, data, stream):
    shuffled = learned(build(forgetting), data.draw(st.permutations(stream)))
    assert_same(learned(build(forgetting), stream), shuffled, within)


@each(ADDING)
@few
@given(stream=streams())
def test_weight_two_is_twice(build, forgetting, policy, within, stream):
    twice = [o for o in stream for _ in range(2)]
    double = [o._replace(w=2.0 * o.w) for o in stream]
    assert_same(learned(build(forgetting), twice), learned(build(forgetting), double), within)


@each(ADDING)
@few
@given(stream=streams(), cut=st.integers(0, 10))
def test_merging_is_one_stream(build, forgetting, policy, within, stream, cut):
    one, other = learned(build(forgetting), stream[:cut]), learned(build(forgetting), stream[cut:])
    before = plain(other)
    one.merge(other)
    whole = learned(build(forgetting), stream)
    assert_same(one, whole, within)
    assert one.tally()["outside"] == whole.tally()["outside"]
    assert plain(other) == before


@each([policy for policy in POLICIES if policy not in ADDING])
def test_merging_is_refused_where_streams_age_each_other(build, forgetting, policy, within):
    with pytest.raises(MergeError):
        build(forgetting).merge(build(forgetting))


def test_merging_needs_equal_parameters():
    one = EmpiricalDensity("beta", 4, support=SUPPORT)
    for other in (EmpiricalDensity("beta", 5, support=SUPPORT), EmpiricalDensity("platt", 4, support=SUPPORT)):
        with pytest.raises(MergeError):
            one.merge(other)


@each(UNLEARNING)
@few
@given(data=st.data(), stream=streams(min_size=1, max_size=12))
def test_unlearning_late_and_out_of_order(build, forgetting, policy, within, data, stream):
    """What is left is a fresh fit of what the model of the policy holds; also after learning went on."""
    cal = learned(build(forgetting), stream[:-2])
    model = Read(policy, stream[:-2], cal)
    for gone in data.draw(st.permutations(stream[:-2]))[:4]:
        if policy == "time-window" and not any(model._key(gone) == model._key(held) for _, held in model.entries):
            cal.unlearn_one(*gone)  # dropped, and counted
            continue
        cal.unlearn_one(*gone)
        model.unlearn(gone)
    for new in stream[-2:]:
        cal.learn_one(*new)
        model.learn(new)
    fresh = build(Forever())
    fresh.learn_many(*columns(model.held()))
    assert_same(cal, fresh, within)


@each([policy for policy in POLICIES if policy not in UNLEARNING])
def test_unlearning_is_refused_where_ages_are_not_known(build, forgetting, policy, within):
    with pytest.raises(CapabilityError):
        build(forgetting).unlearn_one(FORECASTS[0], 0.0)


@each(("forever", "time-window"))
def test_what_was_never_learned_is_refused_and_changes_nothing(build, forgetting, policy, within):
    """Here the first streams hold an equal observation, and one in the middle does not."""
    cal = learned(build(forgetting), [Observation(FORECASTS[0], 3.0), Observation(FORECASTS[1], 3.0, 2.0)])
    before = plain(cal)
    for stranger in (Observation(FORECASTS[2], -1.5), Observation(FORECASTS[0], -3.0, 3.0)):
        with pytest.raises(RetractionError):
            cal.unlearn_one(*stranger)
        assert plain(cal) == before


@each(POLICIES)
@few
@given(stream=streams(), nothing=observations)
def test_weight_zero_changes_nothing(build, forgetting, policy, within, stream, nothing):
    cal = learned(build(forgetting), stream)
    before = plain(cal)
    cal.learn_one(*nothing._replace(w=0.0))
    cal.learn_many(*columns([nothing._replace(w=0.0)] * 2))
    if cal.unlearns:
        cal.unlearn_one(*nothing._replace(w=0.0))
    assert plain(cal) == before


@each(("forever", "time-decay"))
def test_nothing_is_left_of_a_batch_that_was_taken_back(build, forgetting, policy, within):
    """What `learn_many` read of normal distributions together, `unlearn_one` finds when it reads them alone."""
    rng = np.random.default_rng(3)
    means, sds = rng.normal(size=60), rng.uniform(0.1, 2.0, 60)
    forecasts = [Normal(m, sd) for m, sd in zip(means.tolist(), sds.tolist(), strict=True)]
    y, w, t = rng.normal(size=60), rng.uniform(0.1, 5.0, 60), rng.uniform(0.0, 9.0, 60)
    cal = build(forgetting)
    cal.learn_many(forecasts, y, w, t)
    for i in rng.permutation(60).tolist():
        cal.unlearn_one(forecasts[i], y[i], w[i], t[i])
    assert cal.n == 0.0
    np.testing.assert_array_equal(cdfs(cal), cdfs(build(forgetting)))


# -- predicting --------------------------------------------------------------------------------------------------


@each(POLICIES)
@few
@given(stream=streams(max_size=LONGEST))
def test_predicting_is_pure_and_the_map_says_the_same(build, forgetting, policy, within, stream):
    cal = learned(build(forgetting), stream)
    before = plain(cal)
    found = cdfs(cal)
    cal.predict_one(PROBES[0], t=1e6)  # a look into the future
    many = cal.predict_many(PROBES)
    assert plain(cal) == before
    np.testing.assert_allclose(cdfs(cal), found, rtol=0.0, atol=within)  # solved again, from where it ended
    snapshot = cal.map()
    cal.learn_one(FORECASTS[0], 0.25, 1.0, 100.0 * HALF_LIFE)
    np.testing.assert_allclose(cdfs(snapshot), found, rtol=0.0, atol=within)
    assert [one.cdf(0.5) for one in many] == pytest.approx([snapshot(probe).cdf(0.5) for probe in PROBES], abs=within)


def assert_distribution(one: CalibratedDistribution) -> None:
    """It is a distribution: a cdf from 0 to 1, with its quantiles, and its score by numerical integration."""
    values = one.cdf(np.concatenate(([-math.inf], PLACES, [math.inf])))
    assert values[0] == 0.0
    assert values[-1] == 1.0
    assert (np.diff(values) >= 0.0).all()
    levels = np.linspace(0.01, 1.0, 23)
    quantiles = one.ppf(levels)
    assert (np.diff(quantiles) >= 0.0).all()
    assert (one.cdf(quantiles) >= levels - CLOSED).all()  # the smallest t with cdf(t) >= level
    finite = np.isfinite(quantiles)
    before = np.nextafter(quantiles[finite], -math.inf) - 1e-9
    assert (one.cdf(before) <= levels[finite] + CLOSED).all()
    for y in (-5.0, 0.3, 2.0):
        assert one.crps(y) == pytest.approx(integrated_crps(one, y), abs=1e-6)
    low, high = one.interval(0.5)
    assert one.ppf(0.25) == low <= high == one.ppf(0.75)
    assert np.array_equal(one.sample(3, 5), one.sample(3, 5))
    assert one.mean == pytest.approx(mean_by_cdf(one), abs=1e-6)


def pieces(one: CalibratedDistribution, y: float) -> list[tuple[float, float]]:
    """Where a cdf has no kinks; what is outside of ±40 weighs nothing here."""
    inner = one.knots if isinstance(one, Piecewise) else one.base.ppf(one.ramp.knots[1:-1])  # type: ignore[attr-defined]
    ends = np.unique(np.concatenate(([-40.0, 40.0, 0.0, y], inner)))
    return list(zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True))


def integrated_crps(one: CalibratedDistribution, y: float) -> float:
    def square(t: float) -> float:
        return (one.cdf(t) - (t >= y)) ** 2

    return sum(quad(square, a, b, epsabs=1e-9)[0] for a, b in pieces(one, y))


def mean_by_cdf(one: CalibratedDistribution) -> float:
    return sum(quad(lambda t: (t >= 0.0) - one.cdf(t), a, b, epsabs=1e-9)[0] for a, b in pieces(one, 0.0))


@each(["forever"])
@settings(max_examples=2)
@given(stream=streams(max_size=8))
def test_what_is_predicted_is_a_distribution(build, forgetting, policy, within, stream):
    cal = learned(build(forgetting), stream)
    for probe in (FORECASTS[1], FORECASTS[4], Normal(0.3, 1.0)):
        assert_distribution(cal.predict_one(probe))


@each(["forever"])
def test_a_frozen_scipy_distribution_is_taken_as_it_is(build, forgetting, policy, within):
    one, other = build(forgetting), build(forgetting)
    means = np.linspace(-2.0, 2.0, 9)
    one.learn_many([stats.norm(m, 1.5) for m in means], 0.5 * means)
    other.learn_many([Normal(m, 1.5) for m in means], 0.5 * means)
    found, expected = one.predict_one(stats.norm(0.2, 1.0)), other.predict_one(Normal(0.2, 1.0))
    np.testing.assert_allclose(found.cdf(PLACES), expected.cdf(PLACES), atol=max(within, 1e-9))
    assert found.log_prob(0.3) == pytest.approx(expected.log_prob(0.3), abs=max(within, 1e-9))
    assert found.crps(0.3) == pytest.approx(expected.crps(0.3), abs=max(within, 1e-9))


# -- state -------------------------------------------------------------------------------------------------------


@each(POLICIES)
@few
@given(stream=streams(max_size=LONGEST))
def test_state_goes_through_json_and_pickle_and_learns_on(build, forgetting, policy, within, stream):
    cal = learned(build(forgetting), stream)
    copies = [type(cal).from_state(json.loads(plain(cal))), pickle.loads(pickle.dumps(cal)), copy.deepcopy(cal)]
    for twin in copies:
        assert_same(twin, cal, within)
        assert twin.tally() == cal.tally()
    new = Observation(FORECASTS[3], 0.5, 1.0, 8.0 * HALF_LIFE)
    cal.learn_one(*new)
    for twin in copies:
        twin.learn_one(*new)
        assert_same(twin, cal, within)
    assert cal.clone().n == 0.0
    with pytest.raises(StateError):
        type(cal).from_state({**cal.state_dict(), "learned": {}})


class Bad:
    """A distribution whose cdf gives what it was told to."""

    def __init__(self, answer: Any) -> None:
        self.cdf = answer


BAD_DISTRIBUTIONS = [
    3.0,
    None,
    "normal",
    Bad(3.0),
    Bad(lambda t: np.full(np.shape(t), math.nan)),
    Bad(lambda t: np.full(np.shape(t), 1.5)),
    Bad(lambda t: np.full(np.shape(t), -0.5)),
    Bad(lambda t: np.zeros(7)),
    Bad(lambda t: "no"),
]


@each(["forever"])
def test_bad_input_is_refused_and_changes_nothing(build, forgetting, policy, within):
    cal = learned(build(forgetting), [Observation(FORECASTS[0], 1.0), Observation(FORECASTS[2], -0.5)])
    before = plain(cal)
    for y in (math.nan, math.inf, "1", None, [1.0]):
        with pytest.raises(InputError):
            cal.learn_one(FORECASTS[0], y)
        with pytest.raises(InputError):
            cal.learn_many(FORECASTS[:2], [0.0, y])
    for distribution in BAD_DISTRIBUTIONS:
        for call in (
            lambda bad: cal.learn_one(bad, 0.0),
            lambda bad: cal.unlearn_one(bad, 0.0),
            lambda bad: cal.learn_many([FORECASTS[0], bad], [0.0, 0.0]),
        ):
            with pytest.raises(InputError):
                call(distribution)
    with pytest.raises(InputError):
        cal.learn_one(FORECASTS[0], 0.0, -1.0)
    for arguments in ((FORECASTS[:2], [0.0]), (FORECASTS[0], [0.0]), (FORECASTS[:1], [0.0], [1.0, 1.0])):
        with pytest.raises(InputError):
            cal.learn_many(*arguments)
    for bad in (3.0, None):
        with pytest.raises(InputError):
            cal.predict_one(bad)
        with pytest.raises(InputError):
            cal.predict_many(bad)
    assert plain(cal) == before


def test_a_cdf_that_decreases_is_refused_where_thresholds_see_it():
    falling = Bad(lambda t: 1.0 - stats.norm.cdf(t))
    for build, _ in [*VARIANTS["empirical-density"][:3]]:
        with pytest.raises(InputError, match="decreases"):
            build(Forever()).learn_one(falling, 0.0)


@pytest.mark.parametrize("policy", TIMED)
def test_a_timed_policy_asks_for_times(policy):
    cal = QuantileRecalibration(forgetting=POLICIES[policy])
    with pytest.raises(InputError, match="time"):
        cal.learn_one(FORECASTS[0], 0.0)


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


# -- what is special ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in REGISTRY if name != "cross-venn-abers"])
def test_every_binary_method_can_be_streamed(name):
    cal = learned(
        EmpiricalDensity(name, 3, support=SUPPORT), [Observation(f, y) for f in FORECASTS for y in (-3, 0, 2)]
    )
    found = cdfs(cal)
    assert (np.diff(found) >= 0.0).all()
    np.testing.assert_allclose(cdfs(type(cal).from_state(json.loads(plain(cal)))), found, rtol=0.0, atol=SOLVED)
    np.testing.assert_allclose(cdfs(cal.map()), found, rtol=0.0, atol=SOLVED)
    kind = REGISTRY[name]()
    assert (cal.merges, cal.unlearns, cal.bounded_memory) == (kind.merges, kind.unlearns, kind.bounded_memory)


@pytest.mark.parametrize("cal", SEQUENTIAL, ids=["ops", "ops-discount"])
@few
@given(stream=streams(max_size=LONGEST), cut=st.integers(0, LONGEST))
def test_streams_of_a_sequential_method(cal, stream, cut):
    loop, many = learned(cal.clone(), stream), cal.clone()
    many.learn_many(*columns(stream[:cut]))
    many.learn_many(*columns(stream[cut:]))
    assert_same(loop, many, CLOSED)
    assert_same(type(cal).from_state(json.loads(plain(loop))), loop, CLOSED)
    assert (loop.merges, loop.unlearns, loop.bounded_memory) == (False, False, True)
    with pytest.raises(MergeError):
        loop.merge(many)
    with pytest.raises(CapabilityError):
        loop.unlearn_one(FORECASTS[0], 0.0)


@few
@given(stream=streams(max_size=LONGEST))
def test_refreshing_at_intervals_lags_by_fewer_than_r(stream):
    method = NearIsotonic(refresh_every=4)
    cal = learned(EmpiricalDensity(method, 3, support=SUPPORT), stream)
    upto = len(stream) if len(stream) < 4 else len(stream) // 4 * 4
    expected = learned(EmpiricalDensity(NearIsotonic(), 3, support=SUPPORT), stream[:upto])
    np.testing.assert_allclose(cdfs(cal), cdfs(expected), rtol=0.0, atol=1e-9)


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
    assert [stream.predict_one(0.5) for stream in cal._live_streams(None)] == [0.0, 0.0]
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
    assert [part.n for part in cal._memory.statistic.parts.values()] == [2.0, 2.0, 2.0]
