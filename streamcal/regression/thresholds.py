"""`ThresholdCalibrator`: methods that calibrate a binary subproblem at each of several thresholds, fixed in advance."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal.calibrators.base import Calibrator
from streamcal.calibrators.subproblems import SequentialSubproblems, SubproblemsEngine
from streamcal.memories.memory import Coordinate
from streamcal.parameters.types import FloatArray, Time
from streamcal.regression.base import DistributionCalibrator, DistributionMap
from streamcal.regression.distributions import CalibratedDistribution, Distribution, Piecewise
from streamcal.regression.reading import cdf_at, median, medians, segment_edges
from streamcal.states import ensure, whole
from streamcal.statistics.subproblems import Routed, RoutedColumn, Routing, Subproblems

#: Segment of the outcome, stream → whether the outcome is positive in it; for arrays of segments too.
Relation = Callable[[Any, int], Any]


class ThresholdCalibrator(DistributionCalibrator):
    """One binary subproblem for each threshold t₁ < … < t_{K−1} that divides the support [lo, hi] into K segments.

    Thresholds are parameters, and never follow the data: a binary subproblem is defined by its threshold, so that
    moving it would mix outcomes of different events, and merging would have no meaning.

    A subproblem is scored by the median of a distribution, moved to the support's end if it is outside, and an outcome
    is positive where y > t, unless a subclass reads more of the distribution. Before the first observation a
    distribution keeps its masses in the segments.

    An outcome below `lo` belongs to the first segment and one above `hi` to the last (`tally()["outside"]`).
    Predictions have their mass between `lo` and `hi`: the density of an outcome outside is 0.
    """

    #: Which streams an outcome in segment 0 … K − 1 is positive in; and by how many there are fewer than segments.
    _relation: ClassVar[Relation] = operator.gt
    _fewer: ClassVar[int] = 1

    def __init__(self, method: Calibrator, thresholds: int | ArrayLike, support: tuple[float, float]) -> None:
        self._edges = segment_edges(thresholds, support)
        self._inner = self._edges[1:-1]
        whole = isinstance(thresholds, (int, np.integer))
        self.thresholds = int(thresholds) if whole else tuple(self._inner.tolist())  # type: ignore[arg-type]
        self.support = (float(self._edges[0]), float(self._edges[-1]))
        self._size = len(self._edges) - 1 - self._fewer
        self._engine = SubproblemsEngine(method, AtThresholds(self._size, type(self)._relation))
        self.forgetting, self.refresh_every = self._engine.forgetting, self._engine.refresh_every

    # -- reading -------------------------------------------------------------------------------------------------

    def _scores(self, distribution: Distribution) -> Coordinate:
        """Return the scores of a distribution for the binary subproblems: a tuple of them, or one for all."""
        return median(distribution)

    def _scores_many(self, distributions: Sequence[Distribution]) -> FloatArray:
        return medians(distributions)

    def _read(self, distribution: Distribution, y: float) -> tuple[Coordinate, float, bool]:
        segment = float(np.searchsorted(self._inner, y))
        return self._scores(distribution), segment, not self.support[0] <= y <= self.support[1]

    def _read_many(
        self, distributions: Sequence[Distribution], y: FloatArray
    ) -> tuple[FloatArray, FloatArray, NDArray[Any]]:
        segments = np.searchsorted(self._inner, y).astype(np.float64)
        return self._scores_many(distributions), segments, (y < self.support[0]) | (y > self.support[1])

    # -- predicting ----------------------------------------------------------------------------------------------

    @abstractmethod
    def _map_of_streams(self, streams: list[Any]) -> DistributionMap:
        """Return the map over these predictors (maps or readers), one for each threshold."""

    def empty_map(self) -> DistributionMap:
        """Return the map of an empty statistic."""
        return SegmentsMap(self._edges)

    def solve(self, statistic: Subproblems | SequentialSubproblems, start: DistributionMap | None) -> DistributionMap:
        """Fit the map to a non-empty statistic: see `Additive`."""
        maps = self._engine.maps_of(statistic)
        return self._map_of_streams([maps[i] for i in range(self._size)])

    def _live_streams(self, t: Time | None) -> list[Any] | None:
        """Return the predictor of each threshold as of `t`, valid until the next change; None if nothing is held."""
        streams = self._engine.readers_of(self._present(t)).each(range(self._size))
        return None if None in streams else list(streams)

    def predict_one(self, distribution: Distribution, t: Time | None = None) -> CalibratedDistribution:
        """Return the calibrated distribution, as of time `t`; the state does not change."""
        if self.refresh_every > 1:
            return super().predict_one(distribution, t)
        streams = self._live_streams(t)  # some need no map
        map = self.empty_map() if streams is None else self._map_of_streams(streams)
        return map.predict_one(distribution)


class AtThresholds(Routing):
    """Subproblems 0 … size − 1. x is a tuple of their scores, or one score for all; y is the segment of the outcome."""

    constant = True

    def __init__(self, size: int, relation: Relation) -> None:
        self._relation = relation
        self._places = range(size)
        #: The labels by segment, as they are first needed: as many as there are segments at most.
        self._positive: dict[float, list[bool]] = {}

    def route(self, x: float | tuple[float, ...], y: float) -> Routed:
        positive = self._positive.get(y)
        if positive is None:
            positive = self._positive[y] = [self._relation(y, place) for place in self._places]
        return self._places, x, positive

    def route_many(self, x: FloatArray, y: FloatArray) -> Iterator[RoutedColumn]:
        for i in self._places:
            scores = x[:, i].copy() if x.ndim == 2 else x
            yield i, slice(None), scores, self._relation(y, i)

    def keys(self) -> range:
        return self._places

    def key(self, plain: Any) -> int:
        return whole(0, len(self._places) - 1)(plain)

    def require_possible(self, x: Any, y: FloatArray) -> None:
        ensure(isinstance(x, np.ndarray) and x.dtype == np.float64, "scores are no numbers")
        ensure(x.ndim == 1 or x.shape[1:] == (len(self._places),), "the number of scores is not that of thresholds")
        ensure(((y >= 0.0) & (y <= len(self._places)) & (y == np.floor(y))).all(), "an outcome is in no segment")


class SegmentsMap(DistributionMap):
    """The predicted masses between `edges`, each spread uniformly."""

    def __init__(self, edges: FloatArray) -> None:
        self.edges = edges

    def predict_one(self, distribution: Distribution) -> CalibratedDistribution:
        return Piecewise(self.edges, levels_of(cdf_at(distribution, self.edges[1:-1])))


def levels_of(inner: ArrayLike) -> FloatArray:
    """Return a cdf at K + 1 edges from its values at the K − 1 inner ones, which may decrease by rounding alone."""
    rising = np.maximum.accumulate(np.clip(inner, 0.0, 1.0))
    return np.concatenate(([0.0], rising, [1.0]))
