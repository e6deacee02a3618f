"""Maps of Venn-Abers intervals: one pair (p₀, p₁) per score, or one per score and fold."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from streamcal.maps.base import ScaledMap, frozen
from streamcal.maps.points import LEAST_SCORE, MERGES, POINTS, SCORED_POINTS
from streamcal.maps.steps import RoundedMap, StepMap, steps_of_cells
from streamcal.parameters.columns import like
from streamcal.parameters.inputs import check_fold_scores, check_fold_scores_many
from streamcal.parameters.scales import Scale
from streamcal.parameters.types import FloatArray
from streamcal.statistics.grid import Grid


class IntervalMap(RoundedMap):
    """Venn-Abers intervals: the lower end is lower[i] from knots[i] on, the upper end upper[i] up to knots[i].

    These are the vectors F⁰ and F¹ of paper 003, §2. `point` names the rule that merges the two ends into one
    probability. A rule that needs the score uses the exact score, also if a grid rounds the score for the interval.
    """

    kind = "interval"
    shape = "steps"
    of_scores = True

    def __init__(
        self,
        scale: Scale,
        knots: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
        point: str,
        grid: Grid | None = None,
    ) -> None:
        super().__init__(scale, grid)
        self.knots = frozen(knots)
        self.lower = frozen(np.concatenate(([0.0], lower)))
        self.upper = frozen(np.concatenate((upper, [1.0])))
        self.point = point

    def interval_at(self, x: float) -> tuple[float, float]:
        """Return the pair (p₀, p₁) at a coordinate."""
        x = x if self.grid is None else self.grid.round(x)
        return float(self.lower[bisect_right(self.knots, x)]), float(self.upper[bisect_left(self.knots, x)])

    def at(self, x: float) -> float:
        return point_at(self.point, self.scale, x, *self.interval_at(x))

    def at_many(self, x: FloatArray) -> FloatArray:
        return points_at(self.point, self.scale, x, *self.intervals_at(x)) if self._scored else super().at_many(x)

    @property
    def _scored(self) -> bool:
        return self.point in SCORED_POINTS

    def intervals_at(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the pairs (p₀, p₁) at an array of coordinates."""
        x = x if self.grid is None else self.grid.rounds(x)
        return self.between(x, x)

    def _values_at(self, x: FloatArray) -> FloatArray:
        return points_at(self.point, self.scale, x, *self.between(x, x))

    def _written(self) -> ScaledMap:
        return self

    def _content(self) -> dict[str, Any]:
        ends = {"least": self._score_at(-math.inf), "greatest": self._score_at(math.inf)} if self._scored else {}
        return {"point": self.point, **ends, **self._ends()}

    def _score_at(self, x: float) -> float:
        """Return the score, as a probability, at the coordinate nearest to x."""
        nearest = min(max(x, self.scale.lo), self.scale.hi)
        return min(max(self.scale.probability(nearest), LEAST_SCORE), 1.0 - LEAST_SCORE)

    def _ends(self) -> dict[str, Any]:
        """Return the lower and upper ends as step functions."""
        if self.grid is None:
            lower = StepMap(self.scale, self.knots, self.lower)
            upper = StepMap(self.scale, self.knots, self.upper, None, self.upper[:-1])
        else:
            ends = self.intervals_at(self.grid.centres)
            lower, upper = (steps_of_cells(self.scale, self.grid, end) for end in ends)
        return {"lower": lower._content(), "upper": upper._content()}

    def between(self, left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the pairs at left[i] = right[i], or on open intervals (left[i], right[i]) without knots."""
        lower = self.lower[np.searchsorted(self.knots, left, side="right")]
        return lower, self.upper[np.searchsorted(self.knots, right, side="left")]


class CrossIntervalMap(ScaledMap):
    """One interval map per fold, merged by a named rule (paper 003, Algorithm 7); an empty fold is left out.

    A fold without knots is empty. A prediction takes K scores, one per fold, or one score that is used in every fold.
    """

    kind = "cross-interval"
    shape = "steps"
    of_scores = True

    def __init__(self, scale: Scale, folds: Sequence[IntervalMap], point: str) -> None:
        super().__init__(scale)
        self.folds = tuple(folds)
        self.point = point
        self._merge = MERGES[point]
        #: The folds that take part in the merge: those with observations, or all if there are none.
        self._holding = [k for k, fold in enumerate(self.folds) if len(fold.knots)] or list(range(len(self.folds)))

    def predict_one(self, score: float | Sequence[float]) -> float:
        return self._merged([self.scale.coordinate(s) for s in check_fold_scores(score, len(self.folds))])

    def predict_many(self, scores: ArrayLike) -> FloatArray:
        columns = check_fold_scores_many(scores, len(self.folds))
        return like(scores, self._merged_many([self.scale.coordinates(column) for column in columns]))

    def at(self, x: float) -> float:
        return self._merged([x] * len(self.folds))

    def at_many(self, x: FloatArray) -> FloatArray:
        return self._merged_many([x] * len(self.folds))

    def _merged(self, x: Sequence[float]) -> float:
        pairs = [self.folds[k].interval_at(x[k]) for k in self._holding]
        return float(self._merge(*zip(*pairs, strict=True)))

    def _merged_many(self, x: Sequence[FloatArray]) -> FloatArray:
        pairs = [self.folds[k].intervals_at(x[k]) for k in self._holding]
        return self._merge(*zip(*pairs, strict=True))

    def _content(self) -> dict[str, Any]:
        return {"point": self.point, "folds": [fold._ends() for fold in self.folds]}


def point_at(point: str, scale: Scale, x: float, lower: float, upper: float) -> float:
    """Return the point that represents the pair at a coordinate."""
    scored = SCORED_POINTS.get(point)
    return float(POINTS[point](lower, upper) if scored is None else scored(lower, upper, scale.probability(x)))


def points_at(point: str, scale: Scale, x: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Return the points that represent the pairs at an array of coordinates."""
    scored = SCORED_POINTS.get(point)
    return POINTS[point](lower, upper) if scored is None else scored(lower, upper, scale.probabilities(x))
