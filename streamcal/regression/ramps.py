"""Maps of levels, given at normal scores z = Φ⁻¹(u), so that levels beyond the precision of 1 − u are distinct.

A calibrated distribution has the cdf R(F(t)); here are the R. The lower half of R is given by log R over the logarithm
of the mass below, the upper half by log(1 − R) over that of the mass above, each accurate in its tail.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp

from streamcal.parameters.showing import Shown
from streamcal.parameters.types import FloatArray

#: −log ½: the depth at which both tails begin.
MIDDLE = math.log(2.0)
#: The next depth, which is in the first piece that has a width, where a knot is in the middle itself.
AFTER_MIDDLE = math.nextafter(MIDDLE, math.inf)


class Ramp(Shown, ABC):
    """A nondecreasing, right-continuous map R of levels u = Φ(z), from 0 to 1."""

    #: Normal scores at which R is not smooth.
    score_knots: FloatArray

    @abstractmethod
    def log_tails(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """log R and log(1 − R) at z, the smaller of the two to full relative precision."""

    @abstractmethod
    def log_slope(self, z: FloatArray) -> FloatArray:
        """log dR/du at z."""

    @abstractmethod
    def scores(self, level: FloatArray) -> FloatArray:
        """The smallest z with R ≥ level."""

    @abstractmethod
    def scores_above(self, mass: FloatArray) -> FloatArray:
        """The smallest z with 1 − R ≤ mass."""

    def cdf(self, u: npt.ArrayLike) -> FloatArray:
        """R of levels u in [0, 1]."""
        return self.level_at(ndtri(np.asarray(u, dtype=np.float64)))

    def level_at(self, z: FloatArray) -> FloatArray:
        """R at z."""
        low, high = self.log_tails(z)
        return np.where(low < high, np.exp(low), -np.expm1(high))

    def level(self, z: float) -> float:
        """R at one z."""
        return float(self.level_at(np.array(z)))

    def outgoing(self, z: FloatArray) -> FloatArray:
        """The normal scores Φ⁻¹(R)."""
        low, high = self.log_tails(z)
        return np.where(low < high, ndtri_exp(np.minimum(low, 0.0)), -ndtri_exp(np.minimum(high, 0.0)))

    def at_normal_scores(self, z: FloatArray) -> FloatArray:
        """The base scores at which R has the level Φ(z)."""
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
        return slope

    def scores(self, level: FloatArray) -> FloatArray:
        return self.shift + self.scale * ndtri(level)

    def scores_above(self, mass: FloatArray) -> FloatArray:
        return self.shift - self.scale * ndtri(mass)

    def outgoing(self, z: FloatArray) -> FloatArray:
        return self._z(z)


class ScoreRamp(Ramp):
    """R given at knots.

    Parameters
    ----------
    knots : ndarray of shape (m,)
        Normal scores, ascending and finite; two equal ones are a jump of R.
    below, above : ndarray of shape (m,)
        R and 1 − R at the knots, each without cancellation.
    geometric : bool
        Between knots, whether the logarithm of the tail (R in the lower half, 1 − R in the upper) is linear in the
        logarithm of the predicted mass of that tail, or the tail in that mass. The identity is either. Of a cell that
        is far out, nearly all of the predicted mass is at its inner end; the first spreads what was observed in it.

    Notes
    -----
    Beyond the last knot the tail is proportional to the predicted one. Cost: O(m) once, then O(log m) for each value.
    """

    def __init__(self, knots: FloatArray, below: FloatArray, above: FloatArray, geometric: bool) -> None:
        self.score_knots = self.knots = knots
        self.below = below
        self.above = above
        self.geometric = geometric
        left, right = knots <= 0.0, knots >= 0.0
        middle = _at_the_middle(knots, below, above)
        self._lower = Tail(-log_ndtr(knots[left])[::-1], below[left][::-1], middle[0], geometric)
        self._upper = Tail(-log_ndtr(-knots[right]), above[right], middle[1], geometric)
        #: R of the middle itself, which includes a jump there.
        self._centre = below[left][-1] if left.any() and knots[left][-1] == 0.0 else middle[0]

    def log_tails(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        lower = z < 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            low = high = np.zeros(np.shape(z))
            if lower.any():  # each half costs as much as both, and a step asks for one or two levels
                low = self._log_below(z)
            if not lower.all():
                high = self._log_above(z)
            return np.where(lower, low, np.log(-np.expm1(high))), np.where(lower, np.log(-np.expm1(low)), high)

    def level_at(self, z: FloatArray) -> FloatArray:
        # Each half from its own tail, and on its side of the middle, so that R is nondecreasing to the last bit.
        lower = z < 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            low = high = np.zeros(np.shape(z))
            if lower.any():
                low = np.minimum(np.exp(self._log_below(z)), self._centre)
            if not lower.all():
                high = np.maximum(-np.expm1(self._log_above(z)), self._centre)
        return np.where(lower, low, high)

    def _log_below(self, z: FloatArray) -> FloatArray:
        """log R, of scores in the lower half."""
        return self._lower.log_mass(-log_ndtr(np.minimum(z, 0.0)), "left")

    def _log_above(self, z: FloatArray) -> FloatArray:
        """log(1 − R), of scores in the upper half."""
        return self._upper.log_mass(-log_ndtr(-np.maximum(z, 0.0)), "right")

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

    def _score_above(self, mass: FloatArray) -> FloatArray:
        found: FloatArray = np.maximum(-ndtri_exp(-self._upper.shallowest(mass)), 0.0)
        return found


def _at_the_middle(z: FloatArray, below: FloatArray, above: FloatArray) -> tuple[float, float]:
    """R(½) and 1 − R(½), linear in u between the knots around; where there are knots at 0, the ends of the jump."""
    here = np.flatnonzero(z == 0.0)
    if len(here):
        return float(below[here[-1]]), float(above[here[0]])
    after = int(np.searchsorted(z, 0.0))
    u0, c0, a0 = (ndtr(z[after - 1]), below[after - 1], above[after - 1]) if after else (0.0, 0.0, 1.0)
    u1, c1, a1 = (ndtr(z[after]), below[after], above[after]) if after < len(z) else (1.0, 1.0, 0.0)
    share = (0.5 - u0) / (u1 - u0) if u0 < u1 else 0.5  # knots that are distinct as scores alone
    return float(c0 + share * (c1 - c0)), float(a0 + share * (a1 - a0))


class Tail:
    """A tail S as a function of the depth d = −log m of the predicted mass m, from d = log 2 on.

    `depth`, nondecreasing, and `mass`, nonincreasing, are the knots, shape (k,); the first knot is the middle.
    """

    def __init__(self, depth: FloatArray, mass: FloatArray, middle: float, geometric: bool) -> None:
        self.depth = np.concatenate(([MIDDLE], depth))
        self.mass = np.minimum.accumulate(np.concatenate(([middle], mass)))
        with np.errstate(divide="ignore", invalid="ignore"):
            self._log = np.log(self.mass)
            self._width = self.depth[1:] - self.depth[:-1]
            #: Of geometric pieces the decrease of log S per unit of depth; NaN for linear ones.
            self._rate = np.where(self.mass[1:] > 0.0, (self._log[:-1] - self._log[1:]) / self._width, np.nan)
            if not geometric:
                self._rate[:] = np.nan
            #: 1 − m₁/m₀ of the two ends of a piece.
            self._span = -np.expm1(-self._width)
            self._drop = self.mass[:-1] - self.mass[1:]

    def _place(self, d: FloatArray, side: str) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
        """The piece of each depth, and whether it is the last one, without an end."""
        place = np.maximum(np.searchsorted(self.depth, d, side=side) - 1, 0)  # type: ignore[call-overload]
        last = place >= len(self.depth) - 1
        return np.minimum(place, max(len(self.depth) - 2, 0)), last

    def log_mass(self, d: FloatArray, side: str) -> FloatArray:
        """log S at a depth; at a jump the value before it (`side` "left") or after it."""
        place, last = self._place(d, side)
        beyond = self._log[-1] - (d - self.depth[-1])
        if len(self.depth) == 1:
            return beyond
        into, rate = d - self.depth[place], self._rate[place]
        left = np.minimum(into - self._width[place], 0.0)
        linear = np.log(
            self.mass[place + 1] + self._drop[place] * (np.exp(-into) * -np.expm1(left) / self._span[place])
        )
        linear = np.where(left == 0.0, self._log[place + 1], linear)  # at a jump as well
        inside = np.where(np.isnan(rate), linear, self._log[place] - rate * into)
        inside = np.minimum(np.maximum(inside, self._log[place + 1]), self._log[place])
        return np.where(last, beyond, inside)

    def log_slope(self, d: FloatArray) -> FloatArray:
        """log dS/dm at a depth."""
        place, last = self._place(np.maximum(d, AFTER_MIDDLE), "left")
        beyond = np.full(np.shape(d), self._log[-1] + self.depth[-1])
        if len(self.depth) == 1:
            return beyond
        rate = self._rate[place]
        linear = np.log(self._drop[place]) + self.depth[place] - np.log(self._span[place])
        steep = np.log(rate) + self._log[place] - rate * (d - self.depth[place]) + d
        return np.where(last, beyond, np.where(np.isnan(rate), linear, steep))

    def deepest(self, mass: FloatArray) -> FloatArray:
        """The largest depth with S ≥ mass."""
        return self._depth_at(mass, np.searchsorted(-self.mass, -mass, side="right") - 1)

    def shallowest(self, mass: FloatArray) -> FloatArray:
        """The smallest depth with S ≤ mass."""
        return self._depth_at(mass, np.searchsorted(-self.mass, -mass, side="left") - 1)

    def _depth_at(self, mass: FloatArray, place: npt.NDArray[np.intp]) -> FloatArray:
        """The depth at which S has this mass, in the piece that begins at this knot."""
        before, last = place < 0, place >= len(self.depth) - 1
        beyond = np.where(self.mass[-1] > 0.0, self.depth[-1] + self._log[-1] - np.log(mass), self.depth[-1])
        if len(self.depth) == 1:
            return np.where(before, MIDDLE, beyond)
        place = np.clip(place, 0, len(self.depth) - 2)
        gone, rate = self.mass[place] - mass, self._rate[place]
        left = np.clip((mass - self.mass[place + 1]) / self._drop[place], 0.0, 1.0)
        linear = -np.log(1.0 - self._span[place] + self._span[place] * left)
        steep = (self._log[place] - np.log(mass)) / rate
        into = np.where(gone > 0.0, np.where(np.isnan(rate), linear, steep), 0.0)
        found = np.minimum(self.depth[place] + into, self.depth[place + 1])
        return np.where(before, MIDDLE, np.where(last, beyond, found))
