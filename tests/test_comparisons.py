"""Measures that know about chance: the debiased calibration error and the confidence sequence of a loss difference."""

from __future__ import annotations

import copy
import itertools
import math
import pickle

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import binom, gamma

from streamcal.errors import InputError, MergeError
from streamcal.metrics import DebiasedECE, EqualMassECE, LogLossDifference
from streamcal.metrics.log_loss_difference import TIGHTEST_AT, boundary, log_mixture

#: Plain sums of at most 1e5 terms of one sign: a relative error of 1.1e-16 each.
SUMS = 1e-11
CAP = -math.log(1e-6)


# -- debiased calibration error --------------------------------------------------------------------------------------


def transcribed(p: np.ndarray, y: np.ndarray, w: np.ndarray, bins: int) -> tuple[float, float]:
    """Value² before the root, and floor, from all predictions at once."""
    _, place = np.unique(p, return_inverse=True)
    mass = np.bincount(place, w)
    group = np.minimum((bins * (np.cumsum(mass) - mass / 2) / mass.sum()).astype(int), bins - 1)[place]
    squared = variance = 0.0
    for b in range(bins):
        held = group == b
        share, n = w[held].sum() / w.sum(), w[held].sum() ** 2 / (w[held] ** 2).sum()
        f = np.average(y[held], weights=w[held])
        squared += share * ((np.average(p[held], weights=w[held]) - f) ** 2 - f * (1 - f) / (n - 1))
        variance += share**2 * 2 * ((w[held] ** 2 * p[held] * (1 - p[held])).sum() / w[held].sum() ** 2) ** 2
    return squared, math.sqrt(1.6448536269514722 * math.sqrt(variance))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bins", [1, 7, 15])
def test_debiased_ece_is_its_definition(weighted: bool, bins: int) -> None:
    rng = np.random.default_rng(2)
    p = rng.choice(np.linspace(0.01, 0.9, 60), 4_000)  # one probability to a cell: the bins are exact
    y = rng.random(len(p)) < p**1.4
    w = rng.choice([0.5, 1.0, 2.0], len(p)) if weighted else np.ones(len(p))
    ece = DebiasedECE(bins)
    ece.update_many(y, p, w)
    squared, floor = transcribed(p, y, w, bins)
    assert squared > 0.0
    assert ece.get() == pytest.approx(math.sqrt(squared), rel=1e-9)  # a root of a difference
    assert ece.floor == pytest.approx(floor, rel=SUMS)
    assert ece.get() > ece.floor, "p^1.4 is far from p"


def test_debiased_ece_of_a_calibrated_model_is_nothing_but_chance() -> None:
    """Over 80 streams: the square before the root has mean 0, and the floor is exceeded in 5 %."""
    rng = np.random.default_rng(0)
    squares, above = [], 0
    for _ in range(80):
        p = rng.choice(np.linspace(0.03, 0.97, 40), 1_500)
        y = rng.random(len(p)) < p
        ece = DebiasedECE(10)
        ece.update_many(y, p)
        squares.append(transcribed(p, y, np.ones(len(p)), 10)[0])
        above += ece.get() > ece.floor
    # four standard errors of the mean
    assert abs(np.mean(squares)) < 4 * np.std(squares) / math.sqrt(len(squares))
    # The sum of ten squared normals has a longer right tail than a normal: 5 % becomes 6 to 7.
    assert binom.ppf(0.001, 80, 0.05) <= above <= binom.ppf(0.999, 80, 0.07)


def test_debiased_ece_adds_up_and_takes_back() -> None:
    rng = np.random.default_rng(4)
    p, w = rng.random(600), rng.choice([0.5, 1.0], 600)
    y = rng.random(600) < p
    whole, one, other = DebiasedECE(), DebiasedECE(), DebiasedECE()
    whole.update_many(y, p, w)
    one.update_many(y[:200], p[:200], w[:200])
    other.update_many(y[200:], p[200:], w[200:])
    one.merge(other)
    # The root of a difference that is small here: its digits are those of the terms.
    assert one.get() == pytest.approx(whole.get(), abs=1e-9)
    for row in zip(y[200:], p[200:], w[200:], strict=True):
        whole.revert(*row)
    first = DebiasedECE()
    first.update_many(y[:200], p[:200], w[:200])
    assert whole.get() == pytest.approx(first.get(), abs=1e-9)
    assert whole.floor == pytest.approx(first.floor, rel=SUMS)


def test_debiased_ece_of_little() -> None:
    ece = DebiasedECE()
    assert ece.get() is None
    assert ece.floor is None
    ece.update(True, 0.3, 0.1)
    assert (ece.get(), ece.floor) == (0.0, 0.0), "a single observation says nothing"
    with pytest.raises(MergeError):
        ece.merge(EqualMassECE())  # type: ignore[arg-type]


# -- confidence sequence of a loss difference ------------------------------------------------------------------------


def losses(p: np.ndarray, y: np.ndarray) -> np.ndarray:
    return -np.log(np.maximum(np.where(y, p, 1 - p), 1e-6))


def test_difference_is_its_definition() -> None:
    """Choe and Ramdas, theorem 2, with the mean of the differences so far as the centre of the next."""
    rng = np.random.default_rng(1)
    p, q = rng.random(500), np.where(rng.random(500) < 0.1, 0.0, rng.random(500))
    y = rng.random(500) < 0.4
    difference = LogLossDifference()
    difference.update_many(y, p, q)
    delta = losses(p, y) - losses(q, y)
    centre = np.concatenate(([0.0], np.cumsum(delta)[:-1] / np.arange(1, 500)))
    radius = boundary(float(((delta - centre) ** 2).sum()), 2 * CAP, 0.025) / 500
    assert difference.get() == pytest.approx(delta.mean(), rel=SUMS)
    assert difference.interval == pytest.approx((delta.mean() - radius, delta.mean() + radius), rel=1e-9)
    loop = LogLossDifference()
    for row in zip(y, p, q, strict=True):
        loop.update(*row)
    assert vars(loop) == vars(difference)


@pytest.mark.sample(4)
@pytest.mark.parametrize("v", [0.0, 3.0, 200.0, 5_000.0])
@pytest.mark.parametrize("c", [0.7, 2.0, 27.6])
def test_mixture_is_the_integral_of_its_definition(v: float, c: float) -> None:
    twice = 2 * math.log(40)
    rho = TIGHTEST_AT / (twice + math.log1p(twice))
    b = rho / c**2
    below_one = gamma.cdf(1.0, b, scale=1 / b)
    for s in (0.0, 5.0, 2.5 * math.sqrt(v)):

        def integrand(u: float, s: float = s) -> float:
            """Return the integrand at u = 1 − cλ, by logarithms of the density, which is infinite at 0 if b < 1."""
            psi = (-math.log(u) - (1 - u)) / c**2
            return math.exp((1 - u) / c * s - psi * v) * gamma.pdf(u, b, scale=1 / b) / below_one

        peak = min(1.0, v / (v + c * s)) if v else 0.5  # where exp{λs − ψv} is largest
        width = c / math.sqrt(v + 1.0)
        cuts = sorted({0.0, *(min(1.0, max(0.0, peak + k * width)) for k in (-8, -3, -1, 0, 1, 3, 8)), 1.0})
        whole = sum(quad(integrand, low, high, limit=200)[0] for low, high in itertools.pairwise(cuts))
        # quadrature beside an integrable pole
        assert math.exp(log_mixture(s, v, c, rho)) == pytest.approx(whole, rel=1e-5)


def test_boundary_is_the_root_and_grows() -> None:
    found = [boundary(v, 27.6, 0.025) for v in (0.0, 1e-9, 1.0, 1e2, 1e4, 1e6, 1e8)]
    assert found == sorted(found)
    assert found[-1] < 6.5 * math.sqrt(1e8), "a law of the iterated logarithm, nearly: no worse than 6.5 deviations"
    twice = 2 * math.log(40)
    rho = TIGHTEST_AT / (twice + math.log1p(twice))
    assert log_mixture(boundary(50.0, 27.6, 0.025), 50.0, 27.6, rho) == pytest.approx(math.log(40), rel=1e-9)


def test_adaptive_difference_is_its_definition() -> None:
    """The mixture over the rates below 1/c, with the largest deviation that was possible, from all rows at once."""
    rng = np.random.default_rng(1)
    p, q = rng.beta(1, 30, 500), rng.beta(1, 30, 500)
    y = rng.random(500) < 0.05
    difference = LogLossDifference(adaptive=True)
    difference.update_many(y, p, q)
    delta = losses(p, y) - losses(q, y)
    centre = np.concatenate(([0.0], np.cumsum(delta)[:-1] / np.arange(1, 500)))
    both = [losses(p, np.full(500, label)) - losses(q, np.full(500, label)) for label in (False, True)]
    c, v = np.abs(both - centre).max(), ((delta - centre) ** 2).sum()
    rates = [2.0**k for k in range(-9, 6) if 2.0**k * c < 1.0]
    assert len(rates) < 15, "some are dropped"
    radius = difference.interval[1] - difference.get()
    summed = 0.0
    for rate in rates:
        psi = (-math.log(1 - c * rate) - c * rate) / c**2
        summed += math.exp(rate * radius * 500 - psi * v) / 15
    assert summed == pytest.approx(40.0, rel=1e-6)  # 2/α; the root is found to 1e-12 of some 30 nats
    first, second = LogLossDifference(adaptive=True), LogLossDifference(adaptive=True)
    first.update_many(y[:200], p[:200], q[:200])
    second.update_many(y[200:], p[200:], q[200:])
    first.merge(second)
    assert first.get() == pytest.approx(difference.get(), rel=SUMS)
    assert first.interval == pytest.approx(difference.interval, abs=0.01 * radius)  # the mᵢ start anew
    with pytest.raises(MergeError):
        first.merge(LogLossDifference())


@pytest.mark.parametrize("rate", [pytest.param(0.5, marks=pytest.mark.full), 0.005])
def test_adaptive_intervals_cover_at_all_times_together(rate: float) -> None:
    """Two forecasts of which neither is better, looked at 40 times; the range is not known before the first ones."""
    rng = np.random.default_rng(7)
    runs, steps, confidence = 24, 1_500, 0.8
    p = min(2.0 * rate, 0.8)

    def gap(q: float) -> float:
        return rate * math.log(q / p) + (1.0 - rate) * math.log((1.0 - q) / (1.0 - p))

    q = brentq(gap, rate * 1e-3, rate * 0.999)  # as wrong as p on the other side
    looks = np.unique(np.geomspace(10, steps, 40).astype(int))
    missed = 0
    for _ in range(runs):
        y = rng.random(steps) < rate
        difference, outside = LogLossDifference(confidence, adaptive=True), False
        for start, end in zip((0, *looks[:-1]), looks, strict=True):
            difference.update_many(y[start:end], np.full(end - start, p), np.full(end - start, q))
            low, high = difference.interval
            outside |= not low <= 0.0 <= high
        missed += outside
    assert missed <= binom.ppf(0.999, runs, 1 - confidence)


def test_adaptive_intervals_decide_rare_events_early() -> None:
    """A model that says half the rate: decided after less than half of the rows that a range fixed beforehand needs."""
    rng, row = np.random.default_rng(9), 0
    decided: dict[bool, int] = {}
    differences = {adaptive: LogLossDifference(adaptive=adaptive) for adaptive in (True, False)}
    while len(decided) < 2:
        y = rng.random(500) < 0.01
        row += 500
        for adaptive, difference in differences.items():
            difference.update_many(y, np.full(500, 0.01), np.full(500, 0.005))
            if difference.interval[1] < 0.0:
                decided.setdefault(adaptive, row)
    assert decided[True] < decided[False] / 2


def test_intervals_cover_at_all_times_together() -> None:
    """Two forecasts of which neither is better, at the largest difference there is, looked at 40 times.

    An interval for one moment, of the same confidence, is left by most paths.
    """
    rng = np.random.default_rng(7)
    runs, steps, confidence = 40, 1_500, 0.8
    looks = np.unique(np.geomspace(10, steps, 40).astype(int))
    missed = missed_by_moment = 0
    for _ in range(runs):
        y = rng.random(steps) < 0.5
        difference = LogLossDifference(confidence, clip=0.1)
        outside = outside_of_moment = False
        for start, end in zip((0, *looks[:-1]), looks, strict=True):
            difference.update_many(y[start:end], np.full(end - start, 0.9), np.full(end - start, 0.1))
            low, high = difference.interval
            outside |= not low <= 0.0 <= high
            outside_of_moment |= abs(difference.get()) > 1.2816 * math.log(9.0) / math.sqrt(end)
        missed += outside
        missed_by_moment += outside_of_moment
    assert missed <= binom.ppf(0.999, runs, 1 - confidence)
    assert missed_by_moment > runs / 2


@pytest.mark.full
def test_intervals_cover_a_difference_that_drifts() -> None:
    rng = np.random.default_rng(8)
    runs, steps = 200, 1_200
    true = 0.5 + 0.4 * np.sin(np.arange(steps) / 200)
    p, q = np.full(steps, 0.5), np.clip(true + 0.1, 0.01, 0.99)
    expected = np.cumsum(
        true * (losses(p, np.ones(steps, bool)) - losses(q, np.ones(steps, bool)))
        + (1 - true) * (losses(p, np.zeros(steps, bool)) - losses(q, np.zeros(steps, bool)))
    ) / np.arange(1, steps + 1)
    missed = 0
    for _ in range(runs):
        y = rng.random(steps) < true
        difference, outside = LogLossDifference(), False
        for end in range(100, steps + 1, 100):
            difference.update_many(y[end - 100 : end], p[end - 100 : end], q[end - 100 : end])
            low, high = difference.interval
            outside |= not low <= expected[end - 1] <= high
        missed += outside
    assert missed <= binom.ppf(0.999, runs, 0.05)


def test_interval_finds_what_is_there() -> None:
    rng = np.random.default_rng(9)
    true = rng.random(20_000)
    y = rng.random(20_000) < true
    difference = LogLossDifference()
    difference.update_many(y, true, np.full(20_000, 0.5))
    assert difference.interval[1] < 0.0
    # and tightly: the mean difference of .193 is known to ± .03
    assert difference.interval[1] - difference.interval[0] < 0.06


def test_merge_adds_up() -> None:
    rng = np.random.default_rng(10)
    p, q, y = rng.random(400), rng.random(400), rng.random(400) < 0.5
    whole, one, other = LogLossDifference(), LogLossDifference(), LogLossDifference()
    whole.update_many(y, p, q)
    one.update_many(y[:150], p[:150], q[:150])
    other.update_many(y[150:], p[150:], q[150:])
    before = copy.copy(vars(other))
    one.merge(other)
    assert vars(other) == before
    assert one.n == whole.n == 400
    assert one.get() == pytest.approx(whole.get(), rel=SUMS)
    # Only the centres differ: by a few squares of a mean.
    assert one.interval == pytest.approx(whole.interval, rel=0.05)
    one.merge(one)
    assert one.n == 800
    with pytest.raises(MergeError, match="same class and parameters"):
        one.merge(LogLossDifference(0.9))


def test_nothing_and_bad_input() -> None:
    difference = LogLossDifference()
    assert difference.get() is None
    assert difference.interval == (-CAP, CAP)
    difference.update(True, 0.5, 0.4)
    assert difference.interval == (-CAP, CAP), "one outcome says nothing"
    before = pickle.dumps(difference)
    for bad in ((1, 1.5, 0.5), (1, 0.5, math.nan), (2, 0.5, 0.5)):
        with pytest.raises(InputError):
            difference.update(*bad)
        with pytest.raises(InputError):
            difference.update_many([1, bad[0]], [0.5, bad[1]], [0.5, bad[2]])
    with pytest.raises(InputError):
        difference.update_many([1], [0.5], [0.5, 0.5])
    assert pickle.dumps(difference) == before
    for parameters in ({"confidence": 1.0}, {"clip": 0.0}):
        with pytest.raises(InputError):
            LogLossDifference(**parameters)


def test_the_state_of_the_largest_range_is_read():
    """The mean of equal differences is rounded, so that the range may be above its bound in the last place."""
    found = LogLossDifference(adaptive=True)
    found.update_many(np.ones(5_000), np.zeros(5_000), np.ones(5_000))
    found.update(True, 1.0, 0.0)
    read = LogLossDifference(adaptive=True)
    read.load(found.state())
    assert read.interval == found.interval


# -- weights of differences --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("weight", [1.0, 0.1, 100.0])
def test_equal_weights_change_no_bit(weight: float, adaptive: bool) -> None:
    rng = np.random.default_rng(11)
    p, q = rng.beta(1, 30, (2, 900))
    y = rng.random(900) < p
    plain, weighted, loop = (LogLossDifference(adaptive=adaptive) for _ in range(3))
    plain.update_many(y, p, q)
    weighted.update_many(y, p, q, np.full(900, weight))
    weighted.update_many(y, p, q, np.zeros(900))
    for row in zip(y, p, q, strict=True):
        loop.update(*row, weight)
    loop.update(True, 1.0, 0.0, 0.0)
    assert (weighted.n, weighted.get(), weighted.interval) == (plain.n, plain.get(), plain.interval)
    assert loop.interval == pytest.approx(plain.interval, rel=1e-9)  # logarithms of arrays round differently
    assert loop.weight == pytest.approx(900 * weight)


def sampled_stream(kind: str, n: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Make probabilities with 3 positives in 100, labels and weights, and the share of each label that is kept."""
    z = rng.normal(-4.0, 1.0, n)
    true = 1.0 / (1.0 + np.exp(-z))
    y = rng.random(n) < true
    shares = {"negatives at 1 %": (0.01, 1.0), "positives at 10 %": (1.0, 0.1), "of the row": (1.0, 1.0)}[kind]
    kept = rng.random(n) < np.where(y, shares[1], shares[0])
    w = np.where(y, 1.0 / shares[1], 1.0 / shares[0]) * (rng.exponential(1.0, n) if kind == "of the row" else 1.0)
    return true[kept], y[kept], w[kept], np.array(shares)


def test_weighted_difference_is_its_definition() -> None:
    """From all rows at once: the other label of a row has the weight that all rows of that label have."""
    true, y, w, shares = sampled_stream("negatives at 1 %", 20_000, np.random.default_rng(1))
    p, q = np.minimum(1.5 * true, 0.9), true
    difference = LogLossDifference(adaptive=True)
    difference.update_many(y, p, q, w)
    n, unit = len(y), w[0]
    both = np.array([losses(p, np.full(n, label)) - losses(q, np.full(n, label)) for label in (False, True)])
    x = w / unit * both[y.astype(int), np.arange(n)]
    centre = np.concatenate(([0.0], np.cumsum(x)[:-1] / np.arange(1, n)))
    c = np.abs(both / shares[:, None] / unit).max() + np.abs(centre).max()
    radius = difference.interval[1] - difference.get()
    summed = 0.0
    for rate in (2.0**k for k in range(-29, 26)):
        if rate * c < 1.0:
            psi = (-math.log(1 - c * rate) - c * rate) / c**2
            summed += math.exp(rate * radius * w.sum() / unit - psi * ((x - centre) ** 2).sum()) / 55
    assert difference.get() == pytest.approx(np.average(both[y.astype(int), np.arange(n)], weights=w), rel=SUMS)
    assert summed == pytest.approx(40.0, rel=1e-6)
    loop = LogLossDifference(adaptive=True)
    for row in zip(y, p, q, w, strict=True):
        loop.update(*row)
    assert loop.state() == pytest.approx(difference.state(), rel=1e-9)


@pytest.mark.full
@pytest.mark.parametrize("kind", ["negatives at 1 %", "positives at 10 %", "of the row"])
def test_weighted_intervals_cover_at_all_times_together(kind: str) -> None:
    """The expected differences of the rows by their weights, of two forecasts that are wrong on either side.

    With weights of labels the intervals of the same rows without weights, which are those of the sample, miss them.
    """
    rng = np.random.default_rng(7)
    runs, confidence = 20, 0.8
    missed = missed_without = 0
    for _ in range(runs):
        true, y, w, shares = sampled_stream(kind, 20_000, rng)
        p, q = (1.0 / (1.0 + (1.0 / true - 1.0) * math.exp(z)) for z in (-0.35, 0.36))
        of = [losses(p, np.full(len(y), label)) - losses(q, np.full(len(y), label)) for label in (True, False)]
        # A row of the whole that is kept stands for 1/(its chance to be kept) of them.
        stands = w if kind == "of the row" else 1.0 / (true * shares[1] + (1.0 - true) * shares[0])
        expected = np.cumsum(stands * (true * of[0] + (1.0 - true) * of[1]))
        weighted, plain = LogLossDifference(confidence, adaptive=True), LogLossDifference(confidence, adaptive=True)
        outside, start = np.zeros(2, dtype=bool), 0
        for end in np.unique(np.geomspace(10, len(y), 30).astype(int)):
            part = slice(start, end)
            weighted.update_many(y[part], p[part], q[part], w[part])
            plain.update_many(y[part], p[part], q[part])
            start = end
            if weighted.both_labels:
                wanted = expected[end - 1] / w[:end].sum()
                outside |= [not one.interval[0] <= wanted <= one.interval[1] for one in (weighted, plain)]
        missed += outside[0]
        missed_without += outside[1]
    assert missed <= binom.ppf(0.999, runs, 1 - confidence)
    if kind != "of the row":
        assert missed_without > runs / 2


@pytest.mark.parametrize(
    ("kind", "wrong"), [("negatives at 1 %", 1.0), ("positives at 10 %", -1.0), ("of the row", 1.0)]
)
def test_weighted_intervals_decide_for_the_whole(kind: str, wrong: float) -> None:
    """Odds e times too high win on a sample with few negatives, and lose on the whole; and the other way round."""
    true, y, w, _ = sampled_stream(kind, 100_000, np.random.default_rng(3))
    p = 1.0 / (1.0 + (1.0 / true - 1.0) * math.exp(-wrong))
    weighted, plain = LogLossDifference(adaptive=True), LogLossDifference(adaptive=True)
    weighted.update_many(y, p, true, w)
    plain.update_many(y, p, true)
    assert weighted.interval[0] > 0.0
    if kind != "of the row":
        assert plain.interval[1] < 0.0, "the sample decides the opposite"


def test_weights_that_differ_need_an_adaptive_range() -> None:
    difference = LogLossDifference()
    difference.update(True, 0.5, 0.4, 2.0)
    before = difference.state()
    with pytest.raises(InputError, match=r"weight 3 differs from 2.*give adaptive=True"):
        difference.update(True, 0.5, 0.4, 3.0)
    with pytest.raises(InputError, match="weight 1 differs from 2"):
        difference.update_many([1, 0], [0.5, 0.4], [0.4, 0.4], [2.0, 1.0])
    other = LogLossDifference()
    other.update(True, 0.5, 0.4)
    with pytest.raises(InputError, match="weight 1 differs from 2"):
        difference.merge(other)
    assert difference.state() == before


def test_merged_weights_are_those_of_one_stream() -> None:
    """In whatever unit: that of the first weight of each part."""
    true, y, w, _ = sampled_stream("negatives at 1 %", 20_000, np.random.default_rng(5))
    begin = int(np.argmin(y))  # a negative, of weight 100
    true, y, w = true[begin:], y[begin:], w[begin:]
    whole, first, second = (LogLossDifference(adaptive=True) for _ in range(3))
    cut = 200 + int(np.argmax(y[200:]))  # a positive, of weight 1
    whole.update_many(y, np.sqrt(true), true, w)
    first.update_many(y[:cut], np.sqrt(true[:cut]), true[:cut], w[:cut])
    second.update_many(y[cut:], np.sqrt(true[cut:]), true[cut:], w[cut:])
    other = copy.copy(second)
    other.merge(first)
    first.merge(second)
    for one in (first, other):
        assert one.n == whole.n
        assert one.weight == pytest.approx(whole.weight, rel=SUMS)
        assert one.get() == pytest.approx(whole.get(), rel=SUMS)
        assert one.interval == pytest.approx(whole.interval, rel=0.1)  # the mᵢ start anew


def test_weights_from_end_to_end_of_their_range_decide_nothing() -> None:
    difference = LogLossDifference(adaptive=True)
    difference.update_many([1, 0, 1, 0], [0.5] * 4, [0.1] * 4, [1e-60, 1e60, 1.0, 1e60])
    assert difference.interval == (-CAP, CAP)
    read = LogLossDifference(adaptive=True)
    read.load(difference.state())
    assert (read.interval, read.state()) == (difference.interval, difference.state())
    difference.update(True, 0.9, 0.1, 1e60)
    assert read.state() != difference.state()
