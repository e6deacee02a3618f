"""The methods that learn a binary calibrator at each of some thresholds, fixed in advance.

`ThresholdCalibrator` is any of them; `MedianCalibrator` those that read of a distribution its median alone.
"""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from streamcal.base import Calibrator, CapabilityError, FloatArray, InputError, Statistic, Time
from streamcal.inputs import check_time
from streamcal.memories.memory import Coordinate
from streamcal.regression.base import AdditiveDistributionCalibrator, DistributionMap
from streamcal.regression.distributions import CalibratedDistribution, Distribution, Piecewise
from streamcal.regression.reading import cdf_at, check_distributions, median, medians, segment_edges
from streamcal.regression.streams import Relation, Streams, policy_of, streams_of


class ThresholdCalibrator(AdditiveDistributionCalibrator):
    """Streams of one binary method at thresholds t₁ < … < t_{K−1} that cut the support [lo, hi] into K segments.

    Thresholds are parameters, and never follow the data: what a stream has learned is about its threshold, so that
    moved ones would mix answers to other questions, and merging would have no meaning.

    An outcome below `lo` counts in the first segment and one above `hi` in the last (`tally()["outside"]`). What is
    predicted has its mass between `lo` and `hi`: the density of an outcome outside is 0.
    """

    #: Which streams an outcome in segment 0 … K − 1 is positive in; and by how many there are fewer than segments.
    _relation: ClassVar[Relation]
    _fewer: ClassVar[int]

    def __init__(self, method: Calibrator, thresholds: int | npt.ArrayLike, support: tuple[float, float]) -> None:
        self._edges = segment_edges(thresholds, support)
        self._inner = self._edges[1:-1]
        whole = isinstance(thresholds, (int, np.integer))
        self.thresholds = int(thresholds) if whole else tuple(self._inner.tolist())  # type: ignore[arg-type]
        self.support = (float(self._edges[0]), float(self._edges[-1]))
        self._method = method
        self._size = len(self._edges) - 1 - self._fewer
        super().__init__(**policy_of(method))

    def _new_statistic(self) -> Statistic:
        self._streams: Streams = streams_of(self._method, self._size, type(self)._relation)
        return self._streams

    @property
    def merges(self) -> bool:
        return self._streams.adds and super().merges

    @property
    def unlearns(self) -> bool:
        return self._streams.adds and super().unlearns

    def _unlearn(self, x: Coordinate, y: float, w: float, t: float) -> None:
        if not self._streams.adds:
            raise CapabilityError(f"{self._method!r} depends on the order of its observations and cannot unlearn")
        super()._unlearn(x, y, w, t)

    # -- reading -------------------------------------------------------------------------------------------------

    @abstractmethod
    def _scores(self, distribution: Distribution) -> Coordinate:
        """The scores the streams see of a distribution: a tuple of them, or one for all."""

    @abstractmethod
    def _scores_many(self, distributions: list[Distribution]) -> FloatArray:
        """`_scores` for n distributions, shape (n, size) or (n,)."""

    def _read(self, distribution: Distribution, y: float) -> tuple[Coordinate, float, bool]:
        segment = float(np.searchsorted(self._inner, y))
        return self._scores(distribution), segment, not self.support[0] <= y <= self.support[1]

    def _read_many(
        self, distributions: Sequence[Distribution], y: FloatArray
    ) -> tuple[FloatArray, FloatArray, npt.NDArray[Any]]:
        given = check_distributions(distributions)
        if len(given) != len(y):
            raise InputError(f"distributions and y differ in length: {len(given)} and {len(y)}")
        segments = np.searchsorted(self._inner, y).astype(np.float64)
        return self._scores_many(given), segments, (y < self.support[0]) | (y > self.support[1])

    # -- predicting ----------------------------------------------------------------------------------------------

    @abstractmethod
    def _map_of_streams(self, streams: list[Any]) -> DistributionMap:
        """The map that asks these, calibrators or their maps."""

    def _solve(self, unit: float) -> DistributionMap:
        return self._map_of_streams([stream.map() for stream in self._streams.as_of(unit)])

    def predict_one(self, distribution: Distribution, t: Time | None = None) -> CalibratedDistribution:
        if self.refresh_every > 1:
            return super().predict_one(distribution, t)
        # By the calibrators themselves, of which some need no map to answer.
        unit = self._memory.as_of(None if t is None else check_time(t))
        if self._memory.statistic.n <= 0.0:
            return self._empty_map().predict_one(distribution)
        return self._map_of_streams(self._streams.as_of(unit)).predict_one(distribution)


class MedianCalibrator(ThresholdCalibrator):
    """Streams at the K − 1 thresholds, which see the median of a distribution; an outcome is positive where y > t.

    Medians outside of the support count at its end. Before anything was learned a distribution keeps its masses in the
    segments.
    """

    _relation = operator.gt
    _fewer = 1

    def _scores(self, distribution: Distribution) -> float:
        return median(distribution)

    def _scores_many(self, distributions: list[Distribution]) -> FloatArray:
        return medians(distributions)

    def _empty_map(self) -> DistributionMap:
        return SegmentsMap(self._edges)


class SegmentsMap(DistributionMap):
    """The masses between `edges` as they are, spread evenly."""

    def __init__(self, edges: FloatArray) -> None:
        self.edges = edges

    def predict_one(self, distribution: Distribution) -> CalibratedDistribution:
        return Piecewise(self.edges, levels_of(cdf_at(distribution, self.edges[1:-1])))


def levels_of(inner: npt.ArrayLike) -> FloatArray:
    """A cdf at K + 1 edges from its values at the K − 1 inner ones, which may fall by rounding alone."""
    rising = np.maximum.accumulate(np.clip(inner, 0.0, 1.0))
    return np.concatenate(([0.0], rising, [1.0]))
