"""Validation of predictive distributions, whose cdfs, medians and PITs are turned into plain numbers here."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp

from streamcal.errors import InputError
from streamcal.parameters.inputs import check_scores
from streamcal.parameters.numbers import whole_number
from streamcal.parameters.types import FloatArray
from streamcal.regression.distributions import CalibratedDistribution, Distribution, Normal, Piecewise
from streamcal.statistics.pits import FURTHEST

#: A cdf that is a sum may leave [0, 1], or decrease, by its rounding: a thousand terms of 1e-16 each, with a margin.
CDF_ROUNDING = 1e-12
#: Where a tail is lighter than this, its mass is taken from `logcdf` or `logsf` of the distribution, if it has them: of
#: 1 − F(t) ten digits are left, and beyond 1e-16 none.
LIGHT_TAIL = 1e-6
#: An outcome is an atom of its distribution if its normal score jumps by more than this there. Between two neighbouring
#: floats, continuous distributions move by less, unless their width is below 1e-10 of the outcome.
JUMP = 1e-6
#: PITs that differ by less, relative to the larger one and to 1, may be of one outcome.
PIT_ROUNDING = 1e-13
#: An outcome to which no mass was predicted counts as one at this normal score, of the last level below 1.
OUTSIDE = 8.25
RETURNED = "it must give a number for a float, and may give an array for an array"
#: The last normal score at which Φ(−z) is a normal double.
LAST_SCORE = 37.0
#: Steps of a bisection: a double has 53 binary places, and two numbers of one sign at most 11 more between them.
BISECTIONS = 200
#: Limit of doublings of the bracket in the search for a quantile: from ±1 to the largest float.
DOUBLINGS = 1023


def cdf_at(distribution: Distribution, thresholds: FloatArray) -> FloatArray:
    """Return the cdf at ascending thresholds, shape (m,); `InputError` unless nondecreasing and in [0, 1]."""
    if type(distribution) is Normal:  # which needs no check
        return distribution._cdf(thresholds)
    return _as_cdf(_called(distribution, thresholds), distribution)


def cdfs_at(distributions: Sequence[Distribution], thresholds: FloatArray) -> FloatArray:
    """Return `cdf_at` for each of n distributions, shape (n, m). Normal distributions are vectorised."""
    checked = check_distributions(distributions)
    if not checked:
        return np.empty((0, len(thresholds)))
    if all(type(one) is Normal for one in checked):
        mean, sd = _parameters(checked)
        return ndtr((thresholds - mean[:, np.newaxis]) / sd[:, np.newaxis])
    return np.array([cdf_at(one, thresholds) for one in checked])


def normal_scores(distribution: Distribution, t: FloatArray) -> FloatArray:
    """Return Φ⁻¹(F(t)), −∞ and ∞ included, from log tail masses where F(t) or 1 − F(t) has too few digits."""
    if type(distribution) is Normal:
        return distribution._normal_scores(t)
    if isinstance(distribution, CalibratedDistribution):
        own = distribution._normal_scores(t)
        if not np.isnan(own).any():
            return own
    u = _in_range(_called(distribution, t), distribution)
    z: FloatArray = ndtri(u)
    for light, name, sign in ((u < LIGHT_TAIL, "logcdf", 1.0), (u > 1.0 - LIGHT_TAIL, "logsf", -1.0)):
        log_mass = getattr(distribution, name, None)
        if light.any() and callable(log_mass):
            logs = np.asarray(log_mass(t), dtype=np.float64)
            z = np.where(light & (logs <= 0.0), sign * ndtri_exp(np.minimum(logs, 0.0)), z)
    return z


def pit_interval(distribution: Distribution, y: float, normal: bool = True) -> tuple[float, float]:
    """Return the normal scores of F(y−) and F(y), within ±`FURTHEST`, or F(y−) and F(y) themselves.

    They are equal unless y is an atom of the distribution. An atom has no single PIT: its levels are the interval
    (F(y−), F(y)] (Czado, Gneiting and Held, Predictive model assessment for count data, Biometrics 2009).
    """
    if type(distribution) is Normal:
        score = (y - distribution.mean) / distribution.sd
        if not normal:
            score = float(ndtr(score))
        elif not -FURTHEST <= score <= FURTHEST:
            score = min(max(score, -FURTHEST), FURTHEST)
        return score, score
    around = np.array([float(np.nextafter(y, -np.inf)), y])
    z = normal_scores(check_distribution(distribution), around)
    if z[0] > z[1] + JUMP:
        raise InputError(f"the cdf of {distribution!r} decreases just before {y!r}; sort its quantiles, or repair it")
    z = np.clip(z, -FURTHEST, FURTHEST)
    low, high = (z if normal else _in_range(_called(distribution, around), distribution)).tolist()
    return (low, high) if z[1] - z[0] > JUMP and low < high else (high, high)


def pit_intervals(
    distributions: Sequence[Distribution], y: FloatArray, normal: bool = True
) -> tuple[FloatArray, FloatArray]:
    """Return `pit_interval` of each distribution at its outcome, shapes (n,). Normal distributions are vectorised."""
    if distributions and all(type(distribution) is Normal for distribution in distributions):
        mean, sd = _parameters(distributions)
        scores = (y - mean) / sd
        same: FloatArray = np.clip(scores, -FURTHEST, FURTHEST) if normal else ndtr(scores)
        return same, same
    pairs = [pit_interval(one, outcome, normal) for one, outcome in zip(distributions, y.tolist(), strict=True)]
    low, high = np.array(pairs, dtype=np.float64).reshape(-1, 2).T
    return low, high


def outermost(distribution: Distribution, pit: float, start: float, sign: float, normal: bool = True) -> float:
    """Return the end of the outcomes with a PIT: from `start` on, upwards for `sign` 1.0 and downwards for -1.0.

    All outcomes between two values of a `Sample` have one PIT, and those that differ by rounding. `start` itself if its
    PIT is beyond the given one.
    """
    # The cdfs of scipy fall by their rounding here and there.
    last = sign * pit + (0.0 if type(distribution) is Normal else PIT_ROUNDING * max(1.0, abs(pit)))

    def within(t: float) -> bool:
        return sign * pit_interval(distribution, t, normal)[1] <= last

    if not within(start):
        return start
    if isinstance(distribution, Piecewise) and sign > 0.0:  # to the end of a piece without mass
        start = float(distribution.knots[distribution.levels == distribution.cdf(start)].max(initial=start))
        if not within(start):
            return start
    near, step = start, float(np.spacing(abs(start)))
    while within(far := near + sign * step):
        if math.isinf(far):
            return far
        near, step = far, 2.0 * step
    while near < (middle := 0.5 * near + 0.5 * far) < far or far < middle < near:
        near, far = (middle, far) if within(middle) else (near, middle)
    return near


def quantiles_at_scores(distribution: Distribution, z: FloatArray) -> FloatArray:
    """Return the quantiles at the levels Φ(z), by `isf` of the distribution in the upper tail, if it has one.

    If Φ(−|z|) is below the smallest doubles, bisection of `logsf` or `logcdf` finds them.
    """
    if isinstance(distribution, CalibratedDistribution):
        return distribution._at_normal_scores(z)
    isf = getattr(distribution, "isf", None)
    if not callable(isf):
        return quantiles_of(distribution, ndtr(z))
    near = np.clip(z, -LAST_SCORE, LAST_SCORE)
    upper = np.asarray(isf(ndtr(-np.maximum(near, 0.0))), dtype=np.float64)
    quantiles: FloatArray = np.where(z > 0.0, upper, quantiles_of(distribution, ndtr(np.minimum(near, 0.0))))
    for place in np.flatnonzero(np.isfinite(z) & (near != z)):
        quantiles.flat[place] = _far_quantile(distribution, float(z.flat[place]), float(quantiles.flat[place]))
    return np.where(np.isinf(z), quantiles_of(distribution, ndtr(z)), quantiles) if np.isinf(z).any() else quantiles


def _far_quantile(distribution: Distribution, z: float, start: float) -> float:
    """Return the quantile at Φ(z), |z| > `LAST_SCORE`, from the log mass of the tail; `start` is at ±`LAST_SCORE`.

    Return `start` if the distribution has no log mass, or its support ends.
    """
    sign = math.copysign(1.0, z)
    log_mass = getattr(distribution, "logsf" if sign > 0.0 else "logcdf", None)
    if not callable(log_mass) or not math.isfinite(start):
        return start
    wanted, inner, step = float(log_ndtr(-abs(z))), start, max(abs(start), 1.0)
    for _ in range(DOUBLINGS):
        outer = inner + sign * step
        if not (math.isfinite(outer) and float(log_mass(outer)) > -math.inf):
            return start  # the support, or the family's precision, ends before
        if float(log_mass(outer)) <= wanted:
            break
        inner, step = outer, 2.0 * step
    for _ in range(BISECTIONS):
        middle = 0.5 * inner + 0.5 * outer
        if middle in (inner, outer):
            break
        inner, outer = (inner, middle) if float(log_mass(middle)) <= wanted else (middle, outer)
    return outer


def quantiles_of(distribution: Distribution, levels: FloatArray) -> FloatArray:
    """Return the quantiles at levels in [0, 1]: by the distribution's `ppf` or, without one, by bisection of its cdf.

    They are infinite beyond the range of the cdf; with bisection also at level 0.
    """
    ppf = getattr(distribution, "ppf", None)
    if callable(ppf):
        return evaluated(distribution, "ppf", levels)

    def cdf(t: FloatArray) -> FloatArray:
        return _in_range(_called(distribution, t), distribution)

    low, high = np.full(np.shape(levels), -1.0), np.full(np.shape(levels), 1.0)
    for _ in range(DOUBLINGS):
        short = (levels > 0.0) & (cdf(low) >= levels)
        beyond = cdf(high) < levels
        if not (short | beyond).any():
            break
        low, high = np.where(short, 2.0 * low, low), np.where(beyond, 2.0 * high, high)
    unbounded = cdf(high) < levels
    middle = 0.5 * low + 0.5 * high
    while ((low < middle) & (middle < high)).any():  # until two floats are neighbours
        there = cdf(middle) >= levels
        low, high = np.where(there, low, middle), np.where(there, middle, high)
        middle = 0.5 * low + 0.5 * high
    return np.where(levels > 0.0, np.where(unbounded, np.inf, high), -np.inf)


def spread(distribution: Distribution) -> float:
    """Return the stated standard deviation; without one, half the distance of the quantiles at Φ(−1) and Φ(1).

    `InputError` if it is not a finite number above 0.
    """
    if type(distribution) is Normal:
        return distribution.sd
    std = getattr(check_distribution(distribution), "std", None)
    deviation = float(std()) if callable(std) else math.nan
    if not math.isfinite(deviation):
        low, high = quantiles_at_scores(distribution, np.array([-1.0, 1.0])).tolist()
        deviation = 0.5 * high - 0.5 * low
    if not 0.0 < deviation < math.inf:
        raise InputError(f"the standard deviation of {distribution!r} is {deviation!r}; it must be finite and above 0")
    return deviation


def check_distribution(distribution: Any) -> Distribution:
    """Check for an object with a callable `cdf`; `InputError` otherwise."""
    if not callable(getattr(distribution, "cdf", None)):
        raise InputError(
            f"distribution {distribution!r} has no cdf; give Normal(mean, sd), Quantiles(levels, values), "
            "Sample(values), a frozen scipy.stats distribution, or any object with cdf(t)"
        )
    return distribution


def check_distributions(distributions: Any) -> list[Distribution]:
    """Check for a list of distributions; `InputError` for anything else."""
    try:
        members = None if callable(getattr(distributions, "cdf", None)) else list(distributions)
    except TypeError:
        members = None
    if members is None:
        raise InputError(f"distributions {distributions!r} are not a sequence; give a list of distributions")
    return [check_distribution(member) for member in members]


def median(distribution: Distribution) -> float:
    """Return the median; `InputError` if it is not finite."""
    return float(medians([distribution])[0])


def medians(distributions: Sequence[Distribution]) -> FloatArray:
    """Return the `median` of each distribution, shape (n,)."""
    half = np.array(0.5)
    values = [
        distribution.mean if type(distribution) is Normal else quantiles_of(check_distribution(distribution), half)
        for distribution in distributions
    ]
    result = np.array(values, dtype=np.float64)
    if not np.isfinite(result).all():
        place = int(np.argmin(np.isfinite(result)))
        raise InputError(f"the median of {distributions[place]!r} is {result[place].item()!r}; it must be finite")
    return result


def check_support(support: tuple[float, float]) -> tuple[float, float]:
    """Return the ends lo < hi of a support, as finite floats; `InputError` otherwise."""
    ends = check_scores(support)
    if len(ends) != 2 or not ends[0] < ends[1]:
        raise InputError(f"support={support!r} is not possible; give (lo, hi), finite numbers with lo < hi")
    return float(ends[0]), float(ends[1])


#: Each segment has a statistic of its own.
MOST_SEGMENTS = 4_096


def segment_edges(thresholds: int | ArrayLike, support: tuple[float, float]) -> FloatArray:
    """Return the K + 1 edges of K segments of the support, ascending, its two ends included.

    `thresholds` is K, for segments of equal width, or the K − 1 thresholds between the segments, strictly inside.

    Examples
    --------
    >>> segment_edges(4, (0.0, 2.0)).tolist(), segment_edges([0.5], (0.0, 2.0)).tolist()
    ([0.0, 0.5, 1.0, 1.5, 2.0], [0.0, 0.5, 2.0])
    """
    lo, hi = check_support(support)
    if not hasattr(thresholds, "__len__"):
        allowed = f"2 to {MOST_SEGMENTS:,} segments, or an array"
        edges = np.linspace(lo, hi, whole_number(thresholds, "thresholds", 2, MOST_SEGMENTS, allowed) + 1)
    else:
        edges = np.concatenate(([lo], check_scores(thresholds), [hi]))
    if len(edges) < 3 or not (np.diff(edges) > 0.0).all():
        raise InputError(
            f"thresholds={thresholds!r} are not possible in the support {support!r}; give strictly increasing ones "
            "inside of it, or their number"
        )
    return edges


def evaluated(distribution: Any, name: str, t: Any) -> FloatArray:
    """Call a method of a distribution at t, of the shape of t; one by one if it accepts only floats (`NormalDist`)."""
    method = getattr(distribution, name)
    try:
        values = np.asarray(method(t))
        if values.dtype.kind in "biuf" and values.shape == np.shape(t):
            return values.astype(np.float64)
    except (TypeError, ValueError, ArithmeticError):  # of math.erf(t), or of `if t < 0.0`
        pass
    try:
        values = np.array([method(one) for one in np.ravel(t).tolist()])
    except (TypeError, ValueError, ArithmeticError) as error:
        raise InputError(f"the {name} of {distribution!r} failed at {t!r}: {error}; {RETURNED}") from error
    if values.dtype.kind not in "biuf" or values.shape != (np.size(t),):
        raise InputError(f"the {name} of {distribution!r} gave {values!r} at {t!r}; {RETURNED}")
    return values.astype(np.float64).reshape(np.shape(t))


def _called(distribution: Distribution, t: Any) -> FloatArray:
    return evaluated(check_distribution(distribution), "cdf", t)


def _in_range(values: FloatArray, distribution: Distribution) -> FloatArray:
    if not ((values >= -CDF_ROUNDING) & (values <= 1.0 + CDF_ROUNDING)).all():
        raise InputError(f"the cdf of {distribution!r} gave {values!r}; probabilities are in [0, 1]")
    return np.clip(values, 0.0, 1.0)


def _as_cdf(values: FloatArray, distribution: Distribution) -> FloatArray:
    inside = _in_range(values, distribution)
    if (np.diff(inside) < -CDF_ROUNDING).any():
        raise InputError(
            f"the cdf of {distribution!r} decreases: {values.tolist()!r}; sort its quantiles, or repair it"
        )
    return np.maximum.accumulate(inside)


def _parameters(normals: Sequence[Any]) -> tuple[FloatArray, FloatArray]:
    return np.array([normal.mean for normal in normals]), np.array([normal.sd for normal in normals])


def counted(score: float, distribution: Distribution) -> float:
    """Return the normal score as which an outcome counts: itself, but ±8.25 if no mass was predicted for it."""
    if abs(score) < FURTHEST or type(distribution) is Normal:
        return score
    return math.copysign(OUTSIDE, score)
