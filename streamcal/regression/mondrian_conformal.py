"""`MondrianConformal`: a conformal predictive system for each category of forecasts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal.errors import InputError
from streamcal.learners.additive import Additive
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.inputs import check_outcome, check_scores
from streamcal.parameters.numbers import one_of
from streamcal.parameters.types import FloatArray, Time
from streamcal.regression.base import DistributionCalibrator, DistributionMap
from streamcal.regression.conformal_predictive import ConformalPredictive
from streamcal.regression.distributions import CalibratedDistribution, Distribution
from streamcal.regression.reading import check_distribution, median, spread
from streamcal.statistics.categories import Categories

#: The functions of a forecast by which it is assigned to a category.
READERS = {"spread": spread, "median": median}


class MondrianConformal(DistributionCalibrator):
    """A `ConformalPredictive` for each category: its guarantee holds within every one of them.

    The categories are intervals of the stated standard deviation of a forecast, which is its difficulty, or of its
    median: forecasts that are sure of themselves and those that are not are calibrated apart.

    Parameters
    ----------
    edges : array-like of shape (m,)
        The edges between m + 1 categories: finite, strictly increasing. An edge belongs to the category below it. They
        are fixed in advance, as the guarantee needs it.
    by : {"spread", "median"}
        The quantity that the edges divide: the standard deviation of a forecast (without one, half of the distance of
        its quantiles at Φ(−1) and Φ(1)), or its median.
    forgetting, resolution, scale
        See `PITCalibrator`; a window holds the last observations of the whole stream.

    Notes
    -----
    Validity: as for `ConformalPredictive`, given the category. A category without observations keeps its forecasts.
    With the PIT as the conformity score, errors are already divided by the stated standard deviation; what a category
    adds is another shape of the divided errors.

    Cost: that of `ConformalPredictive`, and memory for each category.

    References
    ----------
    Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World, 2005, §4.5; Boström, Johansson and Löfström,
    Mondrian conformal predictive distributions, COPA 2021 (PMLR 152), which has categories of the difficulty.

    Examples
    --------
    >>> from streamcal.regression import Normal
    >>> cal = MondrianConformal([1.0])
    >>> cal.learn_many([Normal(0.0, 0.5)] * 3 + [Normal(0.0, 2.0)] * 3, [-1.0, 0.0, 1.0, -9.0, 0.0, 9.0])
    >>> [round(cal.predict_one(Normal(0.0, sd)).ppf(0.75), 6) for sd in (0.5, 2.0)]
    [1.0, 9.0]
    """

    name = "mondrian-conformal"
    summary = "conformal predictive distributions, valid within each category of the stated spread or of the median"

    def __init__(
        self,
        edges: ArrayLike = (1.0,),
        by: Literal["spread", "median"] = "spread",
        *,
        forgetting: Forgetting = Forever(),
        resolution: int | None = None,
        scale: Literal["normal", "uniform"] = "normal",
    ) -> None:
        bounds = check_scores(edges)
        if len(bounds) == 0 or not (np.diff(bounds) > 0.0).all():
            raise InputError(f"edges={edges!r} are not possible; give strictly increasing numbers, one or more")
        self.by = one_of(by, "by", READERS)
        self.edges = tuple(bounds.tolist())
        self.scale = scale
        #: The method of every category.
        self._method = ConformalPredictive(resolution=resolution, scale=scale)
        self.resolution = self._method.resolution
        self._engine = Additive(self.new_statistic(), forgetting)
        self.forgetting = forgetting

    def new_statistic(self) -> Categories:
        """Return an empty statistic for these parameters."""
        return Categories(self._method.new_statistic, len(self.edges) + 1)

    def _read(self, distribution: Distribution, y: float) -> tuple[tuple[float, ...], float, bool]:
        x, width, outside = self._method._read(distribution, y)
        return (float(category_of(distribution, self.edges, self.by)), x), width, outside

    def _read_many(
        self, distributions: Sequence[Distribution], y: FloatArray
    ) -> tuple[FloatArray, FloatArray, NDArray[Any]]:
        x, width, outside = self._method._read_many(distributions, y)
        categories = np.array(
            [category_of(distribution, self.edges, self.by) for distribution in distributions], dtype=np.float64
        )
        return np.column_stack((categories, x)).reshape(-1, 2), width, outside

    def predict_bounds_one(self, distribution: Distribution, y: float, t: Time | None = None) -> tuple[float, float]:
        """Return `ConformalPredictive.predict_bounds_one` among the observations of the category. O(k)."""
        part = self._present(t).parts[category_of(distribution, self.edges, self.by)]
        return self._method.bounds(part, distribution, check_outcome(y))

    def solve(self, statistic: Categories, start: DistributionMap | None) -> DistributionMap:
        """Fit the map to a non-empty statistic: see `Additive`."""
        empty = self._method.empty_map()
        maps = [
            self._method.solve(part, None) if part.n > 0.0 else empty  # in order of the categories
            for _, part in sorted(statistic.parts.items())
        ]
        return CategoryMap(self.edges, self.by, maps)

    def empty_map(self) -> DistributionMap:
        """Return the map of an empty statistic."""
        return CategoryMap(self.edges, self.by, [self._method.empty_map()] * (len(self.edges) + 1))


class CategoryMap(DistributionMap):
    """A map for each category."""

    def __init__(self, edges: tuple[float, ...], by: str, maps: list[DistributionMap]) -> None:
        self.edges = edges
        self.by = by
        self.maps = tuple(maps)

    def predict_one(self, distribution: Distribution) -> CalibratedDistribution:
        return self.maps[category_of(check_distribution(distribution), self.edges, self.by)].predict_one(distribution)


def category_of(distribution: Distribution, edges: tuple[float, ...], by: str) -> int:
    """Return the number of the category, from 0 to the number of edges."""
    return int(np.searchsorted(edges, READERS[by](distribution)))
