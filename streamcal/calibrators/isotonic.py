"""`Isotonic`: the monotone least-squares fit, kept up to date by every observation."""

from __future__ import annotations

import numpy as np

from streamcal.calibrators.additive import AdditiveCalibrator
from streamcal.maps.base import CalibrationMap, ScaledMap
from streamcal.maps.knots import KnotMap
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.prior import Prior
from streamcal.parameters.scales import Probability, Scale
from streamcal.parameters.types import FloatArray
from streamcal.statistics.base import Piece
from streamcal.statistics.score_tree import ScoreTree, score_tree


class Isotonic(AdditiveCalibrator[ScoreTree]):
    """Isotonic regression: min Σ wᵢ (p(sᵢ) − yᵢ)² over nondecreasing p.

    Between the scores held the map is linear, beyond them constant, as in scikit-learn.

    Parameters
    ----------
    scale, forgetting, prior
        See `AdditiveCalibrator`. Any order-preserving scale gives the same fit at the scores held; for margins use
        `Interval()`.
    resolution : int or None
        None (default) keeps every distinct score; a number of cells rounds scores to a grid: a coarser score, in
        fixed memory.

    Notes
    -----
    Cost: learning, unlearning and predicting O(log² k) each for k distinct scores; `map()` O(k); memory O(k).

    Under `Decay`, old observations alone determine the value at a score without newer ones near it. So with up to 8,192
    scores only weights below 1e-150 are dropped. With more, scores are dropped whose weights together are below 2⁻³⁰ of
    the total, if that moves no value of the present map by more than 1e-6. The map may move by more once a later
    observation splits a block.

    References
    ----------
    Ayer and others 1955; paper 002, eq. (9).

    Examples
    --------
    >>> cal = Isotonic()
    >>> cal.learn_many([0.1, 0.2, 0.3, 0.4], [0, 1, 0, 1])
    >>> [cal.predict_one(s) for s in (0.1, 0.2, 0.3, 0.4)]
    [0.0, 0.5, 0.5, 1.0]
    """

    name = "isotonic"
    summary = "monotone least squares, exact and incremental"
    by_ratios = True
    reads_statistic = True
    streams = True

    def __init__(
        self,
        *,
        scale: Scale = Probability(),
        forgetting: Forgetting = Forever(),
        prior: Prior | None = None,
        resolution: int | None = None,
    ) -> None:
        super().__init__(scale=scale, forgetting=forgetting, prior=prior, resolution=resolution)
        self._at = self._memory.statistic.isotonic

    def new_statistic(self) -> ScoreTree:
        return score_tree(self.scale, self.resolution, keeps_fit=True)

    def _stream(self, x: FloatArray, y: FloatArray, piece: Piece, predictions: FloatArray) -> None:
        self._memory.statistic.stream(x, y, piece, predictions[0], predictions[0, :0])

    def reader(self, statistic: ScoreTree, start: ScaledMap | None) -> CalibrationMap:
        return TreeFit(self.scale, statistic)

    def solve(self, statistic: ScoreTree, start: ScaledMap | None) -> ScaledMap:
        first, last, value = statistic.blocks()
        several = last > first  # a block of one score is one knot
        knots = np.concatenate((first, last[several]))
        order = np.argsort(knots)
        return KnotMap(self.scale, knots[order], np.concatenate((value, value[several]))[order], statistic.grid)


class TreeFit(CalibrationMap):
    """The isotonic fit of a tree, read without making a map of it: O(log² k) for each score."""

    def __init__(self, scale: Scale, tree: ScoreTree) -> None:
        super().__init__(scale)
        self._tree = tree

    def at(self, x: float) -> float:
        return self._tree.isotonic(x)

    def at_many(self, x: FloatArray) -> FloatArray:
        return self._tree.isotonics(x)
