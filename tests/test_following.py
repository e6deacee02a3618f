"""Methods that follow their table instead of reading it anew: after every step, what `solve` says of the same table."""

import json
import math

import numpy as np
import pytest
from scipy import special

from streamcal import (
    BBQ,
    AdaptiveCalibration,
    BernsteinLogistic,
    Beta,
    CenteredIsotonic,
    Decay,
    Forever,
    Gaussian,
    HistogramBinning,
    Interval,
    Logit,
    NearestScores,
    Platt,
    Prior,
    Probability,
    SmoothIsotonic,
    Temperature,
    Window,
)
from streamcal.kernels.newton.anchored_logistic import CERTIFIED, AnchoredLogistic
from streamcal.kernels.newton.panel_logistic import PANELS, PanelLogistic
from streamcal.kernels.newton.recent_logistic import RecentLogistic
from streamcal.kernels.newton.recent_points import RecentPoints
from streamcal.kernels.polynomial.bernstein import evaluate_many
from streamcal.maps.knots import CubicMap, KnotMap
from streamcal.maps.polynomials import BernsteinLogisticMap
from streamcal.maps.sigmoids import BetaMap, log_probabilities
from streamcal.solvers.bernstein_logistic import basis_matrix
from streamcal.statistics.label_moments import LabelMoments

LOGISTIC = {
    "platt": Platt,
    "temperature": Temperature,
    "beta": Beta,
    "beta-ab": lambda **common: Beta("ab", **common),
    "beta-am": lambda **common: Beta("am", **common),
}
FOLLOWED = {
    **LOGISTIC,
    "bernstein-logistic": BernsteinLogistic,
    "bernstein-logistic-30": lambda **common: BernsteinLogistic(30, **common),
}
FOLLOWING = [*LOGISTIC, "bernstein-logistic", pytest.param("bernstein-logistic-30", marks=pytest.mark.full)]
POLICIES = {
    "forever": Forever(),
    "window": Window(300),
    "time-window": Window(250, by="time"),
    "decay": Decay(150.0),
    "time-decay": Decay(120.0, by="time"),
}
#: What `solve` leaves open itself: its last step changes no log-odds by more than 1e-9, so that what is left is of the
#: size of its square, and rounding of the gradient, 1e-16 of the weight, over the curvature of the weight, 1e-2.
OF_SOLVE = 1e-12
WITHIN = CERTIFIED + OF_SOLVE
#: Of a Bernstein polynomial: a last step of 1e-6 leaves its square times the leverage of the ends of the curve, and
#: rounding of the gradient is magnified by a curvature of 1e-5 of the weight (4e-12 was seen). With degree 30, where
#: that is much smaller, `solve` itself differs by 3e-9 from two starts.
WITHIN_POLYNOMIAL = {10: 1e-9, 30: 1e-8}


def stream(seed, size, shift=0.0):
    """Scores, labels, weights and times; of an overconfident model that gets worse."""
    rng = np.random.default_rng(seed)
    z = 2.0 * rng.standard_normal(size)
    p = 1.0 / (1.0 + np.exp(-(np.linspace(0.9, 0.4, size) * z - 0.5 + shift)))
    weights = np.where(rng.random(size) < 0.2, rng.exponential(2.0, size), 1.0)
    times = np.arange(size) + rng.uniform(-5.0, 0.0, size)
    columns = 1.0 / (1.0 + np.exp(-z)), rng.random(size) < p, weights, times
    return list(zip(*(column.tolist() for column in columns), strict=True))


def log_odds(fitted, x):
    """Of a sigmoid map, a beta map or a Bernstein polynomial at coordinates."""
    if isinstance(fitted, BernsteinLogisticMap):
        return evaluate_many(fitted.coefficients, fitted.scale.units(x))
    if isinstance(fitted, BetaMap):
        ln_s, ln_not_s = log_probabilities(fitted.scale.logits(x))
        return fitted.a * ln_s - fitted.b * ln_not_s + fitted.c
    return fitted.slope * x + fitted.offset


def assert_followed(cal, t=None):
    """Assert that the map is that of `solve` without a start, in log-odds, at the points of the table."""
    statistic = cal._engine.memory.present(t)
    x = statistic.points()[0]
    found, expected = log_odds(cal._map_at(t), x), log_odds(cal.solve(statistic, None), x)
    within = WITHIN_POLYNOMIAL[cal.degree] if isinstance(cal, BernsteinLogistic) else WITHIN
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=within)


class Counted:
    """How often a calibrator has called `solve` by itself."""

    def __init__(self, cal):
        self.cal, self.number, solve = cal, 0, cal.solve

        def counting(statistic, start):
            self.number += 1
            return solve(statistic, start)

        cal.solve = counting

    def predict(self, score, t=None):
        """Predict; how many calls of `solve` that took."""
        before = self.number
        self.cal.predict_one(score, t)
        return self.number - before


#: Under time decay observations are forgotten, retracted and have times; a plain `pytest` leaves the others out.
TRIED = [pytest.param(name, marks=[pytest.mark.full] * (name != "time-decay")) for name in POLICIES]


@pytest.mark.sample(6)
@pytest.mark.parametrize("policy", TRIED)
@pytest.mark.parametrize("method", FOLLOWING)
def test_a_followed_fit_is_that_of_solve(method, policy):
    cal = FOLLOWED[method](forgetting=POLICIES[policy], resolution=256)
    counted, calls, steps = Counted(cal), 0, 0
    gone = []
    for number, (score, y, w, t) in enumerate(stream(3, 700)):
        cal.learn_one(score, y, w, t)
        if cal.unlearns and number % 7 == 3:
            gone.append((score, y, w, t))
        if len(gone) > 20:
            cal.unlearn_one(*gone.pop(0))
        if number >= 100:
            called = counted.predict(0.3)
            if isinstance(cal, BernsteinLogistic):
                calls, steps = calls + called, steps + 1
            elif getattr(cal.map(), "b", 1.0) > 0.0 < getattr(cal.map(), "a", 1.0):  # a bound is left to `solve`
                calls += called
                steps += 1
            if number % 3 == 0:  # solving takes most of the time
                assert_followed(cal)
    # Decay rescales all weights now and then, and a window may sum them again; everything else is followed.
    assert calls <= 0.05 * steps, "the sums at the anchor are of no use"


@pytest.mark.sample(6)
@pytest.mark.parametrize("method", FOLLOWING)
def test_a_followed_fit_survives_heavy_observations_merges_and_batches(method):
    cal, other = (FOLLOWED[method](resolution=256, prior=Prior(5.0)) for _ in range(2))
    for score, y, w, _ in stream(4, 400):
        cal.learn_one(score, y, w)
    cal.predict_one(0.5)
    heavy = [(0.7, True, 1e12), (0.2, False, 1e9), (0.01, True, 1e-9)]
    for observation in heavy:
        cal.learn_one(*observation)
        cal.predict_one(0.5)
    for observation in heavy[:2]:
        cal.unlearn_one(*observation)
        cal.predict_one(0.5)
    assert_followed(cal)
    for score, y, w, _ in stream(5, 300, shift=1.0):
        other.learn_one(score, y, w)
    other.predict_one(0.5)
    cal.merge(other)
    assert_followed(cal)
    for score, y, w, _ in stream(6, 50):
        cal.learn_one(score, y, w)
        assert_followed(cal)
        other.learn_one(score, y, w)
        assert_followed(other)
    cal.learn_many([0.1, 0.2, 0.9], [0, 0, 1])
    assert_followed(cal)


@pytest.mark.sample(16)
@pytest.mark.parametrize("method", FOLLOWING)
@pytest.mark.parametrize(
    "labels", ["noise", "separated", *(pytest.param(x, marks=pytest.mark.full) for x in ("falling", "one"))]
)
def test_where_no_interior_minimum_is_followed_solve_decides(method, labels):
    """Slopes at 0, and fits that a ridge or regularised targets alone make finite."""
    rng = np.random.default_rng(8)
    cal = FOLLOWED[method](resolution=256)
    for number, (score, chance) in enumerate(rng.random((160, 2)).tolist()):
        y = {"noise": chance < 0.5, "falling": chance > score, "separated": score > 0.5, "one": True}[labels]
        cal.learn_one(score, y)
        found, x = cal.map().at_many(np.array([-3.0, 0.1, 2.0])), np.array([-3.0, 0.1, 2.0])
        if number > 40 and number % 4:
            continue  # solving takes most of the time
        # Where a ridge of 1e-9 alone decides, rounding is magnified: the bound of the laws (`LEFT_OPEN`).
        np.testing.assert_allclose(found, cal.solve(cal._engine.memory.statistic, None).at_many(x), rtol=0.0, atol=1e-6)


@pytest.mark.sample(6)
@pytest.mark.full
@pytest.mark.parametrize("scale", [Logit(), Probability(), Logit(-3.0, 3.0), Interval(0.0, 1.0)], ids=repr)
@pytest.mark.parametrize("method", FOLLOWING)
def test_a_followed_fit_on_other_scales(method, scale):
    cal = FOLLOWED[method](scale=scale, resolution=128)
    for number, (score, y, w, _) in enumerate(stream(9, 400)):
        cal.learn_one(score, y, w)
        if number > 50:
            assert_followed(cal)


@pytest.mark.sample(8)
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("method", FOLLOWING)
def test_a_saved_calibrator_and_its_copy_go_on_alike(method, policy):
    cal = FOLLOWED[method](forgetting=POLICIES[policy], resolution=256)
    observations = stream(10, 240)
    for score, y, w, t in observations[:160]:
        cal.learn_one(score, y, w, t)
        cal.predict_one(0.4)
    copy = type(cal).from_state(json.loads(json.dumps(cal.state_dict())))
    for score, y, w, t in observations[160:]:
        for one in (cal, copy):
            one.learn_one(score, y, w, t)
        assert copy.predict_one(score) == cal.predict_one(score)


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", FOLLOWING)
def test_a_followed_fit_as_of_a_later_time(method):
    """Targets are functions of the weights of today, and a window moves on and back."""
    for policy in ("time-window", "time-decay"):
        cal = FOLLOWED[method](forgetting=POLICIES[policy], resolution=256)
        for score, y, w, t in stream(11, 400):
            cal.learn_one(score, y, w, t)
        for ahead in (0.0, 100.0, 10.0, 60.0):
            assert_followed(cal, 400.0 + ahead)
            assert_followed(cal)


def test_parameters_far_from_the_anchor_are_found_by_passes():
    """The series is not extrapolated to them: the minimum is the same from every anchor."""
    rng = np.random.default_rng(12)
    x = rng.normal(size=400)
    y = rng.random(400) < 1.0 / (1.0 + np.exp(-2.0 * x))
    slots = 2 * np.arange(400) + y
    fits = []
    for anchor in ((1.9, 0.0, 0.0), (0.5, 0.0, 1.0), (40.0, 0.0, -9.0)):
        kernel = AnchoredLogistic(800, False, True, True, 0.0)
        kernel.load(slots.astype(np.intp), x, np.zeros(400), np.ones(400))
        kernel.anchor_at(*anchor)
        assert kernel.fit(1.0, 0.0)
        fits.append(kernel.parameters())
    a, _, c = fits[0]
    p = 1.0 / (1.0 + np.exp(-(a * x + c)))
    assert math.hypot(float((p - y).sum()), float((p - y) @ x)) < 1e-9  # of a sum of 400 terms
    np.testing.assert_allclose(fits[1:], [fits[0]] * 2, rtol=0.0, atol=WITHIN)


#: Half-lives under which parameters move far with every label, and windows of few observations.
SHORT = {f"decay-{size:g}": Decay(size) for size in (3.6, 10.0, 30.0, 100.0, 400.0)} | {"window-30": Window(30)}


@pytest.mark.sample(36)
@pytest.mark.parametrize("policy", SHORT)
@pytest.mark.parametrize("method", LOGISTIC)
def test_under_short_half_lives_passes_over_the_points_that_matter_find_the_map_of_solve(method, policy):
    cal = LOGISTIC[method](forgetting=SHORT[policy])
    counted, calls, steps, off = Counted(cal), 0, 0, []
    for number, (score, y, w, _) in enumerate(stream(15, 500)):
        cal.learn_one(score, y, w)
        if number < 100:
            continue
        calls, steps = calls + counted.predict(0.3), steps + 1
        if number % 5 == 0:
            statistic = cal._engine.memory.present(None)
            x = statistic.points()[0]
            off.append(np.abs(cal.map().at_many(x) - cal.solve(statistic, None).at_many(x)).max())
    # A window may sum its weights again; where labels are separated but for the ridge, `solve` decides.
    assert calls <= 0.1 * steps
    assert np.median(off) <= WITHIN
    assert max(off) <= 1e-6, "the bound of the laws where a ridge of 1e-9 alone decides (`LEFT_OPEN`)"


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "form", [(True, True, False), (True, False, False), (False, True, True), (False, False, False)]
)
def test_fits_of_nodes_are_those_of_points(form):
    """The same points in a kernel that keeps nodes, and in one without: from flat to steep, from even to rare."""
    two, constant, targets = form
    rng, by_nodes = np.random.default_rng(31), 0
    for slope, shift in ((0.1, 0.0), (0.5, -6.0), (1.0, 0.0), (1.4, -4.0), (3.0, 2.0), (12.0, 0.0)):
        z = np.clip(rng.logistic(size=3000), -7.0, 7.0)
        u, v = (log_probabilities(z)[0], -log_probabilities(z)[1]) if two else (z, 0.0 * z)
        if two and not constant:
            u, v = u + math.log(2.0), v - math.log(2.0)
        slots = 2 * np.arange(3000) + (rng.random(3000) < special.expit(slope * z + (shift if constant else 0.0)))
        weights = np.exp2(rng.uniform(-12.0, 0.0, 3000))
        kernels = [RecentLogistic(RecentPoints(6000), two, constant, targets, 1e-9) for _ in range(2)]
        kernels[0].load(slots, u, v, weights)
        for _ in range(30):  # until nodes are worth their cost
            kernels[0].fit(0.999, 0.001, slope, slope if two else 0.0, shift)
        for slot, weight in zip(slots[:500], rng.exponential(0.1, 500).tolist(), strict=True):
            kernels[0].replace(slot, u[slot // 2], v[slot // 2], weight)
            weights[slot // 2] = weight
        kernels[1].load(slots, u, v, weights)
        assert all(kernel.fit(0.999, 0.001, slope, slope if two else 0.0, shift) for kernel in kernels)
        by_nodes += kernels[0].by_nodes
        assert not kernels[1].by_nodes
        (a, b, c), (d, e, f) = (kernel.parameters() for kernel in kernels)
        # Each is certified; a flat or rare one leaves rounding besides.
        np.testing.assert_allclose(a * u + b * v + c, d * u + e * v + f, rtol=0.0, atol=3.0 * CERTIFIED)
    assert by_nodes >= 3, "nodes are hardly ever certified"


@pytest.mark.parametrize("panels", PANELS)
def test_sums_over_nodes_are_those_over_points_wherever_the_panels_resolve_the_curve(panels):
    """The steepest accepted curves of random ones; the fits are of no use here, the gradient is."""
    rng, degree, size = np.random.default_rng(panels), 10, 400
    kernel = PanelLogistic(degree, panels, 2 * size)
    u = np.sort(np.concatenate([rng.random(size - 2), [0.0, 1.0]]))
    y, w = rng.random(size) < u, rng.exponential(1.0, size)
    kernel.load((2 * np.arange(size) + y).astype(np.intp), u, w)
    bases = basis_matrix(degree, u)
    accepted = []
    for spread in np.geomspace(1.0, 30.0, 40):
        c = np.sort(rng.uniform(-0.5 * spread, 0.5 * spread, degree + 1))
        accepted.append(kernel.start_at(c))
        if not accepted[-1]:
            continue
        p, height = special.expit(bases @ c), 0.5 * (bases @ c / 15.0 + 1.0)
        curvature = 4.0 * w * p * (1.0 - p)
        moments, cross = kernel.model()
        # UNRESOLVED, and as much again for the rounding of some hundred terms.
        near = {"rtol": 0.0, "atol": 1e-14 * w.sum()}
        np.testing.assert_allclose(moments, curvature @ basis_matrix(2 * degree, u), **near)
        np.testing.assert_allclose(cross, (curvature * height - 2.0 / 15.0 * w * (p - y)) @ bases, **near)
    assert accepted[0], "not even a flat curve is resolved"
    assert not kernel.start_at(np.repeat([-15.0, 15.0], [5, 6])) or panels == PANELS[-1], (
        "a jump was taken for resolved"
    )


# ---- predictions from the cells beside a score ---------------------------------------------------------------------

CELLS = {
    "histogram-binning": HistogramBinning,
    "histogram-2": lambda **common: HistogramBinning(2, **common),
    "histogram-1": lambda **common: HistogramBinning(1, **common),
    "adaptive-calibration": AdaptiveCalibration,
    "adaptive-calibration-half": lambda **common: AdaptiveCalibration(NearestScores(0.5), **common),
    "adaptive-calibration-all": lambda **common: AdaptiveCalibration(NearestScores(1.0), **common),
}


@pytest.mark.sample(64)
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "rough"])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("method", CELLS)
def test_what_is_read_beside_a_score_is_what_the_map_says(method, policy, whole):
    cal = CELLS[method](forgetting=POLICIES[policy], resolution=64, scale=Logit(-5.0, 5.0))
    centres = cal._engine.memory.statistic.grid.centres
    scores = [*(1.0 / (1.0 + np.exp(-centres))).tolist(), 0.0, 1.0]
    # Sums of whole weights have no rounding, whatever their order; others differ in the last places.
    within = 0.0 if whole and "decay" not in policy else 1e-13
    gone = []
    for number, (score, y, w, t) in enumerate(stream(13, 400)):
        w = float(round(w)) + 1.0 if whole else w
        cal.learn_one(score, y, w, t)
        if cal.unlearns and number % 5 == 3:
            gone.append((score, y, w, t))
        if len(gone) > 9:
            cal.unlearn_one(*gone.pop(0))
        if number < 20 or number % 9 == 0:
            expected = [cal.map().predict_one(score) for score in scores]
            np.testing.assert_allclose([cal.predict_one(score) for score in scores], expected, rtol=0.0, atol=within)
        else:
            cal.predict_one(0.3)
    if cal.merges:
        other = cal.clone()
        other.learn_many([0.2, 0.9], [1, 0], t=[400.0, 400.0])
        cal.merge(other)
        assert cal.predict_one(0.25) == pytest.approx(cal.map().predict_one(0.25), abs=within)


@pytest.mark.sample(2)
@pytest.mark.parametrize("method", CELLS)
def test_what_is_read_beside_a_score_after_all_weights_were_scaled(method):
    """Decay scales them every 16 half-lives."""
    cal = CELLS[method](forgetting=Decay(2.0), resolution=64)
    for number, (score, y, w, _) in enumerate(stream(16, 200)):
        cal.learn_one(score, y, w)
        if number % 3 == 0:
            assert cal.predict_one(0.3) == pytest.approx(cal.map().predict_one(0.3), abs=1e-12)


@pytest.mark.parametrize("method", CELLS)
def test_what_is_read_beside_a_score_as_of_a_later_time(method):
    for policy in ("time-window", "time-decay"):
        cal = CELLS[method](forgetting=POLICIES[policy], resolution=64)
        for score, y, w, t in stream(14, 300):
            cal.learn_one(score, y, w, t)
        for t in (300.0, 420.0, 300.0, 460.0, 1000.0, 300.0):
            for score in (0.1, 0.5, 0.8):
                assert cal.predict_one(score, t) == pytest.approx(cal.predict_many([score], t)[0], abs=1e-13)


# ---- averages over binnings ------------------------------------------------------------------------------------------

#: A posterior is the exponential of a sum of hundreds of logarithms, which `solve` takes in another order.
OF_POSTERIORS = {"one": 1e-12, "any": 1e-12, "light beside heavy": 1e-8}  # 2⁻⁵² of the weight, some 1e7


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "weights", ["one", *(pytest.param(x, marks=pytest.mark.full) for x in list(OF_POSTERIORS)[1:])]
)
@pytest.mark.parametrize("policy", ["forever", "window", pytest.param("time-window", marks=pytest.mark.full)])
def test_binnings_that_are_followed_are_those_made_anew(policy, weights):
    """To the last bit: saved calibrators, which make them anew, go on alike. Cells are left and entered again.

    And what they say is what the map says, which `solve` makes from the cells.
    """
    rng = np.random.default_rng(17)
    window = {"window": Window(40), "time-window": Window(30, by="time")}.get(policy, Forever())
    cal = BBQ(float(rng.integers(2, 11)), resolution=300, forgetting=window)
    held, followed = [], 0
    for number in range(400):
        w = {"one": 1.0, "any": rng.exponential()}.get(weights, 1e6 if rng.random() < 0.02 else 1.0)
        observation = float(rng.random()), bool(rng.random() < 0.5), float(w), float(number)
        cal.learn_one(*observation)
        held.append(observation)
        if rng.random() < 0.3 and number > 30:
            cal.unlearn_one(*held.pop(int(rng.integers(len(held) - 20, len(held)))))
        if rng.random() < 0.2:
            found = [cal.predict_one(score) for score in (0.1, 0.5, 0.9)]
            copy = BBQ.from_state(json.loads(json.dumps(cal.state_dict())))
            assert [copy.predict_one(score) for score in (0.1, 0.5, 0.9)] == found
            np.testing.assert_allclose(found, cal.predict_many([0.1, 0.5, 0.9]), rtol=0.0, atol=OF_POSTERIORS[weights])
            followed += 1
        elif rng.random() < 0.6:
            cal.predict_one(0.3)
    assert followed > 50


@pytest.mark.sample(2)
@pytest.mark.parametrize("rate", [0.5, 0.02])
def test_binnings_that_are_not_scored_do_not_count(rate):
    """All weights are whole, but the last one: after it every binning is scored."""
    rng = np.random.default_rng(18)
    scores, labels = rng.random(3_000), rng.random(3_000) < rate
    cal = BBQ(forgetting=Window(2_900))
    cal.learn_many(scores[:2_000], labels[:2_000])
    for number in range(2_000, 3_000):
        cal.learn_one(scores[number], bool(labels[number]))
        found = cal.predict_one(scores[number - 1])
        if number % 100 == 0:
            assert found == pytest.approx(cal.map().predict_one(scores[number - 1]), abs=1e-12)
    cal.learn_one(0.5, True, 0.5)
    cal.unlearn_one(0.5, True, 0.5)
    assert cal.predict_one(0.3) == pytest.approx(cal.map().predict_one(0.3), abs=1e-12)


def test_more_binnings_than_are_kept_are_left_to_solve():
    cal = BBQ(resolution=4096)
    scores = cal._engine.memory.statistic.grid.centres[400:-400]  # 3,296 cells
    cal.learn_many(scores, np.arange(len(scores)) % 2, np.full(len(scores), 1e6))
    assert math.isnan(cal._at(0.5))
    light = BBQ(resolution=4096)
    light.learn_many(scores, np.arange(len(scores)) % 2)
    assert light._at(0.5) == pytest.approx(light.map().predict_one(0.5), abs=1e-12)


# ---- moments in twice the precision ----------------------------------------------------------------------------------


@pytest.mark.sample(4)
@pytest.mark.parametrize("variance", ["within", "total"])
@pytest.mark.parametrize("kind", ["scores", "far", "noise", "weights"])
def test_recent_moments_are_the_exact_ones(variance, kind):
    """Whatever waits to be added, the summary is that of the integers, to a unit in the last place."""
    rng = np.random.default_rng(15)
    cal = Gaussian(variance, scale=Interval())
    own, exact = cal._engine.memory.statistic, LabelMoments(Interval())
    read = 0
    for number in range(700):
        y = float(rng.random() < 0.4)
        x = float(rng.normal(y if kind != "noise" else 0.0) + (1e3 if kind == "far" else 0.0))
        w = float(np.exp(rng.normal(0.0, 8.0))) if kind == "weights" else 1.0
        for one in (own, exact):
            one.update(x, y, w)
            if number % 50 == 7:
                one.unlearn(x, y, w)
        found = own.summary(within=variance == "within")
        if found is not None:
            expected = *exact.weights(), *exact.means(), exact.gap(), exact.gap_by_variance(within=variance == "within")
            np.testing.assert_allclose(found, expected, rtol=2.0**-52, atol=0.0)
            assert own.n == exact.n
            read += own._recent.summary(variance == "within") is not None
    assert read > 500, "the sums in twice the precision are hardly ever used"
    assert own.state() == exact.state()


def test_recent_moments_leave_to_the_integers_what_cancels():
    cal = Gaussian(scale=Interval())
    for x, y in [(1.0, 0), (1.0 + 1e-14, 1), (1.0, 0), (1.0 + 2e-14, 1), (1e30, 1), (1e-30, 0)]:
        cal.learn_one(x, y)
        cal.predict_one(0.5)
    cal.unlearn_one(1e30, 1)
    cal.unlearn_one(1e-30, 0)
    statistic = cal._engine.memory.statistic
    assert statistic.summary(within=True)[4] == statistic.gap() == pytest.approx(1.5e-14, rel=0.1)


# ---- blocks beside a score -------------------------------------------------------------------------------------------


@pytest.mark.sample(12)
@pytest.mark.parametrize("kind", ["whole", "rough", "ties", "grid", "separated"])
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("method", [CenteredIsotonic, SmoothIsotonic])
def test_blocks_beside_a_score_say_what_the_map_says(method, policy, kind):
    cal = method(forgetting=POLICIES[policy], resolution=64 if kind == "grid" else None)
    rng = np.random.default_rng(16)
    probes = [*rng.random(12).tolist(), 0.0, 1.0]
    gone = []
    for number, (score, y, w, t) in enumerate(stream(17, 120)):
        score = round(16.0 * score) / 16.0 if kind == "ties" else score
        y = score > 0.5 if kind == "separated" else y
        w = w if kind == "rough" else float(round(w)) + 1.0
        cal.learn_one(score, y, w, t)
        if cal.unlearns and number % 5 == 3:
            gone.append((score, y, w, t))
        if len(gone) > 9:
            cal.unlearn_one(*gone.pop(0))
        fitted = cal.map()
        places = [*probes, score, score - 1e-9] if score > 1e-9 else probes
        if isinstance(fitted, CubicMap | KnotMap):
            knots = fitted.knots[number % len(fitted.knots)].item()
            places.append(min(max(knots, 0.0), 1.0))
        found = [cal.predict_one(place) for place in places]
        # The rounding of a centre, by the slope of a curve: blocks may be a millionth apart.
        np.testing.assert_allclose(found, [fitted.predict_one(place) for place in places], rtol=0.0, atol=1e-9)


@pytest.mark.parametrize("method", [CenteredIsotonic, SmoothIsotonic])
def test_blocks_at_the_ends_of_the_floats(method):
    """Where sums of scores leave the range of the floats, predictions are those of the map."""
    cal = method(scale=Interval())
    for number, score in enumerate([-1.7e308, -1.6e308, -1e308, 0.0, 1e308, 1.6e308, 1.7e308]):
        for y in (number % 2, number > 3):
            cal.learn_one(score, y)
        for place in (-1.75e308, -1.65e308, -1.2e308, 0.0, 5e-324, 1.2e308, 1.65e308):
            assert cal.predict_one(place) == pytest.approx(cal.map().predict_one(place), abs=1e-12)
