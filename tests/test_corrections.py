"""Corrections of probabilities, on simulated truth: right on its sample, a model is right on all traffic after them."""

import numpy as np
import pytest

from streamcal import InputError, Isotonic
from streamcal.live import importance_weight, shift_prior, undo_downsampling


def population(n=400_000, seed=0):
    """Draw true probabilities of a rare event, and labels."""
    rng = np.random.default_rng(seed)
    p = 1.0 / (1.0 + np.exp(-(rng.normal(-4.0, 1.0, n))))
    return p, rng.random(n) < p, rng


def test_downsampling_is_undone_on_simulated_truth():
    p, y, rng = population()
    rate = 0.05
    kept = y | (rng.random(len(y)) < rate)
    sampled = p / (p + (1.0 - p) * rate)  # what a perfect model says of the sample
    assert y[kept].sum() == pytest.approx(sampled[kept].sum(), rel=0.02)  # 12,000 positives
    found = undo_downsampling(sampled, rate)
    assert np.allclose(found, p, rtol=1e-12, atol=0.0)  # one division after another, of numbers far from 0
    assert undo_downsampling(float(sampled[0]), rate) == pytest.approx(p[0], rel=1e-12)


def test_weights_make_a_sample_count_as_all_traffic():
    p, y, rng = population()
    kept = y | (rng.random(len(y)) < 0.05)
    cal, whole = Isotonic(resolution=64), Isotonic(resolution=64)
    weights = [importance_weight(bool(one), 0.05) for one in y[kept]]
    cal.learn_many(p[kept], y[kept], weights)
    whole.learn_many(p, y)
    assert cal.n == pytest.approx(len(y), rel=0.02)  # 20,000 negatives were kept
    for score in (0.01, 0.02, 0.05):
        assert cal.predict_one(score) == pytest.approx(whole.predict_one(score), rel=0.1)  # 3,000 labels near each


def test_another_prior_on_simulated_truth():
    """Positives are sampled to another share; a model that is right there is right after the shift."""
    p, y, rng = population()
    old = y.mean()
    kept = ~y | (rng.random(len(y)) < 0.25)
    new = y[kept].mean()
    shifted = shift_prior(p[kept], float(old), float(new))
    for low, high in ((0.0, 0.02), (0.02, 0.06), (0.06, 1.0)):
        part = (p[kept] >= low) & (p[kept] < high)
        assert abs(shifted[part].sum() - y[kept][part].sum()) < 4.0 * np.sqrt(shifted[part].sum())  # 4 deviations
        assert shifted[part].sum() < 0.4 * p[kept][part].sum()


def test_the_ends_stay_and_the_neutral_correction_is_none():
    assert undo_downsampling([0.0, 1.0], 0.01).tolist() == [0.0, 1.0]
    assert shift_prior([0.0, 1.0], 0.5, 0.01).tolist() == [0.0, 1.0]
    assert undo_downsampling(0.3, 1.0) == pytest.approx(0.3, rel=1e-15)
    assert shift_prior(0.3, 0.2, 0.2) == pytest.approx(0.3, rel=1e-15)


def test_shifting_there_and_back_is_nothing():
    p = np.linspace(0.001, 0.999, 50)
    assert np.allclose(shift_prior(shift_prior(p, 0.3, 0.01), 0.01, 0.3), p, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: undo_downsampling(1.5, 0.1),
        lambda: undo_downsampling([0.5, np.nan], 0.1),
        lambda: undo_downsampling(0.5, 0.0),
        lambda: undo_downsampling(0.5, 2.0),
        lambda: importance_weight(2, 0.1),
        lambda: importance_weight(True, 0.0),
        lambda: importance_weight(True, True),
        lambda: shift_prior(0.5, 0.0, 0.5),
        lambda: shift_prior(0.5, 0.5, 1.0),
        lambda: shift_prior(0.5, "0.5", 0.5),
    ],
)
def test_bad_input_is_refused_with_what_to_do(call):
    with pytest.raises(InputError, match=";"):
        call()
