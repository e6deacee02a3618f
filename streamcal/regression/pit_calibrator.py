"""`PITCalibrator`: methods that keep only the probability integral transforms of the outcomes."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from streamcal.errors import InputError
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.types import FloatArray
from streamcal.regression.base import AdditiveDistributionCalibrator, DistributionMap
from streamcal.regression.distributions import CalibratedDistribution, Distribution, Piecewise
from streamcal.regression.ramps import Ramp, ScoreRamp
from streamcal.regression.reading import check_distribution, pit_interval, pit_intervals
from streamcal.regression.recalibrated import IDENTITY, recalibrated
from streamcal.statistics.grid import MOST_CELLS
from streamcal.statistics.pits import FURTHEST, PITs

#: The inner edges of M cells of the normal score are FINEST · sinh(x), with x equidistant within ±WIDEST · (M/64)^0.3,
#: or ±WIDEST from 64 cells on: fine in the middle, a fixed share of the score further out, to ±40 and more.
FINEST, WIDEST, FULL, GROWTH = 0.5, 5.25, 64, 0.3


class Weights(NamedTuple):
    """Knots of R, ascending, twice where it jumps; shape (m,) each.

    `low` and `high` are the levels u of the knots and 1 − u, `below` and `above` the weight held on either side, and
    `total` is all weight held.
    """

    knots: FloatArray
    low: FloatArray
    high: FloatArray
    below: FloatArray
    above: FloatArray
    total: float


class PITCalibrator(AdditiveDistributionCalibrator[PITs]):
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
        and the last cell, is then alike, so that overconfident forecasts cannot be repaired. It is what the first
        version did, and what its states are read as.

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

    Cost: learning O(log k) for k distinct PITs, or O(cells) for an atom; a prediction after it O(k), in compiled loops,
    and with i distinct atoms and no cells O(i·k): give a `resolution` for counts.
    """

    added = MappingProxyType({"scale": "uniform"})

    def __init__(
        self,
        *,
        forgetting: Forgetting = Forever(),
        resolution: int | None = None,
        scale: Literal["normal", "uniform"] = "normal",
    ) -> None:
        if resolution is not None and (isinstance(resolution, bool) or not isinstance(resolution, int)):
            raise InputError(f"resolution={resolution!r} is not possible; give None or a whole number of cells")
        if resolution is not None and not 2 <= resolution <= MOST_CELLS:
            raise InputError(f"resolution={resolution!r} is not possible; give 2 to {MOST_CELLS:,} cells")
        if scale not in ("normal", "uniform"):
            raise InputError(f"scale={scale!r} is not possible; give 'normal' or 'uniform'")
        self.resolution = resolution
        self.scale = scale
        self._normal = scale == "normal"
        #: The lowest and the highest coordinate, of outcomes to which no mass was predicted.
        self._ends = (-FURTHEST, FURTHEST) if self._normal else (0.0, 1.0)
        self._edges = None if resolution is None else edges_of(resolution, self._normal)
        super().__init__(forgetting=forgetting)

    def new_statistic(self) -> PITs:
        return PITs(self._edges, self._normal)

    # -- reading -------------------------------------------------------------------------------------------------

    def _read(self, distribution: Distribution, y: float) -> tuple[float, float, bool]:
        low, high = pit_interval(distribution, y, self._normal)
        if low < high:
            return high, high - low, False
        return self._rounded(high), 0.0, high in self._ends

    def _read_many(
        self, distributions: Sequence[Distribution], y: FloatArray
    ) -> tuple[FloatArray, FloatArray, npt.NDArray[Any]]:
        low, high = pit_intervals(distributions, y, self._normal)
        point = low == high
        x = np.array([self._rounded(one) if alone else one for one, alone in zip(high.tolist(), point, strict=True)])
        return x, high - low, point & np.isin(high, self._ends)

    def _rounded(self, x: float) -> float:
        """The coordinate itself, or the upper end of its cell."""
        if self._edges is None:
            return x
        if not self._normal:
            assert self.resolution is not None
            return max(math.ceil(x * self.resolution), 1) / self.resolution
        place = int(np.searchsorted(self._edges, x))
        return float(self._edges[place]) if place < len(self._edges) else FURTHEST

    # -- the map -------------------------------------------------------------------------------------------------

    def solve(self, statistic: PITs, start: DistributionMap | None) -> DistributionMap:
        weights = self._weights(statistic)
        below, above = self._levels(weights)
        if self._normal:
            return RecalibrationMap(ScoreRamp(weights.knots, below, above, self.resolution is not None))
        # Weights far apart may leave a rounding error by which one falls.
        below = np.maximum.accumulate(below)
        knots, levels = np.concatenate(([0.0], weights.knots, [1.0])), np.concatenate(([0.0], below, [1.0]))
        return RecalibrationMap(Piecewise(knots, levels))

    def _weights(self, statistic: PITs) -> Weights:
        """The weight held below and above each knot."""
        x, weight = statistic.weights()
        inside = (x > self._ends[0]) & (x < self._ends[1])
        if self._edges is None:
            ends = statistic.ends()
            knots = np.concatenate((x[inside], ends[(ends > self._ends[0]) & (ends < self._ends[1])]))
            # Of equal PITs all but the first, or of a heavy one the weight above 1, are a jump.
            ties = x[inside & (weight > 1.0)]
            knots = np.sort(np.concatenate((np.unique(knots), ties)))
        else:
            ties, knots = np.empty(0), self._edges
        upto, after = np.cumsum(weight), np.cumsum(weight[::-1])[::-1]
        place = np.searchsorted(x, knots, side="right")
        below = np.concatenate(([0.0], upto))[place]
        above = np.concatenate((after, [0.0]))[place]
        if len(ties):
            first = np.searchsorted(knots, ties)
            excess = weight[np.searchsorted(x, ties)] - 1.0
            below[first] -= excess
            above[first] += excess
        if statistic.has_intervals:
            spread = statistic.interval_weight_below(knots)
            below, above = below + spread, above + np.maximum(statistic.interval_weight() - spread, 0.0)
        low, high = (ndtr(knots), ndtr(-knots)) if self._normal else (knots, 1.0 - knots)
        # Not that of the tree, whose last place depends on the shape that the tree has come to.
        total = (float(upto[-1]) if len(upto) else 0.0) + statistic.interval_weight()
        return Weights(knots, low, high, below, above, total)

    @abstractmethod
    def _levels(self, weights: Weights) -> tuple[FloatArray, FloatArray]:
        """R and 1 − R at the knots."""

    def empty_map(self) -> DistributionMap:
        return RecalibrationMap(IDENTITY)


class RecalibrationMap(DistributionMap):
    """F → R ∘ F; `ramp` is R, a `Ramp` of normal scores or the distribution with the cdf R."""

    def __init__(self, ramp: Piecewise | Ramp) -> None:
        self.ramp = ramp

    def predict_one(self, distribution: Distribution) -> CalibratedDistribution:
        if self.ramp is IDENTITY and isinstance(distribution, CalibratedDistribution):
            return distribution
        return recalibrated(check_distribution(distribution), self.ramp)


def edges_of(cells: int, normal: bool) -> FloatArray:
    """The inner edges of cells: of normal scores, or of equal width in [0, 1]."""
    if not normal:
        return np.arange(1, cells) / cells
    within = WIDEST * min(1.0, cells / FULL) ** GROWTH
    edges: FloatArray = FINEST * np.sinh(within * np.linspace(-1.0, 1.0, cells + 1)[1:-1])
    if cells % 2 == 0:
        edges[cells // 2 - 1] = 0.0  # to the last bit
    return edges
