"""The simulated ad clicks: the same stream again, the rate, the truth, selection by auction, delays, jumps."""

import numpy as np
import pytest

from streamcal import InputError
from streamcal.datasets import AdClicks, ad_click_chunks, ad_clicks
from streamcal.datasets.ads import DAY

N = 200_000


@pytest.fixture(scope="module")
def stream():
    return ad_clicks(N, seed=3, rate=0.02)


def test_the_same_arguments_give_the_same_stream():
    first, again, other = ad_clicks(1_000, seed=5), ad_clicks(1_000, seed=5), ad_clicks(1_000, seed=6)
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    assert (first.score != other.score).all()


def test_chunks_are_the_stream(stream):
    chunks = list(ad_click_chunks(N, seed=3, rate=0.02))
    assert len(chunks) == 200
    assert all(
        (np.concatenate(parts) == whole).all() for parts, whole in zip(zip(*chunks, strict=True), stream, strict=True)
    )


@pytest.mark.sample(2)
@pytest.mark.parametrize("n", [1, 2, 199, 201])
def test_short_streams_have_their_length(n):
    found = ad_clicks(n, seed=1)
    assert isinstance(found, AdClicks)
    assert {len(column) for column in found} == {n}


@pytest.mark.sample(3)
@pytest.mark.parametrize("rate", [0.0001, 0.005, 0.05])
def test_the_mean_of_the_truth_is_the_rate(rate):
    p = ad_clicks(N, seed=4, rate=rate).p
    # the offset is found on 20,000 other impressions: their mean has a relative standard error of about 1 %
    assert p.mean() == pytest.approx(rate, rel=0.05)


def test_clicks_follow_the_truth(stream):
    sd = np.sqrt((stream.p * (1.0 - stream.p)).sum())
    assert abs(stream.click.sum() - stream.p.sum()) < 4.0 * sd  # a chance of 6e-5
    high = stream.p > np.median(stream.p)
    assert abs(stream.click[high].sum() - stream.p[high].sum()) < 4.0 * sd


def test_delays_are_those_of_the_clicks(stream):
    assert (np.isfinite(stream.delay) == stream.click).all()
    within = (stream.delay[stream.click] <= 900.0).mean()
    true = 0.8 * (1.0 - np.exp(-1.5)) + 0.2 * (1.0 - np.exp(-900.0 / 10_800.0))
    assert within == pytest.approx(true, abs=4.0 * np.sqrt(0.25 / stream.click.sum()))


def test_times_rise_over_the_days_and_follow_the_cycle(stream):
    assert (np.diff(stream.t) >= 0.0).all()
    assert 0.0 <= stream.t[0] <= stream.t[-1] <= 7 * DAY
    early = (stream.t % DAY) < DAY / 2  # the sine is positive there: 1 ± 0.8·2/π of half the traffic
    assert early.mean() == pytest.approx(0.5 + 0.8 / np.pi, abs=0.01)


def test_the_model_is_wrong_and_jumps_when_it_is_retrained(stream):
    ratios = [stream.score[stream.version == v].sum() / stream.p[stream.version == v].sum() for v in range(5)]
    assert (np.bincount(stream.version) == N // 5).all()
    assert max(ratios) / min(ratios) > 1.1
    logit = np.log(stream.score / (1.0 - stream.score))
    truth = np.log(stream.p / (1.0 - stream.p))
    assert np.polyfit(logit, truth, 1)[0] < 0.9  # overconfident


@pytest.mark.full
def test_an_auction_selects_scores_that_are_too_high():
    alone, won = (ad_clicks(N, seed=8, rate=0.02, candidates=k, versions=1) for k in (1, 8))
    assert won.score.sum() / won.p.sum() > 1.1 * alone.score.sum() / alone.p.sum()
    assert (won.price <= won.score * 20.0).all()  # no more than the bid of some value
    assert (alone.price > 0.0).all()


def test_campaigns_are_of_very_different_size_and_are_born(stream):
    counts = np.sort(np.bincount(stream.campaign))[::-1]
    assert counts[0] > 20 * counts[100] > 0
    first, last = (set(stream.campaign[part].tolist()) for part in (slice(0, N // 10), slice(-N // 10, None)))
    assert len(last - first) > 50
    assert len(first - last) > 50


@pytest.mark.parametrize(
    "arguments",
    [
        {"n": 0},
        {"n": 1.5},
        {"seed": -1},
        {"rate": 0.5},
        {"rate": 0},
        {"days": 0.0},
        {"versions": 0},
        {"candidates": True},
    ],
)
def test_other_arguments_are_refused(arguments):
    with pytest.raises(InputError, match="not possible; give"):
        ad_clicks(**{"n": 10, **arguments})
