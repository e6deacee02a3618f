"""Scales: from a raw score to the coordinate a method works in, fixed at construction.

A min-max rescaling that follows the data would corrupt moments that are already summed; therefore a scale is a
parameter. `Probability` and `Logit` read the score as a probability and refuse anything outside [0, 1]; `Interval` and
`EmpiricalCDF` accept any finite score. A scale with bounds clamps to them, and a calibrator counts the clamped scores.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import sys
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal.errors import InputError
from streamcal.kernels.common.fast_path import LOGIT_LIMIT as LOGIT_LIMIT
from streamcal.kernels.common.logistic import logit, logits, sigmoid, sigmoids
from streamcal.parameters.inputs import check_scores
from streamcal.parameters.numbers import plain_number
from streamcal.parameters.settings import OMITTED, Setting, is_written
from streamcal.parameters.types import FloatArray

#: No bound of `Logit` is further from 0: weights up to 1e60 times a coordinate have to stay finite.
FURTHEST_LOG_ODDS = 1e6
#: Scores that are outside of [0, 1] by no more may be there by rounding, as of float16.
ROUNDED = 1e-3
#: Knots nearer to each other make slopes too steep for a float; scores nearer to 0 are 0 in a sample, so that none are.
NEAREST, NEAR_ZERO = 1e-300, 1e-280


class Scale(Setting):
    """The contract of a scale: a monotone map from finite scores to coordinates in [lo, hi].

    Where scores fall as the label becomes more likely (credit scores, distances, the probability of the other class),
    ``decreasing=True`` reads the score s as its mirror image: 1 − s for a probability, −s for other scores. The
    coordinate is a nondecreasing function of that *rising score*, so calibrators, maps and their exports need no other
    change.

    Notes
    -----
    Cost: O(1) for a score and O(n) for an array, unless a class states otherwise.
    """

    #: Bounds of the coordinate; infinite where there are none.
    lo: float
    hi: float
    #: Its name in maps written as JSON.
    kind: ClassVar[str]
    #: The scores it accepts.
    domain: ClassVar[tuple[float, float]] = (-sys.float_info.max, sys.float_info.max)
    #: Whether another library may round a coordinate to one of its neighbours.
    rounds: ClassVar[bool] = False
    #: Whether higher scores mean fewer positives.
    decreasing: bool

    def __repr__(self) -> str:
        scale, fields = self._parameters(), dataclasses.fields(self)  # type: ignore[arg-type]
        shown = [f"{field.name}={getattr(scale, field.name)!r}" for field in fields]
        return f"{type(self).__name__}({', '.join(shown if self.decreasing else shown[:-1])})"

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that make this scale again, without those omitted at their defaults."""
        scale, fields = self._parameters(), dataclasses.fields(self)  # type: ignore[arg-type]
        each = {field.name: (getattr(scale, field.name), field) for field in fields}
        return {name: value for name, (value, field) in each.items() if is_written(value, field)}

    def _parameters(self) -> Any:
        """Return the object whose fields are the arguments; a decreasing scale may keep them as of rising scores."""
        return self

    @property
    def increasing(self) -> Self:
        """The scale with the same coordinates for rising scores."""
        if not self.decreasing:
            return self
        settings = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        return type(self)(**settings | {"decreasing": False})

    @property
    def identity_range(self) -> tuple[float, float]:
        """The first and last of the finite scores that are their own coordinates; (∞, −∞) where there are none."""
        return math.inf, -math.inf

    def rising(self, scores: Any) -> Any:
        """Return a score, or an array, as one that rises with the label: itself, or its mirror image."""
        return sum(self.domain) - scores if self.decreasing else scores

    @abstractmethod
    def coordinate(self, score: float) -> float:
        """Return the coordinate of a finite score; `InputError` if the score cannot be on this scale."""

    @abstractmethod
    def coordinates(self, scores: FloatArray) -> FloatArray:
        """Return the coordinates of finite scores, shape (n,)."""

    @abstractmethod
    def clamps(self, score: float) -> bool:
        """Return whether `coordinate` clamps this score to a bound."""

    def probability(self, x: float) -> float:
        """Return the score at coordinate `x` read as a probability: the prediction before anything was learned."""
        return x

    def probabilities(self, x: FloatArray) -> FloatArray:
        """Return `probability` for an array of coordinates."""
        return x

    def logit(self, x: float) -> float:
        """Return the log-odds of `probability(x)`, clamped to ±16."""
        return min(max(logit(self.probability(x)), -LOGIT_LIMIT), LOGIT_LIMIT)

    def logits(self, x: FloatArray) -> FloatArray:
        """Return `logit` for an array of coordinates."""
        return np.clip(logits(self.probabilities(x)), -LOGIT_LIMIT, LOGIT_LIMIT)

    def edges(self, cells: int) -> FloatArray:
        """Return the cells − 1 inner edges of a grid of `cells` cells over the coordinate."""
        self.require_bounds("a grid")
        return np.linspace(self.lo, self.hi, cells + 1)[1:-1]

    def require_bounds(self, what: str) -> None:
        """Raise `InputError` unless the coordinate is bounded."""
        if not (math.isfinite(self.lo) and math.isfinite(self.hi)):
            raise InputError(f"{what} needs a bounded scale, and {self!r} is not; give finite lo and hi")

    def unit(self, x: float) -> float:
        """Map the coordinate linearly onto [0, 1]."""
        return (x - self.lo) / (self.hi - self.lo)

    def units(self, x: FloatArray) -> FloatArray:
        """Return `unit` for an array."""
        return (x - self.lo) / (self.hi - self.lo)

    def count_clamped(self, scores: FloatArray) -> int:
        """Count the scores that are clamped to a bound."""
        return 0

    def require(self, scores: FloatArray) -> None:
        """Raise `InputError` unless all scores can be on this scale."""
        self.coordinates(scores)

    # -- elsewhere -----------------------------------------------------------------------------------------------

    def portable(self) -> dict[str, Any]:
        """Return plain data for maps written as JSON; an infinite bound is None. See `docs/map_format.md`."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}  # type: ignore[arg-type]
        turned = {"decreasing": True} if fields.pop("decreasing") else {}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in fields.items()}
        return {"kind": self.kind} | {
            name: None if value in (-math.inf, math.inf) else value for name, value in (plain | turned).items()
        }

    def first_scores(self, x: FloatArray) -> FloatArray:
        """Return the smallest score with a coordinate of at least x[i]; −∞ if all scores have it and ∞ if none has.

        Exact to the last bit, so that a map and its SQL agree at every score.
        """
        first, last = (self.coordinates(np.array([end]))[0] for end in self.domain)
        scores_from = first_floats(lambda scores: self.coordinates(scores) >= x, self.domain, len(x))
        return np.where(first >= x, -math.inf, np.where(last < x, math.inf, scores_from))


def first_floats(reached: Callable[[FloatArray], NDArray[np.bool_]], ends: tuple[Any, Any], n: int) -> FloatArray:
    """Find the smallest s[i] with reached(s)[i], shape (n,), by bisection over the floats; at most 64 evaluations.

    Both `ends` are numbers, or have shape (n,).

    `reached` must be monotone in s; it is assumed to be false at the first end and true at the last.
    """
    low, high = (np.full(n, key, dtype=np.int64) for key in _keys(np.array(ends)))
    while (low + 1 < high).any():
        middle = (low >> 1) + (high >> 1) + (low & high & 1)
        there = reached(_floats(middle))
        low, high = np.where(there, low, middle), np.where(there, middle, high)
    return _floats(high)


def _keys(x: FloatArray) -> NDArray[np.int64]:
    """Return integers in the order of the floats, neighbouring ones for neighbouring floats."""
    bits = (x + 0.0).view(np.int64)
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)


def _floats(keys: NDArray[np.int64]) -> FloatArray:
    return np.where(keys < 0, np.iinfo(np.int64).min - keys, keys).view(np.float64)


@dataclass(frozen=True, repr=False)
class Probability(Scale):
    """The score is a probability and its own coordinate.

    Parameters
    ----------
    decreasing : bool
        Whether the score is the probability of the other class; the coordinate is then 1 − score.

    Raises
    ------
    InputError
        By `coordinate`, for a score outside [0, 1].

    Examples
    --------
    >>> Probability().coordinate(0.25), Probability(decreasing=True).coordinate(0.25)
    (0.25, 0.75)
    """

    decreasing: bool = field(default=False, kw_only=True, metadata=OMITTED)

    lo = 0.0
    hi = 1.0
    kind = "probability"
    domain = (0.0, 1.0)

    def __post_init__(self) -> None:
        _check_direction(self)

    @property
    def identity_range(self) -> tuple[float, float]:
        return super().identity_range if self.decreasing else (0.0, 1.0)

    def coordinate(self, score: float) -> float:
        if not 0.0 <= score <= 1.0:
            raise InputError(_not_a_probability(score))
        return 1.0 - score if self.decreasing else score

    def coordinates(self, scores: FloatArray) -> FloatArray:
        _check_probabilities(scores)
        return 1.0 - scores if self.decreasing else scores

    def clamps(self, score: float) -> bool:
        return False

    def edges(self, cells: int) -> FloatArray:
        """Return edges equally spaced in log-odds, since click rates are close to 0."""
        return sigmoids(np.linspace(-LOGIT_LIMIT, LOGIT_LIMIT, cells + 1)[1:-1])


@dataclass(frozen=True, repr=False)
class Logit(Scale):
    """The score is a probability; its coordinate is the log-odds, clamped to [lo, hi].

    Parameters
    ----------
    lo, hi : float
        Bounds of the coordinate, finite, default ±16.
    decreasing : bool
        Whether the score is the probability of the other class; the coordinate is then the log-odds of 1 − score.

    Raises
    ------
    InputError
        For bounds that are not within ±1e6 or not lo < hi; by `coordinate`, for a score outside [0, 1].

    Examples
    --------
    >>> Logit(-8, 0).coordinate(0.5)
    0.0
    """

    lo: float = -LOGIT_LIMIT
    hi: float = LOGIT_LIMIT
    decreasing: bool = field(default=False, kw_only=True, metadata=OMITTED)
    kind = "logit"
    rounds = True
    domain = (0.0, 1.0)

    def __post_init__(self) -> None:
        _check_direction(self)
        _check_bounds(self, self.lo, self.hi, finite=True)
        if max(abs(self.lo), abs(self.hi)) > FURTHEST_LOG_ODDS:
            raise InputError(
                f"{self!r} has bounds beyond ±{FURTHEST_LOG_ODDS:g}; no log-odds of a float are beyond ±745"
            )

    def coordinate(self, score: float) -> float:
        if not 0.0 <= score <= 1.0:
            raise InputError(_not_a_probability(score))
        return min(max(logit(1.0 - score if self.decreasing else score), self.lo), self.hi)

    def coordinates(self, scores: FloatArray) -> FloatArray:
        _check_probabilities(scores)
        x: FloatArray = logits(1.0 - scores if self.decreasing else scores)
        return np.clip(x, self.lo, self.hi, out=x)

    def clamps(self, score: float) -> bool:
        return not self.lo <= logit(self.rising(score)) <= self.hi

    def count_clamped(self, scores: FloatArray) -> int:
        scores = self.rising(scores)
        # first a quick look, by bounds within those of the scores that are not clamped
        near = (scores <= 1.001 * sigmoid(self.lo)) | (scores >= 1.0 - 1.001 * sigmoid(-self.hi))
        if not near.any():
            return 0
        z = logits(scores[near])
        return int(np.count_nonzero((z < self.lo) | (z > self.hi)))

    def require(self, scores: FloatArray) -> None:
        _check_probabilities(scores)

    def probability(self, x: float) -> float:
        return sigmoid(x)

    def probabilities(self, x: FloatArray) -> FloatArray:
        return sigmoids(x)

    def logit(self, x: float) -> float:
        """Return the coordinate itself."""
        return x

    def logits(self, x: FloatArray) -> FloatArray:
        return x


@dataclass(frozen=True, repr=False)
class Interval(Scale):
    """Any finite score, clamped to [lo, hi]: margins of a support-vector machine, log-odds, ranks.

    Before the first observation the predicted probability is the position of the score between the bounds or, without
    finite bounds, its sigmoid.

    Parameters
    ----------
    lo, hi : float
        Bounds of the score, default −∞ and ∞. Grids and Bernstein polynomials need finite bounds.
    decreasing : bool
        Whether higher scores mean fewer positives, as of a credit score; the coordinate is then −score, between −hi
        and −lo.

    Examples
    --------
    >>> Interval(-2, 2).coordinate(3.5)
    2.0
    """

    lo: float = -math.inf
    hi: float = math.inf
    decreasing: bool = field(default=False, kw_only=True, metadata=OMITTED)
    kind = "interval"

    def __post_init__(self) -> None:
        _check_direction(self)
        _check_bounds(self, self.lo, self.hi, finite=False)
        if self.decreasing:
            lo, hi = self._mirrored()
            object.__setattr__(self, "lo", lo)
            object.__setattr__(self, "hi", hi)

    def _mirrored(self) -> tuple[float, float]:
        return 0.0 - self.hi, 0.0 - self.lo  # without −0.0

    def _parameters(self) -> Any:
        lo, hi = self._mirrored() if self.decreasing else (self.lo, self.hi)
        return SimpleNamespace(lo=lo, hi=hi, decreasing=self.decreasing)

    @property
    def identity_range(self) -> tuple[float, float]:
        if self.decreasing:
            return super().identity_range
        return max(self.lo, self.domain[0]), min(self.hi, self.domain[1])

    def coordinate(self, score: float) -> float:
        return min(max(0.0 - score if self.decreasing else score, self.lo), self.hi)

    def coordinates(self, scores: FloatArray) -> FloatArray:
        return np.clip(self.rising(scores), self.lo, self.hi)

    def clamps(self, score: float) -> bool:
        return not self.lo <= self.rising(score) <= self.hi

    def count_clamped(self, scores: FloatArray) -> int:
        scores = self.rising(scores)
        return int(np.count_nonzero((scores < self.lo) | (scores > self.hi)))

    def probability(self, x: float) -> float:
        if math.isinf(self.lo) or math.isinf(self.hi):
            return sigmoid(x)
        return self.unit(x)

    def probabilities(self, x: FloatArray) -> FloatArray:
        if math.isinf(self.lo) or math.isinf(self.hi):
            return sigmoids(x)
        return self.units(x)

    def logit(self, x: float) -> float:
        return super().logit(x) if math.isfinite(self.hi - self.lo) else min(max(x, -LOGIT_LIMIT), LOGIT_LIMIT)

    def logits(self, x: FloatArray) -> FloatArray:
        return super().logits(x) if math.isfinite(self.hi - self.lo) else np.clip(x, -LOGIT_LIMIT, LOGIT_LIMIT)


@dataclass(frozen=True, repr=False)
class EmpiricalCDF(Scale):
    """The score's rank in a fixed sample: linear between `knots`, at which it takes the values `ranks`.

    Parameters
    ----------
    knots : tuple of float
        Strictly increasing scores, two or more.
    ranks : tuple of float
        Their ranks, strictly increasing from 0 to 1.
    decreasing : bool
        Whether higher scores mean fewer positives; the coordinate is then 1 − rank.

    Notes
    -----
    Usually made by `from_scores`. Cost: O(log m) for a score and m knots; O(m) memory.

    Examples
    --------
    >>> EmpiricalCDF.from_scores([3.0, 1.0, 2.0]).coordinate(2.0)
    0.5
    """

    knots: tuple[float, ...]
    ranks: tuple[float, ...]
    decreasing: bool = field(default=False, kw_only=True, metadata=OMITTED)

    lo = 0.0
    hi = 1.0
    kind = "empirical-cdf"
    rounds = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "knots", tuple(float(knot) for knot in self.knots))
        object.__setattr__(self, "ranks", tuple(float(rank) for rank in self.ranks))
        if len(self.knots) != len(self.ranks) or len(self.knots) < 2 or not (_rises(self.knots) and _rises(self.ranks)):
            raise InputError("EmpiricalCDF needs two or more strictly increasing knots and ranks; use from_scores")
        if self.ranks[0] != 0.0 or self.ranks[-1] != 1.0:
            raise InputError("the ranks of an EmpiricalCDF go from 0 to 1")
        if not all(NEAREST <= b - a < math.inf for a, b in itertools.pairwise(self.knots)):
            raise InputError(f"an EmpiricalCDF needs finite knots at least {NEAREST:g} apart; use from_scores")
        _check_direction(self)
        object.__setattr__(self, "_as_constructed", SimpleNamespace(**vars(self)))
        if self.decreasing:
            object.__setattr__(self, "knots", tuple(0.0 - knot for knot in reversed(self.knots)))
            object.__setattr__(self, "ranks", tuple(1.0 - rank for rank in reversed(self.ranks)))

    def _parameters(self) -> Any:
        return self._as_constructed  # type: ignore[attr-defined]

    @classmethod
    def from_scores(cls, sample: ArrayLike, knots: int = 257, *, decreasing: bool = False) -> Self:
        """Make the scale of a warm-up sample, kept at quantiles; a tied value gets the mean of its ranks.

        Parameters
        ----------
        sample : array-like of shape (n,)
            Scores, at least two of them different.
        knots : int
            Largest number of knots, default 257.
        decreasing : bool
            See `EmpiricalCDF`.

        Returns
        -------
        EmpiricalCDF

        Raises
        ------
        InputError
            For fewer than two different scores.
        """
        scores = check_scores(sample)
        if len(scores) == 0 or scores.min() == scores.max():
            raise InputError("EmpiricalCDF.from_scores needs a sample with at least two different scores")
        levels = np.linspace(0.0, 1.0, min(knots, len(scores)))
        quantiles = np.quantile(scores, levels)
        quantiles[np.abs(quantiles) < NEAR_ZERO] = 0.0
        values, group = np.unique(quantiles, return_inverse=True)
        ranks = np.bincount(group, weights=levels) / np.bincount(group)
        ranks[0], ranks[-1] = 0.0, 1.0
        return cls(tuple(values.tolist()), tuple(ranks.tolist()), decreasing=decreasing)

    def coordinate(self, score: float) -> float:
        return float(np.interp(self.rising(score), self.knots, self.ranks))

    def coordinates(self, scores: FloatArray) -> FloatArray:
        return np.interp(self.rising(scores), self.knots, self.ranks)

    def clamps(self, score: float) -> bool:
        return not self.knots[0] <= self.rising(score) <= self.knots[-1]

    def count_clamped(self, scores: FloatArray) -> int:
        scores = self.rising(scores)
        return int(np.count_nonzero((scores < self.knots[0]) | (scores > self.knots[-1])))


def _check_direction(scale: Scale) -> None:
    """Check `decreasing` and set it as a bool."""
    if not isinstance(scale.decreasing, (bool, np.bool_)):
        raise InputError(f"decreasing={scale.decreasing!r} is not possible; give True or False")
    object.__setattr__(scale, "decreasing", bool(scale.decreasing))


def _check_bounds(scale: Scale, lo: float, hi: float, *, finite: bool) -> None:
    """Check bounds, lo < hi and finite where required, and set them as floats."""
    written = f"{type(scale).__name__}({lo!r}, {hi!r})"
    lo, hi = plain_number(lo), plain_number(hi)
    if not lo < hi:
        raise InputError(f"{written} needs numbers lo < hi")
    largest = sys.float_info.max
    if -math.inf < lo and hi < math.inf and (max(-lo, hi) > largest or hi - lo > largest):
        raise InputError(f"{written} is wider than the largest float; give nearer bounds")
    if finite and not (math.isfinite(lo) and math.isfinite(hi)):
        raise InputError(f"{written} needs finite bounds")
    object.__setattr__(scale, "lo", float(lo))
    object.__setattr__(scale, "hi", float(hi))


def _rises(values: tuple[float, ...]) -> bool:
    """Return whether the values are strictly increasing."""
    return all(a < b for a, b in itertools.pairwise(values))


def _check_probabilities(scores: FloatArray) -> None:
    """Raise `InputError` naming the first score outside [0, 1]."""
    if len(scores) and (scores.min() < 0.0 or scores.max() > 1.0):  # quicker than two comparisons and their union
        place = int(np.argmax((scores < 0.0) | (scores > 1.0)))
        raise InputError(f"scores[{place}]: {_not_a_probability(float(scores[place]))}")


def _not_a_probability(score: float) -> str:
    remedy = "divide percentages by 100; " if 1.0 < score <= 100.0 else ""
    if -ROUNDED <= score <= 1.0 + ROUNDED:
        remedy = "if rounding has moved it, clip it to [0, 1]; "
    return (
        f"score {score!r} is not a probability in [0, 1]; {remedy}for margins or other scores choose a scale, "
        "such as Interval(lo, hi)"
    )
