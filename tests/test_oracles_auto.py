"""`Auto` and its kernels against plain transcriptions of their formulas, and against what the docstring promises.

A transcription works in whole matrices and lists, from the formulas alone, and shares no code with the package.
"""

import itertools
import json
import math

import numpy as np
import pytest
from scipy.optimize import brentq
from shares_by_hand import SharesByHand

from streamcal import Auto, Identity, OnlinePlatt
from streamcal.app.doctor import kernel_form
from streamcal.calibrators.auto.experts import ANCHOR, EXPERTS, FEATURE_PLACES, NAMES, PLACES, PRIOR, Regression
from streamcal.calibrators.auto.mixture import (
    ANEW_EVERY,
    ANEW_RATE,
    CORRECTION_PRIOR,
    LEAVING,
    MOST_SCORE,
    PARTS,
    RATES,
    SCORE_PRIOR,
    STACK_PRIOR,
)
from streamcal.calibrators.auto.panel import KNOTS, REFRESH, ExpertPanel
from streamcal.kernels.expert_panel import FEATURES, Panel
from streamcal.kernels.fixed_share import FixedShare, late_rate
from streamcal.kernels.implicit_regression import Correction, ForgettingRegression
from streamcal.kernels.mixture import Mixture
from streamcal.kernels.period_search import PeriodSearch
from streamcal.kernels.restarts import Restarts, Switch
from streamcal.maps.points import score_prior

#: Two ways to solve the same small systems, with curvatures of up to 1e3 beside 1e-1.
SOLVED = 1e-9
#: One formula in scalars and in arrays.
ROUNDED = 1e-12
COMPILED = kernel_form() == "compiled"


def sigmoid(z):
    return 1.0 / (1.0 + np.exp(-z))


def log_odds(s):
    """Clamped at ±16."""
    with np.errstate(divide="ignore"):
        return np.clip(np.log(s) - np.log1p(-np.asarray(s)), -16.0, 16.0)


def log_loss(z, y):
    """−log of the probability σ(z) gives to y."""
    return np.logaddexp(0.0, -z if y else z)


# ---- a regression that follows drift -------------------------------------------------------------------------------


class RegressionByHand:
    """The step of the docstring, with matrices, a general solver and a general root finder."""

    def __init__(self, keep, precision, start, trends=0, pace=0.0):
        self.keep, self.prior, self.precision = np.array(keep), np.diag(precision), precision
        self.theta, self.a, d = np.array(start, dtype=float), np.diag(precision).astype(float), len(keep) - trends
        self.move = np.eye(len(keep))
        for k in range(trends):
            self.move[k, d + k] = pace

    def hold(self, phi, offset):
        """A quadratic form in θ: p times the square of the offset becomes p times that of the forecast at φ."""
        d, self.prior = len(phi), np.diag(self.precision)
        for start in (0, d)[: 1 + (offset < len(self.keep) - d)]:
            stop = min(start + d, len(self.keep))
            at, there = np.zeros((2, len(self.keep)))
            at[start + offset], there[start:stop] = 1.0, phi[: stop - start]
            p = self.precision[start + offset]
            self.prior = self.prior + p * (np.outer(there, there) - np.outer(at, at))
        self.a = self.prior

    def learn(self, phi, y, w):
        fade, back = np.diag(np.sqrt(self.keep)), np.linalg.inv(self.move)
        renew = np.diag(np.sqrt(1.0 - self.keep))
        self.a = fade @ self.a @ fade + renew @ self.prior @ renew
        self.a, self.theta = back.T @ self.a @ back, self.move @ self.theta
        f = np.append(phi, np.zeros(len(self.keep) - len(phi)))
        direction = np.linalg.solve(self.a, f)
        v, z = f @ direction, self.theta @ f
        if v == 0.0:
            return  # no feature, no step
        m = brentq(lambda m: m - z - v * w * (y - sigmoid(m)), z - v * w, z + v * w, xtol=1e-14)
        self.theta = self.theta + direction * (m - z) / v
        self.a = self.a + w * sigmoid(m) * sigmoid(-m) * np.outer(f, f)


@pytest.mark.parametrize("trends", [0, 2])
@pytest.mark.parametrize("keep", [1.0, 0.98])
def test_a_regression_takes_implicit_steps(trends, keep):
    rng = np.random.default_rng(3)
    given = ([keep] * (3 + trends), [4.0, 1.0, 0.1] + [30.0] * trends, [1.0, 0.0, -2.0] + [0.0] * trends, trends, 0.01)
    regression, by_hand = ForgettingRegression((0, 1, 2), *given), RegressionByHand(*given)
    for _ in range(300):
        phi, y, w = rng.normal(0.0, 2.0, 3), float(rng.random() < 0.4), float(rng.choice([0.1, 1.0, 5.0]))
        ahead = by_hand.theta[:3] @ phi + 7.0 * 0.01 * (by_hand.theta[3:] @ phi[:trends])
        assert regression.predict(phi, 7.0) == pytest.approx(ahead, abs=SOLVED)
        regression.learn(phi, y, w)
        by_hand.learn(phi, y, w)
        theta, a = regression.state()
        np.testing.assert_allclose(theta, by_hand.theta, rtol=0.0, atol=SOLVED)
        np.testing.assert_allclose(a, by_hand.a, rtol=SOLVED, atol=SOLVED)


@pytest.mark.parametrize("trends", [0, 2])
def test_a_regression_can_be_held_elsewhere(trends):
    """At −7, where the forecast is as firm as the offset was; the slope may turn about it."""
    given = ([0.98] * (2 + trends), [4.0, 6.0, *[30.0, 10.0][:trends]], [1.0, 0.0] + [0.0] * trends, trends, 0.01)
    regression, by_hand = ForgettingRegression((0, 1), *given), RegressionByHand(*given)
    rng = np.random.default_rng(14)
    for k in range(200):
        if k == 10:
            regression.hold(np.array([-7.0, 1.0]), 1)
            by_hand.hold(np.array([-7.0, 1.0]), 1)
        phi, y = np.array([rng.normal(-7.0, 1.0), 1.0]), float(rng.random() < 0.01)
        regression.learn(phi, y, 1.0)
        by_hand.learn(phi, y, 1.0)
        theta, a = regression.state()
        np.testing.assert_allclose(theta, by_hand.theta, rtol=0.0, atol=SOLVED)
        np.testing.assert_allclose(a, by_hand.a, rtol=SOLVED, atol=SOLVED)
    held = ForgettingRegression((0, 1), *given)
    held.hold(np.array([-7.0, 1.0]), 1)
    at = np.array([-7.0, 1.0] + [0.0] * trends)
    assert at @ np.linalg.solve(held.state()[1], at) == pytest.approx(1.0 / 6.0)


def test_a_regression_uses_the_features_it_is_given():
    chosen, all_of_them = (
        ForgettingRegression((3, 1), *([[1.0] * 2] * 3)),
        ForgettingRegression((0, 1), *([[1.0] * 2] * 3)),
    )
    rng = np.random.default_rng(4)
    for _ in range(50):
        phi, y = rng.normal(0.0, 1.0, 4), float(rng.random() < 0.5)
        chosen.learn(phi, y, 1.0)
        all_of_them.learn(phi[[3, 1]].copy(), y, 1.0)
    assert chosen.state() == all_of_them.state()


@pytest.mark.parametrize("start", [-40.0, -3.0, 0.0, 25.0])
@pytest.mark.parametrize("w", [1e-60, 1e-6, 1.0, 1e3, 1e6, 1e60])
def test_an_implicit_step_never_overshoots(start, w):
    """It moves towards the label, and not past the log-odds at which its own gradient would turn it back."""
    for y in (0.0, 1.0):
        regression = ForgettingRegression((0,), [1.0], [0.1], [start])
        regression.learn(np.array([1.0]), y, w)
        (moved,), _ = regression.state()
        counted = min(w, 1e6)
        assert (moved - start) * (y - 0.5) >= 0.0
        assert moved == pytest.approx(start + 10.0 * counted * (y - sigmoid(moved)), abs=1e-6 * max(1.0, abs(moved)))


def test_a_regression_that_forgets_nothing_ends_near_maximum_likelihood():
    """Its regret is that of one pass; a batch fit of the same 4,000 observations differs by less than a deviation."""
    rng = np.random.default_rng(5)
    x = rng.normal(0.0, 2.0, 4_000)
    y = (rng.random(4_000) < sigmoid(0.5 * x - 1.0)).astype(float)
    regression = ForgettingRegression((0, 1), [1.0] * 2, [4.0, 1.0], [1.0, 0.0])
    for phi, label in zip(np.column_stack((x, np.ones_like(x))), y.tolist(), strict=True):
        regression.learn(phi.copy(), label, 1.0)
    theta, a = regression.state()
    design, fit = np.column_stack((x, np.ones_like(x))), np.array([1.0, 0.0])
    for _ in range(30):
        p = sigmoid(design @ fit)
        fit = fit + np.linalg.solve(design.T * (p * (1.0 - p)) @ design, design.T @ (y - p))
    assert (np.abs(theta - fit) < np.sqrt(np.diag(np.linalg.inv(a)))).all()


# ---- the panel -----------------------------------------------------------------------------------------------------


def plain_panel(delay):
    """One regression on the means of labels, one anchor, two smoothers, no curves."""
    labels = ForgettingRegression((len(FEATURES), len(FEATURES) + 1), [1.0] * 2, [1.0] * 2, [1.0, 1.0])
    start = {
        "x": 0.5,
        "1": 0.2,
        "clamped below": 1.0,
        "clamped above": 2.0,
        "(x/4)²": -0.3,
        "(x/4)³": 0.1,
        "2s − 1": 0.4,
        "ln s": 0.2,
        "−ln(1 − s)": 0.1,
    }
    anchor = ForgettingRegression([FEATURES[name] for name in start], [1.0] * 9, [1e30] * 9, list(start.values()))
    return panel_of({0: labels, 1: anchor}, {2: (0.3, 20.0), 3: (1.0, 50.0)}, (0.7, 0.1), anchor=1, delay=delay)


def panel_of(regressions, smoothers, label_rates, *, curves=(), anchor=0, delay=0):
    """After regressions and smoothers, the forecasts of an interval, of a probability, and the score."""
    count = len(regressions) + len(smoothers)
    return Panel(
        regressions=regressions,
        smoothers=smoothers,
        curves=curves,
        interval=count,
        protected=count + 1,
        score=count + 2,
        anchor=anchor,
        anchored=2.0,
        label_rates=label_rates,
        knots_a_unit=8,
        delay=delay,
    )


def anchor_by_hand(x):
    """Weights of 1e30 hold it where it started."""
    inside, s = abs(x) < 16.0, sigmoid(x)
    u = x / 4.0 if inside else 0.0
    first = (0.5 * x if inside else 0.0) + 0.2 + 1.0 * (x <= -16.0) + 2.0 * (x >= 16.0)
    return first - 0.3 * u**2 + 0.1 * u**3 + 0.4 * (2.0 * s - 1.0) + 0.2 * math.log(s) - 0.1 * np.log1p(-s)


@pytest.mark.parametrize("delay", [0, 1, 5])
def test_a_panel_has_the_features_means_and_local_sums_it_says(delay):
    rng = np.random.default_rng(6)
    panel, out = plain_panel(delay), np.empty(7)
    by_hand = RegressionByHand([1.0] * 2, [1.0] * 2, [1.0, 1.0])
    places = rng.normal(0.0, 3.0, 120).tolist()
    stream = [(x, float(rng.random() < 0.3), 1.0 + 1.5 * (i % 2)) for i, x in enumerate(places)]
    stream[7] = (16.0, 1.0, 1.0)

    def means(learned):
        """Each of them, of the first `learned` labels."""
        now = np.zeros(2)
        for _, y, w in stream[: max(learned, 0)]:
            now += (1.0 - (1.0 - np.array([0.7, 0.1])) ** w) * (2.0 * y - 1.0 - now)
        return now

    for i, (x, y, w) in enumerate(stream):
        for knot in (0, 100, 128, 133, 256):
            panel.forecast(knot, 0.2, 0.6, 0.3, out)
            place = KNOTS[knot]
            assert out[0] == pytest.approx(by_hand.theta @ means(i), abs=SOLVED)
            assert out[1] == pytest.approx(np.clip(anchor_by_hand(place), -16.0, 16.0), abs=SOLVED)
            for b, (width, memory) in enumerate(((0.3, 20.0), (1.0, 50.0))):
                kept = [
                    (max(1.0 - ((place - x) / width) ** 2, 0.0) ** 2 * w * (1.0 - 1.0 / memory) ** (i - 1 - j), y)
                    for j, (x, y, w) in enumerate(stream[:i])
                ]
                p = (2.0 * sigmoid(out[1]) + sum(k * y for k, y in kept)) / (2.0 + sum(k for k, _ in kept))
                assert sigmoid(out[2 + b]) == pytest.approx(p, abs=SOLVED)
            p = score_prior(0.2, 0.6, float(sigmoid(place)))
            assert out[4] == pytest.approx(math.log(p / (1.0 - p)), abs=SOLVED)
            assert out[5] == pytest.approx(math.log(0.3 / 0.7), abs=ROUNDED)
            assert out[6] == place
        by_hand.learn(means(i - delay), y, w)
        panel.learn(x, y, w)


def loaded_from(panel, given):
    """A new panel of one regression, with the state of this one."""
    found = panel_of({0: ForgettingRegression((0, 1), *given)}, {1: (0.3, 20.0)}, (0.5,), curves=[5])
    found.load(panel.state())
    return found


@pytest.mark.parametrize("middle", [-7.5, 9.0, -2.5, 2.9, 0.5])
def test_a_panel_holds_its_regressions_where_the_first_scores_are(middle):
    """Near to their mean so far, if that is far from 0; clamped scores, the eleventh and later ones do not count."""
    given = ([0.9] * 2, [3.0, 6.0], [1.0, 0.0])
    regression, by_hand = ForgettingRegression((0, 1), *given), RegressionByHand(*given)
    panel = panel_of({0: regression}, {1: (0.3, 20.0)}, (0.5,), curves=[5])
    rng = np.random.default_rng(15)
    inside, held = [], False
    for x in [-16.0, *(middle + np.linspace(-1.0, 1.0, 10)), 16.0, *rng.normal(0.0, 5.0, 20)]:
        y = float(rng.random() < 0.5)
        panel.learn(x, y, 1.0)
        if abs(x) < 16.0 and len(inside) < 10:
            inside.append(x)
            mean = np.mean(inside)
            if abs(mean) > 3.0 or held:  # where the mean has come near to 0 again, the offset itself is held
                by_hand.hold(np.array([mean - 9.0 / mean if abs(mean) > 3.0 else 0.0, 1.0]), 1)
            held = abs(mean) > 3.0
        by_hand.learn(np.array([x if abs(x) < 16.0 else 0.0, 1.0]), y, 1.0)
        theta, a = regression.state()
        np.testing.assert_allclose(theta, by_hand.theta, rtol=0.0, atol=SOLVED)
        np.testing.assert_allclose(a, by_hand.a, rtol=SOLVED, atol=SOLVED)
        # What is loaded after every step goes on as what is not.
        straight, loaded = loaded_from(panel, given), loaded_from(panel, given)
        for z in (0.5, -4.0):
            straight.learn(z, 1.0, 1.0)
            loaded.learn(z, 1.0, 1.0)
            loaded = loaded_from(loaded, given)
        assert straight.state() == loaded.state()


def test_the_unit_of_a_smoother_is_scaled_back_without_a_trace():
    """1e100 is reached after 2,252 observations at a memory of 10."""
    panel = panel_of({0: ForgettingRegression((1,), [1.0], [1e30], [0.0])}, {1: (1.0, 10.0)}, (0.5,))
    out, kept = np.empty(5), 0.0
    for i in range(5_000):
        panel.learn(0.0, float(i % 3 == 0), 1.0)
        kept = 0.9 * kept + (i % 3 == 0)
    panel.forecast(128, 0.0, 1.0, 0.5, out)
    assert sigmoid(out[1]) == pytest.approx((1.0 + kept) / (2.0 + 10.0), rel=1e-9)


# ---- a correction --------------------------------------------------------------------------------------------------


class CorrectionByHand:
    """The step of the docstring over whole arrays of knots, and a general root finder."""

    def __init__(self, width, memory, firm):
        self.width, self.memory, self.firm = width, memory, firm
        self.f, self.h = np.zeros(len(KNOTS)), np.full(len(KNOTS), firm)

    def kernel(self, x):
        return np.clip(1.0 - ((KNOTS - x) / self.width) ** 2, 0.0, None) ** 2

    def learn(self, x, z, y, w):
        k = self.kernel(x)
        self.h = self.firm + (self.h - self.firm) * (1.0 - k / self.memory)
        z, v = z + np.interp(x, KNOTS, self.f), np.interp(x, KNOTS, k / self.h)
        m = brentq(lambda m: m - z - v * w * (y - sigmoid(m)), z - v * w, z + v * w, xtol=1e-14)
        self.f = self.f + k / self.h * (m - z) / v
        self.h = self.h + k * w * sigmoid(m) * sigmoid(-m)


@pytest.mark.parametrize("width", [0.2, 1.0])
def test_a_correction_learns_what_a_forecast_misses(width):
    """At knots, between them and at both ends, where scores are clamped."""
    rng = np.random.default_rng(13)
    correction, by_hand = Correction(width, 30.0, 2.0, 8), CorrectionByHand(width, 30.0, 2.0)
    for x in [*rng.normal(0.0, 3.0, 200).tolist(), -16.0, 16.0, 0.5, -15.99, 15.99, 16.0]:
        z, y, w = rng.normal(0.0, 2.0), float(rng.random() < 0.3), float(rng.choice([0.1, 1.0, 20.0]))
        assert correction.at(x) == pytest.approx(np.interp(x, KNOTS, by_hand.f), abs=SOLVED)
        correction.learn(x, z, y, w)
        by_hand.learn(x, z, y, w)
        np.testing.assert_allclose(correction.state(), [by_hand.f, by_hand.h], rtol=SOLVED, atol=SOLVED)


@pytest.mark.parametrize("w", [1e-60, 1.0, 1e60])
def test_a_correction_never_overshoots(w):
    """At the observation itself, the corrected log-odds move towards the label, and a weight of 1e60 counts as 1e6."""
    for y, z in itertools.product((0.0, 1.0), (-12.0, 0.0, 12.0)):
        correction = Correction(1.0, 1_000.0, 40.0, 8)
        correction.learn(0.25, z, y, w)
        moved = correction.at(0.25)
        assert moved == pytest.approx(min(w, 1e6) / 40.0 * (y - sigmoid(z + moved)), abs=1e-6 * max(1.0, abs(moved)))


# ---- the mixture ---------------------------------------------------------------------------------------------------


SHARE_RATES = [1e-4, 0.05]


def shares_of(prior, late, made=FixedShare):
    """Two share rates."""
    shares = made(SHARE_RATES, prior)
    if late:
        shares.triple_rows()
        shares.set_late(late)
    return shares


@pytest.mark.parametrize("late", [0, 1, 48, 5_000])
def test_weights_are_multiplied_and_shared(late):
    """Where labels are late, by what was said when the forecast was issued, and by what is said now."""
    rng = np.random.default_rng(7)
    prior = [0.2, 0.3, 0.4, 0.1]
    shares, by_hand = shares_of(prior, late), shares_of(prior, late, SharesByHand)
    assert shares.third == (2 if late else 0)
    for _ in range(250):
        z, y, w = rng.normal(0.0, 2.0, 4), rng.random() < 0.4, float(rng.choice([0.3, 1.0, 2.0]))
        assert shares.mean(z) == pytest.approx(by_hand.mean(z), abs=SOLVED)
        np.testing.assert_allclose(shares.weights(), by_hand.weights(), rtol=0.0, atol=SOLVED)
        gains = -log_loss(z, y)
        rows = by_hand.shares @ np.exp(gains)
        of_rows = np.empty(len(rows))
        shares.assess(gains, of_rows)
        np.testing.assert_allclose(of_rows, np.log(rows), rtol=0.0, atol=SOLVED)
        if late:
            now, behind = -log_loss(z + rng.normal(0.0, 0.5, 4), y), float(rng.integers(0, 2 * late))
            usually = float(rng.integers(0, 2 * late))
            for one in (shares, by_hand):
                one.set_late(usually)
            shares.learn_late(gains, of_rows, now, w, behind)
            by_hand.learn_late(gains, rows, now, w, behind)
        else:
            shares.learn(gains, of_rows, w)
            by_hand.learn(gains, rows, w)


def test_the_first_late_label_changes_no_forecast():
    """Rows that are there thrice say what they said."""
    shares, rng = shares_of([0.2, 0.8], 0), np.random.default_rng(8)
    for _ in range(20):
        gains, of_rows = -log_loss(rng.normal(0.0, 2.0, 2), True), np.empty(2)
        shares.assess(gains, of_rows)
        shares.learn(gains, of_rows, 1.0)
    before, z = shares.weights(), np.array([0.3, -1.0])
    expected = shares.mean(z)
    shares.triple_rows()
    np.testing.assert_allclose(shares.weights(), before, rtol=1e-14)
    assert shares.mean(z) == pytest.approx(expected, abs=1e-14)
    assert shares.rows == 6
    with pytest.raises(ValueError, match="2 rows are not 2 and 6"):
        shares.learn(gains, of_rows, 1.0)


@pytest.mark.parametrize("late", [0.0, 1.0, 48.0, 1e5])
def test_the_learning_rate_of_a_late_label(late):
    assert late_rate(late) == pytest.approx((1.0 + late) ** -0.75, rel=1e-15)


class SwitchByHand:
    """Weights as they are."""

    def __init__(self, prior, rate, most):
        self.weights, self.rate, self.most = np.array([prior, 1.0 - prior]), rate, most

    def mean(self, z):
        p, q = self.weights @ sigmoid(np.array(z)), self.weights @ sigmoid(-np.array(z))
        return math.log(p / q)

    def learn(self, gains, w, late):
        weights = self.weights * np.exp(w * np.array(gains))
        first = (1.0 - self.rate) * min(weights[0] / weights.sum(), self.most if late else 1.0)
        self.weights = np.array([first, 1.0 - first])


@pytest.mark.parametrize("late", [0.0, 0.5, 1.0])
def test_a_switch_hands_weight_to_the_second_and_none_back(late):
    """Where this share of the labels is late."""
    switch, by_hand = Switch(0.25, 0.01, 0.85), SwitchByHand(0.25, 0.01, 0.85)
    rng = np.random.default_rng(3)
    for i in range(400):
        z, y, w = rng.normal(0.0, 1.5, 2), rng.random() < 0.4, float(rng.choice([0.3, 1.0, 2.0]))
        assert switch.weight() == pytest.approx(by_hand.weights[0], rel=1e-8)
        assert switch.mean_of(*np.exp(-z)) == pytest.approx(by_hand.mean(z), abs=SOLVED)
        gains = -log_loss(z, y) if i < 200 else -log_loss(z + np.array([0.0, 1.0]), y)
        came_late = rng.random() < late
        switch.learn(*gains, w, came_late)
        by_hand.learn(gains, w, came_late)


@pytest.mark.parametrize("w", [1.0, 1e30, 1e300])
def test_a_switch_stays_within_its_limits(w):
    """A weight of 0 is one from which nothing leads back; of outcomes of any weight."""
    for gains, weight in (((-16.0, 0.0), 0.0), ((0.0, -16.0), 0.85)):
        switch = Switch(0.25, 0.0, 0.85)
        for _ in range(200):
            switch.learn(*gains, w, True)
        assert switch.weight() == pytest.approx(weight, abs=1e-15)
        assert abs(switch.state()[0]) <= 1e300
        assert switch.mean_of(1.0, 1.0) == 0.0


def test_a_switch_remembers_how_far_it_has_gone():
    """Heavy outcomes for the second forecast are taken back by no lighter ones for the first."""
    switch = Switch(0.25, 1e-5, 0.85)
    for gains, w in (((-1.0, 0.0), 1e6), ((0.0, -1.0), 1e5), ((0.0, -1.0), 8e5)):
        switch.learn(*gains, w, False)
        assert switch.weight() == 0.0


class RestartsByHand:
    """Lines as a list of records, in the order of their places; all weights as they are."""

    def __init__(self, every, rate, back):
        self.every, self.given, self.back = every, every * rate, back
        self.weights, self.lines, self.seen, self.n = np.array([1.0]), [], [], 0

    def said(self, x, z):
        """What the forecast and the lines say at a knot."""
        return np.array([z, *(np.clip(c + theta @ [x - c, 1.0], -16.0, 16.0) for c, theta, _, _ in self.lines)])

    def mean(self, x, z):
        said = self.said(x, z)
        return math.log((self.weights @ sigmoid(said)) / (self.weights @ sigmoid(-said)))

    def learn(self, x, y, w, gains):
        self.weights = self.weights * np.exp(w * gains)
        self.weights = (1.0 - self.back) * self.weights / self.weights.sum()
        self.weights[0] += self.back
        for k, (c, theta, a, began) in enumerate(self.lines):
            phi = np.array([x - c, 1.0])
            z, v = c + theta @ phi, w * (phi @ np.linalg.solve(a, phi))
            end = brentq(lambda m, z=z, v=v: m - z - v * (y - sigmoid(m)), z - v - 1.0, z + v + 1.0, xtol=1e-13)
            p = sigmoid(end)
            theta = theta + np.linalg.solve(a, phi) * w * (y - p)
            self.lines[k] = (c, theta, a + w * p * (1.0 - p) * np.outer(phi, phi), began)
        self.n += 1
        self.seen.append(x)
        if self.n % self.every == 0:
            self.begin()

    def begin(self):
        middle, self.seen = np.mean(self.seen), []
        new = (middle - 9.0 / middle if abs(middle) > 3.0 else 0.0, np.array([1.0, 0.0]), np.diag([3.0, 6.0]), self.n)
        if len(self.lines) < 4:
            self.lines.append(new)
            self.weights = np.append(self.weights, 0.0)
            place = len(self.lines) - 1
        else:
            old = [k for k, line in enumerate(self.lines) if self.n - line[3] > 2 * self.every]
            place = min(old, key=lambda k: self.weights[1 + k])
            self.lines[place] = new
            self.weights[0] += self.weights[1 + place]
            self.weights[1 + place] = 0.0
        self.weights = (1.0 - self.given) * self.weights
        self.weights[1 + place] = self.given


def test_lines_begin_anew_at_the_score():
    """On scores near 0 and rare, weights of any size; in turn one forecast and another is right."""
    rng = np.random.default_rng(4)
    for middle in (0.0, -5.0):
        restarts, by_hand = Restarts(10, 1e-3, 1e-3), RestartsByHand(10, 1e-3, 1e-3)
        gains, heaviest = np.empty(5), 0.0
        for i in range(400):
            x, z, share = float(rng.normal(middle, 1.0)), float(rng.normal(middle, 1.0)), rng.random()
            y, w = float(rng.random() < sigmoid(x if i < 200 else -1.5 - x)), float(rng.choice([0.3, 1.0, 2.0]))
            ends = (x - share / 8.0, x + (1.0 - share) / 8.0)
            for side, knot in enumerate(ends):
                assert restarts.mean(side, knot, z) == pytest.approx(by_hand.mean(knot, z), abs=SOLVED)
            restarts.assess(share, y, gains)
            parts = zip((1.0 - share, share), ends, strict=True)
            expected = sum(-part * log_loss(by_hand.said(knot, z), y) for part, knot in parts)
            np.testing.assert_allclose(gains[: len(expected) if i >= 10 else 0], expected[: 5 if i >= 10 else 0])
            restarts.learn(x, y, w, gains)
            by_hand.learn(x, y, w, expected)
            assert restarts.weight() == pytest.approx(1.0 - by_hand.weights[0], abs=SOLVED)
            heaviest = max(heaviest, restarts.weight())
            if i % 90 == 7:
                state = restarts.state()
                restarts = Restarts(10, 1e-3, 1e-3)
                restarts.load(*state)
                assert restarts.state() == state
        assert heaviest > 0.9


@pytest.mark.parametrize("w", [1e-300, 1e3, 1e6, 1e15])
def test_lines_of_heavy_weights_stay_within_their_limits(w):
    """One score, and two labels in turn, or one; and scores and labels of all kinds."""
    rng = np.random.default_rng(8)
    for flips in (1, 10**9, 0):
        restarts, gains = Restarts(2, 1e-3, 1e-3), np.empty(5)
        for i in range(300):
            x, y = (-15.9, float(i // flips % 2)) if flips else (float(rng.normal(0.0, 2.0)), float(rng.random() < 0.4))
            ends = [restarts.mean(side, x, 0.0) for side in (0, 1)]
            assert all(abs(end) <= 16.0 for end in ends)
            restarts.assess(0.5, y, gains)
            restarts.learn(x, y, w, gains)
            _, _, base, lines = restarts.state()
            assert base + sum(line[2] for line in lines) == pytest.approx(1.0, abs=1e-12)
            for *_, slope, both, offset in lines:
                assert slope >= 3.0
                assert offset >= 6.0
                assert both * both <= slope * offset


class MixtureByHand:
    """Three mixtures by hand, with the stack and the corrections between them, and the switch to the third.

    Lines that begin anew come last; where labels are late, the forecast without and with them are mixed.

    What is assessed is kept as it was.
    """

    def __init__(self, stack, late):
        self.late = late
        self.switch, self.restarts = SwitchByHand(0.25, 0.01, 0.85), RestartsByHand(10, 1e-3, 1e-3)
        self.shares = [shares_of(prior, late, SharesByHand) for prior in PRIORS]
        self.lined = SharesByHand([1e-2], [0.5, 0.5])
        self.stack, self.corrections = stack, [CorrectionByHand(1.0, 50.0, 4.0) for _ in range(2)]

    def mixed(self, z, knot):
        """What is mixed first, second and third; the features of the stack; what the second mixture says."""
        middle = self.shares[0].mean(z)
        phi = np.concatenate(([middle], z - middle, [1.0]))
        second = np.array([middle, np.clip(self.stack.theta @ phi, -16.0, 16.0)])
        base = self.shares[1].mean(second)
        by_score, by_forecast = (
            np.interp(x, KNOTS, c.f) for x, c in zip((KNOTS[knot], base), self.corrections, strict=True)
        )
        return [z, second, np.clip([base, base + by_score, base + by_forecast], -16.0, 16.0)], phi, base

    def either(self, mixed, knot):
        """The score, and the third mixture."""
        return np.array([KNOTS[knot], self.shares[2].mean(mixed[2])])

    def last(self, mixed, knot):
        """The forecast without and with lines."""
        without = self.switch.mean(self.either(mixed, knot))
        return np.array([without, self.restarts.mean(KNOTS[knot], without)])

    def of_last(self):
        """The weights of the forecast without and with lines: the latter counts less the later labels are."""
        without, lines = self.lined.weights() * [1.0, 1.0 / (1.0 + self.late / 300.0)]
        return np.array([without, lines]) / (without + lines) if self.late else np.array([0.0, 1.0])

    def forecast(self, z, knot):
        p = self.of_last() @ sigmoid(self.last(self.mixed(z, knot)[0], knot))
        return math.log(p / (1.0 - p))

    def assess(self, left, right, knot, share, y, w):
        (mixed, phi, base), (mixed_right, phi_right, base_right) = self.mixed(left, knot), self.mixed(right, knot + 1)
        parts = ((1.0 - share, knot, mixed), (share, knot + 1, mixed_right))

        def of(said):
            return sum(-part * log_loss(said(one, at), y) for part, at, one in parts)

        gains = [of(lambda one, at, k=k: one[k]) for k in range(3)]
        rows = [shares.shares @ np.exp(gain) for shares, gain in zip(self.shares, gains, strict=True)]
        lines = of(lambda one, at: self.restarts.said(KNOTS[at], self.last(one, at)[0]))
        x, base = KNOTS[knot] + share / 8.0, base + share * (base_right - base)
        either, last = of(self.either), of(self.last)
        return x, base, phi + share * (phi_right - phi), gains, rows, either, last, lines, y, w

    def look_back(self, z, knot, y):
        """Gains of what is said now at the knot next to the score."""
        mixed, _, _ = self.mixed(z, knot)
        lines = self.restarts.said(KNOTS[knot], self.last(mixed, knot)[0])
        return [-log_loss(one, y) for one in mixed], -log_loss(lines, y)

    def learn(self, assessed, now=None):
        x, base, phi, gains, rows, either, last, lines, y, w = assessed
        for k, shares in enumerate(self.shares):
            if self.late:
                shares.learn_late(gains[k], rows[k], now[0][k], w, self.late)
            else:
                shares.learn(gains[k], rows[k], w)
        if self.late:
            self.lined.learn(last, 1.0, (1.0 + self.late) ** -0.75 * w)
        self.switch.learn(either, w, self.late > 0)
        self.restarts.learn(x, y, w, now[1] if self.late else lines)
        self.stack.learn(phi, y, w)
        for place, correction in zip((x, base), self.corrections, strict=True):
            correction.learn(place, base, y, w)

    def weights(self):
        first, second, third = (shares.weights() for shares in self.shares)
        score, rest = self.switch.weights
        lines = (1.0 - self.restarts.weights[0]) * self.of_last()[1]
        third = (1.0 - lines) * rest * third
        parts = (third[0] * second[0] * first, third[:1] * second[1:], third[1:], [(1.0 - lines) * score], [lines])
        return np.concatenate(parts)


PRIORS = ([0.2, 0.3, 0.5], [0.8, 0.2], [0.6, 0.3, 0.1])


@pytest.mark.parametrize("delay", [0, 3, 60])
def test_three_mixtures_stand_upon_each_other(delay):
    """With a delay, a second one that has learned less assesses what it said, and the first what it says now."""
    rng = np.random.default_rng(7)
    given = ([0.99] * 5, [10.0, 30.0, 30.0, 30.0, 10.0], [1.0, 0.0, 0.0, 0.0, 0.0])

    def made():
        experts, stacked, corrected = (shares_of(prior, 0) for prior in PRIORS)
        mixture = Mixture(
            experts=experts,
            stack=ForgettingRegression(range(5), *given),
            stacked=stacked,
            by_score=Correction(1.0, 50.0, 4.0, 8),
            by_forecast=Correction(1.0, 50.0, 4.0, 8),
            corrected=corrected,
            switch=Switch(0.25, 0.01, 0.85),
            restarts=Restarts(10, 1e-3, 1e-3),
            lined=FixedShare([1e-2], [0.5, 0.5]),
            knots_a_unit=8,
            late=delay,
        )
        return mixture, MixtureByHand(RegressionByHand(*given), delay)

    live = made()
    then = live if delay == 0 else made()
    late, heaviest = [], 0.0
    for _ in range(250):
        left, right = rng.normal(0.0, 2.0, (2, 3))
        knot, share = int(rng.integers(0, 256)), rng.random()
        y, w = float(rng.random() < 0.4), float(rng.choice([0.3, 1.0, 2.0]))
        for one in (live[0], then[0]):
            one.show(left, right, knot)
        assert live[0].at(0.0) == pytest.approx(live[1].forecast(left, knot), abs=SOLVED)
        assessed, by_hand = then[0].assess(share, y, w), then[1].assess(left, right, knot, share, y, w)
        now = None
        if delay:
            beside = (right, knot + 1) if share > 0.5 else (left, knot)
            assert live[0].look_back(*beside, y, assessed) == pytest.approx(live[1].forecast(*beside), abs=SOLVED)
            now = live[1].look_back(*beside, y)
        live[0].learn(assessed, delay)
        live[1].learn(by_hand, now)
        experts, *others = live[0].weights()
        np.testing.assert_allclose([*experts, *others], live[1].weights(), rtol=0.0, atol=SOLVED)
        heaviest = max(heaviest, others[-1])
        late.append((assessed, by_hand, now))
        if 0 < delay < len(late):
            assessed, *given_then = late.pop(0)
            then[0].learn(assessed, delay)
            then[1].learn(*given_then)
    assert heaviest > 0.01  # lines take part


# ---- the bound -----------------------------------------------------------------------------------------------------


def contrary(p, i, rng):
    """Always the label that was held to be less likely."""
    return p < 0.5


def turning(p, i, rng):
    """The score is right, then wrong, in turn; 40 observations each."""
    return (rng.random() < 0.9) == ((i // 40) % 2 == 0)


def persistent(p, i, rng):
    """Labels come in runs."""
    return (i // 25) % 2 == 0


def rare(p, i, rng):
    return rng.random() < 0.01


ADVERSARIES = [contrary, turning, persistent, rare]


def run_against(adversary, n, seed, heavy):
    """(loss of Auto, losses of every expert, shape (n, K)); weighted, as the bound counts them."""
    rng = np.random.default_rng(seed)
    cal, own, theirs = Auto(), 0.0, np.empty((n, len(NAMES)))
    left, right = np.empty((2, len(NAMES)))
    for i in range(n):
        score = float(rng.choice([rng.random(), 0.0, 1.0, 0.01], p=[0.9, 0.03, 0.03, 0.04]))
        w = 1.0 if heavy else float(rng.random())
        p = cal.predict_one(score)
        y = bool(adversary(p, i, rng))
        own += w * -math.log(p if y else 1.0 - p)
        steps = (log_odds(score) + 16.0) * 8.0
        knot = min(int(steps), 255)
        cal._live._panel.forecast(knot, left)
        cal._live._panel.forecast(knot + 1, right)
        share = steps - knot
        theirs[i] = w * ((1.0 - share) * log_loss(left, y) + share * log_loss(right, y))
        cal.learn_one(score, y, w)
    return own, theirs


def best_of_spells(losses, most):
    """The least Σ losses + Σ ln 1/π over all ways to cut into m spells with an expert each, for m = 1, …, most."""
    start = -np.log(np.array(PRIOR) / sum(PRIOR))
    cost = np.full((most, len(start)), np.inf)
    cost[0] = start
    for row in losses:
        for m in range(most - 1, 0, -1):
            cost[m] = np.minimum(cost[m], cost[m - 1].min() + start)
        cost = cost + row
    return cost.min(axis=1)


@pytest.mark.parametrize("heavy", [True, False], ids=["weight 1", "weights below 1"])
@pytest.mark.parametrize("adversary", ADVERSARIES, ids=lambda adversary: adversary.__name__)
def test_the_regret_bound_holds_against_every_adversary(adversary, heavy):
    n = 600 if COMPILED else 60
    own, theirs = run_against(adversary, n, 11, heavy)
    for m, best in enumerate(best_of_spells(theirs, 16), start=1):
        shares = min((m - 1) * math.log(1.0 / rate) + (n - m) * math.log(1.0 / (1.0 - rate)) for rate in RATES)
        assert own <= best + math.log(len(RATES)) + shares + above(n)


def above(n):
    """What the mixtures upon the first may cost: as the docstring has it."""
    return 2.5 + 2 * n * math.log(1.0 / (1.0 - 1e-5)) + lines(n)


def lines(n):
    """What the lines that begin anew may cost."""
    return 3.1e-5 * n


@pytest.mark.parametrize("adversary", ADVERSARIES, ids=lambda adversary: adversary.__name__)
def test_the_score_alone_is_never_far_better(adversary):
    n = 600 if COMPILED else 60
    own, theirs = run_against(adversary, n, 12, True)
    score = theirs[:, PLACES["identity"]].sum()
    assert own <= score + math.log(4.0) + 0.92 + 2 * n * math.log(1.0 / (1.0 - 1e-5)) + lines(n)


def test_calibrated_scores_lose_what_the_prior_weight_of_the_score_says():
    """ln 4 nats, or with a delay, where its weight is .85 at most, 2.5 in these 5,000 observations; seeds are fixed."""
    n = 5_000 if COMPILED else 300
    scores = sigmoid(np.random.default_rng(5).normal(0.0, 1.5, n))
    y = np.random.default_rng(6).random(n) < scores
    score = log_loss(log_odds(scores) * np.where(y, 1.0, -1.0), True).sum()
    for delay, most in ((0, math.log(4.0) + n * 1.1e-5 + lines(n)), (20, 2.5)):
        assert n * prequential_loss(Auto(delay), scores.tolist(), y.tolist(), delay) - score <= most


def test_the_bound_counts_what_the_stack_and_the_corrections_may_cost():
    """Of each mixture upon the first: the prior of what it is upon, ln 2 for the rates, and shares at the lower one."""
    priors = sum(math.log(1.0 / prior[0]) + math.log(len(RATES)) for prior in (STACK_PRIOR, CORRECTION_PRIOR))
    priors += math.log(1.0 / (1.0 - SCORE_PRIOR))
    assert (SCORE_PRIOR, LEAVING, MOST_SCORE) == (0.25, 1e-5, 0.85)
    assert priors + 2 * 999 * math.log(1.0 / (1.0 - min(RATES))) <= above(1_000) - lines(1_000) <= priors + 0.05
    assert 40 * math.log(1.0 / (1.0 - ANEW_EVERY * ANEW_RATE)) <= lines(1_000) <= 1.04 * 1_000 * ANEW_RATE
    assert ANEW_EVERY == 25


def test_sharing_is_what_the_bound_for_spells_needs():
    """Two experts, right in turn: a share rate of 1e-3 keeps the bound, with little to spare; without, it fails."""
    n, m = 1_000, 10
    z, losses = np.array([3.0, -3.0]), []
    for rate in (1e-3, 1e-300):
        shares, loss = FixedShare([rate], [0.5, 0.5]), 0.0
        for i in range(n):
            y = float((i // 100) % 2)
            loss += log_loss(shares.mean(z), y)
            gains, of_rows = -log_loss(z, y), np.empty(1)
            shares.assess(gains, of_rows)
            shares.learn(gains, of_rows, 1.0)
        losses.append(loss)
    spells = n * log_loss(3.0, 1.0) + m * math.log(2.0)
    bound = spells + (m - 1) * math.log(1e3) + (n - m) * math.log(1.0 / 0.999)
    assert bound - 10.0 < losses[0] < bound
    assert losses[1] > 2.0 * bound


# ---- the search for a period ---------------------------------------------------------------------------------------


def powers_by_hand(t, e, frequencies):
    """|Σ h·(e − ē)·exp(2πi·f·t)|² / Σ h²·(e − ē)² at the frequencies, with no cells and no fast transform."""
    h = np.sin(np.pi * (t - t.min()) / (t.max() - t.min())) ** 2 * (e - e.mean())
    return np.abs(np.exp(2j * np.pi * np.outer(frequencies, t - t.min())) @ h) ** 2 / (h @ h)


def searching(size=512, rate=1e-3, covered=()):
    return PeriodSearch(size=size, least=128, rate=rate, covered=covered, harmonics=2)


def cycle_of_errors(n, period, amplitude, seed, irregular):
    rng = np.random.default_rng(seed)
    t = 1.7e9 + np.cumsum(rng.exponential(10.0, n) if irregular else np.full(n, 10.0))
    return t, amplitude * np.sin(2.0 * np.pi * t / period) + rng.normal(0.0, 0.4, n)


@pytest.mark.parametrize("irregular", [False, True])
@pytest.mark.parametrize("period", [170.0, 480.0, 1_100.0])
def test_the_period_found_has_the_highest_power(period, irregular):
    """On a grid 16 times as fine as that of the search; the parabola through its logarithms is off by a part of it."""
    t, e = cycle_of_errors(512, period, 0.5, 5, irregular)
    search = searching()
    found = [search.add(at, error) for at, error in zip(t.tolist(), e.tolist(), strict=True)]
    assert sum(found) == 1
    span = t.max() - t.min()
    grid = np.arange(3.0 * 32, 512 / 4 * 32) / (32 * span)
    best = grid[powers_by_hand(t, e, grid).argmax()]
    assert abs(search.frequency - best) <= 0.1 / span  # half a step of the grid that is searched is .25
    assert abs(search.frequency - 1.0 / period) <= 0.3 / span


@pytest.mark.parametrize("irregular", [False, True])
def test_no_period_is_found_in_errors_that_are_independent(irregular):
    """Of 40 streams of 8 looks each, 320 looks, one in a thousand may find one: more than 3 have probability 3e-4."""
    found = 0
    for seed in range(40):
        t, e = cycle_of_errors(512, 100.0, 0.0, seed, irregular)
        search = searching()
        found += sum(search.add(at, error) for at, error in zip(t.tolist(), e.tolist(), strict=True))
    assert found <= 3


def test_no_period_is_found_that_is_covered_or_slow():
    t, e = cycle_of_errors(512, 480.0, 0.8, 6, False)
    slow = np.sin(2.0 * np.pi * t / 8_000.0) + np.random.default_rng(10).normal(0.0, 0.3, 512)
    for covered, errors in (([1.0 / 480.0], e), ([], slow)):
        search = searching(covered=covered)
        assert not any(search.add(at, error) for at, error in zip(t.tolist(), errors.tolist(), strict=True))


def test_the_place_in_a_cycle_is_followed():
    """After 8,000 observations the phase is off by less than a twentieth, from a first look at 3 to 4 cycles on."""
    t, e = cycle_of_errors(8_000, 480.0, 0.4, 7, True)
    search, places = searching(), []
    for at, error in zip(t.tolist(), e.tolist(), strict=True):
        search.add(at, error)
        places.append((search.turns_at(at) - at / 480.0) % 1.0)
    later = np.exp(2j * np.pi * np.array(places[4_000:]))
    assert np.abs(np.angle(later / later.mean())).max() < 2.0 * np.pi / 20.0


def test_a_stronger_cycle_replaces_the_one_that_was_found():
    search = searching()
    first, second = cycle_of_errors(1_000, 480.0, 0.5, 8, False), cycle_of_errors(2_000, 170.0, 0.5, 9, False)
    for at, error in zip(first[0].tolist(), first[1].tolist(), strict=True):
        search.add(at, error)
    assert search.frequency == pytest.approx(1.0 / 480.0, rel=0.01)
    for at, error in zip((second[0] + 10_000.0).tolist(), second[1].tolist(), strict=True):
        search.add(at, error)
    assert search.frequency == pytest.approx(1.0 / 170.0, rel=0.01)


@pytest.mark.parametrize("t", [[5.0], [1e308, -1e308], [0.0, 5e-324], [3.0, 2.0, 1.0, 2.0]], ids=str)
def test_times_of_which_no_period_can_be_found_or_any(t):
    """At one time, too far apart, too near; backwards and repeated: nothing breaks, and places stay in the cycle."""
    search = searching()
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(600):
            search.add(t[k % len(t)], (-1.0) ** k * (1e6 if k == 300 else 1.0))
            assert 0.0 <= search.turns_at(1e308 * (-1.0) ** k) <= 1.0
    assert math.isfinite(search.frequency)


# ---- the table of experts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delay", [0, 3])
def test_every_expert_of_the_table_has_a_place_of_its_own(delay):
    """All places are written, and with a prior on the score all forecasts begin as it, where it is not clamped."""
    panel, out = ExpertPanel(delay), np.full(len(EXPERTS), np.nan)
    panel.forecast(100, out)
    assert out[[PLACES[name] for name in ("line 1", "beta .998", "local 1, 80", "bernstein", "identity")]] == (
        pytest.approx(KNOTS[100], abs=SOLVED)
    )
    assert np.isfinite(out).all()
    assert len({expert.name for expert in EXPERTS}) == len(EXPERTS) == len(PLACES)
    assert [type(expert.kind) for expert in EXPERTS if expert.name == ANCHOR] == [Regression]


def test_features_are_where_their_names_say():
    assert list(FEATURE_PLACES.values()) == list(range(len(FEATURE_PLACES)))
    assert list(FEATURE_PLACES)[: len(FEATURES)] == list(FEATURES)
    regression = Regression(("ln s", "labels .3"), (1.0, 1.0)).made()
    phi = np.zeros(len(FEATURE_PLACES))
    phi[FEATURE_PLACES["ln s"]] = 7.0
    assert regression.predict(phi, 0.0) == 7.0  # it starts as ln s


# ---- Auto ----------------------------------------------------------------------------------------------------------


def drifting(seed, n):
    rng = np.random.default_rng(seed)
    scores = rng.random(n)
    truth = sigmoid(1.5 * log_odds(scores) + np.linspace(-2.0, 2.0, n))
    return scores.tolist(), (rng.random(n) < truth).tolist()


def test_between_knots_the_log_odds_are_linear():
    cal = Auto()
    for score, y in zip(*drifting(1, 300), strict=True):
        cal.learn_one(score, y)
    knots = log_odds(np.array([cal.predict_one(float(s)) for s in sigmoid(KNOTS[100:160])]))
    for x in np.linspace(KNOTS[100], KNOTS[159], 500):
        expected = np.interp(x, KNOTS[100:160], knots)
        assert log_odds(cal.predict_one(float(sigmoid(x)))) == pytest.approx(expected, abs=1e-9)


def test_weights_are_named_positive_and_sum_to_one():
    cal = Auto()
    before = cal.weights()
    assert list(before) == list(PARTS)
    assert before["stack"] == pytest.approx(0.75 * 0.5 * 0.1)
    assert before["corrected by score"] == before["corrected by forecast"] == pytest.approx(0.75 * 0.25)
    assert before["identity"] == pytest.approx(0.25 + 0.75 * 0.5 * 0.9 * 3.0 / sum(PRIOR))
    for score, y in zip(*drifting(2, 400), strict=True):
        cal.learn_one(score, y)
    after = cal.weights()
    assert sum(after.values()) == pytest.approx(1.0)
    assert min(after.values()) > 0.0
    assert after != before


def test_with_a_delay_the_forecasts_issued_then_are_assessed_and_not_today_s():
    """They are those of the live ensemble `delay` observations ago, to the last bit."""
    cal, live = Auto(delay=5), []
    for score, y in zip(*drifting(3, 200), strict=True):
        live.append([cal._live.at(x) for x in (-16.0, -1.01, 0.6, 16.0)])
        if len(live) > 5:
            assert [cal._then.at(x) for x in (-16.0, -1.01, 0.6, 16.0)] == live[-6]
        cal.learn_one(score, y)


def prequential_loss(cal, scores, labels, delay):
    total = 0.0
    for i, (score, y) in enumerate(zip(scores, labels, strict=True)):
        p = cal.predict_one(score)
        total -= math.log(p if y else 1.0 - p)
        if i >= delay:
            cal.learn_one(scores[i - delay], labels[i - delay])
    return total / len(scores)


@pytest.mark.skipif(not COMPILED, reason="thousands of observations")
def test_a_delay_that_is_told_costs_little_where_labels_persist():
    """Runs of 20 equal labels that the score knows nothing of: ten labels late, the last one says little."""
    rng = np.random.default_rng(8)
    labels = np.repeat(rng.random(150) < 0.5, 20).tolist()
    scores = rng.uniform(0.4, 0.6, 3_000).tolist()
    at_once, told = prequential_loss(Auto(), scores, labels, 0), prequential_loss(Auto(delay=10), scores, labels, 10)
    blind = prequential_loss(Auto(), scores, labels, 10)
    assert at_once < 0.35
    assert told < math.log(2.0) + 0.01
    assert blind > told + 0.2


@pytest.mark.parametrize("delay", [0, 4])
def test_a_saved_auto_goes_on_to_the_last_bit(delay):
    """Across a refresh of the curves; the weights are whole, so that the window's sums are exact."""
    scores, labels = drifting(4, REFRESH + 30)
    cal = Auto(delay)
    for score, y in zip(scores[:40], labels[:40], strict=True):
        cal.learn_one(score, y, 2.0)
    twin = Auto.from_state(json.loads(json.dumps(cal.state_dict())))
    for score, y in zip(scores[40:], labels[40:], strict=True):
        assert twin.predict_one(score) == cal.predict_one(score)
        for one in (cal, twin):
            one.learn_one(score, y)
    assert twin.state_dict() == cal.state_dict()
    assert twin.weights() == cal.weights()


def test_a_forecast_beside_the_same_knots_is_of_what_is_held_now():
    """Forecasts of experts at two knots are kept until something is learned. A copy has to ask for them anew."""
    cal = Auto()
    for k in range(8):
        cal.learn_one(0.3, k % 2 == 0)
        assert Auto.from_state(cal.state_dict()).predict_one(0.3) == cal.predict_one(0.3)


@pytest.mark.skipif(not COMPILED, reason="thousands of observations")
def test_it_does_no_harm_to_a_calibrated_score_of_rare_clicks():
    """.05 % of positives: 3 nats for the weight of others, 2 for the shares of 30,000 observations."""
    rng = np.random.default_rng(9)
    scores = sigmoid(rng.normal(math.log(5e-4) - 0.5, 1.0, 30_000))
    labels = (rng.random(30_000) < scores).tolist()
    auto, raw = (prequential_loss(cal, scores.tolist(), labels, 0) for cal in (Auto(), Identity()))
    assert auto < raw + 6.0 / 30_000


@pytest.mark.skipif(not COMPILED, reason="thousands of observations")
def test_it_follows_what_no_monotone_map_can():
    """A wave of the log-odds that wanders: `OnlinePlatt` sees nothing in it."""
    rng = np.random.default_rng(10)
    x = rng.uniform(-3.0, 3.0, 4_000)
    labels = (rng.random(4_000) < 0.5 + 0.45 * np.sin(2.0 * x + np.linspace(0.0, 6.0, 4_000))).tolist()
    auto, ops = (prequential_loss(cal, sigmoid(x).tolist(), labels, 0) for cal in (Auto(), OnlinePlatt()))
    assert ops > 0.65
    assert auto < 0.55


def test_any_weight_is_survived():
    """From 1e-60 to 1e60, mixed: forecasts stay probabilities, and weights a distribution."""
    cal = Auto(delay=2)
    for k, (score, y) in enumerate(zip(*drifting(5, 150), strict=True)):
        cal.learn_one(score, y, 10.0 ** (15 * (k % 9) - 60))
        assert 0.0 < cal.predict_one(score) < 1.0
        assert sum(cal.weights().values()) == pytest.approx(1.0)


def test_before_anything_is_learned_every_score_but_the_clamped_is_what_it_was():
    cal = Auto()
    for score in itertools.chain([1e-6, 0.5, 1.0 - 1e-6], np.linspace(0.01, 0.99, 50).tolist()):
        assert cal.predict_one(score) == pytest.approx(score, abs=ROUNDED)
