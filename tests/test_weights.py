"""What weights mean to methods that take one step per observation: relative to their mean, and without overshoot."""

import itertools

import numpy as np
import pytest
from weights_by_hand import WeightsByHand

from streamcal import REGISTRY, Calibrator
from streamcal.fusion import LogisticFusion
from streamcal.kernels.common.weights import WeightScale, steps_of
from streamcal.live import LabelJoin, Segmented, importance_weight
from streamcal.multiclass import OneVsRest, OnlineVectorScaling
from streamcal.regression import AdaptiveConformal, AdaptiveScale, Composition, Normal

SEQUENTIAL = sorted(name for name, method in REGISTRY.items() if not method().merges)
#: Aggregated clicks come in blocks of one label, up to hundreds of times the mean weight: in nats an impression.
LITTLE = 0.02
#: The lowest of ten bins of equal width is above the rates here: see `docs/rare_events.md`.
NARROW = [name for name in SEQUENTIAL if name != "hedged-ops"]


def clicks(seed, n, rate=40.0, factor=2.0):
    """Scores around 1/(1 + rate) whose odds are `factor` times the true ones, true probabilities, and labels."""
    rng = np.random.default_rng(seed)
    s = rng.beta(1.0, rate, n)
    t = s / (s + (1.0 - s) * factor)
    return s, t, (rng.random(n) < t).astype(float)


def test_relative_weights_are_the_formula():
    rng = np.random.default_rng(1)
    scale, by_hand = WeightScale(), WeightsByHand()
    for w in np.exp(rng.normal(0.0, 3.0, 400)).tolist():
        assert scale.relative(w) == pytest.approx(by_hand.relative(w), rel=2.0**-23)  # half a unit of 24 digits each


@pytest.mark.parametrize(("weight", "count"), [(1e-50, 1), (1.0, 1), (1.0000001, 2), (31.5, 32), (1e4, 32)])
def test_steps_are_the_whole_number_above_and_32_at_most(weight, count):
    assert steps_of(weight) == count


@pytest.mark.parametrize("name", SEQUENTIAL)
@pytest.mark.parametrize("power", range(-6, 7, 3))
def test_a_factor_common_to_all_weights_changes_nothing(name, power):
    s, _, y = clicks(2, 600, rate=3.0)
    w = np.random.default_rng(3).exponential(1.0, len(s)) + 0.01
    plain, scaled = REGISTRY[name](), REGISTRY[name]()
    expected = plain.predict_learn_many(s, y, w)
    found = scaled.predict_learn_many(s, y, w * 10.0**power)
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-12)  # a tie of 24 digits may round to the other side
    assert scaled.n == pytest.approx(plain.n * 10.0**power)


def learners():
    """Yield the learners in steps beyond the methods of one score, and how they learn and answer."""
    rng = np.random.default_rng(4)
    s, y = rng.random(300).tolist(), (rng.random(300) < 0.3).tolist()
    z = rng.normal(0.5, 2.0, 300).tolist()
    page = rng.integers(0, 4, 300).tolist()

    def several(make, learn, answer):
        def run(w):
            cal = make()
            for k in range(300):
                learn(cal, k, w[k])
            return answer(cal)

        return run

    def of_score(make):
        return several(
            make,
            lambda cal, k, w: cal.learn_one({"a": s[k], "b": 1.0 - s[k]}, "a" if y[k] else "b", w),
            lambda cal: list(cal.predict_one({"a": 0.3, "b": 0.7}).values()),
        )

    def of_normal(make):
        return several(
            make,
            lambda cal, k, w: cal.learn_one(Normal(0.0, 1.0), z[k], w),
            lambda cal: cal.predict_one(Normal(0.0, 1.0)).interval(0.8),
        )

    segmented = several(
        lambda: Segmented("online-platt", by=["page"]),
        lambda cal, k, w: cal.learn_one(s[k], y[k], w, keys={"page": page[k]}),
        lambda cal: [cal.predict_one(0.3, keys={"page": 2}), cal.effect("page", 2)[0]],
    )
    fusion = several(
        LogisticFusion,
        lambda cal, k, w: cal.learn_one([s[k], 0.5], y[k], w),
        lambda cal: [cal.predict_one([0.3, 0.5]), cal.predict_one([0.3, None])],
    )
    return {
        "segmented": segmented,
        "fusion": fusion,
        "one-vs-rest": of_score(lambda: OneVsRest("online-platt")),
        "online-vector-scaling": of_score(OnlineVectorScaling),
        "adaptive-scale": of_normal(AdaptiveScale),
        "adaptive-conformal": of_normal(lambda: AdaptiveConformal(0.8)),
        "composition": of_normal(Composition),
    }


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", learners())
@pytest.mark.parametrize("power", [-6, 6])
def test_a_common_factor_changes_nothing_in_other_learners(name, power):
    run = learners()[name]
    w = np.random.default_rng(5).exponential(1.0, 300) + 0.01
    np.testing.assert_allclose(run((w * 10.0**power).tolist()), run(w.tolist()), rtol=1e-9, atol=1e-9)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("share", [0.1, 0.01, 0.001])
def test_sampled_negatives_with_importance_weights_give_the_truth(name, share):
    """Negatives kept at this share: methods are nearer to the truth than the score, which is off by 1.97."""
    s, t, y = clicks(6, 400_000 if share < 0.01 else 100_000)
    keep = (y > 0.0) | (np.random.default_rng(7).random(len(s)) < share)
    s, t, y = s[keep], t[keep], y[keep]
    w = np.where(y > 0.0, 1.0, 1.0 / share)
    p = REGISTRY[name]().predict_learn_many(s, y, w)
    half = len(s) // 2
    ratio = np.average(p[half:], weights=w[half:]) / np.average(t[half:], weights=w[half:])
    assert 0.7 < ratio < 1.9


@pytest.mark.sample(2)
@pytest.mark.parametrize("heavy", ["any", "positive"])
def test_auto_is_about_as_good_with_unequal_weights_as_one_of_its_kind(heavy):
    """A label judges the forecasts that were issued before it, and heavy ones leave the guard something to bet."""
    rng = np.random.default_rng(0)
    s = rng.random(12_000) ** 3
    y = rng.random(len(s)) < 0.7 * s
    w = np.where(y if heavy == "positive" else rng.random(len(s)) < 0.2, 10.0, 1.0)
    loss = {}
    for name in ("auto", "online-beta", "identity"):
        p = REGISTRY[name]().predict_learn_many(s, y, w).clip(1e-9, 1.0 - 1e-9)
        loss[name] = np.average(-np.log(np.where(y, p, 1.0 - p)), weights=w)
    assert loss["auto"] < loss["online-beta"] + 0.015 < loss["identity"] - 0.02


def test_importance_weights_through_a_join():
    s, t, y = clicks(8, 100_000)
    keep = (y > 0.0) | (np.random.default_rng(9).random(len(s)) < 0.01)
    join, said = LabelJoin("online-platt", horizon=3600.0), []
    for k, (score, label) in enumerate(zip(s[keep].tolist(), y[keep].tolist(), strict=True)):
        said.append(join.issue(k, score, 10.0 * k, w=importance_weight(label, 0.01)).p)
        if label:
            join.resolve(k, True, 10.0 * k + 50.0)
    half, w = len(said) // 2, np.where(y[keep] > 0.0, 1.0, 100.0)
    truth = np.average(t[keep][half:], weights=w[half:])
    assert np.average(said[half:], weights=w[half:]) == pytest.approx(truth, rel=0.5)


@pytest.mark.parametrize("name", SEQUENTIAL)
@pytest.mark.parametrize("weight", [3.0, 20.0])
def test_one_heavy_observation_is_like_several(name: str, weight: float):
    """After the same past, an observation of weight w moves a forecast about as far as w observations do.

    `Auto` and `OnlinePlatt` move less far after a heavy one: w observations are a sequence of equal labels, after which
    they believe the experts that follow the last labels. A label judges them once, by what they said before it.
    """
    s, _, y = clicks(10, 2_000, rate=2.0)
    once, often = (REGISTRY[name]() for _ in range(2))
    for cal in (once, often):
        cal.learn_many(s, y)
    before = once.predict_one(0.3)
    once.learn_one(0.3, True, weight)
    for _ in range(int(weight)):
        often.learn_one(0.3, True)
    moved, expected = once.predict_one(0.3) - before, often.predict_one(0.3) - before
    if name in ("auto", "online-platt"):
        assert 0.1 * expected < moved < 1.2 * expected
    else:
        assert moved == pytest.approx(expected, rel=0.6, abs=0.04)
    assert 0.0 <= once.predict_one(0.3) <= 1.0


@pytest.mark.parametrize("name", NARROW)
def test_aggregated_clicks_lose_little_to_the_score(name):
    """A row for each of 40 creatives and hour, with its clicks and its other impressions as weights."""
    rng = np.random.default_rng(11)
    rows = []
    for _, creative in itertools.product(range(60), range(40)):
        score = 0.002 * 1.1**creative
        shown = int(rng.pareto(1.2) * 300) + 1
        clicked = int(rng.binomial(shown, score))
        rows += [(score, 1.0, float(clicked)), (score, 0.0, float(shown - clicked))]
    s, y, w = np.array(rows).T
    cal: Calibrator = REGISTRY[name]()
    p = np.clip(cal.predict_learn_many(s, y, w), 1e-9, 1.0 - 1e-9)
    lost = -np.where(y > 0.0, np.log(p), np.log1p(-p))
    base = -np.where(y > 0.0, np.log(s), np.log1p(-s))
    assert np.average(lost - base, weights=w) < LITTLE


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("hedged-ops", 3.5, 4.5), ("protected", 0.7, 0.95), ("online-platt", 0.9, 1.1), ("tracking-ops", 0.9, 1.1)],
)
def test_rare_events_are_forecast_as_often_as_the_page_says(name: str, low: float, high: float):
    """`docs/rare_events.md`: the sum of the predictions over that of the true probabilities, at a rate of 1.3 %."""
    s, t, y = clicks(12, 100_000)
    p = REGISTRY[name]().predict_learn_many(s, y)
    assert low < p[50_000:].mean() / t[50_000:].mean() < high


def test_the_mean_weight_after_a_merge_is_that_of_both():
    one, other = WeightScale(), WeightScale()
    for _ in range(4):
        one.relative(2.0)
        other.relative(6.0)
    one.merge(other)
    assert one.ratio(4.0) == pytest.approx(1.0, rel=1e-3)
