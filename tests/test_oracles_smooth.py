"""The smooth one-score methods against implementations someone else wrote, or their formulas in plain NumPy."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from streamcal import Decay, Gaussian, Interval, Logit, Prior, Window
from streamcal.statistics.label_moments import KEPT_BITS, LabelMoments


def normals(seed, n, gap=2.0, share=0.3):
    """Margins of two normal classes of variance 1, their labels and any weights."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < share).astype(float)
    return rng.normal(gap * y, 1.0), y, rng.uniform(0.1, 3.0, n)


# ---- Gaussian ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [0.0, 1e6])
@pytest.mark.parametrize(("n", "gap"), [(12, 1.0), (50, 0.5), (3_000, 2.0)])
def test_gaussian_is_linear_discriminant_analysis(n, gap, shift):
    x, y, _ = normals(n, n, gap)
    x += shift
    theirs = LinearDiscriminantAnalysis(solver="lsqr").fit(x[:, None], y)  # its "svd" divides by N − 2, not by N
    ours = Gaussian(scale=Interval())
    ours.learn_many(x, y)
    # theirs is given 1e6 with nine digits after the point, and squares it
    np.testing.assert_allclose(
        ours.predict_many(x), theirs.predict_proba(x[:, None])[:, 1], atol=1e-12 if shift == 0.0 else 1e-5
    )


def rational_slope(x, y, w, within):
    """(μ₁ − μ₀)/σ² in rational arithmetic, and the two means."""
    x, y, w = ([Fraction(v) for v in column] for column in (x, y, w))
    total = sum(w)
    means = []
    for label in (0, 1):
        weight = sum(b for b, c in zip(w, y, strict=True) if c == label)
        means.append(sum(a * b for a, b, c in zip(x, w, y, strict=True) if c == label) / weight)
    if within:
        variance = sum(b * (a - means[int(c)]) ** 2 for a, b, c in zip(x, w, y, strict=True)) / total
    else:
        mean = sum(a * b for a, b in zip(x, w, strict=True)) / total
        variance = sum(b * (a - mean) ** 2 for a, b in zip(x, w, strict=True)) / (total - 1)
    return (means[1] - means[0]) / variance, means


@pytest.mark.parametrize("variance", ["within", "total"])
@pytest.mark.parametrize("scale", [1e-150, 1e-5, 1.0, 1e5, 1e150])
def test_gaussian_is_its_formula(variance, scale):
    """In rational arithmetic, for weights of any size, after retraction of observations that outweigh the rest."""
    x, y, w = normals(3, 60)
    x = (x + 7.0) * scale
    cal = Gaussian(variance, scale=Interval())
    for i in range(60):
        cal.learn_one(x[i], y[i], w[i])
        cal.learn_one(-1e155 * x[i] / scale, 1 - y[i], 1e40)
    for i in range(60):
        cal.unlearn_one(-1e155 * x[i] / scale, 1 - y[i], 1e40)
    slope, means = rational_slope(x, y, w, variance == "within")
    if means[1] - means[0] <= Fraction(1e-9):  # told to be equal
        slope = 0
    assert cal.map().slope == pytest.approx(float(slope), rel=1e-14)
    middle = float(sum(means) / 2)
    odds = math.log(w[y == 1.0].sum() / w[y == 0.0].sum())
    assert cal.map().slope * middle + cal.map().offset == pytest.approx(odds, abs=1e-9)


def test_gaussian_as_printed_is_too_flat():
    """On two normal classes two deviations apart the slope is 2; eq. (6) as printed gives 2 / (1 + 2²·¼) and less."""
    x, y, _ = normals(1, 100_000, 2.0, share=0.3)
    slopes = []
    for variance in ("within", "total"):
        cal = Gaussian(variance, scale=Interval())
        cal.learn_many(x, y)
        slopes.append(cal.map().slope)
    assert slopes[0] == pytest.approx(2.0, abs=0.03)
    assert slopes[1] == pytest.approx(2.0 / (1.0 + 0.3 * 0.7 * 4.0), abs=0.03)


def test_gaussian_at_its_limits():
    """One label; means in the wrong order, equal, or equal but for rounding; no variance; less weight than one."""

    def gaussian(observations, **params):
        cal = Gaussian(scale=Interval(), **params)
        for observation in observations:
            cal.learn_one(*observation)
        return cal

    one_label = gaussian([(1.0, 1), (2.0, 1)])
    assert one_label.predict_one(0.7) == pytest.approx(1.0 / (1.0 + math.exp(-0.7)))
    for falling in ([(2.0, 0), (1.0, 1), (1.5, 1)], [(1.0, 0), (1.0, 1), (1.0, 1)], [(1.0, 0), (1 + 1e-12, 1, 2.0)]):
        assert gaussian(falling).predict_many([-9.0, 9.0]).tolist() == pytest.approx([2 / 3, 2 / 3])
    steep = gaussian([(1.0, 0), (3.0, 1)])
    np.testing.assert_allclose(
        steep.predict_many([1.0, 2.0, 3.0]), [1 / (1 + math.exp(16.0)), 0.5, 1 / (1 + math.exp(-16.0))]
    )
    light = gaussian([(1.0, 0, 0.4), (1.5, 0, 0.2), (3.0, 1, 0.3)], variance="total")
    assert light.predict_many([-9.0, 9.0]).tolist() == pytest.approx([1 / 3, 1 / 3])


@pytest.mark.parametrize("forgetting", [Window(200), Decay(half_life=77.7)], ids=repr)
@pytest.mark.parametrize("prior", [None, Prior(5.0)])
def test_gaussian_that_forgets_is_its_formula(forgetting, prior):
    x, y, w = normals(5, 3_000)
    s = 1.0 / (1.0 + np.exp(-x))
    cal = Gaussian(forgetting=forgetting, prior=prior)
    for one in zip(s, y, w, strict=True):
        cal.learn_one(*one)
    if isinstance(forgetting, Window):
        held = [column[-200:] for column in (s, y, w)]
        faded = 1.0
    else:
        held = [s, y, w * 0.5 ** (np.arange(3_000)[::-1] / 77.7)]
        faded = 0.5 ** (3_000 / 77.7)
    z, labels, weights = (np.asarray(column) for column in held)
    z = np.log(z) - np.log1p(-z)
    if prior is not None:
        seed = prior.seed(Logit())
        z = np.concatenate((z, seed.x, seed.x))
        labels = np.concatenate((labels, np.zeros(64), np.ones(64)))
        weights = np.concatenate((weights, seed.w * (1 - seed.y) * faded, seed.w * seed.y * faded))
    slope, _ = rational_slope(z, labels, weights, within=True)
    assert cal.map().slope == pytest.approx(float(slope), rel=1e-10)
    assert cal.n == pytest.approx(math.fsum(held[2]), rel=1e-9)


numbers = st.floats(-1e150, 1e150) | st.sampled_from([0.0, 5e-324, 1e-300, 0.1, 1.0])


@given(st.lists(st.tuples(numbers, st.sampled_from([0.0, 1.0, 0.3]), st.floats(1e-60, 1e60)), max_size=12), st.data())
def test_label_moments_hold_the_same_bits_in_any_order(observations, data):
    one, other, part = LabelMoments(), LabelMoments(), LabelMoments()
    for observation in observations:
        one.update(*observation)
    shuffled = data.draw(st.permutations(observations))
    for observation in shuffled[:5]:
        other.update(*observation)
    for observation in shuffled[5:]:
        part.update(*observation)
    other.merge(part)
    for statistic in (one, other):
        statistic.update(0.25, 1.0, 1.0)
        statistic.update(-0.5, 0.0, 1.0)
    assert one.means() == other.means()
    assert one.gap_by_variance(within=True) == other.gap_by_variance(within=True)
    for observation in data.draw(st.permutations(observations)):
        other.revert(*observation)
    assert other.means() == (-0.5, 0.25)
    assert other.weights() == (1.0, 1.0)


def test_label_moments_stay_small_under_decay():
    statistic = LabelMoments()
    for k in range(2_000):
        statistic.update(0.1 * (k % 7), float(k % 2), 0.3)
        statistic.decay(0.9)
    assert all(weight.bit_length() <= KEPT_BITS for weight, _, _ in statistic._sums)
    expected = sum(Fraction(0.3) * Fraction(0.9) ** k for k in range(1, 2_001))
    assert statistic.n == pytest.approx(float(expected), rel=1e-15)
