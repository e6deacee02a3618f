"""Methods of bins and blocks against oracles: the formula in plain NumPy or exact fractions, or somebody else's code.

As in `test_oracles.py`, an oracle sees the single observations and shares no code with what it judges.
"""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy.interpolate import PchipInterpolator
from sklearn.isotonic import isotonic_regression

from streamcal import CenteredIsotonic, Interval, Isotonic, SmoothIsotonic

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
