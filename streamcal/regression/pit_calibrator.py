"""`PITCalibrator`: methods that keep only the probability integral transforms of the outcomes."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamcal.errors import InputError
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.scales import Probability
from streamcal.parameters.types import FloatArray
from streamcal.regression.base import AdditiveDistributionCalibrator, DistributionMap
from streamcal.regression.distributions import CalibratedDistribution, Distribution, Piecewise
from streamcal.regression.reading import pit, pits
from streamcal.regression.recalibrated import IDENTITY, recalibrated
from streamcal.statistics.grid import MOST_CELLS
from streamcal.statistics.score_tree import ScoreTree


class PITCalibrator(AdditiveDistributionCalibrator[ScoreTree]):
    """A method of the probability integral transforms uᵢ = Fᵢ(yᵢ), the PIT: it predicts the cdf R(F(t)).

    R is a continuous cdf on [0, 1], linear between its knots, with R(0) = 0 and R(1) = 1.

    Parameters
    ----------
    forgetting : Forgetting
        The forgetting policy, default `Forever()`.
    resolution : int or None
        None (default): the knots of R are the distinct PITs held, in (0, 1), and memory grows with them. With M cells,
        at least 2, PITs are rounded up to the end of their cell of width 1/M, and the knots are the ends of the cells,
        in fixed memory.

    Notes
    -----
    A PIT of 0 or 1 belongs to an outcome to which no mass, or a mass below rounding, was predicted
    (`tally()["outside"]`). No proper cdf R(F(t)) can have mass there: it is spread over the adjacent piece.

    Cost: learning O(log k) for k distinct PITs; a prediction after it O(k), in compiled loops.
    """

    def __init__(self, *, forgetting: Forgetting = Forever(), resolution: int | None = None) -> None:
        if resolution is not None and (isinstance(resolution, bool) or not isinstance(resolution, int)):
            raise InputError(f"resolution={resolution!r} is not possible; give None or a whole number of cells")
        if resolution is not None and not 2 <= resolution <= MOST_CELLS:
            raise InputError(f"resolution={resolution!r} is not possible; give 2 to {MOST_CELLS:,} cells")
        self.resolution = resolution
        super().__init__(forgetting=forgetting)

    def new_statistic(self) -> ScoreTree:
        tree = ScoreTree(scale=Probability())
        tree.bounded = self.resolution is not None
        return tree

    # -- reading -------------------------------------------------------------------------------------------------

    def _read(self, distribution: Distribution, y: float) -> tuple[float, float, bool]:
        u = pit(distribution, y)
        return self._coordinate(u), 0.0, u == 0.0 or u == 1.0

    def _read_many(
        self, distributions: Sequence[Distribution], y: FloatArray
    ) -> tuple[FloatArray, FloatArray, npt.NDArray[Any]]:
        u = pits(distributions, y)
        return np.array([self._coordinate(one) for one in u.tolist()]), np.zeros(len(u)), (u == 0.0) | (u == 1.0)

    def _coordinate(self, u: float) -> float:
        cells = self.resolution
        return u if cells is None else max(math.ceil(u * cells), 1) / cells

    # -- the map -------------------------------------------------------------------------------------------------

    def solve(self, statistic: ScoreTree, start: DistributionMap | None) -> DistributionMap:
        u, weight = statistic.weights()
        below = np.cumsum(weight)
        if self.resolution is None:
            inside = (u > 0.0) & (u < 1.0)
            knots, weight_below = u[inside], below[inside]
        else:
            knots = np.arange(1, self.resolution) / self.resolution
            weight_below = np.concatenate(([0.0], below))[np.searchsorted(u, knots, side="right")]
        levels = self._levels(knots, weight_below, below[-1])
        ramp = Piecewise(np.concatenate(([0.0], knots, [1.0])), np.concatenate(([0.0], levels, [1.0])))
        return RecalibrationMap(ramp)

    @abstractmethod
    def _levels(self, u: FloatArray, below: FloatArray, total: float) -> FloatArray:
        """R at the PITs `u`, where `below` of the weight `total` lies at or below each."""

    def empty_map(self) -> DistributionMap:
        return RecalibrationMap(IDENTITY)


class RecalibrationMap(DistributionMap):
    """F → R ∘ F; `ramp` is the distribution with the cdf R."""

    def __init__(self, ramp: Piecewise) -> None:
        self.ramp = ramp

    def predict_one(self, distribution: Distribution) -> CalibratedDistribution:
        return recalibrated(distribution, self.ramp)
