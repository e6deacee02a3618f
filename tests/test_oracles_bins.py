"""Methods of bins and blocks against oracles: the formula in plain NumPy or exact fractions, or somebody else's code.

As in `test_oracles.py`, an oracle sees the single observations and shares no code with what it judges.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.interpolate import BSpline, PchipInterpolator
from scipy.optimize import nnls
from scipy.special import betaln
from sklearn.isotonic import isotonic_regression

from streamcal import (
    BBQ,
    AdaptiveCalibration,
    CenteredIsotonic,
    Decay,
    DummyObservations,
    FixedWidth,
    HistogramBinning,
    InputError,
    Interval,
    Isotonic,
    Logit,
    NearestScores,
    Probability,
    ScoreIntervals,
    SmoothIsotonic,
    Window,
)
from streamcal.calibrators.adaptive import window_sums

#: Sums of a hundred weights in another order, and a line or a cubic drawn through them.
FORMULA = {"rtol": 0.0, "atol": 1e-12}


def observations(rng, n, levels=None, weights="one", shape=1.0):
    """Scores in (0, 1), labels of probability score^shape, and weights."""
    s = rng.random(n) if levels is None else (rng.integers(0, levels, n) + 0.5) / levels
    y = (rng.random(n) < s**shape).astype(float)
    w = {"one": np.ones(n), "whole": rng.integers(1, 6, n).astype(float), "any": rng.uniform(0.1, 3.0, n)}[weights]
    return s, y, w


STREAMS = {
    "distinct": {},
    "ties": {"levels": 30},
    "whole weights": {"levels": 60, "weights": "whole"},
    "any weights": {"weights": "any"},
    "rare": {"shape": 6.0},
}


def blocks_by_sklearn(s, y, w):
    """(centre, value) of each block: scikit-learn's isotonic fit of the distinct scores, grouped by value."""
    distinct, group = np.unique(s, return_inverse=True)
    weight = np.bincount(group, w)
    fit = isotonic_regression(np.bincount(group, w * y) / weight, sample_weight=weight)
    points = []
    for _, members in itertools.groupby(range(len(fit)), key=lambda i: round(fit[i], 12)):
        rows = list(members)
        points.append((np.average(distinct[rows], weights=weight[rows]), fit[rows[0]]))
    return np.array(points).T


# ---- centred isotonic regression -----------------------------------------------------------------------------------


def centred_by_hand(s, y, w):
    """Knots of Oron and Flournoy's algorithm: pool adjacent violators, and equals inside (0, 1), while there are."""
    distinct, group = np.unique(s, return_inverse=True)
    weight = [Fraction(v) for v in np.bincount(group, w)]
    positive = [Fraction(v) for v in np.bincount(group, w * y)]
    points = [[Fraction(x), p / v, v] for x, p, v in zip(distinct.tolist(), positive, weight, strict=True)]
    while True:
        pairs = list(itertools.pairwise(points))
        wrong = [i for i, (a, b) in enumerate(pairs) if a[1] > b[1] or (a[1] == b[1] and 0 < a[1] < 1)]
        if not wrong:
            return [(float(x), float(value)) for x, value, _ in points]
        i = wrong[0]
        (x, p, v), (x2, p2, v2) = points[i : i + 2]
        points[i : i + 2] = [[(x * v + x2 * v2) / (v + v2), (p * v + p2 * v2) / (v + v2), v + v2]]


@pytest.mark.sample(2)
@pytest.mark.parametrize("stream", STREAMS)
def test_centred_isotonic_is_the_plain_transcription(stream):
    for seed in range(8):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(1, 120))
        s, y, w = observations(rng, n, **STREAMS[stream])
        cal = CenteredIsotonic()
        cal.learn_many(s, y, w)
        queries = np.concatenate((s, rng.random(50), [0.0, 1.0]))
        want = np.interp(queries, *np.transpose(centred_by_hand(s, y, w)))
        np.testing.assert_allclose(cal.predict_many(queries), want, **FORMULA)


def test_centred_isotonic_keeps_the_ranking_that_isotonic_ties():
    rng = np.random.default_rng(1)
    s, y, _ = observations(rng, 3_000, shape=1.5)
    cal, isotonic = CenteredIsotonic(), Isotonic()
    for one in (cal, isotonic):
        one.learn_many(s, y)
    knots, values = cal.map().knots, cal.map().values
    inside = np.unique(s[(s > knots[values == 0.0].max(initial=0.0)) & (s < knots[values == 1.0].min(initial=1.0))])
    assert len(inside) > 2_000
    assert (np.diff(cal.predict_many(inside)) > 0.0).all()
    assert np.count_nonzero(np.diff(isotonic.predict_many(inside)) == 0.0) > 1_000


def test_centred_isotonic_draws_equal_values_together_and_leaves_levels_0_and_1():
    cal = CenteredIsotonic()
    labels = [(0.1, 0), (0.2, 0), (0.4, 0), (0.4, 1), (0.5, 1), (0.5, 0), (0.8, 1), (0.9, 1)]
    cal.learn_many(*np.transpose(labels))
    assert cal.map().knots.tolist() == [0.1, 0.2, 0.45, 0.8, 0.9]
    assert cal.map().values.tolist() == [0.0, 0.0, 0.5, 1.0, 1.0]


def test_equal_values_are_equal_whatever_the_rounding():
    """A third, three ways: sums of tenths in any order round differently."""
    for order in itertools.permutations([0.1, 0.2, 0.3]):
        cal = CenteredIsotonic()
        for score, scale in ((0.2, 1.0), (0.4, 7.0), (0.6, 1 / 3)):
            for w in order:
                cal.learn_one(score, 1, w * scale)
                cal.learn_one(score, 0, 2.0 * w * scale)
        cal.learn_many([0.1, 0.9], [0, 1])
        assert len(cal.map().knots) == 3


def test_centres_of_scores_at_the_ends_of_the_floats():
    cal = CenteredIsotonic(scale=Interval())
    cal.learn_many([-1.7e308, -1e308, 5e-324, 1e308, 1.7e308], [0, 1, 0, 1, 1], [1e60, 1e60, 1e60, 1e-60, 1e-60])
    p = cal.predict_many([-1.7e308, -1.2e308, -1e307, 0.0, 1e308])
    assert np.isfinite(cal.map().knots).all()
    assert ((p >= 0.0) & (p <= 1.0)).all()
    assert (np.diff(p) >= 0.0).all()


# ---- smooth isotonic regression ------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", STREAMS)
def test_smooth_isotonic_is_scipys_curve_through_scikit_learns_blocks(stream):
    compared = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        s, y, w = observations(rng, int(rng.integers(2, 400)), **STREAMS[stream])
        centre, value = blocks_by_sklearn(s, y, w)
        if len(centre) < 2:
            continue
        cal = SmoothIsotonic()
        cal.learn_many(s, y, w)
        queries = np.concatenate((s, rng.random(200), centre, [0.0, 1.0]))
        want = PchipInterpolator(centre, value)(np.clip(queries, centre[0], centre[-1]))
        np.testing.assert_allclose(cal.predict_many(queries), want, **FORMULA)
        compared += 1
    assert compared >= 6


def test_smooth_isotonic_has_a_continuous_slope():
    rng = np.random.default_rng(5)
    s, y, _ = observations(rng, 2_000)
    cal = SmoothIsotonic()
    cal.learn_many(s, y)
    width = 1e-7
    for knot in cal.map().knots[1:-1]:
        before, at, after = cal.predict_many([knot - width, knot, knot + width])
        assert abs((after - at) - (at - before)) < 1e-3 * (after - before) + 1e-12


def test_smooth_isotonic_between_neighbouring_floats_and_far_apart():
    cal = SmoothIsotonic(scale=Interval())
    x = [-1.7e308, -1.0, np.nextafter(-1.0, 0.0), 5e-324, 1e-323, 1.7e308]
    for k, score in enumerate(x):
        cal.learn_many([score] * 10, [0] * (10 - 2 * k) + [1] * (2 * k))
    np.testing.assert_allclose(cal.predict_many(x), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0], atol=1e-12)
    between = np.sort(np.concatenate((x, 1.7e308 * np.linspace(-1.0, 1.0, 101), np.linspace(-2.0, 1.0, 101))))
    assert (np.diff(cal.predict_many(between)) >= 0.0).all()


# ---- the number of bins by BDeu -------------------------------------------------------------------------------------


def bdeu_by_hand(y, bins):
    """The log score of distinct scores in order, cut into bins as `HistogramBinning` cuts them; N′ = 2."""
    place = [math.floor(bins * (i + 0.5) / len(y) * (1.0 + 1e-10)) for i in range(len(y))]
    score = 0.0
    for b in set(place):
        labels = [label for label, at in zip(y, place, strict=True) if at == b]
        m, n, alpha = sum(labels), len(labels), 1.0 / len(set(place))
        score += betaln(m + alpha, n - m + alpha) - betaln(alpha, alpha)
    return score


@pytest.mark.sample(2)
@pytest.mark.parametrize("shape", [0.0, 1.0, 6.0])
def test_the_number_of_bins_has_the_largest_bdeu_score(shape):
    for seed in range(5):
        s, y, _ = observations(np.random.default_rng(seed), 150, shape=shape)
        cal = HistogramBinning(None, resolution=None)
        cal.learn_many(s, y)
        labels = y[np.argsort(s)]
        best = max(range(1, 31), key=lambda bins: bdeu_by_hand(labels, bins))
        fixed = HistogramBinning(best, resolution=None)
        fixed.learn_many(s, y)
        np.testing.assert_array_equal(cal.predict_many(s), fixed.predict_many(s))
    with pytest.raises(InputError, match="bins=0"):
        HistogramBinning(0)


# ---- the dummy observations of paper 003 ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "scale"),
    [
        (Isotonic, Probability()),
        (Isotonic, Interval()),
        (Isotonic, Logit(-4.0, 4.0)),
        (Isotonic, Interval(decreasing=True)),
        (CenteredIsotonic, Probability()),
    ],
)
@pytest.mark.parametrize("weight", [1.0, 2.5])
def test_dummy_observations_are_two_rows_more(method, scale, weight):
    """A positive label below all scores and a negative one above all, by scikit-learn."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        s, y, w = observations(rng, int(rng.integers(1, 60)), levels=20)
        cal = method(scale=scale, prior=DummyObservations(2.0 * weight))
        cal.learn_many(s, y, w)
        assert cal.n == w.sum()
        rising = -s if scale.decreasing else s
        order = np.argsort(rising, kind="stable")
        rows = np.concatenate(([weight], w[order], [weight]))
        distinct, group = np.unique(np.concatenate(([-9.0], rising[order], [9.0])), return_inverse=True)
        total = np.bincount(group, rows)
        labels = np.bincount(group, rows * np.concatenate(([1.0], y[order], [0.0]))) / total
        fit = isotonic_regression(labels, sample_weight=total)
        if method is Isotonic:
            want = fit[np.searchsorted(distinct, rising)]
            np.testing.assert_allclose(cal.predict_many(s), want, atol=1e-12)
        found = cal.predict_many(np.concatenate((s, [0.0, 1.0])))
        assert fit[0] - 1e-12 <= found.min() <= found.max() <= fit[-1] + 1e-12
        assert 0.0 < found.min() <= found.max() < 1.0


def test_a_window_keeps_the_dummy_observations():
    cal = Isotonic(prior=DummyObservations(), forgetting=Window(3))
    for k in range(50):
        cal.learn_one(k / 50, k % 2 == 0)
        assert 0.0 < cal.predict_one(0.0) <= cal.predict_one(1.0) < 1.0
    again = Isotonic.from_bytes(cal.to_bytes())
    assert again.prior == DummyObservations()
    assert again.predict_one(0.95) == cal.predict_one(0.95)
    with pytest.raises(InputError, match="strength=0"):
        DummyObservations(0)


# ---- monotone smoothing splines -------------------------------------------------------------------------------------


def spline_by_scipy(s, y, w, penalty, lo, hi):
    """Paper 002, eq. (13) with m = 2 and the square: nonnegative steps of SciPy's B-splines, and what is left of 1."""
    inner = np.linspace(lo, hi, 21)
    knots = np.concatenate([[lo] * 3, inner, [hi] * 3])
    basis = BSpline(knots, np.eye(23), 3)
    points, shares = np.polynomial.legendre.leggauss(3)
    half = 0.5 * (inner[1] - inner[0])
    places = (inner[:-1, None] + half * (1.0 + points)).ravel()
    bends = basis.derivative(2)(places) * np.sqrt(half * np.tile(shares, 20))[:, None]
    tails = np.tri(23)  # coefficients from their steps
    flat = np.eye(23)[1:] * 1e-5
    rows = [basis(s) * np.sqrt(w / w.sum())[:, None] @ tails, np.sqrt(penalty) * bends @ tails, flat]
    left = np.vstack([np.hstack([np.vstack(rows), np.zeros((len(s) + 60 + 22, 1))]), np.full(24, 1e3)])
    right = np.concatenate([y * np.sqrt(w / w.sum()), np.zeros(82), [1e3]])
    steps, _ = nnls(left, right, maxiter=1_000)
    return BSpline(knots, tails @ steps[:23], 3)


@pytest.mark.sample(2)
@pytest.mark.parametrize("scale", [Probability(), Interval(-1.0, 2.0)], ids=repr)
@pytest.mark.parametrize("penalty", [0.0, 1e-4, 0.01, 1.0])
def test_a_smoothing_spline_is_the_program_of_the_paper(penalty, scale):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        s, y, w = observations(rng, int(rng.integers(30, 400)))
        cal = SmoothIsotonic(penalty, scale=scale)
        cal.learn_many(s, y, w)
        curve = spline_by_scipy(s, y, w, penalty, scale.lo, scale.hi)
        np.testing.assert_allclose(cal.predict_many(s), curve(s), atol=2e-6)
        if penalty > 0.0:  # without one, the ridge alone settles what lies between the scores
            queries = rng.random(100)
            np.testing.assert_allclose(cal.predict_many(queries), curve(queries), atol=1e-5)


def test_a_large_penalty_makes_a_straight_line():
    rng = np.random.default_rng(3)
    s = rng.random(2_000)
    y = rng.random(2_000) < 0.2 + 0.5 * s**2
    cal = SmoothIsotonic(1e30)
    cal.learn_many(s, y)
    np.testing.assert_allclose(cal.predict_many(s), np.polyval(np.polyfit(s, y, 1), s), atol=1e-5)


def test_a_smoothing_spline_has_a_continuous_second_derivative():
    rng = np.random.default_rng(5)
    s, y, _ = observations(rng, 2_000)
    cal = SmoothIsotonic(1e-3)
    cal.learn_many(s, y)
    found = cal.map()
    width = np.diff(found.knots)
    rises, falls, steps = found.rises, found.falls, np.diff(found.values)
    left = (6.0 * steps - 4.0 * rises - 2.0 * falls) / width**2
    right = (2.0 * rises + 4.0 * falls - 6.0 * steps) / width**2
    np.testing.assert_allclose(right[:-1], left[1:], atol=1e-9 * np.abs(left).max())


def test_a_smoothing_spline_needs_the_ends_of_the_scale():
    with pytest.raises(InputError, match="a smoothing spline needs a bounded scale"):
        SmoothIsotonic(0.01, scale=Interval())
    with pytest.raises(InputError, match=r"penalty=-1"):
        SmoothIsotonic(-1)


# ---- adaptive calibration of predictions ---------------------------------------------------------------------------


def share(inside, y, w):
    return float(sum(Fraction(w[i]) * Fraction(y[i]) for i in inside) / sum(Fraction(w[i]) for i in inside))


def nearest_by_hand(s, y, w, query, fraction):
    """All observations within the smallest distance that holds the fraction of the weight, up to a billionth."""
    distance = [abs(Fraction(score) - Fraction(query)) for score in s]
    wanted = Fraction(fraction) * sum(map(Fraction, w)) * (1 - Fraction(1, 10**9))
    for radius in sorted(set(distance)):
        inside = [i for i in range(len(s)) if distance[i] <= radius]
        if sum(Fraction(w[i]) for i in inside) >= wanted:
            return share(inside, y, w)
    raise AssertionError("everything is within the largest distance")


def within_by_hand(s, y, w, query, low, high):
    """All observations in [low, high], or the nearest ones."""
    inside = [i for i in range(len(s)) if low <= s[i] <= high]
    if not inside:
        distance = [abs(Fraction(score) - Fraction(query)) for score in s]
        inside = [i for i in range(len(s)) if distance[i] == min(distance)]
    return share(inside, y, w)


def few(seed, n=None):
    """Scores on a lattice of 1/4 to 1/1024, whose midpoints are floats, and queries on it, between and beyond."""
    rng = np.random.default_rng(seed)
    s, y, w = observations(rng, n or int(rng.integers(1, 30)), weights="any" if seed % 2 else "whole")
    lattice = [4, 16, 1024][seed % 3]
    s = np.round(s * lattice) / lattice
    queries = np.concatenate((s, rng.random(5), (s[0] + s) / 2, [0.0, 1.0]))
    return s, y, w, queries


@pytest.mark.sample(4)
@pytest.mark.parametrize("fraction", [0.05, 0.3, 0.5, 1.0])
def test_acp_counts_the_nearest_scores(fraction):
    for seed in range(4):
        s, y, w, queries = few(seed)
        cal = AdaptiveCalibration(NearestScores(fraction), resolution=None)
        cal.learn_many(s, y, w)
        want = [nearest_by_hand(s.tolist(), y, w, query, fraction) for query in queries.tolist()]
        np.testing.assert_allclose(cal.predict_many(queries), want, **FORMULA)


@pytest.mark.sample(4)
@pytest.mark.parametrize("half_width", [0.0, 0.0625, 0.25, 2.0])
def test_acp_counts_a_fixed_width(half_width):
    for seed in range(20):
        s, y, w, queries = few(seed)
        ends = [score + side for score in s for side in (-half_width, half_width) if 0.0 <= score + side <= 1.0]
        queries = np.concatenate((queries, ends))
        cal = AdaptiveCalibration(FixedWidth(half_width), resolution=None)
        cal.learn_many(s, y, w)
        want = [within_by_hand(s.tolist(), y, w, q, q - half_width, q + half_width) for q in queries.tolist()]
        np.testing.assert_allclose(cal.predict_many(queries), want, **FORMULA)


def test_acp_counts_confidence_intervals():
    """The widest in the middle, as those of a logistic regression; linear between three scores."""
    table = ScoreIntervals((0.0, 0.5, 1.0), (-0.0625, 0.25, 0.9375), (0.0625, 0.75, 1.0625))
    for seed in range(40):
        s, y, w, queries = few(seed)
        cal = AdaptiveCalibration(table, resolution=None)
        cal.learn_many(s, y, w)
        low, high = np.interp(queries, table.scores, table.lo), np.interp(queries, table.scores, table.hi)
        want = [within_by_hand(s.tolist(), y, w, *one) for one in zip(queries.tolist(), low, high, strict=True)]
        np.testing.assert_allclose(cal.predict_many(queries), want, **FORMULA)


def test_acp_with_5_percent_of_unit_weights_is_k_nearest_neighbours():
    rng = np.random.default_rng(8)
    s, y, _ = observations(rng, 1_000)
    cal = AdaptiveCalibration(resolution=None)
    cal.learn_many(s, y)
    queries = rng.random(300)
    nearest = np.argpartition(np.abs(queries[:, None] - s), 49, axis=1)[:, :50]
    np.testing.assert_allclose(cal.predict_many(queries), y[nearest].mean(axis=1), **FORMULA)


@pytest.mark.sample(2)
@pytest.mark.parametrize("forgetting", [Window(50), Decay(half_life=40)], ids=repr)
def test_acp_that_forgets(forgetting):
    rng = np.random.default_rng(9)
    s, y, w = observations(rng, 120, levels=32, weights="any")
    cal = AdaptiveCalibration(NearestScores(0.2), resolution=None, forgetting=forgetting)
    for one in zip(s, y, w, strict=True):
        cal.learn_one(*one)
    age = np.arange(119, -1, -1)
    faded = w * 0.5 ** (age / 40) if isinstance(forgetting, Decay) else w * (age < 50)
    held = faded > 0.0
    want = [nearest_by_hand(s[held].tolist(), y[held], faded[held], q, 0.2) for q in s.tolist()]
    np.testing.assert_allclose(cal.predict_many(s), want, **FORMULA)


def test_window_sums_keep_the_digits_of_light_groups():
    values = np.array([1e60, 1e-60, 3.0, 1e60, 2e-60, 1e-60, 5.0])
    start, stop = (np.array(places, dtype=np.intp) for places in zip(*itertools.combinations(range(8), 2), strict=True))
    want = [float(sum(Fraction(v) for v in values[a:b])) for a, b in zip(start, stop, strict=True)]
    np.testing.assert_allclose(window_sums(values, start, stop), want, rtol=1e-15)


def test_scores_at_the_ends_of_the_floats_have_neighbours():
    x = [-1.7e308, 0.0, 5e-324, 1e-323, 1.7e308]
    for interval in (NearestScores(0.2), NearestScores(0.4), FixedWidth(1e-323), FixedWidth(1e308)):
        cal = AdaptiveCalibration(interval, scale=Interval(), resolution=None)
        cal.learn_many(x, [0, 1, 0, 1, 0])
        for query in x:
            if isinstance(interval, FixedWidth):
                want = within_by_hand(
                    x, [0, 1, 0, 1, 0], [1] * 5, query, query - interval.half_width, query + interval.half_width
                )
                assert cal.predict_one(query) == pytest.approx(want, abs=1e-15)
            assert 0.0 <= cal.predict_one(query) <= 1.0
        assert cal.predict_one(5e-324) == (0.0 if interval == NearestScores(0.2) else pytest.approx(2 / 3))


@pytest.mark.parametrize(
    "build",
    [
        lambda: AdaptiveCalibration(lambda score: (score - 0.1, score + 0.1)),
        lambda: NearestScores(0.0),
        lambda: NearestScores(1.5),
        lambda: NearestScores(True),
        lambda: FixedWidth(-1.0),
        lambda: FixedWidth(float("nan")),
        lambda: ScoreIntervals((0.0, 1.0), (0.0, 0.5), (0.5,)),
        lambda: ScoreIntervals((0.0, 0.0), (0.0, 0.5), (0.5, 1.0)),
        lambda: ScoreIntervals((0.0, 1.0), (0.5, 0.6), (0.7, 1.0)),
        lambda: ScoreIntervals((0.0,), (0.0,), (0.5,)),
    ],
)
def test_intervals_that_cannot_be_are_refused(build):
    with pytest.raises(InputError, match=r"give|needs"):
        build()


# ---- Bayesian binning into quantiles -------------------------------------------------------------------------------


def bbq_by_hand(s, y, w, queries, c=10.0):
    """Naeini, Cooper & Hauskrecht 2015: gamma functions, one bin at a time, no binning left out."""
    distinct, group = np.unique(s, return_inverse=True)
    weight, positive = np.bincount(group, w).tolist(), np.bincount(group, w * y).tolist()
    total, k = sum(weight), len(distinct)
    least, most = (
        max(1, math.floor(total ** (1 / 3) / c)),
        min(math.ceil(c * total ** (1 / 3)), math.ceil(total / 5), k),
    )
    scores, predictions = [], []
    for bins in range(min(least, max(most, 1)), max(most, 1) + 1):
        members, below = {}, Fraction(0)
        for i in range(k):
            place = bins * (below + Fraction(weight[i]) / 2) / Fraction(total)
            members.setdefault(math.floor(place), []).append(i)
            below += Fraction(weight[i])
        score, value = 0.0, {}
        for rows in members.values():
            low = (distinct[rows[0] - 1] + distinct[rows[0]]) / 2 if rows[0] > 0 else 0.0
            high = (distinct[rows[-1]] + distinct[rows[-1] + 1]) / 2 if rows[-1] + 1 < k else 1.0
            n, m = sum(weight[i] for i in rows), sum(positive[i] for i in rows)
            size, middle = 2.0 / bins, (low + high) / 2
            a, b = size * middle, size * (1.0 - middle)
            score += math.lgamma(size) - math.lgamma(n + size)
            score += math.lgamma(m + a) - math.lgamma(a) + math.lgamma(n - m + b) - math.lgamma(b)
            value |= dict.fromkeys(rows, (m + a) / (n + size))
        scores.append(score)
        predictions.append([value[np.abs(distinct - query).argmin()] for query in queries])
    posterior = np.exp(np.array(scores) - max(scores))
    return posterior @ np.array(predictions) / posterior.sum()


@pytest.mark.sample(4)
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("breadth", [10.0, 2.0])
def test_bbq_is_the_plain_transcription(stream, breadth):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        s, y, w = observations(rng, int(rng.integers(1, 200)), **STREAMS[stream])
        cal = BBQ(breadth, resolution=None)
        cal.learn_many(s, y, w)
        queries = np.concatenate((s[:40], rng.random(20), [0.0, 1.0]))
        # scores are sums of a hundred logarithms of size 100, and posteriors their exponentials
        np.testing.assert_allclose(
            cal.predict_many(queries), bbq_by_hand(s, y, w, queries, breadth), rtol=0.0, atol=1e-10
        )


@pytest.mark.full
def test_bbq_on_many_observations_leaves_out_what_does_not_matter():
    rng = np.random.default_rng(3)
    s, y, w = observations(rng, 4_000, levels=300, shape=2.0)
    cal = BBQ()
    cal.learn_many(s, y, w)
    exact = BBQ(resolution=None)
    exact.learn_many(s, y, w)
    queries = np.unique(s)
    np.testing.assert_allclose(exact.predict_many(queries), bbq_by_hand(s, y, w, queries), rtol=0.0, atol=1e-9)
    assert np.abs(cal.predict_many(queries) - queries**2).mean() < 0.04


def test_bbq_weighs_in_units_of_an_observation_of_today():
    """Under decay the prior counts against the weights of today, whenever that is."""
    rng = np.random.default_rng(6)
    s, y, _ = observations(rng, 300)
    cal = BBQ(resolution=None, forgetting=Decay(half_life=50))
    cal.learn_many(s, y)
    w = 0.5 ** (np.arange(299, -1, -1) / 50)
    np.testing.assert_allclose(cal.predict_many(s), bbq_by_hand(s, y, w, s), rtol=0.0, atol=1e-10)


def test_any_breadth_that_is_finite_tries_all_numbers_of_bins():
    scores, labels = np.arange(1, 9) / 10, [0, 0, 1, 0, 1, 1, 0, 1]
    largest, enough = BBQ(1.7e308, resolution=None), BBQ(1e6, resolution=None)
    for cal in (largest, enough):
        cal.learn_many(scores, labels)
    np.testing.assert_array_equal(largest.predict_many(scores), enough.predict_many(scores))


@pytest.mark.parametrize("breadth", [0.5, math.inf, math.nan, "10", True, None])
def test_a_breadth_that_cannot_be_is_refused(breadth):
    with pytest.raises(InputError, match="at least 1"):
        BBQ(breadth)
