"""Maps of levels, given at normal scores z = Φ⁻¹(u), so that levels beyond the precision of 1 − u are distinct.

A calibrated distribution has the cdf R(F(t)); here are the R. The lower half of R is given by log R over the logarithm
of the mass below, the upper half by log(1 − R) over that of the mass above, each accurate in its tail.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import cached_property
from operator import is_not
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp

from streamcal.kernels.normal.ramp_chain import RampChain, depths_of
from streamcal.parameters.showing import shown, shown_table
from streamcal.parameters.types import FloatArray
from streamcal.regression.reading import LAST_SCORE

#: −log ½: the depth at which both tails begin.
MIDDLE = math.log(2.0)
#: The next depth, which is in the first piece that has a width, where a knot is in the middle itself.
AFTER_MIDDLE = math.nextafter(MIDDLE, math.inf)
#: Up to this many levels are read one by one: a step of a stream asks for one or two, which are in few pieces.
FEW = 2

Side = Literal["left", "right"]


class Ramp(ABC):
    """A nondecreasing, right-continuous map R of levels u = Φ(z), from 0 to 1."""

    __repr__ = shown
    _repr_html_ = shown_table

    #: Normal scores at which R is not smooth.
    score_knots: FloatArray

    @abstractmethod
    def log_tails(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return log R and log(1 − R) at z, the smaller of the two to full relative precision."""

    @abstractmethod
    def log_slope(self, z: FloatArray) -> FloatArray:
        """Return log dR/du at z."""

    @abstractmethod
    def scores(self, level: FloatArray) -> FloatArray:
        """Return the smallest z with R ≥ level."""

    @abstractmethod
    def scores_above(self, mass: FloatArray) -> FloatArray:
        """Return the smallest z with 1 − R ≤ mass."""

    def cdf(self, u: ArrayLike) -> FloatArray:
        """Return R of levels u in [0, 1]."""
        return self.level_at(ndtri(np.asarray(u, dtype=np.float64)))

    def level_at(self, z: FloatArray) -> FloatArray:
        """Return R at z."""
        low, high = self.log_tails(z)
        return np.where(low < high, np.exp(low), -np.expm1(high))

    def level(self, z: float) -> float:
        """Return R at one z."""
        return float(self.level_at(np.array(z)))

    def outgoing(self, z: FloatArray) -> FloatArray:
        """Return the normal scores Φ⁻¹(R)."""
        low, high = self.log_tails(z)
        return np.where(low < high, ndtri_exp(np.minimum(low, 0.0)), -ndtri_exp(np.minimum(high, 0.0)))

    def at_normal_scores(self, z: FloatArray) -> FloatArray:
        """Return the base scores at which R has the level Φ(z)."""
        return np.where(z <= 0.0, self.scores(ndtr(z)), self.scores_above(ndtr(-z)))


class NormalRamp(Ramp):
    """R(u) = Φ((Φ⁻¹(u) − shift)/scale): of a normal distribution, another mean and another standard deviation."""

    def __init__(self, shift: float, scale: float) -> None:
        self.shift = shift
        self.scale = scale
        self.score_knots = np.empty(0)

    def _z(self, z: FloatArray) -> FloatArray:
        return (z - self.shift) / self.scale

    def log_tails(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        return log_ndtr(self._z(z)), log_ndtr(-self._z(z))

    def log_slope(self, z: FloatArray) -> FloatArray:
        slope: FloatArray = 0.5 * (z - self._z(z)) * (z + self._z(z)) - math.log(self.scale)
        return np.where(np.isinf(z), -math.inf, slope)  # there R is constant

    def scores(self, level: FloatArray) -> FloatArray:
        return self.shift + self.scale * ndtri(level)

    def scores_above(self, mass: FloatArray) -> FloatArray:
        return self.shift - self.scale * ndtri(mass)

    def outgoing(self, z: FloatArray) -> FloatArray:
        return self._z(z)

    def at_normal_scores(self, z: FloatArray) -> FloatArray:
        return self.shift + self.scale * z


class ScoreRamp(Ramp):
    """R given at knots: normal scores, ascending and finite; two equal ones are a jump of R.

    `below` and `above` are R and 1 − R at the knots, each without cancellation. Between knots, with `geometric`, the
    logarithm of the tail (R in the lower half, 1 − R in the upper) is linear in the logarithm of the predicted mass of
    that tail; otherwise the tail in that mass. The identity is either. Of a cell that is far out, nearly all of the
    predicted mass is at its inner end; the first spreads what was observed in it. `depths` are `depths_of(knots)`, if
    they are known. Beyond the last knot the tail is proportional to the predicted one. Cost: O(m) once, then O(log m)
    for each value.
    """

    def __init__(
        self, knots: FloatArray, below: FloatArray, above: FloatArray, geometric: bool, depths: FloatArray | None = None
    ) -> None:
        self.score_knots = self.knots = knots
        self.below = below
        self.above = above
        self.geometric = geometric
        self._depths = depths
        self._last_chain: tuple[tuple[ScoreRamp, ...], RampChain] | None = None

    @cached_property
    def _middle(self) -> tuple[float, float]:
        """R and 1 − R before and after the middle."""
        return _at_the_middle(self.knots, self.below, self.above)

    @cached_property
    def _lower(self) -> Tail:
        """R of the lower half, from the middle on."""
        upto = int(np.searchsorted(self.knots, 0.0, side="right"))
        depth, mass = -log_ndtr(self.knots[:upto])[::-1], self.below[:upto][::-1]
        return Tail(depth, mass, self._middle[0], self.geometric)

    @cached_property
    def _upper(self) -> Tail:
        """1 − R of the upper half, from the middle on."""
        start = int(np.searchsorted(self.knots, 0.0, side="left"))
        return Tail(-log_ndtr(-self.knots[start:]), self.above[start:], self._middle[1], self.geometric)

    @cached_property
    def _centre(self) -> float:
        """R of the middle itself, which includes a jump there."""
        after = int(np.searchsorted(self.knots, 0.0, side="right"))
        return float(self.below[after - 1]) if after and self.knots[after - 1] == 0.0 else self._middle[0]

    def chain(self, inner: tuple[ScoreRamp, ...]) -> RampChain:
        """Return this ramp applied after those of `inner`, innermost first; kept for the next forecast."""
        last = self._last_chain
        if last is None or len(last[0]) != len(inner) or any(map(is_not, last[0], inner)):
            last = self._last_chain = inner, RampChain(*[one._for_chain() for one in (*inner, self)])
        return last[1]

    def _for_chain(self) -> tuple[Any, ...]:
        """Return the ramp as `RampChain` takes it."""
        depths = depths_of(self.knots) if self._depths is None else self._depths
        return self.knots, depths, self.below, self.above, self.geometric

    def log_tails(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        lower = z < 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = self._log_halves(z, lower)
            return np.where(lower, low, np.log(-np.expm1(high))), np.where(lower, np.log(-np.expm1(low)), high)

    def level_at(self, z: FloatArray) -> FloatArray:
        # Each half from its own tail, and on its side of the middle, so that R is nondecreasing to the last bit.
        lower = z < 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = self._log_halves(z, lower)
            return np.where(lower, np.minimum(np.exp(low), self._centre), np.maximum(-np.expm1(high), self._centre))

    def _log_halves(self, z: FloatArray, lower: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
        """Return log R for z in the lower half, and log(1 − R) for z in the upper half; other values are arbitrary."""
        low = high = np.zeros(np.shape(z))
        if lower.any():  # a half costs as much as both
            low = self._lower.log_mass(-log_ndtr(np.minimum(z, 0.0)), "left")
        if not lower.all():
            high = self._upper.log_mass(-log_ndtr(-np.maximum(z, 0.0)), "right")
        return low, high

    def log_slope(self, z: FloatArray) -> FloatArray:
        with np.errstate(divide="ignore", invalid="ignore"):
            low = self._lower.log_slope(-log_ndtr(np.minimum(z, 0.0)))
            high = self._upper.log_slope(-log_ndtr(-np.maximum(z, 0.0)))
        jumps = np.isin(z, self.score_knots[1:][np.diff(self.score_knots) == 0.0])
        return np.where(jumps, np.inf, np.where(z < 0.0, low, high))

    def scores(self, level: FloatArray) -> FloatArray:
        lower = level <= self._centre
        with np.errstate(divide="ignore", invalid="ignore"):
            low = ndtri_exp(-self._lower.deepest(np.where(lower, level, self._centre)))
            return np.where(lower, np.minimum(low, 0.0), self._score_above(np.where(lower, 0.0, 1.0 - level)))

    def scores_above(self, mass: FloatArray) -> FloatArray:
        upper = mass < 1.0 - self._centre
        with np.errstate(divide="ignore", invalid="ignore"):
            low = ndtri_exp(-self._lower.deepest(np.where(upper, self._centre, 1.0 - mass)))
            return np.where(upper, self._score_above(np.where(upper, mass, 0.0)), np.minimum(low, 0.0))

    def at_normal_scores(self, z: FloatArray) -> FloatArray:
        scores = super().at_normal_scores(z)
        far = np.isfinite(z) & (np.abs(z) > LAST_SCORE)
        if not far.any():
            return scores
        # Beyond the last knots with mass: there logarithms know levels that no float holds.
        depth = -log_ndtr(-np.abs(z))
        with np.errstate(invalid="ignore"):
            low, high = ndtri_exp(-self._lower.beyond(depth)), -ndtri_exp(-self._upper.beyond(depth))
        mass = np.where(z < 0.0, self._lower.mass[-1], self._upper.mass[-1])
        return np.where(far & (mass > 0.0), np.where(z < 0.0, low, high), scores)

    def _score_above(self, mass: FloatArray) -> FloatArray:
        return np.maximum(-ndtri_exp(-self._upper.shallowest(mass)), 0.0)


def _at_the_middle(z: FloatArray, below: FloatArray, above: FloatArray) -> tuple[float, float]:
    """Return R(½) and 1 − R(½), linear in u between the knots around; with knots at 0, the ends of the jump."""
    here = np.flatnonzero(z == 0.0)
    if len(here):
        return float(below[here[-1]]), float(above[here[0]])
    after = int(np.searchsorted(z, 0.0))
    u0, c0, a0 = (ndtr(z[after - 1]), below[after - 1], above[after - 1]) if after else (0.0, 0.0, 1.0)
    u1, c1, a1 = (ndtr(z[after]), below[after], above[after]) if after < len(z) else (1.0, 1.0, 0.0)
    share = (0.5 - u0) / (u1 - u0) if u0 < u1 else 0.5  # knots that are distinct as scores alone
    return float(c0 + share * (c1 - c0)), float(a0 + share * (a1 - a0))


class Pieces(NamedTuple):
    """Of the pieces between two knots of a tail: what their values are computed from, each of shape (k − 1,)."""

    width: FloatArray
    #: Of geometric pieces the decrease of log S per unit of depth; NaN for linear ones.
    rate: FloatArray
    #: 1 − m₁/m₀ of the two ends of a piece.
    span: FloatArray
    drop: FloatArray


class Tail:
    """A tail S as a function of the depth d = −log m of the predicted mass m, from d = log 2 on.

    `depth`, nondecreasing, and `mass`, nonincreasing, are the knots, shape (k,); the first knot is the middle.
    """

    def __init__(self, depth: FloatArray, mass: FloatArray, middle: float, geometric: bool) -> None:
        self.depth = np.concatenate(([MIDDLE], depth))
        self.mass = np.minimum.accumulate(np.concatenate(([middle], mass)))
        self._geometric = geometric
        with np.errstate(divide="ignore"):
            self._log = np.log(self.mass)

    @cached_property
    def _pieces(self) -> Pieces:
        with np.errstate(divide="ignore", invalid="ignore"):
            width = self.depth[1:] - self.depth[:-1]
            rate = np.where(self.mass[1:] > 0.0, (self._log[:-1] - self._log[1:]) / width, np.nan)
            if not self._geometric:
                rate[:] = np.nan
            return Pieces(width, rate, -np.expm1(-width), self.mass[:-1] - self.mass[1:])

    def _place(self, d: FloatArray, side: Side) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """Return the piece of each depth, and whether it is the last one, without an end."""
        place = np.maximum(np.searchsorted(self.depth, d, side=side) - 1, 0)
        last = place >= len(self.depth) - 1
        return np.minimum(place, max(len(self.depth) - 2, 0)), last

    def log_mass(self, d: FloatArray, side: Side) -> FloatArray:
        """Return log S at a depth; at a jump the value before it (`side` "left") or after it."""
        if np.size(d) <= FEW:
            logs = [self._log_mass_one(one, side) for one in np.ravel(d).tolist()]
            return np.reshape(logs, np.shape(d))
        place, last = self._place(d, side)
        beyond = self._log[-1] - (d - self.depth[-1])
        if len(self.depth) == 1:
            return beyond
        pieces = self._pieces
        into, rate = d - self.depth[place], pieces.rate[place]
        left = np.minimum(into - pieces.width[place], 0.0)
        linear = np.log(
            self.mass[place + 1] + pieces.drop[place] * (np.exp(-into) * -np.expm1(left) / pieces.span[place])
        )
        linear = np.where(left == 0.0, self._log[place + 1], linear)  # at a jump as well
        inside = np.where(np.isnan(rate), linear, self._log[place] - rate * into)
        inside = np.minimum(np.maximum(inside, self._log[place + 1]), self._log[place])
        return np.where(last, beyond, inside)

    def _log_mass_one(self, d: float, side: Side) -> float:
        """Return `log_mass` at one depth, to the last bit, from the piece there alone."""
        place = max(int(self.depth.searchsorted(d, side=side)) - 1, 0)
        if place >= len(self.depth) - 1:
            return float(self._log[-1] - (d - self.depth[-1]))
        (start, end), (before, after) = self.depth[place : place + 2].tolist(), self._log[place : place + 2].tolist()
        mass, left = self.mass[place : place + 2].tolist(), min(d - start - (end - start), 0.0)
        if self._geometric and mass[1] > 0.0 and start < end:
            log_mass = before - (before - after) / (end - start) * (d - start)
        elif left == 0.0:  # at a jump as well
            log_mass = after
        else:
            share = np.exp(start - d) * -np.expm1(left) / -np.expm1(start - end)
            log_mass = float(np.log(mass[1] + (mass[0] - mass[1]) * share))
        return min(max(log_mass, after), before)

    def log_slope(self, d: FloatArray) -> FloatArray:
        """Return log dS/dm at a depth."""
        place, last = self._place(np.maximum(d, AFTER_MIDDLE), "left")
        beyond = np.full(np.shape(d), self._log[-1] + self.depth[-1])
        if len(self.depth) == 1:
            return beyond
        rate = self._pieces.rate[place]
        linear = np.log(self._pieces.drop[place]) + self.depth[place] - np.log(self._pieces.span[place])
        steep = np.log(rate) + self._log[place] - rate * (d - self.depth[place]) + d
        return np.where(last, beyond, np.where(np.isnan(rate), linear, steep))

    def beyond(self, depth: FloatArray) -> FloatArray:
        """Return the depths at which S, beyond its last knot, is e to the power of −`depth`."""
        return self.depth[-1] + self._log[-1] + depth

    def deepest(self, mass: FloatArray) -> FloatArray:
        """Return the largest depth with S ≥ mass."""
        return self._depth_at(mass, np.searchsorted(-self.mass, -mass, side="right") - 1)

    def shallowest(self, mass: FloatArray) -> FloatArray:
        """Return the smallest depth with S ≤ mass."""
        return self._depth_at(mass, np.searchsorted(-self.mass, -mass, side="left") - 1)

    def _depth_at(self, mass: FloatArray, place: NDArray[np.intp]) -> FloatArray:
        """Return the depth at which S has this mass, in the piece that begins at this knot."""
        before, last = place < 0, place >= len(self.depth) - 1
        beyond = np.where(self.mass[-1] > 0.0, self.depth[-1] + self._log[-1] - np.log(mass), self.depth[-1])
        if len(self.depth) == 1:
            return np.where(before, MIDDLE, beyond)
        place = np.clip(place, 0, len(self.depth) - 2)
        pieces = self._pieces
        gone, rate = self.mass[place] - mass, pieces.rate[place]
        left = np.clip((mass - self.mass[place + 1]) / pieces.drop[place], 0.0, 1.0)
        linear = -np.log(1.0 - pieces.span[place] + pieces.span[place] * left)
        steep = (self._log[place] - np.log(mass)) / rate
        into = np.where(gone > 0.0, np.where(np.isnan(rate), linear, steep), 0.0)
        depth = np.minimum(self.depth[place] + into, self.depth[place + 1])
        return np.where(before, MIDDLE, np.where(last, beyond, depth))
