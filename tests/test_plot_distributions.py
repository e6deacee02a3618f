"""PIT histograms, predictive densities and forest plots: the prepared data, and that pictures show them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm, poisson

from streamcal.app.distribution_data import densities, pit_bars
from streamcal.app.plot import plot_densities, plot_effects, plot_pit
from streamcal.app.prepared import effect_limits
from streamcal.errors import InputError
from streamcal.live import Segmented
from streamcal.live.segmented import Effect
from streamcal.metrics import PITHistogram
from streamcal.regression import Normal, Sample

pytest.importorskip("matplotlib")


def histogram(n=2_000, sd=1.0, bins=10, seed=0):
    found = PITHistogram(bins)
    found.update_many(np.random.default_rng(seed).standard_normal(n), [Normal(0.0, sd)] * n)
    return found


def test_bars_are_shares_over_widths_and_the_band_is_binomial():
    held = histogram()
    bars = pit_bars(held, 0.8)
    assert bars.density.mean() == pytest.approx(1.0)
    assert bars.density.tolist() == pytest.approx((held.counts * 10 / 2_000).tolist())
    counts = np.arange(round(bars.low * 200), round(bars.high * 200) + 1)
    inside = binom.pmf(counts, 2_000, 0.1).sum()
    assert 0.8 <= inside < 0.83  # a count more at each end has .014
    with pytest.raises(InputError, match="confidence"):
        pit_bars(held, 1.0)
    with pytest.raises(InputError, match="picture of nothing"):
        pit_bars(PITHistogram())


def test_the_band_holds_the_bars_of_calibrated_forecasts_and_not_those_of_others():
    inside = []
    for seed in range(20):
        bars = pit_bars(histogram(500, seed=seed))
        inside += ((bars.density >= bars.low) & (bars.density <= bars.high)).tolist()
    assert np.mean(inside) == pytest.approx(0.92, abs=0.06)  # at least .9, of 200 dependent bars: three errors of .02
    narrow = pit_bars(histogram(sd=0.5))
    assert narrow.density[0] > narrow.high
    assert narrow.density[-1] > narrow.high
    assert narrow.density[5] < narrow.low


def test_densities_are_those_of_short_intervals():
    found = densities({"before": Normal(0.0, 1.0), "after": norm(0.5, 2.0)})
    middles = (found.edges[1:] + found.edges[:-1]) / 2.0
    for name, true in (("before", norm(0.0, 1.0)), ("after", norm(0.5, 2.0))):
        # The mean density of an interval of length h differs from that of its middle by h²/24 of the curvature.
        np.testing.assert_allclose(found.of[name], true.pdf(middles), atol=5e-4)
    assert found.edges[0] < norm(0.5, 2.0).ppf(0.002)
    assert found.edges[-1] > norm(0.5, 2.0).ppf(0.998)
    total = float(found.of["before"] @ np.diff(found.edges))
    assert total == pytest.approx(1.0, abs=1e-6)  # what is beyond four standard deviations


def test_masses_are_finite_bars_and_what_has_no_quantiles_needs_limits():
    class OnlyCdf:
        def cdf(self, t):
            return norm.cdf(t)

    assert np.isfinite(densities({"sample": Sample([1.0, 1.0, 2.0])}).of["sample"]).all()
    assert np.isfinite(densities({"counts": poisson(3.0)}).of["counts"]).all()
    assert np.isfinite(densities({"one": Sample([1.0])}).of["one"]).all()
    with pytest.raises(InputError, match="'mine' has no quantiles"):
        densities({"mine": OnlyCdf()})
    assert densities({"mine": OnlyCdf()}, (-3.0, 3.0), 6).of["mine"][2] == pytest.approx(norm.cdf(0) - norm.cdf(-1))
    for limits in ((1.0, 1.0), (2.0, 1.0), (0.0, math.inf), (math.nan, 1.0)):
        with pytest.raises(InputError, match="are no range"):
            densities({"mine": OnlyCdf()}, limits)
    with pytest.raises(InputError, match="nothing to draw"):
        densities({})


def test_effects_are_those_of_the_heaviest_levels_in_order():
    cal = Segmented("ops", by=["campaign"])
    rng = np.random.default_rng(1)
    level = rng.integers(8, size=3_000)
    cal.learn_many(np.full(3_000, 0.3), rng.random(3_000) < 0.1 + 0.05 * level, keys={"campaign": level})
    found = cal.effects("campaign")
    assert [one.n for one in found] == sorted((one.n for one in found), reverse=True)
    assert all(tuple(one)[1:] == cal.effect("campaign", one.level) for one in found)
    assert [one.level for one in cal.effects("campaign", [3, "new"])] == [3, "new"]
    assert cal.effects("campaign", ["new"])[0].mean == 0.0
    ax = plot_effects(found, most=5)
    assert [text.get_text() for text in ax.get_yticklabels()] == [str(one.level) for one in found[:5]]
    places = ax.collections[1].get_offsets()
    assert places[:, 0].tolist() == [one.mean for one in found[:5]]
    assert places[:, 1].tolist() == sorted(places[:, 1], reverse=True)  # from the top
    low, high = effect_limits(found)
    assert low < min(0.0, *(one.mean - one.sd for one in found))
    assert high > max(0.0, *(one.mean + one.sd for one in found))


def test_pictures_show_the_prepared_data():
    before, after = histogram(sd=0.5), histogram()
    ax = plot_pit({"before": before, "after": after}, title="PIT")
    np.testing.assert_array_equal(ax.patches[1].get_data().values, pit_bars(before).density)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["90% of calibrated bars", "before   distance " + f"{before.get():.3f}", labels[2]]
    ax = plot_densities({"before": Normal(0.0, 1.0)}, outcome=0.25)
    found = densities({"before": Normal(0.0, 1.0)})
    np.testing.assert_array_equal(ax.patches[0].get_data().values, found.of["before"])
    assert list(ax.lines[0].get_xdata()) == [0.25, 0.25]
    effects = [
        Effect("a long name of a campaign", 0.5, 0.1, 9.0),
        Effect(None, -0.1, 0.2, 7.0),
        Effect(("a", 1), 0.0, 0.0, 0.0),
    ]
    ax = plot_effects(effects, title="campaigns")
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a long name of a campaign", "(missing)", "a × 1"]
    assert ax.collections[1].get_offsets()[:, 0].tolist() == [0.5, -0.1, 0.0]
    for draw, nothing in ((plot_pit, {}), (plot_densities, {}), (plot_effects, [])):
        with pytest.raises(InputError, match="nothing to draw"):
            draw(nothing)
