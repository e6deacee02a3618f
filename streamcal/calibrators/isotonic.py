"""`Isotonic`: the monotone least-squares fit, kept up to date by every observation."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from streamcal.calibrators.additive import AdditiveCalibrator
from streamcal.maps.base import ScaledMap
from streamcal.maps.knots import KnotMap
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.inputs import check_score, check_scores, check_time
from streamcal.parameters.prior import Prior
from streamcal.parameters.scales import Probability, Scale
from streamcal.parameters.types import FloatArray, Time
from streamcal.statistics.base import Statistic
from streamcal.statistics.grid import Grid
from streamcal.statistics.score_tree import ScoreTree


class Isotonic(AdditiveCalibrator):
    """Isotonic regression: min Σ wᵢ (p(sᵢ) − yᵢ)² over nondecreasing p.

    Between held scores the map is linear, outside them constant, as in scikit-learn.

    Parameters
    ----------
    scale, forgetting, prior
        See `AdditiveCalibrator`. Any order-preserving scale gives the same fit at the held scores; for margins use
        `Interval()`.
    resolution : int or None
        None (default) keeps every distinct score; a number of cells rounds scores to a grid: a coarser score, in
        fixed memory.

    Notes
    -----
    Learning, unlearning and predicting cost O(log² k) each for k distinct scores; `map()` costs O(k).
    Ayer and others 1955; paper 002, eq. (9).

    >>> cal = Isotonic()
    >>> cal.learn_many([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1])
    >>> [cal.predict_one(s) for s in (0.1, 0.2, 0.3, 0.4)]
    [0.0, 0.5, 0.5, 1.0]
    """

    name = "isotonic"
    summary = "monotone least squares, exact and incremental"

    def __init__(
        self,
        *,
        scale: Scale = Probability(),
        forgetting: Forgetting = Forever(),
        prior: Prior | None = None,
        resolution: int | None = None,
    ) -> None:
        super().__init__(scale=scale, forgetting=forgetting, prior=prior, resolution=resolution)
        self._steady = self._memory.steady
        self._isotonic = self._tree.isotonic

    def _new_statistic(self) -> Statistic:
        self._tree = ScoreTree(None if self.resolution is None else Grid(self.scale, self.resolution))
        return self._tree

    def predict_one(self, score: float, t: Time | None = None) -> float:
        if t is None and self._steady and score.__class__ is float and self._lo <= score <= self._hi:
            x = score  # the usual case: the score is its own coordinate, and time moves nothing
        else:
            x = self.scale.coordinate(check_score(score))
            self._memory.as_of(None if t is None else check_time(t))
        value = self._isotonic(x)
        return self.scale.probability(x) if math.isnan(value) else value

    def predict_many(self, scores: npt.ArrayLike, t: Time | None = None) -> FloatArray:
        if self.resolution is not None:
            return super().predict_many(scores, t)  # by the map, which has a value for each cell
        x = self.scale.coordinates(check_scores(scores))
        self._memory.as_of(None if t is None else check_time(t))
        return self._tree.isotonics(x) if self._tree.n > 0.0 else self.scale.probabilities(x) + 0.0

    def _solve(self, unit: float) -> ScaledMap:
        first, last, value = self._tree.blocks()
        several = last > first  # a block of one score is one knot
        knots = np.concatenate((first, last[several]))
        order = np.argsort(knots)
        return KnotMap(self.scale, knots[order], np.concatenate((value, value[several]))[order], self._tree.grid)
