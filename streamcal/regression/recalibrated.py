"""`recalibrated`: the distribution with the cdf R(F(t)), where R is a map of levels."""

from __future__ import annotations

import itertools
import math
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri, ndtri_exp

from streamcal.errors import CapabilityError
from streamcal.kernels.normal.ramp_chain import RampChain
from streamcal.parameters.types import FloatArray
from streamcal.regression.distributions import CalibratedDistribution, Distribution, Normal, Piecewise
from streamcal.regression.ramps import NormalRamp, Ramp, ScoreRamp
from streamcal.regression.reading import check_distribution, evaluated, normal_scores, quantiles_at_scores, quantiles_of

#: Integrals over outcomes are split at the quantiles with these normal scores, of the base and of the result, so that
#: pieces are smooth where either is like a normal distribution.
SCORES = np.linspace(-8.0, 8.0, 33)
#: Gauss-Legendre nodes in each piece.
NODES, WEIGHTS = np.polynomial.legendre.leggauss(6)
#: Beyond the quantiles at this level and at 1 minus it, integrals are cut off.
LEAST_TAIL = 1e-18
#: A tail has no mean if, from the first of these levels to the second, level · quantile decreases by less than this,
#: and no variance if level · quantile² does.
TAIL_LEVELS, TAIL_DECREASE = (1e-8, 1e-14), 0.5
#: The identity map of levels.
IDENTITY = Piecewise([0.0, 1.0], [0.0, 1.0])
#: Counts are represented value by value up to this many values, and to masses of this in the tails.
MOST_ATOMS, LEAST_ATOM = 100_000, 1e-300
#: The search for the last value begins at the quantile of this level.
HIGHEST_LEVEL = 1.0 - 1e-15
#: Masses of all values sum to 1 within this, if all values were found.
ALL_MASS = 1e-9


def recalibrated(distribution: Distribution, ramp: Piecewise | Ramp) -> CalibratedDistribution:
    """Return the distribution with the cdf R(F(t)), where R is the cdf of `ramp` on [0, 1], or a `Ramp`.

    For a `Piecewise` distribution, and for a discrete one of scipy, the result is a `Piecewise` one with the atoms of
    the base; for others `pdf` and `ppf` are called when needed.
    """
    if type(distribution) is Normal and not isinstance(ramp, (Piecewise, NormalRamp)):  # the most frequent one
        return Rescored(distribution, ramp)
    if isinstance(distribution, Piecewise):
        return _piecewise(distribution, ramp if isinstance(ramp, Piecewise) else _on_levels(ramp))
    if isinstance(distribution, Normal) and isinstance(ramp, NormalRamp):
        return Normal(distribution.mean + ramp.shift * distribution.sd, ramp.scale * distribution.sd)
    atoms = atoms_of(check_distribution(distribution))
    if atoms is not None:
        return _counts(distribution, atoms, ramp)
    return Recalibrated(distribution, ramp) if isinstance(ramp, Piecewise) else Rescored(distribution, ramp)


def complete(distribution: Distribution) -> CalibratedDistribution:
    """Return the distribution if it has all methods of `CalibratedDistribution`; else one that derives them."""
    if isinstance(distribution, CalibratedDistribution):
        return distribution
    return recalibrated(check_distribution(distribution), IDENTITY)


def weighted_crps(distribution: Distribution, y: float, low: float, high: float) -> float:
    """Return ∫ (F(t) − 1[y ≤ t])² dt from `low` to `high`, which may be infinite."""
    base = _unwrapped(complete(distribution))
    if isinstance(base, Piecewise):
        return _clipped(base, low, high).crps(min(max(y, low), high))
    general = base if isinstance(base, Recalibrated) else Recalibrated(base, IDENTITY)
    ends = np.unique(np.clip(np.append(general._pieces.ends, y), low, high))
    total = 0.0
    for a, b in itertools.pairwise(ends.tolist()):
        total += general._squared(a, b, 1.0 if a >= y else 0.0)
    return total


def _unwrapped(distribution: CalibratedDistribution) -> CalibratedDistribution:
    while isinstance(distribution, Wrapped):
        distribution = distribution.inner
    return distribution


def _clipped(base: Piecewise, low: float, high: float) -> Piecewise:
    """Return the distribution of min(max(Y, low), high)."""
    low, high = max(low, float(base.knots[0])), min(high, float(base.knots[-1]))
    if low >= high:
        return Piecewise([low if low > base.knots[-1] else high] * 2, [0.0, 1.0])
    inside = (base.knots > low) & (base.knots < high)
    levels = base.cdf(np.array([low, np.nextafter(high, -math.inf)]))
    x = np.concatenate(([low, low], base.knots[inside], [high, high]))
    return Piecewise(x, np.concatenate(([0.0, levels[0]], base.levels[inside], [levels[1], 1.0])))


def variance_of(distribution: Distribution) -> float:
    """Return the variance: as stated, by a closed formula for a normal or piecewise linear cdf, else by quadrature."""
    std = getattr(check_distribution(distribution), "std", None)
    if callable(std) and not math.isnan(stated := float(std())):
        return stated * stated
    base = _unwrapped(complete(distribution))
    if isinstance(base, Normal):
        return base.sd * base.sd
    if isinstance(base, Piecewise):
        mean = base.mean
        a, b = base.knots[:-1] - mean, base.knots[1:] - mean
        return float(np.diff(base.levels) @ (a * a + a * b + b * b) / 3.0)
    general = base if isinstance(base, Recalibrated) else Recalibrated(base, IDENTITY)
    general._require_a_moment(2)
    mean = base.mean
    ends, weight, cdf = general._pieces
    middle, half = 0.5 * ends[1:] + 0.5 * ends[:-1], 0.5 * ends[1:] - 0.5 * ends[:-1]
    t = middle[:, np.newaxis] + half[:, np.newaxis] * NODES
    # Var Y = 2 ∫ |t − c|·P(Y beyond t) dt − (mean − c)², at an end c
    c = ends[int(np.searchsorted(cdf[:, 0], 0.5))]
    beyond = np.where(t < c, cdf, 1.0 - cdf)
    return float(2.0 * np.sum(weight * np.abs(t - c) * beyond) - (mean - c) ** 2)


# -- atoms -------------------------------------------------------------------------------------------------------


def atoms_of(distribution: Any) -> FloatArray | None:
    """Return the ascending values of a discrete distribution with `pmf` and `ppf`, such as one of scipy.stats.

    None for any other distribution, for values that are not one apart, and for too many values.
    """
    if isinstance(distribution, CalibratedDistribution) or not callable(getattr(distribution, "pmf", None)):
        return None
    low, middle, high = quantiles_of(distribution, np.array([LEAST_ATOM, 0.5, HIGHEST_LEVEL])).tolist()
    step = max(high - middle, 1.0)
    while high - low <= MOST_ATOMS and _mass_above(distribution, high) > LEAST_ATOM:  # where `isf` may have no answer
        high += step
    if not (math.isfinite(low) and high - low <= MOST_ATOMS):
        return None
    atoms = low + np.arange(high - low + 1.0)
    return atoms if abs(float(np.sum(distribution.pmf(atoms))) - 1.0) <= ALL_MASS else None


def _mass_above(distribution: Any, t: float) -> float:
    sf = getattr(distribution, "sf", None)
    return float(sf(t) if callable(sf) else 1.0 - distribution.cdf(t))


def _counts(distribution: Distribution, atoms: FloatArray, ramp: Piecewise | Ramp) -> Piecewise:
    """Return R(F(t)) of a distribution on these atoms."""
    if isinstance(ramp, Piecewise):
        after = ramp.cdf(np.clip(np.asarray(distribution.cdf(atoms), dtype=np.float64), 0.0, 1.0))
    else:
        after = ramp.level_at(normal_scores(distribution, atoms))
    after = np.maximum.accumulate(np.append(after[:-1], 1.0))
    levels = np.column_stack((np.concatenate(([0.0], after[:-1])), after)).ravel()
    return Piecewise(np.repeat(atoms, 2), levels)


def _on_levels(ramp: Ramp) -> Piecewise:
    """Return R over u, linear between its knots that are distinct in u."""
    z = ramp.score_knots if len(ramp.score_knots) else SCORES
    u = ndtr(z)
    inside = (u > 0.0) & (u < 1.0)
    u, z = u[inside], z[inside]
    jump = np.concatenate(([False], np.diff(u) == 0.0))
    before = -np.expm1(ramp.log_tails(np.nextafter(z, -math.inf))[1])
    followed = np.concatenate((jump[1:], [False]))
    levels = np.maximum.accumulate(np.clip(np.where(followed, before, ramp.level_at(z)), 0.0, 1.0))
    return Piecewise(np.concatenate(([0.0], u, [1.0])), np.concatenate(([0.0], levels, [1.0])))


def _piecewise(base: Piecewise, ramp: Piecewise) -> Piecewise:
    """Return R ∘ F: it has the knots of F, and one where F passes a knot of R; two of them where R jumps."""
    passed = np.setdiff1d(ramp.knots, base.levels)
    jumps = np.unique(ramp.knots[1:][np.diff(ramp.knots) == 0.0])
    levels = np.concatenate((base.levels, passed))
    x = np.concatenate((base.knots, base.ppf(passed), base.ppf(jumps)))
    before = ramp.levels[np.searchsorted(ramp.knots, jumps, side="left")]  # the lower end of each jump
    heights = np.concatenate((ramp.cdf(levels), before))
    heights[: len(base.knots)][base.levels == 0.0] = 0.0
    order = np.lexsort((x, heights))
    return Piecewise(np.maximum.accumulate(x[order]), heights[order])


# -- other distributions -------------------------------------------------------------------------------------------


class Pieces(NamedTuple):
    """A cdf at the nodes of a quadrature, in pieces between `ends`; nodes and weights have shape (pieces, nodes)."""

    ends: FloatArray
    weight: FloatArray
    cdf: FloatArray


class Recalibrated(CalibratedDistribution):
    """The distribution with the cdf R(F(t)), for a base F and a piecewise linear map R of levels.

    A method for which the base lacks a method raises `CapabilityError`, and so does `mean` where there is none, as of a
    Cauchy distribution: `pdf` needs its `pdf` (or `logpdf`); quantiles use its `ppf`, or else bisection of its cdf.

    cdf, pdf and ppf are exact: R(F(t)), R′(F(t))·f(t), F⁻¹(R⁻¹(q)). The mean and the CRPS are integrals over outcomes,
    by Gauss-Legendre quadrature between quantiles: accurate to 1e-9 of the standard deviation for normal distributions,
    and less accurate where quantiles grow faster at the ends. Atoms of the base with a mass above the distance of these
    quantiles, 0.2 in the middle, are exact. Cost: cdf, pdf and ppf one call of the base and O(log m) for m knots of R;
    mean and CRPS a vectorised call of its cdf at O(m) outcomes, made once.

    Examples
    --------
    >>> ramp = Piecewise([0.0, 0.5, 1.0], [0.0, 0.25, 1.0])
    >>> skewed = Recalibrated(Normal(0.0, 1.0), ramp)
    >>> skewed.cdf(0.0), round(skewed.mean, 6)
    (0.25, 0.398942)
    """

    ramp: Any

    def __init__(self, base: Distribution, ramp: Piecewise) -> None:
        self.base = base
        self.ramp = ramp

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base!r}, {self.ramp!r})"

    @property
    def mean(self) -> float:
        self._require_a_moment(1)
        ends, weight, cdf = self._pieces
        origin = int(np.searchsorted(cdf[:, 0], 0.5))  # the first piece above the median
        above, below = np.sum(weight[origin:] * (1.0 - cdf[origin:])), np.sum(weight[:origin] * cdf[:origin])
        return float(ends[origin] + (above - below))

    def _cdf(self, t: FloatArray) -> FloatArray:
        return self.ramp._cdf(self._base_cdf(t))

    def _pdf(self, t: FloatArray) -> FloatArray:
        return np.exp(self._log_prob(t))

    def _log_prob(self, y: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = self._log_slope(y)
            return np.where(np.isneginf(slope), slope, slope + self._base_log_prob(y))

    def _ppf(self, level: FloatArray) -> FloatArray:
        return quantiles_of(self.base, self.ramp._ppf(level))

    def _crps(self, y: FloatArray) -> FloatArray:
        ends, weight, cdf = self._pieces
        left = np.concatenate(([0.0], np.cumsum(np.sum(weight * cdf**2, axis=1))))  # up to each end, of F²
        right = np.sum(weight * (1.0 - cdf) ** 2, axis=1)
        right = np.concatenate((np.cumsum(right[::-1])[::-1], [0.0]))  # from each end on, of (1 − F)²
        scores = []
        for outcome in np.ravel(y).tolist():
            within = min(max(outcome, ends[0]), ends[-1])
            i = min(max(int(np.searchsorted(ends, within, side="right")), 1), len(ends) - 1)
            split = self._squared(ends[i - 1], within, 0.0) + self._squared(within, ends[i], 1.0)
            scores.append(abs(outcome - within) + left[i - 1] + split + right[i])
        return np.reshape(scores, np.shape(y))

    def _squared(self, low: float, high: float, target: float) -> float:
        """Return ∫ (F − target)² from low to high, within a piece."""
        middle, half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
        return float(half * (WEIGHTS @ (self._cdf(middle + half * NODES) - target) ** 2))

    @cached_property
    def _pieces(self) -> Pieces:
        """The cdf on smooth pieces between quantiles, from one negligible tail to the other."""
        low, high = self._outer()  # NaN and infinities where a base does not know
        inner = self.base
        bends = [self._smooth_ends()]
        while isinstance(inner, Recalibrated):  # a chain of maps bends at the knots of each
            bends.append(inner._smooth_ends())
            inner = inner.base
        bounds = np.concatenate((*bends, self._at_normal_scores(SCORES), (low, high)))
        ends = np.unique(bounds[np.isfinite(bounds) & ~(bounds < low) & ~(bounds > high)])
        if len(ends) == 0:  # no finite quantile: no mean and no score
            ends = np.array([math.nan, math.nan])
        elif len(ends) == 1:  # a single value
            ends = np.array([ends[0], np.nextafter(ends[0], math.inf)])
        middle, half = 0.5 * ends[1:] + 0.5 * ends[:-1], 0.5 * ends[1:] - 0.5 * ends[:-1]
        t = middle[:, np.newaxis] + half[:, np.newaxis] * NODES
        return Pieces(ends, half[:, np.newaxis] * WEIGHTS, self._cdf(t.ravel()).reshape(t.shape))

    def _require_a_moment(self, order: int) -> None:
        """Raise `CapabilityError` if a tail is so heavy that there is no mean (order 1), or no variance (2)."""
        near_mass, far_mass = (level ** (1.0 / order) for level in TAIL_LEVELS)
        least = TAIL_DECREASE ** (1.0 / order)
        far = ndtri(np.array(TAIL_LEVELS))
        centre = self._ppf(np.array(0.5))
        for sign in (1.0, -1.0):
            with np.errstate(invalid="ignore"):  # ∞ − ∞ of a base that does not know them
                spread = np.abs(self._at_normal_scores(sign * far) - centre)
            if np.isfinite(spread).all() and spread[1] * far_mass > least * spread[0] * near_mass:
                name, instead = ("mean", "median, ppf(0.5)") if order == 1 else ("variance", "interval(0.9)")
                raise CapabilityError(f"{self!r} has no {name}: its tail is too heavy; use its {instead}")

    # -- what depends on the kind of the map -------------------------------------------------------------------------

    def _log_slope(self, t: FloatArray) -> FloatArray:
        """Return log R′ at F(t)."""
        return np.log(self.ramp._pdf(self._base_cdf(t)))

    def _smooth_ends(self) -> FloatArray:
        """Return quantiles of the base between which R ∘ F is smooth."""
        return np.concatenate((quantiles_at_scores(self.base, SCORES), quantiles_of(self.base, self.ramp.knots)))

    def _outer(self) -> FloatArray:
        """Return the quantiles at the least level and at 1 minus it, finite if the base is bounded."""
        low, high = self.ramp._ppf(np.array([LEAST_TAIL, 1.0]))
        cut = np.array([max(low, 0.0), min(high, 1.0)])
        return quantiles_of(self.base, cut)

    # -- the base ------------------------------------------------------------------------------------------------

    def _base_cdf(self, t: FloatArray) -> FloatArray:
        return np.clip(evaluated(self.base, "cdf", t), 0.0, 1.0)

    def _base_log_prob(self, y: FloatArray) -> FloatArray:
        for name in ("log_prob", "logpdf"):
            if callable(getattr(self.base, name, None)):
                return evaluated(self.base, name, y)
        if not callable(getattr(self.base, "pdf", None)):
            raise CapabilityError(f"{self.base!r} has no pdf, which is needed here; add one")
        return np.log(evaluated(self.base, "pdf", y))


class Rescored(Recalibrated):
    """The distribution with the cdf R(F(t)), where R is given at normal scores and accurate in both tails.

    The tails of the base are read from `logcdf`, `logsf` and `isf` where it has them. Accuracy and cost are those of
    `Recalibrated`. Where the base is a normal distribution, also under further ramps, and every ramp is given at knots,
    the mean and the CRPS are integrals in one compiled pass over the normal scores between knots, accurate to 1e-9 of
    the standard deviation, and a quantile is one compiled call.

    Examples
    --------
    >>> wider = Rescored(Normal(0.0, 1.0), NormalRamp(0.0, 3.0))
    >>> round(wider.ppf(0.9), 4), round(wider.log_prob(30.0), 4)
    (3.8447, -52.0176)
    """

    ramp: Ramp

    def __init__(self, base: Distribution, ramp: Ramp) -> None:
        self.base = base
        self.ramp = ramp

    @cached_property
    def _over_normal(self) -> tuple[float, float, RampChain] | None:
        """Mean and deviation of the normal distribution under a chain of ramps, and the chain; None for other bases."""
        inner: Any = self
        ramps: list[ScoreRamp] = []
        while type(inner) is Rescored and isinstance(inner.ramp, ScoreRamp):
            ramps.append(inner.ramp)
            inner = inner.base
        return (inner.mean, inner.sd, ramps[0].chain(tuple(ramps[:0:-1]))) if ramps and type(inner) is Normal else None

    @property
    def mean(self) -> float:
        normal = self._over_normal
        if normal is None:
            return super().mean
        mean, sd, chain = normal
        return mean + sd * chain.mean()

    def ppf(self, level: Any, /) -> Any:
        """Return the quantile: the smallest t with cdf(t) ≥ level, for levels in [0, 1]."""
        normal = self._over_normal if level.__class__ is float and 0.0 <= level <= 1.0 else None
        if normal is None:
            return super().ppf(level)
        mean, sd, chain = normal
        upper, depth = chain.depth(level)
        z = float(ndtri_exp(-depth))
        return mean + sd * (max(-z, 0.0) if upper else min(z, 0.0))

    def _crps(self, y: FloatArray) -> FloatArray:
        normal = self._over_normal
        if normal is None or not np.isfinite(y).all():
            return super()._crps(y)
        mean, sd, chain = normal
        errors = np.ravel(y) - mean
        scores = [abs(one) + sd * chain.beyond_distance(one / sd) for one in errors.tolist()]
        return np.reshape(scores, np.shape(y))

    def cdf(self, t: Any, /) -> Any:
        base = self.base
        if t.__class__ is float and t == t and type(base) is Normal:  # the most frequent one
            return self.ramp.level((t - base.mean) / base.sd)
        return super().cdf(t)

    def _cdf(self, t: FloatArray) -> FloatArray:
        return self.ramp.level_at(normal_scores(self.base, t))

    def _ppf(self, level: FloatArray) -> FloatArray:
        return quantiles_at_scores(self.base, self.ramp.scores(level))

    def _normal_scores(self, t: FloatArray) -> FloatArray:
        return self.ramp.outgoing(normal_scores(self.base, t))

    def _at_normal_scores(self, z: FloatArray) -> FloatArray:
        return quantiles_at_scores(self.base, self.ramp.at_normal_scores(z))

    def _log_slope(self, t: FloatArray) -> FloatArray:
        return self.ramp.log_slope(normal_scores(self.base, t))

    def _smooth_ends(self) -> FloatArray:
        return quantiles_at_scores(self.base, np.concatenate((SCORES, self.ramp.score_knots)))

    def _outer(self) -> FloatArray:
        least = np.array(LEAST_TAIL)
        scores = np.array([self.ramp.scores(least), self.ramp.scores_above(least)])
        return quantiles_at_scores(self.base, scores)


class Wrapped(CalibratedDistribution):
    """The distribution `inner`, a `base` after the map `learned`; subclasses give it other intervals."""

    learned: Any

    def __init__(self, inner: CalibratedDistribution, base: Distribution, learned: Any) -> None:
        self.inner, self.base, self.learned = inner, base, learned

    def __repr__(self) -> str:
        return repr(self.inner)

    @property
    def mean(self) -> float:
        return self.inner.mean

    def _cdf(self, t: FloatArray) -> FloatArray:
        return self.inner._cdf(t)

    def _pdf(self, t: FloatArray) -> FloatArray:
        return self.inner._pdf(t)

    def _log_prob(self, y: FloatArray) -> FloatArray:
        return self.inner._log_prob(y)

    def _ppf(self, level: FloatArray) -> FloatArray:
        return self.inner._ppf(level)

    def _crps(self, y: FloatArray) -> FloatArray:
        return self.inner._crps(y)

    def _normal_scores(self, t: FloatArray) -> FloatArray:
        return self.inner._normal_scores(t)

    def _at_normal_scores(self, z: FloatArray) -> FloatArray:
        return self.inner._at_normal_scores(z)
