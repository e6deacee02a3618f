"""Simulated ad clicks with known truth: campaigns come and go, auctions select, a model jumps, clicks come late."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from streamcal.kernels.common.logistic import sigmoids
from streamcal.parameters.numbers import real_number, whole_number
from streamcal.parameters.types import FloatArray

DAY = 86_400.0
CAMPAIGNS, ADVERTISERS, PLACEMENTS = 1_000, 150, 40
#: The k-th campaign of a list has a share in proportion to k^−1.05 of the requests that it bids for.
ZIPF = 1.05
#: The number of parts of the stream; the same campaigns are alive throughout a part.
PARTS = 200
#: Impressions from which the offset is found that gives the rate.
PILOT = 20_000
#: Standard deviations of the effects of the log-odds: user, advertiser, campaign, placement, campaign at placement.
USER, ADVERTISER, CAMPAIGN, PLACEMENT, PAIR = 0.9, 0.5, 0.5, 0.4, 0.3
#: The model's overconfidence: the factor by which its log-odds are too far from their mean.
SLOPE = 1.25
#: The rate over the day, in log-odds, and the traffic: from 0.2 to 1.8 times its mean.
SEASON, TRAFFIC = 0.3, 0.8
#: Of the delays of clicks, this share is exponential with a mean of 10 minutes, the others of 3 hours.
QUICK, QUICK_MEAN, SLOW_MEAN = 0.8, 600.0, 10_800.0

Integers = NDArray[np.int64]


class AdClicks(NamedTuple):
    """Impressions in the order of time; all of shape (n,).

    Attributes
    ----------
    t : ndarray
        Seconds since the start.
    score : ndarray
        The click probability of the model, which is not calibrated.
    p : ndarray
        The true click probability.
    click : ndarray of bool
        Whether the impression was clicked, however late.
    delay : ndarray
        Seconds until the click; infinite without one.
    campaign, advertiser, placement : ndarray of int
        Keys of the impression.
    version : ndarray of int
        The version of the model, from 0.
    price : ndarray
        What the impression cost, in units of the median value of a click.
    """

    t: FloatArray
    score: FloatArray
    p: FloatArray
    click: NDArray[np.bool_]
    delay: FloatArray
    campaign: Integers
    advertiser: Integers
    placement: Integers
    version: Integers
    price: FloatArray


def ad_clicks(
    n: int, seed: int = 0, *, rate: float = 0.005, days: float = 7.0, versions: int = 5, candidates: int = 4
) -> AdClicks:
    """Generate a stream of n impressions; the same arguments give the same stream.

    Requests come with the time of the day, at placements of very different traffic. For each of them `candidates`
    campaigns bid their value of a click times the score; the highest bid is shown and pays the second. The stream
    contains the impressions that were *won*, whose scores are too high on average even where those of all candidates
    are right. Campaigns are born and end, and their traffic follows Zipf's law. The model is overconfident, knows users
    with noise and campaigns only in part, those born after its last training not at all, and jumps when it is
    retrained.

    Parameters
    ----------
    n : int
        Number of impressions, at least 1.
    seed : int
        Seed ≥ 0 of the random numbers.
    rate : float
        The mean of `p`, from 0.0001 to 0.05.
    days : float
        The length of the stream; traffic and rate have a daily cycle.
    versions : int
        The number of versions of the model, each of the same number of impressions.
    candidates : int
        Bidders in each auction; with 1 there is no selection.

    Returns
    -------
    AdClicks

    Notes
    -----
    Cost: O(n), and 80 bytes for each impression; `ad_click_chunks` needs memory for a part at a time.

    Examples
    --------
    >>> stream = ad_clicks(100_000, seed=1)
    >>> bool((np.diff(stream.t) >= 0.0).all()), 0.004 < float(stream.p.mean()) < 0.006
    (True, True)
    """
    chunks = ad_click_chunks(n, seed, rate=rate, days=days, versions=versions, candidates=candidates)
    return AdClicks(*map(np.concatenate, zip(*chunks, strict=True)))


def ad_click_chunks(
    n: int, seed: int = 0, *, rate: float = 0.005, days: float = 7.0, versions: int = 5, candidates: int = 4
) -> Iterator[AdClicks]:
    """Generate the same stream as `ad_clicks` in up to 200 consecutive parts.

    Raises
    ------
    InputError
        For other arguments than those of `ad_clicks`, at the first part.

    Examples
    --------
    >>> sum(len(chunk.t) for chunk in ad_click_chunks(1_000, seed=1))
    1000
    """
    n, seed = whole_number(n, "n", 1), whole_number(seed, "seed", 0)
    versions, candidates = whole_number(versions, "versions", 1), whole_number(candidates, "candidates", 1)
    rate = real_number(rate, "rate", "a number from 0.0001 to 0.05", least=1e-4, most=0.05)
    days = real_number(days, "days", "a number above 0, up to 10000", above=0.0, most=10_000.0)
    world = _World(seed, days * DAY, versions, candidates)
    world.set_rate(rate)
    ends = np.linspace(0, n, min(PARTS, n) + 1).astype(np.int64)
    for part in range(len(ends) - 1):
        yield world.draw(np.random.default_rng([seed, 1, part]), int(ends[part]), int(ends[part + 1]), n)


class _World:
    """Campaigns, placements and the versions of the model."""

    def __init__(self, seed: int, span: float, versions: int, candidates: int) -> None:
        rng = np.random.default_rng([seed, 0])
        self.span, self.versions, self.candidates = span, versions, candidates
        self.share = rng.permutation(1.0 / np.arange(1, CAMPAIGNS + 1) ** ZIPF)
        self.birth = np.where(rng.random(CAMPAIGNS) < 0.3, 0.0, rng.random(CAMPAIGNS) * 0.95)
        self.death = self.birth + 0.05 + rng.exponential(0.5, CAMPAIGNS)
        self.advertiser = rng.integers(0, ADVERTISERS, CAMPAIGNS)
        advertisers = rng.normal(0.0, ADVERTISER, ADVERTISERS)
        self.campaign = advertisers[self.advertiser] + rng.normal(0.0, CAMPAIGN, CAMPAIGNS)
        self.value = rng.lognormal(0.0, 0.5, CAMPAIGNS)
        self.traffic = 1.0 / np.arange(1, PLACEMENTS + 1)
        self.placement = rng.normal(0.0, PLACEMENT, PLACEMENTS)
        self.pair = rng.normal(0.0, PAIR, (CAMPAIGNS, PLACEMENTS))
        known = self.birth <= (np.arange(versions) / versions)[:, None]  # at the training of each version
        noise = rng.normal(0.0, 0.25, (versions, CAMPAIGNS))
        self.known_campaign = np.where(known, 0.6 * self.campaign + noise, 0.0)
        self.known_placement = 0.7 * self.placement + rng.normal(0.0, 0.15, (versions, PLACEMENTS))
        self.jump = rng.normal(0.0, 0.15, versions)
        self.offset = 0.0
        grid = np.linspace(0.0, span, 2_001)
        intensity = 1.0 + TRAFFIC * np.sin(2.0 * np.pi * grid / DAY)
        done = np.concatenate(([0.0], np.cumsum(intensity[1:] + intensity[:-1])))
        self._clock = done / done[-1], grid
        self.seed = seed

    def set_rate(self, rate: float) -> None:
        """Find the offset for which the mean true probability of won impressions is the rate, by bisection."""
        self.offset = math.log(rate / (1.0 - rate))
        pilot = [
            self.draw(np.random.default_rng([self.seed, 2, part]), part * 1_000, (part + 1) * 1_000, PILOT)
            for part in range(PILOT // 1_000)
        ]
        p = np.concatenate([one.p for one in pilot])
        z, low, high = np.log(p / (1.0 - p)), -20.0, 20.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if sigmoids(z + middle).mean() > rate else (middle, high)
        self.offset += low

    def draw(self, rng: np.random.Generator, start: int, stop: int, n: int) -> AdClicks:
        """Draw impressions number `start` to `stop` of n."""
        size, k = stop - start, self.candidates
        done = np.sort((start + size * rng.random(size)) / n)
        t = np.interp(done, *self._clock)
        alive = self.share * ((self.birth <= start / n) & (self.death > start / n))
        campaign = rng.choice(CAMPAIGNS, (size, k), p=alive / alive.sum())
        placement = rng.choice(PLACEMENTS, size, p=self.traffic / self.traffic.sum())
        version = np.minimum((np.arange(start, stop) * self.versions) // n, self.versions - 1)
        user = rng.normal(0.0, 1.0, (size, k))
        season = SEASON * np.sin(2.0 * np.pi * t / DAY)
        effects = self.campaign[campaign] + self.pair[campaign, placement[:, None]] + USER * user
        z = self.offset + effects + (self.placement[placement] + season)[:, None]
        score = self._scores(rng, campaign, placement, version, user)
        # the highest bid is shown; of one candidate it pays its own
        bids = score * self.value[campaign]
        order = np.argsort(bids, axis=1)
        rows, won = np.arange(size), order[:, -1]
        p = sigmoids(np.ascontiguousarray(z[rows, won]))
        click = rng.random(size) < p
        quick = rng.random(size) < QUICK
        delay = np.where(quick, rng.exponential(QUICK_MEAN, size), rng.exponential(SLOW_MEAN, size))
        shown = campaign[rows, won]
        price = bids[rows, order[:, max(k - 2, 0)]]
        keys = (shown, self.advertiser[shown], placement, version)
        return AdClicks(t, score[rows, won], p, click, np.where(click, delay, np.inf), *keys, price)

    def _scores(
        self, rng: np.random.Generator, campaign: Integers, placement: Integers, version: Integers, user: FloatArray
    ) -> FloatArray:
        """Return the model's scores of all candidates, shape (m, candidates): overconfident, blind to the season."""
        seen = 0.85 * (user + rng.normal(0.0, 0.3, user.shape))
        seen += self.known_campaign[version[:, None], campaign]
        seen += self.known_placement[version, placement][:, None]
        z = self.offset + self.jump[version][:, None] + SLOPE * seen
        return sigmoids(z.ravel()).reshape(z.shape)
