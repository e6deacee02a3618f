"""`PITCalibrator`: methods that keep only the probability integral transforms of the outcomes."""

from __future__ import annotations

import decimal
import functools
import math
from abc import abstractmethod
from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, ndtri_exp

from streamcal.kernels.normal.ramp_chain import depths_of
from streamcal.kernels.tree.rank_tree import RankTree, levels_around, weights_around
from streamcal.learners.additive import Additive
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.numbers import one_of
from streamcal.parameters.types import FloatArray
from streamcal.regression.base import DistributionCalibrator, DistributionMap
from streamcal.regression.distributions import CalibratedDistribution, Distribution, Normal, Piecewise
from streamcal.regression.ramps import Ramp, ScoreRamp
from streamcal.regression.reading import LAST_SCORE, check_distribution, pit_interval, pit_intervals
from streamcal.regression.recalibrated import IDENTITY, Rescored, recalibrated
from streamcal.statistics.grid import check_resolution
from streamcal.statistics.pits import FURTHEST, PITs, SortedWeights

#: The inner edges of M cells of the normal score are FINEST · sinh(x), with x equidistant within ±WIDEST · (M/64)^0.3,
#: or ±WIDEST from 64 cells on: fine in the middle, a fixed share of the score further out, to ±40 and more.
FINEST, WIDEST, FULL, GROWTH = 0.5, 5.25, 64, 0.3
#: 28 digits, twice those of a float, whatever the program has set.
EXACT = decimal.Context(prec=28, rounding=decimal.ROUND_HALF_EVEN)

#: The highest place for a knot: outcomes to which no mass was predicted are at the ends, and make no knots.
HIGHEST = float(np.nextafter(FURTHEST, 0.0))


class Weights(NamedTuple):
    """Knots of R, ascending, twice where it jumps; arrays of shape (m,), or the numbers of one knot.

    `low` and `high` are the levels u of the knots and 1 − u, `below` and `above` the weight held on either side, and
    `total` is all weight held.
    """

    knots: Any
    low: Any
    high: Any
    below: Any
    above: Any
    total: float


class Levels(NamedTuple):
    """R = (weight below + pseudo·u)/(total + pseudo + unseen), 1 − R = (weight above + pseudo·(1 − u) + unseen)/(…)."""

    pseudo: float
    unseen: float

    def __call__(self, weights: Weights) -> tuple[Any, Any]:
        """Return R and 1 − R at the knots."""
        return self.at(*weights[1:])

    def at(self, low: Any, high: Any, below: Any, above: Any, total: float) -> tuple[Any, Any]:
        """Return R and 1 − R at the knots, from the columns of `Weights`."""
        pseudo, unseen = self
        whole = total + pseudo + unseen
        return (below + pseudo * low) / whole, (above + pseudo * high + unseen) / whole


class PITCalibrator(DistributionCalibrator):
    """A method of the probability integral transforms uᵢ = Fᵢ(yᵢ), the PIT: it predicts the cdf R(F(t)).

    R is a cdf on [0, 1] with knots at PITs.

    Parameters
    ----------
    forgetting : Forgetting
        The forgetting policy, default `Forever()`.
    resolution : int or None
        None (default): the knots of R are the distinct PITs held, R is linear between them, and memory grows with them.
        With M cells, at least 2, PITs are rounded up to the end of their cell, the knots are the ends of the cells, and
        memory is fixed.
    scale : {"normal", "uniform"}
        How a PIT is kept. "normal": as its normal score Φ⁻¹(u), from the logarithms of tail masses, so that outcomes up
        to 10⁶ standard deviations out are distinct; cells are narrow in the middle and a sixth of the score further
        out (with 64 cells, which reach to ±40), and in a cell the logarithm of the tail is linear in that of the
        predicted one. "uniform": as u itself, in cells of width 1/M; all that is beyond 1e-16, or in the first
        and the last cell, is then alike, so that overconfident forecasts cannot be repaired.

    Notes
    -----
    Where an outcome is an atom of its distribution, as counts are, the observation is spread over the interval
    (F(y−), F(y)], uniformly: the non-randomised PIT of Czado, Gneiting and Held. Calibrated distributions of discrete
    ones have the same atoms.

    Equal PITs are a jump of R, as they are in the empirical cdf, after the rise of the first of them: the limit of
    distinct PITs that come together. So an outcome that keeps coming at one level becomes an atom. A weight above that
    of a new observation counts as that many equal ones. On cells there are no jumps.

    A PIT of 0 or 1 belongs to an outcome to which no mass was predicted, or with `scale="uniform"` a mass below
    rounding (`tally()["outside"]`). No proper cdf R(F(t)) can have mass there: it is spread over the adjacent piece.

    Cost: learning O(log k) for k distinct PITs, or O(cells) for an atom. Without cells a prediction is O(1), and its
    cdf, density and quantiles O(log k) for a number; its mean, its CRPS and arrays of many are O(k), as everything is
    under decay, with weights that are not whole and with `scale="uniform"`; with i distinct atoms and no cells it is
    O(i·k): give a `resolution` for counts.
    """

    def __init__(
        self,
        *,
        forgetting: Forgetting = Forever(),
        resolution: int | None = None,
        scale: Literal["normal", "uniform"] = "normal",
    ) -> None:
        self.scale = one_of(scale, "scale", ("normal", "uniform"))
        self.resolution = check_resolution(resolution)
        self._normal = scale == "normal"
        #: The lowest and the highest coordinate, of outcomes to which no mass was predicted.
        self._ends = (-FURTHEST, FURTHEST) if self._normal else (0.0, 1.0)
        self._edges = None if self.resolution is None else edges_of(self.resolution, self._normal)
        #: The levels u of the edges, and 1 − u.
        self._edge_levels = None if self._edges is None else self._levels_of(self._edges)
        self._edge_depths = depths_of(self._edges) if self._edges is not None and self._normal else None
        self._engine = Additive(self.new_statistic(), forgetting)
        self.forgetting = forgetting

    def new_statistic(self) -> PITs:
        """Return an empty statistic for these parameters."""
        return PITs(self._edges, self._normal)

    # -- reading -------------------------------------------------------------------------------------------------

    def _read(self, distribution: Distribution, y: float) -> tuple[float, float, bool]:
        low, high = pit_interval(distribution, y, self._normal)
        if low < high:
            return high, high - low, False
        return self._rounded(high), 0.0, high in self._ends

    def _read_many(
        self, distributions: Sequence[Distribution], y: FloatArray
    ) -> tuple[FloatArray, FloatArray, NDArray[Any]]:
        low, high = pit_intervals(distributions, y, self._normal)
        point = low == high
        x = np.array([self._rounded(one) if alone else one for one, alone in zip(high.tolist(), point, strict=True)])
        return x, high - low, point & np.isin(high, self._ends)

    def _rounded(self, x: float) -> float:
        """Return the coordinate itself, or the upper end of its cell."""
        if self._edges is None:
            return x
        if not self._normal:
            assert self.resolution is not None
            return max(math.ceil(x * self.resolution), 1) / self.resolution
        place = int(np.searchsorted(self._edges, x))
        return float(self._edges[place]) if place < len(self._edges) else FURTHEST

    # -- the map -------------------------------------------------------------------------------------------------

    def solve(self, statistic: PITs, start: DistributionMap | None) -> DistributionMap:
        """Fit the map to a non-empty statistic: see `Additive`."""
        rule = self._levels()
        if self._normal and self._edges is None and not statistic.has_intervals:
            return RecalibrationMap(RankRamp(statistic.order(), rule))
        if self._edges is not None and not statistic.has_intervals:  # the most frequent one, by the same formula
            knots = self._edges
            below, above = levels_around(knots, *statistic.weights(), self._edge_levels, *rule)
        else:
            knots, *rest = self._weights(statistic)
            below, above = rule.at(*rest)
        if self._normal:
            return RecalibrationMap(ScoreRamp(knots, below, above, self._edges is not None, self._edge_depths))
        # Weights far apart may leave a rounding error by which one falls.
        below = np.maximum.accumulate(below)
        knots, levels = np.concatenate(([0.0], knots, [1.0])), np.concatenate(([0.0], below, [1.0]))
        return RecalibrationMap(Piecewise(knots, levels))

    def _weights(self, statistic: PITs) -> Weights:
        """Return the weight held below and above each knot."""
        x, weight = statistic.weights()
        if self._edges is None:
            inside = (x > self._ends[0]) & (x < self._ends[1])
            ends = statistic.ends()
            knots, ties = knots_of(x[inside], weight[inside], ends[(ends > self._ends[0]) & (ends < self._ends[1])])
            below, above, total = weights_beside(knots, ties, x, weight)
        else:
            knots = self._edges
            below, above, total = weights_around(knots, x, weight)
        if statistic.has_intervals:
            spread = statistic.interval_weight_below(knots)
            below, above = below + spread, above + np.maximum(statistic.interval_weight() - spread, 0.0)
        low, high = self._edge_levels or self._levels_of(knots)
        # Not the total of the tree, whose last place depends on the shape that the tree has come to.
        return Weights(knots, low, high, below, above, total + statistic.interval_weight())

    def _levels_of(self, knots: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the levels u of knots, and 1 − u."""
        return (ndtr(knots), ndtr(-knots)) if self._normal else (knots, 1.0 - knots)

    @abstractmethod
    def _levels(self) -> Levels:
        """Return the rule that turns weights into R."""

    def empty_map(self) -> DistributionMap:
        """Return the map of an empty statistic."""
        return RecalibrationMap(IDENTITY)


class RecalibrationMap(DistributionMap):
    """F → R ∘ F; `ramp` is R, a `Ramp` of normal scores or the distribution with the cdf R."""

    def __init__(self, ramp: Piecewise | Ramp) -> None:
        self.ramp = ramp

    def predict_one(self, distribution: Distribution) -> CalibratedDistribution:
        if type(distribution) in OVER_NORMAL and type(self.ramp) in GIVEN_AT_SCORES:  # the most frequent one
            return Rescored(distribution, self.ramp)  # type: ignore[arg-type]
        if self.ramp is IDENTITY and isinstance(distribution, CalibratedDistribution):
            return distribution
        return recalibrated(check_distribution(distribution), self.ramp)


def knots_of(x: FloatArray, weight: FloatArray, ends: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the ascending knots of R for distinct points and ends of intervals, and those that occur twice.

    Equal PITs jump by all but the first; a heavy PIT jumps by its weight above 1.
    """
    ties = x[weight > 1.0]
    return np.sort(np.concatenate((np.unique(np.concatenate((x, ends))), ties))), ties


def weights_beside(
    knots: FloatArray, ties: FloatArray, x: FloatArray, weight: FloatArray
) -> tuple[FloatArray, FloatArray, float]:
    """Return the weight of points below and above each knot, with jumps at `ties`, and the total weight."""
    below, above, total = weights_around(knots, x, weight)
    if len(ties):
        first = np.searchsorted(knots, ties)
        excess = weight[np.searchsorted(x, ties)] - 1.0
        below[first] -= excess
        above[first] += excess
    return below, above, total


class RankRamp(Ramp):
    """R of points and weights in a tree, which is read where R is asked for: O(log k) for a number.

    For an array, and for all that needs every knot, the `ScoreRamp` of all points is made, once, in O(k). Between knots
    R is linear in the predicted mass of the tail, as there; the two differ by rounding.
    """

    def __init__(self, order: RankTree | SortedWeights, levels: Levels) -> None:
        self._order = order
        self._levels = levels

    def __reduce__(self) -> tuple[Any, ...]:
        return RankRamp, (SortedWeights(*self._order.to_arrays()), self._levels)

    @cached_property
    def whole(self) -> ScoreRamp:
        """R with all of its knots."""
        x, weight = self._order.to_arrays()
        inside = np.abs(x) < FURTHEST
        knots, ties = knots_of(x[inside], weight[inside], np.empty(0))
        below, above, _ = weights_beside(knots, ties, x, weight)
        levels = self._levels(Weights(knots, ndtr(knots), ndtr(-knots), below, above, self._order.total))
        return ScoreRamp(knots, *levels, False)

    @property
    def score_knots(self) -> FloatArray:  # type: ignore[override]
        return self.whole.score_knots

    def log_tails(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        if np.ndim(z):
            return self.whole.log_tails(z)
        here = float(z)
        piece = self._piece(here)
        # The smaller tail, by logarithms where it ends with the piece: there it may be below the smallest float.
        near, far = (piece.upto, piece.below) if here < 0.0 else (piece.above, piece.beyond)
        share = piece.log_share(here)
        with np.errstate(divide="ignore"):
            tail = np.log(near) + share if far == 0.0 else np.log(far + (near - far) * math.exp(share))
            rest = np.log(-np.expm1(tail))
        return (tail, rest) if here < 0.0 else (rest, tail)

    def level(self, z: float) -> float:
        return self._tails(z)[0]

    def level_at(self, z: FloatArray) -> FloatArray:
        return self.whole.level_at(z) if z.ndim else np.asarray(self._tails(float(z))[0])

    def log_slope(self, z: FloatArray) -> FloatArray:
        return self.whole.log_slope(z) if np.ndim(z) else np.asarray(self._slope(float(z)))

    def scores(self, level: FloatArray) -> FloatArray:
        if np.ndim(level) or self._levels.pseudo:
            return self.whole.scores(level)
        return np.asarray(self._score(float(level), 1.0 - float(level)))

    def scores_above(self, mass: FloatArray) -> FloatArray:
        if np.ndim(mass) or self._levels.pseudo:
            return self.whole.scores_above(mass)
        return np.asarray(self._score(1.0 - float(mass), float(mass)))

    def at_normal_scores(self, z: FloatArray) -> FloatArray:
        far = np.ndim(z) > 0 or abs(z) > LAST_SCORE
        return self.whole.at_normal_scores(z) if far else super().at_normal_scores(z)

    # -- one number ------------------------------------------------------------------------------------------------

    def _piece(self, z: float) -> Piece:
        """Return the piece of R that contains z, closed on the left."""
        within = z if -FURTHEST <= z <= HIGHEST else min(max(z, -FURTHEST), HIGHEST)
        low, _, below, high, at_high, above = self._order.around(within)
        total = below + above
        first, last = (-math.inf, 0.0, 1.0), (math.inf, 1.0, 0.0)
        if low > -FURTHEST:
            first = low, *self._levels_at(low, below, above, total)
        if high < FURTHEST:
            before = at_high if at_high < 1.0 else 1.0  # what is above it is a jump
            last = high, *self._levels_at(high, below + before, above - before, total)
        return Piece(*first, *last)

    def _levels_at(self, knot: float, below: float, above: float, total: float) -> tuple[float, float]:
        """Return R and 1 − R at a knot."""
        pseudo, unseen = self._levels
        if pseudo:
            return self._levels.at(float(ndtr(knot)), float(ndtr(-knot)), below, above, total)
        whole = total + unseen
        return below / whole, (above + unseen) / whole

    def _tails(self, z: float) -> tuple[float, float]:
        """Return R and 1 − R at z, the one on its side of the middle without cancellation."""
        piece = self._piece(z)
        share = math.exp(piece.log_share(z))
        if z < 0.0:
            low = piece.below + (piece.upto - piece.below) * share
            return low, 1.0 - low
        high = piece.beyond + (piece.above - piece.beyond) * share
        return 1.0 - high, high

    def _slope(self, z: float) -> float:
        """Return log dR/du; at a knot, that of the piece before it in the upper half, after it in the lower half."""
        low, at_low, *_ = self._order.around(z)
        if low == z and at_low > 1.0 and abs(z) < FURTHEST:
            return math.inf
        piece = self._piece(np.nextafter(z, -math.inf) if z > 0.0 else z)
        rise = piece.upto - piece.below if z < 0.0 else piece.above - piece.beyond
        return -math.inf if rise <= 0.0 else math.log(rise) - piece.log_mass(z < 0.0)

    def _score(self, level: float, mass: float) -> float:
        """Return the smallest z with R ≥ level, which is 1 − R ≤ mass."""
        piece = self._first_reaching(level, mass)
        if piece.start == piece.end:
            return piece.start
        share = (level - piece.below) / (piece.upto - piece.below)
        rest = (mass - piece.beyond) / (piece.above - piece.beyond)
        return piece.score_at(min(max(share, 0.0), 1.0), min(max(rest, 0.0), 1.0))

    def _first_reaching(self, level: float, mass: float) -> Piece:
        """Return the first piece of R that reaches a level; a jump is a piece without width."""

        def reached(low: float, high: float) -> bool:
            return low >= level if level <= 0.5 else high <= mass

        z = self._order.reaching(level * self._order.total)
        piece = self._piece(z if z == z else 0.0)
        # The levels are those of the weights with a pseudo-weight, or rounded: some steps to one side or the other.
        while piece.end < math.inf and not reached(*self._after(piece.end)):
            piece = self._piece(piece.end)
        while piece.start > -math.inf and reached(piece.below, piece.above):
            start = piece.start
            piece = self._piece(float(np.nextafter(start, -math.inf)))
            if not reached(piece.upto, piece.beyond):  # within the jump at its end
                return Piece(start, piece.upto, piece.beyond, start, *self._after(start))
        if piece.end < math.inf and not reached(piece.upto, piece.beyond):
            return Piece(piece.end, piece.upto, piece.beyond, piece.end, *self._after(piece.end))
        return piece

    def _after(self, knot: float) -> tuple[float, float]:
        """Return R and 1 − R at a knot, after its jump."""
        piece = self._piece(knot)
        return piece.below, piece.above


#: Distributions and ramps for which `recalibrated` returns a `Rescored` distribution.
OVER_NORMAL, GIVEN_AT_SCORES = frozenset((Normal, Rescored)), frozenset((RankRamp, ScoreRamp))


class Piece(NamedTuple):
    """A linear piece of R: R and 1 − R at both ends, which may be infinite."""

    start: float
    below: float
    above: float
    end: float
    upto: float
    beyond: float

    def log_share(self, z: float) -> float:
        """Return the log share of the piece's predicted mass that is before z, for z < 0, or after z otherwise."""
        if z < 0.0:
            near, far, here = _log_mass(self.end), _log_mass(self.start), _log_mass(z)
        else:
            near, far, here = _log_mass(-self.start), _log_mass(-self.end), _log_mass(-z)
        if here == far:
            return -math.inf
        return here - near + math.log(math.expm1(far - here) / math.expm1(far - near))

    def log_mass(self, lower: bool) -> float:
        """Return the logarithm of the predicted mass."""
        near, far = (self.end, self.start) if lower else (-self.start, -self.end)
        share = -math.expm1(_log_mass(far) - _log_mass(near))
        return _log_mass(near) + math.log(share) if share > 0.0 else -math.inf

    def score_at(self, share: float, rest: float) -> float:
        """Return the score with this share of the predicted mass before it, and the rest after it."""
        if self.start < 0.0:
            near, ratio = _log_mass(self.end), _ratio(self.start, self.end)
            left = ratio + (1.0 - ratio) * share
            z = float(ndtri_exp(near + math.log(left))) if left > 0.0 else -math.inf
            if z <= 0.0:
                return min(max(z, self.start), self.end)
        near, ratio = _log_mass(-self.start), _ratio(-self.end, -self.start)
        left = ratio + (1.0 - ratio) * rest
        z = -float(ndtri_exp(near + math.log(left))) if left > 0.0 else math.inf
        return min(max(z, self.start), self.end)


def _log_mass(z: float) -> float:
    return float(log_ndtr(z))


def _ratio(far: float, near: float) -> float:
    return math.exp(_log_mass(far) - _log_mass(near))


@functools.lru_cache(maxsize=64)
def edges_of(cells: int, normal: bool) -> FloatArray:
    """Return the inner edges of cells, read-only: of normal scores, or of equal width in [0, 1].

    States have points at edges, and are read on other machines, whose functions may differ in the last place: edges are
    computed in decimals.
    """
    if not normal:
        edges = np.arange(1, cells) / cells
    else:
        with decimal.localcontext(EXACT):
            within = Decimal(WIDEST) * min(Decimal(cells) / FULL, Decimal(1)) ** Decimal(str(GROWTH))
            growths = [(within * (2 * k - cells) / cells).exp() for k in range(cells // 2 + 1, cells)]
            upper = np.array([float(Decimal(FINEST) * (growth - 1 / growth) / 2) for growth in growths])
        edges = np.concatenate((-upper[::-1], np.zeros(1 - cells % 2), upper))
    edges.flags.writeable = False
    return edges
