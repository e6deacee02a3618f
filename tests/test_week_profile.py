"""The profile of the week that `Auto` learns, against a plain transcription of its formulas."""

import math
from fractions import Fraction

import numpy as np
import pytest

from streamcal.kernels.week_profile import WeekProfile


def evidence_by_hand(h, e, cuts=2.4, variance=0.5):
    """ln of the sum over all ways to cut a day, of their probability and the evidence of the segments: by recursion."""
    n = len(h)
    before_h, before_e = np.concatenate([[0.0], np.cumsum(h)]), np.concatenate([[0.0], np.cumsum(e)])
    found = np.zeros(n + 1)
    for j in range(1, n + 1):
        of_h, of_e = before_h[j] - before_h[:j], before_e[j] - before_e[:j]
        segment = 0.5 * of_e**2 / (of_h + 1.0 / variance) - 0.5 * np.log1p(variance * of_h)
        segment += (j - np.arange(j) - 1.0) * math.log1p(-cuts / n)
        found[j] = np.logaddexp.reduce(found[:j] + np.where(np.arange(j) > 0, math.log(cuts / n), 0.0) + segment)
    return found[n]


def kinds_by_hand(h, e):
    """The days of each kind, of the largest evidence; sums by day and half-hour, cuts at full hours."""
    hours = [one.reshape(7, 24, 2).sum(axis=2) for one in (h, e)]

    def evidence(days):
        return evidence_by_hand(*(one[days].sum(axis=0) for one in hours))

    every = list(range(7))
    found = {(tuple(every),): evidence(every) + math.log(21.0)}
    for first, count in ((first, count) for first in every for count in (1, 2, 3)):
        some = [(first + k) % 7 for k in range(count)]
        others = [day for day in every if day not in some]
        found[tuple(some), tuple(others)] = evidence(some) + evidence(others)
    return max(found, key=lambda kinds: found[kinds])


@pytest.mark.parametrize(
    ("closed", "night", "scale"), [((), True, 1.0), ((6, 0), True, 4.0), ((2, 3, 4), True, 6.0), ((5,), False, 0.05)]
)
def test_a_profile_is_the_mean_over_all_ways_to_cut_a_day(closed, night, scale):
    """The mean of an offset is the derivative of the log-evidence by E of its half-hour: here by differences."""
    keep, n = 0.999, 4_000
    rng, profile, h, e = np.random.default_rng(21), WeekProfile(keep, n), np.zeros((7, 48)), np.zeros((7, 48))
    for _ in range(n):
        day, half = int(rng.integers(7)), int(rng.integers(48))
        moved = 0.8 if day not in closed and (17 <= half < 36 or not night) else -0.6
        more = 0.2 * scale * rng.random()
        said = more * moved + rng.normal(0.0, math.sqrt(more))
        profile.learn(7 * 86_400.0 * int(rng.integers(-9, 2_000)) + 86_400.0 * day + 1_800.0 * half + 7.0, more, said)
        h, e = keep * h, keep * e
        h[day, half] += more
        e[day, half] += said
    kinds = kinds_by_hand(h, e)
    if scale > 1.0:
        assert set(map(frozenset, kinds)) == {frozenset(closed), frozenset(range(7)) - set(closed)}
    for days in map(list, kinds):
        of_h, of_e, step = h[days].sum(axis=0), e[days].sum(axis=0), 1e-4
        for half in range(0, 48, 5):
            moved = np.where(np.arange(48) == half, step, 0.0)
            mean = (evidence_by_hand(of_h, of_e + moved) - evidence_by_hand(of_h, of_e - moved)) / (2.0 * step)
            for day in days:
                said = profile.at(86_400.0 * day + 1_800.0 * half)
                assert said == pytest.approx(mean, abs=1e-6)  # third derivatives of at most 10, and rounding / step


def test_a_profile_is_looked_at_ever_less_often():
    profile, looks, before = WeekProfile(1.0, 64), [], 0.0
    for k in range(1, 1_001):
        profile.learn(0.0, 0.2, 0.1)
        if profile.at(0.0) != before:
            looks.append(k)
            before = profile.at(0.0)
    assert looks == [64, 128, 192, 256, 320, 400, 500, 625, 781, 976]
    assert before == pytest.approx(0.5, rel=0.05)  # E/H, 97.6/(195.2 + 2)


@pytest.mark.parametrize("t", [-1.0, -1e300, 1e300, 1e15, 604_800.0, 604_799.9, -604_800.0])
def test_every_time_has_a_half_hour(t):
    assert WeekProfile(0.9, 5).cell(t) == (Fraction(t) // 1_800 % 336 if abs(t) < 1e16 else 0)


def test_offsets_have_limits():
    """A hundred labels that nobody expected, with hardly any curvature, move an offset by 4 at most."""
    profile = WeekProfile(0.9999, 100)
    for _ in range(100):
        profile.learn(0.0, 1e-12, 10.0)
    assert profile.at(0.0) == 4.0
    assert all(math.isfinite(number) for number in profile.state()[2])
