"""`CrossVennAbers`: the cross Venn-Abers predictor, K Venn-Abers predictors merged into one probability."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from streamcal.calibrators.additive import AdditiveCalibrator
from streamcal.calibrators.venn_abers import positive_weight, predicted_with_intervals
from streamcal.errors import CapabilityError, RetractionError
from streamcal.learners.learner import in_turn
from streamcal.maps.base import CalibrationMap, ScaledMap
from streamcal.maps.intervals import CrossIntervalMap, IntervalMap
from streamcal.maps.points import MERGES, Value, geometric_mean, mean
from streamcal.parameters.columns import like, like_both
from streamcal.parameters.forgetting import Decay, Forever, Forgetting
from streamcal.parameters.inputs import check_fold, check_fold_scores, check_fold_scores_many, check_folds
from streamcal.parameters.numbers import one_of, whole_number
from streamcal.parameters.prior import Prior, PseudoObservations
from streamcal.parameters.scales import Probability, Scale
from streamcal.parameters.types import Columns, FloatArray, Keys, Label, Time, Times
from streamcal.statistics.folded_trees import NO_FOLD, FoldedTrees, outcome
from streamcal.statistics.grid import grid_of

#: Limit of the number of folds: each is a tree, and every prediction uses them all.
MAX_FOLDS = 1000


def geometric_pair(lower: Sequence[Value], upper: Sequence[Value]) -> tuple[Value, Value]:
    """Return 1 − GM(1 − p₀) and GM(p₁) (paper 003, §4, Remark); the first may exceed the second."""
    return 1.0 - geometric_mean([1.0 - p for p in lower]), geometric_mean(upper)


def mean_pair(lower: Sequence[Value], upper: Sequence[Value]) -> tuple[Value, Value]:
    """Average the lower ends and the upper ends."""
    return mean(lower), mean(upper)


#: The one pair that holds the merged probability of each rule.
PAIRS: dict[str, Callable] = {"log-minimax": geometric_pair, "brier-minimax": mean_pair, "self-consistent": mean_pair}


class CrossVennAbers(AdditiveCalibrator[FoldedTrees]):
    """The cross Venn-Abers predictor (CVAP): K Venn-Abers predictors, one for each fold, merged into one probability.

    In cross-fitting, K base models are trained, each on all observations but those of its fold. An observation is
    learned with the score of the base of its fold, and a test object is predicted from the K scores of all bases. With
    (p₀ᵏ, p₁ᵏ) the Venn-Abers pair of fold k at the k-th score and GM the geometric mean over the folds,

        p = GM(p₁) / (GM(1 − p₀) + GM(p₁)).

    `predict_one` takes the K scores, or a single score used for every fold. A fold without observations, whose pair
    would be (0, 1), takes no part in the merge; before the first observation the prediction is ½.

    Parameters
    ----------
    point : {"log-minimax", "brier-minimax", "self-consistent"}
        The merge: the formula above, the mean over the folds of p₁ + p₀²/2 − p₁²/2, or the solution of
        p = (1 − p)·mean(p₀) + p·mean(p₁). The minimax points over-predict rare events, more so with K folds than with
        one, since each has fewer events; "self-consistent" gives some of them probability 0.
    folds : int
        K, from 1 to 1,000; with 1 this is `VennAbers`.
    scale, forgetting, resolution
        As for `VennAbers`. A window or a half-life by count counts the whole stream, not each fold.
    prior : Prior or None
        Pseudo-observations along the identity map, a K-th of their weight in every fold.

    Notes
    -----
    `learn_one(score, y, fold=k)` states the fold, from 0 to K − 1, and `unlearn_one` needs it again. Without `fold`,
    the weight held of one score and one label is dealt to one fold after another, a unit to each. The first fold is a
    hash of the coordinate's bits, rounded to 33 significant bits, and is the same on every machine (SplitMix64's
    finalizer, modulo K; on a grid, of the cell's centre). So a repeated score is shared among the folds, and the last
    digits of other scores have no effect. The folds are a function of what is held: order, unlearning and merging keep
    their laws. Under `Decay`, where weights are not units, the fold is a hash of the coordinate and the time or, by
    count, of the number of the observation. A score that repeats at one and the same time stays in one fold.

    `predict_interval_one` merges the pairs: (1 − GM(1 − p₀), GM(p₁)) for the log-minimax point, the means of p₀ and of
    p₁ for the others. It contains `predict_one`. Where the folds differ by more than the width of their intervals, the
    two geometric ends are in reverse order and are swapped. `fold_intervals_one` gives the K pairs themselves.

    Cost: learning O(log² k) for k distinct scores in a fold, predicting K times that, `map()` O(k log² k) for each
    fold; memory O(k) for each fold.

    The geometric mean of 1 − p₀ magnifies the rounding of p₀ where p₀ is nearly 1, and the quotient of the
    self-consistent point magnifies that of p₁ where p₁ is nearly 1. The log-minimax probability is accurate, and its
    map monotone, to about 1e-16·W/w for whole weights and 1e-14·W/w for others, where W is the weight in a fold and w
    that of the test object. The self-consistent probability is accurate to 1e-16·w/v, where v is the weight of the pool
    around the score. Digits are lost only where single observations weigh millions or, for the self-consistent point,
    where a prediction far ahead under decay outweighs all that is held. A test object counts as no less than 1e-9·W and
    no more than 1e7·W: then no log-minimax map falls by more than 1e-7, whatever the weights.

    Validity: the theorem (Proposition 1) holds for the pair of each fold, where the base of that fold was fixed before
    it and its observations are exchangeable with the test object. For the merged probability there is no theorem, only
    the experiments of the paper. The hash is as good as a random fold where scores rarely repeat; where they do, labels
    are dealt and not drawn, and the theorem does not hold for the pairs either: give `fold`. Nor does it hold for bases
    that keep learning, with decay, a prior or unequal weights.

    The simplified predictor (SVAP), one base that is trained on all observations and calibrated on the scores it gives
    to the same observations, needs no folds: let `VennAbers` learn these scores. SVAP has no guarantee, and performs
    badly where the base memorises its training labels, as trees, bagging and nearest neighbours do. The scores of
    training observations are then not comparable with those of new ones (paper 003, §6, "all").

    References
    ----------
    Vovk, Petej and Fedorova 2015; paper 003, Algorithm 7, §3 and §4.

    Examples
    --------
    >>> cal = CrossVennAbers(folds=2)
    >>> for fold, score, y in [(0, 0.2, 0), (0, 0.6, 1), (1, 0.3, 0), (1, 0.9, 1)]:
    ...     cal.learn_one(score, y, fold=fold)
    >>> cal.fold_intervals_one([0.7, 0.8])
    [(0.5, 1.0), (0.0, 1.0)]
    >>> round(cal.predict_one([0.7, 0.8]), 4)
    0.5858
    """

    name = "cross-venn-abers"
    summary = "K Venn-Abers predictors, cross-fitted and merged"
    has_interval = True
    reads_statistic = True

    def __init__(
        self,
        point: Literal["log-minimax", "brier-minimax", "self-consistent"] = "log-minimax",
        folds: int = 5,
        *,
        scale: Scale = Probability(),
        forgetting: Forgetting = Forever(),
        prior: Prior | None = None,
        resolution: int | None = None,
    ) -> None:
        self.point = one_of(point, "point", MERGES)
        self.folds = whole_number(folds, "folds", 1, MAX_FOLDS)
        self._merge, self._pair = MERGES[point], PAIRS[point]
        super().__init__(scale=scale, forgetting=forgetting, prior=prior, resolution=resolution)
        self._deals = self._memory.statistic.dealt and not self.forgets_by_time
        self._rule = tuple(MERGES).index(point)  # as the kernel numbers them
        #: The trees' own prediction, where they can be read as they are held.
        self._merged = self._memory.statistic.merged if self._memory.steady else None

    def new_statistic(self) -> FoldedTrees:
        grid = None if self.resolution is None else grid_of(self.scale, self.resolution)
        return FoldedTrees(self.folds, grid, self.scale, dealt=not isinstance(self.forgetting, Decay))

    def pseudo_observations(self) -> PseudoObservations | None:
        """Return the prior's pseudo-observations, repeated in every fold."""
        prior = super().pseudo_observations()
        if prior is None:
            return None
        outcomes = np.concatenate([outcome(prior.y, fold) for fold in range(self.folds)])
        return PseudoObservations(np.tile(prior.x, self.folds), outcomes, np.tile(prior.w / self.folds, self.folds))

    # -- learning ------------------------------------------------------------------------------------------------

    def learn_one(
        self,
        score: float,
        y: Label,
        w: float = 1.0,
        t: Time | None = None,
        keys: Keys | None = None,
        *,
        fold: int | None = None,
    ) -> None:
        """Learn that `score`, given by the base of `fold`, was followed by the label `y`."""
        if keys is not None:
            self._refuse(keys)
        if fold is None and t is None and self._deals and self._door is not None and self._door(score, y, w):
            self._memory.version += 1
            return
        x, label, weight, time, clamped = self._checked(score, y, w, t)
        if weight > 0.0:
            self._learn(x, self._code(x, label, time, fold), weight, time, clamped)
        elif fold is not None:
            check_fold(fold, self.folds)

    def learn_many(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        t: Times | None = None,
        *,
        keys: Columns | None = None,
        fold: int | ArrayLike | None = None,
    ) -> None:
        """Learn arrays of shape (n,); `fold` is one for all of them, or an array of n."""
        self._refuse(keys)
        x, labels, weights, times, clamped = self._checked_many(scores, y, w, t)
        places = None if fold is None else check_folds(fold, self.folds, len(x))
        used = weights > 0.0
        codes = self._codes(x, labels, times, places, used)
        self._learn_many(x[used], codes, weights[used], times[used], clamped)

    def _code(self, x: float, label: float, t: float, fold: int | None) -> float:
        """Encode the label and the fold of an observation as one number."""
        if fold is not None:
            return outcome(label, check_fold(fold, self.folds))
        statistic = self._memory.statistic
        if statistic.dealt:
            return outcome(label, NO_FOLD)
        return outcome(label, statistic.fold_of(x, t if self.forgets_by_time else self._memory.clock + 1.0))

    def _codes(
        self, x: FloatArray, labels: FloatArray, t: FloatArray, folds: NDArray[np.int64] | None, used: NDArray[np.bool_]
    ) -> FloatArray:
        """Return the `_code` of each observation that is kept."""
        if folds is not None:
            return outcome(labels[used], folds[used])
        statistic = self._memory.statistic
        if statistic.dealt:
            return outcome(labels[used], NO_FOLD)
        number = int(np.count_nonzero(used))
        keys = t[used] if self.forgets_by_time else self._memory.clock + np.arange(1, number + 1, dtype=np.float64)
        return outcome(labels[used], statistic.folds_of(x[used], keys))

    def unlearn_one(
        self,
        score: float,
        y: Label,
        w: float = 1.0,
        t: Time | None = None,
        *,
        keys: Keys | None = None,
        fold: int | None = None,
    ) -> None:
        """Remove an earlier `learn_one` with the same arguments, including its fold."""
        self._refuse(keys)
        x, label, weight, time, _ = self._checked(score, y, w, t)
        if not self.unlearns:
            raise CapabilityError(f"{self!r} cannot unlearn: its forgetting policy keeps no ages of observations")
        code = self._code(x, label, time, fold)
        if weight == 0.0:
            return
        try:
            self._memory.unlearn(x, code, weight, time)
        except RetractionError:
            what = f"(coordinate {x!r}, label {label:g}, weight {weight!r})"
            where = "that was learned without a fold is held" if fold is None else f"is held in fold {fold}"
            raise RetractionError(
                f"no observation {what} {where}; unlearn only what was learned, from the same fold"
            ) from None

    # -- predicting ----------------------------------------------------------------------------------------------

    def predict_one(self, score: float | Sequence[float], t: Time | None = None, keys: Keys | None = None) -> float:
        """Return the merged probability at K scores, one from each fold's base, or at one score used for all folds."""
        if keys is not None:
            self._refuse(keys)
        if t is None and self._merged is not None and score.__class__ is float and self._lo <= score <= self._hi:
            return self._merged(score, self._rule)
        return float(self._merge(*self._merged_pairs_one(score, 1.0, t)))

    def predict_many(self, scores: ArrayLike, t: Time | None = None, *, keys: Columns | None = None) -> FloatArray:
        """Return the merged probabilities at scores of shape (n, K), a column a fold, or (n,), used for all folds."""
        return super().predict_many(scores, t, keys=keys)

    def _predict_many(self, scores: ArrayLike, t: Time | None) -> FloatArray:
        probabilities: FloatArray = self._merge(*self._merged_pairs_many(scores, 1.0, t))
        return probabilities

    def predict_with_interval_one(
        self, score: float | Sequence[float], t: Time | None = None
    ) -> tuple[float, tuple[float, float]]:
        """Return the results of `predict_one` and `predict_interval_one` by one search of the trees."""
        pairs = self._merged_pairs_one(score, 1.0, t)
        p0, p1 = self._pair(*pairs)
        return float(self._merge(*pairs)), (min(p0, p1), max(p0, p1))

    def predict_interval_one(
        self, score: float | Sequence[float], t: Time | None = None, *, w: float = 1.0
    ) -> tuple[float, float]:
        """Return the merged pair, in order, for a test object of weight `w` > 0 in units of the present."""
        p0, p1 = self._pair(*self._merged_pairs_one(score, positive_weight(w), t))
        return min(p0, p1), max(p0, p1)

    def predict_interval_many(
        self, scores: ArrayLike, t: Time | None = None, *, w: float = 1.0
    ) -> tuple[FloatArray, FloatArray]:
        """Return the merged pairs at scores of shape (n, K) or (n,): two arrays of shape (n,)."""
        p0, p1 = self._pair(*self._merged_pairs_many(scores, positive_weight(w), t))
        return like_both(scores, (np.minimum(p0, p1), np.maximum(p0, p1)))

    # -- predicting and learning ---------------------------------------------------------------------------------

    def predict_learn_many(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        t: Times | None = None,
        *,
        keys: Columns | None = None,
        fold: int | ArrayLike | None = None,
    ) -> FloatArray:
        """Predict and then learn each of n observations: scores of shape (n,), used for every fold when predicting.

        `fold` is one for all, or an array of n. See `Calibrator.predict_learn_many`.
        """
        self._refuse(keys)
        probabilities = in_turn(self.predict_one, self._learn_in_fold, self._rows_in_folds(scores, y, w, t, fold))
        return like(scores, np.array(probabilities, dtype=np.float64))

    def predict_interval_learn_many(
        self,
        scores: ArrayLike,
        y: ArrayLike,
        w: ArrayLike | None = None,
        t: Times | None = None,
        *,
        fold: int | ArrayLike | None = None,
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Do `predict_learn_many` with the merged pairs: (probabilities, lower, upper), three arrays of shape (n,)."""
        rows = self._rows_in_folds(scores, y, w, t, fold)
        return predicted_with_intervals(scores, in_turn(self.predict_with_interval_one, self._learn_in_fold, rows))

    def _rows_in_folds(
        self, scores: ArrayLike, y: ArrayLike, w: ArrayLike | None, t: Times | None, fold: int | ArrayLike | None
    ) -> Iterable[tuple[Any, ...]]:
        """Return the arguments of `learn_one` for each observation, with its fold last."""
        rows = list(self._rows(scores, y, w, t))
        folds = [None] * len(rows) if fold is None else check_folds(fold, self.folds, len(rows)).tolist()
        return [(*row, own) for row, own in zip(rows, folds, strict=True)]

    def _learn_in_fold(self, score: float, y: Label, w: float, t: Time | None, fold: int | None) -> None:
        self.learn_one(score, y, w, t, fold=fold)

    def fold_intervals_one(
        self, scores: float | Sequence[float], w: float = 1.0, t: Time | None = None
    ) -> list[tuple[float, float]]:
        """Return the multiprobability (p₀, p₁) of each fold, valid by the theorem; (0, 1) for an empty fold."""
        return list(zip(*self._pairs_one(scores, positive_weight(w), t), strict=True))

    def _pairs_one(self, scores: float | Sequence[float], w: float, t: Time | None) -> tuple[list[float], list[float]]:
        """Return p₀ and p₁ of every fold."""
        x = [self.scale.coordinate(score) for score in check_fold_scores(scores, self.folds)]
        return self._present(t).intervals_one(x, w)

    def _merged_pairs_one(self, score: Any, w: float, t: Time | None) -> tuple[list[float], list[float]]:
        """Return p₀ and p₁ of the folds that are merged."""
        lower, upper = self._pairs_one(score, w, t)
        return of_filled(self._memory.statistic, lower), of_filled(self._memory.statistic, upper)

    def _merged_pairs_many(self, scores: Any, w: float, t: Time | None) -> tuple[list[FloatArray], list[FloatArray]]:
        """Return p₀ and p₁ of the folds that are merged, arrays of shape (n,)."""
        x = [self.scale.coordinates(column) for column in check_fold_scores_many(scores, self.folds)]
        lower, upper = self._present(t).intervals(x, w)
        return of_filled(self._memory.statistic, lower), of_filled(self._memory.statistic, upper)

    def map(self) -> CrossIntervalMap:
        return cast(CrossIntervalMap, self._map_at(None))

    def solve(self, statistic: FoldedTrees, start: ScaledMap | None) -> CrossIntervalMap:
        folds = []
        for fold in range(self.folds):
            folds.append(IntervalMap(self.scale, *statistic.own_intervals(fold, 1.0), self.point, statistic.grid))
        return CrossIntervalMap(self.scale, folds, self.point)

    def reader(self, statistic: FoldedTrees, start: ScaledMap | None) -> CalibrationMap:
        return FoldTreeMap(self.scale, statistic, self.folds, self._merge)

    def empty_map(self) -> CrossIntervalMap:
        return self.solve(self.new_statistic(), None)


class FoldTreeMap(CalibrationMap):
    """The predictor of K trees, read without making a map of them, at one score that counts for every fold."""

    def __init__(self, scale: Scale, trees: FoldedTrees, folds: int, merge: Callable) -> None:
        super().__init__(scale)
        self._trees = trees
        self._folds = folds
        self._merge = merge

    def at(self, x: float) -> float:
        ends = self._trees.intervals_one([x] * self._folds, 1.0)
        return float(self._merge(*(of_filled(self._trees, end) for end in ends)))

    def at_many(self, x: FloatArray) -> FloatArray:
        ends = self._trees.intervals([x] * self._folds, 1.0)
        return self._merge(*(of_filled(self._trees, end) for end in ends))


def of_filled(trees: FoldedTrees, values: list[Value]) -> list[Value]:
    """Return the values of the folds that contain observations; only these are merged."""
    return [values[fold] for fold in trees.filled()]
