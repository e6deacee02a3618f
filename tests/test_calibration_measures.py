"""CORP, smooth ECE, calibration slope, normalised entropy and AUC: against scikit-learn and plain transcriptions."""

from __future__ import annotations

import math
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import brier_score_loss, log_loss, roc_auc_score

from streamcal.errors import InputError, MergeError
from streamcal.metrics import AUC, CORP, CalibrationSlope, DebiasedECE, EqualMassECE, NormalizedEntropy, SmoothECE
from streamcal.metrics.cells import calibrated_draws
from streamcal.metrics.log_loss import LOG_LOSS_CLIP
from streamcal.metrics.smooth_ece import absolute_means, cubic_shares, fixed_point

#: Plain sums of at most 1e5 terms of one sign: a relative error of 1.1e-16 each.
SUMS = 1e-11
#: One probability to a cell, so that what is computed on cells is exact.
LEVELS = np.linspace(0.01, 0.95, 60)


def stream(n=4_000, seed=2, bend=1.4, weighted=True):
    rng = np.random.default_rng(seed)
    p = rng.choice(LEVELS, n)
    return p, rng.random(n) < p**bend, rng.choice([0.5, 1.0, 2.0], n) if weighted else np.ones(n)


def filled(metric, p, y, w=None):
    metric.update_many(y, p, w)
    return metric


# -- CORP --------------------------------------------------------------------------------------------------------------

LOSSES = {
    "brier": lambda y, p, w: brier_score_loss(y, p, sample_weight=w),
    "log": lambda y, p, w: -np.average(np.log(np.maximum(np.where(y, p, 1 - p), LOG_LOSS_CLIP)), weights=w),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_corp_is_its_definition_by_scikit_learn(loss):
    p, y, w = stream()
    score = LOSSES[loss]
    fitted = IsotonicRegression().fit(p, y, w).predict(p)
    share = np.full(len(p), np.average(y, weights=w))
    s, s_c, s_r = (score(y, forecast, w) for forecast in (p, fitted, share))
    # Differences of sums of 4,000 terms, a hundredth of them in size.
    assert filled(CORP(loss), p, y, w).decomposition == pytest.approx((s, s - s_c, s_r - s_c, s_r), rel=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_corp_adds_up_and_its_parts_are_not_negative(loss):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 60))
        p = rng.choice([0.0, 1.0, *rng.random(5)], n)
        found = filled(CORP(loss), p, rng.random(n) < 0.4).decomposition
        assert min(found.miscalibration, found.discrimination) >= 0.0
        parts = found.miscalibration - found.discrimination + found.uncertainty
        if loss == "brier":  # a proper score; the clip makes the logarithm of certainties improper
            assert parts == pytest.approx(found.score, rel=SUMS, abs=1e-15)


def test_corp_of_perfect_and_of_useless_forecasts():
    y = np.arange(10) < 3
    assert filled(CORP(), y.astype(float), y).decomposition == pytest.approx((0.0, 0.0, 0.21, 0.21))
    assert filled(CORP(), np.full(10, 0.3), y).decomposition == pytest.approx((0.21, 0.0, 0.0, 0.21))


def test_the_floor_of_corp_is_what_calibrated_forecasts_exceed_once_in_twenty():
    rng, exceeded, streams = np.random.default_rng(5), 0, 300
    p = rng.choice(LEVELS, 500)
    floor = filled(CORP(), p, rng.random(500) < p).floor
    for _ in range(streams):
        exceeded += filled(CORP(), p, rng.random(500) < p).get() > floor
    # The quantile of 200 draws has a level with a standard deviation of .015; 300 streams add .013: together .02.
    assert exceeded / streams == pytest.approx(0.05, abs=3 * 0.02)


@pytest.mark.full
def test_the_bands_contain_the_fit_of_calibrated_forecasts_and_not_that_of_others():
    rng = np.random.default_rng(6)
    p = rng.choice(LEVELS, 3_000)
    inside = []
    for _ in range(40):
        data = filled(CORP(), p, rng.random(3_000) < p).reliability()
        fit = np.interp(data.places, *fitted_knots(data))
        inside.append(np.mean((fit >= data.lower) & (fit <= data.upper)))
    # Levels of 90 %, at 60 dependent places in 40 streams: a standard error of .013, by repetition.
    assert np.mean(inside) == pytest.approx(0.9, abs=0.04)
    wrong = filled(CORP(), p, rng.random(3_000) < p**2).reliability()
    fit = np.interp(wrong.places, *fitted_knots(wrong))
    assert np.mean(fit < wrong.lower) > 0.5


def fitted_knots(data):
    """Return the ends of the blocks, and the fit there."""
    knots = [(end, block.frequency) for block in data.blocks for end in (block.low, block.high)]
    return zip(*knots, strict=True)


def test_corp_reliability_holds_everything_in_order():
    p, y, w = stream()
    data = filled(CORP(), p, y, w).reliability(0.8)
    fitted = IsotonicRegression().fit(p, y, w)
    for block in data.blocks:
        held = (p >= block.low) & (p <= block.high)
        assert block.frequency == pytest.approx(np.average(y[held], weights=w[held]), rel=SUMS)
        assert block.frequency == pytest.approx(fitted.predict([block.low])[0], rel=1e-9)
        assert block.prediction == pytest.approx(np.average(p[held], weights=w[held]), rel=SUMS)
        assert block.weight == pytest.approx(w[held].sum(), rel=SUMS)
    assert all(a.high < b.low and a.frequency < b.frequency for a, b in zip(data.blocks, data.blocks[1:], strict=False))
    assert all(lower <= upper for lower, upper in zip(data.lower, data.upper, strict=True))
    assert data.places[0] == pytest.approx(p.min(), rel=SUMS)
    assert data.places[-1] == pytest.approx(p.max(), rel=SUMS)
    assert data.confidence == 0.8
    assert sum(data.weights) == pytest.approx(w.sum(), rel=SUMS)
    with pytest.raises(InputError, match="update the metric"):
        CORP().reliability()
    with pytest.raises(InputError, match="confidence"):
        filled(CORP(), p, y).reliability(90)


def test_corp_refuses_an_unknown_loss_and_another_loss():
    with pytest.raises(InputError, match="give 'brier' or 'log'"):
        CORP("hinge")
    with pytest.raises(MergeError):
        CORP().merge(CORP("log"))


def test_calibrated_draws_have_the_mean_and_the_variance_of_independent_labels():
    p, y, w = stream(2_000)
    columns = filled(CORP(), p, y, w)._columns()
    drawn = calibrated_draws(columns, 2_000)
    expected, variance = columns.weight * columns.p, columns.squared * columns.p * (1 - columns.p)
    # Five standard errors of a mean; variances of 2,000 draws have a relative error of 3 %, and the effective number of
    # some 25 observations is rounded, which is up to 2 %.
    assert np.all(np.abs(drawn.mean(axis=0) - expected) < 5 * np.sqrt(variance / 2_000))
    assert drawn.var(axis=0) == pytest.approx(variance, rel=0.2)


@pytest.mark.full
@pytest.mark.parametrize("make", [DebiasedECE, CORP, SmoothECE, CalibrationSlope])
@pytest.mark.parametrize(("of_positives", "of_negatives"), [(1.0, 20.0), (8.0, 1.0)])
def test_floors_of_right_probabilities_where_a_label_is_sampled(make, of_positives, of_negatives):
    """Weights make up for the sampling: without a regard to it, most or none are above."""
    above, streams = 0, 60
    for seed in range(streams):
        rng = np.random.default_rng(seed)
        p = rng.beta(1, 30, 10_000)
        y = rng.random(10_000) < p
        w = np.where(y, of_positives, of_negatives)
        kept = rng.random(10_000) < 1.0 / w
        measure = filled(make(), p[kept], y[kept], w[kept])
        value = abs(measure.get() - 1.0) if make is CalibrationSlope else measure.get()
        above += value > measure.floor
        floor = measure.floor
    assert above <= 0.17 * streams  # four standard errors of 0.05 in 60 streams are 0.11
    if of_negatives > 1.0:  # twice as high by Σ w² p(1 − p) and more
        assert floor < {DebiasedECE: 0.012, CORP: 0.0018, SmoothECE: 0.012, CalibrationSlope: 0.35}[make]


def test_bins_of_right_probabilities_where_negatives_are_sampled():
    covered = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        p = rng.beta(1, 30, 20_000)
        y = rng.random(20_000) < p
        kept = y | (rng.random(20_000) < 0.05)
        data = filled(DebiasedECE(), p[kept], y[kept], np.where(y[kept], 1.0, 20.0)).reliability(bins=8)
        covered += [one.lower <= one.prediction <= one.upper for one in data.bins]
        lengths = [one.upper - one.lower for one in data.bins[-2:]]
    assert 0.9 < np.mean(covered) < 0.99  # 480 intervals of 95 %
    assert max(lengths) < 0.05  # twice as long by (Σ w)²/Σ w²


# -- smooth ECE --------------------------------------------------------------------------------------------------------


def transcribed_smooth_ece(p, y, w, least=1e-3, low=0.0, high=1.0):
    """Błasiok and Nakkiran, definition of smECE: images of the Gaussian beyond both ends, and a sum over places.

    What lies outside of low to high is left out.
    """
    t = low + (high - low) * (np.arange(5_000) + 0.5) / 5_000
    p, place = np.unique(p, return_inverse=True)
    residuals = np.bincount(place, w * (y - p[place]))

    def error(sigma):
        found = np.zeros(len(t))
        for shift in range(-8, 10, 2):  # beyond four intervals a Gaussian of σ ≤ 1 is below 1e-7
            for image in (p + shift, shift - p):
                near = (image > low - 9 * sigma) & (image < high + 9 * sigma)
                found += np.exp(-0.5 * ((t[:, None] - image[near]) / sigma) ** 2) @ residuals[near]
        return np.abs(found).mean() * (high - low) / (sigma * math.sqrt(2 * math.pi)) / w.sum()

    return brentq(lambda sigma: error(sigma) - sigma, least, 1.0, rtol=1e-7)


#: What the grid of 1/8 of a bandwidth changes: see FINE.
GRID = 5e-5


@pytest.mark.sample(2)
@pytest.mark.parametrize("bend", [0.2, 0.9, 1.0, 2.0])
def test_smooth_ece_is_its_definition(bend):
    p, y, w = stream(300, bend=bend)
    assert filled(SmoothECE(), p, y, w).get() == pytest.approx(transcribed_smooth_ece(p, y, w), rel=GRID)


@pytest.mark.sample(4)
@pytest.mark.parametrize("n", [200, 20_000])
@pytest.mark.parametrize("rate", [0.001, 0.02])
def test_smooth_ece_of_click_rates_is_its_definition(rate, n):
    rng = np.random.default_rng(3)
    p = rate * rng.choice(LEVELS, n)
    y, w = rng.random(n) < p, np.ones(n)
    y[0] = True  # some positive
    found = filled(SmoothECE(), p, y, w).get()
    defined = transcribed_smooth_ece(p, y, w, least=1e-6, high=min(rate + 9 * found, 1.0))
    assert found == pytest.approx(defined, rel=GRID)


def test_smooth_ece_of_places_far_apart_is_its_definition():
    rng = np.random.default_rng(4)
    p = rng.choice([0.0, 1e-4, 0.2, 0.2001, 0.9, 1.0], 90_000, p=[0.2, 0.3, 0.1, 0.1, 0.1, 0.2])
    y, w = rng.random(len(p)) < p, np.ones(len(p))
    found = filled(SmoothECE(), p, y, w).get()
    assert found < 0.02  # 12 σ are less than the distance of the places
    assert found == pytest.approx(transcribed_smooth_ece(p, y, w), rel=GRID)


def test_smooth_ece_at_the_ends():
    assert filled(SmoothECE(), [1.0] * 3, [False] * 3).get() == pytest.approx(1.0, rel=GRID)
    assert filled(SmoothECE(), [0.0, 1.0], [False, True]).get() == 0.0
    assert filled(SmoothECE(), [0.0, 1.0], [False, True]).floor == 0.0
    # The largest residual is 1e-9, and the narrowest bandwidth 3e-5.
    assert filled(SmoothECE(), [1e-9, 1.0 - 1e-9], [False, True]).get() == pytest.approx(1e-9, rel=GRID)
    # A gap of .2 at one place is .2 under any kernel.
    assert filled(SmoothECE(), [0.3] * 10, [True] * 5 + [False] * 5).get() == pytest.approx(0.2, rel=GRID)


@pytest.mark.parametrize("k", [1, 2, 3, 5, 8])
def test_the_mean_of_an_absolute_value_is_exact_at_kinks(k):
    t = np.arange(33) / 32
    found = absolute_means(np.array([np.cos(math.pi * k * t), -3.0 * np.cos(math.pi * k * t)]))
    # The slope at a kink, from two points a step apart, has a relative error of step²/6; the kink is step²/12 of a half
    # period, and the next term of Euler and Maclaurin is step⁴/720.
    step = math.pi * k / 32
    assert found == pytest.approx([2.0 / math.pi, 6.0 / math.pi], rel=step**4 * (1 / 72 + 1 / 720))
    assert absolute_means(np.zeros((2, 9))).tolist() == [0.0, 0.0]


def test_cubics_are_kept_by_their_shares():
    places = np.array([0.0, 0.3, 1.0, 6.7, 8.0])
    left, shares = cubic_shares(places, 8)
    for power in range(4):
        sums = sum(share * (left + shift - 1.0) ** power for shift, share in enumerate(shares))
        assert sums == pytest.approx(places**power, rel=1e-13, abs=1e-13)  # sums of four products


@given(st.floats(1e-9, 1.0), st.floats(0.0, 0.9), st.floats(1e-12, 1.0))
def test_a_fixed_point_is_found_from_any_start(c, power, start):
    found = fixed_point(lambda sigma: c * sigma**-power, start, np.array([0.0, 1e-6]), 1e-6)
    assert found == pytest.approx(min(c ** (1.0 / (1.0 + power)), 1.0), rel=1e-6)  # the tolerance


def test_a_function_below_the_narrowest_bandwidth_is_returned_there():
    assert fixed_point(lambda _: 0.0, 0.5, np.array([0.0, 1.0]), 1e-6) == 0.0
    assert fixed_point(lambda _: 1e-7, 0.5, np.array([0.0, 1.0]), 1e-6) == 1e-7


@pytest.mark.parametrize("p", [[0.2] * 1_000, [0.2, 0.2 + 1e-9] * 500, [0.2, 0.2001] * 500, [0.3], [0.01] * 1_000])
def test_the_floor_of_smooth_ece_in_one_place(p):
    """There smECE_σ is |Σ residuals|/n for every σ that is narrow beside [0, 1]: its quantile for binomial labels."""
    n, mean = len(p), float(np.mean(p))
    deviations = np.abs(np.random.default_rng(0).binomial(n, mean, 100_000) - n * mean) / n
    found = filled(SmoothECE(), p, [True] * n).floor
    below, above = (float((deviations < found * factor).mean()) for factor in (1.0 - 1e-9, 1.0 + 1e-9))
    # The quantile of 100 draws, that of some 90 to 99 % of all, which have few values.
    assert below <= 0.99
    assert above >= 0.90


@pytest.mark.full
def test_the_floor_of_smooth_ece_is_what_calibrated_forecasts_exceed_once_in_twenty():
    rng, exceeded, streams = np.random.default_rng(7), 0, 200
    p = rng.choice(LEVELS, 400)
    floor = filled(SmoothECE(), p, rng.random(400) < p).floor
    for _ in range(streams):
        exceeded += filled(SmoothECE(), p, rng.random(400) < p).get() > floor
    # The quantile of 100 draws has a level with a standard deviation of .022; 200 streams add .015: together .027.
    assert exceeded / streams == pytest.approx(0.05, abs=3 * 0.027)


# -- slope and intercept -----------------------------------------------------------------------------------------------


def test_slope_and_intercept_are_the_maximum_of_the_likelihood():
    p, y, w = stream()
    x = np.log(p / (1 - p))

    def loss(line):
        return np.sum(w * (np.logaddexp(0.0, line[0] + line[1] * x) - y * (line[0] + line[1] * x))) / w.sum()

    found = filled(CalibrationSlope(), p, y, w)
    reference = minimize(loss, (0.0, 1.0), tol=1e-12).x
    # BFGS stops at gradients of 1e-8 or so, by differences of the loss.
    assert found.fit == pytest.approx(tuple(reference), abs=1e-5)
    assert found.get() == found.fit.slope
    one = minimize(lambda a: loss((a[0], 1.0)), (0.0,), tol=1e-12).x[0]
    assert found.in_the_large == pytest.approx(one, abs=1e-5)


def test_the_floor_of_the_slope_is_what_calibrated_forecasts_exceed_once_in_twenty():
    rng, exceeded, streams = np.random.default_rng(8), 0, 200
    p, w = rng.choice(LEVELS, 1_000), rng.choice([0.5, 1.0, 3.0], 1_000)
    floor = filled(CalibrationSlope(), p, rng.random(1_000) < p, w).floor
    for _ in range(streams):
        exceeded += abs(filled(CalibrationSlope(), p, rng.random(1_000) < p, w).get() - 1.0) > floor
    # Three standard errors of 200 streams.
    assert exceeded / streams == pytest.approx(0.05, abs=3 * math.sqrt(0.05 * 0.95 / streams))


def test_slopes_that_do_not_exist():
    assert filled(CalibrationSlope(), [0.2, 0.4], [False, False]).get() is None
    assert filled(CalibrationSlope(), [0.2, 0.4], [False, False]).in_the_large is None
    assert filled(CalibrationSlope(), [0.2, 0.2], [False, True]).get() is None
    assert filled(CalibrationSlope(), [0.2, 0.4], [False, True]).get() == math.inf
    assert filled(CalibrationSlope(), [0.2, 0.4], [True, False]).get() == -math.inf
    assert filled(CalibrationSlope(), [0.2, 0.4, 0.4, 0.5], [False, True, False, True]).get() == math.inf
    certain = filled(CalibrationSlope(), [0.0, 1.0, 0.0, 1.0] * 5, [False, True, True, False] * 5)
    assert certain.get() == pytest.approx(0.0, abs=1e-9)  # by symmetry, and the tolerance of the solver


# -- normalised entropy and AUC ----------------------------------------------------------------------------------------


def test_normalised_entropy_is_relative_to_the_share():
    p, y, w = stream()
    share = np.average(y, weights=w)
    wanted = log_loss(y, p, sample_weight=w) / log_loss(y, np.full(len(y), share), sample_weight=w)
    assert filled(NormalizedEntropy(), p, y, w).get() == pytest.approx(wanted, rel=SUMS)
    assert filled(NormalizedEntropy(), [0.5], [True]).get() is None


def test_auc_is_that_of_scikit_learn():
    p, y, w = stream()
    found = filled(AUC(), p, y, w)
    assert found.get() == pytest.approx(roc_auc_score(y, p, sample_weight=w), rel=SUMS)
    assert found.error_bound == 0.0
    assert filled(AUC(), [0.5], [True]).get() is None


def test_auc_is_within_its_own_bound_of_the_exact_one():
    rng = np.random.default_rng(3)
    for scale in (1.0, 1e-2):
        p = np.clip(0.3 + scale * (rng.random(20_000) - 0.5), 0.0, 1.0)
        y = rng.random(20_000) < np.clip(0.5 + (p - 0.3) / scale / 3.0, 0.0, 1.0)
        found = filled(AUC(), p, y)
        assert abs(found.get() - roc_auc_score(y, p)) <= found.error_bound + SUMS
        assert found.error_bound < 0.02  # worth something: .01 is 20 cells


# -- what they share with all measures ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mirrored", [False, True])
def test_scores_beyond_the_fine_cells_are_ranked(mirrored: bool) -> None:
    """Naive Bayes has scores such as 1e-200: in one cell for all of them the area was ½."""
    rng = np.random.default_rng(3)
    z = rng.uniform(-36.0, -24.0, 5_000) if mirrored else rng.uniform(-700.0, -24.0, 5_000)
    y = rng.random(5_000) < 1.0 / (1.0 + np.exp(-(z - z.mean()) / z.std()))
    p = np.exp(z)
    if mirrored:
        p, y = 1.0 - p, ~y
    found, exact = filled(AUC(), p, y), roc_auc_score(y, p)
    assert exact > 0.7
    assert abs(found.get() - exact) <= found.error_bound + 1e-12
    assert found.error_bound < 0.012  # 48 cells of ¼: half of the pairs in one of them
    whole = filled(EqualMassECE(), p, y)
    assert whole.reliability().n == 5_000.0


MAKES = {"corp": CORP, "log corp": lambda: CORP("log"), "smooth": SmoothECE, "slope": CalibrationSlope, "auc": AUC}


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_floors_and_parts_do_not_change_what_is_held(make):
    metric = filled(make(), *stream(200))  # so few that nothing waits to be added up
    before = pickle.dumps(metric)
    for name in ("value", "floor", "decomposition", "fit", "in_the_large", "error_bound"):
        getattr(metric, name, None)
    assert pickle.dumps(metric) == before


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
def test_floors_of_nothing(make):
    metric = make()
    assert getattr(metric, "floor", None) is None
    assert metric.get() is None


def test_the_page_says_what_its_code_prints(capsys):
    page = (Path(__file__).parents[1] / "docs" / "measures.md").read_text(encoding="utf-8")
    code, of_river, *_ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(compile(of_river, "measures.md", "exec"), {})
    assert re.fullmatch(r"0\.\d{4}, floor 0\.\d{4}\n", capsys.readouterr().out)
    exec(compile(code, "measures.md", "exec"), {})
    printed = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert printed == [line.removeprefix("# ") for line in code.splitlines() if line.startswith("# ")]
