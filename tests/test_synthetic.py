"""The generated streams are drawn from the worlds they describe, and their oracle knows those worlds."""

import math
import sys

import numpy as np
import pytest

from streamcal import InputError
from streamcal.datasets.synthetic import SETTINGS, Setting, _mean_near, _quadratics, _waves, generate
from streamcal.errors import StreamcalError

#: Deviations of a mean from its expectation that chance does not reach: once in 16,000 draws, and seeds are fixed.
CHANCE = 4.0
FAST = ["cov-1d", "lab-1d", "reg-1d", "warp", "lab-10d-0.9", "clicks-0.05"]


def draw(name, t, size=20_000, seed=5):
    setting: Setting = SETTINGS[name]
    return setting.world(np.random.default_rng(seed))(np.random.default_rng(seed + 1), np.full(size, float(t)))


def deviations(y, p):
    """How far Σ (y − p) is from 0, in standard deviations of the sum."""
    return abs((y - p).sum()) / math.sqrt((p * (1.0 - p)).sum())


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", SETTINGS)
def test_labels_are_drawn_from_the_probabilities(name):
    """In all, and among the probable and the improbable: for `lab` the formula of Bayes is thereby checked."""
    for t in (0, SETTINGS[name].steps - 1):
        drawn = draw(name, t)
        for part in (drawn.p >= 0.0, drawn.p <= np.median(drawn.p), drawn.p >= np.quantile(drawn.p, 0.9)):
            assert deviations(drawn.y[part], drawn.p[part]) < CHANCE


@pytest.mark.sample(8)
@pytest.mark.parametrize("name", FAST)
def test_oracle_and_truth_are_calibrated_and_the_oracle_is_a_function_of_the_score(name):
    stream = generate(name, 3, oracle_size=2_000)
    assert stream.scores.shape == stream.y.shape == stream.oracle.shape == stream.truth.shape
    assert len(stream.y) == SETTINGS[name].steps - SETTINGS[name].train
    assert stream.y.dtype == np.bool_
    for p in (stream.oracle, stream.truth):
        assert p.min() >= 0.0
        assert p.max() <= 1.0
        assert deviations(stream.y, p) < CHANCE
    if name in ("lab-1d", "warp"):  # the score says all of x: both are the same, up to the noise of the oracle
        assert np.abs(stream.oracle - stream.truth).mean() < 0.02
    else:
        assert np.mean((stream.truth - stream.y) ** 2) < np.mean((stream.oracle - stream.y) ** 2)
    assert np.mean((stream.oracle - stream.y) ** 2) < np.mean((stream.scores - stream.y) ** 2)


def test_the_same_seed_gives_the_same_stream_and_another_another():
    one, same, other = (generate("lab-1d", seed, oracle_size=1_000) for seed in (1, 1, 2))
    for a, b in zip(one, same, strict=True):
        assert a.tolist() == b.tolist()
    assert one.scores.tolist() != other.scores.tolist()


@pytest.mark.full
def test_a_forest_says_shares_of_its_trees():
    stream = generate("lab-10d-0.5", oracle_size=1_000)
    assert np.allclose(100.0 * stream.scores, np.round(100.0 * stream.scores), atol=1e-9)
    assert len({round(p, 9) for p in stream.scores}) > 50


def test_features_of_the_bases_and_worlds():
    x = np.array([[2.0, 3.0, 5.0]])
    assert _quadratics(x).tolist() == [[2.0, 3.0, 5.0, 4.0, 6.0, 10.0, 9.0, 15.0, 25.0]]
    assert _quadratics(np.ones((1, 10))).shape == (1, 65)
    one = 0.7
    expected = [math.sin((one + math.pi * a * b) / b) for a in np.arange(0.0, 2.0, 0.25) for b in range(1, 7)]
    np.testing.assert_allclose(_waves(np.array([[one]]))[0], expected, rtol=0.0, atol=1e-15)


def test_cov_1d_wanders_at_the_stated_pace_and_width():
    for t in (0, 3_000, 5_999):
        x = draw("cov-1d", t).x[:, 0]
        assert abs(x.mean() - t / 250.0) < CHANCE * 2.0 / math.sqrt(len(x))
        assert abs(x.var() - 4.0) < CHANCE * 4.0 * math.sqrt(2.0 / len(x))
    drawn = draw("cov-1d", 3_000)
    assert drawn.p.tolist() == [0.9 if math.floor(x / 5.0) % 2 else 0.1 for x in drawn.x[:, 0]]


def test_reg_1d_fades_to_a_half():
    assert set(np.round(draw("reg-1d", 1_000).p, 12)) == {0.1, 0.9}
    assert set(np.round(draw("reg-1d", 3_500).p, 12)) == {0.3, 0.7}
    assert abs(draw("reg-1d", 3_500).x.var() - 10.0) < CHANCE * 10.0 * math.sqrt(2.0 / 20_000)


@pytest.mark.parametrize(("name", "degrees"), [("cov-10d-180", 180.0), ("cov-10d-60", 60.0), ("cov-10d-0", 0.0)])
def test_cov_10d_turns_the_long_axis(name, degrees):
    """Check that x has variance 121 along the unit vector u, which turns evenly."""
    axes = []
    for t in (0, 6_000):
        values, vectors = np.linalg.eigh(np.cov(draw(name, t).x.T))
        assert values[-1] == pytest.approx(121.0, rel=CHANCE * math.sqrt(2.0 / 20_000))
        assert values[:-1] == pytest.approx(np.ones(9), rel=0.1)  # the spread of nine eigenvalues of 20,000 draws
        axes.append(vectors[:, -1])
    assert abs(axes[0] @ axes[1]) == pytest.approx(abs(math.cos(math.radians(degrees))), abs=5e-3)


@pytest.mark.sample(3)
@pytest.mark.parametrize(("name", "end"), [("reg-10d-90", 90.0), ("abrupt", 90.0), ("reg-10d-30", 30.0)])
def test_reg_10d_turns_the_log_odds(name, end):
    """The log-odds φ(x)·u at both ends of the stream, x being the same: at 90 degrees they share nothing."""
    first, last = (draw(name, t) for t in (0, 6_000))
    assert first.x.tolist() == last.x.tolist()
    directions = []
    for drawn in (first, last):
        known = np.abs(drawn.p - 0.5) < 0.499  # near 1, p has lost the last digits of its log-odds
        log_odds = np.log(drawn.p[known] / (1.0 - drawn.p[known]))
        directions.append(np.linalg.lstsq(_quadratics(drawn.x[known]), log_odds, rcond=None)[0])
    u0, u1 = directions
    assert np.abs(u0) == pytest.approx(np.ones(65), abs=1e-6)
    assert u0 @ u1 / 65.0 == pytest.approx(math.cos(math.radians(end)), abs=1e-6)
    assert u1 @ u1 == pytest.approx(65.0, rel=1e-6)


def test_jumps_are_where_the_settings_say():
    for name in ("abrupt", "recurring"):
        for jump in SETTINGS[name].jumps:
            before, after = (draw(name, t).p for t in (jump - 1.0, jump))
            assert np.abs(before - after).max() > 0.5
        assert draw(name, 1_000).p.tolist() == draw(name, SETTINGS[name].jumps[0] - 1.0).p.tolist()


@pytest.mark.parametrize("rate", [0.0005, 0.05])
def test_clicks_come_at_about_their_rate(rate):
    p = draw(f"clicks-{rate}", 0, size=200_000).p
    assert 0.8 * rate < p.mean() < 1.1 * rate


def test_the_mean_of_the_nearest_takes_all_ties():
    scores = np.array([0.3, 0.1, 0.2, 0.2, 0.2])
    p = np.array([1.0, 0.0, 0.3, 0.6, 0.9])
    assert _mean_near(scores, p, np.array([0.2]), 1).tolist() == pytest.approx([0.6])
    assert _mean_near(scores, p, np.array([0.0, 0.9]), 1).tolist() == pytest.approx([0.0, 1.0])
    assert _mean_near(scores, p, np.array([0.2]), 5).tolist() == pytest.approx([0.56])


def test_bad_arguments_are_refused():
    with pytest.raises(InputError, match="cov-1d"):
        generate("cov")
    for seed in (-1, 1.5, True, None):
        with pytest.raises(InputError, match="seed"):
            generate("cov-1d", seed)
    for size in (999, 2_000.0, True):
        with pytest.raises(InputError, match="oracle_size"):
            generate("cov-1d", oracle_size=size)


def test_without_scikit_learn_it_says_what_is_missing(monkeypatch):
    for module in ("sklearn", "sklearn.linear_model", "sklearn.ensemble"):
        monkeypatch.setitem(sys.modules, module, None)
    for name in ("lab-1d", "lab-10d-0.5"):
        with pytest.raises(StreamcalError, match="scikit-learn"):
            generate(name)
