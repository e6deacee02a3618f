"""`PartialOrderVennAbers`: the Venn-Abers predictor for tuples of scores, ordered in every coordinate."""

from __future__ import annotations

from typing import Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from streamcal.calibrators.venn_abers import positive_weight, predicted_with_intervals
from streamcal.fusion.base import AdditiveFusion, FusionMap
from streamcal.fusion.missing import Missing
from streamcal.fusion.named_scores import Scores, coordinate, coordinates_of
from streamcal.learners.learner import in_turn
from streamcal.maps.points import POINTS
from streamcal.parameters.columns import like_both
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.numbers import one_of
from streamcal.parameters.scales import Probability, Scale
from streamcal.parameters.types import FloatArray, Time, Times
from streamcal.solvers.partial_order import PartialOrder
from streamcal.statistics.grid import check_resolution
from streamcal.statistics.vector_table import VectorTable, check_limit, distinct_rows, vector_table


class PartialOrderVennAbers(AdditiveFusion[VectorTable]):
    """The inductive Venn-Abers predictor for several scores: two isotonic fits on the coordinate-wise order.

    `predict_interval_one(s)` is (p₀, p₁), where p_y is the fit at s, of everything held together with (s, y), by

        min Σ wᵢ (pᵢ − yᵢ)²,   pᵢ ≤ pⱼ where sᵢ ≤ sⱼ in every coordinate

    It is a multiprobability: if scoring rule and data satisfy the conditions below, the one of the two that belongs to
    the outcome is perfectly calibrated. It is not a confidence interval. `predict_one` reduces it to one probability.

    Parameters
    ----------
    point : {"log-minimax", "brier-minimax", "self-consistent"}
        As for `VennAbers`.
    n_scores, scale, missing, forgetting, refresh_every
        See `AdditiveFusion`. Any order-preserving scale gives the same fit; for margins use `Interval()`.
    resolution : int or None
        Cells of a grid for each score to which tuples are rounded from the start, a coarser scoring rule fixed in
        advance; None (default): see `limit`. With fewer cells more tuples are comparable, and tied.
    limit : int or None
        Distinct tuples that are kept (default 1,000). When there are more, they are rounded to the finest grid of
        4,096, 2,048, … cells for each score of which no more cells are in use; None keeps every tuple. With a scale
        without bounds there is no limit.

    Notes
    -----
    Cost: an observation O(M log k) for k distinct tuples, the first prediction after it the order, and each prediction
    a few minimum cuts. Of two scores a step takes 0.5 to 0.9 ms at the limit; of three and more the order takes O(k²).
    Predictions of many tuples on a grid are solved once for each cell. The fits are exact for unit weights, see
    `streamcal.solvers.partial_order`.

    What the limit costs: 2,500 pairs on 64 cells moved probabilities by 0.06 in the root mean square, and 0.26 at most;
    the Brier score rose by 0.002. The grid is chosen from the scores alone, whatever the labels, but not in advance:
    for strict validity give `resolution`, or None and a `Window`.

    Both ends are nondecreasing in every score. p_y is max over upper sets U, min over lower sets L, of the mean label
    in U ∩ L together with (s, y), where U contains all tuples above s and L all below; as s increases there are more
    such U and fewer such L.

    Few tuples of several scores are comparable, and (p₀, p₁) is then wide: (0, 1) where no tuple held is comparable.
    Validity needs a scoring rule fixed in advance, exchangeable data and unit weights: an isotonic fit is the mean over
    classes of equivalent objects on a partial order too. It is lost with a base model that keeps learning, with decay
    or with unequal weights.

    References
    ----------
    Vovk, Petej and Fedorova 2015; paper 003, remark in §2 on partially ordered scores.

    Examples
    --------
    >>> fused = PartialOrderVennAbers()
    >>> fused.predict_interval_one([0.5, 0.5])
    (0.0, 1.0)
    >>> fused.learn_many([[0.1, 0.2], [0.3, 0.4], [0.4, 0.3], [0.8, 0.7]], [0, 1, 0, 1])
    >>> fused.predict_interval_one([0.45, 0.45])
    (0.5, 1.0)
    """

    name = "partial-order-venn-abers"
    summary = "Venn-Abers predictor on the coordinate-wise order, with its interval"
    has_interval = True

    def __init__(
        self,
        point: Literal["log-minimax", "brier-minimax", "self-consistent"] = "log-minimax",
        *,
        n_scores: int = 2,
        scale: Scale | tuple[Scale, ...] = Probability(),
        missing: Missing = "raise",
        forgetting: Forgetting = Forever(),
        resolution: int | None = None,
        limit: int | None = 1000,
        refresh_every: int = 1,
    ) -> None:
        self.point = one_of(point, "point", POINTS)
        self.resolution = check_resolution(resolution)
        self.limit = check_limit(limit)
        super().__init__(
            n_scores=n_scores, scale=scale, missing=missing, forgetting=forgetting, refresh_every=refresh_every
        )

    def new_statistic(self) -> VectorTable:
        return vector_table(self._scales, self.resolution, self.limit)

    def predict_interval_one(self, scores: Scores, t: Time | None = None, *, w: float = 1.0) -> tuple[float, float]:
        """Return the multiprobability (p₀, p₁), for a test object of weight `w` > 0 in units of the present."""
        map = cast(PartialOrderMap, self._map_at(t))
        return map.interval_at(coordinate(self._scales, self._named.read(scores)), positive_weight(w))

    def predict_interval_many(
        self, scores: ArrayLike, t: Time | None = None, *, w: float = 1.0
    ) -> tuple[FloatArray, FloatArray]:
        """Return the multiprobabilities at scores of shape (n, M): two arrays of shape (n,)."""
        map = cast(PartialOrderMap, self._map_at(t))
        x = coordinates_of(self._scales, self._in_order(scores)[0], self._named.takes_missing)
        return like_both(scores, map.intervals_at(x, positive_weight(w)))

    def predict_with_interval_one(self, scores: Scores, t: Time | None = None) -> tuple[float, tuple[float, float]]:
        """Return the results of `predict_one` and `predict_interval_one`."""
        return self.predict_one(scores, t), self.predict_interval_one(scores, t=t)

    def predict_interval_learn_many(
        self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None = None, t: Times | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Do `predict_learn_many` with the multiprobabilities: (probabilities, p₀, p₁), three arrays of shape (n,)."""
        ordered, names = self._in_order(scores)
        rows = in_turn(self.predict_with_interval_one, self.learn_one, self._rows(ordered, y, w, t))
        self._keep_names(names)
        return predicted_with_intervals(scores, rows)

    def solve(self, statistic: VectorTable, start: FusionMap | None) -> FusionMap:
        return PartialOrderMap(self._scales, statistic, self.point)

    def empty_map(self) -> FusionMap:
        return PartialOrderMap(self._scales, self.new_statistic(), self.point)


class PartialOrderMap(FusionMap):
    """Venn-Abers pairs on a partial order: it holds a copy of the table, and solves for each tuple when predicted."""

    shape = "steps"

    def __init__(self, scales: tuple[Scale, ...], table: VectorTable, point: str) -> None:
        super().__init__(scales)
        x, weight, positive = table.columns()
        weighted = weight > 0.0
        self._order = PartialOrder(x[weighted])
        self._positive, self._negative = positive[weighted], weight[weighted] - positive[weighted]
        self._rounded = table.empty()
        self._rounded.round_as(table)
        self._point = POINTS[point]

    def interval_at(self, x: tuple[float, ...], w: float = 1.0) -> tuple[float, float]:
        """Return the pair (p₀, p₁) at a tuple of coordinates, for a test object of weight `w`."""
        stored = np.array(self._rounded.stored(x))
        return self._order.pair_at(self._positive, self._negative, stored, w)

    def intervals_at(self, x: FloatArray, w: float = 1.0) -> tuple[FloatArray, FloatArray]:
        """Return the pairs at coordinates of shape (n, M); equal tuples are solved once."""
        distinct, place = distinct_rows(self._rounded.stored_many(x))
        pairs = [self.interval_at(tuple(one), w) for one in distinct.tolist()]
        lower, upper = np.array(pairs).reshape(-1, 2).T
        return lower[place], upper[place]

    def at(self, x: tuple[float, ...]) -> float:
        low, high = self.interval_at(x)
        return float(self._point(np.array([low]), np.array([high]))[0])

    def at_many(self, x: FloatArray) -> FloatArray:
        return self._point(*self.intervals_at(x))
