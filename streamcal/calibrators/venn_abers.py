"""`VennAbers`: the inductive Venn-Abers predictor, exact and incremental."""

from __future__ import annotations

from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike

from streamcal.calibrators.additive import AdditiveCalibrator
from streamcal.errors import InputError
from streamcal.learners.learner import in_turn
from streamcal.maps.base import CalibrationMap, ScaledMap
from streamcal.maps.intervals import IntervalMap, point_at, points_at
from streamcal.maps.points import POINTS, SCORED_POINTS
from streamcal.parameters.columns import like, like_both
from streamcal.parameters.forgetting import Forever, Forgetting
from streamcal.parameters.inputs import check_score, check_scores, check_weight
from streamcal.parameters.numbers import one_of
from streamcal.parameters.prior import Prior
from streamcal.parameters.scales import Logit, Probability, Scale
from streamcal.parameters.types import FloatArray, Keys, Time, Times
from streamcal.statistics.base import Piece
from streamcal.statistics.score_tree import ScoreTree, score_tree


class VennAbers(AdditiveCalibrator[ScoreTree]):
    """The inductive Venn-Abers predictor: two isotonic fits, one for each possible label of the test object.

    `predict_interval_one(s)` is (p₀, p₁), where p_y is the isotonic fit at s of everything held together with (s, y).
    It is a multiprobability: if scoring rule and data satisfy the conditions below, the one of the two that belongs to
    the outcome is perfectly calibrated. It is not a confidence interval. `predict_one` reduces it to one probability.

    Parameters
    ----------
    point : {"log-minimax", "brier-minimax", "self-consistent", "score-prior"}
        p₁/(1−p₀+p₁), p₁ + p₀²/2 − p₁²/2, p₀/(1−p₁+p₀), or the last with a quarter event's worth of prior at the score
        (`streamcal.maps.points.score_prior`). For rare events give "score-prior", which needs scores that are
        probabilities: the minimax points over-predict them, and "self-consistent" gives some of them probability 0.
    scale, forgetting, prior
        See `AdditiveCalibrator`; for margins use `Interval()`.
    resolution : int or None
        None (default) keeps every distinct score; a number of cells rounds scores to a grid, a coarser scoring rule
        fixed in advance, in fixed memory.

    Notes
    -----
    Cost: learning, unlearning and predicting O(log² k) each for k distinct scores; `map()` O(k log² k); memory O(k).

    Validity (paper 003, Proposition 1) needs a scoring rule fixed in advance, exchangeable data and unit weights. With
    a base model that keeps learning, with decay, a prior or unequal weights, this is a method without a guarantee.

    References
    ----------
    Vovk, Petej and Fedorova 2015; paper 003, §2 and §4.

    Examples
    --------
    >>> cal = VennAbers()
    >>> cal.predict_interval_one(0.5)
    (0.0, 1.0)
    >>> cal.learn_many([0.1, 0.3, 0.6, 0.8], [0, 0, 1, 1])
    >>> cal.predict_interval_one(0.7)
    (0.5, 1.0)
    >>> round(cal.predict_one(0.7), 4)
    0.6667
    """

    name = "venn-abers"
    summary = "exact incremental inductive Venn-Abers predictor, with its interval"
    has_interval = True
    reads_statistic = True
    streams = True
    by_ratios = False  # a test object has the weight of one present observation

    def __init__(
        self,
        point: Literal["log-minimax", "brier-minimax", "self-consistent", "score-prior"] = "log-minimax",
        *,
        scale: Scale = Probability(),
        forgetting: Forgetting = Forever(),
        prior: Prior | None = None,
        resolution: int | None = None,
    ) -> None:
        one_of(point, "point", (*POINTS, *SCORED_POINTS))
        if point in SCORED_POINTS and not isinstance(scale, (Probability, Logit)):
            raise InputError(
                f"point={point!r} needs scores that are probabilities: Probability() or Logit(), not {scale!r}"
            )
        self.point = point
        self._point = POINTS.get(point)
        self._scored_point = SCORED_POINTS.get(point)
        super().__init__(scale=scale, forgetting=forgetting, prior=prior, resolution=resolution)
        # The fast path of predictions: under these policies the tree that is held is always the one to be read.
        self._fast_interval = (
            self._memory.statistic.fast_interval(*scale.identity_range) if self._memory.steady else None
        )

    def new_statistic(self) -> ScoreTree:
        return score_tree(self.scale, self.resolution)

    def predict_one(self, score: float, t: Time | None = None, keys: Keys | None = None) -> float:
        if keys is not None:
            self._refuse(keys)
        return self._reduced(score, self.predict_interval_one(score, t=t))

    def _reduced(self, score: float, interval: tuple[float, float]) -> float:
        """Return the point that represents the interval at a score."""
        if self._point is not None:
            return float(self._point(*interval))
        assert self._scored_point is not None
        return float(self._scored_point(*interval, self.scale.probability(self.scale.coordinate(check_score(score)))))

    def predict_interval_one(self, score: float, t: Time | None = None, *, w: float = 1.0) -> tuple[float, float]:
        """Return the multiprobability (p₀, p₁), for a test object of weight `w` > 0 in units of the present."""
        if t is None and w == 1.0 and self._fast_interval is not None:
            interval = self._fast_interval(score)  # None unless the score is its own coordinate
            if interval is not None:
                return interval
        x = self.scale.coordinate(check_score(score))
        return self._present(t).interval(x, 1.0 if w == 1.0 else positive_weight(w))

    def predict_with_interval_one(self, score: float, t: Time | None = None) -> tuple[float, tuple[float, float]]:
        """Return the results of `predict_one` and `predict_interval_one` by one search of the tree."""
        interval = self.predict_interval_one(score, t=t)
        return self._reduced(score, interval), interval

    def predict_interval_many(
        self, scores: ArrayLike, t: Time | None = None, *, w: float = 1.0
    ) -> tuple[FloatArray, FloatArray]:
        """Return the multiprobabilities at an array of scores: two arrays of shape (n,)."""
        x = self.scale.coordinates(check_scores(scores))
        return like_both(scores, self._present(t).intervals(x, positive_weight(w)))

    def predict_interval_learn_many(
        self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None = None, t: Times | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Do `predict_learn_many` with the multiprobabilities: (probabilities, p₀, p₁), three arrays of shape (n,).

        Examples
        --------
        >>> p, lower, upper = VennAbers().predict_interval_learn_many([0.2, 0.8, 0.5], [0, 1, 1])
        >>> lower.tolist(), upper.tolist()
        ([0.0, 0.0, 0.0], [1.0, 1.0, 1.0])
        """
        intervals = self._streamed_columns(2, scores, y, w, t)
        if intervals is None:
            rows = self._rows(scores, y, w, t)
            return predicted_with_intervals(scores, in_turn(self.predict_with_interval_one, self.learn_one, rows))
        return like(scores, self._points(scores, intervals)), *like_both(scores, (intervals[0], intervals[1]))

    def _streamed(self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None, t: Times | None) -> FloatArray | None:
        intervals = self._streamed_columns(2, scores, y, w, t)
        return None if intervals is None else self._points(scores, intervals)

    def _points(self, scores: ArrayLike, intervals: FloatArray) -> FloatArray:
        """Return the points that represent the intervals at these scores, shape (2, n)."""
        return points_at(self.point, self.scale, self.scale.coordinates(check_scores(scores)), *intervals)

    def _stream(self, x: FloatArray, y: FloatArray, piece: Piece, predictions: FloatArray) -> None:
        self._memory.statistic.stream(x, y, piece, *predictions)

    def map(self) -> IntervalMap:
        return cast(IntervalMap, self._map_at(None))

    def solve(self, statistic: ScoreTree, start: ScaledMap | None) -> IntervalMap:
        knots = statistic.scores()
        lower, upper = statistic.intervals(knots, 1.0)
        return IntervalMap(self.scale, knots, lower, upper, self.point, statistic.grid)

    def reader(self, statistic: ScoreTree, start: ScaledMap | None) -> TreeIntervals:
        return TreeIntervals(self.scale, statistic, self.point)

    def empty_map(self) -> IntervalMap:
        nothing = np.empty(0)
        return IntervalMap(self.scale, nothing, nothing, nothing, self.point, self._memory.statistic.grid)


class TreeIntervals(CalibrationMap):
    """The Venn-Abers predictor of a tree, read without making a map of it: O(log² k) for each score."""

    def __init__(self, scale: Scale, tree: ScoreTree, point: str) -> None:
        super().__init__(scale)
        self._tree = tree
        self._point = point

    def at(self, x: float) -> float:
        return point_at(self._point, self.scale, x, *self.interval_at(x))

    def at_many(self, x: FloatArray) -> FloatArray:
        return points_at(self._point, self.scale, x, *self._tree.intervals(x, 1.0))

    def interval_at(self, x: float) -> tuple[float, float]:
        """Return the multiprobability (p₀, p₁) at a coordinate."""
        return self._tree.interval(x, 1.0)


def predicted_with_intervals(scores: Any, rows: list[Any]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return pairs (p, (lower, upper)) as three arrays of shape (n,), in the caller's form of the scores."""
    columns = np.array([(p, *ends) for p, ends in rows], dtype=np.float64).reshape(-1, 3).T
    p, lower, upper = (like(scores, np.ascontiguousarray(column)) for column in columns)
    return p, lower, upper


def positive_weight(w: float) -> float:
    """Check that a weight is above 0, and return it."""
    if check_weight(w) == 0.0:
        raise InputError("a test object of weight 0 has no interval; give a weight above 0")
    return float(w)
